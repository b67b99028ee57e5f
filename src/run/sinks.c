#include "run/sinks.h"

#include "base/clock.h"
#include "base/files.h"
#include "records/summary.h"
#include "train/trainer.h"

/* Not a valid kind of file. */
#if EITP_WITHOUT_REPORTING
static const char *const eitp__report_words[] = {"jsonl", NULL, NULL, NULL, NULL};
#define EITP__REPORT_CHOICES "choose from jsonl; none; the others are left out by EITP_WITHOUT_REPORTING"
#else
static const char *const eitp__report_words[] = {"jsonl", "csv", "tensorboard", "jsonl", NULL};
#define EITP__REPORT_CHOICES "choose from jsonl, tensorboard, csv; none"
#endif
static const char *const eitp__report_names[] = {EITP__METRICS_FILE, "metrics.csv", "tensorboard", EITP__SUMMARY_FILE,
                                                 "evaluations.jsonl"};

/* ---- Lists ---- */

/* Finds the next word of a list, without surrounding spaces. Returns 0 at the end. */
static int eitp__next_report(const char **list, const char **word, size_t *size) {
    if (!*list || !**list)
        return 0;
    *word = *list + strspn(*list, " ");
    *size = strcspn(*word, ",");
    *list = *word + *size + ((*word)[*size] == ',');
    while (*size && (*word)[*size - 1] == ' ')
        --*size;
    return 1;
}

static int eitp__is_report(const char *word, size_t size, const char *name) {
    return name && strlen(name) == size && !memcmp(word, name, size);
}

