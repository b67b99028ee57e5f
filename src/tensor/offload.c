#include "tensor/offload.h"

/* Variables are aligned to pages. */
#define EITP__OFFLOAD_ALIGNMENT ((uint64_t)4096)

EITP__PRIVATE eitp_status eitp__offload_open(eitp__offload_file *offload, const eitp_host *host, const char *path,
                                             eitp_error *error) {
    eitp_status status;
    memset(offload, 0, sizeof *offload);
    offload->host = *host;
    status = eitp__file_open(&offload->file, &offload->host, path, EITP_FILE_REPLACE, error);
    /* An open file needs no name. Without one, the system frees it when the process ends, however it ends. */
    if (!status)
        offload->is_removed = !host->files.remove(host->files.user, offload->file.path);
    if (status)
        eitp__offload_close(offload);
    return status;
}

EITP__PRIVATE void eitp__offload_close(eitp__offload_file *offload) {
    char *path;
    path = offload->file.path && !offload->is_removed ? eitp__copy_text(&offload->host, offload->file.path) : NULL;
    eitp__file_close(&offload->file, NULL);
    if (path)
        offload->host.files.remove(offload->host.files.user, path);
    eitp__release_text(&offload->host, path);
    memset(offload, 0, sizeof *offload);
}

EITP__PRIVATE eitp_status eitp__offload_check_space(const eitp__offload_file *offload, uint64_t bytes,
                                                    eitp_error *error) {
    const char *path = offload->file.path;
    char *directory = eitp__parent_directory(&offload->host, path);
    uint64_t free_bytes, largest;
    char needs[32], has[32];
    const int is_known = directory && eitp__path_space(&offload->host, directory, &free_bytes, &largest);
    eitp__release_text(&offload->host, directory);
    if (is_known && free_bytes < bytes)
        return eitp__fail(error, EITP_ERROR_IO,
                          "offloaded variables need %s in '%s', and its disk has %s free; free some space, or choose "
                          "another file",
                          eitp_format_bytes(bytes, needs, sizeof needs), path,
                          eitp_format_bytes(free_bytes, has, sizeof has));
    if (is_known && largest < offload->size + bytes)
        return eitp__fail(error, EITP_ERROR_IO,
                          "offloaded variables need %s in '%s', and the files of this process may have %s at most; "
                          "raise the limit (ulimit -f)",
                          eitp_format_bytes(offload->size + bytes, needs, sizeof needs), path,
                          eitp_format_bytes(largest, has, sizeof has));
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__offload_reserve(eitp__offload_file *offload, size_t size, uint64_t *offset,
                                                eitp_error *error) {
    const size_t most = (size_t)64 << 10;
    uint64_t begin = (offload->size + EITP__OFFLOAD_ALIGNMENT - 1) / EITP__OFFLOAD_ALIGNMENT * EITP__OFFLOAD_ALIGNMENT;
    void *zeros = eitp__allocate(&offload->host, most);
    eitp_status status = zeros ? EITP_OK : eitp__fail_memory(error, most, "the file of offloaded variables");
    for (size_t done = 0; done < size && !status; done += most) {
        size_t part = size - done < most ? size - done : most;
        status = eitp__file_write(&offload->file, begin + done, zeros, part, error);
    }
    eitp__release(&offload->host, zeros, most);
    if (status)
        return status;
    offload->size = begin + size;
    *offset = begin;
    return EITP_OK;
}

static eitp_status eitp__offload_read(void *user, uint64_t offset, void *memory, size_t size, eitp_error *error) {
    return eitp__file_read(&((eitp__offload_file *)user)->file, offset, memory, size, error);
}

static eitp_status eitp__offload_write(void *user, uint64_t offset, const void *memory, size_t size,
                                       eitp_error *error) {
    return eitp__file_write(&((eitp__offload_file *)user)->file, offset, memory, size, error);
}

EITP__PRIVATE eitp__storage eitp__offload_storage(eitp__offload_file *offload) {
    eitp__storage storage;
    storage.user = offload;
    storage.read = eitp__offload_read;
    storage.write = eitp__offload_write;
    return storage;
}
