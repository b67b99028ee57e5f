#include "records/recorded_run.h"

#include "files.h"

#include <time.h>

#define INFO_LIMIT ((size_t)1 << 24) /* bytes of run.json and supervisor.json */

/* ---- Lookup ---- */

const eitp_json *recorded_at(const eitp_json *object, const char *path) {
    char name[100];
    while (object && *path) {
        const size_t size = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)size, path);
        object = eitp_json_member(object, name);
        path += size + (path[size] == '.');
    }
    return object;
}

const eitp_json *recorded_members(const eitp_json *object) {
    return object && object->kind == EITP_JSON_OBJECT ? object->first_child : NULL;
}

const eitp_json *recorded_items(const eitp_json *array) {
    return array && array->kind == EITP_JSON_ARRAY ? array->first_child : NULL;
}

double recorded_number(const eitp_json *object, const char *path) {
    const eitp_json *value = recorded_at(object, path);
    if (value && value->kind == EITP_JSON_NUMBER)
        return value->number;
    return value && value->kind == EITP_JSON_BOOLEAN ? (double)value->boolean : (double)NAN;
}

const char *recorded_text(const eitp_json *object, const char *path, const char *missing) {
    const eitp_json *value = recorded_at(object, path);
    return value && value->kind == EITP_JSON_STRING ? value->text : missing;
}

/* Returns an integer that is at least 0, or -1. */
static int64_t recorded_integer(const eitp_json *object, const char *path) {
    const eitp_json *value = recorded_at(object, path);
    return value && value->kind == EITP_JSON_NUMBER && value->is_integer && value->integer >= 0 ? value->integer : -1;
}

eitp_history_point *recorded_points(const recorded_run *r, const char *name, size_t *count) {
    eitp_history_point *points;
    *count = eitp_history_points(r->history, name, NULL, 0);
    if (!*count)
        return NULL;
    points = (eitp_history_point *)command_allocate(*count * sizeof *points);
    eitp_history_points(r->history, name, points, *count);
    return points;
}

double recorded_last(const recorded_run *r, const char *name) {
    return eitp_history_last(r->history, name);
}

const char *recorded_task_loss(const recorded_run *r) {
    static const char *const names[] = {"loss_ce", "loss_mse"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (eitp_history_points(r->history, names[i], NULL, 0))
            return names[i];
    }
    return "loss";
}

const char *recorded_unit(const recorded_run *r) {
    const char *name;
    for (size_t i = 0; (name = eitp_history_name(r->history, i)) != NULL; i++) {
        char *rate = command_format("%s_per_s", name);
        const int is_unit = !strchr(name, '/') && eitp_history_points(r->history, rate, NULL, 0) > 0;
        free(rate);
        if (is_unit)
            return name;
    }
    return "items";
}

const recorded_event *recorded_last_event(const recorded_run *r, const char *kind) {
    for (size_t i = r->event_count; i > 0; i--) {
        if (!strcmp(r->events[i - 1].kind, kind))
            return &r->events[i - 1];
    }
    return NULL;
}

const recorded_evaluation *recorded_last_evaluation(const recorded_run *r) {
    return r->evaluation_count ? &r->evaluations[r->evaluation_count - 1] : NULL;
}

const recorded_evaluation *recorded_best_evaluation(const recorded_run *r) {
    const recorded_evaluation *best = NULL;
    for (size_t i = 0; i < r->evaluation_count; i++) {
        if (isfinite(r->evaluations[i].loss) && (!best || r->evaluations[i].loss < best->loss))
            best = &r->evaluations[i];
    }
    return best;
}

const recorded_checkpoint *recorded_last_checkpoint(const recorded_run *r) {
    for (size_t i = r->checkpoint_count; i > 0; i--) {
        if (!*r->checkpoints[i - 1].suffix)
            return &r->checkpoints[i - 1];
    }
    return NULL;
}

/* ---- Events and evaluations ---- */

static void forget_lines(recorded_run *r) {
    for (size_t i = 0; i < r->line_count; i++)
        eitp_json_release(r->lines[i]);
    free(r->lines);
    free(r->events);
    free(r->all_evaluations);
    r->lines = NULL;
    r->events = NULL;
    r->all_evaluations = NULL;
    r->evaluations = NULL;
    r->line_count = r->event_count = r->evaluation_count = r->all_evaluation_count = 0;
}

static double recorded_time(const eitp_json *record) {
    const double time = recorded_number(record, "time");
    return isfinite(time) ? time : 0;
}

