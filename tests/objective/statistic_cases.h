/*
 * Group statistics by name, each with a naive function in double that follows the definition, and groups of rows to
 * test them on.
 */
#ifndef EITP_TEST_STATISTIC_CASES_H
#define EITP_TEST_STATISTIC_CASES_H

#include "tests/support/graphs.h"

#include <math.h>

/* The rows of one group, n x c. */
typedef struct cloud {
    const double *x;
    int64_t n, c;
} cloud;

typedef struct statistic {
    const char *name;
    eitp_tensor *(*make)(eitp_tensor *x, eitp_tensor *mask);
    double (*naive)(const cloud *rows);
    int64_t factor; /* the number of channels is a multiple of it */
} statistic;

/* ---- Naive definitions ---- */

/* The mean product of two centred channels. */
static double naive_covariance(const cloud *r, int64_t i, int64_t j) {
    double mi = 0, mj = 0, sum = 0;
    for (int64_t t = 0; t < r->n; t++) {
        mi += r->x[t * r->c + i] / (double)r->n;
        mj += r->x[t * r->c + j] / (double)r->n;
    }
    for (int64_t t = 0; t < r->n; t++)
        sum += (r->x[t * r->c + i] - mi) * (r->x[t * r->c + j] - mj) / (double)r->n;
    return sum;
}

static double naive_participation_ratio(const cloud *r) {
    double trace = 0, squares = 0;
    for (int64_t i = 0; i < r->c && r->n > 1; i++)
        for (int64_t j = 0; j < r->c; j++) {
            const double cij = naive_covariance(r, i, j);
            trace += i == j ? cij : 0;
            squares += cij * cij;
        }
    return squares > 0 ? trace * trace / squares : 0;
}

/* By Gaussian elimination. */
static double naive_logdet(double *a, int64_t m) {
    double sum = 0;
    for (int64_t k = 0; k < m; k++) {
        sum += log(a[k * m + k]);
        for (int64_t i = k + 1; i < m; i++)
            for (int64_t j = m - 1; j >= k; j--)
                a[i * m + j] -= a[i * m + k] / a[k * m + k] * a[k * m + j];
    }
    return sum;
}

static double naive_coding_rate(const cloud *r) {
    double *a = (double *)calloc((size_t)(r->c * r->c), sizeof *a), rate;
    for (int64_t i = 0; i < r->c; i++)
        for (int64_t j = 0; j < r->c; j++)
            a[i * r->c + j] = (i == j) + (r->n ? (double)r->c / 0.5 * naive_covariance(r, i, j) : 0);
    rate = naive_logdet(a, r->c) / 2;
    free(a);
    return rate;
}

static double naive_coding_rate_by_row(const cloud *r) {
    return r->n ? naive_coding_rate(r) / (double)r->n : 0;
}

static double naive_variance(const cloud *r) {
    double sum = 0;
    for (int64_t i = 0; i < r->c && r->n > 1; i++)
        for (int64_t j = 0; j < r->c; j++) {
            const double cij = naive_covariance(r, i, j);
            sum += i == j ? fmax(0, 1.5 - sqrt(cij + 1e-4)) / (double)r->c : cij * cij / (double)r->c;
        }
    return sum;
}

static double naive_balance(const cloud *r) {
    double mean = 0;
    for (int64_t i = 0; i < r->c; i++)
        mean += r->n ? naive_covariance(r, i, i) / (double)r->c : 0;
    return r->n > 1 ? pow(0.5 * log(fmax(mean, 1e-12)) - 0.25, 2) : 0;
}

/* CKA compares the states with their squares. */
static double naive_cka(const cloud *r) {
    double *both = (double *)calloc((size_t)(r->n * r->c * 2 + 1), sizeof *both), xy = 0, xx = 0, yy = 0;
    cloud joined;
    joined.x = both;
    joined.n = r->n;
    joined.c = 2 * r->c;
    for (int64_t i = 0; i < r->n * r->c; i++) {
        const int64_t at = i / r->c * joined.c + i % r->c;
        both[at] = r->x[i];
        both[at + r->c] = r->x[i] * r->x[i];
    }
    for (int64_t i = 0; i < r->c && r->n > 1; i++)
        for (int64_t j = 0; j < r->c; j++) {
            xy += pow(naive_covariance(&joined, i, r->c + j), 2);
            xx += pow(naive_covariance(&joined, i, j), 2);
            yy += pow(naive_covariance(&joined, r->c + i, r->c + j), 2);
        }
    free(both);
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static double naive_cosine(const cloud *r, int64_t i, int64_t j) {
    double ij = 0, ii = 0, jj = 0;
    for (int64_t k = 0; k < r->c; k++) {
        ij += r->x[i * r->c + k] * r->x[j * r->c + k];
        ii += r->x[i * r->c + k] * r->x[i * r->c + k];
        jj += r->x[j * r->c + k] * r->x[j * r->c + k];
    }
    return ii > 0 && jj > 0 ? ij / sqrt(ii * jj) : 0;
}

static double naive_coherence(const cloud *r) {
    double near = 0, all = 0;
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t j = 0; j < r->n; j++) {
            near += j == i + 1 ? naive_cosine(r, i, j) : 0;
            all += j != i ? naive_cosine(r, i, j) : 0;
        }
    return r->n > 1 ? near / (double)(r->n - 1) - all / (double)(r->n * (r->n - 1)) : 0;
}

