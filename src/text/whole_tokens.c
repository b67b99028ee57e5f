/* Tokens of BPE by text, for tokenizers that encode a piece that is a token without merges. */
#include "base/checksum.h"
#include "text/tokenizer.h"

static const unsigned char *eitp__whole_bytes(const eitp_tokenizer *tokenizer, size_t id) {
    return (const unsigned char *)tokenizer->vocabulary.bytes.data + tokenizer->vocabulary.tokens[id].offset;
}

/* Returns the slot of the token with this text, or the free slot for it. */
static uint32_t *eitp__whole_slot(const eitp_tokenizer *tokenizer, const unsigned char *bytes, size_t size) {
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, bytes, size);
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (tokenizer->whole_count - 1);; i = (i + 1) & (tokenizer->whole_count - 1)) {
        uint32_t *slot = &tokenizer->whole[i];
        const size_t id = (size_t)*slot - 1;
        if (!*slot ||
            (tokenizer->vocabulary.tokens[id].size == size && !memcmp(eitp__whole_bytes(tokenizer, id), bytes, size)))
            return slot;
    }
}

EITP__PRIVATE eitp_status eitp__whole_tokens_index(eitp_tokenizer *tokenizer, eitp_error *error) {
    const unsigned apart =
        EITP__TOKEN_NOT_IN_MODEL | (tokenizer->model == EITP__MODEL_BPE ? (unsigned)EITP__TOKEN_VERBATIM : 0);
    size_t count = 16;
    while (count < 2 * tokenizer->vocabulary.count)
        count *= 2;
    tokenizer->whole = (uint32_t *)eitp__allocate(&tokenizer->host, count * sizeof *tokenizer->whole);
    if (!tokenizer->whole)
        return eitp__fail_memory(error, count * sizeof *tokenizer->whole, "the tokenizer's vocabulary");
    tokenizer->whole_count = count;
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        const eitp__token *token = &tokenizer->vocabulary.tokens[id];
        if (token->size && !(token->flags & apart))
            *eitp__whole_slot(tokenizer, eitp__whole_bytes(tokenizer, id), token->size) = (uint32_t)id + 1;
    }
    return EITP_OK;
}

EITP__PRIVATE int32_t eitp__whole_token_find(const eitp_tokenizer *tokenizer, const unsigned char *bytes, size_t size) {
    return (int32_t)*eitp__whole_slot(tokenizer, bytes, size) - 1;
}
