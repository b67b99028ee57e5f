/*
 * Every op in every kernel set, compared with naive functions in double, PyTorch's values, and the expansions of fused
 * ops.
 */
#include "tests/support/op_cases.h"

typedef struct results {
    int count;
    int64_t elements[BUILD_OUTPUTS];
    double *values[BUILD_OUTPUTS];
} results;

static void results_release(results *r) {
    for (int i = 0; i < r->count; i++)
        free(r->values[i]);
    r->count = 0;
}

/* Executes the finished build and stores the values of its outputs in `r`. Returns 0 if there is no plan. */
static int execute_build(build *b, const char *what, results *r) {
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status = eitp_plan_create(b->graph, &plan, &error);
    r->count = 0;
    CHECK_THAT(status == EITP_OK, "%s: %s", what, error.message);
    if (status)
        return 0;
    run_leaves(b, plan);
    for (int i = 0; i < b->output_count; i++) {
        r->elements[i] = eitp_tensor_elements(b->outputs[i]);
        r->values[i] = (double *)calloc((size_t)r->elements[i], sizeof(double));
        read_values(plan, b->outputs[i], r->values[i]);
        r->count++;
    }
    eitp_plan_destroy(plan);
    return 1;
}

/* Compares the results of build `b` with its expectations. Outputs without expectations are compared with `exact`,
   or not at all if it is NULL. */
static void compare(const build *b, const results *r, const results *exact, double tolerance, const char *what) {
    for (int i = 0; i < r->count; i++) {
        const double *expected = b->expected[i] ? b->expected[i]->data : exact ? exact->values[i] : NULL;
        double error;
        if (!expected)
            continue;
        CHECK_THAT(!b->expected[i] || b->expected[i]->count == r->elements[i], "%s, output %d: wrong shape", what, i);
        error = nmse(r->values[i], expected, r->elements[i]);
        CHECK_THAT(error <= tolerance, "%s, output %d: NMSE %.3g, at most %.3g", what, i, error, tolerance);
    }
}

/* Runs a case in F64 on ref, then in F32 with every set, small and large. `exact` is the tolerance of F64. */
static void run_case(const op_case *c, double exact) {
    for (int small = 0; small < 2; small++) {
        eitp_context *reference = open_context("ref", 2);
        build b64;
        results r64;
        char what[100];
        build_begin(&b64, reference, EITP_F64, small);
        c->make(&b64);
        snprintf(what, sizeof what, "%s, f64, ref, %s", c->name, small ? "small" : "large");
        if (execute_build(&b64, what, &r64))
            compare(&b64, &r64, NULL, exact, what);
        for (int set = 0; set < KERNEL_SETS; set++) {
            eitp_context *context = open_context(kernel_sets[set], 2);
            build b;
            results r;
            if (!context)
                continue;
            build_begin(&b, context, EITP_F32, small);
            c->make(&b);
            snprintf(what, sizeof what, "%s, f32, %s, %s", c->name, kernel_sets[set], small ? "small" : "large");
            if (execute_build(&b, what, &r))
                compare(&b, &r, &r64, c->tolerance, what);
            results_release(&r);
            build_end(&b);
            eitp_context_destroy(context);
        }
        results_release(&r64);
        build_end(&b64);
        eitp_context_destroy(reference);
    }
}

static void ops_against_double(void) {
    print_kernel_sets();
    for (int i = 0; i < OP_CASES; i++)
        run_case(&op_cases[i], 1e-24);
}

/* ---- PyTorch's values ---- */

static eitp__safetensors *golden_file;

static void open_golden_file(void) {
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    CHECK_THAT(eitp__safetensors_open(&host, "tests/golden/ops/ops.safetensors", &golden_file, &error) == EITP_OK, "%s",
               error.message);
}

/* Returns the values of "<op>.<name>". */
static array *golden(build *b, const char *op, const char *name) {
    char full[100];
    const eitp__safetensors_entry *entry;
    array *a;
    eitp_error error = EITP__ZERO;
    void *bytes;
    snprintf(full, sizeof full, "%s.%s", op, name);
    entry = eitp__safetensors_find(golden_file, full);
    CHECK_THAT(entry, "no %s in the golden file", full);
    if (!entry)
        return new_array(b, 0, NULL);
    a = new_array(b, entry->rank, entry->shape);
    bytes = malloc((size_t)entry->size);
    CHECK_THAT(eitp__safetensors_read(golden_file, entry, 0, entry->count, bytes, NULL, &error) == EITP_OK, "%s",
               error.message);
    from_bytes((eitp_dtype)entry->dtype, bytes, a->data, a->count);
    free(bytes);
    return a;
}

static eitp_tensor *golden_leaf(build *b, const char *op, const char *name) {
    return add_leaf(b, b->dtype, golden(b, op, name));
}

static eitp_tensor *golden_ids(build *b, const char *op, const char *name) {
    return add_leaf(b, EITP_I32, golden(b, op, name));
}

static double golden_number(build *b, const char *op, const char *name) {
    return golden(b, op, name)->data[0];
}

/* Puts y and the gradients with respect to the xs, weighted by golden "<op>.<seed>". */
static void put_golden(build *b, const char *op, const char *seed, eitp_tensor *y, const char *y_name, int count,
                       eitp_tensor *const *xs, const char *const *gradient_names) {
    eitp_tensor *gradients[4] = {NULL, NULL, NULL, NULL};
    eitp_error error = EITP__ZERO;
    put_like(b, y, golden(b, op, y_name));
    CHECK_THAT(eitp_gradients(y, golden_leaf(b, op, seed), count, xs, gradients, &error) == EITP_OK, "%s",
               error.message);
    for (int i = 0; i < count; i++)
        put_like(b, gradients[i], golden(b, op, gradient_names[i]));
}

/* Puts an output that y's op saves for its gradient. */
static void put_saved(build *b, eitp_tensor *y, int output, const array *expected) {
    if (y)
        put_like(b, y->node->outputs[output], expected);
}

static void golden_layer_norm(build *b, const char *op) {
    static const char *const names[] = {"grad_x", "grad_gain", "grad_bias"};
    eitp_tensor *xs[3], *y;
    xs[0] = golden_leaf(b, op, "x");
    xs[1] = golden_leaf(b, op, "gain");
    xs[2] = golden_leaf(b, op, "bias");
    y = eitp_layer_norm(xs[0], xs[1], xs[2], golden_number(b, op, "epsilon"));
    put_golden(b, op, "grad_y", y, "y", 3, xs, names);
    put_saved(b, y, 1, golden(b, op, "mean"));
    put_saved(b, y, 2, golden(b, op, "reciprocal_deviation"));
}

static void golden_unary(build *b, const char *op) {
    static const char *const names[] = {"grad_x"};
    eitp_tensor *x = golden_leaf(b, op, "x"), *y;
    if (!strcmp(op, "gelu_tanh"))
        y = eitp_gelu_tanh(x);
    else if (!strcmp(op, "gelu_erf"))
        y = eitp_gelu_erf(x);
    else if (!strncmp(op, "log_softmax", 11))
        y = eitp_log_softmax(x);
    else
        y = eitp_softmax(x);
    put_golden(b, op, "grad_y", y, "y", 1, &x, names);
}

static void golden_cross_entropy(build *b, const char *op) {
    static const char *const names[] = {"grad_logits"};
    eitp_tensor *logits = golden_leaf(b, op, "logits"), *targets = golden_ids(b, op, "targets"), *mean, *gradient;
    int32_t ignored = (int32_t)golden_number(b, op, "ignored");
    eitp_tensor *loss = eitp_cross_entropy(logits, targets, ignored);
    const array *ids = values_of(b, targets);
    double valid = 0;
    eitp_error error = EITP__ZERO;
    put_golden(b, op, "grad_loss", loss, "loss", 1, &logits, names);
    put_saved(b, loss, 1, golden(b, op, "logsumexp"));
    for (int64_t i = 0; i < ids->count; i++)
        valid += ids->data[i] != ignored;
    mean = eitp_affine(eitp_sum(loss, EITP_ALL_DIMENSIONS, 0), 1 / valid, 0);
    put_like(b, mean, golden(b, op, "mean"));
    CHECK(eitp_gradients(mean, NULL, 1, &logits, &gradient, &error) == EITP_OK);
    put_like(b, gradient, golden(b, op, "mean_grad_logits"));
}

static void golden_smoothed_cross_entropy(build *b, const char *op) {
    static const char *const names[] = {"grad_logits"};
    eitp_tensor *logits = golden_leaf(b, op, "logits"), *targets = golden_ids(b, op, "targets");
    eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
    config.ignored = (int32_t)golden_number(b, op, "ignored");
    config.label_smoothing = golden_number(b, op, "label_smoothing");
    config.weights = strcmp(op, "cross_entropy_smoothed") ? golden_leaf(b, op, "weights") : NULL;
    put_golden(b, op, "grad_loss", eitp_cross_entropy_with(logits, targets, &config), "loss", 1, &logits, names);
}

