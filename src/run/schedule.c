#include "base/clock.h"
#include "run/internal.h"
#include "train/trainer.h"

EITP__PRIVATE int eitp__run_validates(const eitp_run *run) {
    return eitp__trainer_task(run->trainer)->samples[EITP_VALIDATION] > 0;
}

EITP__PRIVATE const char *eitp__run_kept_metric(const eitp_run_config *config) {
    return !config->keep_best && config->patience > 0 ? "loss" : config->keep_best;
}

EITP__PRIVATE int eitp__run_follows_best(const eitp_run *run) {
    return run->keep_best != NULL;
}

EITP__PRIVATE int eitp__steps_remain(const eitp_run *run) {
    return !run->report.steps || eitp_trainer_steps_done(run->trainer) < run->report.steps;
}

static int eitp__steps_are_due(int64_t interval, int64_t step) {
    return interval > 0 && step % interval == 0;
}

/* True if a multiple of `epochs` ends in this step; also for step 0, before the first. */
static int eitp__epochs_are_due(const eitp_run *run, double epochs, int64_t step) {
    const double period = (double)eitp__trainer_task(run->trainer)->samples[EITP_TRAINING] * epochs;
    /* tolerance: 10 steps of 0.1 epochs are 1 epoch, however they are rounded */
    const double rounding = 1e-9;
    if (!(epochs > 0))
        return 0;
    return step == 0 || floor((double)eitp__trainer_samples(run->trainer, step) / period + rounding) >
                            floor((double)eitp__trainer_samples(run->trainer, step - 1) / period + rounding);
}

/* The evaluation after the last step comes before its save, so that the last checkpoint includes it. */
EITP__PRIVATE int eitp__evaluation_is_due(const eitp_run *run, int64_t step) {
    return (step > 0 && step == run->report.steps) || eitp__steps_are_due(run->config.eval_steps, step) ||
           eitp__epochs_are_due(run, run->config.eval_epochs, step);
}

/* True if the schedule has a save after this step. */
static int eitp__save_is_scheduled(const eitp_run *run, int64_t step) {
    return eitp__steps_are_due(run->config.save_steps, step) ||
           eitp__epochs_are_due(run, run->config.save_epochs, step);
}

EITP__PRIVATE int64_t eitp__run_newest_save(const eitp_run *run) {
    return run->saves.save ? eitp__save_step(run->saves.save) : run->report.saved_step;
}

EITP__PRIVATE int eitp__run_has_saved(const eitp_run *run, int64_t step) {
    return run->report.saved_step == step || (run->saves.save && eitp__save_step(run->saves.save) == step);
}

EITP__PRIVATE int eitp__save_is_due(const eitp_run *run, int64_t step) {
    const double seconds = run->config.save_seconds;
    if (eitp__run_has_saved(run, step))
        return 0;
    return run->save || eitp__save_is_scheduled(run, step) || (seconds > 0 && eitp__clock() - run->saves.at >= seconds);
}

EITP__PRIVATE int eitp__save_is_counted(const eitp_run *run, int64_t step) {
    return eitp__save_is_scheduled(run, step) || step == run->report.steps;
}

EITP__PRIVATE const eitp_metric *eitp__find_metric(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count; i++) {
        if (!strcmp(evaluation->metrics[i].name, name))
            return &evaluation->metrics[i];
    }
    return NULL;
}
