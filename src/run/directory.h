/* The directory of a run: creating, locking and checking it, its checkpoints and links, and removing it if unused. */
#ifndef EITP_RUN_DIRECTORY_H
#define EITP_RUN_DIRECTORY_H

#include "run/internal.h"

/* Creates, locks and checks the directory; sets run->checkpoint and run->checkpoint_step. */
EITP__PRIVATE eitp_status eitp__run_prepare_directory(eitp_run *run, const eitp_run_config *config, eitp_error *error);

/* Does the same for an eitp_watch of a trainer that has made `done` steps, without choosing a checkpoint.
   EITP_ERROR_ARGUMENT if the directory has a checkpoint of later steps. */
EITP__PRIVATE eitp_status eitp__run_prepare_watched_directory(eitp_run *run, int64_t done, eitp_error *error);

/* Verifies all files of the checkpoint. If the run was to resume from the newest, a damaged one is set aside and
   another one is chosen. See eitp_run_recover. */
EITP__PRIVATE eitp_status eitp__run_recover(eitp_run *run, eitp_error *error);

/* Stops the prefetch that eitp__run_prepare_directory started. */
EITP__PRIVATE void eitp__run_end_prefetch(eitp_run *run);

/* Resumes the trainer from the checkpoint. If the checkpoint is damaged, recovers and sets *is_replaced to 1 if there
   is another one to try. */
EITP__PRIVATE eitp_status eitp__run_try_resume(eitp_run *run, eitp_trainer *trainer, int *is_replaced,
                                               eitp_error *error);

/* Removes the leftovers of unfinished writes of this and earlier runs. */
EITP__PRIVATE eitp_status eitp__run_clean(const eitp_run *run, eitp_error *error);

/* Removes those directories created for the run that are empty. */
EITP__PRIVATE void eitp__run_remove_directories(eitp_run *run);

EITP__PRIVATE void eitp__run_unlock(eitp_run *run);

/* ---- The links latest_model and best_model ---- */

#define EITP__LATEST_LINK "latest_model"
#define EITP__BEST_LINK "best_model"

/* True if the directory of the run has a checkpoint of this step, or cannot be searched. */
EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step);

/*
 * Points latest_model to the newest checkpoint and best_model to the one of the best evaluation, if they exist, each by
 * one rename. A link that would dangle or cannot be replaced is removed. Call it after a save, before other checkpoints
 * are removed, so that the links never dangle. A failure to create them is reported once.
 */
EITP__PRIVATE void eitp__run_update_links(eitp_run *run);

/*
 * If the directory of the run is gone or replaced by another one, creates and locks it again, with a new metrics.jsonl
 * and a warning. The old contents are no longer used; the next checkpoint has everything that the run needs.
 * EITP_ERROR_ARGUMENT if another process trains there now.
 */
EITP__PRIVATE eitp_status eitp__run_restore_directory(eitp_run *run, eitp_error *error);

#define EITP__RESERVE_BYTES ((size_t)128 << 10)

/* Reserves this many bytes on the disk while the run trains, if they are free. On a full disk, the last records and the
   reason for the end are written there. */
EITP__PRIVATE void eitp__disk_reserve_create(const eitp_run *run);
EITP__PRIVATE void eitp__reserve_release(const eitp_run *run);

#endif
