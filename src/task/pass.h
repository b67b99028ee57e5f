/* A pass: the inputs, loss terms and metrics that a task's build adds, for the trainer to fill in and read. */
#ifndef EITP_PASS_H
#define EITP_PASS_H

#include "base/memory.h"
#include "base/status.h"
#include "task/layout.h"
#include "task/task.h"

/* The unit of language models. For losses in this unit, the exponential is reported as the perplexity. */
#define EITP__TOKENS "tokens"

/* The target of rows without a loss (ignore_index of PyTorch). */
#define EITP__IGNORED_TARGET (-100)

typedef struct eitp__pass_input {
    eitp_tensor *tensor;
    eitp_dtype dtype;
    int is_per_row;    /* otherwise per sample */
    size_t value_size; /* bytes of one value with all its dimensions */
    double empty;      /* value of unused rows and sample indices */
} eitp__pass_input;

typedef enum eitp__scalar_kind {
    EITP__PER_ROW,
    EITP__PER_SAMPLE,
    EITP__PER_GROUP,
    EITP__TOTAL,  /* one value */
    EITP__PENALTY /* a value of parameters, computed by `build` once a step */
} eitp__scalar_kind;

/* Returns a value of parameters, F32 [1], in a graph. */
typedef eitp_tensor *eitp__parameter_function(void *user, eitp_graph *graph);

/* A loss term or a metric, of steps or of evaluations. */
typedef struct eitp__scalar {
    char name[EITP_SCALAR_NAME_SIZE];
    eitp__scalar_kind kind;
    int is_term;
    int is_regularizer; /* a statistic, a penalty or a step metric; the task's `read` does not know it */
    eitp_metric_direction direction;
    eitp_schedule schedule;          /* weight schedule of a task's term */
    eitp_term_schedule timing;       /* timing and weight of a regularizer */
    int controlled;                  /* 1 + number of the library's regularizer that this is the term of; 0: none */
    eitp_tensor *values;             /* F32 [n], [places], [groups], or a single value; an output of an evaluation */
    eitp_tensor *weight;             /* input F32 [1] of a term in training: factor of its sum */
    eitp__parameter_function *build; /* of a penalty */
    void *user;
} eitp__scalar;

/* An output of an evaluation. */
typedef struct eitp__pass_output {
    eitp_tensor *values; /* output F32 [n, shape...] or [places, shape...] */
    int is_per_row;
    int64_t width; /* values of a row or sample */
} eitp__pass_output;

/* See eitp_pass_learner. */
typedef struct eitp__learner {
    char prefix[EITP_SCALAR_NAME_SIZE];
    eitp_learner_config config;
} eitp__learner;

/* The rows of groups, or of samples: see eitp_pass_by_group. NULL until they are used. */
typedef struct eitp__row_groups {
    eitp_tensor *ids;  /* I32 [groups * rows]: the row, or -1 */
    eitp_tensor *mask; /* F32 [groups, rows] */
} eitp__row_groups;

struct eitp_pass {
    const eitp_task *task;
    eitp_graph *graph;
    eitp__layout layout;
    int trains;
    int probe; /* 0: the pass of the task; otherwise the regularizer's number for `extend`, in a pass without dropout */
    int64_t step_rows; /* rows of all samples of a step */
    eitp__pass_input inputs[EITP_MAX_PASS_INPUTS];
    int input_count;
    eitp__scalar scalars[EITP_MAX_STEP_SCALARS];
    int scalar_count;
    eitp__pass_output outputs[EITP_MAX_PASS_OUTPUTS]; /* none in training */
    int output_count;
    eitp__learner learners[EITP_MAX_LEARNERS]; /* none in evaluations, and in probes */
    int learner_count;
    eitp_tensor *positions, *offsets, *bounds, *key, *sample_key; /* NULL: not used */
    eitp_tensor *places; /* row input I32 [n]: index of each row's sample, -1 between samples; NULL: not used */
    eitp_tensor *unique, *inverse;  /* from eitp_pass_unique */
    int lookup;                     /* index of the input that holds the ids */
    int64_t vocabulary;             /* all ids are below this; 0 without a lookup */
    const eitp_model *positions_of; /* model that the positions are for: see eitp_model_fill_positions; may be NULL */
    int positions_from;             /* index of the input that holds the tokens of positions_of */
    eitp_tensor *loss;              /* in training: the weighted sum of the task's terms */
    eitp_tensor *regularizers;      /* in training: the weighted sum of the statistics; NULL: none */
    eitp_tensor *segments;          /* the model's input of segments; NULL: none */
    const eitp_model *encoder;      /* of eitp_pass_encoder_inputs; NULL: none */
    int encoder_from;               /* index of the input that holds the encoder's tokens */
    eitp_tensor *encoder_positions, *encoder_offsets, *encoder_bounds;
    int64_t steps;        /* steps of the training; 0: unknown */
    eitp_tensor *targets; /* set by eitp_pass_set_targets; NULL: unknown */
    int32_t ignored;
    eitp_tensor *probe_key; /* input I64 [3] of a probe, like a dropout key; NULL: not used */
    eitp_tensor *corrupted; /* row input of a probe: tokens, some of them replaced; NULL: not used */
    double corruption_rate;
    eitp_tensor *group_bounds; /* input I32 [groups, 2]: first row and the row after the last; -1 for unused groups */
    eitp__row_groups by_group, by_sample;
};

