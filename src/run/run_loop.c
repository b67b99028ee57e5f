#include "run/run_loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "io/checkpoint.h"
#include "run/events.h"
#include "run/records.h"
#include "run/run_directory.h"
#include "train/trainer.h"

/* ---- Metrics ---- */

static int eitp__run_validates(const eitp_run *run) {
    return run->trainer->plans.task.samples[EITP_VALIDATION] > 0;
}

/* The metric that decides about the best checkpoint and early stopping. */
static const char *eitp__run_metric_name(const eitp_run *run) {
    return run->keep_best ? run->keep_best : "loss";
}

/* The value of a loss term or metric; for "loss", and unknown names, that of the loss. */
static double eitp__metric_value(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count && strcmp(name, "loss"); i++) {
        if (!strcmp(name, evaluation->metrics[i].name))
            return evaluation->metrics[i].mean;
    }
    return evaluation->loss;
}

/* ---- Events ---- */

static void eitp__notify_step(eitp_run *run, double seconds) {
    const eitp_step_report *step = &run->report.step;
    char all[32] = "";
    if (run->report.steps)
        snprintf(all, sizeof all, "/%lld", (long long)run->report.steps);
    eitp__run_notify(run, EITP_EVENT_STEP, EITP_LOG_DEBUG, seconds,
                     "step %lld%s  loss %.4f  lr %.3g  norm %.3g  %.0f %s/s", (long long)step->step, all, step->loss,
                     step->learning_rate, step->grad_norm, seconds > 0 ? (double)step->items / seconds : 0,
                     eitp__run_unit(run));
}

static void eitp__notify_evaluation(eitp_run *run, double seconds) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    eitp_log_level level = isfinite(evaluation->loss) ? EITP_LOG_INFO : EITP_LOG_WARNING;
    char perplexity[40] = "";
    if (!strcmp(eitp__run_unit(run), EITP__TOKENS))
        snprintf(perplexity, sizeof perplexity, ", perplexity %.2f", exp(evaluation->loss));
    eitp__run_notify(run, EITP_EVENT_EVALUATION, level, seconds,
                     "validation after step %lld: loss %.4f (standard error %.4f)%s, %lld %s",
                     (long long)run->report.evaluated_step, evaluation->loss, evaluation->error, perplexity,
                     (long long)evaluation->items, eitp__run_unit(run));
}

/* ---- Saving ---- */

static eitp_status eitp__run_prune(eitp_run *run, eitp_error *error) {
    return eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit,
                                  run->keep_best ? run->best.now.step : -1, error);
}

static eitp_status eitp__run_write_best(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__best_write(&run->best, &run->host, run->directory, eitp__run_metric_name(run), error);
    run->best_is_behind = status != EITP_OK;
    return status;
}

static eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    double began = eitp__clock();
    /* Records are synced first: a checkpoint has no steps that they lack, and no evaluations that best.json lacks. */
    eitp_status status = eitp__records_sync(run, error);
    run->save = 0;
    run->cannot_save = 1;
    if (!status && run->best_is_behind)
        status = eitp__run_write_best(run, error);
    if (!status)
        status = eitp_trainer_save(run->trainer, run->directory, error);
    if (status)
        return status;
    run->cannot_save = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    run->saved_at = eitp__clock();
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - began, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, run->saved_at - began);
    return eitp__run_prune(run, error);
}

/* ---- Evaluation, best checkpoint, early stopping ---- */

static int eitp__run_follows_best(const eitp_run *run) {
    return run->keep_best || run->config.patience > 0;
}

static void eitp__run_update_best(eitp_run *run) {
    run->report.best_step = run->best.now.step;
    run->report.best_value = run->best.now.value;
    run->stops_early = run->config.patience > 0 && run->best.now.since >= run->config.patience;
}

/* Adds the last evaluation to those of best.json; returns 1 if it is the best. */
static int eitp__run_add_best(eitp_run *run) {
    const double value = eitp__metric_value(&run->report.evaluation, eitp__run_metric_name(run));
    const int is_best = eitp__best_add(&run->best, run->report.evaluated_step, value);
    eitp__run_update_best(run);
    run->best_is_behind = 1;
    return is_best;
}

