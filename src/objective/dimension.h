/* Statistics of a cloud of points, such as the hidden states of a sequence: rows [n, width], in their order. */
#ifndef EITP_DIMENSION_H
#define EITP_DIMENSION_H

#include "base/platform.h"

/* Positions between two points of a sequence, at most, whose distance the correlation dimension leaves out: a Theiler
   window (Theiler, "Spurious dimension from correlation algorithms applied to limited time-series data", 1986). */
enum { EITP__THEILER_WINDOW = 8 };

/* The Euclidean distances of all pairs: [n, n]. */
EITP__PRIVATE void eitp__points_distances(const float *rows, int64_t n, int64_t width, double *distances);

/* The products of all pairs after the mean of the points is subtracted: [n, n]. `mean` has room for width values. */
EITP__PRIVATE void eitp__points_products(const float *rows, int64_t n, int64_t width, double *mean, double *products);

/* Intrinsic dimension by the two nearest neighbours of each point (Facco et al., "Estimating the intrinsic dimension of
   datasets by a minimal neighborhood information", 2017): points with ties or a neighbour at distance 0 are left out.
   NaN if none remains. */
EITP__PRIVATE double eitp__points_two_nn(const double *distances, int64_t n);

typedef struct eitp__correlation_dimension {
    double dimension, r2; /* the slope, and the coefficient of determination of its fit */
} eitp__correlation_dimension;

/*
 * The correlation dimension (Grassberger and Procaccia, "Measuring the strangeness of strange attractors", 1983): the
 * slope of log C(r) on log r, with C(r) the share of pairs at a distance of r or less, for 12 r from the quantile 0.01
 * of the distances to the quantile 0.2. Pairs within the Theiler window are left out. `sorted` has room for n^2 / 2
 * values. NaN if fewer than 100 pairs are left, or their distances do not differ.
 */
EITP__PRIVATE eitp__correlation_dimension eitp__points_correlation_dimension(const double *distances, int64_t n,
                                                                             double *sorted);

/* The participation ratio (tr C)^2 / |C|^2 of the covariance C, which has the same value for the products. NaN if all
   points are the same. */
EITP__PRIVATE double eitp__points_participation_ratio(const double *products, int64_t n);

/* The coding rate 1/2 ln det(1 + width / (n epsilon2) C) of the centred points (Yu et al., arXiv 2006.08558), in nats.
   `work` has n^2 values. */
EITP__PRIVATE double eitp__points_coding_rate(const double *products, int64_t n, int64_t width, double epsilon2,
                                              double *work);

/* Linear centred kernel alignment (Kornblith et al., arXiv 1905.00414) of the same n points in two spaces. NaN if those
   of one are all the same. */
EITP__PRIVATE double eitp__points_alignment(const double *products, const double *others, int64_t n);

/* The mean cosine of consecutive points, less that of all pairs. `sum` has room for width values. NaN with fewer than
   3 points, or if one is 0. */
EITP__PRIVATE double eitp__points_neighbour_cosine(const float *rows, int64_t n, int64_t width, double *sum);

#endif
