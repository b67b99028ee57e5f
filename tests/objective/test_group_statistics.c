/*
 * Statistics of groups compared with their definitions; gradients compared with central differences in double;
 * identities; edge cases; and the independence of a group from the others.
 */
#include "tests/objective/statistic_cases.h"

static const statistic *statistic_named(const char *name) {
    for (int i = 0; i < STATISTICS; i++)
        if (!strcmp(statistics[i].name, name))
            return &statistics[i];
    return NULL;
}

/* Shapes to test: groups, rows, channels. Contrast needs more than 9 rows. */
static const int64_t shapes[][3] = {{1, 1, 3}, {1, 2, 3}, {1, 5, 3}, {1, 2, 8},  {3, 5, 8},
                                    {3, 1, 3}, {3, 2, 8}, {3, 5, 3}, {1, 13, 3}, {3, 14, 8}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- Values ---- */

static void check_values(const statistic *s, eitp_context *context, eitp_dtype dtype, const int64_t *shape,
                         double tolerance) {
    trial t;
    double values[8];
    if (trial_begin(&t, s, context, dtype, shape[0], shape[1], shape[2])) {
        run_leaves(&t.b, t.plan);
        read_values(t.plan, t.values, values);
        for (int64_t g = 0; g < t.groups; g++) {
            const cloud rows = {values_to_change(&t)->data + g * t.rows * t.channels, t.counts[g], t.channels};
            const double wanted = s->naive(&rows);
            CHECK_THAT(fabs(values[g] - wanted) <= tolerance * (1 + fabs(wanted)),
                       "%s, group %d of %d, %d rows of %d: %.12g, expected %.12g", s->name, (int)g, (int)t.groups,
                       (int)rows.n, (int)rows.c, values[g], wanted);
        }
    }
    trial_end(&t);
}

static void values_against_definitions(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (int i = 0; i < STATISTICS && context; i++)
            for (int j = 0; j < SHAPES; j++) {
                if (set == 0)
                    check_values(&statistics[i], context, EITP_F64, shapes[j], 1e-10);
                check_values(&statistics[i], context, EITP_F32, shapes[j], 1e-5);
            }
        eitp_context_destroy(context);
    }
}

/* ---- Gradients ---- */

/* Returns the sum of the values, weighted by the last leaf, with x moved by `step` along `direction`. */
static double moved_sum(trial *t, const double *direction, double step) {
    array *x = values_to_change(t);
    const double *weights = t->b.values[t->b.leaf_count - 1]->data;
    double values[8], sum = 0;
    for (int64_t i = 0; i < x->count; i++)
        x->data[i] += step * direction[i];
    run_leaves(&t->b, t->plan);
    read_values(t->plan, t->values, values);
    for (int64_t i = 0; i < x->count; i++)
        x->data[i] -= step * direction[i];
    for (int64_t g = 0; g < t->groups; g++)
        sum += weights[g] * values[g];
    return sum;
}

/* Tests each element if there are few, otherwise random directions. Unused rows are included. */
static void check_gradient(const statistic *s, eitp_context *context, const int64_t *shape) {
    const double step = 1e-5;
    trial t;
    if (trial_begin(&t, s, context, EITP_F64, shape[0], shape[1], shape[2])) {
        const int64_t count = values_to_change(&t)->count, tried = count <= 40 ? count : 6;
        double *gradient = (double *)calloc((size_t)count, sizeof *gradient);
        double *direction = (double *)calloc((size_t)count, sizeof *direction);
        run_leaves(&t.b, t.plan);
        read_values(t.plan, t.gradient, gradient);
        for (int64_t n = 0; n < tried; n++) {
            double differences, slope = 0;
            for (int64_t i = 0; i < count; i++) {
                direction[i] = tried == count ? (double)(i == n) : 2 * draw(&t.b.random) - 1;
                slope += direction[i] * gradient[i];
            }
            differences = (moved_sum(&t, direction, step) - moved_sum(&t, direction, -step)) / (2 * step);
            CHECK_THAT(fabs(differences - slope) <= 3e-7 * (1 + fabs(differences)),
                       "%s, [%d, %d, %d], direction %d: %.12g, differences give %.12g", s->name, (int)t.groups,
                       (int)t.rows, (int)t.channels, (int)n, slope, differences);
        }
        free(gradient);
        free(direction);
    }
    trial_end(&t);
}

