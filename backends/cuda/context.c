/* The device's context: threads enter it and wait for it. */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

EITP__PRIVATE eitp_status eitp__cuda_enter(const eitp__cuda *cuda, eitp_error *error) {
    return eitp__cuda_check(&cuda->driver, cuda->driver.context_set(cuda->context), "cuCtxSetCurrent", error);
}

EITP__PRIVATE eitp_status eitp__cuda_finish(const eitp__cuda *cuda, eitp_error *error) {
    const eitp_status status = eitp__cuda_enter(cuda, error);
    const eitp__cuda_result result = cuda->driver.stream_wait(cuda->compute);
    return status ? status : eitp__cuda_check(&cuda->driver, result, "cuStreamSynchronize", error);
}

#endif
