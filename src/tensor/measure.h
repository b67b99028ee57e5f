/* Running a plan step by step, for whoever wants to know what each step takes. */
#ifndef EITP_MEASURE_H
#define EITP_MEASURE_H

#include "tensor/plan.h"

/* Runs the bound calls [first, end) of a plan one after the other and tells the context's profiler of each. */
EITP__PRIVATE eitp_status eitp__run_profiled_steps(eitp_plan *plan, size_t first, size_t end, void *workspace,
                                                   eitp_error *error);

#endif
