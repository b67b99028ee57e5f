/* From options to the recipe of a run. */
#ifndef COMMAND_RUN_RECIPE_H
#define COMMAND_RUN_RECIPE_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Sets what the options have values for. Texts belong to the options. */
eitp_status recipe_from_options(const option_set *o, eitp_recipe *recipe, eitp_error *error);

/* The same for what may change after a training was opened: memory, trainer, run, lengths and the block size. */
eitp_status recipe_follow_options(const option_set *o, eitp_recipe *recipe, eitp_error *error);

EITP_END_DECLARATIONS

#endif
