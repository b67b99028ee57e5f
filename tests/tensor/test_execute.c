/*
 * Execution of plans: varying rows, order of updates, fused updates, no allocations, and the same bits with any number
 * of threads.
 */
#include "tests/support/training.h"

#include "tests/support/faults.h"

#include <pthread.h>

/* ---- Varying rows ---- */

typedef struct outcome {
    int64_t total;
    double *values; /* loss, logits, gradients */
} outcome;

/* Returns the loss, the logits of the rows in use and all gradients, with `count` rows, in a graph of `config`. */
static outcome execute_rows(eitp_context *context, const transformer_config *config, int64_t count) {
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *gradients[TRANSFORMER_PARAMETERS];
    eitp_error error = EITP__ZERO;
    outcome result;
    transformer t;
    size_t logits_size = (size_t)(count * config->words) * sizeof(float);
    float *logits = (float *)malloc(logits_size + 1);
    memset(gradients, 0, sizeof gradients);
    memset(&result, 0, sizeof result);
    CHECK(eitp_graph_create(context, &graph, &error) == EITP_OK);
    t = transformer_make(graph, config);
    eitp_output(t.loss);
    eitp_output(t.logits);
    CHECK(eitp_gradients(t.loss, NULL, t.parameter_count, t.parameters, gradients, &error) == EITP_OK);
    result.total = 1 + count * config->words;
    for (int i = 0; i < t.parameter_count; i++)
        result.total += eitp_tensor_elements(eitp_output(gradients[i]));
    result.values = (double *)calloc((size_t)result.total, sizeof(double));
    CHECK_THAT(eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan) {
        int64_t at = 1 + count * config->words;
        transformer_initialize(context);
        poison(context);
        if (config->capacity)
            CHECK(eitp_plan_set_rows(plan, count, &error) == EITP_OK);
        transformer_write(&t, plan, count, 3);
        CHECK(eitp_plan_execute(plan, &error) == EITP_OK);
        read_values(plan, t.loss, result.values);
        CHECK_THAT(eitp_plan_read(plan, t.logits, logits, logits_size, &error) == EITP_OK, "%s", error.message);
        from_bytes(EITP_F32, logits, result.values + 1, count * config->words);
        for (int i = 0; i < t.parameter_count; i++) {
            read_values(plan, gradients[i], result.values + at);
            at += eitp_tensor_elements(gradients[i]);
        }
    }
    free(logits);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return result;
}

/* With some rows of a capacity in use, results have the same bits as in a graph with exactly these rows. */
static void rows_equal_those_of_a_smaller_graph(void) {
    static const int64_t counts[] = {1, 2, 7, 16, 23, 24};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0] && context; i++) {
            transformer_config exact = tiny_transformer, capacity = tiny_transformer;
            outcome a, b;
            exact.rows = counts[i];
            capacity.capacity = 1;
            a = execute_rows(context, &exact, counts[i]);
            b = execute_rows(context, &capacity, counts[i]);
            CHECK_THAT(a.total == b.total && !memcmp(a.values, b.values, (size_t)a.total * sizeof(double)),
                       "%d rows with %s", (int)counts[i], kernel_sets[set]);
            CHECK(isfinite(a.values[0]) && a.values[0] > 1);
            free(a.values);
            free(b.values);
        }
        eitp_context_destroy(context);
    }
}

/* With no rows in use, sums over rows are 0. */
static void zero_rows(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        transformer_config capacity = tiny_transformer;
        outcome a;
        if (!context)
            continue;
        capacity.capacity = 1;
        a = execute_rows(context, &capacity, 0);
        for (int64_t i = 0; i < a.total; i++)
            CHECK(a.values[i] == 0);
        free(a.values);
        eitp_context_destroy(context);
    }
}

/*
 * More ops that keep rows separate: three dimensions, where, concat, gather, softmax, batches of matrices, reductions
 * over other dimensions.
 */
static eitp_tensor *make_row_ops(eitp_graph *graph, int64_t rows, int capacity, eitp_tensor **x, eitp_tensor **weight,
                                 eitp_tensor **gradients) {
    int64_t cube[3], matrix[2] = {6, 5}, flat[2], row[1] = {5}, column[2] = {0, 1}, fours[2] = {0, 4};
    eitp_tensor *y, *z, *gram, *both[2], *xs[2], *sum;
    eitp_error error = EITP__ZERO;
    cube[0] = flat[0] = column[0] = fours[0] = rows;
    cube[1] = 2;
    cube[2] = 6;
    flat[1] = 10;
    *x = capacity ? eitp_input_rows(graph, "x", EITP_F32, 3, cube) : eitp_input(graph, "x", EITP_F32, 3, cube);
    *weight = eitp_input(graph, "weight", EITP_F32, 2, matrix);
    y = eitp_matmul(*x, *weight);                              /* [rows, 2, 5] */
    y = eitp_add(y, eitp_fill(graph, EITP_F32, 1, row, 0.25)); /* broadcast over rows */
    y = eitp_maximum(y, eitp_minimum(eitp_mean(y, 4, 1), eitp_fill(graph, EITP_F32, 1, row, -0.1)));
    y = eitp_add(y, eitp_silu(y));
    y = eitp_rms_norm(y, eitp_fill(graph, EITP_F32, 1, row, 1.5), 1e-5);
    z = eitp_where(eitp_less(y, eitp_mean(y, 4, 1)), y, eitp_tanh(y)); /* a reduction of another dimension */
    z = eitp_softmax(eitp_reshape(z, 2, flat));                        /* [rows, 10] */
    both[0] = z;
    both[1] = eitp_slice(eitp_reshape(y, 2, flat), 1, 2, 7);
    z = eitp_concat(both, 2, 1); /* [rows, 15] */
    z = eitp_multiply(z, eitp_max(z, 2, 1));
    z = eitp_add(z, eitp_cast(eitp_argmax(z, -1, 1), EITP_F32));
    z = eitp_multiply(z, eitp_reshape(eitp_softmax_entropy(z), 2, column));
    gram = eitp_matmul_transposed(y, y, 0, 1); /* [rows, 2, 2] */
    z = eitp_add(z, eitp_reshape(eitp_logdet(gram), 2, column));
    z = eitp_add(z, eitp_slice(eitp_reshape(eitp_inverse_spd(gram), 2, fours), 1, 1, 2));
    both[0] = eitp_slice_step(z, 1, 0, 15, 2);
    both[1] = eitp_slice_step(z, 1, 1, 14, 2);
    z = eitp_concat(both, 2, 1); /* [rows, 15] */
    sum = eitp_sum(z, EITP_ALL_DIMENSIONS, 0);
    xs[0] = *x;
    xs[1] = *weight;
    CHECK_THAT(eitp_gradients(sum, NULL, 2, xs, gradients, &error) == EITP_OK, "%s", error.message);
    eitp_output(gradients[0]);
    eitp_output(gradients[1]);
    return eitp_output(eitp_sum(z, 1, 0));
}

