/* The data of --data: token files, text, and rows of tables. */
#ifndef COMMAND_DATA_H
#define COMMAND_DATA_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Sets *is_token_file to 1 if the option names a token file. More than one, or one among text files, is an error. */
eitp_status data_is_token_file(const option_set *o, option_id id, int *is_token_file, eitp_error *error);

/* Returns how the text of an option is read, from --data-format, --encoding, --text-column and similar options. */
eitp_text_files_config data_texts(const option_set *o, option_id id);

/* Packs the text of an option into a file of the host, with progress on a terminal. */
eitp_status data_pack(const eitp_host *host, const option_set *o, option_id id, const eitp_tokenizer *tokenizer,
                      const char *path, eitp_sample_file_info *info, eitp_error *error);

/* True if the data is rows of a table, or lines with --data-format lines. */
int data_is_table(const option_set *o, option_id id);

EITP_END_DECLARATIONS

#endif
