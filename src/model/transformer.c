#include "model/transformer.h"
#include "model/lora.h"
#include "tensor/context.h"
#include "tensor/op_rules.h"

/* ---- Parameters ---- */

/* A dimension of a parameter, by name. */
typedef enum eitp__extent {
    EITP__NONE,
    EITP__VOCABULARY,
    EITP__POSITIONS,
    EITP__WIDTH,
    EITP__QKV,
    EITP__INNER
} eitp__extent;

typedef struct eitp__gpt2_row {
    const char *name;
    eitp__extent extents[2];
    eitp__fill_kind fill;
} eitp__gpt2_row;

#define EITP__PREFIX "transformer."

static const eitp__gpt2_row eitp__gpt2_first[] = {
    {"wte.weight", {EITP__VOCABULARY, EITP__WIDTH}, EITP__FILL_NORMAL},
    {"wpe.weight", {EITP__POSITIONS, EITP__WIDTH}, EITP__FILL_NORMAL},
};

/* Once for each layer, called "h.<layer>.<name>". */
static const eitp__gpt2_row eitp__gpt2_layer[] = {
    {"ln_1.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_1.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"attn.c_attn.weight", {EITP__WIDTH, EITP__QKV}, EITP__FILL_NORMAL},
    {"attn.c_attn.bias", {EITP__QKV, EITP__NONE}, EITP__FILL_ZERO},
    {"attn.c_proj.weight", {EITP__WIDTH, EITP__WIDTH}, EITP__FILL_RESIDUAL},
    {"attn.c_proj.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"ln_2.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_2.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"mlp.c_fc.weight", {EITP__WIDTH, EITP__INNER}, EITP__FILL_NORMAL},
    {"mlp.c_fc.bias", {EITP__INNER, EITP__NONE}, EITP__FILL_ZERO},
    {"mlp.c_proj.weight", {EITP__INNER, EITP__WIDTH}, EITP__FILL_RESIDUAL},
    {"mlp.c_proj.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
};

static const eitp__gpt2_row eitp__gpt2_last[] = {
    {"ln_f.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_f.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
};

/* Only where the head is not tied; its name has no prefix. */
static const eitp__gpt2_row eitp__gpt2_head = {"lm_head.weight", {EITP__VOCABULARY, EITP__WIDTH}, EITP__FILL_NORMAL};

static int64_t eitp__gpt2_extent(const eitp_transformer_config *config, eitp__extent extent) {
    switch (extent) {
    case EITP__VOCABULARY:
        return config->vocabulary;
    case EITP__POSITIONS:
        return config->positions;
    case EITP__WIDTH:
        return config->width;
    case EITP__QKV:
        return 3 * config->width;
    case EITP__INNER:
        return config->inner;
    case EITP__NONE:
    default:
        return 0;
    }
}

EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config) {
    return (int64_t)EITP__COUNT(eitp__gpt2_first) + config->layers * (int64_t)EITP__COUNT(eitp__gpt2_layer) +
           (int64_t)EITP__COUNT(eitp__gpt2_last) + !config->tied;
}

EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index) {
    const int64_t first = EITP__COUNT(eitp__gpt2_first), layer = EITP__COUNT(eitp__gpt2_layer);
    const int64_t last = EITP__COUNT(eitp__gpt2_last), layers_end = first + config->layers * layer;
    const eitp__gpt2_row *row;
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    if (index < first) {
        row = &eitp__gpt2_first[index];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "%s", row->name);
    } else if (index < layers_end) {
        row = &eitp__gpt2_layer[(index - first) % layer];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "h.%d.%s", (int)((index - first) / layer),
                 row->name);
    } else if (index < layers_end + last) {
        row = &eitp__gpt2_last[index - layers_end];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "%s", row->name);
    } else {
        row = &eitp__gpt2_head;
        snprintf(parameter.name, sizeof parameter.name, "%s", row->name);
    }
    parameter.fill = row->fill;
    for (int d = 0; d < 2 && row->extents[d] != EITP__NONE; d++)
        parameter.shape[parameter.rank++] = eitp__gpt2_extent(config, row->extents[d]);
    return parameter;
}

/* ---- The model object ---- */

