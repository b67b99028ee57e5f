/* Parts of model directories, for other modules. */
#ifndef EITP_MODEL_DIRECTORY_H
#define EITP_MODEL_DIRECTORY_H

#include "io/variables.h"
#include "model/architecture.h"

#define EITP__GENERATION_FILE "generation_config.json"

/* Keeps the members of a directory's generation_config.json other than special tokens, for eitp_model_save. */
EITP__PRIVATE eitp_status eitp__model_keep_generation(eitp_model *model, const char *directory, eitp_error *error);

/* Says whether a parameter of the model is visited, and receives the next of its values. */
typedef int (*eitp__parameter_choice)(void *user, const eitp_model *model, const eitp__parameter *parameter);
typedef void (*eitp__values_visit)(void *user, const eitp__parameter *parameter, const float *values, size_t count);

/* Visits parameters in order, with the exact values of the directory that the model's weights were loaded from, in
   blocks of up to `capacity` elements, which are read into `values`: memory does not depend on the model's size. Only
   parameters that the directory lacks, such as those of a new head, are initialized whole. */
EITP__PRIVATE eitp_status eitp__model_visit_source(const eitp_model *model, eitp__parameter_choice chooses,
                                                   float *values, int64_t capacity, eitp__values_visit visit,
                                                   void *user, eitp_error *error);

/* eitp_model_save for checkpoints too: `checksum` receives that of the tensors; `output` is that of model.safetensors.
   Both may be NULL. */
EITP__PRIVATE eitp_status eitp__model_save(eitp_model *model, const char *directory, eitp_dtype dtype,
                                           int32_t end_of_text, uint32_t *checksum, eitp__file_output *output,
                                           eitp_error *error);

/* Reads a model.safetensors written by eitp_model_save. */
EITP__PRIVATE eitp_status eitp__model_read(eitp_model *model, const char *path, eitp__reading reading,
                                           eitp__read_sums *sums, eitp_error *error);

#endif
