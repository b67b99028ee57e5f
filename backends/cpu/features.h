/* Which instruction sets the build, the processor and the operating system have. */
#ifndef EITP_CPU_FEATURES_H
#define EITP_CPU_FEATURES_H

#include "kernels/kernels.h"

/* True if the kernels of this set are compiled in. */
EITP__PRIVATE int eitp__isa_in_build(eitp__isa isa);

/* True if the kernels of this set can run here. */
EITP__PRIVATE int eitp__isa_available(eitp__isa isa);

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa);

#endif
