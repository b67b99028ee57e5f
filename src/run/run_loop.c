#include "run/run_loop.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/async_save.h"
#include "run/events.h"
#include "run/run_directory.h"
#include "run/run_evaluate.h"
#include "run/run_save.h"
#include "run/run_schedule.h"
#include "run/run_spot.h"
#include "run/run_state.h"
#include "run/run_step.h"
#include "train/trainer.h"

/* ---- A step ---- */

/* Evaluates, and saves again a checkpoint that was written before the evaluation of its step. */
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
                          "EITP_SCHEDULE_PLATEAU needs validation data, but the task has none");
    if (!eitp__evaluates_between_steps(&run->config))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "EITP_SCHEDULE_PLATEAU needs evaluations between steps; set eval_steps or eval_epochs");
    return EITP_OK;
}

static eitp_status eitp__run_check_config(const eitp_run *run, eitp_error *error) {
    const eitp_run_config *config = &run->config;
    if (eitp__run_follows_best(run) && !eitp__run_validates(run))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best and patience need validation data, but the task has none");
    if (run->keep_best && !eitp_trainer_has_metric(run->trainer, run->keep_best))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown metric '%s' (choose from loss and the task's loss terms and metrics)",
                          run->keep_best);
    if (run->keep_best && !eitp_trainer_metric_direction(run->trainer, run->keep_best))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "keep_best: metric '%s' has no direction; pass EITP_HIGHER_IS_BETTER or EITP_LOWER_IS_BETTER "
                          "to eitp_pass_metric, or set it in eitp_task_metric",
                          run->keep_best);
    if (config->patience > 0 && !eitp__evaluates_between_steps(config))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "patience needs evaluations between steps; set eval_steps or eval_epochs");
    return eitp__run_check_plateau(run, error);
}

/* Resumes the trainer, unless it is at the checkpoint's step: then the program has resumed it. */
static eitp_status eitp__run_catch_up(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status = EITP_OK;
    int is_replaced = 1;
    if (done > 0 && done == run->checkpoint_step && !eitp_trainer_is_torn(run->trainer))
        return EITP_OK;
    while (run->checkpoint && is_replaced)
        status = eitp__run_try_resume(run, run->trainer, &is_replaced, error);
    return status;
}

/* The checkpoint was written before the evaluation of its step, though the records may have it: it is repeated, and the
   checkpoint saved again. */
static void eitp__run_complete_plateau(eitp_run *run) {
    const int64_t step = run->report.start_step;
    if (step <= 0 || !eitp__run_validates(run) || !eitp__evaluation_is_due(run, step) ||
        !eitp__trainer_lacks_evaluation(run->trainer))
        return;
    run->saves.is_early = 1;
    run->report.evaluated_step = -1;
}

/* Evaluates before step 1; in a resumed run, only if the checkpoint's evaluation, or spot evaluation, is due and is
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
        /* What was valid at the start, and is not now, is a failure of its storage rather than of the program. */
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
    /* What a stop has dropped has changed nothing. */
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

/* A ruined model decides about the end, unless something else has failed. */
static eitp_status eitp__run_finish_ruined(eitp_run *run, eitp_status status, eitp_error *error) {
    const int is_end = status == EITP_ERROR_NOT_FINITE || status == EITP_ERROR_PRESSURE;
    const eitp_run_end end = run->report.end;
    eitp_error ruined;
    eitp__run_save_ruined(run, is_end ? error : &ruined);
    run->report.end = is_end ? run->report.end : end;
    return is_end ? EITP_ERROR_NOT_FINITE : status;
}

static int eitp__run_is_ruined(const eitp_run *run) {
    return eitp__run_judge(run).verdict == EITP__MODEL_RUINED;
}

/* Saves the steps before a failure: the failed step has changed nothing. */
static eitp_status eitp__run_finish_failed(eitp_run *run, eitp_status status, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_error second;
    eitp__fail(&second, EITP_ERROR_IO, "no checkpoint could be written");
    if (eitp_trainer_is_torn(run->trainer))
        return status;
    if (run->report.saved_step != done && eitp__run_is_ruined(run))
        return eitp__run_finish_ruined(run, status, error);
    if (run->report.saved_step != done && done > run->report.start_step && !run->saves.has_failed)
        eitp__run_save(run, &second);
    if (status != EITP_ERROR_PRESSURE || run->report.saved_step == done)
        return status;
    /* This error promises a checkpoint. */
    eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_ERROR, 0, "%s", error->message);
    *error = second;
    return second.status;
}

static eitp_status eitp__run_finish_stopped(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    if (run->report.saved_step != done && eitp__run_is_ruined(run))
        return eitp__run_save_ruined(run, error);
    return eitp__run_save_stopped(run, error);
}

static void eitp__run_finish_idle(eitp_run *run) {
    const long long done = (long long)run->report.saved_step, steps = (long long)run->report.steps;
    eitp__run_notify(run, EITP_EVENT_NOTHING_TO_DO, EITP_LOG_INFO, 0,
                     done > steps && steps ? "nothing to do: step %lld is done, %lld steps were requested"
                                           : "nothing to do: step %lld of %lld is done",
                     done, steps);
    /* The last save may have left what it could not remove. */
    if (run->config.resume == EITP_RESUME_NEWEST)
        eitp__run_checkpoints_changed(run);
}

/* Writes the last checkpoint unless it exists, and reports why the run ended before its last step, if it did. */
static eitp_status eitp__run_finish(eitp_run *run, eitp_status status, eitp_error *error) {
    eitp_run_report *report = &run->report;
    if (report->end == EITP_RUN_EARLY_STOP)
        eitp__run_notify(run, EITP_EVENT_EARLY_STOP, EITP_LOG_INFO, 0, "%s", run->decision.why);
    if (status)
        return eitp__run_finish_failed(run, status, error);
    if (report->end == EITP_RUN_STOPPED)
        return eitp__run_finish_stopped(run, error);
    if (report->saved_step != eitp_trainer_steps_done(run->trainer))
        return eitp__run_is_ruined(run) ? eitp__run_save_ruined(run, error) : eitp__run_save(run, error);
    if (report->start_step == report->saved_step && !report->evaluations)
        eitp__run_finish_idle(run);
    else
        eitp__run_checkpoints_changed(run); /* it may have failed after the last save */
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
    if (!eitp_trainer_is_torn(run->trainer))
        report->steps_done = eitp_trainer_steps_done(run->trainer);
    return status;
}
