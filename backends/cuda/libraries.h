/* Finds the libraries of the CUDA toolkit, installed by a system package, NVIDIA's installer or PyPI wheels. */
#ifndef EITP_CUDA_LIBRARIES_H
#define EITP_CUDA_LIBRARIES_H

#include "base/status.h"

#if EITP__WITH_CUDA

/* Oldest major version of CUDA to search for. */
#define EITP__CUDA_OLDEST 12

/*
 * Opens "lib<name>.so.<major>" ("nvrtc", "cublasLt") of the highest installed major version, starting from the
 * driver's, `newest`: a newer toolkit needs a newer driver. Returns NULL, with the reason, if none is found.
 */
EITP__PRIVATE void *eitp__cuda_open_library(const eitp_host *host, const char *name, int newest, char *reason,
                                            size_t size);

#endif

#endif
