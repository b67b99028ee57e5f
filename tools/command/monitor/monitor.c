/* eitp monitor: shows runs while they train, on the full screen or as lines. */
#include "files.h"
#include "monitor/control.h"
#include "monitor/lines.h"
#include "monitor/panels.h"
#include "monitor/terminal.h"
#include "options/options.h"
#include "output.h"
#include "process.h"

#include <signal.h>

enum { SOON_S = 1 /* to the next update after a request to a run, and while waiting for a run to start */ };

typedef struct monitor {
    option_set options;
    watched_runs runs;
    screen screen;
    panels_state panels;
    text_buffer output;
    FILE *log;       /* of --log, or NULL */
    int64_t updates; /* done */
    int confirms;    /* the next x stops the selected run */
    int is_logged;   /* the log has the state of an earlier update */
    int is_printed;  /* so does standard output */
} monitor;

/* ---- The runs ---- */

static eitp_status find_runs(monitor *m, eitp_error *error) {
    const option_set *o = &m->options;
    m->runs.limits.memory = options_number(o, OPTION_MEMORY_WARN);
    m->runs.limits.processor = options_number(o, OPTION_PROCESSOR_WARN);
    for (size_t i = 0; i < o->positional_count; i++)
        runs_add_place(&m->runs, o->positional[i]);
    if (options_has(o, OPTION_PID))
        return runs_add_process(&m->runs, options_integer(o, OPTION_PID), error);
    if (!o->positional_count)
        runs_add_place(&m->runs, ".");
    return EITP_OK;
}

static eitp_status open_log(monitor *m, eitp_error *error) {
    const char *path = options_text(&m->options, OPTION_LOG);
    if (!path)
        return EITP_OK;
    m->log = fopen(path, "ae");
    return m->log ? EITP_OK : files_fail(error, errno, "write", path);
}

/* Appends the state to the log: first all of it, then changes. */
static eitp_status write_log(monitor *m, eitp_error *error) {
    text_buffer lines = {NULL, 0, 0};
    int failed;
    if (!m->log)
        return EITP_OK;
    lines_add(&lines, &m->runs, m->is_logged);
    m->is_logged = m->runs.count > 0;
    errno = 0;
    failed = lines.size && fwrite(lines.data, 1, lines.size, m->log) != lines.size;
    failed |= fflush(m->log) != 0;
    text_release(&lines);
    return failed ? files_fail(error, errno ? errno : EIO, "write", options_text(&m->options, OPTION_LOG)) : EITP_OK;
}

static eitp_status update(monitor *m, eitp_error *error) {
    eitp_status status = runs_update(&m->runs, error);
    if (!status)
        status = write_log(m, error);
    m->updates++;
    return status;
}

/* Fails without a run if --once was given or no update has shown one. */
static eitp_status fail_without_run(const monitor *m, eitp_error *error) {
    const int once = (int)options_integer(&m->options, OPTION_ONCE);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s; pass the output directory of a run%s", m->runs.awaited,
                        once ? ", or leave out --once to wait for one" : "");
}

static int has_had_enough(const monitor *m) {
    return options_has(&m->options, OPTION_UPDATES) && m->updates >= options_integer(&m->options, OPTION_UPDATES);
}

/* Returns the seconds to the next update. */
static double interval(const monitor *m) {
    const double given = options_number(&m->options, OPTION_INTERVAL);
    if (!m->runs.count && given > SOON_S)
        return SOON_S;
    for (size_t i = 0; i < m->runs.count && given > SOON_S; i++) {
        if (!recorded_has_started(&m->runs.runs[i]->run))
            return SOON_S;
    }
    return given;
}

/* ---- Lines ---- */

