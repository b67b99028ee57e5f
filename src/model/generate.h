/* Generators: what those who plan their memory, and who generate text with them, ask. */
#ifndef EITP_GENERATE_H
#define EITP_GENERATE_H

#include "base/platform.h"
#include "base/settings.h"
#include "model/model.h"

/* Bytes of the cache, which a context with plans_only does not allocate. */
EITP__PRIVATE size_t eitp__generator_cache_bytes(const eitp_generator *generator);

/* Tokens that the cache has room for. */
EITP__PRIVATE int64_t eitp__generator_capacity(const eitp_generator *generator);

/* Goes back to the tokens in the cache that a sequence of `count` tokens, 1 or more, begins with, all of it but its
   last token at most, and returns their number: the others are to be fed. */
EITP__PRIVATE int64_t eitp__generator_keep(eitp_generator *generator, const int32_t *tokens, int64_t count);

/* True if the model's configuration has a token among those that end a text. */
EITP__PRIVATE int eitp__generator_ends_with(const eitp_generator *generator, int32_t token);

/* The members of eitp_sampling, with their defaults and bounds. Stores their number in *count, unless `count` is
   NULL. */
EITP__PRIVATE const eitp_setting *eitp__sampling_setting_table(size_t *count);

#endif
