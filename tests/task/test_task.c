/* Custom tasks: loss terms, inputs, values of unused rows and samples, errors. */
#include "tests/support/own_task.h"

static eitp_error error;

static int begin_in(own *o, const char *precision, int parts) {
    const eitp_host host = eitp_host_default();
    eitp_status status = own_begin(o, &host, precision, parts, &error);
    o->config.optimizer_config.weight_decay = 0;
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

static int begin(own *o, int parts) {
    return begin_in(o, "fp32", parts);
}

/* Trains a task from own_begin for `steps` steps, reads "w" and "u", and releases it. Returns 0 on failure. */
static int end_after(own *o, int steps, float weights[2 * OWN_WIDTH], eitp_step_report *report) {
    eitp_status status = own_train(o, &error);
    for (int i = 0; i < steps && !status; i++)
        status = eitp_trainer_step(o->trainer, report, &error);
    if (!status)
        status = eitp_variable_read_f32(o->context, "w", 0, weights, OWN_WIDTH, &error);
    if (!status)
        status = eitp_variable_read_f32(o->context, "u", 0, weights + OWN_WIDTH, OWN_WIDTH, &error);
    CHECK_THAT(!status, "%s", error.message);
    own_end(o);
    return !status;
}

static int same_bits(const float *a, const float *b) {
    return !memcmp(a, b, 2 * OWN_WIDTH * sizeof *a);
}

/* ---- Loss terms ---- */

/* The expected step over samples [first, last) with initial weights. */
typedef struct naive_step {
    double row, sample; /* sums */
    int64_t rows, labelled;
    double w[OWN_WIDTH], u[OWN_WIDTH]; /* gradients of the sums */
} naive_step;

static void naive_add(const own *o, uint64_t number, naive_step *step) {
    const double miss = own_guess(EITP_TRAINING, number) - own_label(o, number);
    step->row += own_row_loss(o, EITP_TRAINING, number);
    step->sample += own_sample_loss(o, EITP_TRAINING, number);
    step->rows += own_rows(o, EITP_TRAINING, number);
    step->labelled += own_label(o, number) >= 0;
    for (int i = 0; i < OWN_WIDTH; i++) {
        for (int64_t row = 0; row < own_rows(o, EITP_TRAINING, number); row++)
            step->w[i] += 2 * (double)own_input(EITP_TRAINING, number, row, i) *
                          (own_predict(EITP_TRAINING, number, row) - (double)own_target(o, EITP_TRAINING, number, row));
        if (own_label(o, number) >= 0)
            step->u[i] += 2 * miss * (double)own_value(EITP_TRAINING, number, 700 + i);
    }
}

static naive_step naive(const own *o, int64_t first, int64_t last) {
    naive_step step = EITP__ZERO;
    for (int64_t i = first; i < last; i++)
        naive_add(o, (uint64_t)i, &step);
    return step;
}

/* Checks a step over samples [first, last) with terms "row" and "sample". The latter has weight `weight`. */
static void check_step(const own *o, int64_t first, int64_t last, double weight, const eitp_step_report *report,
                       double tolerance) {
    const naive_step step = naive(o, first, last);
    const double row = step.row / (double)step.rows, sample = step.sample / (double)step.labelled;
    float w[OWN_WIDTH], u[OWN_WIDTH];
    CHECK(report->term_count == 2 && report->items == step.rows && own_near(report->terms[1].weight, weight, 1e-12));
    CHECK_THAT(own_near(report->terms[0].mean, row, tolerance), "%.9g is not %.9g", report->terms[0].mean, row);
    CHECK_THAT(own_near(report->terms[1].mean, sample, tolerance), "%.9g is not %.9g", report->terms[1].mean, sample);
    CHECK(own_near(report->loss, row + weight * sample, tolerance));
    REQUIRE_OK(eitp_variable_read_f32(o->context, "gradient.w", 0, w, OWN_WIDTH, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(o->context, "gradient.u", 0, u, OWN_WIDTH, &error), error);
    for (int i = 0; i < OWN_WIDTH; i++) {
        const double of_w = (double)w[i] / report->loss_scale, of_u = (double)u[i] / report->loss_scale;
        const double due_w = step.w[i] / (double)step.rows, due_u = weight * step.u[i] / (double)step.labelled;
        CHECK_THAT(own_near(of_w, due_w, tolerance), "gradient of w[%d]: %.9g is not %.9g", i, of_w, due_w);
        CHECK_THAT(own_near(of_u, due_u, tolerance), "gradient of u[%d]: %.9g is not %.9g", i, of_u, due_u);
    }
}

static double stand_still(void *user, int64_t step) {
    (void)user;
    (void)step;
    return 0;
}

/* Each term is divided by its own items in the whole step. Weights follow their schedules. */
static void loss_and_gradient_match_the_weighted_sum(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 3 * 2 * 3; i++) {
        const int merged = 1 + i / 3 % 3, varies = i / 9;
        own o;
        REQUIRE(begin_in(&o, precisions[i % 3], OWN_ROW | OWN_SAMPLE));
        o.task.rows_vary = varies;
        o.config.micro_batches_per_pass = merged;
        o.config.keep_gradients = 1;
        o.config.rate = stand_still;
        o.weight.kind = EITP_SCHEDULE_LINEAR;
        o.weight.peak = 2;
        o.weight.steps = 3;
        REQUIRE_OK(own_train(&o, &error), error);
        if (i % 3 == 2)
            o.trainer->loss_scale = 256; /* the default overflows with such gradients */
        for (int64_t step = 0; step < 3; step++) {
            eitp_step_report report;
            REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
            check_step(&o, 6 * step, 6 * step + 6, eitp_schedule_rate(&o.weight, step + 1), &report,
                       i % 3 ? 2e-2 : 2e-6);
        }
        own_end(&o);
    }
}

static void two_terms_equal_their_explicit_sum(void) {
    float two[2 * OWN_WIDTH], one[2 * OWN_WIDTH];
    eitp_step_report report, summed;
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SQUARES) && end_after(&o, 4, two, &report));
    REQUIRE(begin(&o, OWN_SUMMED) && end_after(&o, 4, one, &summed));
    for (int i = 0; i < 2 * OWN_WIDTH; i++)
        CHECK_THAT(own_near((double)two[i], (double)one[i], 1e-6), "%g is not %g", (double)two[i], (double)one[i]);
    CHECK(own_near(report.loss, summed.loss, 1e-6) && own_near(report.grad_norm, summed.grad_norm, 1e-6));
}

