/* Rotary positions and layers with a window in config.json, beyond single keys. */
#ifndef EITP_DECODER_CONFIG_H
#define EITP_DECODER_CONFIG_H

#include "base/json.h"
#include "model/architecture.h"

/* True if the config.json of an architecture lists the types of layers. */
EITP__PRIVATE int eitp__has_layer_types(const eitp_architecture *architecture);

/*
 * Reads rope_parameters and rope_scaling (the latter takes precedence, as in transformers),
 * original_max_position_embeddings, and layer_types. EITP_ERROR_UNSUPPORTED for types of scaling that eitp does not
 * compute; EITP_ERROR_FORMAT if a member that transformers requires is missing.
 */
EITP__PRIVATE eitp_status eitp__config_read_decoder(const eitp_json *root, eitp_transformer_config *config,
                                                    eitp_error *error);

/* Adds rope_scaling and layer_types as members of an object, each followed by a comma and a line feed. */
EITP__PRIVATE void eitp__config_write_decoder(eitp__buffer *text, const eitp_transformer_config *config);

/* Returns the rotary positions of layers with a window (is_local) or without, with the width of the model's heads. */
EITP__PRIVATE eitp_rotary_config eitp__config_rotary(const eitp_transformer_config *config, int is_local);

/* Checks that the configuration has rotary positions if the architecture does, and that they can be computed. */
EITP__PRIVATE eitp_status eitp__config_check_rotary(const eitp_transformer_config *config, eitp_error *error);

#endif
