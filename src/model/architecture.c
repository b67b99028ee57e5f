#include "model/architecture.h"

static const eitp_architecture *(*const eitp__architectures[])(void) = {
    eitp__architecture_gpt2, /* the first is the default */
    eitp__architecture_bert,  eitp__architecture_roberta, eitp__architecture_distilbert, eitp__architecture_llama,
    eitp__architecture_qwen2, eitp__architecture_qwen3,   eitp__architecture_gemma3,     eitp__architecture_mistral,
};

EITP__PRIVATE const eitp_architecture *eitp__architecture_at(size_t index) {
    return index < EITP__COUNT(eitp__architectures) ? eitp__architectures[index]() : NULL;
}

EITP__PRIVATE const eitp_architecture *eitp__architecture_of(const eitp_transformer_config *config) {
    return config->architecture ? config->architecture : eitp__architecture_at(0);
}

const eitp_architecture *eitp_architecture_find(const char *model_type) {
    const eitp_architecture *architecture = NULL;
    for (size_t i = 0; model_type && (architecture = eitp__architecture_at(i)); i++) {
        if (!strcmp(architecture->model_type, model_type))
            break;
    }
    return architecture;
}

const char *eitp_architecture_name(const eitp_architecture *architecture) {
    return (architecture ? architecture : eitp__architecture_at(0))->model_type;
}

EITP__PRIVATE eitp_transformer_config eitp__architecture_defaults(const eitp_architecture *architecture) {
    eitp_transformer_config config = *architecture->defaults;
    config.architecture = architecture;
    return config;
}

int eitp_head_has_labels(eitp_head head) {
    return head == EITP_HEAD_CLASSIFIER || head == EITP_HEAD_TOKEN_CLASSIFIER;
}

EITP__PRIVATE double eitp__head_dropout(const eitp_transformer_config *config) {
    if (!eitp_head_has_labels(config->head))
        return 0;
    return config->head == EITP_HEAD_TOKEN_CLASSIFIER && eitp__architecture_of(config)->classifier.tokens_drop_as_blocks
               ? config->residual_dropout
               : config->classifier_dropout;
}

EITP__PRIVATE int eitp__is_tied(const eitp_transformer_config *config) {
    return config->head == EITP_HEAD_LANGUAGE && config->tied;
}

EITP__PRIVATE const eitp__config_key *eitp__config_key_find(const eitp_architecture *architecture, const char *name,
                                                            size_t size) {
    for (size_t i = 0; i < architecture->key_count; i++) {
        if (strlen(architecture->keys[i].name) == size && !memcmp(architecture->keys[i].name, name, size))
            return &architecture->keys[i];
    }
    return NULL;
}

/* True if the switch that a row depends on is on. */
static int eitp__row_is_on(const eitp_transformer_config *config, const eitp__parameter_row *row) {
    switch (row->depends) {
    case EITP__IF_ATTENTION_BIAS:
        return config->attention_bias != 0;
    case EITP__IF_MLP_BIAS:
        return config->mlp_bias != 0;
    case EITP__NO_SWITCH:
    default:
        return 1;
    }
}

EITP__PRIVATE int eitp__has_row(const eitp_transformer_config *config, const eitp__parameter_row *row) {
    const unsigned with[] = {config->tied ? EITP__WITH_TIED_HEAD : EITP__WITH_OWN_HEAD, EITP__WITH_CLASSIFIER,
                             config->pooler ? EITP__WITH_POOLER : EITP__WITH_NOTHING,
                             EITP__WITH_TOKEN_CLASSIFIER}; /* eitp_head */
    return (row->with & with[config->head]) != 0 && eitp__row_is_on(config, row);
}

EITP__PRIVATE const eitp__parameter_row *eitp__row_find(const eitp_transformer_config *config, eitp__model_slot slot,
                                                        eitp__part part) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    const eitp__parameter_row *found = NULL;
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if (row->slot == slot && row->part == part && eitp__row_is_on(config, row) &&
            (!found || eitp__has_row(config, row)))
            found = row;
    }
    return found;
}