/* Products of one matrix with each matrix of a batch of the capacity. Same outputs as make_row_ops. */
static eitp_tensor *make_products_of_a_matrix(eitp_graph *graph, int64_t rows, int capacity, eitp_tensor **x,
                                              eitp_tensor **weight, eitp_tensor **gradients) {
    const int64_t cube[3] = {rows, 2, 6}, matrix[2] = {6, 5}, flat[2] = {rows, 15};
    eitp_tensor *y, *both[2], *xs[2];
    eitp_error error = EITP__ZERO;
    *x = capacity ? eitp_input_rows(graph, "x", EITP_F32, 3, cube) : eitp_input(graph, "x", EITP_F32, 3, cube);
    *weight = eitp_input(graph, "weight", EITP_F32, 2, matrix);
    both[0] = eitp_matmul_transposed(*weight, *x, 1, 1); /* [rows, 5, 2] */
    both[1] = eitp_tanh(eitp_slice(both[0], 2, 1, 2));
    y = eitp_reshape(eitp_concat(both, 2, 2), 2, flat);
    xs[0] = *x;
    xs[1] = *weight;
    CHECK_THAT(!eitp_gradients(eitp_sum(eitp_multiply(y, y), 3, 0), NULL, 2, xs, gradients, &error), "%s",
               error.message);
    eitp_output(gradients[0]);
    eitp_output(gradients[1]);
    return eitp_output(eitp_sum(y, 1, 0));
}

typedef eitp_tensor *make_graph(eitp_graph *graph, int64_t rows, int capacity, eitp_tensor **x, eitp_tensor **weight,
                                eitp_tensor **gradients);

static void check_rows_of(make_graph *make) {
    enum { ROWS = 9, CAPACITY = 20 };
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        float x[CAPACITY * 12], weight[30], sums[2][15], dx[2][ROWS * 12], dw[2][30];
        uint32_t random = 9;
        if (!context)
            continue;
        for (int i = 0; i < CAPACITY * 12; i++)
            x[i] = (float)(2 * draw(&random) - 1);
        for (int i = 0; i < 30; i++)
            weight[i] = (float)(2 * draw(&random) - 1);
        for (int capacity = 0; capacity < 2; capacity++) {
            eitp_graph *graph = NULL;
            eitp_plan *plan = NULL;
            eitp_error error = EITP__ZERO;
            eitp_tensor *input, *other, *gradients[2] = {NULL, NULL}, *y;
            REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
            y = make(graph, capacity ? CAPACITY : ROWS, capacity, &input, &other, gradients);
            REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
            poison(context);
            if (capacity) {
                CHECK(eitp_plan_set_rows(plan, CAPACITY + 1, &error) == EITP_ERROR_ARGUMENT);
                CHECK(eitp_plan_set_rows(plan, -1, &error) == EITP_ERROR_ARGUMENT);
                REQUIRE_OK(eitp_plan_set_rows(plan, ROWS, &error), error);
                CHECK(eitp_plan_write(plan, input, x, sizeof x, &error) == EITP_ERROR_ARGUMENT);
            }
            REQUIRE_OK(eitp_plan_write(plan, input, x, ROWS * 12 * sizeof *x, &error), error);
            REQUIRE_OK(eitp_plan_write(plan, other, weight, sizeof weight, &error), error);
            REQUIRE_OK(eitp_plan_execute(plan, &error), error);
            REQUIRE_OK(eitp_plan_read(plan, y, sums[capacity], sizeof sums[0], &error), error);
            REQUIRE_OK(eitp_plan_read(plan, gradients[0], dx[capacity], sizeof dx[0], &error), error);
            REQUIRE_OK(eitp_plan_read(plan, gradients[1], dw[capacity], sizeof dw[0], &error), error);
            eitp_plan_destroy(plan);
            eitp_graph_destroy(graph);
        }
        CHECK(!memcmp(dx[0], dx[1], sizeof dx[0]));
        /*
         * A batch whose size varies is computed as one product per matrix, not as one product of all rows, so the order
         * of summation differs.
         */
        for (int i = 0; i < 15; i++)
            CHECK(fabs((double)(sums[0][i] - sums[1][i])) < 1e-4 && sums[0][i] != 0);
        for (int i = 0; i < 30; i++)
            CHECK(fabs((double)(dw[0][i] - dw[1][i])) < 1e-4 && dw[0][i] != 0);
        eitp_context_destroy(context);
    }
}

static void row_ops_equal_those_of_a_smaller_graph(void) {
    check_rows_of(make_row_ops);
    check_rows_of(make_products_of_a_matrix);
}

enum { SELECTED = 7, SELECTED_CAPACITY = 20 };

/* Outputs of selected rows: the rows, their gradients with respect to x and weight, and the gradients of those. */
typedef struct selected_rows {
    eitp_tensor *x, *weight, *ids, *at, *outputs[6];
} selected_rows;

/* Computes hidden rows, selects some by embedding and by gather, and computes outputs from these. */
static selected_rows make_selected_rows(eitp_graph *graph, eitp_dtype dtype, int64_t rows, int capacity) {
    int64_t hidden[2] = {0, 6}, matrix[2] = {6, 5}, selected[1] = {SELECTED}, indices[2] = {SELECTED, 5};
    eitp_tensor *y, *xs[2], *gradients[2] = {NULL, NULL}, *sum;
    eitp_error error = EITP__ZERO;
    selected_rows c;
    memset(&c, 0, sizeof c);
    hidden[0] = rows;
    c.x = capacity ? eitp_input_rows(graph, "x", dtype, 2, hidden) : eitp_input(graph, "x", dtype, 2, hidden);
    c.weight = eitp_input(graph, "weight", dtype, 2, matrix);
    c.ids = eitp_input(graph, "ids", EITP_I32, 1, selected);
    c.at = eitp_input(graph, "at", EITP_I32, 2, indices);
    y = eitp_tanh(eitp_matmul(c.x, c.weight));
    c.outputs[0] = eitp_embedding(y, c.ids);
    c.outputs[1] = eitp_gather(y, c.at, 0);
    y = eitp_multiply(c.outputs[0], eitp_multiply(c.outputs[0], c.outputs[1]));
    xs[0] = c.x;
    xs[1] = c.weight;
    sum = eitp_sum(y, EITP_ALL_DIMENSIONS, 0);
    CHECK_THAT(eitp_gradients(sum, NULL, 2, xs, &c.outputs[2], &error) == EITP_OK, "%s", error.message);
    for (int i = 2; i < 4; i++) {
        eitp_tensor *square = eitp_multiply(c.outputs[i], c.outputs[i]);
        CHECK_THAT(eitp_gradients(eitp_sum(square, EITP_ALL_DIMENSIONS, 0), NULL, 2, xs, gradients, &error) == EITP_OK,
                   "%s", error.message);
        for (int j = 0; j < 2; j++)
            c.outputs[4 + j] = i == 2 ? gradients[j] : eitp_add(c.outputs[4 + j], gradients[j]);
    }
    for (int i = 0; i < 6; i++)
        eitp_output(c.outputs[i]);
    return c;
}

/* Executes with `rows` rows, in a graph of exactly these or with a capacity. Returns all outputs as doubles, one
   after the other. */
