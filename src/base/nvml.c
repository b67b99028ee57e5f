#include "base/nvml.h"

#include "base/library.h"
#include "base/status.h"

#include <unistd.h>

/* Sets all values of a GPU to unknown. */
static void eitp__gpu_forget(eitp_gpu *gpu) {
    double *const numbers[] = {&gpu->memory_total,   &gpu->memory_used, &gpu->memory_free,
                               &gpu->process_memory, &gpu->utilization, &gpu->memory_utilization,
                               &gpu->temperature,    &gpu->power,       &gpu->slowdown_temperature,
                               &gpu->energy,         &gpu->clock};
    memset(gpu, 0, sizeof *gpu);
    for (size_t i = 0; i < EITP__COUNT(numbers); i++)
        *numbers[i] = (double)NAN;
}

int eitp_gpu_is_device(const char *address, const char *description) {
    const char *found = address && description && *address ? strstr(description, address) : NULL;
    const char *end = found ? found + strlen(address) : NULL;
    return found && (found == description || found[-1] == ' ') && (!*end || *end == ',');
}

#if EITP__WITH_CUDA

#define EITP__NVML_LIBRARY "libnvidia-ml.so.1"

enum {
    EITP__NVML_THERMOMETER = 0, /* nvmlTemperatureSensors_t: the GPU's die */
    EITP__NVML_SLOWDOWN = 1,    /* nvmlTemperatureThresholds_t */
    EITP__NVML_CLOCK = 1        /* nvmlClockType_t: the multiprocessors */
};

/* Bits of the reasons for lower clocks. */
enum { EITP__NVML_POWER = 0x04 | 0x80, EITP__NVML_HARDWARE = 0x08, EITP__NVML_HEAT = 0x20 | 0x40 };

/* Calls a function that the library may lack; true if it succeeded. */
#define EITP__NVML_TELLS(nvml, member, arguments) ((nvml)->member && !(nvml)->member arguments)

/* ---- The library ---- */

static int eitp__nvml_find_functions(eitp__nvml *nvml, void *library) {
    int is_complete = 1;
#define EITP__NVML_FIND(member, name, parameters)                                                                      \
    is_complete &= eitp__find_function(library, name, (void *)&nvml->member);
    EITP__NVML_REQUIRED(EITP__NVML_FIND)
#undef EITP__NVML_FIND
#define EITP__NVML_FIND(member, name, parameters) eitp__find_function(library, name, (void *)&nvml->member);
    EITP__NVML_OPTIONAL(EITP__NVML_FIND)
#undef EITP__NVML_FIND
    return is_complete;
}

/* Initialises the library; returns 0 on failure. Initialisations are counted, and each needs a shutdown. */
static int eitp__nvml_open(eitp__nvml *nvml) {
    char reason[200];
    void *library = eitp__can_open_libraries() ? eitp__open_library(EITP__NVML_LIBRARY, reason, sizeof reason) : NULL;
    memset(nvml, 0, sizeof *nvml);
    return library && eitp__nvml_find_functions(nvml, library) && !nvml->init();
}

