/* Turns options into the recipe of a run. */
#ifndef COMMAND_RUN_RECIPE_H
#define COMMAND_RUN_RECIPE_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/* Describes the run of the options, which own the recipe's strings. */
eitp_status recipe_describe(training_run *r, eitp_recipe *recipe, eitp_error *error);

/* Sets everything that may change after a training was opened: memory, trainer, run, lengths and the block size. */
eitp_status recipe_follow_options(training_run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
