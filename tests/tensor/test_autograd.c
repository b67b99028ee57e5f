/*
 * Gradients and second derivatives compared with central differences in double, and gradients of fused F32 ops compared
 * with their F64 expansions.
 */
#include "tests/support/op_cases.h"

/*
 * A case and the gradients of its outputs ys, weighted by seeds, with respect to its leaves xs. Optionally the
 * gradients of those, weighted by second seeds, with respect to the leaves and the first seeds.
 */
typedef struct derivatives {
    build b;
    eitp_plan *plan;
    int x_count, y_count;
    int xs[BUILD_LEAVES]; /* indices of leaves: the case's leaves, then the seeds */
    eitp_tensor *ys[BUILD_OUTPUTS];
    int seeds[BUILD_OUTPUTS];
    eitp_tensor *first[BUILD_LEAVES];
    int second_seeds[BUILD_LEAVES];
    int all_count; /* xs and seeds */
    eitp_tensor *second[BUILD_LEAVES];
} derivatives;

/* Adds a leaf of random weights with the shape of x; returns its index. */
static int add_seed(build *b, const eitp_tensor *x) {
    b->low = -1;
    b->high = 1;
    real(b, x->rank, x->shape);
    return b->leaf_count - 1;
}

/* Adds the gradient of y with respect to each xs[i] to sums[i]. */
static void add_gradients(derivatives *d, eitp_tensor *y, int seed, int count, eitp_tensor **sums) {
    eitp_tensor *xs[BUILD_LEAVES], *gradients[BUILD_LEAVES];
    eitp_error error = EITP__ZERO;
    memset(xs, 0, sizeof xs);
    memset(gradients, 0, sizeof gradients);
    for (int i = 0; i < count; i++)
        xs[i] = d->b.leaves[d->xs[i]];
    CHECK_THAT(eitp_gradients(y, d->b.leaves[seed], count, xs, gradients, &error) == EITP_OK, "%s", error.message);
    for (int i = 0; i < count; i++)
        sums[i] = sums[i] ? eitp_add(sums[i], gradients[i]) : gradients[i];
}

/* Returns 0 on failure. derivatives_end must be called in any case. */
static int derivatives_begin(derivatives *d, const op_case *c, eitp_context *context, eitp_dtype dtype, int small,
                             int order) {
    eitp_error error = EITP__ZERO;
    memset(d, 0, sizeof *d);
    build_begin(&d->b, context, dtype, small);
    c->make(&d->b);
    for (int i = 0; i < d->b.leaf_count; i++)
        if (eitp__is_floating(d->b.leaves[i]->dtype))
            d->xs[d->x_count++] = i;
    d->y_count = d->b.output_count;
    d->all_count = d->x_count;
    for (int i = 0; i < d->y_count; i++) {
        d->ys[i] = d->b.outputs[i];
        if (!d->ys[i])
            return 0;
        /* The only F64 output of an F32 graph is a sum of squares. */
        if (d->ys[i]->dtype != dtype)
            d->ys[i] = eitp_output(eitp_cast(d->ys[i], dtype));
        d->seeds[i] = add_seed(&d->b, d->ys[i]);
        d->xs[d->all_count++] = d->seeds[i];
        add_gradients(d, d->ys[i], d->seeds[i], d->x_count, d->first);
    }
    for (int i = 0; i < d->x_count; i++) {
        eitp_output(d->first[i]);
        if (order < 2 || !d->first[i])
            continue;
        d->second_seeds[i] = add_seed(&d->b, d->first[i]);
        add_gradients(d, d->first[i], d->second_seeds[i], d->all_count, d->second);
    }
    for (int i = 0; i < d->all_count && order > 1; i++)
        eitp_output(d->second[i]);
    CHECK_THAT(eitp_plan_create(d->b.graph, &d->plan, &error) == EITP_OK, "%s: %s", c->name, error.message);
    return d->plan != NULL;
}

