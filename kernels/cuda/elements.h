/* Vectors of elements, and traversal of operands that are not read in the order of the result. */
#ifndef EITP_CUDA_ELEMENTS_H
#define EITP_CUDA_ELEMENTS_H

#include "kernels/cuda/call.h"

/* Number of elements of output 0 per thread in an element-wise kernel. */
constexpr int EACH = 8;

/* Number of elements of two types that are moved at once. */
template <class T, class U = T> struct at_once {
    static constexpr int bytes = (int)(sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U)),
                         count = 16 / (bytes < 2 ? 2 : bytes);
};

/* Passes the number of elements to compute to a function. */
template <int n> struct width { static constexpr int count = n; };

/* True if the first `inputs` inputs and output 0 are aligned. */
template <int inputs> DEVICE int are_aligned(const eitp__launch &l) {
    int all = is_aligned(l.call.outputs[0]);
    for (int k = 0; k < inputs; k++)
        all = all && is_aligned(l.call.inputs[k]);
    return all;
}

/*
 * Calls body(width<N>(), i) for each of this thread's vectors of N of `count` elements, and body(width<1>(), i) for the
 * elements of the last, incomplete vector, or for all elements if has_vectors is 0.
 */
template <int N, class Body> DEVICE void for_vectors(int64_t count, int has_vectors, Body body) {
    const int64_t first = block_index() * (thread_count() * EACH);
#pragma unroll
    for (int part = 0; part < EACH / N; part++) {
        const int64_t i = first + (int64_t)(part * thread_count() + thread_index()) * N;
        if (has_vectors && i + N <= count) {
            body(width<N>(), i);
            continue;
        }
#pragma unroll 1
        for (int k = 0; k < N; k++) {
            const int64_t one = has_vectors ? i + k : first + (part * N + k) * thread_count() + thread_index();
            if (one < count)
                body(width<1>(), one);
        }
    }
}

/* Returns n elements, or one element n times. */
template <int n, class T> DEVICE vec<T, n> fetch(global<const T> p, int64_t at, int repeats) {
    vec<T, n> v;
    if (!repeats)
        return load<n>(p, at);
    const T x = p[at];
    for (int k = 0; k < n; k++)
        v.v[k] = x;
    return v;
}

/* Returns the upper half of a product. */
DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) {
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32, across = a1 * b0, other = a0 * b1;
    return a1 * b1 + (across >> 32) + (other >> 32) + (((a0 * b0 >> 32) + (uint32_t)across + (uint32_t)other) >> 32);
}

/*
 * A grid is an array in shared memory, set up by thread 0: the dimensions of a result, innermost first and merged where
 * all operands are contiguous, and the strides of up to three operands in them.
 */
enum {
    GRID_RANK,
    GRID_START,       /* offset of the first element in operand 0 */
    GRID_HAS_VECTORS, /* of the number of elements passed to grid_finish */
    GRID_SIZE,
    GRID_INVERSE = GRID_SIZE + EITP_MAX_RANK, /* 2^64 / size, rounded up; not for the first dimension */
    GRID_STRIDE = GRID_INVERSE + EITP_MAX_RANK,
    GRID = GRID_STRIDE + 3 * EITP_MAX_RANK
};

template <int operands> DEVICE void grid_begin(shared<int64_t> grid) {
    grid[GRID_RANK] = 1;
    grid[GRID_START] = 0;
    grid[GRID_HAS_VECTORS] = 0;
    grid[GRID_SIZE] = 1;
    for (int k = 0; k < operands; k++)
        grid[GRID_STRIDE + k * EITP_MAX_RANK] = 0;
}

/* Adds an outer dimension. */
template <int operands> DEVICE void grid_add(shared<int64_t> grid, int64_t size, const int64_t *stride) {
    const int rank = (int)grid[GRID_RANK];
    const int64_t before = grid[GRID_SIZE + rank - 1];
    int joins = before != 1, at = rank - 1;
    if (size == 1)
        return;
    for (int k = 0; k < operands; k++)
        joins = joins && grid[GRID_STRIDE + k * EITP_MAX_RANK + at] * before == stride[k];
    if (joins) {
        grid[GRID_SIZE + at] = before * size;
        return;
    }
    if (before > 1)
        grid[GRID_INVERSE + at] = (int64_t)(UINT64_MAX / (uint64_t)before + 1);
    at += before != 1;
    grid[GRID_RANK] = at + 1;
    grid[GRID_SIZE + at] = size;
    for (int k = 0; k < operands; k++)
        grid[GRID_STRIDE + k * EITP_MAX_RANK + at] = stride[k];
}

/* Checks whether vectors of n elements are always within one row and aligned in every operand. */
template <int operands> DEVICE void grid_finish(shared<int64_t> grid, int n, int bases_are_aligned) {
    const int rank = (int)grid[GRID_RANK];
    int fits = bases_are_aligned && grid[GRID_SIZE] % n == 0 && grid[GRID_START] % n == 0;
    for (int k = 0; k < operands; k++) {
        const int64_t inner = grid[GRID_STRIDE + k * EITP_MAX_RANK];
        fits = fits && inner <= 1;
        for (int d = 1; d < rank && inner; d++)
            fits = fits && grid[GRID_STRIDE + k * EITP_MAX_RANK + d] % n == 0;
    }
    grid[GRID_HAS_VECTORS] = fits;
}

/* Computes the offset of element i of the result in each operand. */
template <int operands> DEVICE void grid_find(shared<const int64_t> grid, int64_t i, int64_t *at) {
    const int first = (int)grid[GRID_RANK] - 1;
    for (int k = 0; k < operands; k++)
        at[k] = 0;
    for (int d = 0; d < first; d++) {
        const int64_t size = grid[GRID_SIZE + d];
        int64_t next = (int64_t)multiply_high((uint64_t)i, (uint64_t)grid[GRID_INVERSE + d]); /* or 1 too many */
        next -= next * size > i;
        for (int k = 0; k < operands; k++)
            at[k] += (i - next * size) * grid[GRID_STRIDE + k * EITP_MAX_RANK + d];
        i = next;
    }
    for (int k = 0; k < operands; k++)
        at[k] += i * grid[GRID_STRIDE + k * EITP_MAX_RANK + first];
}

/* Sets up the grid of output 0 for inputs that broadcast to it. */
template <int inputs> DEVICE void broadcast_grid(const eitp__launch &l, shared<int64_t> grid) {
    const eitp__operand &y = l.call.outputs[0];
    int64_t next[inputs], stride[inputs];
    grid_begin<inputs>(grid);
    for (int k = 0; k < inputs; k++)
        next[k] = 1;
    for (int d = y.rank - 1; d >= 0; d--) {
        for (int k = 0; k < inputs; k++) {
            const eitp__operand &x = l.call.inputs[k];
            const int from = d - y.rank + x.rank;
            const int64_t extent = from < 0 ? 1 : x.shape[from];
            stride[k] = extent == 1 ? 0 : next[k];
            next[k] *= extent;
        }
        grid_add<inputs>(grid, y.shape[d], stride);
    }
}

#endif
