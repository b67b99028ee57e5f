/* Tables: files one after another, each with its format, and labels from the names of directories and files. */
#include "data/examples.h"

#include "base/log.h"
#include "data/data_settings.h"
#include "data/path_walk.h"
#include "data/row_reader.h"

static const eitp_setting eitp__table_settings[] = {
    EITP__READING_SETTINGS(eitp_table_config, "auto text lines csv tsv jsonl conll folders"),
    EITP__TEXT_SETTING(eitp_table_config, , pair_column, "pair_column", NULL, REFUSED,
                       "column of tables that has the second text of a pair"),
    EITP__TEXT_SETTING(eitp_table_config, , label_column, "label_column", NULL, REFUSED,
                       "column of tables that has the label"),
    EITP__SETTING(eitp_table_config, , row_limit, "row_limit", UNSIGNED, EITP__ROW_LIMIT, 1, EITP__LARGEST_COUNT, 0,
                  REFUSED, NULL, "largest row, in bytes"),
    EITP__READ_SIZE_SETTING(eitp_table_config, read_size, "read_size"),
};

const eitp_setting *eitp_table_settings(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__table_settings);
    return eitp__table_settings;
}

eitp_table_config eitp_table_config_default(void) {
    eitp_table_config config = EITP__ZERO;
    eitp__settings_reset(eitp__table_settings, EITP__COUNT(eitp__table_settings), &config);
    return config;
}

struct eitp_table {
    eitp_host host;
    eitp_table_config config; /* with copies of its texts */
    char **paths;
    char *has_folders; /* of each path: 1 for a directory with directories */
    eitp__text_reading how;
    eitp__path_walk walk;
    eitp__row_reader rows; /* of the current file */
    char *label;           /* of the current file; NULL: none */
    eitp_table_statistics statistics;
};

/* ---- Opening ---- */

static eitp_status eitp__table_copy(eitp_table *table, const char **text, eitp_error *error) {
    if (!*text)
        return EITP_OK;
    const size_t size = strlen(*text) + 1;
    *text = eitp__copy_text(&table->host, *text);
    return *text ? EITP_OK : eitp__fail_memory(error, size, "the configuration of a table");
}

static eitp_status eitp__table_copy_config(eitp_table *table, eitp_error *error) {
    eitp_table_config *config = &table->config;
    const char **texts[] = {&config->encoding, &config->text_column, &config->pair_column, &config->label_column};
    const size_t count = config->path_count;
    size_t bytes = 0;
    eitp_status status = EITP_OK;
    /* After a failure, what is not copied is not released. */
    const eitp_table_config given = *config;
    config->encoding = config->text_column = config->pair_column = config->label_column = NULL;
    const char *const sources[] = {given.encoding, given.text_column, given.pair_column, given.label_column};
    if (eitp__multiply_size(count, sizeof *table->paths, &bytes))
        table->paths = (char **)eitp__allocate(&table->host, bytes);
    table->has_folders = (char *)eitp__allocate(&table->host, count);
    if (!table->paths || !table->has_folders)
        return eitp__fail_memory(error, bytes, "the paths of a table");
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        const char *path = given.paths[i];
        status = eitp__table_copy(table, &path, error);
        table->paths[i] = (char *)(status == EITP_OK ? path : NULL);
    }
    for (size_t i = 0; i < EITP__COUNT(texts) && status == EITP_OK; i++) {
        const char *text = sources[i];
        status = eitp__table_copy(table, &text, error);
        *texts[i] = status == EITP_OK ? text : NULL;
    }
    config->paths = (const char *const *)table->paths;
    return status;
}

static void eitp__table_walk(const eitp_table *table, eitp__path_walk *walk) {
    eitp__path_walk_init(walk, &table->host, table->config.paths, table->config.path_count);
    walk->has_input = table->config.input.read != NULL;
}

/* Walks all paths once, to find missing ones early, and directories with directories. */
static eitp_status eitp__table_measure(eitp_table *table, eitp_error *error) {
    eitp__path_walk walk;
    eitp_status status;
    eitp__table_walk(table, &walk);
    do {
        status = eitp__path_walk_next(&walk, error);
        if (status == EITP_OK && walk.path) {
            table->statistics.bytes_total += walk.size;
            if (walk.depth > 1)
                table->has_folders[walk.next_path - 1] = 1;
        }
    } while (status == EITP_OK && walk.path);
    eitp__path_walk_release(&walk);
    return status;
}