static void add_event(recorded_run *r, const eitp_json *record) {
    recorded_event *event = &r->events[r->event_count++];
    event->step = recorded_integer(record, "step");
    event->time = recorded_time(record);
    event->kind = recorded_text(record, "event", "");
    event->level = recorded_text(record, "level", "info");
    event->message = recorded_text(record, "message", "");
    event->record = record;
}

/* Adds an evaluation. One before step 1 may have fewer samples than the others, and is not used for comparisons. */
static void add_evaluation(recorded_run *r, const eitp_json *record) {
    recorded_evaluation *evaluation = &r->all_evaluations[r->all_evaluation_count++];
    evaluation->step = recorded_integer(record, "step");
    evaluation->time = recorded_time(record);
    evaluation->loss = recorded_number(record, "val_loss");
    evaluation->error = recorded_number(record, "val_loss_error");
    evaluation->record = record;
    if (!r->evaluation_count && eitp_json_member(record, "val_partial_samples"))
        r->evaluations = evaluation + 1;
    else
        r->evaluation_count++;
}

/* Parses the lines of evaluations and events. Lines that are not JSON objects are ignored. */
static eitp_status read_lines(recorded_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    size_t size, count = 0;
    const char *at = eitp_history_lines(r->history, &size, NULL), *end = at + size;
    eitp_status status = EITP_OK;
    forget_lines(r);
    for (const char *byte = at; byte < end; byte++)
        count += *byte == '\n';
    r->lines = (eitp_json_document **)command_allocate(count * sizeof *r->lines);
    r->events = (recorded_event *)command_allocate(count * sizeof *r->events);
    r->all_evaluations = (recorded_evaluation *)command_allocate((count + 1) * sizeof *r->all_evaluations);
    r->evaluations = r->all_evaluations;
    while (at < end && status != EITP_ERROR_MEMORY) {
        const size_t length = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
        eitp_json_document *line = NULL;
        status = eitp_json_parse(&host, at, length, &line, error);
        at += length + 1;
        if (status)
            continue;
        r->lines[r->line_count++] = line;
        if (!recorded_members(eitp_json_root(line)))
            continue;
        if (eitp_json_member(eitp_json_root(line), "event"))
            add_event(r, eitp_json_root(line));
        else
            add_evaluation(r, eitp_json_root(line));
    }
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

/* ---- Checkpoints ---- */

/* Parses the name of a checkpoint. Returns 0 for any other name. */
static int parse_checkpoint(const char *name, recorded_checkpoint *checkpoint) {
    static const char *const suffixes[] = {"", ".damaged", ".diverged"};
    static const char prefix[] = "checkpoint-";
    const char *digits = name + sizeof prefix - 1;
    const size_t width = strncmp(name, prefix, sizeof prefix - 1) ? 0 : strspn(digits, "0123456789");
    if (!width || width > 18)
        return 0;
    for (size_t i = 0; i < COMMAND_COUNT(suffixes); i++) {
        if (!strcmp(digits + width, suffixes[i])) {
            checkpoint->step = strtoll(digits, NULL, 10);
            checkpoint->suffix = suffixes[i] + (i > 0);
            return 1;
        }
    }
    return 0;
}

static int visit_checkpoint(void *user, const char *name) {
    recorded_run *r = (recorded_run *)user;
    recorded_checkpoint checkpoint;
    eitp_path_info state;
    char *directory, *path;
    if (!parse_checkpoint(name, &checkpoint))
        return 0;
    directory = files_join(r->directory, name);
    path = files_join(directory, "trainer_state.json");
    state = files_info(path);
    free(path);
    free(directory);
    if (state.kind != EITP_PATH_FILE)
        return 0;
    checkpoint.time = 1e-9 * (double)state.modified;
    r->checkpoints =
        (recorded_checkpoint *)command_resize(r->checkpoints, (r->checkpoint_count + 1) * sizeof *r->checkpoints);
    r->checkpoints[r->checkpoint_count++] = checkpoint;
    return 0;
}

static int compare_checkpoints(const void *a, const void *b) {
    const int64_t left = ((const recorded_checkpoint *)a)->step, right = ((const recorded_checkpoint *)b)->step;
    return (left > right) - (left < right);
}

static void read_checkpoints(recorded_run *r) {
    const eitp_host host = command_host();
    r->checkpoint_count = 0;
    host.files.list(host.files.user, r->directory, visit_checkpoint, r);
    if (r->checkpoint_count)
        qsort(r->checkpoints, r->checkpoint_count, sizeof *r->checkpoints, compare_checkpoints);
}

/* ---- Files ---- */

static void note_missing(recorded_run *r, const char *format, const char *text) {
    text_format(&r->missing, format, text);
    text_format(&r->missing, "\n");
}

static void note_damaged(recorded_run *r, const char *format, const char *text) {
    note_missing(r, format, text);
    r->damaged_count++;
}

/* Reads a JSON file. A problem is added to `missing` if the run should have the file. */
static eitp_status read_json(recorded_run *r, const char *name, int is_expected, eitp_json_document **document,
                             eitp_error *error) {
    const eitp_host host = command_host();
    char *path = files_join(r->directory, name);
    eitp_status status;
    eitp_json_release(*document);
    *document = NULL;
    status = eitp_json_read_file(&host, path, INFO_LIMIT, document, error);
    if (!status && eitp_json_root(*document)->kind != EITP_JSON_OBJECT)
        note_damaged(r, "%s: not a JSON object", path);
    else if (status && status != EITP_ERROR_MEMORY && error->system_code != ENOENT)
        note_damaged(r, "%s", error->message);
    else if (status && status != EITP_ERROR_MEMORY && is_expected)
        note_missing(r, "%s is missing", name);
    free(path);
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

/* Reports a file of records that exists but cannot be opened. */
static void note_unreadable(recorded_run *r, const char *name) {
    const eitp_host host = command_host();
    char *path = files_join(r->records, name);
    void *file = NULL;
    const int code = host.files.open(host.files.user, path, EITP_FILE_READ, &file);
    eitp_error error;
    if (!code)
        host.files.close(host.files.user, file);
    else if (code != ENOENT && files_fail(&error, code, "read", path))
        note_damaged(r, "%s", error.message);
    free(path);
}

static eitp_status read_info(recorded_run *r, eitp_error *error) {
    const eitp_host host = command_host();
    const eitp_json *root;
    eitp_status status = read_json(r, "run.json", 1, &r->info, error);
    if (!status)
        status = read_json(r, "logs/supervisor.json", 0, &r->supervisor, error);
    if (!status)
        status = eitp_run_process_read(&host, r->directory, &r->process, error);
    root = eitp_json_root(r->info);
    r->run = eitp_json_member(root, "run");
    r->configuration = eitp_json_member(root, "configuration");
    r->first_step = recorded_integer(r->run, "first_step");
    r->last_step = recorded_integer(r->run, "last_step");
    if (r->info && r->process.state == EITP_RUN_PROCESS_UNKNOWN)
        note_missing(r, "run.json has no process state: it was written by an earlier version, or copied%s", "");
    return status;
}

/* Returns the directory of the records that run.json names (--log-dir, from an earlier version) if it has records here,
   otherwise the directory of the run. */
static char *find_records(const recorded_run *r) {
    const char *given = recorded_text(r->run, "records", recorded_text(r->configuration, "log-dir", ""));
    const int is_elsewhere = strcmp(given, recorded_text(r->run, "directory", "")) != 0;
    return command_copy(*given && is_elsewhere && files_is_file(given, "metrics.jsonl") ? given : r->directory);
}

static void note_records(recorded_run *r) {
    static const char *const names[] = {"metrics.jsonl", "summary.jsonl", "evaluations.jsonl"};
    const int before = r->damaged_count;
    for (size_t i = 0; i < COMMAND_COUNT(names); i++)
        note_unreadable(r, names[i]);
    if (r->damaged_count > before)
        return;
    if (!eitp_history_name(r->history, 0) && !r->line_count)
        note_missing(r, "no records in '%s': metrics.jsonl and summary.jsonl are missing or empty", r->records);
    else if (!files_is_file(r->records, "summary.jsonl"))
        note_missing(r, "summary.jsonl is missing%s: curves are made from metrics.jsonl", "");
}

static void find_name(recorded_run *r) {
    const char *slash = strrchr(r->directory, '/');
    const char *name = recorded_text(r->run, "name", slash ? slash + 1 : r->directory);
    free(r->name);
    r->name = command_copy(*name ? name : r->directory);
}

static eitp_status read_everything(recorded_run *r, eitp_error *error) {
    eitp_status status;
    text_release(&r->missing);
    r->damaged_count = 0;
    status = read_info(r, error);
    if (status)
        return status;
    find_name(r);
    read_checkpoints(r);
    if (!r->history) {
        const eitp_host host = command_host();
        free(r->records);
        r->records = find_records(r);
        status = eitp_history_open(&host, r->records, &r->history, error);
        if (status && status != EITP_ERROR_MEMORY) {
            note_damaged(r, "%s", error->message);
            status = EITP_OK;
        }
    }
    if (!status)
        status = read_lines(r, error);
    if (!status)
        note_records(r);
    r->step = eitp_history_step(r->history);
    r->step = r->process.step > r->step ? r->process.step : r->step;
    return status;
}

int recorded_has_started(const recorded_run *r) {
    return r->info || r->damaged_count || r->checkpoint_count || r->line_count || eitp_history_name(r->history, 0);
}

eitp_status recorded_run_open(const char *directory, recorded_run *r, eitp_error *error) {
    size_t size = strlen(directory);
    eitp_status status;
    memset(r, 0, sizeof *r);
    while (size > 1 && directory[size - 1] == '/')
        size--;
    r->directory = command_format("%.*s", (int)size, directory);
    if (files_info(r->directory).kind != EITP_PATH_DIRECTORY)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is not a directory; pass the output directory of a run",
                            directory);
    status = read_everything(r, error);
    if (!status && !r->supervisor && !recorded_has_started(r))
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "no run in '%s': it has no run.json, metrics.jsonl or checkpoints", directory);
    return status;
}

