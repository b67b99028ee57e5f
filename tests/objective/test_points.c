/* Statistics of point clouds with known dimension, and comparisons with naive sums. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { POINTS = 900, WIDTH = 12 };

static float rows[POINTS * WIDTH];
static double distances[POINTS * POINTS], sorted[POINTS * POINTS / 2];

static double uniform(uint64_t index) {
    return eitp__random_uniform(3, 0, 78, index);
}

/* Points distributed uniformly in a cube of `dimension` dimensions, mapped to all of WIDTH by a matrix with
   orthogonal columns, from the discrete cosine transform. */
static void fill_cube(int64_t dimension) {
    const double pi = acos(-1.0);
    for (int64_t i = 0; i < POINTS; i++) {
        for (int64_t c = 0; c < WIDTH; c++) {
            double sum = 7;
            for (int64_t d = 0; d < dimension; d++)
                sum += uniform((uint64_t)(i * 16 + d)) * cos(pi * (double)(d + 1) * ((double)c + 0.5) / WIDTH);
            rows[i * WIDTH + c] = (float)sum;
        }
    }
}

static void dimensions_of_cubes(void) {
    static const int64_t dimensions[] = {1, 2, 5};
    static const double tolerances[] = {0.08, 0.08, 0.12}; /* edges lower the dimension of a cube */
    for (size_t i = 0; i < EITP__COUNT(dimensions); i++) {
        const double due = (double)dimensions[i];
        eitp__correlation_dimension d2;
        double two_nn;
        fill_cube(dimensions[i]);
        eitp__points_distances(rows, POINTS, WIDTH, distances);
        two_nn = eitp__points_two_nn(distances, POINTS);
        CHECK_THAT(fabs(two_nn - due) < tolerances[i] * due, "TwoNN: %g is not %g", two_nn, due);
        d2 = eitp__points_correlation_dimension(distances, POINTS, sorted);
        CHECK_THAT(fabs(d2.dimension - due) < 2.2 * tolerances[i] * due, "D2: %g is not %g", d2.dimension, due);
        CHECK_THAT(d2.r2 > 0.99 && d2.r2 <= 1, "R2 %g", d2.r2);
    }
}

/* r2 / r1 is 3 and 1.5 for the outer points of a line and 2 for the inner one. Points with ties are ignored. */
static void two_nn_by_hand(void) {
    const float line[] = {0, 1, 3}, ties[] = {0, 1, 2}, same[] = {4, 4, 4};
    double d[9];
    eitp__points_distances(line, 3, 1, d);
    CHECK(fabs(eitp__points_two_nn(d, 3) - 3 / (log(3.0) + log(2.0) + log(1.5))) < 1e-12);
    eitp__points_distances(ties, 3, 1, d); /* the middle point has a tie */
    CHECK(fabs(eitp__points_two_nn(d, 3) - 2 / (2 * log(2.0))) < 1e-12);
    eitp__points_distances(same, 3, 1, d);
    CHECK(isnan(eitp__points_two_nn(d, 3)));
    CHECK(isnan(eitp__points_two_nn(d, 1)));
}

/* A slow curve: points near in time are near in space. Only the window keeps the curve from looking like a line. */
static void neighbours_in_time_are_left_out(void) {
    enum { N = 40 };
    double pairs = 0, d[N * N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            d[i * N + j] = abs(i - j) <= EITP__THEILER_WINDOW ? 1e-9 : 1 + fabs((double)(i - j)) / N;
            pairs += j < i - EITP__THEILER_WINDOW;
        }
    }
    {
        const eitp__correlation_dimension d2 = eitp__points_correlation_dimension(d, N, sorted);
        CHECK_THAT(sorted[0] > 1 && isfinite(d2.dimension), "%g, %g", sorted[0], d2.dimension);
        CHECK(pairs > 100 && sorted[(int)pairs - 1] >= sorted[0]);
    }
}

static void correlation_dimension_at_the_edges(void) {
    fill_cube(2);
    eitp__points_distances(rows, 20, WIDTH, distances);
    CHECK(isnan(eitp__points_correlation_dimension(distances, 20, sorted).dimension)); /* 66 pairs */
    memset(distances, 0, sizeof distances);
    CHECK(isnan(eitp__points_correlation_dimension(distances, 60, sorted).dimension));
    for (int i = 0; i < 60 * 60; i++)
        distances[i] = 1;
    CHECK(isnan(eitp__points_correlation_dimension(distances, 60, sorted).dimension));
}

/* ---- Products ---- */

enum { FEW = 15 };

