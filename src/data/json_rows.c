#include "data/json_rows.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__json_rows_init(eitp__json_rows *rows, eitp__text_lines *lines) {
    memset(rows, 0, sizeof *rows);
    rows->lines = lines;
    eitp__json_list_init(&rows->list, lines);
    eitp__buffer_init(&rows->row, lines->reader->host);
    eitp__word_list_init(&rows->words, lines->reader->host);
}

EITP__PRIVATE void eitp__json_rows_release(eitp__json_rows *rows) {
    if (!rows->lines)
        return;
    eitp_json_release(rows->document);
    eitp__release(rows->row.host, rows->labels, rows->label_capacity * sizeof *rows->labels);
    eitp__json_list_release(&rows->list);
    eitp__buffer_release(&rows->row);
    eitp__word_list_release(&rows->words);
    memset(rows, 0, sizeof *rows);
}

EITP__PRIVATE uint64_t eitp__json_rows_column(const eitp__json_rows *rows, const eitp_json *value) {
    size_t begin = value->begin;
    while (begin > 0 && rows->row.data[begin - 1] != '\n')
        begin--;
    return eitp__utf8_count(rows->row.data + begin, value->begin - begin) + (begin ? 1 : rows->column);
}

/* Fails at a value; `what` names the expected kinds. */
static eitp_status eitp__json_rows_fail(const eitp__json_rows *rows, const eitp_json *value, const char *name,
                                        const char *expected, eitp_error *error) {
    static const char *const kinds[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: line %llu, column %llu: '%.60s' must be %s (got %s)",
                      rows->lines->reader->path, (unsigned long long)value->line,
                      (unsigned long long)eitp__json_rows_column(rows, value), name, expected, kinds[value->kind]);
}

/* True for a line of white space. */
static int eitp__json_rows_is_blank(const eitp__buffer *row) {
    for (size_t i = 0; i < row->size; i++) {
        if (!strchr(" \t\r\n", row->data[i]) || !row->data[i])
            return 0;
    }
    return 1;
}

/* Adds advice: a single JSON value over several lines is a frequent mistake, and shows in its first line. */
static eitp_status eitp__json_rows_advise(eitp__json_rows *rows, eitp_status status, eitp_error *error) {
    rows->is_other_form = status == EITP_ERROR_FORMAT && rows->line == 1 && !rows->is_list;
    if (rows->is_other_form)
        eitp__fail_advice(error, status, "a file must have a JSON object on each line, or be one list of objects");
    return status;
}

/* Reads the next line that is not blank into the row. */
static eitp_status eitp__json_rows_line(eitp__json_rows *rows, int *is_end, eitp_error *error) {
    eitp_status status;
    do {
        eitp__buffer_clear(&rows->row);
        status = eitp__text_lines_add(rows->lines, &rows->row, is_end, error);
    } while (status == EITP_OK && !*is_end && eitp__json_rows_is_blank(&rows->row));
    rows->line = rows->lines->line;
    rows->column = 1;
    return status;
}

static eitp_status eitp__json_rows_element(eitp__json_rows *rows, int *is_end, eitp_error *error) {
    eitp__buffer_clear(&rows->row);
    const eitp_status status = eitp__json_list_read(&rows->list, &rows->row, is_end, error);
    rows->line = rows->list.line;
    rows->column = rows->list.column;
    return status;
}

/* Reads the next row. The first one determines what rows are. */
static eitp_status eitp__json_rows_next(eitp__json_rows *rows, int *is_end, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!rows->is_list)
        status = eitp__json_rows_line(rows, is_end, error);
    if (status == EITP_OK && !rows->has_begun && !*is_end) {
        rows->has_begun = 1;
        rows->is_list = eitp__json_list_begin(&rows->list, rows->row.data, rows->row.size);
    }
    return status == EITP_OK && rows->is_list ? eitp__json_rows_element(rows, is_end, error) : status;
}

