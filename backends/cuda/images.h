/* Images of kernels for the driver: found in the cache, or compiled on several threads. */
#ifndef EITP_CUDA_IMAGES_H
#define EITP_CUDA_IMAGES_H

#include "backends/backend.h"
#include "backends/cuda/cache.h"
#include "backends/cuda/compiler.h"

#if EITP__WITH_CUDA

typedef struct eitp__cuda_image {
    eitp__kernel_source source;
    uint64_t key;
    eitp__buffer data; /* empty: missing */
    int is_prepared;   /* it was compiled before, perhaps with another NVRTC: see prepared.h */
} eitp__cuda_image;

/*
 * Fills in the missing images. Those that are in the cache are read. The others are compiled on up to `threads` threads
 * and stored, while other processes that need them wait. Logs that it compiles, and its progress. After a failure no
 * further compilation starts. If `poll`, which may be NULL, requests a stop, this is EITP_ERROR_INTERRUPTED.
 */
EITP__PRIVATE eitp_status eitp__cuda_images_get(const eitp__cuda_compiler *compiler, eitp__cuda_cache *cache,
                                                eitp__cuda_image *images, size_t count, int threads,
                                                const eitp__poll *poll, eitp_error *error);

#endif

#endif
