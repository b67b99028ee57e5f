#include "run/run_save.h"

#include "base/clock.h"
#include "io/checkpoint.h"
#include "run/disk.h"
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

EITP__PRIVATE void eitp__run_write_best(eitp_run *run) {
    const int failed_before = run->best_fails;
    eitp_error error;
    run->best_fails =
        eitp__best_write(&run->best, &run->host, run->directory, eitp__run_metric_name(run), &error) != EITP_OK;
    run->best_is_behind = run->best_fails;
    if (run->best_fails && !failed_before)
        eitp__run_notify(run, EITP_EVENT_RECORDS, EITP_LOG_WARNING, 0,
                         "the list of evaluations cannot be stored, and the run continues without it: %s",
                         error.message);
}

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    const eitp__save_options options = {"", 0, NULL, NULL};
    double began = eitp__clock();
    eitp_status status;
    run->save = 0;
    run->cannot_save = 1;
    /* Written first: unless that fails, a checkpoint has no steps and evaluations that these files lack. */
    eitp__records_sync(run);
    if (run->best_is_behind)
        eitp__run_write_best(run);
    status = eitp__disk_save(run, &options, error);
    if (status)
        return status;
    run->cannot_save = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    run->saved_at = eitp__clock();
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - began, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, run->saved_at - began);
    return eitp__run_prune(run, error);
}
