#include "run/async_save.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/disk.h"
#include "run/events.h"
#include "run/run_best.h"
#include "run/run_prune.h"

EITP__PRIVATE int64_t eitp__run_newest_save(const eitp_run *run) {
    return run->async.save ? eitp__save_step(run->async.save) : run->report.saved_step;
}

EITP__PRIVATE int eitp__run_has_saved(const eitp_run *run, int64_t step) {
    return run->report.saved_step == step || (run->async.save && eitp__save_step(run->async.save) == step);
}

/* Memory for a copy is there, or is left without becoming short. */
static int eitp__copy_has_memory(const eitp_run *run, uint64_t bytes) {
    eitp_memory_info info;
    if (run->async.queue || run->config.memory_check_seconds < 0)
        return 1;
    return !eitp_memory_info_read(&run->host, &info, NULL) &&
           (!info.usable || info.left > bytes + eitp_memory_floor(&info));
}

EITP__PRIVATE int eitp__async_save_fits(const eitp_run *run) {
    const int is_last = run->is_ending || eitp_trainer_steps_done(run->trainer) == run->report.steps;
    uint64_t bytes, largest, free_bytes, limit;
    if (!run->config.async_save_bytes || is_last || run->async.has_failed)
        return 0;
    eitp__checkpoint_size(eitp__trainer_task(run->trainer), &bytes, &largest);
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
        eitp__save_create_queue(run->trainer, &run->async.queue, NULL);
}

EITP__PRIVATE eitp_status eitp__async_save_begin(eitp_run *run, const eitp__save_options *options, double began,
                                                 eitp_error *error) {
    eitp__async_save *async = &run->async;
    eitp_status status = EITP_OK;
    if (!async->queue) /* it was released because memory was short */
        status = eitp__save_create_queue(run->trainer, &async->queue, error);
    if (!status)
        status = eitp__save_begin(run->trainer, run->directory, options, async->queue, &async->save, error);
    if (status)
        return status;
    async->began = began;
    async->stalled = eitp__clock() - began;
    run->saved_at = eitp__clock();
    return EITP_OK;
}

static void eitp__async_save_succeed(eitp_run *run, int64_t step, double waited_from) {
    eitp__async_save *async = &run->async;
    async->save = NULL;
    async->has_failed = run->cannot_save = 0;
    run->report.saved_step = step;
    run->saved_at = eitp__clock();
    async->stalled += run->saved_at - waited_from;
    eitp__run_notify(run, EITP_EVENT_SAVED, EITP_LOG_INFO, run->saved_at - async->began,
                     "saved %s/checkpoint-%lld in %.1f s, %.1f s of it between steps", run->directory, (long long)step,
                     run->saved_at - async->began, async->stalled);
    eitp__run_confirm_best(run, step);
    eitp__run_prune(run);
}

/* Drops the save. Its step can still be saved if it was the last one. */
static void eitp__async_save_drop(eitp_run *run, const char *why) {
    const int64_t step = eitp__save_step(run->async.save);
    eitp__save_abandon(run->async.save);
    run->async.save = NULL;
    if (step != eitp_trainer_steps_done(run->trainer))
        eitp__run_lose_best(run, step, why);
}

/* A failure does not end the run: the copy is written again, and if that fails too the steps done are saved, both while
   the run waits, with several attempts. */
static void eitp__async_save_complete(eitp_run *run) {
    eitp__async_save *async = &run->async;
    const double now = eitp__clock();
    const int64_t step = eitp__save_step(async->save);
    eitp_error error;
    eitp_status status = eitp__save_commit(async->save, &error);
    if (status && eitp__save_can_repeat(async->save)) {
        eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                         "checkpoint-%lld could not be written beside the steps: %s; writing it again", (long long)step,
                         error.message);
        status = eitp__disk_repeat(run, async->save, &error);
    }
    if (!status) {
        eitp__async_save_succeed(run, step, now);
        return;
    }
    async->has_failed = run->save = 1;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld could not be written: %s; saving the steps done", (long long)step, error.message);
    eitp__async_save_drop(run, "it could not be written");
}

EITP__PRIVATE void eitp__async_save_poll(eitp_run *run) {
    if (run->async.save && eitp__save_is_written(run->async.save))
        eitp__async_save_complete(run);
}

EITP__PRIVATE void eitp__async_save_finish(eitp_run *run) {
    if (run->async.save)
        eitp__async_save_complete(run);
}

EITP__PRIVATE void eitp__async_save_release(eitp_run *run) {
    eitp__async_save *async = &run->async;
    /* Without further attempts: they would keep the memory for long. */
    if (async->save && eitp__save_is_written(async->save)) {
        const int64_t step = eitp__save_step(async->save);
        if (!eitp__save_commit(async->save, NULL))
            eitp__async_save_succeed(run, step, eitp__clock());
    }
    if (async->save)
        eitp__async_save_drop(run, "memory was short before it was written");
    eitp__write_behind_destroy(async->queue);
    async->queue = NULL;
}