static void a_weight_of_zero_disables_a_term(void) {
    float with[2 * OWN_WIDTH], without[2 * OWN_WIDTH], other[2 * OWN_WIDTH];
    eitp_step_report report, alone;
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SQUARES));
    o.weight.peak = 0;
    REQUIRE(end_after(&o, 4, with, &report));
    REQUIRE(begin(&o, OWN_ROW) && end_after(&o, 4, without, &alone));
    CHECK(same_bits(with, without) && own_near(report.loss, alone.loss, 0) && report.terms[1].mean > 0);
    REQUIRE(begin(&o, OWN_ROW | OWN_SQUARES) && end_after(&o, 4, other, &report));
    CHECK(!same_bits(with, other));
}

static void a_single_value_is_the_sum_of_its_rows(void) {
    float number[2 * OWN_WIDTH], rows[2 * OWN_WIDTH];
    eitp_step_report report, expected;
    for (int merged = 1; merged <= 3; merged++) {
        own o;
        REQUIRE(begin(&o, OWN_NUMBER));
        o.config.micro_batches_per_pass = merged;
        REQUIRE(end_after(&o, 4, number, &report));
        REQUIRE(begin(&o, OWN_ROW));
        o.config.micro_batches_per_pass = merged;
        REQUIRE(end_after(&o, 4, rows, &expected));
        CHECK(same_bits(number, rows) && own_near(report.loss, expected.loss, 1e-6));
    }
}

/* None of a step's samples has a label. */
static void a_term_without_items_changes_nothing(void) {
    float with[2 * OWN_WIDTH], without[2 * OWN_WIDTH];
    eitp_step_report report, alone;
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    o.unlabelled_before = 1000;
    REQUIRE(end_after(&o, 4, with, &report));
    REQUIRE(begin(&o, OWN_ROW) && end_after(&o, 4, without, &alone));
    CHECK(same_bits(with, without) && report.applied);
    CHECK(own_near(report.terms[1].mean, 0, 0) && own_near(report.loss, alone.loss, 0));
}

