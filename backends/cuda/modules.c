#include "backends/cuda/modules.h"

#include "backends/cuda/images.h"

#if EITP__WITH_CUDA

EITP__PRIVATE void eitp__cuda_modules_init(eitp__cuda_modules *modules, const eitp_host *host,
                                           const eitp__cuda_driver *driver, const eitp__cuda_compiler *compiler,
                                           eitp__cuda_prepared *prepared) {
    memset(modules, 0, sizeof *modules);
    modules->host = host;
    modules->driver = driver;
    modules->compiler = compiler;
    modules->prepared = prepared;
    eitp__cuda_cache_open(&modules->cache, host);
}

EITP__PRIVATE void eitp__cuda_modules_release(eitp__cuda_modules *modules) {
    for (size_t i = 0; i < modules->loaded; i++)
        modules->driver->module_unload(modules->kernels[i].module);
    eitp__release(modules->host, modules->kernels, modules->capacity * sizeof *modules->kernels);
    eitp__release(modules->host, modules->requests, modules->request_capacity * sizeof *modules->requests);
    modules->kernels = NULL;
    modules->requests = NULL;
    modules->loaded = modules->count = modules->capacity = modules->request_count = modules->request_capacity = 0;
}

/* ---- Requests ---- */

/* Returns the index of a kernel, or the number of kernels. */
static size_t eitp__find_kernel(const eitp__cuda_modules *modules, const char *file, const char *definitions,
                                const char *name) {
    size_t i = 0;
    while (i < modules->count && (strcmp(modules->kernels[i].name, name) || strcmp(modules->kernels[i].file, file) ||
                                  strcmp(modules->kernels[i].definitions, definitions)))
        i++;
    return i;
}

EITP__PRIVATE eitp_status eitp__cuda_modules_request(eitp__cuda_modules *modules, const char *file,
                                                     const char *definitions, const char *kernel, unsigned shared,
                                                     eitp__cuda_function *function, eitp_error *error) {
    const size_t i = eitp__find_kernel(modules, file, definitions, kernel);
    eitp__kernel_request *request;
    if (!eitp__reserve(modules->host, (void **)&modules->kernels, &modules->capacity, i + 1,
                       sizeof *modules->kernels) ||
        !eitp__reserve(modules->host, (void **)&modules->requests, &modules->request_capacity,
                       modules->request_count + 1, sizeof *modules->requests))
        return eitp__fail_memory(error, sizeof *modules->kernels, "a kernel");
    if (i == modules->count) {
        memset(&modules->kernels[i], 0, sizeof *modules->kernels);
        modules->kernels[i].file = file;
        modules->kernels[i].name = kernel;
        snprintf(modules->kernels[i].definitions, sizeof modules->kernels[i].definitions, "%s", definitions);
        modules->count++;
    }
    if (shared > modules->kernels[i].shared)
        modules->kernels[i].shared = shared;
    request = &modules->requests[modules->request_count++];
    request->kernel = i;
    request->function = function;
    return EITP_OK;
}

EITP__PRIVATE void eitp__cuda_modules_forget(eitp__cuda_modules *modules) {
    modules->count = modules->loaded;
    modules->request_count = 0;
}

/* ---- Loading ---- */

/* Returns the number of threads that compile: the processors of this process. */
static int eitp__compiling_threads(const eitp_host *host) {
    eitp_processor_info info;
    return eitp_processor_info_read(host, &info, NULL) ? 1 : info.usable;
}

static eitp_status eitp__load_image(eitp__cuda_modules *modules, const eitp__cuda_image *image, eitp_error *error) {
    const eitp__cuda_driver *driver = modules->driver;
    eitp__loaded_kernel *kernel = &modules->kernels[modules->loaded];
    eitp_status status =
        eitp__cuda_check(driver, driver->module_load(&kernel->module, image->data.data), "cuModuleLoadData", error);
    if (status)
        return status;
    status = eitp__cuda_check(driver, driver->module_function(&kernel->function, kernel->module, kernel->name),
                              "cuModuleGetFunction", error);
    if (status)
        driver->module_unload(kernel->module);
    else
        modules->loaded++;
    return status;
}

