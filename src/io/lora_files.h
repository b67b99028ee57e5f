/* Parts of adapters' files. */
#ifndef EITP_LORA_FILES_H
#define EITP_LORA_FILES_H

#include "io/io.h"
#include "model/lora.h"
#include "model/transformer.h"

#define EITP__LORA_CONFIG_FILE "adapter_config.json"
#define EITP__LORA_WEIGHTS_FILE "adapter_model.safetensors"

/* Writes adapter_config.json; `base` may be NULL. */
EITP__PRIVATE eitp_status eitp__lora_config_write(const eitp_host *host, const char *path,
                                                  const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const char *base, eitp_error *error);

/* eitp_lora_load, or, for a model that has adapters, only its checks and the checksum. */
EITP__PRIVATE eitp_status eitp__lora_read(eitp_model *model, const char *directory, int loads, uint32_t *checksum,
                                          eitp_error *error);

/* The CRC-32C of the bytes of the parameters that adapters leave as they are. */
EITP__PRIVATE eitp_status eitp__lora_base_checksum(const eitp_model *model, uint32_t *checksum, eitp_error *error);

#endif
