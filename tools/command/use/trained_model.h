/* A model that a command opens to use it, also while a run trains in its directory. */
#ifndef COMMAND_USE_TRAINED_MODEL_H
#define COMMAND_USE_TRAINED_MODEL_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* What the pointers point to belongs to the training; context and model are NULL until it is loaded. */
typedef struct trained_model {
    char *path, *weights;              /* of --adapter or --model; of --model beside --adapter, or NULL */
    char *found_model, *found_adapter; /* the directories that --model and --adapter mean before it is opened */
    char isa[32];                      /* room for the name of kernels */
    eitp_training *training;
    const char *base, *adapter;      /* the directories of the weights and of adapters; adapter NULL: none */
    const char *directory;           /* that --model means; without it the adapters' */
    const eitp_tokenizer *tokenizer; /* NULL: unknown */
    eitp_context *context;
    eitp_model *model;
} trained_model;

/* Describes --model, --adapter, --tokenizer, and the context of the options. The recipe may then get data. Close the
   model in any case. */
eitp_status trained_model_describe(const option_set *o, trained_model *m, eitp_recipe *recipe, eitp_error *error);

/* Opens it: see eitp_training_open_trained. */
eitp_status trained_model_open(trained_model *m, const eitp_recipe *recipe, eitp_trained_samples samples,
                               eitp_error *error);

/* Loads the weights: context and model. */
eitp_status trained_model_load(trained_model *m, eitp_error *error);

/* All of it, without samples. */
eitp_status trained_model_read(const option_set *o, trained_model *m, eitp_error *error);

/* The same for another model, of a path, with its own tokenizer and a context of its own. */
eitp_status trained_model_read_other(const option_set *o, const char *path, trained_model *m, eitp_error *error);

void trained_model_close(trained_model *m);

/* The directory of what was trained: the adapters', or the model's. */
const char *trained_model_checkpoint(const trained_model *m);

/* Fails unless it predicts the next token. */
eitp_status trained_model_check_language(const trained_model *m, eitp_error *error);

EITP_END_DECLARATIONS

#endif
