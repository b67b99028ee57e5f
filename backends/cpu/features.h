/* What the processor has and the operating system allows. */
#ifndef EITP_CPU_FEATURES_H
#define EITP_CPU_FEATURES_H

#include "kernels/kernels.h"

/* Can kernels of this set run here? */
EITP__PRIVATE int eitp__isa_available(eitp__isa isa);

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa);

#endif
