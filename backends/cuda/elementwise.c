/* The kernels of kernels/cuda/elementwise.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

#define EITP__CUDA_FILE "kernels/cuda/elementwise.cu"

/* A thread computes eight elements of output 0. */
static int64_t eitp__cuda_elementwise_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS * 8);
}

#define EITP__CUDA_ENTRY(SLOT, name, dtypes)                                                                           \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, dtypes, EITP__CUDA_FILE, NULL, NULL, NULL, {                                                \
            { #name "_kernel", EITP__CUDA_THREADS, eitp__cuda_elementwise_blocks, NULL }                               \
        }                                                                                                              \
    }
#define EITP__CUDA_OF_FLOATING(SLOT, name) EITP__CUDA_ENTRY(SLOT, name, EITP__CUDA_FLOATING)
#define EITP__CUDA_OF_FUSED(SLOT, name) EITP__CUDA_ENTRY(SLOT, name, EITP__CUDA_HALVES | EITP__CUDA_DTYPE(EITP_F32))
#define EITP__CUDA_OF_COMPARED(SLOT, name)                                                                             \
    EITP__CUDA_ENTRY(SLOT, name, EITP__CUDA_FLOATING | EITP__CUDA_DTYPE(EITP_I32))
#define EITP__CUDA_OF_ANY(SLOT, name) EITP__CUDA_ENTRY(SLOT, name, EITP__CUDA_ANY)

static const eitp__cuda_kernels eitp__cuda_elementwise_kernels[] = {
    EITP__CUDA_OF_ANY(FILL, fill),
    EITP__CUDA_OF_ANY(ARANGE, arange),
    EITP__CUDA_OF_ANY(CAST, cast),
    EITP__CUDA_OF_ANY(WHERE, where),
    EITP__CUDA_OF_COMPARED(LESS, less),
    EITP__CUDA_OF_COMPARED(EQUAL, equal),
    EITP__CUDA_OF_FLOATING(NEGATE, negate),
    EITP__CUDA_OF_FLOATING(ABS, abs),
    EITP__CUDA_OF_FLOATING(EXP, exp),
    EITP__CUDA_OF_FLOATING(LOG, log),
    EITP__CUDA_OF_FLOATING(SQRT, sqrt),
    EITP__CUDA_OF_FLOATING(RSQRT, rsqrt),
    EITP__CUDA_OF_FLOATING(SIN, sin),
    EITP__CUDA_OF_FLOATING(COS, cos),
    EITP__CUDA_OF_FLOATING(TANH, tanh),
    EITP__CUDA_OF_FLOATING(SIGMOID, sigmoid),
    EITP__CUDA_OF_FLOATING(RELU, relu),
    EITP__CUDA_OF_FLOATING(ERF, erf),
    EITP__CUDA_OF_FLOATING(AFFINE, affine),
    EITP__CUDA_OF_FLOATING(CLAMP, clamp),
    EITP__CUDA_OF_FLOATING(ADD, add),
    EITP__CUDA_OF_FLOATING(SUBTRACT, subtract),
    EITP__CUDA_OF_FLOATING(MULTIPLY, multiply),
    EITP__CUDA_OF_FLOATING(DIVIDE, divide),
    EITP__CUDA_OF_FLOATING(MINIMUM, minimum),
    EITP__CUDA_OF_FLOATING(MAXIMUM, maximum),
    EITP__CUDA_OF_FLOATING(DROPOUT, dropout),
    EITP__CUDA_OF_FLOATING(ACCUMULATE, accumulate),
    EITP__CUDA_OF_FUSED(GELU_TANH, gelu_tanh),
    EITP__CUDA_OF_FUSED(GELU_ERF, gelu_erf),
    EITP__CUDA_OF_FUSED(SILU, silu),
    EITP__CUDA_OF_FUSED(GELU_TANH_BACKWARD, gelu_tanh_backward),
    EITP__CUDA_OF_FUSED(GELU_ERF_BACKWARD, gelu_erf_backward),
    EITP__CUDA_OF_FUSED(SILU_BACKWARD, silu_backward),
};

#undef EITP__CUDA_FILE
#undef EITP__CUDA_ENTRY
#undef EITP__CUDA_OF_FLOATING
#undef EITP__CUDA_OF_FUSED
#undef EITP__CUDA_OF_COMPARED
#undef EITP__CUDA_OF_ANY

EITP__PRIVATE eitp__cuda_list eitp__cuda_elementwise(void) {
    eitp__cuda_list list = {eitp__cuda_elementwise_kernels, EITP__COUNT(eitp__cuda_elementwise_kernels)};
    return list;
}

#endif
