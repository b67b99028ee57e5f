/*
 * The plans of a step, with the buffers that feed them: what builds, estimates and discards them, for the trainer, the
 * planner and eitp_trainer_shrink.
 *
 * A step is one pass over all its samples, which updates parameters as it goes; or several passes that add gradients to
 * variables, and then an update.
 */
#ifndef EITP_STEP_PLANS_H
#define EITP_STEP_PLANS_H

#include "train/evaluate.h"
#include "train/read_ahead.h"

typedef struct eitp__step_plans {
    eitp_host host;
    eitp_task task;
    eitp_trainer_config config; /* micro_batches_per_pass: 0 until it is chosen */
    int64_t evaluation_samples; /* at a time; 0: a micro-batch */
    eitp_pass pass;             /* over micro-batches in a pass */
    char cut_parameter[64];     /* one whose gradient's last bits depend on `micro_batches_per_pass`; "": none */
    eitp_plan *gradient_plan;
    eitp_tensor *carry;       /* F32 [1]: 0 in the first pass of a step, else 1; NULL where there is only one */
    eitp_graph *update_graph; /* NULL: the update is in the plan above */
    eitp_plan *update_plan;
    eitp_update update;
    eitp_tensor *update_unique; /* the unique ids in that graph */
    eitp_tensor *scale;         /* F32 [1]: the loss scale; NULL: 1 */
    eitp__step_batches batches; /* of the step that is being computed */
    eitp__read_ahead ahead;     /* of those after it */
    eitp__unique unique;
    float *values; /* of one quantity of a pass */
    eitp__evaluator evaluator;
} eitp__step_plans;

/* Sets what they are made by; nothing is built yet. */
EITP__PRIVATE void eitp__step_plans_init(eitp__step_plans *plans, const eitp_task *task,
                                         const eitp_trainer_config *config, int64_t evaluation_samples);

/* Builds everything; after a failure what was built is there until eitp__step_plans_discard. */
EITP__PRIVATE eitp_status eitp__step_plans_create(eitp__step_plans *plans, eitp_error *error);
EITP__PRIVATE void eitp__step_plans_discard(eitp__step_plans *plans);
EITP__PRIVATE int eitp__step_plans_exist(const eitp__step_plans *plans);

/* What a step needs beside parameters and their state. */
typedef struct eitp__step_needs {
    size_t gradients;   /* of the context's variables */
    size_t pass, arena; /* pass: of forward and backward; arena: of the largest plan, workspace included */
    double seconds;     /* of a step, at the device's nominal speed */
} eitp__step_needs;

/*
 * What they would need, built by init alone, in an arena that has `others` bytes in any case. Chooses
 * evaluation_samples: fewer at a time where nothing else needs as large an arena.
 */
EITP__PRIVATE eitp_status eitp__step_plans_estimate(eitp__step_plans *plans, size_t others, eitp__step_needs *needs,
                                                    eitp_error *error);

/*
 * Rebuilds them for another configuration, in an arena no larger than they and other plans need. After a failure they
 * are as before or, without memory for that either, do not exist.
 */
EITP__PRIVATE eitp_status eitp__step_plans_remake(eitp__step_plans *plans, const eitp_trainer_config *config,
                                                  int64_t evaluation_samples, eitp_error *error);

EITP__PRIVATE eitp_step_shape eitp__step_shape_of(const eitp_trainer_config *config);
EITP__PRIVATE int eitp__step_shapes_equal(const eitp_step_shape *a, const eitp_step_shape *b);
EITP__PRIVATE void eitp__set_step_shape(eitp_trainer_config *config, const eitp_step_shape *shape);

/* Passes that a step takes; the same in full ones: the last may have fewer micro-batches than the others. */
EITP__PRIVATE int64_t eitp__step_passes(const eitp_trainer_config *config);
EITP__PRIVATE double eitp__step_full_passes(const eitp_trainer_config *config);

/* Where the samples of a pass lie. */
EITP__PRIVATE eitp__layout eitp__step_layout(const eitp__step_plans *plans);

/* True if micro-batches in a pass would have rows between them that the task cannot take. */
EITP__PRIVATE int eitp__step_refuses_gaps(const eitp__step_plans *plans);

/* The plan that has the update. */
EITP__PRIVATE eitp_plan *eitp__step_update_plan(const eitp__step_plans *plans);

#endif
