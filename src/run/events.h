/* Events of a run. */
#ifndef EITP_EVENTS_H
#define EITP_EVENTS_H

#include "run/run_loop.h"

/* The name of the items of the first loss term. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Sends an event to the listener, or logs it without one. Sinks receive it as a record, except for steps and
   evaluations, which have records of their own. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

/* The same for an EITP_EVENT_ALARM, a warning. */
EITP__PRIVATE void eitp__run_notify_alarm(eitp_run *run, const char *alarm, double value, double usual,
                                          const char *message);

/* Reports the sinks that began to fail, or store records again. */
EITP__PRIVATE void eitp__run_report_sinks(eitp_run *run);

/* At the end: reports how many records could not be stored, but to no sink. */
EITP__PRIVATE void eitp__run_report_lost(eitp_run *run);

#endif
