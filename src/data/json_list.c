/* JSON lists: objects are found by their braces; the caller parses them. */
#include "data/json_list.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__json_list_init(eitp__json_list *list, eitp__text_lines *lines) {
    memset(list, 0, sizeof *list);
    list->lines = lines;
    eitp__buffer_init(&list->text, lines->reader->host);
}

EITP__PRIVATE void eitp__json_list_release(eitp__json_list *list) {
    eitp__buffer_release(&list->text);
}

static int eitp__is_json_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

EITP__PRIVATE int eitp__json_list_begin(eitp__json_list *list, const char *text, size_t size) {
    size_t at = 0;
    while (at < size && eitp__is_json_space(text[at]))
        at++;
    if (at == size || text[at] != '[')
        return 0;
    eitp__buffer_add(&list->text, text, size);
    list->at = at + 1;
    return 1;
}

/* Reads the next line once the last one is used up. *is_end is 1 at the end of the input. */
static eitp_status eitp__json_list_fill(eitp__json_list *list, int *is_end, eitp_error *error) {
    eitp_status status = EITP_OK;
    *is_end = 0;
    while (list->at == list->text.size && !*is_end && status == EITP_OK) {
        eitp__buffer_clear(&list->text);
        list->at = 0;
        status = eitp__text_lines_add(list->lines, &list->text, is_end, error);
    }
    return status;
}

/* Moves to the next character that is not white space; *c is 0 at the end of the input. */
static eitp_status eitp__json_list_next(eitp__json_list *list, char *c, eitp_error *error) {
    int is_end = 0;
    eitp_status status = eitp__json_list_fill(list, &is_end, error);
    while (status == EITP_OK && !is_end && eitp__is_json_space(list->text.data[list->at])) {
        list->at++;
        status = eitp__json_list_fill(list, &is_end, error);
    }
    *c = status != EITP_OK || is_end ? 0 : list->text.data[list->at];
    return status;
}

/* Returns the column of the next character, in characters from 1. */
static uint64_t eitp__json_list_column(const eitp__json_list *list) {
    return eitp__utf8_count(list->text.data, list->at) + 1;
}

static eitp_status eitp__json_list_fail(const eitp__json_list *list, const char *expected, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: line %llu, column %llu: expected %s in a list of objects",
                      list->lines->reader->path, (unsigned long long)list->lines->line,
                      (unsigned long long)(list->text.size ? eitp__json_list_column(list) : 1), expected);
}

/* The state of the scan of an object. */
typedef struct eitp__json_scan {
    size_t depth; /* of braces */
    int in_text, is_escaped;
} eitp__json_scan;

/* Continues the scan; returns the number of bytes up to the end of the object, or all. */
static size_t eitp__json_scan_add(eitp__json_scan *scan, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (scan->is_escaped)
            scan->is_escaped = 0;
        else if (scan->in_text && text[i] == '\\')
            scan->is_escaped = 1;
        else if (text[i] == '"')
            scan->in_text = !scan->in_text;
        else if (!scan->in_text && text[i] == '{')
            scan->depth++;
        else if (!scan->in_text && text[i] == '}' && !--scan->depth)
            return i + 1;
    }
    return size;
}

/* Appends the object that starts here to the row. */
static eitp_status eitp__json_list_take(eitp__json_list *list, eitp__buffer *row, eitp_error *error) {
    eitp__json_scan scan = EITP__ZERO;
    int is_end = 0;
    eitp_status status = EITP_OK;
    list->line = list->lines->line;
    list->column = eitp__json_list_column(list);
    do {
        const char *text = list->text.data + list->at;
        const size_t size = eitp__json_scan_add(&scan, text, list->text.size - list->at);
        if (size > list->lines->limit - row->size)
            return eitp__fail(
                error, EITP_ERROR_FORMAT, "%s: line %llu: the row has more than %llu bytes; set a larger row_limit",
                list->lines->reader->path, (unsigned long long)list->line, (unsigned long long)list->lines->limit);
        eitp__buffer_add(row, text, size);
        if (row->failed)
            return eitp__fail_memory(error, row->size + size, "a row");
        list->at += size;
        if (scan.depth)
            status = eitp__json_list_fill(list, &is_end, error);
    } while (status == EITP_OK && scan.depth && !is_end);
    return status == EITP_OK && scan.depth ? eitp__json_list_fail(list, "the end of an object", error) : status;
}

/* Checks the input after the bracket that ends the list. */
static eitp_status eitp__json_list_end(eitp__json_list *list, eitp_error *error) {
    char c;
    list->at++;
    const eitp_status status = eitp__json_list_next(list, &c, error);
    return status == EITP_OK && c ? eitp__json_list_fail(list, "nothing more after it", error) : status;
}

static eitp_status eitp__json_list_element(eitp__json_list *list, eitp__buffer *row, int *is_end, eitp_error *error) {
    char c;
    eitp_status status = eitp__json_list_next(list, &c, error);
    *is_end = status == EITP_OK && c == ']';
    if (*is_end)
        return eitp__json_list_end(list, error);
    if (status == EITP_OK && list->has_begun && c != ',')
        return eitp__json_list_fail(list, "a comma or a closing bracket", error);
    if (status == EITP_OK && list->has_begun) {
        list->at++;
        status = eitp__json_list_next(list, &c, error);
    }
    if (status == EITP_OK && c != '{')
        return eitp__json_list_fail(list, list->has_begun ? "an object" : "an object or a closing bracket", error);
    list->has_begun = 1;
    return status == EITP_OK ? eitp__json_list_take(list, row, error) : status;
}

/* Reads the input after a mistake, for the statistics of the text. */
static eitp_status eitp__json_list_skip(eitp__json_list *list, int *is_end, eitp_error *error) {
    eitp_status status = EITP_OK;
    uint64_t line;
    *is_end = 0;
    /* A line that is too long is skipped by the next call; input that cannot be read does not advance. */
    do {
        line = list->lines->line;
        eitp__buffer_clear(&list->text);
        status = eitp__text_lines_add(list->lines, &list->text, is_end, error);
    } while (!*is_end && (status == EITP_OK || (status == EITP_ERROR_FORMAT && list->lines->line > line)));
    return status;
}

EITP__PRIVATE eitp_status eitp__json_list_read(eitp__json_list *list, eitp__buffer *row, int *is_end,
                                               eitp_error *error) {
    eitp_status status;
    if (list->has_ended)
        return eitp__json_list_skip(list, is_end, error);
    *is_end = 0;
    status = list->text.failed ? eitp__fail_memory(error, list->text.size, "a row")
                               : eitp__json_list_element(list, row, is_end, error);
    list->has_ended = *is_end || status != EITP_OK;
    return status;
}
