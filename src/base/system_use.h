/* Resources of the machine used by the process so far: processor time, context switches, faults, files, energy. */
#ifndef EITP_SYSTEM_USE_H
#define EITP_SYSTEM_USE_H

#include "base/memory.h"
#include "base/status.h"

/* Counters since the process or the machine started. NaN: unknown. */
typedef struct eitp__system_use {
    double processor_s;                              /* of all threads, in user and kernel mode */
    double voluntary_switches, involuntary_switches; /* of threads: while waiting, and by the scheduler */
    double major_faults;                             /* pages read from a file or from swap */
    double read_bytes, written_bytes;                /* from and to storage */
    double machine_s, stolen_s;                      /* of all processors of the machine, and the part taken by a
                                                        hypervisor */
    double frequency;                                /* of the first processor, now, in Hz */
    double energy_j;                                 /* of the processor packages; wraps around at energy_range */
    double energy_range;
} eitp__system_use;

/* Reads the counters. Missing files give unknown values; only EITP_ERROR_MEMORY is an error. With `energy` 0, energy is
   not read. */
EITP__PRIVATE eitp_status eitp__system_use_read(const eitp_host *host, int energy, eitp__system_use *use,
                                                eitp_error *error);

#endif