eitp_status recorded_run_update(recorded_run *r, int *changed, eitp_error *error) {
    const eitp_run_process before = r->process;
    eitp_status status = r->history ? eitp_history_update(r->history, changed, error) : EITP_OK;
    if (!status)
        status = read_everything(r, error);
    *changed |= memcmp(&before, &r->process, sizeof before) != 0;
    return status;
}

void recorded_run_close(recorded_run *r) {
    forget_lines(r);
    eitp_history_close(r->history);
    eitp_json_release(r->info);
    eitp_json_release(r->supervisor);
    text_release(&r->missing);
    free(r->checkpoints);
    free(r->directory);
    free(r->records);
    free(r->name);
    memset(r, 0, sizeof *r);
}

/* ---- State ---- */

const char *recorded_state(const recorded_run *r) {
    switch (r->process.state) {
    case EITP_RUN_PROCESS_ALIVE:
    case EITP_RUN_PROCESS_ENDED:
        return r->process.recorded;
    case EITP_RUN_PROCESS_VANISHED:
        return "killed or crashed";
    case EITP_RUN_PROCESS_RESTARTED:
        return "machine restarted";
    case EITP_RUN_PROCESS_ELSEWHERE:
        return "on another machine";
    default:
        return "unknown";
    }
}

static int compare_numbers(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

recorded_pace recorded_run_pace(const recorded_run *r) {
    enum { MOST = 20 };
    recorded_pace pace = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
    double seconds[MOST], between = 0;
    size_t count, used;
    eitp_history_point *points = recorded_points(r, "step_time_s", &count);
    const double remaining = (double)(r->last_step - r->step);
    used = count < MOST ? count : MOST;
    for (size_t i = 0; i < used; i++)
        seconds[i] = points[count - used + i].mean;
    free(points);
    if (!used)
        return pace;
    qsort(seconds, used, sizeof *seconds, compare_numbers);
    pace.step = seconds[used / 2];
    pace.low = seconds[used / 4];
    pace.high = seconds[used - 1 - used / 4];
    if (r->last_step < 0)
        return pace;
    if (r->evaluation_count > 1 && r->step > 0) {
        for (size_t i = 0; i < r->evaluation_count; i++) {
            const double time = recorded_number(r->evaluations[i].record, "val_time_s");
            between += isfinite(time) ? time : 0;
        }
        between /= (double)r->step;
    }
    pace.left = remaining > 0 ? remaining * (pace.step + between) : 0;
    pace.left_low = remaining > 0 ? remaining * (pace.low + between) : 0;
    pace.left_high = remaining > 0 ? remaining * (pace.high + between) : 0;
    return pace;
}

double recorded_unsaved_seconds(const recorded_run *r) {
    const recorded_checkpoint *saved = recorded_last_checkpoint(r);
    const int64_t from = saved ? saved->step : 0;
    const recorded_pace pace = recorded_run_pace(r);
    return r->step > from ? (double)(r->step - from) * pace.step : r->step == from ? 0 : (double)NAN;
}
