#include "base/statistics.h"

#include "base/sort.h"

static int eitp__compare_numbers(const void *left, const void *right) {
    double a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return a < b ? -1 : a > b;
}

static double eitp__median_in_place(double *values, size_t count) {
    eitp__sort(values, count, sizeof *values, eitp__compare_numbers);
    /* Halved first: the sum of two large losses may overflow. */
    return count ? 0.5 * values[(count - 1) / 2] + 0.5 * values[count / 2] : 0;
}

EITP__PRIVATE double eitp__median(const double *values, size_t count) {
    double copy[EITP__STATISTICS_VALUES];
    if (count)
        memcpy(copy, values, count * sizeof *copy);
    return eitp__median_in_place(copy, count);
}

EITP__PRIVATE double eitp__median_deviation(const double *values, size_t count) {
    const double median = eitp__median(values, count);
    double distances[EITP__STATISTICS_VALUES];
    for (size_t i = 0; i < count; i++)
        distances[i] = fabs(values[i] - median);
    return 1.4826 * eitp__median_in_place(distances, count);
}
