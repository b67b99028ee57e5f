#include "use/eval_result.h"

/* Largest number of labels of a confusion matrix printed as text. */
#define SHOWN_LABELS 12

typedef struct measured {
    const eitp_task *task;
    const eitp_evaluation *result;
    eitp_training_data data;
} measured;

/* ---- Language models ---- */

/* Returns the bits per byte of text: loss / ln 2 per mean bytes per token of the file; not finite if unknown. */
static double bits_per_byte(const measured *m) {
    return m->result->loss / (log(2.0) * m->data.bytes_per_token);
}

static void add_language_json(const measured *m, text_buffer *t) {
    text_json_member_number(t, "perplexity", exp(m->result->loss));
    text_json_member_number(t, "bits_per_byte", bits_per_byte(m)); /* null if unknown */
    text_json_member_number(t, "bytes_per_token", m->data.bytes_per_token);
    text_json_member_integer(t, "tokens", m->result->items);
    text_json_member_integer(t, "first_token", (int64_t)m->data.tokens.first);
}

/* Adds the loss and its standard error, which a single sample does not have. */
static void add_loss(const measured *m, const char *unit, text_buffer *t) {
    text_format(t, "loss %.6f%s", m->result->loss, unit);
    if (m->result->error > 0)
        text_format(t, " (standard error %.6f)", m->result->error);
}

static void add_language_text(const measured *m, text_buffer *t) {
    add_loss(m, " nats per token", t);
    text_format(t, ", perplexity %.4f", exp(m->result->loss));
    if (m->data.bytes_per_token > 0)
        text_format(t, ", %.4f bits per byte (%.3f bytes per token in the file)", bits_per_byte(m),
                    m->data.bytes_per_token);
    text_format(t, ", %lld tokens\n", (long long)m->result->items);
}

/* ---- Masked language models ---- */

static void add_masked_json(const measured *m, text_buffer *t) {
    text_json_member_integer(t, "masked_tokens", m->result->items);
}

static void add_masked_text(const measured *m, text_buffer *t) {
    add_loss(m, " nats per masked token", t);
    text_format(t, ", %lld masked tokens\n", (long long)m->result->items);
}

/* ---- Classifiers: metrics, a table of the labels, and the confusion matrix ---- */

/* Adds a table of labels or entity types; `key` is the name of a row's first member. */
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

static void add_labels_json(const measured *m, text_buffer *t) {
    eitp_classification_report report;
    eitp_error ignored;
    char name[EITP_SCALAR_NAME_SIZE + 8];
    for (int i = m->result->term_count; i < m->result->metric_count; i++) {
        const eitp_metric *metric = &m->result->metrics[i];
        text_json_member_number(t, metric->name, metric->mean);
        snprintf(name, sizeof name, "%s_error", metric->name);
        text_json_member_number(t, name, metric->error);
    }
    text_json_member_integer(t, m->task->unit, m->result->items);
    if (eitp_classification_report_get(m->task, &report, &ignored))
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
    text_format(t, "\nconfusion matrix: one row per label, one column per prediction\n%-24s", "");
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

static void add_labels_text(const measured *m, text_buffer *t) {
    eitp_classification_report report;
    eitp_error ignored;
    add_loss(m, "", t);
    text_format(t, ", %lld %s\n", (long long)m->result->items, m->task->unit);
    for (int i = m->result->term_count; i < m->result->metric_count; i++) {
        const eitp_metric *metric = &m->result->metrics[i];
        text_format(t, "%-20s %.4f", metric->name, metric->mean);
        text_format(t, metric->error > 0 ? " (standard error %.4f)\n" : "\n", metric->error);
    }
    if (eitp_classification_report_get(m->task, &report, &ignored))
        return;
    if (report.labels)
        add_table("label", report.labels, report.label_count, t);
    if (report.entities)
        add_table("entity", report.entities, report.entity_count, t);
    if (report.confusion && report.label_count <= SHOWN_LABELS)
        add_confusion(&report, t);
}

/* ---- All ---- */

/* The report functions for a kind of model. */
typedef struct measured_kind {
    void (*add_json)(const measured *m, text_buffer *t);
    void (*add_text)(const measured *m, text_buffer *t);
} measured_kind;

/* Classifiers are evaluated by labels, other models by masked tokens or the next token. */
static measured_kind kind_of(eitp_task_kind kind) {
    static const measured_kind language = {add_language_json, add_language_text},
                               masked = {add_masked_json, add_masked_text}, labels = {add_labels_json, add_labels_text};
    return kind == EITP_TASK_LANGUAGE ? language : kind == EITP_TASK_MASKED ? masked : labels;
}

static void add_object(const trained_model *trained, const measured *m, const measured_kind *kind, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "model", trained->directory);
    if (trained->adapter)
        text_json_member_string(t, "adapter", trained->adapter);
    text_json_member_number(t, "loss", m->result->loss);
    text_json_member_number(t, "loss_error", m->result->error);
    kind->add_json(m, t);
    text_json_member_integer(t, "block_size", eitp_training_get_recipe(trained->training)->task.block_size);
    text_format(t, "}\n");
}

void eval_result_add(const trained_model *trained, const eitp_evaluation *result, int json, text_buffer *t) {
    const measured_kind kind = kind_of(eitp_training_get_recipe(trained->training)->task.kind);
    measured m;
    m.task = eitp_training_get_task(trained->training);
    m.result = result;
    m.data = eitp_training_get_data(trained->training, EITP_TRAINING);
    if (json)
        add_object(trained, &m, &kind, t);
    else
        kind.add_text(&m, t);
}
