/* Memory planning: the memory needed by training or prediction, and the configuration that fits a budget, before
   anything is loaded. */
#ifndef EITP_PLANNER_H
#define EITP_PLANNER_H

#include "task/predictor.h"
#include "train/train.h"

EITP_BEGIN_DECLARATIONS

/* The run to plan. Start from eitp_fit_default(), then set `create_task`. */
typedef struct eitp_fit {
    /* `parameters` and `plans_only` are ignored. If `offload_path` is set, offloaded variables will be in a file;
       otherwise, with a device that has its own memory, they are in the host's memory. */
    eitp_context_config context;
    /* Creates the task to plan in a context that allocates no memory for variables: the model, with its adapters and
       frozen parameters, and the task. Samples are not read. The planner releases the task and destroys its model. */
    eitp_status (*create_task)(const void *user, eitp_context *context, eitp_task *task, eitp_error *error);
    const void *user;
    eitp_trainer_config trainer;
    int any_optimizer; /* 1: any optimizer except EITP_DIFFERENT_ALGORITHM; 0: the trainer's */
    /* 1: if nothing fits in memory, as few variables as possible are offloaded. With any_optimizer, only compact
       optimizers are then considered, since a file wears the disk. 0: context.offload. */
    int any_offload;
    /* Sequence lengths to choose from, the longest first, and the function that makes create_task use one. length_count
       0: the task's length. */
    const int64_t *lengths;
    size_t length_count;
    int least; /* 1: choose the configuration with the least memory, with the shortest sequences */
    eitp_status (*use_length)(const void *user, int64_t length, eitp_error *error);
    /*
     * Creates other plans that the run needs at times, such as a generator, in a context with the plans of the steps,
     * and destroys them. Their memory counts, as do the *bytes that the run will have but that this context does not
     * allocate: eitp_plan_stats.kept_bytes. May be NULL.
     */
    eitp_status (*create_more)(const void *user, const eitp_task *task, size_t *bytes, eitp_error *error);
    /* Returns the maximum size in bytes of the run's records, such as eitp_run_record_bytes. NULL: nothing is
       recorded. */
    size_t (*record_bytes)(const void *user, const eitp_task *task);
    size_t process;       /* resident bytes of the process without the run; 0: measured now */
    size_t budget;        /* maximum resident bytes of the process; 0: no limit */
    size_t device_budget; /* maximum bytes of the run in a device's own memory; 0: no limit */
} eitp_fit;

/* The default context and trainer, its optimizer, no offloading, no limit. */
EITP_API eitp_fit eitp_fit_default(void);

/* A configuration of the run, with its memory and time. All sizes are in bytes. To measure one, start from
   eitp_fit_candidate_default(). */
typedef struct eitp_fit_candidate {
    /* Set by the caller of eitp_fit_measure. */
    eitp_optimizer optimizer;
    int64_t micro_batches_per_pass; /* 0: chosen by the trainer and stored here */
    eitp_plan_config plan;          /* of a pass */
    eitp_offload offload;
    int64_t length; /* the length in use, from eitp_fit.lengths; 0: the task's length */
    /* Measured. */
    char precision[8];
    size_t parameters, gradients, states; /* variables in memory */
    size_t offloaded;                     /* variables in a file, or in the host's memory instead of the device's */
    size_t arena, workspace;
    size_t logits;  /* part of the arena that holds stored logits */
    size_t records; /* maximum for any length of the run: eitp_fit.record_bytes */
    size_t process; /* everything else */
    size_t device;  /* parameters + gradients + states + arena + workspace, in a device's own memory; 0: there is no
                       such memory */
    /* Host memory: the same sum if it is there, otherwise `offloaded`; plus records and process. */
    size_t total;
    /* Approximate size of a checkpoint. There may be memory for a copy in addition to `total`: see
       eitp_run_config.async_save_bytes. */
    size_t checkpoint;
    double flops, recomputed_flops; /* per step */
    /* The parts of flops, by eitp_component. */
    eitp_flops components[EITP_COMPONENT_COUNT];
    int recomputed;                 /* number of values that a pass recomputes */
    double seconds;                 /* per step, at the nominal speed of the device; see eitp_fit_choose */
    double file_reads, file_writes; /* bytes per step, of offloaded variables */
    int fits;                       /* 1 if `total` and `device` are within their budgets */
} eitp_fit_candidate;

