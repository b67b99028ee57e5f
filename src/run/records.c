/* The records of steps, evaluations and the program's values. */
#include "base/machine.h"
#include "base/statistics.h"
#include "records/values.h"
#include "run/internal.h"
#include "run/sinks.h"
#include "train/evaluator.h"
#include "train/trainer.h"

/* ---- Steps ---- */

static void eitp__add_times(eitp__values *list, const eitp_step_times *times) {
    eitp__add_seconds(list, "", "data_s", times->data);
    eitp__add_seconds(list, "", "forward_s", times->forward);
    eitp__add_seconds(list, "", "backward_s", times->backward);
    eitp__add_seconds(list, "", "update_s", times->update);
    eitp__add_seconds(list, "", "transfer_s", times->transfer);
    eitp__add_seconds(list, "", "other_s", times->other);
}

/* Returns a ratio of norms, or 0 if there is nothing to compare with. */
static double eitp__norm_ratio(double update, double parameter) {
    return parameter > 0 ? update / parameter : 0;
}

/* Adds the norms of parameter groups, and the relative change of each by the update. */
static void eitp__add_groups(eitp_run *run, eitp__values *list) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    size_t count = 0;
    if (eitp_trainer_group_norms(run->trainer, sinks->groups, EITP__RECORDED_GROUPS, &count, NULL))
        return;
    for (size_t i = 0; i < count; i++) {
        const eitp_group_norms *group = &sinks->groups[i];
        eitp__add_named(list, "grad_norm/", group->name, "", group->grad_norm);
        eitp__add_named(list, "update_norm/", group->name, "", group->update_norm);
        eitp__add_named(list, "parameter_norm/", group->name, "", group->parameter_norm);
        eitp__add_named(list, "update_ratio/", group->name, "",
                        eitp__norm_ratio(group->update_norm, group->parameter_norm));
    }
}

static void eitp__add_activation(eitp__values *list, const char *name, const eitp_layer_activations *layer,
                                 double value) {
    if (value >= 0)
        eitp__add_named(list, name, layer->name, "", value);
}

/* Adds the activations of layers, if they were recorded in this step. */
static void eitp__add_activations(eitp_run *run, eitp__values *list) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    size_t count = 0;
    if (eitp_trainer_activations(run->trainer, sinks->layers, EITP__RECORDED_GROUPS, &count, NULL))
        return;
    for (size_t i = 0; i < count; i++) {
        const eitp_layer_activations *layer = &sinks->layers[i];
        eitp__add_activation(list, "activation_rms/", layer, layer->rms);
        eitp__add_activation(list, "attention_entropy/", layer, layer->attention_entropy);
        eitp__add_activation(list, "dead_units/", layer, layer->dead_units);
    }
}

/* True for steps with full records. */
static int eitp__step_is_full(const eitp_run *run, int64_t step) {
    const int64_t every = run->config.log_full_every;
    return run->config.monitor == EITP_MONITOR_FULL && every > 0 && step % every == 0;
}

/* Adds the gradient norm of each term and its share of their sum, if they were measured in this step. */
static void eitp__add_term_norms(eitp__values *list, const eitp_step_report *report) {
    double sum = 0;
    for (int i = 0; i < report->term_count; i++)
        sum += report->terms[i].grad_norm > 0 ? report->terms[i].grad_norm : 0;
    for (int i = 0; i < report->term_count; i++) {
        const eitp_term_report *term = &report->terms[i];
        if (!(term->grad_norm >= 0))
            continue;
        eitp__add_named(list, "grad_norm_", term->name, "", term->grad_norm);
        eitp__add_named(list, "grad_share_", term->name, "", sum > 0 ? term->grad_norm / sum : 0);
    }
}

/* Adds the gradient norms of the regularizers, if these are capped. */
static void eitp__add_cap(eitp__values *list, const eitp_step_report *report) {
    if (!(report->task_grad_norm > 0))
        return;
    eitp__add_number(list, "task_grad_norm", report->task_grad_norm);
    eitp__add_number(list, "regularizer_grad_norm", report->regularizer_grad_norm);
    eitp__add_number(list, "regularizer_scale", report->regularizer_scale);
}

