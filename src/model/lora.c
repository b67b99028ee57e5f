#include "model/lora.h"

/* Maximum rank and alpha: far beyond use, and no product of them overflows. */
#define EITP__LORA_MAX_RANK (1 << 16)
#define EITP__LORA_MAX_ALPHA 1e9

/* Linear layers of blocks that are whole, then the pieces of each, and the layers outside blocks. */
#define EITP__LORA_ALL_TARGETS ((1u << EITP__LINEAR_SLOTS * (1 + EITP__PIECES)) - 1 + EITP__LORA_OUTSIDE)

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

/* A linear layer that can have an adapter: the weight of a row, or one of the pieces that make it up in files. */
typedef struct eitp__lora_layer {
    const eitp__parameter_row *row;
    int piece, pieces;
    const char *name; /* of the layer, without ".weight" */
    size_t length;    /* of the name */
    unsigned target;  /* its bit in eitp_lora_config.targets */
    unsigned whole;   /* that of all pieces of the row */
} eitp__lora_layer;

/* The bit of a row's weight; 0 if it is not a layer that can have an adapter. */
static unsigned eitp__lora_row_target(const eitp__parameter_row *row) {
    if (row->part != EITP__WEIGHT)
        return 0;
    return row->place == EITP__IN_BLOCK && row->slot < EITP__LINEAR_SLOTS ? 1u << row->slot
           : row->slot == EITP__POOLER                                    ? (unsigned)EITP_LORA_POOLER
           : row->slot == EITP__HEAD_TRANSFORM                            ? (unsigned)EITP_LORA_HEAD_TRANSFORM
                                                                          : 0;
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
    layer.whole = layer.target = eitp__lora_row_target(row);
    if (layer.pieces > 1)
        layer.target = 1u << (EITP__LINEAR_SLOTS + EITP__PIECES * (int)row->slot + piece);
    return layer;
}

/* Layer `index` of an architecture; 0 past the end. */
static int eitp__lora_layer_at(const eitp_architecture *architecture, int64_t index, eitp__lora_layer *layer) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        const int pieces = eitp__lora_row_target(row) ? eitp__lora_pieces(row) : 0;
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
    return (targets & (layer->target | layer->whole)) != 0;
}

EITP__PRIVATE unsigned eitp__lora_layers(const eitp_architecture *architecture, unsigned targets) {
    eitp__lora_layer layer;
    unsigned layers = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++)
        layers |= eitp__lora_has(targets, &layer) ? layer.target : 0;
    return layers;
}

EITP__PRIVATE unsigned eitp__lora_layers_of(const eitp_transformer_config *model, unsigned targets) {
    eitp__lora_layer layer;
    unsigned layers = 0;
    for (int64_t i = 0; eitp__lora_layer_at(eitp__architecture_of(model), i, &layer); i++)
        layers |= eitp__lora_has(targets, &layer) && eitp__has_row(model, layer.row) ? layer.target : 0;
    return layers;
}

/* ---- Layer names ---- */

/* True if `word` is a name, or its end after a dot. */
static int eitp__lora_is_end(const char *word, size_t size, const char *name, size_t length) {
    return size && length >= size && !strncmp(name + length - size, word, size) &&
           (length == size || name[length - size - 1] == '.');
}

/* True if `word` matches the layer, in blocks in every one of them. */
static int eitp__lora_word_matches(const eitp_architecture *architecture, const char *word, size_t size,
                                   const eitp__lora_layer *layer) {
    char name[EITP__NAME_SIZE];
    int length;
    if (layer->row->place != EITP__AFTER_BLOCKS)
        return eitp__lora_is_end(word, size, layer->name, layer->length);
    length = snprintf(name, sizeof name, "%s%.*s", architecture->prefix, (int)layer->length, layer->name);
    return eitp__lora_is_end(word, size, name, (size_t)length);
}

