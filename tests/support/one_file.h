/* An in-memory file system for reading, with the same file under every name. Include it after eitp's declarations. */
#ifndef EITP_TEST_ONE_FILE_H
#define EITP_TEST_ONE_FILE_H

#define ONE_FILE_UNUSED __attribute__((unused))

typedef struct one_file {
    const void *data;
    size_t size;
} one_file;

static ONE_FILE_UNUSED int one_file_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    (void)path;
    *file = user;
    return mode == EITP_FILE_READ ? 0 : EROFS;
}

static ONE_FILE_UNUSED int one_file_close(void *user, void *file) {
    (void)user;
    (void)file;
    return 0;
}

static ONE_FILE_UNUSED int one_file_size(void *user, void *file, uint64_t *size) {
    (void)user;
    *size = ((const one_file *)file)->size;
    return 0;
}

static ONE_FILE_UNUSED int one_file_read(void *user, void *file, uint64_t offset, void *data, size_t size,
                                         size_t *done) {
    const one_file *one = (const one_file *)file;
    (void)user;
    *done = offset < one->size ? one->size - (size_t)offset : 0;
    if (*done > size)
        *done = size;
    if (*done)
        memcpy(data, (const char *)one->data + offset, *done);
    return 0;
}

static ONE_FILE_UNUSED int one_file_info(void *user, const char *path, eitp_path_info *info) {
    (void)path;
    memset(info, 0, sizeof *info);
    info->kind = EITP_PATH_FILE;
    info->size = ((const one_file *)user)->size;
    return 0;
}

/* Returns a host that reads the file. It must not move. */
static ONE_FILE_UNUSED eitp_host one_file_host(one_file *one) {
    eitp_host host = eitp_host_default();
    host.files.user = one;
    host.files.open = one_file_open;
    host.files.close = one_file_close;
    host.files.size = one_file_size;
    host.files.read = one_file_read;
    host.files.info = one_file_info;
    return host;
}

#endif
