/* Parameters trained in full alongside adapters, and the names of their modules. */
#ifndef EITP_LORA_SAVED_H
#define EITP_LORA_SAVED_H

#include "model/lora_targets.h"

/* The sum of all eitp_lora_saved. */
enum { EITP__LORA_SAVED_ALL = EITP_LORA_SAVES_EMBEDDING | EITP_LORA_SAVES_HEAD };

/* True if the parameter of a model with adapters is trained and saved with them: a classifier's parameters, and those
   of modules in `saved`, a sum of eitp_lora_saved. */
EITP__PRIVATE int eitp__lora_trains(const eitp_transformer_config *model, unsigned saved,
                                    const eitp__parameter *parameter);

/* Fails if the model lacks a module of `saved`. */
EITP__PRIVATE eitp_status eitp__lora_saved_check(const eitp_transformer_config *model, unsigned saved,
                                                 eitp_error *error);

#endif
