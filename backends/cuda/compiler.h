/* NVRTC, opened at run time: compiles the sources in kernels/cuda/. */
#ifndef EITP_CUDA_COMPILER_H
#define EITP_CUDA_COMPILER_H

#include "base/memory.h"
#include "base/status.h"

#if EITP__WITH_CUDA

typedef struct eitp__nvrtc_program_object *eitp__nvrtc_program;

/* The functions: member, name in the library, parameters. All return 0 on success. */
#define EITP__NVRTC_FUNCTIONS(X)                                                                                       \
    X(version, "nvrtcVersion", (int *major, int *minor))                                                               \
    X(arch_count, "nvrtcGetNumSupportedArchs", (int *count))                                                           \
    X(archs, "nvrtcGetSupportedArchs", (int *archs))                                                                   \
    X(create, "nvrtcCreateProgram",                                                                                    \
      (eitp__nvrtc_program * program, const char *text, const char *name, int header_count,                            \
       const char *const *headers, const char *const *header_names))                                                   \
    X(compile, "nvrtcCompileProgram", (eitp__nvrtc_program program, int option_count, const char *const *options))     \
    X(log_size, "nvrtcGetProgramLogSize", (eitp__nvrtc_program program, size_t * size))                                \
    X(log, "nvrtcGetProgramLog", (eitp__nvrtc_program program, char *text))                                            \
    X(cubin_size, "nvrtcGetCUBINSize", (eitp__nvrtc_program program, size_t * size))                                   \
    X(cubin, "nvrtcGetCUBIN", (eitp__nvrtc_program program, char *image))                                              \
    X(ptx_size, "nvrtcGetPTXSize", (eitp__nvrtc_program program, size_t * size))                                       \
    X(ptx, "nvrtcGetPTX", (eitp__nvrtc_program program, char *image))                                                  \
    X(destroy, "nvrtcDestroyProgram", (eitp__nvrtc_program * program))

typedef struct eitp__cuda_compiler {
    int major, minor; /* of NVRTC */
    int capability;   /* of the device: 86 for sm_86 */
    int is_native;    /* 1: compiles for the device itself, not to PTX for the newest device that this NVRTC supports */
    int target;       /* target capability */
#define EITP__NVRTC_MEMBER(member, name, parameters) int(*member) parameters;
    EITP__NVRTC_FUNCTIONS(EITP__NVRTC_MEMBER)
#undef EITP__NVRTC_MEMBER
} eitp__cuda_compiler;

/* Opens NVRTC, at most of the driver's major version. EITP_ERROR_UNSUPPORTED, with the reason, if no library is found
   or none supports the device. */
EITP__PRIVATE eitp_status eitp__cuda_compiler_open(eitp__cuda_compiler *compiler, const eitp_host *host,
                                                   int driver_version, int capability, eitp_error *error);

/* A kernel in an embedded source, compiled with definitions. */
typedef struct eitp__kernel_source {
    const char *file;        /* "kernels/cuda/rows.cu" */
    const char *definitions; /* "SCALAR=0 HEAD_WIDTH=64" */
    const char *kernel;      /* NULL: all kernels of the file */
} eitp__kernel_source;

/* The compilation of a kernel. */
typedef struct eitp__cuda_compilation eitp__cuda_compilation;

EITP__PRIVATE eitp_status eitp__cuda_compilation_create(const eitp__cuda_compiler *compiler, const eitp_host *host,
                                                        const eitp__kernel_source *source,
                                                        eitp__cuda_compilation **compilation, eitp_error *error);

/* Compiles. Does not use the host, so several threads may do so at the same time, each with another compilation (NVRTC
   User Guide, "Miscellaneous Notes"). */
EITP__PRIVATE void eitp__cuda_compilation_run(eitp__cuda_compilation *compilation);

/*
 * Appends the result, an image for the driver, to `image`. Compiler errors are EITP_ERROR_INTERNAL, because the sources
 * belong to eitp. Warnings are logged at EITP_LOG_DEBUG.
 */
EITP__PRIVATE eitp_status eitp__cuda_compilation_finish(const eitp__cuda_compilation *compilation, eitp__buffer *image,
                                                        eitp_error *error);

/* NULL is harmless. */
EITP__PRIVATE void eitp__cuda_compilation_destroy(eitp__cuda_compilation *compilation);

/* Compiles a kernel at once. */
EITP__PRIVATE eitp_status eitp__cuda_compile(const eitp__cuda_compiler *compiler, const eitp__kernel_source *source,
                                             eitp__buffer *image, eitp_error *error);

/* Returns a hash of a kernel's sources, its name and definitions, and a target. */
EITP__PRIVATE uint64_t eitp__cuda_source_key(const char *target, const eitp__kernel_source *source);

/* Returns a cache key for everything that the image depends on: a hash of its sources, the kernel, definitions, device
   and NVRTC. */
EITP__PRIVATE uint64_t eitp__cuda_compile_key(const eitp__cuda_compiler *compiler, const eitp__kernel_source *source);

#endif

#endif