/* Matrices are of the context's precision, and have a remainder where that is asked for; vectors are F32. */
static void eitp__declare_parameter(eitp_graph *graph, const eitp__parameter *parameter) {
    const eitp_context *context = graph->context;
    eitp_dtype dtype = parameter->rank > 1 ? context->precision : EITP_F32;
    char name[128];
    eitp_variable_tensor(graph, parameter->name, EITP_PARAMETER, dtype, parameter->rank, parameter->shape);
    if (dtype == EITP_F32 || context->parameters == EITP_PARAMETERS_ROUNDED)
        return;
    eitp__remainder_name(parameter->name, name, sizeof name);
    eitp_variable_tensor(graph, name, EITP_REMAINDER,
                         context->parameters == EITP_PARAMETERS_CORRECTED ? EITP_I8 : eitp__remainder_dtype(dtype),
                         parameter->rank, parameter->shape);
}

eitp_status eitp_model_create(eitp_context *context, const eitp_transformer_config *config, eitp_model **model,
                              eitp_error *error) {
    if (!context || !config || !model)
        return eitp__fail_null(error, "eitp_model_create", "context, config and model");
    const eitp_host host = eitp_context_host(context);
    eitp_graph *graph = NULL;
    eitp_model *made;
    eitp_status status = eitp__transformer_config_check(config, error);
    *model = NULL;
    if (status)
        return status;
    made = (eitp_model *)eitp__allocate(&host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a model");
    made->context = context;
    made->host = host;
    made->config = *config;
    status = eitp_graph_create(context, &graph, error);
    for (int64_t i = 0; i < eitp__parameter_count(config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(config, i);
        eitp__declare_parameter(graph, &parameter);
        status = eitp_graph_status(graph, error);
    }
    eitp_graph_destroy(graph);
    if (status) {
        eitp_model_destroy(made);
        return status;
    }
    *model = made;
    return EITP_OK;
}

void eitp_model_destroy(eitp_model *model) {
    eitp_host host;
    if (!model)
        return;
    host = model->host;
    eitp__release_text(&host, model->source);
    eitp__release_text(&host, model->generation);
    eitp__release(&host, model, sizeof *model);
}

eitp_transformer_config eitp_model_config(const eitp_model *model) {
    eitp_transformer_config none = EITP__ZERO;
    return model ? model->config : none;
}

void eitp_model_set_special_tokens(eitp_model *model, int32_t begin, int32_t end, int32_t padding) {
    if (model)
        eitp__config_set_special_tokens(&model->config, begin, end, padding);
}

eitp_status eitp_model_set_dropout(eitp_model *model, double embedding, double attention, double residual,
                                   eitp_error *error) {
    if (!model)
        return eitp__fail_null(error, "eitp_model_set_dropout", "model");
    eitp_transformer_config config = model->config;
    eitp_status status;
    config.embedding_dropout = embedding;
    config.attention_dropout = attention;
    config.residual_dropout = residual;
    status = eitp__transformer_config_check(&config, error);
    if (!status)
        model->config = config;
    return status;
}

eitp_context *eitp_model_context(const eitp_model *model) {
    return model ? model->context : NULL;
}

int64_t eitp_model_vocabulary(const eitp_model *model) {
    return model ? model->config.vocabulary : 0;
}

int64_t eitp_model_positions(const eitp_model *model) {
    return model ? model->config.positions : 0;
}

int eitp_model_has_dropout(const eitp_model *model) {
    return model && (model->config.embedding_dropout > 0 || model->config.attention_dropout > 0 ||
                     model->config.residual_dropout > 0 || model->lora.dropout > 0);
}

int64_t eitp_model_parameter_count(const eitp_model *model) {
    int64_t elements = 0;
    for (int64_t i = 0; model && i < eitp__parameter_count(&model->config); i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        elements += parameter.shape[0] * (parameter.rank > 1 ? parameter.shape[1] : 1);
    }
    return elements;
}

eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error) {
    if (!model)
        return eitp__fail_null(error, "eitp_model_initialize", "model");
    const eitp_transformer_config *config = &model->config;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(config, i);
        double deviation = config->initializer_range;
        if (parameter.fill == EITP__FILL_RESIDUAL)
            deviation /= sqrt(2.0 * (double)config->layers);
        if (parameter.fill == EITP__FILL_ONE || parameter.fill == EITP__FILL_ZERO)
            status = eitp_variable_fill(model->context, parameter.name, parameter.fill == EITP__FILL_ONE, error);
        else
            status = eitp_variable_fill_normal(model->context, parameter.name, 0, deviation, seed, error);
    }
    return status;
}

