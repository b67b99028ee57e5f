/* Evaluation: a plan without gradients, and the means of losses and metrics over samples. */
#ifndef EITP_EVALUATOR_H
#define EITP_EVALUATOR_H

#include "train/batch.h"
#include "train/train.h"

typedef struct eitp__evaluator {
    eitp_host host;
    eitp_pass pass;
    eitp_plan *plan;
    eitp__batch batch;
    float *values;  /* values of one scalar */
    double *losses; /* [samples] */
    float *outputs[EITP_MAX_PASS_OUTPUTS];
    void *memory; /* memory of eitp_task.observe */
    size_t memory_bytes;
    uint64_t done, count; /* samples of the current evaluation: done, and in all */
} eitp__evaluator;

/* Returns the number of samples in an evaluation of `samples` requested samples: see eitp__evaluator_run. */
EITP__PRIVATE uint64_t eitp__evaluation_size(const eitp_task *task, eitp_split split, int64_t samples);

/* Creates an evaluator that takes `samples` samples per pass, and up to `most` in an evaluation. The task must outlive
   it. Do not move it. Release it after a failure too. */
EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_task *task, int64_t samples, uint64_t most,
                                                 eitp__evaluator *evaluator, eitp_error *error);

/* Estimates the arena and workspace bytes of such an evaluator. */
EITP__PRIVATE eitp_status eitp__evaluator_estimate(const eitp_task *task, int64_t samples, size_t *bytes,
                                                   eitp_error *error);
EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator);

/* Evaluates `samples` samples of a split in order; all if `samples` is 0 or exceeds their number. A part is drawn with
   `seed`, one sample from each of `samples` equal strata of the split. Terms have the weights of `step`. */
EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp_split split, int64_t samples,
                                              uint64_t seed, int64_t step, eitp_evaluation *evaluation,
                                              eitp_error *error);

#endif
