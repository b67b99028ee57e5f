/* Robust statistics of a few values: the median, and the deviation from it. */
#ifndef EITP_STATISTICS_H
#define EITP_STATISTICS_H

#include "base/platform.h"

/* The most values that these functions accept. */
enum { EITP__STATISTICS_VALUES = 128 };

/* The median; of an even number of values the mean of the middle two, of none 0. */
EITP__PRIVATE double eitp__median(const double *values, size_t count);

/* The median absolute deviation from the median, times 1.4826: of a normal distribution its standard deviation
   (Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993). */
EITP__PRIVATE double eitp__median_deviation(const double *values, size_t count);

#endif
