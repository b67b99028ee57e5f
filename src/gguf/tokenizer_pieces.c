#include "gguf/tokenizer_pieces.h"

#include "base/memory.h"
#include "base/unicode.h"

#define EITP__GGUF_TYPES_KEY "tokenizer.ggml.token_type"

/* U+2581, which stands for a space. */
#define EITP__GGUF_SPACE "\xE2\x96\x81"

EITP__PRIVATE int eitp__gguf_shown(eitp__gguf_text text) {
    return text.size < 80 ? (int)text.size : 80;
}

/* ---- Types ---- */

EITP__PRIVATE int eitp__gguf_piece_type(const eitp__gguf_pieces *pieces, size_t id) {
    const int64_t type = pieces->types ? eitp__gguf_integer_at(pieces->types, id) : 0;
    return type ? (int)type : EITP__GGUF_NORMAL;
}

EITP__PRIVATE int eitp__gguf_piece_is_added(const eitp__gguf_pieces *pieces, size_t id) {
    const int type = eitp__gguf_piece_type(pieces, id);
    return type == EITP__GGUF_UNKNOWN || type == EITP__GGUF_CONTROL || type == EITP__GGUF_USER_DEFINED;
}

static eitp_status eitp__gguf_read_types(const eitp__gguf *gguf, eitp__gguf_vocabulary kind, eitp__gguf_pieces *pieces,
                                         eitp_error *error) {
    const eitp__gguf_value *types;
    const eitp_status status = eitp__gguf_get_array(gguf, EITP__GGUF_TYPES_KEY, 0, &types, error);
    if (status)
        return status;
    if (!types && kind == EITP__GGUF_WORDPIECE)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is missing, without which '##' is unknown",
                          EITP__GGUF_TYPES_KEY);
    if (!types)
        return EITP_OK;
    if (types->kind == EITP__GGUF_F32 || types->kind == EITP__GGUF_F64 || types->kind == EITP__GGUF_BOOL)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be an array of integers", EITP__GGUF_TYPES_KEY);
    if (types->count != pieces->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' has %llu entries for %zu tokens", EITP__GGUF_TYPES_KEY,
                          (unsigned long long)types->count, pieces->count);
    for (size_t id = 0; id < pieces->count; id++) {
        const int64_t type = eitp__gguf_integer_at(types, id);
        if (type < 0 || type > EITP__GGUF_BYTE)
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s': token %zu has type %lld, which is outside 0 to 6",
                              EITP__GGUF_TYPES_KEY, id, (long long)type);
    }
    pieces->types = types;
    return EITP_OK;
}

/* ---- Spelling ---- */

/* Differences between the spelling in the file and in Hugging Face's files. */
typedef enum eitp__gguf_respelling {
    EITP__GGUF_AS_IT_IS,
    EITP__GGUF_WITHOUT_SPACE, /* the file has U+2581 before the first token of a word */
    EITP__GGUF_CONTINUATION,  /* the file lacks "##" before the other tokens of a word */
    EITP__GGUF_SPACES         /* the file has spaces for U+2581 */
} eitp__gguf_respelling;

static int eitp__gguf_is_blank(eitp__gguf_text text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != ' ')
            return 0;
    }
    return text.size != 0;
}

/* WordPiece: control tokens keep their spelling, and the token "##U+2581" is stored as U+2581. SentencePiece: runs of
   spaces that users defined are stored as spaces. */
static eitp__gguf_respelling eitp__gguf_respelling_of(eitp__gguf_vocabulary kind, eitp__gguf_text text, int type) {
    const size_t space = sizeof EITP__GGUF_SPACE - 1;
    if (kind == EITP__GGUF_SENTENCEPIECE)
        return eitp__gguf_is_blank(text) ? EITP__GGUF_SPACES : EITP__GGUF_AS_IT_IS;
    if (kind == EITP__GGUF_BYTE_LEVEL || type == EITP__GGUF_CONTROL)
        return EITP__GGUF_AS_IT_IS;
    return text.size > space && !memcmp(text.data, EITP__GGUF_SPACE, space) ? EITP__GGUF_WITHOUT_SPACE
                                                                            : EITP__GGUF_CONTINUATION;
}

/* Returns the number of bytes to store for a token. */
static size_t eitp__gguf_respelled_size(eitp__gguf_respelling how, eitp__gguf_text text) {
    if (how == EITP__GGUF_CONTINUATION)
        return text.size + 2;
    return how == EITP__GGUF_SPACES ? text.size * (sizeof EITP__GGUF_SPACE - 1) : 0;
}