static void golden_attention(build *b, const char *op) {
    static const char *const names[] = {"grad_qkv"};
    eitp_tensor *qkv = golden_leaf(b, op, "qkv"), *offsets = golden_ids(b, op, "offsets");
    const array *bounds = values_of(b, offsets);
    eitp_tensor *y;
    int64_t max_length = 1;
    for (int64_t i = 0; i + 1 < bounds->count; i++)
        max_length = bounds->data[i + 1] - bounds->data[i] > (double)max_length
                         ? (int64_t)(bounds->data[i + 1] - bounds->data[i])
                         : max_length;
    y = causal_attention(qkv, offsets, (int)golden_number(b, op, "heads"), max_length, golden_number(b, op, "scale"),
                         NULL, 0);
    put_golden(b, op, "grad_y", y, "y", 1, &qkv, names);
    put_saved(b, y, 1, golden(b, op, "logsumexp"));
}

/* Reshapes [b, h, t, d] to rows of b sequences with their heads side by side, [b rows, h d]. Rows after t are zeros. */
static eitp_tensor *golden_rows(eitp_tensor *x, int64_t rows) {
    static const int order[4] = {0, 2, 1, 3};
    int64_t shape[2] = {-1, 0};
    shape[1] = eitp_tensor_dimension(x, 1) * eitp_tensor_dimension(x, 3);
    x = eitp_pad(x, 2, 0, rows - eitp_tensor_dimension(x, 2));
    return eitp_reshape(eitp_permute(x, order), 2, shape);
}

/* If there are fewer queries than keys, unused queries are appended. */
static void golden_dot_product(build *b, const char *op) {
    static const char *const names[] = {"grad_q", "grad_k", "grad_v"};
    static const int order[4] = {0, 2, 1, 3};
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_tensor *xs[3], *mask = NULL, *y;
    const int64_t *extents = golden(b, op, "k")->shape, queries = golden(b, op, "q")->shape[2];
    int64_t shape[4] = {0, 0, 0, -1};
    double ends[3] = {0, 0, 0};
    xs[0] = golden_leaf(b, op, "q");
    xs[1] = golden_leaf(b, op, "k");
    xs[2] = golden_leaf(b, op, "v");
    if (!strcmp(op, "dot_product_mask"))
        mask = add_leaf(b, EITP_U8, golden(b, op, "mask"));
    else if (!strcmp(op, "dot_product_bias"))
        mask = golden_leaf(b, op, "mask");
    config.heads = (int)eitp_tensor_dimension(xs[0], 1);
    config.key_value_heads = (int)extents[1];
    config.max_length = extents[2];
    config.scale = golden_number(b, op, "scale");
    config.bidirectional = golden_number(b, op, "causal") == 0;
    REQUIRE(extents[0] == 2);
    ends[1] = (double)extents[2];
    ends[2] = 2 * ends[1];
    inputs.q = golden_rows(xs[0], extents[2]);
    inputs.k = golden_rows(xs[1], extents[2]);
    inputs.v = golden_rows(xs[2], extents[2]);
    inputs.offsets = given(b, EITP_I32, 3, ends);
    if (mask)
        inputs.mask = eitp_pad(mask, (int)values_of(b, mask)->rank - 2, 0, extents[2] - queries);
    shape[0] = extents[0];
    shape[1] = extents[2];
    shape[2] = config.heads;
    y = eitp_permute(eitp_reshape(eitp_attention(&inputs, &config), 4, shape), order);
    put_golden(b, op, "grad_y", eitp_slice(y, 2, 0, queries), "y", 3, xs, names);
}

static void golden_embedding(build *b, const char *op) {
    static const char *const names[] = {"grad_table"};
    eitp_tensor *table = golden_leaf(b, op, "table");
    put_golden(b, op, "grad_y", eitp_embedding(table, golden_ids(b, op, "ids")), "y", 1, &table, names);
}

/* The common norm of two gradients, and both gradients scaled by it. */
static void golden_clip(build *b, const char *op) {
    eitp_tensor *p = golden_leaf(b, op, "gradient_a"), *q = golden_leaf(b, op, "gradient_b"), *inputs[2], *scale;
    eitp__node *commit;
    inputs[0] = eitp_add(eitp__sum_squares(p), eitp__sum_squares(q));
    inputs[1] = add_leaf(b, EITP_F32, golden(b, op, "limit"));
    commit = eitp__node_create(b->graph, EITP__OP_COMMIT, inputs, 2, NULL);
    if (!commit)
        return;
    put_like(b, commit->outputs[1], golden(b, op, "norm"));
    scale = eitp_cast(eitp_slice(commit->outputs[0], 0, 0, 1), b->dtype);
    put_like(b, eitp_multiply(p, scale), golden(b, op, "clipped_a"));
    put_like(b, eitp_multiply(q, scale), golden(b, op, "clipped_b"));
}

typedef struct golden_case {
    const char *op;
    void (*make)(build *b, const char *op);
    double tolerance, exact; /* NMSE in f32 and in f64 */
} golden_case;

/*
 * Subtracting a mean of 1000 costs F32 ten bits of the difference. Logits in the thousands leave few bits below 1 in
 * the log-sum-exp, from which the gradient of cross-entropy is computed. Sharp attention has the same effect on a
 * smaller scale. The factor and norm of clipping are F32 even if the gradients are not.
 */
static const golden_case golden_cases[] = {
    {"layer_norm", golden_layer_norm, 1e-12, 1e-26},
    {"layer_norm_far_mean", golden_layer_norm, 1e-9, 1e-24},
    {"layer_norm_constant", golden_layer_norm, 1e-12, 1e-26},
    {"gelu_tanh", golden_unary, 1e-12, 1e-26},
    {"gelu_erf", golden_unary, 1e-12, 1e-26},
    {"softmax", golden_unary, 1e-12, 1e-26},
    {"softmax_large", golden_unary, 1e-12, 1e-26},
    {"softmax_masked", golden_unary, 1e-12, 1e-26},
    {"log_softmax", golden_unary, 1e-12, 1e-26},
    {"log_softmax_large", golden_unary, 1e-12, 1e-26},
    {"cross_entropy", golden_cross_entropy, 1e-12, 1e-26},
    {"cross_entropy_large", golden_cross_entropy, 1e-10, 1e-26},
    {"cross_entropy_smoothed", golden_smoothed_cross_entropy, 1e-12, 1e-26},
    {"cross_entropy_weighted", golden_smoothed_cross_entropy, 1e-12, 1e-26},
    {"cross_entropy_both", golden_smoothed_cross_entropy, 1e-12, 1e-26},
    {"attention", golden_attention, 1e-12, 1e-26},
    {"attention_sharp", golden_attention, 1e-11, 1e-24},
    {"dot_product_causal", golden_dot_product, 1e-12, 1e-26},
    {"dot_product_mask", golden_dot_product, 1e-12, 1e-26},
    {"dot_product_bias", golden_dot_product, 1e-12, 1e-26},
    {"embedding", golden_embedding, 1e-12, 1e-26},
    {"clip", golden_clip, 1e-12, 1e-13},
    {"clip_below_limit", golden_clip, 1e-12, 1e-13},
};

static void run_golden(const golden_case *c, const char *set, eitp_dtype dtype) {
    eitp_context *context = open_context(set, 2);
    build b;
    results r;
    char what[100];
    if (!context)
        return;
    snprintf(what, sizeof what, "golden %s, %s, %s", c->op, eitp_dtype_name(dtype), set);
    build_begin(&b, context, dtype, 0);
    c->make(&b, c->op);
    if (execute_build(&b, what, &r))
        compare(&b, &r, NULL, dtype == EITP_F64 ? c->exact : c->tolerance, what);
    results_release(&r);
    build_end(&b);
    eitp_context_destroy(context);
}

static void ops_against_pytorch(void) {
    open_golden_file();
    REQUIRE(golden_file);
    for (size_t i = 0; i < sizeof golden_cases / sizeof golden_cases[0]; i++) {
        run_golden(&golden_cases[i], "ref", EITP_F64);
        for (int set = 0; set < KERNEL_SETS; set++)
            run_golden(&golden_cases[i], kernel_sets[set], EITP_F32);
    }
    eitp__safetensors_close(golden_file);
}

/* ---- Separate attention ---- */

