#include "run/loop.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/directory.h"
#include "run/internal.h"
#include "run/save.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* ---- Polling ---- */

/* True if an observer must act before the computation continues. */
static int eitp__run_is_interrupted(eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, poll) {
        if (run->observers[i].poll(run, run->states[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE int eitp__run_poll(void *user) {
    eitp_run *run = (eitp_run *)user;
    if (run->report.work == EITP_RUN_EVALUATES)
        eitp__trainer_evaluation_progress(run->trainer, &run->report.evaluating, &run->report.evaluating_all);
    return run->stop || eitp__run_is_interrupted(run);
}

EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run) {
    eitp_context *context = eitp__trainer_task(run->trainer)->context;
    run->program_poll = context->poll;
    eitp_context_set_poll(context, eitp__run_poll, run);
}

EITP__PRIVATE void eitp__run_end_polling(eitp_run *run) {
    eitp_context_set_poll(eitp__trainer_task(run->trainer)->context, run->program_poll.ask, run->program_poll.user);
}

/* ---- Steps ---- */

EITP__PRIVATE eitp_status eitp__run_begin_observers(eitp_run *run, eitp_error *error) {
    eitp_status status = EITP_OK;
    EITP__EACH_OBSERVER (run, i, begin) {
        if (!status)
            status = run->observers[i].begin(run, run->states[i], error);
    }
    return status ? status : eitp__run_decided(run, error);
}

static eitp_status eitp__run_tell_before_step(eitp_run *run, eitp_error *error) {
    eitp_status status = EITP_OK;
    EITP__EACH_OBSERVER (run, i, before_step) {
        if (!status)
            status = run->observers[i].before_step(run, run->states[i], error);
    }
    return status;
}

/* Waits a second, in slices, so that a request to stop ends it early. */
static void eitp__run_rest(const eitp_run *run) {
    const int slices = 10;
    for (int i = 0; i < slices && !run->stop; i++)
        eitp__wait(&run->host, 1.0 / slices);
}

EITP__PRIVATE eitp_status eitp__run_before_step(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_tell_before_step(run, error);
    while (!status && !run->stop && eitp__run_is_held(run)) {
        run->report.work = EITP_RUN_PAUSES;
        eitp__run_rest(run);
        status = eitp__run_tell_before_step(run, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_repeat(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                           eitp_error *error) {
    eitp_status status = work(run, error);
    while (status == EITP_ERROR_INTERRUPTED && !run->stop && eitp__run_is_interrupted(run)) {
        status = eitp__run_before_step(run, error);
        if (!status)
            status = work(run, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_make_step(eitp_run *run, eitp_error *error) {
    const double began = eitp__clock();
    eitp_run_report *report = &run->report;
    eitp_status status;
    report->work = EITP_RUN_STEPS;
    status = eitp_trainer_step(run->trainer, &report->step, error);
    if (status)
        return status;
    run->saves.is_early = 0;
    run->seconds = eitp__clock() - began;
    report->items += report->step.items;
    report->seconds += run->seconds;
    memset(&run->decision, 0, sizeof run->decision);
    EITP__EACH_OBSERVER (run, i, after_step) {
        run->observers[i].after_step(run, run->states[i], &run->decision);
    }
    return EITP_OK;
}

/* ---- Evaluations ---- */

/* Number of samples of the evaluation before step 1: enough to tell trained weights from random ones. */
enum { EITP__FIRST_SAMPLES = 64 };

/* Returns the number of samples of an evaluation that uses only a part while later ones use all, because no number was
   configured; else 0. */
static int64_t eitp__run_partial_samples(const eitp_run *run) {
    const int is_open = !run->config.eval_samples && !(run->config.eval_fraction > 0);
    const int is_first = run->writes_checkpoints && !eitp_trainer_steps_done(run->trainer);
    return is_open && is_first &&
                   eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION] > (uint64_t)EITP__FIRST_SAMPLES
               ? EITP__FIRST_SAMPLES
               : 0;
}

/* Returns the number of validation samples of an evaluation; 0: all. */
static int64_t eitp__run_eval_samples(const eitp_run *run) {
    const double samples = (double)eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION];
    if (run->config.eval_fraction > 0)
        return (int64_t)ceil(run->config.eval_fraction * samples);
    return run->config.eval_samples ? run->config.eval_samples : eitp__run_partial_samples(run);
}

/* Saves a model to keep with its evaluation, unless its checkpoint already includes the evaluation. */
static eitp_status eitp__save_evaluated(eitp_run *run, eitp_error *error) {
    if (!run->decision.saves)
        return EITP_OK;
    if (eitp__run_has_saved(run, run->report.evaluated_step) && !run->saves.is_early) {
        eitp__run_checkpoints_changed(run);
        return EITP_OK;
    }
    run->saves.is_early = 0;
    return eitp__run_save(run, error);
}

/* Lets the program describe the model. A failure does not end the run. */
static eitp_status eitp__run_describe(eitp_run *run, eitp_error *error) {
    const char *text = NULL;
    eitp_error why = EITP__ZERO;
    eitp_status status;
    run->described = NULL;
    if (!run->config.describe || !eitp__sinks_take_details(run))
        return EITP_OK;
    status = run->config.describe(run->config.describe_user, &text, &why);
    if (status == EITP_ERROR_INTERRUPTED)
        *error = why;
    else if (status)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "the evaluation after step %lld is recorded without a description of the model: %s",
                         (long long)eitp_trainer_steps_done(run->trainer), why.message);
    else
        run->described = text;
    return status == EITP_ERROR_INTERRUPTED ? status : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__run_make_evaluation(eitp_run *run, eitp_error *error) {
    const double began = eitp__clock();
    eitp_status status;
    run->report.work = EITP_RUN_EVALUATES;
    run->report.partial_samples = eitp__run_partial_samples(run);
    status = eitp_trainer_evaluate(run->trainer, eitp__run_eval_samples(run), &run->report.evaluation, error);
    run->report.evaluating = run->report.evaluating_all = 0;
    if (!status)
        status = eitp__run_describe(run, error);
    if (status)
        return status;
    run->seconds = eitp__clock() - began;
    run->report.evaluated_step = eitp_trainer_steps_done(run->trainer);
    run->report.evaluations++;
    run->decision.saves = 0;
    EITP__EACH_OBSERVER (run, i, after_evaluation) {
        run->observers[i].after_evaluation(run, run->states[i], &run->decision);
    }
    return EITP_OK;
}

/* Evaluates, notifies the trainer, and saves if an observer votes for it. */
static eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_make_evaluation(run, error);
    if (status)
        return status;
    /* Before a save, which must include the trainer's counts. */
    if (!run->report.partial_samples)
        eitp_trainer_report_validation(run->trainer, run->report.evaluation.loss);
    status = eitp__run_decided(run, error);
    return status ? status : eitp__save_evaluated(run, error);
}

/* ---- Spot evaluations ---- */

typedef struct eitp__spot {
    int64_t step; /* step of the last one, also stored in checkpoints; 0: none */
    eitp_evaluation evaluation;
} eitp__spot;

static eitp__spot *eitp__spot_of(const eitp_run *run) {
    return (eitp__spot *)run->states[EITP__OBSERVER_SPOT];
}

static int eitp__spot_is_due(const eitp_run *run) {
    const eitp_run_config *config = &run->config;
    const int64_t step = eitp_trainer_steps_done(run->trainer);
    if (config->spot_samples <= 0 || config->log_full_every <= 0 || config->monitor == EITP_MONITOR_OFF)
        return 0;
    return step > 0 && step % config->log_full_every == 0 && eitp__spot_of(run)->step != step &&
           eitp__run_validates(run) && !eitp__evaluation_is_due(run, step);
}

static eitp_status eitp__run_make_spot(eitp_run *run, eitp_error *error) {
    eitp__spot *spot = eitp__spot_of(run);
    const double began = eitp__clock();
    eitp_status status;
    run->report.work = EITP_RUN_EVALUATES;
    status = eitp_trainer_evaluate(run->trainer, run->config.spot_samples, &spot->evaluation, error);
    if (status)
        return status;
    run->seconds = eitp__clock() - began;
    spot->step = eitp_trainer_steps_done(run->trainer);
    EITP__EACH_OBSERVER (run, i, after_spot) {
        run->observers[i].after_spot(run, run->states[i], &spot->evaluation);
    }
    return EITP_OK;
}

/* ---- The observer ---- */

static eitp_status eitp__spot_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)state, (void)error;
    if (run->config.spot_samples > 0 && !eitp__run_validates(run))
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "spot_samples has no effect: the task has no validation samples");
    return EITP_OK;
}

/* Runs without spot evaluations do not have the member. */
static void eitp__spot_write(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    const eitp__spot *spot = (const eitp__spot *)state;
    (void)run, (void)is_counted;
    if (spot->step > 0)
        eitp__buffer_format(text, "{\"step\": %lld}", (long long)spot->step);
}

static eitp_status eitp__spot_read(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    eitp__spot *spot = (eitp__spot *)state;
    (void)run;
    if (value && value->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'spot' must be an object",
                          (unsigned long long)value->line);
    return value ? eitp__json_get_integer(value, "step", 0, INT64_MAX - 1, &spot->step, error) : EITP_OK;
}

EITP__PRIVATE void eitp__spot_observer(eitp__observer *observer) {
    observer->name = "spot";
    observer->state_size = sizeof(eitp__spot);
    observer->needs_checkpoints = 1;
    observer->begin = eitp__spot_begin;
    observer->write = eitp__spot_write;
    observer->read = eitp__spot_read;
}

/* ---- A step ---- */

/* Evaluates, and repeats the save of a checkpoint that was written before the evaluation of its step. */
static eitp_status eitp__run_evaluate_step(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_repeat(run, eitp__run_evaluate, error);
    return status || !run->saves.is_early ? status : eitp__run_save_early(run, error);
}

static eitp_status eitp__run_step(eitp_run *run, eitp_error *error) {
    const eitp_run_report *report = &run->report;
    eitp_status status = eitp__run_make_step(run, error);
    if (status)
        return status;
    if (run->decision.saves)
        run->save = 1;
    status = eitp__run_decided(run, error);
    if (!status && eitp__run_validates(run) && eitp__evaluation_is_due(run, report->step.step))
        status = eitp__run_evaluate_step(run, error);
    if (!status && eitp__spot_is_due(run))
        status = eitp__run_repeat(run, eitp__run_make_spot, error);
    if (!status && eitp__save_is_due(run, report->step.step))
        status = eitp__run_save(run, error);
    return status;
}

/* ---- Start ---- */

static int eitp__evaluates_between_steps(const eitp_run_config *config) {
    return config->eval_steps > 0 || config->eval_epochs > 0;
}

static eitp_status eitp__run_check_plateau(const eitp_run *run, eitp_error *error) {
    if (!eitp__trainer_follows_plateau(run->trainer))
        return EITP_OK;
    if (!eitp__run_validates(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "EITP_SCHEDULE_PLATEAU needs validation data, and the task has none");
    if (!eitp__evaluates_between_steps(&run->config))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "EITP_SCHEDULE_PLATEAU needs evaluations between steps; set eval_steps or eval_epochs");
    return EITP_OK;
}

static eitp_status eitp__run_check_config(const eitp_run *run, eitp_error *error) {
    const eitp_run_config *config = &run->config;
    if (eitp__run_follows_best(run) && !eitp__run_validates(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best and patience need validation data, and the task has none");
    if (run->keep_best && !eitp__trainer_has_metric(run->trainer, run->keep_best))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown metric '%s' (choose from loss and the task's loss terms and metrics)",
                          run->keep_best);
    if (run->keep_best && !eitp__trainer_metric_direction(run->trainer, run->keep_best))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best: metric '%s' has no direction; pass EITP_HIGHER_IS_BETTER or EITP_LOWER_IS_BETTER "
                          "to eitp_pass_metric, or set it in eitp_task_metric",
                          run->keep_best);
    if (config->patience > 0 && !eitp__evaluates_between_steps(config))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "patience needs evaluations between steps; set eval_steps or eval_epochs");
    return eitp__run_check_plateau(run, error);
}

/* Resumes the trainer, unless it is at the checkpoint's step because the program has resumed it. */
static eitp_status eitp__run_catch_up(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status = EITP_OK;
    int is_replaced = 1;
    if (done > 0 && done == run->checkpoint_step && !eitp_trainer_is_inconsistent(run->trainer))
        return EITP_OK;
    while (run->checkpoint && is_replaced)
        status = eitp__run_try_resume(run, run->trainer, &is_replaced, error);
    return status;
}

/* Handles a checkpoint that was written before the evaluation of its step, although the records may have it: the
   evaluation is repeated, and the checkpoint saved again. */
static void eitp__run_complete_plateau(eitp_run *run) {
    const int64_t step = run->report.start_step;
    if (step <= 0 || !eitp__run_validates(run) || !eitp__evaluation_is_due(run, step) ||
        !eitp__trainer_lacks_evaluation(run->trainer))
        return;
    run->saves.is_early = 1;
    run->report.evaluated_step = -1;
}

/* Evaluates before step 1; in a resumed run, only if the checkpoint's evaluation or spot evaluation is due and
   missing. */
static eitp_status eitp__run_begin(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    int64_t done;
    eitp_status status = eitp__run_catch_up(run, error);
    eitp__run_end_prefetch(run);
    done = status && run->checkpoint ? run->checkpoint_step : eitp_trainer_steps_done(run->trainer);
    report->start_step = report->steps_done = done;
    report->saved_step = run->checkpoint ? done : -1;
    run->saves.at = eitp__clock();
    if (!status)
        status = eitp__run_check_config(run, error);
    if (!status && run->checkpoint)
        status = eitp__run_state_read(run, error);
    if (!status)
        status = eitp__run_begin_observers(run, error);
    if (status || !eitp__steps_remain(run))
        return status;
    eitp__run_complete_plateau(run);
    eitp__async_save_prepare(run);
    eitp__run_notify(run, EITP_EVENT_STARTED, EITP_LOG_DEBUG, 0, "training from step %lld", (long long)done + 1);
    if (eitp__spot_is_due(run)) /* the checkpoint lacks it */
        return eitp__run_repeat(run, eitp__run_make_spot, error);
    if (!eitp__run_validates(run) || report->evaluated_step == done || !eitp__evaluation_is_due(run, done))
        return EITP_OK;
    run->decision.stops = 0; /* this evaluation decides */
    return eitp__run_evaluate_step(run, error);
}

/* ---- The loop and its end ---- */

static eitp_status eitp__run_all_steps(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    eitp_status status = eitp__run_begin(run, error);
    while (!status && !run->stop && !run->decision.stops && eitp__steps_remain(run)) {
        status = eitp__run_before_step(run, error);
        if (!status && !run->stop)
            status = eitp__run_repeat(run, eitp__run_step, error);
        /* Data that were valid at the start and no longer are indicate a storage failure, not a program error. */
        if (status == EITP_ERROR_FORMAT)
            status = error->status = EITP_ERROR_IO;
    }
    if (status == EITP_END_OF_DATA) {
        report->end = EITP_RUN_END_OF_DATA;
        report->steps = eitp_trainer_steps_done(run->trainer);
        eitp__run_notify(run, EITP_EVENT_END_OF_DATA, EITP_LOG_INFO, 0, "%s", error->message);
        status = EITP_OK;
    }
    if (!status && !run->stop && eitp__run_validates(run) && report->evaluated_step != report->steps &&
        eitp_trainer_steps_done(run->trainer) == report->steps)
        status = eitp__run_evaluate_step(run, error);
    /* Work dropped by a stop has changed nothing. */
    return status == EITP_ERROR_INTERRUPTED && run->stop ? EITP_OK : status;
}

EITP__PRIVATE eitp_run_end eitp__run_end_of(const eitp_run *run, eitp_status status) {
    if (run->stop && (!status || status == EITP_ERROR_INTERRUPTED))
        return EITP_RUN_STOPPED;
    if (status)
        return status == EITP_ERROR_NOT_FINITE ? EITP_RUN_NOT_FINITE
               : status == EITP_ERROR_PRESSURE ? EITP_RUN_MEMORY_PRESSURE
                                               : EITP_RUN_FAILED;
    if (run->report.end == EITP_RUN_END_OF_DATA)
        return EITP_RUN_END_OF_DATA;
    return run->decision.stops ? EITP_RUN_EARLY_STOP : EITP_RUN_FINISHED;
}

/* If the model is damaged, that determines the end, unless something else has failed. */
static eitp_status eitp__run_finish_ruined(eitp_run *run, eitp_status status, eitp_error *error) {
    const int is_end = status == EITP_ERROR_NOT_FINITE || status == EITP_ERROR_PRESSURE;
    const eitp_run_end end = run->report.end;
    eitp_error ruined;
    eitp__run_save_damaged(run, is_end ? error : &ruined);
    run->report.end = is_end ? run->report.end : end;
    return is_end ? EITP_ERROR_NOT_FINITE : status;
}

static int eitp__run_is_ruined(const eitp_run *run) {
    return eitp__run_assess(run).verdict == EITP__MODEL_DAMAGED;
}

/* Saves the steps before a failure that has changed nothing. */
static eitp_status eitp__run_finish_failed(eitp_run *run, eitp_status status, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_error second;
    eitp__fail(&second, EITP_ERROR_IO, "could not write a checkpoint");
    if (eitp_trainer_is_inconsistent(run->trainer) || status == EITP_ERROR_DEVICE)
        return status;
    if (run->report.saved_step != done && eitp__run_is_ruined(run))
        return eitp__run_finish_ruined(run, status, error);
    if (run->report.saved_step != done && done > run->report.start_step && !run->saves.has_failed)
        eitp__run_save(run, &second);
    if (status != EITP_ERROR_PRESSURE || run->report.saved_step == done)
        return status;
    /* EITP_ERROR_PRESSURE promises a checkpoint. */
    eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_ERROR, 0, "%s", error->message);
    *error = second;
    return second.status;
}

static eitp_status eitp__run_finish_stopped(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    if (run->report.saved_step != done && eitp__run_is_ruined(run))
        return eitp__run_save_damaged(run, error);
    return eitp__run_save_stopped(run, error);
}

static void eitp__run_finish_idle(eitp_run *run) {
    const long long done = (long long)run->report.saved_step, steps = (long long)run->report.steps;
    eitp__run_notify(run, EITP_EVENT_NOTHING_TO_DO, EITP_LOG_INFO, 0,
                     done > steps && steps ? "nothing to do: step %lld is done, %lld steps were requested"
                                           : "nothing to do: step %lld of %lld is done",
                     done, steps);
    /* The last save may have left files that it could not remove. */
    if (run->config.resume == EITP_RESUME_NEWEST)
        eitp__run_checkpoints_changed(run);
}

/* Writes the last checkpoint unless it exists, and reports why the run ended early, if it did. */
static eitp_status eitp__run_finish(eitp_run *run, eitp_status status, eitp_error *error) {
    eitp_run_report *report = &run->report;
    if (report->end == EITP_RUN_EARLY_STOP)
        eitp__run_notify(run, EITP_EVENT_EARLY_STOP, EITP_LOG_INFO, 0, "%s", run->decision.why);
    if (status)
        return eitp__run_finish_failed(run, status, error);
    if (report->end == EITP_RUN_STOPPED)
        return eitp__run_finish_stopped(run, error);
    if (report->saved_step != eitp_trainer_steps_done(run->trainer))
        return eitp__run_is_ruined(run) ? eitp__run_save_damaged(run, error) : eitp__run_save(run, error);
    if (report->start_step == report->saved_step && !report->evaluations)
        eitp__run_finish_idle(run);
    else
        eitp__run_checkpoints_changed(run); /* the directory may have failed after the last save */
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error) {
    eitp_run_report *report = &run->report;
    eitp_status status = eitp__run_all_steps(run, error);
    report->end = eitp__run_end_of(run, status);
    report->stop_reason = (int)run->stop_reason;
    run->is_ending = 1;
    eitp__async_save_finish(run);
    eitp__async_save_release(run);
    status = eitp__run_finish(run, status, error);
    if (status && status != EITP_ERROR_NOT_FINITE && status != EITP_ERROR_PRESSURE)
        report->end = EITP_RUN_FAILED;
    if (status)
        run->failure = *error;
    eitp__run_end_observers(run);
    if (!eitp_trainer_is_inconsistent(run->trainer))
        report->steps_done = eitp_trainer_steps_done(run->trainer);
    return status;
}