/* ---- Unused rows and samples ---- */

/* Checks the values of a pass's buffer in rows or samples [first, last). */
static void check_empty(const own *o, int64_t pass, int64_t first, int64_t last, int of_rows) {
    void *const *values = o->trainer->plans.batches.passes[pass].values;
    for (int64_t i = first; i < last; i++) {
        if (of_rows) {
            CHECK(((float *)values[1])[i] == 0.5f && ((float *)values[2])[i] == 0);
            CHECK(((int64_t *)values[3])[i] == OWN_EMPTY_MARK);
        } else {
            CHECK(((int32_t *)values[5])[i] == OWN_NO_LABEL);
        }
        for (int64_t j = i * OWN_WIDTH; j < (i + 1) * OWN_WIDTH; j++)
            CHECK(of_rows ? ((float *)values[0])[j] == 7 : ((float *)values[4])[j] == 3);
    }
}

/* Micro-batches of 10 rows that start at multiples of 32: two in the first pass, one in the second. */
static void gaps_and_unused_samples_hold_empty(void) {
    eitp_step_report report;
    own o;
    REQUIRE(begin_in(&o, "bf16", OWN_ROW | OWN_EMPTY));
    pretend_sums_of_32(o.context);
    o.config.micro_batches_per_pass = 2;
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    CHECK(report.items == 30 && o.trainer->plans.batches.passes[0].rows == 42 &&
          o.trainer->plans.batches.passes[1].rows == 10);
    CHECK_THAT(own_near(report.terms[1].mean * 30, 22, 1e-6), "%g empty rows", report.terms[1].mean * 30);
    /* Each pass has room for 34 samples. The first has four samples and the second two, two of them without a label. */
    CHECK_THAT(own_near(report.terms[2].mean * 30, 30 + 32 + 2, 1e-6), "%g empty samples", report.terms[2].mean * 30);
    check_empty(&o, 0, 10, 32, 1);
    check_empty(&o, 0, 2, 32, 0);
    check_empty(&o, 1, 2, 34, 0);
    own_end(&o);
}

/* The number of micro-batches in a pass does not change bits, also with gaps, varying rows, and a short last step. */
static void micro_batches_per_pass_change_no_bit(void) {
    for (int i = 0; i < 8; i++) {
        float weights[4][2 * OWN_WIDTH];
        eitp_step_report report;
        for (int64_t merged = 1; merged <= 3; merged++) {
            own o;
            REQUIRE(begin_in(&o, i % 2 ? "bf16" : "fp32", OWN_ROW | OWN_SAMPLE));
            if (i & 2)
                pretend_sums_of_32(o.context);
            o.task.rows_vary = i / 4;
            o.config.micro_batches_per_pass = merged;
            o.config.batch_size = 3;
            o.config.last_sample = 32;
            REQUIRE(end_after(&o, 4, weights[merged], &report));
            CHECK_THAT(same_bits(weights[merged], weights[1]), "variant %d, %d merged", i, (int)merged);
        }
    }
}

static void a_task_without_gaps_refuses_passes_that_need_padding_rows(void) {
    own o;
    REQUIRE(begin_in(&o, "bf16", OWN_ROW | OWN_SAMPLE));
    pretend_sums_of_32(o.context);
    o.task.allows_gaps = 0;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK(eitp_trainer_micro_batches_per_pass(o.trainer) == 1);
    eitp_trainer_destroy(o.trainer);
    o.config.micro_batches_per_pass = 2;
    CHECK(own_train(&o, &error) == EITP_ERROR_UNSUPPORTED && !o.trainer);
    CHECK_THAT(strstr(error.message, "micro-batches of 10 rows cannot share a pass") &&
                   strstr(error.message, "dense_rows"),
               "%s", error.message);
    o.config.dense_rows = 1;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK(eitp_trainer_micro_batches_per_pass(o.trainer) == 2);
    eitp_trainer_destroy(o.trainer);
    o.config.dense_rows = 0;
    o.task.rows = 16; /* 32 rows in a micro-batch: no gap */
    REQUIRE_OK(own_train(&o, &error), error);
    eitp_trainer_destroy(o.trainer);
    o.task.rows_vary = 1;
    CHECK(own_train(&o, &error) == EITP_ERROR_UNSUPPORTED);
    o.task.allows_gaps = 1;
    o.config.micro_batches_per_pass = 0;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK(eitp_trainer_micro_batches_per_pass(o.trainer) == 3);
    own_end(&o);
}

