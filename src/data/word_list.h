/* Words added one by one, and the text they form, joined by spaces. */
#ifndef EITP_WORD_LIST_H
#define EITP_WORD_LIST_H

#include "base/memory.h"
#include "base/status.h"
#include "text/text.h"

typedef struct eitp__word_list {
    eitp__buffer text; /* of all words, each followed by a space */
    eitp_text *words;
    size_t count, capacity;
} eitp__word_list;

EITP__PRIVATE void eitp__word_list_init(eitp__word_list *list, const eitp_host *host);
EITP__PRIVATE void eitp__word_list_release(eitp__word_list *list);
EITP__PRIVATE void eitp__word_list_clear(eitp__word_list *list);

/* Adds a copy of a word. */
EITP__PRIVATE eitp_status eitp__word_list_add(eitp__word_list *list, const char *bytes, size_t size, eitp_error *error);

/* Sets the bytes of list->words, after all were added, and returns the text. There must be at least one word. */
EITP__PRIVATE eitp_text eitp__word_list_finish(eitp__word_list *list);

#endif
