/*
 * Training: the steps of a task, evaluation and checkpoints. The program owns the loop (or calls eitp_run); the trainer
 * owns everything that a step needs and that a checkpoint must hold.
 *
 * Functions that return an eitp_status fail with EITP_ERROR_ARGUMENT if a required pointer is NULL. The others document
 * their result for NULL.
 */
#ifndef EITP_TRAIN_H
#define EITP_TRAIN_H

#include "objective/objective.h"

EITP_BEGIN_DECLARATIONS

/* ---- Reports ---- */

/* A loss term of a step. */
typedef struct eitp_term_report {
    char name[EITP_SCALAR_NAME_SIZE];
    double mean;   /* mean over the term's items in the step, before the update */
    double weight; /* weight of the term in the loss */
    /* L2 norm of its weighted gradient over the first pass of the step, if term_norms_every requests it; otherwise
       negative. */
    double grad_norm;
} eitp_term_report;

/* The update of a learner in a step. The members are as in eitp_step_report. */
typedef struct eitp_learner_report {
    char name[EITP_SCALAR_NAME_SIZE]; /* its prefix, without the dot at the end */
    double learning_rate, grad_norm, update_norm, parameter_norm;
    int applied; /* 0 if the learner's gradient was not finite: its parameters are unchanged */
    int clipped;
} eitp_learner_report;

/* Bits that say which values of a step are spikes. */
enum { EITP_SPIKE_LOSS = 1, EITP_SPIKE_GRADIENT = 2 };

/* The seconds of a step, which add up to `total`. A device that computes several phases at the same time, or does not
   measure them, reports them in `other`. */
typedef struct eitp_step_times {
    double total;
    double data;     /* waiting for samples, or reading them */
    double forward;  /* without recomputation for the backward pass */
    double backward; /* with recomputation */
    double update;   /* clipping and the optimizer */
    double transfer; /* waiting for offloaded variables */
    double other;    /* inputs and results, and rebuilding plans */
} eitp_step_times;

/* The L2 norms of a group of parameters: of a layer, such as transformer.h.0, or of a module outside the layers, such
   as transformer.wte. */
typedef struct eitp_group_norms {
    char name[64];         /* common prefix of the parameters' names */
    double grad_norm;      /* before clipping */
    double update_norm;    /* L2 norm of the whole update, including the learning rate */
    double parameter_norm; /* after the update */
} eitp_group_norms;

/* Statistics of the activations of a layer, or of a module outside the layers. Each is negative if it is not
   available. */
typedef struct eitp_layer_activations {
    char name[64]; /* as in eitp_group_norms */
    double rms;    /* root mean square of the inputs of its norms (the residual stream) */
    /* Mean entropy of the attention of a query, divided by its maximum, the logarithm of the number of rows that it may
       attend to: 0 if it attends to one row, 1 if it attends equally to all. Over the heads of up to 16 rows. */
    double attention_entropy;
    double dead_units; /* fraction of the units of its activation functions whose magnitude is at most 0.001 in all
                          rows */
} eitp_layer_activations;

