#include "base/clock.h"

#include <time.h>

static double eitp__read_clock(int clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

EITP__PRIVATE double eitp__clock(void) {
    return eitp__read_clock(CLOCK_MONOTONIC);
}

EITP__PRIVATE double eitp__time_of_day(void) {
    return eitp__read_clock(CLOCK_REALTIME);
}
