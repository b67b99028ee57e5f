/*
 * Repeated readings of NVIDIA GPUs through their driver's management library (NVML). The library is opened at run time,
 * and its types and functions are declared here under eitp's own names, so building needs no part of it. The structs
 * match the versions in the functions' names, which drivers have since 510.
 */
#ifndef EITP_NVML_H
#define EITP_NVML_H

#include "base/base.h"
#include "base/platform.h"

#if EITP__WITH_CUDA

typedef int eitp__nvml_result; /* nvmlReturn_t; 0 is success */
typedef struct eitp__nvml_device_object *eitp__nvml_device;

typedef struct eitp__nvml_memory {
    unsigned long long total, free, used;
} eitp__nvml_memory;

typedef struct eitp__nvml_use {
    unsigned gpu, memory; /* percent */
} eitp__nvml_use;

typedef struct eitp__nvml_process {
    unsigned process;
    unsigned long long bytes; /* all bits set: unknown */
    unsigned gpu_instance, compute_instance;
} eitp__nvml_process;

typedef struct eitp__nvml_pci {
    char old_address[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
} eitp__nvml_pci;

/* The functions: member, name in the library, parameters. Functions in the first list are required; a driver may lack
   those in the second. */
#define EITP__NVML_REQUIRED(X)                                                                                         \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *count))                                                               \
    X(device, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, eitp__nvml_device *device))                            \
    X(pci, "nvmlDeviceGetPciInfo_v3", (eitp__nvml_device device, eitp__nvml_pci * pci))
#define EITP__NVML_OPTIONAL(X)                                                                                         \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned size))                                               \
    X(name, "nvmlDeviceGetName", (eitp__nvml_device device, char *text, unsigned size))                                \
    X(division, "nvmlDeviceGetMigMode", (eitp__nvml_device device, unsigned *now, unsigned *next))                     \
    X(memory, "nvmlDeviceGetMemoryInfo", (eitp__nvml_device device, eitp__nvml_memory * memory))                       \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                                            \
      (eitp__nvml_device device, unsigned *count, eitp__nvml_process *processes))                                      \
    X(use, "nvmlDeviceGetUtilizationRates", (eitp__nvml_device device, eitp__nvml_use * use))                          \
    X(temperature, "nvmlDeviceGetTemperature", (eitp__nvml_device device, int sensor, unsigned *value))                \
    X(threshold, "nvmlDeviceGetTemperatureThreshold", (eitp__nvml_device device, int which, unsigned *value))          \
    X(power, "nvmlDeviceGetPowerUsage", (eitp__nvml_device device, unsigned *milliwatts))                              \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", (eitp__nvml_device device, unsigned long long *millijoules))      \
    X(clock, "nvmlDeviceGetClockInfo", (eitp__nvml_device device, int which, unsigned *megahertz))                     \
    X(slowdowns, "nvmlDeviceGetCurrentClocksThrottleReasons", (eitp__nvml_device device, unsigned long long *reasons))

typedef struct eitp__nvml {
#define EITP__NVML_MEMBER(member, name, parameters) eitp__nvml_result(*member) parameters;
    EITP__NVML_REQUIRED(EITP__NVML_MEMBER)
    EITP__NVML_OPTIONAL(EITP__NVML_MEMBER)
#undef EITP__NVML_MEMBER
} eitp__nvml;

#endif

/* A GPU for repeated readings. A zeroed meter has no GPU, and reads all values as unknown. */
typedef struct eitp__gpu_meter {
#if EITP__WITH_CUDA
    eitp__nvml nvml;
    eitp__nvml_device device;
#endif
    int is_open;
} eitp__gpu_meter;

/* Opens the GPU in a context's description (eitp_gpu_is_device). Returns 0, with *meter zeroed, if it cannot be read.
   Close it in any case. */
EITP__PRIVATE int eitp__gpu_meter_open(eitp__gpu_meter *meter, const char *description);
EITP__PRIVATE void eitp__gpu_meter_close(eitp__gpu_meter *meter);

/* Reads all values, including the memory used by a process; 0: this process. */
EITP__PRIVATE void eitp__gpu_meter_read(const eitp__gpu_meter *meter, int64_t process, eitp_gpu *gpu);

/* Returns the temperature in degrees Celsius; NaN if unknown. */
EITP__PRIVATE double eitp__gpu_meter_temperature(const eitp__gpu_meter *meter);

#endif
