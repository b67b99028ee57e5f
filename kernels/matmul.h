/* Shared by the matrix product kernels. */
#ifndef EITP_MATMUL_H
#define EITP_MATMUL_H

#include "kernels/kernels.h"

/* For functions that are specialized by constant arguments. */
#define EITP__MATMUL_INLINE static inline __attribute__((always_inline, unused))

/* An item of MATMUL or HEAD: a range of rows and columns of one batch element of y. */
typedef struct eitp__matmul_tile {
    int64_t batch, row, column, rows, columns;
} eitp__matmul_tile;

EITP__PRIVATE eitp__matmul_tile eitp__matmul_tile_at(const eitp__matmul *sizes, int64_t item, int64_t tile_rows,
                                                     int64_t tile_columns);

/* Prefetches a matrix in `times` parts: `rows` rows of `bytes` bytes, with a stride of `stride` bytes. */
typedef struct eitp__matmul_prefetch {
    const char *row;
    int64_t stride, bytes, rows, times;
    int64_t due; /* rows due, in units of 1 / times */
} eitp__matmul_prefetch;

static inline EITP__UNUSED void eitp__matmul_prefetch_next(eitp__matmul_prefetch *next) {
    for (next->due += next->rows; next->due >= next->times; next->due -= next->times, next->row += next->stride)
        for (int64_t at = 0; at < next->bytes; at += 64)
            __builtin_prefetch(next->row + at, 0, 2);
}

/* Prefetches the elements of a tile of an operand that has the shape of y. Does nothing if the operand is NULL. */
EITP__PRIVATE eitp__matmul_prefetch eitp__matmul_prefetch_tile(const eitp__operand *operand,
                                                               const eitp__matmul_tile *tile, int64_t times);

/* Returns the factor of the old y before a product is added; 0 if y is overwritten. */
EITP__PRIVATE float eitp__matmul_carry(const eitp__call *call);

/* Returns an input or output of a call, or NULL if it is absent. */
EITP__PRIVATE const eitp__operand *eitp__matmul_input(const eitp__call *call, int index);
EITP__PRIVATE const eitp__operand *eitp__matmul_output(const eitp__call *call, int index);

/* Returns the extra operand of MATMUL's epilogue, or NULL. */
EITP__PRIVATE const eitp__operand *eitp__matmul_operand(const eitp__call *call);

/*
 * Finishes a tile of MATMUL or HEAD: computes the outputs from f32 sums with row stride `stride`. Applies the epilogue,
 * computes the exponentials of the head, and converts to the stored type. The sums may be y itself.
 */
EITP__PRIVATE void eitp__ref_finish_tile(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                         int64_t stride);
#if EITP__WITH_AVX2
EITP__PRIVATE void eitp__avx2_finish_tile(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                          int64_t stride);
#endif
#if EITP__WITH_AVX512
EITP__PRIVATE void eitp__avx512_finish_tile(const eitp__call *call, const eitp__matmul_tile *tile, const float *sums,
                                            int64_t stride);
#endif

#endif
