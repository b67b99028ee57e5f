#include "data/text_files.h"

#include "base/log.h"
#include "data/data_settings.h"
#include "data/path_walk.h"
#include "data/row_reader.h"
#include "data/token_header.h"

static const eitp_setting eitp__text_files_settings[] = {
    EITP__READ_SIZE_SETTING(eitp_text_files_config, piece_size, "piece_size"),
    EITP__READING_SETTINGS(eitp_text_files_config, "auto text lines csv tsv jsonl conll"),
};

const eitp_setting *eitp_text_files_settings(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__text_files_settings);
    return eitp__text_files_settings;
}

eitp_text_files_config eitp_text_files_config_default(void) {
    eitp_text_files_config config = EITP__ZERO;
    eitp__settings_reset(eitp__text_files_settings, EITP__COUNT(eitp__text_files_settings), &config);
    return config;
}

struct eitp_text_files {
    eitp_host host;
    char **paths;
    size_t path_count;
    char *encoding, *text_column; /* NULL: the default */
    eitp_text_format format;
    int skip_bad;
    eitp_text_source input;
    eitp__text_reading how;
    eitp__path_walk walk;
    eitp__text_reader reader; /* of the current file, if it is a text */
    eitp__row_reader rows;    /* if it is a table */
    eitp_text row;            /* the current row; bytes NULL: it has been passed on */
    uint64_t row_bytes;       /* of all rows of the current file */
    eitp__text_progress done; /* in the files before the current one */
    uint64_t row_count, skipped_rows;
    uint64_t total_bytes;
    int has_begun;
};

/* ---- Opening ---- */

/* A copy of a text that may be NULL. */
static eitp_status eitp__text_files_copy(eitp_text_files *files, const char *text, char **copy, eitp_error *error) {
    *copy = text ? eitp__copy_text(&files->host, text) : NULL;
    return text && !*copy ? eitp__fail_memory(error, strlen(text) + 1, "the path of a text file") : EITP_OK;
}

static eitp_status eitp__text_files_copy_config(eitp_text_files *files, const eitp_text_files_config *config,
                                                eitp_error *error) {
    size_t bytes = 0;
    if (eitp__multiply_size(config->path_count, sizeof *files->paths, &bytes))
        files->paths = (char **)eitp__allocate(&files->host, bytes);
    if (!files->paths)
        return eitp__fail_memory(error, bytes, "the paths of text files");
    files->path_count = config->path_count;
    eitp_status status = eitp__text_files_copy(files, config->encoding, &files->encoding, error);
    if (status == EITP_OK)
        status = eitp__text_files_copy(files, config->text_column, &files->text_column, error);
    for (size_t i = 0; i < config->path_count && status == EITP_OK; i++)
        status = eitp__text_files_copy(files, config->paths[i], &files->paths[i], error);
    return status;
}

static void eitp__text_files_walk(const eitp_text_files *files, eitp__path_walk *walk) {
    eitp__path_walk_init(walk, &files->host, (const char *const *)files->paths, files->path_count);
    walk->has_input = files->input.read != NULL;
}

/* Walks all paths once, to find missing ones early and to sum up the sizes. */
static eitp_status eitp__text_files_measure(eitp_text_files *files, eitp_error *error) {
    eitp__path_walk walk;
    eitp_status status;
    eitp__text_files_walk(files, &walk);
    do {
        status = eitp__path_walk_next(&walk, error);
        files->total_bytes += status == EITP_OK && walk.path ? walk.size : 0;
    } while (status == EITP_OK && walk.path);
    eitp__path_walk_release(&walk);
    return status;
}

