/*
 * eitp bench kernels: each kind of work in the shapes of GPT-2 with 124M parameters, one op at a time, as a training
 * step executes it: products with their bias, activation or residual.
 *
 * What an op reads is a variable, filled once, unless only another op can make it. Weights and their gradients are
 * there in as many copies as no cache holds, used in turn, so that they come from memory as in a training step;
 * activations may come from caches.
 */
#include "command_bench_work.h"

#include "command_output.h"

enum { WIDTH = 768, INNER = 3072, HEADS = 12, VOCABULARY = 50257, LOSS_WIDTH = 64 };

#define COPIES_BYTES ((double)(256 << 20)) /* of all copies of a weight */

/* A value of the precision; one that is f32 where that has 16 bits. */
static eitp_tensor *value(kernel *k, int graph, const char *what, int64_t m, int64_t n) {
    return work_variable(k, graph, what, 0, k->b->dtype, m, n);
}

static eitp_tensor *wide(kernel *k, int graph, const char *what, int64_t m, int64_t n) {
    return work_variable(k, graph, what, 0, EITP_F32, m, n);
}

/* A parameter of the precision: what a model keeps of its matrices, so that its gradient is f32. */
static eitp_tensor *parameter(kernel *k, int graph, const char *name, int64_t m, int64_t n) {
    int64_t shape[2];
    shape[0] = m;
    shape[1] = n;
    return eitp_variable_tensor(k->graphs[graph], name, EITP_PARAMETER, k->b->dtype, 2, shape);
}

/* Makes the gradient of y with respect to `count` tensors outputs. */
static void build_gradients(eitp_tensor *y, eitp_tensor *dy, int count, eitp_tensor *const *xs) {
    eitp_tensor *gradients[3] = {NULL, NULL, NULL};
    if (!y || eitp_gradients(y, dy, count, xs, gradients, NULL))
        return;
    for (int i = 0; i < count; i++)
        eitp_output(gradients[i]);
}

/* ---- Ids of rows: tokens and targets ---- */

static eitp_tensor *ids(kernel *k, int graph, const work *w) {
    return work_variable(k, graph, "ids", 0, EITP_I32, w->m, 0);
}

/* Spread over the vocabulary. */
static eitp_status write_ids(kernel *k, const work *w, eitp_error *error) {
    return work_write_integers(k, "ids", w->m, 7919, VOCABULARY, error);
}

/* ---- Matrix products: x [m, in] times weight [in, out]; the head's table is [out, in] ---- */

static eitp_tensor *weight(kernel *k, int copy, const char *what, eitp_dtype dtype, const work *w) {
    return w->out == VOCABULARY ? work_variable(k, copy, what, copy, dtype, w->out, w->in)
                                : work_variable(k, copy, what, copy, dtype, w->in, w->out);
}

/* The head comes with its loss: in 16 bits a product of its own kind, whose values only the loss can use. */
static void build_head(kernel *k, int copy, const work *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    eitp_output(eitp_linear_cross_entropy(x, weight(k, copy, "weight", k->b->dtype, w), ids(k, copy, w), -1));
}

/* With what the product does besides: bias, and the activation, whose operand the gradient needs, or the residual. */
static void build_forward(kernel *k, int copy, const work *w) {
    eitp_tensor *y = eitp_linear(value(k, copy, "x", w->m, w->in), weight(k, copy, "weight", k->b->dtype, w),
                                 wide(k, copy, "bias", w->out, 0), EITP_NO_ACTIVATION);
    if (w->out == WIDTH)
        y = eitp_add(value(k, copy, "residual", w->m, w->out), y);
    eitp_output(y);
    if (w->out == INNER)
        eitp_output(eitp_gelu_tanh(y));
}

/* Of what an activation made, with the derivative of that. */
static void build_input_gradient(kernel *k, int copy, const work *w) {
    eitp_tensor *dx = eitp_matmul_transposed(value(k, copy, "x", w->m, w->out),
                                             weight(k, copy, "weight", k->b->dtype, w), 0, w->out != VOCABULARY);
    if (w->in == INNER) {
        eitp_tensor *operand = value(k, copy, "operand", w->m, w->in);
        build_gradients(eitp_gelu_tanh(operand), dx, 1, &operand);
    } else {
        eitp_output(dx);
    }
}

