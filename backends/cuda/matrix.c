/* The kernels of kernels/cuda/matrix.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* Extents of matrices in the workspace are multiples of this. */
#define EITP__CUDA_CHOLESKY_TILE 64

/* Each block has a matrix in the workspace. The number of blocks is limited so that these use at most this much, but is
   at least one. */
#define EITP__CUDA_MATRIX_BYTES ((int64_t)128 << 20)
#define EITP__CUDA_MATRIX_BLOCKS 1024

/* A matrix, and the inverses of its diagonal tiles. */
static int64_t eitp__cuda_matrix_size(const eitp__call *call) {
    const int64_t tiles = eitp__cuda_ceil_divide(call->integers[0], EITP__CUDA_CHOLESKY_TILE);
    return tiles * (tiles + 1) * EITP__CUDA_CHOLESKY_TILE * EITP__CUDA_CHOLESKY_TILE * (int64_t)sizeof(double);
}

static int64_t eitp__cuda_matrix_blocks(const eitp__call *call) {
    const int64_t matrices = eitp__cuda_input_rows(call), size = eitp__cuda_matrix_size(call);
    int64_t most = size ? EITP__CUDA_MATRIX_BYTES / size : 0;
    most = most < EITP__CUDA_MATRIX_BLOCKS ? most : EITP__CUDA_MATRIX_BLOCKS;
    most = most > 1 ? most : 1;
    return matrices < most ? matrices : most;
}

static size_t eitp__cuda_matrix_workspace(const eitp__call *call) {
    return (size_t)(eitp__cuda_matrix_blocks(call) * eitp__cuda_matrix_size(call));
}

#define EITP__CUDA_MATRIX(SLOT, name)                                                                                  \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_DTYPE(EITP_F64), "kernels/cuda/matrix.cu", NULL,    \
            eitp__cuda_matrix_workspace, NULL, {                                                                       \
            { #name "_kernel", EITP__CUDA_THREADS, eitp__cuda_matrix_blocks, NULL }                                    \
        }                                                                                                              \
    }

EITP__PRIVATE eitp__cuda_list eitp__cuda_matrix(void) {
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_MATRIX(LOGDET, logdet),
        EITP__CUDA_MATRIX(INVERSE_SPD, inverse_spd),
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
