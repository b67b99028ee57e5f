#include "text/tokenizer.h"

EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_allocate(const eitp_host *host, size_t count, size_t merge_count,
                                                       eitp_error *error) {
    eitp_tokenizer *tokenizer = (eitp_tokenizer *)eitp__allocate(host, sizeof *tokenizer);
    if (!tokenizer) {
        eitp__fail_memory(error, sizeof *tokenizer, "a tokenizer");
        return NULL;
    }
    tokenizer->host = *host;
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++)
        tokenizer->special[which] = -1;
    eitp__buffer_init(&tokenizer->config, &tokenizer->host);
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__buffer_init(&vocabulary->bytes, &tokenizer->host);
    vocabulary->tokens = (eitp__token *)eitp__allocate(host, count * sizeof *vocabulary->tokens);
    vocabulary->count = vocabulary->tokens ? count : 0;
    eitp__bpe *bpe = &tokenizer->bpe;
    bpe->merges = (eitp__merge *)eitp__allocate(host, merge_count * sizeof *bpe->merges);
    bpe->merge_count = bpe->merges ? merge_count : 0;
    if (!vocabulary->tokens || (merge_count && !bpe->merges)) {
        eitp__fail_memory(error, count * sizeof *vocabulary->tokens + merge_count * sizeof *bpe->merges,
                          "the tokenizer's vocabulary");
        eitp_tokenizer_destroy(tokenizer);
        return NULL;
    }
    return tokenizer;
}

EITP__PRIVATE eitp_status eitp__tokenizer_set_token(eitp_tokenizer *tokenizer, size_t id, const void *bytes,
                                                    size_t size, unsigned flags, eitp_error *error) {
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__token *token = &vocabulary->tokens[id];
    if (size > UINT32_MAX - vocabulary->bytes.size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the text of the vocabulary exceeds 4 GiB");
    token->offset = (uint32_t)vocabulary->bytes.size;
    token->size = (uint32_t)size;
    token->flags = (unsigned char)(flags | EITP__TOKEN_PRESENT);
    eitp__buffer_add(&vocabulary->bytes, bytes, size);
    return vocabulary->bytes.failed ? eitp__fail_memory(error, size, "the tokenizer's vocabulary") : EITP_OK;
}

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id) {
    return (const unsigned char *)tokenizer->vocabulary.bytes.data + tokenizer->vocabulary.tokens[id].offset;
}

/* Finds the token of each byte. */
static eitp_status eitp__tokenizer_find_bytes(eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t *byte_ids = tokenizer->bpe.byte_ids;
    for (size_t byte = 0; byte < 256; byte++)
        byte_ids[byte] = -1;
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (token->size == 1 && !(token->flags & (EITP__TOKEN_VERBATIM | EITP__TOKEN_OUTSIDE)))
            byte_ids[*eitp__token_bytes(tokenizer, id)] = (int32_t)id;
    }
    for (size_t byte = 0; byte < 256; byte++) {
        if (byte_ids[byte] < 0)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "the vocabulary lacks a token for byte 0x%02X, so some texts cannot be encoded; train it "
                              "with an initial alphabet of all 256 bytes",
                              (unsigned)byte);
    }
    return EITP_OK;
}

/* Builds the list of added tokens for the splitter. */
static eitp_status eitp__tokenizer_list_added(eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t count = 0;
    for (size_t id = 0; id < vocabulary->count; id++)
        count += (vocabulary->tokens[id].flags & EITP__TOKEN_ADDED) != 0;
    if (!count)
        return EITP_OK;
    tokenizer->added = (eitp__added_token *)eitp__allocate(&tokenizer->host, count * sizeof *tokenizer->added);
    if (!tokenizer->added)
        return eitp__fail_memory(error, count * sizeof *tokenizer->added, "the tokenizer's added tokens");
    tokenizer->added_count = count;
    for (size_t id = 0, i = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (!(token->flags & EITP__TOKEN_ADDED))
            continue;
        eitp__added_token *added = &tokenizer->added[i++];
        added->bytes = eitp__token_bytes(tokenizer, id);
        added->size = token->size;
        added->id = (int32_t)id;
        if ((token->flags & EITP__TOKEN_SPECIAL) && token->size == strlen(EITP__END_OF_TEXT) &&
            !memcmp(added->bytes, EITP__END_OF_TEXT, token->size))
            tokenizer->special[EITP_END_OF_TEXT] = tokenizer->special[EITP_BEGIN_OF_TEXT] =
                tokenizer->special[EITP_UNKNOWN] = added->id;
    }
    eitp__added_tokens_sort(tokenizer->added, count);
    for (size_t i = 1; i < count; i++) {
        const eitp__added_token *one = &tokenizer->added[i - 1], *other = &tokenizer->added[i];
        if (one->size == other->size && !memcmp(one->bytes, other->bytes, one->size))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "added tokens %ld and %ld have the same text; remove one of them", (long)one->id,
                              (long)other->id);
    }
    return EITP_OK;
}

