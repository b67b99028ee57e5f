#include "model/lora.h"

/* Maximum rank and alpha: far beyond use, and no product of them overflows. */
#define EITP__LORA_MAX_RANK (1 << 16)
#define EITP__LORA_MAX_ALPHA 1e9

/* Linear layers that are whole, and then the pieces of each. */
#define EITP__LORA_ALL_TARGETS ((1u << EITP__LINEAR_SLOTS * (1 + EITP__PIECES)) - 1)

/* ---- Configurations ---- */

eitp_lora_config eitp_lora_config_default(void) {
    eitp_lora_config config;
    memset(&config, 0, sizeof config);
    config.rank = 8;
    config.alpha = 8;
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
    if (!config->targets || (config->targets & ~EITP__LORA_ALL_TARGETS))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "adapter targets are %u; they must be a sum of eitp_lora_target",
                          config->targets);
    return EITP_OK;
}

EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b) {
    return a->rank == b->rank &&
           (!a->rank || (a->alpha >= b->alpha && a->alpha <= b->alpha && a->dropout >= b->dropout &&
                         a->dropout <= b->dropout && a->targets == b->targets && !a->rslora == !b->rslora));
}

EITP__PRIVATE double eitp__lora_scale(const eitp_lora_config *config) {
    return config->alpha / (config->rslora ? sqrt((double)config->rank) : (double)config->rank);
}

/* ---- Layers ---- */

/* A linear layer of blocks that can have an adapter: the weight of a row, or one of the pieces that make it up in
   files. */
typedef struct eitp__lora_layer {
    const eitp__parameter_row *row;
    int piece, pieces;
    const char *name; /* of the layer, without ".weight" */
    size_t length;    /* of the name */
    unsigned target;  /* its bit in eitp_lora_config.targets */
} eitp__lora_layer;

/* True if the row is the weight of a linear layer of blocks. */
static int eitp__lora_is_linear(const eitp__parameter_row *row) {
    return row->place == EITP__IN_BLOCK && row->slot < EITP__LINEAR_SLOTS && row->part == EITP__WEIGHT;
}

static int eitp__lora_pieces(const eitp__parameter_row *row) {
    int count = 0;
    while (count < EITP__PIECES && row->pieces[count])
        count++;
    return count ? count : 1;
}

static eitp__lora_layer eitp__lora_layer_of(const eitp__parameter_row *row, int piece) {
    static const char end[] = ".weight";
    eitp__lora_layer layer;
    layer.row = row;
    layer.piece = piece;
    layer.pieces = eitp__lora_pieces(row);
    layer.name = row->pieces[piece] ? row->pieces[piece] : row->name;
    layer.length = strlen(layer.name);
    if (layer.length > sizeof end - 1 && !strcmp(layer.name + layer.length - (sizeof end - 1), end))
        layer.length -= sizeof end - 1;
    layer.target =
        1u << (layer.pieces > 1 ? EITP__LINEAR_SLOTS + EITP__PIECES * (int)row->slot + piece : (int)row->slot);
    return layer;
}

/* Layer `index` of an architecture; 0 past the end. */
static int eitp__lora_layer_at(const eitp_architecture *architecture, int64_t index, eitp__lora_layer *layer) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        const int pieces = eitp__lora_is_linear(row) ? eitp__lora_pieces(row) : 0;
        if (index < pieces) {
            *layer = eitp__lora_layer_of(row, (int)index);
            return 1;
        }
        index -= pieces;
    }
    return 0;
}

/* True if the targets have the layer, or all pieces of its row. */
static int eitp__lora_has(unsigned targets, const eitp__lora_layer *layer) {
    return (targets & (layer->target | 1u << layer->row->slot)) != 0;
}

EITP__PRIVATE unsigned eitp__lora_layers(const eitp_architecture *architecture, unsigned targets) {
    eitp__lora_layer layer;
    unsigned layers = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++)
        layers |= eitp__lora_has(targets, &layer) ? layer.target : 0;
    return layers;
}

/* ---- Layer names ---- */

/* True if `word` is the layer's name, or its end after a dot. */
static int eitp__lora_word_matches(const char *word, size_t size, const eitp__lora_layer *layer) {
    return size && layer->length >= size && !strncmp(layer->name + layer->length - size, word, size) &&
           (layer->length == size || layer->name[layer->length - size - 1] == '.');
}

/* The layers of an architecture that a word matches. */
static unsigned eitp__lora_word_targets(const eitp_architecture *architecture, const char *word, size_t size) {
    int is_all = size == strlen("all-linear") && !strncmp(word, "all-linear", size);
    eitp__lora_layer layer;
    unsigned found = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++) {
        if (is_all || eitp__lora_word_matches(word, size, &layer))
            found |= layer.target;
    }
    return found;
}

