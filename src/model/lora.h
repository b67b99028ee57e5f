/* Adapters of a linear layer: their configuration, their parameters, and what they add. */
#ifndef EITP_LORA_H
#define EITP_LORA_H

#include "model/parameters.h"

EITP__PRIVATE eitp_status eitp__lora_config_check(const eitp_lora_config *config, eitp_error *error);
EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b);

/* What B A is multiplied by. */
EITP__PRIVATE double eitp__lora_scale(const eitp_lora_config *config);

/* Adapters in a fixed order: how many parameters they have, and number `index`; each A is followed by its B. */
EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config);
EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index);

/* True if it is the name of a parameter of adapters. */
EITP__PRIVATE int eitp__lora_is_adapter(const char *name);

/*
 * What the adapter of a block's linear layer adds for x; NULL where it has none. `config` NULL: no adapters; `key`
 * NULL: no dropout.
 */
EITP__PRIVATE eitp_tensor *eitp__lora_apply(eitp_tensor *x, const eitp_transformer_config *model, const char *block,
                                            eitp__model_slot slot, const eitp_lora_config *config, eitp_tensor *key);

#endif