static void gradients_against_differences(void) {
    eitp_context *context = open_context("ref", 1);
    for (int i = 0; i < STATISTICS; i++)
        for (int j = 0; j < SHAPES; j++)
            check_gradient(&statistics[i], context, shapes[j]);
    eitp_context_destroy(context);
}

/* ---- Edges ---- */

/* Checks that all values and gradients, and their squares in F32, are finite. Stores the values. */
static void check_finite(trial *t, const char *what, const char *name, double *values) {
    const int64_t count = values_to_change(t)->count;
    double *gradient = (double *)calloc((size_t)count, sizeof *gradient);
    run_leaves(&t->b, t->plan);
    read_values(t->plan, t->values, values);
    read_values(t->plan, t->gradient, gradient);
    for (int64_t g = 0; g < t->groups; g++)
        CHECK_THAT(isfinite(values[g]), "%s, %s: the value is %g", name, what, values[g]);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(gradient[i]) < 1e19)) {
            CHECK_THAT(0, "%s, %s: gradient %d is %g", name, what, (int)i, gradient[i]);
            break;
        }
    free(gradient);
}

/* Fills rows with value(i, channel) times `scale`. */
static void fill_rows(trial *t, double scale, int is_constant) {
    array *x = values_to_change(t);
    for (int64_t i = 0; i < x->count; i++)
        x->data[i] = i / t->channels % t->rows < t->counts[i / t->channels / t->rows]
                         ? scale * (is_constant ? 0.1 * (double)(i % t->channels + 1) : 2 * draw(&t->b.random) - 1)
                         : 0;
}

static void edges_are_finite(void) {
    static const double scales[] = {0, 1e-30, 1e-20, 1e-12, 1e-3, 1, 1e4};
    eitp_context *context = open_context("ref", 1);
    for (int i = 0; i < STATISTICS; i++)
        for (int j = 0; j < SHAPES; j++) {
            trial t;
            double values[8];
            if (trial_begin(&t, &statistics[i], context, EITP_F32, shapes[j][0], shapes[j][1], shapes[j][2])) {
                for (size_t k = 0; k < EITP__COUNT(scales); k++) {
                    fill_rows(&t, scales[k], 0);
                    check_finite(&t, "random rows", statistics[i].name, values);
                    fill_rows(&t, scales[k], 1);
                    check_finite(&t, "equal rows", statistics[i].name, values);
                }
            }
            trial_end(&t);
        }
    eitp_context_destroy(context);
}

/* 16 bits, rows of unit variance, with the width of GPT-2. */
static void wide_rows_are_finite(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    eitp_context *context = open_context("ref", 2);
    for (int i = 0; i < STATISTICS; i++)
        for (size_t j = 0; j < EITP__COUNT(dtypes); j++) {
            trial t;
            double values[8];
            if (trial_begin_in(&t, &statistics[i], context, EITP_F32, dtypes[j], 2, 20, 768 / statistics[i].factor)) {
                fill_rows(&t, sqrt(3), 0);
                check_finite(&t, eitp_dtype_name(dtypes[j]), statistics[i].name, values);
                CHECK_THAT(values[0] != 0 || !strcmp(statistics[i].name, "attention below its floor"), "%s",
                           statistics[i].name);
            }
            trial_end(&t);
        }
    eitp_context_destroy(context);
}

