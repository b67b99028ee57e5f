/* Identity of this process, so that another process can tell if it is still running. */
#ifndef EITP_PROCESS_IDENTITY_H
#define EITP_PROCESS_IDENTITY_H

#include "base/memory.h"
#include "base/status.h"

/* Identifies a process. The process number alone is eventually reused; the three members together are not. */
typedef struct eitp__process_identity {
    int64_t process;     /* process ID */
    uint64_t start_time; /* when it started, in clock ticks since the machine booted, as in /proc/<pid>/stat; 0:
                            unknown */
    char boot[64];       /* random identifier of this boot of the machine; "": unknown */
} eitp__process_identity;

/* Reads the identity of this process. Missing files give unknown values; only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__process_identity_read(const eitp_host *host, eitp__process_identity *identity,
                                                      eitp_error *error);

/* Sets *is_alive to 1 if the process, which must belong to the current boot of the machine, is still running. A zombie
   that waits for its parent is not. */
EITP__PRIVATE eitp_status eitp__process_is_alive(const eitp_host *host, const eitp__process_identity *identity,
                                                 int *is_alive, eitp_error *error);

/* Reads the name of this machine; "localhost" if unknown. */
EITP__PRIVATE void eitp__host_name_read(const eitp_host *host, char *name, size_t size);

#endif
