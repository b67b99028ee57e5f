/* The packed data that a resumed run continues with, whatever became of the texts. */
#ifndef COMMAND_RUN_RESUME_DATA_H
#define COMMAND_RUN_RESUME_DATA_H

#include "data/packed.h"
#include "run/run.h"

EITP_BEGIN_DECLARATIONS

/*
 * Sets data->path to the file that the texts of --data or --val-data (`id`) of a resumed run were packed into:
 * `expected` as long as they are the same; else another file in `directory`, with a warning that they have changed or
 * gone missing. Nothing is set if there is none, or if the command line or --config names the texts.
 */
void resume_use_packed(const training_run *r, option_id id, const char *directory, const char *expected,
                       packed_test has_data, data_file *data);

/* Keeps the tokens of the checkpoint of a token file that has grown, and sets r->kept_tokens. */
eitp_status resume_keep_tokens(training_run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