/* Gets the missing images: prepared, from the cache, or compiled. */
static eitp_status eitp__get_images(eitp__cuda_modules *modules, eitp__cuda_image *images, size_t count,
                                    const eitp__poll *poll, eitp_error *error) {
    const eitp_status status = eitp__cuda_prepared_find(modules->prepared, images, count, error);
    return status ? status
                  : eitp__cuda_images_get(modules->compiler, &modules->cache, images, count,
                                          eitp__compiling_threads(modules->host), poll, error);
}

/* Loads the first image. If it is prepared and the driver cannot load it, perhaps because the driver is older than the
   compiler, this one and the following ones are compiled. */
static eitp_status eitp__load_first(eitp__cuda_modules *modules, eitp__cuda_image *images, size_t count,
                                    const eitp__poll *poll, eitp_error *error) {
    eitp_status status = eitp__load_image(modules, images, error);
    if (status != EITP_ERROR_INTERNAL || !images->is_prepared)
        return status;
    status = eitp__cuda_prepared_give_up(modules->prepared, images, error);
    for (size_t i = 0; i < count && !status; i++) {
        eitp__buffer_release(&images[i].data);
        images[i].is_prepared = 0;
    }
    if (!status)
        status = eitp__get_images(modules, images, count, poll, error);
    return status ? status : eitp__load_image(modules, images, error);
}

/* Loads the kernels that are only requested. `images` has one for each of them. */
static eitp_status eitp__load_images(eitp__cuda_modules *modules, eitp__cuda_image *images, const eitp__poll *poll,
                                     eitp_error *error) {
    const size_t first = modules->loaded, count = modules->count - first;
    eitp_status status;
    for (size_t i = 0; i < count; i++) {
        const eitp__loaded_kernel *kernel = &modules->kernels[first + i];
        images[i].source.file = kernel->file;
        images[i].source.definitions = kernel->definitions;
        images[i].source.kernel = kernel->name;
        images[i].key = eitp__cuda_compile_key(modules->compiler, &images[i].source);
        eitp__buffer_init(&images[i].data, modules->host);
    }
    status = eitp__get_images(modules, images, count, poll, error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__load_first(modules, &images[i], count - i, poll, error);
    for (size_t i = 0; i < count; i++)
        eitp__buffer_release(&images[i].data);
    return status;
}

/* Sets the functions of the requests. More than 48 KiB of shared memory must be requested from the driver. */
static eitp_status eitp__answer_requests(const eitp__cuda_modules *modules, eitp_error *error) {
    const eitp__cuda_driver *driver = modules->driver;
    eitp_status status = EITP_OK;
    for (size_t r = 0; r < modules->request_count && !status; r++) {
        const eitp__loaded_kernel *kernel = &modules->kernels[modules->requests[r].kernel];
        *modules->requests[r].function = kernel->function;
        if (kernel->shared > 48 << 10)
            status = eitp__cuda_check(
                driver,
                driver->function_set(kernel->function, EITP__CUDA_FUNCTION_MAX_DYNAMIC_SHARED, (int)kernel->shared),
                "cuFuncSetAttribute", error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_modules_load(eitp__cuda_modules *modules, const eitp__poll *poll,
                                                  eitp_error *error) {
    const size_t count = modules->count - modules->loaded;
    eitp__cuda_image *images = NULL;
    eitp_status status = EITP_OK;
    if (count) {
        images = (eitp__cuda_image *)eitp__allocate(modules->host, count * sizeof *images);
        status = images ? eitp__load_images(modules, images, poll, error)
                        : eitp__fail_memory(error, count * sizeof *images, "compiled kernels");
        eitp__release(modules->host, images, count * sizeof *images);
    }
    if (!status)
        status = eitp__answer_requests(modules, error);
    eitp__cuda_modules_forget(modules);
    return status;
}

#endif
