/* Items and seconds of a run up to a step: what runs are compared at. */
#ifndef COMMAND_REPORT_TOTALS_H
#define COMMAND_REPORT_TOTALS_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* A number that grows with the steps: its sum after some of them, which ascend. Between them it is a straight line. */
typedef struct running_total {
    size_t count; /* 0: nothing is recorded */
    double *steps, *totals;
} running_total;

typedef struct run_totals {
    const recorded_run *run; /* which must stay open */
    running_total items;     /* what recorded_unit counts */
    running_total times;     /* of steps: seconds */
    running_total saves;     /* seconds that training waited for checkpoints, of records of performance */
    running_total evaluations;
    double begin; /* the step before the first one that is recorded: 0, unless records are missing */
} run_totals;

void run_totals_make(const recorded_run *r, run_totals *t);
void run_totals_release(run_totals *t);

/* Items of the steps up to this one; NaN: unknown. */
double run_totals_items(const run_totals *t, double step);

/* Seconds of training up to the end of a step: of steps, of saves, and of the evaluations before that after this step.
   So time between a crash and its resume does not count. NaN: unknown. */
double run_totals_seconds(const run_totals *t, double step);

/* The last step that is recorded; 0: none. */
double run_totals_end(const run_totals *t);

EITP_END_DECLARATIONS

#endif
