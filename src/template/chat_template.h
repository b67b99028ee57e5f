/*
 * Chat templates: the subset of Jinja that models on the Hugging Face Hub use to turn a conversation into text.
 *
 * Text and errors follow jinja2 3.1 as configured by transformers 5.23: an immutable sandbox with trim_blocks,
 * lstrip_blocks, loop controls, its own `tojson`, raise_exception, strftime_now, and {% generation %}.
 *
 * Supported statements: if, for, set, filter, with, macro, call, generation, break, continue, raw and comments.
 * Supported in expressions: all operators, methods of strings, dicts and lists, and the filters and tests in the tables
 * of jinja_filters.c and jinja_tests.c. Unsupported: include, import, extends, block, recursive loops, integers beyond
 * 64 bits, and case conversion beyond ASCII that changes more than one letter.
 *
 * Templates come with models and are not trusted. Steps, memory, output and nesting are bounded, and a template can
 * access only its context.
 */
#ifndef EITP_CHAT_TEMPLATE_H
#define EITP_CHAT_TEMPLATE_H

#include "base/json.h"
#include "base/memory.h"

/* Maximum size of a template in bytes. */
#define EITP__CHAT_TEMPLATE_LIMIT ((size_t)1 << 20)
/* Maximum size of the output in bytes, unless the context sets another. Values may use 8 times as much memory. */
#define EITP__CHAT_OUTPUT_LIMIT ((size_t)16 << 20)

typedef struct eitp__chat_template eitp__chat_template;

/* Source of a part of the output: a message, or a {% generation %} block. */
enum { EITP__CHAT_SPAN_MESSAGE = 0, EITP__CHAT_SPAN_GENERATION = 1 };

typedef struct eitp__chat_span {
    int kind;
    size_t message; /* index in `messages`; for a generation: of the enclosing message, or SIZE_MAX */
    size_t begin;   /* bytes [begin, end) of this rendering's output; begin < end for messages */
    size_t end;
} eitp__chat_span;

/*
 * Spans in the order of their ends. Spans of messages do not overlap: output belongs to the innermost `for` loop in
 * which a loop variable is an element of `messages`, regardless of how the loop's list was made. A message printed in
 * several pieces has several spans.
 */
typedef struct eitp__chat_spans {
    eitp__chat_span *spans;
    size_t count;
    size_t capacity;
    size_t hidden; /* generation blocks and loops over messages whose output went to a variable or an expression, so
                      that its position in the output is unknown */
} eitp__chat_spans;

enum {
    EITP__CHAT_NONE = 0,
    EITP__CHAT_BOOLEAN = 1,
    EITP__CHAT_TEXT = 2,
    EITP__CHAT_JSON = 3 /* not NULL */
};

/* A variable of the context. */
typedef struct eitp__chat_variable {
    const char *name;
    int kind;
    int boolean;
    const char *text; /* UTF-8, zero-terminated */
    const eitp_json *json;
} eitp__chat_variable;

typedef struct eitp__chat_context {
    const eitp_json *object; /* its members are variables, such as messages, tools, documents; NULL: none */
    const eitp__chat_variable *variables; /* additional variables; they replace members of the same name */
    size_t variable_count;
    int64_t now;         /* for strftime_now: seconds since 1970, in the time zone of the date to write */
    size_t output_limit; /* in bytes; 0: EITP__CHAT_OUTPUT_LIMIT */
} eitp__chat_context;

/* Parses a template, which is copied. EITP_ERROR_FORMAT for a syntax error, EITP_ERROR_UNSUPPORTED for Jinja beyond the
   subset. Messages contain line, column and word. */
EITP__PRIVATE eitp_status eitp__chat_template_parse(const eitp_host *host, const char *text, size_t size,
                                                    eitp__chat_template **chat_template, eitp_error *error);

/* NULL is harmless. */
EITP__PRIVATE void eitp__chat_template_release(eitp__chat_template *chat_template);

/*
 * Appends the rendered text to `buffer`, and spans to `spans`, which may be NULL. EITP_ERROR_ARGUMENT, with the
 * position in the template, if the template raises an exception, uses an invalid value, or exceeds a limit.
 * EITP_ERROR_UNSUPPORTED if it uses features beyond the subset. After a failure buffer and spans are unchanged.
 */
EITP__PRIVATE eitp_status eitp__chat_template_render(const eitp__chat_template *chat_template,
                                                     const eitp__chat_context *context, eitp__buffer *buffer,
                                                     eitp__chat_spans *spans, eitp_error *error);

/* Start from an all-zero struct. */
EITP__PRIVATE void eitp__chat_spans_release(const eitp_host *host, eitp__chat_spans *spans);

#endif