static void remember(void *user, eitp_log_level level, const char *message) {
    (void)level;
    snprintf((char *)user, 1000, "%s", message);
}

/* Starts a task whose passes are so large that half a micro-batch needs less memory. */
static int begin_large(own *o, char log[1000], int64_t batch_size, int64_t rows) {
    eitp_host host = eitp_host_default();
    host.log.user = log;
    host.log.write = remember;
    CHECK_THAT(!own_begin(o, &host, "bf16", OWN_ROW | OWN_SAMPLE, &error), "%s", error.message);
    pretend_sums_of_32(o->context);
    o->config.batch_size = batch_size;
    o->config.grad_accum = 1;
    o->task.rows = rows;
    return !own_train(o, &error);
}

static void shrinking_respects_gaps_and_sums_over_samples(void) {
    char log[1000] = "";
    eitp_shrink_report report;
    eitp_step_report step;
    own o;
    REQUIRE(begin_large(&o, log, 4, 16000));
    REQUIRE_OK(eitp_trainer_shrink(o.trainer, &report, &error), error);
    CHECK(report.shrunk && report.after.batch_size < 4);
    CHECK_THAT(strstr(log, "the last bits differ"), "%s", log);
    own_end(&o);
    REQUIRE(begin_large(&o, log, 3, 15001));
    eitp_trainer_destroy(o.trainer);
    o.task.allows_gaps = 0;
    REQUIRE_OK(own_train(&o, &error), error);
    CHECK_THAT(!eitp_trainer_shrink(o.trainer, &report, &error), "%s", error.message);
    CHECK(report.shrunk && report.after.batch_size == 1 && report.after.micro_batches_per_pass == 1);
    CHECK_THAT(!eitp_trainer_step(o.trainer, &step, &error), "%s", error.message);
    own_end(&o);
}

/* ---- Learning rates and callbacks ---- */

typedef struct heard {
    int64_t steps[8];
    int count;
} heard;

static double halved(void *user, int64_t step) {
    (void)user;
    return ldexp(0.05, -(int)step);
}

static void hear(void *user, const eitp_step_report *report) {
    heard *h = (heard *)user;
    h->steps[h->count++] = report->step;
    CHECK(own_near(report->learning_rate, halved(NULL, report->step), 1e-12));
}

static void a_program_sets_rates_and_is_notified_of_steps(void) {
    float rated[2 * OWN_WIDTH], scheduled[2 * OWN_WIDTH];
    eitp_step_report report;
    heard h = EITP__ZERO;
    own o;
    REQUIRE(begin(&o, OWN_ROW));
    o.config.rate = halved;
    o.config.after_step = hear;
    o.config.user = &h;
    o.config.last_sample = 18;
    REQUIRE_OK(own_train(&o, &error), error);
    while (!eitp_trainer_step(o.trainer, &report, &error))
        CHECK(h.count == report.step);
    CHECK(h.count == 3 && h.steps[0] == 1 && h.steps[2] == 3); /* not after the end of the data */
    own_end(&o);
    REQUIRE(begin(&o, OWN_ROW));
    o.config.rate = halved;
    REQUIRE(end_after(&o, 1, rated, &report));
    REQUIRE(begin(&o, OWN_ROW));
    o.config.schedule.peak = 0.025;
    REQUIRE(end_after(&o, 1, scheduled, &report));
    CHECK(same_bits(rated, scheduled));
}

/* ---- Errors ---- */

