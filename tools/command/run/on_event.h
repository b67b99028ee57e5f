/* --on-event-cmd: a user's command that runs in the background for alarms, shortages and the end of the run. */
#ifndef COMMAND_RUN_ON_EVENT_H
#define COMMAND_RUN_ON_EVENT_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

enum { ON_EVENT_CALLS = 17 }; /* running or waiting */

/*
 * Each call is a shell that waits for the end of the previous one by reading from a pipe that the other holds open for
 * writing. Calls run one at a time, in order. Waiting calls need nothing from this process, which may be in a long
 * step, paused, or gone.
 */
typedef struct on_event {
    const char *command;                    /* NULL: none */
    char *directory;                        /* of the run, absolute */
    pid_t calls[ON_EVENT_CALLS + 1];        /* and one for the end, which always has room */
    const char *events[ON_EVENT_CALLS + 1]; /* their names */
    size_t count;
    int newest; /* read end of the pipe that the newest call holds open; -1: none was started */
    int64_t dropped;
    int has_failed; /* a call could not be started, and a warning was printed */
} on_event;

/* The options' strings must outlive it. */
void on_event_begin(on_event *e, const option_set *o, const char *directory);

/* Calls the command if it is meant for this event. Never waits. */
void on_event_notice(on_event *e, const eitp_run_event *event);

/* Calls the command for the end of the run, with an error or NULL. */
void on_event_ended(on_event *e, const eitp_run_report *report, const char *why);

/* Waits for the calls, at most 10 seconds or until a signal. Calls still running then continue alone. */
void on_event_end(on_event *e);

EITP_END_DECLARATIONS

#endif
