/* --on-event-cmd: a command of the user that runs beside training for alarms, shortages and the end of the run. */
#ifndef COMMAND_RUN_ON_EVENT_H
#define COMMAND_RUN_ON_EVENT_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

enum { ON_EVENT_CALLS = 17 }; /* that run or wait */

/*
 * Each call is a shell that waits for the end of the one before, by reading from a pipe that the other has open for
 * writing. So one runs at a time, in order, and those that wait need nothing from this process, which may be in a long
 * step, pause, or be gone.
 */
typedef struct on_event {
    const char *command;                    /* NULL: none */
    char *directory;                        /* of the run, absolute */
    pid_t calls[ON_EVENT_CALLS + 1];        /* and that of the end, which always has room */
    const char *events[ON_EVENT_CALLS + 1]; /* their names */
    size_t count;
    int newest; /* the pipe that the newest one has open, for reading; -1: none was started */
    int64_t dropped;
    int has_failed; /* a call could not be started, which was said */
} on_event;

/* The texts of the options must outlive it. */
void on_event_begin(on_event *e, const option_set *o, const char *directory);

/* An event of the run: calls the command if it is one of those that it is for. Never waits. */
void on_event_notice(on_event *e, const eitp_run_event *event);

/* The run has ended, with this error or NULL. */
void on_event_ended(on_event *e, const eitp_run_report *report, const char *why);

/* Waits for the calls, at most 10 seconds or until a signal, and leaves them alone then. */
void on_event_end(on_event *e);

EITP_END_DECLARATIONS

#endif