/* The result of a step. */
typedef struct eitp_step_report {
    int64_t step;     /* number of the step, from 1 */
    double loss;      /* weighted sum of the terms; for a language model in nats per token */
    double task_loss; /* loss without regularizers, comparable with evaluations and other steps */
    double learning_rate;
    double grad_norm;      /* L2 norm of the whole gradient, before clipping */
    int64_t items;         /* items of the first term; for a language model, tokens */
    int applied;           /* 0 if the gradient was not finite, or above the bound of skip_spikes; the step then changed
                              nothing */
    double update_norm;    /* L2 norm of the whole update */
    double parameter_norm; /* L2 norm of all parameters, after the update */
    double loss_scale;     /* factor of the loss for the backward pass; 1 except in fp16 */
    int clipped;           /* 1 if the update used the gradient scaled down to max_grad_norm */
    int64_t skipped;       /* steps so far that were not applied because the loss scale was too large for fp16 */
    int spike;             /* a sum of EITP_SPIKE_...: the values far above their medians; 0: none */
    /* Medians of the task's loss and of the norm over the last 100 applied steps; 0: no such steps. */
    double usual_loss, usual_grad_norm;
    eitp_step_times times;
    double flops;           /* arithmetic operations of the step, without recomputation */
    int64_t spikes_skipped; /* steps so far that were not applied because of skip_spikes */
    /* The gradient noise scale in samples, if noise_scale_every requests it in this step: the batch size at which the
       mean gradient has as much noise as signal. Negative otherwise, or if it is unknown. */
    double noise_scale;
    const char *noise_scale_unknown; /* reason, a constant string; NULL if it is known, or was not requested */
    int term_count;                  /* number of terms in the loss of this step */
    int step_metric_count;           /* number of metrics of eitp_pass_step_metric and eitp_pass_parameter_metric; their
                                        weight is 0 */
    eitp_term_report terms[EITP_MAX_STEP_SCALARS]; /* the terms, and after them the metrics */
    /* With eitp_objective_config.grad_cap: the norms of the task's gradient and of the regularizers' gradient, and the
       factor applied to the latter. 0: no cap. */
    double task_grad_norm, regularizer_grad_norm, regularizer_scale;
    int learner_count; /* number of learners (see eitp_pass_learner); the norms above are the model's */
    eitp_learner_report learners[EITP_MAX_LEARNERS];
} eitp_step_report;

/* ---- Configuration ---- */

/* Maximum arena, excluding gradients, when the trainer chooses micro_batches_per_pass. */
#define EITP_PASS_BYTES ((size_t)768 << 20)

/*
 * The rule of EITP_SCHEDULE_PLATEAU for reducing the learning rate. Evaluations are counted as in ReduceLROnPlateau of
 * torch.optim.lr_scheduler with mode "min" and a relative threshold: an evaluation is an improvement if its loss is
 * below best * (1 - threshold), and then becomes the best. After more than `patience` evaluations in a row without
 * improvement, the rate is multiplied by `factor`, and the count restarts. The rate never falls below schedule.final,
 * and is not reduced by less than 1e-8. A non-finite loss is not an improvement. Evaluations during the warm-up do not
 * count. Start from eitp_plateau_config_default().
 */
typedef struct eitp_plateau_config {
    double factor;    /* 0 or more, below 1 */
    int64_t patience; /* number of consecutive evaluations without improvement that are tolerated; 0 or more */
    double threshold; /* smallest relative improvement; 0 or more, below 1 */
    int64_t cooldown; /* evaluations after a reduction that are not counted as failures; 0 or more */
} eitp_plateau_config;

/* PyTorch's: factor 0.1, patience 10, threshold 1e-4, no cooldown. */
EITP_API eitp_plateau_config eitp_plateau_config_default(void);

