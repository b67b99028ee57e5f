/* What a resumed run may change, and what it keeps: batches, profile, kernels. */
#ifndef COMMAND_RUN_RESUME_CHANGES_H
#define COMMAND_RUN_RESUME_CHANGES_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Completes --batch-size and --grad-accum to the samples per step of the checkpoint, and follows --profile. */
void changes_keep_samples(training_run *r);

/* Refuses another number of samples per step. */
eitp_status changes_check_samples(const training_run *r, const eitp_trainer_config *requested, eitp_error *error);

/* Sets *numerics to those of the checkpoint; to NULL if the environment selects other kernels, or the machine lacks
   them. EITP_ERROR_ARGUMENT if the environment names unknown ones. */
eitp_status changes_find_numerics(const training_run *r, const char **numerics, eitp_error *error);

EITP_END_DECLARATIONS

#endif
