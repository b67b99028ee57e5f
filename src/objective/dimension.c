#include "objective/dimension.h"

#include "base/sort.h"

static double eitp__dot_rows(const float *a, const float *b, int64_t width) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

EITP__PRIVATE void eitp__points_distances(const float *rows, int64_t n, int64_t width, double *distances) {
    for (int64_t i = 0; i < n; i++) {
        distances[i * n + i] = 0;
        for (int64_t j = 0; j < i; j++) {
            double sum = 0;
            for (int64_t c = 0; c < width; c++) {
                const double difference = (double)rows[i * width + c] - (double)rows[j * width + c];
                sum += difference * difference;
            }
            distances[i * n + j] = distances[j * n + i] = sqrt(sum);
        }
    }
}

EITP__PRIVATE void eitp__points_products(const float *rows, int64_t n, int64_t width, double *mean, double *products) {
    memset(mean, 0, (size_t)width * sizeof *mean);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < width; c++)
            mean[c] += (double)rows[i * width + c] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t c = 0; c < width; c++)
                sum += ((double)rows[i * width + c] - mean[c]) * ((double)rows[j * width + c] - mean[c]);
            products[i * n + j] = products[j * n + i] = sum;
        }
    }
}

/* ---- Dimensions ---- */

EITP__PRIVATE double eitp__points_two_nn(const double *distances, int64_t n) {
    double sum = 0, used = 0;
    for (int64_t i = 0; i < n; i++) {
        double nearest = INFINITY, second = INFINITY;
        for (int64_t j = 0; j < n; j++) {
            const double distance = distances[i * n + j];
            if (j == i || !(distance < second))
                continue;
            second = distance < nearest ? nearest : distance;
            nearest = fmin(nearest, distance);
        }
        if (!(nearest > 0) || !(second > nearest) || !isfinite(second))
            continue;
        sum += log(second / nearest);
        used++;
    }
    return used > 0 ? used / sum : (double)NAN;
}

static int eitp__compare_distances(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Fits y over x by least squares. */
static eitp__correlation_dimension eitp__fit_slope(const double *x, const double *y, int count) {
    eitp__correlation_dimension fit;
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
    for (int i = 0; i < count; i++) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
    }
    fit.dimension = xx > 0 ? xy / xx : (double)NAN;
    fit.r2 = xx > 0 && yy > 0 ? xy * xy / (xx * yy) : (double)NAN;
    return fit;
}

EITP__PRIVATE eitp__correlation_dimension eitp__points_correlation_dimension(const double *distances, int64_t n,
                                                                             double *sorted) {
    enum { SCALES = 12, PAIRS = 100 };
    const double low = 0.01, high = 0.2;
    eitp__correlation_dimension none;
    double x[SCALES], y[SCALES];
    int64_t pairs = 0;
    none.dimension = none.r2 = NAN;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i - EITP__THEILER_WINDOW; j++)
            sorted[pairs++] = distances[i * n + j];
    }
    if (pairs < PAIRS)
        return none;
    eitp__sort(sorted, (size_t)pairs, sizeof *sorted, eitp__compare_distances);
    for (int k = 0; k < SCALES; k++) {
        const double share = low * pow(high / low, (double)k / (SCALES - 1));
        int64_t at = (int64_t)(share * (double)(pairs - 1));
        const double radius = sorted[at];
        while (at + 1 < pairs && !(sorted[at + 1] > radius))
            at++;
        if (!(radius > 0))
            return none;
        x[k] = log(radius);
        y[k] = log((double)(at + 1) / (double)pairs);
    }
    return x[SCALES - 1] - x[0] > 1e-9 ? eitp__fit_slope(x, y, SCALES) : none;
}

/* ---- Products ---- */

static double eitp__product_of(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double eitp__trace(const double *products, int64_t n) {
    double trace = 0;
    for (int64_t i = 0; i < n; i++)
        trace += products[i * n + i];
    return trace;
}

EITP__PRIVATE double eitp__points_participation_ratio(const double *products, int64_t n) {
    const double trace = eitp__trace(products, n), squares = eitp__product_of(products, products, n * n);
    return squares > 0 ? trace * trace / squares : (double)NAN;
}

EITP__PRIVATE double eitp__points_coding_rate(const double *products, int64_t n, int64_t width, double epsilon2,
                                              double *work) {
    const double scale = (double)width / ((double)n * epsilon2);
    double rate = 0;
    /* Cholesky factor L of 1 + scale * products: half the logarithm of the determinant is the logarithm of L's. */
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = scale * products[i * n + j] + (i == j ? 1 : 0);
            for (int64_t k = 0; k < j; k++)
                sum -= work[i * n + k] * work[j * n + k];
            work[i * n + j] = i == j ? sqrt(sum) : sum / work[j * n + j];
        }
        rate += log(work[i * n + i]);
    }
    return rate;
}

EITP__PRIVATE double eitp__points_alignment(const double *products, const double *others, int64_t n) {
    const double a = eitp__product_of(products, products, n * n), b = eitp__product_of(others, others, n * n);
    return a > 0 && b > 0 ? eitp__product_of(products, others, n * n) / (sqrt(a) * sqrt(b)) : (double)NAN;
}

EITP__PRIVATE double eitp__points_neighbour_cosine(const float *rows, int64_t n, int64_t width, double *sum) {
    const double pairs = (double)n * (double)(n - 1);
    double neighbours = 0, squares = 0, before = 0;
    memset(sum, 0, (size_t)width * sizeof *sum);
    if (n < 3)
        return (double)NAN;
    for (int64_t i = 0; i < n; i++) {
        const float *row = rows + i * width;
        const double norm = sqrt(eitp__dot_rows(row, row, width));
        if (!(norm > 0))
            return (double)NAN;
        if (i)
            neighbours += eitp__dot_rows(row - width, row, width) / (before * norm);
        for (int64_t c = 0; c < width; c++)
            sum[c] += (double)row[c] / norm;
        before = norm;
    }
    /* |sum of unit vectors|^2 counts each pair twice, and each point once. */
    for (int64_t c = 0; c < width; c++)
        squares += sum[c] * sum[c];
    return neighbours / (double)(n - 1) - (squares - (double)n) / pairs;
}
