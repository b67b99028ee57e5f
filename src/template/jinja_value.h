/*
 * Values of expressions in chat templates, as Python has them, and the state of a rendering.
 *
 * The first failure is kept in the state: what fails afterwards adds nothing, and every function returns a value that
 * can be used. Loops check `status`.
 */
#ifndef EITP_JINJA_VALUE_H
#define EITP_JINJA_VALUE_H

#include "base/json.h"
#include "template/jinja_memory.h"

/* Bounds of a rendering. */
enum {
    EITP__JINJA_STEPS = 10000000, /* nodes evaluated, elements visited, and 64 bytes of text count as steps */
    EITP__JINJA_VALUE_DEPTH = 72, /* of lists and dicts in each other; JSON has 64 */
    EITP__JINJA_RANGE = 100000,   /* jinja2's MAX_RANGE */
    EITP__JINJA_PARAMETERS = 6    /* of a filter, test, method or function */
};

enum {
    EITP__JINJA_MISSING = 0, /* an argument that was not passed */
    EITP__JINJA_UNDEFINED,
    EITP__JINJA_NONE,
    EITP__JINJA_BOOLEAN,
    EITP__JINJA_INTEGER,
    EITP__JINJA_BIG, /* an integer beyond 64 bits, as text: it can only be printed */
    EITP__JINJA_FLOAT,
    EITP__JINJA_STRING,
    EITP__JINJA_LIST,
    EITP__JINJA_TUPLE,
    EITP__JINJA_RANGE_VALUE,
    EITP__JINJA_VIEW,      /* keys, values or items of a dict */
    EITP__JINJA_GENERATOR, /* what select, map and others return: true, without a length, and can be read once */
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
    int detail; /* of UNDEFINED: see eitp__jinja_undefined */
    union {
        int64_t integer; /* of BOOLEAN too */
        double number;
        const char *text; /* of STRING and BIG; of UNDEFINED: what is undefined */
        struct eitp__jinja_list *list;
        struct eitp__jinja_dict *dict;
        struct eitp__jinja_loop *loop;
        const struct eitp__jinja_method *method;
        const struct eitp__jinja_function *function;
        const void *macro;
    } as;
    size_t size; /* of `text` */
} eitp__jinja_value;

/* Of LIST, TUPLE, RANGE_VALUE, VIEW and GENERATOR. */
typedef struct eitp__jinja_list {
    eitp__jinja_value *items;
    size_t count;
    size_t capacity;
    int depth;
    int is_read; /* a generator was read */
} eitp__jinja_list;

typedef struct eitp__jinja_entry {
    eitp__jinja_value key;
    eitp__jinja_value value;
} eitp__jinja_entry;

/* Of DICT and NAMESPACE. */
typedef struct eitp__jinja_dict {
    eitp__jinja_entry *entries; /* in order of insertion */
    size_t count;
    size_t capacity;
    int depth;
    size_t message; /* 1 + its index in the conversation; 0: not a message */
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
    const char *source; /* the template, for positions of errors */
    size_t offset;      /* of the node being evaluated */
    eitp__jinja_memory memory;
    eitp__buffer text; /* being made: captured output, and strings above it */
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
    const char *parameters; /* their names, separated by spaces; NULL: it reads the arguments itself */
    int required;           /* how many parameters have no default */
    eitp__jinja_value (*call)(eitp__jinja *jinja, const eitp__jinja_call *call); /* NULL: unsupported */
} eitp__jinja_function;

/* Keeps a failure, with the position of the node being evaluated. Returns an undefined value. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_fail(eitp__jinja *jinja, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);

/* Counts steps. Returns 0 if there were too many. */
EITP__PRIVATE int eitp__jinja_spend(eitp__jinja *jinja, size_t steps);

/* Zeroed memory of the rendering; NULL, with a failure, beyond its limit. */
EITP__PRIVATE void *eitp__jinja_take(eitp__jinja *jinja, size_t size);

/* Adds to the text being made. */
EITP__PRIVATE void eitp__jinja_add(eitp__jinja *jinja, const char *text, size_t size);
EITP__PRIVATE void eitp__jinja_add_text(eitp__jinja *jinja, const char *text);
/* Removes the text being made from `mark` on, and returns it as a string. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_finish_text(eitp__jinja *jinja, size_t mark);

/* ---- making values ---- */

