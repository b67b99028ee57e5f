/*
 * A Feistel network is a bijection on [0, 4^h) for any round functions (Luby and Rackoff, "How to Construct
 * Pseudorandom Permutations from Pseudorandom Functions", 1988). Repeating it until the value is below `size` (cycle
 * walking) makes it a bijection on [0, size) (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), in
 * fewer than four iterations on average.
 */
#include "data/permutation.h"

#include "base/random.h"

/* Four rounds are enough for large halves; halves of one or two bits need more. */
enum { EITP__PERMUTATION_ROUNDS = 8 };

EITP__PRIVATE uint64_t eitp__shuffled_position(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t position) {
    unsigned half_bits = 0;
    while (half_bits < 32 && (uint64_t)1 << 2 * half_bits < size)
        half_bits++;
    const uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t value = position;
    do {
        uint64_t left = value >> half_bits, right = value & mask;
        for (uint64_t round = 0; round < EITP__PERMUTATION_ROUNDS; round++) {
            uint64_t random = eitp__random_bits(seed, epoch, EITP__RNG_STREAM_SHUFFLE, round << 32 | right);
            uint64_t mixed = left ^ (random & mask);
            left = right;
            right = mixed;
        }
        value = left << half_bits | right;
    } while (value >= size);
    return value;
}