static eitp_status eitp__table_check_config(const eitp_table_config *config, eitp_error *error) {
    if (!config->path_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no paths given; name files or directories");
    if ((unsigned)config->format > EITP_FORMAT_FOLDERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown format %d", (int)config->format);
    for (size_t i = 0; i < config->path_count; i++) {
        if (!config->paths || !config->paths[i])
            return eitp__fail_null(error, "eitp_table_open", "paths and each of them");
        if (!strcmp(config->paths[i], "-") && !config->input.read)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "'-' has nothing to read; set input, or give ./- for a file");
    }
    return EITP_OK;
}

eitp_status eitp_table_open(const eitp_host *host, const eitp_table_config *config, eitp_table **out,
                            eitp_error *error) {
    if (!host || !config || !out)
        return eitp__fail_null(error, "eitp_table_open", "host, config and out");
    *out = NULL;
    eitp_status status = eitp__table_check_config(config, error);
    if (status != EITP_OK)
        return status;
    eitp_table *table = (eitp_table *)eitp__allocate(host, sizeof *table);
    if (!table)
        return eitp__fail_memory(error, sizeof *table, "a table");
    table->host = *host;
    table->config = *config;
    status = eitp__table_copy_config(table, error);
    table->how.encoding = table->config.encoding;
    table->how.strict = config->strict_utf8;
    table->how.read_size = config->read_size ? config->read_size : EITP__READ_SIZE;
    table->how.input = config->input.read ? &table->config.input : NULL;
    if (!table->config.row_limit)
        table->config.row_limit = EITP__ROW_LIMIT;
    if (status == EITP_OK)
        status = eitp__table_measure(table, error);
    if (status != EITP_OK) {
        eitp_table_close(table);
        return status;
    }
    eitp__table_walk(table, &table->walk);
    *out = table;
    return EITP_OK;
}

void eitp_table_close(eitp_table *table) {
    if (!table)
        return;
    const eitp_host host = table->host;
    const eitp_table_config *config = &table->config;
    const char *const texts[] = {config->encoding, config->text_column, config->pair_column, config->label_column};
    eitp__row_reader_close(&table->rows);
    eitp__path_walk_release(&table->walk);
    eitp__release_text(&host, table->label);
    for (size_t i = 0; i < EITP__COUNT(texts); i++)
        eitp__release_text(&host, (char *)(uintptr_t)texts[i]);
    for (size_t i = 0; table->paths && i < config->path_count; i++)
        eitp__release_text(&host, table->paths[i]);
    eitp__release(&host, table->paths, config->path_count * sizeof *table->paths);
    eitp__release(&host, table->has_folders, config->path_count);
    eitp__release(&host, table, sizeof *table);
}

/* ---- Files ---- */

/* A file of FOLDERS: its label, and whether each line or the file is an example. *is_skipped is 1 for what is next to
   the directories of labels, and for hidden names. */
static eitp_status eitp__table_find_label(eitp_table *table, eitp__row_config *config, int *is_skipped,
                                          eitp_error *error) {
    const eitp__path_walk *walk = &table->walk;
    const char *name = walk->path + strlen(walk->levels[0].path);
    name += strspn(name, "/");
    size_t size = strcspn(name, "/");
    const int is_folder = name[size] == '/';
    const char *base = strrchr(walk->path, '/') + 1, *dot = NULL;
    *is_skipped = *name == '.' || *base == '.' || (!is_folder && table->has_folders[walk->next_path - 1]);
    if (*is_skipped)
        return EITP_OK;
    if (!is_folder && eitp__format_of_name(name, EITP_FORMAT_LINES) != EITP_FORMAT_LINES)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: a table in a directory of labels; give the file itself, or set format to that of the "
                          "files",
                          walk->path);
    for (size_t i = 1; !is_folder && i < size; i++)
        dot = name[i] == '.' ? name + i : dot;
    size = dot ? (size_t)(dot - name) : size;
    config->format = is_folder ? EITP_FORMAT_TEXT : EITP_FORMAT_LINES;
    table->label = eitp__copy_bytes(&table->host, name, size);
    config->label.bytes = table->label;
    config->label.size = size;
    return table->label ? EITP_OK : eitp__fail_memory(error, size + 1, "the name of a label");
}

