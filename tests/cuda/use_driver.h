/*
 * Shared by the tests of the emulated libraries: the libraries, found in LD_LIBRARY_PATH, a kernel, and a device in
 * use. Kernels follow emulated_launch.h and are written by hand, without emulated.h.
 */
#ifndef USE_DRIVER_H
#define USE_DRIVER_H

#include "tests/cuda/emulated_hooks.h"
#include "tests/cuda/emulated_launch.h"
#include "tests/cuda/nvrtc_api.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define USE_POINTER(name, arguments) CUresult(*name) arguments;
#define USE_HOOK(name, result, arguments) result(*name) arguments;
#define USE_COMPILER(name, arguments) nvrtcResult(*name) arguments;

/* The driver, its hooks, and the compiler. */
static struct {
    DRIVER_API(USE_POINTER)
    DRIVER_HOOKS(USE_HOOK)
    NVRTC_API(USE_COMPILER)
    int (*emulated_nvrtc_live)(void);
    unsigned long (*emulated_nvrtc_compilations)(void);
} cu;

static TEST_UNUSED void *open_emulated(const char *name, const char *hook) {
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (library && dlsym(library, hook))
        return library;
    printf("%s is not the emulated one: LD_LIBRARY_PATH must begin with its folder\n", name);
    exit(1);
}

static TEST_UNUSED void find_symbol(void *library, const char *name, void *pointer, size_t size) {
    void *found = dlsym(library, name);
    if (!found) {
        printf("%s is missing\n", name);
        exit(1);
    }
    memcpy(pointer, &found, size);
}

static TEST_UNUSED void open_driver(void) {
    void *driver = open_emulated("libcuda.so.1", "emulated_cuda_live");
    void *compiler = open_emulated("libnvrtc.so.13", "emulated_nvrtc_live");
#define USE_FIND(name, arguments) find_symbol(driver, #name, &cu.name, sizeof cu.name);
    DRIVER_API(USE_FIND)
#undef USE_FIND
#define USE_FIND(name, result, arguments) find_symbol(driver, #name, &cu.name, sizeof cu.name);
    DRIVER_HOOKS(USE_FIND)
#undef USE_FIND
#define USE_FIND(name, arguments) find_symbol(compiler, #name, &cu.name, sizeof cu.name);
    NVRTC_API(USE_FIND)
#undef USE_FIND
    find_symbol(compiler, "emulated_nvrtc_live", &cu.emulated_nvrtc_live, sizeof cu.emulated_nvrtc_live);
    find_symbol(compiler, "emulated_nvrtc_compilations", &cu.emulated_nvrtc_compilations,
                sizeof cu.emulated_nvrtc_compilations);
}

/* ---- The kernels ---- */

typedef struct step_arguments {
    uint64_t data, other; /* other: 0, or another array to add */
    uint32_t count;
    float factor, added;
} step_arguments;

/* data = factor data + added + other; with factor 0 it does not read data */
static const char kernel_text[] =
    "#include \"emulated_launch.h\"\n"
    "#include <stdio.h>\n"
    "#include <string.h>\n"
    "struct step_t { uint64_t data, other; uint32_t count; float factor, added; };\n"
    "static float *find(const emulated_launch *l, uint64_t address, size_t size, unsigned char **written) {\n"
    "    for (size_t i = 0; i < l->range_count; i++)\n"
    "        if (address >= l->ranges[i].begin && address + size <= l->ranges[i].begin + l->ranges[i].size) {\n"
    "            *written = l->ranges[i].written + (address - l->ranges[i].begin);\n"
    "            l->ranges[i].shadows[2].writes[(address - l->ranges[i].begin) / 4].launch = l->number;\n"
    "            l->ranges[i].shadows[3].reads[(l->ranges[i].size - 1) / 8].block = 1;\n"
    "            return (float *)(address - EMULATED_TAG);\n"
    "        }\n"
    "    return 0;\n"
    "}\n"
    "extern \"C\" {\n"
    "size_t step_arguments = sizeof(step_t), fail_arguments = sizeof(step_t);\n"
    "int step(emulated_launch *l) {\n"
    "    const step_t *a = (const step_t *)l->arguments;\n"
    "    unsigned char *written = 0, *unused = 0;\n"
    "    float *data = find(l, a->data, 4 * a->count, &written);\n"
    "    const float *other = a->other ? find(l, a->other, 4 * a->count, &unused) : 0;\n"
    "    if (!data || (a->other && !other)) { strcpy(l->message, \"outside of memory\"); return 1; }\n"
    "    for (uint32_t i = 0; i < a->count; i++)\n"
    "        data[i] = (a->factor ? a->factor * data[i] : 0) + a->added + (other ? other[i] : 0);\n"
    "    memset(written, 1, 4 * a->count);\n"
    "    return 0;\n"
    "}\n"
    "int fail(emulated_launch *l) { strcpy(l->message, \"a rule is broken\"); return 1; }\n"
    "}\n";

static char *kernel_image;