/* Invalid builds, by number. */
enum {
    NO_TERM,
    MANY_INPUTS,
    MANY_TERMS,
    SAME_TERMS,
    SAME_MEASURE,
    MEASURE_CALLED_LOSS,
    LONG_NAME,
    NO_NAME,
    NULL_NAME,
    NULL_INPUT,
    WIDE_INPUT,
    LATE_TERM,
    BAD_DIRECTION,
    WIDE_VALUES,
    FAILED_OP,
    LOST_LOOKUP,
    TWO_LOOKUPS,
    SAME_INPUTS,
    BAD_BUILDS
};

static void build_terms_badly(int which, eitp_pass *pass, eitp_tensor *x) {
    static const int64_t two[] = {2};
    char name[3] = "t0";
    for (; which == MANY_TERMS && name[1] <= '8'; name[1]++)
        eitp_pass_term(pass, name, x, NULL);
    if (which == SAME_TERMS)
        eitp_pass_term(pass, "fine", x, NULL);
    if (which == SAME_MEASURE)
        eitp_pass_metric(pass, "fine", x, EITP_LOWER_IS_BETTER);
    if (which == MEASURE_CALLED_LOSS)
        eitp_pass_metric(pass, "loss", x, EITP_LOWER_IS_BETTER);
    if (which == LONG_NAME)
        eitp_pass_term(pass, "a name of thirty-two characters.", x, NULL);
    if (which == NO_NAME)
        eitp_pass_term(pass, "", x, NULL);
    if (which == NULL_NAME)
        eitp_pass_term(pass, NULL, x, NULL);
    if (which == LATE_TERM) {
        eitp_pass_metric(pass, "measured", x, EITP_LOWER_IS_BETTER);
        eitp_pass_term(pass, "late", x, NULL);
    }
    if (which == BAD_DIRECTION)
        eitp_pass_metric(pass, "astray", x, (eitp_metric_direction)7);
    if (which == WIDE_VALUES)
        eitp_pass_term(pass, "wide", eitp_pass_row_input(pass, "y", EITP_F32, 1, two, 0), NULL);
    if (which == FAILED_OP)
        eitp_pass_term(pass, "failed", eitp_matmul(x, x), NULL);
}

static void build_inputs_badly(int which, eitp_pass *pass) {
    eitp_tensor *unique, *inverse, *ids;
    char name[] = "a";
    for (; which == MANY_INPUTS && name[0] < 'a' + EITP_MAX_PASS_INPUTS; name[0]++)
        eitp_pass_sample_input(pass, name, EITP_I32, 0, NULL, 0);
    if (which == SAME_INPUTS)
        eitp_pass_sample_input(pass, "x", EITP_I32, 0, NULL, 0);
    if (which == NULL_INPUT)
        eitp_pass_row_input(pass, NULL, EITP_F32, 0, NULL, 0);
    if (which == WIDE_INPUT)
        eitp_pass_row_input(pass, "wide", EITP_F64, 0, NULL, 0);
    if (which != LOST_LOOKUP && which != TWO_LOOKUPS)
        return;
    ids = which == LOST_LOOKUP ? eitp_pass_sample_input(pass, "ids", EITP_I32, 0, NULL, 0)
                               : eitp_pass_row_input(pass, "ids", EITP_I32, 0, NULL, 0);
    eitp_pass_unique(pass, ids, 10, &unique, &inverse);
    CHECK(!unique == (which == LOST_LOOKUP));
    if (which == TWO_LOOKUPS)
        eitp_pass_unique(pass, ids, 10, &unique, &inverse);
    CHECK(!unique && !inverse);
}

static eitp_status build_badly(void *user, eitp_pass *pass, eitp_error *why) {
    static const int64_t one[] = {1};
    const own *o = (const own *)user;
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, one, 0);
    x = eitp_multiply(x, eitp_parameter(eitp_pass_graph(pass), "w", 1, one));
    if (o->parts != NO_TERM)
        eitp_pass_term(pass, "fine", x, NULL);
    build_inputs_badly(o->parts, pass);
    build_terms_badly(o->parts, pass, x);
    return (void)why, EITP_OK; /* the trainer checks the graph */
}

