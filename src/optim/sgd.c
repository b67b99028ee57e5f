/* The SGD update of a piece of a parameter. */
#include "optim/update_rules.h"

EITP__PRIVATE eitp_tensor *eitp__sgd_node(const eitp_optimizer_config *config, const eitp_update *update,
                                          const eitp__update_piece *piece) {
    eitp_tensor *parameter = piece->parameter, *inputs[8] = EITP__ZERO;
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.reals[0] = config->beta1;
    attributes.reals[3] = eitp__weight_decay(config, parameter);
    inputs[7] = eitp__update_operands(update, piece, inputs, &attributes);
    inputs[2] = eitp__piece_of(piece, eitp__state_tensor(parameter, EITP__STATE_VELOCITY, eitp__wide(parameter->dtype),
                                                         parameter->rank, parameter->shape));
    node = eitp__node_create(parameter->graph, EITP__OP_SGD, inputs, 8, &attributes);
    return node ? node->outputs[2] : NULL;
}
