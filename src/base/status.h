/* Filling in an eitp_error. */
#ifndef EITP_STATUS_H
#define EITP_STATUS_H

#include "base/platform.h"

/* Fills in *error, which may be NULL, and returns `status`. */
EITP__PRIVATE eitp_status eitp__fail(eitp_error *error, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

/* Fails with EITP_ERROR_MEMORY: `size` bytes for `what` cannot be allocated. */
EITP__PRIVATE eitp_status eitp__fail_memory(eitp_error *error, size_t size, const char *what);

/* Fails with EITP_ERROR_ARGUMENT: one of these arguments of a public function is NULL. */
EITP__PRIVATE eitp_status eitp__fail_null(eitp_error *error, const char *function, const char *arguments);

/* Prepends "<formatted prefix>: " to the message in *error, which may be NULL, and returns `status`. */
EITP__PRIVATE eitp_status eitp__fail_prefix(eitp_error *error, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);

/* Appends "; <advice>", which tells the user what to do, to the message in *error, which may be NULL, and returns
   `status`. */
EITP__PRIVATE eitp_status eitp__fail_advice(eitp_error *error, eitp_status status, const char *advice);

/*
 * For calls of the program's callbacks, which may fail without filling in *error. Call eitp__error_clear first, so that
 * an old message is not mistaken for the callback's, and eitp__error_complete afterwards. That stores the status and,
 * if the callback left no message, the formatted one, and returns `status`. `error` may be NULL.
 */
EITP__PRIVATE void eitp__error_clear(eitp_error *error);
EITP__PRIVATE eitp_status eitp__error_complete(eitp_error *error, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);

/* Rounds a number of bytes up or down to the digits that eitp_format_bytes shows, so that a value above a limit is not
   printed equal to it. */
EITP__PRIVATE uint64_t eitp__round_bytes(uint64_t bytes, int up);

#endif
