/*
 * MATMUL and HEAD for 16-bit elements, on tensor cores.
 *
 * Steps of TILE_K along k are copied to shared memory, up to three ahead. A row in shared memory holds elements that
 * are contiguous in global memory. Its 16-byte chunks are permuted differently in successive rows, so that neither
 * copies nor load_matrix have bank conflicts. If SHIFTED, rows of operands may start at any element: they are read as
 * aligned vectors and shifted in registers.
 */
#ifndef TILE_M
#define TILE_M 128
#define TILE_N 128
#define TILE_K 32
#define WARPS_M 2
#define WARPS_N 2
#define SHIFTED 0
#endif

#include "kernels/cuda/products.h"

#if IS_HALF
enum { THREADS = WARPS_M * WARPS_N * 32, WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N };
enum { ROWS = WARP_M / 16, COLUMNS = WARP_N / 8, DEPTHS = TILE_K / 16 }; /* mma tiles per warp */
enum { STAGES = 3, CHUNK = 8, SIZE_A = TILE_M * TILE_K, STAGE = SIZE_A + TILE_N * TILE_K };
enum { SLAB_ROWS = WARPS_M * 16 };

/* Returns the offset of a chunk in a tile with `chunks` chunks per row. */
template <int chunks> DEVICE int place_of(int row, int chunk) {
    return (row * chunks + (chunk ^ (chunks < 8 ? row * chunks / 8 % chunks : row % 8))) * CHUNK;
}

/*
 * Copies one operand's tiles, step by step. The contiguous dimension is k if `is_k_inner`, else the rows or columns of
 * y.
 */
template <int width, int is_k_inner> struct source {
    enum {
        OUTER = is_k_inner ? width : TILE_K,
        INNER = is_k_inner ? TILE_K : width,
        CHUNKS = INNER / CHUNK,
        UNIT = SHIFTED ? 2 * CHUNK : CHUNK, /* elements per thread and copy */
        UNITS = INNER / UNIT,
        PASS = THREADS / UNITS, /* rows per pass of all threads */
        PASSES = (OUTER + PASS - 1) / PASS
    };
    global<const scalar> x;
    int64_t next, begin, end;   /* this thread's next element of x; bounds of the operand in x */
    int64_t stride;             /* elements per row */
    int row, chunk, place;      /* this thread's start in a tile */
    int outer_left, inner_left; /* rows and columns of the matrix from there */

    DEVICE_ATTRIBUTE source(const eitp__launch &l, const eitp__operand &operand, const tile &t, int first, int count) {
        const int64_t outer = is_k_inner ? first : t.begin, inner = is_k_inner ? t.begin : first;
        const int k_left = (int)(t.end - t.begin), left = count - first;
        begin = (int64_t)((uint64_t)operand.data / sizeof(scalar) % CHUNK);
        x = global_at<const scalar>(operand.data) + -begin; /* aligned */
        end = begin + elements_of(l, operand);
        stride = eitp__row_stride_of(&operand);
        row = thread_index() / UNITS;
        chunk = thread_index() % UNITS * (UNIT / CHUNK);
        place = place_of<CHUNKS>(row, chunk);
        next = begin + matrix_offset(l, operand, t.batch) + (outer + row) * stride + inner + chunk * CHUNK;
        outer_left = (is_k_inner ? left : k_left) - row;
        inner_left = (is_k_inner ? k_left : left) - chunk * CHUNK;
    }
    /* The order of chunks repeats every 8 rows. */
    DEVICE_ATTRIBUTE int place_in(int pass) const {
        return PASS % 8 ? place_of<CHUNKS>(row + pass * PASS, chunk) : place + pass * (PASS * INNER);
    }
    DEVICE_ATTRIBUTE int is_there(int pass) const {
        return pass * PASS < outer_left && inner_left > 0 && (OUTER % PASS == 0 || row + pass * PASS < OUTER);
    }
    DEVICE_ATTRIBUTE void advance() {
        next += TILE_K * (is_k_inner ? 1 : stride);
        inner_left -= is_k_inner ? TILE_K : 0;
        outer_left -= is_k_inner ? 0 : TILE_K;
    }

#if SHIFTED
    uint32_t words[PASSES][12]; /* words read in each pass: two chunks start after `shifts` elements */
    int shifts[PASSES];

    DEVICE_ATTRIBUTE void read() {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const int64_t from = next + pass * PASS * stride;
            const int shift = (int)from & (CHUNK - 1);
            const int is_whole = is_there(pass) && (!is_k_inner || inner_left >= UNIT);
            uint32_t *w = words[pass];
            if (is_whole && from - shift >= begin && from - shift + (shift ? 3 : 2) * CHUNK <= end) {
                load_words(w, x, from - shift);
                load_words(w + 4, x, from - shift + CHUNK);
                if (shift)
                    load_words(w + 8, x, from - shift + 2 * CHUNK);
                shifts[pass] = shift;
            } else {
#pragma unroll
                for (int i = 0; i < CHUNK; i++)
                    w[i] = word_at(pass, from, 2 * i);
                shifts[pass] = 0;
            }
        }
        advance();
    }
    /* Returns two elements, with zeros for missing ones. */
    DEVICE_ATTRIBUTE uint32_t word_at(int pass, int64_t from, int i) const {
        scalar low = scalar(), high = scalar();
        if (is_there(pass) && i < inner_left)
            low = x[from + i];
        if (is_there(pass) && i + 1 < inner_left)
            high = x[from + i + 1];
        return low.bits | (uint32_t)high.bits << 16;
    }
    DEVICE_ATTRIBUTE void write(shared<scalar> to) {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const int shift = shifts[pass], at = place_in(pass);
            uint32_t *w = words[pass];
#pragma unroll
            for (int i = 0; i < 10; i++)
                w[i] = shift & 4 ? w[i + 2] : w[i];
#pragma unroll
            for (int i = 0; i < 9; i++)
                w[i] = shift & 2 ? w[i + 1] : w[i];
#pragma unroll
            for (int i = 0; i < 8; i++)
                w[i] = shift & 1 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
            if (OUTER % PASS && row + pass * PASS >= OUTER)
                continue;
            store_words(to, at, w);
            store_words(to, at ^ CHUNK, w + 4);
        }
    }
