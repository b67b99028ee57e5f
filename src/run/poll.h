/* Polled while a run computes, reads or loads: should the step or evaluation in progress be dropped? */
#ifndef EITP_POLL_H
#define EITP_POLL_H

#include "run/run_loop.h"

/*
 * Returns 1 if the step or evaluation in progress must be dropped, because the run was asked to stop or an observer
 * must act before it is repeated. `run` is an eitp_run. Called every few microseconds (eitp_context_set_poll), so the
 * usual path must be a few instructions.
 */
EITP__PRIVATE int eitp__run_poll(void *run);

/* True if an observer must act before the computation continues. */
EITP__PRIVATE int eitp__run_is_interrupted(eitp_run *run);

/* Installs the run's poll in the trainer's context, and restores the previous one. */
EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run);
EITP__PRIVATE void eitp__run_end_polling(eitp_run *run);

#endif
