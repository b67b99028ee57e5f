/* Measures the peak rates of the CPU with dedicated loops. */
#ifndef EITP_CPU_LIMITS_H
#define EITP_CPU_LIMITS_H

#include "backends/backend.h"

/* Fills in all limits for `threads` threads and one kernel set. */
EITP__PRIVATE eitp_status eitp__limits_measure(const eitp_host *host, int threads, eitp__isa isa,
                                               eitp__backend_limits *limits, eitp_error *error);

/* Measures the peak rate of products of a dtype briefly, in FLOP/s; 0 if the dtype has no benchmark loop. */
EITP__PRIVATE double eitp__limits_peak(int threads, eitp__isa isa, eitp_dtype dtype);

#endif