/* Compiles the kernel once for all tests. The cache keeps it for later runs. */
static TEST_UNUSED int compile_kernel(void) {
    static const char *const options[] = {"--gpu-architecture=sm_86"};
    nvrtcProgram program = NULL;
    size_t size = 0;
    char log[4096] = "";
    if (kernel_image)
        return 1;
    if (cu.nvrtcCreateProgram(&program, kernel_text, "step.cu", 0, NULL, NULL))
        return 0;
    if (cu.nvrtcCompileProgram(program, 1, options) || cu.nvrtcGetCUBINSize(program, &size)) {
        if (!cu.nvrtcGetProgramLogSize(program, &size) && size < sizeof log)
            cu.nvrtcGetProgramLog(program, log);
        printf("%s\n", log);
    } else {
        kernel_image = (char *)malloc(size);
        cu.nvrtcGetCUBIN(program, kernel_image);
    }
    cu.nvrtcDestroyProgram(&program);
    return kernel_image != NULL;
}

/* ---- A device in use ---- */

enum { COUNT = 1000, SIZE = 4 * COUNT };

typedef struct fixture {
    CUcontext context;
    CUstream a, b;
    CUevent event, other_event;
    CUdeviceptr x, y; /* of SIZE bytes; x is zeros */
    float *pinned;    /* of SIZE bytes */
    CUmodule module;
    CUfunction step;
} fixture;

static TEST_UNUSED int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    cu.emulated_cuda_restart();
    return compile_kernel() && !cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&f->context, 0) &&
           !cu.cuCtxSetCurrent(f->context) && !cu.cuStreamCreate(&f->a, CU_STREAM_NON_BLOCKING) &&
           !cu.cuStreamCreateWithPriority(&f->b, CU_STREAM_NON_BLOCKING, -1) && !cu.cuEventCreate(&f->event, 0) &&
           !cu.cuEventCreate(&f->other_event, 0) && !cu.cuMemAlloc_v2(&f->x, SIZE) && !cu.cuMemAlloc_v2(&f->y, SIZE) &&
           !cu.cuMemHostAlloc((void **)&f->pinned, SIZE, 0) && !cu.cuModuleLoadData(&f->module, kernel_image) &&
           !cu.cuModuleGetFunction(&f->step, f->module, "step") && !cu.cuFuncLoad(f->step) &&
           !cu.cuMemsetD32Async(f->x, 0, COUNT, f->a) && !cu.cuStreamSynchronize(f->a);
}

/* Returns 1 if nothing is left over. */
static TEST_UNUSED int end(fixture *f) {
    cu.cuCtxSynchronize();
    cu.cuModuleUnload(f->module);
    cu.cuMemFreeHost(f->pinned);
    cu.cuMemFree_v2(f->x);
    cu.cuMemFree_v2(f->y);
    cu.cuEventDestroy_v2(f->event);
    cu.cuEventDestroy_v2(f->other_event);
    cu.cuStreamDestroy_v2(f->a);
    cu.cuStreamDestroy_v2(f->b);
    cu.cuCtxSetCurrent(NULL);
    cu.cuDevicePrimaryCtxRelease_v2(0);
    return cu.emulated_cuda_live() == 0;
}

static TEST_UNUSED CUresult launch_with(CUfunction function, CUstream stream, CUdeviceptr data, CUdeviceptr other,
                                        float factor, float added) {
    step_arguments arguments = {data, other, COUNT, factor, added};
    void *parameters[] = {&arguments};
    const CUresult result = cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
    memset(&arguments, 0xff, sizeof arguments); /* the launch must have copied them */
    return result;
}

static TEST_UNUSED CUresult launch_step(const fixture *f, CUstream stream, CUdeviceptr data, float factor,
                                        float added) {
    return launch_with(f->step, stream, data, 0, factor, added);
}

/* Returns the first value after the work of the stream. */
static TEST_UNUSED float read_first(CUstream stream, CUdeviceptr data) {
    float values[COUNT];
    return cu.cuMemcpyDtoHAsync_v2(values, data, SIZE, stream) || values[0] != values[COUNT - 1] ? -1e9f : values[0];
}

/* Returns the output of a process that calls `act`, if a signal ends it; otherwise an empty string. */
static TEST_UNUSED const char *last_words(void (*act)(fixture *f)) {
    static char words[4096];
    size_t length = 0;
    ssize_t count;
    int ends[2], status = 0;
    pid_t child;
    fflush(stdout);
    if (pipe(ends) || (child = fork()) < 0)
        return "";
    if (!child) {
        fixture f;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], 2);
        close(ends[0]);
        if (begin(&f))
            act(&f);
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof words - 1 && (count = read(ends[0], words + length, sizeof words - 1 - length)) > 0)
        length += (size_t)count;
    words[length] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? length ? words : "signal" : "";
}

#define CHECK_ENDS(act, text)                                                                                          \
    do {                                                                                                               \
        const char *words_ = last_words(act);                                                                          \
        CHECK_THAT(!strncmp(words_, "emulated cuda: ", 15) && strstr(words_, text), "%s: %s", #act, words_);           \
    } while (0)

#endif
