/*
 * Writes files as torch.save does: a pickle of tensors, and a zip archive. Include it after eitp's declarations.
 *
 *     byte_buffer pickle = EITP__ZERO, archive = EITP__ZERO;
 *     pickle_begin(&pickle);
 *     pickle_tensor(&pickle, "a", "FloatStorage", "0", 6, 0, 2, shape, stride);
 *     pickle_end(&pickle);
 *     zip_begin(&zip, &archive);
 *     zip_add(&zip, "m/data.pkl", pickle.data, pickle.size);
 *     zip_add(&zip, "m/data/0", values, 24);
 *     zip_end(&zip);
 *
 * Programs release `data` with free.
 */
#ifndef EITP_TEST_PYTORCH_FILE_H
#define EITP_TEST_PYTORCH_FILE_H

#include "base/little_endian.h"

#include <stdlib.h>

#define PYTORCH_FILE_UNUSED __attribute__((unused))

typedef struct byte_buffer {
    unsigned char *data;
    size_t size, capacity;
} byte_buffer;

static PYTORCH_FILE_UNUSED void bytes_add(byte_buffer *bytes, const void *data, size_t size) {
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = 2 * (bytes->size + size);
        bytes->data = (unsigned char *)realloc(bytes->data, bytes->capacity);
        if (!bytes->data)
            abort();
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static PYTORCH_FILE_UNUSED void bytes_number(byte_buffer *bytes, uint64_t number, size_t size) {
    unsigned char data[8];
    eitp__put_number(data, size, number);
    bytes_add(bytes, data, size);
}

/* ---- Pickles ---- */

static PYTORCH_FILE_UNUSED void pickle_code(byte_buffer *pickle, const char *codes) {
    bytes_add(pickle, codes, strlen(codes));
}

static PYTORCH_FILE_UNUSED void pickle_text(byte_buffer *pickle, const char *text) {
    pickle_code(pickle, "X");
    bytes_number(pickle, strlen(text), 4);
    pickle_code(pickle, text);
}

static PYTORCH_FILE_UNUSED void pickle_number(byte_buffer *pickle, int64_t number) {
    pickle_code(pickle, "\x8a\x08");
    bytes_number(pickle, (uint64_t)number, 8);
}

static PYTORCH_FILE_UNUSED void pickle_numbers(byte_buffer *pickle, int count, const int64_t *numbers) {
    pickle_code(pickle, "(");
    for (int i = 0; i < count; i++)
        pickle_number(pickle, numbers[i]);
    pickle_code(pickle, "t");
}

static PYTORCH_FILE_UNUSED void pickle_begin(byte_buffer *pickle) {
    pickle_code(pickle, "\x80\x02}(");
}

static PYTORCH_FILE_UNUSED void pickle_storage(byte_buffer *pickle, const char *type, const char *key, int64_t count) {
    pickle_code(pickle, "(");
    pickle_text(pickle, "storage");
    pickle_code(pickle, "ctorch\n");
    pickle_code(pickle, type);
    pickle_code(pickle, "\n");
    pickle_text(pickle, key);
    pickle_text(pickle, "cpu");
    pickle_number(pickle, count);
    pickle_code(pickle, "tQ");
}

static PYTORCH_FILE_UNUSED void pickle_tensor(byte_buffer *pickle, const char *name, const char *type, const char *key,
                                              int64_t storage_count, int64_t offset, int rank, const int64_t *shape,
                                              const int64_t *stride) {
    pickle_text(pickle, name);
    pickle_code(pickle, "ctorch._utils\n_rebuild_tensor_v2\n(");
    pickle_storage(pickle, type, key, storage_count);
    pickle_number(pickle, offset);
    pickle_numbers(pickle, rank, shape);
    pickle_numbers(pickle, rank, stride);
    pickle_code(pickle, "\x89}tR");
}

static PYTORCH_FILE_UNUSED void pickle_end(byte_buffer *pickle) {
    pickle_code(pickle, "u.");
}

/* ---- Archives ---- */

typedef struct zip_writer {
    byte_buffer *archive;
    byte_buffer directory;
    uint64_t count;
    int is_zip64; /* numbers are in zip64 records, regardless of their size */
} zip_writer;

static PYTORCH_FILE_UNUSED void zip_begin(zip_writer *zip, byte_buffer *archive) {
    memset(zip, 0, sizeof *zip);
    zip->archive = archive;
}

static PYTORCH_FILE_UNUSED void zip_add(zip_writer *zip, const char *name, const void *data, size_t size) {
    const uint64_t header = zip->archive->size, narrow = zip->is_zip64 ? UINT32_MAX : size;
    byte_buffer *archive = zip->archive, *directory = &zip->directory;
    bytes_add(archive, "PK\3\4", 4);
    bytes_number(archive, 0, 8);
    bytes_number(archive, 0, 6);
    bytes_number(archive, narrow, 4);
    bytes_number(archive, narrow, 4);
    bytes_number(archive, strlen(name), 2);
    bytes_number(archive, 7, 2); /* an extra field, for padding */
    bytes_add(archive, name, strlen(name));
    bytes_add(archive, "FB\3\0ZZZ", 7);
    bytes_add(archive, data, size);

    bytes_add(directory, "PK\1\2", 4);
    bytes_number(directory, 0, 8);
    bytes_number(directory, 0, 8);
    bytes_number(directory, narrow, 4);
    bytes_number(directory, narrow, 4);
    bytes_number(directory, strlen(name), 2);
    bytes_number(directory, zip->is_zip64 ? 5 + 28 : 0, 2);
    bytes_number(directory, 0, 8);
    bytes_number(directory, 0, 2);
    bytes_number(directory, zip->is_zip64 ? UINT32_MAX : header, 4);
    bytes_add(directory, name, strlen(name));
    if (zip->is_zip64) {
        bytes_add(directory, "ab\1\0c\1\0\30\0", 9);
        bytes_number(directory, size, 8);
        bytes_number(directory, size, 8);
        bytes_number(directory, header, 8);
    }
    zip->count++;
}

static PYTORCH_FILE_UNUSED void zip_end(zip_writer *zip) {
    byte_buffer *archive = zip->archive;
    const uint64_t at = archive->size, size = zip->directory.size;
    bytes_add(archive, zip->directory.data, zip->directory.size);
    if (zip->is_zip64) {
        bytes_add(archive, "PK\6\6", 4);
        bytes_number(archive, 44, 8);
        bytes_number(archive, 0, 8);
        bytes_number(archive, 0, 4);
        bytes_number(archive, zip->count, 8);
        bytes_number(archive, zip->count, 8);
        bytes_number(archive, size, 8);
        bytes_number(archive, at, 8);
        bytes_add(archive, "PK\6\7", 4);
        bytes_number(archive, 0, 4);
        bytes_number(archive, at + size, 8);
        bytes_number(archive, 1, 4);
    }
    bytes_add(archive, "PK\5\6", 4);
    bytes_number(archive, 0, 4);
    bytes_number(archive, zip->is_zip64 ? UINT16_MAX : zip->count, 2);
    bytes_number(archive, zip->is_zip64 ? UINT16_MAX : zip->count, 2);
    bytes_number(archive, zip->is_zip64 ? UINT32_MAX : size, 4);
    bytes_number(archive, zip->is_zip64 ? UINT32_MAX : at, 4);
    bytes_number(archive, 0, 2);
    free(zip->directory.data);
    memset(&zip->directory, 0, sizeof zip->directory);
}

#endif
