/* The objective of a trainer: adds its regularizers to the passes of a task. */
#ifndef EITP_BINDING_H
#define EITP_BINDING_H

#include "objective/objective.h"
#include "task/pass.h"

typedef struct eitp__objective {
    eitp_objective_config config; /* resolved: without presets or open defaults */
    /* Copied from the task. */
    const eitp_model *model;
    eitp_status (*extend)(void *extension, eitp_pass *pass, eitp_error *error);
    void *extension;
} eitp__objective;

/* A regularizer with separate passes, and the maximum number of such regularizers. */
#define EITP__MAX_PROBES 3
typedef struct eitp__probe_kind {
    eitp_regularizer regularizer;
    eitp_term_schedule timing;
    int trains; /* it is a term of the loss */
} eitp__probe_kind;

/* Checks a configuration. EITP_ERROR_ARGUMENT if it is invalid or does not fit the task or the size of a
   micro-batch. */
EITP__PRIVATE eitp_status eitp__objective_check_task(const eitp_objective_config *config, const eitp_task *task,
                                                     int64_t batch_size, eitp_error *error);

/* Binds an objective that was checked to a task. The task's passes get the regularizers, after the additions of the
   task's own `extend`. `objective` must outlive the task. */
EITP__PRIVATE void eitp__objective_bind(eitp__objective *objective, const eitp_objective_config *config,
                                        eitp_task *task);

/* Lists the regularizers with separate passes. Returns their number. */
EITP__PRIVATE int eitp__objective_probes(const eitp__objective *objective, eitp__probe_kind kinds[EITP__MAX_PROBES]);

#endif
