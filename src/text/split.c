#include "text/split.h"

#include "base/unicode.h"

/* Returns the class of the valid character at text[0]. *length is its number of bytes. */
static int eitp__split_class(const unsigned char *text, size_t size, size_t *length) {
    uint32_t code_point;
    int valid;
    *length = eitp__utf8_next(text, size, &code_point, &valid);
    return eitp__unicode_class(code_point);
}

/* Returns the end of the run of characters of a class from text[at] on, with at most `most` of them. 0 if more text is
   needed to decide. */
static size_t eitp__run_end(const unsigned char *text, size_t at, size_t size, int closed, int kind, size_t most) {
    for (; most; most--) {
        size_t length;
        if (at == size)
            return closed ? at : 0;
        if (eitp__split_class(text + at, size - at, &length) != kind || at + length > EITP__PIECE_LIMIT)
            return at;
        at += length;
    }
    return at;
}

/* ---- Digits, then GPT-2's pattern ---- */

/* Returns the length of the white space at text[0]: all of it if a digit follows; otherwise as in GPT-2's pattern. */
static size_t eitp__space_before_digit(const unsigned char *text, size_t size, int closed) {
    const size_t end = eitp__run_end(text, 0, size, closed, EITP__UNICODE_SPACE, SIZE_MAX);
    size_t length;
    if (!end)
        return 0;
    return end < size && eitp__split_class(text + end, size - end, &length) == EITP__UNICODE_NUMBER
               ? end
               : eitp__piece_size(text, size, closed);
}

static size_t eitp__digit_piece(const unsigned char *text, size_t size, int closed) {
    size_t length;
    switch (eitp__split_class(text, size, &length)) {
    case EITP__UNICODE_NUMBER:
        return length;
    case EITP__UNICODE_SPACE:
        return eitp__space_before_digit(text, size, closed);
    default:
        return eitp__piece_size(text, size, closed);
    }
}

/* ---- The patterns of Qwen2 and Llama 3 ---- */

/* Returns the lower case of an ASCII letter at text[at], or s for U+017F, which matches s in a case-insensitive
   pattern. */
static unsigned char eitp__caseless(const unsigned char *text, size_t at, size_t size, size_t *length) {
    const unsigned char byte = text[at];
    *length = 1;
    if (byte == 0xC5 && at + 1 < size && text[at + 1] == 0xBF) {
        *length = 2;
        return 's';
    }
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte + 32) : byte;
}

/* Returns the length of 's 't 'm 'd 're 've 'll in any case at text[0], which is an apostrophe. 0 if it is not one of
   these, SIZE_MAX if more text is needed to decide. */
static size_t eitp__caseless_contraction(const unsigned char *text, size_t size, int closed) {
    size_t length, second;
    unsigned char letter;
    if (size < 2)
        return closed ? 0 : SIZE_MAX;
    letter = eitp__caseless(text, 1, size, &length);
    if (letter == 's' || letter == 't' || letter == 'm' || letter == 'd')
        return 1 + length;
    if (letter != 'r' && letter != 'v' && letter != 'l')
        return 0;
    if (size < 3)
        return closed ? 0 : SIZE_MAX;
    return eitp__caseless(text, 2, size, &second) == (letter == 'l' ? 'l' : 'e') ? 3 : 0;
}

static int eitp__is_line_end(unsigned char byte) {
    return byte == '\r' || byte == '\n';
}

/* Returns the length of the white space at text[0]: up to its last line end, if it has one. Otherwise all of it at the
   end of the text, and all but its last character, unless it has only one, before other text. */
static size_t eitp__space_or_lines(const unsigned char *text, size_t size, int closed) {
    const size_t end = eitp__run_end(text, 0, size, closed, EITP__UNICODE_SPACE, SIZE_MAX);
    size_t last = end, length;
    for (size_t i = end; i; i--) {
        if (eitp__is_line_end(text[i - 1]))
            return i;
    }
    if (end == size || eitp__split_class(text + end, size - end, &length) == EITP__UNICODE_SPACE)
        return end;
    while (last && (text[--last] & 0xC0) == 0x80) {
    }
    return last ? last : end;
}

/* Returns the end of the characters that are not letters, digits or spaces from text[at] on, and of the line ends after
   them. */
static size_t eitp__others_and_lines(const unsigned char *text, size_t at, size_t size, int closed) {
    size_t end = eitp__run_end(text, at, size, closed, EITP__UNICODE_OTHER, SIZE_MAX);
    while (end && end < size && eitp__is_line_end(text[end]))
        end++;
    return end == size && !closed ? 0 : end;
}

/* Returns the length of a piece that starts with a character of this class and length, and is neither a digit nor a
   contraction. */
static size_t eitp__word_or_others(const unsigned char *text, size_t size, int closed, int kind, size_t length) {
    size_t next_length;
    int next;
    if (kind == EITP__UNICODE_LETTER)
        return eitp__run_end(text, 0, size, closed, EITP__UNICODE_LETTER, SIZE_MAX);
    if (length == size && !closed)
        return 0;
    next = length < size ? eitp__split_class(text + length, size - length, &next_length) : EITP__UNICODE_SPACE;
    if (next == EITP__UNICODE_LETTER && !eitp__is_line_end(text[0]))
        return eitp__run_end(text, length, size, closed, EITP__UNICODE_LETTER, SIZE_MAX);
    if (kind == EITP__UNICODE_OTHER || (text[0] == ' ' && next == EITP__UNICODE_OTHER))
        return eitp__others_and_lines(text, kind == EITP__UNICODE_OTHER ? 0 : 1, size, closed);
    return eitp__space_or_lines(text, size, closed);
}

static size_t eitp__caseless_piece(const unsigned char *text, size_t size, int closed, size_t digits) {
    size_t length;
    const int kind = eitp__split_class(text, size, &length);
    if (text[0] == '\'') {
        const size_t contraction = eitp__caseless_contraction(text, size, closed);
        if (contraction)
            return contraction == SIZE_MAX ? 0 : contraction;
    }
    return kind == EITP__UNICODE_NUMBER ? eitp__run_end(text, 0, size, closed, EITP__UNICODE_NUMBER, digits)
                                        : eitp__word_or_others(text, size, closed, kind, length);
}

static size_t eitp__qwen2_piece(const unsigned char *text, size_t size, int closed) {
    return eitp__caseless_piece(text, size, closed, 1);
}

static size_t eitp__llama3_piece(const unsigned char *text, size_t size, int closed) {
    return eitp__caseless_piece(text, size, closed, 3);
}

/* ---- The table ---- */

#define EITP__CASELESS_PATTERN(digits)                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* In the order of eitp__split. */
static const struct {
    const char *pattern;
    eitp__piece_rule rule;
} eitp__split_table[EITP__SPLITS] = {
    {NULL, eitp__piece_size},
    {NULL, eitp__digit_piece},
    {EITP__CASELESS_PATTERN("\\p{N}"), eitp__qwen2_piece},
    {EITP__CASELESS_PATTERN("\\p{N}{1,3}"), eitp__llama3_piece},
};

EITP__PRIVATE const char *eitp__split_pattern(eitp__split split) {
    return eitp__split_table[split].pattern;
}

EITP__PRIVATE eitp__piece_rule eitp__split_rule(eitp__split split) {
    return eitp__split_table[split].rule;
}
