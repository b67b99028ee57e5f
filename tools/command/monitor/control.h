/* Requests to a run: signals, which reach no other process. */
#ifndef COMMAND_MONITOR_CONTROL_H
#define COMMAND_MONITOR_CONTROL_H

#include "monitor/runs.h"

EITP_BEGIN_DECLARATIONS

typedef enum control_request {
    CONTROL_SAVE, /* SIGUSR1: a checkpoint after the step that is computed */
    CONTROL_STOP  /* SIGTERM: a checkpoint, and the end */
} control_request;

/* True if the request can be made now; otherwise says why not. */
int control_is_possible(const watched_run *w, control_request request, char *said, size_t size);

/* Sends the signal, and says what was done, or why nothing was. Returns 1 if it was sent. */
int control_send(const watched_run *w, control_request request, char *said, size_t size);

EITP_END_DECLARATIONS

#endif
