/*
 * Files of models: variables as safetensors, Hugging Face model directories, and checkpoints.
 */
#ifndef EITP_IO_H
#define EITP_IO_H

#include "model/model.h"

EITP_BEGIN_DECLARATIONS

/*
 * Writes all variables of one role to a safetensors file, floating ones as `dtype` (EITP_F32, EITP_F16 or EITP_BF16),
 * 16-bit parameters with their remainders; the file is replaced as a whole or not at all. `checksum`, which may be
 * NULL, gets the CRC-32C of the tensors' bytes in the variables' order.
 */
EITP_API eitp_status eitp_variables_save(eitp_context *context, const char *path, eitp_role role, eitp_dtype dtype,
                                         uint32_t *checksum, eitp_error *error);

/*
 * Reads all variables of one role from a safetensors file; each must be there with its shape. F16, BF16 and F64 are
 * converted. Tensors that belong to no variable are an error too: the file is of something else. No variable is changed
 * unless the file has all of them.
 */
EITP_API eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                         eitp_error *error);

/*
 * A model from a Hugging Face directory: config.json, and model.safetensors or the shards of
 * model.safetensors.index.json, in F32, F16 or BF16, with or without the architecture's prefix of names, read straight
 * into the parameters.
 */
EITP_API eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model,
                                     eitp_error *error);

/*
 * The configuration of such a directory: config.json, with the special tokens of generation_config.json where that has
 * them. Where config.json ties the output head to the token embedding, and the weights have both and they differ, the
 * head is not tied, as in transformers from version 5 on, and a warning is logged.
 */
EITP_API eitp_status eitp_model_config_read(const eitp_host *host, const char *directory,
                                            eitp_transformer_config *config, eitp_error *error);

/*
 * The weights of such a directory alone, into a model that was made with its configuration: what is frozen, or gets
 * adapters, is so before it has values. eitp_model_config_read, eitp_model_create and this are eitp_model_load. A head
 * in the weights that differs from the embedding is EITP_ERROR_ARGUMENT where the model's is tied to it.
 */
EITP_API eitp_status eitp_model_load_weights(eitp_model *model, const char *directory, eitp_error *error);

/*
 * Writes config.json, generation_config.json and model.safetensors, without adapters, into a directory, which is
 * created if missing. `end_of_text` as of eitp_transformer_config_write; see eitp_model_set_special_tokens too. What
 * the generation_config.json of the directory that the weights are from says beside special tokens is kept. `checksum`
 * as of eitp_variables_save.
 */
EITP_API eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_dtype dtype, int32_t end_of_text,
                                     uint32_t *checksum, eitp_error *error);

/*
 * Adapters in the layout of Hugging Face's PEFT: adapter_config.json and adapter_model.safetensors (F32).
 *
 * Writes both into a directory, which is made where it is missing. `base` is the name or directory of the model that
 * they adapt (NULL: the directory its weights are from). `checksum` as of eitp_variables_save.
 */
EITP_API eitp_status eitp_lora_save(eitp_model *model, const char *directory, const char *base, uint32_t *checksum,
                                    eitp_error *error);

/*
 * Reads adapters into a model: adds them (see eitp_model_add_lora) where it has none, else they must be of its own
 * configuration. Tensors that are missing, too many, or of another shape are an error before anything is changed.
 */
EITP_API eitp_status eitp_lora_load(eitp_model *model, const char *directory, uint32_t *checksum, eitp_error *error);

/*
 * What adapter_config.json says. Members that ask for what eitp has not (DoRA, biases, patterns of ranks, whole
 * modules) are errors that name them, and so are unknown ones that are not null, false or empty. `base` (may be NULL)
 * gets the name of the base model, "" where there is none.
 */
EITP_API eitp_status eitp_lora_config_read(const eitp_host *host, const char *directory, eitp_lora_config *config,
                                           char *base, size_t base_size, eitp_error *error);

/*
 * Checkpoints are directories "checkpoint-<step>" in an output directory. Each is written under another name, synced
 * and renamed when complete, so that one that has its name is whole.
 */

/* Calls fill(user, directory) to write the files of checkpoint `step`, and gives it its name. What fill or the disk
 * refuses leaves nothing. */
EITP_API eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                            eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                            void *user, eitp_error *error);

/* The step of the newest checkpoint in a directory; -1 where there is none or no such directory. */
EITP_API eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                            eitp_error *error);

/* Removes all but the `keep` newest (0: keeps all), and what unfinished writes left. */
EITP_API eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
