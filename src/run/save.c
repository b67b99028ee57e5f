#include "run/save.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/status.h"
#include "io/checkpoint.h"
#include "run/directory.h"
#include "run/internal.h"
#include "train/trainer.h"

/* Number of files that a save, and the program at the same time, open at once. Data files are already open. */
#define EITP__DISK_FILES 4

/* Seconds between two checks for a request to stop. */
#define EITP__DISK_SLICE 0.1

/* Returns the number of newest checkpoints to keep when a new one needs space: the new one will be one of
   save_total_limit. The newest is always kept. 0: all. */
static int64_t eitp__disk_limit(const eitp_run *run) {
    const int64_t limit = run->config.save_total_limit;
    return limit > 1 ? limit - 1 : limit;
}

/* ---- Before the first step ---- */

/* Opens as many files at once as a save does. */
static eitp_status eitp__disk_open_files(const eitp_run *run, eitp_error *error) {
    char *path = eitp__join_path(&run->host, run->directory, ".eitp.partial");
    eitp__file files[EITP__DISK_FILES];
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(run->directory), "a path");
    memset(files, 0, sizeof files);
    for (int i = 0; i < EITP__DISK_FILES && !status; i++)
        status = eitp__file_open(&files[i], &run->host, path, EITP_FILE_REPLACE, error);
    for (int i = 0; i < EITP__DISK_FILES; i++)
        eitp__file_close(&files[i], NULL);
    if (path)
        eitp__remove_tree(&run->host, path, NULL);
    eitp__release_text(&run->host, path);
    /* Free space is checked later, with figures. */
    if (status && eitp__is_disk_full(error))
        return EITP_OK;
    return status && status != EITP_ERROR_MEMORY
               ? eitp__fail_prefix(error, status, "saving a checkpoint needs %d open files", EITP__DISK_FILES)
               : status;
}

/* Returns the maximum number of checkpoints that the run will write; INT64_MAX: unknown. */
static int64_t eitp__disk_saves(const eitp_run *run) {
    const eitp_run_config *config = &run->config;
    if (config->save_seconds > 0 || config->save_epochs > 0 || run->keep_best)
        return INT64_MAX;
    if (!config->save_steps)
        return 1;
    return run->report.steps ? (run->report.steps - run->report.start_step) / config->save_steps + 1 : INT64_MAX;
}

/* Returns the number of checkpoints that will be in the directory at once: a new one is written before an old one is
   removed, the best one is kept in addition, and one may be written when the run is stopped. */
static int64_t eitp__disk_most(const eitp_run *run, int64_t present) {
    const int64_t limit = run->config.save_total_limit, saves = eitp__disk_saves(run);
    const int64_t most = saves < INT64_MAX - present ? present + saves : limit ? INT64_MAX : present + 2;
    const int64_t counted = limit && limit < most ? limit + 1 : most;
    return counted + (limit && run->keep_best) + 1;
}

static void eitp__disk_warn(eitp_run *run, uint64_t size, uint64_t free_bytes, const eitp__checkpoint_use *use) {
    const int64_t most = eitp__disk_most(run, use->count);
    const double needed = (double)most * (double)size - (double)use->bytes;
    char has[32], needs[32], each[32];
    if ((double)free_bytes >= needed)
        return;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                     "the disk of '%s' has %s free, but checkpoints will need %s (up to %lld of %s each, of which %lld "
                     "exist); free some space, or the run may end early",
                     run->directory, eitp_format_bytes(free_bytes, has, sizeof has),
                     eitp_format_bytes((uint64_t)needed, needs, sizeof needs), (long long)most,
                     eitp_format_bytes(size, each, sizeof each), (long long)use->count);
}

/* Fails with EITP_ERROR_IO if a checkpoint cannot be written: the disk does not have enough space for one, the limit of
   file sizes is below its largest file, or too few files can be open at once. Warns if later checkpoints will need more
   space. */
