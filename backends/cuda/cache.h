/* Cache of compiled kernels on disk, in the folder eitp/kernels of XDG_CACHE_HOME or ~/.cache. */
#ifndef EITP_CUDA_CACHE_H
#define EITP_CUDA_CACHE_H

#include "base/memory.h"

#include "base/status.h"

#if EITP__WITH_CUDA

typedef struct eitp__cuda_cache {
    const eitp_host *host;
    char folder[400]; /* empty: no cache */
    void *lock;       /* held from a failed look-up until the image is stored or the cache is closed */
} eitp__cuda_cache;

/* Finds or creates the folder. Without it, each process compiles everything. */
EITP__PRIVATE void eitp__cuda_cache_open(eitp__cuda_cache *cache, const eitp_host *host);

/* Appends the image of a key to `image` and returns 1, or returns 0 if it is missing or damaged. In that case the
   look-ups of other processes wait until an image is stored or given up. */
EITP__PRIVATE int eitp__cuda_cache_find(eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image);

/* Stores an image that was not found. A failure is only logged. NULL gives it up. */
EITP__PRIVATE void eitp__cuda_cache_store(eitp__cuda_cache *cache, uint64_t key, const eitp__buffer *image);

#endif

#endif
