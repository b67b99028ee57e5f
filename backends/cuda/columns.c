/* The kernels of kernels/cuda/columns.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* ---- Sums over rows, in chunks ---- */

/* Maximum number of chunks, and minimum rows per chunk. */
#define EITP__CUDA_CHUNKS 128
#define EITP__CUDA_LEAST_ROWS 32

/* Minimum rows of a SUM in chunks. */
#define EITP__CUDA_MANY_ROWS 2048

/* Columns per block of the first stage, and of the second. */
#define EITP__CUDA_CHUNK_COLUMNS 128
#define EITP__CUDA_SUM_COLUMNS 32

/* Outputs have an element per column. */
static int64_t eitp__cuda_sum_columns(const eitp__call *call) {
    return call->outputs[0].elements;
}

static int64_t eitp__cuda_chunks(const eitp__call *call) {
    const int64_t columns = eitp__cuda_sum_columns(call), rows = columns ? call->inputs[0].elements / columns : 0;
    const int64_t each = eitp__cuda_ceil_divide(rows, EITP__CUDA_CHUNKS);
    return rows ? eitp__cuda_ceil_divide(rows, each > EITP__CUDA_LEAST_ROWS ? each : EITP__CUDA_LEAST_ROWS) : 1;
}

static int64_t eitp__cuda_chunk_blocks(const eitp__call *call) {
    return eitp__cuda_chunks(call) * eitp__cuda_ceil_divide(eitp__cuda_sum_columns(call), EITP__CUDA_CHUNK_COLUMNS);
}

/* Every output is a sum. */
static int64_t eitp__cuda_sum_blocks(const eitp__call *call) {
    return call->output_count * eitp__cuda_ceil_divide(eitp__cuda_sum_columns(call), EITP__CUDA_SUM_COLUMNS);
}

static size_t eitp__cuda_chunk_sums(const eitp__call *call) {
    return (size_t)(call->output_count * eitp__cuda_chunks(call) * eitp__cuda_sum_columns(call));
}

static size_t eitp__cuda_chunk_workspace(const eitp__call *call) {
    return eitp__cuda_chunk_sums(call) * sizeof(float);
}

static size_t eitp__cuda_wide_chunk_workspace(const eitp__call *call) {
    return eitp__cuda_chunk_sums(call) * sizeof(double);
}

/* True if a SUM adds the rows of a matrix: no dimension after the first one that is kept is reduced. */
static int eitp__cuda_sums_matrix(const eitp__call *call) {
    int is_kept = 0;
    for (int d = 0; d < call->inputs[0].rank; d++) {
        const int is_reduced = call->integers[0] >> d & 1;
        if (call->inputs[0].shape[d] == 1)
            continue;
        if (is_reduced && is_kept)
            return 0;
        is_kept |= !is_reduced;
    }
    return is_kept && call->integers[0] & 1;
}

/* A sum of fewer rows is one chain (reduce.cu), which does not depend on how they are divided into accumulated sums. */
static int eitp__cuda_sums_many_rows(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__cuda_sums_matrix(call) && call->inputs[0].elements >= EITP__CUDA_MANY_ROWS * call->outputs[0].elements;
}

/* ---- EMBEDDING_BACKWARD ---- */

/* Rows that are sorted together, rows per piece, threads of a block that sums one, elements per thread, and rows of the
   table that a block completes. */
#define EITP__CUDA_SORTED 2048
#define EITP__CUDA_PIECE 64
#define EITP__CUDA_PIECE_THREADS 64
#define EITP__CUDA_PIECE_PART 4
#define EITP__CUDA_TABLE_ROWS 8

static int64_t eitp__cuda_sorted_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->inputs[0].elements, EITP__CUDA_SORTED);
}

static int64_t eitp__cuda_merge_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->inputs[0].elements, EITP__CUDA_THREADS);
}

static int64_t eitp__cuda_pieces(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->inputs[0].elements, EITP__CUDA_PIECE);
}

static int64_t eitp__cuda_piece_blocks(const eitp__call *call) {
    const int64_t columns = call->outputs[0].shape[1];
    return eitp__cuda_pieces(call) * eitp__cuda_ceil_divide(columns, EITP__CUDA_PIECE_THREADS * EITP__CUDA_PIECE_PART);
}

static int64_t eitp__cuda_table_blocks(const eitp__call *call) {
    return call->outputs[0].elements ? eitp__cuda_ceil_divide(call->outputs[0].shape[0], EITP__CUDA_TABLE_ROWS) : 0;
}

/* Two keys per row, and two sums per piece. */
static size_t eitp__cuda_embedding_workspace(const eitp__call *call) {
    return (size_t)call->inputs[0].elements * 2 * sizeof(uint64_t) +
           (size_t)(eitp__cuda_pieces(call) * call->outputs[0].shape[1]) * 2 * sizeof(float);
}

/* ---- The entries ---- */

#define EITP__CUDA_SUMS(SLOT, name, supports, workspace)                                                               \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_HALVES, "kernels/cuda/columns.cu", supports,        \
            workspace, NULL, {                                                                                         \
            {#name "_chunks_kernel", EITP__CUDA_THREADS, eitp__cuda_chunk_blocks, NULL}, {                             \
#name "_kernel", EITP__CUDA_THREADS, eitp__cuda_sum_blocks, NULL                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

EITP__PRIVATE eitp__cuda_list eitp__cuda_columns(void) {
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_SUMS(SUM, column_sums, eitp__cuda_sums_many_rows, eitp__cuda_chunk_workspace),
        EITP__CUDA_SUMS(LAYER_NORM_BACKWARD_PARAMETERS, layer_norm_backward_parameters, NULL,
                        eitp__cuda_chunk_workspace),
        EITP__CUDA_SUMS(RMS_NORM_BACKWARD_PARAMETERS, rms_norm_backward_parameters, NULL, eitp__cuda_chunk_workspace),
        EITP__CUDA_SUMS(PATH_PRODUCT, path_product, NULL, eitp__cuda_wide_chunk_workspace),
        {EITP__SLOT_EMBEDDING_BACKWARD,
         EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_HALVES,
         "kernels/cuda/columns.cu",
         NULL,
         eitp__cuda_embedding_workspace,
         NULL,
         {{"embedding_backward_sort_kernel", 1024, eitp__cuda_sorted_blocks, NULL},
          {"embedding_backward_merge_kernel", EITP__CUDA_THREADS, eitp__cuda_merge_blocks, NULL},
          {"embedding_backward_pieces_kernel", EITP__CUDA_PIECE_THREADS, eitp__cuda_piece_blocks, NULL},
          {"embedding_backward_kernel", EITP__CUDA_THREADS, eitp__cuda_table_blocks, NULL}}},
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
