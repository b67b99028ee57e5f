#include "run/records.h"

#include "run/events.h"
#include "run/sinks.h"

#include "base/files.h"
#include "train/trainer.h"

#include <unistd.h>

#define EITP__RECORD_VALUES (2 * EITP_MAX_METRICS + 16)

/* A record being built. */
typedef struct eitp__values {
    eitp_value values[EITP__RECORD_VALUES];
    char names[EITP__RECORD_VALUES][EITP_QUANTITY_NAME_SIZE + 16]; /* for names composed of parts */
    size_t count;
} eitp__values;

/* ---- Values ---- */

static eitp_value *eitp__add_value(eitp__values *list, const char *name, eitp_value_kind kind) {
    eitp_value *value = &list->values[list->count < EITP__RECORD_VALUES ? list->count++ : EITP__RECORD_VALUES - 1];
    memset(value, 0, sizeof *value);
    value->name = name;
    value->kind = kind;
    return value;
}

/* Names a value prefix + name + suffix. */
static eitp_value *eitp__name_value(eitp__values *list, eitp_value *value, const char *prefix, const char *name,
                                    const char *suffix) {
    const size_t size = sizeof list->names[0];
    char *text = list->names[value - list->values];
    snprintf(text, size, "%s%.*s%s", prefix, EITP_QUANTITY_NAME_SIZE, name, suffix);
    value->name = text;
    return value;
}

static void eitp__add_named(eitp__values *list, const char *prefix, const char *name, const char *suffix,
                            double number) {
    eitp__name_value(list, eitp__add_value(list, "", EITP_VALUE_NUMBER), prefix, name, suffix)->number = number;
}

static void eitp__add_number(eitp__values *list, const char *name, double number) {
    eitp__add_value(list, name, EITP_VALUE_NUMBER)->number = number;
}

static void eitp__add_integer(eitp__values *list, const char *name, int64_t integer) {
    eitp__add_value(list, name, EITP_VALUE_INTEGER)->integer = integer;
}

static void eitp__add_boolean(eitp__values *list, const char *name, int boolean) {
    eitp__add_value(list, name, EITP_VALUE_BOOLEAN)->integer = boolean != 0;
}

static void eitp__add_text(eitp__values *list, const char *name, const char *text) {
    eitp__add_value(list, name, EITP_VALUE_TEXT)->text = text;
}

/* Gives a record to the sinks. */
static void eitp__record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp__values *list) {
    eitp__sinks_record(run, kind, step, list->values, list->count);
    eitp__run_report_sinks(run);
}

/* The resident set of the process in bytes; 0 if unknown. */
static int64_t eitp__run_resident_bytes(const eitp_host *host) {
    char text[128], *end = text;
    size_t size = 0;
    eitp__file file;
    if (eitp__file_open(&file, host, "/proc/self/statm", EITP_FILE_READ, NULL))
        return 0;
    if (eitp__file_read_some(&file, 0, text, sizeof text - 1, &size, NULL))
        size = 0;
    eitp__file_close(&file, NULL);
    text[size] = 0;
    /* The second number is the resident set, in pages. */
    (void)strtoull(text, &end, 10);
    return (int64_t)strtoull(end, NULL, 10) * (int64_t)sysconf(_SC_PAGESIZE);
}

static void eitp__record_step(eitp_run *run) {
    const eitp_step_report *report = &run->report.step;
    const char *unit = eitp__run_unit(run);
    eitp__values list;
    list.count = 0;
    eitp__add_number(&list, "loss", report->loss);
    for (int i = 0; i < report->term_count && report->term_count > 1; i++)
        eitp__add_named(&list, "loss_", report->terms[i].name, "", report->terms[i].mean);
    eitp__add_number(&list, "lr", report->learning_rate);
    eitp__add_number(&list, "grad_norm", report->grad_norm);
    eitp__add_number(&list, "update_norm", report->update_norm);
    eitp__add_number(&list, "parameter_norm", report->parameter_norm);
    eitp__add_number(&list, "loss_scale", report->loss_scale);
    eitp__add_integer(&list, unit, report->items);
    eitp__add_named(&list, "", unit, "_per_s", run->seconds > 0 ? (double)report->items / run->seconds : 0);
    eitp__add_number(&list, "step_time_s", run->seconds);
    eitp__add_integer(&list, "rss_bytes", eitp__run_resident_bytes(&run->host));
    if (report->spike)
        eitp__add_text(&list, "spike",
                       report->spike == EITP_SPIKE_LOSS       ? "loss"
                       : report->spike == EITP_SPIKE_GRADIENT ? "grad_norm"
                                                              : "loss and grad_norm");
    eitp__add_boolean(&list, "applied", report->applied);
    eitp__record(run, EITP_RECORD_STEP, report->step, &list);
}

/* Adds the loss terms, if there are several, and the metrics. */
static void eitp__add_metrics(eitp__values *list, const eitp_evaluation *evaluation) {
    for (int i = evaluation->term_count > 1 ? 0 : evaluation->term_count; i < evaluation->metric_count; i++) {
        const eitp_metric *metric = &evaluation->metrics[i];
        const char *prefix = i < evaluation->term_count ? "val_loss_" : "val_";
        eitp__add_named(list, prefix, metric->name, "", metric->mean);
        eitp__add_named(list, prefix, metric->name, "_error", metric->error);
    }
}

