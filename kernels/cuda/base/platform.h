/* Replaces src/base/platform.h in device code, for headers shared with the host. */
#ifndef EITP_CUDA_PLATFORM_H
#define EITP_CUDA_PLATFORM_H

#include "kernels/cuda/device.h"

#include "base/dtype.h"

#define EITP__UNUSED DEVICE_ATTRIBUTE
#define EITP__PRIVATE extern
#define EITP__ALIGNMENT ((size_t)64)
#define EITP__COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
