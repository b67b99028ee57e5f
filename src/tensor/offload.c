#include "tensor/offload.h"

#include "tensor/context.h"

/* Variables are aligned to pages. */
#define EITP__OFFLOAD_ALIGNMENT ((uint64_t)4096)

/* Start of a file of offloaded variables; the variables follow on the next page. */
static const char eitp__offload_mark[16] = "eitp offloaded\n";

/* ---- Opening and closing ---- */

/* True if the first `size` bytes of a file, or all bytes of a shorter one, are a complete mark, or a mark that was
   being written when the machine lost power. */
static int eitp__offload_is_mark(const char *bytes, size_t size, int is_whole_file) {
    int is_mark = size == sizeof eitp__offload_mark, is_torn = is_whole_file;
    for (size_t i = 0; i < size; i++) {
        is_mark &= bytes[i] == eitp__offload_mark[i];
        is_torn &= !bytes[i] || bytes[i] == eitp__offload_mark[i];
    }
    return is_mark || is_torn;
}

/* Fails if the path exists and is not a file of offloaded variables. Such a file may remain where the system could not
   remove an open file. */
static eitp_status eitp__offload_check_path(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp__file file = EITP__ZERO;
    char bytes[sizeof eitp__offload_mark];
    size_t size = 0;
    eitp_status status = eitp__path_info(host, path, &info, error);
    int is_ours = 0;
    if (status || info.kind == EITP_PATH_MISSING)
        return status;
    if (info.kind == EITP_PATH_FILE) {
        status = eitp__file_open(&file, host, path, EITP_FILE_READ, error);
        if (!status)
            status = eitp__file_read_some(&file, 0, bytes, sizeof bytes, &size, error);
        eitp__file_close(&file, NULL);
        is_ours = !status && eitp__offload_is_mark(bytes, size, info.size <= sizeof bytes);
    }
    return status || is_ours ? status
                             : eitp__fail(error, EITP_ERROR_ARGUMENT,
                                          "'%s' exists and is not a file of offloaded variables; choose another "
                                          "name for their file",
                                          path);
}

EITP__PRIVATE eitp_status eitp__offload_open_file(eitp__offload_store *store, const eitp_host *host, const char *path,
                                                  eitp_error *error) {
    eitp_status status = eitp__offload_check_path(host, path, error);
    memset(store, 0, sizeof *store);
    store->host = *host;
    store->size = EITP__OFFLOAD_ALIGNMENT;
    if (!status)
        status = eitp__file_open(&store->file, &store->host, path, EITP_FILE_REPLACE, error);
    if (!status)
        status = eitp__file_write(&store->file, 0, eitp__offload_mark, sizeof eitp__offload_mark, error);
    if (!status)
        status = eitp__file_sync(&store->file, error);
    /* An open file needs no name. Without one, the system frees the file when the process ends, even after a crash. */
    if (!status)
        store->is_removed = !host->files.remove(host->files.user, store->file.path);
    if (status)
        eitp__offload_close(store);
    return status;
}

EITP__PRIVATE void eitp__offload_open_memory(eitp__offload_store *store, eitp__backend *backend) {
    memset(store, 0, sizeof *store);
    store->host = backend->host;
    store->backend = backend;
}

static void eitp__offload_close_file(eitp__offload_store *store) {
    char *path = store->file.path && !store->is_removed ? eitp__copy_text(&store->host, store->file.path) : NULL;
    eitp__file_close(&store->file, NULL);
    if (path)
        store->host.files.remove(store->host.files.user, path);
    eitp__release_text(&store->host, path);
}

EITP__PRIVATE void eitp__offload_close(eitp__offload_store *store) {
    eitp__offload_close_file(store);
    for (size_t i = 0; i < store->block_count; i++)
        store->backend->interface->release(store->backend, EITP__PLACE_HOST, store->blocks[i].memory,
                                           store->blocks[i].size);
    eitp__release(&store->host, store->blocks, store->block_capacity * sizeof *store->blocks);
    memset(store, 0, sizeof *store);
}

/* ---- Room ---- */

EITP__PRIVATE uint64_t eitp__offload_room(size_t size) {
    return (size + EITP__OFFLOAD_ALIGNMENT - 1) / EITP__OFFLOAD_ALIGNMENT * EITP__OFFLOAD_ALIGNMENT;
}

