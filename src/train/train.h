/*
 * Training: steps of a task, evaluation, checkpoints. The program keeps the loop; the trainer keeps everything that a
 * step needs and a checkpoint must hold.
 */
#ifndef EITP_TRAIN_H
#define EITP_TRAIN_H

#include "task/task.h"

EITP_BEGIN_DECLARATIONS

#define EITP_PASS_BYTES ((size_t)768 << 20)

/* A loss term of a step. */
typedef struct eitp_term_report {
    char name[EITP_QUANTITY_NAME];
    double mean;   /* over its items in the step, before the update */
    double weight; /* that it has in the loss */
} eitp_term_report;

/* What a step did. */
typedef struct eitp_step_report {
    int64_t step; /* its number, from 1 */
    double loss;  /* the weighted sum of the terms; of a language model nats per token */
    double learning_rate;
    double grad_norm;                   /* before clipping */
    int64_t items;                      /* of the first term; of a language model tokens */
    int applied;                        /* 0: loss or gradient was not finite, and nothing was changed */
    double update_norm, parameter_norm; /* of the whole update, and of all parameters after it */
    double loss_scale; /* what the loss was multiplied by before its gradients were taken: 1, but in fp16 */
    int64_t skipped;   /* steps so far that were not applied while the loss scale was too large for fp16 */
    int term_count;
    eitp_term_report terms[EITP_PASS_QUANTITIES];
} eitp_step_report;

typedef struct eitp_trainer_config {
    int64_t batch_size;   /* samples in a micro-batch */
    int64_t grad_accum;   /* micro-batches in a step */
    double max_grad_norm; /* 0: no clipping */
    /* Where parameters are BF16, the context must have been made with the optimizer's eitp_parameter_form. */
    eitp_optimizer optimizer;
    eitp_optimizer_config adamw; /* its moments are those of the optimizer */
    eitp_schedule schedule;
    /*
     * Micro-batches that one forward and backward takes together, which gives the same gradient: a weight is then read
     * once for all of them. 0: as many as fit into an arena of EITP_PASS_BYTES, gradients left out; at least 1.
     */
    int64_t micro_batches_per_pass;
    /*
     * Gradients of a step that is one pass live from where they are made to their update, and share the arena with
     * everything else; 1: they are kept in variables even so. The bits are the same.
     */
    int keep_gradients;
    /*
     * Micro-batches that are merged begin at rows where a sum over rows can be cut, so that `micro_batches_per_pass` changes no bit; 1:
     * they follow one another without gaps, and the last bits may depend on `micro_batches_per_pass`. It only makes a difference where
     * the rows of a micro-batch are not a multiple of what products of 16 bits add at once: 2 with AVX512-BF16, 32 with
     * AMX.
     */
    int dense_rows;
    eitp_plan_config plan; /* what the plan of a pass may take, and what it recomputes */
    uint64_t seed;         /* of dropout and shuffling */
    eitp_shuffle shuffle;
    uint64_t
        last_sample; /* training stops having used this many samples, in the middle of a step if need be; 0: never */
    /* The learning rate of a step, instead of the schedule; what is called after each step. Both may be NULL. */
    double (*rate)(void *user, int64_t step);
    void (*after_step)(void *user, const eitp_step_report *report);
    void *user;
} eitp_trainer_config;

/* Batch 1, accumulation 4, clip 0.5, AdamW's defaults, constant 5e-5, shuffled. */
EITP_API eitp_trainer_config eitp_trainer_config_default(void);

/*
 * Sets last_sample and schedule.steps so that training ends after `epochs` passes over the task's samples, of which the
 * last may be a part.
 */
EITP_API eitp_status eitp_trainer_config_set_epochs(eitp_trainer_config *config, const eitp_task *task, double epochs,
                                                    eitp_error *error);

typedef struct eitp_trainer eitp_trainer;

/*
 * Prepares training. All memory that it needs is taken here. Parameters that the task's build declares are zero until
 * they are filled. The task is copied; what it points to must live as long as the trainer.
 */
