/*
 * Limits and profiles: results agree with known values, and measuring does not change results. Durations are never
 * checked.
 */
#include "tests/support/transformer.h"

#include "tests/support/faults.h"

/* ---- Limits ---- */

static void loops_compute_what_they_count(void) {
    /* Growth of each sum in a round: 0.5 * 0.5, twice in pairs, 32 times in a tile. */
    static const double steps[EITP__ISA_COUNT] = {0, 0.25, 0.25, 0.5, 8};
    static const int sixth[EITP__ISA_COUNT] = {20, 40, 80, 80, 0}; /* scratch offset of the sixth sum; 0: not checked */
    for (int isa = 0; isa < EITP__ISA_COUNT; isa++) {
        eitp__peak peak = eitp__peak_of((eitp__isa)isa, EITP_BF16);
        const uint32_t halves = isa >= EITP__ISA_AVX512BF16 ? 0x3f003f00u : 0x3f000000u;
        float scratch[EITP__PEAK_SCRATCH], start;
        REQUIRE(peak.run);
        CHECK(peak.flops > 0 && eitp__peak_of((eitp__isa)isa, EITP_F32).flops > 0);
        CHECK(!eitp__peak_of((eitp__isa)isa, EITP_I32).run);
        if (!eitp__isa_available((eitp__isa)isa))
            continue;
        for (int i = 0; i < EITP__PEAK_SCRATCH; i++)
            memcpy(&scratch[i], &halves, sizeof halves);
        start = isa == EITP__ISA_AMX ? 0 : scratch[0];
        if (sixth[isa])
            scratch[sixth[isa]] = 2;
        peak.run(3, scratch);
        if (isa == EITP__ISA_REF)
            CHECK(scratch[0] == 0.9375f && scratch[47] == 0.9375f && scratch[48] == 0.5f && scratch[20] == 1.125f);
        else
            CHECK((double)scratch[0] == (double)start + 3 * steps[isa]);
        if (sixth[isa] && isa != EITP__ISA_REF)
            CHECK((double)scratch[sixth[isa]] == 2 + 3 * steps[isa]);
    }
}

static void limits_are_plausible(void) {
    for (int i = 0; i < KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i], 2);
        eitp_limits limits;
        eitp_error error = EITP__ZERO;
        if (!context)
            continue;
        REQUIRE_OK(eitp_context_measure(context, &limits, &error), error);
        CHECK(limits.flops[EITP_F32] > 1e6 && limits.flops[EITP_F32] < 1e15);
        CHECK(limits.flops[EITP_BF16] > 1e6 && limits.flops[EITP_F16] > 1e6);
        CHECK(limits.flops[EITP_I32] >= 0 && limits.flops[EITP_I32] <= 0);
        CHECK(limits.read > 1e6 && limits.read < 1e14);
        CHECK(limits.write > 1e6 && limits.write < 1e14);
        CHECK(limits.update > 1e6 && limits.update < 1e14);
        eitp_context_destroy(context);
    }
}

static void limits_need_memory(void) {
    faults f;
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_limits limits;
    eitp_error error = EITP__ZERO;
    faults_begin(&f);
    config.host = f.host;
    config.device = "cpu";
    config.isa = "ref";
    config.threads = 1;
    REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
    f.fail_allocation = f.allocations + 1;
    f.peak_bytes = 0;
    CHECK(eitp_context_measure(context, &limits, &error) == EITP_OK);
    CHECK(f.peak_bytes >= (size_t)128 << 20 && f.peak_bytes < (size_t)129 << 20);
    f.fail_allocation = f.allocations + 1;
    f.all_allocations = 1;
    CHECK(eitp_context_measure(context, &limits, &error) == EITP_ERROR_MEMORY);
    CHECK(strstr(error.message, "bandwidth"));
    eitp_context_destroy(context);
    faults_end(&f);
}

static void null_device_has_no_limits(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_limits limits;
    eitp_error error = EITP__ZERO;
    config.device = "null";
    REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
    CHECK(eitp_context_measure(context, &limits, &error) == EITP_ERROR_UNSUPPORTED && strstr(error.message, "null"));
    eitp_context_destroy(context);
}

/* ---- Profiles ---- */

enum { PROFILES = 256 };

typedef struct recorder {
    int count;
    eitp_profile profiles[PROFILES];
} recorder;

static void record(void *user, const eitp_profile *profile) {
    recorder *r = (recorder *)user;
    if (r->count < PROFILES)
        r->profiles[r->count] = *profile;
    r->count++;
}

