/* JSON (RFC 8259): a parser that builds a tree, typed access to members, and a writer. */
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

/* A value. The children of an array or object are a linked list: first_child, then next. */
typedef struct eitp__json {
    eitp__json_kind kind;
    int boolean;
    int is_integer; /* the number has neither fraction nor exponent and fits `integer` */
    int64_t integer;
    double number;
    const char *text; /* of a string: UTF-8, unescaped, may contain zero bytes; of a number: as it is written.
                         Zero-terminated; NULL: another kind of value */
    size_t text_size;
    const char *name; /* of a member of an object, else NULL */
    size_t name_size;
    size_t line;  /* of its first character, counted from 1 */
    size_t begin; /* offset of its first byte in the text that was parsed */
    size_t count; /* number of children */
    struct eitp__json *first_child;
    struct eitp__json *next;
} eitp__json;

typedef struct eitp__json_document eitp__json_document;

/* Parses `size` bytes. Nesting deeper than 64, invalid UTF-8, unpaired surrogates, duplicate names and text after the
   value are EITP_ERROR_FORMAT, with line and column, in characters. Memory is bounded by a small multiple of `size`. */
EITP__PRIVATE eitp_status eitp__json_parse(const eitp_host *host, const char *data, size_t size,
                                           eitp__json_document **document, eitp_error *error);

/* Largest number of values in a line: they need up to 120 MB. */
enum { EITP__JSON_LINE_VALUES = 1 << 20 };

/* The same for line `line` of a file, with at most EITP__JSON_LINE_VALUES values. */
EITP__PRIVATE eitp_status eitp__json_parse_line(const eitp_host *host, const char *data, size_t size, size_t line,
                                                eitp__json_document **document, eitp_error *error);

EITP__PRIVATE void eitp__json_release(eitp__json_document *document);
EITP__PRIVATE const eitp__json *eitp__json_root(const eitp__json_document *document);

/* Parses a file of at most `limit` bytes; messages begin with its path. */
EITP__PRIVATE eitp_status eitp__json_read_file(const eitp_host *host, const char *path, size_t limit,
                                               eitp__json_document **document, eitp_error *error);

/*
 * The same for a file that has names of files: a lone surrogate from U+DC80 to U+DCFF stands for a byte that is not
 * UTF-8, its lowest one. Python calls this surrogateescape. So texts of the document may not be UTF-8.
 */
EITP__PRIVATE eitp_status eitp__json_read_file_with_names(const eitp_host *host, const char *path, size_t limit,
                                                          eitp__json_document **document, eitp_error *error);

/* Fails if a text is not one value, as eitp__json_read_file_with_names would read it. */
EITP__PRIVATE eitp_status eitp__json_check(const eitp_host *host, const char *text, eitp_error *error);

/* Stores the number that `text` is, as JSON writes numbers, and returns 1; 0 if it is anything else. Allocates
   nothing. */
EITP__PRIVATE int eitp__json_read_number(const char *text, size_t size, double *number);

/* Finds a member by name. Returns NULL if it is missing, or if `object` is NULL or another kind of value. */
EITP__PRIVATE const eitp__json *eitp__json_member(const eitp__json *object, const char *name);

/* Read a member. If it is missing or null, *value is unchanged. A value of another type or outside [low, high] is
   EITP_ERROR_FORMAT, with line and name. */
EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp__json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_number(const eitp__json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp__json *object, const char *name, int *value,
                                                 eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_text(const eitp__json *object, const char *name, const char **value,
                                              eitp_error *error);

/* Adds `size` bytes of UTF-8 as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD. */
EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size);
/* Adds a name of a file, of which bytes that are not UTF-8 can be read back by eitp__json_read_file_with_names. */
EITP__PRIVATE void eitp__json_write_name(eitp__buffer *buffer, const char *name);
/* Writes a number with the fewest digits that read back as the same double, "null" if it is not finite. Returns the
   length. */
EITP__PRIVATE size_t eitp__json_format_number(double value, char text[40]);
/* The same with a number of significant digits, 1 to 17. */
EITP__PRIVATE size_t eitp__json_format_digits(double value, int digits, char text[40]);
/* Adds a number as eitp__json_format_number writes it. */
EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value);
/* Adds a value, without its name, on one line. Whole numbers are written as such. */
EITP__PRIVATE void eitp__json_write_value(eitp__buffer *buffer, const eitp__json *value);

#endif
