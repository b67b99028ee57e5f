/* A pseudorandom permutation of [0, size), computed element by element. */
#ifndef EITP_PERMUTATION_H
#define EITP_PERMUTATION_H

#include "base/platform.h"

/* Returns the image of `position`, which must be below `size`. For each (seed, epoch, size) the mapping is a bijection
   on [0, size). */
EITP__PRIVATE uint64_t eitp__shuffled_position(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t position);

#endif
