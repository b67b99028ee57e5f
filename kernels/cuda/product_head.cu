/*
 * Runs after cuBLASLt has written the logits of HEAD to output 0: replaces them by their exponentials, and computes the
 * other outputs. A warp has EITP__CUDA_HEAD_GROUP blocks of columns of a row, and a lane QUAD columns of each.
 */
#include "kernels/cuda/call.h"
#include "kernels/cuda/product_parts.h"

enum { BLOCK = EITP__CUDA_HEAD_BLOCK, GROUP_SIZE = EITP__CUDA_HEAD_GROUP, QUAD = BLOCK / 32 };

/* Returns the column, in its block, of element k of a lane: adjacent ones if lanes move vectors. */
template <int has_vectors> DEVICE int column_of(int k) {
    return has_vectors ? lane() * QUAD + k : lane() + 32 * k;
}

/* Reads the logits of a block with `left` columns up to the end of the row. Missing ones are minus infinity. */
template <int has_vectors> DEVICE void read_block(global<const scalar> block, int left, wide v[QUAD]) {
    if (has_vectors && column_of<1>(QUAD) <= left) {
        const vec<scalar, QUAD> x = load<QUAD>(block, column_of<1>(0));
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            v[k] = to_wide(x.v[k]);
        return;
    }
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        v[k] = column_of<has_vectors>(k) < left ? to_wide(block[column_of<has_vectors>(k)]) : (wide)-INFINITY;
}

/* Writes a block with `room` elements up to the next row. */
template <int has_vectors> DEVICE void write_block(global<scalar> block, int room, const wide v[QUAD]) {
    if (has_vectors && column_of<1>(QUAD) <= room) {
        vec<scalar, QUAD> x;
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            x.v[k] = to_scalar(v[k]);
        store<QUAD>(block, column_of<1>(0), x);
        return;
    }
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        if (column_of<has_vectors>(k) < room)
            block[column_of<has_vectors>(k)] = to_scalar(v[k]);
}

/* Replaces the logits v of a block by exponentials, and missing ones by zeros. `target` is the column of the row's
   target in the block. */
template <int has_vectors>
DEVICE void finish_block(const eitp__launch &l, int64_t row, int64_t number, int left, int64_t target, wide v[QUAD]) {
    const int64_t at = row * l.call.outputs[1].shape[1] + number;
    wide top = -INFINITY, sum = 0;
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        top = larger(top, v[k]);
    top = warp_max(top);
#pragma unroll
    for (int k = 0; k < QUAD; k++) {
        const int column = column_of<has_vectors>(k);
        if (column < left && column == target)
            output<wide>(l, 3)[row] = v[k];
        v[k] = column < left ? exp(v[k] - top) : 0;
        sum += v[k];
    }
    sum = warp_sum(sum);
    if (lane() == 0) {
        output<wide>(l, 1)[at] = top;
        output<wide>(l, 2)[at] = sum;
    }
}

/* All blocks are read before the first is used, so that enough reads are in flight. */
template <int has_vectors> DEVICE void finish_group(const eitp__launch &l, int64_t row, int64_t first) {
    const eitp__operand &e = l.call.outputs[0];
    const int64_t columns = e.shape[1], stride = eitp__row_stride_of(&e), target = input<int32_t>(l, 2)[row];
    const global<scalar> logits = output<scalar>(l, 0) + row * stride;
    wide v[GROUP_SIZE][QUAD];
#pragma unroll
    for (int b = 0; b < GROUP_SIZE; b++)
        read_block<has_vectors>(logits + (first + b) * BLOCK, (int)(columns - (first + b) * BLOCK), v[b]);
#pragma unroll
    for (int b = 0; b < GROUP_SIZE; b++) {
        const int64_t begin = (first + b) * BLOCK;
        if (begin >= columns)
            return;
        finish_block<has_vectors>(l, row, first + b, (int)(columns - begin), target - begin, v[b]);
        write_block<has_vectors>(logits + begin, (int)(stride - begin), v[b]);
    }
}

KERNEL(head_blocks_kernel, 256) {
    const eitp__operand &e = l.call.outputs[0];
    const int64_t groups = (l.call.outputs[1].shape[1] + GROUP_SIZE - 1) / GROUP_SIZE;
    const int64_t task = block_index() * (thread_count() / 32) + warp_index(), row = task / groups;
    const uintptr_t bits = (uintptr_t)e.data | (uintptr_t)eitp__row_stride_of(&e) * sizeof(scalar);
    if (row >= first_dimension(l, e))
        return;
    if (bits % (QUAD * sizeof(scalar)) == 0)
        finish_group<1>(l, row, task % groups * GROUP_SIZE);
    else
        finish_group<0>(l, row, task % groups * GROUP_SIZE);
}