/* Start from eitp_trainer_config_default(). The struct is copied; `user` must outlive the trainer. */
typedef struct eitp_trainer_config {
    int64_t batch_size;   /* samples per micro-batch, at least 1 */
    int64_t grad_accum;   /* micro-batches per step, at least 1 */
    double max_grad_norm; /* clips the gradient to this L2 norm; 0: no clipping */
    /*
     * A loss or a gradient norm is a spike if it exceeds the median of the last 100 applied steps (at least 20) by
     * `spike_threshold` deviations, where a deviation is 1.4826 times the median absolute deviation, and also by a
     * quarter of the median (for the norm: by the median). Spikes are reported. 0: no spikes.
     */
    double spike_threshold;
    /*
     * 1: a step whose gradient norm is a spike is not applied. A spike of the loss alone is applied, since the loss is
     * not known before a step that updates as it goes. After 10 skipped steps in a row, the norm counts as permanently
     * changed, and the window restarts. Checkpoints hold the window, so a run skips the same steps regardless of where
     * it is interrupted and resumed.
     */
    int skip_spikes;
    /*
     * Measures the gradient noise scale (McCandlish et al., arXiv 1812.06162) every N steps: see eitp_step_report. Each
     * measurement reads the gradients once more, in the calling thread, after the first of several passes; a step with
     * a single pass has no second gradient to compare. Numerator and denominator are averaged over about the last 20
     * measurements, which checkpoints hold. The bits of training do not depend on it. 0: never.
     */
    int64_t noise_scale_every;
    /* With 16-bit precision the context must have been created with the optimizer's eitp_parameter_form. The trainer
     * sets `loss_scale` and `unique` itself. */
    eitp_optimizer_config optimizer_config;
    eitp_schedule schedule;
    eitp_plateau_config plateau; /* used by EITP_SCHEDULE_PLATEAU; see eitp_trainer_report_validation */
    /*
     * Layer-wise learning-rate decay (Clark et al., "ELECTRA", arXiv 2003.10555). Parameters above the blocks have the
     * learning rate of the schedule. From there down, each block, and finally the embeddings, have the rate of the
     * layer above times this factor, which is above 0 and at most 1. Adapters have the rate of their block. 1: the same
     * rate for all. Other values require a task with a model that has blocks.
     */
    double layer_lr_decay;
    /*
     * Micro-batches per forward and backward pass, 0 to grad_accum. More micro-batches read each weight less often and
     * need a larger arena; the gradient is the same. 0: chosen by the trainer for passes of about 1024 rows, if their
     * arena, excluding gradients, fits EITP_PASS_BYTES.
     */
    int64_t micro_batches_per_pass;
    /*
     * 0: if a step is a single pass, each gradient lives in the arena from its computation to its update. 1: gradients
     * are stored in variables even then. The results are bit-identical.
     */
    int keep_gradients;
    /*
     * 0: each micro-batch of a pass is padded so that results do not depend on `micro_batches_per_pass`. 1: no padding;
     * the last bits may depend on it. Padding is needed only if the rows of a micro-batch are not a multiple of the
     * rows that a 16-bit product sums at once: 2 with AVX512-BF16, 32 with AMX.
     */
    int dense_rows;
    eitp_plan_config plan; /* memory limit and recomputation of the plan of a pass */
    /*
     * Threads that read the samples of the next steps during a step, up to 256. 0: the calling thread reads the samples
     * at the start of a step. The results are bit-identical. The threads call eitp_task.read until the trainer is
     * destroyed, concurrently if there are several (see eitp_task). If the system has no threads, the calling thread
     * reads ahead.
     */
    int64_t data_workers;
    int64_t prefetch; /* steps that each data worker reads ahead, 1 to 1024; not eitp_task.prefetch */
    uint64_t seed;    /* seed of dropout and shuffling */
    eitp_shuffle shuffle;
    /* Training ends after this many samples, within a step if necessary; 0: never. */
    uint64_t last_sample;
    /* 0: resuming with other training data is refused. 1: it is accepted if the data have as many items, and logged. If
       items are samples, they may have another length. */
    int accepts_other_data;
    /*
     * Dtype of the weights in checkpoints. Resuming restores them exactly with any dtype: the bits missing from 16-bit
     * weights are in the optimizer's file. If F16 cannot represent a weight, a checkpoint stores all weights in F32,
     * with a warning. Adapters are F32: EITP_ERROR_ARGUMENT for another dtype.
     */
    eitp_save_dtype save_dtype;
    eitp_objective_config objective; /* regularizers added to the task */
    /* Returns the learning rate of a step, from 1, and replaces `schedule`; may be NULL. */
    double (*rate)(void *user, int64_t step);
    /* Called after each successful step; may be NULL. */
    void (*after_step)(void *user, const eitp_step_report *report);
    void *user; /* first argument of `rate` and `after_step` */
} eitp_trainer_config;

/*
 * Batch size 1, accumulation 4, clipping at 0.5, spikes from 10 deviations on, AdamW's defaults, constant rate 5e-5 for
 * all layers, plateaus with PyTorch's factor 0.1, patience 10, threshold 1e-4 and no cooldown, shuffled windows, no
 * workers, prefetch 2, weights in files as loaded.
 */
