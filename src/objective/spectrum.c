#include "objective/spectrum.h"

#include "base/sort.h"

#include <float.h>

/* ---- Tridiagonal form ---- */

/* Reflects the column below diagonal element k onto its first element. Stores the vector of the reflection, whose first
   element belongs to row k + 1. Returns the factor 2 / (v . v), or 0 if no reflection is needed. */
static double eitp__reflection(const double *matrix, int64_t n, int64_t k, double *vector, double *element) {
    const int64_t size = n - k - 1;
    double largest = 0, squares = 0, norm;
    for (int64_t i = 0; i < size; i++) {
        vector[i] = matrix[(k + 1 + i) * n + k];
        largest = fmax(largest, fabs(vector[i]));
    }
    *element = vector[0];
    if (size < 2 || !(largest > 0))
        return 0;
    for (int64_t i = 0; i < size; i++) {
        vector[i] /= largest;
        squares += vector[i] * vector[i];
    }
    norm = vector[0] > 0 ? -sqrt(squares) : sqrt(squares);
    *element = norm * largest;
    squares -= norm * vector[0]; /* half the squared norm of the vector below */
    vector[0] -= norm;
    return 1 / squares;
}

/* A = H A H for the block of rows and columns after k, with H = 1 - factor v v^T: A - v w^T - w v^T, where
   p = factor A v and w = p - factor / 2 (v . p) v. */
static void eitp__reflect_block(double *matrix, int64_t n, int64_t k, const double *v, double factor, double *w) {
    const int64_t first = k + 1, size = n - first;
    double product = 0;
    memset(w, 0, (size_t)size * sizeof *w);
    for (int64_t i = 0; i < size; i++) {
        const double *row = &matrix[(first + i) * n + first];
        double sum = row[i] * v[i];
        for (int64_t j = 0; j < i; j++) {
            sum += row[j] * v[j];
            w[j] += row[j] * v[i];
        }
        w[i] += sum;
    }
    for (int64_t i = 0; i < size; i++) {
        w[i] *= factor;
        product += v[i] * w[i];
    }
    for (int64_t i = 0; i < size; i++)
        w[i] -= 0.5 * factor * product * v[i];
    for (int64_t i = 0; i < size; i++) {
        double *row = &matrix[(first + i) * n + first];
        for (int64_t j = 0; j <= i; j++)
            row[j] -= v[i] * w[j] + w[i] * v[j];
    }
}

/* Stores the diagonal, and the elements below it. */
static void eitp__tridiagonalize(double *matrix, int64_t n, double *diagonal, double *below, double *work) {
    for (int64_t k = 0; k < n; k++) {
        double factor;
        diagonal[k] = matrix[k * n + k];
        below[k] = 0;
        if (k + 1 == n)
            break;
        factor = eitp__reflection(matrix, n, k, work, &below[k]);
        if (factor > 0)
            eitp__reflect_block(matrix, n, k, work, factor, work + n);
    }
}

/* ---- Implicit QR ---- */

/* Performs one step with a shift on the block [first, last], whose elements below the diagonal are all nonzero. */
static void eitp__qr_step(double *diagonal, double *below, int64_t first, int64_t last) {
    const double half = (diagonal[last - 1] - diagonal[last]) / 2, off = below[last - 1];
    const double root = half < 0 ? half - hypot(half, off) : half + hypot(half, off);
    double x = diagonal[first] - (diagonal[last] - off * (off / root)), z = below[first];
    for (int64_t k = first; k < last; k++) {
        const double length = hypot(x, z), c = length > 0 ? x / length : 1, s = length > 0 ? z / length : 0;
        const double a = diagonal[k], b = below[k], d = diagonal[k + 1];
        if (k > first)
            below[k - 1] = length;
        diagonal[k] = c * c * a + 2 * c * s * b + s * s * d;
        diagonal[k + 1] = s * s * a - 2 * c * s * b + c * c * d;
        below[k] = (c * c - s * s) * b + c * s * (d - a);
        x = below[k];
        if (k + 1 < last) {
            z = s * below[k + 1];
            below[k + 1] *= c;
        }
    }
}

/* Reduces a tridiagonal matrix to its diagonal. Returns 0 if it does not converge. */
static int eitp__qr_iterate(double *diagonal, double *below, int64_t n) {
    const int64_t steps_of_a_value = 60;
    int64_t last = n - 1, steps = 0;
    while (last > 0) {
        int64_t first = last;
        for (; first > 0; first--) {
            if (fabs(below[first - 1]) <= DBL_EPSILON * (fabs(diagonal[first - 1]) + fabs(diagonal[first])))
                break;
        }
        if (first == last) {
            last--;
            steps = 0;
            continue;
        }
        if (++steps > steps_of_a_value)
            return 0;
        eitp__qr_step(diagonal, below, first, last);
    }
    return 1;
}

static int eitp__compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

EITP__PRIVATE int eitp__symmetric_eigenvalues(double *matrix, int64_t n, double *values, double *work) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            if (!isfinite(matrix[i * n + j]))
                return 0;
        }
    }
    eitp__tridiagonalize(matrix, n, values, work, work + n);
    if (!eitp__qr_iterate(values, work, n))
        return 0;
    eitp__sort(values, (size_t)n, sizeof *values, eitp__compare_doubles);
    return 1;
}

/* ---- Power laws ---- */

/* Returns the distance between the distribution of the values and the law, F(x) = 1 - (x / smallest)^(1 - alpha). */
static double eitp__power_law_distance(const double *tail, int64_t count, double alpha) {
    double distance = 0;
    for (int64_t i = 0; i < count; i++) {
        const double law = 1 - pow(tail[i] / tail[0], 1 - alpha);
        distance = fmax(distance, fabs((double)i / (double)count - law));
        distance = fmax(distance, fabs((double)(i + 1) / (double)count - law));
    }
    return distance;
}

EITP__PRIVATE int eitp__power_law_fit(const double *values, int64_t count, eitp__power_law *law) {
    double logarithms = 0; /* sum over the tail */
    memset(law, 0, sizeof *law);
    law->distance = INFINITY;
    for (int64_t first = count - 1; first >= 0 && values[first] > 0; first--) {
        const double tail = (double)(count - first);
        double excess, alpha, distance;
        logarithms += log(values[first]);
        excess = logarithms - tail * log(values[first]);
        if (count - first < EITP__POWER_LAW_TAIL || !(excess > 1e-12 * tail))
            continue;
        alpha = 1 + tail / excess;
        distance = eitp__power_law_distance(values + first, count - first, alpha);
        if (distance > law->distance)
            continue;
        law->alpha = alpha;
        law->distance = distance;
        law->smallest = values[first];
        law->tail = count - first;
    }
    return law->tail > 0;
}
