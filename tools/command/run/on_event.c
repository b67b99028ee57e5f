#include "run/on_event.h"

#include "output.h"
#include "process.h"
#include "run/shell.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAUSES_PER_SECOND = 50, LONGEST_WAIT = 10 };

/* Lowest descriptor used in this process, above those that a child's dup2 replaces. */
enum { LEAST_DESCRIPTOR = 10 };

/* Waits for the end of the previous call without an extra process, and hides the pipes from the command, so that its
   background processes keep nothing waiting. */
static const char script[] = "read -r eitp <&3; exec 3<&-; /bin/sh -c \"$0\" 4>&-";

/* The variables of a call, in this order. */
enum { EVENT_NAME, EVENT_MESSAGE, EVENT_STEP, EVENT_DIRECTORY, EVENT_ALARM, EVENT_REASON, EVENT_VARIABLES };

/* ---- Calls ---- */

static void warn_failed(const char *name, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status))
        output_warning("--on-event-cmd failed for '%s' with exit code %d", name, WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        output_warning("--on-event-cmd failed for '%s': it was killed by signal %d", name, WTERMSIG(status));
}

/* Collects calls that have ended. */
static void reap(on_event *e) {
    const size_t before = e->count;
    size_t left = 0;
    for (size_t i = 0; i < e->count; i++) {
        int status = 0;
        const pid_t ended = waitpid(e->calls[i], &status, WNOHANG);
        if (ended > 0)
            warn_failed(e->events[i], status);
        if (ended)
            continue;
        e->calls[left] = e->calls[i];
        e->events[left++] = e->events[i];
    }
    e->count = left;
    if (before)
        shell_forward();
}

/* Opens a pipe whose descriptors are inherited only where passed explicitly. */
static int open_pipe(int ends[2]) {
    int made[2], code;
    if (pipe(made))
        return errno;
    for (int i = 0; i < 2; i++)
        ends[i] = fcntl(made[i], F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR);
    code = ends[0] < 0 || ends[1] < 0 ? errno : 0;
    for (int i = 0; i < 2; i++) {
        close(made[i]);
        if (code && ends[i] >= 0)
            close(ends[i]);
    }
    return code;
}

static void close_newest(on_event *e) {
    if (e->newest >= 0)
        close(e->newest);
    e->newest = -1;
}

/* Starts a call after the newest one. Returns 0 or an errno value. */
static int start(on_event *e, const shell_variable *variables) {
    shell_call call = {script, e->command, variables, EVENT_VARIABLES, -1, -1};
    int ends[2] = {-1, -1}, code = open_pipe(ends);
    if (code)
        return code;
    /* The first call reads the end of a file at once. */
    call.reads = e->newest >= 0 ? e->newest : open("/dev/null", O_RDONLY | O_CLOEXEC);
    call.writes = ends[1];
    code = call.reads < 0 ? errno : shell_start(&call, &e->calls[e->count]);
    if (e->newest < 0 && call.reads >= 0)
        close(call.reads);
    close(ends[1]);
    if (code) {
        close(ends[0]);
        return code;
    }
    close_newest(e);
    e->newest = ends[0];
    e->events[e->count++] = variables[EVENT_NAME].value;
    return 0;
}

static void call_command(on_event *e, const char *name, const char *alarm, const char *reason, int64_t step,
                         const char *message) {
    shell_variable variables[EVENT_VARIABLES] = {{"EITP_EVENT", NULL}, {"EITP_MESSAGE", NULL},
                                                 {"EITP_STEP", NULL},  {"EITP_OUTPUT_DIR", NULL},
                                                 {"EITP_ALARM", NULL}, {"EITP_EXIT_REASON", NULL}};
    char steps[32];
    int code;
    snprintf(steps, sizeof steps, "%lld", (long long)step);
    variables[EVENT_NAME].value = name;
    variables[EVENT_MESSAGE].value = message;
    variables[EVENT_STEP].value = steps;
    variables[EVENT_DIRECTORY].value = e->directory;
    variables[EVENT_ALARM].value = alarm;
    variables[EVENT_REASON].value = reason;
    code = start(e, variables);
    if (code && !e->has_failed)
        output_warning("--on-event-cmd cannot run for '%s': %s", name, strerror(code));
    e->has_failed = code != 0;
}

