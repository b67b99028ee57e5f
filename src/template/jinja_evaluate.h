/* Execution of a chat template's tree. */
#ifndef EITP_JINJA_EVALUATE_H
#define EITP_JINJA_EVALUATE_H

#include "template/chat_template.h"
#include "template/jinja_parser.h"

/* Maximum nesting of expressions, statements and macros during evaluation. With the deepest values they need about 45
   KiB of stack. */
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
    int captures; /* enclosing blocks and macros whose output becomes a value */
    eitp__jinja_value captured;
    eitp__buffer *output;
    size_t output_begin; /* size of the output before the rendering */
    size_t output_limit;
    size_t message;       /* message that the current output belongs to; SIZE_MAX: none */
    size_t message_begin; /* offset of its span in the output */
    eitp__chat_spans *spans;
} eitp__jinja_evaluator;

/* Sets a variable of the innermost scope. */
EITP__PRIVATE void eitp__jinja_assign(eitp__jinja_evaluator *evaluator, const char *name, size_t size,
                                      const eitp__jinja_value *value);

/* Executes statements. */
EITP__PRIVATE void eitp__jinja_run(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *statements);

#endif