static eitp_profiler recording(recorder *r) {
    eitp_profiler profiler;
    memset(r, 0, sizeof *r);
    profiler.user = r;
    profiler.step = record;
    return profiler;
}

/* The n-th step of an op, from 0; an empty profile if there are fewer. */
static eitp_profile nth(const recorder *r, const char *op, int n) {
    eitp_profile none = EITP__ZERO;
    for (int i = 0; i < r->count && i < PROFILES; i++) {
        if (!strcmp(r->profiles[i].op, op) && !n--)
            return r->profiles[i];
    }
    CHECK_THAT(0, "there is no such step: %s", op);
    none.op = none.variable = "";
    return none;
}

static int is(double a, double b) {
    return a >= b && a <= b;
}

static eitp_tensor *input(eitp_graph *graph, const char *name, eitp_dtype dtype, int64_t m, int64_t n) {
    int64_t shape[2];
    shape[0] = m;
    shape[1] = n;
    return eitp_input(graph, name, dtype, n ? 2 : 1, shape);
}

/* A table [11, 6] that is both embedding and output head, with 4 rows of tokens. */
static void products_have_roles(void) {
    eitp_context *context = open_context("ref", 2);
    const int64_t table_shape[2] = {11, 6}, weight_shape[2] = {6, 6};
    const int32_t words[4] = {3, 0, 10, 3};
    const float none = 0;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *table, *weight, *ids, *carry, *loss;
    eitp_error error = EITP__ZERO;
    eitp_profiler profiler;
    recorder r;
    double flops = 0;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    table = eitp_parameter(graph, "table", 2, table_shape);
    weight = eitp_parameter(graph, "weight", 2, weight_shape);
    ids = eitp_keep_input(input(graph, "ids", EITP_I32, 4, 0));
    carry = eitp_keep_input(input(graph, "carry", EITP_F32, 1, 0));
    loss = eitp_matmul(eitp_embedding(table, ids), weight);
    loss = eitp_sum(eitp_matmul_transposed(loss, table, 0, 1), EITP_ALL_DIMENSIONS, 0);
    eitp_output(loss);
    REQUIRE_OK(eitp_accumulate_gradients(loss, carry, &error), error);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, ids, words, sizeof words, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, carry, &none, sizeof none, &error), error);
    profiler = recording(&r);
    eitp_context_profile(context, &profiler);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    CHECK(r.count == eitp_plan_statistics(plan).nodes);
    for (int i = 0; i < r.count && i < PROFILES; i++)
        flops += r.profiles[i].flops;
    CHECK(is(flops, eitp_plan_statistics(plan).flops));
    CHECK(nth(&r, "matmul", 0).product == EITP_PRODUCT_FORWARD && !strcmp(nth(&r, "matmul", 0).variable, "weight"));
    CHECK(nth(&r, "matmul", 1).product == EITP_PRODUCT_FORWARD && !strcmp(nth(&r, "matmul", 1).variable, "table"));
    CHECK(is(nth(&r, "matmul", 1).flops, 2.0 * 4 * 6 * 11) && nth(&r, "matmul", 1).dtype == EITP_F32);
    CHECK(is(nth(&r, "matmul", 1).bytes_read, 4.0 * (4 * 6 + 11 * 6)));
    CHECK(is(nth(&r, "matmul", 1).bytes_written, 4.0 * 4 * 11));
    CHECK(nth(&r, "matmul", 1).phase == EITP_PHASE_FORWARD && nth(&r, "embedding", 0).phase == EITP_PHASE_FORWARD);
    CHECK(nth(&r, "embedding_backward", 0).phase == EITP_PHASE_BACKWARD);
    for (int i = 2, inputs = 0, weights = 0; i < 6; i++) {
        eitp_profile p = nth(&r, "matmul", i);
        CHECK(p.phase == EITP_PHASE_BACKWARD);
        inputs += p.product == EITP_PRODUCT_INPUT_GRADIENT;
        weights += p.product == EITP_PRODUCT_WEIGHT_GRADIENT;
        if (p.product == EITP_PRODUCT_WEIGHT_GRADIENT)
            CHECK(!strncmp(p.variable, "gradient.", 9));
        CHECK(i < 5 || (inputs == 2 && weights == 2));
    }
    /* Four rows of the table are read, regardless of its size. */
    CHECK(is(nth(&r, "embedding", 0).bytes_read, 4.0 * (4 * 6 + 4)));
    CHECK(nth(&r, "embedding", 0).product == EITP_PRODUCT_NONE);
    /* The head's gradient comes first, so the embedding's gradient adds to it and reads the ids, its own rows, and
       the table's. */
    CHECK(is(nth(&r, "embedding_backward", 0).bytes_read, 4.0 * (4 + 4 * 6 + 4 * 6)));
    CHECK(is(nth(&r, "embedding_backward", 0).bytes_written, 4.0 * 4 * 6));
    CHECK(!strcmp(nth(&r, "embedding_backward", 0).variable, "gradient.table"));
    eitp_context_profile(context, NULL);
    profiler = recording(&r);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    CHECK(r.count == 0);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A slice or gather reads only the selected part of its operand. */
