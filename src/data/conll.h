/*
 * Rows of CoNLL files (Tjong Kim Sang and De Meulder, "Introduction to the CoNLL-2003 Shared Task", 2003): a word with
 * its label on each line, in columns, and an empty line after each sentence.
 */
#ifndef EITP_CONLL_H
#define EITP_CONLL_H

#include "data/text_lines.h"
#include "data/word_list.h"

/* The default column: the last one. */
#define EITP__LAST_COLUMN SIZE_MAX

typedef struct eitp__conll {
    eitp__text_lines *lines;
    eitp__buffer line;
    eitp__word_list words, labels; /* of the sentence; labels is empty if no line has a second column */
    uint64_t first_line;           /* of the sentence */
    size_t word_column;            /* from 0 */
    size_t label_column;           /* from 0, or EITP__LAST_COLUMN */
    size_t column_count;           /* of every line; 0: no line read yet */
    uint64_t counted_line;         /* the line that set column_count */
    int skips;                     /* skip the rest of a bad sentence */
} eitp__conll;

EITP__PRIVATE void eitp__conll_init(eitp__conll *conll, eitp__text_lines *lines);
EITP__PRIVATE void eitp__conll_release(eitp__conll *conll);

/*
 * Reads the next sentence. *is_end is 1 after the last one. Columns are separated by spaces and tabs. Lines that start
 * with -DOCSTART- count as empty. A line whose number of columns differs from the first line's, or a sentence above the
 * limit of `lines`, is EITP_ERROR_FORMAT, with file, line and column; the next call reads the next sentence. A column
 * that the lines do not have is EITP_ERROR_ARGUMENT.
 */
EITP__PRIVATE eitp_status eitp__conll_read(eitp__conll *conll, int *is_end, eitp_error *error);

#endif
