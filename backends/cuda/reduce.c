/* The kernels of kernels/cuda/reduce.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

#define EITP__CUDA_FILE "kernels/cuda/reduce.cu"

/*
 * Maximum terms of a sum that a single thread adds; maximum terms, or columns of a row, for a warp; terms added by a
 * block, equal to SUM_TERMS of the kernels.
 */
enum { EITP__CUDA_FEW = 16, EITP__CUDA_WARP_TERMS = 1024, EITP__CUDA_SUM_TERMS = 16384 };

/* Columns summed by a block. */
#define EITP__CUDA_STRIP 32

/* ---- SUM, MAX, ARGMAX ---- */

/* Returns the maximum number of terms of a result. */
static int64_t eitp__cuda_terms(const eitp__call *call) {
    int64_t terms = 1;
    for (int d = 0; d < call->inputs[0].rank; d++)
        terms *= call->integers[0] >> d & 1 ? call->inputs[0].shape[d] : 1;
    return terms;
}

/* True if the last dimension, among those with more than one index, is reduced. */
static int eitp__cuda_reduces_rows(const eitp__call *call) {
    int d = call->inputs[0].rank - 1;
    while (d >= 0 && call->inputs[0].shape[d] == 1)
        d--;
    return d >= 0 && (call->integers[0] >> d & 1);
}

/* True if the number of terms does not vary with the rows. Otherwise it must not determine the order of a sum. */
static int eitp__cuda_terms_are_fixed(const eitp__call *call) {
    return !(call->integers[0] & 1) || !call->inputs[0].rank || call->inputs[0].shape[0] == 1;
}

/* The terms of a column are added in the same order by every kernel of this file. */
static int eitp__cuda_sums_few(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__cuda_terms(call) <= EITP__CUDA_FEW &&
           (!eitp__cuda_reduces_rows(call) || eitp__cuda_terms_are_fixed(call));
}

static int eitp__cuda_reduces_short_rows(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__cuda_reduces_rows(call) && eitp__cuda_terms_are_fixed(call) &&
           eitp__cuda_terms(call) <= EITP__CUDA_WARP_TERMS;
}

static int eitp__cuda_reduces_long_rows(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__cuda_reduces_rows(call);
}

static int64_t eitp__cuda_thread_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS);
}

static int64_t eitp__cuda_result_blocks(const eitp__call *call) {
    return call->outputs[0].elements;
}

static int64_t eitp__cuda_result_strips(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_STRIP);
}

/* Returns the blocks for each sum of rows. */
static int64_t eitp__cuda_sum_parts(const eitp__call *call) {
    const int64_t parts = eitp__cuda_ceil_divide(eitp__cuda_terms(call), EITP__CUDA_SUM_TERMS);
    return parts > 1 ? parts : 1;
}

static int64_t eitp__cuda_sum_row_blocks(const eitp__call *call) {
    return eitp__cuda_sum_parts(call) * call->outputs[0].elements;
}

static int64_t eitp__cuda_sum_part_blocks(const eitp__call *call) {
    return eitp__cuda_sum_parts(call) > 1 ? call->outputs[0].elements : 0;
}

static size_t eitp__cuda_sum_row_workspace(const eitp__call *call) {
    return eitp__cuda_sum_part_blocks(call) ? (size_t)eitp__cuda_sum_row_blocks(call) * sizeof(double) : 0;
}

/* ---- Squares and products ---- */

static int eitp__cuda_has_short_rows(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__operand_columns(&call->inputs[0]) <= EITP__CUDA_WARP_TERMS;
}

static int64_t eitp__cuda_column_strips(const eitp__call *call) {
    return eitp__cuda_ceil_divide(eitp__operand_columns(&call->inputs[0]), EITP__CUDA_STRIP);
}

/* ---- Entries ---- */

/* Entries with one stage. */
#define EITP__CUDA_STAGE(SLOT, dtypes, supports, kernel, threads, blocks)                                              \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, dtypes, EITP__CUDA_FILE, supports, NULL, NULL, {                                            \
            { kernel, threads, blocks, NULL }                                                                          \
        }                                                                                                              \
    }

