#include "data/text_reader.h"

#include "base/log.h"
#include "data/text_check.h"

static eitp_status eitp__text_reader_keep(void *user, const char *text, size_t size, eitp_error *error) {
    eitp__text_reader *reader = (eitp__text_reader *)user;
    eitp__buffer_add(&reader->piece, text, size);
    return reader->piece.failed ? eitp__fail_memory(error, reader->piece.size + size, "a piece of text") : EITP_OK;
}

/* Drops a decoded byte order mark at the start. */
static eitp_status eitp__text_reader_decoded(void *user, const char *text, size_t size, eitp_error *error) {
    eitp__text_reader *reader = (eitp__text_reader *)user;
    const size_t mark = !reader->repair.offset && size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    reader->repair.offset += mark;
    return size > mark ? eitp__utf8_repair_add(&reader->repair, text + mark, size - mark, error) : EITP_OK;
}

/* Reads the next piece of the program's input to raw + end, which has `size` bytes and grows if the piece is larger. */
static eitp_status eitp__text_reader_read_input(eitp__text_reader *reader, size_t size, size_t *done,
                                                eitp_error *error) {
    const eitp_text_source *input = reader->how.input;
    const char *text = NULL;
    eitp_status status = input->read(input->user, &text, done, error);
    if (status != EITP_OK)
        return status;
    *done = text ? *done : 0;
    if (*done > size) {
        void *raw = reader->raw;
        if (!eitp__reserve(reader->host, &raw, &reader->raw_capacity, reader->end + *done, 1))
            return eitp__fail_memory(error, *done, "a piece of the input");
        reader->raw = (char *)raw;
    }
    if (*done)
        memcpy(reader->raw + reader->end, text, *done);
    return EITP_OK;
}

/* Reads more after raw[end]; *done is 0 at the end of the input. */
static eitp_status eitp__text_reader_read(eitp__text_reader *reader, size_t size, size_t *done, eitp_error *error) {
    *done = 0;
    if (reader->is_exhausted)
        return EITP_OK;
    eitp_status status = reader->is_input ? eitp__text_reader_read_input(reader, size, done, error)
                                          : eitp__file_read_some(&reader->file, reader->file_bytes,
                                                                 reader->raw + reader->end, size, done, error);
    if (status != EITP_OK)
        return status;
    reader->end += *done;
    reader->file_bytes += *done;
    reader->is_exhausted = !*done;
    return EITP_OK;
}

static eitp_status eitp__text_reader_begin(eitp__text_reader *reader, eitp_error *error) {
    size_t done = 1;
    eitp_status status = EITP_OK;
    if (!reader->is_utf8)
        status = eitp__decoder_open(&reader->decoder, reader->how.encoding, eitp__text_reader_decoded, reader, error);
    if (status == EITP_OK && !reader->is_input)
        status = eitp__file_open(&reader->file, reader->host, reader->path, EITP_FILE_READ, error);
    while (status == EITP_OK && done && reader->end < EITP__TEXT_CHECK_SIZE)
        status = eitp__text_reader_read(reader, EITP__TEXT_CHECK_SIZE - reader->end, &done, error);
    if (status == EITP_OK && reader->is_utf8 && reader->end >= 3 && !memcmp(reader->raw, "\xEF\xBB\xBF", 3))
        reader->repair.offset = reader->at = 3;
    return status;
}

EITP__PRIVATE eitp_status eitp__text_reader_open(eitp__text_reader *reader, const eitp_host *host, const char *path,
                                                 const eitp__text_options *how, eitp_error *error) {
    memset(reader, 0, sizeof *reader);
    reader->host = host;
    reader->path = path;
    reader->how = *how;
    reader->is_input = how->input && how->input->read && !strcmp(path, "-");
    reader->is_utf8 = eitp__is_utf8_name(how->encoding);
    eitp__buffer_init(&reader->piece, host);
    eitp__utf8_repair_init(&reader->repair, eitp__text_reader_keep, reader);
    size_t capacity = EITP__TEXT_CHECK_SIZE;
    if (capacity < how->read_size)
        capacity = how->read_size;
    reader->raw = (char *)eitp__allocate_uninitialized(host, capacity);
    if (!reader->raw)
        return eitp__fail_memory(error, capacity, "reading text");
    reader->raw_capacity = capacity;
    eitp_status status = eitp__text_reader_begin(reader, error);
    if (status != EITP_OK)
        eitp__text_reader_close(reader);
    return status;
}

static eitp_status eitp__text_reader_drop(void *user, const char *text, size_t size, eitp_error *error) {
    (void)user, (void)text, (void)size, (void)error;
    return EITP_OK;
}

/* Decodes the start of the text as a test; an incomplete sequence at its end counts as valid. */
static eitp_status eitp__text_reader_check_encoding(const eitp__text_reader *reader, eitp_error *error) {
    eitp__decoder decoder;
    eitp_status status = eitp__decoder_open(&decoder, reader->how.encoding, eitp__text_reader_drop, NULL, error);
    if (status == EITP_OK)
        status = eitp__decoder_add(&decoder, reader->raw, reader->end, error);
    if (status == EITP_OK)
        status = eitp__check_decoded(reader->path, reader->how.encoding, decoder.invalid_bytes, reader->end, error);
    eitp__decoder_close(&decoder);
    return status;
}

