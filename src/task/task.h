/*
 * Tasks: what a sample is, how it is read, and which inputs, loss terms and metrics a graph has. See docs/training.md.
 */
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
#define EITP_MAX_PASS_QUANTITIES 8  /* loss terms and metrics of a pass that the task counts items of */
#define EITP_MAX_STEP_SCALARS 32    /* these, and those of regularizers */
#define EITP_MAX_PASS_OUTPUTS 4     /* outputs of a pass for `observe` */
#define EITP_MAX_LEARNERS 4         /* of a pass */
#define EITP_MAX_TASK_METRICS 16    /* metrics that a task computes from whole evaluations */
#define EITP_SCALAR_NAME_SIZE 32    /* bytes of their names, with the terminating zero */
#define EITP_MAX_DESCRIPTION 114688 /* bytes of the text of eitp_task.describe */

typedef enum eitp_split { EITP_TRAINING = 0, EITP_VALIDATION = 1 } eitp_split;

/* ---- Passes ---- */

/*
 * A pass: the graph of one forward pass over a batch of samples, and in training of its backward pass, while a task's
 * `build` adds to it. Functions that return a tensor return NULL if an argument is NULL or after an error, as ops do;
 * eitp_graph_status gives the first error of the graph.
 */
typedef struct eitp_pass eitp_pass;

/* The graph to build in. */
EITP_API eitp_graph *eitp_pass_graph(eitp_pass *pass);

/* True in training, false in evaluation, where no gradients are computed and dropout keys are NULL. */
EITP_API int eitp_pass_is_training(const eitp_pass *pass);

/*
 * An input with a value of `shape` (rank 0: a scalar) for each row: [n, shape...], n being the capacity of rows (see
 * eitp_input_rows). dtype is EITP_I32, EITP_I64 or EITP_F32. Padding rows hold `empty` and must add nothing to loss
 * terms and metrics. The order of inputs is that of eitp_sample.values; no two have the same name.
 */
EITP_API eitp_tensor *eitp_pass_row_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                          const int64_t *shape, double empty);

/*
 * An input with a value of `shape` for each sample: [samples, shape...], `samples` being a capacity. Unused places,
 * after the last sample and between micro-batches, hold `empty` and must add nothing to loss terms and metrics.
 */
EITP_API eitp_tensor *eitp_pass_sample_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                             const int64_t *shape, double empty);

/* An input that the trainer fills in: the position of each row in its sample, I32 [n]. After eitp_pass_model_inputs
   those of the model: see eitp_model_fill_positions. */
EITP_API eitp_tensor *eitp_pass_positions(eitp_pass *pass);

/* An input that the trainer fills in: the first row of each sequence, I32 [sequences + 1], as for eitp_attention.
   Samples are sequences, and so are the rows between them. */
EITP_API eitp_tensor *eitp_pass_offsets(eitp_pass *pass);

/* An input that the trainer fills in: the first row of each sample and the row after its last, I32 [samples, 2], as for
   eitp_pool; both are -1 in unused places. */
EITP_API eitp_tensor *eitp_pass_bounds(eitp_pass *pass);

/*
 * Inputs that the trainer fills in: the dropout key I64 [3] (see eitp_dropout) for tensors with a value for each row,
 * and for those with a value for each sample. NULL in evaluation. With the wrong one, results depend on the number of
 * micro-batches in a pass.
 */
EITP_API eitp_tensor *eitp_pass_key(eitp_pass *pass);
EITP_API eitp_tensor *eitp_pass_sample_key(eitp_pass *pass);

/*
 * For each row the value of its sample: x [samples, c], such as a pooled state or a function of it, becomes [n, c]; 0
 * in rows between samples. Its gradient sums over the rows of a sample.
 */
EITP_API eitp_tensor *eitp_pass_by_row(eitp_pass *pass, eitp_tensor *x);

/* Maximum number of rows between two offsets: eitp_attention_config.max_length. */
EITP_API int64_t eitp_pass_max_length(const eitp_pass *pass);

