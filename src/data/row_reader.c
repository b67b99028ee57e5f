#include "data/row_reader.h"

#include "base/log.h"
#include "base/unicode.h"

/* Bad rows that are reported one by one; the others are counted. */
enum { EITP__REPORTED_ROWS = 10 };

/* True if a name ends with letters, in upper or lower case, and has others before them. */
static int eitp__name_ends_with(const char *path, const char *ending) {
    const size_t length = strlen(path), size = strlen(ending);
    size_t same = 0;
    while (length > size && same < size) {
        const char c = path[length - size + same];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != ending[same])
            break;
        same++;
    }
    return same == size;
}

EITP__PRIVATE eitp_text_format eitp__format_of_name(const char *path, eitp_text_format other) {
    static const struct {
        const char *ending;
        eitp_text_format format;
    } endings[] = {{".csv", EITP_FORMAT_CSV},    {".tsv", EITP_FORMAT_TSV},     {".tab", EITP_FORMAT_TSV},
                   {".json", EITP_FORMAT_JSONL}, {".jsonl", EITP_FORMAT_JSONL}, {".ndjson", EITP_FORMAT_JSONL},
                   {".bio", EITP_FORMAT_CONLL},  {".iob", EITP_FORMAT_CONLL},   {".conll", EITP_FORMAT_CONLL}};
    for (size_t i = 0; i < EITP__COUNT(endings); i++) {
        if (eitp__name_ends_with(path, endings[i].ending))
            return endings[i].format;
    }
    return other;
}

EITP__PRIVATE int eitp__is_json_name(const char *path) {
    return eitp__name_ends_with(path, ".json");
}

/* ---- Columns of CSV and TSV ---- */

/* The number that a column is given by, from 1; 0: it is a name. */
static size_t eitp__column_number(const char *column) {
    size_t number = 0;
    for (const char *at = column; *at; at++) {
        if (*at < '0' || *at > '9' || number > EITP__CSV_COLUMNS)
            return 0;
        number = number * 10 + (size_t)(*at - '0');
    }
    return number;
}

/* The names in the first line, on one line of a message, cut after `size` bytes. */
static void eitp__list_columns(const eitp__csv *csv, char *list, size_t size) {
    size_t used = 0;
    list[0] = 0;
    for (size_t i = 0; i < csv->count && used + 1 < size; i++) {
        const eitp_text name = eitp__csv_value(csv, i);
        const size_t shown =
            eitp__utf8_valid_prefix((const unsigned char *)name.bytes, name.size < 40 ? name.size : 40);
        const int length = snprintf(list + used, size - used, "%s%.*s", i ? ", " : "", (int)shown, name.bytes);
        used += length > 0 ? (size_t)length : 0;
    }
    if (used >= size) {
        used = eitp__utf8_valid_prefix((const unsigned char *)list, size - 4);
        memcpy(list + used, "...", 4);
    }
    for (char *at = list; *at; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
}

/* Names that people give to the weights of rows, which a table may also have for something else. */
static const char *const eitp__weight_names[] = {"weight", "weights", "sample_weight"};

/* Finds a name in the first line; *found is SIZE_MAX if it is not there. */
static eitp_status eitp__find_name(const eitp__row_reader *rows, const char *name, size_t *found, eitp_error *error) {
    const size_t size = strlen(name);
    *found = SIZE_MAX;
    for (size_t i = 0; i < rows->csv.count; i++) {
        const eitp_text header = eitp__csv_value(&rows->csv, i);
        if (header.size != size || memcmp(header.bytes, name, size))
            continue;
        if (*found != SIZE_MAX)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: line %llu: columns %llu and %llu are both named '%.60s'; rename one",
                              rows->reader.path, (unsigned long long)rows->first_line, (unsigned long long)*found + 1,
                              (unsigned long long)i + 1, name);
        *found = i;
    }
    return EITP_OK;
}

static eitp_status eitp__fail_column(const eitp__row_reader *rows, const char *column, eitp_error *error) {
    char list[300];
    eitp__list_columns(&rows->csv, list, sizeof list);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "%s: line %llu: no column %s'%.60s' (columns: %s); name one of these, or give its number if the "
                      "first line is a row",
                      rows->reader.path, (unsigned long long)rows->first_line,
                      eitp__column_number(column) ? "" : "named ", column, list);
}

