/* The device's context: threads enter it and wait for it. */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

EITP__PRIVATE eitp_status eitp__cuda_enter(const eitp__cuda *cuda, eitp_error *error) {
    return eitp__cuda_check(&cuda->driver, cuda->driver.context_set(cuda->context), "cuCtxSetCurrent", error);
}

/* cuStreamSynchronize spins, unless the process's context says otherwise, and that may belong to the application. */
EITP__PRIVATE eitp_status eitp__cuda_finish(const eitp__cuda *cuda, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    const eitp_status status = eitp__cuda_enter(cuda, error);
    const eitp__cuda_result recorded = driver->event_record(cuda->end, cuda->compute);
    const eitp__cuda_result ended = recorded ? driver->stream_wait(cuda->compute) : driver->event_wait(cuda->end);
    if (status)
        return status;
    return recorded ? eitp__cuda_check(driver, recorded, "cuEventRecord", error)
                    : eitp__cuda_check(driver, ended, "cuEventSynchronize", error);
}

#endif
