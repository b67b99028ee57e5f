/* A training run, from its options to the trainer that is ready for the next step. */
#ifndef COMMAND_RUN_H
#define COMMAND_RUN_H

#include "data/data.h"
#include "model/model.h"
#include "options/options.h"
#include "plan/fit.h"
#include "run/replace.h"

EITP_BEGIN_DECLARATIONS

typedef struct task_kind task_kind;

typedef struct training_run {
    option_set options;
    const task_kind *kind;        /* what it trains for */
    char *directory;              /* --output-dir */
    char *checkpoint;             /* that it resumes from; NULL: a new run */
    char *model_directory;        /* of --model; NULL: not looked up yet */
    eitp_checkpoint_info resumed; /* of that checkpoint */
    replaced_run replaced;
    eitp_transformer_config shape;           /* of the model */
    eitp_transformer_config directory_shape; /* of the weights that it starts from, if any */
    fit_plan plan;
    eitp_fit fit;
    char isa[MODEL_ISA_SIZE];
    eitp_fit_candidate choice; /* the configuration that fits */
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer; /* NULL: unknown */
    data_file training, validation;
    uint64_t kept_tokens; /* of training data that has grown since the checkpoint; 0: all */
    eitp_token_range training_range, validation_range;   /* of token files */
    eitp_labelled_part *training_part, *validation_part; /* of labelled files */
    eitp_text_windows windows[2];                        /* of token files, for --task mlm: of each eitp_split */
    eitp_task task;
    eitp_trainer *trainer;
    int validates;
    int64_t steps; /* in all */

    eitp_run_listener listener;
    eitp_run *run;      /* owns the directory: no other process writes in it */
    text_buffer record; /* the content of run.json */
    char *made_record;  /* the new run.json, removed again if there is no first step */
    int started;
} training_run;

/*
 * Finds the checkpoint to resume from, and completes the options: from the checkpoint, its run.json, and defaults that
 * depend on other options. With --resume auto the directory is locked from here on, unless the options are only
 * printed.
 */
eitp_status run_resolve(training_run *r, eitp_error *error);

/* Completes the options that follow from the model, for --print-config. */
void run_complete_options(training_run *r);

/* Everything else: directory, model, data, trainer, run.json. The caller sets `listener` before. */
eitp_status run_prepare(training_run *r, eitp_error *error);

/* Calls `read`, which reads what --model means from r->model_directory; again with another checkpoint if a run that
   trains there removes it meanwhile. */
eitp_status run_read_model(training_run *r, eitp_status (*read)(training_run *r, void *user, eitp_error *error),
                           void *user, eitp_error *error);

/* Gives a new model the vocabulary of its tokenizer or data. */
void run_set_vocabulary(training_run *r);

/* The epochs that the run's steps are. */
double run_epochs(const training_run *r);

/* Memory for a copy of the checkpoint beside that of the plan; 0: saves wait, or there is one only at the end. */
size_t run_copy_bytes(const training_run *r);

/* Ends a run. Before the first step, files that it created are removed; packed data is kept if `keep_data`. */
void run_release(training_run *r, int keep_data);

EITP_END_DECLARATIONS

#endif