/* Attention of q, k and v, side by side or separate, and its gradient, as F32 outputs. */
static void put_attention(build *b, eitp_dtype dtype, int separate, int bidirectional, int padded, double dropout) {
    static const double ends[6] = {2, 67, 67, 68, 150, 190}, lengths[5] = {65, 3, 0, 47, -1}, key[3] = {9, 2, 40};
    enum { ROWS = 197, WIDTH = 24 };
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_tensor *qkv = eitp_cast(real2(b, ROWS, 3 * WIDTH), dtype), *gradient = NULL, *seed, *y;
    eitp_error error = EITP__ZERO;
    config.heads = 3;
    config.max_length = 90;
    config.scale = 0.4;
    config.dropout = dropout;
    config.bidirectional = bidirectional;
    inputs.q = separate ? eitp_slice(qkv, 1, 0, WIDTH) : qkv;
    inputs.k = separate ? eitp_slice(qkv, 1, WIDTH, 2 * WIDTH) : NULL;
    inputs.v = separate ? eitp_slice(qkv, 1, 2 * WIDTH, 3 * WIDTH) : NULL;
    inputs.offsets = given(b, EITP_I32, 6, ends);
    inputs.lengths = padded ? given(b, EITP_I32, 5, lengths) : NULL;
    inputs.key = dropout > 0 ? given(b, EITP_I64, 3, key) : NULL;
    y = eitp_attention(&inputs, &config);
    seed = eitp_cast(real2(b, ROWS, WIDTH), dtype);
    CHECK_THAT(eitp_gradients(y, seed, 1, &qkv, &gradient, &error) == EITP_OK, "%s", error.message);
    put(b, eitp_cast(y, EITP_F32));
    put(b, eitp_cast(gradient, EITP_F32));
}

/* The kernel for q, k and v side by side gives the same results as the expansion, with the same dropout. */
static void separate_attention_equals_attention(void) {
    for (int i = 0; i < 16 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 16], 2);
        eitp_dtype dtype = i & 8 ? EITP_BF16 : EITP_F32;
        results r[2];
        memset(r, 0, sizeof r);
        for (int separate = 0; separate < 2 && context; separate++) {
            build b;
            build_begin(&b, context, EITP_F32, 0);
            put_attention(&b, dtype, separate, i & 1, i & 2, i & 4 ? 0.3 : 0);
            execute_build(&b, "separate attention", &r[separate]);
            build_end(&b);
        }
        for (int j = 0; j < r[0].count && r[1].count; j++) {
            double difference = nmse(r[1].values[j], r[0].values[j], r[0].elements[j]);
            CHECK_THAT(difference <= (dtype == EITP_F32 ? 1e-12 : 3e-5), "output %d of case %d: NMSE %.3g", j, i,
                       difference);
        }
        results_release(&r[0]);
        results_release(&r[1]);
        eitp_context_destroy(context);
    }
}

/* With scale 0 all probabilities are equal. Values of 0 and 1 show which are kept and how they are scaled. */
static void dropout_of_separate_attention(void) {
    enum { ROWS = 50 };
    static const double key[3] = {3, 14, 0}, ends[2] = {0, ROWS};
    eitp_context *context = open_context("ref", 2);
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    build b;
    results r;
    int dropped = 0;
    REQUIRE(context);
    config.scale = 0;
    config.heads = 1;
    config.max_length = ROWS;
    config.dropout = 0.25;
    config.bidirectional = 1;
    build_begin(&b, context, EITP_F32, 0);
    inputs.q = real2(&b, ROWS, 3);
    inputs.k = real2(&b, ROWS, 3);
    inputs.v = real2(&b, ROWS, ROWS);
    for (int i = 0; i < ROWS * ROWS; i++)
        b.values[2]->data[i] = i / ROWS == i % ROWS;
    inputs.offsets = given(&b, EITP_I32, 2, ends);
    inputs.key = given(&b, EITP_I64, 3, key);
    put(&b, eitp_attention(&inputs, &config));
    REQUIRE(execute_build(&b, "dropout of probabilities", &r));
    for (int i = 0; i < ROWS * ROWS; i++) {
        CHECK(r.values[0][i] == 0 || fabs(r.values[0][i] - 1 / (0.75 * ROWS)) < 1e-6);
        dropped += r.values[0][i] == 0;
    }
    CHECK_THAT(dropped > 500 && dropped < 750, "%d of 2500 are dropped", dropped);
    results_release(&r);
    build_end(&b);
    eitp_context_destroy(context);
}

/* ---- Losses in 16 bits ---- */

/* Smoothed losses of 16-bit operands and their gradients equal those of the same values in F32. */
static void smoothed_losses_in_16_bits(void) {
    enum { ROWS = 33, WIDTH = 48, CLASSES = 500 };
    static const double tolerances[4] = {1e-13, 1e-7, 3e-5, 3e-5}; /* no logits; logits in 16 bits; gradients */
    const int64_t rows = ROWS;
    for (int i = 0; i < 2 * KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i / 2], 2);
        eitp_tensor *xs[2], *gradients[2] = {NULL, NULL}, *targets, *weights, *wide[2];
        eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
        eitp_error error = EITP__ZERO;
        build b;
        results r;
        if (!context)
            continue;
        build_begin(&b, context, EITP_F32, 0);
        b.low = -0.5;
        b.high = 0.5;
        xs[0] = eitp_cast(real2(&b, ROWS, WIDTH), EITP_BF16);
        xs[1] = eitp_cast(real2(&b, CLASSES, WIDTH), EITP_BF16);
        targets = integers(&b, 1, &rows, 0, CLASSES - 1);
        b.low = 0.25;
        weights = real1(&b, CLASSES);
        config.label_smoothing = 0.2;
        config.weights = i % 2 ? weights : NULL;
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            for (int j = 0; j < 2; j++)
                wide[j] = is_wide ? eitp_cast(xs[j], EITP_F32) : xs[j];
            put(&b, eitp_linear_cross_entropy_with(wide[0], wide[1], targets, &config));
            put(&b, eitp_cross_entropy_with(eitp_matmul_transposed(wide[0], wide[1], 0, 1), targets, &config));
            CHECK(eitp_gradients(b.outputs[4 * is_wide], NULL, 2, wide, gradients, &error) == EITP_OK);
            put(&b, eitp_cast(gradients[0], EITP_F32));
            put(&b, eitp_cast(gradients[1], EITP_F32));
        }
        REQUIRE(execute_build(&b, "smoothed losses in 16 bits", &r));
        for (int j = 0; j < 4; j++) {
            double difference = nmse(r.values[j], r.values[j + 4], r.elements[j]);
            CHECK_THAT(difference <= tolerances[j], "output %d, set %s: NMSE %.3g", j, kernel_sets[i / 2], difference);
        }
        results_release(&r);
        build_end(&b);
        eitp_context_destroy(context);
    }
}

/* ---- AdamW ---- */

static void write_variable(eitp_context *context, const char *name, eitp_dtype dtype, const array *values) {
    double bytes[64];
    eitp_error error = EITP__ZERO;
    to_bytes(dtype, values->data, bytes, values->count);
    CHECK_THAT(eitp_variable_write(context, name, 0, bytes, (size_t)values->count * eitp_dtype_size(dtype), &error) ==
                   EITP_OK,
               "%s", error.message);
}

static void check_variable(eitp_context *context, const char *name, eitp_dtype dtype, const array *expected,
                           double tolerance, const char *what) {
    double bytes[64], values[64], error_size;
    eitp_error error = EITP__ZERO;
    CHECK(eitp_variable_read(context, name, 0, bytes, (size_t)expected->count * eitp_dtype_size(dtype), &error) ==
          EITP_OK);
    from_bytes(dtype, bytes, values, expected->count);
    error_size = nmse(values, expected->data, expected->count);
    CHECK_THAT(error_size <= tolerance, "%s, %s: NMSE %.3g, at most %.3g", what, name, error_size, tolerance);
}

