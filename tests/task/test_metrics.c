/* Metrics over whole evaluations, compared with scikit-learn (tools/golden/make_metrics.py), and their standard
   errors. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { SAMPLES = 211, MOST_LABELS = 6 };

typedef struct expected {
    eitp_problem problem;
    int labels;
    const char *name;
    double value;
} expected;

static const expected golden[] = {
#include "tests/golden/metrics/expected.txt"
};

/* Formulas from tools/golden/make_metrics.py. */
static float score(int64_t i, int64_t k) {
    return (float)((i * 37 + k * 91 + i * i * (k + 3) * 13) % 64) / 16 - 2;
}

static int32_t true_label(int64_t i, int64_t labels) {
    int64_t best = 0;
    for (int64_t k = 1; k < labels; k++)
        best = score(i, k) > score(i, best) ? k : best;
    return (int32_t)(i % 3 ? best : i * 5 / 3 % labels);
}

static float target(eitp_problem problem, int64_t i, int64_t k, int64_t labels) {
    if (problem == EITP_PROBLEM_REGRESSION)
        return score(i, k) / 2 + (float)(i % 5) / 4;
    return k < labels - 1 && (score(i, k) > 0) != ((i + k) % 4 == 0);
}

/* Evaluates `samples` samples, each `times` times, in a block of exactly the required size. */
static void judge(eitp_problem problem, int64_t labels, int64_t samples, int times, eitp_metric *results) {
    const size_t bytes = eitp__outcomes_bytes(problem, labels, (uint64_t)(samples * times));
    void *memory = malloc(bytes);
    const int64_t present = labels - (labels > 2);
    eitp__outcomes *outcomes;
    REQUIRE(memory);
    outcomes = eitp__outcomes_init(memory, problem, labels, (uint64_t)(samples * times));
    for (int64_t i = 0; i < samples * times; i++) {
        const int single = problem == EITP_PROBLEM_SINGLE_LABEL;
        float scores[MOST_LABELS], targets[MOST_LABELS];
        for (int64_t k = 0; k < labels; k++) {
            scores[k] = single && k >= present ? -3 : score(i / times, k);
            targets[k] = target(problem, i / times, k, labels);
        }
        if (single)
            eitp__outcomes_add_label(outcomes, scores, true_label(i / times, present));
        else
            eitp__outcomes_add_targets(outcomes, scores, targets);
    }
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    free(memory);
}

static int find_metric(eitp_problem problem, const char *name) {
    eitp_task_metric metrics[EITP_MAX_TASK_METRICS];
    const int count = eitp__metrics_of(problem, 0, metrics);
    for (int m = 0; m < count; m++) {
        if (!strcmp(metrics[m].name, name))
            return m;
    }
    return -1;
}

static void metrics_are_those_of_scikit_learn(void) {
    int found = 0;
    for (size_t i = 0; i < EITP__COUNT(golden); i++) {
        const expected *e = &golden[i];
        eitp_metric results[EITP_MAX_TASK_METRICS];
        const int m = find_metric(e->problem, e->name);
        judge(e->problem, e->labels, SAMPLES, 1, results);
        CHECK_THAT(m >= 0 && fabs(results[m].mean - e->value) < 1e-6 && results[m].items == SAMPLES,
                   "%s of problem %d: %.9f, not %.9f", e->name, (int)e->problem, m < 0 ? 0 : results[m].mean, e->value);
        found += m >= 0;
    }
    for (int problem = EITP_PROBLEM_SINGLE_LABEL; problem <= EITP_PROBLEM_REGRESSION; problem++) {
        eitp_task_metric metrics[EITP_MAX_TASK_METRICS];
        found -= eitp__metrics_of((eitp_problem)problem, 0, metrics) * (problem == EITP_PROBLEM_SINGLE_LABEL ? 2 : 1);
    }
    CHECK(!found);
}

/* The standard error of accuracy is exact. The jackknife error of a mean is its standard error, and halves with four
   times the data. */
