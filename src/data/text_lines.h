/* Reads text line by line, in bounded memory. */
#ifndef EITP_TEXT_LINES_H
#define EITP_TEXT_LINES_H

#include "data/text_reader.h"

typedef struct eitp__text_lines {
    eitp__text_reader *reader;
    size_t limit;     /* maximum size of the row that lines are appended to */
    const char *text; /* the rest of the reader's piece */
    size_t left;
    char end;      /* the character that ends a line: '\n' or '\r' */
    uint64_t line; /* number of the last line, from 1 */
    int is_cut;    /* skip the rest of that line */
} eitp__text_lines;

/* Initializes `lines` for an open reader, which the caller closes. Lines end with line feeds, unless `end` is
   changed. */
EITP__PRIVATE void eitp__text_lines_init(eitp__text_lines *lines, eitp__text_reader *reader, size_t limit);

/*
 * Appends the next line to `row`, with its end if it has one. *is_end is 1, and `row` unchanged, after the last line.
 * If the row would exceed the limit, returns EITP_ERROR_FORMAT, and the next call starts with the line after it.
 */
EITP__PRIVATE eitp_status eitp__text_lines_add(eitp__text_lines *lines, eitp__buffer *row, int *is_end,
                                               eitp_error *error);

#endif
