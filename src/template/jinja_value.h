/*
 * Values of expressions in chat templates, like Python's, and the state of a rendering.
 *
 * The state keeps only the first failure. Functions always return a usable value, even after a failure. Loops check
 * `status`.
 */
#ifndef EITP_JINJA_VALUE_H
#define EITP_JINJA_VALUE_H

#include "base/json.h"
#include "template/jinja_memory.h"

/* Limits of a rendering. */
enum {
    EITP__JINJA_STEPS = 10000000, /* one step for each node evaluated, element visited, and 64 bytes of text */
    EITP__JINJA_VALUE_DEPTH = 72, /* nesting of lists and dicts; JSON has 64 */
    EITP__JINJA_RANGE = 100000,   /* jinja2's MAX_RANGE */
    EITP__JINJA_PARAMETERS = 6    /* parameters of a filter, test, method or function */
};

enum {
    EITP__JINJA_MISSING = 0, /* an argument that was not passed */
    EITP__JINJA_UNDEFINED,
    EITP__JINJA_NONE,
    EITP__JINJA_BOOLEAN,
    EITP__JINJA_INTEGER,
    EITP__JINJA_BIG, /* an integer beyond 64 bits, as text: only printing is supported */
    EITP__JINJA_FLOAT,
    EITP__JINJA_STRING,
    EITP__JINJA_LIST,
    EITP__JINJA_TUPLE,
    EITP__JINJA_RANGE_VALUE,
    EITP__JINJA_VIEW,      /* keys, values or items of a dict */
    EITP__JINJA_GENERATOR, /* result of select, map and others: true, without a length, can be read once */
    EITP__JINJA_DICT,
    EITP__JINJA_NAMESPACE,
    EITP__JINJA_MACRO,
    EITP__JINJA_FUNCTION,
    EITP__JINJA_METHOD,
    EITP__JINJA_LOOP,
    EITP__JINJA_KINDS
};

struct eitp__jinja_list;
struct eitp__jinja_dict;
struct eitp__jinja_loop;
struct eitp__jinja_method;
struct eitp__jinja_function;

typedef struct eitp__jinja_value {
    int kind;
    int detail; /* for UNDEFINED: see eitp__jinja_undefined */
    union {
        int64_t integer; /* also for BOOLEAN */
        double number;
        const char *text; /* for STRING and BIG; for UNDEFINED: the undefined name */
        struct eitp__jinja_list *list;
        struct eitp__jinja_dict *dict;
        struct eitp__jinja_loop *loop;
        const struct eitp__jinja_method *method;
        const struct eitp__jinja_function *function;
        const void *macro;
    } as;
    size_t size; /* size of `text` */
} eitp__jinja_value;

/* Content of LIST, TUPLE, RANGE_VALUE, VIEW and GENERATOR. */
typedef struct eitp__jinja_list {
    eitp__jinja_value *items;
    size_t count;
    size_t capacity;
    int depth;
    int is_read; /* for a generator: it has been read */
} eitp__jinja_list;

typedef struct eitp__jinja_entry {
    eitp__jinja_value key;
    eitp__jinja_value value;
} eitp__jinja_entry;

/* Content of DICT and NAMESPACE. */
typedef struct eitp__jinja_dict {
    eitp__jinja_entry *entries; /* in insertion order */
    size_t count;
    size_t capacity;
    int depth;
    size_t message; /* 1 + index in the conversation; 0: not a message */
} eitp__jinja_dict;

typedef struct eitp__jinja_loop {
    const eitp__jinja_list *list;
    size_t index;
    int depth;
} eitp__jinja_loop;

typedef struct eitp__jinja_method {
    eitp__jinja_value self;
    const struct eitp__jinja_function *function;
} eitp__jinja_method;

typedef struct eitp__jinja_named {
    const char *name;
    size_t size;
    eitp__jinja_value value;
} eitp__jinja_named;

typedef struct eitp__jinja_arguments {
    eitp__jinja_value *values;
    size_t count;
    eitp__jinja_named *named;
    size_t named_count;
} eitp__jinja_arguments;

typedef struct eitp__jinja {
    eitp_status status;
    eitp_error *error;
    const char *source; /* the template, for the positions of errors */
    size_t offset;      /* offset of the node being evaluated */
    eitp__jinja_memory memory;
    eitp__buffer text; /* text buffer: captured output, with strings under construction above it */
    size_t text_limit;
    int64_t steps;
    int64_t now; /* seconds since 1970 */
} eitp__jinja;

typedef struct eitp__jinja_call {
    eitp__jinja_value self;
    eitp__jinja_value slots[EITP__JINJA_PARAMETERS];
    const eitp__jinja_arguments *arguments;
} eitp__jinja_call;

/* A filter, test, method or global function. */
typedef struct eitp__jinja_function {
    const char *name;
    const char *parameters; /* names separated by spaces; NULL: it reads the arguments itself */
    int required;           /* number of parameters without a default */
    eitp__jinja_value (*call)(eitp__jinja *jinja, const eitp__jinja_call *call); /* NULL: unsupported */
} eitp__jinja_function;

