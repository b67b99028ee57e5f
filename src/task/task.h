/* Tasks: the samples and how they are read, and the inputs, loss terms and metrics of a graph. See docs/training.md. */
#ifndef EITP_TASK_H
#define EITP_TASK_H

#include "data/data.h"
#include "data/labelled.h"
#include "io/io.h"
#include "model/model.h"
#include "optim/optim.h"
#include "task/entities.h"

EITP_BEGIN_DECLARATIONS

#define EITP_MAX_PASS_INPUTS 16     /* row and sample inputs of a pass */
#define EITP_MAX_PASS_QUANTITIES 8  /* loss terms and metrics of a pass whose items the task counts */
#define EITP_MAX_STEP_SCALARS 32    /* the above, and the terms and metrics of regularizers */
#define EITP_MAX_PASS_OUTPUTS 4     /* outputs of a pass for `observe` */
#define EITP_MAX_LEARNERS 4         /* learners of a pass */
#define EITP_MAX_TASK_METRICS 16    /* metrics that a task computes from whole evaluations */
#define EITP_SCALAR_NAME_SIZE 32    /* bytes of a name of a term or metric, with the terminating zero */
#define EITP_MAX_DESCRIPTION 114688 /* bytes of the result of eitp_task.describe */

typedef enum eitp_split { EITP_TRAINING = 0, EITP_VALIDATION = 1 } eitp_split;

/* ---- Passes ---- */

/*
 * A pass: the graph of the forward pass over a batch of samples, and in training of its backward pass, while a task's
 * `build` adds to it. Functions that return a tensor return NULL if an argument is NULL or after an error, as ops do.
 * eitp_graph_status returns the first error of the graph.
 */
typedef struct eitp_pass eitp_pass;

/* Returns the graph to build in. */
EITP_API eitp_graph *eitp_pass_graph(eitp_pass *pass);

/* True in training, false in evaluation, where no gradients are computed and dropout keys are NULL. */
EITP_API int eitp_pass_is_training(const eitp_pass *pass);

/*
 * Adds an input with a value of `shape` (rank 0: a scalar) for each row: [n, shape...], where n is the capacity of rows
 * (see eitp_input_rows). dtype is EITP_I32, EITP_I64 or EITP_F32. Padding rows hold `empty` and must add nothing to
 * loss terms and metrics. Inputs are in the order of eitp_sample.values, and no two have the same name.
 */
EITP_API eitp_tensor *eitp_pass_row_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                          const int64_t *shape, double empty);

/*
 * Adds an input with a value of `shape` for each sample: [samples, shape...], where `samples` is a capacity. Unused
 * elements, after the last sample and between micro-batches, hold `empty` and must add nothing to loss terms and
 * metrics.
 */
EITP_API eitp_tensor *eitp_pass_sample_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                             const int64_t *shape, double empty);

/* Returns an input that the trainer fills in: the position of each row in its sample, I32 [n]. After
   eitp_pass_model_inputs, the positions are the model's: see eitp_model_fill_positions. */
EITP_API eitp_tensor *eitp_pass_positions(eitp_pass *pass);

/* Returns an input that the trainer fills in: the first row of each sequence, I32 [sequences + 1], as for
   eitp_attention. Samples are sequences, and so are the rows between them. */
EITP_API eitp_tensor *eitp_pass_offsets(eitp_pass *pass);

/* Returns an input that the trainer fills in: the first row of each sample and the row after its last, I32 [samples,
   2], as for eitp_pool. Both are -1 for unused elements. */
EITP_API eitp_tensor *eitp_pass_bounds(eitp_pass *pass);

/*
 * Return inputs that the trainer fills in: the dropout key I64 [3] (see eitp_dropout) for tensors with a value for each
 * row, and the key for tensors with a value for each sample. NULL in evaluation. With the wrong key, results depend on
 * the number of micro-batches in a pass.
 */
EITP_API eitp_tensor *eitp_pass_key(eitp_pass *pass);
EITP_API eitp_tensor *eitp_pass_sample_key(eitp_pass *pass);

/* Repeats the value of each sample for its rows: x [samples, c], such as a pooled state or a function of it, becomes
   [n, c], with 0 in rows between samples. The gradient sums over the rows of a sample. */
