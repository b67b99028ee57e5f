#include "data/row_reader.h"

#include "base/json.h"
#include "base/log.h"
#include "base/unicode.h"
#include "data/text_layout.h"

/* Number of bad rows that are logged individually; the rest are counted. */
enum { EITP__REPORTED_ROWS = 10 };

/* True if a name ends with an extension, in upper or lower case, and has a stem before it. */
static int eitp__name_ends_with(const char *path, const char *ending) {
    const size_t length = strlen(path), size = strlen(ending);
    return length > size && eitp__equals_ignoring_case(path + length - size, size, ending);
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

/* Returns the number in a column setting, from 1; 0 if the setting is a name. */
static size_t eitp__column_number(const char *column) {
    size_t number = 0;
    for (const char *at = column; *at; at++) {
        if (*at < '0' || *at > '9' || number > EITP__CSV_COLUMNS)
            return 0;
        number = number * 10 + (size_t)(*at - '0');
    }
    return number;
}

/* Lists the names in the first line, on one line of a message, cut after `size` bytes. */
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

/* Common names of weight columns; a table may also use them for something else. */
static const char *const eitp__weight_names[] = {"weight", "weights", "sample_weight"};

static eitp_status eitp__fail_same_names(const eitp__row_reader *rows, size_t first, size_t second, eitp_text name,
                                         eitp_error *error) {
    return eitp__fail(
        error, EITP_ERROR_FORMAT,
        "%s: line %llu: columns %llu and %llu are both named '%.*s'; rename one, or refer to it by its number",
        rows->reader.path, (unsigned long long)rows->first_line, (unsigned long long)first + 1,
        (unsigned long long)second + 1, (int)(name.size < 60 ? name.size : 60), name.bytes);
}

/* Finds a name in the first line; *found is SIZE_MAX if it is missing. */
static eitp_status eitp__find_name(const eitp__row_reader *rows, const char *name, size_t *found, eitp_error *error) {
    const size_t size = strlen(name);
    *found = SIZE_MAX;
    for (size_t i = 0; i < rows->csv.count; i++) {
        const eitp_text header = eitp__csv_value(&rows->csv, i);
        if (header.size != size || memcmp(header.bytes, name, size))
            continue;
        if (*found != SIZE_MAX)
            return eitp__fail_same_names(rows, *found, i, header, error);
        *found = i;
    }
    return EITP_OK;
}

static eitp_status eitp__fail_column(const eitp__row_reader *rows, eitp__column_kind kind, const char *column,
                                     eitp_error *error) {
    static const char *const settings[EITP__COLUMN_KINDS] = {"text_column", "pair_column", "label_column",
                                                             "weight_column"};
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "%s: line %llu: no column %s'%.60s' (columns: %s); set %s to one of these, or to a number if the "
                      "first line is a row%s",
                      rows->reader.path, (unsigned long long)rows->first_line,
                      eitp__column_number(column) ? "" : "named ", column, rows->header, settings[kind],
                      kind == EITP__COLUMN_TEXT ? "; or set format to text if this is not a table" : "");
}

/* Finds the only common name of a text or label column in the first line. */
static void eitp__find_usual_name(eitp__row_reader *rows, eitp__column_kind kind) {
    size_t found = SIZE_MAX, matches = 0;
    for (size_t i = 0; i < rows->csv.count; i++) {
        const eitp_text name = eitp__csv_value(&rows->csv, i);
        if (!eitp__is_common_name(kind, name.bytes, name.size))
            continue;
        matches++;
        found = i;
    }
    if (matches != 1)
        return;
    const eitp_text name = eitp__csv_value(&rows->csv, found);
    rows->fields[kind] = found;
    snprintf(rows->common_names[kind], EITP__USUAL_NAME_SIZE, "%.*s", (int)name.size, name.bytes);
}

