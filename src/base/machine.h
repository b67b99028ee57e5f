/* A look at memory, with what eitp_memory_info does not tell apart. */
#ifndef EITP_MACHINE_H
#define EITP_MACHINE_H

#include "base/base.h"
#include "base/platform.h"

/* In bytes. */
typedef struct eitp__memory_state {
    eitp_memory_info info;
    uint64_t left_physical;  /* what the machine and the control groups leave; UINT64_MAX: unknown */
    uint64_t left_of_limits; /* what the process's own limits leave; UINT64_MAX: none */
    uint64_t anonymous;      /* resident memory of this process without that of files (RssAnon); else `info.resident` */

    /* The machine or the control group of whose memory other processes have the largest part; 0: unknown. */
    uint64_t fullest_limit;
    uint64_t fullest_used; /* also by this process, without cached files */
    const char *fullest_source;
} eitp__memory_state;

/* eitp_memory_info_read, which has the errors, with the rest. */
EITP__PRIVATE eitp_status eitp__memory_read(const eitp_host *host, eitp__memory_state *state, eitp_error *error);

/* Returns the resident set of the process, and stores the part of it that is shared with files and other programs in
   *shared, unless that is NULL: bytes, 0 if they are unknown. Quicker than eitp__memory_read. */
EITP__PRIVATE uint64_t eitp__resident_read(const eitp_host *host, uint64_t *shared);

/*
 * The least memory that should be left while the process runs: half of the margin of eitp_memory_budget_default, so
 * that a process within its budget stays above it unless other programs grow. 0 if `usable` is unknown or info is NULL.
 */
EITP__PRIVATE uint64_t eitp__memory_floor(const eitp_memory_info *info);

#endif
