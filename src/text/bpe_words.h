/* The distinct pieces of a text and how often each occurs, in bounded memory. */
#ifndef EITP_BPE_WORDS_H
#define EITP_BPE_WORDS_H

#include "base/platform.h"

typedef struct eitp__word {
    uint64_t count;
    size_t offset; /* of its bytes in eitp__words.text */
    uint32_t size;
} eitp__word;

typedef struct eitp__words {
    const eitp_host *host;
    uint64_t limit; /* bytes that learning from the words may take, about */
    unsigned char *text;
    size_t text_size, text_capacity;
    eitp__word *words;
    size_t count, capacity;
    uint32_t *slots; /* open addressing: word + 1, or 0 where the slot is free */
    size_t slot_count;
    uint64_t forgotten; /* occurrences of words that were dropped to stay within the limit */
} eitp__words;

EITP__PRIVATE void eitp__words_init(eitp__words *words, const eitp_host *host, uint64_t limit);
EITP__PRIVATE void eitp__words_release(eitp__words *words);

/* Counts one occurrence. Where a new word would go beyond the limit, the rarest are forgotten first, until half of it
 * is free. */
EITP__PRIVATE eitp_status eitp__words_add(eitp__words *words, const unsigned char *bytes, size_t size,
                                          eitp_error *error);

#endif
