/* Calibration and ranking of predictions compared with naive counts and the metrics of classifiers; n-grams of token
   sequences. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { COUNT = 700 };

/* Predictions that are right with probability 0.3 + half of their confidence. Confidences have few values, so there
   are ties. */
static void fill(eitp__judged *all) {
    for (int i = 0; i < COUNT; i++) {
        const double confidence = ceil(40 * eitp__random_uniform(5, 0, 79, (uint64_t)i)) / 40;
        all[i].confidence = (float)confidence;
        all[i].is_right = eitp__random_uniform(5, 1, 79, (uint64_t)i) < 0.3 + confidence / 2;
        all[i].group = (int16_t)(i % 10);
    }
}

/* Returns the fraction of pairs of a right and a wrong prediction in which the right one is more confident. */
static double naive_area(const eitp__judged *all, int left_out) {
    double wins = 0, pairs = 0;
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            if (!all[i].is_right || all[j].is_right || all[i].group == left_out || all[j].group == left_out)
                continue;
            pairs++;
            wins += all[i].confidence > all[j].confidence ? 1 : all[i].confidence < all[j].confidence ? 0 : 0.5;
        }
    }
    return wins / pairs;
}

static void area_is_the_share_of_pairs(void) {
    eitp__judged all[COUNT];
    eitp__judged_result area;
    double mean = 0, squares = 0, without[10];
    fill(all);
    for (int group = 0; group < 10; group++) {
        without[group] = naive_area(all, group);
        mean += without[group] / 10;
    }
    for (int group = 0; group < 10; group++)
        squares += (without[group] - mean) * (without[group] - mean);
    eitp__judged_sort(all, COUNT);
    area = eitp__judged_area(all, COUNT);
    CHECK_THAT(fabs(area.value - naive_area(all, -1)) < 1e-12, "%g", area.value);
    CHECK_THAT(fabs(area.error - sqrt(0.9 * squares)) < 1e-12 && area.error > 0, "%g", area.error);
    for (int i = 0; i < COUNT; i++)
        all[i].is_right = 1;
    CHECK(isnan(eitp__judged_area(all, COUNT).value) && isnan(eitp__judged_area(all, 0).value));
}

/* Equals calibration_error of a classifier with two labels and the same confidences, which are at least 1/2. */
static void calibration_is_that_of_classifiers(void) {
    eitp__judged all[COUNT];
    float scores[2 * COUNT];
    int32_t is_true[COUNT], predicted[COUNT];
    double values[1 + EITP__GROUPS];
    unsigned char groups[COUNT] = EITP__ZERO;
    eitp__outcomes outcomes = EITP__ZERO;
    eitp__judged_result found;
    fill(all);
    for (int i = 0; i < COUNT; i++) {
        const double confidence = 0.503 + 0.49 * (double)all[i].confidence;
        const double odds = log(confidence / (1 - confidence));
        scores[2 * i] = (float)odds;
        scores[2 * i + 1] = (float)-odds;
        all[i].confidence = (float)(1 / (1 + exp(-(double)scores[2 * i])));
        predicted[i] = 0;
        is_true[i] = all[i].is_right ? 0 : 1;
    }
    outcomes.count = COUNT;
    outcomes.labels = 2;
    outcomes.scores = scores;
    outcomes.predicted = predicted;
    outcomes.is_true = is_true;
    outcomes.groups = groups;
    eitp__calibration_error(&outcomes, values);
    found = eitp__judged_calibration(all, COUNT);
    CHECK_THAT(fabs(found.value - values[0]) < 1e-6 && found.value > 0.01, "%g is not %g", found.value, values[0]);
    CHECK(found.error > 0 && found.error < 0.1);
}

static void calibration_at_the_edges(void) {
    const eitp__judged last[2] = {{0.9f, 0, 1}, {0.97f, 0, 0}};
    eitp__judged all[4] = {{0, 0, 0}, {1, 1, 1}, {1.0000001f, 2, 1}, {0.5f, 3, 1}};
    CHECK(fabs(eitp__judged_calibration(all, 3).value) < 1e-6);
    CHECK(fabs(eitp__judged_calibration(all, 4).value - 0.125) < 1e-6);
    /* The two are in different bins, so their errors do not cancel. */
    CHECK(fabs(eitp__judged_calibration(last, 2).value - (0.97 + 0.1) / 2) < 1e-6);
    CHECK(isnan(eitp__judged_calibration(all, 0).value) && eitp__judged_calibration(all, 0).error == 0);
    CHECK(eitp__judged_calibration(all, 1).error == 0);
}

static void distinct_ngrams_are_counted_once(void) {
    static const int32_t text[] = {1, 2, 1, 2, 1, 2, 3};
    CHECK(eitp__distinct_ngrams(text, 7, 1) == 3.0 / 7);
    CHECK(eitp__distinct_ngrams(text, 7, 2) == 3.0 / 6); /* 12, 21, 23 */
    CHECK(eitp__distinct_ngrams(text, 7, 4) == 3.0 / 4); /* 1212, 2121, 2123 */
    CHECK(eitp__distinct_ngrams(text, 1, 1) == 1);
    CHECK(isnan(eitp__distinct_ngrams(text, 3, 4)) && isnan(eitp__distinct_ngrams(text, 0, 1)));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(area_is_the_share_of_pairs),
        TEST(calibration_is_that_of_classifiers),
        TEST(calibration_at_the_edges),
        TEST(distinct_ngrams_are_counted_once),
    };
    return RUN_TESTS(tests, argc, argv);
}
