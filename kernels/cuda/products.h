/*
 * Shared by the matrix product kernels: the tile of a block, the initial values of its sums, and the epilogue.
 *
 * A block computes a TILE_M x TILE_N tile of y, or a part of its sums (eitp__product_parts). Each element is one chain
 * of additions along k that starts with carry * y + bias, so the sizes of tiles do not affect the result. The host
 * defines the tile, and TRANSPOSES: 1 if a is transposed, 2 if b is, 3 if both are. For HEAD, HEAD_BLOCK is the width
 * of a tile.
 */
#ifndef EITP_CUDA_PRODUCTS_H
#define EITP_CUDA_PRODUCTS_H

#include "kernels/cuda/activations.h"
#include "kernels/cuda/call.h"
#include "kernels/cuda/product_parts.h"

#ifndef TRANSPOSES
#define TRANSPOSES 0
#endif
#if defined(HEAD_BLOCK) && !defined(TILE_N)
#define TILE_N HEAD_BLOCK
#endif

enum { IS_A_TRANSPOSED = TRANSPOSES & 1, IS_B_TRANSPOSED = TRANSPOSES >> 1 };

/*
 * QUAD: elements that a thread stores at once. SLAB_PITCH: elements per row of sums in shared memory, chosen so that a
 * warp writes an mma tile without conflicts. BAND: see tile_of_block.
 */
enum { QUAD = 16 / (int)sizeof(wide), SLAB_PITCH = TILE_N + 8, BAND = 8, PARTS_THREADS = 256 };

/* The tile of a block. The host ensures that int is large enough. */
struct tile {
    int m, n; /* size of the product in this execution */
    int batch, row, column;
    int part, parts;    /* part of the sums */
    int64_t begin, end; /* steps of k in it */
};

DEVICE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the number of matrices of an operand whose first dimension is `first`. */
DEVICE int64_t matrices(const eitp__operand &x, int64_t first) {
    int64_t count = x.rank > 2 ? first : 1;
    for (int i = 1; i < x.rank - 2; i++)
        count *= x.shape[i];
    return count;
}

/*
 * Tiles are numbered in bands of BAND rows of tiles, rows first, so that concurrent blocks share the data that they
 * read of both operands.
 */
DEVICE tile tile_of_block(const eitp__launch &l) {
    const eitp__operand &a = l.call.inputs[0], &y = l.call.outputs[0];
    const eitp__product_parts parts = eitp__product_parts_of(&l.call);
    const int m = (int)y.shape[y.rank - 2], n = (int)y.shape[y.rank - 1], block = (int)block_index();
    const int down = (m + TILE_M - 1) / TILE_M, across = (n + TILE_N - 1) / TILE_N, tiles = down * across;
    const int batches = (int)matrices(y, y.shape[0]);
    const int index = block % tiles, band = index / (BAND * across), in_band = index - band * BAND * across;
    const int rows = down - band * BAND < BAND ? down - band * BAND : BAND;
    int64_t k = a.shape[a.rank - (IS_A_TRANSPOSED ? 2 : 1)];
    tile t;
    if (IS_A_TRANSPOSED && a.rank == 2)
        k = first_dimension(l, a);
    t.m = y.rank > 2 ? m : (int)first_dimension(l, y);
    t.n = n;
    t.batch = block / tiles % batches;
    t.row = (band * BAND + in_band % rows) * TILE_M;
    t.column = in_band / rows * TILE_N;
    t.part = block / tiles / batches;
    t.parts = (int)parts.count;
    t.begin = least(t.part * parts.size, k);
    t.end = least(t.begin + parts.size, k);
    return t;
}

/* False if the block has no work in this execution. */
DEVICE int has_work(const eitp__launch &l, const tile &t) {
    const eitp__operand &y = l.call.outputs[0];
    return t.row < t.m && (t.part == 0 || t.begin < t.end) && t.batch < matrices(y, first_dimension(l, y));
}

/* Returns the offset of a row of y. */
DEVICE int64_t row_offset(const tile &t, int row) {
    return ((int64_t)t.batch * t.m + row) * t.n;
}

/* Returns the offset of the matrix of operand x that belongs to matrix `batch` of y. */
DEVICE int64_t matrix_offset(const eitp__launch &l, const eitp__operand &x, int64_t batch) {
    const eitp__operand &y = l.call.outputs[0];
    int64_t offset = 0, stride = x.rank > 2 ? x.shape[x.rank - 2] * x.shape[x.rank - 1] : 0;
    for (int i = x.rank - 3, j = y.rank - 3; i >= 0; i--, j--) {
        if (x.shape[i] != 1)
            offset += batch % y.shape[j] * stride;
        batch /= y.shape[j];
        stride *= x.shape[i];
    }
    return offset;
}