EITP__PRIVATE int eitp__has_slot(const eitp_transformer_config *config, eitp__model_slot slot, eitp__part part) {
    const eitp__parameter_row *row = eitp__row_find(config, slot, part);
    return row && eitp__has_row(config, row);
}

EITP__PRIVATE int64_t eitp__key_value_heads(const eitp_transformer_config *config) {
    return config->key_value_heads ? config->key_value_heads : config->heads;
}

EITP__PRIVATE int64_t eitp__head_width(const eitp_transformer_config *config) {
    return config->head_width || !config->heads ? config->head_width : config->width / config->heads;
}

EITP__PRIVATE int eitp__lists_sliding(const eitp_transformer_config *config) {
    uint64_t any = 0;
    for (int i = 0; i < EITP_MAX_SLIDING_LAYERS / 64; i++)
        any |= config->sliding_layers[i];
    return any != 0;
}

EITP__PRIVATE int64_t eitp__layer_sliding_window(const eitp_transformer_config *config, int64_t layer) {
    int is_full =
        layer < config->sliding_first || (config->sliding_period && (layer + 1) % config->sliding_period == 0);
    if (eitp__lists_sliding(config))
        is_full = layer >= EITP_MAX_SLIDING_LAYERS || !(config->sliding_layers[layer / 64] >> (layer % 64) & 1);
    return is_full ? 0 : config->sliding_window;
}

EITP__PRIVATE int64_t eitp__extent_of(const eitp_transformer_config *config, eitp__extent extent) {
    switch (extent) {
    case EITP__VOCABULARY:
        return config->vocabulary;
    case EITP__POSITIONS:
        return config->first_position + config->positions;
    case EITP__SEGMENTS:
        return config->segments;
    case EITP__WIDTH:
        return config->width;
    case EITP__QKV:
        return (config->heads + 2 * eitp__key_value_heads(config)) * eitp__head_width(config);
    case EITP__ATTENTION_WIDTH:
        return config->heads * eitp__head_width(config);
    case EITP__HEAD_WIDTH:
        return eitp__head_width(config);
    case EITP__INNER:
        return config->inner ? config->inner : 4 * config->width;
    case EITP__LABELS:
        return config->labels;
    case EITP__NONE:
    default:
        return 0;
    }
}

/* Returns the prefix of parameter names. As in transformers, a model without a head has none. */
static const char *eitp__prefix_of(const eitp_transformer_config *config) {
    return config->head == EITP_HEAD_NONE ? "" : eitp__architecture_of(config)->prefix;
}

EITP__PRIVATE void eitp__block_name(const eitp_transformer_config *config, int64_t layer, char *name, size_t size) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    snprintf(name, size, "%s%s%d", eitp__prefix_of(config), architecture->block_prefix, (int)layer);
}

EITP__PRIVATE eitp__parameter eitp__row_parameter(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                                  const char *block) {
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    parameter.row = row;
    parameter.layer = -1;
    parameter.fill = row->fill;
    if (row->place == EITP__IN_BLOCK)
        snprintf(parameter.name, sizeof parameter.name, "%s.%s", block, row->name);
    else
        snprintf(parameter.name, sizeof parameter.name, "%s%s",
                 row->place == EITP__IN_HEAD ? "" : eitp__prefix_of(config), row->name);
    for (int d = 0; d < 2 && row->extents[d] != EITP__NONE; d++)
        parameter.shape[parameter.rank++] = eitp__extent_of(config, row->extents[d]);
    parameter.is_f32 = parameter.rank < 2;
    return parameter;
}

/* Returns the number of times that a model has the rows of a place. */
static int64_t eitp__place_repeats(const eitp_transformer_config *config, eitp__parameter_scope place) {
    return place == EITP__IN_BLOCK ? config->layers : 1;
}

