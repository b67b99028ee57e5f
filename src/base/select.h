/* Order statistics without memory: a number is found by bisection, counting how many are at most as large. */
#ifndef EITP_SELECT_H
#define EITP_SELECT_H

#include "base/platform.h"

/* A collection of `count` numbers, none of them NaN. `at_most` returns how many are at most `limit`. */
typedef struct eitp__counted {
    const void *numbers;
    size_t (*at_most)(const void *numbers, double limit);
    size_t count;
} eitp__counted;

/* The number at `index` in ascending order, below count. Calls at_most some 64 times. */
EITP__PRIVATE double eitp__select(const eitp__counted *set, size_t index);

/* The quantile at `fraction`, 0 to 1, interpolated between neighbours (type 7 of Hyndman and Fan, "Sample Quantiles in
   Statistical Packages", 1996; NumPy's default). NaN without numbers. */
EITP__PRIVATE double eitp__quantile(const eitp__counted *set, double fraction);

#endif