/*
 * Finds the columns in the first line, which is the header if any of them is given by name, and a row if all are given
 * by numbers. Only the label may be missing, if it has its default name.
 */
static eitp_status eitp__find_columns(eitp__row_reader *rows, eitp_error *error) {
    static const char *const defaults[EITP__COLUMN_KINDS] = {"text", NULL, "label", NULL};
    const char *const *columns = rows->config.columns;
    int has_names = 0;
    for (size_t i = 0; i < EITP__COLUMN_KINDS; i++) {
        const char *given = columns[i] ? columns[i] : i == EITP__COLUMN_TEXT ? defaults[i] : NULL;
        has_names |= given && !eitp__column_number(given);
    }
    for (size_t i = 0; i < EITP__COLUMN_KINDS; i++) {
        const char *column = columns[i] ? columns[i] : defaults[i];
        const size_t number = column ? eitp__column_number(column) : 0;
        eitp_status status = EITP_OK;
        rows->fields[i] = SIZE_MAX;
        if (!column || (!columns[i] && !has_names))
            continue;
        if (number && number <= rows->csv.count)
            rows->fields[i] = number - 1;
        else if (!number)
            status = eitp__find_name(rows, column, &rows->fields[i], error);
        if (status != EITP_OK)
            return status;
        if (rows->fields[i] == SIZE_MAX && (columns[i] || i == EITP__COLUMN_TEXT))
            return eitp__fail_column(rows, column, error);
    }
    rows->has_row = !has_names;
    for (size_t i = 0; i < EITP__COUNT(eitp__weight_names) && has_names && !columns[EITP__COLUMN_WEIGHT]; i++) {
        size_t found = SIZE_MAX;
        rows->has_weights |= !eitp__find_name(rows, eitp__weight_names[i], &found, NULL) && found != SIZE_MAX;
    }
    return EITP_OK;
}

static eitp_status eitp__read_header(eitp__row_reader *rows, eitp_error *error) {
    int is_end;
    eitp__csv_init(&rows->csv, &rows->lines, rows->config.format == EITP_FORMAT_CSV ? ',' : '\t');
    eitp_status status = eitp__csv_read(&rows->csv, &is_end, error);
    if (status != EITP_OK || is_end)
        return status;
    rows->field_count = rows->csv.count;
    rows->first_line = rows->csv.fields[0].line;
    return eitp__find_columns(rows, error);
}

/* ---- Rows ---- */

static eitp_status eitp__check_field_count(const eitp__row_reader *rows, eitp_error *error) {
    const eitp__csv *csv = &rows->csv;
    if (csv->count == rows->field_count)
        return EITP_OK;
    const eitp__csv_field *at = &csv->fields[csv->count < rows->field_count ? csv->count - 1 : rows->field_count];
    return eitp__fail(
        error, EITP_ERROR_FORMAT,
        "%s: line %llu, column %llu: the row has %llu field%s, expected %llu as in line %llu; quote fields "
        "that contain the separator",
        rows->reader.path, (unsigned long long)at->line, (unsigned long long)eitp__csv_column(csv, at),
        (unsigned long long)csv->count, csv->count == 1 ? "" : "s", (unsigned long long)rows->field_count,
        (unsigned long long)rows->first_line);
}

static eitp_status eitp__read_csv(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    const eitp__csv *csv = &rows->csv;
    const char *label;
    eitp_status status = EITP_OK;
    *is_end = 0;
    if (!rows->has_row)
        status = eitp__csv_read(&rows->csv, is_end, error);
    rows->has_row = 0;
    if (status == EITP_OK && !*is_end)
        status = eitp__check_field_count(rows, error);
    if (status != EITP_OK || *is_end)
        return status;
    const eitp__csv_field *text = &csv->fields[rows->fields[EITP__COLUMN_TEXT]];
    example->text = eitp__csv_value(csv, rows->fields[EITP__COLUMN_TEXT]);
    example->line = text->line;
    example->column = eitp__csv_column(csv, text);
    if (rows->fields[EITP__COLUMN_PAIR] != SIZE_MAX)
        example->pair = eitp__csv_value(csv, rows->fields[EITP__COLUMN_PAIR]);
    if (rows->fields[EITP__COLUMN_WEIGHT] != SIZE_MAX)
        example->weight = eitp__csv_value(csv, rows->fields[EITP__COLUMN_WEIGHT]);
    if (rows->fields[EITP__COLUMN_LABEL] == SIZE_MAX)
        return EITP_OK;
    rows->label = eitp__csv_value(csv, rows->fields[EITP__COLUMN_LABEL]);
    example->labels = &rows->label;
    label = rows->label.bytes;
    example->label_count = eitp__utf8_trim(&label, rows->label.size) > 0;
    return EITP_OK;
}

