/* A machine that goes short of memory while a run goes on: watched between steps, and acted on. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "base/platform.h"
#include "run/run.h"

typedef struct eitp__guard {
    int has_looked;
    double looked;   /* when memory was read last */
    int in_a_row;    /* looks that found it short, since it was not or the run was made smaller */
    int warned;      /* said that it is, without auto_shrink */
    int is_smallest; /* said that the run cannot be made smaller */
} eitp__guard;

/*
 * Looks, at most every memory_seconds. If memory is short it says so and, with auto_shrink, makes the run smaller;
 * EITP_ERROR_PRESSURE if it cannot be and memory stays short.
 */
EITP__PRIVATE eitp_status eitp__guard_look(eitp_run *run, eitp_error *error);

#endif