/* Checks the required members of a task. */
EITP__PRIVATE eitp_status eitp__task_check(const eitp_task *task, eitp_error *error);

/* Builds a pass of a task in its own graph. `probe` and `steps` become the members of eitp_pass. Release it even after
   a failure. */
EITP__PRIVATE eitp_status eitp__pass_build(eitp_pass *pass, const eitp_task *task, const eitp__layout *layout,
                                           int trains, int probe, int64_t step_rows, int64_t steps, eitp_error *error);
EITP__PRIVATE void eitp__pass_release(eitp_pass *pass);

/* Returns the maximum number of distinct ids in a step. */
EITP__PRIVATE int64_t eitp__pass_unique_capacity(const eitp_pass *pass);

/* Returns the unique ids of the step as an input of another graph, or NULL if the pass has none. */
EITP__PRIVATE eitp_tensor *eitp__pass_unique_input(const eitp_pass *pass, eitp_graph *graph);

/* Returns the bounds of groups, for the trainer to fill in. */
EITP__PRIVATE eitp_tensor *eitp__pass_group_bounds(eitp_pass *pass);

/*
 * Return the rows of x [n, c] by sample, regardless of the group of statistics: [places, rows, c]; and their mask, F32
 * [places, rows], which is 1 in the rows of a sample. If each sample is a group, the same as eitp_pass_by_group and
 * eitp_pass_group_mask.
 */
EITP__PRIVATE eitp_tensor *eitp__pass_by_sample(eitp_pass *pass, eitp_tensor *x);
EITP__PRIVATE eitp_tensor *eitp__pass_sample_mask(eitp_pass *pass);

/* True if a pass computes a scalar for the step. A probe leaves out the task's scalars and everything that only they
   need. */
EITP__PRIVATE int eitp__pass_reports(const eitp_pass *pass, const eitp__scalar *scalar);

/*
 * Adds the sums of the pass's scalars, except penalties, to a variable F64 [EITP_MAX_STEP_SCALARS] from element `first`
 * on, and returns the variable's new value. The sums continue those of the previous pass if `carry`, F32 [1], is 1. In
 * another graph, use eitp__pass_totals to get the variable.
 */
EITP__PRIVATE eitp_tensor *eitp__pass_add_totals(eitp_pass *pass, int first, eitp_tensor *carry);
EITP__PRIVATE eitp_tensor *eitp__pass_totals(eitp_graph *graph);

EITP__PRIVATE int eitp__is_direction(eitp_metric_direction direction);

/* Adds a scalar. Returns NULL after an error. */
EITP__PRIVATE eitp__scalar *eitp__scalar_add(eitp_pass *pass, const char *name, int is_term);

/* Sets the values of a scalar whose kind has values. Returns 0 after an error. */
EITP__PRIVATE int eitp__scalar_set_values(eitp_pass *pass, eitp__scalar *scalar, eitp_tensor *values,
                                          eitp__scalar_kind kind);

/* The weight of a term in a step. A regularizer is due in the steps that compute it. */
EITP__PRIVATE double eitp__term_weight(const eitp__scalar *term, int64_t step);
EITP__PRIVATE int eitp__term_is_due(const eitp_term_schedule *timing, int64_t step);

/* Returns the index of the learner that updates a parameter, or -1 if none does. */
EITP__PRIVATE int eitp__pass_learner_of(const eitp_pass *pass, const char *parameter);

/* Checks the learners of a pass that is built, and marks their parameters: eitp_variable.of_learner. */
EITP__PRIVATE eitp_status eitp__pass_check_learners(const eitp_pass *pass, eitp_error *error);

/* Sets values [first, first + count) of an input to `empty`. */
EITP__PRIVATE void eitp__pass_input_clear(const eitp__pass_input *input, void *values, int64_t first, int64_t count);

#endif
