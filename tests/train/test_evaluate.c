/* Evaluation: means and standard errors of loss terms and metrics, compared with sums in double over all samples. */
#include "tests/support/own_task.h"

static eitp_error error;

/* The samples measured by an evaluation, in order. */
static uint64_t measured[OWN_SAMPLES];

/* Draws all samples of a split, or one from each of `count` strata whose sizes differ by at most one. */
static void draw(eitp_split split, int64_t count, uint64_t seed) {
    const int64_t total = split == EITP_TRAINING ? OWN_SAMPLES : OWN_VALIDATION;
    uint64_t first = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t length = (uint64_t)(total / count + (i < total % count));
        measured[i] = first + eitp__random_bits(seed, 0, EITP__RNG_STREAM_EVALUATE, (uint64_t)i) % length;
        first += length;
    }
}

/* A mean over items, and the spread of the means of samples. */
typedef struct naive_mean {
    double sum, mean, error;
    int64_t items;
} naive_mean;

static double size_of_rows(const own *o, eitp_split split, uint64_t number) {
    double sum = 0;
    for (int64_t row = 0; row < own_rows(o, split, number); row++)
        sum += fabs(own_predict(split, number, row));
    return sum;
}

/* The sum of a quantity over a sample. Quantities are numbered in the order of the task's build. */
static double naive_value(const own *o, eitp_split split, uint64_t number, int quantity) {
    switch (quantity) {
    case 1:
        return own_sample_loss(o, split, number);
    case 2:
        return size_of_rows(o, split, number);
    case 3:
        return fabs(own_guess(split, number));
    default:
        return own_row_loss(o, split, number);
    }
}

static int64_t naive_items(const own *o, eitp_split split, uint64_t number, int quantity) {
    if (quantity == 1)
        return own_label(o, number) >= 0;
    return quantity == 3 ? 1 : own_rows(o, split, number);
}

static double standard_error(const double *values, int64_t count) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        mean += values[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? sqrt(squares / (double)(count - 1) / (double)count) : 0;
}

static naive_mean naive(const own *o, eitp_split split, int64_t samples, int64_t at_a_time, int quantity) {
    naive_mean result = EITP__ZERO;
    double values[OWN_SAMPLES];
    int64_t count = 0;
    for (int64_t i = 0; i < samples; i++) {
        const int64_t items = naive_items(o, split, measured[i], quantity);
        const double sum = naive_value(o, split, measured[i], quantity);
        result.sum += sum;
        result.items += items;
        if (items)
            values[count++] = sum / (double)items;
    }
    result.mean = result.items ? result.sum / (double)result.items : 0;
    /* A number belongs to all samples of a pass together. */
    result.error = quantity == 4 && at_a_time > 1 ? 0 : standard_error(values, count);
    return result;
}

static double naive_loss_error(const own *o, eitp_split split, int64_t samples) {
    double losses[OWN_SAMPLES];
    for (int64_t i = 0; i < samples; i++)
        losses[i] = own_row_loss(o, split, measured[i]) / (double)own_rows(o, split, measured[i]) +
                    0.3 * own_sample_loss(o, split, measured[i]);
    return standard_error(losses, samples);
}

/* Checks an evaluation of `samples` drawn samples, `at_a_time` of them in a pass. */
static void check_evaluation(const own *o, eitp_split split, int64_t samples, int64_t at_a_time,
                             const eitp_evaluation *evaluation) {
    static const char *const names[] = {"row", "sample", "row size", "sample size", "total"};
    double loss = 0;
    CHECK(evaluation->term_count == 2 && evaluation->metric_count == 5);
    for (int q = 0; q < evaluation->metric_count; q++) {
        const eitp_metric *metric = &evaluation->metrics[q];
        const naive_mean expected = naive(o, split, samples, at_a_time, q);
        CHECK_THAT(!strcmp(metric->name, names[q]), "%s is not %s", metric->name, names[q]);
        CHECK_THAT(metric->items == expected.items, "%s: %d items", names[q], (int)metric->items);
        CHECK_THAT(own_near(metric->mean, expected.mean, 1e-6), "%s: %.9g is not %.9g", names[q], metric->mean,
                   expected.mean);
        CHECK_THAT(own_near(metric->error, expected.error, 1e-6), "%s: error %.9g is not %.9g", names[q], metric->error,
                   expected.error);
        loss += (q == 0 ? 1 : q == 1 ? 0.3 : 0) * expected.mean;
    }
    CHECK(own_near(evaluation->loss, loss, 1e-6) && evaluation->items == evaluation->metrics[0].items);
    CHECK_THAT(own_near(evaluation->error, naive_loss_error(o, split, samples), 1e-6), "error %.9g", evaluation->error);
}

