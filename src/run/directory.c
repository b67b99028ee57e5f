#include "run/directory.h"

#include "base/files.h"
#include "io/checkpoint.h"
#include "records/summary.h"
#include "run/internal.h"
#include "run/set.h"
#include "run/sinks.h"
#include "train/trainer.h"

/* ---- Reserved disk space ---- */

#define EITP__RESERVE_FILE ".eitp.reserve"

/* Fills a buffer with numbers that a file system cannot compress: compressed space would not be available later. */
static void eitp__reserve_fill(unsigned char *data, size_t size) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data[i] = (unsigned char)state;
    }
}

/* Writes the reserve without syncing it: after a power failure no run needs it. */
static eitp_status eitp__reserve_write(const eitp_host *host, const char *path, const unsigned char *data) {
    eitp__file file = EITP__ZERO;
    eitp_status status = eitp__file_open(&file, host, path, EITP_FILE_REPLACE, NULL), closed;
    if (!status)
        status = eitp__file_write(&file, 0, data, EITP__RESERVE_BYTES, NULL);
    closed = eitp__file_close(&file, NULL);
    return status ? status : closed;
}

EITP__PRIVATE void eitp__disk_reserve_create(const eitp_run *run) {
    const eitp_host *host = &run->host;
    char *path = eitp__join_path(host, run->directory, EITP__RESERVE_FILE);
    unsigned char *data = (unsigned char *)eitp__allocate(host, EITP__RESERVE_BYTES);
    if (data)
        eitp__reserve_fill(data, EITP__RESERVE_BYTES);
    if (path && data && eitp__reserve_write(host, path, data))
        host->files.remove(host->files.user, path);
    eitp__release(host, data, EITP__RESERVE_BYTES);
    eitp__release_text(host, path);
}

EITP__PRIVATE void eitp__reserve_release(const eitp_run *run) {
    const eitp_files *files = &run->host.files;
    char *path = eitp__join_path(&run->host, run->directory, EITP__RESERVE_FILE);
    if (path)
        files->remove(files->user, path);
    eitp__release_text(&run->host, path);
}

/* ---- The links latest_model and best_model ---- */

EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step) {
    eitp_path_info info = EITP__ZERO;
    char name[64], *path;
    int is_missing;
    if (step < 0)
        return 0;
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    path = eitp__join_path(&run->host, run->directory, name);
    is_missing = path && !eitp__path_info(&run->host, path, &info, NULL) && info.kind != EITP_PATH_DIRECTORY;
    eitp__release_text(&run->host, path);
    return !is_missing;
}

/* Returns the kind of a path without failing. Dangling links, and paths that cannot be examined, count as missing. */
static eitp_path_kind eitp__kind_of(const eitp_run *run, const char *path) {
    eitp_path_info info = EITP__ZERO;
    return eitp__path_info(&run->host, path, &info, NULL) ? EITP_PATH_MISSING : info.kind;
}

/* Replaces the link at `path` through a temporary one. Directories and files of that name are left alone. */
static int eitp__replace_link(const eitp_run *run, const char *target, const char *path, const char *temporary) {
    const eitp_files *files = &run->host.files;
    const eitp_path_kind kind = eitp__kind_of(run, path);
    int code;
    if (kind == EITP_PATH_FILE || kind == EITP_PATH_OTHER)
        return EEXIST;
    files->remove(files->user, temporary);
    code = files->link(files->user, target, temporary);
    if (code)
        return code;
    code = files->rename(files->user, temporary, path);
    if (code)
        files->remove(files->user, temporary);
    return code;
}

/* Links `name` to the checkpoint of a step, or removes a dangling link. Returns an errno. */
static int eitp__link_checkpoint(const eitp_run *run, const char *name, const char *temporary_name, int64_t step) {
    const eitp_files *files = &run->host.files;
    char target[64], *path = eitp__join_path(&run->host, run->directory, name);
    char *temporary = eitp__join_path(&run->host, run->directory, temporary_name);
    int code = path && temporary ? 0 : ENOMEM, is_there;
    snprintf(target, sizeof target, "checkpoint-%lld", (long long)step);
    is_there = !code && eitp__run_has_checkpoint(run, step);
    if (is_there)
        code = eitp__replace_link(run, target, path, temporary);
    /* It belongs to an older run, or points to a checkpoint that will be removed. A directory with files in it
       stays. */
    if (path && (!is_there || (code && code != EEXIST)) && eitp__kind_of(run, path) != EITP_PATH_FILE)
        files->remove(files->user, path);
    eitp__release_text(&run->host, path);
    eitp__release_text(&run->host, temporary);
    return code;
}

