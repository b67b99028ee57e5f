/*
 * Entropy of softmax, path products, and matrix functions in graphs: golden values, edge cases, the same bits in any
 * batch and with any number of threads, and gradients in pieces of rows.
 */
#include "tests/support/graphs.h"

enum { MOST = 4096 };

/* Plans and executes a finished build. Returns NULL on failure. */
static eitp_plan *executed(build *b) {
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    CHECK_THAT(eitp_plan_create(b->graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan)
        run_leaves(b, plan);
    return plan;
}

/* Executes the build, compares its outputs with their expectations, and ends it. */
static void check_build(build *b, double tolerance, const char *what) {
    eitp_plan *plan = executed(b);
    double values[MOST];
    for (int i = 0; i < b->output_count && plan; i++) {
        REQUIRE(eitp_tensor_elements(b->outputs[i]) == b->expected[i]->count && b->expected[i]->count <= MOST);
        read_values(plan, b->outputs[i], values);
        for (int64_t j = 0; j < b->expected[i]->count; j++) {
            const double wanted = b->expected[i]->data[j];
            CHECK_THAT(fabs(values[j] - wanted) <= tolerance * (1 + fabs(wanted)),
                       "%s, output %d, element %d: %.10g, not %.10g", what, i, (int)j, values[j], wanted);
        }
    }
    eitp_plan_destroy(plan);
    build_end(b);
}

static void expect(build *b, eitp_tensor *y, int64_t count, const double *values) {
    array *a = new_array(b, 1, &count);
    memcpy(a->data, values, (size_t)count * sizeof *values);
    put_like(b, y, a);
}

static eitp_tensor *gradient_of(eitp_tensor *y, eitp_tensor *x) {
    eitp_tensor *gradient = NULL;
    eitp_error error = EITP__ZERO;
    CHECK_THAT(eitp_gradients(y, NULL, 1, &x, &gradient, &error) == EITP_OK, "%s", error.message);
    return gradient;
}

static eitp_tensor *matrix(eitp_tensor *x, int64_t rows) {
    int64_t shape[2] = {0, -1};
    shape[0] = rows;
    return eitp_reshape(x, 2, shape);
}

/* Calls a function in F64 on ref, and in F32 with every kernel set. */
static void in_every_set(void (*check)(eitp_context *context, eitp_dtype dtype, double tolerance)) {
    for (int i = 0; i <= KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i % KERNEL_SETS], 2);
        if (context && i < KERNEL_SETS)
            check(context, EITP_F32, 1e-6);
        else if (context)
            check(context, EITP_F64, 1e-9);
        eitp_context_destroy(context);
    }
}

/* ---- Entropy ---- */

static void check_entropies(eitp_context *context, eitp_dtype dtype, double tolerance) {
    static const double logits[3] = {0, 0, 0.69314718055994531}, entropy[1] = {1.0397207708399179};
    static const double slopes[3] = {0.08664339756999316, 0.08664339756999316, -0.17328679513998632};
    build b;
    eitp_tensor *x, *y;
    build_begin(&b, context, dtype, 1);
    x = given(&b, dtype, 3, logits);
    y = eitp_softmax_entropy(x);
    CHECK(eitp_tensor_rank(y) == 1 && eitp_tensor_dimension(y, 0) == 1 && eitp_tensor_dtype(y) == dtype);
    expect(&b, y, 1, entropy);
    expect(&b, gradient_of(y, x), 3, slopes);
    check_build(&b, tolerance, "entropy");
}

#define MASKED (-(double)INFINITY)