/*
 * For an embedding table that is used elsewhere too, such as one tied to the output head: sums its gradient by distinct
 * id over the whole step, so that it has the same bits for any number of passes. `ids` is a row input with one I32 id a
 * row. *unique and *inverse receive the arguments of eitp_embedding_unique, NULL in evaluation. A task may call it
 * once. Samples with ids outside 0 to vocabulary - 1 are refused, but for -1, whose embedding is 0.
 */
EITP_API void eitp_pass_unique(eitp_pass *pass, eitp_tensor *ids, int64_t vocabulary, eitp_tensor **unique,
                               eitp_tensor **inverse);

/* Looks up `ids` in `table` [v, c] through eitp_pass_unique. */
EITP_API eitp_tensor *eitp_pass_embedding(eitp_pass *pass, eitp_tensor *table, eitp_tensor *ids);

/* All inputs that a model needs, but the segments. Its tokens are the next row input. */
EITP_API eitp_model_inputs eitp_pass_model_inputs(eitp_pass *pass, const eitp_model *model);

/*
 * The same for an encoder: another model, which reads a sequence of its own for each sample, such as the text of the
 * sample in the tokens of another tokenizer. Its tokens are the next row input, "encoder tokens". The sequence is the
 * first eitp_sample.encoder_rows rows of the sample, and the sample has the rows of the longer sequence; `read` fills
 * both up. The encoder computes the other rows too, and its sequences do not see them. A pass has one encoder.
 */
EITP_API eitp_model_inputs eitp_pass_encoder_inputs(eitp_pass *pass, const eitp_model *encoder);

/* The number of steps of the training, for schedules of terms; 0: unknown. */
EITP_API int64_t eitp_pass_steps(const eitp_pass *pass);

/*
 * Adds a loss term. `values` has a value for each row, [n], or for each sample, [samples], further dimensions being 1;
 * or it is one value, their sum. The loss of a step is the sum over its terms of weight(step) * sum(values) / items,
 * where `items` is the sum of eitp_sample.items over all samples of the step. `weight` is a schedule whose rate is the
 * weight; NULL: 1. The name is copied; it has at most EITP_SCALAR_NAME_SIZE - 1 bytes and differs from those of other
 * terms and metrics. A term must be a sum over the samples of the pass: anything else, such as a penalty on a
 * parameter, would be counted once per pass.
 */
EITP_API void eitp_pass_term(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_schedule *weight);

/*
 * ---- Regularizers ----
 *
 * A loss term is one of three kinds: a sum over samples (eitp_pass_term), a statistic of a group of samples, and a
 * penalty on parameters. None depends on how a step is divided into passes. In evaluations statistics are metrics, so
 * that the loss of an evaluation is the task's; penalties are left out. A task's term "loss" is then called "ce" in the
 * reports of steps, or "mse" with EITP_PROBLEM_REGRESSION: it is a part of the loss.
 */

/* When a term is in the loss, and how much. Start from eitp_term_schedule_default(). */
typedef struct eitp_term_schedule {
    double weight;  /* 0 or more; the term itself may contain a factor that is a tensor */
    int64_t every;  /* the term is computed in every N-th step from `start` on, and has N times its weight there */
    int64_t start;  /* the first step with the term, from 1 */
    int64_t warmup; /* steps, from `start` on, in which the weight rises linearly to its value; 0: none */
} eitp_term_schedule;

/* Weight 1 in every step, from the first on. */
EITP_API eitp_term_schedule eitp_term_schedule_default(void);

/* Names the targets of the model's predictions, I32 for each row or each sample, for regularizers that compare them;
   `ignored` is the target of those without one. The tasks of the library call it. */
EITP_API void eitp_pass_set_targets(eitp_pass *pass, eitp_tensor *targets, int32_t ignored);

/* What a statistic is computed of: see eitp_trainer_config.group. */
typedef enum eitp_group {
    EITP_GROUP_SAMPLE = 0,     /* of each sample */
    EITP_GROUP_MICRO_BATCH = 1 /* of each micro-batch, which must have two samples or more */
} eitp_group;

