/* Time for measurements. */
#ifndef EITP_CLOCK_H
#define EITP_CLOCK_H

#include "base/platform.h"

/* Seconds from some point on; never goes back. */
EITP__PRIVATE double eitp__clock(void);

#endif
