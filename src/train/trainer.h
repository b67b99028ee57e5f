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

    /* One micro-batch: forward, backward, gradients added to their variables. */
    eitp_graph *micro_graph;
    eitp_plan *micro_plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    eitp_tensor *weight; /* F32 [1]: 1 / targets of the step */
    eitp_tensor *carry;  /* F32 [1]: 0 for the first micro-batch */

    /* The update. */
    eitp_graph *update_graph;
    eitp_plan *update_plan;
    eitp_update update;

    eitp__evaluator evaluator;
    eitp__batch *batches; /* one for each micro-batch of a step */
    eitp__batch evaluation_batch;
    int64_t step; /* steps made */
};

#endif