static int begin(own *o, int parts) {
    const eitp_host host = eitp_host_default();
    eitp_status status = own_begin(o, &host, "fp32", parts, &error);
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

/* ---- Tests ---- */

static void means_and_errors_are_those_of_all_samples(void) {
    static const int64_t counts[] = {0, 1, 2, 5, OWN_VALIDATION, 1000};
    for (int varies = 0; varies < 2; varies++) {
        own o;
        REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE | OWN_METRICS));
        o.task.rows_vary = varies;
        o.config.batch_size = 3; /* the last batch has one sample */
        REQUIRE_OK(own_train(&o, &error), error);
        for (size_t i = 0; i < EITP__COUNT(counts); i++) {
            const int64_t samples = counts[i] && counts[i] < OWN_VALIDATION ? counts[i] : OWN_VALIDATION;
            eitp_evaluation evaluation;
            draw(EITP_VALIDATION, samples, o.config.seed);
            REQUIRE_OK(eitp_trainer_evaluate(o.trainer, counts[i], &evaluation, &error), error);
            check_evaluation(&o, EITP_VALIDATION, samples, 3, &evaluation);
        }
        own_end(&o);
    }
}

/* Different seeds draw different samples, each set spread over all validation data. One seed draws the same at every
   step. */
static void a_part_depends_on_the_seed_alone(void) {
    double losses[8];
    int different = 0;
    for (uint64_t seed = 0; seed < EITP__COUNT(losses); seed++) {
        own o;
        eitp_evaluation evaluation;
        REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE | OWN_METRICS));
        o.config.seed = seed;
        o.config.schedule.peak = 0;
        REQUIRE_OK(own_train(&o, &error), error);
        for (int times = 0; times < 2; times++) {
            draw(EITP_VALIDATION, 3, seed);
            CHECK(measured[0] < 3 && measured[1] > 2 && measured[1] < 5 && measured[2] > 4 && measured[2] < 7);
            REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 3, &evaluation, &error), error);
            check_evaluation(&o, EITP_VALIDATION, 3, o.config.batch_size, &evaluation);
        }
        losses[seed] = evaluation.loss;
        different += losses[seed] < losses[0] || losses[seed] > losses[0];
        own_end(&o);
    }
    CHECK(different > 4);
}

static void a_task_is_evaluated_without_a_trainer(void) {
    static const int64_t batch_sizes[] = {1, 4, 100};
    own o;
    eitp_evaluation evaluation;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE | OWN_METRICS));
    o.task.rows_vary = 1;
    REQUIRE_OK(own_train(&o, &error), error);
    for (size_t i = 0; i < EITP__COUNT(batch_sizes); i++) {
        REQUIRE_OK(eitp_evaluate(&o.task, EITP_TRAINING, batch_sizes[i], 0, &evaluation, &error), error);
        draw(EITP_TRAINING, OWN_SAMPLES, 0);
        check_evaluation(&o, EITP_TRAINING, OWN_SAMPLES, batch_sizes[i], &evaluation);
        REQUIRE_OK(eitp_evaluate(&o.task, EITP_VALIDATION, batch_sizes[i], 6, &evaluation, &error), error);
        draw(EITP_VALIDATION, 6, 0);
        check_evaluation(&o, EITP_VALIDATION, 6, batch_sizes[i], &evaluation);
    }
    CHECK(eitp_evaluate(&o.task, EITP_TRAINING, 0, 0, &evaluation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "batch_size"));
    CHECK(eitp_evaluate(&o.task, (eitp_split)2, 1, 0, &evaluation, &error) == EITP_ERROR_ARGUMENT);
    o.task.samples[EITP_VALIDATION] = 0;
    CHECK(eitp_evaluate(&o.task, EITP_VALIDATION, 1, 0, &evaluation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "no validation samples"));
    own_end(&o);
}

