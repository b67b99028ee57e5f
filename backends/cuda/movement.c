/* The kernels of kernels/cuda/movement.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

#define EITP__CUDA_FILE "kernels/cuda/movement.cu"

/* A thread moves eight elements of output 0. */
static int64_t eitp__cuda_movement_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS * 8);
}

/* Side length of a transposed tile. */
#define EITP__CUDA_TRANSPOSE_TILE 32

/* True if the last dimension of x is a different one in y, and both are long enough for transposing tiles. */
static int eitp__cuda_transposes(const eitp__call *call, const eitp__cuda_device *device) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const int last = y->rank - 1;
    (void)device;
    return last > 0 && call->integers[last] != last && x->shape[last] >= EITP__CUDA_TRANSPOSE_TILE / 2 &&
           y->shape[last] >= EITP__CUDA_TRANSPOSE_TILE / 2;
}

static int64_t eitp__cuda_turned_blocks(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const int64_t a = x->shape[x->rank - 1], b = y->shape[y->rank - 1];
    return y->elements ? y->elements / (a * b) * eitp__cuda_ceil_divide(a, EITP__CUDA_TRANSPOSE_TILE) *
                             eitp__cuda_ceil_divide(b, EITP__CUDA_TRANSPOSE_TILE)
                       : 0;
}

/* A warp per row of output 0. */
static int64_t eitp__cuda_embedding_blocks(const eitp__call *call) {
    return call->outputs[0].elements ? eitp__cuda_ceil_divide(call->outputs[0].shape[0], EITP__CUDA_THREADS / 32) : 0;
}

/* Up to 32 threads share a row if there are few rows and many indices, until the device is busy. */
static int64_t eitp__cuda_scatter_blocks(const eitp__call *call) {
    const eitp__operand *y = &call->outputs[0], *d = &call->inputs[1];
    const int64_t extent = y->shape[call->integers[0]], lines = extent ? y->elements / extent : 0;
    int64_t parts = 1;
    while (parts < 32 && 2 * parts <= extent && 2 * parts <= d->shape[call->integers[0]] && parts * lines < 1 << 16)
        parts *= 2;
    return eitp__cuda_ceil_divide(parts * lines, EITP__CUDA_THREADS);
}

#define EITP__CUDA_MOVES(SLOT, name)                                                                                   \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, EITP__CUDA_ANY, EITP__CUDA_FILE, NULL, NULL, NULL, {                                        \
            { #name "_kernel", EITP__CUDA_THREADS, eitp__cuda_movement_blocks, NULL }                                  \
        }                                                                                                              \
    }

static const eitp__cuda_kernels eitp__cuda_movement_kernels[] = {
    EITP__CUDA_MOVES(BROADCAST, broadcast),
    {EITP__SLOT_PERMUTE,
     EITP__CUDA_ANY,
     EITP__CUDA_FILE,
     eitp__cuda_transposes,
     NULL,
     NULL,
     {{"permute_tiles_kernel", EITP__CUDA_THREADS, eitp__cuda_turned_blocks, NULL}}},
    EITP__CUDA_MOVES(PERMUTE, permute),
    EITP__CUDA_MOVES(SLICE, slice),
    EITP__CUDA_MOVES(PAD, pad),
    EITP__CUDA_MOVES(CONCAT, concat),
    EITP__CUDA_MOVES(GATHER, gather),
    {EITP__SLOT_EMBEDDING,
     EITP__CUDA_HALVES | EITP__CUDA_DTYPE(EITP_F32),
     EITP__CUDA_FILE,
     NULL,
     NULL,
     NULL,
     {{"embedding_kernel", EITP__CUDA_THREADS, eitp__cuda_embedding_blocks, NULL}}},
    {EITP__SLOT_SCATTER_ADD,
     EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_DTYPE(EITP_F64),
     EITP__CUDA_FILE,
     NULL,
     NULL,
     NULL,
     {{"scatter_add_clear_kernel", EITP__CUDA_THREADS, eitp__cuda_movement_blocks, NULL},
      {"scatter_add_kernel", EITP__CUDA_THREADS, eitp__cuda_scatter_blocks, NULL}}},
};

#undef EITP__CUDA_FILE
#undef EITP__CUDA_MOVES

EITP__PRIVATE eitp__cuda_list eitp__cuda_movement(void) {
    eitp__cuda_list list = {eitp__cuda_movement_kernels, EITP__COUNT(eitp__cuda_movement_kernels)};
    return list;
}

#endif