static uint64_t eitp__fnv(uint64_t hash, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u;
    return hash;
}

/* Hashes the bytes from the lowest on, so that the result is the same on every machine. */
static uint64_t eitp__fnv_number(uint64_t hash, uint32_t number) {
    for (unsigned shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (number >> shift & 0xFF)) * 0x100000001B3u;
    return hash;
}

static uint64_t eitp__tokenizer_hash(const eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    uint64_t hash = eitp__fnv_number(0xCBF29CE484222325u, (uint32_t)tokenizer->add_prefix_space);
    hash = eitp__fnv_number(hash, (uint32_t)vocabulary->count);
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        hash = eitp__fnv_number(hash, token->flags & (EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL));
        hash = eitp__fnv_number(hash, token->size);
        hash = eitp__fnv(hash, eitp__token_bytes(tokenizer, id), token->size);
    }
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].left);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].right);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].result);
    }
    return hash;
}

EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_status status = eitp__tokenizer_find_bytes(tokenizer, error);
    if (status == EITP_OK)
        status = eitp__bpe_index(&tokenizer->bpe, &tokenizer->host, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_list_added(tokenizer, error);
    if (status == EITP_OK)
        tokenizer->fingerprint = eitp__tokenizer_hash(tokenizer);
    return status;
}

eitp_status eitp_tokenizer_create_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!host || !out)
        return eitp__fail_null(error, "eitp_tokenizer_create_bytes", "host and out");
    *out = NULL;
    eitp_tokenizer *tokenizer = eitp__tokenizer_allocate(host, 257, 0, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    for (size_t byte = 0; byte < 256 && status == EITP_OK; byte++) {
        const unsigned char text = (unsigned char)byte;
        status = eitp__tokenizer_set_token(tokenizer, byte, &text, 1, 0, error);
    }
    if (status == EITP_OK)
        status = eitp__tokenizer_set_token(tokenizer, 256, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT),
                                           EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_complete(tokenizer, error);
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    const eitp_host host = tokenizer->host;
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__buffer_release(&vocabulary->bytes);
    eitp__buffer_release(&tokenizer->config);
    eitp__release(&host, vocabulary->tokens, vocabulary->count * sizeof *vocabulary->tokens);
    eitp__bpe_release(&tokenizer->bpe, &host);
    eitp__release(&host, tokenizer->added, tokenizer->added_count * sizeof *tokenizer->added);
    eitp__release(&host, tokenizer, sizeof *tokenizer);
}

int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer) {
    return tokenizer ? (int32_t)tokenizer->vocabulary.count : 0;
}

int32_t eitp_tokenizer_special(const eitp_tokenizer *tokenizer, eitp_special_token which) {
    const int index = (int)which;
    return tokenizer && index >= 0 && index < EITP_SPECIAL_TOKEN_COUNT ? tokenizer->special[index] : -1;
}

int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer) {
    return eitp_tokenizer_special(tokenizer, EITP_END_OF_TEXT);
}

uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer) {
    return tokenizer ? tokenizer->fingerprint : 0;
}

eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                 eitp_error *error) {
    if (!tokenizer || !bytes || !size)
        return eitp__fail_null(error, "eitp_tokenizer_token", "tokenizer, bytes and size");
    if (id < 0 || (size_t)id >= tokenizer->vocabulary.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "token id %ld is outside the vocabulary, which has ids 0 to %zu",
                          (long)id, tokenizer->vocabulary.count - 1);
    *bytes = (const char *)eitp__token_bytes(tokenizer, (size_t)id);
    *size = tokenizer->vocabulary.tokens[id].size;
    return EITP_OK;
}

eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                                  size_t capacity, size_t *size, eitp_error *error) {
    size_t total = 0;
    if (!tokenizer || !size)
        return eitp__fail_null(error, "eitp_tokenizer_decode", "tokenizer and size");
    *size = 0;
    if ((count && !ids) || (capacity && !text))
        return eitp__fail_null(error, "eitp_tokenizer_decode", "ids with a count and text with a capacity");
    for (size_t i = 0; i < count; i++) {
        const char *bytes = NULL;
        size_t length = 0;
        eitp_status status = eitp_tokenizer_token(tokenizer, ids[i], &bytes, &length, error);
        if (status != EITP_OK)
            return eitp__fail_prefix(error, status, "token %zu of the sequence", i);
        if (total < capacity)
            memcpy(text + total, bytes, length < capacity - total ? length : capacity - total);
        if (!eitp__add_size(total, length, &total))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the text of %zu tokens exceeds the address space", count);
    }
    *size = total;
    return EITP_OK;
}
