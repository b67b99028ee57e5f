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

/* The matrix of a slot as products see it: the parameter, with what its adapter adds in F32. NULL if a model of the
   configuration has none. `layer` is the number of the block, -1 outside blocks. */
EITP__PRIVATE eitp_tensor *eitp__slot_matrix(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, int64_t layer, eitp__model_slot slot,
                                             const eitp_lora_config *lora);

/* x with dropout; x itself if `key` is NULL. */
EITP__PRIVATE eitp_tensor *eitp__dropout_with(eitp_tensor *x, eitp_tensor *key, double probability);

/* The factor of attention scores in block `layer`. */
EITP__PRIVATE double eitp__attention_scale(const eitp_transformer_config *config, int64_t layer);

#endif
