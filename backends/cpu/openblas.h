/* The f32 matrix product by OpenBLAS, which is opened when it is asked for. */
#ifndef EITP_CPU_OPENBLAS_H
#define EITP_CPU_OPENBLAS_H

#include "kernels/kernels.h"

#include "base/status.h"

/* The largest buffer that OpenBLAS's builds map for each thread that calls it. */
#define EITP__OPENBLAS_BUFFER ((uint64_t)128 << 20)

/*
 * The addresses that OpenBLAS takes when `threads` threads call it: their buffers, and stacks and buffers of the
 * threads that it starts when it is opened, one for each further processor unless OPENBLAS_NUM_THREADS asks for fewer.
 * *started is their number. It cannot fail: a thread without a buffer tries forever, and the process never ends.
 */
EITP__PRIVATE uint64_t eitp__openblas_addresses(int threads, int *started);

/* What its bits depend on, besides the kernel set: the processor that OpenBLAS detects. */
typedef struct eitp__openblas_core {
    char name[40];
} eitp__openblas_core;

/*
 * Opens OpenBLAS, the library that EITP_LIBOPENBLAS names or else libopenblas.so.0 or libopenblas.so, and registers its
 * matrix product. It stays open, and is set to one thread per call for the whole process, because tiles run in
 * parallel. Unlike with other sets, accumulated products do not have the bits of one product over all of k. On failure
 * the table is unchanged.
 */
EITP__PRIVATE eitp_status eitp__register_openblas_kernels(eitp__kernel_table *table, eitp__openblas_core *core,
                                                          eitp_error *error);

#endif
