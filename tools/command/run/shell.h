/* Shell commands that run in the background: --post-save-cmd, --on-event-cmd. */
#ifndef COMMAND_RUN_SHELL_H
#define COMMAND_RUN_SHELL_H

#include "command.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/* An environment variable; without a value it is unset. */
typedef struct shell_variable {
    const char *name, *value;
} shell_variable;

typedef struct shell_call {
    const char *script;
    const char *argument; /* $0 of the script; NULL: sh's */
    const shell_variable *variables;
    size_t variable_count;
    int reads, writes; /* become its descriptors 3 and 4; -1: none */
} shell_call;

/*
 * Starts /bin/sh -c SCRIPT in its own process group, which a terminal does not interrupt, with default signals and no
 * other open files, so without the lock of the run. Its output goes to an unnamed file, from which shell_forward copies
 * it: a script that outlives this process must not hold a pipe open that another program reads to its end. Memory is
 * not copied, however large the run. Returns 0 or an errno value.
 */
int shell_start(const shell_call *call, pid_t *process);

/* Copies output of scripts since the last call to standard error. */
void shell_forward(void);

EITP_END_DECLARATIONS

#endif
