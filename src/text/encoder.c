/*
 * Encoding. Text is split at added tokens that appear in it literally, normalized, split at the other added tokens and
 * cut into pieces. Each piece becomes tokens; short pieces are cached with their ids. Without a normalizer, and with
 * added tokens of one kind, a single splitter does all of this.
 */
#include "text/tokenizer.h"

enum { EITP__CACHE_IDS = 9, EITP__CACHE_BYTES = 23, EITP__ENCODER_BATCH = 1024, EITP__RAW_CHUNK = 4096 };

#define EITP__CACHE_SLOTS ((size_t)32768)

/* A piece and its ids, in one cache line. */
typedef struct eitp__cache_slot {
    uint64_t key[3]; /* the bytes, padded with zeros, and their number in the last byte; all zero if the slot is free */
    int32_t ids[EITP__CACHE_IDS];
    int32_t count;
} eitp__cache_slot;

struct eitp_encoder {
    const eitp_tokenizer *tokenizer;
    eitp_token_sink sink;
    void *user;
    int has_two_splitters;
    eitp__splitter raw; /* splitter of the text itself, if there are two */
    eitp__normalizer normalizer;
    eitp__buffer normalized;
    eitp__splitter splitter;
    eitp__buffer spelled; /* a piece as spelled in the vocabulary */
    eitp__cache_slot *cache;
    size_t cache_count; /* a power of two */
    eitp__bpe_workspace workspace;
    int32_t *long_ids; /* ids of a piece that is longer than a batch */
    size_t long_capacity;
    uint64_t unknown_bytes;
    size_t batch_count;
    int32_t batch[EITP__ENCODER_BATCH];
};

static eitp_status eitp__encoder_flush(eitp_encoder *encoder, eitp_error *error) {
    size_t count = encoder->batch_count;
    encoder->batch_count = 0;
    return count ? encoder->sink(encoder->user, encoder->batch, count, error) : EITP_OK;
}

/* Ensures room for `count` ids, at most EITP__ENCODER_BATCH, in the batch. */
static eitp_status eitp__encoder_ensure_room(eitp_encoder *encoder, size_t count, eitp_error *error) {
    return encoder->batch_count + count > EITP__ENCODER_BATCH ? eitp__encoder_flush(encoder, error) : EITP_OK;
}

/* Finds the token of a whole piece, or -1. With byte fallback, the vocabulary has U+2581 for spaces. */
static eitp_status eitp__encode_whole(eitp_encoder *encoder, const unsigned char *bytes, size_t size, int32_t *id,
                                      eitp_error *error) {
    const eitp_tokenizer *tokenizer = encoder->tokenizer;
    eitp__buffer *spelled = &encoder->spelled;
    if (tokenizer->model != EITP__MODEL_BYTE_FALLBACK || !memchr(bytes, ' ', size)) {
        *id = eitp__whole_token_find(tokenizer, bytes, size);
        return EITP_OK;
    }
    eitp__buffer_clear(spelled);
    eitp__replace_spaces(bytes, size, spelled);
    if (spelled->failed)
        return eitp__fail_memory(error, spelled->size, "the text being encoded");
    *id = eitp__whole_token_find(tokenizer, (const unsigned char *)spelled->data, spelled->size);
    return EITP_OK;
}

/* Encodes a piece; `ids` has room for `size` ids. */
static eitp_status eitp__encode_by_model(eitp_encoder *encoder, const unsigned char *bytes, size_t size, int32_t *ids,
                                         size_t *count, eitp_error *error) {
    const eitp_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->ignores_merges) {
        eitp_status status = eitp__encode_whole(encoder, bytes, size, &ids[0], error);
        *count = 1;
        if (status != EITP_OK || ids[0] >= 0)
            return status;
    }
    if (tokenizer->model == EITP__MODEL_BPE)
        return eitp__bpe_encode(&tokenizer->bpe, &tokenizer->host, &encoder->workspace, bytes, size, ids, count, error);
    if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK) {
        const size_t symbols = eitp__byte_fallback_symbols(&tokenizer->fallback, &tokenizer->bpe, bytes, size, ids);
        return eitp__bpe_merge(&tokenizer->bpe, &tokenizer->host, &encoder->workspace, ids, symbols, count, error);
    }
    *count = eitp__wordpiece_encode(&tokenizer->wordpiece, bytes, size, ids);
    return EITP_OK;
}

