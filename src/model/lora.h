/* Adapters of a linear layer: configuration, parameters and output. */
#ifndef EITP_LORA_H
#define EITP_LORA_H

#include "base/settings.h"
#include "model/lora_saved.h"

EITP__PRIVATE eitp_status eitp__lora_config_check(const eitp_lora_config *config, eitp_error *error);
EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b);

/* Returns the factor of B A. */
EITP__PRIVATE double eitp__lora_scale(const eitp_lora_config *config);

/* Return the number of adapter parameters, and the one at `index`, in a fixed order. Each A is followed by its B. */
EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config);
EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index);

/* Returns the weight that the adapter of parameter `index` is added to, starting at column *column. */
EITP__PRIVATE eitp__parameter eitp__lora_weight(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                int64_t index, int64_t *column);

/* True if a parameter of an adapter has this name. */
EITP__PRIVATE int eitp__lora_is_adapter(const char *name);

/* Returns the output of a linear layer's adapter for x, or NULL if the layer has none. `block` and `number` are the
   name and number of its block, NULL and -1 outside blocks. `config` NULL: no adapters. `key` NULL: no dropout. */
EITP__PRIVATE eitp_tensor *eitp__lora_apply(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                            int64_t number, eitp__model_slot slot, const eitp_lora_config *config,
                                            eitp_tensor *key);

/* Returns the scaled product of A and B that a linear layer's adapter adds to its weight [in, out], F32. NULL if the
   layer has none. */
EITP__PRIVATE eitp_tensor *eitp__lora_product(eitp_graph *graph, const eitp_transformer_config *model,
                                              const char *block, int64_t number, eitp__model_slot slot,
                                              const eitp_lora_config *config);

/* Returns the table of settings of eitp_lora_config except the targets, with defaults and bounds. Stores their number
   in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__lora_setting_table(size_t *count);

#endif
