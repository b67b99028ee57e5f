/* The CUDA backend: opens driver, compiler and cuBLASLt, and owns the device's streams and memory. */
#include "backends/cuda/cuda.h"

#include "backends/cuda/slots.h"
#include "base/log.h"

#if EITP__WITH_CUDA

/* ---- Creating ---- */

static void eitp__cuda_destroy(eitp__backend *backend) {
    eitp__cuda *cuda = eitp__cuda_of(backend);
    const eitp__cuda_driver *driver = &cuda->driver;
    eitp_host host = backend->host;
    if (cuda->context) {
        driver->context_set(cuda->context);
        if (cuda->end && !eitp__cuda_finish(cuda, NULL))
            eitp__cuda_profile_log(&cuda->profile);
        eitp__cuda_profile_close(&cuda->profile);
        eitp__cuda_modules_release(&cuda->modules);
        eitp__cuda_blas_close(&cuda->blas);
        for (int i = 0; i < 2; i++)
            if (cuda->stages[i])
                driver->release_host(cuda->stages[i]);
        if (cuda->fork)
            driver->event_destroy(cuda->fork);
        if (cuda->join)
            driver->event_destroy(cuda->join);
        if (cuda->end)
            driver->event_destroy(cuda->end);
        if (cuda->copy)
            driver->stream_destroy(cuda->copy);
        if (cuda->compute)
            driver->stream_destroy(cuda->compute);
        driver->context_release(cuda->handle);
    }
    eitp__release(&host, cuda, sizeof *cuda);
}

static eitp_status eitp__cuda_create_streams(eitp__cuda *cuda, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    eitp__cuda_stream *streams[] = {&cuda->compute, &cuda->copy};
    const struct {
        eitp__cuda_event *event;
        unsigned flags;
    } events[] = {
        {&cuda->fork, EITP__CUDA_EVENT_DISABLE_TIMING},
        {&cuda->join, EITP__CUDA_EVENT_DISABLE_TIMING},
        {&cuda->end, EITP__CUDA_EVENT_DISABLE_TIMING | EITP__CUDA_EVENT_BLOCKING_SYNC},
    };
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(streams) && !status; i++)
        status = eitp__cuda_check(driver, driver->stream_create(streams[i], EITP__CUDA_STREAM_NON_BLOCKING),
                                  "cuStreamCreate", error);
    for (size_t i = 0; i < EITP__COUNT(events) && !status; i++)
        status =
            eitp__cuda_check(driver, driver->event_create(events[i].event, events[i].flags), "cuEventCreate", error);
    return status;
}

/* Reads EITP_CUDA_GRAPH. Tools that check kernels one by one need 0. */
static eitp_status eitp__cuda_choose_graphs(int *uses_graphs, eitp_error *error) {
    const char *name = getenv("EITP_CUDA_GRAPH");
    *uses_graphs = !name || strcmp(name, "0") != 0;
    return !name || !*name || !strcmp(name, "0") || !strcmp(name, "1")
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown value '%s' in EITP_CUDA_GRAPH (choose from 0, 1)",
                            name);
}

/* Opens the compiler. Prepared kernels can do without it. */
static eitp_status eitp__cuda_open_compiler(eitp__cuda *cuda, eitp_error *error) {
    const eitp_host *host = &cuda->base.host;
    const int capability = cuda->device.capability;
    eitp_error unavailable = EITP__ZERO;
    eitp_status status = eitp__cuda_prepared_open(&cuda->prepared, host, capability, error);
    if (status)
        return status;
    status = eitp__cuda_compiler_open(&cuda->compiler, host, cuda->driver.version, capability, &unavailable);
    if (status && *cuda->prepared.files.folder) {
        memset(&cuda->compiler, 0, sizeof cuda->compiler);
        cuda->prepared.unavailable = unavailable;
        return EITP_OK;
    }
    if (status && error)
        *error = unavailable;
    return status;
}

/* Minimum compute capability for the tensor cores and barriers that the kernels use. */
#define EITP__CUDA_LEAST_CAPABILITY 75

