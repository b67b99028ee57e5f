/* Division of attention among blocks. Shared by the host, which launches them, and the kernels. */
#ifndef EITP_ATTENTION_TILES_H
#define EITP_ATTENTION_TILES_H

#include "kernels/kernels.h"

/*
 * On tensor cores, a block has four warps, each with tiles of 16 rows of queries or keys. It steps through the rows on
 * the other side, EITP__ATTENTION_STEP at a time. More do not fit in the registers. In shared memory, a row has
 * EITP__ATTENTION_STRIDE elements, a multiple of 128 bytes. `width` is the width of a head.
 */
#define EITP__ATTENTION_ROW_TILES(is_backward, width) ((is_backward) && (width) > 64 ? 1 : 2)
#define EITP__ATTENTION_ROWS(is_backward, width) (64 * EITP__ATTENTION_ROW_TILES(is_backward, width))
#define EITP__ATTENTION_STEP(is_backward, width) ((is_backward) || (width) > 64 ? 32 : 64)
#define EITP__ATTENTION_STRIDE(width) (((width) + 63) / 64 * 64)

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