/* ---- The graph ---- */

EITP__PRIVATE eitp_tensor *eitp__parameter_named(const eitp_model *model, eitp_graph *graph, const char *name) {
    eitp_variable info = eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, name));
    if (!info.name) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "the model's variable '%s' is not in its context", name);
        return NULL;
    }
    return eitp_variable_tensor(graph, name, info.role, info.dtype, info.rank, info.shape);
}

/* The model's parameter "transformer.<name>" in a graph; `layer` below 0: outside the layers. */
static eitp_tensor *eitp__gpt2_tensor(const eitp_model *model, eitp_graph *graph, int64_t layer, const char *name) {
    char full[96];
    if (layer >= 0)
        snprintf(full, sizeof full, EITP__PREFIX "h.%d.%s", (int)layer, name);
    else
        snprintf(full, sizeof full, EITP__PREFIX "%s", name);
    return eitp__parameter_named(model, graph, full);
}

/* x through the weight and bias called <name>.weight and <name>.bias, and the adapter if there is one. */
static eitp_tensor *eitp__gpt2_linear(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name,
                                      const eitp__attending *attending, eitp_activation activation) {
    char weight[64], bias[64];
    eitp_graph *graph;
    eitp_tensor *adapted, *y;
    if (!x)
        return NULL;
    graph = eitp_tensor_graph(x);
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    adapted = eitp__lora_apply(model, x, layer, name, attending->key);
    y = eitp_linear(x, eitp__gpt2_tensor(model, graph, layer, weight), eitp__gpt2_tensor(model, graph, layer, bias),
                    EITP_NO_ACTIVATION);
    return eitp__activate(adapted ? eitp_add(y, adapted) : y, activation);
}

static eitp_tensor *eitp__gpt2_norm(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name) {
    char weight[64], bias[64];
    eitp_graph *graph;
    if (!x)
        return NULL;
    graph = eitp_tensor_graph(x);
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return eitp_layer_norm(x, eitp__gpt2_tensor(model, graph, layer, weight),
                           eitp__gpt2_tensor(model, graph, layer, bias), model->config.epsilon);
}

static eitp_tensor *eitp__gpt2_cache(const eitp_model *model, eitp_graph *graph, int64_t layer, const char *what,
                                     int64_t longest) {
    char name[64];
    int64_t shape[2];
    snprintf(name, sizeof name, "cache.%d.%s", (int)layer, what);
    shape[0] = longest;
    shape[1] = model->config.width;
    return eitp_variable_tensor(graph, name, EITP_CACHE, eitp_context_precision(model->context), 2, shape);
}

static eitp_tensor *eitp__gpt2_attention(const eitp_model *model, eitp_tensor *x, int64_t layer,
                                         const eitp__attending *attending) {
    const eitp_transformer_config *config = &model->config;
    eitp_tensor *qkv = eitp__gpt2_linear(model, x, layer, "attn.c_attn", attending, EITP_NO_ACTIVATION);
    double scale = config->scale_attention ? 1.0 / sqrt((double)config->width / (double)config->heads) : 1.0;
    eitp_attention_config attention = EITP__ZERO;
    eitp_graph *graph;
    if (!qkv)
        return NULL;
    graph = eitp_tensor_graph(qkv);
    if (config->scale_attention_by_layer)
        scale /= (double)(layer + 1);
    if (attending->position)
        return eitp_attention_cached(qkv, eitp__gpt2_cache(model, graph, layer, "keys", attending->longest),
                                     eitp__gpt2_cache(model, graph, layer, "values", attending->longest),
                                     attending->position, (int)config->heads, scale);
    attention.heads = (int)config->heads;
    attention.longest = attending->longest;
    attention.scale = scale;
    attention.dropout = attending->key ? config->attention_dropout : 0;
    return eitp_attention(qkv, attending->offsets, attending->key, NULL, &attention);
}

static eitp_tensor *eitp__gpt2_dropout(eitp_tensor *x, const eitp__attending *attending, double probability) {
    return attending->key ? eitp_dropout(x, attending->key, probability) : x;
}

