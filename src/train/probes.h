/* Probes: separate passes for regularizers that need more than the task's pass computes, on the first samples of a
   step. A probe has a graph, a plan and a batch. Its gradients are added to the gradients of the step. */
#ifndef EITP_PROBES_H
#define EITP_PROBES_H

#include "objective/binding.h"
#include "tensor/op_rules.h"
#include "train/batch.h"
#include "train/train.h"

typedef struct eitp__probe {
    eitp__probe_kind kind; /* the regularizer, its schedule, and whether it has a gradient */
    eitp_pass pass;
    eitp_plan *plan;
    eitp__batch batch;
    int first_total; /* index of the pass's first total in the step's totals */
} eitp__probe;

typedef struct eitp__probes {
    eitp__probe of[EITP__MAX_PROBES];
    int count;
} eitp__probes;

/* Lists the probes of an objective, without building them. */
EITP__PRIVATE void eitp__probes_init(eitp__probes *probes, const eitp__objective *objective);

/* True if a probe has a gradient. A step is then never a single pass. */
EITP__PRIVATE int eitp__probes_train(const eitp__probes *probes);

/* Builds the graphs, after the graph of the task's pass, for samples of this layout. The gradients are accumulated in
   `set`; totals start at `first_total`. */
EITP__PRIVATE eitp_status eitp__probes_build(eitp__probes *probes, const eitp_task *task, const eitp__layout *layout,
                                             int64_t step_rows, eitp__gradient_set set, int first_total,
                                             eitp_error *error);

/* Creates the plans and batches of the graphs. */
EITP__PRIVATE eitp_status eitp__probes_create(eitp__probes *probes, const eitp_plan_config *limit, eitp_error *error);

/* Estimates the largest arena and workspace of the probes, and their seconds in an average step. */
EITP__PRIVATE eitp_status eitp__probes_estimate(const eitp__probes *probes, const eitp_plan_config *limit,
                                                size_t *bytes, double *seconds, eitp_error *error);

/* Creates a plan within a limit, or the smallest plan if none fits. */
EITP__PRIVATE eitp_status eitp__plan_create_near(eitp_graph *graph, const eitp_plan_config *limit, eitp_plan **plan,
                                                 eitp_error *error);

/* Adds the arithmetic and seconds of the existing plans in an average step. */
EITP__PRIVATE void eitp__probes_count(const eitp__probes *probes, eitp_plan_stats *work);

/* Releases graphs, plans and batches, but not the list. */
EITP__PRIVATE void eitp__probes_discard(eitp__probes *probes);

#endif
