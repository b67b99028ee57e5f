/* The directory of a run: creating, locking and checking it, and removing it if it is unused. */
#ifndef EITP_RUN_DIRECTORY_H
#define EITP_RUN_DIRECTORY_H

#include "base/platform.h"
#include "run/run.h"

/* Creates, locks and checks the directory; sets run->checkpoint and run->checkpoint_step. */
EITP__PRIVATE eitp_status eitp__run_prepare_directory(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* The same for an eitp_watch of a trainer that has made `done` steps: no checkpoint is chosen. EITP_ERROR_ARGUMENT if
   the directory has one of later steps. */
EITP__PRIVATE eitp_status eitp__run_prepare_watched_directory(eitp_run *run, int64_t done, eitp_error *error);

/* Verifies all files of the checkpoint; where the newest was to be found, a damaged one is set aside and another found.
   See eitp_run_recover. */
EITP__PRIVATE eitp_status eitp__run_recover(eitp_run *run, eitp_error *error);

/* Ends what eitp__run_prepare_directory has begun to read. */
EITP__PRIVATE void eitp__run_end_prefetch(eitp_run *run);

/* Resumes the trainer from the checkpoint. If that fails because the checkpoint is damaged, recovers: *is_replaced is 1
   if there is another checkpoint to try. */
EITP__PRIVATE eitp_status eitp__run_try_resume(eitp_run *run, eitp_trainer *trainer, int *is_replaced,
                                               eitp_error *error);

/* Removes what unfinished writes of this and earlier runs left. */
EITP__PRIVATE eitp_status eitp__run_clean(const eitp_run *run, eitp_error *error);

/* Removes the directories that were created for the run, as far as they are empty. */
EITP__PRIVATE void eitp__run_remove_directories(eitp_run *run);

/* Locks the directory. EITP_ERROR_ARGUMENT if another process has. */
EITP__PRIVATE eitp_status eitp__run_lock(eitp_run *run, eitp_error *error);
EITP__PRIVATE void eitp__run_unlock(eitp_run *run);

#endif
