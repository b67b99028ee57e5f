#include "data/text_lines.h"

EITP__PRIVATE void eitp__text_lines_init(eitp__text_lines *lines, eitp__text_reader *reader, size_t limit) {
    memset(lines, 0, sizeof *lines);
    lines->reader = reader;
    lines->limit = limit;
    lines->end = '\n';
}

/* Consumes the bytes of the piece up to the end of the line; *has_ended is 1 if the line end is among them. */
static const char *eitp__text_lines_take(eitp__text_lines *lines, size_t *size, int *has_ended) {
    const char *text = lines->text, *end = (const char *)memchr(text, lines->end, lines->left);
    *has_ended = end != NULL;
    *size = end ? (size_t)(end - text) + 1 : lines->left;
    lines->text += *size;
    lines->left -= *size;
    return text;
}

/* Reads another piece if the last one is used up; afterwards lines->left is 0 at the end of the input. */
static eitp_status eitp__text_lines_fill(eitp__text_lines *lines, eitp_error *error) {
    return lines->left ? EITP_OK : eitp__text_reader_next(lines->reader, &lines->text, &lines->left, error);
}

/* Skips the rest of a line that was too long. */
static eitp_status eitp__text_lines_skip(eitp__text_lines *lines, eitp_error *error) {
    while (lines->is_cut) {
        size_t size;
        int has_ended;
        eitp_status status = eitp__text_lines_fill(lines, error);
        if (status != EITP_OK)
            return status;
        if (!lines->left)
            break;
        eitp__text_lines_take(lines, &size, &has_ended);
        lines->is_cut = !has_ended;
    }
    lines->is_cut = 0;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_lines_add(eitp__text_lines *lines, eitp__buffer *row, int *is_end,
                                               eitp_error *error) {
    int has_ended = 0, has_begun = 0;
    eitp_status status = eitp__text_lines_skip(lines, error);
    while (status == EITP_OK && !has_ended) {
        size_t size;
        status = eitp__text_lines_fill(lines, error);
        if (status != EITP_OK || !lines->left)
            break;
        lines->line += !has_begun;
        has_begun = 1;
        const char *text = eitp__text_lines_take(lines, &size, &has_ended);
        if (size > lines->limit - row->size) {
            lines->is_cut = !has_ended;
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: line %llu: the row has more than %llu bytes; set a larger row_limit, or close a "
                              "quote that was opened before",
                              lines->reader->path, (unsigned long long)lines->line, (unsigned long long)lines->limit);
        }
        eitp__buffer_add(row, text, size);
        if (row->failed)
            return eitp__fail_memory(error, row->size + size, "a row");
    }
    *is_end = status == EITP_OK && !has_begun;
    return status;
}
