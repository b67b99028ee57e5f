/* The labelled files of --data: packed from tables and directories of texts. */
#ifndef COMMAND_DATA_LABELLED_H
#define COMMAND_DATA_LABELLED_H

#include "data/data.h"

EITP_BEGIN_DECLARATIONS

/* How texts become samples. */
typedef struct labelled_settings {
    const eitp_tokenizer *tokenizer;
    int64_t vocabulary;        /* of the model */
    int64_t max_length;        /* tokens of a sample */
    eitp_problem problem;      /* EITP_PROBLEM_UNKNOWN: what the labels say */
    const char *const *labels; /* label_count names; NULL: those of the data */
    int64_t label_count;
    int drops_labels; /* labels are not read */
} labelled_settings;

/* Opens the data of --data or --val-data (`id`), as data_open does: packed into a temporary file. */
eitp_status labelled_open(const option_set *o, option_id id, const labelled_settings *settings, data_file *data,
                          eitp_error *error);

/* --block-size, at most the model's positions; without it the length that the tokenizer's files cut sequences to, else
   the positions. The option gets that value. */
int64_t labelled_max_length(option_set *o, const eitp_tokenizer *tokenizer, const eitp_transformer_config *shape);

/* Says what is worth knowing of the data: what was cut, left out or repeated. */
void labelled_report(const data_file *data);

/* eitp_model_match_labels with the labels of the data, which `path` names. */
eitp_status labelled_match(const eitp_model *model, const data_file *data, const char *path, int32_t *numbers,
                           eitp_label_match *match, eitp_error *error);

EITP_END_DECLARATIONS

#endif
