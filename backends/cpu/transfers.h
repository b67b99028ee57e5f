/* Transfers of a program: a worker copies between memory and storage while other threads compute. */
#ifndef EITP_CPU_TRANSFERS_H
#define EITP_CPU_TRANSFERS_H

#include "backends/backend.h"
#include "base/worker.h"

/* A transfer of the program, stored at the index of the instruction that starts it. */
typedef struct eitp__transfer_job {
    const eitp__instruction *instruction;
    const eitp__storage *storage;
    uint64_t number; /* assigned by the worker, for its latest execution */
} eitp__transfer_job;

typedef struct eitp__transfers {
    eitp_host host;
    eitp__worker *worker;     /* owned by the backend */
    eitp__transfer_job *jobs; /* [count] */
    size_t count;
} eitp__transfers;

/* Creates *worker, unless it exists. Release the transfers even after a failure. */
EITP__PRIVATE eitp_status eitp__transfers_create(eitp__transfers *transfers, const eitp_host *host,
                                                 const eitp__program_info *info, eitp__worker **worker,
                                                 eitp_error *error);

/* Does nothing if zeroed. No transfer may be in progress. */
EITP__PRIVATE void eitp__transfers_release(eitp__transfers *transfers);

/* Executes an instruction other than EITP__COMPUTE. */
EITP__PRIVATE eitp_status eitp__transfer(eitp__transfers *transfers, size_t instruction, eitp_error *error);

#endif
