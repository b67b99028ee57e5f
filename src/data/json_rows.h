/* Rows of JSON: an object on each line, or the objects of a list. */
#ifndef EITP_JSON_ROWS_H
#define EITP_JSON_ROWS_H

#include "base/json.h"
#include "data/examples.h"
#include "data/json_list.h"
#include "data/text_lines.h"
#include "data/word_list.h"

typedef struct eitp__json_rows {
    eitp__text_lines *lines;
    eitp__json_list list;
    int is_other_form;      /* the first line shows that the file does not have a row on each line */
    int is_list, has_begun; /* rows are the elements of a list; the first line was read */
    eitp__buffer row;
    uint64_t line, column;        /* of the first byte of the row */
    eitp_json_document *document; /* of the row; NULL: none */
    const eitp_json *object;
    eitp_text *labels;
    size_t label_capacity;
    eitp__word_list words;
} eitp__json_rows;

EITP__PRIVATE void eitp__json_rows_init(eitp__json_rows *rows, eitp__text_lines *lines);
EITP__PRIVATE void eitp__json_rows_release(eitp__json_rows *rows);

/* Parses the next line that is not blank, or the next list element if the first such line starts a list. *is_end is 1
   after the last one. Anything but an object is EITP_ERROR_FORMAT, with file, line and column. */
EITP__PRIVATE eitp_status eitp__json_rows_read(eitp__json_rows *rows, int *is_end, eitp_error *error);

/* Stores a string member in `text`. *value is the member; it is NULL if the member is missing or null, and `text` is
   then unchanged. The string is valid until the next row is read. */
EITP__PRIVATE eitp_status eitp__json_rows_text(const eitp__json_rows *rows, const char *name, const eitp_json **value,
                                               eitp_text *text, eitp_error *error);

/* Stores the words of a member that is a list of strings, and the text they form. *value is the member, or NULL if it
   is not a list. They are valid until the next row is read. */
EITP__PRIVATE eitp_status eitp__json_rows_words(eitp__json_rows *rows, const char *name, const eitp_json **value,
                                                eitp_example *example, eitp_error *error);

/* Stores the labels of a member: a string, a number or boolean as written, or a list of these. A missing or null member
   has none. */
EITP__PRIVATE eitp_status eitp__json_rows_labels(eitp__json_rows *rows, const char *name, eitp_example *example,
                                                 eitp_error *error);

/* Returns the column of a value in its line, in characters from 1. Its line is value->line. */
EITP__PRIVATE uint64_t eitp__json_rows_column(const eitp__json_rows *rows, const eitp_json *value);

#endif
