#include "backends/cuda/driver.h"

#include "base/library.h"

#if EITP__WITH_CUDA

#define EITP__CUDA_LIBRARY "libcuda.so.1"

static eitp_status eitp__cuda_find_functions(eitp__cuda_driver *driver, void *library, eitp_error *error) {
#define EITP__CUDA_FIND(member, name, parameters)                                                                      \
    if (!eitp__find_function(library, name, (void *)&driver->member))                                                  \
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,                                                               \
                          EITP__CUDA_LIBRARY " has no function %s: the NVIDIA driver is too old; update it", name);
    EITP__CUDA_FUNCTIONS(EITP__CUDA_FIND)
#undef EITP__CUDA_FIND
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_driver_open(eitp__cuda_driver *driver, eitp_error *error) {
    char reason[200] = "this program cannot open libraries";
    void *library = eitp__can_open_libraries() ? eitp__open_library(EITP__CUDA_LIBRARY, reason, sizeof reason) : NULL;
    const char *text = "";
    eitp__cuda_result result;
    eitp_status status;
    memset(driver, 0, sizeof *driver);
    if (!library)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "no NVIDIA driver: %s; use device 'cpu'",
                          *reason ? reason : EITP__CUDA_LIBRARY " is missing");
    status = eitp__cuda_find_functions(driver, library, error);
    if (status)
        return status;
    result = driver->init(0);
    if (result == EITP__CUDA_NO_DEVICE)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the NVIDIA driver found no GPU (CUDA_VISIBLE_DEVICES may hide it); use device 'cpu'");
    if (!result)
        result = driver->driver_version(&driver->version);
    if (result) {
        driver->error_text(result, &text);
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "cannot use the NVIDIA driver: %s (error %d)",
                          text ? text : "", result);
    }
    return EITP_OK;
}

/* True if every later call in the context fails too: the errors that "leave the process in an inconsistent state"
   according to the documentation of CUresult. */
static int eitp__cuda_loses_context(eitp__cuda_result result) {
    return result == EITP__CUDA_ECC_UNCORRECTABLE || result == EITP__CUDA_ILLEGAL_ADDRESS ||
           result == EITP__CUDA_LAUNCH_TIMEOUT || result == EITP__CUDA_CONTEXT_IS_DESTROYED ||
           result == EITP__CUDA_ASSERT ||
           (result >= EITP__CUDA_HARDWARE_STACK_ERROR && result <= EITP__CUDA_LAUNCH_FAILED);
}

EITP__PRIVATE eitp_status eitp__cuda_check(const eitp__cuda_driver *driver, eitp__cuda_result result, const char *name,
                                           eitp_error *error) {
    const char *word = NULL, *text = NULL;
    if (!result)
        return EITP_OK;
    driver->error_name(result, &word);
    driver->error_text(result, &text);
    if (eitp__cuda_loses_context(result))
        return eitp__fail(error, EITP_ERROR_DEVICE, "the GPU's context is lost: %s (%s in %s)",
                          text ? text : "unknown error", word ? word : "no name", name);
    return eitp__fail(error, result == EITP__CUDA_OUT_OF_MEMORY ? EITP_ERROR_MEMORY : EITP_ERROR_INTERNAL,
                      "%s failed: %s (%s)", name, text ? text : "unknown error", word ? word : "no name");
}

/* The attributes of a device, and where to store them. */
static eitp__cuda_result eitp__cuda_read_attributes(const eitp__cuda_driver *driver, int handle,
                                                    eitp__cuda_device *device) {
    int major = 0, minor = 0, shared = 0;
    const struct {
        int attribute;
        int *value;
    } attributes[] = {
        {EITP__CUDA_CAPABILITY_MAJOR, &major},
        {EITP__CUDA_CAPABILITY_MINOR, &minor},
        {EITP__CUDA_SHARED_LIMIT, &shared},
        {EITP__CUDA_PROCESSOR_COUNT, &device->processors},
        {EITP__CUDA_CLOCK_RATE, &device->clock_khz},
        {EITP__CUDA_MEMORY_CLOCK_RATE, &device->memory_clock_khz},
        {EITP__CUDA_MEMORY_BUS_WIDTH, &device->memory_bus_bits},
    };
    eitp__cuda_result result = 0;
    for (size_t i = 0; i < EITP__COUNT(attributes) && !result; i++)
        result = driver->device_attribute(attributes[i].value, attributes[i].attribute, handle);
    device->capability = 10 * major + minor;
    device->shared_limit = (size_t)shared;
    return result;
}

/* The address is only used to find sensors, so a failure is ignored. Lower case, as in sysfs. */
static void eitp__cuda_read_address(const eitp__cuda_driver *driver, int handle, eitp__cuda_device *device) {
    if (driver->device_address(device->address, (int)sizeof device->address, handle))
        *device->address = 0;
    for (char *at = device->address; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'F' ? *at - 'A' + 'a' : *at);
}

EITP__PRIVATE eitp_status eitp__cuda_device_read(const eitp__cuda_driver *driver, int ordinal,
                                                 eitp__cuda_device *device, eitp_error *error) {
    int count = 0, handle = 0;
    eitp_status status = eitp__cuda_check(driver, driver->device_count(&count), "cuDeviceGetCount", error);
    memset(device, 0, sizeof *device);
    device->ordinal = ordinal;
    if (status)
        return status;
    if (ordinal >= count)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "no GPU %d: %d %s visible (CUDA_VISIBLE_DEVICES)", ordinal,
                          count, count == 1 ? "is" : "are");
    status = eitp__cuda_check(driver, driver->device_get(&handle, ordinal), "cuDeviceGet", error);
    if (!status)
        status = eitp__cuda_check(driver, driver->device_name(device->name, (int)sizeof device->name, handle),
                                  "cuDeviceGetName", error);
    if (!status)
        eitp__cuda_read_address(driver, handle, device);
    if (!status)
        status = eitp__cuda_check(driver, driver->device_memory(&device->memory, handle), "cuDeviceTotalMem", error);
    if (!status)
        status =
            eitp__cuda_check(driver, eitp__cuda_read_attributes(driver, handle, device), "cuDeviceGetAttribute", error);
    return status;
}

#endif
