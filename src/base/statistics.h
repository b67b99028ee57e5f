/* Robust statistics of small samples: medians, and the last values of a scalar. Trends are in base/trend.h. */
#ifndef EITP_STATISTICS_H
#define EITP_STATISTICS_H

#include "base/platform.h"

/* Maximum number of values that these functions accept. */
enum { EITP__STATISTICS_VALUES = 256 };

/* Returns the median; the mean of the middle two for an even number of values, 0 for none. */
EITP__PRIVATE double eitp__median(const double *values, size_t count);

/* Returns the median absolute deviation from the median, times 1.4826, which equals the standard deviation for a normal
   distribution (Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993). */
EITP__PRIVATE double eitp__median_deviation(const double *values, size_t count);

/* The last values of a scalar, oldest first. Zeroed, it is empty. */
typedef struct eitp__rolling {
    double values[EITP__STATISTICS_VALUES];
    size_t count;
} eitp__rolling;

/* Adds a value. Beyond `capacity` values, at most EITP__STATISTICS_VALUES, the oldest is removed. */
EITP__PRIVATE void eitp__rolling_add(eitp__rolling *rolling, size_t capacity, double value);

/* Summary of the finite values. If there are none, all members except `count` are NaN; for one value, `slope` is
   NaN. */
typedef struct eitp__rolling_summary {
    size_t count; /* number of finite values */
    double mean;
    double deviation; /* standard deviation, with divisor count - 1; 0 for one value */
    double median, median_deviation;
    double minimum, maximum;
    double slope; /* per value: the median slope of all pairs (see eitp_trend_fit) */
} eitp__rolling_summary;

/* Computes the summary in time proportional to the square of the count. */
EITP__PRIVATE eitp__rolling_summary eitp__rolling_summarize(const eitp__rolling *rolling);

#endif