static eitp_tensor *eitp__gpt2_block(const eitp_model *model, eitp_tensor *x, int64_t layer,
                                     const eitp__attending *attending) {
    const eitp_transformer_config *config = &model->config;
    eitp_tensor *attended, *hidden;
    attended = eitp__gpt2_attention(model, eitp__gpt2_norm(model, x, layer, "ln_1"), layer, attending);
    attended = eitp__gpt2_linear(model, attended, layer, "attn.c_proj", attending, EITP_NO_ACTIVATION);
    x = eitp_add(x, eitp__gpt2_dropout(attended, attending, config->residual_dropout));
    hidden = eitp__gpt2_linear(model, eitp__gpt2_norm(model, x, layer, "ln_2"), layer, "mlp.c_fc", attending,
                               config->activation);
    hidden = eitp__gpt2_linear(model, hidden, layer, "mlp.c_proj", attending, EITP_NO_ACTIVATION);
    return eitp_add(x, eitp__gpt2_dropout(hidden, attending, config->residual_dropout));
}

EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model) {
    int64_t index = eitp_variable_find(model->context, EITP__PREFIX "wte.weight");
    return model->config.tied && index >= 0 && eitp_variable_at(model->context, (size_t)index).trained;
}

static eitp_tensor *eitp__gpt2_embedded(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs) {
    eitp_tensor *table = eitp__gpt2_tensor(model, graph, -1, "wte.weight");
    return inputs->unique ? eitp_embedding_unique(table, inputs->tokens, inputs->unique, inputs->inverse)
                          : eitp_embedding(table, inputs->tokens);
}

EITP__PRIVATE eitp_tensor *eitp__gpt2_hidden(const eitp_model *model, eitp_graph *graph,
                                             const eitp_model_inputs *inputs, const eitp__attending *attending) {
    eitp_tensor *x = eitp_add(eitp__gpt2_embedded(model, graph, inputs),
                              eitp_embedding(eitp__gpt2_tensor(model, graph, -1, "wpe.weight"), inputs->positions));
    x = eitp__gpt2_dropout(x, attending, model->config.embedding_dropout);
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        x = eitp__gpt2_block(model, x, layer, attending);
    return eitp__gpt2_norm(model, x, -1, "ln_f");
}

/* The output head [vocabulary, width]. */
static eitp_tensor *eitp__gpt2_head_tensor(const eitp_model *model, eitp_graph *graph) {
    return model->config.tied ? eitp__gpt2_tensor(model, graph, -1, "wte.weight")
                              : eitp__parameter_named(model, graph, eitp__gpt2_head.name);
}

EITP__PRIVATE eitp_tensor *eitp__gpt2_logits(const eitp_model *model, eitp_tensor *hidden) {
    return hidden ? eitp_matmul_wide(hidden, eitp__gpt2_head_tensor(model, eitp_tensor_graph(hidden)), 0, 1) : NULL;
}

eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t longest, int with_key) {
    eitp_model_inputs inputs;
    int64_t rows = sequences * longest, offsets = sequences + 1, key = 3;
    inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &rows);
    inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &rows);
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offsets);
    inputs.key = with_key ? eitp_input(graph, "random key", EITP_I64, 1, &key) : NULL;
    inputs.unique = inputs.inverse = NULL;
    return inputs;
}

/* The hidden states of a packed batch. */
static eitp_tensor *eitp__model_hidden(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                       int64_t longest) {
    eitp__attending attending;
    attending.offsets = inputs->offsets;
    attending.key = inputs->key;
    attending.longest = longest;
    attending.position = NULL;
    return eitp__gpt2_hidden(model, graph, inputs, &attending);
}

eitp_tensor *eitp_model_forward(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                int64_t longest) {
    if (!model || !graph || !inputs)
        return NULL;
    return eitp__gpt2_logits(model, eitp__model_hidden(model, graph, inputs, longest));
}

eitp_tensor *eitp_model_losses(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                               int64_t longest, eitp_tensor *targets, int32_t ignored) {
    if (!model || !graph || !inputs)
        return NULL;
    return eitp_linear_cross_entropy(eitp__model_hidden(model, graph, inputs, longest),
                                     eitp__gpt2_head_tensor(model, graph), targets, ignored);
}