/* Makes one update. With `apply` 0 nothing may change. */
static void run_adamw(const char *op, const char *set, eitp_dtype dtype, int apply) {
    static const char *const names[] = {"parameter", "m", "v"}, *const new_names[] = {"new_parameter", "new_m",
                                                                                      "new_v"};
    eitp_context *context = open_context(set, 2);
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[EITP__UPDATE_INPUTS] = EITP__ZERO;
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    double hyper[2], commit[2];
    int64_t count = 24;
    build b;
    if (!context)
        return;
    build_begin(&b, context, dtype, 0);
    for (int i = 0; i < 3; i++) {
        inputs[i ? EITP__UPDATE_STATE + i - 1 : EITP__UPDATE_PARAMETER] =
            eitp_variable_tensor(b.graph, names[i], EITP_OPTIMIZER, dtype, 1, &count);
        write_variable(context, names[i], dtype, golden(&b, op, names[i]));
    }
    hyper[0] = golden_number(&b, op, "learning_rate");
    hyper[1] = golden_number(&b, op, "step");
    commit[0] = 1;
    commit[1] = apply;
    inputs[EITP__UPDATE_GRADIENT] = golden_leaf(&b, op, "gradient");
    inputs[EITP__UPDATE_RATE] = given(&b, EITP_F32, 2, hyper);
    inputs[EITP__UPDATE_COMMIT] = given(&b, EITP_F32, 2, commit);
    attributes.integers[2] = EITP__UPDATE_RULE_ADAMW;
    attributes.reals[0] = golden_number(&b, op, "beta1");
    attributes.reals[1] = golden_number(&b, op, "beta2");
    attributes.reals[2] = golden_number(&b, op, "epsilon");
    attributes.reals[3] = golden_number(&b, op, "weight_decay");
    CHECK(eitp__node_create(b.graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_STATE + 2, &attributes));
    CHECK_THAT(eitp_plan_create(b.graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan) {
        char what[100];
        snprintf(what, sizeof what, "%s, %s, %s, apply %d", op, eitp_dtype_name(dtype), set, apply);
        run_leaves(&b, plan);
        for (int i = 0; i < 3; i++)
            check_variable(context, names[i], dtype, golden(&b, op, apply ? new_names[i] : names[i]),
                           !apply ? 0 : 1e-12, what);
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
}

/*
 * Dtypes of a parameter, its gradient, moments and remainder; which optional inputs are present (remainder, scale of m,
 * scale of v, key); and a word of the expected error message, or NULL.
 */
typedef struct adamw_form {
    eitp_dtype parameter, gradient, m, v, remainder;
    int has[4];
    int groups;
    const char *refusal;
} adamw_form;

enum { FORM_ROWS = 3, FORM_COLUMNS = 25, FORM_GROUPS = 3 };

/* A variable of an update with the parameter's shape. */
static eitp_tensor *form_variable(eitp_graph *graph, const char *name, eitp_dtype dtype) {
    const int64_t shape[2] = {FORM_ROWS, FORM_COLUMNS};
    return eitp_variable_tensor(graph, name, EITP_OPTIMIZER, dtype, 2, shape);
}

/* Creates the inputs of an update except its states. */
static void form_inputs(eitp_graph *graph, eitp_dtype parameter, eitp_dtype gradient, const eitp_dtype *remainder,
                        int has_key, eitp_tensor **inputs) {
    const int64_t two = 2, three = 3;
    memset(inputs, 0, EITP__UPDATE_INPUTS * sizeof(eitp_tensor *));
    inputs[EITP__UPDATE_PARAMETER] = form_variable(graph, "p", parameter);
    inputs[EITP__UPDATE_GRADIENT] = form_variable(graph, "g", gradient);
    inputs[EITP__UPDATE_RATE] = eitp_input(graph, "hyper", EITP_F32, 1, &two);
    inputs[EITP__UPDATE_COMMIT] = eitp_input(graph, "commit", EITP_F32, 1, &two);
    inputs[EITP__UPDATE_REMAINDER] = remainder ? form_variable(graph, "remainder.p", *remainder) : NULL;
    inputs[EITP__UPDATE_KEY] = has_key ? eitp_input(graph, "key", EITP_I64, 1, &three) : NULL;
}

/* Creates an update's inputs and its node. Returns NULL if it is refused. */
static eitp__node *adamw_node(eitp_graph *graph, const adamw_form *f, eitp_tensor **inputs) {
    static const char *const names[] = {"m.scale", "v.scale"};
    int64_t groups = f->groups;
    eitp__attributes attributes = EITP__ZERO;
    attributes.integers[0] = 2000;
    attributes.integers[2] = EITP__UPDATE_RULE_ADAMW;
    attributes.reals[0] = attributes.reals[1] = 0.5;
    attributes.reals[2] = 1e-3;
    form_inputs(graph, f->parameter, f->gradient, f->has[0] ? &f->remainder : NULL, f->has[3], inputs);
    inputs[EITP__UPDATE_STATE] = form_variable(graph, "m", f->m);
    inputs[EITP__UPDATE_STATE + 1] = form_variable(graph, "v", f->v);
    for (int i = 0; i < 2; i++)
        inputs[EITP__UPDATE_STATE + 2 + i] =
            f->has[1 + i] ? eitp_variable_tensor(graph, names[i], EITP_OPTIMIZER, EITP_BF16, 1, &groups) : NULL;
    return eitp__node_create(graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_INPUTS, &attributes);
}

/*
 * The parameter, the remainder and the present states are changed in place, in this order. The second output, the sums,
 * is not in place.
 */
static void check_update_outputs(const eitp__node *node, eitp_tensor *const *inputs) {
    int present = 2;
    CHECK(node->outputs[0]->storage == inputs[EITP__UPDATE_PARAMETER]);
    CHECK(node->outputs[1]->storage == node->outputs[1] && node->outputs[1]->dtype == EITP_F64);
    for (int i = EITP__UPDATE_REMAINDER; i < EITP__UPDATE_INPUTS; i++) {
        if (inputs[i] && i != EITP__UPDATE_KEY)
            CHECK(present < node->output_count && node->outputs[present]->storage == inputs[i] &&
                  node->outputs[present++]->dtype == inputs[i]->dtype);
    }
    CHECK(node->output_count == present);
}

/* The outputs share the inputs' memory. A step from zeros moves each parameter by the learning rate. */
static void check_adamw_form(eitp_context *context, eitp_graph *graph, const adamw_form *f) {
    static const float hyper[2] = {0.25f, 1}, commit[2] = {1, 1};
    static const int64_t key[3] = {1, 2, 3};
    eitp_tensor *inputs[EITP__UPDATE_INPUTS], *key_input;
    eitp__node *node = adamw_node(graph, f, inputs);
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    float values[FORM_ROWS * FORM_COLUMNS];
    CHECK_THAT(node && eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", graph->error.message);
    if (!plan)
        return;
    check_update_outputs(node, inputs);
    key_input = inputs[EITP__UPDATE_KEY];
    CHECK(eitp_plan_write(plan, inputs[EITP__UPDATE_RATE], hyper, sizeof hyper, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, inputs[EITP__UPDATE_COMMIT], commit, sizeof commit, &error) == EITP_OK);
    CHECK(!key_input || eitp_plan_write(plan, key_input, key, sizeof key, &error) == EITP_OK);
    CHECK(eitp_variable_fill(context, "g", 8, &error) == EITP_OK);
    CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
    CHECK(eitp_variable_read_f32(context, "p", 0, values, FORM_ROWS * FORM_COLUMNS, &error) == EITP_OK);
    for (int i = 0; i < FORM_ROWS * FORM_COLUMNS; i++)
        CHECK_THAT(fabs((double)values[i] + 0.25) < 1e-3, "%s: parameter %d is %g", eitp_dtype_name(f->parameter), i,
                   (double)values[i]);
    for (int i = 0; i < 2 && f->has[1]; i++) {
        CHECK(eitp_variable_read_f32(context, i ? "v.scale" : "m.scale", 0, values, FORM_GROUPS, &error) == EITP_OK);
        for (int group = 0; group < FORM_GROUPS; group++)
            CHECK(!i ? values[group] == 4.0f : fabsf(values[group] - 5.6569f) < 0.04f);
    }
    eitp_plan_destroy(plan);
}

static void adamw_forms(void) {
    static const adamw_form forms[] = {
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0}, 3, NULL},
        {EITP_F32, EITP_F32, EITP_I8, EITP_U8, EITP_F32, {0, 1, 1, 0}, 3, NULL},
        {EITP_BF16, EITP_BF16, EITP_I8, EITP_U8, EITP_I8, {1, 1, 1, 0}, 3, NULL},
        {EITP_BF16, EITP_F32, EITP_I8, EITP_U8, EITP_I16, {0, 1, 1, 1}, 3, NULL},
        {EITP_BF16, EITP_BF16, EITP_F32, EITP_F32, EITP_F32, {0, 0, 0, 1}, 3, NULL},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_F32, EITP_I16, {1, 0, 0, 0}, 3, NULL},
        {EITP_F32, EITP_BF16, EITP_F32, EITP_F32, EITP_F32, {0}, 3, "gradient"},
        {EITP_F16, EITP_F32, EITP_I8, EITP_U8, EITP_F32, {1, 1, 1, 0}, 3, "f16"},
        {EITP_F64, EITP_F64, EITP_I8, EITP_U8, EITP_F32, {0, 1, 1, 0}, 3, "f64"},
        {EITP_BF16,
         EITP_F32,
         EITP_I8,
         EITP_U8,
         EITP_I8,
         {1, 0, 0, 0},
         3,
         "state 0 of a bf16 parameter must be f32 [3, 25] (got i8 [3, 25])"},
        {EITP_BF16, EITP_F32, EITP_I8, EITP_U8, EITP_I8, {1, 1, 0, 0}, 3, "does not accept these states"},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_F32, EITP_I8, {1, 1, 1, 0}, 3, "state 0 of a bf16 parameter must be i8"},
        {EITP_BF16, EITP_F32, EITP_I8, EITP_F32, EITP_I8, {1, 1, 1, 0}, 3, "state 1 of a bf16 parameter must be u8"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_BF16, EITP_F32, {0}, 3, "state 1 of a f32 parameter must be f32 [3, 25]"},
        {EITP_BF16,
         EITP_F32,
         EITP_I8,
         EITP_U8,
         EITP_I8,
         {1, 1, 1, 0},
         4,
         "state 2 of a bf16 parameter must be bf16 [3] (got bf16 [4])"},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_F32, EITP_F32, {1, 0, 0, 0}, 3, "i16 or i8"},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0}, 3, "or a key"},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_F32, EITP_I8, {1, 0, 0, 1}, 3, "without a remainder"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0, 0, 0, 1}, 3, "bf16"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, EITP_F32, {1, 0, 0, 0}, 3, "no remainder"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        for (int set = 0; set < KERNEL_SETS; set++) {
            eitp_context *context = open_context(kernel_sets[set], 2);
            eitp_graph *graph = NULL;
            eitp_tensor *inputs[EITP__UPDATE_INPUTS];
            if (!context)
                continue;
            CHECK(eitp_graph_create(context, &graph, NULL) == EITP_OK);
            if (!forms[i].refusal)
                check_adamw_form(context, graph, &forms[i]);
            else
                CHECK_THAT(!adamw_node(graph, &forms[i], inputs) && strstr(graph->error.message, forms[i].refusal),
                           "form %d: %s", (int)i, graph->error.message);
            eitp_graph_destroy(graph);
            eitp_context_destroy(context);
        }
    }
}

