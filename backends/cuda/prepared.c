#include "backends/cuda/prepared.h"

#include "base/files.h"
#include "base/log.h"

#if EITP__WITH_CUDA

EITP__PRIVATE uint64_t eitp__cuda_prepared_key(int capability, const eitp__kernel_source *source) {
    char target[32];
    snprintf(target, sizeof target, "prepared sm_%d", capability);
    return eitp__cuda_source_key(target, source);
}

/* Reads which NVRTC compiled the kernels. */
static eitp_status eitp__read_prepared_compiler(eitp__cuda_prepared *prepared, eitp_error *error) {
    eitp_error cause = EITP__ZERO;
    eitp__buffer text;
    eitp_status status;
    char path[450], line[32];
    snprintf(path, sizeof path, "%s/" EITP__CUDA_PREPARED_COMPILER, prepared->files.folder);
    eitp__buffer_init(&text, prepared->files.host);
    status = eitp__read_file(prepared->files.host, path, 1000, &text, &cause);
    if (status) {
        eitp__fail(error, status, "no compiled kernels in EITP_CUDA_KERNELS: %.450s", cause.message);
    } else {
        snprintf(line, sizeof line, "%.*s", (int)text.size, text.data ? text.data : "");
        if (sscanf(line, "NVRTC %d.%d", &prepared->major, &prepared->minor) != 2)
            status = eitp__fail(error, EITP_ERROR_FORMAT,
                                "no compiled kernels in EITP_CUDA_KERNELS: '%s' does not name their compiler", path);
    }
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_prepared_open(eitp__cuda_prepared *prepared, const eitp_host *host, int capability,
                                                   eitp_error *error) {
    const char *folder = getenv("EITP_CUDA_KERNELS");
    memset(prepared, 0, sizeof *prepared);
    prepared->files.host = host;
    prepared->capability = capability;
    if (!folder || !*folder)
        return EITP_OK;
    if (strlen(folder) >= sizeof prepared->files.folder)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the path in EITP_CUDA_KERNELS is longer than %zu bytes",
                          sizeof prepared->files.folder - 1);
    snprintf(prepared->files.folder, sizeof prepared->files.folder, "%s", folder);
    return eitp__read_prepared_compiler(prepared, error);
}

/* Fails because a kernel is not there, or is damaged, and cannot be compiled. */
static eitp_status eitp__fail_prepared(const eitp__cuda_prepared *prepared, const eitp__kernel_source *source,
                                       const char *damage, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "no kernel %s of %s (%s) for sm_%d in '%s' (EITP_CUDA_KERNELS)%s%.200s, and it cannot be "
                      "compiled: %s",
                      source->kernel, source->file, source->definitions, prepared->capability, prepared->files.folder,
                      *damage ? ": " : "", damage, prepared->unavailable.message);
}

static eitp_status eitp__find_prepared(const eitp__cuda_prepared *prepared, eitp__cuda_image *image,
                                       eitp_error *error) {
    const uint64_t key = eitp__cuda_prepared_key(prepared->capability, &image->source);
    const int is_there = eitp__cuda_cache_has(&prepared->files, key);
    eitp_error damage = EITP__ZERO;
    if (is_there)
        image->is_prepared = !eitp__cuda_cache_read(&prepared->files, key, &image->data, &damage);
    if (damage.status == EITP_ERROR_MEMORY) {
        if (error)
            *error = damage;
        return EITP_ERROR_MEMORY;
    }
    if (!image->is_prepared && prepared->unavailable.status)
        return eitp__fail_prepared(prepared, &image->source, damage.message, error);
    if (damage.status)
        eitp__log_line(prepared->files.host, EITP_LOG_WARNING, "%s; compiling the kernel %s", damage.message,
                       image->source.kernel);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_prepared_find(const eitp__cuda_prepared *prepared, eitp__cuda_image *images,
                                                   size_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status && *prepared->files.folder; i++)
        if (!images[i].data.size)
            status = eitp__find_prepared(prepared, &images[i], error);
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_prepared_give_up(eitp__cuda_prepared *prepared, const eitp__cuda_image *image,
                                                      eitp_error *error) {
    char cause[300];
    snprintf(cause, sizeof cause, "%.299s", error ? error->message : "");
    if (prepared->unavailable.status)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the driver cannot load the kernel %s of '%s' (EITP_CUDA_KERNELS), compiled with NVRTC "
                          "%d.%d: %s",
                          image->source.kernel, prepared->files.folder, prepared->major, prepared->minor, cause);
    eitp__log_line(prepared->files.host, EITP_LOG_WARNING,
                   "compiling all kernels, because the driver cannot load %s of '%s' (EITP_CUDA_KERNELS): %s",
                   image->source.kernel, prepared->files.folder, cause);
    prepared->files.folder[0] = 0;
    return EITP_OK;
}

#endif
