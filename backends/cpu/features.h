/* Instruction sets supported by the build, the processor and the operating system. */
#ifndef EITP_CPU_FEATURES_H
#define EITP_CPU_FEATURES_H

#include "kernels/kernels.h"

/* True if the kernels of this set are compiled in. */
EITP__PRIVATE int eitp__isa_in_build(eitp__isa isa);

/* True if the kernels of this set can run here. */
EITP__PRIVATE int eitp__isa_available(eitp__isa isa);

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa);

/*
 * True on Intel processors since Sapphire Rapids, which have AMX for BF16: they start a VDPBF16PS (32 products) every
 * second cycle, and four FMAs of 16 products in that time. A virtual machine may hide AMX.
 */
EITP__PRIVATE int eitp__has_slow_pairs(void);

/* Returns the fastest of the available sets, a mask of 1 << isa that includes REF. */
EITP__PRIVATE eitp__isa eitp__fastest_isa(unsigned available, int has_slow_pairs);

#endif
