/* Memory planning: what training or prediction needs, and what fits a budget, before anything is loaded. */
#ifndef EITP_PLANNER_H
#define EITP_PLANNER_H

#include "task/predictor.h"
#include "train/train.h"

EITP_BEGIN_DECLARATIONS

/* The run to plan. Start from eitp_fit_default(), then set `create_task`. */
typedef struct eitp_fit {
    /* `parameters` and `plans_only` are ignored. `offload_path` says that offloaded variables will be in a file, where
       else a device with memory of its own has them in the host's. */
    eitp_context_config context;
    /*
     * Creates the task to plan in a context that gives variables no memory: the model, with its adapters and frozen
     * parameters, and the task. Samples are not read. The planner releases the task and destroys its model.
     */
    eitp_status (*create_task)(const void *user, eitp_context *context, eitp_task *task, eitp_error *error);
    const void *user;
    eitp_trainer_config trainer;
    int any_optimizer; /* 1: any but EITP_DIFFERENT_ALGORITHM; 0: the trainer's */
    /*
     * 1: if nothing fits in memory, variables are offloaded, as few as possible. Since a file wears a disk, with
     * any_optimizer only compact optimizers are considered then. 0: context.offload.
     */
    int any_offload;
    /*
     * The lengths of sequences to choose from, the longest first, and the function that makes create_task use one.
     * length_count 0: the length is that of the task.
     */
    const int64_t *lengths;
    size_t length_count;
    int least; /* 1: the configuration with the least memory is the best, with the shortest sequences */
    eitp_status (*use_length)(const void *user, int64_t length, eitp_error *error);
    /*
     * Creates what the run has at times besides its steps, such as a generator, in a context with the plans of the
     * steps, and destroys it: its memory counts, with the *bytes that it will have and that the context gives it none
     * of now: eitp_plan_stats.kept_bytes. May be NULL.
     */
    eitp_status (*create_more)(const void *user, const eitp_task *task, size_t *bytes, eitp_error *error);
    /* Bytes that records of the run take at most, such as eitp_run_record_bytes. NULL: nothing is recorded. */
    size_t (*record_bytes)(const void *user, const eitp_task *task);
    size_t process;       /* resident bytes of the process without the run; 0: what they are now */
    size_t budget;        /* resident bytes that the process may have; 0: no limit */
    size_t device_budget; /* bytes that the run may have of a device's own memory; 0: no limit */
} eitp_fit;

/* The default context and trainer, its optimizer, no offloading, no limit. */
EITP_API eitp_fit eitp_fit_default(void);

/* A configuration of the run, with its memory and time. All sizes are in bytes. Start from
   eitp_fit_candidate_default() to have one measured. */
typedef struct eitp_fit_candidate {
    /* Set by the caller of eitp_fit_measure. */
    eitp_optimizer optimizer;
    int64_t micro_batches_per_pass; /* 0: the trainer's choice, which replaces it */
    eitp_plan_config plan;          /* of a pass */
    eitp_offload offload;
    int64_t length; /* of eitp_fit.lengths, the one in use; 0: that of the task */
    /* Measured. */
    char precision[8];
    size_t parameters, gradients, states; /* variables in memory */
    size_t offloaded;                     /* variables in a file, or in the host's memory instead of the device's */
    size_t arena, workspace;
    size_t logits;  /* the part of the arena that holds stored logits */
    size_t records; /* at most, however long the run is: eitp_fit.record_bytes */
    size_t process; /* everything else */
    size_t device;  /* parameters + gradients + states + arena + workspace, in a device's own memory; 0: it has none */
    /* Of the host's memory: the same sum if it is there, otherwise `offloaded`; records and process. */
    size_t total;
    /* About the size of a checkpoint. Beside `total` there may be room for a copy: eitp_run_config.async_save_bytes. */
    size_t checkpoint;
    double flops, recomputed_flops; /* per step */
    /* The parts of flops, by eitp_component. */
    eitp_flops components[EITP_COMPONENT_COUNT];
    int recomputed;                 /* values that a pass recomputes */
    double seconds;                 /* per step, at the nominal speed of the device; see eitp_fit_choose */
    double file_reads, file_writes; /* bytes per step, of offloaded variables */
    int fits;                       /* 1 if `total` and `device` are within their budgets */
} eitp_fit_candidate;

