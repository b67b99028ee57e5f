/* Loops of products in registers: what an instruction set can do at most. They measure, and compute nothing. */
#ifndef EITP_PEAK_H
#define EITP_PEAK_H

#include "kernels/kernels.h"

/* Floats that a loop reads as factors and writes its sums over. */
#define EITP__PEAK_SCRATCH 1024

typedef struct eitp__peak {
    void (*run)(int64_t rounds, float *scratch); /* NULL: nothing to measure for that dtype */
    double flops;                                /* of a round; a product and a sum are two */
} eitp__peak;

/* The fastest products of factors of that dtype in a set: where it has none of its own, those of f32. */
EITP__PRIVATE eitp__peak eitp__peak_of(eitp__isa isa, eitp_dtype dtype);

#endif