static eitp_status eitp__disk_check(eitp_run *run, eitp_error *error) {
    eitp__checkpoint_use use;
    uint64_t size, largest, free_bytes, limit, room;
    int64_t kept[EITP__KEPT_STEPS];
    char needs[32], has[32];
    eitp_status status = eitp__disk_open_files(run, error);
    if (status || !eitp__path_space(&run->host, run->directory, &free_bytes, &limit))
        return status;
    eitp__trainer_checkpoint_size(run->trainer, &size, &largest);
    if (largest > limit)
        return eitp__fail(error, EITP_ERROR_IO,
                          "a checkpoint has a file of %s, but files of this process are limited to %s; raise the "
                          "limit (ulimit -f)",
                          eitp_format_bytes(largest, needs, sizeof needs), eitp_format_bytes(limit, has, sizeof has));
    eitp__run_list_kept(run, kept);
    status = eitp__checkpoint_measure(&run->host, run->directory, eitp__disk_limit(run), kept, EITP__KEPT_STEPS, &use,
                                      error);
    if (status)
        return status;
    room = free_bytes < UINT64_MAX - use.prunable_bytes ? free_bytes + use.prunable_bytes : free_bytes;
    if (size > room)
        return eitp__fail(error, EITP_ERROR_IO,
                          "a checkpoint needs %s, but the disk of '%s' has space for %s; free some space or choose "
                          "another directory",
                          eitp_format_bytes(size, needs, sizeof needs), run->directory,
                          eitp_format_bytes(room, has, sizeof has));
    eitp__disk_warn(run, size, free_bytes, &use);
    return EITP_OK;
}

/* ---- Saves that fail ---- */

/* True for failures that may be temporary, within a minute. The whole checkpoint is written again: after a failed sync
   the system may have dropped written data. */
static int eitp__disk_may_pass(const eitp_error *error) {
    const int code = error->system_code;
    return code == EIO || code == EAGAIN || code == EINTR || code == ETIMEDOUT || code == ENFILE || code == EMFILE;
}

/* Removes the checkpoints that would be removed after the save. Returns 1 if there were any. */
static int eitp__disk_make_room(eitp_run *run) {
    const int64_t limit = eitp__disk_limit(run);
    int64_t kept[EITP__KEPT_STEPS];
    eitp__checkpoint_use use;
    char size[32];
    eitp__run_list_kept(run, kept);
    /* The copy that is written again could be mistaken for a leftover. */
    if (!run->saves.save)
        eitp__checkpoint_clean(&run->host, run->directory, NULL);
    if (eitp__checkpoint_measure(&run->host, run->directory, limit, kept, EITP__KEPT_STEPS, &use, NULL) ||
        !use.prunable || eitp__checkpoint_prune(&run->host, run->directory, limit, kept, EITP__KEPT_STEPS, NULL))
        return 0;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                     "the disk of '%s' is full: removed the oldest %lld of %lld checkpoints (%s) before saving, rather "
                     "than afterwards",
                     run->directory, (long long)use.prunable, (long long)use.count,
                     eitp_format_bytes(use.prunable_bytes, size, sizeof size));
    return 1;
}

static void eitp__disk_wait(const eitp_run *run, double seconds) {
    for (; seconds > 0 && !run->stop; seconds -= EITP__DISK_SLICE)
        eitp__wait(&run->host, EITP__DISK_SLICE);
}

/* Frees space after a failed save, or waits. Returns 1 to try again. */
static int eitp__disk_tries_again(eitp_run *run, const eitp_error *error, int *waits) {
    static const int seconds[] = {1, 2, 4, 8, 15, 30};
    const int is_full = eitp__is_disk_full(error), most = is_full ? (int)EITP__COUNT(seconds) : 3;
    if (is_full && eitp__disk_make_room(run))
        return 1;
    if ((!is_full && !eitp__disk_may_pass(error)) || *waits >= most || run->stop)
        return 0;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0, "saving failed, retrying in %d s: %s", seconds[*waits],
                     error->message);
    eitp__disk_wait(run, seconds[(*waits)++]);
    return 1;
}

/* Formats the missing space, such as "; 1.2 MB are missing: ...", or "" if unknown. */
static const char *eitp__disk_missing(const eitp_run *run, const eitp_error *error, char *text, size_t size) {
    uint64_t total, largest, free_bytes, limit;
    char missing[32], needs[32], has[32];
    *text = 0;
    eitp__trainer_checkpoint_size(run->trainer, &total, &largest);
    if (eitp__is_disk_full(error) && eitp__path_space(&run->host, run->directory, &free_bytes, &limit) &&
        free_bytes < total)
        snprintf(text, size, "; %s are missing: a checkpoint needs %s, and %s are free",
                 eitp_format_bytes(total - free_bytes, missing, sizeof missing),
                 eitp_format_bytes(total, needs, sizeof needs), eitp_format_bytes(free_bytes, has, sizeof has));
    return text;
}

/* Adds the missing space and the checkpoint to resume from to an error. A system failure is reported as an I/O error,
   never as a bad argument. */