/* True if a list that is read as words is rather one of texts. */
static int eitp__words_are_texts(const eitp_example *example) {
    for (size_t i = 0; i < example->word_count; i++) {
        for (size_t j = 0; j < example->words[i].size; j++) {
            if (strchr(" \t\r\n", example->words[i].bytes[j]) && example->words[i].bytes[j])
                return 1;
        }
    }
    return 0;
}

/* At the end of the rows. A .json file of a single one with a list of texts is a table that is written column by
   column. A member that is named must be in some row; the default label need not be. */
static eitp_status eitp__check_found(const eitp__row_reader *rows, eitp_error *error) {
    if (rows->has_texts && rows->count == 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: one object with a list of texts for each member; write an object for each text",
                          rows->reader.path);
    for (size_t i = EITP__COLUMN_PAIR; i < EITP__COLUMN_KINDS; i++) {
        const char *name = rows->config.columns[i];
        if (name && rows->count && !rows->found[i])
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "%s: no row has a member named '%.60s'; name one that rows have", rows->reader.path,
                              name);
    }
    return EITP_OK;
}

static eitp_status eitp__fail_no_text(const eitp__row_reader *rows, const char *name, eitp_error *error) {
    char members[160];
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "%s: line %llu: no member named '%.60s' with a text (members: %s); name the member that has the "
                      "text",
                      rows->reader.path, (unsigned long long)rows->json.line, name,
                      eitp__json_list_members(rows->json.object, members, sizeof members));
}

static eitp_status eitp__read_json_weight(eitp__row_reader *rows, eitp_text *weight, eitp_error *error) {
    const eitp_json *object = rows->json.object, *value;
    const char *name = rows->config.columns[EITP__COLUMN_WEIGHT];
    for (size_t i = 0; i < EITP__COUNT(eitp__weight_names) && !name; i++)
        rows->has_weights |= eitp_json_member(object, eitp__weight_names[i]) != NULL;
    value = eitp_json_member(object, name);
    rows->found[EITP__COLUMN_WEIGHT] |= value != NULL;
    if (!value || value->kind != EITP_JSON_NUMBER)
        return name ? eitp__json_rows_text(&rows->json, name, &value, weight, error) : EITP_OK;
    weight->bytes = value->text;
    weight->size = value->text_size;
    return EITP_OK;
}

static eitp_status eitp__read_json(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    const char *const *columns = rows->config.columns;
    const char *text = columns[EITP__COLUMN_TEXT] ? columns[EITP__COLUMN_TEXT] : "text";
    const char *pair = columns[EITP__COLUMN_PAIR];
    const char *label = columns[EITP__COLUMN_LABEL] ? columns[EITP__COLUMN_LABEL] : "label";
    const eitp_json *value;
    eitp_status status = eitp__json_rows_read(&rows->json, is_end, error);
    if (status == EITP_OK && *is_end)
        return eitp__check_found(rows, error);
    if (status == EITP_OK)
        status = eitp__json_rows_words(&rows->json, text, &value, example, error);
    if (status == EITP_OK && !value)
        status = eitp__json_rows_text(&rows->json, text, &value, &example->text, error);
    if (status != EITP_OK)
        return status;
    if (!value)
        return eitp__fail_no_text(rows, text, error);
    rows->has_texts |= !rows->count && !columns[EITP__COLUMN_TEXT] && eitp__is_json_name(rows->reader.path) &&
                       eitp__words_are_texts(example);
    example->line = value->line;
    example->column = eitp__json_rows_column(&rows->json, value);
    if (pair) {
        rows->found[EITP__COLUMN_PAIR] |= eitp_json_member(rows->json.object, pair) != NULL;
        status = eitp__json_rows_text(&rows->json, pair, &value, &example->pair, error);
    }
    rows->found[EITP__COLUMN_LABEL] |= eitp_json_member(rows->json.object, label) != NULL;
    if (status == EITP_OK)
        status = eitp__read_json_weight(rows, &example->weight, error);
    return status == EITP_OK ? eitp__json_rows_labels(&rows->json, label, example, error) : status;
}

