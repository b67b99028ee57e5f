#include "model/lora.h"

/* Maximum rank and alpha: far beyond use, and no product of them overflows. */
#define EITP__LORA_MAX_RANK (1 << 16)
#define EITP__LORA_MAX_ALPHA 1e9

#define EITP__LORA_ALL_TARGETS ((1u << EITP__LINEAR_SLOTS) - 1)

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

/* ---- Layer names ---- */

/* True if the row is the weight of a linear layer of blocks. */
static int eitp__lora_is_linear(const eitp__parameter_row *row) {
    return row->place == EITP__IN_BLOCK && row->slot < EITP__LINEAR_SLOTS && row->part == EITP__WEIGHT;
}

/* The length of the layer's name: the name of its weight without ".weight". */
static size_t eitp__lora_layer_length(const eitp__parameter_row *row) {
    return strlen(row->name) - strlen(".weight");
}

/* True if `word` is the layer's name, or its end after a dot. */
static int eitp__lora_word_matches(const char *word, size_t size, const eitp__parameter_row *row) {
    size_t length = eitp__lora_layer_length(row);
    return size && length >= size && !strncmp(row->name + length - size, word, size) &&
           (length == size || row->name[length - size - 1] == '.');
}

/* The layers of an architecture that a word matches. */
static unsigned eitp__lora_word_targets(const eitp_architecture *architecture, const char *word, size_t size) {
    int is_all = size == strlen("all-linear") && !strncmp(word, "all-linear", size);
    unsigned found = 0;
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if (eitp__lora_is_linear(row) && (is_all || eitp__lora_word_matches(word, size, row)))
            found |= 1u << row->slot;
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
    for (size_t i = 0; i < named->row_count && at < sizeof layers; i++) {
        if (eitp__lora_is_linear(&named->rows[i]))
            at += (size_t)snprintf(layers + at, sizeof layers - at, "%.*s, ",
                                   (int)eitp__lora_layer_length(&named->rows[i]), named->rows[i].name);
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "no linear layer named '%.*s' in %s (choose from %sall-linear, or the last parts of these names)",
                      (int)(strcspn(word, ",") < 60 ? strcspn(word, ",") : 60), word, named->model_type, layers);
}

/* The last part of a layer's name. */
static const char *eitp__lora_last_word(const eitp__parameter_row *row, size_t *size) {
    size_t length = eitp__lora_layer_length(row), begin = length;
    while (begin && row->name[begin - 1] != '.')
        begin--;
    *size = length - begin;
    return row->name + begin;
}

/*
 * Appends words for the targets whose last part is unique among the layers (is_shared 0), or for the others. A word is
 * the last part if it matches targets only, otherwise the full name.
 */
static size_t eitp__lora_format_layers(const eitp_architecture *architecture, unsigned targets, int is_shared,
                                       char *names, size_t at, size_t size) {
    unsigned written = 0;
    for (size_t i = 0; i < architecture->row_count && at < size; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        size_t length;
        const char *word;
        unsigned same;
        if (!eitp__lora_is_linear(row) || !((targets & ~written) >> row->slot & 1))
            continue;
        word = eitp__lora_last_word(row, &length);
        same = eitp__lora_word_targets(architecture, word, length);
        if (is_shared != (same != 1u << row->slot))
            continue;
        if (same & ~targets) {
            word = row->name;
            length = eitp__lora_layer_length(row);
            same = 1u << row->slot;
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
    at = eitp__lora_format_layers(named, targets, 0, names, 0, size);
    eitp__lora_format_layers(named, targets, 1, names, at, size);
}

/* ---- Parameters ---- */

/* The parameter A [rank, in] or B [out, rank] of a layer's adapter. */
static eitp__parameter eitp__lora_row_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                const eitp__parameter_row *row, const char *block, int is_b) {
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    snprintf(parameter.name, sizeof parameter.name, "%s.%.*s.lora_%c.weight", block, (int)eitp__lora_layer_length(row),
             row->name, is_b ? 'B' : 'A');
    parameter.layer = -1;
    parameter.rank = 2;
    parameter.shape[!is_b] = eitp__extent_of(model, row->extents[is_b]);
    parameter.shape[is_b] = config->rank;
    parameter.is_f32 = 1;
    return parameter;
}

/* The row of adapted layer `index` of a block; NULL past the end. */
static const eitp__parameter_row *eitp__lora_row(const eitp_architecture *architecture, const eitp_lora_config *config,
                                                 int64_t index) {
    for (size_t i = 0; i < architecture->row_count && config->rank; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if (eitp__lora_is_linear(row) && (config->targets >> row->slot & 1) && index-- == 0)
            return row;
    }
    return NULL;
}

/* The number of adapted layers of a block. */
static int64_t eitp__lora_layer_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    int64_t count = 0;
    while (eitp__lora_row(eitp__architecture_of(model), config, count))
        count++;
    return count;
}

EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config) {
    return 2 * eitp__lora_layer_count(model, config) * model->layers;
}

EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index) {
    int64_t in_block = 2 * eitp__lora_layer_count(model, config);
    const eitp__parameter_row *row = eitp__lora_row(eitp__architecture_of(model), config, index % in_block / 2);
    eitp__parameter parameter;
    char block[EITP__BLOCK_NAME_SIZE];
    eitp__block_name(model, index / in_block, block, sizeof block);
    parameter = eitp__lora_row_parameter(model, config, row, block, (int)(index % 2));
    parameter.layer = index / in_block;
    return parameter;
}

EITP__PRIVATE int eitp__lora_is_adapter(const char *name) {
    static const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    size_t length = strlen(name), end = strlen(ends[0]);
    return length > end && (!strcmp(name + length - end, ends[0]) || !strcmp(name + length - end, ends[1]));
}

/* ---- The graph ---- */

EITP__PRIVATE eitp_tensor *eitp__lora_apply(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                            eitp__model_slot slot, const eitp_lora_config *config, eitp_tensor *key) {
    const eitp__parameter_row *row = eitp__row_find(model, slot, EITP__WEIGHT);
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_dtype dtype = eitp_tensor_dtype(x);
    eitp__parameter a, b;
    eitp_tensor *low;
    if (!x || !row || !config || !config->rank || !(config->targets >> slot & 1))
        return NULL;
    a = eitp__lora_row_parameter(model, config, row, block, 0);
    b = eitp__lora_row_parameter(model, config, row, block, 1);
    /* A and B are F32; products take the dtype of x. */
    low = eitp_cast(eitp__parameter_tensor(graph, &a), dtype);
    low = eitp_matmul_wide(key ? eitp_dropout(x, key, config->dropout) : x, low, 0, 1);
    /* Scaled before it is rounded, so that it is rounded once. */
    low = eitp_cast(eitp_affine(low, eitp__lora_scale(config), 0), dtype);
    return eitp_matmul_transposed(low, eitp_cast(eitp__parameter_tensor(graph, &b), dtype), 0, 1);
}
