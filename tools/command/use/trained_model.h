/* A model that a command reads to use it, also while a run trains in its directory. */
#ifndef COMMAND_USE_TRAINED_MODEL_H
#define COMMAND_USE_TRAINED_MODEL_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct trained_model {
    char *directory, *base, *adapter; /* of --model, of the weights, of adapters; NULL: none */
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer; /* NULL: unknown */
} trained_model;

/* The directory of what was trained: the adapters', or the model's. */
const char *trained_model_checkpoint(const trained_model *m);

/*
 * Loads --model, with --adapter and --tokenizer; without --model the weights that the adapters name. `read` reads what
 * else a command needs of the checkpoint; it may be NULL. If a run removes the checkpoint meanwhile, everything is read
 * again. Close it in any case.
 */
eitp_status trained_model_open(const option_set *o, trained_model *m,
                               eitp_status (*read)(void *user, eitp_error *error), void *user, eitp_error *error);

/* The same, asking `admit` before the weights in `base`, and adapters in `adapter` (may be NULL), are read. */
eitp_status trained_model_open_if(const option_set *o, trained_model *m,
                                  eitp_status (*admit)(void *user, const char *base, const char *adapter,
                                                       eitp_error *error),
                                  eitp_status (*read)(void *user, eitp_error *error), void *user, eitp_error *error);
void trained_model_close(trained_model *m);

/* Fails unless it predicts the next token. */
eitp_status trained_model_check_language(const trained_model *m, eitp_error *error);

EITP_END_DECLARATIONS

#endif
