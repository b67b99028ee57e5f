#include "template/jinja_lexer.h"

#include "base/status.h"
#include "base/unicode.h"

EITP__PRIVATE void eitp__jinja_position(const char *text, size_t offset, size_t *line, size_t *column) {
    size_t start = 0;
    *line = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] != '\n')
            continue;
        start = i + 1;
        *line += 1;
    }
    *column = eitp__utf8_count(text + start, offset - start) + 1;
}

EITP__PRIVATE eitp_status eitp__jinja_fail_at(eitp_error *error, eitp_status status, const char *text, size_t offset,
                                              const char *format, ...) {
    size_t line, column;
    va_list arguments;
    if (!error)
        return status;
    error->status = status;
    error->system_code = 0;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    for (char *c = error->message; *c; c++)
        if ((unsigned char)*c < 0x20)
            *c = ' ';
    eitp__jinja_position(text, offset, &line, &column);
    return eitp__fail_prefix(error, status, "chat template, line %zu, column %zu", line, column);
}

EITP__PRIVATE void eitp__jinja_lexer_init(eitp__jinja_lexer *lexer, const char *text, size_t size) {
    memset(lexer, 0, sizeof *lexer);
    lexer->text = text;
    lexer->size = size;
    lexer->line_starting = 1;
}

EITP__PRIVATE int eitp__jinja_is(const eitp__jinja_token *token, int kind, const char *text) {
    return token->kind == kind && token->size == strlen(text) && !memcmp(token->text, text, token->size);
}

EITP__PRIVATE size_t eitp__jinja_space(const char *text, size_t size) {
    uint32_t code_point;
    int valid;
    size_t length;
    if (!size)
        return 0;
    length = eitp__utf8_next((const unsigned char *)text, size, &code_point, &valid);
    if (code_point >= 0x1c && code_point <= 0x1f)
        return length;
    return eitp__unicode_class(code_point) == EITP__UNICODE_SPACE ? length : 0;
}

EITP__PRIVATE size_t eitp__jinja_without_space(const char *text, size_t size) {
    while (size) {
        size_t start = size - 1;
        while (start && ((unsigned char)text[start] & 0xC0) == 0x80)
            start--;
        if (eitp__jinja_space(text + start, size - start) != size - start)
            break;
        size = start;
    }
    return size;
}

static void eitp__jinja_skip_space(eitp__jinja_lexer *lexer) {
    size_t length;
    while ((length = eitp__jinja_space(lexer->text + lexer->at, lexer->size - lexer->at)) != 0)
        lexer->at += length;
}

static int eitp__jinja_at(const eitp__jinja_lexer *lexer, size_t at, const char *text) {
    const size_t size = strlen(text);
    return at <= lexer->size && size <= lexer->size - at && !memcmp(lexer->text + at, text, size);
}

/* Skips the end of a tag, with `sign` before it, and the whitespace that it strips. */
static void eitp__jinja_pass_end(eitp__jinja_lexer *lexer, char sign, int trims) {
    lexer->at += sign ? 3 : 2;
    if (sign == '-')
        eitp__jinja_skip_space(lexer);
    else if (!sign && trims && eitp__jinja_at(lexer, lexer->at, "\n"))
        lexer->at++;
    lexer->line_starting = lexer->text[lexer->at - 1] == '\n';
}

/* Returns the length of the data before a tag with this sign. */
static size_t eitp__jinja_strip_before(const eitp__jinja_lexer *lexer, const char *data, size_t size, char sign,
                                       int is_output) {
    size_t line = size;
    if (sign == '-')
        return eitp__jinja_without_space(data, size);
    if (sign == '+' || is_output)
        return size;
    while (line && data[line - 1] != '\n')
        line--;
    if (line == 0 && !lexer->line_starting)
        return size;
    return eitp__jinja_without_space(data + line, size - line) ? size : line;
}

static char eitp__jinja_sign(const eitp__jinja_lexer *lexer, size_t at) {
    return at < lexer->size && (lexer->text[at] == '-' || lexer->text[at] == '+') ? lexer->text[at] : 0;
}

/* If a block with only this word starts at `at`, returns the offset of its "%}" or "-%}", otherwise 0. */
static size_t eitp__jinja_word_block(const eitp__jinja_lexer *lexer, size_t at, const char *word) {
    eitp__jinja_lexer probe = *lexer;
    probe.at = at + 2 + (eitp__jinja_sign(lexer, at + 2) ? 1 : 0);
    eitp__jinja_skip_space(&probe);
    if (!eitp__jinja_at(&probe, probe.at, word))
        return 0;
    probe.at += strlen(word);
    eitp__jinja_skip_space(&probe);
    return eitp__jinja_at(&probe, probe.at, "%}") || eitp__jinja_at(&probe, probe.at, "-%}") ||
                   (word[0] == 'e' && eitp__jinja_at(&probe, probe.at, "+%}"))
               ? probe.at
               : 0;
}