static double naive_contrast(const cloud *r) {
    static const int64_t offsets[] = {1, 2, 4};
    double sum = 0, pairs = 0;
    for (int64_t t = 0; t < r->n; t++)
        for (int i = 0; i < 3; i++) {
            const double own = t + offsets[i] < r->n ? naive_cosine(r, t, t + offsets[i]) / 0.5 : 0;
            double candidates = exp(own);
            int count = 0;
            for (int64_t j = 0; j < r->n; j++)
                if (llabs(t - j) > 8) {
                    candidates += exp(naive_cosine(r, t, j) / 0.5);
                    count++;
                }
            if (count && t + offsets[i] < r->n) {
                sum += log(candidates) - own;
                pairs++;
            }
        }
    return pairs > 0 ? sum / pairs : 0;
}

/* The mean over two heads and all rows of f(entropy / ln(visible rows)). With a window, both heads share one head of
   keys. */
static double naive_attention(const cloud *r, int bidirectional, int64_t window, double (*f)(double ratio)) {
    const int64_t d = r->c / (window ? 3 : 4);
    double total = 0, count = 0;
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t head = 0; head < 2; head++) {
            const int64_t first = window && i >= window ? i + 1 - window : 0;
            const int64_t end = bidirectional ? r->n : i + 1, visible = end - first;
            double z = 0, mean = 0;
            for (int64_t j = first; j < end; j++) {
                const double *query = r->x + i * r->c + head * d, *key = r->x + j * r->c + (window ? 2 : 2 + head) * d;
                double score = 0;
                for (int64_t k = 0; k < d; k++)
                    score += 0.7 * query[k] * key[k];
                z += exp(score);
                mean += score * exp(score);
            }
            if (visible > 1) {
                total += f((log(z) - mean / z) / log((double)visible));
                count++;
            }
        }
    return count > 0 ? total / count : 0;
}

static double naive_ratio(double ratio) {
    return ratio;
}

static double naive_floor(double ratio) {
    return pow(fmax(0, 0.8 - ratio), 2);
}

static double naive_causal(const cloud *r) {
    return naive_attention(r, 0, 0, naive_ratio);
}

static double naive_bidirectional(const cloud *r) {
    return naive_attention(r, 1, 0, naive_ratio);
}

static double naive_causal_floor(const cloud *r) {
    return naive_attention(r, 0, 0, naive_floor);
}

static double naive_windowed(const cloud *r) {
    return naive_attention(r, 0, 3, naive_ratio);
}

/* ---- Graphs ---- */

static eitp_tensor *make_coding_rate(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_coding_rate(x, mask, 0.5, 0);
}

static eitp_tensor *make_coding_rate_by_row(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_coding_rate(x, mask, 0.5, 1);
}

static eitp_tensor *make_variance(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_variance(x, mask, 1.5);
}

static eitp_tensor *make_balance(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_balance(x, mask, 0.25);
}

static eitp_tensor *make_cka(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_cka(x, eitp_multiply(x, x), mask);
}

/* Uses keys that have a gradient, like the differences. */
static eitp_tensor *make_contrast(eitp_tensor *x, eitp_tensor *mask) {
    return eitp__stat_contrast(x, x, mask, 0.5);
}

static eitp_tensor *make_attention(eitp_tensor *x, eitp_tensor *mask, int bidirectional, int64_t window,
                                   int is_penalty) {
    eitp__attention_shape shape;
    eitp_tensor *entropy, *penalty;
    shape.heads = 2;
    shape.key_heads = window ? 1 : 2;
    shape.sliding_window = window;
    shape.scale = 0.7;
    shape.bidirectional = bidirectional;
    eitp__stat_attention(x, mask, &shape, 0.8, &entropy, &penalty);
    return is_penalty ? penalty : entropy;
}

static eitp_tensor *make_causal(eitp_tensor *x, eitp_tensor *mask) {
    return make_attention(x, mask, 0, 0, 0);
}

