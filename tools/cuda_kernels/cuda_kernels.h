/*
 * Compiles the CUDA backend's kernels with NVIDIA's compilers and reads the results. Needs no GPU and no driver. Linked
 * with the library's modules, so that it uses the backend's tables and sources.
 */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "tests/support/everything.h"

#include "tests/support/cuda_launches.h"

/* ---- processors.c ---- */

/*
 * Limits of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"), and a
 * device with such multiprocessors.
 */
typedef struct processor {
    int capability; /* 86 for sm_86 */
    const char *name;
    int count;           /* multiprocessors */
    int warps, blocks;   /* maximum resident at once */
    size_t block_shared; /* maximum bytes per block */
    size_t shared;       /* bytes for all blocks */
    size_t reserved;     /* bytes per block taken by the system */
} processor;

/* Returns processor i, starting with the oldest, or NULL after the last one. */
const processor *processor_at(size_t i);

/* Returns the processor with that capability. Ends the program if there is none. */
const processor *processor_of(int capability);

/* Returns the device as the backend sees it. */
eitp__cuda_device processor_device(const processor *p);

/*
 * Returns the number of resident warps, from the threads per block, registers per thread, and bytes of shared memory.
 */
int processor_warps(const processor *p, int threads, int registers, size_t shared);

/* ---- calls.c ---- */

/* Visits calls that together reach every entry with definitions, in each form in which its file is compiled. */
typedef void call_visitor(void *user, const eitp__call *call);
void visit_calls(call_visitor *visit, void *user);

/* ---- modules.c ---- */

/* A kernel and its launch parameters. */
typedef struct kernel_launch {
    const char *kernel;
    int threads;
    size_t shared; /* dynamic; the maximum over all calls */
} kernel_launch;

enum { MOST_LAUNCHES = 48, MOST_MODULES = 1024, MOST_ENTRIES = 1024 };

