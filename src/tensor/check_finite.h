/* Execution that looks for the first value that is not finite. */
#ifndef EITP_CHECK_FINITE_H
#define EITP_CHECK_FINITE_H

#include "tensor/plan.h"

/* Executes the bound calls [first, end) of a plan one by one, and looks at the operands of each. */
EITP__PRIVATE eitp_status eitp__execute_checked_steps(eitp_plan *plan, size_t first, size_t end, void *workspace,
                                                      eitp_error *error);

#endif
