/* What each step of a plan computes and moves. */
#ifndef EITP_PROFILE_H
#define EITP_PROFILE_H

#include "tensor/plan.h"

/* The name in eitp_profile.variable. */
EITP__PRIVATE const char *eitp__step_variable_name(const eitp_plan *plan, const eitp__step *step);

/* That of the last step that has one, up to a step: where in the model the step is. */
EITP__PRIVATE const char *eitp__step_place(const eitp_plan *plan, size_t s);

/* The profile of a step, except for its time. */
EITP__PRIVATE eitp_profile eitp__profile_of(const eitp_plan *plan, size_t s);

#endif
