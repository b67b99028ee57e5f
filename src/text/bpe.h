/* Byte-pair encoding of one piece of text, and the alphabet in which files write bytes. */
#ifndef EITP_BPE_H
#define EITP_BPE_H

#include "base/platform.h"

/* Two neighbouring tokens become one; the place in the list of merges is the rank, and the lowest rank goes first. */
typedef struct eitp__merge {
    int32_t left, right, result;
} eitp__merge;

typedef struct eitp__merge_slot {
    uint64_t pair; /* left << 32 | right; UINT64_MAX where the slot is free */
    uint32_t rank;
    int32_t result;
} eitp__merge_slot;

typedef struct eitp__bpe {
    int32_t byte_ids[256]; /* of the tokens that are one byte */
    eitp__merge *merges;   /* by rank; owned */
    size_t merge_count;
    eitp__merge_slot *slots; /* open addressing */
    size_t slot_count;       /* a power of two */
} eitp__bpe;

/* Makes the table of bpe->merges, which bpe owns from the start. A pair that is there twice is EITP_ERROR_FORMAT. */
EITP__PRIVATE eitp_status eitp__bpe_index(eitp__bpe *bpe, const eitp_host *host, eitp_error *error);
EITP__PRIVATE void eitp__bpe_release(eitp__bpe *bpe, const eitp_host *host);

/* The slot of a pair, or NULL where the two do not merge. */
EITP__PRIVATE const eitp__merge_slot *eitp__bpe_find(const eitp__bpe *bpe, int32_t left, int32_t right);

/* Space for merging long pieces; zero-initialise it. */
typedef struct eitp__bpe_space {
    void *memory;
    size_t size;
} eitp__bpe_space;

EITP__PRIVATE void eitp__bpe_space_release(eitp__bpe_space *space, const eitp_host *host);

/*
 * The ids of a piece of 1 to 2^31 - 1 bytes. `ids` has room for `size` of them and *count says how many there are. Time
 * is size * log(size).
 */
EITP__PRIVATE eitp_status eitp__bpe_encode(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_space *space,
                                           const unsigned char *bytes, size_t size, int32_t *ids, size_t *count,
                                           eitp_error *error);

/*
 * Files spell each byte as one visible character: itself where it is a visible one of Latin-1, else a character from
 * U+0100 on (GPT-2's encoder.py). The inverse is -1 for a character outside the alphabet.
 */
EITP__PRIVATE uint32_t eitp__byte_to_character(unsigned char byte);
EITP__PRIVATE int eitp__character_to_byte(uint32_t code_point);

#endif
