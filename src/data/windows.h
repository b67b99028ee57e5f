/* The samples of a language model: windows of a range of tokens, and the order in which they are drawn. */
#ifndef EITP_WINDOWS_H
#define EITP_WINDOWS_H

#include "base/platform.h"
#include "data/data.h"

/*
 * The windows of a range of n tokens with block size T: window i has tokens [i*T, i*T + T) of the range, and as targets
 * tokens [i*T + 1, i*T + T + 1). There are (n - 1) / T windows, rounded down. Filled in by eitp__windows_init; needs no
 * release.
 */
typedef struct eitp__windows {
    eitp_token_source source;
    int64_t block_size;
    uint64_t count; /* number of windows, at least 1 */
} eitp__windows;

/* Returns EITP_ERROR_ARGUMENT if the range is not within the source, has fewer than block_size + 1 tokens, or
   block_size is outside [1, 2^31 - 2]. */
EITP__PRIVATE eitp_status eitp__windows_init(eitp__windows *windows, const eitp_token_source *source,
                                             int64_t block_size, eitp_error *error);

/* Stores window `index` in tokens[T] and targets[T]. EITP_ERROR_ARGUMENT if index >= windows->count. After a failure
   the content of both is unspecified. */
EITP__PRIVATE eitp_status eitp__windows_read(const eitp__windows *windows, uint64_t index, int32_t *tokens,
                                             int32_t *targets, eitp_error *error);

/* Hints that the window will be read soon: the system may fetch it ahead. NULL and an index out of range are
   harmless. */
EITP__PRIVATE void eitp__windows_prefetch(const eitp__windows *windows, uint64_t index);

/*
 * Returns the index in the data of training sample `number`, counted from 0 across all epochs: sample k is in epoch k /
 * count at position k % count. In each epoch the mapping from position to index is a bijection on [0, count). It
 * depends only on the arguments and is computed directly, without the samples before it. 0 if count is 0.
 */
EITP__PRIVATE uint64_t eitp__sample_index(eitp_shuffle shuffle, uint64_t seed, uint64_t count, uint64_t number);

#endif
