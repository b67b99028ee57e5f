#include "data/sample_bytes.h"

#include "base/checksum.h"
#include "base/little_endian.h"

enum { EITP__SAMPLE_READ_BYTES = 8192 };

EITP__PRIVATE eitp_status eitp__sample_read_bytes(const eitp_sample_file *file, uint64_t offset, void *bytes,
                                                  size_t size, eitp_error *error) {
    eitp__file handle = file->file;
    eitp_status status = eitp__file_read(&handle, offset, bytes, size, error);
    if (status == EITP_ERROR_FORMAT)
        return eitp__fail(error, EITP_ERROR_IO, "'%s' changed while it was read: it ends before byte %llu; restore it",
                          file->file.path, (unsigned long long)(offset + size));
    return status;
}

EITP__PRIVATE eitp_status eitp__sample_read_piece(const eitp_sample_file *file, uint64_t offset, void *bytes,
                                                  size_t size, eitp_error *error) {
    return eitp__poll_ask(&file->poll) ? eitp__fail_interrupted(error)
                                       : eitp__sample_read_bytes(file, offset, bytes, size, error);
}

/* Returns the limit that ids must be below. */
static uint32_t eitp__sample_id_limit(const eitp_sample_file *file, eitp__id_vocabulary whose) {
    const eitp_sample_file_info *info = &file->layout.info;
    const uint32_t second = (uint32_t)info->second_vocabulary;
    uint32_t limit = info->vocabulary_size ? (uint32_t)info->vocabulary_size : 65536;
    if (whose == EITP__IDS_OF_SECOND)
        return second;
    if (whose == EITP__IDS_OF_EITHER && limit < second)
        limit = second;
    return limit < file->limit ? limit : file->limit;
}

/* Decodes and checks stored ids; `first` is the number of the first one. */
static eitp_status eitp__sample_decode(const eitp_sample_file *file, const unsigned char *bytes, uint32_t limit,
                                       uint64_t first, size_t count, int32_t *ids, eitp_error *error) {
    const size_t element = (size_t)file->layout.info.element_size;
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = (uint32_t)eitp__get_number(bytes + i * element, element);
        if (id >= limit)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: token %llu has id %lu, but the vocabulary has %lu; the file is damaged or was "
                              "packed with another tokenizer: pack it again",
                              file->file.path, (unsigned long long)(first + i), (unsigned long)id,
                              (unsigned long)limit);
        if (ids)
            ids[i] = (int32_t)id;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sample_read_ids(const eitp_sample_file *file, eitp__id_vocabulary whose, uint64_t first,
                                                uint64_t count, int32_t *ids, uint32_t *crc, eitp_error *error) {
    unsigned char bytes[EITP__SAMPLE_READ_BYTES];
    const size_t element = (size_t)file->layout.info.element_size, chunk = sizeof bytes / element;
    const uint32_t limit = eitp__sample_id_limit(file, whose);
    for (uint64_t done = 0; done < count;) {
        const size_t now = count - done < chunk ? (size_t)(count - done) : chunk;
        const uint64_t offset = file->layout.ids + (first + done) * element;
        eitp_status status = eitp__sample_read_bytes(file, offset, bytes, now * element, error);
        if (status == EITP_OK)
            status = eitp__sample_decode(file, bytes, limit, first + done, now, ids ? ids + done : NULL, error);
        if (status != EITP_OK)
            return status;
        if (crc)
            *crc = eitp__crc32c(*crc, bytes, now * element);
        done += now;
    }
    return EITP_OK;
}
