/* Text in encodings other than UTF-8, decoded by the system's iconv. */
#ifndef EITP_ENCODING_H
#define EITP_ENCODING_H

#include "base/platform.h"

/* Receives UTF-8; size > 0. */
typedef eitp_status (*eitp__decoder_sink)(void *user, const char *text, size_t size, eitp_error *error);

/* Decoder of one text. A zeroed decoder is closed. iconv allocates its tables itself, not through the host. */
typedef struct eitp__decoder {
    void *handle; /* iconv_t; NULL: closed */
    size_t unit;  /* bytes of the smallest character: 1, 2 or 4 */
    eitp__decoder_sink sink;
    void *user;
    char input[4096]; /* not converted yet */
    size_t held;      /* bytes in `input` */
    uint64_t offset;  /* of input[0] in the text */
    uint64_t invalid_bytes;
    uint64_t first_invalid;     /* offset of the first invalid unit */
    unsigned char invalid_byte; /* its value */
} eitp__decoder;

/* True for NULL and the names of UTF-8, which need no decoder: "UTF-8", "utf8", "UTF-8-SIG". */
EITP__PRIVATE int eitp__is_utf8_name(const char *encoding);

/* Opens a decoder. An encoding that iconv does not know is EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__decoder_open(eitp__decoder *decoder, const char *encoding, eitp__decoder_sink sink,
                                             void *user, eitp_error *error);

/* Decodes the next bytes of the text. Each invalid unit becomes one U+FFFD and is counted. */
EITP__PRIVATE eitp_status eitp__decoder_add(eitp__decoder *decoder, const char *bytes, size_t size, eitp_error *error);

/* Ends the text: an incomplete character is invalid. */
EITP__PRIVATE eitp_status eitp__decoder_finish(eitp__decoder *decoder, eitp_error *error);

/* Closes the decoder. Harmless if it is already closed. */
EITP__PRIVATE void eitp__decoder_close(eitp__decoder *decoder);

#endif