/* Records a failure, with the position of the node being evaluated. Returns an undefined value. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_fail(eitp__jinja *jinja, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);

/* Counts steps. Returns 0 if the limit is exceeded. */
EITP__PRIVATE int eitp__jinja_count_steps(eitp__jinja *jinja, size_t steps);

/* Allocates zeroed memory of the rendering. Returns NULL, with a failure, beyond its limit. */
EITP__PRIVATE void *eitp__jinja_allocate(eitp__jinja *jinja, size_t size);

/* Adds to the text buffer. */
EITP__PRIVATE void eitp__jinja_add(eitp__jinja *jinja, const char *text, size_t size);
EITP__PRIVATE void eitp__jinja_add_text(eitp__jinja *jinja, const char *text);
/* Removes the text buffer's content from `mark` on, and returns it as a string. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_finish_text(eitp__jinja *jinja, size_t mark);

/* ---- making values ---- */

EITP__PRIVATE eitp__jinja_value eitp__jinja_none(void);
EITP__PRIVATE eitp__jinja_value eitp__jinja_boolean(int value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_integer(int64_t value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_float(double value);
/* Returns a string, without copying its bytes. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_string(const char *text, size_t size);
EITP__PRIVATE eitp__jinja_value eitp__jinja_list_value(int kind, eitp__jinja_list *list);

/* Meaning of an undefined value: a variable called `text`, a whole message, an attribute that the sandbox forbids, or,
   above these, the attribute `text` of a value of kind `detail - EITP__JINJA_OF`. */
enum { EITP__JINJA_VARIABLE = 0, EITP__JINJA_MESSAGE = 1, EITP__JINJA_UNSAFE = 2, EITP__JINJA_OF = 3 };
EITP__PRIVATE eitp__jinja_value eitp__jinja_undefined(int detail, const char *text, size_t size);
/* Fails with a message that names the undefined value. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_fail_undefined(eitp__jinja *jinja, const eitp__jinja_value *value);

/* Creates a list. Returns NULL after a failure. */
EITP__PRIVATE eitp__jinja_list *eitp__jinja_new_list(eitp__jinja *jinja, size_t capacity);
EITP__PRIVATE eitp__jinja_dict *eitp__jinja_new_dict(eitp__jinja *jinja, size_t capacity);
EITP__PRIVATE void eitp__jinja_push(eitp__jinja *jinja, eitp__jinja_list *list, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_put(eitp__jinja *jinja, eitp__jinja_dict *dict, const eitp__jinja_value *key,
                                   const eitp__jinja_value *value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_from_json(eitp__jinja *jinja, const eitp_json *json);

/* ---- reading values ---- */

/* Returns Python's name of the type, such as "dict". */
EITP__PRIVATE const char *eitp__jinja_type_name(const eitp__jinja_value *value);
EITP__PRIVATE int eitp__jinja_is_sequence(int kind); /* true for kinds with a list */
EITP__PRIVATE int eitp__jinja_is_true(const eitp__jinja_value *value);
EITP__PRIVATE int eitp__jinja_equal(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b);
/* Returns a negative number, 0 or a positive number. Fails if the values have no order. */
EITP__PRIVATE int eitp__jinja_order(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b);
/* Returns the value of a key, or NULL if it is missing. */
EITP__PRIVATE const eitp__jinja_value *eitp__jinja_find(eitp__jinja *jinja, const eitp__jinja_dict *dict,
                                                        const eitp__jinja_value *key);
/* Converts integers and booleans. Returns 0 for other kinds. */
EITP__PRIVATE int eitp__jinja_to_integer(const eitp__jinja_value *value, int64_t *integer);
/* Converts integers, booleans and floats. Returns 0 for other kinds. */
EITP__PRIVATE int eitp__jinja_to_number(const eitp__jinja_value *value, double *number);
/* Returns the elements that a loop iterates over. NULL, with a failure, if the value is not iterable. */
EITP__PRIVATE const eitp__jinja_list *eitp__jinja_iterate(eitp__jinja *jinja, const eitp__jinja_value *value);
/* True if `value in container`. */
EITP__PRIVATE int eitp__jinja_contains(eitp__jinja *jinja, const eitp__jinja_value *container,
                                       const eitp__jinja_value *value);

/* ---- functions ---- */

EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_function(const eitp__jinja_function *functions, size_t count,
                                                                    const char *name, size_t size);
/* Assigns arguments to parameters, and calls the function. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_invoke(eitp__jinja *jinja, const eitp__jinja_function *function,
                                                   const eitp__jinja_value *self,
                                                   const eitp__jinja_arguments *arguments);
/* Returns the argument, or the default if it was not passed. */
EITP__PRIVATE int64_t eitp__jinja_integer_argument(eitp__jinja *jinja, const eitp__jinja_value *slot, int64_t missing);
EITP__PRIVATE int eitp__jinja_true_argument(const eitp__jinja_value *slot, int missing);

#endif
