/*
 * Tasks: what a sample is, how a batch is filled, which losses and measures a graph gets. docs/training.md has the
 * whole picture.
 */
#ifndef EITP_TASK_H
#define EITP_TASK_H

#include "data/data.h"
#include "io/io.h"
#include "model/model.h"
#include "optim/optim.h"

EITP_BEGIN_DECLARATIONS

/* The largest number of inputs of a pass, of its loss terms and measures together, and the bytes of their names. */
#define EITP_PASS_INPUTS 16
#define EITP_PASS_QUANTITIES 8
#define EITP_QUANTITY_NAME 32

typedef enum eitp_split { EITP_TRAINING = 0, EITP_VALIDATION = 1 } eitp_split;

/* One pass over samples, while a task builds it. Its functions return NULL after a failure, as ops do. */
typedef struct eitp_pass eitp_pass;

/* The graph to build in. */
EITP_API eitp_graph *eitp_pass_graph(eitp_pass *pass);

/* True if gradients will be taken; false in evaluation, where dropout keys are NULL. */
EITP_API int eitp_pass_trains(const eitp_pass *pass);

/*
 * An input with a value of `shape` (rank 0: a number) for each row: [n, shape...], where n is a capacity (see
 * eitp_input_rows). Rows that belong to no sample hold `empty`, and must add nothing to a loss or a measure. I32, I64
 * and F32. The inputs' order is that of eitp_sample.values.
 */
EITP_API eitp_tensor *eitp_pass_row_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                          const int64_t *shape, double empty);

/*
 * The same with a value for each sample: [samples, shape...], where samples is a capacity too. Samples that are not
 * there, after the last and between micro-batches, hold `empty`, and must add nothing to a loss or a measure.
 */
EITP_API eitp_tensor *eitp_pass_sample_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                             const int64_t *shape, double empty);

/* Inputs that the trainer fills in: I32 [n], the place of each row in its sample; I32 [sequences + 1], where samples
   begin, as eitp_attention takes them; I64 [3], the dropout key, NULL in evaluation, for values of rows and for
   those of samples: with the other one the bits depend on how many micro-batches a pass takes. */
EITP_API eitp_tensor *eitp_pass_positions(eitp_pass *pass);
EITP_API eitp_tensor *eitp_pass_offsets(eitp_pass *pass);
EITP_API eitp_tensor *eitp_pass_key(eitp_pass *pass);
EITP_API eitp_tensor *eitp_pass_sample_key(eitp_pass *pass);

/* The longest sequence between two offsets: eitp_attention_config.longest. */
EITP_API int64_t eitp_pass_longest(const eitp_pass *pass);

/*
 * For a table that is looked up by `ids`, a row input, and used elsewhere too, as one that is tied to the output head:
 * its gradient is summed by distinct id over the whole step, so that it has the same bits however many passes a step
 * takes. *unique and *inverse are what eitp_embedding_unique takes, NULL in evaluation. One a task. Samples whose ids
 * are not 0 to vocabulary - 1 are refused.
 */
EITP_API void eitp_pass_unique(eitp_pass *pass, eitp_tensor *ids, int64_t vocabulary, eitp_tensor **unique,
                               eitp_tensor **inverse);

/* Looks `ids` up in `table` [v, c] so. */
EITP_API eitp_tensor *eitp_pass_embedding(eitp_pass *pass, eitp_tensor *table, eitp_tensor *ids);

/* All that a Transformer's graph needs; its tokens are the next of the row inputs. */
EITP_API eitp_model_inputs eitp_pass_model_inputs(eitp_pass *pass, const eitp_model *model);

/*
 * A loss term: values for each row [n], or for each sample [samples], further dimensions being 1, or a number that is
 * their sum. The loss has weight(step) * sum(values) / items, where items is what eitp_sample.items says in all samples
 * of the step. `weight`, whose rate is the weight, may be NULL: 1. The name is copied; no other term or measure may
 * have it. What reports call the loss is the weighted sum of all terms. A term must be a sum over the samples of the
 * pass: what does not depend on them, as the squares of a parameter, would be added once a pass.
 */
EITP_API void eitp_pass_term(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_schedule *weight);

/* What is reported by evaluation, and not trained on; after all terms. In training passes it does nothing. It cannot be
   called "loss", as the weighted sum of the terms is. */
EITP_API void eitp_pass_measure(eitp_pass *pass, const char *name, eitp_tensor *values);

/* One sample, while `read` fills it in. */
typedef struct eitp_sample {
    void **values; /* for each input in the order of build: room for `rows` values, or for one, of its shape */
    int64_t rows;  /* the task's rows; less where the sample has fewer */
    /* For each term and measure in the order of build: over how many of the sample's rows it is a mean, at least 0. 1
       to begin with: each sample counts alike. */
    int64_t items[EITP_PASS_QUANTITIES];
} eitp_sample;

/* What a resume compares. The hash is of what the samples are made of. */
typedef struct eitp_task_identity {
    uint64_t hash;
    uint64_t first, count; /* where in it the training samples begin, and how many units they have */
} eitp_task_identity;

/*
 * Functions but build and read may be NULL.
 *
 * How many micro-batches a pass takes changes no bit where each parameter is used up to four times as
 * eitp_accumulate_gradients says: of several uses each is accumulated by itself, which takes as much memory again. With
 * other uses the last bits depend on it: a resume with another number is refused, and eitp_trainer_shrink says so.
 */
typedef struct eitp_task {
    void *user;
    eitp_context *context;
    eitp_model *model; /* saved with its configuration, and with adapters if it has some; NULL: a model of ops, of which
                          checkpoints have the parameters */
    int64_t rows;      /* of a sample, or most of one where they vary */
    uint64_t samples[2]; /* in each eitp_split; no validation: 0 */
    int rows_vary;
    const char *unit; /* what items of the first term are called in records, as "tokens"; NULL: "items" */
    /* True if rows that belong to no sample may lie between samples: see `empty` of eitp_pass_row_input. Otherwise
       micro-batches are not merged where a sum over rows cannot be cut between them. */
    int allows_gaps;
    eitp_status (*build)(void *user, eitp_pass *pass, eitp_error *error);
    /*
     * With eitp_trainer_config.data_workers, `read` is called from worker threads with a stack of 1 MiB. With one
     * worker the trainer never calls two functions of the task at a time; with more it calls `read` from several
     * threads at a time. `prefetch` is then not called. Token files and arrays may be read by several threads.
     */
    eitp_status (*read)(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error);
    void (*prefetch)(void *user, eitp_split split, uint64_t number);
    eitp_status (*identify)(void *user, eitp_task_identity *identity, eitp_error *error);
    eitp_status (*save)(void *user, const char *directory, eitp_error *error);
    void (*release)(void *user);
} eitp_task;

/* Calls release, if there is one, and clears the struct. NULL is fine. */
EITP_API void eitp_task_release(eitp_task *task);

/* ---- Language modelling ---- */

/* The next token after each of a window of tokens. */
typedef struct eitp_language_config {
    eitp_model *model;
    eitp_token_source training, validation; /* validation.count 0: none */
    int64_t block_size;                     /* tokens of a sample */
    const eitp_tokenizer *tokenizer;        /* saved with checkpoints; may be NULL. Not copied */
} eitp_language_config;

/*
 * Samples are the windows of eitp_windows. A source without one is EITP_ERROR_ARGUMENT, and so is a block size above
 * the model's positions. The term is called "loss", and its items are tokens. The sources are not read yet.
 */
EITP_API eitp_status eitp_language_task(const eitp_language_config *config, eitp_task *task, eitp_error *error);

EITP_END_DECLARATIONS

#endif
