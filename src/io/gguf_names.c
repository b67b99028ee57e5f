#include "io/gguf_names.h"

/* A layer's name without ".weight" or ".bias". */
typedef struct eitp__gguf_layer {
    const char *name;
    eitp__model_slot slot;
    int piece;   /* -1: the whole row, which is one tensor */
    int is_post; /* only in architectures with norms after each half of a block; -1: in all others */
} eitp__gguf_layer;

static const eitp__gguf_layer eitp__gguf_outer_layers[] = {
    {"token_embd", EITP__TOKEN_EMBEDDING, -1, 0},    {"position_embd", EITP__POSITION_EMBEDDING, -1, 0},
    {"token_types", EITP__SEGMENT_EMBEDDING, -1, 0}, {"token_embd_norm", EITP__EMBEDDING_NORM, -1, 0},
    {"output_norm", EITP__FINAL_NORM, -1, 0},        {"output", EITP__HEAD, -1, 0},
};

static const eitp__gguf_layer eitp__gguf_block_layers[] = {
    {"attn_norm", EITP__ATTENTION_NORM, -1, -1},
    {"attn_output_norm", EITP__ATTENTION_NORM, -1, 1},
    {"attn_qkv", EITP__ATTENTION_INPUT, -1, 0},
    {"attn_q", EITP__ATTENTION_INPUT, 0, 0},
    {"attn_k", EITP__ATTENTION_INPUT, 1, 0},
    {"attn_v", EITP__ATTENTION_INPUT, 2, 0},
    {"attn_output", EITP__ATTENTION_OUTPUT, -1, 0},
    {"attn_q_norm", EITP__QUERY_NORM, -1, 0},
    {"attn_k_norm", EITP__KEY_NORM, -1, 0},
    {"post_attention_norm", EITP__ATTENTION_OUTPUT_NORM, -1, 0},
    {"ffn_norm", EITP__MLP_NORM, -1, -1},
    {"layer_output_norm", EITP__MLP_NORM, -1, 1},
    {"ffn_gate", EITP__MLP_GATE, -1, 0},
    {"ffn_up", EITP__MLP_INPUT, -1, 0},
    {"ffn_down", EITP__MLP_OUTPUT, -1, 0},
    {"post_ffw_norm", EITP__MLP_OUTPUT_NORM, -1, 0},
};

/* True if the architecture uses a layer's name. */
static int eitp__gguf_uses(const eitp_architecture *architecture, const eitp__gguf_layer *layer) {
    return !layer->is_post || (layer->is_post > 0) == (architecture->defaults->post_norm != 0);
}

/* Returns the row of a slot, in a model with any head. */
static const eitp__parameter_row *eitp__gguf_row(const eitp_architecture *architecture, eitp__model_slot slot,
                                                 eitp__part part) {
    for (size_t i = 0; i < architecture->row_count; i++) {
        const eitp__parameter_row *row = &architecture->rows[i];
        /* The bias of a head is not in these files. */
        if (row->slot == slot && row->part == part && (slot != EITP__HEAD || part == EITP__WEIGHT))
            return row;
    }
    return NULL;
}

/* Splits "blk.N." from a name, and ".weight" or ".bias". Returns 0 for another form. */
static int eitp__gguf_split_name(const char **name, size_t *size, int64_t *layer, eitp__part *part) {
    static const char *const endings[] = {".weight", ".bias"};
    size_t at = 4, length = 0;
    int ending = 0;
    *layer = -1;
    if (*size > 4 && !memcmp(*name, "blk.", 4)) {
        for (*layer = 0; at < *size && at < 12 && (*name)[at] >= '0' && (*name)[at] <= '9'; at++)
            *layer = *layer * 10 + ((*name)[at] - '0');
        if (at == 4 || at == *size || (*name)[at] != '.')
            return 0;
        *name += at + 1;
        *size -= at + 1;
    }
    for (; ending < 2; ending++) {
        length = strlen(endings[ending]);
        if (*size > length && !memcmp(*name + *size - length, endings[ending], length))
            break;
    }
    *part = ending ? EITP__BIAS : EITP__WEIGHT;
    *size -= ending < 2 ? length : 0;
    return ending < 2;
}

