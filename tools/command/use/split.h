/* The data of a model's run, from its run.json: what eval and predict take where no option names it. */
#ifndef COMMAND_USE_SPLIT_H
#define COMMAND_USE_SPLIT_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Takes the columns of --data, where no option names them, from the run that wrote `checkpoint`, if it left its
   run.json. */
void split_copy_columns(option_set *o, const char *checkpoint);

/* The samples that --split selects. */
eitp_trained_samples split_samples(const option_set *o);

/*
 * Adds to a recipe the data that a model is evaluated on: --data, else the data of the run that wrote `checkpoint`; and
 * how that run divided them. The options get what they take from the run. The recipe's texts belong to `o` and `run`,
 * which is to be released in any case.
 */
eitp_status split_add_data(option_set *o, const char *checkpoint, option_set *run, eitp_recipe *recipe,
                           eitp_error *error);

EITP_END_DECLARATIONS

#endif