static void invalid_builds_are_refused(void) {
    static const char *const words[BAD_BUILDS] = {
        "no loss term",
        "limit of 16 inputs",
        "limit of 8 loss terms",
        "'fine'",
        "'fine'",
        "'loss'",
        "1 to 31",
        "1 to 31",
        "1 to 31",
        "name",
        "'wide'",
        "'late': add loss terms before metrics",
        "metric 'astray': unknown direction 7",
        "'wide'",
        "matmul",
        "row input",
        "one call per task",
        "duplicate input 'x'",
    };
    for (int i = 0; i < BAD_BUILDS; i++) {
        own o;
        eitp_status status;
        REQUIRE(begin(&o, i));
        o.task.build = build_badly;
        error.message[0] = 0;
        status = own_train(&o, &error);
        CHECK_THAT(status == EITP_ERROR_ARGUMENT && !o.trainer, "build %d: status %d", i, (int)status);
        CHECK_THAT(strstr(error.message, words[i]), "build %d: %s", i, error.message);
        own_end(&o);
    }
}

static void check_refused(own *o, const char *words) {
    eitp_evaluation evaluation;
    eitp_trainer *trainer = (eitp_trainer *)&evaluation;
    CHECK(eitp_trainer_create(&o->task, &o->config, &trainer, &error) == EITP_ERROR_ARGUMENT && !trainer);
    CHECK_THAT(strstr(error.message, words), "%s", error.message);
    error.message[0] = 0;
    CHECK(eitp_evaluate(&o->task, EITP_TRAINING, 1, 0, &evaluation, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, words) || strstr(error.message, "samples"), "%s", error.message);
}

static void functions_of_passes_accept_null(void) {
    const int64_t one[] = {1};
    eitp_tensor *unique, *inverse;
    CHECK(!eitp_pass_graph(NULL) && !eitp_pass_is_training(NULL) && !eitp_pass_max_length(NULL));
    CHECK(!eitp_pass_row_input(NULL, "x", EITP_F32, 1, one, 0) && !eitp_pass_embedding(NULL, NULL, NULL));
    CHECK(!eitp_pass_sample_input(NULL, "x", EITP_F32, 1, one, 0) && !eitp_pass_positions(NULL));
    CHECK(!eitp_pass_offsets(NULL) && !eitp_pass_key(NULL) && !eitp_pass_sample_key(NULL));
    eitp_pass_unique(NULL, NULL, 1, &unique, &inverse);
    CHECK(!unique && !inverse && !eitp_pass_model_inputs(NULL, NULL).tokens);
    eitp_pass_term(NULL, "x", NULL, NULL);
    eitp_pass_metric(NULL, "x", NULL, EITP_LOWER_IS_BETTER);
    eitp_task_release(NULL);
}

static void invalid_tasks_are_refused(void) {
    own o;
    REQUIRE(begin(&o, OWN_ROW));
    check_refused(&o, "context, build and read"); /* the task has no context yet */
    o.task.context = o.context;
    o.task.build = NULL;
    check_refused(&o, "context, build and read");
    o.task.build = own_build;
    o.task.read = NULL;
    check_refused(&o, "context, build and read");
    o.task.read = own_read;
    o.task.rows = 0;
    check_refused(&o, "rows are 0; they must be 1 to 16777216");
    o.task.rows = 16777217;
    check_refused(&o, "rows are 16777217; they must be 1 to 16777216");
    o.task.rows = OWN_ROWS;
    o.task.samples[EITP_TRAINING] = 0;
    check_refused(&o, "no training samples");
    own_end(&o);
}

/* Sets invalid rows and items of a sample, one after the other. */
static eitp_status read_badly(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    own *o = (own *)user;
    const eitp_status status = own_read(user, split, number, sample, why);
    static const int64_t rows[] = {OWN_ROWS - 1, OWN_ROWS + 1, 0, OWN_ROWS + 1, -1};
    if (number == 1 && o->nan_sample < -1)
        sample->rows = rows[-2 - o->nan_sample];
    if (number == 1 && o->nan_sample == -1)
        sample->items[1] = -1;
    return status;
}

