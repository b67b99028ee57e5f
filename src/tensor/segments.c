#include "tensor/segments.h"

#include "base/memory.h"

EITP__PRIVATE eitp_status eitp__segments_create(eitp__backend *backend, eitp__segments **segments, eitp_error *error) {
    *segments = (eitp__segments *)eitp__allocate(&backend->host, sizeof **segments);
    if (!*segments)
        return eitp__fail_memory(error, sizeof **segments, "the list of segments");
    (*segments)->backend = backend;
    (*segments)->references = 1;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__segments_add(eitp__segments *segments, size_t size, const char *what, void **memory,
                                             eitp_error *error) {
    eitp__backend *backend = segments->backend;
    *memory = NULL;
    if (!eitp__reserve(&backend->host, (void **)&segments->blocks, &segments->capacity, segments->count + 1,
                       sizeof *segments->blocks))
        return eitp__fail_memory(error, sizeof *segments->blocks, "the list of segments");
    *memory = backend->interface->allocate(backend, EITP__PLACE_DEVICE, size);
    if (!*memory)
        return eitp__fail_memory(error, size, what);
    segments->blocks[segments->count].memory = *memory;
    segments->blocks[segments->count++].size = size;
    return EITP_OK;
}

EITP__PRIVATE void eitp__segments_remove(eitp__segments *segments) {
    const eitp__segment *last = &segments->blocks[--segments->count];
    segments->backend->interface->release(segments->backend, EITP__PLACE_DEVICE, last->memory, last->size);
}

EITP__PRIVATE void eitp__segments_retain(eitp__segments *segments) {
    __atomic_fetch_add(&segments->references, 1, __ATOMIC_RELAXED);
}

EITP__PRIVATE void eitp__segments_release(eitp__segments *segments) {
    eitp_host host;
    /* The last release sees the other threads' writes to the memory. */
    if (!segments || __atomic_sub_fetch(&segments->references, 1, __ATOMIC_ACQ_REL))
        return;
    host = segments->backend->host;
    while (segments->count)
        eitp__segments_remove(segments);
    eitp__release(&host, segments->blocks, segments->capacity * sizeof *segments->blocks);
    segments->backend->interface->destroy(segments->backend);
    eitp__release(&host, segments, sizeof *segments);
}

EITP__PRIVATE int eitp__segments_are_shared(const eitp__segments *segments) {
    return __atomic_load_n(&segments->references, __ATOMIC_ACQUIRE) > 1;
}
