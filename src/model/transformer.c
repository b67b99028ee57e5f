#include "model/transformer.h"
#include "model/layers.h"
#include "model/transformer_config.h"
#include "tensor/graph.h"
#include "model/latent_state.h"

/* ---- The model object ---- */

eitp_status eitp_model_create(eitp_context *context, const eitp_transformer_config *config, eitp_model **model,
                              eitp_error *error) {
    if (!context || !config || !model)
        return eitp__fail_null(error, "eitp_model_create", "context, config and model");
    const eitp_host host = eitp_context_host(context);
    eitp_model *created;
    eitp_status status = eitp__transformer_config_check(config, error);
    *model = NULL;
    if (status)
        return status;
    created = (eitp_model *)eitp__allocate(&host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a model");
    created->context = context;
    created->host = host;
    created->config = *config;
    created->config.architecture = eitp__architecture_of(config);
    eitp__config_complete(&created->config);
    if (eitp_head_has_labels(config->head))
        status = eitp__labels_create(&host, NULL, config->labels, &created->labels, error);
    for (int64_t i = 0; i < eitp__parameter_count(config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(config, i);
        status = eitp__parameter_declare(context, &parameter, error);
    }
    if (status) {
        eitp_model_destroy(created);
        return status;
    }
    *model = created;
    return EITP_OK;
}

void eitp_model_destroy(eitp_model *model) {
    eitp_host host;
    if (!model)
        return;
    host = model->host;
    eitp__release_text(&host, model->source);
    eitp__release_text(&host, model->generation);
    eitp__release_text(&host, model->other_keys);
    eitp__labels_release(model->labels);
    if (model->latent)
        eitp_model_destroy(model->latent->encoder);
    eitp__release(&host, model->latent, sizeof *model->latent);
    eitp__release(&host, model, sizeof *model);
}

const char *eitp_model_label(const eitp_model *model, int64_t label) {
    return model && model->labels && label >= 0 && label < model->labels->count ? model->labels->names[label] : NULL;
}

EITP__PRIVATE int eitp__model_labels_are_numbers(const eitp_model *model) {
    return model && model->labels && eitp__labels_are_numbers(model->labels);
}

eitp_status eitp_model_set_labels(eitp_model *model, const char *const *names, int64_t count, eitp_error *error) {
    eitp__labels *labels = NULL;
    eitp_status status;
    if (!model || !names)
        return eitp__fail_null(error, "eitp_model_set_labels", "model and names");
    if (!model->labels || count != model->labels->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "got %lld label names, the model has %lld labels",
                          (long long)count, model->labels ? (long long)model->labels->count : 0LL);
    for (int64_t i = 0; i < count; i++) {
        if (!names[i])
            return eitp__fail_null(error, "eitp_model_set_labels", "each name");
    }
    status = eitp__labels_create(&model->host, names, count, &labels, error);
    if (status)
        return status;
    eitp__labels_release(model->labels);
    model->labels = labels;
    return EITP_OK;
}

eitp_status eitp_model_check_head(const eitp_model *model, eitp_error *error) {
    const char *names[] = {"language head", "classifier", "pooler", "classifier"}; /* eitp_head */
    if (!model)
        return eitp__fail_null(error, "eitp_model_check_head", "model");
    return model->lacks_head
               ? eitp__fail(error, EITP_ERROR_FORMAT,
                            "'%s': config.json has a %s, but the weights lack its parameters, so it is random; "
                            "train it first",
                            model->source, names[model->config.head])
               : EITP_OK;
}

eitp_transformer_config eitp_model_config(const eitp_model *model) {
    eitp_transformer_config none = EITP__ZERO;
    return model ? model->config : none;
}

EITP__PRIVATE void eitp__model_add_end(eitp_model *model, int32_t end) {
    if (model && end >= 0)
        eitp__token_ids_add(&model->config.end, end);
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
    return model ? eitp_transformer_config_positions(&model->config) : 0;
}

EITP__PRIVATE int eitp__model_has_dropout(const eitp_model *model) {
    return model &&
           ((model->latent && eitp__model_has_dropout(model->latent->encoder)) || model->config.embedding_dropout > 0 ||
            model->config.attention_dropout > 0 || model->config.residual_dropout > 0 || model->lora.dropout > 0 ||
            eitp__head_dropout(&model->config) > 0);
}

int64_t eitp_model_parameter_count(const eitp_model *model) {
    int64_t elements = model ? eitp__latent_elements(model) : 0;
    if (model && model->latent)
        elements += eitp_model_parameter_count(model->latent->encoder);
    for (int64_t i = 0; model && i < eitp__parameter_count(&model->config); i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        elements += eitp__parameter_elements(&parameter);
    }
    return elements;
}

eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error) {
    if (!model)
        return eitp__fail_null(error, "eitp_model_initialize", "model");
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        status = eitp__parameter_fill(model->context, &model->config, &parameter, seed, error);
    }
    if (!status && model->latent)
        status = eitp_model_initialize(model->latent->encoder, seed, error);
    return status ? status : eitp__model_initialize_latent(model, seed, error);
}