EITP_API eitp_trainer_config eitp_trainer_config_default(void);

/*
 * Sets last_sample and schedule.steps so that training ends after `epochs` passes over the task's training samples;
 * `epochs` may be fractional. Set batch_size and grad_accum first. A run resumed after a last step that was not full
 * takes up to one more step. EITP_ERROR_ARGUMENT if `epochs` is not above 0, or exceeds 9e15 samples; the configuration
 * is then unchanged.
 */
EITP_API eitp_status eitp_trainer_config_set_epochs(eitp_trainer_config *config, const eitp_task *task, double epochs,
                                                    eitp_error *error);

/* ---- Trainer ---- */

typedef struct eitp_trainer eitp_trainer;

/*
 * Creates a trainer and allocates all memory that its steps and evaluations need. Parameters that the task's `build`
 * declares are zero until they are written. The task struct is copied; everything it points to must outlive the
 * trainer. After a failure *trainer is NULL.
 *
 * EITP_ERROR_ARGUMENT if the task has no training samples, or a setting is out of bounds (eitp_settings_of);
 * EITP_ERROR_UNSUPPORTED if the optimizer cannot run in the context's precision, or micro-batches cannot share a pass.
 */
EITP_API eitp_status eitp_trainer_create(const eitp_task *task, const eitp_trainer_config *config,
                                         eitp_trainer **trainer, eitp_error *error);

/* Waits for reads in flight by data workers, and releases the trainer. NULL is harmless. */
EITP_API void eitp_trainer_destroy(eitp_trainer *trainer);

/*
 * Makes one step: the passes over all its micro-batches, and the update. After `last_sample` it returns
 * EITP_END_OF_DATA and changes nothing.
 *
 * A step that fails leaves *report unchanged. The trainer is also unchanged and the step can be retried, unless it
 * failed after starting to change weights or optimizer state (for example because offloaded variables could not be
 * written): then the trainer is inconsistent (see eitp_trainer_is_inconsistent).
 *
 * A program with its own loop stops a step with eitp_context_set_poll. After EITP_ERROR_INTERRUPTED, the step was
 * abandoned, and the trainer can save, or repeat the step with the same bits. A step that has started to change weights
 * or optimizer state is completed instead.
 */
EITP_API eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error);

/*
 * Gets the norms of the last step by groups of parameters, in the order of the model's parameters: the first `capacity`
 * groups, and the number of groups in *count. The update has already computed them. Call this before the trainer
 * evaluates or makes another step; otherwise, and before the first step, it fails with EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_status eitp_trainer_group_norms(const eitp_trainer *trainer, eitp_group_norms *groups, size_t capacity,
                                              size_t *count, eitp_error *error);

/*
 * Makes the next step collect statistics of activations in the forward pass of its first pass. They are computed from
 * the results of the ops, in the calling thread; the bits of the step do not change. The first call allocates 320 KiB.
 * After EITP_ERROR_MEMORY, nothing is collected.
 */
EITP_API eitp_status eitp_trainer_watch_activations(eitp_trainer *trainer, eitp_error *error);

/* Gets the last collected statistics: the first `capacity` layers, in the order of the forward pass, and the number of
   layers in *count, which is 0 if nothing was collected. */
EITP_API eitp_status eitp_trainer_activations(const eitp_trainer *trainer, eitp_layer_activations *layers,
                                              size_t capacity, size_t *count, eitp_error *error);

/*
 * True if a step or a resume failed partway, so weights and optimizer state do not belong to the same step. An
 * inconsistent trainer refuses to step, evaluate, shrink and save with EITP_ERROR_INCONSISTENT until
 * eitp_trainer_resume succeeds. False for NULL.
 */
EITP_API int eitp_trainer_is_inconsistent(const eitp_trainer *trainer);

