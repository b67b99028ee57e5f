/* Batches of windows on their way into a plan: where sequences lie in its rows, and what the host keeps of them. */
#ifndef EITP_BATCH_H
#define EITP_BATCH_H

#include "base/memory.h"
#include "base/status.h"
#include "train/train.h"

/* Targets that carry no loss; the value that PyTorch ignores. */
#define EITP__IGNORED_TARGET (-100)

/*
 * Where sequences lie in the rows of a pass: those of a micro-batch one after the other, and `gap` rows of no target
 * before the next micro-batch, so that each begins where a sum over rows can be cut. A gap is a sequence of its own.
 */
typedef struct eitp__layout {
    int64_t sequences;   /* capacity */
    int64_t longest;     /* tokens of each */
    int64_t micro_batch; /* sequences */
    int64_t gap;         /* rows */
} eitp__layout;

/* One micro-batch. */
EITP__PRIVATE eitp__layout eitp__layout_plain(int64_t sequences, int64_t longest);

/* The first row of a sequence. */
EITP__PRIVATE int64_t eitp__layout_row(const eitp__layout *layout, int64_t sequence);

/* Rows of the first `count` sequences, and gaps between them. */
EITP__PRIVATE int64_t eitp__layout_rows(const eitp__layout *layout, int64_t count);

/* The longest sequence, a gap or not. */
EITP__PRIVATE int64_t eitp__layout_longest(const eitp__layout *layout);

/* The inputs of a language model's graph for all its rows; with_key adds the dropout key. */
EITP__PRIVATE eitp_model_inputs eitp__layout_inputs(const eitp__layout *layout, eitp_graph *graph, int with_key);

/* Host buffers for a batch of windows. */
typedef struct eitp__batch {
    eitp_host host;
    eitp__layout layout;
    int64_t rows, segments;                /* capacity; segments: sequences and gaps */
    int32_t *tokens, *targets, *positions; /* [rows] */
    int32_t *inverse;                      /* [rows]: see eitp_model_inputs; -1 in gaps */
    int32_t *offsets;                      /* [segments + 1] */
    float *losses;                         /* [rows] */
} eitp__batch;

EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, const eitp__layout *layout, eitp__batch *batch,
                                             eitp_error *error);
EITP__PRIVATE void eitp__batch_release(eitp__batch *batch);

/* Reads samples [first, first + count) into the batch; checks every token against the vocabulary. */
EITP__PRIVATE eitp_status eitp__batch_read(eitp__batch *batch, const eitp_windows *windows, uint64_t first,
                                           int64_t count, int64_t vocabulary, eitp_error *error);

/* Writes the first `count` sequences to a plan's inputs and sets its rows. */
EITP__PRIVATE eitp_status eitp__batch_write(eitp__batch *batch, int64_t count, eitp_plan *plan,
                                            const eitp_model_inputs *inputs, eitp_tensor *targets, eitp_error *error);

/* Reads the losses of `count` sequences; adds them to *sum and the number of valid targets to *valid. */
EITP__PRIVATE eitp_status eitp__batch_losses(eitp__batch *batch, int64_t count, eitp_plan *plan, eitp_tensor *losses,
                                             double *sum, int64_t *valid, eitp_error *error);

/* The distinct tokens of a step, in the order in which they come first. */
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

/* Adds the tokens of a batch's first `count` sequences, and fills in its `inverse`. */
EITP__PRIVATE void eitp__unique_add(eitp__unique *unique, eitp__batch *batch, int64_t count);

#endif