static eitp_status eitp__cuda_open(eitp__cuda *cuda, const eitp__backend_config *config, eitp_error *error) {
    const eitp__cuda_driver *driver = &cuda->driver;
    eitp_status status = eitp__cuda_choose_graphs(&cuda->uses_graphs, error);
    if (!status)
        status = eitp__cuda_profile_open(&cuda->profile, &cuda->base.host, driver, error);
    if (!status)
        status = eitp__cuda_driver_open(&cuda->driver, error);
    if (!status)
        status = eitp__cuda_device_read(driver, config->ordinal, &cuda->device, error);
    if (!status && cuda->device.capability < EITP__CUDA_LEAST_CAPABILITY)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "%s has compute capability %d.%d; kernels need 7.5 (Turing, 2018) or later",
                            cuda->device.name, cuda->device.capability / 10, cuda->device.capability % 10);
    if (!status)
        status = eitp__cuda_open_compiler(cuda, error);
    if (!status)
        status = eitp__cuda_check(driver, driver->device_get(&cuda->handle, config->ordinal), "cuDeviceGet", error);
    if (!status)
        status = eitp__cuda_check(driver, driver->context_retain(&cuda->context, cuda->handle),
                                  "cuDevicePrimaryCtxRetain", error);
    if (status)
        return status;
    eitp__cuda_modules_init(&cuda->modules, &cuda->base.host, driver, &cuda->compiler, &cuda->prepared);
    status = eitp__cuda_enter(cuda, error);
    if (!status)
        status = eitp__cuda_create_streams(cuda, error);
    return status ? status
                  : eitp__cuda_blas_open(&cuda->blas, &cuda->base.host, driver, cuda->compute, cuda->device.capability,
                                         config->allow_tf32, error);
}

static eitp_status eitp__cuda_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                     eitp_error *error) {
    eitp__cuda *cuda = (eitp__cuda *)eitp__allocate(host, sizeof *cuda);
    eitp_status status;
    if (!cuda)
        return eitp__fail_memory(error, sizeof *cuda, "the CUDA backend");
    cuda->base.interface = eitp__cuda_backend();
    cuda->base.host = *host;
    cuda->pageable = config->pageable;
    status = eitp__cuda_open(cuda, config, error);
    if (status)
        eitp__cuda_destroy(&cuda->base);
    else
        *backend = &cuda->base;
    return status;
}

/* ---- Description ---- */

/* Writes the versions of NVRTC, each after its word: of prepared kernels, and of the others. */
static void eitp__cuda_compilers(const eitp__cuda *cuda, const char *prepared_word, const char *word,
                                 const char *separator, char *text, size_t size) {
    const eitp__cuda_prepared *prepared = &cuda->prepared;
    const eitp__cuda_compiler *compiler = &cuda->compiler;
    size_t length = 0;
    *text = 0;
    if (prepared->major)
        length = (size_t)snprintf(text, size, "%s%d.%d", prepared_word, prepared->major, prepared->minor);
    if (compiler->major && (compiler->major != prepared->major || compiler->minor != prepared->minor))
        snprintf(text + length, size - length, "%s%s%d.%d", length ? separator : "", word, compiler->major,
                 compiler->minor);
}

/* Includes the PCI address, which identifies the GPU: see eitp_gpu_is_device. */
static void eitp__cuda_describe(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    const int blas = cuda->blas.version;
    char products[40] = "eitp's own kernels", compilers[64];
    if (blas)
        snprintf(products, sizeof products, "cuBLASLt %d.%d%s", blas / 10000, blas / 100 % 100,
                 cuda->blas.has_tf32 ? " with TF32" : "");
    eitp__cuda_compilers(cuda, "kernels of NVRTC ", "NVRTC ", ", ", compilers, sizeof compilers);
    snprintf(text, size, "cuda:%d, %s%s%s, sm_%d, %d multiprocessors, %s, matrix products by %s", cuda->device.ordinal,
             cuda->device.name, *cuda->device.address ? " at " : "", cuda->device.address, cuda->device.capability,
             cuda->device.processors, compilers, products);
}

/* Includes the number of multiprocessors, by which cuBLASLt chooses its algorithms. */
static void eitp__cuda_numerics(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    const int blas = cuda->blas.version;
    char products[48] = "", compilers[64];
    if (blas)
        snprintf(products, sizeof products, "-cublaslt.%d.%d.%d-%d%s%s", blas / 10000, blas / 100 % 100, blas % 100,
                 cuda->device.processors, cuda->blas.takes_small ? "-all" : "", cuda->blas.has_tf32 ? "-tf32" : "");
    eitp__cuda_compilers(cuda, "-nvrtc.", "-nvrtc.", "", compilers, sizeof compilers);
    snprintf(text, size, "cuda-sm_%d%s%s", cuda->device.capability, compilers, products);
}

