/* Records of steps, evaluations and memory pressure, for all sinks. */
#ifndef EITP_RECORDS_H
#define EITP_RECORDS_H

#include "run/run_loop.h"

/* A failing sink is reported, and ends nothing. */
EITP__PRIVATE void eitp__record_step(eitp_run *run, double seconds);
EITP__PRIVATE void eitp__record_evaluation(eitp_run *run, double seconds);
EITP__PRIVATE void eitp__record_memory(eitp_run *run, int shrunk);

/* Calls sync of all sinks. */
EITP__PRIVATE void eitp__records_sync(eitp_run *run);

/* At the end of a run: stores what failed before, if it can be stored now, and reports what is lost. */
EITP__PRIVATE void eitp__records_finish(eitp_run *run);

#endif
