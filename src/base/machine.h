/* State of memory, in more detail than eitp_memory_info. */
#ifndef EITP_MACHINE_H
#define EITP_MACHINE_H

#include "base/base.h"
#include "base/platform.h"

/* Memory state, in bytes. */
typedef struct eitp__memory_state {
    eitp_memory_info info;
    uint64_t left_physical;  /* memory left by the machine and the control groups; UINT64_MAX: unknown */
    uint64_t left_of_limits; /* memory left by the process's own limits; UINT64_MAX: no limit */
    uint64_t anonymous;      /* resident memory of this process without file mappings (RssAnon); else `info.resident` */

    /* Limit of the machine or control group in which other processes use the largest share of memory; 0: unknown. */
    uint64_t fullest_limit;
    uint64_t fullest_used; /* memory used there, including by this process, without cached files */
    const char *fullest_source;
} eitp__memory_state;

/* Reads the state. Fails like eitp_memory_info_read. */
EITP__PRIVATE eitp_status eitp__memory_read(const eitp_host *host, eitp__memory_state *state, eitp_error *error);

/* Returns the resident set of the process, and stores the part of it that is shared with files and other programs in
   *shared, unless that is NULL. Both are in bytes, 0 if unknown. Faster than eitp__memory_read. */
EITP__PRIVATE uint64_t eitp__resident_read(const eitp_host *host, uint64_t *shared);

/*
 * Returns the minimum memory that should stay free while the process runs: half the margin of
 * eitp_memory_budget_default. A process within its budget stays above it unless other programs grow. 0 if `usable` is
 * unknown or info is NULL.
 */
EITP__PRIVATE uint64_t eitp__memory_floor(const eitp_memory_info *info);

#endif