static outcome execute_selected_rows(eitp_context *context, eitp_dtype dtype, int64_t rows, int capacity) {
    static const double ids[SELECTED] = {0, 3, 3, 8, -1, 19, 20}, zero[SELECTED_CAPACITY * 6] = EITP__ZERO;
    double x[SELECTED_CAPACITY * 6], weight[30], at[SELECTED * 5], bytes[SELECTED_CAPACITY * 6];
    uint32_t random = 11;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    outcome result = EITP__ZERO;
    selected_rows c;
    for (int i = 0; i < SELECTED_CAPACITY * 6; i++)
        x[i] = (double)(float)(2 * draw(&random) - 1);
    for (int i = 0; i < 30; i++)
        weight[i] = (double)(float)(2 * draw(&random) - 1);
    for (int i = 0; i < SELECTED * 5; i++)
        at[i] = floor(22 * draw(&random)) - 1;
    CHECK(eitp_graph_create(context, &graph, &error) == EITP_OK);
    c = make_selected_rows(graph, dtype, capacity ? SELECTED_CAPACITY : rows, capacity);
    CHECK_THAT(eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", error.message);
    result.values = (double *)calloc(SELECTED * 10 + SELECTED_CAPACITY * 12 + 60, sizeof(double));
    if (plan) {
        poison(context);
        if (capacity)
            CHECK(eitp_plan_set_rows(plan, rows, &error) == EITP_OK);
        to_bytes(dtype, rows ? x : zero, bytes, rows * 6);
        CHECK_THAT(eitp_plan_write(plan, c.x, bytes, (size_t)(rows * 6) * eitp_dtype_size(dtype), &error) == EITP_OK,
                   "%s", error.message);
        write_values(plan, c.weight, weight);
        write_values(plan, c.ids, ids);
        write_values(plan, c.at, at);
        CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
        for (int i = 0; i < 6; i++) {
            int64_t count = c.outputs[i]->rows ? rows * 6 : eitp_tensor_elements(c.outputs[i]);
            CHECK(eitp_plan_read(plan, c.outputs[i], bytes, (size_t)count * eitp_dtype_size(dtype), &error) == EITP_OK);
            from_bytes(dtype, bytes, result.values + result.total, count);
            result.total += count;
        }
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return result;
}

/*
 * Rows selected from those in use, with repeated ids and ids of unused rows, have the same bits as in a graph with
 * exactly these rows, on any number of threads. So do their derivatives.
 */
static void selected_rows_equal_those_of_a_smaller_graph(void) {
    static const int64_t counts[] = {0, 1, 4, 9, SELECTED_CAPACITY};
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 1), *threads = open_context(kernel_sets[set], 3);
        for (int i = 0; i < 10 && context; i++) {
            int64_t rows = counts[i / 2];
            outcome some = execute_selected_rows(context, dtypes[i % 2], rows, 1);
            outcome all = execute_selected_rows(threads, dtypes[i % 2], rows ? rows : 1, 0);
            double sum = 0;
            CHECK_THAT(some.total == SELECTED * 10 + rows * 12 + 60, "%d values", (int)some.total);
            if (rows)
                CHECK_THAT(some.total == all.total &&
                               !memcmp(some.values, all.values, (size_t)all.total * sizeof(double)),
                           "%d rows with %s", (int)rows, kernel_sets[set]);
            for (int64_t j = 0; j < some.total; j++)
                sum += fabs(some.values[j]);
            CHECK_THAT(rows ? sum > 1 : sum == 0, "%d rows: %g", (int)rows, sum);
            free(some.values);
            free(all.values);
        }
        eitp_context_destroy(context);
        eitp_context_destroy(threads);
    }
}

