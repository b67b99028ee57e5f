/*
 * Gives prefetch hints from a background thread: the disk is busy while the program does other work, and a processor
 * other than the one that copies from the cache provides its pages. Only a few hints are outstanding at a time;
 * otherwise, the program's own reads would wait for all of them, since reading a byte waits for earlier reads.
 */
#include "base/prefetch.h"

#include "base/files.h"
#include "base/worker.h"

#define EITP__PREFETCHED_FILES 8
#define EITP__PREFETCH_CHUNK ((uint64_t)8 << 20) /* bytes per hint */
#define EITP__PREFETCH_DEPTH (4 * EITP__PREFETCH_CHUNK)

typedef struct eitp__prefetched_file {
    eitp__file file;
    uint64_t size;
    int *stops;
} eitp__prefetched_file;

struct eitp__prefetch {
    eitp_host host;
    eitp__worker *worker;
    uint64_t room; /* bytes that may still be read */
    int stops;
    size_t count;
    eitp__prefetched_file files[EITP__PREFETCHED_FILES];
};

static eitp_status eitp__prefetch_work(void *argument, eitp_error *error) {
    eitp__prefetched_file *file = (eitp__prefetched_file *)argument;
    const uint64_t chunk = EITP__PREFETCH_CHUNK, depth = EITP__PREFETCH_DEPTH;
    char byte;
    size_t done;
    (void)error;
    for (uint64_t at = 0; at < file->size && !__atomic_load_n(file->stops, __ATOMIC_RELAXED); at += chunk) {
        eitp__file_prefetch(&file->file, at, (size_t)(file->size - at < chunk ? file->size - at : chunk));
        if (at >= depth && eitp__file_read_some(&file->file, at - depth, &byte, 1, &done, NULL))
            break;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp__prefetch *eitp__prefetch_create(const eitp_host *host) {
    eitp_memory_info info = EITP__ZERO;
    eitp__prefetch *created;
    if (!host->files.prefetch || eitp_memory_info_read(host, &info, NULL))
        return NULL;
    created = (eitp__prefetch *)eitp__allocate(host, sizeof *created);
    if (!created)
        return NULL;
    created->host = *host;
    created->room = info.left / 4;
    if (eitp__worker_create(&created->host, EITP__WORKER_QUEUE, &created->worker, NULL)) {
        eitp__prefetch_destroy(created);
        return NULL;
    }
    return created;
}

EITP__PRIVATE void eitp__prefetch_add(eitp__prefetch *prefetch, const char *path) {
    eitp_path_info info = EITP__ZERO;
    eitp__prefetched_file *added;
    if (!prefetch || prefetch->count == EITP__PREFETCHED_FILES)
        return;
    added = &prefetch->files[prefetch->count];
    if (eitp__path_info(&prefetch->host, path, &info, NULL) || info.kind != EITP_PATH_FILE ||
        eitp__file_open(&added->file, &prefetch->host, path, EITP_FILE_READ, NULL))
        return;
    added->size = info.size < prefetch->room ? info.size : prefetch->room;
    added->stops = &prefetch->stops;
    prefetch->room -= added->size;
    prefetch->count++;
    eitp__worker_submit(prefetch->worker, eitp__prefetch_work, added);
}

EITP__PRIVATE void eitp__prefetch_destroy(eitp__prefetch *prefetch) {
    eitp_host host;
    if (!prefetch)
        return;
    host = prefetch->host;
    __atomic_store_n(&prefetch->stops, 1, __ATOMIC_RELAXED);
    eitp__worker_destroy(prefetch->worker);
    for (size_t i = 0; i < prefetch->count; i++)
        eitp__file_close(&prefetch->files[i].file, NULL);
    eitp__release(&host, prefetch, sizeof *prefetch);
}
