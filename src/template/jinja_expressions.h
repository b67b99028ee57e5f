/* The parser's state, and expressions: the content of {{ }} and operands of statements. */
#ifndef EITP_JINJA_EXPRESSIONS_H
#define EITP_JINJA_EXPRESSIONS_H

#include "template/jinja_lexer.h"
#include "template/jinja_parser.h"

/* Levels of operators, from the weakest binding. */
enum {
    EITP__JINJA_LEVEL_OR = 1,
    EITP__JINJA_LEVEL_AND,
    EITP__JINJA_LEVEL_NOT,
    EITP__JINJA_LEVEL_COMPARE,
    EITP__JINJA_LEVEL_ADD,
    EITP__JINJA_LEVEL_CONCAT,
    EITP__JINJA_LEVEL_MULTIPLY,
    EITP__JINJA_LEVEL_POWER,
    EITP__JINJA_LEVEL_UNARY
};

typedef struct eitp__jinja_parser {
    eitp__jinja_lexer lexer;
    eitp__jinja_token token; /* next token */
    eitp__jinja_memory *memory;
    eitp_error *error;
    eitp_status status; /* status of the first failure */
    int depth;
    int loops; /* enclosing loops of this statement, within its macro */
    int uses_caller;
} eitp__jinja_parser;

/* A list of nodes. */
typedef struct eitp__jinja_nodes {
    eitp__jinja_node *first, *last;
} eitp__jinja_nodes;

/* Records a failure at the next token, unless one was recorded before. The message quotes a part of the template. */
EITP__PRIVATE void eitp__jinja_parse_fail(eitp__jinja_parser *parser, eitp_status status, const char *before,
                                          const char *text, size_t size, const char *after);

/* Records that the next token is not the expected one. */
EITP__PRIVATE void eitp__jinja_unexpected(eitp__jinja_parser *parser, const char *expected);

/* Reads the next token. */
EITP__PRIVATE void eitp__jinja_advance(eitp__jinja_parser *parser);

/* True if the next token is this operator, or this word. */
EITP__PRIVATE int eitp__jinja_at_operator(const eitp__jinja_parser *parser, const char *text);

EITP__PRIVATE int eitp__jinja_at_word(const eitp__jinja_parser *parser, const char *text);

/* Skips an operator or a word if it is next. */
EITP__PRIVATE int eitp__jinja_accept(eitp__jinja_parser *parser, const char *text);

/* Skips an operator or a word, which must be next. */
EITP__PRIVATE void eitp__jinja_expect(eitp__jinja_parser *parser, const char *text);

/* Returns the token after the next one. */
EITP__PRIVATE eitp__jinja_token eitp__jinja_peek(const eitp__jinja_parser *parser);

/* Creates a node at the next token. Returns NULL after a failure. */
EITP__PRIVATE eitp__jinja_node *eitp__jinja_new_node(eitp__jinja_parser *parser, int kind);

/* Creates a node with a first part. Returns NULL if that is NULL. */
EITP__PRIVATE eitp__jinja_node *eitp__jinja_wrap(eitp__jinja_parser *parser, int kind, eitp__jinja_node *first);

/* Adds a node to a list. */
EITP__PRIVATE void eitp__jinja_append(eitp__jinja_nodes *nodes, eitp__jinja_node *node);

/* Enters a level of nesting. Returns 0 if there are too many. */
EITP__PRIVATE int eitp__jinja_enter(eitp__jinja_parser *parser);

/* Stores the next token, a name, as the node's text. */
EITP__PRIVATE void eitp__jinja_read_name(eitp__jinja_parser *parser, eitp__jinja_node *node);

/* True if nothing follows a comma in a tuple. */
EITP__PRIVATE int eitp__jinja_tuple_ends(const eitp__jinja_parser *parser);

/* Parses an expression, or a tuple if a comma follows. Conditions are allowed only if `level` is 0. */
EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_tuple(eitp__jinja_parser *parser, int level);

/* Parses a filter of a value, after its bar. */
EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_filter(eitp__jinja_parser *parser, eitp__jinja_node *value);

/* Parses an expression, including conditions. */
EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_expression(eitp__jinja_parser *parser);

#endif