/* (tr C)^2 / |C|^2 computed from the covariance matrix [WIDTH, WIDTH]. */
static double naive_ratio(double covariance[WIDTH * WIDTH]) {
    double trace = 0, squares = 0;
    for (int c = 0; c < WIDTH; c++) {
        double mean = 0;
        for (int i = 0; i < FEW; i++)
            mean += (double)rows[i * WIDTH + c] / FEW;
        for (int d = 0; d < WIDTH; d++) {
            double sum = 0;
            for (int i = 0; i < FEW; i++)
                sum += ((double)rows[i * WIDTH + c] - mean) * (double)rows[i * WIDTH + d] / FEW;
            covariance[c * WIDTH + d] = sum;
            squares += sum * sum;
        }
        trace += covariance[c * WIDTH + c];
    }
    return trace * trace / squares;
}

static void ratio_and_rate_match_the_covariance(void) {
    double mean[WIDTH], products[FEW * FEW], work[FEW * FEW], covariance[WIDTH * WIDTH], values[WIDTH], more[3 * WIDTH];
    double ratio, rate = 0, found;
    fill_cube(5);
    eitp__points_products(rows, FEW, WIDTH, mean, products);
    ratio = naive_ratio(covariance);
    found = eitp__points_participation_ratio(products, FEW);
    CHECK_THAT(fabs(found - ratio) < 1e-9, "%.12g is not %.12g", found, ratio);
    REQUIRE(eitp__symmetric_eigenvalues(covariance, WIDTH, values, more));
    for (int c = 0; c < WIDTH; c++)
        rate += 0.5 * log(1 + WIDTH / 0.5 * fmax(values[c], 0));
    found = eitp__points_coding_rate(products, FEW, WIDTH, 0.5, work);
    CHECK_THAT(fabs(found - rate) < 1e-9, "%.12g is not %.12g", found, rate);
}

/* Invariant to rotation, shift and scale. Constant points have no alignment. */
static void alignment_ignores_rotation_and_scale(void) {
    static float turned[FEW * 2], plane[FEW * 2], other[FEW * 2];
    double mean[2], a[FEW * FEW], b[FEW * FEW], c[FEW * FEW];
    for (int i = 0; i < FEW; i++) {
        const double x = uniform((uint64_t)i), y = uniform((uint64_t)i + 100);
        plane[2 * i] = (float)x;
        plane[2 * i + 1] = (float)y;
        turned[2 * i] = (float)(3 * (0.6 * x - 0.8 * y) + 5);
        turned[2 * i + 1] = (float)(3 * (0.8 * x + 0.6 * y));
        other[2 * i] = (float)uniform((uint64_t)i + 200);
    }
    eitp__points_products(plane, FEW, 2, mean, a);
    eitp__points_products(turned, FEW, 2, mean, b);
    eitp__points_products(other, FEW, 2, mean, c);
    CHECK(fabs(eitp__points_alignment(a, a, FEW) - 1) < 1e-12);
    CHECK(fabs(eitp__points_alignment(a, b, FEW) - 1) < 1e-6);
    CHECK(eitp__points_alignment(a, c, FEW) < 0.8);
    memset(b, 0, sizeof b);
    CHECK(isnan(eitp__points_alignment(a, b, FEW)) && isnan(eitp__points_participation_ratio(b, FEW)));
    CHECK(eitp__points_coding_rate(b, FEW, 2, 0.5, c) == 0);
}

static void cosine_of_neighbours(void) {
    double sum[WIDTH], near = 0, all = 0;
    fill_cube(5);
    for (int i = 0; i < FEW; i++) {
        for (int j = 0; j < FEW; j++) {
            double ij = 0, ii = 0, jj = 0;
            for (int c = 0; c < WIDTH; c++) {
                ij += (double)rows[i * WIDTH + c] * (double)rows[j * WIDTH + c];
                ii += (double)rows[i * WIDTH + c] * (double)rows[i * WIDTH + c];
                jj += (double)rows[j * WIDTH + c] * (double)rows[j * WIDTH + c];
            }
            near += j == i + 1 ? ij / sqrt(ii * jj) / (FEW - 1) : 0;
            all += j != i ? ij / sqrt(ii * jj) / (FEW * (FEW - 1)) : 0;
        }
    }
    CHECK(fabs(eitp__points_neighbour_cosine(rows, FEW, WIDTH, sum) - (near - all)) < 1e-12);
    CHECK(isnan(eitp__points_neighbour_cosine(rows, 2, WIDTH, sum)));
    memset(rows, 0, sizeof rows);
    CHECK(isnan(eitp__points_neighbour_cosine(rows, FEW, WIDTH, sum)));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(dimensions_of_cubes),
        TEST(two_nn_by_hand),
        TEST(neighbours_in_time_are_left_out),
        TEST(correlation_dimension_at_the_edges),
        TEST(ratio_and_rate_match_the_covariance),
        TEST(alignment_ignores_rotation_and_scale),
        TEST(cosine_of_neighbours),
    };
    return RUN_TESTS(tests, argc, argv);
}