/* The updates of learners. */
static void eitp__add_learners(eitp__values *list, const eitp_step_report *report) {
    for (int i = 0; i < report->learner_count; i++) {
        const eitp_learner_report *learner = &report->learners[i];
        eitp__add_named(list, "learner_lr/", learner->name, "", learner->learning_rate);
        eitp__add_named(list, "learner_grad_norm/", learner->name, "", learner->grad_norm);
        eitp__add_named(list, "learner_update_norm/", learner->name, "", learner->update_norm);
        eitp__add_named(list, "learner_parameter_norm/", learner->name, "", learner->parameter_norm);
        eitp__add_named_boolean(list, "learner_applied/", learner->name, learner->applied);
    }
}

static void eitp__record_step(eitp_run *run) {
    const eitp_step_report *report = &run->report.step;
    const char *unit = eitp__run_unit(run);
    eitp__values *list = eitp__record_begin(run);
    eitp__add_number(list, "loss", report->loss);
    for (int i = 0; i < report->term_count && report->term_count > 1; i++)
        eitp__add_named(list, "loss_", report->terms[i].name, "", report->terms[i].mean);
    eitp__add_number(list, "lr", report->learning_rate);
    eitp__add_number(list, "grad_norm", report->grad_norm);
    eitp__add_number(list, "update_norm", report->update_norm);
    eitp__add_number(list, "parameter_norm", report->parameter_norm);
    eitp__add_number(list, "loss_scale", report->loss_scale);
    eitp__add_integer(list, unit, report->items);
    eitp__add_named(list, "", unit, "_per_s", run->seconds > 0 ? (double)report->items / run->seconds : 0);
    eitp__add_number(list, "step_time_s", run->seconds);
    eitp__add_integer(list, "rss_bytes", (int64_t)eitp__resident_read(&run->host, NULL));
    if (report->spike)
        eitp__add_text(list, "spike",
                       report->spike == EITP_SPIKE_LOSS       ? "loss"
                       : report->spike == EITP_SPIKE_GRADIENT ? "grad_norm"
                                                              : "loss and grad_norm");
    eitp__add_boolean(list, "applied", report->applied);
    eitp__add_boolean(list, "clipped", report->clipped);
    if (run->trainer->controllers.kind != EITP_CONTROLLER_CONST) {
        for (int i = 1; i < report->term_count; i++)
            eitp__add_named(list, "weight_", report->terms[i].name, "", report->terms[i].weight);
    }
    eitp__add_term_norms(list, report);
    for (int i = 0; i < report->step_metric_count; i++)
        eitp__add_named(list, "metrics/", report->terms[report->term_count + i].name, "",
                        report->terms[report->term_count + i].mean);
    eitp__add_cap(list, report);
    eitp__add_learners(list, report);
    if (report->noise_scale >= 0)
        eitp__add_number(list, "gradient_noise_scale", report->noise_scale);
    if (report->noise_scale_unknown)
        eitp__add_text(list, "gradient_noise_scale_unknown", report->noise_scale_unknown);
    eitp__add_times(list, &report->times);
    if (eitp__step_is_full(run, report->step)) {
        eitp__add_number(list, "update_ratio", eitp__norm_ratio(report->update_norm, report->parameter_norm));
        eitp__add_groups(run, list);
        eitp__add_activations(run, list);
    }
    eitp__record(run, EITP_RECORD_STEP, report->step);
}

/* ---- Evaluations ---- */

/* Prefixes of the keys of evaluations and of spot evaluations. */
static const char eitp__evaluation_prefix[] = "val_", eitp__spot_prefix[] = "spot/";

static void eitp__add_loss(eitp__values *list, const char *prefix, const eitp_evaluation *evaluation) {
    eitp__add_named(list, prefix, "loss", "", evaluation->loss);
    eitp__add_named(list, prefix, "loss", "_error", evaluation->error);
}

/* Adds the loss terms, if there are several, and the metrics. */
static void eitp__add_metrics(eitp__values *list, const char *prefix, const eitp_evaluation *evaluation) {
    char term[24];
    snprintf(term, sizeof term, "%sloss_", prefix);
    for (int i = evaluation->term_count > 1 ? 0 : evaluation->term_count; i < evaluation->metric_count; i++) {
        const eitp_metric *metric = &evaluation->metrics[i];
        const char *begin = i < evaluation->term_count ? term : prefix;
        eitp__add_named(list, begin, metric->name, "", metric->mean);
        eitp__add_named(list, begin, metric->name, "_error", metric->error);
    }
}

