/* The sinks of a run: what they are given, and what they could not store. */
#ifndef EITP_SINKS_H
#define EITP_SINKS_H

#include "run/run_loop.h"

/* Calls resume of all sinks, which get records from then on; see eitp_record_sink. */
EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error);

/* Gives a record to all sinks that were resumed. */
EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count);

/* Calls sync of all sinks. */
EITP__PRIVATE void eitp__sinks_sync(eitp_run *run);

EITP__PRIVATE int eitp__sinks_are_failing(const eitp_run *run);

#endif
