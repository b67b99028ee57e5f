#include "data/text_paths.h"

#include "base/log.h"
#include "base/setting_table.h"
#include "data/text_layout.h"

/* Default of read_size, in bytes. */
#define EITP__READ_SIZE ((size_t)65536)

static const eitp_setting eitp__text_files_settings[] = {
    EITP__SETTING(eitp_text_files_config, , format, "data_format", CHOICE, EITP_FORMAT_AUTO, 0, 0, 0, REFUSED,
                  "auto text lines csv tsv jsonl conll chat folders",
                  "format of files: a single document, a document on each line, or a table"),
    EITP__TEXT_SETTING(eitp_text_files_config, , encoding, "encoding", NULL, REFUSED,
                       "encoding of the text, as iconv names it"),
    EITP__TEXT_SETTING(eitp_text_files_config, , text_column, "text_column", NULL, REFUSED,
                       "column of tables with the text"),
    EITP__TEXT_SETTING(eitp_text_files_config, , delimiter, "delimiter", NULL, REFUSED,
                       "column separator of CSV and TSV: a character, or comma, semicolon or tab"),
    EITP__TEXT_SETTING(eitp_text_files_config, , document_separator, "document_separator", NULL, REFUSED,
                       "a line that is exactly this separates documents within a file; none: a file is one document"),
    EITP__SETTING(eitp_text_files_config, , skip_bad, "on_bad_row", CHOICE, 0, 0, 0, 0, REFUSED, "stop skip",
                  "stop at a bad row of a table, or skip it"),
    EITP__SETTING(eitp_text_files_config, , strict_utf8, "strict_utf8", FLAG, 0, 0, 1, 0, REFUSED, NULL,
                  "fail on bytes that are invalid in the encoding instead of replacing them"),
    EITP__SETTING(eitp_text_files_config, , read_size, "read_size", UNSIGNED, EITP__READ_SIZE, 1, EITP__LARGEST_COUNT,
                  0, ACCEPTED, NULL, "bytes read at a time; results do not depend on it"),
};

EITP__PRIVATE const eitp_setting *eitp__text_files_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__text_files_settings);
    return eitp__text_files_settings;
}

eitp_text_files_config eitp_text_files_config_default(void) {
    eitp_text_files_config config = EITP__ZERO;
    eitp__settings_reset(eitp__text_files_settings, EITP__COUNT(eitp__text_files_settings), &config);
    return config;
}

