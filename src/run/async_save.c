#include "run/async_save.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/disk.h"
#include "run/events.h"

/* Memory for a copy is there, or is left without becoming short. */
static int eitp__copy_has_memory(const eitp_run *run, uint64_t bytes) {
    eitp_memory_info info;
    if (run->saves.queue || run->config.memory_check_seconds < 0)
        return 1;
    return !eitp_memory_info_read(&run->host, &info, NULL) &&
           (!info.usable || info.left > bytes + eitp_memory_floor(&info));
}

EITP__PRIVATE int eitp__async_save_fits(const eitp_run *run) {
    const int is_last = run->is_ending || eitp_trainer_steps_done(run->trainer) == run->report.steps;
    uint64_t bytes, largest, free_bytes, limit;
    if (!run->config.async_save_bytes || is_last || run->saves.async_has_failed)
        return 0;
    eitp__trainer_checkpoint_size(run->trainer, &bytes, &largest);
    if (bytes > run->config.async_save_bytes || !eitp__copy_has_memory(run, bytes))
        return 0;
    /* A save that waits removes old checkpoints from a disk that is full. */
    return !eitp__path_space(&run->host, run->directory, &free_bytes, &limit) || free_bytes > bytes;
}

/* True if a save is due before the last step. */
static int eitp__async_save_is_used(const eitp_run *run) {
    const eitp_run_config *config = &run->config;
    const int64_t steps = run->report.steps - run->report.start_step;
    return (config->save_steps && (!run->report.steps || config->save_steps < steps)) || config->save_epochs > 0 ||
           config->save_seconds > 0 || run->keep_best;
}

EITP__PRIVATE void eitp__async_save_prepare(eitp_run *run) {
    if (eitp__async_save_is_used(run) && eitp__async_save_fits(run))
        eitp__save_create_queue(run->trainer, &run->saves.queue, NULL);
}

EITP__PRIVATE eitp_status eitp__async_save_begin(eitp_run *run, const eitp__save_options *options, double began,
                                                 eitp_error *error) {
    eitp__run_saves *saves = &run->saves;
    eitp_status status = EITP_OK;
    if (!saves->queue) /* it was released because memory was short */
        status = eitp__save_create_queue(run->trainer, &saves->queue, error);
    if (!status)
        status = eitp__save_begin(run->trainer, run->directory, options, saves->queue, &saves->save, error);
    if (status)
        return status;
    saves->began = began;
    saves->stalled = eitp__clock() - began;
    saves->at = eitp__clock();
    return EITP_OK;
}

static void eitp__async_save_succeed(eitp_run *run, int64_t step, double waited_from) {
    eitp__run_saves *saves = &run->saves;
    saves->save = NULL;
    saves->async_has_failed = saves->has_failed = 0;
    run->report.saved_step = step;
    saves->at = eitp__clock();
    saves->stalled += saves->at - waited_from;
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, saves->at - saves->began,
                     "saved %s/checkpoint-%lld in %.1f s; training paused for %.1f s", run->directory, (long long)step,
                     saves->at - saves->began, saves->stalled);
    eitp__run_save_complete(run, step);
    eitp__run_checkpoints_changed(run);
}

/* Drops the save. Its step can still be saved if it was the last one. */
static void eitp__async_save_drop(eitp_run *run, const char *why) {
    const int64_t step = eitp__save_step(run->saves.save);
    eitp__save_abandon(run->saves.save);
    run->saves.save = NULL;
    if (step == eitp_trainer_steps_done(run->trainer))
        return;
    EITP__EACH_OBSERVER (run, i, save_lost) {
        run->observers[i].save_lost(run, run->states[i], step, why);
    }
}

/* A failure does not end the run: the copy is written again, and if that fails too the steps done are saved, both while
   the run waits, with several attempts. */
static void eitp__async_save_complete(eitp_run *run) {
    eitp__run_saves *saves = &run->saves;
    const double now = eitp__clock();
    const int64_t step = eitp__save_step(saves->save);
    eitp_error error;
    eitp_status status = eitp__save_commit(saves->save, &error);
    if (status && eitp__save_can_repeat(saves->save)) {
        eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                         "checkpoint-%lld could not be written beside the steps: %s; writing it again", (long long)step,
                         error.message);
        status = eitp__disk_repeat(run, saves->save, &error);
    }
    if (!status) {
        eitp__async_save_succeed(run, step, now);
        return;
    }
    saves->async_has_failed = run->save = 1;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld could not be written: %s; saving the steps done", (long long)step, error.message);
    eitp__async_save_drop(run, "it could not be written");
}

EITP__PRIVATE void eitp__async_save_finish(eitp_run *run) {
    if (run->saves.save)
        eitp__async_save_complete(run);
}

EITP__PRIVATE void eitp__async_save_release(eitp_run *run) {
    eitp__run_saves *saves = &run->saves;
    /* Without further attempts: they would keep the memory for long. */
    if (saves->save && eitp__save_is_written(saves->save)) {
        const int64_t step = eitp__save_step(saves->save);
        if (!eitp__save_commit(saves->save, NULL))
            eitp__async_save_succeed(run, step, eitp__clock());
    }
    if (saves->save)
        eitp__async_save_drop(run, "memory was short before it was written");
    eitp__write_behind_destroy(saves->queue);
    saves->queue = NULL;
}

/* ---- The observer ---- */

static void eitp__async_save_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    (void)state, (void)decision;
    if (run->saves.save && eitp__save_is_written(run->saves.save))
        eitp__async_save_complete(run);
}

EITP__PRIVATE void eitp__async_save_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->after_step = eitp__async_save_after_step;
}
