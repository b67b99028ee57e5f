/* Internals of generators, for memory planning and text generation. */
#ifndef EITP_GENERATE_H
#define EITP_GENERATE_H

#include "base/platform.h"
#include "base/settings.h"
#include "model/model.h"

/* Returns the bytes of the cache, which a context with plans_only does not allocate. */
EITP__PRIVATE size_t eitp__generator_cache_bytes(const eitp_generator *generator);

/* Returns the number of tokens that fit in the cache. */
EITP__PRIVATE int64_t eitp__generator_capacity(const eitp_generator *generator);

/* Truncates the cache to the longest prefix that it shares with a sequence of `count` tokens, at least 1, excluding the
   sequence's last token. Returns the length of that prefix; the caller feeds the rest. */
EITP__PRIVATE int64_t eitp__generator_rewind(eitp_generator *generator, const int32_t *tokens, int64_t count);

/* True if the model's configuration lists the token as an end of text. */
EITP__PRIVATE int eitp__generator_ends_with(const eitp_generator *generator, int32_t token);

/* Returns the table of settings of eitp_sampling, with defaults and bounds. Stores their number in *count, unless
   `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__sampling_setting_table(size_t *count);

#endif
