#include "template/jinja_memory.h"

#define EITP__JINJA_CHUNK ((size_t)16 << 10)
#define EITP__JINJA_UNIT ((size_t)16)

EITP__PRIVATE void eitp__jinja_memory_init(eitp__jinja_memory *memory, const eitp_host *host, size_t limit) {
    memset(memory, 0, sizeof *memory);
    memory->host = host;
    memory->limit = limit;
}

EITP__PRIVATE void eitp__jinja_memory_release(eitp__jinja_memory *memory) {
    while (memory->chunks) {
        eitp__jinja_chunk *chunk = memory->chunks;
        memory->chunks = chunk->next;
        eitp__release(memory->host, chunk, chunk->size);
    }
    memory->total = 0;
}

static int eitp__jinja_memory_fits(eitp__jinja_memory *memory, size_t size) {
    memory->is_exceeded = size > memory->limit || memory->total > memory->limit - size;
    return !memory->is_exceeded;
}

/* Returns a chunk with room for `size` bytes. A large block gets its own chunk, linked behind the one being filled. */
static eitp__jinja_chunk *eitp__jinja_chunk_for(eitp__jinja_memory *memory, size_t size) {
    const size_t header = (sizeof(eitp__jinja_chunk) + EITP__JINJA_UNIT - 1) / EITP__JINJA_UNIT * EITP__JINJA_UNIT;
    eitp__jinja_chunk *chunk = memory->chunks;
    const int is_large = size > EITP__JINJA_CHUNK / 4;
    size_t total = is_large ? header + size : EITP__JINJA_CHUNK;
    if (chunk && size <= chunk->size - chunk->used)
        return chunk;
    if (!eitp__jinja_memory_fits(memory, total))
        return NULL;
    chunk = (eitp__jinja_chunk *)eitp__allocate_uninitialized(memory->host, total);
    if (!chunk)
        return NULL;
    chunk->size = total;
    chunk->used = header;
    memory->total += total;
    if (is_large && memory->chunks) {
        chunk->next = memory->chunks->next;
        memory->chunks->next = chunk;
    } else {
        chunk->next = memory->chunks;
        memory->chunks = chunk;
    }
    return chunk;
}

EITP__PRIVATE void *eitp__jinja_memory_allocate(eitp__jinja_memory *memory, size_t size) {
    eitp__jinja_chunk *chunk;
    void *block;
    if (size > memory->limit) {
        memory->is_exceeded = 1;
        return NULL;
    }
    size = (size + EITP__JINJA_UNIT) / EITP__JINJA_UNIT * EITP__JINJA_UNIT;
    chunk = eitp__jinja_chunk_for(memory, size);
    if (!chunk)
        return NULL;
    block = (char *)chunk + chunk->used;
    chunk->used += size;
    memset(block, 0, size);
    return block;
}