static eitp_status eitp__text_files_check(const eitp_text_files_config *config, eitp_error *error) {
    if (!config->path_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no texts given; name text files or directories");
    if ((unsigned)config->format >= EITP_FORMAT_FOLDERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown format of texts %d", (int)config->format);
    for (size_t i = 0; i < config->path_count; i++) {
        if (!config->paths || !config->paths[i])
            return eitp__fail_null(error, "eitp_text_files_open", "paths and each of them");
        if (!strcmp(config->paths[i], "-") && !config->input.read)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "'-' has nothing to read; set input, or give ./- for a file");
    }
    return EITP_OK;
}

eitp_status eitp_text_files_open(const eitp_host *host, const eitp_text_files_config *config, eitp_text_files **out,
                                 eitp_error *error) {
    if (!host || !config || !out)
        return eitp__fail_null(error, "eitp_text_files_open", "host, config and out");
    *out = NULL;
    eitp_status status = eitp__text_files_check(config, error);
    if (status != EITP_OK)
        return status;
    eitp_text_files *files = (eitp_text_files *)eitp__allocate(host, sizeof *files);
    if (!files)
        return eitp__fail_memory(error, sizeof *files, "reading text files");
    files->host = *host;
    files->format = config->format;
    files->skip_bad = config->skip_bad;
    files->input = config->input;
    status = eitp__text_files_copy_config(files, config, error);
    files->how.encoding = files->encoding;
    files->how.strict = config->strict_utf8;
    files->how.read_size = config->piece_size ? config->piece_size : EITP__READ_SIZE;
    files->how.input = config->input.read ? &files->input : NULL;
    if (status == EITP_OK)
        status = eitp__text_files_measure(files, error);
    if (status != EITP_OK) {
        eitp_text_files_close(files);
        return status;
    }
    eitp__text_files_walk(files, &files->walk);
    *out = files;
    return EITP_OK;
}

void eitp_text_files_close(eitp_text_files *files) {
    if (!files)
        return;
    const eitp_host host = files->host;
    eitp__text_reader_close(&files->reader);
    eitp__row_reader_close(&files->rows);
    eitp__path_walk_release(&files->walk);
    for (size_t i = 0; i < files->path_count; i++)
        eitp__release_text(&host, files->paths[i]);
    eitp__release(&host, files->paths, files->path_count * sizeof *files->paths);
    eitp__release_text(&host, files->encoding);
    eitp__release_text(&host, files->text_column);
    eitp__release(&host, files, sizeof *files);
}

uint64_t eitp_text_files_bytes(const eitp_text_files *files) {
    return files ? files->total_bytes : 0;
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
    eitp__text_reader_close(&files->reader);
    eitp__row_reader_close(&files->rows);
}

/* Opens the current file of the walk as a text; the reader stays closed if it is skipped. */
static eitp_status eitp__text_files_begin_text(eitp_text_files *files, eitp_error *error) {
    const char *path = files->walk.path;
    eitp__text_reader *reader = &files->reader;
    eitp_status status = eitp__text_reader_open(reader, &files->host, path, &files->how, error);
    if (status != EITP_OK)
        return status;
    if (reader->at == reader->end) {
        eitp__log_line(&files->host, EITP_LOG_WARNING, "%s: skipped, because it is empty", path);
        eitp__text_reader_close(reader);
        return EITP_OK;
    }
    if (reader->end < EITP__TOKEN_MAGIC_SIZE || memcmp(reader->raw, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE))
        return eitp__text_reader_check(reader, error);
    if (files->walk.is_listed)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a token file, not text; give text files", path);
    /* In a directory it may be the token file being written. */
    eitp__log_line(&files->host, EITP_LOG_INFO, "%s: skipped, because it is a token file", path);
    eitp__text_reader_close(reader);
    return EITP_OK;
}

static eitp_status eitp__text_files_begin(eitp_text_files *files, eitp_error *error) {
    eitp__row_config config = EITP__ZERO;
    const char *path = files->walk.path;
    config.format = files->format;
    if (config.format == EITP_FORMAT_AUTO)
        config.format = eitp__format_of_name(path, EITP_FORMAT_TEXT);
    if (config.format == EITP_FORMAT_TEXT)
        return eitp__text_files_begin_text(files, error);
    config.columns[EITP__COLUMN_TEXT] = files->text_column;
    config.skip_bad = files->skip_bad;
    config.row_limit = EITP__ROW_LIMIT;
    return eitp__row_reader_open(&files->rows, &files->host, path, &files->how, &config, error);
}

/* Reads the next row that is not empty; row.bytes is NULL after the last. */
static eitp_status eitp__text_files_next_row(eitp_text_files *files, eitp_error *error) {
    eitp_example example = EITP__ZERO;
    int is_end;
    do {
        eitp_status status = eitp__row_reader_next(&files->rows, &example, &is_end, error);
        if (status != EITP_OK)
            return status;
    } while (!is_end && !example.text.size);
    files->row.bytes = is_end ? NULL : example.text.bytes;
    files->row.size = example.text.size;
    files->row_bytes += is_end ? 0 : example.text.size;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error) {
    eitp_status status = EITP_OK;
    files->has_begun = 1;
    files->row.bytes = NULL;
    if (files->reader.host)
        eitp__text_files_end(files);
    for (;;) {
        if (files->rows.reader.host)
            status = eitp__text_files_next_row(files, error);
        if (status != EITP_OK)
            return status;
        if (files->row.bytes || files->reader.host)
            break;
        eitp__text_files_end(files);
        status = eitp__path_walk_next(&files->walk, error);
        if (status == EITP_OK && !files->walk.path)
            status =
                eitp__report_skipped_rows(&files->host, files->paths[0], files->row_count, files->skipped_rows, error);
        else if (status == EITP_OK)
            status = eitp__text_files_begin(files, error);
        if (status != EITP_OK || !files->walk.path)
            break;
    }
    if (status == EITP_OK)
        *path = files->walk.path;
    return status;
}

EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error) {
    if (files->reader.host)
        return eitp__text_reader_next(&files->reader, text, size, error);
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
