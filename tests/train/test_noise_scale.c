/* The gradient noise scale: its estimate, the gradients it reads, and its use by the trainer in reports and
   checkpoints. */
#include "tests/support/own_task.h"

/* ---- The estimate ---- */

/* Expected norms for |G|^2 = 3 and tr(C) = 24. */
static eitp__noise_norms expected_norms(int64_t part, int64_t samples) {
    eitp__noise_norms norms = EITP__ZERO;
    norms.part_samples = part;
    norms.samples = samples;
    norms.part_squares = 3 + 24.0 / (double)part;
    norms.squares = 3 + 24.0 / (double)samples;
    return norms;
}

static void two_norms_give_the_noise_scale(void) {
    static const int64_t samples[][2] = {{1, 2}, {1, 64}, {3, 7}, {32, 64}, {63, 64}};
    eitp__noise_scale scale = EITP__ZERO;
    CHECK(eitp__noise_scale_value(&scale) < 0);
    for (size_t i = 0; i < EITP__COUNT(samples); i++) {
        const eitp__noise_norms norms = expected_norms(samples[i][0], samples[i][1]);
        eitp__noise_scale_add(&scale, &norms);
        CHECK_THAT(fabs(eitp__noise_scale_value(&scale) - 8) < 1e-9, "%g", eitp__noise_scale_value(&scale));
    }
    CHECK(scale.count == 5);
}

/* Numerator and denominator are averaged, not their quotients. Without a remaining signal the result is unknown. */
static void means_are_of_numerator_and_denominator(void) {
    eitp__noise_scale scale = EITP__ZERO;
    eitp__noise_norms norms = expected_norms(1, 3);
    norms.part_squares = 10;
    norms.squares = 4; /* |G|^2 = (3 * 4 - 10) / 2 = 1, tr(C) = 6 / (1 - 1 / 3) = 9 */
    eitp__noise_scale_add(&scale, &norms);
    CHECK(fabs(eitp__noise_scale_value(&scale) - 9) < 1e-9);
    norms.squares = 2; /* -2, 12 */
    eitp__noise_scale_add(&scale, &norms);
    CHECK(eitp__noise_scale_value(&scale) < 0);
    for (int i = 0; i < 400; i++)
        eitp__noise_scale_add(&scale, &norms);
    norms.part_squares = norms.squares = 20; /* without noise */
    eitp__noise_scale_add(&scale, &norms);
    CHECK_THAT(fabs(scale.signal - (0.05 * 20 - 0.95 * 2)) < 1e-6 && fabs(scale.noise - 0.95 * 12) < 1e-6, "%g %g",
               scale.signal, scale.noise);
    for (int i = 0; i < 400; i++)
        eitp__noise_scale_add(&scale, &norms);
    CHECK(eitp__noise_scale_value(&scale) < 1e-6);
}

/* ---- Gradients ---- */

/*
 * If all samples are the same, the first pass has the gradient of the step, so the norm read after it must equal the
 * norm computed by the update. Covers tied embeddings with several terms and separate rows, 16 bits, and offloaded
 * variables.
 */
static void what_is_read_is_the_gradient(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int way = 0; way < 6; way++) {
        static const char *const precisions[] = {"fp32", "fp32", "bf16", "fp16", "fp32", "fp32"};
        const double tolerance = way == 2 || way == 3 ? 2e-2 : 1e-4;
        variant v = default_variant();
        eitp_step_report report;
        double signal;
        run r;
        v.precision = precisions[way];
        v.grad_accum = way == 1 ? 3 : 2;
        v.micro_batches_per_pass = 1;
        v.dropout = 0;
        v.lora_rank = way == 4 ? 2 : 0;
        v.offload = way == 5 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        r.trainer->plans.task.samples[EITP_TRAINING] = 1;
        r.trainer->plans.config.noise_scale_every = 1;
        r.trainer->loss_scale = way == 3 ? 1024 : 1;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        signal = r.trainer->noise_scale.signal / (1 - EITP__NOISE_SCALE_KEPT);
        CHECK_THAT(fabs(signal / report.grad_norm / report.grad_norm - 1) < tolerance, "way %d: %.9g instead of %.9g",
                   way, sqrt(signal), report.grad_norm);
        CHECK_THAT(report.noise_scale >= 0 && report.noise_scale < 10 * tolerance && !report.noise_scale_unknown,
                   "way %d: %g", way, report.noise_scale);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* The gradient of a parameter that is used several times is the sum of several variables. */
static void terms_are_summed(void) {
    enum { ELEMENTS = 600 };
    static float a[ELEMENTS], b[ELEMENTS];
    const eitp_context_config config = eitp_context_config_default();
    const int64_t shape[] = {ELEMENTS};
    double expected = 0, squares = 0;
    eitp_tensor *w, *inputs[2], *loss;
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 11) - 4;
        expected += (double)(a[i] + b[i]) * (double)(a[i] + b[i]);
    }
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    w = eitp_parameter(graph, "w", 1, shape);
    inputs[0] = eitp_input(graph, "a", EITP_F32, 1, shape);
    inputs[1] = eitp_input(graph, "b", EITP_F32, 1, shape);
    loss = eitp_add(eitp_sum(eitp_multiply(w, inputs[0]), EITP_ALL_DIMENSIONS, 0),
                    eitp_sum(eitp_multiply(w, inputs[1]), EITP_ALL_DIMENSIONS, 0));
    REQUIRE_OK(eitp__accumulate_gradient_terms(loss, EITP__TASK_GRADIENT, NULL, &error_), error_);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    REQUIRE_OK(eitp_variable_fill(context, "w", 1, &error_), error_);
    REQUIRE_OK(eitp_plan_write(plan, inputs[0], a, sizeof a, &error_), error_);
    REQUIRE_OK(eitp_plan_write(plan, inputs[1], b, sizeof b, &error_), error_);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    REQUIRE_OK(eitp__accumulated_squares(context, NULL, 0, 0, &squares, &error_), error_);
    CHECK_THAT(squares == expected, "%.17g instead of %.17g", squares, expected);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- A task whose noise scale is known ---- */

