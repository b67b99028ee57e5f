/* Checkpoints of a run: saving and pruning. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/run_loop.h"

/* The metric that decides about the best checkpoint and early stopping. */
EITP__PRIVATE const char *eitp__run_metric_name(const eitp_run *run);

/* Saves the records and a checkpoint of the steps done, and prunes. A model that may not be saved now is saved after a
   later step: then EITP_OK, and report.saved_step does not change. */
EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error);

/* At the end of a run whose model is ruined: keeps it, if its weights are finite, as checkpoint-<step>.diverged, which
   no resume takes and pruning ignores. Fails with EITP_ERROR_NOT_FINITE and sets the report's end. */
EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error);

/* Removes the checkpoints that the run does not keep. */
EITP__PRIVATE eitp_status eitp__run_prune(eitp_run *run, eitp_error *error);

/* Writes best.json. */
EITP__PRIVATE eitp_status eitp__run_write_best(eitp_run *run, eitp_error *error);

#endif
