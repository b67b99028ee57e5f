/* Detects the layout of a text file from its start: line ends, and separators of columns and documents. */
#ifndef EITP_TEXT_LAYOUT_H
#define EITP_TEXT_LAYOUT_H

#include "base/platform.h"
#include "text/text.h"

/* Returns the character that ends lines: '\r' if the start has carriage returns and no line feed, like files of early
   Macs, otherwise '\n'. */
EITP__PRIVATE char eitp__find_line_end(eitp_text beginning);

/* Returns the column separator of CSV: comma, semicolon or tab, the one that divides the first rows into an equal
   number of fields, at least two, and into the most. A comma if none does. */
EITP__PRIVATE char eitp__find_delimiter(eitp_text beginning);

/* Reads a setting: one ASCII character, or "comma", "semicolon" or "tab". *delimiter is 0 for NULL and "auto". Anything
   else is EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__read_delimiter(const char *setting, char *delimiter, eitp_error *error);

/* Returns the name of a separator in messages: the character, or "tab". `text` must hold two bytes. */
EITP__PRIVATE const char *eitp__delimiter_name(char delimiter, char text[2]);

/*
 * Returns the line that separates the documents of a text file, or NULL: the setting, or NULL for "none" and "off".
 * NULL and "auto" detect fortune(6) files: at least three lines of the start are exactly "%", and no other line starts
 * with it, as comments of TeX, Erlang and MATLAB do.
 */
EITP__PRIVATE const char *eitp__find_document_separator(const char *setting, eitp_text beginning);

/* True if a line, with or without its end, is exactly this string. */
EITP__PRIVATE int eitp__line_is(const char *line, size_t size, const char *text);

#endif