/* The layers that a list of words matches; 0 if a word matches none, and then *unknown is the first such word. */
static unsigned eitp__lora_list_targets(const eitp_architecture *architecture, const char *names,
                                        const char **unknown) {
    unsigned all = 0;
    for (const char *word = names;; word++) {
        size_t size = strcspn(word, ",");
        unsigned found = eitp__lora_word_targets(architecture, word, size);
        if (!found) {
            *unknown = word;
            return 0;
        }
        all |= found;
        word += size;
        if (!*word)
            break;
    }
    return all;
}

eitp_status eitp_lora_targets_parse(const eitp_architecture *architecture, const char *names, unsigned *targets,
                                    eitp_error *error) {
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    const char *word = NULL, *ignored;
    eitp__lora_layer layer;
    char layers[200];
    unsigned found;
    size_t at = 0;
    if (!names || !targets)
        return eitp__fail_null(error, "eitp_lora_targets_parse", "names and targets");
    found = eitp__lora_list_targets(named, names, &word);
    for (size_t i = 1; !found && !architecture && eitp__architecture_at(i); i++)
        found = eitp__lora_list_targets(eitp__architecture_at(i), names, &ignored);
    if (found) {
        *targets = found;
        return EITP_OK;
    }
    *layers = 0;
    for (int64_t i = 0; at < sizeof layers && eitp__lora_layer_at(named, i, &layer); i++)
        at += (size_t)snprintf(layers + at, sizeof layers - at, "%.*s, ", (int)layer.length, layer.name);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "no linear layer named '%.*s' in %s (choose from %sall-linear, or the last parts of these names)",
                      (int)(strcspn(word, ",") < 60 ? strcspn(word, ",") : 60), word, named->model_type, layers);
}

unsigned eitp_lora_targets_default(const eitp_architecture *architecture) {
    return (architecture ? architecture : eitp__architecture_at(0))->lora_targets;
}

/* The last part of a layer's name. */
static const char *eitp__lora_last_word(const eitp__lora_layer *layer, size_t *size) {
    size_t begin = layer->length;
    while (begin && layer->name[begin - 1] != '.')
        begin--;
    *size = layer->length - begin;
    return layer->name + begin;
}

/*
 * Appends words for the targets whose last part is unique among the layers (is_shared 0), or for the others. A word is
 * the last part if it matches targets only, otherwise the full name.
 */
static size_t eitp__lora_format_layers(const eitp_architecture *architecture, unsigned targets, int is_shared,
                                       char *names, size_t at, size_t size) {
    eitp__lora_layer layer;
    unsigned written = 0;
    for (int64_t i = 0; at < size && eitp__lora_layer_at(architecture, i, &layer); i++) {
        size_t length;
        const char *word;
        unsigned same;
        if (!(targets & ~written & layer.target))
            continue;
        word = eitp__lora_last_word(&layer, &length);
        same = eitp__lora_word_targets(architecture, word, length);
        if (is_shared != (same != layer.target))
            continue;
        if (same & ~targets) {
            word = layer.name;
            length = layer.length;
            same = layer.target;
        }
        written |= same;
        at += (size_t)snprintf(names + at, size - at, "%s%.*s", at ? "," : "", (int)length, word);
    }
    return at;
}

void eitp_lora_targets_format(const eitp_architecture *architecture, unsigned targets, char *names, size_t size) {
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    size_t at;
    if (!names || !size)
        return;
    *names = 0;
    targets = eitp__lora_layers(named, targets);
    at = eitp__lora_format_layers(named, targets, 0, names, 0, size);
    eitp__lora_format_layers(named, targets, 1, names, at, size);
}

/* ---- Parameters ---- */

/* The parameter A [rank, in] or B [out, rank] of a layer's adapter. */
static eitp__parameter eitp__lora_layer_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const eitp__lora_layer *layer, const char *block, int is_b) {
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    snprintf(parameter.name, sizeof parameter.name, "%s.%.*s.lora_%c.weight", block, (int)layer->length, layer->name,
             is_b ? 'B' : 'A');
    parameter.layer = -1;
    parameter.rank = 2;
    parameter.shape[!is_b] = eitp__extent_of(model, layer->row->extents[is_b]) / (is_b ? layer->pieces : 1);
    parameter.shape[is_b] = config->rank;
    parameter.is_f32 = 1;
    return parameter;
}

