/* Reads JSON (RFC 8259) as a sequence of names and plain values, without a tree: files of options. */
#ifndef COMMAND_OPTIONS_JSON_H
#define COMMAND_OPTIONS_JSON_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

typedef enum json_kind { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_EMPTY_LIST } json_kind;

typedef struct json_value {
    const char *path; /* the names of the enclosing objects and of the member, separated by dots */
    const char *name; /* of the member, the end of the path */
    json_kind kind;
    const char *text;    /* of a string with its escapes resolved, of an empty list "[]", else as written */
    const char *boolean; /* "true" or "false" if the value can be read as one, otherwise NULL */
    int in_array;
    size_t index; /* in the array, from 0 */
    size_t line;  /* from 1 */
} json_value;

typedef eitp_status (*json_visitor)(void *user, const json_value *value, eitp_error *error);

/*
 * Calls `visit` for every plain value and every empty list of a file, in order. The file must be an object. Objects may
 * hold objects, and arrays of plain values. A member `skipped` of the outermost object is checked but not visited.
 * Invalid JSON, a file of more than a mebibyte, and objects nested deeper than 16 are EITP_ERROR_FORMAT with file and
 * line.
 */
eitp_status json_read_file(const char *path, const char *skipped, json_visitor visit, void *user, eitp_error *error);

/* Adds the dot before a member's name to a path, and returns where the name begins. The caller removes both again. */
size_t json_path_enter(text_buffer *path);

EITP_END_DECLARATIONS

#endif
