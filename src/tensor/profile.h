/* Profiled execution of a plan. */
#ifndef EITP_PROFILE_H
#define EITP_PROFILE_H

#include "tensor/plan.h"

/* The name in eitp_profile.variable. */
EITP__PRIVATE const char *eitp__step_variable_name(const eitp_plan *plan, const eitp__step *step);

/* Executes the bound calls [first, end) of a plan one by one, and reports each to the context's profiler. */
EITP__PRIVATE eitp_status eitp__execute_profiled_steps(eitp_plan *plan, size_t first, size_t end, void *workspace,
                                                       eitp_error *error);

#endif
