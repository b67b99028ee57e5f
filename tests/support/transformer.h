/* A small GPT-2-like language model built from public ops only, for tests of whole graphs. */
#ifndef EITP_TEST_TRANSFORMER_H
#define EITP_TEST_TRANSFORMER_H

#include "tests/support/graphs.h"

typedef struct transformer_config {
    int64_t rows, words, width, heads, layers, max_length, sequences;
    int capacity; /* 1: the number of rows is a capacity */
    double dropout;
} transformer_config;

static const transformer_config tiny_transformer = {24, 29, 12, 3, 2, 10, 4, 0, 0.1};

/* Large enough that its tensors are split into several pieces. */
static const transformer_config wide_transformer = {96, 500, 64, 4, 2, 40, 3, 0, 0.1};

enum { TRANSFORMER_PARAMETERS = 160 }; /* enough for 12 layers */

typedef struct transformer {
    transformer_config config;
    eitp_tensor *tokens, *positions, *targets, *offsets, *key,
        *weight; /* inputs; the loss is multiplied by the weight */
    eitp_tensor *logits, *loss;
    int parameter_count;
    eitp_tensor *parameters[TRANSFORMER_PARAMETERS];
} transformer;

static GRAPHS_UNUSED eitp_tensor *transformer_parameter(transformer *t, eitp_graph *graph, const char *name, int64_t m,
                                                        int64_t n) {
    int64_t shape[2];
    eitp_tensor *parameter;
    shape[0] = m;
    shape[1] = n;
    parameter = n ? eitp_parameter(graph, name, 2, shape) : eitp_parameter(graph, name, 1, shape);
    t->parameters[t->parameter_count++] = parameter;
    return parameter;
}

/* "<prefix>.<layer>", with a weight and a bias. */
static GRAPHS_UNUSED eitp_tensor *transformer_linear(transformer *t, eitp_graph *graph, const char *prefix, int layer,
                                                     eitp_tensor *x, int64_t in, int64_t out,
                                                     eitp_activation activation) {
    char name[64];
    eitp_tensor *weight, *bias;
    snprintf(name, sizeof name, "%s.%d.weight", prefix, layer);
    weight = transformer_parameter(t, graph, name, in, out);
    snprintf(name, sizeof name, "%s.%d.bias", prefix, layer);
    bias = transformer_parameter(t, graph, name, out, 0);
    return eitp_linear(x, weight, bias, activation);
}

static GRAPHS_UNUSED eitp_tensor *transformer_norm(transformer *t, eitp_graph *graph, const char *prefix, int layer,
                                                   eitp_tensor *x) {
    char name[64];
    eitp_tensor *gain, *bias;
    snprintf(name, sizeof name, "%s.%d.gain", prefix, layer);
    gain = transformer_parameter(t, graph, name, t->config.width, 0);
    snprintf(name, sizeof name, "%s.%d.bias", prefix, layer);
    bias = transformer_parameter(t, graph, name, t->config.width, 0);
    return eitp_layer_norm(x, gain, bias, 1e-5);
}

static GRAPHS_UNUSED eitp_tensor *transformer_block(transformer *t, eitp_graph *graph, int layer, eitp_tensor *x) {
    const transformer_config *c = &t->config;
    double scale = 1 / sqrt((double)(c->width / c->heads));
    eitp_tensor *y = transformer_norm(t, graph, "norm1", layer, x);
    y = transformer_linear(t, graph, "qkv", layer, y, c->width, 3 * c->width, EITP_NO_ACTIVATION);
    y = causal_attention(y, t->offsets, (int)c->heads, c->max_length, scale, t->key, c->dropout);
    y = transformer_linear(t, graph, "out", layer, y, c->width, c->width, EITP_NO_ACTIVATION);
    x = eitp_add(x, eitp_dropout(y, t->key, c->dropout));
    y = transformer_norm(t, graph, "norm2", layer, x);
    y = transformer_linear(t, graph, "up", layer, y, c->width, 4 * c->width, EITP_GELU_TANH);
    y = transformer_linear(t, graph, "down", layer, y, 4 * c->width, c->width, EITP_NO_ACTIVATION);
    return eitp_add(x, eitp_dropout(y, t->key, c->dropout));
}

