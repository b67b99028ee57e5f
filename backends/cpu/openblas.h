/* The f32 matrix product by OpenBLAS, which is opened on request. */
#ifndef EITP_CPU_OPENBLAS_H
#define EITP_CPU_OPENBLAS_H

#include "kernels/kernels.h"

#include "base/status.h"

/* Maximum size of the buffer that builds of OpenBLAS map for each calling thread. */
#define EITP__OPENBLAS_BUFFER ((uint64_t)128 << 20)

/*
 * Returns the address space that OpenBLAS uses when `threads` threads call it: their buffers, and the stacks and
 * buffers of the threads that it starts when it is opened, one for each additional processor unless
 * OPENBLAS_NUM_THREADS limits them. *started is their number. Running out is not an error for OpenBLAS: a thread
 * without a buffer retries forever, and the process never ends.
 */
EITP__PRIVATE uint64_t eitp__openblas_addresses(int threads, int *started);

/* The processor that OpenBLAS detects. It determines the bits, together with the kernel set. */
typedef struct eitp__openblas_core {
    char name[40];
} eitp__openblas_core;

/*
 * Opens OpenBLAS (the library that EITP_LIBOPENBLAS names, else libopenblas.so.0 or libopenblas.so) and registers its
 * matrix product. It stays open, and is set to one thread per call for the whole process, because tiles run in
 * parallel. Unlike with other sets, accumulated products do not have the bits of one product over all of k. On failure
 * the table is unchanged.
 */
EITP__PRIVATE eitp_status eitp__register_openblas_kernels(eitp__kernel_table *table, eitp__openblas_core *core,
                                                          eitp_error *error);

#endif