EITP_API eitp_tensor *eitp_pass_by_row(eitp_pass *pass, eitp_tensor *x);

/* Returns the maximum number of rows between two offsets: eitp_attention_config.max_length. */
EITP_API int64_t eitp_pass_max_length(const eitp_pass *pass);

/*
 * For an embedding table that is also used elsewhere, such as one tied to the output head: sums the table's gradient by
 * distinct id over the whole step, so that it has the same bits for any number of passes. `ids` is a row input with one
 * I32 id per row. *unique and *inverse receive the arguments of eitp_embedding_unique, or NULL in evaluation. A task
 * may call it once. Samples with ids outside 0 to vocabulary - 1 are refused, except for -1, whose embedding is 0.
 */
EITP_API void eitp_pass_unique(eitp_pass *pass, eitp_tensor *ids, int64_t vocabulary, eitp_tensor **unique,
                               eitp_tensor **inverse);

/* Looks up `ids` in `table` [v, c] through eitp_pass_unique. */
EITP_API eitp_tensor *eitp_pass_embedding(eitp_pass *pass, eitp_tensor *table, eitp_tensor *ids);

/* Adds all inputs that a model needs, except the segments. The model's tokens are the next row input. */
EITP_API eitp_model_inputs eitp_pass_model_inputs(eitp_pass *pass, const eitp_model *model);

/*
 * Adds the inputs of an encoder: another model that reads a separate sequence for each sample, such as the sample's
 * text in the tokens of another tokenizer. Its tokens are the next row input, "encoder tokens". The sequence is the
 * first eitp_sample.encoder_rows rows of the sample. The sample has as many rows as the longer of its two sequences,
 * and `read` pads the shorter one. The encoder also computes the other rows, but its sequences do not attend to them. A
 * pass has one encoder.
 */
EITP_API eitp_model_inputs eitp_pass_encoder_inputs(eitp_pass *pass, const eitp_model *encoder);

/* Returns the number of steps of the training, for schedules of terms; 0: unknown. */
EITP_API int64_t eitp_pass_steps(const eitp_pass *pass);

/*
 * Adds a loss term. `values` has a value for each row, [n], or for each sample, [samples], where further dimensions are
 * 1; or it is a single value, their sum. The loss of a step is the sum over its terms of weight(step) * sum(values) /
 * items, where `items` is the sum of eitp_sample.items over all samples of the step. `weight` is a schedule whose rate
 * is the weight; NULL: 1. The name is copied. It has at most EITP_SCALAR_NAME_SIZE - 1 bytes and differs from the names
 * of other terms and metrics. A term must be a sum over the samples of the pass: anything else, such as a penalty on a
 * parameter, would be counted once per pass.
 */
EITP_API void eitp_pass_term(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_schedule *weight);

/*
 * ---- Regularizers ----
 *
 * A loss term is one of three kinds: a sum over samples (eitp_pass_term), a statistic of a group of samples, or a
 * penalty on parameters. None depends on how a step is divided into passes. In evaluations, statistics are metrics and
 * penalties are left out, so the loss is the task's alone. With regularizers, a task's term "loss" is only a part of
 * the loss, and step reports call it "ce" (or "mse" with EITP_PROBLEM_REGRESSION).
 */

/* The steps and the weight of a term in the loss. Start from eitp_term_schedule_default(). */
typedef struct eitp_term_schedule {
    double weight;  /* 0 or more; a factor that is a tensor can be part of the term itself */
    int64_t every;  /* the term is computed in every N-th step from `start` on, with N times its weight */
    int64_t start;  /* the first step with the term, from 1 */
    int64_t warmup; /* steps from `start` on over which the weight rises linearly to its value; 0: none */
} eitp_term_schedule;

/* Weight 1 in every step, from the first on. */
EITP_API eitp_term_schedule eitp_term_schedule_default(void);

/* Sets the targets of the model's predictions, I32 for each row or each sample, for regularizers that compare them.
   `ignored` is the target of rows or samples without one. The library's tasks call it. */
EITP_API void eitp_pass_set_targets(eitp_pass *pass, eitp_tensor *targets, int32_t ignored);

/* The samples that a statistic is computed over: see eitp_trainer_config.group. */
typedef enum eitp_group {
    EITP_GROUP_SAMPLE = 0,     /* each sample separately */
    EITP_GROUP_MICRO_BATCH = 1 /* each micro-batch, which must have two samples or more */
} eitp_group;

