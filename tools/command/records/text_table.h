/* A table of numbers and text on standard output: aligned, as CSV, or as a JSON array. */
#ifndef COMMAND_RECORDS_TEXT_TABLE_H
#define COMMAND_RECORDS_TEXT_TABLE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

typedef enum table_format { TABLE_ALIGNED, TABLE_CSV, TABLE_JSON } table_format;

typedef struct table_column {
    char *title; /* in aligned tables */
    char *key;   /* in CSV and JSON */
    int is_text;
    int rank; /* if columns do not fit, those with the highest rank are dropped; 0: never */
    int width;
    int is_hidden;
} table_column;

/* Empty without text. */
typedef struct table_cell {
    char *text;   /* in aligned tables, and for text everywhere */
    double value; /* of a number; NaN: text */
} table_cell;

/* Empty when zero-initialized. Add columns before rows. */
typedef struct text_table {
    table_column *columns;
    size_t column_count;
    table_cell *cells; /* row by row */
    char **notes;      /* for each row: a line instead of its cells, or NULL */
    size_t row_count, capacity;
    size_t printed; /* rows */
    int has_header; /* it was printed */
} text_table;

void text_table_release(text_table *t);

/* Adds a column. The strings are copied. */
void text_table_add_column(text_table *t, const char *title, const char *key, int is_text, int rank);

/* Adds a row of empty cells, which are valid until the next row; the second function adds a line between rows. */
table_cell *text_table_add_row(text_table *t);
void text_table_add_note(text_table *t, const char *line);

/* Fills in a cell: with text, or with a number and its formatted text. */
void text_table_set_text(table_cell *cell, const char *text);
void text_table_set_number(table_cell *cell, double value, const char *text);

/* Keeps rows and lines that contain a word as printed; ignores ASCII case. */
void text_table_filter(text_table *t, const char *word);

/* Sorts the rows by a column; empty cells come last. */
void text_table_sort(text_table *t, size_t column, int downwards);

/* Prints the rows not printed yet, aligned or as CSV, under a header that is printed once. Aligned columns that do not
   fit in `columns` are dropped; 0: no limit. */
void text_table_print(text_table *t, table_format format, int columns);

/* Adds an array of objects with the rows, without lines between them. */
void text_table_add_json(const text_table *t, text_buffer *json);

/* Adds text on one line: control characters, and bytes that are not UTF-8, become '?'. */
void text_table_add_printable(text_buffer *line, const char *text);

EITP_END_DECLARATIONS

#endif