static eitp_status eitp__disk_fail(const eitp_run *run, eitp_status status, eitp_error *error) {
    const eitp_error cause = *error;
    const int64_t saved = run->report.saved_step;
    char room[160];
    if (!cause.system_code)
        return status;
    eitp__disk_missing(run, &cause, room, sizeof room);
    if (run->checkpoint && saved == run->report.start_step)
        eitp__fail(error, EITP_ERROR_IO, "%.300s%s; resume from '%s'", cause.message, room, run->checkpoint);
    else if (saved >= 0)
        eitp__fail(error, EITP_ERROR_IO, "%.300s%s; resume from '%s/checkpoint-%lld'", cause.message, room,
                   run->directory, (long long)saved);
    else
        eitp__fail(error, EITP_ERROR_IO, "%.300s%s; there is no checkpoint to resume from", cause.message, room);
    error->system_code = cause.system_code;
    return EITP_ERROR_IO;
}

static eitp_status eitp__disk_save(eitp_run *run, const eitp__save_options *options, eitp_error *error) {
    eitp_status status;
    int waits = 0;
    do
        status = eitp__trainer_save(run->trainer, run->directory, options, error);
    while (status && eitp__disk_tries_again(run, error, &waits));
    return status ? eitp__disk_fail(run, status, error) : EITP_OK;
}

static eitp_status eitp__disk_repeat(eitp_run *run, eitp__save *save, eitp_error *error) {
    eitp_status status;
    int waits = 0;
    do {
        status = eitp__save_repeat(save, error);
        if (!status)
            status = eitp__save_commit(save, error);
    } while (status && eitp__disk_tries_again(run, error, &waits));
    return status;
}

/* ---- The observer ---- */

static eitp_status eitp__disk_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp_status status;
    (void)state;
    if (!eitp__steps_remain(run))
        return EITP_OK;
    status = eitp__disk_check(run, error);
    run->stage = status ? EITP__RUN_REFUSED : run->stage;
    return status;
}

EITP__PRIVATE void eitp__disk_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->begin = eitp__disk_begin;
}

/* ---- In the background ---- */

/* True if the copy is allocated, or fits without making memory short. */
static int eitp__copy_has_memory(const eitp_run *run, uint64_t bytes) {
    eitp_memory_info info;
    if (run->saves.queue || run->config.memory_check_seconds < 0)
        return 1;
    return !eitp_memory_info_read(&run->host, &info, NULL) &&
           (!info.usable || info.left > bytes + eitp__memory_floor(&info));
}

/* True if the next save may be written in the background: there is memory for a copy, and steps follow. */
static int eitp__async_save_fits(const eitp_run *run) {
    const int is_last = run->is_ending || eitp_trainer_steps_done(run->trainer) == run->report.steps;
    uint64_t bytes, largest, free_bytes, limit;
    if (!run->config.async_save_bytes || is_last || run->saves.async_has_failed)
        return 0;
    eitp__trainer_checkpoint_size(run->trainer, &bytes, &largest);
    if (bytes > run->config.async_save_bytes || !eitp__copy_has_memory(run, bytes))
        return 0;
    /* A synchronous save removes old checkpoints from a disk that is full. */
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

/* Copies a checkpoint of the steps done, and starts to write it. `began`: when the save started. */
static eitp_status eitp__async_save_begin(eitp_run *run, const eitp__save_options *options, double began,
                                          eitp_error *error) {
    eitp__run_saves *saves = &run->saves;
    eitp_status status = EITP_OK;
    if (!saves->queue) /* released because memory was short */
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

/* Drops the save. Its step can still be saved if it is the last one. */
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

/* A failure does not end the run. The copy is written again; if that fails too, the current step is saved. The run
   waits for both, with several attempts. */
static void eitp__async_save_complete(eitp_run *run) {
    eitp__run_saves *saves = &run->saves;
    const double now = eitp__clock();
    const int64_t step = eitp__save_step(saves->save);
    eitp_error error;
    eitp_status status = eitp__save_commit(saves->save, &error);
    if (status && eitp__save_can_repeat(saves->save)) {
        eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                         "checkpoint-%lld could not be written in the background: %s; writing it again",
                         (long long)step, error.message);
        status = eitp__disk_repeat(run, saves->save, &error);
    }
    if (!status) {
        eitp__async_save_succeed(run, step, now);
        return;
    }
    saves->async_has_failed = run->save = 1;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld could not be written: %s; saving the current step", (long long)step,
                     error.message);
    eitp__async_save_drop(run, "it could not be written");
}

EITP__PRIVATE void eitp__async_save_finish(eitp_run *run) {
    if (run->saves.save)
        eitp__async_save_complete(run);
}

