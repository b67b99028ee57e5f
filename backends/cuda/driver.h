/*
 * The CUDA driver, opened at run time: types and functions of its interface under our own names. No CUDA files are
 * needed to build. (CUDA Driver API 12 and 13.)
 */
#ifndef EITP_CUDA_DRIVER_H
#define EITP_CUDA_DRIVER_H

#include "backends/cuda/device_info.h"

#include "base/memory.h"
#include "base/status.h"

#if EITP__WITH_CUDA

typedef int eitp__cuda_result; /* CUresult; 0 is success */
typedef unsigned long long eitp__cuda_address;
typedef struct eitp__cuda_context_object *eitp__cuda_context;
typedef struct eitp__cuda_module_object *eitp__cuda_module;
typedef struct eitp__cuda_function_object *eitp__cuda_function;
typedef struct eitp__cuda_stream_object *eitp__cuda_stream;
typedef struct eitp__cuda_event_object *eitp__cuda_event;
typedef struct eitp__cuda_graph_object *eitp__cuda_graph;
typedef struct eitp__cuda_graph_exec_object *eitp__cuda_graph_exec;

/* The values of CUresult in use. */
enum {
    EITP__CUDA_OUT_OF_MEMORY = 2,
    EITP__CUDA_NO_DEVICE = 100,
    EITP__CUDA_ECC_UNCORRECTABLE = 214,
    EITP__CUDA_ILLEGAL_ADDRESS = 700,
    EITP__CUDA_LAUNCH_TIMEOUT = 702,
    EITP__CUDA_CONTEXT_IS_DESTROYED = 709,
    EITP__CUDA_ASSERT = 710,
    EITP__CUDA_HARDWARE_STACK_ERROR = 714,
    EITP__CUDA_LAUNCH_FAILED = 719
};

/* The values of CUdevice_attribute in use. */
enum {
    EITP__CUDA_CLOCK_RATE = 13,
    EITP__CUDA_PROCESSOR_COUNT = 16,
    EITP__CUDA_MEMORY_CLOCK_RATE = 36,
    EITP__CUDA_MEMORY_BUS_WIDTH = 37,
    EITP__CUDA_CAPABILITY_MAJOR = 75,
    EITP__CUDA_CAPABILITY_MINOR = 76,
    EITP__CUDA_SHARED_LIMIT = 97
};

enum {
    EITP__CUDA_STREAM_NON_BLOCKING = 1,
    EITP__CUDA_EVENT_BLOCKING_SYNC = 1,
    EITP__CUDA_EVENT_DISABLE_TIMING = 2,
    EITP__CUDA_RECORD_EXTERNAL = 1,
    EITP__CUDA_CAPTURE_RELAXED = 2,
    EITP__CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8
};

