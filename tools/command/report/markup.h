/* Text from files in pages and charts. */
#ifndef COMMAND_REPORT_MARKUP_H
#define COMMAND_REPORT_MARKUP_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/*
 * Adds text for HTML and SVG, between tags or in a quoted attribute. Special characters are escaped. Bytes that are not
 * UTF-8, and characters not allowed in these formats, become U+FFFD. Control characters, except tab and line feed, are
 * shown as control pictures, such as U+241B for escape.
 */
void markup_add(text_buffer *t, const char *value, size_t size);
void markup_text(text_buffer *t, const char *value);

/* Does the same for at most `most` bytes; the rest becomes an ellipsis. */
void markup_short(text_buffer *t, const char *value, size_t size, size_t most);

EITP_END_DECLARATIONS

#endif