/*
 * Finds the columns in the first line. It is the header if any column setting is a name, and a row if all are numbers.
 * Only the label may be missing, if it has its default name.
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
        if (rows->fields[i] == SIZE_MAX && !columns[i])
            eitp__find_usual_name(rows, (eitp__column_kind)i);
        if (rows->fields[i] == SIZE_MAX && (columns[i] || i == EITP__COLUMN_TEXT))
            return eitp__fail_column(rows, (eitp__column_kind)i, column, error);
    }
    rows->has_row = !has_names;
    for (size_t i = 0; i < EITP__COUNT(eitp__weight_names) && has_names && !columns[EITP__COLUMN_WEIGHT]; i++) {
        size_t found = SIZE_MAX;
        rows->has_weights |= !eitp__find_name(rows, eitp__weight_names[i], &found, NULL) && found != SIZE_MAX;
    }
    return EITP_OK;
}

/* Returns the column separator: the configured one, or the usual one of the format. */
static char eitp__choose_delimiter(eitp__row_reader *rows, eitp_text beginning) {
    char delimiter = rows->config.delimiter;
    if (delimiter)
        return delimiter;
    if (rows->config.format == EITP_FORMAT_TSV)
        return '\t';
    delimiter = eitp__find_delimiter(beginning);
    rows->found_delimiter = delimiter != ',';
    return delimiter;
}

static eitp_status eitp__read_first_line(eitp__row_reader *rows, eitp_text beginning, int *is_end, eitp_error *error) {
    eitp__csv_init(&rows->csv, &rows->lines, eitp__choose_delimiter(rows, beginning));
    const eitp_status status = eitp__csv_read(&rows->csv, is_end, error);
    if (status != EITP_OK || *is_end)
        return status;
    rows->field_count = rows->csv.count;
    rows->first_line = rows->csv.fields[0].line;
    eitp__list_columns(&rows->csv, rows->header, sizeof rows->header);
    return EITP_OK;
}

static eitp_status eitp__read_header(eitp__row_reader *rows, eitp_text beginning, eitp_error *error) {
    int is_end;
    const eitp_status status = eitp__read_first_line(rows, beginning, &is_end, error);
    return status != EITP_OK || is_end ? status : eitp__find_columns(rows, error);
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

/* True if a list that was read as words seems to be a list of whole inputs. */
static int eitp__words_are_texts(const eitp_example *example) {
    for (size_t i = 0; i < example->word_count; i++) {
        for (size_t j = 0; j < example->words[i].size; j++) {
            if (strchr(" \t\r\n", example->words[i].bytes[j]) && example->words[i].bytes[j])
                return 1;
        }
    }
    return 0;
}

/* Checks the file at its end. A .json file whose only row has lists of whole inputs is a table written column by
   column. A configured member must be in some row; the default label need not be. */
static eitp_status eitp__check_found(const eitp__row_reader *rows, eitp_error *error) {
    if (rows->has_texts && rows->count == 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: one object with a list for each column; write an object for each row",
                          rows->reader.path);
    for (size_t i = EITP__COLUMN_PAIR; i < EITP__COLUMN_KINDS; i++) {
        const char *name = rows->config.columns[i];
        if (name && rows->count && !rows->found[i])
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "%s: no row has a member named '%.60s'; name an existing member", rows->reader.path,
                              name);
    }
    return EITP_OK;
}

/* Reports a row without text. If it is the first one, the file has its text in another member; a later one is bad. */
static eitp_status eitp__fail_no_text(eitp__row_reader *rows, const char *name, eitp_error *error) {
    char members[160];
    rows->is_of_file = !rows->count;
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: line %llu: no member named '%.60s' with text (members: %s)%s",
                      rows->reader.path, (unsigned long long)rows->json.line, name,
                      eitp__json_list_members(rows->json.object, members, sizeof members),
                      rows->is_of_file ? "; set text_column to the member with the text, or format to text if this is "
                                         "not a table"
                                       : "");
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

