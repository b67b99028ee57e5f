/* Trends and rolling values of a scalar: agreement with scipy and pymannkendall (tools/golden/make_trend.py), how
   often noise is mistaken for a trend, and how often a real trend is found. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

static eitp_error error;

typedef struct expected {
    const char *name;
    eitp_trend trend;
} expected;

static const expected golden[] = {
#include "tests/golden/trend/expected.txt"
};

enum { LONGEST = 1000 };

typedef struct series {
    double x[LONGEST], y[LONGEST];
    size_t count;
} series;

/* ---- The formulas of tools/golden/make_trend.py ---- */

static double noise(int i) {
    return ((i * 37 + i * i * 13) % 64) / 16.0;
}

static void make_noise(series *s, int count, double slope) {
    s->count = (size_t)count;
    for (int i = 0; i < count; i++) {
        s->x[i] = i;
        s->y[i] = noise(i) + slope * i;
    }
}

static void make_series(const char *name, series *s) {
    static const double few[] = {8.53, 8.44, 8.14};
    memset(s, 0, sizeof *s);
    if (!strcmp(name, "noise"))
        make_noise(s, 40, 0);
    else if (!strcmp(name, "rising"))
        make_noise(s, 100, 0.0625);
    else if (!strcmp(name, "ties"))
        make_noise(s, 60, 0);
    else if (!strcmp(name, "correlated"))
        make_noise(s, 120, 0);
    else if (!strcmp(name, "uneven"))
        make_noise(s, 50, -0.03125);
    else if (!strcmp(name, "gaps"))
        make_noise(s, 70, 0.03125);
    else if (!strcmp(name, "long"))
        make_noise(s, LONGEST, 0.001953125);
    else
        make_noise(s, strcmp(name, "few") ? 20 : 3, 0);
    for (int i = 0; i < (int)s->count; i++) {
        if (!strcmp(name, "ties"))
            s->y[i] = i * 7 % 5 + i / 20;
        else if (!strcmp(name, "correlated") && i)
            s->y[i] += 0.5 * s->y[i - 1];
        else if (!strcmp(name, "uneven"))
            s->x[i] += (i * i % 7) / 16.0;
        else if (!strcmp(name, "gaps") && i % 7 == 3)
            s->y[i] = NAN;
        else if (!strcmp(name, "constant"))
            s->y[i] = 2.5;
        else if (!strcmp(name, "few"))
            s->y[i] = few[i];
    }
}

/* ---- Against other programs ---- */

static int is_near(double got, double right) {
    return fabs(got - right) <= 1e-9 * (1 + fabs(right));
}

static void trends_are_those_of_scipy(void) {
    for (size_t i = 0; i < EITP__COUNT(golden); i++) {
        const eitp_trend *right = &golden[i].trend;
        eitp_trend got = EITP__ZERO;
        series s;
        make_series(golden[i].name, &s);
        REQUIRE_OK(eitp_trend_fit(s.x, s.y, s.count, &got, &error), error);
        CHECK_THAT(got.count == right->count && got.points == right->points, "%s: %d of %d points", golden[i].name,
                   (int)got.points, (int)got.count);
        CHECK_THAT(is_near(got.slope, right->slope) && is_near(got.intercept, right->intercept),
                   "%s: %.15g + %.15g x, not %.15g + %.15g x", golden[i].name, got.intercept, got.slope,
                   right->intercept, right->slope);
        CHECK_THAT(is_near(got.slope_low, right->slope_low) && is_near(got.slope_high, right->slope_high),
                   "%s: %.15g to %.15g, not %.15g to %.15g", golden[i].name, got.slope_low, got.slope_high,
                   right->slope_low, right->slope_high);
        CHECK_THAT(is_near(got.s, right->s) && is_near(got.tau, right->tau), "%s: S %g, tau %g", golden[i].name, got.s,
                   got.tau);
        CHECK_THAT(is_near(got.variance, right->variance) && is_near(got.z, right->z) && is_near(got.p, right->p),
                   "%s: variance %.15g, z %.15g, p %.15g", golden[i].name, got.variance, got.z, got.p);
        CHECK_THAT(is_near(got.autocorrelation, right->autocorrelation) &&
                       is_near(got.effective_count, right->effective_count),
                   "%s: r %.15g, n* %.15g", golden[i].name, got.autocorrelation, got.effective_count);
    }
}

