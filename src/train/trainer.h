/* The trainer's inside, shared by its steps and its checkpoints. */
#ifndef EITP_TRAINER_H
#define EITP_TRAINER_H

#include "train/step_plans.h"

struct eitp_trainer {
    eitp_host host;
    eitp__step_plans plans;
    eitp__readers readers;         /* of samples */
    double loss_scale;             /* dynamic: the scale, */
    int64_t scale_steps, skipped;  /* steps since it changed, steps that were skipped */
    int64_t step;                  /* steps made */
    int torn;                      /* what a checkpoint has may be of a step or a resume that is not complete */
    eitp_step_shape initial_shape; /* that it was made with; the configuration has the one that it is shrunk to */
};

/* EITP_ERROR_TORN, and what mends it, if the trainer is torn. */
EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error);

EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_context *context,
                                                     eitp_error *error);

#endif