/* Returns the name of the member with the text or the label. The first row decides on a common name. */
static const char *eitp__member_name(eitp__row_reader *rows, eitp__column_kind kind, const char *standard) {
    const eitp_json *object = rows->json.object, *usual;
    char *name = rows->common_names[kind];
    if (rows->config.columns[kind])
        return rows->config.columns[kind];
    if (eitp_json_member(object, standard))
        return standard;
    usual = !rows->count ? eitp__find_usual_member(object, kind) : NULL;
    if (usual)
        snprintf(name, EITP__USUAL_NAME_SIZE, "%s", usual->name);
    return *name ? name : standard;
}

static eitp_status eitp__read_json(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    const char *const *columns = rows->config.columns;
    const char *pair = columns[EITP__COLUMN_PAIR];
    const eitp_json *value;
    eitp_status status = eitp__json_rows_read(&rows->json, is_end, error);
    if (status == EITP_OK && *is_end)
        return eitp__check_found(rows, error);
    if (status != EITP_OK)
        return status;
    const char *text = eitp__member_name(rows, EITP__COLUMN_TEXT, "text");
    const char *label = eitp__member_name(rows, EITP__COLUMN_LABEL, "label");
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

/* ---- Conversations ---- */

/* Reads the names of all columns of a table of conversations: its rows become objects. */
static eitp_status eitp__read_names(eitp__row_reader *rows, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < rows->csv.count && status == EITP_OK; i++) {
        const eitp_text name = eitp__csv_value(&rows->csv, i);
        for (size_t j = 0; j < i && status == EITP_OK; j++) {
            const eitp_text other = eitp__csv_value(&rows->csv, j);
            if (name.size == other.size && !memcmp(name.bytes, other.bytes, name.size))
                status = eitp__fail_same_names(rows, j, i, name, error);
        }
        if (status == EITP_OK)
            status = eitp__word_list_add(&rows->names, name.bytes, name.size, error);
    }
    if (status == EITP_OK)
        eitp__word_list_finish(&rows->names);
    return status;
}

/* Opens a table of conversations: JSON, unless the file name's extension is a table's. */
static eitp_status eitp__begin_conversations(eitp__row_reader *rows, eitp_text beginning, eitp_error *error) {
    const eitp_text_format format = eitp__format_of_name(rows->reader.path, EITP_FORMAT_JSONL);
    int is_end;
    if (format != EITP_FORMAT_CSV && format != EITP_FORMAT_TSV)
        return EITP_OK;
    rows->config.format = format;
    const eitp_status status = eitp__read_first_line(rows, beginning, &is_end, error);
    rows->config.format = EITP_FORMAT_CHAT;
    rows->is_table = 1;
    return status != EITP_OK || is_end ? status : eitp__read_names(rows, error);
}

/* Writes a row of a table as an object of strings; the weight is a number. */
static eitp_status eitp__write_object(eitp__row_reader *rows, eitp_error *error) {
    eitp__buffer_clear(&rows->text);
    for (size_t i = 0; i < rows->names.count; i++) {
        const eitp_text name = rows->names.words[i], value = eitp__csv_value(&rows->csv, i);
        double number;
        eitp__buffer_add_text(&rows->text, i ? "," : "{");
        eitp__json_write_text(&rows->text, name.bytes, name.size);
        eitp__buffer_add_text(&rows->text, ":");
        if (eitp__equals_ignoring_case(name.bytes, name.size, "weight") &&
            eitp__json_read_number(value.bytes, value.size, &number))
            eitp__buffer_add(&rows->text, value.bytes, value.size);
        else
            eitp__json_write_text(&rows->text, value.bytes, value.size);
    }
    eitp__buffer_add_text(&rows->text, "}");
    return rows->text.failed ? eitp__fail_memory(error, rows->text.size, "a row") : EITP_OK;
}