/* The text of a conversation is its line. */
static eitp_status eitp__read_conversation(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                           eitp_error *error) {
    const eitp__buffer *row = &rows->json.row;
    const eitp_status status = eitp__json_rows_read(&rows->json, is_end, error);
    if (status != EITP_OK || *is_end)
        return status;
    example->text.bytes = row->data;
    example->text.size = row->size - (row->data[row->size - 1] == '\n');
    example->line = rows->json.line;
    return EITP_OK;
}

/* ---- CoNLL ---- */

/* A column that is given by its number, from 0. */
static eitp_status eitp__find_conll_column(const eitp__row_reader *rows, const char *column, size_t *found,
                                           eitp_error *error) {
    if (!column)
        return EITP_OK;
    *found = eitp__column_number(column) - 1;
    if (eitp__column_number(column))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "%s: no column named '%.60s': the columns of CoNLL have numbers, from 1", rows->reader.path,
                      column);
}

static eitp_status eitp__find_conll_columns(eitp__row_reader *rows, eitp_error *error) {
    const char *const *columns = rows->config.columns;
    eitp_status status;
    if (columns[EITP__COLUMN_PAIR])
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a text of CoNLL has no pair column", rows->reader.path);
    status = eitp__find_conll_column(rows, columns[EITP__COLUMN_TEXT], &rows->conll.word_column, error);
    return status != EITP_OK
               ? status
               : eitp__find_conll_column(rows, columns[EITP__COLUMN_LABEL], &rows->conll.label_column, error);
}

static eitp_status eitp__read_conll(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    eitp__conll *conll = &rows->conll;
    eitp_status status = eitp__conll_read(conll, is_end, error);
    if (status != EITP_OK || *is_end)
        return status;
    example->text = eitp__word_list_finish(&conll->words);
    example->words = conll->words.words;
    example->word_count = conll->words.count;
    example->line = conll->first_line;
    example->column = 1;
    if (!conll->labels.count)
        return EITP_OK;
    eitp__word_list_finish(&conll->labels);
    example->labels = conll->labels.words;
    example->label_count = conll->labels.count;
    example->labels_are_list = 1;
    return EITP_OK;
}

/* ---- Texts ---- */

static void eitp__take_plain(eitp__row_reader *rows, eitp_example *example, uint64_t line) {
    example->text.bytes = rows->text.data;
    example->text.size = rows->text.size;
    example->line = line;
    example->column = 1;
    rows->label = rows->config.label;
    example->labels = &rows->label;
    example->label_count = rows->label.bytes != NULL;
}

static eitp_status eitp__read_line(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    do {
        eitp__buffer_clear(&rows->text);
        eitp_status status = eitp__text_lines_add(&rows->lines, &rows->text, is_end, error);
        if (status != EITP_OK || *is_end)
            return status;
        rows->text.size -= rows->text.size && rows->text.data[rows->text.size - 1] == '\n';
        rows->text.size -= rows->text.size && rows->text.data[rows->text.size - 1] == '\r';
    } while (!rows->text.size && !rows->config.every_row);
    eitp__take_plain(rows, example, rows->lines.line);
    return EITP_OK;
}

static eitp_status eitp__read_whole(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    int has_ended = 0;
    eitp_status status = EITP_OK;
    eitp__buffer_clear(&rows->text);
    while (status == EITP_OK && !has_ended)
        status = eitp__text_lines_add(&rows->lines, &rows->text, &has_ended, error);
    *is_end = status == EITP_OK && !rows->text.size;
    if (status == EITP_OK && !*is_end)
        eitp__take_plain(rows, example, 1);
    return status;
}

/* ---- Formats ---- */

static const struct {
    eitp_status (*open)(eitp__row_reader *rows, eitp_error *error); /* NULL: nothing to do */
    eitp_status (*read)(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error);
} eitp__row_formats[] = {{NULL, NULL},
                         {NULL, eitp__read_whole},
                         {NULL, eitp__read_line},
                         {eitp__read_header, eitp__read_csv},
                         {eitp__read_header, eitp__read_csv},
                         {NULL, eitp__read_json},
                         {eitp__find_conll_columns, eitp__read_conll},
                         {NULL, eitp__read_conversation}};

