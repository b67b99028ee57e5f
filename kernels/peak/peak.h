/* Loops of products in registers, to measure the peak of an instruction set. Their results are not used. */
#ifndef EITP_PEAK_H
#define EITP_PEAK_H

#include "kernels/kernels.h"

/* Number of floats that a loop reads as factors and overwrites with sums. */
#define EITP__PEAK_SCRATCH 1024

typedef struct eitp__peak {
    void (*run)(int64_t rounds, float *scratch); /* NULL: not measured for this dtype */
    double flops;                                /* operations per round; a multiply-add counts as two */
} eitp__peak;

/* Returns the loop with the set's fastest products for this dtype, or its F32 loop if it has none. */
EITP__PRIVATE eitp__peak eitp__peak_of(eitp__isa isa, eitp_dtype dtype);

#endif
