/* The tree of a chat template. */
#ifndef EITP_JINJA_PARSER_H
#define EITP_JINJA_PARSER_H

#include "template/jinja_value.h"

/* Maximum nesting of statements, operands and brackets. */
enum { EITP__JINJA_PARSE_DEPTH = 96 };

/* Expressions, then statements. */
enum {
    EITP__JINJA_NODE_CONSTANT,  /* value */
    EITP__JINJA_NODE_NAME,      /* text */
    EITP__JINJA_NODE_CAPTURED,  /* output of a block, for its filters */
    EITP__JINJA_NODE_LIST,      /* first: elements */
    EITP__JINJA_NODE_TUPLE,     /* first: elements */
    EITP__JINJA_NODE_DICT,      /* first: alternating keys and values */
    EITP__JINJA_NODE_CHAIN,     /* first, then second: LINKs, each an operation with its right operand */
    EITP__JINJA_NODE_CONCAT,    /* first: parts */
    EITP__JINJA_NODE_COMPARE,   /* like CHAIN */
    EITP__JINJA_NODE_AND,       /* first: operands */
    EITP__JINJA_NODE_OR,        /* first: operands */
    EITP__JINJA_NODE_NOT,       /* first */
    EITP__JINJA_NODE_NEGATE,    /* first */
    EITP__JINJA_NODE_PLUS,      /* first */
    EITP__JINJA_NODE_CONDITION, /* first if second, else third */
    EITP__JINJA_NODE_ATTRIBUTE, /* first.text */
    EITP__JINJA_NODE_ELEMENT,   /* first[second] */
    EITP__JINJA_NODE_SLICE,     /* first[bounds], second: three bounds, ABSENT or not */
    EITP__JINJA_NODE_CALL,      /* first(second), arguments: KEYWORDs last */
    EITP__JINJA_NODE_FILTER,    /* first | function(second) */
    EITP__JINJA_NODE_TEST,      /* first is function(second) */
    EITP__JINJA_EXPRESSIONS,
    EITP__JINJA_NODE_LINK,      /* operation, first */
    EITP__JINJA_NODE_KEYWORD,   /* text = first */
    EITP__JINJA_NODE_SPREAD,    /* *first, or **first if operation is 1 */
    EITP__JINJA_NODE_ABSENT,    /* an omitted bound */
    EITP__JINJA_NODE_MEMBER,    /* text.second.text in an assignment to a namespace: text and member */
    EITP__JINJA_NODE_DATA,      /* text */
    EITP__JINJA_NODE_OUTPUT,    /* first */
    EITP__JINJA_NODE_IF,        /* first: condition, or NULL for else; second: body; third: the next IF */
    EITP__JINJA_NODE_FOR,       /* first: target, second: iterable, third: condition, body; other: of else */
    EITP__JINJA_NODE_SET,       /* first: target, second: value */
    EITP__JINJA_NODE_SET_BLOCK, /* first: target, second: filters of CAPTURED; body */
    EITP__JINJA_NODE_FILTERED,  /* second: filters of CAPTURED; body */
    EITP__JINJA_NODE_WITH,      /* first: SETs; body */
    EITP__JINJA_NODE_MACRO, /* text, first: parameters, NAMEs with a default in first; body; operation: uses caller */
    EITP__JINJA_NODE_CALL_BLOCK, /* second: call of a macro; first, body: the macro `caller` passed to it */
    EITP__JINJA_NODE_GENERATION, /* body */
    EITP__JINJA_NODE_BREAK,
    EITP__JINJA_NODE_CONTINUE
};

enum {
    EITP__JINJA_IN = 16,
    EITP__JINJA_NOT_IN,
    EITP__JINJA_EQ,
    EITP__JINJA_NE,
    EITP__JINJA_LT,
    EITP__JINJA_LE,
    EITP__JINJA_GT,
    EITP__JINJA_GE
};

typedef struct eitp__jinja_node {
    int kind;
    int operation;
    size_t offset;
    const char *text;
    size_t size;
    eitp__jinja_value value;
    const eitp__jinja_function *function;
    struct eitp__jinja_node *first, *second, *third, *body, *other;
    struct eitp__jinja_node *next; /* in a list */
} eitp__jinja_node;

/* Parses a template, whose newlines are "\n" and which must not move. Stores the first statement. */
EITP__PRIVATE eitp_status eitp__jinja_parse(eitp__jinja_memory *memory, const char *text, size_t size,
                                            eitp__jinja_node **statements, eitp_error *error);

#endif