/* True if rows have columns by name. */
static int eitp__has_columns(eitp_text_format format) {
    return format == EITP_FORMAT_CSV || format == EITP_FORMAT_TSV || format == EITP_FORMAT_JSONL;
}

EITP__PRIVATE eitp_status eitp__row_reader_open(eitp__row_reader *rows, const eitp_host *host, const char *path,
                                                const eitp__text_reading *how, const eitp__row_config *config,
                                                eitp_error *error) {
    memset(rows, 0, sizeof *rows);
    rows->config = *config;
    eitp_status status = eitp__text_reader_open(&rows->reader, host, path, how, error);
    if (status != EITP_OK)
        return status;
    eitp__text_lines_init(&rows->lines, &rows->reader, config->row_limit);
    eitp__json_rows_init(&rows->json, &rows->lines);
    eitp__conll_init(&rows->conll, &rows->lines);
    eitp__buffer_init(&rows->text, host);
    status = eitp__text_reader_check(&rows->reader, error);
    if (status == EITP_OK && config->columns[EITP__COLUMN_WEIGHT] && !eitp__has_columns(config->format))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "%s: neither CSV, TSV nor JSON Lines, so there is no column '%.60s' with weights", path,
                            config->columns[EITP__COLUMN_WEIGHT]);
    if (status == EITP_OK && eitp__row_formats[config->format].open)
        status = eitp__row_formats[config->format].open(rows, error);
    if (status != EITP_OK)
        eitp__row_reader_close(rows);
    return status;
}

/* True if the row that failed is bad, rather than the file, and is to be skipped. */
static int eitp__skips_row(const eitp__row_reader *rows, eitp_status status) {
    const int is_invalid = rows->reader.how.strict && eitp__text_reader_invalid(&rows->reader);
    return status == EITP_ERROR_FORMAT && rows->config.skip_bad && !is_invalid;
}

static void eitp__report_skipped(eitp__row_reader *rows, const eitp_error *error) {
    rows->skipped++;
    if (rows->skipped <= EITP__REPORTED_ROWS)
        eitp__log_line(rows->reader.host, EITP_LOG_WARNING, "skipped a bad row: %s", error->message);
    if (rows->skipped == EITP__REPORTED_ROWS)
        eitp__log_line(rows->reader.host, EITP_LOG_WARNING, "%s: more bad rows are counted and not reported",
                       rows->reader.path);
}

static void eitp__take_skipped(const eitp__row_reader *rows, eitp_example *example, int *is_end) {
    memset(example, 0, sizeof *example);
    example->text.bytes = "";
    example->path = rows->reader.path;
    example->is_skipped = 1;
    *is_end = 0;
}

EITP__PRIVATE eitp_status eitp__row_reader_next(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                                eitp_error *error) {
    eitp_error bad = EITP__ZERO;
    eitp_status status;
    for (;;) {
        eitp_example next = EITP__ZERO;
        next.path = rows->reader.path;
        status = eitp__row_formats[rows->config.format].read(rows, &next, is_end, &bad);
        if (status == EITP_OK && !*is_end) {
            *example = next;
            rows->count++;
        }
        if (!eitp__skips_row(rows, status))
            break;
        eitp__report_skipped(rows, &bad);
        if (rows->config.every_row) {
            eitp__take_skipped(rows, example, is_end);
            return EITP_OK;
        }
    }
    if (status != EITP_OK && error)
        *error = bad;
    return status;
}

EITP__PRIVATE void eitp__row_reader_close(eitp__row_reader *rows) {
    if (!rows->reader.host)
        return;
    eitp__csv_release(&rows->csv);
    eitp__json_rows_release(&rows->json);
    eitp__conll_release(&rows->conll);
    eitp__buffer_release(&rows->text);
    eitp__text_reader_close(&rows->reader);
    memset(rows, 0, sizeof *rows);
}

EITP__PRIVATE eitp_status eitp__report_skipped_rows(const eitp_host *host, const char *path, uint64_t count,
                                                    uint64_t skipped, eitp_error *error) {
    if (!skipped)
        return EITP_OK;
    if (!count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: all %llu rows are bad; see the log, and check format and columns", path,
                          (unsigned long long)skipped);
    eitp__log_line(host, EITP_LOG_WARNING, "skipped %llu bad rows of %llu", (unsigned long long)skipped,
                   (unsigned long long)(count + skipped));
    return EITP_OK;
}