static eitp_status eitp__read_table_conversation(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                                 eitp_error *error) {
    eitp_status status = eitp__csv_read(&rows->csv, is_end, error);
    if (status == EITP_OK && !*is_end)
        status = eitp__check_field_count(rows, error);
    if (status == EITP_OK && !*is_end)
        status = eitp__write_object(rows, error);
    if (status != EITP_OK || *is_end)
        return status;
    example->text.bytes = rows->text.data;
    example->text.size = rows->text.size;
    example->line = rows->csv.fields[0].line;
    return EITP_OK;
}

/* Reads a conversation: its line, or an object built from a row of a table. */
static eitp_status eitp__read_conversation(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                           eitp_error *error) {
    const eitp__buffer *row = &rows->json.row;
    if (rows->is_table)
        return eitp__read_table_conversation(rows, example, is_end, error);
    const eitp_status status = eitp__json_rows_read(&rows->json, is_end, error);
    if (status != EITP_OK || *is_end)
        return status;
    example->text.bytes = row->data;
    example->text.size = row->size - (row->data[row->size - 1] == '\n');
    example->line = rows->json.line;
    return EITP_OK;
}

/* ---- CoNLL ---- */

/* Finds a column by its number, from 0. */
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

static eitp_status eitp__find_conll_columns(eitp__row_reader *rows, eitp_text beginning, eitp_error *error) {
    const char *const *columns = rows->config.columns;
    eitp_status status;
    (void)beginning;
    if (columns[EITP__COLUMN_PAIR])
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: CoNLL files have no pair column", rows->reader.path);
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

/* ---- Text ---- */

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

static eitp_status eitp__find_separator(eitp__row_reader *rows, eitp_text beginning, eitp_error *error) {
    (void)error;
    rows->separator = eitp__find_document_separator(rows->config.document_separator, beginning);
    return EITP_OK;
}

/* Reads lines up to one that separates documents, which is left out, or up to the end of the file. */
static eitp_status eitp__read_document(eitp__row_reader *rows, int *has_ended, eitp_error *error) {
    eitp__buffer_clear(&rows->text);
    for (;;) {
        const size_t begin = rows->text.size;
        const eitp_status status = eitp__text_lines_add(&rows->lines, &rows->text, has_ended, error);
        if (status != EITP_OK || *has_ended)
            return status;
        if (!rows->separator || !eitp__line_is(rows->text.data + begin, rows->text.size - begin, rows->separator))
            continue;
        rows->text.size = begin;
        return EITP_OK;
    }
}

/* Reads the next document that is not empty: the file, or a part of it. */
static eitp_status eitp__read_whole(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error) {
    int has_ended;
    uint64_t line;
    do {
        line = rows->lines.line + 1;
        const eitp_status status = eitp__read_document(rows, &has_ended, error);
        if (status != EITP_OK)
            return status;
    } while (!rows->text.size && !has_ended);
    *is_end = !rows->text.size;
    if (!*is_end)
        eitp__take_plain(rows, example, line);
    return EITP_OK;
}

/* ---- Formats ---- */

static const struct {
    /* Detects the layout of the rows, from the first line or the start of the text; NULL: nothing to do. */
    eitp_status (*open)(eitp__row_reader *rows, eitp_text beginning, eitp_error *error);
    eitp_status (*read)(eitp__row_reader *rows, eitp_example *example, int *is_end, eitp_error *error);
} eitp__row_formats[] = {{NULL, NULL},
                         {eitp__find_separator, eitp__read_whole},
                         {NULL, eitp__read_line},
                         {eitp__read_header, eitp__read_csv},
                         {eitp__read_header, eitp__read_csv},
                         {NULL, eitp__read_json},
                         {eitp__find_conll_columns, eitp__read_conll},
                         {eitp__begin_conversations, eitp__read_conversation}};

/* True if columns have names. */
static int eitp__has_columns(eitp_text_format format) {
    return format == EITP_FORMAT_CSV || format == EITP_FORMAT_TSV || format == EITP_FORMAT_JSONL;
}

/* Detects line ends and the details of the format. */
static eitp_status eitp__row_reader_begin(eitp__row_reader *rows, eitp_error *error) {
    const eitp_text_format format = rows->config.format;
    eitp_text beginning;
    eitp__buffer decoded;
    eitp__buffer_init(&decoded, rows->reader.host);
    eitp_status status = eitp__text_reader_peek(&rows->reader, &decoded, &beginning, error);
    if (status == EITP_OK && format != EITP_FORMAT_TEXT)
        rows->lines.end = eitp__find_line_end(beginning);
    if (status == EITP_OK && eitp__row_formats[format].open)
        status = eitp__row_formats[format].open(rows, beginning, error);
    eitp__buffer_release(&decoded);
    return status;
}

EITP__PRIVATE eitp_status eitp__row_reader_open(eitp__row_reader *rows, const eitp_host *host, const char *path,
                                                const eitp__text_options *how, const eitp__row_config *config,
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
    eitp__word_list_init(&rows->names, host);
    status = eitp__text_reader_check(&rows->reader, error);
    if (status == EITP_OK && config->columns[EITP__COLUMN_WEIGHT] && !eitp__has_columns(config->format))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "%s: not CSV, TSV or JSON Lines, so there is no weight column '%.60s'", path,
                            config->columns[EITP__COLUMN_WEIGHT]);
    if (status == EITP_OK)
        status = eitp__row_reader_begin(rows, error);
    if (status != EITP_OK)
        eitp__row_reader_close(rows);
    return status;
}

