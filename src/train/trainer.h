/* The trainer's inside, shared by its steps and its checkpoints. */
#ifndef EITP_TRAINER_H
#define EITP_TRAINER_H

#include "train/step_plans.h"

struct eitp_trainer {
    eitp_host host;
    eitp__step_plans plans;
    double loss_scale;            /* dynamic: the scale, */
    int64_t scale_steps, skipped; /* steps since it changed, steps that were skipped */
    int64_t step;                 /* steps made */
    int torn;                     /* what a checkpoint has may be of a step or a resume that is not complete */
    eitp_step_shape asked_shape;  /* that it was made with; the configuration has the one that it is shrunk to */
};

/* EITP_ERROR_TORN, and what mends it, if the trainer is torn. */
EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error);

EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_context *context,
                                                     eitp_error *error);

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config);
EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b);

/*
 * Makes plans and batches anew, in an arena that is no larger than they and other plans need. Where that fails the
 * trainer is as before, or, without memory for that either, has no plans: steps then try to make them.
 */
EITP__PRIVATE eitp_status eitp__trainer_remake(eitp_trainer *trainer, const eitp_trainer_config *config,
                                               int64_t evaluation_samples, eitp_error *error);

/* Goes over to the shape of a shrunk run's step. */
EITP__PRIVATE void eitp__set_step_shape(eitp_trainer_config *config, const eitp_step_shape *shape);
EITP__PRIVATE eitp_status eitp__trainer_reshape(eitp_trainer *trainer, const eitp_step_shape *shape, eitp_error *error);

#endif
