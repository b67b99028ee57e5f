/* Replaces invalid UTF-8 by U+FFFD, piece by piece. */
#ifndef EITP_UTF8_REPAIR_H
#define EITP_UTF8_REPAIR_H

#include "base/platform.h"

/* Receives valid UTF-8, never cut inside a sequence; size > 0. */
typedef eitp_status (*eitp__utf8_sink)(void *user, const char *text, size_t size, eitp_error *error);

/* The state for one document. Initialize with eitp__utf8_repair_init; needs no release. */
typedef struct eitp__utf8_repair {
    eitp__utf8_sink sink;
    void *user;
    unsigned char pending[4]; /* an incomplete sequence at the end of the last piece */
    size_t pending_size;
    uint64_t offset;            /* of the next piece in the document */
    uint64_t invalid_bytes;     /* number of bytes replaced so far */
    uint64_t first_invalid;     /* offset of the first of them */
    unsigned char invalid_byte; /* value of the first of them */
} eitp__utf8_repair;

EITP__PRIVATE void eitp__utf8_repair_init(eitp__utf8_repair *repair, eitp__utf8_sink sink, void *user);

/* Adds `size` bytes. Ill-formed parts reach the sink as U+FFFD. A failure of the sink is returned. */
EITP__PRIVATE eitp_status eitp__utf8_repair_add(eitp__utf8_repair *repair, const char *text, size_t size,
                                                eitp_error *error);

/* Ends the document; an incomplete sequence is ill-formed. */
EITP__PRIVATE eitp_status eitp__utf8_repair_finish(eitp__utf8_repair *repair, eitp_error *error);

#endif
