/*
 * MATMUL and HEAD with one multiply-add after another: for F32 and F64, and for 16 bits on GPUs whose tensor cores do
 * not support the type.
 *
 * A block is 16 x 16 threads. A thread has GROUP rows and GROUP columns of every 16 GROUP of the tile, so that a warp
 * reads few factors at once, side by side. Steps of TILE_K along k alternate between two buffers in shared memory, as
 * wide elements, with the whole width of the tile in a row.
 */
#ifndef TILE_M
#define TILE_M 64
#define TILE_N 64
#endif

#include "kernels/cuda/products.h"

#if IS_FLOATING
enum { THREADS = 256, TILE_K = 8, GROUP = QUAD, ROWS = TILE_M / 16, COLUMNS = TILE_N / 16 };
enum { PITCH_A = TILE_M + GROUP, PITCH_B = TILE_N + GROUP, SIZE_A = TILE_K * PITCH_A };
enum { PLACE = SIZE_A + TILE_K * PITCH_B, SLAB = 16 * SLAB_PITCH };

/*
 * Copies one operand's tiles, step by step. The contiguous dimension is k if `is_k_inner`, else the rows or columns of
 * y.
 */
template <int width, int is_k_inner> struct source {
    enum {
        ELEMENTS = width * TILE_K / THREADS, /* per thread */
        UNIT = GROUP == 4 && ELEMENTS % 4 == 0 ? 4 : 2,
        UNITS = (is_k_inner ? TILE_K : width) / UNIT,
        PASSES = ELEMENTS / UNIT,
        PASS = THREADS / UNITS, /* rows per pass of all threads */
        PITCH = width + GROUP
    };
    global<const scalar> x;
    int64_t next, stride;       /* this thread's next element; elements per row */
    int row, column;            /* this thread's start in a tile */
    int outer_left, inner_left; /* rows and columns of the matrix from there */
    int has_vectors;            /* rows are aligned to UNIT elements */
    wide values[PASSES][UNIT];  /* elements read */

    DEVICE_ATTRIBUTE source(const eitp__launch &l, const eitp__operand &operand, const tile &t, int first, int count) {
        const int64_t outer = is_k_inner ? first : t.begin, inner = is_k_inner ? t.begin : first;
        const int k_left = (int)(t.end - t.begin), left = count - first;
        x = global_at<const scalar>(operand.data);
        stride = eitp__row_stride_of(&operand);
        row = thread_index() / UNITS;
        column = thread_index() % UNITS * UNIT;
        next = matrix_offset(l, operand, t.batch) + (outer + row) * stride + inner + column;
        outer_left = (is_k_inner ? left : k_left) - row;
        inner_left = (is_k_inner ? k_left : left) - column;
        has_vectors = stride % UNIT == 0 && (uint64_t)operand.data % (UNIT * sizeof(scalar)) == 0;
    }
    DEVICE_ATTRIBUTE void read() {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const int64_t from = next + pass * PASS * stride;
            const int left = pass * PASS < outer_left ? inner_left : 0;
            if (has_vectors && left >= UNIT) {
                const auto v = load<UNIT>(x, from);
#pragma unroll
                for (int e = 0; e < UNIT; e++)
                    values[pass][e] = to_wide(v.v[e]);
            } else {
#pragma unroll
                for (int e = 0; e < UNIT; e++)
                    values[pass][e] = e < left ? to_wide(x[from + e]) : (wide)0;
            }
        }
        next += TILE_K * (is_k_inner ? 1 : stride);
        inner_left -= is_k_inner ? TILE_K : 0;
        outer_left -= is_k_inner ? 0 : TILE_K;
    }
    DEVICE_ATTRIBUTE void write(shared<wide> to) const {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const int at = row + pass * PASS;
            if (is_k_inner) {
#pragma unroll
                for (int e = 0; e < UNIT; e++)
                    to[(column + e) * PITCH + at] = values[pass][e];
            } else {
                vec<wide, UNIT> v;
#pragma unroll
                for (int e = 0; e < UNIT; e++)
                    v.v[e] = values[pass][e];
                store(to, at * PITCH + column, v);
            }
        }
    }
};

