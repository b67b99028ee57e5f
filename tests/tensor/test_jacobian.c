/* Directional derivatives of every op compared with central differences; random signs and the estimates made with
   them. */
#include "tests/support/op_cases.h"

static eitp_error error_;

/* ---- Every op ---- */

/* A case, a direction for each leaf, and for each output its derivative along all of them. */
typedef struct moved_case {
    build b;
    eitp_plan *plan;
    int x_count, y_count;
    int xs[BUILD_LEAVES], vs[BUILD_LEAVES]; /* indices of leaves and of their directions */
    eitp_tensor *ys[BUILD_OUTPUTS], *products[BUILD_OUTPUTS];
} moved_case;

/* Returns 0 on failure. moved_case_end must be called in any case. */
static int moved_case_begin(moved_case *m, const op_case *c, eitp_context *context, eitp_dtype dtype) {
    memset(m, 0, sizeof *m);
    build_begin(&m->b, context, dtype, 1);
    c->make(&m->b);
    for (int i = 0; i < m->b.leaf_count; i++)
        if (eitp__is_floating(m->b.leaves[i]->dtype))
            m->xs[m->x_count++] = i;
    m->b.low = -1;
    m->b.high = 1;
    for (int i = 0; i < m->x_count; i++) {
        const eitp_tensor *x = m->b.leaves[m->xs[i]];
        m->vs[i] = m->b.leaf_count;
        real(&m->b, x->rank, x->shape);
    }
    m->y_count = m->b.output_count;
    for (int j = 0; j < m->y_count; j++) {
        m->ys[j] = m->b.outputs[j];
        for (int i = 0; i < m->x_count; i++) {
            eitp_tensor *product = eitp_jacobian_product(m->ys[j], m->b.leaves[m->xs[i]], m->b.leaves[m->vs[i]]);
            CHECK(!product || (product->dtype == m->ys[j]->dtype && eitp__same_shape(product, m->ys[j])));
            m->products[j] = i ? eitp_add(m->products[j], product) : product;
        }
        eitp_output(m->products[j]);
    }
    CHECK_THAT(eitp_plan_create(m->b.graph, &m->plan, &error_) == EITP_OK, "%s: %s", c->name, error_.message);
    return m->plan != NULL;
}

static void moved_case_end(moved_case *m) {
    eitp_plan_destroy(m->plan);
    build_end(&m->b);
}

/* Reads the values of all `tensors`, one for each output. */
static void read_outputs(const moved_case *m, eitp_tensor *const *tensors, double **values) {
    for (int j = 0; j < m->y_count; j++) {
        values[j] = (double *)calloc((size_t)eitp_tensor_elements(tensors[j]), sizeof *values[j]);
        read_values(m->plan, tensors[j], values[j]);
    }
}

static void free_outputs(const moved_case *m, double **values) {
    for (int j = 0; j < m->y_count; j++)
        free(values[j]);
}

/* Moves the leaves by `step` along their directions, and executes. */
static void run_moved(moved_case *m, double step) {
    for (int i = 0; i < m->x_count; i++) {
        const array *x = m->b.values[m->xs[i]], *v = m->b.values[m->vs[i]];
        for (int64_t e = 0; e < x->count; e++)
            x->data[e] += step * v->data[e];
    }
    run_leaves(&m->b, m->plan);
}

static void check_differences(moved_case *m, const char *name) {
    const double step = 1e-5;
    double *products[BUILD_OUTPUTS], *after[BUILD_OUTPUTS], *before[BUILD_OUTPUTS];
    run_moved(m, 0);
    read_outputs(m, m->products, products);
    run_moved(m, step);
    read_outputs(m, m->ys, after);
    run_moved(m, -2 * step);
    read_outputs(m, m->ys, before);
    for (int j = 0; j < m->y_count; j++) {
        for (int64_t e = 0; e < eitp_tensor_elements(m->ys[j]); e++) {
            const double difference = (after[j][e] - before[j][e]) / (2 * step);
            CHECK_THAT(fabs(products[j][e] - difference) <= 2e-7 * (1 + fabs(difference)),
                       "%s, output %d, element %d: %.12g, differences give %.12g", name, j, (int)e, products[j][e],
                       difference);
        }
    }
    free_outputs(m, products);
    free_outputs(m, after);
    free_outputs(m, before);
}

