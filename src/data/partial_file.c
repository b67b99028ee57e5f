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

EITP__PRIVATE eitp_status eitp__partial_file_open(eitp__partial_file *partial, const eitp_host *host, const char *path,
                                                  eitp_error *error) {
    eitp__buffer name;
    eitp_status status;
    memset(partial, 0, sizeof *partial);
    partial->host = host;
    eitp__buffer_init(&name, host);
    eitp__buffer_add_text(&name, path);
    eitp__buffer_add_text(&name, ".partial");
    if (!name.failed)
        partial->partial_path = eitp__copy_text(host, name.data);
    eitp__buffer_release(&name);
    partial->path = eitp__copy_text(host, path);
    if (!partial->partial_path || !partial->path)
        return eitp__fail_memory(error, strlen(path), "the path of a file");
    status = eitp__file_open(&partial->file, host, partial->partial_path, EITP_FILE_REPLACE, error);
    partial->exists = status == EITP_OK;
    return status;
}

/* Syncs the directory of `path`, so that the rename is durable. */
static eitp_status eitp__partial_file_sync_directory(const eitp_host *host, const char *path, eitp_error *error) {
    char *directory = eitp__parent_directory(host, path);
    if (!directory)
        return eitp__fail_memory(error, strlen(path), "the path of a file");
    eitp_status status = eitp__sync_directory(host, directory, error);
    eitp__release_text(host, directory);
    return status;
}

EITP__PRIVATE eitp_status eitp__partial_file_commit(eitp__partial_file *partial, eitp_error *error) {
    eitp_status status = eitp__file_sync(&partial->file, error);
    if (status == EITP_OK)
        status = eitp__file_close(&partial->file, error);
    if (status == EITP_OK)
        status = eitp__rename_path(partial->host, partial->partial_path, partial->path, error);
    if (status != EITP_OK)
        return status;
    partial->exists = 0;
    return eitp__partial_file_sync_directory(partial->host, partial->path, error);
}

EITP__PRIVATE void eitp__partial_file_release(eitp__partial_file *partial) {
    const eitp_host *host = partial->host;
    if (!host)
        return;
    eitp__file_close(&partial->file, NULL);
    if (partial->exists)
        host->files.remove(host->files.user, partial->partial_path);
    eitp__release_text(host, partial->path);
    eitp__release_text(host, partial->partial_path);
    memset(partial, 0, sizeof *partial);
}
