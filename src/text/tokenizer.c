#include "text/tokenizer.h"

#include "base/checksum.h"
#include "text/special_tokens.h"

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
    eitp__buffer_init(&tokenizer->chat_template, &tokenizer->host);
    eitp__buffer_init(&tokenizer->added_text, &tokenizer->host);
    for (int part = 0; part < EITP__KEPT_PARTS; part++)
        eitp__buffer_init(&tokenizer->kept[part], &tokenizer->host);
    eitp__wordpiece_init(&tokenizer->wordpiece, &tokenizer->host);
    tokenizer->bpe.unknown = -1;
    eitp__template_add(&tokenizer->single, EITP__TEMPLATE_FIRST, 0);
    eitp__template_add(&tokenizer->pair, EITP__TEMPLATE_FIRST, 0);
    eitp__template_add(&tokenizer->pair, EITP__TEMPLATE_SECOND, 1);
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
    token->flags = (uint16_t)(flags | EITP__TOKEN_PRESENT);
    eitp__buffer_add(&vocabulary->bytes, bytes, size);
    return vocabulary->bytes.failed ? eitp__fail_memory(error, size, "the tokenizer's vocabulary") : EITP_OK;
}

EITP__PRIVATE const char *eitp__preserved_part_name(int part) {
    static const char *const names[] = {"truncation", "padding", "pre_tokenizer", "post_processor", "decoder"};
    return names[part];
}

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id) {
    return (const unsigned char *)tokenizer->vocabulary.bytes.data + tokenizer->vocabulary.tokens[id].offset;
}

/* Finds the token of each byte. */
static void eitp__tokenizer_find_bytes(eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t *byte_ids = tokenizer->bpe.byte_ids;
    for (size_t byte = 0; byte < 256; byte++)
        byte_ids[byte] = -1;
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (token->size == 1 && !(token->flags & (EITP__TOKEN_VERBATIM | EITP__TOKEN_NOT_IN_MODEL)))
            byte_ids[*eitp__token_bytes(tokenizer, id)] = (int32_t)id;
    }
    tokenizer->bpe.lacks_bytes = 0;
    for (size_t byte = 0; byte < 256; byte++)
        tokenizer->bpe.lacks_bytes |= byte_ids[byte] < 0;
}

/* Returns the text of a token of the model, for eitp__byte_fallback_index. */
static eitp__token_text eitp__model_token(const void *user, size_t id) {
    const eitp_tokenizer *tokenizer = (const eitp_tokenizer *)user;
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    eitp__token_text text;
    text.bytes = eitp__token_bytes(tokenizer, id);
    text.size = token->flags & EITP__TOKEN_NOT_IN_MODEL ? 0 : token->size;
    return text;
}

/* Indexes the initial symbols of BPE, bytes or characters, and the merges. */
static eitp_status eitp__tokenizer_index_bpe(eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (tokenizer->model == EITP__MODEL_BPE)
        eitp__tokenizer_find_bytes(tokenizer);
    else /* with ignores_merges, a piece may be one token, so it must be the pre-tokenizer's */
        status = eitp__byte_fallback_index(&tokenizer->fallback, &tokenizer->bpe, &tokenizer->host, eitp__model_token,
                                           tokenizer, tokenizer->vocabulary.count, tokenizer->ignores_merges, error);
    if (status == EITP_OK)
        status = eitp__bpe_index(&tokenizer->bpe, &tokenizer->host, error);
    if (status == EITP_OK && tokenizer->ignores_merges)
        status = eitp__whole_tokens_index(tokenizer, error);
    return status;
}

/* Builds the trie of WordPiece. */
static eitp_status eitp__tokenizer_index_words(eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp_status status = EITP_OK;
    for (size_t id = 0; id < vocabulary->count && status == EITP_OK; id++) {
        if ((vocabulary->tokens[id].flags & (EITP__TOKEN_PRESENT | EITP__TOKEN_NOT_IN_MODEL)) == EITP__TOKEN_PRESENT)
            status = eitp__wordpiece_add(&tokenizer->wordpiece, &tokenizer->host, eitp__token_bytes(tokenizer, id),
                                         vocabulary->tokens[id].size, (int32_t)id, error);
    }
    return status == EITP_OK ? eitp__wordpiece_complete(&tokenizer->wordpiece, &tokenizer->host, error) : status;
}

/* Adds the text of a token, normalized, to tokenizer->added_text, and stores its size. */
static eitp_status eitp__normalize_added(eitp_tokenizer *tokenizer, const eitp__token *token, eitp__added_token *added,
                                         eitp_error *error) {
    eitp__buffer *text = &tokenizer->added_text;
    const size_t before = text->size;
    eitp__normalizer normalizer;
    eitp__normalizer_init(&normalizer, &tokenizer->host, &tokenizer->normalization);
    eitp_status status = eitp__normalizer_add(&normalizer, added->bytes, token->size, text, error);
    if (status == EITP_OK)
        status = eitp__normalizer_finish(&normalizer, text, error);
    eitp__normalizer_release(&normalizer);
    added->size = text->size - before;
    if (status == EITP_OK && !added->size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported added token %ld: the normalizer leaves it empty; remove it, or set its "
                          "\"normalized\" to false",
                          (long)added->id);
    return status;
}