static void products_against_differences(void) {
    eitp_context *context = open_context("ref", 1);
    for (int n = 0; n < OP_CASES; n++) {
        moved_case m;
        if (!(op_cases[n].flags & HAS_GRADIENT))
            continue;
        if (moved_case_begin(&m, &op_cases[n], context, EITP_F64))
            check_differences(&m, op_cases[n].name);
        moved_case_end(&m);
    }
    eitp_context_destroy(context);
}

static void compare_products(const moved_case *m, const moved_case *exact, const char *name, const char *set) {
    double *values[BUILD_OUTPUTS], *wanted[BUILD_OUTPUTS];
    run_leaves(&m->b, m->plan);
    read_outputs(m, m->products, values);
    read_outputs(exact, exact->products, wanted);
    for (int j = 0; j < m->y_count; j++) {
        const double error = nmse(values[j], wanted[j], eitp_tensor_elements(m->ys[j]));
        CHECK_THAT(error <= 1e-10, "%s, %s, output %d: NMSE %.3g", name, set, j, error);
    }
    free_outputs(m, values);
    free_outputs(exact, wanted);
}

/* Fused ops of every kernel set compared with F64 expansions. */
static void f32_products_against_f64(void) {
    eitp_context *reference = open_context("ref", 1);
    for (int n = 0; n < OP_CASES; n++) {
        moved_case exact;
        if (!(op_cases[n].flags & HAS_SECOND))
            continue;
        if (moved_case_begin(&exact, &op_cases[n], reference, EITP_F64))
            run_leaves(&exact.b, exact.plan);
        for (int set = 0; set < KERNEL_SETS && exact.plan; set++) {
            eitp_context *context = open_context(kernel_sets[set], 2);
            moved_case m;
            if (!context)
                continue;
            if (moved_case_begin(&m, &op_cases[n], context, EITP_F32))
                compare_products(&m, &exact, op_cases[n].name, kernel_sets[set]);
            moved_case_end(&m);
            eitp_context_destroy(context);
        }
        moved_case_end(&exact);
    }
    eitp_context_destroy(reference);
}

/* ---- Jacobian products of chosen functions ---- */

/* The values of an output of the build. */
static void evaluate(build *b, eitp_tensor *output, double *values) {
    eitp_plan *plan = NULL;
    eitp_output(output);
    CHECK_THAT(eitp_plan_create(b->graph, &plan, &error_) == EITP_OK, "%s", error_.message);
    if (plan) {
        run_leaves(b, plan);
        read_values(plan, output, values);
    }
    eitp_plan_destroy(plan);
}

/* A Hessian, the derivative of a product, a tensor that y does not depend on, a computed tensor, and another dtype. */
static void products_of_products(void) {
    static const double x_values[3] = {1, -2, 0.5}, v_values[3] = {2, 1, -4};
    eitp_context *context = open_context("ref", 1);
    build b;
    eitp_tensor *x, *v, *cube, *gradient = NULL, *product, *square, *all[5], *results;
    double values[15];
    build_begin(&b, context, EITP_F64, 1);
    x = given(&b, EITP_F64, 3, x_values);
    v = given(&b, EITP_F64, 3, v_values);
    square = eitp_multiply(x, x);
    cube = eitp_multiply(square, x);
    REQUIRE_OK(eitp_gradients(cube, NULL, 1, &x, &gradient, &error_), error_);
    product = eitp_jacobian_product(cube, x, v);
    all[0] = eitp_jacobian_product(gradient, x, v);
    all[1] = eitp_jacobian_product(product, x, v);
    all[2] = eitp_jacobian_product(cube, v, v);
    all[3] = eitp_jacobian_product(eitp_multiply(square, square), square, v);
    all[4] = eitp_jacobian_product(cube, x, eitp_cast(v, EITP_F32));
    results = eitp_concat(all, 5, 0);
    evaluate(&b, results, values);
    for (int i = 0; i < 3; i++) {
        const double at = x_values[i], along = v_values[i];
        CHECK(values[i] == 6 * at * along);
        CHECK(values[3 + i] == 6 * at * along * along);
        CHECK(values[6 + i] == 0);
        CHECK(values[9 + i] == 2 * at * at * along);
        CHECK(values[12 + i] == 3 * at * at * along);
    }
    build_end(&b);
    eitp_context_destroy(context);
}

