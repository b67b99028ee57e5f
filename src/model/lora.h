/* The adapters' parameters, and what they add to a layer. */
#ifndef EITP_LORA_H
#define EITP_LORA_H

#include "model/transformer.h"

EITP__PRIVATE eitp_status eitp__lora_config_check(const eitp_lora_config *config, eitp_error *error);
EITP__PRIVATE int eitp__lora_configs_equal(const eitp_lora_config *a, const eitp_lora_config *b);

/* Adapters in a fixed order: how many parameters they have, and number `index`; each A is followed by its B. */
EITP__PRIVATE int64_t eitp__lora_parameter_count(const eitp_transformer_config *model, const eitp_lora_config *config);
EITP__PRIVATE eitp__parameter eitp__lora_parameter(const eitp_transformer_config *model, const eitp_lora_config *config,
                                                   int64_t index);

/* Is it the name of a parameter of adapters? */
EITP__PRIVATE int eitp__lora_is_adapter(const char *name);

/* What the adapter of a layer's linear `name` adds for x; NULL where it has none. `key` NULL: no dropout. */
EITP__PRIVATE eitp_tensor *eitp__lora_apply(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name,
                                            eitp_tensor *key);

#endif
