/* Layers of an architecture in a graph, by slot. `block` is the name of a block, or NULL outside blocks. */
#ifndef EITP_LAYERS_H
#define EITP_LAYERS_H

#include "model/lora.h"

/* Returns the parameter of a slot, or NULL if the architecture has none. */
EITP__PRIVATE eitp_tensor *eitp__slot_tensor(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, eitp__model_slot slot, eitp__part part);

/* Applies the norm of a slot to x. Returns x if the architecture has none. */
EITP__PRIVATE eitp_tensor *eitp__slot_norm(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                           eitp__model_slot slot);

/* Applies a linear layer of block `layer` to x, with its adapter if any, then the activation. */
EITP__PRIVATE eitp_tensor *eitp__slot_linear(eitp_tensor *x, const eitp_transformer_config *config, const char *block,
                                             int64_t layer, eitp__model_slot slot, const eitp_block_inputs *inputs,
                                             eitp_activation activation);

/* Returns the effective matrix of a slot: the parameter plus its adapter's product, in F32. NULL if a model of the
   configuration has none. `layer` is the number of the block, or -1 outside blocks. */
EITP__PRIVATE eitp_tensor *eitp__slot_matrix(eitp_graph *graph, const eitp_transformer_config *config,
                                             const char *block, int64_t layer, eitp__model_slot slot,
                                             const eitp_lora_config *lora);

/* Applies dropout to x. Returns x if `key` is NULL. */
EITP__PRIVATE eitp_tensor *eitp__dropout_with(eitp_tensor *x, eitp_tensor *key, double probability);

/* Returns the factor of attention scores in block `layer`. */
EITP__PRIVATE double eitp__attention_scale(const eitp_transformer_config *config, int64_t layer);

#endif
