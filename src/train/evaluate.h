/* A plan without gradients, and the means of what it measures over samples. */
#ifndef EITP_EVALUATE_H
#define EITP_EVALUATE_H

#include "train/batch.h"
#include "train/train.h"

typedef struct eitp__evaluator {
    eitp_pass pass;
    eitp_plan *plan;
    eitp__batch batch;
    float *values;  /* of one quantity */
    double *losses; /* [samples] */
} eitp__evaluator;

/* `samples` at a time. The task must live as long, and the evaluator must not move. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_task *task, int64_t samples, eitp__evaluator *evaluator,
                                                 eitp_error *error);
/* What its plan would need of an arena. */
EITP__PRIVATE eitp_status eitp__evaluator_estimate(const eitp_task *task, int64_t samples, size_t *bytes,
                                                   eitp_error *error);
EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator);

/*
 * Measures `count` samples of a split, in order; 0 or more than it has: all. A part is drawn with `seed`, one sample from
 * each of `count` equal stretches, and is the same in every evaluation. Terms have the weights of `step`.
 */
EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp_split split, int64_t count,
                                              uint64_t seed, int64_t step, eitp_evaluation *evaluation,
                                              eitp_error *error);

#endif
