/*
 * Model files: variables as safetensors, Hugging Face model directories, adapters, and checkpoints.
 *
 * `checksum` receives the CRC-32C of the tensors' bytes in the file, in the order of the variables. It may be NULL;
 * NULL for any other pointer is EITP_ERROR_ARGUMENT unless stated otherwise. A path that does not exist is
 * EITP_ERROR_ARGUMENT, any other failure to read or write EITP_ERROR_IO, invalid content EITP_ERROR_FORMAT.
 */
#ifndef EITP_IO_H
#define EITP_IO_H

#include "model/latent.h"

EITP_BEGIN_DECLARATIONS

/*
 * Writes all variables of a role to a safetensors file, floating-point ones as `dtype` (EITP_F32, EITP_F16 or
 * EITP_BF16). 16-bit parameters are written with the precision of their remainders. The file is replaced as a whole or
 * not at all.
 */
EITP_API eitp_status eitp_variables_save(eitp_context *context, const char *path, eitp_role role, eitp_dtype dtype,
                                         uint32_t *checksum, eitp_error *error);

/*
 * Reads all variables of a role from a safetensors file. The file must have a tensor of the same name and shape for
 * each variable, and no other tensors; F16, BF16 and F64 are converted. Variables are only changed once that is
 * checked.
 */
EITP_API eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                         eitp_error *error);

/* ---- Model directories ---- */

/*
 * Creates a model from a Hugging Face directory: config.json, and the weights in model.safetensors, the shards that
 * model.safetensors.index.json lists, pytorch_model.bin, or the shards that pytorch_model.bin.index.json lists (the
 * first of these that the directory has), in F32, F16, BF16 or F64. Of a pytorch_model.bin (torch 1.6 or later) only
 * plain tensors are read; nothing in it is executed, and anything else in it is EITP_ERROR_UNSUPPORTED. Tensor names
 * may lack the architecture's prefix, and norms may be called gamma and beta. Weights are read directly into the
 * parameters. On failure *model is NULL. Destroy the model before the context.
 */
EITP_API eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model,
                                     eitp_error *error);

/*
 * Reads the configuration of a model directory: config.json, with the special tokens of generation_config.json if it
 * has any. If config.json ties the output head to the token embedding, but the weights have a head that differs from
 * it, the configuration is untied and a warning is logged, as in transformers 5. `pooler` is 1 only if the weights have
 * one.
 */
EITP_API eitp_status eitp_model_config_read(const eitp_host *host, const char *directory,
                                            eitp_transformer_config *config, eitp_error *error);

/* Reads the dtype of most weights in a model directory: EITP_BF16, EITP_F16, or EITP_F32 for any other and for a
   directory without weights. */
EITP_API eitp_status eitp_model_dtype_read(const eitp_host *host, const char *directory, eitp_dtype *dtype,
                                           eitp_error *error);

/* How eitp_model_load_weights_with reads the head. Start from eitp_load_config_default(). */
typedef struct eitp_load_config {
    uint64_t seed;  /* of parameters that the directory lacks */
    int fresh_head; /* 1: initialize the head at random, whatever the directory has */
    /* 1: the same, without a word, for a head that is read afterwards, with adapters or a checkpoint */
    int head_is_replaced;
} eitp_load_config;

/* Seed 0; the head is the directory's, if it has one. */
EITP_API eitp_load_config eitp_load_config_default(void);

/*
 * Reads the weights of a model directory into a model created with its configuration, of which head, labels, problem
 * and dropout may be changed first. eitp_model_load is eitp_model_config_read, eitp_model_create and this; call them
 * separately to freeze parameters or add adapters before the parameters have values, which saves memory. A head or
 * pooler that the directory lacks is initialized at random, as in transformers: the log names its parameters, as a
 * warning if the directory's config.json has the model's head (see eitp_model_check_head), or fresh_head replaces one.
 * With a classifier the names of its labels are read too, if there are as many. EITP_ERROR_ARGUMENT if the directory
 * has no weights, if the model's head is tied and the weights have a head that differs from the token embedding, or if
 * the weights have a classifier with another number of labels.
 */
