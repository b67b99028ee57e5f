#include "base/setting_table.h"
#include "model/lora.h"

/* Maximum rank and alpha: far beyond practical use, and small enough that no product of them overflows. */
#define EITP__LORA_MAX_RANK (1 << 16)
#define EITP__LORA_MAX_ALPHA 1e9

/* Whole linear layers of blocks, then the pieces of each, then the layers outside blocks. */
#define EITP__LORA_ALL_TARGETS ((1u << EITP__LINEAR_SLOTS * (1 + EITP__PIECES)) - 1 + EITP__LORA_OUTSIDE)

/* ---- Configurations ---- */

#define EITP__LORA_SETTING(member, kind, value, min, max, flags, help)                                                 \
    EITP__SETTING(eitp_lora_config, , member, "lora_" #member, kind, value, min, max, flags, REFUSED, NULL, help)

static const eitp_setting eitp__lora_settings[] = {
    EITP__LORA_SETTING(rank, INTEGER, 8, 0, EITP__LORA_MAX_RANK, 0, "rank of the adapters; 0: no adapters"),
    EITP__LORA_SETTING(alpha, NUMBER, 8, 0, EITP__LORA_MAX_ALPHA, EITP_SETTING_ABOVE,
                       "scale the adapters' output by alpha / rank"),
    EITP__LORA_SETTING(rslora, FLAG, 0, 0, 1, 0, "scale the adapters' output by alpha / sqrt(rank)"),
    EITP__LORA_SETTING(dropout, NUMBER, 0, 0, 0.999, 0, "dropout on the adapters' input"),
};

EITP__PRIVATE const eitp_setting *eitp__lora_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__lora_settings);
    return eitp__lora_settings;
}

eitp_lora_config eitp_lora_config_default(void) {
    eitp_lora_config config = EITP__ZERO;
    eitp__settings_reset(eitp__lora_settings, EITP__COUNT(eitp__lora_settings), &config);
    config.targets = EITP_LORA_ATTENTION_INPUT;
    return config;
}

EITP__PRIVATE eitp_status eitp__lora_config_check(const eitp_lora_config *config, eitp_error *error) {
    if (config->rank < 1 || config->rank > EITP__LORA_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "adapter rank is %lld; it must be 1 to %d",
                          (long long)config->rank, EITP__LORA_MAX_RANK);
    if (!(config->alpha > 0 && config->alpha <= EITP__LORA_MAX_ALPHA))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "adapter alpha is %g; it must be above 0 and at most %g",
                          config->alpha, EITP__LORA_MAX_ALPHA);
    if (!(config->dropout >= 0 && config->dropout <= 0.999))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "adapter dropout is %g; it must be 0 to 0.999", config->dropout);
    if (!eitp__lora_all_targets(config) || (config->targets & ~EITP__LORA_ALL_TARGETS))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "adapter targets are %u; they must be a sum of eitp_lora_target",
                          config->targets);
    if (config->saved & ~(unsigned)EITP__LORA_SAVED_ALL)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "modules to save are %u; they must be a sum of eitp_lora_saved",
                          config->saved);
    return EITP_OK;
}

EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b) {
    return a->rank == b->rank &&
           (!a->rank ||
            (a->alpha >= b->alpha && a->alpha <= b->alpha && a->dropout >= b->dropout && a->dropout <= b->dropout &&
             eitp__lora_targets_equal(a, b) && !a->rslora == !b->rslora && a->saved == b->saved));
}

EITP__PRIVATE double eitp__lora_scale(const eitp_lora_config *config) {
    return config->alpha / (config->rslora ? sqrt((double)config->rank) : (double)config->rank);
}

/* ---- Parameters ---- */

/* Returns the parameter A [rank, in] or B [out, rank] of a layer's adapter. */
static eitp__parameter eitp__lora_layer_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const eitp__lora_layer *layer, const char *block, int is_b) {
    const eitp__parameter weight = eitp__row_parameter(model, layer->row, block);
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    snprintf(parameter.name, sizeof parameter.name, "%.*s%.*s.lora_%c.weight",
             (int)(strlen(weight.name) - strlen(layer->row->name)), weight.name, (int)layer->length, layer->name,
             is_b ? 'B' : 'A');
    parameter.layer = -1;
    parameter.rank = 2;
    parameter.shape[!is_b] =
        is_b ? eitp__piece_columns(model, layer->row, layer->piece) : eitp__extent_of(model, layer->row->extents[0]);
    parameter.shape[is_b] = config->rank;
    parameter.is_f32 = 1;
    return parameter;
}

/* Finds adapted layer `index` of a block, or outside blocks (-1). Returns 0 past the end. */
static int eitp__lora_adapted(const eitp_transformer_config *model, const eitp_lora_config *config, int64_t block,
                              int64_t index, eitp__lora_layer *layer) {
    const unsigned targets = config->rank ? eitp__lora_block_targets(config, block) : 0;
    for (int64_t i = 0; targets && eitp__lora_layer_at(eitp__architecture_of(model), i, layer); i++) {
        if ((layer->row->place == EITP__IN_BLOCK) == (block >= 0) && eitp__lora_has(targets, layer) &&
            eitp__has_row(model, layer->row) && index-- == 0)
            return 1;
    }
    return 0;
}

/* Returns the number of adapted layers of a block, or outside blocks. */
static int64_t eitp__lora_layer_count(const eitp_transformer_config *model, const eitp_lora_config *config,
                                      int64_t block) {
    eitp__lora_layer layer;
    int64_t count = 0;
    while (eitp__lora_adapted(model, config, block, count, &layer))
        count++;
    return count;
}

EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    int64_t count = eitp__lora_layer_count(model, config, -1);
    for (int64_t block = 0; block < model->layers; block++)
        count += eitp__lora_layer_count(model, config, block);
    return 2 * count;
}

/* Finds the layer of parameter `index`. Returns the number of its block, or -1 outside blocks, which come last. */
static int64_t eitp__lora_find(const eitp_transformer_config *model, const eitp_lora_config *config, int64_t index,
                               eitp__lora_layer *layer) {
    int64_t block = 0, first = 0, count; /* adapted layers before this block, and in it */
    while (block < model->layers && index / 2 >= first + (count = eitp__lora_layer_count(model, config, block))) {
        first += count;
        block++;
    }
    block = block < model->layers ? block : -1;
    eitp__lora_adapted(model, config, block, index / 2 - first, layer);
    return block;
}

EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index) {
    eitp__lora_layer layer;
    eitp__parameter parameter;
    char block[EITP__BLOCK_NAME_SIZE];
    const int64_t number = eitp__lora_find(model, config, index, &layer);
    eitp__block_name(model, number, block, sizeof block);
    parameter = eitp__lora_layer_parameter(model, config, &layer, block, (int)(index % 2));
    parameter.layer = number;
    return parameter;
}

EITP__PRIVATE eitp__parameter eitp__lora_weight(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                int64_t index, int64_t *column) {
    eitp__lora_layer layer;
    eitp__parameter weight;
    char block[EITP__BLOCK_NAME_SIZE];
    eitp__block_name(model, eitp__lora_find(model, config, index, &layer), block, sizeof block);
    weight = eitp__row_parameter(model, layer.row, block);
    *column = eitp__piece_start(model, layer.row, layer.piece);
    return weight;
}

EITP__PRIVATE int eitp__lora_is_adapter(const char *name) {
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    size_t length = strlen(name), end = strlen(ends[0]);
    return length > end && (!strcmp(name + length - end, ends[0]) || !strcmp(name + length - end, ends[1]));
}

/* ---- The graph ---- */

/* Returns the adapter's output for x. */
static eitp_tensor *eitp__lora_apply_layer(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                           const eitp__lora_layer *layer, const eitp_lora_config *config,
                                           eitp_tensor *key) {
    const eitp__parameter a = eitp__lora_layer_parameter(model, config, layer, block, 0);
    const eitp__parameter b = eitp__lora_layer_parameter(model, config, layer, block, 1);
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_dtype dtype = eitp_tensor_dtype(x);
    /* A and B are F32; products have the dtype of x. */
    eitp_tensor *low = eitp_cast(eitp__parameter_tensor(graph, &a), dtype);
    low = eitp_matmul_wide(key ? eitp_dropout(x, key, config->dropout) : x, low, 0, 1);
    /* Scale before rounding, so that the value is rounded only once. */
    low = eitp_cast(eitp_affine(low, eitp__lora_scale(config), 0), dtype);
    return eitp_matmul_transposed(low, eitp_cast(eitp__parameter_tensor(graph, &b), dtype), 0, 1);
}

/* Returns the product of an adapter's matrices, [in, out]. */
static eitp_tensor *eitp__lora_product_layer(eitp_graph *graph, const eitp_transformer_config *model, const char *block,
                                             const eitp__lora_layer *layer, const eitp_lora_config *config) {
    const eitp__parameter a = eitp__lora_layer_parameter(model, config, layer, block, 0);
    const eitp__parameter b = eitp__lora_layer_parameter(model, config, layer, block, 1);
    eitp_tensor *product =
        eitp_matmul_transposed(eitp__parameter_tensor(graph, &a), eitp__parameter_tensor(graph, &b), 1, 1);
    return eitp_affine(product, eitp__lora_scale(config), 0);
}

/* Returns the outputs for x of the adapters of a layer's pieces, concatenated by columns. Without x, returns their
   products. */
static eitp_tensor *eitp__lora_join(eitp_graph *graph, eitp_tensor *x, const eitp_transformer_config *model,
                                    const char *block, int64_t number, eitp__model_slot slot,
                                    const eitp_lora_config *config, eitp_tensor *key) {
    const unsigned targets = config && config->rank ? eitp__lora_block_targets(config, number) : 0;
    const eitp__parameter_row *row = eitp__row_find(model, slot, EITP__WEIGHT);
    const int pieces = row ? eitp__lora_pieces(row) : 0;
    eitp_tensor *parts[EITP__PIECES];
    int64_t missing = 0; /* columns of layers without an adapter, still to be padded */
    int count = 0;
    for (int i = 0; i < pieces && targets; i++) {
        const eitp__lora_layer layer = eitp__lora_layer_of(row, i);
        if (!eitp__lora_has(targets, &layer)) {
            missing += eitp__piece_columns(model, row, i);
            continue;
        }
        parts[count] = x ? eitp__lora_apply_layer(x, model, block, &layer, config, key)
                         : eitp__lora_product_layer(graph, model, block, &layer, config);
        if (missing)
            parts[count] = eitp_pad(parts[count], 1, missing, 0);
        missing = 0;
        count++;
    }
    if (count && missing)
        parts[count - 1] = eitp_pad(parts[count - 1], 1, 0, missing);
    return count > 1 ? eitp_concat(parts, count, 1) : count ? parts[0] : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__lora_apply(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                            int64_t number, eitp__model_slot slot, const eitp_lora_config *config,
                                            eitp_tensor *key) {
    return x ? eitp__lora_join(eitp_tensor_graph(x), x, model, block, number, slot, config, key) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__lora_product(eitp_graph *graph, const eitp_transformer_config *model,
                                              const char *block, int64_t number, eitp__model_slot slot,
                                              const eitp_lora_config *config) {
    return eitp__lora_join(graph, NULL, model, block, number, slot, config, NULL);
}
