/* The health of a run: steps whose numbers are not finite. */
#ifndef EITP_HEALTH_H
#define EITP_HEALTH_H

#include "run/run_loop.h"

/* Looks at the last step. EITP_ERROR_NOT_FINITE after max_nonfinite steps in a row that were not applied. */
EITP__PRIVATE eitp_status eitp__health_check(eitp_run *run, eitp_error *error);

#endif
