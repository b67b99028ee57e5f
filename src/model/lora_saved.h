/* Which parameters are trained whole beside adapters, and their modules' names. */
#ifndef EITP_LORA_SAVED_H
#define EITP_LORA_SAVED_H

#include "model/lora_targets.h"

/* All of eitp_lora_saved. */
enum { EITP__LORA_SAVED_ALL = EITP_LORA_SAVES_EMBEDDING | EITP_LORA_SAVES_HEAD };

/* True if the parameter of a model with adapters is trained and saved with them: that of a classifier, and those of the
   modules in `saved`, a sum of eitp_lora_saved. */
EITP__PRIVATE int eitp__lora_keeps(const eitp_transformer_config *model, unsigned saved,
                                   const eitp__parameter *parameter);

/* Fails if the model lacks a module of `saved`. */
EITP__PRIVATE eitp_status eitp__lora_saved_check(const eitp_transformer_config *model, unsigned saved,
                                                 eitp_error *error);

#endif
