/*
 * The part of NVML's interface emulated by nvml.c, with the ABI of version 13, so that building the tests needs no CUDA
 * header.
 */
#ifndef EMULATED_NVML_API_H
#define EMULATED_NVML_API_H

typedef enum nvmlReturn_t {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct nvmlMemory_t {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlUtilization_t {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct nvmlProcessInfo_t {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct nvmlPciInfo_t {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

#define NVML_API(X)                                                                                                    \
    X(nvmlInit_v2, (void))                                                                                             \
    X(nvmlShutdown, (void))                                                                                            \
    X(nvmlSystemGetDriverVersion, (char *text, unsigned size))                                                         \
    X(nvmlDeviceGetCount_v2, (unsigned *count))                                                                        \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device))                                           \
    X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * pci))                                             \
    X(nvmlDeviceGetName, (nvmlDevice_t device, char *text, unsigned size))                                             \
    X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *now, unsigned *next))                                      \
    X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                                           \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *list))        \
    X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * use))                                   \
    X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned *value))                                    \
    X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, int which, unsigned *value))                            \
    X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *milliwatts))                                            \
    X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *millijoules))                     \
    X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int which, unsigned *megahertz))                                   \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *reasons))

#endif
