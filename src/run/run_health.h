/* What a run does about its health: warnings, and which models it does not save. */
#ifndef EITP_RUN_HEALTH_H
#define EITP_RUN_HEALTH_H

#include "run/run_loop.h"

/* Looks at the last step. EITP_ERROR_NOT_FINITE after max_nonfinite steps in a row whose numbers were not finite. */
EITP__PRIVATE eitp_status eitp__health_check(eitp_run *run, eitp_error *error);

/* True if the model may be saved under a name that a resume takes. If not, says so once, until it may again. */
EITP__PRIVATE int eitp__health_may_save(eitp_run *run);

/* True if the model may be saved now. */
EITP__PRIVATE int eitp__health_is_good(const eitp_run *run);

/* True if the model is ruined; false if it may be saved, or if the next step tells. */
EITP__PRIVATE int eitp__health_is_ruined(const eitp_run *run);

/* True if every weight is finite. */
EITP__PRIVATE int eitp__health_has_finite_weights(const eitp_run *run);

/* Sets the end of a run whose model is ruined, and fails with EITP_ERROR_NOT_FINITE: the reason, the checkpoint that a
   resume takes, and what to do. `kept` is the name of the directory that has the model, or NULL. */
EITP__PRIVATE eitp_status eitp__health_fail(eitp_run *run, const char *kept, eitp_error *error);

#endif