/* Writes the address in the format of sysfs. */
static int eitp__nvml_read_address(const eitp__nvml *nvml, eitp__nvml_device device, char *address, size_t size) {
    eitp__nvml_pci pci;
    memset(&pci, 0, sizeof pci);
    *address = 0;
    if (nvml->pci(device, &pci))
        return 0;
    snprintf(address, size, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    return 1;
}

/* ---- Values ---- */

/* Returns the sum of the memory that the library lists for a process; NaN if it lists none. */
static double eitp__nvml_process_memory(const eitp__nvml *nvml, eitp__nvml_device device, int64_t process) {
    enum { EITP__MOST_PROCESSES = 256 };
    eitp__nvml_process list[EITP__MOST_PROCESSES];
    unsigned count = EITP__MOST_PROCESSES;
    double bytes = (double)NAN;
    memset(list, 0, sizeof list);
    if (!EITP__NVML_TELLS(nvml, processes, (device, &count, list)))
        return bytes;
    for (unsigned i = 0; i < count && i < EITP__MOST_PROCESSES; i++) {
        if ((int64_t)list[i].process == process && list[i].bytes != ULLONG_MAX)
            bytes = (isnan(bytes) ? 0 : bytes) + (double)list[i].bytes;
    }
    return bytes;
}

/* A partition of a divided device has separate memory, but these values are of the whole device. */
static void eitp__nvml_read_memory(const eitp__nvml *nvml, eitp__nvml_device device, int64_t process, eitp_gpu *gpu) {
    eitp__nvml_memory memory;
    unsigned now = 0, next = 0;
    if (EITP__NVML_TELLS(nvml, division, (device, &now, &next)) && now)
        return;
    if (EITP__NVML_TELLS(nvml, memory, (device, &memory))) {
        gpu->memory_total = (double)memory.total;
        gpu->memory_used = (double)memory.used;
        gpu->memory_free = (double)memory.free;
    }
    gpu->process_memory = eitp__nvml_process_memory(nvml, device, process);
}

static double eitp__nvml_temperature(const eitp__nvml *nvml, eitp__nvml_device device) {
    unsigned value;
    return EITP__NVML_TELLS(nvml, temperature, (device, EITP__NVML_THERMOMETER, &value)) ? (double)value : (double)NAN;
}

static void eitp__nvml_read_energy(const eitp__nvml *nvml, eitp__nvml_device device, eitp_gpu *gpu) {
    unsigned value;
    unsigned long long sum;
    gpu->temperature = eitp__nvml_temperature(nvml, device);
    if (EITP__NVML_TELLS(nvml, threshold, (device, EITP__NVML_SLOWDOWN, &value)) && value)
        gpu->slowdown_temperature = value;
    if (EITP__NVML_TELLS(nvml, power, (device, &value)))
        gpu->power = 1e-3 * value;
    if (EITP__NVML_TELLS(nvml, energy, (device, &sum)))
        gpu->energy = 1e-3 * (double)sum;
}

/* The hardware's own bit is set in addition to the bits for heat or the power brake if the driver knows the cause. */
static void eitp__nvml_read_speed(const eitp__nvml *nvml, eitp__nvml_device device, eitp_gpu *gpu) {
    eitp__nvml_use use;
    unsigned value;
    unsigned long long reasons;
    if (EITP__NVML_TELLS(nvml, use, (device, &use))) {
        gpu->utilization = use.gpu;
        gpu->memory_utilization = use.memory;
    }
    if (EITP__NVML_TELLS(nvml, clock, (device, EITP__NVML_CLOCK, &value)))
        gpu->clock = 1e6 * value;
    if (EITP__NVML_TELLS(nvml, slowdowns, (device, &reasons)))
        gpu->slowed_by = reasons & EITP__NVML_HEAT       ? "heat"
                         : reasons & EITP__NVML_POWER    ? "power"
                         : reasons & EITP__NVML_HARDWARE ? "hardware"
                                                         : "";
}

static void eitp__nvml_read(const eitp__nvml *nvml, eitp__nvml_device device, int64_t process, eitp_gpu *gpu) {
    eitp__gpu_forget(gpu);
    eitp__nvml_read_address(nvml, device, gpu->address, sizeof gpu->address);
    if (!EITP__NVML_TELLS(nvml, name, (device, gpu->name, (unsigned)sizeof gpu->name)))
        *gpu->name = 0;
    if (!EITP__NVML_TELLS(nvml, driver, (gpu->driver, (unsigned)sizeof gpu->driver)))
        *gpu->driver = 0;
    gpu->name[sizeof gpu->name - 1] = gpu->driver[sizeof gpu->driver - 1] = 0;
    eitp__nvml_read_memory(nvml, device, process ? process : (int64_t)getpid(), gpu);
    eitp__nvml_read_energy(nvml, device, gpu);
    eitp__nvml_read_speed(nvml, device, gpu);
}

/* ---- One GPU ---- */

/* Returns the device whose address is in the description, or NULL. */
static eitp__nvml_device eitp__nvml_find(const eitp__nvml *nvml, const char *description) {
    char address[24];
    unsigned count = 0;
    if (nvml->count(&count))
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        eitp__nvml_device device = NULL;
        if (!nvml->device(i, &device) && eitp__nvml_read_address(nvml, device, address, sizeof address) &&
            eitp_gpu_is_device(address, description))
            return device;
    }
    return NULL;
}