/* best.json is written before the checkpoint, so that it has all evaluations up to the step of any checkpoint. */
static eitp_status eitp__run_follow_best(eitp_run *run, eitp_error *error) {
    const int64_t step = run->report.evaluated_step;
    const int is_best = eitp__run_add_best(run);
    eitp_status status = eitp__run_write_best(run, error);
    if (status || !run->keep_best || !is_best)
        return status;
    return run->report.saved_step == step ? eitp__run_prune(run, error) : eitp__run_save(run, error);
}

/* Validation samples of an evaluation; 0: all. */
static int64_t eitp__run_eval_samples(const eitp_run *run) {
    const double samples = (double)run->trainer->plans.task.samples[EITP_VALIDATION];
    return run->config.eval_fraction > 0 ? (int64_t)ceil(run->config.eval_fraction * samples)
                                         : run->config.eval_samples;
}

static eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error) {
    double seconds, began = eitp__clock();
    eitp_status status =
        eitp_trainer_evaluate(run->trainer, eitp__run_eval_samples(run), &run->report.evaluation, error);
    if (status)
        return status;
    seconds = eitp__clock() - began;
    run->report.evaluated_step = eitp_trainer_steps_done(run->trainer);
    run->report.evaluations++;
    eitp__notify_evaluation(run, seconds);
    status = eitp__record_evaluation(run, seconds, error);
    if (!eitp__run_follows_best(run) || run->report.evaluated_step == 0)
        return status;
    if (!status)
        return eitp__run_follow_best(run, error);
    eitp__run_add_best(run);
    return status;
}

/* ---- A step ---- */

static eitp_status eitp__run_check_finite(eitp_run *run, eitp_error *error) {
    const eitp_step_report *step = &run->report.step;
    if (step->applied) {
        run->nonfinite = 0;
        return EITP_OK;
    }
    /* With a loss scale above 1 the trainer reports it, and tries a smaller scale in the next step. */
    if (step->loss_scale > 1)
        return EITP_OK;
    run->nonfinite++;
    eitp__run_notify(run, EITP_EVENT_SKIPPED_STEP, EITP_LOG_WARNING, 0, "step %lld skipped: the gradient is not finite",
                     (long long)step->step);
    if (run->nonfinite < run->config.max_nonfinite)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_NOT_FINITE,
                      "%lld steps in a row were skipped because the gradient is not finite; stopped after step %lld; "
                      "lower the learning rate, or resume from an earlier checkpoint",
                      (long long)run->nonfinite, (long long)step->step);
}

static int eitp__is_due(int64_t interval, int64_t step) {
    return interval > 0 && step % interval == 0;
}

/* True if a multiple of `epochs` ends in this step, and for step 0, before the first. */
static int eitp__epochs_are_due(const eitp_run *run, double epochs, int64_t step) {
    const eitp__step_plans *plans = &run->trainer->plans;
    const double samples = (double)plans->config.batch_size * (double)plans->config.grad_accum;
    const double parts = samples / (double)plans->task.samples[EITP_TRAINING] / epochs;
    /* 10 steps of 0.1 epochs are 1, however they are rounded. */
    const double rounding = 1e-9;
    if (!(epochs > 0))
        return 0;
    return step == 0 || floor((double)step * parts + rounding) > floor((double)(step - 1) * parts + rounding);
}

static int eitp__evaluation_is_due(const eitp_run *run, int64_t step) {
    return eitp__is_due(run->config.eval_steps, step) || eitp__epochs_are_due(run, run->config.eval_epochs, step);
}

static int eitp__save_is_due(const eitp_run *run, int64_t step) {
    const eitp_run_config *config = &run->config;
    if (run->report.saved_step == step)
        return 0;
    return run->save || eitp__is_due(config->save_steps, step) ||
           eitp__epochs_are_due(run, config->save_epochs, step) ||
           (config->save_seconds > 0 && eitp__clock() - run->saved_at >= config->save_seconds);
}

