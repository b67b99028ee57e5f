/* The machine: processor, caches, GPUs. Unknown values are empty or 0. */
#ifndef COMMAND_PLAN_MACHINE_H
#define COMMAND_PLAN_MACHINE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Writes "AMD EPYC 7B13", or the instruction set's name if the system does not report a model. */
void machine_processor_name(char *name, size_t size);

typedef struct machine_cache {
    int level;
    char type[16]; /* "Data", "Instruction", "Unified" */
    int64_t bytes;
} machine_cache;

enum { MACHINE_CACHES = 8, MACHINE_GPUS = 16 };

/* Lists the caches of the first processor and returns their number. */
size_t machine_caches(machine_cache caches[MACHINE_CACHES]);

typedef struct machine_gpu {
    char name[120];                           /* "NVIDIA H200", or "NVIDIA 10de:2335" if no driver reports the name */
    char driver[80];                          /* "nvidia 550.54.15" */
    char address[24];                         /* on the PCI bus; "0000:17:00.0" */
    int64_t bytes;                            /* of memory */
    int64_t free;                             /* bytes of it; -1: unknown */
    double temperature, slowdown_temperature; /* in degrees Celsius; NaN: unknown */
} machine_gpu;

/* Lists GPUs for computing (NVIDIA, AMD, Intel) from /proc, /sys and NVIDIA's driver library, and returns their
   number. */
size_t machine_gpus(machine_gpu gpus[MACHINE_GPUS]);

/* True if NVIDIA's driver has a GPU. Does not load a library. */
int machine_has_nvidia(void);

EITP_END_DECLARATIONS

#endif
