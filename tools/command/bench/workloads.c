/*
 * eitp bench kernels: the ops of a training step, one at a time, in the shapes of GPT-2 with 124M parameters. Products
 * have their bias, activation or residual, as in a step.
 *
 * Operands are variables, filled once, unless only another op can produce them. Weights and their gradients have more
 * copies than caches hold. The copies are used alternately, so they are read from memory as in a training step.
 * Activations may be in caches.
 */
#include "bench/workload.h"

#include "output.h"

enum { WIDTH = 768, INNER = 3072, HEADS = 12, VOCABULARY = 50257, LOSS_WIDTH = 64 };

#define COPIES_BYTES ((double)(256 << 20)) /* of all copies of a weight */

/* Adds a value in the precision; value_f32 always in f32. */
static eitp_tensor *value(kernel_bench *k, int graph, const char *what, int64_t m, int64_t n) {
    return workload_variable(k, graph, what, 0, k->b->dtype, m, n);
}

static eitp_tensor *value_f32(kernel_bench *k, int graph, const char *what, int64_t m, int64_t n) {
    return workload_variable(k, graph, what, 0, EITP_F32, m, n);
}

/* Adds a parameter in the precision, like a model's matrices; its gradient is f32. */
static eitp_tensor *parameter(kernel_bench *k, int graph, const char *name, int64_t m, int64_t n) {
    int64_t shape[2];
    shape[0] = m;
    shape[1] = n;
    return eitp_variable_tensor(k->graphs[graph], name, EITP_PARAMETER, k->b->dtype, 2, shape);
}

/* Marks the gradients of y with respect to `count` tensors as outputs. */
static void build_gradients(eitp_tensor *y, eitp_tensor *dy, int count, eitp_tensor *const *xs) {
    eitp_tensor *gradients[3] = {NULL, NULL, NULL};
    if (!y || eitp_gradients(y, dy, count, xs, gradients, NULL))
        return;
    for (int i = 0; i < count; i++)
        eitp_output(gradients[i]);
}

/* ---- Token ids and targets ---- */

static eitp_tensor *ids(kernel_bench *k, int graph, const workload *w) {
    return workload_variable(k, graph, "ids", 0, EITP_I32, w->m, 0);
}

/* Writes ids spread over the vocabulary. */
static eitp_status write_ids(kernel_bench *k, const workload *w, eitp_error *error) {
    return workload_write_integers(k, "ids", w->m, 7919, VOCABULARY, error);
}

/* ---- Matrix products: x [m, in] times weight [in, out]; the head's table is [out, in] ---- */

static eitp_tensor *weight(kernel_bench *k, int copy, const char *what, eitp_dtype dtype, const workload *w) {
    return w->out == VOCABULARY ? workload_variable(k, copy, what, copy, dtype, w->out, w->in)
                                : workload_variable(k, copy, what, copy, dtype, w->in, w->out);
}

/* Builds the head with its loss. In 16 bits the head is a separate op, whose values only the loss can read. */
static void build_head(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    eitp_output(eitp_linear_cross_entropy(x, weight(k, copy, "weight", k->b->dtype, w), ids(k, copy, w), -1));
}

/* Adds bias, and the activation (whose operand the gradient needs) or the residual. */
static void build_forward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *y = eitp_linear(value(k, copy, "x", w->m, w->in), weight(k, copy, "weight", k->b->dtype, w),
                                 value_f32(k, copy, "bias", w->out, 0), EITP_NO_ACTIVATION);
    if (w->out == WIDTH)
        y = eitp_add(value(k, copy, "residual", w->m, w->out), y);
    eitp_output(y);
    if (w->out == INNER)
        eitp_output(eitp_gelu_tanh(y));
}

/* Builds the gradient after an activation, with its derivative. */
static void build_input_gradient(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *dx = eitp_matmul_transposed(value(k, copy, "x", w->m, w->out),
                                             weight(k, copy, "weight", k->b->dtype, w), 0, w->out != VOCABULARY);
    if (w->in == INNER) {
        eitp_tensor *operand = value(k, copy, "operand", w->m, w->in);
        build_gradients(eitp_gelu_tanh(operand), dx, 1, &operand);
    } else {
        eitp_output(dx);
    }
}

