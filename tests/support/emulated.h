/*
 * The kernel sets avx512, avx512bf16 and amx on any x86 processor with AVX2, for tests. emulated.c compiles their files
 * again, using models of the instructions that AVX2 lacks. HAS_EMULATION is 1 if that is possible: with gcc, unless it
 * targets AVX-512 itself.
 */
#ifndef EITP_TEST_EMULATED_H
#define EITP_TEST_EMULATED_H

#include "kernels/matmul.h"

#if defined(__x86_64__) && !defined(__AVX512F__) && !defined(__clang__)
#define HAS_EMULATION 1
#else
#define HAS_EMULATION 0
#endif

#if HAS_EMULATION
/* Registers the kernels of a processor with this set. A failed check in a model fails the running test. */
void emulated_register_sets(eitp__kernel_table *table, eitp__isa isa);
#endif

#endif