EITP_API eitp_status eitp_model_load_weights(eitp_model *model, const char *directory, eitp_error *error);
EITP_API eitp_status eitp_model_load_weights_with(eitp_model *model, const char *directory,
                                                  const eitp_load_config *config, eitp_error *error);

/*
 * The dtype of weights in files. EITP_SAVE_AS_LOADED: each parameter that was loaded has the dtype that it had there,
 * if that was F16 or BF16, and F32 otherwise; others have the dtype of most of the file's weights, so those of a model
 * that was not loaded are F32. The config.json of a model with weights of several dtypes names that of most of them.
 */
typedef enum eitp_save_dtype {
    EITP_SAVE_AS_LOADED = 0,
    EITP_SAVE_F32 = 1,
    EITP_SAVE_BF16 = 2,
    EITP_SAVE_F16 = 3
} eitp_save_dtype;

/* How eitp_model_save_with writes a model. Start from eitp_save_config_default(). */
typedef struct eitp_save_config {
    eitp_save_dtype dtype;
    int32_t end_of_text; /* replaces the special tokens, as in eitp_transformer_config_write; -1: those of the model */
} eitp_save_config;

/* EITP_SAVE_AS_LOADED, and the model's special tokens. */
EITP_API eitp_save_config eitp_save_config_default(void);

/*
 * Writes config.json, generation_config.json and model.safetensors, without adapters, to a directory, which is created
 * if missing. Weights are rounded to nearest, ties to even. Of the config.json and generation_config.json that the
 * weights were loaded with, members that eitp does not use are kept. Each file is replaced as a whole or not at all;
 * for the directory as a whole see eitp_directory_create. EITP_ERROR_ARGUMENT for another dtype, and if it cannot
 * represent a finite weight.
 */
EITP_API eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_error *error);
EITP_API eitp_status eitp_model_save_with(eitp_model *model, const char *directory, const eitp_save_config *config,
                                          eitp_error *error);

/* ---- Adapters, in the format of Hugging Face's PEFT ---- */

/*
 * Writes adapter_config.json and adapter_model.safetensors (F32) to a directory, which is created if missing. `base` is
 * the name or directory of the base model; NULL: the directory its weights were loaded from. EITP_ERROR_ARGUMENT if the
 * model has no adapters.
 */
EITP_API eitp_status eitp_lora_save(eitp_model *model, const char *directory, const char *base, eitp_error *error);

/*
 * Reads adapters into a model. A model without adapters gets them, as by eitp_model_add_lora; otherwise the
 * configurations must be equal. Missing, unexpected and misshapen tensors are EITP_ERROR_FORMAT, and a
 * model without the weights that the adapters were trained on is EITP_ERROR_ARGUMENT, before anything is changed: a
 * checkpoint has their checksum, in the precision of its run. Adapters without eitp's trainer_state.json, such as
 * PEFT's, go with any weights.
 */
EITP_API eitp_status eitp_lora_load(eitp_model *model, const char *directory, eitp_error *error);

/*
 * Reads adapter_config.json. A member that enables an unsupported feature (DoRA, biases, rank patterns, whole modules)
 * fails with EITP_ERROR_UNSUPPORTED, as does an unknown member that is not null, false or empty. `architecture` is that
 * of the model, as in eitp_lora_targets_parse; it may be NULL. `base`, which may be NULL, receives the name of the base
 * model; it is "" if the file has no name or the name is too long.
 *
 * The targets are the layers that target_modules names. If it is a regular expression, or with exclude_modules or
 * layers_to_transform, which select among them, they are the layers of which adapter_model.safetensors has tensors;
 * expressions are not evaluated. Tensors of layers that a list of names or layers_to_transform rule out are
 * EITP_ERROR_FORMAT.
 */
