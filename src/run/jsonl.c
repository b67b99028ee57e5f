/* A file of records in JSON lines. */
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "run/run.h"

#define EITP__JSONL_PIECE ((size_t)65536)
#define EITP__JSONL_SECONDS 1.0
#define EITP__JSONL_MOST_FAILURES 6                /* after which the time between two writes no longer doubles */
#define EITP__JSONL_MOST_PENDING ((size_t)1 << 20) /* bytes of records kept while they cannot be written */

struct eitp_jsonl {
    eitp_host host;
    eitp__file file;
    uint64_t offset;       /* bytes in the file */
    eitp__buffer line;     /* the record being added */
    eitp__buffer pending;  /* records to be written */
    int64_t pending_count; /* their number */
    int64_t dropped;       /* number of records that were not kept */
    int failures;          /* writes in a row that failed */
    double tried;          /* time of the last write that failed */
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
    eitp__buffer_init(&created->line, &created->host);
    eitp__buffer_init(&created->pending, &created->host);
    status = eitp__file_open(&created->file, &created->host, path, EITP_FILE_UPDATE, error);
    if (!status)
        status = eitp__file_size(&created->file, &created->offset, error);
    if (status) {
        eitp__file_close(&created->file, NULL);
        eitp__release(host, created, sizeof *created);
        return status;
    }
    *jsonl = created;
    return EITP_OK;
}

/* ---- Resuming ---- */

/* The step of a record; -1 if it has none. An evaluation has a value of validation first. */
static int64_t eitp__jsonl_step(const char *line, int *is_evaluation) {
    static const char name[] = "{\"step\": ", value[] = ", \"val_";
    char *end = NULL;
    int64_t step;
    *is_evaluation = 0;
    if (strncmp(line, name, sizeof name - 1) != 0)
        return -1;
    step = strtoll(line + sizeof name - 1, &end, 10);
    *is_evaluation = !strncmp(end, value, sizeof value - 1);
    return step;
}

/* The bytes of the complete records in records[0, size) up to the first one after `step`; *more is 0 if there is such
   a record. */
static size_t eitp__jsonl_kept(const char *records, size_t size, int64_t step, int *more, int *evaluated) {
    size_t kept = 0;
    for (;;) {
        const char *line = records + kept, *end = (const char *)memchr(line, '\n', size - kept);
        int is_evaluation;
        int64_t found;
        if (!end)
            return kept;
        found = eitp__jsonl_step(line, &is_evaluation);
        *more = found >= 0 && found <= step;
        if (!*more)
            return kept;
        *evaluated = found == step && (is_evaluation || *evaluated);
        kept = (size_t)(end - records) + 1;
    }
}

static eitp_status eitp__jsonl_find_end(eitp_jsonl *jsonl, int64_t step, int *evaluated, eitp_error *error) {
    char *piece = (char *)eitp__allocate(&jsonl->host, EITP__JSONL_PIECE + 1);
    eitp_status status = EITP_OK;
    int more = 1, found = 0;
    size_t kept = 1;
    if (!piece)
        return eitp__fail_memory(error, EITP__JSONL_PIECE, "records");
    jsonl->offset = 0;
    while (!status && more && kept) {
        size_t done = 0;
        status = eitp__file_read_some(&jsonl->file, jsonl->offset, piece, EITP__JSONL_PIECE, &done, error);
        piece[done] = 0;
        kept = status ? 0 : eitp__jsonl_kept(piece, done, step, &more, &found);
        jsonl->offset += kept;
    }
    *evaluated |= found;
    eitp__release(&jsonl->host, piece, EITP__JSONL_PIECE + 1);
    return status;
}

static eitp_status eitp__jsonl_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    eitp_jsonl *jsonl = (eitp_jsonl *)user;
    eitp_status status;
    eitp__buffer_clear(&jsonl->pending);
    jsonl->pending_count = jsonl->dropped = 0;
    status = eitp__jsonl_find_end(jsonl, step, evaluated, error);
    return status ? status : eitp__file_resize(&jsonl->file, jsonl->offset, error);
}

/* ---- Writing ---- */

