/* The files of --data: token files, named directly or packed from text, and labelled files (data/labelled.h). */
#ifndef COMMAND_DATA_H
#define COMMAND_DATA_H

#include "data/temporary.h"
#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct data_file {
    eitp_token_file *file;        /* NULL: a labelled file */
    eitp_labelled_file *labelled; /* NULL: a token file */
    char *path;   /* set before the file is opened: it was packed earlier, and is used whatever the texts are now */
    int verified; /* read through once, and valid */
    temporary_file *temporary; /* into which text is packed without a directory; NULL: none */
} data_file;

/*
 * Opens the data of --data or --val-data (`id`). A token file is opened and read through. Text is packed with
 * `tokenizer` into a temporary file. `vocabulary` is the model's.
 */
eitp_status data_open(const option_set *o, option_id id, const eitp_tokenizer *tokenizer, int64_t vocabulary,
                      data_file *data, eitp_error *error);

/* Closes the file and removes a temporary one. */
void data_close(data_file *data);

/* Sets *is_token_file to 1 if the option names a token file. More than one, or one among texts, is an error. */
eitp_status data_is_token_file(const option_set *o, option_id id, int *is_token_file, eitp_error *error);

/* How the texts of an option are read: --data-format, --encoding, --text-column and what else says so. */
eitp_text_files_config data_texts(const option_set *o, option_id id);

/* Names the options for what a message of the library on texts says; returns `status`. */
eitp_status data_explain(eitp_status status, eitp_error *error);

/* Packs the texts of an option into a file of the host, with progress on a terminal. */
eitp_status data_pack(const eitp_host *host, const option_set *o, option_id id, const eitp_tokenizer *tokenizer,
                      const char *path, eitp_token_file_info *info, eitp_error *error);

/* True if the option names standard input. */
int data_has_input(const option_set *o, option_id id);

/* True if texts are rows: of a table, or lines by --data-format lines. */
int data_is_table(const option_set *o, option_id id);

/* Gives `data` a temporary file, which data_close releases. */
eitp_status data_create_temporary(data_file *data, eitp_error *error);

/* The host that data->path is in: the command's, or that of the temporary file. */
eitp_host data_host(const data_file *data);

EITP_END_DECLARATIONS

#endif