/* EITP_ADAMW, the trainer's choice of passes, no limit, no offloading; nothing is measured. */
EITP_API eitp_fit_candidate eitp_fit_candidate_default(void);

/* Reads the memory of the device that the run will be on. Fails as eitp_context_create does. */
EITP_API eitp_status eitp_fit_device_memory(const eitp_fit *fit, eitp_device_memory *memory, eitp_error *error);

/* True if a candidate that was measured is within the budgets of `fit`. */
EITP_API int eitp_fit_admits(const eitp_fit *fit, const eitp_fit_candidate *candidate);

/*
 * Measures a candidate by building its plans without memory for variables and arena: needs the members that the caller
 * sets, and fills in the others. Fails as eitp_trainer_create and fit->create_task do.
 */
EITP_API eitp_status eitp_fit_measure(const eitp_fit *fit, eitp_fit_candidate *candidate, eitp_error *error);

/* At most so many lengths are in the list of eitp_fit_lengths. */
enum { EITP_FIT_LENGTHS = 8 };

/*
 * Lists the lengths that a model with so many positions is trained with if none is requested, for eitp_fit.lengths: all
 * positions, at most 2048, and their halves, down to 64. Returns their number.
 */
EITP_API size_t eitp_fit_lengths(int64_t positions, int64_t lengths[EITP_FIT_LENGTHS]);

/*
 * Chooses the best configuration that fits the budget. Unless fit->least says otherwise, better is, in this order:
 *
 * 1. the longer sequences, of `lengths`;
 * 2. the higher fidelity of the optimizer, with any_optimizer;
 * 3. the shorter time of a step. Times are predicted for kernels at full speed, so what saves memory never counts as
 *    faster than the first configuration of its fidelity that keeps everything in the trainer's own choice of passes;
 *    of equal times, that of the optimizer closest to AdamW is taken.
 *
 * With any_optimizer, EITP_APPROXIMATE is for the shortest length only, so it is chosen only if nothing else fits.
 * With any_offload, so are offloaded variables. In a file, they come after everything that fits in memory; in other
 * memory, after everything of the same fidelity. A larger budget never gives a worse configuration: all are measured
 * independently of it.
 *
 * The chosen length, or the shortest if nothing fits, is in use afterwards. EITP_ERROR_MEMORY, naming the budget that
 * suffices, if nothing fits. *smallest, which may be NULL, is then the configuration with the smallest `device`, or if
 * that is 0 the smallest `total`; else the chosen one.
 */
EITP_API eitp_status eitp_fit_choose(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_fit_candidate *smallest,
                                     eitp_error *error);

/* What a chosen configuration gave up, each with the configuration that would not, whose memory (`device`, or if that
   is 0 `total`) is the budget that it takes. A member whose `total` is 0: nothing was given up. */
typedef struct eitp_fit_price {
    eitp_fit_candidate longer;   /* the next longer sequences */
    eitp_fit_candidate faithful; /* an optimizer of the next higher fidelity, for sequences of the chosen length */
    eitp_fit_candidate kept;     /* the chosen one, with nothing recomputed */
} eitp_fit_price;

/* Finds what `chosen` by eitp_fit_choose gave up; nothing with fit->least. The chosen length is in use afterwards. */
EITP_API eitp_status eitp_fit_find_price(const eitp_fit *fit, const eitp_fit_candidate *chosen, eitp_fit_price *price,
                                         eitp_error *error);

/*
 * Chooses config->pass_tokens if it is 0: EITP_PASS_TOKENS, halved as often as necessary for a predictor to take at
 * most `budget` bytes, but at least max_length; budget 0: no limit. Stores those bytes (eitp_predictor_estimate) in
 * *bytes, also with EITP_ERROR_MEMORY, which says that they exceed the budget.
 */
EITP_API eitp_status eitp_fit_predictor(const eitp_model *model, size_t budget, eitp_predictor_config *config,
                                        size_t *bytes, eitp_error *error);

EITP_END_DECLARATIONS

#endif