static void derivatives_end(derivatives *d) {
    eitp_plan_destroy(d->plan);
    build_end(&d->b);
}

/* Reads all values of `count` tensors, one tensor after the other. */
static double *read_all(const derivatives *d, int count, eitp_tensor *const *tensors, int64_t *total) {
    double *values;
    *total = 0;
    for (int i = 0; i < count; i++)
        *total += eitp_tensor_elements(tensors[i]);
    values = (double *)calloc((size_t)*total, sizeof *values);
    *total = 0;
    for (int i = 0; i < count; i++) {
        read_values(d->plan, tensors[i], values + *total);
        *total += eitp_tensor_elements(tensors[i]);
    }
    return values;
}

/* Returns the weights of the tensors, in the order of read_all. */
static double *seed_values(const derivatives *d, int count, const int *seeds, int64_t total) {
    double *values = (double *)calloc((size_t)total, sizeof *values);
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        const array *a = d->b.values[seeds[i]];
        memcpy(values + at, a->data, (size_t)a->count * sizeof *values);
        at += a->count;
    }
    return values;
}

/* Reads the tensors with leaf `leaf` moved by `step` along `direction`. */
static double *read_moved(derivatives *d, int leaf, const double *direction, double step, int count,
                          eitp_tensor *const *tensors) {
    const array *x = d->b.values[leaf];
    double *before = (double *)malloc((size_t)x->count * sizeof *before), *values;
    int64_t total;
    memcpy(before, x->data, (size_t)x->count * sizeof *before);
    for (int64_t i = 0; i < x->count; i++)
        x->data[i] += step * direction[i];
    run_leaves(&d->b, d->plan);
    values = read_all(d, count, tensors, &total);
    memcpy(x->data, before, (size_t)x->count * sizeof *before);
    free(before);
    return values;
}

/* Sets direction number `index`: each element, or `random` random directions. Returns 0 if there are no more. */
static int next_direction(derivatives *d, int64_t index, int random, int64_t elements, double *direction) {
    if (index >= (random ? random : elements))
        return 0;
    for (int64_t i = 0; i < elements; i++)
        direction[i] = random ? 2 * draw(&d->b.random) - 1 : i == index;
    return 1;
}

/* Checks that `gradients` are the gradients of sum(weights * tensors) with respect to the first `x_count` xs. */
static void check_differences(derivatives *d, const char *what, int count, eitp_tensor *const *tensors,
                              const int *seeds, int x_count, eitp_tensor *const *gradients, int random) {
    const double step = 1e-5;
    int64_t total, elements;
    double *weights;
    run_leaves(&d->b, d->plan);
    free(read_all(d, count, tensors, &total));
    weights = seed_values(d, count, seeds, total);
    for (int i = 0; i < x_count; i++) {
        double *gradient, *direction;
        run_leaves(&d->b, d->plan);
        gradient = read_all(d, 1, &gradients[i], &elements);
        direction = (double *)calloc((size_t)elements, sizeof *direction);
        for (int64_t n = 0; next_direction(d, n, random, elements, direction); n++) {
            double *after = read_moved(d, d->xs[i], direction, step, count, tensors);
            double *before = read_moved(d, d->xs[i], direction, -step, count, tensors), differences = 0,
                   gradient_of = 0;
            for (int64_t j = 0; j < total; j++)
                differences += weights[j] * (after[j] - before[j]) / (2 * step);
            for (int64_t j = 0; j < elements; j++)
                gradient_of += direction[j] * gradient[j];
            CHECK_THAT(fabs(differences - gradient_of) <= 2e-7 * (1 + fabs(differences)),
                       "%s with respect to leaf %d, direction %d: %.12g, differences give %.12g", what, d->xs[i],
                       (int)n, gradient_of, differences);
            free(after);
            free(before);
        }
        free(gradient);
        free(direction);
    }
    free(weights);
}

