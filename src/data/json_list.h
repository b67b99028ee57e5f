/* The objects of a JSON list as rows, one in memory at a time. */
#ifndef EITP_JSON_LIST_H
#define EITP_JSON_LIST_H

#include "base/memory.h"
#include "base/status.h"
#include "data/text_lines.h"

typedef struct eitp__json_list {
    eitp__text_lines *lines;
    eitp__buffer text; /* the last line read; `at` is the end of the part already used */
    size_t at;
    int has_begun, has_ended; /* an element was read; no more elements can be read */
    uint64_t line, column;    /* position of the last element, in characters from 1 */
} eitp__json_list;

EITP__PRIVATE void eitp__json_list_init(eitp__json_list *list, eitp__text_lines *lines);
EITP__PRIVATE void eitp__json_list_release(eitp__json_list *list);

/* Starts with the first line, which is `size` bytes of `text`. Returns 0 if it does not start with a bracket. */
EITP__PRIVATE int eitp__json_list_begin(eitp__json_list *list, const char *text, size_t size);

/* Reads the next element, which must be an object, as text into `row`. *is_end is 1 after the last one. Text that is
   not a list of objects is EITP_ERROR_FORMAT, and ends the list. */
EITP__PRIVATE eitp_status eitp__json_list_read(eitp__json_list *list, eitp__buffer *row, int *is_end,
                                               eitp_error *error);

#endif
