/* A Transformer block: attention and MLP, with norms before or after them. */
#include "model/decoder_config.h"
#include "model/layers.h"
#include "model/transformer_config.h"
#include "tensor/context.h"
#include "tensor/graph.h"
#include "tensor/op_rules.h"

/* Returns the keys or values of a layer's cache, [max_length, key heads * head width]. */
static eitp_tensor *eitp__block_cache(eitp_graph *graph, const eitp_transformer_config *config, int64_t layer,
                                      const char *kind, const eitp_block_inputs *inputs) {
    const eitp_dtype dtype = graph->context->precision;
    char name[64];
    int64_t shape[2];
    snprintf(name, sizeof name, "cache.%d.%s", (int)layer, kind);
    shape[0] = inputs->max_length;
    shape[1] = eitp__key_value_heads(config) * eitp__head_width(config);
    return inputs->own_cache ? eitp_keep_input(eitp_input(graph, name, dtype, 2, shape))
                             : eitp_variable_tensor(graph, name, EITP_CACHE, dtype, 2, shape);
}

/* Returns the heads in columns [begin, end) of qkv, each normalized. */
static eitp_tensor *eitp__block_heads(eitp_tensor *qkv, const eitp_transformer_config *config, const char *name,
                                      eitp__model_slot norm, int64_t begin, int64_t end) {
    const int64_t width = eitp__head_width(config);
    eitp_tensor *heads = eitp_slice(qkv, 1, begin, end);
    int64_t shape[3], whole[2];
    if (!heads)
        return NULL;
    whole[0] = shape[0] = eitp_tensor_dimension(heads, 0);
    whole[1] = end - begin;
    shape[1] = (end - begin) / width;
    shape[2] = width;
    return eitp_reshape(eitp__slot_norm(eitp_reshape(heads, 3, shape), config, name, norm), 2, whole);
}

/* Sets q, k and v: concatenated in q, or separate tensors if heads of q and k are normalized. */
static void eitp__block_queries(eitp_tensor *qkv, const eitp_transformer_config *config, const char *name,
                                eitp_attention_inputs *operands) {
    const int64_t keys = eitp__extent_of(config, EITP__ATTENTION_WIDTH);
    const int64_t values = keys + eitp__key_value_heads(config) * eitp__head_width(config);
    operands->q = qkv;
    if (!eitp__row_find(config, EITP__QUERY_NORM, EITP__WEIGHT))
        return;
    operands->q = eitp__block_heads(qkv, config, name, EITP__QUERY_NORM, 0, keys);
    operands->k = eitp__block_heads(qkv, config, name, EITP__KEY_NORM, keys, values);
    operands->v = eitp_slice(qkv, 1, values, eitp_tensor_dimension(qkv, 1));
}

/* Registers a tap of the queries and keys that attention compares. */
static void eitp__tap_queries_keys(const eitp_attention_inputs *operands, const eitp_transformer_config *config,
                                   int64_t layer) {
    const int64_t queries = eitp__extent_of(config, EITP__ATTENTION_WIDTH);
    const int64_t both = queries + eitp__key_value_heads(config) * eitp__head_width(config);
    eitp_tensor *parts[2];
    eitp_tensor *x = operands->k ? NULL : eitp_slice(operands->q, 1, 0, both);
    parts[0] = operands->q;
    parts[1] = operands->k;
    x = operands->k ? eitp_concat(parts, 2, 1) : x;
    x = operands->rotation ? eitp__rotated(eitp_cast(x, eitp_tensor_dtype(operands->rotation)), operands->rotation) : x;
    eitp__graph_register(x, config, EITP_TAP_QUERIES_KEYS, layer);
}

/* Returns the attention of all heads, concatenated by columns. */
static eitp_tensor *eitp__block_attention(eitp_tensor *x, const eitp_transformer_config *config, const char *name,
                                          int64_t layer, const eitp_block_inputs *inputs) {
    eitp_tensor *qkv = eitp__slot_linear(x, config, name, layer, EITP__ATTENTION_INPUT, inputs, EITP_NO_ACTIVATION);
    eitp_graph *graph = eitp_tensor_graph(qkv);
    eitp_attention_config attention = eitp_attention_config_default();
    eitp_attention_inputs operands = eitp_attention_inputs_default();
    attention.heads = (int)config->heads;
    attention.max_length = inputs->max_length;
    attention.scale = eitp__attention_scale(config, layer);
    attention.dropout = inputs->key ? config->attention_dropout : 0;
    attention.key_value_heads = (int)eitp__key_value_heads(config);
    attention.bidirectional = config->bidirectional != 0;
    attention.sliding_window = eitp__layer_sliding_window(config, layer);
    if (!qkv)
        return NULL;
    eitp__graph_register(qkv, config, EITP_TAP_QKV, layer);
    eitp__block_queries(qkv, config, name, &operands);
    operands.rotation = attention.sliding_window ? inputs->local_rotation : inputs->rotation;
    eitp__tap_queries_keys(&operands, config, layer);
    if (inputs->position) {
        eitp_tensor *keys = eitp__block_cache(graph, config, layer, "keys", inputs);
        eitp_tensor *values = eitp__block_cache(graph, config, layer, "values", inputs);
        return eitp_attention_cached(&operands, keys, values, inputs->position, &attention);
    }
    operands.offsets = inputs->offsets;
    operands.lengths = inputs->lengths;
    operands.key = inputs->key;
    return eitp_attention(&operands, &attention);
}

