/* Foreign text in pages and pictures. */
#ifndef COMMAND_REPORT_MARKUP_H
#define COMMAND_REPORT_MARKUP_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/*
 * Adds text for HTML and SVG, between tags or in a quoted attribute. Characters with a meaning there are escaped. Bytes
 * that are not UTF-8, and characters that neither format may contain, become U+FFFD; control characters are shown as
 * their pictures, such as U+241B for escape, except tab and line feed.
 */
void markup_add(text_buffer *t, const char *value, size_t size);
void markup_text(text_buffer *t, const char *value);

/* The same for at most `most` bytes: what does not fit becomes an ellipsis. */
void markup_short(text_buffer *t, const char *value, size_t size, size_t most);

EITP_END_DECLARATIONS

#endif
