/* Trends of a series, such as the seconds of each step: the rate of change, and whether it may be due to chance. */
#ifndef EITP_TREND_H
#define EITP_TREND_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* Maximum number of points that a trend is fitted to. Longer series are divided into this many blocks of neighbours. */
#define EITP_TREND_POINTS 256

typedef struct eitp_trend {
    int64_t count;                /* number of finite points in the series */
    int64_t points;               /* number of points the trend was fitted to: count, or EITP_TREND_POINTS */
    double slope;                 /* of y per unit of x: the median slope of all pairs of points */
    double slope_low, slope_high; /* its 95 % confidence interval */
    double intercept;             /* of the line through the medians of x and y */
    double s;                     /* Kendall's S: the number of pairs that rise minus the number that fall */
    double tau;                   /* Kendall's tau-b, -1 to 1; 0 if all y are equal */
    double variance;              /* variance of S if there is no trend, corrected for ties and autocorrelation */
    double z;                     /* the Mann-Kendall statistic, with continuity correction */
    double p;                     /* two-sided p-value: the probability, without a trend, of an S at least this far from
                                     0 */
    double autocorrelation; /* at lag 1 with the trend removed, corrected for bias; 0 if negative, or below 10 points */
    double effective_count; /* number of independent points with the same variance of S; at most `points` */
} eitp_trend;

/*
 * Fits a trend to `count` points. `x` must ascend strictly; NULL: 0, 1, 2 ... Non-finite points are ignored. Outliers
 * have little effect: up to 29 % of the points may have arbitrary values. Allocates nothing: of a series longer than
 * EITP_TREND_POINTS, each block counts as one point, the mean of its x and the median of its y. Takes up to about 30
 * ms.
 *
 * The slope and its interval follow Theil, "A rank-invariant method of linear and polynomial regression analysis"
 * (1950), and Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau" (1968); the test follows Mann,
 * "Nonparametric Tests Against Trend" (1945), and Kendall, "Rank Correlation Methods" (1975). Neighbouring values are
 * often similar, which the test would mistake for a trend. So the variance of S is multiplied by 1 + 2 sum (1 - k/n)
 * r^k over the lags k (Yue and Wang, "The Mann-Kendall Test Modified by Effective Sample Size", 2004), where r is the
 * autocorrelation at lag 1 of the ranks after removing the trend (Hamed and Rao, "A modified Mann-Kendall trend test
 * for autocorrelated data", 1998), and its bias is corrected: (n r + 2) / (n - 4).
 *
 * p is computed from a normal distribution. With fewer than 10 points it is an approximation, without the correction
 * for autocorrelation, and the interval may contain all slopes.
 *
 * EITP_ERROR_ARGUMENT if y or trend is NULL, fewer than 3 points are finite, or x does not ascend. *trend is unchanged
 * then.
 */
EITP_API eitp_status eitp_trend_fit(const double *x, const double *y, size_t count, eitp_trend *trend,
                                    eitp_error *error);

EITP_END_DECLARATIONS

#endif