/* Rows along one line, so long that the coding rate's matrix would be singular in F32 without a minimum distortion. */
static void long_rows_have_a_coding_rate(void) {
    static const double scales[] = {1, 10, 30, 60, 100, 1e4};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        trial t;
        double values[8];
        if (!context)
            continue;
        if (trial_begin(&t, statistic_named("coding rate"), context, EITP_F32, 2, 40, 768)) {
            array *x = values_to_change(&t);
            for (size_t k = 0; k < EITP__COUNT(scales); k++) {
                for (int64_t i = 0; i < x->count; i++)
                    x->data[i] = x->data[i] == 0 ? 0 : scales[k] * sin((double)(i / 768)) * cos((double)(i % 768));
                check_finite(&t, "rows along a line", kernel_sets[set], values);
                CHECK_THAT(values[0] > 5 && values[0] < 8, "%s, scale %g: %g", kernel_sets[set], scales[k], values[0]);
            }
        }
        trial_end(&t);
        eitp_context_destroy(context);
    }
}

/* A large common part of the rows does not reduce the precision of their differences. */
static void common_parts_cost_nothing(void) {
    static const char *const names[] = {"participation ratio", "coding rate", "variance", "balance"};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (size_t k = 0; k < EITP__COUNT(names) && context; k++) {
            const statistic *s = statistic_named(names[k]);
            trial t;
            double values[8];
            if (trial_begin(&t, s, context, EITP_F32, 1, 13, 8)) {
                array *x = values_to_change(&t);
                const cloud rows = {x->data, 13, 8};
                for (int64_t i = 0; i < x->count; i++)
                    x->data[i] = (double)(float)(4000 + 300 * (double)(i % 8) + 0.01 * x->data[i]);
                check_finite(&t, "rows far from 0", names[k], values);
                CHECK_THAT(fabs(values[0] - s->naive(&rows)) < 1e-5 * (1 + fabs(values[0])),
                           "%s, %s: %.9g, expected %.9g", names[k], kernel_sets[set], values[0], s->naive(&rows));
            }
            trial_end(&t);
        }
        eitp_context_destroy(context);
    }
}

/* Equal rows have exactly zero spread, also if their mean is rounded. */
static void equal_rows_are_nothing(void) {
    eitp_context *context = open_context("ref", 1);
    for (int i = 0; i < STATISTICS; i++) {
        const char *name = statistics[i].name;
        trial t;
        double values[8];
        if (!strcmp(name, "participation ratio") || !strncmp(name, "coding rate", 11) || !strcmp(name, "cka")) {
            if (trial_begin(&t, &statistics[i], context, EITP_F32, 3, 7, 5)) {
                fill_rows(&t, 1000.0 / 3, 1);
                check_finite(&t, "equal rows", name, values);
                for (int g = 0; g < 3; g++)
                    CHECK_THAT(values[g] == 0, "%s: %g", name, values[g]);
            }
            trial_end(&t);
        }
    }
    eitp_context_destroy(context);
}

/* ---- Identities ---- */

/* Computes a statistic of a single group with these rows in F64. */
static double value_of(const statistic *s, int64_t rows, int64_t channels, const double *x) {
    eitp_context *context = open_context("ref", 1);
    trial t;
    double value = NAN;
    if (trial_begin(&t, s, context, EITP_F64, 1, rows, channels)) {
        memcpy(values_to_change(&t)->data, x, (size_t)values_to_change(&t)->count * sizeof *x);
        run_leaves(&t.b, t.plan);
        read_values(t.plan, t.values, &value);
    }
    trial_end(&t);
    eitp_context_destroy(context);
    return value;
}

/* Both directions of each axis give as many dimensions as axes. The corners of a simplex give one less than corners. */
static void participation_ratio_counts_dimensions(void) {
    const statistic *s = statistic_named("participation ratio");
    double axes[8 * 4] = {0}, corners[5 * 9] = {0};
    for (int i = 0; i < 4; i++) {
        axes[(2 * i) * 4 + i] = 3;
        axes[(2 * i + 1) * 4 + i] = -3;
    }
    for (int i = 0; i < 5; i++)
        corners[i * 9 + i] = 0.5;
    CHECK(fabs(value_of(s, 8, 4, axes) - 4) < 1e-12);
    CHECK(fabs(value_of(s, 5, 9, corners) - 4) < 1e-12);
}

