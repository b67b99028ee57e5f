/* Decoding: tokens to text. */
#include "base/unicode.h"
#include "text/tokenizer.h"

/* Replacements that WordPiece's decoder makes in each token, in this order, if it cleans up. */
static const struct {
    const char *found, *put;
} eitp__cleanups[] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

static void eitp__replace_all(const eitp__buffer *from, const char *found, const char *put, eitp__buffer *to) {
    const size_t size = strlen(found);
    eitp__buffer_clear(to);
    to->failed = from->failed;
    for (size_t i = 0; i < from->size;) {
        if (size <= from->size - i && !memcmp(from->data + i, found, size)) {
            eitp__buffer_add_text(to, put);
            i += size;
        } else {
            eitp__buffer_add(to, from->data + i++, 1);
        }
    }
}

/* Cleans up text[0], with text[1] as a second buffer. The result is in text[0]. */
static void eitp__clean_up(eitp__buffer text[2]) {
    if (!text[0].size || !memchr(text[0].data, ' ', text[0].size)) /* all replacements start with a space */
        return;
    for (size_t i = 0; i < EITP__COUNT(eitp__cleanups); i++) {
        eitp__replace_all(&text[0], eitp__cleanups[i].found, eitp__cleanups[i].put, &text[1]);
        const eitp__buffer swapped = text[0];
        text[0] = text[1];
        text[1] = swapped;
    }
}

/* Output of decoding. */
typedef struct eitp__decoded {
    char *text;
    size_t capacity, size;
} eitp__decoded;

static eitp_status eitp__decoded_add(eitp__decoded *out, const char *bytes, size_t size, eitp_error *error) {
    if (out->size < out->capacity && size)
        memcpy(out->text + out->size, bytes, size < out->capacity - out->size ? size : out->capacity - out->size);
    if (!eitp__add_size(out->size, size, &out->size))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the text of the tokens exceeds the address space");
    return EITP_OK;
}

/* Adds a token of WordPiece: without the prefix if it continues a word, otherwise after a space. */
static eitp_status eitp__decode_word(const eitp_tokenizer *tokenizer, const char *bytes, size_t size, int first,
                                     eitp__buffer text[2], eitp__decoded *out, eitp_error *error) {
    const int continues =
        tokenizer->decodes_words && !first && eitp__wordpiece_continues(&tokenizer->wordpiece, bytes, size);
    const size_t skipped = continues ? tokenizer->wordpiece.prefix.size : 0;
    eitp__buffer_clear(&text[0]);
    if (!first && !continues)
        eitp__buffer_add_text(&text[0], " ");
    eitp__buffer_add(&text[0], bytes + skipped, size - skipped);
    if (tokenizer->cleans_up)
        eitp__clean_up(text);
    if (text[0].failed || text[1].failed)
        return eitp__fail_memory(error, size, "the text of a token");
    return eitp__decoded_add(out, text[0].data, text[0].size, error);
}

/* ---- Byte fallback ---- */

/* State of decoding tokens of BPE with byte fallback. */
typedef struct eitp__fallback_decoding {
    const eitp_tokenizer *tokenizer;
    eitp__decoded *out;
    eitp__buffer *text; /* text of one token */
    eitp__buffer *run;  /* run of byte tokens */
    int has_stripped;   /* the start of the text has been handled */
} eitp__fallback_decoding;

static eitp_status eitp__fallback_write(eitp__fallback_decoding *decoding, const char *bytes, size_t size,
                                        eitp_error *error) {
    const int strips = size && !decoding->has_stripped;
    decoding->has_stripped |= size > 0;
    if (strips && (decoding->tokenizer->fallback.decoding & EITP__DECODE_STRIP) && *bytes == ' ')
        bytes++, size--;
    return eitp__decoded_add(decoding->out, bytes, size, error);
}

/* Ends a run of byte tokens: writes its text, or U+FFFD for each byte if it is not valid UTF-8. */
static eitp_status eitp__fallback_end_run(eitp__fallback_decoding *decoding, eitp_error *error) {
    const size_t size = decoding->run->size;
    const char *bytes = decoding->run->data;
    eitp_status status = EITP_OK;
    if (!size)
        return EITP_OK;
    if (eitp__utf8_valid_prefix((const unsigned char *)bytes, size) == size) {
        status = eitp__fallback_write(decoding, bytes, size, error);
    } else {
        for (size_t i = 0; i < size && status == EITP_OK; i++)
            status = eitp__fallback_write(decoding, "\xEF\xBF\xBD", 3, error);
    }
    eitp__buffer_clear(decoding->run);
    return status;
}

