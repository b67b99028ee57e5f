#include "data/labelled_writer.h"

#include "base/checksum.h"
#include "base/little_endian.h"

enum { EITP__LABELLED_WRITE_BYTES = 65536, EITP__LABELLED_ENCODE_BYTES = 1024 };

EITP__PRIVATE eitp_status eitp__labelled_writer_open(eitp__labelled_writer *writer, const eitp_host *host,
                                                     const char *path, int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__LABELLED_HEADER_SIZE];
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->vocabulary_size = vocabulary_size;
    writer->element_size = vocabulary_size <= 65536 ? 2 : 4;
    writer->offset = EITP__LABELLED_HEADER_SIZE;
    writer->buffer = (unsigned char *)eitp__allocate_uninitialized(host, EITP__LABELLED_WRITE_BYTES);
    if (!writer->buffer)
        return eitp__fail_memory(error, EITP__LABELLED_WRITE_BYTES, "writing a labelled file");
    eitp_status status = eitp__partial_file_open(&writer->output, host, path, error);
    if (status != EITP_OK)
        return status;
    eitp__labelled_header_unfinished(header);
    return eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
}

static eitp_status eitp__labelled_flush(eitp__labelled_writer *writer, eitp_error *error) {
    eitp_status status =
        eitp__file_write(&writer->output.file, writer->offset, writer->buffer, writer->buffered, error);
    if (status == EITP_OK) {
        writer->offset += writer->buffered;
        writer->buffered = 0;
    }
    return status;
}

static eitp_status eitp__labelled_put(eitp__labelled_writer *writer, const void *data, size_t size, eitp_error *error) {
    const unsigned char *bytes = (const unsigned char *)data;
    while (size) {
        const size_t room = EITP__LABELLED_WRITE_BYTES - writer->buffered, part = size < room ? size : room;
        memcpy(writer->buffer + writer->buffered, bytes, part);
        writer->buffered += part;
        bytes += part;
        size -= part;
        eitp_status status =
            writer->buffered == EITP__LABELLED_WRITE_BYTES ? eitp__labelled_flush(writer, error) : EITP_OK;
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__labelled_writer_add(eitp__labelled_writer *writer, const int32_t *ids, size_t count,
                                                    uint32_t *crc, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_ENCODE_BYTES];
    const size_t element = writer->element_size, chunk = sizeof bytes / element;
    *crc = 0;
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < chunk ? count - done : chunk;
        for (size_t i = 0; i < now; i++) {
            const int32_t id = ids[done + i];
            if (id < 0 || id >= writer->vocabulary_size)
                return eitp__fail(error, EITP_ERROR_INTERNAL,
                                  "the tokenizer returned id %ld, outside its vocabulary of %ld", (long)id,
                                  (long)writer->vocabulary_size);
            eitp__put_number(bytes + i * element, element, (uint64_t)id);
        }
        *crc = eitp__crc32c(*crc, bytes, now * element);
        eitp_status status = eitp__labelled_put(writer, bytes, now * element, error);
        if (status != EITP_OK)
            return status;
        done += now;
    }
    writer->id_count += count;
    return EITP_OK;
}

/* ---- Finishing ---- */

/* Moves the ids of a sample towards the beginning of the file. */
static eitp_status eitp__labelled_move(eitp__labelled_writer *writer, uint64_t from, uint64_t to, uint64_t size,
                                       eitp_error *error) {
    while (size) {
        const size_t most = EITP__LABELLED_WRITE_BYTES, part = size < most ? (size_t)size : most;
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

/* Closes the gaps that dropped samples left, and ends the file after the ids. */
static eitp_status eitp__labelled_compact(eitp__labelled_writer *writer, eitp__labelled_index *index,
                                          eitp_error *error) {
    const uint64_t element = writer->element_size;
    uint64_t next = 0;
    eitp_status status = eitp__labelled_flush(writer, error);
    for (size_t i = 0; i < index->count && status == EITP_OK; i++) {
        eitp__labelled_record *record = &index->entries[i].record;
        if (record->first != next)
            status = eitp__labelled_move(writer, EITP__LABELLED_HEADER_SIZE + record->first * element,
                                         EITP__LABELLED_HEADER_SIZE + next * element, record->length * element, error);
        record->first = next;
        next += record->length;
    }
    writer->offset = EITP__LABELLED_HEADER_SIZE + next * element;
    if (status == EITP_OK && next != writer->id_count)
        status = eitp__file_resize(&writer->output.file, writer->offset, error);
    writer->id_count = next;
    return status;
}

/* Appends what follows the ids and hashes it. */
static eitp_status eitp__labelled_put_hashed(eitp__labelled_writer *writer, const void *data, size_t size,
                                             uint64_t *hash, eitp_error *error) {
    *hash = eitp__fnv1a(*hash, data, size);
    return eitp__labelled_put(writer, data, size, error);
}

static eitp_status eitp__labelled_put_index(eitp__labelled_writer *writer, const eitp__labelled_index *index,
                                            uint64_t *hash, eitp_error *error) {
    unsigned char bytes[EITP__LABELLED_RECORD_SIZE];
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < index->count && status == EITP_OK; i++) {
        eitp__labelled_record_write(bytes, &index->entries[i].record);
        status = eitp__labelled_put_hashed(writer, bytes, sizeof bytes, hash, error);
    }
    for (size_t i = 0; i < index->value_count && status == EITP_OK; i++) {
        eitp__put_number(bytes, EITP__LABELLED_VALUE_SIZE, index->values[i]);
        status = eitp__labelled_put_hashed(writer, bytes, EITP__LABELLED_VALUE_SIZE, hash, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__labelled_writer_finish(eitp__labelled_writer *writer, eitp__labelled_index *index,
                                                       const eitp__buffer *names, eitp_labelled_info *info,
                                                       eitp_error *error) {
    static const unsigned char zeros[8] = EITP__ZERO;
    unsigned char header[EITP__LABELLED_HEADER_SIZE];
    eitp__labelled_layout layout = EITP__ZERO;
    info->element_size = (int32_t)writer->element_size;
    info->content_hash = EITP__FNV_START;
    layout.info = *info;
    layout.value_count = index->value_count;
    layout.names_size = names->size;
    eitp__labelled_place(&layout);
    eitp_status status = eitp__labelled_compact(writer, index, error);
    if (status == EITP_OK)
        status = eitp__labelled_put(writer, zeros, (size_t)(layout.records - writer->offset), error);
    if (status == EITP_OK)
        status = eitp__labelled_put_index(writer, index, &info->content_hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_put_hashed(writer, names->data, names->size, &info->content_hash, error);
    if (status == EITP_OK)
        status = eitp__labelled_flush(writer, error);
    if (status != EITP_OK)
        return status;
    layout.info = *info;
    eitp__labelled_header_write(header, &layout);
    status = eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
    return status == EITP_OK ? eitp__partial_file_commit(&writer->output, error) : status;
}

EITP__PRIVATE void eitp__labelled_writer_release(eitp__labelled_writer *writer) {
    if (!writer->host)
        return;
    eitp__partial_file_release(&writer->output);
    eitp__release(writer->host, writer->buffer, EITP__LABELLED_WRITE_BYTES);
    memset(writer, 0, sizeof *writer);
}