/* Rotates pairs of channels, scales, and shifts. */
static void transform(double *x, int64_t rows, int64_t channels, double angle, double scale, double shift) {
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i + 1 < channels; i++) {
            double *a = x + t * channels + i;
            const double first = a[0] * cos(angle) - a[1] * sin(angle), second = a[0] * sin(angle) + a[1] * cos(angle);
            a[0] = first;
            a[1] = second;
        }
    for (int64_t i = 0; i < rows * channels; i++)
        x[i] = scale * x[i] + shift;
}

static eitp_tensor *make_cka_of_halves(eitp_tensor *x, eitp_tensor *mask) {
    const int64_t half = eitp_tensor_dimension(x, 2) / 2;
    return eitp__stat_cka(eitp_slice(x, 2, 0, half), eitp_slice(x, 2, half, 2 * half), mask);
}

/* Two sets of 4 channels that differ only by rotation, scale and shift have CKA 1. */
static void rotations_change_nothing(void) {
    static const int64_t counts[] = {3, 9}; /* the smaller side is the rows, then the channels */
    const statistic halves = {"cka of halves", make_cka_of_halves, NULL, 2};
    for (int k = 0; k < 2; k++) {
        double x[9 * 4], y[9 * 4], both[9 * 8], rate, ratio;
        uint32_t random = 7;
        for (int i = 0; i < 36; i++)
            x[i] = y[i] = 2 * draw(&random) - 1;
        rate = value_of(statistic_named("coding rate"), counts[k], 4, x);
        ratio = value_of(statistic_named("participation ratio"), counts[k], 4, x);
        transform(y, counts[k], 4, 0.9, 1, 0.5);
        CHECK(fabs(value_of(statistic_named("coding rate"), counts[k], 4, y) - rate) < 1e-12);
        CHECK(fabs(value_of(statistic_named("participation ratio"), counts[k], 4, y) - ratio) < 1e-12);
        transform(y, counts[k], 4, 0.3, 5, -2);
        for (int i = 0; i < 36; i++) {
            both[i / 4 * 8 + i % 4] = x[i];
            both[i / 4 * 8 + 4 + i % 4] = y[i];
        }
        CHECK(fabs(value_of(&halves, counts[k], 4, both) - 1) < 1e-12);
    }
}

/* The value for collapsed rows: the mean over pairs of the logarithm of the number of candidates. */
static void equal_rows_give_the_number_of_candidates(void) {
    enum { ROWS = 15, CHANNELS = 3 };
    static const int offsets[] = {1, 2, 4};
    double x[ROWS * CHANNELS], wanted = 0, pairs = 0;
    for (int i = 0; i < ROWS * CHANNELS; i++)
        x[i] = 0.3 * (i % CHANNELS + 1);
    for (int t = 0; t < ROWS; t++)
        for (int i = 0; i < 3; i++) {
            int far = 0;
            for (int j = 0; j < ROWS; j++)
                far += abs(t - j) > 8;
            if (far && t + offsets[i] < ROWS) {
                wanted += log(far + 1);
                pairs++;
            }
        }
    CHECK(fabs(value_of(statistic_named("contrast"), ROWS, CHANNELS, x) - wanted / pairs) < 1e-12);
    CHECK(fabs(value_of(statistic_named("coherence"), ROWS, CHANNELS, x)) < 1e-12);
}

