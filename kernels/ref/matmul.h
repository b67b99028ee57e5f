/* The ref kernels of the matrix product. */
#ifndef EITP_REF_MATMUL_H
#define EITP_REF_MATMUL_H

#include "kernels/kernels.h"

/* Part of eitp__register_ref_kernels. */
EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table);

#endif
