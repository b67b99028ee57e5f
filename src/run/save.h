/* Checkpoints of a run: writing them, also in the background, and removing those that it does not keep. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/internal.h"
#include "train/trainer.h"

/*
 * Writes a checkpoint when the run was asked to stop, unless the last step has one or no step was done. Removes no
 * other checkpoint. The limit counts it if an undisturbed run saves after this step too.
 */
EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, eitp_error *error);

/* Saves the records and a checkpoint of the steps done, and prunes; or starts an asynchronous save. If the model may
   not be saved now, it is saved after a later step: returns EITP_OK without changing report.saved_step. */
EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error);

/* Saves on memory pressure, possibly before the evaluation after this step. save_total_limit counts the checkpoint if
   an undisturbed run saves after this step too. */
EITP__PRIVATE eitp_status eitp__run_save_early(eitp_run *run, eitp_error *error);

/* At the end of a run whose model is damaged: if its weights are finite, keeps it as checkpoint-<step>.diverged, which
   no resume picks and pruning ignores. Fails with EITP_ERROR_NOT_FINITE and sets the report's end. */
EITP__PRIVATE eitp_status eitp__run_save_damaged(eitp_run *run, eitp_error *error);

/*
 * ---- Asynchronous saves ----
 *
 * A checkpoint is copied, and a thread writes the copy during the next steps. It becomes a checkpoint at the end of one
 * of them. At most one save is in progress.
 */

/* Called before the first step. Allocates the memory of the copy if it fits and the run saves before its last step. */
EITP__PRIVATE void eitp__async_save_prepare(eitp_run *run);

/* Waits for the save in progress, if any, and completes it. If that fails, writes the copy again. If that fails too,
   the current step must be saved at once, and the best evaluation may be lost (run/best.c). */
EITP__PRIVATE void eitp__async_save_finish(eitp_run *run);

/* Frees the memory of the copy. Completes a save that is written, and drops any other; the best evaluation may be lost
   with it. */
EITP__PRIVATE void eitp__async_save_release(eitp_run *run);

#endif
