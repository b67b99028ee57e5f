/* eitp logs: prints the records of a run as a table, several runs as lines, or the files of a run. */
#include "files.h"
#include "options/options.h"
#include "output.h"
#include "process.h"
#include "records/log_files.h"
#include "records/run_list.h"
#include "records/series.h"

#include <time.h>

/* Default number of rows of a table. */
#define FEW_ROWS 20

static const char columns_of_run[] = "loss,val_loss,lr,grad_norm,items/s,memory,time";
static const char columns_of_two[] = "loss,val_loss";

static table_format format_of(const option_set *o) {
    return options_integer(o, OPTION_JSON) ? TABLE_JSON : options_integer(o, OPTION_CSV) ? TABLE_CSV : TABLE_ALIGNED;
}

/* Returns the largest number of rows; 0: no limit. */
static size_t most_rows(const option_set *o) {
    return options_has(o, OPTION_COLUMNS) || options_has(o, OPTION_FILTER) || format_of(o) != TABLE_ALIGNED ? 0
                                                                                                            : FEW_ROWS;
}

/* ---- Following ---- */

static void rest(void) {
    const struct timespec second = {1, 0};
    nanosleep(&second, NULL);
}

/* True if nothing more will be recorded. A run on another machine is over when it shows no signs of life. */
static int is_over(const recorded_run *r) {
    const double silent = 120; /* seconds */
    if (r->process.state == EITP_RUN_PROCESS_ELSEWHERE)
        return (double)time(NULL) - r->process.alive > silent;
    return r->process.state != EITP_RUN_PROCESS_ALIVE;
}

static eitp_status follow_log(const char *directory, const char *path, uint64_t at, eitp_error *error) {
    recorded_run r;
    eitp_status status = recorded_run_open(directory, &r, error);
    int ends = 0;
    /* Before its first step a run has no records; records written at the end are read once more. */
    while (!status && !ends) {
        int changed;
        ends = is_over(&r);
        rest();
        status = recorded_run_update(&r, &changed, error);
        ends = ends && is_over(&r);
        if (!status)
            status = log_files_print(path, &at, error);
    }
    recorded_run_close(&r);
    return status;
}

/* ---- Files ---- */

static eitp_status print_last(const option_set *o, eitp_error *error) {
    const char *directory = o->positional[0];
    char *path = NULL;
    uint64_t at = 0;
    eitp_status status = log_files_find_last(directory, &path, error);
    if (!status)
        status = log_files_print(path, &at, error);
    if (!status && options_integer(o, OPTION_FOLLOW))
        status = follow_log(directory, path, at, error);
    free(path);
    return status;
}

static eitp_status print_sizes(const option_set *o, eitp_error *error) {
    const char *directory = o->positional[0];
    text_table t;
    text_buffer json = {NULL, 0, 0};
    double total;
    memset(&t, 0, sizeof t);
    if (files_info(directory).kind != EITP_PATH_DIRECTORY)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is not a directory; pass the output directory of a run",
                            directory);
    total = log_files_add_sizes(directory, &t);
    if (options_has(o, OPTION_FILTER))
        text_table_filter(&t, options_text(o, OPTION_FILTER));
    if (format_of(o) == TABLE_JSON) {
        text_format(&json, "{\"files\": ");
        text_table_add_json(&t, &json);
        text_format(&json, ", \"total_bytes\": %.0f}\n", total);
        output_result(json.data, json.size);
    } else {
        char *line = command_format("%s in total", output_bytes(total));
        text_table_add_note(&t, line);
        text_table_print(&t, format_of(o), output_columns(stdout));
        free(line);
    }
    text_release(&json);
    text_table_release(&t);
    return EITP_OK;
}

/* ---- One run ---- */

/* Reports missing files on standard error. */
static void say_missing(const recorded_run *r) {
    const char *line = r->missing.data;
    output_start();
    while (line && *line) {
        const size_t size = strcspn(line, "\n");
        output_info("%.*s", (int)size, line);
        line += size + (line[size] == '\n');
    }
}

