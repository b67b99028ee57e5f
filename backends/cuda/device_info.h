/* What the choice of kernels depends on. */
#ifndef EITP_CUDA_DEVICE_INFO_H
#define EITP_CUDA_DEVICE_INFO_H

#include "base/platform.h"

typedef struct eitp__cuda_device {
    char name[128];
    char address[24]; /* on the PCI bus, such as "0000:17:00.0"; "": unknown */
    int ordinal;      /* among the visible devices */
    int capability;   /* of sm_86: 86 */
    int processors;   /* multiprocessors */
    int clock_khz;
    int memory_clock_khz, memory_bus_bits;
    size_t memory;       /* bytes */
    size_t shared_limit; /* bytes of shared memory that a block may ask for */
} eitp__cuda_device;

#endif
