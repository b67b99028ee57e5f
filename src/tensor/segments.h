/* Memory of a context's variables, which other contexts may share. */
#ifndef EITP_SEGMENTS_H
#define EITP_SEGMENTS_H

#include "backends/backend.h"

/* A block of device memory. */
typedef struct eitp__segment {
    void *memory;
    size_t size;
} eitp__segment;

/* Blocks of memory, with the backend that allocated them. The context that allocates them holds a reference, and so
   does each context that borrows its variables. The contexts may be in different threads. */
typedef struct eitp__segments {
    eitp__backend *backend;
    eitp__segment *blocks;
    size_t count, capacity;
    int references; /* atomic */
} eitp__segments;

/* Creates an empty list with one reference, which owns the backend. */
EITP__PRIVATE eitp_status eitp__segments_create(eitp__backend *backend, eitp__segments **segments, eitp_error *error);

/* Adds a block of zeros; NULL and an error that names `what` if out of memory. */
EITP__PRIVATE eitp_status eitp__segments_add(eitp__segments *segments, size_t size, const char *what, void **memory,
                                             eitp_error *error);

/* Releases the most recently added block. */
EITP__PRIVATE void eitp__segments_remove(eitp__segments *segments);

/* Adds a reference. */
EITP__PRIVATE void eitp__segments_retain(eitp__segments *segments);

/* Drops a reference. The last one releases the blocks, the backend and the list. NULL is harmless. */
EITP__PRIVATE void eitp__segments_release(eitp__segments *segments);

/* True if another context holds a reference too. */
EITP__PRIVATE int eitp__segments_are_shared(const eitp__segments *segments);

#endif
