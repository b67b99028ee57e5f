/* Checkpoints of a run: writing them, also beside the next steps, and removing those that it does not keep. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/internal.h"
#include "train/trainer.h"

/*
 * Writes a checkpoint when the run was asked to stop, unless there is one of the last step, or no step was done. It
 * removes no other. The limit counts it if an undisturbed run saves after this step too.
 */
EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, eitp_error *error);

/* Saves the records and a checkpoint of the steps done, and prunes; or begins an asynchronous save. A model that may
   not be saved now is saved after a later step: then EITP_OK, and report.saved_step does not change. */
EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error);

/* The same on memory pressure, maybe before the evaluation after this step. save_total_limit counts the checkpoint if
   an undisturbed run saves after this step too. */
EITP__PRIVATE eitp_status eitp__run_save_early(eitp_run *run, eitp_error *error);

/* At the end of a run whose model is ruined: keeps it, if its weights are finite, as checkpoint-<step>.diverged, which
   no resume takes and pruning ignores. Fails with EITP_ERROR_NOT_FINITE and sets the report's end. */
EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error);

/*
 * ---- Asynchronous saves ----
 *
 * A checkpoint is copied, and a thread writes the copy beside the next steps. At the end of one of them it becomes a
 * checkpoint. At most one is in progress.
 */

/* Before the first step: allocates the memory of the copy if the run saves before its last step, and it fits. */
EITP__PRIVATE void eitp__async_save_prepare(eitp_run *run);

/* Waits for the save, if there is one, and completes it; if that fails, the copy is written again. If that fails too,
   the steps done are to be saved at once, and the best evaluation may be lost (run/best.c). */
EITP__PRIVATE void eitp__async_save_finish(eitp_run *run);

/* Returns the memory of the copy: completes a save that is written, and drops any other. The best evaluation may be
   lost with it. */
EITP__PRIVATE void eitp__async_save_release(eitp_run *run);

#endif
