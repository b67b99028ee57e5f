#include "data/text_layout.h"

#include "base/status.h"

/* Number of rows after the first that decide on the column separator; and minimum number of separator lines. */
enum { EITP__DECIDING_ROWS = 20, EITP__FEWEST_SEPARATORS = 3 };

EITP__PRIVATE char eitp__find_line_end(eitp_text beginning) {
    const int has_return = memchr(beginning.bytes, '\r', beginning.size) != NULL;
    return has_return && !memchr(beginning.bytes, '\n', beginning.size) ? '\r' : '\n';
}

/* ---- Columns ---- */

static int eitp__ends_line(char byte) {
    return byte == '\n' || byte == '\r';
}

/* Returns the end of a quoted field that starts at `at`: after its closing quote, or the end of the text. */
static size_t eitp__skip_quoted(eitp_text text, size_t at) {
    for (at++; at < text.size; at++) {
        if (text.bytes[at] != '"')
            continue;
        if (at + 1 == text.size || text.bytes[at + 1] != '"')
            return at + 1;
        at++;
    }
    return at;
}

/* Counts the fields of the row at *at, which moves to the next one. Returns 0 if the text ends before the row does. */
static size_t eitp__count_fields(eitp_text text, size_t *at, char delimiter) {
    size_t count = 1;
    int is_first = 1; /* byte of a field */
    while (*at < text.size && !eitp__ends_line(text.bytes[*at])) {
        const char byte = text.bytes[*at];
        *at = is_first && byte == '"' ? eitp__skip_quoted(text, *at) : *at + 1;
        is_first = byte == delimiter;
        count += (size_t)is_first;
    }
    if (*at == text.size)
        return 0;
    while (*at < text.size && eitp__ends_line(text.bytes[*at]))
        ++*at;
    return count;
}

/* Returns the number of fields in each of the first rows, or 0 if they differ or have one. The last row may be cut. */
static size_t eitp__count_columns(eitp_text text, char delimiter) {
    size_t at = 0, columns;
    while (at < text.size && eitp__ends_line(text.bytes[at]))
        at++;
    columns = eitp__count_fields(text, &at, delimiter);
    for (int row = 0; row < EITP__DECIDING_ROWS && columns; row++) {
        const size_t count = eitp__count_fields(text, &at, delimiter);
        if (!count)
            break;
        columns = count == columns ? columns : 0;
    }
    return columns > 1 ? columns : 0;
}

EITP__PRIVATE char eitp__find_delimiter(eitp_text beginning) {
    static const char delimiters[] = {',', ';', '\t'};
    char found = ',';
    size_t most = 0;
    for (size_t i = 0; i < EITP__COUNT(delimiters); i++) {
        const size_t columns = eitp__count_columns(beginning, delimiters[i]);
        if (columns <= most)
            continue;
        most = columns;
        found = delimiters[i];
    }
    return found;
}

EITP__PRIVATE eitp_status eitp__read_delimiter(const char *setting, char *delimiter, eitp_error *error) {
    static const struct {
        const char *name;
        char delimiter;
    } names[] = {{"auto", 0}, {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"\\t", '\t'}};
    *delimiter = 0;
    for (size_t i = 0; i < EITP__COUNT(names) && setting; i++) {
        if (strcmp(setting, names[i].name) != 0)
            continue;
        *delimiter = names[i].delimiter;
        return EITP_OK;
    }
    if (!setting)
        return EITP_OK;
    *delimiter = *setting;
    if (*setting && !setting[1] && (unsigned char)*setting < 0x7F && *setting != '"' && !eitp__ends_line(*setting))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "delimiter '%.40s' must be one ASCII character, such as ; or |, or comma, semicolon or tab",
                      setting);
}

EITP__PRIVATE const char *eitp__delimiter_name(char delimiter, char text[2]) {
    text[0] = delimiter;
    text[1] = 0;
    return delimiter == '\t' ? "tab" : text;
}

/* ---- Documents ---- */

EITP__PRIVATE int eitp__line_is(const char *line, size_t size, const char *text) {
    const size_t length = strlen(text);
    while (size > length && eitp__ends_line(line[size - 1]))
        size--;
    return size == length && !memcmp(line, text, size);
}

/* True for the start of a fortune(6) file. */
static int eitp__is_fortune(eitp_text beginning) {
    size_t count = 0;
    for (size_t at = 0; at < beginning.size;) {
        const char *line = beginning.bytes + at;
        const size_t left = beginning.size - at;
        const char *feed = (const char *)memchr(line, '\n', left);
        const size_t size = feed ? (size_t)(feed - line) + 1 : left;
        const int is_separator = eitp__line_is(line, size, "%");
        if (*line == '%' && !is_separator)
            return 0;
        count += (size_t)is_separator;
        at += size;
    }
    return count >= EITP__FEWEST_SEPARATORS;
}

EITP__PRIVATE const char *eitp__find_document_separator(const char *setting, eitp_text beginning) {
    if (setting && strcmp(setting, "auto") != 0)
        return !strcmp(setting, "none") || !strcmp(setting, "off") ? NULL : setting;
    return eitp__is_fortune(beginning) ? "%" : NULL;
}