/* If no keys are passed, contrast has only the gradient of its first operand. */
static void contrast_has_no_gradient_by_its_keys(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_tensor *mask, *keys, *of_given, *of_own, *both[2], *gradients[2];
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    double given_values[3 * 14 * 3], own_values[3 * 14 * 3], values[2][3];
    trial t;
    memset(&t, 0, sizeof t);
    build_begin(&t.b, context, EITP_F64, 1);
    add_groups(&t, 3, 14, 3, EITP_F64, &mask);
    keys = add_leaf(&t.b, EITP_F64, t.b.values[0]);
    both[0] = eitp_output(of_given = eitp__stat_contrast(t.x, keys, mask, 0.5));
    both[1] = eitp_output(of_own = eitp__stat_contrast(t.x, NULL, mask, 0.5));
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(eitp_gradients(both[i], NULL, 1, &t.x, &gradients[i], &error), error);
        eitp_output(gradients[i]);
    }
    REQUIRE_OK(eitp_plan_create(t.b.graph, &plan, &error), error);
    run_leaves(&t.b, plan);
    read_values(plan, of_given, values[0]);
    read_values(plan, of_own, values[1]);
    read_values(plan, gradients[0], given_values);
    read_values(plan, gradients[1], own_values);
    CHECK(!memcmp(values[0], values[1], sizeof values[0]) && values[0][0] > 0);
    CHECK(!memcmp(given_values, own_values, sizeof given_values) && fabs(given_values[0]) > 1e-4);
    eitp_plan_destroy(plan);
    build_end(&t.b);
    eitp_context_destroy(context);
}

/* ---- Independence ---- */

/* The value and gradient of one of several groups have the same bits as for the group alone. */
static void check_alone(const statistic *s, eitp_context *context, int64_t rows, int64_t channels) {
    enum { MOST = 40 * 96 };
    trial many, one;
    double values[8], alone, gradient[4 * MOST], gradient_alone[MOST];
    if (trial_begin(&many, s, context, EITP_F32, 4, rows, channels) &&
        trial_begin(&one, s, context, EITP_F32, 1, rows, channels)) {
        const int64_t size = rows * many.channels;
        run_leaves(&many.b, many.plan);
        read_values(many.plan, many.values, values);
        read_values(many.plan, many.gradient, gradient);
        for (int64_t g = 0; g < 4; g++) {
            memcpy(values_to_change(&one)->data, values_to_change(&many)->data + g * size, (size_t)size * 8);
            memcpy(one.b.values[1]->data, many.b.values[1]->data + g * rows, (size_t)rows * 8);
            one.b.values[2]->data[0] = many.b.values[2]->data[g];
            run_leaves(&one.b, one.plan);
            read_values(one.plan, one.values, &alone);
            read_values(one.plan, one.gradient, gradient_alone);
            CHECK_THAT(!memcmp(&alone, &values[g], sizeof alone), "%s, group %d, %d rows of %d: %.12g, alone %.12g",
                       s->name, (int)g, (int)rows, (int)many.channels, values[g], alone);
            CHECK_THAT(!memcmp(gradient_alone, gradient + g * size, (size_t)size * 8),
                       "%s, group %d, %d rows of %d: another gradient alone", s->name, (int)g, (int)rows,
                       (int)many.channels);
        }
        trial_end(&one);
    }
    trial_end(&many);
}

static void groups_are_independent(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (int i = 0; i < STATISTICS && context; i++) {
            check_alone(&statistics[i], context, 20, 8);
            check_alone(&statistics[i], context, 40, 96 / statistics[i].factor);
            check_alone(&statistics[i], context, 5, 7);
        }
        eitp_context_destroy(context);
    }
}

/* ---- Predictions ---- */

enum { ROWS = 5, CLASSES = 3, IGNORED = -100 };

/* Values and gradients by row for some logits. */
typedef struct prediction {
    double brier[ROWS], correct[ROWS], divergence[ROWS];
    double brier_gradient[ROWS * CLASSES], divergence_gradient[ROWS * CLASSES];
} prediction;

