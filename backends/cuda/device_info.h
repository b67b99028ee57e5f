/* The properties of a device that the choice of kernels depends on. */
#ifndef EITP_CUDA_DEVICE_INFO_H
#define EITP_CUDA_DEVICE_INFO_H

#include "base/platform.h"

typedef struct eitp__cuda_device {
    char name[128];
    char address[24]; /* PCI bus address, such as "0000:17:00.0"; "": unknown */
    int ordinal;      /* index among the visible devices */
    int capability;   /* for example 86 for sm_86 */
    int processors;   /* number of multiprocessors */
    int clock_khz;
    int memory_clock_khz, memory_bus_bits;
    size_t memory;       /* bytes */
    size_t shared_limit; /* maximum shared memory of a block, in bytes */
} eitp__cuda_device;

#endif
