/* JSON (RFC 8259): a bounded, checked parser into a tree, and a writer. */
#ifndef EITP_JSON_H
#define EITP_JSON_H

#include "base/memory.h"
#include "base/status.h"

typedef enum eitp__json_kind {
    EITP__JSON_NULL,
    EITP__JSON_BOOLEAN,
    EITP__JSON_NUMBER,
    EITP__JSON_STRING,
    EITP__JSON_ARRAY,
    EITP__JSON_OBJECT
} eitp__json_kind;

/* A value of the tree. Children of an array or object are a chain: first_child, then next. */
typedef struct eitp__json {
    eitp__json_kind kind;
    int boolean;
    int is_integer; /* the number was written without fraction and exponent, and fits */
    int64_t integer;
    double number;
    const char *text; /* of a string, UTF-8 with escapes resolved, zero byte after it; may hold zero bytes */
    size_t text_size;
    const char *name; /* the key where this is a member of an object, else NULL */
    size_t name_size;
    size_t line;  /* where it starts, from 1 */
    size_t count; /* children */
    struct eitp__json *first_child;
    struct eitp__json *next;
} eitp__json;

typedef struct eitp__json_document eitp__json_document;

/* Parses `size` bytes. Nesting deeper than 64, invalid UTF-8, lone surrogates, duplicate keys and anything after the
   value are errors that give line and column. Allocation is bounded by a small multiple of `size`. */
EITP__PRIVATE eitp_status eitp__json_parse(const eitp_host *host, const char *data, size_t size,
                                           eitp__json_document **document, eitp_error *error);
EITP__PRIVATE void eitp__json_release(eitp__json_document *document);
EITP__PRIVATE const eitp__json *eitp__json_root(const eitp__json_document *document);

/* Reads and parses a file of at most `limit` bytes; messages start with its path. */
EITP__PRIVATE eitp_status eitp__json_read_file(const eitp_host *host, const char *path, size_t limit,
                                               eitp__json_document **document, eitp_error *error);

/* The member called `name`, or NULL (also where `object` is NULL or no object). */
EITP__PRIVATE const eitp__json *eitp__json_member(const eitp__json *object, const char *name);

/*
 * Reading a member with its type checked. A missing or null member leaves *value as it is and is fine; one of another
 * type or outside [low, high] is EITP_ERROR_FORMAT with line and name.
 */
EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp__json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_number(const eitp__json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp__json *object, const char *name, int *value,
                                                 eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_text(const eitp__json *object, const char *name, const char **value,
                                              eitp_error *error);

/* Adds `size` bytes of UTF-8 as a quoted JSON string. */
EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size);
/* Writes a number in the fewest digits that read back to the same double, "null" where it is not finite; returns the
   length. */
EITP__PRIVATE size_t eitp__json_format_number(double value, char text[40]);
/* Adds a number that reads back to the same double; null where it is not finite. */
EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value);
/* Adds a value of a tree, without its name, on one line. Whole numbers stay whole. */
EITP__PRIVATE void eitp__json_write_value(eitp__buffer *buffer, const eitp__json *value);

#endif
