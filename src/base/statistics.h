/* Robust statistics of a few values: medians, and the last values of a scalar. Trends are in base/trend.h. */
#ifndef EITP_STATISTICS_H
#define EITP_STATISTICS_H

#include "base/platform.h"

/* The most values that these functions accept. */
enum { EITP__STATISTICS_VALUES = 256 };

/* The median; of an even number of values the mean of the middle two, of none 0. */
EITP__PRIVATE double eitp__median(const double *values, size_t count);

/* The median absolute deviation from the median, times 1.4826: of a normal distribution its standard deviation
   (Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993). */
EITP__PRIVATE double eitp__median_deviation(const double *values, size_t count);

/* The last values of a scalar, the oldest first. Zeroed, there are none. */
typedef struct eitp__rolling {
    double values[EITP__STATISTICS_VALUES];
    size_t count;
} eitp__rolling;

/* Adds a value; of more than `capacity` values, at most EITP__STATISTICS_VALUES, the oldest is removed. */
EITP__PRIVATE void eitp__rolling_add(eitp__rolling *rolling, size_t capacity, double value);

/* Values that are not finite are left out. Without others all but `count` are NaN, and so is the slope of one value. */
typedef struct eitp__rolling_summary {
    size_t count; /* finite values */
    double mean;
    double deviation; /* standard deviation, with count - 1 as the divisor; of one value 0 */
    double median, median_deviation;
    double minimum, maximum;
    double slope; /* per value: the median slope of all pairs (see eitp_trend_fit) */
} eitp__rolling_summary;

/* Computes the summary in a time proportional to the square of the count. */
EITP__PRIVATE eitp__rolling_summary eitp__rolling_summarize(const eitp__rolling *rolling);

#endif
