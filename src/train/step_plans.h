/*
 * The plans of a step and the buffers that feed them: building, estimating and discarding them, for the trainer, the
 * planner and eitp_trainer_shrink.
 *
 * A step is either one pass over all its samples, which also updates the parameters, or several passes that add
 * gradients to variables, followed by an update.
 */
#ifndef EITP_STEP_PLANS_H
#define EITP_STEP_PLANS_H

#include "train/evaluator.h"
#include "train/group_norms.h"
#include "train/planner.h"
#include "train/term_norms.h"
#include "train/read_ahead.h"
#include "train/unique_ids.h"

/* The results of a step: the members of eitp_update, then the totals of the terms. */
typedef enum eitp__step_result {
    EITP__RESULT_GRADIENT_SCALE,
    EITP__RESULT_APPLIED,
    EITP__RESULT_GRADIENT_NORM,
    EITP__RESULT_UPDATE_NORM,
    EITP__RESULT_PARAMETER_NORM,
    EITP__RESULT_TASK_GRADIENT_NORM, /* from eitp_update.regularizers, or 0 */
    EITP__RESULT_REGULARIZER_NORM,
    EITP__RESULT_REGULARIZER_SCALE,
    EITP__RESULT_TOTALS,
    EITP__RESULT_LEARNERS = EITP__RESULT_TOTALS + EITP_MAX_STEP_SCALARS, /* EITP__LEARNER_RESULTS for each learner */
    EITP__LEARNER_RESULTS = EITP__RESULT_PARAMETER_NORM + 1, /* the first results, for the learner's update */
    EITP__STEP_RESULTS = EITP__RESULT_LEARNERS + EITP_MAX_LEARNERS * EITP__LEARNER_RESULTS
} eitp__step_result;

typedef struct eitp__step_plans {
    eitp_host host;
    eitp_task task;
    eitp_trainer_config config; /* micro_batches_per_pass is 0 until it is chosen */
    int64_t evaluation_samples; /* samples per pass of an evaluation; 0: a micro-batch */
    eitp__objective objective;  /* bound to `task` */
    eitp_pass pass;             /* forward and backward pass */
    eitp__probes probes;
    eitp__term_norms term_norms;
    /* A parameter whose gradient's last bits depend on micro_batches_per_pass, or a program's own state that does; "":
       none. */
    char pass_dependent_parameter[64];
    eitp_plan *gradient_plan;
    eitp_tensor *carry;       /* F32 [1]: 0 in the first pass of a step, otherwise 1; NULL if there is one pass */
    eitp_graph *update_graph; /* NULL: gradient_plan contains the update */
    eitp_plan *update_plan;
    eitp_update update;
    eitp_update learner_updates[EITP_MAX_LEARNERS]; /* updates of the learners of `pass`, in the same plan */
    eitp_tensor *result; /* F64 output of the plan with the update: eitp__step_result, for as many learners as there
                            are */
    eitp__norm_outputs norms;   /* outputs of the same plan */
    eitp_tensor *update_unique; /* the unique ids in update_graph */
    eitp_tensor *scale;         /* F32 [1]: the loss scale; NULL: 1 */
    eitp__step_batches batches; /* batches of the current step */
    eitp__read_ahead ahead;     /* batches of the next steps */
    eitp__unique unique;
    eitp__evaluator evaluator;
} eitp__step_plans;

/* Stores the arguments and binds the objective, which must be valid. Builds nothing. Do not move the struct. */
EITP__PRIVATE void eitp__step_plans_init(eitp__step_plans *plans, const eitp_task *task,
                                         const eitp_trainer_config *config, int64_t evaluation_samples);

/* Builds plans and buffers. After a failure call eitp__step_plans_discard too. */
EITP__PRIVATE eitp_status eitp__step_plans_create(eitp__step_plans *plans, eitp_error *error);
EITP__PRIVATE void eitp__step_plans_discard(eitp__step_plans *plans);
EITP__PRIVATE int eitp__step_plans_exist(const eitp__step_plans *plans);

/* Fills in a step's needs except the arena: variables, workspace, arithmetic, time and file traffic. */
EITP__PRIVATE void eitp__step_plans_count(const eitp__step_plans *plans, const eitp_plan_stats *pass,
                                          const eitp_plan_stats *update, eitp_fit_candidate *needs);

/*
 * Estimates the needs of plans that are initialized but not built, in an arena of at least `others` bytes. The total is
 * the sum of gradients and arena, or EITP__CANNOT_RUN. Raises the memory limit of a pass to the minimum of its plan,
 * and lowers evaluation_samples until an evaluation needs no larger arena than training.
 */
EITP__PRIVATE eitp_status eitp__step_plans_estimate(eitp__step_plans *plans, size_t others, eitp_fit_candidate *needs,
                                                    eitp_error *error);

/* Rebuilds the plans for another configuration and trims the arena to the needs of all plans. After a failure the plans
   are unchanged or, if there is not enough memory to restore them, do not exist. */
EITP__PRIVATE eitp_status eitp__step_plans_rebuild(eitp__step_plans *plans, const eitp_trainer_config *config,
                                                   int64_t evaluation_samples, eitp_error *error);

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config);
EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b);
EITP__PRIVATE void eitp__set_step_shape(eitp_trainer_config *config, const eitp_step_shape *shape);

/* True if steps of both shapes give the same bits: both take the same samples, and split sums over rows and samples
   only between groups that a product sums at once. */
EITP__PRIVATE int eitp__step_shapes_keep_bits(const eitp__step_plans *plans, const eitp_step_shape *a,
                                              const eitp_step_shape *b);

/* Return the passes per step, and the same in units of full passes, since the last pass may have fewer
   micro-batches. */
EITP__PRIVATE int64_t eitp__step_passes(const eitp_trainer_config *config);
EITP__PRIVATE double eitp__step_full_passes(const eitp_trainer_config *config);

/* Returns the layout of the samples in a pass. */
EITP__PRIVATE eitp__layout eitp__step_layout(const eitp__step_plans *plans);

/* True if micro-batches in a pass need padding between them, but the task does not allow it. */
EITP__PRIVATE int eitp__step_refuses_gaps(const eitp__step_plans *plans);

/* Returns the plan that contains the update. */
EITP__PRIVATE eitp_plan *eitp__step_update_plan(const eitp__step_plans *plans);

#endif