static eitp_status eitp__encode_long_piece(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                           eitp_error *error) {
    const eitp_host *host = &encoder->tokenizer->host;
    size_t count;
    eitp_status status = eitp__encoder_flush(encoder, error);
    if (status != EITP_OK)
        return status;
    if (!eitp__reserve(host, (void **)&encoder->long_ids, &encoder->long_capacity, size, sizeof *encoder->long_ids))
        return eitp__fail_memory(error, size * sizeof *encoder->long_ids, "a long piece of text");
    status = eitp__encode_by_model(encoder, bytes, size, encoder->long_ids, &count, error);
    if (status == EITP_OK && count)
        status = encoder->sink(encoder->user, encoder->long_ids, count, error);
    if (size > EITP__PIECE_LIMIT / 16) { /* rare, so the memory is released */
        eitp__bpe_workspace_release(&encoder->workspace, host);
        eitp__release(host, encoder->long_ids, encoder->long_capacity * sizeof *encoder->long_ids);
        encoder->long_ids = NULL;
        encoder->long_capacity = 0;
    }
    return status;
}

static eitp_status eitp__encode_short_piece(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                            eitp_error *error) {
    unsigned char key_bytes[24] = EITP__ZERO;
    uint64_t key[3];
    memcpy(key_bytes, bytes, size);
    key_bytes[EITP__CACHE_BYTES] = (unsigned char)size;
    memcpy(key, key_bytes, sizeof key);
    uint64_t hash = (key[0] ^ key[1] * 0xC2B2AE3D27D4EB4Fu ^ key[2] * 0x165667B19E3779F9u) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    eitp__cache_slot *slot = &encoder->cache[(hash ^ hash >> 32) & (encoder->cache_count - 1)];
    int32_t *ids = encoder->batch + encoder->batch_count;
    if (slot->key[0] == key[0] && slot->key[1] == key[1] && slot->key[2] == key[2]) {
        memcpy(ids, slot->ids, sizeof slot->ids);
        encoder->batch_count += (size_t)slot->count;
        return EITP_OK;
    }
    size_t count;
    eitp_status status = eitp__encode_by_model(encoder, bytes, size, ids, &count, error);
    if (status != EITP_OK)
        return status;
    encoder->batch_count += count;
    if (count <= EITP__CACHE_IDS) {
        memcpy(slot->key, key, sizeof key);
        memcpy(slot->ids, ids, count * sizeof *ids);
        slot->count = (int32_t)count;
    }
    return EITP_OK;
}

/* Counts the bytes of a piece of BPE that have no token. */
static eitp_status eitp__count_unknown(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                       eitp_error *error) {
    const eitp_tokenizer *tokenizer = encoder->tokenizer;
    size_t count = 0;
    int32_t whole = -1;
    eitp_status status = EITP_OK;
    if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK)
        count = eitp__byte_fallback_unknown(&tokenizer->fallback, &tokenizer->bpe, bytes, size);
    for (size_t i = 0; i < size && tokenizer->model == EITP__MODEL_BPE; i++)
        count += tokenizer->bpe.byte_ids[bytes[i]] < 0;
    if (count && tokenizer->ignores_merges)
        status = eitp__encode_whole(encoder, bytes, size, &whole, error);
    encoder->unknown_bytes += whole < 0 ? count : 0;
    return status;
}

static eitp_status eitp__encode_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                      eitp_error *error) {
    eitp_encoder *encoder = (eitp_encoder *)user;
    if (id < 0 && encoder->tokenizer->model == EITP__MODEL_WORDPIECE && eitp__is_space_piece(bytes, size))
        return EITP_OK;
    eitp_status status = EITP_OK;
    if (id < 0 && encoder->tokenizer->bpe.lacks_bytes)
        status = eitp__count_unknown(encoder, bytes, size, error);
    if (status == EITP_OK && id < 0 && size > EITP__ENCODER_BATCH)
        return eitp__encode_long_piece(encoder, bytes, size, error);
    if (status == EITP_OK)
        status = eitp__encoder_ensure_room(encoder, size < 24 ? 24 : size, error);
    if (status != EITP_OK)
        return status;
    if (id >= 0) {
        encoder->batch[encoder->batch_count++] = id;
        return EITP_OK;
    }
    if (size <= EITP__CACHE_BYTES)
        return eitp__encode_short_piece(encoder, bytes, size, error);
    size_t count;
    status = eitp__encode_by_model(encoder, bytes, size, encoder->batch + encoder->batch_count, &count, error);
    if (status == EITP_OK)
        encoder->batch_count += count;
    return status;
}

