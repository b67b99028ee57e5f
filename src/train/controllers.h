/* Controllers: factors of regularizers' weights, adjusted from step to step according to the regularizers' values. */
#ifndef EITP_CONTROLLERS_H
#define EITP_CONTROLLERS_H

#include "objective/binding.h"
#include "train/train.h"

/* The factors of all regularizers. Those without a controller are 1. The state is a variable of the context, and so
   part of checkpoints. */
typedef struct eitp__controllers {
    eitp_controller kind;
    double factors[EITP_REGULARIZERS];
} eitp__controllers;

/* Declares the state if the objective has a controller. */
EITP__PRIVATE eitp_status eitp__controllers_create(eitp_context *context, const eitp_objective_config *config,
                                                   eitp_error *error);

/* Reads the factors of the next step. */
EITP__PRIVATE eitp_status eitp__controllers_read(eitp_context *context, const eitp_objective_config *config,
                                                 eitp__controllers *controllers, eitp_error *error);

/* Updates the state with the terms of a step that was applied. */
EITP__PRIVATE eitp_status eitp__controllers_update(eitp_context *context, const eitp_objective_config *config,
                                                   const eitp_step_report *report, eitp_error *error);

#endif
