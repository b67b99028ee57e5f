/* UTF-8, the character classes of GPT-2's pre-tokenization, and the character conversions of BERT's tokenizer. */
#ifndef EITP_UNICODE_H
#define EITP_UNICODE_H

#include "base/platform.h"

/* Character classes in Unicode 16.0: \p{L}, \p{N}, \s (the property White_Space), and all others. */
enum { EITP__UNICODE_OTHER = 0, EITP__UNICODE_LETTER = 1, EITP__UNICODE_NUMBER = 2, EITP__UNICODE_SPACE = 3 };

/* Returns the class of a code point; OTHER for values above 0x10FFFF. */
EITP__PRIVATE int eitp__unicode_class(uint32_t code_point);

/* Classes of characters in BERT's normalizer and pre-tokenizer. */
enum {
    EITP__BERT_OTHER = 0,         /* part of a word */
    EITP__BERT_CONTROL = 1,       /* removed when text is cleaned, else part of a word */
    EITP__BERT_SPACE = 2,         /* white space; becomes a space when text is cleaned */
    EITP__BERT_CONTROL_SPACE = 3, /* removed when text is cleaned, else white space */
    EITP__BERT_PUNCTUATION = 4,   /* a separate word */
    EITP__BERT_IDEOGRAPH = 5,     /* a separate word if ideographs are isolated */
    EITP__BERT_ACCENT = 6,        /* a non-spacing mark of canonical combining class 0 */
    EITP__BERT_MOVABLE_ACCENT = 7 /* any other non-spacing mark */
};

/* Returns the class of a code point below 0x110000 in BERT's tokenizer. */
EITP__PRIVATE int eitp__bert_class(uint32_t code_point);

/* Stores the canonical decomposition of a code point without its non-spacing marks (accents), and returns its length: 1
   to 3. The code point must not be a non-spacing mark itself. */
EITP__PRIVATE size_t eitp__unicode_without_accents(uint32_t code_point, uint32_t letters[3]);

/* Returns the canonical combining class of a mark other than an accent; 0 for other code points. */
EITP__PRIVATE unsigned eitp__unicode_mark_order(uint32_t code_point);

/* Returns the canonical combining class of a code point: 0 for all except marks. */
EITP__PRIVATE unsigned eitp__unicode_combining_class(uint32_t code_point);

/* Stores the canonical decomposition of a code point, which is the code point itself if it has none, and returns its
   length. */
enum { EITP__UNICODE_PARTS = 4 };
EITP__PRIVATE size_t eitp__unicode_decompose(uint32_t code_point, uint32_t parts[EITP__UNICODE_PARTS]);

/* Stores the compatibility decomposition of a code point, or else the canonical one, and returns its length. */
enum { EITP__UNICODE_COMPATIBLE_PARTS = 18 };
EITP__PRIVATE size_t eitp__unicode_decompose_compatibly(uint32_t code_point,
                                                        uint32_t parts[EITP__UNICODE_COMPATIBLE_PARTS]);

/* True for a word character: a letter, a mark, a decimal digit, or a connector such as "_" (\w of regular expressions;
   Unicode Technical Standard 18, annex C). */
EITP__PRIVATE int eitp__unicode_is_word(uint32_t code_point);

/* Returns the composition of two code points (Normalization Form C); 0 if they do not compose. */
EITP__PRIVATE uint32_t eitp__unicode_compose(uint32_t first, uint32_t second);

/* True if text[size] equals `name`, ignoring the case of ASCII letters. */
EITP__PRIVATE int eitp__equals_ignoring_case(const char *text, size_t size, const char *name);

/* Stores a code point in lower case and returns its length: 1 or 2. */
EITP__PRIVATE size_t eitp__unicode_lowercase(uint32_t code_point, uint32_t letters[2]);

/*
 * Decodes the code point at the start of text[0 .. size), size > 0, and returns its length in bytes. An ill-formed
 * sequence yields U+FFFD and *valid 0 for each maximal subpart (The Unicode Standard, section 3.9, "U+FFFD Substitution
 * of Maximal Subparts"; Python's errors="replace"). So does a sequence cut off by the end of the text.
 */
EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid);

/* Returns the number of bytes at the end of the text that start an incomplete but so far well-formed sequence: 0 to
   3. */
EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size);

/* Returns the number of characters in a text, counting bytes that do not continue a character. */
EITP__PRIVATE size_t eitp__utf8_count(const char *text, size_t size);

/* Returns the length of the longest prefix that is valid UTF-8. */
EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size);

/* Moves *text past its leading white space, and returns its size without leading and trailing white space. */
EITP__PRIVATE size_t eitp__utf8_trim(const char **text, size_t size);

/* Encodes a code point, which must be below 0x110000 and not a surrogate, and returns its length in bytes. */
EITP__PRIVATE size_t eitp__utf8_encode(uint32_t code_point, unsigned char bytes[4]);

#endif
