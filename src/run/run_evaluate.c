/* Evaluation during a run, its best checkpoint, and early stopping. */
#include "run/run_evaluate.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/events.h"
#include "run/records.h"
#include "run/run_best.h"
#include "run/run_directory.h"
#include "run/run_health.h"
#include "run/run_restore.h"
#include "run/async_save.h"
#include "run/run_prune.h"
#include "run/run_save.h"
#include "run/run_state.h"
#include "train/trainer.h"

EITP__PRIVATE int eitp__run_validates(const eitp_run *run) {
    return eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION] > 0;
}

/* The value of a loss term or metric; for "loss", and unknown names, that of the loss. */
static double eitp__metric_value(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count && strcmp(name, "loss"); i++) {
        if (!strcmp(name, evaluation->metrics[i].name))
            return evaluation->metrics[i].mean;
    }
    return evaluation->loss;
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

static void eitp__notify_evaluation(eitp_run *run, double seconds) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    eitp_log_level level = isfinite(evaluation->loss) ? EITP_LOG_INFO : EITP_LOG_WARNING;
    char perplexity[40] = "", metrics[2 * (EITP_QUANTITY_NAME_SIZE + 24)];
    eitp__describe_metrics(evaluation, metrics, sizeof metrics);
    if (!strcmp(eitp__run_unit(run), EITP__TOKENS))
        snprintf(perplexity, sizeof perplexity, ", perplexity %.2f", exp(evaluation->loss));
    eitp__run_notify(run, EITP_EVENT_EVALUATION, level, seconds,
                     "validation after step %lld: loss %.4f (standard error %.4f)%s%s, %lld %s",
                     (long long)run->report.evaluated_step, evaluation->loss, evaluation->error, perplexity, metrics,
                     (long long)evaluation->items, eitp__run_unit(run));
}

/* Adds the last evaluation to those that decide. That of a model that may not be saved never is the best. */
static double eitp__run_add_best(eitp_run *run) {
    const double metric = eitp__metric_value(&run->report.evaluation, eitp__run_metric_name(run));
    const double value = run->keep_best && !eitp__health_is_good(run) ? (double)NAN : metric;
    eitp__best_add(&run->best, run->report.evaluated_step, value);
    eitp__run_report_best(run);
    run->best_is_behind = 1;
    return value;
}

/* An evaluation that is second to one whose checkpoint is being written is the best if that fails. */
static void eitp__run_await_best(eitp_run *run, double value) {
    const eitp__best *best = &run->best;
    if (run->keep_best && best->now.step != run->report.evaluated_step && best->now.step != best->saved.step &&
        eitp__best_is_better(best, value, best->saved.value))
        eitp__async_save_finish(run);
}

static eitp_status eitp__run_follow_best(eitp_run *run, eitp_error *error) {
    const int64_t step = run->report.evaluated_step;
    eitp_status status;
    eitp__run_await_best(run, eitp__run_add_best(run));
    status = eitp__run_restore_directory(run, error);
    if (!status)
        eitp__run_write_best(run);
    if (status || !run->keep_best || run->best.now.step != step)
        return status;
    if (!eitp__run_has_saved(run, step) || run->saved_early) {
        run->saved_early = 0;
        return eitp__run_save(run, error);
    }
    if (run->report.saved_step == step)
        eitp__run_confirm_best(run, step);
    eitp__run_prune(run);
    return EITP_OK;
}

/* Validation samples of an evaluation; 0: all. */
static int64_t eitp__run_eval_samples(const eitp_run *run) {
    const double samples = (double)eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION];
    return run->config.eval_fraction > 0 ? (int64_t)ceil(run->config.eval_fraction * samples)
                                         : run->config.eval_samples;
}

EITP__PRIVATE eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error) {
    double seconds, began = eitp__clock();
    eitp_status status =
        eitp_trainer_evaluate(run->trainer, eitp__run_eval_samples(run), &run->report.evaluation, error);
    if (status)
        return status;
    seconds = eitp__clock() - began;
    run->report.evaluated_step = eitp_trainer_steps_done(run->trainer);
    run->report.evaluations++;
    eitp__notify_evaluation(run, seconds);
    if (run->recorded_step != run->report.evaluated_step)
        eitp__record_evaluation(run, seconds);
    if (!eitp__run_follows_best(run) || run->report.evaluated_step == 0)
        return EITP_OK;
    return eitp__run_follow_best(run, error);
}

static int eitp__run_prefers_higher(const eitp_run *run) {
    return eitp_trainer_metric_direction(run->trainer, eitp__run_metric_name(run)) == EITP_HIGHER_IS_BETTER;
}

/* Reads the best.json next to a checkpoint that has no state of a run. A damaged one is ignored. */
static eitp_status eitp__run_read_best(eitp_run *run, eitp_error *error) {
    char *parent = eitp__parent_directory(&run->host, run->checkpoint);
    eitp_status status = parent ? EITP_OK : eitp__fail_memory(error, strlen(run->checkpoint), "a path");
    if (!status)
        status =
            eitp__best_read(&run->best, &run->host, parent, eitp__run_metric_name(run), run->checkpoint_step, error);
    if (status == EITP_ERROR_FORMAT) {
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the evaluations before step %lld do not count for the best or for stopping early",
                         error->message, (long long)run->checkpoint_step + 1);
        eitp__best_init(&run->best, eitp__run_prefers_higher(run));
        status = EITP_OK;
    }
    eitp__release_text(&run->host, parent);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_resume_state(eitp_run *run, eitp_error *error) {
    int found;
    eitp_status status;
    eitp__best_init(&run->best, eitp__run_prefers_higher(run));
    if (!run->checkpoint)
        return eitp__best_remove(&run->host, run->directory, error); /* it belongs to an older run */
    status = eitp__run_state_read(run, &found, error);
    if (status || !eitp__run_follows_best(run))
        return status;
    if (!found)
        status = eitp__run_read_best(run, error);
    eitp__run_report_best(run);
    if (status)
        return status;
    eitp__run_check_best(run, -1);
    eitp__run_write_best(run);
    return EITP_OK;
}
