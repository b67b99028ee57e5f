/* A process that is supervised, with those that it starts. */
#ifndef COMMAND_SUPERVISE_CHILD_H
#define COMMAND_SUPERVISE_CHILD_H

#include "command.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

typedef struct child_settings {
    int is_own;           /* the arguments are those of this program, not the name of another and its */
    int output;           /* descriptor of standard output and standard error */
    int lock;             /* descriptor with the lock of the output directory, which is inherited; -1: none */
    int nice;             /* added to the nice value */
    int64_t memory_limit; /* bytes of private memory (RLIMIT_DATA); 0: no limit */
} child_settings;

/*
 * Starts a process in a session of its own, without a terminal, standard input or core dumps. Its signals are those
 * that this process began with. Returns once its program is loaded: 0, or the errno of what failed.
 */
int child_start(const child_settings *settings, char **arguments, pid_t *process);

/* Sends a signal to the process and the others of its group. */
void child_signal(pid_t process, int number);

/* True if the process has ended: with this exit code, which is 128 plus the number of a signal that ended it, and this
   signal or 0. It is not collected, so its number means no other process. */
int child_has_ended(pid_t process, int *code, int *number);

/* Collects a process that has ended; `kills`: and ends what is left of its group. */
void child_collect(pid_t process, int kills);

/* "SIGKILL"; "signal 64" for one without a usual name. */
const char *child_signal_name(int number, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
