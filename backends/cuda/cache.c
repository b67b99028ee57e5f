#include "backends/cuda/cache.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/log.h"

#if EITP__WITH_CUDA

/* The header of a cache file. */
typedef struct eitp__image_header {
    char magic[8];
    uint64_t key, size;
    uint32_t crc, reserved;
} eitp__image_header;

static const char eitp__image_magic[8] = {'E', 'I', 'T', 'P', 'C', 'U', 'D', '1'};

#define EITP__LARGEST_IMAGE ((size_t)64 << 20)

EITP__PRIVATE void eitp__cuda_cache_open(eitp__cuda_cache *cache, const eitp_host *host) {
    const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    eitp_error error;
    int length = 0;
    memset(cache, 0, sizeof *cache);
    cache->host = host;
    if (folder && *folder)
        length = snprintf(cache->folder, sizeof cache->folder, "%s/eitp/kernels", folder);
    else if (home && *home)
        length = snprintf(cache->folder, sizeof cache->folder, "%s/.cache/eitp/kernels", home);
    if (length >= (int)sizeof cache->folder)
        cache->folder[0] = 0;
    if (*cache->folder && eitp__make_directories(host, cache->folder, &error)) {
        eitp__log_line(host, EITP_LOG_WARNING, "not caching compiled kernels: %s", error.message);
        cache->folder[0] = 0;
    }
}

static void eitp__image_path(const eitp__cuda_cache *cache, uint64_t key, char *path, size_t size) {
    snprintf(path, size, "%s/%016llx.kernels", cache->folder, (unsigned long long)key);
}

EITP__PRIVATE int eitp__cuda_cache_has(const eitp__cuda_cache *cache, uint64_t key) {
    char path[450];
    int is_file = 0;
    eitp__image_path(cache, key, path, sizeof path);
    return *cache->folder && !eitp__path_is_file(cache->host, path, &is_file, NULL) && is_file;
}

static int eitp__is_whole_image(const eitp__buffer *file, uint64_t key) {
    eitp__image_header header;
    if (file->size < sizeof header)
        return 0;
    memcpy(&header, file->data, sizeof header);
    return !memcmp(header.magic, eitp__image_magic, sizeof header.magic) && header.key == key &&
           header.size == file->size - sizeof header &&
           header.crc == eitp__crc32c(0, file->data + sizeof header, file->size - sizeof header);
}

EITP__PRIVATE eitp_status eitp__cuda_cache_read(const eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image,
                                                eitp_error *error) {
    const size_t start = sizeof(eitp__image_header);
    eitp__buffer file;
    eitp_status status;
    char path[450];
    eitp__buffer_init(&file, cache->host);
    eitp__image_path(cache, key, path, sizeof path);
    status = eitp__read_file(cache->host, path, EITP__LARGEST_IMAGE, &file, error);
    if (!status && !eitp__is_whole_image(&file, key))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged", path);
    if (!status)
        eitp__buffer_add(image, file.data + start, file.size - start);
    if (!status && image->failed)
        status = eitp__fail_memory(error, file.size, "compiled kernels");
    eitp__buffer_release(&file);
    return status;
}

EITP__PRIVATE int eitp__cuda_cache_find(const eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image) {
    return *cache->folder && !eitp__cuda_cache_read(cache, key, image, NULL);
}

EITP__PRIVATE void eitp__cuda_cache_store(const eitp__cuda_cache *cache, uint64_t key, const eitp__buffer *image) {
    eitp__image_header header = EITP__ZERO;
    eitp__buffer file;
    eitp_error error;
    char path[450];
    if (!*cache->folder)
        return;
    memcpy(header.magic, eitp__image_magic, sizeof header.magic);
    header.key = key;
    header.size = image->size;
    header.crc = eitp__crc32c(0, image->data, image->size);
    eitp__buffer_init(&file, cache->host);
    eitp__buffer_add(&file, &header, sizeof header);
    eitp__buffer_add(&file, image->data, image->size);
    eitp__image_path(cache, key, path, sizeof path);
    if (!file.failed && eitp__replace_file(cache->host, path, file.data, file.size, &error))
        eitp__log_line(cache->host, EITP_LOG_WARNING, "not caching compiled kernels: %s", error.message);
    eitp__buffer_release(&file);
}

EITP__PRIVATE int eitp__cuda_cache_lock(eitp__cuda_cache *cache) {
    const eitp_files *files = &cache->host->files;
    int code = 0;
    if (!*cache->folder || !files->lock || cache->lock)
        return 1;
    code = files->lock(files->user, cache->folder, &cache->lock);
    if (code)
        cache->lock = NULL;
    return code != EWOULDBLOCK;
}

EITP__PRIVATE void eitp__cuda_cache_unlock(eitp__cuda_cache *cache) {
    if (cache->lock)
        cache->host->files.unlock(cache->host->files.user, cache->lock);
    cache->lock = NULL;
}

#endif
