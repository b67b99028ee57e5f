/* Statistics of a set of points, such as the hidden states of a sequence: rows [n, width], in order. */
#ifndef EITP_DIMENSION_H
#define EITP_DIMENSION_H

#include "base/platform.h"

/*
 * Pairs of points at most this many positions apart in a sequence are excluded from the correlation dimension: a
 * Theiler window (Theiler, "Spurious dimension from correlation algorithms applied to limited time-series data", 1986).
 */
enum { EITP__THEILER_WINDOW = 8 };

/* Computes the Euclidean distances of all pairs: [n, n]. */
EITP__PRIVATE void eitp__points_distances(const float *rows, int64_t n, int64_t width, double *distances);

/* Computes the products of all pairs after subtracting the mean of the points: [n, n]. `mean` has room for width
   values. */
EITP__PRIVATE void eitp__points_products(const float *rows, int64_t n, int64_t width, double *mean, double *products);

/*
 * Returns the intrinsic dimension from the two nearest neighbours of each point (Facco et al., "Estimating the
 * intrinsic dimension of datasets by a minimal neighborhood information", 2017). Points with ties or a neighbour at
 * distance 0 are left out. NaN if none remains.
 */
EITP__PRIVATE double eitp__points_two_nn(const double *distances, int64_t n);

typedef struct eitp__correlation_dimension {
    double dimension, r2; /* slope, and coefficient of determination of its fit */
} eitp__correlation_dimension;

/*
 * Returns the correlation dimension (Grassberger and Procaccia, "Measuring the strangeness of strange attractors",
 * 1983): the slope of log C(r) over log r, where C(r) is the fraction of pairs at a distance of at most r, for 12
 * values of r from the 0.01 quantile of the distances to the 0.2 quantile. Pairs within the Theiler window are left
 * out. `sorted` has room for n^2 / 2 values. NaN if fewer than 100 pairs remain, or their distances are all equal.
 */
EITP__PRIVATE eitp__correlation_dimension eitp__points_correlation_dimension(const double *distances, int64_t n,
                                                                             double *sorted);

/* Returns the participation ratio (tr C)^2 / |C|^2 of the covariance C, which the products determine. NaN if all points
   are equal. */
EITP__PRIVATE double eitp__points_participation_ratio(const double *products, int64_t n);

/* Returns the coding rate 1/2 ln det(1 + width / (n epsilon2) C) of the centred points (Yu et al., arXiv 2006.08558),
   in nats. `work` has n^2 values. */
EITP__PRIVATE double eitp__points_coding_rate(const double *products, int64_t n, int64_t width, double epsilon2,
                                              double *work);

/* Returns the linear centred kernel alignment (Kornblith et al., arXiv 1905.00414) of the same n points in two spaces.
   NaN if the points are all equal in one of them. */
EITP__PRIVATE double eitp__points_alignment(const double *products, const double *others, int64_t n);

/* Returns the mean cosine of consecutive points minus the mean cosine of all pairs. `sum` has room for width values.
   NaN with fewer than 3 points, or if a point is 0. */
EITP__PRIVATE double eitp__points_neighbour_cosine(const float *rows, int64_t n, int64_t width, double *sum);

#endif