/* Return the number of groups that a pass has room for, and the maximum number of rows of a group. */
EITP_API int64_t eitp_pass_groups(const eitp_pass *pass);
EITP_API int64_t eitp_pass_group_rows(const eitp_pass *pass);

/* Returns the rows of x [n, c] by group: [groups, rows, c]. Rows after the last of a group, and unused groups,
   are 0. */
EITP_API eitp_tensor *eitp_pass_by_group(eitp_pass *pass, eitp_tensor *x);

/* Returns 1 in the rows of a group, 0 after its last: F32 [groups, rows]. */
EITP_API eitp_tensor *eitp_pass_group_mask(eitp_pass *pass);

/*
 * Adds a loss term that is the mean over groups of `values` [groups], which must be 0 for groups without rows; or the
 * mean over samples of values [samples], ordered as in eitp_pass_sample_input, with 0 in unused elements. The name is
 * as for eitp_pass_term; schedule NULL: the default. Add it after the terms of the task, in `extend` (eitp_task).
 */
EITP_API void eitp_pass_statistic(eitp_pass *pass, const char *name, eitp_tensor *values,
                                  const eitp_term_schedule *schedule);

/*
 * Adds a loss term on parameters, which is computed once a step. `build` returns it, F32 [1], in the graph that it
 * receives, from the context's variables (eitp_variable_tensor), not from inputs. It is called for each graph that
 * needs it; `user` must be valid as long as the trainer. In 16-bit precision it sees the weights as matrix products do,
 * rounded to 16 bits.
 */
EITP_API void eitp_pass_penalty(eitp_pass *pass, const char *name, eitp_tensor *(*build)(void *user, eitp_graph *graph),
                                void *user, const eitp_term_schedule *schedule);

/*
 * ---- Learners ----
 *
 * A second set of parameters with its own optimizer in the same run, such as an estimator, a hypernetwork or an
 * auxiliary head. See docs/training.md.
 */

/* The optimizer of a learner's parameters. Start from eitp_learner_config_default(). */
typedef struct eitp_learner_config {
    eitp_optimizer optimizer;
    double beta1, beta2, epsilon, weight_decay; /* as in eitp_optimizer_config */
    eitp_schedule schedule;                     /* learning rate; not EITP_SCHEDULE_PLATEAU */
    double max_grad_norm;                       /* clips the learner's gradient to this L2 norm; 0: no clipping */
} eitp_learner_config;

/* EITP_ADAMW with the betas and epsilon of eitp_optimizer_config_default(), no weight decay, a constant rate of 1e-3,
   and no clipping. */
EITP_API eitp_learner_config eitp_learner_config_default(void);

/*
 * Makes the parameters whose names start with `prefix`, such as "estimator.", a learner. The prefix has at most
 * EITP_SCALAR_NAME_SIZE - 1 bytes. Call this in `build` or `extend`, with the same arguments in each pass. The
 * parameters are F32 in every precision (eitp_parameter), and are not parameters of the task's model.
 *
 * A learner's loss is an ordinary term. If it must not train the model, or a term of the model must not train the
 * learner, separate them with eitp_stop_gradient. A learner has its own norm, clipping and commit: its gradient is not
 * part of the step's norm or clipping, nor of the gradient capped by eitp_objective_config.grad_cap. A gradient that is
 * not finite skips only the update of its own parameters, the learner's or the model's. skip_spikes skips only the
 * model's update. In fp16 the loss scale follows the model's gradient, so a learner should compute in F32.
 *
 * Checkpoints of a task with a model store a learner's parameters in parameters.safetensors, so model.safetensors has
 * only the model. A learner has no effect in evaluations. Creating the trainer fails with EITP_ERROR_ARGUMENT if no
 * trained parameter of the pass has the prefix, if one of them is not F32 or belongs to the model or another learner,
 * or if a member of the configuration is out of range.
 */
EITP_API void eitp_pass_learner(eitp_pass *pass, const char *prefix, const eitp_learner_config *config);

