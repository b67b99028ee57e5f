/* Contexts, models and tokenizers from options. */
#ifndef COMMAND_MODEL_H
#define COMMAND_MODEL_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

/*
 * The model directory that `path` names, in a new text: itself, or the newest checkpoint in it. Where it is neither, an
 * error.
 */
eitp_status model_find_directory(const char *path, char **directory, eitp_error *error);

/*
 * The configuration of a context of --device, --threads and --precision, without parameters to train. `numerics`, which
 * may be NULL, is what a checkpoint says of its kernels: the same are used. `isa` is room for their name.
 */
enum { MODEL_ISA_SIZE = 32 };
eitp_context_config model_context_config(const option_set *o, const char *numerics, char isa[MODEL_ISA_SIZE]);

/* The context itself. */
eitp_status model_create_context(const option_set *o, eitp_context **context, eitp_error *error);

/* Does a directory have the files of a tokenizer? */
int model_has_tokenizer(const char *directory);

/* The tokenizer `given`, else the one in `directory`; both may be NULL. Where there is none, *tokenizer is NULL. */
eitp_status model_load_tokenizer(const char *given, const char *directory, eitp_tokenizer **tokenizer,
                                 eitp_error *error);

/* Checks that the tokenizer fits the model's vocabulary, and a token file (may be NULL) the tokenizer. */
eitp_status model_check_tokenizer(const eitp_tokenizer *tokenizer, const eitp_token_file *file, int64_t vocabulary,
                                  eitp_error *error);

/* The tokenizer of bytes, for texts without one; says so in the log. */
eitp_status model_use_bytes(eitp_tokenizer **tokenizer, eitp_error *error);

/*
 * --block-size; where it is not given, that of the checkpoint in `directory` (may be NULL), else 64; 0: the model's
 * positions.
 */
int64_t model_block_size(const option_set *o, const char *directory, int64_t positions);

EITP_END_DECLARATIONS

#endif
