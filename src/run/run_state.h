/* run_state.json: what a run, besides its trainer, takes from a checkpoint. */
#ifndef EITP_RUN_STATE_H
#define EITP_RUN_STATE_H

#include "run/run_loop.h"

/* True if evaluations decide about the best checkpoint or early stopping. */
EITP__PRIVATE int eitp__run_follows_best(const eitp_run *run);

/* The metric that decides. */
EITP__PRIVATE const char *eitp__run_metric_name(const eitp_run *run);

/* Steps whose checkpoints are kept besides the newest in the directory: the best, that of eitp_run_keep_checkpoint,
   and the last one that the run saved. -1: none. */
enum { EITP__KEPT_STEPS = 3 };
EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]);

/* Writes it into the directory of a checkpoint. */
EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error);

/* Reads it from the run's checkpoint. *found is 0 if the checkpoint, of an earlier version or of a trainer without a
   run, has none. */
EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, int *found, eitp_error *error);

/* The step of the best evaluation, as a checkpoint knows it, if its checkpoint is kept; -1 if not, or if unknown. */
EITP__PRIVATE int64_t eitp__run_state_best(const eitp_host *host, const char *checkpoint);

#endif
