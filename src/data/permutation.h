/* A random order of [0, size) that is computed place by place. */
#ifndef EITP_PERMUTATION_H
#define EITP_PERMUTATION_H

#include "base/platform.h"

/* Where `position`, below `size`, goes: for each (seed, epoch, size) a bijection on [0, size). */
EITP__PRIVATE uint64_t eitp__permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t position);

#endif
