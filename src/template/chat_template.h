/*
 * Chat templates: the Jinja with which models on the Hugging Face Hub turn a conversation into text.
 *
 * Text and errors follow jinja2 3.1 as transformers 5.23 sets it up: an immutable sandbox with trim_blocks,
 * lstrip_blocks, loop controls, its own `tojson`, raise_exception, strftime_now, and {% generation %}. The subset: if,
 * for, set, filter, with, macro, call, generation, break, continue, raw and comments; all operators; methods of
 * strings, dicts and lists; the filters and tests of the tables in jinja_filters.c and jinja_tests.c. Left out:
 * include, import, extends, block, recursive loops, integers beyond 64 bits, and the case of letters beyond ASCII where
 * it changes more than one letter.
 *
 * Templates come with models, so they are not trusted: steps, memory, output and nesting are bounded, and a template
 * sees nothing but its context.
 */
#ifndef EITP_CHAT_TEMPLATE_H
#define EITP_CHAT_TEMPLATE_H

#include "base/json.h"
#include "base/memory.h"

/* Longest template, in bytes. */
#define EITP__CHAT_TEMPLATE_LIMIT ((size_t)1 << 20)
/* Longest output, in bytes, unless the context says otherwise. Values may take 8 times as much memory. */
#define EITP__CHAT_OUTPUT_LIMIT ((size_t)16 << 20)

typedef struct eitp__chat_template eitp__chat_template;

/* The part of the output that came from a message, or from a {% generation %} block. */
enum { EITP__CHAT_SPAN_MESSAGE = 0, EITP__CHAT_SPAN_GENERATION = 1 };

typedef struct eitp__chat_span {
    int kind;
    size_t message; /* index in `messages`; of a generation: of the message around it, or SIZE_MAX */
    size_t begin;   /* bytes [begin, end) of what this rendering appended; begin < end for messages */
    size_t end;
} eitp__chat_span;

/*
 * Spans in the order in which they end. Those of messages do not overlap: output belongs to the innermost `for` loop
 * whose variable, or one of them, is an element of `messages`, however the loop's list was made from it. A message that
 * is printed in pieces has several.
 */
typedef struct eitp__chat_spans {
    eitp__chat_span *spans;
    size_t count;
    size_t capacity;
    size_t hidden; /* generation blocks and loops over messages that printed into a variable or an expression, so that
                      their place in the output is unknown */
} eitp__chat_spans;

enum {
    EITP__CHAT_NONE = 0,
    EITP__CHAT_BOOLEAN = 1,
    EITP__CHAT_TEXT = 2,
    EITP__CHAT_JSON = 3 /* not NULL */
};

/* A variable. */
typedef struct eitp__chat_variable {
    const char *name;
    int kind;
    int boolean;
    const char *text; /* UTF-8, zero-terminated */
    const eitp_json *json;
} eitp__chat_variable;

typedef struct eitp__chat_context {
    const eitp_json *object; /* its members are variables, such as messages, tools, documents; NULL: none */
    const eitp__chat_variable *variables; /* more variables, which replace members of the same name */
    size_t variable_count;
    int64_t now;         /* for strftime_now: seconds since 1970, in the zone in which the date is to be written */
    size_t output_limit; /* in bytes; 0: EITP__CHAT_OUTPUT_LIMIT */
} eitp__chat_context;

/*
 * Parses a template, which is copied. EITP_ERROR_FORMAT for a syntax error, EITP_ERROR_UNSUPPORTED for Jinja beyond the
 * subset, each with line, column and word.
 */
EITP__PRIVATE eitp_status eitp__chat_template_parse(const eitp_host *host, const char *text, size_t size,
                                                    eitp__chat_template **chat_template, eitp_error *error);

/* NULL is harmless. */
EITP__PRIVATE void eitp__chat_template_release(eitp__chat_template *chat_template);

/*
 * Appends the rendered text to `buffer`, and spans to `spans`, which may be NULL. EITP_ERROR_ARGUMENT, with the
 * position in the template, if the template raises an exception, uses a value that it cannot, or exceeds a limit;
 * EITP_ERROR_UNSUPPORTED if it does what is beyond the subset. After a failure buffer and spans are as before.
 */
EITP__PRIVATE eitp_status eitp__chat_template_render(const eitp__chat_template *chat_template,
                                                     const eitp__chat_context *context, eitp__buffer *buffer,
                                                     eitp__chat_spans *spans, eitp_error *error);

/* Start with an all-zero struct. */
EITP__PRIVATE void eitp__chat_spans_release(const eitp_host *host, eitp__chat_spans *spans);

#endif
