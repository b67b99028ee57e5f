/* Contexts, models and tokenizers from options. */
#ifndef COMMAND_MODEL_H
#define COMMAND_MODEL_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

enum { MODEL_PATH_SIZE = 4096 };

/* Adds the option to an error of the library that advises to start from, or load, other weights. Returns `status`. */
eitp_status model_add_hint(eitp_status status, eitp_error *error);

/* The model directory that a path means (see eitp_run_find_checkpoint), in a new text: of an output directory the best
   checkpoint, or the newest; of a name without a path, a model in the hub's cache. Warns of a checkpoint that is named
   by its own path and does not match its manifest. */
eitp_status model_find_directory(const char *path, char **directory, eitp_error *error);

/*
 * After reading `directory`, which is what the path `given` meant, has failed: true if a run that trains there removed
 * it, and the path may mean another checkpoint now. If the path is its name, the error becomes that it was removed.
 * Both may be NULL. *attempts starts at 0.
 */
enum { MODEL_ATTEMPTS = 200 };
int model_read_again(const char *given, const char *directory, int *attempts, eitp_error *error);

/* Reads from *directory, which the path `given` means and which is found first if it is NULL. If a run removes it
   meanwhile, finds and reads another one. */
eitp_status model_read_directory(const char *given, char **directory,
                                 eitp_status (*read)(void *user, const char *directory, eitp_error *error), void *user,
                                 eitp_error *error);

/*
 * The configuration of a context by --device, --threads and --precision, without parameters to train. `numerics` (may
 * be NULL) is that of a checkpoint, whose kernels are then used. `isa` is room for their name.
 */
enum { MODEL_ISA_SIZE = 32 };
eitp_context_config model_context_config(const option_set *o, const char *numerics, char isa[MODEL_ISA_SIZE]);

/* The context itself. */
eitp_status model_create_context(const option_set *o, eitp_context **context, eitp_error *error);

/* Warns if the context's backend is `null`, which computes nothing. */
void model_warn_null(const eitp_context *context);

/* True if a directory has the files of a tokenizer. */
int model_has_tokenizer(const char *directory);

/* True for the --tokenizer of bytes, which is no path; a directory that is called so is ./bytes. */
int model_is_bytes(const char *tokenizer);

/* The tokenizer at `given`, else the one in `directory`. Both may be NULL. *tokenizer is NULL if there is none. */
eitp_status model_load_tokenizer(const char *given, const char *directory, eitp_tokenizer **tokenizer,
                                 eitp_error *error);

/*
 * Creates the directory that an option names, with a tokenizer, or, of --output-dir, a model: whole or not at all (see
 * eitp_directory_create).
 */
eitp_status model_create_directory(const option_set *o, option_id id,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error);

/* Checks that the model's vocabulary has all tokens, and that the token file (may be NULL) is the tokenizer's. */
eitp_status model_check_tokenizer(const eitp_tokenizer *tokenizer, const eitp_sample_file *file, int64_t vocabulary,
                                  eitp_error *error);

/* Fails unless the model predicts the next token; `name` is what the user called it. */
eitp_status model_check_language(const eitp_transformer_config *config, const char *name, eitp_error *error);

/* The tokenizer of bytes, for text without a tokenizer. Logs that it is used. */
eitp_status model_use_bytes(eitp_tokenizer **tokenizer, eitp_error *error);

/*
 * --block-size; without it that of the checkpoint in `directory` (may be NULL), else 64 or the model's positions if
 * they are fewer. --block-size 0 means the model's positions.
 */
int64_t model_block_size(const option_set *o, const char *directory, int64_t positions);

/* Fails if --block-size is above the model's positions, for windows of text of that length. */
eitp_status model_check_block_size(const option_set *o, int64_t positions, eitp_error *error);

EITP_END_DECLARATIONS

#endif