static eitp_status eitp__jsonl_write(eitp_jsonl *jsonl, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (jsonl->pending.size)
        status = eitp__file_write(&jsonl->file, jsonl->offset, jsonl->pending.data, jsonl->pending.size, error);
    if (status) {
        jsonl->failures++;
        jsonl->tried = eitp__clock();
        /* Readers should not find half a record. */
        eitp__file_resize(&jsonl->file, jsonl->offset, NULL);
        return status;
    }
    jsonl->failures = 0;
    jsonl->offset += jsonl->pending.size;
    jsonl->pending_count = 0;
    eitp__buffer_clear(&jsonl->pending);
    return EITP_OK;
}

/* Adds the line to the records to be written. */
static eitp_status eitp__jsonl_keep(eitp_jsonl *jsonl, eitp_error *error) {
    const size_t size = jsonl->pending.size + jsonl->line.size;
    if (size > EITP__JSONL_MOST_PENDING && jsonl->failures)
        return eitp__fail(error, EITP_ERROR_IO, "'%s' still cannot be written", jsonl->file.path);
    if (!jsonl->line.failed)
        eitp__buffer_add(&jsonl->pending, jsonl->line.data, jsonl->line.size);
    if (jsonl->line.failed || jsonl->pending.failed) {
        jsonl->pending.failed = 0; /* its content is unchanged */
        return eitp__fail_memory(error, size, "records");
    }
    jsonl->pending_count++;
    return EITP_OK;
}

static void eitp__jsonl_add_value(eitp__buffer *text, const eitp_value *value) {
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_text(text, value->name, strlen(value->name));
    eitp__buffer_add_text(text, ": ");
    if (value->kind == EITP_VALUE_INTEGER)
        eitp__buffer_format(text, "%lld", (long long)value->integer);
    else if (value->kind == EITP_VALUE_BOOLEAN)
        eitp__buffer_add_text(text, value->integer ? "true" : "false");
    else if (value->kind == EITP_VALUE_TEXT)
        eitp__json_write_text(text, value->text, strlen(value->text));
    else
        eitp__json_write_number(text, value->number);
}

/* Each record is written at once; after failures the time between two attempts doubles. */
static int eitp__jsonl_is_due(const eitp_jsonl *jsonl) {
    const int doublings =
        jsonl->failures < EITP__JSONL_MOST_FAILURES ? jsonl->failures - 1 : EITP__JSONL_MOST_FAILURES - 1;
    return !jsonl->failures || eitp__clock() - jsonl->tried >= EITP__JSONL_SECONDS * (double)(1 << doublings);
}

static eitp_status eitp__jsonl_record(void *user, const eitp_record *record, eitp_error *error) {
    eitp_jsonl *jsonl = (eitp_jsonl *)user;
    eitp__buffer *text = &jsonl->line;
    eitp_status status;
    eitp__buffer_clear(text);
    eitp__buffer_format(text, "{\"step\": %lld", (long long)record->step);
    for (size_t i = 0; i < record->count; i++)
        eitp__jsonl_add_value(text, &record->values[i]);
    eitp__buffer_add_text(text, "}\n");
    status = eitp__jsonl_keep(jsonl, error);
    jsonl->dropped += status != EITP_OK;
    if (eitp__jsonl_is_due(jsonl)) {
        const eitp_status written = eitp__jsonl_write(jsonl, error);
        return status ? status : written;
    }
    if (!status && jsonl->failures)
        status = eitp__fail(error, EITP_ERROR_IO, "'%s' still cannot be written", jsonl->file.path);
    return status;
}

/* What is kept and was never tried will be stored. */
static int64_t eitp__jsonl_lost(void *user) {
    const eitp_jsonl *jsonl = (const eitp_jsonl *)user;
    return jsonl->dropped + (jsonl->failures ? jsonl->pending_count : 0);
}

static eitp_status eitp__jsonl_sync(void *user, eitp_error *error) {
    eitp_jsonl *jsonl = (eitp_jsonl *)user;
    eitp_status status = eitp__jsonl_write(jsonl, error);
    return status ? status : eitp__file_sync(&jsonl->file, error);
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
    if (!jsonl)
        return;
    eitp__jsonl_write(jsonl, NULL);
    eitp__file_close(&jsonl->file, NULL);
    eitp__buffer_release(&jsonl->line);
    eitp__buffer_release(&jsonl->pending);
    eitp_host host = jsonl->host;
    eitp__release(&host, jsonl, sizeof *jsonl);
}