/* Lists the added tokens of one kind, EITP__ADDED_RAW or EITP__ADDED_NORMALIZED. */
static eitp_status eitp__tokenizer_list_added(eitp_tokenizer *tokenizer, int kind, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    const unsigned mask = EITP__TOKEN_ADDED | EITP__TOKEN_NORMALIZED;
    const unsigned wanted = EITP__TOKEN_ADDED | (kind == EITP__ADDED_NORMALIZED ? (unsigned)EITP__TOKEN_NORMALIZED : 0);
    eitp__added_tokens *list = &tokenizer->added[kind];
    size_t count = 0;
    for (size_t id = 0; id < vocabulary->count; id++)
        count += (vocabulary->tokens[id].flags & mask) == wanted;
    if (!count)
        return EITP_OK;
    list->tokens = (eitp__added_token *)eitp__allocate(&tokenizer->host, count * sizeof *list->tokens);
    if (!list->tokens)
        return eitp__fail_memory(error, count * sizeof *list->tokens, "the tokenizer's added tokens");
    list->count = count;
    for (size_t id = 0, i = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if ((token->flags & mask) != wanted)
            continue;
        eitp__added_token *added = &list->tokens[i++];
        added->bytes = eitp__token_bytes(tokenizer, id);
        added->size = token->size;
        added->id = (int32_t)id;
        added->strips_left = (token->flags & EITP__TOKEN_TAKES_LEFT) != 0;
        added->strips_right = (token->flags & EITP__TOKEN_TAKES_RIGHT) != 0;
        added->is_word = (token->flags & EITP__TOKEN_WORD) != 0;
        eitp_status status = EITP_OK;
        if (kind == EITP__ADDED_NORMALIZED && tokenizer->has_normalizer)
            status = eitp__normalize_added(tokenizer, token, added, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Sorts the added tokens of one kind and checks that they differ. */
static eitp_status eitp__tokenizer_sort_added(eitp_tokenizer *tokenizer, int kind, eitp_error *error) {
    eitp__added_tokens *list = &tokenizer->added[kind];
    if (kind == EITP__ADDED_NORMALIZED && tokenizer->has_normalizer) { /* the text no longer moves */
        size_t offset = 0;
        for (size_t i = 0; i < list->count; offset += list->tokens[i++].size)
            list->tokens[i].bytes = (const unsigned char *)tokenizer->added_text.data + offset;
    }
    eitp__added_tokens_sort(list);
    for (size_t i = 1; i < list->count; i++) {
        const eitp__added_token *one = &list->tokens[i - 1], *other = &list->tokens[i];
        if (one->size == other->size && !memcmp(one->bytes, other->bytes, one->size))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "added tokens %ld and %ld have the same text; remove one of them", (long)one->id,
                              (long)other->id);
    }
    return EITP_OK;
}

/* Finds the special tokens with the usual names. */
static void eitp__tokenizer_find_special(eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (!(token->flags & EITP__TOKEN_SPECIAL))
            continue;
        for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
            const char *name = eitp__family_token(tokenizer->family, (eitp_special_token)which);
            if (name && token->size == strlen(name) && !memcmp(eitp__token_bytes(tokenizer, id), name, token->size))
                tokenizer->special[which] = (int32_t)id;
        }
    }
    if (tokenizer->model == EITP__MODEL_WORDPIECE)
        tokenizer->special[EITP_UNKNOWN] = tokenizer->wordpiece.unknown;
    /* A file that names a token must not make it special. */
    if (tokenizer->bpe.unknown >= 0 && vocabulary->tokens[tokenizer->bpe.unknown].flags & EITP__TOKEN_SPECIAL)
        tokenizer->special[EITP_UNKNOWN] = tokenizer->bpe.unknown;
}

/* Hashes the bytes from the lowest on, so that the result is the same on every machine. */
static uint64_t eitp__fnv_number(uint64_t hash, uint32_t number) {
    for (unsigned shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (number >> shift & 0xFF)) * 0x100000001B3u;
    return hash;
}

/* Hashes the first steps of the normalizer. Form C alone in byte-level BPE is hashed by eitp__hash_splits. */
static uint64_t eitp__hash_steps(uint64_t hash, const eitp_tokenizer *tokenizer) {
    const eitp__normalization *steps = &tokenizer->normalization;
    if (tokenizer->model == EITP__MODEL_BPE && steps->step_count == 1 && steps->steps[0] == EITP__FORM_C)
        return hash;
    for (size_t i = 0; i < steps->step_count; i++)
        hash = eitp__fnv_number(hash, steps->steps[i] + 1u);
    return hash;
}

