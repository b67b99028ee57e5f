#include "data/text_files.h"

#include "base/log.h"
#include "data/documents.h"
#include "data/row_reader.h"
#include "data/text_layout.h"
#include "data/text_paths.h"
#include "data/sample_header.h"

struct eitp_text_files {
    eitp_host host;
    eitp__text_paths paths;
    eitp__text_reader reader;  /* of the current file, if it is text */
    eitp__documents documents; /* of that file, if lines separate them */
    eitp__row_reader rows;     /* if it is a table */
    eitp_text row;             /* the current row, or the first piece of a document; bytes NULL: it has been returned */
    uint64_t row_bytes;        /* of all rows of the current file */
    eitp__text_progress done;  /* of the files before the current one */
    uint64_t row_count, skipped_rows;
    int has_begun;
};

eitp_status eitp_text_files_open(const eitp_host *host, const eitp_text_files_config *config, eitp_text_files **out,
                                 eitp_error *error) {
    if (!host || !config || !out)
        return eitp__fail_null(error, "eitp_text_files_open", "host, config and out");
    *out = NULL;
    if (config->format == EITP_FORMAT_FOLDERS || config->format == EITP_FORMAT_CHAT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "format %s; read them with eitp_table, or set another format",
                          config->format == EITP_FORMAT_CHAT ? "CHAT is for conversations"
                                                             : "FOLDERS is for labelled text");
    eitp_text_files *files = (eitp_text_files *)eitp__allocate(host, sizeof *files);
    if (!files)
        return eitp__fail_memory(error, sizeof *files, "reading text files");
    files->host = *host;
    eitp_status status = eitp__text_paths_open(&files->paths, host, config, "eitp_text_files_open", error);
    if (status != EITP_OK) {
        eitp_text_files_close(files);
        return status;
    }
    *out = files;
    return EITP_OK;
}

void eitp_text_files_close(eitp_text_files *files) {
    if (!files)
        return;
    const eitp_host host = files->host;
    eitp__documents_release(&files->documents);
    eitp__text_reader_close(&files->reader);
    eitp__row_reader_close(&files->rows);
    eitp__text_paths_close(&files->paths);
    eitp__release(&host, files, sizeof *files);
}

uint64_t eitp_text_files_bytes(const eitp_text_files *files) {
    return files ? files->paths.total_bytes : 0;
}

/* ---- Documents ---- */

EITP__PRIVATE eitp__text_progress eitp__text_files_counts(const eitp_text_files *files) {
    eitp__text_progress counts = files->done;
    counts.file_bytes += files->reader.used_bytes + files->rows.reader.used_bytes;
    counts.text_bytes += files->row_bytes + eitp__text_reader_bytes(&files->reader);
    counts.invalid_bytes += eitp__text_reader_invalid(&files->reader) + eitp__text_reader_invalid(&files->rows.reader);
    return counts;
}

/* Closes the current file, if any. */
static void eitp__text_files_end(eitp_text_files *files) {
    files->done = eitp__text_files_counts(files);
    files->row_count += files->rows.count;
    files->skipped_rows += files->rows.skipped;
    files->row_bytes = 0;
    eitp__documents_release(&files->documents);
    eitp__text_reader_close(&files->reader);
    eitp__row_reader_close(&files->rows);
}

/* Detects whether lines separate the documents of the open file. */
static eitp_status eitp__text_files_divide(eitp_text_files *files, eitp_error *error) {
    char findings[EITP__FINDINGS_SIZE];
    eitp_text beginning;
    eitp__buffer decoded;
    eitp__buffer_init(&decoded, &files->host);
    const eitp_status status = eitp__text_reader_peek(&files->reader, &decoded, &beginning, error);
    const char *separator = NULL;
    if (status == EITP_OK)
        separator = eitp__find_document_separator(files->paths.document_separator, beginning);
    eitp__buffer_release(&decoded);
    if (!separator)
        return status;
    eitp__documents_init(&files->documents, &files->reader, separator);
    snprintf(findings, sizeof findings, "read with document_separator '%.60s'", separator);
    eitp__text_paths_say(&files->paths, findings);
    return EITP_OK;
}

/* Opens the current file of the walk as text; the reader stays closed if it is skipped. */
static eitp_status eitp__text_files_begin_text(eitp_text_files *files, eitp_error *error) {
    const char *path = files->paths.walk.path;
    eitp__text_reader *reader = &files->reader;
    eitp_sample_file_kind kind;
    eitp_status status = eitp__text_reader_open(reader, &files->host, path, &files->paths.how, error);
    if (status != EITP_OK)
        return status;
    if (reader->at == reader->end) {
        eitp__log_line(&files->host, EITP_LOG_WARNING, "%s: skipped, because it is empty", path);
        eitp__text_reader_close(reader);
        return EITP_OK;
    }
    if (!eitp__sample_kind_of((const unsigned char *)reader->raw, reader->end, &kind) ||
        kind != EITP_SAMPLE_FILE_TOKENS) {
        status = eitp__text_reader_check(reader, error);
        return status == EITP_OK ? eitp__text_files_divide(files, error) : status;
    }
    if (files->paths.walk.is_listed)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a token file, not text; give text files", path);
    /* In a directory it may be the token file being written. */
    eitp__log_line(&files->host, EITP_LOG_INFO, "%s: skipped, because it is a token file", path);
    eitp__text_reader_close(reader);
    return EITP_OK;
}

