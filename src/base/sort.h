/* In-place sorting without allocation, in O(n log n) time for any input. */
#ifndef EITP_SORT_H
#define EITP_SORT_H

#include "base/platform.h"

/* Sorts `count` items of `size` bytes in ascending order of `compare`. Not stable. */
EITP__PRIVATE void eitp__sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b));

#endif
