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

/*
 * Opens the data of --data or --val-data (`id`), as data_open does: packed into a file in `directory`, which is reused
 * while texts and settings stay the same, or into a temporary file if `directory` is NULL.
 */
eitp_status labelled_open(const option_set *o, option_id id, const labelled_settings *settings, const char *directory,
                          data_file *data, eitp_error *error);

/* Where labelled_open packs texts into, in `directory`; the caller frees it. */
char *labelled_packed_path(const option_set *o, option_id id, const labelled_settings *settings, const char *directory);

/* --block-size, at most the model's positions; without it the length that the tokenizer's files cut sequences to, else
   the positions. The option gets that value. */
int64_t labelled_max_length(option_set *o, const eitp_tokenizer *tokenizer, const eitp_transformer_config *shape);

/* Says what is worth knowing of the data: what was cut, left out or repeated. */
void labelled_report(const data_file *data);

/* Warns of labels that nothing can be learned from: a single one, and those that occur once. */
void labelled_report_labels(const data_file *data, const char *path);

/* What has labels. */
typedef enum labels_found { LABELS_NONE, LABELS_OF_TEXTS, LABELS_OF_WORDS } labels_found;

/* Looks at the first row of the data. */
eitp_status labelled_find_labels(const option_set *o, option_id id, labels_found *found, eitp_error *error);

/* The names of a model's labels, without memory for its weights. Zero-initialise it. */
typedef struct label_names {
    eitp_context *context;
    eitp_model *model;
    const char **names; /* `count` of them, which belong to the model; NULL: the directory names none */
    int64_t count;
} label_names;

/* Reads the names in the config.json of `directory`, which has a classifier of this shape. If they stand for
   their numbers alone, they are none. Release it in any case. */
eitp_status label_names_read(const eitp_transformer_config *shape, const char *directory, label_names *names,
                             eitp_error *error);
void label_names_release(label_names *names);

/* eitp_model_match_labels with the labels of the data, which `path` names. */
eitp_status labelled_match(const eitp_model *model, const data_file *data, const char *path, int32_t *numbers,
                           eitp_label_match *match, eitp_error *error);

EITP_END_DECLARATIONS

#endif