/* Adapted layer `index` of a block; 0 past the end. */
static int eitp__lora_adapted(const eitp_architecture *architecture, const eitp_lora_config *config, int64_t index,
                              eitp__lora_layer *layer) {
    for (int64_t i = 0; config->rank && eitp__lora_layer_at(architecture, i, layer); i++) {
        if (eitp__lora_has(config->targets, layer) && index-- == 0)
            return 1;
    }
    return 0;
}

/* The number of adapted layers of a block. */
static int64_t eitp__lora_layer_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    eitp__lora_layer layer;
    int64_t count = 0;
    while (eitp__lora_adapted(eitp__architecture_of(model), config, count, &layer))
        count++;
    return count;
}

EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    return 2 * eitp__lora_layer_count(model, config) * model->layers;
}

EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index) {
    int64_t in_block = 2 * eitp__lora_layer_count(model, config);
    eitp__lora_layer layer;
    eitp__parameter parameter;
    char block[EITP__BLOCK_NAME_SIZE];
    eitp__lora_adapted(eitp__architecture_of(model), config, index % in_block / 2, &layer);
    eitp__block_name(model, index / in_block, block, sizeof block);
    parameter = eitp__lora_layer_parameter(model, config, &layer, block, (int)(index % 2));
    parameter.layer = index / in_block;
    return parameter;
}

EITP__PRIVATE eitp__parameter eitp__lora_weight(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                int64_t index, int64_t *column) {
    int64_t in_block = 2 * eitp__lora_layer_count(model, config);
    eitp__lora_layer layer;
    eitp__parameter weight;
    char block[EITP__BLOCK_NAME_SIZE];
    eitp__lora_adapted(eitp__architecture_of(model), config, index % in_block / 2, &layer);
    eitp__block_name(model, index / in_block, block, sizeof block);
    weight = eitp__row_parameter(model, layer.row, block);
    *column = layer.piece * weight.shape[1] / layer.pieces;
    return weight;
}

EITP__PRIVATE int eitp__lora_keeps(const eitp_transformer_config *model, const eitp__parameter *parameter) {
    return eitp_head_has_labels(model->head) && parameter->row->place == EITP__IN_HEAD;
}

EITP__PRIVATE int eitp__lora_is_adapter(const char *name) {
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    size_t length = strlen(name), end = strlen(ends[0]);
    return length > end && (!strcmp(name + length - end, ends[0]) || !strcmp(name + length - end, ends[1]));
}

/* ---- The graph ---- */

/* The adapter's output for x. */
static eitp_tensor *eitp__lora_apply_layer(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                           const eitp__lora_layer *layer, const eitp_lora_config *config,
                                           eitp_tensor *key) {
    const eitp__parameter a = eitp__lora_layer_parameter(model, config, layer, block, 0);
    const eitp__parameter b = eitp__lora_layer_parameter(model, config, layer, block, 1);
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_dtype dtype = eitp_tensor_dtype(x);
    /* A and B are F32; products take the dtype of x. */
    eitp_tensor *low = eitp_cast(eitp__parameter_tensor(graph, &a), dtype);
    low = eitp_matmul_wide(key ? eitp_dropout(x, key, config->dropout) : x, low, 0, 1);
    /* Scaled before it is rounded, so that it is rounded once. */
    low = eitp_cast(eitp_affine(low, eitp__lora_scale(config), 0), dtype);
    return eitp_matmul_transposed(low, eitp_cast(eitp__parameter_tensor(graph, &b), dtype), 0, 1);
}

EITP__PRIVATE eitp_tensor *eitp__lora_apply(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                            eitp__model_slot slot, const eitp_lora_config *config, eitp_tensor *key) {
    const eitp__parameter_row *row = eitp__row_find(model, slot, EITP__WEIGHT);
    const int pieces = row ? eitp__lora_pieces(row) : 0;
    const int64_t columns = row ? eitp__extent_of(model, row->extents[1]) / pieces : 0;
    eitp_tensor *parts[EITP__PIECES];
    int64_t missing = 0; /* columns of layers without an adapter, not yet padded */
    int count = 0;
    for (int i = 0; i < pieces && x && config && config->rank; i++) {
        const eitp__lora_layer layer = eitp__lora_layer_of(row, i);
        if (!eitp__lora_has(config->targets, &layer)) {
            missing += columns;
            continue;
        }
        parts[count] = eitp__lora_apply_layer(x, model, block, &layer, config, key);
        if (missing)
            parts[count] = eitp_pad(parts[count], 1, missing, 0);
        missing = 0;
        count++;
    }
    if (count && missing)
        parts[count - 1] = eitp_pad(parts[count - 1], 1, 0, missing);
    return count > 1 ? eitp_concat(parts, count, 1) : count ? parts[0] : NULL;
}