/* The direction in which a metric improves. */
typedef enum eitp_metric_direction {
    EITP_LOWER_IS_BETTER = -1,
    EITP_DIRECTION_UNKNOWN = 0, /* the metric is recorded, but a run cannot keep the best checkpoint by it or stop by
                                   it */
    EITP_HIGHER_IS_BETTER = 1
} eitp_metric_direction;

/* Adds a metric. Its values are as for a loss term; evaluation reports it, and training ignores it. Add metrics after
   all terms. The name "loss" is reserved for the weighted sum of the terms. Lower losses are better. */
EITP_API void eitp_pass_metric(eitp_pass *pass, const char *name, eitp_tensor *values, eitp_metric_direction direction);

/* Adds a step metric: training reports it under metrics/<name>, and it has no gradient. Its values are as for
   eitp_pass_metric, or [groups] as for a statistic. Evaluations also report it as a metric. */
EITP_API void eitp_pass_step_metric(eitp_pass *pass, const char *name, eitp_tensor *values,
                                    eitp_metric_direction direction);

/* Like eitp_pass_step_metric, for a value of parameters, which is computed once a step like a penalty. Evaluations do
   not report it. */
EITP_API void eitp_pass_parameter_metric(eitp_pass *pass, const char *name,
                                         eitp_tensor *(*build)(void *user, eitp_graph *graph), void *user);

/*
 * Adds an output that evaluation passes to eitp_task.observe, and training ignores: [n, shape...] with a value for each
 * row, or [samples, shape...] with a value for each sample. It is converted to F32. Outputs are in the order of
 * eitp_observation.outputs.
 */
EITP_API void eitp_pass_output(eitp_pass *pass, const char *name, eitp_tensor *values);

/* ---- Tasks ---- */

/* A sample, for `read` to fill in. */
typedef struct eitp_sample {
    void **values; /* a buffer for each input, in the order of build: `rows` values, or one value for a sample input */
    int64_t rows;  /* the task's rows; `read` sets the number of a shorter sample */
    /* For random choices such as masks: the trainer's seed, and the number of times that training has read all samples
       before this one. Both are 0 in evaluation, which reads the same sample each time. Set before `read`. */
    uint64_t seed, epoch;
    int trains;           /* nonzero in training; set before `read` */
    int64_t encoder_rows; /* rows of the encoder's sequence, 1 to `rows`: see eitp_pass_encoder_inputs; 0: all rows */
    /* Number of items, 0 or more, for each term and metric in the order of build, which are means over items. Initially
       1 for each. */
    int64_t items[EITP_MAX_PASS_QUANTITIES];
    /* Weights of these items in a weighted mean, 0 or more: sums are divided by the sum of weights instead of the
       number of items. Initially negative, which stands for the number of items. */
    double weights[EITP_MAX_PASS_QUANTITIES];
} eitp_sample;

/* The mean of a loss term or a metric over the samples of an evaluation, or a metric of the whole evaluation. */
typedef struct eitp_metric {
    char name[EITP_SCALAR_NAME_SIZE];
    double mean;  /* mean over items, not finite if the value of any item is not; or the metric's value, NaN if
                     undefined */
    double error; /* standard error over samples; 0: unavailable without per-sample values */
    int64_t items;
} eitp_metric;

/* A metric that is not a mean over samples, such as F1. eitp_task.compute_metrics computes it from all samples. */
typedef struct eitp_task_metric {
    const char *name; /* as for eitp_pass_metric */
    eitp_metric_direction direction;
} eitp_task_metric;

/* A sample of an evaluation, after its pass was executed. Valid during the call. */
typedef struct eitp_observation {
    uint64_t index, samples;     /* index of the sample in the evaluation, from 0, and the number of samples */
    uint64_t number;             /* number of the sample in its split */
    int64_t rows;                /* rows of the sample */
    const void *const *values;   /* for each input in the order of build: the values stored by `read` */
    const float *const *outputs; /* for each eitp_pass_output: the values of the sample, or of each of its rows */
} eitp_observation;

/* The identity of the data, which a resumed run compares with its checkpoint. */
typedef struct eitp_task_identity {
    uint64_t hash;         /* hash of the data; 0: unknown, not compared */
    uint64_t first, count; /* range of the data that training samples come from, in units of the task */
} eitp_task_identity;

