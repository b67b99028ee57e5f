/* run_state.json: what a run, besides its trainer, takes from a checkpoint. */
#ifndef EITP_RUN_STATE_H
#define EITP_RUN_STATE_H

#include "run/run_loop.h"

/* Writes it into the directory of a checkpoint. */
EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error);

/* Reads it from the run's checkpoint. One of an earlier version, or of a trainer without a run, has none. */
EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, eitp_error *error);

/* The step of the best evaluation, as a checkpoint knows it, if its checkpoint is kept; -1 if not, or if unknown. */
EITP__PRIVATE int64_t eitp__run_state_best(const eitp_host *host, const char *checkpoint);

#endif
