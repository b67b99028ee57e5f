/* The kernels of kernels/cuda/factored.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

static int64_t eitp__cuda_factored_blocks(int64_t elements) {
    return eitp__cuda_ceil_divide(elements, EITP__CUDA_THREADS);
}

/* Blocks for columns, then for rows. */
static int64_t eitp__cuda_means_blocks(const eitp__call *call) {
    return eitp__cuda_factored_blocks(call->inputs[0].elements) + eitp__cuda_factored_blocks(call->inputs[4].elements);
}

static int64_t eitp__cuda_roots_blocks(const eitp__call *call) {
    return eitp__cuda_factored_blocks(call->outputs[2].elements);
}

/* The sums of the means of rows. */
static size_t eitp__cuda_means_workspace(const eitp__call *call) {
    return (size_t)eitp__cuda_factored_blocks(call->inputs[4].elements) * sizeof(double);
}

/* One block for the directions, then those for rows. */
static int64_t eitp__cuda_momentum_blocks(const eitp__call *call) {
    return 1 + eitp__cuda_factored_blocks(call->inputs[1].elements);
}

static int64_t eitp__cuda_project_blocks(const eitp__call *call) {
    return eitp__cuda_factored_blocks(call->inputs[1].elements);
}

static size_t eitp__cuda_momentum_workspace(const eitp__call *call) {
    (void)call;
    return EITP__DIRECTIONS * EITP__DIRECTIONS * sizeof(double);
}

EITP__PRIVATE eitp__cuda_list eitp__cuda_factored(void) {
    static const char file[] = "kernels/cuda/factored.cu";
    static const eitp__cuda_kernels kernels[] = {
        {EITP__SLOT_FACTORED_MEANS,
         EITP__CUDA_DTYPE(EITP_F32),
         file,
         NULL,
         eitp__cuda_means_workspace,
         NULL,
         {{"factored_means_kernel", EITP__CUDA_THREADS, eitp__cuda_means_blocks, NULL},
          {"factored_roots_kernel", EITP__CUDA_THREADS, eitp__cuda_roots_blocks, NULL}}},
        {EITP__SLOT_FACTORED_MOMENTUM,
         EITP__CUDA_DTYPE(EITP_F32),
         file,
         NULL,
         eitp__cuda_momentum_workspace,
         NULL,
         {{"factored_momentum_kernel", EITP__CUDA_THREADS, eitp__cuda_momentum_blocks, NULL},
          {"factored_project_kernel", EITP__CUDA_THREADS, eitp__cuda_project_blocks, NULL}}},
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
