/* Finding the op that produced the first value that is not finite. */
#include "tests/support/trainer_run.h"

enum { ELEMENTS = 4 };

/* Executes the graph of a function of x [4] with the search enabled. Returns the message of the finding. */
static const char *finding_of(eitp_tensor *(*build)(eitp_tensor *x), const float *x, eitp_nonfinite *found) {
    static char text[500];
    const int64_t four = ELEMENTS;
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *input;
    eitp_status status;
    config.device = "auto";
    config.threads = 1;
    status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = eitp_graph_create(context, &graph, &error_);
    input = status ? NULL : eitp_input(graph, "x", EITP_F32, 1, &four);
    if (!status && eitp_output(build(input)))
        status = eitp_plan_create(graph, &plan, &error_);
    if (!status)
        status = eitp_graph_status(graph, &error_);
    if (!status)
        status = eitp_plan_write(plan, input, x, ELEMENTS * sizeof *x, &error_);
    eitp_context_check_finite(context, found);
    if (!status)
        status = eitp_plan_execute(plan, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    eitp_nonfinite_format(found, text, sizeof text);
    eitp_context_check_finite(context, NULL);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return text;
}

static eitp_tensor *build_log(eitp_tensor *x) {
    return eitp_sum(eitp_exp(eitp_log(eitp_affine(x, 2, 0))), EITP_ALL_DIMENSIONS, 0);
}

static eitp_tensor *build_softmax(eitp_tensor *x) {
    return eitp_sum(eitp_softmax(eitp_affine(x, 2, 0)), EITP_ALL_DIMENSIONS, 0);
}

/* A mask computed from constants: -inf where x is below 0. */
static eitp_tensor *build_mask(eitp_tensor *x) {
    const int64_t four = ELEMENTS;
    eitp_graph *graph = x->graph;
    eitp_tensor *zero = eitp_fill(graph, EITP_F32, 1, &four, 0);
    eitp_tensor *masked = eitp_where(eitp_less(x, zero), eitp_fill(graph, EITP_F32, 1, &four, -HUGE_VAL), x);
    return eitp_sum(eitp_softmax(masked), EITP_ALL_DIMENSIONS, 0);
}

static void a_logarithm_of_zero_is_named(void) {
    const float x[ELEMENTS] = {1, 2, 0, 4}, fine[ELEMENTS] = {1, 2, 3, 4};
    eitp_nonfinite found;
    const char *text = finding_of(build_log, x, &found);
    CHECK_THAT(!strcmp(text, "op log made -inf from finite values, in element 2 of its result (f32 [4])"), "%s", text);
    CHECK(found.op && !strcmp(found.op, "log") && found.index == 2 && found.rank == 1 && found.shape[0] == 4);
    text = finding_of(build_log, fine, &found);
    CHECK_THAT(!*text && !found.op, "%s", text);
}

/* A mask of -inf is intended. A mask that hides everything, or a NaN, is an error. */
static void masks_are_accepted(void) {
    const float negative = -(float)HUGE_VAL, nan = (float)NAN;
    const float mask[ELEMENTS] = {1, negative, 2, negative}, all[ELEMENTS] = {negative, negative, negative, negative};
    const float bad[ELEMENTS] = {1, nan, 2, negative}, signs[ELEMENTS] = {1, -1, 2, -3};
    eitp_nonfinite found;
    const char *text = finding_of(build_softmax, mask, &found);
    CHECK_THAT(!*text, "%s", text);
    text = finding_of(build_mask, signs, &found);
    CHECK_THAT(!*text, "%s", text);
    text = finding_of(build_softmax, all, &found);
    CHECK_THAT(strstr(text, "made NaN") && !strncmp(text, "op softmax", 10), "%s", text);
    text = finding_of(build_softmax, bad, &found);
    CHECK_THAT(!strncmp(text, "'x' (f32 [4]) holds NaN in element 1, first read by op ", 55), "%s", text);
}

static void null_is_fine(void) {
    char text[8] = "before";
    eitp_nonfinite found;
    memset(&found, 0, sizeof found);
    eitp_context_check_finite(NULL, &found);
    eitp_nonfinite_format(NULL, text, sizeof text);
    CHECK(!*text);
    eitp_nonfinite_format(&found, NULL, 0);
    found.op = "log";
    eitp_nonfinite_format(&found, text, sizeof text);
    CHECK(!strcmp(text, "op log "));
}

/* ---- Training ---- */

static const char weight_name[] = "transformer.h.1.mlp.c_fc.weight";

/* Makes one step with an element of a layer 1 weight set to `value`. Returns the message of the finding. */
static const char *step_with(const variant *v, const char *name, float value, eitp_step_report *report) {
    static char text[500];
    const eitp_host host = eitp_host_default();
    eitp_nonfinite found;
    char directory[512];
    run r;
    text[0] = 0;
    if (!scratch_make(directory) || !write_text(directory) || make_run(&r, &host, v, directory, &error_)) {
        CHECK_THAT(0, "%s", error_.message);
        return text;
    }
    eitp_context_check_finite(r.context, &found);
    if (name) {
        const eitp_variable variable = eitp_variable_at(r.context, (size_t)eitp_variable_find(r.context, name));
        const uint16_t half = variable.dtype == EITP_BF16 ? eitp__f32_to_bf16(value) : eitp__f32_to_f16(value);
        const int wide = variable.dtype == EITP_F32;
        CHECK(!eitp_variable_write(r.context, name, 0, wide ? (const void *)&value : (const void *)&half,
                                   wide ? sizeof value : sizeof half, &error_));
    }
    for (int i = 0; i < (name ? 1 : 3); i++)
        CHECK_THAT(!eitp_trainer_step(r.trainer, report, &error_), "%s", error_.message);
    eitp_nonfinite_format(&found, text, sizeof text);
    end_run(&r);
    scratch_remove(directory);
    return text;
}

/* A sound step has no finding, also with padding and partial passes, and its results are unchanged. */
static void sound_steps_have_none(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        for (int way = 0; way < 3; way++) {
            variant v = default_variant();
            eitp_step_report report;
            const char *text;
            v.precision = precisions[p];
            v.micro_batches_per_pass = way ? 1 : 2;
            v.grad_accum = 3;
            v.last_sample = way == 2 ? 15 : 0; /* the third step has fewer samples */
            v.block_size = way == 2 ? 31 : 32;
            text = step_with(&v, NULL, 0, &report);
            if (p == 2 && !report.applied) /* an overflow of the scaled gradient */
                continue;
            CHECK_THAT(!*text || report.skipped, "%s, way %d: %s", precisions[p], way, text);
        }
    }
}

