/* The trainer's inside, shared by its steps and its checkpoints. */
#ifndef EITP_TRAINER_H
#define EITP_TRAINER_H

#include "train/evaluate.h"

struct eitp_trainer {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    const eitp_token_file *training_file;
    eitp_trainer_config config;
    eitp_windows windows, validation;
    int validates;

    /* Merged micro-batches: forward and backward, then the update; or gradients added to their variables, where a step
     * is several runs. */
    eitp_graph *gradient_graph;
    eitp_plan *gradient_plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    eitp_tensor *weight; /* F32 [1]: loss scale / targets of the step */
    eitp_tensor *carry;  /* F32 [1]: 0 for the first run of a step; NULL where there is only one */

    /* The update, where it is not in the plan above. */
    eitp_graph *update_graph;
    eitp_plan *update_plan;
    eitp_update update;
    eitp_tensor *update_unique; /* inputs.unique of that graph, where it has one */
    eitp_tensor *scale;         /* F32 [1]: the loss scale; NULL: 1 */

    /* Dynamic loss scaling: the scale, steps since it changed, steps that were skipped. */
    double loss_scale;
    int64_t scale_steps, skipped;

    eitp__evaluator evaluator;
    int64_t evaluation_sequences; /* that it takes at a time; 0: a micro-batch */
    eitp__batch *batches;         /* one for each run of a step */
    int64_t batch_count;
    eitp__unique unique; /* where the model trains a tied embedding */
    eitp__batch evaluation_batch;
    int64_t step;                /* steps made */
    int torn;                    /* what a checkpoint has may be of a step or a resume that is not complete */
    eitp_step_shape asked_shape; /* that it was made with; the configuration has the one that it is shrunk to */
};

/* Makes the plans, batches and evaluator of a trainer whose model, configuration and `validates` are set. */
EITP__PRIVATE eitp_status eitp__trainer_prepare(eitp_trainer *trainer, eitp_error *error);

/* Releases what eitp__trainer_prepare made, as far as it did. */
EITP__PRIVATE void eitp__trainer_discard(eitp_trainer *trainer);

/* What a trainer needs beside its parameters and their state. */
typedef struct eitp__trainer_needs {
    size_t gradients;  /* of the context's variables */
    size_t run, arena; /* run: of forward and backward; arena: of the largest plan, workspace included */
    double seconds;    /* of a step, at the device's nominal speed */
} eitp__trainer_needs;

/*
 * What a trainer would need whose host, model, configuration, `validates` and evaluation_sequences are set, and whose
 * arena has `others` bytes in any case. It evaluates fewer sequences at a time where nothing else needs as large a one.
 */
EITP__PRIVATE eitp_status eitp__trainer_estimate(eitp_trainer *trainer, size_t others, eitp__trainer_needs *needs,
                                                 eitp_error *error);

/* EITP_ERROR_TORN, and what mends it, if the trainer is torn. */
EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error);

/* Runs that a step takes. */
EITP__PRIVATE int64_t eitp__trainer_runs(const eitp_trainer *trainer);

/* The same in full ones: the last may have fewer micro-batches than the others. */
EITP__PRIVATE double eitp__trainer_full_runs(const eitp_trainer *trainer);

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config);
EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b);

/*
 * Makes plans, batches and evaluator anew, in an arena that is no larger than they and other plans need. Where that
 * fails the trainer is as before, or, without memory for that either, has no plans: steps then try to make them.
 */
EITP__PRIVATE eitp_status eitp__trainer_remake(eitp_trainer *trainer, const eitp_trainer_config *config,
                                               int64_t evaluation_sequences, eitp_error *error);

/* Goes over to the shape of a shrunk run's step. */
EITP__PRIVATE void eitp__set_step_shape(eitp_trainer_config *config, const eitp_step_shape *shape);
EITP__PRIVATE eitp_status eitp__trainer_reshape(eitp_trainer *trainer, const eitp_step_shape *shape, eitp_error *error);

#endif