/* ---- SGD ---- */

/*
 * Dtypes of an update; which inputs are present (a second state; hyper, 2: with another shape; remainder; key); and a
 * word of the expected error message, or NULL.
 */
typedef struct sgd_form {
    eitp_dtype parameter, gradient, velocity, remainder;
    int has[4];
    const char *refusal;
} sgd_form;

static eitp__node *sgd_node(eitp_graph *graph, const sgd_form *f, eitp_tensor **inputs) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.integers[0] = 2000;
    attributes.integers[2] = EITP__UPDATE_RULE_SGD;
    attributes.reals[0] = 0.5;
    form_inputs(graph, f->parameter, f->gradient, f->has[2] ? &f->remainder : NULL, f->has[3], inputs);
    inputs[EITP__UPDATE_STATE] = form_variable(graph, "velocity", f->velocity);
    inputs[EITP__UPDATE_STATE + 1] = f->has[0] ? form_variable(graph, "v", f->velocity) : NULL;
    if (f->has[1] != 1)
        inputs[EITP__UPDATE_RATE] = f->has[1] ? form_variable(graph, "no rate", EITP_F32) : NULL;
    return eitp__node_create(graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_INPUTS, &attributes);
}

/* Makes two steps with learning rate 1/4 and momentum 1/2. Gradients of 8 give velocities of 8 and 12. */
static void check_sgd_form(eitp_context *context, eitp_graph *graph, const sgd_form *f) {
    static const float hyper[2] = {0.25f, 1}, commit[2] = {1, 1};
    static const int64_t key[3] = {1, 2, 3};
    eitp_tensor *inputs[EITP__UPDATE_INPUTS], *key_input;
    eitp__node *node = sgd_node(graph, f, inputs);
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    float values[FORM_ROWS * FORM_COLUMNS];
    CHECK_THAT(node && eitp_plan_create(graph, &plan, &error) == EITP_OK, "%s", graph->error.message);
    if (!plan)
        return;
    check_update_outputs(node, inputs);
    CHECK(node->output_count == 3 + f->has[2]);
    key_input = inputs[EITP__UPDATE_KEY];
    CHECK(eitp_variable_fill(context, "g", 8, &error) == EITP_OK);
    for (int step = 1; step <= 2; step++) {
        CHECK(eitp_plan_write(plan, inputs[EITP__UPDATE_RATE], hyper, sizeof hyper, &error) == EITP_OK);
        CHECK(eitp_plan_write(plan, inputs[EITP__UPDATE_COMMIT], commit, sizeof commit, &error) == EITP_OK);
        CHECK(!key_input || eitp_plan_write(plan, key_input, key, sizeof key, &error) == EITP_OK);
        CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
        CHECK(eitp_variable_read_f32(context, "p", 0, values, FORM_ROWS * FORM_COLUMNS, &error) == EITP_OK);
        for (int i = 0; i < FORM_ROWS * FORM_COLUMNS; i++)
            CHECK_THAT((double)values[i] == (step == 1 ? -2.0 : -5.0), "%s: parameter %d is %g",
                       eitp_dtype_name(f->parameter), i, (double)values[i]);
    }
    CHECK(eitp_variable_read_f32(context, "velocity", 0, values, 1, &error) == EITP_OK && (double)values[0] == 12.0);
    eitp_plan_destroy(plan);
}

static void sgd_forms(void) {
    static const sgd_form forms[] = {
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0, 1, 0, 0}, NULL},
        {EITP_F64, EITP_F64, EITP_F64, EITP_F32, {0, 1, 0, 0}, NULL},
        {EITP_BF16, EITP_BF16, EITP_F32, EITP_I16, {0, 1, 1, 0}, NULL},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_I8, {0, 1, 1, 0}, NULL},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_I16, {0, 1, 0, 1}, NULL},
        {EITP_F16, EITP_F32, EITP_F32, EITP_F32, {0, 1, 1, 0}, NULL},
        {EITP_F32, EITP_BF16, EITP_F32, EITP_F32, {0, 1, 0, 0}, "gradient"},
        {EITP_BF16, EITP_F32, EITP_BF16, EITP_I16, {0, 1, 1, 0}, "state 0 of a bf16 parameter must be f32"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, {1, 1, 0, 0}, "does not accept these states"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0, 0, 0, 0}, "input 2 of update is NULL"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0, 2, 0, 0}, "rate_and_step"},
        {EITP_BF16, EITP_F32, EITP_F32, EITP_I16, {0, 1, 0, 0}, "or a key"},
        {EITP_F32, EITP_F32, EITP_F32, EITP_F32, {0, 1, 1, 0}, "no remainder"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        for (int set = 0; set < KERNEL_SETS; set++) {
            eitp_context *context = open_context(kernel_sets[set], 2);
            eitp_graph *graph = NULL;
            eitp_tensor *inputs[EITP__UPDATE_INPUTS];
            if (!context)
                continue;
            CHECK(eitp_graph_create(context, &graph, NULL) == EITP_OK);
            if (!forms[i].refusal)
                check_sgd_form(context, graph, &forms[i]);
            else
                CHECK_THAT(!sgd_node(graph, &forms[i], inputs) && strstr(graph->error.message, forms[i].refusal),
                           "form %d: %s", (int)i, graph->error.message);
            eitp_graph_destroy(graph);
            eitp_context_destroy(context);
        }
    }
}

/* Checks an update by a rule with states of these shapes (extent 0: no state), which are variables or inputs. With a
   NULL `refusal` it is accepted. */
static void check_refused_update(int rule, const int64_t (*shapes)[2], int is_variable, const char *refusal) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_tensor *inputs[EITP__UPDATE_INPUTS];
    eitp__attributes attributes = EITP__ZERO;
    CHECK(eitp_graph_create(context, &graph, NULL) == EITP_OK);
    attributes.integers[2] = rule;
    form_inputs(graph, EITP_F32, EITP_F32, NULL, 0, inputs);
    for (int i = 0; i < EITP__UPDATE_STATES; i++) {
        static const char *const names[] = {"s0", "s1", "s2", "s3"};
        int rank = shapes[i][1] ? 2 : 1;
        if (shapes[i][0])
            inputs[EITP__UPDATE_STATE + i] =
                is_variable ? eitp_variable_tensor(graph, names[i], EITP_OPTIMIZER, EITP_F32, rank, shapes[i])
                            : eitp_input(graph, names[i], EITP_F32, rank, shapes[i]);
    }
    if (refusal)
        CHECK_THAT(!eitp__node_create(graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_INPUTS, &attributes) &&
                       strstr(graph->error.message, refusal),
                   "%s", graph->error.message);
    else
        CHECK_THAT(eitp__node_create(graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_INPUTS, &attributes), "%s",
                   graph->error.message);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A rule accepts only its own states. States that it changes must be variables, while a factored update may read
   computed ones. */
