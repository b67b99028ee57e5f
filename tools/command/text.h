/* Text buffers, and JSON written to them. */
#ifndef COMMAND_TEXT_H
#define COMMAND_TEXT_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Empty when zero-initialized. `data` is NULL, or ends with a zero byte that `size` does not count. */
typedef struct text_buffer {
    char *data;
    size_t size, capacity;
} text_buffer;

void text_release(text_buffer *t);
void text_add(text_buffer *t, const void *data, size_t size);
void text_format(text_buffer *t, const char *format, ...) COMMAND_PRINTF(2, 3);

/* Adds a word of a command line, quoted for a shell if necessary. */
void text_add_shell_word(text_buffer *t, const char *word);

/* Adds a quoted JSON string. A byte that is not UTF-8, as file names may have, becomes a lone surrogate, U+DC00 plus
   the byte, which options/json.h reads back; Python calls this surrogateescape. */
void text_json_string(text_buffer *t, const char *value, size_t size);

/* Adds the shortest number that reads back as the same double; null if not finite. */
void text_json_number(text_buffer *t, double value);

/* Add members of an object: `"name": value`, after a comma unless an object or array was just opened. */
void text_json_name(text_buffer *t, const char *name);
void text_json_member_string(text_buffer *t, const char *name, const char *value);
void text_json_member_number(text_buffer *t, const char *name, double value);
void text_json_member_integer(text_buffer *t, const char *name, int64_t value);

/*
 * Returns the length of the first character of data[0 .. size). Negative if it is invalid: minus the number of bytes
 * that U+FFFD replaces. 0 if the character may continue after the end.
 */
int text_utf8_length(const char *data, size_t size);

EITP_END_DECLARATIONS

#endif
