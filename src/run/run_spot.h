/* Spot evaluations: of a few validation samples, between evaluations. */
#ifndef EITP_RUN_SPOT_H
#define EITP_RUN_SPOT_H

#include "run/run_loop.h"

/* True if a spot evaluation of the last step is due, and was not made. Never in a step whose evaluation is due. */
EITP__PRIVATE int eitp__spot_is_due(const eitp_run *run);

/* Makes it, and tells the observers. */
EITP__PRIVATE eitp_status eitp__run_make_spot(eitp_run *run, eitp_error *error);

#endif