typedef source<TILE_M, !IS_A_TRANSPOSED> source_a;
typedef source<TILE_N, IS_B_TRANSPOSED> source_b;
typedef wide sums_of_thread[ROWS][COLUMNS];

/* A warp is 4 x 8 threads. */
DEVICE int thread_row() {
    return warp_index() / 2 * 4 + lane() / 8;
}
DEVICE int thread_column() {
    return warp_index() % 2 * 8 + lane() % 8;
}

/* Returns the tile row or column of element i of the thread at `at`. */
DEVICE int in_tile(int at, int i) {
    return (i / GROUP * 16 + at) * GROUP + i % GROUP;
}

template <int count> DEVICE void load_factors(wide (&f)[count], shared<const wide> from, int at) {
#pragma unroll
    for (int i = 0; i < count; i += GROUP) {
        const auto v = load<GROUP>(from, in_tile(at, i));
#pragma unroll
        for (int e = 0; e < GROUP; e++)
            f[i + e] = v.v[e];
    }
}

DEVICE void multiply(sums_of_thread &sums, shared<const wide> from) {
#pragma unroll
    for (int k = 0; k < TILE_K; k++) {
        wide a[ROWS], b[COLUMNS];
        load_factors(a, from + k * PITCH_A, thread_row());
        load_factors(b, from + (SIZE_A + k * PITCH_B), thread_column());
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                sums[i][j] = fma(a[i], b[j], sums[i][j]);
    }
}

DEVICE void add_products(const eitp__launch &l, const tile &t, shared<wide> memory, sums_of_thread &sums) {
    int steps = (int)((t.end - t.begin + TILE_K - 1) / TILE_K), from = 0;
    source_a a(l, l.call.inputs[0], t, t.row, t.m);
    source_b b(l, l.call.inputs[1], t, t.column, t.n);
    a.read();
    b.read();
    a.write(memory);
    b.write(memory + SIZE_A);
    barrier();
#pragma unroll 1
    for (; steps > 0; steps--) {
        a.read();
        b.read();
        multiply(sums, memory + from);
        from = PLACE - from;
        a.write(memory + from);
        b.write(memory + (from + SIZE_A));
        barrier();
    }
}

/* Stores the sums through shared memory, one row per thread at a time. */
DEVICE void finish(const eitp__launch &l, const tile &t, shared<wide> slab, const sums_of_thread &sums) {
#pragma unroll 1
    for (int part = 0; part < ROWS; part++) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (i == part)
#pragma unroll
                for (int j = 0; j < COLUMNS; j += GROUP) {
                    vec<wide, GROUP> v;
#pragma unroll
                    for (int e = 0; e < GROUP; e++)
                        v.v[e] = sums[i][j + e];
                    store(slab, thread_row() * SLAB_PITCH + in_tile(thread_column(), j), v);
                }
        barrier();
        finish_rows(l, t, slab, 16, [part](int i) { return in_tile(i, part); });
        barrier();
    }
}

DEVICE void product(const eitp__launch &l) {
    DYNAMIC_SHARED(wide, memory, 0, 2 * PLACE > SLAB ? 2 * PLACE : SLAB);
    SHARED(tile, kept, 1); /* in shared memory, because registers are scarce in the loop */
    const tile t = tile_of_block(l);
    const wide carry = t.part == 0 ? carry_of(l) : 0;
    sums_of_thread sums;
    if (!has_work(l, t))
        return;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            sums[i][j] =
                start_of(l, t, t.row + in_tile(thread_row(), i), t.column + in_tile(thread_column(), j), carry);
    if (thread_index() == 0)
        kept[0] = t;
    add_products(l, t, memory, sums);
    finish(l, kept[0], memory, sums);
}

#ifdef HEAD_BLOCK
KERNEL(head_kernel, THREADS) {
    product(l);
}
#else
RESIDENT_KERNEL(matmul_kernel, THREADS, 2) {
    product(l);
}
#if TRANSPOSES & 1
KERNEL(matmul_parts_kernel, PARTS_THREADS) {
    finish_parts(l);
}
#endif
#endif
#endif