static void check_case(const op_case *c, int order) {
    eitp_context *context = open_context("ref", 1);
    derivatives d;
    if (derivatives_begin(&d, c, context, EITP_F64, 1, order)) {
        if (order == 1)
            check_differences(&d, c->name, d.y_count, d.ys, d.seeds, d.x_count, d.first, 0);
        else
            check_differences(&d, c->name, d.x_count, d.first, d.second_seeds, d.all_count, d.second, 3);
    }
    derivatives_end(&d);
    eitp_context_destroy(context);
}

static void first_derivatives_against_differences(void) {
    for (int i = 0; i < OP_CASES; i++)
        if (op_cases[i].flags & HAS_GRADIENT)
            check_case(&op_cases[i], 1);
}

static void second_derivatives_against_differences(void) {
    for (int i = 0; i < OP_CASES; i++)
        if (op_cases[i].flags & HAS_SECOND)
            check_case(&op_cases[i], 2);
}

/* ---- Fused F32 ops against F64 expansions ---- */

static void compare_gradients(const derivatives *d, const derivatives *exact, int count, eitp_tensor *const *gradients,
                              eitp_tensor *const *exact_gradients, double tolerance, const char *what) {
    for (int i = 0; i < count; i++) {
        int64_t total;
        double *values = read_all(d, 1, &gradients[i], &total), error;
        double *wanted = read_all(exact, 1, &exact_gradients[i], &total);
        error = nmse(values, wanted, total);
        CHECK_THAT(error <= tolerance, "%s with respect to leaf %d: NMSE %.3g, at most %.3g", what, d->xs[i], error,
                   tolerance);
        free(values);
        free(wanted);
    }
}

static void compare_case(const op_case *c, int small, int order, double tolerance) {
    eitp_context *reference = open_context("ref", 2);
    derivatives exact;
    if (!derivatives_begin(&exact, c, reference, EITP_F64, small, order)) {
        derivatives_end(&exact);
        eitp_context_destroy(reference);
        return;
    }
    run_leaves(&exact.b, exact.plan);
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        derivatives d;
        char what[100];
        if (!context)
            continue;
        snprintf(what, sizeof what, "%s, %s, %s", c->name, kernel_sets[set], small ? "small" : "large");
        if (derivatives_begin(&d, c, context, EITP_F32, small, order)) {
            run_leaves(&d.b, d.plan);
            compare_gradients(&d, &exact, d.x_count, d.first, exact.first, tolerance, what);
            if (order > 1)
                compare_gradients(&d, &exact, d.all_count, d.second, exact.second, tolerance, what);
        }
        derivatives_end(&d);
        eitp_context_destroy(context);
    }
    derivatives_end(&exact);
    eitp_context_destroy(reference);
}

/* Sums over many elements and cancelling differences lose more bits than single values. */
static void f32_gradients_against_f64(void) {
    print_kernel_sets();
    for (int small = test_is_quick(); small < 2; small++)
        for (int i = 0; i < OP_CASES; i++)
            if (op_cases[i].flags & HAS_GRADIENT)
                compare_case(&op_cases[i], small, 1, small ? 1e-11 : 2e-10);
}

static void f32_second_derivatives_against_f64(void) {
    for (int small = test_is_quick(); small < 2; small++)
        for (int i = 0; i < OP_CASES; i++)
            if (op_cases[i].flags & HAS_SECOND)
                compare_case(&op_cases[i], small, 2, 1e-10);
}

/* ---- Single rules ---- */

