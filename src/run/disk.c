/* The disk of a run. */
#include "run/disk.h"

#include "base/files.h"
#include "base/status.h"
#include "io/checkpoint.h"
#include "run/events.h"
#include "run/run_schedule.h"

/* Number of files that a save, and what a program does beside it, open at once. Those of data are open already. */
#define EITP__DISK_FILES 4

/* Seconds between two attempts to be interrupted by a request to stop. */
#define EITP__DISK_SLICE 0.1

/* Number of the newest checkpoints that stay when a new one needs room: it will be one of save_total_limit. The newest
   stays in any case. 0: all. */
static int64_t eitp__disk_limit(const eitp_run *run) {
    const int64_t limit = run->config.save_total_limit;
    return limit > 1 ? limit - 1 : limit;
}

/* ---- Before the first step ---- */

/* Opens as many files as a save. */
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
    /* The room is checked with figures. */
    if (status && eitp__is_disk_full(error))
        return EITP_OK;
    return status && status != EITP_ERROR_MEMORY
               ? eitp__fail_prefix(error, status, "saving a checkpoint opens %d files at once", EITP__DISK_FILES)
               : status;
}

/* Number of checkpoints that the run will write at most; INT64_MAX: unknown. */
static int64_t eitp__disk_saves(const eitp_run *run) {
    const eitp_run_config *config = &run->config;
    if (config->save_seconds > 0 || config->save_epochs > 0 || run->keep_best)
        return INT64_MAX;
    if (!config->save_steps)
        return 1;
    return run->report.steps ? (run->report.steps - run->report.start_step) / config->save_steps + 1 : INT64_MAX;
}

/* Number of checkpoints that will be in the directory at once: a new one is written before an old one is removed, the
   best one is kept in addition, and one may be written when the run is stopped. */
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
                     "the disk of '%s' has %s free, and checkpoints will need %s: up to %lld of %s each, of which %lld "
                     "exist; free some space, or the run may end early",
                     run->directory, eitp_format_bytes(free_bytes, has, sizeof has),
                     eitp_format_bytes((uint64_t)needed, needs, sizeof needs), (long long)most,
                     eitp_format_bytes(size, each, sizeof each), (long long)use->count);
}

/* Fails with EITP_ERROR_IO if a checkpoint cannot be written: the disk has no room for one, the limit of file sizes is
   below its largest file, or too few files can be open at once. Warns if later checkpoints will need more room. */
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
                          "a checkpoint has a file of %s, and the files of this process may have %s at most; raise the "
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
                          "a checkpoint needs %s, and the disk of '%s' has room for %s; free some space, or choose "
                          "another directory",
                          eitp_format_bytes(size, needs, sizeof needs), run->directory,
                          eitp_format_bytes(room, has, sizeof has));
    eitp__disk_warn(run, size, free_bytes, &use);
    return EITP_OK;
}

/* ---- Saves that fail ---- */

/* True for failures that may pass within a minute. The whole checkpoint is written again: after a failed sync the
   system may have dropped what was written. */
static int eitp__disk_may_pass(const eitp_error *error) {
    const int code = error->system_code;
    return code == EIO || code == EAGAIN || code == EINTR || code == ETIMEDOUT || code == ENFILE || code == EMFILE;
}

/* Removes the checkpoints that would be removed after the save; returns 1 if there were any. */
static int eitp__disk_make_room(eitp_run *run) {
    const int64_t limit = eitp__disk_limit(run);
    int64_t kept[EITP__KEPT_STEPS];
    eitp__checkpoint_use use;
    char size[32];
    eitp__run_list_kept(run, kept);
    /* What looks like a leftover may be the copy that is written again. */
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

/* After a save that failed: makes room, or waits; returns 1 to try again. */
static int eitp__disk_tries_again(eitp_run *run, const eitp_error *error, int *waits) {
    static const int seconds[] = {1, 2, 4, 8, 15, 30};
    const int is_full = eitp__is_disk_full(error), most = is_full ? (int)EITP__COUNT(seconds) : 3;
    if (is_full && eitp__disk_make_room(run))
        return 1;
    if ((!is_full && !eitp__disk_may_pass(error)) || *waits >= most || run->stop)
        return 0;
    eitp__run_notify(run, EITP_EVENT_DISK, EITP_LOG_WARNING, 0, "saving failed, trying again in %d s: %s",
                     seconds[*waits], error->message);
    eitp__disk_wait(run, seconds[(*waits)++]);
    return 1;
}

/* "; 1.2 MB are missing: ...", or "" if unknown. */
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

/* Adds the room that is missing, and the checkpoint to resume from. A failure of the system is reported as an I/O
   error, never as a bad argument. */
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

EITP__PRIVATE eitp_status eitp__disk_save(eitp_run *run, const eitp__save_options *options, eitp_error *error) {
    eitp_status status;
    int waits = 0;
    do
        status = eitp__trainer_save(run->trainer, run->directory, options, error);
    while (status && eitp__disk_tries_again(run, error, &waits));
    return status ? eitp__disk_fail(run, status, error) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__disk_repeat(eitp_run *run, eitp__save *save, eitp_error *error) {
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
