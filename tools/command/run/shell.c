#include "run/shell.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

extern char **environ;

enum { SHELL_READS = 3, SHELL_WRITES = 4, MOST_KEPT = 1 << 20 };

/* The output of scripts: all of them append to one file. */
static struct {
    int descriptor; /* 0: not created yet; -1: not possible, and scripts print directly to standard error */
    off_t at;       /* bytes already forwarded */
} printed;

static void create_printed(void) {
    const char *given = getenv("TMPDIR");
    char *path = command_format("%s/eitp-XXXXXX", given && *given ? given : "/tmp");
    printed.descriptor = mkstemp(path);
    if (printed.descriptor >= 0) {
        unlink(path);
        fcntl(printed.descriptor, F_SETFD, FD_CLOEXEC);
        fcntl(printed.descriptor, F_SETFL, O_APPEND);
    }
    free(path);
}

void shell_forward(void) {
    char piece[4096];
    ssize_t size;
    if (printed.descriptor <= 0)
        return;
    while ((size = pread(printed.descriptor, piece, sizeof piece, printed.at)) > 0) {
        printed.at += size;
        fwrite(piece, 1, (size_t)size, stderr);
    }
    /* A script that prints for days must not fill the disk. */
    if (printed.at > MOST_KEPT && !ftruncate(printed.descriptor, 0))
        printed.at = 0;
}

static int is_variable(const shell_call *call, const char *entry) {
    for (size_t i = 0; i < call->variable_count; i++) {
        const size_t size = strlen(call->variables[i].name);
        if (!strncmp(entry, call->variables[i].name, size) && entry[size] == '=')
            return 1;
    }
    return 0;
}

/* Returns the environment with the *own variables of the call first. */
static char **make_environment(const shell_call *call, size_t *own) {
    size_t count = 0, at = 0;
    char **list;
    while (environ[count])
        count++;
    list = (char **)command_allocate((count + call->variable_count + 1) * sizeof *list);
    for (size_t i = 0; i < call->variable_count; i++) {
        if (call->variables[i].value)
            list[at++] = command_format("%s=%s", call->variables[i].name, call->variables[i].value);
    }
    *own = at;
    for (size_t i = 0; i < count; i++) {
        if (!is_variable(call, environ[i]))
            list[at++] = environ[i];
    }
    return list;
}

static void set_signals(posix_spawnattr_t *attributes) {
    sigset_t defaults, none;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGXFSZ);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &defaults);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int shell_start(const shell_call *call, pid_t *process) {
    char shell[] = "sh", option[] = "-c";
    char *script = command_copy(call->script), *argument = call->argument ? command_copy(call->argument) : NULL;
    char *arguments[] = {shell, option, script, argument, NULL};
    size_t own;
    char **environment = make_environment(call, &own);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int code;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!printed.descriptor)
        create_printed();
    posix_spawn_file_actions_adddup2(&files, printed.descriptor >= 0 ? printed.descriptor : 2, 1);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (call->reads >= 0)
        posix_spawn_file_actions_adddup2(&files, call->reads, SHELL_READS);
    if (call->writes >= 0)
        posix_spawn_file_actions_adddup2(&files, call->writes, SHELL_WRITES);
    posix_spawnattr_init(&attributes);
    set_signals(&attributes);
    code = posix_spawn(process, "/bin/sh", &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    for (size_t i = 0; i < own; i++)
        free(environment[i]);
    free(environment);
    free(script);
    free(argument);
    return code;
}