static void only_selected_parts_are_read(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *ids;
    const int32_t rows[2] = {3, 0};
    const float values[5 * 8] = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    eitp_profiler profiler;
    recorder r;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = input(graph, "x", EITP_F32, 5, 8);
    ids = input(graph, "ids", EITP_I32, 2, 0);
    eitp_output(eitp_slice(x, 1, 2, 5));
    eitp_output(eitp_embedding(x, ids));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, x, values, sizeof values, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, ids, rows, sizeof rows, &error), error);
    profiler = recording(&r);
    eitp_context_profile(context, &profiler);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    CHECK(is(nth(&r, "slice", 0).bytes_read, 4.0 * 5 * 3) && is(nth(&r, "slice", 0).bytes_written, 4.0 * 5 * 3));
    CHECK(is(nth(&r, "embedding", 0).bytes_read, 4.0 * (2 * 8 + 2)));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* The accumulated value is read too, unless the carry is 0. */
static void accumulated_gradients_are_read(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[2] = {5, 7};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *target, *carry, *a, *b;
    eitp_error error = EITP__ZERO;
    eitp_profiler profiler;
    recorder r;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    target = eitp_variable_tensor(graph, "sum", EITP_GRADIENT, EITP_F32, 2, shape);
    carry = input(graph, "carry", EITP_F32, 1, 0);
    a = input(graph, "a", EITP_F32, 3, 5);
    b = input(graph, "b", EITP_F32, 3, 7);
    eitp_accumulate(target, eitp_matmul_transposed(a, b, 1, 0), carry);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    for (int i = 0; i < 2; i++) {
        const float value = (float)i, zeros[3 * 7] = {0};
        REQUIRE_OK(eitp_plan_write(plan, a, zeros, 3 * 5 * sizeof *zeros, &error), error);
        REQUIRE_OK(eitp_plan_write(plan, b, zeros, sizeof zeros, &error), error);
        REQUIRE_OK(eitp_plan_write(plan, carry, &value, sizeof value, &error), error);
        profiler = recording(&r);
        eitp_context_profile(context, &profiler);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        CHECK(r.count == 1 && r.profiles[0].product == EITP_PRODUCT_WEIGHT_GRADIENT);
        CHECK(!strcmp(r.profiles[0].variable, "sum"));
        CHECK(is(r.profiles[0].bytes_read, 4.0 * (3 * 5 + 3 * 7 + i * 5 * 7)));
        CHECK(is(r.profiles[0].bytes_written, 4.0 * 5 * 7));
        CHECK(r.profiles[0].seconds >= 0);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/*
 * Two layers and a head over at most 8 rows. Weight gradients are not kept in variables. The first layer and the head
 * have the same width.
 */
typedef struct layers {
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x;
} layers;

static layers make_layers(eitp_context *context) {
    const int64_t shapes[3][2] = {{6, 5}, {5, 6}, {11, 6}}; /* the last one is transposed */
    static const char *const names[3] = {"first", "second", "head"};
    const int64_t x_shape[2] = {8, 6};
    eitp_tensor *parameters[3], *gradients[3], *y;
    eitp_error error = EITP__ZERO;
    layers made = EITP__ZERO;
    CHECK(!eitp_graph_create(context, &made.graph, &error));
    for (int i = 0; i < 3; i++)
        parameters[i] = eitp_parameter(made.graph, names[i], 2, shapes[i]);
    made.x = y = eitp_input_rows(made.graph, "x", EITP_F32, 2, x_shape);
    for (int i = 0; i < 3; i++)
        y = eitp_matmul_transposed(i ? eitp_relu(y) : y, parameters[i], 0, i == 2);
    CHECK(!eitp_gradients(eitp_sum(y, EITP_ALL_DIMENSIONS, 0), NULL, 3, parameters, gradients, &error));
    for (int i = 0; i < 3; i++)
        eitp_output(gradients[i]);
    CHECK_THAT(!eitp_plan_create(made.graph, &made.plan, &error), "%s", error.message);
    return made;
}

static int run_layers(layers *l, int64_t rows) {
    const float values[8 * 6] = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    return l->plan && !eitp_plan_set_rows(l->plan, rows, &error) &&
           !eitp_plan_write(l->plan, l->x, values, (size_t)rows * 6 * sizeof *values, &error) &&
           !eitp_plan_execute(l->plan, &error);
}

static void destroy_layers(layers *l) {
    eitp_plan_destroy(l->plan);
    eitp_graph_destroy(l->graph);
}

static void unkept_gradients_name_their_parameter(void) {
    static const char *const names[3] = {"first", "second", "head"};
    eitp_context *context = open_context("ref", 1);
    layers l = make_layers(context);
    int found[3] = {0, 0, 0};
    eitp_profiler profiler;
    recorder r;
    profiler = recording(&r);
    eitp_context_profile(context, &profiler);
    CHECK(run_layers(&l, 8));
    for (int i = 0; i < r.count && i < PROFILES; i++) {
        for (int n = 0; n < 3 && r.profiles[i].product == EITP_PRODUCT_WEIGHT_GRADIENT; n++)
            found[n] += !strcmp(r.profiles[i].variable, names[n]);
    }
    for (int n = 0; n < 3; n++)
        CHECK_THAT(found[n] == 1, "%d weight gradients of %s", found[n], names[n]);
    destroy_layers(&l);
    eitp_context_destroy(context);
}

/* Arithmetic is counted for the rows in use, not for the capacity. */
static void arithmetic_follows_the_rows_in_use(void) {
    eitp_context *context = open_context("ref", 1);
    layers l = make_layers(context);
    double flops[2] = {0, 0};
    eitp_profiler profiler;
    recorder r;
    for (int k = 0; k < 2; k++) {
        profiler = recording(&r);
        eitp_context_profile(context, &profiler);
        CHECK(run_layers(&l, k ? 2 : 8));
        for (int i = 0; i < r.count && i < PROFILES; i++)
            flops[k] +=
                !strcmp(r.profiles[i].op, "matmul") || !strcmp(r.profiles[i].op, "relu") ? r.profiles[i].flops : 0;
    }
    /* Three forward products, two gradients of their inputs, three of their weights. */
    CHECK_THAT(is(flops[0], 2.0 * 8 * (3 * (6 * 5 + 5 * 6 + 6 * 11) - 6 * 5) + 8 * (5 + 6)), "%g", flops[0]);
    CHECK_THAT(is(4 * flops[1], flops[0]), "%g of 2 rows, %g of 8", flops[1], flops[0]);
    destroy_layers(&l);
    eitp_context_destroy(context);
}

/* A whole model, forward and backward: the loss and the gradients of all parameters. */
static void profiled_executions_give_the_same_bits(void) {
    eitp_context *context = open_context("ref", 2);
    static float once[1 << 14], twice[1 << 14];
    eitp_tensor *gradients[TRANSFORMER_PARAMETERS];
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_profiler profiler;
    recorder r;
    transformer t;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    t = transformer_make(graph, &tiny_transformer);
    transformer_initialize(context);
    REQUIRE_OK(eitp_gradients(t.loss, NULL, t.parameter_count, t.parameters, gradients, &error), error);
    for (int i = 0; i < t.parameter_count; i++)
        eitp_output(gradients[i]);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    for (int i = 0; i < t.parameter_count; i++) {
        size_t size = (size_t)eitp_tensor_elements(gradients[i]) * sizeof *once;
        REQUIRE(size <= sizeof once);
        eitp_context_profile(context, NULL);
        transformer_write(&t, plan, tiny_transformer.rows, 1);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, gradients[i], once, size, &error), error);
        poison(context);
        profiler = recording(&r);
        eitp_context_profile(context, &profiler);
        transformer_write(&t, plan, tiny_transformer.rows, 1);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        REQUIRE_OK(eitp_plan_read(plan, gradients[i], twice, size, &error), error);
        CHECK(r.count == eitp_plan_statistics(plan).nodes);
        CHECK(!memcmp(once, twice, size));
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(loops_compute_what_they_count),
        TEST(limits_are_plausible),
        TEST(limits_need_memory),
        TEST(null_device_has_no_limits),
        TEST(products_have_roles),
        TEST(accumulated_gradients_are_read),
        TEST(profiled_executions_give_the_same_bits),
        TEST(unkept_gradients_name_their_parameter),
        TEST(arithmetic_follows_the_rows_in_use),
        TEST(only_selected_parts_are_read),
    };
    return RUN_TESTS(tests, argc, argv);
}