/* ---- The graph ---- */

EITP__PRIVATE int eitp__trains_tied_embedding(const eitp_model *model) {
    const eitp__parameter_row *row = eitp__row_find(&model->config, EITP__TOKEN_EMBEDDING, EITP__WEIGHT);
    eitp__parameter parameter = eitp__row_parameter(&model->config, row, NULL);
    int64_t index = eitp_variable_find(model->context, parameter.name);
    return eitp__is_tied(&model->config) && index >= 0 && eitp_variable_at(model->context, (size_t)index).trained;
}

/* Returns a weight outside blocks. */
static eitp_tensor *eitp__model_tensor(const eitp_model *model, eitp_graph *graph, eitp__model_slot slot) {
    return eitp__slot_tensor(graph, &model->config, NULL, slot, EITP__WEIGHT);
}

/* Returns scale * x + shift for whole numbers. Integer additions are not supported; F64 represents these numbers
   exactly. */
static eitp_tensor *eitp__affine_ids(eitp_tensor *ids, double scale, double shift) {
    return eitp_cast(eitp_affine(eitp_cast(ids, EITP_F64), scale, shift), EITP_I32);
}

/* Returns the rows of the position embedding. */
static eitp_tensor *eitp__model_position_rows(const eitp_model *model, eitp_graph *graph,
                                              const eitp_model_inputs *inputs) {
    const int64_t first = model->config.first_position;
    return eitp_embedding(eitp__model_tensor(model, graph, EITP__POSITION_EMBEDDING),
                          first ? eitp__affine_ids(inputs->positions, 1, (double)first) : inputs->positions);
}

/* Returns the embedding of each token's segment: segment 0 for all without inputs->segments. */
static eitp_tensor *eitp__model_segments(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs) {
    return eitp_embedding(eitp__model_tensor(model, graph, EITP__SEGMENT_EMBEDDING),
                          inputs->segments ? inputs->segments : eitp__affine_ids(inputs->positions, 0, 0));
}

/* Returns the sum of token, position and segment embeddings, and of inputs->added. */
static eitp_tensor *eitp__model_embedded(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs) {
    const int has_positions = eitp__row_find(&model->config, EITP__POSITION_EMBEDDING, EITP__WEIGHT) != NULL;
    eitp_tensor *positions = NULL, *table, *x;
    if (has_positions)
        positions = eitp__model_position_rows(model, graph, inputs);
    table = eitp__model_tensor(model, graph, EITP__TOKEN_EMBEDDING);
    x = inputs->unique ? eitp_embedding_unique(table, inputs->tokens, inputs->unique, inputs->inverse)
                       : eitp_embedding(table, inputs->tokens);
    if (eitp__architecture_of(&model->config)->scales_embedding)
        x = eitp_affine(x, sqrt((double)model->config.width), 0);
    x = has_positions ? eitp_add(x, positions) : x;
    x = inputs->added ? eitp_add(x, eitp_cast(inputs->added, x ? x->dtype : EITP_F32)) : x;
    return eitp__row_find(&model->config, EITP__SEGMENT_EMBEDDING, EITP__WEIGHT)
               ? eitp_add(x, eitp__model_segments(model, graph, inputs))
               : x;
}

