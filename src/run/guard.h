/* The memory guard: checks between steps if memory is short, and reduces what the run uses. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "base/platform.h"
#include "run/run.h"

typedef struct eitp__guard {
    int has_checked;
    double checked_at; /* time of the last check */
    int short_checks;  /* checks in a row that found memory short, since the run last shrank */
    int has_warned;    /* without auto_shrink, the warning was given */
    int is_smallest;   /* no configuration uses less memory */
} eitp__guard;

/*
 * Checks memory, at most every memory_check_seconds. If it is short, warns and, with auto_shrink, shrinks the run.
 * EITP_ERROR_PRESSURE if memory stays short and no configuration uses less.
 */
EITP__PRIVATE eitp_status eitp__guard_check(eitp_run *run, eitp_error *error);

#endif
