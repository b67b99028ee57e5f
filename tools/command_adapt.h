/* Adapters and freezing, from options. */
#ifndef COMMAND_ADAPT_H
#define COMMAND_ADAPT_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

/* Do the options of a run ask for adapters? */
int adapt_is_asked(const option_set *o);

/* Do the options of a run go together? `starts_from_model`: it has weights to start from. */
eitp_status adapt_check(const option_set *o, int starts_from_model, eitp_error *error);

/* What a checkpoint says of its adapters, as options. */
void adapt_take_options(option_set *o, const eitp_lora_config *lora);

/* Adds adapters to a model that has no values yet, or freezes parts of it, as a run's options say. */
eitp_status adapt_model(const option_set *o, eitp_model *model, eitp_error *error);

/*
 * The whole path of the directory whose weights a run with adapters, or one from --model, begins with: --model, else
 * what the adapters in `checkpoint` name.
 */
eitp_status adapt_find_base(const option_set *o, const char *checkpoint, char **base, eitp_error *error);

/*
 * Loads the model in `directory` and the adapters of --adapter. `directory` may be NULL, or have adapters only: their
 * base model is loaded. *base and *adapter, which is NULL where there are none, are new texts.
 */
eitp_status adapt_open_model(const option_set *o, const char *directory, eitp_context *context, eitp_model **model,
                             char **base, char **adapter, eitp_error *error);

/* A line on what is trained, where that is not the whole model. */
void adapt_log(const eitp_model *model);

EITP_END_DECLARATIONS

#endif