/* Logits that are sharp, masked, all masked, or equal; their gradients and second derivatives. */
static void check_entropy_edges(eitp_context *context, eitp_dtype dtype, double tolerance) {
    static const double logits[4][5] = {
        {-1e4, 1e4, -1e4, 0, MASKED}, {3, MASKED, 3, 3, 3}, {MASKED, MASKED, MASKED, MASKED, MASKED}, {7, 7, 7, 7, 7}};
    static const double entropies[4] = {0, 1.3862943611198906, 0, 1.6094379124341003}, zeros[20] = {0};
    static const double sums[4] = {1e4, 4.3862943611198906, 0, 8.6094379124341003}; /* the log-sum-exps that the op
                                                                                       saves */
    const int64_t count = 4;
    build b;
    eitp_tensor *x, *y, *first;
    build_begin(&b, context, dtype, 1);
    x = matrix(given(&b, dtype, 20, logits[0]), 4);
    b.low = 0.5;
    y = eitp_softmax_entropy(x);
    expect(&b, y, 4, entropies);
    expect(&b, y->node->outputs[1], 4, sums);
    first = gradient_of(eitp_multiply(y, real(&b, 1, &count)), x);
    expect(&b, first, 20, zeros);
    /* The gradient of each row sums to 0, and no second derivative is NaN. */
    expect(&b, eitp_sum(gradient_of(eitp_sum(first, 2u, 0), x), EITP_ALL_DIMENSIONS, 0), 1, zeros);
    check_build(&b, tolerance, "edges of entropy");
}

static void entropy_has_golden_values(void) {
    in_every_set(check_entropies);
    in_every_set(check_entropy_edges);
}

/* The entropy of 16-bit logits is F32 and equals the entropy of the same values in F32. The gradient has 16 bits. */
static void entropy_of_16_bit_logits(void) {
    for (int i = 0; i < 2 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 2], 2);
        const eitp_dtype dtype = i % 2 ? EITP_F16 : EITP_BF16;
        double narrow[300], wide[300];
        eitp_tensor *x, *y[2], *dx[2];
        eitp_plan *plan;
        build b;
        if (!context)
            continue;
        build_begin(&b, context, EITP_F32, 1);
        b.low = -9;
        b.high = 9;
        x = eitp_cast(real2(&b, 3, 100), dtype);
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            eitp_tensor *z = is_wide ? eitp_cast(x, EITP_F32) : x;
            y[is_wide] = eitp_output(eitp_softmax_entropy(z));
            dx[is_wide] = eitp_output(gradient_of(y[is_wide], z));
        }
        CHECK(eitp_tensor_dtype(y[0]) == EITP_F32 && eitp_tensor_dtype(dx[0]) == dtype);
        plan = executed(&b);
        REQUIRE(plan);
        read_values(plan, y[0], narrow);
        read_values(plan, y[1], wide);
        CHECK(nmse(narrow, wide, 3) < 1e-12);
        read_values(plan, dx[0], narrow);
        read_values(plan, dx[1], wide);
        CHECK(nmse(narrow, wide, 300) < 1e-5);
        eitp_plan_destroy(plan);
        build_end(&b);
        eitp_context_destroy(context);
    }
}

/* ---- Path products ---- */

/* Two layers with weights stored [out, in] or [in, out]: the sum over paths, and its gradient. */
static void check_paths(eitp_context *context, eitp_dtype dtype, double tolerance) {
    static const double first[2][4] = {{1, 3, -2, 4}, {1, -2, 3, 4}}, second[2] = {1, -1};
    static const double norms[2] = {10, 30}, by_second[2][2] = {{3, -7}, {10, -50}};
    static const double by_first[2][2][4] = {{{1, 1, -1, 1}, {1, -1, 1, 1}}, {{2, 6, -4, 8}, {2, -4, 6, 8}}};
    const int64_t two = 2;
    for (int i = 0; i < 4; i++) {
        const int transposed = i & 1, power = 1 + i / 2;
        build b;
        eitp_tensor *w1, *w2, *y;
        build_begin(&b, context, dtype, 1);
        w1 = matrix(given(&b, dtype, 4, first[transposed]), 2);
        w2 = matrix(given(&b, dtype, 2, second), transposed ? 1 : 2);
        y = eitp__path_product(eitp_fill(b.graph, dtype, 1, &two, 1), w1, power, transposed);
        y = eitp__path_product(y, w2, power, transposed);
        expect(&b, y, 1, &norms[power - 1]);
        expect(&b, gradient_of(y, w1), 4, by_first[power - 1][transposed]);
        expect(&b, gradient_of(y, w2), 2, by_second[power - 1]);
        check_build(&b, tolerance, "path norm");
    }
}

