#include "run/jsonl.h"

#include "run/record_line.h"
#include "run/record_text.h"

/* Bytes that a resume reads at a time: more than the longest record, which has two descriptions. */
#define EITP__JSONL_PIECE ((size_t)262144)

struct eitp_jsonl {
    eitp_host host;
    eitp__record_file *file;
    eitp__buffer line; /* the record being added */
    int64_t refused;   /* records that were not written because of their objects */
};

eitp_status eitp_jsonl_open(const eitp_host *host, const char *path, eitp_jsonl **jsonl, eitp_error *error) {
    eitp_jsonl *created;
    eitp_status status;
    if (!host || !path || !jsonl)
        return eitp__fail_null(error, "eitp_jsonl_open", "host, path and jsonl");
    *jsonl = NULL;
    created = (eitp_jsonl *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a file of records");
    created->host = *host;
    status = eitp__record_text_init(&created->line, &created->host)
                 ? eitp__record_file_open(&created->host, path, &created->file, error)
                 : eitp__fail_memory(error, EITP__RECORD_TEXT, "a file of records");
    if (status)
        eitp_jsonl_close(created);
    else
        *jsonl = created;
    return status;
}

/* A line is as long while it is added to as its values and objects are, and its buffer grows by half. */
EITP__PRIVATE size_t eitp__jsonl_bytes(size_t objects) {
    const size_t line = EITP__RECORD_TEXT_MOST + 5 * objects * EITP_MAX_DESCRIPTION / 2;
    return sizeof(eitp_jsonl) + eitp__record_file_bytes() + (line > EITP__JSONL_PIECE ? line : EITP__JSONL_PIECE + 1);
}

EITP__PRIVATE eitp__record_file *eitp__jsonl_file(eitp_jsonl *jsonl) {
    return jsonl->file;
}

/* ---- Resuming ---- */

/* The bytes of the complete records in records[0, size) up to the first one after `step`; *more is 0 if there is such
   a record. The text is followed by a zero byte. */
static size_t eitp__jsonl_kept(const char *records, size_t size, int64_t step, int *more, int *evaluated) {
    size_t kept = 0;
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
            *evaluated |= line.is_evaluation * EITP__RECORDED_EVALUATION | line.is_spot * EITP__RECORDED_SPOT;
        else if (line.step >= 0)
            *evaluated = 0;
        kept = (size_t)(end - records) + 1;
    }
}

static eitp_status eitp__jsonl_find_end(eitp_jsonl *jsonl, int64_t step, uint64_t *end, int *evaluated,
                                        eitp_error *error) {
    char *piece = (char *)eitp__allocate(&jsonl->host, EITP__JSONL_PIECE + 1);
    eitp_status status = EITP_OK;
    int more = step >= 0, found = 0;
    size_t kept = 1;
    if (!piece)
        return eitp__fail_memory(error, EITP__JSONL_PIECE, "records");
    *end = 0;
    while (!status && more && kept) {
        size_t done = 0;
        status = eitp__record_file_read(jsonl->file, *end, piece, EITP__JSONL_PIECE, &done, error);
        piece[done] = 0;
        kept = status ? 0 : eitp__jsonl_kept(piece, done, step, &more, &found);
        *end += kept;
    }
    *evaluated |= found;
    eitp__release(&jsonl->host, piece, EITP__JSONL_PIECE + 1);
    return status;
}

static eitp_status eitp__jsonl_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    eitp_jsonl *jsonl = (eitp_jsonl *)user;
    uint64_t end = 0;
    eitp_status status = eitp__record_file_pause(jsonl->file, error);
    jsonl->refused = 0;
    if (!status)
        status = eitp__jsonl_find_end(jsonl, step, &end, evaluated, error);
    return status ? status : eitp__record_file_cut(jsonl->file, end, error);
}

/* ---- Writing ---- */

/* Fails unless a text can be a part of a line, whose steps a resume finds. */
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

EITP__PRIVATE eitp_status eitp__jsonl_add(eitp_jsonl *jsonl, const eitp_record *record, const char *const *objects,
                                          size_t count, eitp_error *error) {
    eitp__buffer *text = &jsonl->line;
    for (size_t i = 0; i < count; i++) {
        if (objects[i] && eitp__jsonl_check_object(objects[i], error)) {
            jsonl->refused++;
            return EITP_ERROR_ARGUMENT;
        }
    }
    eitp__buffer_clear(text);
    eitp__record_write(text, record, objects, count);
    eitp__buffer_add_text(text, "\n");
    return eitp__record_file_append_text(jsonl->file, text, error);
}

static eitp_status eitp__jsonl_record(void *user, const eitp_record *record, eitp_error *error) {
    return eitp__jsonl_add((eitp_jsonl *)user, record, NULL, 0, error);
}

static int64_t eitp__jsonl_lost(void *user) {
    const eitp_jsonl *jsonl = (const eitp_jsonl *)user;
    return eitp__record_file_lost(jsonl->file) + jsonl->refused;
}

static eitp_status eitp__jsonl_sync(void *user, eitp_error *error) {
    return eitp__record_file_sync(((eitp_jsonl *)user)->file, error);
}

eitp_record_sink eitp_jsonl_sink(eitp_jsonl *jsonl) {
    eitp_record_sink sink = EITP__ZERO;
    if (!jsonl)
        return sink;
    sink.user = jsonl;
    sink.record = eitp__jsonl_record;
    sink.resume = eitp__jsonl_resume;
    sink.sync = eitp__jsonl_sync;
    sink.lost = eitp__jsonl_lost;
    return sink;
}

void eitp_jsonl_close(eitp_jsonl *jsonl) {
    eitp_host host;
    if (!jsonl)
        return;
    host = jsonl->host;
    eitp__record_file_close(jsonl->file);
    eitp__buffer_release(&jsonl->line);
    eitp__release(&host, jsonl, sizeof *jsonl);
}
