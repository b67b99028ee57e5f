/*
 * Counter-based random numbers: each is a function of (seed, step, rng_stream, index) only, so recomputing, resuming
 * and any number of threads draw the same numbers. Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random
 * Numbers: As Easy as 1, 2, 3", SC 2011).
 */
#ifndef EITP_RANDOM_H
#define EITP_RANDOM_H

#include "base/platform.h"

/* Random number streams, by purpose. Ops that draw (dropout) use the streams from EITP__RNG_STREAM_FIRST_OP on. */
enum {
    EITP__RNG_STREAM_INIT = 1,
    EITP__RNG_STREAM_SHUFFLE = 2,
    EITP__RNG_STREAM_SAMPLE = 3,
    EITP__RNG_STREAM_EVALUATE = 4,
    EITP__RNG_STREAM_SPLIT = 5,
    EITP__RNG_STREAM_MASK = 6,
    EITP__RNG_STREAM_CORRUPT = 7,
    EITP__RNG_STREAM_EMERGENCE = 8,
    EITP__RNG_STREAM_LATENT = 9,
    EITP__RNG_STREAM_WORD_DROPOUT = 10,
    EITP__RNG_STREAM_FIRST_OP = 1024
};

/* Generates four independent random words for block `index`. */
static inline EITP__UNUSED void eitp__philox(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index,
                                             uint32_t words[4]) {
    /* The counter is index, step and rng_stream; the key is the seed, with the upper half of the step mixed in. */
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)step, c3 = rng_stream;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32) ^ (uint32_t)(step >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* Returns a float in [0, 1) with 24 random bits. For kernels: four consecutive indices share a Philox block. */
static inline EITP__UNUSED float eitp__kernel_uniform(uint64_t seed, uint64_t step, uint32_t rng_stream,
                                                      uint64_t index) {
    uint32_t words[4];
    eitp__philox(seed, step, rng_stream, index >> 2, words);
    return (float)(words[index & 3] >> 8) * (1.0f / 16777216.0f);
}

/* Return 64 random bits, a double in [0, 1), and a pair of standard normal values (Box-Muller transform). */
EITP__PRIVATE uint64_t eitp__random_bits(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index);
EITP__PRIVATE double eitp__random_uniform(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index);
EITP__PRIVATE void eitp__random_normal(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index,
                                       double pair[2]);

#endif
