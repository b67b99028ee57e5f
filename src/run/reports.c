#include "run/reports.h"

/* NULL: it is no word of a list. */
static const char *const eitp__report_words[] = {"jsonl", "csv", "tensorboard", "jsonl", NULL};
static const char *const eitp__report_names[] = {EITP__METRICS_FILE, "metrics.csv", "tensorboard", EITP__SUMMARY_FILE,
                                                 "evaluations.jsonl"};

/* ---- Lists ---- */

/* The next word of a list, without spaces around it; 0 at the end. */
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
                              "report_to: unknown destination '%.*s' (choose from jsonl, tensorboard, csv; none)",
                              (int)(size < 80 ? size : 80), word);
    }
    return EITP_OK;
}

/* ---- Files ---- */

/* Columns of metrics.csv that every run has. */
static const char *const eitp__report_columns[] = {
    "loss",           "lr",         "grad_norm", "update_norm", "parameter_norm", "loss_scale",
    "step_time_s",    "data_s",     "forward_s", "backward_s",  "update_s",       "transfer_s",
    "other_s",        "rss_bytes",  "spike",     "applied",     "val_loss",       "val_loss_error",
    "val_perplexity", "val_time_s", "event",     "level",       "message",        "seconds"};

enum {
    EITP__COMMON_COLUMNS = EITP__COUNT(eitp__report_columns),
    EITP__MOST_COLUMNS = EITP__COMMON_COLUMNS + 3 + 2 * EITP_MAX_TASK_METRICS
};

/* Columns, without two of one name. */
typedef struct eitp__report_column_list {
    const char *columns[EITP__MOST_COLUMNS];
    char names[EITP__MOST_COLUMNS][EITP_QUANTITY_NAME_SIZE + 16]; /* of those that are composed */
    size_t count;
} eitp__report_column_list;

static void eitp__add_report_column(eitp__report_column_list *list, const char *prefix, const char *name,
                                    const char *suffix) {
    char *text = list->names[list->count];
    snprintf(text, sizeof list->names[0], "%s%.*s%s", prefix, EITP_QUANTITY_NAME_SIZE, name, suffix);
    for (size_t i = 0; i < list->count; i++) {
        if (!strcmp(list->columns[i], text))
            return;
    }
    list->columns[list->count++] = text;
}

EITP__PRIVATE eitp_status eitp__report_set_columns(eitp_csv *csv, const eitp_task *task, eitp_error *error) {
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

/* Its file of records; NULL if it is not open. */
static eitp__record_file *eitp__report_file(const eitp__report *report) {
    return report->jsonl         ? eitp__jsonl_file(report->jsonl)
           : report->csv         ? eitp__csv_file(report->csv)
           : report->tensorboard ? eitp__tensorboard_file(report->tensorboard)
                                 : NULL;
}

EITP__PRIVATE double eitp__report_seconds(const eitp__report *report) {
    const eitp__record_file *file = eitp__report_file(report);
    return file ? eitp__record_file_seconds(file) : 0;
}

EITP__PRIVATE void eitp__report_configure(const eitp__report *report, const eitp_run_config *config) {
    eitp__record_file *file = eitp__report_file(report);
    if (file)
        eitp__record_file_set_times(file, config->log_flush_seconds, config->log_wait_seconds);
    eitp_tensorboard_use_guide_tags(report->tensorboard, config->guide_tags);
}

static eitp_status eitp__report_open_file(eitp__report *report, const eitp_host *host, const char *directory,
                                          eitp__report_kind kind, eitp_error *error) {
    if (kind == EITP__REPORT_JSONL || kind == EITP__REPORT_EVALUATIONS)
        return eitp_jsonl_open(host, report->path, &report->jsonl, error);
    if (kind == EITP__REPORT_CSV)
        return eitp_csv_open(host, report->path, eitp__report_columns, EITP__COMMON_COLUMNS, &report->csv, error);
    if (kind == EITP__REPORT_TENSORBOARD)
        return eitp_tensorboard_open(host, report->path, &report->tensorboard, error);
    return eitp__summary_file_open(host, directory, &report->summary, error);
}

EITP__PRIVATE size_t eitp__report_bytes(eitp__report_kind kind) {
    switch (kind) {
    case EITP__REPORT_JSONL:
        return eitp__jsonl_bytes(0);
    case EITP__REPORT_EVALUATIONS:
        return eitp__jsonl_bytes(2);
    case EITP__REPORT_CSV:
        return eitp__csv_bytes();
    case EITP__REPORT_TENSORBOARD:
        return eitp__tensorboard_bytes();
    default:
        return eitp__summary_file_bytes();
    }
}

EITP__PRIVATE eitp_status eitp__report_open(eitp__report *report, const eitp_host *host, const char *directory,
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

EITP__PRIVATE eitp_record_sink eitp__report_sink(const eitp__report *report) {
    return report->csv           ? eitp_csv_sink(report->csv)
           : report->tensorboard ? eitp_tensorboard_sink(report->tensorboard)
           : report->summary     ? eitp__summary_file_sink(report->summary)
                                 : eitp_jsonl_sink(report->jsonl);
}

EITP__PRIVATE void eitp__report_close(eitp__report *report, const eitp_host *host, int removes) {
    const eitp_files *files = &host->files;
    char *directory = NULL, *event_file = report->tensorboard && removes
                                              ? eitp__copy_text(host, eitp__tensorboard_path(report->tensorboard))
                                              : NULL;
    eitp_jsonl_close(report->jsonl);
    eitp_csv_close(report->csv);
    eitp_tensorboard_close(report->tensorboard);
    eitp__summary_file_close(report->summary);
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
