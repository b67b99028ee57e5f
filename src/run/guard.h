/* The memory guard: looks if memory is short, before and within steps, and saves and reduces the run before it is. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "run/pressure.h"
#include "run/run.h"

typedef struct eitp__guard {
    eitp__pressure pressure;
    eitp__memory_state memory; /* the last look */
    double look_at;            /* time of the next look */
    double look_cost;          /* seconds that a look takes */
    double busy_from;          /* since then a step has not looked */
    unsigned polls;
    int watches;          /* not while the run resumes: there is nothing to save or to shrink */
    eitp__shortage alarm; /* what the last looks found, until the run reacts to it */
    double quiet_until;   /* until then a shortage is the one that the run reacted to last */
    int is_smallest;      /* no configuration uses less memory */
    int ignores;          /* until a step is done, since there is nothing to save or to shrink */
} eitp__guard;

/* Begins to watch memory: call it before the first step. */
EITP__PRIVATE void eitp__guard_begin(eitp_run *run);

/* Returns 1 if the step in progress should be dropped because memory is short. Usually a few instructions. */
EITP__PRIVATE int eitp__guard_poll(eitp_run *run);

/* Looks after a step. */
EITP__PRIVATE void eitp__guard_step_done(eitp_run *run);

/*
 * Reacts to short memory, if a look found it, between steps: releases the arena, saves the steps done, and with
 * auto_shrink shrinks the run. Looks first, if it is time to.
 * EITP_ERROR_PRESSURE if memory stays short and no configuration uses less; EITP_ERROR_MEMORY if that is so before
 * there are steps to save.
 */
EITP__PRIVATE eitp_status eitp__guard_check(eitp_run *run, eitp_error *error);

/* Does something that the guard may interrupt, and repeats it after eitp__guard_check. */
EITP__PRIVATE eitp_status eitp__guard_repeat(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                             eitp_error *error);

#endif
