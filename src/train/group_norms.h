/* The norms of groups of parameters in a step, from the sums of squares that an update computes anyway. */
#ifndef EITP_GROUP_NORMS_H
#define EITP_GROUP_NORMS_H

#include "base/memory.h"
#include "train/train.h"

/* The outputs of a plan with an update: the sums of squares of each parameter. */
typedef struct eitp__norm_outputs {
    const eitp_host *host;
    struct eitp__norm_output *all;
    size_t count, capacity;
    int has_failed; /* out of memory: the list is incomplete */
} eitp__norm_outputs;

/* Writes the name of a parameter's group: the name of its layer, or of its module outside the layers. */
EITP__PRIVATE void eitp__group_name(const char *parameter, char *name, size_t size);

/* Implements eitp_optimizer_config.observe. `outputs` is an eitp__norm_outputs. */
EITP__PRIVATE void eitp__norm_outputs_add(void *outputs, const eitp_tensor *parameter, eitp_tensor *gradient,
                                          eitp_tensor *update);
EITP__PRIVATE void eitp__norm_outputs_release(eitp__norm_outputs *outputs);

/* Reads the norms after an execution of the plan. The gradients are of the loss times `loss_scale`. */
EITP__PRIVATE eitp_status eitp__norm_outputs_read(const eitp__norm_outputs *outputs, eitp_plan *plan, double loss_scale,
                                                  eitp_group_norms *groups, size_t capacity, size_t *count,
                                                  eitp_error *error);

#endif
