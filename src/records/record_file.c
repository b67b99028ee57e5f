#include "records/record_file.h"

EITP__PRIVATE eitp_status eitp__record_file_create(const eitp_host *host, const eitp__record_file_class *format,
                                                   eitp_record_file **file, eitp_error *error) {
    eitp_record_file *created = (eitp_record_file *)eitp__allocate(host, format->size);
    *file = NULL;
    if (!created)
        return eitp__fail_memory(error, format->size, "a file of records");
    created->host = *host;
    created->format = format;
    if (eitp__record_text_init(&created->text, &created->host)) {
        *file = created;
        return EITP_OK;
    }
    eitp_record_file_close(created);
    return eitp__fail_memory(error, EITP__RECORD_TEXT, "a file of records");
}

EITP__PRIVATE eitp_status eitp__record_file_open(eitp_record_file *file, const char *path, eitp_error *error) {
    file->path = eitp__copy_text(&file->host, path);
    return file->path ? eitp__queued_file_open(&file->host, path, &file->queue, error)
                      : eitp__fail_memory(error, strlen(path), "a path");
}

EITP__PRIVATE eitp_status eitp__record_file_opened(eitp_record_file **file, eitp_status status) {
    if (status) {
        eitp_record_file_close(*file);
        *file = NULL;
    }
    return status;
}

void eitp_record_file_close(eitp_record_file *file) {
    eitp_host host;
    size_t size;
    if (!file)
        return;
    host = file->host;
    size = file->format->size;
    eitp__queued_file_close(file->queue);
    if (file->format->close)
        file->format->close(file);
    eitp__buffer_release(&file->text);
    eitp__release_text(&host, file->path);
    eitp__release(&host, file, size);
}

/* ---- Resuming ---- */

static eitp_status eitp__record_file_find_end(eitp_record_file *file, int64_t step, eitp__record_keep keep,
                                              uint64_t *end, int *evaluated, eitp_error *error) {
    char *piece = (char *)eitp__allocate(&file->host, EITP__RECORD_PIECE + 1);
    eitp_status status = piece ? EITP_OK : eitp__fail_memory(error, EITP__RECORD_PIECE, "records");
    int more = step >= 0, found = 0;
    size_t kept = 1;
    while (!status && more && kept) {
        size_t done = 0;
        status = eitp__queued_file_read(file->queue, *end, piece, EITP__RECORD_PIECE, &done, error);
        piece[done] = 0;
        kept = status ? 0 : keep(file, piece, done, step, &more, &found);
        *end += kept;
    }
    *evaluated |= found;
    eitp__release(&file->host, piece, EITP__RECORD_PIECE + 1);
    return status;
}

EITP__PRIVATE eitp_status eitp__record_file_truncate(eitp_record_file *file, int64_t step, eitp__record_keep keep,
                                                     int *evaluated, eitp_error *error) {
    uint64_t end = 0;
    eitp_status status = eitp__queued_file_pause(file->queue, error);
    if (!status)
        status = eitp__record_file_find_end(file, step, keep, &end, evaluated, error);
    return status ? status : eitp__queued_file_cut(file->queue, end, error);
}

/* ---- The sink ---- */

static eitp_status eitp__record_file_record(void *user, const eitp_record *record, eitp_error *error) {
    eitp_record_file *file = (eitp_record_file *)user;
    return file->format->record(file, record, error);
}

static eitp_status eitp__record_file_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    eitp_record_file *file = (eitp_record_file *)user;
    file->refused = 0;
    return file->format->resume(file, step, evaluated, error);
}

static eitp_status eitp__record_file_sync(void *user, eitp_error *error) {
    return eitp__queued_file_sync(((eitp_record_file *)user)->queue, error);
}

static int64_t eitp__record_file_lost(void *user) {
    const eitp_record_file *file = (const eitp_record_file *)user;
    return eitp__queued_file_lost(file->queue) + file->refused;
}

eitp_record_sink eitp_record_file_sink(eitp_record_file *file) {
    eitp_record_sink sink = EITP__ZERO;
    if (!file)
        return sink;
    sink.user = file;
    sink.record = eitp__record_file_record;
    sink.resume = eitp__record_file_resume;
    if (file->queue) {
        sink.sync = eitp__record_file_sync;
        sink.lost = eitp__record_file_lost;
    }
    return sink;
}