EITP__PRIVATE eitp__jinja_value eitp__jinja_none(void);
EITP__PRIVATE eitp__jinja_value eitp__jinja_boolean(int value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_integer(int64_t value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_float(double value);
/* A string, whose bytes are not copied. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_string(const char *text, size_t size);
EITP__PRIVATE eitp__jinja_value eitp__jinja_list_value(int kind, eitp__jinja_list *list);

/* What an undefined value stands for: a variable called `text`, a whole message, an attribute that the sandbox forbids,
   or, beyond these, the attribute `text` of a value of kind `detail - EITP__JINJA_OF`. */
enum { EITP__JINJA_VARIABLE = 0, EITP__JINJA_MESSAGE = 1, EITP__JINJA_UNSAFE = 2, EITP__JINJA_OF = 3 };
EITP__PRIVATE eitp__jinja_value eitp__jinja_undefined(int detail, const char *text, size_t size);
/* Fails with what is undefined. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_fail_undefined(eitp__jinja *jinja, const eitp__jinja_value *value);

/* NULL after a failure. */
EITP__PRIVATE eitp__jinja_list *eitp__jinja_new_list(eitp__jinja *jinja, size_t capacity);
EITP__PRIVATE eitp__jinja_dict *eitp__jinja_new_dict(eitp__jinja *jinja, size_t capacity);
EITP__PRIVATE void eitp__jinja_push(eitp__jinja *jinja, eitp__jinja_list *list, const eitp__jinja_value *value);
EITP__PRIVATE void eitp__jinja_put(eitp__jinja *jinja, eitp__jinja_dict *dict, const eitp__jinja_value *key,
                                   const eitp__jinja_value *value);
EITP__PRIVATE eitp__jinja_value eitp__jinja_from_json(eitp__jinja *jinja, const eitp_json *json);

/* ---- reading values ---- */

/* Python's name of the type, such as "dict". */
EITP__PRIVATE const char *eitp__jinja_type_name(const eitp__jinja_value *value);
EITP__PRIVATE int eitp__jinja_is_sequence(int kind); /* one with a list */
EITP__PRIVATE int eitp__jinja_is_true(const eitp__jinja_value *value);
EITP__PRIVATE int eitp__jinja_equal(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b);
/* Negative, 0 or positive; fails if the values have no order. */
EITP__PRIVATE int eitp__jinja_order(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b);
/* The value of a key; NULL if it is missing. */
EITP__PRIVATE const eitp__jinja_value *eitp__jinja_find(eitp__jinja *jinja, const eitp__jinja_dict *dict,
                                                        const eitp__jinja_value *key);
/* Integers and booleans; 0 for other kinds. */
EITP__PRIVATE int eitp__jinja_to_integer(const eitp__jinja_value *value, int64_t *integer);
/* These and floats. */
EITP__PRIVATE int eitp__jinja_to_number(const eitp__jinja_value *value, double *number);
/* The elements over which a loop goes. NULL, with a failure, if the value cannot be iterated over. */
EITP__PRIVATE const eitp__jinja_list *eitp__jinja_iterate(eitp__jinja *jinja, const eitp__jinja_value *value);
/* Whether `value in container`. */
EITP__PRIVATE int eitp__jinja_contains(eitp__jinja *jinja, const eitp__jinja_value *container,
                                       const eitp__jinja_value *value);

/* ---- functions ---- */

EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_function(const eitp__jinja_function *functions, size_t count,
                                                                    const char *name, size_t size);
/* Assigns arguments to parameters, and calls. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_invoke(eitp__jinja *jinja, const eitp__jinja_function *function,
                                                   const eitp__jinja_value *self,
                                                   const eitp__jinja_arguments *arguments);
/* The argument, or the default if it was not passed. */
EITP__PRIVATE int64_t eitp__jinja_integer_argument(eitp__jinja *jinja, const eitp__jinja_value *slot, int64_t missing);
EITP__PRIVATE int eitp__jinja_true_argument(const eitp__jinja_value *slot, int missing);

#endif
