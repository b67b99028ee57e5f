/* Tables: reads files one after another, each in its format, with labels from the names of directories and files. */
#include "data/examples.h"

#include "base/log.h"
#include "base/setting_table.h"
#include "data/row_reader.h"
#include "data/table.h"
#include "data/text_paths.h"

static const eitp_setting eitp__table_settings[] = {
    EITP__TEXT_SETTING(eitp_table_config, , pair_column, "pair_column", NULL, REFUSED,
                       "column of tables with the second text of a pair"),
    EITP__TEXT_SETTING(eitp_table_config, , label_column, "label_column", NULL, REFUSED,
                       "column of tables with the label"),
    EITP__TEXT_SETTING(eitp_table_config, , weight_column, "weight_column", NULL, REFUSED,
                       "column of tables with the loss weight of a row"),
    EITP__SETTING(eitp_table_config, , row_limit, "row_limit", UNSIGNED, EITP__ROW_LIMIT, 1, EITP__LARGEST_COUNT, 0,
                  REFUSED, NULL, "largest row, in bytes"),
};

EITP__PRIVATE const eitp_setting *eitp__table_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__table_settings);
    return eitp__table_settings;
}

eitp_table_config eitp_table_config_default(void) {
    eitp_table_config config = EITP__ZERO;
    eitp__settings_reset(eitp__table_settings, EITP__COUNT(eitp__table_settings), &config);
    config.texts = eitp_text_files_config_default();
    return config;
}

struct eitp_table {
    eitp_host host;
    eitp__text_paths paths;
    char *pair_column, *label_column, *weight_column; /* NULL: the default */
    size_t row_limit;
    int every_row;
    eitp__row_reader rows; /* of the current file */
    char *label;           /* of the current file; NULL: none */
    eitp_table_statistics statistics;
};

eitp_status eitp_table_open(const eitp_host *host, const eitp_table_config *config, eitp_table **out,
                            eitp_error *error) {
    if (!host || !config || !out)
        return eitp__fail_null(error, "eitp_table_open", "host, config and out");
    *out = NULL;
    eitp_table *table = (eitp_table *)eitp__allocate(host, sizeof *table);
    if (!table)
        return eitp__fail_memory(error, sizeof *table, "a table");
    table->host = *host;
    table->row_limit = config->row_limit ? config->row_limit : (size_t)EITP__ROW_LIMIT;
    table->every_row = config->every_row;
    eitp_status status = eitp__text_paths_open(&table->paths, host, &config->texts, "eitp_table_open", error);
    if (status == EITP_OK)
        status = eitp__copy_setting(host, config->pair_column, &table->pair_column, error);
    if (status == EITP_OK)
        status = eitp__copy_setting(host, config->label_column, &table->label_column, error);
    if (status == EITP_OK)
        status = eitp__copy_setting(host, config->weight_column, &table->weight_column, error);
    if (status != EITP_OK) {
        eitp_table_close(table);
        return status;
    }
    table->statistics.bytes_total = table->paths.total_bytes;
    *out = table;
    return EITP_OK;
}

void eitp_table_close(eitp_table *table) {
    if (!table)
        return;
    const eitp_host host = table->host;
    eitp__row_reader_close(&table->rows);
    eitp__text_paths_close(&table->paths);
    eitp__release_text(&host, table->label);
    eitp__release_text(&host, table->pair_column);
    eitp__release_text(&host, table->label_column);
    eitp__release_text(&host, table->weight_column);
    eitp__release(&host, table, sizeof *table);
}

/* ---- Files ---- */

/* Finds the label of a FOLDERS file, and whether each line or the file is an example. *is_skipped is 1 for files next
   to the label directories, and for hidden names. */
