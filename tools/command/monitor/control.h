/* Requests to a run: signals, which never reach another process. */
#ifndef COMMAND_MONITOR_CONTROL_H
#define COMMAND_MONITOR_CONTROL_H

#include "monitor/runs.h"

EITP_BEGIN_DECLARATIONS

typedef enum control_request {
    CONTROL_SAVE, /* SIGUSR1: a checkpoint after the current step */
    CONTROL_STOP  /* SIGTERM: a checkpoint, then exit */
} control_request;

/* True if the request is possible now; otherwise writes the reason to `said`. */
int control_is_possible(const watched_run *w, control_request request, char *said, size_t size);

/* Sends the signal and writes what was done, or why not, to `said`. Returns 1 if it was sent. */
int control_send(const watched_run *w, control_request request, char *said, size_t size);

EITP_END_DECLARATIONS

#endif