/* Hashes the parts that GPT-2's byte-level BPE lacks. */
static uint64_t eitp__hash_splits(uint64_t hash, const eitp_tokenizer *tokenizer) {
    const uint32_t parts = (uint32_t)tokenizer->split << 2 | (uint32_t)(tokenizer->has_normalizer != 0) << 1 |
                           (uint32_t)(tokenizer->ignores_merges != 0);
    hash = parts ? eitp__fnv_number(hash, parts) : hash;
    if (!tokenizer->bpe.lacks_bytes || tokenizer->bpe.unknown < 0)
        return hash;
    hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.unknown);
    return eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.fuses_unknown);
}

static uint64_t eitp__hash_fallback(uint64_t hash, const eitp_tokenizer *tokenizer) {
    const eitp__byte_fallback *fallback = &tokenizer->fallback;
    const eitp__normalization *steps = &tokenizer->normalization;
    hash = eitp__fnv_number(hash, (uint32_t)(steps->replaces_space | steps->prepends_space << 1 |
                                             tokenizer->bpe.fuses_unknown << 2 | fallback->splits << 3 |
                                             (tokenizer->ignores_merges != 0) << 4) |
                                      fallback->decoding << 8);
    return eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.unknown);
}

/* Hashes the parts that byte-level BPE lacks, so that its fingerprints do not depend on the other models. */
static uint64_t eitp__hash_model(uint64_t hash, const eitp_tokenizer *tokenizer) {
    const eitp__normalization *steps = &tokenizer->normalization;
    const eitp__wordpiece *wordpiece = &tokenizer->wordpiece;
    if (tokenizer->model != EITP__MODEL_WORDPIECE)
        return tokenizer->model == EITP__MODEL_BPE ? eitp__hash_splits(hash, tokenizer)
                                                   : eitp__hash_fallback(hash, tokenizer);
    hash = eitp__fnv_number(hash, (uint32_t)tokenizer->has_normalizer);
    hash = eitp__fnv_number(hash, (uint32_t)(steps->clean_text | steps->handle_chinese_chars << 1 |
                                             (steps->strip_accents < 0 ? steps->lowercase : steps->strip_accents) << 2 |
                                             steps->lowercase << 3));
    hash = eitp__fnv_number(hash, (uint32_t)wordpiece->unknown);
    hash = eitp__fnv_number(hash, (uint32_t)wordpiece->max_characters);
    hash = eitp__fnv1a(hash, wordpiece->prefix.data, wordpiece->prefix.size);
    return eitp__fnv_number(hash, (uint32_t)(tokenizer->decodes_words | tokenizer->cleans_up << 1));
}

/* Returns the flags of a token that affect encoding and decoding. */
static uint32_t eitp__hashed_flags(const eitp_tokenizer *tokenizer, const eitp__token *token) {
    unsigned mask =
        EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL | EITP__TOKEN_TAKES_LEFT | EITP__TOKEN_TAKES_RIGHT | EITP__TOKEN_WORD;
    if (tokenizer->has_normalizer)
        mask |= EITP__TOKEN_NORMALIZED;
    return token->flags & mask;
}

static uint64_t eitp__tokenizer_hash(const eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    uint64_t hash = eitp__fnv_number(EITP__FNV_START, (uint32_t)tokenizer->add_prefix_space);
    hash = eitp__fnv_number(hash, (uint32_t)vocabulary->count);
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        hash = eitp__fnv_number(hash, eitp__hashed_flags(tokenizer, token));
        hash = eitp__fnv_number(hash, token->size);
        hash = eitp__fnv1a(hash, eitp__token_bytes(tokenizer, id), token->size);
    }
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].left);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].right);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].result);
    }
    return eitp__hash_steps(eitp__hash_model(hash, tokenizer), tokenizer);
}

EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_status status = tokenizer->model == EITP__MODEL_WORDPIECE ? eitp__tokenizer_index_words(tokenizer, error)
                                                                   : eitp__tokenizer_index_bpe(tokenizer, error);
    for (int kind = 0; kind < 2 && status == EITP_OK; kind++) {
        status = eitp__tokenizer_list_added(tokenizer, kind, error);
        if (status == EITP_OK)
            status = eitp__tokenizer_sort_added(tokenizer, kind, error);
    }
    if (status != EITP_OK)
        return status;
    eitp__tokenizer_find_special(tokenizer);
    tokenizer->fingerprint = eitp__tokenizer_hash(tokenizer);
    return EITP_OK;
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
    eitp__buffer_release(&tokenizer->chat_template);
    eitp__buffer_release(&tokenizer->added_text);
    for (int part = 0; part < EITP__KEPT_PARTS; part++)
        eitp__buffer_release(&tokenizer->kept[part]);
    eitp__wordpiece_release(&tokenizer->wordpiece, &host);
    eitp__byte_fallback_release(&tokenizer->fallback, &host);
    eitp__release(&host, tokenizer->whole, tokenizer->whole_count * sizeof *tokenizer->whole);
    eitp__release(&host, vocabulary->tokens, vocabulary->count * sizeof *vocabulary->tokens);
    eitp__bpe_release(&tokenizer->bpe, &host);
    for (int kind = 0; kind < 2; kind++)
        eitp__release(&host, tokenizer->added[kind].tokens,
                      tokenizer->added[kind].count * sizeof *tokenizer->added[kind].tokens);
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