/* Returns the number of rows of a place in a model. If `row` is not NULL, sets *row to the nth of them. */
static int64_t eitp__rows_of_place(const eitp_transformer_config *config, eitp__parameter_scope place, int64_t nth,
                                   const eitp__parameter_row **row) {
    const eitp_architecture *architecture = eitp__architecture_of(config);
    int64_t count = 0;
    for (size_t i = 0; i < architecture->row_count; i++) {
        if (architecture->rows[i].place != place || !eitp__has_row(config, &architecture->rows[i]))
            continue;
        if (row && count == nth)
            *row = &architecture->rows[i];
        count++;
    }
    return count;
}

EITP__PRIVATE int64_t eitp__parameter_count(const eitp_transformer_config *config) {
    int64_t count = 0;
    for (int i = EITP__BEFORE_BLOCKS; i < EITP__PLACES; i++) {
        const eitp__parameter_scope place = (eitp__parameter_scope)i;
        count += eitp__rows_of_place(config, place, 0, NULL) * eitp__place_repeats(config, place);
    }
    return count;
}

EITP__PRIVATE eitp__parameter eitp__parameter_at(const eitp_transformer_config *config, int64_t index) {
    eitp__parameter parameter;
    char block[EITP__BLOCK_NAME_SIZE];
    memset(&parameter, 0, sizeof parameter);
    for (int i = EITP__BEFORE_BLOCKS; i < EITP__PLACES; i++) {
        const eitp__parameter_scope place = (eitp__parameter_scope)i;
        const eitp__parameter_row *row = NULL;
        int64_t rows = eitp__rows_of_place(config, place, 0, NULL);
        int64_t count = rows * eitp__place_repeats(config, place);
        if (index >= count) {
            index -= count;
            continue;
        }
        eitp__rows_of_place(config, place, index % rows, &row);
        eitp__block_name(config, index / rows, block, sizeof block);
        parameter = eitp__row_parameter(config, row, block);
        parameter.layer = place == EITP__IN_BLOCK ? index / rows : -1;
        break;
    }
    return parameter;
}

EITP__PRIVATE int eitp__parameter_find(const eitp_transformer_config *config, const char *name,
                                       eitp__parameter *parameter) {
    for (int64_t i = 0; i < eitp__parameter_count(config); i++) {
        *parameter = eitp__parameter_at(config, i);
        if (!strcmp(parameter->name, name))
            return 1;
    }
    return 0;
}

EITP__PRIVATE int64_t eitp__parameter_elements(const eitp__parameter *parameter) {
    return parameter->shape[0] * (parameter->rank > 1 ? parameter->shape[1] : 1);
}

EITP__PRIVATE const char *eitp__without_prefix(const eitp_transformer_config *config, const char *name) {
    const char *prefix = eitp__architecture_of(config)->prefix;
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) ? name : name + length;
}

EITP__PRIVATE int64_t eitp__piece_columns(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                          int piece) {
    const eitp__extent extent = row->extents[row->extents[1] == EITP__NONE ? 0 : 1];
    int count = 0;
    while (count < EITP__PIECES && row->pieces[count])
        count++;
    if (extent == EITP__QKV && count == 3)
        return (piece ? eitp__key_value_heads(config) : config->heads) * eitp__head_width(config);
    return eitp__extent_of(config, extent) / (count ? count : 1);
}

EITP__PRIVATE int64_t eitp__piece_start(const eitp_transformer_config *config, const eitp__parameter_row *row,
                                        int piece) {
    int64_t start = 0;
    for (int i = 0; i < piece; i++)
        start += eitp__piece_columns(config, row, i);
    return start;
}

EITP__PRIVATE int eitp__parameter_pieces(const eitp__parameter *parameter) {
    int count = 0;
    while (count < EITP__PIECES && parameter->row->pieces[count])
        count++;
    return count ? count : 1;
}

EITP__PRIVATE void eitp__parameter_piece_name(const eitp__parameter *parameter, int piece, char *name, size_t size) {
    const char *own = parameter->row->name, *other = parameter->row->pieces[piece];
    snprintf(name, size, "%.*s%s", (int)(strlen(parameter->name) - strlen(own)), parameter->name, other ? other : own);
}