/*
 * A task: the model to train, and the functions that the trainer calls with `user`. Functions other than build and read
 * may be NULL.
 *
 * Results do not depend on the number of micro-batches in a pass if each parameter is used up to four times, each time
 * as eitp_accumulate_gradients describes. The gradient of each use after the first is accumulated separately, in memory
 * of the same size. With other uses, the last bits depend on the number of micro-batches. Resuming with another number
 * is then refused, and eitp_trainer_shrink logs a warning.
 */
typedef struct eitp_task {
    void *user;
    eitp_context *context;
    eitp_model *model;   /* saved in checkpoints with its configuration, or with its adapters if it has any; NULL: only
                            the context's parameters are saved */
    int64_t rows;        /* maximum number of rows of a sample */
    uint64_t samples[2]; /* number of samples in each eitp_split; validation may have 0 */
    int rows_vary;       /* samples may have fewer rows */
    const char *unit;    /* name of the first term's items in records, such as "tokens"; NULL: "items" */
    /*
     * The loss of a uniform guess, in the unit of the loss: the logarithm of the number of classes. A run does not save
     * a model that is worse (see eitp_run_train). 0: unknown; losses are then only compared with earlier ones.
     * HUGE_VAL: the loss does not measure the model's quality, and only non-finite losses count as bad.
     */
    double guess_loss;
    /* True if padding rows may lie between samples (see `empty` of eitp_pass_row_input). If 0, micro-batches that would
       need padding get separate passes. */
    int allows_gaps;
    /* Adds inputs, loss terms and metrics to a pass. Called for each plan, in training and evaluation. */
    eitp_status (*build)(void *user, eitp_pass *pass, eitp_error *error);
    /*
     * Reads sample `number`, from 0, of a split. With eitp_trainer_config.data_workers it is called from worker threads
     * with a stack of 1 MiB. With one worker, the trainer never calls two functions of the task at the same time. With
     * more workers, it calls `read` from several threads at the same time; `prefetch` is then not called. Token files
     * and arrays may be read by several threads. To fail, write a line to error->message, if `error` is not NULL, and
     * return a status.
     */
    eitp_status (*read)(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error);
    /* Announces that a sample will be read soon. */
    void (*prefetch)(void *user, eitp_split split, uint64_t number);
    /* Describes the data, for comparison when a run is resumed. */
    eitp_status (*identify)(void *user, eitp_task_identity *identity, eitp_error *error);
    /* Writes additional files of a checkpoint to its directory, such as a tokenizer. */
    eitp_status (*save)(void *user, const char *directory, eitp_error *error);
    /* Frees `user`. */
    void (*release)(void *user);
    /*
     * Metrics of whole evaluations, in addition to the metrics of build; metric_count 0: none. An evaluation of up to
     * `samples` samples gets observation_bytes(user, samples) bytes of `memory`, allocated with its plan. It calls
     * `observe` for each sample, in order, and `compute_metrics` at the end. The metric_count elements of `results`
     * already have names.
     */
    const eitp_task_metric *metrics;
    int metric_count;
    size_t (*observation_bytes)(void *user, uint64_t samples);
    void (*observe)(void *user, void *memory, const eitp_observation *observation);
    void (*compute_metrics)(void *user, void *memory, eitp_metric *results);
    /*
     * Returns details of the last evaluation for a run's evaluations.jsonl: a JSON object on one line, of at most
     * EITP_MAX_DESCRIPTION bytes and without the members "step", "time" and "elapsed". It belongs to the task until its
     * next evaluation. NULL: no details.
     */
    const char *(*describe)(void *user);
    /* Adds regularizers and metrics after build, for a program that extends a task of the library. `extension` is its
       first argument, and must outlive the trainer. NULL: none. */
    eitp_status (*extend)(void *extension, eitp_pass *pass, eitp_error *error);
    void *extension;
} eitp_task;

/* Calls release, if it is set, and clears the struct. NULL is harmless. */
EITP_API void eitp_task_release(eitp_task *task);

/* ---- Language modelling ---- */

/* Predicting the next token in windows of a token source. Start from eitp_language_config_default(), then set model,
   training and block_size. */
typedef struct eitp_language_config {
    eitp_model *model;
    eitp_token_source training, validation; /* validation.range.count 0: no validation */
    int64_t block_size;                     /* tokens of a sample */
    const eitp_tokenizer *tokenizer;        /* saved with checkpoints; not copied; NULL: none */
} eitp_language_config;