/* The gradient of a row is the sum of the seeds where the row was selected, and 0 if it was not. */
static void gradients_of_selected_rows_are_sums(void) {
    static const double ids[5] = {2, 0, 2, 5, 2}, seeds[10] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    static const double expected[8] = {4, 8, 0, 0, 273, 546, 0, 0}; /* row 5 is not in use */
    const int64_t shape[2] = {9, 2}, selected[2] = {5, 2};
    double values[8];
    float x[8] = EITP__ZERO, gradients[8];
    eitp_context *context = open_context("ref", 2);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *rows, *at, *seed, *gradient = NULL;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    rows = eitp_input_rows(graph, "rows", EITP_F32, 2, shape);
    at = eitp_input(graph, "ids", EITP_I32, 1, selected);
    seed = eitp_input(graph, "seed", EITP_F32, 2, selected);
    CHECK_THAT(eitp_gradients(eitp_embedding(rows, at), seed, 1, &rows, &gradient, &error) == EITP_OK, "%s",
               error.message);
    eitp_output(gradient);
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    poison(context);
    REQUIRE_OK(eitp_plan_set_rows(plan, 4, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, rows, x, sizeof x, &error), error);
    write_values(plan, at, ids);
    write_values(plan, seed, seeds);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    REQUIRE_OK(eitp_plan_read(plan, gradient, gradients, sizeof gradients, &error), error);
    from_bytes(EITP_F32, gradients, values, 8);
    for (int i = 0; i < 8; i++)
        CHECK_THAT(values[i] == expected[i], "element %d: %g", i, values[i]);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

enum { COMPOSED_ROWS = 11, COMPOSED_CAPACITY = 24, COMPOSED_INPUTS = 8, COMPOSED_OUTPUTS = 5 };

/*
 * Attention with separate projections, and smoothed losses. Outputs: attention, losses, and the gradients of their sum
 * with respect to x, the projections and the table.
 */
static void make_composed(eitp_graph *graph, int capacity, eitp_tensor **inputs, eitp_tensor **outputs) {
    const int64_t rows = capacity ? COMPOSED_CAPACITY : COMPOSED_ROWS, four[1] = {4}, key[1] = {3}, bias[3] = {2, 7, 7};
    int64_t x[2] = {0, 8}, projection[2] = {8, 16}, table[2] = {13, 8}, classes[1] = {13};
    eitp_attention_config attention = eitp_attention_config_default();
    eitp_attention_inputs operands = eitp_attention_inputs_default();
    eitp_cross_entropy_config loss = eitp_cross_entropy_config_default();
    eitp_tensor *qkv, *y, *xs[3], *logits;
    eitp_error error = EITP__ZERO;
    x[0] = rows;
    inputs[0] = capacity ? eitp_input_rows(graph, "x", EITP_F32, 2, x) : eitp_input(graph, "x", EITP_F32, 2, x);
    inputs[1] =
        capacity ? eitp_input_rows(graph, "targets", EITP_I32, 1, x) : eitp_input(graph, "targets", EITP_I32, 1, x);
    inputs[2] = eitp_input(graph, "projection", EITP_F32, 2, projection);
    inputs[3] = eitp_input(graph, "table", EITP_F32, 2, table);
    inputs[4] = eitp_input(graph, "bias", EITP_F32, 3, bias);
    inputs[5] = eitp_input(graph, "weights", EITP_F32, 1, classes);
    inputs[6] = eitp_input(graph, "offsets", EITP_I32, 1, four);
    inputs[7] = eitp_input(graph, "key", EITP_I64, 1, key);
    attention.heads = 2;
    attention.key_value_heads = 1;
    attention.max_length = 7;
    attention.scale = 0.5;
    attention.dropout = 0.2;
    loss.label_smoothing = 0.1;
    loss.weights = inputs[5];
    qkv = eitp_matmul(inputs[0], inputs[2]);
    operands.q = eitp_slice(qkv, 1, 0, 8);
    operands.k = eitp_slice(qkv, 1, 8, 12);
    operands.v = eitp_slice(qkv, 1, 12, 16);
    operands.offsets = inputs[6];
    operands.mask = inputs[4];
    operands.key = inputs[7];
    y = eitp_attention(&operands, &attention);
    logits = eitp_matmul_transposed(y, inputs[3], 0, 1);
    outputs[0] = y;
    outputs[1] = eitp_add(eitp_cross_entropy_with(logits, inputs[1], &loss),
                          eitp_linear_cross_entropy_with(y, inputs[3], inputs[1], &loss));
    xs[0] = inputs[0];
    xs[1] = inputs[2];
    xs[2] = inputs[3];
    CHECK_THAT(eitp_gradients(eitp_sum(outputs[1], EITP_ALL_DIMENSIONS, 0), NULL, 3, xs, outputs + 2, &error) ==
                   EITP_OK,
               "%s", error.message);
    for (int i = 0; i < COMPOSED_OUTPUTS; i++)
        eitp_output(outputs[i]);
}

/* Returns all outputs, one after the other. */
static outcome execute_composed(eitp_context *context, int capacity) {
    static const double offsets[4] = {1, 4, 4, 11}, key[3] = {5, 6, 7};
    eitp_tensor *inputs[COMPOSED_INPUTS], *outputs[COMPOSED_OUTPUTS] = {NULL, NULL, NULL, NULL, NULL};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    outcome result = EITP__ZERO;
    uint32_t random = 5;
    CHECK(eitp_graph_create(context, &graph, &error) == EITP_OK);
    make_composed(graph, capacity, inputs, outputs);
    CHECK_THAT(eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", error.message);
    result.values = (double *)calloc(1000, sizeof(double));
    if (plan) {
        double values[200], bytes[200];
        poison(context);
        if (capacity)
            CHECK(eitp_plan_set_rows(plan, COMPOSED_ROWS, &error) == EITP_OK);
        for (int i = 0; i < COMPOSED_INPUTS; i++) {
            int64_t count = i == 0 ? COMPOSED_ROWS * 8 : i == 1 ? COMPOSED_ROWS : eitp_tensor_elements(inputs[i]);
            eitp_dtype dtype = eitp_tensor_dtype(inputs[i]);
            for (int64_t j = 0; j < count; j++)
                values[j] = i == 1 ? floor(13 * draw(&random)) : 0.5 + draw(&random);
            to_bytes(dtype, i == 6 ? offsets : i == 7 ? key : values, bytes, count);
            CHECK_THAT(eitp_plan_write(plan, inputs[i], bytes, (size_t)count * eitp_dtype_size(dtype), &error) ==
                           EITP_OK,
                       "%s", error.message);
        }
        CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
        for (int i = 0; i < COMPOSED_OUTPUTS; i++) {
            int64_t count = i == 1             ? COMPOSED_ROWS
                            : i == 0 || i == 2 ? COMPOSED_ROWS * 8
                                               : eitp_tensor_elements(outputs[i]);
            CHECK(eitp_plan_read(plan, outputs[i], bytes, (size_t)count * sizeof(float), &error) == EITP_OK);
            from_bytes(EITP_F32, bytes, result.values + result.total, count);
            result.total += count;
        }
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return result;
}

/* Composed ops too have the same bits as in a smaller graph, on any number of threads. */
static void composed_rows_equal_those_of_a_smaller_graph(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 1), *threads = open_context(kernel_sets[set], 3);
        if (context) {
            outcome some = execute_composed(context, 1), all = execute_composed(threads, 0);
            double sum = 0;
            CHECK_THAT(some.total == all.total && some.total == COMPOSED_ROWS * 17 + 128 + 104, "%d", (int)some.total);
            CHECK_THAT(!memcmp(some.values, all.values, (size_t)all.total * sizeof(double)), "with %s",
                       kernel_sets[set]);
            for (int64_t j = 0; j < some.total; j++)
                sum += fabs(some.values[j]);
            CHECK(isfinite(sum) && sum > 1);
            free(some.values);
            free(all.values);
        }
        eitp_context_destroy(context);
        eitp_context_destroy(threads);
    }
}

/* ---- Order of updates ---- */

/* A graph over the variable "v" [4] = 1, 2, 3, 4 and the input x [4] = 10, 20, 30, 40, on ref. */
typedef struct updating {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *v, *x;
} updating;

static void updating_begin(updating *u) {
    const int64_t four = 4;
    const float values[4] = {1, 2, 3, 4};
    eitp_error error = EITP__ZERO;
    u->plan = NULL;
    u->context = open_context("ref", 1);
    CHECK(eitp_graph_create(u->context, &u->graph, &error) == EITP_OK);
    u->v = eitp_variable_tensor(u->graph, "v", EITP_CACHE, EITP_F32, 1, &four);
    u->x = eitp_input(u->graph, "x", EITP_F32, 1, &four);
    CHECK(eitp_variable_write(u->context, "v", 0, values, sizeof values, &error) == EITP_OK);
}

static void updating_execute(updating *u) {
    static const double values[4] = {10, 20, 30, 40};
    eitp_error error = EITP__ZERO;
    CHECK_THAT(eitp_plan_create(u->graph, &u->plan, &error) == EITP_OK, "%s", error.message);
    if (!u->plan)
        return;
    poison(u->context);
    write_values(u->plan, u->x, values);
    CHECK(eitp_plan_execute(u->plan, &error) == EITP_OK);
}

static void updating_end(updating *u) {
    eitp_plan_destroy(u->plan);
    eitp_graph_destroy(u->graph);
    eitp_context_destroy(u->context);
}

static void check_four(updating *u, eitp_tensor *y, double a, double b, double c, double d) {
    double values[4] = {0, 0, 0, 0};
    if (u->plan)
        read_values(u->plan, y, values);
    CHECK_THAT(values[0] == a && values[1] == b && values[2] == c && values[3] == d, "%g %g %g %g", values[0],
               values[1], values[2], values[3]);
}

static void check_variable_four(updating *u, double a, double b, double c, double d) {
    float v[4];
    eitp_error error = EITP__ZERO;
    CHECK(eitp_variable_read(u->context, "v", 0, v, sizeof v, &error) == EITP_OK);
    CHECK_THAT((double)v[0] == a && (double)v[1] == b && (double)v[2] == c && (double)v[3] == d, "%g %g %g %g",
               (double)v[0], (double)v[1], (double)v[2], (double)v[3]);
}

/* Readers of the old value get it, no matter when they were created. Readers of the result get the result. */
static void readers_see_the_version_they_name(void) {
    updating u;
    eitp_tensor *early, *after, *late, *again, *other;
    updating_begin(&u);
    early = eitp_output(eitp_affine(u.v, 3, 0));
    after = eitp_accumulate(u.v, u.x, NULL);
    late = eitp_output(eitp_affine(u.v, 5, 0));
    again = eitp_accumulate(after, eitp_affine(late, 100, 0), NULL);
    other = eitp_output(eitp_affine(after, 2, 0));
    after = eitp_output(eitp_affine(again, 1, 0));
    updating_execute(&u);
    check_four(&u, early, 3, 6, 9, 12);
    check_four(&u, late, 5, 10, 15, 20);
    check_four(&u, other, 22, 44, 66, 88);
    check_four(&u, after, 511, 1022, 1533, 2044);
    check_variable_four(&u, 511, 1022, 1533, 2044);
    updating_end(&u);
}

/* The old value cannot be read after it is overwritten. */
static void impossible_orders_are_refused(void) {
    updating u;
    eitp_error error = EITP__ZERO;
    updating_begin(&u);
    eitp_output(eitp_multiply(eitp_accumulate(u.v, u.x, NULL), u.v));
    CHECK(eitp_plan_create(u.graph, &u.plan, &error) == EITP_ERROR_ARGUMENT && !u.plan);
    CHECK(strstr(error.message, "variable") && strstr(error.message, "old value"));
    updating_end(&u);
    updating_begin(&u);
    eitp_accumulate(u.v, u.x, NULL);
    eitp_accumulate(u.v, u.x, NULL);
    CHECK(eitp_plan_create(u.graph, &u.plan, &error) == EITP_ERROR_ARGUMENT && !u.plan);
    updating_end(&u);
}

/* Sums accumulate into the target: v += sum of rows. The result is the same if the sum is an output or is used
   twice. */
static void sums_accumulate_in_place(void) {
    const int64_t wide[2] = {1, 4}, tall[2] = {3, 4}, flat[1] = {4};
    for (int kind = 0; kind < 4; kind++) {
        updating u;
        eitp_tensor *sum;
        updating_begin(&u);
        sum = eitp_broadcast(eitp_reshape(u.x, 2, wide), 2, tall);
        sum = eitp_reshape(eitp_sum(sum, 1, 1), 1, flat); /* 30, 60, 90, 120 */
        if (kind == 1)
            eitp_output(sum);
        if (kind == 2)
            eitp_output(eitp_affine(sum, 2, 0));
        if (kind == 3) {
            int64_t one = 1;
            eitp_accumulate(u.v, sum, eitp_fill(u.graph, EITP_F32, 1, &one, -2));
        } else {
            eitp_accumulate(u.v, sum, NULL);
        }
        updating_execute(&u);
        if (u.plan)
            CHECK_THAT((eitp_plan_statistics(u.plan).nodes == 2 + (kind == 3)) == (kind == 0 || kind == 3),
                       "kind %d has %d nodes", kind, eitp_plan_statistics(u.plan).nodes);
        if (kind == 1)
            check_four(&u, sum, 30, 60, 90, 120);
        if (kind == 3)
            check_variable_four(&u, 28, 56, 84, 112);
        else
            check_variable_four(&u, 31, 62, 93, 124);
        updating_end(&u);
    }
}

/* A product that reads the variable to which it is added must not overwrite it while reading: v = v + v v, with v =
   [1 2; 3 4]. */
static void products_that_read_their_target(void) {
    const int64_t square[2] = {2, 2}, flat[1] = {4};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 1);
        const float values[4] = {1, 2, 3, 4};
        float read[4];
        eitp_graph *graph = NULL;
        eitp_plan *plan = NULL;
        eitp_error error = EITP__ZERO;
        eitp_tensor *v, *m;
        if (!context)
            continue;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        v = eitp_variable_tensor(graph, "v", EITP_CACHE, EITP_F32, 1, flat);
        m = eitp_reshape(v, 2, square);
        eitp_accumulate(v, eitp_reshape(eitp_matmul(m, m), 1, flat), NULL);
        REQUIRE_OK(eitp_variable_write(context, "v", 0, values, sizeof values, &error), error);
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
        REQUIRE_OK(eitp_variable_read(context, "v", 0, read, sizeof read, &error), error);
        CHECK_THAT(read[0] == 8 && read[1] == 12 && read[2] == 18 && read[3] == 26, "%g %g %g %g", (double)read[0],
                   (double)read[1], (double)read[2], (double)read[3]);
        eitp_plan_destroy(plan);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
}

