/* Checkpoints of a run: saving and pruning. */
#ifndef EITP_RUN_SAVE_H
#define EITP_RUN_SAVE_H

#include "run/run_loop.h"

/* The metric that decides about the best checkpoint and early stopping. */
EITP__PRIVATE const char *eitp__run_metric_name(const eitp_run *run);

/* Saves the records and a checkpoint of the steps done, and prunes. */
EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error);

/* Removes the checkpoints that the run does not keep. */
EITP__PRIVATE eitp_status eitp__run_prune(eitp_run *run, eitp_error *error);

/* Writes best.json. A failure is reported, and ends nothing: the next save or evaluation writes it again. */
EITP__PRIVATE void eitp__run_write_best(eitp_run *run);

#endif
