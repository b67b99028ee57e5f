#include "model/lora_targets.h"

/* ---- Targets of a configuration ---- */

EITP__PRIVATE unsigned eitp__lora_block_targets(const eitp_lora_config *config, int64_t block) {
    if (block < 0)
        return config->targets & EITP__LORA_OUTSIDE;
    return (config->targets & ~(unsigned)EITP__LORA_OUTSIDE) |
           (block < EITP_LORA_BLOCKS ? config->block_targets[block] : 0);
}

EITP__PRIVATE unsigned eitp__lora_all_targets(const eitp_lora_config *config) {
    unsigned all = config->targets;
    for (int i = 0; i < EITP_LORA_BLOCKS; i++)
        all |= config->block_targets[i];
    return all;
}

EITP__PRIVATE int eitp__lora_targets_equal(const eitp_lora_config *a, const eitp_lora_config *b) {
    return a->targets == b->targets && !memcmp(a->block_targets, b->block_targets, sizeof a->block_targets);
}

/* ---- Layers ---- */

/* Returns the bit of a row's weight, or 0 if it is not a layer that can have an adapter. */
static unsigned eitp__lora_row_target(const eitp__parameter_row *row) {
    if (row->part != EITP__WEIGHT)
        return 0;
    return row->place == EITP__IN_BLOCK && row->slot < EITP__LINEAR_SLOTS ? 1u << row->slot
           : row->slot == EITP__MLP_GATE                                  ? (unsigned)EITP_LORA_MLP_GATE
           : row->slot == EITP__POOLER                                    ? (unsigned)EITP_LORA_POOLER
           : row->slot == EITP__HEAD_TRANSFORM                            ? (unsigned)EITP_LORA_HEAD_TRANSFORM
                                                                          : 0;
}

EITP__PRIVATE int eitp__lora_pieces(const eitp__parameter_row *row) {
    int count = 0;
    while (count < EITP__PIECES && row->pieces[count])
        count++;
    return count ? count : 1;
}

EITP__PRIVATE eitp__lora_layer eitp__lora_layer_of(const eitp__parameter_row *row, int piece) {
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

EITP__PRIVATE int eitp__lora_layer_at(const eitp_architecture *architecture, int64_t index, eitp__lora_layer *layer) {
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

EITP__PRIVATE int eitp__lora_has(unsigned targets, const eitp__lora_layer *layer) {
    return (targets & (layer->target | layer->whole)) != 0;
}

/* Returns the layers of an architecture selected by the targets, one bit each. EITP_LORA_ATTENTION_INPUT selects q, k
   and v where they are separate layers. */
static unsigned eitp__lora_layers(const eitp_architecture *architecture, unsigned targets) {
    eitp__lora_layer layer;
    unsigned layers = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++)
        layers |= eitp__lora_has(targets, &layer) ? layer.target : 0;
    return layers;
}

/* Like eitp__lora_layers, without the layers that the model lacks. */
static unsigned eitp__lora_layers_of(const eitp_transformer_config *model, unsigned targets) {
    eitp__lora_layer layer;
    unsigned layers = 0;
    for (int64_t i = 0; eitp__lora_layer_at(eitp__architecture_of(model), i, &layer); i++)
        layers |= eitp__lora_has(targets, &layer) && eitp__has_row(model, layer.row) ? layer.target : 0;
    return layers;
}

/* ---- Layer names ---- */

EITP__PRIVATE int eitp__lora_is_suffix(const char *word, size_t size, const char *name, size_t length) {
    return size && length >= size && !strncmp(name + length - size, word, size) &&
           (length == size || name[length - size - 1] == '.');
}

/* True if `word` matches the layer; for a layer of blocks, in every block. */
static int eitp__lora_word_matches(const eitp_architecture *architecture, const char *word, size_t size,
                                   const eitp__lora_layer *layer) {
    char name[EITP__NAME_SIZE];
    int length;
    if (layer->row->place != EITP__AFTER_BLOCKS)
        return eitp__lora_is_suffix(word, size, layer->name, layer->length);
    length = snprintf(name, sizeof name, "%s%.*s", architecture->prefix, (int)layer->length, layer->name);
    return eitp__lora_is_suffix(word, size, name, (size_t)length);
}

/* Returns the number of the block in which `word` matches the layer, such as 0 for "h.0.attn.c_proj", or -1 if it does
   not match. */
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
    return eitp__lora_is_suffix(word, rest, name, (size_t)length) ? block : -1;
}

