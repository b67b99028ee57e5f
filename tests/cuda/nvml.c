/*
 * libnvidia-ml.so.1 for machines without a GPU: all devices of the emulated driver (driver.c), in the order of their
 * buses, with figures chosen by the test. A call that no program may make ends the process with a line that starts with
 * "emulated cuda: ".
 *
 * Environment, read at the first call and by emulated_nvml_restart, except that every call reads the file again:
 *   EITP_EMULATED_CUDA_DEVICES  number of devices: 1
 *   EITP_EMULATED_CUDA_MEMORY   memory of each in bytes: 2147483648
 *   EITP_EMULATED_NVML          a file with lines "figure value"; "-" stands for a figure that the devices do not
 *                               support. The figures, and their default values, are below
 *   EITP_EMULATED_NVML_FAIL     the n-th call fails without effect: n, n:code or name:n:code
 */
#include "tests/cuda/nvml_api.h"

#include "tests/cuda/emulated_faults.h"
#include "tests/cuda/emulated_hooks.h"

#include <pthread.h>
#include <unistd.h>

#define NVML_EXPORT __attribute__((visibility("default")))
#define NVML_DECLARE(name, arguments) NVML_EXPORT nvmlReturn_t name arguments;
NVML_API(NVML_DECLARE)
#undef NVML_DECLARE
NVML_EXPORT int emulated_nvml_live(void);
NVML_EXPORT unsigned long emulated_nvml_calls(void);
NVML_EXPORT void emulated_nvml_restart(void);

enum { MOST_DEVICES = 8, CORES = 0, SLOWDOWN = 1, MULTIPROCESSORS = 1 };

struct nvmlDevice_st {
    unsigned index;
};

static struct {
    pthread_mutex_t lock;
    int is_read, initialized;
    unsigned devices;
    unsigned long calls;
    unsigned long long spent; /* energy, in mJ */
    emulated_fault fault;
    struct nvmlDevice_st device[MOST_DEVICES];
} nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Figures ---- */

static const struct {
    const char *name;
    unsigned long long usual;
} figures[] = {{"used", 805306368},         /* bytes */
               {"process", 0},              /* the process that uses memory; 0: the caller */
               {"process_used", 730144440}, /* bytes */
               {"divided", 0},              /* MIG */
               {"gpu", 87},                 /* percent */
               {"memory", 31},              /* percent */
               {"temperature", 63},         /* of the first device; each following one is 10 degrees higher */
               {"slowdown", 90},
               {"power", 214300},   /* mW */
               {"energy", 1000000}, /* mJ at the first read; each read adds 1500 */
               {"clock", 1410},     /* MHz */
               {"slowed", 0}};      /* bit mask of reasons */

/* Returns the value in the file, or the default, or 0 if the figure is not supported. */
static int find_figure(const char *name, unsigned long long *value) {
    const char *path = getenv("EITP_EMULATED_NVML");
    FILE *file = path && *path ? fopen(path, "r") : NULL;
    char found[40], text[40];
    int is_supported = 1;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (!strcmp(figures[i].name, name))
            *value = figures[i].usual;
    }
    while (file && fscanf(file, "%39s %39s", found, text) == 2) {
        if (strcmp(found, name))
            continue;
        is_supported = strcmp(text, "-") != 0;
        *value = strtoull(text, NULL, 0);
    }
    if (file)
        fclose(file);
    return is_supported;
}

static nvmlReturn_t give(const char *name, unsigned long long more, unsigned *target) {
    unsigned long long value = 0;
    if (!target)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!find_figure(name, &value))
        return NVML_ERROR_NOT_SUPPORTED;
    *target = (unsigned)(value + more);
    return NVML_SUCCESS;
}

static nvmlReturn_t give_long(const char *name, unsigned long long more, unsigned long long *target) {
    if (!target)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!find_figure(name, target))
        return NVML_ERROR_NOT_SUPPORTED;
    *target += more;
    return NVML_SUCCESS;
}

/* ---- Calls ---- */

static unsigned long long setting(const char *name, unsigned long long usual) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : usual;
}

static void refuse(const char *what) {
    fprintf(stderr, "emulated cuda: NVML: %s\n", what);
    abort();
}

static void read_settings(void) {
    emulated_fault_read(&nvml.fault, "EITP_EMULATED_NVML_FAIL", NVML_ERROR_UNKNOWN);
    nvml.devices = (unsigned)setting("EITP_EMULATED_CUDA_DEVICES", 1);
    if (nvml.devices > MOST_DEVICES)
        refuse("too many devices");
    for (unsigned i = 0; i < nvml.devices; i++)
        nvml.device[i].index = i;
    nvml.calls = 0;
    nvml.spent = 0;
    nvml.is_read = 1;
}

