#include "text/byte_fallback.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__byte_fallback_release(eitp__byte_fallback *fallback, const eitp_host *host) {
    eitp__release(host, fallback->characters, fallback->character_slots * sizeof *fallback->characters);
    eitp__release(host, fallback->junctions, fallback->junction_bits / 8);
    fallback->characters = NULL;
    fallback->junctions = NULL;
    fallback->character_slots = fallback->junction_bits = 0;
}

/* Returns the character at text[0]; for a space, U+2581. */
static uint32_t eitp__symbol_at(const unsigned char *text, size_t size, size_t *length) {
    uint32_t code_point = text[0];
    int valid;
    *length = 1;
    if (code_point >= 0x80)
        *length = eitp__utf8_next(text, size, &code_point, &valid);
    return code_point == ' ' ? EITP__SPACE_SYMBOL : code_point;
}

/* ---- Characters and bytes ---- */

/* Returns the slot of a character, or the free slot for it. */
static eitp__character_id *eitp__character_slot(const eitp__byte_fallback *fallback, uint32_t code_point) {
    const uint64_t hash = (code_point + 1) * 0x9E3779B97F4A7C15u;
    for (size_t i = (size_t)(hash >> 32) & (fallback->character_slots - 1);;
         i = (i + 1) & (fallback->character_slots - 1)) {
        eitp__character_id *slot = &fallback->characters[i];
        if (slot->id < 0 || slot->code_point == code_point)
            return slot;
    }
}

