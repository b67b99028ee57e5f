#include "run/post_save.h"

#include "files.h"
#include "output.h"
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { PAUSES_PER_SECOND = 50 };

/* ---- Starting it ---- */

static int is_own_variable(const char *entry) {
    return !strncmp(entry, "EITP_CHECKPOINT=", 16) || !strncmp(entry, "EITP_STEP=", 10);
}

/* The environment with the two variables, whose texts are the first two. */
static char **make_environment(const char *checkpoint, int64_t step) {
    size_t count = 0, at = 2;
    char **list;
    while (environ[count])
        count++;
    list = (char **)command_allocate((count + 3) * sizeof *list);
    list[0] = command_format("EITP_CHECKPOINT=%s", checkpoint);
    list[1] = command_format("EITP_STEP=%lld", (long long)step);
    for (size_t i = 0; i < count; i++) {
        if (!is_own_variable(environ[i]))
            list[at++] = environ[i];
    }
    return list;
}

/* A process group of its own, which a terminal does not interrupt, with the usual signals. Standard output is that of
   messages: results must not mix with what the command prints. Memory is not copied, however large the run is. */
static int spawn_shell(const char *command, char **environment, pid_t *process) {
    char shell[] = "sh", option[] = "-c", *text = command_copy(command), *arguments[4];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t defaults, none;
    int code;
    arguments[0] = shell;
    arguments[1] = option;
    arguments[2] = text;
    arguments[3] = NULL;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGXFSZ);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn(process, "/bin/sh", &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(text);
    return code;
}

/* Starts a command with the variables of the newest checkpoint; returns 0 after a warning that it could not. */
static int start_command(post_save *p, const char *command, pid_t *process) {
    char *checkpoint = command_format("%s/checkpoint-%lld", p->directory, (long long)p->newest);
    char *absolute = realpath(checkpoint, NULL), **environment;
    int code;
    p->is_due = 0;
    environment = make_environment(absolute ? absolute : checkpoint, p->newest);
    code = absolute ? spawn_shell(command, environment, process) : ENOENT;
    if (code)
        output_warning("--post-save-cmd cannot run for '%s': %s", checkpoint, strerror(code));
    free(environment[0]);
    free(environment[1]);
    free(environment);
    free(checkpoint);
    free(absolute);
    return !code;
}

static void start(post_save *p) {
    pid_t process;
    if (!start_command(p, p->command, &process))
        return;
    p->process = process;
    p->step = p->newest;
    eitp_run_keep_checkpoint(p->run, p->step);
}

/* Starts a shell that runs the command for the newest checkpoint once the running one has ended, after this process. */
static void start_later(post_save *p) {
    char *command = command_format("while kill -0 %ld 2>/dev/null; do sleep 1; done\n%s", (long)p->process, p->command);
    pid_t ignored;
    if (start_command(p, command, &ignored))
        output_warning("--post-save-cmd is still running for checkpoint-%lld (process %ld); it will run for "
                       "checkpoint-%lld when that ends",
                       (long long)p->step, (long)p->process, (long long)p->newest);
    free(command);
}

/* ---- Looking after it ---- */

static void warn_failed(const post_save *p, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status))
        output_warning("--post-save-cmd failed for checkpoint-%lld with exit code %d", (long long)p->step,
                       WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        output_warning("--post-save-cmd failed for checkpoint-%lld: it was killed by signal %d", (long long)p->step,
                       WTERMSIG(status));
}

/* Takes the end of the process if it has ended; returns 0 if it still runs. */
static int reap(post_save *p) {
    int status = 0;
    const pid_t ended = waitpid(p->process, &status, WNOHANG);
    if (!ended)
        return 0;
    if (ended > 0)
        warn_failed(p, status);
    p->process = 0;
    eitp_run_keep_checkpoint(p->run, -1);
    return 1;
}

void post_save_begin(post_save *p, const option_set *o, const char *directory, int64_t start_step, eitp_run *run) {
    memset(p, 0, sizeof *p);
    p->command = options_text(o, OPTION_POST_SAVE_CMD);
    p->backup_steps = options_integer(o, OPTION_BACKUP_STEPS);
    p->considered = start_step;
    p->directory = directory;
    p->run = run;
}

void post_save_poll(post_save *p) {
    if (p->process && !reap(p))
        return;
    if (p->is_due)
        start(p);
}

void post_save_saved(post_save *p, int64_t step) {
    const int64_t every = p->backup_steps > 0 ? p->backup_steps : 1;
    if (!p->command)
        return;
    p->newest = step;
    if (step / every > p->considered / every) {
        p->considered = step;
        p->is_due = 1;
    }
    post_save_poll(p);
}

/* Says what is waited for: at once, and, since it may hang, as a warning after 2 seconds, 4, 8 and so on. */
static void say_waiting(const post_save *p, int pauses) {
    const int is_late = pauses >= 2 * PAUSES_PER_SECOND && pauses % PAUSES_PER_SECOND == 0;
    const int seconds = pauses / PAUSES_PER_SECOND;
    if (!pauses)
        output_info("waiting for --post-save-cmd for checkpoint-%lld", (long long)p->step);
    else if (is_late && !(seconds & (seconds - 1)))
        output_warning(
            "waiting for --post-save-cmd for checkpoint-%lld, running for more than %d seconds (process %ld); "
            "Ctrl-C stops waiting",
            (long long)p->step, seconds, (long)p->process);
}

void post_save_end(post_save *p) {
    int64_t step = -1;
    post_save_poll(p);
    /* Not by waiting for the process alone, which a signal would not interrupt. */
    for (int pauses = 0; p->process && !process_stop_signal(); pauses++) {
        const struct timespec pause = {0, 1000000000 / PAUSES_PER_SECOND};
        if (step != p->step)
            pauses = 0;
        step = p->step;
        say_waiting(p, pauses);
        nanosleep(&pause, NULL);
        post_save_poll(p);
    }
    if (p->process && p->is_due)
        start_later(p);
    else if (p->process)
        output_info("--post-save-cmd is still running for checkpoint-%lld (process %ld)", (long long)p->step,
                    (long)p->process);
}