static eitp_status eitp__table_find_label(eitp_table *table, eitp__row_config *config, int *is_skipped,
                                          eitp_error *error) {
    const eitp__path_walk *walk = &table->paths.walk;
    const char *name = walk->path + strlen(walk->levels[0].path);
    name += strspn(name, "/");
    size_t size = strcspn(name, "/");
    const int is_folder = name[size] == '/';
    const char *base = strrchr(walk->path, '/') + 1, *dot = NULL;
    *is_skipped = *name == '.' || *base == '.' || (!is_folder && table->paths.has_folders[walk->next_path - 1]);
    if (*is_skipped)
        return EITP_OK;
    if (!is_folder && eitp__format_of_name(name, EITP_FORMAT_LINES) != EITP_FORMAT_LINES)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: a table in a directory with a file for each label; name the file itself, or set "
                          "format to the format of the files",
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

/* Finds the format of the current file, and its label if a directory provides one. */
static eitp_status eitp__table_find_format(eitp_table *table, eitp__row_config *config, int *is_skipped,
                                           eitp_error *error) {
    const char *path = table->paths.walk.path;
    *is_skipped = 0;
    config->format = table->paths.format;
    if (!table->paths.walk.is_listed && (config->format == EITP_FORMAT_AUTO || config->format == EITP_FORMAT_FOLDERS))
        return eitp__table_find_label(table, config, is_skipped, error);
    if (config->format == EITP_FORMAT_FOLDERS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a file, but format is FOLDERS; name directories", path);
    if (config->format == EITP_FORMAT_AUTO)
        config->format = eitp__format_of_name(path, EITP_FORMAT_LINES);
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
        eitp__log_line(&table->host, EITP_LOG_WARNING, "%s: skipped, because it is not in a label's directory",
                       table->paths.walk.path);
        return EITP_OK;
    }
    config.columns[EITP__COLUMN_TEXT] = table->paths.text_column;
    config.columns[EITP__COLUMN_PAIR] = table->pair_column;
    config.columns[EITP__COLUMN_LABEL] = table->label_column;
    config.columns[EITP__COLUMN_WEIGHT] = table->weight_column;
    config.delimiter = table->paths.delimiter;
    config.document_separator = table->paths.document_separator;
    config.skip_bad = table->paths.skip_bad;
    config.every_row = table->every_row;
    config.row_limit = table->row_limit;
    status = eitp__text_paths_check_format(&table->paths, config.format, error);
    if (status != EITP_OK)
        return status;
    status =
        eitp__row_reader_open(&table->rows, &table->host, table->paths.walk.path, &table->paths.how, &config, error);
    if (status == EITP_OK && !table->rows.reader.end)
        eitp__log_line(&table->host, EITP_LOG_WARNING, "%s: skipped, because it is empty", table->paths.walk.path);
    return status;
}

/* Closes the current file, if any, and adds its counts to the statistics. */
static void eitp__table_end(eitp_table *table) {
    table->statistics = eitp_table_get_statistics(table);
    eitp__row_reader_close(&table->rows);
    eitp__release_text(&table->host, table->label);
    table->label = NULL;
}

static void eitp__table_say(eitp_table *table) {
    char findings[EITP__FINDINGS_SIZE];
    eitp__row_reader_findings(&table->rows, findings, sizeof findings);
    eitp__text_paths_say(&table->paths, findings);
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
        if (status == EITP_OK && !has_ended && table->rows.count == 1)
            eitp__table_say(table);
        if (status != EITP_OK || !has_ended)
            return status;
        eitp__table_end(table);
        status = eitp__path_walk_next(&table->paths.walk, error);
        *is_end = status == EITP_OK && !table->paths.walk.path;
        if (*is_end)
            return eitp__report_skipped_rows(&table->host, table->paths.paths[0], table->statistics.rows,
                                             table->statistics.skipped_rows, error);
        if (status == EITP_OK)
            status = eitp__table_begin(table, error);
        if (status != EITP_OK)
            return status;
    }
}

EITP__PRIVATE const char *eitp__table_columns(const eitp_table *table, char *list, size_t size) {
    const eitp__row_reader *rows = &table->rows;
    snprintf(list, size, "%s", rows->header);
    if (rows->reader.host && rows->json.document)
        eitp__json_list_members(rows->json.object, list, size);
    return list;
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
    statistics.has_weights |= table->rows.has_weights;
    statistics.invalid_bytes += eitp__text_reader_invalid(&table->rows.reader);
    return statistics;
}
