/*
 * Compiles the CUDA backend's kernels with NVIDIA's compilers and reads what came out: no GPU and no driver is needed.
 * Linked with the library's modules, so that it asks the same tables as the backend and passes the same texts.
 */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "tests/support/everything.h"

/* ---- processors.c ---- */

/* What a multiprocessor has (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"), and a
   device with such multiprocessors. */
typedef struct processor {
    int capability; /* 86 for sm_86 */
    const char *name;
    int count;           /* multiprocessors */
    int warps, blocks;   /* resident at once, at most */
    size_t block_shared; /* bytes that a block may ask for */
    size_t shared;       /* bytes of all blocks */
    size_t reserved;     /* bytes of each block that the system takes, if a kernel's static memory does not have them */
} processor;

/* Processor i, from the oldest on; NULL: there are no more. */
const processor *processor_at(size_t i);

/* Ends the program if there is none of that capability. */
const processor *processor_of(int capability);

/* The device as the backend sees it. */
eitp__cuda_device processor_device(const processor *p);

/* Warps that are resident at once, for blocks of so many threads, registers of each, and bytes of shared memory. */
int processor_warps(const processor *p, int threads, int registers, size_t shared);

/* ---- calls.c ---- */

/* Calls that together reach every entry with definitions, in each form that its file is compiled in. */
typedef void call_visitor(void *user, const eitp__call *call);
void visit_calls(call_visitor *visit, void *user);

/* ---- modules.c ---- */

/* A kernel as it is launched. */
typedef struct kernel_launch {
    const char *kernel;
    int threads;
    size_t shared; /* dynamic; the most of all calls */
} kernel_launch;

enum { MOST_LAUNCHES = 48, MOST_MODULES = 1024, MOST_ENTRIES = 1024 };

/* A file with definitions. */
typedef struct kernel_module {
    const char *file;
    char definitions[EITP__CUDA_DEFINITIONS];
    char name[200]; /* of files with what was compiled: "rows-SCALAR=0" */
    kernel_launch launches[MOST_LAUNCHES];
    int launch_count;
} kernel_module;

/* An entry for one dtype. */
typedef struct reached_entry {
    const eitp__cuda_kernels *kernels;
    eitp_dtype dtype;
    int is_reached;
} reached_entry;

typedef struct module_list {
    const processor *processor;
    eitp__cuda_device device;
    kernel_module modules[MOST_MODULES];
    int count;
    reached_entry entries[MOST_ENTRIES];
    int entry_count;
} module_list;

/* Lists all modules that the backend may ask for on a processor. Ends the program, with a line for each, if an entry is
   left out that the processor could use, or is reached though the list of those that it does not need has it. */
module_list *modules_create(const processor *p);

/* True if the name of a module has the word `only`; "": all. */
int is_chosen(const kernel_module *module, const char *only);

/* ---- compile.c ---- */

/* Prints which NVRTC compiles for a processor; ends the program with the reason if none does. */
void print_compiler(const processor *p);

/*
 * Compiles with NVRTC, as the backend does, the modules whose number gives `part` when it is divided by `parts`, and
 * writes them to a folder. Returns the number of those with errors or warnings, which it prints.
 */
int compile_modules(const module_list *list, const char *folder, const char *only, int part, int parts);

/* ---- cubin.c ---- */

typedef struct cubin_kernel {
    char name[64];
    int registers;
    size_t stack;  /* bytes of a thread: spilled registers, and arrays that are not in registers */
    size_t shared; /* static */
    int products;  /* instructions of tensor cores on 16-bit floating-point numbers */
} cubin_kernel;

enum { MOST_KERNELS = 64 };

/* Reads the kernels of a file. Ends the program if it is none that it can read. */
int cubin_read(const char *path, cubin_kernel kernels[MOST_KERNELS]);

/* ---- report.c ---- */

/* Prints a line for each kernel of the modules in a folder, unless `is_quiet`, and what is wrong with them. Returns the
   number of faults. */
int report_modules(const module_list *list, const char *folder, const char *only, int is_quiet);

/* ---- times.c ---- */

/* Prints the tables of expected times in Markdown. */
void print_times(void);

/* ---- cuda_kernels.c ---- */

/* Prints a line to standard error and ends the program. */
_Noreturn void stop(const char *format, ...) EITP__PRINTF(1, 2);

#endif
