/* Computation and memory traffic of each step of a plan. */
#ifndef EITP_PROFILE_H
#define EITP_PROFILE_H

#include "tensor/plan.h"

/* Returns the name for eitp_profile.variable. */
EITP__PRIVATE const char *eitp__step_variable_name(const eitp_plan *plan, const eitp__step *step);

/* Returns the name for the last step, up to step s, that has one: the step's location in the model. */
EITP__PRIVATE const char *eitp__step_location(const eitp_plan *plan, size_t s);

/* Returns the profile of a step, except for its time. */
EITP__PRIVATE eitp_profile eitp__profile_of(const eitp_plan *plan, size_t s);

/* Returns the work of a step. */
EITP__PRIVATE eitp__call_work eitp__work_of_step(const eitp_plan *plan, size_t s);

/* eitp__program_info.work of a plan. */
EITP__PRIVATE void eitp__plan_work(void *plan, size_t instruction, eitp__call_work *work);

#endif