/* The capacity of groups of a pass, and the maximum number of rows of a group. */
EITP_API int64_t eitp_pass_groups(const eitp_pass *pass);
EITP_API int64_t eitp_pass_group_rows(const eitp_pass *pass);

/* The rows of x [n, c] by group: [groups, rows, c]. Rows after the last of a group, and groups that are not in use, are
   0. */
EITP_API eitp_tensor *eitp_pass_by_group(eitp_pass *pass, eitp_tensor *x);

/* 1 in the rows of a group, 0 after its last: F32 [groups, rows]. */
EITP_API eitp_tensor *eitp_pass_group_mask(eitp_pass *pass);

/*
 * Adds a loss term that is the mean over groups of `values` [groups], which must be 0 for groups without rows; or over
 * samples, of values [samples] as those of eitp_pass_sample_input, 0 in unused places. It is
 * called as a term; schedule NULL: the default. Add it after the terms of the task, in `extend` (eitp_task).
 */
EITP_API void eitp_pass_statistic(eitp_pass *pass, const char *name, eitp_tensor *values,
                                  const eitp_term_schedule *schedule);

/*
 * Adds a loss term on parameters, which is computed once a step. `build` returns it, F32 [1], in the graph that it is
 * given, from the context's variables (eitp_variable_tensor), not from inputs. It is called for each graph that needs
 * it, while `user` is valid: as long as the trainer. In 16-bit precision it sees the weights as products do, rounded to
 * 16 bits.
 */
EITP_API void eitp_pass_penalty(eitp_pass *pass, const char *name, eitp_tensor *(*build)(void *user, eitp_graph *graph),
                                void *user, const eitp_term_schedule *schedule);

/*
 * ---- Learners ----
 *
 * A second set of parameters with an optimizer of its own in the same run: an estimator, a hypernetwork, an auxiliary
 * head. See docs/training.md.
 */

/* How a learner's parameters are updated. Start from eitp_learner_config_default(). */
typedef struct eitp_learner_config {
    eitp_optimizer optimizer;
    double beta1, beta2, epsilon, weight_decay; /* as in eitp_optimizer_config */
    eitp_schedule schedule;                     /* of the learning rate; not EITP_SCHEDULE_PLATEAU */
    double max_grad_norm;                       /* clips the learner's gradient to this L2 norm; 0: no clipping */
} eitp_learner_config;

/* EITP_ADAMW with the betas and epsilon of eitp_optimizer_config_default() and no weight decay, constant rate 1e-3, no
   clipping. */
EITP_API eitp_learner_config eitp_learner_config_default(void);

/*
 * Makes a learner of the parameters whose names begin with `prefix`, such as "estimator.", which has at most
 * EITP_SCALAR_NAME_SIZE - 1 bytes. Call it in `build` or `extend`, with the same arguments in each pass. They are F32
 * (eitp_parameter), in every precision, and not those of the task's model.
 *
 * A learner's loss is a term like others. Where it must not train the model, or a term of the model not the learner,
 * keep them apart with eitp_stop_gradient. Norm, clipping and commit are the learner's own: its gradient is in neither
 * the norm of the step, nor its clipping, nor what eitp_objective_config.grad_cap caps. A gradient that is not finite
 * skips the update of those whose gradient it is, the learner's or the model's, and no other. skip_spikes skips the
 * model's alone. In fp16 the loss scale follows the model's gradient: a learner should compute in F32.
 *
 * Checkpoints of a task with a model hold a learner's parameters in parameters.safetensors, so that model.safetensors
 * is the model's. In evaluations nothing happens. The trainer is refused (EITP_ERROR_ARGUMENT) if no trained
 * parameter of the pass has the prefix, one is not F32, is the model's or another learner's, or a member of the
 * configuration is out of range.
 */
EITP_API void eitp_pass_learner(eitp_pass *pass, const char *prefix, const eitp_learner_config *config);

