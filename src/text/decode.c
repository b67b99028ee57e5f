/* Decoding: tokens to text. */
#include "text/tokenizer.h"

/* What WordPiece's decoder replaces in each token, in this order, where it cleans up. */
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

/* Cleans up text[0], with text[1] as a second buffer; the result is in text[0]. */
static void eitp__clean_up(eitp__buffer text[2]) {
    if (!text[0].size || !memchr(text[0].data, ' ', text[0].size)) /* each of them begins with one */
        return;
    for (size_t i = 0; i < EITP__COUNT(eitp__cleanups); i++) {
        eitp__replace_all(&text[0], eitp__cleanups[i].found, eitp__cleanups[i].put, &text[1]);
        const eitp__buffer swapped = text[0];
        text[0] = text[1];
        text[1] = swapped;
    }
}

/* Where decoded text is stored. */
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

/* Adds a token of WordPiece: what goes on with a word without its prefix, another one after a space. */
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

/* The text of a token: of added ones that are recognized in normalized text, that text. */
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
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        const char *bytes = NULL;
        size_t size = 0;
        status = eitp__decoded_token(tokenizer, ids[i], &bytes, &size, error);
        if (status != EITP_OK)
            return eitp__fail_prefix(error, status, "token %zu of the sequence", i);
        status = tokenizer->model == EITP__MODEL_WORDPIECE
                     ? eitp__decode_word(tokenizer, bytes, size, i == 0, text, out, error)
                     : eitp__decoded_add(out, bytes, size, error);
    }
    return status;
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