static nvmlReturn_t enter(const char *function, int needs_init) {
    nvmlReturn_t error;
    pthread_mutex_lock(&nvml.lock);
    if (!nvml.is_read)
        read_settings();
    nvml.calls++;
    error = (nvmlReturn_t)emulated_fault_strikes(&nvml.fault, function);
    return !error && needs_init && !nvml.initialized ? NVML_ERROR_UNINITIALIZED : error;
}

static nvmlReturn_t leave(nvmlReturn_t result) {
    pthread_mutex_unlock(&nvml.lock);
    return result;
}

#define CALL(needs_init, expression)                                                                                   \
    do {                                                                                                               \
        const nvmlReturn_t entered_ = enter(__func__, needs_init);                                                     \
        return leave(entered_ ? entered_ : (expression));                                                              \
    } while (0)

static unsigned index_of(nvmlDevice_t device) {
    for (unsigned i = 0; i < nvml.devices; i++) {
        if (device == &nvml.device[i])
            return i;
    }
    refuse("a device is used that it never gave");
    return 0;
}

/* ---- Hooks ---- */

int emulated_nvml_live(void) {
    return nvml.initialized;
}

unsigned long emulated_nvml_calls(void) {
    return nvml.calls;
}

void emulated_nvml_restart(void) {
    pthread_mutex_lock(&nvml.lock);
    if (nvml.initialized)
        refuse("it is restarted before it was shut down");
    read_settings();
    pthread_mutex_unlock(&nvml.lock);
}

/* ---- The library ---- */

static nvmlReturn_t initialize(void) {
    nvml.initialized++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) {
    CALL(0, initialize());
}

/* Shuts down even if it fails. */
nvmlReturn_t nvmlShutdown(void) {
    const nvmlReturn_t error = enter(__func__, 1);
    if (nvml.initialized)
        nvml.initialized--;
    return leave(error);
}

static nvmlReturn_t give_text(char *text, unsigned size, const char *format, unsigned number) {
    if (!text)
        return NVML_ERROR_INVALID_ARGUMENT;
    return (unsigned)snprintf(text, size, format, number) < size ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned size) {
    CALL(1, give_text(text, size, "580.%u", 65));
}

static nvmlReturn_t count_devices(unsigned *count) {
    *count = nvml.devices;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    CALL(1, count_devices(count));
}

static nvmlReturn_t get_device(unsigned index, nvmlDevice_t *device) {
    if (index >= nvml.devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &nvml.device[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    CALL(1, get_device(index, device));
}

/* ---- Devices ---- */

static nvmlReturn_t get_pci(unsigned index, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)EMULATED_BUS((int)index);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    CALL(1, get_pci(index_of(device), pci));
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned size) {
    CALL(1, give_text(text, size, "Emulated GPU %u", index_of(device)));
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *next) {
    index_of(device);
    *next = 0;
    CALL(1, give("divided", 0, now));
}

static nvmlReturn_t get_memory(nvmlMemory_t *memory) {
    memory->total = setting("EITP_EMULATED_CUDA_MEMORY", 1ull << 31);
    if (!find_figure("used", &memory->used))
        return NVML_ERROR_NOT_SUPPORTED;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    index_of(device);
    CALL(1, get_memory(memory));
}

/* The other process comes first. If the memory of a process is unknown, NVML reports a special value. */
static nvmlReturn_t list_processes(unsigned *count, nvmlProcessInfo_t *list) {
    unsigned long long process = 0;
    const unsigned room = *count;
    *count = 2;
    if (room < *count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (!find_figure("process", &process))
        return NVML_ERROR_NOT_SUPPORTED;
    memset(list, 0, 2 * sizeof *list);
    list[0].pid = 1;
    list[0].usedGpuMemory = 75161928;
    list[1].pid = process ? (unsigned)process : (unsigned)getpid();
    if (!find_figure("process_used", &list[1].usedGpuMemory))
        list[1].usedGpuMemory = ~0ull;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *list) {
    index_of(device);
    CALL(1, list_processes(count, list));
}

static nvmlReturn_t get_use(nvmlUtilization_t *use) {
    const nvmlReturn_t error = give("gpu", 0, &use->gpu);
    return error ? error : give("memory", 0, &use->memory);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *use) {
    index_of(device);
    CALL(1, get_use(use));
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *value) {
    CALL(1, sensor == CORES ? give("temperature", 10 * index_of(device), value) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int which, unsigned *value) {
    index_of(device);
    CALL(1, which == SLOWDOWN ? give("slowdown", 0, value) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    index_of(device);
    CALL(1, give("power", 0, milliwatts));
}

static nvmlReturn_t get_energy(unsigned long long *millijoules) {
    const nvmlReturn_t error = give_long("energy", nvml.spent, millijoules);
    nvml.spent += 1500;
    return error;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    index_of(device);
    CALL(1, get_energy(millijoules));
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int which, unsigned *megahertz) {
    index_of(device);
    CALL(1, which == MULTIPROCESSORS ? give("clock", 0, megahertz) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    index_of(device);
    CALL(1, give_long("slowed", 0, reasons));
}