static eitp__gguf_text eitp__gguf_respell(eitp__gguf_respelling how, eitp__gguf_text text, eitp__buffer *respelled) {
    const size_t begin = respelled->size, space = sizeof EITP__GGUF_SPACE - 1;
    eitp__gguf_text result = text;
    if (how == EITP__GGUF_WITHOUT_SPACE) {
        result.data += space;
        result.size -= space;
    }
    if (how == EITP__GGUF_AS_IT_IS || how == EITP__GGUF_WITHOUT_SPACE)
        return result;
    if (how == EITP__GGUF_CONTINUATION) {
        eitp__buffer_add_text(respelled, "##");
        eitp__buffer_add(respelled, text.data, text.size);
    }
    for (size_t i = 0; how == EITP__GGUF_SPACES && i < text.size; i++)
        eitp__buffer_add_text(respelled, EITP__GGUF_SPACE);
    result.data = respelled->data + begin;
    result.size = respelled->size - begin;
    return result;
}

static eitp_status eitp__gguf_respell_all(eitp__gguf_vocabulary kind, eitp__gguf_pieces *pieces, eitp_error *error) {
    size_t size = 1;
    for (size_t id = 0; id < pieces->count; id++) {
        const eitp__gguf_text text = pieces->texts[id];
        const int type = eitp__gguf_piece_type(pieces, id);
        if (eitp__utf8_valid_prefix((const unsigned char *)text.data, text.size) != text.size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s': token %zu is not UTF-8", EITP__GGUF_TOKENS_KEY, id);
        if (!text.size && eitp__gguf_piece_is_added(pieces, id))
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s': token %zu is empty, but a special one",
                              EITP__GGUF_TOKENS_KEY, id);
        size += eitp__gguf_respelled_size(eitp__gguf_respelling_of(kind, text, type), text);
    }
    if (!eitp__buffer_reserve(&pieces->respelled, size)) /* enough, so that no text moves */
        return eitp__fail_memory(error, size, "the tokens of a GGUF file");
    for (size_t id = 0; id < pieces->count; id++) {
        const eitp__gguf_text text = pieces->texts[id];
        pieces->texts[id] = eitp__gguf_respell(eitp__gguf_respelling_of(kind, text, eitp__gguf_piece_type(pieces, id)),
                                               text, &pieces->respelled);
    }
    return EITP_OK;
}

/* ---- Finding ---- */

/* The hash of a text is a polynomial in BASE modulo 2^64: one pass computes the hashes of both parts for all splits.
   BASE * INVERSE is 1. */
#define EITP__GGUF_BASE ((uint64_t)0x9E3779B97F4A7C15u)
#define EITP__GGUF_INVERSE ((uint64_t)0xF1DE83E19937733Du)

/* Returns the coefficient of a byte; never 0, so that sizes matter. */
static uint64_t eitp__gguf_coefficient(char byte) {
    return (uint64_t)(unsigned char)byte + 1;
}

static uint64_t eitp__gguf_hash(uint64_t hash, eitp__gguf_text text) {
    for (size_t i = 0; i < text.size; i++)
        hash = hash * EITP__GGUF_BASE + eitp__gguf_coefficient(text.data[i]);
    return hash;
}

static int eitp__gguf_is_joined(eitp__gguf_text text, eitp__gguf_text first, eitp__gguf_text second) {
    return text.size == first.size + second.size && (!first.size || !memcmp(text.data, first.data, first.size)) &&
           (!second.size || !memcmp(text.data + first.size, second.data, second.size));
}

/* Returns the slot of the token `first` + `second`, which has this hash, or the free slot for it. */
static uint32_t *eitp__gguf_slot(const eitp__gguf_pieces *pieces, uint64_t hash, eitp__gguf_text first,
                                 eitp__gguf_text second) {
    const uint64_t mixed = (hash ^ hash >> 32) * EITP__GGUF_BASE;
    for (size_t i = (size_t)(mixed >> 32) & (pieces->slot_count - 1);; i = (i + 1) & (pieces->slot_count - 1)) {
        uint32_t *slot = &pieces->slots[i];
        if (!*slot || eitp__gguf_is_joined(pieces->texts[*slot - 1], first, second))
            return slot;
    }
}

static const eitp__gguf_text eitp__gguf_no_text = {"", 0};

EITP__PRIVATE int64_t eitp__gguf_piece_find(const eitp__gguf_pieces *pieces, eitp__gguf_text first,
                                            eitp__gguf_text second) {
    const uint64_t hash = eitp__gguf_hash(eitp__gguf_hash(0, first), second);
    return (int64_t)*eitp__gguf_slot(pieces, hash, first, second) - 1;
}

