/* The meter of a run: see eitp_run_measure. It takes the place of the observers' callbacks, so that a run that is not
   measured executes nothing for it. */
#ifndef EITP_METER_H
#define EITP_METER_H

#include "run/run_loop.h"

typedef struct eitp__meter {
    eitp_run_meter program;
    eitp__observer observers[EITP__OBSERVER_COUNT]; /* the run's own callbacks */
    double clock_cost, poll_cost;                   /* seconds between two readings with nothing in between */
    double seconds[EITP_RUN_PART_COUNT];            /* since the last step */
    double files;                                   /* seconds of the threads of files until the last step */
} eitp__meter;

#endif
