/* Functions for parts of model directories, for other modules. */
#ifndef EITP_MODEL_DIRECTORY_H
#define EITP_MODEL_DIRECTORY_H

#include "io/latent_directory.h"
#include "io/variables.h"
#include "model/architecture.h"

#define EITP__WEIGHTS_FILE "model.safetensors"
#define EITP__OPTIMIZER_FILE "optimizer.safetensors" /* in a checkpoint, also has the lower planes of its weights */
#define EITP__GENERATION_FILE "generation_config.json"

/* Keeps the members that eitp_model_save does not write itself: of a directory's config.json, and of
   generation_config.json, other than special tokens. With a latent variable they come from encoder and decoder. */
EITP__PRIVATE eitp_status eitp__model_keep_members(eitp_model *model, const char *directory, eitp_error *error);

/* Copies the members of a config.json that eitp__transformer_config_write does not write itself, for its `kept`
   argument. The caller releases *keys, which is unchanged if there is no such file. */
EITP__PRIVATE eitp_status eitp__config_other_keys(const eitp_host *host, const eitp_architecture *architecture,
                                                  const char *path, char **keys, eitp_error *error);

/* Returns whether a parameter of the model is visited, and receives its next values. */
typedef int (*eitp__parameter_choice)(void *user, const eitp_model *model, const eitp__parameter *parameter);
typedef void (*eitp__values_visit)(void *user, const eitp__parameter *parameter, const float *values, size_t count);

/* Visits parameters in order, with the exact values of the directory that the model's weights were loaded from, in
   blocks of up to `capacity` elements, which are read into `values`: memory does not depend on the model's size. Only
   parameters that the directory lacks, such as a new head's, are initialized whole. */
EITP__PRIVATE eitp_status eitp__model_visit_source(const eitp_model *model, eitp__parameter_choice chooses,
                                                   float *values, int64_t capacity, eitp__values_visit visit,
                                                   void *user, eitp_error *error);

/* A file of weights in a model directory, and its contents. */
typedef struct eitp__model_file {
    const char *name; /* in the directory */
    eitp__selection selection;
} eitp__model_file;

/* Lists the files that eitp_model_save writes weights to, and returns their number: one, or with a latent variable
   three, for the latent variable, the decoder and the encoder. */
enum { EITP__MODEL_FILES = 3 };
EITP__PRIVATE int eitp__model_files(const eitp_model *model, eitp__model_file files[EITP__MODEL_FILES]);

/* Writes the other files of eitp_model_save, and creates the directories. */
EITP__PRIVATE eitp_status eitp__model_save_configs(eitp_model *model, const char *directory, eitp_save_dtype dtype,
                                                   int32_t end_of_text, eitp_error *error);

/* For a model whose weights are not loaded, makes EITP_SAVE_AS_LOADED save as if they had been loaded with this
   dtype. */
EITP__PRIVATE void eitp__model_presume_dtype(eitp_model *model, eitp_dtype dtype);

/*
 * Reads the latent variable's settings in the config.json of a directory, and the encoder's configuration. The
 * directory of a model with a latent variable has config.json, with model_type "vae", its projections in
 * model.safetensors, and two model directories, "encoder" and "decoder", with their tokenizers; eitp_model_config_read
 * reads the decoder's. For any other directory config->size is set to 0.
 */
EITP__PRIVATE eitp_status eitp__latent_config_read(const eitp_host *host, const char *directory,
                                                   eitp_latent_config *config, eitp_error *error);

/* Reads a classifier's label names from the config.json of a directory, if their number matches. Does not need the
   weights. */
EITP__PRIVATE eitp_status eitp__model_read_labels(eitp_model *model, const char *directory, eitp_error *error);

#endif
