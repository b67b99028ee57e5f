/* The current state of the machine, for runs that train on it. */
#ifndef COMMAND_MONITOR_MACHINE_H
#define COMMAND_MONITOR_MACHINE_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* Unknown values are NaN or 0. */
typedef struct machine {
    double time; /* of the reading, in seconds since 1970 */
    char name[256];
    eitp_memory_info memory;
    double memory_percent; /* in use, the larger of machine and control group */
    double pressure;       /* percent of the last 10 seconds that tasks waited for memory */
    double load;           /* average of the last minute */
    int processors;
    double processor_percent;              /* busy since the previous reading */
    double temperature, temperature_limit; /* the hottest processor, in degrees Celsius */
    double power;                          /* largest value of a sensor, in watts */
    double busy, all;                      /* ticks of all processors */
} machine;

/* Reads the machine. Zero the struct before the first call. */
void machine_read(machine *m);

/* True if a run trains or trained on this machine. */
int machine_has(const machine *m, const recorded_run *r);

/* Reads the GPU of a run and the memory of its process there. Returns 0 if the run uses no GPU, or if it cannot be read
   here. */
int machine_read_gpu(const recorded_run *r, eitp_gpu *gpu);

/* Returns the resident bytes of a process, or NaN. */
double machine_resident(int64_t process);

/* Returns the free bytes of the file system of a path, or NaN. */
double machine_disk(const char *path);

EITP_END_DECLARATIONS

#endif
