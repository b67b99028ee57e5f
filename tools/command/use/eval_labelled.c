/* eitp eval of classifiers: metrics, a table of the labels, and the confusion matrix. */
#include "data/labelled.h"
#include "output.h"
#include "use/eval.h"
#include "use/split.h"

/* The largest confusion matrix that is printed as text. */
#define SHOWN_LABELS 12

/* ---- Data ---- */

static eitp_status open_file(evaluating *e, eitp_error *error) {
    const eitp_transformer_config shape = eitp_model_config(e->trained.model);
    const char **names = (const char **)command_allocate((size_t)shape.labels * sizeof *names);
    labelled_settings settings;
    eitp_status status;
    memset(&settings, 0, sizeof settings);
    for (int64_t i = 0; i < shape.labels; i++)
        names[i] = eitp_model_label(e->trained.model, i);
    evaluating_set_max_length(e);
    settings.tokenizer = e->trained.tokenizer;
    settings.vocabulary = shape.vocabulary;
    settings.max_length = e->block_size;
    settings.problem = shape.problem;
    if (!eitp_model_labels_are_numbers(e->trained.model)) {
        settings.labels = names;
        settings.label_count = shape.labels;
    }
    status = evaluating_use_packed(e, packed_has_samples, error);
    if (!status)
        status = labelled_open(&e->options, OPTION_DATA, &settings, &e->data, error);
    free(names);
    return status;
}

/* Labels that the model does not name are found among its own before anything is computed. */
static eitp_status check_labels(const evaluating *e, int64_t count, eitp_error *error) {
    int32_t *numbers = (int32_t *)command_allocate((size_t)(count + 1) * sizeof *numbers);
    eitp_label_match match;
    eitp_status status =
        labelled_match(e->trained.model, &e->data, options_text(&e->options, OPTION_DATA), numbers, &match, error);
    free(numbers);
    return status;
}

static eitp_status open_data(evaluating *e, eitp_error *error) {
    eitp_labelled_info info;
    eitp_status status = open_file(e, error);
    if (status)
        return status;
    labelled_report(&e->data);
    info = eitp_labelled_file_get_info(e->data.labelled);
    if (info.problem == EITP_PROBLEM_UNKNOWN)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has no labels; name their column with --label-column, or use 'eitp predict'",
                            options_text(&e->options, OPTION_DATA));
    status = check_labels(e, info.label_count, error);
    return status ? status
                  : split_find_part(&e->options, trained_model_checkpoint(&e->trained), &e->data, &e->part, error);
}

static eitp_status create_task(evaluating *e, eitp_error *error) {
    eitp_classification_config config = eitp_classification_config_default();
    config.model = e->trained.model;
    config.training = eitp_labelled_part_source(e->part);
    return eitp_classification_task(&config, &e->task, error);
}

/* ---- The result ---- */

/* A table of labels, or of types of entities; `key` is what a row is called. */
static void add_json_table(const char *name, const char *key, const eitp_label_result *labels, int64_t count,
                           text_buffer *t) {
    text_json_name(t, name);
    text_format(t, "[");
    for (int64_t i = 0; i < count; i++) {
        const eitp_label_result *label = &labels[i];
        text_format(t, i ? ", {" : "{");
        text_json_member_string(t, key, label->name);
        text_json_member_number(t, "precision", label->precision);
        text_json_member_number(t, "recall", label->recall);
        text_json_member_number(t, "f1", label->f1);
        text_json_member_integer(t, "support", label->support);
        text_json_member_integer(t, "predicted", label->predicted);
        text_format(t, "}");
    }
    text_format(t, "]");
}

static void add_json_confusion(const eitp_classification_report *report, text_buffer *t) {
    const int64_t n = report->label_count;
    text_json_name(t, "confusion");
    text_format(t, "[");
    for (int64_t i = 0; i < n; i++) {
        text_format(t, i ? ", [" : "[");
        for (int64_t j = 0; j < n; j++)
            text_format(t, j ? ", %lld" : "%lld", (long long)report->confusion[i * n + j]);
        text_format(t, "]");
    }
    text_format(t, "]");
}

static void add_json(const evaluating *e, text_buffer *t) {
    eitp_classification_report report;
    eitp_error ignored;
    char name[EITP_QUANTITY_NAME_SIZE + 8];
    for (int i = e->result.term_count; i < e->result.metric_count; i++) {
        const eitp_metric *metric = &e->result.metrics[i];
        text_json_member_number(t, metric->name, metric->mean);
        snprintf(name, sizeof name, "%s_error", metric->name);
        text_json_member_number(t, name, metric->error);
    }
    text_json_member_integer(t, e->task.unit, e->result.items);
    if (eitp_classification_report_get(&e->task, &report, &ignored))
        return;
    if (report.labels)
        add_json_table("by_label", "label", report.labels, report.label_count, t);
    if (report.entities)
        add_json_table("by_type", "type", report.entities, report.entity_count, t);
    if (report.confusion)
        add_json_confusion(&report, t);
}

static void add_table(const char *name, const eitp_label_result *labels, int64_t count, text_buffer *t) {
    text_format(t, "\n%-24s %9s %9s %9s %9s\n", name, "precision", "recall", "F1", "support");
    for (int64_t i = 0; i < count; i++) {
        const eitp_label_result *label = &labels[i];
        text_format(t, "%-24.24s %9.4f %9.4f %9.4f %9lld\n", label->name, label->precision, label->recall, label->f1,
                    (long long)label->support);
    }
}

static void add_confusion(const eitp_classification_report *report, text_buffer *t) {
    const int64_t n = report->label_count;
    text_format(t, "\nconfusion: a row for each label, a column for each prediction\n%-24s", "");
    for (int64_t j = 0; j < n; j++)
        text_format(t, " %9.9s", report->labels[j].name);
    text_format(t, "\n");
    for (int64_t i = 0; i < n; i++) {
        text_format(t, "%-24.24s", report->labels[i].name);
        for (int64_t j = 0; j < n; j++)
            text_format(t, " %9lld", (long long)report->confusion[i * n + j]);
        text_format(t, "\n");
    }
}

static void add_text(const evaluating *e, text_buffer *t) {
    eitp_classification_report report;
    eitp_error ignored;
    text_format(t, "loss %.6f (standard error %.6f), %lld %s\n", e->result.loss, e->result.error,
                (long long)e->result.items, e->task.unit);
    for (int i = e->result.term_count; i < e->result.metric_count; i++) {
        const eitp_metric *metric = &e->result.metrics[i];
        text_format(t, "%-20s %.4f", metric->name, metric->mean);
        text_format(t, metric->error > 0 ? " (standard error %.4f)\n" : "\n", metric->error);
    }
    if (eitp_classification_report_get(&e->task, &report, &ignored))
        return;
    if (report.labels)
        add_table("label", report.labels, report.label_count, t);
    if (report.entities)
        add_table("entity", report.entities, report.entity_count, t);
    if (report.confusion && report.label_count <= SHOWN_LABELS)
        add_confusion(&report, t);
}

const evaluating_kind evaluating_labels = {open_data, create_task, add_json, add_text};