/* Tensor cores support BF16 from sm_80 on, F16 also before. */
static eitp_dtype eitp__cuda_preferred_precision(const eitp__backend *backend) {
    return eitp__cuda_of(backend)->device.capability >= 80 ? EITP_BF16 : EITP_F16;
}

/* ---- Estimates ---- */

/*
 * The rates of devices of a compute capability, or those whose names contain a word (NVIDIA's whitepapers and
 * datasheets). GeForce, L40 and L20 multiply 16-bit numbers at half the rate if sums are in F32.
 */
static const struct {
    int capability;
    const char *word; /* NULL: every name */
    eitp__cuda_rates rates;
} eitp__cuda_known_rates[] = {
    {75, NULL, {128, 1024}},      {75, "GeForce", {128, 512}}, {80, NULL, {128, 2048}},     {86, NULL, {256, 1024}},
    {86, "GeForce", {256, 512}},  {89, NULL, {256, 1024}},     {89, "GeForce", {256, 512}}, {89, "L40", {256, 512}},
    {89, "L20", {256, 512}},      {90, NULL, {256, 4096}},     {100, NULL, {256, 8192}},    {120, NULL, {256, 1024}},
    {120, "GeForce", {256, 512}},
};

/* True if one of the words of a name, which are separated by spaces, is `word`. */
static int eitp__has_word(const char *name, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
        if ((at == name || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return 1;
    return 0;
}

EITP__PRIVATE eitp__cuda_rates eitp__cuda_rates_of(const eitp__cuda_device *device) {
    eitp__cuda_rates rates = eitp__cuda_known_rates[0].rates;
    for (size_t i = 0; i < EITP__COUNT(eitp__cuda_known_rates); i++) {
        const char *word = eitp__cuda_known_rates[i].word;
        if (eitp__cuda_known_rates[i].capability > device->capability || (word && !eitp__has_word(device->name, word)))
            continue;
        rates = eitp__cuda_known_rates[i].rates;
    }
    return rates;
}

/* The maximum of arithmetic and memory time, at two thirds of the nominal rates. TF32 has half the rate of 16 bits. */
static double eitp__cuda_seconds(const eitp__backend *backend, const eitp__call *call, double flops, double bytes) {
    const eitp__cuda_device *device = &eitp__cuda_of(backend)->device;
    const eitp__cuda_rates rates = eitp__cuda_rates_of(device);
    const double clock = device->clock_khz > 0 ? device->clock_khz * 1e3 : 1.5e9;
    const int is_half = eitp__slot_family(call->slot) == EITP__FAMILY_TILES && eitp__wide(call->dtype) != call->dtype;
    const int is_tf32 = call->dtype == EITP_F32 && eitp__cuda_of(backend)->blas.has_tf32 &&
                        eitp__cuda_blas_takes(&eitp__cuda_of(backend)->blas, call);
    const double rate = is_half ? rates.tensor : is_tf32 ? rates.tensor / 2 : rates.f32;
    double bandwidth = device->memory_clock_khz * 1e3 * 2 * device->memory_bus_bits / 8;
    bandwidth = bandwidth > 0 ? bandwidth : 5e11;
    return 1.5 * fmax(flops / (rate * clock * device->processors), bytes / bandwidth) + 3e-6;
}

/* Sequences start at the same rows as on the CPU, so that dropout is the same. Sums over rows in parts have different
   bits wherever the parts start: their order depends on the shapes. */
static int eitp__cuda_sum_group(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend, (void)dtype;
    return 1;
}

static int eitp__cuda_tile_rows(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend, (void)dtype;
    return 128;
}

static int eitp__cuda_supports(const eitp__backend *backend, const eitp__call *call) {
    return eitp__cuda_find(call, &eitp__cuda_of(backend)->device) != NULL;
}

/* cuBLASLt may write y before all of the operand of a derivative is read. */
static int eitp__cuda_overwrites_operand(const eitp__backend *backend, const eitp__call *call) {
    const eitp__cuda_blas *blas = &eitp__cuda_of(backend)->blas;
    return call->integers[2] == EITP__EPILOGUE_ADD || !eitp__cuda_blas_takes(blas, call);
}

/* Before it is prepared, a product may be computed by either cuBLASLt or eitp's kernels. */
static size_t eitp__cuda_workspace(const eitp__backend *backend, const eitp__call *call) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    const eitp__cuda_kernels *kernels = eitp__cuda_find(call, &cuda->device);
    const size_t own = kernels && kernels->workspace ? kernels->workspace(call) : 0;
    const size_t blas = eitp__cuda_blas_workspace(&cuda->blas, call);
    return own > blas ? own : blas;
}

/* ---- Memory ---- */

static eitp_status eitp__cuda_memory(const eitp__backend *backend, uint64_t *free_bytes, uint64_t *total,
                                     eitp_error *error) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    size_t sizes[2] = {0, 0};
    eitp_status status = eitp__cuda_enter(cuda, error);
    if (!status)
        status = eitp__cuda_check(&cuda->driver, cuda->driver.memory_info(&sizes[0], &sizes[1]), "cuMemGetInfo", error);
    *free_bytes = sizes[0];
    *total = sizes[1];
    return status;
}