static eitp__values *eitp__list_evaluation(eitp_run *run) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    const char *unit = eitp__run_unit(run);
    eitp__values *list = eitp__record_begin(run);
    eitp__add_loss(list, eitp__evaluation_prefix, evaluation);
    if (!strcmp(unit, EITP__TOKENS))
        eitp__add_number(list, "val_perplexity", exp(evaluation->loss));
    eitp__add_metrics(list, eitp__evaluation_prefix, evaluation);
    eitp__add_named_integer(list, eitp__evaluation_prefix, unit, evaluation->items);
    if (run->report.partial_samples)
        eitp__add_integer(list, "val_partial_samples", run->report.partial_samples);
    eitp__add_number(list, "val_time_s", run->seconds);
    return list;
}

static void eitp__record_evaluation(eitp_run *run) {
    eitp__values *list = eitp__list_evaluation(run);
    eitp__add_integer(list, "rss_bytes", (int64_t)eitp__resident_read(&run->host, NULL));
    eitp__record(run, EITP_RECORD_EVALUATION, run->report.evaluated_step);
}

/* Writes a record's values together with the descriptions of the evaluation by the task and the program (NULL:
   none). */
static void eitp__record_described(eitp_run *run, const eitp__values *list, int64_t step, const char *program) {
    const eitp_task *task = eitp__trainer_task(run->trainer);
    const char *objects[2];
    objects[0] = task->describe ? task->describe(task->user) : NULL;
    objects[1] = program;
    eitp__sinks_record_details(run, step, list->values, list->count, objects, 2);
    eitp__run_report_sinks(run);
}

static eitp__values *eitp__list_spot(eitp_run *run, const eitp_evaluation *evaluation) {
    const uint64_t samples =
        eitp__evaluation_size(eitp__trainer_task(run->trainer), EITP_VALIDATION, run->config.spot_samples);
    eitp__values *list = eitp__record_begin(run);
    eitp__add_loss(list, eitp__spot_prefix, evaluation);
    eitp__add_metrics(list, eitp__spot_prefix, evaluation);
    eitp__add_integer(list, "spot/samples", (int64_t)samples);
    eitp__add_number(list, "spot/time_s", run->seconds);
    return list;
}

/* ---- Values of the program ---- */

static void eitp__record_program_values(eitp_run *run) {
    eitp__program_values *program = &eitp__sinks_of(run)->program;
    eitp__values *list;
    if (!program->count)
        return;
    list = eitp__record_begin(run);
    for (size_t i = 0; i < program->count; i++)
        eitp__add_number(list, program->names[i], program->values[i]);
    program->count = 0;
    eitp__record(run, EITP_RECORD_PROGRAM, program->step);
}

