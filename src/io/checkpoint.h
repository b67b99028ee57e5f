/* Removing old checkpoints. */
#ifndef EITP_CHECKPOINT_H
#define EITP_CHECKPOINT_H

#include "base/platform.h"
#include "io/io.h"

/* eitp_checkpoint_prune that also keeps the checkpoint of step `kept`; -1: none. */
EITP__PRIVATE eitp_status eitp__checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                                 int64_t kept, eitp_error *error);

#endif