/* True if the row that failed is bad, rather than the file, and must be skipped. */
static int eitp__skips_row(const eitp__row_reader *rows, eitp_status status) {
    const int is_invalid = rows->reader.how.strict && eitp__text_reader_invalid(&rows->reader);
    return status == EITP_ERROR_FORMAT && rows->config.skip_bad && !is_invalid;
}

/* Advises skipping, if the row is bad and not the file. */
static void eitp__advise_skipping(const eitp__row_reader *rows, eitp_status status, eitp_error *error) {
    const int is_invalid = rows->reader.how.strict && eitp__text_reader_invalid(&rows->reader);
    if (status == EITP_ERROR_FORMAT && !is_invalid && !rows->is_of_file && !rows->json.is_other_form)
        eitp__fail_advice(error, status, EITP__SKIP_ADVICE);
}

static void eitp__report_skipped(eitp__row_reader *rows, const eitp_error *error) {
    rows->skipped++;
    if (rows->skipped <= EITP__REPORTED_ROWS)
        eitp__log_line(rows->reader.host, EITP_LOG_WARNING, "skipped a bad row: %s", error->message);
    if (rows->skipped == EITP__REPORTED_ROWS)
        eitp__log_line(rows->reader.host, EITP_LOG_WARNING, "%s: further bad rows are counted but not logged",
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
    if (!rows->config.skip_bad)
        eitp__advise_skipping(rows, status, &bad);
    if (status != EITP_OK && error)
        *error = bad;
    return status;
}

EITP__PRIVATE void eitp__row_reader_findings(const eitp__row_reader *rows, char *text, size_t size) {
    char name[2];
    const char *const delimiter = rows->found_delimiter ? eitp__delimiter_name(rows->csv.separator, name) : "";
    const struct {
        const char *setting, *value;
    } found[] = {{"delimiter", delimiter},
                 {"text_column", rows->common_names[EITP__COLUMN_TEXT]},
                 {"label_column", rows->common_names[EITP__COLUMN_LABEL]},
                 {"document_separator", rows->separator ? rows->separator : ""}};
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < EITP__COUNT(found) && used < size; i++) {
        if (!*found[i].value)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s '%s'", used ? ", " : "read with ", found[i].setting,
                                 found[i].value);
    }
}

EITP__PRIVATE void eitp__row_reader_close(eitp__row_reader *rows) {
    if (!rows->reader.host)
        return;
    eitp__csv_release(&rows->csv);
    eitp__json_rows_release(&rows->json);
    eitp__conll_release(&rows->conll);
    eitp__buffer_release(&rows->text);
    eitp__word_list_release(&rows->names);
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
