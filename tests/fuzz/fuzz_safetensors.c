/*
 * Fuzzes the safetensors reader. An input that starts with '{' is a header up to the first zero byte, followed by the
 * data. One that starts with 'I' is an index up to the first zero byte, followed by the content of all files that it
 * names. Any other input is a complete file.
 */
#include "tests/support/everything.h"

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_safetensors: %s\n", what);
        abort();
    }
}

/* A file system: "index", and one file under every other name. */
typedef struct memory_file {
    const uint8_t *data;
    size_t size;
} memory_file;

typedef struct memory_files {
    memory_file index;
    memory_file file;
    int open;
} memory_files;

static int memory_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    memory_files *files = (memory_files *)user;
    require(mode == EITP_FILE_READ, "a file opened for writing");
    require(!strchr(path, '/') || !strncmp(path, "directory/", 10), "a path out of the directory");
    require(!strchr(path + (strchr(path, '/') ? 10 : 0), '/'), "a path out of the directory");
    files->open++;
    *file = strcmp(path, "directory/index") ? &files->file : &files->index;
    return files->open > 50 ? files->open--, EMFILE : 0;
}

static int memory_close(void *user, void *file) {
    (void)file;
    ((memory_files *)user)->open--;
    return 0;
}

static int memory_size(void *user, void *file, uint64_t *size) {
    (void)user;
    *size = ((memory_file *)file)->size;
    return 0;
}

static int memory_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    memory_file *from = (memory_file *)file;
    (void)user;
    *done = 0;
    if (offset >= from->size)
        return 0;
    *done = size < from->size - offset ? size : from->size - (size_t)offset;
    memcpy(data, from->data + offset, *done);
    return 0;
}

static eitp_host memory_host(memory_files *files) {
    eitp_host host = eitp_host_default();
    memset(&host.files, 0, sizeof host.files);
    host.files.user = files;
    host.files.open = memory_open;
    host.files.close = memory_close;
    host.files.size = memory_size;
    host.files.read = memory_read;
    return host;
}

static void read_entry(const eitp__safetensors *collection, const eitp__safetensors_entry *entry, size_t file_size) {
    float values[64];
    unsigned char bytes[64 * 8];
    eitp_error error;
    uint32_t crc = 0;
    int64_t count = entry->count < 64 ? entry->count : 64, product = 1;
    require(entry->offset <= file_size && entry->size <= file_size - entry->offset, "a tensor out of its file");
    for (int i = 0; i < entry->rank; i++)
        product *= entry->shape[i];
    require(product == entry->count, "a count that is not the product of the shape");
    require(eitp__safetensors_find(collection, entry->name) == entry, "a tensor that is not found");
    if (!entry->element_size) {
        require(eitp__safetensors_read(collection, entry, 0, 0, bytes, &crc, &error) == EITP_ERROR_UNSUPPORTED,
                "a tensor that can be read after all");
        return;
    }
    require(entry->size == (uint64_t)entry->count * entry->element_size, "wrong size");
    require(!eitp__safetensors_read(collection, entry, entry->count - count, count, bytes, &crc, &error), "no bytes");
    if (entry->dtype >= 0 && entry->dtype <= EITP_F16)
        require(!eitp__safetensors_read_f32(collection, entry, entry->count - count, count, values, &crc, &error),
                "no values");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_files files;
    eitp_host host = memory_host(&files);
    eitp__safetensors *collection = NULL;
    eitp_error error;
    eitp_status status;
    size_t head = size;
    uint8_t *made = NULL;
    const uint8_t *zero = size ? (const uint8_t *)memchr(data, 0, size) : NULL;
    memset(&files, 0, sizeof files);
    if (zero)
        head = (size_t)(zero - data);
    if (size && data[0] == '{') {
        size_t rest = zero ? size - head - 1 : 0;
        files.file.size = 8 + head + rest;
        files.file.data = made = (uint8_t *)malloc(files.file.size);
        if (!made)
            return 0;
        for (size_t i = 0; i < 8; i++)
            made[i] = (uint8_t)((uint64_t)head >> (8 * i));
        memcpy(made + 8, data, head);
        if (rest)
            memcpy(made + 8 + head, zero + 1, rest);
        status = eitp__safetensors_open(&host, "file", &collection, &error);
    } else if (size && data[0] == 'I') {
        files.index.data = data + 1;
        files.index.size = head - 1;
        files.file.data = zero ? zero + 1 : data;
        files.file.size = zero ? size - head - 1 : 0;
        status = eitp__safetensors_open_index(&host, "directory/index", &collection, &error);
    } else {
        files.file.data = data;
        files.file.size = size;
        status = eitp__safetensors_open(&host, "file", &collection, &error);
    }
    require((status == EITP_OK) == (collection != NULL), "a failure that is none");
    for (size_t i = 0; collection && i < eitp__safetensors_count(collection); i++)
        read_entry(collection, eitp__safetensors_at(collection, i), files.file.size);
    if (collection)
        eitp__safetensors_metadata(collection, "format");
    eitp__safetensors_close(collection);
    require(files.open == 0, "a file that was not closed");
    free(made);
    return 0;
}