static void add_events(const recorded_run *r, text_buffer *json) {
    text_format(json, "[");
    for (size_t i = 0; i < r->event_count; i++) {
        const recorded_event *event = &r->events[i];
        text_format(json, i ? ", {" : "{");
        text_json_member_integer(json, "step", event->step);
        text_json_member_number(json, "time", event->time);
        text_json_member_string(json, "event", event->kind);
        text_json_member_string(json, "level", event->level);
        text_json_member_string(json, "message", event->message);
        text_format(json, "}");
    }
    text_format(json, "]");
}

static void print_json(const recorded_run *r, const text_table *t) {
    text_buffer json = {NULL, 0, 0};
    text_format(&json, "{");
    text_json_member_string(&json, "name", r->name);
    text_json_member_string(&json, "directory", r->directory);
    text_json_member_string(&json, "state", recorded_state(r));
    text_json_member_integer(&json, "step", r->step);
    text_json_member_integer(&json, "steps", r->last_step);
    text_json_name(&json, "rows");
    text_table_add_json(t, &json);
    text_json_name(&json, "events");
    add_events(r, &json);
    text_json_member_string(&json, "missing", r->missing.data ? r->missing.data : "");
    text_format(&json, "}\n");
    output_result(json.data, json.size);
    text_release(&json);
}

/* The table of a run. */
typedef struct run_table {
    const option_set *o;
    recorded_run run;
    series_list list;
    series_events events;
    text_table table;
} run_table;

/* Adds the records since the last row, in at most `most` rows; 0: all. */
static void add_new(run_table *rt, size_t most) {
    series_read(&rt->list);
    series_add_rows(&rt->list, most, &rt->events, &rt->table);
    if (options_has(rt->o, OPTION_FILTER))
        text_table_filter(&rt->table, options_text(rt->o, OPTION_FILTER));
}

static void print_new(run_table *rt) {
    text_table_print(&rt->table, format_of(rt->o), output_columns(stdout));
    output_flush();
}

static eitp_status follow_run(run_table *rt, eitp_error *error) {
    eitp_status status = EITP_OK;
    int ends = 0;
    while (!status && !ends) {
        int changed = 0;
        ends = is_over(&rt->run);
        if (!ends)
            rest();
        status = recorded_run_update(&rt->run, &changed, error);
        ends = ends && !changed;
        if (status || !changed)
            continue;
        add_new(rt, most_rows(rt->o) ? 1 : 0);
        print_new(rt);
    }
    if (!status)
        output_info("%s: %s, step %lld of %lld", rt->run.name, recorded_state(&rt->run), (long long)rt->run.step,
                    (long long)rt->run.last_step);
    return status;
}

/* Waits until the columns of a run are known: after a step, or after a second evaluation if it records no steps. */
static eitp_status wait_for_records(recorded_run *r, eitp_error *error) {
    eitp_status status = EITP_OK;
    while (!status && !eitp_history_name(r->history, 0) && r->evaluation_count < 2 && !is_over(r)) {
        int changed;
        rest();
        status = recorded_run_update(r, &changed, error);
    }
    return status;
}

static eitp_status print_run(const option_set *o, const char *directory, eitp_error *error) {
    enum { WIDE = 8 }; /* columns whose values become wider later */
    const int follows = (int)options_integer(o, OPTION_FOLLOW);
    run_table rt;
    eitp_status status;
    memset(&rt, 0, sizeof rt);
    rt.o = o;
    status = recorded_run_open(directory, &rt.run, error);
    if (!status && follows)
        status = wait_for_records(&rt.run, error);
    if (!status)
        status = series_add(&rt.list, &rt.run, options_text(o, OPTION_COLUMNS), columns_of_run, follows, error);
    if (!status) {
        say_missing(&rt.run);
        rt.events.run = &rt.run;
        rt.events.after = -1;
        rt.events.least = options_has(o, OPTION_FILTER) ? EITP_LOG_DEBUG : EITP_LOG_WARNING;
        series_add_columns(&rt.list, &rt.table);
        for (size_t i = 0; follows && i < rt.table.column_count; i++)
            rt.table.columns[i].width = rt.table.columns[i].width > WIDE ? rt.table.columns[i].width : WIDE;
        add_new(&rt, most_rows(o));
        if (format_of(o) == TABLE_JSON)
            print_json(&rt.run, &rt.table);
        else
            print_new(&rt);
    }
    if (!status && follows)
        status = follow_run(&rt, error);
    text_table_release(&rt.table);
    series_release(&rt.list);
    recorded_run_close(&rt.run);
    return status;
}

