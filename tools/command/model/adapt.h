/* Adapters and frozen parts, from options. */
#ifndef COMMAND_MODEL_ADAPT_H
#define COMMAND_MODEL_ADAPT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* True if the options of a run request adapters. */
int adapt_is_requested(const option_set *o);

/* Checks the options of adapters and freezing. `starts_from_model`: the run has weights to start from. */
eitp_status adapt_check(const option_set *o, int starts_from_model, eitp_error *error);

/* Sets the options to the adapters of a checkpoint. */
void adapt_take_options(option_set *o, const eitp_checkpoint_info *info);

/* Logs the trained parts, unless the whole model is trained. */
void adapt_log(const eitp_model *model);

EITP_END_DECLARATIONS

#endif
