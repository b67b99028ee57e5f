#include "run/run_save.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/async_save.h"
#include "run/disk.h"
#include "run/events.h"
#include "run/run_restore.h"
#include "run/run_schedule.h"
#include "run/run_state.h"
#include "train/trainer.h"

/* A checkpoint of a run. */
typedef struct eitp__run_checkpoint {
    const eitp_run *run;
    int is_counted;
} eitp__run_checkpoint;

/* Writes the files of the run into a checkpoint. */
static eitp_status eitp__run_fill(void *user, const char *directory, eitp_error *error) {
    const eitp__run_checkpoint *checkpoint = (const eitp__run_checkpoint *)user;
    const eitp_run *run = checkpoint->run;
    eitp_status status = eitp__run_state_write(run, checkpoint->is_counted, directory, error);
    EITP__EACH_OBSERVER (run, i, write_files) {
        if (!status)
            status = run->observers[i].write_files(run, run->states[i], directory, error);
    }
    return status;
}

/* Writes it while the run waits. */
static eitp_status eitp__run_write_waiting(eitp_run *run, const eitp__save_options *options, double began,
                                           double *waited, eitp_error *error) {
    eitp_status status;
    run->saves.has_failed = 1;
    status = eitp__disk_save(run, options, error);
    if (status)
        return status;
    run->saves.has_failed = run->saves.async_has_failed = 0;
    run->report.saved_step = eitp_trainer_steps_done(run->trainer);
    run->saves.at = eitp__clock();
    *waited = run->saves.at - began;
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, *waited, "saved %s/checkpoint-%lld in %.1f s",
                     run->directory, (long long)run->report.saved_step, *waited);
    eitp__run_save_complete(run, run->report.saved_step);
    return EITP_OK;
}

/* Writes a checkpoint of the last step, or begins to. */
static eitp_status eitp__run_write_checkpoint(eitp_run *run, int is_counted, int may_be_async, eitp_error *error) {
    eitp__run_checkpoint checkpoint;
    eitp__save_options options = {"", !is_counted, eitp__run_fill, NULL};
    const double began = eitp__clock();
    double waited = 0;
    eitp_status status;
    run->report.work = EITP_RUN_SAVES;
    eitp__async_save_finish(run);
    run->save = 0;
    checkpoint.run = run;
    checkpoint.is_counted = is_counted;
    options.user = &checkpoint;
    status = eitp__run_restore_directory(run, error);
    if (status)
        return status;
    eitp__run_before_save(run);
    /* What cannot begin is written while the run waits, with its attempts. */
    if (!may_be_async || !eitp__async_save_fits(run) || eitp__async_save_begin(run, &options, began, error))
        status = eitp__run_write_waiting(run, &options, began, &waited, error);
    if (status)
        return status;
    eitp__run_saved(run, is_counted, waited);
    return EITP_OK;
}

/* The checkpoint that a resume takes. */
static void eitp__describe_last_good(const eitp_run *run, char *text, size_t size) {
    const eitp_run_report *report = &run->report;
    if (report->saved_step < 0)
        snprintf(text, size, "there is no checkpoint to resume from");
    else if (run->checkpoint && report->saved_step == report->start_step)
        snprintf(text, size, "the last good checkpoint is %s", run->checkpoint);
    else
        snprintf(text, size, "the last good checkpoint is %s/checkpoint-%lld", run->directory,
                 (long long)report->saved_step);
}

/* True if the model may be saved under a name that a resume takes. If it is ruined, says so once, until it may again;
   at the end, the error says it. */
static int eitp__run_may_save(eitp_run *run) {
    const eitp__judgement judgement = eitp__run_judge(run);
    const int is_reported = run->saves.was_refused || run->is_ending;
    char good[400];
    if (judgement.verdict == EITP__MODEL_RUINED && !is_reported) {
        eitp__describe_last_good(run, good, sizeof good);
        eitp__run_notify(run, EITP_EVENT_NOT_SAVED, EITP_LOG_WARNING, 0,
                         "no checkpoint is written until the model recovers: %s; %s", judgement.why, good);
    }
    if (judgement.verdict != EITP__MODEL_UNKNOWN)
        run->saves.was_refused = judgement.verdict == EITP__MODEL_RUINED;
    return judgement.verdict == EITP__MODEL_GOOD;
}

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    eitp_status status;
    run->save = !eitp__run_may_save(run);
    if (run->save) /* after the next step, if it may be then */
        return EITP_OK;
    status = eitp__run_write_checkpoint(run, 1, 1, error);
    if (!status)
        eitp__run_checkpoints_changed(run);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_save_early(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status = EITP_OK;
    if (eitp__run_may_save(run))
        status = eitp__run_write_checkpoint(run, eitp__save_is_counted(run, done), 0, error);
    run->saves.is_early = run->report.saved_step == done && run->report.evaluated_step != done &&
                          (eitp__run_follows_best(run) || eitp__trainer_follows_plateau(run->trainer));
    if (!status)
        eitp__run_checkpoints_changed(run);
    return status;
}

EITP__PRIVATE eitp_status eitp__run_save_stopped(eitp_run *run, eitp_error *error) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    eitp_status status;
    if (done == 0 || run->report.saved_step == done || eitp_trainer_is_torn(run->trainer))
        return EITP_OK;
    status = eitp__run_write_checkpoint(run, eitp__save_is_counted(run, done), 0, error);
    eitp__run_checkpoints_changed(run);
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
    eitp__run_before_save(run);
    checkpoint.run = run;
    checkpoint.is_counted = 0;
    options.user = &checkpoint;
    return status ? status : eitp__trainer_save(run->trainer, run->directory, &options, error);
}

EITP__PRIVATE eitp_status eitp__run_save_ruined(eitp_run *run, eitp_error *error) {
    static const char suffix[] = ".diverged";
    const eitp__judgement judgement = eitp__run_judge(run);
    int is_kept = isfinite(run->report.step.parameter_norm) != 0;
    char name[64], good[200];
    eitp_error second;
    EITP__EACH_OBSERVER (run, i, ruined) {
        run->observers[i].ruined(run, run->states[i]);
    }
    snprintf(name, sizeof name, "checkpoint-%lld%s", (long long)eitp_trainer_steps_done(run->trainer), suffix);
    if (is_kept && eitp__run_keep_ruined(run, name, suffix, &second)) {
        is_kept = 0;
        eitp__run_notify(run, EITP_EVENT_SAVE_FAILED, EITP_LOG_WARNING, 0, "%s could not be written: %s", name,
                         second.message);
    }
    run->report.end = judgement.end;
    eitp__describe_last_good(run, good, sizeof good);
    return eitp__fail(error, EITP_ERROR_NOT_FINITE, "%s; %s; lower the learning rate (now %.3g)%s%s", judgement.why,
                      good, run->report.step.learning_rate, is_kept ? "; the model is kept as " : "",
                      is_kept ? name : "");
}
