/* Clocks: a monotonic one for measurements, and the time of day. */
#ifndef EITP_CLOCK_H
#define EITP_CLOCK_H

#include "base/platform.h"

/* Returns the seconds since an arbitrary point in time; never decreases. */
EITP__PRIVATE double eitp__clock(void);

/* Returns the seconds since 1970, UTC, according to the system's clock, which may be set. */
EITP__PRIVATE double eitp__time_of_day(void);

#endif
