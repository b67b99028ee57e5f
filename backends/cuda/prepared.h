/* Kernels compiled before, in the folder EITP_CUDA_KERNELS, for machines without NVRTC or with another version. */
#ifndef EITP_CUDA_PREPARED_H
#define EITP_CUDA_PREPARED_H

#include "backends/cuda/images.h"

#if EITP__WITH_CUDA

/* The file that names the compiler of a folder: "NVRTC 13.0". */
#define EITP__CUDA_PREPARED_COMPILER "compiler"

typedef struct eitp__cuda_prepared {
    eitp__cuda_cache files; /* without a folder, no kernels are prepared */
    int capability;         /* of the device */
    int major, minor;       /* of the NVRTC that compiled them */
    eitp_error unavailable; /* the reason if no NVRTC can compile other kernels; otherwise EITP_OK */
} eitp__cuda_prepared;

/* Returns a key for everything that an image depends on except the version of NVRTC. */
EITP__PRIVATE uint64_t eitp__cuda_prepared_key(int capability, const eitp__kernel_source *source);

/* Opens the folder EITP_CUDA_KERNELS, if it is set. */
EITP__PRIVATE eitp_status eitp__cuda_prepared_open(eitp__cuda_prepared *prepared, const eitp_host *host, int capability,
                                                   eitp_error *error);

/* Reads the missing images that are in the folder. Logs a warning for each damaged file. Without NVRTC, a missing or
   damaged file is an error. */
EITP__PRIVATE eitp_status eitp__cuda_prepared_find(const eitp__cuda_prepared *prepared, eitp__cuda_image *images,
                                                   size_t count, eitp_error *error);

/* Handles a prepared image that the driver cannot load because of *error: logs a warning and stops using the folder.
   Without NVRTC it fails. */
EITP__PRIVATE eitp_status eitp__cuda_prepared_give_up(eitp__cuda_prepared *prepared, const eitp__cuda_image *image,
                                                      eitp_error *error);

#endif

#endif
