/* The gradient norm of each term of the loss in the first pass of a step. Separate graphs repeat its forward pass and
   compute a backward pass for each term, without storing a gradient. */
#ifndef EITP_TERM_NORMS_H
#define EITP_TERM_NORMS_H

#include "train/probes.h"

/* A pass whose terms are differentiated one at a time: the task's pass, or a probe. */
typedef struct eitp__term_norm_pass {
    eitp_pass pass;
    eitp_plan *plan;
    eitp__batch batch;
    eitp_tensor *squares;             /* output F64 [terms]: squared gradient norm of each term, in the order of the
                                         pass */
    int terms[EITP_MAX_STEP_SCALARS]; /* indices of the terms among the scalars */
    int term_count;
} eitp__term_norm_pass;

typedef struct eitp__term_norms {
    eitp__term_norm_pass passes[1 + EITP__MAX_PROBES];
    int count; /* 0: norms are never measured */
} eitp__term_norms;

/* Builds the graphs for the task's pass and for the probes with gradients, whose graphs must exist. */
EITP__PRIVATE eitp_status eitp__term_norms_build(eitp__term_norms *norms, const eitp_pass *pass,
                                                 const eitp__probes *probes, eitp_error *error);

/* Creates the plans and batches of the graphs, each within the limit, or the smallest if none fits. */
EITP__PRIVATE eitp_status eitp__term_norms_create(eitp__term_norms *norms, const eitp_plan_config *limit,
                                                  eitp_error *error);

/* Estimates the largest arena and workspace, and the seconds of a measurement. */
EITP__PRIVATE eitp_status eitp__term_norms_estimate(const eitp__term_norms *norms, const eitp_plan_config *limit,
                                                    size_t *bytes, double *seconds, eitp_error *error);

/* Adds the arithmetic and seconds of `times` measurements by the existing plans. */
EITP__PRIVATE void eitp__term_norms_count(const eitp__term_norms *norms, double times, eitp_plan_stats *work);

/* Releases everything. */
EITP__PRIVATE void eitp__term_norms_discard(eitp__term_norms *norms);

/* Reads the norms after an execution, and divides them by `loss_scale`. */
EITP__PRIVATE eitp_status eitp__term_norm_pass_read(const eitp__term_norm_pass *pass, double loss_scale,
                                                    double norms[EITP_MAX_STEP_SCALARS], eitp_error *error);

#endif
