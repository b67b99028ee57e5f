/* What a task builds: the inputs, loss terms and metrics of one pass, as the trainer fills in and reads them. */
#ifndef EITP_PASS_H
#define EITP_PASS_H

#include "base/memory.h"
#include "base/status.h"
#include "task/layout.h"
#include "task/task.h"

/* The unit of language models: the exponential of their loss is a perplexity. */
#define EITP__TOKENS "tokens"

/* Targets without a loss, as PyTorch has them. */
#define EITP__IGNORED_TARGET (-100)

typedef struct eitp__pass_input {
    eitp_tensor *tensor;
    eitp_dtype dtype;
    int is_per_row;    /* else per sample */
    size_t value_size; /* bytes of one value, of all its dimensions */
    double empty;      /* of rows and samples that are not there */
} eitp__pass_input;

typedef enum eitp__quantity_kind { EITP__PER_ROW, EITP__PER_SAMPLE, EITP__TOTAL } eitp__quantity_kind;

/* A loss term or a metric. */
typedef struct eitp__quantity {
    char name[EITP_QUANTITY_NAME_SIZE];
    eitp__quantity_kind kind;
    int is_term;
    eitp_schedule schedule; /* of a term's weight */
    eitp_tensor *values;    /* output F32 [n], [places], or one */
    eitp_tensor *weight;    /* input F32 [1] of a term in training: what its sum is multiplied by */
} eitp__quantity;

struct eitp_pass {
    const eitp_task *task;
    eitp_graph *graph;
    eitp__layout layout;
    int trains;
    int64_t step_rows; /* of all samples of a step */
    eitp__pass_input inputs[EITP_MAX_PASS_INPUTS];
    int input_count;
    eitp__quantity quantities[EITP_MAX_PASS_QUANTITIES];
    int quantity_count;
    eitp_tensor *positions, *offsets, *key, *sample_key; /* NULL: not asked for */
    eitp_tensor *unique, *inverse;                       /* of eitp_pass_unique */
    int lookup;                                          /* the input whose ids they are of */
    int64_t vocabulary;                                  /* upper bound of the ids; 0 without a lookup */
    eitp_tensor *loss;                                   /* the sum of weighted terms, in training */
};

/* Functions and sizes that a task must have. */
EITP__PRIVATE eitp_status eitp__task_check(const eitp_task *task, eitp_error *error);

/* Builds a task's pass in a graph of its own. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__pass_build(eitp_pass *pass, const eitp_task *task, const eitp__layout *layout,
                                           int trains, int64_t step_rows, eitp_error *error);
EITP__PRIVATE void eitp__pass_release(eitp_pass *pass);

/* Distinct ids that a step can have at most. */
EITP__PRIVATE int64_t eitp__pass_unique_capacity(const eitp_pass *pass);

/* The unique ids of the step, as an input of another graph; NULL where the pass has none. */
EITP__PRIVATE eitp_tensor *eitp__pass_unique_input(const eitp_pass *pass, eitp_graph *graph);

/* The weight of a term in a step. */
EITP__PRIVATE double eitp__term_weight(const eitp__quantity *term, int64_t step);

/* Stores `empty` in values [first, first + count) of an input. */
EITP__PRIVATE void eitp__pass_input_clear(const eitp__pass_input *input, void *values, int64_t first, int64_t count);

#endif
