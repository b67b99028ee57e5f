/* Events of a run. */
#ifndef EITP_EVENTS_H
#define EITP_EVENTS_H

#include "run/run_loop.h"

/* The name of the items of the first loss term. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Sends an event to the listener, or to the log if there is none. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

#endif
