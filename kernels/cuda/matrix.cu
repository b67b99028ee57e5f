/*
 * LOGDET and INVERSE_SPD by Cholesky factorization in double precision, one matrix per block at a time.
 *
 * As in kernels/cholesky.inc, every step multiplies rows by rows, here in tiles of TILE x TILE. The factor L is in the
 * lower triangle of a matrix in the workspace, and rows of the transposed inverse of L replace those of the upper
 * triangle. The inverses of the diagonal tiles of L are stored separately, so that solving becomes multiplication. If
 * the extent of a matrix is not a multiple of TILE, the matrix is extended with ones on the diagonal, which do not
 * change the result.
 */
#include "kernels/cuda/call.h"

/* F32 and F64. */
#if SCALAR == 0 || SCALAR == 1

constexpr int TILE = 64, THREADS = 256; /* EITP__CUDA_CHOLESKY_TILE */
constexpr int DEPTH = 16;               /* columns of a product that are in shared memory at a time */
constexpr int SIDE = 4;                 /* side of the square of elements that a thread has in a tile */
constexpr int STRIDE = TILE + 2;

/* A matrix in the workspace, and shared memory for one tile, or for DEPTH columns of two tiles. */
struct cholesky {
    int64_t m, extent;          /* extent: a multiple of TILE */
    global<double> rows;        /* [extent, extent] */
    global<double> inverses;    /* [extent, TILE]; of the diagonal tiles of L, with zeros above the diagonal */
    shared<double> tile;        /* [TILE, STRIDE] */
    shared<double> reciprocals; /* [TILE]; reciprocals of the diagonal of a tile of L */
};

/* ---- Products ---- */

/* Loads columns [k, k + DEPTH) of TILE rows into shared memory, transposed. */
DEVICE void bring(shared<double> to, global<const double> rows, int64_t stride, int64_t k) {
    const int row = thread_index() / 4, first = thread_index() % 4 * 4;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const vec<double, 2> v = load<2>(rows, row * stride + k + first + i);
        to[(first + i) * STRIDE + row] = v.v[0];
        to[(first + i + 1) * STRIDE + row] = v.v[1];
    }
}

/* sums[i][j] = the product, over `count` columns, of this thread's row i of a and row j of b. */
DEVICE void multiply(const cholesky &x, double (&sums)[SIDE][SIDE], global<const double> a, int64_t a_stride,
                     global<const double> b, int64_t b_stride, int64_t count) {
    const int i = thread_index() / 16 * SIDE, j = thread_index() % 16 * SIDE;
    const shared<double> p = x.tile, q = x.tile + DEPTH * STRIDE;
#pragma unroll
    for (int s = 0; s < SIDE; s++)
#pragma unroll
        for (int t = 0; t < SIDE; t++)
            sums[s][t] = 0;
    for (int64_t k = 0; k < count; k += DEPTH) {
        barrier();
        bring(p, a, a_stride, k);
        bring(q, b, b_stride, k);
        barrier();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            const vec<double, 2> u0 = load<2>(p, d * STRIDE + i), u1 = load<2>(p, d * STRIDE + i + 2);
            const vec<double, 2> v0 = load<2>(q, d * STRIDE + j), v1 = load<2>(q, d * STRIDE + j + 2);
            const double u[SIDE] = {u0.v[0], u0.v[1], u1.v[0], u1.v[1]};
            const double v[SIDE] = {v0.v[0], v0.v[1], v1.v[0], v1.v[1]};
#pragma unroll
            for (int s = 0; s < SIDE; s++)
#pragma unroll
                for (int t = 0; t < SIDE; t++)
                    sums[s][t] += u[s] * v[t];
        }
    }
    barrier();
}

/* Calls f(i, j, element) for this thread's elements of a tile. */
template <class F> DEVICE void for_elements(double (&sums)[SIDE][SIDE], F f) {
    const int i = thread_index() / 16 * SIDE, j = thread_index() % 16 * SIDE;
#pragma unroll
    for (int s = 0; s < SIDE; s++)
#pragma unroll
        for (int t = 0; t < SIDE; t++)
            f(i + s, j + t, sums[s][t]);
}