/* Which values of a metric are better. */
typedef enum eitp_metric_direction {
    EITP_LOWER_IS_BETTER = -1,
    EITP_DIRECTION_UNKNOWN = 0, /* the metric is recorded, but a run can neither keep the best of it nor stop by it */
    EITP_HIGHER_IS_BETTER = 1
} eitp_metric_direction;

/* Adds a metric: values as of a loss term that evaluation reports and training ignores. Add metrics after all terms.
   The name "loss" is reserved for the weighted sum of the terms. Of losses lower is better. */
EITP_API void eitp_pass_metric(eitp_pass *pass, const char *name, eitp_tensor *values, eitp_metric_direction direction);

/* Adds a metric of steps: training reports it under metrics/<name>, and it has no gradient. As for
   eitp_pass_metric; values [groups] are of groups, as those of a statistic. Evaluations have it as a metric. */
EITP_API void eitp_pass_step_metric(eitp_pass *pass, const char *name, eitp_tensor *values,
                                    eitp_metric_direction direction);

/* The same for a value of parameters, which is computed once a step, as that of a penalty. Evaluations have it not. */
EITP_API void eitp_pass_parameter_metric(eitp_pass *pass, const char *name,
                                         eitp_tensor *(*build)(void *user, eitp_graph *graph), void *user);

/*
 * Adds an output that evaluation hands to eitp_task.observe, and training ignores: for each row, [n, shape...], or for
 * each sample, [samples, shape...]. It is converted to F32. The order of outputs is that of eitp_observation.outputs.
 */
EITP_API void eitp_pass_output(eitp_pass *pass, const char *name, eitp_tensor *values);

/* ---- Tasks ---- */

/* A sample, for `read` to fill in. */
typedef struct eitp_sample {
    void **values; /* for each input in the order of build: a buffer for `rows` values, or for one of a sample input */
    int64_t rows;  /* the task's rows; a shorter sample sets its own number */
    /* For random choices, such as masks: the trainer's seed, and how often training has gone through all samples before
       this one. Both are 0 in evaluation, which reads the same sample each time. Set before `read`. */
    uint64_t seed, epoch;
    int trains; /* nonzero in training; set before `read` */
    int64_t
        encoder_rows; /* rows of the encoder's sequence, 1 to `rows`: see eitp_pass_encoder_inputs; 0: all of them */
    /* For each term and metric in the order of build: the number of items that it is a mean over, 0 or more.
       Initially 1 for each. */
    int64_t items[EITP_MAX_PASS_QUANTITIES];
    /* The weight of these items in a weighted mean, 0 or more: sums are divided by the sum of weights instead of the
       number of items. Initially negative: the number of items. */
    double weights[EITP_MAX_PASS_QUANTITIES];
} eitp_sample;

/* The mean of a loss term or a metric over the samples of an evaluation, or a metric of the whole evaluation. */
typedef struct eitp_metric {
    char name[EITP_SCALAR_NAME_SIZE];
    double mean; /* over its items; not finite if the value of any item is not. Or the metric's value; NaN: undefined */
    double error; /* its standard error, over samples; 0: unavailable without per-sample values */
    int64_t items;
} eitp_metric;

/* A metric that is not a mean over samples, such as F1: eitp_task.judge computes it from all samples. */
typedef struct eitp_task_metric {
    const char *name; /* as of eitp_pass_metric */
    eitp_metric_direction direction;
} eitp_task_metric;

/* A sample of an evaluation, after the pass that it was in. Valid during the call. */
typedef struct eitp_observation {
    uint64_t index, samples;     /* which sample of the evaluation it is, from 0; and how many there are */
    uint64_t number;             /* of the sample in its split */
    int64_t rows;                /* of the sample */
    const void *const *values;   /* for each input in the order of build: what `read` stored */
    const float *const *outputs; /* for each eitp_pass_output: the values of the sample, or of each of its rows */
} eitp_observation;

/* What a resumed run compares with its checkpoint. */
typedef struct eitp_task_identity {
    uint64_t hash;         /* of the data; 0: unknown, and not compared */
    uint64_t first, count; /* the part of the data that training samples are from, in units of the task */
} eitp_task_identity;

