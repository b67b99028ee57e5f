/* How attention is divided among blocks: the host launches them, and kernels compute them. */
#ifndef EITP_ATTENTION_TILES_H
#define EITP_ATTENTION_TILES_H

#include "kernels/kernels.h"

/*
 * On tensor cores a block has four warps, each with tiles of 16 rows of queries or keys, and the others pass by in
 * steps of so many rows. More do not fit in the registers. `padded` is the width of a head, up to a multiple of 16, and
 * `turned_parts` how many numbers stand for an element of a query.
 */
#define EITP__ATTENTION_ROW_TILES(is_backward, padded, turned_parts)                                                   \
    ((is_backward) || ((padded) > 64 && (turned_parts) > 1) ? 1 : 2)
#define EITP__ATTENTION_ROWS(is_backward, padded, turned_parts)                                                        \
    (64 * EITP__ATTENTION_ROW_TILES(is_backward, padded, turned_parts))
#define EITP__ATTENTION_STEP(padded) ((padded) > 64 ? 32 : 64)

/*
 * How many 16-bit numbers stand for a probability or a derivative by a score, and how many for an element of a rotated
 * query or key, in products on tensor cores. With 2, results are about as accurate as those of F32. 1 is what
 * other programs do: errors are as large as those of rounding these numbers to the type. Products in the forward and
 * the backward pass: 2 and 7 with 1 and 1; 3 and 10 with 2 and 1; with a rotation and 2 and 2, 5 and 16.
 */
#define EITP__ATTENTION_PARTS 2
#define EITP__ATTENTION_TURNED_PARTS 2

/* The positions of a cache that a block attends to at once. */
#define EITP__CACHED_SPAN 256

/* True for few rows: a block has one span of the cache. Otherwise it has all of them. */
static inline EITP__UNUSED int eitp__has_few_rows(const eitp__call *call) {
    return call->inputs[0].shape[0] <= 4;
}

/* The blocks that a row and a head have. */
static inline EITP__UNUSED int64_t eitp__cached_parts(const eitp__call *call) {
    const int64_t spans = (call->inputs[1].shape[0] + EITP__CACHED_SPAN - 1) / EITP__CACHED_SPAN;
    return eitp__has_few_rows(call) && spans > 1 ? spans : 1;
}

#endif