/* Returns the number of steps so far, including steps before a resume; 0 for NULL. */
EITP_API int64_t eitp_trainer_steps_done(const eitp_trainer *trainer);

/* The division of a step: it has batch_size * grad_accum samples, and a pass takes batch_size *
   micro_batches_per_pass. */
typedef struct eitp_step_shape {
    int64_t batch_size, grad_accum, micro_batches_per_pass;
} eitp_step_shape;

/* Returns the current shape, with the micro_batches_per_pass chosen by the trainer; all 0 for NULL. */
EITP_API eitp_step_shape eitp_trainer_shape(const eitp_trainer *trainer);

/* Returns eitp_trainer_shape(trainer).micro_batches_per_pass. */
EITP_API int64_t eitp_trainer_micro_batches_per_pass(const eitp_trainer *trainer);

/* Returns the memory and arithmetic of one training pass; all 0 for NULL. */
EITP_API eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer);

/* ---- Evaluation ---- */

/* Maximum number of loss terms and metrics of an evaluation. */
#define EITP_MAX_METRICS (EITP_MAX_STEP_SCALARS + EITP_MAX_TASK_METRICS)

typedef struct eitp_evaluation {
    double loss;   /* weighted sum of the terms; for a language model in nats per token */
    double error;  /* standard error of the loss, over samples; 0 if a term has no value per sample */
    int64_t items; /* items of the first term; for a language model, tokens */
    int term_count, metric_count;
    /* metric_count metrics: first the terms, then the metrics, in the order of the task's `build`, then the task's
       `metrics`. */
    eitp_metric metrics[EITP_MAX_METRICS];
} eitp_evaluation;

/*
 * Evaluates `samples` validation samples of the task; all if it is 0 or exceeds their number. They are drawn with the
 * trainer's seed from all of the validation data, and are the same in every evaluation. Terms have the weights of the
 * last step. EITP_ERROR_ARGUMENT if the task has no validation samples. EITP_ERROR_INTERRUPTED if eitp_context_set_poll
 * stops it.
 */
EITP_API eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t samples, eitp_evaluation *evaluation,
                                           eitp_error *error);

/*
 * Reports the validation loss after the last step to the trainer. EITP_SCHEDULE_PLATEAU sets the learning rate of the
 * following steps by it; with another schedule, or with `rate`, the call has no effect. eitp_run_train calls it after
 * each evaluation. A program with its own loop calls it after eitp_trainer_evaluate; any number where lower is better
 * can be passed. Checkpoints hold the counts, so save after the call. Only the first call after a step counts. Returns
 * 1 if the learning rate was reduced, which is logged; 0 otherwise, and for NULL.
 */
EITP_API int eitp_trainer_report_validation(eitp_trainer *trainer, double loss);

/*
 * Evaluates `samples` samples of a split of a task without a trainer, `batch_size` at a time; all if `samples` is 0 or
 * exceeds their number. They are drawn as in eitp_trainer_evaluate, with seed 0. Terms have the weights of step 1.
 * EITP_ERROR_ARGUMENT if the split has no samples, or batch_size is below 1.
 */
EITP_API eitp_status eitp_evaluate(const eitp_task *task, eitp_split split, int64_t batch_size, int64_t samples,
                                   eitp_evaluation *evaluation, eitp_error *error);

/* ---- Shrinking: less memory during a run ---- */

typedef struct eitp_shrink_report {
    int shrunk; /* 0: no configuration uses less memory, and nothing was changed */
    eitp_step_shape before, after;
    size_t bytes_before, bytes_after; /* bytes of the arena, and of gradients in variables */
    int recomputed;                   /* number of values that a pass now recomputes */
} eitp_shrink_report;

