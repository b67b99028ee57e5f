/* Checks the operands of a step for the first non-finite value, and reports it to the context. */
#ifndef EITP_CHECK_FINITE_H
#define EITP_CHECK_FINITE_H

#include "tensor/plan.h"

/* Non-finite values in the operands of a step before it was executed. */
typedef struct eitp__nonfinite_inputs {
    int nan, infinity;
} eitp__nonfinite_inputs;

EITP__PRIVATE eitp_status eitp__check_step_inputs(const eitp_plan *plan, size_t s, eitp__nonfinite_inputs *inputs,
                                                  eitp_error *error);
EITP__PRIVATE eitp_status eitp__check_step_outputs(const eitp_plan *plan, size_t s,
                                                   const eitp__nonfinite_inputs *inputs, eitp_error *error);

#endif
