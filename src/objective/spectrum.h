/* Eigenvalues of symmetric matrices, and power laws in their tails. */
#ifndef EITP_SPECTRUM_H
#define EITP_SPECTRUM_H

#include "base/platform.h"

/*
 * Computes the eigenvalues of a symmetric matrix [n, n], in ascending order. Its lower triangle is read and
 * overwritten. Uses Householder's tridiagonal form, then implicit QR with Wilkinson's shift (Golub and Van Loan,
 * "Matrix Computations", 8.3). `work` has 3 * n values. Returns 0 if a value is not finite or QR does not converge.
 */
EITP__PRIVATE int eitp__symmetric_eigenvalues(double *matrix, int64_t n, double *values, double *work);

/* A density proportional to x^-alpha for x >= `smallest`. */
typedef struct eitp__power_law {
    double alpha;
    double distance; /* Kolmogorov-Smirnov distance between the law and the values of the tail */
    double smallest;
    int64_t tail; /* number of values from `smallest` on */
} eitp__power_law;

/* Minimum number of values of a tail. */
enum { EITP__POWER_LAW_TAIL = 10 };

/*
 * Fits a power law to the tail of values in ascending order. The exponent has the maximum likelihood (Hill, "A Simple
 * General Approach to Inference About the Tail of a Distribution", 1975), and the tail starts at the value that
 * minimizes the Kolmogorov-Smirnov distance (Clauset, Shalizi and Newman, arXiv 0706.1062). Values that are not
 * positive are excluded from the tail. Returns 0 if there are not enough values, or all are equal.
 */
EITP__PRIVATE int eitp__power_law_fit(const double *values, int64_t count, eitp__power_law *law);

#endif