/*
 * A task: what is trained, and the functions that the trainer calls with `user`. Those other than build and read may be
 * NULL.
 *
 * Results do not depend on the number of micro-batches in a pass if each parameter is used up to four times, each time
 * as eitp_accumulate_gradients describes. The gradient of each further use is accumulated separately, in memory of the
 * same size. With other uses the last bits depend on it; then a resume with another number is refused, and
 * eitp_trainer_shrink logs a warning.
 */
typedef struct eitp_task {
    void *user;
    eitp_context *context;
    eitp_model *model;   /* saved in checkpoints with its configuration, or with its adapters if it has any; NULL: only
                          the context's parameters are saved */
    int64_t rows;        /* rows of a sample, at most */
    uint64_t samples[2]; /* number of samples in each eitp_split; validation may have 0 */
    int rows_vary;       /* samples may have fewer rows */
    const char *unit;    /* name of the items of the first term in records, such as "tokens"; NULL: "items" */
    /* The loss of a uniform guess, in the loss's unit: the logarithm of the number of classes. A run does not save a
       model that is worse (see eitp_run_train). 0: unknown, so that losses are only compared with earlier ones;
       HUGE_VAL: the loss says nothing about the model, and only numbers that are not finite count. */
    double guess_loss;
    /* True if padding rows may lie between samples (see `empty` of eitp_pass_row_input). If 0, micro-batches that would
       need padding get passes of their own. */
    int allows_gaps;
    /* Adds inputs, loss terms and metrics to a pass. Called for each plan, in training and evaluation. */
    eitp_status (*build)(void *user, eitp_pass *pass, eitp_error *error);
    /*
     * Fills in sample `number`, from 0, of a split. With eitp_trainer_config.data_workers it is called from worker
     * threads with a stack of 1 MiB. With one worker the trainer never calls two functions of the task at a time; with
     * more it calls `read` from several threads at a time. `prefetch` is then not called. Token files and arrays may be
     * read by several threads. To fail, write a line to error->message, if `error` is not NULL, and return a status.
     */
    eitp_status (*read)(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error);
    /* Announces that a sample will be read soon. */
    void (*prefetch)(void *user, eitp_split split, uint64_t number);
    /* Describes the data, for a resume to compare. */
    eitp_status (*identify)(void *user, eitp_task_identity *identity, eitp_error *error);
    /* Writes further files of a checkpoint to its directory, such as a tokenizer. */
    eitp_status (*save)(void *user, const char *directory, eitp_error *error);
    /* Frees `user`. */
    void (*release)(void *user);
    /*
     * Metrics of whole evaluations, in addition to those of build; metric_count 0: none. An evaluation of up to
     * `samples` samples gets observation_bytes(user, samples) bytes of `memory`, which are allocated with its plan. It
     * calls `observe` for each sample, in order. At the end it calls `judge`; `results` has metric_count elements whose
     * names are set.
     */
    const eitp_task_metric *metrics;
    int metric_count;
    size_t (*observation_bytes)(void *user, uint64_t samples);
    void (*observe)(void *user, void *memory, const eitp_observation *observation);
    void (*judge)(void *user, void *memory, eitp_metric *results);
    /* Describes the last evaluation further, for evaluations.jsonl of a run: the text of a JSON object on one line, of
       at most EITP_MAX_DESCRIPTION bytes and without the members "step", "time" and "elapsed". It belongs to the task,
       until its next evaluation. NULL: nothing. */
    const char *(*describe)(void *user);
    /*
     * Adds regularizers and metrics after those of build, for a program that wants them with a task of the
     * library. `extension` is its first argument, and must outlive the trainer. NULL: none.
     */
    eitp_status (*extend)(void *extension, eitp_pass *pass, eitp_error *error);
    void *extension;
} eitp_task;