/* ---- Several runs ---- */

static void print_table(const option_set *o, const char *member, text_table *t) {
    text_buffer json = {NULL, 0, 0};
    if (format_of(o) != TABLE_JSON) {
        text_table_print(t, format_of(o), output_columns(stdout));
        return;
    }
    text_format(&json, "{\"%s\": ", member);
    text_table_add_json(t, &json);
    text_format(&json, "}\n");
    output_result(json.data, json.size);
    text_release(&json);
}

static eitp_status print_two(const option_set *o, const run_list *list, eitp_error *error) {
    recorded_run runs[2];
    series_list numbers = {NULL, 0};
    series_events none = {NULL, EITP_LOG_ERROR, 0};
    text_table t;
    eitp_status status = EITP_OK;
    memset(&t, 0, sizeof t);
    memset(runs, 0, sizeof runs);
    for (size_t i = 0; i < COMMAND_COUNT(runs) && !status; i++)
        status = recorded_run_open(list->directories[i], &runs[i], error);
    for (size_t i = 0; i < COMMAND_COUNT(runs) && !status; i++)
        status = series_add(&numbers, &runs[i], options_text(o, OPTION_COLUMNS), columns_of_two, 0, error);
    if (!status) {
        series_read(&numbers);
        series_add_columns(&numbers, &t);
        series_add_rows(&numbers, most_rows(o), &none, &t);
        if (options_has(o, OPTION_FILTER))
            text_table_filter(&t, options_text(o, OPTION_FILTER));
        print_table(o, "rows", &t);
    }
    for (size_t i = 0; i < COMMAND_COUNT(runs); i++)
        recorded_run_close(&runs[i]);
    series_release(&numbers);
    text_table_release(&t);
    return status;
}

static eitp_status print_list(const option_set *o, const run_list *list, eitp_error *error) {
    text_table t;
    eitp_status status;
    memset(&t, 0, sizeof t);
    status = run_list_add(list, o, &t, error);
    if (!status)
        print_table(o, "runs", &t);
    text_table_release(&t);
    return status;
}

/* ---- The command ---- */

static eitp_status check_options(const option_set *o, size_t runs, eitp_error *error) {
    const int is_side = (int)options_integer(o, OPTION_SIDE_BY_SIDE);
    const int of_one =
        options_integer(o, OPTION_FOLLOW) || options_integer(o, OPTION_LAST) || options_integer(o, OPTION_SIZES);
    if (options_integer(o, OPTION_JSON) && options_integer(o, OPTION_CSV))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--json and --csv exclude each other");
    if (options_integer(o, OPTION_JSON) && (options_integer(o, OPTION_FOLLOW) || options_integer(o, OPTION_LAST)))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--json cannot be used with --follow or --last");
    if (of_one && runs != 1)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--follow, --last and --sizes require a single run (got %zu)",
                            runs);
    if (runs != 2 && (is_side || (runs > 2 && options_has(o, OPTION_COLUMNS))))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--side-by-side%s requires two runs (got %zu)",
                            is_side ? "" : ", implied by --columns with several runs,", runs);
    return EITP_OK;
}

static eitp_status print_logs(const option_set *o, eitp_error *error) {
    run_list list;
    eitp_status status = run_list_find(o->positional, o->positional_count, &list, error);
    const int is_one = o->positional_count == 1 && list.count == 1 && !strcmp(list.directories[0], o->positional[0]);
    if (!status)
        status = check_options(o, list.count, error);
    if (!status) {
        if (options_integer(o, OPTION_LAST))
            status = print_last(o, error);
        else if (options_integer(o, OPTION_SIZES))
            status = print_sizes(o, error);
        else if (is_one)
            status = print_run(o, list.directories[0], error);
        else if (list.count == 2 && (options_integer(o, OPTION_SIDE_BY_SIDE) || options_has(o, OPTION_COLUMNS)))
            status = print_two(o, &list, error);
        else
            status = print_list(o, &list, error);
    }
    run_list_release(&list);
    return status;
}

int command_logs(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    process_end_on_signals();
    status = options_read(&o, "logs", OPTIONS_LOGS, count, arguments, &ended, &error);
    if (!status && !ended)
        status = print_logs(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
