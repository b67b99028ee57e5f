/* Finds the libraries of the CUDA toolkit, installed by a system package, NVIDIA's installer or PyPI wheels. */
#ifndef EITP_CUDA_LIBRARIES_H
#define EITP_CUDA_LIBRARIES_H

#include "base/status.h"

#if EITP__WITH_CUDA

/* Oldest major version of CUDA whose libraries are used. */
#define EITP__CUDA_OLDEST 12

/*
 * Opens "lib<name>.so.<major>" ("nvrtc", "cublasLt") of the highest installed major version, starting from the
 * driver's: a newer toolkit needs a newer driver. `driver_version` is CUDA's, 12040 for 12.4; `package` the name of the
 * library's package on PyPI, "nvidia-cublas". On failure, returns NULL and writes to `reason` why each version that was
 * found cannot be used, and how to install one that can.
 */
EITP__PRIVATE void *eitp__cuda_open_library(const eitp_host *host, const char *name, const char *package,
                                            int driver_version, char *reason, size_t size);

#endif

#endif
