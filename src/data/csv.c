#include "data/csv.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__csv_init(eitp__csv *csv, eitp__text_lines *lines, char separator) {
    memset(csv, 0, sizeof *csv);
    csv->lines = lines;
    csv->separator = separator;
    eitp__buffer_init(&csv->row, lines->reader->host);
    eitp__buffer_init(&csv->cells, lines->reader->host);
}

EITP__PRIVATE void eitp__csv_release(eitp__csv *csv) {
    if (!csv->lines)
        return;
    eitp__release(csv->row.host, csv->fields, csv->capacity * sizeof *csv->fields);
    eitp__buffer_release(&csv->row);
    eitp__buffer_release(&csv->cells);
    memset(csv, 0, sizeof *csv);
}

static uint64_t eitp__csv_characters(const eitp__csv *csv, size_t from, size_t to) {
    return eitp__utf8_count(csv->row.data + from, to - from);
}

EITP__PRIVATE uint64_t eitp__csv_column(const eitp__csv *csv, const eitp__csv_field *field) {
    return eitp__csv_characters(csv, field->line_begin, field->begin) + 1;
}

EITP__PRIVATE eitp_text eitp__csv_value(const eitp__csv *csv, size_t field) {
    eitp_text value;
    value.bytes = csv->cells.data ? csv->cells.data + csv->fields[field].offset : "";
    value.size = csv->fields[field].size;
    return value;
}

static eitp_status eitp__csv_fail(const eitp__csv *csv, uint64_t line, uint64_t column, const char *what,
                                  eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s: line %llu, column %llu: %s", csv->lines->reader->path,
                      (unsigned long long)line, (unsigned long long)column, what);
}

/* True if a line end, or the end of the row, is at `at`. */
static int eitp__csv_ends(const eitp__csv *csv, size_t at) {
    const char *text = csv->row.data + at;
    const size_t left = csv->row.size - at;
    return !left || *text == '\n' || (*text == '\r' && (left == 1 || text[1] == '\n'));
}

/* Reads the value of a quoted field, from after its first quote to after its last, over all of its lines. */
static eitp_status eitp__csv_read_quoted(eitp__csv *csv, const eitp__csv_field *field, eitp_error *error) {
    for (;;) {
        const char *text = csv->row.data + csv->at;
        const size_t left = csv->row.size - csv->at;
        const char *quote = left ? (const char *)memchr(text, '"', left) : NULL;
        const size_t size = quote ? (size_t)(quote - text) : left;
        eitp__buffer_add(&csv->cells, text, size);
        csv->at += size + (quote != NULL);
        if (!quote) {
            int is_end;
            const size_t line_begin = csv->row.size;
            eitp_status status = eitp__text_lines_add(csv->lines, &csv->row, &is_end, error);
            if (status == EITP_OK && is_end)
                status =
                    eitp__csv_fail(csv, field->line, eitp__csv_column(csv, field),
                                   "this quote is not closed; close it, or double the quotes inside a field", error);
            if (status != EITP_OK)
                return status;
            csv->line_begin = line_begin;
        } else if (csv->at < csv->row.size && csv->row.data[csv->at] == '"') {
            eitp__buffer_add(&csv->cells, "\"", 1);
            csv->at++;
        } else if (eitp__csv_ends(csv, csv->at) || csv->row.data[csv->at] == csv->separator) {
            return EITP_OK;
        } else {
            return eitp__csv_fail(csv, csv->lines->line, eitp__csv_characters(csv, csv->line_begin, csv->at) + 1,
                                  "text after a closing quote; double the quotes inside a field", error);
        }
    }
}

static void eitp__csv_read_plain(eitp__csv *csv) {
    const size_t begin = csv->at;
    while (!eitp__csv_ends(csv, csv->at) && csv->row.data[csv->at] != csv->separator)
        csv->at++;
    eitp__buffer_add(&csv->cells, csv->row.data + begin, csv->at - begin);
}

/* Adds a field that starts at csv->at; NULL if out of memory. */
static eitp__csv_field *eitp__csv_add_field(eitp__csv *csv) {
    void *fields = csv->fields;
    const int has_room = eitp__reserve(csv->row.host, &fields, &csv->capacity, csv->count + 1, sizeof *csv->fields);
    csv->fields = (eitp__csv_field *)fields;
    if (!has_room)
        return NULL;
    eitp__csv_field *field = &csv->fields[csv->count];
    field->begin = csv->at;
    field->line_begin = csv->line_begin;
    field->line = csv->lines->line;
    field->offset = csv->cells.size;
    return field;
}

static eitp_status eitp__csv_read_field(eitp__csv *csv, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp__csv_field *field = eitp__csv_add_field(csv);
    if (!field)
        return eitp__fail_memory(error, sizeof *field, "the fields of a row");
    if (csv->count == EITP__CSV_COLUMNS)
        return eitp__csv_fail(csv, field->line, eitp__csv_column(csv, field),
                              "too many fields in a row; check the separator", error);
    if (csv->at < csv->row.size && csv->row.data[csv->at] == '"') {
        csv->at++;
        status = eitp__csv_read_quoted(csv, field, error);
    } else {
        eitp__csv_read_plain(csv);
    }
    if (status == EITP_OK && csv->cells.failed)
        status = eitp__fail_memory(error, csv->row.size, "a row");
    field->size = csv->cells.size - field->offset;
    csv->count++;
    return status;
}

EITP__PRIVATE eitp_status eitp__csv_read(eitp__csv *csv, int *is_end, eitp_error *error) {
    eitp_status status;
    do {
        eitp__buffer_clear(&csv->row);
        status = eitp__text_lines_add(csv->lines, &csv->row, is_end, error);
        if (status != EITP_OK || *is_end)
            return status;
    } while (eitp__csv_ends(csv, 0));
    eitp__buffer_clear(&csv->cells);
    csv->count = csv->at = csv->line_begin = 0;
    for (;;) {
        status = eitp__csv_read_field(csv, error);
        if (status != EITP_OK || eitp__csv_ends(csv, csv->at))
            return status;
        csv->at++;
    }
}