EITP__PRIVATE int eitp__gpu_meter_open(eitp__gpu_meter *meter, const char *description) {
    memset(meter, 0, sizeof *meter);
    meter->is_open = eitp__nvml_open(&meter->nvml);
    if (meter->is_open)
        meter->device = eitp__nvml_find(&meter->nvml, description);
    if (!meter->device)
        eitp__gpu_meter_close(meter);
    return meter->is_open;
}

EITP__PRIVATE void eitp__gpu_meter_close(eitp__gpu_meter *meter) {
    if (meter->is_open)
        meter->nvml.shutdown();
    memset(meter, 0, sizeof *meter);
}

EITP__PRIVATE void eitp__gpu_meter_read(const eitp__gpu_meter *meter, int64_t process, eitp_gpu *gpu) {
    eitp__gpu_forget(gpu);
    if (meter->is_open)
        eitp__nvml_read(&meter->nvml, meter->device, process, gpu);
}

EITP__PRIVATE double eitp__gpu_meter_temperature(const eitp__gpu_meter *meter) {
    return meter->is_open ? eitp__nvml_temperature(&meter->nvml, meter->device) : (double)NAN;
}

/* ---- All GPUs ---- */

/* Reads the GPUs that have an address; others are lost, or the process may not see them. */
static size_t eitp__nvml_read_all(const eitp__nvml *nvml, int64_t process, eitp_gpu *gpus, size_t capacity) {
    unsigned all = 0;
    size_t count = 0;
    if (nvml->count(&all))
        return 0;
    for (unsigned i = 0; i < all && count < capacity; i++) {
        eitp__nvml_device device = NULL;
        if (nvml->device(i, &device))
            continue;
        eitp__nvml_read(nvml, device, process, &gpus[count]);
        count += *gpus[count].address != 0;
    }
    return count;
}

static size_t eitp__gpus_read(int64_t process, eitp_gpu *gpus, size_t capacity) {
    eitp__nvml nvml;
    size_t count;
    if (!eitp__nvml_open(&nvml))
        return 0;
    count = eitp__nvml_read_all(&nvml, process, gpus, capacity);
    nvml.shutdown();
    return count;
}

#else

EITP__PRIVATE int eitp__gpu_meter_open(eitp__gpu_meter *meter, const char *description) {
    (void)description;
    meter->is_open = 0;
    return 0;
}

EITP__PRIVATE void eitp__gpu_meter_close(eitp__gpu_meter *meter) {
    meter->is_open = 0;
}

EITP__PRIVATE void eitp__gpu_meter_read(const eitp__gpu_meter *meter, int64_t process, eitp_gpu *gpu) {
    (void)meter, (void)process;
    eitp__gpu_forget(gpu);
}

EITP__PRIVATE double eitp__gpu_meter_temperature(const eitp__gpu_meter *meter) {
    (void)meter;
    return (double)NAN;
}

static size_t eitp__gpus_read(int64_t process, eitp_gpu *gpus, size_t capacity) {
    (void)process, (void)gpus, (void)capacity;
    return 0;
}

#endif

eitp_status eitp_gpus_read(int64_t process, eitp_gpu *gpus, size_t capacity, size_t *count, eitp_error *error) {
    if (!gpus || !count)
        return eitp__fail_null(error, "eitp_gpus_read", "gpus and count");
    *count = eitp__gpus_read(process, gpus, capacity);
    return EITP_OK;
}
