#include "command_metrics.h"

#include "command_files.h"
#include "command_process.h"

static eitp_status metrics_fail(metrics_file *m, int code, eitp_error *error) {
    return files_fail(error, code, "write", m->path);
}

/* The step of a record, -1 where it has none. */
static int64_t record_step(const char *line) {
    static const char name[] = "{\"step\": ";
    return strncmp(line, name, sizeof name - 1) ? -1 : strtoll(line + sizeof name - 1, NULL, 10);
}

/*
 * How many bytes of whole records to keep there are in records[0 .. size); *more is 0 where the next is not to be kept.
 */
static size_t records_kept(metrics_file *m, const char *records, size_t size, int64_t step, int *more) {
    size_t kept = 0;
    for (;;) {
        const char *line = records + kept, *end = (const char *)memchr(line, '\n', size - kept);
        const char *loss = end ? strstr(line, "\"val_loss\"") : NULL;
        int64_t found;
        if (!end)
            return kept;
        found = record_step(line);
        *more = found >= 0 && found <= step;
        if (!*more)
            return kept;
        m->evaluated = found == step && ((loss && loss < end) || m->evaluated);
        kept = (size_t)(end - records) + 1;
    }
}

/* Finds the end of what belongs to this run, and cuts the file there. */
static eitp_status metrics_cut(metrics_file *m, int64_t step, eitp_error *error) {
    enum { PIECE = 65536 };
    char *piece = (char *)command_allocate(PIECE + 1);
    int more = 1, code = 0;
    size_t kept = 1;
    while (!code && more && kept) {
        size_t done = 0;
        code = m->host.files.read(m->host.files.user, m->file, m->offset, piece, PIECE, &done);
        piece[done] = 0;
        kept = code ? 0 : records_kept(m, piece, done, step, &more);
        m->offset += kept;
    }
    if (!code)
        code = m->host.files.resize(m->host.files.user, m->file, m->offset);
    free(piece);
    return code ? metrics_fail(m, code, error) : EITP_OK;
}

eitp_status metrics_open(metrics_file *m, const char *path, int64_t step, eitp_error *error) {
    int code;
    memset(m, 0, sizeof *m);
    m->host = command_host();
    m->path = command_copy(path);
    m->made = files_info(path).kind == EITP_PATH_MISSING;
    code = m->host.files.open(m->host.files.user, path, step < 0 ? EITP_FILE_REPLACE : EITP_FILE_UPDATE, &m->file);
    if (code) {
        m->file = NULL;
        return metrics_fail(m, code, error);
    }
    return step < 0 ? EITP_OK : metrics_cut(m, step, error);
}

static eitp_status metrics_write(metrics_file *m, eitp_error *error) {
    size_t at = 0;
    int code = 0;
    while (at < m->waiting.size && !code) {
        size_t done = 0;
        code = m->host.files.write(m->host.files.user, m->file, m->offset, m->waiting.data + at, m->waiting.size - at,
                                   &done);
        if (!code && !done)
            code = EIO;
        at += done;
        m->offset += done;
    }
    m->waiting.size = 0;
    m->written = process_time();
    return code ? metrics_fail(m, code, error) : EITP_OK;
}

eitp_status metrics_add(metrics_file *m, const text_buffer *record, eitp_error *error) {
    text_add(&m->waiting, record->data, record->size);
    text_add(&m->waiting, "\n", 1);
    return process_time() - m->written < 1 ? EITP_OK : metrics_write(m, error);
}

eitp_status metrics_sync(metrics_file *m, eitp_error *error) {
    eitp_status status = metrics_write(m, error);
    int code = status ? 0 : m->host.files.sync(m->host.files.user, m->file);
    return code ? metrics_fail(m, code, error) : status;
}

void metrics_close(metrics_file *m) {
    eitp_error error;
    if (m->file) {
        metrics_write(m, &error);
        m->host.files.close(m->host.files.user, m->file);
    }
    text_release(&m->waiting);
    free(m->path);
    memset(m, 0, sizeof *m);
}