/* Calls release, if any, and clears the struct. NULL is harmless. */
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
 * Creates a task whose samples are the windows of a range of tokens: with block size T, window i has tokens
 * [i*T, i*T + T) of the range, and as targets tokens [i*T + 1, i*T + T + 1). Of n tokens there are (n - 1) / T windows,
 * rounded down. Its one term is called "loss", its items are tokens.
 * The sources are not read yet. EITP_ERROR_ARGUMENT if `config`, its model or `task` is NULL, the block size is not 1
 * to the model's positions, or a source is shorter than a window. Release the task before the model, sources and
 * tokenizer.
 */
EITP_API eitp_status eitp_language_task(const eitp_language_config *config, eitp_task *task, eitp_error *error);

/* Predicting some tokens of samples from those before them, such as the answers in conversations. Start from
   eitp_conversation_config_default(), then set model and training. */
typedef struct eitp_conversation_config {
    eitp_model *model; /* causal, with EITP_HEAD_LANGUAGE */
    /* With EITP_PROBLEM_TOKENS: tokens with a label, whichever it is, are trained on. eitp_labelled_pack writes such
       samples from conversations. validation.count 0: no validation. */
    eitp_labelled_source training, validation;
    const eitp_tokenizer *tokenizer; /* saved with checkpoints, and with it its chat template; not copied; NULL: none */
    int32_t end_of_turn;             /* a token at which generated text ends, for generation_config.json; -1: none */
} eitp_conversation_config;

/* No model, no sources, no tokenizer and no token that ends a turn. */
EITP_API eitp_conversation_config eitp_conversation_config_default(void);

/*
 * Creates a task whose samples are those of the sources, side by side in a pass: each attends to itself alone. Its one
 * term, "loss", is the mean over the tokens that are trained on; its unit is "tokens". EITP_ERROR_ARGUMENT if the
 * model, the labels or the lengths of the sources do not fit. Release the task before the model, sources and tokenizer.
 */
EITP_API eitp_status eitp_conversation_task(const eitp_conversation_config *config, eitp_task *task, eitp_error *error);

/* ---- Masked language modelling ---- */

/* Windows of a token source as samples without labels, each between the special tokens of a tokenizer's template.
   Filled in by eitp_text_windows_init; needs no release. */
typedef struct eitp_text_windows {
    eitp_token_source source;
    int64_t text_length; /* tokens of the source in a window; the last one may have fewer */
    eitp_token_ids before, after;
} eitp_text_windows;

/* `max_length` is that of a window with its special tokens. `tokenizer` NULL: without them. EITP_ERROR_ARGUMENT if
   the range has no tokens or is not within the source, or max_length leaves no room for one. */
EITP_API eitp_status eitp_text_windows_init(eitp_text_windows *windows, const eitp_token_source *source,
                                            const eitp_tokenizer *tokenizer, int64_t max_length, eitp_error *error);

/* The windows as a source, which `windows` must outlive. NULL gives a source without samples. */
EITP_API eitp_labelled_source eitp_text_windows_source(const eitp_text_windows *windows);

/* Predicting masked tokens (Devlin et al., arXiv 1810.04805). Start from eitp_masked_config_default(), then
   set model and training, and the tokenizer or mask_token. */
typedef struct eitp_masked_config {
    eitp_model *model;                         /* bidirectional, with EITP_HEAD_LANGUAGE */
    eitp_labelled_source training, validation; /* labels are ignored; validation.count 0: no validation */
    const eitp_tokenizer *tokenizer;           /* saved with checkpoints; not copied; NULL: none */
    double probability;                        /* of a token to be chosen, 0 to 1; 0: none are */
    int whole_words;                           /* nonzero: a word's tokens are chosen together; needs WordPiece */
    /* Without a tokenizer, which otherwise gives them: */
    int32_t mask_token;
    eitp_token_ids special; /* other tokens that are never chosen */
} eitp_masked_config;

/* Probability 0.15, of single tokens; no model, no sources, no tokenizer, and mask_token -1, which is refused without a
   tokenizer. */
EITP_API eitp_masked_config eitp_masked_config_default(void);

