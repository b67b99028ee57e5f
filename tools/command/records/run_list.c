#include "records/run_list.h"

#include "files.h"
#include "records/recorded_run.h"
#include "records/series.h"

enum { MOST_RUNS = 4096 };

/* ---- Finding runs ---- */

void run_list_release(run_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->directories[i]);
    free(list->directories);
    memset(list, 0, sizeof *list);
}

static int is_run(const char *directory) {
    return files_is_file(directory, "run.json") || files_is_file(directory, "metrics.jsonl") ||
           files_is_file(directory, "summary.jsonl");
}

static void add_directory(run_list *list, char *directory) {
    list->directories = (char **)command_resize(list->directories, (list->count + 1) * sizeof *list->directories);
    list->directories[list->count++] = directory;
}

typedef struct directory_search {
    const char *parent;
    run_list *list;
} directory_search;

/* Skips checkpoints, which also have a run.json. */
static int visit_directory(void *user, const char *name) {
    directory_search *search = (directory_search *)user;
    char *directory = files_join(search->parent, name);
    if (is_run(directory) && !files_is_file(directory, "trainer_state.json"))
        add_directory(search->list, directory);
    else
        free(directory);
    return search->list->count >= MOST_RUNS;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the runs in a directory, or the directory if it is a run. */
static void add_argument(const char *argument, run_list *list) {
    const eitp_host host = command_host();
    directory_search search = {argument, list};
    const size_t before = list->count;
    if (!is_run(argument) && files_info(argument).kind == EITP_PATH_DIRECTORY)
        host.files.list(host.files.user, argument, visit_directory, &search);
    if (list->count > before)
        qsort(list->directories + before, list->count - before, sizeof *list->directories, compare_texts);
    else
        add_directory(list, command_copy(argument)); /* opening it reports the problem */
}

eitp_status run_list_find(char *const *arguments, size_t count, run_list *list, eitp_error *error) {
    memset(list, 0, sizeof *list);
    if (!count)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "eitp logs requires the output directory of a run, or a directory with runs");
    for (size_t i = 0; i < count; i++)
        add_argument(arguments[i], list);
    return EITP_OK;
}

/* ---- Lines ---- */

enum { NAME, STATE, STEP, STEPS, BEST, BEST_STEP, LOSS, RATE, TIME, STARTED, DIRECTORY, COLUMNS };

static const struct {
    const char *title, *key;
    int is_text, rank;
} columns[COLUMNS] = {{"name", "name", 1, 0},       {"state", "state", 1, 1},         {"step", "step", 0, 2},
                      {"steps", "steps", 0, 5},     {"best", "best", 0, 3},           {"at", "best_step", 0, 7},
                      {"loss", "loss", 0, 4},       {"items/s", "rate", 0, 6},        {"time", "time", 0, 8},
                      {"started", "started", 1, 9}, {"directory", "directory", 1, 10}};

static void set_step(table_cell *cell, int64_t step) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)step);
    if (step >= 0)
        text_table_set_number(cell, (double)step, text);
}

static void set_number(table_cell *cell, const char *name, double value) {
    char text[64];
    if (!isfinite(value))
        return;
    series_format(name, value, text, sizeof text);
    text_table_set_number(cell, value, text);
}

/* Returns the seconds of all steps. */
static double time_trained(const recorded_run *r) {
    size_t count;
    double sum = 0;
    eitp_history_point *points = recorded_points(r, "step_time_s", &count);
    for (size_t i = 0; i < count; i++)
        sum += (double)points[i].mean * (double)points[i].count;
    free(points);
    return count ? sum : (double)NAN;
}

static void add_run(const recorded_run *r, text_table *t) {
    const recorded_evaluation *best = recorded_best_evaluation(r);
    const char *started = recorded_text(r->run, "started", "");
    char *rate = command_format("%s_per_s", recorded_unit(r));
    table_cell *cells = text_table_add_row(t);
    text_table_set_text(&cells[NAME], r->name);
    text_table_set_text(&cells[STATE], recorded_state(r));
    set_step(&cells[STEP], r->step);
    set_step(&cells[STEPS], r->last_step);
    if (best) {
        set_number(&cells[BEST], "val_loss", best->loss);
        set_step(&cells[BEST_STEP], best->step);
    }
    set_number(&cells[LOSS], "loss", recorded_last(r, "loss"));
    set_number(&cells[RATE], rate, recorded_last(r, rate));
    set_number(&cells[TIME], "time", time_trained(r));
    if (*started)
        text_table_set_text(&cells[STARTED], started);
    text_table_set_text(&cells[DIRECTORY], r->directory);
    free(rate);
}

/* Adds a directory whose run files have no records yet. */
static void add_empty(const char *directory, text_table *t) {
    const char *slash = strrchr(directory, '/');
    table_cell *cells = text_table_add_row(t);
    text_table_set_text(&cells[NAME], slash && slash[1] ? slash + 1 : directory);
    text_table_set_text(&cells[STATE], "no records");
    text_table_set_text(&cells[DIRECTORY], directory);
}

static eitp_status fail_unknown(const char *name, eitp_error *error) {
    eitp_suggestion near = {NULL, 0, 0};
    for (size_t i = 0; i < COLUMNS; i++)
        eitp_suggest_name(name, columns[i].title, strlen(columns[i].title), &near);
    if (near.name)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--sort: no column '%s'; did you mean '%.*s'?", name,
                            (int)near.size, near.name);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "--sort: no column '%s' (choose from name, state, step, steps, best, at, loss, items/s, time, "
                        "started and directory)",
                        name);
}

static eitp_status sort_runs(const char *given, text_table *t, eitp_error *error) {
    const int downwards = given && *given == '-';
    for (size_t i = 0; given && i < COLUMNS; i++) {
        if (strcmp(given + downwards, columns[i].title) && strcmp(given + downwards, columns[i].key))
            continue;
        text_table_sort(t, i, downwards);
        return EITP_OK;
    }
    return given ? fail_unknown(given + downwards, error) : EITP_OK;
}

eitp_status run_list_add(const run_list *list, const option_set *o, text_table *t, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COLUMNS; i++)
        text_table_add_column(t, columns[i].title, columns[i].key, columns[i].is_text, columns[i].rank);
    for (size_t i = 0; i < list->count && !status; i++) {
        recorded_run r;
        status = recorded_run_open(list->directories[i], &r, error);
        if (!status)
            add_run(&r, t);
        recorded_run_close(&r);
        if (status == EITP_ERROR_ARGUMENT && is_run(list->directories[i])) {
            add_empty(list->directories[i], t);
            status = EITP_OK;
        }
    }
    if (!status)
        status = sort_runs(options_text(o, OPTION_SORT), t, error);
    if (!status && options_has(o, OPTION_FILTER))
        text_table_filter(t, options_text(o, OPTION_FILTER));
    return status;
}