/* Returns the tile at a row and a column of the matrix. */
DEVICE global<double> tile_at(const cholesky &x, int64_t row, int64_t column) {
    return x.rows + (row * x.extent + column);
}

/* Replaces a tile by its product with the transposed inverse of a diagonal tile of L. */
DEVICE void divide(const cholesky &x, global<double> tile, int64_t diagonal) {
    double sums[SIDE][SIDE];
    multiply(x, sums, tile, x.extent, x.inverses + diagonal * TILE, TILE, TILE);
    for_elements(sums, [&](int i, int j, double sum) { tile[i * x.extent + j] = sum; });
}

/* ---- The factor ---- */

/* Loads the lower triangle of the symmetric part of a matrix. */
DEVICE void load_matrix_of(const eitp__launch &l, const cholesky &x, int64_t item) {
    const global<const scalar> a = input<scalar>(l, 0) + item * x.m * x.m;
    for (int64_t i = warp_index(); i < x.extent; i += THREADS / 32)
        for (int64_t j = lane(); j < (i / TILE + 1) * TILE; j += 32) {
            double value = i == j;
            if (i < x.m)
                value = j < x.m ? 0.5 * ((double)a[i * x.m + j] + (double)a[j * x.m + i]) : 0;
            x.rows[i * x.extent + j] = value;
        }
    barrier();
}

/*
 * Factorizes the tile in shared memory. `count` of its rows belong to the matrix. Its diagonal keeps the values before
 * the square root. Returns 0 if it is not positive definite.
 */
DEVICE int factorize_tile(const cholesky &x, int count) {
    const int column = thread_index() % TILE, group = thread_index() / TILE, groups = THREADS / TILE;
    if (group == 0 && column >= count)
        x.reciprocals[column] = 1;
    for (int p = 0; p < count; p++) {
        const double pivot = x.tile[p * STRIDE + p], reciprocal = 1 / sqrt(pivot);
        if (!(pivot > 0))
            return 0;
        if (group == 0 && column == p)
            x.reciprocals[p] = reciprocal;
        if (group == 0 && column > p)
            x.tile[column * STRIDE + p] = x.tile[column * STRIDE + p] * reciprocal;
        barrier();
        for (int i = p + 1 + group; i < count; i += groups)
            if (column > p && column <= i)
                x.tile[i * STRIDE + column] =
                    x.tile[i * STRIDE + column] - x.tile[i * STRIDE + p] * x.tile[column * STRIDE + p];
        barrier();
    }
    barrier();
    return 1;
}

/* Stores the inverse of the tile of L in shared memory. Column j of the inverse is row j above the diagonal. */
DEVICE void invert_tile(const cholesky &x, int64_t first) {
    const int j = thread_index();
    if (j < TILE)
        for (int i = j + 1; i < TILE; i++) {
            double sum = x.tile[i * STRIDE + j] * x.reciprocals[j];
            for (int k = j + 1; k < i; k++)
                sum += x.tile[i * STRIDE + k] * x.tile[j * STRIDE + k];
            x.tile[j * STRIDE + i] = -sum * x.reciprocals[i];
        }
    barrier();
    for (int t = thread_index(); t < TILE * TILE; t += THREADS) {
        const int i = t / TILE, k = t % TILE;
        double value = 0;
        if (k <= i)
            value = k == i ? x.reciprocals[i] : x.tile[k * STRIDE + i];
        x.inverses[first * TILE + t] = value;
    }
    barrier();
}

/*
 * Replaces the lower triangle by L, except the diagonal tiles, which are stored as inverses. Returns the logarithm of
 * the determinant to every thread, or NaN if the matrix is not positive definite.
 */