static eitp_status eitp__text_files_begin(eitp_text_files *files, eitp_error *error) {
    eitp__row_config config = EITP__ZERO;
    const eitp__path_walk *walk = &files->paths.walk;
    const char *path = walk->path;
    config.format = files->paths.format;
    if (config.format == EITP_FORMAT_AUTO)
        config.format = !walk->is_listed && !files->paths.json_rows && eitp__is_json_name(path)
                            ? EITP_FORMAT_TEXT
                            : eitp__format_of_name(path, EITP_FORMAT_TEXT);
    const eitp_status status = eitp__text_paths_check_format(&files->paths, config.format, error);
    if (status != EITP_OK)
        return status;
    if (config.format == EITP_FORMAT_TEXT)
        return eitp__text_files_begin_text(files, error);
    config.columns[EITP__COLUMN_TEXT] = files->paths.text_column;
    config.delimiter = files->paths.delimiter;
    config.skip_bad = files->paths.skip_bad;
    config.row_limit = EITP__ROW_LIMIT;
    return eitp__row_reader_open(&files->rows, &files->host, path, &files->paths.how, &config, error);
}

/* Reads the next row that is not empty; row.bytes is NULL after the last. */
static eitp_status eitp__text_files_next_row(eitp_text_files *files, eitp_error *error) {
    eitp_example example = EITP__ZERO;
    char findings[EITP__FINDINGS_SIZE];
    int is_end;
    do {
        eitp_status status = eitp__row_reader_next(&files->rows, &example, &is_end, error);
        if (status != EITP_OK)
            return status;
        eitp__row_reader_findings(&files->rows, findings, sizeof findings);
        eitp__text_paths_say(&files->paths, findings);
    } while (!is_end && !example.text.size);
    files->row.bytes = is_end ? NULL : example.text.bytes;
    files->row.size = example.text.size;
    files->row_bytes += is_end ? 0 : example.text.size;
    return EITP_OK;
}

/* Reads the first piece of the next document that is not empty; row.bytes is NULL after the last. */
static eitp_status eitp__text_files_next_document(eitp_text_files *files, eitp_error *error) {
    eitp_text piece = EITP__ZERO;
    do {
        const eitp_status status = eitp__documents_piece(&files->documents, &piece.bytes, &piece.size, error);
        if (status != EITP_OK)
            return status;
    } while (!piece.size && !files->documents.has_ended);
    piece.bytes = piece.size ? piece.bytes : NULL;
    files->row = piece;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error) {
    eitp_status status = EITP_OK;
    files->has_begun = 1;
    files->row.bytes = NULL;
    if (files->reader.host && !files->documents.separator)
        eitp__text_files_end(files);
    for (;;) {
        if (files->rows.reader.host)
            status = eitp__text_files_next_row(files, error);
        else if (files->documents.separator)
            status = eitp__text_files_next_document(files, error);
        if (status != EITP_OK)
            return status;
        if (files->row.bytes || (files->reader.host && !files->documents.separator))
            break;
        eitp__text_files_end(files);
        status = eitp__path_walk_next(&files->paths.walk, error);
        if (status == EITP_OK && !files->paths.walk.path)
            status = eitp__report_skipped_rows(&files->host, files->paths.paths[0], files->row_count,
                                               files->skipped_rows, error);
        else if (status == EITP_OK)
            status = eitp__text_files_begin(files, error);
        if (status != EITP_OK || !files->paths.walk.path)
            break;
    }
    if (status == EITP_OK)
        *path = files->paths.walk.path;
    return status;
}

EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error) {
    if (files->reader.host && !files->documents.separator)
        return eitp__text_reader_next(&files->reader, text, size, error);
    if (files->documents.separator && !files->row.bytes)
        return eitp__documents_piece(&files->documents, text, size, error);
    *text = files->row.bytes ? files->row.bytes : "";
    *size = files->row.bytes ? files->row.size : 0;
    files->row.bytes = NULL;
    return EITP_OK;
}

static eitp_status eitp__text_files_read(void *user, const char **text, size_t *size, eitp_error *error) {
    eitp_text_files *files = (eitp_text_files *)user;
    const char *path = NULL;
    eitp_status status = EITP_OK;
    if (!files)
        return eitp__fail_null(error, "eitp_text_files_source", "files");
    const int first = !files->has_begun;
    if (!first) {
        status = eitp__text_files_piece(files, text, size, error);
        if (status != EITP_OK || *size)
            return status;
    }
    status = eitp__text_files_next(files, &path, error);
    if (status != EITP_OK)
        return status;
    *size = 0;
    *text = path ? "" : NULL;
    return path && first ? eitp__text_files_piece(files, text, size, error) : EITP_OK;
}

eitp_text_source eitp_text_files_source(eitp_text_files *files) {
    eitp_text_source source;
    source.user = files;
    source.read = eitp__text_files_read;
    return source;
}