typedef struct eitp__links {
    int have_failed; /* the failure was reported */
    int are_late;    /* the last attempt failed */
} eitp__links;

EITP__PRIVATE void eitp__run_update_links(eitp_run *run) {
    const eitp_files *files = &run->host.files;
    eitp__links *links = (eitp__links *)run->states[EITP__OBSERVER_LINKS];
    int code, best_code;
    if (!files->link)
        return;
    code = eitp__link_checkpoint(run, EITP__LATEST_LINK, "." EITP__LATEST_LINK ".partial", run->report.saved_step);
    best_code = eitp__link_checkpoint(run, EITP__BEST_LINK, "." EITP__BEST_LINK ".partial",
                                      run->keep_best ? run->report.best_step : -1);
    code = code ? code : best_code;
    /* Before their old targets are removed: otherwise a power failure may leave dangling links. */
    if (!code)
        code = files->sync_directory(files->user, run->directory);
    if (code && !links->have_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "cannot create the links %s and %s in '%s': %s; the run continues without them",
                         EITP__LATEST_LINK, EITP__BEST_LINK, run->directory, strerror(code));
    links->have_failed |= code != 0;
    links->are_late = code != 0;
}

/* Flags for the links that dangle. */
typedef struct eitp__dangling_links {
    int latest, best;
} eitp__dangling_links;

static int eitp__find_links(void *user, const char *name) {
    eitp__dangling_links *found = (eitp__dangling_links *)user;
    found->latest |= !strcmp(name, EITP__LATEST_LINK);
    found->best |= !strcmp(name, EITP__BEST_LINK);
    return 0;
}

static int eitp__leads_to_nothing(const eitp_run *run, const char *name) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(&run->host, run->directory, name);
    const int is_nothing = path && !eitp__path_info(&run->host, path, &info, NULL) && info.kind == EITP_PATH_MISSING;
    eitp__release_text(&run->host, path);
    return is_nothing;
}

/* Repairs dangling links before the run trains. latest_model is redirected to the checkpoint of step `newest`, or
   removed if that is -1; best_model is removed. */
static void eitp__run_repair_links(const eitp_run *run, int64_t newest) {
    const eitp_files *files = &run->host.files;
    eitp__dangling_links found = EITP__ZERO;
    if (!files->link || files->list(files->user, run->directory, eitp__find_links, &found))
        return;
    if (found.latest && eitp__leads_to_nothing(run, EITP__LATEST_LINK))
        eitp__link_checkpoint(run, EITP__LATEST_LINK, "." EITP__LATEST_LINK ".partial", newest);
    if (found.best && eitp__leads_to_nothing(run, EITP__BEST_LINK))
        eitp__link_checkpoint(run, EITP__BEST_LINK, "." EITP__BEST_LINK ".partial", -1);
}

/* ---- The observer ---- */

static eitp_status eitp__links_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)state, (void)error;
    if (run->checkpoint)
        eitp__run_update_links(run);
    return EITP_OK;
}

static void eitp__links_checkpoints_changed(eitp_run *run, void *state) {
    (void)state;
    eitp__run_update_links(run);
}

/* Retries: the obstacle at the last save may be gone. */
static void eitp__links_end(eitp_run *run, void *state) {
    if (((const eitp__links *)state)->are_late)
        eitp__run_update_links(run);
}

EITP__PRIVATE void eitp__links_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__links);
    observer->end = eitp__links_end;
    observer->needs_checkpoints = 1;
    observer->begin = eitp__links_begin;
    observer->checkpoints_changed = eitp__links_checkpoints_changed;
}

#define EITP__WRITE_TEST ".eitp.partial"
#define EITP__DAMAGED_SIZE 64 /* of the name of a damaged checkpoint */

/* ---- Creating the directory ---- */

EITP__PRIVATE void eitp__run_remove_directories(eitp_run *run) {
    eitp__remove_directories(&run->host, run->directory, run->lock.created);
    run->lock.created = 0;
}

static eitp_status eitp__run_make_directory(eitp_run *run, eitp_error *error) {
    int missing = 0;
    eitp_status status = eitp__count_missing(&run->host, run->directory, &missing, error);
    if (!status) {
        run->lock.created = missing;
        status = eitp__make_directories(&run->host, run->directory, error);
    }
    /* A process that was killed may have created the directory without syncing its name. */
    if (!status)
        status = eitp__sync_parent(&run->host, run->directory, error);
    if (status && status != EITP_ERROR_MEMORY && error && !strstr(error->message, run->directory))
        eitp__fail_prefix(error, status, "'%s'", run->directory);
    return status;
}

