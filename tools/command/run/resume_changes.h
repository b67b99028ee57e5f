/* Changes that a resumed run allows or refuses: batches, profile, kernels. */
#ifndef COMMAND_RUN_RESUME_CHANGES_H
#define COMMAND_RUN_RESUME_CHANGES_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Completes --batch-size and --grad-accum to the samples per step of the checkpoint, and follows --profile. */
void changes_keep_samples(training_run *r);

/* Refuses changes that a resumed run does not allow, naming the option. eitp_trainer_resume compares the rest. */
eitp_status changes_check(const training_run *r, eitp_error *error);

/* Sets r->numerics to the checkpoint's, if any, or to NULL if the environment selects other kernels or the machine
   lacks them. EITP_ERROR_ARGUMENT if the environment names unknown kernels. */
eitp_status changes_find_numerics(training_run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