/* The format of the current file, and its label if a directory gives one. */
static eitp_status eitp__table_find_format(eitp_table *table, eitp__row_config *config, int *is_skipped,
                                           eitp_error *error) {
    const char *path = table->walk.path;
    const size_t length = strlen(path);
    *is_skipped = 0;
    config->format = table->config.format;
    if (!table->walk.is_listed && (config->format == EITP_FORMAT_AUTO || config->format == EITP_FORMAT_FOLDERS))
        return eitp__table_find_label(table, config, is_skipped, error);
    if (config->format == EITP_FORMAT_FOLDERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a file, and format is FOLDERS; give directories", path);
    if (config->format == EITP_FORMAT_AUTO)
        config->format = eitp__format_of_name(
            path, length > 5 && !strcmp(path + length - 5, ".json") ? EITP_FORMAT_JSONL : EITP_FORMAT_LINES);
    return EITP_OK;
}

/* Opens the current file of the walk, unless it is skipped. */
static eitp_status eitp__table_begin(eitp_table *table, eitp_error *error) {
    eitp__row_config config = EITP__ZERO;
    int is_skipped;
    eitp_status status = eitp__table_find_format(table, &config, &is_skipped, error);
    if (status != EITP_OK)
        return status;
    if (is_skipped) {
        eitp__log_line(&table->host, EITP_LOG_WARNING, "%s: skipped, because it is not in a directory of a label",
                       table->walk.path);
        return EITP_OK;
    }
    config.columns[EITP__COLUMN_TEXT] = table->config.text_column;
    config.columns[EITP__COLUMN_PAIR] = table->config.pair_column;
    config.columns[EITP__COLUMN_LABEL] = table->config.label_column;
    config.skip_bad = table->config.skip_bad;
    config.row_limit = table->config.row_limit;
    status = eitp__row_reader_open(&table->rows, &table->host, table->walk.path, &table->how, &config, error);
    if (status == EITP_OK && !table->rows.reader.end)
        eitp__log_line(&table->host, EITP_LOG_WARNING, "%s: skipped, because it is empty", table->walk.path);
    return status;
}

/* Closes the current file, if any, and adds what it had to the statistics. */
static void eitp__table_end(eitp_table *table) {
    table->statistics = eitp_table_get_statistics(table);
    eitp__row_reader_close(&table->rows);
    eitp__release_text(&table->host, table->label);
    table->label = NULL;
}

static eitp_status eitp__table_read(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    eitp_table *table = (eitp_table *)user;
    eitp_status status = EITP_OK;
    if (!table)
        return eitp__fail_null(error, "eitp_table_source", "table");
    for (;;) {
        int has_ended = 1;
        if (table->rows.reader.host)
            status = eitp__row_reader_next(&table->rows, example, &has_ended, error);
        *is_end = 0;
        if (status != EITP_OK || !has_ended)
            return status;
        eitp__table_end(table);
        status = eitp__path_walk_next(&table->walk, error);
        *is_end = status == EITP_OK && !table->walk.path;
        if (*is_end)
            return eitp__report_skipped_rows(&table->host, table->paths[0], table->statistics.rows,
                                             table->statistics.skipped_rows, error);
        if (status == EITP_OK)
            status = eitp__table_begin(table, error);
        if (status != EITP_OK)
            return status;
    }
}

eitp_example_source eitp_table_source(eitp_table *table) {
    eitp_example_source source;
    source.user = table;
    source.read = eitp__table_read;
    return source;
}

eitp_table_statistics eitp_table_get_statistics(const eitp_table *table) {
    eitp_table_statistics statistics = EITP__ZERO;
    if (!table)
        return statistics;
    statistics = table->statistics;
    statistics.rows += table->rows.count;
    statistics.skipped_rows += table->rows.skipped;
    statistics.bytes += table->rows.reader.used_bytes;
    statistics.invalid_bytes += eitp__text_reader_invalid(&table->rows.reader);
    return statistics;
}
