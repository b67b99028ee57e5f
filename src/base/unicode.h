/* UTF-8, and the classes of code points that pre-tokenization asks for. */
#ifndef EITP_UNICODE_H
#define EITP_UNICODE_H

#include "base/platform.h"

/* What GPT-2's pattern tells apart: \p{L}, \p{N}, \s (the property White_Space) and all the rest, in Unicode 16.0. */
enum { EITP__UNICODE_OTHER = 0, EITP__UNICODE_LETTER = 1, EITP__UNICODE_NUMBER = 2, EITP__UNICODE_SPACE = 3 };

/* One of the above; OTHER for what is no code point. */
EITP__PRIVATE int eitp__unicode_class(uint32_t code_point);

/*
 * Reads one code point of text[0 .. size), size > 0, and returns the bytes it takes. Ill-formed bytes give U+FFFD with
 * *valid 0, one for each maximal subpart of a sequence (The Unicode Standard, section 3.9, "U+FFFD Substitution of
 * Maximal Subparts": what Python's errors="replace" does). A sequence that the text ends inside of is ill-formed too.
 */
EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid);

/* How many of the last bytes begin a sequence that further bytes may complete: 0 to 3. */
EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size);

/* Bytes before the first that is not part of a whole, well-formed sequence; `size` where all are. */
EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size);

/* Writes a code point below 0x110000 that is no surrogate; returns the bytes it takes. */
EITP__PRIVATE size_t eitp__utf8_put(uint32_t code_point, unsigned char bytes[4]);

#endif
