/* Eigenvalues of symmetric matrices, and power laws in their tails. */
#ifndef EITP_SPECTRUM_H
#define EITP_SPECTRUM_H

#include "base/platform.h"

/*
 * The eigenvalues of a symmetric matrix [n, n], of which the lower triangle is read and overwritten, in ascending
 * order: Householder's tridiagonal form, then implicit QR with Wilkinson's shift (Golub and Van Loan, "Matrix
 * Computations", 8.3). `work` has 3 * n values. Returns 0 if a value is not finite or QR does not converge.
 */
EITP__PRIVATE int eitp__symmetric_eigenvalues(double *matrix, int64_t n, double *values, double *work);

/* A density proportional to x^-alpha from `smallest` on. */
typedef struct eitp__power_law {
    double alpha;
    double distance; /* Kolmogorov-Smirnov distance between the law and the values of the tail */
    double smallest;
    int64_t tail; /* number of values from `smallest` on */
} eitp__power_law;

/* The fewest values of a tail. */
enum { EITP__POWER_LAW_TAIL = 10 };

/*
 * Fits a power law to the tail of values in ascending order: the exponent has the maximum likelihood (Hill, "A Simple
 * General Approach to Inference About the Tail of a Distribution", 1975), and the tail begins at the value that makes
 * the Kolmogorov-Smirnov distance smallest (Clauset, Shalizi and Newman, arXiv 0706.1062). Values that are not positive
 * are not part of a tail. Returns 0 if there are not enough values, or all are the same.
 */
EITP__PRIVATE int eitp__power_law_fit(const double *values, int64_t count, eitp__power_law *law);

#endif
