/* A monotonic clock for measurements. */
#ifndef EITP_CLOCK_H
#define EITP_CLOCK_H

#include "base/platform.h"

/* Seconds since an arbitrary point in time; never decreases. */
EITP__PRIVATE double eitp__clock(void);

#endif