/*
 * Switches to a configuration that uses less memory, between two steps, and returns the memory to the system. The
 * candidates recompute more values or take half as many samples per pass: fewer micro-batches per pass first, then
 * smaller and more micro-batches. The fastest candidate that frees a quarter of the arena is chosen, or the smallest
 * one if none does.
 *
 * A step keeps its samples and the mean over them. The results are bit-identical, with two exceptions that change the
 * last bits and are logged: a micro-batch is split where its rows are not a multiple of the rows that a product sums at
 * once (see `dense_rows`), or the gradient of a parameter depends on the number of micro-batches per pass (see
 * eitp_task). Checkpoints record the new shape. They can be resumed with the new or the initial one.
 *
 * Shrinking itself needs some memory. After EITP_ERROR_MEMORY the trainer is unchanged or, if there is not enough
 * memory for that, has no plans: steps and evaluations then try to recreate them, and saving works. The contents of the
 * arena are lost, including outputs of other plans.
 */
EITP_API eitp_status eitp_trainer_shrink(eitp_trainer *trainer, eitp_shrink_report *report, eitp_error *error);

/* ---- Checkpoints ---- */

/*
 * Writes the checkpoint "checkpoint-<step>" into a directory, which is created if it is missing. The checkpoint is a
 * model directory plus the optimizer state. If the model has adapters, it holds the adapters (eitp_lora_save) and a
 * checksum of the frozen weights instead of the weights. Other trained parameters, such as a head of the task, are in
 * parameters.safetensors, and so are the parameters of learners (eitp_pass_learner) in any case. A checkpoint of the
 * same step is replaced only when the new one is complete.
 */
EITP_API eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error);

/*
 * Resumes from a checkpoint directory. If the trainer has the configuration, data and kernels of the run that wrote the
 * checkpoint, training continues bit for bit as if it had not been interrupted. A difference that would make it another
 * run, such as other data, another seed or another number of samples per step, is refused and named. The following may
 * differ; the effects are logged:
 *
 * - The shape, if a step has as many samples. The results are bit-identical in the same cases as after
 *   eitp_trainer_shrink; otherwise their last bits differ. A trainer with the initial shape of a run that was later
 *   shrunk is shrunk in the same way.
 * - The precision, and the kernels. The results differ from there on, with other kernels in their last bits.
 * - The optimizer. Weights and moments are converted as docs/memory.md describes. Learning rates are not converted;
 *   rates for EITP_SGD are orders of magnitude larger.
 * - The length. A longer run continues with the first sample that was not read, so each sample is read once per epoch.
 *   It has the same bits as a run with that length from the start if its learning rates are the same, and the last step
 *   of the shorter run was full.
 * - The training data, if accepts_other_data is set.
 * - Other settings that do not affect the samples: schedule, clipping, betas, weight decay.
 *
 * A model with adapters must have the frozen weights that the adapters were trained on.
 *
 * All files are compared with manifest.json (eitp_checkpoint_verify) before anything is changed, and then read again
 * into the variables. If the second reading fails, the trainer is inconsistent and can be resumed from this or another
 * checkpoint.
 */
EITP_API eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error);

/* The trainer's record in a checkpoint, for a program that recreates the trainer. */
typedef struct eitp_checkpoint_info {
    int64_t step;
    int64_t samples;                       /* training samples read by the steps */
    eitp_trainer_config config;            /* its settings and optimizer; other members are defaults */
    int64_t rows;                          /* rows of a sample; for a language model, the block size */
    eitp_task_identity data;               /* identity of the training data; zeros if the task has no `identify` */
    char numerics[100];                    /* eitp_context_numerics */
    char precision[8];                     /* "fp32", "bf16" or "fp16" */
    eitp_lora_config lora;                 /* rank 0: the checkpoint holds the whole model */
    const eitp_architecture *architecture; /* architecture of the model that the adapters belong to; NULL: no
                                              adapters */
    eitp_step_shape initial_shape;         /* shape of the run's first step; `config` has the shape after shrinking */
} eitp_checkpoint_info;

/* Reads only a checkpoint's trainer_state.json. *info is unchanged after a failure. */
EITP_API eitp_status eitp_checkpoint_read_info(const eitp_host *host, const char *checkpoint,
                                               eitp_checkpoint_info *info, eitp_error *error);

EITP_END_DECLARATIONS

#endif