/* The functions: member, name in the library, parameters. */
#define EITP__CUDA_FUNCTIONS(X)                                                                                        \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                            \
    X(error_name, "cuGetErrorName", (eitp__cuda_result result, const char **text))                                     \
    X(error_text, "cuGetErrorString", (eitp__cuda_result result, const char **text))                                   \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                  \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                           \
    X(device_name, "cuDeviceGetName", (char *name, int size, int device))                                              \
    X(device_address, "cuDeviceGetPCIBusId", (char *text, int size, int device))                                       \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                               \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                              \
    X(context_retain, "cuDevicePrimaryCtxRetain", (eitp__cuda_context * context, int device))                          \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                   \
    X(context_set, "cuCtxSetCurrent", (eitp__cuda_context context))                                                    \
    X(memory_info, "cuMemGetInfo_v2", (size_t * left, size_t * total))                                                 \
    X(allocate, "cuMemAlloc_v2", (eitp__cuda_address * address, size_t size))                                          \
    X(release, "cuMemFree_v2", (eitp__cuda_address address))                                                           \
    X(allocate_host, "cuMemHostAlloc", (void **memory, size_t size, unsigned flags))                                   \
    X(release_host, "cuMemFreeHost", (void *memory))                                                                   \
    X(upload, "cuMemcpyHtoDAsync_v2",                                                                                  \
      (eitp__cuda_address to, const void *from, size_t size, eitp__cuda_stream stream))                                \
    X(download, "cuMemcpyDtoHAsync_v2", (void *to, eitp__cuda_address from, size_t size, eitp__cuda_stream stream))    \
    X(fill, "cuMemsetD8Async", (eitp__cuda_address to, unsigned char value, size_t size, eitp__cuda_stream stream))    \
    X(stream_create, "cuStreamCreate", (eitp__cuda_stream * stream, unsigned flags))                                   \
    X(stream_destroy, "cuStreamDestroy_v2", (eitp__cuda_stream stream))                                                \
    X(stream_wait, "cuStreamSynchronize", (eitp__cuda_stream stream))                                                  \
    X(stream_wait_event, "cuStreamWaitEvent", (eitp__cuda_stream stream, eitp__cuda_event event, unsigned flags))      \
    X(event_create, "cuEventCreate", (eitp__cuda_event * event, unsigned flags))                                       \
    X(event_destroy, "cuEventDestroy_v2", (eitp__cuda_event event))                                                    \
    X(event_wait, "cuEventSynchronize", (eitp__cuda_event event))                                                      \
    X(event_record, "cuEventRecord", (eitp__cuda_event event, eitp__cuda_stream stream))                               \
    X(event_record_flags, "cuEventRecordWithFlags",                                                                    \
      (eitp__cuda_event event, eitp__cuda_stream stream, unsigned flags))                                              \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, eitp__cuda_event begin, eitp__cuda_event end))        \
    X(module_load, "cuModuleLoadData", (eitp__cuda_module * module, const void *image))                                \
    X(module_unload, "cuModuleUnload", (eitp__cuda_module module))                                                     \
    X(module_function, "cuModuleGetFunction",                                                                          \
      (eitp__cuda_function * function, eitp__cuda_module module, const char *name))                                    \
    X(function_set, "cuFuncSetAttribute", (eitp__cuda_function function, int attribute, int value))                    \
    X(launch, "cuLaunchKernel",                                                                                        \
      (eitp__cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,              \
       unsigned block_y, unsigned block_z, unsigned shared, eitp__cuda_stream stream, void **parameters,               \
       void **extra))                                                                                                  \
    X(launch_host, "cuLaunchHostFunc", (eitp__cuda_stream stream, void (*function)(void *user), void *user))           \
    X(capture_begin, "cuStreamBeginCapture_v2", (eitp__cuda_stream stream, int mode))                                  \
    X(capture_end, "cuStreamEndCapture", (eitp__cuda_stream stream, eitp__cuda_graph * graph))                         \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                                \
      (eitp__cuda_graph_exec * exec, eitp__cuda_graph graph, unsigned long long flags))                                \
    X(graph_destroy, "cuGraphDestroy", (eitp__cuda_graph graph))                                                       \
    X(graph_launch, "cuGraphLaunch", (eitp__cuda_graph_exec exec, eitp__cuda_stream stream))                           \
    X(graph_exec_destroy, "cuGraphExecDestroy", (eitp__cuda_graph_exec exec))

typedef struct eitp__cuda_driver {
    int version; /* of CUDA: 13000 is 13.0 */
#define EITP__CUDA_MEMBER(member, name, parameters) eitp__cuda_result(*member) parameters;
    EITP__CUDA_FUNCTIONS(EITP__CUDA_MEMBER)
#undef EITP__CUDA_MEMBER
} eitp__cuda_driver;

/* Opens libcuda.so.1 and initializes it. EITP_ERROR_UNSUPPORTED, with the reason, if that fails. */
EITP__PRIVATE eitp_status eitp__cuda_driver_open(eitp__cuda_driver *driver, eitp_error *error);

/* Reads the properties of a visible device. */
EITP__PRIVATE eitp_status eitp__cuda_device_read(const eitp__cuda_driver *driver, int ordinal,
                                                 eitp__cuda_device *device, eitp_error *error);

/*
 * Converts the result of the function `name` to a status: EITP_ERROR_MEMORY if the device is out of memory,
 * EITP_ERROR_DEVICE if the context is lost, else EITP_ERROR_INTERNAL, with the driver's message.
 */
EITP__PRIVATE eitp_status eitp__cuda_check(const eitp__cuda_driver *driver, eitp__cuda_result result, const char *name,
                                           eitp_error *error);

#endif

#endif
