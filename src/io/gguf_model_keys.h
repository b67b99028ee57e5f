/* The keys of a model's configuration in a GGUF file. */
#ifndef EITP_GGUF_MODEL_KEYS_H
#define EITP_GGUF_MODEL_KEYS_H

#include "gguf/architectures.h"
#include "gguf/writer.h"
#include "model/architecture.h"

/* Finds the architecture of a GGUF file for a configuration; see eitp__gguf_put_model. */
EITP__PRIVATE eitp_status eitp__gguf_check_config(const eitp_transformer_config *config,
                                                  const eitp__gguf_architecture **format, eitp_error *error);

EITP__PRIVATE void eitp__gguf_put_config(const eitp_transformer_config *config, const eitp__gguf_architecture *format,
                                         eitp__gguf_writer *writer);

#endif
