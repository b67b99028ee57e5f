/* Options that a resumed run takes from its checkpoint, and changes that it allows. */
#ifndef COMMAND_RUN_RESUME_H
#define COMMAND_RUN_RESUME_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* True if --resume is set to anything but "no" or "false". */
int resume_is_requested(const option_set *o);

/* Sets r->checkpoint to the checkpoint named by --resume; NULL for a new run. Without --output-dir the run keeps its
   directory. */
eitp_status resume_find_checkpoint(training_run *r, eitp_error *error);

/*
 * True if the run must start over from an older complete checkpoint because its checkpoint is damaged. The damaged one
 * was renamed and logged. Otherwise the command ends with `error`.
 */
int resume_starts_over(training_run *r, eitp_error *error);

/* Completes the options from the checkpoint and the run.json next to it. */
eitp_status resume_take_options(training_run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
