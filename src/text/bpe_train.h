/* Training merges on counted pieces. */
#ifndef EITP_BPE_TRAIN_H
#define EITP_BPE_TRAIN_H

#include "base/memory.h"
#include "base/settings.h"
#include "text/bpe.h"
#include "text/bpe_words.h"

/* A token's bytes in eitp__trained.text. */
typedef struct eitp__trained_token {
    size_t offset, size;
} eitp__trained_token;

/* Tokens by id, starting with the 256 bytes in the order of their characters in files, and merges by rank. Several
   merges may yield the same token. */
typedef struct eitp__trained {
    const eitp_host *host;
    eitp__buffer text;
    eitp__trained_token *tokens;
    size_t token_count, token_capacity;
    eitp__merge *merges;
    size_t merge_count, merge_capacity;
    uint32_t *slots; /* tokens by text, open addressing: id + 1, or 0 if the slot is free */
    size_t slot_count;
} eitp__trained;

EITP__PRIVATE void eitp__trained_release(eitp__trained *trained);

/* Merges pairs that occur at least max(minimum_frequency, 1) times until there are `token_limit` tokens. Release
   *trained even after a failure. */
EITP__PRIVATE eitp_status eitp__train_merges(eitp__trained *trained, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error);

/* Returns the table of settings of eitp_tokenizer_train_config, with defaults and bounds. Stores their number in
   *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__tokenizer_train_setting_table(size_t *count);

#endif
