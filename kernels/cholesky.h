/* Shared by the LOGDET and INVERSE_SPD kernels: double-precision matrices in the workspace. */
#ifndef EITP_CHOLESKY_H
#define EITP_CHOLESKY_H

#include "kernels/kernels.h"

/* Block size, in rows and columns, of the factorization. */
#define EITP__CHOLESKY_BLOCK 64

/* A matrix in the workspace. */
typedef struct eitp__cholesky {
    int64_t m, stride;   /* stride: elements per row; those from m on are zero */
    double *rows;        /* [m, stride] */
    double *reciprocals; /* [m]; reciprocals of the factor's diagonal */
    double *triangle;    /* one block: the current diagonal block of the inverse factor */
    double *tile;        /* one block of products */
} eitp__cholesky;

/* Returns an odd number of cache lines, in elements, so that the rows of a block do not map to the same cache sets. */
static inline EITP__UNUSED int64_t eitp__cholesky_stride(int64_t m) {
    return ((m + 7) / 8 | 1) * 8;
}

static inline EITP__UNUSED size_t eitp__cholesky_workspace(const eitp__call *call) {
    const int64_t m = call->integers[0], block = EITP__CHOLESKY_BLOCK * EITP__CHOLESKY_BLOCK;
    return (size_t)(m * eitp__cholesky_stride(m) + 2 * block + m) * sizeof(double);
}

static inline EITP__UNUSED double eitp__cholesky_get(const eitp__operand *x, int64_t i) {
    return x->dtype == EITP_F64 ? ((const double *)x->data)[i] : (double)((const float *)x->data)[i];
}

static inline EITP__UNUSED void eitp__cholesky_put(const eitp__operand *y, int64_t i, double value) {
    if (y->dtype == EITP_F64)
        ((double *)y->data)[i] = value;
    else
        ((float *)y->data)[i] = (float)value;
}

/* Loads rows [i, i_end) and columns [j, j_end) of the lower triangle: the mean of the matrix and its transpose. */
static inline EITP__UNUSED void eitp__cholesky_load_tile(const eitp__cholesky *x, const eitp__operand *a, int64_t first,
                                                         int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
    for (int64_t row = i; row < i_end; row++)
        for (int64_t column = j; column < j_end && column <= row; column++)
            x->rows[row * x->stride + column] = 0.5 * (eitp__cholesky_get(a, first + row * x->m + column) +
                                                       eitp__cholesky_get(a, first + column * x->m + row));
}

/*
 * Loads the lower triangle of one matrix of the call and clears the rest. Works in tiles, so that the elements read by
 * column stay in the cache.
 */
static inline EITP__UNUSED eitp__cholesky eitp__cholesky_load(const eitp__call *call, int64_t item, void *workspace) {
    enum { TILE = 32 };
    const int64_t block = EITP__CHOLESKY_BLOCK * EITP__CHOLESKY_BLOCK;
    eitp__cholesky x;
    x.m = call->integers[0];
    x.stride = eitp__cholesky_stride(x.m);
    x.rows = (double *)workspace;
    x.triangle = x.rows + x.m * x.stride;
    x.tile = x.triangle + block;
    x.reciprocals = x.tile + block;
    memset(x.rows, 0, (size_t)(x.m * x.stride) * sizeof *x.rows);
    for (int64_t i = 0; i < x.m; i += TILE)
        for (int64_t j = 0; j <= i; j += TILE)
            eitp__cholesky_load_tile(&x, &call->inputs[0], item * x.m * x.m, i, i + TILE < x.m ? i + TILE : x.m, j,
                                     j + TILE < x.m ? j + TILE : x.m);
    return x;
}

#endif
