/* A step with its observers, as a run and an eitp_watch make it. */
#ifndef EITP_RUN_STEP_H
#define EITP_RUN_STEP_H

#include "run/run_loop.h"

/* Lets the observers begin. */
EITP__PRIVATE eitp_status eitp__run_begin_observers(eitp_run *run, eitp_error *error);

/* Tells the observers that a step comes, and waits while one holds the run. */
EITP__PRIVATE eitp_status eitp__run_before_step(eitp_run *run, eitp_error *error);

/* Does something that observers may interrupt, and repeats it after they have reacted. */
EITP__PRIVATE eitp_status eitp__run_repeat(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                           eitp_error *error);

/* Makes a step, and tells the observers, whose votes are in run->decision. */
EITP__PRIVATE eitp_status eitp__run_make_step(eitp_run *run, eitp_error *error);

#endif
