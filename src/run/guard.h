/* The memory guard: looks if memory is short, before and within steps, and saves and reduces the run before it is. */
#ifndef EITP_GUARD_H
#define EITP_GUARD_H

#include "run/occupancy.h"
#include "run/pressure.h"
#include "run/run.h"

/* Its state. */
typedef struct eitp__guard {
    eitp__pressure pressure;
    eitp__occupancy occupancy;
    eitp__memory_state memory; /* the last look */
    double look_at;            /* time of the next look */
    double look_cost;          /* seconds that a look takes */
    double busy_from;          /* since then a step has not looked */
    unsigned polls;
    int watches;          /* not while the run resumes: there is nothing to save or to shrink */
    eitp__shortage alarm; /* what the last looks found, until the run reacts to it */
    double quiet_until;   /* until then a shortage is the one that the run reacted to last */
    int is_smallest;      /* no configuration uses less of the host's memory */
    int ignores;          /* until a step is done, since there is nothing to save or to shrink */
} eitp__guard;

/* True if the next polls look at memory; the others are a few instructions. */
EITP__PRIVATE int eitp__guard_look_is_due(const eitp_run *run, double now);

#endif