#else
    DEVICE_ATTRIBUTE void copy(shared<scalar> to) {
        if ((PASSES - 1) * PASS < outer_left && inner_left > 0 && begin == 0) {
            global<const scalar> from = x + next;
#pragma unroll
            for (int pass = 0; pass < PASSES; pass++, from += PASS * stride)
                copy_async(to + place_in(pass), from, 1);
        } else {
            copy_some(to);
        }
        advance();
    }
    /* Slow path: edges of the matrix, and the rare views that do not start at an aligned address. */
    DEVICE_ATTRIBUTE void copy_some(shared<scalar> to) const {
#pragma unroll 1
        for (int pass = 0; pass < PASSES; pass++) {
            const shared<scalar> at = to + place_in(pass);
            const global<const scalar> from = x + (next + pass * PASS * stride);
            if (begin == 0)
                copy_async(at, from, is_there(pass));
#pragma unroll 1
            for (int e = 0; begin && e < CHUNK; e++)
                at[e] = is_there(pass) ? (scalar)from[e] : scalar();
        }
    }
#endif
};

typedef source<TILE_M, !IS_A_TRANSPOSED> source_a;
typedef source<TILE_N, IS_B_TRANSPOSED> source_b;

/* Factors that a warp multiplies at once: 16 steps of k of its rows and columns. */
struct factors {
    uint32_t a[ROWS][4], b[COLUMNS / 2][4];
};

DEVICE int warp_row() {
    return warp_index() / WARPS_N * WARP_M;
}
DEVICE int warp_column() {
    return warp_index() % WARPS_N * WARP_N;
}

/*
 * Returns a lane's address for load_matrix of four 8 x 8 tiles in the first steps of k. Bit 3 of the lane's number
 * moves 8 along the width if `is_width_first`, else along k. Bit 4 moves 8 along the other dimension.
 */
template <int chunks, int is_k_inner> DEVICE int lane_place(int first, int is_width_first) {
    const int second = lane() / 8 % 2, third = lane() / 16;
    const int along_width = is_width_first ? second : third, along_k = is_width_first ? third : second;
    return is_k_inner ? place_of<chunks>(first + along_width * 8 + lane() % 8, along_k)
                      : place_of<chunks>(along_k * 8 + lane() % 8, first / CHUNK + along_width);
}

/*
 * Like the above, for other steps of k and other rows or columns, multiples of 16. Of the chunk number, only the bits
 * that take part in the permutation change.
 */
template <int chunks, int is_k_inner> DEVICE int place_from(int place, int width, int depth) {
    return is_k_inner ? (place ^ depth * 16) + width * (chunks * CHUNK)
                      : (place ^ width) + depth * (16 * chunks * CHUNK);
}

struct places {
    int a, b;
};

DEVICE places places_of_lane() {
    places p;
    p.a = lane_place<source_a::CHUNKS, !IS_A_TRANSPOSED>(warp_row(), 1);
    p.b = SIZE_A + lane_place<source_b::CHUNKS, IS_B_TRANSPOSED>(warp_column(), !1);
    return p;
}

DEVICE void load_factors(factors &f, shared<const scalar> stage, const places &p, int depth) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const shared<const scalar> from = stage + place_from<source_a::CHUNKS, !IS_A_TRANSPOSED>(p.a, i * 16, depth);
        if (IS_A_TRANSPOSED)
            load_matrix_transposed(f.a[i], from);
        else
            load_matrix(f.a[i], from);
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j++) {
        const shared<const scalar> from = stage + place_from<source_b::CHUNKS, IS_B_TRANSPOSED>(p.b, j * 16, depth);
        if (IS_B_TRANSPOSED)
            load_matrix(f.b[j], from);
        else
            load_matrix_transposed(f.b[j], from);
    }
}

typedef float sums_of_warp[ROWS][COLUMNS][4];