EITP__PRIVATE eitp_status eitp__text_reader_check(const eitp__text_reader *reader, eitp_error *error) {
    eitp_status status = eitp__check_text(reader->path, reader->raw, reader->end, reader->is_utf8, error);
    return status == EITP_OK && !reader->is_utf8 ? eitp__text_reader_check_encoding(reader, error) : status;
}

static eitp_status eitp__text_reader_hold(void *user, const char *text, size_t size, eitp_error *error) {
    eitp__buffer *held = (eitp__buffer *)user;
    const size_t mark = !held->size && size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    eitp__buffer_add(held, text + mark, size - mark);
    return held->failed ? eitp__fail_memory(error, held->size + size, "the start of a text file") : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_reader_peek(const eitp__text_reader *reader, eitp__buffer *decoded,
                                                 eitp_text *beginning, eitp_error *error) {
    size_t end = EITP__TEXT_CHECK_SIZE;
    eitp__decoder decoder;
    if (end > reader->end)
        end = reader->end;
    beginning->bytes = reader->raw + reader->at;
    beginning->size = end > reader->at ? end - reader->at : 0;
    if (reader->is_utf8)
        return EITP_OK;
    eitp_status status = eitp__decoder_open(&decoder, reader->how.encoding, eitp__text_reader_hold, decoded, error);
    if (status == EITP_OK)
        status = eitp__decoder_add(&decoder, beginning->bytes, beginning->size, error);
    eitp__decoder_close(&decoder);
    beginning->bytes = decoded->size ? decoded->data : "";
    beginning->size = decoded->size;
    return status;
}

EITP__PRIVATE uint64_t eitp__text_reader_invalid(const eitp__text_reader *reader) {
    return reader->repair.invalid_bytes + reader->decoder.invalid_bytes;
}

EITP__PRIVATE uint64_t eitp__text_reader_bytes(const eitp__text_reader *reader) {
    return reader->repair.offset;
}

/* With `strict`, fails at the first invalid byte; otherwise logs them at the end. */
static eitp_status eitp__text_reader_check_invalid(const eitp__text_reader *reader, eitp_error *error) {
    const uint64_t count = eitp__text_reader_invalid(reader);
    if (!count || (!reader->how.strict && !reader->has_ended))
        return EITP_OK;
    const int is_decoded = reader->decoder.invalid_bytes > 0;
    const char *encoding = is_decoded ? reader->how.encoding : "UTF-8";
    const unsigned long long first = is_decoded ? reader->decoder.first_invalid : reader->repair.first_invalid;
    const unsigned byte = is_decoded ? reader->decoder.invalid_byte : reader->repair.invalid_byte;
    if (reader->how.strict)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: invalid %s at byte %llu (0x%02X); set encoding to the text's encoding, or turn off "
                          "strict_utf8 to replace such bytes by U+FFFD",
                          reader->path, encoding, first, byte);
    eitp__log_line(reader->host, EITP_LOG_WARNING,
                   "%s: replaced %llu bytes of invalid %s by U+FFFD, the first at byte %llu (0x%02X)", reader->path,
                   (unsigned long long)count, encoding, first, byte);
    return EITP_OK;
}

/* Returns the next bytes, or ends the text. */
static eitp_status eitp__text_reader_step(eitp__text_reader *reader, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (reader->at == reader->end) {
        size_t done;
        reader->at = reader->end = 0;
        status = eitp__text_reader_read(reader, reader->how.read_size, &done, error);
        reader->has_ended = status == EITP_OK && !done;
    }
    if (status == EITP_OK && reader->has_ended) {
        if (!reader->is_utf8)
            status = eitp__decoder_finish(&reader->decoder, error);
        if (status == EITP_OK)
            status = eitp__utf8_repair_finish(&reader->repair, error);
    } else if (status == EITP_OK) {
        const char *bytes = reader->raw + reader->at;
        const size_t left = reader->end - reader->at;
        const size_t size = left < reader->how.read_size ? left : reader->how.read_size;
        reader->at += size;
        status = reader->is_utf8 ? eitp__utf8_repair_add(&reader->repair, bytes, size, error)
                                 : eitp__decoder_add(&reader->decoder, bytes, size, error);
    }
    reader->used_bytes = reader->file_bytes - (reader->end - reader->at);
    return status;
}

EITP__PRIVATE eitp_status eitp__text_reader_next(eitp__text_reader *reader, const char **text, size_t *size,
                                                 eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp__buffer_clear(&reader->piece);
    while (status == EITP_OK && !reader->piece.size && !reader->has_ended) {
        status = eitp__text_reader_step(reader, error);
        if (status == EITP_OK)
            status = eitp__text_reader_check_invalid(reader, error);
    }
    if (status != EITP_OK)
        return status;
    *text = reader->piece.data;
    *size = reader->piece.size;
    return EITP_OK;
}

EITP__PRIVATE void eitp__text_reader_close(eitp__text_reader *reader) {
    if (!reader->host)
        return;
    eitp__file_close(&reader->file, NULL);
    eitp__decoder_close(&reader->decoder);
    eitp__buffer_release(&reader->piece);
    eitp__release(reader->host, reader->raw, reader->raw_capacity);
    memset(reader, 0, sizeof *reader);
}
