#include "data/labelled_writer.h"

#include "base/checksum.h"
#include "base/little_endian.h"

/* Closes the gaps that dropped samples left, and truncates the file after the ids. */
static eitp_status eitp__labelled_compact(eitp__sample_writer *writer, eitp__labelled_index *index, eitp_error *error) {
    const uint64_t begin = EITP__SAMPLE_HEADER_SIZE, element = (uint64_t)writer->layout.info.element_size;
    uint64_t next = 0;
    eitp_status status = eitp__sample_writer_flush(writer, error);
    for (size_t i = 0; i < index->count && status == EITP_OK; i++) {
        eitp__sample_record *record = &index->entries[i].record;
        if (record->first != next)
            status = eitp__sample_writer_move(writer, begin + record->first * element, begin + next * element,
                                              record->length * element, error);
        record->first = next;
        next += record->length;
    }
    if (status == EITP_OK && writer->offset != begin + next * element)
        status = eitp__file_resize(&writer->output.file, begin + next * element, error);
    writer->offset = begin + next * element;
    return status;
}

/* Appends data after the ids, and hashes it. */
static eitp_status eitp__labelled_put(eitp__sample_writer *writer, const void *data, size_t size, eitp_error *error) {
    uint64_t *hash = &writer->layout.info.content_hash;
    *hash = eitp__fnv1a(*hash, data, size);
    return eitp__sample_writer_put(writer, data, size, error);
}

/* Returns the bits of a weight. */
static uint32_t eitp__weight_bits(float weight) {
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits;
}

static eitp_status eitp__labelled_put_index(eitp__sample_writer *writer, const eitp__labelled_index *index,
                                            eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_RECORD_SIZE];
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < index->count && status == EITP_OK; i++) {
        eitp__sample_record_write(bytes, &index->entries[i].record);
        status = eitp__labelled_put(writer, bytes, sizeof bytes, error);
    }
    for (size_t i = 0; i < index->value_count && status == EITP_OK; i++) {
        eitp__put_number(bytes, EITP__SAMPLE_VALUE_SIZE, index->values[i]);
        status = eitp__labelled_put(writer, bytes, EITP__SAMPLE_VALUE_SIZE, error);
    }
    for (size_t i = 0; i < writer->layout.weight_count && status == EITP_OK; i++) {
        eitp__put_number(bytes, EITP__SAMPLE_VALUE_SIZE, eitp__weight_bits(index->weights[i]));
        status = eitp__labelled_put(writer, bytes, EITP__SAMPLE_VALUE_SIZE, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__labelled_writer_finish(eitp__sample_writer *writer, eitp__labelled_index *index,
                                                       const eitp__buffer *names, eitp_error *error) {
    static const unsigned char zeros[8] = EITP__ZERO;
    writer->layout.value_count = index->value_count;
    writer->layout.weight_count = index->weights ? index->weight_count : 0;
    writer->layout.info.has_weights = writer->layout.weight_count > 0;
    writer->layout.names_size = names->size;
    eitp__sample_layout_place(&writer->layout);
    eitp_status status = eitp__labelled_compact(writer, index, error);
    if (status == EITP_OK)
        status = eitp__sample_writer_put(writer, zeros, (size_t)(writer->layout.records - writer->offset), error);
    if (status == EITP_OK)
        status = eitp__labelled_put_index(writer, index, error);
    if (status == EITP_OK)
        status = eitp__labelled_put(writer, names->data, names->size, error);
    return status == EITP_OK ? eitp__sample_writer_finish(writer, error) : status;
}
