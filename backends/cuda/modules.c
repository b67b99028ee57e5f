#include "backends/cuda/modules.h"

#include "base/clock.h"
#include "base/log.h"

#if EITP__WITH_CUDA

EITP__PRIVATE void eitp__cuda_modules_init(eitp__cuda_modules *modules, const eitp_host *host,
                                           const eitp__cuda_driver *driver, const eitp__cuda_compiler *compiler) {
    memset(modules, 0, sizeof *modules);
    modules->host = host;
    modules->driver = driver;
    modules->compiler = compiler;
    eitp__cuda_cache_open(&modules->cache, host);
}

EITP__PRIVATE void eitp__cuda_modules_release(eitp__cuda_modules *modules) {
    for (size_t i = 0; i < modules->count; i++)
        modules->driver->module_unload(modules->loaded[i].module);
    eitp__release(modules->host, modules->loaded, modules->capacity * sizeof *modules->loaded);
    modules->loaded = NULL;
    modules->count = modules->capacity = 0;
}

/* Compiles a file, or finds it in the cache. */
static eitp_status eitp__build_image(eitp__cuda_modules *modules, const char *file, const char *definitions,
                                     eitp__buffer *image, eitp_error *error) {
    const uint64_t key = eitp__cuda_compile_key(modules->compiler, file, definitions);
    const double began = eitp__clock();
    eitp_status status;
    if (eitp__cuda_cache_find(&modules->cache, key, image))
        return EITP_OK;
    status = eitp__cuda_compile(modules->compiler, file, definitions, image, error);
    eitp__cuda_cache_store(&modules->cache, key, status ? NULL : image);
    if (!status)
        eitp__log_line(modules->host, EITP_LOG_DEBUG, "compiled %s for %s in %.1f s", file, definitions,
                       eitp__clock() - began);
    return status;
}

static eitp_status eitp__load_module(eitp__cuda_modules *modules, const char *file, const char *definitions,
                                     eitp__loaded_module **loaded, eitp_error *error) {
    eitp__buffer image;
    eitp_status status;
    if (!eitp__reserve(modules->host, (void **)&modules->loaded, &modules->capacity, modules->count + 1,
                       sizeof *modules->loaded))
        return eitp__fail_memory(error, sizeof *modules->loaded, "a kernel module");
    *loaded = &modules->loaded[modules->count];
    (*loaded)->file = file;
    snprintf((*loaded)->definitions, sizeof(*loaded)->definitions, "%s", definitions);
    eitp__buffer_init(&image, modules->host);
    status = eitp__build_image(modules, file, definitions, &image, error);
    if (!status)
        status = eitp__cuda_check(modules->driver, modules->driver->module_load(&(*loaded)->module, image.data),
                                  "cuModuleLoadData", error);
    eitp__buffer_release(&image);
    if (!status)
        modules->count++;
    return status;
}

EITP__PRIVATE eitp_status eitp__cuda_modules_find(eitp__cuda_modules *modules, const char *file,
                                                  const char *definitions, const char *kernel,
                                                  eitp__cuda_function *function, eitp_error *error) {
    eitp__loaded_module *loaded = NULL;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < modules->count && !loaded; i++)
        if (!strcmp(modules->loaded[i].file, file) && !strcmp(modules->loaded[i].definitions, definitions))
            loaded = &modules->loaded[i];
    if (!loaded)
        status = eitp__load_module(modules, file, definitions, &loaded, error);
    return status
               ? status
               : eitp__cuda_check(modules->driver, modules->driver->module_function(function, loaded->module, kernel),
                                  "cuModuleGetFunction", error);
}

#endif
