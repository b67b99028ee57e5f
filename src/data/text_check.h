/* Recognizes files that are not text in the encoding they are read in. */
#ifndef EITP_TEXT_CHECK_H
#define EITP_TEXT_CHECK_H

#include "base/platform.h"

/* Bytes at the beginning of a file that decide. */
enum { EITP__TEXT_CHECK_SIZE = 65536 };

/*
 * Refuses, with EITP_ERROR_FORMAT and the command that converts the file, what begins as a compressed, packed or binary
 * format. Text that is read as UTF-8 (`is_utf8`) is also refused if it is UTF-16 or UTF-32: begins with the mark, or
 * has zero bytes in most of its even or odd places; if it is binary: more than 3 bytes and one in a hundred are control
 * characters other than white space, backspace and escape; or if it is mostly not UTF-8: more than 3 bytes and one in a
 * hundred are invalid, and more than there are in valid characters beyond ASCII.
 *
 * `bytes` are the first `size` of the file, all or EITP__TEXT_CHECK_SIZE of them.
 */
EITP__PRIVATE eitp_status eitp__check_text(const char *path, const char *bytes, size_t size, int is_utf8,
                                           eitp_error *error);

/* Refuses text of which more than 3 bytes and one in a hundred are invalid in the encoding that was given for it. */
EITP__PRIVATE eitp_status eitp__check_decoded(const char *path, const char *encoding, uint64_t invalid, size_t size,
                                              eitp_error *error);

#endif