void eitp_model_fill_positions(const eitp_model *model, const int32_t *tokens, int64_t count, int32_t *positions) {
    const int skips = model && tokens && eitp__architecture_of(&model->config)->pads_positions;
    int32_t next = 0;
    for (int64_t i = 0; i < count && positions; i++)
        positions[i] = skips && tokens[i] == model->config.first_position - 1 ? -1 : next++;
}

static eitp_tensor *eitp__model_block(const eitp_model *model, eitp_tensor *x, int64_t layer,
                                      const eitp_block_inputs *attention) {
    char block[EITP__BLOCK_NAME_SIZE];
    eitp__block_name(&model->config, layer, block, sizeof block);
    return eitp_block(x, &model->config, block, layer, attention);
}

EITP__PRIVATE eitp_tensor *eitp__model_hidden_with(const eitp_model *model, eitp_graph *graph,
                                                   const eitp_model_inputs *inputs,
                                                   const eitp_block_inputs *attention) {
    const eitp_transformer_config *config = &model->config;
    eitp_block_inputs placed = *attention;
    const eitp_component component = eitp__graph_set_component(graph, EITP_COMPONENT_EMBEDDING);
    eitp_tensor *x = eitp__model_embedded(model, graph, inputs);
    eitp__graph_set_component(graph, component);
    x = eitp__slot_norm(x, config, NULL, EITP__EMBEDDING_NORM);
    x = eitp__dropout_with(x, attention->key, config->embedding_dropout);
    eitp_block_inputs_set_positions(&placed, config, inputs->positions);
    eitp__graph_register(x, config, EITP_TAP_HIDDEN, 0);
    for (int64_t layer = 0; layer < config->layers; layer++) {
        x = eitp__model_block(model, x, layer, &placed);
        eitp__graph_register(x, config, EITP_TAP_HIDDEN, layer + 1);
    }
    x = eitp__slot_norm(x, config, NULL, EITP__FINAL_NORM);
    eitp__graph_register(x, config, EITP_TAP_FINAL, 0);
    return x;
}

EITP__PRIVATE eitp_tensor *eitp__model_blocks(const eitp_model *model, eitp_tensor *x, int64_t first, int64_t count,
                                              const eitp_block_inputs *inputs) {
    eitp_block_inputs attention;
    if (!model || !x || !inputs)
        return NULL;
    if (first < 0 || count < 0 || first > model->config.layers || count > model->config.layers - first) {
        eitp__graph_fail(eitp_tensor_graph(x), EITP_ERROR_ARGUMENT,
                         "the model has %lld blocks; %lld from block %lld on are out of range",
                         (long long)model->config.layers, (long long)count, (long long)first);
        return NULL;
    }
    attention = *inputs;
    attention.lora = &model->lora;
    for (int64_t layer = first; layer < first + count; layer++)
        x = eitp__model_block(model, x, layer, &attention);
    return x;
}

eitp_tensor *eitp_model_tap(const eitp_model *model, const eitp_graph *graph, eitp_tap tap, int64_t layer) {
    const int has_layer = tap == EITP_TAP_HIDDEN || tap == EITP_TAP_QKV || tap == EITP_TAP_QUERIES_KEYS;
    return model && graph ? eitp__graph_registered(graph, &model->config, (int)tap, has_layer ? layer : 0) : NULL;
}

eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t max_length, int with_key) {
    eitp_model_inputs inputs;
    int64_t rows = sequences * max_length, offsets = sequences + 1, key = 3;
    inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &rows);
    inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &rows);
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offsets);
    inputs.key = with_key ? eitp_input(graph, "random key", EITP_I64, 1, &key) : NULL;
    inputs.unique = inputs.inverse = inputs.segments = inputs.bounds = inputs.sample_key = inputs.added = NULL;
    return inputs;
}

eitp_tensor *eitp_model_hidden(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                               int64_t max_length) {
    eitp_block_inputs attention = eitp_block_inputs_default();
    if (!model || !graph || !inputs)
        return NULL;
    attention.offsets = inputs->offsets;
    attention.key = inputs->key;
    attention.max_length = max_length;
    attention.lora = &model->lora;
    return eitp__model_hidden_with(model, graph, inputs, &attention);
}