static eitp_tensor *make_bidirectional(eitp_tensor *x, eitp_tensor *mask) {
    return make_attention(x, mask, 1, 0, 0);
}

static eitp_tensor *make_causal_floor(eitp_tensor *x, eitp_tensor *mask) {
    return make_attention(x, mask, 0, 0, 1);
}

static eitp_tensor *make_windowed(eitp_tensor *x, eitp_tensor *mask) {
    return make_attention(x, mask, 0, 3, 0);
}

static const statistic statistics[] = {
    {"participation ratio", eitp__stat_participation_ratio, naive_participation_ratio, 1},
    {"coding rate", make_coding_rate, naive_coding_rate, 1},
    {"coding rate by row", make_coding_rate_by_row, naive_coding_rate_by_row, 1},
    {"variance", make_variance, naive_variance, 1},
    {"balance", make_balance, naive_balance, 1},
    {"cka", make_cka, naive_cka, 1},
    {"coherence", eitp__stat_coherence, naive_coherence, 1},
    {"contrast", make_contrast, naive_contrast, 1},
    {"causal attention", make_causal, naive_causal, 4},
    {"bidirectional attention", make_bidirectional, naive_bidirectional, 4},
    {"attention below its floor", make_causal_floor, naive_causal_floor, 4},
    {"windowed attention", make_windowed, naive_windowed, 3},
};

enum { STATISTICS = sizeof statistics / sizeof statistics[0] };

/* ---- Groups of rows ---- */

/* A group statistic in a graph, with the gradient of the weighted sum of its values. */
typedef struct trial {
    build b;
    eitp_plan *plan;
    int64_t groups, rows, channels;
    int64_t counts[8]; /* number of rows in use in each group */
    eitp_tensor *x, *values, *gradient;
} trial;

/* Number of rows in use in group g of several: all, some, or none. */
static int64_t rows_in_use(int64_t g, int64_t groups, int64_t rows) {
    return groups == 1 || g == 0 ? rows : g == 1 ? (rows + 1) / 2 : g == 2 ? 0 : rows > 1 ? rows - 1 : 1;
}

/* Adds x and the mask. Rows in use have random values, the others 0. */
static void add_groups(trial *t, int64_t groups, int64_t rows, int64_t channels, eitp_dtype x_dtype,
                       eitp_tensor **mask) {
    int64_t shape[3];
    array *x, *used;
    shape[0] = t->groups = groups;
    shape[1] = t->rows = rows;
    shape[2] = t->channels = channels;
    x = new_array(&t->b, 3, shape);
    used = new_array(&t->b, 2, shape);
    for (int64_t g = 0; g < groups; g++) {
        t->counts[g] = rows_in_use(g, groups, rows);
        for (int64_t i = 0; i < t->counts[g]; i++)
            used->data[g * rows + i] = 1;
        for (int64_t i = 0; i < t->counts[g] * channels; i++)
            x->data[g * rows * channels + i] = (double)(float)(2 * draw(&t->b.random) - 1);
    }
    t->x = add_leaf(&t->b, x_dtype, x);
    *mask = add_leaf(&t->b, t->b.dtype, used);
}

static array *values_to_change(trial *t) {
    return t->b.values[0];
}

/* Returns 0 on failure. trial_end must be called in any case. x may have a narrower dtype than the statistic. */
static int trial_begin_in(trial *t, const statistic *s, eitp_context *context, eitp_dtype dtype, eitp_dtype x_dtype,
                          int64_t groups, int64_t rows, int64_t channels) {
    static const double weights[8] = {1, -0.75, 0.5, 1.25, -1, 0.25, 1, 1};
    eitp_error error = EITP__ZERO;
    eitp_tensor *mask, *seed;
    memset(t, 0, sizeof *t);
    build_begin(&t->b, context, dtype, 1);
    add_groups(t, groups, rows, channels * s->factor, x_dtype, &mask);
    t->values = eitp_output(s->make(t->x, mask));
    seed = given(&t->b, dtype, groups, weights);
    CHECK_THAT(eitp_gradients(t->values, seed, 1, &t->x, &t->gradient, &error) == EITP_OK, "%s: %s", s->name,
               error.message);
    eitp_output(t->gradient);
    CHECK_THAT(eitp_plan_create(t->b.graph, &t->plan, &error) == EITP_OK, "%s: %s", s->name, error.message);
    return t->plan != NULL;
}

static int trial_begin(trial *t, const statistic *s, eitp_context *context, eitp_dtype dtype, int64_t groups,
                       int64_t rows, int64_t channels) {
    return trial_begin_in(t, s, context, dtype, dtype, groups, rows, channels);
}

static void trial_end(trial *t) {
    eitp_plan_destroy(t->plan);
    build_end(&t->b);
}

#endif