/*
 * Creates a task that chooses tokens of each sample, special ones excepted, with a probability. Of them 80 % become the
 * mask token, 10 % a random token, and 10 % stay, as DataCollatorForLanguageModeling of transformers does. The one
 * term, "loss", is the mean over the chosen tokens; its unit is "masked_tokens". A sample without any counts nothing.
 * With whole_words the probability is that of a word: a token of WordPiece and those after it that go on with its word
 * (https://github.com/google-research/bert, "Whole Word Masking"); what each of its tokens becomes is still its own.
 * Which are chosen is a function of the trainer's seed, the epoch, the number of the sample and the token's place; in
 * evaluations they are always the same. EITP_ERROR_ARGUMENT if the model, the mask token or the lengths of the sources
 * do not fit, or with whole_words if the tokenizer is not one of WordPiece.
 */
EITP_API eitp_status eitp_masked_task(const eitp_masked_config *config, eitp_task *task, eitp_error *error);

/* ---- Classification and regression ---- */

/* How the labels of samples are those of a model: by their names, as numbers, or in their order. */
typedef enum eitp_label_match { EITP_LABELS_BY_NAME, EITP_LABELS_BY_NUMBER, EITP_LABELS_IN_ORDER } eitp_label_match;

/*
 * Finds the labels of a source among those of a model, as eitp_classification_task does: numbers[source->label_count]
 * receives the model's number of each. *match becomes
 *   - EITP_LABELS_BY_NAME if all names of the source are names of the model, in any order. There may be fewer of them,
 *     except with EITP_PROBLEM_REGRESSION.
 *   - EITP_LABELS_BY_NUMBER if the source has no names, or if the model has none ("LABEL_0", "LABEL_1", ...) and
 *     those of the source are whole numbers below the number of its labels.
 *   - EITP_LABELS_IN_ORDER if the model has no names and the source has other ones, as many as the model has labels:
 *     label i of the source is label i of the model.
 * EITP_ERROR_ARGUMENT if they do not fit in any of these ways, or the model has no classifier.
 */
EITP_API eitp_status eitp_model_match_labels(const eitp_model *model, const eitp_labelled_source *source,
                                             int32_t *numbers, eitp_label_match *match, eitp_error *error);

/* Labels or numbers for whole samples, or labels of tokens, by the classifier of a model. Start from
   eitp_classification_config_default(), then set model and training. */
typedef struct eitp_classification_config {
    eitp_model *model; /* with EITP_HEAD_CLASSIFIER, for EITP_PROBLEM_TOKENS with EITP_HEAD_TOKEN_CLASSIFIER */
    eitp_labelled_source training, validation; /* validation.count 0: no validation */
    const eitp_tokenizer *tokenizer;           /* saved with checkpoints; not copied; NULL: none */
    /* With a single label, of a sample or a token: 0 to 1, see eitp_cross_entropy_config; */
    double label_smoothing;
    const float *class_weights; /* and one for each label of the model; copied; NULL: 1 each */
} eitp_classification_config;

/* No model, no sources and no tokenizer; no label smoothing, the same weight for all labels. */
EITP_API eitp_classification_config eitp_classification_config_default(void);

