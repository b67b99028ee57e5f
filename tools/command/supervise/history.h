/* logs/supervisor.json: each start of a supervised command, and its end. */
#ifndef COMMAND_SUPERVISE_HISTORY_H
#define COMMAND_SUPERVISE_HISTORY_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* A start. The end is set when the child has ended. */
typedef struct history_start {
    double time; /* seconds since 1970 */
    int64_t process;
    int has_ended;
    double end_time;
    char reason[100];
    int exit_code;
    int64_t step;         /* last recorded step; -1: none */
    int64_t checkpoint;   /* newest; -1: none */
    double stall_timeout; /* in seconds; 0: none */
    char *error_log;      /* path, or NULL */
} history_start;

/* Empty when zero-initialized. */
typedef struct history {
    const char *state; /* "running", "waiting" or "ended" */
    char *const *command;
    const char *directory, *log;
    int64_t restarts; /* in total */
    history_start *starts;
    size_t count;
    int64_t forgotten;      /* starts before the first of these */
    text_buffer last_lines; /* of the last child that ended */
} history;

void history_release(history *h);

/* Adds a start and returns it. Only the newest hundred are kept. */
history_start *history_add(history *h, int64_t process);

/* Returns the newest start, or NULL. */
history_start *history_last(const history *h);

/* Writes the file atomically. A failure is a warning in `error`. */
eitp_status history_write(const history *h, const char *logs, eitp_error *error);

/* Returns the seconds since 1970. */
double history_time(void);

EITP_END_DECLARATIONS

#endif