static void a_nan_of_one_sample_shows(void) {
    own o;
    eitp_evaluation evaluation;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE | OWN_METRICS));
    draw(EITP_VALIDATION, 4, o.config.seed);
    o.nan_sample = (int64_t)(measured[1] ^ 1); /* the other sample of its stratum: 2 and 3 */
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 0, &evaluation, &error), error);
    CHECK(isnan(evaluation.loss) && isnan(evaluation.error));
    CHECK(isnan(evaluation.metrics[0].mean) && isnan(evaluation.metrics[0].error) && isnan(evaluation.metrics[4].mean));
    CHECK(isfinite(evaluation.metrics[1].mean) && isfinite(evaluation.metrics[2].mean));
    REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 4, &evaluation, &error), error);
    CHECK(isfinite(evaluation.loss) && isfinite(evaluation.metrics[4].mean));
    own_end(&o);
}

/* A number belongs to no single sample, so the spread of samples is unknown. */
static void a_loss_with_a_number_has_no_error(void) {
    own o, rows;
    eitp_evaluation evaluation, expected;
    REQUIRE(begin(&o, OWN_NUMBER | OWN_SQUARES) && begin(&rows, OWN_ROW | OWN_SQUARES));
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(own_train(&rows, &error), error);
    REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 0, &evaluation, &error), error);
    REQUIRE_OK(eitp_trainer_evaluate(rows.trainer, 0, &expected, &error), error);
    CHECK(own_near(evaluation.loss, expected.loss, 1e-6) && expected.error > 0);
    CHECK_THAT(evaluation.error <= 0 && evaluation.metrics[0].error <= 0, "%g", evaluation.error);
    CHECK(evaluation.metrics[1].error > 0);
    own_end(&o);
    own_end(&rows);
}

/* Nothing was labelled: the term has no mean, and the loss is the other term's. */
static void a_term_without_items_is_zero(void) {
    own o;
    eitp_evaluation evaluation;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    o.unlabelled_before = 1000;
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 0, &evaluation, &error), error);
    CHECK(evaluation.metrics[1].items == 0 && evaluation.metrics[1].mean == 0 && evaluation.metrics[1].error == 0);
    CHECK(own_near(evaluation.loss, evaluation.metrics[0].mean, 1e-12));
    own_end(&o);
}

/* The weights of loss terms follow the last completed step. */
static void weights_are_those_of_the_last_step(void) {
    own o;
    eitp_evaluation evaluation;
    eitp_step_report report;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    o.weight.kind = EITP_SCHEDULE_LINEAR;
    o.weight.peak = 1;
    o.weight.steps = 4;
    REQUIRE_OK(own_train(&o, &error), error);
    for (int step = 0; step < 3; step++) {
        const double weight = eitp_schedule_rate(&o.weight, step ? step : 1);
        REQUIRE_OK(eitp_trainer_evaluate(o.trainer, 0, &evaluation, &error), error);
        CHECK(own_near(evaluation.loss, evaluation.metrics[0].mean + weight * evaluation.metrics[1].mean, 1e-12));
        REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    }
    own_end(&o);
}

static void names_are_known(void) {
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE | OWN_METRICS));
    o.direction = EITP_HIGHER_IS_BETTER;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK(eitp__trainer_has_metric(o.trainer, "row") && eitp__trainer_has_metric(o.trainer, "total"));
    CHECK(eitp__trainer_has_metric(o.trainer, "loss") && !eitp__trainer_has_metric(o.trainer, "tot"));
    CHECK(!eitp__trainer_has_metric(o.trainer, NULL) && !eitp__trainer_has_metric(NULL, "row"));
    CHECK(eitp__trainer_metric_direction(o.trainer, "row") == EITP_LOWER_IS_BETTER);
    CHECK(eitp__trainer_metric_direction(o.trainer, "loss") == EITP_LOWER_IS_BETTER);
    CHECK(eitp__trainer_metric_direction(o.trainer, "row size") == EITP_HIGHER_IS_BETTER);
    CHECK(!eitp__trainer_metric_direction(o.trainer, "total") && !eitp__trainer_metric_direction(o.trainer, "tot"));
    own_end(&o);
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    o.task.samples[EITP_VALIDATION] = 0;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK(!eitp__trainer_has_metric(o.trainer, "row") && !eitp__trainer_has_metric(o.trainer, "loss"));
    own_end(&o);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(means_and_errors_are_those_of_all_samples), TEST(a_part_depends_on_the_seed_alone),
        TEST(a_task_is_evaluated_without_a_trainer),     TEST(a_nan_of_one_sample_shows),
        TEST(a_loss_with_a_number_has_no_error),         TEST(a_term_without_items_is_zero),
        TEST(weights_are_those_of_the_last_step),        TEST(names_are_known),
    };
    return RUN_TESTS(tests, argc, argv);
}