enum { MANY_SAMPLES = 4096, PART = 64, PASSES = 4, KNOWN_STEPS = 60 };

/* Computes the gradient of a sample of OWN_ROW at the initial weights by hand. */
static void sample_gradient(const own *o, uint64_t number, double *gradient) {
    memset(gradient, 0, OWN_WIDTH * sizeof *gradient);
    for (int64_t row = 0; row < OWN_ROWS; row++) {
        const double miss = own_predict(EITP_TRAINING, number, row) - (double)own_target(o, EITP_TRAINING, number, row);
        for (int64_t i = 0; i < OWN_WIDTH; i++)
            gradient[i] += 2 * miss * (double)own_input(EITP_TRAINING, number, row, i) / OWN_ROWS;
    }
}

/* The squared norm of the mean gradient of samples. */
static double mean_squares(const own *o, uint64_t first, uint64_t count) {
    double sum[OWN_WIDTH] = EITP__ZERO, squares = 0;
    for (uint64_t n = first; n < first + count; n++) {
        double gradient[OWN_WIDTH];
        sample_gradient(o, n % MANY_SAMPLES, gradient);
        for (int i = 0; i < OWN_WIDTH; i++)
            sum[i] += gradient[i] / (double)count;
    }
    for (int i = 0; i < OWN_WIDTH; i++)
        squares += sum[i] * sum[i];
    return squares;
}

/* tr(C) / |G|^2 over all samples. */
static double true_noise_scale(const own *o) {
    const double signal = mean_squares(o, 0, MANY_SAMPLES);
    double squares = 0;
    for (uint64_t n = 0; n < MANY_SAMPLES; n++)
        squares += mean_squares(o, n, 1) / MANY_SAMPLES;
    return (squares - signal) / signal;
}

static int begin_known(own *o) {
    const eitp_host host = eitp_host_default();
    if (own_begin(o, &host, "fp32", OWN_ROW, &error_))
        return 0;
    o->task.samples[EITP_TRAINING] = MANY_SAMPLES;
    o->config.batch_size = PART;
    o->config.grad_accum = PASSES;
    o->config.micro_batches_per_pass = 1;
    o->config.schedule.peak = 0; /* the weights do not change */
    o->config.noise_scale_every = 1;
    return !own_train(o, &error_);
}

/* Each measurement matches gradients computed by hand, and on average the measurements give the noise scale. */
static void a_known_noise_scale_is_found(void) {
    eitp__noise_scale by_hand = EITP__ZERO;
    double sums[2] = {0, 0}, found, known;
    own o;
    REQUIRE(begin_known(&o));
    known = true_noise_scale(&o);
    for (uint64_t step = 0; step < KNOWN_STEPS; step++) {
        const double part = mean_squares(&o, step * PART * PASSES, PART);
        const double whole = mean_squares(&o, step * PART * PASSES, PART * PASSES);
        eitp_step_report report;
        REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error_), error_);
        sums[0] += (4 * whole - part) / 3;
        sums[1] += (part - whole) / (1.0 / PART - 1.0 / (PART * PASSES));
        by_hand.signal = 0.95 * by_hand.signal + 0.05 * (4 * whole - part) / 3;
        by_hand.noise = 0.95 * by_hand.noise + 0.05 * (part - whole) / (1.0 / PART - 1.0 / (PART * PASSES));
        CHECK_THAT(own_near(o.trainer->noise_scale.signal, by_hand.signal, 1e-5) &&
                       own_near(o.trainer->noise_scale.noise, by_hand.noise, 1e-5),
                   "step %d: %g, %g instead of %g, %g", (int)step + 1, o.trainer->noise_scale.signal,
                   o.trainer->noise_scale.noise, by_hand.signal, by_hand.noise);
    }
    found = o.trainer->noise_scale.noise / o.trainer->noise_scale.signal;
    CHECK_THAT(fabs(sums[1] / sums[0] / known - 1) < 0.15, "%g of %g", sums[1] / sums[0], known);
    CHECK_THAT(fabs(found / known - 1) < 0.4, "%g of %g", found, known);
    own_end(&o);
}

