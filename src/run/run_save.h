/* Checkpoints of a run. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/run_loop.h"

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