/* ---- Training steps ---- */

enum { STEPS = 3 };

/* The result of training: losses, then all variables. */
typedef struct trained {
    float losses[STEPS];
    size_t size;
    unsigned char *bytes;
} trained;

static void trained_release(trained *r) {
    free(r->bytes);
    r->bytes = NULL;
}

static void end(training *s) {
    training_end(s);
    eitp_context_destroy(s->context);
}

static trained train(eitp_context *context, const transformer_config *config) {
    trained r;
    training s;
    eitp_error error = EITP__ZERO;
    int begun;
    memset(&r, 0, sizeof r);
    begun = training_begin_initialized(&s, context, config);
    for (int i = 0; i < STEPS && begun; i++)
        CHECK(!training_step(&s, i + 1, 0.5f, &r.losses[i], &error));
    for (size_t i = 0; i < eitp_variable_count(context) && begun; i++) {
        eitp_variable v = eitp_variable_at(context, i);
        r.bytes = (unsigned char *)realloc(r.bytes, r.size + v.size);
        CHECK(eitp_variable_read(context, v.name, 0, r.bytes + r.size, v.size, &error) == EITP_OK);
        r.size += v.size;
    }
    end(&s);
    return r;
}

static int same_training(const trained *a, const trained *b) {
    return a->size == b->size && a->size && !memcmp(a->losses, b->losses, sizeof a->losses) &&
           !memcmp(a->bytes, b->bytes, a->size);
}

static void check_threads(const char *precision, const char *set) {
    eitp_context *context = open_context_in(precision, set, 1);
    trained one;
    if (!context)
        return;
    printf("    %s\n", eitp_context_description(context));
    one = train(context, &wide_transformer);
    CHECK(one.losses[0] > 4 && one.losses[STEPS - 1] < one.losses[0] && isfinite(one.losses[STEPS - 1]));
    for (int threads = 2; threads <= 3; threads++) {
        trained more = train(open_context_in(precision, set, threads), &wide_transformer);
        CHECK_THAT(same_training(&one, &more), "%s, %s with %d threads", precision, set, threads);
        trained_release(&more);
    }
    trained_release(&one);
}

/* Forward, backward and AdamW give the same bits with 1, 2 and 3 threads. */
static void threads_do_not_change_bits(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        check_threads("fp32", kernel_sets[set]);
        check_threads("bf16", kernel_sets[set]);
    }
}

/* The body of a thread. Failures are reported by the main thread. */
typedef struct alone {
    const char *set;
    trained result;
} alone;

static void *train_alone(void *argument) {
    alone *a = (alone *)argument;
    a->result = train(open_context(a->set, 2), &tiny_transformer);
    return NULL;
}