/* Returns the MLP's output. Its hidden layer is activation(x W), or activation(x V) * x W with a gate V. */
static eitp_tensor *eitp__block_mlp(eitp_tensor *x, const eitp_transformer_config *config, const char *name,
                                    int64_t layer, const eitp_block_inputs *inputs) {
    const int is_gated = eitp__row_find(config, EITP__MLP_GATE, EITP__WEIGHT) != NULL;
    const eitp_activation activation = is_gated ? EITP_NO_ACTIVATION : config->activation;
    eitp_tensor *gate = NULL, *hidden;
    if (is_gated)
        gate = eitp__slot_linear(x, config, name, layer, EITP__MLP_GATE, inputs, config->activation);
    hidden = eitp__slot_linear(x, config, name, layer, EITP__MLP_INPUT, inputs, activation);
    hidden = is_gated ? eitp_multiply(gate, hidden) : hidden;
    return eitp__slot_linear(hidden, config, name, layer, EITP__MLP_OUTPUT, inputs, EITP_NO_ACTIVATION);
}

/* Returns the residual sum x + added, normalized if the norms come after. */
static eitp_tensor *eitp__block_residual(eitp_tensor *x, eitp_tensor *added, const eitp_transformer_config *config,
                                         const char *name, eitp__model_slot norm, const eitp_block_inputs *inputs) {
    x = eitp_add(x, eitp__dropout_with(added, inputs->key, config->residual_dropout));
    return config->post_norm ? eitp__slot_norm(x, config, name, norm) : x;
}

/* Checks the arguments that the ops of a block do not check. */
static eitp_status eitp__block_check(const eitp_transformer_config *config, const char *name, int64_t layer,
                                     const eitp_block_inputs *inputs, eitp_error *error) {
    const size_t max_length = 64;
    eitp_status status = EITP_OK;
    if (!*name || strlen(name) > max_length)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block name '%.80s' has %zu characters, expected 1 to %zu", name,
                          strlen(name), max_length);
    if (inputs && inputs->position && (config->bidirectional || inputs->lengths))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a block with a cache needs causal attention and sequences without padding");
    if (layer < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block layer must be 0 or more (got %lld)", (long long)layer);
    if (inputs && inputs->lora && inputs->lora->rank)
        status = eitp__lora_config_check(inputs->lora, error);
    return status ? status : eitp__transformer_config_check(config, error);
}

eitp_block_inputs eitp_block_inputs_default(void) {
    eitp_block_inputs inputs = EITP__ZERO;
    return inputs;
}

void eitp_block_inputs_set_positions(eitp_block_inputs *inputs, const eitp_transformer_config *config,
                                     eitp_tensor *positions) {
    eitp_rotary_config rotary;
    if (!inputs || !config || !positions || !(config->rotary.theta > 0))
        return;
    rotary = eitp__config_rotary(config, 0);
    inputs->rotation = inputs->local_rotation = eitp_rotary(positions, &rotary);
    if (!(config->local_rotary_theta > 0))
        return;
    rotary = eitp__config_rotary(config, 1);
    inputs->local_rotation = eitp_rotary(positions, &rotary);
}

eitp_tensor *eitp_block(eitp_tensor *x, const eitp_transformer_config *config, const char *name, int64_t layer,
                        const eitp_block_inputs *inputs) {
    eitp_error error;
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *attended, *hidden;
    eitp_component component;
    if (!x || !config || !name || !inputs)
        return NULL;
    if (eitp__block_check(config, name, layer, inputs, &error)) {
        eitp__graph_fail(graph, error.status, "%s", error.message);
        return NULL;
    }
    attended = config->post_norm ? x : eitp__slot_norm(x, config, name, EITP__ATTENTION_NORM);
    component = eitp__graph_set_component(graph, EITP_COMPONENT_PROJECTIONS);
    attended = eitp__block_attention(attended, config, name, layer, inputs);
    attended = eitp__slot_linear(attended, config, name, layer, EITP__ATTENTION_OUTPUT, inputs, EITP_NO_ACTIVATION);
    eitp__graph_set_component(graph, component);
    attended = eitp__slot_norm(attended, config, name, EITP__ATTENTION_OUTPUT_NORM);
    x = eitp__block_residual(x, attended, config, name, EITP__ATTENTION_NORM, inputs);
    hidden = config->post_norm ? x : eitp__slot_norm(x, config, name, EITP__MLP_NORM);
    eitp__graph_set_component(graph, EITP_COMPONENT_MLP);
    hidden = eitp__block_mlp(hidden, config, name, layer, inputs);
    eitp__graph_set_component(graph, component);
    hidden = eitp__slot_norm(hidden, config, name, EITP__MLP_OUTPUT_NORM);
    return eitp__block_residual(x, hidden, config, name, EITP__MLP_NORM, inputs);
}

eitp_status eitp_block_initialize(eitp_context *context, const eitp_transformer_config *config, const char *name,
                                  uint64_t seed, eitp_error *error) {
    const eitp_architecture *architecture;
    eitp_status status;
    if (!context || !config || !name)
        return eitp__fail_null(error, "eitp_block_initialize", "context, config and name");
    architecture = eitp__architecture_of(config);
    status = eitp__block_check(config, name, 0, NULL, error);
    for (size_t i = 0; i < architecture->row_count && !status; i++) {
        eitp__parameter parameter;
        if (architecture->rows[i].place != EITP__IN_BLOCK)
            continue;
        parameter = eitp__row_parameter(config, &architecture->rows[i], name);
        status = eitp__parameter_declare(context, &parameter, error);
        if (!status)
            status = eitp__parameter_fill(context, config, &parameter, seed, error);
    }
    return status;
}
