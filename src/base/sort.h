/* Sorting in place: no allocation, and never slower than n log n, whatever the order of the input. */
#ifndef EITP_SORT_H
#define EITP_SORT_H

#include "base/platform.h"

/* Sorts `count` items of `size` bytes so that compare(a, b) <= 0 for neighbours. Equal items come in no particular
   order. */
EITP__PRIVATE void eitp__sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b));

#endif
