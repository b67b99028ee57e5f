/* A supervised process and its descendants. */
#ifndef COMMAND_SUPERVISE_CHILD_H
#define COMMAND_SUPERVISE_CHILD_H

#include "command.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

typedef struct child_settings {
    int is_own;           /* the arguments are for this program, not another program's name and arguments */
    int output;           /* descriptor of standard output and standard error */
    int lock;             /* inherited descriptor with the lock of the output directory; -1: none */
    int nice;             /* added to the nice value */
    int64_t memory_limit; /* bytes of private memory (RLIMIT_DATA); 0: no limit */
} child_settings;

/*
 * Starts a process in its own session, without a terminal, standard input or core dumps, and with the signals that this
 * process started with. Returns once its program is loaded: 0, or an errno value.
 */
int child_start(const child_settings *settings, char **arguments, pid_t *process);

/* Sends a signal to the process and the others of its group. */
void child_signal(pid_t process, int number);

/* True if the process has ended, with this exit code, 128 plus the number of a signal that ended it, and this signal or
   0. The process is not collected, so its number is not reused. */
int child_has_ended(pid_t process, int *code, int *number);

/* Collects a process that has ended. `kills`: also kills the rest of its group. */
void child_collect(pid_t process, int kills);

/* Returns "SIGKILL", or "signal 64" for a signal without a usual name. */
const char *child_signal_name(int number, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