/* The number of the block in which `word` matches the layer, such as 0 in "h.0.attn.c_proj"; -1 if it does not. */
static int eitp__lora_word_block(const eitp_architecture *architecture, const char *word, size_t size,
                                 const eitp__lora_layer *layer) {
    char name[EITP__NAME_SIZE];
    const size_t rest = size > layer->length + 1 ? size - layer->length - 1 : 0;
    size_t digits = rest;
    int block = 0, length;
    if (layer->row->place != EITP__IN_BLOCK || !rest || word[rest] != '.' ||
        strncmp(word + rest + 1, layer->name, layer->length) != 0)
        return -1;
    while (digits && word[digits - 1] >= '0' && word[digits - 1] <= '9')
        digits--;
    if (digits == rest || rest - digits > 4)
        return -1;
    for (size_t i = digits; i < rest; i++)
        block = 10 * block + (word[i] - '0');
    length = snprintf(name, sizeof name, "%s%s%d", architecture->prefix, architecture->block_prefix, block);
    return eitp__lora_is_end(word, rest, name, (size_t)length) ? block : -1;
}

/* True if the word matches a layer of a classifier, which has no adapters since it is trained whole. */
static int eitp__lora_is_of_classifier(const eitp_architecture *architecture, const char *word, size_t size) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if ((row->slot == EITP__CLASSIFIER || row->slot == EITP__CLASSIFIER_TRANSFORM) && row->part == EITP__WEIGHT &&
            eitp__lora_is_end(word, size, row->name, strlen(row->name) - strlen(".weight")))
            return 1;
    }
    return 0;
}

/* The layers of an architecture that a word matches in every block, or outside them. */
static unsigned eitp__lora_word_targets(const eitp_architecture *architecture, const char *word, size_t size) {
    int is_all = size == strlen("all-linear") && !strncmp(word, "all-linear", size);
    eitp__lora_layer layer;
    unsigned found = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++) {
        if (is_all || eitp__lora_word_matches(architecture, word, size, &layer))
            found |= layer.target;
    }
    return found;
}

/* Layers that names with numbers of blocks match, for each block. */
enum { EITP__LORA_BLOCKS = 1024 };

typedef struct eitp__lora_blocks {
    unsigned targets[EITP__LORA_BLOCKS];
    int count; /* the largest number + 1 */
} eitp__lora_blocks;

/* Adds the layer that a word matches in one block; 0 if there is none. */
static int eitp__lora_add_block(const eitp_architecture *architecture, const char *word, size_t size,
                                eitp__lora_blocks *blocks) {
    eitp__lora_layer layer;
    int found = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++) {
        const int block = eitp__lora_word_block(architecture, word, size, &layer);
        if (block < 0 || block >= EITP__LORA_BLOCKS)
            continue;
        blocks->targets[block] |= layer.target;
        blocks->count = block >= blocks->count ? block + 1 : blocks->count;
        found = 1;
    }
    return found;
}

/* The layers that are the same in all blocks from 0 to the last one; 0 if they differ. */
static unsigned eitp__lora_common_targets(const eitp__lora_blocks *blocks) {
    for (int i = 1; i < blocks->count; i++) {
        if (blocks->targets[i] != blocks->targets[0])
            return 0;
    }
    return blocks->targets[0];
}

/* The layers that a list of words matches; 0 if a word matches none, and then *unknown is the first such word, or if
   the blocks differ, and then it is NULL. */
static unsigned eitp__lora_list_targets(const eitp_architecture *architecture, const char *names, int of_blocks,
                                        const char **unknown) {
    eitp__lora_blocks blocks;
    unsigned all = 0, common;
    memset(&blocks, 0, sizeof blocks);
    *unknown = names;
    for (const char *word = names;; word++) {
        const size_t size = strcspn(word, ",");
        const unsigned found = eitp__lora_word_targets(architecture, word, size);
        all |= found;
        if (!found && !(of_blocks && eitp__lora_add_block(architecture, word, size, &blocks)) &&
            !eitp__lora_is_of_classifier(architecture, word, size)) {
            *unknown = word;
            return 0;
        }
        word += size;
        if (!*word)
            break;
    }
    common = eitp__lora_common_targets(&blocks);
    if (blocks.count && !common)
        *unknown = NULL;
    return blocks.count && !common ? 0 : all | common;
}