static void build_weight_gradient(kernel *k, int copy, const work *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in), *dy = value(k, copy, "dy", w->m, w->out);
    int head = w->out == VOCABULARY;
    int64_t one = 1;
    /* Not filled, so 0: the first micro-batch of a step, which does not read what is there. */
    eitp_tensor *carry = eitp_variable_tensor(k->graphs[copy], "carry", EITP_OPTIMIZER, EITP_F32, 1, &one);
    eitp_accumulate(weight(k, copy, "gradient", EITP_F32, w), eitp_matmul_wide(head ? dy : x, head ? x : dy, 1, 0),
                    carry);
}

static const int64_t row_counts[] = {64, 256, 1024};

static eitp_status measure_products(bench *b, int64_t in, int64_t out, eitp_error *error) {
    static const struct {
        const char *name;
        void (*build)(kernel *k, int copy, const work *w);
    } kinds[] = {{"forward", build_forward},
                 {"input gradient", build_input_gradient},
                 {"weight gradient", build_weight_gradient}};
    int copies = (int)ceil(COPIES_BYTES / ((double)in * (double)out * (double)eitp_dtype_size(b->dtype)));
    kernel k;
    eitp_status status = EITP_OK;
    memset(&k, 0, sizeof k);
    k.b = b;
    for (size_t i = 0; i < COMMAND_COUNT(kinds) * COMMAND_COUNT(row_counts) && !status; i++) {
        size_t kind = i / COMMAND_COUNT(row_counts);
        char name[80];
        work w;
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
        status = work_measure(&k, &w, copies > 1 ? copies : 2, error);
    }
    eitp_context_destroy(k.context);
    return status;
}

/* ---- Attention: sequences of `in` tokens, `m` in all ---- */

static eitp_tensor *attention(kernel *k, const work *w, eitp_tensor *qkv) {
    eitp_tensor *offsets = work_variable(k, 0, "offsets", 0, EITP_I32, w->m / w->in + 1, 0);
    eitp_attention_config config;
    memset(&config, 0, sizeof config);
    config.heads = HEADS;
    config.longest = w->in;
    config.scale = 0.125;
    return eitp_attention(qkv, offsets, NULL, NULL, &config);
}

static void build_attention(kernel *k, int copy, const work *w) {
    eitp_output(attention(k, w, value(k, copy, "qkv", w->m, 3 * WIDTH)));
}

static eitp_status write_offsets(kernel *k, const work *w, eitp_error *error) {
    return work_write_integers(k, "offsets", w->m / w->in + 1, w->in, w->m + 1, error);
}

/* ---- What has one input and a gradient ---- */

static void build_attention_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *qkv = value(k, copy, "qkv", w->m, 3 * WIDTH);
    build_gradients(attention(k, w, qkv), value(k, copy, "x", w->m, WIDTH), 1, &qkv);
}

static void build_norm(kernel *k, int copy, const work *w) {
    eitp_output(eitp_layer_norm(value(k, copy, "x", w->m, w->in), wide(k, copy, "gain", w->in, 0),
                                wide(k, copy, "bias", w->in, 0), 1e-5));
}

static void build_norm_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *xs[3];
    xs[0] = value(k, copy, "x", w->m, w->in);
    xs[1] = wide(k, copy, "gain", w->in, 0);
    xs[2] = wide(k, copy, "bias", w->in, 0);
    build_gradients(eitp_layer_norm(xs[0], xs[1], xs[2], 1e-5), value(k, copy, "dy", w->m, w->in), 3, xs);
}

static void build_gelu(kernel *k, int copy, const work *w) {
    eitp_output(eitp_gelu_tanh(value(k, copy, "x", w->m, w->in)));
}

static void build_gelu_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    build_gradients(eitp_gelu_tanh(x), value(k, copy, "dy", w->m, w->in), 1, &x);
}

static void build_softmax(kernel *k, int copy, const work *w) {
    eitp_output(eitp_softmax(value(k, copy, "x", w->m, w->in)));
}

static void build_softmax_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, w->in);
    build_gradients(eitp_softmax(x), value(k, copy, "dy", w->m, w->in), 1, &x);
}

static void build_add(kernel *k, int copy, const work *w) {
    eitp_output(eitp_add(value(k, copy, "x", w->m, w->in), value(k, copy, "dy", w->m, w->in)));
}

static void build_dropout(kernel *k, int copy, const work *w) {
    int64_t three = 3;
    eitp_tensor *key = eitp_variable_tensor(k->graphs[copy], "key", EITP_CACHE, EITP_I64, 1, &three);
    eitp_output(eitp_dropout(value(k, copy, "x", w->m, w->in), key, 0.1));
}