EITP_API eitp_status eitp_trainer_create(const eitp_task *task, const eitp_trainer_config *config,
                                         eitp_trainer **trainer, eitp_error *error);
EITP_API void eitp_trainer_destroy(eitp_trainer *trainer);

/* ---- Planning: what a run takes, before anything is loaded ---- */

/* A run that is to be planned. */
typedef struct eitp_fit {
    eitp_context_config context; /* its parameters, offload_path and plans_only are the planner's */
    /*
     * Makes the task that is planned in a context whose variables have no memory: its model, with adapters and what is
     * frozen. Nothing is read from its data. The task is released after it was measured, and its model destroyed.
     */
    eitp_status (*make)(const void *user, eitp_context *context, eitp_task *task, eitp_error *error);
    const void *user;
    eitp_trainer_config trainer;
    int any_optimizer; /* any of AdamW's that fits, the most faithful first; 0: the trainer's */
    /* Where nothing fits in memory, variables may be offloaded from a file, as few as will do; 0: the context's `offload`
       it is. It wears a disk, so of any optimizer only compact ones are. */
    int any_offload;
    size_t process; /* resident bytes of the process beside the run, 0: what they are now */
    size_t budget;  /* bytes that may be resident in all; 0: no limit */
} eitp_fit;

/* One way to run it, and what that takes: a rung of the ladder. */
typedef struct eitp_rung {
    eitp_optimizer optimizer;
    char precision[8];
    int64_t micro_batches_per_pass; /* micro-batches that one run takes together; 0 asks for the trainer's choice */
    eitp_plan_config plan;          /* of a run */
    eitp_offload offload;
    size_t parameters, gradients, states; /* that outlive a run, in memory */
    size_t offloaded;                     /* and in a file */
    size_t arena, workspace, logits;      /* logits: part of the arena, where they are kept whole */
    size_t process;                       /* everything else */
    size_t total;
    double flops, recomputed_flops; /* of a step */
    int recomputed;                 /* values that a run computes again */
    double seconds;                 /* that a step takes at the nominal speed of the device */
    double file_reads, file_writes; /* bytes that a step moves from and to the file */
    int fits;
} eitp_rung;

/* Fills in what a rung takes, given its optimizer, micro_batches_per_pass, plan and offload. Takes next to no memory itself. */
EITP_API eitp_status eitp_rung_measure(const eitp_fit *fit, eitp_rung *rung, eitp_error *error);

/*
 * The fastest rung of the most faithful optimizer that fits the budget, in memory if that can be. EITP_ERROR_MEMORY,
 * with the budget that would do, where none does; *smallest, which may be NULL, is the rung that takes least of those
 * looked at.
 */
EITP_API eitp_status eitp_fit_choose(const eitp_fit *asked, eitp_rung *chosen, eitp_rung *smallest, eitp_error *error);

/*
 * Makes one step: all its micro-batches and the update. After last_sample it is EITP_END_OF_DATA, and nothing is
 * changed. A step that fails leaves the report as it was, and the trainer too, unless it fails half-way, having begun
 * to change weights or optimizer state (reading or writing offloaded ones fails): then the trainer is torn.
 */
EITP_API eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error);

/* The mean of a loss term or a measure over the samples of an evaluation. */
typedef struct eitp_measure {
    char name[EITP_QUANTITY_NAME];
    double mean;  /* over its items; not finite where that of any item is not */
    double error; /* standard error of the mean, over samples; 0 where it is not one of samples */
    int64_t items;
} eitp_measure;

typedef struct eitp_evaluation {
    double loss;   /* the weighted sum of the terms, with the weights of the step; of a language model nats per token */
    double error;  /* standard error of it, over samples; 0 where a term is a number */
    int64_t items; /* of the first term; of a language model tokens */
    int term_count, measure_count;
    eitp_measure measures[EITP_PASS_QUANTITIES]; /* term_count terms, then measures; in the order of the task's build */
} eitp_evaluation;

