/* Compiled kernels on disk, in the folder eitp/kernels of XDG_CACHE_HOME or ~/.cache: compiled once for a device. */
#ifndef EITP_CUDA_CACHE_H
#define EITP_CUDA_CACHE_H

#include "base/memory.h"

#include "base/status.h"

#if EITP__WITH_CUDA

typedef struct eitp__cuda_cache {
    const eitp_host *host;
    char folder[400]; /* empty: no cache */
    void *lock;       /* held from a look-up that found nothing until the image is stored or the cache is closed */
} eitp__cuda_cache;

/* Finds or creates the folder. Without one, everything is compiled in each process. */
EITP__PRIVATE void eitp__cuda_cache_open(eitp__cuda_cache *cache, const eitp_host *host);

/* Adds the image of a key to `image` and returns 1; or 0 if it is missing or damaged. Then other processes that look
   for something wait until it is stored or given up. */
EITP__PRIVATE int eitp__cuda_cache_find(eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image);

/* Stores an image that was not found; a failure is logged, no more. Without an image: gives it up. */
EITP__PRIVATE void eitp__cuda_cache_store(eitp__cuda_cache *cache, uint64_t key, const eitp__buffer *image);

#endif

#endif
