/*
 * Division of products among blocks: sums over k, and columns of logits. Shared by the host, which launches the blocks,
 * and the kernels.
 */
#ifndef EITP_PRODUCT_PARTS_H
#define EITP_PRODUCT_PARTS_H

#include "kernels/kernels.h"

/* Columns per block of logits in HEAD (eitp__backend_interface.head_block), and blocks per warp of product_head.cu. */
#define EITP__CUDA_HEAD_BLOCK 128
#define EITP__CUDA_HEAD_GROUP 4

typedef struct eitp__product_parts {
    int64_t count, size; /* size: steps of k in each part but the last */
} eitp__product_parts;

/*
 * If a is transposed, k is usually the number of rows in a batch, far more than the width of a layer, and the tiles of
 * y alone would leave most of a device idle. Blocks then sum parts of k, and another kernel adds the parts in order. A
 * part has at least 1024 steps. Other products are never divided, so that a row's results do not depend on the number
 * of rows. Sums over fewer than 2048 rows do not depend on how they are split into accumulated products either.
 */
static inline EITP__UNUSED eitp__product_parts eitp__product_parts_of(const eitp__call *call) {
    const eitp__operand *a = &call->inputs[0], *y = &call->outputs[0];
    const int is_transposed = call->slot == EITP__SLOT_MATMUL && call->integers[0];
    const int64_t m = y->shape[y->rank - 2], n = y->shape[y->rank - 1];
    const int64_t k = a->shape[a->rank - (is_transposed ? 2 : 1)], least = 1024, blocks = 512, unit = 128;
    int64_t tiles = ((m + 127) / 128) * ((n + 127) / 128), most = k / least;
    eitp__product_parts parts;
    for (int i = 0; i < y->rank - 2; i++)
        tiles *= y->shape[i];
    if (tiles && most > blocks / tiles)
        most = blocks / tiles;
    parts.count = is_transposed && tiles && most > 1 ? most : 1;
    parts.size = ((k + parts.count - 1) / parts.count + unit - 1) / unit * unit;
    return parts;
}

#endif
