/* The f32 matrix product by OpenBLAS, in builds with EITP_WITH_OPENBLAS. */
#ifndef EITP_CPU_OPENBLAS_H
#define EITP_CPU_OPENBLAS_H

#include "kernels/kernels.h"

/*
 * Registers OpenBLAS's matrix product and returns 1; without EITP_WITH_OPENBLAS it returns 0. OpenBLAS is set to one
 * thread per call for the whole process, because tiles run in parallel. Unlike with other sets, accumulated products do
 * not have the bits of one product over all of k.
 */
EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table);

/* The processor that OpenBLAS detects, which its bits depend on; "" without EITP_WITH_OPENBLAS. */
EITP__PRIVATE const char *eitp__openblas_core(void);

#endif
