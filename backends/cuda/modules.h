/* The kernels loaded on the device. */
#ifndef EITP_CUDA_MODULES_H
#define EITP_CUDA_MODULES_H

#include "backends/cuda/cache.h"
#include "backends/cuda/compiler.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* A kernel file, compiled with a set of definitions. */
typedef struct eitp__loaded_module {
    const char *file;
    char definitions[EITP__CUDA_DEFINITIONS];
    eitp__cuda_module module;
} eitp__loaded_module;

typedef struct eitp__cuda_modules {
    const eitp_host *host;
    const eitp__cuda_driver *driver;
    const eitp__cuda_compiler *compiler;
    eitp__cuda_cache cache;
    eitp__loaded_module *loaded;
    size_t count, capacity;
} eitp__cuda_modules;

EITP__PRIVATE void eitp__cuda_modules_init(eitp__cuda_modules *modules, const eitp_host *host,
                                           const eitp__cuda_driver *driver, const eitp__cuda_compiler *compiler);

/* Unloads all. */
EITP__PRIVATE void eitp__cuda_modules_release(eitp__cuda_modules *modules);

/* Finds a kernel. Compiles and loads its file first if necessary. */
EITP__PRIVATE eitp_status eitp__cuda_modules_find(eitp__cuda_modules *modules, const char *file,
                                                  const char *definitions, const char *kernel,
                                                  eitp__cuda_function *function, eitp_error *error);

#endif

#endif