/* The derivative of |x| at 0 is 0. */
static void check_zero_weights(eitp_context *context, eitp_dtype dtype, double tolerance) {
    static const double weights[4] = {0, -2, 3, 0}, slopes[4] = {0, -1, 1, 0};
    const int64_t two = 2;
    build b;
    eitp_tensor *w;
    build_begin(&b, context, dtype, 1);
    w = matrix(given(&b, dtype, 4, weights), 2);
    expect(&b, gradient_of(eitp__path_product(eitp_fill(b.graph, dtype, 1, &two, 1), w, 1, 0), w), 4, slopes);
    check_build(&b, tolerance, "weights of 0");
}

static void path_products_have_golden_values(void) {
    in_every_set(check_paths);
    in_every_set(check_zero_weights);
}

enum { WEIGHT_ROWS = 150, WEIGHT_COLUMNS = 70 };

/* Creates a parameter with random values and returns its path product with a constant vector. */
static eitp_tensor *path_of_parameter(eitp_graph *graph, eitp_dtype dtype, int transposed, int is_row, int power,
                                      eitp_tensor **weight) {
    static const int64_t shape[2] = {WEIGHT_ROWS, WEIGHT_COLUMNS};
    int64_t vector[2] = {1, 0};
    eitp_tensor *x;
    vector[is_row] = shape[transposed];
    *weight = eitp_variable_tensor(graph, "weight", EITP_PARAMETER, dtype, 2, shape);
    x = eitp_affine(eitp_cast(eitp_arange(graph, EITP_I32, vector[is_row]), EITP_F32), 0.01, 0.25);
    return eitp__path_product(eitp_reshape(x, 1 + is_row, vector), *weight, power, transposed);
}

/* Rows of a weight's gradient have the same bits as the whole gradient, which is then not stored. */
static void gradients_of_rows_have_the_bits_of_the_whole(void) {
    static const int64_t bounds[5] = {0, 1, 64, 100, WEIGHT_ROWS};
    for (int i = 0; i < 16 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 16], 2);
        const eitp_dtype dtype = i & 1 ? EITP_BF16 : EITP_F32;
        static float whole[WEIGHT_ROWS * WEIGHT_COLUMNS], part[WEIGHT_ROWS * WEIGHT_COLUMNS];
        for (int j = -1; j < 4 && context; j++) {
            eitp_graph *graph = NULL;
            eitp_plan *plan = NULL;
            eitp_tensor *weight, *y, *gradient;
            eitp_error error = EITP__ZERO;
            const int64_t begin = j < 0 ? 0 : bounds[j], end = j < 0 ? WEIGHT_ROWS : bounds[j + 1];
            const size_t bytes = (size_t)(end - begin) * WEIGHT_COLUMNS * sizeof *part;
            REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
            y = path_of_parameter(graph, dtype, i >> 1 & 1, i >> 2 & 1, 1 + (i >> 3 & 1), &weight);
            gradient = gradient_of(y, weight);
            CHECK(eitp_tensor_dtype(gradient) == EITP_F32);
            gradient = eitp_output(eitp__rows(gradient, begin, end));
            if (j < 0)
                REQUIRE_OK(eitp_variable_fill_normal(context, "weight", 0, 1, 3, &error), error);
            REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
            CHECK_THAT(eitp_plan_statistics(plan).arena_bytes < bytes + 4096, "%zu bytes for %zu",
                       eitp_plan_statistics(plan).arena_bytes, bytes);
            poison(context);
            REQUIRE_OK(eitp_plan_execute(plan, &error), error);
            REQUIRE_OK(eitp_plan_read(plan, gradient, j < 0 ? whole : part, bytes, &error), error);
            CHECK_THAT(j < 0 || !memcmp(part, whole + begin * WEIGHT_COLUMNS, bytes), "case %d, rows from %d", i,
                       (int)begin);
            eitp_plan_destroy(plan);
            eitp_graph_destroy(graph);
        }
        eitp_context_destroy(context);
    }
}

