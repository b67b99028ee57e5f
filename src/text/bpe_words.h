/* Distinct pieces of a text and their numbers of occurrences, in bounded memory. */
#ifndef EITP_BPE_WORDS_H
#define EITP_BPE_WORDS_H

#include "base/platform.h"

typedef struct eitp__word {
    uint64_t count;
    size_t offset; /* offset of its bytes in eitp__words.text */
    uint32_t size;
} eitp__word;

typedef struct eitp__words {
    const eitp_host *host;
    uint64_t limit; /* approximate memory for training with the words, in bytes */
    unsigned char *text;
    size_t text_size, text_capacity;
    eitp__word *words;
    size_t count, capacity;
    uint32_t *slots; /* open addressing: index of a word + 1, or 0 if the slot is free */
    size_t slot_count;
    uint64_t dropped; /* occurrences of words dropped to stay within the limit */
} eitp__words;

EITP__PRIVATE void eitp__words_init(eitp__words *words, const eitp_host *host, uint64_t limit);
EITP__PRIVATE void eitp__words_release(eitp__words *words);

/* Counts one occurrence of a word. If a new word would exceed the limit, first drops the rarest words until at most
   half of the limit is used. */
EITP__PRIVATE eitp_status eitp__words_add(eitp__words *words, const unsigned char *bytes, size_t size,
                                          eitp_error *error);

#endif
