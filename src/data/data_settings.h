/* The settings that reading texts and reading tables have in common. Their names are those of a recipe's. */
#ifndef EITP_DATA_SETTINGS_H
#define EITP_DATA_SETTINGS_H

#include "base/setting_table.h"
#include "data/data.h"

/* Number of bytes read at a time. */
#define EITP__READ_SIZE ((size_t)65536)

#define EITP__READ_SIZE_SETTING(type, member, name)                                                                    \
    EITP__SETTING(type, , member, name, UNSIGNED, EITP__READ_SIZE, 1, EITP__LARGEST_COUNT, 0, ACCEPTED, NULL,          \
                  "bytes read at a time; results do not depend on it")

#define EITP__READING_SETTINGS(type, formats)                                                                          \
    EITP__SETTING(type, , format, "data_format", CHOICE, EITP_FORMAT_AUTO, 0, 0, 0, REFUSED, formats,                  \
                  "what a file is: one text, a text on each line, or a table"),                                        \
        EITP__TEXT_SETTING(type, , encoding, "encoding", NULL, REFUSED, "encoding of the text, as iconv names it"),    \
        EITP__TEXT_SETTING(type, , text_column, "text_column", NULL, REFUSED, "column of tables that has the text"),   \
        EITP__SETTING(type, , skip_bad, "on_bad_row", CHOICE, 0, 0, 0, 0, REFUSED, "stop skip",                        \
                      "whether a row of a table that cannot be read is an error, or is skipped"),                      \
        EITP__SETTING(type, , strict_utf8, "strict_utf8", FLAG, 0, 0, 1, 0, REFUSED, NULL,                             \
                      "fail on bytes that are invalid in the encoding instead of replacing them")

#endif
