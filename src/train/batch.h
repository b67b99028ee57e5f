/* Samples on their way into a plan: the host's buffers of a pass's inputs. */
#ifndef EITP_BATCH_H
#define EITP_BATCH_H

#include "base/memory.h"
#include "base/status.h"
#include "task/pass.h"

/* The largest batch_size and grad_accum. */
#define EITP__MAX_BATCH (1 << 20)

/* Items that each sample has of each quantity. */
typedef struct eitp__sample_items {
    int64_t of[EITP_MAX_PASS_QUANTITIES];
} eitp__sample_items;

typedef struct eitp__batch {
    eitp_host host;
    const eitp_pass *pass;
    int64_t count, rows;                /* samples in it, and rows up to the end of the last */
    void *values[EITP_MAX_PASS_INPUTS]; /* of each input: [rows] or [places] */
    int32_t *positions;                 /* [rows] */
    int32_t *offsets;                   /* [sequences + 1] */
    int32_t *inverse;                   /* [rows]: see eitp_embedding_unique; -1 in gaps */
    int64_t *starts, *lengths;          /* [samples]: rows of each */
    eitp__sample_items *items;          /* [samples] */
} eitp__batch;

/* The pass must live as long as the batch. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, const eitp_pass *pass, eitp__batch *batch,
                                             eitp_error *error);
EITP__PRIVATE void eitp__batch_release(eitp__batch *batch);

/* Empties it. */
EITP__PRIVATE void eitp__batch_clear(eitp__batch *batch);

/* Reads one more sample; there must be room. */
EITP__PRIVATE eitp_status eitp__batch_add(eitp__batch *batch, eitp_split split, uint64_t number, eitp_error *error);

/* Adds the items of all its samples to those of each quantity. */
EITP__PRIVATE void eitp__batch_count_items(const eitp__batch *batch, int64_t *items);

/* Writes it to the inputs of the pass's plan, and sets the plan's rows. */
EITP__PRIVATE eitp_status eitp__batch_write(eitp__batch *batch, eitp_plan *plan, eitp_error *error);

/* Floats that the values of a quantity take at most. */
EITP__PRIVATE int64_t eitp__batch_value_count(const eitp_pass *pass);

/* Reads the values of a quantity after an execution. */
EITP__PRIVATE eitp_status eitp__batch_read_values(const eitp__batch *batch, eitp_plan *plan,
                                                  const eitp__quantity *quantity, float *values, eitp_error *error);

/* Adds a sample's values to *sum; those that are a total belong to the first. */
EITP__PRIVATE void eitp__batch_add_values(const eitp__batch *batch, const eitp__quantity *quantity, const float *values,
                                          int64_t sample, double *sum);

/* ---- The distinct ids of a step, in the order in which they come first: see eitp_pass_unique ---- */

typedef struct eitp__unique {
    eitp_host host;
    int64_t capacity, vocabulary;
    int64_t count;
    int32_t *tokens; /* [capacity], -1 from `count` on */
    int32_t *places; /* [vocabulary]: of each token in `tokens`, or -1 */
} eitp__unique;

EITP__PRIVATE eitp_status eitp__unique_create(const eitp_host *host, int64_t capacity, int64_t vocabulary,
                                              eitp__unique *unique, eitp_error *error);
EITP__PRIVATE void eitp__unique_release(eitp__unique *unique);
EITP__PRIVATE void eitp__unique_clear(eitp__unique *unique);

/* Adds the ids of a batch's samples, and fills in its `inverse`. */
EITP__PRIVATE void eitp__unique_add(eitp__unique *unique, eitp__batch *batch);

#endif
