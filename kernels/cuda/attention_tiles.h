/* Division of attention among blocks. Shared by the host, which launches them, and the kernels. */
#ifndef EITP_ATTENTION_TILES_H
#define EITP_ATTENTION_TILES_H

#include "kernels/kernels.h"

/*
 * On tensor cores, a block has four warps, each with tiles of 16 rows of queries or keys. It steps through the rows on
 * the other side, EITP__ATTENTION_STEP at a time. More do not fit in the registers. `padded` is the width of a head,
 * rounded up to a multiple of 16. `rotated_parts` is the number of 16-bit numbers per element of a query.
 */
#define EITP__ATTENTION_ROW_TILES(is_backward, padded, rotated_parts)                                                  \
    ((is_backward) || ((padded) > 64 && (rotated_parts) > 1) ? 1 : 2)
#define EITP__ATTENTION_ROWS(is_backward, padded, rotated_parts)                                                       \
    (64 * EITP__ATTENTION_ROW_TILES(is_backward, padded, rotated_parts))
#define EITP__ATTENTION_STEP(padded) ((padded) > 64 ? 32 : 64)

/*
 * Number of 16-bit numbers that represent a probability or a derivative with respect to a score, and an element of a
 * rotated query or key, in products on tensor cores. With 2, results are about as accurate as F32. With 1, as in other
 * programs, errors are as large as rounding these numbers to the type. Products in the forward and backward passes: 2
 * and 7 with 1 and 1; 3 and 10 with 2 and 1; 5 and 16 with 2 and 2 and a rotation.
 */
#define EITP__ATTENTION_PARTS 2
#define EITP__ATTENTION_ROTATED_PARTS 2

/* Number of cache positions that a block processes at once. */
#define EITP__CACHED_SPAN 256

/* True if there are so few rows that a block processes only one span of the cache. Otherwise it processes all spans. */
static inline EITP__UNUSED int eitp__has_few_rows(const eitp__call *call) {
    return call->inputs[0].shape[0] <= 4;
}

/* Returns the number of blocks for each row and head. */
static inline EITP__UNUSED int64_t eitp__cached_parts(const eitp__call *call) {
    const int64_t spans = (call->inputs[1].shape[0] + EITP__CACHED_SPAN - 1) / EITP__CACHED_SPAN;
    return eitp__has_few_rows(call) && spans > 1 ? spans : 1;
}

#endif
