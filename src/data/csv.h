/* Rows of CSV and TSV (RFC 4180). */
#ifndef EITP_CSV_H
#define EITP_CSV_H

#include "data/text_lines.h"

/* Maximum number of fields in a row. */
enum { EITP__CSV_COLUMNS = 4096 };

typedef struct eitp__csv_field {
    size_t offset, size; /* of the field's value in `cells` */
    size_t begin;        /* offset of the field in `row` */
    size_t line_begin;   /* offset in `row` of the line that the field starts on */
    uint64_t line;
} eitp__csv_field;

typedef struct eitp__csv {
    eitp__text_lines *lines;
    char separator;
    eitp__buffer row;   /* the lines of the row */
    eitp__buffer cells; /* the values of the row's fields */
    eitp__csv_field *fields;
    size_t count, capacity;
    size_t at, line_begin; /* offsets in `row` of the next character to read and of its line */
} eitp__csv;

EITP__PRIVATE void eitp__csv_init(eitp__csv *csv, eitp__text_lines *lines, char separator);
EITP__PRIVATE void eitp__csv_release(eitp__csv *csv);

/*
 * Reads the next row. *is_end is 1 after the last one. Lines without a character are skipped. An unclosed quote, text
 * after a closing quote, and more than EITP__CSV_COLUMNS fields are EITP_ERROR_FORMAT, with file, line and column; the
 * next call reads the next row. A quote inside a field that does not start with one is an ordinary character.
 */
EITP__PRIVATE eitp_status eitp__csv_read(eitp__csv *csv, int *is_end, eitp_error *error);

/* Returns the column of a field in its line, in characters from 1. */
EITP__PRIVATE uint64_t eitp__csv_column(const eitp__csv *csv, const eitp__csv_field *field);

EITP__PRIVATE eitp_text eitp__csv_value(const eitp__csv *csv, size_t field);

#endif