EITP__PRIVATE int eitp__reports_have(const char *list, eitp__report_kind kind) {
    const char *word;
    size_t size;
    while (eitp__next_report(&list, &word, &size)) {
        if (eitp__is_report(word, size, eitp__report_words[kind]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__reports_check(const char *list, eitp_error *error) {
    const char *word;
    size_t size;
    while (eitp__next_report(&list, &word, &size)) {
        int is_known = eitp__is_report(word, size, "none");
        for (int i = 0; i < EITP__REPORTS; i++)
            is_known |= eitp__is_report(word, size, eitp__report_words[i]);
        if (!is_known)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "report_to: unknown destination '%.*s' (" EITP__REPORT_CHOICES ")",
                              (int)(size < 80 ? size : 80), word);
    }
    return EITP_OK;
}

/* ---- Files ---- */

#if EITP_WITHOUT_REPORTING

static eitp_status eitp__report_set_columns(eitp_record_file *csv, const eitp_task *task, eitp_error *error) {
    (void)csv;
    (void)task;
    (void)error;
    return EITP_OK;
}

static void eitp__report_set_tags(const eitp__report *report, const eitp_run_config *config) {
    (void)report;
    (void)config;
}

static eitp_status eitp__report_open_other(eitp__report *report, const eitp_host *host, const char *directory,
                                           eitp__report_kind kind, eitp_error *error) {
    (void)report;
    (void)host;
    (void)directory;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "'%s': this program was built with EITP_WITHOUT_REPORTING",
                      eitp__report_names[kind]);
}

static size_t eitp__report_other_bytes(eitp__report_kind kind) {
    (void)kind;
    return 0;
}

#else

/* Columns of metrics.csv in every run. */
static const char *const eitp__report_columns[] = {
    "loss",           "lr",         "grad_norm", "update_norm", "parameter_norm", "loss_scale",
    "step_time_s",    "data_s",     "forward_s", "backward_s",  "update_s",       "transfer_s",
    "other_s",        "rss_bytes",  "spike",     "applied",     "val_loss",       "val_loss_error",
    "val_perplexity", "val_time_s", "event",     "level",       "message",        "seconds"};

enum {
    EITP__COMMON_COLUMNS = EITP__COUNT(eitp__report_columns),
    EITP__MOST_COLUMNS = EITP__COMMON_COLUMNS + 3 + 2 * EITP_MAX_TASK_METRICS
};

/* Columns with unique names. */
typedef struct eitp__report_column_list {
    const char *columns[EITP__MOST_COLUMNS];
    char names[EITP__MOST_COLUMNS][EITP_SCALAR_NAME_SIZE + 16]; /* composed names */
    size_t count;
} eitp__report_column_list;

static void eitp__add_report_column(eitp__report_column_list *list, const char *prefix, const char *name,
                                    const char *suffix) {
    char *text = list->names[list->count];
    snprintf(text, sizeof list->names[0], "%s%.*s%s", prefix, EITP_SCALAR_NAME_SIZE, name, suffix);
    for (size_t i = 0; i < list->count; i++) {
        if (!strcmp(list->columns[i], text))
            return;
    }
    list->columns[list->count++] = text;
}

/* Adds the columns of a task to metrics.csv: its items and its metrics. */
static eitp_status eitp__report_set_columns(eitp_record_file *csv, const eitp_task *task, eitp_error *error) {
    const char *unit = task->unit ? task->unit : "items";
    eitp__report_column_list list;
    list.count = 0;
    for (size_t i = 0; i < EITP__COMMON_COLUMNS; i++)
        list.columns[list.count++] = eitp__report_columns[i];
    eitp__add_report_column(&list, "", unit, "");
    eitp__add_report_column(&list, "", unit, "_per_s");
    eitp__add_report_column(&list, "val_", unit, "");
    for (int i = 0; i < task->metric_count && i < EITP_MAX_TASK_METRICS; i++) {
        eitp__add_report_column(&list, "val_", task->metrics[i].name, "");
        eitp__add_report_column(&list, "val_", task->metrics[i].name, "_error");
    }
    return eitp__csv_set_columns(csv, list.columns, list.count, error);
}

static void eitp__report_set_tags(const eitp__report *report, const eitp_run_config *config) {
    eitp_tensorboard_use_guide_tags(report->file, config->guide_tags);
}

/* Opens a file in a format other than JSON lines. */
static eitp_status eitp__report_open_other(eitp__report *report, const eitp_host *host, const char *directory,
                                           eitp__report_kind kind, eitp_error *error) {
    if (kind == EITP__REPORT_CSV)
        return eitp_csv_open(host, report->path, eitp__report_columns, EITP__COMMON_COLUMNS, &report->file, error);
    if (kind == EITP__REPORT_TENSORBOARD)
        return eitp_tensorboard_open(host, report->path, &report->file, error);
    return eitp__summary_file_open(host, directory, &report->file, error);
}

static size_t eitp__report_other_bytes(eitp__report_kind kind) {
    if (kind == EITP__REPORT_CSV)
        return eitp__csv_bytes();
    return kind == EITP__REPORT_TENSORBOARD ? eitp__tensorboard_bytes() : eitp__summary_file_bytes();
}

#endif

/* Returns its queue, or NULL if it is not open or has none. */
static eitp__queued_file *eitp__report_queue(const eitp__report *report) {
    return report->file ? report->file->queue : NULL;
}

EITP__PRIVATE double eitp__report_seconds(const eitp__report *report) {
    const eitp__queued_file *queue = eitp__report_queue(report);
    return queue ? eitp__queued_file_seconds(queue) : 0;
}

/* Sets the intervals and tags of a file, if it is open. */
static void eitp__report_configure(const eitp__report *report, const eitp_run_config *config) {
    eitp__queued_file *queue = eitp__report_queue(report);
    if (queue)
        eitp__queued_file_set_times(queue, config->log_flush_seconds, config->log_wait_seconds);
    eitp__report_set_tags(report, config);
}

static eitp_status eitp__report_open_file(eitp__report *report, const eitp_host *host, const char *directory,
                                          eitp__report_kind kind, eitp_error *error) {
    if (kind == EITP__REPORT_JSONL || kind == EITP__REPORT_EVALUATIONS)
        return eitp_jsonl_open(host, report->path, &report->file, error);
    return eitp__report_open_other(report, host, directory, kind, error);
}

EITP__PRIVATE size_t eitp__report_bytes(eitp__report_kind kind) {
    if (kind == EITP__REPORT_JSONL || kind == EITP__REPORT_EVALUATIONS)
        return eitp__jsonl_bytes(kind == EITP__REPORT_EVALUATIONS ? 2 : 0);
    return eitp__report_other_bytes(kind);
}

/* Closes a file, and with `removes` deletes everything that opening it created. Does nothing if it is not open. */
static void eitp__report_close(eitp__report *report, const eitp_host *host, int removes) {
    const eitp_files *files = &host->files;
    const char *path = report->file ? report->file->path : NULL;
    char *directory = NULL,
         *event_file = path && removes && strcmp(path, report->path) ? eitp__copy_text(host, path) : NULL;
    eitp_record_file_close(report->file);
    if (event_file)
        files->remove(files->user, event_file);
    if (removes && report->is_new)
        files->remove(files->user, report->path);
    if (removes && report->directories && (directory = eitp__parent_directory(host, report->path)) != NULL)
        eitp__remove_directories(host, directory, report->directories);
    eitp__release_text(host, directory);
    eitp__release_text(host, event_file);
    eitp__release_text(host, report->path);
    memset(report, 0, sizeof *report);
}

/* Opens a file in a directory. */
static eitp_status eitp__report_open(eitp__report *report, const eitp_host *host, const char *directory,
                                     eitp__report_kind kind, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    int missing = 0;
    eitp_status status = eitp__count_missing(host, directory, &missing, error);
    memset(report, 0, sizeof *report);
    if (!status)
        status = eitp__make_directories(host, directory, error);
    if (status)
        return status;
    report->directories = missing;
    report->path = eitp__join_path(host, directory, eitp__report_names[kind]);
    if (!report->path)
        status = eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__path_info(host, report->path, &info, error);
    if (!status)
        status = eitp__report_open_file(report, host, directory, kind, error);
    report->is_new = !status && info.kind == EITP_PATH_MISSING;
    if (status)
        eitp__report_close(report, host, 1);
    return status;
}

/* ---- Choosing files ---- */

EITP__PRIVATE eitp__sinks *eitp__sinks_of(const eitp_run *run) {
    return (eitp__sinks *)run->states[EITP__OBSERVER_RECORDS];
}

/* Returns the directory of the record files. */
static const char *eitp__reports_directory(const eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    return sinks->folder.path ? sinks->folder.path : run->directory;
}

const char *eitp_run_records_directory(const eitp_run *run) {
    return run ? eitp__reports_directory(run) : NULL;
}

static void eitp__close_reports(eitp_run *run, eitp__report reports[EITP__REPORTS]) {
    for (int i = EITP__REPORTS - 1; i >= 0; i--)
        eitp__report_close(&reports[i], &run->host, run->stage != EITP__RUN_STARTED);
}

/* Opens the files that are in `wanted` and not yet in `reports`; on failure none of them. */
static eitp_status eitp__open_reports(eitp_run *run, const char *directory, const int wanted[EITP__REPORTS],
                                      eitp__report reports[EITP__REPORTS], eitp_error *error) {
    eitp_status status = EITP_OK;
    int opened[EITP__REPORTS] = EITP__ZERO;
    for (int i = 0; i < EITP__REPORTS && !status; i++) {
        opened[i] = wanted[i] && !reports[i].path;
        if (opened[i])
            status = eitp__report_open(&reports[i], &run->host, directory, (eitp__report_kind)i, error);
    }
    for (int i = EITP__REPORTS - 1; i >= 0 && status; i--) {
        if (opened[i])
            eitp__report_close(&reports[i], &run->host, 1);
    }
    return status;
}

/* Adds the sinks of the record files after `count` others. */
static size_t eitp__add_report_sinks(const eitp__report reports[EITP__REPORTS], eitp__sink *all, size_t count) {
    for (int i = 0; i < EITP__REPORTS; i++) {
        if (!reports[i].path)
            continue;
        memset(&all[count], 0, sizeof all[count]);
        all[count].is_thinned = i == EITP__REPORT_CSV || i == EITP__REPORT_TENSORBOARD;
        all[count].is_detailed = i == EITP__REPORT_EVALUATIONS;
        all[count++].calls = eitp_record_file_sink(reports[i].file);
    }
    return count;
}

static void eitp__release_sinks(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    if (sinks->all)
        eitp__release(&run->host, sinks->all, sinks->capacity * sizeof *sinks->all);
    sinks->all = NULL;
    sinks->count = sinks->capacity = 0;
}

static int eitp__is_same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

/* Opens the record files of a configuration in their folder, and takes ownership of it. */
static eitp_status eitp__open_folder(eitp_run *run, eitp__log_directory *folder, const int wanted[EITP__REPORTS],
                                     eitp__report reports[EITP__REPORTS], eitp_error *error) {
    const eitp_status status = eitp__open_reports(run, folder->path, wanted, reports, error);
    eitp_status taken = EITP_OK;
    int is_wanted = 0;
    for (int i = 0; i < EITP__REPORTS; i++)
        is_wanted |= wanted[i];
    if (!status && is_wanted)
        taken = eitp__log_directory_take(folder, run->directory, error);
    for (int i = EITP__REPORTS - 1; i >= 0 && taken; i--)
        eitp__report_close(&reports[i], &run->host, 1);
    return status ? status : taken;
}

/* Leaves the directory of records for another one, or for none. */
static void eitp__leave_folder(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    if (run->stage != EITP__RUN_STARTED)
        eitp__log_directory_forget(&sinks->folder);
    eitp__close_reports(run, sinks->reports);
    eitp__log_directory_release(&sinks->folder);
    eitp__release_text(&run->host, sinks->log_dir);
    sinks->log_dir = NULL;
}

/* Opens the record files of a configuration in a different directory. */
static eitp_status eitp__move_reports(eitp_run *run, const eitp_run_config *config, const int wanted[EITP__REPORTS],
                                      eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp__report reports[EITP__REPORTS];
    eitp__log_directory folder = EITP__ZERO;
    char *log_dir = config->log_dir ? eitp__copy_text(&run->host, config->log_dir) : NULL;
    eitp_status status = EITP_OK;
    memset(reports, 0, sizeof reports);
    if (config->log_dir && !log_dir)
        status = eitp__fail_memory(error, strlen(config->log_dir), "a path");
    if (!status && log_dir)
        status = eitp__log_directory_find(&folder, &run->host, log_dir, run->directory, error);
    if (!status)
        status = folder.path ? eitp__open_folder(run, &folder, wanted, reports, error)
                             : eitp__open_reports(run, run->directory, wanted, reports, error);
    if (status) {
        eitp__log_directory_release(&folder);
        eitp__release_text(&run->host, log_dir);
        return status;
    }
    eitp__leave_folder(run);
    memcpy(sinks->reports, reports, sizeof reports);
    sinks->folder = folder;
    sinks->log_dir = log_dir;
    return EITP_OK;
}

/* Closes the record files that a configuration lacks, and opens those that it adds. */
static eitp_status eitp__configure_reports(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    int wanted[EITP__REPORTS];
    eitp_status status;
    for (int i = 0; i < EITP__REPORTS; i++)
        wanted[i] = eitp__reports_have(config->report_to, (eitp__report_kind)i);
    if (eitp__is_same_text(config->log_dir, sinks->log_dir))
        status = eitp__open_reports(run, eitp__reports_directory(run), wanted, sinks->reports, error);
    else
        status = eitp__move_reports(run, config, wanted, error);
    for (int i = EITP__REPORTS - 1; i >= 0 && !status; i--) {
        if (!wanted[i])
            eitp__report_close(&sinks->reports[i], &run->host, run->stage != EITP__RUN_STARTED);
        eitp__report_configure(&sinks->reports[i], config);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__sinks_configure(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    const size_t capacity = config->sink_count + EITP__REPORTS;
    eitp__sink *all = (eitp__sink *)eitp__allocate(&run->host, capacity * sizeof *all);
    eitp_status status = all ? EITP_OK : eitp__fail_memory(error, capacity * sizeof *all, "a run");
    if (!status)
        status = eitp__configure_reports(run, config, error);
    if (status) {
        eitp__release(&run->host, all, capacity * sizeof *all);
        return status;
    }
    eitp__release_sinks(run);
    for (size_t i = 0; i < config->sink_count; i++)
        all[i].calls = config->sinks[i];
    sinks->all = all;
    sinks->count = eitp__add_report_sinks(sinks->reports, all, config->sink_count);
    sinks->capacity = capacity;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sinks_replace_reports(eitp_run *run, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    int wanted[EITP__REPORTS];
    size_t others = sinks->count;
    int is_open;
    eitp_status status;
    for (int i = 0; i < EITP__REPORTS; i++) {
        wanted[i] = sinks->reports[i].path != NULL;
        others -= (size_t)wanted[i];
    }
    if (sinks->log_dir || others == sinks->count)
        return EITP_OK;
    is_open = sinks->all[others].is_open;
    eitp__close_reports(run, sinks->reports);
    sinks->count = others;
    status = eitp__open_reports(run, run->directory, wanted, sinks->reports, error);
    if (status)
        return status;
    sinks->count = eitp__add_report_sinks(sinks->reports, sinks->all, others);
    for (size_t i = others; i < sinks->count; i++)
        sinks->all[i].is_open = is_open;
    for (int i = 0; i < EITP__REPORTS; i++)
        eitp__report_configure(&sinks->reports[i], &run->config);
    return EITP_OK;
}

EITP__PRIVATE void eitp__sinks_close(eitp_run *run, void *state) {
    (void)state;
    eitp__leave_folder(run);
    eitp__release_sinks(run);
}

/* ---- Records ---- */

static void eitp__count_lost(eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    run->report.lost_records = 0;
    for (size_t i = 0; i < sinks->count; i++) {
        const eitp__sink *sink = &sinks->all[i];
        run->report.lost_records += sink->calls.lost ? sink->calls.lost(sink->calls.user) : sink->lost;
    }
}

/* Stores the result of a call of a sink. */
static void eitp__watch_sink(eitp_run *run, eitp__sink *sink, eitp_status status, const eitp_error *error) {
    sink->has_changed |= sink->is_failing != (status != EITP_OK);
    sink->is_failing = status != EITP_OK;
    if (status)
        snprintf(sink->why, sizeof sink->why, "%.199s", error->message);
    eitp__count_lost(run);
}

/* Adds columns for the task's items and metrics to metrics.csv. */
static eitp_status eitp__set_report_columns(const eitp_run *run, eitp_error *error) {
    eitp_record_file *csv = eitp__sinks_of(run)->reports[EITP__REPORT_CSV].file;
    const eitp_task *task = eitp__trainer_task(run->trainer);
    return csv ? eitp__report_set_columns(csv, task, error) : EITP_OK;
}

/* Opens evaluations.jsonl next to metrics.jsonl, if evaluations are described. */
static eitp_status eitp__open_details(eitp_run *run, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp__report *report = &sinks->reports[EITP__REPORT_EVALUATIONS];
    const eitp_task *task = eitp__trainer_task(run->trainer);
    const int is_described = task->samples[EITP_VALIDATION] && (task->describe || run->config.describe);
    eitp_status status;
    if (!sinks->reports[EITP__REPORT_JSONL].path || report->path || !is_described)
        return EITP_OK;
    status = eitp__report_open(report, &run->host, eitp__reports_directory(run), EITP__REPORT_EVALUATIONS, error);
    if (status)
        return status;
    eitp__report_configure(report, &run->config);
    memset(&sinks->all[sinks->count], 0, sizeof sinks->all[0]);
    sinks->all[sinks->count].is_detailed = 1;
    sinks->all[sinks->count++].calls = eitp_record_file_sink(report->file);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    int detailed = 0;
    eitp_status status = eitp__set_report_columns(run, error);
    if (!status)
        status = eitp__open_details(run, error);
    sinks->began = eitp__clock();
    for (size_t i = 0; i < sinks->count && !status; i++) {
        eitp__sink *sink = &sinks->all[i];
        int found = 0;
        if (sink->calls.resume)
            status = sink->calls.resume(sink->calls.user, step, &found, error);
        if (sink->is_detailed)
            detailed |= found;
        else
            *evaluated |= found;
        sink->is_open = !status;
    }
    sinks->detailed_step = detailed & EITP__RECORDED_EVALUATION ? step : -1;
    sinks->detailed_spot_step = detailed & EITP__RECORDED_SPOT ? step : -1;
    return status;
}

/* True if thinned sinks get a step. A resumed run logs the same steps. */
static int eitp__is_logged(const eitp_run *run, int64_t step) {
    return step == 1 || step == run->report.steps || step % run->config.log_every == 0;
}

static eitp_record eitp__make_record(const eitp__sinks *sinks, eitp_record_kind kind, int64_t step,
                                     const eitp_value *values, size_t count) {
    eitp_record record;
    record.kind = kind;
    record.step = step;
    record.time = eitp__time_of_day();
    record.elapsed = eitp__clock() - sinks->began;
    record.values = values;
    record.count = count;
    return record;
}

EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    const eitp_record record = eitp__make_record(sinks, kind, step, values, count);
    for (size_t i = 0; i < sinks->count; i++) {
        eitp__sink *sink = &sinks->all[i];
        eitp_error error = EITP__ZERO;
        eitp_status status;
        if (!sink->is_open || sink->is_detailed ||
            (sink->is_thinned && kind == EITP_RECORD_STEP && !eitp__is_logged(run, step)))
            continue;
        status = sink->calls.record(sink->calls.user, &record, &error);
        sink->lost += status != EITP_OK;
        eitp__watch_sink(run, sink, status, &error);
    }
}

static int eitp__takes_details(const eitp__sink *sink) {
    return sink->is_open && sink->is_detailed;
}

EITP__PRIVATE int eitp__sinks_take_details(const eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    return sinks->count && eitp__takes_details(&sinks->all[sinks->count - 1]); /* it is the last one */
}

EITP__PRIVATE void eitp__sinks_record_details(eitp_run *run, int64_t step, const eitp_value *values, size_t count,
                                              const char *const *objects, size_t object_count) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    const eitp_record record = eitp__make_record(sinks, EITP_RECORD_EVALUATION, step, values, count);
    eitp_error error = EITP__ZERO;
    eitp_status status;
    status = eitp__jsonl_add(sinks->reports[EITP__REPORT_EVALUATIONS].file, &record, objects, object_count, &error);
    eitp__watch_sink(run, &sinks->all[sinks->count - 1], status, &error);
}

static void eitp__sync_sink(eitp_run *run, eitp__sink *sink) {
    eitp_error error = EITP__ZERO;
    const eitp_status status = sink->calls.sync ? sink->calls.sync(sink->calls.user, &error) : EITP_OK;
    /* A sink that does not buffer records has stored nothing with this call. */
    if (status || sink->calls.lost)
        eitp__watch_sink(run, sink, status, &error);
}

EITP__PRIVATE void eitp__sinks_sync(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    for (size_t i = 0; i < sinks->count; i++)
        eitp__sync_sink(run, &sinks->all[i]);
    eitp__count_lost(run);
}

EITP__PRIVATE void eitp__sinks_finish(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    for (size_t i = 0; i < sinks->count; i++) {
        if (sinks->all[i].is_open && (sinks->all[i].calls.lost || sinks->all[i].is_failing))
            eitp__sync_sink(run, &sinks->all[i]);
    }
    eitp__count_lost(run);
}
