#include "data/documents.h"

#include "data/text_layout.h"

EITP__PRIVATE void eitp__documents_init(eitp__documents *documents, eitp__text_reader *reader, const char *separator) {
    memset(documents, 0, sizeof *documents);
    documents->reader = reader;
    documents->separator = separator;
    eitp__buffer_init(&documents->held, reader->host);
}

EITP__PRIVATE void eitp__documents_release(eitp__documents *documents) {
    if (!documents->separator)
        return;
    eitp__buffer_release(&documents->held);
    memset(documents, 0, sizeof *documents);
}

/* Reads another piece of the input if the last one is used up. */
static eitp_status eitp__documents_fill(eitp__documents *documents, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!documents->left && !documents->has_ended)
        status = eitp__text_reader_next(documents->reader, &documents->text, &documents->left, error);
    documents->has_ended = status == EITP_OK && !documents->left;
    return status;
}

/* Consumes the rest of the line, or of the piece. */
static const char *eitp__documents_take(eitp__documents *documents, size_t *size) {
    const char *text = documents->text;
    const char *feed = documents->left ? (const char *)memchr(text, '\n', documents->left) : NULL;
    *size = feed ? (size_t)(feed - text) + 1 : documents->left;
    documents->left -= *size;
    documents->text = documents->left ? text + *size : NULL;
    documents->is_within = !feed;
    return text;
}

/* Holds the start of the next line until it is longer than a separator with its carriage return and line feed. */
static eitp_status eitp__documents_hold(eitp__documents *documents, eitp_error *error) {
    const size_t most = strlen(documents->separator) + 2;
    eitp__buffer_clear(&documents->held);
    do {
        size_t size;
        const eitp_status status = eitp__documents_fill(documents, error);
        if (status != EITP_OK)
            return status;
        const char *text = eitp__documents_take(documents, &size);
        eitp__buffer_add(&documents->held, text, size);
        if (documents->held.failed)
            return eitp__fail_memory(error, documents->held.size + size, "a line of text");
    } while (documents->is_within && !documents->has_ended && documents->held.size < most);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__documents_piece(eitp__documents *documents, const char **text, size_t *size,
                                                eitp_error *error) {
    const eitp__buffer *held = &documents->held;
    const int is_begun = documents->is_within;
    const eitp_status status =
        is_begun ? eitp__documents_fill(documents, error) : eitp__documents_hold(documents, error);
    *text = "";
    *size = 0;
    if (status != EITP_OK)
        return status;
    if (is_begun) {
        *text = eitp__documents_take(documents, size);
    } else if (held->size && !eitp__line_is(held->data, held->size, documents->separator)) {
        *text = held->data;
        *size = held->size;
    }
    return EITP_OK;
}