/* Locks the directory. EITP_ERROR_ARGUMENT if another process has the lock. */
static eitp_status eitp__run_lock(eitp_run *run, eitp_error *error) {
    const eitp_files *files = &run->host.files;
    eitp_path_info info = EITP__ZERO;
    int code = files->lock ? files->lock(files->user, run->directory, &run->lock.handle) : 0;
    run->lock.is_held = files->lock && !code;
    run->lock.identity = files->info(files->user, run->directory, &info) ? 0 : info.identity;
    if (code != EWOULDBLOCK)
        return EITP_OK;
    run->lock.created = 0; /* it belongs to the other process */
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "another process is training in '%s'; wait for it or choose another directory", run->directory);
}

EITP__PRIVATE void eitp__run_unlock(eitp_run *run) {
    const eitp_files *files = &run->host.files;
    if (run->lock.is_held && files->unlock)
        files->unlock(files->user, run->lock.handle);
    run->lock.is_held = 0;
}

/*
 * ---- The checkpoint ----
 *
 * It is chosen by verifying all of its files except the tensor files, which are verified when the trainer reads them,
 * so that they are read once. If one of those is damaged, all files of this and older checkpoints are verified to
 * choose again.
 */

/* Sets the checkpoint to one in the run's directory, or to none if `newest` is -1. */
static eitp_status eitp__run_use_newest(eitp_run *run, int64_t newest, eitp_error *error) {
    char name[64], *path = NULL;
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)newest);
    if (newest >= 0)
        path = eitp__join_path(&run->host, run->directory, name);
    if (newest >= 0 && !path)
        return eitp__fail_memory(error, strlen(run->directory) + sizeof name, "a path");
    eitp__release_text(&run->host, run->checkpoint);
    run->config.checkpoint = run->checkpoint = path;
    run->checkpoint_step = newest;
    return EITP_OK;
}

/* Verifies the checkpoint that the program has named. */
static eitp_status eitp__run_verify_named(eitp_run *run, eitp__verified verified, eitp_error *error) {
    eitp__checkpoint_head head = EITP__ZERO;
    eitp_status status = eitp__checkpoint_verify(&run->host, run->checkpoint, verified, &head, error);
    if (!status)
        run->checkpoint_step = head.step;
    return status == EITP_ERROR_FORMAT ? eitp__fail_advice(error, status, "resume from another checkpoint") : status;
}

static eitp_status eitp__run_use_named(eitp_run *run, const char *checkpoint, eitp_error *error) {
    run->checkpoint = eitp__copy_text(&run->host, checkpoint);
    return run->checkpoint ? eitp__run_verify_named(run, EITP__VERIFY_OTHERS, error)
                           : eitp__fail_memory(error, strlen(checkpoint), "a path");
}

/* True if both files exist and seem to be the same, by size and time: eitp_files provides no better identity. */
static int eitp__is_same_file(const eitp_host *host, const char *a, const char *b) {
    eitp_path_info first = EITP__ZERO, second = EITP__ZERO;
    return a && b && !eitp__path_info(host, a, &first, NULL) && !eitp__path_info(host, b, &second, NULL) &&
           first.kind == EITP_PATH_FILE && second.kind == EITP_PATH_FILE && first.size == second.size &&
           first.modified == second.modified;
}

/* True if the checkpoint is in the run's directory, even if its path differs. */
static int eitp__is_own_checkpoint(const eitp_run *run) {
    const eitp_host *host = &run->host;
    char name[96], *own, *other;
    int same;
    snprintf(name, sizeof name, "checkpoint-%lld/trainer_state.json", (long long)run->checkpoint_step);
    own = eitp__join_path(host, run->directory, name);
    other = eitp__join_path(host, run->checkpoint, "trainer_state.json");
    same = eitp__is_same_file(host, own, other);
    eitp__release_text(host, own);
    eitp__release_text(host, other);
    return same;
}

