/* Variables that belong to others are identified by their relation, never by their name. */
#include "tests/support/graphs.h"

static eitp_error error_;

enum { ROWS = 6, COLUMNS = 4, ELEMENTS = ROWS * COLUMNS };
static const int64_t matrix[2] = {ROWS, COLUMNS};

typedef struct fixture {
    eitp_context *context;
    eitp_graph *graph;
} fixture;

static fixture begin(const char *precision) {
    fixture f;
    f.context = open_context_in(precision, "ref", 1);
    f.graph = NULL;
    CHECK(eitp_graph_create(f.context, &f.graph, &error_) == EITP_OK);
    return f;
}

static void end(fixture *f) {
    eitp_graph_destroy(f->graph);
    eitp_context_destroy(f->context);
}

static eitp_tensor *parameter(const fixture *f, const char *name) {
    return eitp_variable_tensor(f->graph, name, EITP_PARAMETER, eitp_context_precision(f->context), 2, matrix);
}

static eitp_variable described(const fixture *f, const char *name) {
    return eitp_variable_at(f->context, (size_t)eitp_variable_find(f->context, name));
}

static void children_say_whose_they_are(void) {
    fixture f = begin("bf16");
    eitp_tensor *w = parameter(&f, "w");
    eitp_variable gradient, remainder;
    CHECK(eitp_gradient_variable(w) && eitp_gradient_variable(w) == eitp_gradient_variable(w));
    remainder_variable(w, EITP_I16);
    gradient = described(&f, "gradient.w");
    remainder = described(&f, "remainder.w");
    CHECK(described(&f, "w").parent == -1 && !*described(&f, "w").kind);
    CHECK(gradient.parent == w->variable && !strcmp(gradient.kind, "gradient") && gradient.role == EITP_GRADIENT);
    CHECK(gradient.dtype == EITP_F32 && gradient.shape[0] == ROWS);
    CHECK(remainder.parent == w->variable && !strcmp(remainder.kind, "remainder"));
    CHECK(eitp_variable_count(f.context) == 3);
    end(&f);
}

static void only_a_parameter_has_a_gradient(void) {
    fixture f = begin("fp32");
    CHECK(!eitp_gradient_variable(NULL));
    CHECK(!eitp_gradient_variable(eitp_input(f.graph, "x", EITP_F32, 2, matrix)));
    CHECK(eitp_graph_status(f.graph, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "only parameters"));
    end(&f);
}

/* A program's variable that has the name of a remainder is not a remainder. */
static void namesakes_are_not_removed(void) {
    fixture f = begin("bf16");
    float values[ELEMENTS], read[ELEMENTS];
    eitp_tensor *w = parameter(&f, "w");
    eitp_variable_tensor(f.graph, "remainder.w", EITP_CACHE, EITP_I16, 2, matrix);
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = 1.0009765625f + (float)i;
    REQUIRE_OK(eitp_variable_write_f32(f.context, "w", 0, values, ELEMENTS, &error_), error_);
    REQUIRE_OK(eitp_variable_read_f32(f.context, "w", 0, read, ELEMENTS, &error_), error_);
    CHECK_THAT(read[0] == 1.0f, "%.9g", (double)read[0]);
    /* Nor can the remainder be created under this name. */
    CHECK(!remainder_variable(w, EITP_I16));
    CHECK(eitp_graph_status(f.graph, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "'remainder.w'"), "%s", error_.message);
    end(&f);
}

/* Makes one step of SGD from gradients of 1. One parameter has the name of rows of the other's gradient. */
static void a_namesake_is_no_gradient(void) {
    fixture f = begin("fp32");
    eitp_optimizer_config config = eitp_optimizer_config_default();
    const float rate_and_step[2] = {0.5f, 1}, no_limit = 0;
    float read[ELEMENTS];
    eitp_update update;
    eitp_plan *plan = NULL;
    eitp_tensor *w = parameter(&f, "w");
    parameter(&f, "gradient_rows.7.w");
    parameter(&f, "gradient.v");
    parameter(&f, "v");
    eitp_gradient_variable(w);
    config.optimizer = EITP_SGD;
    config.weight_decay = 0;
    REQUIRE_OK(eitp_apply_gradients(f.graph, &config, &update, &error_), error_);
    REQUIRE_OK(eitp_plan_create(f.graph, &plan, &error_), error_);
    REQUIRE_OK(eitp_variable_fill(f.context, "gradient.w", 1, &error_), error_);
    REQUIRE_OK(eitp_variable_fill(f.context, "gradient.v", 1, &error_), error_);
    REQUIRE_OK(eitp_plan_write(plan, update.rate_and_step, rate_and_step, sizeof rate_and_step, &error_), error_);
    REQUIRE_OK(eitp_plan_write(plan, update.max_norm, &no_limit, sizeof no_limit, &error_), error_);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    REQUIRE_OK(eitp_variable_read_f32(f.context, "w", 0, read, ELEMENTS, &error_), error_);
    CHECK(read[0] == -0.5f && read[ELEMENTS - 1] == -0.5f);
    REQUIRE_OK(eitp_variable_read_f32(f.context, "v", 0, read, ELEMENTS, &error_), error_);
    CHECK(read[0] == 0);
    eitp_plan_destroy(plan);
    end(&f);
}

/* Freezing removes a remainder in the middle of the list. Other parameters keep theirs. */
static void removing_a_child_keeps_the_others(void) {
    enum { COUNT = 4 };
    fixture f = begin("bf16");
    char name[24];
    float value = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "w%d", i);
        remainder_variable(parameter(&f, name), EITP_I16);
        REQUIRE_OK(eitp_variable_fill(f.context, name, 1.0009765625 + i, &error_), error_);
    }
    eitp_graph_destroy(f.graph);
    f.graph = NULL;
    for (int frozen = 0; frozen < COUNT; frozen++) {
        snprintf(name, sizeof name, "w%d", frozen);
        REQUIRE_OK(eitp_variable_set_trained(f.context, name, 0, &error_), error_);
        for (int i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, "w%d", i);
            REQUIRE_OK(eitp_variable_read_f32(f.context, name, 1, &value, 1, &error_), error_);
            CHECK_THAT((value == 1.0009765625f + (float)i) == (i > frozen), "w%d after w%d is frozen: %.9g", i, frozen,
                       (double)value);
        }
    }
    CHECK(eitp_variable_count(f.context) == COUNT);
    end(&f);
}

static void a_child_whose_name_is_too_long_is_refused(void) {
    fixture f = begin("fp32");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(!eitp_gradient_variable(parameter(&f, name)));
    CHECK(eitp_graph_status(f.graph, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "too long: the name of its gradient"), "%s", error_.message);
    end(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(children_say_whose_they_are),       TEST(only_a_parameter_has_a_gradient),
        TEST(namesakes_are_not_removed),         TEST(a_namesake_is_no_gradient),
        TEST(removing_a_child_keeps_the_others), TEST(a_child_whose_name_is_too_long_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
