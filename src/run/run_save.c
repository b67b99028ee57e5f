#include "run/run_save.h"

#include "base/clock.h"
#include "base/files.h"
#include "io/checkpoint.h"
#include "run/events.h"
#include "run/records.h"
#include "run/run_health.h"
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

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    const eitp__save_options options = {"", 0, NULL, NULL};
    double began = eitp__clock();
    eitp_status status;
    run->save = !eitp__health_may_save(run);
    if (run->save) /* after the next step, if it may be then */
        return EITP_OK;
    /* Records are synced first: a checkpoint has no steps that they lack, and no evaluations that best.json lacks. */
    status = eitp__records_sync(run, error);
    run->cannot_save = 1;
    if (!status && run->best_is_behind)
        status = eitp__run_write_best(run, error);
    if (!status)
        status = eitp__trainer_save(run->trainer, run->directory, &options, error);
    if (status)
        return status;
    run->cannot_save = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    eitp__health_saved(&run->health);
    run->saved_at = eitp__clock();
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - began, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, run->saved_at - began);
    return eitp__run_prune(run, error);
}

/* Writes the checkpoint. One of an earlier attempt is removed first: while it is being replaced, a crash would leave it
   under a name that looks like a checkpoint's. */
static eitp_status eitp__run_keep_ruined(eitp_run *run, const char *name, const char *suffix, eitp_error *error) {
    const eitp__save_options options = {suffix, 1, NULL, NULL};
    char *path = eitp__join_path(&run->host, run->directory, name);
    eitp_status status =
        path ? eitp__remove_tree(&run->host, path, error) : eitp__fail_memory(error, strlen(run->directory), "a path");
    eitp__release_text(&run->host, path);
    if (!status)
        status = eitp__records_sync(run, error);
    return status ? status : eitp__trainer_save(run->trainer, run->directory, &options, error);
}

EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error) {
    static const char suffix[] = ".diverged";
    char name[64];
    eitp_error second;
    int is_kept = eitp__health_has_finite_weights(run);
    snprintf(name, sizeof name, "checkpoint-%lld%s", (long long)eitp_trainer_steps_done(run->trainer), suffix);
    if (is_kept && eitp__run_keep_ruined(run, name, suffix, &second)) {
        is_kept = 0;
        eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_WARNING, 0, "%s could not be written: %s", name,
                         second.message);
    }
    return eitp__health_fail(run, is_kept ? name : NULL, error);
}
