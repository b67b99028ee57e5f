/* The loop of a run. An eitp_watch uses its steps and evaluations only. */
#ifndef EITP_RUN_LOOP_H
#define EITP_RUN_LOOP_H

#include "run/internal.h"

/* Calls `begin` of the observers. */
EITP__PRIVATE eitp_status eitp__run_begin_observers(eitp_run *run, eitp_error *error);

/* Notifies the observers of the coming step, and waits while one holds the run. */
EITP__PRIVATE eitp_status eitp__run_before_step(eitp_run *run, eitp_error *error);

/* Does work that observers may interrupt, and repeats it after they have reacted. */
EITP__PRIVATE eitp_status eitp__run_repeat(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                           eitp_error *error);

/* Makes a step and notifies the observers, whose votes are in run->decision. */
EITP__PRIVATE eitp_status eitp__run_make_step(eitp_run *run, eitp_error *error);

/* Evaluates and notifies the observers. */
EITP__PRIVATE eitp_status eitp__run_make_evaluation(eitp_run *run, eitp_error *error);

/*
 * Returns 1 if the step or evaluation in progress must be dropped, because the run was asked to stop or an observer
 * must act before it is repeated. `run` is an eitp_run. Called every few microseconds (eitp_context_set_poll), so the
 * usual path must be a few instructions.
 */
EITP__PRIVATE int eitp__run_poll(void *run);

/* Installs the run's poll in the trainer's context, and restores the previous one. */
EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run);
EITP__PRIVATE void eitp__run_end_polling(eitp_run *run);

/* Returns the end of a run that corresponds to a status. */
EITP__PRIVATE eitp_run_end eitp__run_end_of(const eitp_run *run, eitp_status status);

/* Resumes, trains and saves; fills in run->report. */
EITP__PRIVATE eitp_status eitp__run_loop(eitp_run *run, eitp_error *error);

#endif
