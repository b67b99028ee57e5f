/* Which part of a token file `eitp eval` scores: what a run trained on, or what it held out. */
#ifndef COMMAND_USE_SPLIT_H
#define COMMAND_USE_SPLIT_H

#include "data/data.h"
#include "data/packed.h"

EITP_BEGIN_DECLARATIONS

/*
 * Sets --data, if it is not given, to the data of the run that wrote `checkpoint`, as the run.json next to it names it:
 * for --split validation of a run with --val-data, to that; *of_run is then the option of the run. Without --split it
 * does nothing.
 */
eitp_status split_find_data(option_set *o, const char *checkpoint, option_id *of_run, eitp_error *error);

/* Takes the columns of --data, where no option names them, from the run that wrote `checkpoint`, if it left its
   run.json. */
void split_copy_columns(option_set *o, const char *checkpoint);

/*
 * Sets data->path to what the texts of the run's option were packed into, and reports it, if the run's directory has
 * that: the texts may have changed or gone missing. OPTION_COUNT: the texts are not those of the run, and nothing is
 * done.
 */
eitp_status split_use_packed(const option_set *o, option_id of_run, const char *checkpoint,
                             const eitp_tokenizer *tokenizer, packed_test has_data, data_file *data, eitp_error *error);

/*
 * The tokens of `data` that --split selects; all of them without it. Warns if these include tokens that the model was
 * trained on and --split was not given. Fails if the run of `checkpoint` was trained on other data.
 */
eitp_status split_find_range(const option_set *o, const char *checkpoint, const data_file *data,
                             eitp_token_range *range, eitp_error *error);

/* The same for a labelled file: the samples that the run divided by its seed and --val-fraction. */
eitp_status split_find_part(const option_set *o, const char *checkpoint, const data_file *data,
                            eitp_labelled_part **part, eitp_error *error);

EITP_END_DECLARATIONS

#endif