static void contexts_are_independent(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 1);
        alone both[2];
        pthread_t threads[2];
        trained one;
        if (!context)
            continue;
        one = train(context, &tiny_transformer);
        for (int i = 0; i < 2; i++) {
            both[i].set = kernel_sets[set];
            REQUIRE(!pthread_create(&threads[i], NULL, train_alone, &both[i]));
        }
        for (int i = 0; i < 2; i++) {
            REQUIRE(!pthread_join(threads[i], NULL));
            CHECK_THAT(same_training(&one, &both[i].result), "%s, thread %d", kernel_sets[set], i);
            trained_release(&both[i].result);
        }
        trained_release(&one);
    }
}

/* Updates in the same graph as the gradient use the gradient at the old values of all parameters. */
static void updates_follow_all_readers(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        outcome before;
        training s;
        eitp_error error = EITP__ZERO;
        float loss = 0;
        int64_t at = 1 + tiny_transformer.rows * tiny_transformer.words;
        if (!context)
            continue;
        before = execute_rows(context, &tiny_transformer, tiny_transformer.rows); /* step 3 */
        REQUIRE(training_begin_initialized(&s, context, &tiny_transformer));
        REQUIRE_OK(training_step(&s, 3, 0, &loss, &error), error);
        CHECK((double)loss == before.values[0]);
        for (int i = 0; i < s.t.parameter_count; i++) {
            char name[100];
            float m[1024];
            int64_t count = eitp_tensor_elements(s.t.parameters[i]);
            snprintf(name, sizeof name, "adamw.m.%s", eitp__variable_name(s.t.parameters[i]));
            REQUIRE_OK(eitp_variable_read(context, name, 0, m, (size_t)count * sizeof *m, &error), error);
            for (int64_t j = 0; j < count; j++) {
                double wanted = 0.1 * before.values[at + j];
                CHECK_THAT(fabs((double)m[j] - wanted) <= 1e-6 * fabs(wanted) + 1e-12, "%s, element %d: %g, not %g",
                           name, (int)j, (double)m[j], wanted);
            }
            at += count;
        }
        free(before.values);
        end(&s);
    }
}

static void execution_allocates_nothing(void) {
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context_config config = eitp_context_config_default();
        eitp_context *context = open_context(kernel_sets[set], 1);
        eitp_error error = EITP__ZERO;
        transformer_config capacity = tiny_transformer;
        training s;
        faults f;
        float loss = 0;
        long before;
        if (!context)
            continue;
        eitp_context_destroy(context);
        faults_begin(&f);
        config.host = f.host;
        config.device = "auto";
        config.threads = 2;
        config.isa = kernel_sets[set];
        REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
        capacity.capacity = 1;
        REQUIRE(training_begin_initialized(&s, context, &capacity));
        before = f.allocations;
        f.fail_allocation = before + 1;
        f.all_allocations = 1;
        CHECK(!training_step(&s, 1, 0, &loss, &error) && !training_step(&s, 2, 0, &loss, &error));
        s.t.config.rows = 11;
        CHECK(eitp_plan_set_rows(s.plan, 11, &error) == EITP_OK);
        CHECK(!training_step(&s, 3, 0, &loss, &error));
        CHECK_THAT(f.allocations == before, "%ld allocations", f.allocations - before);
        end(&s);
        faults_end(&f);
    }
}

/* ---- Lifetime of inputs and outputs ---- */

typedef struct two_plans {
    eitp_context *context;
    eitp_graph *graphs[2];
    eitp_plan *plans[2];
    eitp_tensor *x[2], *y[2], *spare[2];
} two_plans;

/* Creates two graphs in one context: y = exp(x), and an input that nothing reads. The second needs the same memory. */
static void two_plans_begin(two_plans *t) {
    const int64_t shape[1] = {1024};
    eitp_error error = EITP__ZERO;
    t->context = open_context("ref", 1);
    for (int i = 0; i < 2; i++) {
        CHECK(!eitp_graph_create(t->context, &t->graphs[i], &error));
        t->x[i] = eitp_input(t->graphs[i], "x", EITP_F32, 1, shape);
        t->spare[i] = eitp_input(t->graphs[i], "spare", EITP_F32, 1, shape);
        t->y[i] = eitp_output(eitp_exp(eitp_exp(t->x[i])));
        CHECK_THAT(!eitp_plan_create(t->graphs[i], &t->plans[i], &error), "%s", error.message);
    }
}

static void two_plans_end(two_plans *t) {
    for (int i = 0; i < 2; i++) {
        eitp_plan_destroy(t->plans[i]);
        eitp_graph_destroy(t->graphs[i]);
    }
    eitp_context_destroy(t->context);
}

static void write_x(two_plans *t, int plan) {
    float values[1024] = {0.5f};
    eitp_error error = EITP__ZERO;
    CHECK_THAT(!eitp_plan_write(t->plans[plan], t->x[plan], values, sizeof values, &error), "%s", error.message);
}

static int is_refused_by_name(eitp_plan *plan) {
    eitp_error error = EITP__ZERO;
    return eitp_plan_execute(plan, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "'x'") &&
           strstr(error.message, "written");
}

static void inputs_must_be_written_for_each_execution(void) {
    two_plans t;
    eitp_error error = EITP__ZERO;
    two_plans_begin(&t);
    CHECK(is_refused_by_name(t.plans[0]));
    for (int i = 0; i < 2; i++) {
        write_x(&t, 0);
        CHECK_THAT(!eitp_plan_execute(t.plans[0], &error), "%s", error.message);
        CHECK(is_refused_by_name(t.plans[0]));
    }
    two_plans_end(&t);
}

/* Values written to a plan's inputs are lost if another plan uses the arena before the execution. */
static void inputs_are_lost_to_other_plans(void) {
    two_plans t;
    eitp_error error = EITP__ZERO;
    two_plans_begin(&t);
    write_x(&t, 0);
    write_x(&t, 1);
    CHECK(is_refused_by_name(t.plans[0]));
    CHECK_THAT(!eitp_plan_execute(t.plans[1], &error), "%s", error.message);
    write_x(&t, 0);
    CHECK_THAT(!eitp_plan_execute(t.plans[0], &error), "%s", error.message);
    two_plans_end(&t);
}

/* A larger plan moves the arena. */
static void inputs_are_lost_when_the_arena_moves(void) {
    const int64_t shape[1] = {1 << 20};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    two_plans t;
    eitp_error error = EITP__ZERO;
    two_plans_begin(&t);
    write_x(&t, 0);
    CHECK(!eitp_graph_create(t.context, &graph, &error));
    eitp_output(eitp_exp(eitp_fill(graph, EITP_F32, 1, shape, 1)));
    CHECK(!eitp_plan_create(graph, &plan, &error));
    CHECK(is_refused_by_name(t.plans[0]));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    two_plans_end(&t);
}

