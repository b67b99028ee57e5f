/* A training run, from its options to a training that is ready for the next step. */
#ifndef COMMAND_RUN_H
#define COMMAND_RUN_H

#include "data/opening.h"
#include "options/options.h"
#include "run/leftovers.h"
#include "run/replace.h"

EITP_BEGIN_DECLARATIONS

typedef struct training_run {
    option_set options;
    char *directory;              /* --output-dir */
    char *checkpoint;             /* to resume from; NULL: a new run */
    char *model_directory;        /* of --model; NULL: none */
    eitp_checkpoint_info resumed; /* of that checkpoint */
    char rereads[256];            /* options that make a resumed run read its data again; "": none */
    const char *numerics;         /* kernels to continue with; NULL: any */
    replaced_run replaced;
    leftovers leftovers;           /* of --show-data */
    eitp_transformer_config shape; /* of the model */
    eitp_task_kind kind;           /* the task */
    eitp_run *run;                 /* owns the directory, in which no other process writes; belongs to `training` */
    eitp_training *training;       /* NULL: not open yet */
    eitp_fit_candidate choice;     /* the configuration that fits */
    int64_t steps;                 /* in total */
    eitp_run_listener listener;
    opening opening;
    char **arguments; /* of the command */
    int argument_count;
    int started;
} training_run;

/*
 * Finds the checkpoint to resume from, and completes the options from the checkpoint, its run.json, and defaults that
 * depend on other options. With --resume auto the directory is locked from here on, unless options are only printed.
 */
eitp_status run_resolve(training_run *r, eitp_error *error);

/* Fails for options that contradict each other or the checkpoint. */
eitp_status run_check_options(const training_run *r, eitp_error *error);

/* True if the weights come from --model, not random ones from --init. */
int run_starts_from_model(const training_run *r);

/* Completes the options that depend on the model, for --print-config. */
void run_complete_options(training_run *r);

/* Prepares everything else: directory, model, data, trainer, run.json. The caller sets `listener` first. */
eitp_status run_prepare(training_run *r, eitp_error *error);

/* Prints the first lines of the log. */
void run_log(const training_run *r);

/* Adds the options and the command to run.json. */
eitp_status run_add_info(training_run *r, eitp_error *error);

/* Returns the memory for a copy of the checkpoint, in addition to the plan. 0 if training waits for saves, or saves
   only at the end. */
size_t run_copy_bytes(const training_run *r);

/* Ends a run. Before the first step, removes the files that it created; packed data only if the run was refused. */
void run_release(training_run *r);

EITP_END_DECLARATIONS

#endif
