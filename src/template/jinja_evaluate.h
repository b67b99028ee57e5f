/* Executes the tree of a chat template. */
#ifndef EITP_JINJA_EVALUATE_H
#define EITP_JINJA_EVALUATE_H

#include "template/chat_template.h"
#include "template/jinja_parser.h"

/* Levels of expressions, statements and macros being evaluated in each other: with the deepest values they need some
   45 KiB of stack. */
enum { EITP__JINJA_EVALUATE_DEPTH = 100 };

typedef struct eitp__jinja_scope {
    struct eitp__jinja_scope *parent;
    eitp__jinja_named *variables;
    size_t count;
    size_t capacity;
} eitp__jinja_scope;

typedef struct eitp__jinja_evaluator {
    eitp__jinja *jinja;
    eitp__jinja_scope *scope;
    int depth;
    int captures; /* blocks and macros around it whose output becomes a value */
    eitp__jinja_value captured;
    eitp__buffer *output;
    size_t output_begin; /* its size before the rendering */
    size_t output_limit;
    size_t message;       /* whose output this is; SIZE_MAX: none */
    size_t message_begin; /* in the output */
    eitp__chat_spans *spans;
} eitp__jinja_evaluator;

/* Sets a variable of the innermost scope. */
EITP__PRIVATE void eitp__jinja_assign(eitp__jinja_evaluator *evaluator, const char *name, size_t size,
                                      const eitp__jinja_value *value);

/* Executes statements. */
EITP__PRIVATE void eitp__jinja_run(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *statements);

#endif