static void print_state(monitor *m) {
    m->output.size = 0;
    if (options_integer(&m->options, OPTION_JSON))
        lines_add_json(&m->output, &m->runs);
    else if (options_integer(&m->options, OPTION_ONCE))
        for (size_t i = 0; i < m->runs.count; i++)
            lines_add_run(&m->output, m->runs.runs[i], 0);
    else
        lines_add(&m->output, &m->runs, m->is_printed);
    m->is_printed = m->runs.count > 0;
    output_result(m->output.data, m->output.size);
}

/* Logs once that the monitor is waiting for a run. */
static void say_waiting(const monitor *m) {
    if (*m->runs.awaited && m->updates == 1 && !options_integer(&m->options, OPTION_QUIET))
        output_info("%s: waiting for a run to start; press Ctrl-C to quit", m->runs.awaited);
}

/* Prints until a signal, the last update, or the end of all runs. */
static eitp_status print_updates(monitor *m, eitp_error *error) {
    const int once = (int)options_integer(&m->options, OPTION_ONCE);
    eitp_status status;
    if (!once)
        process_end_on_signals();
    while ((status = update(m, error)) == EITP_OK) {
        const int is_last = once || has_had_enough(m);
        if (is_last && *m->runs.awaited && (once || !m->runs.count))
            return fail_without_run(m, error);
        say_waiting(m);
        print_state(m);
        if (!output_flush() || is_last)
            break;
        if (!options_has(&m->options, OPTION_UPDATES) && runs_are_over(&m->runs))
            break;
        process_pause(interval(m));
    }
    return status;
}

/* Waits for the first update with a run. */
static eitp_status wait_for_run(monitor *m, eitp_error *error) {
    eitp_status status = update(m, error);
    while (!status && !m->runs.count) {
        if (has_had_enough(m))
            return fail_without_run(m, error);
        say_waiting(m);
        process_pause(interval(m));
        status = update(m, error);
    }
    return status;
}

/* ---- The screen ---- */

static watched_run *selected(monitor *m) {
    return m->runs.runs[m->panels.selected];
}

/* Returns 0, or the errno value of a failure to write. */
static int draw(monitor *m) {
    m->output.size = 0;
    panels_draw(&m->screen, &m->runs, &m->panels);
    screen_update(&m->screen, &m->output);
    return terminal_write(m->output.data, m->output.size);
}

static void resize(monitor *m) {
    int columns, rows;
    terminal_size(&columns, &rows);
    screen_resize(&m->screen, columns, rows);
}

static void say(monitor *m, const char *text) {
    snprintf(m->panels.message, sizeof m->panels.message, "%s", text);
}

/* Handles x, and x again to confirm. Returns 1 if a signal was sent. */
static int request_stop(monitor *m, int was_asked) {
    char text[400];
    if (was_asked) {
        const int sent = control_send(selected(m), CONTROL_STOP, text, sizeof text);
        say(m, text);
        return sent;
    }
    m->confirms = control_is_possible(selected(m), CONTROL_STOP, text, sizeof text);
    if (m->confirms)
        snprintf(text, sizeof text, "stop %.200s with a checkpoint?  x: yes, any other key: no", selected(m)->run.name);
    say(m, text);
    return 0;
}

/* Handles a key. Returns 1 if a signal was sent, -1 to quit. */
static int take_key(monitor *m, const terminal_key *key) {
    const int was_asked = m->confirms, had_help = m->panels.shows_help;
    char text[400];
    int sent;
    m->confirms = m->panels.shows_help = 0;
    say(m, "");
    if (key->code == 'q')
        return -1;
    if (had_help || (was_asked && key->code != 'x'))
        return 0;
    if (key->code == '?' || key->code == 'h')
        m->panels.shows_help = 1;
    else if ((key->code == TERMINAL_DOWN || key->code == 'j') && m->panels.selected + 1 < m->runs.count)
        m->panels.selected++;
    else if ((key->code == TERMINAL_UP || key->code == 'k') && m->panels.selected)
        m->panels.selected--;
    else if (key->code == 'x' && key->is_only)
        return request_stop(m, was_asked);
    else if (key->code == 's' && key->is_only) {
        sent = control_send(selected(m), CONTROL_SAVE, text, sizeof text);
        say(m, text);
        return sent;
    }
    return 0;
}