static void eitp__record_evaluation(eitp_run *run) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    const char *unit = eitp__run_unit(run);
    eitp__values list;
    list.count = 0;
    eitp__add_number(&list, "val_loss", evaluation->loss);
    eitp__add_number(&list, "val_loss_error", evaluation->error);
    if (!strcmp(unit, EITP__TOKENS))
        eitp__add_number(&list, "val_perplexity", exp(evaluation->loss));
    eitp__add_metrics(&list, evaluation);
    eitp__name_value(&list, eitp__add_value(&list, "", EITP_VALUE_INTEGER), "val_", unit, "")->integer =
        evaluation->items;
    eitp__add_number(&list, "val_time_s", run->seconds);
    eitp__add_integer(&list, "rss_bytes", eitp__run_resident_bytes(&run->host));
    eitp__record(run, EITP_RECORD_EVALUATION, run->report.evaluated_step, &list);
}

EITP__PRIVATE void eitp__record_memory(eitp_run *run, int shrunk) {
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer);
    eitp__values list;
    list.count = 0;
    eitp__add_text(&list, "event", "memory_pressure");
    eitp__add_integer(&list, "left_bytes", (int64_t)run->report.memory.left);
    eitp__add_integer(&list, "arena_bytes",
                      (int64_t)eitp_context_arena_bytes(eitp__trainer_task(run->trainer)->context));
    eitp__add_integer(&list, "batch_size", shape.batch_size);
    eitp__add_integer(&list, "grad_accum", shape.grad_accum);
    eitp__add_integer(&list, "micro_batches_per_pass", shape.micro_batches_per_pass);
    eitp__add_boolean(&list, "shrunk", shrunk);
    eitp__record(run, EITP_RECORD_EVENT, eitp_trainer_steps_done(run->trainer), &list);
}

/* ---- Messages ---- */

static void eitp__notify_step(eitp_run *run) {
    const eitp_step_report *step = &run->report.step;
    char all[32] = "";
    if (run->report.steps)
        snprintf(all, sizeof all, "/%lld", (long long)run->report.steps);
    eitp__run_notify(run, EITP_EVENT_STEP, EITP_LOG_DEBUG, run->seconds,
                     "step %lld%s  loss %.4f  lr %.3g  norm %.3g  %.0f %s/s", (long long)step->step, all, step->loss,
                     step->learning_rate, step->grad_norm, run->seconds > 0 ? (double)step->items / run->seconds : 0,
                     eitp__run_unit(run));
}

/* ", accuracy 0.8264, macro_f1 0.8218": the first metrics that are not loss terms. */
static void eitp__describe_metrics(const eitp_evaluation *evaluation, char *text, size_t size) {
    enum { SHOWN = 2 };
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < SHOWN && evaluation->term_count + i < evaluation->metric_count && used < size; i++) {
        const eitp_metric *metric = &evaluation->metrics[evaluation->term_count + i];
        used += (size_t)snprintf(text + used, size - used, ", %s %.4f", metric->name, metric->mean);
    }
}

static void eitp__notify_evaluation(eitp_run *run) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    eitp_log_level level = isfinite(evaluation->loss) ? EITP_LOG_INFO : EITP_LOG_WARNING;
    char perplexity[40] = "", metrics[2 * (EITP_QUANTITY_NAME_SIZE + 24)];
    eitp__describe_metrics(evaluation, metrics, sizeof metrics);
    if (!strcmp(eitp__run_unit(run), EITP__TOKENS))
        snprintf(perplexity, sizeof perplexity, ", perplexity %.2f", exp(evaluation->loss));
    eitp__run_notify(run, EITP_EVENT_EVALUATION, level, run->seconds,
                     "validation after step %lld: loss %.4f (standard error %.4f)%s%s, %lld %s",
                     (long long)run->report.evaluated_step, evaluation->loss, evaluation->error, perplexity, metrics,
                     (long long)evaluation->items, eitp__run_unit(run));
}

/* ---- The observer ---- */

static eitp_status eitp__records_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__sinks *sinks = (eitp__sinks *)state;
    const int64_t done = run->report.start_step;
    int evaluated = 0;
    const eitp_status status = eitp__sinks_resume(run, run->checkpoint ? done : -1, &evaluated, error);
    sinks->recorded_step = run->report.evaluated_step = evaluated ? done : -1;
    return status;
}

static void eitp__records_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    (void)state, (void)decision;
    eitp__record_step(run);
    eitp__notify_step(run);
}

static void eitp__records_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    (void)decision;
    eitp__notify_evaluation(run);
    if (((const eitp__sinks *)state)->recorded_step != run->report.evaluated_step)
        eitp__record_evaluation(run);
}

/* Before the checkpoint: unless that fails, a checkpoint has no steps and evaluations that the sinks lack. */
static void eitp__records_before_save(eitp_run *run, void *state) {
    (void)state;
    eitp__sinks_sync(run);
    eitp__run_report_sinks(run);
}

/* Stores what failed before, if it can be stored now, and reports what is lost. */
static void eitp__records_end(eitp_run *run, void *state) {
    if (eitp__sinks_are_failing(run))
        eitp__records_before_save(run, state);
    eitp__run_report_lost(run);
}

EITP__PRIVATE void eitp__records_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__sinks);
    observer->begin = eitp__records_begin;
    observer->after_step = eitp__records_after_step;
    observer->after_evaluation = eitp__records_after_evaluation;
    observer->before_save = eitp__records_before_save;
    observer->end = eitp__records_end;
}
