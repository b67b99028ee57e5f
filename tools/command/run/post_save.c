#include "run/post_save.h"

#include "files.h"
#include "output.h"
#include "process.h"
#include "run/shell.h"

#include <sys/wait.h>
#include <time.h>

enum { PAUSES_PER_SECOND = 50 };

/* ---- Starting it ---- */

/* Starts a command with the variables of the newest checkpoint. On failure prints a warning and returns 0. */
static int start_command(post_save *p, const char *command, pid_t *process) {
    char *checkpoint = command_format("%s/checkpoint-%lld", p->directory, (long long)p->newest);
    char *absolute = realpath(checkpoint, NULL), step[32];
    shell_variable variables[2] = {{"EITP_CHECKPOINT", NULL}, {"EITP_STEP", NULL}};
    shell_call call = {NULL, NULL, NULL, 0, -1, -1};
    int code;
    p->is_due = 0;
    snprintf(step, sizeof step, "%lld", (long long)p->newest);
    variables[0].value = absolute;
    variables[1].value = step;
    call.script = command;
    call.variables = variables;
    call.variable_count = COMMAND_COUNT(variables);
    code = absolute ? shell_start(&call, process) : ENOENT;
    if (code)
        output_warning("--post-save-cmd cannot run for '%s': %s", checkpoint, strerror(code));
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

/* Starts a shell that outlives this process and runs the command for the newest checkpoint after the current call. */
static void start_later(post_save *p) {
    char *command = command_format("while kill -0 %ld 2>/dev/null; do sleep 1; done\n%s", (long)p->process, p->command);
    pid_t ignored;
    if (start_command(p, command, &ignored))
        output_warning("--post-save-cmd is still running for checkpoint-%lld (process %ld); it will run for "
                       "checkpoint-%lld afterwards",
                       (long long)p->step, (long)p->process, (long long)p->newest);
    free(command);
}

/* ---- Polling ---- */

static void warn_failed(const post_save *p, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status))
        output_warning("--post-save-cmd failed for checkpoint-%lld with exit code %d", (long long)p->step,
                       WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        output_warning("--post-save-cmd failed for checkpoint-%lld: it was killed by signal %d", (long long)p->step,
                       WTERMSIG(status));
}

/* Collects the process if it has ended. Returns 0 if it is still running. */
static int reap(post_save *p) {
    int status = 0;
    const pid_t ended = waitpid(p->process, &status, WNOHANG);
    shell_forward();
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

/* Logs the wait at once and, since the command may hang, warns after 2, 4, 8, ... seconds. */
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
    /* Polls rather than waiting for the process, which a signal would not interrupt. */
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
