/* Parts of adapters' files. */
#ifndef EITP_LORA_FILES_H
#define EITP_LORA_FILES_H

#include "io/io.h"
#include "model/lora.h"
#include "model/transformer.h"

#define EITP__LORA_CONFIG_FILE "adapter_config.json"
#define EITP__LORA_WEIGHTS_FILE "adapter_model.safetensors"
#define EITP__LORA_OTHERS_FILE "parameters.safetensors"

/* Writes adapter_config.json; `base` may be NULL. */
EITP__PRIVATE eitp_status eitp__lora_config_write(const eitp_host *host, const char *path,
                                                  const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const char *base, eitp_error *error);

/* eitp_lora_load, or, for a model that has adapters, only its checks and the checksum. */
EITP__PRIVATE eitp_status eitp__lora_read(eitp_model *model, const char *directory, int loads, uint32_t *checksum,
                                          eitp_error *error);

/* The CRC-32C of the bytes of the parameters that adapters leave as they are. */
EITP__PRIVATE eitp_status eitp__lora_base_checksum(const eitp_model *model, uint32_t *checksum, eitp_error *error);

/* Parameters that are trained beside adapters, as a task's own head is: whether there are any, and their file. Where
   `loads` is 0 it is only checked. */
EITP__PRIVATE int eitp__lora_has_others(const eitp_context *context);
EITP__PRIVATE eitp_status eitp__lora_save_others(eitp_context *context, const char *directory, uint32_t *checksum,
                                                 eitp_error *error);
EITP__PRIVATE eitp_status eitp__lora_read_others(eitp_context *context, const char *path, int loads, uint32_t *checksum,
                                                 eitp_error *error);

#endif
