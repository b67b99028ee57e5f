/* Items and seconds of a run up to a step, at which runs are compared. */
#ifndef COMMAND_REPORT_TOTALS_H
#define COMMAND_REPORT_TOTALS_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* A running total: its value after some steps, in ascending order, and linear between them. */
typedef struct running_total {
    size_t count; /* 0: nothing is recorded */
    double *steps, *totals;
} running_total;

typedef struct run_totals {
    const recorded_run *run; /* which must stay open */
    running_total items;     /* in the unit of recorded_unit */
    running_total times;     /* of steps: seconds */
    running_total saves;     /* seconds that training waited for checkpoints, from performance records */
    running_total evaluations;
    double begin; /* the step before the first recorded one: 0 unless records are missing */
} run_totals;

void run_totals_make(const recorded_run *r, run_totals *t);
void run_totals_release(run_totals *t);

/* Returns the items of the steps up to this one, or NaN if unknown. */
double run_totals_items(const run_totals *t, double step);

/* Returns the seconds of training up to the end of a step: steps, saves, and evaluations before the one after this
   step. Time between a crash and its resume does not count. NaN if unknown. */
double run_totals_seconds(const run_totals *t, double step);

/* Returns the last recorded step, or 0. */
double run_totals_end(const run_totals *t);

EITP_END_DECLARATIONS

#endif