/* A gradient with 4 bytes for each weight is added in place: half the variable plus one gradient. */
static void gradients_of_paths_accumulate(void) {
    for (int i = 0; i < 2 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 2], 2);
        static float sums[2][WEIGHT_ROWS * WEIGHT_COLUMNS];
        const int64_t one = 1;
        eitp_graph *graph = NULL;
        eitp_plan *plan = NULL;
        eitp_tensor *weight, *loss, *carry;
        eitp_error error = EITP__ZERO;
        if (!context)
            continue;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        loss =
            eitp_sum(path_of_parameter(graph, i % 2 ? EITP_BF16 : EITP_F32, 0, 0, 1, &weight), EITP_ALL_DIMENSIONS, 0);
        carry = eitp_input(graph, "carry", EITP_F32, 1, &one);
        REQUIRE_OK(eitp_accumulate_gradients(loss, carry, &error), error);
        REQUIRE_OK(eitp_variable_fill_normal(context, "weight", 0, 1, 3, &error), error);
        REQUIRE_OK(eitp_variable_fill(context, "gradient.weight", (double)NAN, &error), error);
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
        CHECK(eitp_plan_statistics(plan).arena_bytes < sizeof sums[0]);
        for (int pass = 0; pass < 2; pass++) {
            const float factor = pass ? 0.5f : 0.0f;
            REQUIRE_OK(eitp_plan_write(plan, carry, &factor, sizeof factor, &error), error);
            REQUIRE_OK(eitp_plan_execute(plan, &error), error);
            REQUIRE_OK(eitp_variable_read(context, "gradient.weight", 0, sums[pass], sizeof sums[0], &error), error);
        }
        for (int j = 0; j < WEIGHT_ROWS * WEIGHT_COLUMNS; j++)
            CHECK(sums[0][j] != 0 && sums[1][j] == 1.5f * sums[0][j]);
        eitp_plan_destroy(plan);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/* ---- Matrices ---- */

static void check_small_matrices(eitp_context *context, eitp_dtype dtype, double tolerance) {
    static const double a[4] = {4, 2, 2, 3}, logdet[1] = {2.0794415416798357}, inverse[4] = {0.375, -0.25, -0.25, 0.5};
    static const double asymmetric[4] = {4, 3, 1, 3};
    build b;
    build_begin(&b, context, dtype, 1);
    for (int i = 0; i < 2; i++) {
        eitp_tensor *x = matrix(given(&b, dtype, 4, i ? asymmetric : a), 2), *y = eitp_logdet(x);
        CHECK(eitp_tensor_rank(y) == 1 && eitp_tensor_dimension(y, 0) == 1);
        expect(&b, y, 1, logdet);
        expect(&b, gradient_of(y, x), 4, inverse);
        expect(&b, eitp_inverse_spd(x), 4, inverse);
    }
    check_build(&b, tolerance, "a matrix of 2 x 2");
}

static void matrices_have_golden_values(void) {
    in_every_set(check_small_matrices);
}

/* Matrices [batch, SIZE, SIZE]. Matrix i is the same in any batch. With `fault`, matrix 1 is not positive definite. */
enum { SIZE = 70, BATCH = 5 };

static void batch_of_matrices(eitp_context *context, int64_t first, int64_t count, int fault, float *logdets,
                              float *inverses) {
    int64_t shape[3] = {0, SIZE, SIZE};
    eitp_tensor *a, *y, *inverse;
    eitp_plan *plan;
    eitp_error error = EITP__ZERO;
    build b;
    build_begin(&b, context, EITP_F32, 1);
    shape[0] = count;
    a = real(&b, 3, shape);
    for (int64_t i = 0; i < count * SIZE * SIZE; i++) {
        uint32_t state = (uint32_t)(first * SIZE * SIZE + i) * 2654435761u;
        b.values[0]->data[i] = (double)(float)(draw(&state) - 0.5) + (i / SIZE % SIZE == i % SIZE ? SIZE : 0);
    }
    if (fault)
        b.values[0]->data[SIZE * SIZE] = -1;
    y = eitp_output(eitp_logdet(a));
    inverse = eitp_output(eitp_inverse_spd(a));
    plan = executed(&b);
    REQUIRE(plan);
    REQUIRE_OK(eitp_plan_read(plan, y, logdets, (size_t)count * sizeof *logdets, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, inverse, inverses, (size_t)(count * SIZE * SIZE) * sizeof *inverses, &error),
               error);
    eitp_plan_destroy(plan);
    build_end(&b);
}

