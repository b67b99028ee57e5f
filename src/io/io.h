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
 * each variable, and no other tensors; F16, BF16 and F64 are converted. No variable changes until this has been
 * checked.
 */
EITP_API eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                         eitp_error *error);

/* ---- Model directories ---- */

/*
 * Creates a model from a Hugging Face directory: config.json, and the weights in model.safetensors, the shards that
 * model.safetensors.index.json lists, pytorch_model.bin, or the shards that pytorch_model.bin.index.json lists (the
 * first of these that the directory has), in F32, F16, BF16 or F64. From a pytorch_model.bin (torch 1.6 or later) only
 * plain tensors are read; nothing in it is executed, and anything else in it is EITP_ERROR_UNSUPPORTED. Tensor names
 * may lack the architecture's prefix, and norms may be called gamma and beta. Weights are read directly into the
 * parameters. On failure *model is NULL. Destroy the model before the context.
 *
 * Wherever a model directory is read, `directory` may also be a GGUF file, or the first file of a model in several. Its
 * quantized tensors are widened exactly to F32; docs/gguf.md lists architectures and types, and others are
 * EITP_ERROR_UNSUPPORTED.
 */
EITP_API eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model,
                                     eitp_error *error);

/*
 * Reads the configuration of a model directory: config.json, with the special tokens of generation_config.json if it
 * has any. If config.json ties the output head to the token embedding, but the weights have a different head, the
 * configuration is untied and a warning is logged; transformers 5 does the same. `pooler` is 1 only if the weights have
 * a pooler.
 */
EITP_API eitp_status eitp_model_config_read(const eitp_host *host, const char *directory,
                                            eitp_transformer_config *config, eitp_error *error);

/* Reads the most common weight dtype of a model directory: EITP_BF16, EITP_F16, or EITP_F32 for any other and for a
   directory without weights. */
EITP_API eitp_status eitp_model_dtype_read(const eitp_host *host, const char *directory, eitp_dtype *dtype,
                                           eitp_error *error);

/* Options of eitp_model_load_weights_with. Start from eitp_load_config_default(). */
typedef struct eitp_load_config {
    uint64_t seed;  /* for parameters that the directory lacks */
    int fresh_head; /* 1: initialize the head at random, even if the directory has one */
    /* 1: the same, but not logged, for a head that is read later, with adapters or from a checkpoint */
    int head_is_replaced;
} eitp_load_config;

/* Returns seed 0, with the head loaded from the directory if it has one. */
EITP_API eitp_load_config eitp_load_config_default(void);

/*
 * Reads the weights of a model directory into a model created with its configuration, whose head, labels, problem and
 * dropout may be changed first. eitp_model_load is eitp_model_config_read, eitp_model_create and this; call them
 * separately to freeze parameters or add adapters before the parameters have values, which saves memory. A head or
 * pooler that the directory lacks is initialized at random (transformers does the same). The log names its parameters,
 * as a warning if the directory's config.json has the model's head (see eitp_model_check_head) or fresh_head replaces
 * one. For a classifier the label names are read too, if their number matches. EITP_ERROR_ARGUMENT if the directory has
 * no weights, if the model's head is tied and the weights have a head that differs from the token embedding, or if the
 * weights have a classifier with another number of labels.
 */
EITP_API eitp_status eitp_model_load_weights(eitp_model *model, const char *directory, eitp_error *error);
EITP_API eitp_status eitp_model_load_weights_with(eitp_model *model, const char *directory,
                                                  const eitp_load_config *config, eitp_error *error);

/*
 * The dtype of weights in files. EITP_SAVE_AS_LOADED: each loaded parameter keeps its dtype in the loaded file if that
 * was F16 or BF16, and is F32 otherwise. Other parameters get the most common dtype of the file's weights, so the
 * parameters of a model that was not loaded are F32. The config.json of a model with weights of several dtypes names
 * the most common one.
 */
typedef enum eitp_save_dtype {
    EITP_SAVE_AS_LOADED = 0,
    EITP_SAVE_F32 = 1,
    EITP_SAVE_BF16 = 2,
    EITP_SAVE_F16 = 3
} eitp_save_dtype;

/* Options of eitp_model_save_with. Start from eitp_save_config_default(). */
typedef struct eitp_save_config {
    eitp_save_dtype dtype;
    int32_t end_of_text; /* replaces the special tokens (see eitp_transformer_config_write); -1: keep the model's */
} eitp_save_config;

/* Returns EITP_SAVE_AS_LOADED, and the model's special tokens. */
EITP_API eitp_save_config eitp_save_config_default(void);