static int predict(eitp_dtype dtype, const double *logits, const double *wanted, const double *targets,
                   prediction *result) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[2] = {ROWS, CLASSES};
    eitp_tensor *x[2], *t, *brier, *correct, *divergence, *gradients[2];
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    build b;
    build_begin(&b, context, dtype, 1);
    for (int i = 0; i < 2; i++) {
        array *a = new_array(&b, 2, shape);
        memcpy(a->data, i ? wanted : logits, ROWS * CLASSES * sizeof *logits);
        x[i] = add_leaf(&b, dtype, a);
    }
    t = given(&b, EITP_I32, ROWS, targets);
    brier = eitp_output(eitp__stat_brier(x[0], t, IGNORED));
    correct = eitp_output(eitp__stat_correct(x[0], t));
    divergence = eitp_output(eitp__stat_divergence(x[1], x[0]));
    CHECK(!eitp_gradients(brier, NULL, 1, &x[0], &gradients[0], &error));
    CHECK(!eitp_gradients(divergence, NULL, 1, &x[0], &gradients[1], &error));
    eitp_output(gradients[0]);
    eitp_output(gradients[1]);
    CHECK_THAT(!eitp_plan_create(b.graph, &plan, &error), "%s", error.message);
    if (plan) {
        run_leaves(&b, plan);
        read_values(plan, brier, result->brier);
        read_values(plan, correct, result->correct);
        read_values(plan, divergence, result->divergence);
        read_values(plan, gradients[0], result->brier_gradient);
        read_values(plan, gradients[1], result->divergence_gradient);
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
    return plan != NULL;
}

/* p = (1/4, 1/4, 1/2) in each row. */
static void scores_of_predictions(void) {
    static const double targets[ROWS] = {2, 0, IGNORED, 2, 1};
    static const double brier[ROWS] = {0.375, 0.875, 0, 0.375, 0.875}, correct[ROWS] = {1, 0, 0, 1, 0};
    double logits[ROWS * CLASSES], wanted[ROWS * CLASSES];
    prediction r;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        logits[i] = (i % CLASSES == 2 ? log(2) : 0) + i / CLASSES;
        wanted[i] = i < 2 * CLASSES ? logits[i] - 3 : 0.1 * i;
    }
    if (!predict(EITP_F64, logits, wanted, targets, &r))
        return;
    for (int i = 0; i < ROWS; i++) {
        CHECK_THAT(fabs(r.brier[i] - brier[i]) < 1e-12, "row %d: %g", i, r.brier[i]);
        CHECK(r.correct[i] == correct[i]);
        CHECK(i < 2 ? fabs(r.divergence[i]) < 1e-12 : r.divergence[i] > 1e-3);
        for (int j = 0; j < CLASSES; j++) {
            const double *z = wanted + i * CLASSES;
            const double p = exp(z[j]) / (exp(z[0]) + exp(z[1]) + exp(z[2])), q = j == 2 ? 0.5 : 0.25;
            CHECK(fabs(r.divergence_gradient[i * CLASSES + j] - (q - p)) < 1e-12);
            CHECK(targets[i] >= 0 || r.brier_gradient[i * CLASSES + j] == 0);
        }
    }
}

static void gradient_of_brier(void) {
    static const double targets[ROWS] = {2, 0, IGNORED, 1, 1};
    double logits[ROWS * CLASSES];
    prediction r, after, before;
    uint32_t random = 3;
    for (int i = 0; i < ROWS * CLASSES; i++)
        logits[i] = 4 * draw(&random) - 2;
    if (!predict(EITP_F64, logits, logits, targets, &r))
        return;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const double x = logits[i], step = 1e-5;
        logits[i] = x + step;
        predict(EITP_F64, logits, logits, targets, &after);
        logits[i] = x - step;
        predict(EITP_F64, logits, logits, targets, &before);
        logits[i] = x;
        CHECK(fabs((after.brier[i / CLASSES] - before.brier[i / CLASSES]) / (2 * step) - r.brier_gradient[i]) < 1e-8);
    }
}

static void large_logits_are_finite(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    static const double targets[ROWS] = {2, 0, IGNORED, 1, 1};
    double logits[ROWS * CLASSES], wanted[ROWS * CLASSES];
    prediction r;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        logits[i] = i % 2 ? 1e4 : -1e4;
        wanted[i] = i % 3 ? 1e4 : -1e4;
    }
    for (size_t k = 0; k < EITP__COUNT(dtypes); k++) {
        if (!predict(dtypes[k], logits, wanted, targets, &r))
            return;
        for (int i = 0; i < ROWS; i++)
            CHECK(r.brier[i] >= 0 && r.brier[i] <= 2 && r.divergence[i] >= 0 && isfinite(r.divergence[i]));
        for (int i = 0; i < ROWS * CLASSES; i++)
            CHECK(isfinite(r.brier_gradient[i]) && isfinite(r.divergence_gradient[i]));
    }
}

