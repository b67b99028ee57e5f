/* A table of numbers and texts on standard output: aligned, as CSV, or as an array of JSON. */
#ifndef COMMAND_RECORDS_TEXT_TABLE_H
#define COMMAND_RECORDS_TEXT_TABLE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

typedef enum table_format { TABLE_ALIGNED, TABLE_CSV, TABLE_JSON } table_format;

typedef struct table_column {
    char *title; /* where it is aligned */
    char *key;   /* in CSV and JSON */
    int is_text;
    int rank; /* where columns do not fit, those with the highest rank are left out; 0: never */
    int width;
    int is_hidden;
} table_column;

/* Without a text it is empty. */
typedef struct table_cell {
    char *text;   /* where it is aligned, and of texts everywhere */
    double value; /* of a number; NaN: it is a text */
} table_cell;

/* Zero-initialized it is empty. Columns come before rows. */
typedef struct text_table {
    table_column *columns;
    size_t column_count;
    table_cell *cells; /* row by row */
    char **notes;      /* of each row: a line in place of its cells, or NULL */
    size_t row_count, capacity;
    size_t printed; /* rows */
    int has_header; /* it is printed */
} text_table;

void text_table_release(text_table *t);

/* The texts are copied. */
void text_table_add_column(text_table *t, const char *title, const char *key, int is_text, int rank);

/* Adds a row of empty cells, which are valid until the next row; or a line between rows. */
table_cell *text_table_add_row(text_table *t);
void text_table_add_note(text_table *t, const char *line);

/* Fills in a cell: a text, or a number and how it is shown. */
void text_table_set_text(table_cell *cell, const char *text);
void text_table_set_number(table_cell *cell, double value, const char *text);

/* Keeps the rows and lines that have a word in them, as they would be printed; case does not matter for ASCII. */
void text_table_filter(text_table *t, const char *word);

/* Sorts the rows by a column; empty cells come last. */
void text_table_sort(text_table *t, size_t column, int downwards);

/* Prints the rows that have not been printed yet, aligned or as CSV, under a header that is printed once. Aligned
   columns that do not fit in `columns` are left out; 0: all fit. */
void text_table_print(text_table *t, table_format format, int columns);

/* Adds the rows, without lines between them, as an array of objects. */
void text_table_add_json(const text_table *t, text_buffer *json);

/* Adds a text on one line for people: control characters, and bytes that are not UTF-8, become '?'. */
void text_table_add_printable(text_buffer *line, const char *text);

EITP_END_DECLARATIONS

#endif
