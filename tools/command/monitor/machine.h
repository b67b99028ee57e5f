/* The machine now, for runs that train on it. */
#ifndef COMMAND_MONITOR_MACHINE_H
#define COMMAND_MONITOR_MACHINE_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* What is unknown is NaN or 0. */
typedef struct machine {
    double time; /* of the reading, in seconds since 1970 */
    char name[256];
    eitp_memory_info memory;
    double memory_percent; /* in use, of the machine or of the control group, whichever is more */
    double pressure;       /* percent of the last 10 seconds in which tasks waited for memory */
    double load;           /* of the last minute */
    int processors;
    double processor_percent;              /* busy since the reading before */
    double temperature, temperature_limit; /* the hottest processor, in degrees Celsius */
    double power;                          /* the largest that a sensor shows, in watts */
    double busy, all;                      /* ticks of all processors */
} machine;

/* Reads it. Zeroed before the first time. */
void machine_read(machine *m);

/* True if a run trains, or trained, on this machine. */
int machine_has(const machine *m, const recorded_run *r);

/* Reads the GPU that a run computes on, and the memory that its process has there. Returns 0 if it computes on none, or
   it cannot be read here. */
int machine_read_gpu(const recorded_run *r, eitp_gpu *gpu);

/* Resident bytes of a process, or NaN. */
double machine_resident(int64_t process);

/* Bytes that may be written to the file system of a path, or NaN. */
double machine_disk(const char *path);

EITP_END_DECLARATIONS

#endif
