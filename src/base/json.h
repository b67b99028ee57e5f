/* JSON beyond the public tree: lines, typed access to members, and a writer. */
#ifndef EITP_JSON_H
#define EITP_JSON_H

#include "base/json_tree.h"
#include "base/memory.h"
#include "base/status.h"

/* Largest number of values in a line; they take up to 120 MB. */
enum { EITP__JSON_LINE_VALUES = 1 << 20 };

/* Like eitp_json_parse, for line `line` of a file, with at most EITP__JSON_LINE_VALUES values. */
EITP__PRIVATE eitp_status eitp__json_parse_line(const eitp_host *host, const char *data, size_t size, size_t line,
                                                eitp_json_document **document, eitp_error *error);

/* Like eitp_json_read_file, for a file without file names: lone surrogates are errors. */
EITP__PRIVATE eitp_status eitp__json_read_strict_file(const eitp_host *host, const char *path, size_t limit,
                                                      eitp_json_document **document, eitp_error *error);

/* Like eitp__json_read_strict_file, for a file in a directory; *document is NULL if the file is missing. */
EITP__PRIVATE eitp_status eitp__json_read_in(const eitp_host *host, const char *directory, const char *name,
                                             size_t limit, eitp_json_document **document, eitp_error *error);

/* Fails unless the text is a single value that eitp_json_read_file would accept. */
EITP__PRIVATE eitp_status eitp__json_check(const eitp_host *host, const char *text, eitp_error *error);

/* Parses a text that is a number as JSON writes it, stores the number and returns 1; returns 0 for anything else.
   Allocates nothing. */
EITP__PRIVATE int eitp__json_read_number(const char *text, size_t size, double *number);

/* Read a member. If it is missing or null, *value is unchanged. A value of another type or outside [low, high] is
   EITP_ERROR_FORMAT, with line and name. */
EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp_json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_number(const eitp_json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp_json *object, const char *name, int *value,
                                                 eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_text(const eitp_json *object, const char *name, const char **value,
                                              eitp_error *error);

/* Reads a member that must be an array of `least` to `most` finite numbers. */
EITP__PRIVATE eitp_status eitp__json_get_numbers(const eitp_json *object, const char *name, size_t least, size_t most,
                                                 double *values, size_t *count, eitp_error *error);

/* Sets *member to the member with this name, which must be an object. */
EITP__PRIVATE eitp_status eitp__json_get_object(const eitp_json *object, const char *name, const eitp_json **member,
                                                eitp_error *error);

/* A member of a struct, as a member of an object: an int64_t, a double, or an int that is 0 or 1. */
typedef enum eitp__json_field_kind { EITP__JSON_INTEGER, EITP__JSON_NUMBER, EITP__JSON_FLAG } eitp__json_field_kind;

typedef struct eitp__json_field {
    const char *name;
    eitp__json_field_kind kind;
    size_t offset;
    double low, high; /* high: for an integer, HUGE_VAL means INT64_MAX - 1, so that one more can be counted */
} eitp__json_field;

#define EITP__JSON_FIELD(type, member, name, kind, low, high)                                                          \
    { name, EITP__JSON_##kind, offsetof(type, member), low, high }

/* Reads the members listed in a table, like the functions above read one. */
EITP__PRIVATE eitp_status eitp__json_get_fields(const eitp_json *object, const eitp__json_field *fields, size_t count,
                                                void *values, eitp_error *error);

/* Copies the string value of a member to text[size]; if it is missing or not a string, changes nothing. */
EITP__PRIVATE void eitp__json_copy_text(const eitp_json *object, const char *name, char *text, size_t size);

/* Lists the names of an object's members in text[size], for one line of a message: "a, b", truncated with "..." if they
   do not fit; "none" for an object without members. Returns `text`. size is at least 16. */
EITP__PRIVATE const char *eitp__json_list_members(const eitp_json *object, char *text, size_t size);

/* Adds `size` bytes of UTF-8 as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD. */
EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size);
/* Adds the name of a file as a quoted JSON string; eitp_json_read_file restores its bytes that are not UTF-8. */
EITP__PRIVATE void eitp__json_write_name(eitp__buffer *buffer, const char *name);
/* Writes a number with the fewest digits that read back as the same double, "null" if it is not finite. Returns the
   length. */
EITP__PRIVATE size_t eitp__json_format_number(double value, char text[40]);
/* Like eitp__json_format_number, with the given number of significant digits, 1 to 17. */
EITP__PRIVATE size_t eitp__json_format_digits(double value, int digits, char text[40]);
/* Adds a number in the format of eitp__json_format_number. */
EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value);
/* Adds `"name": [1, 2]`. */
EITP__PRIVATE void eitp__json_write_numbers(eitp__buffer *buffer, const char *name, const double *values, size_t count);
/* Adds the members listed in a table: `"step": 8, "value": 2.5`. A non-finite number becomes null. */
EITP__PRIVATE void eitp__json_write_fields(eitp__buffer *buffer, const eitp__json_field *fields, size_t count,
                                           const void *values);
/* Adds a value, without its name, on one line. Whole numbers are written as integers. */
EITP__PRIVATE void eitp__json_write_value(eitp__buffer *buffer, const eitp_json *value);

#endif
