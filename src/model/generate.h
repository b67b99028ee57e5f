/* Generators: what those who plan their memory ask. */
#ifndef EITP_GENERATE_H
#define EITP_GENERATE_H

#include "base/platform.h"
#include "model/model.h"

/* Bytes of the cache, which a context with plans_only does not allocate. */
EITP__PRIVATE size_t eitp__generator_cache_bytes(const eitp_generator *generator);

#endif
