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

/* A trainer's start in the data: after `step` steps that read `samples` samples. `samples` need not be a multiple of
   the samples per step, if a run was extended after a last step that was not full. */
typedef struct eitp__data_position {
    int64_t step;
    uint64_t samples;
} eitp__data_position;

/* Returns the number of samples read after `step` steps. The steps after the start are full, except the last one, which
   ends at last_sample. */
EITP__PRIVATE uint64_t eitp__samples_after(const eitp_trainer_config *config, const eitp__data_position *start,
                                           int64_t step);

/* Returns the number of steps, including the steps before the start, until last_sample was read. */
EITP__PRIVATE int64_t eitp__steps_to_last(const eitp_trainer_config *config, const eitp__data_position *start);

/*
 * Returns the number of samples of pass `pass`, from 0, of the step whose first sample is the run's sample
 * `step_first`. *first is the run's number of the pass's first sample. The result is below a full pass, or 0, at the
 * end of the step or the run.
 */
EITP__PRIVATE int64_t eitp__pass_samples(const eitp_trainer_config *config, uint64_t step_first, int64_t pass,
                                         uint64_t *first);

/* Returns the index in the task's training samples of the run's sample `number`. */
EITP__PRIVATE uint64_t eitp__sample_of(const eitp_trainer_config *config, const eitp_task *task, uint64_t number);

/* Reads all samples of the step that starts with the run's sample `first`. EITP_ERROR_INTERRUPTED if the poll, checked
   before each sample, stops it. */
EITP__PRIVATE eitp_status eitp__step_batches_read(eitp__step_batches *batches, const eitp_trainer_config *config,
                                                  uint64_t first, const eitp__poll *poll, eitp_error *error);

#endif
