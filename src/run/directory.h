/* The directory of a run: creating, locking and checking it, its checkpoint and links, and removing it if unused. */
#ifndef EITP_RUN_DIRECTORY_H
#define EITP_RUN_DIRECTORY_H

#include "run/internal.h"

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

EITP__PRIVATE void eitp__run_unlock(eitp_run *run);

/* ---- The links latest_model and best_model ---- */

#define EITP__LATEST_LINK "latest_model"
#define EITP__BEST_LINK "best_model"

/* True if the directory of the run has a checkpoint of a step, or cannot be looked up. */
EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step);

/*
 * Lets latest_model refer to the newest checkpoint and best_model to the one of the best evaluation, if they exist, by
 * one rename each. A link to nothing is removed, and so is one that cannot be replaced. Call it after a save, before
 * other checkpoints are removed, so that the links never dangle. A failure to create them is reported once.
 */
EITP__PRIVATE void eitp__run_update_links(eitp_run *run);

/*
 * If the directory of the run is gone, or another one has its path, creates and locks it again, with a new
 * metrics.jsonl, with a warning. What was in it is not used any more; the next checkpoint has all that the run needs.
 * EITP_ERROR_ARGUMENT if another process trains there by now.
 */
EITP__PRIVATE eitp_status eitp__run_restore_directory(eitp_run *run, eitp_error *error);

#define EITP__RESERVE_BYTES ((size_t)128 << 10)

/* Sets so many bytes on the disk aside while the run trains, if they are free: on a full disk, the last records and the
   reason of the end are written there. */
EITP__PRIVATE void eitp__reserve_take(const eitp_run *run);
EITP__PRIVATE void eitp__reserve_release(const eitp_run *run);

#endif