EITP__PRIVATE int eitp__lora_is_of_classifier(const eitp_architecture *architecture, const char *word, size_t size) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        if ((row->slot == EITP__CLASSIFIER || row->slot == EITP__CLASSIFIER_TRANSFORM) && row->part == EITP__WEIGHT &&
            eitp__lora_is_suffix(word, size, row->name, strlen(row->name) - strlen(".weight")))
            return 1;
    }
    return 0;
}

/* Returns the layers of an architecture that a word matches in every block, or outside blocks. */
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

/* Adds the layer that a word names in a single block. Returns 0 if not found. */
static int eitp__lora_add_block(const eitp_architecture *architecture, const char *word, size_t size,
                                eitp_lora_config *config) {
    eitp__lora_layer layer;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++) {
        const int block = eitp__lora_word_block(architecture, word, size, &layer);
        if (block < 0 || block >= EITP_LORA_BLOCKS)
            continue;
        config->block_targets[block] = (uint16_t)(config->block_targets[block] | layer.target);
        return 1;
    }
    return 0;
}

/* Sets the targets to the layers that a list of words matches. Returns NULL, or the first word that matches none. */
static const char *eitp__lora_list_targets(const eitp_architecture *architecture, const char *names,
                                           eitp_lora_config *config) {
    config->targets = 0;
    memset(config->block_targets, 0, sizeof config->block_targets);
    for (const char *word = names;; word++) {
        const size_t size = strcspn(word, ",");
        const unsigned found = eitp__lora_word_targets(architecture, word, size);
        config->targets |= found;
        if (!found && !eitp__lora_add_block(architecture, word, size, config) &&
            !eitp__lora_is_of_classifier(architecture, word, size))
            return word;
        word += size;
        if (!*word)
            return eitp__lora_all_targets(config) ? NULL : names;
    }
}

/* Fails because a word matches no layer of the architecture, or of any if it is NULL. */
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

eitp_status eitp_lora_targets_parse(const eitp_architecture *architecture, const char *names, eitp_lora_config *config,
                                    eitp_error *error) {
    if (!names || !config)
        return eitp__fail_null(error, "eitp_lora_targets_parse", "names and config");
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    eitp_lora_config found = *config;
    const char *unknown = eitp__lora_list_targets(named, names, &found), *furthest = unknown;
    /* Report the architecture that matches the most names. */
    for (size_t i = 1; unknown && !architecture && eitp__architecture_at(i); i++) {
        unknown = eitp__lora_list_targets(eitp__architecture_at(i), names, &found);
        furthest = unknown && unknown > furthest ? unknown : furthest;
    }
    if (unknown)
        return eitp__lora_fail_unknown(architecture, furthest, error);
    *config = found;
    return EITP_OK;
}

unsigned eitp_lora_targets_default(const eitp_architecture *architecture) {
    return (architecture ? architecture : eitp__architecture_at(0))->lora_targets;
}

/* Returns the last part of a layer's name. */
static const char *eitp__lora_last_word(const eitp__lora_layer *layer, size_t *size) {
    size_t begin = layer->length;
    while (begin && layer->name[begin - 1] != '.')
        begin--;
    *size = layer->length - begin;
    return layer->name + begin;
}

/* A list of names, truncated to the size of a buffer. */
typedef struct eitp__lora_names {
    char *text;
    size_t size, length; /* size of the buffer, and length of the whole list */
} eitp__lora_names;

/* Appends the name of a layer, or its last part, in block `block`; -1: in every block, or outside blocks. */
static void eitp__lora_add_name(eitp__lora_names *names, const eitp_architecture *architecture, int64_t block,
                                const char *name, size_t length) {
    const size_t room = names->size > names->length ? names->size - names->length : 0;
    char number[EITP__BLOCK_NAME_SIZE] = "";
    if (block >= 0)
        snprintf(number, sizeof number, "%s%d.", architecture->block_prefix, (int)block);
    names->length += (size_t)snprintf(room ? names->text + names->length : NULL, room, "%s%s%.*s",
                                      names->length ? "," : "", number, (int)length, name);
}

/* Appends words for the targets whose last part is unique among the layers (is_shared 0), or for the others. The word
   is the last part if it matches only targets, otherwise the full name. */
static void eitp__lora_format_layers(const eitp_architecture *architecture, unsigned targets, int is_shared,
                                     eitp__lora_names *names) {
    eitp__lora_layer layer;
    unsigned written = 0;
    for (int64_t i = 0; eitp__lora_layer_at(architecture, i, &layer); i++) {
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
        eitp__lora_add_name(names, architecture, -1, word, length);
    }
}

