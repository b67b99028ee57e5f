/* The distinct ids of a step, in order of first occurrence: see eitp_pass_unique. */
#ifndef EITP_UNIQUE_IDS_H
#define EITP_UNIQUE_IDS_H

#include "train/batch.h"

typedef struct eitp__unique {
    eitp_host host;
    int64_t capacity, vocabulary;
    int64_t count;
    int32_t *ids;    /* [capacity], -1 from `count` on */
    int32_t *places; /* [vocabulary]: the index of each id in `ids`, or -1 */
} eitp__unique;

EITP__PRIVATE eitp_status eitp__unique_create(const eitp_host *host, int64_t capacity, int64_t vocabulary,
                                              eitp__unique *unique, eitp_error *error);
EITP__PRIVATE void eitp__unique_release(eitp__unique *unique);
EITP__PRIVATE void eitp__unique_clear(eitp__unique *unique);

/* Adds the ids of a batch's samples, and fills in its `inverse`. */
EITP__PRIVATE void eitp__unique_add(eitp__unique *unique, eitp__batch *batch);

#endif
