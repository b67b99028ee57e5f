/* Files of adapters. */
#ifndef EITP_LORA_FILES_H
#define EITP_LORA_FILES_H

#include "io/io.h"
#include "model/lora.h"
#include "io/variables.h"
#include "model/transformer.h"

#define EITP__LORA_CONFIG_FILE "adapter_config.json"
#define EITP__LORA_WEIGHTS_FILE "adapter_model.safetensors"
#define EITP__LORA_OTHERS_FILE "parameters.safetensors"

/* PEFT wraps the model in two modules with these names. */
#define EITP__LORA_PREFIX "base_model.model."

/* Writes adapter_config.json; `base` may be NULL. */
EITP__PRIVATE eitp_status eitp__lora_config_write(const eitp_host *host, const char *path,
                                                  const eitp_transformer_config *model, const eitp_lora_config *config,
                                                  const char *base, eitp_error *error);

/* Fails unless an adapter_config.json declares that the modules it saves stay tied. */
EITP__PRIVATE eitp_status eitp__lora_config_check_tied(const eitp_host *host, const char *directory, eitp_error *error);

/* eitp_lora_load without eitp__lora_check_base; for a model with adapters it can be limited to the checks. */
EITP__PRIVATE eitp_status eitp__lora_read(eitp_model *model, const char *directory, eitp__reading reading,
                                          eitp__read_sums *sums, eitp_error *error);

/* eitp_lora_save; `checksum` and `output`, which may be NULL, are for adapter_model.safetensors. */
EITP__PRIVATE eitp_status eitp__lora_save(eitp_model *model, const char *directory, const char *base,
                                          uint32_t *checksum, eitp__file_output *output, eitp_error *error);

/* Computes the CRC-32C of the bytes of the frozen parameters, which eitp__lora_check_base compares. */
EITP__PRIVATE eitp_status eitp__lora_base_checksum(const eitp_model *model, uint32_t *checksum, eitp_error *error);

/* Parameters that are saved separately from a model: a learner's and, if the model has adapters, any others that are
   trained, such as a task's own head. These functions check if there are any, write their file, and read it. */
EITP__PRIVATE int eitp__lora_has_separate(const eitp_context *context, int has_adapters);
EITP__PRIVATE eitp_status eitp__lora_save_others(eitp_context *context, int has_adapters, const char *directory,
                                                 uint32_t *checksum, eitp__file_output *output, eitp_error *error);
EITP__PRIVATE eitp_status eitp__lora_read_others(eitp_context *context, int has_adapters, const char *path,
                                                 eitp__reading reading, eitp__read_sums *sums, eitp_error *error);

/*
 * Checks that a model has the weights that the adapters in a directory were trained on: EITP_ERROR_ARGUMENT if not. A
 * checkpoint has their checksum, in the precision of its run. If the model has rounded its values differently, the
 * files it was loaded from are compared. Adapters without eitp's trainer_state.json, such as PEFT's, are accepted for
 * any weights.
 */
EITP__PRIVATE eitp_status eitp__lora_check_base(const eitp_model *model, const char *directory, eitp_error *error);

#endif
