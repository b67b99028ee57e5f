/* Learning merges from counted pieces. */
#ifndef EITP_BPE_TRAIN_H
#define EITP_BPE_TRAIN_H

#include "base/memory.h"
#include "text/bpe.h"
#include "text/bpe_words.h"

/* A token that has been learnt: its bytes in eitp__learnt.text. */
typedef struct eitp__learnt_token {
    size_t offset, size;
} eitp__learnt_token;

/* Tokens by id, the 256 bytes first, in the order of their characters; and the merges by rank. Two merges may make the
   same token. */
typedef struct eitp__learnt {
    const eitp_host *host;
    eitp__buffer text;
    eitp__learnt_token *tokens;
    size_t token_count, token_capacity;
    eitp__merge *merges;
    size_t merge_count, merge_capacity;
    uint32_t *slots; /* tokens by their text, open addressing: id + 1, or 0 where the slot is free */
    size_t slot_count;
} eitp__learnt;

EITP__PRIVATE void eitp__learnt_release(eitp__learnt *learnt);

/* Merges pairs that occur at least `minimum_frequency` times, at least once, until there are `token_limit` tokens.
   Release *learnt, after a failure too. */
EITP__PRIVATE eitp_status eitp__learn_merges(eitp__learnt *learnt, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error);

#endif
