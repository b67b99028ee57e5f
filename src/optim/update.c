#include "optim/update.h"
#include "tensor/variable.h"

EITP__PRIVATE eitp_tensor *eitp__state_tensor(const eitp_tensor *parameter, const char *kind, eitp_dtype dtype,
                                              int rank, const int64_t *shape) {
    eitp__child_info child = EITP__ZERO;
    child.kind = kind;
    child.role = EITP_OPTIMIZER;
    child.dtype = dtype;
    child.rank = rank;
    child.shape = shape;
    return eitp__child_tensor(parameter, &child);
}

/* The remainder of a 16-bit parameter; NULL if it has none. */
static eitp_tensor *eitp__remainder_tensor(const eitp_tensor *parameter) {
    const eitp_context *context = parameter->graph->context;
    const eitp_variable variable = eitp_variable_at(context, (size_t)parameter->variable);
    eitp__child_info child;
    return eitp__remainder_child(context, &variable, &child) ? eitp__child_tensor(parameter, &child) : NULL;
}

EITP__PRIVATE int eitp__is_rounded(const eitp_tensor *parameter) {
    return parameter->dtype == EITP_BF16 && parameter->graph->context->parameters == EITP_PARAMETERS_ROUNDED;
}

EITP__PRIVATE double eitp__weight_decay(const eitp_optimizer_config *config, const eitp_tensor *parameter) {
    eitp_context *context = parameter->graph->context;
    return eitp_variable_at(context, (size_t)parameter->variable).decay ? config->weight_decay : 0;
}

EITP__PRIVATE eitp_tensor *eitp__piece_of(const eitp__update_piece *piece, eitp_tensor *variable) {
    return variable && variable->rank ? eitp__rows(variable, piece->begin, piece->end) : variable;
}

EITP__PRIVATE eitp_tensor *eitp__append_blocks(eitp_tensor *blocks, eitp_tensor *more) {
    eitp_tensor *both[2];
    both[0] = blocks;
    both[1] = more;
    return blocks ? eitp_concat(both, 2, 0) : more;
}

EITP__PRIVATE void eitp__sum_piece_squares(eitp__update_piece *piece, const eitp__update_piece *before) {
    eitp_tensor *sums = eitp__apply(EITP__OP_SUM_SQUARES, &piece->gradient, 1, NULL);
    piece->squares = eitp__append_blocks(before ? before->squares : NULL, sums);
}

/* The rng stream of a parameter's update, from its name. It is in the upper half, which graphs do not assign. */
static int64_t eitp__update_rng_stream(const eitp_tensor *parameter) {
    uint64_t key = eitp__name_key(eitp__variable_name(parameter));
    return (int64_t)(0x80000000u | (uint32_t)(key ^ key >> 32));
}

EITP__PRIVATE eitp_tensor *eitp__update_operands(const eitp_update *update, const eitp__update_piece *piece,
                                                 eitp_tensor **inputs, eitp__attributes *attributes) {
    eitp_tensor *parameter = piece->parameter;
    attributes->integers[0] = eitp__update_rng_stream(parameter);
    attributes->integers[1] = parameter->rank ? piece->begin * (eitp__elements(parameter) / parameter->shape[0]) : 0;
    inputs[0] = eitp__piece_of(piece, parameter);
    inputs[1] = piece->gradient;
    inputs[4] = piece->rate_and_step;
    inputs[5] = update->commit;
    inputs[6] = eitp__piece_of(piece, eitp__remainder_tensor(parameter));
    return eitp__is_rounded(parameter) ? update->key : NULL;
}
