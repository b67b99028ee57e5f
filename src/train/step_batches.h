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

/* Where a trainer starts in the data: after `step` steps, which have read `samples` samples. Not a multiple of the
   samples of a step if a run was made longer after a last step that was not full. */
typedef struct eitp__data_position {
    int64_t step;
    uint64_t samples;
} eitp__data_position;

/* The number of samples that have been read after `step` steps. The steps after the start are full, but for the last
   one, which ends at last_sample. */
EITP__PRIVATE uint64_t eitp__samples_after(const eitp_trainer_config *config, const eitp__data_position *start,
                                           int64_t step);

/* The number of steps, those before the start included, until last_sample has been read. */
EITP__PRIVATE int64_t eitp__steps_to_last(const eitp_trainer_config *config, const eitp__data_position *start);

/*
 * The number of samples of a pass, counted from 0, of the step that reads the run's sample `step_first` first, and the
 * number in the run of the pass's first sample. It is below a full pass, or 0, where the step or the run ends.
 */
EITP__PRIVATE int64_t eitp__pass_samples(const eitp_trainer_config *config, uint64_t step_first, int64_t pass,
                                         uint64_t *first);

/* The index in the task's training samples of the run's sample `number`. */
EITP__PRIVATE uint64_t eitp__sample_of(const eitp_trainer_config *config, const eitp_task *task, uint64_t number);

/* Reads all samples of the step that begins with the run's sample `first`. EITP_ERROR_INTERRUPTED if the poll, asked
   before each, says stop. */
EITP__PRIVATE eitp_status eitp__step_batches_read(eitp__step_batches *batches, const eitp_trainer_config *config,
                                                  uint64_t first, const eitp__poll *poll, eitp_error *error);

#endif
