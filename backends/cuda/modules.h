/* The kernels loaded on the device. */
#ifndef EITP_CUDA_MODULES_H
#define EITP_CUDA_MODULES_H

#include "backends/backend.h"
#include "backends/cuda/cache.h"
#include "backends/cuda/compiler.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/prepared.h"
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

/* A kernel, which is compiled alone. */
typedef struct eitp__loaded_kernel {
    const char *file, *name;
    char definitions[EITP__CUDA_DEFINITIONS];
    unsigned shared; /* maximum bytes of DYNAMIC_SHARED of its launches */
    eitp__cuda_module module;
    eitp__cuda_function function;
} eitp__loaded_kernel;

/* A kernel requested for a launch. */
typedef struct eitp__kernel_request {
    size_t kernel; /* its index */
    eitp__cuda_function *function;
} eitp__kernel_request;

typedef struct eitp__cuda_modules {
    const eitp_host *host;
    const eitp__cuda_driver *driver;
    const eitp__cuda_compiler *compiler;
    eitp__cuda_prepared *prepared;
    eitp__cuda_cache cache;
    eitp__loaded_kernel *kernels; /* the first `loaded` of them are loaded, the others only requested */
    size_t loaded, count, capacity;
    eitp__kernel_request *requests;
    size_t request_count, request_capacity;
} eitp__cuda_modules;

EITP__PRIVATE void eitp__cuda_modules_init(eitp__cuda_modules *modules, const eitp_host *host,
                                           const eitp__cuda_driver *driver, const eitp__cuda_compiler *compiler,
                                           eitp__cuda_prepared *prepared);

/* Unloads all. */
EITP__PRIVATE void eitp__cuda_modules_release(eitp__cuda_modules *modules);

/* Requests a kernel for launches with up to `shared` bytes of DYNAMIC_SHARED. eitp__cuda_modules_load sets *function;
   `file` and `kernel` must stay valid. */
EITP__PRIVATE eitp_status eitp__cuda_modules_request(eitp__cuda_modules *modules, const char *file,
                                                     const char *definitions, const char *kernel, unsigned shared,
                                                     eitp__cuda_function *function, eitp_error *error);

/* Loads all requested kernels, after compiling those that are neither prepared nor in the cache, which `poll` may stop;
   NULL: it is not stopped. Ends the requests, also if it fails. */
EITP__PRIVATE eitp_status eitp__cuda_modules_load(eitp__cuda_modules *modules, const eitp__poll *poll,
                                                  eitp_error *error);

/* Ends the requests without loading. */
EITP__PRIVATE void eitp__cuda_modules_forget(eitp__cuda_modules *modules);

#endif

#endif
