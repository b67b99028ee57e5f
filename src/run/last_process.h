/* What run.json says about the process that trained, or trains, in an output directory. */
#ifndef EITP_LAST_PROCESS_H
#define EITP_LAST_PROCESS_H

#include "base/process_identity.h"

typedef struct eitp__last_process {
    eitp__process_identity identity;
    char state[24]; /* see eitp_run_add_info */
    int64_t step;   /* steps done then */
    double alive;   /* time of the state, in seconds since 1970 */
} eitp__last_process;

/* Reads it; all zeros if there is no run.json with a process that can be read. Only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__last_process_read(const eitp_host *host, const char *path, eitp__last_process *last,
                                                  eitp_error *error);

/* True if it has not said how it ended. */
EITP__PRIVATE int eitp__last_process_is_open(const eitp__last_process *last);

#endif