/* Shows updates until a key or a signal ends it. *is_gone is 1 if the terminal is gone. */
static eitp_status show_updates(monitor *m, int *is_gone, eitp_error *error) {
    double next = process_time() + interval(m);
    eitp_status status = EITP_OK;
    int code = draw(m);
    while (!status && !code) {
        terminal_key key;
        const terminal_event event = terminal_wait(next - process_time(), &key);
        const int done = event == TERMINAL_KEY ? take_key(m, &key) : 0;
        *is_gone = event == TERMINAL_CLOSED;
        if (event == TERMINAL_SIGNAL || *is_gone || done < 0)
            break;
        if (event == TERMINAL_CHANGED)
            resize(m);
        if (done > 0 && next > process_time() + SOON_S)
            next = process_time() + SOON_S;
        if (event == TERMINAL_TIME) {
            if (has_had_enough(m))
                break;
            status = update(m, error);
            next = process_time() + interval(m);
        }
        if (!status)
            code = draw(m);
    }
    *is_gone |= code == EIO;
    if (code && code != EINTR && code != EIO)
        status = command_fail(error, EITP_ERROR_IO, "cannot write to the terminal: %s", strerror(code));
    return status;
}

/* Prints a line for each run after the screen is closed. */
static void print_summary(monitor *m) {
    for (size_t i = 0; i < m->runs.count; i++) {
        const watched_run *w = m->runs.runs[i];
        char *line = command_format("%s: %s, step %s", w->run.directory, facts_text(&w->facts, "state"),
                                    facts_text(&w->facts, "step"));
        m->output.size = 0;
        screen_add_printable(&m->output, line);
        text_format(&m->output, "\n");
        output_result(m->output.data, m->output.size);
        free(line);
    }
}

/* Sets *code to the exit code of a signal, or of SIGHUP if the terminal is gone. */
static eitp_status show(monitor *m, int *code, eitp_error *error) {
    int is_gone = 0;
    eitp_status status = wait_for_run(m, error);
    if (status)
        return status;
    m->panels.selected = runs_first(&m->runs);
    m->screen.unicode = terminal_has_unicode() && !options_integer(&m->options, OPTION_ASCII);
    m->screen.colours = terminal_has_colours();
    status = terminal_open(error);
    if (!status) {
        resize(m);
        status = show_updates(m, &is_gone, error);
    }
    terminal_close();
    is_gone |= terminal_signal() == SIGHUP;
    if (terminal_signal() || is_gone)
        *code = 128 + (is_gone ? SIGHUP : terminal_signal());
    if (!status && !is_gone && !options_integer(&m->options, OPTION_QUIET))
        print_summary(m);
    return status;
}

/* ---- The command ---- */

static eitp_status run(monitor *m, int *code, eitp_error *error) {
    const option_set *o = &m->options;
    const int wants_lines = options_integer(o, OPTION_ONCE) || options_integer(o, OPTION_JSON);
    eitp_status status = find_runs(m, error);
    if (!status)
        status = open_log(m, error);
    if (status)
        return status;
    output_start();
    if (!wants_lines && terminal_is_capable())
        return show(m, code, error);
    return print_updates(m, error);
}

int command_monitor(int count, char **arguments) {
    monitor m;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&m, 0, sizeof m);
    status = options_read(&m.options, "monitor", OPTIONS_MONITOR, count, arguments, &ended, &error);
    if (!status && !ended)
        status = run(&m, &code, &error);
    if (status)
        code = output_fail(&error);
    if (m.log)
        fclose(m.log);
    screen_release(&m.screen);
    text_release(&m.output);
    runs_release(&m.runs);
    options_release(&m.options);
    return code;
}
