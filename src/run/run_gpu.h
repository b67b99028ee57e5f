/* The GPU that a run computes on. */
#ifndef EITP_RUN_GPU_H
#define EITP_RUN_GPU_H

#include "base/nvml.h"
#include "run/run_loop.h"

/* Opens the meter of the GPU that the run computes on, and returns 1; 0 if it computes on none. Without the driver's
   library nothing can be read of it. Close the meter in any case. */
EITP__PRIVATE int eitp__run_open_gpu(const eitp_run *run, eitp__gpu_meter *meter);

#endif
