/*
 * Shared by tests of kernels: the table of every set, whether it can run here, and random numbers. With TEST_EMULATED
 * the machine has AVX-512 in software, where that is possible.
 */
#ifndef EITP_TEST_KERNEL_SETS_H
#define EITP_TEST_KERNEL_SETS_H

#include "backends/cpu/features.h"
#include "kernels/kernels.h"

#include "tests/support/cuda_calls.h"

#ifndef TEST_EMULATED
#define TEST_EMULATED 0
#endif
#if TEST_EMULATED
#include "tests/support/emulated.h"
#else
#define HAS_EMULATION 0
#endif

static eitp__kernel_table tables[EITP__ISA_COUNT];
static int available[EITP__ISA_COUNT];
static uint32_t random_state = 1;

#if HAS_EMULATION

static void find_sets(void) {
    for (int i = 0; i < EITP__ISA_COUNT; i++)
        emulated_register_sets(&tables[i], i < EITP__ISA_AVX512 ? EITP__ISA_REF : EITP__ISA_AVX512);
    available[EITP__ISA_AVX512] = eitp__isa_available(EITP__ISA_AVX2); /* the emulation needs AVX2 */
}

#else

static void find_sets(void) {
    if (uses_cuda()) {
        cuda_register_kernels(&tables[0]);
        for (int i = 1; i < EITP__ISA_COUNT; i++)
            tables[i] = tables[0];
        available[0] = 1;
        return;
    }
    for (int i = 0; i < EITP__ISA_COUNT; i++) {
        available[i] = !TEST_EMULATED && eitp__isa_available((eitp__isa)i);
        if (!available[i])
            printf("    skipped: %s, not in this build or not on this processor\n", eitp__isa_name((eitp__isa)i));
        eitp__register_ref_kernels(&tables[i]);
        /* The functions that register a set are compiled for its instructions too. */
        if (available[i] && i >= EITP__ISA_AVX2)
            eitp__register_avx2_kernels(&tables[i]);
        if (available[i] && i >= EITP__ISA_AVX512)
            eitp__register_avx512_kernels(&tables[i]);
    }
}

#endif

/* Returns a random number in [-1, 1). */
static double draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 8) / 8388608.0 - 1.0;
}

/* Returns a dense operand of rank 0 to 3. Dimensions beyond the rank are 1. */
static EITP__UNUSED eitp__operand operand(void *data, eitp_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = rank;
    x.shape[0] = d0;
    x.shape[1] = d1;
    x.shape[2] = d2;
    x.elements = d0 * d1 * d2;
    return x;
}

/* ---- Memory, released in reverse order ---- */

enum { MOST_BLOCKS = 256 };

static void *held_blocks[MOST_BLOCKS];
static int held_count;

static EITP__UNUSED void *block(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory || held_count == MOST_BLOCKS) {
        printf("    the test has no more memory\n");
        exit(1);
    }
    return held_blocks[held_count++] = memory;
}

static EITP__UNUSED void release_blocks(int down_to) {
    while (held_count > down_to)
        free(held_blocks[--held_count]);
}

#endif
