/* From options to the recipe of a run. */
#ifndef COMMAND_RUN_RECIPE_H
#define COMMAND_RUN_RECIPE_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Sets the settings of a group of the recipe (eitp_recipe_group), NULL: of all, for which there are options. The texts
   stay those of the options. */
eitp_status recipe_set_group(const option_set *o, const char *name, eitp_recipe *recipe, eitp_error *error);

/* The recipe of the options, which its texts belong to. */
eitp_status recipe_describe(training_run *r, eitp_recipe *recipe, eitp_error *error);

/* Sets what may change after a training was opened: memory, trainer, run, lengths and the block size. */
eitp_status recipe_follow_options(training_run *r, eitp_recipe *recipe, eitp_error *error);

EITP_END_DECLARATIONS

#endif
