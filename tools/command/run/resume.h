/* What a resumed run takes from its checkpoint, and what it may change. */
#ifndef COMMAND_RUN_RESUME_H
#define COMMAND_RUN_RESUME_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* True if --resume is given, and not "no" or "false". */
int resume_is_requested(const option_set *o);

/* Sets r->checkpoint to what --resume names; NULL for a new run. Without --output-dir the run keeps its directory. */
eitp_status resume_find_checkpoint(training_run *r, eitp_error *error);

/*
 * True if the run cannot be prepared because its checkpoint is damaged, and an older one is whole: start over. The
 * damaged one has been set aside, which is in the log. Otherwise `error` is what the command ends with.
 */
int resume_starts_over(training_run *r, eitp_error *error);

/* Completes the options from the checkpoint and the run.json next to it. */
eitp_status resume_take_options(training_run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
