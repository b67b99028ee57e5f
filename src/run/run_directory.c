#include "run/run_directory.h"

#include "base/files.h"
#include "run/run_loop.h"

EITP__PRIVATE char *eitp__parent_path(const eitp_host *host, const char *path) {
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    while (size && path[size - 1] != '/')
        size--;
    while (size > 1 && path[size - 1] == '/')
        size--;
    return size ? eitp__copy_bytes(host, path, size) : eitp__copy_text(host, ".");
}

/* ---- Creating it ---- */

/* Counts the missing directories of a path. */
static eitp_status eitp__count_missing(const eitp_host *host, const char *path, int *missing, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *parent;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (status || info.kind != EITP_PATH_MISSING)
        return status;
    ++*missing;
    parent = eitp__parent_path(host, path);
    if (!parent)
        return eitp__fail_memory(error, strlen(path), "the name of a directory");
    if (strcmp(parent, path) && strcmp(parent, "."))
        status = eitp__count_missing(host, parent, missing, error);
    eitp__release_text(host, parent);
    return status;
}

EITP__PRIVATE void eitp__run_remove_directories(eitp_run *run) {
    const eitp_host *host = &run->host;
    char *path = eitp__copy_text(host, run->directory);
    for (; path && run->created_directories > 0; run->created_directories--) {
        char *parent = eitp__parent_path(host, path);
        host->files.remove(host->files.user, path);
        eitp__release_text(host, path);
        path = parent;
    }
    eitp__release_text(host, path);
}

static eitp_status eitp__run_make_directory(eitp_run *run, eitp_error *error) {
    int missing = 0;
    eitp_status status = eitp__count_missing(&run->host, run->directory, &missing, error);
    if (!status) {
        run->created_directories = missing;
        status = eitp__make_directories(&run->host, run->directory, error);
    }
    if (status && status != EITP_ERROR_MEMORY && error && !strstr(error->message, run->directory))
        eitp__fail_prefix(error, status, "'%s'", run->directory);
    return status;
}

static eitp_status eitp__run_lock(eitp_run *run, eitp_error *error) {
    const eitp_files *files = &run->host.files;
    int code = files->lock ? files->lock(files->user, run->directory, &run->lock) : 0;
    run->has_lock = files->lock && !code;
    if (code != EWOULDBLOCK)
        return EITP_OK;
    run->created_directories = 0; /* it belongs to the other process */
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "another process is training in '%s'; wait for it, or choose another directory", run->directory);
}

EITP__PRIVATE void eitp__run_unlock(eitp_run *run) {
    const eitp_files *files = &run->host.files;
    if (run->has_lock && files->unlock)
        files->unlock(files->user, run->lock);
    run->has_lock = 0;
}

/* ---- The checkpoint ---- */

/* Sets the checkpoint to one in the run's directory. */
static eitp_status eitp__run_use_newest(eitp_run *run, int64_t newest, eitp_error *error) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)newest);
    run->checkpoint = eitp__join_path(&run->host, run->directory, name);
    run->checkpoint_step = newest;
    return run->checkpoint ? EITP_OK : eitp__fail_memory(error, strlen(run->directory) + sizeof name, "a path");
}

static eitp_status eitp__run_use_named(eitp_run *run, eitp_error *error) {
    eitp_checkpoint_info info;
    eitp_status status;
    run->checkpoint = eitp__copy_text(&run->host, run->config.checkpoint);
    if (!run->checkpoint)
        return eitp__fail_memory(error, strlen(run->config.checkpoint), "a path");
    status = eitp_checkpoint_read_info(&run->host, run->checkpoint, &info, error);
    run->checkpoint_step = status ? -1 : info.step;
    return status;
}

/* True if both files exist and seem to be the same, by size and time: eitp_files has no better identity of files. */
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
                          "'%s' already has checkpoint-%lld; resume from it, or choose another directory",
                          run->directory, (long long)newest);
    is_own = eitp__is_own_checkpoint(run);
    if (!is_own || newest > run->checkpoint_step)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' has checkpoint-%lld of %s; choose another directory, or remove it", run->directory,
                          (long long)newest, is_own ? "later steps" : "another run");
    return EITP_OK;
}

static eitp_status eitp__run_find_checkpoint(eitp_run *run, eitp_error *error) {
    int64_t newest;
    eitp_status status = eitp_checkpoint_newest(&run->host, run->directory, &newest, error);
    if (!status && run->config.resume == EITP_RESUME_NEWEST && newest >= 0)
        status = eitp__run_use_newest(run, newest, error);
    else if (!status && run->config.resume == EITP_RESUME_NAMED)
        status = eitp__run_use_named(run, error);
    return status ? status : eitp__run_check_other(run, newest, error);
}

/* Checks that files can be written, by writing one and removing it. A full disk is not refused yet: pruning may make
   room, which eitp__disk_check knows. */
static eitp_status eitp__run_check_writable(const eitp_run *run, eitp_error *error) {
    static const char content[] = "a test for write access\n";
    char *path = eitp__join_path(&run->host, run->directory, ".eitp.partial");
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

EITP__PRIVATE eitp_status eitp__run_prepare_directory(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_make_directory(run, error);
    if (!status)
        status = eitp__run_lock(run, error);
    if (!status)
        status = eitp__run_find_checkpoint(run, error);
    if (!status)
        status = eitp__run_check_writable(run, error);
    if (!status && run->checkpoint)
        status = eitp_checkpoint_prune(&run->host, run->directory, 0, error); /* only unfinished checkpoints */
    return status;
}