/* Normalizes text from the first splitter and passes it to the second. NULL ends a part between two added tokens. */
static eitp_status eitp__encoder_normalize(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                           eitp_error *error) {
    eitp__buffer *normalized = &encoder->normalized;
    if (!encoder->tokenizer->has_normalizer)
        return bytes ? eitp__splitter_add_valid(&encoder->splitter, bytes, size, error) : EITP_OK;
    eitp__buffer_clear(normalized);
    eitp_status status = bytes ? eitp__normalizer_add(&encoder->normalizer, bytes, size, normalized, error)
                               : eitp__normalizer_finish(&encoder->normalizer, normalized, error);
    if (status != EITP_OK || !normalized->size)
        return status;
    return eitp__splitter_add_valid(&encoder->splitter, (const unsigned char *)normalized->data, normalized->size,
                                    error);
}

static eitp_status eitp__encode_raw_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                          eitp_error *error) {
    eitp_encoder *encoder = (eitp_encoder *)user;
    if (id < 0)
        return eitp__encoder_normalize(encoder, bytes, size, error);
    eitp_status status = eitp__encoder_normalize(encoder, NULL, 0, error);
    if (status == EITP_OK)
        status = eitp__splitter_finish(&encoder->splitter, error);
    encoder->splitter.at_text_start = 0;
    return status == EITP_OK ? eitp__encode_piece(encoder, bytes, size, id, error) : status;
}

static void eitp__encoder_split(eitp_encoder *encoder) {
    const eitp_tokenizer *tokenizer = encoder->tokenizer;
    const eitp__added_tokens *raw = &tokenizer->added[EITP__ADDED_RAW];
    const eitp__added_tokens *normalized = &tokenizer->added[EITP__ADDED_NORMALIZED];
    const eitp_host *host = &tokenizer->host;
    encoder->has_two_splitters = tokenizer->has_normalizer || (raw->count && normalized->count);
    eitp__splitter_init(&encoder->raw, host, raw, eitp__whole_size, eitp__encode_raw_piece, encoder);
    encoder->raw.min_full = encoder->raw.full = EITP__RAW_CHUNK;
    eitp__normalizer_init(&encoder->normalizer, host, &tokenizer->normalization);
    eitp__buffer_init(&encoder->normalized, host);
    eitp__buffer_init(&encoder->spelled, host);
    eitp__splitter_init(&encoder->splitter, host, encoder->has_two_splitters || !raw->count ? normalized : raw,
                        tokenizer->model == EITP__MODEL_BPE ? eitp__split_rule(tokenizer->split) : eitp__word_size,
                        eitp__encode_piece, encoder);
    if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK) {
        encoder->splitter.context_rule = eitp__byte_fallback_piece;
        encoder->splitter.context = &tokenizer->fallback;
    }
    encoder->splitter.add_prefix_space = tokenizer->add_prefix_space;
}

EITP__PRIVATE size_t eitp__cache_size(size_t text_size) {
    size_t count = 64;
    while (count < text_size / 8 && count < EITP__CACHE_SLOTS)
        count *= 2;
    return count;
}

EITP__PRIVATE eitp_status eitp__encoder_allocate(const eitp_tokenizer *tokenizer, size_t cache_count,
                                                 eitp_token_sink sink, void *user, eitp_encoder **out,
                                                 eitp_error *error) {
    const eitp_host *host = &tokenizer->host;
    *out = NULL;
    eitp_encoder *encoder = (eitp_encoder *)eitp__allocate(host, sizeof *encoder);
    if (!encoder)
        return eitp__fail_memory(error, sizeof *encoder, "an encoder");
    encoder->tokenizer = tokenizer;
    encoder->sink = sink;
    encoder->user = user;
    encoder->cache = (eitp__cache_slot *)eitp__allocate(host, cache_count * sizeof *encoder->cache);
    encoder->cache_count = encoder->cache ? cache_count : 0;
    eitp__encoder_split(encoder);
    if (!encoder->cache) {
        eitp_encoder_destroy(encoder);
        return eitp__fail_memory(error, cache_count * sizeof(eitp__cache_slot), "an encoder");
    }
    *out = encoder;
    return EITP_OK;
}