static void standard_errors_are_those_of_the_sample(void) {
    eitp_metric results[EITP_MAX_TASK_METRICS], more[EITP_MAX_TASK_METRICS];
    const int mse = find_metric(EITP_PROBLEM_REGRESSION, "mse");
    double mean = 0, squares = 0, p;
    judge(EITP_PROBLEM_SINGLE_LABEL, 2, SAMPLES, 1, results);
    p = results[find_metric(EITP_PROBLEM_SINGLE_LABEL, "accuracy")].mean;
    CHECK(fabs(results[0].error - sqrt(p * (1 - p) / SAMPLES)) < 1e-12);
    for (int m = 1; m < 8; m++) {
        judge(EITP_PROBLEM_SINGLE_LABEL, 2, SAMPLES, 1, results);
        judge(EITP_PROBLEM_SINGLE_LABEL, 2, SAMPLES, 4, more);
        CHECK_THAT(results[m].error > 0.2 * results[0].error && results[m].error < 5 * results[0].error,
                   "metric %d: %g", m, results[m].error);
        CHECK_THAT(more[m].error > 0.25 * results[m].error && more[m].error < 0.9 * results[m].error,
                   "metric %d: %g of %g", m, more[m].error, results[m].error);
    }
    judge(EITP_PROBLEM_REGRESSION, 1, SAMPLES, 1, results);
    for (int64_t i = 0; i < SAMPLES; i++) {
        const double d = (double)score(i, 0) - (double)target(EITP_PROBLEM_REGRESSION, i, 0, 1);
        squares += d * d * d * d / SAMPLES;
        mean += d * d / SAMPLES;
    }
    CHECK(fabs(results[mse].mean - mean) < 1e-12);
    CHECK_THAT(fabs(results[mse].error / sqrt((squares - mean * mean) / SAMPLES) - 1) < 0.35, "%g", results[mse].error);
    /* With one sample in each group, the jackknife error of a mean is exactly its standard error. */
    mean = squares = 0;
    judge(EITP_PROBLEM_REGRESSION, 1, 40, 1, results);
    for (int64_t i = 0; i < 40; i++) {
        const double d = (double)score(i, 0) - (double)target(EITP_PROBLEM_REGRESSION, i, 0, 1);
        squares += d * d * d * d / 40;
        mean += d * d / 40;
    }
    CHECK(fabs(results[mse].error - sqrt((squares - mean * mean) / 39)) < 1e-9);
}

/* Undefined metrics and non-finite scores give NaN. Such an evaluation is never the best. */
static void undefined_metrics_are_nan(void) {
    const float certain[2] = {9000, -9000}, nan[2] = {NAN, 1};
    const int auroc = find_metric(EITP_PROBLEM_SINGLE_LABEL, "auroc");
    eitp_metric results[EITP_MAX_TASK_METRICS];
    void *memory = malloc(eitp__outcomes_bytes(EITP_PROBLEM_SINGLE_LABEL, 2, 3));
    eitp__outcomes *outcomes = eitp__outcomes_init(memory, EITP_PROBLEM_SINGLE_LABEL, 2, 3);
    for (int i = 0; i < 2; i++)
        eitp__outcomes_add_label(outcomes, certain, 0);
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    CHECK(isnan(results[auroc].mean) && results[0].mean >= 1 && results[0].error <= 0);
    CHECK(results[find_metric(EITP_PROBLEM_SINGLE_LABEL, "mcc")].mean <= 0);
    CHECK(results[find_metric(EITP_PROBLEM_SINGLE_LABEL, "calibration_error")].mean < 1e-9);
    eitp__outcomes_add_label(outcomes, nan, 1);
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    for (int m = 0; m < 8; m++)
        CHECK(isnan(results[m].mean));
    outcomes = eitp__outcomes_init(memory, EITP_PROBLEM_SINGLE_LABEL, 2, 3);
    eitp__outcomes_end(outcomes);
    eitp__compute_metrics(outcomes, results);
    CHECK(isnan(results[0].mean) && !results[0].items);
    free(memory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(metrics_are_those_of_scikit_learn),
        TEST(standard_errors_are_those_of_the_sample),
        TEST(undefined_metrics_are_nan),
    };
    return RUN_TESTS(tests, argc, argv);
}
