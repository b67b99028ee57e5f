/* Contexts, models and tokenizers from options. */
#ifndef COMMAND_MODEL_H
#define COMMAND_MODEL_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

enum { MODEL_PATH_SIZE = 4096 };

/* Adds the option to a library error that advises to start from other weights or load the right ones. Returns
   `status`. */
eitp_status model_add_hint(eitp_status status, eitp_error *error);

/* Sets *directory to the model directory of a path (see eitp_run_find_checkpoint), a new string: the best or newest
   checkpoint of an output directory, or a model in the hub's cache for a name that is not a path. Warns of a checkpoint
   named by its own path that does not match its manifest. */
eitp_status model_find_directory(const char *path, char **directory, eitp_error *error);

/*
 * Call after reading `directory`, found from the path `given`, has failed. True if a run training there removed it and
 * the path may lead to another checkpoint now. If the path is the checkpoint itself, the error becomes that it was
 * removed. Both may be NULL. *attempts starts at 0.
 */
enum { MODEL_ATTEMPTS = 200 };
int model_read_again(const char *given, const char *directory, int *attempts, eitp_error *error);

/* Reads from *directory, which is first found from the path `given` if it is NULL. If a run removes it in the meantime,
   finds and reads another one. */
eitp_status model_read_directory(const char *given, char **directory,
                                 eitp_status (*read)(void *user, const char *directory, eitp_error *error), void *user,
                                 eitp_error *error);

/*
 * Returns the configuration of a context from --device, --threads and --precision, without parameters to train.
 * `numerics` (may be NULL) is from a checkpoint, whose kernels are then used. `isa` receives their name.
 */
enum { MODEL_ISA_SIZE = 32 };
eitp_context_config model_context_config(const option_set *o, const char *numerics, char isa[MODEL_ISA_SIZE]);

/* Creates the context. */
eitp_status model_create_context(const option_set *o, eitp_context **context, eitp_error *error);

/* Warns if the context's backend is `null`, which computes nothing. */
void model_warn_null(const eitp_context *context);

/* True if a directory has the files of a tokenizer. */
int model_has_tokenizer(const char *directory);

/* True for --tokenizer bytes, which is not a path; a directory with this name is ./bytes. */
int model_is_bytes(const char *tokenizer);

/* Loads the tokenizer at `given`, else the one in `directory`. Both may be NULL. *tokenizer is NULL if there is
   none. */
eitp_status model_load_tokenizer(const char *given, const char *directory, eitp_tokenizer **tokenizer,
                                 eitp_error *error);

/*
 * Creates the directory that an option names, with a tokenizer, or a model for --output-dir, atomically (see
 * eitp_directory_create).
 */
eitp_status model_create_directory(const option_set *o, option_id id,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error);

/* Checks that the model's vocabulary has all tokens, and that the token file (may be NULL) matches the tokenizer. */
eitp_status model_check_tokenizer(const eitp_tokenizer *tokenizer, const eitp_sample_file *file, int64_t vocabulary,
                                  eitp_error *error);

/* Fails unless the model predicts the next token; `name` is the user's name for it. */
eitp_status model_check_language(const eitp_transformer_config *config, const char *name, eitp_error *error);

/* Creates a byte tokenizer, for text without a tokenizer, and logs that it is used. */
eitp_status model_use_bytes(eitp_tokenizer **tokenizer, eitp_error *error);

/*
 * Returns --block-size, else the block size of the checkpoint in `directory` (may be NULL), else 64 or the model's
 * positions if fewer. --block-size 0 means the model's positions.
 */
int64_t model_block_size(const option_set *o, const char *directory, int64_t positions);

/* Fails if --block-size is above the model's positions, for windows of text of that length. */
eitp_status model_check_block_size(const option_set *o, int64_t positions, eitp_error *error);

EITP_END_DECLARATIONS

#endif
