/* Loading WordPiece from a vocab.txt. */
#include "base/files.h"
#include "base/unicode.h"
#include "text/loader.h"

/* The lines of vocab.txt. */
typedef struct eitp__vocabulary_lines {
    const char *text;
    size_t size, at;
} eitp__vocabulary_lines;

/* Finds the next line, without trailing white space. Returns 0 after the last one. */
static int eitp__next_vocabulary_line(eitp__vocabulary_lines *lines, const char **text, size_t *size) {
    if (lines->at == lines->size)
        return 0;
    const char *begin = lines->text + lines->at;
    const char *end = (const char *)memchr(begin, '\n', lines->size - lines->at);
    size_t length = end ? (size_t)(end - begin) : lines->size - lines->at;
    lines->at += length + (end != NULL);
    while (length) {
        size_t last = length - 1;
        uint32_t code_point;
        int valid;
        while (last && ((unsigned char)begin[last] & 0xC0) == 0x80)
            last--;
        eitp__utf8_next((const unsigned char *)begin + last, length - last, &code_point, &valid);
        if (eitp__unicode_class(code_point) != EITP__UNICODE_SPACE)
            break;
        length = last;
    }
    *text = begin;
    *size = length;
    return 1;
}

static eitp_status eitp__load_vocabulary_lines(eitp__loader *loader, const eitp__buffer *content, eitp_error *error) {
    eitp__vocabulary_lines lines = EITP__ZERO;
    const char *text;
    size_t size, count = 0;
    lines.text = content->data;
    lines.size = content->size;
    eitp__vocabulary_lines counted = lines;
    while (eitp__next_vocabulary_line(&counted, &text, &size))
        count++;
    eitp_status status = eitp__load_begin(loader, count, count, 0, error);
    for (size_t id = 0; id < count && status == EITP_OK; id++) {
        eitp__next_vocabulary_line(&lines, &text, &size);
        if (eitp__utf8_valid_prefix((const unsigned char *)text, size) != size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: invalid UTF-8; convert the file to UTF-8", id + 1);
        status = eitp__load_token(loader, text, size, id, id + 1, error);
    }
    return status;
}

static eitp_status eitp__load_words(eitp__loader *loader, const eitp__buffer *content, eitp_error *error) {
    eitp_status status = eitp__load_vocabulary_lines(loader, content, error);
    size_t size;
    if (status != EITP_OK)
        return status;
    eitp_tokenizer *tokenizer = loader->tokenizer;
    tokenizer->has_normalizer = tokenizer->decodes_words = tokenizer->cleans_up = 1;
    eitp__normalization_set_bert(&tokenizer->normalization);
    eitp__buffer_add_text(&tokenizer->wordpiece.prefix, "##");
    eitp__buffer_add_text(&tokenizer->kept[EITP__KEPT_DECODER],
                          "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}");
    if (tokenizer->wordpiece.prefix.failed || tokenizer->kept[EITP__KEPT_DECODER].failed)
        return eitp__fail_memory(error, 2, "the tokenizer's vocabulary");
    const char *unknown = eitp__special_text(loader, EITP__FAMILY_BERT, EITP_UNKNOWN, &size);
    status = eitp__load_unknown(loader, unknown ? unknown : "null", unknown ? size : 4, error);
    if (status == EITP_OK)
        status = eitp__load_family(loader, EITP__FAMILY_BERT, error);
    if (status == EITP_OK)
        status = eitp__load_defaults(loader, NULL, error);
    return status == EITP_OK ? eitp__load_special_tokens(loader, error) : status;
}

EITP__PRIVATE eitp_status eitp__load_vocab_txt(const eitp_host *host, const char *path,
                                               const eitp__special_files *files, eitp_tokenizer **out,
                                               eitp_error *error) {
    eitp__buffer content;
    eitp__loader loader;
    eitp__buffer_init(&content, host);
    eitp__loader_init(&loader, host, files);
    loader.model = EITP__MODEL_WORDPIECE;
    eitp_status status = eitp__read_file(host, path, EITP__TOKENIZER_FILE_LIMIT, &content, error);
    if (status == EITP_OK) {
        status = eitp__load_words(&loader, &content, error);
        if (status != EITP_OK)
            status = eitp__fail_prefix(error, status, "%s", path);
    }
    status = eitp__loader_finish(&loader, status, out);
    eitp__buffer_release(&content);
    return status;
}
