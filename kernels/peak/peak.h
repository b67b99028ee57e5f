/* Loops of products in registers, which measure the peak of an instruction set. Their results are not used. */
#ifndef EITP_PEAK_H
#define EITP_PEAK_H

#include "kernels/kernels.h"

/* Floats that a loop reads as factors and overwrites with its sums. */
#define EITP__PEAK_SCRATCH 1024

typedef struct eitp__peak {
    void (*run)(int64_t rounds, float *scratch); /* NULL: this dtype is not measured */
    double flops;                                /* operations in a round; a multiply-add counts as two */
} eitp__peak;

/* The loop of the fastest products of this dtype in a set; that of F32 if the set has none for the dtype. */
EITP__PRIVATE eitp__peak eitp__peak_of(eitp__isa isa, eitp_dtype dtype);

#endif