static void build_weight_gradient(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in), *dy = value(k, copy, "dy", w->m, w->out);
    int head = w->out == VOCABULARY;
    int64_t one = 1;
    /* Stays 0: the first micro-batch of a step overwrites the gradient. */
    eitp_tensor *carry = eitp_variable_tensor(k->graphs[copy], "carry", EITP_OPTIMIZER, EITP_F32, 1, &one);
    eitp_accumulate(weight(k, copy, "gradient", EITP_F32, w), eitp_matmul_wide(head ? dy : x, head ? x : dy, 1, 0),
                    carry);
}

static const int64_t row_counts[] = {64, 256, 1024};

static eitp_status measure_products(bench *b, int64_t in, int64_t out, eitp_error *error) {
    static const struct {
        const char *name;
        void (*build)(kernel_bench *k, int copy, const workload *w);
    } kinds[] = {{"forward", build_forward},
                 {"input gradient", build_input_gradient},
                 {"weight gradient", build_weight_gradient}};
    int copies = (int)ceil(COPIES_BYTES / ((double)in * (double)out * (double)eitp_dtype_size(b->dtype)));
    kernel_bench k;
    eitp_status status = EITP_OK;
    memset(&k, 0, sizeof k);
    k.b = b;
    for (size_t i = 0; i < COMMAND_COUNT(kinds) * COMMAND_COUNT(row_counts) && !status; i++) {
        size_t kind = i / COMMAND_COUNT(row_counts);
        char name[80];
        workload w;
        memset(&w, 0, sizeof w);
        w.m = row_counts[i % COMMAND_COUNT(row_counts)];
        w.in = in;
        w.out = out;
        w.op = "matmul";
        w.build = kinds[kind].build;
        if (out == VOCABULARY && w.build == build_forward) {
            w.build = build_head;
            w.op_16 = "head";
            w.write = write_ids;
        }
        w.name = name;
        snprintf(name, sizeof name, "product %s %lldx%lldx%lld", kinds[kind].name, (long long)w.m, (long long)in,
                 (long long)out);
        status = workload_measure(&k, &w, copies > 1 ? copies : 2, error);
    }
    eitp_context_destroy(k.context);
    return status;
}

/* ---- Attention: sequences of `in` tokens, `m` tokens in total ---- */

static eitp_tensor *attention(kernel_bench *k, const workload *w, eitp_tensor *qkv) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    inputs.q = qkv;
    inputs.offsets = workload_variable(k, 0, "offsets", 0, EITP_I32, w->m / w->in + 1, 0);
    config.heads = HEADS;
    config.max_length = w->in;
    config.scale = 0.125;
    return eitp_attention(&inputs, &config);
}

static void build_attention(kernel_bench *k, int copy, const workload *w) {
    eitp_output(attention(k, w, value(k, copy, "qkv", w->m, 3 * WIDTH)));
}

static eitp_status write_offsets(kernel_bench *k, const workload *w, eitp_error *error) {
    return workload_write_integers(k, "offsets", w->m / w->in + 1, w->in, w->m + 1, error);
}

/* ---- Ops with one input, and their gradients ---- */

static void build_attention_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *qkv = value(k, copy, "qkv", w->m, 3 * WIDTH);
    build_gradients(attention(k, w, qkv), value(k, copy, "x", w->m, WIDTH), 1, &qkv);
}

static void build_norm(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_layer_norm(value(k, copy, "x", w->m, w->in), value_f32(k, copy, "gain", w->in, 0),
                                value_f32(k, copy, "bias", w->in, 0), 1e-5));
}

static void build_norm_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *xs[3];
    xs[0] = value(k, copy, "x", w->m, w->in);
    xs[1] = value_f32(k, copy, "gain", w->in, 0);
    xs[2] = value_f32(k, copy, "bias", w->in, 0);
    build_gradients(eitp_layer_norm(xs[0], xs[1], xs[2], 1e-5), value(k, copy, "dy", w->m, w->in), 3, xs);
}

