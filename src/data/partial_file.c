#include "data/partial_file.h"

EITP__PRIVATE eitp_status eitp__partial_file_check(const eitp_host *host, const char *path, const char *what,
                                                   eitp_error *error) {
    eitp_path_info output = EITP__ZERO;
    eitp_status status = eitp__path_info(host, path, &output, error);
    if (status == EITP_OK && output.kind != EITP_PATH_MISSING && output.kind != EITP_PATH_FILE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: exists and is not a file; choose another name for the %s",
                          path, what);
    return status;
}

/* ---- The lock ---- */

static eitp_status eitp__partial_file_fail(const eitp__partial_file *partial, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "another process is writing to '%s'; wait for it, or choose another name", partial->path);
}

/* Locks the file at the partial file's path. Failures are ignored, unless another process holds the lock. */
static eitp_status eitp__partial_file_lock(const eitp__partial_file *partial, void **lock, int *has_lock,
                                           eitp_error *error) {
    const eitp_files *files = &partial->host->files;
    const int code = files->lock ? files->lock(files->user, partial->partial_path, lock) : 0;
    *has_lock = files->lock && !code;
    return code == EWOULDBLOCK ? eitp__partial_file_fail(partial, error) : EITP_OK;
}

static void eitp__partial_file_unlock(const eitp__partial_file *partial, void *lock, int has_lock) {
    const eitp_files *files = &partial->host->files;
    if (has_lock && files->unlock)
        files->unlock(files->user, lock);
}

/* Fails if another file is at the partial file's path by now: a process that started at the same instant removed this
   one. */
static eitp_status eitp__partial_file_check_own(eitp__partial_file *partial, eitp_error *error) {
    const eitp_files *files = &partial->host->files;
    eitp_path_info own = EITP__ZERO, found = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!partial->has_lock || !files->file_info || files->file_info(files->user, partial->file.handle, &own))
        return EITP_OK;
    status = eitp__path_info(partial->host, partial->partial_path, &found, error);
    if (status || found.identity == own.identity)
        return status;
    partial->exists = 0;
    return eitp__partial_file_fail(partial, error);
}

/* ---- The file ---- */

static eitp_status eitp__partial_file_name(eitp__partial_file *partial, const char *path, eitp_error *error) {
    eitp__buffer name;
    eitp__buffer_init(&name, partial->host);
    eitp__buffer_add_text(&name, path);
    eitp__buffer_add_text(&name, ".partial");
    if (!name.failed)
        partial->partial_path = eitp__copy_text(partial->host, name.data);
    eitp__buffer_release(&name);
    partial->path = eitp__copy_text(partial->host, path);
    return partial->partial_path && partial->path ? EITP_OK
                                                  : eitp__fail_memory(error, strlen(path), "the path of a file");
}

/* Creates the file and locks it. */
static eitp_status eitp__partial_file_create(eitp__partial_file *partial, eitp_error *error) {
    eitp_status status =
        eitp__file_open(&partial->file, partial->host, partial->partial_path, EITP_FILE_REPLACE, error);
    if (status)
        return status;
    status = eitp__partial_file_lock(partial, &partial->lock, &partial->has_lock, error);
    partial->exists = !status; /* otherwise another process considers it a leftover, and removes it */
    return status ? status : eitp__partial_file_check_own(partial, error);
}

EITP__PRIVATE eitp_status eitp__partial_file_open(eitp__partial_file *partial, const eitp_host *host, const char *path,
                                                  eitp_error *error) {
    void *earlier = NULL;
    int has_earlier = 0;
    eitp_status status;
    memset(partial, 0, sizeof *partial);
    partial->host = host;
    status = eitp__partial_file_name(partial, path, error);
    if (!status)
        status = eitp__partial_file_lock(partial, &earlier, &has_earlier, error);
    if (!status)
        status = eitp__partial_file_create(partial, error);
    eitp__partial_file_unlock(partial, earlier, has_earlier);
    return status;
}

EITP__PRIVATE eitp_status eitp__partial_file_commit(eitp__partial_file *partial, eitp_error *error) {
    eitp_status status = eitp__partial_file_check_own(partial, error);
    if (status == EITP_OK)
        status = eitp__file_sync(&partial->file, error);
    if (status == EITP_OK)
        status = eitp__file_close(&partial->file, error);
    if (status == EITP_OK)
        status = eitp__rename_path(partial->host, partial->partial_path, partial->path, error);
    if (status != EITP_OK)
        return status;
    partial->exists = 0;
    return eitp__sync_parent(partial->host, partial->path, error);
}

EITP__PRIVATE void eitp__partial_file_release(eitp__partial_file *partial) {
    const eitp_host *host = partial->host;
    if (!host)
        return;
    eitp__file_close(&partial->file, NULL);
    if (partial->exists)
        host->files.remove(host->files.user, partial->partial_path);
    eitp__partial_file_unlock(partial, partial->lock, partial->has_lock);
    eitp__release_text(host, partial->path);
    eitp__release_text(host, partial->partial_path);
    memset(partial, 0, sizeof *partial);
}
