/*
 * Fuzzes the reader of PyTorch's files. An input that starts with 'P' is a complete file. Any other is a pickle, which
 * is put into an archive with storages '0' to '3' of 24, 8, 32 and 0 bytes.
 */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"
#include "tests/support/pytorch_file.h"

#include "io/pytorch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_pytorch: %s\n", what);
        abort();
    }
}

static void read_entry(const eitp__safetensors *collection, const eitp__safetensors_entry *entry, size_t file_size) {
    float values[64];
    unsigned char bytes[64 * 8];
    eitp_error error;
    int64_t count = entry->count < 64 ? entry->count : 64, product = 1;
    require(entry->offset <= file_size && entry->size <= file_size - entry->offset, "a tensor out of its file");
    for (int i = 0; i < entry->rank; i++)
        product *= entry->shape[i];
    require(product == entry->count, "a count that is not the product of the shape");
    require(eitp__safetensors_find(collection, entry->name) == entry, "a tensor that is not found");
    require(entry->element_size && entry->size == (uint64_t)entry->count * entry->element_size, "wrong size");
    require(!eitp__safetensors_read(collection, entry, entry->count - count, count, bytes, NULL, &error), "no bytes");
    if (entry->dtype >= 0 && eitp__is_floating((eitp_dtype)entry->dtype))
        require(!eitp__safetensors_read_f32(collection, entry, entry->count - count, count, values, NULL, &error),
                "no values");
}

static void put_pickle(byte_buffer *archive, const uint8_t *data, size_t size) {
    static const unsigned char zeros[32] = {0};
    zip_writer zip;
    zip_begin(&zip, archive);
    zip_add(&zip, "m/data.pkl", data, size);
    zip_add(&zip, "m/data/0", zeros, 24);
    zip_add(&zip, "m/data/1", zeros, 8);
    zip_add(&zip, "m/data/2", zeros, 32);
    zip_add(&zip, "m/data/3", zeros, 0);
    zip_end(&zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    byte_buffer archive = EITP__ZERO;
    one_file file;
    eitp__safetensors *collection = NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status;
    file.data = data;
    file.size = size;
    if (size && data[0] != 'P') {
        put_pickle(&archive, data, size);
        file.data = archive.data;
        file.size = archive.size;
    }
    const eitp_host host = one_file_host(&file);
    status = eitp__pytorch_open(&host, "file", &collection, &error);
    require(status == EITP_OK || status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED,
            "an unexpected status");
    require((status == EITP_OK) == (collection != NULL), "a failure that is none");
    require(status == EITP_OK || strlen(error.message) > 10, "no message");
    for (size_t i = 0; collection && i < eitp__safetensors_count(collection); i++)
        read_entry(collection, eitp__safetensors_at(collection, i), file.size);
    eitp__safetensors_close(collection);
    free(archive.data);
    return 0;
}
