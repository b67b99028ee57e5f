/* The f32 matrix product by OpenBLAS, in builds with EITP_WITH_OPENBLAS. */
#ifndef EITP_CPU_OPENBLAS_H
#define EITP_CPU_OPENBLAS_H

#include "kernels/kernels.h"

/*
 * Writes the matrix product over what is there and returns 1; without EITP_WITH_OPENBLAS it writes nothing and returns
 * 0. OpenBLAS is set to one thread per call, for the whole process: its tiles are what runs in parallel. Accumulated
 * products are not the same bits as one product over all of k, unlike with the other sets.
 */
EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table);

/* The processor that OpenBLAS takes this one for, which its bits depend on; "" without EITP_WITH_OPENBLAS. */
EITP__PRIVATE const char *eitp__openblas_core(void);

#endif