static GRAPHS_UNUSED eitp_tensor *transformer_input(const transformer *t, eitp_graph *graph, const char *name) {
    return t->config.capacity ? eitp_input_rows(graph, name, EITP_I32, 1, &t->config.rows)
                              : eitp_input(graph, name, EITP_I32, 1, &t->config.rows);
}

static GRAPHS_UNUSED transformer transformer_make(eitp_graph *graph, const transformer_config *config) {
    transformer t;
    eitp_tensor *x, *table;
    int64_t bounds = config->sequences + 1, three = 3, one = 1;
    memset(&t, 0, sizeof t);
    t.config = *config;
    t.tokens = transformer_input(&t, graph, "tokens");
    t.positions = transformer_input(&t, graph, "positions");
    t.targets = transformer_input(&t, graph, "targets");
    t.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &bounds);
    t.key = eitp_input(graph, "key", EITP_I64, 1, &three);
    t.weight = eitp_input(graph, "weight", EITP_F32, 1, &one);
    table = transformer_parameter(&t, graph, "words", config->words, config->width);
    x = eitp_embedding(transformer_parameter(&t, graph, "places", config->max_length, config->width), t.positions);
    x = eitp_add(eitp_embedding(table, t.tokens), x);
    for (int layer = 0; layer < config->layers; layer++)
        x = transformer_block(&t, graph, layer, x);
    x = transformer_norm(&t, graph, "norm", 0, x);
    t.logits = eitp_matmul_transposed(x, table, 0, 1);
    t.loss = eitp_sum(eitp_cross_entropy(t.logits, t.targets, -1), EITP_ALL_DIMENSIONS, 0);
    t.loss = eitp_multiply(t.loss, t.weight);
    return t;
}

/* Initializes the same values in any graph. */
static GRAPHS_UNUSED void transformer_initialize(eitp_context *context) {
    eitp_error error = EITP__ZERO;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable v = eitp_variable_at(context, i);
        if (v.role == EITP_PARAMETER)
            CHECK(eitp_variable_fill_normal(context, v.name, strstr(v.name, "gain") ? 1 : 0, 0.1, 5, &error) ==
                  EITP_OK);
    }
}

/* Writes the inputs of step `step` for `rows` rows. The last sequence has the remaining rows. */
static GRAPHS_UNUSED void transformer_write(const transformer *t, eitp_plan *plan, int64_t rows, int64_t step) {
    int32_t tokens[128], positions[128], targets[128], offsets[16];
    int64_t key[3], length = t->config.max_length - 3;
    float weight = rows ? 1.0f / (float)rows : 0.0f;
    size_t size = (size_t)rows * sizeof(int32_t);
    eitp_error error = EITP__ZERO;
    for (int64_t i = 0; i <= t->config.sequences; i++)
        offsets[i] = (int32_t)(i * length < rows ? i * length : rows);
    for (int64_t i = 0; i < rows; i++) {
        tokens[i] = (int32_t)((i * 7 + step * 3) % t->config.words);
        positions[i] = (int32_t)(i % length);
        targets[i] = i % 5 == 3 ? -1 : (int32_t)((i * 11 + step) % t->config.words);
    }
    key[0] = 42;
    key[1] = step;
    key[2] = 0;
    CHECK(eitp_plan_write(plan, t->tokens, tokens, size, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, t->positions, positions, size, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, t->targets, targets, size, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, t->offsets, offsets, (size_t)(t->config.sequences + 1) * 4, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, t->key, key, sizeof key, &error) == EITP_OK);
    CHECK(eitp_plan_write(plan, t->weight, &weight, sizeof weight, &error) == EITP_OK);
}

#endif