static void x_may_be_left_out(void) {
    eitp_trend with, without;
    series s;
    make_series("gaps", &s);
    REQUIRE_OK(eitp_trend_fit(s.x, s.y, s.count, &with, &error), error);
    REQUIRE_OK(eitp_trend_fit(NULL, s.y, s.count, &without, &error), error);
    CHECK(with.slope == without.slope && with.p == without.p && with.count == 60 && without.count == 60);
}

/* Elapsed time divided by steps must not look like a slowdown. Step 45 came after 6.4 minutes and step 59 after 8.3:
   8.53 s per step up to step 45, 8.44 up to step 59, 8.14 between them. */
static void elapsed_time_is_not_a_slowdown(void) {
    const double steps[] = {45, 59}, minutes[] = {6.4, 8.3};
    const double seconds[] = {60 * minutes[0] / steps[0], 60 * minutes[1] / steps[1],
                              60 * (minutes[1] - minutes[0]) / (steps[1] - steps[0])};
    eitp_trend trend;
    CHECK(fabs(seconds[0] - 8.53) < 0.005 && fabs(seconds[1] - 8.44) < 0.005 && fabs(seconds[2] - 8.14) < 0.005);
    REQUIRE_OK(eitp_trend_fit(NULL, seconds, 3, &trend, &error), error);
    CHECK(trend.slope < 0 && trend.slope_high < 0);
    CHECK(trend.p > 0.2);
}

/* ---- In simulations ---- */

static uint64_t random_state;

/* Approximately normal, with deviation 1: the sum of 12 uniform numbers. */
static double random_normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(random_state >> 40) / (double)(1 << 24);
    }
    return sum;
}

/* Returns the fraction of series with `count` points and this autocorrelation and slope for which p < level. */
static double found_trends(int count, double autocorrelation, double slope, double level) {
    const int all = test_is_quick() ? 60 : 400;
    int found = 0;
    series s;
    random_state = 7;
    for (int k = 0; k < all; k++) {
        eitp_trend trend = EITP__ZERO;
        double value = 0;
        for (int i = -20; i < count; i++) {
            value = autocorrelation * value + random_normal();
            if (i >= 0)
                s.y[i] = value + slope * i;
        }
        eitp_trend_fit(NULL, s.y, (size_t)count, &trend, NULL);
        found += trend.p < level;
    }
    return (double)found / all;
}

/* Without the correction, a fifth to a third of the correlated series would pass for trends. */
static void noise_is_rarely_a_trend(void) {
    const double spare = test_is_quick() ? 0.06 : 0.02; /* fraction of the series */
    const double independent = found_trends(64, 0, 0, 0.05), correlated = found_trends(64, 0.5, 0, 0.05);
    const double strongly = found_trends(128, 0.8, 0, 0.05);
    CHECK_THAT(independent <= 0.05 + spare, "%g", independent);
    CHECK_THAT(correlated <= 0.05 + spare, "%g", correlated);
    CHECK_THAT(strongly <= 0.07 + spare, "%g", strongly);
    CHECK_THAT(found_trends(64, 0.5, 0, 0.001) <= 0.005 + spare / 4, "level 0.001");
    CHECK_THAT(independent + correlated + strongly > 0.01, "the test never finds a trend");
}

static void a_trend_is_found(void) {
    const double independent = found_trends(64, 0, 0.03, 0.05), correlated = found_trends(64, 0.5, 0.07, 0.05);
    CHECK_THAT(independent > 0.9, "%g", independent);
    CHECK_THAT(correlated > 0.8, "%g", correlated);
    CHECK_THAT(found_trends(64, 0, -0.1, 0.001) > 0.95, "falling");
}

/* A fifth of the points are outliers. */
static void outliers_do_not_matter(void) {
    eitp_trend clean, spoilt;
    series s;
    make_series("rising", &s);
    REQUIRE_OK(eitp_trend_fit(NULL, s.y, s.count, &clean, &error), error);
    for (size_t i = 0; i < s.count; i += 5)
        s.y[i] = i % 10 ? 1e6 : -1e300;
    REQUIRE_OK(eitp_trend_fit(NULL, s.y, s.count, &spoilt, &error), error);
    CHECK_THAT(fabs(spoilt.slope - clean.slope) < 0.25 * clean.slope, "%g, not %g", spoilt.slope, clean.slope);
    CHECK(spoilt.p < 0.001);
}

/* ---- Refused input ---- */

