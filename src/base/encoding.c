#include "base/encoding.h"

#include "base/status.h"

#include <iconv.h>

/* Compares names ignoring case, '-' and '_'. */
static int eitp__same_encoding_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '-' || *a == '_')
            a++;
        while (*b == '-' || *b == '_')
            b++;
        const char lower = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;
        if (lower != *b)
            return 0;
        if (!*b)
            return 1;
    }
}

EITP__PRIVATE int eitp__is_utf8_name(const char *encoding) {
    return !encoding || eitp__same_encoding_name(encoding, "utf8") || eitp__same_encoding_name(encoding, "utf8sig");
}

/* True if the pointer is (iconv_t)-1, which iconv_open returns on failure. */
static int eitp__iconv_failed(void *handle) {
    return (intptr_t)handle == -1;
}

/* Returns the bytes that one more "A" adds to a text: the size of a code unit, even if the encoding starts with a
   mark. */
static size_t eitp__encoding_unit(const char *encoding) {
    size_t sizes[2] = {0, 1};
    for (size_t i = 0; i < 2; i++) {
        char text[] = "AA", encoded[32], *in = text, *out = encoded;
        size_t left = i + 1, room = sizeof encoded;
        void *handle = iconv_open(encoding, "UTF-8");
        if (eitp__iconv_failed(handle))
            return 1;
        iconv((iconv_t)handle, &in, &left, &out, &room);
        iconv_close((iconv_t)handle);
        sizes[i] = sizeof encoded - room;
    }
    const size_t unit = sizes[1] - sizes[0];
    return unit == 2 || unit == 4 ? unit : 1;
}

EITP__PRIVATE eitp_status eitp__decoder_open(eitp__decoder *decoder, const char *encoding, eitp__decoder_sink sink,
                                             void *user, eitp_error *error) {
    memset(decoder, 0, sizeof *decoder);
    /* "//" starts options of iconv, for example to drop invalid input. */
    void *handle = strstr(encoding, "//") ? (void *)(intptr_t)-1 : (void *)iconv_open("UTF-8", encoding);
    if (eitp__iconv_failed(handle))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown encoding '%.40s': not supported by iconv of this system or build; 'iconv "
                          "-l' lists names, or convert the file: iconv -f %.40s -t UTF-8 FILE > NEW",
                          encoding, encoding);
    decoder->handle = handle;
    decoder->unit = eitp__encoding_unit(encoding);
    decoder->sink = sink;
    decoder->user = user;
    return EITP_OK;
}

/* Passes on U+FFFD for the `size` bytes at `in`. */
static eitp_status eitp__decoder_replace(eitp__decoder *decoder, const char *in, size_t size, eitp_error *error) {
    if (!decoder->invalid_bytes) {
        decoder->first_invalid = decoder->offset + (uint64_t)(in - decoder->input);
        decoder->invalid_byte = (unsigned char)*in;
    }
    decoder->invalid_bytes += size;
    return decoder->sink(decoder->user, "\xEF\xBF\xBD", 3, error);
}

/* Converts the held bytes, except an incomplete character at their end if more may come. */
static eitp_status eitp__decoder_convert(eitp__decoder *decoder, int is_last, eitp_error *error) {
    char *in = decoder->input;
    size_t left = decoder->held;
    eitp_status status = EITP_OK;
    while (left && status == EITP_OK) {
        char output[8192], *out = output;
        size_t room = sizeof output;
        const int code = iconv((iconv_t)decoder->handle, &in, &left, &out, &room) == (size_t)-1 ? errno : 0;
        if (out > output)
            status = decoder->sink(decoder->user, output, (size_t)(out - output), error);
        if (status != EITP_OK || !code || code == E2BIG)
            continue;
        if (code == EINVAL && !is_last && left < sizeof decoder->input)
            break;
        const size_t skipped = left < decoder->unit ? left : decoder->unit;
        status = eitp__decoder_replace(decoder, in, skipped, error);
        in += skipped;
        left -= skipped;
    }
    decoder->offset += (uint64_t)(in - decoder->input);
    memmove(decoder->input, in, left);
    decoder->held = left;
    return status;
}

EITP__PRIVATE eitp_status eitp__decoder_add(eitp__decoder *decoder, const char *bytes, size_t size, eitp_error *error) {
    eitp_status status = EITP_OK;
    while (size && status == EITP_OK) {
        const size_t room = sizeof decoder->input - decoder->held, taken = size < room ? size : room;
        memcpy(decoder->input + decoder->held, bytes, taken);
        decoder->held += taken;
        bytes += taken;
        size -= taken;
        status = eitp__decoder_convert(decoder, 0, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__decoder_finish(eitp__decoder *decoder, eitp_error *error) {
    char output[64], *out = output;
    size_t room = sizeof output;
    eitp_status status = eitp__decoder_convert(decoder, 1, error);
    if (status != EITP_OK)
        return status;
    /* Some decoders hold a character back until they see whether a combining one follows. */
    iconv((iconv_t)decoder->handle, NULL, NULL, &out, &room);
    return out > output ? decoder->sink(decoder->user, output, (size_t)(out - output), error) : EITP_OK;
}

EITP__PRIVATE void eitp__decoder_close(eitp__decoder *decoder) {
    if (decoder->handle)
        iconv_close((iconv_t)decoder->handle);
    memset(decoder, 0, sizeof *decoder);
}