/* Hidden states whose number of rows varies, as in a pass. */
static void predictions_of_a_capacity_of_rows(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[2] = {4, 2};
    const float logits[] = {0, 0, 3, 0};
    const int32_t targets[] = {1, 0};
    float values[2];
    eitp_error error = EITP__ZERO;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *t, *brier, *correct, *divergence, *gradient;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = eitp_input_rows(graph, "logits", EITP_F32, 2, shape);
    t = eitp_input_rows(graph, "targets", EITP_I32, 1, shape);
    brier = eitp_output(eitp__stat_brier(x, t, IGNORED));
    correct = eitp_output(eitp__stat_correct(x, t));
    divergence = eitp_output(eitp__stat_divergence(x, eitp_affine(x, 2, 0)));
    REQUIRE_OK(eitp_gradients(eitp_add(brier, divergence), NULL, 1, &x, &gradient, &error), error);
    eitp_output(gradient);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_set_rows(plan, 2, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, x, logits, sizeof logits, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, t, targets, sizeof targets, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, brier, values, sizeof values, &error), error);
    CHECK(fabs((double)values[0] - 0.5) < 1e-6 && values[1] < 0.01f);
    REQUIRE_OK(eitp_plan_read(plan, correct, values, sizeof values, &error), error);
    CHECK(values[0] == 0 && values[1] == 1);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Penalties ---- */

static void penalties_of_values(void) {
    static const double x[] = {-1, 0.05, 0.3, 0.9, 1.5};
    static const double band[] = {1.21, 0.0025, 0, 0, 0.36}, near[] = {1.44, 0.0225, 0, 0.25, 1.21};
    static const double below[] = {0, 0, 0, 0.36, 1.44}, slopes[] = {0, 0, 0, 1.2, 2.4};
    eitp_context *context = open_context("ref", 1);
    eitp_tensor *leaf, *ys[4], *gradient = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    build b;
    build_begin(&b, context, EITP_F64, 1);
    leaf = given(&b, EITP_F64, 5, x);
    ys[0] = eitp_output(eitp__stat_band(leaf, 0.1, 0.9));
    ys[1] = eitp_output(eitp__stat_near(leaf, 0.3, 0.1));
    ys[2] = eitp_output(eitp__stat_below(leaf, 0.3));
    CHECK(!eitp_gradients(ys[2], NULL, 1, &leaf, &gradient, &error));
    ys[3] = eitp_output(gradient);
    CHECK(!eitp_plan_create(b.graph, &plan, &error));
    if (plan)
        run_leaves(&b, plan);
    for (int i = 0; i < 4 && plan; i++) {
        const double *wanted = i == 0 ? band : i == 1 ? near : i == 2 ? below : slopes;
        double values[5];
        read_values(plan, ys[i], values);
        for (int j = 0; j < 5; j++)
            CHECK_THAT(fabs(values[j] - wanted[j]) < 1e-12, "penalty %d of %g: %g", i, x[j], values[j]);
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    const test_case tests[] = {
        TEST(values_against_definitions),
        TEST(gradients_against_differences),
        TEST(edges_are_finite),
        TEST(wide_rows_are_finite),
        TEST(long_rows_have_a_coding_rate),
        TEST(common_parts_cost_nothing),
        TEST(equal_rows_are_nothing),
        TEST(participation_ratio_counts_dimensions),
        TEST(rotations_change_nothing),
        TEST(equal_rows_give_the_number_of_candidates),
        TEST(contrast_has_no_gradient_by_its_keys),
        TEST(groups_are_independent),
        TEST(scores_of_predictions),
        TEST(gradient_of_brier),
        TEST(large_logits_are_finite),
        TEST(predictions_of_a_capacity_of_rows),
        TEST(penalties_of_values),
    };
    return RUN_TESTS(tests, argc, argv);
}
