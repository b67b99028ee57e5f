/* The samples of one step: a batch for each of its passes. */
#ifndef EITP_STEP_BATCHES_H
#define EITP_STEP_BATCHES_H

#include "train/batch.h"
#include "tensor/context.h"
#include "train/train.h"

typedef struct eitp__step_batches {
    eitp_host host;
    eitp__batch *passes; /* [count] */
    int64_t count;
} eitp__step_batches;

/* Allocates `count` batches of a pass, which must outlive them. Release them after a failure too. */
EITP__PRIVATE eitp_status eitp__step_batches_create(const eitp_host *host, const eitp_pass *pass, int64_t count,
                                                    eitp__step_batches *batches, eitp_error *error);
EITP__PRIVATE void eitp__step_batches_release(eitp__step_batches *batches);

/*
 * The number of samples of a pass of a step, both counted from 0, and the first one's number in the run. The number is
 * below a full pass, or 0, where the step or the run ends.
 */
EITP__PRIVATE int64_t eitp__pass_samples(const eitp_trainer_config *config, int64_t step, int64_t pass,
                                         uint64_t *first);

/* The index in the task's training samples of the run's sample `number`. */
EITP__PRIVATE uint64_t eitp__sample_of(const eitp_trainer_config *config, const eitp_task *task, uint64_t number);

/* Reads all samples of a step, counted from 0. EITP_ERROR_INTERRUPTED if the poll, asked before each, says stop. */
EITP__PRIVATE eitp_status eitp__step_batches_read(eitp__step_batches *batches, const eitp_trainer_config *config,
                                                  int64_t step, const eitp__poll *poll, eitp_error *error);

#endif
