/* Checking and parsing configurations, for other modules. */
#ifndef EITP_TRANSFORMER_CONFIG_H
#define EITP_TRANSFORMER_CONFIG_H

#include "model/architecture.h"
#include "model/labels.h"

/* Replaces placeholders: inner, key_value_heads and head_width 0, and classifier_dropout below 0. */
EITP__PRIVATE void eitp__config_complete(eitp_transformer_config *config);

/* Checks that sizes are positive, consistent, and small enough that no product of them overflows. */
EITP__PRIVATE eitp_status eitp__transformer_config_check(const eitp_transformer_config *config, eitp_error *error);

/* Reads the members of a config.json for an architecture, regardless of its model_type. */
EITP__PRIVATE eitp_status eitp__transformer_config_parse(const eitp_json *root, const eitp_architecture *architecture,
                                                         eitp_transformer_config *config, eitp_error *error);

/* Like eitp_transformer_config_write, with label names, and with the members `kept`, each followed by a comma and a
   line feed. Either may be NULL: none are written. */
EITP__PRIVATE eitp_status eitp__transformer_config_write(const eitp_host *host, const char *path,
                                                         const eitp_transformer_config *config,
                                                         const eitp__labels *labels, const char *kept,
                                                         int32_t end_of_text, eitp_dtype dtype, eitp_error *error);

/* True if saving a model keeps this member of a config.json, because eitp does not write it itself. */
EITP__PRIVATE int eitp__config_preserves(const eitp_architecture *architecture, const eitp_json *member);

/* Reads bos_token_id, eos_token_id and pad_token_id, each a number, a list, or null for none. Missing members leave the
   configuration unchanged. */
EITP__PRIVATE eitp_status eitp__config_read_special_tokens(const eitp_json *root, eitp_transformer_config *config,
                                                           eitp_error *error);

/* Adds the special tokens as members of an object, each followed by a comma and a line feed. */
EITP__PRIVATE void eitp__config_write_special_tokens(eitp__buffer *text, const eitp_transformer_config *config);

/* True if `id` is in the list. eitp__token_ids_add adds it if it is missing and there is room. */
EITP__PRIVATE int eitp__token_ids_have(const eitp_token_ids *ids, int32_t id);
EITP__PRIVATE void eitp__token_ids_add(eitp_token_ids *ids, int32_t id);

/* See eitp_model_set_special_tokens. */
EITP__PRIVATE void eitp__config_set_special_tokens(eitp_transformer_config *config, int32_t begin, int32_t end,
                                                   int32_t padding);

#endif
