#include "records/record_file.h"
#include "records/record_line.h"
#include "task/task.h"

/* ---- Resuming ---- */

static size_t eitp__jsonl_keep(eitp_record_file *file, const char *records, size_t size, int64_t step, int *more,
                               int *found) {
    size_t kept = 0;
    (void)file;
    for (;;) {
        const char *begin = records + kept, *end = (const char *)memchr(begin, '\n', size - kept);
        eitp__record_line line;
        if (!end)
            return kept;
        line = eitp__record_line_read(begin, (size_t)(end - begin));
        *more = line.is_whole && line.step <= step;
        if (!*more)
            return kept;
        if (line.step == step)
            *found |= line.is_evaluation * EITP__RECORDED_EVALUATION | line.is_spot * EITP__RECORDED_SPOT;
        else if (line.step >= 0)
            *found = 0;
        kept = (size_t)(end - records) + 1;
    }
}

static eitp_status eitp__jsonl_resume(eitp_record_file *file, int64_t step, int *evaluated, eitp_error *error) {
    return eitp__record_file_truncate(file, step, eitp__jsonl_keep, evaluated, error);
}

/* ---- Writing ---- */

/* Fails unless a string is a JSON object on one line without a step, so that a resume finds the line's own step. */
static eitp_status eitp__jsonl_check_object(const char *text, eitp_error *error) {
    const size_t size = strlen(text);
    const eitp__record_line line = eitp__record_line_read(text, size);
    if (size > EITP_MAX_DESCRIPTION)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the description of an evaluation has %zu bytes; at most %d fit",
                          size, EITP_MAX_DESCRIPTION);
    return line.is_whole && line.step < 0
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the description of an evaluation must be a JSON object on one line, without \"step\"");
}

EITP__PRIVATE eitp_status eitp__jsonl_add(eitp_record_file *file, const eitp_record *record, const char *const *objects,
                                          size_t count, eitp_error *error) {
    eitp__buffer *text = &file->text;
    for (size_t i = 0; i < count; i++) {
        if (objects[i] && eitp__jsonl_check_object(objects[i], error)) {
            file->refused++;
            return EITP_ERROR_ARGUMENT;
        }
    }
    eitp__buffer_clear(text);
    eitp__record_write(text, record, objects, count);
    eitp__buffer_add_text(text, "\n");
    return eitp__queued_file_append_text(file->queue, text, error);
}

static eitp_status eitp__jsonl_record(eitp_record_file *file, const eitp_record *record, eitp_error *error) {
    return eitp__jsonl_add(file, record, NULL, 0, error);
}

/* ---- Opening ---- */

static const eitp__record_file_class eitp__jsonl_format = {sizeof(eitp_record_file), eitp__jsonl_record,
                                                           eitp__jsonl_resume, NULL};

eitp_status eitp_jsonl_open(const eitp_host *host, const char *path, eitp_record_file **file, eitp_error *error) {
    eitp_status status;
    if (!host || !path || !file)
        return eitp__fail_null(error, "eitp_jsonl_open", "host, path and file");
    status = eitp__record_file_create(host, &eitp__jsonl_format, file, error);
    if (!status)
        status = eitp__record_file_open(*file, path, error);
    return eitp__record_file_opened(file, status);
}

/* While a record is added, its line is as long as its values and objects, and its buffer grows by half. */
EITP__PRIVATE size_t eitp__jsonl_bytes(size_t objects) {
    const size_t line = EITP__RECORD_TEXT_MAX + 5 * objects * EITP_MAX_DESCRIPTION / 2;
    return sizeof(eitp_record_file) + eitp__queued_file_bytes() +
           (line > EITP__RECORD_PIECE ? line : EITP__RECORD_PIECE + 1);
}