EITP__PRIVATE void eitp__encoder_add_spaces(eitp_encoder *encoder) {
    if (encoder->tokenizer->model == EITP__MODEL_BPE)
        encoder->splitter.add_prefix_space = EITP__PREFIX_SPACE;
}

eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user, eitp_encoder **out,
                                eitp_error *error) {
    if (!tokenizer || !sink || !out)
        return eitp__fail_null(error, "eitp_encoder_create", "tokenizer, sink and out");
    return eitp__encoder_allocate(tokenizer, EITP__CACHE_SLOTS, sink, user, out, error);
}

eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error) {
    if (!encoder || (size && !text))
        return eitp__fail_null(error, "eitp_encoder_add", "encoder and text");
    return eitp__splitter_add(encoder->has_two_splitters ? &encoder->raw : &encoder->splitter,
                              (const unsigned char *)text, size, error);
}

eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!encoder)
        return eitp__fail_null(error, "eitp_encoder_finish", "encoder");
    if (encoder->has_two_splitters)
        status = eitp__splitter_finish(&encoder->raw, error);
    if (status == EITP_OK && encoder->has_two_splitters)
        status = eitp__encoder_normalize(encoder, NULL, 0, error);
    if (status == EITP_OK)
        status = eitp__splitter_finish(&encoder->splitter, error);
    if (status == EITP_OK)
        status = eitp__encoder_flush(encoder, error);
    return status;
}

uint64_t eitp_encoder_unknown_bytes(const eitp_encoder *encoder) {
    return encoder ? encoder->unknown_bytes : 0;
}

void eitp_encoder_reset(eitp_encoder *encoder) {
    if (!encoder)
        return;
    eitp__splitter_reset(&encoder->raw);
    eitp__normalizer_reset(&encoder->normalizer);
    eitp__splitter_reset(&encoder->splitter);
    encoder->batch_count = 0;
}

void eitp_encoder_destroy(eitp_encoder *encoder) {
    if (!encoder)
        return;
    const eitp_host host = encoder->tokenizer->host;
    eitp__splitter_release(&encoder->raw);
    eitp__normalizer_release(&encoder->normalizer);
    eitp__buffer_release(&encoder->normalized);
    eitp__buffer_release(&encoder->spelled);
    eitp__splitter_release(&encoder->splitter);
    eitp__bpe_workspace_release(&encoder->workspace, &host);
    eitp__release(&host, encoder->cache, encoder->cache_count * sizeof *encoder->cache);
    eitp__release(&host, encoder->long_ids, encoder->long_capacity * sizeof *encoder->long_ids);
    eitp__release(&host, encoder, sizeof *encoder);
}

/* Collects the ids of eitp_tokenizer_encode. */
typedef struct eitp__id_array {
    int32_t *ids;
    size_t capacity, count;
} eitp__id_array;

static eitp_status eitp__id_array_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    eitp__id_array *array = (eitp__id_array *)user;
    (void)error;
    if (array->count < array->capacity) {
        size_t room = array->capacity - array->count;
        memcpy(array->ids + array->count, ids, (count < room ? count : room) * sizeof *ids);
    }
    array->count += count;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__encode_text(const eitp_tokenizer *tokenizer, const char *text, size_t size,
                                            int32_t *ids, size_t capacity, size_t *count, uint64_t *unknown_bytes,
                                            eitp_error *error) {
    eitp__id_array array;
    eitp_encoder *encoder;
    array.ids = ids;
    array.capacity = capacity;
    array.count = 0;
    eitp_status status =
        eitp__encoder_allocate(tokenizer, eitp__cache_size(size), eitp__id_array_add, &array, &encoder, error);
    if (status != EITP_OK)
        return status;
    status = eitp_encoder_add(encoder, text, size, error);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, error);
    if (status == EITP_OK) {
        *count = array.count;
        *unknown_bytes = encoder->unknown_bytes;
    }
    eitp_encoder_destroy(encoder);
    return status;
}

eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                  size_t capacity, size_t *count, eitp_error *error) {
    uint64_t unknown_bytes;
    if (!tokenizer || !count)
        return eitp__fail_null(error, "eitp_tokenizer_encode", "tokenizer and count");
    *count = 0;
    if ((size && !text) || (capacity && !ids))
        return eitp__fail_null(error, "eitp_tokenizer_encode", "text with a size and ids with a capacity");
    return eitp__encode_text(tokenizer, text, size, ids, capacity, count, &unknown_bytes, error);
}
