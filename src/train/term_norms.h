/*
 * The gradient norm of each term of the loss, of the first pass of a step: graphs of their own that repeat its forward
 * pass and make a backward pass for each term, without keeping a gradient.
 */
#ifndef EITP_TERM_NORMS_H
#define EITP_TERM_NORMS_H

#include "train/probes.h"

/* A pass whose terms are differentiated one by one: that of the task, or a probe's. */
typedef struct eitp__term_norm_pass {
    eitp_pass pass;
    eitp_plan *plan;
    eitp__batch batch;
    eitp_tensor *squares;             /* output F64 [terms]: of the gradient of each term, in the order of the pass */
    int terms[EITP_MAX_STEP_SCALARS]; /* the scalars that they are of */
    int term_count;
} eitp__term_norm_pass;

typedef struct eitp__term_norms {
    eitp__term_norm_pass passes[1 + EITP__MAX_PROBES];
    int count; /* 0: norms are never measured */
} eitp__term_norms;

/* Builds the graphs for the task's pass and for the probes that train, whose graphs exist. */
EITP__PRIVATE eitp_status eitp__term_norms_build(eitp__term_norms *norms, const eitp_pass *pass,
                                                 const eitp__probes *probes, eitp_error *error);

/* Creates the plans and batches of graphs that are built, each within the limit or, if it needs more, the smallest. */
EITP__PRIVATE eitp_status eitp__term_norms_create(eitp__term_norms *norms, const eitp_plan_config *limit,
                                                  eitp_error *error);

/* The largest arena and workspace, and the seconds of a measurement. */
EITP__PRIVATE eitp_status eitp__term_norms_estimate(const eitp__term_norms *norms, const eitp_plan_config *limit,
                                                    size_t *bytes, double *seconds, eitp_error *error);

/* Adds arithmetic and seconds of so many measurements, of the plans that were created. */
EITP__PRIVATE void eitp__term_norms_count(const eitp__term_norms *norms, double times, eitp_plan_stats *work);

/* Releases everything. */
EITP__PRIVATE void eitp__term_norms_discard(eitp__term_norms *norms);

/* Reads the norms after an execution; `loss_scale` is divided out. */
EITP__PRIVATE eitp_status eitp__term_norm_pass_read(const eitp__term_norm_pass *pass, double loss_scale,
                                                    double norms[EITP_MAX_STEP_SCALARS], eitp_error *error);

#endif
