/* The part of NVRTC's interface emulated by nvrtc*.c, with the ABI of version 13, and declarations shared by its files.
   */
#ifndef EMULATED_NVRTC_API_H
#define EMULATED_NVRTC_API_H

#include <stddef.h>

/* Results: name, number, and the text of nvrtcGetErrorString. */
#define NVRTC_RESULTS(X)                                                                                               \
    X(NVRTC_SUCCESS, 0, "NVRTC_SUCCESS")                                                                               \
    X(NVRTC_ERROR_OUT_OF_MEMORY, 1, "NVRTC_ERROR_OUT_OF_MEMORY")                                                       \
    X(NVRTC_ERROR_PROGRAM_CREATION_FAILURE, 2, "NVRTC_ERROR_PROGRAM_CREATION_FAILURE")                                 \
    X(NVRTC_ERROR_INVALID_INPUT, 3, "NVRTC_ERROR_INVALID_INPUT")                                                       \
    X(NVRTC_ERROR_INVALID_PROGRAM, 4, "NVRTC_ERROR_INVALID_PROGRAM")                                                   \
    X(NVRTC_ERROR_INVALID_OPTION, 5, "NVRTC_ERROR_INVALID_OPTION")                                                     \
    X(NVRTC_ERROR_COMPILATION, 6, "NVRTC_ERROR_COMPILATION")                                                           \
    X(NVRTC_ERROR_INTERNAL_ERROR, 11, "NVRTC_ERROR_INTERNAL_ERROR")

#define NVRTC_RESULT_VALUE(name, value, text) name = value,
typedef enum nvrtcResult { NVRTC_RESULTS(NVRTC_RESULT_VALUE) NVRTC_RESULT_LAST_ } nvrtcResult;
#undef NVRTC_RESULT_VALUE

typedef struct _nvrtcProgram *nvrtcProgram;

/* Functions that return a result. */
#define NVRTC_API(X)                                                                                                   \
    X(nvrtcVersion, (int *major, int *minor))                                                                          \
    X(nvrtcGetNumSupportedArchs, (int *count))                                                                         \
    X(nvrtcGetSupportedArchs, (int *architectures))                                                                    \
    X(nvrtcCreateProgram, (nvrtcProgram * program, const char *source, const char *name, int header_count,             \
                           const char *const *headers, const char *const *header_names))                               \
    X(nvrtcDestroyProgram, (nvrtcProgram * program))                                                                   \
    X(nvrtcCompileProgram, (nvrtcProgram program, int option_count, const char *const *options))                       \
    X(nvrtcGetPTXSize, (nvrtcProgram program, size_t * size))                                                          \
    X(nvrtcGetPTX, (nvrtcProgram program, char *image))                                                                \
    X(nvrtcGetCUBINSize, (nvrtcProgram program, size_t * size))                                                        \
    X(nvrtcGetCUBIN, (nvrtcProgram program, char *image))                                                              \
    X(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * size))                                                   \
    X(nvrtcGetProgramLog, (nvrtcProgram program, char *log))

/* ---- Private to nvrtc*.c ---- */

typedef struct nvrtc_text {
    char *name; /* a path below the folder of the program */
    char *text;
} nvrtc_text;

struct _nvrtcProgram {
    nvrtc_text *texts; /* the first is the program, the others are headers */
    size_t text_count;
    char *log;   /* NULL before compilation */
    char *image; /* NULL: not compiled */
    size_t image_size;
    int is_virtual; /* for compute_XX: PTX only */
};

/* Architectures, as in sm_86. */
extern const int nvrtc_architectures[];
extern const int nvrtc_architecture_count;

/* Compiles the program, or finds an earlier result. `options` are the compiler's and end with NULL. */
nvrtcResult nvrtc_compile(nvrtcProgram program, const char *const *options, unsigned long *compilations);

void *nvrtc_need(void *memory); /* ends the process if there is none */

#endif
