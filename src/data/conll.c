#include "data/conll.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__conll_init(eitp__conll *conll, eitp__text_lines *lines) {
    const eitp_host *host = lines->reader->host;
    memset(conll, 0, sizeof *conll);
    conll->lines = lines;
    conll->label_column = EITP__LAST_COLUMN;
    eitp__buffer_init(&conll->line, host);
    eitp__word_list_init(&conll->words, host);
    eitp__word_list_init(&conll->labels, host);
}

EITP__PRIVATE void eitp__conll_release(eitp__conll *conll) {
    if (!conll->lines)
        return;
    eitp__buffer_release(&conll->line);
    eitp__word_list_release(&conll->words);
    eitp__word_list_release(&conll->labels);
    memset(conll, 0, sizeof *conll);
}

/* ---- A line ---- */

static int eitp__is_column_byte(char byte) {
    return !strchr(" \t\r\n", byte) || !byte;
}

/* Returns the next column from *at on, which moves behind it; size 0 at the end of the line. */
static eitp_text eitp__conll_column(const eitp__buffer *line, size_t *at) {
    eitp_text column;
    while (*at < line->size && !eitp__is_column_byte(line->data[*at]))
        ++*at;
    column.bytes = line->data + *at;
    column.size = 0;
    while (*at < line->size && eitp__is_column_byte(line->data[*at]))
        column.size++, ++*at;
    return column;
}

/* True for a line that ends a sentence. */
static int eitp__conll_is_empty(const eitp__buffer *line) {
    static const char mark[] = "-DOCSTART-";
    size_t at = 0;
    const eitp_text first = eitp__conll_column(line, &at);
    return !first.size || (first.size == sizeof mark - 1 && !memcmp(first.bytes, mark, first.size));
}

/* Checks the number of columns: with fewer, the label would be read from another column. */
static eitp_status eitp__conll_check_count(eitp__conll *conll, size_t count, eitp_error *error) {
    const char *path = conll->lines->reader->path;
    const size_t label = conll->label_column == EITP__LAST_COLUMN ? 0 : conll->label_column;
    const size_t needed = conll->word_column > label ? conll->word_column : label;
    if (!conll->column_count) {
        conll->column_count = count;
        conll->counted_line = conll->lines->line;
    }
    if (count != conll->column_count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: line %llu, column %llu: the line has %zu column%s, expected %zu as in line %llu: a word "
                          "first, its label last",
                          path, (unsigned long long)conll->lines->line,
                          (unsigned long long)eitp__utf8_count(conll->line.data, conll->line.size), count,
                          count == 1 ? "" : "s", conll->column_count, (unsigned long long)conll->counted_line);
    if (needed >= count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: line %llu: no column %zu (the line has %zu)", path,
                          (unsigned long long)conll->lines->line, needed + 1, count);
    return EITP_OK;
}

/* Adds the word and the label of the line. */
static eitp_status eitp__conll_add_line(eitp__conll *conll, eitp_error *error) {
    eitp_text word = EITP__ZERO, label = EITP__ZERO;
    size_t at = 0, count = 0;
    for (;;) {
        const eitp_text column = eitp__conll_column(&conll->line, &at);
        if (!column.size)
            break;
        word = count == conll->word_column ? column : word;
        label = count == conll->label_column || conll->label_column == EITP__LAST_COLUMN ? column : label;
        count++;
    }
    eitp_status status = eitp__conll_check_count(conll, count, error);
    if (status == EITP_OK)
        status = eitp__word_list_add(&conll->words, word.bytes, word.size, error);
    if (status == EITP_OK && count > 1)
        status = eitp__word_list_add(&conll->labels, label.bytes, label.size, error);
    if (status == EITP_OK && conll->words.text.size + conll->labels.text.size > conll->lines->limit)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: line %llu, column 1: the sentence exceeds the limit of %zu bytes; end sentences with "
                          "empty lines",
                          conll->lines->reader->path, (unsigned long long)conll->first_line, conll->lines->limit);
    return status;
}

/* ---- A sentence ---- */

/* Reads the next line. *ends is 1 if it ends a sentence, as does the end of the file. */
static eitp_status eitp__conll_next_line(eitp__conll *conll, int *ends, int *is_end, eitp_error *error) {
    eitp__buffer_clear(&conll->line);
    eitp_status status = eitp__text_lines_add(conll->lines, &conll->line, is_end, error);
    *ends = status == EITP_OK && (*is_end || eitp__conll_is_empty(&conll->line));
    return status;
}

static eitp_status eitp__conll_read_lines(eitp__conll *conll, eitp_error *error) {
    int ends = 0, is_end = 0;
    eitp_status status = EITP_OK;
    while (conll->skips && status == EITP_OK) {
        status = eitp__conll_next_line(conll, &ends, &is_end, error);
        conll->skips = !ends;
    }
    while (status == EITP_OK && !is_end) {
        status = eitp__conll_next_line(conll, &ends, &is_end, error);
        if (status == EITP_OK && !ends) {
            conll->first_line = conll->words.count ? conll->first_line : conll->lines->line;
            status = eitp__conll_add_line(conll, error);
        } else if (conll->words.count) {
            break;
        }
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__conll_read(eitp__conll *conll, int *is_end, eitp_error *error) {
    eitp__word_list_clear(&conll->words);
    eitp__word_list_clear(&conll->labels);
    eitp_status status = eitp__conll_read_lines(conll, error);
    conll->skips = status != EITP_OK;
    *is_end = status == EITP_OK && !conll->words.count;
    return status;
}
