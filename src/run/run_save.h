/* Checkpoints of a run. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/run_loop.h"

/* True if `step` is a multiple of `interval`. */
EITP__PRIVATE int eitp__steps_are_due(int64_t interval, int64_t step);

/* True if a multiple of `epochs` ends in this step, and for step 0, before the first. */
EITP__PRIVATE int eitp__epochs_are_due(const eitp_run *run, double epochs, int64_t step);

/* True if the run saves after this step in any case. */
EITP__PRIVATE int eitp__run_schedules_save(const eitp_run *run, int64_t step);

/*
 * Writes a checkpoint when the run was asked to stop, unless there is one of the last step, or no step was done. It
 * removes no other. The limit counts it if an undisturbed run saves after this step too.
 */
EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, eitp_error *error);

/* Saves the records and a checkpoint of the steps done, and prunes; or begins to (run/async_save.h). A model that may
   not be saved now is saved after a later step: then EITP_OK, and report.saved_step does not change. */
EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error);

/* The same on memory pressure, maybe before the evaluation after this step. save_total_limit counts the checkpoint if
   an undisturbed run saves after this step too. */
EITP__PRIVATE eitp_status eitp__run_save_early(eitp_run *run, eitp_error *error);

/* At the end of a run whose model is ruined: keeps it, if its weights are finite, as checkpoint-<step>.diverged, which
   no resume takes and pruning ignores. Fails with EITP_ERROR_NOT_FINITE and sets the report's end. */
EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error);

#endif