static void build_gelu(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_gelu_tanh(value(k, copy, "x", w->m, w->in)));
}

static void build_gelu_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    build_gradients(eitp_gelu_tanh(x), value(k, copy, "dy", w->m, w->in), 1, &x);
}

static void build_softmax(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_softmax(value(k, copy, "x", w->m, w->in)));
}

static void build_softmax_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    build_gradients(eitp_softmax(x), value(k, copy, "dy", w->m, w->in), 1, &x);
}

static void build_add(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_add(value(k, copy, "x", w->m, w->in), value(k, copy, "dy", w->m, w->in)));
}

static void build_dropout(kernel_bench *k, int copy, const workload *w) {
    int64_t three = 3;
    eitp_tensor *key = eitp_variable_tensor(k->graphs[copy], "key", EITP_CACHE, EITP_I64, 1, &three);
    eitp_output(eitp_dropout(value(k, copy, "x", w->m, w->in), key, 0.1));
}

/* Builds the gradient of a bias, which is added to each row. */
static void build_bias_gradient(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_sum(value(k, copy, "dy", w->m, w->in), 1u, 0));
}

/* ---- Ops on ids ---- */

static void build_embedding(kernel_bench *k, int copy, const workload *w) {
    eitp_output(eitp_embedding(value(k, copy, "table", VOCABULARY, w->in), ids(k, copy, w)));
}

/* Builds the gradient of an embedding, added to the gradient of the head, which shares the table. */
static void build_embedding_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *table = parameter(k, copy, "parameter", VOCABULARY, w->in), *gradient = NULL;
    eitp_tensor *y = eitp_embedding(table, ids(k, copy, w)), *dy = value(k, copy, "dy", w->m, w->in);
    if (y && !eitp_gradients(y, dy, 1, &table, &gradient, NULL))
        eitp_accumulate(value_f32(k, copy, "gradient", VOCABULARY, w->in), gradient, NULL);
}

/* Uses a small width, since the time of the loss does not depend on it. */
static eitp_tensor *losses(kernel_bench *k, int copy, const workload *w, eitp_tensor *x) {
    return eitp_linear_cross_entropy(x, value(k, copy, "table", w->in, LOSS_WIDTH), ids(k, copy, w), -1);
}

static void build_loss(kernel_bench *k, int copy, const workload *w) {
    eitp_output(losses(k, copy, w, value(k, copy, "x", w->m, LOSS_WIDTH)));
}

static void build_loss_backward(kernel_bench *k, int copy, const workload *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, LOSS_WIDTH);
    build_gradients(losses(k, copy, w, x), NULL, 1, &x);
}

/* ---- The update of one parameter, with a learning rate of 0 ---- */

static void build_update(kernel_bench *k, int copy, const workload *w) {
    eitp_optimizer_config config = eitp_optimizer_config_default();
    eitp_gradient_variable(parameter(k, copy, "parameter", w->m, w->in));
    eitp_apply_gradients(k->graphs[copy], &config, &k->update, NULL);
}

/* ---- The workloads ---- */

