#include "run/run_save.h"

#include "base/clock.h"
#include "io/checkpoint.h"
#include "run/events.h"
#include "run/records.h"
#include "train/trainer.h"

/* The metric that decides about the best checkpoint and early stopping. */
EITP__PRIVATE const char *eitp__run_metric_name(const eitp_run *run) {
    return run->keep_best ? run->keep_best : "loss";
}

EITP__PRIVATE eitp_status eitp__run_prune(eitp_run *run, eitp_error *error) {
    return eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit,
                                  run->keep_best ? run->best.now.step : -1, error);
}

EITP__PRIVATE eitp_status eitp__run_write_best(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__best_write(&run->best, &run->host, run->directory, eitp__run_metric_name(run), error);
    run->best_is_behind = status != EITP_OK;
    return status;
}

/* Writes a checkpoint of the last step. */
static eitp_status eitp__run_write_checkpoint(eitp_run *run, int is_counted, eitp_error *error) {
    const eitp__save_options options = {"", !is_counted, NULL, NULL};
    double began = eitp__clock();
    /* Records are synced first: a checkpoint has no steps that they lack, and no evaluations that best.json lacks. */
    eitp_status status = eitp__records_sync(run, error);
    run->save = 0;
    run->cannot_save = 1;
    if (!status && run->best_is_behind)
        status = eitp__run_write_best(run, error);
    if (!status)
        status = eitp__trainer_save(run->trainer, run->directory, &options, error);
    if (status)
        return status;
    run->cannot_save = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    run->saved_at = eitp__clock();
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - began, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, run->saved_at - began);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_write_checkpoint(run, 1, error);
    return status ? status : eitp__run_prune(run, error);
}

EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, int is_counted, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    if (done == 0 || run->report.saved_step == done || eitp_trainer_is_torn(run->trainer))
        return EITP_OK;
    return eitp__run_write_checkpoint(run, is_counted, error);
}