/* Skips a comment, from its start. */
static eitp_status eitp__jinja_pass_comment(eitp__jinja_lexer *lexer, eitp_error *error) {
    const size_t start = lexer->at + 2 + (eitp__jinja_sign(lexer, lexer->at + 2) ? 1 : 0);
    for (size_t at = start; at < lexer->size; at++) {
        if (!eitp__jinja_at(lexer, at, "#}"))
            continue;
        char sign = at > start ? eitp__jinja_sign(lexer, at - 1) : 0;
        lexer->at = sign ? at - 1 : at;
        eitp__jinja_pass_end(lexer, sign, 1);
        return EITP_OK;
    }
    return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, lexer->at, "unclosed comment");
}

/* Reads the data between {% raw %} and {% endraw %}. `end` is the offset of the end of {% raw %}. */
static eitp_status eitp__jinja_read_raw(eitp__jinja_lexer *lexer, size_t end, eitp__jinja_token *token,
                                        eitp_error *error) {
    const size_t begin = lexer->at;
    lexer->at = end;
    eitp__jinja_pass_end(lexer, eitp__jinja_sign(lexer, end), 0);
    token->kind = EITP__JINJA_DATA;
    token->text = lexer->text + lexer->at;
    for (size_t at = lexer->at; at < lexer->size; at++) {
        size_t closing = eitp__jinja_at(lexer, at, "{%") ? eitp__jinja_word_block(lexer, at, "endraw") : 0;
        if (!closing)
            continue;
        token->size = eitp__jinja_strip_before(lexer, token->text, at - lexer->at, eitp__jinja_sign(lexer, at + 2), 0);
        lexer->at = closing;
        eitp__jinja_pass_end(lexer, eitp__jinja_sign(lexer, closing), 1);
        return EITP_OK;
    }
    return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, begin, "'raw' has no 'endraw'");
}

/* Returns the offset of the next "{%", "{{" or "{#", or the size. */
static size_t eitp__jinja_find_tag(const eitp__jinja_lexer *lexer) {
    for (size_t at = lexer->at; at + 1 < lexer->size; at++)
        if (lexer->text[at] == '{' && strchr("%{#", lexer->text[at + 1]) && lexer->text[at + 1])
            return at;
    return lexer->size;
}

/* Reads data, or opens a tag. */
static eitp_status eitp__jinja_read_outside(eitp__jinja_lexer *lexer, eitp__jinja_token *token, eitp_error *error) {
    while (lexer->at < lexer->size) {
        const size_t at = lexer->at_tag ? lexer->at : eitp__jinja_find_tag(lexer);
        const char kind = at < lexer->size ? lexer->text[at + 1] : 0;
        token->offset = lexer->at;
        if (!lexer->at_tag) {
            token->kind = EITP__JINJA_DATA;
            token->text = lexer->text + lexer->at;
            token->size = at - lexer->at;
            if (kind)
                token->size = eitp__jinja_strip_before(lexer, token->text, token->size, eitp__jinja_sign(lexer, at + 2),
                                                       kind == '{');
            lexer->at = at;
            lexer->at_tag = kind != 0;
            if (token->size)
                return EITP_OK;
            continue;
        }
        lexer->at_tag = 0;
        if (kind == '#') {
            eitp_status status = eitp__jinja_pass_comment(lexer, error);
            if (status != EITP_OK)
                return status;
            continue;
        }
        if (kind == '%') {
            size_t raw = eitp__jinja_word_block(lexer, at, "raw");
            if (raw)
                return eitp__jinja_read_raw(lexer, raw, token, error);
        }
        token->kind = lexer->state = kind == '{' ? EITP__JINJA_OUTPUT_BEGIN : EITP__JINJA_BLOCK_BEGIN;
        token->text = lexer->text + at;
        token->size = 2;
        lexer->at += eitp__jinja_sign(lexer, at + 2) ? 3 : 2;
        return EITP_OK;
    }
    token->kind = EITP__JINJA_END;
    token->offset = lexer->size;
    token->text = "";
    token->size = 0;
    return EITP_OK;
}

/* Closes the tag if its end is here. */
static int eitp__jinja_read_end(eitp__jinja_lexer *lexer, eitp__jinja_token *token) {
    const int is_block = lexer->state == EITP__JINJA_BLOCK_BEGIN;
    char sign = eitp__jinja_sign(lexer, lexer->at);
    if (sign == '+' && !is_block)
        sign = 0;
    if (lexer->bracket_count || !eitp__jinja_at(lexer, lexer->at + (sign ? 1 : 0), is_block ? "%}" : "}}"))
        return 0;
    token->kind = is_block ? EITP__JINJA_BLOCK_END : EITP__JINJA_OUTPUT_END;
    token->size = sign ? 3 : 2;
    eitp__jinja_pass_end(lexer, sign, is_block);
    lexer->state = EITP__JINJA_END;
    return 1;
}

