#include "data/sample_writer.h"

#include "base/log.h"
#include "base/checksum.h"
#include "base/little_endian.h"

enum { EITP__SAMPLE_WRITE_BYTES = 65536, EITP__SAMPLE_ENCODE_BYTES = 1024 };

EITP__PRIVATE eitp_status eitp__sample_writer_open(eitp__sample_writer *writer, const eitp_host *host, const char *path,
                                                   eitp_sample_file_kind kind, int32_t vocabulary_size,
                                                   int32_t second_vocabulary, eitp_error *error) {
    unsigned char header[EITP__SAMPLE_HEADER_SIZE];
    eitp_sample_file_info *info = &writer->layout.info;
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->offset = EITP__SAMPLE_HEADER_SIZE;
    info->kind = kind;
    info->element_size = vocabulary_size <= 65536 && second_vocabulary <= 65536 ? 2 : 4;
    info->vocabulary_size = vocabulary_size;
    info->second_vocabulary = second_vocabulary;
    info->end_of_text = -1;
    info->content_hash = EITP__FNV_START;
    writer->buffer = (unsigned char *)eitp__allocate_uninitialized(host, EITP__SAMPLE_WRITE_BYTES);
    if (!writer->buffer)
        return eitp__fail_memory(error, EITP__SAMPLE_WRITE_BYTES, "writing a file of samples");
    eitp_status status = eitp__partial_file_open(&writer->output, host, path, error);
    if (status != EITP_OK)
        return status;
    eitp__sample_header_unfinished(header, kind);
    return eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
}

EITP__PRIVATE eitp_status eitp__sample_writer_flush(eitp__sample_writer *writer, eitp_error *error) {
    eitp_status status =
        eitp__file_write(&writer->output.file, writer->offset, writer->buffer, writer->buffered, error);
    if (status == EITP_OK) {
        writer->offset += writer->buffered;
        writer->buffered = 0;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__sample_writer_put(eitp__sample_writer *writer, const void *data, size_t size,
                                                  eitp_error *error) {
    const unsigned char *bytes = (const unsigned char *)data;
    while (size) {
        const size_t room = EITP__SAMPLE_WRITE_BYTES - writer->buffered, part = size < room ? size : room;
        memcpy(writer->buffer + writer->buffered, bytes, part);
        writer->buffered += part;
        bytes += part;
        size -= part;
        eitp_status status =
            writer->buffered == EITP__SAMPLE_WRITE_BYTES ? eitp__sample_writer_flush(writer, error) : EITP_OK;
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_writer_add(eitp__sample_writer *writer, int of_second, const int32_t *ids,
                                                  size_t count, uint32_t *crc, eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_ENCODE_BYTES];
    eitp_sample_file_info *info = &writer->layout.info;
    const int32_t vocabulary = of_second ? info->second_vocabulary : info->vocabulary_size;
    const size_t element = (size_t)info->element_size, chunk = sizeof bytes / element;
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < chunk ? count - done : chunk;
        for (size_t i = 0; i < now; i++) {
            const int32_t id = ids[done + i];
            if (id < 0 || id >= vocabulary)
                return eitp__fail(error, EITP_ERROR_INTERNAL,
                                  "the tokenizer returned id %ld, outside its vocabulary of %ld", (long)id,
                                  (long)vocabulary);
            eitp__put_number(bytes + i * element, element, (uint64_t)id);
        }
        if (crc)
            *crc = eitp__crc32c(*crc, bytes, now * element);
        eitp_status status = eitp__sample_writer_put(writer, bytes, now * element, error);
        if (status != EITP_OK)
            return status;
        done += now;
    }
    info->token_count += count;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_writer_move(eitp__sample_writer *writer, uint64_t from, uint64_t to,
                                                   uint64_t size, eitp_error *error) {
    while (size) {
        const size_t most = EITP__SAMPLE_WRITE_BYTES, part = size < most ? (size_t)size : most;
        eitp_status status = eitp__file_read(&writer->output.file, from, writer->buffer, part, error);
        if (status == EITP_OK)
            status = eitp__file_write(&writer->output.file, to, writer->buffer, part, error);
        if (status != EITP_OK)
            return status;
        from += part;
        to += part;
        size -= part;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_writer_finish(eitp__sample_writer *writer, eitp_error *error) {
    unsigned char header[EITP__SAMPLE_HEADER_SIZE];
    eitp_status status = eitp__sample_writer_flush(writer, error);
    eitp__sample_header_write(header, &writer->layout);
    if (status == EITP_OK)
        status = eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
    return status == EITP_OK ? eitp__partial_file_commit(&writer->output, error) : status;
}

EITP__PRIVATE void eitp__sample_writer_release(eitp__sample_writer *writer) {
    if (!writer->host)
        return;
    eitp__partial_file_release(&writer->output);
    eitp__release(writer->host, writer->buffer, EITP__SAMPLE_WRITE_BYTES);
    memset(writer, 0, sizeof *writer);
}

EITP__PRIVATE void eitp__warn_unknown_bytes(const eitp_host *host, uint64_t count) {
    if (count)
        eitp__log_line(
            host, EITP_LOG_WARNING,
            "the tokenizer's vocabulary has no token for %llu bytes of the text, which are left out or become "
            "its unk_token",
            (unsigned long long)count);
}