static eitp_status eitp__check_value_name(const char *name, eitp_error *error) {
    static const char *const reserved[] = {"step", "time", "elapsed", "event"};
    const size_t size = strlen(name);
    if (!size || size >= EITP_VALUE_NAME_SIZE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the name of a value has %zu bytes (allowed: 1 to %d)", size,
                          EITP_VALUE_NAME_SIZE - 1);
    for (size_t i = 0; i < EITP__COUNT(reserved); i++) {
        if (!strcmp(name, reserved[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' is a member of every record; choose another name",
                              name);
    }
    return EITP_OK;
}

eitp_status eitp_run_record_value(eitp_run *run, const char *name, double value, eitp_error *error) {
    eitp__program_values *program;
    int64_t step;
    size_t at = 0;
    eitp_status status;
    if (!run || !name)
        return eitp__fail_null(error, "eitp_run_record_value", "run and name");
    if (!run->trainer || run->is_over)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the run is not training; record values while it trains");
    status = eitp__check_value_name(name, error);
    if (status || run->config.monitor == EITP_MONITOR_OFF)
        return status;
    program = &eitp__sinks_of(run)->program;
    step = eitp_trainer_steps_done(run->trainer);
    if (program->step != step)
        eitp__record_program_values(run);
    program->step = step;
    while (at < program->count && strcmp(program->names[at], name) != 0)
        at++;
    if (at == EITP_PROGRAM_VALUES)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "step %lld already has %d values of the program, the maximum",
                          (long long)step, EITP_PROGRAM_VALUES);
    if (at == program->count)
        snprintf(program->names[program->count++], EITP_VALUE_NAME_SIZE, "%s", name);
    program->values[at] = value;
    return EITP_OK;
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

/* Formats the first metrics that are not loss terms, such as ", accuracy 0.8264, macro_f1 0.8218". */
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
    char perplexity[40] = "", metrics[2 * (EITP_SCALAR_NAME_SIZE + 24)], spread[48] = "", part[80] = "";
    if (evaluation->error > 0)
        snprintf(spread, sizeof spread, " (standard error %.4f)", evaluation->error);
    if (run->report.partial_samples)
        snprintf(part, sizeof part, ", %lld of %llu samples", (long long)run->report.partial_samples,
                 (unsigned long long)eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION]);
    eitp__describe_metrics(evaluation, metrics, sizeof metrics);
    if (!strcmp(eitp__run_unit(run), EITP__TOKENS))
        snprintf(perplexity, sizeof perplexity, ", perplexity %.2f", exp(evaluation->loss));
    eitp__run_notify(run, EITP_EVENT_EVALUATION, level, run->seconds,
                     "validation after step %lld: loss %.4f%s%s%s, %lld %s%s", (long long)run->report.evaluated_step,
                     evaluation->loss, spread, perplexity, metrics, (long long)evaluation->items, eitp__run_unit(run),
                     part);
}

/* ---- The observer ---- */

static eitp_status eitp__records_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__sinks *sinks = (eitp__sinks *)state;
    const int64_t done = run->report.start_step;
    /* The trainer of a watch is resumed by the program, if at all. */
    const int continues = run->writes_checkpoints ? run->checkpoint != NULL : done > 0;
    int evaluated = 0;
    const eitp_status status = eitp__sinks_resume(run, continues ? done : -1, &evaluated, error);
    sinks->recorded_step = run->report.evaluated_step = evaluated & EITP__RECORDED_EVALUATION ? done : -1;
    sinks->spot_step = evaluated & EITP__RECORDED_SPOT ? done : -1;
    return status;
}

/* If there is not enough memory for them, records lack the activations. */
static eitp_status eitp__records_before_step(eitp_run *run, void *state, eitp_error *error) {
    (void)state, (void)error;
    if (eitp__step_is_full(run, eitp_trainer_steps_done(run->trainer) + 1))
        eitp_trainer_watch_activations(run->trainer, NULL);
    return EITP_OK;
}

static void eitp__records_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    (void)state, (void)decision;
    eitp__record_program_values(run);
    if (run->config.monitor != EITP_MONITOR_OFF)
        eitp__record_step(run);
    eitp__notify_step(run);
}

static void eitp__records_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    (void)decision;
    eitp__notify_evaluation(run);
    if (((const eitp__sinks *)state)->recorded_step != run->report.evaluated_step)
        eitp__record_evaluation(run);
    if (eitp__sinks_take_details(run) && ((const eitp__sinks *)state)->detailed_step != run->report.evaluated_step)
        eitp__record_described(run, eitp__list_evaluation(run), run->report.evaluated_step, run->described);
}

/* A spot evaluation that the checkpoint lacks, because memory was short, may already be recorded. */
static void eitp__records_after_spot(eitp_run *run, void *state, const eitp_evaluation *evaluation) {
    const eitp__sinks *sinks = (const eitp__sinks *)state;
    const int64_t step = eitp_trainer_steps_done(run->trainer);
    if (sinks->spot_step != step) {
        eitp__list_spot(run, evaluation);
        eitp__record(run, EITP_RECORD_SPOT, step);
    }
    if (eitp__sinks_take_details(run) && sinks->detailed_spot_step != step)
        eitp__record_described(run, eitp__list_spot(run, evaluation), step, NULL);
}

