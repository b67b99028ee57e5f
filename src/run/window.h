/* Statistics of the last values of a scalar, such as the loss over 50 steps. */
#ifndef EITP_WINDOW_H
#define EITP_WINDOW_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* A ring of the last `capacity` values, in memory of the program. Start with eitp_window_init; nothing is released. */
typedef struct eitp_window {
    double *values;
    size_t capacity;
    size_t count; /* values in the window, those that are not finite included */
    size_t next;  /* where the next value goes */
} eitp_window;

/* Values that are not finite are left out. Without others all but `count` are NaN, and so is the slope of one value. */
typedef struct eitp_window_statistics {
    size_t count; /* finite values */
    double mean;
    double deviation; /* standard deviation, with count - 1 as the divisor; of one value 0 */
    double median;
    double median_deviation; /* median absolute deviation from the median, times 1.4826: of a normal distribution its
                                standard deviation */
    double minimum, maximum;
    double slope; /* per value: the median slope of all pairs (see eitp_trend_fit) */
} eitp_window_statistics;

/* Initialises an empty window on `memory` for `capacity` values, which must outlive it. Does nothing if an argument is
   NULL. A window of capacity 0 stays empty. */
EITP_API void eitp_window_init(eitp_window *window, double *memory, size_t capacity);

/* Adds a value, in place of the oldest one if the window is full. NULL is harmless. */
EITP_API void eitp_window_add(eitp_window *window, double value);

/* Computes the statistics, without allocating: a time proportional to the square of the count, up to 256 values. NULL
   is harmless; a NULL window is empty. */
EITP_API void eitp_window_summarize(const eitp_window *window, eitp_window_statistics *statistics);

/* The quantile at `fraction`, 0 (the minimum) to 1, interpolated between neighbours. NaN if no value is finite, if
   `fraction` is out of range, and for NULL. */
EITP_API double eitp_window_quantile(const eitp_window *window, double fraction);

EITP_END_DECLARATIONS

#endif