static int eitp__hexadecimal(unsigned char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

EITP__PRIVATE int eitp__byte_of_token(const unsigned char *text, size_t size) {
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    /* Rust's from_str_radix, which the library uses, accepts a sign. */
    const int high = text[3] == '+' ? 0 : eitp__hexadecimal(text[3]), low = eitp__hexadecimal(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* True if the text of a byte token has the spelling that is looked up for its byte: in upper case. */
static int eitp__is_byte_spelling(const unsigned char *text) {
    for (size_t i = 3; i < 5; i++) {
        if (text[i] == '+' || (text[i] >= 'a' && text[i] <= 'f'))
            return 0;
    }
    return 1;
}

static void eitp__index_token(eitp__byte_fallback *fallback, eitp__bpe *bpe, eitp__token_text token, int32_t id) {
    const int byte = eitp__byte_of_token(token.bytes, token.size);
    uint32_t code_point;
    int valid;
    if (byte >= 0 && eitp__is_byte_spelling(token.bytes))
        bpe->byte_ids[byte] = id;
    if (!token.size || token.size > 4 || eitp__utf8_next(token.bytes, token.size, &code_point, &valid) != token.size)
        return;
    eitp__character_id *slot = eitp__character_slot(fallback, code_point);
    slot->code_point = code_point;
    slot->id = id;
}

static eitp_status eitp__index_characters(eitp__byte_fallback *fallback, eitp__bpe *bpe, const eitp_host *host,
                                          eitp__token_reader read, const void *user, size_t count, eitp_error *error) {
    size_t single = 0, slots = 64;
    for (size_t id = 0; id < count; id++)
        single += read(user, id).size <= 4;
    while (slots < 2 * single)
        slots *= 2;
    fallback->characters =
        (eitp__character_id *)eitp__allocate_uninitialized(host, slots * sizeof *fallback->characters);
    if (!fallback->characters)
        return eitp__fail_memory(error, slots * sizeof *fallback->characters, "the tokenizer's characters");
    fallback->character_slots = slots;
    for (size_t i = 0; i < slots; i++)
        fallback->characters[i].id = -1;
    for (size_t byte = 0; byte < 256; byte++)
        bpe->byte_ids[byte] = -1;
    for (size_t id = 0; id < count; id++)
        eitp__index_token(fallback, bpe, read(user, id), (int32_t)id);
    bpe->lacks_bytes = 0;
    for (size_t byte = 0; byte < 256; byte++)
        bpe->lacks_bytes |= bpe->byte_ids[byte] < 0;
    fallback->knows_all = !bpe->lacks_bytes;
    fallback->drops_unknown = bpe->unknown < 0;
    if (eitp__character_slot(fallback, EITP__SPACE_SYMBOL)->id < 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the vocabulary lacks the token U+2581, which every space becomes; add it");
    return EITP_OK;
}

/* ---- Junctions ---- */

/* Returns the bit of two adjacent characters. If pairs share a bit, some text is not cut that could be. */
static size_t eitp__junction_bit(const eitp__byte_fallback *fallback, uint32_t left, uint32_t right) {
    const uint64_t hash = ((uint64_t)left << 21 | right) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 32) & (fallback->junction_bits - 1);
}

/* Returns the last character of a token's text. */
static uint32_t eitp__last_character(eitp__token_text token) {
    size_t begin = token.size - 1, length;
    while (begin && (token.bytes[begin] & 0xC0) == 0x80)
        begin--;
    return eitp__symbol_at(token.bytes + begin, token.size - begin, &length);
}

/* True if a merge uses a token that does not stand for its own characters: the unknown token, or a byte. */
static int eitp__merges_other_text(const eitp__bpe *bpe, int32_t id, eitp__token_text token) {
    const int byte = eitp__byte_of_token(token.bytes, token.size);
    return id == bpe->unknown || (byte >= 0 && bpe->byte_ids[byte] == id);
}

/*
 * A merge joins two characters of the text: the last one of its left token, and the first one of its right token. If no
 * merge joins two adjacent characters, no merge crosses the boundary between them, and both sides can be merged
 * separately.
 */
static eitp_status eitp__index_junctions(eitp__byte_fallback *fallback, const eitp__bpe *bpe, const eitp_host *host,
                                         eitp__token_reader read, const void *user, eitp_error *error) {
    size_t bits = 1024, length;
    for (size_t rank = 0; rank < bpe->merge_count; rank++) {
        const eitp__merge *merge = &bpe->merges[rank];
        if (eitp__merges_other_text(bpe, merge->left, read(user, (size_t)merge->left)) ||
            eitp__merges_other_text(bpe, merge->right, read(user, (size_t)merge->right)))
            return EITP_OK;
    }
    while (bits < 8 * bpe->merge_count && bits < (size_t)1 << 22)
        bits *= 2;
    fallback->junctions = (uint64_t *)eitp__allocate(host, bits / 8);
    if (!fallback->junctions)
        return eitp__fail_memory(error, bits / 8, "the tokenizer's merges");
    fallback->junction_bits = bits;
    for (size_t rank = 0; rank < bpe->merge_count; rank++) {
        const eitp__token_text right = read(user, (size_t)bpe->merges[rank].right);
        const size_t bit =
            eitp__junction_bit(fallback, eitp__last_character(read(user, (size_t)bpe->merges[rank].left)),
                               eitp__symbol_at(right.bytes, right.size, &length));
        fallback->junctions[bit / 64] |= (uint64_t)1 << bit % 64;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__byte_fallback_index(eitp__byte_fallback *fallback, eitp__bpe *bpe,
                                                    const eitp_host *host, eitp__token_reader read, const void *user,
                                                    size_t count, int is_whole, eitp_error *error) {
    const eitp_status status = eitp__index_characters(fallback, bpe, host, read, user, count, error);
    return status != EITP_OK || is_whole ? status : eitp__index_junctions(fallback, bpe, host, read, user, error);
}

/* ---- Pieces and symbols ---- */

/* True if a piece may end between two characters. */
static int eitp__is_cut(const eitp__byte_fallback *fallback, uint32_t left, uint32_t right) {
    if (fallback->splits && right == EITP__SPACE_SYMBOL)
        return 1;
    if (!fallback->junctions)
        return 0;
    const size_t bit = eitp__junction_bit(fallback, left, right);
    if (fallback->junctions[bit / 64] >> bit % 64 & 1)
        return 0;
    /* An unknown character is written before the next known one. Without a token for it, merges join the characters on
       either side. */
    return fallback->knows_all || (eitp__character_slot(fallback, right)->id >= 0 &&
                                   (!fallback->drops_unknown || eitp__character_slot(fallback, left)->id >= 0));
}

EITP__PRIVATE size_t eitp__byte_fallback_piece(const void *fallback, const unsigned char *text, size_t size,
                                               int closed) {
    size_t length, end;
    uint32_t left = eitp__symbol_at(text, size, &end);
    while (end < size) {
        const uint32_t right = eitp__symbol_at(text + end, size - end, &length);
        if (eitp__is_cut((const eitp__byte_fallback *)fallback, left, right) || end + length > EITP__PIECE_LIMIT)
            return end;
        left = right;
        end += length;
    }
    return closed ? end : 0;
}

/* Stores the tokens of a character's bytes. Returns 0 unless each byte has one. */
static size_t eitp__byte_symbols(const eitp__bpe *bpe, const unsigned char *text, size_t size, int32_t *ids) {
    for (size_t i = 0; i < size; i++) {
        ids[i] = bpe->byte_ids[text[i]];
        if (ids[i] < 0)
            return 0;
    }
    return size;
}

EITP__PRIVATE size_t eitp__byte_fallback_symbols(const eitp__byte_fallback *fallback, const eitp__bpe *bpe,
                                                 const unsigned char *text, size_t size, int32_t *ids) {
    size_t count = 0, length;
    int is_pending = 0; /* an unknown character, which the library writes after the bytes that follow it */
    for (size_t i = 0; i < size; i += length) {
        const int32_t id = eitp__character_slot(fallback, eitp__symbol_at(text + i, size - i, &length))->id;
        size_t bytes;
        if (id >= 0) {
            if (is_pending)
                ids[count++] = bpe->unknown;
            is_pending = 0;
            ids[count++] = id;
            continue;
        }
        bytes = eitp__byte_symbols(bpe, text + i, length, ids + count);
        count += bytes;
        if (bytes || bpe->unknown < 0)
            continue;
        if (is_pending && !bpe->fuses_unknown)
            ids[count++] = bpe->unknown;
        is_pending = 1;
    }
    if (is_pending)
        ids[count++] = bpe->unknown;
    return count;
}

EITP__PRIVATE size_t eitp__byte_fallback_unknown(const eitp__byte_fallback *fallback, const eitp__bpe *bpe,
                                                 const unsigned char *text, size_t size) {
    size_t count = 0, length;
    for (size_t i = 0; i < size; i += length) {
        const uint32_t code_point = eitp__symbol_at(text + i, size - i, &length);
        int32_t ids[4];
        if (eitp__character_slot(fallback, code_point)->id < 0 && !eitp__byte_symbols(bpe, text + i, length, ids))
            count += length;
    }
    return count;
}
