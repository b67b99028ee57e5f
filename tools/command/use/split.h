/* The data of a model's run, from its run.json: the default of eval and predict. */
#ifndef COMMAND_USE_SPLIT_H
#define COMMAND_USE_SPLIT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Takes columns of --data that no option names from the run that wrote `checkpoint`, if it left its run.json. */
void split_copy_columns(option_set *o, const char *checkpoint);

/* Returns the samples that --split selects. */
eitp_trained_samples split_samples(const option_set *o);

/*
 * Adds the data for an evaluation to a recipe: --data, else the data of the run that wrote `checkpoint`, divided as in
 * that run. Options taken from the run are set in `o`. The recipe's strings belong to `o` and `run`. Release `run` in
 * any case.
 */
eitp_status split_add_data(option_set *o, const char *checkpoint, option_set *run, eitp_recipe *recipe,
                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
