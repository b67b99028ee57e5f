/* Events of a run. */
#ifndef EITP_EVENTS_H
#define EITP_EVENTS_H

#include "run/record_values.h"
#include "run/run_loop.h"

/* The name of the items of the first loss term. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Sends an event to the listener, or logs it without one. Sinks receive it as a record, except for steps and
   evaluations, which have records of their own. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

/* The same with values of its own in its record. */
EITP__PRIVATE void eitp__run_notify_values(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level,
                                           double seconds, const char *message, const eitp_value *values, size_t count);

/* Reports the sinks that began to fail, or store records again. */
EITP__PRIVATE void eitp__run_report_sinks(eitp_run *run);

/* At the end: reports how many records could not be stored, but to no sink. */
EITP__PRIVATE void eitp__run_report_lost(eitp_run *run);

#endif