EITP__PRIVATE int eitp__gguf_place_find(const eitp_architecture *architecture, const char *name, size_t size,
                                        eitp__gguf_place *place) {
    eitp__part part;
    const eitp__gguf_layer *layers = eitp__gguf_outer_layers;
    size_t count = EITP__COUNT(eitp__gguf_outer_layers);
    if (!eitp__gguf_split_name(&name, &size, &place->layer, &part))
        return 0;
    if (place->layer >= 0) {
        layers = eitp__gguf_block_layers;
        count = EITP__COUNT(eitp__gguf_block_layers);
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(layers[i].name) != size || memcmp(layers[i].name, name, size) ||
            !eitp__gguf_uses(architecture, &layers[i]))
            continue;
        place->row = eitp__gguf_row(architecture, layers[i].slot, part);
        place->piece = layers[i].piece > 0 ? layers[i].piece : 0;
        return place->row && (place->row->pieces[0] != NULL) == (layers[i].piece >= 0);
    }
    return 0;
}

EITP__PRIVATE void eitp__gguf_place_name(const eitp_architecture *architecture, const eitp__gguf_place *place,
                                         char *name, size_t size) {
    const char *own = place->row->pieces[place->piece] ? place->row->pieces[place->piece] : place->row->name;
    if (place->layer >= 0)
        snprintf(name, size, "%s%s%lld.%s", architecture->prefix, architecture->block_prefix, (long long)place->layer,
                 own);
    else
        snprintf(name, size, "%s%s", place->row->place == EITP__IN_HEAD ? "" : architecture->prefix, own);
}

EITP__PRIVATE int eitp__gguf_tensor_name(const eitp_architecture *architecture, const eitp__gguf_place *place,
                                         char *name, size_t size) {
    const eitp__gguf_layer *layers = place->layer < 0 ? eitp__gguf_outer_layers : eitp__gguf_block_layers;
    const size_t count = place->layer < 0 ? EITP__COUNT(eitp__gguf_outer_layers) : EITP__COUNT(eitp__gguf_block_layers);
    for (size_t i = 0; i < count; i++) {
        const char *ending = place->row->part == EITP__BIAS ? "bias" : "weight";
        if (layers[i].slot != place->row->slot || !eitp__gguf_uses(architecture, &layers[i]) ||
            (layers[i].piece >= 0 ? !place->row->pieces[0] || layers[i].piece != place->piece
                                  : place->row->pieces[0] != NULL))
            continue;
        if (place->layer >= 0)
            snprintf(name, size, "blk.%lld.%s.%s", (long long)place->layer, layers[i].name, ending);
        else
            snprintf(name, size, "%s.%s", layers[i].name, ending);
        return 1;
    }
    return 0;
}

EITP__PRIVATE int eitp__gguf_is_transposed(const eitp__parameter_row *row) {
    const int is_linear = row->slot < EITP__LINEAR_SLOTS || row->slot == EITP__MLP_GATE;
    return is_linear && row->part == EITP__WEIGHT && !row->is_transposed;
}

EITP__PRIVATE int eitp__gguf_is_norm(const eitp__parameter_row *row) {
    switch (row->slot) {
    case EITP__ATTENTION_NORM:
    case EITP__MLP_NORM:
    case EITP__QUERY_NORM:
    case EITP__KEY_NORM:
    case EITP__ATTENTION_OUTPUT_NORM:
    case EITP__MLP_OUTPUT_NORM:
    case EITP__FINAL_NORM:
        return row->part == EITP__WEIGHT;
    default:
        return 0;
    }
}