/* EITP_ADAMW, the trainer's choice of passes, no limit, no offloading; nothing is measured. */
EITP_API eitp_fit_candidate eitp_fit_candidate_default(void);

/* Reads the memory of the device that the run will use. Fails as eitp_context_create does. */
EITP_API eitp_status eitp_fit_device_memory(const eitp_fit *fit, eitp_device_memory *memory, eitp_error *error);

/* True if a measured candidate is within the budgets of `fit`. */
EITP_API int eitp_fit_admits(const eitp_fit *fit, const eitp_fit_candidate *candidate);

/* Measures a candidate by building its plans without memory for variables and arena. Requires the members set by the
   caller, and fills in the others. Fails as eitp_trainer_create and fit->create_task do. */
EITP_API eitp_status eitp_fit_measure(const eitp_fit *fit, eitp_fit_candidate *candidate, eitp_error *error);

/* Maximum number of lengths listed by eitp_fit_lengths. */
enum { EITP_FIT_LENGTHS = 8 };

/* Lists the lengths to consider for a model with this many positions if none is requested, for eitp_fit.lengths: all
   positions, at most 2048, and their halves, down to 64. Returns their number. */
EITP_API size_t eitp_fit_lengths(int64_t positions, int64_t lengths[EITP_FIT_LENGTHS]);

/*
 * Chooses the best configuration that fits the budget. Unless fit->least is set, configurations are ranked by these
 * criteria, in this order:
 *
 * 1. longer sequences, from `lengths`;
 * 2. higher fidelity of the optimizer, with any_optimizer;
 * 3. shorter step time. Times are predicted for kernels at full speed, so a configuration that saves memory never
 *    counts as faster than the first configuration of its fidelity that stores everything with the trainer's own choice
 *    of passes. Among equal times, the optimizer closest to AdamW wins.
 *
 * With any_optimizer, EITP_APPROXIMATE is considered only with the shortest length, so it is chosen only if nothing
 * else fits. With any_offload, the same applies to offloaded variables. Variables in a file rank after everything that
 * fits in memory; variables in other memory rank after everything of the same fidelity. A larger budget never gives a
 * worse configuration: all are measured independently of it.
 *
 * Afterwards the chosen length, or the shortest if nothing fits, is in use. If nothing fits, fails with
 * EITP_ERROR_MEMORY and names a sufficient budget. *smallest, which may be NULL, is then the configuration with the
 * smallest `device`, or if that is 0 the smallest `total`; otherwise the chosen one.
 */
EITP_API eitp_status eitp_fit_choose(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                                     eitp_error *error);

/* The compromises of a chosen configuration. Each member is the configuration that avoids one, and its memory
   (`device`, or if that is 0 `total`) is the budget it needs. A member whose `total` is 0 stands for no compromise. */
typedef struct eitp_fit_price {
    eitp_fit_candidate longer;   /* the next longer sequences */
    eitp_fit_candidate faithful; /* an optimizer of the next higher fidelity, for sequences of the chosen length */
    eitp_fit_candidate kept;     /* the chosen configuration with nothing recomputed */
} eitp_fit_price;

/* Finds the compromises of `chosen`, a result of eitp_fit_choose; none with fit->least. Afterwards the chosen length
   is in use. */
EITP_API eitp_status eitp_fit_find_price(const eitp_fit *fit, const eitp_fit_candidate *chosen, eitp_fit_price *price,
                                         eitp_error *error);

/*
 * Chooses config->pass_tokens if it is 0: EITP_PASS_TOKENS, halved until a predictor needs at most `budget` bytes, but
 * at least max_length; budget 0: no limit. Stores the bytes needed (eitp_predictor_estimate) in *bytes, even if it
 * fails with EITP_ERROR_MEMORY because they exceed the budget.
 */
EITP_API eitp_status eitp_fit_predictor(const eitp_model *model, size_t budget, eitp_predictor_config *config,
                                        size_t *bytes, eitp_error *error);

EITP_END_DECLARATIONS

#endif
