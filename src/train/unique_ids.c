#include "train/unique_ids.h"

EITP__PRIVATE eitp_status eitp__unique_create(const eitp_host *host, int64_t capacity, int64_t vocabulary,
                                              eitp__unique *unique, eitp_error *error) {
    memset(unique, 0, sizeof *unique);
    unique->host = *host;
    unique->capacity = capacity;
    unique->vocabulary = vocabulary;
    unique->ids = (int32_t *)eitp__allocate(host, (size_t)capacity * sizeof *unique->ids);
    unique->places = (int32_t *)eitp__allocate(host, (size_t)vocabulary * sizeof *unique->places);
    if (unique->ids && unique->places)
        return EITP_OK;
    eitp__unique_release(unique);
    return eitp__fail_memory(error, (size_t)(capacity + vocabulary) * sizeof *unique->ids,
                             "the distinct ids of a step");
}

EITP__PRIVATE void eitp__unique_release(eitp__unique *unique) {
    eitp__release(&unique->host, unique->ids, (size_t)unique->capacity * sizeof *unique->ids);
    eitp__release(&unique->host, unique->places, (size_t)unique->vocabulary * sizeof *unique->places);
    memset(unique, 0, sizeof *unique);
}

EITP__PRIVATE void eitp__unique_clear(eitp__unique *unique) {
    unique->count = 0;
    for (int64_t i = 0; i < unique->capacity; i++)
        unique->ids[i] = -1;
    for (int64_t i = 0; i < unique->vocabulary; i++)
        unique->places[i] = -1;
}

EITP__PRIVATE void eitp__unique_add(eitp__unique *unique, eitp__batch *batch) {
    const int32_t *ids = (const int32_t *)batch->values[batch->pass->lookup];
    for (int64_t s = 0; s < batch->count; s++) {
        for (int64_t i = batch->starts[s]; i < batch->starts[s] + batch->lengths[s]; i++) {
            const int32_t id = ids[i];
            if (id >= 0 && unique->places[id] < 0) {
                unique->places[id] = (int32_t)unique->count;
                unique->ids[unique->count++] = id;
            }
            batch->inverse[i] = id < 0 ? -1 : unique->places[id];
        }
    }
}
