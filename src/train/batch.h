/* A batch: the samples of a pass, in buffers that are written to the inputs of its plan. */
#ifndef EITP_BATCH_H
#define EITP_BATCH_H

#include "base/memory.h"
#include "base/status.h"
#include "task/pass.h"

/* Maximum batch_size and grad_accum. */
#define EITP__MAX_BATCH (1 << 20)

/* Items of a sample, for each scalar of the task, and the divisors of means: the number of items unless they have
   weights. */
typedef struct eitp__sample_items {
    int64_t of[EITP_MAX_PASS_QUANTITIES];
    double weights[EITP_MAX_PASS_QUANTITIES];
} eitp__sample_items;

/* Items of all samples of a step, for each scalar. */
typedef struct eitp__step_items {
    int64_t of[EITP_MAX_STEP_SCALARS];
    double weights[EITP_MAX_STEP_SCALARS];
} eitp__step_items;

/* A sample to read, and the members of eitp_sample that `read` receives. */
typedef struct eitp__draw {
    eitp_split split;
    uint64_t number, seed, epoch;
} eitp__draw;

typedef struct eitp__batch {
    eitp_context *context;
    const eitp_pass *pass;
    int64_t count, rows;                /* number of samples, and of rows up to the end of the last sample */
    void *values[EITP_MAX_PASS_INPUTS]; /* for each input: [rows] or [places] */
    int32_t *positions;                 /* [rows] */
    int32_t *places;                    /* [rows]: index of the row's sample; -1 between samples */
    int32_t *offsets;                   /* [sequences + 1] */
    int32_t *bounds;                    /* [places, 2] */
    int32_t *group_bounds;              /* [groups, 2] */
    int32_t *encoder_positions;         /* [rows]: positions of the encoder's tokens; -1 in other rows */
    int32_t *encoder_offsets;           /* [parted sequences + 1] */
    int32_t *encoder_bounds;            /* [places, 2] */
    int32_t *corrupted;                 /* [rows]: see eitp__batch_corrupt */
    int32_t *inverse;                   /* [rows]: see eitp_embedding_unique; -1 in padding */
    int64_t *starts, *lengths;          /* [samples]: first row, and number of rows */
    int64_t *encoder_lengths;           /* [samples]: rows of the encoder's sequence */
    uint64_t *numbers;                  /* [samples]: numbers in their split */
    eitp__sample_items *items;          /* [samples] */
} eitp__batch;

/* Creates a batch. The pass must outlive it. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__batch_create(const eitp_pass *pass, eitp__batch *batch, eitp_error *error);
EITP__PRIVATE void eitp__batch_release(eitp__batch *batch);

/* Removes all samples. */
EITP__PRIVATE void eitp__batch_clear(eitp__batch *batch);

/* Reads a sample and appends it; the batch must not be full. */
EITP__PRIVATE eitp_status eitp__batch_add(eitp__batch *batch, const eitp__draw *draw, eitp_error *error);

/* Replaces the samples of a batch by the first `count` samples of a batch with the same inputs and micro-batches. */
EITP__PRIVATE void eitp__batch_copy(eitp__batch *batch, const eitp__batch *from, int64_t count);

/* Fills in the corrupted tokens of a probe: each of the model's tokens is replaced with probability corruption_rate by
   a different token of the vocabulary. The choice is a function of the seed, the step and the row. */
EITP__PRIVATE void eitp__batch_corrupt(eitp__batch *batch, uint64_t seed, int64_t step);

/* Adds the items of all samples to *items, one sample after another. */
EITP__PRIVATE void eitp__batch_count_items(const eitp__batch *batch, eitp__step_items *items);

/* Returns the items of a sample, and their weight, for a scalar. A group of a regularizer belongs to its first
   sample. */
EITP__PRIVATE int64_t eitp__batch_items_of(const eitp__batch *batch, int scalar, int64_t sample, double *weight);

/* Returns the divisor of the sum of a scalar. */
EITP__PRIVATE double eitp__mean_divisor(const eitp__step_items *items, int scalar);

/* Writes the batch to the inputs of the pass's plan, and sets the plan's number of rows. */
EITP__PRIVATE eitp_status eitp__batch_write(eitp__batch *batch, eitp_plan *plan, eitp_error *error);

/* Returns the maximum number of values of a scalar. */
EITP__PRIVATE int64_t eitp__batch_value_count(const eitp_pass *pass);

/* Reads the values of a scalar after an execution. */
EITP__PRIVATE eitp_status eitp__batch_read_values(const eitp__batch *batch, eitp_plan *plan, const eitp__scalar *scalar,
                                                  float *values, eitp_error *error);

/* Return the number of values of an output, and read them after an execution. */
EITP__PRIVATE int64_t eitp__batch_output_count(const eitp_pass *pass, const eitp__pass_output *output);
EITP__PRIVATE eitp_status eitp__batch_read_output(const eitp__batch *batch, eitp_plan *plan,
                                                  const eitp__pass_output *output, float *values, eitp_error *error);

/* Return the values that `read` stored for an input of a sample, and the sample's values of an output. */
EITP__PRIVATE const void *eitp__batch_input_of(const eitp__batch *batch, int input, int64_t sample);
EITP__PRIVATE const float *eitp__batch_output_of(const eitp__batch *batch, const eitp__pass_output *output,
                                                 const float *values, int64_t sample);

/* Adds a sample's values to *sum. A total belongs to the first sample. */
EITP__PRIVATE void eitp__batch_add_values(const eitp__batch *batch, const eitp__scalar *scalar, const float *values,
                                          int64_t sample, double *sum);

#endif
