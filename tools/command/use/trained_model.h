/* A model opened for use, possibly while a run is training in its directory. */
#ifndef COMMAND_USE_TRAINED_MODEL_H
#define COMMAND_USE_TRAINED_MODEL_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* The training owns the objects pointed to. context and model are NULL until the model is loaded. */
typedef struct trained_model {
    char *path, *weights;              /* --adapter or --model; --model if there is an --adapter, else NULL */
    char *found_model, *found_adapter; /* the directories of --model and --adapter, before opening */
    char isa[32];                      /* name of the kernels */
    eitp_training *training;
    const char *base, *adapter;      /* directories of weights and adapters; adapter NULL: none */
    const char *directory;           /* of --model, or else of the adapters */
    const eitp_tokenizer *tokenizer; /* NULL: unknown */
    eitp_context *context;
    eitp_model *model;
} trained_model;

/* Describes --model, --adapter, --tokenizer, and the context of the options. The recipe may then get data. Close the
   model in any case. */
eitp_status trained_model_describe(const option_set *o, trained_model *m, eitp_recipe *recipe, eitp_error *error);

/* Opens the model; see eitp_training_open_trained. */
eitp_status trained_model_open(trained_model *m, const eitp_recipe *recipe, eitp_trained_samples samples,
                               eitp_error *error);

/* Loads the weights; sets context and model. */
eitp_status trained_model_load(trained_model *m, eitp_error *error);

/* Describes, opens and loads a model, without samples. */
eitp_status trained_model_read(const option_set *o, trained_model *m, eitp_error *error);

/* Does the same for another model, given by a path, with its own tokenizer and context. */
eitp_status trained_model_read_other(const option_set *o, const char *path, trained_model *m, eitp_error *error);

/* Reads --memory-budget, or else the free memory, in bytes; 0 if it is unknown. */
eitp_status trained_model_budget(const option_set *o, double *budget, eitp_error *error);

/* Like trained_model_read, for a model in fp32; fails with EITP_ERROR_MEMORY, before the weights are loaded, if they do
   not fit in the budget. */
eitp_status trained_model_read_within(const option_set *o, trained_model *m, eitp_error *error);

void trained_model_close(trained_model *m);

/* Returns the directory of the trained weights: the adapters' or the model's. */
const char *trained_model_checkpoint(const trained_model *m);

/* Fails unless the model predicts the next token. */
eitp_status trained_model_check_language(const trained_model *m, eitp_error *error);

EITP_END_DECLARATIONS

#endif