static void states_of_other_rules_are_refused(void) {
    static const int64_t sgd[4][2] = {{FORM_ROWS, FORM_COLUMNS}};
    static const int64_t roots[4][2] = {{FORM_ROWS, 0}, {FORM_COLUMNS, 0}};
    static const int64_t exchanged[4][2] = {{FORM_COLUMNS, 0}, {FORM_ROWS, 0}};
    static const int64_t whole[4][2] = {
        {FORM_ROWS, 0}, {FORM_COLUMNS, 0}, {FORM_ROWS, EITP__DIRECTIONS}, {EITP__DIRECTIONS, FORM_COLUMNS}};
    static const int64_t wide[4][2] = {
        {FORM_ROWS, 0}, {FORM_COLUMNS, 0}, {FORM_ROWS, EITP__DIRECTIONS + 1}, {EITP__DIRECTIONS, FORM_COLUMNS}};
    static const int64_t turned[4][2] = {
        {FORM_ROWS, 0}, {FORM_COLUMNS, 0}, {FORM_ROWS, EITP__DIRECTIONS}, {FORM_COLUMNS, EITP__DIRECTIONS}};
    check_refused_update(EITP__UPDATE_RULE_SGD, sgd, 1, NULL);
    check_refused_update(EITP__UPDATE_RULE_SGD, sgd, 0, "must be variables");
    check_refused_update(EITP__UPDATE_RULE_ADAMW, sgd, 1, "rule 0 is unknown or does not accept these states");
    check_refused_update(EITP__UPDATE_RULE_COUNT, sgd, 1, "is unknown or does not accept");
    check_refused_update(-1, sgd, 1, "rule -1");
    check_refused_update(EITP__UPDATE_RULE_FACTORED, roots, 0, NULL);
    check_refused_update(EITP__UPDATE_RULE_FACTORED, whole, 0, NULL);
    check_refused_update(EITP__UPDATE_RULE_FACTORED, exchanged, 0, "state 0 of a f32 parameter must be f32 [3]");
    check_refused_update(EITP__UPDATE_RULE_FACTORED, wide, 0, "state 2 of a f32 parameter must be f32 [3, 4]");
    check_refused_update(EITP__UPDATE_RULE_FACTORED, turned, 0, "state 3 of a f32 parameter must be f32 [4, 25]");
}

/* A stochastically rounded parameter needs a key. The steps minimize x^2 from 1 with learning rate 1/4. */
static void sgd_of_a_stochastically_rounded_parameter(void) {
    static const float hyper[2] = {0.25f, 1}, limit = 0;
    static const int64_t key[3] = {1, 1, 0};
    const int64_t shape[2] = {FORM_ROWS, FORM_COLUMNS};
    eitp_context_config settings = eitp_context_config_default();
    eitp_optimizer_config config = eitp_optimizer_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x;
    eitp_update update;
    eitp_error error = EITP__ZERO;
    float values[FORM_ROWS * FORM_COLUMNS];
    settings.device = "auto";
    settings.precision = "bf16";
    settings.parameters = EITP_PARAMETERS_ROUNDED;
    config.optimizer = EITP_SGD;
    config.weight_decay = 0;
    REQUIRE(!eitp_context_create(&settings, &context, &error) && !eitp_graph_create(context, &graph, &error));
    x = eitp_cast(eitp_variable_tensor(graph, "x", EITP_PARAMETER, EITP_BF16, 2, shape), EITP_F32);
    CHECK_THAT(!eitp_minimize(eitp_sum(eitp_multiply(x, x), EITP_ALL_DIMENSIONS, 0), &config, &update, &error) &&
                   update.key && !eitp_plan_create(graph, &plan, &error),
               "%s", error.message);
    if (plan) {
        CHECK(!eitp_variable_fill(context, "x", 1, &error));
        CHECK(!eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error));
        CHECK(!eitp_plan_write(plan, update.max_norm, &limit, sizeof limit, &error));
        CHECK(!eitp_plan_write(plan, update.key, key, sizeof key, &error));
        CHECK(!eitp_plan_execute(plan, &error));
        CHECK(!eitp_variable_read_f32(context, "x", 0, values, FORM_ROWS * FORM_COLUMNS, &error));
        for (int i = 0; i < FORM_ROWS * FORM_COLUMNS; i++)
            CHECK((double)values[i] == 0.5);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* Returns the bits of two stochastically rounded parameters, declared in either order, after some steps. */
static void round_two(eitp_optimizer optimizer, int is_reversed, float values[2][FORM_ROWS * FORM_COLUMNS]) {
    static const char *const names[2] = {"a", "b"};
    static const float limit = 0;
    const int64_t shape[2] = {FORM_ROWS, FORM_COLUMNS};
    eitp_context_config settings = eitp_context_config_default();
    eitp_optimizer_config config = eitp_optimizer_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x[2] = {NULL, NULL}, *loss;
    eitp_update update;
    eitp_error error = EITP__ZERO;
    settings.device = "auto";
    settings.isa = "ref";
    settings.precision = "bf16";
    settings.parameters = EITP_PARAMETERS_ROUNDED;
    config.optimizer = optimizer;
    REQUIRE(!eitp_context_create(&settings, &context, &error) && !eitp_graph_create(context, &graph, &error));
    for (int i = 0; i < 2; i++) {
        int which = is_reversed ? 1 - i : i;
        x[which] = eitp_variable_tensor(graph, names[which], EITP_PARAMETER, EITP_BF16, 2, shape);
    }
    loss = eitp_cast(eitp_add(eitp_multiply(x[0], x[0]), eitp_multiply(x[1], x[1])), EITP_F32);
    CHECK_THAT(!eitp_minimize(eitp_sum(loss, EITP_ALL_DIMENSIONS, 0), &config, &update, &error) &&
                   !eitp_plan_create(graph, &plan, &error),
               "%s", error.message);
    for (int i = 0; i < 2; i++)
        CHECK(!eitp_variable_fill(context, names[i], 1.5, &error));
    for (int step = 1; step <= 3 && plan; step++) {
        const float hyper[2] = {0.003f, (float)step};
        const int64_t key[3] = {7, step, 0};
        CHECK(!eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error));
        CHECK(!eitp_plan_write(plan, update.max_norm, &limit, sizeof limit, &error));
        CHECK(!eitp_plan_write(plan, update.key, key, sizeof key, &error));
        CHECK(!eitp_plan_execute(plan, &error));
    }
    for (int i = 0; i < 2; i++)
        CHECK(!eitp_variable_read_f32(context, names[i], 0, values[i], FORM_ROWS * FORM_COLUMNS, &error));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* The random bits that round a parameter depend on its name, not on the declaration order. */
static void rounding_depends_on_names(void) {
    for (int i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        const char *name = eitp_optimizer_get((eitp_optimizer)i)->name;
        float one[2][FORM_ROWS * FORM_COLUMNS], other[2][FORM_ROWS * FORM_COLUMNS];
        round_two((eitp_optimizer)i, 0, one);
        round_two((eitp_optimizer)i, 1, other);
        CHECK_THAT(!memcmp(one, other, sizeof one), "%s depends on the order of declaration", name);
        CHECK_THAT(memcmp(one[0], one[1], sizeof one[0]), "%s: both are rounded in the same way", name);
    }
}

enum {
    PIECE_ROWS = 64,
    PIECE_MATRICES = 4,
    PIECE_COLUMNS = 128,
    PIECE_ELEMENTS = PIECE_ROWS * PIECE_MATRICES * PIECE_COLUMNS
};

/* Makes three steps with a parameter of three dimensions, updated in pieces of about `piece_bytes`. */
static void update_in_pieces(eitp_optimizer optimizer, size_t piece_bytes, float *values) {
    static const float limit = 1;
    const int64_t shape[3] = {PIECE_ROWS, PIECE_MATRICES, PIECE_COLUMNS};
    eitp_context_config settings = eitp_context_config_default();
    eitp_optimizer_config config = eitp_optimizer_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x;
    eitp_update update;
    eitp_error error = EITP__ZERO;
    settings.device = "auto";
    config.optimizer = optimizer;
    config.piece_bytes = piece_bytes;
    REQUIRE(!eitp_context_create(&settings, &context, &error) && !eitp_graph_create(context, &graph, &error));
    x = eitp_parameter(graph, "x", 3, shape);
    x = eitp_multiply(eitp_multiply(x, x), x);
    CHECK_THAT(!eitp_minimize(eitp_sum(x, EITP_ALL_DIMENSIONS, 0), &config, &update, &error) &&
                   !eitp_plan_create(graph, &plan, &error),
               "%s", error.message);
    for (int i = 0; i < PIECE_ELEMENTS; i++)
        values[i] = (float)((i * 7919) % 1009) / 1009 - 0.5f;
    CHECK(!eitp_variable_write(context, "x", 0, values, PIECE_ELEMENTS * sizeof *values, &error));
    for (int step = 1; step <= 3 && plan; step++) {
        const float hyper[2] = {0.01f, (float)step};
        CHECK(!eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error));
        CHECK(!eitp_plan_write(plan, update.max_norm, &limit, sizeof limit, &error));
        CHECK_THAT(!eitp_plan_execute(plan, &error), "%s", error.message);
    }
    CHECK(!eitp_variable_read(context, "x", 0, values, PIECE_ELEMENTS * sizeof *values, &error));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* Each piece has its part of every state, in every format. */
static void pieces_change_no_bit(void) {
    static float whole[PIECE_ELEMENTS], pieces[PIECE_ELEMENTS];
    for (int i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        update_in_pieces((eitp_optimizer)i, EITP_PIECE_BYTES, whole);
        update_in_pieces((eitp_optimizer)i, 1, pieces);
        CHECK_THAT(!memcmp(whole, pieces, sizeof whole), "%s", eitp_optimizer_get((eitp_optimizer)i)->name);
    }
}

static void adamw_against_pytorch(void) {
    static const char *const ops[] = {"adamw_first", "adamw"};
    open_golden_file();
    REQUIRE(golden_file);
    for (int i = 0; i < 2; i++) {
        for (int apply = 0; apply < 2; apply++) {
            run_adamw(ops[i], "ref", EITP_F64, apply);
            for (int set = 0; set < KERNEL_SETS; set++)
                run_adamw(ops[i], kernel_sets[set], EITP_F32, apply);
        }
    }
    eitp__safetensors_close(golden_file);
}

/* If the sum is not finite, scale and apply are 0. With no limit, or a norm below the limit, scale is 1. */
static void commit_of_special_norms(void) {
    static const double cases[][5] = {/* sum, limit, scale, apply, norm */
                                      {4, 0, 1, 1, 2},
                                      {4, 5, 1, 1, 2},
                                      {0, 1, 1, 1, 0},
                                      {100, 5, 0.5, 1, 10},
                                      {(double)INFINITY, 1, 0, 0, (double)INFINITY},
                                      {(double)NAN, 1, 0, 0, (double)NAN}};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 1);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0] && context; i++) {
            eitp_tensor *inputs[2];
            eitp__node *commit;
            build b;
            results r;
            build_begin(&b, context, EITP_F32, 1);
            inputs[0] = given(&b, EITP_F64, 1, &cases[i][0]);
            inputs[1] = given(&b, EITP_F32, 1, &cases[i][1]);
            commit = eitp__node_create(b.graph, EITP__OP_COMMIT, inputs, 2, NULL);
            REQUIRE(commit);
            put(&b, commit->outputs[0]);
            put(&b, commit->outputs[1]);
            REQUIRE(execute_build(&b, "commit", &r));
            CHECK_THAT(fabs(r.values[0][0] - cases[i][2]) < 1e-6 && r.values[0][1] == cases[i][3], "case %d: %g %g",
                       (int)i, r.values[0][0], r.values[0][1]);
            CHECK(isnan(cases[i][4]) ? isnan(r.values[1][0]) : r.values[1][0] == cases[i][4]);
            results_release(&r);
            build_end(&b);
        }
        eitp_context_destroy(context);
    }
}