static int eitp__gguf_has_piece(const eitp__gguf_pieces *pieces, uint64_t hash, const char *data, size_t size) {
    eitp__gguf_text text;
    text.data = data;
    text.size = size;
    return *eitp__gguf_slot(pieces, hash, text, eitp__gguf_no_text) != 0;
}

EITP__PRIVATE int eitp__gguf_piece_splits(const eitp__gguf_pieces *pieces, size_t id, eitp__gguf_split_sink sink,
                                          void *user) {
    const eitp__gguf_text text = pieces->texts[id];
    const size_t characters = eitp__utf8_count(text.data, text.size);
    uint64_t left = eitp__gguf_hash(0, text), right = 0, power = 1;
    size_t right_characters = 0;
    for (size_t at = text.size; at-- > 1;) {
        const uint64_t coefficient = eitp__gguf_coefficient(text.data[at]);
        left = (left - coefficient) * EITP__GGUF_INVERSE;
        right += coefficient * power;
        power *= EITP__GGUF_BASE;
        if (((unsigned char)text.data[at] & 0xC0) == 0x80)
            continue;
        right_characters++;
        if (eitp__gguf_has_piece(pieces, left, text.data, at) &&
            eitp__gguf_has_piece(pieces, right, text.data + at, text.size - at) &&
            !sink(user, id, at, characters - right_characters, right_characters))
            return 0;
    }
    return 1;
}

static eitp_status eitp__gguf_index(eitp__gguf_pieces *pieces, eitp_error *error) {
    size_t slots = 16;
    while (slots < 2 * pieces->count)
        slots *= 2;
    pieces->slots = (uint32_t *)eitp__allocate(pieces->host, slots * sizeof *pieces->slots);
    if (!pieces->slots)
        return eitp__fail_memory(error, slots * sizeof *pieces->slots, "the tokens of a GGUF file");
    pieces->slot_count = slots;
    for (size_t id = 0; id < pieces->count; id++) {
        const eitp__gguf_text text = pieces->texts[id];
        uint32_t *slot = eitp__gguf_slot(pieces, eitp__gguf_hash(0, text), text, eitp__gguf_no_text);
        if (*slot)
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s': tokens %lu and %zu are both \"%.*s\"",
                              EITP__GGUF_TOKENS_KEY, (unsigned long)*slot - 1, id, eitp__gguf_shown(text), text.data);
        *slot = (uint32_t)id + 1;
    }
    return EITP_OK;
}

/* ---- Reading ---- */

static eitp_status eitp__gguf_read_texts(const eitp__gguf *gguf, eitp__gguf_pieces *pieces, eitp_error *error) {
    const eitp__gguf_value *tokens;
    const unsigned char *at;
    const eitp_status status = eitp__gguf_get_array(gguf, EITP__GGUF_TOKENS_KEY, 1, &tokens, error);
    if (status)
        return status;
    if (!tokens || !tokens->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is %s", EITP__GGUF_TOKENS_KEY,
                          tokens ? "empty" : "missing");
    pieces->texts =
        (eitp__gguf_text *)eitp__allocate_uninitialized(pieces->host, (size_t)tokens->count * sizeof *pieces->texts);
    if (!pieces->texts)
        return eitp__fail_memory(error, (size_t)tokens->count * sizeof *pieces->texts, "the tokens of a GGUF file");
    pieces->count = (size_t)tokens->count;
    at = tokens->at;
    for (size_t id = 0; id < pieces->count; id++)
        pieces->texts[id] = eitp__gguf_next_text(&at);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_pieces_read(const eitp__gguf *gguf, eitp__gguf_vocabulary kind,
                                                 eitp__gguf_pieces *pieces, eitp_error *error) {
    eitp_status status;
    memset(pieces, 0, sizeof *pieces);
    pieces->host = &gguf->host;
    eitp__buffer_init(&pieces->respelled, &gguf->host);
    status = eitp__gguf_read_texts(gguf, pieces, error);
    if (!status)
        status = eitp__gguf_read_types(gguf, kind, pieces, error);
    if (!status)
        status = eitp__gguf_respell_all(kind, pieces, error);
    return status ? status : eitp__gguf_index(pieces, error);
}

EITP__PRIVATE void eitp__gguf_pieces_release(eitp__gguf_pieces *pieces) {
    if (!pieces->host)
        return;
    eitp__release(pieces->host, pieces->texts, pieces->count * sizeof *pieces->texts);
    eitp__release(pieces->host, pieces->slots, pieces->slot_count * sizeof *pieces->slots);
    eitp__buffer_release(&pieces->respelled);
    memset(pieces, 0, sizeof *pieces);
}
