/* Profiles: the values of --profile, each of which sets defaults of other options. */
#ifndef COMMAND_OPTIONS_PROFILE_H
#define COMMAND_OPTIONS_PROFILE_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Sets the defaults of the profile, where no option says otherwise. */
void profile_apply(option_set *o);

/* Names the model that a new run with the profile trains, where no option does. */
void profile_name_model(option_set *o);

/* Lowers defaults of the profile to what the model (positions in a sequence) and the machine (data workers) have, and
   says so, as it says what else the profile means here. */
void profile_adapt(option_set *o, const eitp_transformer_config *shape);

/* Lowers --block-size to the positions of a model, with a line in the log: texts are cut there. */
void profile_lower_block_size(option_set *o, int64_t positions);

/* The default that the profile has for an option with whole numbers; 0: none. */
int64_t profile_integer(const option_set *o, option_id id);

/* The name of the profile in force: a choice of --profile, "none" without one. */
const char *profile_name(const option_set *o);

/* True if the configuration with the least memory is used even if a faster one fits. */
int profile_takes_least(const option_set *o);

/* True for --profile auto, before a profile is chosen. */
int profile_is_auto(const option_set *o);

EITP_END_DECLARATIONS

#endif
