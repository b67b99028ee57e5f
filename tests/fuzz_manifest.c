/* Fuzzes manifest.json: an error, or files within the checkpoint. The input is read as it is, and with its checksum. */
#include "tests/everything.h"

/* A file system with one file. */
typedef struct one_file {
    const char *data;
    size_t size;
} one_file;

static int one_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    (void)path;
    *file = user;
    return mode == EITP_FILE_READ ? 0 : EROFS;
}

static int one_close(void *user, void *file) {
    (void)user;
    (void)file;
    return 0;
}

static int one_size(void *user, void *file, uint64_t *size) {
    (void)user;
    *size = ((const one_file *)file)->size;
    return 0;
}

static int one_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const one_file *one = (const one_file *)file;
    (void)user;
    *done = offset < one->size ? one->size - (size_t)offset : 0;
    if (*done > size)
        *done = size;
    if (*done)
        memcpy(data, one->data + offset, *done);
    return 0;
}

static int one_info(void *user, const char *path, eitp_path_info *info) {
    (void)path;
    memset(info, 0, sizeof *info);
    info->kind = EITP_PATH_FILE;
    info->size = ((const one_file *)user)->size;
    return 0;
}

static void read_manifest(const char *data, size_t size) {
    eitp_host host = eitp_host_default();
    eitp__manifest manifest;
    eitp_error error;
    one_file one;
    int exists;
    one.data = data;
    one.size = size;
    host.files.user = &one;
    host.files.open = one_open;
    host.files.close = one_close;
    host.files.size = one_size;
    host.files.read = one_read;
    host.files.info = one_info;
    eitp__manifest_init(&manifest, &host, -1, 1);
    if (!eitp__manifest_read(&manifest, "checkpoint", &exists, &error)) {
        if (!exists || manifest.step < 0)
            abort();
        for (size_t i = 0; i < manifest.count; i++) {
            const char *name = manifest.names.data + manifest.files[i].name;
            if (!*name || *name == '/' || !strncmp(name, "../", 3) || strstr(name, "/../") || !strcmp(name, ".."))
                abort();
        }
    }
    eitp__manifest_release(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp__buffer text;
    read_manifest((const char *)data, size);
    eitp__buffer_init(&text, &host);
    eitp__buffer_add(&text, data, size);
    eitp__buffer_format(&text, "%08x\"\n}\n", (unsigned)eitp__crc32c(0, data, size));
    if (!text.failed)
        read_manifest(text.data, text.size);
    eitp__buffer_release(&text);
    return 0;
}
