#include "optim/update.h"
#include "tensor/variable.h"

/* Returns the variable of a state. */
static eitp_tensor *eitp__state_tensor(const eitp_tensor *parameter, const eitp__state_info *state) {
    const eitp_tensor like = eitp__state_like(parameter, state->form);
    eitp__child_info child = EITP__ZERO;
    child.kind = state->kind;
    child.role = EITP_OPTIMIZER;
    child.dtype = like.dtype;
    child.rank = like.rank;
    child.shape = like.shape;
    return eitp__child_tensor(parameter, &child);
}

EITP__PRIVATE eitp_tensor *eitp__state_of_form(const eitp__update_piece *piece, eitp__state_form form) {
    const eitp__state_info *state = piece->method->states;
    while (state->form != form)
        state++;
    return eitp__state_tensor(piece->parameter, state);
}

/* Returns the remainder of a 16-bit parameter, or NULL if it has none. */
static eitp_tensor *eitp__remainder_tensor(const eitp_tensor *parameter) {
    const eitp_context *context = parameter->graph->context;
    const eitp_variable variable = eitp_variable_at(context, (size_t)parameter->variable);
    eitp__child_info child;
    return eitp__remainder_child(context, &variable, &child) ? eitp__child_tensor(parameter, &child) : NULL;
}

EITP__PRIVATE int eitp__is_rounded(const eitp_tensor *parameter) {
    return parameter->dtype == EITP_BF16 && parameter->graph->context->parameters == EITP_PARAMETERS_ROUNDED;
}

static double eitp__weight_decay(const eitp_optimizer_config *config, const eitp_tensor *parameter) {
    eitp_context *context = parameter->graph->context;
    return eitp_variable_at(context, (size_t)parameter->variable).decay ? config->weight_decay : 0;
}

/* Returns the piece's rows of a variable with the parameter's shape, or NULL if the variable is NULL. */
static eitp_tensor *eitp__piece_of(const eitp__update_piece *piece, eitp_tensor *variable) {
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

/* Returns the rng stream of a parameter's update, derived from its name. It is in the upper half, which graphs do not
   assign. */
static int64_t eitp__update_rng_stream(const eitp_tensor *parameter) {
    uint64_t key = eitp__name_key(eitp__variable_name(parameter));
    return (int64_t)(0x80000000u | (uint32_t)(key ^ key >> 32));
}

/* Returns the piece's part of a state. */
static eitp_tensor *eitp__piece_of_state(const eitp__update_piece *piece, eitp_tensor *state, eitp__state_form form) {
    const eitp_tensor *parameter = piece->parameter;
    int64_t rows = parameter->rank ? parameter->shape[0] : 1, columns = eitp__elements(parameter) / rows, each;
    if (!state || !state->rank || form == EITP__FORM_COLUMNS || form == EITP__FORM_DIRECTIONS)
        return state;
    if (form == EITP__FORM_SCALES)
        return eitp__rows(state, piece->begin * columns / EITP__MOMENT_GROUP,
                          (piece->end * columns + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP);
    each = state->shape[0] / rows;
    return eitp__rows(state, piece->begin * each, piece->end * each);
}

/* Fills in the states that the update of a piece reads or changes. */
static void eitp__update_states(const eitp__update_piece *piece, eitp_tensor **inputs) {
    for (int i = 0; i < EITP__UPDATE_STATES; i++) {
        const eitp__state_info *state = &piece->method->states[i];
        eitp_tensor *whole = piece->states[i];
        if (state->form && !whole)
            whole = eitp__state_tensor(piece->parameter, state);
        inputs[EITP__UPDATE_STATE + i] = eitp__piece_of_state(piece, whole, state->form);
    }
}

EITP__PRIVATE eitp_tensor *eitp__update_node(const eitp_optimizer_config *config, const eitp_update *update,
                                             const eitp__update_piece *piece) {
    eitp_tensor *parameter = piece->parameter, *inputs[EITP__UPDATE_INPUTS] = EITP__ZERO;
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.integers[0] = eitp__update_rng_stream(parameter);
    attributes.integers[1] = parameter->rank ? piece->begin * (eitp__elements(parameter) / parameter->shape[0]) : 0;
    attributes.integers[2] = piece->method->rule;
    attributes.reals[0] = config->beta1;
    attributes.reals[1] = config->beta2;
    attributes.reals[2] = config->epsilon;
    attributes.reals[3] = eitp__weight_decay(config, parameter);
    inputs[EITP__UPDATE_PARAMETER] = eitp__piece_of(piece, parameter);
    inputs[EITP__UPDATE_GRADIENT] = piece->gradient;
    inputs[EITP__UPDATE_RATE] = piece->rate_and_step;
    inputs[EITP__UPDATE_COMMIT] = update->commit;
    inputs[EITP__UPDATE_REMAINDER] = eitp__piece_of(piece, eitp__remainder_tensor(parameter));
    inputs[EITP__UPDATE_KEY] = eitp__is_rounded(parameter) ? update->key : NULL;
    eitp__update_states(piece, inputs);
    node = eitp__node_create(parameter->graph, EITP__OP_UPDATE, inputs, EITP__UPDATE_INPUTS, &attributes);
    return node ? node->outputs[1] : NULL;
}