DEVICE void multiply(sums_of_warp &sums, const factors &f) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            mma<scalar>(sums[i][j], f.a[i], f.b[j / 2] + j % 2 * 2);
}

/* Adds the products over the tile's steps of k. Loads the factors of a step while the previous ones are multiplied. */
DEVICE void add_products(const eitp__launch &l, const tile &t, shared<scalar> memory, sums_of_warp &sums) {
    const int steps = (int)((t.end - t.begin + TILE_K - 1) / TILE_K);
    source_a a(l, l.call.inputs[0], t, t.row, t.m);
    source_b b(l, l.call.inputs[1], t, t.column, t.n);
    factors f[2];
    const places p = places_of_lane();
    int stage = 0; /* stage of the step being multiplied */
    if (!steps)
        return;
#if SHIFTED
    for (int s = 0; s < STAGES - 1; s++) {
        a.read();
        b.read();
        a.write(memory + s * STAGE);
        b.write(memory + (s * STAGE + SIZE_A));
    }
    a.read();
    b.read();
#else
    for (int s = 0; s < STAGES; s++) {
        a.copy(memory + s * STAGE);
        b.copy(memory + (s * STAGE + SIZE_A));
        copy_async_commit();
    }
    copy_async_wait<STAGES - 1>();
#endif
    barrier();
    load_factors(f[0], memory, p, 0);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int depth = 0; depth < DEPTHS - 1; depth++) {
            load_factors(f[(depth + 1) % 2], memory + stage * STAGE, p, depth + 1);
            multiply(sums, f[depth % 2]);
        }
        /* All factors of this stage are now in registers. */
#if SHIFTED
        barrier();
#else
        copy_async_wait<STAGES - 2>();
        barrier();
        a.copy(memory + stage * STAGE);
        b.copy(memory + (stage * STAGE + SIZE_A));
        copy_async_commit();
#endif
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        load_factors(f[DEPTHS % 2], memory + stage * STAGE, p, 0);
        multiply(sums, f[(DEPTHS - 1) % 2]);
#if SHIFTED
        {
            const int unused = stage + 1 < STAGES ? stage + 1 : 0;
            a.write(memory + unused * STAGE);
            b.write(memory + (unused * STAGE + SIZE_A));
            a.read();
            b.read();
        }
#endif
    }
#if !SHIFTED
    copy_async_wait<0>(); /* copies past the last step: the sums reuse the memory where they write zeros */
#endif
}

/* In an mma tile, lane i holds rows i / 4 and i / 4 + 8, and columns 2 (i % 4) and 2 (i % 4) + 1. */
DEVICE void start(const eitp__launch &l, const tile &t, sums_of_warp &sums) {
    const int row = t.row + warp_row() + lane() / 4, column = t.column + warp_column() + lane() % 4 * 2;
    const wide carry = t.part == 0 ? carry_of(l) : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[i][j][e] = start_of(l, t, row + i * 16 + e / 2 * 8, column + j * 8 + e % 2, carry);
}

/* Stores the sums through shared memory, 16 rows of each warp at a time, so that whole rows are written. */
DEVICE void finish(const eitp__launch &l, const tile &t, shared<wide> slab, const sums_of_warp &sums) {
#pragma unroll 1
    for (int part = 0; part < ROWS; part++) {
        barrier();
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (i == part)
#pragma unroll
                for (int j = 0; j < COLUMNS * 2; j++) {
                    const int row = warp_row() / WARP_M * 16 + j % 2 * 8 + lane() / 4;
                    vec<wide, 2> v;
                    v.v[0] = sums[i][j / 2][j % 2 * 2];
                    v.v[1] = sums[i][j / 2][j % 2 * 2 + 1];
                    store(slab, row * SLAB_PITCH + warp_column() + j / 2 * 8 + lane() % 4 * 2, v);
                }
        barrier();
        finish_rows(l, t, slab, SLAB_ROWS, [part](int i) { return i / 16 * WARP_M + part * 16 + i % 16; });
    }
}

DEVICE void product(const eitp__launch &l) {
    DYNAMIC_SHARED(scalar, memory, 0, STAGES * STAGE);
    DYNAMIC_SHARED(wide, slab, 0, SLAB_ROWS * SLAB_PITCH);
    const tile t = tile_of_block(l);
    sums_of_warp sums;
    if (!has_work(l, t))
        return;
    start(l, t, sums);
    add_products(l, t, memory, sums);
    finish(l, t, slab, sums);
}

#ifdef HEAD_BLOCK
KERNEL(head_kernel, THREADS) {
    product(l);
}
#else
/* Compilers spill registers to hold more blocks at once. Shared memory holds no more narrow tiles, and unaligned copies
   need these registers. */
#if SHIFTED || TILE_M < 64
RESIDENT_KERNEL(matmul_kernel, THREADS, 1) {
#else
KERNEL(matmul_kernel, THREADS) {
#endif
    product(l);
}
#if TRANSPOSES & 1
KERNEL(matmul_parts_kernel, PARTS_THREADS) {
    finish_parts(l);
}
#endif
#endif
#endif
