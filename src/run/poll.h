/* What a run asks while it computes, reads or loads: whether to drop the step or evaluation in progress. */
#ifndef EITP_POLL_H
#define EITP_POLL_H

#include "run/run_loop.h"

/*
 * Returns 1 if the step or evaluation in progress is to be dropped: the run was asked to stop, or an observer
 * reacts before it is repeated.
 * `run` is an eitp_run. It is called every few microseconds (eitp_context_set_poll), so it must usually be a few
 * instructions.
 */
EITP__PRIVATE int eitp__run_poll(void *run);

/* True if an observer is to react before the next step. */
EITP__PRIVATE int eitp__run_is_disturbed(eitp_run *run);

/* Replaces the poll of the trainer's context by the run's, and restores it. */
EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run);
EITP__PRIVATE void eitp__run_end_polling(eitp_run *run);

#endif
