#include "base/random.h"

EITP__PRIVATE uint64_t eitp__random_bits(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index) {
    uint32_t words[4];
    eitp__philox(seed, step, rng_stream, index, words);
    return ((uint64_t)words[1] << 32) | words[0];
}

EITP__PRIVATE double eitp__random_uniform(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index) {
    return (double)(eitp__random_bits(seed, step, rng_stream, index) >> 11) * (1.0 / 9007199254740992.0);
}

EITP__PRIVATE void eitp__random_normal(uint64_t seed, uint64_t step, uint32_t rng_stream, uint64_t index,
                                       double pair[2]) {
    uint32_t words[4];
    double radius, angle;
    eitp__philox(seed, step, rng_stream, index, words);
    /* 1 - u is in (0, 1], so the logarithm is finite. */
    radius = sqrt(-2.0 * log(1.0 - ((double)words[0] * 4294967296.0 + (double)words[1]) / 18446744073709551616.0 *
                                       (1.0 - 1.0 / 9007199254740992.0)));
    angle = 6.283185307179586476925 * (((double)words[2] * 4294967296.0 + (double)words[3]) / 18446744073709551616.0);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}
