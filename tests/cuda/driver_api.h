/*
 * The part of the CUDA driver's interface emulated by driver*.c, with the ABI of version 13, so that building the tests
 * needs no CUDA header. DRIVER_API lists the functions for definitions and for lookups.
 */
#ifndef EMULATED_DRIVER_API_H
#define EMULATED_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

/* Errors: name, number, and the text of cuGetErrorString. */
#define DRIVER_ERRORS(X)                                                                                               \
    X(CUDA_SUCCESS, 0, "no error")                                                                                     \
    X(CUDA_ERROR_INVALID_VALUE, 1, "an argument is invalid")                                                           \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "the device has too little memory")                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "cuInit was not called")                                                          \
    X(CUDA_ERROR_NO_DEVICE, 100, "there is no device")                                                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "there is no such device")                                                       \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "the image of a module is damaged")                                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "no context is current")                                                        \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "the module has no code for this device")                                     \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "a call of the system has failed")                                             \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "a handle is invalid")                                                           \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the object is in a state that does not permit this")                             \
    X(CUDA_ERROR_NOT_FOUND, 500, "the name was not found")                                                             \
    X(CUDA_ERROR_NOT_READY, 600, "the device has not finished")                                                        \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "a kernel has accessed memory that is not the device's")                        \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "a launch needs more than the device has")                              \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "the current context was released")                                        \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "a kernel has failed")                                                            \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "this is not supported")                                                          \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "this is not permitted while a stream is captured")                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "an earlier error has invalidated the capture")                      \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "two captures would become one")                                           \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture was begun on another stream")                             \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "a captured stream was not joined")                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "a captured operation would depend on one outside")                    \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "the event was recorded in a capture")                                           \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "the capture was begun by another thread")                          \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

#define DRIVER_ERROR_VALUE(name, value, text) name = value,
typedef enum CUresult { DRIVER_ERRORS(DRIVER_ERROR_VALUE) CUDA_ERROR_LAST_ } CUresult;
#undef DRIVER_ERROR_VALUE

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice_attribute, CUfunction_attribute, CUstreamCaptureMode, CUstreamCaptureStatus, CUjit_option;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *user);

enum {
    CU_STREAM_DEFAULT = 0,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_EVENT_RECORD_EXTERNAL = 1,
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_MAX = 16
};

#define DRIVER_API(X)                                                                                                  \
    X(cuGetErrorName, (CUresult error, const char **text))                                                             \
    X(cuGetErrorString, (CUresult error, const char **text))                                                           \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                   \
    X(cuDeviceGetName, (char *name, int size, CUdevice device))                                                        \
    X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))                               \
    X(cuDeviceGetPCIBusId, (char *text, int size, CUdevice device))                                                    \
    X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                                            \
    X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                          \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                                 \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuCtxGetCurrent, (CUcontext * context))                                                                          \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                                        \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                                       \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                                           \
    X(cuMemAlloc_v2, (CUdeviceptr * address, size_t size))                                                             \
    X(cuMemFree_v2, (CUdeviceptr address))                                                                             \
    X(cuMemHostAlloc, (void **memory, size_t size, unsigned flags))                                                    \
    X(cuMemFreeHost, (void *memory))                                                                                   \
    X(cuMemcpyHtoD_v2, (CUdeviceptr target, const void *source, size_t size))                                          \
    X(cuMemcpyDtoH_v2, (void *target, CUdeviceptr source, size_t size))                                                \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr target, const void *source, size_t size, CUstream stream))                    \
    X(cuMemcpyDtoHAsync_v2, (void *target, CUdeviceptr source, size_t size, CUstream stream))                          \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream))                    \
    X(cuMemsetD8Async, (CUdeviceptr target, unsigned char value, size_t count, CUstream stream))                       \
    X(cuMemsetD32Async, (CUdeviceptr target, unsigned value, size_t count, CUstream stream))                           \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                             \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                   \
    X(cuStreamDestroy_v2, (CUstream stream))                                                                           \
    X(cuStreamSynchronize, (CUstream stream))                                                                          \
    X(cuStreamQuery, (CUstream stream))                                                                                \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                             \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                                                \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                                 \
    X(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))                                        \
    X(cuEventSynchronize, (CUevent event))                                                                             \
    X(cuEventQuery, (CUevent event))                                                                                   \
    X(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                                           \
    X(cuEventElapsedTime_v2, (float *milliseconds, CUevent begin, CUevent end))                                        \
    X(cuEventDestroy_v2, (CUevent event))                                                                              \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                                        \
    X(cuModuleLoadDataEx,                                                                                              \
      (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values))                    \
    X(cuModuleUnload, (CUmodule module))                                                                               \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                                 \
    X(cuFuncLoad, (CUfunction function))                                                                               \
    X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                            \
    X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))                           \
    X(cuLaunchKernel,                                                                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra))                           \
    X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *user))                                              \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                          \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                      \
    X(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                                                          \
    X(cuGraphDestroy, (CUgraph graph))                                                                                 \
    X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))

#endif