static const workload row_workloads[] = {
    {"layer norm", "layer_norm", NULL, build_norm, NULL, 0, WIDTH, 0},
    {"layer norm input gradient", "layer_norm_backward_input", NULL, build_norm_backward, NULL, 0, WIDTH, 0},
    {"layer norm parameter gradient", "layer_norm_backward_parameters", NULL, build_norm_backward, NULL, 0, WIDTH, 0},
    {"gelu", "gelu_tanh", NULL, build_gelu, NULL, 0, INNER, 0},
    {"gelu gradient", "gelu_tanh_backward", NULL, build_gelu_backward, NULL, 0, INNER, 0},
    {"softmax", "softmax", NULL, build_softmax, NULL, 0, 1024, 0},
    {"softmax gradient", "softmax_backward", NULL, build_softmax_backward, NULL, 0, 1024, 0},
    {"residual sum", "add", NULL, build_add, NULL, 0, WIDTH, 0},
    {"bias gradient", "sum", NULL, build_bias_gradient, NULL, 0, WIDTH, 0},
    {"bias gradient", "sum", NULL, build_bias_gradient, NULL, 0, 3 * WIDTH, 0},
    {"bias gradient", "sum", NULL, build_bias_gradient, NULL, 0, INNER, 0},
    {"dropout", "dropout", NULL, build_dropout, NULL, 0, WIDTH, 0},
    {"embedding", "embedding", NULL, build_embedding, write_ids, 0, WIDTH, 0},
    {"embedding gradient", "embedding_backward", NULL, build_embedding_backward, write_ids, 0, WIDTH, 0},
    {"cross-entropy", "cross_entropy", "head_loss", build_loss, write_ids, 0, VOCABULARY, 0},
    {"cross-entropy gradient", "cross_entropy_backward", "head_backward", build_loss_backward, write_ids, 0, VOCABULARY,
     0},
};

static const workload whole_workloads[] = {
    {"attention 4x64", "attention", NULL, build_attention, write_offsets, 256, 64, 0},
    {"attention 256", "attention", NULL, build_attention, write_offsets, 256, 256, 0},
    {"attention 1024", "attention", NULL, build_attention, write_offsets, 1024, 1024, 0},
    {"attention gradient 4x64", "attention_backward", NULL, build_attention_backward, write_offsets, 256, 64, 0},
    {"attention gradient 256", "attention_backward", NULL, build_attention_backward, write_offsets, 256, 256, 0},
    {"attention gradient 1024", "attention_backward", NULL, build_attention_backward, write_offsets, 1024, 1024, 0},
    {"sum of squares 768x3072", "sum_squares", NULL, build_update, NULL, WIDTH, INNER, 0},
    {"sum of squares 50257x768", "sum_squares", NULL, build_update, NULL, VOCABULARY, WIDTH, 0},
    {"adamw 768x3072", "update", NULL, build_update, NULL, WIDTH, INNER, 0},
    {"adamw 50257x768", "update", NULL, build_update, NULL, VOCABULARY, WIDTH, 0},
};

static eitp_status measure_once(bench *b, const workload *w, eitp_error *error) {
    kernel_bench k;
    eitp_status status;
    memset(&k, 0, sizeof k);
    k.b = b;
    status = workload_measure(&k, w, 1, error);
    eitp_context_destroy(k.context);
    return status;
}

static eitp_status measure_rows(bench *b, const workload *row, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(row_counts) && !status; i++) {
        workload w = *row;
        char name[80];
        w.m = row_counts[i];
        w.name = name;
        snprintf(name, sizeof name, "%s %lldx%lld", row->name, (long long)w.m, (long long)w.in);
        status = measure_once(b, &w, error);
    }
    return status;
}

static eitp_status measure_all(bench *b, eitp_error *error) {
    static const int64_t products[][2] = {
        {WIDTH, 3 * WIDTH}, {WIDTH, WIDTH}, {WIDTH, INNER}, {INNER, WIDTH}, {WIDTH, VOCABULARY}};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(products) && !status; i++)
        status = measure_products(b, products[i][0], products[i][1], error);
    for (size_t i = 0; i < COMMAND_COUNT(whole_workloads) && !status; i++)
        status = measure_once(b, &whole_workloads[i], error);
    for (size_t i = 0; i < COMMAND_COUNT(row_workloads) && !status; i++)
        status = measure_rows(b, &row_workloads[i], error);
    if (!status && !b->results.count)
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "no workload matches --filter '%s' (an example of a name is 'gelu')",
                              options_text(&b->options, OPTION_FILTER));
    return status;
}

eitp_status bench_kernels(bench *b, eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    eitp_status status = bench_open(b, error);
    if (!status)
        status = measure_all(b, error);
    if (status)
        return status;
    bench_report_missing(b);
    if (!options_integer(&b->options, OPTION_JSON))
        return EITP_OK;
    bench_json_begin(b, &t);
    bench_json_lines(b, &t);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
    return EITP_OK;
}
