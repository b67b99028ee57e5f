/* A plan that gives the loss of each token: for training windows and for evaluation. */
#ifndef EITP_EVALUATE_H
#define EITP_EVALUATE_H

#include "train/batch.h"

/* A forward plan with losses. */
typedef struct eitp__evaluator {
    const eitp_model *model;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    eitp__layout layout;
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