/* Checks that the run overwrites no checkpoints of another run. */
static eitp_status eitp__run_check_other(const eitp_run *run, int64_t newest, eitp_error *error) {
    int is_own;
    if (newest < 0)
        return EITP_OK;
    if (!run->checkpoint)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' already has checkpoint-%lld; resume from it or choose another directory",
                          run->directory, (long long)newest);
    is_own = eitp__is_own_checkpoint(run);
    if (!is_own || newest > run->checkpoint_step)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has checkpoint-%lld of %s; choose another directory or remove it", run->directory,
                          (long long)newest, is_own ? "later steps" : "another run");
    return EITP_OK;
}

/* Stores the name of a damaged checkpoint. */
static int eitp__take_damaged(void *user, const char *name) {
    char *found = (char *)user;
    if (!*found && !strncmp(name, "checkpoint-", sizeof "checkpoint-" - 1) && strstr(name, ".damaged"))
        snprintf(found, EITP__DAMAGED_SIZE, "%s", name);
    return 0;
}

/* Fails if all checkpoints are damaged: the run does not start from step 0 unless told to. */
static eitp_status eitp__run_check_damaged(const eitp_run *run, eitp_error *error) {
    char found[EITP__DAMAGED_SIZE] = "";
    run->host.files.list(run->host.files.user, run->directory, eitp__take_damaged, found);
    return *found ? eitp__fail(error, EITP_ERROR_FORMAT,
                               "'%s' has only damaged checkpoints, such as '%s'; restore one from "
                               "a copy or choose another directory to start from step 0",
                               run->directory, found)
                  : EITP_OK;
}

static eitp_status eitp__run_find_newest(eitp_run *run, eitp__verified verified, eitp_error *error) {
    int64_t newest = -1;
    eitp_status status = eitp__checkpoint_recover(&run->host, run->directory, verified, &newest, error);
    if (!status)
        eitp__run_repair_links(run, newest);
    if (!status && newest < 0)
        status = eitp__run_check_damaged(run, error);
    return status || newest == run->checkpoint_step ? status : eitp__run_use_newest(run, newest, error);
}

EITP__PRIVATE eitp_status eitp__run_recover(eitp_run *run, eitp_error *error) {
    return run->config.resume == EITP_RESUME_NEWEST ? eitp__run_find_newest(run, EITP__VERIFY_ALL, error)
                                                    : eitp__run_verify_named(run, EITP__VERIFY_ALL, error);
}

EITP__PRIVATE void eitp__run_end_prefetch(eitp_run *run) {
    eitp__prefetch_destroy(run->prefetch);
    run->prefetch = NULL;
}

EITP__PRIVATE eitp_status eitp__run_try_resume(eitp_run *run, eitp_trainer *trainer, int *is_replaced,
                                               eitp_error *error) {
    const int64_t step = run->checkpoint_step;
    eitp_error why;
    eitp_status recovered, status = eitp__trainer_resume(trainer, run->checkpoint, 1, error);
    *is_replaced = 0;
    /* Damage may also appear as tensors of another model or of an unknown dtype. */
    if (status != EITP_ERROR_FORMAT && status != EITP_ERROR_UNSUPPORTED)
        return status;
    recovered = eitp__run_recover(run, &why);
    if (recovered && error)
        *error = why;
    *is_replaced = !recovered && run->checkpoint_step != step;
    return recovered ? recovered : status;
}

static eitp_status eitp__run_find_start(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    int64_t newest = -1;
    eitp_status status;
    if (config->resume == EITP_RESUME_NEWEST)
        return eitp__run_find_newest(run, EITP__VERIFY_OTHERS, error);
    status = eitp__checkpoint_restore(&run->host, run->directory, error);
    if (!status)
        status = eitp_checkpoint_newest(&run->host, run->directory, &newest, error);
    if (!status && config->resume == EITP_RESUME_NAMED)
        status = eitp__run_use_named(run, config->checkpoint, error);
    return status ? status : eitp__run_check_other(run, newest, error);
}

/* ---- Leftovers ---- */

