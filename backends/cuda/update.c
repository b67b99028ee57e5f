/* The kernels of kernels/cuda/update.cu. */
#include "backends/cuda/slots.h"

#include "kernels/update.h"

#if EITP__WITH_CUDA

static int64_t eitp__cuda_update_blocks(const eitp__call *call) {
    return eitp__cuda_ceil_divide(call->inputs[EITP__UPDATE_PARAMETER].elements, EITP__SUM_BLOCK);
}

static int eitp__cuda_update_is_factored(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return call->integers[2] == EITP__UPDATE_RULE_FACTORED;
}

static int eitp__cuda_update_is_sgd(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return call->integers[2] == EITP__UPDATE_RULE_SGD;
}

static int eitp__cuda_update_is_adamw(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return call->integers[2] == EITP__UPDATE_RULE_ADAMW && eitp__moment_form_of(call) == EITP__MOMENT_WIDE;
}

static int eitp__cuda_update_is_packed(const eitp__call *call, const eitp__cuda_device *device) {
    (void)device;
    return call->integers[2] == EITP__UPDATE_RULE_ADAMW && eitp__moment_form_of(call) == EITP__MOMENT_PACKED;
}

#define EITP__CUDA_UPDATE(rule, dtypes, threads)                                                                       \
    {                                                                                                                  \
        EITP__SLOT_UPDATE, dtypes, "kernels/cuda/update.cu", eitp__cuda_update_is_##rule, NULL, NULL, {                \
            { "update_" #rule "_kernel", threads, eitp__cuda_update_blocks, NULL }                                     \
        }                                                                                                              \
    }

EITP__PRIVATE eitp__cuda_list eitp__cuda_update(void) {
    enum {
        F32 = EITP__CUDA_DTYPE(EITP_F32),
        F64 = EITP__CUDA_DTYPE(EITP_F64),
        BF16 = EITP__CUDA_DTYPE(EITP_BF16),
        MOST = F32 | EITP__CUDA_HALVES
    };
    static const eitp__cuda_kernels kernels[] = {
        EITP__CUDA_UPDATE(adamw, MOST, 1024),        EITP__CUDA_UPDATE(adamw, F64, 512),
        EITP__CUDA_UPDATE(sgd, MOST, 1024),          EITP__CUDA_UPDATE(sgd, F64, 512),
        EITP__CUDA_UPDATE(factored, MOST, 1024),     EITP__CUDA_UPDATE(factored, F64, 512),
        EITP__CUDA_UPDATE(packed, F32 | BF16, 1024),
    };
    eitp__cuda_list list = {kernels, EITP__COUNT(kernels)};
    return list;
}

#endif
