#include "run/run_save.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/async_save.h"
#include "run/disk.h"
#include "run/events.h"
#include "run/records.h"
#include "run/run_best.h"
#include "run/run_health.h"
#include "run/run_links.h"
#include "run/run_prune.h"
#include "run/run_restore.h"
#include "run/run_state.h"
#include "run/run_withdraw.h"
#include "train/trainer.h"

/* ---- When ---- */

EITP__PRIVATE int eitp__steps_are_due(int64_t interval, int64_t step) {
    return interval > 0 && step % interval == 0;
}

EITP__PRIVATE int eitp__epochs_are_due(const eitp_run *run, double epochs, int64_t step) {
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer);
    const double samples = (double)shape.batch_size * (double)shape.grad_accum;
    const double parts = samples / (double)eitp__trainer_task(run->trainer)->samples[EITP_TRAINING] / epochs;
    /* 10 steps of 0.1 epochs are 1, however they are rounded. */
    const double rounding = 1e-9;
    if (!(epochs > 0))
        return 0;
    return step == 0 || floor((double)step * parts + rounding) > floor((double)(step - 1) * parts + rounding);
}

EITP__PRIVATE int eitp__run_schedules_save(const eitp_run *run, int64_t step) {
    return eitp__steps_are_due(run->config.save_steps, step) ||
           eitp__epochs_are_due(run, run->config.save_epochs, step);
}

/* The limit counts the checkpoint of a disturbed run if one without disturbance saves after this step too. So both keep
   the same checkpoints in the end. */
static int eitp__run_counts(const eitp_run *run, int64_t step) {
    return eitp__run_schedules_save(run, step) || step == run->report.steps;
}

/* ---- Saving ---- */

/* A checkpoint of a run. */
typedef struct eitp__run_checkpoint {
    const eitp_run *run;
    int is_counted;
} eitp__run_checkpoint;

/* Writes the files of the run and of the program into a checkpoint. */
static eitp_status eitp__run_fill(void *user, const char *directory, eitp_error *error) {
    const eitp__run_checkpoint *checkpoint = (const eitp__run_checkpoint *)user;
    const eitp_run *run = checkpoint->run;
    eitp_status status = eitp__run_state_write(run, checkpoint->is_counted, directory, error);
    if (!status && run->config.save)
        status = run->config.save(run->config.save_user, directory, error);
    return status;
}

/* Writes it while the run waits. */
static eitp_status eitp__run_write_waiting(eitp_run *run, const eitp__save_options *options, double began,
                                           eitp_error *error) {
    eitp_status status;
    run->cannot_save = 1;
    status = eitp__disk_save(run, options, error);
    if (status)
        return status;
    run->cannot_save = run->async.has_failed = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    run->saved_at = eitp__clock();
    eitp__pressure_saved(&run->guard.pressure, run->saved_at - began);
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - began, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, run->saved_at - began);
    eitp__run_confirm_best(run, run->report.saved_step);
    return EITP_OK;
}

/* Writes a checkpoint of the last step, or begins to. */
static eitp_status eitp__run_write_checkpoint(eitp_run *run, int is_counted, int may_be_async, eitp_error *error) {
    eitp__run_checkpoint checkpoint;
    eitp__save_options options = {"", !is_counted, eitp__run_fill, NULL};
    const double began = eitp__clock();
    eitp_status status;
    eitp__async_save_finish(run);
    run->save = 0;
    checkpoint.run = run;
    checkpoint.is_counted = is_counted;
    options.user = &checkpoint;
    status = eitp__run_restore_directory(run, error);
    if (status)
        return status;
    /* Written first: unless that fails, a checkpoint has no steps and evaluations that these files lack. */
    eitp__records_sync(run);
    if (run->best_is_behind)
        eitp__run_write_best(run);
    /* What cannot begin is written while the run waits, with its attempts. */
    if (!may_be_async || !eitp__async_save_fits(run) || eitp__async_save_begin(run, &options, began, error))
        status = eitp__run_write_waiting(run, &options, began, error);
    if (!status && is_counted)
        eitp__health_saved(&run->health);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    eitp_status status;
    run->save = !eitp__health_may_save(run);
    if (run->save) /* after the next step, if it may be then */
        return EITP_OK;
    status = eitp__run_write_checkpoint(run, 1, 1, error);
    if (!status)
        eitp__run_prune(run);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_save_early(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status =
        eitp__health_may_save(run) ? eitp__run_write_checkpoint(run, eitp__run_counts(run, done), 0, error) : EITP_OK;
    run->saved_early =
        run->report.saved_step == done && run->report.evaluated_step != done && eitp__run_follows_best(run);
    if (!status)
        eitp__run_prune(run);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status;
    if (done == 0 || run->report.saved_step == done || eitp_trainer_is_torn(run->trainer))
        return EITP_OK;
    status = eitp__run_write_checkpoint(run, eitp__run_counts(run, done), 0, error);
    eitp__run_update_links(run);
    return status;
}

/* Writes the checkpoint. One of an earlier attempt is removed first: while it is being replaced, a crash would leave it
   under a name that looks like a checkpoint's. */
static eitp_status eitp__run_keep_ruined(eitp_run *run, const char *name, const char *suffix, eitp_error *error) {
    eitp__run_checkpoint checkpoint;
    eitp__save_options options = {suffix, 1, eitp__run_fill, NULL};
    char *path = eitp__join_path(&run->host, run->directory, name);
    eitp_status status =
        path ? eitp__remove_tree(&run->host, path, error) : eitp__fail_memory(error, strlen(run->directory), "a path");
    eitp__release_text(&run->host, path);
    eitp__records_sync(run);
    checkpoint.run = run;
    checkpoint.is_counted = 0;
    options.user = &checkpoint;
    return status ? status : eitp__trainer_save(run->trainer, run->directory, &options, error);
}

EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error) {
    static const char suffix[] = ".diverged";
    char name[64];
    eitp_error second;
    int is_kept = eitp__health_has_finite_weights(run);
    eitp__run_withdraw(run);
    snprintf(name, sizeof name, "checkpoint-%lld%s", (long long)eitp_trainer_steps_done(run->trainer), suffix);
    if (is_kept && eitp__run_keep_ruined(run, name, suffix, &second)) {
        is_kept = 0;
        eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_WARNING, 0, "%s could not be written: %s", name,
                         second.message);
    }
    return eitp__health_fail(run, is_kept ? name : NULL, error);
}
