/* Profiles: the values of --profile. Each sets the defaults of other options. */
#ifndef COMMAND_OPTIONS_PROFILE_H
#define COMMAND_OPTIONS_PROFILE_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Applies the profile's defaults to options that are not set. */
void profile_apply(option_set *o);

/* Sets the model that a new run with the profile trains, unless an option names one. */
void profile_name_model(option_set *o);

/* Lowers the profile's defaults to the limits of the model (positions) and of the machine (data workers). Logs these
   changes and the profile's note. */
void profile_adapt(option_set *o, const eitp_transformer_config *shape);

/* Lowers --block-size to the model's positions and logs it: longer inputs are cut. */
void profile_lower_block_size(option_set *o, int64_t positions);

/* Returns the profile's default for an integer option, or 0 if it has none. */
int64_t profile_integer(const option_set *o, option_id id);

/* Returns the name of the profile in force: a choice of --profile, or "none". */
const char *profile_name(const option_set *o);

/* True if the configuration with the least memory is used even if a faster one fits. */
int profile_takes_least(const option_set *o);

/* True for --profile auto, before a profile is chosen. */
int profile_is_auto(const option_set *o);

EITP_END_DECLARATIONS

#endif
