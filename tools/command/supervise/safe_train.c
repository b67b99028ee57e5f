/* eitp safe-train: runs a command, and restarts it if the machine rather than the user ended it. */
#include "output.h"
#include "process.h"
#include "supervise/child.h"
#include "supervise/history.h"
#include "supervise/place.h"
#include "supervise/steps.h"
#include "supervise/supervised.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum {
    ERROR_LINES = 100, /* lines of the child's output in logs/error_*.log */
    SHORT_LINES = 10,  /* and in logs/supervisor.json */
    LONGEST_DELAY_S = 600,
    USUAL_NICENESS = 10
};

typedef struct supervisor {
    option_set options;
    supervised command;
    place place;
    steps_watch watch;
    history history;
    char **given;       /* the command as given, for the history */
    pid_t child;        /* 0: none is running */
    int64_t output_at;  /* byte of the log where its output starts */
    int stop;           /* the first signal that asked to stop; 0: none */
    int has_stalled;    /* the child was stopped because it stalled */
    double kill_at;     /* time at which a stalled child is killed */
    int code, number;   /* exit code of the last child, and the signal that ended it or 0 */
    int64_t restarts;   /* since the last one that reached a new checkpoint */
    int64_t ended_step; /* step at which the previous child ended; -1: unknown */
} supervisor;

/* ---- Starting ---- */

static void write_history(supervisor *s, const char *state) {
    eitp_error error;
    s->history.state = state;
    s->history.command = s->given;
    s->history.directory = s->place.directory;
    s->history.log = s->place.log;
    if (history_write(&s->history, s->place.logs, &error))
        place_say(&s->place, EITP_LOG_WARNING, "%s", error.message);
}

static eitp_status start(supervisor *s, int is_restart, eitp_error *error) {
    const option_set *o = &s->options;
    char **line = supervised_line(&s->command, is_restart);
    child_settings settings;
    int code;
    settings.is_own = s->command.is_training;
    settings.output = s->place.file;
    settings.lock = s->place.lock;
    settings.nice = options_has(o, OPTION_NICE) ? (int)options_integer(o, OPTION_NICE) : USUAL_NICENESS;
    settings.memory_limit = options_integer(o, OPTION_MEMORY_LIMIT);
    s->output_at = place_log_size(&s->place);
    s->has_stalled = 0;
    steps_begin(&s->watch, s->place.directory, s->output_at);
    code = child_start(&settings, line, &s->child);
    supervised_line_release(line);
    if (code) {
        s->child = 0;
        return command_fail(error, EITP_ERROR_IO, "cannot start '%s': %s", s->command.arguments[0], strerror(code));
    }
    history_add(&s->history, (int64_t)s->child);
    write_history(s, "running");
    return EITP_OK;
}

/* ---- While it runs ---- */

static void pass_on(supervisor *s, int number) {
    if (number != SIGUSR1 && !s->stop)
        s->stop = number;
    if (s->child)
        child_signal(s->child, number);
}

static void take_signals(supervisor *s) {
    for (int number; (number = process_next_signal()) != 0;)
        pass_on(s, number);
}

/* Negative if it must be computed. */
static double given_stall_timeout(const supervisor *s) {
    return options_has(&s->options, OPTION_STALL_TIMEOUT) ? options_number(&s->options, OPTION_STALL_TIMEOUT) : -1;
}

static void stop_stalled(supervisor *s, double now) {
    const double grace = options_number(&s->options, OPTION_KILL_AFTER);
    place_say(&s->place, EITP_LOG_WARNING,
              "no sign of life for %.1f s: stopping process %ld; it will be killed in %g s if still running",
              now - s->watch.alive_at, (long)s->child, grace);
    s->has_stalled = 1;
    s->kill_at = now + grace;
    child_signal(s->child, SIGTERM);
    child_signal(s->child, SIGCONT);
}

static void look(supervisor *s) {
    const double timeout = steps_stall_timeout(&s->watch, given_stall_timeout(s)), now = process_time();
    const double interval = timeout > 0 && timeout < 4 ? timeout / 4 : 1;
    if (now - s->watch.checked_at < interval)
        return;
    steps_poll(&s->watch, place_log_size(&s->place));
    if (timeout > 0 && !s->stop && !s->has_stalled && now - s->watch.alive_at >= timeout)
        stop_stalled(s, now);
    else if (s->has_stalled && !s->stop && now >= s->kill_at)
        child_signal(s->child, SIGKILL);
}

static void watch(supervisor *s) {
    while (!child_has_ended(s->child, &s->code, &s->number)) {
        process_sleep(s->place.shows ? 0.1 : 0.25);
        take_signals(s);
        place_show(&s->place);
        look(s);
    }
}

/* ---- After the end ---- */

/* True for exit codes after which another attempt may succeed: lack of memory, a failure to read or write, or a signal
   that users do not send to stop a run. Shells and mpirun report a signal as such a code. */