/* Called before the checkpoint, so that unless this fails it has no steps and evaluations that the sinks lack. */
static void eitp__records_before_save(eitp_run *run, void *state) {
    (void)state;
    eitp__record_program_values(run);
    eitp__sinks_sync(run);
    eitp__run_report_sinks(run);
}

/* Stores queued records, retries failed ones, and reports any that are lost. */
static void eitp__records_end(eitp_run *run, void *state) {
    (void)state;
    eitp__record_program_values(run);
    eitp__sinks_finish(run);
    eitp__run_report_sinks(run);
    eitp__run_report_lost(run);
}

EITP__PRIVATE void eitp__records_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__sinks);
    observer->cost = EITP_RUN_COST_RECORDS;
    observer->begin = eitp__records_begin;
    observer->before_step = eitp__records_before_step;
    observer->after_step = eitp__records_after_step;
    observer->after_evaluation = eitp__records_after_evaluation;
    observer->after_spot = eitp__records_after_spot;
    observer->before_save = eitp__records_before_save;
    observer->end = eitp__records_end;
    observer->close = eitp__sinks_close;
}

/* ---- Rolling statistics ---- */

/* Calls ENTRY(name in records, value of a step report) for each scalar. */
#define EITP__ROLLING_SCALARS(ENTRY)                                                                                   \
    ENTRY("loss", step->loss)                                                                                          \
    ENTRY("grad_norm", step->grad_norm)                                                                                \
    ENTRY("update_ratio", eitp__norm_ratio(step->update_norm, step->parameter_norm))                                   \
    ENTRY("step_time_s", step->times.total)

#define EITP__ROLLING_NAME(name, value) name,
static const char *const eitp__rolling_names[] = {EITP__ROLLING_SCALARS(EITP__ROLLING_NAME)};
enum { EITP__ROLLING_COUNT = EITP__COUNT(eitp__rolling_names) };

/* True if they are due. They may be enabled while the run trains, and then include the steps before. */
static int eitp__rolling_is_due(const eitp_run *run, int64_t step) {
    const int64_t every = run->config.metrics_every;
    return run->config.monitor == EITP_MONITOR_FULL && every > 0 && step % every == 0;
}

/* Adds "window/loss_mean" and the other statistics of a scalar. */
static void eitp__add_rolling(eitp__values *list, const char *name, const eitp__rolling *rolling) {
    const eitp__rolling_summary summary = eitp__rolling_summarize(rolling);
    char prefix[48];
    snprintf(prefix, sizeof prefix, "window/%s_", name);
    eitp__add_named(list, prefix, "mean", "", summary.mean);
    eitp__add_named(list, prefix, "deviation", "", summary.deviation);
    eitp__add_named(list, prefix, "median", "", summary.median);
    eitp__add_named(list, prefix, "median_deviation", "", summary.median_deviation);
    eitp__add_named(list, prefix, "minimum", "", summary.minimum);
    eitp__add_named(list, prefix, "maximum", "", summary.maximum);
    eitp__add_named(list, prefix, "slope", "", summary.slope);
}

static void eitp__rolling_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__rolling *scalars = (eitp__rolling *)state;
    const eitp_step_report *step = &run->report.step;
#define EITP__ROLLING_VALUE(name, value) value,
    const double values[] = {EITP__ROLLING_SCALARS(EITP__ROLLING_VALUE)};
    eitp__values *list;
    (void)decision;
    for (size_t i = 0; i < EITP__ROLLING_COUNT; i++)
        eitp__rolling_add(&scalars[i], (size_t)run->config.metrics_window, values[i]);
    if (!eitp__rolling_is_due(run, step->step))
        return;
    list = eitp__record_begin(run);
    eitp__add_integer(list, "window/steps", (int64_t)scalars[0].count);
    for (size_t i = 0; i < EITP__ROLLING_COUNT; i++)
        eitp__add_rolling(list, eitp__rolling_names[i], &scalars[i]);
    eitp__record(run, EITP_RECORD_ROLLING, step->step);
}

EITP__PRIVATE void eitp__rolling_observer(eitp__observer *observer) {
    observer->state_size = EITP__ROLLING_COUNT * sizeof(eitp__rolling);
    observer->cost = EITP_RUN_COST_RECORDS;
    observer->after_step = eitp__rolling_after_step;
}
