/* A plan that gives the loss of each token: for training windows and for evaluation. */
#ifndef EITP_EVALUATE_H
#define EITP_EVALUATE_H

#include "base/memory.h"
#include "base/status.h"
#include "train/train.h"

/* Targets that carry no loss; the value that PyTorch ignores. */
#define EITP__IGNORED_TARGET (-100)

/* Host buffers for a batch of windows. */
typedef struct eitp__batch {
    eitp_host host;
    int64_t sequences, longest;            /* capacity */
    int32_t *tokens, *targets, *positions; /* [sequences * longest] */
    int32_t *offsets;                      /* [sequences + 1] */
    float *losses;                         /* [sequences * longest] */
} eitp__batch;

EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, int64_t sequences, int64_t longest,
                                             eitp__batch *batch, eitp_error *error);
EITP__PRIVATE void eitp__batch_release(eitp__batch *batch);

/* Reads samples [first, first + count) into the batch; checks every token against the vocabulary. */
EITP__PRIVATE eitp_status eitp__batch_read(eitp__batch *batch, const eitp_windows *windows, uint64_t first,
                                           int64_t count, int64_t vocabulary, eitp_error *error);

/* Writes the first `count` sequences to a plan's inputs and sets its rows. */
EITP__PRIVATE eitp_status eitp__batch_write(const eitp__batch *batch, int64_t count, eitp_plan *plan,
                                            const eitp_model_inputs *inputs, eitp_tensor *targets, eitp_error *error);

/* Reads the losses of `count` sequences; adds them to *sum and the number of valid targets to *valid. */
EITP__PRIVATE eitp_status eitp__batch_losses(eitp__batch *batch, int64_t count, eitp_plan *plan, eitp_tensor *losses,
                                             double *sum, int64_t *valid, eitp_error *error);

/* A forward plan with losses. */
typedef struct eitp__evaluator {
    const eitp_model *model;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    int64_t sequences, longest;
} eitp__evaluator;

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_model *model, int64_t sequences, int64_t longest,
                                                 eitp__evaluator *evaluator, eitp_error *error);
/* What its plan would need of an arena. */
EITP__PRIVATE eitp_status eitp__evaluator_estimate(const eitp_model *model, int64_t sequences, int64_t longest,
                                                   size_t *bytes, eitp_error *error);
EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator);

/* The mean loss on the first `count` windows, in order. */
EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp__batch *batch,
                                              const eitp_windows *windows, uint64_t count, eitp_evaluation *evaluation,
                                              eitp_error *error);

#endif
