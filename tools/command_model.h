/* Contexts, models and tokenizers from options. */
#ifndef COMMAND_MODEL_H
#define COMMAND_MODEL_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

/*
 * The model directory, in a new text: `path`, or the newest checkpoint in it. If it is neither, an error.
 */
eitp_status model_find_directory(const char *path, char **directory, eitp_error *error);

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

/* The tokenizer at `given`, else the one in `directory`. Both may be NULL. *tokenizer is NULL if there is none. */
eitp_status model_load_tokenizer(const char *given, const char *directory, eitp_tokenizer **tokenizer,
                                 eitp_error *error);

/* Checks that the model's vocabulary has all tokens, and that the token file (may be NULL) is the tokenizer's. */
eitp_status model_check_tokenizer(const eitp_tokenizer *tokenizer, const eitp_token_file *file, int64_t vocabulary,
                                  eitp_error *error);

/* The tokenizer of bytes, for text without a tokenizer. Logs that it is used. */
eitp_status model_use_bytes(eitp_tokenizer **tokenizer, eitp_error *error);

/*
 * --block-size; without it that of the checkpoint in `directory` (may be NULL), else 64 or the model's positions if
 * they are fewer. --block-size 0 means the model's positions.
 */
int64_t model_block_size(const option_set *o, const char *directory, int64_t positions);

EITP_END_DECLARATIONS

#endif