/* Adds the text of a token to decoding->text, with spaces for U+2581. */
static void eitp__fallback_spaces(eitp__fallback_decoding *decoding, const char *bytes, size_t size, int is_first) {
    const unsigned steps = decoding->tokenizer->fallback.decoding;
    for (size_t i = 0; i < size;) {
        if ((steps & EITP__DECODE_SPACES) && size - i >= 3 && !memcmp(bytes + i, EITP__SPACE_TEXT, 3)) {
            if (!is_first || !(steps & EITP__DECODE_DROP_FIRST))
                eitp__buffer_add(decoding->text, " ", 1);
            i += 3;
        } else {
            eitp__buffer_add(decoding->text, bytes + i++, 1);
        }
    }
}

static eitp_status eitp__decode_fallback(eitp__fallback_decoding *decoding, const char *bytes, size_t size,
                                         int is_first, eitp_error *error) {
    const unsigned steps = decoding->tokenizer->fallback.decoding;
    eitp__buffer *text = decoding->text, *run = decoding->run;
    eitp__buffer_clear(text);
    if ((steps & EITP__DECODE_SEPARATED) && !is_first)
        eitp__buffer_add(text, " ", 1);
    eitp__fallback_spaces(decoding, bytes, size, is_first);
    const int byte = steps & EITP__DECODE_BYTES && !text->failed
                         ? eitp__byte_of_token((const unsigned char *)text->data, text->size)
                         : -1;
    if (byte >= 0) {
        const unsigned char value = (unsigned char)byte;
        eitp__buffer_add(run, &value, 1);
    }
    if (text->failed || run->failed)
        return eitp__fail_memory(error, size, "the text of a token");
    if (byte >= 0)
        return EITP_OK;
    eitp_status status = eitp__fallback_end_run(decoding, error);
    return status == EITP_OK ? eitp__fallback_write(decoding, text->data, text->size, error) : status;
}

EITP__PRIVATE int eitp__token_byte(const eitp_tokenizer *tokenizer, int32_t id) {
    if (tokenizer->model != EITP__MODEL_BYTE_FALLBACK || !(tokenizer->fallback.decoding & EITP__DECODE_BYTES) ||
        id < 0 || (size_t)id >= tokenizer->vocabulary.count)
        return -1;
    return eitp__byte_of_token(eitp__token_bytes(tokenizer, (size_t)id), tokenizer->vocabulary.tokens[id].size);
}

/* ---- Tokens ---- */

/* Finds the text of a token. For added tokens that are recognized in normalized text, that is the normalized text. */
static eitp_status eitp__decoded_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                       eitp_error *error) {
    const eitp__added_tokens *normalized = &tokenizer->added[EITP__ADDED_NORMALIZED];
    eitp_status status = eitp_tokenizer_token(tokenizer, id, bytes, size, error);
    if (status != EITP_OK || !(tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_NORMALIZED))
        return status;
    for (size_t i = 0; i < normalized->count; i++) {
        if (normalized->tokens[i].id != id)
            continue;
        *bytes = (const char *)normalized->tokens[i].bytes;
        *size = normalized->tokens[i].size;
    }
    return EITP_OK;
}

static eitp_status eitp__decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count, eitp__buffer text[2],
                                eitp__decoded *out, eitp_error *error) {
    eitp__fallback_decoding fallback;
    eitp_status status = EITP_OK;
    fallback.tokenizer = tokenizer, fallback.out = out, fallback.text = &text[0], fallback.run = &text[1];
    fallback.has_stripped = 0;
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        const char *bytes = NULL;
        size_t size = 0;
        status = eitp__decoded_token(tokenizer, ids[i], &bytes, &size, error);
        if (status != EITP_OK)
            return eitp__fail_prefix(error, status, "token %zu of the sequence", i);
        if (tokenizer->model == EITP__MODEL_WORDPIECE)
            status = eitp__decode_word(tokenizer, bytes, size, i == 0, text, out, error);
        else if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK)
            status = eitp__decode_fallback(&fallback, bytes, size, i == 0, error);
        else
            status = eitp__decoded_add(out, bytes, size, error);
    }
    return status == EITP_OK && tokenizer->model == EITP__MODEL_BYTE_FALLBACK ? eitp__fallback_end_run(&fallback, error)
                                                                              : status;
}

eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                                  size_t capacity, size_t *size, eitp_error *error) {
    eitp__buffer buffers[2];
    eitp__decoded out;
    if (!tokenizer || !size)
        return eitp__fail_null(error, "eitp_tokenizer_decode", "tokenizer and size");
    *size = 0;
    if ((count && !ids) || (capacity && !text))
        return eitp__fail_null(error, "eitp_tokenizer_decode", "ids with a count and text with a capacity");
    out.text = text, out.capacity = capacity, out.size = 0;
    eitp__buffer_init(&buffers[0], &tokenizer->host);
    eitp__buffer_init(&buffers[1], &tokenizer->host);
    eitp_status status = eitp__decode(tokenizer, ids, count, buffers, &out, error);
    if (status == EITP_OK)
        *size = out.size;
    eitp__buffer_release(&buffers[0]);
    eitp__buffer_release(&buffers[1]);
    return status;
}