/* ---- Elements ---- */

DEVICE wide narrowed(wide value, wide) {
    return value;
}
#if IS_HALF
DEVICE wide to_wide(wide x) {
    return x;
}
DEVICE scalar narrowed(wide value, scalar) {
    return to_scalar(value);
}
#endif

/*
 * Reads QUAD elements from x[first]. If `step` is 0, they are adjacent, present and aligned. Otherwise their stride is
 * `step`, and only those within the `left` elements from the first exist.
 */
template <int step, class P> DEVICE void read_few(P x, int64_t first, int left, wide v[QUAD]) {
    if constexpr (step == 0) {
        const auto values = load<QUAD>(x, first);
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            v[e] = to_wide(values.v[e]);
    } else {
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            v[e] = e * step < left ? to_wide(x[first + e * step]) : (wide)0;
    }
}
template <int step, class T> DEVICE void write_few(global<T> x, int64_t first, int left, const wide v[QUAD]) {
    if constexpr (step == 0) {
        vec<T, QUAD> values;
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            values.v[e] = narrowed(v[e], T());
        store(x, first, values);
    } else {
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            if (e * step < left)
                x[first + e * step] = narrowed(v[e], T());
    }
}

/* Like the above, for operands, which have the slot's dtype or are wide. */
template <int step> DEVICE void read_operand(const eitp__operand &x, int64_t first, int left, wide v[QUAD]) {
    if (x.dtype == (eitp_dtype)SCALAR)
        read_few<step>(global_at<const scalar>(x.data), first, left, v);
#if IS_HALF
    else
        read_few<step>(global_at<const wide>(x.data), first, left, v);
#endif
}
template <int step> DEVICE void write_operand(const eitp__operand &x, int64_t first, int left, const wide v[QUAD]) {
    if (x.dtype == (eitp_dtype)SCALAR)
        write_few<step, scalar>(global_at<scalar>(x.data), first, left, v);
#if IS_HALF
    else
        write_few<step, wide>(global_at<wide>(x.data), first, left, v);
#endif
}

#ifdef HEAD_BLOCK
/* ---- HEAD ---- */

DEVICE wide start_of(const eitp__launch &, const tile &, int, int, wide) {
    return 0;
}

/*
 * Stores rows of a tile whose sums are in shared memory. row_of(i) is the tile row of row i. Column blocks are as wide
 * as a tile. Each warp processes a row.
 */
template <class F>
DEVICE void finish_rows(const eitp__launch &l, const tile &t, shared<const wide> slab, int rows, const F &row_of) {
    enum { PER_LANE = TILE_N / 32 };
    const int left = t.n - t.column;
    const int64_t stride = eitp__row_stride_of(&l.call.outputs[0]);
#pragma unroll 1
    for (int i = warp_index(); i < rows; i += thread_count() / 32) {
        const int row = t.row + row_of(i);
        const int64_t block = row * l.call.outputs[1].shape[1] + t.column / HEAD_BLOCK;
        const global<scalar> e = output<scalar>(l, 0) + (row * stride + t.column);
        wide logits[PER_LANE], top = -INFINITY, sum = 0;
        int target;
        if (row >= t.m)
            continue;
        target = input<int32_t>(l, 2)[row];
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            logits[j] = slab[i * SLAB_PITCH + lane() + 32 * j];
            top = lane() + 32 * j < left ? larger(top, logits[j]) : top;
        }
        top = warp_max(top);
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const int column = lane() + 32 * j;
            const wide value = exp(logits[j] - top);
            if (column < left) {
                e[column] = to_scalar(value);
                sum += value;
                if (t.column + column == target)
                    output<wide>(l, 3)[row] = logits[j];
            } else if (column < stride - t.column) {
                e[column] = to_scalar(0);
            }
        }
        sum = warp_sum(sum);
        if (lane() == 0) {
            output<wide>(l, 1)[block] = top;
            output<wide>(l, 2)[block] = sum;
        }
    }
}
#else
/* ---- MATMUL ---- */

/* Returns the initial value of an element's sum. The carry is 0 for all parts except the first. */
DEVICE wide start_of(const eitp__launch &l, const tile &t, int row, int column, wide carry) {
    wide sum = 0;
    if (row >= t.m || column >= t.n)
        return 0;
    if (has_input(l, 2) && t.part == 0)
        sum = input<wide>(l, 2)[column];
    return carry != 0 ? fma(carry, (wide)output<wide>(l, 0)[row_offset(t, row) + column], sum) : sum;
}

