/* A Transformer block: attention and MLP, with norms before or after them. */
#include "model/layers.h"
#include "model/transformer_config.h"
#include "tensor/context.h"
#include "tensor/graph.h"

/* The keys or values of a layer's cache, [max_length, width]. */
static eitp_tensor *eitp__block_cache(eitp_graph *graph, const eitp_transformer_config *config, int64_t layer,
                                      const char *kind, const eitp_block_inputs *inputs) {
    const eitp_dtype dtype = graph->context->precision;
    char name[64];
    int64_t shape[2];
    snprintf(name, sizeof name, "cache.%d.%s", (int)layer, kind);
    shape[0] = inputs->max_length;
    shape[1] = config->width;
    return inputs->own_cache ? eitp_keep_input(eitp_input(graph, name, dtype, 2, shape))
                             : eitp_variable_tensor(graph, name, EITP_CACHE, dtype, 2, shape);
}

/* The attention of all heads, side by side. */
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
    attention.bidirectional = config->bidirectional != 0;
    if (!qkv)
        return NULL;
    eitp__graph_tap(qkv, config, EITP_TAP_QKV, layer);
    if (inputs->position) {
        eitp_tensor *keys = eitp__block_cache(graph, config, layer, "keys", inputs);
        eitp_tensor *values = eitp__block_cache(graph, config, layer, "values", inputs);
        return eitp_attention_cached(qkv, keys, values, inputs->position, attention.heads, attention.scale);
    }
    operands.q = qkv;
    operands.offsets = inputs->offsets;
    operands.lengths = inputs->lengths;
    operands.key = inputs->key;
    return eitp_attention(&operands, &attention);
}

/* The residual sum x + added, normalized if norms come after. */
static eitp_tensor *eitp__block_residual(eitp_tensor *x, eitp_tensor *added, const eitp_transformer_config *config,
                                         const char *name, eitp__model_slot norm, const eitp_block_inputs *inputs) {
    x = eitp_add(x, eitp__dropout_with(added, inputs->key, config->residual_dropout));
    return config->post_norm ? eitp__slot_norm(x, config, name, norm) : x;
}

/* Checks what the ops of a block do not check. */
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
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block layer is %lld; it must be 0 or more", (long long)layer);
    if (inputs && inputs->lora && inputs->lora->rank)
        status = eitp__lora_config_check(inputs->lora, error);
    return status ? status : eitp__transformer_config_check(config, error);
}

eitp_block_inputs eitp_block_inputs_default(void) {
    eitp_block_inputs inputs = EITP__ZERO;
    return inputs;
}

eitp_tensor *eitp_block(eitp_tensor *x, const eitp_transformer_config *config, const char *name, int64_t layer,
                        const eitp_block_inputs *inputs) {
    eitp_error error;
    eitp_tensor *attended, *hidden;
    if (!x || !config || !name || !inputs)
        return NULL;
    if (eitp__block_check(config, name, layer, inputs, &error)) {
        eitp__graph_fail(eitp_tensor_graph(x), error.status, "%s", error.message);
        return NULL;
    }
    attended = config->post_norm ? x : eitp__slot_norm(x, config, name, EITP__ATTENTION_NORM);
    attended = eitp__block_attention(attended, config, name, layer, inputs);
    attended = eitp__slot_linear(attended, config, name, layer, EITP__ATTENTION_OUTPUT, inputs, EITP_NO_ACTIVATION);
    x = eitp__block_residual(x, attended, config, name, EITP__ATTENTION_NORM, inputs);
    hidden = config->post_norm ? x : eitp__slot_norm(x, config, name, EITP__MLP_NORM);
    hidden = eitp__slot_linear(hidden, config, name, layer, EITP__MLP_INPUT, inputs, config->activation);
    hidden = eitp__slot_linear(hidden, config, name, layer, EITP__MLP_OUTPUT, inputs, EITP_NO_ACTIVATION);
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