static void a_weight_that_is_infinite_is_named(void) {
    variant v = default_variant();
    eitp_step_report report;
    const char *text = step_with(&v, weight_name, (float)HUGE_VAL, &report);
    CHECK(!report.applied);
    CHECK_THAT(strstr(text, "'transformer.h.1.mlp.c_fc.weight' (f32 [") && strstr(text, "holds inf in element 0") &&
                   strstr(text, "first read by op matmul"),
               "%s", text);
    v.precision = "bf16";
    text = step_with(&v, weight_name, (float)NAN, &report);
    CHECK_THAT(strstr(text, "'transformer.h.1.mlp.c_fc.weight' (bf16 [") && strstr(text, "holds NaN in element 0"),
               "%s", text);
}

/* A weight that fits in fp16 although its products do not. If the activation is fused into the product, the result
   may be NaN. */
static void an_overflow_of_fp16_is_named(void) {
    variant v = default_variant();
    eitp_step_report report;
    const char *text;
    v.precision = "fp16";
    text = step_with(&v, weight_name, 65504, &report);
    CHECK(!report.applied);
    CHECK_THAT(!strncmp(text, "op matmul at 'transformer.h.1.mlp.", 34) && strstr(text, " from finite values") &&
                   strstr(text, "(f16 ["),
               "%s", text);
}

static eitp_status build_root(void *user, eitp_pass *pass, eitp_error *error) {
    const int64_t one[] = {1};
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, one, 0);
    eitp_tensor *w = eitp_parameter(graph, "root", 1, one);
    (void)user;
    eitp_pass_term(pass, "loss", eitp_sqrt(eitp_multiply(x, w)), NULL);
    return eitp_graph_status(graph, error);
}

static eitp_status read_root(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    (void)user;
    (void)split;
    (void)number;
    (void)error;
    *(float *)sample->values[0] = 1;
    return EITP_OK;
}

/* The square root of a parameter that is 0: the loss is finite, its gradient is not. */
static void the_backward_pass_is_searched(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_trainer_config training = eitp_trainer_config_default();
    eitp_task task = EITP__ZERO;
    eitp_trainer *trainer = NULL;
    eitp_step_report report;
    eitp_nonfinite found;
    char text[500];
    config.device = "auto";
    config.threads = 1;
    REQUIRE_OK(eitp_context_create(&config, &task.context, &error_), error_);
    task.rows = 1;
    task.samples[EITP_TRAINING] = 100;
    task.build = build_root;
    task.read = read_root;
    REQUIRE_OK(eitp_trainer_create(&task, &training, &trainer, &error_), error_);
    eitp_context_check_finite(task.context, &found);
    REQUIRE_OK(eitp_trainer_step(trainer, &report, &error_), error_);
    eitp_nonfinite_format(&found, text, sizeof text);
    CHECK(isfinite(report.loss) && !report.applied);
    CHECK_THAT(found.op && strcmp(found.op, "sqrt") && strstr(text, "inf from finite values"), "%s", text);
    eitp_trainer_destroy(trainer);
    eitp_context_destroy(task.context);
}

/* The search changes no results. */
static void results_are_the_same(void) {
    uint32_t bits[2];
    for (int searches = 0; searches < 2; searches++) {
        const eitp_host host = eitp_host_default();
        variant v = default_variant();
        eitp_nonfinite found;
        char directory[512];
        run r;
        REQUIRE(scratch_make(directory) && write_text(directory));
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        if (searches)
            eitp_context_check_finite(r.context, &found);
        CHECK(step_many(&r, 3, NULL));
        bits[searches] = fingerprint(&r);
        end_run(&r);
        scratch_remove(directory);
    }
    CHECK(bits[0] == bits[1]);
}

static const test_case tests[] = {
    TEST(a_logarithm_of_zero_is_named),
    TEST(masks_are_accepted),
    TEST(null_is_fine),
    TEST(sound_steps_have_none),
    TEST(a_weight_that_is_infinite_is_named),
    TEST(an_overflow_of_fp16_is_named),
    TEST(the_backward_pass_is_searched),
    TEST(results_are_the_same),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
