/* Recognizes files that are not text in the expected encoding. */
#ifndef EITP_TEXT_CHECK_H
#define EITP_TEXT_CHECK_H

#include "base/platform.h"

/* Bytes at the start of a file that are checked. */
enum { EITP__TEXT_CHECK_SIZE = 65536 };

/*
 * Refuses, with EITP_ERROR_FORMAT and the command that converts the file, a file that starts like a compressed, packed
 * or binary format. Text that is read as UTF-8 (`is_utf8`) is also refused if it is UTF-16 or UTF-32 (it starts with
 * the mark, or has zero bytes in most of its even or odd positions), if it is binary (more than 3 bytes and one in a
 * hundred are control characters other than white space, backspace and escape), or if it is mostly not UTF-8 (more than
 * 3 bytes and one in a hundred are invalid, and there are more of them than bytes of valid characters beyond ASCII).
 *
 * `bytes` are the first `size` bytes of the file: the whole file, or EITP__TEXT_CHECK_SIZE bytes.
 */
EITP__PRIVATE eitp_status eitp__check_text(const char *path, const char *bytes, size_t size, int is_utf8,
                                           eitp_error *error);

/* Refuses text of which more than 3 bytes and one in a hundred are invalid in the configured encoding. */
EITP__PRIVATE eitp_status eitp__check_decoded(const char *path, const char *encoding, uint64_t invalid, size_t size,
                                              eitp_error *error);

#endif
