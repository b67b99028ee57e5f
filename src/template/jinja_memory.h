/* Memory that is released all at once: for a template's tree, and for the values of one rendering. */
#ifndef EITP_JINJA_MEMORY_H
#define EITP_JINJA_MEMORY_H

#include "base/memory.h"

typedef struct eitp__jinja_chunk {
    struct eitp__jinja_chunk *next;
    size_t size; /* including this header */
    size_t used;
} eitp__jinja_chunk;

typedef struct eitp__jinja_memory {
    const eitp_host *host;
    eitp__jinja_chunk *chunks; /* the first one is being filled */
    size_t total;              /* bytes of all chunks */
    size_t limit;
    int is_exceeded; /* a block did not fit within the limit */
} eitp__jinja_memory;

EITP__PRIVATE void eitp__jinja_memory_init(eitp__jinja_memory *memory, const eitp_host *host, size_t limit);
EITP__PRIVATE void eitp__jinja_memory_release(eitp__jinja_memory *memory);

/* Returns `size` zeroed bytes, or NULL beyond the limit or out of memory. */
EITP__PRIVATE void *eitp__jinja_memory_allocate(eitp__jinja_memory *memory, size_t size);

#endif