/* ---- Events ---- */

static int is_reported(eitp_run_event_kind kind) {
    static const eitp_run_event_kind kinds[] = {EITP_EVENT_ALARM,        EITP_EVENT_TEMPERATURE, EITP_EVENT_MEMORY_HIGH,
                                                EITP_EVENT_MEMORY_SHORT, EITP_EVENT_PRESSURE,    EITP_EVENT_DISK,
                                                EITP_EVENT_DIVERGING,    EITP_EVENT_SAVE_FAILED};
    for (size_t i = 0; i < COMMAND_COUNT(kinds); i++) {
        if (kinds[i] == kind)
            return 1;
    }
    return 0;
}

static const char *find_alarm(const eitp_run_event *event) {
    for (size_t i = 0; i < event->value_count; i++) {
        if (event->values[i].kind == EITP_VALUE_TEXT && !strcmp(event->values[i].name, "alarm"))
            return event->values[i].text;
    }
    return NULL;
}

void on_event_begin(on_event *e, const option_set *o, const char *directory) {
    memset(e, 0, sizeof *e);
    e->newest = -1;
    e->command = options_text(o, OPTION_ON_EVENT_CMD);
    if (!e->command)
        return;
    e->directory = realpath(directory, NULL);
    if (!e->directory)
        e->directory = command_copy(directory);
}

void on_event_notice(on_event *e, const eitp_run_event *event) {
    if (!e->command)
        return;
    reap(e);
    if (!is_reported(event->kind))
        return;
    if (e->count >= ON_EVENT_CALLS)
        e->dropped++;
    else
        call_command(e, eitp_run_event_name(event->kind), find_alarm(event), NULL, event->report->steps_done,
                     event->message);
}

void on_event_ended(on_event *e, const eitp_run_report *report, const char *why) {
    static const char *const reasons[] = {"failed",     "finished",   "end_of_data",     "stopped",
                                          "early_stop", "not_finite", "memory_pressure", "diverged"};
    const char *reason = reasons[report->end];
    char message[64];
    if (!e->command)
        return;
    snprintf(message, sizeof message, "the run has ended: %s", reason);
    reap(e);
    call_command(e, "end", NULL, reason, report->steps_done, why ? why : message);
}

/* ---- The end ---- */

/* Polls rather than waiting for processes, which a signal would not interrupt. */
static void wait_for_calls(on_event *e) {
    const int signal_before = process_stop_signal();
    for (int pauses = 0; e->count && process_stop_signal() == signal_before; pauses++) {
        const struct timespec pause = {0, 1000000000 / PAUSES_PER_SECOND};
        if (pauses == LONGEST_WAIT * PAUSES_PER_SECOND)
            break;
        if (pauses == PAUSES_PER_SECOND)
            output_info("waiting for --on-event-cmd for '%s', at most %d seconds", e->events[0], LONGEST_WAIT);
        nanosleep(&pause, NULL);
        reap(e);
    }
}

void on_event_end(on_event *e) {
    if (!e->command)
        return;
    wait_for_calls(e);
    if (e->count)
        output_warning("--on-event-cmd is still running for '%s' (process %ld); not waiting for it", e->events[0],
                       (long)e->calls[0]);
    if (e->dropped)
        output_warning("--on-event-cmd was skipped for %lld events: %d were already waiting", (long long)e->dropped,
                       ON_EVENT_CALLS - 1);
    close_newest(e);
    free(e->directory);
    memset(e, 0, sizeof *e);
}
