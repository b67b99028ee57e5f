/* Token files from --data: as they are, or packed from text. */
#ifndef COMMAND_DATA_H
#define COMMAND_DATA_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

typedef struct data_file {
    eitp_token_file *file;
    char *path;
    int packed;   /* from text, into `path`, by this process */
    int verified; /* read through once */
    int temporary;
} data_file;

/*
 * Opens the data of --data or --val-data (`id`). One token file is opened and read through; text is packed with
 * `tokenizer` to a file in `directory` (made where it is missing) that is used again while texts and tokenizer stay the
 * same, or to a temporary file where `directory` is NULL. `vocabulary` is the model's.
 */
eitp_status data_open(const option_set *o, option_id id, const eitp_tokenizer *tokenizer, int64_t vocabulary,
                      const char *directory, data_file *data, eitp_error *error);

/* Closes it; a temporary file is removed. */
void data_close(data_file *data);

/* Does an option name one token file? More than one, or one among texts, is an error. */
eitp_status data_is_token_file(const option_set *o, option_id id, int *is_token_file, eitp_error *error);

/* Packs the texts of --data into a file, with progress on a terminal. */
eitp_status data_pack(const option_set *o, option_id id, const eitp_tokenizer *tokenizer, const char *path,
                      eitp_token_file_info *info, eitp_error *error);

EITP_END_DECLARATIONS

#endif
