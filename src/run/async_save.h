/*
 * Asynchronous saves: a checkpoint is copied, and a thread writes the copy beside the next steps. At the end of one of
 * them it becomes a checkpoint. At most one is in progress.
 */
#ifndef EITP_ASYNC_SAVE_H
#define EITP_ASYNC_SAVE_H

#include "run/run_loop.h"
#include "train/trainer.h"

/* Before the first step: allocates the memory of the copy if the run saves before its last step, and it fits. */
EITP__PRIVATE void eitp__async_save_prepare(eitp_run *run);

/* True if the next save may be written beside the steps: there is memory for a copy, and steps follow. */
EITP__PRIVATE int eitp__async_save_fits(const eitp_run *run);

/* Copies a checkpoint of the steps done, and begins to write it. `began`: when the save began. */
EITP__PRIVATE eitp_status eitp__async_save_begin(eitp_run *run, const eitp__save_options *options, double began,
                                                 eitp_error *error);

/* Waits for the save, if there is one, and completes it; if that fails, the copy is written again. If that fails too,
   the steps done are to be saved at once, and the best evaluation may be lost (run/run_best.h). */
EITP__PRIVATE void eitp__async_save_finish(eitp_run *run);

/* Returns the memory of the copy: completes a save that is written, and drops any other. The best evaluation may be
   lost with it. */
EITP__PRIVATE void eitp__async_save_release(eitp_run *run);

#endif
