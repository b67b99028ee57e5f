/* The table of regularizers, and the resolution of a configuration's open choices. */
#ifndef EITP_OBJECTIVE_RESOLVE_H
#define EITP_OBJECTIVE_RESOLVE_H

#include "base/status.h"
#include "objective/objective.h"

/* The kind of a regularizer. */
typedef enum eitp__term_kind {
    EITP__TERM_STATISTIC = 0, /* on each group of a pass */
    EITP__TERM_PENALTY = 1,   /* on the parameters, once a step */
    EITP__TERM_MACHINE = 2    /* on the machine: it has no gradient and cannot be a loss */
} eitp__term_kind;

/* Mode and weight of a regularizer in a preset. A negative weight stands for the regularizer's default. */
typedef struct eitp__preset_term {
    eitp_term_mode mode;
    double weight;
} eitp__preset_term;

typedef struct eitp__regularizer_info {
    eitp_regularizer regularizer;
    const char *name;
    eitp__term_kind kind;
    int has_own_passes;
    double weight;                /* the default */
    eitp__preset_term presets[3]; /* by eitp_objective_preset */
} eitp__regularizer_info;

/* Returns the table row of a regularizer, or NULL for an unknown number. */
EITP__PRIVATE const eitp__regularizer_info *eitp__regularizer_get(eitp_regularizer regularizer);

/*
 * Copies a configuration and resolves EITP_TERM_PRESET, negative weights and an `every` of 0. A term with an open mode
 * but a set weight is a loss, or off if the weight is 0. EITP_ERROR_ARGUMENT if a setting is out of bounds, the lower
 * end of a range is above the upper end, or a metric-only regularizer is set to loss; *resolved is then unchanged. The
 * two may be the same struct.
 */
EITP__PRIVATE eitp_status eitp__objective_resolve(const eitp_objective_config *config, eitp_objective_config *resolved,
                                                  eitp_error *error);

#endif
