/*
 * Functions exported by the emulated libraries in addition to the interfaces they implement. Tests look them up with
 * dlsym.
 */
#ifndef EMULATED_HOOKS_H
#define EMULATED_HOOKS_H

#include "tests/cuda/driver_api.h"

/* The PCI bus of a device, numbered among all devices, visible or not. */
#define EMULATED_BUS(number) (10 + (number))

/* A range of device memory. */
typedef struct emulated_span {
    uint64_t begin; /* device address */
    size_t size;
} emulated_span;

/* libcuda.so.1: name, result, arguments. */
#define DRIVER_HOOKS(X)                                                                                                \
    /* Allocations, pinned memory, streams, events, modules, graphs and executable graphs that were not destroyed. */  \
    X(emulated_cuda_live, int, (void))                                                                                 \
    /* Calls so far, except cuGetErrorName and cuGetErrorString. */                                                    \
    X(emulated_cuda_calls, unsigned long, (void))                                                                      \
    /* Executed kernels and products, including those in graphs. */                                                    \
    X(emulated_cuda_launches, unsigned long, (void))                                                                   \
    X(emulated_cuda_graph_launches, unsigned long, (void))                                                             \
    /* Waits for unfinished work during which a real driver keeps a core busy.  */                                     \
    X(emulated_cuda_spins, unsigned long, (void))                                                                      \
    /* Reads the environment again, restarts counts at 1, and forgets cuInit. Only while no context is retained. */    \
    X(emulated_cuda_restart, void, (void))                                                                             \
    /* 86 for compute capability 8.6. */                                                                               \
    X(emulated_cuda_capability, int, (void))                                                                           \
    /* Queues `run` like a kernel launch: it gets a copy of the arguments, and faults apply to it. */                  \
    /* `kernel`: a number for the kernel, which is loaded when it is first used. */                                    \
    X(emulated_cuda_enqueue, CUresult,                                                                                 \
      (CUstream stream, uint64_t kernel, void (*run)(void *arguments), const void *arguments, size_t size,             \
       const emulated_span *spans, size_t span_count))                                                                 \
    /* For `run`: the host address of device memory; *written has a byte for each of its bytes, nonzero if written. */ \
    X(emulated_cuda_memory, unsigned char *, (uint64_t address, size_t size, unsigned char **written))                 \
    /* Ends the process with a line. */                                                                                \
    X(emulated_cuda_refuse, void, (const char *what))

/* libcublasLt.so.13: handles, descriptions and preferences that were not destroyed; calls; products put into streams or
   graphs. */
int emulated_cublaslt_live(void);
unsigned long emulated_cublaslt_calls(void);
unsigned long emulated_cublaslt_products(void);

/* libnvrtc.so.13: programs that were not destroyed, runs of the compiler, and the largest number of compilations at the
   same time. */
int emulated_nvrtc_live(void);
unsigned long emulated_nvrtc_compilations(void);
int emulated_nvrtc_most_running(void);

/* libnvidia-ml.so.1: initialisations that were not shut down, and calls. The last function reads the environment again
   and restarts the counts at 1. */
int emulated_nvml_live(void);
unsigned long emulated_nvml_calls(void);
void emulated_nvml_restart(void);

#endif