/*
 * True if a step or a resume failed half-way, so that some weights and optimizer state are of before it and some of
 * after. Steps, evaluation, shrinking and saving are EITP_ERROR_TORN until eitp_trainer_resume succeeds.
 */
EITP_API int eitp_trainer_is_torn(const eitp_trainer *trainer);

/*
 * Measures the validation samples: all of them, or `samples` of them (0: all), which are drawn with the trainer's seed
 * from all of the validation data and are the same in every evaluation of the run.
 */
EITP_API eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t samples, eitp_evaluation *evaluation,
                                           eitp_error *error);

/* True if evaluations have "loss", a loss term or a measure of that name. */
EITP_API int eitp_trainer_has_measure(const eitp_trainer *trainer, const char *name);

/* Steps made so far. */
EITP_API int64_t eitp_trainer_steps_done(const eitp_trainer *trainer);

/* Micro-batches that one forward and backward takes together. */
EITP_API int64_t eitp_trainer_micro_batches_per_pass(const eitp_trainer *trainer);

/* How the sequences of a step are taken: of batch_size * grad_accum in all, micro_batches_per_pass * batch_size at a time. */
typedef struct eitp_step_shape {
    int64_t batch_size, grad_accum, micro_batches_per_pass;
} eitp_step_shape;

EITP_API eitp_step_shape eitp_trainer_shape(const eitp_trainer *trainer);

typedef struct eitp_shrink_report {
    int shrunk; /* 0: there is nothing smaller, and nothing was changed */
    eitp_step_shape before, after;
    size_t bytes_before, bytes_after; /* of gradients that outlive a run, and of the arena */
    int recomputed;                   /* values that a run computes again now */
} eitp_shrink_report;

/*
 * Makes a run smaller between two steps, where its machine goes short of memory: takes the next smaller way to run it
 * that neither weights nor optimizer state notice, and gives the memory back to the system. That is computing more
 * values again, or half the sequences at a time: fewer merged micro-batches, then smaller ones and more of them;
 * whichever really lowers what is needed, and of those that free a quarter of the arena the one that costs least time.
 * A step has the same sequences, and the mean over their targets, as ever. The bits stay the same, unless a micro-batch
 * is split where its rows are not a multiple of what products add at once (see dense_rows), or a parameter is used so
 * that they depend on how many micro-batches a pass takes (see eitp_task): then the last ones change, which is logged.
 * Checkpoints have the new shape, and resume with the old one too.
 *
 * It needs a little memory itself. EITP_ERROR_MEMORY leaves the trainer as it was; where there is no longer memory for
 * that either, steps fail, and try to get it, while saving works. What plans of the context had in the arena is lost.
 */
EITP_API eitp_status eitp_trainer_shrink(eitp_trainer *trainer, eitp_shrink_report *report, eitp_error *error);

/* What a plan that trains costs: arithmetic and memory of the merged micro-batches. */
EITP_API eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer);

/*
 * Writes checkpoint-<step> into a directory, which is made where it is missing. It is a model directory with the state
 * of the optimizer; of a model with adapters it has these (eitp_lora_save) instead of the weights, which are as they
 * were loaded, and their checksum. Other parameters that are trained beside adapters, as a task's own head, are in
 * parameters.safetensors.
 */
EITP_API eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error);

/*
 * Goes on from a checkpoint directory, bit for bit as if it had never stopped. The trainer must have been made with the
 * configuration, data and kernels of the run that wrote it: what differs and would change bits is refused, by name. The
 * trainer may have the shape that a run began with which was shrunk later: then it is shrunk to the same. A model with
 * adapters must have the weights that these were trained on. The optimizer may be another one: weights and moments are
 * converted, as docs/memory.md says, and a warning is logged; learning rates are not, and those of EITP_SGD are orders
 * of magnitude larger.
 *
 * All files are read and checked before anything is changed, then read again into the variables. If that fails after
 * all the trainer is torn, and can be resumed from this or another checkpoint.
 */
EITP_API eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error);

