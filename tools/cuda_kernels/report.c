/* Registers, memory and occupancy of each kernel, and checks against limits. */
#include "cuda_kernels.h"

/* Kernels that dominate training time. Those for tensor cores must use them. */
typedef struct tensor_core_kernel {
    const char *file, *kernel;
    int warps; /* required to be resident at once since sm_80: two blocks, so that one computes while the other waits */
} tensor_core_kernel;

static const tensor_core_kernel tensor_core_kernels[] = {
    {"kernels/cuda/products.cu", "matmul_kernel", 0},
    {"kernels/cuda/products.cu", "head_kernel", 0},
    {"kernels/cuda/attention.cu", "attention_kernel", 8},
    {"kernels/cuda/attention.cu", "attention_backward_queries_kernel", 8},
    {"kernels/cuda/attention.cu", "attention_backward_keys_kernel", 8},
    {"kernels/cuda/attention.cu", "attention_cached_kernel", 8},
};

/*
 * Registers that do not fit are spilled to device memory. A few bytes per thread are always accepted: compilers prefer
 * these spills to fewer small tiles at once.
 */
#define ACCEPTED_STACK 24

/*
 * Larger limits for kernels with a word in their definitions, on devices of one capability or on all: the most that
 * CUDA 13.0 leaves. Sums as wide as a head take half of the 255 registers.
 */
typedef struct accepted_stack {
    int capability; /* 0: any */
    const char *kernel, *word;
    size_t bytes;
} accepted_stack;

static const accepted_stack accepted_stacks[] = {
    {0, "attention_kernel", "HEAD_WIDTH=128 DROPS=0", 48},
    {0, "attention_kernel", "HEAD_WIDTH=128 DROPS=1", 80},
    {120, "attention_kernel", "HEAD_WIDTH=128 DROPS=1", 104},
    {0, "attention_cached_kernel", "HEAD_WIDTH=128", 40},
    {0, "attention_backward_queries_kernel", "HEAD_WIDTH=64 DROPS=1", 32},
    {0, "attention_backward_keys_kernel", "HEAD_WIDTH=64", 56},
    {0, "attention_backward_keys_kernel", "HEAD_WIDTH=128", 64},
};

/* Returns the entry of a kernel that uses tensor cores, or NULL. */
static const tensor_core_kernel *tensor_core_kernel_of(const kernel_module *module, const char *kernel) {
    for (size_t i = 0; i < EITP__COUNT(tensor_core_kernels); i++)
        if (!strcmp(tensor_core_kernels[i].file, module->file) && !strcmp(tensor_core_kernels[i].kernel, kernel))
            return &tensor_core_kernels[i];
    return NULL;
}

static size_t accepted_bytes(int capability, const kernel_module *module, const char *kernel) {
    size_t most = ACCEPTED_STACK;
    for (size_t i = 0; i < EITP__COUNT(accepted_stacks); i++) {
        const accepted_stack *a = &accepted_stacks[i];
        if ((!a->capability || a->capability == capability) && !strcmp(a->kernel, kernel) &&
            strstr(module->definitions, a->word) && a->bytes > most)
            most = a->bytes;
    }
    return most;
}

/* ---- Kernels ---- */

static int fault(const kernel_module *module, const char *kernel, const char *what) {
    printf("FAULT %s, %s: %s\n", module->name, kernel, what);
    return 1;
}

static int check_kernel(int capability, const kernel_module *module, const cubin_kernel *kernel, int warps) {
    const tensor_core_kernel *tensor = tensor_core_kernel_of(module, kernel->name);
    const size_t accepted = accepted_bytes(capability, module, kernel->name);
    char what[120];
    int faults = 0;
    if (!warps)
        faults += fault(module, kernel->name, "a block exceeds the resources of a multiprocessor");
    if (tensor && !kernel->products)
        faults += fault(module, kernel->name, "has no tensor core instructions");
    if (tensor && warps < tensor->warps && capability >= 80) {
        snprintf(what, sizeof what, "%d warps are resident at once; report.c requires %d", warps, tensor->warps);
        faults += fault(module, kernel->name, what);
    }
    if (tensor && kernel->stack > accepted) {
        snprintf(what, sizeof what, "a thread spills %zu bytes to memory; report.c accepts %zu", kernel->stack,
                 accepted);
        faults += fault(module, kernel->name, what);
    }
    return faults;
}

static void print_kernel(const module_list *list, const kernel_module *module, const kernel_launch *launch,
                         const cubin_kernel *kernel, int warps) {
    printf("%4d %6zu %7zu %7zu %8d %6d/%d %7d  %-34s %s %s\n", kernel->registers, kernel->stack, kernel->shared,
           launch->shared, launch->threads, warps, list->processor->warps, kernel->products, kernel->name, module->file,
           module->definitions);
}

static const cubin_kernel *find_kernel(const cubin_kernel *kernels, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(kernels[i].name, name))
            return &kernels[i];
    return NULL;
}

static int report_module(const module_list *list, const kernel_module *module, const char *folder, int is_quiet) {
    cubin_kernel kernels[MOST_KERNELS];
    char path[1024];
    int count, faults = 0;
    snprintf(path, sizeof path, "%s/%s.cubin", folder, module->name);
    count = cubin_read(path, kernels);
    for (int i = 0; i < module->launch_count; i++) {
        const kernel_launch *launch = &module->launches[i];
        const cubin_kernel *kernel = find_kernel(kernels, count, launch->kernel);
        int warps;
        if (!kernel) {
            faults += fault(module, launch->kernel, "is launched, but the file has no such kernel");
            continue;
        }
        warps = processor_warps(list->processor, launch->threads, kernel->registers, kernel->shared + launch->shared);
        if (!is_quiet)
            print_kernel(list, module, launch, kernel, warps);
        faults += check_kernel(list->processor->capability, module, kernel, warps);
    }
    return faults;
}

int report_modules(const module_list *list, const char *folder, const char *only, int is_quiet) {
    int faults = 0;
    if (!is_quiet)
        printf("%4s %6s %7s %7s %8s %9s %7s  %-34s %s\n", "regs", "stack", "static", "dynamic", "threads", "warps",
               "tensor", "kernel", "file and definitions");
    for (int i = 0; i < list->count; i++)
        if (is_chosen(&list->modules[i], only))
            faults += report_module(list, &list->modules[i], folder, is_quiet);
    return faults;
}