/* No model, no sources and no tokenizer. */
EITP_API eitp_language_config eitp_language_config_default(void);

/*
 * Creates a task whose samples are the windows of a range of tokens: with block size T, window i has tokens [i*T, i*T +
 * T) of the range, and as targets tokens [i*T + 1, i*T + T + 1). A range of n tokens has (n - 1) / T windows, rounded
 * down. The task has one term, "loss", whose items are tokens. The sources are not read yet. EITP_ERROR_ARGUMENT if
 * `config`, its model or `task` is NULL, the block size is not 1 to the model's positions, or a source is shorter than
 * a window. Release the task before the model, sources and tokenizer.
 */
EITP_API eitp_status eitp_language_task(const eitp_language_config *config, eitp_task *task, eitp_error *error);

/* Predicting selected tokens of samples from the tokens before them, such as the answers in conversations. Start from
   eitp_conversation_config_default(), then set model and training. */
typedef struct eitp_conversation_config {
    eitp_model *model; /* causal, with EITP_HEAD_LANGUAGE */
    /* With EITP_PROBLEM_TOKENS: tokens with any label are trained on. eitp_labelled_pack writes such samples from
       conversations. validation.count 0: no validation. */
    eitp_labelled_source training, validation;
    const eitp_tokenizer *tokenizer; /* saved with checkpoints, together with its chat template; not copied; NULL:
                                        none */
    int32_t end_of_turn;             /* token at which generation stops, for generation_config.json; -1: none */
} eitp_conversation_config;

/* No model, no sources, no tokenizer, and no end-of-turn token. */
EITP_API eitp_conversation_config eitp_conversation_config_default(void);

/*
 * Creates a task whose samples are those of the sources. The samples of a pass do not attend to each other. The task
 * has one term, "loss", the mean over the tokens that are trained on; its unit is "tokens". EITP_ERROR_ARGUMENT if the
 * model does not match the labels or lengths of the sources. Release the task before the model, sources and tokenizer.
 */
EITP_API eitp_status eitp_conversation_task(const eitp_conversation_config *config, eitp_task *task, eitp_error *error);

/* ---- Masked language modelling ---- */

/* Windows of a token source as samples without labels, each enclosed in the special tokens of a tokenizer's template.
   Filled in by eitp_text_windows_init; needs no release. */
typedef struct eitp_text_windows {
    eitp_token_source source;
    int64_t text_length; /* tokens of the source in a window; the last window may have fewer */
    eitp_token_ids before, after;
} eitp_text_windows;

/*
 * Divides a range of a token source into windows of at most `max_length` tokens, including special tokens. `tokenizer`
 * NULL: no special tokens. EITP_ERROR_ARGUMENT if the range has no tokens or is not within the source, or max_length
 * leaves no room for a token of the source.
 */
EITP_API eitp_status eitp_text_windows_init(eitp_text_windows *windows, const eitp_token_source *source,
                                            const eitp_tokenizer *tokenizer, int64_t max_length, eitp_error *error);

/* Returns the windows as a source. `windows` must outlive it. NULL gives a source without samples. */
EITP_API eitp_labelled_source eitp_text_windows_source(const eitp_text_windows *windows);

/* Predicting masked tokens (Devlin et al., arXiv 1810.04805). Start from eitp_masked_config_default(), then
   set model and training, and the tokenizer or mask_token. */
typedef struct eitp_masked_config {
    eitp_model *model;                         /* bidirectional, with EITP_HEAD_LANGUAGE */
    eitp_labelled_source training, validation; /* labels are ignored; validation.count 0: no validation */
    const eitp_tokenizer *tokenizer;           /* saved with checkpoints; not copied; NULL: none */
    double probability;                        /* probability that a token is chosen, 0 to 1; 0: no token is */
    int whole_words;                           /* nonzero: chooses all tokens of a word together; requires WordPiece */
    /* Used only without a tokenizer: */
    int32_t mask_token;
    eitp_token_ids special; /* other tokens that are never chosen */
} eitp_masked_config;

/* Probability 0.15, single tokens, no model, no sources, no tokenizer, and mask_token -1, which is refused without a
   tokenizer. */
EITP_API eitp_masked_config eitp_masked_config_default(void);

