/* The AdamW update of a piece of a parameter. */
#include "optim/update_rules.h"

static int eitp__has_8bit_moments(const eitp_optimizer_config *config, const eitp_tensor *parameter) {
    return config->moments == EITP_MOMENTS_8BIT && parameter->rank > 1;
}

static eitp_tensor *eitp__moment(const eitp_tensor *parameter, const char *kind, eitp_dtype dtype) {
    return eitp__state_tensor(parameter, kind, dtype, parameter->rank, parameter->shape);
}

static eitp_tensor *eitp__moment_scales(const eitp_tensor *parameter, const char *kind) {
    int64_t groups = (eitp__elements(parameter) + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    return eitp__state_tensor(parameter, kind, EITP_BF16, 1, &groups);
}

/* The scales of the piece's rows. */
static eitp_tensor *eitp__piece_scales(const eitp__update_piece *piece, eitp_tensor *scales) {
    int64_t columns = eitp__elements(piece->parameter) / piece->parameter->shape[0];
    int64_t end = (piece->end * columns + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    return scales ? eitp__rows(scales, piece->begin * columns / EITP__MOMENT_GROUP, end) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__adamw_node(const eitp_optimizer_config *config, const eitp_update *update,
                                            const eitp__update_piece *piece) {
    eitp_tensor *parameter = piece->parameter, *inputs[10] = EITP__ZERO;
    eitp__attributes attributes = EITP__ZERO;
    int is_8bit = eitp__has_8bit_moments(config, parameter);
    eitp__node *node;
    attributes.reals[0] = config->beta1;
    attributes.reals[1] = config->beta2;
    attributes.reals[2] = config->epsilon;
    attributes.reals[3] = eitp__weight_decay(config, parameter);
    inputs[9] = eitp__update_operands(update, piece, inputs, &attributes);
    inputs[2] =
        eitp__piece_of(piece, eitp__moment(parameter, EITP__STATE_M, is_8bit ? EITP_I8 : eitp__wide(parameter->dtype)));
    inputs[3] =
        eitp__piece_of(piece, eitp__moment(parameter, EITP__STATE_V, is_8bit ? EITP_U8 : eitp__wide(parameter->dtype)));
    if (is_8bit) {
        inputs[7] = eitp__piece_scales(piece, eitp__moment_scales(parameter, EITP__STATE_M_SCALE));
        inputs[8] = eitp__piece_scales(piece, eitp__moment_scales(parameter, EITP__STATE_V_SCALE));
    }
    node = eitp__node_create(parameter->graph, EITP__OP_ADAMW, inputs, 10, &attributes);
    return node ? node->outputs[3] : NULL;
}
