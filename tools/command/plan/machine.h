/* The machine: processor, caches, GPUs. What the system does not say is empty or 0. */
#ifndef COMMAND_PLAN_MACHINE_H
#define COMMAND_PLAN_MACHINE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* "AMD EPYC 7B13"; the instruction set's name if the system does not report a model. */
void machine_processor_name(char *name, size_t size);

typedef struct machine_cache {
    int level;
    char type[16]; /* "Data", "Instruction", "Unified" */
    int64_t bytes;
} machine_cache;

enum { MACHINE_CACHES = 8, MACHINE_GPUS = 16 };

/* The caches of the first processor; returns how many. */
size_t machine_caches(machine_cache caches[MACHINE_CACHES]);

typedef struct machine_gpu {
    char name[120];                           /* "NVIDIA H200"; without a driver that tells it "NVIDIA 10de:2335" */
    char driver[80];                          /* "nvidia 550.54.15" */
    char address[24];                         /* on the PCI bus; "0000:17:00.0" */
    int64_t bytes;                            /* of memory */
    int64_t free;                             /* bytes of it; -1: unknown */
    double temperature, slowdown_temperature; /* in degrees Celsius; NaN: unknown */
} machine_gpu;

/* The GPUs for computing (NVIDIA, AMD, Intel), from /proc and /sys, and from the library of NVIDIA's driver; returns
   how many. */
size_t machine_gpus(machine_gpu gpus[MACHINE_GPUS]);

/* True if NVIDIA's driver has a GPU. Opens no library. */
int machine_has_nvidia(void);

EITP_END_DECLARATIONS

#endif
