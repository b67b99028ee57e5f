/* Filling in an eitp_error. */
#ifndef EITP_STATUS_H
#define EITP_STATUS_H

#include "base/platform.h"

/* Writes the formatted message to *error (which may be NULL) and returns `status`:  return eitp__fail(error, ...); */
EITP__PRIVATE eitp_status eitp__fail(eitp_error *error, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

/* The standard failure of an allocation of `size` bytes for `what`. */
EITP__PRIVATE eitp_status eitp__fail_memory(eitp_error *error, size_t size, const char *what);

/* The failure of a public function that was given NULL for one of these arguments. */
EITP__PRIVATE eitp_status eitp__fail_null(eitp_error *error, const char *function, const char *arguments);

/* Puts "prefix: " before the message that is there; returns the status that is there. */
EITP__PRIVATE eitp_status eitp__fail_prefix(eitp_error *error, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);

#endif