/* Fails because a word matches no layer of the architecture, or of any. */
static eitp_status eitp__lora_fail_unknown(const eitp_architecture *architecture, const char *word, eitp_error *error) {
    const int size = (int)(strcspn(word, ",") < 60 ? strcspn(word, ",") : 60);
    const eitp_architecture *each;
    eitp__lora_layer layer;
    char known[300] = "";
    size_t at = 0;
    for (int64_t i = 0; architecture && at < sizeof known && eitp__lora_layer_at(architecture, i, &layer); i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%.*s, ", (int)layer.length, layer.name);
    for (size_t i = 0; !architecture && at < sizeof known && (each = eitp__architecture_at(i)); i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", each->model_type);
    if (!architecture)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "no linear layer named '%.*s' in %s (all-linear means all linear layers)", size, word, known);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "no linear layer named '%.*s' in %s (choose from %sall-linear, or the last parts of these names)",
                      size, word, architecture->model_type, known);
}

EITP__PRIVATE eitp_status eitp__lora_targets_parse(const eitp_architecture *architecture, const char *names,
                                                   int of_blocks, unsigned *targets, eitp_error *error) {
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    const char *word = NULL, *furthest;
    unsigned found;
    found = eitp__lora_list_targets(named, names, of_blocks, &word);
    furthest = word;
    /* The message is about the architecture that has most of the names. */
    for (size_t i = 1; !found && word && !architecture && eitp__architecture_at(i); i++) {
        found = eitp__lora_list_targets(eitp__architecture_at(i), names, of_blocks, &word);
        furthest = !word || word > furthest ? word : furthest;
    }
    if (found) {
        *targets = found;
        return EITP_OK;
    }
    if (!furthest)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the target layers differ between blocks; name the same layers in every block");
    return eitp__lora_fail_unknown(architecture, furthest, error);
}

eitp_status eitp_lora_targets_parse(const eitp_architecture *architecture, const char *names, unsigned *targets,
                                    eitp_error *error) {
    return names && targets ? eitp__lora_targets_parse(architecture, names, 0, targets, error)
                            : eitp__fail_null(error, "eitp_lora_targets_parse", "names and targets");
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
    const eitp__parameter weight = eitp__row_parameter(model, layer->row, block);
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    snprintf(parameter.name, sizeof parameter.name, "%.*s%.*s.lora_%c.weight",
             (int)(strlen(weight.name) - strlen(layer->row->name)), weight.name, (int)layer->length, layer->name,
             is_b ? 'B' : 'A');
    parameter.layer = -1;
    parameter.rank = 2;
    parameter.shape[!is_b] = eitp__extent_of(model, layer->row->extents[is_b]) / (is_b ? layer->pieces : 1);
    parameter.shape[is_b] = config->rank;
    parameter.is_f32 = 1;
    return parameter;
}

/* Adapted layer `index` of a block, or of those outside blocks; 0 past the end. */
static int eitp__lora_adapted(const eitp_transformer_config *model, const eitp_lora_config *config, int is_in_block,
                              int64_t index, eitp__lora_layer *layer) {
    for (int64_t i = 0; config->rank && eitp__lora_layer_at(eitp__architecture_of(model), i, layer); i++) {
        if ((layer->row->place == EITP__IN_BLOCK) == is_in_block && eitp__lora_has(config->targets, layer) &&
            eitp__has_row(model, layer->row) && index-- == 0)
            return 1;
    }
    return 0;
}

/* The number of adapted layers of a block, or outside blocks. */
static int64_t eitp__lora_layer_count(const eitp_transformer_config *model, const eitp_lora_config *config,
                                      int is_in_block) {
    eitp__lora_layer layer;
    int64_t count = 0;
    while (eitp__lora_adapted(model, config, is_in_block, count, &layer))
        count++;
    return count;
}

EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    return 2 * (eitp__lora_layer_count(model, config, 1) * model->layers + eitp__lora_layer_count(model, config, 0));
}

/* Finds the layer of parameter `index`, and the number of its block, -1 outside blocks. Those are the last ones. */
static int64_t eitp__lora_find(const eitp_transformer_config *model, const eitp_lora_config *config, int64_t index,
                               eitp__lora_layer *layer) {
    const int64_t in_block = 2 * eitp__lora_layer_count(model, config, 1), in_blocks = in_block * model->layers;
    const int is_in_block = index < in_blocks;
    eitp__lora_adapted(model, config, is_in_block, (is_in_block ? index % in_block : index - in_blocks) / 2, layer);
    return is_in_block ? index / in_block : -1;
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
