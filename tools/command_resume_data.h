/* The packed data that a resumed run continues with, whatever became of the texts. */
#ifndef COMMAND_RESUME_DATA_H
#define COMMAND_RESUME_DATA_H

#include "command_run.h"

EITP_BEGIN_DECLARATIONS

/* True if the packed file `path` may be the data of a run's option. `reads_all`: all of it is read, to find damage. */
typedef int (*packed_test)(const run *r, option_id id, const char *path, int reads_all);

/* That of token files, and that of labelled files: the training data must be those of the checkpoint. It does not name
   the validation data: any other file of the same tokenizer is theirs. */
int packed_has_tokens(const run *r, option_id id, const char *path, int reads_all);
int packed_has_samples(const run *r, option_id id, const char *path, int reads_all);

/*
 * Sets data->path to the file that the texts of --data or --val-data (`id`) of a resumed run were packed into:
 * `expected` as long as they are the same; else another file in `directory`, with a warning that they have changed or
 * gone missing. Nothing is set if there is none, or if the command line or --config names the texts.
 */
void resume_use_packed(const run *r, option_id id, const char *directory, const char *expected, packed_test has_data,
                       data_file *data);

/* Keeps the tokens of the checkpoint of a token file that has grown, and sets r->kept_tokens. */
eitp_status resume_keep_tokens(run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