/* Totals of rows, of items and overall, over two executions, are added one value at a time in F64. */
static void totals_add_in_order(void) {
    static const float x[] = {1e8f, 0.3f, NAN, -1e8f, 0.7f, 0.1f}, carries[] = {0, 1};
    static const int32_t rows[] = {-1, -1, 0, 2, 3, 6}, items[] = {0, 1, 1, 2, -1, -1, 3, 4, 4, 5, 5, 6};
    const int64_t three = 3, six = 6, one = 1, row_shape[] = {3, 2}, item_shape[] = {6, 2};
    eitp_context *context = open_context("ref", 1);
    eitp_tensor *values, *row_bounds, *item_bounds, *single, *carry, *totals;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_error error = EITP__ZERO;
    double found[3], expected[3] = {0, 0, 0};
    REQUIRE(context && !eitp_graph_create(context, &graph, &error));
    values = eitp_input(graph, "x", EITP_F32, 1, &six);
    row_bounds = eitp_input(graph, "rows", EITP_I32, 2, row_shape);
    item_bounds = eitp_input(graph, "items", EITP_I32, 2, item_shape);
    single = eitp_slice(values, 0, 1, 2);
    carry = eitp_input(graph, "carry", EITP_F32, 1, &one);
    totals = eitp_variable_tensor(graph, "totals", EITP_CACHE, EITP_F64, 1, &three);
    totals = eitp__add_total(values, totals, 0, row_bounds, 0, carry);
    totals = eitp__add_total(values, totals, 1, item_bounds, 1, carry);
    totals = eitp_output(eitp__add_total(single, totals, 2, NULL, 0, NULL));
    CHECK_THAT(!eitp_plan_create(graph, &plan, &error), "%s", error.message);
    for (int i = 0; i < 2; i++) {
        CHECK(!eitp_plan_write(plan, values, x, sizeof x, &error));
        CHECK(!eitp_plan_write(plan, row_bounds, rows, sizeof rows, &error));
        CHECK(!eitp_plan_write(plan, item_bounds, items, sizeof items, &error));
        CHECK(!eitp_plan_write(plan, carry, &carries[i], sizeof *carries, &error));
        CHECK_THAT(!eitp_plan_execute(plan, &error), "%s", error.message);
        for (int k = 0; k < 6; k++) {
            expected[0] += k == 2 ? 0 : (double)x[k];
            expected[1] += k == 2 ? 0 : (double)x[k];
        }
        expected[2] = (double)x[1];
        CHECK(!eitp_plan_read(plan, totals, found, sizeof found, &error));
        for (int k = 0; k < 3; k++)
            CHECK_THAT(!memcmp(&found[k], &expected[k], sizeof *found), "%d %d: %.17g, not %.17g", i, k, found[k],
                       expected[k]);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Types ---- */

/* Converts values that every type can represent, and other values between each pair of types. */
static void casts_between_all_types(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16, EITP_I64, EITP_I32, EITP_I8, EITP_U8};
    static const double values[] = {0, 1, 2, 3, 17, 100, 126, 127};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (int from = 0; from < 8 && context; from++) {
            build b;
            results r;
            eitp_tensor *x;
            build_begin(&b, context, EITP_F32, 0);
            x = given(&b, dtypes[from], 8, values);
            for (int to = 0; to < 8; to++)
                put_like(&b, eitp_affine(eitp_cast(eitp_cast(x, dtypes[to]), EITP_F64), 1, 0), values_of(&b, x));
            if (execute_build(&b, "cast", &r))
                compare(&b, &r, NULL, 0, eitp_dtype_name(dtypes[from]));
            results_release(&r);
            build_end(&b);
        }
        eitp_context_destroy(context);
    }
}

/* Floating-point types round to nearest, ties to even. Integers round towards zero. */
static void casts_round(void) {
    static const double values[] = {1.0 / 3, -2.75, 100.6, 1 + 1.0 / 256, 1 + 3.0 / 256, -0.99};
    static const double bf16[] = {0.333984375, -2.75, 100.5, 1, 1.015625, -0.98828125};
    static const double f16[] = {0.333251953125, -2.75, 100.625, 1.00390625, 1.01171875, -0.990234375};
    static const double i32[] = {0, -2, 100, 1, 1, 0};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        build b;
        results r;
        eitp_tensor *x;
        if (!context)
            continue;
        build_begin(&b, context, EITP_F32, 0);
        x = given(&b, EITP_F32, 6, values);
        put(&b, eitp_cast(x, EITP_BF16));
        put(&b, eitp_cast(x, EITP_F16));
        put(&b, eitp_cast(x, EITP_I32));
        REQUIRE(execute_build(&b, "rounding casts", &r));
        for (int i = 0; i < 6; i++)
            CHECK_THAT(r.values[0][i] == bf16[i] && r.values[1][i] == f16[i] && r.values[2][i] == i32[i],
                       "%g becomes %g, %g, %g", values[i], r.values[0][i], r.values[1][i], r.values[2][i]);
        results_release(&r);
        build_end(&b);
        eitp_context_destroy(context);
    }
}

/* Ops that move elements support all element sizes. */
static void movement_of_all_types(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16, EITP_I64, EITP_I32, EITP_I8, EITP_U8};
    static const int64_t shape[3] = {3, 4, 5}, wide[4] = {2, 3, 4, 5}, more[3] = {3, 9, 5};
    static const int order[3] = {2, 0, 1};
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (int i = 0; i < 8 && context; i++) {
            build b;
            results r;
            eitp_tensor *x, *y, *both[2], *indices, *condition;
            const array *from, *joined[2];
            build_begin(&b, context, EITP_F32, 0);
            x = whole(&b, dtypes[i], 3, shape, 0, 100);
            y = whole(&b, dtypes[i], 3, shape, 0, 100);
            condition = whole(&b, EITP_U8, 3, shape, 1, 1);
            indices = integers(&b, 3, more, 0, 3);
            from = values_of(&b, x);
            both[0] = x;
            both[1] = y;
            joined[0] = from;
            joined[1] = values_of(&b, y);
            put_like(&b, eitp_permute(x, order), naive_permute(&b, from, order));
            put_like(&b, eitp_slice(x, 1, 1, 3), naive_window(&b, from, 1, 1, 2));
            put_like(&b, eitp_slice_step(x, -1, 1, 5, 3), naive_steps(&b, from, 2, 1, 2, 3));
            put_like(&b, eitp_pad(x, 2, 2, 1), naive_window(&b, from, 2, -2, 8));
            put_like(&b, eitp_concat(both, 2, 1), naive_concat(&b, joined, 2, 1));
            put_like(&b, eitp_broadcast(x, 4, wide), naive_broadcast(&b, from, 4, wide));
            put_like(&b, eitp_gather(x, indices, 1), naive_gather(&b, from, values_of(&b, indices), 1));
            put_like(&b, eitp_where(condition, x, y), from);
            if (execute_build(&b, eitp_dtype_name(dtypes[i]), &r))
                compare(&b, &r, NULL, 0, eitp_dtype_name(dtypes[i]));
            results_release(&r);
            build_end(&b);
        }
        eitp_context_destroy(context);
    }
}