/* True for the names of temporary files in the directory of a run. */
static int eitp__is_temporary(const char *name) {
    static const char *const names[] = {"best.json.tmp",          "run.json.tmp",          EITP__SUMMARY_FILE ".tmp",
                                        "run.json.partial",       ".latest_model.partial", ".best_model.partial",
                                        EITP__RESERVE_FILE,       EITP__WRITE_TEST,        EITP__SET_REQUEST,
                                        EITP__SET_REQUEST ".tmp", EITP__SET_TAKEN,         EITP__SET_ANSWER,
                                        EITP__SET_ANSWER ".tmp"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (!strcmp(name, names[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__run_clean(const eitp_run *run, eitp_error *error) {
    const eitp_host *host = &run->host;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = eitp_checkpoint_prune(host, run->directory, 0, error);
    eitp__buffer_init(&names, host);
    if (!status)
        status = eitp__list_directory(host, run->directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        char *path = eitp__is_temporary(name) ? eitp__join_path(host, run->directory, name) : NULL;
        if (path)
            status = eitp__remove_tree(host, path, error);
        else if (eitp__is_temporary(name))
            status = eitp__fail_memory(error, strlen(name), "a path");
        at += strlen(name) + 1;
        eitp__release_text(host, path);
    }
    eitp__buffer_release(&names);
    return status;
}

/* Checks that files can be written, by writing one and removing it. A full disk is accepted here, because pruning may
   free space; eitp__disk_check decides. */
static eitp_status eitp__run_check_writable(const eitp_run *run, eitp_error *error) {
    static const char content[] = "a test for write access\n";
    char *path = eitp__join_path(&run->host, run->directory, EITP__WRITE_TEST);
    eitp_error why;
    eitp_status status = path ? eitp__write_file(&run->host, path, content, sizeof content - 1, &why)
                              : eitp__fail_memory(&why, strlen(run->directory), "a path");
    if (path)
        run->host.files.remove(run->host.files.user, path);
    eitp__release_text(&run->host, path);
    if (status && eitp__is_disk_full(&why))
        return EITP_OK;
    if (status && error)
        *error = why;
    return status;
}

static eitp_status eitp__run_take_directory(eitp_run *run, eitp_error *error) {
    const eitp_status status = eitp__run_make_directory(run, error);
    return status ? status : eitp__run_lock(run, error);
}

static eitp_status eitp__run_ready_directory(const eitp_run *run, eitp_error *error) {
    const eitp_status status = eitp__run_check_writable(run, error);
    return status ? status : eitp__run_clean(run, error);
}

EITP__PRIVATE eitp_status eitp__run_prepare_directory(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp_status status = eitp__run_take_directory(run, error);
    if (!status)
        status = eitp__run_find_start(run, config, error);
    if (!status)
        status = eitp__run_ready_directory(run, error);
    if (!status && run->checkpoint)
        run->prefetch = eitp__trainer_prefetch(&run->host, run->checkpoint);
    return status;
}

/* Checks that the directory has no checkpoint of later steps: its records would be discarded. */
static eitp_status eitp__run_check_later(const eitp_run *run, int64_t done, eitp_error *error) {
    int64_t newest = -1;
    eitp_status status = eitp__checkpoint_restore(&run->host, run->directory, error);
    if (!status)
        status = eitp_checkpoint_newest(&run->host, run->directory, &newest, error);
    return status || newest <= done
               ? status
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has checkpoint-%lld, but the trainer is at step %lld; resume it from that "
                            "checkpoint or choose another directory",
                            run->directory, (long long)newest, (long long)done);
}

EITP__PRIVATE eitp_status eitp__run_prepare_watched_directory(eitp_run *run, int64_t done, eitp_error *error) {
    eitp_status status = eitp__run_take_directory(run, error);
    if (!status)
        status = eitp__run_check_later(run, done, error);
    return status ? status : eitp__run_ready_directory(run, error);
}

/* ---- A directory that is removed or replaced during training ---- */

/* True if the path has another directory now. The locked directory is still open, so its identity cannot be reused. */
static int eitp__is_replaced(const eitp_run *run, const eitp_path_info *info) {
    return info->identity && run->lock.identity && info->identity != run->lock.identity;
}

EITP__PRIVATE eitp_status eitp__run_restore_directory(eitp_run *run, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(&run->host, run->directory, &info, error);
    if (status || (info.kind != EITP_PATH_MISSING && !eitp__is_replaced(run, &info)))
        return status;
    status = eitp__make_directories(&run->host, run->directory, error);
    if (status)
        return status;
    eitp__run_unlock(run);
    status = eitp__run_lock(run, error);
    if (!status)
        status = eitp__sinks_replace_reports(run, error);
    if (status)
        return status;
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     info.kind == EITP_PATH_MISSING
                         ? "'%s' was removed, with its checkpoints and records; it is recreated, and the run "
                           "continues"
                         : "'%s' was replaced by another directory, without the run's checkpoints and records; the run "
                           "continues in it",
                     run->directory);
    EITP__EACH_OBSERVER (run, i, directory_replaced) {
        run->observers[i].directory_replaced(run, run->states[i]);
    }
    return EITP_OK;
}