static int eitp__jinja_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* True for word characters. Bytes of non-ASCII characters count as letters. */
static int eitp__jinja_is_word(char c) {
    return eitp__jinja_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* Returns the length of the digits at `at`, with single underscores between them. */
static size_t eitp__jinja_digits(const eitp__jinja_lexer *lexer, size_t at) {
    const size_t start = at;
    while (at < lexer->size &&
           (eitp__jinja_is_digit(lexer->text[at]) || (at > start && lexer->text[at] == '_' && at + 1 < lexer->size &&
                                                      eitp__jinja_is_digit(lexer->text[at + 1]))))
        at++;
    return at - start;
}

/* Returns the length of the number at `at`: an integer, or a float if it does not follow a dot. */
static size_t eitp__jinja_number_size(const eitp__jinja_lexer *lexer, size_t at) {
    size_t end = at + eitp__jinja_digits(lexer, at), fraction, exponent;
    if (lexer->text[at] == '0' && at + 1 < lexer->size && strchr("xXoObB", lexer->text[at + 1]) &&
        lexer->text[at + 1]) {
        end = at + 2;
        while (end < lexer->size && eitp__jinja_is_word(lexer->text[end]))
            end++;
        return end - at;
    }
    if (at && lexer->text[at - 1] == '.')
        return end - at;
    if (end < lexer->size && lexer->text[end] == '.' && (fraction = eitp__jinja_digits(lexer, end + 1)) != 0)
        end += 1 + fraction;
    if (end < lexer->size && (lexer->text[end] == 'e' || lexer->text[end] == 'E')) {
        exponent = end + 1 + (eitp__jinja_sign(lexer, end + 1) ? 1 : 0);
        fraction = exponent < lexer->size ? eitp__jinja_digits(lexer, exponent) : 0;
        if (fraction)
            end = exponent + fraction;
    }
    return end - at;
}

/* Reads a string literal, from its quotation mark. */
static eitp_status eitp__jinja_read_text(eitp__jinja_lexer *lexer, eitp__jinja_token *token, eitp_error *error) {
    const char quote = lexer->text[lexer->at];
    size_t at = lexer->at + 1;
    while (at < lexer->size && lexer->text[at] != quote)
        at += lexer->text[at] == '\\' ? 2 : 1;
    if (at >= lexer->size)
        return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, lexer->at, "unclosed string");
    token->kind = EITP__JINJA_TEXT;
    token->text = lexer->text + lexer->at + 1;
    token->size = at - lexer->at - 1;
    lexer->at = at + 1;
    return EITP_OK;
}

static eitp_status eitp__jinja_balance(eitp__jinja_lexer *lexer, char c, size_t offset, eitp_error *error) {
    static const char openings[] = "([{", closings[] = ")]}";
    const char *opening = strchr(openings, c);
    if (opening) {
        if (lexer->bracket_count == EITP__JINJA_BRACKETS)
            return eitp__jinja_fail_at(error, EITP_ERROR_UNSUPPORTED, lexer->text, offset, "more than %d open brackets",
                                       EITP__JINJA_BRACKETS);
        lexer->brackets[lexer->bracket_count++] = closings[opening - openings];
    } else if (strchr(closings, c)) {
        if (!lexer->bracket_count || lexer->brackets[lexer->bracket_count - 1] != c)
            return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, offset, "unexpected '%c'", c);
        lexer->bracket_count--;
    }
    return EITP_OK;
}

static eitp_status eitp__jinja_read_operator(eitp__jinja_lexer *lexer, eitp__jinja_token *token, eitp_error *error) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < EITP__COUNT(operators); i++) {
        if (!eitp__jinja_at(lexer, lexer->at, operators[i]))
            continue;
        token->kind = EITP__JINJA_OPERATOR;
        token->size = strlen(operators[i]);
        lexer->at += token->size;
        return eitp__jinja_balance(lexer, operators[i][0], token->offset, error);
    }
    return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, lexer->at, "unexpected character '%c'",
                               lexer->text[lexer->at]);
}

EITP__PRIVATE eitp_status eitp__jinja_lexer_next(eitp__jinja_lexer *lexer, eitp__jinja_token *token,
                                                 eitp_error *error) {
    char c;
    if (lexer->state == EITP__JINJA_END)
        return eitp__jinja_read_outside(lexer, token, error);
    /* The tag may end with whitespace that it strips, so check for its end first. */
    eitp__jinja_skip_space(lexer);
    if (lexer->at >= lexer->size)
        return eitp__jinja_fail_at(error, EITP_ERROR_FORMAT, lexer->text, lexer->size, "unclosed tag");
    token->offset = lexer->at;
    token->text = lexer->text + lexer->at;
    if (eitp__jinja_read_end(lexer, token))
        return EITP_OK;
    c = lexer->text[lexer->at];
    if (c == '"' || c == '\'')
        return eitp__jinja_read_text(lexer, token, error);
    if (!eitp__jinja_is_word(c))
        return eitp__jinja_read_operator(lexer, token, error);
    token->kind = eitp__jinja_is_digit(c) ? EITP__JINJA_NUMBER : EITP__JINJA_NAME;
    token->size = token->kind == EITP__JINJA_NUMBER ? eitp__jinja_number_size(lexer, lexer->at) : 0;
    if (token->kind == EITP__JINJA_NAME)
        while (lexer->at + token->size < lexer->size && eitp__jinja_is_word(lexer->text[lexer->at + token->size]))
            token->size++;
    lexer->at += token->size;
    return EITP_OK;
}