/*
 * Creates a task that chooses tokens of each sample at random, except special ones. Of the chosen tokens, 80 % become
 * the mask token, 10 % become a random token, and 10 % stay, as in DataCollatorForLanguageModeling of transformers. The
 * task has one term, "loss", the mean over the chosen tokens; its unit is "masked_tokens". A sample without chosen
 * tokens does not count. With whole_words, `probability` applies to words: a WordPiece token and the tokens after it
 * that continue its word (https://github.com/google-research/bert, "Whole Word Masking"). Each token of a chosen word
 * is replaced independently. The choice is a function of the trainer's seed, the epoch, the number of the sample and
 * the token's index; in evaluations it is always the same. EITP_ERROR_ARGUMENT if the model is not a bidirectional
 * one with a language head, if the mask token or the lengths of the sources do not fit it or, with whole_words, if the
 * tokenizer is not WordPiece.
 */
EITP_API eitp_status eitp_masked_task(const eitp_masked_config *config, eitp_task *task, eitp_error *error);

/* ---- Classification and regression ---- */

/* The method that maps the labels of samples to a model's labels: by name, as numbers, or in order. */
typedef enum eitp_label_match { EITP_LABELS_BY_NAME, EITP_LABELS_BY_NUMBER, EITP_LABELS_IN_ORDER } eitp_label_match;

/*
 * Maps the labels of a source to the labels of a model, as eitp_classification_task does. numbers[source->label_count]
 * receives the model's number of each label. *match becomes
 *   - EITP_LABELS_BY_NAME if all names of the source are names of the model, in any order. The source may have fewer
 *     names than the model, except with EITP_PROBLEM_REGRESSION.
 *   - EITP_LABELS_BY_NUMBER if the source has no names, or if the model has only default names ("LABEL_0", "LABEL_1",
 *     ...) and the names of the source are whole numbers below the model's number of labels.
 *   - EITP_LABELS_IN_ORDER if the model has only default names and the source has other names, as many as the model has
 *     labels: label i of the source is label i of the model.
 * EITP_ERROR_ARGUMENT if none of these applies, or the model has no classifier.
 */
EITP_API eitp_status eitp_model_match_labels(const eitp_model *model, const eitp_labelled_source *source,
                                             int32_t *numbers, eitp_label_match *match, eitp_error *error);

/* Training a model's classifier to predict labels or numbers for whole samples, or labels of tokens. Start from
   eitp_classification_config_default(), then set model and training. */
typedef struct eitp_classification_config {
    eitp_model *model; /* with EITP_HEAD_CLASSIFIER, or EITP_HEAD_TOKEN_CLASSIFIER for EITP_PROBLEM_TOKENS */
    eitp_labelled_source training, validation; /* validation.count 0: no validation */
    const eitp_tokenizer *tokenizer;           /* saved with checkpoints; not copied; NULL: none */
    /* With a single label per sample or token: 0 to 1, see eitp_cross_entropy_config; */
    double label_smoothing;
    const float *class_weights; /* and one weight for each label of the model; copied; NULL: 1 each */
} eitp_classification_config;

/* No model, no sources and no tokenizer; no label smoothing, equal weights for all labels. */
EITP_API eitp_classification_config eitp_classification_config_default(void);

