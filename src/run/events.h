/* What a run tells the program that listens. */
#ifndef EITP_EVENTS_H
#define EITP_EVENTS_H

#include "run/run_loop.h"

/* What the items of the first loss term are called. */
EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run);

/* Tells the listener, or the log. */
EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) EITP__PRINTF(5, 6);

#endif