static eitp_status eitp__run_step(eitp_run *run, eitp_error *error) {
    double seconds, began = eitp__clock();
    eitp_run_report *report = &run->report;
    eitp_status status = eitp_trainer_step(run->trainer, &report->step, error);
    if (status)
        return status;
    seconds = eitp__clock() - began;
    report->items += report->step.items;
    report->seconds += seconds;
    status = eitp__record_step(run, seconds, error);
    eitp__notify_step(run, seconds);
    if (!status)
        status = eitp__run_check_finite(run, error);
    if (!status && eitp__run_validates(run) && eitp__evaluation_is_due(run, report->step.step))
        status = eitp__run_evaluate(run, error);
    if (!status && eitp__save_is_due(run, report->step.step))
        status = eitp__run_save(run, error);
    return status;
}

/* ---- Start ---- */

static eitp_status eitp__run_check_config(const eitp_run *run, eitp_error *error) {
    const eitp_run_config *config = &run->config;
    if (eitp__run_follows_best(run) && !eitp__run_validates(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best and patience need validation data, but the task has none");
    if (run->keep_best && !eitp_trainer_has_metric(run->trainer, run->keep_best))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown metric '%s' (choose from loss and the task's loss terms and metrics)",
                          run->keep_best);
    if (config->patience > 0 && config->eval_steps <= 0 && !(config->eval_epochs > 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "patience needs evaluations between steps; set eval_steps or eval_epochs");
    return EITP_OK;
}

/* Resumes the trainer, unless it is at the checkpoint's step: then the program has resumed it. */
static eitp_status eitp__run_resume_trainer(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    if (!run->checkpoint || (done > 0 && done == run->checkpoint_step && !eitp_trainer_is_torn(run->trainer)))
        return EITP_OK;
    return eitp_trainer_resume(run->trainer, run->checkpoint, error);
}

/* Restores the evaluations up to the checkpoint. Later ones will be repeated, and are removed from the file. */
static eitp_status eitp__run_resume_best(eitp_run *run, eitp_error *error) {
    eitp_status status;
    char *parent;
    eitp__best_init(&run->best, run->config.higher_is_better);
    if (!run->checkpoint)
        return eitp__best_remove(&run->host, run->directory, error); /* it belongs to an older run */
    if (!eitp__run_follows_best(run))
        return EITP_OK;
    parent = eitp__parent_path(&run->host, run->checkpoint);
    if (!parent)
        return eitp__fail_memory(error, strlen(run->checkpoint), "a path");
    status = eitp__best_read(&run->best, &run->host, parent, eitp__run_metric_name(run), run->checkpoint_step, error);
    eitp__release_text(&run->host, parent);
    if (!status)
        status = eitp__run_write_best(run, error);
    eitp__run_update_best(run);
    return status;
}

static int64_t eitp__run_last_step(const eitp_run *run) {
    return run->report.steps ? run->report.steps : INT64_MAX;
}

/* Evaluates before step 1; in a resumed run, only if the checkpoint's evaluation is due and not in the records. */
static eitp_status eitp__run_begin(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    int evaluated = 0;
    int64_t done;
    eitp_status status = eitp__run_resume_trainer(run, error);
    done = eitp_trainer_steps_done(run->trainer);
    report->start_step = report->steps_done = done;
    report->saved_step = run->checkpoint ? done : -1;
    run->saved_at = eitp__clock();
    if (!status)
        status = eitp__run_check_config(run, error);
    if (!status)
        status = eitp__records_resume(run, run->checkpoint ? done : -1, &evaluated, error);
    if (!status)
        status = eitp__run_resume_best(run, error);
    report->evaluated_step = evaluated ? done : -1;
    if (!status && eitp__run_validates(run) && !evaluated && done < eitp__run_last_step(run) &&
        eitp__evaluation_is_due(run, done))
        status = eitp__run_evaluate(run, error);
    return status;
}

/* ---- The loop and its end ---- */

static eitp_status eitp__run_all_steps(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    eitp_status status = eitp__run_begin(run, error);
    while (!status && !run->stop && !run->stops_early &&
           eitp_trainer_steps_done(run->trainer) < eitp__run_last_step(run)) {
        status = eitp__guard_check(run, error);
        if (!status)
            status = eitp__run_step(run, error);
    }
    if (status == EITP_END_OF_DATA) {
        report->end = EITP_RUN_END_OF_DATA;
        report->steps = eitp_trainer_steps_done(run->trainer);
        eitp__run_notify(run, EITP_EVENT_END_OF_DATA, EITP_LOG_INFO, 0, "%s", error->message);
        status = EITP_OK;
    }
    if (!status && !run->stop && eitp__run_validates(run) && report->evaluated_step != report->steps &&
        eitp_trainer_steps_done(run->trainer) == report->steps)
        status = eitp__run_evaluate(run, error);
    return status;
}

static eitp_run_end eitp__run_end_of(const eitp_run *run, eitp_status status) {
    if (status)
        return status == EITP_ERROR_NOT_FINITE ? EITP_RUN_NOT_FINITE
               : status == EITP_ERROR_PRESSURE ? EITP_RUN_MEMORY_PRESSURE
                                               : EITP_RUN_FAILED;
    if (run->stop)
        return EITP_RUN_STOPPED;
    if (run->report.end == EITP_RUN_END_OF_DATA)
        return EITP_RUN_END_OF_DATA;
    return run->stops_early ? EITP_RUN_EARLY_STOP : EITP_RUN_FINISHED;
}

/* Saves the steps before a failure: the failed step has changed nothing. */
static eitp_status eitp__run_finish_failed(eitp_run *run, eitp_status status, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_error second;
    eitp__fail(&second, EITP_ERROR_IO, "no checkpoint could be written");
    if (eitp_trainer_is_torn(run->trainer))
        return status;
    if (run->report.saved_step != done && done > run->report.start_step && !run->cannot_save)
        eitp__run_save(run, &second);
    if ((status != EITP_ERROR_NOT_FINITE && status != EITP_ERROR_PRESSURE) || run->report.saved_step == done)
        return status;
    /* These errors promise a checkpoint. */
    eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_ERROR, 0, "%s", error->message);
    *error = second;
    return second.status;
}

static void eitp__notify_early_stop(eitp_run *run) {
    const eitp__best_state *best = &run->best.now;
    char found[80] = "no finite value so far";
    if (best->step >= 0)
        snprintf(found, sizeof found, "best %.6g at step %lld", best->value, (long long)best->step);
    eitp__run_notify(run, EITP_EVENT_EARLY_STOP, EITP_LOG_INFO, 0,
                     "early stop: no improvement of the validation %s in %lld evaluations (%s)",
                     eitp__run_metric_name(run), (long long)best->since, found);
}

static void eitp__notify_nothing(eitp_run *run) {
    const long long done = (long long)run->report.saved_step, steps = (long long)run->report.steps;
    eitp__run_notify(run, EITP_EVENT_NOTHING_TO_DO, EITP_LOG_INFO, 0,
                     done > steps && steps ? "nothing to do: step %lld is done, %lld steps were requested"
                                           : "nothing to do: step %lld of %lld is done",
                     done, steps);
}

EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    eitp_status status = eitp__run_all_steps(run, error);
    report->end = eitp__run_end_of(run, status);
    report->stop_reason = (int)run->stop_reason;
    if (report->end == EITP_RUN_EARLY_STOP)
        eitp__notify_early_stop(run);
    if (status) {
        status = eitp__run_finish_failed(run, status, error);
    } else if (report->saved_step != eitp_trainer_steps_done(run->trainer)) {
        status = eitp__run_save(run, error);
    } else if (report->start_step == report->saved_step) {
        eitp__notify_nothing(run);
    }
    if (status && status != EITP_ERROR_NOT_FINITE && status != EITP_ERROR_PRESSURE)
        report->end = EITP_RUN_FAILED;
    report->steps_done = eitp_trainer_steps_done(run->trainer);
    return status;
}