EITP__PRIVATE eitp_status eitp__json_rows_read(eitp__json_rows *rows, int *is_end, eitp_error *error) {
    const eitp_host *host = rows->row.host;
    *is_end = 0;
    eitp_status status = eitp__json_rows_next(rows, is_end, error);
    if (status != EITP_OK || *is_end)
        return status;
    eitp_json_release(rows->document);
    rows->document = NULL;
    const size_t feed = rows->row.data[rows->row.size - 1] == '\n';
    status =
        eitp__json_parse_line(host, rows->row.data, rows->row.size - feed, (size_t)rows->line, &rows->document, error);
    if (status != EITP_OK) {
        eitp__fail_prefix(error, status, "%s", rows->lines->reader->path);
        return eitp__json_rows_advise(rows, status, error);
    }
    rows->object = eitp_json_root(rows->document);
    if (rows->object->kind != EITP_JSON_OBJECT)
        return eitp__json_rows_advise(rows, eitp__json_rows_fail(rows, rows->object, "the line", "an object", error),
                                      error);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_rows_text(const eitp__json_rows *rows, const char *name, const eitp_json **value,
                                               eitp_text *text, eitp_error *error) {
    const eitp_json *member = eitp_json_member(rows->object, name);
    *value = member && member->kind != EITP_JSON_NULL ? member : NULL;
    if (!*value)
        return EITP_OK;
    if (member->kind != EITP_JSON_STRING)
        return eitp__json_rows_fail(rows, member, name, "a string", error);
    text->bytes = member->text;
    text->size = member->text_size;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_rows_words(eitp__json_rows *rows, const char *name, const eitp_json **value,
                                                eitp_example *example, eitp_error *error) {
    const eitp_json *member = eitp_json_member(rows->object, name);
    eitp_status status = EITP_OK;
    *value = member && member->kind == EITP_JSON_ARRAY ? member : NULL;
    if (!*value)
        return EITP_OK;
    if (!member->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: line %llu, column %llu: '%.60s' is an empty list of words",
                          rows->lines->reader->path, (unsigned long long)member->line,
                          (unsigned long long)eitp__json_rows_column(rows, member), name);
    eitp__word_list_clear(&rows->words);
    for (const eitp_json *word = member->first_child; word && status == EITP_OK; word = word->next) {
        if (word->kind != EITP_JSON_STRING)
            return eitp__json_rows_fail(rows, word, name, "a string or a list of words", error);
        status = eitp__word_list_add(&rows->words, word->text, word->text_size, error);
    }
    if (status != EITP_OK)
        return status;
    example->text = eitp__word_list_finish(&rows->words);
    example->words = rows->words.words;
    example->word_count = rows->words.count;
    return EITP_OK;
}

/* Stores a label, or returns 0 if the value has another kind. */
static int eitp__json_rows_label(const eitp_json *value, eitp_text *label) {
    static const char *const booleans[] = {"false", "true"};
    if (value->kind == EITP_JSON_BOOLEAN) {
        label->bytes = booleans[value->boolean];
        label->size = strlen(label->bytes);
        return 1;
    }
    label->bytes = value->text;
    label->size = value->text_size;
    return value->kind == EITP_JSON_STRING || value->kind == EITP_JSON_NUMBER;
}

EITP__PRIVATE eitp_status eitp__json_rows_labels(eitp__json_rows *rows, const char *name, eitp_example *example,
                                                 eitp_error *error) {
    const eitp_json *member = eitp_json_member(rows->object, name);
    void *labels = rows->labels;
    example->label_count = 0;
    if (!member || member->kind == EITP_JSON_NULL)
        return EITP_OK;
    example->labels_are_list = member->kind == EITP_JSON_ARRAY;
    const size_t count = example->labels_are_list ? member->count : 1;
    const int has_room = eitp__reserve(rows->row.host, &labels, &rows->label_capacity, count, sizeof *rows->labels);
    rows->labels = (eitp_text *)labels;
    if (!has_room)
        return eitp__fail_memory(error, count * sizeof *rows->labels, "the labels of a row");
    const eitp_json *value = example->labels_are_list ? member->first_child : member;
    for (size_t i = 0; i < count; i++, value = value->next) {
        if (!eitp__json_rows_label(value, &rows->labels[i]))
            return eitp__json_rows_fail(rows, value, name, "a string, a number, a boolean or a list of these", error);
    }
    example->labels = rows->labels;
    example->label_count = count;
    return EITP_OK;
}
