/* Numbers of blocks that kernels share. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

EITP__PRIVATE int64_t eitp__cuda_element_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->outputs[0].elements, EITP__CUDA_THREADS * EITP__CUDA_UNROLL);
}

EITP__PRIVATE int64_t eitp__cuda_input_rows(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0];
    const int64_t stride = eitp__row_stride_of(x);
    return stride ? x->elements / stride : 0;
}

EITP__PRIVATE int64_t eitp__cuda_row_blocks(const eitp__call *call) {
    return eitp__cuda_input_rows(call);
}

EITP__PRIVATE int64_t eitp__cuda_row_warp_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(eitp__cuda_input_rows(call), EITP__CUDA_THREADS / 32);
}

EITP__PRIVATE int64_t eitp__cuda_one_block(const eitp__call *call) {
    (void)call;
    return 1;
}

#endif
