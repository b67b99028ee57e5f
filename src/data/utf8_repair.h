/* Bytes that should be UTF-8 become bytes that are, piece by piece. */
#ifndef EITP_UTF8_REPAIR_H
#define EITP_UTF8_REPAIR_H

#include "base/platform.h"

/* Takes UTF-8, never cut within a sequence; size > 0. */
typedef eitp_status (*eitp__utf8_sink)(void *user, const char *text, size_t size, eitp_error *error);

/* One text. Start from eitp__utf8_repair_init; it holds nothing that must be released. */
typedef struct eitp__utf8_repair {
    eitp__utf8_sink sink;
    void *user;
    unsigned char pending[4]; /* a sequence that goes on in the next piece */
    size_t pending_size;
    uint64_t offset;            /* of the next byte that is neither handed on nor pending, in the text */
    uint64_t invalid_bytes;     /* bytes replaced so far */
    uint64_t first_invalid;     /* offset of the first of them */
    unsigned char invalid_byte; /* and its value */
} eitp__utf8_repair;

EITP__PRIVATE void eitp__utf8_repair_init(eitp__utf8_repair *repair, eitp__utf8_sink sink, void *user);

/* The next `size` bytes of the text. Ill-formed parts reach the sink as U+FFFD. A failure of the sink is passed on. */
EITP__PRIVATE eitp_status eitp__utf8_repair_add(eitp__utf8_repair *repair, const char *text, size_t size,
                                                eitp_error *error);

/* The end of the text: a sequence that is not complete is ill-formed. */
EITP__PRIVATE eitp_status eitp__utf8_repair_finish(eitp__utf8_repair *repair, eitp_error *error);

#endif