static eitp_status eitp__text_paths_check(const eitp_text_files_config *config, const char *function,
                                          eitp_error *error) {
    if (!config->path_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no text files given; name files or directories");
    if ((unsigned)config->format > EITP_FORMAT_FOLDERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown text format %d", (int)config->format);
    for (size_t i = 0; i < config->path_count; i++) {
        if (!config->paths || !config->paths[i])
            return eitp__fail_null(error, function, "paths and each of them");
        if (!strcmp(config->paths[i], "-") && !config->input.read)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "'-' has nothing to read; set input, or use ./- for a file");
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__copy_setting(const eitp_host *host, const char *text, char **copy, eitp_error *error) {
    *copy = text ? eitp__copy_text(host, text) : NULL;
    return text && !*copy ? eitp__fail_memory(error, strlen(text) + 1, "a path or column name") : EITP_OK;
}

static eitp_status eitp__text_paths_copy(eitp__text_paths *paths, const eitp_text_files_config *config,
                                         eitp_error *error) {
    size_t bytes = 0;
    if (eitp__multiply_size(config->path_count, sizeof *paths->paths, &bytes))
        paths->paths = (char **)eitp__allocate(&paths->host, bytes);
    paths->has_folders = (char *)eitp__allocate(&paths->host, config->path_count);
    if (!paths->paths || !paths->has_folders)
        return eitp__fail_memory(error, bytes, "the paths of text files");
    eitp_status status = eitp__copy_setting(&paths->host, config->encoding, &paths->encoding, error);
    if (status == EITP_OK)
        status = eitp__copy_setting(&paths->host, config->text_column, &paths->text_column, error);
    if (status == EITP_OK)
        status = eitp__copy_setting(&paths->host, config->document_separator, &paths->document_separator, error);
    for (size_t i = 0; i < config->path_count && status == EITP_OK; i++)
        status = eitp__copy_setting(&paths->host, config->paths[i], &paths->paths[i], error);
    return status;
}

static void eitp__text_paths_begin(eitp__text_paths *paths) {
    eitp__path_walk_init(&paths->walk, &paths->host, (const char *const *)paths->paths, paths->path_count);
    paths->walk.has_input = paths->input.read != NULL;
}

/* Walks all paths to find the total size and the directories with subdirectories. */
static eitp_status eitp__text_paths_measure(eitp__text_paths *paths, eitp_error *error) {
    eitp__path_walk *walk = &paths->walk;
    eitp_status status;
    eitp__text_paths_begin(paths);
    do {
        status = eitp__path_walk_next(walk, error);
        if (status == EITP_OK && walk->path) {
            paths->total_bytes += walk->size;
            if (walk->depth > 1)
                paths->has_folders[walk->next_path - 1] = 1;
        }
    } while (status == EITP_OK && walk->path);
    eitp__path_walk_release(walk);
    return status;
}

EITP__PRIVATE eitp_status eitp__text_paths_open(eitp__text_paths *paths, const eitp_host *host,
                                                const eitp_text_files_config *config, const char *function,
                                                eitp_error *error) {
    memset(paths, 0, sizeof *paths);
    eitp_status status = eitp__text_paths_check(config, function, error);
    if (status != EITP_OK)
        return status;
    paths->host = *host;
    paths->path_count = config->path_count;
    paths->format = config->format;
    paths->skip_bad = config->skip_bad;
    paths->json_rows = config->json_rows;
    paths->input = config->input;
    status = eitp__read_delimiter(config->delimiter, &paths->delimiter, error);
    if (status == EITP_OK)
        status = eitp__text_paths_copy(paths, config, error);
    paths->how.encoding = paths->encoding;
    paths->how.strict = config->strict_utf8;
    paths->how.read_size = config->read_size ? config->read_size : EITP__READ_SIZE;
    paths->how.input = config->input.read ? &paths->input : NULL;
    if (status == EITP_OK)
        status = eitp__text_paths_measure(paths, error);
    if (status == EITP_OK)
        eitp__text_paths_begin(paths);
    else
        eitp__text_paths_close(paths);
    return status;
}

EITP__PRIVATE void eitp__text_paths_close(eitp__text_paths *paths) {
    const eitp_host host = paths->host;
    if (!paths->path_count)
        return;
    eitp__path_walk_release(&paths->walk);
    for (size_t i = 0; paths->paths && i < paths->path_count; i++)
        eitp__release_text(&host, paths->paths[i]);
    eitp__release(&host, paths->paths, paths->path_count * sizeof *paths->paths);
    eitp__release(&host, paths->has_folders, paths->path_count);
    eitp__release_text(&host, paths->encoding);
    eitp__release_text(&host, paths->text_column);
    eitp__release_text(&host, paths->document_separator);
    memset(paths, 0, sizeof *paths);
}

EITP__PRIVATE eitp_status eitp__text_paths_check_format(const eitp__text_paths *paths, eitp_text_format format,
                                                        eitp_error *error) {
    const eitp_text nothing = {"", 0};
    const int divides = eitp__find_document_separator(paths->document_separator, nothing) != NULL;
    if (!paths->walk.is_listed)
        return EITP_OK;
    if (paths->delimiter && format != EITP_FORMAT_CSV && format != EITP_FORMAT_TSV && format != EITP_FORMAT_CHAT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: delimiter is for the columns of CSV and TSV; leave it out, or set format to csv",
                          paths->walk.path);
    if (divides && format != EITP_FORMAT_TEXT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: document_separator is for files that are read as text, but each row of this one is a "
                          "document; leave it out, or set format to text",
                          paths->walk.path);
    return EITP_OK;
}

EITP__PRIVATE void eitp__text_paths_say(eitp__text_paths *paths, const char *findings) {
    if (!*findings || !strcmp(findings, paths->said))
        return;
    eitp__log_line(&paths->host, EITP_LOG_INFO, "%s: %s", paths->walk.path, findings);
    snprintf(paths->said, sizeof paths->said, "%s", findings);
}
