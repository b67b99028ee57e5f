/* Layers of an architecture in a graph, by slot. `block` is the name of a block, NULL outside blocks. */
#ifndef EITP_LAYERS_H
#define EITP_LAYERS_H

#include "model/lora.h"

/* The parameter of a slot; NULL if the architecture has none. */
EITP__PRIVATE eitp_tensor *eitp__slot_tensor(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, eitp__model_slot slot, eitp__part part);

/* x through the layer norm of a slot; x itself if the architecture has none. */
EITP__PRIVATE eitp_tensor *eitp__slot_norm(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                           eitp__model_slot slot);

/* x through a linear layer of block `layer`, with its adapter if it has one, and the activation. */
EITP__PRIVATE eitp_tensor *eitp__slot_linear(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                             int64_t layer, eitp__model_slot slot, const eitp_block_inputs *inputs,
                                             eitp_activation activation);

/* x with dropout; x itself if `key` is NULL. */
EITP__PRIVATE eitp_tensor *eitp__dropout_with(eitp_tensor *x, eitp_tensor *key, double probability);

#endif