/* ---- Generation ---- */

/* Rows fed through the cache in pieces have the same attention as in one sequence. */
/* Attention of a decoder: rows with the parts q, k and v, each with the width of a head times its number of heads. */
typedef struct cached_case {
    int heads, key_heads;
    int64_t window;
    int rotates, is_joined;
} cached_case;

enum { CACHED_ROWS = 23, CACHED_LONGEST = 29, CACHED_WIDTH = 6 };

/* Returns the inputs for rows [begin, end) of q, k and v. */
static eitp_attention_inputs cached_inputs(build *b, const cached_case *c, array *const *parts, int64_t begin,
                                           int64_t end) {
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_rotary_config rotary = eitp_rotary_config_default();
    eitp_tensor *tensors[3];
    double positions[CACHED_ROWS];
    for (int i = 0; i < 3; i++) {
        int64_t shape[2];
        array *rows;
        shape[0] = end - begin;
        shape[1] = parts[i]->shape[1];
        rows = new_array(b, 2, shape);
        memcpy(rows->data, parts[i]->data + begin * shape[1], (size_t)rows->count * sizeof(double));
        tensors[i] = add_leaf(b, EITP_F32, rows);
    }
    for (int64_t i = begin; i < end; i++)
        positions[i - begin] = (double)i;
    inputs.q = c->is_joined ? eitp_concat(tensors, 3, 1) : tensors[0];
    inputs.k = c->is_joined ? NULL : tensors[1];
    inputs.v = c->is_joined ? NULL : tensors[2];
    rotary.width = CACHED_WIDTH;
    rotary.theta = 30;
    inputs.rotation = c->rotates ? eitp_rotary(given(b, EITP_I32, end - begin, positions), &rotary) : NULL;
    return inputs;
}

/* Attention with a cache, a few rows at a time, equals attention over all rows. */
static void check_cached_attention(eitp_context *context, const cached_case *c) {
    static const int64_t pieces[] = {7, 1, 5, 1, 9};
    static const double bounds[2] = {0, CACHED_ROWS};
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs;
    build b;
    results whole;
    array *parts[3];
    int64_t done = 0, cache[2] = {CACHED_LONGEST, 0}, shape[2] = {CACHED_ROWS, 0};
    cache[1] = c->key_heads * CACHED_WIDTH;
    config.heads = c->heads;
    config.key_value_heads = c->key_heads;
    config.max_length = CACHED_LONGEST;
    config.scale = 0.4;
    config.sliding_window = c->window;
    build_begin(&b, context, EITP_F32, 0);
    for (int i = 0; i < 3; i++) {
        shape[1] = (i ? c->key_heads : c->heads) * CACHED_WIDTH;
        parts[i] = new_array(&b, 2, shape);
        for (int64_t k = 0; k < parts[i]->count; k++)
            parts[i]->data[k] = (double)(float)(draw(&b.random) * 3 - 1.5);
    }
    inputs = cached_inputs(&b, c, parts, 0, CACHED_ROWS);
    inputs.offsets = given(&b, EITP_I32, 2, bounds);
    put(&b, eitp_attention(&inputs, &config));
    REQUIRE(execute_build(&b, "attention", &whole));
    for (int i = 0; i < 5; i++) {
        const int64_t columns = c->heads * CACHED_WIDTH;
        const double position = (double)done;
        build piece;
        results r;
        eitp_tensor *keys, *values;
        build_begin(&piece, context, EITP_F32, 0);
        inputs = cached_inputs(&piece, c, parts, done, done + pieces[i]);
        keys = eitp_variable_tensor(piece.graph, "keys", EITP_CACHE, EITP_F32, 2, cache);
        values = eitp_variable_tensor(piece.graph, "values", EITP_CACHE, EITP_F32, 2, cache);
        put(&piece, eitp_attention_cached(&inputs, keys, values, given(&piece, EITP_I32, 1, &position), &config));
        REQUIRE(execute_build(&piece, "cached attention", &r));
        CHECK_THAT(nmse(r.values[0], whole.values[0] + done * columns, pieces[i] * columns) <= 1e-12,
                   "%d heads, window %lld, rows from %lld on", c->heads, (long long)c->window, (long long)done);
        results_release(&r);
        build_end(&piece);
        done += pieces[i];
    }
    results_release(&whole);
    build_end(&b);
}

static void cached_attention_equals_attention(void) {
    static const cached_case cases[] = {
        {3, 3, 0, 0, 1}, {4, 2, 0, 1, 1}, {2, 2, 3, 0, 0}, {6, 2, 5, 1, 0}, {3, 1, 1, 1, 1}};
    for (int set = 0; set < KERNEL_SETS; set++) {
        for (size_t i = 0; i < EITP__COUNT(cases); i++) {
            eitp_context *context = open_context(kernel_sets[set], 2);
            if (context)
                check_cached_attention(context, &cases[i]);
            eitp_context_destroy(context);
        }
    }
}

/* ---- Dropout ---- */

/*
 * Every set draws the same values. The dropped fraction matches the probability. A step in two parts draws the same
 * values as a whole step.
 */
static void dropout_depends_on_the_row_within_the_step(void) {
    enum { ROWS = 600, COLUMNS = 37, CUT = 211 };
    static double first[ROWS * COLUMNS];
    for (int set = 0; set < KERNEL_SETS; set++) {
        eitp_context *context = open_context(kernel_sets[set], 2);
        for (int part = 0; part < 3 && context; part++) { /* all rows; the rows before the cut; the rows after it */
            double key[3] = {3, 14, 0};
            int64_t begin = part == 2 ? CUT : 0, rows = part == 0 ? ROWS : part == 1 ? CUT : ROWS - CUT, dropped = 0;
            build b;
            results r;
            key[2] = 1000 + (double)begin;
            build_begin(&b, context, EITP_F32, 0);
            b.low = b.high = 1;
            put(&b, eitp_dropout(real2(&b, rows, COLUMNS), given(&b, EITP_I64, 3, key), 0.2));
            REQUIRE(execute_build(&b, "dropout", &r));
            for (int64_t i = 0; i < rows * COLUMNS; i++) {
                CHECK(r.values[0][i] == 0 || fabs(r.values[0][i] - 1.25) < 1e-6);
                dropped += r.values[0][i] == 0;
            }
            /* six standard deviations */
            CHECK_THAT(fabs((double)dropped - 0.2 * (double)(rows * COLUMNS)) <
                           6 * sqrt(0.16 * (double)(rows * COLUMNS)),
                       "%lld of %lld are dropped", (long long)dropped, (long long)(rows * COLUMNS));
            if (set == 0 && part == 0)
                memcpy(first, r.values[0], sizeof first);
            CHECK(!memcmp(r.values[0], first + begin * COLUMNS, (size_t)(rows * COLUMNS) * sizeof(double)));
            results_release(&r);
            build_end(&b);
        }
        eitp_context_destroy(context);
    }
}

/* The mask depends on seed, step and op. */
static void dropout_streams_differ(void) {
    static const double keys[3][3] = {{1, 1, 0}, {2, 1, 0}, {1, 2, 0}};
    eitp_context *context = open_context("ref", 1);
    build b;
    results r;
    eitp_tensor *x;
    REQUIRE(context);
    build_begin(&b, context, EITP_F32, 0);
    x = real2(&b, 64, 64);
    for (int i = 0; i < 3; i++)
        put(&b, eitp_dropout(x, given(&b, EITP_I64, 3, keys[i]), 0.5));
    put(&b, eitp_dropout(x, b.leaves[1], 0.5));
    REQUIRE(execute_build(&b, "dropout", &r));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            int64_t same = 0;
            for (int64_t e = 0; e < 4096; e++)
                same += (r.values[i][e] == 0) == (r.values[j][e] == 0);
            CHECK_THAT(same > 1800 && same < 2300, "outputs %d and %d agree in %lld of 4096", i, j, (long long)same);
        }
    results_release(&r);
    build_end(&b);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(ops_against_double),
        TEST(ops_against_pytorch),
        TEST(separate_attention_equals_attention),
        TEST(dropout_of_separate_attention),
        TEST(smoothed_losses_in_16_bits),
        TEST(rounding_depends_on_names),
        TEST(pieces_change_no_bit),
        TEST(adamw_against_pytorch),
        TEST(adamw_forms),
        TEST(sgd_forms),
        TEST(states_of_other_rules_are_refused),
        TEST(sgd_of_a_stochastically_rounded_parameter),
        TEST(commit_of_special_norms),
        TEST(totals_add_in_order),
        TEST(casts_between_all_types),
        TEST(casts_round),
        TEST(movement_of_all_types),
        TEST(cached_attention_equals_attention),
        TEST(dropout_depends_on_the_row_within_the_step),
        TEST(dropout_streams_differ),
    };
    return RUN_TESTS(tests, argc, argv);
}