/* The gradient of what was added to each row. */
static void build_bias_gradient(kernel *k, int copy, const work *w) {
    eitp_output(eitp_sum(value(k, copy, "dy", w->m, w->in), 1u, 0));
}

/* ---- What has ids ---- */

static void build_embedding(kernel *k, int copy, const work *w) {
    eitp_output(eitp_embedding(value(k, copy, "table", VOCABULARY, w->in), ids(k, copy, w)));
}

/* Added to what the head's gradient left there. */
static void build_embedding_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *table = parameter(k, copy, "parameter", VOCABULARY, w->in), *gradient = NULL;
    eitp_tensor *y = eitp_embedding(table, ids(k, copy, w)), *dy = value(k, copy, "dy", w->m, w->in);
    if (y && !eitp_gradients(y, dy, 1, &table, &gradient, NULL))
        eitp_accumulate(wide(k, copy, "gradient", VOCABULARY, w->in), gradient, NULL);
}

/* What the loss reads does not depend on the width that the logits are products over, so that is small. */
static eitp_tensor *losses(kernel *k, int copy, const work *w, eitp_tensor *x) {
    return eitp_linear_cross_entropy(x, value(k, copy, "table", w->in, LOSS_WIDTH), ids(k, copy, w), -1);
}

static void build_loss(kernel *k, int copy, const work *w) {
    eitp_output(losses(k, copy, w, value(k, copy, "x", w->m, LOSS_WIDTH)));
}

static void build_loss_backward(kernel *k, int copy, const work *w) {
    eitp_tensor *x = value(k, copy, "x", w->m, LOSS_WIDTH);
    build_gradients(losses(k, copy, w, x), NULL, 1, &x);
}

/* ---- The update of one parameter: steps that change nothing, for the learning rate is 0 ---- */

static void build_update(kernel *k, int copy, const work *w) {
    eitp_optimizer_config config = eitp_optimizer_config_default();
    int64_t shape[2];
    shape[0] = w->m;
    shape[1] = w->in;
    parameter(k, copy, "parameter", w->m, w->in);
    eitp_variable_tensor(k->graphs[copy], "gradient.parameter", EITP_GRADIENT, EITP_F32, 2, shape);
    eitp_apply_gradients(k->graphs[copy], &config, &k->update, NULL);
}

/* ---- All of them ---- */

static const work row_works[] = {
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

static const work whole_works[] = {
    {"attention 4x64", "attention", NULL, build_attention, write_offsets, 256, 64, 0},
    {"attention 256", "attention", NULL, build_attention, write_offsets, 256, 256, 0},
    {"attention 1024", "attention", NULL, build_attention, write_offsets, 1024, 1024, 0},
    {"attention gradient 4x64", "attention_backward", NULL, build_attention_backward, write_offsets, 256, 64, 0},
    {"attention gradient 256", "attention_backward", NULL, build_attention_backward, write_offsets, 256, 256, 0},
    {"attention gradient 1024", "attention_backward", NULL, build_attention_backward, write_offsets, 1024, 1024, 0},
    {"sum of squares 768x3072", "sum_squares", NULL, build_update, NULL, WIDTH, INNER, 0},
    {"sum of squares 50257x768", "sum_squares", NULL, build_update, NULL, VOCABULARY, WIDTH, 0},
    {"adamw 768x3072", "adamw", NULL, build_update, NULL, WIDTH, INNER, 0},
    {"adamw 50257x768", "adamw", NULL, build_update, NULL, VOCABULARY, WIDTH, 0},
};

static eitp_status measure_once(bench *b, const work *w, eitp_error *error) {
    kernel k;
    eitp_status status;
    memset(&k, 0, sizeof k);
    k.b = b;
    status = work_measure(&k, w, 1, error);
    eitp_context_destroy(k.context);
    return status;
}

static eitp_status measure_rows(bench *b, const work *row_work, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(row_counts) && !status; i++) {
        work w = *row_work;
        char name[80];
        w.m = row_counts[i];
        w.name = name;
        snprintf(name, sizeof name, "%s %lldx%lld", row_work->name, (long long)w.m, (long long)w.in);
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
    for (size_t i = 0; i < COMMAND_COUNT(whole_works) && !status; i++)
        status = measure_once(b, &whole_works[i], error);
    for (size_t i = 0; i < COMMAND_COUNT(row_works) && !status; i++)
        status = measure_rows(b, &row_works[i], error);
    if (!status && !b->results.count)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--filter '%s' leaves nothing; a name is for instance 'gelu'",
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
