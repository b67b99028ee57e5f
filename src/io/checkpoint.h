/* Checkpoints with other names, and removing old ones. */
#ifndef EITP_CHECKPOINT_H
#define EITP_CHECKPOINT_H

#include "base/platform.h"
#include "io/io.h"

/* eitp_checkpoint_create of "checkpoint-<step><suffix>". A resume finds only those without a suffix. */
EITP__PRIVATE eitp_status eitp__checkpoint_create(
    const eitp_host *host, const char *output_directory, int64_t step, const char *suffix,
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error), void *user, eitp_error *error);

/* eitp_checkpoint_prune that also keeps the checkpoint of step `kept`; -1: none. */
EITP__PRIVATE eitp_status eitp__checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                                 int64_t kept, eitp_error *error);

/* Checkpoints in a directory, and of these the ones that eitp__checkpoint_prune would remove. */
typedef struct eitp__checkpoint_use {
    int64_t count, prunable;
    uint64_t bytes, prunable_bytes;
} eitp__checkpoint_use;

EITP__PRIVATE eitp_status eitp__checkpoint_measure(const eitp_host *host, const char *output_directory, int64_t keep,
                                                   int64_t kept, eitp__checkpoint_use *use, eitp_error *error);

#endif