static void invalid_samples_are_refused(void) {
    for (int i = 0; i < 6; i++) {
        own o;
        eitp_step_report report;
        REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
        o.task.read = read_badly;
        o.task.rows_vary = i >= 2;
        o.nan_sample = i < 5 ? -2 - i : -1;
        REQUIRE_OK(own_train(&o, &error), error);
        CHECK(eitp_trainer_step(o.trainer, &report, &error) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error.message, "nothing was changed: sample 1 has"), "%s", error.message);
        CHECK_THAT(strstr(error.message, i == 5 ? "-1 items of 'sample'" : "rows"), "%s", error.message);
        CHECK(!eitp_trainer_is_inconsistent(o.trainer) && eitp_trainer_steps_done(o.trainer) == 0);
        own_end(&o);
    }
}

/* ---- Failures of the program's functions ---- */

static void a_failing_build_is_reported(void) {
    own o;
    eitp_evaluation evaluation;
    REQUIRE(begin(&o, OWN_ROW));
    o.build_fails = EITP_ERROR_FORMAT;
    CHECK(own_train(&o, &error) == EITP_ERROR_FORMAT && !strcmp(error.message, "nothing to build with"));
    CHECK(eitp_evaluate(&o.task, EITP_TRAINING, 1, 0, &evaluation, &error) == EITP_ERROR_FORMAT);
    o.build_fails = EITP_OK;
    CHECK_THAT(!own_train(&o, &error), "%s", error.message);
    own_end(&o);
}

static void a_failing_read_changes_nothing(void) {
    float disturbed[2 * OWN_WIDTH], straight[2 * OWN_WIDTH];
    eitp_step_report report;
    eitp_evaluation evaluation;
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE) && end_after(&o, 2, straight, &report));
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    o.read_fails = EITP_ERROR_IO;
    report.step = -7;
    CHECK(eitp_trainer_step(o.trainer, &report, &error) == EITP_ERROR_IO && report.step == -7);
    CHECK_THAT(strstr(error.message, "step 2 failed, and nothing was changed: sample 8 is torn"), "%s", error.message);
    o.reads = 0;
    evaluation.items = -7;
    CHECK(eitp_trainer_evaluate(o.trainer, 0, &evaluation, &error) == EITP_ERROR_IO && evaluation.items == -7);
    CHECK(!eitp_trainer_is_inconsistent(o.trainer) && eitp_trainer_steps_done(o.trainer) == 1);
    o.read_fails = EITP_OK;
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(o.context, "w", 0, disturbed, OWN_WIDTH, &error), error);
    REQUIRE_OK(eitp_variable_read_f32(o.context, "u", 0, disturbed + OWN_WIDTH, OWN_WIDTH, &error), error);
    CHECK(same_bits(disturbed, straight));
    own_end(&o);
}

/* If a read fails without a message, the error names the sample and contains nothing of an earlier error. */
static void a_silent_read_is_named(void) {
    eitp_step_report report;
    own o;
    REQUIRE(begin(&o, OWN_ROW | OWN_SAMPLE));
    REQUIRE_OK(own_train(&o, &error), error);
    o.read_fails = EITP_ERROR_IO;
    o.is_silent = 1;
    memset(error.message, 'x', sizeof error.message); /* not even terminated, like an uninitialized variable */
    CHECK(eitp_trainer_step(o.trainer, &report, &error) == EITP_ERROR_IO && error.status == EITP_ERROR_IO);
    CHECK(!strcmp(error.message, "step 1 failed, and nothing was changed: the task's read failed on sample 2 without a "
                                 "message"));
    own_end(&o);
}

