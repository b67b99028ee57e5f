#include "data/utf8_repair.h"

#include "base/unicode.h"

EITP__PRIVATE void eitp__utf8_repair_init(eitp__utf8_repair *repair, eitp__utf8_sink sink, void *user) {
    memset(repair, 0, sizeof *repair);
    repair->sink = sink;
    repair->user = user;
}

/* Counts `count` ill-formed bytes at `offset`, where `byte` is the first, and passes on U+FFFD. */
static eitp_status eitp__utf8_repair_replace(eitp__utf8_repair *repair, uint64_t offset, unsigned char byte,
                                             size_t count, eitp_error *error) {
    if (!repair->invalid_bytes) {
        repair->first_invalid = offset;
        repair->invalid_byte = byte;
    }
    repair->invalid_bytes += count;
    return repair->sink(repair->user, "\xEF\xBF\xBD", 3, error);
}

/* Continues the pending sequence of the previous piece. *taken is the number of bytes of `text` that belong to it. */
static eitp_status eitp__utf8_repair_resume(eitp__utf8_repair *repair, const unsigned char *text, size_t size,
                                            size_t *taken, eitp_error *error) {
    uint32_t code_point;
    int valid;
    const uint64_t begin = repair->offset - repair->pending_size;
    const size_t before = repair->pending_size;
    size_t pending = before;
    *taken = 0;
    while (*taken < size && eitp__utf8_incomplete(repair->pending, pending) == pending)
        repair->pending[pending++] = text[(*taken)++];
    if (eitp__utf8_incomplete(repair->pending, pending) == pending) {
        repair->pending_size = pending;
        return EITP_OK;
    }
    const size_t length = eitp__utf8_next(repair->pending, pending, &code_point, &valid);
    *taken = length - before; /* a byte that does not continue the sequence belongs to the next one */
    repair->pending_size = 0;
    if (valid)
        return repair->sink(repair->user, (const char *)repair->pending, length, error);
    return eitp__utf8_repair_replace(repair, begin, repair->pending[0], length, error);
}

EITP__PRIVATE eitp_status eitp__utf8_repair_add(eitp__utf8_repair *repair, const char *text, size_t size,
                                                eitp_error *error) {
    const unsigned char *bytes = (const unsigned char *)text;
    eitp_status status = EITP_OK;
    size_t i = 0;
    if (repair->pending_size)
        status = eitp__utf8_repair_resume(repair, bytes, size, &i, error);
    while (status == EITP_OK && i < size) {
        const size_t valid_size = eitp__utf8_valid_prefix(bytes + i, size - i);
        if (valid_size)
            status = repair->sink(repair->user, text + i, valid_size, error);
        i += valid_size;
        const size_t left = size - i;
        if (status != EITP_OK || !left)
            break;
        if (eitp__utf8_incomplete(bytes + i, left) == left) {
            memcpy(repair->pending, bytes + i, left);
            repair->pending_size = left;
            break;
        }
        uint32_t code_point;
        int valid;
        const size_t length = eitp__utf8_next(bytes + i, left, &code_point, &valid);
        status = eitp__utf8_repair_replace(repair, repair->offset + i, bytes[i], length, error);
        i += length;
    }
    repair->offset += size;
    return status;
}

EITP__PRIVATE eitp_status eitp__utf8_repair_finish(eitp__utf8_repair *repair, eitp_error *error) {
    const size_t count = repair->pending_size;
    repair->pending_size = 0;
    if (!count)
        return EITP_OK;
    return eitp__utf8_repair_replace(repair, repair->offset - count, repair->pending[0], count, error);
}
