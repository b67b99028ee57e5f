/* Other programs that slow a run down, or may: what the system says about them is reported if it lasts. */
#ifndef EITP_SURROUNDINGS_H
#define EITP_SURROUNDINGS_H

#include "base/platform.h"

/* A condition that matters if it lasts. Starts as zeros. */
typedef struct eitp__lasting {
    int is_on, is_told;
    double since; /* the condition is on */
} eitp__lasting;

/* Adds a value: the condition begins at `high` and ends below `low`; in between it stays. Returns 1, once, when it has
   been on for `seconds`. */
EITP__PRIVATE int eitp__lasting_add(eitp__lasting *lasting, double value, double high, double low, double seconds,
                                    double now);

/* The state of the observer. */
typedef struct eitp__surroundings {
    double look_at; /* time of the next look */
    eitp__lasting stalls, load;
    double online, own; /* processors of the machine, and those that the run keeps busy; 0: the run does not look */
} eitp__surroundings;

#endif