/* Applies the epilogue to the sums p of elements of y, and stores them. */
template <int step> DEVICE void finish_few(const eitp__launch &l, int64_t first, int left, wide p[QUAD]) {
    const eitp__operand &before = l.call.outputs[1];
    const int epilogue = (int)l.call.integers[2];
    const int has_operand = epilogue == EITP__EPILOGUE_ADD || epilogue >= EITP__EPILOGUE_GELU_TANH_BACKWARD;
    wide x[QUAD] = {};
    if (has_output(l, 1)) {
        write_operand<step>(before, first, left, p);
#if IS_HALF
        if (before.dtype == (eitp_dtype)SCALAR) {
#pragma unroll
            for (int e = 0; e < QUAD; e++)
                p[e] = to_wide(to_scalar(p[e]));
        }
#endif
    }
    if (has_operand)
        read_operand<step>(l.call.inputs[3], first, left, x);
    if (epilogue != EITP__EPILOGUE_NONE) {
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            p[e] = epilogue == EITP__EPILOGUE_ADD ? x[e] + p[e]
                                                  : p[e] * activation_factor(epilogue, has_operand ? x[e] : p[e]);
    }
    write_operand<step>(l.call.outputs[0], first, left, p);
}

/* True if rows of y, and of the other operands of its shape, are aligned to QUAD elements. */
DEVICE int has_vectors(const eitp__launch &l) {
    const eitp__operand &y = l.call.outputs[0];
    return y.shape[y.rank - 1] % QUAD == 0 && is_aligned(y) && (!has_output(l, 1) || is_aligned(l.call.outputs[1])) &&
           (!has_input(l, 3) || is_aligned(l.call.inputs[3]));
}

/*
 * Stores rows of a tile, or of a part of its sums, from shared memory. row_of(i) is the tile row of row i. Each thread
 * keeps the same columns.
 */
template <int step, class F>
DEVICE void finish_rows_by(const eitp__launch &l, const tile &t, shared<const wide> slab, int rows, const F &row_of) {
    enum { QUADS = TILE_N / QUAD };
    const int column = thread_index() % QUADS * (step ? 1 : QUAD), left = t.n - t.column - column;
    const global<wide> sums = global_at<wide>(l.workspace) + t.part * l.call.outputs[0].elements;
#pragma unroll 1
    for (int i = thread_index() / QUADS; i < rows && left > 0; i += thread_count() / QUADS) {
        const int row = t.row + row_of(i);
        const int64_t first = row_offset(t, row) + t.column + column;
        wide p[QUAD];
        if (row >= t.m)
            continue;
        read_few<step>(slab, i * SLAB_PITCH + column, left, p);
        if (!IS_A_TRANSPOSED || t.parts == 1)
            finish_few<step>(l, first, left, p);
        else
            write_few<step, wide>(sums, first, left, p);
    }
}
template <class F>
DEVICE void finish_rows(const eitp__launch &l, const tile &t, shared<const wide> slab, int rows, const F &row_of) {
    if (has_vectors(l))
        finish_rows_by<0>(l, t, slab, rows, row_of);
    else
        finish_rows_by<TILE_N / QUAD>(l, t, slab, rows, row_of);
}

/* Adds the parts of the sums in order. Each thread has QUAD elements of y. */
template <int step> DEVICE void finish_parts_by(const eitp__launch &l) {
    const eitp__operand &a = l.call.inputs[0], &y = l.call.outputs[0];
    const int64_t k = a.rank == 2 ? first_dimension(l, a) : a.shape[a.rank - 2];
    const int64_t size = eitp__product_parts_of(&l.call).size, parts = k > size ? (k + size - 1) / size : 1;
    const int64_t first = block_index() * (PARTS_THREADS * QUAD) + thread_index() * (step ? 1 : QUAD);
    const int left = (int)least(elements_of(l, y) - first, PARTS_THREADS * QUAD);
    global<const wide> sums = global_at<const wide>(l.workspace);
    wide p[QUAD], more[QUAD];
    if (left <= 0)
        return;
    read_few<step>(sums, first, left, p);
    for (int64_t part = 1; part < parts; part++) {
        sums += y.elements;
        read_few<step>(sums, first, left, more);
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            p[e] += more[e];
    }
    finish_few<step>(l, first, left, p);
}
DEVICE void finish_parts(const eitp__launch &l) {
    if (has_vectors(l))
        finish_parts_by<0>(l);
    else
        finish_parts_by<PARTS_THREADS>(l);
}
#endif

#endif