static void bits_do_not_depend_on_the_batch(void) {
    for (int i = 0; i < 2 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 2], 1 + i % 2);
        static float sums[3][BATCH], inverses[3][BATCH * SIZE * SIZE];
        if (!context)
            continue;
        batch_of_matrices(context, 0, BATCH, 0, sums[0], inverses[0]);
        for (int64_t j = 0; j < BATCH; j++)
            batch_of_matrices(context, j, 1, 0, sums[1] + j, inverses[1] + j * SIZE * SIZE);
        CHECK(!memcmp(sums[0], sums[1], sizeof sums[0]) && !memcmp(inverses[0], inverses[1], sizeof inverses[0]));
        for (int64_t j = 0; j < BATCH * SIZE * SIZE; j++)
            CHECK(inverses[0][j] == inverses[0][j / (SIZE * SIZE) * SIZE * SIZE + j % SIZE * SIZE + j / SIZE % SIZE]);
        batch_of_matrices(context, 0, BATCH, 1, sums[2], inverses[2]);
        for (int64_t j = 0; j < BATCH; j++)
            CHECK(j == 1 ? isnan(sums[2][j]) : sums[2][j] == sums[0][j] && isfinite(sums[2][j]));
        for (int64_t j = 0; j < BATCH * SIZE * SIZE; j++)
            CHECK(j / (SIZE * SIZE) == 1 ? isnan(inverses[2][j]) : inverses[2][j] == inverses[0][j]);
        eitp_context_destroy(context);
    }
}

/* ---- Threads ---- */

/* Entropies, path products and their gradients, for matrices large enough to be divided into many pieces. */
static void execute_large(int set, int threads, double *values) {
    eitp_context *context = open_context(kernel_sets[set], threads);
    eitp_tensor *x, *w, *y[3];
    eitp_plan *plan;
    const int64_t rows = 700;
    build b;
    if (!context)
        return;
    build_begin(&b, context, EITP_F32, 1);
    x = real2(&b, rows, 331);
    w = real1(&b, rows);
    y[0] = eitp_softmax_entropy(x);
    y[1] = eitp__path_product(w, x, 1, 0);
    y[2] = eitp__path_product(y[1], x, 2, 1);
    for (int i = 0; i < 3; i++) {
        put(&b, y[i]);
        put(&b, eitp_sum(gradient_of(y[i], x), 1u << (i % 2), 0));
    }
    plan = executed(&b);
    REQUIRE(plan);
    for (int i = 0; i < b.output_count; i++) {
        read_values(plan, b.outputs[i], values);
        values += eitp_tensor_elements(b.outputs[i]);
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
}

static void bits_do_not_depend_on_threads(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        static double values[2][MOST];
        execute_large(set, 1, values[0]);
        execute_large(set, 3, values[1]);
        CHECK_THAT(!memcmp(values[0], values[1], sizeof values[0]), "%s", kernel_sets[set]);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(entropy_has_golden_values),        TEST(entropy_of_16_bit_logits),
        TEST(path_products_have_golden_values), TEST(gradients_of_rows_have_the_bits_of_the_whole),
        TEST(gradients_of_paths_accumulate),    TEST(matrices_have_golden_values),
        TEST(bits_do_not_depend_on_the_batch),  TEST(bits_do_not_depend_on_threads),
    };
    return RUN_TESTS(tests, argc, argv);
}