/*
 * Measures a split of a task without a trainer, `batch_size` samples at a time: all of it, or `samples` of it (0: all),
 * drawn as eitp_trainer_evaluate draws them with seed 0. Terms have the weights of step 1.
 */
EITP_API eitp_status eitp_evaluate(const eitp_task *task, eitp_split split, int64_t batch_size, int64_t samples,
                                   eitp_evaluation *evaluation, eitp_error *error);

/* What the trainer's checkpoint says, for a program that makes the trainer anew. */
typedef struct eitp_checkpoint_info {
    int64_t step;
    eitp_trainer_config config;
    int64_t rows; /* of a sample; of a language model its block size */
    char numerics[100];
    char precision[8];             /* "fp32", "bf16" or "fp16" */
    eitp_lora_config lora;         /* rank 0: it has the whole model */
    eitp_step_shape initial_shape; /* that the run began with; the configuration has the one that it was shrunk to */
} eitp_checkpoint_info;

EITP_API eitp_status eitp_checkpoint_read_info(const eitp_host *host, const char *checkpoint,
                                               eitp_checkpoint_info *info, eitp_error *error);

/* ---- Settings: what a trainer can be set to, for programs that list, parse or record it ---- */

typedef enum eitp_setting_kind {
    EITP_SETTING_INTEGER = 0,  /* int64_t */
    EITP_SETTING_UNSIGNED = 1, /* uint64_t */
    EITP_SETTING_NUMBER = 2,   /* double */
    EITP_SETTING_FLAG = 3,     /* int, 0 or 1 */
    EITP_SETTING_CHOICE = 4    /* an enum whose values count from 0, as `words` do */
} eitp_setting_kind;

/* What it means that a run that is resumed has another value than its checkpoint. */
typedef enum eitp_difference {
    EITP_DIFFERENCE_REFUSED = 0, /* the bits would differ */
    EITP_DIFFERENCE_LOGGED = 1,  /* a warning */
    EITP_DIFFERENCE_ACCEPTED = 2 /* nothing */
} eitp_difference;

/* Bits of eitp_setting.flags; bounds are excluded of numbers alone. */
enum {
    EITP_SETTING_ABOVE = 1,   /* `low` itself is excluded */
    EITP_SETTING_BELOW = 2,   /* `high` itself is excluded */
    EITP_SETTING_OPTIONAL = 4 /* a checkpoint without it has the default, and is written without it where it has that */
};

/* A member of eitp_trainer_config that checkpoints record. */
typedef struct eitp_setting {
    const char *name; /* as in trainer_state.json */
    eitp_setting_kind kind;
    size_t offset;    /* of the member */
    double low, high; /* bounds, -HUGE_VAL and HUGE_VAL: none; of a choice they follow from `words` */
    unsigned flags;
    eitp_difference difference;
    const char *words; /* of a choice: the names of its values, separated by spaces; else NULL */
    const char *help;  /* one line */
} eitp_setting;

/* All settings, in the order of trainer_state.json; `count` may be NULL. */
EITP_API const eitp_setting *eitp_trainer_settings(size_t *count);

/* The value of a setting, of any kind; one that the type cannot hold is cast to it. */
EITP_API int64_t eitp_setting_integer(const eitp_setting *setting, const eitp_trainer_config *config);
EITP_API double eitp_setting_number(const eitp_setting *setting, const eitp_trainer_config *config);

/* Gives a setting a value. One out of bounds or of another kind is EITP_ERROR_ARGUMENT and changes nothing. */
EITP_API eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, eitp_trainer_config *config,
                                              eitp_error *error);
EITP_API eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, eitp_trainer_config *config,
                                             eitp_error *error);

/* Writes the value: a number in digits that read back to the same, "true", "false", or the word of a choice. */
EITP_API void eitp_setting_format(const eitp_setting *setting, const eitp_trainer_config *config, char *text,
                                  size_t size);

/* Writes what a value must be: "at least 0 and below 1", "constant, linear or cosine". */
EITP_API void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