EITP__PRIVATE void eitp__async_save_release(eitp_run *run) {
    eitp__run_saves *saves = &run->saves;
    /* Without more attempts, which would keep the memory for long. */
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

/* ---- Checkpoints ---- */

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

/* Writes a checkpoint while the run waits. */
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

/* Writes a checkpoint of the last step, or starts to. */
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
    /* If a background save cannot start, the run waits for the save, with its attempts. */
    if (!may_be_async || !eitp__async_save_fits(run) || eitp__async_save_begin(run, &options, began, error))
        status = eitp__run_write_waiting(run, &options, began, &waited, error);
    if (status)
        return status;
    eitp__run_saved(run, is_counted, waited);
    return EITP_OK;
}

/* Formats the checkpoint that a resume would pick. */
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

/* True if the model may be saved under a name that a resume would pick. If the model is damaged, reports it once until
   it recovers; at the end of the run, the error reports it. */
static int eitp__run_may_save(eitp_run *run) {
    const eitp__assessment assessment = eitp__run_assess(run);
    const int is_reported = run->saves.was_refused || run->is_ending;
    char good[400];
    if (assessment.verdict == EITP__MODEL_DAMAGED && !is_reported) {
        eitp__describe_last_good(run, good, sizeof good);
        eitp__run_notify(run, EITP_EVENT_NOT_SAVED, EITP_LOG_WARNING, 0,
                         "not saving checkpoints until the model recovers: %s; %s", assessment.why, good);
    }
    if (assessment.verdict != EITP__MODEL_UNKNOWN)
        run->saves.was_refused = assessment.verdict == EITP__MODEL_DAMAGED;
    return assessment.verdict == EITP__MODEL_GOOD;
}

EITP__PRIVATE eitp_status eitp__run_save(eitp_run *run, eitp_error *error) {
    eitp_status status;
    run->save = !eitp__run_may_save(run);
    if (run->save) /* after the next step, if it may be saved then */
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
    if (done == 0 || run->report.saved_step == done || eitp_trainer_is_inconsistent(run->trainer))
        return EITP_OK;
    status = eitp__run_write_checkpoint(run, eitp__save_is_counted(run, done), 0, error);
    eitp__run_checkpoints_changed(run);
    return status;
}

/* Writes the checkpoint. The result of an earlier attempt is removed first: while it is being replaced, a crash would
   leave it under a name that looks like a checkpoint's. */
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

EITP__PRIVATE eitp_status eitp__run_save_damaged(eitp_run *run, eitp_error *error) {
    static const char suffix[] = ".diverged";
    const eitp__assessment assessment = eitp__run_assess(run);
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
    run->report.end = assessment.end;
    eitp__describe_last_good(run, good, sizeof good);
    return eitp__fail(error, EITP_ERROR_NOT_FINITE, "%s; %s; lower the learning rate (now %.3g)%s%s", assessment.why,
                      good, run->report.step.learning_rate, is_kept ? "; the model is kept as " : "",
                      is_kept ? name : "");
}

/* ---- Pruning ---- */

/* The last save of a run that was asked to stop removes no other checkpoint, so that it does not take long. */
static void eitp__prune_checkpoints_changed(eitp_run *run, void *state) {
    int *has_failed = (int *)state; /* a failure was reported */
    int64_t kept[EITP__KEPT_STEPS];
    eitp_error error;
    eitp_status status;
    if (run->report.end == EITP_RUN_STOPPED)
        return;
    eitp__run_list_kept(run, kept);
    status = eitp__checkpoint_clean(&run->host, run->directory, &error);
    if (!status)
        status = eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit, kept,
                                        EITP__KEPT_STEPS, &error);
    if (status && !*has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, "%s; old checkpoints stay until the next save",
                         error.message);
    *has_failed = run->prune_is_due = status != EITP_OK;
}

EITP__PRIVATE void eitp__prune_observer(eitp__observer *observer) {
    observer->state_size = sizeof(int);
    observer->needs_checkpoints = 1;
    observer->checkpoints_changed = eitp__prune_checkpoints_changed;
}

/* ---- Requests of the program ---- */

static eitp_status eitp__program_write_files(const eitp_run *run, const void *state, const char *directory,
                                             eitp_error *error) {
    (void)state;
    return run->config.save ? run->config.save(run->config.save_user, directory, error) : EITP_OK;
}

static int64_t eitp__program_keeps(const eitp_run *run, const void *state) {
    (void)state;
    return run->kept_step;
}

EITP__PRIVATE void eitp__program_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->write_files = eitp__program_write_files;
    observer->keeps = eitp__program_keeps;
}
