/* How a text file is laid out, as its beginning shows: how lines end, and what separates columns and documents. */
#ifndef EITP_TEXT_LAYOUT_H
#define EITP_TEXT_LAYOUT_H

#include "base/platform.h"
#include "text/text.h"

/* What lines end with: '\r' if the beginning has carriage returns and no line feed, as files of early Macs do, else
   '\n'. */
EITP__PRIVATE char eitp__find_line_end(eitp_text beginning);

/* The separator of the columns of CSV: of comma, semicolon and tab the one that divides the first rows into the same
   number of fields, at least two, and into the most. A comma if none does. */
EITP__PRIVATE char eitp__find_delimiter(eitp_text beginning);

/* Reads a setting: one ASCII character, or "comma", "semicolon" or "tab"; *delimiter is 0 for NULL and "auto". Anything
   else is EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__read_delimiter(const char *setting, char *delimiter, eitp_error *error);

/* How messages call a separator: itself, or "tab". `text` has room for two bytes. */
EITP__PRIVATE const char *eitp__delimiter_name(char delimiter, char text[2]);

/*
 * The line that separates the documents of a text; NULL: none does. That is the setting, unless it is "none" or "off".
 * NULL and "auto" find the files of fortune(6): at least three lines of the beginning are exactly "%", and no other
 * begins with it, as comments of TeX, Erlang and MATLAB do.
 */
EITP__PRIVATE const char *eitp__find_document_separator(const char *setting, eitp_text beginning);

/* True if a line, with or without its end, is exactly this text. */
EITP__PRIVATE int eitp__line_is(const char *line, size_t size, const char *text);

#endif
