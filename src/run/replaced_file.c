#include "run/replaced_file.h"

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

/* What eitp__replace_file does, without the texts that it allocates: a thread calls it too. */
EITP__PRIVATE eitp_status eitp__replaced_file_write(eitp__replaced_file *replaced, eitp_error *error) {
    const eitp_files *files = &replaced->host.files;
    const eitp__buffer *text = &replaced->text;
    size_t at = 0;
    void *file = NULL;
    int code = text->failed ? ENOMEM : files->open(files->user, replaced->temporary, EITP_FILE_REPLACE, &file);
    const int is_open = !code;
    while (!code && at < text->size) {
        size_t done = 0;
        code = files->write(files->user, file, at, text->data + at, text->size - at, &done);
        at += done;
    }
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

EITP__PRIVATE void eitp__replaced_file_give(eitp__replaced_file *file) {
    if (!file->worker && eitp__worker_create(&file->host, 1, &file->worker, NULL))
        return;
    file->job = eitp__worker_submit(file->worker, eitp__replaced_file_job, file);
}

EITP__PRIVATE void eitp__replaced_file_await(eitp__replaced_file *file) {
    eitp__worker_destroy(file->worker);
    file->worker = NULL;
    file->job = 0;
}

EITP__PRIVATE eitp_status eitp__replaced_file_store(eitp__replaced_file *file, eitp_error *error) {
    if (file->text.failed)
        return eitp__fail_memory(error, file->text.size, file->path);
    return eitp__replace_file(&file->host, file->path, file->text.data, file->text.size, error);
}

EITP__PRIVATE void eitp__replaced_file_release(eitp__replaced_file *file) {
    eitp__replaced_file_await(file);
    eitp__buffer_release(&file->text);
    eitp__release_text(&file->host, file->path);
    eitp__release_text(&file->host, file->temporary);
    file->path = file->temporary = NULL;
}
