/* Limits of the process's control groups (cgroups), versions 1 and 2: memory and processor time. */
#ifndef EITP_CGROUPS_H
#define EITP_CGROUPS_H

#include "base/status.h"

/* Memory of a control group, in bytes. */
typedef struct eitp__cgroup_memory {
    uint64_t limit;
    uint64_t used; /* without the page cache that is reclaimed first (inactive_file) */
    uint64_t
        page_cache; /* the rest of the page cache (active_file), part of `used`: reclaimed before a process is killed */
} eitp__cgroup_memory;

/* Calls `visit` for the process's cgroup and each of its mounted parents that have a limit. Only EITP_ERROR_MEMORY is
   an error. */
EITP__PRIVATE eitp_status eitp__visit_cgroups(const eitp_host *host,
                                              void (*visit)(void *visitor, const eitp__cgroup_memory *memory),
                                              void *visitor, eitp_error *error);

/* Reads the lowest processor time allowed by the process's cgroup and its mounted parents, as a number of processors
   such as 1.5; 0 if none has a limit. Only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__cgroup_processors(const eitp_host *host, double *processors, eitp_error *error);

#endif
