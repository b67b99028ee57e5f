#include "records/replaced_file.h"

EITP__PRIVATE eitp_status eitp__replaced_file_init(eitp__replaced_file *file, const eitp_host *host,
                                                   const char *directory, const char *name, eitp_error *error) {
    char temporary[80];
    memset(file, 0, sizeof *file);
    file->host = *host;
    eitp__buffer_init(&file->text, &file->host);
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    file->path = eitp__join_path(host, directory, name);
    file->temporary = eitp__join_path(host, directory, temporary);
    if (file->path && file->temporary)
        return EITP_OK;
    eitp__replaced_file_release(file);
    return eitp__fail_memory(error, strlen(directory) + sizeof temporary, "a path");
}

/* Prepares part number `part` of the content in the text; 0: there are no more. */
static int eitp__replaced_file_next(eitp__replaced_file *file, size_t part) {
    if (!file->part)
        return !part;
    eitp__buffer_clear(&file->text);
    return file->part(file->user, part, &file->text);
}

/* Writes the text from *offset on. Returns 0 or an errno value. */
static int eitp__replaced_file_add(eitp__replaced_file *replaced, void *file, uint64_t *offset) {
    const eitp_files *files = &replaced->host.files;
    const eitp__buffer *text = &replaced->text;
    int code = text->failed ? ENOMEM : 0;
    for (size_t at = 0, done; !code && at < text->size; at += done, *offset += done) {
        done = 0;
        code = files->write(files->user, file, *offset, text->data + at, text->size - at, &done);
    }
    return code;
}

/* Like eitp__replace_file, but without allocating strings: a thread calls it too. */
EITP__PRIVATE eitp_status eitp__replaced_file_write(eitp__replaced_file *replaced, eitp_error *error) {
    const eitp_files *files = &replaced->host.files;
    uint64_t offset = 0;
    void *file = NULL;
    int code = files->open(files->user, replaced->temporary, EITP_FILE_REPLACE, &file);
    const int is_open = !code;
    for (size_t part = 0; !code && eitp__replaced_file_next(replaced, part); part++)
        code = eitp__replaced_file_add(replaced, file, &offset);
    if (is_open && files->close(files->user, file) && !code)
        code = EIO;
    if (!code)
        code = files->rename(files->user, replaced->temporary, replaced->path);
    return code ? eitp__fail(error, EITP_ERROR_IO, "cannot write '%s'", replaced->path) : EITP_OK;
}

static eitp_status eitp__replaced_file_job(void *argument, eitp_error *error) {
    return eitp__replaced_file_write((eitp__replaced_file *)argument, error);
}

EITP__PRIVATE int eitp__replaced_file_is_idle(eitp__replaced_file *file) {
    if (!file->job)
        return 1;
    if (!eitp__worker_wait_briefly(file->worker, file->job, 0))
        return 0;
    eitp__worker_finish(file->worker, NULL);
    file->job = 0;
    return 1;
}

EITP__PRIVATE void eitp__replaced_file_submit(eitp__replaced_file *file) {
    if (!file->worker && eitp__worker_create(&file->host, 1, &file->worker, NULL))
        return;
    file->job = eitp__worker_submit(file->worker, eitp__replaced_file_job, file);
}

EITP__PRIVATE void eitp__replaced_file_await(eitp__replaced_file *file) {
    eitp__worker_destroy(file->worker);
    file->worker = NULL;
    file->job = 0;
}

/* Writes and syncs all parts to the temporary file. */
static eitp_status eitp__replaced_file_write_parts(eitp__replaced_file *replaced, eitp_error *error) {
    eitp__file file = EITP__ZERO;
    uint64_t offset = 0;
    eitp_status status = eitp__file_open(&file, &replaced->host, replaced->temporary, EITP_FILE_REPLACE, error);
    for (size_t part = 0; !status && eitp__replaced_file_next(replaced, part); part++) {
        const eitp__buffer *text = &replaced->text;
        status = text->failed ? eitp__fail_memory(error, text->size, replaced->path)
                              : eitp__file_write(&file, offset, text->data, text->size, error);
        offset += text->size;
    }
    if (!status)
        status = eitp__file_sync(&file, error);
    return eitp__file_close(&file, status ? NULL : error) && !status ? EITP_ERROR_IO : status;
}

EITP__PRIVATE eitp_status eitp__replaced_file_store(eitp__replaced_file *file, eitp_error *error) {
    const eitp_host *host = &file->host;
    eitp_status status;
    if (!file->part)
        return file->text.failed ? eitp__fail_memory(error, file->text.size, file->path)
                                 : eitp__replace_file(host, file->path, file->text.data, file->text.size, error);
    status = eitp__replaced_file_write_parts(file, error);
    if (!status)
        status = eitp__rename_path(host, file->temporary, file->path, error);
    if (status)
        host->files.remove(host->files.user, file->temporary);
    return status ? status : eitp__sync_parent(host, file->path, error);
}

EITP__PRIVATE void eitp__replaced_file_release(eitp__replaced_file *file) {
    eitp__replaced_file_await(file);
    eitp__buffer_release(&file->text);
    eitp__release_text(&file->host, file->path);
    eitp__release_text(&file->host, file->temporary);
    file->path = file->temporary = NULL;
}
