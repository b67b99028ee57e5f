/* Eigenvalues of matrices with known eigenvalues, and power laws fitted to samples from a power law. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { MOST = 60 };

static double uniform(uint64_t index) {
    return eitp__random_uniform(1, 0, 77, index);
}

/* The eigenvalues have the matrix's trace, and their squares have the trace of its square. */
static void check_sums(const double *matrix, int64_t n, const double *values) {
    double trace = 0, squares = 0, sum = 0, sum_of_squares = 0;
    for (int64_t i = 0; i < n; i++) {
        trace += matrix[i * n + i];
        sum += values[i];
        sum_of_squares += values[i] * values[i];
        for (int64_t j = 0; j < n; j++)
            squares += matrix[i * n + j] * matrix[i * n + j];
        CHECK(!i || values[i] >= values[i - 1]);
    }
    CHECK_THAT(fabs(trace - sum) < 1e-10 * (1 + fabs(trace)), "%.17g is not %.17g", sum, trace);
    CHECK_THAT(fabs(squares - sum_of_squares) < 1e-10 * (1 + squares), "%.17g is not %.17g", sum_of_squares, squares);
}

/* det(A - value) by Gaussian elimination, relative to the product of the pivots' sizes for a shifted value. */
static double determinant(const double *matrix, int64_t n, double value) {
    double a[MOST * MOST], product = 1;
    for (int64_t i = 0; i < n * n; i++)
        a[i] = matrix[i] - (i / n == i % n ? value : 0);
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            pivot = fabs(a[i * n + k]) > fabs(a[pivot * n + k]) ? i : pivot;
        for (int64_t j = 0; j < n && pivot != k; j++) {
            const double swapped = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = -swapped;
        }
        product *= a[k * n + k];
        for (int64_t i = k + 1; i < n && a[k * n + k] != 0; i++) {
            const double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return product;
}

static void eigenvalues_of_random_matrices(void) {
    static const int64_t sizes[] = {1, 2, 3, 7};
    for (size_t s = 0; s < EITP__COUNT(sizes); s++) {
        const int64_t n = sizes[s];
        double matrix[MOST * MOST] = EITP__ZERO, copy[MOST * MOST], values[MOST], work[3 * MOST];
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j <= i; j++)
                matrix[i * n + j] = matrix[j * n + i] = uniform((uint64_t)(i * 100 + j)) - 0.3;
        }
        memcpy(copy, matrix, sizeof copy);
        REQUIRE(eitp__symmetric_eigenvalues(copy, n, values, work));
        check_sums(matrix, n, values);
        for (int64_t k = 0; k < n; k++) {
            const double at = determinant(matrix, n, values[k]), beside = determinant(matrix, n, values[k] + 0.01);
            CHECK_THAT(fabs(at) < 1e-9 * fabs(beside) + 1e-15, "%lld of %lld: %g, next to it %g", (long long)k,
                       (long long)n, at, beside);
        }
    }
}

/* The second difference on n points: 2 - 2 cos(k pi / (n + 1)). */
static void eigenvalues_of_the_second_difference(void) {
    double matrix[MOST * MOST] = EITP__ZERO, values[MOST], work[3 * MOST];
    const double pi = acos(-1.0);
    for (int64_t i = 0; i < MOST; i++) {
        matrix[i * MOST + i] = 2;
        if (i)
            matrix[i * MOST + i - 1] = -1;
    }
    REQUIRE(eitp__symmetric_eigenvalues(matrix, MOST, values, work));
    for (int k = 0; k < MOST; k++)
        CHECK_THAT(fabs(values[k] - 2 + 2 * cos((k + 1) * pi / (MOST + 1))) < 1e-13, "%d: %.17g", k, values[k]);
}

