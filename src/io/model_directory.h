/* Parts of model directories, for other modules. */
#ifndef EITP_MODEL_DIRECTORY_H
#define EITP_MODEL_DIRECTORY_H

#include "base/platform.h"
#include "io/io.h"

#define EITP__GENERATION_FILE "generation_config.json"

/* Keeps the members of a directory's generation_config.json other than special tokens, for eitp_model_save. */
EITP__PRIVATE eitp_status eitp__model_keep_generation(eitp_model *model, const char *directory, eitp_error *error);

/* Reads a model.safetensors written by eitp_model_save; if `loads` is 0, only its checks and the checksum. */
EITP__PRIVATE eitp_status eitp__model_read(eitp_model *model, const char *path, int loads, uint32_t *checksum,
                                           eitp_error *error);

#endif
