/*
 * The kernel sets avx512, avx512bf16 and amx on any x86 processor, for tests: their files are compiled once more, in
 * tests/emulated.c, on models of the instructions that are not in AVX2. HAS_EMULATION is 1 where that is possible: for
 * another processor than one with AVX-512.
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
/* The kernels that a processor with this set has. A check in a model that fails, fails the running test. */
void emulated_register_sets(eitp__kernel_table *table, eitp__isa isa);
#endif

#endif