/* Matrices of rank 1, with multiple eigenvalues, zero, huge, and tiny. */
static void eigenvalues_at_the_edges(void) {
    static const double scales[] = {1, 1e150, 1e-150, 0};
    for (size_t s = 0; s < EITP__COUNT(scales); s++) {
        double matrix[25], values[5], work[15];
        for (int i = 0; i < 25; i++)
            matrix[i] = scales[s];
        REQUIRE(eitp__symmetric_eigenvalues(matrix, 5, values, work));
        for (int i = 0; i < 5; i++)
            CHECK_THAT(fabs(values[i] - (i < 4 ? 0 : 5 * scales[s])) <= 1e-14 * scales[s], "%g", values[i]);
    }
    {
        double matrix[4] = {1, 0, (double)NAN, 1}, values[2], work[6];
        CHECK(!eitp__symmetric_eigenvalues(matrix, 2, values, work));
    }
}

/* Quantiles of a power law with exponent alpha starting at 3, and `body` values below that follow no law. */
static void fill(double *values, int64_t body, int64_t tail, double alpha) {
    for (int64_t i = 0; i < body; i++)
        values[i] = 3 * (double)(i + 1) / (double)(body + 1);
    for (int64_t i = 0; i < tail; i++)
        values[body + i] = 3 * pow(1 - ((double)i + 0.5) / (double)tail, -1 / (alpha - 1));
}

static void exponents_of_power_laws(void) {
    static const double alphas[] = {1.8, 2.5, 4};
    static double values[2000];
    for (size_t i = 0; i < EITP__COUNT(alphas); i++) {
        eitp__power_law law;
        fill(values, 0, 2000, alphas[i]);
        REQUIRE(eitp__power_law_fit(values, 2000, &law));
        CHECK_THAT(fabs(law.alpha - alphas[i]) < 0.02 * alphas[i], "%g is not %g", law.alpha, alphas[i]);
        CHECK_THAT(law.distance < 0.01 && law.tail > 1000, "%g, %lld", law.distance, (long long)law.tail);
        fill(values, 500, 1500, alphas[i]);
        REQUIRE(eitp__power_law_fit(values, 2000, &law));
        CHECK_THAT(fabs(law.alpha - alphas[i]) < 0.03 * alphas[i], "%g is not %g", law.alpha, alphas[i]);
        CHECK_THAT(law.tail <= 1550 && law.tail > 1000, "the tail starts at %g", law.smallest);
    }
}

/* The maximum-likelihood exponent of a tail with a known sum of logarithms. */
static void exponent_is_the_maximum_of_the_likelihood(void) {
    double values[EITP__POWER_LAW_TAIL], sum = 0;
    eitp__power_law law;
    for (int i = 0; i < EITP__POWER_LAW_TAIL; i++) {
        values[i] = 1 + (double)i * i;
        sum += log(values[i]);
    }
    REQUIRE(eitp__power_law_fit(values, EITP__POWER_LAW_TAIL, &law));
    CHECK_THAT(fabs(law.alpha - 1 - EITP__POWER_LAW_TAIL / sum) < 1e-12, "%.17g", law.alpha);
    CHECK(law.tail == EITP__POWER_LAW_TAIL && law.smallest == values[0] && law.distance > 0 && law.distance < 1);
}

static void no_law_is_fitted_to_what_has_none(void) {
    double values[20] = EITP__ZERO;
    eitp__power_law law;
    CHECK(!eitp__power_law_fit(values, 0, &law) && !eitp__power_law_fit(values, 20, &law));
    for (int i = 0; i < 20; i++)
        values[i] = 5;
    CHECK(!eitp__power_law_fit(values, 20, &law));
    for (int i = 0; i < 20; i++)
        values[i] = i - 12; /* too few are positive */
    CHECK(!eitp__power_law_fit(values, 20, &law));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(eigenvalues_of_random_matrices),    TEST(eigenvalues_of_the_second_difference),
        TEST(eigenvalues_at_the_edges),          TEST(exponents_of_power_laws),
        TEST(no_law_is_fitted_to_what_has_none), TEST(exponent_is_the_maximum_of_the_likelihood),
    };
    return RUN_TESTS(tests, argc, argv);
}
