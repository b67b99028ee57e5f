/*
 * Tokens of a chat template: Jinja as read by jinja2 with trim_blocks and lstrip_blocks, as configured by transformers.
 * A newline after a block or comment is dropped, and so are spaces before a block or comment at the start of a line.
 * `-` at either end of a tag strips all whitespace there; `+` keeps it.
 */
#ifndef EITP_JINJA_LEXER_H
#define EITP_JINJA_LEXER_H

#include "template/jinja_memory.h"

enum {
    EITP__JINJA_END = 0, /* end of the template */
    EITP__JINJA_DATA = 1,
    EITP__JINJA_OUTPUT_BEGIN = 2,
    EITP__JINJA_OUTPUT_END = 3,
    EITP__JINJA_BLOCK_BEGIN = 4,
    EITP__JINJA_BLOCK_END = 5,
    EITP__JINJA_NAME = 6,
    EITP__JINJA_TEXT = 7, /* a string literal: its content, with escapes as written */
    EITP__JINJA_NUMBER = 8,
    EITP__JINJA_OPERATOR = 9
};

typedef struct eitp__jinja_token {
    int kind;
    size_t offset; /* offset in the template */
    const char *text;
    size_t size;
} eitp__jinja_token;

/* Maximum number of open brackets in a tag. */
enum { EITP__JINJA_BRACKETS = 64 };

typedef struct eitp__jinja_lexer {
    const char *text;
    size_t size;
    size_t at;
    int state;         /* the token that opened the tag, or END outside tags */
    int at_tag;        /* outside tags: the data before the tag at `at` has been returned */
    int line_starting; /* the last match ended with a newline */
    int bracket_count;
    char brackets[EITP__JINJA_BRACKETS]; /* closing brackets of those that are open */
} eitp__jinja_lexer;

/* Finds line and column of an offset, counted from 1, columns in characters. */
EITP__PRIVATE void eitp__jinja_position(const char *text, size_t offset, size_t *line, size_t *column);

/* Prefixes the formatted message with a position such as "chat template, line 2, column 5: ". Returns `status`. */
EITP__PRIVATE eitp_status eitp__jinja_fail_at(eitp_error *error, eitp_status status, const char *text, size_t offset,
                                              const char *format, ...) EITP__PRINTF(5, 6);

/* Starts reading `text`, whose newlines are "\n". The text must not move. */
EITP__PRIVATE void eitp__jinja_lexer_init(eitp__jinja_lexer *lexer, const char *text, size_t size);

/* Reads the next token. */
EITP__PRIVATE eitp_status eitp__jinja_lexer_next(eitp__jinja_lexer *lexer, eitp__jinja_token *token, eitp_error *error);

EITP__PRIVATE int eitp__jinja_is(const eitp__jinja_token *token, int kind, const char *text);

/* Returns the length of the whitespace character (Python's str.isspace) at the start of the text, or 0 if it is another
   character. */
EITP__PRIVATE size_t eitp__jinja_space(const char *text, size_t size);
/* Returns the length of the text without trailing whitespace. */
EITP__PRIVATE size_t eitp__jinja_without_space(const char *text, size_t size);

#endif
