/* UTF-8, and the character classes of GPT-2's pre-tokenization. */
#ifndef EITP_UNICODE_H
#define EITP_UNICODE_H

#include "base/platform.h"

/* Character classes in Unicode 16.0: \p{L}, \p{N}, \s (the property White_Space), and all others. */
enum { EITP__UNICODE_OTHER = 0, EITP__UNICODE_LETTER = 1, EITP__UNICODE_NUMBER = 2, EITP__UNICODE_SPACE = 3 };

/* The class of a code point; OTHER for values above 0x10FFFF. */
EITP__PRIVATE int eitp__unicode_class(uint32_t code_point);

/*
 * Decodes the code point at the start of text[0 .. size), size > 0, and returns its length in bytes. An ill-formed
 * sequence yields U+FFFD and *valid 0 for each maximal subpart (The Unicode Standard, section 3.9, "U+FFFD Substitution
 * of Maximal Subparts"; Python's errors="replace"). So does a sequence cut off by the end of the text.
 */
EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid);

/* Number of bytes at the end of the text that begin an incomplete but so far well-formed sequence: 0 to 3. */
EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size);

/* Length of the longest prefix that is valid UTF-8. */
EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size);

/* Encodes a code point, which must be below 0x110000 and not a surrogate, and returns its length in bytes. */
EITP__PRIVATE size_t eitp__utf8_encode(uint32_t code_point, unsigned char bytes[4]);

#endif
