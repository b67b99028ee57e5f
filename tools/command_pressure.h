/* A machine that goes short of memory while a run goes on: watched between steps, and acted on. */
#ifndef COMMAND_PRESSURE_H
#define COMMAND_PRESSURE_H

#include "command_run.h"

EITP_BEGIN_DECLARATIONS

typedef struct pressure {
    double looked;   /* when memory was read last */
    int in_a_row;    /* looks that found it short, since it was not or the run was made smaller */
    int warned;      /* said that it is, without --auto-shrink */
    int is_smallest; /* said that the run cannot be made smaller */
} pressure;

/*
 * Looks, at most once a second. Where memory is short it says so and, with --auto-shrink, makes the run smaller;
 * EITP_ERROR_PRESSURE where it cannot be and memory stays short.
 */
eitp_status pressure_look(pressure *p, run *r, eitp_error *error);

EITP_END_DECLARATIONS

#endif
