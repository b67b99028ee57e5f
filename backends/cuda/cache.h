/* Cache of compiled kernels on disk, in the folder eitp/kernels of XDG_CACHE_HOME or ~/.cache. */
#ifndef EITP_CUDA_CACHE_H
#define EITP_CUDA_CACHE_H

#include "base/memory.h"

#include "base/status.h"

#if EITP__WITH_CUDA

typedef struct eitp__cuda_cache {
    const eitp_host *host;
    char folder[400]; /* empty: no cache */
    void *lock;       /* NULL: not locked */
} eitp__cuda_cache;

/* Finds or creates the folder. Without it, each process compiles everything. */
EITP__PRIVATE void eitp__cuda_cache_open(eitp__cuda_cache *cache, const eitp_host *host);

/* True if there is a file for a key. */
EITP__PRIVATE int eitp__cuda_cache_has(const eitp__cuda_cache *cache, uint64_t key);

/* Appends the image of a key to `image`. A damaged file is EITP_ERROR_FORMAT. */
EITP__PRIVATE eitp_status eitp__cuda_cache_read(const eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image,
                                                eitp_error *error);

/* Appends the image of a key to `image` and returns 1, or returns 0 if it is missing or damaged. */
EITP__PRIVATE int eitp__cuda_cache_find(const eitp__cuda_cache *cache, uint64_t key, eitp__buffer *image);

/* Stores an image. A failure is only logged. */
EITP__PRIVATE void eitp__cuda_cache_store(const eitp__cuda_cache *cache, uint64_t key, const eitp__buffer *image);

/* Locks the cache, so that processes that need the same images do not all compile them. Returns 0 if another process
   has locked it, until it unlocks it or ends. Succeeds where nothing can be locked. */
EITP__PRIVATE int eitp__cuda_cache_lock(eitp__cuda_cache *cache);
EITP__PRIVATE void eitp__cuda_cache_unlock(eitp__cuda_cache *cache);

#endif

#endif
