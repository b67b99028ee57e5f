/* The points that a trend is fitted to. */
#ifndef EITP_TREND_POINTS_H
#define EITP_TREND_POINTS_H

#include "base/platform.h"
#include "run/trend.h"

/* A series of `count` values. y may be a ring whose oldest value is at `first`. */
typedef struct eitp__series {
    const double *x; /* NULL: 0, 1, 2 ... */
    const double *y;
    size_t count, first;
} eitp__series;

typedef struct eitp__trend_points {
    double x[EITP_TREND_POINTS], y[EITP_TREND_POINTS];
    size_t count;  /* at most EITP_TREND_POINTS */
    size_t finite; /* points of the series */
} eitp__trend_points;

/* Collects the finite points of a series; of a long one, those of its blocks. */
EITP__PRIVATE void eitp__trend_collect(const eitp__series *series, eitp__trend_points *points);

/* The median slope of all pairs; NaN with fewer than two points. */
EITP__PRIVATE double eitp__trend_slope(const eitp__trend_points *points);

#endif
