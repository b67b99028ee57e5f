/* Strings of chat templates, indexed by character as in Python. */
#ifndef EITP_JINJA_STRINGS_H
#define EITP_JINJA_STRINGS_H

#include "template/jinja_value.h"

/* Returns the number of characters. */
EITP__PRIVATE size_t eitp__jinja_length(const eitp__jinja_value *text);
/* Returns the offset of character `index`, at most the length. */
EITP__PRIVATE size_t eitp__jinja_character_offset(eitp__jinja *jinja, const eitp__jinja_value *text, size_t index);
/* Returns `size` bytes from `begin`, not copied. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_part(const eitp__jinja_value *text, size_t begin, size_t size);

/* Returns the offset of `part` at or after `from`, or SIZE_MAX if it is missing. */
EITP__PRIVATE size_t eitp__jinja_search(eitp__jinja *jinja, const eitp__jinja_value *text,
                                        const eitp__jinja_value *part, size_t from);

enum { EITP__JINJA_LOWER, EITP__JINJA_UPPER, EITP__JINJA_CAPITALIZE, EITP__JINJA_TITLE, EITP__JINJA_TITLE_FILTER };
/* Changes case. Characters whose other case the library does not know are refused. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_change_case(eitp__jinja *jinja, const eitp__jinja_value *text, int change);

enum { EITP__JINJA_LEFT = 1, EITP__JINJA_RIGHT = 2 };
/* Strips whitespace at these sides, or the characters in `characters` unless that is None or missing. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_strip(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                  const eitp__jinja_value *characters, int sides);

/* Replaces the first `limit` occurrences, or all if it is negative. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_replace(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                    const eitp__jinja_value *old, const eitp__jinja_value *with,
                                                    int64_t limit);

/* Evaluates text % values, with the conversions s, r, d, i, u, x, X, o, f, F, e, E, g, G and %. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_format(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                   const eitp__jinja_value *values, size_t count);

/* Formats a time like strftime, in UTC with the English names of the C locale. */
EITP__PRIVATE eitp__jinja_value eitp__jinja_format_time(eitp__jinja *jinja, const eitp__jinja_value *format,
                                                        int64_t seconds);

#endif