/* Executes a graph of one F64 leaf [4] on ref; `make` returns the tensor to read. */
static void evaluate_four(const double *x, eitp_tensor *(*make)(eitp_tensor *x), double *values) {
    eitp_context *context = open_context("ref", 1);
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    build b;
    eitp_tensor *y;
    build_begin(&b, context, EITP_F64, 1);
    y = eitp_output(make(given(&b, EITP_F64, 4, x)));
    CHECK_THAT(eitp_plan_create(b.graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan) {
        run_leaves(&b, plan);
        read_values(plan, y, values);
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
}

static eitp_tensor *gradient_of(eitp_tensor *y, eitp_tensor *x) {
    eitp_tensor *gradient = NULL;
    eitp_error error = EITP__ZERO;
    CHECK_THAT(eitp_gradients(y, NULL, 1, &x, &gradient, &error) == EITP_OK, "%s", error.message);
    return gradient;
}

static eitp_tensor *gradient_of_max(eitp_tensor *x) {
    return gradient_of(eitp_max(x, 1, 0), x);
}

static eitp_tensor *gradient_of_clamp(eitp_tensor *x) {
    return gradient_of(eitp_clamp(x, 1, 3), x);
}

static eitp_tensor *gradient_of_relu(eitp_tensor *x) {
    return gradient_of(eitp_relu(eitp_affine(x, 1, -2)), x);
}

static eitp_tensor *gradient_of_abs(eitp_tensor *x) {
    return gradient_of(eitp_abs(eitp_affine(x, 1, -2)), x);
}

static eitp_tensor *gradient_of_minimum(eitp_tensor *x) {
    return gradient_of(eitp_minimum(x, eitp_fill(eitp_tensor_graph(x), EITP_F64, 0, NULL, 2)), x);
}

static eitp_tensor *gradient_of_maximum(eitp_tensor *x) {
    return gradient_of(eitp_maximum(eitp_fill(eitp_tensor_graph(x), EITP_F64, 0, NULL, 2), x), x);
}

static eitp_tensor *gradient_of_both(eitp_tensor *x) {
    return gradient_of(eitp_maximum(x, x), x);
}

static eitp_tensor *gradient_of_stopped(eitp_tensor *x) {
    return gradient_of(eitp_multiply(x, eitp_stop_gradient(x)), x);
}

static eitp_tensor *gradient_of_casts(eitp_tensor *x) {
    return gradient_of(
        eitp_multiply(eitp_cast(eitp_cast(x, EITP_F32), EITP_F64), eitp_cast(eitp_cast(x, EITP_I32), EITP_F64)), x);
}

static eitp_tensor *gradient_of_itself(eitp_tensor *x) {
    return gradient_of(x, x);
}

static eitp_tensor *gradient_of_another(eitp_tensor *x) {
    int64_t shape = 4;
    return gradient_of(eitp_exp(eitp_fill(eitp_tensor_graph(x), EITP_F64, 1, &shape, 2)), x);
}

static eitp_tensor *gradient_by_a_computed_tensor(eitp_tensor *x) {
    eitp_tensor *square = eitp_multiply(x, x);
    return gradient_of(eitp_multiply(square, square), square);
}

static eitp_tensor *third_derivative(eitp_tensor *x) {
    eitp_tensor *square = eitp_multiply(x, x);
    return gradient_of(gradient_of(gradient_of(eitp_multiply(square, square), x), x), x);
}

static void rules_at_special_points(void) {
    static const struct {
        eitp_tensor *(*make)(eitp_tensor *x);
        double x[4], expected[4];
    } cases[] = {
        {gradient_of_max, {1, 3, 3, 2}, {0, 0.5, 0.5, 0}},
        {gradient_of_clamp, {0.5, 1, 3, 3.5}, {0, 1, 1, 0}},
        {gradient_of_relu, {1, 2, 3, 4}, {0, 0, 1, 1}},
        {gradient_of_abs, {1, 2, 3, 4}, {-1, 0, 1, 1}},
        {gradient_of_minimum, {1, 2, 3, (double)NAN}, {1, 0.5, 0, 1}},
        {gradient_of_maximum, {1, 2, 3, (double)NAN}, {0, 0.5, 1, 1}},
        {gradient_of_both, {1, 2, -3, 4}, {1, 1, 1, 1}},
        {gradient_of_stopped, {1, 2, 3, 4}, {1, 2, 3, 4}},
        {gradient_of_casts, {1.5, 2.5, 3.5, -1.5}, {1, 2, 3, -1}},
        {gradient_of_itself, {5, 6, 7, 8}, {1, 1, 1, 1}},
        {gradient_of_another, {5, 6, 7, 8}, {0, 0, 0, 0}},
        {gradient_by_a_computed_tensor, {1, 2, 3, 4}, {2, 8, 18, 32}},
        {third_derivative, {1, 2, 3, 4}, {24, 48, 72, 96}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double values[4] = {0, 0, 0, 0};
        evaluate_four(cases[i].x, cases[i].make, values);
        for (int j = 0; j < 4; j++)
            CHECK_THAT(values[j] == cases[i].expected[j], "case %d, element %d: %g, not %g", (int)i, j, values[j],
                       cases[i].expected[j]);
    }
}

static void undifferentiable_tensors_are_refused(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL, *other = NULL;
    eitp_error error = EITP__ZERO;
    int64_t shape[2] = {3, 4}, wide[2] = {3, 12}, one = 1;
    eitp_tensor *x, *ids, *seed, *far, *gradient = NULL, *nothing = NULL, *qkv, *cached;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    REQUIRE_OK(eitp_graph_create(context, &other, &error), error);
    x = eitp_input(graph, "x", EITP_F32, 2, shape);
    ids = eitp_input(graph, "ids", EITP_I32, 2, shape);
    seed = eitp_input(graph, "seed", EITP_F64, 2, shape);
    far = eitp_input(other, "far", EITP_F32, 2, shape);
    CHECK(eitp_gradients(NULL, NULL, 1, &x, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(x, NULL, 1, &nothing, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(x, NULL, 1, &far, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(x, NULL, 1, &ids, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(ids, NULL, 1, &x, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "i32"));
    CHECK(eitp_gradients(x, seed, 1, &x, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(x, far, 1, &x, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gradients(x, eitp_sum(x, 1, 0), 1, &x, &gradient, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "seed"));
    CHECK(!gradient && eitp_graph_status(graph, &error) == EITP_OK);
    qkv = eitp_input(graph, "qkv", EITP_F32, 2, wide);
    cached = cached_attention(qkv, eitp_variable_tensor(graph, "keys", EITP_CACHE, EITP_F32, 2, shape),
                              eitp_variable_tensor(graph, "values", EITP_CACHE, EITP_F32, 2, shape),
                              eitp_input(graph, "position", EITP_I32, 1, &one), 2, 1);
    CHECK(eitp_gradients(cached, NULL, 1, &qkv, &gradient, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error.message, "attention_cached"), "%s", error.message);
    eitp_graph_destroy(graph);
    eitp_graph_destroy(other);
    eitp_context_destroy(context);
}

/* ---- Accumulated gradients ---- */

enum { WORDS = 13, WIDTH = 8, INNER = 20, ROWS = 12 };

/* A model whose table is both embedding and output head. One parameter has no effect on the loss. */
typedef struct tied_model {
    eitp_tensor *ids, *targets, *carry, *loss;
    eitp_tensor *parameters[5];
} tied_model;

static const char *const tied_names[5] = {"table", "gain", "bias", "up", "down"};

static tied_model make_tied_model(eitp_graph *graph, int64_t rows) {
    tied_model m;
    int64_t table[2] = {WORDS, WIDTH}, up[2] = {WIDTH, INNER}, down[2] = {INNER, WIDTH}, width = WIDTH, one = 1;
    eitp_tensor *x, *y;
    m.ids = eitp_input(graph, "ids", EITP_I32, 1, &rows);
    m.targets = eitp_input(graph, "targets", EITP_I32, 1, &rows);
    m.carry = eitp_input(graph, "carry", EITP_F32, 1, &one);
    m.parameters[0] = eitp_parameter(graph, "table", 2, table);
    m.parameters[1] = eitp_parameter(graph, "gain", 1, &width);
    m.parameters[2] = eitp_parameter(graph, "bias", 1, &width);
    m.parameters[3] = eitp_parameter(graph, "up", 2, up);
    m.parameters[4] = eitp_parameter(graph, "down", 2, down);
    eitp_parameter(graph, "idle", 1, &width);
    x = eitp_embedding(m.parameters[0], m.ids);
    y = eitp_layer_norm(x, m.parameters[1], m.parameters[2], 1e-5);
    y = eitp_linear(y, m.parameters[3], NULL, EITP_GELU_TANH);
    x = eitp_add(x, eitp_matmul(y, m.parameters[4]));
    x = eitp_matmul_transposed(x, m.parameters[0], 0, 1);
    m.loss = eitp_sum(eitp_cross_entropy(x, m.targets, -1), EITP_ALL_DIMENSIONS, 0);
    return m;
}

static void write_tied_parameters(eitp_context *context) {
    eitp_error error;
    for (int i = 0; i < 5; i++)
        CHECK(eitp_variable_fill_normal(context, tied_names[i], 0.1, 0.5, 7, &error) == EITP_OK);
}

static void execute_tied(const tied_model *m, eitp_plan *plan, int64_t first, int64_t rows, double carry) {
    int32_t ids[ROWS], targets[ROWS];
    float factor = (float)carry;
    eitp_error error = EITP__ZERO;
    poison(m->ids->graph->context);
    for (int64_t i = 0; i < rows; i++) {
        ids[i] = (int32_t)((first + i) * 5 % WORDS);
        targets[i] = (int32_t)((first + i) * 7 % WORDS);
    }
    CHECK(eitp_plan_write(plan, m->ids, ids, (size_t)rows * sizeof *ids, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, m->targets, targets, (size_t)rows * sizeof *targets, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, m->carry, &factor, sizeof factor, &error) == EITP_OK);
    CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
}

/* Reads the variable "gradient.<name>" and compares it with `factor` times `exact`. */
static void check_accumulated(eitp_context *context, const char *name, const double *exact, double factor,
                              const char *what) {
    char full[64];
    float bytes[WIDTH * INNER];
    double values[WIDTH * INNER], wanted[WIDTH * INNER], difference;
    int64_t index, count;
    eitp_error error = EITP__ZERO;
    snprintf(full, sizeof full, "gradient.%s", name);
    index = eitp_variable_find(context, full);
    REQUIRE(index >= 0);
    CHECK(eitp_variable_at(context, (size_t)index).role == EITP_GRADIENT);
    count = (int64_t)(eitp_variable_at(context, (size_t)index).size / sizeof(float));
    CHECK(eitp_variable_read(context, full, 0, bytes, (size_t)count * sizeof(float), &error) == EITP_OK);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)bytes[i];
        wanted[i] = factor * exact[i];
    }
    difference = nmse(values, wanted, count);
    CHECK_THAT(difference <= 1e-12, "%s of %s: NMSE %.3g", what, name, difference);
}

/* gradient = carry * gradient + new; with carry 0 the previous value does not matter. */
static void accumulated_gradients(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        eitp_graph *plain = NULL, *adding = NULL, *half = NULL;
        eitp_plan *plain_plan = NULL, *adding_plan = NULL, *half_plan = NULL;
        eitp_tensor *gradients[5] = {NULL, NULL, NULL, NULL, NULL};
        static double exact[5][WIDTH * INNER];
        static const double zeros[WIDTH];
        tied_model a, b, c;
        eitp_error error = EITP__ZERO;
        if (!context)
            continue;
        REQUIRE_OK(eitp_graph_create(context, &plain, &error), error);
        REQUIRE_OK(eitp_graph_create(context, &adding, &error), error);
        REQUIRE_OK(eitp_graph_create(context, &half, &error), error);
        a = make_tied_model(plain, ROWS);
        b = make_tied_model(adding, ROWS);
        c = make_tied_model(half, ROWS / 2);
        REQUIRE_OK(eitp_gradients(a.loss, NULL, 5, a.parameters, gradients, &error), error);
        for (int i = 0; i < 5; i++)
            eitp_output(gradients[i]);
        REQUIRE_OK(eitp_accumulate_gradients(b.loss, b.carry, &error), error);
        REQUIRE_OK(eitp_accumulate_gradients(c.loss, c.carry, &error), error);
        REQUIRE_OK(eitp_plan_create(plain, &plain_plan, &error), error);
        REQUIRE_OK(eitp_plan_create(adding, &adding_plan, &error), error);
        REQUIRE_OK(eitp_plan_create(half, &half_plan, &error), error);
        write_tied_parameters(context);
        for (size_t i = 0; i < eitp_variable_count(context); i++)
            if (eitp_variable_at(context, i).role == EITP_GRADIENT)
                CHECK(eitp_variable_fill(context, eitp_variable_at(context, i).name, (double)NAN, &error) == EITP_OK);
        execute_tied(&a, plain_plan, 0, ROWS, 0);
        for (int i = 0; i < 5; i++)
            read_values(plain_plan, gradients[i], exact[i]);
        execute_tied(&b, adding_plan, 0, ROWS, 0);
        for (int i = 0; i < 5; i++)
            check_accumulated(context, tied_names[i], exact[i], 1, "first accumulation");
        check_accumulated(context, "idle", zeros, 1, "first accumulation");
        execute_tied(&b, adding_plan, 0, ROWS, 1);
        for (int i = 0; i < 5; i++)
            check_accumulated(context, tied_names[i], exact[i], 2, "second accumulation");
        execute_tied(&b, adding_plan, 0, ROWS, 0.25);
        for (int i = 0; i < 5; i++)
            check_accumulated(context, tied_names[i], exact[i], 1.5, "accumulation with a carry of 1/4");
        execute_tied(&c, half_plan, 0, ROWS / 2, 0);
        execute_tied(&c, half_plan, ROWS / 2, ROWS / 2, 1);
        for (int i = 0; i < 5; i++)
            check_accumulated(context, tied_names[i], exact[i], 1, "two micro-batches");
        check_accumulated(context, "idle", zeros, 1, "two micro-batches");
        eitp_plan_destroy(plain_plan);
        eitp_plan_destroy(adding_plan);
        eitp_plan_destroy(half_plan);
        eitp_graph_destroy(plain);
        eitp_graph_destroy(adding);
        eitp_graph_destroy(half);
        eitp_context_destroy(context);
    }
}

static void accumulation_errors(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_error error = EITP__ZERO;
    int64_t shape = 4, two = 2;
    char name[260];
    eitp_graph *graph = NULL;
    CHECK(eitp_accumulate_gradients(NULL, NULL, &error) == EITP_ERROR_ARGUMENT);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    CHECK(eitp_accumulate_gradients(eitp_sum(eitp_parameter(graph, name, 1, &shape), 1, 0), NULL, &error) ==
          EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "too long"));
    eitp_graph_destroy(graph);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    CHECK(eitp_accumulate_gradients(eitp_sum(eitp_parameter(graph, "p", 1, &shape), 1, 0),
                                    eitp_input(graph, "carry", EITP_F32, 1, &two), &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "carry"));
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(first_derivatives_against_differences),
        TEST(second_derivatives_against_differences),
        TEST(f32_gradients_against_f64),
        TEST(f32_second_derivatives_against_f64),
        TEST(rules_at_special_points),
        TEST(undifferentiable_tensors_are_refused),
        TEST(accumulated_gradients),
        TEST(accumulation_errors),
    };
    return RUN_TESTS(tests, argc, argv);
}
