#include "run/run_evaluate.h"

#include "base/clock.h"
#include "run/events.h"
#include "run/run_save.h"
#include "run/run_schedule.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* Samples of the evaluation before step 1: enough to see whether the weights are trained or random. */
enum { EITP__FIRST_SAMPLES = 64 };

/* The samples of an evaluation that takes a part where later ones take all, because no number is asked for; else 0. */
static int64_t eitp__run_partial_samples(const eitp_run *run) {
    const int is_open = !run->config.eval_samples && !(run->config.eval_fraction > 0);
    const int is_first = run->writes_checkpoints && !eitp_trainer_steps_done(run->trainer);
    return is_open && is_first &&
                   eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION] > (uint64_t)EITP__FIRST_SAMPLES
               ? EITP__FIRST_SAMPLES
               : 0;
}

/* Validation samples of an evaluation; 0: all. */
static int64_t eitp__run_eval_samples(const eitp_run *run) {
    const double samples = (double)eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION];
    if (run->config.eval_fraction > 0)
        return (int64_t)ceil(run->config.eval_fraction * samples);
    return run->config.eval_samples ? run->config.eval_samples : eitp__run_partial_samples(run);
}

/* Saves a model that is to be kept with its evaluation, unless its checkpoint has it. */
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

/* Lets the program describe the model. What it fails to say is no reason to end the run. */
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

EITP__PRIVATE eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_make_evaluation(run, error);
    if (status)
        return status;
    /* Before a save, which must have what the trainer counts. */
    if (!run->report.partial_samples)
        eitp_trainer_report_validation(run->trainer, run->report.evaluation.loss);
    status = eitp__run_decided(run, error);
    return status ? status : eitp__save_evaluated(run, error);
}
