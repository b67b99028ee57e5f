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
    eitp_tensor *scale; /* F32 [1]: the loss scale; NULL: 1 */

    /* Dynamic loss scaling: the scale, steps since it changed, steps that were skipped. */
    double loss_scale;
    int64_t scale_steps, skipped;

    eitp__evaluator evaluator;
    eitp__batch *batches; /* one for each run of a step */
    eitp__batch evaluation_batch;
    int64_t step; /* steps made */
};

/* Makes the plans, batches and evaluator of a trainer whose model, configuration and `validates` are set. */
EITP__PRIVATE eitp_status eitp__trainer_prepare(eitp_trainer *trainer, eitp_error *error);

/* Runs that a step takes. */
EITP__PRIVATE int64_t eitp__trainer_runs(const eitp_trainer *trainer);

#endif
