/* The kernels of kernels/cuda/rows.cu. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* Maximum columns of a row that one warp computes. */
#define EITP__CUDA_NARROW 1024

static int64_t eitp__cuda_blocks_of_rows(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0];
    const int is_wide = x->rank && x->shape[x->rank - 1] > EITP__CUDA_NARROW;
    return is_wide ? eitp__cuda_row_blocks(call) : eitp__cuda_row_warp_blocks(call);
}

static int eitp__cuda_adds_at_most(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return eitp__epilogue_of(call) <= EITP__EPILOGUE_ADD;
}

#define EITP__CUDA_ROWS(SLOT, name, dtypes)                                                                            \
    {                                                                                                                  \
        EITP__SLOT_##SLOT, dtypes, "kernels/cuda/rows.cu", eitp__cuda_adds_at_most, NULL, NULL, {                      \
            { #name "_kernel", EITP__CUDA_THREADS, eitp__cuda_blocks_of_rows, NULL }                                   \
        }                                                                                                              \
    }

EITP__PRIVATE eitp__cuda_list eitp__cuda_rows(void) {
    enum { F32 = EITP__CUDA_DTYPE(EITP_F32), ALL = F32 | EITP__CUDA_HALVES };
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_ROWS(SOFTMAX, softmax, ALL),
        EITP__CUDA_ROWS(SOFTMAX_BACKWARD, softmax_backward, ALL),
        EITP__CUDA_ROWS(LOG_SOFTMAX, log_softmax, ALL),
        EITP__CUDA_ROWS(LOG_SOFTMAX_BACKWARD, log_softmax_backward, ALL),
        EITP__CUDA_ROWS(LAYER_NORM, layer_norm, ALL),
        EITP__CUDA_ROWS(LAYER_NORM_BACKWARD_INPUT, layer_norm_backward_input, ALL),
        EITP__CUDA_ROWS(RMS_NORM, rms_norm, ALL),
        EITP__CUDA_ROWS(RMS_NORM_BACKWARD_INPUT, rms_norm_backward_input, ALL),
        EITP__CUDA_ROWS(CROSS_ENTROPY, cross_entropy, ALL),
        EITP__CUDA_ROWS(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, ALL),
        EITP__CUDA_ROWS(SOFTMAX_ENTROPY, softmax_entropy, ALL),
        EITP__CUDA_ROWS(SOFTMAX_ENTROPY_BACKWARD, softmax_entropy_backward, ALL),
        EITP__CUDA_ROWS(PATH_PRODUCT_TRANSPOSED, path_product_transposed, ALL),
        EITP__CUDA_ROWS(PATH_PRODUCT_BACKWARD, path_product_backward, ALL),
        EITP__CUDA_ROWS(HEAD_LOSS, head_loss, F32),
        EITP__CUDA_ROWS(HEAD_BACKWARD, head_backward, ALL),
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