static int is_restartable(int code) {
    static const int people[] = {SIGHUP, SIGINT, SIGTERM, SIGXCPU};
    for (size_t i = 0; i < COMMAND_COUNT(people); i++) {
        if (code == 128 + people[i])
            return 0;
    }
    return code == COMMAND_PRESSURE || code == COMMAND_IO || (code > 128 && code < 128 + NSIG);
}

/* A command that seemed stalled but ends normally when stopped was only waiting. */
static int may_restart(const supervisor *s) {
    return !s->stop && (is_restartable(s->code) || (s->has_stalled && s->code));
}

static void describe_end(const supervisor *s, char *text, size_t size) {
    char name[32];
    if (s->has_stalled)
        snprintf(text, size, "stalled, then exit code %d", s->code);
    else if (s->number)
        snprintf(text, size, "killed by %s", child_signal_name(s->number, name, sizeof name));
    else
        snprintf(text, size, "exit code %d", s->code);
    if (s->stop) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, ", stopped by %s", child_signal_name(s->stop, name, sizeof name));
    }
}

/* Creates a file with this content. Returns 0 or an errno value. */
static int write_new_file(const char *path, const char *content, size_t size) {
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int code = file < 0 ? errno : 0;
    while (size && !code) {
        const ssize_t done = write(file, content, size);
        code = done < 0 && errno != EINTR ? errno : 0;
        content += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
    if (file >= 0)
        close(file);
    return code;
}

/* Writes the child's last lines to a separate file. Returns its path, or NULL on failure. */
static char *write_error_log(supervisor *s) {
    text_buffer lines = {NULL, 0, 0};
    char *path = place_new_file(&s->place, "error");
    int code;
    place_last_lines(&s->place, s->output_at, ERROR_LINES, &lines);
    code = write_new_file(path, lines.data, lines.size);
    text_release(&lines);
    if (!code)
        return path;
    place_say(&s->place, EITP_LOG_WARNING, "cannot write '%s': %s", path, strerror(code));
    free(path);
    return NULL;
}

/* Collects the child and records its end. */
static void collect(supervisor *s) {
    history_start *last = history_last(&s->history);
    steps_poll(&s->watch, place_log_size(&s->place));
    child_collect(s->child, may_restart(s));
    s->child = 0;
    take_signals(s);
    text_release(&s->history.last_lines);
    place_last_lines(&s->place, s->output_at, SHORT_LINES, &s->history.last_lines);
    last->has_ended = 1;
    last->end_time = history_time();
    last->exit_code = s->code;
    last->stall_timeout = steps_stall_timeout(&s->watch, given_stall_timeout(s));
    last->step = s->watch.step;
    last->checkpoint = steps_newest_checkpoint(s->place.directory);
    describe_end(s, last->reason, sizeof last->reason);
    last->error_log = s->code && !s->stop ? write_error_log(s) : NULL;
}

/* Logs the end of the child and the next action. */
static void say_end(supervisor *s, eitp_log_level level, const char *what) {
    const history_start *last = history_last(&s->history);
    char step[60] = "";
    if (last->step >= 0)
        snprintf(step, sizeof step, " after step %lld", (long long)last->step);
    place_say(&s->place, level, "%s%s: %s%s%s", last->reason, step, what, last->error_log ? "; last lines in " : "",
              last->error_log ? last->error_log : "");
}

/* Decides and logs the action after the end of a child. Returns the seconds to wait before the next start, or -1. */
static double decide(supervisor *s) {
    const history_start *last = history_last(&s->history);
    const int64_t most = options_integer(&s->options, OPTION_MAX_RESTARTS);
    const int progressed = last->checkpoint > s->watch.checkpoint;
    const int64_t ended_before = s->ended_step;
    double delay = options_number(&s->options, OPTION_RESTART_DELAY);
    char what[120];
    s->ended_step = last->step;
    if (progressed)
        s->restarts = 0;
    if (!may_restart(s)) {
        if (s->code && !s->stop)
            say_end(s, EITP_LOG_ERROR, "not restarted");
        return -1;
    }
    if (!progressed && last->step >= 0 && last->step == ended_before) {
        say_end(s, EITP_LOG_ERROR, "giving up: it ended twice at the same step without a new checkpoint");
        return -1;
    }
    if (s->restarts >= most) {
        snprintf(what, sizeof what, "giving up after %lld restart%s without a new checkpoint", (long long)s->restarts,
                 s->restarts == 1 ? "" : "s");
        say_end(s, EITP_LOG_ERROR, what);
        return -1;
    }
    for (int64_t i = 0; i < s->restarts && delay < LONGEST_DELAY_S; i++)
        delay = 2 * delay < LONGEST_DELAY_S ? 2 * delay : LONGEST_DELAY_S;
    s->restarts++;
    snprintf(what, sizeof what, "restart %lld of %lld in %g s", (long long)s->restarts, (long long)most, delay);
    say_end(s, EITP_LOG_WARNING, what);
    return delay;
}

/* Returns 0 if a signal asks to stop in the meantime. */
static int wait_for_restart(supervisor *s, double delay) {
    const double until = process_time() + delay;
    write_history(s, "waiting");
    for (;;) {
        const double left = until - process_time();
        char name[32];
        take_signals(s);
        place_show(&s->place);
        if (s->stop) {
            place_say(&s->place, EITP_LOG_INFO, "stopped by %s before the restart",
                      child_signal_name(s->stop, name, sizeof name));
            s->code = 128 + s->stop;
            return 0;
        }
        if (left <= 0)
            return 1;
        process_sleep(left < 0.25 ? left : 0.25);
    }
}

/* Runs the command until it ends for good. Returns its exit code. */
static int supervise(supervisor *s) {
    eitp_error error;
    eitp_status status = start(s, 0, &error);
    while (!status) {
        double delay;
        watch(s);
        collect(s);
        delay = decide(s);
        if (delay < 0 || !wait_for_restart(s, delay))
            break;
        status = place_open(&s->place, s->command.directory, &error);
        s->history.restarts++;
        if (!status)
            status = start(s, 1, &error);
    }
    if (status) {
        output_error("%s", error.message);
        s->code = command_exit_code(status);
    }
    if (s->history.count && s->place.file >= 0)
        write_history(s, "ended");
    place_show_rest(&s->place);
    return s->code;
}

/* ---- The command ---- */

/* Continues in a separate process without a terminal. Returns 1 in the process that returns to the shell. */
static int go_to_background(supervisor *s, eitp_error *error) {
    const pid_t process = fork();
    int nothing;
    if (process < 0) {
        command_fail(error, EITP_ERROR_IO, "cannot start a process for --background: %s", strerror(errno));
        return 1;
    }
    if (process > 0) {
        char *line = command_format("supervisor %ld, log %s\n", (long)process, s->place.log);
        output_result(line, strlen(line));
        free(line);
        error->status = EITP_OK;
        return 1;
    }
    setsid();
    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    dup2(s->place.file, STDOUT_FILENO);
    dup2(s->place.file, STDERR_FILENO);
    s->place.shows = 0;
    s->place.quiet = 0;
    return 0;
}

/* Turns the process that would return to the shell into the monitor, without descriptors of the lock and the log. The
   command is in its own session and does not end with it. */
static int become_monitor(const supervisor *s) {
    char name[] = "eitp", command[] = "monitor";
    char *arguments[4];
    arguments[0] = name;
    arguments[1] = command;
    arguments[2] = s->place.directory;
    arguments[3] = NULL;
    output_flush();
    execv("/proc/self/exe", arguments);
    output_error("cannot start the monitor: %s; the command continues: eitp monitor %s shows it", strerror(errno),
                 s->place.directory);
    return COMMAND_IO;
}

/* Runs in the background or in this process. Returns the exit code. */
static int run(supervisor *s) {
    const int quiet = (int)options_integer(&s->options, OPTION_QUIET);
    const int monitors = (int)options_integer(&s->options, OPTION_WITH_MONITOR);
    eitp_error error;
    eitp_status status;
    int code;
    s->place.shows = !quiet;
    s->place.quiet = quiet;
    status = place_open(&s->place, s->command.directory, &error);
    if (status)
        return output_fail(&error);
    if ((monitors || options_integer(&s->options, OPTION_BACKGROUND)) && go_to_background(s, &error))
        return error.status ? output_fail(&error) : monitors ? become_monitor(s) : COMMAND_FINISHED;
    output_forget();
    output_start();
    s->given = supervised_line(&s->command, 0);
    s->ended_step = -1;
    process_survive_closed_pipes();
    process_collect_signals();
    code = supervise(s);
    place_close(&s->place, 1);
    supervised_line_release(s->given);
    history_release(&s->history);
    return code;
}

static int is_help(const char *argument) {
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

/* Returns the index of the first "--"; -1 if it is missing and help is not requested. */
static int find_command_line(int count, char **arguments) {
    int asks_help = 0;
    for (int i = 0; i < count; i++) {
        if (!strcmp(arguments[i], "--"))
            return i;
        asks_help |= is_help(arguments[i]);
    }
    return asks_help ? count : -1;
}

static int fail_without_command(void) {
    output_error("missing -- and a command; use eitp safe-train [options] -- train ..., or a program after --");
    return COMMAND_WRONG;
}

int command_safe_train(int count, char **arguments) {
    const int at = find_command_line(count, arguments);
    supervisor s;
    eitp_error error;
    eitp_status status;
    int ended = 0, prints = 0, code = COMMAND_FINISHED;
    if (at < 0)
        return fail_without_command();
    memset(&s, 0, sizeof s);
    status = options_read(&s.options, "safe-train", OPTIONS_SAFE_TRAIN, at, arguments, &ended, &error);
    if (!status && !ended)
        status = supervised_read(&s.command, &s.options, count - at - 1, arguments + at + 1, &prints, &error);
    if (status)
        code = output_fail(&error);
    else if (prints && options_integer(&s.command.training, OPTION_PRINT_CONFIG))
        code = command_train(s.command.count - 1, s.command.arguments + 1);
    else if (!ended && !prints)
        code = run(&s);
    place_close(&s.place, 0);
    supervised_release(&s.command);
    options_release(&s.options);
    return code;
}
