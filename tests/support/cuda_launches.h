/* The launches that the CUDA backend makes for a call (backends/cuda/program.c), without a device. */
#ifndef EITP_TEST_CUDA_LAUNCHES_H
#define EITP_TEST_CUDA_LAUNCHES_H

#include "tests/support/everything.h"

enum { CUDA_MOST_LAUNCHES = EITP__CUDA_STAGES + 1 };

/* A kernel, or a product of cuBLASLt. */
typedef struct cuda_launch {
    const eitp__cuda_kernels *kernels; /* NULL: cuBLASLt */
    const eitp__cuda_stage *stage;
    int64_t blocks;
    size_t shared; /* dynamic, in bytes */
} cuda_launch;

static EITP__UNUSED int cuda_add_stages(const eitp__cuda_kernels *kernels, const eitp__call *call,
                                        cuda_launch *launches) {
    int count = 0;
    for (int s = 0; s < EITP__CUDA_STAGES && kernels->stages[s].kernel; s++) {
        const eitp__cuda_stage *stage = &kernels->stages[s];
        cuda_launch launch = EITP__ZERO;
        launch.kernels = kernels;
        launch.stage = stage;
        launch.blocks = stage->blocks(call);
        launch.shared = stage->shared ? stage->shared(call) : 0;
        if (launch.blocks > 0)
            launches[count++] = launch;
    }
    return count;
}

/*
 * Lists the launches of a call whose operands have addresses. Returns their number: 0 if the backend has no kernel.
 * cuBLASLt is expected to have an algorithm, and a program to compute the factors of sums over rows itself.
 */
static EITP__UNUSED int cuda_launches_of(const eitp__cuda *cuda, const eitp__call *call,
                                         cuda_launch launches[CUDA_MOST_LAUNCHES]) {
    const eitp__cuda_kernels *kernels = eitp__cuda_find(call, &cuda->device);
    int count = 0;
    if (!eitp__cuda_blas_takes(&cuda->blas, call) || !eitp__cuda_blas_has_addresses(call))
        return kernels ? cuda_add_stages(kernels, call, launches) : 0;
    if (eitp__cuda_blas_sums_rows(call))
        count = cuda_add_stages(eitp__cuda_blas_clear(), call, launches);
    memset(&launches[count], 0, sizeof launches[count]);
    return count + 1;
}

#endif