static int is_refused(const double *x, const double *y, size_t count, const char *why) {
    eitp_trend trend = EITP__ZERO;
    trend.slope = 5;
    return eitp_trend_fit(x, y, count, &trend, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, why) &&
           trend.slope == 5;
}

static void what_is_no_series_is_refused(void) {
    const double y[] = {1, NAN, 3, HUGE_VAL}, x[] = {0, 1, 1, 2}, nan_x[] = {0, NAN, 1, 2}, four[] = {1, 2, 3, 4};
    eitp_trend trend;
    CHECK(is_refused(NULL, NULL, 3, "y and trend"));
    CHECK(eitp_trend_fit(NULL, y, 3, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(is_refused(NULL, y, 4, "at least 3 finite points needed (got 2)"));
    CHECK(is_refused(NULL, y, 0, "(got 0)"));
    CHECK(is_refused(x, four, 4, "x[1] is 1, x[2] is 1"));
    CHECK(eitp_trend_fit(NULL, y, 4, &trend, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_trend_fit(nan_x, four, 4, &trend, NULL) && trend.count == 3);
}

/* ---- Rolling values ---- */

static void the_last_values_are_summarized(void) {
    eitp__rolling rolling = EITP__ZERO;
    eitp__rolling_summary got;
    for (int i = 0; i < 9; i++)
        eitp__rolling_add(&rolling, 5, i == 6 ? 100 : 2 * i + 1); /* 9 11 100 15 17 remain */
    got = eitp__rolling_summarize(&rolling);
    CHECK(rolling.count == 5 && got.count == 5 && rolling.values[0] == 9 && rolling.values[4] == 17);
    CHECK(is_near(got.mean, 30.4) && is_near(got.deviation, sqrt(1523.8)));
    CHECK(got.median == 15 && is_near(got.median_deviation, 1.4826 * 4));
    CHECK(got.minimum == 9 && got.maximum == 100);
    CHECK_THAT(is_near(got.slope, 2), "%g", got.slope);
}

static void values_that_are_not_finite_are_left_out(void) {
    eitp__rolling rolling = EITP__ZERO;
    eitp__rolling_summary got;
    for (int i = 0; i < 120; i++)
        eitp__rolling_add(&rolling, 50, i % 4 == 1 ? NAN : i % 4 == 3 ? -HUGE_VAL : -0.5 * i);
    got = eitp__rolling_summarize(&rolling);
    CHECK(rolling.count == 50 && got.count == 25);
    CHECK(got.maximum == -35 && got.minimum == -59 && got.median == -47 && is_near(got.mean, -47));
    CHECK(is_near(got.slope, -0.5));
}

static void as_many_values_as_fit_are_summarized(void) {
    static eitp__rolling rolling;
    eitp__rolling_summary got;
    for (int i = 0; i < 4000; i++)
        eitp__rolling_add(&rolling, EITP__STATISTICS_VALUES, 0.25 * i + noise(i));
    got = eitp__rolling_summarize(&rolling);
    CHECK(got.count == EITP__STATISTICS_VALUES);
    CHECK_THAT(fabs(got.slope - 0.25) < 0.01, "%g", got.slope);
}

static void no_values_have_no_summary(void) {
    eitp__rolling rolling = EITP__ZERO;
    eitp__rolling_summary got;
    for (int i = 0; i < 3; i++) {
        got = eitp__rolling_summarize(&rolling);
        CHECK(got.count == 0 && isnan(got.mean) && isnan(got.deviation) && isnan(got.median) &&
              isnan(got.median_deviation) && isnan(got.minimum) && isnan(got.maximum) && isnan(got.slope));
        eitp__rolling_add(&rolling, 3, NAN);
    }
    eitp__rolling_add(&rolling, 3, 4);
    got = eitp__rolling_summarize(&rolling);
    CHECK(got.count == 1 && got.mean == 4 && got.deviation == 0 && got.median_deviation == 0 && isnan(got.slope));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(trends_are_those_of_scipy),
        TEST(x_may_be_left_out),
        TEST(elapsed_time_is_not_a_slowdown),
        TEST(noise_is_rarely_a_trend),
        TEST(a_trend_is_found),
        TEST(outliers_do_not_matter),
        TEST(what_is_no_series_is_refused),
        TEST(the_last_values_are_summarized),
        TEST(values_that_are_not_finite_are_left_out),
        TEST(as_many_values_as_fit_are_summarized),
        TEST(no_values_have_no_summary),
    };
    return RUN_TESTS(tests, argc, argv);
}
