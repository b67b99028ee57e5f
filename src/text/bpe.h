/* Byte-pair encoding of one piece of text, and the alphabet that files use to spell bytes. */
#ifndef EITP_BPE_H
#define EITP_BPE_H

#include "base/platform.h"

/* Merges two adjacent tokens into one. The index in the list of merges is the rank; the lowest rank is applied
   first. */
typedef struct eitp__merge {
    int32_t left, right, result;
} eitp__merge;

typedef struct eitp__merge_slot {
    uint64_t pair; /* left << 32 | right; UINT64_MAX if the slot is free */
    uint32_t rank;
    int32_t result;
} eitp__merge_slot;

typedef struct eitp__bpe {
    int32_t byte_ids[256]; /* ids of the single-byte tokens; -1: none */
    int lacks_bytes;       /* a byte has no token */
    int32_t unknown;       /* token of symbols without a token; -1: they are dropped */
    int fuses_unknown;     /* consecutive unknown symbols become one token */
    eitp__merge *merges;   /* by rank; owned */
    size_t merge_count;
    eitp__merge_slot *slots; /* merges by pair, open addressing */
    size_t slot_count;       /* a power of two */
} eitp__bpe;

/* Builds bpe->slots from bpe->merges. */
EITP__PRIVATE eitp_status eitp__bpe_index(eitp__bpe *bpe, const eitp_host *host, eitp_error *error);
EITP__PRIVATE void eitp__bpe_release(eitp__bpe *bpe, const eitp_host *host);

/* Returns the slot of a pair, or NULL if there is no such merge. */
EITP__PRIVATE const eitp__merge_slot *eitp__bpe_find(const eitp__bpe *bpe, int32_t left, int32_t right);

/* Memory for merging long pieces, allocated on demand and kept. Zero-initialise it. */
typedef struct eitp__bpe_workspace {
    void *memory;
    size_t size;
} eitp__bpe_workspace;

EITP__PRIVATE void eitp__bpe_workspace_release(eitp__bpe_workspace *workspace, const eitp_host *host);

/* Merges `count` tokens, at most 2^31 - 1, in place in O(count log count) time. *merged is the number of tokens
   left. */
EITP__PRIVATE eitp_status eitp__bpe_merge(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_workspace *workspace,
                                          int32_t *ids, size_t count, size_t *merged, eitp_error *error);

/* Encodes a piece of 1 to 2^31 - 1 bytes by merging the tokens of its bytes. `ids` has room for `size` ids. *count is
   the number of ids, 0 if no byte has a token. */
EITP__PRIVATE eitp_status eitp__bpe_encode(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_workspace *workspace,
                                           const unsigned char *bytes, size_t size, int32_t *ids, size_t *count,
                                           eitp_error *error);

/*
 * Converts between bytes and the alphabet of files, which spells each byte as one visible character: itself if it is a
 * visible Latin-1 character, otherwise a character from U+0100 on (GPT-2's encoder.py). The inverse is -1 for a
 * character outside this alphabet.
 */
EITP__PRIVATE uint32_t eitp__byte_to_character(unsigned char byte);
EITP__PRIVATE int eitp__character_to_byte(uint32_t code_point);

#endif
