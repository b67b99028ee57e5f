/* Which process this is, so that another one can tell whether it is still there. */
#ifndef EITP_PROCESS_IDENTITY_H
#define EITP_PROCESS_IDENTITY_H

#include "base/memory.h"
#include "base/status.h"

/* The number alone is given to another process later; the three together are not. */
typedef struct eitp__process_identity {
    int64_t process;     /* its number */
    uint64_t start_time; /* when it started, in clock ticks since the machine did, as in /proc/<pid>/stat; 0: unknown */
    char boot[64];       /* a random identifier of this start of the machine; "": unknown */
} eitp__process_identity;

/* Missing files are unknown values: only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__process_identity_read(const eitp_host *host, eitp__process_identity *identity,
                                                      eitp_error *error);

/* True if a process of this start of the machine is still there; one that has ended and waits for its parent is not. */
EITP__PRIVATE eitp_status eitp__process_is_alive(const eitp_host *host, const eitp__process_identity *identity,
                                                 int *is_alive, eitp_error *error);

/* The name of this machine; "localhost" if it is unknown. */
EITP__PRIVATE void eitp__host_name_read(const eitp_host *host, char *name, size_t size);

#endif
