#include "base/statistics.h"

#include "base/sort.h"
#include "base/status.h"
#include "base/trend.h"

/* ---- Medians ---- */

static int eitp__compare_numbers(const void *left, const void *right) {
    double a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return a < b ? -1 : a > b;
}

static double eitp__median_in_place(double *values, size_t count) {
    eitp__sort(values, count, sizeof *values, eitp__compare_numbers);
    /* Halves each value first, since the sum of two large losses may overflow. */
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

/* ---- Order statistics without extra memory: bisection finds a number by counting the numbers not above it ---- */

/* A set of `count` numbers without NaN. `at_most` returns the number of elements that are at most `limit`. */
typedef struct eitp__counted {
    const void *numbers;
    size_t (*at_most)(const void *numbers, double limit);
    size_t count;
} eitp__counted;

/* Map doubles to integers in the same order, and back. */
static uint64_t eitp__order_of(double number) {
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

static double eitp__number_of(uint64_t order) {
    const uint64_t sign = (uint64_t)1 << 63, bits = order & sign ? order ^ sign : ~order;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Returns the number at `index`, below count, in ascending order. Calls at_most about 64 times. */
static double eitp__select(const eitp__counted *set, size_t index) {
    uint64_t low = eitp__order_of(-HUGE_VAL), high = eitp__order_of(HUGE_VAL);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (set->at_most(set->numbers, eitp__number_of(middle)) > index)
            high = middle;
        else
            low = middle + 1;
    }
    return eitp__number_of(low) + 0.0; /* 0 rather than -0 */
}

/* Returns the median; NaN without numbers. */
static double eitp__counted_median(const eitp__counted *set) {
    const size_t index = set->count ? (set->count - 1) / 2 : 0;
    double low, high;
    if (!set->count)
        return NAN;
    low = high = eitp__select(set, index);
    if (set->count % 2 == 0 && set->at_most(set->numbers, low) == index + 1)
        high = eitp__select(set, index + 1);
    return 0.5 * low + 0.5 * high;
}

/* ---- The points of a trend ---- */

/* A series of `count` values. */
typedef struct eitp__series {
    const double *x; /* NULL: 0, 1, 2 ... */
    const double *y;
    size_t count;
} eitp__series;

typedef struct eitp__trend_points {
    double x[EITP_TREND_POINTS], y[EITP_TREND_POINTS];
    size_t count;  /* at most EITP_TREND_POINTS */
    size_t finite; /* finite points of the series */
} eitp__trend_points;

/* Minimum number of points for a trend, and for estimating an autocorrelation. */
enum { EITP__TREND_LEAST = 3, EITP__TREND_CORRELATED = 10 };

static double eitp__series_x(const eitp__series *series, size_t i) {
    return series->x ? series->x[i] : (double)i;
}

static int eitp__series_is_finite(const eitp__series *series, size_t i) {
    return isfinite(eitp__series_x(series, i)) && isfinite(series->y[i]);
}

/* Neighbours in a series, counting only finite ones. */
typedef struct eitp__trend_block {
    const eitp__series *series;
    size_t begin, end;
} eitp__trend_block;

static size_t eitp__block_at_most(const void *numbers, double limit) {
    const eitp__trend_block *block = (const eitp__trend_block *)numbers;
    size_t count = 0;
    for (size_t i = block->begin; i < block->end; i++)
        count += eitp__series_is_finite(block->series, i) && block->series->y[i] <= limit;
    return count;
}

/* Adds the point that represents a block with `finite` finite points. */
static void eitp__trend_add_block(const eitp__trend_block *block, size_t finite, eitp__trend_points *points) {
    eitp__counted counted;
    double x = 0;
    for (size_t i = block->begin; i < block->end; i++) {
        if (eitp__series_is_finite(block->series, i))
            x += eitp__series_x(block->series, i) / (double)finite;
    }
    counted.numbers = block;
    counted.at_most = eitp__block_at_most;
    counted.count = finite;
    points->x[points->count] = x;
    points->y[points->count++] = eitp__counted_median(&counted);
}

/* Divides the finite points into blocks of almost equal size. */
static void eitp__trend_collect_blocks(const eitp__series *series, eitp__trend_points *points) {
    const size_t all = points->finite, blocks = EITP_TREND_POINTS;
    eitp__trend_block block;
    size_t before = 0, finite = 0; /* finite points before this block, and in it */
    block.series = series;
    block.begin = 0;
    for (size_t i = 0; i < series->count; i++) {
        finite += (size_t)eitp__series_is_finite(series, i);
        if (before + finite < all / blocks * (points->count + 1) + all % blocks * (points->count + 1) / blocks)
            continue;
        block.end = i + 1;
        eitp__trend_add_block(&block, finite, points);
        before += finite;
        finite = 0;
        block.begin = i + 1;
    }
}

/* Collects the finite points of a series; for a long series, the points of its blocks. */
static void eitp__trend_collect(const eitp__series *series, eitp__trend_points *points) {
    points->count = points->finite = 0;
    for (size_t i = 0; i < series->count; i++)
        points->finite += (size_t)eitp__series_is_finite(series, i);
    if (points->finite > EITP_TREND_POINTS) {
        eitp__trend_collect_blocks(series, points);
        return;
    }
    for (size_t i = 0; i < series->count; i++) {
        if (!eitp__series_is_finite(series, i))
            continue;
        points->x[points->count] = eitp__series_x(series, i);
        points->y[points->count++] = series->y[i];
    }
}

/* ---- Slopes ---- */

static size_t eitp__slopes_at_most(const void *numbers, double limit) {
    const eitp__trend_points *points = (const eitp__trend_points *)numbers;
    size_t count = 0;
    for (size_t i = 0; i < points->count; i++) {
        for (size_t j = i + 1; j < points->count; j++)
            count += (points->y[j] - points->y[i]) / (points->x[j] - points->x[i]) <= limit;
    }
    return count;
}

static eitp__counted eitp__trend_slopes(const eitp__trend_points *points) {
    eitp__counted slopes;
    slopes.numbers = points;
    slopes.at_most = eitp__slopes_at_most;
    slopes.count = points->count > 1 ? points->count * (points->count - 1) / 2 : 0;
    return slopes;
}

/* Returns the median slope of all pairs; NaN with fewer than two points. */
static double eitp__trend_slope(const eitp__trend_points *points) {
    const eitp__counted slopes = eitp__trend_slopes(points);
    return eitp__counted_median(&slopes);
}

/* Computes Sen's interval (1968): slopes as far from the middle as S may be from 0. */
static void eitp__trend_interval(const eitp__trend_points *points, eitp_trend *trend) {
    const eitp__counted slopes = eitp__trend_slopes(points);
    const double last = (double)(slopes.count - 1), distance = 1.959963984540054 * sqrt(trend->variance);
    const double low = rint(((double)slopes.count - distance) / 2) - 1;
    const double high = rint(((double)slopes.count + distance) / 2);
    trend->slope_low = eitp__select(&slopes, low > 0 ? (size_t)low : 0);
    trend->slope_high = eitp__select(&slopes, (size_t)(high < last ? high : last));
}

/* ---- The test ---- */

/* Computes Kendall's S and tau-b, and the variance of S for independent values, with ties. */
static void eitp__trend_kendall(const eitp__trend_points *points, eitp_trend *trend) {
    const double n = (double)points->count, pairs = n * (n - 1) / 2;
    double tied = 0, ties = 0;
    trend->s = 0;
    for (size_t i = 0; i < points->count; i++) {
        double equal = 0; /* number of values equal to this one, including itself: each term of the sums counts that
                             many times */
        for (size_t j = 0; j < points->count; j++) {
            equal += points->y[j] == points->y[i];
            if (j > i)
                trend->s += (points->y[j] > points->y[i]) - (points->y[j] < points->y[i]);
        }
        tied += (equal - 1) / 2;
        ties += (equal - 1) * (2 * equal + 5);
    }
    trend->tau = pairs > tied ? trend->s / sqrt(pairs * (pairs - tied)) : 0;
    trend->variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;
}

/* Returns the autocorrelation at lag 1 of the ranks after removing the trend. */
static double eitp__trend_autocorrelation(const eitp__trend_points *points, double slope) {
    const double n = (double)points->count, middle = (n + 1) / 2;
    double left[EITP_TREND_POINTS], before = 0, products = 0, squares = 0, r;
    if (points->count < EITP__TREND_CORRELATED)
        return 0;
    for (size_t i = 0; i < points->count; i++)
        left[i] = points->y[i] - slope * (points->x[i] - points->x[0]);
    for (size_t i = 0; i < points->count; i++) {
        double rank = middle; /* rank minus the middle: half of the count below minus the count above */
        for (size_t j = 0; j < points->count; j++)
            rank += 0.5 * ((left[j] < left[i]) - (left[j] > left[i]));
        rank -= middle;
        products += i ? rank * before : 0;
        squares += rank * rank;
        before = rank;
    }
    r = squares > 0 ? (n * products / squares + 2) / (n - 4) : 0;
    return r < 0 ? 0 : r < 0.98 ? r : 0.98;
}

/* Returns the factor by which autocorrelation increases the variance of S (Yue and Wang, 2004). */
static double eitp__trend_inflation(double autocorrelation, size_t count) {
    double sum = 0, power = 1;
    for (size_t k = 1; k < count; k++) {
        power *= autocorrelation;
        sum += (1 - (double)k / (double)count) * power;
    }
    return 1 + 2 * sum;
}

static void eitp__trend_fit_points(eitp__trend_points *points, eitp_trend *trend) {
    double inflation;
    trend->count = (int64_t)points->finite;
    trend->points = (int64_t)points->count;
    trend->slope = eitp__trend_slope(points);
    eitp__trend_kendall(points, trend);
    trend->autocorrelation = eitp__trend_autocorrelation(points, trend->slope);
    inflation = eitp__trend_inflation(trend->autocorrelation, points->count);
    trend->effective_count = (double)points->count / inflation;
    trend->variance *= inflation;
    trend->z = trend->variance > 0 && trend->s != 0 ? (trend->s - (trend->s > 0 ? 1 : -1)) / sqrt(trend->variance) : 0;
    trend->p = erfc(fabs(trend->z) / sqrt(2.0));
    eitp__trend_interval(points, trend);
    trend->intercept = eitp__median(points->y, points->count) -
                       trend->slope * (0.5 * points->x[(points->count - 1) / 2] + 0.5 * points->x[points->count / 2]);
}

static eitp_status eitp__trend_check_order(const double *x, size_t count, eitp_error *error) {
    size_t last = 0, finite = 0;
    for (size_t i = 0; x && i < count; i++) {
        if (!isfinite(x[i]))
            continue;
        if (finite++ && !(x[i] > x[last]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "eitp_trend_fit: x must ascend: x[%zu] is %g, x[%zu] is %g",
                              last, x[last], i, x[i]);
        last = i;
    }
    return EITP_OK;
}

eitp_status eitp_trend_fit(const double *x, const double *y, size_t count, eitp_trend *trend, eitp_error *error) {
    eitp__trend_points points;
    eitp__series series;
    eitp_status status;
    if (!y || !trend)
        return eitp__fail_null(error, "eitp_trend_fit", "y and trend");
    status = eitp__trend_check_order(x, count, error);
    if (status)
        return status;
    series.x = x;
    series.y = y;
    series.count = count;
    eitp__trend_collect(&series, &points);
    if (points.finite < EITP__TREND_LEAST)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "eitp_trend_fit: at least %d finite points needed (got %zu)",
                          EITP__TREND_LEAST, points.finite);
    eitp__trend_fit_points(&points, trend);
    return EITP_OK;
}

/* ---- The last values of a scalar ---- */

EITP__PRIVATE void eitp__rolling_add(eitp__rolling *rolling, size_t capacity, double value) {
    if (rolling->count == capacity)
        memmove(rolling->values, rolling->values + 1, --rolling->count * sizeof *rolling->values);
    rolling->values[rolling->count++] = value;
}

EITP__PRIVATE eitp__rolling_summary eitp__rolling_summarize(const eitp__rolling *rolling) {
    eitp__rolling_summary summary = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    eitp__trend_points points;
    eitp__series series;
    double squares = 0;
    series.x = NULL;
    series.y = rolling->values;
    series.count = rolling->count;
    eitp__trend_collect(&series, &points);
    summary.count = points.count;
    if (!points.count)
        return summary;
    summary.mean = 0;
    summary.minimum = summary.maximum = points.y[0];
    for (size_t i = 0; i < points.count; i++) {
        summary.mean += points.y[i] / (double)points.count;
        summary.minimum = points.y[i] < summary.minimum ? points.y[i] : summary.minimum;
        summary.maximum = points.y[i] > summary.maximum ? points.y[i] : summary.maximum;
    }
    for (size_t i = 0; i < points.count; i++)
        squares += (points.y[i] - summary.mean) * (points.y[i] - summary.mean);
    summary.deviation = points.count > 1 ? sqrt(squares / (double)(points.count - 1)) : 0;
    summary.median = eitp__median(points.y, points.count);
    summary.median_deviation = eitp__median_deviation(points.y, points.count);
    summary.slope = eitp__trend_slope(&points);
    return summary;
}
