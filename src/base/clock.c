#include "base/clock.h"

#include <time.h>

EITP__PRIVATE double eitp__clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
