/* Forward passes of one sequence for measurements: hidden states, and predictions from them. */
#ifndef EITP_EMERGENCE_FORWARD_H
#define EITP_EMERGENCE_FORWARD_H

#include "base/memory.h"
#include "base/status.h"
#include "model/transformer.h"
#include "tensor/context.h"

/* A plan from tokens to hidden states. */
typedef struct eitp__hidden_pass {
    const eitp_model *model;
    int64_t capacity; /* tokens */
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    int32_t *positions;                 /* [capacity] */
    eitp_tensor *final_state;           /* F32 [n, width]: the input of the head */
    eitp_tensor *first, *middle, *last; /* outputs of blocks; only with taps */
    eitp_tensor **compared;             /* [layers], F32: queries and keys, EITP_TAP_QUERIES_KEYS; only with taps */
} eitp__hidden_pass;

/* Returns the block whose output is the middle one. */
EITP__PRIVATE int64_t eitp__middle_layer(const eitp_model *model);

/* Creates a plan. `has_segments`: the task provides segments. With `taps`, the outputs inside the model are available.
   Release it even after a failure. */
EITP__PRIVATE eitp_status eitp__hidden_pass_create(eitp__hidden_pass *pass, const eitp_model *model, int64_t capacity,
                                                   int has_segments, int taps, eitp_error *error);
EITP__PRIVATE void eitp__hidden_pass_release(eitp__hidden_pass *pass);

/* Computes a sequence. Segments may be NULL. Outputs can be read until another plan is executed. */
EITP__PRIVATE eitp_status eitp__hidden_pass_execute(eitp__hidden_pass *pass, const int32_t *tokens,
                                                    const int32_t *segments, int64_t count, eitp_error *error);

/* Returns the arithmetic of the last execution. */
EITP__PRIVATE double eitp__hidden_pass_flops(const eitp__hidden_pass *pass);

/* Reads rows [0, count) of an output, of `width` values each. */
EITP__PRIVATE eitp_status eitp__hidden_pass_read(const eitp__hidden_pass *pass, eitp_tensor *output, int64_t count,
                                                 int64_t width, float *values, eitp_error *error);

/* The prediction of the head for one row. */
typedef struct eitp__prediction {
    float loss;       /* loss of the target, in nats; 0 without a target */
    float entropy;    /* in nats */
    float confidence; /* the largest probability */
    float divergence; /* KL(p of the row || p of its counterpart), if there are counterparts */
    int32_t predicted;
} eitp__prediction;

/* A plan from hidden states to predictions, a few rows at a time, since logits are large. */
typedef struct eitp__head_pass {
    const eitp_model *model;
    int64_t rows;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *hidden, *others, *targets;
    eitp_tensor *outputs[5]; /* loss, entropy, confidence, divergence, predicted */
    float *padded;           /* [rows, width] */
    float *values;           /* [4, rows] */
    int32_t *ids;            /* [rows] */
} eitp__head_pass;

/* Creates a plan. With `compares`, rows have counterparts, and the loss is the counterpart's. `most` is the largest
   useful number of rows. Release it even after a failure. */
EITP__PRIVATE eitp_status eitp__head_pass_create(eitp__head_pass *pass, const eitp_model *model, int64_t most,
                                                 int compares, eitp_error *error);
EITP__PRIVATE void eitp__head_pass_release(eitp__head_pass *pass);

/* Returns the arithmetic of predicting `count` rows, without the rows that fill up an execution. */
EITP__PRIVATE double eitp__head_pass_flops(const eitp__head_pass *pass, int64_t count);

/* Predicts from `count` rows of hidden states [count, width]. Negative targets stand for no target. `others` are the
   counterparts, or NULL. */
EITP__PRIVATE eitp_status eitp__head_pass_execute(eitp__head_pass *pass, const float *hidden, const float *others,
                                                  const int32_t *targets, int64_t count, eitp__prediction *predictions,
                                                  eitp_error *error);

#endif
