/* Shell commands that run beside training: --post-save-cmd, --on-event-cmd. */
#ifndef COMMAND_RUN_SHELL_H
#define COMMAND_RUN_SHELL_H

#include "command.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/* A variable of its environment; without a value it has none of this name. */
typedef struct shell_variable {
    const char *name, *value;
} shell_variable;

typedef struct shell_call {
    const char *script;
    const char *argument; /* $0 of the script; NULL: that of sh */
    const shell_variable *variables;
    size_t variable_count;
    int reads, writes; /* descriptors that are its 3 and 4; -1: none */
} shell_call;

/*
 * Starts /bin/sh -c SCRIPT, in a process group of its own, which a terminal does not interrupt, with the usual signals
 * and no other open files, so without the lock of the run. What it prints goes to a file without a name, from which
 * shell_forward passes it on: a script that outlives this process must not keep a pipe open that somebody reads to its
 * end. Memory is not copied, however large the run is. Returns 0 or an errno value.
 */
int shell_start(const shell_call *call, pid_t *process);

/* Writes to standard error what scripts have printed since the last call. */
void shell_forward(void);

EITP_END_DECLARATIONS

#endif