EITP_API eitp_status eitp_lora_config_read(const eitp_host *host, const char *directory,
                                           const eitp_architecture *architecture, eitp_lora_config *config, char *base,
                                           size_t base_size, eitp_error *error);

/* ---- Directories that appear whole or not at all ---- */

/* Start from eitp_directory_config_default(), then set `fill`. */
typedef struct eitp_directory_config {
    /* Writes and syncs the files, as eitp_model_save and eitp_tokenizer_save do, in the directory that it is given. */
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error);
    void *user;
    const char *const *names; /* files without which nothing loads the directory, in the order that they appear in */
    size_t name_count;
} eitp_directory_config;

/* No `fill`, and no names. */
EITP_API eitp_directory_config eitp_directory_config_default(void);

/*
 * Creates a directory whole or not at all, with its missing parents. `fill` writes to ".<name>.partial" beside `path`,
 * which is renamed when everything is durable. If `path` is a directory already, `fill` writes to ".eitp.partial" in
 * it, and the files are moved to it, those of `names` last, each once those before it are durable.
 * EITP_ERROR_ARGUMENT if that would replace a file, and at once if it has one of `names`, or if another process is
 * writing it. After a failure nothing is left. What a killed process or a power loss left is removed by the next call,
 * which is not refused because of it. On success the directory is durable.
 */
EITP_API eitp_status eitp_directory_create(const eitp_host *host, const char *path, const eitp_directory_config *config,
                                           eitp_error *error);

/*
 * ---- Checkpoints ----
 *
 * A checkpoint is a directory "checkpoint-<step>" in an output directory. It is written under another name, synced, and
 * renamed when complete, and renamed again before it is deleted: a directory with that name is whole. manifest.json in
 * it has the size and checksum of every file; docs/training.md describes it. Files that it does not list do not belong
 * to the checkpoint.
 */

/*
 * Creates the checkpoint of a step: fill(user, directory, error) writes its files, in subdirectories too. They are read
 * back for their checksums and synced, and manifest.json is added. If fill or a file operation fails, nothing is left.
 * A checkpoint of the same step is replaced.
 */
EITP_API eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                            eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                            void *user, eitp_error *error);

/* Finds the step of the newest checkpoint by name alone; -1 if the directory has none or does not exist. */
EITP_API eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                            eitp_error *error);

/*
 * Reads all files of a checkpoint and compares them with manifest.json; a directory "checkpoint-<step>" must have the
 * checkpoint of that step. A checkpoint that eitp wrote before there was a manifest.json is checked by the checksums in
 * trainer_state.json. A damaged checkpoint is EITP_ERROR_FORMAT, with the name of the file; one of a later version
 * EITP_ERROR_UNSUPPORTED; a failure to read EITP_ERROR_IO or EITP_ERROR_MEMORY.
 */
EITP_API eitp_status eitp_checkpoint_verify(const eitp_host *host, const char *checkpoint, eitp_error *error);

/*
 * Finds the newest checkpoint that eitp_checkpoint_verify accepts; -1 if the directory has none or does not exist.
 * Damaged checkpoints that are newer are renamed "checkpoint-<step>.damaged", or ".damaged-2" and so on if that exists,
 * with a warning in the log; eitp never resumes from them, counts or deletes them. If a checkpoint cannot be verified
 * for another reason than damage, it keeps its name, and that is the error. No other process may write to the directory
 * meanwhile.
 */
EITP_API eitp_status eitp_checkpoint_recover(const eitp_host *host, const char *output_directory, int64_t *step,
                                             eitp_error *error);

/*
 * Removes what unfinished writes and removals left, and checkpoints than which `keep` others are newer; 0: none. Saves
 * that a run made because it was stopped are not among the `keep`. No other process may write to the directory
 * meanwhile.
 */
EITP_API eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