size_t eitp_lora_targets_format(const eitp_architecture *architecture, const eitp_lora_config *config, char *names,
                                size_t size) {
    const eitp_architecture *named = architecture ? architecture : eitp__architecture_at(0);
    eitp__lora_names written = EITP__ZERO;
    eitp__lora_layer layer;
    unsigned targets;
    if (names && size)
        *names = 0;
    if (!config)
        return 0;
    targets = eitp__lora_layers(named, config->targets);
    written.text = names;
    written.size = names ? size : 0;
    eitp__lora_format_layers(named, targets, 0, &written);
    eitp__lora_format_layers(named, targets, 1, &written);
    for (int block = 0; block < EITP_LORA_BLOCKS; block++) {
        for (int64_t i = 0; config->block_targets[block] && eitp__lora_layer_at(named, i, &layer); i++) {
            if (eitp__lora_has(config->block_targets[block], &layer))
                eitp__lora_add_name(&written, named, block, layer.name, layer.length);
        }
    }
    return written.length;
}

EITP__PRIVATE char *eitp__lora_targets_text(const eitp_host *host, const eitp_architecture *architecture,
                                            const eitp_lora_config *config) {
    const size_t size = eitp_lora_targets_format(architecture, config, NULL, 0) + 1;
    char *text = (char *)eitp__allocate_uninitialized(host, size);
    if (text)
        eitp_lora_targets_format(architecture, config, text, size);
    return text;
}

/* ---- Layers of a model ---- */

/* True if the words for the targets of every block match no other layers. */
static int eitp__lora_has_words(const eitp_architecture *architecture, const eitp_lora_config *config) {
    eitp_lora_config every = *config, named = *config;
    char names[400];
    memset(every.block_targets, 0, sizeof every.block_targets);
    return eitp_lora_targets_format(architecture, &every, names, sizeof names) < sizeof names &&
           (!*names ||
            (!eitp_lora_targets_parse(architecture, names, &named, NULL) && eitp__lora_targets_equal(&named, &every)));
}

/* Replaces the targets with layers that the model has. Files store the targets as words. If the words for layers that
   are in all blocks match other layers as well, those layers are stored in block_targets instead. */
static void eitp__lora_set_layers(const eitp_transformer_config *model, eitp_lora_config *config) {
    const int64_t most = EITP_LORA_BLOCKS, blocks = model->layers < most ? model->layers : most;
    const unsigned outside = eitp__lora_layers_of(model, eitp__lora_block_targets(config, -1));
    unsigned every = ~0u;
    for (int64_t i = 0; i < model->layers && i <= EITP_LORA_BLOCKS; i++)
        every &= eitp__lora_layers_of(model, eitp__lora_block_targets(config, i));
    for (int64_t i = 0; i < blocks; i++)
        config->block_targets[i] =
            (uint16_t)(eitp__lora_layers_of(model, eitp__lora_block_targets(config, i)) & ~every);
    config->targets = every | outside;
    if (model->layers > EITP_LORA_BLOCKS || eitp__lora_has_words(eitp__architecture_of(model), config))
        return;
    for (int64_t i = 0; i < blocks; i++)
        config->block_targets[i] = (uint16_t)(config->block_targets[i] | every);
    config->targets = outside;
}

EITP__PRIVATE eitp_status eitp__lora_find_layers(const eitp_transformer_config *model, eitp_lora_config *config,
                                                 eitp_error *error) {
    const eitp_architecture *architecture = eitp__architecture_of(model);
    const unsigned rows = ((1u << EITP__LINEAR_SLOTS) - 1) | EITP_LORA_MLP_GATE | EITP__LORA_OUTSIDE;
    const unsigned known = rows | eitp__lora_layers(architecture, rows), targets = eitp__lora_all_targets(config);
    int blocks = EITP_LORA_BLOCKS;
    while (blocks && !config->block_targets[blocks - 1])
        blocks--;
    if (targets & ~known)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "invalid adapter targets %u for %s (allowed mask %u)", targets,
                          architecture->model_type, eitp__lora_layers(architecture, rows) | (rows & 15));
    if (blocks > model->layers)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "adapter targets name block %d; this %s model has blocks 0 to %lld", blocks - 1,
                          architecture->model_type, (long long)model->layers - 1);
    eitp__lora_set_layers(model, config);
    return eitp__lora_all_targets(config)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "invalid adapter targets %u for this %s model (allowed mask %u)", targets,
                            architecture->model_type, eitp__lora_layers_of(model, rows));
}