/* Entries with a warp for each short row and a block for each long one. */
#define EITP__CUDA_BY_ROWS(SLOT, is_short, is_long, kernel, blocks)                                                    \
    EITP__CUDA_STAGE(SLOT, EITP__CUDA_FLOATING, is_short, kernel, 32, blocks),                                         \
        EITP__CUDA_STAGE(SLOT, EITP__CUDA_FLOATING, is_long, kernel, EITP__CUDA_THREADS, blocks)

#define EITP__CUDA_LARGEST(SLOT, name)                                                                                 \
    EITP__CUDA_BY_ROWS(SLOT, eitp__cuda_reduces_short_rows, eitp__cuda_reduces_long_rows, name "_rows_kernel",         \
                       eitp__cuda_result_blocks),                                                                      \
        EITP__CUDA_STAGE(SLOT, EITP__CUDA_FLOATING, NULL, name "_columns_kernel", EITP__CUDA_THREADS,                  \
                         eitp__cuda_result_strips)

static const eitp__cuda_kernels eitp__cuda_reduce_kernels[] = {
    EITP__CUDA_STAGE(SUM, EITP__CUDA_FLOATING, eitp__cuda_sums_few, "sum_kernel", EITP__CUDA_THREADS,
                     eitp__cuda_thread_blocks),
    EITP__CUDA_STAGE(SUM, EITP__CUDA_FLOATING, eitp__cuda_reduces_short_rows, "sum_rows_kernel", 32,
                     eitp__cuda_result_blocks),
    {EITP__SLOT_SUM,
     EITP__CUDA_FLOATING,
     EITP__CUDA_FILE,
     eitp__cuda_reduces_long_rows,
     eitp__cuda_sum_row_workspace,
     NULL,
     {{"sum_rows_kernel", EITP__CUDA_THREADS, eitp__cuda_sum_row_blocks, NULL},
      {"sum_parts_kernel", EITP__CUDA_THREADS, eitp__cuda_sum_part_blocks, NULL}}},
    EITP__CUDA_STAGE(SUM, EITP__CUDA_FLOATING, NULL, "sum_columns_kernel", EITP__CUDA_THREADS,
                     eitp__cuda_result_strips),
    EITP__CUDA_LARGEST(MAX, "max"),
    EITP__CUDA_LARGEST(ARGMAX, "argmax"),
    EITP__CUDA_STAGE(SUM_SQUARES, EITP__CUDA_FLOATING, NULL, "sum_squares_kernel", EITP__CUDA_THREADS,
                     eitp__cuda_result_blocks),
    EITP__CUDA_BY_ROWS(ROW_SQUARES, eitp__cuda_has_short_rows, NULL, "row_squares_kernel", eitp__cuda_input_rows),
    EITP__CUDA_STAGE(COLUMN_SQUARES, EITP__CUDA_FLOATING, NULL, "column_squares_kernel", EITP__CUDA_THREADS,
                     eitp__cuda_column_strips),
    EITP__CUDA_BY_ROWS(ROW_PRODUCTS, eitp__cuda_has_short_rows, NULL, "row_products_kernel", eitp__cuda_input_rows),
    EITP__CUDA_STAGE(COLUMN_PRODUCTS, EITP__CUDA_FLOATING, NULL, "column_products_kernel", EITP__CUDA_THREADS,
                     eitp__cuda_column_strips),
    EITP__CUDA_STAGE(TOTAL, EITP__CUDA_DTYPE(EITP_F32), NULL, "total_kernel", EITP__CUDA_THREADS, eitp__cuda_one_block),
    EITP__CUDA_STAGE(COMMIT, EITP__CUDA_DTYPE(EITP_F64), NULL, "commit_kernel", 32, eitp__cuda_one_block),
};

#undef EITP__CUDA_FILE
#undef EITP__CUDA_STAGE
#undef EITP__CUDA_BY_ROWS
#undef EITP__CUDA_LARGEST

EITP__PRIVATE eitp__cuda_list eitp__cuda_reduce(void) {
    eitp__cuda_list list = {eitp__cuda_reduce_kernels, EITP__COUNT(eitp__cuda_reduce_kernels)};
    return list;
}

#endif
