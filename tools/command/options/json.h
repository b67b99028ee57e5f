/* Reads JSON (RFC 8259) as a sequence of names and plain values, without a tree. For files of options. */
#ifndef COMMAND_OPTIONS_JSON_H
#define COMMAND_OPTIONS_JSON_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

typedef enum json_kind { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_EMPTY_LIST } json_kind;

typedef struct json_value {
    const char *path; /* the names of the enclosing objects and of the member, separated by dots */
    const char *name; /* of the member: the last part of the path */
    json_kind kind;
    const char *text;    /* a string with its escapes resolved, "[]" for an empty list, else as written */
    const char *boolean; /* "true" or "false" if the value can be read as one, otherwise NULL */
    int in_array;
    size_t index; /* in the array, from 0 */
    size_t line;  /* from 1 */
} json_value;

typedef eitp_status (*json_visitor)(void *user, const json_value *value, eitp_error *error);

/*
 * Calls `visit` for every plain value and every empty list of a file, in order. The file must be an object. Objects may
 * hold objects, and arrays of plain values. The member `skipped` of the outermost object is checked but not visited.
 * Returns EITP_ERROR_FORMAT, with file and line, for invalid JSON, files larger than 1 MiB, and objects nested deeper
 * than 16.
 */
eitp_status json_read_file(const char *path, const char *skipped, json_visitor visit, void *user, eitp_error *error);

/* Appends the dot before a member's name to a path and returns the offset of the name. The caller removes both
   again. */
size_t json_path_enter(text_buffer *path);

EITP_END_DECLARATIONS

#endif