/*
 * Creates a task whose samples are those of the sources. It has one term, "loss"; its unit is "samples". The loss is
 * the one that transformers uses for the problem of the sources: the cross-entropy with a single label, the binary
 * cross-entropy of each label's sigmoid with several labels, and the squared error for numbers. The last two are means
 * over the labels. With class weights, the mean over samples is weighted by the weights of their labels, as in
 * torch.nn.CrossEntropyLoss. Samples without a label are not counted. With labels of tokens, the loss is the
 * cross-entropy of each labelled token, and the unit is "words".
 *
 * Evaluations report these metrics too. Standard errors of accuracies are those of a proportion; the others come from
 * the jackknife over 50 groups of samples (Kott, "The Delete-a-Group Jackknife", Journal of Official Statistics 17,
 * 2001).
 * - Single label: accuracy, macro_f1, micro_f1, macro_precision, macro_recall, mcc (Gorodkin, "Comparing two K-category
 *   assignments by a K-category correlation coefficient", 2004), auroc (each label against the others, averaged),
 *   calibration_error (with 15 bins: Guo et al., arXiv 1706.04599).
 * - Several labels: subset_accuracy, macro_f1, micro_f1, macro_precision, macro_recall, auroc. A label is predicted if
 *   its probability is above 0.5.
 * - Numbers: mse, mae, pearson, spearman; averaged over the numbers of a sample.
 * - Labels of tokens: accuracy, macro_f1; and, if eitp_labels_mark_entities, entity_f1, entity_precision and
 *   entity_recall over the entities of all types. An entity is correct if its type, first word and last word are.
 *   Standard errors leave out groups of samples.
 * Means over labels leave out, with a single label, labels that neither occur nor are predicted, and for auroc, labels
 * that all samples or no samples have. 0 / 0 is 0, except for auroc and correlations, where it is undefined: NaN.
 *
 * The labels of the sources are mapped as in eitp_model_match_labels. A model whose labels have no names takes the
 * names of a source that has as many. If they are matched in order and the model's head was loaded, a warning is
 * logged, since it may have been trained with another order. The names of the model's labels must not change while the
 * task exists. They are saved in a checkpoint's config.json, with the problem. EITP_ERROR_ARGUMENT if the model has no
 * classifier, or if the problem, labels or lengths of the sources do not match the model. Release the task before the
 * model and tokenizer.
 */
EITP_API eitp_status eitp_classification_task(const eitp_classification_config *config, eitp_task *task,
                                              eitp_error *error);

/*
 * The results for one label. Precision is the fraction of samples (or tokens) predicted to have the label that have it,
 * recall the fraction of those having it that are predicted to, and F1 their harmonic mean; 0 / 0 is 0. For an entity
 * type, the same for entities.
 */
typedef struct eitp_label_result {
    const char *name; /* belongs to the model */
    double precision, recall, f1;
    int64_t support;   /* samples, or tokens, that have the label */
    int64_t predicted; /* samples, or tokens, that are predicted to have it */
} eitp_label_result;

/* Maximum number of labels with a confusion matrix. */
#define EITP_MAX_CONFUSION_LABELS 256

/* Maximum number of mistakes kept from an evaluation. */
#define EITP_MAX_MISTAKES 20

/*
 * A wrong prediction with high confidence, for a sample or one of its tokens, or a large error for numbers. For a
 * sample with several labels, it is the mistaken label with the highest confidence; with several numbers, the number
 * with the largest error.
 */
typedef struct eitp_mistake {
    uint64_t sample;       /* number of the sample in its split */
    int64_t row;           /* row of the token in the sample; 0 for other mistakes */
    int32_t label;         /* the true label; with several labels, or numbers, the mistaken one */
    int32_t predicted;     /* the predicted label; with several labels 1 if `label` was predicted, 0 if it is true */
    double probability;    /* probability of the prediction; 0 for numbers */
    double target, number; /* for numbers: the true and the predicted value */
    const int32_t *ids;    /* first id_count tokens of the sample */
    int64_t id_count;
    const int32_t *word; /* for a token: the token and the unlabelled tokens after it, word_count in all; otherwise
                            NULL */
    int64_t word_count;
} eitp_mistake;

/* Details of the last evaluation of a classification task. The pointers belong to the task and are valid until its next
   evaluation. */
typedef struct eitp_classification_report {
    eitp_problem problem;
    int64_t samples; /* samples, or tokens, that have a label */
    int64_t label_count;
    const eitp_label_result *labels; /* NULL for numbers */
    const int64_t *confusion; /* [label_count, label_count]: samples by true label (row) and predicted label (column);
                                 NULL unless there is a single label and at most EITP_MAX_CONFUSION_LABELS labels */
    const eitp_label_result *entities; /* results for each of entity_count entity types; NULL: labels do not mark
                                          entities */
    int64_t entity_count;
    const eitp_mistake *mistakes; /* the mistake_count worst mistakes, the worst first */
    int64_t mistake_count;
} eitp_classification_report;

/* Gets the report of a task. EITP_ERROR_ARGUMENT if it was not created by eitp_classification_task, or was not
   evaluated yet. */
EITP_API eitp_status eitp_classification_report_get(const eitp_task *task, eitp_classification_report *report,
                                                    eitp_error *error);

EITP_END_DECLARATIONS

#endif
