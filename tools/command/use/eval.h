/* eitp eval: what is common to the tasks that a model is evaluated for. */
#ifndef COMMAND_USE_EVAL_H
#define COMMAND_USE_EVAL_H

#include "data/data.h"
#include "data/packed.h"
#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

typedef struct evaluating {
    option_set options;
    trained_model trained;
    data_file data;
    option_id of_run; /* the option of the model's run whose texts are evaluated; OPTION_COUNT: other data */
    int64_t block_size;
    eitp_token_range range;    /* of a token file */
    eitp_labelled_part *part;  /* of a labelled file */
    eitp_text_windows windows; /* of a token file, for masked models */
    eitp_task task;
    eitp_evaluation result;
} evaluating;

/* How a model of one kind is evaluated. */
typedef struct evaluating_kind {
    /* Opens the data. */
    eitp_status (*open)(evaluating *e, eitp_error *error);
    /* Creates e->task, whose training samples are evaluated. */
    eitp_status (*create)(evaluating *e, eitp_error *error);
    /* Adds members of the JSON object, or lines, to the result. */
    void (*add_json)(const evaluating *e, text_buffer *t);
    void (*add_text)(const evaluating *e, text_buffer *t);
} evaluating_kind;

extern const evaluating_kind evaluating_language, evaluating_masked, evaluating_labels;

/* Sets e->block_size to the length at which rows are cut: that of --block-size or the checkpoint, or the one that train
   would use. */
void evaluating_set_max_length(evaluating *e);

/* Takes what the texts of the model's run were packed into, if they are evaluated (split_use_packed). */
eitp_status evaluating_use_packed(evaluating *e, packed_test has_data, eitp_error *error);

/* Opens a token file, or texts packed into one, and selects the part of --split. */
eitp_status evaluating_open_tokens(evaluating *e, eitp_error *error);

EITP_END_DECLARATIONS

#endif