static void *eitp__cuda_allocate_host(const eitp__cuda *cuda, size_t size) {
    void *memory = NULL;
    if (cuda->pageable)
        return eitp__allocate(&cuda->base.host, size);
    if (cuda->driver.allocate_host(&memory, size, 0))
        return NULL;
    return memset(memory, 0, size);
}

static void *eitp__cuda_allocate(eitp__backend *backend, eitp__place place, size_t size) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    eitp__cuda_address address = 0;
    if (!size || eitp__cuda_enter(cuda, NULL))
        return NULL;
    if (place == EITP__PLACE_HOST)
        return eitp__cuda_allocate_host(cuda, size);
    if (cuda->driver.allocate(&address, size))
        return NULL;
    if (cuda->driver.fill(address, 0, size, cuda->compute) || eitp__cuda_finish(cuda, NULL)) {
        cuda->driver.release(address);
        return NULL;
    }
    return (void *)(uintptr_t)address;
}

static void eitp__cuda_release(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    if (!memory)
        return;
    eitp__cuda_finish(cuda, NULL);
    if (place == EITP__PLACE_HOST && cuda->pageable)
        eitp__release(&backend->host, memory, size);
    else if (place == EITP__PLACE_HOST)
        cuda->driver.release_host(memory);
    else
        cuda->driver.release((eitp__cuda_address)(uintptr_t)memory);
}

/* Checks the result of starting a copy, and waits for it. */
static eitp_status eitp__cuda_finish_copy(const eitp__cuda *cuda, eitp__cuda_result result, const char *name,
                                          eitp_error *error) {
    const eitp_status status = eitp__cuda_check(&cuda->driver, result, name, error);
    return status ? status : eitp__cuda_finish(cuda, error);
}

static eitp_status eitp__cuda_upload(eitp__backend *backend, void *device, const void *source, size_t size,
                                     eitp_error *error) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    const eitp_status status = size ? eitp__cuda_enter(cuda, error) : EITP_OK;
    if (status || !size)
        return status;
    return eitp__cuda_finish_copy(
        cuda, cuda->driver.upload((eitp__cuda_address)(uintptr_t)device, source, size, cuda->compute),
        "cuMemcpyHtoDAsync", error);
}

static eitp_status eitp__cuda_download(eitp__backend *backend, void *target, const void *device, size_t size,
                                       eitp_error *error) {
    const eitp__cuda *cuda = eitp__cuda_of(backend);
    const eitp_status status = size ? eitp__cuda_enter(cuda, error) : EITP_OK;
    if (status || !size)
        return status;
    return eitp__cuda_finish_copy(
        cuda, cuda->driver.download(target, (eitp__cuda_address)(uintptr_t)device, size, cuda->compute),
        "cuMemcpyDtoHAsync", error);
}

EITP__PRIVATE const eitp__backend_interface *eitp__cuda_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "cuda",
        0,
        EITP__CUDA_HEAD_BLOCK,
        EITP__CUDA_HEAD_BLOCK,
        eitp__cuda_create,
        eitp__cuda_destroy,
        eitp__cuda_describe,
        eitp__cuda_numerics,
        eitp__cuda_preferred_precision,
        eitp__cuda_seconds,
        eitp__cuda_sum_group,
        eitp__cuda_tile_rows,
        eitp__cuda_supports,
        eitp__cuda_overwrites_operand,
        eitp__cuda_memory,
        eitp__cuda_allocate,
        eitp__cuda_release,
        eitp__cuda_upload,
        eitp__cuda_download,
        eitp__cuda_workspace,
        eitp__cuda_prepare,
        eitp__cuda_discard,
        eitp__cuda_execute,
        eitp__cuda_wait,
        eitp__cuda_peak,
        eitp__cuda_measure,
    };
    return &interface;
}

#endif