static void a_failing_resume_changes_nothing(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    int64_t newest = 0;
    eitp_step_report report;
    own o;
    REQUIRE(scratch_make(directory) && begin(&o, OWN_ROW));
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    o.save_fails = EITP_ERROR_IO;
    CHECK(eitp_trainer_save(o.trainer, directory, &error) == EITP_ERROR_IO && strstr(error.message, "labels"));
    o.save_fails = EITP_OK;
    o.identify_fails = EITP_ERROR_FORMAT;
    CHECK(eitp_trainer_save(o.trainer, directory, &error) == EITP_ERROR_FORMAT && strstr(error.message, "no name"));
    CHECK(!eitp_checkpoint_newest(&host, directory, &newest, &error) && newest == -1);
    o.identify_fails = EITP_OK;
    o.identity.count = (uint64_t)1 << 63;
    CHECK(eitp_trainer_save(o.trainer, directory, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "identify"));
    o.identity.count = OWN_SAMPLES;
    REQUIRE_OK(eitp_trainer_save(o.trainer, directory, &error), error);
    o.identify_fails = EITP_ERROR_FORMAT;
    CHECK(eitp_trainer_resume(o.trainer, scratch_path(directory, "checkpoint-1"), &error) == EITP_ERROR_FORMAT);
    CHECK(!eitp_trainer_is_inconsistent(o.trainer) && !eitp_trainer_step(o.trainer, &report, &error));
    o.identify_fails = EITP_OK;
    CHECK_THAT(!eitp_trainer_resume(o.trainer, scratch_path(directory, "checkpoint-1"), &error), "%s", error.message);
    CHECK(eitp_trainer_steps_done(o.trainer) == 1);
    own_end(&o);
    scratch_remove(directory);
}

/* The task determines the identity of the data. */
static void a_checkpoint_of_other_data_is_refused(void) {
    static const char *const words[] = {"which had 23 items, and this run has 22",
                                        "started after 0 items; this run's data start after 1",
                                        "the same number of items, but different content"};
    char directory[512];
    eitp_step_report report;
    own o;
    REQUIRE(scratch_make(directory) && begin(&o, OWN_ROW));
    REQUIRE_OK(own_train(&o, &error), error);
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error), error);
    REQUIRE_OK(eitp_trainer_save(o.trainer, directory, &error), error);
    for (int i = 0; i < 3; i++) {
        const eitp_task_identity same = o.identity;
        o.identity.count -= i == 0;
        o.identity.first += i == 1;
        o.identity.hash += i == 2 ? (uint64_t)1 << 40 : 0;
        CHECK(eitp_trainer_resume(o.trainer, scratch_path(directory, "checkpoint-1"), &error) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error.message, words[i]), "%s", error.message);
        o.identity = same;
    }
    CHECK(!eitp_trainer_is_inconsistent(o.trainer));
    CHECK_THAT(!eitp_trainer_resume(o.trainer, scratch_path(directory, "checkpoint-1"), &error), "%s", error.message);
    own_end(&o);
    scratch_remove(directory);
}

static eitp_status work_with(own *o, const eitp_host *host) {
    eitp_evaluation evaluation;
    eitp_status status = own_begin(o, host, "fp32", OWN_ROW | OWN_SAMPLE | OWN_METRICS, &error);
    if (!status)
        status = own_train(o, &error);
    return status ? status : eitp_evaluate(&o->task, EITP_TRAINING, 4, 0, &evaluation, &error);
}

static void every_failed_allocation_is_an_error(void) {
    faults f;
    for (long n = 1;; n++) {
        own o;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = work_with(&o, &f.host);
        CHECK_THAT(status == (f.allocations >= n ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n,
                   error.message);
        own_end(&o);
        if (!faults_end(&f))
            break;
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(loss_and_gradient_match_the_weighted_sum),
        TEST(two_terms_equal_their_explicit_sum),
        TEST(a_weight_of_zero_disables_a_term),
        TEST(a_single_value_is_the_sum_of_its_rows),
        TEST(a_term_without_items_changes_nothing),
        TEST(gaps_and_unused_samples_hold_empty),
        TEST(micro_batches_per_pass_change_no_bit),
        TEST(a_task_without_gaps_refuses_passes_that_need_padding_rows),
        TEST(shrinking_respects_gaps_and_sums_over_samples),
        TEST(a_program_sets_rates_and_is_notified_of_steps),
        TEST(invalid_builds_are_refused),
        TEST(functions_of_passes_accept_null),
        TEST(invalid_tasks_are_refused),
        TEST(invalid_samples_are_refused),
        TEST(a_failing_build_is_reported),
        TEST(a_failing_read_changes_nothing),
        TEST(a_silent_read_is_named),
        TEST(a_failing_resume_changes_nothing),
        TEST(a_checkpoint_of_other_data_is_refused),
        TEST(every_failed_allocation_is_an_error),
    };
    return RUN_TESTS(tests, argc, argv);
}
