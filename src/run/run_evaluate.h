/* Evaluation during a run, its best checkpoint, and early stopping. */
#ifndef EITP_RUN_EVALUATE_H
#define EITP_RUN_EVALUATE_H

#include "run/run_loop.h"

/* True if the task has validation samples. */
EITP__PRIVATE int eitp__run_validates(const eitp_run *run);

/* Evaluates, records, and saves if it is the best so far. */
EITP__PRIVATE eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error);

/* Restores the run's state at the checkpoint: what follows will be repeated, and is removed from best.json. */
EITP__PRIVATE eitp_status eitp__run_resume_state(eitp_run *run, eitp_error *error);

#endif