/*
 * Creates a task whose samples are those of the sources. Its one term is called "loss"; its unit is "samples". The loss
 * is that of transformers for the problem of the sources: with a single label the cross-entropy, with several the
 * binary cross-entropy of each label's sigmoid, for numbers the squared error; the last two are means over the labels.
 * With class weights the mean over samples is weighted by the weights of their labels, as in torch.nn.CrossEntropyLoss.
 * Samples without a label are not counted. With labels of tokens it is the cross-entropy of each token with a label,
 * and the unit is "words".
 *
 * Evaluations have these metrics too. Standard errors are those of a proportion for accuracies, else of the jackknife
 * over 50 groups of samples (Kott, "The Delete-a-Group Jackknife", Journal of Official Statistics 17, 2001).
 * - Single label: accuracy, macro_f1, micro_f1, macro_precision, macro_recall, mcc (Gorodkin, "Comparing two K-category
 *   assignments by a K-category correlation coefficient", 2004), auroc (of each label against the others, then the
 *   mean), calibration_error (with 15 bins: Guo et al., arXiv 1706.04599).
 * - Several labels: subset_accuracy, macro_f1, micro_f1, macro_precision, macro_recall, auroc. A label is predicted if
 *   its probability is above 0.5.
 * - Numbers: mse, mae, pearson, spearman; the mean over the numbers of a sample.
 * - Labels of tokens: accuracy, macro_f1; and, if eitp_labels_mark_entities, entity_f1, entity_precision and
 *   entity_recall, over the entities of all types: one is right if its type, its first and its last word are. Standard
 *   errors leave out groups of samples.
 * Means over labels leave out, with a single label, those that neither occur nor are predicted, and in auroc those that
 * all samples or none have. 0 / 0 is 0, but for auroc and correlations, where it is undefined: NaN.
 *
 * Labels of the sources become those of the model as eitp_model_match_labels finds them. A model whose labels have no
 * names takes those of a source that has as many; if they are matched in their order and the model's head was loaded,
 * a warning is logged, since it may have been trained with another order. The names of the model's labels must not
 * change while the task exists. A checkpoint's config.json gets them, and the problem.
 * EITP_ERROR_ARGUMENT if the model has no classifier, or problem, labels or lengths of the sources do not fit it.
 * Release the task before the model and tokenizer.
 */
EITP_API eitp_status eitp_classification_task(const eitp_classification_config *config, eitp_task *task,
                                              eitp_error *error);

/* The results for one label. Precision is the fraction of samples, or tokens, predicted to have it that do, recall that
   of those having it that are predicted to, F1 their harmonic mean; 0 / 0 is 0. For types of entities, of entities. */
typedef struct eitp_label_result {
    const char *name; /* belongs to the model */
    double precision, recall, f1;
    int64_t support;   /* samples, or tokens, that have the label */
    int64_t predicted; /* those that are predicted to have it */
} eitp_label_result;

/* Largest number of labels with a confusion matrix. */
#define EITP_MAX_CONFUSION_LABELS 256

/* The most mistakes that are kept of an evaluation. */
#define EITP_MAX_MISTAKES 20

/*
 * A sample, or one of its tokens, that was predicted wrong with great confidence; of numbers, a large error. With
 * several labels it is the label of the sample that was mistaken with the greatest confidence, and of numbers the one
 * with the largest error.
 */
typedef struct eitp_mistake {
    uint64_t sample;       /* its number in its split */
    int64_t row;           /* of the token in the sample; of other mistakes 0 */
    int32_t label;         /* the true one; with several labels, or numbers, the one that was mistaken */
    int32_t predicted;     /* the predicted one; with several labels 1 if `label` was predicted, and 0 if it is true */
    double probability;    /* that the model gave what it predicted; of numbers 0 */
    double target, number; /* of numbers: the true and the predicted one */
    const int32_t *ids;    /* the first tokens of the sample, id_count of them */
    int64_t id_count;
    const int32_t *word; /* of a token: it, and those after it without a label, word_count of them; else NULL */
    int64_t word_count;
} eitp_mistake;

/* The last evaluation of a classification task in detail. What it points to belongs to the task, until its next
   evaluation. */
typedef struct eitp_classification_report {
    eitp_problem problem;
    int64_t samples; /* that have a label; or tokens */
    int64_t label_count;
    const eitp_label_result *labels; /* NULL for numbers */
    const int64_t *confusion; /* [label_count, label_count]: samples with the label of the row, predicted to have that
                                 of the column; NULL unless there is a single label, of up to the number above */
    const eitp_label_result *entities; /* entity_count types of entities; NULL: labels do not mark any */
    int64_t entity_count;
    const eitp_mistake *mistakes; /* mistake_count of them, the worst first */
    int64_t mistake_count;
} eitp_classification_report;

/* EITP_ERROR_ARGUMENT if the task is not one of eitp_classification_task, or was not evaluated yet. */
EITP_API eitp_status eitp_classification_report_get(const eitp_task *task, eitp_classification_report *report,
                                                    eitp_error *error);

EITP_END_DECLARATIONS

#endif