/* A file with definitions. */
typedef struct kernel_module {
    const char *file;
    char definitions[EITP__CUDA_DEFINITIONS];
    char name[200]; /* base name of its outputs: "rows-SCALAR=0" */
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

/*
 * Lists all modules that the backend may request on a processor. Ends the program, with one line each, if an entry that
 * the processor can use is not reached, or if an entry listed as unused is reached.
 */
module_list *modules_create(const processor *p);

/* True if the module's name contains `only`. "" selects all modules. */
int is_chosen(const kernel_module *module, const char *only);

/* ---- compile.c ---- */

/* Opens an NVRTC that compiles for a processor. Ends the program with the reason if none does. */
void open_compiler(eitp__cuda_compiler *compiler, const eitp_host *host, const processor *p);

/* Prints which NVRTC compiles for a processor. Ends the program with the reason if none does. */
void print_compiler(const processor *p);

/*
 * Compiles modules with NVRTC, as the backend does, and writes them to a folder. Takes the modules whose number modulo
 * `parts` is `part`. Returns the number of modules with errors or warnings, and prints these.
 */
int compile_modules(const module_list *list, const char *folder, const char *only, int part, int parts);

/* ---- needed.c ---- */

enum { MOST_IMAGES = 4096 };

/* The images of kernels, each compiled alone. */
typedef struct needed_images {
    eitp__cuda_image images[MOST_IMAGES];
    char definitions[MOST_IMAGES][EITP__CUDA_DEFINITIONS];
    int count;
} needed_images;

/* Creates an empty list. Free it. */
needed_images *needed_create(void);

/* Adds the kernels of a planned step. is_own: without cuBLASLt. */
typedef struct planned_step planned_step;
void need_step(needed_images *needed, const planned_step *step, int is_own);

/* Adds all kernels of all modules. */
void need_modules(needed_images *needed, const module_list *list);

/* Adds the kernels of a list that the emulated NVRTC has written (EITP_EMULATED_LIST). */
void need_listed(needed_images *needed, const char *path);

/* Gets all images from the user's cache, or compiles them, and prints the time. */
void needed_get(needed_images *needed, const eitp__cuda_compiler *compiler, const eitp_host *host);

/* Releases the images. The list stays. */
void needed_release(needed_images *needed);

/* ---- start.c ---- */

/* Returns a host that prints the log to standard output. */
eitp_host printing_host(void);

/*
 * Gets the kernels of a training step of GPT-2 124M, 16 x 1024 in bf16, for a processor, as two runs do one after the
 * other. The first compiles those that are not in the cache in `folder`. Prints the log and the times. If
 * EITP_CUDA_PRODUCTS is own in the environment, cuBLASLt is not used.
 */
void print_start(const processor *p, const char *folder);

/* ---- prepare.c ---- */

/*
 * Writes compiled kernels to a folder for EITP_CUDA_KERNELS. Options: a config.json, for training steps of a model in
 * each precision, or in the one of "precision=bf16" before it; "all", for all modules and training steps of GPT-2 124M;
 * "list=FILE", as in need_listed.
 */
void prepare_kernels(const processor *p, const char *folder, int count, char **options);

/* ---- cubin.c ---- */

typedef struct cubin_kernel {
    char name[64];
    int registers;
    size_t stack;  /* bytes per thread: spilled registers, and arrays that are not in registers */
    size_t shared; /* static */
    int products;  /* tensor core instructions on 16-bit floating-point numbers */
} cubin_kernel;

enum { MOST_KERNELS = 64 };

/* Reads the kernels of a file. Ends the program if it cannot read the file. */
int cubin_read(const char *path, cubin_kernel kernels[MOST_KERNELS]);

/* ---- report.c ---- */

/*
 * Prints one line per kernel of the modules in a folder, unless `is_quiet`, and its faults. Returns the number of
 * faults.
 */
int report_modules(const module_list *list, const char *folder, const char *only, int is_quiet);

/* ---- plans.c ---- */

enum { PLANNED_ROWS = 64 * 1024 };

/* A training step with AdamW. With zeros, it has one pass and uses cuBLASLt, without dropout and recomputation. */
struct planned_step {
    const char *shape;     /* a name of eitp_transformer_config_named, or a path that ends with ".json" */
    const char *precision; /* "bf16" */
    int is_masked;         /* a masked language model */
    int samples, tokens;   /* samples: of a pass; tokens: of each sample */
    int passes;
    int layers; /* 0: as in the shape */
    double dropout;
    int has_little_memory; /* as little as possible: recomputes, and divides the head */
    int has_own_products;  /* without cuBLASLt */
    int generates;         /* also visits the plan of a generator */
    eitp__cuda_device device;
};

typedef void step_visitor(void *user, const eitp_plan *plan, size_t s);

/* Plans a step for a device and visits the steps of its plans, whose calls have addresses. Returns the number of
   parameters. */
int64_t visit_planned_step(const planned_step *step, step_visitor *visit, void *user);

typedef void unit_visitor(void *user, const cuda_ordered_plan *ordered, const eitp__cuda_unit *unit);

/* The same with the units of its plans, in the order of the backend. */
int64_t visit_ordered_step(const planned_step *step, unit_visitor *visit, void *user);

/* ---- paths.c ---- */

/* Prints the paths (tests/support/cuda_paths.h) that training steps and generation with real models take on a
   processor, each with the number of calls and one of them, separated by tabs. */
void print_paths(const processor *p);

/* ---- speeds.c ---- */

/* The devices whose times are expected. */
enum { DEVICES = 4 };

/* Constants of a device. */
typedef enum device_speed {
    SPEED_CLOCK,          /* MHz */
    SPEED_MEMORY,         /* TB/s */
    SPEED_MEMORY_REACHED, /* share of SPEED_MEMORY */
    SPEED_MEMORY_LATENCY, /* ns */
    SPEED_CACHE_LATENCY,  /* ns */
    SPEED_LAUNCH,         /* us */
    SPEED_ADD,            /* cycles */
    SPEED_ADD_DOUBLE,     /* cycles */
    SPEED_SHARED_LATENCY, /* cycles */
    SPEED_MMA,            /* share of device_tensor_rate */
    SPEED_LARGE_TILE,     /* share of mma.sync's rate; so are the next three */
    SPEED_SMALL_TILE,
    SPEED_ATTENTION,
    SPEED_ATTENTION_BACKWARD,
    SPEED_BLAS,          /* TFLOP/s */
    SPEED_BLAS_START,    /* us */
    SPEED_BLAS_UNALIGNED /* share of SPEED_BLAS */
} device_speed;

const char *device_name(int device);
const processor *device_processor(int device);
double device_speed_of(int device, device_speed speed);

/* Returns the nominal operations per second of the tensor cores: dense, 16-bit factors, sums in F32. */
double device_tensor_rate(int device);

/* Prints all of them and their sources, in Markdown. */
void print_speeds(void);

/* ---- model.c ---- */

/* The largest part of a time. */
typedef enum time_bound { BOUND_LAUNCH, BOUND_LATENCY, BOUND_MEMORY, BOUND_ARITHMETIC, BOUND_COUNT } time_bound;

typedef struct expected_time {
    double seconds;
    time_bound bound;
} expected_time;

/* The call of a launch, the operations of its op, and the bytes that the launch moves. */
typedef struct launch_work {
    const eitp__call *call;
    double flops, bytes;
} launch_work;

/* Returns the expected time of a launch on a device: 0 to DEVICES - 1. */
expected_time expect_launch(int device, const cuda_launch *launch, const launch_work *work);

/* The same for a launch with the blocks of `count` calls. */
expected_time expect_group(int device, const cuda_launch *launch, const launch_work *works, int count, int is_chain);

/* ---- step.c ---- */

/* Tokens of each sample of the step. */
enum { STEP_TOKENS = 1024, MOST_GROUPS = 64 };

/* The calls with the same kernels and purpose. */
typedef struct call_group {
    char name[EITP__CUDA_WORK_NAME];
    int calls, launches;
    double flops, bytes;
    double seconds[DEVICES], bounds[DEVICES][BOUND_COUNT]; /* bounds: seconds of the launches that it bounds */
} call_group;

typedef struct group_list {
    call_group groups[MOST_GROUPS];
    int count;
    double counted; /* operations of the ops */
} group_list;

/* Lists the launches of a training step of GPT-2 124M in BF16, with this number of samples. `list` is zeroed. */
void list_step(group_list *list, int samples);

/* Returns the group of this name, which is added if it is missing. */
call_group *find_group(group_list *list, const char *name);

void add_group(call_group *sum, const call_group *group);

/* Returns the part of the model that contributes most to a group's time: "memory". */
const char *bound_of(const call_group *group, int device);

/* ---- compare.c ---- */

/* Prints the times of a step in the log of a run with EITP_CUDA_PROFILE=1, which has passes of this number of samples,
   and the expected times on a device. */
void print_comparison(const char *path, const char *device, int samples);

/* ---- times.c ---- */

/* Prints the tables of expected times, in Markdown. */
void print_times(void);

/* ---- cuda_kernels.c ---- */

/* Prints a line to standard error and ends the program. */
_Noreturn void stop(const char *format, ...) EITP__PRINTF(1, 2);

#endif
