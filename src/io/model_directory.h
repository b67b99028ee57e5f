/* What other modules use of model directories. */
#ifndef EITP_MODEL_DIRECTORY_H
#define EITP_MODEL_DIRECTORY_H

#include "base/platform.h"
#include "io/io.h"

#define EITP__GENERATION_FILE "generation_config.json"

/* Keeps what a directory's generation_config.json says, beside special tokens, for when the model is saved. */
EITP__PRIVATE eitp_status eitp__model_keep_generation(eitp_model *model, const char *directory, eitp_error *error);

/* Reads a model.safetensors that eitp_model_save wrote; where `loads` is 0, only its checks and the checksum. */
EITP__PRIVATE eitp_status eitp__model_read(eitp_model *model, const char *path, int loads, uint32_t *checksum,
                                           eitp_error *error);

#endif