static eitp_status eitp__offload_check_space(const eitp__offload_store *store, uint64_t bytes, eitp_error *error) {
    const char *path = store->file.path;
    char *directory = eitp__parent_directory(&store->host, path);
    uint64_t free_bytes, largest;
    char needs[32], has[32];
    const int is_known = directory && eitp__path_space(&store->host, directory, &free_bytes, &largest);
    eitp__release_text(&store->host, directory);
    if (is_known && free_bytes < bytes)
        return eitp__fail(
            error, EITP_ERROR_IO,
            "offloaded variables need %s in '%s', but the disk has only %s free; free some space or choose "
            "another file",
            eitp_format_bytes(bytes, needs, sizeof needs), path, eitp_format_bytes(free_bytes, has, sizeof has));
    if (is_known && largest < store->size + bytes)
        return eitp__fail(error, EITP_ERROR_IO,
                          "offloaded variables need %s in '%s', but this process may only write files of up to %s; "
                          "raise the limit (ulimit -f)",
                          eitp_format_bytes(store->size + bytes, needs, sizeof needs), path,
                          eitp_format_bytes(largest, has, sizeof has));
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__offload_extend(eitp__offload_store *store, uint64_t bytes, eitp_error *error) {
    eitp__backend *backend = store->backend;
    eitp__segment *block;
    if (!backend)
        return eitp__offload_check_space(store, bytes, error);
    if (!eitp__reserve(&store->host, (void **)&store->blocks, &store->block_capacity, store->block_count + 1,
                       sizeof *store->blocks))
        return eitp__fail_memory(error, sizeof *store->blocks, "the list of offloaded variables");
    block = &store->blocks[store->block_count];
    block->size = (size_t)bytes;
    block->memory = backend->interface->allocate(backend, EITP__PLACE_HOST, block->size);
    if (!block->memory)
        return eitp__fail_memory(error, block->size, "offloaded variables, in the memory of the host");
    store->block_count++;
    return EITP_OK;
}

static eitp_status eitp__offload_clear(eitp__offload_store *store, uint64_t begin, size_t size, eitp_error *error) {
    const size_t most = (size_t)64 << 10;
    void *zeros = eitp__allocate(&store->host, most);
    eitp_status status = zeros ? EITP_OK : eitp__fail_memory(error, most, "the file of offloaded variables");
    for (size_t done = 0; done < size && !status; done += most) {
        size_t part = size - done < most ? size - done : most;
        status = eitp__file_write(&store->file, begin + done, zeros, part, error);
    }
    eitp__release(&store->host, zeros, most);
    return status;
}

EITP__PRIVATE eitp_status eitp__offload_reserve(eitp__offload_store *store, size_t size, uint64_t *offset,
                                                eitp_error *error) {
    const uint64_t begin = store->size;
    const eitp_status status = store->backend ? EITP_OK : eitp__offload_clear(store, begin, size, error);
    if (status)
        return status;
    store->size = begin + eitp__offload_room(size);
    *offset = begin;
    return EITP_OK;
}

/* ---- Copies ---- */

static void *eitp__offload_address(void *user, uint64_t offset) {
    const eitp__offload_store *store = (const eitp__offload_store *)user;
    size_t i = 0;
    while (offset >= store->blocks[i].size)
        offset -= store->blocks[i++].size;
    return (char *)store->blocks[i].memory + offset;
}

static eitp_status eitp__offload_read(void *user, uint64_t offset, void *memory, size_t size, eitp_error *error) {
    eitp__offload_store *store = (eitp__offload_store *)user;
    if (!store->backend)
        return eitp__file_read(&store->file, offset, memory, size, error);
    memcpy(memory, eitp__offload_address(user, offset), size);
    return EITP_OK;
}

static eitp_status eitp__offload_write(void *user, uint64_t offset, const void *memory, size_t size,
                                       eitp_error *error) {
    eitp__offload_store *store = (eitp__offload_store *)user;
    if (!store->backend)
        return eitp__file_write(&store->file, offset, memory, size, error);
    memcpy(eitp__offload_address(user, offset), memory, size);
    return EITP_OK;
}

EITP__PRIVATE eitp__storage eitp__offload_storage(eitp__offload_store *store) {
    eitp__storage storage;
    storage.user = store;
    storage.address = store->backend ? eitp__offload_address : NULL;
    storage.read = eitp__offload_read;
    storage.write = eitp__offload_write;
    return storage;
}

EITP__PRIVATE double eitp__offload_seconds(const eitp_context *context, double reads, double writes) {
    return context->offloaded.backend ? (reads + writes) / EITP__OFFLOAD_MEMORY_RATE
                                      : reads / EITP__OFFLOAD_FILE_READ_RATE + writes / EITP__OFFLOAD_FILE_WRITE_RATE;
}