DEVICE double factorize(const cholesky &x) {
    SHARED(double, scratch, 32);
    double result = 0;
    for (int64_t first = 0; first < x.extent; first += TILE) {
        const int count = (int)(x.m - first < TILE ? x.m - first : TILE);
        for (int64_t row = first; row < x.extent && first; row += TILE) {
            double sums[SIDE][SIDE];
            multiply(x, sums, tile_at(x, row, 0), x.extent, tile_at(x, first, 0), x.extent, first);
            const global<double> tile = tile_at(x, row, first);
            for_elements(sums,
                         [&](int i, int j, double sum) { tile[i * x.extent + j] = tile[i * x.extent + j] - sum; });
        }
        barrier();
        for (int t = thread_index(); t < TILE * TILE; t += THREADS)
            x.tile[t / TILE * STRIDE + t % TILE] = tile_at(x, first, first)[t / TILE * x.extent + t % TILE];
        barrier();
        if (!factorize_tile(x, count))
            return (double)NAN;
        const int t = thread_index();
        result += block_sum(t < count ? log((double)x.tile[t * STRIDE + t]) : 0.0, scratch);
        invert_tile(x, first);
        for (int64_t row = first + TILE; row < x.extent; row += TILE)
            divide(x, tile_at(x, row, first), first);
        barrier();
    }
    return result;
}

/* ---- The inverse ---- */

/* Replaces rows [first, first + TILE) of the upper triangle with rows of the transposed inverse of L. */
DEVICE void invert_rows(const cholesky &x, int64_t first) {
    for (int t = thread_index(); t < TILE * TILE; t += THREADS)
        tile_at(x, first, first)[t / TILE * x.extent + t % TILE] =
            (double)x.inverses[first * TILE + t % TILE * TILE + t / TILE];
    for (int64_t next = first + TILE; next < x.extent; next += TILE) {
        const global<double> tile = tile_at(x, first, next);
        double sums[SIDE][SIDE];
        multiply(x, sums, tile_at(x, first, first), x.extent, tile_at(x, next, first), x.extent, next - first);
        for_elements(sums, [&](int i, int j, double sum) { tile[i * x.extent + j] = -sum; });
        divide(x, tile, next);
    }
    barrier();
}

/*
 * Stores the products of rows [first, first + TILE) of the transposed inverse with all rows up to and including these.
 */
DEVICE void multiply_rows(const cholesky &x, int64_t first, global<scalar> y) {
    for (int64_t other = 0; other <= first; other += TILE) {
        double sums[SIDE][SIDE];
        multiply(x, sums, tile_at(x, first, first), x.extent, tile_at(x, other, first), x.extent, x.extent - first);
        for_elements(sums, [&](int i, int j, double sum) {
            if (first + i >= x.m || other + j > first + i)
                return;
            y[(first + i) * x.m + other + j] = (scalar)sum;
            if (other + j < first + i)
                y[(other + j) * x.m + first + i] = (scalar)sum;
        });
    }
}

/* Factorizes each of this block's matrices and calls f(item, x, logarithm of the determinant). */
template <class F> DEVICE void for_matrices(const eitp__launch &l, F f) {
    SHARED(double, tile, TILE *STRIDE);
    SHARED(double, reciprocals, TILE);
    const int64_t m = l.call.integers[0], extent = (m + TILE - 1) / TILE * TILE, size = extent * (extent + TILE);
    const global<double> rows = global_at<double>(l.workspace) + block_index() * size;
    const cholesky x = {m, extent, rows, rows + extent * extent, tile, reciprocals};
    for (int64_t item = block_index(); item * m * m < elements_of(l, l.call.inputs[0]); item += block_count()) {
        load_matrix_of(l, x, item);
        f(item, x, factorize(x));
        barrier();
    }
}

KERNEL(logdet_kernel, THREADS) {
    for_matrices(l, [&](int64_t item, const cholesky &, double result) {
        if (thread_index() == 0)
            output<scalar>(l, 0)[item] = (scalar)result;
    });
}

KERNEL(inverse_spd_kernel, THREADS) {
    for_matrices(l, [&](int64_t item, const cholesky &x, double result) {
        const global<scalar> y = output<scalar>(l, 0) + item * x.m * x.m;
        if (result != result) {
            for (int64_t i = thread_index(); i < x.m * x.m; i += THREADS)
                y[i] = (scalar)NAN;
            return;
        }
        for (int64_t first = 0; first < x.extent; first += TILE)
            invert_rows(x, first);
        for (int64_t first = 0; first < x.extent; first += TILE)
            multiply_rows(x, first, y);
    });
}

#endif