/* Fewer rows were written than are in use. */
static void inputs_must_be_written_for_all_rows(void) {
    const int64_t shape[1] = {8};
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_tensor *x;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = eitp_input_rows(graph, "x", EITP_F32, 1, shape);
    eitp_output(eitp_exp(x));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    REQUIRE_OK(eitp_plan_set_rows(plan, 3, &error), error);
    REQUIRE_OK(eitp_plan_write(plan, x, values, 3 * sizeof *values, &error), error);
    REQUIRE_OK(eitp_plan_set_rows(plan, 4, &error), error);
    CHECK(is_refused_by_name(plan));
    REQUIRE_OK(eitp_plan_set_rows(plan, 2, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

enum { CACHED_ROWS = 16, CACHED_WIDTH = 32 };

/*
 * Executes a plan twice that stores into a kept input, and returns the second result. The result depends on values that
 * are computed from the input before each execution stores into it and are needed afterwards.
 */
static void read_stored_inputs(eitp_recompute recompute, double *result) {
    const int64_t cache[2] = {CACHED_ROWS, CACHED_WIDTH}, packed[2] = {CACHED_ROWS, 3 * CACHED_WIDTH}, one = 1;
    const int32_t position = 0;
    static double x[CACHED_ROWS * 3 * CACHED_WIDTH];
    eitp_plan_config config = {0, EITP_RECOMPUTE_AUTO};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *qkv, *keys, *values, *at, *old, *output;
    eitp_error error = EITP__ZERO;
    config.recompute = recompute;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    qkv = eitp_input(graph, "qkv", EITP_F32, 2, packed);
    at = eitp_input(graph, "position", EITP_I32, 1, &one);
    keys = eitp_keep_input(eitp_input(graph, "keys", EITP_F32, 2, cache));
    values = eitp_keep_input(eitp_input(graph, "values", EITP_F32, 2, cache));
    old = eitp_exp(keys);
    output = eitp_sum(old, 1u, 1);
    output = eitp_add(cached_attention(eitp_exp(qkv), keys, values, at, 4, 0.5), output);
    output = eitp_output(eitp_multiply(eitp_tanh(output), old));
    REQUIRE_OK(eitp_plan_create_with(graph, &config, &plan, &error), error);
    CHECK((recompute == EITP_RECOMPUTE_NONE) == !eitp_plan_statistics(plan).recomputed);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < CACHED_ROWS * 3 * CACHED_WIDTH; j++)
            x[j] = sin(j + i);
        poison(context);
        write_values(plan, qkv, x);
        REQUIRE_OK(eitp_plan_write(plan, at, &position, sizeof position, &error), error);
        REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    }
    read_values(plan, output, result);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A kept input that an op stores into starts as zeros. Values computed from its old contents are not recomputed. */
static void kept_inputs_can_be_stored_into(void) {
    static double kept[CACHED_ROWS * CACHED_WIDTH], recomputed[CACHED_ROWS * CACHED_WIDTH];
    read_stored_inputs(EITP_RECOMPUTE_NONE, kept);
    read_stored_inputs(EITP_RECOMPUTE_LAYER, recomputed);
    CHECK(kept[0] > 0 && !memcmp(kept, recomputed, sizeof kept));
}

/* A kept input keeps its value when the arena is reused or moved, also with minimum memory. */
static void kept_inputs_keep_their_value(void) {
    const int64_t shape[2] = {16, 16}, large[1] = {1 << 20};
    for (int way = 0; way < 4; way++) {
        eitp_plan_config config = {0, EITP_RECOMPUTE_AUTO};
        eitp_dtype dtype = way % 2 ? EITP_F64 : EITP_F32;
        double kept[256], x[256], y[256];
        eitp_graph *graph = NULL, *bigger = NULL;
        eitp_plan *plan = NULL, *other = NULL;
        eitp_tensor *input, *mask, *shown, *view, *sum;
        two_plans t;
        eitp_error error = EITP__ZERO;
        config.memory = way / 2 ? EITP_MINIMUM_MEMORY : 0;
        two_plans_begin(&t);
        REQUIRE_OK(eitp_graph_create(t.context, &graph, &error), error);
        mask = eitp_keep_input(eitp_input(graph, "mask", dtype, 2, shape));
        shown = eitp_keep_input(eitp_input(graph, "shown", dtype, 2, shape));
        input = eitp_input(graph, "x", dtype, 2, shape);
        sum = eitp_add(eitp_softmax(eitp_multiply(input, mask)), eitp_transpose(mask));
        eitp_output(sum);
        view = eitp_output(eitp_reshape(shown, 2, shape));
        REQUIRE_OK(eitp_plan_create_with(graph, &config, &plan, &error), error);
        CHECK(eitp_plan_statistics(plan).kept_bytes == 2 * 256 * eitp_dtype_size(dtype));
        for (int i = 0; i < 256; i++) {
            x[i] = i % 16 == i / 16 ? 2 : 0;
            kept[i] = i + 1;
        }
        write_values(plan, input, x);
        CHECK(eitp_plan_execute(plan, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "'mask'"));
        write_values(plan, mask, kept);
        CHECK(eitp_plan_execute(plan, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "'shown'"));
        write_values(plan, shown, x);
        for (int i = 0; i < 4; i++) {
            poison(t.context);
            write_values(plan, input, x);
            CHECK_THAT(!eitp_plan_execute(plan, &error), "%s", error.message);
            read_values(plan, sum, y);
            CHECK_THAT(fabs(y[1] - 17) < 0.2 && fabs(y[16] - 2) < 0.2 && fabs(y[255] - 257) < 1e-6, "%g %g %g", y[1],
                       y[16], y[255]);
            write_x(&t, 0);
            CHECK(!eitp_plan_execute(t.plans[0], &error));
            read_values(plan, view, y);
            CHECK(!memcmp(x, y, sizeof x));
            if (i == 1) {
                CHECK(!eitp_graph_create(t.context, &bigger, &error));
                eitp_output(eitp_exp(eitp_fill(bigger, EITP_F32, 1, large, 1)));
                CHECK(!eitp_plan_create(bigger, &other, &error) && !eitp_plan_execute(other, &error));
            }
        }
        /* It can be written again, while outputs keep their values. */
        write_values(plan, input, x);
        CHECK(!eitp_plan_execute(plan, &error));
        kept[255] = 1000;
        write_values(plan, mask, kept);
        read_values(plan, sum, y);
        CHECK(fabs(y[255] - 257) < 1e-6);
        write_values(plan, input, x);
        CHECK(!eitp_plan_execute(plan, &error));
        read_values(plan, sum, y);
        CHECK(fabs(y[255] - 1001) < 1e-6);
        CHECK(!eitp_keep_input(sum) && strstr((eitp_graph_status(graph, &error), error.message), "eitp_keep_input"));
        eitp_plan_destroy(plan);
        eitp_plan_destroy(other);
        eitp_graph_destroy(graph);
        eitp_graph_destroy(bigger);
        two_plans_end(&t);
    }
}

/* Outputs can be read from an execution until the memory is used for something else. */
static void outputs_can_be_read_until_the_arena_is_reused(void) {
    float y[1024];
    two_plans t;
    eitp_error error = EITP__ZERO;
    two_plans_begin(&t);
    CHECK(eitp_plan_read(t.plans[0], t.y[0], y, sizeof y, &error) == EITP_ERROR_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        write_x(&t, 0);
        REQUIRE_OK(eitp_plan_execute(t.plans[0], &error), error);
        REQUIRE_OK(eitp_plan_read(t.plans[0], t.y[0], y, sizeof y, &error), error);
        if (i < 2)
            write_x(&t, i);
        if (i == 1)
            REQUIRE_OK(eitp_plan_execute(t.plans[1], &error), error);
        CHECK((eitp_plan_read(t.plans[0], t.y[0], y, sizeof y, &error) == EITP_OK) == (i == 2));
    }
    two_plans_end(&t);
}

/* ---- Polls ---- */

typedef struct stopper {
    int asked, stop_at; /* number of polls so far; the poll that stops, 0: none */
} stopper;

static int ask_stopper(void *user) {
    stopper *s = (stopper *)user;
    return ++s->asked == s->stop_at;
}

/* A hash of all parameters and optimizer state. */
static uint64_t hash_of_state(eitp_context *context) {
    uint64_t hash = 14695981039346656037u;
    eitp_error error = EITP__ZERO;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        unsigned char *bytes = (unsigned char *)malloc(variable.size + 1);
        if (eitp__role_of(variable.role)->is_training_state) {
            CHECK_THAT(!eitp_variable_read(context, variable.name, 0, bytes, variable.size, &error), "%s",
                       error.message);
            for (size_t b = 0; b < variable.size; b++)
                hash = (hash ^ bytes[b]) * 1099511628211u;
        }
        free(bytes);
    }
    return hash;
}

/* Stopping an execution at any poll changes no state, and repeating it gives the same bits. With clipping,
   parameters change only when the whole gradient is known. Without it, some change earlier. */
static void polls_stop_executions(int threads, float limit, const char *device) {
    uint64_t before, after = 0;
    int questions = 0, stopped = 0;
    for (int stop_at = 0; stop_at <= questions; stop_at++) {
        eitp_context_config config = eitp_context_config_default();
        eitp_context *context = NULL;
        eitp_error error = EITP__ZERO;
        training s;
        stopper asked = EITP__ZERO;
        eitp_status status;
        config.device = device;
        config.threads = threads;
        REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
        if (!training_begin_initialized(&s, context, &tiny_transformer))
            return;
        REQUIRE_OK(training_step(&s, 1, limit, NULL, &error), error);
        before = hash_of_state(context);
        asked.stop_at = stop_at;
        eitp_context_set_poll(context, ask_stopper, &asked);
        status = training_step(&s, 2, limit, NULL, &error);
        if (!stop_at) {
            questions = asked.asked;
            after = hash_of_state(context);
        }
        /* Other threads may already have started work that must not be interrupted. */
        CHECK_THAT(!status == !stop_at || (!status && threads > 1), "%s at poll %d of %d", error.message, stop_at,
                   questions);
        if (status) {
            CHECK(status == EITP_ERROR_INTERRUPTED);
            CHECK_THAT(hash_of_state(context) == before, "state changed at poll %d of %d", stop_at, questions);
            CHECK(asked.asked == stop_at);
            CHECK(!eitp__plan_changed_state(s.plan));
            eitp_context_set_poll(context, NULL, NULL);
            REQUIRE_OK(training_step(&s, 2, limit, NULL, &error), error);
            stopped++;
        }
        CHECK(eitp__plan_changed_state(s.plan));
        CHECK_THAT(hash_of_state(context) == after, "other bits after poll %d of %d", stop_at, questions);
        training_end(&s);
        eitp_context_destroy(context);
    }
    CHECK_THAT(questions > 50 && (stopped > 50 || threads > 1), "%d polls, %d stops", questions, stopped);
}

static void polls_stop_executions_on_one_thread(void) {
    polls_stop_executions(1, 0, "cpu");
    polls_stop_executions(1, 1, "cpu");
    polls_stop_executions(1, 1, "null");
}

static void polls_stop_executions_on_threads(void) {
    polls_stop_executions(3, 0, "cpu");
    polls_stop_executions(3, 1, "cpu");
}

static void count_step(void *user, const eitp_profile *profile) {
    (void)profile;
    ++*(int *)user;
}

/* Profiled executions poll too, and do not report steps that were abandoned. */
static void polls_stop_profiled_executions(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_error error = EITP__ZERO;
    stopper asked = {0, 4};
    int steps = 0;
    training s;
    eitp_profiler profiler;
    profiler.user = &steps;
    profiler.step = count_step;
    if (!training_begin_initialized(&s, context, &tiny_transformer))
        return;
    eitp_context_profile(context, &profiler);
    eitp_context_set_poll(context, ask_stopper, &asked);
    CHECK(training_step(&s, 1, 1, NULL, &error) == EITP_ERROR_INTERRUPTED);
    CHECK(steps < 4);
    training_end(&s);
    eitp_context_destroy(context);
}

/* A large call polls while it executes on the host. A device polls only between executions. */
static void polls_stop_within_a_call(void) {
    const int64_t shape[] = {1 << 20};
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *y;
    eitp_error error = EITP__ZERO;
    stopper asked = EITP__ZERO;
    float *values = (float *)calloc((size_t)shape[0], sizeof *values);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = eitp_input(graph, "x", EITP_F32, 1, shape);
    y = eitp_output(eitp_exp(x));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error), error);
    CHECK(plan->step_count == 1);
    eitp_context_set_poll(context, ask_stopper, &asked);
    REQUIRE_OK(eitp_plan_write(plan, x, values, (size_t)shape[0] * sizeof *values, &error), error);
    REQUIRE_OK(eitp_plan_execute(plan, &error), error);
    CHECK_THAT(asked.asked > (context->backend->interface->is_host_memory ? 4 : 0), "%d polls", asked.asked);
    REQUIRE_OK(eitp_plan_read(plan, y, values, (size_t)shape[0] * sizeof *values, &error), error);
    CHECK(values[shape[0] - 1] == 1);
    free(values);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(rows_equal_those_of_a_smaller_graph),
        TEST(zero_rows),
        TEST(row_ops_equal_those_of_a_smaller_graph),
        TEST(selected_rows_equal_those_of_a_smaller_graph),
        TEST(gradients_of_selected_rows_are_sums),
        TEST(composed_rows_equal_those_of_a_smaller_graph),
        TEST(readers_see_the_version_they_name),
        TEST(impossible_orders_are_refused),
        TEST(sums_accumulate_in_place),
        TEST(products_that_read_their_target),
        TEST(threads_do_not_change_bits),
        TEST(contexts_are_independent),
        TEST(updates_follow_all_readers),
        TEST(execution_allocates_nothing),
        TEST(inputs_must_be_written_for_each_execution),
        TEST(inputs_are_lost_to_other_plans),
        TEST(inputs_are_lost_when_the_arena_moves),
        TEST(inputs_must_be_written_for_all_rows),
        TEST(kept_inputs_keep_their_value),
        TEST(kept_inputs_can_be_stored_into),
        TEST(outputs_can_be_read_until_the_arena_is_reused),
        TEST(polls_stop_executions_on_one_thread),
        TEST(polls_stop_executions_on_threads),
        TEST(polls_stop_profiled_executions),
        TEST(polls_stop_within_a_call),
    };
    return RUN_TESTS(tests, argc, argv);
}