static void rows_may_be_a_capacity(void) {
    static const float x_values[8] = {0, 0.5f, 1, -1, 2, 3, 4, 5}, v_values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t shape[2] = {6, 2};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *v, *product;
    float values[8];
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    x = eitp_input_rows(graph, "x", EITP_F32, 2, shape);
    v = eitp_input_rows(graph, "v", EITP_F32, 2, shape);
    product = eitp_output(eitp_jacobian_product(eitp_multiply(x, x), x, v));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    CHECK(!eitp_plan_set_rows(plan, 4, &error_) && !eitp_plan_write(plan, x, x_values, sizeof x_values, &error_) &&
          !eitp_plan_write(plan, v, v_values, sizeof v_values, &error_));
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    REQUIRE_OK(eitp_plan_read(plan, product, values, sizeof values, &error_), error_);
    for (int i = 0; i < 8; i++)
        CHECK(values[i] == 2 * x_values[i] * v_values[i]);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Random signs ---- */

enum { ROWS = 24, COLUMNS = 33, SIGNS = ROWS * COLUMNS };

/* Draws two tensors of signs for `rows` rows starting at row `first`. */
static void draw_signs(eitp_dtype dtype, int64_t rows, int64_t first, double *signs, double *others) {
    const double key[3] = {7, 3, (double)first};
    eitp_context *context = open_context("ref", 2);
    build b;
    int64_t shape[3] = {0, 3, COLUMNS / 3};
    eitp_tensor *like, *keys, *both[2];
    double *values = (double *)calloc((size_t)(2 * rows * COLUMNS), sizeof *values);
    shape[0] = rows;
    build_begin(&b, context, EITP_F64, 1);
    like = eitp_fill(b.graph, dtype, 3, shape, (double)NAN);
    keys = given(&b, EITP_I64, 3, key);
    both[0] = eitp__random_signs(like, keys);
    both[1] = eitp__random_signs(like, keys);
    CHECK(both[0] && both[0]->dtype == dtype && eitp__same_shape(both[0], like));
    evaluate(&b, eitp_concat(both, 2, 0), values);
    memcpy(signs, values, (size_t)(rows * COLUMNS) * sizeof *values);
    memcpy(others, values + rows * COLUMNS, (size_t)(rows * COLUMNS) * sizeof *values);
    free(values);
    build_end(&b);
    eitp_context_destroy(context);
}

static void signs_do_not_depend_on_passes(void) {
    static const eitp_dtype dtypes[4] = {EITP_F64, EITP_F32, EITP_BF16, EITP_F16};
    for (int d = 0; d < 4; d++) {
        double signs[SIGNS], others[SIGNS], parts[SIGNS], unused[SIGNS], sum = 0, product = 0;
        draw_signs(dtypes[d], ROWS, 0, signs, others);
        draw_signs(dtypes[d], 10, 0, parts, unused);
        draw_signs(dtypes[d], ROWS - 10, 10, parts + 10 * COLUMNS, unused);
        CHECK(!memcmp(signs, parts, sizeof signs));
        for (int i = 0; i < SIGNS; i++) {
            CHECK(fabs(signs[i]) == 1 && fabs(others[i]) == 1);
            sum += signs[i];
            product += signs[i] * others[i];
        }
        /* Standard deviations: 28. */
        CHECK_THAT(fabs(sum) < 4 * sqrt(SIGNS) && fabs(product) < 4 * sqrt(SIGNS), "%g, %g", sum, product);
    }
}

/* The means over all 16 vectors of four signs are exact: the trace of A and the sum of its squares. */
static void signs_estimate_trace_and_norm(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_plan *plan = NULL;
    build b;
    eitp_tensor *x, *v, *a, *y, *gradient = NULL, *trace, *squares;
    double sums[2] = {0, 0}, exact[2] = {0, 0}, value;
    const array *elements;
    build_begin(&b, context, EITP_F64, 1);
    x = real2(&b, 1, 4);
    a = real2(&b, 4, 4);
    v = real2(&b, 1, 4);
    y = eitp_matmul(x, a);
    trace = eitp_sum(eitp_multiply(v, eitp_jacobian_product(y, x, v)), EITP_ALL_DIMENSIONS, 0);
    REQUIRE_OK(eitp_gradients(y, v, 1, &x, &gradient, &error_), error_);
    squares = eitp__sum_squares(gradient);
    eitp_output(trace);
    eitp_output(squares);
    REQUIRE_OK(eitp_plan_create(b.graph, &plan, &error_), error_);
    for (int signs = 0; signs < 16; signs++) {
        for (int i = 0; i < 4; i++)
            b.values[2]->data[i] = signs >> i & 1 ? 1 : -1;
        run_leaves(&b, plan);
        read_values(plan, trace, &value);
        sums[0] += value / 16;
        read_values(plan, squares, &value);
        sums[1] += value / 16;
    }
    elements = values_of(&b, a);
    for (int i = 0; i < 16; i++) {
        exact[0] += i % 5 ? 0 : elements->data[i];
        exact[1] += elements->data[i] * elements->data[i];
    }
    for (int i = 0; i < 2; i++)
        CHECK_THAT(fabs(sums[i] - exact[i]) < 1e-13 * exact[1], "%g, not %g", sums[i], exact[i]);
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
}

/* ---- Refused arguments ---- */

static void check_refused(eitp_graph *graph, const eitp_tensor *result, eitp_status status, const char *word) {
    CHECK(!result);
    CHECK_THAT(eitp_graph_status(graph, &error_) == status && strstr(error_.message, word), "%s", error_.message);
    graph->error.status = EITP_OK;
}

static void wrong_arguments_are_refused(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL, *other = NULL;
    const int64_t shape[2] = {3, 4}, wide[2] = {3, 12}, three = 3, one = 1;
    eitp_tensor *x, *ids, *far, *key, *qkv, *cached;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &other, &error_), error_);
    x = eitp_input(graph, "x", EITP_F32, 2, shape);
    ids = eitp_input(graph, "ids", EITP_I32, 2, shape);
    key = eitp_input(graph, "key", EITP_I64, 1, &three);
    far = eitp_input(other, "far", EITP_F32, 2, shape);
    qkv = eitp_input(graph, "qkv", EITP_F32, 2, wide);
    cached = cached_attention(qkv, eitp_variable_tensor(graph, "keys", EITP_CACHE, EITP_F32, 2, shape),
                              eitp_variable_tensor(graph, "values", EITP_CACHE, EITP_F32, 2, shape),
                              eitp_input(graph, "position", EITP_I32, 1, &one), 2, 1);
    CHECK(!eitp_jacobian_product(NULL, x, x) && !eitp__random_signs(NULL, key));
    CHECK(eitp_graph_status(graph, &error_) == EITP_OK);
    check_refused(graph, eitp_jacobian_product(x, NULL, x), EITP_ERROR_ARGUMENT, "x is NULL");
    check_refused(graph, eitp_jacobian_product(x, x, NULL), EITP_ERROR_ARGUMENT, "direction is NULL");
    check_refused(graph, eitp_jacobian_product(x, far, x), EITP_ERROR_ARGUMENT, "graph");
    check_refused(graph, eitp_jacobian_product(x, x, far), EITP_ERROR_ARGUMENT, "graph");
    check_refused(graph, eitp_jacobian_product(ids, x, x), EITP_ERROR_ARGUMENT, "i32");
    check_refused(graph, eitp_jacobian_product(x, x, ids), EITP_ERROR_ARGUMENT, "i32");
    check_refused(graph, eitp_jacobian_product(x, x, qkv), EITP_ERROR_ARGUMENT, "[3, 12]");
    check_refused(graph, eitp_jacobian_product(cached, qkv, qkv), EITP_ERROR_UNSUPPORTED, "attention_cached");
    check_refused(graph, eitp__random_signs(ids, key), EITP_ERROR_ARGUMENT, "i32");
    check_refused(graph, eitp__random_signs(x, NULL), EITP_ERROR_ARGUMENT, "dropout");
    check_refused(graph, eitp__random_signs(x, ids), EITP_ERROR_ARGUMENT, "key");
    eitp_graph_destroy(graph);
    eitp_graph_destroy(other);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(products_against_differences), TEST(f32_products_against_f64),      TEST(products_of_products),
        TEST(rows_may_be_a_capacity),       TEST(signs_do_not_depend_on_passes), TEST(signs_estimate_trace_and_norm),
        TEST(wrong_arguments_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
