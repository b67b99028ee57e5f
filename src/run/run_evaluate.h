/* Evaluation during a run. */
#ifndef EITP_RUN_EVALUATE_H
#define EITP_RUN_EVALUATE_H

#include "run/run_loop.h"

/* Evaluates, and tells the observers. */
EITP__PRIVATE eitp_status eitp__run_make_evaluation(eitp_run *run, eitp_error *error);

/* The same, tells the trainer, and saves if an observer votes for it. */
EITP__PRIVATE eitp_status eitp__run_evaluate(eitp_run *run, eitp_error *error);

#endif