/* ---- Steps ---- */

static void only_steps_that_are_asked_for_measure(void) {
    eitp_step_report report;
    own o;
    REQUIRE(begin_known(&o));
    o.trainer->plans.config.noise_scale_every = 3;
    for (int step = 1; step <= 6; step++) {
        REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error_), error_);
        CHECK((report.noise_scale >= 0) == (step % 3 == 0) && !report.noise_scale_unknown);
    }
    CHECK(o.trainer->noise_scale.count == 2);
    o.nan_sample = 6 * PART * PASSES + 1;
    o.trainer->plans.config.noise_scale_every = 7;
    REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error_), error_);
    CHECK(!report.applied && report.noise_scale < 0);
    CHECK_THAT(report.noise_scale_unknown && strstr(report.noise_scale_unknown, "not applied"), "%s",
               report.noise_scale_unknown ? report.noise_scale_unknown : "no reason");
    CHECK(o.trainer->noise_scale.count == 2);
    own_end(&o);
}

static void a_single_pass_has_a_reason(void) {
    for (int keeps = 0; keeps < 2; keeps++) {
        eitp_step_report report;
        own o;
        const eitp_host host = eitp_host_default();
        REQUIRE_OK(own_begin(&o, &host, "fp32", OWN_ROW, &error_), error_);
        o.config.grad_accum = o.config.micro_batches_per_pass = 2;
        o.config.noise_scale_every = 1;
        o.config.keep_gradients = keeps;
        REQUIRE_OK(own_train(&o, &error_), error_);
        REQUIRE_OK(eitp_trainer_step(o.trainer, &report, &error_), error_);
        CHECK(report.applied && report.noise_scale < 0 && !o.trainer->noise_scale.count);
        CHECK(report.noise_scale_unknown && strstr(report.noise_scale_unknown, "single pass"));
        own_end(&o);
    }
}

/* ---- Bits ---- */

/* Trains 6 steps, and saves and resumes after 3 if `resumes`. Sets *bits to the fingerprint of the weights. */
static void train_six(const char *directory, int64_t every, int resumes, eitp__noise_scale *scale, uint32_t *bits) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    run r;
    v.micro_batches_per_pass = 1;
    v.grad_accum = 3;
    for (int part = 0; part <= resumes; part++) {
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        r.trainer->plans.config.noise_scale_every = every;
        if (part)
            REQUIRE_OK(eitp_trainer_resume(r.trainer, scratch_path(directory, "out/checkpoint-3"), &error_), error_);
        r.trainer->plans.config.noise_scale_every = every;
        for (int step = 0; step < (resumes ? 3 : 6); step++) {
            eitp_step_report report;
            REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        }
        if (!part && resumes)
            REQUIRE_OK(eitp_trainer_save(r.trainer, scratch_path(directory, "out"), &error_), error_);
        *scale = r.trainer->noise_scale;
        *bits = fingerprint(&r);
        end_run(&r);
    }
}

static void bits_do_not_depend_on_it_and_resume(void) {
    eitp__noise_scale none = EITP__ZERO, whole = EITP__ZERO, resumed = EITP__ZERO;
    uint32_t bits[3] = {0, 1, 2};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    train_six(directory, 0, 0, &none, &bits[0]);
    train_six(directory, 2, 0, &whole, &bits[1]);
    train_six(directory, 2, 1, &resumed, &bits[2]);
    CHECK(bits[0] == bits[1] && bits[0] == bits[2]);
    CHECK(!none.count && whole.count == 3);
    CHECK_THAT(!memcmp(&whole, &resumed, sizeof whole), "%lld: %.17g %.17g, %lld: %.17g %.17g", (long long)whole.count,
               whole.signal, whole.noise, (long long)resumed.count, resumed.signal, resumed.noise);
    scratch_remove(directory);
}

static void a_damaged_state_is_refused(void) {
    static const char *const texts[] = {"{\"noise_scale\": {\"count\": 0}}", "{\"noise_scale\": {\"count\": -1}}",
                                        "{\"noise_scale\": {\"count\": 1, \"signal\": \"x\"}}",
                                        "{\"noise_scale\": {\"count\": 1, \"noise\": {}}}", "{\"noise_scale\": 7}"};
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        eitp_json_document *document;
        eitp__noise_scale scale;
        REQUIRE_OK(eitp_json_parse(&host, texts[i], strlen(texts[i]), &document, &error_), error_);
        CHECK_THAT(eitp__noise_scale_read(&scale, eitp_json_root(document), &error_) == EITP_ERROR_FORMAT, "%s",
                   texts[i]);
        eitp_json_release(document);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(two_norms_give_the_noise_scale), TEST(means_are_of_numerator_and_denominator),
        TEST(what_is_read_is_the_gradient),   TEST(terms_are_summed),
        TEST(a_known_noise_scale_is_found),   TEST(only_steps_that_are_asked_for_measure),
        TEST(a_single_pass_has_a_reason),     TEST(bits_do_not_depend_on_it_and_resume),
        TEST(a_damaged_state_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