/*
 * Writes config.json, generation_config.json and model.safetensors, without adapters, to a directory, which is created
 * if missing. Weights are rounded to nearest, ties to even. Members that eitp does not use are kept from the
 * config.json and generation_config.json that the weights were loaded with. Each file is replaced as a whole or not at
 * all; for the directory as a whole see eitp_directory_create. EITP_ERROR_ARGUMENT for another dtype, and if the dtype
 * cannot represent a finite weight.
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
 * Reads adapters into a model. A model without adapters gets them (see eitp_model_add_lora); otherwise the
 * configurations must be equal. Missing, unexpected and misshapen tensors are EITP_ERROR_FORMAT. A model without the
 * weights that the adapters were trained on is EITP_ERROR_ARGUMENT, before anything is changed: a checkpoint has the
 * checksum of these weights, in the precision of its run. Adapters without eitp's trainer_state.json, such as PEFT's,
 * are accepted for any weights.
 */
EITP_API eitp_status eitp_lora_load(eitp_model *model, const char *directory, eitp_error *error);

/*
 * Reads adapter_config.json. A member that enables an unsupported feature (DoRA, biases, rank patterns, whole modules)
 * fails with EITP_ERROR_UNSUPPORTED, as does an unknown member that is not null, false or empty. `architecture` is the
 * model's (see eitp_lora_targets_parse); it may be NULL. `base`, which may be NULL, receives the name of the base
 * model; it is "" if the file has no name or the name is too long.
 *
 * The targets are the layers that target_modules names. If it is a regular expression, or is narrowed by
 * exclude_modules or layers_to_transform, the targets are the layers for which adapter_model.safetensors has tensors;
 * expressions are not evaluated. Tensors of layers that a list of names or layers_to_transform rule out are
 * EITP_ERROR_FORMAT.
 */
EITP_API eitp_status eitp_lora_config_read(const eitp_host *host, const char *directory,
                                           const eitp_architecture *architecture, eitp_lora_config *config, char *base,
                                           size_t base_size, eitp_error *error);

/* ---- Directories that appear whole or not at all ---- */

/* Start from eitp_directory_config_default(), then set `fill`. */
typedef struct eitp_directory_config {
    /* Writes and syncs the files in `directory`, as eitp_model_save and eitp_tokenizer_save do. */
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error);
    void *user;
    const char *const *names; /* files without which the directory cannot be loaded, in the order they appear in */
    size_t name_count;
} eitp_directory_config;

/* Returns no `fill` and no names. */
EITP_API eitp_directory_config eitp_directory_config_default(void);

/*
 * Creates a directory whole or not at all, with its missing parents. `fill` writes to ".<name>.partial" in the same
 * parent directory, which is renamed to `path` when everything is durable. If `path` is a directory already, `fill`
 * writes to ".eitp.partial" in it, and the files are then moved to `path`, the files of `names` last, each after the
 * previous ones are durable. EITP_ERROR_ARGUMENT if that would replace a file. The call fails at once with
 * EITP_ERROR_ARGUMENT if `path` has one of `names`, or if another process is writing it. After a failure nothing is
 * left. Leftovers of a killed process or a power loss are removed by the next call, which does not fail because of
 * them. On success the directory is durable.
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
 * Reads all files of a checkpoint and compares them with manifest.json. A directory "checkpoint-<step>" must contain
 * the checkpoint of that step. A checkpoint from a version of eitp without manifest.json is checked by the checksums in
 * trainer_state.json. A damaged checkpoint is EITP_ERROR_FORMAT, with the name of the file, and one of a later version
 * EITP_ERROR_UNSUPPORTED. A failure to read is EITP_ERROR_IO or EITP_ERROR_MEMORY.
 */
EITP_API eitp_status eitp_checkpoint_verify(const eitp_host *host, const char *checkpoint, eitp_error *error);

/*
 * Finds the newest checkpoint that eitp_checkpoint_verify accepts; -1 if the directory has none or does not exist.
 * Newer damaged checkpoints are renamed "checkpoint-<step>.damaged", or ".damaged-2" and so on if that exists, with a
 * warning in the log; eitp never resumes from them, counts or deletes them. If a checkpoint cannot be verified for a
 * reason other than damage, it keeps its name, and the call fails with that error. No other process may write to the
 * directory during the call.
 */
EITP_API eitp_status eitp_checkpoint_recover(const eitp_host *host, const char *output_directory, int64_t *step,
                                             eitp_error *error);

/*
 * Removes the leftovers of unfinished writes and removals, and all but the `keep` newest checkpoints; 0: keeps all.
 * Saves that a run made because it was stopped do not count towards `keep`. No other process may write to the directory
 * during the call.
 */
EITP_API eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
