/* How full others have made the memory, in percent: a rule on what looks at memory find. It neither looks nor reads a
   clock itself. */
#ifndef EITP_OCCUPANCY_H
#define EITP_OCCUPANCY_H

#include "base/machine.h"

/* Percentage points that the share must fall until it may be told again. */
#define EITP__OCCUPANCY_FALLS 5

/* A share that was reached, and is told once. */
typedef struct eitp__occupancy_level {
    int is_reached; /* and has not fallen far enough since */
    int is_news;    /* it was not told yet */
} eitp__occupancy_level;

/*
 * The share is what others have of the memory that is not this process's. A run that takes memory leaves less to
 * others, which raises their share. So a level counts as reached only if others have this percentage of all memory, or
 * more than when the run began.
 */
typedef struct eitp__occupancy {
    uint64_t limit,
        began;      /* bytes of the machine or the control group, and what others had of them at the first look */
    double percent; /* of the last look; 0: unknown */
    int exceeds;    /* the last look found the higher level reached */
    eitp__occupancy_level high, full;
} eitp__occupancy;

/* Bytes that others have, without cached files. */
EITP__PRIVATE uint64_t eitp__occupancy_of_others(const eitp__memory_state *state);

/* Adds a look, with the levels in percent; 0 and 100: none. */
EITP__PRIVATE void eitp__occupancy_add(eitp__occupancy *occupancy, const eitp__memory_state *state, double high,
                                       double full);

/* Both levels were told. */
EITP__PRIVATE void eitp__occupancy_told(eitp__occupancy *occupancy);

#endif
