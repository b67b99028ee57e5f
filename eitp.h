/*
 * eitp: trains Transformers inside the memory a machine really has. One C header.
 *
 * Do this, in one C or C++ file, to make the implementation:
 *
 *     #define EITP_IMPLEMENTATION
 *     #include "eitp.h"
 *
 * and #include "eitp.h" without the #define wherever else you use it. Then compile:
 *
 *     cc -O2 file.c -lm                                                  a C11 compiler is all it needs
 *     cc -O2 -fopenmp file.c -lm                                         with threads
 *     cc -O2 -fopenmp -DEITP_WITH_OPENBLAS=1 file.c -lopenblas -lm       with OpenBLAS for matrix products
 *
 * -O2 is enough: which of plain C, AVX2 and AVX-512 runs is chosen when the program runs. -march and -ffast-math add
 * nothing but risk. Licence: MIT, at the end of the file.
 *
 * A WHOLE PROGRAM: save it as file.c beside eitp.h, compile it as above, run it where file.c is. It takes seconds.
 *
 * ```c
 * #define EITP_IMPLEMENTATION
 * #include "eitp.h"
 * #include <stdio.h>
 * int main(void) { // a small GPT-2 learns the text of this very file, byte by byte
 *     const char *path = __FILE__;
 *     eitp_context_config settings = eitp_context_config_default();
 *     eitp_trainer_config run = eitp_trainer_config_default();
 *     eitp_pack_config texts = {&path, 1, 0, 0, NULL, NULL};
 *     eitp_context *context = NULL;
 *     eitp_tokenizer *tokenizer = NULL;
 *     eitp_token_file *tokens = NULL;
 *     eitp_model *model = NULL;
 *     eitp_trainer *trainer = NULL;
 *     eitp_gpt2_config shape;
 *     eitp_token_file_info info;
 *     eitp_token_range all, none;
 *     eitp_step_report step = {0, 0, 0, 0, 0, 0};
 *     eitp_error error;
 *     // EITP_OK is 0: calls are chained with ||, the first that fails ends the chain, and `error` says why.
 *     int failed = eitp_context_create(&settings, &context, &error) ||
 *                  eitp_tokenizer_bytes(&settings.host, &tokenizer, &error) ||
 *                  eitp_pack(&settings.host, tokenizer, &texts, "text.tok", &info, &error) ||
 *                  eitp_token_file_open(&settings.host, "text.tok", 0, &tokens, &error) ||
 *                  eitp_split_tokens(info.token_count, 0, run.block_size, &all, &none, &error) ||
 *                  eitp_gpt2_config_named("tiny", &shape, &error);
 *     shape.vocabulary = 257; // the bytes and <|endoftext|>
 *     run.schedule.peak = 1e-3;
 *     failed = failed || eitp_gpt2_create(context, &shape, &model, &error) ||
 *              eitp_model_initialize(model, 1, &error) ||
 *              eitp_trainer_create(model, tokens, all, NULL, none, tokenizer, &run, &trainer, &error);
 *     while (!failed && step.step < 80) {
 *         failed = eitp_trainer_step(trainer, &step, &error) != EITP_OK;
 *         if (step.step % 10 == 0)
 *             printf("step %2d: loss %.3f nats per byte\n", (int)step.step, step.loss);
 *     }
 *     if (failed || eitp_trainer_save(trainer, "out", &error)) // makes out/checkpoint-80
 *         return fprintf(stderr, "%s\n", error.message), 1;
 *     printf("the best guess from how often each byte comes has %.3f\n", info.unigram_entropy);
 *     eitp_trainer_destroy(trainer); // what was made last goes first
 *     eitp_model_destroy(model);
 *     eitp_token_file_close(tokens);
 *     eitp_tokenizer_destroy(tokenizer);
 *     eitp_context_destroy(context);
 *     return step.loss < info.unigram_entropy - 0.5 ? 0 : 1;
 * }
 * ```
 *
 * The directory out/checkpoint-80 that it leaves opens in Hugging Face's transformers, and in `eitp generate`. Further
 * programs are in examples/: a model of your own, a run that resumes, generation, an allocator of your own.
 *
 * WHAT IT DOES
 *     - language models of GPT-2's architecture: from random weights or from a Hugging Face directory, and back to one
 *     - models of your own from tensor ops; gradients are tensors, and can be differentiated again
 *     - byte-level BPE: Hugging Face's tokenizer files, token for token; and learning one from text
 *     - text of any size: it is packed into a token file once, which is read in windows
 *     - AdamW, gradient accumulation, clipping by the global norm, schedules, dropout, evaluation, checkpoints
 *     - the same bits for any number of threads, and after a stop and a resume as without
 *     - generation with a key-value cache, temperature, top-k and top-p
 *
 * WHAT IT DOES NOT
 *     - print, exit, abort, install signal handlers, or keep state outside the objects it gives you
 *     - use the network: model directories and texts are files that you have already
 *     - allocate while a plan runs or a trainer makes a step
 *     - Windows, and compilers other than gcc and clang (it needs POSIX files and GNU attributes)
 *
 * NOT YET
 *     - arithmetic in bf16 or f16 (files in them are read and written), AMX, CUDA, several machines
 *     - choosing precision and recomputation to meet a memory budget: a plan says what it needs, and fails if memory is
 *       not there, before anything runs
 *     - encoders such as BERT, text classification, tokenizers other than byte-level BPE, optimizers other than AdamW
 *
 * STEP BY STEP, in the order of the calls
 *   Train a language model:
 *     1. eitp_context_config_default, eitp_context_create: device, threads, memory, log. It owns the parameters.
 *     2. eitp_tokenizer_load, or eitp_tokenizer_train and eitp_tokenizer_save, or eitp_tokenizer_bytes.
 *     3. eitp_pack makes a token file; eitp_token_file_open opens it; eitp_split_tokens holds some back for validation.
 *     4. eitp_model_load for a Hugging Face directory; or eitp_gpt2_config_named, eitp_gpt2_config_read, or your own
 *        eitp_gpt2_config, then eitp_gpt2_create and eitp_model_initialize.
 *     5. eitp_trainer_config_default, eitp_trainer_create: takes all memory that training needs. To go on from a
 *        checkpoint: eitp_checkpoint_newest, eitp_trainer_resume.
 *     6. Your loop: eitp_trainer_step; now and then eitp_trainer_evaluate, eitp_trainer_save, eitp_checkpoint_prune.
 *     7. eitp_model_save writes a directory without the training state.
 *     8. What was made last is destroyed first.
 *   Generate: eitp_generator_create, then in turn eitp_generator_feed and eitp_generator_sample; eitp_tokenizer_token
 *   gives the bytes of a token.
 *   A model of your own: eitp_graph_create, eitp_input, eitp_parameter, ops, eitp_output; eitp_adamw_minimize for a
 *   step of training, or eitp_gradients; eitp_plan_create; then in turn eitp_plan_write, eitp_plan_run, eitp_plan_read.
 *   Building a graph computes nothing. eitp_variables_save and eitp_variables_load keep the parameters.
 *
 * MEMORY
 *   All of it comes from eitp_host.allocator, by default the C library's. A context has two large parts: variables
 *   (parameters, optimizer state, gradients: eitp_context_variable_bytes) and the arena, in which all its plans run
 *   one at a time, as large as the largest needs (eitp_context_arena_bytes; eitp_plan_statistics for one plan).
 *   Both are taken when a plan or a trainer is created; after that eitp_plan_run, eitp_trainer_step and
 *   eitp_trainer_evaluate allocate nothing. Packing a text of any size, and training a tokenizer, need a bounded
 *   amount.
 *
 * ERRORS
 *   What can fail returns an eitp_status, 0 (EITP_OK) for success, and fills an eitp_error with one line: what is
 *   wrong, where, what to do. NULL may be passed for it. After a failure nothing is half made: outputs are NULL or
 *   untouched. A failed allocation is an error like any other. Ops return tensors instead: NULL after a failure,
 *   and on NULL; the first failure is told by eitp_graph_status and eitp_plan_create. Destroying NULL is harmless.
 *
 * THREADS
 *   A context and what is made from it belong to one thread at a time; two contexts are independent. Tokenizers and
 *   open token files may be shared by threads. The callbacks (allocator, files, log, progress) are called from the
 *   thread that called eitp, never from a worker. With OpenMP a context uses config.threads of them; with OpenBLAS,
 *   making a context sets OpenBLAS itself to one thread, for the whole process, because eitp divides the work.
 *
 * SWITCHES: define them before the #include, or with -D
 *   EITP_IMPLEMENTATION   not defined   makes the implementation; in exactly one file. It is twenty thousand lines to
 *                                       compile, so give it a file of its own.
 *   EITP_API              extern        linkage of the public functions; in every file, alike. `static`, in a program
 *                                       of one file, hides all of eitp.
 *   EITP_WITH_OPENBLAS    0             1: matrix products by OpenBLAS; where the implementation is. Needs cblas.h and
 *                                       -lopenblas.
 *   -fopenmp              off           work is divided among threads; where the implementation is, and when linking.
 *
 * ENVIRONMENT VARIABLES
 *   EITP_ISA               ref, avx2 or avx512 instead of the best that the processor has; one it has not is an error
 *   EITP_BACKEND           the device where the program asks for "auto": cpu; or null, which computes nothing
 *   CUDA_VISIBLE_DEVICES   is read only to say why no CUDA device is used; there is no CUDA device yet
 *   OMP_NUM_THREADS        the number of threads where the program asks for 0; without it, one for each processor
 *
 * FINDING THINGS
 *   The file is made of modules. Each begins with a line that has ">>" and the module's path, and ends with one
 *   that has "<<" and it: search for ">>" to see them all. First come the public headers (base, tensor, model,
 *   optim, text, data, io, train), where every function is documented; then the private ones; then the
 *   implementation. Public names begin with eitp_ or EITP_, private ones with eitp__ or EITP__: those are not for
 *   you to use. The file is generated: to change it, change the modules in the repository. Only the part before the
 *   private headers is seen without EITP_IMPLEMENTATION.
 */

/* Generated by tools/amalgamate.c from the modules named below (look for ">>"): change those, then `make eitp.h`. */

#ifndef EITP_H
#define EITP_H

/* Strict C modes hide POSIX; this must precede the first system header. */
#if defined(EITP_IMPLEMENTATION) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

/* >>src/base/dtype.h */
/* Element types. */

#include <stddef.h>
#include <stdint.h>

typedef enum eitp_dtype {
    EITP_F32 = 0,
    EITP_F64 = 1,
    EITP_BF16 = 2,
    EITP_F16 = 3,
    EITP_I64 = 4,
    EITP_I32 = 5,
    EITP_I8 = 6,
    EITP_U8 = 7
} eitp_dtype;

#define EITP_DTYPE_COUNT 8

/* The largest number of dimensions a tensor has. */
#define EITP_MAX_RANK 6
/* <<src/base/dtype.h */

/* >>src/base/base.h */
/* What every part of eitp shares: version, status and error, and the host that it runs on (memory, files, log). */

/* POSIX calls are hidden by strict C modes; this must precede the first system header. */
#if (defined(EITP_IMPLEMENTATION) || defined(EITP_SPLIT)) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

#define EITP_VERSION_MAJOR 0
#define EITP_VERSION_MINOR 1
#define EITP_VERSION_PATCH 0
#define EITP_VERSION_STRING "0.1.0"

/* Linkage of public functions. Define it before every inclusion to change it, for instance to `static`. */
#ifndef EITP_API
#define EITP_API extern
#endif

#ifdef __cplusplus
#define EITP_BEGIN_DECLARATIONS extern "C" {
#define EITP_END_DECLARATIONS }
#else
#define EITP_BEGIN_DECLARATIONS
#define EITP_END_DECLARATIONS
#endif

EITP_BEGIN_DECLARATIONS

/* The version of the implementation that is linked, "0.1.0". */
EITP_API const char *eitp_version(void);

/* How the implementation was built: compiler, OpenMP, OpenBLAS, optimisation; one line of "key=value" words. */
EITP_API const char *eitp_build_info(void);

/* Bytes of one element; 0 for a value that is no dtype. */
EITP_API size_t eitp_dtype_size(eitp_dtype dtype);

/* "f32", "bf16", ...; "?" for a value that is no dtype. */
EITP_API const char *eitp_dtype_name(eitp_dtype dtype);

/*
 * Status and error.
 *
 * A function that can fail returns a status and fills the eitp_error it was given; NULL may be passed where the text
 * is not wanted. Nothing is left half made: on failure every output is NULL or untouched.
 */
typedef enum eitp_status {
    EITP_OK = 0,
    EITP_ERROR_ARGUMENT = 1,    /* the call or the command is wrong: a flag, a shape, a path that names nothing */
    EITP_ERROR_FORMAT = 2,      /* the content of a file is wrong */
    EITP_ERROR_UNSUPPORTED = 3, /* well formed, but not something this build or machine can do */
    EITP_ERROR_MEMORY = 4,      /* an allocation failed, or the plan does not fit the budget */
    EITP_ERROR_PRESSURE = 5,    /* stopped because the machine ran short of memory */
    EITP_ERROR_NOT_FINITE = 6,  /* too many steps had a loss or a gradient that is not finite */
    EITP_ERROR_IO = 7,          /* reading or writing failed */
    EITP_ERROR_INTERRUPTED = 8, /* stopped by request */
    EITP_ERROR_INTERNAL = 9     /* a defect of eitp itself */
} eitp_status;

typedef struct eitp_error {
    eitp_status status;
    char message[600]; /* one line: what is wrong, where, and what to do; no final newline */
} eitp_error;

/* A short name for a status: "ok", "bad argument", ... */
EITP_API const char *eitp_status_name(eitp_status status);

/*
 * Memory. `allocate` returns size bytes aligned to `alignment` (a power of two), zeroed or not, or NULL. `release`
 * gets the same size again. Both are called from the thread that made the call to eitp, never from a worker.
 */
typedef struct eitp_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
} eitp_allocator;

/* Log. Without a callback eitp is silent. `message` is one line without its newline, valid during the call. */
typedef enum eitp_log_level {
    EITP_LOG_DEBUG = 0,
    EITP_LOG_INFO = 1,
    EITP_LOG_WARNING = 2,
    EITP_LOG_ERROR = 3
} eitp_log_level;

typedef struct eitp_log_sink {
    void *user;
    void (*write)(void *user, eitp_log_level level, const char *message); /* may be NULL */
} eitp_log_sink;

/*
 * Files. Every access to the file system goes through this table, so that a program can redirect it and a test can make
 * any call fail. Each function returns 0 or an errno value. `read` and `write` are positioned and may do less than was
 * asked: they store what they did in *done; a read at the end of the file does 0.
 */
typedef enum eitp_file_mode {
    EITP_FILE_READ = 0,    /* must exist, and be a regular file */
    EITP_FILE_REPLACE = 1, /* made or emptied; reading and writing */
    EITP_FILE_UPDATE = 2   /* made if missing, kept if not; reading and writing */
} eitp_file_mode;

typedef enum eitp_path_kind {
    EITP_PATH_MISSING = 0,
    EITP_PATH_FILE = 1,
    EITP_PATH_DIRECTORY = 2,
    EITP_PATH_OTHER = 3
} eitp_path_kind;

typedef struct eitp_path_info {
    eitp_path_kind kind;
    uint64_t size;    /* bytes of a file */
    int64_t modified; /* time of the last change, nanoseconds since 1970 */
} eitp_path_info;

typedef struct eitp_files {
    void *user;
    int (*open)(void *user, const char *path, eitp_file_mode mode, void **file);
    int (*close)(void *user, void *file);
    int (*size)(void *user, void *file, uint64_t *size);
    int (*resize)(void *user, void *file, uint64_t size);
    int (*read)(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done);
    int (*write)(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done);
    int (*sync)(void *user, void *file);
    int (*info)(void *user, const char *path, eitp_path_info *info); /* a missing path is 0 with kind MISSING */
    int (*make_directory)(void *user, const char *path);             /* EEXIST when something is there already */
    int (*sync_directory)(void *user, const char *path);
    int (*rename)(void *user, const char *from, const char *to); /* replaces a file at `to` */
    int (*remove)(void *user, const char *path);                 /* a file or an empty directory */
    /* Calls `visit` with the name of every entry but "." and "..", in no order; stops and returns what it returned if that is
       not 0. */
    int (*list)(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor);
} eitp_files;

/* What a program runs eitp on. Objects keep a copy of the host they were made with. */
typedef struct eitp_host {
    eitp_allocator allocator;
    eitp_files files;
    eitp_log_sink log;
} eitp_host;

/* The C library's allocator, the operating system's files, and no log. */
EITP_API eitp_host eitp_host_default(void);

EITP_END_DECLARATIONS
/* <<src/base/base.h */

/* >>src/tensor/tensor.h */
/*
 * Contexts, graphs, tensors, ops, gradients and plans.
 *
 * A context owns the parameters and the memory that plans run in. A graph is built lazily: an op checks its inputs, adds a
 * node and returns a tensor; nothing is computed. A plan makes a graph ready to run: after eitp_plan_create nothing allocates.
 *
 * Graph building reports its first error once: an op that fails returns NULL, ops on NULL return NULL, and
 * eitp_graph_status and eitp_plan_create give that first error.
 *
 * A context and everything made from it belong to one thread at a time; two contexts are independent.
 */

EITP_BEGIN_DECLARATIONS

typedef struct eitp_context eitp_context;
typedef struct eitp_graph eitp_graph;
typedef struct eitp_tensor eitp_tensor;
typedef struct eitp_plan eitp_plan;

/* ---- Context ---- */

typedef struct eitp_context_config {
    eitp_host host;     /* memory, files and log of everything made from the context */
    const char *device; /* "auto" (EITP_BACKEND, else the best there is), "cpu" or "null" */
    int threads;        /* 0: one for each processor */
    const char *isa;    /* "ref", "avx2", "avx512"; NULL: EITP_ISA, else the best this processor has */
    const char *
        products; /* matrix products by "own" kernels or "openblas"; NULL: EITP_PRODUCTS, else the faster for the isa */
} eitp_context_config;

EITP_API eitp_context_config eitp_context_config_default(void);

EITP_API eitp_status eitp_context_create(const eitp_context_config *config, eitp_context **context, eitp_error *error);

/* Graphs and plans of the context must be destroyed before it. NULL is fine, here and for every destroy. */
EITP_API void eitp_context_destroy(eitp_context *context);

/* One line: device, threads, kernels. */
EITP_API const char *eitp_context_description(const eitp_context *context);

/* A copy of the host it was made with. */
EITP_API eitp_host eitp_context_host(const eitp_context *context);

/* What decides the bits of a result besides the plan, as one word; a checkpoint records it. */
EITP_API const char *eitp_context_numerics(const eitp_context *context);

/* ---- Variables: tensors that live as long as the context ---- */

typedef enum eitp_role {
    EITP_PARAMETER = 0, /* trained, saved with the model */
    EITP_OPTIMIZER = 1, /* optimizer state, saved with a checkpoint */
    EITP_GRADIENT = 2,  /* an accumulated gradient, not saved */
    EITP_CACHE = 3      /* anything else that outlives a run, not saved */
} eitp_role;

typedef struct eitp_variable {
    const char *name; /* belongs to the context */
    eitp_role role;
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    size_t size; /* bytes */
    int decay;   /* does weight decay apply? By default to parameters of rank 2 and more */
} eitp_variable;

EITP_API size_t eitp_variable_count(const eitp_context *context);
EITP_API eitp_variable eitp_variable_at(const eitp_context *context, size_t index);

/* The index of the variable called `name`, or -1. */
EITP_API int64_t eitp_variable_find(const eitp_context *context, const char *name);

EITP_API eitp_status eitp_variable_set_decay(eitp_context *context, const char *name, int decay, eitp_error *error);

/*
 * Copies `size` bytes to or from a variable, from byte `offset` of it. Memory is given to variables, zeroed, when
 * a plan that uses them is created, or here on first use.
 */
EITP_API eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data,
                                         size_t size, eitp_error *error);
EITP_API eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                                        eitp_error *error);

/* Fills an F32 variable: with one value, or from a normal distribution that depends only on seed, name and shape. */
EITP_API eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error);
EITP_API eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                               uint64_t seed, eitp_error *error);

/* Bytes of the variables that have memory, by role; bytes of the arena and workspace all plans share. */
EITP_API size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role);
EITP_API size_t eitp_context_arena_bytes(const eitp_context *context);

/* ---- Graph and leaves ---- */

EITP_API eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error);
EITP_API void eitp_graph_destroy(eitp_graph *graph); /* after the plans made from it */

/* The first error of building, EITP_OK while there was none. */
EITP_API eitp_status eitp_graph_status(const eitp_graph *graph, eitp_error *error);

/* A value that is written before every run. */
EITP_API eitp_tensor *eitp_input(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape);

/*
 * An input whose leading dimension is a capacity: eitp_plan_set_count says how many rows there are at run time. A graph has
 * one capacity; ops that keep rows apart pass it on, ops that add over rows add over those that are there.
 */
EITP_API eitp_tensor *eitp_input_rows(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank,
                                      const int64_t *shape);

/* The context's variable of that name, made if there is none; one with another role, dtype or shape is an error. */
EITP_API eitp_tensor *eitp_variable_tensor(eitp_graph *graph, const char *name, eitp_role role, eitp_dtype dtype,
                                           int rank, const int64_t *shape);

/* An F32 parameter. */
EITP_API eitp_tensor *eitp_parameter(eitp_graph *graph, const char *name, int rank, const int64_t *shape);

/* Makes a tensor readable after the run. Returns it. */
EITP_API eitp_tensor *eitp_output(eitp_tensor *tensor);

EITP_API int eitp_tensor_rank(const eitp_tensor *tensor);
EITP_API int64_t eitp_tensor_dimension(const eitp_tensor *tensor, int dimension); /* negative counts from the end */
EITP_API int64_t eitp_tensor_elements(const eitp_tensor *tensor);
EITP_API eitp_dtype eitp_tensor_dtype(const eitp_tensor *tensor);
EITP_API eitp_graph *eitp_tensor_graph(const eitp_tensor *tensor);

/* ---- Ops: values ---- */

/* A tensor of one value; 0, 1, ..., count - 1. */
EITP_API eitp_tensor *eitp_fill(eitp_graph *graph, eitp_dtype dtype, int rank, const int64_t *shape, double value);
EITP_API eitp_tensor *eitp_arange(eitp_graph *graph, eitp_dtype dtype, int64_t count);

/* ---- Ops: element by element; two operands broadcast as in NumPy ---- */

EITP_API eitp_tensor *eitp_negate(eitp_tensor *x);
EITP_API eitp_tensor *eitp_exp(eitp_tensor *x);
EITP_API eitp_tensor *eitp_log(eitp_tensor *x);
EITP_API eitp_tensor *eitp_sqrt(eitp_tensor *x);
EITP_API eitp_tensor *eitp_tanh(eitp_tensor *x);
EITP_API eitp_tensor *eitp_sigmoid(eitp_tensor *x);
EITP_API eitp_tensor *eitp_relu(eitp_tensor *x); /* gradient 0 at 0 */
EITP_API eitp_tensor *eitp_erf(eitp_tensor *x);
EITP_API eitp_tensor *eitp_affine(eitp_tensor *x, double scale, double shift); /* scale * x + shift */
EITP_API eitp_tensor *eitp_clamp(eitp_tensor *x, double low, double high);     /* gradient 1 inside and at the ends */
EITP_API eitp_tensor *eitp_cast(eitp_tensor *x, eitp_dtype dtype);
EITP_API eitp_tensor *eitp_add(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_subtract(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_multiply(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_divide(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_less(eitp_tensor *a, eitp_tensor *b);                          /* U8, 0 or 1 */
EITP_API eitp_tensor *eitp_equal(eitp_tensor *a, eitp_tensor *b);                         /* U8, 0 or 1 */
EITP_API eitp_tensor *eitp_where(eitp_tensor *condition, eitp_tensor *a, eitp_tensor *b); /* condition U8 */

/* The same value, through which no gradient flows. */
EITP_API eitp_tensor *eitp_stop_gradient(eitp_tensor *x);

/* ---- Ops: shape ---- */

EITP_API eitp_tensor *eitp_reshape(eitp_tensor *x, int rank, const int64_t *shape); /* one dimension may be -1 */
EITP_API eitp_tensor *eitp_broadcast(eitp_tensor *x, int rank, const int64_t *shape);
EITP_API eitp_tensor *eitp_permute(eitp_tensor *x, const int *order); /* dimension i of the result is order[i] of x */
EITP_API eitp_tensor *eitp_transpose(eitp_tensor *x);                 /* the last two dimensions */
EITP_API eitp_tensor *eitp_slice(eitp_tensor *x, int dimension, int64_t begin, int64_t end);
EITP_API eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after); /* with zeros */
EITP_API eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension);

/* y[.., i, ..] = x[.., indices[.., i, ..], ..] along `dimension`; indices is I32 of x's rank, equal elsewhere. */
EITP_API eitp_tensor *eitp_gather(eitp_tensor *x, eitp_tensor *indices, int dimension);

/* The transpose of gather: zeros of `extent` along `dimension`, to which x is added at the indices. */
EITP_API eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent);

/* ---- Ops: reductions over the dimensions in `dimensions` (bit i: dimension i), or over all of them ---- */

#define EITP_ALL_DIMENSIONS 0xffffffffu
EITP_API eitp_tensor *eitp_sum(eitp_tensor *x, unsigned dimensions, int keep);
EITP_API eitp_tensor *eitp_mean(eitp_tensor *x, unsigned dimensions, int keep);
EITP_API eitp_tensor *eitp_max(eitp_tensor *x, unsigned dimensions, int keep); /* equal maxima share the gradient */

/* ---- Ops: products and networks ---- */

/* a [.., m, k] times b [.., k, n]; batch dimensions broadcast. With transpose_a, a is [.., k, m]; with transpose_b, b is [.., n, k]. */
EITP_API eitp_tensor *eitp_matmul(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_matmul_transposed(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b);

typedef enum eitp_activation {
    EITP_NO_ACTIVATION = 0,
    EITP_RELU = 1,
    EITP_GELU_TANH = 2, /* Hendrycks and Gimpel, arXiv 1606.08415, the tanh approximation */
    EITP_GELU_ERF = 3,  /* the same, exact */
    EITP_TANH = 4,
    EITP_SIGMOID = 5
} eitp_activation;

/* x [n, in] times weight [in, out] plus bias [out] (may be NULL), then the activation. */
EITP_API eitp_tensor *eitp_linear(eitp_tensor *x, eitp_tensor *weight, eitp_tensor *bias, eitp_activation activation);

EITP_API eitp_tensor *eitp_gelu_tanh(eitp_tensor *x);
EITP_API eitp_tensor *eitp_gelu_erf(eitp_tensor *x);
EITP_API eitp_tensor *eitp_softmax(eitp_tensor *x);     /* along the last dimension */
EITP_API eitp_tensor *eitp_log_softmax(eitp_tensor *x); /* along the last dimension */

/* Over the last dimension: (x - mean) / sqrt(variance + epsilon) * gain + bias (Ba, Kiros, Hinton, arXiv 1607.06450). */
EITP_API eitp_tensor *eitp_layer_norm(eitp_tensor *x, eitp_tensor *gain, eitp_tensor *bias, double epsilon);

/* Rows of table [v, c] for ids I32 [n]: [n, c]. An id outside the table gives zeros: check ids where they are read. */
EITP_API eitp_tensor *eitp_embedding(eitp_tensor *table, eitp_tensor *ids);

/*
 * Zeroes elements with `probability` and scales the others by 1 / (1 - probability). `key` is I64 [3], written before a run: seed,
 * step, and the number within the step of row 0, so that a step draws the same however it is cut into micro-batches.
 */
EITP_API eitp_tensor *eitp_dropout(eitp_tensor *x, eitp_tensor *key, double probability);

/*
 * Causal self-attention over packed sequences: softmax(scale * q k^T) v in each head (Vaswani et al., arXiv 1706.03762).
 * qkv [n, 3c] holds q, k and v side by side; sequence i is rows [offsets[i], offsets[i+1]), offsets I32 [sequences + 1]
 * ascending, no sequence longer than `longest`. Rows in no sequence give zeros. `key` as for dropout (of the probabilities), or NULL.
 */
EITP_API eitp_tensor *eitp_attention(eitp_tensor *qkv, eitp_tensor *offsets, int heads, int64_t longest, double scale,
                                     eitp_tensor *key, double probability);

/*
 * Attention of new rows to a cache: row i of qkv [n, 3c] is at position[0] + i (I32 [1]); its key and value are stored in the
 * variables `keys` and `values` [longest, c]. For generation; it has no gradient.
 */
EITP_API eitp_tensor *eitp_attention_cached(eitp_tensor *qkv, eitp_tensor *keys, eitp_tensor *values,
                                            eitp_tensor *position, int heads, double scale);

/* Negative log-likelihood in nats of each row: logits [n, v], targets I32 [n]; 0 where the target is `ignored`. The mean is the caller's. */
EITP_API eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored);

/* ---- Gradients ---- */

/*
 * The gradients of y with respect to each of xs, weighted by `seed` (of y's shape; NULL: ones). They are tensors like any other and can
 * be differentiated again. A gradient that is zero everywhere is a tensor of zeros.
 */
EITP_API eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                                    eitp_tensor **gradients, eitp_error *error);

/*
 * Adds the gradient of `loss` with respect to every F32 parameter the graph uses to a variable of role EITP_GRADIENT, called "gradient." and
 * the parameter's name: gradient = carry[0] * gradient + new. `carry` F32 [1] is 0 for the first micro-batch of a step and 1 after it.
 */
EITP_API eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error);

/* target = carry * target + x, where target is a variable's tensor; returns the variable's value after it. NULL carry: 1. */
EITP_API eitp_tensor *eitp_accumulate(eitp_tensor *target, eitp_tensor *x, eitp_tensor *carry);

/* The sum of squares of all elements, F64 [1]. */
EITP_API eitp_tensor *eitp_sum_squares(eitp_tensor *x);

/* ---- Plan ---- */

typedef struct eitp_plan_stats {
    size_t arena_bytes;     /* the tensors of this plan */
    size_t workspace_bytes; /* scratch memory of its kernels */
    size_t largest_bytes;   /* the most that is live at once: no layout can need less */
    int nodes;
    double flops;
} eitp_plan_stats;

/*
 * Lays the graph's outputs and updates out to run. Ops that the backend has no kernel for are expanded into others. The graph must
 * outlive the plan. All plans of a context share one arena: what a plan's inputs and outputs hold lasts until another
 * plan runs or is created.
 */
EITP_API eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error);
EITP_API void eitp_plan_destroy(eitp_plan *plan);
EITP_API eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan);

/* How many rows of the graph's capacity there are; the capacity to begin with. */
EITP_API eitp_status eitp_plan_set_count(eitp_plan *plan, int64_t count, eitp_error *error);

/* Copies all bytes of an input in, or of an output out; with a capacity, those of the rows there are. */
EITP_API eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size,
                                     eitp_error *error);
EITP_API eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error);

/* Runs it once. Allocates nothing. */
EITP_API eitp_status eitp_plan_run(eitp_plan *plan, eitp_error *error);

EITP_END_DECLARATIONS
/* <<src/tensor/tensor.h */

/* >>src/model/model.h */
/* Models: a configuration becomes parameters and a graph; and generation from them. */

EITP_BEGIN_DECLARATIONS

/* GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019). */
typedef struct eitp_gpt2_config {
    int64_t vocabulary;
    int64_t positions; /* the longest sequence */
    int64_t width;
    int64_t heads;
    int64_t layers;
    int64_t inner; /* width of the MLP's hidden layer */
    eitp_activation activation;
    double epsilon; /* of the layer norms */
    double embedding_dropout, attention_dropout, residual_dropout;
    double initializer_range;     /* standard deviation of random weights */
    int scale_attention;          /* by 1 / sqrt(width / heads) */
    int scale_attention_by_layer; /* and by 1 / (layer + 1) */
    int tied;                     /* the output head is the token embedding */
} eitp_gpt2_config;

/*
 * "gpt2" (124M parameters), "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", and "tiny" (4 layers of 128), all with the vocabulary of
 * 50257 tokens.
 */
EITP_API eitp_status eitp_gpt2_config_named(const char *name, eitp_gpt2_config *config, eitp_error *error);

/* Reads a Hugging Face config.json; what it asks for and eitp has not is an error that names it. */
EITP_API eitp_status eitp_gpt2_config_read(const eitp_host *host, const char *path, eitp_gpt2_config *config,
                                           eitp_error *error);

/* Writes the configuration as a config.json, which eitp_gpt2_config_read and Hugging Face's transformers read. */
EITP_API eitp_status eitp_gpt2_config_write(const eitp_host *host, const char *path, const eitp_gpt2_config *config,
                                            int32_t end_of_text, eitp_dtype dtype, eitp_error *error);

typedef struct eitp_model eitp_model;

/* Declares the parameters in the context; they have no values yet. The model must be destroyed before the context. */
EITP_API eitp_status eitp_gpt2_create(eitp_context *context, const eitp_gpt2_config *config, eitp_model **model,
                                      eitp_error *error);
EITP_API void eitp_model_destroy(eitp_model *model);

EITP_API eitp_gpt2_config eitp_model_config(const eitp_model *model);
EITP_API eitp_context *eitp_model_context(const eitp_model *model);
EITP_API int64_t eitp_model_parameter_count(const eitp_model *model);

/*
 * Random weights: matrices and embeddings normal with the configuration's initializer_range, those that write to the residual
 * stream divided by sqrt(2 * layers) as the paper says, gains 1, biases 0.
 */
EITP_API eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error);

/* The inputs of a language model's graph; n is the capacity of its rows. */
typedef struct eitp_model_inputs {
    eitp_tensor *tokens;    /* I32 [n], rows */
    eitp_tensor *positions; /* I32 [n], rows: the place of each token in its sequence */
    eitp_tensor *offsets;   /* I32 [sequences + 1]: see eitp_attention */
    eitp_tensor *key;       /* I64 [3]: see eitp_dropout; NULL: no dropout */
} eitp_model_inputs;

/* Makes these inputs: `sequences` sequences of at most `longest` tokens; with_key adds the dropout key. */
EITP_API eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t longest,
                                                    int with_key);

/* Adds the model to a graph: logits [n, vocabulary]. */
EITP_API eitp_tensor *eitp_model_forward(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                         int64_t longest);

/* ---- Generation ---- */

typedef struct eitp_sampling {
    double temperature; /* 0: always the likeliest token */
    int top_k;          /* only the k likeliest; 0: all */
    double top_p;       /* only the likeliest that together have this probability; 1: all */
    uint64_t seed;
} eitp_sampling;

EITP_API eitp_sampling eitp_sampling_default(void);

typedef struct eitp_generator eitp_generator;

/* Prepares generation with a key-value cache of `capacity` tokens, prompt included (0: the model's positions). */
EITP_API eitp_status eitp_generator_create(const eitp_model *model, int64_t capacity, eitp_generator **generator,
                                           eitp_error *error);
EITP_API void eitp_generator_destroy(eitp_generator *generator);

/* Forgets everything fed so far. */
EITP_API void eitp_generator_reset(eitp_generator *generator);

/* Feeds tokens; afterwards eitp_generator_sample gives what follows them. More than the capacity in all is an error. */
EITP_API eitp_status eitp_generator_feed(eitp_generator *generator, const int32_t *tokens, int64_t count,
                                         eitp_error *error);

/* Room for further tokens. */
EITP_API int64_t eitp_generator_room(const eitp_generator *generator);

/* The logits after the last token fed: `vocabulary` values, valid until the next feed. */
EITP_API const float *eitp_generator_logits(const eitp_generator *generator);

/* Draws a token from them; a function of the seed and the number of tokens fed. */
EITP_API int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling);

EITP_END_DECLARATIONS
/* <<src/model/model.h */

/* >>src/optim/optim.h */
/* Optimizers and learning-rate schedules. */

EITP_BEGIN_DECLARATIONS

/* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv 1711.05101). */
typedef struct eitp_adamw_config {
    double beta1, beta2, epsilon;
    double weight_decay; /* of the variables whose decay flag is set */
} eitp_adamw_config;

/* 0.9, 0.999, 1e-8, 0.01 */
EITP_API eitp_adamw_config eitp_adamw_config_default(void);

/* What an update reads and tells: inputs are written before a run, outputs may be read after it. */
typedef struct eitp_update {
    eitp_tensor *hyper; /* input F32 [2]: learning rate, number of the step from 1 */
    eitp_tensor *limit; /* input F32 [1]: largest norm of the whole gradient; 0: no limit */
    eitp_tensor
        *commit; /* output F32 [2]: what gradients were multiplied by; 1 if the step was made, 0 if it was not finite */
    eitp_tensor *norm; /* output F32 [1]: norm of the whole gradient before clipping */
} eitp_update;

/*
 * Adds one AdamW step to the graph: of every F32 parameter the graph uses, by its gradient of `loss` (a scalar). The gradient is scaled by min(1,
 * limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does; where its norm is not finite nothing is changed.
 * Moments are variables "adamw.m.<name>" and "adamw.v.<name>" of role EITP_OPTIMIZER.
 */
EITP_API eitp_status eitp_adamw_minimize(eitp_tensor *loss, const eitp_adamw_config *config, eitp_update *update,
                                         eitp_error *error);

/* The same step from the accumulated gradients (eitp_accumulate_gradients) of all parameters in the context that have one. */
EITP_API eitp_status eitp_adamw_apply(eitp_graph *graph, const eitp_adamw_config *config, eitp_update *update,
                                      eitp_error *error);

typedef enum eitp_schedule_kind {
    EITP_SCHEDULE_CONSTANT = 0,
    EITP_SCHEDULE_LINEAR = 1,
    EITP_SCHEDULE_COSINE = 2 /* Loshchilov and Hutter, arXiv 1608.03983, without restarts */
} eitp_schedule_kind;

/*
 * The learning rate of step s (from 1): during warm-up peak * s / warmup; then, with p = (s - 1 - warmup) / (steps - warmup), from the peak towards
 * `final`: along a line, or final + (peak - final) (1 + cos(pi p)) / 2.
 */
typedef struct eitp_schedule {
    eitp_schedule_kind kind;
    double peak, final;
    int64_t warmup, steps;
} eitp_schedule;

EITP_API double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step);

EITP_END_DECLARATIONS
/* <<src/optim/optim.h */

/* >>src/text/text.h */
/* Tokenizers: text becomes token ids and token ids become text. */

EITP_BEGIN_DECLARATIONS

/*
 * GPT-2's byte-level BPE (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Sennrich,
 * Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016). Ids are those of the library
 * `tokenizers` with its ByteLevel pre-tokenizer, token for token; \p{L}, \p{N} and \s are those of Unicode 16.0, as
 * there.
 *
 * Two rules go beyond the library. Bytes that are no UTF-8 count as U+FFFD, one for each maximal subpart of a sequence,
 * as Python's errors="replace" has it. And a run that the pattern would keep in one piece is cut after the last
 * character that ends within its first 1,048,576 bytes, so that memory stays bounded: 100 MB of "a" are a hundred
 * pieces.
 *
 * A tokenizer never changes once made: any number of threads may use it at a time, if the host's allocator allows that.
 */
typedef struct eitp_tokenizer eitp_tokenizer;

/*
 * Reads a tokenizer in Hugging Face's formats. `path` names a tokenizer.json, or a directory with tokenizer.json or,
 * where that is missing, with vocab.json and merges.txt; there, <|endoftext|> is special where the vocabulary has it. A
 * tokenizer.json's truncation and padding are left to the caller. What this tokenizer cannot do exactly (another model,
 * a normalizer, other pre-tokenizers, dropout, added tokens that strip or match whole words, ...) is
 * EITP_ERROR_UNSUPPORTED and named.
 */
EITP_API eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                         eitp_error *error);

/* The tokenizer without merges: ids 0 to 255 are the bytes, 256 is <|endoftext|>. */
EITP_API eitp_status eitp_tokenizer_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error);

/*
 * Where text comes from that is never whole in memory. Each call stores the next piece of a document in *text and
 * *size, valid until the call after it; pieces may end anywhere, within a character too. A size of 0 ends the document,
 * a *text of NULL ends the last document and the source. A failure ends what reads from it, and is passed on.
 */
typedef struct eitp_text_source {
    void *user;
    eitp_status (*read)(void *user, const char **text, size_t *size, eitp_error *error);
} eitp_text_source;

/* Zero-initialise it and set what you need. */
typedef struct eitp_tokenizer_train_config {
    int32_t vocabulary_size;   /* tokens in all, the 256 bytes and <|endoftext|> among them: at least 257 */
    int64_t minimum_frequency; /* a pair must occur this often to be merged; 0 and 1: any that occurs */
    uint64_t memory_limit;     /* bytes that training may take, about; 0: 512 MiB */
} eitp_tokenizer_train_config;

/*
 * Learns a byte-level BPE from text: again and again the most frequent pair of neighbouring tokens within the pieces of
 * GPT-2's pattern becomes a token, the one with the smaller ids where several are as frequent. Ids 0 to 255 are the
 * bytes in GPT-2's order, then come the merges, and <|endoftext|> is last; where it occurs in the text it ends a
 * document. The vocabulary is smaller than asked for where the text has no more pairs. Text with more distinct pieces
 * than memory_limit holds has the rarest forgotten on the way; the log says so. The same text gives the same tokenizer.
 */
EITP_API eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                          const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error);

/* Writes vocab.json, merges.txt and tokenizer.json into `directory`, which is made where it is missing. */
EITP_API eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer);

/* Number of tokens: ids are 0 to size - 1. */
EITP_API int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer);

/* The id of the special token <|endoftext|>, -1 where there is none. */
EITP_API int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer);

/* A number that two tokenizers share only if they encode and decode alike (FNV-1a over vocabulary, merges and added
 * tokens). */
EITP_API uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer);

/*
 * Encodes a whole text. Stores how many ids it has in *count, and the first of them, up to `capacity`, in `ids` (which
 * may be NULL where capacity is 0): compare *count with capacity. `size` ids are enough for text that is UTF-8, unless
 * the tokenizer adds a space before it (add_prefix_space); 4 * size always are. *count is 0 on failure.
 */
EITP_API eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                           size_t capacity, size_t *count, eitp_error *error);

/*
 * The bytes of one token, owned by the tokenizer; not always whole characters. An id outside the vocabulary is
 * EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                          eitp_error *error);

/*
 * The bytes of a sequence of ids, with the names of special tokens in their places. Stores how many bytes there are in
 * *size, and the first of them, up to `capacity`, in `text` (which may be NULL where capacity is 0); no zero byte is
 * added. An id outside the vocabulary is EITP_ERROR_ARGUMENT that says which; *size is 0 on failure.
 */
EITP_API eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                           char *text, size_t capacity, size_t *size, eitp_error *error);

/*
 * Encodes texts that are never whole in memory: the ids are those of the whole text, however it is cut into pieces.
 * Memory is bounded: about 3 MiB, and up to 40 MiB while a piece of the pattern is very long.
 */
typedef struct eitp_encoder eitp_encoder;

/* Where ids go: called with one or more of them, in order. A failure ends the encoding and is passed on. */
typedef eitp_status (*eitp_token_sink)(void *user, const int32_t *ids, size_t count, eitp_error *error);

/* `sink` is called with `user`. An encoder serves one thread at a time. The tokenizer must live as long. */
EITP_API eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user,
                                         eitp_encoder **out, eitp_error *error);

/* The next `size` bytes of the text. The ids of what is certain by now may reach the sink later. */
EITP_API eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error);

/* The end of the text: the sink has got every id of it when this returns. What is added next is another text. */
EITP_API eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error);

/* Forgets the text that was begun: the way to go on after a failure. */
EITP_API void eitp_encoder_reset(eitp_encoder *encoder);

/* NULL is harmless. */
EITP_API void eitp_encoder_destroy(eitp_encoder *encoder);

EITP_END_DECLARATIONS
/* <<src/text/text.h */

/* >>src/data/data.h */
/* Data: text becomes a token file (docs/token-file.md), a token file becomes windows of tokens and their targets. */

EITP_BEGIN_DECLARATIONS

typedef enum eitp_token_file_kind {
    EITP_TOKEN_FILE_EITP = 0, /* written by eitp_pack */
    EITP_TOKEN_FILE_LLMC = 1  /* llm.c's .bin of magic 20240520, version 1: ids of 16 bits and their count, no more */
} eitp_token_file_kind;

/* What a token file says about itself. Of an llm.c file only kind, element_size and token_count are known. */
typedef struct eitp_token_file_info {
    eitp_token_file_kind kind;
    int32_t element_size;           /* bytes of an id: 2 or 4 */
    int32_t vocabulary_size;        /* ids are below it; 0 where it is not known */
    int32_t end_of_text;            /* the id after each document; -1 where there is none or it is not known */
    uint64_t token_count;           /* ids, those between documents included */
    uint64_t document_count;        /* texts that are not empty */
    uint64_t tokenizer_fingerprint; /* eitp_tokenizer_fingerprint of the tokenizer that made the ids */
    uint64_t content_hash;          /* of the ids; two files with one hash hold the same tokens */
    uint64_t text_bytes;            /* bytes of the texts, as they were read */
    uint64_t invalid_bytes;         /* those of them that were not UTF-8 and became U+FFFD */
    double unigram_entropy; /* nats per token: the loss of a model that knows how often each id comes, no more */
} eitp_token_file_info;

/*
 * The texts in files. A path is a text file, or a directory: every regular file in it and below it, in the order of
 * their names' bytes, level by level; symbolic links are followed. Each file is a document. Empty files, and token
 * files within a directory, are left out and logged. Only one piece of one text is in memory at a time.
 */
typedef struct eitp_text_files eitp_text_files;

/*
 * Looks up all paths, which are copied: one that is missing, or directories more than 32 deep (a symbolic link to a
 * parent), are EITP_ERROR_ARGUMENT. Pieces have up to `piece_size` bytes; 0 means 65536. *files is closed by
 * eitp_text_files_close.
 */
EITP_API eitp_status eitp_text_files_open(const eitp_host *host, const char *const *paths, size_t path_count,
                                          size_t piece_size, eitp_text_files **files, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_text_files_close(eitp_text_files *files);

/* Bytes of all files together, as they were looked up. */
EITP_API uint64_t eitp_text_files_bytes(const eitp_text_files *files);

/* Their text from where it was read to on, for instance for eitp_tokenizer_train. Lives as long as `files`. */
EITP_API eitp_text_source eitp_text_files_source(eitp_text_files *files);

/* How far eitp_pack is. `path` is the text being read, valid during the call. */
typedef struct eitp_pack_progress {
    const char *path;
    uint64_t text_bytes;       /* read so far */
    uint64_t text_bytes_total; /* eitp_text_files_bytes */
    uint64_t documents;        /* begun so far */
    uint64_t tokens;           /* made so far */
} eitp_pack_progress;

/* What to pack. All zero but `paths` and `path_count` is a good configuration. */
typedef struct eitp_pack_config {
    const char *const *paths; /* as of eitp_text_files */
    size_t path_count;
    int strict_utf8;  /* not 0: text that is not UTF-8 is an error; 0: see eitp_pack */
    size_t read_size; /* bytes of text read at a time; 0 means 65536. The tokens do not depend on it. */
    /* Called after each read; may be NULL. What is not 0 stops: EITP_ERROR_INTERRUPTED. */
    int (*progress)(void *user, const eitp_pack_progress *progress);
    void *user;
} eitp_pack_config;

/*
 * Reads texts, encodes them with `tokenizer` and writes the ids, after each document the tokenizer's end-of-text id
 * where it has one, to the token file `output_path`. The file is written as "<output_path>.partial", synced and
 * renamed: after a failure what was at `output_path` before is still there (or, where only syncing its directory
 * failed, the whole new file). Memory needed does not depend on the length of the texts.
 *
 * Bytes that are not UTF-8 become U+FFFD, one for each maximal part of a sequence (The Unicode Standard, 3.9, table 3-7
 * and "Substitution of Maximal Subparts"; the same as Python's errors="replace"), are counted in info->invalid_bytes,
 * and logged as a warning for each file; with strict_utf8 the first is EITP_ERROR_FORMAT that names the file and the
 * byte.
 *
 * `info`, which may be NULL, gets what eitp_token_file_get_info would give for the new file. Texts that are all empty,
 * a missing path, a token file among `paths` are errors.
 */
EITP_API eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                               const char *output_path, eitp_token_file_info *info, eitp_error *error);

/* A token file opened for reading; several threads may read it at a time where the host's files allow it. */
typedef struct eitp_token_file eitp_token_file;

/*
 * Opens a token file of eitp or of llm.c and checks its header and its size. Ids are checked when they are read: they
 * must be below the file's vocabulary size and, where it is not 0, below `vocabulary_size`, the reader's. *file is
 * closed by eitp_token_file_close. Nothing of the tokens is kept in memory.
 */
EITP_API eitp_status eitp_token_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                          eitp_token_file **file, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_token_file_close(eitp_token_file *file);

EITP_API eitp_token_file_info eitp_token_file_get_info(const eitp_token_file *file);

/* Stores tokens [first, first + count) in ids[count]. After a failure the content of `ids` is not specified. */
EITP_API eitp_status eitp_token_file_read(const eitp_token_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                          eitp_error *error);

/* Reads the whole file: every id must be in the vocabulary and, in a file of eitp, the content hash must be right. */
EITP_API eitp_status eitp_token_file_verify(const eitp_token_file *file, eitp_error *error);

/* Tokens [first, first + count) of a file. */
typedef struct eitp_token_range {
    uint64_t first;
    uint64_t count;
} eitp_token_range;

/*
 * Cuts `token_count` tokens into a training part and the validation part after it. With n tokens, fraction f and block
 * size T: training has the largest k * T + 1 tokens (k whole windows) that leave at least n * f for validation, which
 * is the rest. The cut follows from these three numbers alone. f = 0 gives everything to training and nothing to
 * validation. A part without a window, of T + 1 tokens, is EITP_ERROR_ARGUMENT that says how many tokens would do.
 */
EITP_API eitp_status eitp_split_tokens(uint64_t token_count, double validation_fraction, int64_t block_size,
                                       eitp_token_range *training, eitp_token_range *validation, eitp_error *error);

typedef enum eitp_shuffle {
    EITP_SHUFFLE_NONE = 0,   /* windows as they lie in the file */
    EITP_SHUFFLE_WINDOWS = 1 /* every epoch goes through all windows in an order of its own */
} eitp_shuffle;

/*
 * The windows of a range of n tokens with block size T: window i has tokens [i*T, i*T + T) of the range, and as targets
 * tokens [i*T + 1, i*T + T + 1). There are (n - 1) / T. Samples are numbered from 0 through all epochs: sample k is in
 * epoch k / count at position k % count, so that any sample is found without those before it, and nothing is kept in
 * memory. Made by eitp_windows_init; the file must stay open. Nothing needs to be released.
 */
typedef struct eitp_windows {
    const eitp_token_file *file;
    eitp_token_range tokens;
    int64_t block_size;
    eitp_shuffle shuffle;
    uint64_t seed;
    uint64_t count; /* windows, at least 1 */
} eitp_windows;

/* `tokens` must lie in the file and hold at least one window of block_size + 1 tokens. */
EITP_API eitp_status eitp_windows_init(eitp_windows *windows, const eitp_token_file *file, eitp_token_range tokens,
                                       int64_t block_size, eitp_shuffle shuffle, uint64_t seed, eitp_error *error);

/* The window that sample number `sample` is: a function of (seed, count, sample), for every epoch a bijection on [0,
   count). */
EITP_API uint64_t eitp_windows_index(const eitp_windows *windows, uint64_t sample);

/* Samples [first, first + count) into tokens [count, T] and targets [count, T]. After a failure their content is not
   specified. */
EITP_API eitp_status eitp_windows_read(const eitp_windows *windows, uint64_t first, int64_t count, int32_t *tokens,
                                       int32_t *targets, eitp_error *error);

EITP_END_DECLARATIONS
/* <<src/data/data.h */

/* >>src/io/io.h */
/*
 * Files of models: variables as safetensors, Hugging Face model directories, and checkpoints.
 */

EITP_BEGIN_DECLARATIONS

/*
 * Writes all variables of one role to a safetensors file, F32 ones as `dtype` (EITP_F32, EITP_F16 or EITP_BF16); the file is
 * replaced as a whole or not at all. `checksum`, which may be NULL, gets the CRC-32C of the tensors' bytes in the
 * variables' order.
 */
EITP_API eitp_status eitp_variables_save(eitp_context *context, const char *path, eitp_role role, eitp_dtype dtype,
                                         uint32_t *checksum, eitp_error *error);

/*
 * Reads all variables of one role from a safetensors file; each must be there with its shape. F16, BF16 and F64 are
 * converted. Tensors that belong to no variable are an error too: the file is of something else.
 */
EITP_API eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                         eitp_error *error);

/*
 * A model from a Hugging Face directory: config.json, and model.safetensors or the shards of model.safetensors.index.json, in F32,
 * F16 or BF16, with or without "transformer." before the names, read straight into the parameters.
 */
EITP_API eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model,
                                     eitp_error *error);

/*
 * Writes config.json and model.safetensors into a directory that exists. `end_of_text` is the tokenizer's id, or -1. `checksum` as of
 * eitp_variables_save.
 */
EITP_API eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_dtype dtype, int32_t end_of_text,
                                     uint32_t *checksum, eitp_error *error);

/*
 * Checkpoints are directories "checkpoint-<step>" in an output directory. Each is written under another name, synced and renamed
 * when complete, so that one that has its name is whole.
 */

/* Calls fill(user, directory) to write the files of checkpoint `step`, and gives it its name. What fill or the disk refuses leaves nothing. */
EITP_API eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                            eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                            void *user, eitp_error *error);

/* The step of the newest checkpoint in a directory; -1 where there is none or no such directory. */
EITP_API eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                            eitp_error *error);

/* Removes all but the `keep` newest (0: keeps all), and what unfinished writes left. */
EITP_API eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                           eitp_error *error);

EITP_END_DECLARATIONS
/* <<src/io/io.h */

/* >>src/train/train.h */
/*
 * Training a language model: steps, evaluation, checkpoints. The program keeps the loop; the trainer keeps everything that a step
 * needs and a checkpoint must hold.
 */

EITP_BEGIN_DECLARATIONS

typedef struct eitp_trainer_config {
    int64_t batch_size;   /* sequences in a micro-batch */
    int64_t block_size;   /* tokens in a sequence */
    int64_t grad_accum;   /* micro-batches in a step */
    double max_grad_norm; /* 0: no clipping */
    eitp_adamw_config adamw;
    eitp_schedule schedule;
    uint64_t seed; /* of dropout and shuffling */
    eitp_shuffle shuffle;
    uint64_t
        last_sample; /* training stops having used this many samples, in the middle of a step if need be; 0: never */
} eitp_trainer_config;

/* Batch 1, block 64, accumulation 4, clip 0.5, AdamW's defaults, constant 5e-5, shuffled. */
EITP_API eitp_trainer_config eitp_trainer_config_default(void);

typedef struct eitp_trainer eitp_trainer;

/*
 * Prepares training on tokens of a file, and evaluation on others (validation->count 0: none). All memory that training needs is
 * taken here. Model, files and tokenizer must live as long as the trainer; `tokenizer` is saved with checkpoints and
 * may be NULL.
 */
EITP_API eitp_status eitp_trainer_create(eitp_model *model, const eitp_token_file *training_file,
                                         eitp_token_range training, const eitp_token_file *validation_file,
                                         eitp_token_range validation, const eitp_tokenizer *tokenizer,
                                         const eitp_trainer_config *config, eitp_trainer **trainer, eitp_error *error);
EITP_API void eitp_trainer_destroy(eitp_trainer *trainer);

/* What a step did. */
typedef struct eitp_step_report {
    int64_t step; /* its number, from 1 */
    double loss;  /* mean over the step's targets, nats per token, before the update */
    double learning_rate;
    double grad_norm; /* before clipping */
    int64_t tokens;   /* targets */
    int applied;      /* 0: loss or gradient was not finite, and nothing was changed */
} eitp_step_report;

/* Makes one step: all its micro-batches and the update. */
EITP_API eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error);

typedef struct eitp_evaluation {
    double loss;    /* mean over the targets, nats per token */
    double error;   /* standard error of that mean, over sequences */
    int64_t tokens; /* targets */
} eitp_evaluation;

/* The loss on the validation windows: all of them, or the first `windows` (0: all). */
EITP_API eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t windows, eitp_evaluation *evaluation,
                                           eitp_error *error);

/* Steps made so far; training windows in an epoch. */
EITP_API int64_t eitp_trainer_steps_done(const eitp_trainer *trainer);
EITP_API uint64_t eitp_trainer_windows(const eitp_trainer *trainer);

/* What a plan that trains costs: arithmetic and memory of a micro-batch. */
EITP_API eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer);

/* Writes checkpoint-<step> into a directory, which is made where it is missing. */
EITP_API eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error);

/*
 * Goes on from a checkpoint directory, bit for bit as if it had never stopped. The trainer must have been made with the configuration,
 * data and kernels of the run that wrote it: what differs and would change bits is refused, by name.
 */
EITP_API eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error);

/* The loss of a model on windows of a token file, without a trainer. */
EITP_API eitp_status eitp_evaluate(const eitp_model *model, const eitp_token_file *file, eitp_token_range tokens,
                                   int64_t batch_size, int64_t block_size, int64_t windows, eitp_evaluation *evaluation,
                                   eitp_error *error);

/* What the trainer's checkpoint says, for a program that makes the trainer anew. */
typedef struct eitp_checkpoint_info {
    int64_t step;
    eitp_trainer_config config;
    char numerics[100];
} eitp_checkpoint_info;

EITP_API eitp_status eitp_checkpoint_read_info(const eitp_host *host, const char *checkpoint,
                                               eitp_checkpoint_info *info, eitp_error *error);

EITP_END_DECLARATIONS
/* <<src/train/train.h */

#endif /* EITP_H */

#if defined(EITP_IMPLEMENTATION) && !defined(EITP_IMPLEMENTED)
#define EITP_IMPLEMENTED

/* >>src/base/posix.h */
/* The POSIX that a system header before eitp.h may have hidden; the one file whose names are the system's. */

#include <stdlib.h>

/*
 * A strict mode (-std=c11) hides POSIX unless _DEFAULT_SOURCE precedes the first system header. Where the program
 * included one before eitp.h, nothing brings back what was hidden; so what the implementation calls is declared here,
 * and constants are defined by glibc's own names for them. A type cannot be had back: struct sigaction, for instance,
 * is not for the library.
 */
#if defined(__GLIBC__) && !(defined(__USE_MISC) && defined(__USE_XOPEN2K8))
#if !defined(__LP64__)
#error "eitp: a system header before eitp.h has hidden POSIX: include eitp.h first, or compile with -D_DEFAULT_SOURCE"
#endif
struct stat;
struct timespec;
EITP_BEGIN_DECLARATIONS
extern long int syscall(long int number, ...);
extern int clock_gettime(int clock, struct timespec *time);
extern int fsync(int descriptor);
extern int ftruncate(int descriptor, long int size);
extern int lstat(const char *path, struct stat *info);
extern int nanosleep(const struct timespec *time, struct timespec *rest);
extern int posix_memalign(void **memory, size_t alignment, size_t size);
extern long int pread(int descriptor, void *data, size_t size, long int offset);
extern long int pwrite(int descriptor, const void *data, size_t size, long int offset);
EITP_END_DECLARATIONS
#elif defined(__linux__) && !defined(__GLIBC__) && defined(__STRICT_ANSI__) && !defined(_BSD_SOURCE) &&                \
    !defined(_GNU_SOURCE)
#error "eitp: a system header before eitp.h has hidden POSIX: include eitp.h first, or compile with -D_DEFAULT_SOURCE"
#endif

/* The time of the last change in a struct stat, nanoseconds since 1970. */
#if defined(__APPLE__)
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtimespec.tv_sec * 1000000000 + (info).st_mtimespec.tv_nsec)
#elif defined(__GLIBC__) && !defined(__USE_XOPEN2K8)
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtime * 1000000000 + (int64_t)(info).st_mtimensec)
#else
#define EITP__MODIFIED(info) ((int64_t)(info).st_mtim.tv_sec * 1000000000 + (info).st_mtim.tv_nsec)
#endif

#if defined(__GLIBC__) && !defined(__USE_XOPEN2K8)
#ifndef O_CLOEXEC
#define O_CLOEXEC __O_CLOEXEC
#endif
#ifndef O_DIRECTORY
#define O_DIRECTORY __O_DIRECTORY
#endif
#ifndef CLOCK_REALTIME
#define CLOCK_REALTIME 0
#endif
#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif
#endif
/* <<src/base/posix.h */

/* >>src/base/platform.h */
/* What the implementation needs of compiler and system. Included first by every private header. */

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__)
#error "eitp needs gcc or clang (or a compiler that takes GNU attributes)"
#endif

#define EITP__UNUSED __attribute__((unused))
#define EITP__PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Functions shared between modules: one translation unit when packed, several when split. */
#ifdef EITP_SPLIT
#define EITP__PRIVATE extern
#else
#define EITP__PRIVATE static EITP__UNUSED
#endif

/* An all-zero initialiser: C11 has no empty braces, and C++ warns of `{0}`. */
#ifdef __cplusplus
#define EITP__ZERO                                                                                                     \
    {}
#define EITP__RESTRICT __restrict__
#else
#define EITP__ZERO                                                                                                     \
    { 0 }
#define EITP__RESTRICT restrict
#endif

#ifndef EITP_WITH_OPENBLAS
#define EITP_WITH_OPENBLAS 0
#endif

#ifdef _OPENMP
#define EITP__WITH_OPENMP 1
#else
#define EITP__WITH_OPENMP 0
#endif

/* Tensors, weights and pages of the arena start at multiples of this: a cache line and an AVX-512 register. */
#define EITP__ALIGNMENT ((size_t)64)

#define EITP__COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* <<src/base/platform.h */

/* >>src/base/status.h */
/* Filling in an eitp_error. */

/* Writes the formatted message to *error (which may be NULL) and returns `status`:  return eitp__fail(error, ...); */
EITP__PRIVATE eitp_status eitp__fail(eitp_error *error, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

/* The standard failure of an allocation of `size` bytes for `what`. */
EITP__PRIVATE eitp_status eitp__fail_memory(eitp_error *error, size_t size, const char *what);

/* Puts "prefix: " before the message that is there; returns the status that is there. */
EITP__PRIVATE eitp_status eitp__fail_prefix(eitp_error *error, eitp_status status, const char *format, ...)
    EITP__PRINTF(3, 4);
/* <<src/base/status.h */

/* >>src/base/memory.h */
/* Allocation through the host, sizes that cannot overflow, and a growable byte buffer. */

/* `size` zeroed bytes at EITP__ALIGNMENT, or NULL. A size of 0 gives NULL. */
EITP__PRIVATE void *eitp__allocate(const eitp_host *host, size_t size);

/* The same, not zeroed. */
EITP__PRIVATE void *eitp__allocate_uninitialized(const eitp_host *host, size_t size);

/* `memory` may be NULL; `size` is what was asked for. */
EITP__PRIVATE void eitp__release(const eitp_host *host, void *memory, size_t size);

/* Stores a * b, or a + b, and returns 1; returns 0 where it would overflow. */
EITP__PRIVATE int eitp__multiply_size(size_t a, size_t b, size_t *product);
EITP__PRIVATE int eitp__add_size(size_t a, size_t b, size_t *sum);

/* Makes room for `needed` elements in a growing array: *array has *capacity elements of `element` bytes. Returns 0 and
   changes nothing where memory runs out. */
EITP__PRIVATE int eitp__reserve(const eitp_host *host, void **array, size_t *capacity, size_t needed, size_t element);

/*
 * A growable byte buffer. `data` is always followed by a zero byte once anything was added, so it reads as a C string.
 * A failed allocation sets `failed` and makes later additions do nothing: check it once, at the end.
 */
typedef struct eitp__buffer {
    const eitp_host *host;
    char *data;
    size_t size;
    size_t capacity;
    int failed;
} eitp__buffer;

EITP__PRIVATE void eitp__buffer_init(eitp__buffer *buffer, const eitp_host *host);
EITP__PRIVATE void eitp__buffer_release(eitp__buffer *buffer);
EITP__PRIVATE void eitp__buffer_clear(eitp__buffer *buffer);
EITP__PRIVATE void eitp__buffer_add(eitp__buffer *buffer, const void *data, size_t size);
EITP__PRIVATE void eitp__buffer_add_text(eitp__buffer *buffer, const char *text);
EITP__PRIVATE void eitp__buffer_format(eitp__buffer *buffer, const char *format, ...) EITP__PRINTF(2, 3);

/* A copy of a C string, or of `size` bytes with a zero byte after them; released with its length + 1. NULL when memory runs out. */
EITP__PRIVATE char *eitp__copy_text(const eitp_host *host, const char *text);
EITP__PRIVATE char *eitp__copy_bytes(const eitp_host *host, const void *data, size_t size);
EITP__PRIVATE void eitp__release_text(const eitp_host *host, char *text);
/* <<src/base/memory.h */

/* >>src/base/log.h */
/* One line to the host's log callback. */

EITP__PRIVATE void eitp__log(const eitp_host *host, eitp_log_level level, const char *format, ...) EITP__PRINTF(3, 4);
/* <<src/base/log.h */

/* >>src/base/checksum.h */
/* CRC32C (Castagnoli; RFC 3720, section 12.1): finds every error of up to 32 bits in a row. */

/* The checksum of what `crc` is the checksum of, followed by `size` bytes at `data`. The checksum of nothing is 0. */
EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size);
/* <<src/base/checksum.h */

/* >>src/base/convert.h */
/* Exact conversions between f32 and the 16-bit floating-point types, one value or many. */

/*
 * To f32 nothing is lost. From f32 the result is the nearest value, of two equally near the even one; what is too large
 * becomes an infinity; a NaN stays one, with its sign and as much of its payload as there is room for, made quiet.
 */
EITP__PRIVATE float eitp__f16_to_f32(uint16_t bits);
EITP__PRIVATE uint16_t eitp__f32_to_f16(float value);
EITP__PRIVATE float eitp__bf16_to_f32(uint16_t bits);
EITP__PRIVATE uint16_t eitp__f32_to_bf16(float value);

/* 1 where the two below can convert it: F32, F64, F16, BF16. */
EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype);

/* `count` elements of a floating `dtype` at `source`, which need not be aligned, into `destination`; F64 is rounded. */
EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count);
EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count);
/* <<src/base/convert.h */

/* >>src/base/random.h */
/*
 * Counter-based random numbers: a value is a function of (seed, step, stream, index) and of nothing else, so recompute, resume
 * and any number of threads draw the same. Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers:
 * As Easy as 1, 2, 3", SC 2011).
 */

/* Streams: what the numbers are for. Ops that draw (dropout) use EITP__STREAM_FIRST_OP and up. */
enum { EITP__STREAM_INIT = 1, EITP__STREAM_SHUFFLE = 2, EITP__STREAM_SAMPLE = 3, EITP__STREAM_FIRST_OP = 1024 };

/* Four independent words for block `index`. */
static inline EITP__UNUSED void eitp__philox(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index,
                                             uint32_t words[4]) {
    /* The counter is block, step and stream; the key is the seed, with what does not fit of the step mixed in. */
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)step, c3 = stream;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32) ^ (uint32_t)(step >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* A float in [0, 1) with 24 random bits; for kernels, which draw many. */
static inline EITP__UNUSED float eitp__kernel_uniform(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {
    uint32_t words[4];
    eitp__philox(seed, step, stream, index >> 2, words);
    return (float)(words[index & 3] >> 8) * (1.0f / 16777216.0f);
}

/* 64 random bits; a double in [0, 1); a pair of standard normal values (Box-Muller). */
EITP__PRIVATE uint64_t eitp__random_bits(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index);
EITP__PRIVATE double eitp__random_uniform(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index);
EITP__PRIVATE void eitp__random_normal(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index, double pair[2]);
/* <<src/base/random.h */

/* >>src/base/sort.h */
/* Sorting in place: no allocation, and never slower than n log n, whatever the order of the input. */

/* Sorts `count` items of `size` bytes so that compare(a, b) <= 0 for neighbours. Equal items come in no particular
   order. */
EITP__PRIVATE void eitp__sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b));
/* <<src/base/sort.h */

/* >>src/base/threads.h */
/* A parallel loop whose pieces are cut by the caller, never by the number of threads. */

/* Processors this process may use. */
EITP__PRIVATE int eitp__processor_count(void);

/* The most threads a parallel loop may have: 1 without OpenMP. */
EITP__PRIVATE int eitp__thread_limit(void);

/* Calls work(argument, piece, thread) for every piece in [0, pieces), on up to `threads` threads; `thread` is in [0, threads). Pieces are
   handed out as threads become free. */
EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument);
/* <<src/base/threads.h */

/* >>src/base/unicode.h */
/* UTF-8, and the classes of code points that pre-tokenization asks for. */

/* What GPT-2's pattern tells apart: \p{L}, \p{N}, \s (the property White_Space) and all the rest, in Unicode 16.0. */
enum { EITP__UNICODE_OTHER = 0, EITP__UNICODE_LETTER = 1, EITP__UNICODE_NUMBER = 2, EITP__UNICODE_SPACE = 3 };

/* One of the above; OTHER for what is no code point. */
EITP__PRIVATE int eitp__unicode_class(uint32_t code_point);

/*
 * Reads one code point of text[0 .. size), size > 0, and returns the bytes it takes. Ill-formed bytes give U+FFFD with
 * *valid 0, one for each maximal subpart of a sequence (The Unicode Standard, section 3.9, "U+FFFD Substitution of
 * Maximal Subparts": what Python's errors="replace" does). A sequence that the text ends inside of is ill-formed too.
 */
EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid);

/* How many of the last bytes begin a sequence that further bytes may complete: 0 to 3. */
EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size);

/* Bytes before the first that is not part of a whole, well-formed sequence; `size` where all are. */
EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size);

/* Writes a code point below 0x110000 that is no surrogate; returns the bytes it takes. */
EITP__PRIVATE size_t eitp__utf8_put(uint32_t code_point, unsigned char bytes[4]);
/* <<src/base/unicode.h */

/* >>src/base/files.h */
/* The host's file table with messages: every failure names the path, the cause and what to do. */

/* The operating system's files (POSIX). */
EITP__PRIVATE eitp_files eitp__system_files(void);

/*
 * An open file. A path that is missing, or not a regular file, is EITP_ERROR_ARGUMENT; every other failure
 * is EITP_ERROR_IO.
 */
typedef struct eitp__file {
    const eitp_host *host;
    void *handle;
    char *path;
} eitp__file;

EITP__PRIVATE eitp_status eitp__file_open(eitp__file *file, const eitp_host *host, const char *path,
                                          eitp_file_mode mode, eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_close(eitp__file *file,
                                           eitp_error *error); /* harmless on a zeroed or closed file */
EITP__PRIVATE eitp_status eitp__file_size(eitp__file *file, uint64_t *size, eitp_error *error);

/* All of `size` bytes, or an error; a file that ends before is EITP_ERROR_FORMAT ("ends after N bytes"). */
EITP__PRIVATE eitp_status eitp__file_read(eitp__file *file, uint64_t offset, void *data, size_t size,
                                          eitp_error *error);
/* Up to `size` bytes; *done is smaller only at the end of the file. */
EITP__PRIVATE eitp_status eitp__file_read_some(eitp__file *file, uint64_t offset, void *data, size_t size, size_t *done,
                                               eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_write(eitp__file *file, uint64_t offset, const void *data, size_t size,
                                           eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_sync(eitp__file *file, eitp_error *error);

/* A whole file of at most `limit` bytes into `buffer`. */
EITP__PRIVATE eitp_status eitp__read_file(const eitp_host *host, const char *path, size_t limit, eitp__buffer *buffer,
                                          eitp_error *error);

/* Writes and syncs a whole file in place: for files inside a directory that is renamed when complete. */
EITP__PRIVATE eitp_status eitp__write_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                           eitp_error *error);

/* Writes beside `path`, syncs, renames over it and syncs the directory: the old content or the new one, never a part. */
EITP__PRIVATE eitp_status eitp__replace_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                             eitp_error *error);

EITP__PRIVATE eitp_status eitp__path_info(const eitp_host *host, const char *path, eitp_path_info *info,
                                          eitp_error *error);

/* Makes a directory and its missing parents; what is there already is fine. */
EITP__PRIVATE eitp_status eitp__make_directories(const eitp_host *host, const char *path, eitp_error *error);

/* Removes a directory and everything in it; a missing one is fine. */
EITP__PRIVATE eitp_status eitp__remove_tree(const eitp_host *host, const char *path, eitp_error *error);

EITP__PRIVATE eitp_status eitp__rename_path(const eitp_host *host, const char *from, const char *to, eitp_error *error);
EITP__PRIVATE eitp_status eitp__sync_directory(const eitp_host *host, const char *path, eitp_error *error);

/* The names in a directory, sorted by bytes: `names` gets them one after the other, each with its zero byte. */
EITP__PRIVATE eitp_status eitp__list_directory(const eitp_host *host, const char *path, eitp__buffer *names,
                                               size_t *count, eitp_error *error);

/* "directory/name" in a new text, NULL when memory runs out. */
EITP__PRIVATE char *eitp__join_path(const eitp_host *host, const char *directory, const char *name);
/* <<src/base/files.h */

/* >>src/base/json.h */
/* JSON (RFC 8259): a bounded, checked parser into a tree, and a writer. */

typedef enum eitp__json_kind {
    EITP__JSON_NULL,
    EITP__JSON_BOOLEAN,
    EITP__JSON_NUMBER,
    EITP__JSON_STRING,
    EITP__JSON_ARRAY,
    EITP__JSON_OBJECT
} eitp__json_kind;

/* A value of the tree. Children of an array or object are a chain: first_child, then next. */
typedef struct eitp__json {
    eitp__json_kind kind;
    int boolean;
    int is_integer; /* the number was written without fraction and exponent, and fits */
    int64_t integer;
    double number;
    const char *text; /* of a string, UTF-8 with escapes resolved, zero byte after it; may hold zero bytes */
    size_t text_size;
    const char *name; /* the key where this is a member of an object, else NULL */
    size_t name_size;
    size_t line;  /* where it starts, from 1 */
    size_t count; /* children */
    struct eitp__json *first_child;
    struct eitp__json *next;
} eitp__json;

typedef struct eitp__json_document eitp__json_document;

/* Parses `size` bytes. Nesting deeper than 64, invalid UTF-8, lone surrogates, duplicate keys and anything after the value
   are errors that give line and column. Allocation is bounded by a small multiple of `size`. */
EITP__PRIVATE eitp_status eitp__json_parse(const eitp_host *host, const char *data, size_t size,
                                           eitp__json_document **document, eitp_error *error);
EITP__PRIVATE void eitp__json_release(eitp__json_document *document);
EITP__PRIVATE const eitp__json *eitp__json_root(const eitp__json_document *document);

/* Reads and parses a file of at most `limit` bytes; messages start with its path. */
EITP__PRIVATE eitp_status eitp__json_read_file(const eitp_host *host, const char *path, size_t limit,
                                               eitp__json_document **document, eitp_error *error);

/* The member called `name`, or NULL (also where `object` is NULL or no object). */
EITP__PRIVATE const eitp__json *eitp__json_member(const eitp__json *object, const char *name);

/*
 * Reading a member with its type checked. A missing or null member leaves *value as it is and is fine; one of another type
 * or outside [low, high] is EITP_ERROR_FORMAT with line and name.
 */
EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp__json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_number(const eitp__json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp__json *object, const char *name, int *value,
                                                 eitp_error *error);
EITP__PRIVATE eitp_status eitp__json_get_text(const eitp__json *object, const char *name, const char **value,
                                              eitp_error *error);

/* Adds `size` bytes of UTF-8 as a quoted JSON string. */
EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size);
/* Adds a number that reads back to the same double; null where it is not finite. */
EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value);
/* <<src/base/json.h */

/* >>kernels/kernels.h */
/*
 * The kernel contract: the slots, what each slot's operands are, and the table that kernel sets are written into.
 *
 * A kernel is a pure function over pointers and sizes. It does items [begin, end) of its slot's iteration family and writes
 * only what belongs to those items; which items form a piece follows from the shapes, never from the number of threads, and an item's result
 * never depends on the piece it is in. It allocates nothing, logs nothing and starts no threads.
 */

/*
 * Iteration families: what an item is.
 *   FLAT       an element of output 0
 *   ROWS       a row of input 0: all its dimensions but the last
 *   COLUMNS    an index of the last dimension of output 0; the kernel goes through the rows in order
 *   LINES      an element of output 0 without dimension `integers[0]`; the kernel goes along that dimension in order
 *   BLOCKS     an element of output 0, each made from EITP__SUM_BLOCK elements of input 0
 *   TILES      a tile of a matrix product: batch, then tile row, then tile column, the last fastest
 *   ATTENTION  a (sequence, head) pair, heads fastest
 *   WHOLE      everything
 */
typedef enum eitp__family {
    EITP__FAMILY_FLAT,
    EITP__FAMILY_ROWS,
    EITP__FAMILY_COLUMNS,
    EITP__FAMILY_LINES,
    EITP__FAMILY_BLOCKS,
    EITP__FAMILY_TILES,
    EITP__FAMILY_ATTENTION,
    EITP__FAMILY_WHOLE,
    EITP__FAMILY_COUNT
} eitp__family;

#define EITP__SUM_BLOCK 16384

/*
 * The slots: name, family. Operands are dense, row-major; x, y, a, b, d... have the slot's dtype unless said otherwise.
 * "accumulates" means that the slot honours eitp__call.carry.
 *
 *   FILL                 () -> y; reals[0] the value
 *   ARANGE               () -> y [n]; 0, 1, 2, ...
 *   NEGATE ... RELU, ERF (x) -> y
 *   AFFINE               (x) -> y = reals[0] * x + reals[1]
 *   CLAMP                (x) -> y; reals[0] low, reals[1] high
 *   CAST                 (x of any dtype) -> y; the slot's dtype is that of y
 *   ADD ... DIVIDE       (a, b) -> y; NumPy broadcasting
 *   LESS, EQUAL          (a, b of the slot's dtype) -> y U8, 0 or 1; NumPy broadcasting
 *   WHERE                (condition U8, a, b) -> y; NumPy broadcasting
 *   BROADCAST            (x) -> y
 *   PERMUTE              (x) -> y; dimension i of y is dimension integers[i] of x
 *   SLICE                (x) -> y; dimension i of y starts at integers[i] of x
 *   PAD                  (x) -> y; x placed at integers[i] in zeros
 *   CONCAT               (x...) -> y; along dimension integers[0]
 *   SUM, MAX             (x) -> y; y has x's rank with 1 in the dimensions of bit mask integers[0]; SUM accumulates
 *   GATHER               (x, indices I32) -> y; y[..i..] = x[..indices[..i..]..] along dimension integers[0]
 *   SCATTER_ADD          (indices I32, d) -> y; y[..indices[..i..]..] += d[..i..] along dimension integers[0], from zeros
 *   MATMUL               (a [.., m, k], b [.., k, n], bias [n] or none) -> y [.., m, n]; integers[0]: a is given as [.., k, m],
 *                        integers[1]: b is given as [.., n, k]; batch dimensions broadcast; accumulates
 *   SOFTMAX, LOG_SOFTMAX (x) -> y; along the last dimension
 *   ..._BACKWARD         (y, dy) -> dx
 *   GELU_TANH, GELU_ERF  (x) -> y;  ..._BACKWARD (x, dy) -> dx
 *   LAYER_NORM           (x [.., c], gain [c], bias [c]) -> y, mean [..], deviation [..] (reciprocal); reals[0] epsilon
 *   LAYER_NORM_BACKWARD_INPUT       (x, gain, bias, mean, deviation, dy) -> dx
 *   LAYER_NORM_BACKWARD_PARAMETERS  (x, gain, bias, mean, deviation, dy) -> dgain [c], dbias [c]; accumulates
 *   EMBEDDING            (table [v, c], ids I32 [n]) -> y [n, c]; an id outside the table gives a row of zeros
 *   EMBEDDING_BACKWARD   (ids I32 [n], dy [n, c]) -> dtable [v, c]; accumulates
 *   ATTENTION            (qkv [n, 3c], offsets I32 [s + 1], key I64 [3] or none) -> o [n, c], logsumexp [n, heads]; causal, packed: sequence i
 *                        is rows [offsets[i], offsets[i + 1]); integers[0] heads, integers[1] the longest sequence, integers[2] random
 *                        stream; reals[0] scale, reals[1] dropout probability; rows in no sequence get zeros
 *   ATTENTION_BACKWARD   (qkv, offsets, key or none, o, logsumexp, do) -> dqkv; attributes as above
 *   ATTENTION_CACHED     (qkv [n, 3c], keys [t, c], values [t, c], position I32 [1]) -> o [n, c], keys, values; row i is at position + i: its
 *                        key and value are stored there, then it sees all up to itself; integers[0] heads; reals[0] scale
 *   CROSS_ENTROPY        (logits [n, v], targets I32 [n]) -> loss [n], logsumexp [n]; integers[0] the ignored target
 *   CROSS_ENTROPY_BACKWARD (logits, targets, logsumexp, dloss [n]) -> dlogits
 *   DROPOUT              (x, key I64 [3]) -> y; integers[0] random stream; reals[0] probability; key is seed, step, first row of the step
 *   ACCUMULATE           (target, x, carry F32 [1] or none) -> target; target = carry * target + x
 *   SUM_SQUARES          (x) -> y F64 [ceil(elements / EITP__SUM_BLOCK)]
 *   COMMIT               (sum F64 [1], limit F32 [1]) -> commit F32 [2], norm F32 [1]; scale and apply (0 or 1) of this step's updates
 *   ADAMW                (parameter, gradient, m, v, hyper F32 [2], commit F32 [2]) -> parameter, m, v; hyper: learning rate, step number
 *                        (from 1); reals: beta1, beta2, epsilon, weight decay
 */
#define EITP__SLOTS(X)                                                                                                 \
    X(FILL, FLAT)                                                                                                      \
    X(ARANGE, FLAT)                                                                                                    \
    X(NEGATE, FLAT)                                                                                                    \
    X(EXP, FLAT)                                                                                                       \
    X(LOG, FLAT)                                                                                                       \
    X(SQRT, FLAT)                                                                                                      \
    X(TANH, FLAT)                                                                                                      \
    X(SIGMOID, FLAT)                                                                                                   \
    X(RELU, FLAT)                                                                                                      \
    X(ERF, FLAT)                                                                                                       \
    X(AFFINE, FLAT)                                                                                                    \
    X(CLAMP, FLAT)                                                                                                     \
    X(CAST, FLAT)                                                                                                      \
    X(ADD, FLAT)                                                                                                       \
    X(SUBTRACT, FLAT)                                                                                                  \
    X(MULTIPLY, FLAT)                                                                                                  \
    X(DIVIDE, FLAT)                                                                                                    \
    X(LESS, FLAT)                                                                                                      \
    X(EQUAL, FLAT)                                                                                                     \
    X(WHERE, FLAT)                                                                                                     \
    X(BROADCAST, FLAT)                                                                                                 \
    X(PERMUTE, FLAT)                                                                                                   \
    X(SLICE, FLAT)                                                                                                     \
    X(PAD, FLAT)                                                                                                       \
    X(CONCAT, FLAT)                                                                                                    \
    X(SUM, FLAT)                                                                                                       \
    X(MAX, FLAT)                                                                                                       \
    X(GATHER, FLAT)                                                                                                    \
    X(SCATTER_ADD, LINES)                                                                                              \
    X(MATMUL, TILES)                                                                                                   \
    X(SOFTMAX, ROWS)                                                                                                   \
    X(SOFTMAX_BACKWARD, ROWS)                                                                                          \
    X(LOG_SOFTMAX, ROWS)                                                                                               \
    X(LOG_SOFTMAX_BACKWARD, ROWS)                                                                                      \
    X(GELU_TANH, FLAT)                                                                                                 \
    X(GELU_TANH_BACKWARD, FLAT)                                                                                        \
    X(GELU_ERF, FLAT)                                                                                                  \
    X(GELU_ERF_BACKWARD, FLAT)                                                                                         \
    X(LAYER_NORM, ROWS)                                                                                                \
    X(LAYER_NORM_BACKWARD_INPUT, ROWS)                                                                                 \
    X(LAYER_NORM_BACKWARD_PARAMETERS, COLUMNS)                                                                         \
    X(EMBEDDING, FLAT)                                                                                                 \
    X(EMBEDDING_BACKWARD, COLUMNS)                                                                                     \
    X(ATTENTION, ATTENTION)                                                                                            \
    X(ATTENTION_BACKWARD, ATTENTION)                                                                                   \
    X(ATTENTION_CACHED, WHOLE)                                                                                         \
    X(CROSS_ENTROPY, ROWS)                                                                                             \
    X(CROSS_ENTROPY_BACKWARD, ROWS)                                                                                    \
    X(DROPOUT, FLAT)                                                                                                   \
    X(ACCUMULATE, FLAT)                                                                                                \
    X(SUM_SQUARES, BLOCKS)                                                                                             \
    X(COMMIT, WHOLE)                                                                                                   \
    X(ADAMW, FLAT)

typedef enum eitp__slot {
#define EITP__SLOT_ENUMERATOR(name, family) EITP__SLOT_##name,
    EITP__SLOTS(EITP__SLOT_ENUMERATOR)
#undef EITP__SLOT_ENUMERATOR
        EITP__SLOT_COUNT
} eitp__slot;

#define EITP__MAX_INPUTS 8
#define EITP__MAX_OUTPUTS 3

/* A dense row-major array. `data` is NULL for an optional operand that is absent. */
typedef struct eitp__operand {
    void *data;
    eitp_dtype dtype;
    int rank;
    int64_t elements;
    int64_t shape[EITP_MAX_RANK];
} eitp__operand;

/* One execution of a kernel: everything that its items share. */
typedef struct eitp__call {
    eitp__slot slot;
    eitp_dtype dtype; /* the slot's dtype: the column of the kernel table */
    int input_count;
    int output_count;
    eitp__operand inputs[EITP__MAX_INPUTS];
    eitp__operand outputs[EITP__MAX_OUTPUTS];
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    /* Where not NULL, every output becomes carry[0] * output + value instead of value; an output is not read while carry[0] is 0. */
    int accumulates;
    const float *carry; /* with `accumulates`: NULL means 1 */
} eitp__call;

typedef void (*eitp__kernel_function)(const eitp__call *call, int64_t begin, int64_t end, void *workspace);

typedef struct eitp__kernel {
    eitp__kernel_function run;                   /* NULL: the set has none */
    size_t (*workspace)(const eitp__call *call); /* bytes each thread needs, aligned to EITP__ALIGNMENT; NULL: none */
    int64_t tile_rows;                           /* TILES only */
    int64_t tile_columns;
    const char *set; /* "ref", "avx2", ... */
} eitp__kernel;

/* Which kernel runs a slot for a dtype. It starts as `ref` everywhere and is overwritten slot by slot. */
typedef struct eitp__kernel_table {
    eitp__kernel kernels[EITP__SLOT_COUNT][EITP_DTYPE_COUNT];
} eitp__kernel_table;

/* Instruction sets, in the order of preference; each includes those before it. */
typedef enum eitp__isa { EITP__ISA_REF = 0, EITP__ISA_AVX2 = 1, EITP__ISA_AVX512 = 2, EITP__ISA_COUNT = 3 } eitp__isa;

/* Each set writes the kernels it has over what is there. A set that was not compiled for this processor family writes nothing. */
EITP__PRIVATE void eitp__register_ref_kernels(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_avx2_kernels(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_avx512_kernels(eitp__kernel_table *table);

EITP__PRIVATE const char *eitp__slot_name(eitp__slot slot);
EITP__PRIVATE eitp__family eitp__slot_family(eitp__slot slot);

/* The sizes of a MATMUL call. */
typedef struct eitp__matmul {
    int64_t batch, m, n, k;
    int transpose_a, transpose_b;
    int64_t lda, ldb; /* elements from one stored row to the next; y's is n */
} eitp__matmul;

EITP__PRIVATE eitp__matmul eitp__matmul_sizes(const eitp__call *call);

/* Where batch element `index` starts, in elements, in operand a (which = 0) or b (which = 1). */
EITP__PRIVATE int64_t eitp__matmul_offset(const eitp__call *call, int which, int64_t index);
/* <<kernels/kernels.h */

/* >>kernels/ref/matmul.h */
/* The ref kernels of the matrix product. */

/* Part of eitp__register_ref_kernels. */
EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table);
/* <<kernels/ref/matmul.h */

/* >>kernels/ref/ref.h */
/* What the ref kernels share: their registration, and the walk over operands that are not laid out as the result is. */

/* Parts of eitp__register_ref_kernels. */
EITP__PRIVATE void eitp__register_ref_casts(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_movement(eitp__kernel_table *table);

static inline EITP__UNUSED void eitp__ref_register(eitp__kernel_table *table, eitp__slot slot, eitp_dtype dtype,
                                                   eitp__kernel_function run) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = run;
    kernel.set = "ref";
    table->kernels[slot][dtype] = kernel;
}

static inline EITP__UNUSED int64_t eitp__ref_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline EITP__UNUSED int64_t eitp__ref_columns(const eitp__operand *x) {
    return x->rank ? x->shape[x->rank - 1] : 1;
}

/* What outputs are multiplied by before they are added to: 0 where they are only written. */
static inline EITP__UNUSED float eitp__ref_carry(const eitp__call *call) {
    return !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
}

/* The dimensions of a result, and how far a step in each goes in up to three operands (0 where they are repeated). */
typedef struct eitp__ref_grid {
    int rank; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t stride[3][EITP_MAX_RANK];
} eitp__ref_grid;

static inline EITP__UNUSED void eitp__ref_grid_start(eitp__ref_grid *grid) {
    grid->rank = 1;
    grid->size[0] = 1;
    grid->stride[0][0] = grid->stride[1][0] = grid->stride[2][0] = 0;
}

/* Adds a dimension inside those there are; dimensions that all operands go through as if they were one become one. */
static inline EITP__UNUSED void eitp__ref_grid_add(eitp__ref_grid *grid, int64_t size, const int64_t stride[3]) {
    int last = grid->rank - 1, joins = 1;
    if (size == 1)
        return;
    for (int i = 0; i < 3; i++)
        joins = joins && grid->stride[i][last] == stride[i] * size;
    if (!joins && grid->size[last] != 1)
        last = grid->rank++;
    grid->size[last] = grid->size[last] == 1 || !joins ? size : grid->size[last] * size;
    for (int i = 0; i < 3; i++)
        grid->stride[i][last] = stride[i];
}

/* The grid of output 0, for inputs that broadcast to it; an input's last stride is 0 or 1. */
static inline EITP__UNUSED eitp__ref_grid eitp__ref_broadcast_grid(const eitp__call *call) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK][3];
    eitp__ref_grid grid;
    memset(strides, 0, sizeof strides);
    for (int i = 0; i < call->input_count && i < 3; i++) {
        const eitp__operand *x = &call->inputs[i];
        int64_t stride = 1;
        for (int d = x->rank - 1, to = y->rank - 1; d >= 0 && to >= 0; d--, to--) {
            strides[to][i] = x->shape[d] == 1 ? 0 : stride;
            stride *= x->shape[d];
        }
    }
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++)
        eitp__ref_grid_add(&grid, y->shape[d], strides[d]);
    return grid;
}

/* A place in a grid: goes from run to run, a run being a stretch of the last dimension. */
typedef struct eitp__ref_walk {
    int64_t index[EITP_MAX_RANK];
    int64_t offset[3];
} eitp__ref_walk;

static inline EITP__UNUSED eitp__ref_walk eitp__ref_walk_from(const eitp__ref_grid *grid, int64_t item) {
    eitp__ref_walk walk = EITP__ZERO;
    for (int d = grid->rank - 1; d >= 0; d--) {
        int64_t size = grid->size[d] ? grid->size[d] : 1;
        walk.index[d] = item % size;
        item /= size;
        for (int i = 0; i < 3; i++)
            walk.offset[i] += walk.index[d] * grid->stride[i][d];
    }
    return walk;
}

/* How many of the next `count` items are in the run at hand. */
static inline EITP__UNUSED int64_t eitp__ref_walk_run(const eitp__ref_grid *grid, const eitp__ref_walk *walk,
                                                      int64_t count) {
    int last = grid->rank - 1;
    return eitp__ref_smaller(count, grid->size[last] - walk->index[last]);
}

static inline EITP__UNUSED void eitp__ref_walk_on(const eitp__ref_grid *grid, eitp__ref_walk *walk, int64_t items) {
    int d = grid->rank - 1;
    walk->index[d] += items;
    for (int i = 0; i < 3; i++)
        walk->offset[i] += items * grid->stride[i][d];
    for (; d > 0 && walk->index[d] == grid->size[d]; d--) {
        walk->index[d] = 0;
        walk->index[d - 1]++;
        for (int i = 0; i < 3; i++)
            walk->offset[i] += grid->stride[i][d - 1] - grid->size[d] * grid->stride[i][d];
    }
}

/* A kernel for two operands `a` and `b` that broadcast; the result may be in the place of an operand of its shape. */
#define EITP__REF_BINARY(function, from_type, to_type, expression)                                                     \
    static void function(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                        \
        eitp__ref_grid grid = eitp__ref_broadcast_grid(call);                                                          \
        eitp__ref_walk walk = eitp__ref_walk_from(&grid, begin);                                                       \
        int goes_a = grid.stride[0][grid.rank - 1] != 0, goes_b = grid.stride[1][grid.rank - 1] != 0;                  \
        (void)workspace;                                                                                               \
        for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&grid, &walk, count)) {                  \
            const from_type *p = (const from_type *)call->inputs[0].data + walk.offset[0];                             \
            const from_type *q = (const from_type *)call->inputs[1].data + walk.offset[1];                             \
            to_type *y = (to_type *)call->outputs[0].data + i;                                                         \
            count = eitp__ref_walk_run(&grid, &walk, end - i);                                                         \
            if (goes_a && goes_b) {                                                                                    \
                for (int64_t j = 0; j < count; j++) {                                                                  \
                    from_type a = p[j], b = q[j];                                                                      \
                    y[j] = (to_type)(expression);                                                                      \
                }                                                                                                      \
            } else if (goes_a) {                                                                                       \
                from_type b = q[0];                                                                                    \
                for (int64_t j = 0; j < count; j++) {                                                                  \
                    from_type a = p[j];                                                                                \
                    y[j] = (to_type)(expression);                                                                      \
                }                                                                                                      \
            } else {                                                                                                   \
                from_type a = p[0];                                                                                    \
                for (int64_t j = 0; j < count; j++) {                                                                  \
                    from_type b = q[j];                                                                                \
                    y[j] = (to_type)(expression);                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
/* <<kernels/ref/ref.h */

/* >>backends/backend.h */
/*
 * The backend contract: a device that runs a plan's calls.
 *
 * To add one: implement eitp__backend_interface in backends/<name>/, declare its function below, and list it in
 * backends/backend.c. A backend never lists ops: it looks up slots, and what it does not support the plan expands.
 */

#define EITP__BACKEND_API_VERSION 1

typedef struct eitp__backend_config {
    int threads;          /* 0: as many as there are processors */
    const char *isa;      /* NULL or "": EITP_ISA if set, else the best this machine has */
    const char *products; /* "own", "openblas"; NULL or "": EITP_PRODUCTS if set, else what is faster with that isa */
} eitp__backend_config;

typedef struct eitp__backend_interface eitp__backend_interface;

/* What every backend object starts with. */
typedef struct eitp__backend {
    const eitp__backend_interface *interface;
    eitp_host host;
} eitp__backend;

struct eitp__backend_interface {
    uint32_t api_version;
    const char *name;

    eitp_status (*create)(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                          eitp_error *error);
    void (*destroy)(eitp__backend *backend);

    /* One line for the log: device, threads, kernel set. */
    void (*describe)(const eitp__backend *backend, char *text, size_t size);

    /* Everything beside the plan that decides which bits come out, as one word: "cpu-avx2-openblas.Haswell". */
    void (*numerics)(const eitp__backend *backend, char *text, size_t size);

    /* Is there a kernel for this slot and dtype? */
    int (*supports)(const eitp__backend *backend, eitp__slot slot, eitp_dtype dtype);

    /* Device memory, zeroed, at EITP__ALIGNMENT; NULL when it runs out. */
    void *(*allocate)(eitp__backend *backend, size_t size);
    void (*release)(eitp__backend *backend, void *memory, size_t size);
    eitp_status (*upload)(eitp__backend *backend, void *device, const void *source, size_t size, eitp_error *error);
    eitp_status (*download)(eitp__backend *backend, void *target, const void *device, size_t size, eitp_error *error);

    /* Bytes of scratch memory that running this call needs, for all threads together. */
    size_t (*workspace)(const eitp__backend *backend, const eitp__call *call);

    /* Runs the calls in order. `workspace` is as large as the largest of them asked for. */
    eitp_status (*run)(eitp__backend *backend, const eitp__call *calls, size_t count, void *workspace,
                       eitp_error *error);
};

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void);
EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void);

/* Calls that the null backend was given since it was made. */
EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend);

/*
 * Makes the backend that `device` names: "cpu", "cuda", "null", or "auto" (NULL or ""): EITP_BACKEND if set, else the best
 * there is; why it was chosen goes to the log. A device that is named and not there is an error, never a fallback.
 */
EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error);
/* <<backends/backend.h */

/* >>backends/cpu/features.h */
/* What the processor has and the operating system allows. */

/* Can kernels of this set run here? */
EITP__PRIVATE int eitp__isa_available(eitp__isa isa);

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa);
/* <<backends/cpu/features.h */

/* >>backends/cpu/openblas.h */
/* The f32 matrix product by OpenBLAS, in builds with EITP_WITH_OPENBLAS. */

/*
 * Writes the matrix product over what is there and returns 1; without EITP_WITH_OPENBLAS it writes nothing and returns
 * 0. OpenBLAS is set to one thread per call, for the whole process: its tiles are what runs in parallel. Accumulated
 * products are not the same bits as one product over all of k, unlike with the other sets.
 */
EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table);

/* The processor that OpenBLAS takes this one for, which its bits depend on; "" without EITP_WITH_OPENBLAS. */
EITP__PRIVATE const char *eitp__openblas_core(void);
/* <<backends/cpu/openblas.h */

/* >>src/tensor/context.h */
/* The context's inside: variables and the shared arena. */

typedef struct eitp__variable {
    eitp_variable info;
    void *data; /* device memory; NULL until a plan uses it */
} eitp__variable;

typedef struct eitp__segment {
    void *memory;
    size_t size;
} eitp__segment;

struct eitp_context {
    eitp_host host;
    eitp__backend *backend;
    eitp__variable *variables;
    size_t variable_count, variable_capacity;
    eitp__segment *segments; /* that the variables lie in */
    size_t segment_count, segment_capacity;
    eitp__segment arena;       /* of all plans */
    uint64_t arena_generation; /* counts its moves */
    char description[200];
    char numerics[100];
};

/* The variable of that name, made if there is none. */
EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error);

/* Gives memory to all variables that have none. */
EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error);

/* Makes the arena at least `size` bytes. */
EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error);
/* <<src/tensor/context.h */

/* >>src/tensor/graph.h */
/* The graph behind the tensors: nodes, values and the table of ops. */

/*
 * Ops: every slot of kernels.h is an op of the same name, and these have no kernel: their result shares the memory of
 * their input.
 */
typedef enum eitp__op_code {
#define EITP__OP_ENUMERATOR(name, family) EITP__OP_##name,
    EITP__SLOTS(EITP__OP_ENUMERATOR)
#undef EITP__OP_ENUMERATOR
        EITP__OP_RESHAPE,
    EITP__OP_STOP_GRADIENT,
    EITP__OP_COUNT
} eitp__op_code;

typedef struct eitp__node eitp__node;

/* What an op is given beside its inputs. `shape`, `rank` and `dtype` are the result's, where inputs do not tell them. */
typedef struct eitp__attributes {
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__attributes;

typedef enum eitp__leaf { EITP__COMPUTED, EITP__INPUT, EITP__VARIABLE } eitp__leaf;

struct eitp_tensor {
    eitp_graph *graph;
    int id; /* index in the graph; an input of a node has a smaller one than its outputs */
    eitp__leaf leaf;
    eitp__node *node;     /* that computes it; NULL for leaves */
    int64_t variable;     /* index in the context, for EITP__VARIABLE */
    eitp_tensor *storage; /* the tensor whose memory this one shares; itself where it has its own */
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int rows; /* the leading dimension is the graph's capacity */
    int is_output;
    eitp_tensor
        *lowered;  /* what a plan computes in its place, where the backend has no kernel for the node; NULL: itself */
    char name[64]; /* of leaves */
};

struct eitp__node {
    eitp_graph *graph;
    int id;
    eitp__op_code op;
    int input_count;
    int output_count;
    eitp_tensor *inputs[EITP__MAX_INPUTS]; /* NULL where optional and absent */
    eitp_tensor *outputs[EITP__MAX_OUTPUTS];
    eitp__attributes attributes;
    int order; /* for plans: the id of the node it was expanded from, else its own */
};

typedef struct eitp__graph_block {
    struct eitp__graph_block *next;
    size_t size, used;
} eitp__graph_block;

struct eitp_graph {
    eitp_context *context;
    eitp__graph_block *blocks;
    eitp_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    eitp__node **nodes;
    size_t node_count, node_capacity;
    int64_t capacity; /* of the leading dimension of tensors with `rows`; -1 while there is none */
    uint32_t streams; /* random streams handed out */
    eitp_error error;
};

/*
 * An op: one entry of the table in op_table.c.
 *   shape     checks inputs and attributes and makes the outputs with eitp__node_output
 *   gradient  adds to dx[i] (NULL to begin with) what flows to input i, given dy[j] for each output (NULL: none)
 *   expand    builds the outputs from primitives: the op's specification, its oracle, and what a backend without its kernel
 *             runs; an op without is a primitive
 *   backward_of, wrt   for the fused gradient of another op: inputs are that op's inputs, (what it saved,) and last the output's gradient; output i is
 *             the gradient of its input wrt[i]. The expansion follows from that op's own.
 *   shares    output i has the memory of input shares[i] - 1, and changes it; 0: its own
 *   reuse     input whose memory output 0 may take where nothing else needs it, + 1; 0: none (a bit mask)
 *   flops     arithmetic per run
 */
typedef struct eitp__op_info {
    const char *name;
    int min_inputs, max_inputs, outputs;
    eitp_status (*shape)(eitp__node *node, eitp_error *error);
    void (*gradient)(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx);
    void (*expand)(const eitp__node *node, eitp_tensor **outputs);
    int backward_of; /* op + 1; 0: none */
    int wrt[EITP__MAX_OUTPUTS];
    int shares[EITP__MAX_OUTPUTS];
    unsigned reuse;
    int accumulates;
    double (*flops)(const eitp__node *node);
} eitp__op_info;

EITP__PRIVATE const eitp__op_info *eitp__op(eitp__op_code op);

/* Adds a node; NULL, with the graph's error set, where the shape rule refuses, an input is NULL though required, or memory is short. */
EITP__PRIVATE eitp__node *eitp__node_create(eitp_graph *graph, eitp__op_code op, eitp_tensor *const *inputs,
                                            int input_count, const eitp__attributes *attributes);

/* Zeroed memory that lives as long as the graph; NULL with the graph's error set. */
EITP__PRIVATE void *eitp__graph_allocate(eitp_graph *graph, size_t size);

/* The first output of such a node. */
EITP__PRIVATE eitp_tensor *eitp__apply(eitp__op_code op, eitp_tensor *const *inputs, int input_count,
                                       const eitp__attributes *attributes);

/* For shape rules: makes the next output. `rows`: its leading dimension is the capacity. */
EITP__PRIVATE eitp_status eitp__node_output(eitp__node *node, eitp_dtype dtype, int rank, const int64_t *shape,
                                            int rows, eitp_error *error);

/* For shape rules: the next output has the shape, dtype and rows of a tensor. */
EITP__PRIVATE eitp_status eitp__node_output_like(eitp__node *node, const eitp_tensor *tensor, eitp_error *error);

/* Keeps the first error of building. */
EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph);

/* Of a variable's tensor: its whole name; is it an F32 parameter? */
EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor);

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor);
EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b);

/* "[256, 768]" into `text`. */
EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size);

/* The node's outputs from primitives, by its expand rule or as the gradient of the op it is the fused gradient of. 0: it is a primitive. */
EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs);
/* <<src/tensor/graph.h */

/* >>src/tensor/op_rules.h */
/* The rules that the table of ops refers to, one block for each file that has them. */

typedef eitp_status eitp__shape_rule(eitp__node *node, eitp_error *error);
typedef void eitp__gradient_rule(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx);
typedef void eitp__expand_rule(const eitp__node *node, eitp_tensor **outputs);
typedef double eitp__flops_rule(const eitp__node *node);

/* Sums x over the dimensions in which `like` has 1, or has not at all: the transpose of broadcasting. */
EITP__PRIVATE eitp_tensor *eitp__sum_to(eitp_tensor *x, const eitp_tensor *like);

/* dx = dx + contribution, where either may be NULL. */
EITP__PRIVATE void eitp__add_gradient(eitp_tensor **dx, eitp_tensor *contribution);

/* A 1-element tensor of x's dtype in x's graph; broadcasts to any shape. */
EITP__PRIVATE eitp_tensor *eitp__scalar_like(const eitp_tensor *x, double value);

/* A tensor of one value with the shape, dtype and rows of x. */
EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value);

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) EITP__PRINTF(3, 4);

/* ops_elementwise.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_fill, eitp__shape_arange, eitp__shape_unary, eitp__shape_cast,
    eitp__shape_binary, eitp__shape_compare, eitp__shape_where, eitp__shape_same;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_negate, eitp__gradient_exp, eitp__gradient_log, eitp__gradient_sqrt,
    eitp__gradient_tanh, eitp__gradient_sigmoid, eitp__gradient_relu, eitp__gradient_erf, eitp__gradient_affine,
    eitp__gradient_clamp, eitp__gradient_cast, eitp__gradient_add, eitp__gradient_subtract, eitp__gradient_multiply,
    eitp__gradient_divide, eitp__gradient_where, eitp__gradient_none;
EITP__PRIVATE eitp__flops_rule eitp__flops_elements;

/* ops_shape.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_reshape, eitp__shape_broadcast, eitp__shape_permute, eitp__shape_slice,
    eitp__shape_pad, eitp__shape_concat, eitp__shape_gather, eitp__shape_scatter_add;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_reshape, eitp__gradient_broadcast, eitp__gradient_permute,
    eitp__gradient_slice, eitp__gradient_pad, eitp__gradient_concat, eitp__gradient_gather, eitp__gradient_scatter_add;

/* ops_reduce.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_reduce;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_sum, eitp__gradient_max;

/* ops_product.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_matmul;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_matmul;
EITP__PRIVATE eitp__flops_rule eitp__flops_matmul;

/* ops_network.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_second, eitp__shape_layer_norm, eitp__shape_layer_norm_backward_input,
    eitp__shape_layer_norm_backward_parameters, eitp__shape_embedding, eitp__shape_embedding_backward,
    eitp__shape_dropout;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_softmax, eitp__gradient_log_softmax, eitp__gradient_gelu_tanh,
    eitp__gradient_gelu_erf, eitp__gradient_layer_norm, eitp__gradient_embedding, eitp__gradient_embedding_backward,
    eitp__gradient_dropout;
EITP__PRIVATE eitp__expand_rule eitp__expand_softmax, eitp__expand_softmax_backward, eitp__expand_log_softmax,
    eitp__expand_log_softmax_backward, eitp__expand_gelu_tanh, eitp__expand_gelu_erf, eitp__expand_layer_norm,
    eitp__expand_embedding, eitp__expand_embedding_backward;

/* ops_attention.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_attention, eitp__shape_attention_backward, eitp__shape_attention_cached;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_attention;
EITP__PRIVATE eitp__expand_rule eitp__expand_attention;
EITP__PRIVATE eitp__flops_rule eitp__flops_attention, eitp__flops_attention_backward;

/* ops_loss.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_cross_entropy, eitp__shape_cross_entropy_backward;
EITP__PRIVATE eitp__gradient_rule eitp__gradient_cross_entropy;
EITP__PRIVATE eitp__expand_rule eitp__expand_cross_entropy;

/* ops_update.c */
EITP__PRIVATE eitp__shape_rule eitp__shape_accumulate, eitp__shape_sum_squares, eitp__shape_commit, eitp__shape_adamw;
EITP__PRIVATE eitp__expand_rule eitp__expand_sum_squares;
/* <<src/tensor/op_rules.h */

/* >>src/tensor/plan.h */
/*
 * A plan: a graph made ready to run. The passes, each in a file or function of its own, in the order they run:
 *   lower     nodes that the outputs and updates need; those without a kernel are expanded            plan_lower.c
 *   fuse      products and sums that only feed an accumulation write to its target themselves         plan_lower.c
 *   order     what runs when: creation order, but updates as soon as they can, and after every reader of the old value    plan_order.c
 *   lay out   lifetimes, memory taken over in place, offsets in the arena                              plan_layout.c
 *   bind      calls with operands, whose addresses are filled in when a plan runs                      plan.c
 */

/* A node in the plan. */
typedef struct eitp__step {
    eitp__node *node;
    eitp__node *absorbed; /* the accumulation that this node does itself, NULL: none */
    int mutates;          /* changes a variable */
} eitp__step;

/* A stretch of the arena, and the steps [first, last] it is in use; -1 is before the first step. */
typedef struct eitp__stretch {
    size_t size, offset;
    int first, last;
} eitp__stretch;

/* Where a call's operand is: an arena stretch, a variable, or nowhere. */
typedef struct eitp__place {
    int stretch;      /* -1: none */
    int64_t variable; /* -1: none */
    int rows;         /* its leading dimension follows the count */
    int64_t row_elements;
} eitp__place;

typedef struct eitp__binding {
    eitp__place inputs[EITP__MAX_INPUTS];
    eitp__place outputs[EITP__MAX_OUTPUTS];
    eitp__place carry;
} eitp__binding;

struct eitp_plan {
    eitp_context *context;
    eitp_graph *graph;
    eitp__step *steps;
    size_t step_count, step_capacity;
    int *stretch_of; /* by tensor id: of the tensor that owns the memory; -1: none */
    size_t tensor_count;
    eitp__stretch *stretches;
    size_t stretch_count, stretch_capacity;
    eitp__call *calls;
    eitp__binding *bindings;
    int64_t count; /* rows of the capacity that there are */
    uint64_t bound_generation;
    int64_t bound_count;
    eitp_plan_stats stats;
};

/* The tensor that the plan computes in place of this one. */
EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor);

/* The column of the kernel table: see eitp__call.dtype. */
EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node);

/* Is the node only another view of its input's memory? */
EITP__PRIVATE int eitp__is_view(const eitp__node *node);

/* Input i of a step, lowered; for an accumulation, input 0 is the value before. NULL where absent. */
EITP__PRIVATE eitp_tensor *eitp__step_input(const eitp__step *step, int i);
EITP__PRIVATE int eitp__step_input_count(const eitp__step *step);

EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error);
EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error);
EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error);
/* <<src/tensor/plan.h */

/* >>src/model/gpt2.h */
/* GPT-2's parameters, in one table, and its graph. */

struct eitp_model {
    eitp_context *context;
    eitp_host host;
    eitp_gpt2_config config;
};

typedef enum eitp__fill_kind {
    EITP__FILL_NORMAL,
    EITP__FILL_RESIDUAL,
    EITP__FILL_ONE,
    EITP__FILL_ZERO
} eitp__fill_kind;

/* One parameter of a model, as the table and a layer number give it. */
typedef struct eitp__parameter {
    char name[96]; /* Hugging Face's, with its prefix */
    int rank;
    int64_t shape[2];
    eitp__fill_kind fill;
} eitp__parameter;

/* All parameters in a fixed order: the count, and number `index`. */
EITP__PRIVATE int64_t eitp__gpt2_parameter_count(const eitp_gpt2_config *config);
EITP__PRIVATE eitp__parameter eitp__gpt2_parameter(const eitp_gpt2_config *config, int64_t index);

/* Sizes that are positive, consistent, and small enough that no product of them overflows. */
EITP__PRIVATE eitp_status eitp__gpt2_config_check(const eitp_gpt2_config *config, eitp_error *error);

/* How a block attends: to the packed batch, or to a cache that it also fills. */
typedef struct eitp__attending {
    eitp_tensor *offsets, *key;
    int64_t longest;
    eitp_tensor
        *position; /* not NULL: with a cache of `longest` tokens, variables "cache.<layer>.keys" and ".values" */
} eitp__attending;

/* The hidden states [n, width] after the last layer norm, and the logits of hidden states. */
EITP__PRIVATE eitp_tensor *eitp__gpt2_hidden(const eitp_model *model, eitp_graph *graph, eitp_tensor *tokens,
                                             eitp_tensor *positions, const eitp__attending *attending);
EITP__PRIVATE eitp_tensor *eitp__gpt2_logits(const eitp_model *model, eitp_tensor *hidden);
/* <<src/model/gpt2.h */

/* >>src/text/bpe.h */
/* Byte-pair encoding of one piece of text, and the alphabet in which files write bytes. */

/* Two neighbouring tokens become one; the place in the list of merges is the rank, and the lowest rank goes first. */
typedef struct eitp__merge {
    int32_t left, right, result;
} eitp__merge;

typedef struct eitp__merge_slot {
    uint64_t pair; /* left << 32 | right; UINT64_MAX where the slot is free */
    uint32_t rank;
    int32_t result;
} eitp__merge_slot;

typedef struct eitp__bpe {
    int32_t byte_ids[256]; /* of the tokens that are one byte */
    eitp__merge *merges;   /* by rank; owned */
    size_t merge_count;
    eitp__merge_slot *slots; /* open addressing */
    size_t slot_count;       /* a power of two */
} eitp__bpe;

/* Makes the table of bpe->merges, which bpe owns from the start. A pair that is there twice is EITP_ERROR_FORMAT. */
EITP__PRIVATE eitp_status eitp__bpe_index(eitp__bpe *bpe, const eitp_host *host, eitp_error *error);
EITP__PRIVATE void eitp__bpe_release(eitp__bpe *bpe, const eitp_host *host);

/* The slot of a pair, or NULL where the two do not merge. */
EITP__PRIVATE const eitp__merge_slot *eitp__bpe_find(const eitp__bpe *bpe, int32_t left, int32_t right);

/* Space for merging long pieces; zero-initialise it. */
typedef struct eitp__bpe_space {
    void *memory;
    size_t size;
} eitp__bpe_space;

EITP__PRIVATE void eitp__bpe_space_release(eitp__bpe_space *space, const eitp_host *host);

/*
 * The ids of a piece of 1 to 2^31 - 1 bytes. `ids` has room for `size` of them and *count says how many there are. Time
 * is size * log(size).
 */
EITP__PRIVATE eitp_status eitp__bpe_encode(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_space *space,
                                           const unsigned char *bytes, size_t size, int32_t *ids, size_t *count,
                                           eitp_error *error);

/*
 * Files spell each byte as one visible character: itself where it is a visible one of Latin-1, else a character from
 * U+0100 on (GPT-2's encoder.py). The inverse is -1 for a character outside the alphabet.
 */
EITP__PRIVATE uint32_t eitp__byte_to_character(unsigned char byte);
EITP__PRIVATE int eitp__character_to_byte(uint32_t code_point);
/* <<src/text/bpe.h */

/* >>src/text/bpe_words.h */
/* The distinct pieces of a text and how often each occurs, in bounded memory. */

typedef struct eitp__word {
    uint64_t count;
    size_t offset; /* of its bytes in eitp__words.text */
    uint32_t size;
} eitp__word;

typedef struct eitp__words {
    const eitp_host *host;
    uint64_t limit; /* bytes that learning from the words may take, about */
    unsigned char *text;
    size_t text_size, text_capacity;
    eitp__word *words;
    size_t count, capacity;
    uint32_t *slots; /* open addressing: word + 1, or 0 where the slot is free */
    size_t slot_count;
    uint64_t forgotten; /* occurrences of words that were dropped to stay within the limit */
} eitp__words;

EITP__PRIVATE void eitp__words_init(eitp__words *words, const eitp_host *host, uint64_t limit);
EITP__PRIVATE void eitp__words_release(eitp__words *words);

/* Counts one occurrence. Where a new word would go beyond the limit, the rarest are forgotten first, until half of it
 * is free. */
EITP__PRIVATE eitp_status eitp__words_add(eitp__words *words, const unsigned char *bytes, size_t size,
                                          eitp_error *error);
/* <<src/text/bpe_words.h */

/* >>src/text/bpe_train.h */
/* Learning merges from counted pieces. */

/* A token that has been learnt: its bytes in eitp__learnt.text. */
typedef struct eitp__learnt_token {
    size_t offset, size;
} eitp__learnt_token;

/* Tokens by id, the 256 bytes first, in the order of their characters; and the merges by rank. Two merges may make the
   same token. */
typedef struct eitp__learnt {
    const eitp_host *host;
    eitp__buffer text;
    eitp__learnt_token *tokens;
    size_t token_count, token_capacity;
    eitp__merge *merges;
    size_t merge_count, merge_capacity;
    uint32_t *slots; /* tokens by their text, open addressing: id + 1, or 0 where the slot is free */
    size_t slot_count;
} eitp__learnt;

EITP__PRIVATE void eitp__learnt_release(eitp__learnt *learnt);

/* Merges pairs that occur at least `minimum_frequency` times, at least once, until there are `token_limit` tokens.
   Release *learnt, after a failure too. */
EITP__PRIVATE eitp_status eitp__learn_merges(eitp__learnt *learnt, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error);
/* <<src/text/bpe_train.h */

/* >>src/text/pretokenize.h */
/* Text becomes pieces: added tokens, and between them the matches of GPT-2's pattern. */

/* A piece has at most so many bytes: see the rule in text.h. */
#define EITP__PIECE_LIMIT ((size_t)1048576)

/* Added tokens have 1 to this many bytes. */
#define EITP__ADDED_TOKEN_LIMIT ((size_t)1024)

/*
 * Bytes of the piece that text[0 .. size) begins with, by the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `text` is whole, well-formed characters, at least one; `closed` says that nothing comes after it. Returns 0 where
 * more text is needed to tell.
 */
EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed);

/* A token that is found in the text as it stands. The bytes belong to whoever made it. */
typedef struct eitp__added_token {
    const unsigned char *bytes;
    size_t size;
    int32_t id;
} eitp__added_token;

/* Sorts added tokens as the splitter needs them: by bytes. */
EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_token *tokens, size_t count);

/* Takes one piece: the bytes of a match with `id` -1, or an added token. The bytes are valid during the call. */
typedef eitp_status (*eitp__piece_sink)(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                        eitp_error *error);

/* Cuts texts that arrive in chunks. */
typedef struct eitp__splitter {
    const eitp_host *host;
    const eitp__added_token *added; /* sorted */
    size_t added_count;
    int add_prefix_space;
    eitp__piece_sink sink;
    void *user;
    unsigned char begins_added[256]; /* whether an added token begins with the byte */
    unsigned char *window;           /* the text not yet cut, in [cursor, end), well formed; one free byte before it */
    size_t capacity, cursor, end;
    size_t scanned;           /* no added token begins in [cursor, scanned) */
    size_t smallest;          /* cut no sooner than at so many bytes, at least 16 */
    size_t full;              /* cut once the window reaches this size */
    int segment_begins;       /* at the cursor begins a text, or what comes after an added token */
    unsigned char partial[4]; /* a sequence that the last chunk ended inside of */
    size_t partial_size;
} eitp__splitter;

/* `added` must outlive the splitter. */
EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_token *added,
                                       size_t added_count, int add_prefix_space, eitp__piece_sink sink, void *user);
EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter);

/* Forgets the text that was begun. */
EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter);

/* After a failure of these, or of the sink, which is passed on, reset or release it. */
EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error);
EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error);
/* <<src/text/pretokenize.h */

/* >>src/text/tokenizer.h */
/* What a tokenizer is made of, and how it is put together. */

#define EITP__END_OF_TEXT "<|endoftext|>"

/* The largest vocabulary that is taken. */
#define EITP__VOCABULARY_LIMIT ((size_t)16777216)

enum {
    EITP__TOKEN_PRESENT = 1,     /* has been given: only while it is put together */
    EITP__TOKEN_VERBATIM = 2,    /* files spell it as it is, not in the alphabet of bytes */
    EITP__TOKEN_ADDED = 4,       /* found in the text as it stands, before the pattern */
    EITP__TOKEN_SPECIAL = 8,     /* an added token that is no text */
    EITP__TOKEN_NORMALIZED = 16, /* a flag of added tokens that files keep; without a normalizer it changes nothing */
    EITP__TOKEN_OUTSIDE = 32     /* an added token that is not in the model's vocabulary */
};

typedef struct eitp__token {
    uint32_t offset, size; /* its bytes in eitp__vocabulary.bytes */
    unsigned char flags;
} eitp__token;

typedef struct eitp__vocabulary {
    eitp__buffer bytes;
    eitp__token *tokens; /* by id */
    size_t count;
} eitp__vocabulary;

struct eitp_tokenizer {
    eitp_host host;
    eitp__vocabulary vocabulary;
    eitp__bpe bpe;
    eitp__added_token *added;
    size_t added_count;
    int add_prefix_space;
    int32_t end_of_text;
    uint64_t fingerprint;
};

/* A tokenizer whose vocabulary has room for `count` tokens, none of them given, and for `merge_count` merges; destroy
   it with eitp_tokenizer_destroy. NULL where memory runs out, with *error filled in. */
EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_begin(const eitp_host *host, size_t count, size_t merge_count,
                                                    eitp_error *error);

/* Gives token `id`, which must be in the vocabulary and not given yet. */
EITP__PRIVATE eitp_status eitp__tokenizer_put(eitp_tokenizer *tokenizer, size_t id, const void *bytes, size_t size,
                                              unsigned flags, eitp_error *error);

/* Once tokens and merges are there: checks that every byte has a token, and makes all the rest. */
EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error);

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id);

/* eitp_tokenizer_load for the content of a tokenizer.json. */
EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error);
/* <<src/text/tokenizer.h */

/* >>src/data/permutation.h */
/* A random order of [0, size) that is computed place by place. */

/* Where `position`, below `size`, goes: for each (seed, epoch, size) a bijection on [0, size). */
EITP__PRIVATE uint64_t eitp__permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t position);
/* <<src/data/permutation.h */

/* >>src/data/token_header.h */
/* The 256 bytes that a token file begins with: docs/token-file.md. */

enum { EITP__TOKEN_HEADER_SIZE = 256, EITP__TOKEN_LLMC_HEADER_SIZE = 1024 };

/* What a file of eitp begins with; llm.c's begin with the number 20240520. */
enum { EITP__TOKEN_MAGIC_SIZE = 8 };
EITP__PRIVATE const char *eitp__token_magic(void);

EITP__PRIVATE void eitp__token_header_write(unsigned char bytes[EITP__TOKEN_HEADER_SIZE],
                                            const eitp_token_file_info *info);

/* Reads and checks the header of a file of `file_size` bytes that begins with `size` <= EITP__TOKEN_HEADER_SIZE bytes.
   *offset gets where the ids begin. Messages do not name the file. */
EITP__PRIVATE eitp_status eitp__token_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                  eitp_token_file_info *info, uint64_t *offset, eitp_error *error);

/* The content hash: FNV-1a of 64 bits with whole ids in the place of bytes. */
EITP__PRIVATE uint64_t eitp__token_hash_start(void);
EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count);
/* <<src/data/token_header.h */

/* >>src/data/token_writer.h */
/* Writes a token file: whole and synced under its name, or not at all. */

typedef struct eitp__token_writer {
    const eitp_host *host;
    char *path;
    char *partial_path; /* what is written until it is complete */
    int unfinished;     /* and it is there */
    eitp__file file;
    unsigned char *buffer;
    size_t buffered;
    uint64_t offset;  /* in the file, of the buffer */
    uint64_t *counts; /* [vocabulary_size], how often each id came */
    eitp_token_file_info info;
} eitp__token_writer;

/* Begins the file; ids will be below `vocabulary_size`. Whatever follows, eitp__token_writer_release must be called,
   also after a failure. */
EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error);

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error);

/* Completes writer->info, in which the caller has set what concerns the texts and the tokenizer, and puts the file in
   its place. */
EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error);

/* Removes the file where it was not finished, and releases the memory. */
EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer);
/* <<src/data/token_writer.h */

/* >>src/data/utf8_repair.h */
/* Bytes that should be UTF-8 become bytes that are, piece by piece. */

/* Takes UTF-8, never cut within a sequence; size > 0. */
typedef eitp_status (*eitp__utf8_sink)(void *user, const char *text, size_t size, eitp_error *error);

/* One text. Start from eitp__utf8_repair_init; it holds nothing that must be released. */
typedef struct eitp__utf8_repair {
    eitp__utf8_sink sink;
    void *user;
    unsigned char pending[4]; /* a sequence that goes on in the next piece */
    size_t pending_size;
    uint64_t offset;            /* of the next byte that is neither handed on nor pending, in the text */
    uint64_t invalid_bytes;     /* bytes replaced so far */
    uint64_t first_invalid;     /* offset of the first of them */
    unsigned char invalid_byte; /* and its value */
} eitp__utf8_repair;

EITP__PRIVATE void eitp__utf8_repair_init(eitp__utf8_repair *repair, eitp__utf8_sink sink, void *user);

/* The next `size` bytes of the text. Ill-formed parts reach the sink as U+FFFD. A failure of the sink is passed on. */
EITP__PRIVATE eitp_status eitp__utf8_repair_add(eitp__utf8_repair *repair, const char *text, size_t size,
                                                eitp_error *error);

/* The end of the text: a sequence that is not complete is ill-formed. */
EITP__PRIVATE eitp_status eitp__utf8_repair_finish(eitp__utf8_repair *repair, eitp_error *error);
/* <<src/data/utf8_repair.h */

/* >>src/data/path_walk.h */
/* Every file that a list of paths means, in a fixed order. */

/* Directories below a path of the list; deeper is an error, as a symbolic link to a parent would make it endless. */
enum { EITP__PATH_WALK_DEPTH = 32 };

/* A directory that is being gone through. */
typedef struct eitp__path_walk_level {
    char *path;
    eitp__buffer names; /* sorted, each with its zero byte */
    size_t next;        /* where the next name begins */
} eitp__path_walk_level;

typedef struct eitp__path_walk {
    const eitp_host *host;
    const char *const *paths;
    size_t path_count;
    size_t next_path;
    eitp__path_walk_level levels[EITP__PATH_WALK_DEPTH + 1];
    size_t depth;
    /* What was found last. */
    char *path;
    int named;     /* it is a path of the list, not found within a directory */
    uint64_t size; /* bytes */
} eitp__path_walk;

/* `host` and `paths` are not copied. */
EITP__PRIVATE void eitp__path_walk_init(eitp__path_walk *walk, const eitp_host *host, const char *const *paths,
                                        size_t path_count);

/*
 * Finds the next file; walk->path is NULL after the last. A regular file of the list is itself; a directory is every
 * regular file in it and below it, sorted by the bytes of the names level by level, and what is neither is passed over.
 * A path of the list that is missing or neither is an error.
 */
EITP__PRIVATE eitp_status eitp__path_walk_next(eitp__path_walk *walk, eitp_error *error);

EITP__PRIVATE void eitp__path_walk_release(eitp__path_walk *walk);
/* <<src/data/path_walk.h */

/* >>src/data/text_files.h */
/* The texts in files, document by document, piece by piece: what eitp_pack and eitp_text_files_source read. */

/* Goes to the next text that is not empty; *path, valid until the next call, is NULL after the last. */
EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error);

/* The next piece of that text, valid until the next call; *size is 0 at its end. */
EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error);
/* <<src/data/text_files.h */

/* >>src/io/safetensors.h */
/* Reading safetensors: one file, or the files that a model.safetensors.index.json names, as one collection of
   tensors. */

/* The largest header that the format's own library takes. */
#define EITP__SAFETENSORS_LARGEST_HEADER ((uint64_t)100000000)

typedef struct eitp__safetensors_entry {
    const char *name;    /* UTF-8 */
    char type[16];       /* as the file says it: "F32", "BF16", "F8_E4M3", ... */
    int dtype;           /* the eitp_dtype, or -1 where there is none (BOOL, I16, U16, F8_E4M3, ...) */
    size_t element_size; /* bytes; 0 where elements cannot be read (unknown types, parts of a byte) */
    int rank;            /* at most EITP_MAX_RANK */
    int64_t shape[EITP_MAX_RANK];
    int64_t count;   /* elements */
    uint64_t size;   /* bytes in the file */
    uint64_t offset; /* where they begin in the file */
    size_t part;     /* which file, from 0 */
} eitp__safetensors_entry;

typedef struct eitp__safetensors eitp__safetensors;

/*
 * Opens a file and checks all of its header: types and shapes fit the sizes, the tensors cover the data exactly,
 * without gap or overlap, no name comes twice. What is wrong is EITP_ERROR_FORMAT; more dimensions than EITP_MAX_RANK
 * EITP_ERROR_UNSUPPORTED. The memory taken is a small multiple of the header's bytes in the file.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error);

/*
 * Opens the index of a model in several files, and these files, which are in the same directory. The collection has the
 * tensors of the index's weight_map; each must be in the file that it names.
 */
EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error);

/* Closes the files; entries and their names are gone. NULL is fine. */
EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection);

/* Entries in the order of their names' bytes. */
EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index);
EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name);

/* The file that an entry is in. */
EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry);

/* A text of "__metadata__", of the first file that has it; NULL where none has. */
EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key);

/*
 * Reads elements [first, first + count) of an entry: as they are, or converted from F16, BF16 or F64 into f32 through
 * a small buffer. Where `crc` is not NULL, *crc goes on over the bytes in the file (base/checksum.h): begin with 0.
 */
EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error);

/* The format's name for a dtype: "F32", ...; NULL for a value that is no dtype. */
EITP__PRIVATE const char *eitp__safetensors_type(eitp_dtype dtype);
/* <<src/io/safetensors.h */

/* >>src/io/safetensors_writer.h */
/* Writing a safetensors file tensor by tensor, in pieces, without a second copy of the data. */

/* A tensor that the file will have. */
typedef struct eitp__safetensors_tensor {
    const char *name;
    eitp_dtype dtype; /* in the file */
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__safetensors_tensor;

/* A text for "__metadata__". Hugging Face's loader wants "format" to be "pt". */
typedef struct eitp__safetensors_text {
    const char *key;
    const char *value;
} eitp__safetensors_text;

typedef struct eitp__safetensors_writer eitp__safetensors_writer;

/*
 * Begins a file: writes its header to "<path>.tmp". The data begins at a multiple of 64 bytes; wider types come first,
 * so that every element is aligned in the file. Tensors and texts may be released afterwards.
 */
EITP__PRIVATE eitp_status eitp__safetensors_begin(const eitp_host *host, const char *path,
                                                  const eitp__safetensors_tensor *tensors, size_t count,
                                                  const eitp__safetensors_text *metadata, size_t metadata_count,
                                                  eitp__safetensors_writer **writer, eitp_error *error);

/*
 * Writes the next `count` elements of tensors[index]: as they are, or converted from f32 to its dtype (F32, F64, F16,
 * BF16) through a small buffer. Pieces of different tensors may come in any order. Where `crc` is not NULL, *crc goes
 * on over the bytes in the file (base/checksum.h): begin with 0.
 */
EITP__PRIVATE eitp_status eitp__safetensors_write(eitp__safetensors_writer *writer, size_t index, const void *data,
                                                  int64_t count, uint32_t *crc, eitp_error *error);
EITP__PRIVATE eitp_status eitp__safetensors_write_f32(eitp__safetensors_writer *writer, size_t index, const float *data,
                                                      int64_t count, uint32_t *crc, eitp_error *error);

/*
 * Checks that every tensor is whole, syncs, renames the file to its path and syncs the directory: there is the old file
 * or the new one, never a part. The writer is released, whatever the result.
 */
EITP__PRIVATE eitp_status eitp__safetensors_finish(eitp__safetensors_writer *writer, eitp_error *error);

/* Removes what was written and releases the writer. NULL is fine. */
EITP__PRIVATE void eitp__safetensors_abandon(eitp__safetensors_writer *writer);
/* <<src/io/safetensors_writer.h */

/* >>src/io/variables.h */
/* Reading one tensor of a file into a variable. */

/* Shapes must agree; an F32 variable takes F16, BF16 and F64 too. `checksum` goes on, as in eitp__safetensors_read. */
EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, uint32_t *checksum,
                                                    eitp_error *error);
/* <<src/io/variables.h */

/* >>src/train/evaluate.h */
/* A plan that gives the loss of each token: for training windows and for evaluation. */

/* Targets that carry no loss; the value that PyTorch ignores. */
#define EITP__IGNORED_TARGET (-100)

/* Host buffers for a batch of windows. */
typedef struct eitp__batch {
    eitp_host host;
    int64_t sequences, longest;            /* capacity */
    int32_t *tokens, *targets, *positions; /* [sequences * longest] */
    int32_t *offsets;                      /* [sequences + 1] */
    float *losses;                         /* [sequences * longest] */
} eitp__batch;

EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, int64_t sequences, int64_t longest,
                                             eitp__batch *batch, eitp_error *error);
EITP__PRIVATE void eitp__batch_release(eitp__batch *batch);

/* Reads samples [first, first + count) into the batch; checks every token against the vocabulary. */
EITP__PRIVATE eitp_status eitp__batch_read(eitp__batch *batch, const eitp_windows *windows, uint64_t first,
                                           int64_t count, int64_t vocabulary, eitp_error *error);

/* Writes the first `count` sequences to a plan's inputs and sets its rows. */
EITP__PRIVATE eitp_status eitp__batch_write(const eitp__batch *batch, int64_t count, eitp_plan *plan,
                                            const eitp_model_inputs *inputs, eitp_tensor *targets, eitp_error *error);

/* Reads the losses of `count` sequences; adds them to *sum and the number of valid targets to *valid. */
EITP__PRIVATE eitp_status eitp__batch_losses(eitp__batch *batch, int64_t count, eitp_plan *plan, eitp_tensor *losses,
                                             double *sum, int64_t *valid, eitp_error *error);

/* A forward plan with losses. */
typedef struct eitp__evaluator {
    const eitp_model *model;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    int64_t sequences, longest;
} eitp__evaluator;

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_model *model, int64_t sequences, int64_t longest,
                                                 eitp__evaluator *evaluator, eitp_error *error);
EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator);

/* The mean loss on the first `count` windows, in order. */
EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp__batch *batch,
                                              const eitp_windows *windows, uint64_t count, eitp_evaluation *evaluation,
                                              eitp_error *error);
/* <<src/train/evaluate.h */

/* >>src/train/trainer.h */
/* The trainer's inside, shared by its steps and its checkpoints. */

struct eitp_trainer {
    eitp_host host;
    eitp_model *model;
    const eitp_tokenizer *tokenizer;
    const eitp_token_file *training_file;
    eitp_trainer_config config;
    eitp_windows windows, validation;
    int validates;

    /* One micro-batch: forward, backward, gradients added to their variables. */
    eitp_graph *micro_graph;
    eitp_plan *micro_plan;
    eitp_model_inputs inputs;
    eitp_tensor *targets, *losses;
    eitp_tensor *weight; /* F32 [1]: 1 / targets of the step */
    eitp_tensor *carry;  /* F32 [1]: 0 for the first micro-batch */

    /* The update. */
    eitp_graph *update_graph;
    eitp_plan *update_plan;
    eitp_update update;

    eitp__evaluator evaluator;
    eitp__batch *batches; /* one for each micro-batch of a step */
    eitp__batch evaluation_batch;
    int64_t step; /* steps made */
};
/* <<src/train/trainer.h */

/* >>src/base/status.c */
static const char *const eitp__status_names[] = {
    "ok",         "bad argument", "bad content",  "unsupported", "out of memory",
    "low memory", "not finite",   "input/output", "interrupted", "internal error",
};

const char *eitp_status_name(eitp_status status) {
    size_t index = (size_t)status;
    return index < EITP__COUNT(eitp__status_names) ? eitp__status_names[index] : "unknown status";
}

EITP__PRIVATE eitp_status eitp__fail(eitp_error *error, eitp_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        error->status = status;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__fail_memory(eitp_error *error, size_t size, const char *what) {
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "cannot allocate %.1f MB for %s; free memory or choose a smaller model, batch or block size",
                      (double)size / 1e6, what);
}

/* Adds what fits of `addition` to the text in `text`. */
static void eitp__append(char *text, size_t capacity, const char *addition) {
    size_t length = strlen(text), room = capacity - 1 - length, added = strlen(addition);
    if (added > room)
        added = room;
    memcpy(text + length, addition, added);
    text[length + added] = 0;
}

EITP__PRIVATE eitp_status eitp__fail_prefix(eitp_error *error, eitp_status status, const char *format, ...) {
    if (error) {
        char message[sizeof error->message];
        va_list arguments;
        memcpy(message, error->message, sizeof message);
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        eitp__append(error->message, sizeof error->message, ": ");
        eitp__append(error->message, sizeof error->message, message);
    }
    return status;
}
/* <<src/base/status.c */

/* >>src/base/memory.c */
EITP__PRIVATE void *eitp__allocate_uninitialized(const eitp_host *host, size_t size) {
    return size ? host->allocator.allocate(host->allocator.user, size, EITP__ALIGNMENT) : NULL;
}

EITP__PRIVATE void *eitp__allocate(const eitp_host *host, size_t size) {
    void *memory = eitp__allocate_uninitialized(host, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

EITP__PRIVATE void eitp__release(const eitp_host *host, void *memory, size_t size) {
    if (memory)
        host->allocator.release(host->allocator.user, memory, size);
}

EITP__PRIVATE int eitp__multiply_size(size_t a, size_t b, size_t *product) {
    if (a && b > SIZE_MAX / a)
        return 0;
    *product = a * b;
    return 1;
}

EITP__PRIVATE int eitp__add_size(size_t a, size_t b, size_t *sum) {
    if (b > SIZE_MAX - a)
        return 0;
    *sum = a + b;
    return 1;
}

EITP__PRIVATE int eitp__reserve(const eitp_host *host, void **array, size_t *capacity, size_t needed, size_t element) {
    size_t grown = *capacity ? *capacity : 16, bytes;
    void *memory;
    if (needed <= *capacity)
        return 1;
    while (grown < needed) {
        if (!eitp__add_size(grown, grown / 2, &grown))
            return 0;
    }
    if (!eitp__multiply_size(grown, element, &bytes))
        return 0;
    memory = eitp__allocate_uninitialized(host, bytes);
    if (!memory)
        return 0;
    if (*array)
        memcpy(memory, *array, *capacity * element);
    eitp__release(host, *array, *capacity * element);
    *array = memory;
    *capacity = grown;
    return 1;
}

EITP__PRIVATE void eitp__buffer_init(eitp__buffer *buffer, const eitp_host *host) {
    memset(buffer, 0, sizeof *buffer);
    buffer->host = host;
}

EITP__PRIVATE void eitp__buffer_release(eitp__buffer *buffer) {
    eitp__release(buffer->host, buffer->data, buffer->capacity);
    eitp__buffer_init(buffer, buffer->host);
}

EITP__PRIVATE void eitp__buffer_clear(eitp__buffer *buffer) {
    buffer->size = 0;
    buffer->failed = 0;
    if (buffer->data)
        buffer->data[0] = 0;
}

EITP__PRIVATE void eitp__buffer_add(eitp__buffer *buffer, const void *data, size_t size) {
    size_t needed;
    if (buffer->failed)
        return;
    if (!eitp__add_size(buffer->size, size, &needed) || !eitp__add_size(needed, 1, &needed) ||
        !eitp__reserve(buffer->host, (void **)&buffer->data, &buffer->capacity, needed, 1)) {
        buffer->failed = 1;
        return;
    }
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = 0;
}

EITP__PRIVATE void eitp__buffer_add_text(eitp__buffer *buffer, const char *text) {
    eitp__buffer_add(buffer, text, strlen(text));
}

EITP__PRIVATE void eitp__buffer_format(eitp__buffer *buffer, const char *format, ...) {
    char small[256];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->failed = 1;
    } else if ((size_t)length < sizeof small) {
        eitp__buffer_add(buffer, small, (size_t)length);
    } else if (!buffer->failed) {
        if (!eitp__reserve(buffer->host, (void **)&buffer->data, &buffer->capacity, buffer->size + (size_t)length + 1,
                           1)) {
            buffer->failed = 1;
            return;
        }
        va_start(arguments, format);
        vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
        va_end(arguments);
        buffer->size += (size_t)length;
    }
}

EITP__PRIVATE char *eitp__copy_bytes(const eitp_host *host, const void *data, size_t size) {
    char *copy = (char *)eitp__allocate_uninitialized(host, size + 1);
    if (copy) {
        if (size)
            memcpy(copy, data, size);
        copy[size] = 0;
    }
    return copy;
}

EITP__PRIVATE char *eitp__copy_text(const eitp_host *host, const char *text) {
    return eitp__copy_bytes(host, text, strlen(text));
}

EITP__PRIVATE void eitp__release_text(const eitp_host *host, char *text) {
    if (text)
        eitp__release(host, text, strlen(text) + 1);
}
/* <<src/base/memory.c */

/* >>src/base/log.c */
EITP__PRIVATE void eitp__log(const eitp_host *host, eitp_log_level level, const char *format, ...) {
    char message[1024];
    va_list arguments;
    if (!host->log.write)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    host->log.write(host->log.user, level, message);
}
/* <<src/base/log.c */

/* >>src/base/checksum.c */
/*
 * Eight bytes at a time: slice k of the table holds, for each value of a byte, the remainder of that byte followed by
 * k zero bytes. The remainder of a sum is the sum of the remainders, so each entry is the exclusive or of those of its
 * bits, and the compiler makes the table of eight constants a slice.
 */
#define EITP__CRC32C_ENTRY(n, a, b, c, d, e, f, g, h)                                                                  \
    ((n)&1 ? (a) : 0u) ^ ((n)&2 ? (b) : 0u) ^ ((n)&4 ? (c) : 0u) ^ ((n)&8 ? (d) : 0u) ^ ((n)&16 ? (e) : 0u) ^          \
        ((n)&32 ? (f) : 0u) ^ ((n)&64 ? (g) : 0u) ^ ((n)&128 ? (h) : 0u)
#define EITP__CRC32C_4(n, a, b, c, d, e, f, g, h)                                                                      \
    EITP__CRC32C_ENTRY(n, a, b, c, d, e, f, g, h), EITP__CRC32C_ENTRY((n) + 1, a, b, c, d, e, f, g, h),                \
        EITP__CRC32C_ENTRY((n) + 2, a, b, c, d, e, f, g, h), EITP__CRC32C_ENTRY((n) + 3, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_16(n, a, b, c, d, e, f, g, h)                                                                     \
    EITP__CRC32C_4(n, a, b, c, d, e, f, g, h), EITP__CRC32C_4((n) + 4, a, b, c, d, e, f, g, h),                        \
        EITP__CRC32C_4((n) + 8, a, b, c, d, e, f, g, h), EITP__CRC32C_4((n) + 12, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_64(n, a, b, c, d, e, f, g, h)                                                                     \
    EITP__CRC32C_16(n, a, b, c, d, e, f, g, h), EITP__CRC32C_16((n) + 16, a, b, c, d, e, f, g, h),                     \
        EITP__CRC32C_16((n) + 32, a, b, c, d, e, f, g, h), EITP__CRC32C_16((n) + 48, a, b, c, d, e, f, g, h)
#define EITP__CRC32C_SLICE(a, b, c, d, e, f, g, h)                                                                     \
    {                                                                                                                  \
        EITP__CRC32C_64(0, a, b, c, d, e, f, g, h), EITP__CRC32C_64(64, a, b, c, d, e, f, g, h),                       \
            EITP__CRC32C_64(128, a, b, c, d, e, f, g, h), EITP__CRC32C_64(192, a, b, c, d, e, f, g, h)                 \
    }

static const uint32_t eitp__crc32c_table[8][256] = {
    EITP__CRC32C_SLICE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu,
                       0x82f63b78u),
    EITP__CRC32C_SLICE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u, 0xff17c604u,
                       0xfbc3faf9u),
    EITP__CRC32C_SLICE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u, 0xc76580d9u,
                       0x8b277743u),
    EITP__CRC32C_SLICE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu, 0xaba65fe7u,
                       0x52a0c93fu),
    EITP__CRC32C_SLICE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu,
                       0x6ea2d55cu),
    EITP__CRC32C_SLICE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du, 0x0e045bebu,
                       0x1c08b7d6u),
    EITP__CRC32C_SLICE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au,
                       0xf56e0ef4u),
    EITP__CRC32C_SLICE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u, 0x1a00cb32u,
                       0x34019664u),
};

static uint32_t eitp__load_little_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

EITP__PRIVATE uint32_t eitp__crc32c(uint32_t crc, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    const uint32_t(*table)[256] = eitp__crc32c_table;
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint32_t low = crc ^ eitp__load_little_endian(bytes), high = eitp__load_little_endian(bytes + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; size; size--, bytes++)
        crc = table[0][(crc ^ *bytes) & 255] ^ crc >> 8;
    return ~crc;
}
/* <<src/base/checksum.c */

/* >>src/base/convert.c */
static float eitp__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t eitp__bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* `bits` without the lowest `drop` ones, rounded to the nearest, ties to even. */
static uint32_t eitp__round_bits(uint32_t bits, unsigned drop) {
    return (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
}

EITP__PRIVATE float eitp__f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity and NaN */
        return eitp__float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400)
        return eitp__float_of_bits(sign | ((magnitude << 13) + ((uint32_t)(127 - 15) << 23)));
    /* Zero and the subnormals are multiples of 2^-24, which f32 holds exactly. */
    return eitp__float_of_bits(sign | eitp__bits_of_float((float)magnitude * 5.9604644775390625e-8f));
}

EITP__PRIVATE uint16_t eitp__f32_to_f16(float value) {
    uint32_t bits = eitp__bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff, result;
    if (magnitude > 0x7f800000) {
        result = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x47800000) { /* 2^16 and up */
        result = 0x7c00;
    } else if (magnitude >= 0x38800000) { /* 2^-14 and up: a normal f16, or the infinity that rounding carries into */
        result = eitp__round_bits(magnitude - ((uint32_t)(127 - 15) << 23), 13);
    } else if (magnitude >= 0x33000000) { /* 2^-25 and up: a subnormal, in units of 2^-24 */
        result = eitp__round_bits((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
    } else {
        result = 0;
    }
    return (uint16_t)(sign | result);
}

EITP__PRIVATE float eitp__bf16_to_f32(uint16_t bits) {
    return eitp__float_of_bits((uint32_t)bits << 16);
}

EITP__PRIVATE uint16_t eitp__f32_to_bf16(float value) {
    uint32_t bits = eitp__bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)eitp__round_bits(bits, 16);
}

EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype) {
    return dtype == EITP_F32 || dtype == EITP_F64 || dtype == EITP_F16 || dtype == EITP_BF16;
}

EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count) {
    const unsigned char *bytes = (const unsigned char *)source;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *destination);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = (float)value;
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = dtype == EITP_F16 ? eitp__f16_to_f32(value) : eitp__bf16_to_f32(value);
        }
    }
}

EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count) {
    unsigned char *bytes = (unsigned char *)destination;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *source);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value = (double)source[i];
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value = dtype == EITP_F16 ? eitp__f32_to_f16(source[i]) : eitp__f32_to_bf16(source[i]);
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    }
}
/* <<src/base/convert.c */

/* >>src/base/random.c */
EITP__PRIVATE uint64_t eitp__random_bits(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {
    uint32_t words[4];
    eitp__philox(seed, step, stream, index, words);
    return ((uint64_t)words[1] << 32) | words[0];
}

EITP__PRIVATE double eitp__random_uniform(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {
    return (double)(eitp__random_bits(seed, step, stream, index) >> 11) * (1.0 / 9007199254740992.0);
}

EITP__PRIVATE void eitp__random_normal(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index, double pair[2]) {
    uint32_t words[4];
    double radius, angle;
    eitp__philox(seed, step, stream, index, words);
    /* 1 - u is in (0, 1], so the logarithm is finite. */
    radius = sqrt(-2.0 * log(1.0 - ((double)words[0] * 4294967296.0 + (double)words[1]) / 18446744073709551616.0 *
                                       (1.0 - 1.0 / 9007199254740992.0)));
    angle = 6.283185307179586476925 * (((double)words[2] * 4294967296.0 + (double)words[3]) / 18446744073709551616.0);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}
/* <<src/base/random.c */

/* >>src/base/sort.c */
/* The C library's qsort may allocate, and may be quadratic on input that was made to be so. */

static void eitp__swap_items(unsigned char *a, unsigned char *b, size_t size) {
    unsigned char held[64];
    while (size) {
        size_t part = size < sizeof held ? size : sizeof held;
        memcpy(held, a, part);
        memcpy(a, b, part);
        memcpy(b, held, part);
        a += part;
        b += part;
        size -= part;
    }
}

/* Moves the item at `root` down until neither child is larger: items[0, count) from `root` on are a heap again. */
static void eitp__sift_down(unsigned char *items, size_t root, size_t count, size_t size,
                            int (*compare)(const void *a, const void *b)) {
    size_t child;
    while (root < count / 2) {
        child = 2 * root + 1;
        if (child + 1 < count && compare(items + child * size, items + (child + 1) * size) < 0)
            child++;
        if (compare(items + root * size, items + child * size) >= 0)
            return;
        eitp__swap_items(items + root * size, items + child * size, size);
        root = child;
    }
}

EITP__PRIVATE void eitp__sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b)) {
    unsigned char *bytes = (unsigned char *)items;
    for (size_t i = count / 2; i-- > 0;)
        eitp__sift_down(bytes, i, count, size, compare);
    for (size_t end = count; end-- > 1;) {
        eitp__swap_items(bytes, bytes + end * size, size);
        eitp__sift_down(bytes, 0, end, size, compare);
    }
}
/* <<src/base/sort.c */

/* >>src/base/threads.c */
#include <unistd.h>
#if EITP__WITH_OPENMP
#include <omp.h>
#endif

EITP__PRIVATE int eitp__processor_count(void) {
#if EITP__WITH_OPENMP
    return omp_get_num_procs();
#else
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
#endif
}

EITP__PRIVATE int eitp__thread_limit(void) {
#if EITP__WITH_OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument) {
#if EITP__WITH_OPENMP
    if (threads > 1 && pieces > 1) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t piece = 0; piece < pieces; piece++)
            work(argument, piece, omp_get_thread_num());
        return;
    }
#else
    (void)threads;
#endif
    for (int64_t piece = 0; piece < pieces; piece++)
        work(argument, piece, 0);
}
/* <<src/base/threads.c */

/* >>src/base/unicode.c */

/* >>src/base/unicode_tables.inc */
/* Made by tools/make_unicode_tables.py from Unicode 16.0.0: where the class of code points changes, as
   code point << 2 | class (0 other, 1 letter, 2 number, 3 white space). */
static const uint32_t eitp__unicode_changes[] = {
    0x0, 0x27, 0x38, 0x83, 0x84, 0xC2, 0xE8, 0x105, 0x16C, 0x185, 0x1EC, 0x217, 0x218, 0x283, 0x284, 0x2A9, 0x2AC,
    0x2CA, 0x2D0, 0x2D5, 0x2D8, 0x2E6, 0x2E9, 0x2EC, 0x2F2, 0x2FC, 0x301, 0x35C, 0x361, 0x3DC, 0x3E1, 0xB08, 0xB19,
    0xB48, 0xB81, 0xB94, 0xBB1, 0xBB4, 0xBB9, 0xBBC, 0xDC1, 0xDD4, 0xDD9, 0xDE0, 0xDE9, 0xDF8, 0xDFD, 0xE00, 0xE19,
    0xE1C, 0xE21, 0xE2C, 0xE31, 0xE34, 0xE39, 0xE88, 0xE8D, 0xFD8, 0xFDD, 0x1208, 0x1229, 0x14C0, 0x14C5, 0x155C,
    0x1565, 0x1568, 0x1581, 0x1624, 0x1741, 0x17AC, 0x17BD, 0x17CC, 0x1881, 0x192C, 0x1982, 0x19A8, 0x19B9, 0x19C0,
    0x19C5, 0x1B50, 0x1B55, 0x1B58, 0x1B95, 0x1B9C, 0x1BB9, 0x1BC2, 0x1BE9, 0x1BF4, 0x1BFD, 0x1C00, 0x1C41, 0x1C44,
    0x1C49, 0x1CC0, 0x1D35, 0x1E98, 0x1EC5, 0x1EC8, 0x1F02, 0x1F29, 0x1FAC, 0x1FD1, 0x1FD8, 0x1FE9, 0x1FEC, 0x2001,
    0x2058, 0x2069, 0x206C, 0x2091, 0x2094, 0x20A1, 0x20A4, 0x2101, 0x2164, 0x2181, 0x21AC, 0x21C1, 0x2220, 0x2225,
    0x223C, 0x2281, 0x2328, 0x2411, 0x24E8, 0x24F5, 0x24F8, 0x2541, 0x2544, 0x2561, 0x2588, 0x259A, 0x25C0, 0x25C5,
    0x2604, 0x2615, 0x2634, 0x263D, 0x2644, 0x264D, 0x26A4, 0x26A9, 0x26C4, 0x26C9, 0x26CC, 0x26D9, 0x26E8, 0x26F5,
    0x26F8, 0x2739, 0x273C, 0x2771, 0x2778, 0x277D, 0x2788, 0x279A, 0x27C1, 0x27C8, 0x27D2, 0x27E8, 0x27F1, 0x27F4,
    0x2815, 0x282C, 0x283D, 0x2844, 0x284D, 0x28A4, 0x28A9, 0x28C4, 0x28C9, 0x28D0, 0x28D5, 0x28DC, 0x28E1, 0x28E8,
    0x2965, 0x2974, 0x2979, 0x297C, 0x299A, 0x29C0, 0x29C9, 0x29D4, 0x2A15, 0x2A38, 0x2A3D, 0x2A48, 0x2A4D, 0x2AA4,
    0x2AA9, 0x2AC4, 0x2AC9, 0x2AD0, 0x2AD5, 0x2AE8, 0x2AF5, 0x2AF8, 0x2B41, 0x2B44, 0x2B81, 0x2B88, 0x2B9A, 0x2BC0,
    0x2BE5, 0x2BE8, 0x2C15, 0x2C34, 0x2C3D, 0x2C44, 0x2C4D, 0x2CA4, 0x2CA9, 0x2CC4, 0x2CC9, 0x2CD0, 0x2CD5, 0x2CE8,
    0x2CF5, 0x2CF8, 0x2D71, 0x2D78, 0x2D7D, 0x2D88, 0x2D9A, 0x2DC0, 0x2DC5, 0x2DCA, 0x2DE0, 0x2E0D, 0x2E10, 0x2E15,
    0x2E2C, 0x2E39, 0x2E44, 0x2E49, 0x2E58, 0x2E65, 0x2E6C, 0x2E71, 0x2E74, 0x2E79, 0x2E80, 0x2E8D, 0x2E94, 0x2EA1,
    0x2EAC, 0x2EB9, 0x2EE8, 0x2F41, 0x2F44, 0x2F9A, 0x2FCC, 0x3015, 0x3034, 0x3039, 0x3044, 0x3049, 0x30A4, 0x30A9,
    0x30E8, 0x30F5, 0x30F8, 0x3161, 0x316C, 0x3175, 0x3178, 0x3181, 0x3188, 0x319A, 0x31C0, 0x31E2, 0x31FC, 0x3201,
    0x3204, 0x3215, 0x3234, 0x3239, 0x3244, 0x3249, 0x32A4, 0x32A9, 0x32D0, 0x32D5, 0x32E8, 0x32F5, 0x32F8, 0x3375,
    0x337C, 0x3381, 0x3388, 0x339A, 0x33C0, 0x33C5, 0x33CC, 0x3411, 0x3434, 0x3439, 0x3444, 0x3449, 0x34EC, 0x34F5,
    0x34F8, 0x3539, 0x353C, 0x3551, 0x355C, 0x3562, 0x357D, 0x3588, 0x359A, 0x35E4, 0x35E9, 0x3600, 0x3615, 0x365C,
    0x3669, 0x36C8, 0x36CD, 0x36F0, 0x36F5, 0x36F8, 0x3701, 0x371C, 0x379A, 0x37C0, 0x3805, 0x38C4, 0x38C9, 0x38D0,
    0x3901, 0x391C, 0x3942, 0x3968, 0x3A05, 0x3A0C, 0x3A11, 0x3A14, 0x3A19, 0x3A2C, 0x3A31, 0x3A90, 0x3A95, 0x3A98,
    0x3A9D, 0x3AC4, 0x3AC9, 0x3AD0, 0x3AF5, 0x3AF8, 0x3B01, 0x3B14, 0x3B19, 0x3B1C, 0x3B42, 0x3B68, 0x3B71, 0x3B80,
    0x3C01, 0x3C04, 0x3C82, 0x3CD0, 0x3D01, 0x3D20, 0x3D25, 0x3DB4, 0x3E21, 0x3E34, 0x4001, 0x40AC, 0x40FD, 0x4102,
    0x4128, 0x4141, 0x4158, 0x4169, 0x4178, 0x4185, 0x4188, 0x4195, 0x419C, 0x41B9, 0x41C4, 0x41D5, 0x4208, 0x4239,
    0x423C, 0x4242, 0x4268, 0x4281, 0x4318, 0x431D, 0x4320, 0x4335, 0x4338, 0x4341, 0x43EC, 0x43F1, 0x4924, 0x4929,
    0x4938, 0x4941, 0x495C, 0x4961, 0x4964, 0x4969, 0x4978, 0x4981, 0x4A24, 0x4A29, 0x4A38, 0x4A41, 0x4AC4, 0x4AC9,
    0x4AD8, 0x4AE1, 0x4AFC, 0x4B01, 0x4B04, 0x4B09, 0x4B18, 0x4B21, 0x4B5C, 0x4B61, 0x4C44, 0x4C49, 0x4C58, 0x4C61,
    0x4D6C, 0x4DA6, 0x4DF4, 0x4E01, 0x4E40, 0x4E81, 0x4FD8, 0x4FE1, 0x4FF8, 0x5005, 0x59B4, 0x59BD, 0x5A03, 0x5A05,
    0x5A6C, 0x5A81, 0x5BAC, 0x5BBA, 0x5BC5, 0x5BE4, 0x5C01, 0x5C48, 0x5C7D, 0x5CC8, 0x5D01, 0x5D48, 0x5D81, 0x5DB4,
    0x5DB9, 0x5DC4, 0x5E01, 0x5ED0, 0x5F5D, 0x5F60, 0x5F71, 0x5F74, 0x5F82, 0x5FA8, 0x5FC2, 0x5FE8, 0x6042, 0x6068,
    0x6081, 0x61E4, 0x6201, 0x6214, 0x621D, 0x62A4, 0x62A9, 0x62AC, 0x62C1, 0x63D8, 0x6401, 0x647C, 0x651A, 0x6541,
    0x65B8, 0x65C1, 0x65D4, 0x6601, 0x66B0, 0x66C1, 0x6728, 0x6742, 0x676C, 0x6801, 0x685C, 0x6881, 0x6954, 0x6A02,
    0x6A28, 0x6A42, 0x6A68, 0x6A9D, 0x6AA0, 0x6C15, 0x6CD0, 0x6D15, 0x6D34, 0x6D42, 0x6D68, 0x6E0D, 0x6E84, 0x6EB9,
    0x6EC2, 0x6EE9, 0x6F98, 0x7001, 0x7090, 0x7102, 0x7128, 0x7135, 0x7142, 0x7169, 0x71F8, 0x7201, 0x722C, 0x7241,
    0x72EC, 0x72F5, 0x7300, 0x73A5, 0x73B4, 0x73B9, 0x73D0, 0x73D5, 0x73DC, 0x73E9, 0x73EC, 0x7401, 0x7700, 0x7801,
    0x7C58, 0x7C61, 0x7C78, 0x7C81, 0x7D18, 0x7D21, 0x7D38, 0x7D41, 0x7D60, 0x7D65, 0x7D68, 0x7D6D, 0x7D70, 0x7D75,
    0x7D78, 0x7D7D, 0x7DF8, 0x7E01, 0x7ED4, 0x7ED9, 0x7EF4, 0x7EF9, 0x7EFC, 0x7F09, 0x7F14, 0x7F19, 0x7F34, 0x7F41,
    0x7F50, 0x7F59, 0x7F70, 0x7F81, 0x7FB4, 0x7FC9, 0x7FD4, 0x7FD9, 0x7FF4, 0x8003, 0x802C, 0x80A3, 0x80A8, 0x80BF,
    0x80C0, 0x817F, 0x8180, 0x81C2, 0x81C5, 0x81C8, 0x81D2, 0x81E8, 0x81FD, 0x8202, 0x8228, 0x8241, 0x8274, 0x8409,
    0x840C, 0x841D, 0x8420, 0x8429, 0x8450, 0x8455, 0x8458, 0x8465, 0x8478, 0x8491, 0x8494, 0x8499, 0x849C, 0x84A1,
    0x84A4, 0x84A9, 0x84B8, 0x84BD, 0x84E8, 0x84F1, 0x8500, 0x8515, 0x8528, 0x8539, 0x853C, 0x8542, 0x860D, 0x8616,
    0x8628, 0x9182, 0x9270, 0x93AA, 0x9400, 0x9DDA, 0x9E50, 0xB001, 0xB394, 0xB3AD, 0xB3BC, 0xB3C9, 0xB3D0, 0xB3F6,
    0xB3F8, 0xB401, 0xB498, 0xB49D, 0xB4A0, 0xB4B5, 0xB4B8, 0xB4C1, 0xB5A0, 0xB5BD, 0xB5C0, 0xB601, 0xB65C, 0xB681,
    0xB69C, 0xB6A1, 0xB6BC, 0xB6C1, 0xB6DC, 0xB6E1, 0xB6FC, 0xB701, 0xB71C, 0xB721, 0xB73C, 0xB741, 0xB75C, 0xB761,
    0xB77C, 0xB8BD, 0xB8C0, 0xC003, 0xC004, 0xC015, 0xC01E, 0xC020, 0xC086, 0xC0A8, 0xC0C5, 0xC0D8, 0xC0E2, 0xC0ED,
    0xC0F4, 0xC105, 0xC25C, 0xC275, 0xC280, 0xC285, 0xC3EC, 0xC3F1, 0xC400, 0xC415, 0xC4C0, 0xC4C5, 0xC63C, 0xC64A,
    0xC658, 0xC681, 0xC700, 0xC7C1, 0xC800, 0xC882, 0xC8A8, 0xC922, 0xC940, 0xC946, 0xC980, 0xCA02, 0xCA28, 0xCAC6,
    0xCB00, 0xD001, 0x13700, 0x13801, 0x29234, 0x29341, 0x293F8, 0x29401, 0x29834, 0x29841, 0x29882, 0x298A9, 0x298B0,
    0x29901, 0x299BC, 0x299FD, 0x29A78, 0x29A81, 0x29B9A, 0x29BC0, 0x29C5D, 0x29C80, 0x29C89, 0x29E24, 0x29E2D, 0x29F38,
    0x29F41, 0x29F48, 0x29F4D, 0x29F50, 0x29F55, 0x29F74, 0x29FC9, 0x2A008, 0x2A00D, 0x2A018, 0x2A01D, 0x2A02C, 0x2A031,
    0x2A08C, 0x2A0C2, 0x2A0D8, 0x2A101, 0x2A1D0, 0x2A209, 0x2A2D0, 0x2A342, 0x2A368, 0x2A3C9, 0x2A3E0, 0x2A3ED, 0x2A3F0,
    0x2A3F5, 0x2A3FC, 0x2A402, 0x2A429, 0x2A498, 0x2A4C1, 0x2A51C, 0x2A581, 0x2A5F4, 0x2A611, 0x2A6CC, 0x2A73D, 0x2A742,
    0x2A768, 0x2A781, 0x2A794, 0x2A799, 0x2A7C2, 0x2A7E9, 0x2A7FC, 0x2A801, 0x2A8A4, 0x2A901, 0x2A90C, 0x2A911, 0x2A930,
    0x2A942, 0x2A968, 0x2A981, 0x2A9DC, 0x2A9E9, 0x2A9EC, 0x2A9F9, 0x2AAC0, 0x2AAC5, 0x2AAC8, 0x2AAD5, 0x2AADC, 0x2AAE5,
    0x2AAF8, 0x2AB01, 0x2AB04, 0x2AB09, 0x2AB0C, 0x2AB6D, 0x2AB78, 0x2AB81, 0x2ABAC, 0x2ABC9, 0x2ABD4, 0x2AC05, 0x2AC1C,
    0x2AC25, 0x2AC3C, 0x2AC45, 0x2AC5C, 0x2AC81, 0x2AC9C, 0x2ACA1, 0x2ACBC, 0x2ACC1, 0x2AD6C, 0x2AD71, 0x2ADA8, 0x2ADC1,
    0x2AF8C, 0x2AFC2, 0x2AFE8, 0x2B001, 0x35E90, 0x35EC1, 0x35F1C, 0x35F2D, 0x35FF0, 0x3E401, 0x3E9B8, 0x3E9C1, 0x3EB68,
    0x3EC01, 0x3EC1C, 0x3EC4D, 0x3EC60, 0x3EC75, 0x3EC78, 0x3EC7D, 0x3ECA4, 0x3ECA9, 0x3ECDC, 0x3ECE1, 0x3ECF4, 0x3ECF9,
    0x3ECFC, 0x3ED01, 0x3ED08, 0x3ED0D, 0x3ED14, 0x3ED19, 0x3EEC8, 0x3EF4D, 0x3F4F8, 0x3F541, 0x3F640, 0x3F649, 0x3F720,
    0x3F7C1, 0x3F7F0, 0x3F9C1, 0x3F9D4, 0x3F9D9, 0x3FBF4, 0x3FC42, 0x3FC68, 0x3FC85, 0x3FCEC, 0x3FD05, 0x3FD6C, 0x3FD99,
    0x3FEFC, 0x3FF09, 0x3FF20, 0x3FF29, 0x3FF40, 0x3FF49, 0x3FF60, 0x3FF69, 0x3FF74, 0x40001, 0x40030, 0x40035, 0x4009C,
    0x400A1, 0x400EC, 0x400F1, 0x400F8, 0x400FD, 0x40138, 0x40141, 0x40178, 0x40201, 0x403EC, 0x4041E, 0x404D0, 0x40502,
    0x405E4, 0x4062A, 0x40630, 0x40A01, 0x40A74, 0x40A81, 0x40B44, 0x40B86, 0x40BF0, 0x40C01, 0x40C82, 0x40C90, 0x40CB5,
    0x40D06, 0x40D09, 0x40D2A, 0x40D2C, 0x40D41, 0x40DD8, 0x40E01, 0x40E78, 0x40E81, 0x40F10, 0x40F21, 0x40F40, 0x40F46,
    0x40F58, 0x41001, 0x41278, 0x41282, 0x412A8, 0x412C1, 0x41350, 0x41361, 0x413F0, 0x41401, 0x414A0, 0x414C1, 0x41590,
    0x415C1, 0x415EC, 0x415F1, 0x4162C, 0x41631, 0x4164C, 0x41651, 0x41658, 0x4165D, 0x41688, 0x4168D, 0x416C8, 0x416CD,
    0x416E8, 0x416ED, 0x416F4, 0x41701, 0x417D0, 0x41801, 0x41CDC, 0x41D01, 0x41D58, 0x41D81, 0x41DA0, 0x41E01, 0x41E18,
    0x41E1D, 0x41EC4, 0x41EC9, 0x41EEC, 0x42001, 0x42018, 0x42021, 0x42024, 0x42029, 0x420D8, 0x420DD, 0x420E4, 0x420F1,
    0x420F4, 0x420FD, 0x42158, 0x42162, 0x42181, 0x421DC, 0x421E6, 0x42201, 0x4227C, 0x4229E, 0x422C0, 0x42381, 0x423CC,
    0x423D1, 0x423D8, 0x423EE, 0x42401, 0x4245A, 0x42470, 0x42481, 0x424E8, 0x42601, 0x426E0, 0x426F2, 0x426F9, 0x42702,
    0x42740, 0x4274A, 0x42801, 0x42804, 0x42841, 0x42850, 0x42855, 0x42860, 0x42865, 0x428D8, 0x42902, 0x42924, 0x42981,
    0x429F6, 0x429FC, 0x42A01, 0x42A76, 0x42A80, 0x42B01, 0x42B20, 0x42B25, 0x42B94, 0x42BAE, 0x42BC0, 0x42C01, 0x42CD8,
    0x42D01, 0x42D58, 0x42D62, 0x42D81, 0x42DCC, 0x42DE2, 0x42E01, 0x42E48, 0x42EA6, 0x42EC0, 0x43001, 0x43124, 0x43201,
    0x432CC, 0x43301, 0x433CC, 0x433EA, 0x43401, 0x43490, 0x434C2, 0x434E8, 0x43502, 0x43529, 0x43598, 0x435BD, 0x43618,
    0x43982, 0x439FC, 0x43A01, 0x43AA8, 0x43AC1, 0x43AC8, 0x43B09, 0x43B14, 0x43C01, 0x43C76, 0x43C9D, 0x43CA0, 0x43CC1,
    0x43D18, 0x43D46, 0x43D54, 0x43DC1, 0x43E08, 0x43EC1, 0x43F16, 0x43F30, 0x43F81, 0x43FDC, 0x4400D, 0x440E0, 0x4414A,
    0x441C0, 0x441C5, 0x441CC, 0x441D5, 0x441D8, 0x4420D, 0x442C0, 0x44341, 0x443A4, 0x443C2, 0x443E8, 0x4440D, 0x4449C,
    0x444DA, 0x44500, 0x44511, 0x44514, 0x4451D, 0x44520, 0x44541, 0x445CC, 0x445D9, 0x445DC, 0x4460D, 0x446CC, 0x44705,
    0x44714, 0x44742, 0x44769, 0x4476C, 0x44771, 0x44774, 0x44786, 0x447D4, 0x44801, 0x44848, 0x4484D, 0x448B0, 0x448FD,
    0x44904, 0x44A01, 0x44A1C, 0x44A21, 0x44A24, 0x44A29, 0x44A38, 0x44A3D, 0x44A78, 0x44A7D, 0x44AA4, 0x44AC1, 0x44B7C,
    0x44BC2, 0x44BE8, 0x44C15, 0x44C34, 0x44C3D, 0x44C44, 0x44C4D, 0x44CA4, 0x44CA9, 0x44CC4, 0x44CC9, 0x44CD0, 0x44CD5,
    0x44CE8, 0x44CF5, 0x44CF8, 0x44D41, 0x44D44, 0x44D75, 0x44D88, 0x44E01, 0x44E28, 0x44E2D, 0x44E30, 0x44E39, 0x44E3C,
    0x44E41, 0x44ED8, 0x44EDD, 0x44EE0, 0x44F45, 0x44F48, 0x44F4D, 0x44F50, 0x45001, 0x450D4, 0x4511D, 0x4512C, 0x45142,
    0x45168, 0x4517D, 0x45188, 0x45201, 0x452C0, 0x45311, 0x45318, 0x4531D, 0x45320, 0x45342, 0x45368, 0x45601, 0x456BC,
    0x45761, 0x45770, 0x45801, 0x458C0, 0x45911, 0x45914, 0x45942, 0x45968, 0x45A01, 0x45AAC, 0x45AE1, 0x45AE4, 0x45B02,
    0x45B28, 0x45B42, 0x45B90, 0x45C01, 0x45C6C, 0x45CC2, 0x45CF0, 0x45D01, 0x45D1C, 0x46001, 0x460B0, 0x46281, 0x46382,
    0x463CC, 0x463FD, 0x4641C, 0x46425, 0x46428, 0x46431, 0x46450, 0x46455, 0x4645C, 0x46461, 0x464C0, 0x464FD, 0x46500,
    0x46505, 0x46508, 0x46542, 0x46568, 0x46681, 0x466A0, 0x466A9, 0x46744, 0x46785, 0x46788, 0x4678D, 0x46790, 0x46801,
    0x46804, 0x4682D, 0x468CC, 0x468E9, 0x468EC, 0x46941, 0x46944, 0x46971, 0x46A28, 0x46A75, 0x46A78, 0x46AC1, 0x46BE4,
    0x46F01, 0x46F84, 0x46FC2, 0x46FE8, 0x47001, 0x47024, 0x47029, 0x470BC, 0x47101, 0x47104, 0x47142, 0x471B4, 0x471C9,
    0x47240, 0x47401, 0x4741C, 0x47421, 0x47428, 0x4742D, 0x474C4, 0x47519, 0x4751C, 0x47542, 0x47568, 0x47581, 0x47598,
    0x4759D, 0x475A4, 0x475A9, 0x47628, 0x47661, 0x47664, 0x47682, 0x476A8, 0x47B81, 0x47BCC, 0x47C09, 0x47C0C, 0x47C11,
    0x47C44, 0x47C49, 0x47CD0, 0x47D42, 0x47D68, 0x47EC1, 0x47EC4, 0x47F02, 0x47F54, 0x48001, 0x48E68, 0x49002, 0x491BC,
    0x49201, 0x49510, 0x4BE41, 0x4BFC4, 0x4C001, 0x4D0C0, 0x4D105, 0x4D11C, 0x4D181, 0x50FEC, 0x51001, 0x5191C, 0x58401,
    0x58478, 0x584C2, 0x584E8, 0x5A001, 0x5A8E4, 0x5A901, 0x5A97C, 0x5A982, 0x5A9A8, 0x5A9C1, 0x5AAFC, 0x5AB02, 0x5AB28,
    0x5AB41, 0x5ABB8, 0x5AC01, 0x5ACC0, 0x5AD01, 0x5AD10, 0x5AD42, 0x5AD68, 0x5AD6E, 0x5AD88, 0x5AD8D, 0x5ADE0, 0x5ADF5,
    0x5AE40, 0x5B501, 0x5B5B4, 0x5B5C2, 0x5B5E8, 0x5B901, 0x5BA02, 0x5BA5C, 0x5BC01, 0x5BD2C, 0x5BD41, 0x5BD44, 0x5BE4D,
    0x5BE80, 0x5BF81, 0x5BF88, 0x5BF8D, 0x5BF90, 0x5C001, 0x61FE0, 0x62001, 0x63358, 0x633FD, 0x63424, 0x6BFC1, 0x6BFD0,
    0x6BFD5, 0x6BFF0, 0x6BFF5, 0x6BFFC, 0x6C001, 0x6C48C, 0x6C4C9, 0x6C4CC, 0x6C541, 0x6C54C, 0x6C555, 0x6C558, 0x6C591,
    0x6C5A0, 0x6C5C1, 0x6CBF0, 0x6F001, 0x6F1AC, 0x6F1C1, 0x6F1F4, 0x6F201, 0x6F224, 0x6F241, 0x6F268, 0x733C2, 0x733E8,
    0x74B02, 0x74B50, 0x74B82, 0x74BD0, 0x74D82, 0x74DE4, 0x75001, 0x75154, 0x75159, 0x75274, 0x75279, 0x75280, 0x75289,
    0x7528C, 0x75295, 0x7529C, 0x752A5, 0x752B4, 0x752B9, 0x752E8, 0x752ED, 0x752F0, 0x752F5, 0x75310, 0x75315, 0x75418,
    0x7541D, 0x7542C, 0x75435, 0x75454, 0x75459, 0x75474, 0x75479, 0x754E8, 0x754ED, 0x754FC, 0x75501, 0x75514, 0x75519,
    0x7551C, 0x75529, 0x75544, 0x75549, 0x75A98, 0x75AA1, 0x75B04, 0x75B09, 0x75B6C, 0x75B71, 0x75BEC, 0x75BF1, 0x75C54,
    0x75C59, 0x75CD4, 0x75CD9, 0x75D3C, 0x75D41, 0x75DBC, 0x75DC1, 0x75E24, 0x75E29, 0x75EA4, 0x75EA9, 0x75F0C, 0x75F11,
    0x75F30, 0x75F3A, 0x76000, 0x77C01, 0x77C7C, 0x77C95, 0x77CAC, 0x780C1, 0x781B8, 0x78401, 0x784B4, 0x784DD, 0x784F8,
    0x78502, 0x78528, 0x78539, 0x7853C, 0x78A41, 0x78AB8, 0x78B01, 0x78BB0, 0x78BC2, 0x78BE8, 0x79341, 0x793B0, 0x793C2,
    0x793E8, 0x79741, 0x797B8, 0x797C1, 0x797C6, 0x797EC, 0x79F81, 0x79F9C, 0x79FA1, 0x79FB0, 0x79FB5, 0x79FBC, 0x79FC1,
    0x79FFC, 0x7A001, 0x7A314, 0x7A31E, 0x7A340, 0x7A401, 0x7A510, 0x7A52D, 0x7A530, 0x7A542, 0x7A568, 0x7B1C6, 0x7B2B0,
    0x7B2B6, 0x7B2C0, 0x7B2C6, 0x7B2D4, 0x7B406, 0x7B4B8, 0x7B4BE, 0x7B4F8, 0x7B801, 0x7B810, 0x7B815, 0x7B880, 0x7B885,
    0x7B88C, 0x7B891, 0x7B894, 0x7B89D, 0x7B8A0, 0x7B8A5, 0x7B8CC, 0x7B8D1, 0x7B8E0, 0x7B8E5, 0x7B8E8, 0x7B8ED, 0x7B8F0,
    0x7B909, 0x7B90C, 0x7B91D, 0x7B920, 0x7B925, 0x7B928, 0x7B92D, 0x7B930, 0x7B935, 0x7B940, 0x7B945, 0x7B94C, 0x7B951,
    0x7B954, 0x7B95D, 0x7B960, 0x7B965, 0x7B968, 0x7B96D, 0x7B970, 0x7B975, 0x7B978, 0x7B97D, 0x7B980, 0x7B985, 0x7B98C,
    0x7B991, 0x7B994, 0x7B99D, 0x7B9AC, 0x7B9B1, 0x7B9CC, 0x7B9D1, 0x7B9E0, 0x7B9E5, 0x7B9F4, 0x7B9F9, 0x7B9FC, 0x7BA01,
    0x7BA28, 0x7BA2D, 0x7BA70, 0x7BA85, 0x7BA90, 0x7BA95, 0x7BAA8, 0x7BAAD, 0x7BAF0, 0x7C402, 0x7C434, 0x7EFC2, 0x7EFE8,
    0x80001, 0xA9B80, 0xA9C01, 0xADCE8, 0xADD01, 0xAE078, 0xAE081, 0xB3A88, 0xB3AC1, 0xBAF84, 0xBAFC1, 0xBB978, 0xBE001,
    0xBE878, 0xC0001, 0xC4D2C, 0xC4D41, 0xC8EC0,
};
/* <<src/base/unicode_tables.inc */

static const unsigned char eitp__ascii_classes[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
};

EITP__PRIVATE int eitp__unicode_class(uint32_t code_point) {
    if (code_point < 128)
        return eitp__ascii_classes[code_point];
    if (code_point >= 0x110000)
        return EITP__UNICODE_OTHER;
    /* The two great blocks of ideographs and syllables, most of what is not ASCII in many texts. */
    if ((code_point >= 0x4E00 && code_point <= 0x9FFF) || (code_point >= 0xAC00 && code_point <= 0xD7A3))
        return EITP__UNICODE_LETTER;
    size_t low = 0, high = EITP__COUNT(eitp__unicode_changes); /* the last change at or before it is in [low, high) */
    const uint32_t key = code_point << 2 | 3;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (eitp__unicode_changes[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return (int)(eitp__unicode_changes[low] & 3);
}

/* Bytes of the sequence that a lead byte begins (0 where it begins none), and what the second may be (The Unicode
   Standard, table 3-7). */
static size_t eitp__utf8_lead(unsigned char lead, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0)
            *low = 0xA0;
        else if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead == 0xF0)
        *low = 0x90;
    else if (lead == 0xF4)
        *high = 0x8F;
    return 4;
}

/* As eitp__utf8_next; *missing is not 0 where the text ends inside of a sequence that is well formed so far. */
static size_t eitp__utf8_read(const unsigned char *text, size_t size, uint32_t *code_point, size_t *missing) {
    unsigned char low, high;
    size_t length = eitp__utf8_lead(text[0], &low, &high), i = 1;
    uint32_t value = length == 1 ? text[0] : length ? text[0] & (0x7Fu >> length) : 0;
    *missing = 0;
    *code_point = 0xFFFD;
    for (; i < length; i++) {
        if (i == size) {
            *missing = length - i;
            return i;
        }
        if (text[i] < low || text[i] > high)
            return i;
        value = value << 6 | (text[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    if (length)
        *code_point = value;
    return i;
}

EITP__PRIVATE size_t eitp__utf8_next(const unsigned char *text, size_t size, uint32_t *code_point, int *valid) {
    size_t missing;
    size_t taken = eitp__utf8_read(text, size, code_point, &missing);
    /* A whole sequence that spells U+FFFD itself is the only well-formed one that gives this value. */
    *valid = *code_point != 0xFFFD || (taken == 3 && !memcmp(text, "\xEF\xBF\xBD", 3));
    return taken;
}

EITP__PRIVATE size_t eitp__utf8_incomplete(const unsigned char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        uint32_t code_point;
        size_t missing;
        if ((text[size - back] & 0xC0) == 0x80)
            continue;
        return eitp__utf8_read(text + size - back, back, &code_point, &missing) == back && missing ? back : 0;
    }
    return 0;
}

EITP__PRIVATE size_t eitp__utf8_valid_prefix(const unsigned char *text, size_t size) {
    size_t i = 0;
    while (i < size) {
        uint64_t word;
        if (size - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        if (text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code_point;
        int valid;
        size_t taken = eitp__utf8_next(text + i, size - i, &code_point, &valid);
        if (!valid)
            break;
        i += taken;
    }
    return i;
}

EITP__PRIVATE size_t eitp__utf8_put(uint32_t code_point, unsigned char bytes[4]) {
    if (code_point < 0x80) {
        bytes[0] = (unsigned char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        bytes[0] = (unsigned char)(0xC0 | code_point >> 6);
        bytes[1] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        bytes[0] = (unsigned char)(0xE0 | code_point >> 12);
        bytes[1] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    bytes[0] = (unsigned char)(0xF0 | code_point >> 18);
    bytes[1] = (unsigned char)(0x80 | (code_point >> 12 & 0x3F));
    bytes[2] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
    bytes[3] = (unsigned char)(0x80 | (code_point & 0x3F));
    return 4;
}
/* <<src/base/unicode.c */

/* >>src/base/files.c */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * The operating system's table. A handle is a descriptor plus one, so that it is never NULL.
 */

/* Linux moves at most 0x7ffff000 bytes in one call. */
#define EITP__LARGEST_TRANSFER ((size_t)1 << 30)

static int eitp__descriptor(void *file) {
    return (int)((intptr_t)file - 1);
}

/* Stores `offset` as the system's type; EOVERFLOW where that is too small. */
static int eitp__system_offset(uint64_t offset, off_t *converted) {
    *converted = (off_t)offset;
    return *converted < 0 || (uint64_t)*converted != offset ? EOVERFLOW : 0;
}

/* What is to be read must be a regular file: a pipe or a device has no size and no positions. */
static int eitp__check_regular(int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info))
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    return S_ISREG(info.st_mode) ? 0 : ENXIO;
}

static int eitp__system_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    int flags = O_CLOEXEC, descriptor, code = 0;
    (void)user;
    /* Without O_NONBLOCK, opening a pipe would wait for its other end. */
    if (mode == EITP_FILE_READ)
        flags |= O_RDONLY | O_NONBLOCK;
    else
        flags |= O_RDWR | O_CREAT | (mode == EITP_FILE_REPLACE ? O_TRUNC : 0);
    do {
        descriptor = open(path, flags, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    if (mode == EITP_FILE_READ)
        code = eitp__check_regular(descriptor);
    if (code) {
        close(descriptor);
        return code;
    }
    *file = (void *)((intptr_t)descriptor + 1);
    return 0;
}

static int eitp__system_close(void *user, void *file) {
    (void)user;
    /* An interrupted close has closed: calling it again could close another's descriptor. */
    return close(eitp__descriptor(file)) && errno != EINTR ? errno : 0;
}

static int eitp__system_size(void *user, void *file, uint64_t *size) {
    struct stat info;
    (void)user;
    if (fstat(eitp__descriptor(file), &info))
        return errno;
    *size = (uint64_t)info.st_size;
    return 0;
}

static int eitp__system_resize(void *user, void *file, uint64_t size) {
    off_t length;
    int code = eitp__system_offset(size, &length);
    (void)user;
    if (code)
        return code;
    do {
        code = ftruncate(eitp__descriptor(file), length) ? errno : 0;
    } while (code == EINTR);
    return code;
}

static int eitp__system_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    off_t position;
    ssize_t got;
    int code = eitp__system_offset(offset, &position);
    (void)user;
    if (code)
        return code;
    if (size > EITP__LARGEST_TRANSFER)
        size = EITP__LARGEST_TRANSFER;
    do {
        got = pread(eitp__descriptor(file), data, size, position);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno;
    *done = (size_t)got;
    return 0;
}

static int eitp__system_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    off_t position;
    ssize_t put;
    int code = eitp__system_offset(offset, &position);
    (void)user;
    if (code)
        return code;
    if (size > EITP__LARGEST_TRANSFER)
        size = EITP__LARGEST_TRANSFER;
    do {
        put = pwrite(eitp__descriptor(file), data, size, position);
    } while (put < 0 && errno == EINTR);
    if (put < 0)
        return errno;
    *done = (size_t)put;
    return 0;
}

static int eitp__sync_descriptor(int descriptor) {
    int code;
    do {
        code = fsync(descriptor) ? errno : 0;
    } while (code == EINTR);
    return code;
}

static int eitp__system_sync(void *user, void *file) {
    (void)user;
    return eitp__sync_descriptor(eitp__descriptor(file));
}

static int eitp__system_info(void *user, const char *path, eitp_path_info *info) {
    struct stat found;
    (void)user;
    memset(info, 0, sizeof *info);
    info->kind = EITP_PATH_MISSING;
    if (stat(path, &found))
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    info->kind = S_ISREG(found.st_mode)   ? EITP_PATH_FILE
                 : S_ISDIR(found.st_mode) ? EITP_PATH_DIRECTORY
                                          : EITP_PATH_OTHER;
    if (info->kind == EITP_PATH_FILE)
        info->size = (uint64_t)found.st_size;
    info->modified = EITP__MODIFIED(found);
    return 0;
}

static int eitp__system_make_directory(void *user, const char *path) {
    (void)user;
    return mkdir(path, 0777) ? errno : 0;
}

static int eitp__system_sync_directory(void *user, const char *path) {
    int descriptor, code;
    (void)user;
    do {
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    code = eitp__sync_descriptor(descriptor);
    close(descriptor);
    /* Some file systems cannot sync a directory, and say so in this way. */
    return code == EINVAL ? 0 : code;
}

static int eitp__system_rename(void *user, const char *from, const char *to) {
    (void)user;
    return rename(from, to) ? errno : 0;
}

/* A symbolic link is removed itself, never what it points to. */
static int eitp__system_remove(void *user, const char *path) {
    struct stat found;
    (void)user;
    if (lstat(path, &found))
        return errno;
    return (S_ISDIR(found.st_mode) ? rmdir(path) : unlink(path)) ? errno : 0;
}

static int eitp__system_list(void *user, const char *path, int (*visit)(void *visitor, const char *name),
                             void *visitor) {
    struct dirent *entry;
    int code = 0;
    DIR *directory = opendir(path);
    (void)user;
    if (!directory)
        return errno;
    while (!code) {
        errno = 0;
        entry = readdir(directory);
        if (!entry) {
            code = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            code = visit(visitor, entry->d_name);
    }
    closedir(directory);
    return code;
}

EITP__PRIVATE eitp_files eitp__system_files(void) {
    eitp_files files;
    memset(&files, 0, sizeof files);
    files.open = eitp__system_open;
    files.close = eitp__system_close;
    files.size = eitp__system_size;
    files.resize = eitp__system_resize;
    files.read = eitp__system_read;
    files.write = eitp__system_write;
    files.sync = eitp__system_sync;
    files.info = eitp__system_info;
    files.make_directory = eitp__system_make_directory;
    files.sync_directory = eitp__system_sync_directory;
    files.rename = eitp__system_rename;
    files.remove = eitp__system_remove;
    files.list = eitp__system_list;
    return files;
}

/*
 * The table with messages.
 */

/* What went wrong and what to do about it. */
static const char *eitp__explain_errno(int code) {
    switch (code) {
    case ENOENT:
        return "no such file or directory; check the path";
    case ENOTDIR:
        return "a part of the path is not a directory; check the path";
    case EISDIR:
        return "it is a directory; name a file";
    case ENXIO:
        return "it is not a regular file; name a regular file";
    case ENAMETOOLONG:
        return "the path is too long; choose a shorter one";
    case EEXIST:
        return "it exists already; choose another name or remove it";
    case EACCES:
    case EPERM:
        return "permission denied; check its owner and mode, and those of its directory";
    case ENOSPC:
        return "no space left on the device; free some space or write elsewhere";
    case EDQUOT:
        return "the disk quota is used up; free some space or write elsewhere";
    case EROFS:
        return "the file system is read-only; write elsewhere";
    case EFBIG:
    case EOVERFLOW:
        return "the file is larger than the file system or the limit (ulimit -f) allows";
    case EMFILE:
    case ENFILE:
        return "too many open files; close some, or raise the limit (ulimit -n)";
    case EIO:
        return "the device failed; check the disk";
    default:
        return NULL;
    }
}

static eitp_status eitp__fail_file(eitp_error *error, int code, const char *action, const char *path) {
    const char *explanation = eitp__explain_errno(code);
    eitp_status status = EITP_ERROR_IO;
    if (code == ENOENT || code == ENOTDIR || code == EISDIR || code == ENXIO || code == ENAMETOOLONG)
        status = EITP_ERROR_ARGUMENT;
    if (explanation)
        return eitp__fail(error, status, "cannot %s '%s': %s", action, path, explanation);
    return eitp__fail(error, status, "cannot %s '%s': %s; check the path and its device", action, path, strerror(code));
}

EITP__PRIVATE eitp_status eitp__file_open(eitp__file *file, const eitp_host *host, const char *path,
                                          eitp_file_mode mode, eitp_error *error) {
    int code;
    void *handle = NULL;
    char *copy = eitp__copy_text(host, path);
    memset(file, 0, sizeof *file);
    if (!copy)
        return eitp__fail_memory(error, strlen(path) + 1, "the name of a file");
    code = host->files.open(host->files.user, path, mode, &handle);
    if (code) {
        eitp__release_text(host, copy);
        return eitp__fail_file(error, code, mode == EITP_FILE_READ ? "open" : "open for writing", path);
    }
    file->host = host;
    file->handle = handle;
    file->path = copy;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_close(eitp__file *file, eitp_error *error) {
    eitp_status status = EITP_OK;
    int code;
    if (!file->host)
        return EITP_OK;
    code = file->host->files.close(file->host->files.user, file->handle);
    if (code)
        status = eitp__fail_file(error, code, "close", file->path);
    eitp__release_text(file->host, file->path);
    memset(file, 0, sizeof *file);
    return status;
}

EITP__PRIVATE eitp_status eitp__file_size(eitp__file *file, uint64_t *size, eitp_error *error) {
    uint64_t found = 0;
    int code = file->host->files.size(file->host->files.user, file->handle, &found);
    if (code)
        return eitp__fail_file(error, code, "get the size of", file->path);
    *size = found;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_read_some(eitp__file *file, uint64_t offset, void *data, size_t size, size_t *done,
                                               eitp_error *error) {
    const eitp_files *files = &file->host->files;
    size_t total = 0;
    *done = 0;
    while (total < size) {
        size_t got = 0;
        int code = files->read(files->user, file->handle, offset + total, (char *)data + total, size - total, &got);
        if (code)
            return eitp__fail_file(error, code, "read", file->path);
        if (got > size - total)
            return eitp__fail(error, EITP_ERROR_INTERNAL,
                              "reading '%s' gave more than was asked for; check the "
                              "program's file functions",
                              file->path);
        if (!got)
            break;
        total += got;
    }
    *done = total;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_read(eitp__file *file, uint64_t offset, void *data, size_t size,
                                          eitp_error *error) {
    size_t done;
    eitp_status status = eitp__file_read_some(file, offset, data, size, &done, error);
    if (!status && done < size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' ends after %llu bytes where %llu are needed; it is cut short: make or copy it again",
                          file->path, (unsigned long long)(offset + done), (unsigned long long)(offset + size));
    return status;
}

EITP__PRIVATE eitp_status eitp__file_write(eitp__file *file, uint64_t offset, const void *data, size_t size,
                                           eitp_error *error) {
    const eitp_files *files = &file->host->files;
    size_t total = 0;
    while (total < size) {
        size_t put = 0;
        int code =
            files->write(files->user, file->handle, offset + total, (const char *)data + total, size - total, &put);
        /* Writing nothing without a reason would go on for ever. */
        if (!code && (!put || put > size - total))
            code = EIO;
        if (code)
            return eitp__fail_file(error, code, "write", file->path);
        total += put;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__file_sync(eitp__file *file, eitp_error *error) {
    int code = file->host->files.sync(file->host->files.user, file->handle);
    return code ? eitp__fail_file(error, code, "sync", file->path) : EITP_OK;
}

static eitp_status eitp__fail_too_large(eitp_error *error, const char *path, size_t limit) {
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "'%s' is larger than the %llu bytes that such a file may have; check that it is the right file",
                      path, (unsigned long long)limit);
}

/* The rest of a file whose size was not the truth: it grew meanwhile, or is made by the system on reading. */
static eitp_status eitp__read_rest(eitp__file *file, size_t limit, eitp__buffer *buffer, eitp_error *error) {
    char chunk[4096];
    size_t done = 1;
    while (done) {
        eitp_status status = eitp__file_read_some(file, buffer->size, chunk, sizeof chunk, &done, error);
        if (status)
            return status;
        if (done > limit - buffer->size)
            return eitp__fail_too_large(error, file->path, limit);
        eitp__buffer_add(buffer, chunk, done);
        if (buffer->failed)
            return eitp__fail_memory(error, buffer->size + done, file->path);
    }
    return EITP_OK;
}

static eitp_status eitp__read_open_file(eitp__file *file, size_t limit, eitp__buffer *buffer, eitp_error *error) {
    uint64_t size = 0;
    size_t done = 0, capacity;
    eitp_status status = eitp__file_size(file, &size, error);
    if (status)
        return status;
    if (size > limit || size >= SIZE_MAX)
        return eitp__fail_too_large(error, file->path, limit);
    /* Hardly more than the size: growing would take up to three times as much. */
    capacity = (size_t)size < 16 ? 16 : (size_t)size + 1;
    buffer->data = (char *)eitp__allocate_uninitialized(buffer->host, capacity);
    if (!buffer->data)
        return eitp__fail_memory(error, capacity, file->path);
    buffer->capacity = capacity;
    buffer->data[0] = 0;
    status = eitp__file_read_some(file, 0, buffer->data, (size_t)size, &done, error);
    if (status)
        return status;
    buffer->size = done;
    buffer->data[done] = 0;
    return eitp__read_rest(file, limit, buffer, error);
}

EITP__PRIVATE eitp_status eitp__read_file(const eitp_host *host, const char *path, size_t limit, eitp__buffer *buffer,
                                          eitp_error *error) {
    eitp__file file;
    eitp_status status;
    eitp__buffer_release(buffer);
    status = eitp__file_open(&file, host, path, EITP_FILE_READ, error);
    if (status)
        return status;
    status = eitp__read_open_file(&file, limit, buffer, error);
    if (status) {
        eitp__file_close(&file, NULL);
        eitp__buffer_release(buffer);
        return status;
    }
    /* What was read is whole, whatever closing says. */
    eitp__file_close(&file, NULL);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__write_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                           eitp_error *error) {
    eitp__file file;
    eitp_status status = eitp__file_open(&file, host, path, EITP_FILE_REPLACE, error);
    if (status)
        return status;
    status = eitp__file_write(&file, 0, data, size, error);
    if (!status)
        status = eitp__file_sync(&file, error);
    if (status) {
        eitp__file_close(&file, NULL);
        return status;
    }
    return eitp__file_close(&file, error);
}

/* The directory that holds `path`, in a new text; NULL when memory runs out. */
static char *eitp__parent_directory(const eitp_host *host, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length ? eitp__copy_bytes(host, path, length) : eitp__copy_text(host, ".");
}

EITP__PRIVATE eitp_status eitp__replace_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                             eitp_error *error) {
    eitp_status status;
    eitp__buffer temporary;
    char *directory = eitp__parent_directory(host, path);
    eitp__buffer_init(&temporary, host);
    eitp__buffer_format(&temporary, "%s.tmp", path);
    if (!directory || temporary.failed) {
        status = eitp__fail_memory(error, strlen(path) + 5, "the name of a file");
    } else {
        status = eitp__write_file(host, temporary.data, data, size, error);
        if (!status)
            status = eitp__rename_path(host, temporary.data, path, error);
        if (status)
            host->files.remove(host->files.user, temporary.data);
        else
            status = eitp__sync_directory(host, directory, error);
    }
    eitp__buffer_release(&temporary);
    eitp__release_text(host, directory);
    return status;
}

EITP__PRIVATE eitp_status eitp__path_info(const eitp_host *host, const char *path, eitp_path_info *info,
                                          eitp_error *error) {
    eitp_path_info found;
    int code;
    memset(&found, 0, sizeof found);
    code = host->files.info(host->files.user, path, &found);
    if (code)
        return eitp__fail_file(error, code, "look up", path);
    *info = found;
    return EITP_OK;
}

static eitp_status eitp__make_one_directory(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_path_info info;
    eitp_status status;
    int code = host->files.make_directory(host->files.user, path);
    if (!code)
        return EITP_OK;
    if (code != EEXIST)
        return eitp__fail_file(error, code, "make the directory", path);
    status = eitp__path_info(host, path, &info, error);
    if (!status && info.kind != EITP_PATH_DIRECTORY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "cannot make the directory '%s': something else has that name; choose another or remove it",
                          path);
    return status;
}

EITP__PRIVATE eitp_status eitp__make_directories(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t length = strlen(path);
    char *prefix = eitp__copy_bytes(host, path, length);
    if (!prefix)
        return eitp__fail_memory(error, length + 1, "the name of a directory");
    for (size_t i = 1; i < length && !status; i++) {
        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        prefix[i] = 0;
        status = eitp__make_one_directory(host, prefix, error);
        prefix[i] = '/';
    }
    if (!status && !(length && path[length - 1] == '/' && length > 1))
        status = eitp__make_one_directory(host, path, error);
    eitp__release(host, prefix, length + 1);
    return status;
}

static eitp_status eitp__remove_entries(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_status status;
    eitp__buffer names;
    size_t count = 0, offset = 0;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, path, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + offset;
        char *inner = eitp__join_path(host, path, name);
        offset += strlen(name) + 1;
        status = inner ? eitp__remove_tree(host, inner, error)
                       : eitp__fail_memory(error, strlen(path) + strlen(name) + 2, "the name of a file");
        eitp__release_text(host, inner);
    }
    eitp__buffer_release(&names);
    return status;
}

EITP__PRIVATE eitp_status eitp__remove_tree(const eitp_host *host, const char *path, eitp_error *error) {
    /* Removing first and looking inside only where that fails never follows a symbolic link out of the tree. */
    int code = host->files.remove(host->files.user, path);
    if (code == ENOTEMPTY || code == EEXIST) {
        eitp_status status = eitp__remove_entries(host, path, error);
        if (status)
            return status;
        code = host->files.remove(host->files.user, path);
    }
    return code && code != ENOENT ? eitp__fail_file(error, code, "remove", path) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__rename_path(const eitp_host *host, const char *from, const char *to,
                                            eitp_error *error) {
    const char *explanation;
    int code = host->files.rename(host->files.user, from, to);
    if (!code)
        return EITP_OK;
    explanation = eitp__explain_errno(code);
    return eitp__fail(error, code == ENOENT || code == ENOTDIR || code == EISDIR ? EITP_ERROR_ARGUMENT : EITP_ERROR_IO,
                      "cannot rename '%s' to '%s': %s", from, to, explanation ? explanation : strerror(code));
}

EITP__PRIVATE eitp_status eitp__sync_directory(const eitp_host *host, const char *path, eitp_error *error) {
    int code = host->files.sync_directory(host->files.user, path);
    return code ? eitp__fail_file(error, code, "sync the directory", path) : EITP_OK;
}

typedef struct eitp__name_collector {
    eitp__buffer *names;
    size_t count;
} eitp__name_collector;

static int eitp__collect_name(void *visitor, const char *name) {
    eitp__name_collector *collector = (eitp__name_collector *)visitor;
    eitp__buffer_add(collector->names, name, strlen(name) + 1);
    collector->count++;
    return collector->names->failed ? ENOMEM : 0;
}

static int eitp__compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the names in `unsorted`, each with its zero byte, to `sorted` in order; returns 0 where memory runs out. */
static int eitp__sort_names(const eitp_host *host, const eitp__buffer *unsorted, size_t count, eitp__buffer *sorted) {
    const char **order, *name = unsorted->data;
    size_t bytes;
    if (!eitp__multiply_size(count, sizeof *order, &bytes))
        return 0;
    order = (const char **)eitp__allocate_uninitialized(host, bytes);
    if (!order)
        return 0;
    for (size_t i = 0; i < count; i++) {
        order[i] = name;
        name += strlen(name) + 1;
    }
    eitp__sort(order, count, sizeof *order, eitp__compare_names);
    for (size_t i = 0; i < count; i++)
        eitp__buffer_add(sorted, order[i], strlen(order[i]) + 1);
    eitp__release(host, order, bytes);
    return !sorted->failed;
}

EITP__PRIVATE eitp_status eitp__list_directory(const eitp_host *host, const char *path, eitp__buffer *names,
                                               size_t *count, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp__buffer unsorted;
    eitp__name_collector collector;
    int code;
    eitp__buffer_clear(names);
    eitp__buffer_init(&unsorted, host);
    collector.names = &unsorted;
    collector.count = 0;
    code = host->files.list(host->files.user, path, eitp__collect_name, &collector);
    if (unsorted.failed || (!code && collector.count && !eitp__sort_names(host, &unsorted, collector.count, names)))
        status = eitp__fail_memory(error, unsorted.size, "the names in a directory");
    else if (code)
        status = eitp__fail_file(error, code, "list the directory", path);
    eitp__buffer_release(&unsorted);
    if (status)
        eitp__buffer_clear(names);
    else
        *count = collector.count;
    return status;
}

EITP__PRIVATE char *eitp__join_path(const eitp_host *host, const char *directory, const char *name) {
    size_t head = strlen(directory), tail = strlen(name), slash = head && directory[head - 1] != '/';
    char *path = (char *)eitp__allocate_uninitialized(host, head + slash + tail + 1);
    if (!path)
        return NULL;
    memcpy(path, directory, head);
    if (slash)
        path[head] = '/';
    memcpy(path + head + slash, name, tail + 1);
    return path;
}
/* <<src/base/files.c */

/* >>src/base/host.c */
/* The default host, and what the build was made with. */

/* Large blocks start on a huge page, so that the kernel can map them with few faults and table entries. */
#define EITP__HUGE_PAGE ((size_t)2 << 20)

static void *eitp__system_allocate(void *user, size_t size, size_t alignment) {
    void *memory = NULL;
    (void)user;
    if (size >= 4 * EITP__HUGE_PAGE)
        alignment = EITP__HUGE_PAGE;
    return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

static void eitp__system_release(void *user, void *memory, size_t size) {
    (void)user;
    (void)size;
    free(memory);
}

eitp_host eitp_host_default(void) {
    eitp_host host;
    memset(&host, 0, sizeof host);
    host.allocator.allocate = eitp__system_allocate;
    host.allocator.release = eitp__system_release;
    host.files = eitp__system_files();
    return host;
}

const char *eitp_version(void) {
    return EITP_VERSION_STRING;
}

#ifdef __OPTIMIZE__
#define EITP__OPTIMIZED "1"
#else
#define EITP__OPTIMIZED "0"
#endif
#ifdef __clang__
#define EITP__COMPILER "clang-" __clang_version__
#else
#define EITP__COMPILER "gcc-" __VERSION__
#endif

const char *eitp_build_info(void) {
    return "version=" EITP_VERSION_STRING " compiler=" EITP__COMPILER " optimized=" EITP__OPTIMIZED
#if EITP__WITH_OPENMP
           " openmp=1"
#else
           " openmp=0"
#endif
#if EITP_WITH_OPENBLAS
           " openblas=1";
#else
           " openblas=0";
#endif
}

static const struct {
    const char *name;
    size_t size;
} eitp__dtypes[EITP_DTYPE_COUNT] = {
    {"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2}, {"i64", 8}, {"i32", 4}, {"i8", 1}, {"u8", 1},
};

size_t eitp_dtype_size(eitp_dtype dtype) {
    return (size_t)dtype < EITP__COUNT(eitp__dtypes) ? eitp__dtypes[dtype].size : 0;
}

const char *eitp_dtype_name(eitp_dtype dtype) {
    return (size_t)dtype < EITP__COUNT(eitp__dtypes) ? eitp__dtypes[dtype].name : "?";
}
/* <<src/base/host.c */

/* >>src/base/json.c */
#include <float.h>

#define EITP__JSON_DEPTH 64
#define EITP__JSON_LARGEST_BLOCK ((size_t)1024)

/* Values live in blocks, so that a large tree needs few allocations and the pointers between them stay valid. */
typedef struct eitp__json_block {
    struct eitp__json_block *next;
    size_t capacity;
    size_t used;
} eitp__json_block;

struct eitp__json_document {
    eitp_host host;
    eitp__json *root;
    eitp__json_block *blocks; /* the newest first */
    char *text;               /* every string and name, each with its zero byte: never more than the input */
    size_t text_capacity;
};

/* A member on its way through the search for duplicates. */
typedef struct eitp__json_key {
    uint64_t hash;
    const eitp__json *member;
} eitp__json_key;

typedef struct eitp__json_parser {
    eitp__json_document *document;
    const char *start;
    const char *at;
    const char *end;
    const char *line_start;
    size_t line;
    size_t text_used;
    int depth;
    eitp__json_key *keys;
    size_t key_capacity;
    eitp_error *error;
} eitp__json_parser;

static eitp_status eitp__json_parse_value(eitp__json_parser *parser, eitp__json *value);

/* A failure at `at`, which is on the parser's line. */
static eitp_status eitp__json_fail(eitp__json_parser *parser, const char *at, const char *what) {
    size_t column = (size_t)(at - parser->line_start) + 1;
    char found[32] = "the text ends";
    if (at < parser->end) {
        unsigned char byte = (unsigned char)*at;
        snprintf(found, sizeof found, byte > 0x20 && byte < 0x7f ? "found '%c'" : "found byte 0x%02x", byte);
    }
    return eitp__fail(parser->error, EITP_ERROR_FORMAT, "not valid JSON at line %llu, column %llu: %s, but %s",
                      (unsigned long long)parser->line, (unsigned long long)column, what, found);
}

static void eitp__json_skip_space(eitp__json_parser *parser) {
    for (; parser->at < parser->end; parser->at++) {
        char c = *parser->at;
        if (c == '\n') {
            parser->line++;
            parser->line_start = parser->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static int eitp__json_next_is(const eitp__json_parser *parser, char c) {
    return parser->at < parser->end && *parser->at == c;
}

/* A zeroed value; NULL where memory runs out. */
static eitp__json *eitp__json_new_value(eitp__json_document *document, size_t input_size) {
    eitp__json_block *block = document->blocks;
    eitp__json *value;
    if (!block || block->used == block->capacity) {
        size_t capacity = block ? block->capacity * 2 : input_size / 16 + 4;
        if (capacity > EITP__JSON_LARGEST_BLOCK)
            capacity = EITP__JSON_LARGEST_BLOCK;
        block =
            (eitp__json_block *)eitp__allocate_uninitialized(&document->host, sizeof *block + capacity * sizeof *value);
        if (!block)
            return NULL;
        block->next = document->blocks;
        block->capacity = capacity;
        block->used = 0;
        document->blocks = block;
    }
    value = (eitp__json *)(void *)(block + 1) + block->used++;
    memset(value, 0, sizeof *value);
    return value;
}

/* The four digits of an escape; the parser stands at the first. */
static eitp_status eitp__json_parse_unit(eitp__json_parser *parser, uint32_t *unit) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, parser->at++) {
        char c = parser->at < parser->end ? *parser->at : 0;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + (uint32_t)(c - 'A' + 10);
        else
            return eitp__json_fail(parser, parser->at, "\\u needs four hexadecimal digits");
    }
    *unit = value;
    return EITP_OK;
}

/* What follows "\u": one code point, made of two units where the first is a surrogate. */
static eitp_status eitp__json_parse_code_point(eitp__json_parser *parser, char **out) {
    const char *start = parser->at - 2;
    unsigned char bytes[4];
    uint32_t code, low;
    size_t taken;
    eitp_status status = eitp__json_parse_unit(parser, &code);
    if (status)
        return status;
    if (code >= 0xdc00 && code <= 0xdfff)
        return eitp__json_fail(parser, start, "a high surrogate must come before a low one");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (parser->end - parser->at < 2 || parser->at[0] != '\\' || parser->at[1] != 'u')
            return eitp__json_fail(parser, parser->at, "a low surrogate must follow a high one");
        parser->at += 2;
        status = eitp__json_parse_unit(parser, &low);
        if (status)
            return status;
        if (low < 0xdc00 || low > 0xdfff)
            return eitp__json_fail(parser, parser->at - 6, "a low surrogate must follow a high one");
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    taken = eitp__utf8_put(code, bytes);
    memcpy(*out, bytes, taken);
    *out += taken;
    return EITP_OK;
}

/* The parser stands at the backslash. */
static eitp_status eitp__json_parse_escape(eitp__json_parser *parser, char **out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char c = parser->end - parser->at > 1 ? parser->at[1] : 0;
    if (c == 'u') {
        parser->at += 2;
        return eitp__json_parse_code_point(parser, out);
    }
    found = c ? strchr(names, c) : NULL;
    if (!found)
        return eitp__json_fail(parser, parser->at + 1, "expected one of \" \\ / b f n r t u after a backslash");
    *(*out)++ = values[found - names];
    parser->at += 2;
    return EITP_OK;
}

/* Copies what needs no thought: everything up to a quote, a backslash or what may not be in a string. */
static eitp_status eitp__json_copy_plain(eitp__json_parser *parser, char **out) {
    const char *start = parser->at;
    size_t size, valid;
    for (; parser->at < parser->end; parser->at++) {
        unsigned char c = (unsigned char)*parser->at;
        if (c == '"' || c == '\\' || c < 0x20)
            break;
    }
    size = (size_t)(parser->at - start);
    valid = eitp__utf8_valid_prefix((const unsigned char *)start, size);
    if (valid < size)
        return eitp__json_fail(parser, start + valid, "a string must be valid UTF-8");
    memcpy(*out, start, size);
    *out += size;
    return EITP_OK;
}

/* A string, into the document's text; the parser stands at the opening quote. */
static eitp_status eitp__json_parse_string(eitp__json_parser *parser, const char **text, size_t *size) {
    char *start = parser->document->text + parser->text_used, *out = start;
    parser->at++;
    for (;;) {
        eitp_status status = eitp__json_copy_plain(parser, &out);
        if (status)
            return status;
        if (parser->at == parser->end)
            return eitp__json_fail(parser, parser->at, "a string needs a closing '\"'");
        if (*parser->at == '"')
            break;
        if (*parser->at != '\\')
            return eitp__json_fail(parser, parser->at, "a control character in a string must be escaped");
        status = eitp__json_parse_escape(parser, &out);
        if (status)
            return status;
    }
    parser->at++;
    *out = 0;
    *text = start;
    *size = (size_t)(out - start);
    parser->text_used += *size + 1;
    return EITP_OK;
}

static int eitp__json_is_digit(const eitp__json_parser *parser, const char *at) {
    return at < parser->end && *at >= '0' && *at <= '9';
}

/* Finds the end of a number, and whether it has a fraction or an exponent. */
static eitp_status eitp__json_scan_number(eitp__json_parser *parser, int *is_integer) {
    const char *at = parser->at;
    *is_integer = 1;
    if (*at == '-')
        at++;
    if (!eitp__json_is_digit(parser, at))
        return eitp__json_fail(parser, at, "expected a digit");
    if (*at == '0' && eitp__json_is_digit(parser, at + 1))
        return eitp__json_fail(parser, at + 1, "a number must not start with a 0 that means nothing");
    while (eitp__json_is_digit(parser, at))
        at++;
    if (at < parser->end && *at == '.') {
        *is_integer = 0;
        at++;
        if (!eitp__json_is_digit(parser, at))
            return eitp__json_fail(parser, at, "expected a digit after the decimal point");
        while (eitp__json_is_digit(parser, at))
            at++;
    }
    if (at < parser->end && (*at == 'e' || *at == 'E')) {
        *is_integer = 0;
        at++;
        if (at < parser->end && (*at == '+' || *at == '-'))
            at++;
        if (!eitp__json_is_digit(parser, at))
            return eitp__json_fail(parser, at, "expected a digit in the exponent");
        while (eitp__json_is_digit(parser, at))
            at++;
    }
    parser->at = at;
    return EITP_OK;
}

/* The exponent written at [at, end), held within what no number of digits in memory could bring back. */
static int64_t eitp__decimal_exponent(const char *at, const char *end) {
    int64_t exponent = 0;
    int negative = at < end && *at == '-';
    for (; at < end; at++) {
        if (*at >= '0' && *at <= '9' && exponent < INT64_MAX / 100)
            exponent = exponent * 10 + (*at - '0');
    }
    return negative ? -exponent : exponent;
}

/* A double is a tie or not after at most 767 significant digits; of what follows only matters whether it is all zero.
   */
#define EITP__DECIMAL_DIGITS 800

/* A decimal number as digits * 10^exponent, without the point: strtod would want that to be the locale's. */
typedef struct eitp__decimal {
    char digits[EITP__DECIMAL_DIGITS + 32]; /* room for the exponent to be printed behind */
    size_t count;
    int64_t exponent;
} eitp__decimal;

static void eitp__decimal_read(eitp__decimal *decimal, const char *at, const char *end) {
    int fraction = 0, dropped = 0;
    decimal->count = 0;
    decimal->exponent = 0;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            fraction = 1;
            continue;
        }
        decimal->exponent -= fraction;
        if (*at == '0' && !decimal->count)
            continue;
        if (decimal->count < EITP__DECIMAL_DIGITS) {
            decimal->digits[decimal->count++] = *at;
        } else {
            dropped |= *at != '0';
            decimal->exponent++;
        }
    }
    if (dropped) {
        decimal->digits[decimal->count++] = '1';
        decimal->exponent--;
    }
    if (at < end)
        decimal->exponent += eitp__decimal_exponent(at + 1, end);
}

/* The double nearest to the number at [at, end), which is well formed and has no sign. */
static double eitp__decimal_value(const char *at, const char *end) {
    eitp__decimal decimal;
    long exponent;
    eitp__decimal_read(&decimal, at, end);
    if (!decimal.count)
        return 0.0;
    if (decimal.exponent > 100000)
        exponent = 100000;
    else if (decimal.exponent < -100000)
        exponent = -100000;
    else
        exponent = (long)decimal.exponent;
    snprintf(decimal.digits + decimal.count, sizeof decimal.digits - decimal.count, "e%ld", exponent);
    return strtod(decimal.digits, NULL);
}

/* Stores the integer at [at, end) and returns 1; 0 where it does not fit. */
static int eitp__json_integer(const char *at, const char *end, int64_t *integer) {
    int negative = *at == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (uint64_t)negative, value = 0;
    for (at += negative; at < end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (limit - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    *integer = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 1;
}

static eitp_status eitp__json_parse_number(eitp__json_parser *parser, eitp__json *value) {
    const char *start = parser->at;
    int negative = *start == '-';
    eitp_status status = eitp__json_scan_number(parser, &value->is_integer);
    if (status)
        return status;
    value->kind = EITP__JSON_NUMBER;
    if (value->is_integer)
        value->is_integer = eitp__json_integer(start, parser->at, &value->integer);
    if (value->is_integer && value->integer)
        value->number = (double)value->integer;
    else
        value->number = eitp__decimal_value(start + negative, parser->at) * (negative ? -1.0 : 1.0);
    if (value->number > DBL_MAX || value->number < -DBL_MAX)
        return eitp__json_fail(parser, start, "a number must fit a double");
    return EITP_OK;
}

static eitp_status eitp__json_parse_word(eitp__json_parser *parser, eitp__json *value) {
    size_t left = (size_t)(parser->end - parser->at);
    if (left >= 4 && !memcmp(parser->at, "null", 4)) {
        value->kind = EITP__JSON_NULL;
        parser->at += 4;
    } else if (left >= 4 && !memcmp(parser->at, "true", 4)) {
        value->kind = EITP__JSON_BOOLEAN;
        value->boolean = 1;
        parser->at += 4;
    } else if (left >= 5 && !memcmp(parser->at, "false", 5)) {
        value->kind = EITP__JSON_BOOLEAN;
        parser->at += 5;
    } else {
        return eitp__json_fail(parser, parser->at, "expected a value (NaN, Infinity and comments are not JSON)");
    }
    return EITP_OK;
}

/* FNV-1a. Keys made to collide cost nothing but comparisons: they are sorted, not chained. */
static uint64_t eitp__json_hash(const char *text, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static int eitp__json_compare_names(const eitp__json *a, const eitp__json *b) {
    size_t shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = memcmp(a->name, b->name, shorter);
    if (order)
        return order;
    return a->name_size < b->name_size ? -1 : a->name_size > b->name_size;
}

static int eitp__json_compare_keys(const void *left, const void *right) {
    const eitp__json_key *a = (const eitp__json_key *)left, *b = (const eitp__json_key *)right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return eitp__json_compare_names(a->member, b->member);
}

static eitp_status eitp__json_fail_duplicate(eitp__json_parser *parser, const eitp__json *a, const eitp__json *b) {
    size_t first = a->line < b->line ? a->line : b->line, second = a->line < b->line ? b->line : a->line;
    return eitp__fail(parser->error, EITP_ERROR_FORMAT,
                      "not valid JSON: the name '%.100s' is at line %llu and again at line %llu of the same object; "
                      "remove one of them",
                      a->name, (unsigned long long)first, (unsigned long long)second);
}

/* Refuses an object that has a name twice. */
static eitp_status eitp__json_check_names(eitp__json_parser *parser, const eitp__json *object) {
    size_t count = 0;
    void *keys = parser->keys;
    if (object->count < 2)
        return EITP_OK;
    if (object->count <= 8) {
        for (const eitp__json *a = object->first_child; a; a = a->next) {
            for (const eitp__json *b = a->next; b; b = b->next) {
                if (!eitp__json_compare_names(a, b))
                    return eitp__json_fail_duplicate(parser, a, b);
            }
        }
        return EITP_OK;
    }
    if (!eitp__reserve(&parser->document->host, &keys, &parser->key_capacity, object->count, sizeof *parser->keys))
        return eitp__fail_memory(parser->error, object->count * sizeof *parser->keys, "the names of a JSON object");
    parser->keys = (eitp__json_key *)keys;
    for (const eitp__json *member = object->first_child; member; member = member->next) {
        parser->keys[count].hash = eitp__json_hash(member->name, member->name_size);
        parser->keys[count++].member = member;
    }
    eitp__sort(parser->keys, count, sizeof *parser->keys, eitp__json_compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (!eitp__json_compare_keys(&parser->keys[i - 1], &parser->keys[i]))
            return eitp__json_fail_duplicate(parser, parser->keys[i - 1].member, parser->keys[i].member);
    }
    return EITP_OK;
}

/* The name and the colon before a member's value. */
static eitp_status eitp__json_parse_name(eitp__json_parser *parser, eitp__json *member) {
    eitp_status status;
    if (!eitp__json_next_is(parser, '"'))
        return eitp__json_fail(parser, parser->at, "expected a name in quotes");
    status = eitp__json_parse_string(parser, &member->name, &member->name_size);
    if (status)
        return status;
    eitp__json_skip_space(parser);
    if (!eitp__json_next_is(parser, ':'))
        return eitp__json_fail(parser, parser->at, "expected ':' after a name");
    parser->at++;
    eitp__json_skip_space(parser);
    return EITP_OK;
}

/* What is between the brackets, and the closing one. */
static eitp_status eitp__json_parse_children(eitp__json_parser *parser, eitp__json *parent, char closing) {
    eitp__json **link = &parent->first_child;
    eitp_status status = EITP_OK;
    for (;;) {
        eitp__json *child = eitp__json_new_value(parser->document, (size_t)(parser->end - parser->start));
        if (!child)
            return eitp__fail_memory(parser->error, sizeof *child * EITP__JSON_LARGEST_BLOCK, "a JSON text");
        if (parent->kind == EITP__JSON_OBJECT)
            status = eitp__json_parse_name(parser, child);
        if (!status)
            status = eitp__json_parse_value(parser, child);
        if (status)
            return status;
        *link = child;
        link = &child->next;
        parent->count++;
        eitp__json_skip_space(parser);
        if (eitp__json_next_is(parser, closing))
            break;
        if (!eitp__json_next_is(parser, ','))
            return eitp__json_fail(parser, parser->at, closing == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
        parser->at++;
        eitp__json_skip_space(parser);
    }
    parser->at++;
    return EITP_OK;
}

static eitp_status eitp__json_parse_container(eitp__json_parser *parser, eitp__json *value) {
    char closing = *parser->at == '[' ? ']' : '}';
    eitp_status status;
    if (parser->depth == EITP__JSON_DEPTH)
        return eitp__json_fail(parser, parser->at, "values may be nested 64 deep at most");
    value->kind = closing == ']' ? EITP__JSON_ARRAY : EITP__JSON_OBJECT;
    parser->at++;
    eitp__json_skip_space(parser);
    if (eitp__json_next_is(parser, closing)) {
        parser->at++;
        return EITP_OK;
    }
    parser->depth++;
    status = eitp__json_parse_children(parser, value, closing);
    parser->depth--;
    if (!status && value->kind == EITP__JSON_OBJECT)
        status = eitp__json_check_names(parser, value);
    return status;
}

static eitp_status eitp__json_parse_value(eitp__json_parser *parser, eitp__json *value) {
    value->line = parser->line;
    if (parser->at == parser->end)
        return eitp__json_fail(parser, parser->at, "expected a value");
    switch (*parser->at) {
    case '{':
    case '[':
        return eitp__json_parse_container(parser, value);
    case '"':
        value->kind = EITP__JSON_STRING;
        return eitp__json_parse_string(parser, &value->text, &value->text_size);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return eitp__json_parse_number(parser, value);
    default:
        return eitp__json_parse_word(parser, value);
    }
}

static eitp_status eitp__json_parse_document(eitp__json_parser *parser) {
    size_t size = (size_t)(parser->end - parser->start);
    eitp__json_document *document = parser->document;
    eitp_status status;
    if (size >= 3 && !memcmp(parser->start, "\xef\xbb\xbf", 3))
        return eitp__json_fail(parser, parser->at, "JSON has no byte order mark; save the file as UTF-8 without one");
    document->text_capacity = size + 1;
    document->text = (char *)eitp__allocate_uninitialized(&document->host, size + 1);
    document->root = eitp__json_new_value(document, size);
    if (!document->text || !document->root)
        return eitp__fail_memory(parser->error, size + 1, "a JSON text");
    eitp__json_skip_space(parser);
    status = eitp__json_parse_value(parser, document->root);
    if (status)
        return status;
    eitp__json_skip_space(parser);
    if (parser->at < parser->end)
        return eitp__json_fail(parser, parser->at, "nothing may follow the value");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_parse(const eitp_host *host, const char *data, size_t size,
                                           eitp__json_document **document, eitp_error *error) {
    eitp__json_parser parser;
    eitp_status status;
    memset(&parser, 0, sizeof parser);
    if (size > SIZE_MAX / 2)
        return eitp__fail_memory(error, size, "a JSON text");
    parser.document = (eitp__json_document *)eitp__allocate(host, sizeof *parser.document);
    if (!parser.document)
        return eitp__fail_memory(error, sizeof *parser.document, "a JSON text");
    parser.document->host = *host;
    parser.start = parser.at = parser.line_start = data;
    parser.end = size ? data + size : data;
    parser.line = 1;
    parser.error = error;
    status = eitp__json_parse_document(&parser);
    eitp__release(host, parser.keys, parser.key_capacity * sizeof *parser.keys);
    if (status)
        eitp__json_release(parser.document);
    else
        *document = parser.document;
    return status;
}

EITP__PRIVATE void eitp__json_release(eitp__json_document *document) {
    eitp_host host;
    if (!document)
        return;
    host = document->host;
    while (document->blocks) {
        eitp__json_block *block = document->blocks;
        document->blocks = block->next;
        eitp__release(&host, block, sizeof *block + block->capacity * sizeof(eitp__json));
    }
    eitp__release(&host, document->text, document->text_capacity);
    eitp__release(&host, document, sizeof *document);
}

EITP__PRIVATE const eitp__json *eitp__json_root(const eitp__json_document *document) {
    return document->root;
}

EITP__PRIVATE eitp_status eitp__json_read_file(const eitp_host *host, const char *path, size_t limit,
                                               eitp__json_document **document, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_file(host, path, limit, &text, error);
    if (!status) {
        status = eitp__json_parse(host, text.data, text.size, document, error);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE const eitp__json *eitp__json_member(const eitp__json *object, const char *name) {
    size_t size = strlen(name);
    if (!object || object->kind != EITP__JSON_OBJECT)
        return NULL;
    for (const eitp__json *member = object->first_child; member; member = member->next) {
        if (member->name_size == size && !memcmp(member->name, name, size))
            return member;
    }
    return NULL;
}

/* The member called `name` where it is there and not null. */
static const eitp__json *eitp__json_present(const eitp__json *object, const char *name) {
    const eitp__json *member = eitp__json_member(object, name);
    return member && member->kind != EITP__JSON_NULL ? member : NULL;
}

/* What a value is, for a message. */
static const char *eitp__json_describe(const eitp__json *value) {
    static const char *const kinds[] = {"null", "true or false", "a number", "a string", "an array", "an object"};
    if (value->kind == EITP__JSON_NUMBER && !value->is_integer)
        return "a number with a fraction, an exponent or too many digits";
    return kinds[value->kind];
}

EITP__PRIVATE eitp_status eitp__json_get_integer(const eitp__json *object, const char *name, int64_t low, int64_t high,
                                                 int64_t *value, eitp_error *error) {
    const eitp__json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP__JSON_NUMBER || !member->is_integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an integer from %lld to %lld, not %s",
                          (unsigned long long)member->line, name, (long long)low, (long long)high,
                          eitp__json_describe(member));
    if (member->integer < low || member->integer > high)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' is %lld; it must be an integer from %lld to %lld",
                          (unsigned long long)member->line, name, (long long)member->integer, (long long)low,
                          (long long)high);
    *value = member->integer;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_number(const eitp__json *object, const char *name, double low, double high,
                                                double *value, eitp_error *error) {
    const eitp__json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP__JSON_NUMBER)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a number from %g to %g, not %s",
                          (unsigned long long)member->line, name, low, high, eitp__json_describe(member));
    if (member->number < low || member->number > high)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' is %g; it must be a number from %g to %g",
                          (unsigned long long)member->line, name, member->number, low, high);
    *value = member->number;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_boolean(const eitp__json *object, const char *name, int *value,
                                                 eitp_error *error) {
    const eitp__json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP__JSON_BOOLEAN)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be true or false, not %s",
                          (unsigned long long)member->line, name, eitp__json_describe(member));
    *value = member->boolean;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__json_get_text(const eitp__json *object, const char *name, const char **value,
                                              eitp_error *error) {
    const eitp__json *member = eitp__json_present(object, name);
    if (!member)
        return EITP_OK;
    if (member->kind != EITP__JSON_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a string, not %s",
                          (unsigned long long)member->line, name, eitp__json_describe(member));
    if (memchr(member->text, 0, member->text_size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must not hold the character U+0000",
                          (unsigned long long)member->line, name);
    *value = member->text;
    return EITP_OK;
}

/* The escape of an ASCII character that needs one, into `escape`; returns its length, or 0. */
static size_t eitp__json_escape(unsigned char c, char escape[8]) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    const char *found = c ? strchr(values, (char)c) : NULL;
    if (found) {
        escape[0] = '\\';
        escape[1] = names[found - values];
        return 2;
    }
    return c < 0x20 ? (size_t)snprintf(escape, 8, "\\u%04x", c) : 0;
}

EITP__PRIVATE void eitp__json_write_text(eitp__buffer *buffer, const char *text, size_t size) {
    size_t plain = 0, at = 0;
    char escape[8];
    eitp__buffer_add(buffer, "\"", 1);
    /* text[plain, at) goes out as it is. */
    while (at < size) {
        uint32_t code;
        int valid;
        size_t length = eitp__utf8_next((const unsigned char *)text + at, size - at, &code, &valid), escaped = 0;
        if (code < 0x80) {
            escaped = eitp__json_escape((unsigned char)code, escape);
        } else if (!valid) {
            /* What is no UTF-8 becomes the replacement character, so that the output always is. */
            escaped = 3;
            memcpy(escape, "\xef\xbf\xbd", 3);
        }
        if (escaped) {
            eitp__buffer_add(buffer, text + plain, at - plain);
            eitp__buffer_add(buffer, escape, escaped);
            plain = at + length;
        }
        at += length;
    }
    eitp__buffer_add(buffer, text + plain, at - plain);
    eitp__buffer_add(buffer, "\"", 1);
}

EITP__PRIVATE void eitp__json_write_number(eitp__buffer *buffer, double value) {
    char text[40];
    size_t length, kept = 0;
    int in_point = 0;
    if (!(value >= -DBL_MAX && value <= DBL_MAX)) {
        eitp__buffer_add(buffer, "null", 4);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* Whatever is no digit, sign or exponent is the locale's decimal point, of any number of bytes. */
    length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (strchr("0123456789+-e", text[i])) {
            text[kept++] = text[i];
            in_point = 0;
        } else if (!in_point) {
            text[kept++] = '.';
            in_point = 1;
        }
    }
    eitp__buffer_add(buffer, text, kept);
}
/* <<src/base/json.c */

/* >>kernels/kernels.c */
/* What the kernel sets and the backends share: the names of the slots, and how a matrix product reads its operands. */

EITP__PRIVATE const char *eitp__slot_name(eitp__slot slot) {
    static const char *const names[] = {
#define EITP__SLOT_NAME(name, family) #name,
        EITP__SLOTS(EITP__SLOT_NAME)
#undef EITP__SLOT_NAME
    };
    return (unsigned)slot < EITP__COUNT(names) ? names[slot] : "?";
}

EITP__PRIVATE eitp__family eitp__slot_family(eitp__slot slot) {
    static const eitp__family families[] = {
#define EITP__SLOT_FAMILY(name, family) EITP__FAMILY_##family,
        EITP__SLOTS(EITP__SLOT_FAMILY)
#undef EITP__SLOT_FAMILY
    };
    return (unsigned)slot < EITP__COUNT(families) ? families[slot] : EITP__FAMILY_COUNT;
}

EITP__PRIVATE eitp__matmul eitp__matmul_sizes(const eitp__call *call) {
    const eitp__operand *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    eitp__matmul sizes;
    sizes.transpose_a = call->integers[0] != 0;
    sizes.transpose_b = call->integers[1] != 0;
    sizes.lda = a->shape[a->rank - 1];
    sizes.ldb = b->shape[b->rank - 1];
    sizes.m = y->shape[y->rank - 2];
    sizes.n = y->shape[y->rank - 1];
    sizes.k = sizes.transpose_a ? a->shape[a->rank - 2] : sizes.lda;
    sizes.batch = 1;
    for (int i = 0; i < y->rank - 2; i++)
        sizes.batch *= y->shape[i];
    return sizes;
}

EITP__PRIVATE int64_t eitp__matmul_offset(const eitp__call *call, int which, int64_t index) {
    const eitp__operand *x = &call->inputs[which], *y = &call->outputs[0];
    int64_t offset = 0, stride = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    for (int i = x->rank - 3, j = y->rank - 3; i >= 0 && j >= 0; i--, j--) {
        int64_t size = y->shape[j];
        if (x->shape[i] != 1)
            offset += index % size * stride;
        index /= size;
        stride *= x->shape[i];
    }
    return offset;
}
/* <<kernels/kernels.c */

/* >>kernels/ref/matmul.c */
/* The matrix product in plain C, on vectors of 16 bytes: where a processor has none, the compiler does without. */

typedef float eitp__ref_f32x4 __attribute__((vector_size(16)));
typedef double eitp__ref_f64x2 __attribute__((vector_size(16)));

/* By memcpy: operands are aligned to their elements only. */
static inline eitp__ref_f32x4 eitp__ref_load_f32(const float *p) {
    eitp__ref_f32x4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f32(float *p, eitp__ref_f32x4 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_f32x4 eitp__ref_spread_f32(float x) {
    eitp__ref_f32x4 v = {x, x, x, x};
    return v;
}

static inline eitp__ref_f64x2 eitp__ref_load_f64(const double *p) {
    eitp__ref_f64x2 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void eitp__ref_store_f64(double *p, eitp__ref_f64x2 v) {
    memcpy(p, &v, sizeof v);
}

static inline eitp__ref_f64x2 eitp__ref_spread_f64(double x) {
    eitp__ref_f64x2 v = {x, x};
    return v;
}

#define EITP__MATMUL(name) eitp__ref_matmul_f32_##name
#define EITP__MATMUL_TYPE float
#define EITP__MATMUL_VECTOR eitp__ref_f32x4
#define EITP__MATMUL_LANES 4
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f32(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f32(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f32(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 256
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96

/* >>kernels/matmul.inc */
/*
 * The matrix product, for one element type on one instruction set.
 *
 * The including file defines
 *   EITP__MATMUL(name)               the name of a function of this instance
 *   EITP__MATMUL_TYPE                the element type
 *   EITP__MATMUL_VECTOR, _LANES      a vector of elements and how many it has
 *   EITP__MATMUL_LOAD(p), _STORE(p, v), _SPREAD(x), _ADD_PRODUCT(c, a, b)   on vectors; the last is c + a * b
 *   EITP__MATMUL_ROWS(X)             X(0) X(1) ... for the rows that a block of y in registers has
 *   EITP__MATMUL_ROW_COUNT           how many these are
 *   EITP__MATMUL_DEPTH               how far along k a block goes
 *   EITP__MATMUL_TILE_ROWS, _TILE_COLUMNS   the size of an item
 *   EITP__MATMUL_TURN(from, stride, to, to_stride)   optional: turns a block of EITP__MATMUL_TURN_SIZE squared elements
 *
 * and finds them undefined again afterwards.
 *
 * A block of y, ROW_COUNT x 3 vectors, stays in registers while k runs. Each element is one chain of additions in the
 * order of k that starts from what y holds, so no blocking, no tile and no cut of k into accumulated products changes a
 * bit. b is copied into panels as wide as a block; a is read in place, or copied where it is transposed.
 */
#define EITP__MATMUL_WIDTH (3 * EITP__MATMUL_LANES)

enum {
    EITP__MATMUL(tile_rows) = EITP__MATMUL_TILE_ROWS,
    EITP__MATMUL(panel) = EITP__MATMUL_DEPTH * EITP__MATMUL_WIDTH,    /* elements of a panel of b */
    EITP__MATMUL(edge) = EITP__MATMUL_ROW_COUNT * EITP__MATMUL_WIDTH, /* of a block of y */
    EITP__MATMUL(packed_rows) = (EITP__MATMUL_TILE_ROWS + EITP__MATMUL_ROW_COUNT - 1) / EITP__MATMUL_ROW_COUNT *
                                EITP__MATMUL_ROW_COUNT * EITP__MATMUL_DEPTH /* of a tile of a */
};

static size_t EITP__MATMUL(workspace)(const eitp__call *call) {
    size_t elements = EITP__MATMUL(panel) + EITP__MATMUL(edge);
    if (call->integers[0])
        elements += EITP__MATMUL(packed_rows);
    return elements * sizeof(EITP__MATMUL_TYPE);
}

/* y += a * b for one block of y and `depth` steps of k. */
static void EITP__MATMUL(block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride, int64_t depth_stride,
                                const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y, int64_t y_stride) {
#define EITP__MATMUL_BEGIN(i)                                                                                          \
    EITP__MATMUL_VECTOR y##i##0 = EITP__MATMUL_LOAD(y + i * y_stride);                                                 \
    EITP__MATMUL_VECTOR y##i##1 = EITP__MATMUL_LOAD(y + i * y_stride + EITP__MATMUL_LANES);                            \
    EITP__MATMUL_VECTOR y##i##2 = EITP__MATMUL_LOAD(y + i * y_stride + 2 * EITP__MATMUL_LANES);
#define EITP__MATMUL_STEP(i)                                                                                           \
    {                                                                                                                  \
        EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride]);                                               \
        y##i##0 = EITP__MATMUL_ADD_PRODUCT(y##i##0, a0, b0);                                                           \
        y##i##1 = EITP__MATMUL_ADD_PRODUCT(y##i##1, a0, b1);                                                           \
        y##i##2 = EITP__MATMUL_ADD_PRODUCT(y##i##2, a0, b2);                                                           \
    }
#define EITP__MATMUL_END(i)                                                                                            \
    EITP__MATMUL_STORE(y + i * y_stride, y##i##0);                                                                     \
    EITP__MATMUL_STORE(y + i * y_stride + EITP__MATMUL_LANES, y##i##1);                                                \
    EITP__MATMUL_STORE(y + i * y_stride + 2 * EITP__MATMUL_LANES, y##i##2);

    EITP__MATMUL_ROWS(EITP__MATMUL_BEGIN)
    for (int64_t p = 0; p < depth; p++) {
        EITP__MATMUL_VECTOR b0 = EITP__MATMUL_LOAD(b);
        EITP__MATMUL_VECTOR b1 = EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES);
        EITP__MATMUL_VECTOR b2 = EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES);
        EITP__MATMUL_ROWS(EITP__MATMUL_STEP)
        a += depth_stride;
        b += EITP__MATMUL_WIDTH;
    }
    EITP__MATMUL_ROWS(EITP__MATMUL_END)

#undef EITP__MATMUL_BEGIN
#undef EITP__MATMUL_STEP
#undef EITP__MATMUL_END
}

/* The same for a block of which only `rows` x `columns` are y's. Rows of a beyond these are not read. */
static void EITP__MATMUL(edge_block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride,
                                     int64_t depth_stride, const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y,
                                     int64_t y_stride, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *edge) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            edge[i * EITP__MATMUL_WIDTH + j] = j < columns ? y[i * y_stride + j] : 0;
    if (rows == EITP__MATMUL_ROW_COUNT) {
        EITP__MATMUL(block)(depth, a, row_stride, depth_stride, b, edge, EITP__MATMUL_WIDTH);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            EITP__MATMUL_TYPE *row = edge + i * EITP__MATMUL_WIDTH;
            EITP__MATMUL_VECTOR y0 = EITP__MATMUL_LOAD(row);
            EITP__MATMUL_VECTOR y1 = EITP__MATMUL_LOAD(row + EITP__MATMUL_LANES);
            EITP__MATMUL_VECTOR y2 = EITP__MATMUL_LOAD(row + 2 * EITP__MATMUL_LANES);
            for (int64_t p = 0; p < depth; p++) {
                EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride + p * depth_stride]);
                const EITP__MATMUL_TYPE *from = b + p * EITP__MATMUL_WIDTH;
                y0 = EITP__MATMUL_ADD_PRODUCT(y0, a0, EITP__MATMUL_LOAD(from));
                y1 = EITP__MATMUL_ADD_PRODUCT(y1, a0, EITP__MATMUL_LOAD(from + EITP__MATMUL_LANES));
                y2 = EITP__MATMUL_ADD_PRODUCT(y2, a0, EITP__MATMUL_LOAD(from + 2 * EITP__MATMUL_LANES));
            }
            EITP__MATMUL_STORE(row, y0);
            EITP__MATMUL_STORE(row + EITP__MATMUL_LANES, y1);
            EITP__MATMUL_STORE(row + 2 * EITP__MATMUL_LANES, y2);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * y_stride + j] = edge[i * EITP__MATMUL_WIDTH + j];
}

/* A panel from b [depth, columns] as it is stored; columns it lacks become zeros. */
static void EITP__MATMUL(pack_rows)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                    EITP__MATMUL_TYPE *panel) {
    if (columns == EITP__MATMUL_WIDTH) {
        for (int64_t p = 0; p < depth; p++, b += stride, panel += EITP__MATMUL_WIDTH) {
            __builtin_prefetch(b + (p + 8 < depth ? 8 * stride : 0));
            EITP__MATMUL_STORE(panel, EITP__MATMUL_LOAD(b));
            EITP__MATMUL_STORE(panel + EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES));
            EITP__MATMUL_STORE(panel + 2 * EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES));
        }
        return;
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            panel[p * EITP__MATMUL_WIDTH + j] = j < columns ? b[p * stride + j] : 0;
}

/* A panel from b that is stored as [columns, depth]. */
static void EITP__MATMUL(pack_turned)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                      EITP__MATMUL_TYPE *panel) {
    int64_t done_columns = 0, done_depth = 0;
#ifdef EITP__MATMUL_TURN
    done_columns = columns / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    done_depth = depth / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    for (int64_t j = 0; j < done_columns; j += EITP__MATMUL_TURN_SIZE)
        for (int64_t p = 0; p < done_depth; p += EITP__MATMUL_TURN_SIZE)
            EITP__MATMUL_TURN(b + j * stride + p, stride, panel + p * EITP__MATMUL_WIDTH + j, EITP__MATMUL_WIDTH);
#endif
    for (int64_t j = 0; j < columns; j++)
        for (int64_t p = j < done_columns ? done_depth : 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = b[j * stride + p];
    for (int64_t j = columns; j < EITP__MATMUL_WIDTH; j++)
        for (int64_t p = 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = 0;
}

/* Blocks of rows, each with k outermost, from a that is stored as [depth, rows]; rows it lacks become zeros. */
static void EITP__MATMUL(pack_a)(const EITP__MATMUL_TYPE *a, int64_t stride, int64_t depth, int64_t rows,
                                 EITP__MATMUL_TYPE *packed) {
    /* A few steps of k at a time: rows of a that are a power of two apart share cache sets. */
    for (int64_t p = 0; p < depth; p += 8) {
        int64_t steps = depth - p < 8 ? depth - p : 8;
        for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
            EITP__MATMUL_TYPE *to = packed + i * depth + p * EITP__MATMUL_ROW_COUNT;
            const EITP__MATMUL_TYPE *from = a + p * stride + i;
            if (rows - i >= EITP__MATMUL_ROW_COUNT) {
                for (int64_t s = 0; s < steps; s++)
                    memcpy(to + s * EITP__MATMUL_ROW_COUNT, from + s * stride,
                           EITP__MATMUL_ROW_COUNT * sizeof(EITP__MATMUL_TYPE));
            } else {
                for (int64_t s = 0; s < steps; s++)
                    for (int64_t r = 0; r < EITP__MATMUL_ROW_COUNT; r++)
                        to[s * EITP__MATMUL_ROW_COUNT + r] = r < rows - i ? from[s * stride + r] : 0;
            }
        }
    }
}

/* What a tile of y starts from: carry * y + bias, where y is not read while carry is 0. */
static void EITP__MATMUL(start)(const eitp__call *call, const EITP__MATMUL_TYPE *bias, EITP__MATMUL_TYPE *y,
                                int64_t stride, int64_t rows, int64_t columns) {
    EITP__MATMUL_TYPE carry = !call->accumulates ? 0 : call->carry ? (EITP__MATMUL_TYPE)call->carry[0] : 1;
    for (int64_t i = 0; i < rows; i++, y += stride) {
        if (carry != 0) {
            if (carry != 1)
                for (int64_t j = 0; j < columns; j++)
                    y[j] *= carry;
            if (bias)
                for (int64_t j = 0; j < columns; j++)
                    y[j] += bias[j];
        } else if (bias) {
            memcpy(y, bias, (size_t)columns * sizeof *y);
        } else {
            memset(y, 0, (size_t)columns * sizeof *y);
        }
    }
}

static void EITP__MATMUL(tile)(const eitp__matmul *sizes, const EITP__MATMUL_TYPE *a, const EITP__MATMUL_TYPE *b,
                               EITP__MATMUL_TYPE *y, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *workspace) {
    EITP__MATMUL_TYPE *panel = workspace, *edge = panel + EITP__MATMUL(panel), *packed = edge + EITP__MATMUL(edge);
    for (int64_t p = 0; p < sizes->k; p += EITP__MATMUL_DEPTH) {
        int64_t depth = sizes->k - p < EITP__MATMUL_DEPTH ? sizes->k - p : EITP__MATMUL_DEPTH;
        if (sizes->transpose_a)
            EITP__MATMUL(pack_a)(a + p * sizes->lda, sizes->lda, depth, rows, packed);
        for (int64_t j = 0; j < columns; j += EITP__MATMUL_WIDTH) {
            int64_t width = columns - j < EITP__MATMUL_WIDTH ? columns - j : EITP__MATMUL_WIDTH;
            if (sizes->transpose_b)
                EITP__MATMUL(pack_turned)(b + j * sizes->ldb + p, sizes->ldb, depth, width, panel);
            else
                EITP__MATMUL(pack_rows)(b + p * sizes->ldb + j, sizes->ldb, depth, width, panel);
            for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
                int64_t height = rows - i < EITP__MATMUL_ROW_COUNT ? rows - i : EITP__MATMUL_ROW_COUNT;
                int64_t row_stride = sizes->transpose_a ? 1 : sizes->lda;
                int64_t depth_stride = sizes->transpose_a ? EITP__MATMUL_ROW_COUNT : 1;
                const EITP__MATMUL_TYPE *from = sizes->transpose_a ? packed + i * depth : a + i * sizes->lda + p;
                EITP__MATMUL_TYPE *to = y + i * sizes->n + j;
                if (height == EITP__MATMUL_ROW_COUNT && width == EITP__MATMUL_WIDTH)
                    EITP__MATMUL(block)(depth, from, row_stride, depth_stride, panel, to, sizes->n);
                else
                    EITP__MATMUL(edge_block)
                (depth, from, row_stride, depth_stride, panel, to, sizes->n, height, width, edge);
            }
        }
    }
}

static void EITP__MATMUL(run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const EITP__MATMUL_TYPE *a = (const EITP__MATMUL_TYPE *)call->inputs[0].data;
    const EITP__MATMUL_TYPE *b = (const EITP__MATMUL_TYPE *)call->inputs[1].data;
    const EITP__MATMUL_TYPE *bias = call->input_count > 2 ? (const EITP__MATMUL_TYPE *)call->inputs[2].data : NULL;
    EITP__MATMUL_TYPE *y = (EITP__MATMUL_TYPE *)call->outputs[0].data;
    int64_t tiles_across = (sizes.n + EITP__MATMUL_TILE_COLUMNS - 1) / EITP__MATMUL_TILE_COLUMNS;
    int64_t tiles_down = (sizes.m + EITP__MATMUL_TILE_ROWS - 1) / EITP__MATMUL_TILE_ROWS;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (tiles_down * tiles_across);
        int64_t i = item / tiles_across % tiles_down * EITP__MATMUL_TILE_ROWS;
        int64_t j = item % tiles_across * EITP__MATMUL_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__MATMUL_TILE_ROWS ? sizes.m - i : EITP__MATMUL_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__MATMUL_TILE_COLUMNS ? sizes.n - j : EITP__MATMUL_TILE_COLUMNS;
        EITP__MATMUL_TYPE *to = y + (batch * sizes.m + i) * sizes.n + j;
        EITP__MATMUL(start)(call, bias ? bias + j : NULL, to, sizes.n, rows, columns);
        EITP__MATMUL(tile)
        (&sizes, a + eitp__matmul_offset(call, 0, batch) + (sizes.transpose_a ? i : i * sizes.lda),
         b + eitp__matmul_offset(call, 1, batch) + (sizes.transpose_b ? j * sizes.ldb : j), to, rows, columns,
         (EITP__MATMUL_TYPE *)workspace);
    }
}

static eitp__kernel EITP__MATMUL(kernel)(const char *set) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = EITP__MATMUL(run);
    kernel.workspace = EITP__MATMUL(workspace);
    kernel.tile_rows = EITP__MATMUL_TILE_ROWS;
    kernel.tile_columns = EITP__MATMUL_TILE_COLUMNS;
    kernel.set = set;
    return kernel;
}

#undef EITP__MATMUL_WIDTH
#undef EITP__MATMUL
#undef EITP__MATMUL_TYPE
#undef EITP__MATMUL_VECTOR
#undef EITP__MATMUL_LANES
#undef EITP__MATMUL_LOAD
#undef EITP__MATMUL_STORE
#undef EITP__MATMUL_SPREAD
#undef EITP__MATMUL_ADD_PRODUCT
#undef EITP__MATMUL_ROWS
#undef EITP__MATMUL_ROW_COUNT
#undef EITP__MATMUL_DEPTH
#undef EITP__MATMUL_TILE_ROWS
#undef EITP__MATMUL_TILE_COLUMNS
#undef EITP__MATMUL_TURN
#undef EITP__MATMUL_TURN_SIZE
/* <<kernels/matmul.inc */

#define EITP__MATMUL(name) eitp__ref_matmul_f64_##name
#define EITP__MATMUL_TYPE double
#define EITP__MATMUL_VECTOR eitp__ref_f64x2
#define EITP__MATMUL_LANES 2
#define EITP__MATMUL_LOAD(p) eitp__ref_load_f64(p)
#define EITP__MATMUL_STORE(p, v) eitp__ref_store_f64(p, v)
#define EITP__MATMUL_SPREAD(x) eitp__ref_spread_f64(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) ((c) + (a) * (b))
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 256
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96

/* >>kernels/matmul.inc */
/*
 * The matrix product, for one element type on one instruction set.
 *
 * The including file defines
 *   EITP__MATMUL(name)               the name of a function of this instance
 *   EITP__MATMUL_TYPE                the element type
 *   EITP__MATMUL_VECTOR, _LANES      a vector of elements and how many it has
 *   EITP__MATMUL_LOAD(p), _STORE(p, v), _SPREAD(x), _ADD_PRODUCT(c, a, b)   on vectors; the last is c + a * b
 *   EITP__MATMUL_ROWS(X)             X(0) X(1) ... for the rows that a block of y in registers has
 *   EITP__MATMUL_ROW_COUNT           how many these are
 *   EITP__MATMUL_DEPTH               how far along k a block goes
 *   EITP__MATMUL_TILE_ROWS, _TILE_COLUMNS   the size of an item
 *   EITP__MATMUL_TURN(from, stride, to, to_stride)   optional: turns a block of EITP__MATMUL_TURN_SIZE squared elements
 *
 * and finds them undefined again afterwards.
 *
 * A block of y, ROW_COUNT x 3 vectors, stays in registers while k runs. Each element is one chain of additions in the
 * order of k that starts from what y holds, so no blocking, no tile and no cut of k into accumulated products changes a
 * bit. b is copied into panels as wide as a block; a is read in place, or copied where it is transposed.
 */
#define EITP__MATMUL_WIDTH (3 * EITP__MATMUL_LANES)

enum {
    EITP__MATMUL(tile_rows) = EITP__MATMUL_TILE_ROWS,
    EITP__MATMUL(panel) = EITP__MATMUL_DEPTH * EITP__MATMUL_WIDTH,    /* elements of a panel of b */
    EITP__MATMUL(edge) = EITP__MATMUL_ROW_COUNT * EITP__MATMUL_WIDTH, /* of a block of y */
    EITP__MATMUL(packed_rows) = (EITP__MATMUL_TILE_ROWS + EITP__MATMUL_ROW_COUNT - 1) / EITP__MATMUL_ROW_COUNT *
                                EITP__MATMUL_ROW_COUNT * EITP__MATMUL_DEPTH /* of a tile of a */
};

static size_t EITP__MATMUL(workspace)(const eitp__call *call) {
    size_t elements = EITP__MATMUL(panel) + EITP__MATMUL(edge);
    if (call->integers[0])
        elements += EITP__MATMUL(packed_rows);
    return elements * sizeof(EITP__MATMUL_TYPE);
}

/* y += a * b for one block of y and `depth` steps of k. */
static void EITP__MATMUL(block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride, int64_t depth_stride,
                                const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y, int64_t y_stride) {
#define EITP__MATMUL_BEGIN(i)                                                                                          \
    EITP__MATMUL_VECTOR y##i##0 = EITP__MATMUL_LOAD(y + i * y_stride);                                                 \
    EITP__MATMUL_VECTOR y##i##1 = EITP__MATMUL_LOAD(y + i * y_stride + EITP__MATMUL_LANES);                            \
    EITP__MATMUL_VECTOR y##i##2 = EITP__MATMUL_LOAD(y + i * y_stride + 2 * EITP__MATMUL_LANES);
#define EITP__MATMUL_STEP(i)                                                                                           \
    {                                                                                                                  \
        EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride]);                                               \
        y##i##0 = EITP__MATMUL_ADD_PRODUCT(y##i##0, a0, b0);                                                           \
        y##i##1 = EITP__MATMUL_ADD_PRODUCT(y##i##1, a0, b1);                                                           \
        y##i##2 = EITP__MATMUL_ADD_PRODUCT(y##i##2, a0, b2);                                                           \
    }
#define EITP__MATMUL_END(i)                                                                                            \
    EITP__MATMUL_STORE(y + i * y_stride, y##i##0);                                                                     \
    EITP__MATMUL_STORE(y + i * y_stride + EITP__MATMUL_LANES, y##i##1);                                                \
    EITP__MATMUL_STORE(y + i * y_stride + 2 * EITP__MATMUL_LANES, y##i##2);

    EITP__MATMUL_ROWS(EITP__MATMUL_BEGIN)
    for (int64_t p = 0; p < depth; p++) {
        EITP__MATMUL_VECTOR b0 = EITP__MATMUL_LOAD(b);
        EITP__MATMUL_VECTOR b1 = EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES);
        EITP__MATMUL_VECTOR b2 = EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES);
        EITP__MATMUL_ROWS(EITP__MATMUL_STEP)
        a += depth_stride;
        b += EITP__MATMUL_WIDTH;
    }
    EITP__MATMUL_ROWS(EITP__MATMUL_END)

#undef EITP__MATMUL_BEGIN
#undef EITP__MATMUL_STEP
#undef EITP__MATMUL_END
}

/* The same for a block of which only `rows` x `columns` are y's. Rows of a beyond these are not read. */
static void EITP__MATMUL(edge_block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride,
                                     int64_t depth_stride, const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y,
                                     int64_t y_stride, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *edge) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            edge[i * EITP__MATMUL_WIDTH + j] = j < columns ? y[i * y_stride + j] : 0;
    if (rows == EITP__MATMUL_ROW_COUNT) {
        EITP__MATMUL(block)(depth, a, row_stride, depth_stride, b, edge, EITP__MATMUL_WIDTH);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            EITP__MATMUL_TYPE *row = edge + i * EITP__MATMUL_WIDTH;
            EITP__MATMUL_VECTOR y0 = EITP__MATMUL_LOAD(row);
            EITP__MATMUL_VECTOR y1 = EITP__MATMUL_LOAD(row + EITP__MATMUL_LANES);
            EITP__MATMUL_VECTOR y2 = EITP__MATMUL_LOAD(row + 2 * EITP__MATMUL_LANES);
            for (int64_t p = 0; p < depth; p++) {
                EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride + p * depth_stride]);
                const EITP__MATMUL_TYPE *from = b + p * EITP__MATMUL_WIDTH;
                y0 = EITP__MATMUL_ADD_PRODUCT(y0, a0, EITP__MATMUL_LOAD(from));
                y1 = EITP__MATMUL_ADD_PRODUCT(y1, a0, EITP__MATMUL_LOAD(from + EITP__MATMUL_LANES));
                y2 = EITP__MATMUL_ADD_PRODUCT(y2, a0, EITP__MATMUL_LOAD(from + 2 * EITP__MATMUL_LANES));
            }
            EITP__MATMUL_STORE(row, y0);
            EITP__MATMUL_STORE(row + EITP__MATMUL_LANES, y1);
            EITP__MATMUL_STORE(row + 2 * EITP__MATMUL_LANES, y2);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * y_stride + j] = edge[i * EITP__MATMUL_WIDTH + j];
}

/* A panel from b [depth, columns] as it is stored; columns it lacks become zeros. */
static void EITP__MATMUL(pack_rows)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                    EITP__MATMUL_TYPE *panel) {
    if (columns == EITP__MATMUL_WIDTH) {
        for (int64_t p = 0; p < depth; p++, b += stride, panel += EITP__MATMUL_WIDTH) {
            __builtin_prefetch(b + (p + 8 < depth ? 8 * stride : 0));
            EITP__MATMUL_STORE(panel, EITP__MATMUL_LOAD(b));
            EITP__MATMUL_STORE(panel + EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES));
            EITP__MATMUL_STORE(panel + 2 * EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES));
        }
        return;
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            panel[p * EITP__MATMUL_WIDTH + j] = j < columns ? b[p * stride + j] : 0;
}

/* A panel from b that is stored as [columns, depth]. */
static void EITP__MATMUL(pack_turned)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                      EITP__MATMUL_TYPE *panel) {
    int64_t done_columns = 0, done_depth = 0;
#ifdef EITP__MATMUL_TURN
    done_columns = columns / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    done_depth = depth / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    for (int64_t j = 0; j < done_columns; j += EITP__MATMUL_TURN_SIZE)
        for (int64_t p = 0; p < done_depth; p += EITP__MATMUL_TURN_SIZE)
            EITP__MATMUL_TURN(b + j * stride + p, stride, panel + p * EITP__MATMUL_WIDTH + j, EITP__MATMUL_WIDTH);
#endif
    for (int64_t j = 0; j < columns; j++)
        for (int64_t p = j < done_columns ? done_depth : 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = b[j * stride + p];
    for (int64_t j = columns; j < EITP__MATMUL_WIDTH; j++)
        for (int64_t p = 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = 0;
}

/* Blocks of rows, each with k outermost, from a that is stored as [depth, rows]; rows it lacks become zeros. */
static void EITP__MATMUL(pack_a)(const EITP__MATMUL_TYPE *a, int64_t stride, int64_t depth, int64_t rows,
                                 EITP__MATMUL_TYPE *packed) {
    /* A few steps of k at a time: rows of a that are a power of two apart share cache sets. */
    for (int64_t p = 0; p < depth; p += 8) {
        int64_t steps = depth - p < 8 ? depth - p : 8;
        for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
            EITP__MATMUL_TYPE *to = packed + i * depth + p * EITP__MATMUL_ROW_COUNT;
            const EITP__MATMUL_TYPE *from = a + p * stride + i;
            if (rows - i >= EITP__MATMUL_ROW_COUNT) {
                for (int64_t s = 0; s < steps; s++)
                    memcpy(to + s * EITP__MATMUL_ROW_COUNT, from + s * stride,
                           EITP__MATMUL_ROW_COUNT * sizeof(EITP__MATMUL_TYPE));
            } else {
                for (int64_t s = 0; s < steps; s++)
                    for (int64_t r = 0; r < EITP__MATMUL_ROW_COUNT; r++)
                        to[s * EITP__MATMUL_ROW_COUNT + r] = r < rows - i ? from[s * stride + r] : 0;
            }
        }
    }
}

/* What a tile of y starts from: carry * y + bias, where y is not read while carry is 0. */
static void EITP__MATMUL(start)(const eitp__call *call, const EITP__MATMUL_TYPE *bias, EITP__MATMUL_TYPE *y,
                                int64_t stride, int64_t rows, int64_t columns) {
    EITP__MATMUL_TYPE carry = !call->accumulates ? 0 : call->carry ? (EITP__MATMUL_TYPE)call->carry[0] : 1;
    for (int64_t i = 0; i < rows; i++, y += stride) {
        if (carry != 0) {
            if (carry != 1)
                for (int64_t j = 0; j < columns; j++)
                    y[j] *= carry;
            if (bias)
                for (int64_t j = 0; j < columns; j++)
                    y[j] += bias[j];
        } else if (bias) {
            memcpy(y, bias, (size_t)columns * sizeof *y);
        } else {
            memset(y, 0, (size_t)columns * sizeof *y);
        }
    }
}

static void EITP__MATMUL(tile)(const eitp__matmul *sizes, const EITP__MATMUL_TYPE *a, const EITP__MATMUL_TYPE *b,
                               EITP__MATMUL_TYPE *y, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *workspace) {
    EITP__MATMUL_TYPE *panel = workspace, *edge = panel + EITP__MATMUL(panel), *packed = edge + EITP__MATMUL(edge);
    for (int64_t p = 0; p < sizes->k; p += EITP__MATMUL_DEPTH) {
        int64_t depth = sizes->k - p < EITP__MATMUL_DEPTH ? sizes->k - p : EITP__MATMUL_DEPTH;
        if (sizes->transpose_a)
            EITP__MATMUL(pack_a)(a + p * sizes->lda, sizes->lda, depth, rows, packed);
        for (int64_t j = 0; j < columns; j += EITP__MATMUL_WIDTH) {
            int64_t width = columns - j < EITP__MATMUL_WIDTH ? columns - j : EITP__MATMUL_WIDTH;
            if (sizes->transpose_b)
                EITP__MATMUL(pack_turned)(b + j * sizes->ldb + p, sizes->ldb, depth, width, panel);
            else
                EITP__MATMUL(pack_rows)(b + p * sizes->ldb + j, sizes->ldb, depth, width, panel);
            for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
                int64_t height = rows - i < EITP__MATMUL_ROW_COUNT ? rows - i : EITP__MATMUL_ROW_COUNT;
                int64_t row_stride = sizes->transpose_a ? 1 : sizes->lda;
                int64_t depth_stride = sizes->transpose_a ? EITP__MATMUL_ROW_COUNT : 1;
                const EITP__MATMUL_TYPE *from = sizes->transpose_a ? packed + i * depth : a + i * sizes->lda + p;
                EITP__MATMUL_TYPE *to = y + i * sizes->n + j;
                if (height == EITP__MATMUL_ROW_COUNT && width == EITP__MATMUL_WIDTH)
                    EITP__MATMUL(block)(depth, from, row_stride, depth_stride, panel, to, sizes->n);
                else
                    EITP__MATMUL(edge_block)
                (depth, from, row_stride, depth_stride, panel, to, sizes->n, height, width, edge);
            }
        }
    }
}

static void EITP__MATMUL(run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const EITP__MATMUL_TYPE *a = (const EITP__MATMUL_TYPE *)call->inputs[0].data;
    const EITP__MATMUL_TYPE *b = (const EITP__MATMUL_TYPE *)call->inputs[1].data;
    const EITP__MATMUL_TYPE *bias = call->input_count > 2 ? (const EITP__MATMUL_TYPE *)call->inputs[2].data : NULL;
    EITP__MATMUL_TYPE *y = (EITP__MATMUL_TYPE *)call->outputs[0].data;
    int64_t tiles_across = (sizes.n + EITP__MATMUL_TILE_COLUMNS - 1) / EITP__MATMUL_TILE_COLUMNS;
    int64_t tiles_down = (sizes.m + EITP__MATMUL_TILE_ROWS - 1) / EITP__MATMUL_TILE_ROWS;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (tiles_down * tiles_across);
        int64_t i = item / tiles_across % tiles_down * EITP__MATMUL_TILE_ROWS;
        int64_t j = item % tiles_across * EITP__MATMUL_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__MATMUL_TILE_ROWS ? sizes.m - i : EITP__MATMUL_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__MATMUL_TILE_COLUMNS ? sizes.n - j : EITP__MATMUL_TILE_COLUMNS;
        EITP__MATMUL_TYPE *to = y + (batch * sizes.m + i) * sizes.n + j;
        EITP__MATMUL(start)(call, bias ? bias + j : NULL, to, sizes.n, rows, columns);
        EITP__MATMUL(tile)
        (&sizes, a + eitp__matmul_offset(call, 0, batch) + (sizes.transpose_a ? i : i * sizes.lda),
         b + eitp__matmul_offset(call, 1, batch) + (sizes.transpose_b ? j * sizes.ldb : j), to, rows, columns,
         (EITP__MATMUL_TYPE *)workspace);
    }
}

static eitp__kernel EITP__MATMUL(kernel)(const char *set) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = EITP__MATMUL(run);
    kernel.workspace = EITP__MATMUL(workspace);
    kernel.tile_rows = EITP__MATMUL_TILE_ROWS;
    kernel.tile_columns = EITP__MATMUL_TILE_COLUMNS;
    kernel.set = set;
    return kernel;
}

#undef EITP__MATMUL_WIDTH
#undef EITP__MATMUL
#undef EITP__MATMUL_TYPE
#undef EITP__MATMUL_VECTOR
#undef EITP__MATMUL_LANES
#undef EITP__MATMUL_LOAD
#undef EITP__MATMUL_STORE
#undef EITP__MATMUL_SPREAD
#undef EITP__MATMUL_ADD_PRODUCT
#undef EITP__MATMUL_ROWS
#undef EITP__MATMUL_ROW_COUNT
#undef EITP__MATMUL_DEPTH
#undef EITP__MATMUL_TILE_ROWS
#undef EITP__MATMUL_TILE_COLUMNS
#undef EITP__MATMUL_TURN
#undef EITP__MATMUL_TURN_SIZE
/* <<kernels/matmul.inc */

EITP__PRIVATE void eitp__register_ref_matmul(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = eitp__ref_matmul_f32_kernel("ref");
    table->kernels[EITP__SLOT_MATMUL][EITP_F64] = eitp__ref_matmul_f64_kernel("ref");
}
/* <<kernels/ref/matmul.c */

/* >>kernels/ref/cast.c */
/* Conversions between the element types, and arrays that are made from a number: FILL, ARANGE, CAST. */

#define EITP__REF_INTEGERS(X)                                                                                          \
    X(EITP_I64, int64_t, INT64_MIN, INT64_MAX)                                                                         \
    X(EITP_I32, int32_t, INT32_MIN, INT32_MAX)                                                                         \
    X(EITP_I8, int8_t, INT8_MIN, INT8_MAX)                                                                             \
    X(EITP_U8, uint8_t, 0, UINT8_MAX)

/* Values are converted this many at a time: through double or, from integers, int64_t, which lose nothing of them. */
enum { EITP__REF_CAST_BLOCK = 256 };

static float eitp__ref_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t eitp__ref_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float eitp__ref_from_bf16(uint16_t bits) {
    return eitp__ref_float_of((uint32_t)bits << 16);
}

/* To the nearest, of two the even one; a NaN keeps its sign and what there is room for, and is quiet. */
static uint16_t eitp__ref_to_bf16(float value) {
    uint32_t bits = eitp__ref_bits_of(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float eitp__ref_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 31)
        return eitp__ref_float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        float value = (float)fraction * (1.0f / 16777216.0f);
        return sign ? -value : value;
    }
    return eitp__ref_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

static uint16_t eitp__ref_to_f16(float value) {
    uint32_t bits = eitp__ref_bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (size >> 13 & 1023u));
    if (size >= 0x477ff000u) /* 65520 is halfway beyond the largest, 65504 */
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) /* below the smallest normal one; floats in [1/2, 1) are as far apart as these values */
        return (uint16_t)(sign | (eitp__ref_bits_of(eitp__ref_float_of(size) + 0.5f) - eitp__ref_bits_of(0.5f)));
    return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}

static int eitp__ref_is_real(eitp_dtype dtype) {
    return dtype == EITP_F32 || dtype == EITP_F64 || dtype == EITP_BF16 || dtype == EITP_F16;
}

static void eitp__ref_load_reals(const eitp__operand *x, int64_t first, int64_t count, double *to) {
    if (x->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)((const float *)x->data)[first + i];
    else if (x->dtype == EITP_F64)
        memcpy(to, (const double *)x->data + first, (size_t)count * sizeof *to);
    else if (x->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)eitp__ref_from_bf16(((const uint16_t *)x->data)[first + i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)eitp__ref_from_f16(((const uint16_t *)x->data)[first + i]);
}

static void eitp__ref_load_integers(const eitp__operand *x, int64_t first, int64_t count, int64_t *to) {
#define EITP__REF_LOAD(code, type, low, high)                                                                          \
    if (x->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = (int64_t)((const type *)x->data)[first + i];
    EITP__REF_INTEGERS(EITP__REF_LOAD)
#undef EITP__REF_LOAD
}

/* Rounded towards zero; what is too large becomes the largest, what is not a number 0. */
static int64_t eitp__ref_whole(double value, int64_t low, int64_t high) {
    if (value != value)
        return 0;
    if (value <= (double)low)
        return low;
    return value >= (double)high ? high : (int64_t)value;
}

static void eitp__ref_store_reals(const eitp__operand *y, int64_t first, int64_t count, const double *from) {
    if (y->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)y->data)[first + i] = (float)from[i];
    if (y->dtype == EITP_F64)
        memcpy((double *)y->data + first, from, (size_t)count * sizeof *from);
    if (y->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)eitp__ref_whole(from[i], low, high);
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

/* Of an integer that is too large the low bits are kept. */
static void eitp__ref_store_integers(const eitp__operand *y, int64_t first, int64_t count, const int64_t *from) {
    if (y->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)y->data)[first + i] = (float)from[i];
    if (y->dtype == EITP_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)y->data)[first + i] = (double)from[i];
    if (y->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)from[i];
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

static void eitp__ref_cast(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    double reals[EITP__REF_CAST_BLOCK];
    int64_t integers[EITP__REF_CAST_BLOCK];
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        count = eitp__ref_smaller(end - i, EITP__REF_CAST_BLOCK);
        if (eitp__ref_is_real(x->dtype)) {
            eitp__ref_load_reals(x, i, count, reals);
            eitp__ref_store_reals(y, i, count, reals);
        } else {
            eitp__ref_load_integers(x, i, count, integers);
            eitp__ref_store_integers(y, i, count, integers);
        }
    }
}

static void eitp__ref_arange(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t integers[EITP__REF_CAST_BLOCK];
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        count = eitp__ref_smaller(end - i, EITP__REF_CAST_BLOCK);
        for (int64_t j = 0; j < count; j++)
            integers[j] = i + j;
        eitp__ref_store_integers(&call->outputs[0], i, count, integers);
    }
}

static void eitp__ref_fill(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    size_t size = eitp_dtype_size(y->dtype), bytes = (size_t)(end - begin) * size, done = size;
    char *to = (char *)y->data + (size_t)begin * size;
    (void)workspace;
    if (begin >= end)
        return;
    eitp__ref_store_reals(y, begin, 1, &call->reals[0]);
    /* What is filled is copied behind itself, in pieces that stay in the nearest cache. */
    while (done < bytes) {
        size_t piece = done < 4096 ? done : 4096;
        piece = piece < bytes - done ? piece : bytes - done;
        memcpy(to + done, to, piece);
        done += piece;
    }
}

EITP__PRIVATE void eitp__register_ref_casts(eitp__kernel_table *table) {
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
        eitp__ref_register(table, EITP__SLOT_FILL, (eitp_dtype)dtype, eitp__ref_fill);
        eitp__ref_register(table, EITP__SLOT_ARANGE, (eitp_dtype)dtype, eitp__ref_arange);
        eitp__ref_register(table, EITP__SLOT_CAST, (eitp_dtype)dtype, eitp__ref_cast);
    }
}
/* <<kernels/ref/cast.c */

/* >>kernels/ref/movement.c */
/* Kernels that move elements and compute nothing: they go by the element's size, so every dtype has them. */

/* Elements of a dimension and what is in it, without the dimension itself. */
static int64_t eitp__ref_inner(const eitp__operand *x, int64_t dimension) {
    int64_t inner = 1;
    for (int64_t d = dimension + 1; d < x->rank; d++)
        inner *= x->shape[d];
    return inner;
}

/* Elements are moved as integers of their size, whatever type they were stored as. */
typedef uint8_t eitp__ref_unit_1 __attribute__((may_alias));
typedef uint16_t eitp__ref_unit_2 __attribute__((may_alias));
typedef uint32_t eitp__ref_unit_4 __attribute__((may_alias));
typedef uint64_t eitp__ref_unit_8 __attribute__((may_alias));

#define EITP__UNIT eitp__ref_unit_1
#define EITP__MOVE(name) eitp__ref_##name##_1

/* >>kernels/ref/movement.inc */
/* Kernels that move elements of one size, EITP__UNIT, whatever they mean. */

/* Copies items [begin, end) of output 0 from where `grid` finds them, `start` elements into input 0. */
static void EITP__MOVE(strided)(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                                int64_t end) {
    eitp__ref_walk walk = eitp__ref_walk_from(grid, begin);
    int64_t step = grid->stride[0][grid->rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(grid, &walk, count)) {
        const EITP__UNIT *x = (const EITP__UNIT *)call->inputs[0].data + start + walk.offset[0];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(grid, &walk, end - i);
        if (step == 1) {
            memcpy(y, x, (size_t)count * sizeof *y);
        } else {
            for (int64_t j = 0; j < count; j++)
                y[j] = x[j * step];
        }
    }
}

static void EITP__MOVE(where)(const eitp__call *call, int64_t begin, int64_t end) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    eitp__ref_walk walk = eitp__ref_walk_from(&grid, begin);
    int64_t step_c = grid.stride[0][grid.rank - 1], step_a = grid.stride[1][grid.rank - 1];
    int64_t step_b = grid.stride[2][grid.rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&grid, &walk, count)) {
        const uint8_t *c = (const uint8_t *)call->inputs[0].data + walk.offset[0];
        const EITP__UNIT *a = (const EITP__UNIT *)call->inputs[1].data + walk.offset[1];
        const EITP__UNIT *b = (const EITP__UNIT *)call->inputs[2].data + walk.offset[2];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(&grid, &walk, end - i);
        for (int64_t j = 0; j < count; j++) {
            EITP__UNIT yes = a[j * step_a], no = b[j * step_b];
            y[j] = c[j * step_c] ? yes : no;
        }
    }
}

/* An index outside x gives zero. */
static void EITP__MOVE(gather)(const eitp__call *call, int64_t begin, int64_t end) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const EITP__UNIT *from = (const EITP__UNIT *)x->data;
    const int32_t *indices = (const int32_t *)call->inputs[1].data;
    EITP__UNIT *to = (EITP__UNIT *)y->data;
    int64_t along = call->integers[0], extent = x->shape[along], inner = eitp__ref_inner(y, along);
    int64_t block = y->shape[along] * inner;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % inner;
        const EITP__UNIT *source = from + i / block * extent * inner;
        next = eitp__ref_smaller(end, i - column + inner);
        for (int64_t j = i; j < next; j++, column++)
            to[j] = indices[j] >= 0 && indices[j] < extent ? source[indices[j] * inner + column] : (EITP__UNIT)0;
    }
}
/* <<kernels/ref/movement.inc */
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_2
#define EITP__MOVE(name) eitp__ref_##name##_2

/* >>kernels/ref/movement.inc */
/* Kernels that move elements of one size, EITP__UNIT, whatever they mean. */

/* Copies items [begin, end) of output 0 from where `grid` finds them, `start` elements into input 0. */
static void EITP__MOVE(strided)(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                                int64_t end) {
    eitp__ref_walk walk = eitp__ref_walk_from(grid, begin);
    int64_t step = grid->stride[0][grid->rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(grid, &walk, count)) {
        const EITP__UNIT *x = (const EITP__UNIT *)call->inputs[0].data + start + walk.offset[0];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(grid, &walk, end - i);
        if (step == 1) {
            memcpy(y, x, (size_t)count * sizeof *y);
        } else {
            for (int64_t j = 0; j < count; j++)
                y[j] = x[j * step];
        }
    }
}

static void EITP__MOVE(where)(const eitp__call *call, int64_t begin, int64_t end) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    eitp__ref_walk walk = eitp__ref_walk_from(&grid, begin);
    int64_t step_c = grid.stride[0][grid.rank - 1], step_a = grid.stride[1][grid.rank - 1];
    int64_t step_b = grid.stride[2][grid.rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&grid, &walk, count)) {
        const uint8_t *c = (const uint8_t *)call->inputs[0].data + walk.offset[0];
        const EITP__UNIT *a = (const EITP__UNIT *)call->inputs[1].data + walk.offset[1];
        const EITP__UNIT *b = (const EITP__UNIT *)call->inputs[2].data + walk.offset[2];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(&grid, &walk, end - i);
        for (int64_t j = 0; j < count; j++) {
            EITP__UNIT yes = a[j * step_a], no = b[j * step_b];
            y[j] = c[j * step_c] ? yes : no;
        }
    }
}

/* An index outside x gives zero. */
static void EITP__MOVE(gather)(const eitp__call *call, int64_t begin, int64_t end) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const EITP__UNIT *from = (const EITP__UNIT *)x->data;
    const int32_t *indices = (const int32_t *)call->inputs[1].data;
    EITP__UNIT *to = (EITP__UNIT *)y->data;
    int64_t along = call->integers[0], extent = x->shape[along], inner = eitp__ref_inner(y, along);
    int64_t block = y->shape[along] * inner;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % inner;
        const EITP__UNIT *source = from + i / block * extent * inner;
        next = eitp__ref_smaller(end, i - column + inner);
        for (int64_t j = i; j < next; j++, column++)
            to[j] = indices[j] >= 0 && indices[j] < extent ? source[indices[j] * inner + column] : (EITP__UNIT)0;
    }
}
/* <<kernels/ref/movement.inc */
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_4
#define EITP__MOVE(name) eitp__ref_##name##_4

/* >>kernels/ref/movement.inc */
/* Kernels that move elements of one size, EITP__UNIT, whatever they mean. */

/* Copies items [begin, end) of output 0 from where `grid` finds them, `start` elements into input 0. */
static void EITP__MOVE(strided)(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                                int64_t end) {
    eitp__ref_walk walk = eitp__ref_walk_from(grid, begin);
    int64_t step = grid->stride[0][grid->rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(grid, &walk, count)) {
        const EITP__UNIT *x = (const EITP__UNIT *)call->inputs[0].data + start + walk.offset[0];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(grid, &walk, end - i);
        if (step == 1) {
            memcpy(y, x, (size_t)count * sizeof *y);
        } else {
            for (int64_t j = 0; j < count; j++)
                y[j] = x[j * step];
        }
    }
}

static void EITP__MOVE(where)(const eitp__call *call, int64_t begin, int64_t end) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    eitp__ref_walk walk = eitp__ref_walk_from(&grid, begin);
    int64_t step_c = grid.stride[0][grid.rank - 1], step_a = grid.stride[1][grid.rank - 1];
    int64_t step_b = grid.stride[2][grid.rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&grid, &walk, count)) {
        const uint8_t *c = (const uint8_t *)call->inputs[0].data + walk.offset[0];
        const EITP__UNIT *a = (const EITP__UNIT *)call->inputs[1].data + walk.offset[1];
        const EITP__UNIT *b = (const EITP__UNIT *)call->inputs[2].data + walk.offset[2];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(&grid, &walk, end - i);
        for (int64_t j = 0; j < count; j++) {
            EITP__UNIT yes = a[j * step_a], no = b[j * step_b];
            y[j] = c[j * step_c] ? yes : no;
        }
    }
}

/* An index outside x gives zero. */
static void EITP__MOVE(gather)(const eitp__call *call, int64_t begin, int64_t end) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const EITP__UNIT *from = (const EITP__UNIT *)x->data;
    const int32_t *indices = (const int32_t *)call->inputs[1].data;
    EITP__UNIT *to = (EITP__UNIT *)y->data;
    int64_t along = call->integers[0], extent = x->shape[along], inner = eitp__ref_inner(y, along);
    int64_t block = y->shape[along] * inner;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % inner;
        const EITP__UNIT *source = from + i / block * extent * inner;
        next = eitp__ref_smaller(end, i - column + inner);
        for (int64_t j = i; j < next; j++, column++)
            to[j] = indices[j] >= 0 && indices[j] < extent ? source[indices[j] * inner + column] : (EITP__UNIT)0;
    }
}
/* <<kernels/ref/movement.inc */
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_8
#define EITP__MOVE(name) eitp__ref_##name##_8

/* >>kernels/ref/movement.inc */
/* Kernels that move elements of one size, EITP__UNIT, whatever they mean. */

/* Copies items [begin, end) of output 0 from where `grid` finds them, `start` elements into input 0. */
static void EITP__MOVE(strided)(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                                int64_t end) {
    eitp__ref_walk walk = eitp__ref_walk_from(grid, begin);
    int64_t step = grid->stride[0][grid->rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(grid, &walk, count)) {
        const EITP__UNIT *x = (const EITP__UNIT *)call->inputs[0].data + start + walk.offset[0];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(grid, &walk, end - i);
        if (step == 1) {
            memcpy(y, x, (size_t)count * sizeof *y);
        } else {
            for (int64_t j = 0; j < count; j++)
                y[j] = x[j * step];
        }
    }
}

static void EITP__MOVE(where)(const eitp__call *call, int64_t begin, int64_t end) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    eitp__ref_walk walk = eitp__ref_walk_from(&grid, begin);
    int64_t step_c = grid.stride[0][grid.rank - 1], step_a = grid.stride[1][grid.rank - 1];
    int64_t step_b = grid.stride[2][grid.rank - 1];
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&grid, &walk, count)) {
        const uint8_t *c = (const uint8_t *)call->inputs[0].data + walk.offset[0];
        const EITP__UNIT *a = (const EITP__UNIT *)call->inputs[1].data + walk.offset[1];
        const EITP__UNIT *b = (const EITP__UNIT *)call->inputs[2].data + walk.offset[2];
        EITP__UNIT *y = (EITP__UNIT *)call->outputs[0].data + i;
        count = eitp__ref_walk_run(&grid, &walk, end - i);
        for (int64_t j = 0; j < count; j++) {
            EITP__UNIT yes = a[j * step_a], no = b[j * step_b];
            y[j] = c[j * step_c] ? yes : no;
        }
    }
}

/* An index outside x gives zero. */
static void EITP__MOVE(gather)(const eitp__call *call, int64_t begin, int64_t end) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    const EITP__UNIT *from = (const EITP__UNIT *)x->data;
    const int32_t *indices = (const int32_t *)call->inputs[1].data;
    EITP__UNIT *to = (EITP__UNIT *)y->data;
    int64_t along = call->integers[0], extent = x->shape[along], inner = eitp__ref_inner(y, along);
    int64_t block = y->shape[along] * inner;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % inner;
        const EITP__UNIT *source = from + i / block * extent * inner;
        next = eitp__ref_smaller(end, i - column + inner);
        for (int64_t j = i; j < next; j++, column++)
            to[j] = indices[j] >= 0 && indices[j] < extent ? source[indices[j] * inner + column] : (EITP__UNIT)0;
    }
}
/* <<kernels/ref/movement.inc */
#undef EITP__UNIT
#undef EITP__MOVE

static void eitp__ref_strided(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                              int64_t end) {
    switch (eitp_dtype_size(call->outputs[0].dtype)) {
    case 1:
        eitp__ref_strided_1(call, grid, start, begin, end);
        break;
    case 2:
        eitp__ref_strided_2(call, grid, start, begin, end);
        break;
    case 4:
        eitp__ref_strided_4(call, grid, start, begin, end);
        break;
    default:
        eitp__ref_strided_8(call, grid, start, begin, end);
    }
}

static void eitp__ref_broadcast(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    (void)workspace;
    eitp__ref_strided(call, &grid, 0, begin, end);
}

/* How far a step in each dimension of x goes. */
static void eitp__ref_strides(const eitp__operand *x, int64_t strides[EITP_MAX_RANK]) {
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= x->shape[d];
    }
}

static void eitp__ref_permute(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK], steps[3] = {0, 0, 0};
    eitp__ref_grid grid;
    (void)workspace;
    eitp__ref_strides(&call->inputs[0], strides);
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++) {
        steps[0] = strides[call->integers[d]];
        eitp__ref_grid_add(&grid, y->shape[d], steps);
    }
    eitp__ref_strided(call, &grid, 0, begin, end);
}

static void eitp__ref_slice(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK], steps[3] = {0, 0, 0}, start = 0;
    eitp__ref_grid grid;
    (void)workspace;
    eitp__ref_strides(&call->inputs[0], strides);
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++) {
        start += call->integers[d] * strides[d];
        steps[0] = strides[d];
        eitp__ref_grid_add(&grid, y->shape[d], steps);
    }
    eitp__ref_strided(call, &grid, start, begin, end);
}

/*
 * Row by row of the output, a row being the last dimension that is padded with all that is in it: zeros, what x has of
 * the row, zeros.
 */
static void eitp__ref_pad(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t size = (int64_t)eitp_dtype_size(y->dtype), strides[EITP_MAX_RANK], last = y->rank - 1;
    int64_t inner, row, before, filled;
    const char *from = (const char *)x->data;
    char *to = (char *)y->data;
    (void)workspace;
    while (last > 0 && x->shape[last] == y->shape[last])
        last--;
    inner = last >= 0 ? eitp__ref_inner(y, last) : 1;
    row = last >= 0 ? y->shape[last] * inner : 1;
    before = last >= 0 ? call->integers[last] * inner : 0;
    filled = last >= 0 ? x->shape[last] * inner : 1;
    eitp__ref_strides(x, strides);
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t rest = i / row, start = rest * row, source = 0, inside = 1, first, stop;
        next = eitp__ref_smaller(end, start + row);
        for (int64_t d = last - 1; d >= 0; d--) {
            int64_t index = rest % y->shape[d] - call->integers[d];
            inside = inside && index >= 0 && index < x->shape[d];
            source += index * strides[d];
            rest /= y->shape[d];
        }
        /* [first, stop): what of [i, next) comes from x. */
        first = start + before > i ? start + before : i;
        stop = eitp__ref_smaller(start + before + filled, next);
        if (!inside || first >= stop) {
            memset(to + i * size, 0, (size_t)((next - i) * size));
            continue;
        }
        memset(to + i * size, 0, (size_t)((first - i) * size));
        memcpy(to + first * size, from + (source + first - start - before) * size, (size_t)((stop - first) * size));
        memset(to + stop * size, 0, (size_t)((next - stop) * size));
    }
}

static void eitp__ref_concat(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t size = (int64_t)eitp_dtype_size(y->dtype), along = call->integers[0], inner = eitp__ref_inner(y, along);
    int64_t row = y->shape[along] * inner;
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t outer = i / row, column = i % row, width;
        int which = 0;
        for (; column >= call->inputs[which].shape[along] * inner; which++)
            column -= call->inputs[which].shape[along] * inner;
        width = call->inputs[which].shape[along] * inner;
        count = eitp__ref_smaller(end - i, width - column);
        memcpy((char *)y->data + i * size, (const char *)call->inputs[which].data + (outer * width + column) * size,
               (size_t)(count * size));
    }
}

/* A kernel that calls the function for the element's size. */
#define EITP__REF_BY_SIZE(name)                                                                                        \
    static void eitp__ref_##name(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                \
        (void)workspace;                                                                                               \
        switch (eitp_dtype_size(call->outputs[0].dtype)) {                                                             \
        case 1:                                                                                                        \
            eitp__ref_##name##_1(call, begin, end);                                                                    \
            break;                                                                                                     \
        case 2:                                                                                                        \
            eitp__ref_##name##_2(call, begin, end);                                                                    \
            break;                                                                                                     \
        case 4:                                                                                                        \
            eitp__ref_##name##_4(call, begin, end);                                                                    \
            break;                                                                                                     \
        default:                                                                                                       \
            eitp__ref_##name##_8(call, begin, end);                                                                    \
        }                                                                                                              \
    }

EITP__REF_BY_SIZE(where)
EITP__REF_BY_SIZE(gather)

#undef EITP__REF_BY_SIZE

EITP__PRIVATE void eitp__register_ref_movement(eitp__kernel_table *table) {
    for (int i = 0; i < EITP_DTYPE_COUNT; i++) {
        eitp_dtype dtype = (eitp_dtype)i;
        eitp__ref_register(table, EITP__SLOT_WHERE, dtype, eitp__ref_where);
        eitp__ref_register(table, EITP__SLOT_BROADCAST, dtype, eitp__ref_broadcast);
        eitp__ref_register(table, EITP__SLOT_PERMUTE, dtype, eitp__ref_permute);
        eitp__ref_register(table, EITP__SLOT_SLICE, dtype, eitp__ref_slice);
        eitp__ref_register(table, EITP__SLOT_PAD, dtype, eitp__ref_pad);
        eitp__ref_register(table, EITP__SLOT_CONCAT, dtype, eitp__ref_concat);
        eitp__ref_register(table, EITP__SLOT_GATHER, dtype, eitp__ref_gather);
    }
}
/* <<kernels/ref/movement.c */

/* >>kernels/ref/ref.c */
/* The reference kernels: plain C for any processor, and what the other sets are measured by. */

/* Input 0 of a reduction as what is kept and what is reduced. */
typedef struct eitp__ref_reduction {
    eitp__ref_grid kept, reduced;
    int64_t terms; /* elements that one element of the output is made from */
    int by_rows;   /* the last dimension is reduced */
} eitp__ref_reduction;

static eitp__ref_reduction eitp__ref_reduction_of(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0];
    int64_t strides[EITP_MAX_RANK][3], stride = 1;
    eitp__ref_reduction reduction;
    memset(strides, 0, sizeof strides);
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d][0] = stride;
        stride *= x->shape[d];
    }
    eitp__ref_grid_start(&reduction.kept);
    eitp__ref_grid_start(&reduction.reduced);
    reduction.terms = 1;
    for (int d = 0; d < x->rank; d++) {
        int is_reduced = (int)(call->integers[0] >> d & 1);
        eitp__ref_grid_add(is_reduced ? &reduction.reduced : &reduction.kept, x->shape[d], strides[d]);
        reduction.terms *= is_reduced ? x->shape[d] : 1;
    }
    reduction.by_rows = reduction.reduced.stride[0][reduction.reduced.rank - 1] == 1;
    return reduction;
}

/* A (sequence, head) pair of an attention call. */
typedef struct eitp__ref_pair {
    int64_t heads, head, width; /* width: of a head */
    int64_t begin, end;         /* the sequence's rows */
    int64_t first, stop;        /* these rows and those in no sequence that the pair clears */
} eitp__ref_pair;

/* The most rows that a sequence can have. */
static int64_t eitp__ref_longest(const eitp__call *call) {
    int64_t longest = eitp__ref_smaller(call->integers[1], call->inputs[0].shape[0]);
    return longest > 0 ? longest : 0;
}

/* Offsets are data: whatever they are, the rows are rows of the call, `begin` to `end` at most the longest sequence. */
static eitp__ref_pair eitp__ref_pair_of(const eitp__call *call, int64_t item) {
    const int32_t *offsets = (const int32_t *)call->inputs[1].data;
    int64_t rows = call->inputs[0].shape[0], last = call->inputs[1].elements - 2, sequence;
    eitp__ref_pair pair;
    pair.heads = call->integers[0];
    pair.head = item % pair.heads;
    pair.width = call->inputs[0].shape[1] / 3 / pair.heads;
    sequence = item / pair.heads;
    pair.begin = eitp__ref_smaller(offsets[sequence] > 0 ? offsets[sequence] : 0, rows);
    pair.stop = eitp__ref_smaller(offsets[sequence + 1], rows);
    pair.stop = pair.stop > pair.begin ? pair.stop : pair.begin;
    pair.end = eitp__ref_smaller(pair.stop, pair.begin + eitp__ref_longest(call));
    pair.first = sequence == 0 ? 0 : pair.begin;
    pair.stop = sequence == last ? rows : pair.stop;
    return pair;
}

/* What the probability of row i for the key at `position` of its sequence is multiplied by: 0 where it is dropped. */
static double eitp__ref_kept(const eitp__call *call, const eitp__ref_pair *pair, int64_t i, int64_t position) {
    const int64_t *key = call->input_count > 2 ? (const int64_t *)call->inputs[2].data : NULL;
    uint64_t index;
    if (!key || !(call->reals[1] > 0))
        return 1;
    index = ((uint64_t)key[2] + (uint64_t)i) * (uint64_t)pair->heads + (uint64_t)pair->head;
    index = index * (uint64_t)call->integers[1] + (uint64_t)position;
    if (eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[2], index) <
        (float)call->reals[1])
        return 0;
    return 1 / (1 - call->reals[1]);
}

EITP__REF_BINARY(eitp__ref_less_i32, int32_t, uint8_t, a < b)
EITP__REF_BINARY(eitp__ref_equal_i32, int32_t, uint8_t, a == b)

/* Scale and apply, as torch.nn.utils.clip_grad_norm_ scales; a step whose norm is not finite is not applied. */
static void eitp__ref_commit(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    double norm = sqrt(((const double *)call->inputs[0].data)[0]);
    double limit = (double)((const float *)call->inputs[1].data)[0], scale = 1;
    float *commit = (float *)call->outputs[0].data;
    (void)begin;
    (void)end;
    (void)workspace;
    if (limit > 0 && limit < norm + 1e-6)
        scale = limit / (norm + 1e-6);
    commit[0] = isfinite(norm) ? (float)scale : 0;
    commit[1] = isfinite(norm) ? 1 : 0;
    ((float *)call->outputs[1].data)[0] = (float)norm;
}

/*
 * The primitives exist in both types. What is fused has f32 alone: in f64 it runs as its expansion, which is what tests
 * measure it by.
 */
#define EITP__REAL double
#define EITP__REF(name) eitp__ref_##name##_f64
#define EITP__REF_MATH(name) name

/* >>kernels/ref/elementwise.inc */
/* Elementwise kernels of one real type. A result may be in the place of an operand. */

#define EITP__REF_UNARY(name, expression)                                                                              \
    static void EITP__REF(name)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                 \
        const EITP__REAL *from = (const EITP__REAL *)call->inputs[0].data;                                             \
        EITP__REAL *to = (EITP__REAL *)call->outputs[0].data;                                                          \
        (void)workspace;                                                                                               \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            EITP__REAL x = from[i];                                                                                    \
            to[i] = (expression);                                                                                      \
        }                                                                                                              \
    }

EITP__REF_UNARY(negate, -x)
EITP__REF_UNARY(exp, EITP__REF_MATH(exp)(x))
EITP__REF_UNARY(log, EITP__REF_MATH(log)(x))
EITP__REF_UNARY(sqrt, EITP__REF_MATH(sqrt)(x))
EITP__REF_UNARY(tanh, EITP__REF_MATH(tanh)(x))
EITP__REF_UNARY(sigmoid, 1 / (1 + EITP__REF_MATH(exp)(-x)))
EITP__REF_UNARY(relu, x < 0 ? 0 : x)
EITP__REF_UNARY(erf, EITP__REF_MATH(erf)(x))

#undef EITP__REF_UNARY

static void EITP__REF(affine)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL factor = (EITP__REAL)call->reals[0], term = (EITP__REAL)call->reals[1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = factor * x[i] + term;
}

static void EITP__REF(clamp)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL low = (EITP__REAL)call->reals[0], high = (EITP__REAL)call->reals[1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL value = x[i];
        y[i] = value < low ? low : value > high ? high : value;
    }
}

EITP__REF_BINARY(EITP__REF(add), EITP__REAL, EITP__REAL, a + b)
EITP__REF_BINARY(EITP__REF(subtract), EITP__REAL, EITP__REAL, a - b)
EITP__REF_BINARY(EITP__REF(multiply), EITP__REAL, EITP__REAL, (a) * (b))
EITP__REF_BINARY(EITP__REF(divide), EITP__REAL, EITP__REAL, a / b)
EITP__REF_BINARY(EITP__REF(less), EITP__REAL, uint8_t, a < b)
EITP__REF_BINARY(EITP__REF(equal), EITP__REAL, uint8_t, a == b)

/* Element e of x draws number first_row * width + e of its stream; four neighbours share a block of random words. */
static void EITP__REF(dropout)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *input = &call->inputs[0];
    const int64_t *key = call->input_count > 1 ? (const int64_t *)call->inputs[1].data : NULL;
    const EITP__REAL *x = (const EITP__REAL *)input->data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL scale = (EITP__REAL)(1 / (1 - call->reals[0]));
    float probability = (float)call->reals[0];
    int64_t width = input->rank && input->shape[0] ? input->elements / input->shape[0] : 1;
    uint32_t words[4] = {0, 0, 0, 0};
    uint64_t index;
    (void)workspace;
    if (!key || !(probability > 0)) {
        memmove(y + begin, x + begin, (size_t)(end - begin) * sizeof *x);
        return;
    }
    index = (uint64_t)key[2] * (uint64_t)width + (uint64_t)begin;
    for (int64_t i = begin; i < end; i++, index++) {
        if (i == begin || (index & 3) == 0)
            eitp__philox((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[0], index >> 2, words);
        y[i] = (float)(words[index & 3] >> 8) * (1.0f / 16777216.0f) < probability ? 0 : x[i] * scale;
    }
}
/* <<kernels/ref/elementwise.inc */

/* >>kernels/ref/reduce.inc */
/*
 * Reductions of one real type. Where the last dimension is summed, a sum is made in double and rounded once. Where it
 * is kept, neighbouring sums go through the rows together, each from what the output holds: so accumulating over two
 * calls is the same chain of additions as over one.
 */

/* In double, in four sums of every fourth term. */
static double EITP__REF(row_sum)(const EITP__REAL *x, int64_t count) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        s0 += (double)x[i];
        s1 += (double)x[i + 1];
        s2 += (double)x[i + 2];
        s3 += (double)x[i + 3];
    }
    for (; i < count; i++)
        s0 += (double)x[i];
    return (s0 + s1) + (s2 + s3);
}

/* What is not a number stays. */
static EITP__REAL EITP__REF(larger)(EITP__REAL a, EITP__REAL b) {
    return b > a || b != b ? b : a;
}

static void EITP__REF(sum_rows)(const eitp__call *call, const eitp__ref_reduction *reduction, int64_t begin,
                                int64_t end) {
    const eitp__ref_grid *summed = &reduction->reduced;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction->kept, begin);
    for (int64_t i = begin; i < end; i++, eitp__ref_walk_on(&reduction->kept, &kept, 1)) {
        eitp__ref_walk walk = eitp__ref_walk_from(summed, 0);
        double sum = 0;
        for (int64_t t = 0, count; t < reduction->terms; t += count, eitp__ref_walk_on(summed, &walk, count)) {
            count = eitp__ref_walk_run(summed, &walk, reduction->terms - t);
            sum += EITP__REF(row_sum)(x + kept.offset[0] + walk.offset[0], count);
        }
        y[i] = carry != 0 ? (EITP__REAL)((double)(carry * y[i]) + sum) : (EITP__REAL)sum;
    }
}

static void EITP__REF(sum_columns)(const eitp__call *call, const eitp__ref_reduction *reduction, int64_t begin,
                                   int64_t end) {
    const eitp__ref_grid *summed = &reduction->reduced;
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction->kept, begin);
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&reduction->kept, &kept, count)) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + kept.offset[0];
        EITP__REAL *y = (EITP__REAL *)call->outputs[0].data + i;
        eitp__ref_walk walk = eitp__ref_walk_from(summed, 0);
        count = eitp__ref_walk_run(&reduction->kept, &kept, end - i);
        for (int64_t j = 0; j < count; j++)
            y[j] = carry != 0 ? carry * y[j] : 0;
        for (int64_t t = 0; t < reduction->terms; t++, eitp__ref_walk_on(summed, &walk, 1)) {
            const EITP__REAL *row = x + walk.offset[0];
            for (int64_t j = 0; j < count; j++)
                y[j] += row[j];
        }
    }
}

static void EITP__REF(sum)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_reduction reduction = eitp__ref_reduction_of(call);
    (void)workspace;
    if (reduction.by_rows)
        EITP__REF(sum_rows)(call, &reduction, begin, end);
    else
        EITP__REF(sum_columns)(call, &reduction, begin, end);
}

/* The largest of nothing is minus infinity. */
static void EITP__REF(max)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_reduction reduction = eitp__ref_reduction_of(call);
    const eitp__ref_grid *reduced = &reduction.reduced;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction.kept, begin);
    int64_t step = reduced->stride[0][reduced->rank - 1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++, eitp__ref_walk_on(&reduction.kept, &kept, 1)) {
        eitp__ref_walk walk = eitp__ref_walk_from(reduced, 0);
        EITP__REAL largest = -(EITP__REAL)INFINITY;
        for (int64_t t = 0, count; t < reduction.terms; t += count, eitp__ref_walk_on(reduced, &walk, count)) {
            const EITP__REAL *row = x + kept.offset[0] + walk.offset[0];
            count = eitp__ref_walk_run(reduced, &walk, reduction.terms - t);
            for (int64_t j = 0; j < count; j++)
                largest = EITP__REF(larger)(largest, row[j * step]);
        }
        y[i] = largest;
    }
}

/* A line is zeroed, then takes what is for it in order; lines that are neighbours go together. */
static void EITP__REF(scatter_add)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *d = &call->inputs[1], *y = &call->outputs[0];
    const int32_t *indices = (const int32_t *)call->inputs[0].data;
    int64_t along = call->integers[0], extent = y->shape[along], count = d->shape[along], inner = 1;
    (void)workspace;
    for (int64_t dimension = along + 1; dimension < y->rank; dimension++)
        inner *= y->shape[dimension];
    for (int64_t line = begin, next; line < end; line = next) {
        int64_t outer = line / inner, first = line % inner, stop;
        const int32_t *index = indices + outer * count * inner;
        const EITP__REAL *from = (const EITP__REAL *)d->data + outer * count * inner;
        EITP__REAL *to = (EITP__REAL *)y->data + outer * extent * inner;
        next = eitp__ref_smaller(end, (outer + 1) * inner);
        stop = first + next - line;
        for (int64_t i = 0; i < extent; i++)
            memset(to + i * inner + first, 0, (size_t)(stop - first) * sizeof *to);
        for (int64_t i = 0; i < count; i++, index += inner, from += inner)
            for (int64_t j = first; j < stop; j++)
                if (index[j] >= 0 && index[j] < extent)
                    to[index[j] * inner + j] += from[j];
    }
}

static void EITP__REF(sum_squares)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    double *y = (double *)call->outputs[0].data;
    (void)workspace;
    for (int64_t block = begin; block < end; block++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + block * EITP__SUM_BLOCK;
        int64_t count = eitp__ref_smaller(call->inputs[0].elements - block * EITP__SUM_BLOCK, EITP__SUM_BLOCK), i = 0;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (; i + 4 <= count; i += 4) {
            s0 += (double)x[i] * (double)x[i];
            s1 += (double)x[i + 1] * (double)x[i + 1];
            s2 += (double)x[i + 2] * (double)x[i + 2];
            s3 += (double)x[i + 3] * (double)x[i + 3];
        }
        for (; i < count; i++)
            s0 += (double)x[i] * (double)x[i];
        y[block] = (s0 + s1) + (s2 + s3);
    }
}
/* <<kernels/ref/reduce.inc */

/* >>kernels/ref/update.inc */
/* Kernels of the optimizer step, of one real type. */

static void EITP__REF(accumulate)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *target = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[1].data;
    const float *factor = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data, carry = factor ? (EITP__REAL)factor[0] : 1;
    (void)workspace;
    if (carry == 0) {
        memmove(y + begin, x + begin, (size_t)(end - begin) * sizeof *y);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        y[i] = carry * target[i] + x[i];
}

/* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv 1711.05101, algorithm 2). */
static void EITP__REF(adamw)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *parameter = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *gradient = (const EITP__REAL *)call->inputs[1].data;
    const EITP__REAL *old_m = (const EITP__REAL *)call->inputs[2].data;
    const EITP__REAL *old_v = (const EITP__REAL *)call->inputs[3].data;
    const float *hyper = (const float *)call->inputs[4].data, *commit = (const float *)call->inputs[5].data;
    EITP__REAL *new_parameter = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL *new_m = (EITP__REAL *)call->outputs[1].data, *new_v = (EITP__REAL *)call->outputs[2].data;
    double rate = (double)hyper[0], step = (double)hyper[1], beta1 = call->reals[0], beta2 = call->reals[1];
    EITP__REAL keep1 = (EITP__REAL)beta1, take1 = (EITP__REAL)(1 - beta1);
    EITP__REAL keep2 = (EITP__REAL)beta2, take2 = (EITP__REAL)(1 - beta2);
    EITP__REAL correction1 = (EITP__REAL)(1 / (1 - pow(beta1, step)));
    EITP__REAL correction2 = (EITP__REAL)(1 / (1 - pow(beta2, step)));
    EITP__REAL epsilon = (EITP__REAL)call->reals[2], decay = (EITP__REAL)(rate * call->reals[3]);
    EITP__REAL size = (EITP__REAL)rate, scale = (EITP__REAL)commit[0];
    (void)workspace;
    if (commit[1] == 0) {
        size_t bytes = (size_t)(end - begin) * sizeof(EITP__REAL);
        memmove(new_parameter + begin, parameter + begin, bytes);
        memmove(new_m + begin, old_m + begin, bytes);
        memmove(new_v + begin, old_v + begin, bytes);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL g = scale * gradient[i], p = parameter[i];
        EITP__REAL m = keep1 * old_m[i] + take1 * g, v = keep2 * old_v[i] + take2 * (g * g);
        p -= decay * p;
        p -= size * (m * correction1) / (EITP__REF_MATH(sqrt)(v * correction2) + epsilon);
        new_parameter[i] = p;
        new_m[i] = m;
        new_v[i] = v;
    }
}
/* <<kernels/ref/update.inc */
#undef EITP__REAL
#undef EITP__REF
#undef EITP__REF_MATH

#define EITP__REAL float
#define EITP__REF(name) eitp__ref_##name##_f32
#define EITP__REF_MATH(name) name##f

/* >>kernels/ref/elementwise.inc */
/* Elementwise kernels of one real type. A result may be in the place of an operand. */

#define EITP__REF_UNARY(name, expression)                                                                              \
    static void EITP__REF(name)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                 \
        const EITP__REAL *from = (const EITP__REAL *)call->inputs[0].data;                                             \
        EITP__REAL *to = (EITP__REAL *)call->outputs[0].data;                                                          \
        (void)workspace;                                                                                               \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            EITP__REAL x = from[i];                                                                                    \
            to[i] = (expression);                                                                                      \
        }                                                                                                              \
    }

EITP__REF_UNARY(negate, -x)
EITP__REF_UNARY(exp, EITP__REF_MATH(exp)(x))
EITP__REF_UNARY(log, EITP__REF_MATH(log)(x))
EITP__REF_UNARY(sqrt, EITP__REF_MATH(sqrt)(x))
EITP__REF_UNARY(tanh, EITP__REF_MATH(tanh)(x))
EITP__REF_UNARY(sigmoid, 1 / (1 + EITP__REF_MATH(exp)(-x)))
EITP__REF_UNARY(relu, x < 0 ? 0 : x)
EITP__REF_UNARY(erf, EITP__REF_MATH(erf)(x))

#undef EITP__REF_UNARY

static void EITP__REF(affine)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL factor = (EITP__REAL)call->reals[0], term = (EITP__REAL)call->reals[1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = factor * x[i] + term;
}

static void EITP__REF(clamp)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL low = (EITP__REAL)call->reals[0], high = (EITP__REAL)call->reals[1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL value = x[i];
        y[i] = value < low ? low : value > high ? high : value;
    }
}

EITP__REF_BINARY(EITP__REF(add), EITP__REAL, EITP__REAL, a + b)
EITP__REF_BINARY(EITP__REF(subtract), EITP__REAL, EITP__REAL, a - b)
EITP__REF_BINARY(EITP__REF(multiply), EITP__REAL, EITP__REAL, (a) * (b))
EITP__REF_BINARY(EITP__REF(divide), EITP__REAL, EITP__REAL, a / b)
EITP__REF_BINARY(EITP__REF(less), EITP__REAL, uint8_t, a < b)
EITP__REF_BINARY(EITP__REF(equal), EITP__REAL, uint8_t, a == b)

/* Element e of x draws number first_row * width + e of its stream; four neighbours share a block of random words. */
static void EITP__REF(dropout)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *input = &call->inputs[0];
    const int64_t *key = call->input_count > 1 ? (const int64_t *)call->inputs[1].data : NULL;
    const EITP__REAL *x = (const EITP__REAL *)input->data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL scale = (EITP__REAL)(1 / (1 - call->reals[0]));
    float probability = (float)call->reals[0];
    int64_t width = input->rank && input->shape[0] ? input->elements / input->shape[0] : 1;
    uint32_t words[4] = {0, 0, 0, 0};
    uint64_t index;
    (void)workspace;
    if (!key || !(probability > 0)) {
        memmove(y + begin, x + begin, (size_t)(end - begin) * sizeof *x);
        return;
    }
    index = (uint64_t)key[2] * (uint64_t)width + (uint64_t)begin;
    for (int64_t i = begin; i < end; i++, index++) {
        if (i == begin || (index & 3) == 0)
            eitp__philox((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[0], index >> 2, words);
        y[i] = (float)(words[index & 3] >> 8) * (1.0f / 16777216.0f) < probability ? 0 : x[i] * scale;
    }
}
/* <<kernels/ref/elementwise.inc */

/* >>kernels/ref/reduce.inc */
/*
 * Reductions of one real type. Where the last dimension is summed, a sum is made in double and rounded once. Where it
 * is kept, neighbouring sums go through the rows together, each from what the output holds: so accumulating over two
 * calls is the same chain of additions as over one.
 */

/* In double, in four sums of every fourth term. */
static double EITP__REF(row_sum)(const EITP__REAL *x, int64_t count) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        s0 += (double)x[i];
        s1 += (double)x[i + 1];
        s2 += (double)x[i + 2];
        s3 += (double)x[i + 3];
    }
    for (; i < count; i++)
        s0 += (double)x[i];
    return (s0 + s1) + (s2 + s3);
}

/* What is not a number stays. */
static EITP__REAL EITP__REF(larger)(EITP__REAL a, EITP__REAL b) {
    return b > a || b != b ? b : a;
}

static void EITP__REF(sum_rows)(const eitp__call *call, const eitp__ref_reduction *reduction, int64_t begin,
                                int64_t end) {
    const eitp__ref_grid *summed = &reduction->reduced;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction->kept, begin);
    for (int64_t i = begin; i < end; i++, eitp__ref_walk_on(&reduction->kept, &kept, 1)) {
        eitp__ref_walk walk = eitp__ref_walk_from(summed, 0);
        double sum = 0;
        for (int64_t t = 0, count; t < reduction->terms; t += count, eitp__ref_walk_on(summed, &walk, count)) {
            count = eitp__ref_walk_run(summed, &walk, reduction->terms - t);
            sum += EITP__REF(row_sum)(x + kept.offset[0] + walk.offset[0], count);
        }
        y[i] = carry != 0 ? (EITP__REAL)((double)(carry * y[i]) + sum) : (EITP__REAL)sum;
    }
}

static void EITP__REF(sum_columns)(const eitp__call *call, const eitp__ref_reduction *reduction, int64_t begin,
                                   int64_t end) {
    const eitp__ref_grid *summed = &reduction->reduced;
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction->kept, begin);
    for (int64_t i = begin, count; i < end; i += count, eitp__ref_walk_on(&reduction->kept, &kept, count)) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + kept.offset[0];
        EITP__REAL *y = (EITP__REAL *)call->outputs[0].data + i;
        eitp__ref_walk walk = eitp__ref_walk_from(summed, 0);
        count = eitp__ref_walk_run(&reduction->kept, &kept, end - i);
        for (int64_t j = 0; j < count; j++)
            y[j] = carry != 0 ? carry * y[j] : 0;
        for (int64_t t = 0; t < reduction->terms; t++, eitp__ref_walk_on(summed, &walk, 1)) {
            const EITP__REAL *row = x + walk.offset[0];
            for (int64_t j = 0; j < count; j++)
                y[j] += row[j];
        }
    }
}

static void EITP__REF(sum)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_reduction reduction = eitp__ref_reduction_of(call);
    (void)workspace;
    if (reduction.by_rows)
        EITP__REF(sum_rows)(call, &reduction, begin, end);
    else
        EITP__REF(sum_columns)(call, &reduction, begin, end);
}

/* The largest of nothing is minus infinity. */
static void EITP__REF(max)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_reduction reduction = eitp__ref_reduction_of(call);
    const eitp__ref_grid *reduced = &reduction.reduced;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    eitp__ref_walk kept = eitp__ref_walk_from(&reduction.kept, begin);
    int64_t step = reduced->stride[0][reduced->rank - 1];
    (void)workspace;
    for (int64_t i = begin; i < end; i++, eitp__ref_walk_on(&reduction.kept, &kept, 1)) {
        eitp__ref_walk walk = eitp__ref_walk_from(reduced, 0);
        EITP__REAL largest = -(EITP__REAL)INFINITY;
        for (int64_t t = 0, count; t < reduction.terms; t += count, eitp__ref_walk_on(reduced, &walk, count)) {
            const EITP__REAL *row = x + kept.offset[0] + walk.offset[0];
            count = eitp__ref_walk_run(reduced, &walk, reduction.terms - t);
            for (int64_t j = 0; j < count; j++)
                largest = EITP__REF(larger)(largest, row[j * step]);
        }
        y[i] = largest;
    }
}

/* A line is zeroed, then takes what is for it in order; lines that are neighbours go together. */
static void EITP__REF(scatter_add)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *d = &call->inputs[1], *y = &call->outputs[0];
    const int32_t *indices = (const int32_t *)call->inputs[0].data;
    int64_t along = call->integers[0], extent = y->shape[along], count = d->shape[along], inner = 1;
    (void)workspace;
    for (int64_t dimension = along + 1; dimension < y->rank; dimension++)
        inner *= y->shape[dimension];
    for (int64_t line = begin, next; line < end; line = next) {
        int64_t outer = line / inner, first = line % inner, stop;
        const int32_t *index = indices + outer * count * inner;
        const EITP__REAL *from = (const EITP__REAL *)d->data + outer * count * inner;
        EITP__REAL *to = (EITP__REAL *)y->data + outer * extent * inner;
        next = eitp__ref_smaller(end, (outer + 1) * inner);
        stop = first + next - line;
        for (int64_t i = 0; i < extent; i++)
            memset(to + i * inner + first, 0, (size_t)(stop - first) * sizeof *to);
        for (int64_t i = 0; i < count; i++, index += inner, from += inner)
            for (int64_t j = first; j < stop; j++)
                if (index[j] >= 0 && index[j] < extent)
                    to[index[j] * inner + j] += from[j];
    }
}

static void EITP__REF(sum_squares)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    double *y = (double *)call->outputs[0].data;
    (void)workspace;
    for (int64_t block = begin; block < end; block++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + block * EITP__SUM_BLOCK;
        int64_t count = eitp__ref_smaller(call->inputs[0].elements - block * EITP__SUM_BLOCK, EITP__SUM_BLOCK), i = 0;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (; i + 4 <= count; i += 4) {
            s0 += (double)x[i] * (double)x[i];
            s1 += (double)x[i + 1] * (double)x[i + 1];
            s2 += (double)x[i + 2] * (double)x[i + 2];
            s3 += (double)x[i + 3] * (double)x[i + 3];
        }
        for (; i < count; i++)
            s0 += (double)x[i] * (double)x[i];
        y[block] = (s0 + s1) + (s2 + s3);
    }
}
/* <<kernels/ref/reduce.inc */

/* >>kernels/ref/update.inc */
/* Kernels of the optimizer step, of one real type. */

static void EITP__REF(accumulate)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *target = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[1].data;
    const float *factor = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data, carry = factor ? (EITP__REAL)factor[0] : 1;
    (void)workspace;
    if (carry == 0) {
        memmove(y + begin, x + begin, (size_t)(end - begin) * sizeof *y);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        y[i] = carry * target[i] + x[i];
}

/* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv 1711.05101, algorithm 2). */
static void EITP__REF(adamw)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *parameter = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *gradient = (const EITP__REAL *)call->inputs[1].data;
    const EITP__REAL *old_m = (const EITP__REAL *)call->inputs[2].data;
    const EITP__REAL *old_v = (const EITP__REAL *)call->inputs[3].data;
    const float *hyper = (const float *)call->inputs[4].data, *commit = (const float *)call->inputs[5].data;
    EITP__REAL *new_parameter = (EITP__REAL *)call->outputs[0].data;
    EITP__REAL *new_m = (EITP__REAL *)call->outputs[1].data, *new_v = (EITP__REAL *)call->outputs[2].data;
    double rate = (double)hyper[0], step = (double)hyper[1], beta1 = call->reals[0], beta2 = call->reals[1];
    EITP__REAL keep1 = (EITP__REAL)beta1, take1 = (EITP__REAL)(1 - beta1);
    EITP__REAL keep2 = (EITP__REAL)beta2, take2 = (EITP__REAL)(1 - beta2);
    EITP__REAL correction1 = (EITP__REAL)(1 / (1 - pow(beta1, step)));
    EITP__REAL correction2 = (EITP__REAL)(1 / (1 - pow(beta2, step)));
    EITP__REAL epsilon = (EITP__REAL)call->reals[2], decay = (EITP__REAL)(rate * call->reals[3]);
    EITP__REAL size = (EITP__REAL)rate, scale = (EITP__REAL)commit[0];
    (void)workspace;
    if (commit[1] == 0) {
        size_t bytes = (size_t)(end - begin) * sizeof(EITP__REAL);
        memmove(new_parameter + begin, parameter + begin, bytes);
        memmove(new_m + begin, old_m + begin, bytes);
        memmove(new_v + begin, old_v + begin, bytes);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL g = scale * gradient[i], p = parameter[i];
        EITP__REAL m = keep1 * old_m[i] + take1 * g, v = keep2 * old_v[i] + take2 * (g * g);
        p -= decay * p;
        p -= size * (m * correction1) / (EITP__REF_MATH(sqrt)(v * correction2) + epsilon);
        new_parameter[i] = p;
        new_m[i] = m;
        new_v[i] = v;
    }
}
/* <<kernels/ref/update.inc */

/* >>kernels/ref/network.inc */
/*
 * The layers of a network, of one real type: softmax, GELU, layer norm, embedding. Sums along a row are made in double;
 * those over rows are one chain of additions for each column, in the order of the rows.
 */

static EITP__REAL EITP__REF(row_largest)(const EITP__REAL *x, int64_t count) {
    EITP__REAL largest = -(EITP__REAL)INFINITY;
    for (int64_t i = 0; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static void EITP__REF(softmax)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * c;
        EITP__REAL *y = (EITP__REAL *)call->outputs[0].data + row * c, largest = EITP__REF(row_largest)(x, c), factor;
        for (int64_t j = 0; j < c; j++)
            y[j] = EITP__REF_MATH(exp)(x[j] - largest);
        factor = (EITP__REAL)(1 / EITP__REF(row_sum)(y, c));
        for (int64_t j = 0; j < c; j++)
            y[j] *= factor;
    }
}

static void EITP__REF(softmax_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *y = (const EITP__REAL *)call->inputs[0].data + row * c;
        const EITP__REAL *dy = (const EITP__REAL *)call->inputs[1].data + row * c;
        EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data + row * c, mean;
        double sum = 0;
        for (int64_t j = 0; j < c; j++)
            sum += (double)y[j] * (double)dy[j];
        mean = (EITP__REAL)sum;
        for (int64_t j = 0; j < c; j++)
            dx[j] = y[j] * (dy[j] - mean);
    }
}

/* log(sum(e^x)) as the largest x and what comes on top of it. */
static double EITP__REF(log_sum_exp)(const EITP__REAL *x, int64_t count, EITP__REAL *largest) {
    double sum = 0;
    *largest = EITP__REF(row_largest)(x, count);
    for (int64_t j = 0; j < count; j++)
        sum += (double)EITP__REF_MATH(exp)(x[j] - *largest);
    return log(sum);
}

static void EITP__REF(log_softmax)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * c;
        EITP__REAL *y = (EITP__REAL *)call->outputs[0].data + row * c, largest;
        EITP__REAL rest = (EITP__REAL)EITP__REF(log_sum_exp)(x, c, &largest);
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] - largest - rest;
    }
}

static void EITP__REF(log_softmax_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *y = (const EITP__REAL *)call->inputs[0].data + row * c;
        const EITP__REAL *dy = (const EITP__REAL *)call->inputs[1].data + row * c;
        EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data + row * c;
        EITP__REAL sum = (EITP__REAL)EITP__REF(row_sum)(dy, c);
        for (int64_t j = 0; j < c; j++)
            dx[j] = dy[j] - EITP__REF_MATH(exp)(y[j]) * sum;
    }
}

/*
 * GELU by tanh is x * gate with gate = (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3). The gate is
 * sigmoid(2 u), and so it is computed: 1 + tanh(u) would lose what is small.
 */
static EITP__REAL EITP__REF(gelu_gate)(EITP__REAL x) {
    const EITP__REAL twice = (EITP__REAL)1.5957691216057307118, cubic = (EITP__REAL)0.044715;
    return 1 / (1 + EITP__REF_MATH(exp)(-twice * x * (1 + cubic * x * x)));
}

static void EITP__REF(gelu_tanh)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * EITP__REF(gelu_gate)(x[i]);
}

static void EITP__REF(gelu_tanh_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL twice = (EITP__REAL)1.5957691216057307118, cubic = (EITP__REAL)0.134145, far = 20;
    const EITP__REAL *from = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *dy = (const EITP__REAL *)call->inputs[1].data;
    EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL x = from[i], gate = EITP__REF(gelu_gate)(x), slope = 0;
        /* Far from 0 the gate is 0 or 1, and the cube would overflow. */
        if (x > -far && x < far)
            slope = gate * (1 - gate) * x * twice * (1 + cubic * x * x);
        dx[i] = dy[i] * (gate + slope);
    }
}

/*
 * GELU is x * Phi(x), Phi the distribution function of the standard normal, which comes from erfc: 1 + erf would lose
 * what is small.
 */
static EITP__REAL EITP__REF(normal_distribution)(EITP__REAL x) {
    return (EITP__REAL)0.5 * EITP__REF_MATH(erfc)(x * -(EITP__REAL)0.70710678118654752440);
}

static void EITP__REF(gelu_erf)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++)
        y[i] = x[i] * EITP__REF(normal_distribution)(x[i]);
}

static void EITP__REF(gelu_erf_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const EITP__REAL density = (EITP__REAL)0.39894228040143267794, half = (EITP__REAL)0.5;
    const EITP__REAL *from = (const EITP__REAL *)call->inputs[0].data;
    const EITP__REAL *dy = (const EITP__REAL *)call->inputs[1].data;
    EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data;
    (void)workspace;
    for (int64_t i = begin; i < end; i++) {
        EITP__REAL x = from[i];
        EITP__REAL slope = x * density * EITP__REF_MATH(exp)(-half * x * x);
        dx[i] = dy[i] * (EITP__REF(normal_distribution)(x) + slope);
    }
}

static void EITP__REF(layer_norm)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    const EITP__REAL *gain = (const EITP__REAL *)call->inputs[1].data;
    const EITP__REAL *bias = (const EITP__REAL *)call->inputs[2].data;
    EITP__REAL *means = (EITP__REAL *)call->outputs[1].data, *deviations = (EITP__REAL *)call->outputs[2].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * c;
        EITP__REAL *y = (EITP__REAL *)call->outputs[0].data + row * c, mean, deviation;
        double centre = EITP__REF(row_sum)(x, c) / (double)c, squares = 0;
        for (int64_t j = 0; j < c; j++)
            squares += ((double)x[j] - centre) * ((double)x[j] - centre);
        means[row] = mean = (EITP__REAL)centre;
        deviations[row] = deviation = (EITP__REAL)(1 / sqrt(squares / (double)c + call->reals[0]));
        for (int64_t j = 0; j < c; j++)
            y[j] = (x[j] - mean) * deviation * gain[j] + bias[j];
    }
}

/* dx = deviation * (g - mean(g) - z * mean(g * z)), where g = gain * dy and z = (x - mean) * deviation. */
static void EITP__REF(layer_norm_backward_input)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]);
    const EITP__REAL *gain = (const EITP__REAL *)call->inputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * c;
        const EITP__REAL *dy = (const EITP__REAL *)call->inputs[5].data + row * c;
        EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data + row * c, mean_g, mean_gz;
        EITP__REAL mean = ((const EITP__REAL *)call->inputs[3].data)[row];
        EITP__REAL deviation = ((const EITP__REAL *)call->inputs[4].data)[row];
        double sum_g = 0, sum_gz = 0;
        for (int64_t j = 0; j < c; j++) {
            double g = (double)gain[j] * (double)dy[j];
            sum_g += g;
            sum_gz += g * (double)((x[j] - mean) * deviation);
        }
        mean_g = (EITP__REAL)(sum_g / (double)c);
        mean_gz = (EITP__REAL)(sum_gz / (double)c);
        for (int64_t j = 0; j < c; j++)
            dx[j] = deviation * (gain[j] * dy[j] - mean_g - (x[j] - mean) * deviation * mean_gz);
    }
}

static void EITP__REF(layer_norm_backward_parameters)(const eitp__call *call, int64_t begin, int64_t end,
                                                      void *workspace) {
    int64_t c = eitp__ref_columns(&call->inputs[0]), rows = c ? call->inputs[0].elements / c : 0;
    const EITP__REAL *means = (const EITP__REAL *)call->inputs[3].data;
    const EITP__REAL *deviations = (const EITP__REAL *)call->inputs[4].data;
    EITP__REAL *dgain = (EITP__REAL *)call->outputs[0].data, *dbias = (EITP__REAL *)call->outputs[1].data;
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    (void)workspace;
    for (int64_t j = begin; j < end; j++) {
        dgain[j] = carry != 0 ? carry * dgain[j] : 0;
        dbias[j] = carry != 0 ? carry * dbias[j] : 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * c;
        const EITP__REAL *dy = (const EITP__REAL *)call->inputs[5].data + row * c;
        EITP__REAL mean = means[row], deviation = deviations[row];
        for (int64_t j = begin; j < end; j++) {
            dgain[j] += dy[j] * ((x[j] - mean) * deviation);
            dbias[j] += dy[j];
        }
    }
}

static void EITP__REF(embedding)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *table = &call->inputs[0];
    const int32_t *ids = (const int32_t *)call->inputs[1].data;
    EITP__REAL *y = (EITP__REAL *)call->outputs[0].data;
    int64_t c = eitp__ref_columns(table);
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t id = ids[i / c], column = i % c;
        count = eitp__ref_smaller(end - i, c - column);
        if (id >= 0 && id < table->shape[0])
            memcpy(y + i, (const EITP__REAL *)table->data + id * c + column, (size_t)count * sizeof *y);
        else
            memset(y + i, 0, (size_t)count * sizeof *y);
    }
}

static void EITP__REF(embedding_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *table = &call->outputs[0];
    const int32_t *ids = (const int32_t *)call->inputs[0].data;
    int64_t c = eitp__ref_columns(table), rows = call->inputs[0].elements, vocabulary = table->shape[0];
    EITP__REAL carry = (EITP__REAL)eitp__ref_carry(call);
    (void)workspace;
    for (int64_t id = 0; id < vocabulary && carry != 1; id++) {
        EITP__REAL *to = (EITP__REAL *)table->data + id * c;
        for (int64_t j = begin; j < end; j++)
            to[j] = carry != 0 ? carry * to[j] : 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        const EITP__REAL *dy = (const EITP__REAL *)call->inputs[1].data + row * c;
        EITP__REAL *to;
        if (ids[row] < 0 || ids[row] >= vocabulary)
            continue;
        to = (EITP__REAL *)table->data + ids[row] * c;
        for (int64_t j = begin; j < end; j++)
            to[j] += dy[j];
    }
}
/* <<kernels/ref/network.inc */

/* >>kernels/ref/attention.inc */
/* Causal attention, of one real type: a query at a time, its scores in the workspace. */

/* In four sums of every fourth term. */
static EITP__REAL EITP__REF(dot)(const EITP__REAL *a, const EITP__REAL *b, int64_t count) {
    EITP__REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < count; i++)
        s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

static void EITP__REF(add_scaled)(EITP__REAL *EITP__RESTRICT y, EITP__REAL factor, const EITP__REAL *EITP__RESTRICT x,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* Zeros `width` elements in each of the rows [begin, end), which are `stride` apart. */
static void EITP__REF(clear_rows)(EITP__REAL *x, int64_t stride, int64_t width, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
        memset(x + row * stride, 0, (size_t)width * sizeof *x);
}

/*
 * What one query sees: `scores` are made from its dot products with `count` keys, rows `stride` apart, and become
 * probabilities; the result is their log-sum-exp.
 */
static EITP__REAL EITP__REF(attend)(const EITP__REAL *query, const EITP__REAL *keys, int64_t stride, int64_t width,
                                    int64_t count, EITP__REAL scale, EITP__REAL *scores) {
    EITP__REAL largest, factor;
    double sum;
    for (int64_t j = 0; j < count; j++)
        scores[j] = scale * EITP__REF(dot)(query, keys + j * stride, width);
    largest = EITP__REF(row_largest)(scores, count);
    for (int64_t j = 0; j < count; j++)
        scores[j] = EITP__REF_MATH(exp)(scores[j] - largest);
    sum = EITP__REF(row_sum)(scores, count);
    factor = (EITP__REAL)(1 / sum);
    for (int64_t j = 0; j < count; j++)
        scores[j] *= factor;
    return (EITP__REAL)((double)largest + log(sum));
}

static size_t EITP__REF(attention_workspace)(const eitp__call *call) {
    return (size_t)eitp__ref_longest(call) * sizeof(EITP__REAL);
}

static void EITP__REF(attention)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__REAL *scores = (EITP__REAL *)workspace, scale = (EITP__REAL)call->reals[0];
    for (int64_t item = begin; item < end; item++) {
        eitp__ref_pair pair = eitp__ref_pair_of(call, item);
        int64_t d = pair.width, c = d * pair.heads;
        const EITP__REAL *q = (const EITP__REAL *)call->inputs[0].data + pair.head * d, *k = q + c, *v = k + c;
        EITP__REAL *o = (EITP__REAL *)call->outputs[0].data + pair.head * d;
        EITP__REAL *sums = (EITP__REAL *)call->outputs[1].data + pair.head;
        EITP__REF(clear_rows)(o, c, d, pair.first, pair.stop);
        EITP__REF(clear_rows)(sums, pair.heads, 1, pair.first, pair.stop);
        for (int64_t i = pair.begin; i < pair.end; i++) {
            int64_t keys = i - pair.begin + 1, at = pair.begin * 3 * c;
            sums[i * pair.heads] = EITP__REF(attend)(q + i * 3 * c, k + at, 3 * c, d, keys, scale, scores);
            for (int64_t j = 0; j < keys; j++) {
                EITP__REAL weight = scores[j] * (EITP__REAL)eitp__ref_kept(call, &pair, i, j);
                EITP__REF(add_scaled)(o + i * c, weight, v + at + j * 3 * c, d);
            }
        }
    }
}

/* The probabilities are made again from the log-sum-exp; sum(do * o) is the mean of their derivatives. */
static void EITP__REF(attention_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__REAL scale = (EITP__REAL)call->reals[0];
    (void)workspace;
    for (int64_t item = begin; item < end; item++) {
        eitp__ref_pair pair = eitp__ref_pair_of(call, item);
        int64_t d = pair.width, c = d * pair.heads, wide = 3 * c;
        const EITP__REAL *q = (const EITP__REAL *)call->inputs[0].data + pair.head * d, *k = q + c, *v = k + c;
        const EITP__REAL *o = (const EITP__REAL *)call->inputs[3].data + pair.head * d;
        const EITP__REAL *sums = (const EITP__REAL *)call->inputs[4].data + pair.head;
        const EITP__REAL *gradient = (const EITP__REAL *)call->inputs[5].data + pair.head * d;
        EITP__REAL *dq = (EITP__REAL *)call->outputs[0].data + pair.head * d, *dk = dq + c, *dv = dk + c;
        for (int part = 0; part < 3; part++)
            EITP__REF(clear_rows)(dq + part * c, wide, d, pair.first, pair.stop);
        for (int64_t i = pair.begin; i < pair.end; i++) {
            const EITP__REAL *query = q + i * wide, *slope = gradient + i * c;
            EITP__REAL mean = EITP__REF(dot)(slope, o + i * c, d), sum = sums[i * pair.heads];
            for (int64_t j = pair.begin; j <= i; j++) {
                EITP__REAL kept = (EITP__REAL)eitp__ref_kept(call, &pair, i, j - pair.begin);
                EITP__REAL p = EITP__REF_MATH(exp)(scale * EITP__REF(dot)(query, k + j * wide, d) - sum);
                EITP__REAL ds = scale * p * (kept * EITP__REF(dot)(slope, v + j * wide, d) - mean);
                EITP__REF(add_scaled)(dq + i * wide, ds, k + j * wide, d);
                EITP__REF(add_scaled)(dk + j * wide, ds, query, d);
                EITP__REF(add_scaled)(dv + j * wide, p * kept, slope, d);
            }
        }
    }
}

static size_t EITP__REF(attention_cached_workspace)(const eitp__call *call) {
    return (size_t)call->inputs[1].shape[0] * sizeof(EITP__REAL);
}

/* Rows whose place is outside the cache are not stored and see nothing. */
static void EITP__REF(attention_cached)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *keys = &call->outputs[1], *values = &call->outputs[2];
    int64_t c = keys->shape[1], longest = keys->shape[0], heads = call->integers[0], d = c / heads;
    int64_t position = ((const int32_t *)call->inputs[3].data)[0];
    const EITP__REAL *qkv = (const EITP__REAL *)x->data;
    EITP__REAL *k = (EITP__REAL *)keys->data, *v = (EITP__REAL *)values->data, *scores = (EITP__REAL *)workspace;
    (void)begin;
    (void)end;
    if (k != call->inputs[1].data)
        memcpy(k, call->inputs[1].data, (size_t)(longest * c) * sizeof *k);
    if (v != call->inputs[2].data)
        memcpy(v, call->inputs[2].data, (size_t)(longest * c) * sizeof *v);
    for (int64_t i = 0; i < x->shape[0]; i++) {
        if (position + i < 0 || position + i >= longest)
            continue;
        memcpy(k + (position + i) * c, qkv + (3 * i + 1) * c, (size_t)c * sizeof *k);
        memcpy(v + (position + i) * c, qkv + (3 * i + 2) * c, (size_t)c * sizeof *v);
    }
    for (int64_t i = 0; i < x->shape[0]; i++) {
        EITP__REAL *o = (EITP__REAL *)call->outputs[0].data + i * c;
        memset(o, 0, (size_t)c * sizeof *o);
        if (position + i < 0 || position + i >= longest)
            continue;
        for (int64_t head = 0; head < heads; head++) {
            int64_t at = head * d, count = position + i + 1;
            EITP__REF(attend)(qkv + 3 * i * c + at, k + at, c, d, count, (EITP__REAL)call->reals[0], scores);
            for (int64_t j = 0; j < count; j++)
                EITP__REF(add_scaled)(o + at, scores[j], v + j * c + at, d);
        }
    }
}
/* <<kernels/ref/attention.inc */

/* >>kernels/ref/loss.inc */
/* Cross-entropy, of one real type. A target that is the ignored one, or no index of the row, costs nothing. */

static int EITP__REF(target_counts)(const eitp__call *call, int32_t target, int64_t columns) {
    return target != call->integers[0] && target >= 0 && target < columns;
}

static void EITP__REF(cross_entropy)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__ref_columns(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    EITP__REAL *losses = (EITP__REAL *)call->outputs[0].data, *sums = (EITP__REAL *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * v;
        EITP__REAL largest;
        double rest = EITP__REF(log_sum_exp)(x, v, &largest), loss = 0;
        if (EITP__REF(target_counts)(call, targets[row], v))
            loss = rest + ((double)largest - (double)x[targets[row]]);
        losses[row] = (EITP__REAL)loss;
        sums[row] = (EITP__REAL)((double)largest + rest);
    }
}

/* The gradient may be in the place of the logits. */
static void EITP__REF(cross_entropy_backward)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = eitp__ref_columns(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    const EITP__REAL *sums = (const EITP__REAL *)call->inputs[2].data;
    const EITP__REAL *dlosses = (const EITP__REAL *)call->inputs[3].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const EITP__REAL *x = (const EITP__REAL *)call->inputs[0].data + row * v;
        EITP__REAL *dx = (EITP__REAL *)call->outputs[0].data + row * v, sum = sums[row], dloss = dlosses[row], hit;
        if (!EITP__REF(target_counts)(call, targets[row], v)) {
            memset(dx, 0, (size_t)v * sizeof *dx);
            continue;
        }
        hit = dloss * (EITP__REF_MATH(exp)(x[targets[row]] - sum) - 1);
        for (int64_t j = 0; j < v; j++)
            dx[j] = dloss * EITP__REF_MATH(exp)(x[j] - sum);
        dx[targets[row]] = hit;
    }
}
/* <<kernels/ref/loss.inc */
#undef EITP__REAL
#undef EITP__REF
#undef EITP__REF_MATH

/* Slots of both types, with the function's name. */
#define EITP__REF_PRIMITIVES(X)                                                                                        \
    X(NEGATE, negate)                                                                                                  \
    X(EXP, exp)                                                                                                        \
    X(LOG, log)                                                                                                        \
    X(SQRT, sqrt)                                                                                                      \
    X(TANH, tanh)                                                                                                      \
    X(SIGMOID, sigmoid)                                                                                                \
    X(RELU, relu)                                                                                                      \
    X(ERF, erf)                                                                                                        \
    X(AFFINE, affine)                                                                                                  \
    X(CLAMP, clamp)                                                                                                    \
    X(ADD, add)                                                                                                        \
    X(SUBTRACT, subtract)                                                                                              \
    X(MULTIPLY, multiply)                                                                                              \
    X(DIVIDE, divide)                                                                                                  \
    X(LESS, less)                                                                                                      \
    X(EQUAL, equal)                                                                                                    \
    X(SUM, sum)                                                                                                        \
    X(MAX, max)                                                                                                        \
    X(SCATTER_ADD, scatter_add)                                                                                        \
    X(DROPOUT, dropout)                                                                                                \
    X(ACCUMULATE, accumulate)                                                                                          \
    X(SUM_SQUARES, sum_squares)                                                                                        \
    X(ADAMW, adamw)

#define EITP__REF_FUSED(X)                                                                                             \
    X(SOFTMAX, softmax)                                                                                                \
    X(SOFTMAX_BACKWARD, softmax_backward)                                                                              \
    X(LOG_SOFTMAX, log_softmax)                                                                                        \
    X(LOG_SOFTMAX_BACKWARD, log_softmax_backward)                                                                      \
    X(GELU_TANH, gelu_tanh)                                                                                            \
    X(GELU_TANH_BACKWARD, gelu_tanh_backward)                                                                          \
    X(GELU_ERF, gelu_erf)                                                                                              \
    X(GELU_ERF_BACKWARD, gelu_erf_backward)                                                                            \
    X(LAYER_NORM, layer_norm)                                                                                          \
    X(LAYER_NORM_BACKWARD_INPUT, layer_norm_backward_input)                                                            \
    X(LAYER_NORM_BACKWARD_PARAMETERS, layer_norm_backward_parameters)                                                  \
    X(EMBEDDING, embedding)                                                                                            \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(ATTENTION, attention)                                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)                                                                          \
    X(ATTENTION_CACHED, attention_cached)                                                                              \
    X(CROSS_ENTROPY, cross_entropy)                                                                                    \
    X(CROSS_ENTROPY_BACKWARD, cross_entropy_backward)

EITP__PRIVATE void eitp__register_ref_kernels(eitp__kernel_table *table) {
    eitp__register_ref_casts(table);
    eitp__register_ref_movement(table);
#define EITP__REF_REGISTER(slot, name) eitp__ref_register(table, EITP__SLOT_##slot, EITP_F32, eitp__ref_##name##_f32);
    EITP__REF_PRIMITIVES(EITP__REF_REGISTER)
    EITP__REF_FUSED(EITP__REF_REGISTER)
#undef EITP__REF_REGISTER
#define EITP__REF_REGISTER(slot, name) eitp__ref_register(table, EITP__SLOT_##slot, EITP_F64, eitp__ref_##name##_f64);
    EITP__REF_PRIMITIVES(EITP__REF_REGISTER)
#undef EITP__REF_REGISTER
    table->kernels[EITP__SLOT_ATTENTION][EITP_F32].workspace = eitp__ref_attention_workspace_f32;
    table->kernels[EITP__SLOT_ATTENTION_CACHED][EITP_F32].workspace = eitp__ref_attention_cached_workspace_f32;
    eitp__ref_register(table, EITP__SLOT_LESS, EITP_I32, eitp__ref_less_i32);
    eitp__ref_register(table, EITP__SLOT_EQUAL, EITP_I32, eitp__ref_equal_i32);
    eitp__ref_register(table, EITP__SLOT_COMMIT, EITP_F64, eitp__ref_commit);
    eitp__register_ref_matmul(table);
}
/* <<kernels/ref/ref.c */

/* >>kernels/avx2/avx2.c */
/* The f32 kernels for processors with AVX2 and FMA. */

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

/*
 * The vector that the templates of kernels/simd/ are written on. Sums, differences, products and quotients are the
 * compiler's own operators; masked loads and stores touch only the elements they name.
 */
#define EITP__SIMD(name) eitp__avx2_##name
#define EITP__SIMD_INLINE static inline __attribute__((always_inline, unused))
#define EITP__SIMD_LANES 8
#define EITP__SIMD_SET "avx2"

typedef __m256 EITP__SIMD(vector);

EITP__SIMD_INLINE __m256i eitp__avx2_mask(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load(const float *p) {
    return _mm256_loadu_ps(p);
}

EITP__SIMD_INLINE void eitp__avx2_store(float *p, __m256 v) {
    _mm256_storeu_ps(p, v);
}

/* The first `count` elements at p, 0 < count < lanes; `rest` in the other lanes. */
EITP__SIMD_INLINE __m256 eitp__avx2_load_first(const float *p, int64_t count, __m256 rest) {
    __m256i mask = eitp__avx2_mask(count);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}

EITP__SIMD_INLINE void eitp__avx2_store_first(float *p, int64_t count, __m256 v) {
    _mm256_maskstore_ps(p, eitp__avx2_mask(count), v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_spread(float x) {
    return _mm256_set1_ps(x);
}

/* a * b + c, and c - a * b, rounded once. */
EITP__SIMD_INLINE __m256 eitp__avx2_multiply_add(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}

EITP__SIMD_INLINE __m256 eitp__avx2_subtract_product(__m256 c, __m256 a, __m256 b) {
    return _mm256_fnmadd_ps(a, b, c);
}

/* The larger and the smaller; v where it is not a number. */
EITP__SIMD_INLINE __m256 eitp__avx2_at_least(__m256 low, __m256 v) {
    return _mm256_max_ps(low, v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_at_most(__m256 high, __m256 v) {
    return _mm256_min_ps(high, v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_square_root(__m256 v) {
    return _mm256_sqrt_ps(v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_magnitude(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* The magnitude of v, the sign of s. */
EITP__SIMD_INLINE __m256 eitp__avx2_with_sign(__m256 v, __m256 s) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(sign, v), _mm256_and_ps(sign, s));
}

/* In each lane: a < b ? yes : no. */
EITP__SIMD_INLINE __m256 eitp__avx2_choose_less(__m256 a, __m256 b, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

/* To the nearest integer, for |v| < 2^31. */
EITP__SIMD_INLINE __m256 eitp__avx2_round(__m256 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v * 2^n for an integral n in [-252, 252]; in two steps, so that the result may be subnormal or infinite. */
EITP__SIMD_INLINE __m256 eitp__avx2_scale(__m256 v, __m256 n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    __m256i other = _mm256_sub_epi32(whole, half);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(other, bias), 23)));
}

/* Over the lanes of one vector: the sum, in a fixed order, and the largest. */
EITP__SIMD_INLINE float eitp__avx2_sum(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

EITP__SIMD_INLINE float eitp__avx2_largest(__m256 v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* sums[0] and sums[1] += the squares, in double, of the lower and of the upper half of v. */
typedef __m256d eitp__avx2_doubles;

EITP__SIMD_INLINE void eitp__avx2_add_squares(__m256 v, __m256d sums[2]) {
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    sums[0] = _mm256_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm256_fmadd_pd(high, high, sums[1]);
}

EITP__SIMD_INLINE __m256d eitp__avx2_no_doubles(void) {
    return _mm256_setzero_pd();
}

EITP__SIMD_INLINE double eitp__avx2_sum_doubles(__m256d v) {
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Turns 8 x 8 elements. */
EITP__SIMD_INLINE void eitp__avx2_turn(const float *from, int64_t stride, float *to, int64_t to_stride) {
    __m256 r0 = _mm256_loadu_ps(from), r1 = _mm256_loadu_ps(from + stride);
    __m256 r2 = _mm256_loadu_ps(from + 2 * stride), r3 = _mm256_loadu_ps(from + 3 * stride);
    __m256 r4 = _mm256_loadu_ps(from + 4 * stride), r5 = _mm256_loadu_ps(from + 5 * stride);
    __m256 r6 = _mm256_loadu_ps(from + 6 * stride), r7 = _mm256_loadu_ps(from + 7 * stride);
    __m256 s0 = _mm256_unpacklo_ps(r0, r1), s1 = _mm256_unpackhi_ps(r0, r1);
    __m256 s2 = _mm256_unpacklo_ps(r2, r3), s3 = _mm256_unpackhi_ps(r2, r3);
    __m256 s4 = _mm256_unpacklo_ps(r4, r5), s5 = _mm256_unpackhi_ps(r4, r5);
    __m256 s6 = _mm256_unpacklo_ps(r6, r7), s7 = _mm256_unpackhi_ps(r6, r7);
    r0 = _mm256_shuffle_ps(s0, s2, 0x44);
    r1 = _mm256_shuffle_ps(s0, s2, 0xee);
    r2 = _mm256_shuffle_ps(s1, s3, 0x44);
    r3 = _mm256_shuffle_ps(s1, s3, 0xee);
    r4 = _mm256_shuffle_ps(s4, s6, 0x44);
    r5 = _mm256_shuffle_ps(s4, s6, 0xee);
    r6 = _mm256_shuffle_ps(s5, s7, 0x44);
    r7 = _mm256_shuffle_ps(s5, s7, 0xee);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(r0, r4, 0x20));
    _mm256_storeu_ps(to + to_stride, _mm256_permute2f128_ps(r1, r5, 0x20));
    _mm256_storeu_ps(to + 2 * to_stride, _mm256_permute2f128_ps(r2, r6, 0x20));
    _mm256_storeu_ps(to + 3 * to_stride, _mm256_permute2f128_ps(r3, r7, 0x20));
    _mm256_storeu_ps(to + 4 * to_stride, _mm256_permute2f128_ps(r0, r4, 0x31));
    _mm256_storeu_ps(to + 5 * to_stride, _mm256_permute2f128_ps(r1, r5, 0x31));
    _mm256_storeu_ps(to + 6 * to_stride, _mm256_permute2f128_ps(r2, r6, 0x31));
    _mm256_storeu_ps(to + 7 * to_stride, _mm256_permute2f128_ps(r3, r7, 0x31));
}

#define EITP__MATMUL(name) eitp__avx2_matmul_##name
#define EITP__MATMUL_TYPE float
#define EITP__MATMUL_VECTOR __m256
#define EITP__MATMUL_LANES 8
#define EITP__MATMUL_LOAD(p) _mm256_loadu_ps(p)
#define EITP__MATMUL_STORE(p, v) _mm256_storeu_ps(p, v)
#define EITP__MATMUL_SPREAD(x) _mm256_set1_ps(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) _mm256_fmadd_ps(a, b, c)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__MATMUL_ROW_COUNT 4
#define EITP__MATMUL_DEPTH 256
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96
#define EITP__MATMUL_TURN_SIZE 8
#define EITP__MATMUL_TURN eitp__avx2_turn

/* >>kernels/matmul.inc */
/*
 * The matrix product, for one element type on one instruction set.
 *
 * The including file defines
 *   EITP__MATMUL(name)               the name of a function of this instance
 *   EITP__MATMUL_TYPE                the element type
 *   EITP__MATMUL_VECTOR, _LANES      a vector of elements and how many it has
 *   EITP__MATMUL_LOAD(p), _STORE(p, v), _SPREAD(x), _ADD_PRODUCT(c, a, b)   on vectors; the last is c + a * b
 *   EITP__MATMUL_ROWS(X)             X(0) X(1) ... for the rows that a block of y in registers has
 *   EITP__MATMUL_ROW_COUNT           how many these are
 *   EITP__MATMUL_DEPTH               how far along k a block goes
 *   EITP__MATMUL_TILE_ROWS, _TILE_COLUMNS   the size of an item
 *   EITP__MATMUL_TURN(from, stride, to, to_stride)   optional: turns a block of EITP__MATMUL_TURN_SIZE squared elements
 *
 * and finds them undefined again afterwards.
 *
 * A block of y, ROW_COUNT x 3 vectors, stays in registers while k runs. Each element is one chain of additions in the
 * order of k that starts from what y holds, so no blocking, no tile and no cut of k into accumulated products changes a
 * bit. b is copied into panels as wide as a block; a is read in place, or copied where it is transposed.
 */
#define EITP__MATMUL_WIDTH (3 * EITP__MATMUL_LANES)

enum {
    EITP__MATMUL(tile_rows) = EITP__MATMUL_TILE_ROWS,
    EITP__MATMUL(panel) = EITP__MATMUL_DEPTH * EITP__MATMUL_WIDTH,    /* elements of a panel of b */
    EITP__MATMUL(edge) = EITP__MATMUL_ROW_COUNT * EITP__MATMUL_WIDTH, /* of a block of y */
    EITP__MATMUL(packed_rows) = (EITP__MATMUL_TILE_ROWS + EITP__MATMUL_ROW_COUNT - 1) / EITP__MATMUL_ROW_COUNT *
                                EITP__MATMUL_ROW_COUNT * EITP__MATMUL_DEPTH /* of a tile of a */
};

static size_t EITP__MATMUL(workspace)(const eitp__call *call) {
    size_t elements = EITP__MATMUL(panel) + EITP__MATMUL(edge);
    if (call->integers[0])
        elements += EITP__MATMUL(packed_rows);
    return elements * sizeof(EITP__MATMUL_TYPE);
}

/* y += a * b for one block of y and `depth` steps of k. */
static void EITP__MATMUL(block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride, int64_t depth_stride,
                                const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y, int64_t y_stride) {
#define EITP__MATMUL_BEGIN(i)                                                                                          \
    EITP__MATMUL_VECTOR y##i##0 = EITP__MATMUL_LOAD(y + i * y_stride);                                                 \
    EITP__MATMUL_VECTOR y##i##1 = EITP__MATMUL_LOAD(y + i * y_stride + EITP__MATMUL_LANES);                            \
    EITP__MATMUL_VECTOR y##i##2 = EITP__MATMUL_LOAD(y + i * y_stride + 2 * EITP__MATMUL_LANES);
#define EITP__MATMUL_STEP(i)                                                                                           \
    {                                                                                                                  \
        EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride]);                                               \
        y##i##0 = EITP__MATMUL_ADD_PRODUCT(y##i##0, a0, b0);                                                           \
        y##i##1 = EITP__MATMUL_ADD_PRODUCT(y##i##1, a0, b1);                                                           \
        y##i##2 = EITP__MATMUL_ADD_PRODUCT(y##i##2, a0, b2);                                                           \
    }
#define EITP__MATMUL_END(i)                                                                                            \
    EITP__MATMUL_STORE(y + i * y_stride, y##i##0);                                                                     \
    EITP__MATMUL_STORE(y + i * y_stride + EITP__MATMUL_LANES, y##i##1);                                                \
    EITP__MATMUL_STORE(y + i * y_stride + 2 * EITP__MATMUL_LANES, y##i##2);

    EITP__MATMUL_ROWS(EITP__MATMUL_BEGIN)
    for (int64_t p = 0; p < depth; p++) {
        EITP__MATMUL_VECTOR b0 = EITP__MATMUL_LOAD(b);
        EITP__MATMUL_VECTOR b1 = EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES);
        EITP__MATMUL_VECTOR b2 = EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES);
        EITP__MATMUL_ROWS(EITP__MATMUL_STEP)
        a += depth_stride;
        b += EITP__MATMUL_WIDTH;
    }
    EITP__MATMUL_ROWS(EITP__MATMUL_END)

#undef EITP__MATMUL_BEGIN
#undef EITP__MATMUL_STEP
#undef EITP__MATMUL_END
}

/* The same for a block of which only `rows` x `columns` are y's. Rows of a beyond these are not read. */
static void EITP__MATMUL(edge_block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride,
                                     int64_t depth_stride, const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y,
                                     int64_t y_stride, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *edge) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            edge[i * EITP__MATMUL_WIDTH + j] = j < columns ? y[i * y_stride + j] : 0;
    if (rows == EITP__MATMUL_ROW_COUNT) {
        EITP__MATMUL(block)(depth, a, row_stride, depth_stride, b, edge, EITP__MATMUL_WIDTH);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            EITP__MATMUL_TYPE *row = edge + i * EITP__MATMUL_WIDTH;
            EITP__MATMUL_VECTOR y0 = EITP__MATMUL_LOAD(row);
            EITP__MATMUL_VECTOR y1 = EITP__MATMUL_LOAD(row + EITP__MATMUL_LANES);
            EITP__MATMUL_VECTOR y2 = EITP__MATMUL_LOAD(row + 2 * EITP__MATMUL_LANES);
            for (int64_t p = 0; p < depth; p++) {
                EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride + p * depth_stride]);
                const EITP__MATMUL_TYPE *from = b + p * EITP__MATMUL_WIDTH;
                y0 = EITP__MATMUL_ADD_PRODUCT(y0, a0, EITP__MATMUL_LOAD(from));
                y1 = EITP__MATMUL_ADD_PRODUCT(y1, a0, EITP__MATMUL_LOAD(from + EITP__MATMUL_LANES));
                y2 = EITP__MATMUL_ADD_PRODUCT(y2, a0, EITP__MATMUL_LOAD(from + 2 * EITP__MATMUL_LANES));
            }
            EITP__MATMUL_STORE(row, y0);
            EITP__MATMUL_STORE(row + EITP__MATMUL_LANES, y1);
            EITP__MATMUL_STORE(row + 2 * EITP__MATMUL_LANES, y2);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * y_stride + j] = edge[i * EITP__MATMUL_WIDTH + j];
}

/* A panel from b [depth, columns] as it is stored; columns it lacks become zeros. */
static void EITP__MATMUL(pack_rows)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                    EITP__MATMUL_TYPE *panel) {
    if (columns == EITP__MATMUL_WIDTH) {
        for (int64_t p = 0; p < depth; p++, b += stride, panel += EITP__MATMUL_WIDTH) {
            __builtin_prefetch(b + (p + 8 < depth ? 8 * stride : 0));
            EITP__MATMUL_STORE(panel, EITP__MATMUL_LOAD(b));
            EITP__MATMUL_STORE(panel + EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES));
            EITP__MATMUL_STORE(panel + 2 * EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES));
        }
        return;
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            panel[p * EITP__MATMUL_WIDTH + j] = j < columns ? b[p * stride + j] : 0;
}

/* A panel from b that is stored as [columns, depth]. */
static void EITP__MATMUL(pack_turned)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                      EITP__MATMUL_TYPE *panel) {
    int64_t done_columns = 0, done_depth = 0;
#ifdef EITP__MATMUL_TURN
    done_columns = columns / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    done_depth = depth / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    for (int64_t j = 0; j < done_columns; j += EITP__MATMUL_TURN_SIZE)
        for (int64_t p = 0; p < done_depth; p += EITP__MATMUL_TURN_SIZE)
            EITP__MATMUL_TURN(b + j * stride + p, stride, panel + p * EITP__MATMUL_WIDTH + j, EITP__MATMUL_WIDTH);
#endif
    for (int64_t j = 0; j < columns; j++)
        for (int64_t p = j < done_columns ? done_depth : 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = b[j * stride + p];
    for (int64_t j = columns; j < EITP__MATMUL_WIDTH; j++)
        for (int64_t p = 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = 0;
}

/* Blocks of rows, each with k outermost, from a that is stored as [depth, rows]; rows it lacks become zeros. */
static void EITP__MATMUL(pack_a)(const EITP__MATMUL_TYPE *a, int64_t stride, int64_t depth, int64_t rows,
                                 EITP__MATMUL_TYPE *packed) {
    /* A few steps of k at a time: rows of a that are a power of two apart share cache sets. */
    for (int64_t p = 0; p < depth; p += 8) {
        int64_t steps = depth - p < 8 ? depth - p : 8;
        for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
            EITP__MATMUL_TYPE *to = packed + i * depth + p * EITP__MATMUL_ROW_COUNT;
            const EITP__MATMUL_TYPE *from = a + p * stride + i;
            if (rows - i >= EITP__MATMUL_ROW_COUNT) {
                for (int64_t s = 0; s < steps; s++)
                    memcpy(to + s * EITP__MATMUL_ROW_COUNT, from + s * stride,
                           EITP__MATMUL_ROW_COUNT * sizeof(EITP__MATMUL_TYPE));
            } else {
                for (int64_t s = 0; s < steps; s++)
                    for (int64_t r = 0; r < EITP__MATMUL_ROW_COUNT; r++)
                        to[s * EITP__MATMUL_ROW_COUNT + r] = r < rows - i ? from[s * stride + r] : 0;
            }
        }
    }
}

/* What a tile of y starts from: carry * y + bias, where y is not read while carry is 0. */
static void EITP__MATMUL(start)(const eitp__call *call, const EITP__MATMUL_TYPE *bias, EITP__MATMUL_TYPE *y,
                                int64_t stride, int64_t rows, int64_t columns) {
    EITP__MATMUL_TYPE carry = !call->accumulates ? 0 : call->carry ? (EITP__MATMUL_TYPE)call->carry[0] : 1;
    for (int64_t i = 0; i < rows; i++, y += stride) {
        if (carry != 0) {
            if (carry != 1)
                for (int64_t j = 0; j < columns; j++)
                    y[j] *= carry;
            if (bias)
                for (int64_t j = 0; j < columns; j++)
                    y[j] += bias[j];
        } else if (bias) {
            memcpy(y, bias, (size_t)columns * sizeof *y);
        } else {
            memset(y, 0, (size_t)columns * sizeof *y);
        }
    }
}

static void EITP__MATMUL(tile)(const eitp__matmul *sizes, const EITP__MATMUL_TYPE *a, const EITP__MATMUL_TYPE *b,
                               EITP__MATMUL_TYPE *y, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *workspace) {
    EITP__MATMUL_TYPE *panel = workspace, *edge = panel + EITP__MATMUL(panel), *packed = edge + EITP__MATMUL(edge);
    for (int64_t p = 0; p < sizes->k; p += EITP__MATMUL_DEPTH) {
        int64_t depth = sizes->k - p < EITP__MATMUL_DEPTH ? sizes->k - p : EITP__MATMUL_DEPTH;
        if (sizes->transpose_a)
            EITP__MATMUL(pack_a)(a + p * sizes->lda, sizes->lda, depth, rows, packed);
        for (int64_t j = 0; j < columns; j += EITP__MATMUL_WIDTH) {
            int64_t width = columns - j < EITP__MATMUL_WIDTH ? columns - j : EITP__MATMUL_WIDTH;
            if (sizes->transpose_b)
                EITP__MATMUL(pack_turned)(b + j * sizes->ldb + p, sizes->ldb, depth, width, panel);
            else
                EITP__MATMUL(pack_rows)(b + p * sizes->ldb + j, sizes->ldb, depth, width, panel);
            for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
                int64_t height = rows - i < EITP__MATMUL_ROW_COUNT ? rows - i : EITP__MATMUL_ROW_COUNT;
                int64_t row_stride = sizes->transpose_a ? 1 : sizes->lda;
                int64_t depth_stride = sizes->transpose_a ? EITP__MATMUL_ROW_COUNT : 1;
                const EITP__MATMUL_TYPE *from = sizes->transpose_a ? packed + i * depth : a + i * sizes->lda + p;
                EITP__MATMUL_TYPE *to = y + i * sizes->n + j;
                if (height == EITP__MATMUL_ROW_COUNT && width == EITP__MATMUL_WIDTH)
                    EITP__MATMUL(block)(depth, from, row_stride, depth_stride, panel, to, sizes->n);
                else
                    EITP__MATMUL(edge_block)
                (depth, from, row_stride, depth_stride, panel, to, sizes->n, height, width, edge);
            }
        }
    }
}

static void EITP__MATMUL(run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const EITP__MATMUL_TYPE *a = (const EITP__MATMUL_TYPE *)call->inputs[0].data;
    const EITP__MATMUL_TYPE *b = (const EITP__MATMUL_TYPE *)call->inputs[1].data;
    const EITP__MATMUL_TYPE *bias = call->input_count > 2 ? (const EITP__MATMUL_TYPE *)call->inputs[2].data : NULL;
    EITP__MATMUL_TYPE *y = (EITP__MATMUL_TYPE *)call->outputs[0].data;
    int64_t tiles_across = (sizes.n + EITP__MATMUL_TILE_COLUMNS - 1) / EITP__MATMUL_TILE_COLUMNS;
    int64_t tiles_down = (sizes.m + EITP__MATMUL_TILE_ROWS - 1) / EITP__MATMUL_TILE_ROWS;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (tiles_down * tiles_across);
        int64_t i = item / tiles_across % tiles_down * EITP__MATMUL_TILE_ROWS;
        int64_t j = item % tiles_across * EITP__MATMUL_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__MATMUL_TILE_ROWS ? sizes.m - i : EITP__MATMUL_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__MATMUL_TILE_COLUMNS ? sizes.n - j : EITP__MATMUL_TILE_COLUMNS;
        EITP__MATMUL_TYPE *to = y + (batch * sizes.m + i) * sizes.n + j;
        EITP__MATMUL(start)(call, bias ? bias + j : NULL, to, sizes.n, rows, columns);
        EITP__MATMUL(tile)
        (&sizes, a + eitp__matmul_offset(call, 0, batch) + (sizes.transpose_a ? i : i * sizes.lda),
         b + eitp__matmul_offset(call, 1, batch) + (sizes.transpose_b ? j * sizes.ldb : j), to, rows, columns,
         (EITP__MATMUL_TYPE *)workspace);
    }
}

static eitp__kernel EITP__MATMUL(kernel)(const char *set) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = EITP__MATMUL(run);
    kernel.workspace = EITP__MATMUL(workspace);
    kernel.tile_rows = EITP__MATMUL_TILE_ROWS;
    kernel.tile_columns = EITP__MATMUL_TILE_COLUMNS;
    kernel.set = set;
    return kernel;
}

#undef EITP__MATMUL_WIDTH
#undef EITP__MATMUL
#undef EITP__MATMUL_TYPE
#undef EITP__MATMUL_VECTOR
#undef EITP__MATMUL_LANES
#undef EITP__MATMUL_LOAD
#undef EITP__MATMUL_STORE
#undef EITP__MATMUL_SPREAD
#undef EITP__MATMUL_ADD_PRODUCT
#undef EITP__MATMUL_ROWS
#undef EITP__MATMUL_ROW_COUNT
#undef EITP__MATMUL_DEPTH
#undef EITP__MATMUL_TILE_ROWS
#undef EITP__MATMUL_TILE_COLUMNS
#undef EITP__MATMUL_TURN
#undef EITP__MATMUL_TURN_SIZE
/* <<kernels/matmul.inc */


/* >>kernels/simd/math.inc */
/*
 * Elementary functions of a vector. Polynomials are interpolations at Chebyshev nodes; the bounds are measured against
 * the functions in double, in units of the last place of the result.
 */

/* `count` elements at p, any number of them: a whole vector, or the first few and `rest`. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(fetch)(const float *p, int64_t count, EITP__SIMD(vector) rest) {
    return count >= EITP__SIMD_LANES ? EITP__SIMD(load)(p) : EITP__SIMD(load_first)(p, count, rest);
}

EITP__SIMD_INLINE void EITP__SIMD(put)(float *p, int64_t count, EITP__SIMD(vector) v) {
    if (count >= EITP__SIMD_LANES)
        EITP__SIMD(store)(p, v);
    else
        EITP__SIMD(store_first)(p, count, v);
}

EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(zeros)(void) {
    return EITP__SIMD(spread)(0.0f);
}

/* e^x within 1 unit (1.5 where the result is subnormal): 2^n e^r with |r| <= log(2) / 2. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(exp)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) n, r, p;
    x = EITP__SIMD(at_most)(EITP__SIMD(spread)(90.0f), EITP__SIMD(at_least)(EITP__SIMD(spread)(-105.0f), x));
    n = EITP__SIMD(round)(x * EITP__SIMD(spread)(1.44269502f));
    r = EITP__SIMD(subtract_product)(x, n, EITP__SIMD(spread)(0.693145752f)); /* log(2), in two parts */
    r = EITP__SIMD(subtract_product)(r, n, EITP__SIMD(spread)(1.42860677e-6f));
    p = EITP__SIMD(spread)(0.00139262504f);
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.00836323295f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.0416665524f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.166665763f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.5f));
    p = EITP__SIMD(multiply_add)(p, r * r, r);
    return EITP__SIMD(scale)(p + EITP__SIMD(spread)(1.0f), n);
}

/* tanh(x) within 2 units: a polynomial near 0, elsewhere 1 - 2 / (e^2|x| + 1). */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(tanh)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f), size = EITP__SIMD(magnitude)(x), square = x * x, near, far;
    near = EITP__SIMD(spread)(0.00237076567f);
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.00841007102f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(0.0217883214f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.0539615527f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(0.133333132f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.333333343f));
    near = EITP__SIMD(multiply_add)(near, square * x, x);
    far = one - EITP__SIMD(spread)(2.0f) / (EITP__SIMD(exp)(size + size) + one);
    return EITP__SIMD(choose_less)(size, EITP__SIMD(spread)(0.6f), near, EITP__SIMD(with_sign)(far, x));
}

/* 1 / (1 + e^-x) within 3 units, but 0 where it would be subnormal. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(sigmoid)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f);
    return one / (one + EITP__SIMD(exp)(EITP__SIMD(zeros)() - x));
}
/* <<kernels/simd/math.inc */

/* >>kernels/simd/flat.inc */
/* Elementwise kernels. Every lane does the same, so that an element's value does not depend on where a piece starts. */

#define EITP__SIMD_UNARY(name, expression)                                                                             \
    static void EITP__SIMD(name##_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {          \
        const float *from = (const float *)call->inputs[0].data;                                                       \
        float *to = (float *)call->outputs[0].data;                                                                    \
        (void)workspace;                                                                                               \
        for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {                                                      \
            EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());                          \
            EITP__SIMD(put)(to + i, end - i, (expression));                                                            \
        }                                                                                                              \
    }

EITP__SIMD_UNARY(exp, EITP__SIMD(exp)(x))
EITP__SIMD_UNARY(tanh, EITP__SIMD(tanh)(x))
EITP__SIMD_UNARY(sigmoid, EITP__SIMD(sigmoid)(x))

/*
 * GELU with the tanh approximation is x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 is
 * sigmoid(2 u): no difference of nearly equal numbers where x is far below 0.
 */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(gelu_gate)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) cubic = EITP__SIMD(spread)(0.0713548163f), linear = EITP__SIMD(spread)(1.59576912f);
    return EITP__SIMD(sigmoid)(x * EITP__SIMD(multiply_add)(cubic, x * x, linear));
}

EITP__SIMD_UNARY(gelu_tanh, EITP__SIMD(gelu_gate)(x) * x)

static void EITP__SIMD(gelu_tanh_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *from = (const float *)call->inputs[0].data, *gradient = (const float *)call->inputs[1].data;
    float *to = (float *)call->outputs[0].data;
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f), limit = EITP__SIMD(spread)(20.0f);
    EITP__SIMD(vector) cubic = EITP__SIMD(spread)(0.214064449f), linear = EITP__SIMD(spread)(1.59576912f);
    (void)workspace;
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());
        EITP__SIMD(vector) d = EITP__SIMD(fetch)(gradient + i, end - i, EITP__SIMD(zeros)());
        EITP__SIMD(vector) gate = EITP__SIMD(gelu_gate)(x), inner, slope;
        /* The gate's own slope: 0 far from 0, where the cube must not overflow. */
        inner = EITP__SIMD(at_most)(limit, EITP__SIMD(at_least)(EITP__SIMD(zeros)() - limit, x));
        slope = inner * EITP__SIMD(multiply_add)(cubic, inner * inner, linear) * (gate * (one - gate));
        EITP__SIMD(put)(to + i, end - i, d * (gate + slope));
    }
}

#undef EITP__SIMD_UNARY

/*
 * Binary operations with broadcasting. Neighbouring dimensions in which the operands agree about being repeated are one
 * run; the last run is the inner loop.
 */
typedef struct EITP__SIMD(runs) {
    int count;
    int64_t size[EITP_MAX_RANK + 1];
    int64_t strides[2][EITP_MAX_RANK + 1]; /* 0: repeated */
} EITP__SIMD(runs);

static EITP__SIMD(runs) EITP__SIMD(find_runs)(const eitp__call *call) {
    EITP__SIMD(runs) runs;
    const eitp__operand *y = &call->outputs[0];
    int64_t steps[2] = {1, 1};
    runs.count = 0;
    for (int i = 0; i < y->rank; i++) { /* i: from the last dimension */
        int64_t size = y->shape[y->rank - 1 - i], stride[2];
        int joins = runs.count > 0;
        if (size == 1)
            continue;
        for (int which = 0; which < 2; which++) {
            const eitp__operand *x = &call->inputs[which];
            int whole = i < x->rank && x->shape[x->rank - 1 - i] != 1;
            stride[which] = whole ? steps[which] : 0;
            steps[which] *= whole ? size : 1;
            joins = joins && (runs.strides[which][runs.count - 1] != 0) == whole;
        }
        if (joins) {
            runs.size[runs.count - 1] *= size;
            continue;
        }
        runs.size[runs.count] = size;
        runs.strides[0][runs.count] = stride[0];
        runs.strides[1][runs.count] = stride[1];
        runs.count++;
    }
    if (runs.count == 0) {
        runs.size[0] = 1;
        runs.strides[0][0] = runs.strides[1][0] = 0;
        runs.count = 1;
    }
    return runs;
}

EITP__SIMD_INLINE EITP__SIMD(vector)
    EITP__SIMD(fetch_repeated)(const float *p, int64_t stride, int64_t index, int64_t count) {
    return stride ? EITP__SIMD(fetch)(p + index, count, EITP__SIMD(zeros)()) : EITP__SIMD(spread)(*p);
}

#define EITP__SIMD_BINARY(name, operator)                                                                              \
    static void EITP__SIMD(name##_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {          \
        EITP__SIMD(runs) runs = EITP__SIMD(find_runs)(call);                                                           \
        float *to = (float *)call->outputs[0].data;                                                                    \
        (void)workspace;                                                                                               \
        for (int64_t i = begin, next; i < end; i = next) {                                                             \
            int64_t column = i % runs.size[0], rest = i / runs.size[0], length = runs.size[0] - column;                \
            const float *a = (const float *)call->inputs[0].data, *b = (const float *)call->inputs[1].data;            \
            next = end - i < length ? end : i + length;                                                                \
            for (int r = 1; r < runs.count; rest /= runs.size[r], r++) {                                               \
                a += rest % runs.size[r] * runs.strides[0][r];                                                         \
                b += rest % runs.size[r] * runs.strides[1][r];                                                         \
            }                                                                                                          \
            for (int64_t count = next - i, j = 0; j < count; j += EITP__SIMD_LANES) {                                  \
                EITP__SIMD(vector) u = EITP__SIMD(fetch_repeated)(a, runs.strides[0][0], column + j, count - j);       \
                EITP__SIMD(vector) v = EITP__SIMD(fetch_repeated)(b, runs.strides[1][0], column + j, count - j);       \
                EITP__SIMD(put)(to + i + j, count - j, u operator v);                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }

EITP__SIMD_BINARY(add, +)
EITP__SIMD_BINARY(subtract, -)
EITP__SIMD_BINARY(multiply, *)
EITP__SIMD_BINARY(divide, /)

#undef EITP__SIMD_BINARY

static void EITP__SIMD(accumulate_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *target = (const float *)call->inputs[0].data, *from = (const float *)call->inputs[1].data;
    const float *factor = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    float *to = (float *)call->outputs[0].data, carry = factor ? factor[0] : 1.0f;
    (void)workspace;
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());
        if (carry != 0.0f) {
            EITP__SIMD(vector) old = EITP__SIMD(fetch)(target + i, end - i, EITP__SIMD(zeros)());
            x = EITP__SIMD(multiply_add)(EITP__SIMD(spread)(carry), old, x);
        }
        EITP__SIMD(put)(to + i, end - i, x);
    }
}
/* <<kernels/simd/flat.inc */

/* >>kernels/simd/reduce.inc */
/* Sums and maxima of a row; the slots SUM and SUM_SQUARES. The order of additions follows from the shape alone. */

EITP__SIMD_INLINE float EITP__SIMD(row_sum)(const float *p, int64_t count) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, s2 = s0, s3 = s0, none = s0;
    int64_t i = 0;
    for (; count - i >= 4 * EITP__SIMD_LANES; i += 4 * EITP__SIMD_LANES) {
        s0 += EITP__SIMD(load)(p + i);
        s1 += EITP__SIMD(load)(p + i + EITP__SIMD_LANES);
        s2 += EITP__SIMD(load)(p + i + 2 * EITP__SIMD_LANES);
        s3 += EITP__SIMD(load)(p + i + 3 * EITP__SIMD_LANES);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        s0 += EITP__SIMD(fetch)(p + i, count - i, none);
    return EITP__SIMD(sum)((s0 + s1) + (s2 + s3));
}

/* The sum of a[i] * b[i]. */
EITP__SIMD_INLINE float EITP__SIMD(row_dot)(const float *a, const float *b, int64_t count) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, none = s0;
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        s0 = EITP__SIMD(multiply_add)(EITP__SIMD(load)(a + i), EITP__SIMD(load)(b + i), s0);
        s1 = EITP__SIMD(multiply_add)(EITP__SIMD(load)(a + i + EITP__SIMD_LANES),
                                      EITP__SIMD(load)(b + i + EITP__SIMD_LANES), s1);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        s0 = EITP__SIMD(multiply_add)(EITP__SIMD(fetch)(a + i, count - i, none),
                                      EITP__SIMD(fetch)(b + i, count - i, none), s0);
    return EITP__SIMD(sum)(s0 + s1);
}

/* The largest, ignoring what is not a number; minus infinity where there is nothing. */
EITP__SIMD_INLINE float EITP__SIMD(row_largest)(const float *p, int64_t count) {
    EITP__SIMD(vector) none = EITP__SIMD(spread)(-INFINITY), m0 = none, m1 = none;
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        m0 = EITP__SIMD(at_least)(EITP__SIMD(load)(p + i), m0);
        m1 = EITP__SIMD(at_least)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES), m1);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        m0 = EITP__SIMD(at_least)(EITP__SIMD(fetch)(p + i, count - i, none), m0);
    return EITP__SIMD(largest)(EITP__SIMD(at_least)(m0, m1));
}

/* The sum of e^(p[i] - top). Where `to` is not NULL the terms are stored there; it may be p. */
EITP__SIMD_INLINE float EITP__SIMD(row_sum_exp)(const float *p, int64_t count, float top, float *to) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, none = EITP__SIMD(spread)(-INFINITY);
    EITP__SIMD(vector) shift = EITP__SIMD(spread)(top);
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        EITP__SIMD(vector) e0 = EITP__SIMD(exp)(EITP__SIMD(load)(p + i) - shift);
        EITP__SIMD(vector) e1 = EITP__SIMD(exp)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES) - shift);
        s0 += e0;
        s1 += e1;
        if (to) {
            EITP__SIMD(store)(to + i, e0);
            EITP__SIMD(store)(to + i + EITP__SIMD_LANES, e1);
        }
    }
    for (; i < count; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) e = EITP__SIMD(exp)(EITP__SIMD(fetch)(p + i, count - i, none) - shift);
        s0 += e;
        if (to)
            EITP__SIMD(put)(to + i, count - i, e);
    }
    return EITP__SIMD(sum)(s0 + s1);
}

/* The dimensions of a SUM's input as runs that are kept or summed, from the last. */
typedef struct EITP__SIMD(sum_runs) {
    int count;
    int64_t size[EITP_MAX_RANK + 1];
    int64_t stride[EITP_MAX_RANK + 1];
    int summed[EITP_MAX_RANK + 1];
    int64_t terms; /* of the runs that are summed, without the last dimension's */
} EITP__SIMD(sum_runs);

static EITP__SIMD(sum_runs) EITP__SIMD(find_sum_runs)(const eitp__call *call) {
    EITP__SIMD(sum_runs) runs;
    const eitp__operand *x = &call->inputs[0];
    int64_t stride = 1;
    runs.count = 0;
    for (int i = x->rank - 1; i >= 0; i--) {
        int summed = (int)(call->integers[0] >> i & 1);
        int64_t size = x->shape[i];
        if (size == 1)
            continue;
        if (runs.count && runs.summed[runs.count - 1] == summed) {
            runs.size[runs.count - 1] *= size;
        } else {
            runs.size[runs.count] = size;
            runs.stride[runs.count] = stride;
            runs.summed[runs.count] = summed;
            runs.count++;
        }
        stride *= size;
    }
    if (runs.count == 0) {
        runs.size[0] = runs.stride[0] = 1;
        runs.summed[0] = 0;
        runs.count = 1;
    }
    runs.terms = 1;
    for (int i = 1; i < runs.count; i++)
        if (runs.summed[i])
            runs.terms *= runs.size[i];
    return runs;
}

/* Where combination `index` of the runs beyond the first starts, of the summed runs or of those that are kept. */
EITP__SIMD_INLINE int64_t EITP__SIMD(sum_offset)(const EITP__SIMD(sum_runs) * runs, int summed, int64_t index) {
    int64_t offset = 0;
    for (int i = 1; i < runs->count; i++) {
        if (runs->summed[i] != summed)
            continue;
        offset += index % runs->size[i] * runs->stride[i];
        index /= runs->size[i];
    }
    return offset;
}

/* Sums go on from carry * y, term by term in order where the last run is kept, and row by row where it is summed. */
static void EITP__SIMD(sum_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(sum_runs) runs = EITP__SIMD(find_sum_runs)(call);
    const float *from = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    int64_t kept = runs.summed[0] ? 1 : runs.size[0];
    (void)workspace;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % kept;
        const float *base = from + EITP__SIMD(sum_offset)(&runs, 0, i / kept) + column;
        next = runs.summed[0] ? i + 1 : i - column + kept < end ? i - column + kept : end;
        if (runs.summed[0]) {
            float sum = carry != 0.0f ? carry * y[i] : 0.0f;
            for (int64_t t = 0; t < runs.terms; t++)
                sum += EITP__SIMD(row_sum)(base + EITP__SIMD(sum_offset)(&runs, 1, t), runs.size[0]);
            y[i] = sum;
            continue;
        }
        for (int64_t j = i; j < next; j++)
            y[j] = carry != 0.0f ? carry * y[j] : 0.0f;
        for (int64_t t = 0; t < runs.terms; t++) {
            const float *row = base + EITP__SIMD(sum_offset)(&runs, 1, t);
            for (int64_t count = next - i, j = 0; j < count; j += EITP__SIMD_LANES) {
                EITP__SIMD(vector) sum = EITP__SIMD(fetch)(y + i + j, count - j, EITP__SIMD(zeros)());
                EITP__SIMD(put)(y + i + j, count - j, sum + EITP__SIMD(fetch)(row + j, count - j, EITP__SIMD(zeros)()));
            }
        }
    }
}

static void EITP__SIMD(sum_squares_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *from = (const float *)call->inputs[0].data;
    double *to = (double *)call->outputs[0].data;
    (void)workspace;
    for (int64_t block = begin; block < end; block++) {
        const float *p = from + block * EITP__SUM_BLOCK;
        int64_t count = call->inputs[0].elements - block * EITP__SUM_BLOCK, i = 0;
        EITP__SIMD(doubles) even[2], odd[2];
        even[0] = even[1] = odd[0] = odd[1] = EITP__SIMD(no_doubles)();
        count = count < EITP__SUM_BLOCK ? count : EITP__SUM_BLOCK;
        for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
            EITP__SIMD(add_squares)(EITP__SIMD(load)(p + i), even);
            EITP__SIMD(add_squares)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES), odd);
        }
        for (; i < count; i += EITP__SIMD_LANES)
            EITP__SIMD(add_squares)(EITP__SIMD(fetch)(p + i, count - i, EITP__SIMD(zeros)()), even);
        to[block] = EITP__SIMD(sum_doubles)((even[0] + even[1]) + (odd[0] + odd[1]));
    }
}
/* <<kernels/simd/reduce.inc */

/* >>kernels/simd/rows.inc */
/* Kernels over rows: softmax, layer norm, cross-entropy. */

EITP__SIMD_INLINE int64_t EITP__SIMD(columns)(const eitp__operand *x) {
    return x->rank ? x->shape[x->rank - 1] : 1;
}

static void EITP__SIMD(softmax_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float sum = EITP__SIMD(row_sum_exp)(x, c, EITP__SIMD(row_largest)(x, c), y);
        EITP__SIMD(vector) factor = EITP__SIMD(spread)(1.0f / sum);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(y + j, c - j, factor * EITP__SIMD(fetch)(y + j, c - j, factor));
    }
}

static void EITP__SIMD(softmax_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) mean = EITP__SIMD(spread)(EITP__SIMD(row_dot)(y, dy, c));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) d = EITP__SIMD(fetch)(dy + j, c - j, mean);
            EITP__SIMD(put)(dx + j, c - j, EITP__SIMD(fetch)(y + j, c - j, mean) * (d - mean));
        }
    }
}

static void EITP__SIMD(log_softmax_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float top = EITP__SIMD(row_largest)(x, c);
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(top);
        EITP__SIMD(vector) log_sum = EITP__SIMD(spread)(logf(EITP__SIMD(row_sum_exp)(x, c, top, NULL)));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(y + j, c - j, EITP__SIMD(fetch)(x + j, c - j, shift) - shift - log_sum);
    }
}

static void EITP__SIMD(log_softmax_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) sum = EITP__SIMD(spread)(EITP__SIMD(row_sum)(dy, c));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) p = EITP__SIMD(exp)(EITP__SIMD(fetch)(y + j, c - j, sum));
            EITP__SIMD(put)(dx + j, c - j, EITP__SIMD(subtract_product)(EITP__SIMD(fetch)(dy + j, c - j, sum), p, sum));
        }
    }
}

static void EITP__SIMD(layer_norm_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data, *bias = (const float *)call->inputs[2].data;
    float *means = (float *)call->outputs[1].data, *deviations = (float *)call->outputs[2].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float mean = EITP__SIMD(row_sum)(x, c) / (float)c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(mean), s0 = EITP__SIMD(zeros)(), s1 = s0, scale;
        int64_t i = 0;
        for (; c - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = EITP__SIMD(load)(x + i) - centre;
            EITP__SIMD(vector) v = EITP__SIMD(load)(x + i + EITP__SIMD_LANES) - centre;
            s0 = EITP__SIMD(multiply_add)(u, u, s0);
            s1 = EITP__SIMD(multiply_add)(v, v, s1);
        }
        for (; i < c; i += EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = EITP__SIMD(fetch)(x + i, c - i, centre) - centre;
            s0 = EITP__SIMD(multiply_add)(u, u, s0);
        }
        means[row] = mean;
        deviations[row] = 1.0f / sqrtf(EITP__SIMD(sum)(s0 + s1) / (float)c + (float)call->reals[0]);
        scale = EITP__SIMD(spread)(deviations[row]);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            u = EITP__SIMD(multiply_add)(u, EITP__SIMD(fetch)(gain + j, c - j, scale),
                                         EITP__SIMD(fetch)(bias + j, c - j, scale));
            EITP__SIMD(put)(y + j, c - j, u);
        }
    }
}

/* dx = deviation * (g - mean(g) - z * mean(g * z)) with g = gain * dy and z = (x - mean) * deviation. */
static void EITP__SIMD(layer_norm_backward_input_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                      void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[5].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(((const float *)call->inputs[3].data)[row]);
        EITP__SIMD(vector) scale = EITP__SIMD(spread)(((const float *)call->inputs[4].data)[row]);
        EITP__SIMD(vector) sum = none, product = none, mean, slope;
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) g = EITP__SIMD(fetch)(gain + j, c - j, none) * EITP__SIMD(fetch)(dy + j, c - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            sum += g;
            product = EITP__SIMD(multiply_add)(g, z, product);
        }
        mean = EITP__SIMD(spread)(EITP__SIMD(sum)(sum) / (float)c);
        slope = EITP__SIMD(spread)(EITP__SIMD(sum)(product) / (float)c);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) g = EITP__SIMD(fetch)(gain + j, c - j, none) * EITP__SIMD(fetch)(dy + j, c - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            EITP__SIMD(put)(dx + j, c - j, scale * EITP__SIMD(subtract_product)(g - mean, z, slope));
        }
    }
}

static void EITP__SIMD(layer_norm_backward_parameters_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                           void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]), rows = c ? call->inputs[0].elements / c : 0;
    const float *means = (const float *)call->inputs[3].data, *deviations = (const float *)call->inputs[4].data;
    float *dgain = (float *)call->outputs[0].data, *dbias = (float *)call->outputs[1].data;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    (void)workspace;
    for (int64_t j = begin; j < end; j++) {
        dgain[j] = carry != 0.0f ? carry * dgain[j] : 0.0f;
        dbias[j] = carry != 0.0f ? carry * dbias[j] : 0.0f;
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[5].data + row * c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(means[row]), scale = EITP__SIMD(spread)(deviations[row]);
        for (int64_t j = begin; j < end; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) d = EITP__SIMD(fetch)(dy + j, end - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, end - j, centre) - centre) * scale;
            EITP__SIMD(put)
            (dgain + j, end - j, EITP__SIMD(multiply_add)(d, z, EITP__SIMD(fetch)(dgain + j, end - j, none)));
            EITP__SIMD(put)(dbias + j, end - j, EITP__SIMD(fetch)(dbias + j, end - j, none) + d);
        }
    }
}

/* A target that is the ignored one, or no index of the row, costs nothing. */
EITP__SIMD_INLINE int EITP__SIMD(target_counts)(const eitp__call *call, int32_t target, int64_t columns) {
    return target != call->integers[0] && target >= 0 && target < columns;
}

static void EITP__SIMD(cross_entropy_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = EITP__SIMD(columns)(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    float *losses = (float *)call->outputs[0].data, *logsumexps = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float top = EITP__SIMD(row_largest)(x, v), log_sum = logf(EITP__SIMD(row_sum_exp)(x, v, top, NULL));
        logsumexps[row] = top + log_sum;
        losses[row] = 0.0f;
        if (EITP__SIMD(target_counts)(call, targets[row], v))
            losses[row] = log_sum - (x[targets[row]] - top);
    }
}

static void EITP__SIMD(cross_entropy_backward_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                   void *workspace) {
    int64_t v = EITP__SIMD(columns)(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    const float *logsumexps = (const float *)call->inputs[2].data, *dlosses = (const float *)call->inputs[3].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float *dx = (float *)call->outputs[0].data + row * v;
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(logsumexps[row]), factor = EITP__SIMD(spread)(dlosses[row]);
        float hit;
        if (!EITP__SIMD(target_counts)(call, targets[row], v)) {
            memset(dx, 0, (size_t)v * sizeof *dx);
            continue;
        }
        hit = (expf(x[targets[row]] - logsumexps[row]) - 1.0f) * dlosses[row]; /* dx may be x */
        for (int64_t j = 0; j < v; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(dx + j, v - j, factor * EITP__SIMD(exp)(EITP__SIMD(fetch)(x + j, v - j, shift) - shift));
        dx[targets[row]] = hit;
    }
}
/* <<kernels/simd/rows.inc */

/* >>kernels/simd/optimizer.inc */
/*
 * AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2). Where the step is not
 * to be applied the outputs are the inputs.
 */
static void EITP__SIMD(adamw_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *parameter = (const float *)call->inputs[0].data, *gradient = (const float *)call->inputs[1].data;
    const float *old_m = (const float *)call->inputs[2].data, *old_v = (const float *)call->inputs[3].data;
    const float *hyper = (const float *)call->inputs[4].data, *commit = (const float *)call->inputs[5].data;
    float *new_parameter = (float *)call->outputs[0].data;
    float *new_m = (float *)call->outputs[1].data, *new_v = (float *)call->outputs[2].data;
    size_t bytes = (size_t)(end - begin) * sizeof(float);
    (void)workspace;
    if (commit[1] == 0.0f) {
        memmove(new_parameter + begin, parameter + begin, bytes);
        memmove(new_m + begin, old_m + begin, bytes);
        memmove(new_v + begin, old_v + begin, bytes);
        return;
    }
    double beta1 = call->reals[0], beta2 = call->reals[1], rate = (double)hyper[0], step = (double)hyper[1];
    EITP__SIMD(vector) scale = EITP__SIMD(spread)(commit[0]);
    EITP__SIMD(vector) keep1 = EITP__SIMD(spread)((float)beta1), take1 = EITP__SIMD(spread)((float)(1.0 - beta1));
    EITP__SIMD(vector) keep2 = EITP__SIMD(spread)((float)beta2), take2 = EITP__SIMD(spread)((float)(1.0 - beta2));
    EITP__SIMD(vector) size = EITP__SIMD(spread)((float)(rate / (1.0 - pow(beta1, step))));
    EITP__SIMD(vector) correction = EITP__SIMD(spread)((float)(1.0 / sqrt(1.0 - pow(beta2, step))));
    EITP__SIMD(vector) epsilon = EITP__SIMD(spread)((float)call->reals[2]);
    EITP__SIMD(vector) decay = EITP__SIMD(spread)((float)(rate * call->reals[3])), none = EITP__SIMD(zeros)();
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) p = EITP__SIMD(fetch)(parameter + i, end - i, none);
        EITP__SIMD(vector) g = EITP__SIMD(fetch)(gradient + i, end - i, none) * scale;
        EITP__SIMD(vector) m = EITP__SIMD(fetch)(old_m + i, end - i, none);
        EITP__SIMD(vector) v = EITP__SIMD(fetch)(old_v + i, end - i, none);
        m = EITP__SIMD(multiply_add)(take1, g, keep1 * m);
        v = EITP__SIMD(multiply_add)(take2, g * g, keep2 * v);
        p = EITP__SIMD(subtract_product)(p, decay, p);
        p -= size * m / EITP__SIMD(multiply_add)(EITP__SIMD(square_root)(v), correction, epsilon);
        EITP__SIMD(put)(new_parameter + i, end - i, p);
        EITP__SIMD(put)(new_m + i, end - i, m);
        EITP__SIMD(put)(new_v + i, end - i, v);
    }
}
/* <<kernels/simd/optimizer.inc */

/* >>kernels/simd/attention.inc */
/*
 * Causal attention over packed sequences. A few queries at a time see all keys up to theirs: their scores are a matrix
 * product into the workspace, and so is everything after them. The number of queries changes no bit.
 */
#define EITP__SIMD_SCORES 32768 /* aimed at, for a block of queries */

/* What the (sequence, head) pairs of a call share, and the rows and columns of one pair. */
typedef struct EITP__SIMD(attention) {
    int64_t rows, width, heads, longest; /* width: of a head */
    int64_t block, stride;               /* queries at a time; from one row of scores to the next */
    int64_t begin, end, head;
    int64_t stop; /* of the sequence; beyond `end` where it is longer than `longest` */
    float scale;
} EITP__SIMD(attention);

static EITP__SIMD(attention) EITP__SIMD(attention_sizes)(const eitp__call *call) {
    EITP__SIMD(attention) at;
    at.rows = call->inputs[0].shape[0];
    at.heads = call->integers[0];
    at.longest = call->integers[1];
    at.width = call->inputs[0].shape[1] / 3 / at.heads;
    at.block = EITP__SIMD_SCORES / (at.longest > 0 ? at.longest : 1) / 8 * 8;
    at.block = at.block < 8 ? 8 : at.block > 64 ? 64 : at.block;
    at.stride = (at.longest + 31) / 32 * 32 + 16; /* an odd number of cache lines: rows do not share cache sets */
    at.begin = at.end = at.stop = at.head = 0;
    at.scale = (float)call->reals[0];
    return at;
}

static size_t EITP__SIMD(attention_floats)(const eitp__call *call, int buffers) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    size_t scores = (size_t)(at.block * at.stride) * (size_t)buffers;
    return scores + EITP__SIMD(matmul_panel) + EITP__SIMD(matmul_edge) + EITP__SIMD(matmul_packed_rows);
}

static size_t EITP__SIMD(attention_workspace)(const eitp__call *call) {
    return EITP__SIMD(attention_floats)(call, 1) * sizeof(float);
}

static size_t EITP__SIMD(attention_backward_workspace)(const eitp__call *call) {
    return EITP__SIMD(attention_floats)(call, 2) * sizeof(float);
}

/* The rows of pair `item`. Offsets are data: whatever they are, the rows are rows of the call and at most `longest`. */
static void EITP__SIMD(attention_select)(EITP__SIMD(attention) * at, const eitp__call *call, int64_t item) {
    const int32_t *offsets = (const int32_t *)call->inputs[1].data;
    int64_t sequence = item / at->heads;
    at->head = item % at->heads;
    at->begin = offsets[sequence] < 0 ? 0 : offsets[sequence] > at->rows ? at->rows : offsets[sequence];
    at->end = offsets[sequence + 1] < at->begin ? at->begin : offsets[sequence + 1];
    at->end = at->end > at->rows ? at->rows : at->end;
    at->stop = at->end;
    at->end = at->end - at->begin > at->longest ? at->begin + at->longest : at->end;
}

/*
 * Zeros `width` columns at p of the rows that see nothing: those cut off at `longest`, and those in no sequence, of which a
 * head's first pair has the ones before, its last the ones after.
 */
static void EITP__SIMD(attention_clear_rest)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t item,
                                             float *p, int64_t stride, int64_t width) {
    int64_t sequence = item / at->heads, last = call->inputs[1].elements - 2;
    if (sequence == 0)
        for (int64_t i = 0; i < at->begin; i++)
            memset(p + i * stride, 0, (size_t)width * sizeof *p);
    for (int64_t i = at->end, stop = sequence == last ? at->rows : at->stop; i < stop; i++)
        memset(p + i * stride, 0, (size_t)width * sizeof *p);
}

static void EITP__SIMD(clear)(float *p, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        memset(p + i * stride, 0, (size_t)columns * sizeof *p);
}

/* y [m, n] += a b, rows lda, ldb and ldy apart; with transpose_a, a is stored [k, m], with transpose_b, b is [n, k]. */
static void EITP__SIMD(add_product)(const float *a, int64_t lda, int transpose_a, const float *b, int64_t ldb,
                                    int transpose_b, float *y, int64_t ldy, int64_t m, int64_t n, int64_t k,
                                    float *workspace) {
    eitp__matmul sizes;
    sizes.batch = 1;
    sizes.m = m;
    sizes.n = ldy; /* all that a tile wants of it */
    sizes.k = k;
    sizes.transpose_a = transpose_a;
    sizes.transpose_b = transpose_b;
    sizes.lda = lda;
    sizes.ldb = ldb;
    for (int64_t i = 0, most = EITP__SIMD(matmul_tile_rows); i < m; i += most) {
        int64_t rows = m - i < most ? m - i : most;
        EITP__SIMD(matmul_tile)(&sizes, a + (transpose_a ? i : i * lda), b, y + i * ldy, rows, n, workspace);
    }
}

/* Multiplies the values of query `row` of the call by 0 or by 1 / (1 - p): one for each key of its sequence. */
static void EITP__SIMD(attention_keep)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t row,
                                       int64_t count, float *values) {
    const int64_t *key = (const int64_t *)call->inputs[2].data;
    float probability = (float)call->reals[1], kept = (float)(1.0 / (1.0 - call->reals[1]));
    uint64_t first = ((uint64_t)(key[2] + row) * (uint64_t)at->heads + (uint64_t)at->head) * (uint64_t)at->longest;
    for (int64_t j = 0; j < count; j++) {
        float u =
            eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[2], first + (uint64_t)j);
        values[j] *= u < probability ? 0.0f : kept;
    }
}

static int EITP__SIMD(attention_drops)(const eitp__call *call) {
    return call->input_count > 2 && call->inputs[2].data && call->reals[1] > 0.0;
}

/* The rows of `scores` become probabilities, with zeros for the keys after a query. */
static void EITP__SIMD(attention_probabilities)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t first,
                                                int64_t rows, float *scores) {
    float *logsumexps = (float *)call->outputs[1].data;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    for (int64_t i = 0; i < rows; i++) {
        float *row = scores + i * at->stride;
        int64_t count = first - at->begin + i + 1, keys = first - at->begin + rows;
        EITP__SIMD(vector) factor = EITP__SIMD(spread)(at->scale);
        float top, sum;
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(row + j, count - j, factor * EITP__SIMD(fetch)(row + j, count - j, none));
        top = EITP__SIMD(row_largest)(row, count);
        sum = EITP__SIMD(row_sum_exp)(row, count, top, row);
        logsumexps[(first + i) * at->heads + at->head] = top + logf(sum);
        factor = EITP__SIMD(spread)(1.0f / sum);
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(row + j, count - j, factor * EITP__SIMD(fetch)(row + j, count - j, none));
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, first + i, count, row);
        memset(row + count, 0, (size_t)(keys - count) * sizeof *row);
    }
}

static void EITP__SIMD(attention_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    int64_t d = at.width, c = d * at.heads;
    float *scores = (float *)workspace, *rest = scores + at.block * at.stride;
    for (int64_t item = begin; item < end; item++) {
        EITP__SIMD(attention_select)(&at, call, item);
        const float *q = (const float *)call->inputs[0].data + at.head * d, *k = q + c, *v = k + c;
        float *o = (float *)call->outputs[0].data + at.head * d;
        EITP__SIMD(attention_clear_rest)(&at, call, item, o, c, d);
        EITP__SIMD(attention_clear_rest)(&at, call, item, (float *)call->outputs[1].data + at.head, at.heads, 1);
        for (int64_t i = at.begin; i < at.end; i += at.block) {
            int64_t rows = at.end - i < at.block ? at.end - i : at.block, keys = i - at.begin + rows;
            EITP__SIMD(clear)(scores, at.stride, rows, keys);
            EITP__SIMD(add_product)
            (q + i * 3 * c, 3 * c, 0, k + at.begin * 3 * c, 3 * c, 1, scores, at.stride, rows, keys, d, rest);
            EITP__SIMD(attention_probabilities)(&at, call, i, rows, scores);
            EITP__SIMD(clear)(o + i * c, c, rows, d);
            EITP__SIMD(add_product)
            (scores, at.stride, 0, v + at.begin * 3 * c, 3 * c, 0, o + i * c, c, rows, d, keys, rest);
        }
    }
}

/*
 * For one block of queries: `scores` become the probabilities that the output was made with, and `slopes`, given as
 * do v^T, become the derivatives by the scores before they were scaled.
 */
static void EITP__SIMD(attention_slopes)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t first,
                                         int64_t rows, float *scores, float *slopes) {
    int64_t d = at->width, c = d * at->heads;
    const float *o = (const float *)call->inputs[3].data + at->head * d;
    const float *logsumexps = (const float *)call->inputs[4].data,
                *gradient = (const float *)call->inputs[5].data + at->head * d;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)(), scale = EITP__SIMD(spread)(at->scale);
    for (int64_t i = 0; i < rows; i++) {
        float *p = scores + i * at->stride, *ds = slopes + i * at->stride;
        int64_t row = first + i, count = row - at->begin + 1, keys = first - at->begin + rows;
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(logsumexps[row * at->heads + at->head]);
        EITP__SIMD(vector) mean = EITP__SIMD(spread)(EITP__SIMD(row_dot)(o + row * c, gradient + row * c, d));
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, row, count, ds);
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) e = EITP__SIMD(exp)(EITP__SIMD(fetch)(p + j, count - j, none) * scale - shift);
            EITP__SIMD(vector) s = EITP__SIMD(fetch)(ds + j, count - j, none);
            EITP__SIMD(put)(p + j, count - j, e);
            EITP__SIMD(put)(ds + j, count - j, e * (s - mean) * scale);
        }
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, row, count, p);
        memset(p + count, 0, (size_t)(keys - count) * sizeof *p);
        memset(ds + count, 0, (size_t)(keys - count) * sizeof *ds);
    }
}

static void EITP__SIMD(attention_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    int64_t d = at.width, c = d * at.heads, wide = 3 * c;
    float *scores = (float *)workspace, *slopes = scores + at.block * at.stride, *rest = slopes + at.block * at.stride;
    for (int64_t item = begin; item < end; item++) {
        EITP__SIMD(attention_select)(&at, call, item);
        const float *q = (const float *)call->inputs[0].data + at.head * d,
                    *gradient = (const float *)call->inputs[5].data;
        float *dq = (float *)call->outputs[0].data + at.head * d;
        for (int part = 0; part < 3; part++) {
            EITP__SIMD(attention_clear_rest)(&at, call, item, dq + part * c, wide, d);
            EITP__SIMD(clear)(dq + part * c + at.begin * wide, wide, at.end - at.begin, d);
        }
        const float *k = q + c + at.begin * wide, *v = k + c;
        float *dk = dq + c + at.begin * wide, *dv = dk + c;
        gradient += at.head * d;
        for (int64_t i = at.begin; i < at.end; i += at.block) {
            int64_t rows = at.end - i < at.block ? at.end - i : at.block, keys = i - at.begin + rows;
            const float *qi = q + i * wide, *gi = gradient + i * c;
            EITP__SIMD(clear)(scores, at.stride, rows, keys);
            EITP__SIMD(clear)(slopes, at.stride, rows, keys);
            EITP__SIMD(add_product)(qi, wide, 0, k, wide, 1, scores, at.stride, rows, keys, d, rest);
            EITP__SIMD(add_product)(gi, c, 0, v, wide, 1, slopes, at.stride, rows, keys, d, rest);
            EITP__SIMD(attention_slopes)(&at, call, i, rows, scores, slopes);
            EITP__SIMD(add_product)(scores, at.stride, 1, gi, c, 0, dv, wide, keys, d, rows, rest);
            EITP__SIMD(add_product)(slopes, at.stride, 1, qi, wide, 0, dk, wide, keys, d, rows, rest);
            EITP__SIMD(add_product)(slopes, at.stride, 0, k, wide, 0, dq + i * wide, wide, rows, d, keys, rest);
        }
    }
}

#undef EITP__SIMD_SCORES
/* <<kernels/simd/attention.inc */

/* >>kernels/simd/register.inc */
/* Writes this set's kernels into the table, and ends the definitions that the templates were given. */
static void EITP__SIMD(set)(eitp__kernel_table *table, eitp__slot slot, eitp__kernel_function run,
                            size_t (*workspace)(const eitp__call *call)) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = run;
    kernel.workspace = workspace;
    kernel.set = EITP__SIMD_SET;
    table->kernels[slot][EITP_F32] = kernel;
}

static void EITP__SIMD(register)(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = EITP__SIMD(matmul_kernel)(EITP__SIMD_SET);
    EITP__SIMD(set)(table, EITP__SLOT_ATTENTION, EITP__SIMD(attention_run), EITP__SIMD(attention_workspace));
    EITP__SIMD(set)
    (table, EITP__SLOT_ATTENTION_BACKWARD, EITP__SIMD(attention_backward_run),
     EITP__SIMD(attention_backward_workspace));
    EITP__SIMD(set)(table, EITP__SLOT_EXP, EITP__SIMD(exp_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_TANH, EITP__SIMD(tanh_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SIGMOID, EITP__SIMD(sigmoid_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ADD, EITP__SIMD(add_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUBTRACT, EITP__SIMD(subtract_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_MULTIPLY, EITP__SIMD(multiply_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_DIVIDE, EITP__SIMD(divide_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_GELU_TANH, EITP__SIMD(gelu_tanh_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_GELU_TANH_BACKWARD, EITP__SIMD(gelu_tanh_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUM, EITP__SIMD(sum_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUM_SQUARES, EITP__SIMD(sum_squares_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ACCUMULATE, EITP__SIMD(accumulate_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SOFTMAX, EITP__SIMD(softmax_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SOFTMAX_BACKWARD, EITP__SIMD(softmax_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LOG_SOFTMAX, EITP__SIMD(log_softmax_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LOG_SOFTMAX_BACKWARD, EITP__SIMD(log_softmax_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LAYER_NORM, EITP__SIMD(layer_norm_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, EITP__SIMD(layer_norm_backward_input_run), NULL);
    EITP__SIMD(set)
    (table, EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS, EITP__SIMD(layer_norm_backward_parameters_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_CROSS_ENTROPY, EITP__SIMD(cross_entropy_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_CROSS_ENTROPY_BACKWARD, EITP__SIMD(cross_entropy_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ADAMW, EITP__SIMD(adamw_run), NULL);
}

#undef EITP__SIMD
#undef EITP__SIMD_INLINE
#undef EITP__SIMD_LANES
#undef EITP__SIMD_SET
/* <<kernels/simd/register.inc */

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

EITP__PRIVATE void eitp__register_avx2_kernels(eitp__kernel_table *table) {
    eitp__avx2_register(table);
}

#else

EITP__PRIVATE void eitp__register_avx2_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
/* <<kernels/avx2/avx2.c */

/* >>kernels/avx512/avx512.c */
/* The f32 kernels for processors with AVX-512 (F, BW, DQ and VL). */

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),                   \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

/*
 * The vector that the templates of kernels/simd/ are written on. Sums, differences, products and quotients are the
 * compiler's own operators; masked loads and stores touch only the elements they name.
 */
#define EITP__SIMD(name) eitp__avx512_##name
#define EITP__SIMD_INLINE static inline __attribute__((always_inline, unused))
#define EITP__SIMD_LANES 16
#define EITP__SIMD_SET "avx512"

typedef __m512 EITP__SIMD(vector);

EITP__SIMD_INLINE __mmask16 eitp__avx512_mask(int64_t count) {
    return (__mmask16)((1u << count) - 1u);
}

EITP__SIMD_INLINE __m512 eitp__avx512_load(const float *p) {
    return _mm512_loadu_ps(p);
}

EITP__SIMD_INLINE void eitp__avx512_store(float *p, __m512 v) {
    _mm512_storeu_ps(p, v);
}

/* The first `count` elements at p, 0 < count < lanes; `rest` in the other lanes. */
EITP__SIMD_INLINE __m512 eitp__avx512_load_first(const float *p, int64_t count, __m512 rest) {
    return _mm512_mask_loadu_ps(rest, eitp__avx512_mask(count), p);
}

EITP__SIMD_INLINE void eitp__avx512_store_first(float *p, int64_t count, __m512 v) {
    _mm512_mask_storeu_ps(p, eitp__avx512_mask(count), v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_spread(float x) {
    return _mm512_set1_ps(x);
}

/* a * b + c, and c - a * b, rounded once. */
EITP__SIMD_INLINE __m512 eitp__avx512_multiply_add(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}

EITP__SIMD_INLINE __m512 eitp__avx512_subtract_product(__m512 c, __m512 a, __m512 b) {
    return _mm512_fnmadd_ps(a, b, c);
}

/* The larger and the smaller; v where it is not a number. With a mask of all lanes: what the
   plain intrinsics start from makes gcc warn of an uninitialised variable. */
EITP__SIMD_INLINE __m512 eitp__avx512_at_least(__m512 low, __m512 v) {
    return _mm512_maskz_max_ps(0xffff, low, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_at_most(__m512 high, __m512 v) {
    return _mm512_maskz_min_ps(0xffff, high, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_square_root(__m512 v) {
    return _mm512_maskz_sqrt_ps(0xffff, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_magnitude(__m512 v) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

/* The magnitude of v, the sign of s. */
EITP__SIMD_INLINE __m512 eitp__avx512_with_sign(__m512 v, __m512 s) {
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff), from = _mm512_castps_si512(v), sign = _mm512_castps_si512(s);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(magnitude, from, sign, 0xca));
}

/* In each lane: a < b ? yes : no. */
EITP__SIMD_INLINE __m512 eitp__avx512_choose_less(__m512 a, __m512 b, __m512 yes, __m512 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

/* To the nearest integer, for |v| < 2^31. */
EITP__SIMD_INLINE __m512 eitp__avx512_round(__m512 v) {
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtps_epi32(0xffff, v));
}

/* v * 2^n for an integral n; the result may be subnormal or infinite. */
EITP__SIMD_INLINE __m512 eitp__avx512_scale(__m512 v, __m512 n) {
    return _mm512_maskz_scalef_ps(0xffff, v, n);
}

/* Over the lanes of one vector: the sum, in a fixed order, and the largest. */
EITP__SIMD_INLINE __m256 eitp__avx512_low(__m512 v) {
    return _mm512_maskz_extractf32x8_ps(0xff, v, 0);
}

EITP__SIMD_INLINE __m256 eitp__avx512_high(__m512 v) {
    return _mm512_maskz_extractf32x8_ps(0xff, v, 1);
}

EITP__SIMD_INLINE float eitp__avx512_sum(__m512 v) {
    __m256 half = _mm256_add_ps(eitp__avx512_low(v), eitp__avx512_high(v));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

EITP__SIMD_INLINE float eitp__avx512_largest(__m512 v) {
    __m256 half = _mm256_max_ps(eitp__avx512_low(v), eitp__avx512_high(v));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* sums[0] and sums[1] += the squares, in double, of the lower and of the upper half of v. */
typedef __m512d eitp__avx512_doubles;

EITP__SIMD_INLINE void eitp__avx512_add_squares(__m512 v, __m512d sums[2]) {
    __m512d low = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_low(v));
    __m512d high = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_high(v));
    sums[0] = _mm512_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm512_fmadd_pd(high, high, sums[1]);
}

EITP__SIMD_INLINE __m512d eitp__avx512_no_doubles(void) {
    return _mm512_setzero_pd();
}

EITP__SIMD_INLINE double eitp__avx512_sum_doubles(__m512d v) {
    __m256d half = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xf, v, 0), _mm512_maskz_extractf64x4_pd(0xf, v, 1));
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Turns 8 x 8 elements. */
EITP__SIMD_INLINE void eitp__avx512_turn(const float *from, int64_t stride, float *to, int64_t to_stride) {
    __m256 r0 = _mm256_loadu_ps(from), r1 = _mm256_loadu_ps(from + stride);
    __m256 r2 = _mm256_loadu_ps(from + 2 * stride), r3 = _mm256_loadu_ps(from + 3 * stride);
    __m256 r4 = _mm256_loadu_ps(from + 4 * stride), r5 = _mm256_loadu_ps(from + 5 * stride);
    __m256 r6 = _mm256_loadu_ps(from + 6 * stride), r7 = _mm256_loadu_ps(from + 7 * stride);
    __m256 s0 = _mm256_unpacklo_ps(r0, r1), s1 = _mm256_unpackhi_ps(r0, r1);
    __m256 s2 = _mm256_unpacklo_ps(r2, r3), s3 = _mm256_unpackhi_ps(r2, r3);
    __m256 s4 = _mm256_unpacklo_ps(r4, r5), s5 = _mm256_unpackhi_ps(r4, r5);
    __m256 s6 = _mm256_unpacklo_ps(r6, r7), s7 = _mm256_unpackhi_ps(r6, r7);
    r0 = _mm256_shuffle_ps(s0, s2, 0x44);
    r1 = _mm256_shuffle_ps(s0, s2, 0xee);
    r2 = _mm256_shuffle_ps(s1, s3, 0x44);
    r3 = _mm256_shuffle_ps(s1, s3, 0xee);
    r4 = _mm256_shuffle_ps(s4, s6, 0x44);
    r5 = _mm256_shuffle_ps(s4, s6, 0xee);
    r6 = _mm256_shuffle_ps(s5, s7, 0x44);
    r7 = _mm256_shuffle_ps(s5, s7, 0xee);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(r0, r4, 0x20));
    _mm256_storeu_ps(to + to_stride, _mm256_permute2f128_ps(r1, r5, 0x20));
    _mm256_storeu_ps(to + 2 * to_stride, _mm256_permute2f128_ps(r2, r6, 0x20));
    _mm256_storeu_ps(to + 3 * to_stride, _mm256_permute2f128_ps(r3, r7, 0x20));
    _mm256_storeu_ps(to + 4 * to_stride, _mm256_permute2f128_ps(r0, r4, 0x31));
    _mm256_storeu_ps(to + 5 * to_stride, _mm256_permute2f128_ps(r1, r5, 0x31));
    _mm256_storeu_ps(to + 6 * to_stride, _mm256_permute2f128_ps(r2, r6, 0x31));
    _mm256_storeu_ps(to + 7 * to_stride, _mm256_permute2f128_ps(r3, r7, 0x31));
}

#define EITP__MATMUL(name) eitp__avx512_matmul_##name
#define EITP__MATMUL_TYPE float
#define EITP__MATMUL_VECTOR __m512
#define EITP__MATMUL_LANES 16
#define EITP__MATMUL_LOAD(p) _mm512_loadu_ps(p)
#define EITP__MATMUL_STORE(p, v) _mm512_storeu_ps(p, v)
#define EITP__MATMUL_SPREAD(x) _mm512_set1_ps(x)
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) _mm512_fmadd_ps(a, b, c)
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EITP__MATMUL_ROW_COUNT 8
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 128
#define EITP__MATMUL_TILE_COLUMNS 96
#define EITP__MATMUL_TURN_SIZE 8
#define EITP__MATMUL_TURN eitp__avx512_turn

/* >>kernels/matmul.inc */
/*
 * The matrix product, for one element type on one instruction set.
 *
 * The including file defines
 *   EITP__MATMUL(name)               the name of a function of this instance
 *   EITP__MATMUL_TYPE                the element type
 *   EITP__MATMUL_VECTOR, _LANES      a vector of elements and how many it has
 *   EITP__MATMUL_LOAD(p), _STORE(p, v), _SPREAD(x), _ADD_PRODUCT(c, a, b)   on vectors; the last is c + a * b
 *   EITP__MATMUL_ROWS(X)             X(0) X(1) ... for the rows that a block of y in registers has
 *   EITP__MATMUL_ROW_COUNT           how many these are
 *   EITP__MATMUL_DEPTH               how far along k a block goes
 *   EITP__MATMUL_TILE_ROWS, _TILE_COLUMNS   the size of an item
 *   EITP__MATMUL_TURN(from, stride, to, to_stride)   optional: turns a block of EITP__MATMUL_TURN_SIZE squared elements
 *
 * and finds them undefined again afterwards.
 *
 * A block of y, ROW_COUNT x 3 vectors, stays in registers while k runs. Each element is one chain of additions in the
 * order of k that starts from what y holds, so no blocking, no tile and no cut of k into accumulated products changes a
 * bit. b is copied into panels as wide as a block; a is read in place, or copied where it is transposed.
 */
#define EITP__MATMUL_WIDTH (3 * EITP__MATMUL_LANES)

enum {
    EITP__MATMUL(tile_rows) = EITP__MATMUL_TILE_ROWS,
    EITP__MATMUL(panel) = EITP__MATMUL_DEPTH * EITP__MATMUL_WIDTH,    /* elements of a panel of b */
    EITP__MATMUL(edge) = EITP__MATMUL_ROW_COUNT * EITP__MATMUL_WIDTH, /* of a block of y */
    EITP__MATMUL(packed_rows) = (EITP__MATMUL_TILE_ROWS + EITP__MATMUL_ROW_COUNT - 1) / EITP__MATMUL_ROW_COUNT *
                                EITP__MATMUL_ROW_COUNT * EITP__MATMUL_DEPTH /* of a tile of a */
};

static size_t EITP__MATMUL(workspace)(const eitp__call *call) {
    size_t elements = EITP__MATMUL(panel) + EITP__MATMUL(edge);
    if (call->integers[0])
        elements += EITP__MATMUL(packed_rows);
    return elements * sizeof(EITP__MATMUL_TYPE);
}

/* y += a * b for one block of y and `depth` steps of k. */
static void EITP__MATMUL(block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride, int64_t depth_stride,
                                const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y, int64_t y_stride) {
#define EITP__MATMUL_BEGIN(i)                                                                                          \
    EITP__MATMUL_VECTOR y##i##0 = EITP__MATMUL_LOAD(y + i * y_stride);                                                 \
    EITP__MATMUL_VECTOR y##i##1 = EITP__MATMUL_LOAD(y + i * y_stride + EITP__MATMUL_LANES);                            \
    EITP__MATMUL_VECTOR y##i##2 = EITP__MATMUL_LOAD(y + i * y_stride + 2 * EITP__MATMUL_LANES);
#define EITP__MATMUL_STEP(i)                                                                                           \
    {                                                                                                                  \
        EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride]);                                               \
        y##i##0 = EITP__MATMUL_ADD_PRODUCT(y##i##0, a0, b0);                                                           \
        y##i##1 = EITP__MATMUL_ADD_PRODUCT(y##i##1, a0, b1);                                                           \
        y##i##2 = EITP__MATMUL_ADD_PRODUCT(y##i##2, a0, b2);                                                           \
    }
#define EITP__MATMUL_END(i)                                                                                            \
    EITP__MATMUL_STORE(y + i * y_stride, y##i##0);                                                                     \
    EITP__MATMUL_STORE(y + i * y_stride + EITP__MATMUL_LANES, y##i##1);                                                \
    EITP__MATMUL_STORE(y + i * y_stride + 2 * EITP__MATMUL_LANES, y##i##2);

    EITP__MATMUL_ROWS(EITP__MATMUL_BEGIN)
    for (int64_t p = 0; p < depth; p++) {
        EITP__MATMUL_VECTOR b0 = EITP__MATMUL_LOAD(b);
        EITP__MATMUL_VECTOR b1 = EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES);
        EITP__MATMUL_VECTOR b2 = EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES);
        EITP__MATMUL_ROWS(EITP__MATMUL_STEP)
        a += depth_stride;
        b += EITP__MATMUL_WIDTH;
    }
    EITP__MATMUL_ROWS(EITP__MATMUL_END)

#undef EITP__MATMUL_BEGIN
#undef EITP__MATMUL_STEP
#undef EITP__MATMUL_END
}

/* The same for a block of which only `rows` x `columns` are y's. Rows of a beyond these are not read. */
static void EITP__MATMUL(edge_block)(int64_t depth, const EITP__MATMUL_TYPE *a, int64_t row_stride,
                                     int64_t depth_stride, const EITP__MATMUL_TYPE *b, EITP__MATMUL_TYPE *y,
                                     int64_t y_stride, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *edge) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            edge[i * EITP__MATMUL_WIDTH + j] = j < columns ? y[i * y_stride + j] : 0;
    if (rows == EITP__MATMUL_ROW_COUNT) {
        EITP__MATMUL(block)(depth, a, row_stride, depth_stride, b, edge, EITP__MATMUL_WIDTH);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            EITP__MATMUL_TYPE *row = edge + i * EITP__MATMUL_WIDTH;
            EITP__MATMUL_VECTOR y0 = EITP__MATMUL_LOAD(row);
            EITP__MATMUL_VECTOR y1 = EITP__MATMUL_LOAD(row + EITP__MATMUL_LANES);
            EITP__MATMUL_VECTOR y2 = EITP__MATMUL_LOAD(row + 2 * EITP__MATMUL_LANES);
            for (int64_t p = 0; p < depth; p++) {
                EITP__MATMUL_VECTOR a0 = EITP__MATMUL_SPREAD(a[i * row_stride + p * depth_stride]);
                const EITP__MATMUL_TYPE *from = b + p * EITP__MATMUL_WIDTH;
                y0 = EITP__MATMUL_ADD_PRODUCT(y0, a0, EITP__MATMUL_LOAD(from));
                y1 = EITP__MATMUL_ADD_PRODUCT(y1, a0, EITP__MATMUL_LOAD(from + EITP__MATMUL_LANES));
                y2 = EITP__MATMUL_ADD_PRODUCT(y2, a0, EITP__MATMUL_LOAD(from + 2 * EITP__MATMUL_LANES));
            }
            EITP__MATMUL_STORE(row, y0);
            EITP__MATMUL_STORE(row + EITP__MATMUL_LANES, y1);
            EITP__MATMUL_STORE(row + 2 * EITP__MATMUL_LANES, y2);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * y_stride + j] = edge[i * EITP__MATMUL_WIDTH + j];
}

/* A panel from b [depth, columns] as it is stored; columns it lacks become zeros. */
static void EITP__MATMUL(pack_rows)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                    EITP__MATMUL_TYPE *panel) {
    if (columns == EITP__MATMUL_WIDTH) {
        for (int64_t p = 0; p < depth; p++, b += stride, panel += EITP__MATMUL_WIDTH) {
            __builtin_prefetch(b + (p + 8 < depth ? 8 * stride : 0));
            EITP__MATMUL_STORE(panel, EITP__MATMUL_LOAD(b));
            EITP__MATMUL_STORE(panel + EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + EITP__MATMUL_LANES));
            EITP__MATMUL_STORE(panel + 2 * EITP__MATMUL_LANES, EITP__MATMUL_LOAD(b + 2 * EITP__MATMUL_LANES));
        }
        return;
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t j = 0; j < EITP__MATMUL_WIDTH; j++)
            panel[p * EITP__MATMUL_WIDTH + j] = j < columns ? b[p * stride + j] : 0;
}

/* A panel from b that is stored as [columns, depth]. */
static void EITP__MATMUL(pack_turned)(const EITP__MATMUL_TYPE *b, int64_t stride, int64_t depth, int64_t columns,
                                      EITP__MATMUL_TYPE *panel) {
    int64_t done_columns = 0, done_depth = 0;
#ifdef EITP__MATMUL_TURN
    done_columns = columns / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    done_depth = depth / EITP__MATMUL_TURN_SIZE * EITP__MATMUL_TURN_SIZE;
    for (int64_t j = 0; j < done_columns; j += EITP__MATMUL_TURN_SIZE)
        for (int64_t p = 0; p < done_depth; p += EITP__MATMUL_TURN_SIZE)
            EITP__MATMUL_TURN(b + j * stride + p, stride, panel + p * EITP__MATMUL_WIDTH + j, EITP__MATMUL_WIDTH);
#endif
    for (int64_t j = 0; j < columns; j++)
        for (int64_t p = j < done_columns ? done_depth : 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = b[j * stride + p];
    for (int64_t j = columns; j < EITP__MATMUL_WIDTH; j++)
        for (int64_t p = 0; p < depth; p++)
            panel[p * EITP__MATMUL_WIDTH + j] = 0;
}

/* Blocks of rows, each with k outermost, from a that is stored as [depth, rows]; rows it lacks become zeros. */
static void EITP__MATMUL(pack_a)(const EITP__MATMUL_TYPE *a, int64_t stride, int64_t depth, int64_t rows,
                                 EITP__MATMUL_TYPE *packed) {
    /* A few steps of k at a time: rows of a that are a power of two apart share cache sets. */
    for (int64_t p = 0; p < depth; p += 8) {
        int64_t steps = depth - p < 8 ? depth - p : 8;
        for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
            EITP__MATMUL_TYPE *to = packed + i * depth + p * EITP__MATMUL_ROW_COUNT;
            const EITP__MATMUL_TYPE *from = a + p * stride + i;
            if (rows - i >= EITP__MATMUL_ROW_COUNT) {
                for (int64_t s = 0; s < steps; s++)
                    memcpy(to + s * EITP__MATMUL_ROW_COUNT, from + s * stride,
                           EITP__MATMUL_ROW_COUNT * sizeof(EITP__MATMUL_TYPE));
            } else {
                for (int64_t s = 0; s < steps; s++)
                    for (int64_t r = 0; r < EITP__MATMUL_ROW_COUNT; r++)
                        to[s * EITP__MATMUL_ROW_COUNT + r] = r < rows - i ? from[s * stride + r] : 0;
            }
        }
    }
}

/* What a tile of y starts from: carry * y + bias, where y is not read while carry is 0. */
static void EITP__MATMUL(start)(const eitp__call *call, const EITP__MATMUL_TYPE *bias, EITP__MATMUL_TYPE *y,
                                int64_t stride, int64_t rows, int64_t columns) {
    EITP__MATMUL_TYPE carry = !call->accumulates ? 0 : call->carry ? (EITP__MATMUL_TYPE)call->carry[0] : 1;
    for (int64_t i = 0; i < rows; i++, y += stride) {
        if (carry != 0) {
            if (carry != 1)
                for (int64_t j = 0; j < columns; j++)
                    y[j] *= carry;
            if (bias)
                for (int64_t j = 0; j < columns; j++)
                    y[j] += bias[j];
        } else if (bias) {
            memcpy(y, bias, (size_t)columns * sizeof *y);
        } else {
            memset(y, 0, (size_t)columns * sizeof *y);
        }
    }
}

static void EITP__MATMUL(tile)(const eitp__matmul *sizes, const EITP__MATMUL_TYPE *a, const EITP__MATMUL_TYPE *b,
                               EITP__MATMUL_TYPE *y, int64_t rows, int64_t columns, EITP__MATMUL_TYPE *workspace) {
    EITP__MATMUL_TYPE *panel = workspace, *edge = panel + EITP__MATMUL(panel), *packed = edge + EITP__MATMUL(edge);
    for (int64_t p = 0; p < sizes->k; p += EITP__MATMUL_DEPTH) {
        int64_t depth = sizes->k - p < EITP__MATMUL_DEPTH ? sizes->k - p : EITP__MATMUL_DEPTH;
        if (sizes->transpose_a)
            EITP__MATMUL(pack_a)(a + p * sizes->lda, sizes->lda, depth, rows, packed);
        for (int64_t j = 0; j < columns; j += EITP__MATMUL_WIDTH) {
            int64_t width = columns - j < EITP__MATMUL_WIDTH ? columns - j : EITP__MATMUL_WIDTH;
            if (sizes->transpose_b)
                EITP__MATMUL(pack_turned)(b + j * sizes->ldb + p, sizes->ldb, depth, width, panel);
            else
                EITP__MATMUL(pack_rows)(b + p * sizes->ldb + j, sizes->ldb, depth, width, panel);
            for (int64_t i = 0; i < rows; i += EITP__MATMUL_ROW_COUNT) {
                int64_t height = rows - i < EITP__MATMUL_ROW_COUNT ? rows - i : EITP__MATMUL_ROW_COUNT;
                int64_t row_stride = sizes->transpose_a ? 1 : sizes->lda;
                int64_t depth_stride = sizes->transpose_a ? EITP__MATMUL_ROW_COUNT : 1;
                const EITP__MATMUL_TYPE *from = sizes->transpose_a ? packed + i * depth : a + i * sizes->lda + p;
                EITP__MATMUL_TYPE *to = y + i * sizes->n + j;
                if (height == EITP__MATMUL_ROW_COUNT && width == EITP__MATMUL_WIDTH)
                    EITP__MATMUL(block)(depth, from, row_stride, depth_stride, panel, to, sizes->n);
                else
                    EITP__MATMUL(edge_block)
                (depth, from, row_stride, depth_stride, panel, to, sizes->n, height, width, edge);
            }
        }
    }
}

static void EITP__MATMUL(run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const EITP__MATMUL_TYPE *a = (const EITP__MATMUL_TYPE *)call->inputs[0].data;
    const EITP__MATMUL_TYPE *b = (const EITP__MATMUL_TYPE *)call->inputs[1].data;
    const EITP__MATMUL_TYPE *bias = call->input_count > 2 ? (const EITP__MATMUL_TYPE *)call->inputs[2].data : NULL;
    EITP__MATMUL_TYPE *y = (EITP__MATMUL_TYPE *)call->outputs[0].data;
    int64_t tiles_across = (sizes.n + EITP__MATMUL_TILE_COLUMNS - 1) / EITP__MATMUL_TILE_COLUMNS;
    int64_t tiles_down = (sizes.m + EITP__MATMUL_TILE_ROWS - 1) / EITP__MATMUL_TILE_ROWS;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (tiles_down * tiles_across);
        int64_t i = item / tiles_across % tiles_down * EITP__MATMUL_TILE_ROWS;
        int64_t j = item % tiles_across * EITP__MATMUL_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__MATMUL_TILE_ROWS ? sizes.m - i : EITP__MATMUL_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__MATMUL_TILE_COLUMNS ? sizes.n - j : EITP__MATMUL_TILE_COLUMNS;
        EITP__MATMUL_TYPE *to = y + (batch * sizes.m + i) * sizes.n + j;
        EITP__MATMUL(start)(call, bias ? bias + j : NULL, to, sizes.n, rows, columns);
        EITP__MATMUL(tile)
        (&sizes, a + eitp__matmul_offset(call, 0, batch) + (sizes.transpose_a ? i : i * sizes.lda),
         b + eitp__matmul_offset(call, 1, batch) + (sizes.transpose_b ? j * sizes.ldb : j), to, rows, columns,
         (EITP__MATMUL_TYPE *)workspace);
    }
}

static eitp__kernel EITP__MATMUL(kernel)(const char *set) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = EITP__MATMUL(run);
    kernel.workspace = EITP__MATMUL(workspace);
    kernel.tile_rows = EITP__MATMUL_TILE_ROWS;
    kernel.tile_columns = EITP__MATMUL_TILE_COLUMNS;
    kernel.set = set;
    return kernel;
}

#undef EITP__MATMUL_WIDTH
#undef EITP__MATMUL
#undef EITP__MATMUL_TYPE
#undef EITP__MATMUL_VECTOR
#undef EITP__MATMUL_LANES
#undef EITP__MATMUL_LOAD
#undef EITP__MATMUL_STORE
#undef EITP__MATMUL_SPREAD
#undef EITP__MATMUL_ADD_PRODUCT
#undef EITP__MATMUL_ROWS
#undef EITP__MATMUL_ROW_COUNT
#undef EITP__MATMUL_DEPTH
#undef EITP__MATMUL_TILE_ROWS
#undef EITP__MATMUL_TILE_COLUMNS
#undef EITP__MATMUL_TURN
#undef EITP__MATMUL_TURN_SIZE
/* <<kernels/matmul.inc */


/* >>kernels/simd/math.inc */
/*
 * Elementary functions of a vector. Polynomials are interpolations at Chebyshev nodes; the bounds are measured against
 * the functions in double, in units of the last place of the result.
 */

/* `count` elements at p, any number of them: a whole vector, or the first few and `rest`. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(fetch)(const float *p, int64_t count, EITP__SIMD(vector) rest) {
    return count >= EITP__SIMD_LANES ? EITP__SIMD(load)(p) : EITP__SIMD(load_first)(p, count, rest);
}

EITP__SIMD_INLINE void EITP__SIMD(put)(float *p, int64_t count, EITP__SIMD(vector) v) {
    if (count >= EITP__SIMD_LANES)
        EITP__SIMD(store)(p, v);
    else
        EITP__SIMD(store_first)(p, count, v);
}

EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(zeros)(void) {
    return EITP__SIMD(spread)(0.0f);
}

/* e^x within 1 unit (1.5 where the result is subnormal): 2^n e^r with |r| <= log(2) / 2. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(exp)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) n, r, p;
    x = EITP__SIMD(at_most)(EITP__SIMD(spread)(90.0f), EITP__SIMD(at_least)(EITP__SIMD(spread)(-105.0f), x));
    n = EITP__SIMD(round)(x * EITP__SIMD(spread)(1.44269502f));
    r = EITP__SIMD(subtract_product)(x, n, EITP__SIMD(spread)(0.693145752f)); /* log(2), in two parts */
    r = EITP__SIMD(subtract_product)(r, n, EITP__SIMD(spread)(1.42860677e-6f));
    p = EITP__SIMD(spread)(0.00139262504f);
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.00836323295f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.0416665524f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.166665763f));
    p = EITP__SIMD(multiply_add)(p, r, EITP__SIMD(spread)(0.5f));
    p = EITP__SIMD(multiply_add)(p, r * r, r);
    return EITP__SIMD(scale)(p + EITP__SIMD(spread)(1.0f), n);
}

/* tanh(x) within 2 units: a polynomial near 0, elsewhere 1 - 2 / (e^2|x| + 1). */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(tanh)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f), size = EITP__SIMD(magnitude)(x), square = x * x, near, far;
    near = EITP__SIMD(spread)(0.00237076567f);
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.00841007102f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(0.0217883214f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.0539615527f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(0.133333132f));
    near = EITP__SIMD(multiply_add)(near, square, EITP__SIMD(spread)(-0.333333343f));
    near = EITP__SIMD(multiply_add)(near, square * x, x);
    far = one - EITP__SIMD(spread)(2.0f) / (EITP__SIMD(exp)(size + size) + one);
    return EITP__SIMD(choose_less)(size, EITP__SIMD(spread)(0.6f), near, EITP__SIMD(with_sign)(far, x));
}

/* 1 / (1 + e^-x) within 3 units, but 0 where it would be subnormal. */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(sigmoid)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f);
    return one / (one + EITP__SIMD(exp)(EITP__SIMD(zeros)() - x));
}
/* <<kernels/simd/math.inc */

/* >>kernels/simd/flat.inc */
/* Elementwise kernels. Every lane does the same, so that an element's value does not depend on where a piece starts. */

#define EITP__SIMD_UNARY(name, expression)                                                                             \
    static void EITP__SIMD(name##_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {          \
        const float *from = (const float *)call->inputs[0].data;                                                       \
        float *to = (float *)call->outputs[0].data;                                                                    \
        (void)workspace;                                                                                               \
        for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {                                                      \
            EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());                          \
            EITP__SIMD(put)(to + i, end - i, (expression));                                                            \
        }                                                                                                              \
    }

EITP__SIMD_UNARY(exp, EITP__SIMD(exp)(x))
EITP__SIMD_UNARY(tanh, EITP__SIMD(tanh)(x))
EITP__SIMD_UNARY(sigmoid, EITP__SIMD(sigmoid)(x))

/*
 * GELU with the tanh approximation is x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 is
 * sigmoid(2 u): no difference of nearly equal numbers where x is far below 0.
 */
EITP__SIMD_INLINE EITP__SIMD(vector) EITP__SIMD(gelu_gate)(EITP__SIMD(vector) x) {
    EITP__SIMD(vector) cubic = EITP__SIMD(spread)(0.0713548163f), linear = EITP__SIMD(spread)(1.59576912f);
    return EITP__SIMD(sigmoid)(x * EITP__SIMD(multiply_add)(cubic, x * x, linear));
}

EITP__SIMD_UNARY(gelu_tanh, EITP__SIMD(gelu_gate)(x) * x)

static void EITP__SIMD(gelu_tanh_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *from = (const float *)call->inputs[0].data, *gradient = (const float *)call->inputs[1].data;
    float *to = (float *)call->outputs[0].data;
    EITP__SIMD(vector) one = EITP__SIMD(spread)(1.0f), limit = EITP__SIMD(spread)(20.0f);
    EITP__SIMD(vector) cubic = EITP__SIMD(spread)(0.214064449f), linear = EITP__SIMD(spread)(1.59576912f);
    (void)workspace;
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());
        EITP__SIMD(vector) d = EITP__SIMD(fetch)(gradient + i, end - i, EITP__SIMD(zeros)());
        EITP__SIMD(vector) gate = EITP__SIMD(gelu_gate)(x), inner, slope;
        /* The gate's own slope: 0 far from 0, where the cube must not overflow. */
        inner = EITP__SIMD(at_most)(limit, EITP__SIMD(at_least)(EITP__SIMD(zeros)() - limit, x));
        slope = inner * EITP__SIMD(multiply_add)(cubic, inner * inner, linear) * (gate * (one - gate));
        EITP__SIMD(put)(to + i, end - i, d * (gate + slope));
    }
}

#undef EITP__SIMD_UNARY

/*
 * Binary operations with broadcasting. Neighbouring dimensions in which the operands agree about being repeated are one
 * run; the last run is the inner loop.
 */
typedef struct EITP__SIMD(runs) {
    int count;
    int64_t size[EITP_MAX_RANK + 1];
    int64_t strides[2][EITP_MAX_RANK + 1]; /* 0: repeated */
} EITP__SIMD(runs);

static EITP__SIMD(runs) EITP__SIMD(find_runs)(const eitp__call *call) {
    EITP__SIMD(runs) runs;
    const eitp__operand *y = &call->outputs[0];
    int64_t steps[2] = {1, 1};
    runs.count = 0;
    for (int i = 0; i < y->rank; i++) { /* i: from the last dimension */
        int64_t size = y->shape[y->rank - 1 - i], stride[2];
        int joins = runs.count > 0;
        if (size == 1)
            continue;
        for (int which = 0; which < 2; which++) {
            const eitp__operand *x = &call->inputs[which];
            int whole = i < x->rank && x->shape[x->rank - 1 - i] != 1;
            stride[which] = whole ? steps[which] : 0;
            steps[which] *= whole ? size : 1;
            joins = joins && (runs.strides[which][runs.count - 1] != 0) == whole;
        }
        if (joins) {
            runs.size[runs.count - 1] *= size;
            continue;
        }
        runs.size[runs.count] = size;
        runs.strides[0][runs.count] = stride[0];
        runs.strides[1][runs.count] = stride[1];
        runs.count++;
    }
    if (runs.count == 0) {
        runs.size[0] = 1;
        runs.strides[0][0] = runs.strides[1][0] = 0;
        runs.count = 1;
    }
    return runs;
}

EITP__SIMD_INLINE EITP__SIMD(vector)
    EITP__SIMD(fetch_repeated)(const float *p, int64_t stride, int64_t index, int64_t count) {
    return stride ? EITP__SIMD(fetch)(p + index, count, EITP__SIMD(zeros)()) : EITP__SIMD(spread)(*p);
}

#define EITP__SIMD_BINARY(name, operator)                                                                              \
    static void EITP__SIMD(name##_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {          \
        EITP__SIMD(runs) runs = EITP__SIMD(find_runs)(call);                                                           \
        float *to = (float *)call->outputs[0].data;                                                                    \
        (void)workspace;                                                                                               \
        for (int64_t i = begin, next; i < end; i = next) {                                                             \
            int64_t column = i % runs.size[0], rest = i / runs.size[0], length = runs.size[0] - column;                \
            const float *a = (const float *)call->inputs[0].data, *b = (const float *)call->inputs[1].data;            \
            next = end - i < length ? end : i + length;                                                                \
            for (int r = 1; r < runs.count; rest /= runs.size[r], r++) {                                               \
                a += rest % runs.size[r] * runs.strides[0][r];                                                         \
                b += rest % runs.size[r] * runs.strides[1][r];                                                         \
            }                                                                                                          \
            for (int64_t count = next - i, j = 0; j < count; j += EITP__SIMD_LANES) {                                  \
                EITP__SIMD(vector) u = EITP__SIMD(fetch_repeated)(a, runs.strides[0][0], column + j, count - j);       \
                EITP__SIMD(vector) v = EITP__SIMD(fetch_repeated)(b, runs.strides[1][0], column + j, count - j);       \
                EITP__SIMD(put)(to + i + j, count - j, u operator v);                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }

EITP__SIMD_BINARY(add, +)
EITP__SIMD_BINARY(subtract, -)
EITP__SIMD_BINARY(multiply, *)
EITP__SIMD_BINARY(divide, /)

#undef EITP__SIMD_BINARY

static void EITP__SIMD(accumulate_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *target = (const float *)call->inputs[0].data, *from = (const float *)call->inputs[1].data;
    const float *factor = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    float *to = (float *)call->outputs[0].data, carry = factor ? factor[0] : 1.0f;
    (void)workspace;
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) x = EITP__SIMD(fetch)(from + i, end - i, EITP__SIMD(zeros)());
        if (carry != 0.0f) {
            EITP__SIMD(vector) old = EITP__SIMD(fetch)(target + i, end - i, EITP__SIMD(zeros)());
            x = EITP__SIMD(multiply_add)(EITP__SIMD(spread)(carry), old, x);
        }
        EITP__SIMD(put)(to + i, end - i, x);
    }
}
/* <<kernels/simd/flat.inc */

/* >>kernels/simd/reduce.inc */
/* Sums and maxima of a row; the slots SUM and SUM_SQUARES. The order of additions follows from the shape alone. */

EITP__SIMD_INLINE float EITP__SIMD(row_sum)(const float *p, int64_t count) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, s2 = s0, s3 = s0, none = s0;
    int64_t i = 0;
    for (; count - i >= 4 * EITP__SIMD_LANES; i += 4 * EITP__SIMD_LANES) {
        s0 += EITP__SIMD(load)(p + i);
        s1 += EITP__SIMD(load)(p + i + EITP__SIMD_LANES);
        s2 += EITP__SIMD(load)(p + i + 2 * EITP__SIMD_LANES);
        s3 += EITP__SIMD(load)(p + i + 3 * EITP__SIMD_LANES);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        s0 += EITP__SIMD(fetch)(p + i, count - i, none);
    return EITP__SIMD(sum)((s0 + s1) + (s2 + s3));
}

/* The sum of a[i] * b[i]. */
EITP__SIMD_INLINE float EITP__SIMD(row_dot)(const float *a, const float *b, int64_t count) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, none = s0;
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        s0 = EITP__SIMD(multiply_add)(EITP__SIMD(load)(a + i), EITP__SIMD(load)(b + i), s0);
        s1 = EITP__SIMD(multiply_add)(EITP__SIMD(load)(a + i + EITP__SIMD_LANES),
                                      EITP__SIMD(load)(b + i + EITP__SIMD_LANES), s1);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        s0 = EITP__SIMD(multiply_add)(EITP__SIMD(fetch)(a + i, count - i, none),
                                      EITP__SIMD(fetch)(b + i, count - i, none), s0);
    return EITP__SIMD(sum)(s0 + s1);
}

/* The largest, ignoring what is not a number; minus infinity where there is nothing. */
EITP__SIMD_INLINE float EITP__SIMD(row_largest)(const float *p, int64_t count) {
    EITP__SIMD(vector) none = EITP__SIMD(spread)(-INFINITY), m0 = none, m1 = none;
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        m0 = EITP__SIMD(at_least)(EITP__SIMD(load)(p + i), m0);
        m1 = EITP__SIMD(at_least)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES), m1);
    }
    for (; i < count; i += EITP__SIMD_LANES)
        m0 = EITP__SIMD(at_least)(EITP__SIMD(fetch)(p + i, count - i, none), m0);
    return EITP__SIMD(largest)(EITP__SIMD(at_least)(m0, m1));
}

/* The sum of e^(p[i] - top). Where `to` is not NULL the terms are stored there; it may be p. */
EITP__SIMD_INLINE float EITP__SIMD(row_sum_exp)(const float *p, int64_t count, float top, float *to) {
    EITP__SIMD(vector) s0 = EITP__SIMD(zeros)(), s1 = s0, none = EITP__SIMD(spread)(-INFINITY);
    EITP__SIMD(vector) shift = EITP__SIMD(spread)(top);
    int64_t i = 0;
    for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
        EITP__SIMD(vector) e0 = EITP__SIMD(exp)(EITP__SIMD(load)(p + i) - shift);
        EITP__SIMD(vector) e1 = EITP__SIMD(exp)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES) - shift);
        s0 += e0;
        s1 += e1;
        if (to) {
            EITP__SIMD(store)(to + i, e0);
            EITP__SIMD(store)(to + i + EITP__SIMD_LANES, e1);
        }
    }
    for (; i < count; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) e = EITP__SIMD(exp)(EITP__SIMD(fetch)(p + i, count - i, none) - shift);
        s0 += e;
        if (to)
            EITP__SIMD(put)(to + i, count - i, e);
    }
    return EITP__SIMD(sum)(s0 + s1);
}

/* The dimensions of a SUM's input as runs that are kept or summed, from the last. */
typedef struct EITP__SIMD(sum_runs) {
    int count;
    int64_t size[EITP_MAX_RANK + 1];
    int64_t stride[EITP_MAX_RANK + 1];
    int summed[EITP_MAX_RANK + 1];
    int64_t terms; /* of the runs that are summed, without the last dimension's */
} EITP__SIMD(sum_runs);

static EITP__SIMD(sum_runs) EITP__SIMD(find_sum_runs)(const eitp__call *call) {
    EITP__SIMD(sum_runs) runs;
    const eitp__operand *x = &call->inputs[0];
    int64_t stride = 1;
    runs.count = 0;
    for (int i = x->rank - 1; i >= 0; i--) {
        int summed = (int)(call->integers[0] >> i & 1);
        int64_t size = x->shape[i];
        if (size == 1)
            continue;
        if (runs.count && runs.summed[runs.count - 1] == summed) {
            runs.size[runs.count - 1] *= size;
        } else {
            runs.size[runs.count] = size;
            runs.stride[runs.count] = stride;
            runs.summed[runs.count] = summed;
            runs.count++;
        }
        stride *= size;
    }
    if (runs.count == 0) {
        runs.size[0] = runs.stride[0] = 1;
        runs.summed[0] = 0;
        runs.count = 1;
    }
    runs.terms = 1;
    for (int i = 1; i < runs.count; i++)
        if (runs.summed[i])
            runs.terms *= runs.size[i];
    return runs;
}

/* Where combination `index` of the runs beyond the first starts, of the summed runs or of those that are kept. */
EITP__SIMD_INLINE int64_t EITP__SIMD(sum_offset)(const EITP__SIMD(sum_runs) * runs, int summed, int64_t index) {
    int64_t offset = 0;
    for (int i = 1; i < runs->count; i++) {
        if (runs->summed[i] != summed)
            continue;
        offset += index % runs->size[i] * runs->stride[i];
        index /= runs->size[i];
    }
    return offset;
}

/* Sums go on from carry * y, term by term in order where the last run is kept, and row by row where it is summed. */
static void EITP__SIMD(sum_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(sum_runs) runs = EITP__SIMD(find_sum_runs)(call);
    const float *from = (const float *)call->inputs[0].data;
    float *y = (float *)call->outputs[0].data;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    int64_t kept = runs.summed[0] ? 1 : runs.size[0];
    (void)workspace;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t column = i % kept;
        const float *base = from + EITP__SIMD(sum_offset)(&runs, 0, i / kept) + column;
        next = runs.summed[0] ? i + 1 : i - column + kept < end ? i - column + kept : end;
        if (runs.summed[0]) {
            float sum = carry != 0.0f ? carry * y[i] : 0.0f;
            for (int64_t t = 0; t < runs.terms; t++)
                sum += EITP__SIMD(row_sum)(base + EITP__SIMD(sum_offset)(&runs, 1, t), runs.size[0]);
            y[i] = sum;
            continue;
        }
        for (int64_t j = i; j < next; j++)
            y[j] = carry != 0.0f ? carry * y[j] : 0.0f;
        for (int64_t t = 0; t < runs.terms; t++) {
            const float *row = base + EITP__SIMD(sum_offset)(&runs, 1, t);
            for (int64_t count = next - i, j = 0; j < count; j += EITP__SIMD_LANES) {
                EITP__SIMD(vector) sum = EITP__SIMD(fetch)(y + i + j, count - j, EITP__SIMD(zeros)());
                EITP__SIMD(put)(y + i + j, count - j, sum + EITP__SIMD(fetch)(row + j, count - j, EITP__SIMD(zeros)()));
            }
        }
    }
}

static void EITP__SIMD(sum_squares_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *from = (const float *)call->inputs[0].data;
    double *to = (double *)call->outputs[0].data;
    (void)workspace;
    for (int64_t block = begin; block < end; block++) {
        const float *p = from + block * EITP__SUM_BLOCK;
        int64_t count = call->inputs[0].elements - block * EITP__SUM_BLOCK, i = 0;
        EITP__SIMD(doubles) even[2], odd[2];
        even[0] = even[1] = odd[0] = odd[1] = EITP__SIMD(no_doubles)();
        count = count < EITP__SUM_BLOCK ? count : EITP__SUM_BLOCK;
        for (; count - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
            EITP__SIMD(add_squares)(EITP__SIMD(load)(p + i), even);
            EITP__SIMD(add_squares)(EITP__SIMD(load)(p + i + EITP__SIMD_LANES), odd);
        }
        for (; i < count; i += EITP__SIMD_LANES)
            EITP__SIMD(add_squares)(EITP__SIMD(fetch)(p + i, count - i, EITP__SIMD(zeros)()), even);
        to[block] = EITP__SIMD(sum_doubles)((even[0] + even[1]) + (odd[0] + odd[1]));
    }
}
/* <<kernels/simd/reduce.inc */

/* >>kernels/simd/rows.inc */
/* Kernels over rows: softmax, layer norm, cross-entropy. */

EITP__SIMD_INLINE int64_t EITP__SIMD(columns)(const eitp__operand *x) {
    return x->rank ? x->shape[x->rank - 1] : 1;
}

static void EITP__SIMD(softmax_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float sum = EITP__SIMD(row_sum_exp)(x, c, EITP__SIMD(row_largest)(x, c), y);
        EITP__SIMD(vector) factor = EITP__SIMD(spread)(1.0f / sum);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(y + j, c - j, factor * EITP__SIMD(fetch)(y + j, c - j, factor));
    }
}

static void EITP__SIMD(softmax_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) mean = EITP__SIMD(spread)(EITP__SIMD(row_dot)(y, dy, c));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) d = EITP__SIMD(fetch)(dy + j, c - j, mean);
            EITP__SIMD(put)(dx + j, c - j, EITP__SIMD(fetch)(y + j, c - j, mean) * (d - mean));
        }
    }
}

static void EITP__SIMD(log_softmax_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float top = EITP__SIMD(row_largest)(x, c);
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(top);
        EITP__SIMD(vector) log_sum = EITP__SIMD(spread)(logf(EITP__SIMD(row_sum_exp)(x, c, top, NULL)));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(y + j, c - j, EITP__SIMD(fetch)(x + j, c - j, shift) - shift - log_sum);
    }
}

static void EITP__SIMD(log_softmax_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[1].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) sum = EITP__SIMD(spread)(EITP__SIMD(row_sum)(dy, c));
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) p = EITP__SIMD(exp)(EITP__SIMD(fetch)(y + j, c - j, sum));
            EITP__SIMD(put)(dx + j, c - j, EITP__SIMD(subtract_product)(EITP__SIMD(fetch)(dy + j, c - j, sum), p, sum));
        }
    }
}

static void EITP__SIMD(layer_norm_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data, *bias = (const float *)call->inputs[2].data;
    float *means = (float *)call->outputs[1].data, *deviations = (float *)call->outputs[2].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        float *y = (float *)call->outputs[0].data + row * c;
        float mean = EITP__SIMD(row_sum)(x, c) / (float)c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(mean), s0 = EITP__SIMD(zeros)(), s1 = s0, scale;
        int64_t i = 0;
        for (; c - i >= 2 * EITP__SIMD_LANES; i += 2 * EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = EITP__SIMD(load)(x + i) - centre;
            EITP__SIMD(vector) v = EITP__SIMD(load)(x + i + EITP__SIMD_LANES) - centre;
            s0 = EITP__SIMD(multiply_add)(u, u, s0);
            s1 = EITP__SIMD(multiply_add)(v, v, s1);
        }
        for (; i < c; i += EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = EITP__SIMD(fetch)(x + i, c - i, centre) - centre;
            s0 = EITP__SIMD(multiply_add)(u, u, s0);
        }
        means[row] = mean;
        deviations[row] = 1.0f / sqrtf(EITP__SIMD(sum)(s0 + s1) / (float)c + (float)call->reals[0]);
        scale = EITP__SIMD(spread)(deviations[row]);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) u = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            u = EITP__SIMD(multiply_add)(u, EITP__SIMD(fetch)(gain + j, c - j, scale),
                                         EITP__SIMD(fetch)(bias + j, c - j, scale));
            EITP__SIMD(put)(y + j, c - j, u);
        }
    }
}

/* dx = deviation * (g - mean(g) - z * mean(g * z)) with g = gain * dy and z = (x - mean) * deviation. */
static void EITP__SIMD(layer_norm_backward_input_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                      void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]);
    const float *gain = (const float *)call->inputs[1].data;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[5].data + row * c;
        float *dx = (float *)call->outputs[0].data + row * c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(((const float *)call->inputs[3].data)[row]);
        EITP__SIMD(vector) scale = EITP__SIMD(spread)(((const float *)call->inputs[4].data)[row]);
        EITP__SIMD(vector) sum = none, product = none, mean, slope;
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) g = EITP__SIMD(fetch)(gain + j, c - j, none) * EITP__SIMD(fetch)(dy + j, c - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            sum += g;
            product = EITP__SIMD(multiply_add)(g, z, product);
        }
        mean = EITP__SIMD(spread)(EITP__SIMD(sum)(sum) / (float)c);
        slope = EITP__SIMD(spread)(EITP__SIMD(sum)(product) / (float)c);
        for (int64_t j = 0; j < c; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) g = EITP__SIMD(fetch)(gain + j, c - j, none) * EITP__SIMD(fetch)(dy + j, c - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, c - j, centre) - centre) * scale;
            EITP__SIMD(put)(dx + j, c - j, scale * EITP__SIMD(subtract_product)(g - mean, z, slope));
        }
    }
}

static void EITP__SIMD(layer_norm_backward_parameters_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                           void *workspace) {
    int64_t c = EITP__SIMD(columns)(&call->inputs[0]), rows = c ? call->inputs[0].elements / c : 0;
    const float *means = (const float *)call->inputs[3].data, *deviations = (const float *)call->inputs[4].data;
    float *dgain = (float *)call->outputs[0].data, *dbias = (float *)call->outputs[1].data;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    (void)workspace;
    for (int64_t j = begin; j < end; j++) {
        dgain[j] = carry != 0.0f ? carry * dgain[j] : 0.0f;
        dbias[j] = carry != 0.0f ? carry * dbias[j] : 0.0f;
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *x = (const float *)call->inputs[0].data + row * c;
        const float *dy = (const float *)call->inputs[5].data + row * c;
        EITP__SIMD(vector) centre = EITP__SIMD(spread)(means[row]), scale = EITP__SIMD(spread)(deviations[row]);
        for (int64_t j = begin; j < end; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) d = EITP__SIMD(fetch)(dy + j, end - j, none);
            EITP__SIMD(vector) z = (EITP__SIMD(fetch)(x + j, end - j, centre) - centre) * scale;
            EITP__SIMD(put)
            (dgain + j, end - j, EITP__SIMD(multiply_add)(d, z, EITP__SIMD(fetch)(dgain + j, end - j, none)));
            EITP__SIMD(put)(dbias + j, end - j, EITP__SIMD(fetch)(dbias + j, end - j, none) + d);
        }
    }
}

/* A target that is the ignored one, or no index of the row, costs nothing. */
EITP__SIMD_INLINE int EITP__SIMD(target_counts)(const eitp__call *call, int32_t target, int64_t columns) {
    return target != call->integers[0] && target >= 0 && target < columns;
}

static void EITP__SIMD(cross_entropy_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t v = EITP__SIMD(columns)(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    float *losses = (float *)call->outputs[0].data, *logsumexps = (float *)call->outputs[1].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float top = EITP__SIMD(row_largest)(x, v), log_sum = logf(EITP__SIMD(row_sum_exp)(x, v, top, NULL));
        logsumexps[row] = top + log_sum;
        losses[row] = 0.0f;
        if (EITP__SIMD(target_counts)(call, targets[row], v))
            losses[row] = log_sum - (x[targets[row]] - top);
    }
}

static void EITP__SIMD(cross_entropy_backward_run)(const eitp__call *call, int64_t begin, int64_t end,
                                                   void *workspace) {
    int64_t v = EITP__SIMD(columns)(&call->inputs[0]);
    const int32_t *targets = (const int32_t *)call->inputs[1].data;
    const float *logsumexps = (const float *)call->inputs[2].data, *dlosses = (const float *)call->inputs[3].data;
    (void)workspace;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->inputs[0].data + row * v;
        float *dx = (float *)call->outputs[0].data + row * v;
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(logsumexps[row]), factor = EITP__SIMD(spread)(dlosses[row]);
        float hit;
        if (!EITP__SIMD(target_counts)(call, targets[row], v)) {
            memset(dx, 0, (size_t)v * sizeof *dx);
            continue;
        }
        hit = (expf(x[targets[row]] - logsumexps[row]) - 1.0f) * dlosses[row]; /* dx may be x */
        for (int64_t j = 0; j < v; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(dx + j, v - j, factor * EITP__SIMD(exp)(EITP__SIMD(fetch)(x + j, v - j, shift) - shift));
        dx[targets[row]] = hit;
    }
}
/* <<kernels/simd/rows.inc */

/* >>kernels/simd/optimizer.inc */
/*
 * AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2). Where the step is not
 * to be applied the outputs are the inputs.
 */
static void EITP__SIMD(adamw_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const float *parameter = (const float *)call->inputs[0].data, *gradient = (const float *)call->inputs[1].data;
    const float *old_m = (const float *)call->inputs[2].data, *old_v = (const float *)call->inputs[3].data;
    const float *hyper = (const float *)call->inputs[4].data, *commit = (const float *)call->inputs[5].data;
    float *new_parameter = (float *)call->outputs[0].data;
    float *new_m = (float *)call->outputs[1].data, *new_v = (float *)call->outputs[2].data;
    size_t bytes = (size_t)(end - begin) * sizeof(float);
    (void)workspace;
    if (commit[1] == 0.0f) {
        memmove(new_parameter + begin, parameter + begin, bytes);
        memmove(new_m + begin, old_m + begin, bytes);
        memmove(new_v + begin, old_v + begin, bytes);
        return;
    }
    double beta1 = call->reals[0], beta2 = call->reals[1], rate = (double)hyper[0], step = (double)hyper[1];
    EITP__SIMD(vector) scale = EITP__SIMD(spread)(commit[0]);
    EITP__SIMD(vector) keep1 = EITP__SIMD(spread)((float)beta1), take1 = EITP__SIMD(spread)((float)(1.0 - beta1));
    EITP__SIMD(vector) keep2 = EITP__SIMD(spread)((float)beta2), take2 = EITP__SIMD(spread)((float)(1.0 - beta2));
    EITP__SIMD(vector) size = EITP__SIMD(spread)((float)(rate / (1.0 - pow(beta1, step))));
    EITP__SIMD(vector) correction = EITP__SIMD(spread)((float)(1.0 / sqrt(1.0 - pow(beta2, step))));
    EITP__SIMD(vector) epsilon = EITP__SIMD(spread)((float)call->reals[2]);
    EITP__SIMD(vector) decay = EITP__SIMD(spread)((float)(rate * call->reals[3])), none = EITP__SIMD(zeros)();
    for (int64_t i = begin; i < end; i += EITP__SIMD_LANES) {
        EITP__SIMD(vector) p = EITP__SIMD(fetch)(parameter + i, end - i, none);
        EITP__SIMD(vector) g = EITP__SIMD(fetch)(gradient + i, end - i, none) * scale;
        EITP__SIMD(vector) m = EITP__SIMD(fetch)(old_m + i, end - i, none);
        EITP__SIMD(vector) v = EITP__SIMD(fetch)(old_v + i, end - i, none);
        m = EITP__SIMD(multiply_add)(take1, g, keep1 * m);
        v = EITP__SIMD(multiply_add)(take2, g * g, keep2 * v);
        p = EITP__SIMD(subtract_product)(p, decay, p);
        p -= size * m / EITP__SIMD(multiply_add)(EITP__SIMD(square_root)(v), correction, epsilon);
        EITP__SIMD(put)(new_parameter + i, end - i, p);
        EITP__SIMD(put)(new_m + i, end - i, m);
        EITP__SIMD(put)(new_v + i, end - i, v);
    }
}
/* <<kernels/simd/optimizer.inc */

/* >>kernels/simd/attention.inc */
/*
 * Causal attention over packed sequences. A few queries at a time see all keys up to theirs: their scores are a matrix
 * product into the workspace, and so is everything after them. The number of queries changes no bit.
 */
#define EITP__SIMD_SCORES 32768 /* aimed at, for a block of queries */

/* What the (sequence, head) pairs of a call share, and the rows and columns of one pair. */
typedef struct EITP__SIMD(attention) {
    int64_t rows, width, heads, longest; /* width: of a head */
    int64_t block, stride;               /* queries at a time; from one row of scores to the next */
    int64_t begin, end, head;
    int64_t stop; /* of the sequence; beyond `end` where it is longer than `longest` */
    float scale;
} EITP__SIMD(attention);

static EITP__SIMD(attention) EITP__SIMD(attention_sizes)(const eitp__call *call) {
    EITP__SIMD(attention) at;
    at.rows = call->inputs[0].shape[0];
    at.heads = call->integers[0];
    at.longest = call->integers[1];
    at.width = call->inputs[0].shape[1] / 3 / at.heads;
    at.block = EITP__SIMD_SCORES / (at.longest > 0 ? at.longest : 1) / 8 * 8;
    at.block = at.block < 8 ? 8 : at.block > 64 ? 64 : at.block;
    at.stride = (at.longest + 31) / 32 * 32 + 16; /* an odd number of cache lines: rows do not share cache sets */
    at.begin = at.end = at.stop = at.head = 0;
    at.scale = (float)call->reals[0];
    return at;
}

static size_t EITP__SIMD(attention_floats)(const eitp__call *call, int buffers) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    size_t scores = (size_t)(at.block * at.stride) * (size_t)buffers;
    return scores + EITP__SIMD(matmul_panel) + EITP__SIMD(matmul_edge) + EITP__SIMD(matmul_packed_rows);
}

static size_t EITP__SIMD(attention_workspace)(const eitp__call *call) {
    return EITP__SIMD(attention_floats)(call, 1) * sizeof(float);
}

static size_t EITP__SIMD(attention_backward_workspace)(const eitp__call *call) {
    return EITP__SIMD(attention_floats)(call, 2) * sizeof(float);
}

/* The rows of pair `item`. Offsets are data: whatever they are, the rows are rows of the call and at most `longest`. */
static void EITP__SIMD(attention_select)(EITP__SIMD(attention) * at, const eitp__call *call, int64_t item) {
    const int32_t *offsets = (const int32_t *)call->inputs[1].data;
    int64_t sequence = item / at->heads;
    at->head = item % at->heads;
    at->begin = offsets[sequence] < 0 ? 0 : offsets[sequence] > at->rows ? at->rows : offsets[sequence];
    at->end = offsets[sequence + 1] < at->begin ? at->begin : offsets[sequence + 1];
    at->end = at->end > at->rows ? at->rows : at->end;
    at->stop = at->end;
    at->end = at->end - at->begin > at->longest ? at->begin + at->longest : at->end;
}

/*
 * Zeros `width` columns at p of the rows that see nothing: those cut off at `longest`, and those in no sequence, of which a
 * head's first pair has the ones before, its last the ones after.
 */
static void EITP__SIMD(attention_clear_rest)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t item,
                                             float *p, int64_t stride, int64_t width) {
    int64_t sequence = item / at->heads, last = call->inputs[1].elements - 2;
    if (sequence == 0)
        for (int64_t i = 0; i < at->begin; i++)
            memset(p + i * stride, 0, (size_t)width * sizeof *p);
    for (int64_t i = at->end, stop = sequence == last ? at->rows : at->stop; i < stop; i++)
        memset(p + i * stride, 0, (size_t)width * sizeof *p);
}

static void EITP__SIMD(clear)(float *p, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        memset(p + i * stride, 0, (size_t)columns * sizeof *p);
}

/* y [m, n] += a b, rows lda, ldb and ldy apart; with transpose_a, a is stored [k, m], with transpose_b, b is [n, k]. */
static void EITP__SIMD(add_product)(const float *a, int64_t lda, int transpose_a, const float *b, int64_t ldb,
                                    int transpose_b, float *y, int64_t ldy, int64_t m, int64_t n, int64_t k,
                                    float *workspace) {
    eitp__matmul sizes;
    sizes.batch = 1;
    sizes.m = m;
    sizes.n = ldy; /* all that a tile wants of it */
    sizes.k = k;
    sizes.transpose_a = transpose_a;
    sizes.transpose_b = transpose_b;
    sizes.lda = lda;
    sizes.ldb = ldb;
    for (int64_t i = 0, most = EITP__SIMD(matmul_tile_rows); i < m; i += most) {
        int64_t rows = m - i < most ? m - i : most;
        EITP__SIMD(matmul_tile)(&sizes, a + (transpose_a ? i : i * lda), b, y + i * ldy, rows, n, workspace);
    }
}

/* Multiplies the values of query `row` of the call by 0 or by 1 / (1 - p): one for each key of its sequence. */
static void EITP__SIMD(attention_keep)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t row,
                                       int64_t count, float *values) {
    const int64_t *key = (const int64_t *)call->inputs[2].data;
    float probability = (float)call->reals[1], kept = (float)(1.0 / (1.0 - call->reals[1]));
    uint64_t first = ((uint64_t)(key[2] + row) * (uint64_t)at->heads + (uint64_t)at->head) * (uint64_t)at->longest;
    for (int64_t j = 0; j < count; j++) {
        float u =
            eitp__kernel_uniform((uint64_t)key[0], (uint64_t)key[1], (uint32_t)call->integers[2], first + (uint64_t)j);
        values[j] *= u < probability ? 0.0f : kept;
    }
}

static int EITP__SIMD(attention_drops)(const eitp__call *call) {
    return call->input_count > 2 && call->inputs[2].data && call->reals[1] > 0.0;
}

/* The rows of `scores` become probabilities, with zeros for the keys after a query. */
static void EITP__SIMD(attention_probabilities)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t first,
                                                int64_t rows, float *scores) {
    float *logsumexps = (float *)call->outputs[1].data;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)();
    for (int64_t i = 0; i < rows; i++) {
        float *row = scores + i * at->stride;
        int64_t count = first - at->begin + i + 1, keys = first - at->begin + rows;
        EITP__SIMD(vector) factor = EITP__SIMD(spread)(at->scale);
        float top, sum;
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(row + j, count - j, factor * EITP__SIMD(fetch)(row + j, count - j, none));
        top = EITP__SIMD(row_largest)(row, count);
        sum = EITP__SIMD(row_sum_exp)(row, count, top, row);
        logsumexps[(first + i) * at->heads + at->head] = top + logf(sum);
        factor = EITP__SIMD(spread)(1.0f / sum);
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES)
            EITP__SIMD(put)(row + j, count - j, factor * EITP__SIMD(fetch)(row + j, count - j, none));
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, first + i, count, row);
        memset(row + count, 0, (size_t)(keys - count) * sizeof *row);
    }
}

static void EITP__SIMD(attention_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    int64_t d = at.width, c = d * at.heads;
    float *scores = (float *)workspace, *rest = scores + at.block * at.stride;
    for (int64_t item = begin; item < end; item++) {
        EITP__SIMD(attention_select)(&at, call, item);
        const float *q = (const float *)call->inputs[0].data + at.head * d, *k = q + c, *v = k + c;
        float *o = (float *)call->outputs[0].data + at.head * d;
        EITP__SIMD(attention_clear_rest)(&at, call, item, o, c, d);
        EITP__SIMD(attention_clear_rest)(&at, call, item, (float *)call->outputs[1].data + at.head, at.heads, 1);
        for (int64_t i = at.begin; i < at.end; i += at.block) {
            int64_t rows = at.end - i < at.block ? at.end - i : at.block, keys = i - at.begin + rows;
            EITP__SIMD(clear)(scores, at.stride, rows, keys);
            EITP__SIMD(add_product)
            (q + i * 3 * c, 3 * c, 0, k + at.begin * 3 * c, 3 * c, 1, scores, at.stride, rows, keys, d, rest);
            EITP__SIMD(attention_probabilities)(&at, call, i, rows, scores);
            EITP__SIMD(clear)(o + i * c, c, rows, d);
            EITP__SIMD(add_product)
            (scores, at.stride, 0, v + at.begin * 3 * c, 3 * c, 0, o + i * c, c, rows, d, keys, rest);
        }
    }
}

/*
 * For one block of queries: `scores` become the probabilities that the output was made with, and `slopes`, given as
 * do v^T, become the derivatives by the scores before they were scaled.
 */
static void EITP__SIMD(attention_slopes)(const EITP__SIMD(attention) * at, const eitp__call *call, int64_t first,
                                         int64_t rows, float *scores, float *slopes) {
    int64_t d = at->width, c = d * at->heads;
    const float *o = (const float *)call->inputs[3].data + at->head * d;
    const float *logsumexps = (const float *)call->inputs[4].data,
                *gradient = (const float *)call->inputs[5].data + at->head * d;
    EITP__SIMD(vector) none = EITP__SIMD(zeros)(), scale = EITP__SIMD(spread)(at->scale);
    for (int64_t i = 0; i < rows; i++) {
        float *p = scores + i * at->stride, *ds = slopes + i * at->stride;
        int64_t row = first + i, count = row - at->begin + 1, keys = first - at->begin + rows;
        EITP__SIMD(vector) shift = EITP__SIMD(spread)(logsumexps[row * at->heads + at->head]);
        EITP__SIMD(vector) mean = EITP__SIMD(spread)(EITP__SIMD(row_dot)(o + row * c, gradient + row * c, d));
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, row, count, ds);
        for (int64_t j = 0; j < count; j += EITP__SIMD_LANES) {
            EITP__SIMD(vector) e = EITP__SIMD(exp)(EITP__SIMD(fetch)(p + j, count - j, none) * scale - shift);
            EITP__SIMD(vector) s = EITP__SIMD(fetch)(ds + j, count - j, none);
            EITP__SIMD(put)(p + j, count - j, e);
            EITP__SIMD(put)(ds + j, count - j, e * (s - mean) * scale);
        }
        if (EITP__SIMD(attention_drops)(call))
            EITP__SIMD(attention_keep)(at, call, row, count, p);
        memset(p + count, 0, (size_t)(keys - count) * sizeof *p);
        memset(ds + count, 0, (size_t)(keys - count) * sizeof *ds);
    }
}

static void EITP__SIMD(attention_backward_run)(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    EITP__SIMD(attention) at = EITP__SIMD(attention_sizes)(call);
    int64_t d = at.width, c = d * at.heads, wide = 3 * c;
    float *scores = (float *)workspace, *slopes = scores + at.block * at.stride, *rest = slopes + at.block * at.stride;
    for (int64_t item = begin; item < end; item++) {
        EITP__SIMD(attention_select)(&at, call, item);
        const float *q = (const float *)call->inputs[0].data + at.head * d,
                    *gradient = (const float *)call->inputs[5].data;
        float *dq = (float *)call->outputs[0].data + at.head * d;
        for (int part = 0; part < 3; part++) {
            EITP__SIMD(attention_clear_rest)(&at, call, item, dq + part * c, wide, d);
            EITP__SIMD(clear)(dq + part * c + at.begin * wide, wide, at.end - at.begin, d);
        }
        const float *k = q + c + at.begin * wide, *v = k + c;
        float *dk = dq + c + at.begin * wide, *dv = dk + c;
        gradient += at.head * d;
        for (int64_t i = at.begin; i < at.end; i += at.block) {
            int64_t rows = at.end - i < at.block ? at.end - i : at.block, keys = i - at.begin + rows;
            const float *qi = q + i * wide, *gi = gradient + i * c;
            EITP__SIMD(clear)(scores, at.stride, rows, keys);
            EITP__SIMD(clear)(slopes, at.stride, rows, keys);
            EITP__SIMD(add_product)(qi, wide, 0, k, wide, 1, scores, at.stride, rows, keys, d, rest);
            EITP__SIMD(add_product)(gi, c, 0, v, wide, 1, slopes, at.stride, rows, keys, d, rest);
            EITP__SIMD(attention_slopes)(&at, call, i, rows, scores, slopes);
            EITP__SIMD(add_product)(scores, at.stride, 1, gi, c, 0, dv, wide, keys, d, rows, rest);
            EITP__SIMD(add_product)(slopes, at.stride, 1, qi, wide, 0, dk, wide, keys, d, rows, rest);
            EITP__SIMD(add_product)(slopes, at.stride, 0, k, wide, 0, dq + i * wide, wide, rows, d, keys, rest);
        }
    }
}

#undef EITP__SIMD_SCORES
/* <<kernels/simd/attention.inc */

/* >>kernels/simd/register.inc */
/* Writes this set's kernels into the table, and ends the definitions that the templates were given. */
static void EITP__SIMD(set)(eitp__kernel_table *table, eitp__slot slot, eitp__kernel_function run,
                            size_t (*workspace)(const eitp__call *call)) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = run;
    kernel.workspace = workspace;
    kernel.set = EITP__SIMD_SET;
    table->kernels[slot][EITP_F32] = kernel;
}

static void EITP__SIMD(register)(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = EITP__SIMD(matmul_kernel)(EITP__SIMD_SET);
    EITP__SIMD(set)(table, EITP__SLOT_ATTENTION, EITP__SIMD(attention_run), EITP__SIMD(attention_workspace));
    EITP__SIMD(set)
    (table, EITP__SLOT_ATTENTION_BACKWARD, EITP__SIMD(attention_backward_run),
     EITP__SIMD(attention_backward_workspace));
    EITP__SIMD(set)(table, EITP__SLOT_EXP, EITP__SIMD(exp_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_TANH, EITP__SIMD(tanh_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SIGMOID, EITP__SIMD(sigmoid_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ADD, EITP__SIMD(add_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUBTRACT, EITP__SIMD(subtract_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_MULTIPLY, EITP__SIMD(multiply_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_DIVIDE, EITP__SIMD(divide_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_GELU_TANH, EITP__SIMD(gelu_tanh_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_GELU_TANH_BACKWARD, EITP__SIMD(gelu_tanh_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUM, EITP__SIMD(sum_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SUM_SQUARES, EITP__SIMD(sum_squares_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ACCUMULATE, EITP__SIMD(accumulate_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SOFTMAX, EITP__SIMD(softmax_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_SOFTMAX_BACKWARD, EITP__SIMD(softmax_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LOG_SOFTMAX, EITP__SIMD(log_softmax_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LOG_SOFTMAX_BACKWARD, EITP__SIMD(log_softmax_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LAYER_NORM, EITP__SIMD(layer_norm_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, EITP__SIMD(layer_norm_backward_input_run), NULL);
    EITP__SIMD(set)
    (table, EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS, EITP__SIMD(layer_norm_backward_parameters_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_CROSS_ENTROPY, EITP__SIMD(cross_entropy_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_CROSS_ENTROPY_BACKWARD, EITP__SIMD(cross_entropy_backward_run), NULL);
    EITP__SIMD(set)(table, EITP__SLOT_ADAMW, EITP__SIMD(adamw_run), NULL);
}

#undef EITP__SIMD
#undef EITP__SIMD_INLINE
#undef EITP__SIMD_LANES
#undef EITP__SIMD_SET
/* <<kernels/simd/register.inc */

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

EITP__PRIVATE void eitp__register_avx512_kernels(eitp__kernel_table *table) {
    eitp__avx512_register(table);
}

#else

EITP__PRIVATE void eitp__register_avx512_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
/* <<kernels/avx512/avx512.c */

/* >>backends/backend.c */
/* In order of preference; the null backend is never chosen by itself. */
static const eitp__backend_interface *(*const eitp__backends[])(void) = {eitp__cpu_backend, eitp__null_backend};

/* Why a CUDA device is not used: this build has no CUDA backend, and an empty CUDA_VISIBLE_DEVICES hides every device anyway. */
static const char *eitp__no_cuda_reason(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && !*visible ? "CUDA_VISIBLE_DEVICES hides every CUDA device" : "this version has no CUDA backend";
}

EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error) {
    const char *name = device && *device && strcmp(device, "auto") ? device : getenv("EITP_BACKEND");
    int automatic = !name || !*name || !strcmp(name, "auto");
    char description[200];
    *backend = NULL;
    if (automatic)
        name = "cpu";
    if (!strcmp(name, "cuda"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "device 'cuda' cannot be used: %s; use --device cpu",
                          eitp__no_cuda_reason());
    for (size_t i = 0; i < EITP__COUNT(eitp__backends); i++) {
        const eitp__backend_interface *interface = eitp__backends[i]();
        eitp_status status;
        if (strcmp(interface->name, name))
            continue;
        status = interface->create(host, config, backend, error);
        if (status)
            return status;
        interface->describe(*backend, description, sizeof description);
        if (automatic)
            eitp__log(host, EITP_LOG_INFO, "device auto: %s (%s)", description, eitp__no_cuda_reason());
        else
            eitp__log(host, EITP_LOG_INFO, "device %s: %s", name, description);
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown device '%s'; use auto, cpu or cuda", name);
}
/* <<backends/backend.c */

/* >>backends/null/null.c */
/* The null backend: has memory, supports everything, runs nothing and counts calls; for tests of the API and of failures. */

typedef struct eitp__null {
    eitp__backend base;
    uint64_t calls;
} eitp__null;

static eitp_status eitp__null_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                     eitp_error *error) {
    eitp__null *null_backend = (eitp__null *)eitp__allocate(host, sizeof *null_backend);
    (void)config;
    if (!null_backend)
        return eitp__fail_memory(error, sizeof *null_backend, "the null backend");
    null_backend->base.interface = eitp__null_backend();
    null_backend->base.host = *host;
    *backend = &null_backend->base;
    return EITP_OK;
}

static void eitp__null_destroy(eitp__backend *backend) {
    eitp_host host = backend->host;
    eitp__release(&host, backend, sizeof(eitp__null));
}

static void eitp__null_describe(const eitp__backend *backend, char *text, size_t size) {
    (void)backend;
    snprintf(text, size, "null, computes nothing");
}

static int eitp__null_supports(const eitp__backend *backend, eitp__slot slot, eitp_dtype dtype) {
    (void)backend;
    (void)slot;
    (void)dtype;
    return 1;
}

static void *eitp__null_allocate(eitp__backend *backend, size_t size) {
    return eitp__allocate(&backend->host, size);
}

static void eitp__null_release(eitp__backend *backend, void *memory, size_t size) {
    eitp__release(&backend->host, memory, size);
}

static eitp_status eitp__null_copy(eitp__backend *backend, void *target, const void *source, size_t size,
                                   eitp_error *error) {
    (void)backend;
    (void)error;
    memcpy(target, source, size);
    return EITP_OK;
}

static size_t eitp__null_workspace(const eitp__backend *backend, const eitp__call *call) {
    (void)backend;
    (void)call;
    return 0;
}

static eitp_status eitp__null_run(eitp__backend *backend, const eitp__call *calls, size_t count, void *workspace,
                                  eitp_error *error) {
    (void)calls;
    (void)workspace;
    (void)error;
    ((eitp__null *)backend)->calls += count;
    return EITP_OK;
}

EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "null",
        eitp__null_create,
        eitp__null_destroy,
        eitp__null_describe,
        eitp__null_describe,
        eitp__null_supports,
        eitp__null_allocate,
        eitp__null_release,
        eitp__null_copy,
        eitp__null_copy,
        eitp__null_workspace,
        eitp__null_run,
    };
    return &interface;
}

EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend) {
    return ((const eitp__null *)(const void *)backend)->calls;
}
/* <<backends/null/null.c */

/* >>backends/cpu/features.c */
#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which register state the operating system saves. */
static uint64_t eitp__extended_control(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum {
    EITP__XCR0_AVX = 0x06,   /* SSE and AVX state */
    EITP__XCR0_AVX512 = 0xe6 /* and mask registers, upper halves, registers 16 to 31 */
};

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    uint32_t a, b, c, d, fma, osxsave, needed;
    uint64_t control;
    if (isa == EITP__ISA_REF)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    fma = c & bit_FMA;
    osxsave = c & bit_OSXSAVE;
    if (!fma || !osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return 0;
    control = eitp__extended_control();
    if (isa == EITP__ISA_AVX2)
        return (control & EITP__XCR0_AVX) == EITP__XCR0_AVX;
    needed = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    return (b & needed) == needed && (control & EITP__XCR0_AVX512) == EITP__XCR0_AVX512;
}

#else

EITP__PRIVATE int eitp__isa_available(eitp__isa isa) {
    return isa == EITP__ISA_REF;
}

#endif

EITP__PRIVATE const char *eitp__isa_name(eitp__isa isa) {
    static const char *const names[EITP__ISA_COUNT] = {"ref", "avx2", "avx512"};
    return names[isa];
}
/* <<backends/cpu/features.c */

/* >>backends/cpu/openblas.c */
#if EITP_WITH_OPENBLAS

#include <cblas.h>

#define EITP__OPENBLAS_TILE_ROWS 256
#define EITP__OPENBLAS_TILE_COLUMNS 192

static void eitp__openblas_matmul(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__matmul sizes = eitp__matmul_sizes(call);
    const float *bias = call->input_count > 2 ? (const float *)call->inputs[2].data : NULL;
    float carry = !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
    int64_t across = (sizes.n + EITP__OPENBLAS_TILE_COLUMNS - 1) / EITP__OPENBLAS_TILE_COLUMNS;
    int64_t down = (sizes.m + EITP__OPENBLAS_TILE_ROWS - 1) / EITP__OPENBLAS_TILE_ROWS;
    (void)workspace;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / (down * across);
        int64_t i = item / across % down * EITP__OPENBLAS_TILE_ROWS;
        int64_t j = item % across * EITP__OPENBLAS_TILE_COLUMNS;
        int64_t rows = sizes.m - i < EITP__OPENBLAS_TILE_ROWS ? sizes.m - i : EITP__OPENBLAS_TILE_ROWS;
        int64_t columns = sizes.n - j < EITP__OPENBLAS_TILE_COLUMNS ? sizes.n - j : EITP__OPENBLAS_TILE_COLUMNS;
        const float *a = (const float *)call->inputs[0].data + eitp__matmul_offset(call, 0, batch) +
                         (sizes.transpose_a ? i : i * sizes.lda);
        const float *b = (const float *)call->inputs[1].data + eitp__matmul_offset(call, 1, batch) +
                         (sizes.transpose_b ? j * sizes.ldb : j);
        float *y = (float *)call->outputs[0].data + (batch * sizes.m + i) * sizes.n + j;
        float beta = carry;
        if (bias || sizes.k == 0) {
            beta = 1.0f;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++) {
                    float *to = y + r * sizes.n + c;
                    float start = bias ? bias[j + c] : 0.0f;
                    *to = carry != 0.0f ? carry * *to + start : start;
                }
        }
        if (sizes.k > 0)
            cblas_sgemm(CblasRowMajor, sizes.transpose_a ? CblasTrans : CblasNoTrans,
                        sizes.transpose_b ? CblasTrans : CblasNoTrans, (blasint)rows, (blasint)columns,
                        (blasint)sizes.k, 1.0f, a, (blasint)sizes.lda, b, (blasint)sizes.ldb, beta, y,
                        (blasint)sizes.n);
    }
}

EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = eitp__openblas_matmul;
    kernel.tile_rows = EITP__OPENBLAS_TILE_ROWS;
    kernel.tile_columns = EITP__OPENBLAS_TILE_COLUMNS;
    kernel.set = "openblas";
    openblas_set_num_threads(1);
    table->kernels[EITP__SLOT_MATMUL][EITP_F32] = kernel;
    return 1;
}

EITP__PRIVATE const char *eitp__openblas_core(void) {
    return openblas_get_corename();
}

#else

EITP__PRIVATE const char *eitp__openblas_core(void) {
    return "";
}

EITP__PRIVATE int eitp__register_openblas_kernels(eitp__kernel_table *table) {
    (void)table;
    return 0;
}

#endif
/* <<backends/cpu/openblas.c */

/* >>backends/cpu/cpu.c */
/* The CPU backend: a kernel table filled for the processor at hand, and one driver for each iteration family. */

typedef struct eitp__cpu {
    eitp__backend base;
    int threads;
    eitp__isa isa;
    eitp__kernel_table table;
} eitp__cpu;

/* Which set to use: the one that is named (an error where it cannot run), else the best. */
static eitp_status eitp__choose_isa(const char *name, eitp__isa *isa, eitp_error *error) {
    if (!name || !*name)
        name = getenv("EITP_ISA");
    if (!name || !*name) {
        for (int i = EITP__ISA_COUNT - 1; i >= 0; i--) {
            *isa = (eitp__isa)i;
            if (eitp__isa_available(*isa))
                return EITP_OK;
        }
    }
    for (int i = 0; i < EITP__ISA_COUNT; i++) {
        if (strcmp(name, eitp__isa_name((eitp__isa)i)))
            continue;
        *isa = (eitp__isa)i;
        if (eitp__isa_available(*isa))
            return EITP_OK;
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "instruction set '%s' is not available on this processor and operating system; unset EITP_ISA", name);
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown instruction set '%s'; EITP_ISA is ref, avx2 or avx512",
                      name);
}

/* Where OpenBLAS, if it is compiled in, is the faster one: a table and not a measurement, since bits must not depend on the weather. */
static const int eitp__openblas_is_faster[EITP__ISA_COUNT] = {0, 1, 0};

/* Puts OpenBLAS's matrix product into the table where it was asked for, or is the faster one. */
static eitp_status eitp__choose_products(eitp__cpu *cpu, const char *name, eitp_error *error) {
    if (!name || !*name)
        name = getenv("EITP_PRODUCTS");
    if (!name || !*name) {
        if (eitp__openblas_is_faster[cpu->isa])
            eitp__register_openblas_kernels(&cpu->table);
        return EITP_OK;
    }
    if (!strcmp(name, "own"))
        return EITP_OK;
    if (strcmp(name, "openblas"))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown matrix products '%s'; EITP_PRODUCTS is own or openblas",
                          name);
    if (!eitp__register_openblas_kernels(&cpu->table))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "this build has no OpenBLAS; compile with -DEITP_WITH_OPENBLAS=1 and link with -lopenblas");
    return EITP_OK;
}

static eitp_status eitp__cpu_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                    eitp_error *error) {
    eitp__cpu *cpu;
    eitp__isa isa = EITP__ISA_REF;
    eitp_status status = eitp__choose_isa(config->isa, &isa, error);
    if (status)
        return status;
    if (config->threads < 0 || config->threads > 4096)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%d threads cannot be used; choose 1 to 4096, or 0 for all processors", config->threads);
    cpu = (eitp__cpu *)eitp__allocate(host, sizeof *cpu);
    if (!cpu)
        return eitp__fail_memory(error, sizeof *cpu, "the CPU backend");
    cpu->base.interface = eitp__cpu_backend();
    cpu->base.host = *host;
    cpu->isa = isa;
    cpu->threads = config->threads ? config->threads : eitp__thread_limit();
    if (!EITP__WITH_OPENMP && cpu->threads > 1) {
        eitp__log(host, EITP_LOG_WARNING, "this build has no OpenMP: 1 thread instead of %d; compile with -fopenmp",
                  cpu->threads);
        cpu->threads = 1;
    }
#ifndef __OPTIMIZE__
    eitp__log(host, EITP_LOG_WARNING, "this build is not optimised and will be slow; compile with -O2");
#endif
    eitp__register_ref_kernels(&cpu->table);
    if (isa >= EITP__ISA_AVX2)
        eitp__register_avx2_kernels(&cpu->table);
    if (isa >= EITP__ISA_AVX512)
        eitp__register_avx512_kernels(&cpu->table);
    status = eitp__choose_products(cpu, config->products, error);
    if (status) {
        eitp__release(host, cpu, sizeof *cpu);
        return status;
    }
    *backend = &cpu->base;
    return EITP_OK;
}

static void eitp__cpu_destroy(eitp__backend *backend) {
    eitp_host host = backend->host;
    eitp__release(&host, backend, sizeof(eitp__cpu));
}

static const char *eitp__matmul_set(const eitp__cpu *cpu) {
    return cpu->table.kernels[EITP__SLOT_MATMUL][EITP_F32].set;
}

static void eitp__cpu_describe(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    snprintf(text, size, "cpu, %d thread%s, kernels %s, matrix products %s", cpu->threads, cpu->threads == 1 ? "" : "s",
             eitp__isa_name(cpu->isa), eitp__matmul_set(cpu));
}

static void eitp__cpu_numerics(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    const char *set = eitp__matmul_set(cpu);
    int openblas = !strcmp(set, "openblas");
    snprintf(text, size, "cpu-%s-%s%s%s", eitp__isa_name(cpu->isa), set, openblas ? "." : "",
             openblas ? eitp__openblas_core() : "");
}

static const eitp__kernel *eitp__cpu_kernel(const eitp__cpu *cpu, const eitp__call *call) {
    return &cpu->table.kernels[call->slot][call->dtype];
}

static int eitp__cpu_supports(const eitp__backend *backend, eitp__slot slot, eitp_dtype dtype) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return cpu->table.kernels[slot][dtype].run != NULL;
}

static void *eitp__cpu_allocate(eitp__backend *backend, size_t size) {
    return eitp__allocate(&backend->host, size);
}

static void eitp__cpu_release(eitp__backend *backend, void *memory, size_t size) {
    eitp__release(&backend->host, memory, size);
}

static eitp_status eitp__cpu_copy(eitp__backend *backend, void *target, const void *source, size_t size,
                                  eitp_error *error) {
    (void)backend;
    (void)error;
    memcpy(target, source, size);
    return EITP_OK;
}

/* One thread's share of the workspace. */
static size_t eitp__thread_workspace(const eitp__kernel *kernel, const eitp__call *call) {
    size_t bytes = kernel->workspace ? kernel->workspace(call) : 0;
    return (bytes + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
}

static size_t eitp__cpu_workspace(const eitp__backend *backend, const eitp__call *call) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return eitp__thread_workspace(eitp__cpu_kernel(cpu, call), call) * (size_t)cpu->threads;
}

static int64_t eitp__ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t eitp__operand_columns(const eitp__operand *operand) {
    return operand->rank ? operand->shape[operand->rank - 1] : 1;
}

/* Items of a call, by its family. */
static int64_t eitp__call_items(const eitp__call *call, const eitp__kernel *kernel) {
    const eitp__operand *input = &call->inputs[0], *output = &call->outputs[0];
    int64_t columns;
    eitp__matmul product;
    switch (eitp__slot_family(call->slot)) {
    case EITP__FAMILY_ROWS:
        columns = eitp__operand_columns(input);
        return columns ? input->elements / columns : 0;
    case EITP__FAMILY_COLUMNS:
        return eitp__operand_columns(output);
    case EITP__FAMILY_LINES:
        columns = output->shape[call->integers[0]];
        return columns ? output->elements / columns : 0;
    case EITP__FAMILY_TILES:
        product = eitp__matmul_sizes(call);
        return product.batch * eitp__ceil_divide(product.m, kernel->tile_rows) *
               eitp__ceil_divide(product.n, kernel->tile_columns);
    case EITP__FAMILY_ATTENTION:
        return (call->inputs[1].elements - 1) * call->integers[0];
    case EITP__FAMILY_WHOLE:
        return 1;
    case EITP__FAMILY_FLAT:
    case EITP__FAMILY_BLOCKS:
    default:
        return output->elements;
    }
}

/* Elements that a piece should touch: enough to pay for handing it out, few enough to share. */
#define EITP__PIECE_ELEMENTS 16384

/*
 * Items in a piece, from the shapes alone. Flat pieces are multiples of 64 elements, so that no two threads write to one cache
 * line and vector kernels meet the same alignment in every piece.
 */
static int64_t eitp__piece_items(const eitp__call *call, int64_t items) {
    int64_t largest = 1, touched, piece;
    eitp__family family = eitp__slot_family(call->slot);
    if (family == EITP__FAMILY_TILES || family == EITP__FAMILY_ATTENTION || family == EITP__FAMILY_WHOLE)
        return 1;
    for (int i = 0; i < call->input_count; i++)
        largest = call->inputs[i].elements > largest ? call->inputs[i].elements : largest;
    for (int i = 0; i < call->output_count; i++)
        largest = call->outputs[i].elements > largest ? call->outputs[i].elements : largest;
    touched = eitp__ceil_divide(largest, items);
    piece = eitp__ceil_divide(EITP__PIECE_ELEMENTS, touched);
    if (family == EITP__FAMILY_FLAT || family == EITP__FAMILY_COLUMNS)
        piece = eitp__ceil_divide(piece, 64) * 64;
    return piece;
}

typedef struct eitp__cpu_work {
    const eitp__call *call;
    const eitp__kernel *kernel;
    int64_t items, piece;
    char *workspace;
    size_t thread_workspace;
} eitp__cpu_work;

static void eitp__cpu_piece(void *argument, int64_t index, int thread) {
    const eitp__cpu_work *work = (const eitp__cpu_work *)argument;
    int64_t begin = index * work->piece, end = begin + work->piece;
    if (end > work->items)
        end = work->items;
    work->kernel->run(work->call, begin, end,
                      work->workspace ? work->workspace + (size_t)thread * work->thread_workspace : NULL);
}

static eitp_status eitp__cpu_run(eitp__backend *backend, const eitp__call *calls, size_t count, void *workspace,
                                 eitp_error *error) {
    eitp__cpu *cpu = (eitp__cpu *)(void *)backend;
    (void)error;
    for (size_t i = 0; i < count; i++) {
        eitp__cpu_work work;
        work.call = &calls[i];
        work.kernel = eitp__cpu_kernel(cpu, work.call);
        work.items = eitp__call_items(work.call, work.kernel);
        if (work.items == 0)
            continue;
        work.piece = eitp__piece_items(work.call, work.items);
        work.workspace = (char *)workspace;
        work.thread_workspace = eitp__thread_workspace(work.kernel, work.call);
        eitp__parallel(cpu->threads, eitp__ceil_divide(work.items, work.piece), eitp__cpu_piece, &work);
    }
    return EITP_OK;
}

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "cpu",
        eitp__cpu_create,
        eitp__cpu_destroy,
        eitp__cpu_describe,
        eitp__cpu_numerics,
        eitp__cpu_supports,
        eitp__cpu_allocate,
        eitp__cpu_release,
        eitp__cpu_copy,
        eitp__cpu_copy,
        eitp__cpu_workspace,
        eitp__cpu_run,
    };
    return &interface;
}
/* <<backends/cpu/cpu.c */

/* >>src/tensor/context.c */
eitp_context_config eitp_context_config_default(void) {
    eitp_context_config config;
    memset(&config, 0, sizeof config);
    config.host = eitp_host_default();
    config.device = "auto";
    return config;
}

eitp_status eitp_context_create(const eitp_context_config *config, eitp_context **context, eitp_error *error) {
    eitp_context *made;
    eitp__backend_config backend;
    eitp_status status;
    *context = NULL;
    made = (eitp_context *)eitp__allocate(&config->host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a context");
    made->host = config->host;
    backend.threads = config->threads;
    backend.isa = config->isa;
    backend.products = config->products;
    status = eitp__backend_create(&made->host, config->device, &backend, &made->backend, error);
    if (status) {
        eitp__release(&config->host, made, sizeof *made);
        return status;
    }
    made->backend->interface->describe(made->backend, made->description, sizeof made->description);
    made->backend->interface->numerics(made->backend, made->numerics, sizeof made->numerics);
    *context = made;
    return EITP_OK;
}

void eitp_context_destroy(eitp_context *context) {
    eitp_host host;
    if (!context)
        return;
    host = context->host;
    for (size_t i = 0; i < context->segment_count; i++)
        context->backend->interface->release(context->backend, context->segments[i].memory, context->segments[i].size);
    if (context->arena.memory)
        context->backend->interface->release(context->backend, context->arena.memory, context->arena.size);
    for (size_t i = 0; i < context->variable_count; i++)
        eitp__release(&host, (void *)(uintptr_t)context->variables[i].info.name,
                      strlen(context->variables[i].info.name) + 1);
    eitp__release(&host, context->variables, context->variable_capacity * sizeof *context->variables);
    eitp__release(&host, context->segments, context->segment_capacity * sizeof *context->segments);
    context->backend->interface->destroy(context->backend);
    eitp__release(&host, context, sizeof *context);
}

const char *eitp_context_description(const eitp_context *context) {
    return context->description;
}

const char *eitp_context_numerics(const eitp_context *context) {
    return context->numerics;
}

eitp_host eitp_context_host(const eitp_context *context) {
    return context->host;
}

size_t eitp_variable_count(const eitp_context *context) {
    return context->variable_count;
}

eitp_variable eitp_variable_at(const eitp_context *context, size_t index) {
    return context->variables[index].info;
}

int64_t eitp_variable_find(const eitp_context *context, const char *name) {
    for (size_t i = 0; i < context->variable_count; i++) {
        if (!strcmp(context->variables[i].info.name, name))
            return (int64_t)i;
    }
    return -1;
}

static eitp_status eitp__variable_named(eitp_context *context, const char *name, eitp__variable **variable,
                                        eitp_error *error) {
    int64_t index = eitp_variable_find(context, name);
    if (index < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "there is no variable '%s' in this context", name);
    *variable = &context->variables[index];
    return EITP_OK;
}

eitp_status eitp_variable_set_decay(eitp_context *context, const char *name, int decay, eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (!status)
        variable->info.decay = decay;
    return status;
}

EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error) {
    eitp_variable *info;
    size_t size = eitp_dtype_size(dtype);
    char *copy;
    if (rank < 0 || rank > EITP_MAX_RANK || !size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s' has rank %d; at most %d is possible", name, rank,
                          EITP_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1 || !eitp__multiply_size(size, (size_t)shape[i], &size) || size > (size_t)INT64_MAX / 2)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s' has an impossible dimension %d: %lld", name, i,
                              (long long)shape[i]);
    }
    *index = eitp_variable_find(context, name);
    if (*index >= 0) {
        info = &context->variables[*index].info;
        if (info->role != role || info->dtype != dtype || info->rank != rank ||
            memcmp(info->shape, shape, (size_t)rank * sizeof *shape))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "variable '%s' exists with another role, dtype or shape; choose another name", name);
        return EITP_OK;
    }
    if (!eitp__reserve(&context->host, (void **)&context->variables, &context->variable_capacity,
                       context->variable_count + 1, sizeof *context->variables))
        return eitp__fail_memory(error, sizeof *context->variables, "the list of variables");
    copy = eitp__copy_text(&context->host, name);
    if (!copy)
        return eitp__fail_memory(error, strlen(name) + 1, "the name of a variable");
    *index = (int64_t)context->variable_count++;
    memset(&context->variables[*index], 0, sizeof *context->variables);
    info = &context->variables[*index].info;
    info->name = copy;
    info->role = role;
    info->dtype = dtype;
    info->rank = rank;
    memcpy(info->shape, shape, (size_t)rank * sizeof *shape);
    info->size = size;
    info->decay = role == EITP_PARAMETER && rank >= 2;
    return EITP_OK;
}

static size_t eitp__aligned(size_t size) {
    return (size + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
}

EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error) {
    size_t total = 0, offset = 0;
    char *memory;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (!context->variables[i].data &&
            !eitp__add_size(total, eitp__aligned(context->variables[i].info.size), &total))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the variables are larger than any memory");
    }
    if (!total)
        return EITP_OK;
    if (!eitp__reserve(&context->host, (void **)&context->segments, &context->segment_capacity,
                       context->segment_count + 1, sizeof *context->segments))
        return eitp__fail_memory(error, sizeof *context->segments, "the list of segments");
    memory = (char *)context->backend->interface->allocate(context->backend, total);
    if (!memory)
        return eitp__fail_memory(error, total, "parameters, gradients and optimizer state");
    context->segments[context->segment_count].memory = memory;
    context->segments[context->segment_count].size = total;
    context->segment_count++;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (context->variables[i].data)
            continue;
        context->variables[i].data = memory + offset;
        offset += eitp__aligned(context->variables[i].info.size);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error) {
    const eitp__backend_interface *interface = context->backend->interface;
    size_t old = context->arena.size;
    if (size <= old)
        return EITP_OK;
    /* The old arena goes first: its content is scratch, and the peak stays at the larger of the two. */
    if (context->arena.memory)
        interface->release(context->backend, context->arena.memory, old);
    context->arena.memory = interface->allocate(context->backend, size);
    context->arena.size = context->arena.memory ? size : 0;
    context->arena_generation++;
    if (context->arena.memory)
        return EITP_OK;
    if (old) {
        /* Plans that were made before must go on working. */
        context->arena.memory = interface->allocate(context->backend, old);
        context->arena.size = context->arena.memory ? old : 0;
    }
    return eitp__fail_memory(error, size, "the arena that activations live in");
}

static eitp_status eitp__variable_range(eitp_context *context, const char *name, size_t offset, size_t size,
                                        eitp__variable **variable, eitp_error *error) {
    eitp_status status = eitp__variable_named(context, name, variable, error);
    if (status)
        return status;
    if (offset > (*variable)->info.size || size > (*variable)->info.size - offset)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "bytes %zu to %zu are outside variable '%s', which has %zu",
                          offset, offset + size, name, (*variable)->info.size);
    return eitp__variables_allocate(context, error);
}

eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data, size_t size,
                                eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, size, &variable, error);
    if (status)
        return status;
    return context->backend->interface->upload(context->backend, (char *)variable->data + offset, data, size, error);
}

eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                               eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, size, &variable, error);
    if (status)
        return status;
    return context->backend->interface->download(context->backend, data, (char *)variable->data + offset, size, error);
}

/* Writes an F32 variable in small pieces made by `make(argument, first element, count, values)`. */
static eitp_status eitp__variable_generate(eitp_context *context, const char *name,
                                           void (*make)(const void *argument, uint64_t first, size_t count,
                                                        float *values),
                                           const void *argument, eitp_error *error) {
    float values[1024];
    const size_t piece = EITP__COUNT(values);
    eitp__variable *variable = NULL;
    size_t elements;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (status)
        return status;
    if (variable->info.dtype != EITP_F32)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "variable '%s' is %s; only f32 can be filled", name,
                          eitp_dtype_name(variable->info.dtype));
    elements = variable->info.size / sizeof *values;
    for (size_t i = 0; i < elements && !status; i += piece) {
        size_t count = elements - i < piece ? elements - i : piece;
        make(argument, i, count, values);
        status = eitp_variable_write(context, name, i * sizeof *values, values, count * sizeof *values, error);
    }
    return status;
}

static void eitp__make_constant(const void *argument, uint64_t first, size_t count, float *values) {
    (void)first;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)*(const double *)argument;
}

eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error) {
    return eitp__variable_generate(context, name, eitp__make_constant, &value, error);
}

/* FNV-1a: gives every name a key of its own, whatever order variables are made in. */
static uint64_t eitp__name_key(const char *name) {
    uint64_t key = 14695981039346656037u;
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * 1099511628211u;
    return key;
}

typedef struct eitp__normal {
    double mean, deviation;
    uint64_t seed, key;
} eitp__normal;

static void eitp__make_normal(const void *argument, uint64_t first, size_t count, float *values) {
    const eitp__normal *normal = (const eitp__normal *)argument;
    double pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            eitp__random_normal(normal->seed, normal->key, EITP__STREAM_INIT, (first + i) / 2, pair);
        values[i] = (float)(normal->mean + normal->deviation * pair[i % 2]);
    }
}

eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                      uint64_t seed, eitp_error *error) {
    eitp__normal normal;
    normal.mean = mean;
    normal.deviation = deviation;
    normal.seed = seed;
    normal.key = eitp__name_key(name);
    return eitp__variable_generate(context, name, eitp__make_normal, &normal, error);
}

size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role) {
    size_t bytes = 0;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (context->variables[i].info.role == role && context->variables[i].data)
            bytes += context->variables[i].info.size;
    }
    return bytes;
}

size_t eitp_context_arena_bytes(const eitp_context *context) {
    return context->arena.size;
}
/* <<src/tensor/context.c */

/* >>src/tensor/graph.c */
eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error) {
    *graph = (eitp_graph *)eitp__allocate(&context->host, sizeof **graph);
    if (!*graph)
        return eitp__fail_memory(error, sizeof **graph, "a graph");
    (*graph)->context = context;
    (*graph)->capacity = -1;
    return EITP_OK;
}

void eitp_graph_destroy(eitp_graph *graph) {
    const eitp_host *host;
    if (!graph)
        return;
    host = &graph->context->host;
    while (graph->blocks) {
        eitp__graph_block *block = graph->blocks;
        graph->blocks = block->next;
        eitp__release(host, block, block->size);
    }
    eitp__release(host, graph->tensors, graph->tensor_capacity * sizeof *graph->tensors);
    eitp__release(host, graph->nodes, graph->node_capacity * sizeof *graph->nodes);
    eitp__release(host, graph, sizeof *graph);
}

eitp_status eitp_graph_status(const eitp_graph *graph, eitp_error *error) {
    if (graph->error.status && error)
        *error = graph->error;
    return graph->error.status;
}

EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) {
    va_list arguments;
    if (graph->error.status)
        return;
    graph->error.status = status;
    va_start(arguments, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, arguments);
    va_end(arguments);
}

EITP__PRIVATE void *eitp__graph_allocate(eitp_graph *graph, size_t size) {
    enum { BLOCK = 64 * 1024 };
    size_t header = (sizeof(eitp__graph_block) + 63) / 64 * 64;
    void *memory;
    size = (size + 15) / 16 * 16;
    if (!graph->blocks || graph->blocks->size - graph->blocks->used < size) {
        eitp__graph_block *block = (eitp__graph_block *)eitp__allocate(&graph->context->host, BLOCK);
        if (!block) {
            eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %d bytes for the graph", (int)BLOCK);
            return NULL;
        }
        block->next = graph->blocks;
        block->size = BLOCK;
        block->used = header;
        graph->blocks = block;
    }
    memory = (char *)graph->blocks + graph->blocks->used;
    graph->blocks->used += size;
    return memory;
}

static eitp_tensor *eitp__tensor_create(eitp_graph *graph, eitp_dtype dtype, int rank, const int64_t *shape, int rows) {
    eitp_tensor *tensor;
    size_t elements = 1;
    if (rank < 0 || rank > EITP_MAX_RANK) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "a tensor of rank %d is not possible; at most %d is", rank,
                         EITP_MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1 || !eitp__multiply_size(elements, (size_t)shape[i], &elements) ||
            elements > (size_t)INT64_MAX / 16) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "a tensor with dimension %d of %lld is not possible", i,
                             (long long)shape[i]);
            return NULL;
        }
    }
    if (!eitp__reserve(&graph->context->host, (void **)&graph->tensors, &graph->tensor_capacity,
                       graph->tensor_count + 1, sizeof *graph->tensors)) {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate the graph's list of tensors");
        return NULL;
    }
    tensor = (eitp_tensor *)eitp__graph_allocate(graph, sizeof *tensor);
    if (!tensor)
        return NULL;
    tensor->graph = graph;
    tensor->id = (int)graph->tensor_count;
    tensor->storage = tensor;
    tensor->variable = -1;
    tensor->dtype = dtype;
    tensor->rank = rank;
    memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
    tensor->rows = rows;
    graph->tensors[graph->tensor_count++] = tensor;
    return tensor;
}

static eitp_tensor *eitp__leaf_create(eitp_graph *graph, eitp__leaf leaf, const char *name, eitp_dtype dtype, int rank,
                                      const int64_t *shape) {
    eitp_tensor *tensor;
    if (graph->error.status)
        return NULL;
    tensor = eitp__tensor_create(graph, dtype, rank, shape, 0);
    if (tensor) {
        tensor->leaf = leaf;
        snprintf(tensor->name, sizeof tensor->name, "%s", name);
    }
    return tensor;
}

eitp_tensor *eitp_input(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape) {
    return eitp__leaf_create(graph, EITP__INPUT, name, dtype, rank, shape);
}

eitp_tensor *eitp_input_rows(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp_tensor *tensor = eitp_input(graph, name, dtype, rank, shape);
    if (!tensor)
        return NULL;
    if (rank < 1 || (graph->capacity >= 0 && graph->capacity != shape[0])) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input '%s' has %lld rows, but the graph's capacity is %lld", name,
                         rank < 1 ? 0LL : (long long)shape[0], (long long)graph->capacity);
        return NULL;
    }
    graph->capacity = shape[0];
    tensor->rows = 1;
    return tensor;
}

eitp_tensor *eitp_variable_tensor(eitp_graph *graph, const char *name, eitp_role role, eitp_dtype dtype, int rank,
                                  const int64_t *shape) {
    eitp_tensor *tensor;
    eitp_error error;
    int64_t index = -1;
    if (graph->error.status)
        return NULL;
    if (eitp__variable_declare(graph->context, name, role, dtype, rank, shape, &index, &error)) {
        eitp__graph_fail(graph, error.status, "%s", error.message);
        return NULL;
    }
    /* One tensor for a variable in a graph, so that all its uses add to one gradient. */
    for (size_t i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i]->leaf == EITP__VARIABLE && graph->tensors[i]->variable == index)
            return graph->tensors[i];
    }
    tensor = eitp__leaf_create(graph, EITP__VARIABLE, name, dtype, rank, shape);
    if (tensor)
        tensor->variable = index;
    return tensor;
}

eitp_tensor *eitp_parameter(eitp_graph *graph, const char *name, int rank, const int64_t *shape) {
    return eitp_variable_tensor(graph, name, EITP_PARAMETER, EITP_F32, rank, shape);
}

eitp_tensor *eitp_output(eitp_tensor *tensor) {
    if (tensor)
        tensor->is_output = 1;
    return tensor;
}

int eitp_tensor_rank(const eitp_tensor *tensor) {
    return tensor->rank;
}

int64_t eitp_tensor_dimension(const eitp_tensor *tensor, int dimension) {
    return tensor->shape[dimension < 0 ? tensor->rank + dimension : dimension];
}

int64_t eitp_tensor_elements(const eitp_tensor *tensor) {
    return eitp__elements(tensor);
}

eitp_dtype eitp_tensor_dtype(const eitp_tensor *tensor) {
    return tensor->dtype;
}

eitp_graph *eitp_tensor_graph(const eitp_tensor *tensor) {
    return tensor->graph;
}

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph) {
    return &graph->context->host;
}

EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor) {
    return tensor->graph->context->variables[tensor->variable].info.name;
}

EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor) {
    const eitp_variable *info;
    if (tensor->leaf != EITP__VARIABLE)
        return 0;
    info = &tensor->graph->context->variables[tensor->variable].info;
    return info->role == EITP_PARAMETER && info->dtype == EITP_F32;
}

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->shape[i];
    return elements;
}

EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor) {
    return (size_t)eitp__elements(tensor) * eitp_dtype_size(tensor->dtype);
}

EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b) {
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "[");
    for (int i = 0; i < tensor->rank; i++) {
        used = strlen(text);
        snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)tensor->shape[i]);
    }
    used = strlen(text);
    snprintf(text + used, size - used, "]");
    return text;
}

/* Refuses inputs that are missing or of another graph. */
static int eitp__check_inputs(eitp_graph *graph, const eitp__op_info *info, eitp_tensor *const *inputs, int count) {
    if (count < info->min_inputs || count > info->max_inputs) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "%s takes %d to %d inputs, not %d", info->name, info->min_inputs,
                         info->max_inputs, count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (!inputs[i] && i < info->min_inputs) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input %d of %s is NULL", i, info->name);
            return 0;
        }
        if (inputs[i] && inputs[i]->graph != graph) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input %d of %s belongs to another graph", i, info->name);
            return 0;
        }
    }
    return 1;
}

EITP__PRIVATE eitp__node *eitp__node_create(eitp_graph *graph, eitp__op_code op, eitp_tensor *const *inputs,
                                            int input_count, const eitp__attributes *attributes) {
    const eitp__op_info *info = eitp__op(op);
    eitp__node *node;
    eitp_error error = EITP__ZERO;
    if (!graph || graph->error.status || !eitp__check_inputs(graph, info, inputs, input_count))
        return NULL;
    if (!eitp__reserve(&graph->context->host, (void **)&graph->nodes, &graph->node_capacity, graph->node_count + 1,
                       sizeof *graph->nodes)) {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate the graph's list of nodes");
        return NULL;
    }
    node = (eitp__node *)eitp__graph_allocate(graph, sizeof *node);
    if (!node)
        return NULL;
    node->graph = graph;
    node->id = (int)graph->node_count;
    node->op = op;
    node->order = node->id;
    node->input_count = input_count;
    for (int i = 0; i < input_count; i++)
        node->inputs[i] = inputs[i];
    if (attributes)
        node->attributes = *attributes;
    if (info->shape(node, &error)) {
        eitp__graph_fail(graph, error.status, "%s: %s", info->name, error.message);
        return NULL;
    }
    for (int i = 0; i < node->output_count; i++) {
        if (info->shares[i])
            node->outputs[i]->storage = node->inputs[info->shares[i] - 1]->storage;
    }
    graph->nodes[graph->node_count++] = node;
    return node;
}

EITP__PRIVATE eitp_tensor *eitp__apply(eitp__op_code op, eitp_tensor *const *inputs, int input_count,
                                       const eitp__attributes *attributes) {
    eitp_graph *graph = NULL;
    eitp__node *node;
    for (int i = 0; i < input_count && !graph; i++)
        graph = inputs[i] ? inputs[i]->graph : NULL;
    node = eitp__node_create(graph, op, inputs, input_count, attributes);
    return node ? node->outputs[0] : NULL;
}

EITP__PRIVATE eitp_status eitp__node_output(eitp__node *node, eitp_dtype dtype, int rank, const int64_t *shape,
                                            int rows, eitp_error *error) {
    eitp_tensor *tensor = eitp__tensor_create(node->graph, dtype, rank, shape, rows);
    if (!tensor) {
        if (error)
            *error = node->graph->error;
        return node->graph->error.status;
    }
    tensor->node = node;
    node->outputs[node->output_count++] = tensor;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__node_output_like(eitp__node *node, const eitp_tensor *tensor, eitp_error *error) {
    return eitp__node_output(node, tensor->dtype, tensor->rank, tensor->shape, tensor->rows, error);
}
/* <<src/tensor/graph.c */

/* >>src/tensor/ops_elementwise.c */
/* Values and element-by-element ops: builders, shapes, gradients. */

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) {
    va_list arguments;
    if (condition)
        return EITP_OK;
    if (error) {
        error->status = EITP_ERROR_ARGUMENT;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return EITP_ERROR_ARGUMENT;
}

/* ---- Shapes ---- */

EITP__PRIVATE eitp_status eitp__shape_fill(eitp__node *node, eitp_error *error) {
    return eitp__node_output(node, node->attributes.dtype, node->attributes.rank, node->attributes.shape, 0, error);
}

EITP__PRIVATE eitp_status eitp__shape_arange(eitp__node *node, eitp_error *error) {
    return eitp__shape_fill(node, error);
}

EITP__PRIVATE eitp_status eitp__shape_same(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE eitp_status eitp__shape_unary(eitp__node *node, eitp_error *error) {
    eitp_status status =
        eitp__require(eitp__is_floating(node->inputs[0]->dtype), error, "the operand is %s; cast it to a floating type",
                      eitp_dtype_name(node->inputs[0]->dtype));
    return status ? status : eitp__shape_same(node, error);
}

EITP__PRIVATE eitp_status eitp__shape_cast(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    return eitp__node_output(node, node->attributes.dtype, x->rank, x->shape, x->rows, error);
}

/* The NumPy broadcast of the inputs: its shape, and whether its leading dimension is the capacity. */
static eitp_status eitp__broadcast_shape(const eitp__node *node, int *rank, int64_t shape[EITP_MAX_RANK], int *rows,
                                         eitp_error *error) {
    char a[100], b[100];
    *rank = 0;
    *rows = 0;
    for (int i = 0; i < node->input_count; i++)
        *rank = node->inputs[i]->rank > *rank ? node->inputs[i]->rank : *rank;
    for (int d = 0; d < *rank; d++)
        shape[d] = 1;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        for (int d = 0; d < x->rank; d++) {
            int64_t *extent = &shape[*rank - x->rank + d];
            if (*extent != x->shape[d] && *extent != 1 && x->shape[d] != 1)
                return eitp__require(0, error, "shapes %s and %s do not broadcast",
                                     eitp__shape_text(node->inputs[0], a, sizeof a), eitp__shape_text(x, b, sizeof b));
            if (x->shape[d] > *extent)
                *extent = x->shape[d];
        }
        if (x->rows && x->rank == *rank)
            *rows = 1;
    }
    for (int i = 0; i < node->input_count && *rows; i++) {
        const eitp_tensor *x = node->inputs[i];
        if (x->rows ? x->rank != *rank : x->rank == *rank && x->shape[0] != 1)
            return eitp__require(0, error, "one operand has a capacity of rows and the other a fixed number");
    }
    return EITP_OK;
}

static eitp_status eitp__broadcast_output(eitp__node *node, eitp_dtype dtype, eitp_error *error) {
    int rank, rows;
    int64_t shape[EITP_MAX_RANK];
    eitp_status status = eitp__broadcast_shape(node, &rank, shape, &rows, error);
    return status ? status : eitp__node_output(node, dtype, rank, shape, rows, error);
}

static eitp_status eitp__same_dtype(const eitp_tensor *a, const eitp_tensor *b, eitp_error *error) {
    return eitp__require(a->dtype == b->dtype, error, "the operands are %s and %s; cast one of them",
                         eitp_dtype_name(a->dtype), eitp_dtype_name(b->dtype));
}

EITP__PRIVATE eitp_status eitp__shape_binary(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[0], node->inputs[1], error);
    return status ? status : eitp__broadcast_output(node, node->inputs[0]->dtype, error);
}

EITP__PRIVATE eitp_status eitp__shape_compare(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[0], node->inputs[1], error);
    return status ? status : eitp__broadcast_output(node, EITP_U8, error);
}

EITP__PRIVATE eitp_status eitp__shape_where(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[1], node->inputs[2], error);
    if (!status)
        status = eitp__require(node->inputs[0]->dtype == EITP_U8, error, "the condition is %s; it must be u8",
                               eitp_dtype_name(node->inputs[0]->dtype));
    return status ? status : eitp__broadcast_output(node, node->inputs[1]->dtype, error);
}

EITP__PRIVATE double eitp__flops_elements(const eitp__node *node) {
    return (double)eitp__elements(node->outputs[0]);
}

/* ---- Builders ---- */

static eitp_tensor *eitp__unary(eitp__op_code op, eitp_tensor *x, double real0, double real1) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.reals[0] = real0;
    attributes.reals[1] = real1;
    return eitp__apply(op, &x, 1, &attributes);
}

static eitp_tensor *eitp__binary(eitp__op_code op, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    return eitp__apply(op, inputs, 2, NULL);
}

eitp_tensor *eitp_fill(eitp_graph *graph, eitp_dtype dtype, int rank, const int64_t *shape, double value) {
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.reals[0] = value;
    attributes.dtype = dtype;
    attributes.rank = rank;
    if (rank >= 0 && rank <= EITP_MAX_RANK)
        memcpy(attributes.shape, shape, (size_t)rank * sizeof *shape);
    node = eitp__node_create(graph, EITP__OP_FILL, NULL, 0, &attributes);
    return node ? node->outputs[0] : NULL;
}

eitp_tensor *eitp_arange(eitp_graph *graph, eitp_dtype dtype, int64_t count) {
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.dtype = dtype;
    attributes.rank = 1;
    attributes.shape[0] = count;
    node = eitp__node_create(graph, EITP__OP_ARANGE, NULL, 0, &attributes);
    return node ? node->outputs[0] : NULL;
}

eitp_tensor *eitp_negate(eitp_tensor *x) {
    return eitp__unary(EITP__OP_NEGATE, x, 0, 0);
}

eitp_tensor *eitp_exp(eitp_tensor *x) {
    return eitp__unary(EITP__OP_EXP, x, 0, 0);
}

eitp_tensor *eitp_log(eitp_tensor *x) {
    return eitp__unary(EITP__OP_LOG, x, 0, 0);
}

eitp_tensor *eitp_sqrt(eitp_tensor *x) {
    return eitp__unary(EITP__OP_SQRT, x, 0, 0);
}

eitp_tensor *eitp_tanh(eitp_tensor *x) {
    return eitp__unary(EITP__OP_TANH, x, 0, 0);
}

eitp_tensor *eitp_sigmoid(eitp_tensor *x) {
    return eitp__unary(EITP__OP_SIGMOID, x, 0, 0);
}

eitp_tensor *eitp_relu(eitp_tensor *x) {
    return eitp__unary(EITP__OP_RELU, x, 0, 0);
}

eitp_tensor *eitp_erf(eitp_tensor *x) {
    return eitp__unary(EITP__OP_ERF, x, 0, 0);
}

eitp_tensor *eitp_affine(eitp_tensor *x, double scale, double shift) {
    return eitp__unary(EITP__OP_AFFINE, x, scale, shift);
}

eitp_tensor *eitp_clamp(eitp_tensor *x, double low, double high) {
    return eitp__unary(EITP__OP_CLAMP, x, low, high);
}

eitp_tensor *eitp_cast(eitp_tensor *x, eitp_dtype dtype) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.dtype = dtype;
    return x && x->dtype == dtype ? x : eitp__apply(EITP__OP_CAST, &x, 1, &attributes);
}

eitp_tensor *eitp_add(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_ADD, a, b);
}

eitp_tensor *eitp_subtract(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_SUBTRACT, a, b);
}

eitp_tensor *eitp_multiply(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_MULTIPLY, a, b);
}

eitp_tensor *eitp_divide(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_DIVIDE, a, b);
}

eitp_tensor *eitp_less(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_LESS, a, b);
}

eitp_tensor *eitp_equal(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_EQUAL, a, b);
}

eitp_tensor *eitp_where(eitp_tensor *condition, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[3];
    inputs[0] = condition;
    inputs[1] = a;
    inputs[2] = b;
    return eitp__apply(EITP__OP_WHERE, inputs, 3, NULL);
}

eitp_tensor *eitp_stop_gradient(eitp_tensor *x) {
    return eitp__apply(EITP__OP_STOP_GRADIENT, &x, 1, NULL);
}

EITP__PRIVATE eitp_tensor *eitp__scalar_like(const eitp_tensor *x, double value) {
    int64_t one = 1;
    return x ? eitp_fill(x->graph, x->dtype, 1, &one, value) : NULL;
}

EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value) {
    eitp_tensor *always;
    int64_t one = 1;
    if (!x)
        return NULL;
    if (!x->rows)
        return eitp_fill(x->graph, x->dtype, x->rank, x->shape, value);
    /* Choosing against x keeps its rows; what is not chosen is not read. */
    always = eitp_fill(x->graph, EITP_U8, 1, &one, 1);
    return eitp_where(always, eitp__scalar_like(x, value), x);
}

/* ---- Gradients ---- */

EITP__PRIVATE eitp_tensor *eitp__sum_to(eitp_tensor *x, const eitp_tensor *like) {
    unsigned dimensions = 0;
    int extra;
    eitp_tensor *sum = x;
    if (!x || eitp__same_shape(x, like))
        return x;
    extra = x->rank - like->rank;
    for (int d = 0; d < x->rank; d++) {
        if (d < extra || (like->shape[d - extra] == 1 && x->shape[d] != 1))
            dimensions |= 1u << d;
    }
    if (dimensions)
        sum = eitp_sum(x, dimensions, 1);
    return extra ? eitp_reshape(sum, like->rank, like->shape) : sum;
}

EITP__PRIVATE void eitp__add_gradient(eitp_tensor **dx, eitp_tensor *contribution) {
    *dx = *dx && contribution ? eitp_add(*dx, contribution) : contribution ? contribution : *dx;
}

EITP__PRIVATE void eitp__gradient_none(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    (void)node;
    (void)dy;
    (void)dx;
}

EITP__PRIVATE void eitp__gradient_negate(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    (void)node;
    eitp__add_gradient(&dx[0], eitp_negate(dy[0]));
}

EITP__PRIVATE void eitp__gradient_exp(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], node->outputs[0]));
}

EITP__PRIVATE void eitp__gradient_log(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_divide(dy[0], node->inputs[0]));
}

EITP__PRIVATE void eitp__gradient_sqrt(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_divide(eitp_affine(dy[0], 0.5, 0), node->outputs[0]));
}

/* 1 - y^2 */
EITP__PRIVATE void eitp__gradient_tanh(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *y = node->outputs[0];
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_affine(eitp_multiply(y, y), -1, 1)));
}

/* y (1 - y) */
EITP__PRIVATE void eitp__gradient_sigmoid(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *y = node->outputs[0];
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_multiply(y, eitp_affine(y, -1, 1))));
}

EITP__PRIVATE void eitp__gradient_relu(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *zero = eitp__scalar_like(node->inputs[0], 0);
    eitp__add_gradient(&dx[0], eitp_where(eitp_less(zero, node->inputs[0]), dy[0], zero));
}

/* 2 / sqrt(pi) exp(-x^2) */
EITP__PRIVATE void eitp__gradient_erf(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *bell = eitp_exp(eitp_negate(eitp_multiply(x, x)));
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_affine(bell, 1.1283791670955126, 0)));
}

EITP__PRIVATE void eitp__gradient_affine(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_affine(dy[0], node->attributes.reals[0], 0));
}

EITP__PRIVATE void eitp__gradient_clamp(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *zero = eitp__scalar_like(x, 0);
    eitp_tensor *below = eitp_less(x, eitp__scalar_like(x, node->attributes.reals[0]));
    eitp_tensor *above = eitp_less(eitp__scalar_like(x, node->attributes.reals[1]), x);
    eitp__add_gradient(&dx[0], eitp_where(below, zero, eitp_where(above, zero, dy[0])));
}

EITP__PRIVATE void eitp__gradient_cast(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    if (eitp__is_floating(node->inputs[0]->dtype) && eitp__is_floating(node->outputs[0]->dtype))
        eitp__add_gradient(&dx[0], eitp_cast(dy[0], node->inputs[0]->dtype));
}

EITP__PRIVATE void eitp__gradient_add(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(dy[0], node->inputs[1]));
}

EITP__PRIVATE void eitp__gradient_subtract(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_negate(dy[0]), node->inputs[1]));
}

EITP__PRIVATE void eitp__gradient_multiply(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(eitp_multiply(dy[0], node->inputs[1]), node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_multiply(dy[0], node->inputs[0]), node->inputs[1]));
}

EITP__PRIVATE void eitp__gradient_divide(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *da = eitp_divide(dy[0], node->inputs[1]);
    eitp__add_gradient(&dx[0], eitp__sum_to(da, node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_negate(eitp_multiply(da, node->outputs[0])), node->inputs[1]));
}

EITP__PRIVATE void eitp__gradient_where(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *zero = eitp__scalar_like(dy[0], 0);
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_where(node->inputs[0], dy[0], zero), node->inputs[1]));
    eitp__add_gradient(&dx[2], eitp__sum_to(eitp_where(node->inputs[0], zero, dy[0]), node->inputs[2]));
}
/* <<src/tensor/ops_elementwise.c */

/* >>src/tensor/ops_shape.c */
/* Ops that move elements: builders, shapes, gradients. */

/* A dimension counted from the end becomes one counted from the start; -1 where there is no such dimension. */
static int eitp__dimension(const eitp_tensor *x, int dimension) {
    int index = dimension < 0 ? x->rank + dimension : dimension;
    return index >= 0 && index < x->rank ? index : -1;
}

/* As above, with the graph's error set. */
static int eitp__checked_dimension(eitp_tensor *x, int dimension, const char *op) {
    int index = eitp__dimension(x, dimension);
    if (index < 0)
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d has no dimension %d", op, x->rank,
                         dimension);
    return index;
}

static eitp_status eitp__refuse_rows(int condition, eitp_error *error) {
    return eitp__require(!condition, error, "the leading dimension varies from run to run and cannot be moved or cut");
}

EITP__PRIVATE eitp_status eitp__shape_reshape(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    eitp__attributes *attributes = &node->attributes;
    int64_t known = 1, elements = eitp__elements(x);
    int unknown = -1, keeps_rows;
    char from[100];
    eitp_status status;
    for (int d = 0; d < attributes->rank; d++) {
        if (attributes->shape[d] == -1 && unknown < 0)
            unknown = d;
        else if (attributes->shape[d] < 1 || known > elements / attributes->shape[d])
            return eitp__require(0, error, "%s cannot take the shape that is asked for",
                                 eitp__shape_text(x, from, sizeof from));
        else
            known *= attributes->shape[d];
    }
    if (unknown >= 0)
        attributes->shape[unknown] = elements / known;
    status = eitp__require(unknown >= 0 ? elements % known == 0 : known == elements, error,
                           "%s cannot take the shape that is asked for", eitp__shape_text(x, from, sizeof from));
    keeps_rows = attributes->rank > 0 && x->rank > 0 && attributes->shape[0] == x->shape[0];
    if (!status)
        status = eitp__refuse_rows(x->rows && !keeps_rows, error);
    return status ? status : eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_broadcast(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    int extra = attributes->rank - x->rank;
    char from[100];
    int fits = extra >= 0;
    for (int d = 0; d < x->rank && fits; d++)
        fits = x->shape[d] == 1 || x->shape[d] == attributes->shape[d + extra];
    if (!fits)
        return eitp__require(0, error, "%s does not broadcast to the shape that is asked for",
                             eitp__shape_text(x, from, sizeof from));
    if (x->rows && extra)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_permute(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    unsigned seen = 0;
    eitp_status status;
    for (int d = 0; d < x->rank; d++) {
        int64_t from = node->attributes.integers[d];
        status = eitp__require(from >= 0 && from < x->rank && !(seen & (1u << from)), error,
                               "the order is no permutation of the %d dimensions", x->rank);
        if (status)
            return status;
        seen |= 1u << from;
        shape[d] = x->shape[from];
    }
    status = eitp__refuse_rows(x->rows && node->attributes.integers[0] != 0, error);
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_slice(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    for (int d = 0; d < x->rank; d++) {
        int64_t begin = attributes->integers[d], extent = attributes->shape[d];
        eitp_status status = eitp__require(begin >= 0 && extent >= 1 && begin <= x->shape[d] - extent, error,
                                           "%lld elements from %lld on are outside dimension %d, which has %lld",
                                           (long long)extent, (long long)begin, d, (long long)x->shape[d]);
        if (!status && d == 0)
            status = eitp__refuse_rows(x->rows && extent != x->shape[0], error);
        if (status)
            return status;
    }
    return eitp__node_output(node, x->dtype, x->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_pad(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    for (int d = 0; d < x->rank; d++) {
        int64_t before = attributes->integers[d], extent = attributes->shape[d];
        eitp_status status = eitp__require(before >= 0 && before <= extent - x->shape[d], error,
                                           "a padding is negative in dimension %d", d);
        if (!status && d == 0)
            status = eitp__refuse_rows(x->rows && extent != x->shape[0], error);
        if (status)
            return status;
    }
    return eitp__node_output(node, x->dtype, x->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_concat(eitp__node *node, eitp_error *error) {
    const eitp_tensor *first = node->inputs[0];
    int along = (int)node->attributes.integers[0];
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    memcpy(shape, first->shape, sizeof shape);
    shape[along] = 0;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        int fits = x->rank == first->rank && x->dtype == first->dtype && x->rows == first->rows;
        for (int d = 0; d < first->rank && fits; d++)
            fits = d == along || x->shape[d] == first->shape[d];
        if (!fits)
            return eitp__require(0, error, "%s and %s cannot be joined along dimension %d",
                                 eitp__shape_text(first, a, sizeof a), eitp__shape_text(x, b, sizeof b), along);
        shape[along] += x->shape[along];
    }
    if (first->rows && along == 0)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, first->dtype, first->rank, shape, first->rows, error);
}

static eitp_status eitp__check_indices(const eitp_tensor *x, const eitp_tensor *indices, int along, eitp_error *error) {
    char a[100], b[100];
    int fits = indices->dtype == EITP_I32 && x->rank == indices->rank && x->rows == indices->rows;
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == along || x->shape[d] == indices->shape[d];
    return eitp__require(fits, error, "%s %s cannot be indexed by %s %s along dimension %d", eitp_dtype_name(x->dtype),
                         eitp__shape_text(x, a, sizeof a), eitp_dtype_name(indices->dtype),
                         eitp__shape_text(indices, b, sizeof b), along);
}

EITP__PRIVATE eitp_status eitp__shape_gather(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *indices = node->inputs[1];
    int along = (int)node->attributes.integers[0];
    /* Along dimension 0, x is a table and rows are those of the indices. */
    int rows = along == 0 ? x->rows : indices->rows;
    eitp_status status = along == 0 ? eitp__refuse_rows(x->rows || indices->rows, error) : EITP_OK;
    if (!status)
        status = eitp__check_indices(x, indices, along, error);
    return status ? status : eitp__node_output(node, x->dtype, indices->rank, indices->shape, rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_scatter_add(eitp__node *node, eitp_error *error) {
    const eitp_tensor *indices = node->inputs[0], *x = node->inputs[1];
    int along = (int)node->attributes.integers[0];
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    eitp_status status = eitp__require(indices->dtype == EITP_I32 && eitp__same_shape(x, indices), error,
                                       "values %s and indices %s must have one shape", eitp__shape_text(x, a, sizeof a),
                                       eitp__shape_text(indices, b, sizeof b));
    if (!status)
        status = eitp__refuse_rows(along == 0 && (x->rows || indices->rows), error);
    memcpy(shape, x->shape, sizeof shape);
    shape[along] = node->attributes.integers[1];
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, x->rows, error);
}

/* ---- Builders ---- */

/* The result's shape as an attribute; 0, with the graph's error set, where there can be no such shape. */
static int eitp__take_shape(eitp_tensor *x, int rank, const int64_t *shape, eitp__attributes *attributes,
                            const char *op) {
    if (!x)
        return 0;
    if (rank < 0 || rank > EITP_MAX_RANK) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d is not possible; at most %d is", op,
                         rank, EITP_MAX_RANK);
        return 0;
    }
    attributes->rank = rank;
    for (int d = 0; d < rank; d++)
        attributes->shape[d] = shape[d];
    return 1;
}

eitp_tensor *eitp_reshape(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__take_shape(x, rank, shape, &attributes, "reshape"))
        return NULL;
    return eitp__apply(EITP__OP_RESHAPE, &x, 1, &attributes);
}

eitp_tensor *eitp_broadcast(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__take_shape(x, rank, shape, &attributes, "broadcast"))
        return NULL;
    return eitp__apply(EITP__OP_BROADCAST, &x, 1, &attributes);
}

eitp_tensor *eitp_permute(eitp_tensor *x, const int *order) {
    eitp__attributes attributes = EITP__ZERO;
    if (!x)
        return NULL;
    for (int d = 0; d < x->rank; d++)
        attributes.integers[d] = order[d];
    return eitp__apply(EITP__OP_PERMUTE, &x, 1, &attributes);
}

eitp_tensor *eitp_transpose(eitp_tensor *x) {
    int order[EITP_MAX_RANK];
    if (!x)
        return NULL;
    if (x->rank < 2) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "transpose: a tensor of rank %d has no two dimensions",
                         x->rank);
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        order[d] = d;
    order[x->rank - 1] = x->rank - 2;
    order[x->rank - 2] = x->rank - 1;
    return eitp_permute(x, order);
}

eitp_tensor *eitp_slice(eitp_tensor *x, int dimension, int64_t begin, int64_t end) {
    eitp__attributes attributes = EITP__ZERO;
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "slice")) < 0)
        return NULL;
    if (begin < 0 || begin >= end || end > x->shape[along]) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "slice: %lld to %lld is outside dimension %d, which has %lld",
                         (long long)begin, (long long)end, along, (long long)x->shape[along]);
        return NULL;
    }
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[along] = begin;
    attributes.shape[along] = end - begin;
    return eitp__apply(EITP__OP_SLICE, &x, 1, &attributes);
}

eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after) {
    eitp__attributes attributes = EITP__ZERO;
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "pad")) < 0)
        return NULL;
    if (before < 0 || after < 0 || before > INT64_MAX / 16 || after > INT64_MAX / 16) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "pad: %lld zeros before and %lld after are not possible",
                         (long long)before, (long long)after);
        return NULL;
    }
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[along] = before;
    attributes.shape[along] += before + after;
    return eitp__apply(EITP__OP_PAD, &x, 1, &attributes);
}

eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *joined = count > 0 ? tensors[0] : NULL;
    int along;
    if (!joined || (along = eitp__checked_dimension(joined, dimension, "concat")) < 0)
        return NULL;
    attributes.integers[0] = along;
    /* A node takes a few inputs at a time; the first of each is what was joined so far. */
    for (int i = 1; i < count && joined;) {
        eitp_tensor *inputs[EITP__MAX_INPUTS];
        int n = 0;
        inputs[n++] = joined;
        while (i < count && n < EITP__MAX_INPUTS)
            inputs[n++] = tensors[i++];
        for (int j = 0; j < n; j++) {
            if (!inputs[j])
                return NULL;
        }
        joined = eitp__apply(EITP__OP_CONCAT, inputs, n, &attributes);
    }
    return joined;
}

eitp_tensor *eitp_gather(eitp_tensor *x, eitp_tensor *indices, int dimension) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "gather")) < 0)
        return NULL;
    attributes.integers[0] = along;
    inputs[0] = x;
    inputs[1] = indices;
    return eitp__apply(EITP__OP_GATHER, inputs, 2, &attributes);
}

eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "scatter_add")) < 0)
        return NULL;
    attributes.integers[0] = along;
    attributes.integers[1] = extent;
    inputs[0] = indices;
    inputs[1] = x;
    return eitp__apply(EITP__OP_SCATTER_ADD, inputs, 2, &attributes);
}

/* ---- Gradients ---- */

EITP__PRIVATE void eitp__gradient_reshape(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_reshape(dy[0], node->inputs[0]->rank, node->inputs[0]->shape));
}

EITP__PRIVATE void eitp__gradient_broadcast(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
}

EITP__PRIVATE void eitp__gradient_permute(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int inverse[EITP_MAX_RANK];
    for (int d = 0; d < node->inputs[0]->rank; d++)
        inverse[node->attributes.integers[d]] = d;
    eitp__add_gradient(&dx[0], eitp_permute(dy[0], inverse));
}

EITP__PRIVATE void eitp__gradient_slice(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_PAD, dy, 1, &attributes));
}

EITP__PRIVATE void eitp__gradient_pad(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_SLICE, dy, 1, &attributes));
}

EITP__PRIVATE void eitp__gradient_concat(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int along = (int)node->attributes.integers[0];
    int64_t begin = 0;
    for (int i = 0; i < node->input_count; i++) {
        int64_t extent = node->inputs[i]->shape[along];
        eitp__add_gradient(&dx[i], eitp_slice(dy[0], along, begin, begin + extent));
        begin += extent;
    }
}

EITP__PRIVATE void eitp__gradient_gather(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int along = (int)node->attributes.integers[0];
    eitp__add_gradient(&dx[0], eitp_scatter_add(dy[0], node->inputs[1], along, node->inputs[0]->shape[along]));
}

EITP__PRIVATE void eitp__gradient_scatter_add(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[1], eitp_gather(dy[0], node->inputs[0], (int)node->attributes.integers[0]));
}
/* <<src/tensor/ops_shape.c */

/* >>src/tensor/ops_reduce.c */
/* Reductions: builders, shapes, gradients. */

EITP__PRIVATE eitp_status eitp__shape_reduce(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    int reduces_rows = (int)(node->attributes.integers[0] & 1);
    eitp_status status = eitp__require(eitp__is_floating(x->dtype), error,
                                       "the operand is %s; cast it to a floating type", eitp_dtype_name(x->dtype));
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < x->rank; d++) {
        if (node->attributes.integers[0] & (1 << d))
            shape[d] = 1;
    }
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, x->rows && !reduces_rows, error);
}

static eitp_tensor *eitp__reduce(eitp__op_code op, eitp_tensor *x, unsigned dimensions, int keep) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *y;
    int64_t shape[EITP_MAX_RANK];
    int rank = 0;
    if (!x)
        return NULL;
    dimensions &= (1u << x->rank) - 1;
    attributes.integers[0] = dimensions;
    y = eitp__apply(op, &x, 1, &attributes);
    if (!y || keep)
        return y;
    for (int d = 0; d < x->rank; d++) {
        if (!(dimensions & (1u << d)))
            shape[rank++] = x->shape[d];
    }
    /* A sum over everything is [1]: the smallest shape that an input or a loss has. */
    if (!rank)
        shape[rank++] = 1;
    return eitp_reshape(y, rank, shape);
}

eitp_tensor *eitp_sum(eitp_tensor *x, unsigned dimensions, int keep) {
    return eitp__reduce(EITP__OP_SUM, x, dimensions, keep);
}

eitp_tensor *eitp_max(eitp_tensor *x, unsigned dimensions, int keep) {
    return eitp__reduce(EITP__OP_MAX, x, dimensions, keep);
}

eitp_tensor *eitp_mean(eitp_tensor *x, unsigned dimensions, int keep) {
    double count = 1;
    if (!x)
        return NULL;
    if (x->rows && (dimensions & 1)) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT,
                         "mean: the number of rows varies from run to run; multiply a sum by an input of 1 / rows");
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        count *= dimensions & (1u << d) ? (double)x->shape[d] : 1;
    return eitp_affine(eitp_sum(x, dimensions, keep), 1 / count, 0);
}

/* Spreads dy, of a reduction's shape, over x's. */
static eitp_tensor *eitp__spread(eitp_tensor *dy, eitp_tensor *x) {
    if (dy && x->rows && !dy->rows)
        return eitp_multiply(dy, eitp__fill_like(x, 1));
    return eitp_broadcast(dy, x->rank, x->shape);
}

EITP__PRIVATE void eitp__gradient_sum(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__spread(dy[0], node->inputs[0]));
}

EITP__PRIVATE void eitp__gradient_max(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *zero = eitp__scalar_like(x, 0), *one = eitp__scalar_like(x, 1);
    eitp_tensor *is_maximum = eitp_where(eitp_equal(x, node->outputs[0]), one, zero);
    eitp_tensor *count = eitp_sum(is_maximum, (unsigned)node->attributes.integers[0], 1);
    eitp__add_gradient(&dx[0], eitp_multiply(is_maximum, eitp_divide(dy[0], count)));
}
/* <<src/tensor/ops_reduce.c */

/* >>src/tensor/ops_product.c */
/* Matrix products and the linear layer: builders, shapes, gradients. */

/* Which of an operand's last two dimensions is the outer one. */
static int64_t eitp__product_extent(const eitp_tensor *x, int transposed, int outer_first) {
    int last = transposed == outer_first;
    return x->shape[x->rank - 2 + last];
}

/* Does the leading dimension of the result, or of the sum, vary? */
static eitp_status eitp__matmul_rows(const eitp_tensor *a, const eitp_tensor *b, int transpose_a, int transpose_b,
                                     int *rows, eitp_error *error) {
    int a_sum = a->rows && a->rank == 2 && transpose_a, b_sum = b->rows && b->rank == 2 && !transpose_b;
    int b_outer = b->rows && b->rank == 2 && transpose_b;
    int fits = a_sum == b_sum && !b_outer;
    if (a->rank > 2 || b->rank > 2)
        fits = fits && (!a->rows || !b->rows || a->rank == b->rank);
    *rows = a->rows && !a_sum;
    return eitp__require(fits, error, "the number of rows varies from run to run in one operand but not in the other");
}

EITP__PRIVATE eitp_status eitp__shape_matmul(eitp__node *node, eitp_error *error) {
    const eitp_tensor *a = node->inputs[0], *b = node->inputs[1];
    const eitp_tensor *bias = node->input_count > 2 ? node->inputs[2] : NULL;
    int transpose_a = (int)node->attributes.integers[0], transpose_b = (int)node->attributes.integers[1];
    int64_t shape[EITP_MAX_RANK], n;
    int rank = a->rank > b->rank ? a->rank : b->rank, rows = 0;
    char left[100], right[100];
    int fits = a->rank >= 2 && b->rank >= 2 && a->dtype == b->dtype && eitp__is_floating(a->dtype);
    eitp_status status;
    if (fits)
        fits = eitp__product_extent(a, transpose_a, 0) == eitp__product_extent(b, transpose_b, 1);
    for (int d = 0; d < rank - 2 && fits; d++) {
        int ad = d - (rank - a->rank), bd = d - (rank - b->rank);
        int64_t ae = ad >= 0 ? a->shape[ad] : 1, be = bd >= 0 ? b->shape[bd] : 1;
        fits = ae == be || ae == 1 || be == 1;
        shape[d] = ae > be ? ae : be;
    }
    if (!fits)
        return eitp__require(0, error, "%s %s%s and %s %s%s cannot be multiplied", eitp_dtype_name(a->dtype),
                             eitp__shape_text(a, left, sizeof left), transpose_a ? " transposed" : "",
                             eitp_dtype_name(b->dtype), eitp__shape_text(b, right, sizeof right),
                             transpose_b ? " transposed" : "");
    n = eitp__product_extent(b, transpose_b, 0);
    shape[rank - 2] = eitp__product_extent(a, transpose_a, 1);
    shape[rank - 1] = n;
    status = eitp__require(!bias || (bias->rank == 1 && bias->shape[0] == n && bias->dtype == a->dtype), error,
                           "the bias must be %s [%lld]", eitp_dtype_name(a->dtype), (long long)n);
    if (!status)
        status = eitp__matmul_rows(a, b, transpose_a, transpose_b, &rows, error);
    return status ? status : eitp__node_output(node, a->dtype, rank, shape, rows, error);
}

EITP__PRIVATE double eitp__flops_matmul(const eitp__node *node) {
    return 2.0 * (double)eitp__elements(node->outputs[0]) *
           (double)eitp__product_extent(node->inputs[0], (int)node->attributes.integers[0], 0);
}

static eitp_tensor *eitp__matmul_node(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a,
                                      int transpose_b) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    attributes.integers[0] = transpose_a != 0;
    attributes.integers[1] = transpose_b != 0;
    inputs[0] = a;
    inputs[1] = b;
    inputs[2] = bias;
    return eitp__apply(EITP__OP_MATMUL, inputs, bias ? 3 : 2, &attributes);
}

/* A stack of matrices times one matrix is one product: all rows together, unless their number varies. */
static eitp_tensor *eitp__product(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a, int transpose_b) {
    int64_t shape[EITP_MAX_RANK], flat[2];
    eitp_tensor *y;
    if (!a || !b || a->rank < 3 || b->rank != 2 || transpose_a || a->rows)
        return eitp__matmul_node(a, b, bias, transpose_a, transpose_b);
    flat[0] = -1;
    flat[1] = a->shape[a->rank - 1];
    y = eitp__matmul_node(eitp_reshape(a, 2, flat), b, bias, 0, transpose_b);
    if (!y)
        return NULL;
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = y->shape[1];
    return eitp_reshape(y, a->rank, shape);
}

eitp_tensor *eitp_matmul(eitp_tensor *a, eitp_tensor *b) {
    return eitp__product(a, b, NULL, 0, 0);
}

eitp_tensor *eitp_matmul_transposed(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b) {
    return eitp__product(a, b, NULL, transpose_a, transpose_b);
}

eitp_tensor *eitp_linear(eitp_tensor *x, eitp_tensor *weight, eitp_tensor *bias, eitp_activation activation) {
    eitp_tensor *y = eitp__product(x, weight, bias, 0, 0);
    switch (activation) {
    case EITP_RELU:
        return eitp_relu(y);
    case EITP_GELU_TANH:
        return eitp_gelu_tanh(y);
    case EITP_GELU_ERF:
        return eitp_gelu_erf(y);
    case EITP_TANH:
        return eitp_tanh(y);
    case EITP_SIGMOID:
        return eitp_sigmoid(y);
    case EITP_NO_ACTIVATION:
    default:
        return y;
    }
}

EITP__PRIVATE void eitp__gradient_matmul(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *a = node->inputs[0], *b = node->inputs[1], *da, *db;
    int ta = (int)node->attributes.integers[0], tb = (int)node->attributes.integers[1];
    /* dA = dY B^T and dB = A^T dY, each read the way its operand is stored. */
    da = ta ? eitp__matmul_node(b, dy[0], NULL, tb, 1) : eitp__matmul_node(dy[0], b, NULL, 0, !tb);
    db = tb ? eitp__matmul_node(dy[0], a, NULL, 1, ta) : eitp__matmul_node(a, dy[0], NULL, !ta, 0);
    eitp__add_gradient(&dx[0], eitp__sum_to(da, a));
    eitp__add_gradient(&dx[1], eitp__sum_to(db, b));
    if (node->input_count > 2)
        eitp__add_gradient(&dx[2], eitp_sum(dy[0], (1u << (dy[0]->rank - 1)) - 1, 0));
}
/* <<src/tensor/ops_product.c */

/* >>src/tensor/ops_network.c */
/* Softmax, GELU, layer norm, embedding, dropout: builders, shapes, gradients, expansions. */

static eitp_tensor *eitp__apply2(eitp__op_code op, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    return eitp__apply(op, inputs, 2, NULL);
}

static unsigned eitp__last_dimension(const eitp_tensor *x) {
    return x && x->rank ? 1u << (x->rank - 1) : 0;
}

/* The fused gradients of two operands have the shape of the second. */
EITP__PRIVATE eitp_status eitp__shape_second(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[1], error);
}

/* ---- Softmax ---- */

eitp_tensor *eitp_softmax(eitp_tensor *x) {
    return eitp__apply(EITP__OP_SOFTMAX, &x, 1, NULL);
}

eitp_tensor *eitp_log_softmax(eitp_tensor *x) {
    return eitp__apply(EITP__OP_LOG_SOFTMAX, &x, 1, NULL);
}

EITP__PRIVATE void eitp__gradient_softmax(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_SOFTMAX_BACKWARD, node->outputs[0], dy[0]));
}

EITP__PRIVATE void eitp__gradient_log_softmax(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_LOG_SOFTMAX_BACKWARD, node->outputs[0], dy[0]));
}

/* The largest value only keeps exp() in range: the result does not depend on it, so no gradient goes through it. */
static eitp_tensor *eitp__shifted(eitp_tensor *x) {
    return eitp_subtract(x, eitp_stop_gradient(eitp_max(x, eitp__last_dimension(x), 1)));
}

EITP__PRIVATE void eitp__expand_softmax(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *weights = eitp_exp(eitp__shifted(node->inputs[0]));
    outputs[0] = eitp_divide(weights, eitp_sum(weights, eitp__last_dimension(weights), 1));
}

EITP__PRIVATE void eitp__expand_log_softmax(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *shifted = eitp__shifted(node->inputs[0]);
    outputs[0] = eitp_subtract(shifted, eitp_log(eitp_sum(eitp_exp(shifted), eitp__last_dimension(shifted), 1)));
}

/* y (dy - sum(y dy)) */
EITP__PRIVATE void eitp__expand_softmax_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *y = node->inputs[0], *dy = node->inputs[1];
    eitp_tensor *total = eitp_sum(eitp_multiply(y, dy), eitp__last_dimension(y), 1);
    outputs[0] = eitp_multiply(y, eitp_subtract(dy, total));
}

/* dy - exp(y) sum(dy) */
EITP__PRIVATE void eitp__expand_log_softmax_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *y = node->inputs[0], *dy = node->inputs[1];
    eitp_tensor *total = eitp_sum(dy, eitp__last_dimension(dy), 1);
    outputs[0] = eitp_subtract(dy, eitp_multiply(eitp_exp(y), total));
}

/* ---- GELU ---- */

eitp_tensor *eitp_gelu_tanh(eitp_tensor *x) {
    return eitp__apply(EITP__OP_GELU_TANH, &x, 1, NULL);
}

eitp_tensor *eitp_gelu_erf(eitp_tensor *x) {
    return eitp__apply(EITP__OP_GELU_ERF, &x, 1, NULL);
}

EITP__PRIVATE void eitp__gradient_gelu_tanh(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_GELU_TANH_BACKWARD, node->inputs[0], dy[0]));
}

EITP__PRIVATE void eitp__gradient_gelu_erf(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__apply2(EITP__OP_GELU_ERF_BACKWARD, node->inputs[0], dy[0]));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
EITP__PRIVATE void eitp__expand_gelu_tanh(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0];
    eitp_tensor *cubic = eitp_multiply(x, eitp_affine(eitp_multiply(x, x), 0.044715, 1));
    eitp_tensor *gate = eitp_affine(eitp_tanh(eitp_affine(cubic, 0.7978845608028654, 0)), 0.5, 0.5);
    outputs[0] = eitp_multiply(x, gate);
}

/* x / 2 (1 + erf(x / sqrt(2))) */
EITP__PRIVATE void eitp__expand_gelu_erf(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0];
    outputs[0] = eitp_multiply(x, eitp_affine(eitp_erf(eitp_affine(x, 0.7071067811865476, 0)), 0.5, 0.5));
}

/* ---- Layer norm ---- */

eitp_tensor *eitp_layer_norm(eitp_tensor *x, eitp_tensor *gain, eitp_tensor *bias, double epsilon) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    attributes.reals[0] = epsilon;
    inputs[0] = x;
    inputs[1] = gain;
    inputs[2] = bias;
    return eitp__apply(EITP__OP_LAYER_NORM, inputs, 3, &attributes);
}

EITP__PRIVATE eitp_status eitp__shape_layer_norm(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t channels = x->rank ? x->shape[x->rank - 1] : 0;
    eitp_status status = eitp__require(x->rank >= 2 && eitp__is_floating(x->dtype), error,
                                       "the operand must be a floating tensor of rank 2 or more");
    for (int i = 1; i <= 2 && !status; i++) {
        const eitp_tensor *p = node->inputs[i];
        status = eitp__require(p->rank == 1 && p->shape[0] == channels && p->dtype == x->dtype, error,
                               "gain and bias must be %s [%lld]", eitp_dtype_name(x->dtype), (long long)channels);
    }
    if (!status)
        status = eitp__node_output_like(node, x, error);
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, x->dtype, x->rank - 1, x->shape, x->rows, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__shape_layer_norm_backward_input(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE eitp_status eitp__shape_layer_norm_backward_parameters(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__node_output_like(node, node->inputs[1], error);
    return status ? status : eitp__node_output_like(node, node->inputs[2], error);
}

EITP__PRIVATE void eitp__gradient_layer_norm(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[6];
    eitp__node *parameters;
    for (int i = 0; i < 3; i++)
        inputs[i] = node->inputs[i];
    inputs[3] = node->outputs[1];
    inputs[4] = node->outputs[2];
    inputs[5] = dy[0];
    parameters = eitp__node_create(node->graph, EITP__OP_LAYER_NORM_BACKWARD_PARAMETERS, inputs, 6, &node->attributes);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_LAYER_NORM_BACKWARD_INPUT, inputs, 6, &node->attributes));
    eitp__add_gradient(&dx[1], parameters ? parameters->outputs[0] : NULL);
    eitp__add_gradient(&dx[2], parameters ? parameters->outputs[1] : NULL);
}

EITP__PRIVATE void eitp__expand_layer_norm(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *x = node->inputs[0], *mean, *centred, *variance, *reciprocal;
    mean = eitp_mean(x, eitp__last_dimension(x), 1);
    centred = eitp_subtract(x, mean);
    variance = eitp_mean(eitp_multiply(centred, centred), eitp__last_dimension(x), 1);
    reciprocal = eitp_divide(eitp__scalar_like(x, 1), eitp_sqrt(eitp_affine(variance, 1, node->attributes.reals[0])));
    outputs[0] = eitp_add(eitp_multiply(eitp_multiply(centred, reciprocal), node->inputs[1]), node->inputs[2]);
    outputs[1] = eitp_reshape(mean, x->rank - 1, x->shape);
    outputs[2] = eitp_reshape(reciprocal, x->rank - 1, x->shape);
}

/* ---- Embedding ---- */

eitp_tensor *eitp_embedding(eitp_tensor *table, eitp_tensor *ids) {
    return eitp__apply2(EITP__OP_EMBEDDING, table, ids);
}

EITP__PRIVATE eitp_status eitp__shape_embedding(eitp__node *node, eitp_error *error) {
    const eitp_tensor *table = node->inputs[0], *ids = node->inputs[1];
    int64_t shape[2];
    eitp_status status =
        eitp__require(table->rank == 2 && eitp__is_floating(table->dtype) && ids->rank == 1 && ids->dtype == EITP_I32,
                      error, "the table must be a matrix, and the ids i32 of rank 1");
    shape[0] = ids->shape[0];
    shape[1] = status ? 0 : table->shape[1];
    return status ? status : eitp__node_output(node, table->dtype, 2, shape, ids->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_embedding_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output(node, node->inputs[1]->dtype, 2, node->attributes.shape, 0, error);
}

EITP__PRIVATE void eitp__gradient_embedding(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    if (node->inputs[0]->rows) {
        eitp__graph_fail(node->graph, EITP_ERROR_UNSUPPORTED,
                         "embedding: choosing among rows whose number varies has no gradient");
        return;
    }
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    inputs[0] = node->inputs[1];
    inputs[1] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_EMBEDDING_BACKWARD, inputs, 2, &attributes));
}

EITP__PRIVATE void eitp__gradient_embedding_backward(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[1], eitp_embedding(dy[0], node->inputs[0]));
}

/* ids [n] as an index for each of c columns: [n, c]. */
static eitp_tensor *eitp__column_indices(eitp_tensor *ids, int64_t columns) {
    int64_t shape[2];
    shape[0] = ids->shape[0];
    shape[1] = 1;
    ids = eitp_reshape(ids, 2, shape);
    shape[1] = columns;
    return eitp_broadcast(ids, 2, shape);
}

EITP__PRIVATE void eitp__expand_embedding(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *table = node->inputs[0];
    outputs[0] = eitp_gather(table, eitp__column_indices(node->inputs[1], table->shape[1]), 0);
}

EITP__PRIVATE void eitp__expand_embedding_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *dy = node->inputs[1];
    outputs[0] =
        eitp_scatter_add(dy, eitp__column_indices(node->inputs[0], dy->shape[1]), 0, node->attributes.shape[0]);
}

/* ---- Dropout ---- */

EITP__PRIVATE eitp_status eitp__shape_dropout(eitp__node *node, eitp_error *error) {
    const eitp_tensor *key = node->inputs[1];
    eitp_status status = eitp__require(key->dtype == EITP_I64 && key->rank == 1 && key->shape[0] == 3, error,
                                       "the key must be i64 [3]: seed, step, first row");
    if (!status)
        status = eitp__require(node->attributes.reals[0] >= 0 && node->attributes.reals[0] < 1, error,
                               "the probability is %g; it must be at least 0 and below 1", node->attributes.reals[0]);
    if (!status)
        status = eitp__require(node->inputs[0]->rank >= 1, error, "the operand must have rank 1 or more");
    return status ? status : eitp__node_output_like(node, node->inputs[0], error);
}

eitp_tensor *eitp_dropout(eitp_tensor *x, eitp_tensor *key, double probability) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    if (!x || probability == 0)
        return x;
    attributes.integers[0] = EITP__STREAM_FIRST_OP + (int64_t)x->graph->streams++;
    attributes.reals[0] = probability;
    inputs[0] = x;
    inputs[1] = key;
    return eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes);
}

/* The mask is a function of the key: dropping the gradient with the same one is the gradient. */
EITP__PRIVATE void eitp__gradient_dropout(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[2];
    inputs[0] = dy[0];
    inputs[1] = node->inputs[1];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_DROPOUT, inputs, 2, &node->attributes));
}
/* <<src/tensor/ops_network.c */

/* >>src/tensor/ops_attention.c */
/* Causal self-attention over packed sequences: builders, shapes, gradient, expansion. */

eitp_tensor *eitp_attention(eitp_tensor *qkv, eitp_tensor *offsets, int heads, int64_t longest, double scale,
                            eitp_tensor *key, double probability) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    if (!qkv)
        return NULL;
    attributes.integers[0] = heads;
    attributes.integers[1] = longest;
    if (key && probability > 0)
        attributes.integers[2] = EITP__STREAM_FIRST_OP + (int64_t)qkv->graph->streams++;
    attributes.reals[0] = scale;
    attributes.reals[1] = probability;
    inputs[0] = qkv;
    inputs[1] = offsets;
    inputs[2] = probability > 0 ? key : NULL;
    return eitp__apply(EITP__OP_ATTENTION, inputs, 3, &attributes);
}

static eitp_status eitp__check_heads(const eitp_tensor *qkv, int64_t heads, eitp_error *error) {
    int fits = qkv->rank == 2 && qkv->shape[1] % 3 == 0 && eitp__is_floating(qkv->dtype);
    char text[100];
    eitp_status status =
        eitp__require(fits, error, "q, k and v side by side must be a floating matrix [n, 3c], not %s %s",
                      eitp_dtype_name(qkv->dtype), eitp__shape_text(qkv, text, sizeof text));
    return status ? status
                  : eitp__require(heads >= 1 && qkv->shape[1] / 3 % heads == 0, error,
                                  "%lld channels cannot be shared among %lld heads", (long long)qkv->shape[1] / 3,
                                  (long long)heads);
}

EITP__PRIVATE eitp_status eitp__shape_attention(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *offsets = node->inputs[1], *key = node->inputs[2];
    int64_t heads = node->attributes.integers[0], shape[2];
    double probability = node->attributes.reals[1];
    eitp_status status = eitp__check_heads(qkv, heads, error);
    if (!status)
        status = eitp__require(offsets->dtype == EITP_I32 && offsets->rank == 1 && offsets->shape[0] >= 2, error,
                               "the offsets must be i32 [sequences + 1]");
    if (!status)
        status = eitp__require(node->attributes.integers[1] >= 1, error, "the longest sequence must be at least 1");
    if (!status)
        status = eitp__require(probability >= 0 && probability < 1, error,
                               "the probability is %g; it must be at least 0 and below 1", probability);
    if (!status)
        status = eitp__require(!key || (key->dtype == EITP_I64 && key->rank == 1 && key->shape[0] == 3), error,
                               "the key must be i64 [3]: seed, step, first row");
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    shape[1] = heads;
    return status ? status : eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_attention_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE void eitp__gradient_attention(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[6];
    for (int i = 0; i < 3; i++)
        inputs[i] = node->inputs[i];
    inputs[3] = node->outputs[0];
    inputs[4] = node->outputs[1];
    inputs[5] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_ATTENTION_BACKWARD, inputs, 6, &node->attributes));
}

/* Half of the pairs of each sequence, for scores and for values; sequences are taken to be the longest there can be. */
EITP__PRIVATE double eitp__flops_attention(const eitp__node *node) {
    const eitp_tensor *qkv = node->inputs[0];
    return 2.0 * (double)qkv->shape[0] * (double)node->attributes.integers[1] * (double)(qkv->shape[1] / 3);
}

EITP__PRIVATE double eitp__flops_attention_backward(const eitp__node *node) {
    return 2.5 * eitp__flops_attention(node);
}

/* ---- Expansion ---- */

/* Part 0, 1, 2 (q, k, v) of qkv [n, 3c] as [heads, n, c / heads]. */
static eitp_tensor *eitp__heads(eitp_tensor *qkv, int part, int64_t heads) {
    int64_t channels = qkv->shape[1] / 3, shape[3];
    const int order[3] = {1, 0, 2};
    shape[0] = qkv->shape[0];
    shape[1] = heads;
    shape[2] = channels / heads;
    return eitp_permute(eitp_reshape(eitp_slice(qkv, 1, part * channels, (part + 1) * channels), 3, shape), order);
}

static eitp_tensor *eitp__column(eitp_tensor *x) {
    int64_t shape[2] = {-1, 1};
    return eitp_reshape(x, 2, shape);
}

static eitp_tensor *eitp__row(eitp_tensor *x) {
    int64_t shape[2] = {1, -1};
    return eitp_reshape(x, 2, shape);
}

/* 0 and 1 in x's dtype. */
static eitp_tensor *eitp__number(eitp_tensor *condition, eitp_dtype dtype) {
    return eitp_cast(condition, dtype);
}

/* What the rows of a packed batch know of their sequences. */
typedef struct eitp__packing {
    eitp_tensor *position; /* [n] row numbers */
    eitp_tensor *sequence; /* [n] offsets at or before the row: sequence i has i + 1 (or more, where some are empty) */
    eitp_tensor *inside;   /* [n] 1 where the row is in a sequence */
    eitp_tensor *visible;  /* U8 [n, n]: may row i see row j? */
} eitp__packing;

static eitp__packing eitp__unpack(eitp_tensor *qkv, eitp_tensor *offsets) {
    eitp__packing packing;
    eitp_dtype dtype = qkv->dtype;
    int64_t rows = qkv->shape[0], count = offsets->shape[0];
    eitp_tensor *bounds = eitp_cast(offsets, dtype), *zero = eitp__scalar_like(qkv, 0), *before, *same, *later, *last;
    packing.position = eitp_arange(qkv->graph, dtype, rows);
    before = eitp__number(eitp_less(eitp__column(packing.position), eitp__row(bounds)), dtype);
    packing.sequence = eitp_affine(eitp_sum(before, 2u, 0), -1, (double)count);
    last = eitp_slice(bounds, 0, count - 1, count);
    packing.inside = eitp_multiply(eitp__number(eitp_less(zero, packing.sequence), dtype),
                                   eitp__number(eitp_less(packing.position, last), dtype));
    same = eitp__number(eitp_equal(eitp__column(packing.sequence), eitp__row(packing.sequence)), dtype);
    later = eitp__number(eitp_less(eitp__column(packing.position), eitp__row(packing.position)), dtype);
    packing.visible = eitp_less(zero, eitp_subtract(same, later));
    return packing;
}

/* The dropout mask of the probabilities [heads, n, n]: entry (i, h, j) of the kernel's numbering is by position in the sequence. */
static eitp_tensor *eitp__attention_mask(const eitp__node *node, const eitp__packing *packing, eitp_dtype dtype) {
    int64_t heads = node->attributes.integers[0], longest = node->attributes.integers[1];
    int64_t rows = node->inputs[0]->shape[0], shape[3];
    const int order[3] = {1, 0, 2};
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2], *mask, *relative, *bounds, *start;
    eitp_graph *graph = node->graph;
    shape[0] = rows;
    shape[1] = heads;
    shape[2] = longest;
    inputs[0] = eitp_fill(graph, dtype, 3, shape, 1);
    inputs[1] = node->inputs[2];
    attributes.integers[0] = node->attributes.integers[2];
    attributes.reals[0] = node->attributes.reals[1];
    mask = eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes);
    /* The start of a row's sequence is the last offset at or before it. */
    bounds = eitp__row(eitp_cast(node->inputs[1], dtype));
    start = eitp_max(
        eitp_where(eitp_less(eitp__column(packing->position), bounds), eitp__scalar_like(bounds, 0), bounds), 2u, 1);
    relative = eitp_clamp(eitp_subtract(eitp__row(packing->position), start), 0, (double)(longest - 1));
    shape[1] = 1;
    shape[2] = rows;
    relative = eitp_reshape(eitp_cast(relative, EITP_I32), 3, shape);
    shape[1] = heads;
    mask = eitp_gather(mask, eitp_broadcast(relative, 3, shape), 2);
    return eitp_permute(mask, order);
}

EITP__PRIVATE void eitp__expand_attention(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *qkv = node->inputs[0];
    int64_t heads = node->attributes.integers[0], rows = qkv->shape[0], shape[2];
    const int order[3] = {1, 0, 2}, swap[2] = {1, 0};
    eitp__packing packing = eitp__unpack(qkv, node->inputs[1]);
    eitp_tensor *scores, *largest, *weights, *total, *probabilities, *values;
    scores = eitp_matmul_transposed(eitp__heads(qkv, 0, heads), eitp__heads(qkv, 1, heads), 0, 1);
    scores = eitp_affine(scores, node->attributes.reals[0], 0);
    scores = eitp_where(packing.visible, scores, eitp__scalar_like(qkv, -1e30));
    largest = eitp_stop_gradient(eitp_max(scores, 4u, 1));
    weights = eitp_exp(eitp_subtract(scores, largest));
    total = eitp_sum(weights, 4u, 1);
    probabilities = eitp_divide(weights, total);
    if (node->inputs[2])
        probabilities = eitp_multiply(probabilities, eitp__attention_mask(node, &packing, qkv->dtype));
    values = eitp_permute(eitp_matmul(probabilities, eitp__heads(qkv, 2, heads)), order);
    shape[0] = rows;
    shape[1] = qkv->shape[1] / 3;
    outputs[0] = eitp_multiply(eitp_reshape(values, 2, shape), eitp__column(packing.inside));
    shape[0] = heads;
    shape[1] = rows;
    outputs[1] = eitp_permute(eitp_reshape(eitp_add(largest, eitp_log(total)), 2, shape), swap);
}

/* ---- With a cache ---- */

eitp_tensor *eitp_attention_cached(eitp_tensor *qkv, eitp_tensor *keys, eitp_tensor *values, eitp_tensor *position,
                                   int heads, double scale) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[4];
    attributes.integers[0] = heads;
    attributes.reals[0] = scale;
    inputs[0] = qkv;
    inputs[1] = keys;
    inputs[2] = values;
    inputs[3] = position;
    return eitp__apply(EITP__OP_ATTENTION_CACHED, inputs, 4, &attributes);
}

EITP__PRIVATE eitp_status eitp__shape_attention_cached(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *keys = node->inputs[1], *position = node->inputs[3];
    int64_t shape[2];
    eitp_status status = eitp__check_heads(qkv, node->attributes.integers[0], error);
    if (!status)
        status = eitp__require(keys->leaf == EITP__VARIABLE && node->inputs[2]->leaf == EITP__VARIABLE &&
                                   keys->rank == 2 && keys->shape[1] == qkv->shape[1] / 3 &&
                                   keys->dtype == qkv->dtype && eitp__same_shape(keys, node->inputs[2]),
                               error, "the caches must be variables [longest, c] like the keys and values they keep");
    if (!status)
        status = eitp__require(position->dtype == EITP_I32 && eitp__elements(position) == 1, error,
                               "the position must be i32 [1]");
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    for (int i = 1; i <= 2 && !status; i++)
        status = eitp__node_output_like(node, node->inputs[i], error);
    return status;
}
/* <<src/tensor/ops_attention.c */

/* >>src/tensor/ops_loss.c */
/* Cross-entropy with an ignored target: builder, shapes, gradient, expansion. */

eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = ignored;
    inputs[0] = logits;
    inputs[1] = targets;
    return eitp__apply(EITP__OP_CROSS_ENTROPY, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_status eitp__shape_cross_entropy(eitp__node *node, eitp_error *error) {
    const eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    char a[100], b[100];
    int fits = logits->rank == 2 && targets->rank == 1 && targets->dtype == EITP_I32 &&
               eitp__is_floating(logits->dtype) && logits->shape[0] == targets->shape[0] &&
               logits->rows == targets->rows;
    eitp_status status =
        eitp__require(fits, error, "logits must be floating [n, v] and targets i32 [n], not %s %s and %s %s",
                      eitp_dtype_name(logits->dtype), eitp__shape_text(logits, a, sizeof a),
                      eitp_dtype_name(targets->dtype), eitp__shape_text(targets, b, sizeof b));
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__node_output(node, logits->dtype, 1, logits->shape, logits->rows, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__shape_cross_entropy_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE void eitp__gradient_cross_entropy(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[4];
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = node->outputs[1];
    inputs[3] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_CROSS_ENTROPY_BACKWARD, inputs, 4, &node->attributes));
}

EITP__PRIVATE void eitp__expand_cross_entropy(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *logits = node->inputs[0], *targets = node->inputs[1];
    eitp_tensor *zero = eitp__scalar_like(logits, 0), *largest, *total, *loss, *number;
    int64_t rows[1], column[2] = {-1, 1};
    rows[0] = logits->shape[0];
    largest = eitp_stop_gradient(eitp_max(logits, 2u, 1));
    total = eitp_add(largest, eitp_log(eitp_sum(eitp_exp(eitp_subtract(logits, largest)), 2u, 1)));
    outputs[1] = eitp_reshape(total, 1, rows);
    /* An index outside the vocabulary picks 0; its row is zeroed below. */
    loss = eitp_subtract(total, eitp_gather(logits, eitp_reshape(targets, 2, column), 1));
    loss = eitp_reshape(loss, 1, rows);
    number = eitp_cast(targets, logits->dtype);
    loss = eitp_where(eitp_equal(number, eitp__scalar_like(logits, (double)node->attributes.integers[0])), zero, loss);
    loss = eitp_where(eitp_less(number, zero), zero, loss);
    outputs[0] = eitp_where(eitp_less(number, eitp__scalar_like(logits, (double)logits->shape[1])), loss, zero);
}
/* <<src/tensor/ops_loss.c */

/* >>src/tensor/ops_update.c */
/* Ops that change variables, and what they need to know before: accumulate, norm, commit, AdamW. */

static int eitp__is_f32_vector(const eitp_tensor *x, int64_t extent) {
    return x->dtype == EITP_F32 && x->rank == 1 && x->shape[0] == extent;
}

EITP__PRIVATE eitp_status eitp__shape_accumulate(eitp__node *node, eitp_error *error) {
    const eitp_tensor *target = node->inputs[0], *x = node->inputs[1];
    const eitp_tensor *carry = node->inputs[2];
    char a[100], b[100];
    eitp_status status = eitp__require(target->storage->leaf == EITP__VARIABLE, error, "the target is no variable");
    if (!status)
        status =
            eitp__require(eitp__same_shape(target, x) && target->dtype == x->dtype, error,
                          "%s %s cannot be added to %s %s", eitp_dtype_name(x->dtype), eitp__shape_text(x, a, sizeof a),
                          eitp_dtype_name(target->dtype), eitp__shape_text(target, b, sizeof b));
    if (!status)
        status = eitp__require(!carry || eitp__is_f32_vector(carry, 1), error, "carry must be f32 [1]");
    return status ? status : eitp__node_output_like(node, target, error);
}

eitp_tensor *eitp_accumulate(eitp_tensor *target, eitp_tensor *x, eitp_tensor *carry) {
    eitp_tensor *inputs[3];
    inputs[0] = target;
    inputs[1] = x;
    inputs[2] = carry;
    return eitp__apply(EITP__OP_ACCUMULATE, inputs, 3, NULL);
}

EITP__PRIVATE eitp_status eitp__shape_sum_squares(eitp__node *node, eitp_error *error) {
    int64_t blocks = (eitp__elements(node->inputs[0]) + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    eitp_status status = eitp__require(!node->inputs[0]->rows, error, "the number of rows varies from run to run");
    return status ? status : eitp__node_output(node, EITP_F64, 1, &blocks, 0, error);
}

/* Blocks of a flat copy, the last one filled up with zeros. */
EITP__PRIVATE void eitp__expand_sum_squares(const eitp__node *node, eitp_tensor **outputs) {
    int64_t blocks[2], flat = -1, elements = eitp__elements(node->inputs[0]);
    eitp_tensor *x = eitp_reshape(eitp_cast(node->inputs[0], EITP_F64), 1, &flat);
    blocks[0] = (elements + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
    blocks[1] = EITP__SUM_BLOCK;
    x = eitp_reshape(eitp_pad(x, 0, 0, blocks[0] * blocks[1] - elements), 2, blocks);
    outputs[0] = eitp_sum(eitp_multiply(x, x), 2u, 0);
}

eitp_tensor *eitp_sum_squares(eitp_tensor *x) {
    return eitp_sum(eitp__apply(EITP__OP_SUM_SQUARES, &x, 1, NULL), EITP_ALL_DIMENSIONS, 0);
}

EITP__PRIVATE eitp_status eitp__shape_commit(eitp__node *node, eitp_error *error) {
    const eitp_tensor *sum = node->inputs[0];
    int64_t extent = 2;
    eitp_status status =
        eitp__require(sum->dtype == EITP_F64 && eitp__elements(sum) == 1 && eitp__is_f32_vector(node->inputs[1], 1),
                      error, "the sum must be f64 [1] and the limit f32 [1]");
    if (!status)
        status = eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
    extent = 1;
    return status ? status : eitp__node_output(node, EITP_F32, 1, &extent, 0, error);
}

EITP__PRIVATE eitp_status eitp__shape_adamw(eitp__node *node, eitp_error *error) {
    const eitp_tensor *parameter = node->inputs[0];
    eitp_status status = EITP_OK;
    for (int i = 1; i < 4 && !status; i++)
        status =
            eitp__require(eitp__same_shape(parameter, node->inputs[i]) && node->inputs[i]->dtype == parameter->dtype,
                          error, "parameter, gradient and moments differ in shape or dtype");
    for (int i = 0; i < 4 && !status; i++) {
        if (i != 1)
            status = eitp__require(node->inputs[i]->storage->leaf == EITP__VARIABLE, error,
                                   "parameter and moments must be variables");
    }
    if (!status)
        status = eitp__require(eitp__is_f32_vector(node->inputs[4], 2) && eitp__is_f32_vector(node->inputs[5], 2),
                               error, "hyper and commit must be f32 [2]");
    for (int i = 0; i < 4 && !status; i++) {
        if (i != 1)
            status = eitp__node_output_like(node, node->inputs[i], error);
    }
    return status;
}
/* <<src/tensor/ops_update.c */

/* >>src/tensor/op_table.c */
/* The table of ops: one entry each. CONTRIBUTING.md says how to add one. */

#define EITP__NO_WRT                                                                                                   \
    { 0, 0, 0 }
#define EITP__NO_SHARES                                                                                                \
    { 0, 0, 0 }

/* An op with a gradient of its own kind, made of other ops. */
#define EITP__PLAIN(name, low, high, shape, gradient, reuse, accumulates, flops)                                       \
    { name, low, high, 1, shape, gradient, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, reuse, accumulates, flops }

/* An op that has an expansion. */
#define EITP__COMPOSITE(name, low, high, outputs, shape, gradient, expand, reuse, accumulates, flops)                  \
    { name, low, high, outputs, shape, gradient, expand, 0, EITP__NO_WRT, EITP__NO_SHARES, reuse, accumulates, flops }

/* Inputs 0 and 1 as a bit mask. */
#define EITP__FIRST 1u
#define EITP__SECOND 2u

static const eitp__op_info eitp__ops[EITP__OP_COUNT] = {
    EITP__PLAIN("fill", 0, 0, eitp__shape_fill, eitp__gradient_none, 0, 0, NULL),
    EITP__PLAIN("arange", 0, 0, eitp__shape_arange, eitp__gradient_none, 0, 0, NULL),
    EITP__PLAIN("negate", 1, 1, eitp__shape_unary, eitp__gradient_negate, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("exp", 1, 1, eitp__shape_unary, eitp__gradient_exp, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("log", 1, 1, eitp__shape_unary, eitp__gradient_log, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("sqrt", 1, 1, eitp__shape_unary, eitp__gradient_sqrt, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("tanh", 1, 1, eitp__shape_unary, eitp__gradient_tanh, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("sigmoid", 1, 1, eitp__shape_unary, eitp__gradient_sigmoid, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("relu", 1, 1, eitp__shape_unary, eitp__gradient_relu, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("erf", 1, 1, eitp__shape_unary, eitp__gradient_erf, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("affine", 1, 1, eitp__shape_unary, eitp__gradient_affine, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("clamp", 1, 1, eitp__shape_unary, eitp__gradient_clamp, EITP__FIRST, 0, eitp__flops_elements),
    EITP__PLAIN("cast", 1, 1, eitp__shape_cast, eitp__gradient_cast, 0, 0, NULL),
    EITP__PLAIN("add", 2, 2, eitp__shape_binary, eitp__gradient_add, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("subtract", 2, 2, eitp__shape_binary, eitp__gradient_subtract, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("multiply", 2, 2, eitp__shape_binary, eitp__gradient_multiply, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("divide", 2, 2, eitp__shape_binary, eitp__gradient_divide, EITP__FIRST | EITP__SECOND, 0,
                eitp__flops_elements),
    EITP__PLAIN("less", 2, 2, eitp__shape_compare, eitp__gradient_none, 0, 0, eitp__flops_elements),
    EITP__PLAIN("equal", 2, 2, eitp__shape_compare, eitp__gradient_none, 0, 0, eitp__flops_elements),
    EITP__PLAIN("where", 3, 3, eitp__shape_where, eitp__gradient_where, 0, 0, NULL),
    EITP__PLAIN("broadcast", 1, 1, eitp__shape_broadcast, eitp__gradient_broadcast, 0, 0, NULL),
    EITP__PLAIN("permute", 1, 1, eitp__shape_permute, eitp__gradient_permute, 0, 0, NULL),
    EITP__PLAIN("slice", 1, 1, eitp__shape_slice, eitp__gradient_slice, 0, 0, NULL),
    EITP__PLAIN("pad", 1, 1, eitp__shape_pad, eitp__gradient_pad, 0, 0, NULL),
    EITP__PLAIN("concat", 1, EITP__MAX_INPUTS, eitp__shape_concat, eitp__gradient_concat, 0, 0, NULL),
    EITP__PLAIN("sum", 1, 1, eitp__shape_reduce, eitp__gradient_sum, 0, 1, eitp__flops_elements),
    EITP__PLAIN("max", 1, 1, eitp__shape_reduce, eitp__gradient_max, 0, 0, eitp__flops_elements),
    EITP__PLAIN("gather", 2, 2, eitp__shape_gather, eitp__gradient_gather, 0, 0, NULL),
    EITP__PLAIN("scatter_add", 2, 2, eitp__shape_scatter_add, eitp__gradient_scatter_add, 0, 0, NULL),
    EITP__PLAIN("matmul", 2, 3, eitp__shape_matmul, eitp__gradient_matmul, 0, 1, eitp__flops_matmul),
    EITP__COMPOSITE("softmax", 1, 1, 1, eitp__shape_unary, eitp__gradient_softmax, eitp__expand_softmax, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("softmax_backward", 2, 2, 1, eitp__shape_second, NULL, eitp__expand_softmax_backward, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("log_softmax", 1, 1, 1, eitp__shape_unary, eitp__gradient_log_softmax, eitp__expand_log_softmax, 0,
                    0, eitp__flops_elements),
    EITP__COMPOSITE("log_softmax_backward", 2, 2, 1, eitp__shape_second, NULL, eitp__expand_log_softmax_backward, 0, 0,
                    eitp__flops_elements),
    EITP__COMPOSITE("gelu_tanh", 1, 1, 1, eitp__shape_unary, eitp__gradient_gelu_tanh, eitp__expand_gelu_tanh,
                    EITP__FIRST, 0, eitp__flops_elements),
    {"gelu_tanh_backward", 2, 2, 1, eitp__shape_second, NULL, NULL, EITP__OP_GELU_TANH + 1, EITP__NO_WRT,
     EITP__NO_SHARES, EITP__FIRST | EITP__SECOND, 0, eitp__flops_elements},
    EITP__COMPOSITE("gelu_erf", 1, 1, 1, eitp__shape_unary, eitp__gradient_gelu_erf, eitp__expand_gelu_erf, EITP__FIRST,
                    0, eitp__flops_elements),
    {"gelu_erf_backward", 2, 2, 1, eitp__shape_second, NULL, NULL, EITP__OP_GELU_ERF + 1, EITP__NO_WRT, EITP__NO_SHARES,
     EITP__FIRST | EITP__SECOND, 0, eitp__flops_elements},
    EITP__COMPOSITE("layer_norm", 3, 3, 3, eitp__shape_layer_norm, eitp__gradient_layer_norm, eitp__expand_layer_norm,
                    0, 0, eitp__flops_elements),
    {"layer_norm_backward_input", 6, 6, 1, eitp__shape_layer_norm_backward_input, NULL, NULL, EITP__OP_LAYER_NORM + 1,
     EITP__NO_WRT, EITP__NO_SHARES, 0, 0, eitp__flops_elements},
    {"layer_norm_backward_parameters",
     6,
     6,
     2,
     eitp__shape_layer_norm_backward_parameters,
     NULL,
     NULL,
     EITP__OP_LAYER_NORM + 1,
     {1, 2, 0},
     EITP__NO_SHARES,
     0,
     1,
     eitp__flops_elements},
    EITP__COMPOSITE("embedding", 2, 2, 1, eitp__shape_embedding, eitp__gradient_embedding, eitp__expand_embedding, 0, 0,
                    NULL),
    EITP__COMPOSITE("embedding_backward", 2, 2, 1, eitp__shape_embedding_backward, eitp__gradient_embedding_backward,
                    eitp__expand_embedding_backward, 0, 1, NULL),
    EITP__COMPOSITE("attention", 2, 3, 2, eitp__shape_attention, eitp__gradient_attention, eitp__expand_attention, 0, 0,
                    eitp__flops_attention),
    {"attention_backward", 2, 6, 1, eitp__shape_attention_backward, NULL, NULL, EITP__OP_ATTENTION + 1, EITP__NO_WRT,
     EITP__NO_SHARES, 0, 0, eitp__flops_attention_backward},
    {"attention_cached", 4, 4, 3, eitp__shape_attention_cached, NULL, NULL, 0, EITP__NO_WRT, {0, 2, 3}, 0, 0, NULL},
    EITP__COMPOSITE("cross_entropy", 2, 2, 2, eitp__shape_cross_entropy, eitp__gradient_cross_entropy,
                    eitp__expand_cross_entropy, 0, 0, eitp__flops_elements),
    {"cross_entropy_backward", 4, 4, 1, eitp__shape_cross_entropy_backward, NULL, NULL, EITP__OP_CROSS_ENTROPY + 1,
     EITP__NO_WRT, EITP__NO_SHARES, EITP__FIRST, 0, eitp__flops_elements},
    EITP__PLAIN("dropout", 2, 2, eitp__shape_dropout, eitp__gradient_dropout, EITP__FIRST, 0, NULL),
    {"accumulate", 2, 3, 1, eitp__shape_accumulate, NULL, NULL, 0, EITP__NO_WRT, {1, 0, 0}, 0, 0, eitp__flops_elements},
    EITP__COMPOSITE("sum_squares", 1, 1, 1, eitp__shape_sum_squares, NULL, eitp__expand_sum_squares, 0, 0, NULL),
    {"commit", 2, 2, 2, eitp__shape_commit, NULL, NULL, 0, EITP__NO_WRT, EITP__NO_SHARES, 0, 0, NULL},
    {"adamw", 6, 6, 3, eitp__shape_adamw, NULL, NULL, 0, EITP__NO_WRT, {1, 3, 4}, 0, 0, eitp__flops_elements},
    {"reshape", 1, 1, 1, eitp__shape_reshape, eitp__gradient_reshape, NULL, 0, EITP__NO_WRT, {1, 0, 0}, 0, 0, NULL},
    {"stop_gradient", 1, 1, 1, eitp__shape_same, eitp__gradient_none, NULL, 0, EITP__NO_WRT, {1, 0, 0}, 0, 0, NULL},
};

EITP__PRIVATE const eitp__op_info *eitp__op(eitp__op_code op) {
    return &eitp__ops[op];
}
/* <<src/tensor/op_table.c */

/* >>src/tensor/autograd.c */
/*
 * Reverse-mode differentiation of the graph. Gradients are ordinary nodes. An op without a gradient rule is differentiated through
 * its expansion, so a gradient can be differentiated again through anything.
 */

/* One of the terms that a gradient is the sum of. */
typedef struct eitp__term {
    eitp_tensor *value;
    struct eitp__term *next;
} eitp__term;

/* Gradients under construction, by the tensor's id; only for tensors that are there when it starts. */
typedef struct eitp__flow {
    eitp_graph *graph;
    size_t tensors;
    unsigned char *needed; /* does it depend on any of the xs? */
    eitp__term **terms;    /* in the order they arrived */
} eitp__flow;

static void eitp__add_term(eitp__flow *flow, const eitp_tensor *tensor, eitp_tensor *value) {
    eitp__term *term, **end;
    if (!value || (size_t)tensor->id >= flow->tensors || !flow->needed[tensor->id])
        return;
    term = (eitp__term *)eitp__graph_allocate(flow->graph, sizeof *term);
    if (!term)
        return;
    term->value = value;
    for (end = &flow->terms[tensor->id]; *end; end = &(*end)->next)
        continue;
    *end = term;
}

static eitp_tensor *eitp__sum_terms(const eitp__term *term) {
    eitp_tensor *sum = NULL;
    for (; term; term = term->next)
        eitp__add_gradient(&sum, term->value);
    return sum;
}

/* Marks what depends on the xs, among the nodes from `first` on. */
static void eitp__mark_needed(eitp__flow *flow, size_t first, int count, eitp_tensor *const *xs) {
    eitp_graph *graph = flow->graph;
    for (int i = 0; i < count; i++)
        flow->needed[xs[i]->id] = 1;
    for (size_t n = first; n < graph->node_count; n++) {
        const eitp__node *node = graph->nodes[n];
        int needed = 0;
        for (int i = 0; i < node->input_count; i++)
            needed |= node->inputs[i] && flow->needed[node->inputs[i]->id];
        for (int i = 0; i < node->output_count && needed; i++)
            flow->needed[node->outputs[i]->id] = eitp__is_floating(node->outputs[i]->dtype) ? 1 : 0;
    }
}

static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms);

/* dx through the node's expansion. */
static void eitp__differentiate_expansion(const eitp__node *node, const eitp__flow *flow, eitp_tensor *const *dy,
                                          eitp_tensor **dx) {
    eitp_graph *graph = node->graph;
    size_t first = graph->node_count;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = {NULL, NULL, NULL}, *xs[EITP__MAX_INPUTS];
    eitp__term *terms[EITP__MAX_INPUTS];
    int index[EITP__MAX_INPUTS], count = 0;
    if (!eitp__expand_node(node, outputs)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no gradient", eitp__op(node->op)->name);
        return;
    }
    for (int i = 0; i < node->input_count; i++) {
        eitp_tensor *x = node->inputs[i];
        if (x && (size_t)x->id < flow->tensors && flow->needed[x->id]) {
            index[count] = i;
            xs[count++] = x;
        }
    }
    eitp__differentiate(graph, first, node->output_count, outputs, dy, count, xs, terms);
    for (int i = 0; i < count; i++)
        dx[index[i]] = eitp__sum_terms(terms[i]);
}

static void eitp__differentiate_node(eitp__flow *flow, const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->op);
    eitp_tensor *dy[EITP__MAX_OUTPUTS] = {NULL, NULL, NULL}, *dx[EITP__MAX_INPUTS];
    int flows = 0;
    for (int i = 0; i < node->output_count; i++) {
        int id = node->outputs[i]->id;
        if (!flow->needed[id])
            continue;
        dy[i] = eitp__sum_terms(flow->terms[id]);
        flows |= dy[i] != NULL;
    }
    if (!flows)
        return;
    memset(dx, 0, sizeof dx);
    /* A rule takes the gradient of the first output; others are what the op saved, and only an expansion knows their part. */
    if (info->gradient && dy[0] && !dy[1] && !dy[2])
        info->gradient(node, dy, dx);
    else
        eitp__differentiate_expansion(node, flow, dy, dx);
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i])
            eitp__add_term(flow, node->inputs[i], dx[i]);
    }
}

/*
 * terms[i]: what flows from the ys, weighted by seeds (a NULL y or seed: nothing), to xs[i] through the nodes from `first` on.
 */
static void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs, eitp__term **terms) {
    const eitp_host *host = NULL;
    eitp__flow flow;
    size_t nodes = graph->node_count;
    for (int i = 0; i < x_count; i++)
        terms[i] = NULL;
    if (graph->error.status)
        return;
    host = eitp__graph_host(graph);
    flow.graph = graph;
    flow.tensors = graph->tensor_count;
    flow.needed = (unsigned char *)eitp__allocate(host, flow.tensors);
    flow.terms = (eitp__term **)eitp__allocate(host, flow.tensors * sizeof *flow.terms);
    if (flow.needed && flow.terms) {
        eitp__mark_needed(&flow, first, x_count, xs);
        for (int i = 0; i < y_count; i++) {
            if (ys[i] && seeds[i])
                eitp__add_term(&flow, ys[i], seeds[i]);
        }
        for (size_t n = nodes; n > first && !graph->error.status; n--)
            eitp__differentiate_node(&flow, graph->nodes[n - 1]);
        for (int i = 0; i < x_count; i++)
            terms[i] = flow.terms[xs[i]->id];
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph",
                         flow.tensors * (1 + sizeof *flow.terms));
    }
    eitp__release(host, flow.needed, flow.tensors);
    eitp__release(host, flow.terms, flow.tensors * sizeof *flow.terms);
}

EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs) {
    const eitp__op_info *info = eitp__op(node->op);
    eitp__op_code forward;
    eitp__node original;
    eitp_tensor *results[EITP__MAX_OUTPUTS] = {NULL, NULL, NULL}, *xs[EITP__MAX_OUTPUTS];
    eitp__term *terms[EITP__MAX_OUTPUTS];
    size_t first = node->graph->node_count;
    if (info->expand) {
        info->expand(node, outputs);
        return 1;
    }
    if (!info->backward_of)
        return 0;
    /* The gradient of an op is what differentiating the op's expansion gives. */
    forward = (eitp__op_code)(info->backward_of - 1);
    original = *node;
    original.op = forward;
    eitp__op(forward)->expand(&original, results);
    for (int i = 0; i < node->output_count; i++)
        xs[i] = node->inputs[info->wrt[i]];
    if (!results[0])
        return 1;
    eitp__differentiate(node->graph, first, 1, results, &node->inputs[node->input_count - 1], node->output_count, xs,
                        terms);
    for (int i = 0; i < node->output_count; i++) {
        outputs[i] = eitp__sum_terms(terms[i]);
        if (!outputs[i])
            outputs[i] = eitp__fill_like(xs[i], 0);
    }
    return 1;
}

static eitp_status eitp__check_differentiable(const eitp_tensor *y, int count, eitp_tensor *const *xs,
                                              eitp_error *error) {
    for (int i = 0; i < count; i++) {
        if (!xs[i] || xs[i]->graph != y->graph || !eitp__is_floating(xs[i]->dtype))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "gradients: x number %d is NULL, of another graph or of a dtype without gradients", i);
    }
    return eitp__is_floating(y->dtype)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is %s; it must be floating",
                            eitp_dtype_name(y->dtype));
}

eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                           eitp_tensor **gradients, eitp_error *error) {
    eitp_graph *graph;
    const eitp_host *host;
    eitp__term **terms;
    eitp_status status;
    if (!y)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: y is NULL; eitp_graph_status says why");
    graph = y->graph;
    status = eitp__check_differentiable(y, count, xs, error);
    if (status || count < 1)
        return status;
    if (seed && (seed->graph != graph || seed->dtype != y->dtype || !eitp__same_shape(seed, y)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "gradients: the seed must have y's graph, dtype and shape");
    host = eitp__graph_host(graph);
    terms = (eitp__term **)eitp__allocate(host, (size_t)count * sizeof *terms);
    if (!terms)
        return eitp__fail_memory(error, (size_t)count * sizeof *terms, "gradients");
    if (!seed)
        seed = eitp__fill_like(y, 1);
    eitp__differentiate(graph, 0, 1, &y, &seed, count, xs, terms);
    for (int i = 0; i < count; i++) {
        gradients[i] = eitp__sum_terms(terms[i]);
        if (!gradients[i])
            gradients[i] = eitp__fill_like(xs[i], 0);
    }
    eitp__release(host, terms, (size_t)count * sizeof *terms);
    return eitp_graph_status(graph, error);
}

/* Adds the terms of one parameter's gradient to its variable, one after the other: no sum of them is ever stored. */
static void eitp__accumulate_terms(eitp_tensor *parameter, const eitp__term *term, eitp_tensor *carry) {
    char name[256];
    eitp_tensor *target;
    if (snprintf(name, sizeof name, "gradient.%s", eitp__variable_name(parameter)) >= (int)sizeof name) {
        eitp__graph_fail(parameter->graph, EITP_ERROR_ARGUMENT, "the name of parameter '%.60s...' is too long",
                         eitp__variable_name(parameter));
        return;
    }
    target = eitp_variable_tensor(parameter->graph, name, EITP_GRADIENT, parameter->dtype, parameter->rank,
                                  parameter->shape);
    if (!term)
        target = eitp_accumulate(target, eitp__fill_like(parameter, 0), carry);
    for (; term; term = term->next) {
        target = eitp_accumulate(target, term->value, carry);
        carry = NULL;
    }
}

eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error) {
    eitp_graph *graph;
    const eitp_host *host;
    eitp_tensor **xs, *seed;
    eitp__term **terms;
    size_t bytes;
    int count = 0;
    if (!loss)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; eitp_graph_status says why");
    graph = loss->graph;
    host = eitp__graph_host(graph);
    bytes = graph->tensor_count * sizeof *xs;
    xs = (eitp_tensor **)eitp__allocate(host, bytes);
    terms = (eitp__term **)eitp__allocate(host, bytes);
    if (xs && terms) {
        for (size_t i = 0; i < graph->tensor_count; i++) {
            if (eitp__is_parameter(graph->tensors[i]))
                xs[count++] = graph->tensors[i];
        }
        seed = eitp__fill_like(loss, 1);
        eitp__differentiate(graph, 0, 1, &loss, &seed, count, xs, terms);
        for (int i = 0; i < count; i++)
            eitp__accumulate_terms(xs[i], terms[i], carry);
    } else {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %zu bytes to differentiate the graph", 2 * bytes);
    }
    eitp__release(host, xs, bytes);
    eitp__release(host, terms, bytes);
    return eitp_graph_status(graph, error);
}
/* <<src/tensor/autograd.c */

/* >>src/tensor/plan_lower.c */
/* The first passes of a plan: what is needed, what must be expanded, what can be fused. */

EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor) {
    while (tensor && tensor->lowered)
        tensor = tensor->lowered;
    return tensor;
}

EITP__PRIVATE int eitp__is_view(const eitp__node *node) {
    return node->op == EITP__OP_RESHAPE || node->op == EITP__OP_STOP_GRADIENT;
}

/* Does the node change a variable? */
static int eitp__mutates(const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->op);
    return !eitp__is_view(node) && (info->shares[0] || info->shares[1] || info->shares[2]);
}

EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node) {
    if (node->op == EITP__OP_CAST)
        return node->outputs[0]->dtype;
    if (node->op == EITP__OP_WHERE || node->op == EITP__OP_SCATTER_ADD)
        return node->inputs[1]->dtype;
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i] && eitp__is_floating(node->inputs[i]->dtype))
            return node->inputs[i]->dtype;
    }
    return node->input_count ? node->inputs[0]->dtype : node->outputs[0]->dtype;
}

static int eitp__supported(const eitp_plan *plan, const eitp__node *node) {
    const eitp__backend *backend = plan->context->backend;
    return eitp__is_view(node) || backend->interface->supports(backend, (eitp__slot)node->op, eitp__node_dtype(node));
}

/* What is needed, by node id, and which of these were not looked at yet. Grows with the graph while nodes are expanded. */
typedef struct eitp__lowering {
    eitp_plan *plan;
    unsigned char *needed;
    size_t capacity;
    int *pending;
    size_t pending_count, pending_capacity;
} eitp__lowering;

static int eitp__lowering_reserve(eitp__lowering *lowering) {
    const eitp_host *host = &lowering->plan->context->host;
    size_t old = lowering->capacity, nodes = lowering->plan->graph->node_count;
    if (!eitp__reserve(host, (void **)&lowering->needed, &lowering->capacity, nodes, 1) ||
        !eitp__reserve(host, (void **)&lowering->pending, &lowering->pending_capacity, nodes,
                       sizeof *lowering->pending)) {
        eitp__graph_fail(lowering->plan->graph, EITP_ERROR_MEMORY, "cannot allocate the list of needed nodes");
        return 0;
    }
    if (lowering->capacity > old)
        memset(lowering->needed + old, 0, lowering->capacity - old);
    return 1;
}

static void eitp__need_node(eitp__lowering *lowering, const eitp__node *node) {
    if (lowering->needed[node->id])
        return;
    lowering->needed[node->id] = 1;
    lowering->pending[lowering->pending_count++] = node->id;
}

static void eitp__need(eitp__lowering *lowering, eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    if (tensor && tensor->node)
        eitp__need_node(lowering, tensor->node);
}

/* Replaces a node by primitives; they take its place in the order. */
static void eitp__expand_in_plan(eitp__lowering *lowering, eitp__node *node) {
    eitp_graph *graph = lowering->plan->graph;
    size_t first = graph->node_count;
    eitp_tensor *outputs[EITP__MAX_OUTPUTS] = {NULL, NULL, NULL};
    if (!eitp__expand_node(node, outputs)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s has no kernel for %s on this device",
                         eitp__op(node->op)->name, eitp_dtype_name(eitp__node_dtype(node)));
        return;
    }
    if (graph->error.status || !eitp__lowering_reserve(lowering))
        return;
    for (size_t n = first; n < graph->node_count; n++)
        graph->nodes[n]->order = node->order;
    lowering->needed[node->id] = 0;
    for (int i = 0; i < node->output_count; i++) {
        if (!outputs[i] || outputs[i] == node->outputs[i])
            continue;
        node->outputs[i]->lowered = outputs[i];
        eitp__need(lowering, outputs[i]);
    }
}

/* Marks what the needed nodes need, until there is nothing new. */
static void eitp__lower_pending(eitp__lowering *lowering) {
    eitp_graph *graph = lowering->plan->graph;
    while (lowering->pending_count && !graph->error.status) {
        eitp__node *node = graph->nodes[lowering->pending[--lowering->pending_count]];
        if (!eitp__supported(lowering->plan, node)) {
            eitp__expand_in_plan(lowering, node);
            continue;
        }
        for (int i = 0; i < node->input_count; i++)
            eitp__need(lowering, node->inputs[i]);
    }
}

/* Uses of each tensor's value, by needed nodes and by whoever reads outputs; by the id of the tensor. */
static void eitp__count_uses(const eitp__lowering *lowering, int *uses) {
    const eitp_graph *graph = lowering->plan->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        if (!lowering->needed[n])
            continue;
        for (int i = 0; i < graph->nodes[n]->input_count; i++) {
            eitp_tensor *x = eitp__lowered(graph->nodes[n]->inputs[i]);
            if (x)
                uses[x->id]++;
        }
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (graph->tensors[t]->is_output)
            uses[eitp__lowered(graph->tensors[t])->id]++;
    }
}

/* Does the node read the memory of this variable? */
static int eitp__reads_storage(const eitp__node *node, const eitp_tensor *variable) {
    for (int i = 0; i < node->input_count; i++) {
        eitp_tensor *x = eitp__lowered(node->inputs[i]);
        while (x && x->storage != x)
            x = eitp__lowered(x->storage);
        if (x == variable)
            return 1;
    }
    return 0;
}

/* The node that computes an accumulation's value, where that node can add to the target itself; else NULL. */
static eitp__node *eitp__fusible_producer(const eitp__node *accumulation, const int *uses) {
    eitp_tensor *value = eitp__lowered(accumulation->inputs[1]);
    while (value->node && eitp__is_view(value->node) && uses[value->id] == 1)
        value = eitp__lowered(value->node->inputs[0]);
    if (!value->node || uses[value->id] != 1 || !eitp__op(value->node->op)->accumulates)
        return NULL;
    if (value->node->output_count != 1 || eitp__reads_storage(value->node, accumulation->inputs[0]->storage))
        return NULL;
    return value->node;
}

/* Makes the steps; accumulations that a producer can do itself become part of the producer's. */
static eitp_status eitp__make_steps(eitp__lowering *lowering, eitp_error *error) {
    eitp_plan *plan = lowering->plan;
    const eitp_graph *graph = plan->graph;
    const eitp_host *host = &plan->context->host;
    int *uses = (int *)eitp__allocate(host, graph->tensor_count * sizeof *uses);
    eitp__node **absorbed = (eitp__node **)eitp__allocate(host, graph->node_count * sizeof *absorbed);
    int failed = (graph->tensor_count && !uses) || (graph->node_count && !absorbed);
    if (!failed) {
        eitp__count_uses(lowering, uses);
        for (size_t n = 0; n < graph->node_count; n++) {
            eitp__node *node = graph->nodes[n], *producer;
            if (!lowering->needed[n] || node->op != EITP__OP_ACCUMULATE)
                continue;
            producer = eitp__fusible_producer(node, uses);
            if (producer && !absorbed[producer->id]) {
                absorbed[producer->id] = node;
                lowering->needed[n] = 0;
            }
        }
    }
    for (size_t n = 0; n < graph->node_count && !failed; n++) {
        eitp__node *node = graph->nodes[n];
        eitp__step *step;
        if (!lowering->needed[n] || eitp__is_view(node))
            continue;
        failed = !eitp__reserve(host, (void **)&plan->steps, &plan->step_capacity, plan->step_count + 1,
                                sizeof *plan->steps);
        if (failed)
            break;
        step = &plan->steps[plan->step_count++];
        step->node = node;
        step->absorbed = absorbed[n];
        step->mutates = absorbed[n] || eitp__mutates(node);
    }
    eitp__release(host, uses, graph->tensor_count * sizeof *uses);
    eitp__release(host, absorbed, graph->node_count * sizeof *absorbed);
    return failed ? eitp__fail_memory(error, plan->step_count * sizeof *plan->steps, "the steps of a plan") : EITP_OK;
}

EITP__PRIVATE eitp_tensor *eitp__step_input(const eitp__step *step, int i) {
    const eitp__node *node = step->node;
    if (i < node->input_count)
        return eitp__lowered(node->inputs[i]);
    /* What an absorbed accumulation reads comes after the node's own inputs. */
    return eitp__lowered(i == node->input_count ? step->absorbed->inputs[0] : step->absorbed->inputs[2]);
}

EITP__PRIVATE int eitp__step_input_count(const eitp__step *step) {
    return step->node->input_count + (step->absorbed ? 2 : 0);
}

EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error) {
    eitp_graph *graph = plan->graph;
    const eitp_host *host = &plan->context->host;
    eitp__lowering lowering = EITP__ZERO;
    eitp_status status;
    int roots = 0;
    lowering.plan = plan;
    if (eitp__lowering_reserve(&lowering)) {
        for (size_t t = 0; t < graph->tensor_count; t++) {
            roots |= graph->tensors[t]->is_output;
            if (graph->tensors[t]->is_output)
                eitp__need(&lowering, graph->tensors[t]);
        }
        for (size_t n = 0; n < graph->node_count; n++) {
            if (!eitp__mutates(graph->nodes[n]))
                continue;
            roots = 1;
            eitp__need_node(&lowering, graph->nodes[n]);
        }
        eitp__lower_pending(&lowering);
    }
    status = eitp_graph_status(graph, error);
    if (!status && !roots)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the graph has no output and no update; mark what you want to read with eitp_output");
    if (!status)
        status = eitp__make_steps(&lowering, error);
    eitp__release(host, lowering.needed, lowering.capacity);
    eitp__release(host, lowering.pending, lowering.pending_capacity * sizeof *lowering.pending);
    return status;
}
/* <<src/tensor/plan_lower.c */

/* >>src/tensor/plan_order.c */
/*
 * The order of a plan's steps: that of creation (forward as written, backward in reverse), but what changes a variable runs as
 * soon as its inputs are there and nobody reads the old value any more. So what an update consumes is free at once.
 */

/* Edges between steps, as a list for each: `next` chains those that leave the same step. */
typedef struct eitp__edge {
    int to, next;
} eitp__edge;

typedef struct eitp__order {
    eitp_plan *plan;
    const eitp_host *host;
    int *producer;   /* by tensor id: the step that makes it, -1 for leaves */
    int *first_edge; /* by step */
    int *waiting;    /* by step: how many others must run before */
    eitp__edge *edges;
    size_t edge_count, edge_capacity;
    int failed;
} eitp__order;

static void eitp__add_edge(eitp__order *order, int from, int to) {
    eitp__edge *edge;
    if (from < 0 || from == to || order->failed)
        return;
    if (!eitp__reserve(order->host, (void **)&order->edges, &order->edge_capacity, order->edge_count + 1,
                       sizeof *order->edges)) {
        order->failed = 1;
        return;
    }
    edge = &order->edges[order->edge_count];
    edge->to = to;
    edge->next = order->first_edge[from];
    order->first_edge[from] = (int)order->edge_count++;
    order->waiting[to]++;
}

/* The tensor whose value this one is: views looked through. */
static eitp_tensor *eitp__version(eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    while (tensor->node && eitp__is_view(tensor->node))
        tensor = eitp__lowered(tensor->node->inputs[0]);
    return tensor;
}

/* Step `writer` replaces a value: all its other readers come before it. */
static void eitp__wait_for_readers(eitp__order *order, int writer, const eitp_tensor *value) {
    const eitp_plan *plan = order->plan;
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < eitp__step_input_count(&plan->steps[s]); i++) {
            eitp_tensor *x = eitp__step_input(&plan->steps[s], i);
            if ((int)s != writer && x && eitp__version(x) == value)
                eitp__add_edge(order, (int)s, writer);
        }
    }
}

static void eitp__make_edges(eitp__order *order) {
    const eitp_plan *plan = order->plan;
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__node *made = plan->steps[s].absorbed ? plan->steps[s].absorbed : plan->steps[s].node;
        for (int i = 0; i < made->output_count; i++)
            order->producer[made->outputs[i]->id] = (int)s;
    }
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        const eitp__node *writer = step->absorbed ? step->absorbed : step->node;
        const int *shares = eitp__op(writer->op)->shares;
        for (int i = 0; i < eitp__step_input_count(step); i++) {
            eitp_tensor *x = eitp__step_input(step, i);
            if (x)
                eitp__add_edge(order, order->producer[eitp__version(x)->id], (int)s);
        }
        for (int i = 0; i < EITP__MAX_OUTPUTS && step->mutates; i++) {
            if (shares[i])
                eitp__wait_for_readers(order, (int)s, eitp__version(writer->inputs[shares[i] - 1]));
        }
    }
}

/* Does step a run before step b, where both could run now? */
static int eitp__goes_first(const eitp__step *a, const eitp__step *b) {
    if (a->mutates != b->mutates)
        return a->mutates;
    if (a->node->order != b->node->order)
        return a->node->order < b->node->order;
    return a->node->id < b->node->id;
}

static void eitp__swap_int(int *a, int *b) {
    int other = *a;
    *a = *b;
    *b = other;
}

/* A binary heap of steps that could run now, the one to run first at its top. */
static void eitp__heap_push(const eitp_plan *plan, int *heap, size_t count, int step) {
    size_t i = count;
    heap[i] = step;
    while (i && eitp__goes_first(&plan->steps[heap[i]], &plan->steps[heap[(i - 1) / 2]])) {
        eitp__swap_int(&heap[i], &heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static int eitp__heap_pop(const eitp_plan *plan, int *heap, size_t count) {
    int top = heap[0];
    size_t i = 0;
    heap[0] = heap[count - 1];
    for (count--;;) {
        size_t best = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            if (eitp__goes_first(&plan->steps[heap[child]], &plan->steps[heap[best]]))
                best = child;
        }
        if (best == i)
            return top;
        eitp__swap_int(&heap[i], &heap[best]);
        i = best;
    }
}

static eitp_status eitp__sort_steps(eitp__order *order, int *heap, eitp__step *sorted, eitp_error *error) {
    eitp_plan *plan = order->plan;
    size_t ready = 0, done = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        if (!order->waiting[s])
            eitp__heap_push(plan, heap, ready++, (int)s);
    }
    while (ready) {
        int step = eitp__heap_pop(plan, heap, ready--);
        sorted[done++] = plan->steps[step];
        for (int e = order->first_edge[step]; e >= 0; e = order->edges[e].next) {
            if (--order->waiting[order->edges[e].to] == 0)
                eitp__heap_push(plan, heap, ready++, order->edges[e].to);
        }
    }
    if (done != plan->step_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a variable is changed and its old value is used afterwards; read it into a plan of its own");
    if (done)
        memcpy(plan->steps, sorted, done * sizeof *sorted);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    size_t steps = plan->step_count, tensors = plan->graph->tensor_count;
    eitp__order order = EITP__ZERO;
    int *heap = (int *)eitp__allocate(host, steps * sizeof *heap);
    eitp__step *sorted = (eitp__step *)eitp__allocate(host, steps * sizeof *sorted);
    eitp_status status;
    order.plan = plan;
    order.host = host;
    order.producer = (int *)eitp__allocate(host, tensors * sizeof *order.producer);
    order.first_edge = (int *)eitp__allocate(host, steps * sizeof *order.first_edge);
    order.waiting = (int *)eitp__allocate(host, steps * sizeof *order.waiting);
    order.failed = steps && (!heap || !sorted || !order.producer || !order.first_edge || !order.waiting);
    if (steps && !order.failed) {
        memset(order.producer, -1, tensors * sizeof *order.producer);
        memset(order.first_edge, -1, steps * sizeof *order.first_edge);
        eitp__make_edges(&order);
    }
    status = order.failed ? eitp__fail_memory(error, tensors * sizeof(int), "the order of a plan")
                          : eitp__sort_steps(&order, heap, sorted, error);
    eitp__release(host, heap, steps * sizeof *heap);
    eitp__release(host, sorted, steps * sizeof *sorted);
    eitp__release(host, order.producer, tensors * sizeof *order.producer);
    eitp__release(host, order.first_edge, steps * sizeof *order.first_edge);
    eitp__release(host, order.waiting, steps * sizeof *order.waiting);
    eitp__release(host, order.edges, order.edge_capacity * sizeof *order.edges);
    return status;
}
/* <<src/tensor/plan_order.c */

/* >>src/tensor/plan_layout.c */
/* The arena of a plan: how long each tensor lives, which take over another's memory, and where each lies. */

/* The tensor that owns the memory a step's output lies in; NULL where that is a variable. */
static eitp_tensor *eitp__owner(eitp_tensor *tensor) {
    tensor = eitp__lowered(tensor);
    while (tensor->storage != tensor)
        tensor = eitp__lowered(tensor->storage);
    return tensor->leaf == EITP__VARIABLE ? NULL : tensor;
}

static int eitp__new_stretch(eitp_plan *plan, const eitp_tensor *owner, int first) {
    eitp__stretch *stretch;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->stretches, &plan->stretch_capacity,
                       plan->stretch_count + 1, sizeof *plan->stretches))
        return 0;
    stretch = &plan->stretches[plan->stretch_count];
    stretch->size = (eitp__tensor_bytes(owner) + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
    stretch->offset = 0;
    stretch->first = stretch->last = first;
    plan->stretch_of[owner->id] = (int)plan->stretch_count++;
    return 1;
}

static eitp__stretch *eitp__stretch_for(const eitp_plan *plan, eitp_tensor *tensor) {
    const eitp_tensor *owner = eitp__owner(tensor);
    int index = owner ? plan->stretch_of[owner->id] : -1;
    return index >= 0 ? &plan->stretches[index] : NULL;
}

/* Marks every operand of a step as in use at it. */
static void eitp__extend(eitp_plan *plan, const eitp__step *step, int at) {
    for (int i = 0; i < eitp__step_input_count(step); i++) {
        eitp_tensor *x = eitp__step_input(step, i);
        eitp__stretch *stretch = x ? eitp__stretch_for(plan, x) : NULL;
        if (stretch && stretch->last < at)
            stretch->last = at;
    }
}

/*
 * The first pass over the steps: makes a stretch for every tensor with memory of its own, and finds how long it is used.
 */
static int eitp__find_lifetimes(eitp_plan *plan) {
    eitp_graph *graph = plan->graph;
    int end = (int)plan->step_count;
    for (size_t t = 0; t < graph->tensor_count; t++) {
        if (graph->tensors[t]->leaf == EITP__INPUT && !eitp__new_stretch(plan, graph->tensors[t], -1))
            return 0;
    }
    for (int s = 0; s < end; s++) {
        const eitp__step *step = &plan->steps[s];
        for (int i = 0; i < step->node->output_count && !step->absorbed; i++) {
            const eitp_tensor *owner = eitp__owner(step->node->outputs[i]);
            if (owner == step->node->outputs[i] && !eitp__new_stretch(plan, owner, s))
                return 0;
        }
        eitp__extend(plan, step, s);
    }
    for (size_t t = 0; t < graph->tensor_count; t++) {
        eitp__stretch *stretch = graph->tensors[t]->is_output ? eitp__stretch_for(plan, graph->tensors[t]) : NULL;
        if (stretch)
            stretch->last = end;
    }
    return 1;
}

/* May the step's output take over the memory of this input, which nothing reads later? */
static int eitp__can_reuse(const eitp_plan *plan, const eitp__step *step, int at, int input) {
    eitp_tensor *x = eitp__step_input(step, input), *y = step->node->outputs[0], *owner;
    const eitp__stretch *stretch;
    if (!x || x->dtype != y->dtype || !eitp__same_shape(x, y))
        return 0;
    owner = eitp__owner(x);
    stretch = owner && owner->leaf == EITP__COMPUTED ? eitp__stretch_for(plan, x) : NULL;
    return stretch && stretch->last == at;
}

/* Lets outputs take over inputs' memory: the output's stretch is merged into the input's. */
static void eitp__merge_in_place(eitp_plan *plan) {
    for (int s = 0; s < (int)plan->step_count; s++) {
        const eitp__step *step = &plan->steps[s];
        unsigned candidates = step->absorbed ? 0 : eitp__op(step->node->op)->reuse;
        for (int i = 0; i < step->node->input_count && candidates; i++) {
            eitp_tensor *y = step->node->outputs[0];
            eitp__stretch *from, *to;
            int index;
            if (!(candidates & (1u << i)) || !eitp__can_reuse(plan, step, s, i))
                continue;
            from = eitp__stretch_for(plan, y);
            to = eitp__stretch_for(plan, eitp__step_input(step, i));
            index = (int)(to - plan->stretches);
            to->last = from->last;
            from->size = 0;
            plan->stretch_of[y->id] = index;
            candidates = 0;
        }
    }
}

typedef struct eitp__placement {
    const eitp__stretch *stretches;
    int index;
} eitp__placement;

/* Larger first; among equals the earlier, so that the layout is a function of the graph. */
static int eitp__compare_placements(const void *left, const void *right) {
    const eitp__placement *a = (const eitp__placement *)left, *b = (const eitp__placement *)right;
    size_t a_size = a->stretches[a->index].size, b_size = b->stretches[b->index].size;
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int eitp__compare_offsets(const void *left, const void *right) {
    const eitp__placement *a = (const eitp__placement *)left, *b = (const eitp__placement *)right;
    size_t a_offset = a->stretches[a->index].offset, b_offset = b->stretches[b->index].offset;
    if (a_offset != b_offset)
        return a_offset < b_offset ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/*
 * Puts the largest stretch first, each at the lowest place that is free all the time it is in use. `placed` is kept sorted by
 * offset.
 */
static void eitp__place_all(eitp_plan *plan, eitp__placement *order, eitp__placement *placed) {
    size_t count = 0;
    for (size_t i = 0; i < plan->stretch_count; i++) {
        eitp__stretch *stretch = &plan->stretches[order[i].index];
        size_t offset = 0, at;
        for (size_t j = 0; j < count; j++) {
            const eitp__stretch *other = &plan->stretches[placed[j].index];
            if (other->last < stretch->first || stretch->last < other->first || other->offset + other->size <= offset)
                continue;
            if (other->offset >= offset + stretch->size)
                break;
            offset = other->offset + other->size;
        }
        stretch->offset = offset;
        for (at = count; at && eitp__compare_offsets(&placed[at - 1], &order[i]) > 0; at--)
            placed[at] = placed[at - 1];
        placed[at] = order[i];
        count++;
        if (offset + stretch->size > plan->stats.arena_bytes)
            plan->stats.arena_bytes = offset + stretch->size;
    }
}

/* The most that is in use at one step. */
static size_t eitp__largest_use(const eitp_plan *plan) {
    size_t largest = 0;
    for (int s = -1; s <= (int)plan->step_count; s++) {
        size_t used = 0;
        for (size_t i = 0; i < plan->stretch_count; i++) {
            if (plan->stretches[i].first <= s && s <= plan->stretches[i].last)
                used += plan->stretches[i].size;
        }
        largest = used > largest ? used : largest;
    }
    return largest;
}

EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error) {
    const eitp_host *host = &plan->context->host;
    eitp__placement *order, *placed;
    size_t bytes;
    plan->tensor_count = plan->graph->tensor_count;
    plan->stretch_of = (int *)eitp__allocate(host, plan->tensor_count * sizeof *plan->stretch_of);
    if (!plan->stretch_of)
        return eitp__fail_memory(error, plan->tensor_count * sizeof *plan->stretch_of, "the layout of a plan");
    memset(plan->stretch_of, -1, plan->tensor_count * sizeof *plan->stretch_of);
    if (!eitp__find_lifetimes(plan))
        return eitp__fail_memory(error, plan->stretch_count * sizeof *plan->stretches, "the layout of a plan");
    eitp__merge_in_place(plan);
    bytes = plan->stretch_count * sizeof *order;
    order = (eitp__placement *)eitp__allocate(host, bytes);
    placed = (eitp__placement *)eitp__allocate(host, bytes);
    if (bytes && order && placed) {
        for (size_t i = 0; i < plan->stretch_count; i++) {
            order[i].stretches = plan->stretches;
            order[i].index = (int)i;
        }
        qsort(order, plan->stretch_count, sizeof *order, eitp__compare_placements);
        eitp__place_all(plan, order, placed);
        plan->stats.largest_bytes = eitp__largest_use(plan);
    }
    eitp__release(host, order, bytes);
    eitp__release(host, placed, bytes);
    return bytes && (!order || !placed) ? eitp__fail_memory(error, bytes, "the layout of a plan") : EITP_OK;
}
/* <<src/tensor/plan_layout.c */

/* >>src/tensor/plan.c */
/* Plans: creation by passes, the calls they become, and running them. */

/* Where a tensor is. */
static eitp__place eitp__place_of(const eitp_plan *plan, eitp_tensor *tensor) {
    eitp__place place;
    eitp_tensor *owner;
    place.stretch = -1;
    place.variable = -1;
    place.rows = 0;
    place.row_elements = 0;
    tensor = eitp__lowered(tensor);
    if (!tensor)
        return place;
    for (owner = tensor; owner->storage != owner;)
        owner = eitp__lowered(owner->storage);
    if (owner->leaf == EITP__VARIABLE)
        place.variable = owner->variable;
    else if ((size_t)owner->id < plan->tensor_count)
        place.stretch = plan->stretch_of[owner->id];
    place.rows = tensor->rows;
    if (tensor->rows)
        place.row_elements = eitp__elements(tensor) / tensor->shape[0];
    return place;
}

static void eitp__set_operand(eitp__operand *operand, const eitp_tensor *tensor) {
    if (!tensor)
        return;
    operand->dtype = tensor->dtype;
    operand->rank = tensor->rank;
    operand->elements = eitp__elements(tensor);
    memcpy(operand->shape, tensor->shape, sizeof operand->shape);
}

/* The call and binding of one step, without addresses. */
static void eitp__make_call(const eitp_plan *plan, const eitp__step *step, eitp__call *call, eitp__binding *binding) {
    const eitp__node *node = step->node;
    call->slot = (eitp__slot)node->op;
    call->input_count = node->input_count;
    call->output_count = node->output_count;
    memcpy(call->integers, node->attributes.integers, sizeof call->integers);
    memcpy(call->reals, node->attributes.reals, sizeof call->reals);
    call->dtype = eitp__node_dtype(node);
    for (int i = 0; i < node->input_count; i++) {
        eitp__set_operand(&call->inputs[i], eitp__step_input(step, i));
        binding->inputs[i] = eitp__place_of(plan, node->inputs[i]);
    }
    for (int i = 0; i < node->output_count; i++) {
        eitp__set_operand(&call->outputs[i], node->outputs[i]);
        binding->outputs[i] = eitp__place_of(plan, step->absorbed ? step->absorbed->outputs[0] : node->outputs[i]);
    }
    binding->carry = eitp__place_of(plan, step->absorbed ? step->absorbed->inputs[2] : NULL);
    call->accumulates = step->absorbed != NULL;
}

static eitp_status eitp__make_calls(eitp_plan *plan, eitp_error *error) {
    const eitp__backend *backend = plan->context->backend;
    const eitp_host *host = &plan->context->host;
    plan->calls = (eitp__call *)eitp__allocate(host, plan->step_count * sizeof *plan->calls);
    plan->bindings = (eitp__binding *)eitp__allocate(host, plan->step_count * sizeof *plan->bindings);
    if (plan->step_count && (!plan->calls || !plan->bindings))
        return eitp__fail_memory(error, plan->step_count * (sizeof *plan->calls + sizeof *plan->bindings),
                                 "the calls of a plan");
    for (size_t s = 0; s < plan->step_count; s++) {
        const eitp__op_info *info = eitp__op(plan->steps[s].node->op);
        size_t workspace;
        eitp__make_call(plan, &plan->steps[s], &plan->calls[s], &plan->bindings[s]);
        workspace = backend->interface->workspace(backend, &plan->calls[s]);
        if (workspace > plan->stats.workspace_bytes)
            plan->stats.workspace_bytes = workspace;
        plan->stats.flops += info->flops ? info->flops(plan->steps[s].node) : 0;
    }
    plan->stats.nodes = (int)plan->step_count;
    return EITP_OK;
}

eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error) {
    eitp_context *context = graph->context;
    eitp_plan *made;
    eitp_status status = eitp_graph_status(graph, error);
    *plan = NULL;
    if (status)
        return status;
    made = (eitp_plan *)eitp__allocate(&context->host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a plan");
    made->context = context;
    made->graph = graph;
    made->count = graph->capacity;
    status = eitp__plan_lower(made, error);
    if (!status)
        status = eitp__plan_order(made, error);
    if (!status)
        status = eitp__plan_layout(made, error);
    if (!status)
        status = eitp__make_calls(made, error);
    if (!status)
        status = eitp__variables_allocate(context, error);
    if (!status)
        status = eitp__arena_reserve(context, made->stats.arena_bytes + made->stats.workspace_bytes, error);
    if (status) {
        eitp_plan_destroy(made);
        return status;
    }
    *plan = made;
    return EITP_OK;
}

void eitp_plan_destroy(eitp_plan *plan) {
    eitp_host host;
    if (!plan)
        return;
    host = plan->context->host;
    eitp__release(&host, plan->steps, plan->step_capacity * sizeof *plan->steps);
    eitp__release(&host, plan->stretch_of, plan->tensor_count * sizeof *plan->stretch_of);
    eitp__release(&host, plan->stretches, plan->stretch_capacity * sizeof *plan->stretches);
    eitp__release(&host, plan->calls, plan->step_count * sizeof *plan->calls);
    eitp__release(&host, plan->bindings, plan->step_count * sizeof *plan->bindings);
    eitp__release(&host, plan, sizeof *plan);
}

eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan) {
    return plan->stats;
}

eitp_status eitp_plan_set_count(eitp_plan *plan, int64_t count, eitp_error *error) {
    if (plan->graph->capacity < 0 || count < 0 || count > plan->graph->capacity)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld rows do not fit the graph's capacity of %lld",
                          (long long)count, (long long)plan->graph->capacity);
    plan->count = count;
    return EITP_OK;
}

static void *eitp__address(const eitp_plan *plan, const eitp__place *place) {
    if (place->variable >= 0)
        return plan->context->variables[place->variable].data;
    if (place->stretch >= 0)
        return (char *)plan->context->arena.memory + plan->stretches[place->stretch].offset;
    return NULL;
}

static void eitp__bind_operand(const eitp_plan *plan, eitp__operand *operand, const eitp__place *place) {
    operand->data = eitp__address(plan, place);
    if (place->rows) {
        operand->shape[0] = plan->count;
        operand->elements = plan->count * place->row_elements;
    }
}

/* Fills in addresses and rows, where they changed since the last run. */
static void eitp__bind(eitp_plan *plan) {
    uint64_t generation = plan->context->arena_generation + 1;
    if (plan->bound_generation == generation && plan->bound_count == plan->count)
        return;
    for (size_t s = 0; s < plan->step_count; s++) {
        eitp__call *call = &plan->calls[s];
        const eitp__binding *binding = &plan->bindings[s];
        for (int i = 0; i < call->input_count; i++)
            eitp__bind_operand(plan, &call->inputs[i], &binding->inputs[i]);
        for (int i = 0; i < call->output_count; i++)
            eitp__bind_operand(plan, &call->outputs[i], &binding->outputs[i]);
        call->carry = (const float *)eitp__address(plan, &binding->carry);
    }
    plan->bound_generation = generation;
    plan->bound_count = plan->count;
}

/* Is there still an arena? Only a failed attempt to enlarge it can have taken it away. */
static eitp_status eitp__check_arena(const eitp_plan *plan, eitp_error *error) {
    size_t needed = plan->stats.arena_bytes + plan->stats.workspace_bytes;
    if (plan->context->arena.size >= needed)
        return EITP_OK;
    return eitp__fail_memory(error, needed, "the arena again, which was lost when it could not be enlarged");
}

/* The address of a tensor's bytes, whose number must be `size`; *address is NULL where the plan does not use it. */
static eitp_status eitp__transfer(const eitp_plan *plan, eitp_tensor *tensor, size_t size, void **address,
                                  eitp_error *error) {
    eitp__place place;
    size_t expected;
    eitp_status status;
    if (!tensor || tensor->graph != plan->graph || (size_t)tensor->id >= plan->tensor_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the tensor does not belong to the plan's graph, or was made after the plan");
    status = eitp__check_arena(plan, error);
    if (status)
        return status;
    place = eitp__place_of(plan, tensor);
    expected = tensor->rows ? (size_t)(plan->count * place.row_elements) * eitp_dtype_size(tensor->dtype)
                            : eitp__tensor_bytes(tensor);
    if (size != expected)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%zu bytes do not match tensor '%s', which has %zu", size,
                          tensor->name, expected);
    *address = eitp__address(plan, &place);
    return EITP_OK;
}

/* Is what the tensor holds there until the end of a run? */
static int eitp__is_kept(const eitp_plan *plan, eitp_tensor *tensor) {
    eitp__place place = eitp__place_of(plan, tensor);
    return place.stretch < 0 || plan->stretches[place.stretch].last == (int)plan->step_count;
}

eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size, eitp_error *error) {
    void *address = NULL;
    eitp_status status = eitp__transfer(plan, input, size, &address, error);
    if (status)
        return status;
    if (input->leaf != EITP__INPUT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "only inputs can be written");
    return plan->context->backend->interface->upload(plan->context->backend, address, data, size, error);
}

eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error) {
    void *address = NULL;
    eitp_status status = eitp__transfer(plan, output, size, &address, error);
    if (status)
        return status;
    if (!output->is_output || !address || !eitp__is_kept(plan, output))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "only outputs can be read; mark the tensor with eitp_output before the plan is created");
    return plan->context->backend->interface->download(plan->context->backend, data, address, size, error);
}

eitp_status eitp_plan_run(eitp_plan *plan, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    void *workspace = NULL;
    eitp_status status = eitp__check_arena(plan, error);
    if (status)
        return status;
    eitp__bind(plan);
    if (plan->stats.workspace_bytes)
        workspace = (char *)plan->context->arena.memory + plan->stats.arena_bytes;
    return backend->interface->run(backend, plan->calls, plan->step_count, workspace, error);
}
/* <<src/tensor/plan.c */

/* >>src/model/gpt2_config.c */
/* GPT-2 configurations: by name, and as Hugging Face's config.json. */

static const struct {
    const char *name;
    int64_t width, heads, layers, positions;
} eitp__gpt2_shapes[] = {
    {"gpt2", 768, 12, 12, 1024},     {"gpt2-medium", 1024, 16, 24, 1024}, {"gpt2-large", 1280, 20, 36, 1024},
    {"gpt2-xl", 1600, 25, 48, 1024}, {"distilgpt2", 768, 12, 6, 1024},    {"tiny", 128, 4, 4, 256},
};

/* What a config.json that leaves a member out means. */
static eitp_gpt2_config eitp__gpt2_defaults(void) {
    eitp_gpt2_config config;
    memset(&config, 0, sizeof config);
    config.vocabulary = 50257;
    config.positions = 1024;
    config.width = 768;
    config.heads = 12;
    config.layers = 12;
    config.inner = 0;
    config.activation = EITP_GELU_TANH;
    config.epsilon = 1e-5;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0.1;
    config.initializer_range = 0.02;
    config.scale_attention = 1;
    config.tied = 1;
    return config;
}

eitp_status eitp_gpt2_config_named(const char *name, eitp_gpt2_config *config, eitp_error *error) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gpt2_shapes); i++) {
        if (strcmp(name, eitp__gpt2_shapes[i].name))
            continue;
        *config = eitp__gpt2_defaults();
        config->width = eitp__gpt2_shapes[i].width;
        config->heads = eitp__gpt2_shapes[i].heads;
        config->layers = eitp__gpt2_shapes[i].layers;
        config->positions = eitp__gpt2_shapes[i].positions;
        config->inner = 4 * config->width;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "there is no model shape '%s'; choose gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2 or tiny",
                      name);
}

EITP__PRIVATE eitp_status eitp__gpt2_config_check(const eitp_gpt2_config *config, eitp_error *error) {
    const struct {
        const char *name;
        int64_t value, high;
    } sizes[] = {
        {"vocab_size", config->vocabulary, 1 << 24}, {"n_positions", config->positions, 1 << 24},
        {"n_embd", config->width, 1 << 20},          {"n_head", config->heads, 1 << 16},
        {"n_layer", config->layers, 1 << 14},        {"n_inner", config->inner, 1 << 24},
    };
    const struct {
        const char *name;
        double value, low, high;
    } numbers[] = {
        {"embd_pdrop", config->embedding_dropout, 0, 0.999},     {"attn_pdrop", config->attention_dropout, 0, 0.999},
        {"resid_pdrop", config->residual_dropout, 0, 0.999},     {"layer_norm_epsilon", config->epsilon, 0, 1},
        {"initializer_range", config->initializer_range, 0, 10},
    };
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].high)
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %lld; it must be 1 to %lld", sizes[i].name,
                              (long long)sizes[i].value, (long long)sizes[i].high);
    }
    for (size_t i = 0; i < EITP__COUNT(numbers); i++) {
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return eitp__fail(error, EITP_ERROR_FORMAT, "%s is %g; it must be %g to %g", numbers[i].name,
                              numbers[i].value, numbers[i].low, numbers[i].high);
    }
    if (config->width % config->heads)
        return eitp__fail(error, EITP_ERROR_FORMAT, "n_embd %lld cannot be shared among n_head %lld",
                          (long long)config->width, (long long)config->heads);
    return EITP_OK;
}

/* Names that Hugging Face's activation_function has for what eitp computes; the first of each is the one written. */
static const struct {
    const char *name;
    eitp_activation activation;
} eitp__activations[] = {
    {"gelu_new", EITP_GELU_TANH},  {"gelu_pytorch_tanh", EITP_GELU_TANH},
    {"gelu_fast", EITP_GELU_TANH}, {"gelu", EITP_GELU_ERF},
    {"relu", EITP_RELU},           {"tanh", EITP_TANH},
};

static eitp_status eitp__read_activation(const eitp__json *root, eitp_activation *activation, eitp_error *error) {
    const char *name = "gelu_new";
    eitp_status status = eitp__json_get_text(root, "activation_function", &name, error);
    if (status)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (!strcmp(name, eitp__activations[i].name)) {
            *activation = eitp__activations[i].activation;
            return EITP_OK;
        }
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "activation_function '%s' is not one that eitp has", name);
}

/* Members that change what the model computes, and that eitp only takes at one value. */
static eitp_status eitp__check_features(const eitp__json *root, eitp_error *error) {
    const char *type = "gpt2";
    int cross_attention = 0;
    eitp_status status = eitp__json_get_text(root, "model_type", &type, error);
    if (!status)
        status = eitp__json_get_boolean(root, "add_cross_attention", &cross_attention, error);
    if (!status && strcmp(type, "gpt2"))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "model_type is '%s'; eitp has gpt2", type);
    if (!status && cross_attention)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "add_cross_attention is true; eitp has no cross-attention");
    return status;
}

static eitp_status eitp__parse_gpt2_config(const eitp__json *root, eitp_gpt2_config *config, eitp_error *error) {
    const struct {
        const char *name;
        int64_t *value;
    } integers[] = {
        {"vocab_size", &config->vocabulary}, {"n_ctx", &config->positions}, {"n_positions", &config->positions},
        {"n_embd", &config->width},          {"n_head", &config->heads},    {"n_layer", &config->layers},
        {"n_inner", &config->inner},
    };
    const struct {
        const char *name;
        double *value;
    } numbers[] = {
        {"embd_pdrop", &config->embedding_dropout},        {"attn_pdrop", &config->attention_dropout},
        {"resid_pdrop", &config->residual_dropout},        {"layer_norm_epsilon", &config->epsilon},
        {"initializer_range", &config->initializer_range},
    };
    const struct {
        const char *name;
        int *value;
    } booleans[] = {
        {"scale_attn_weights", &config->scale_attention},
        {"scale_attn_by_inverse_layer_idx", &config->scale_attention_by_layer},
        {"tie_word_embeddings", &config->tied},
    };
    eitp_status status = EITP_OK;
    if (!root || root->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "this is no JSON object; a config.json is one");
    status = eitp__check_features(root, error);
    for (size_t i = 0; i < EITP__COUNT(integers) && !status; i++)
        status = eitp__json_get_integer(root, integers[i].name, 1, 1 << 24, integers[i].value, error);
    for (size_t i = 0; i < EITP__COUNT(numbers) && !status; i++)
        status = eitp__json_get_number(root, numbers[i].name, 0, 10, numbers[i].value, error);
    for (size_t i = 0; i < EITP__COUNT(booleans) && !status; i++)
        status = eitp__json_get_boolean(root, booleans[i].name, booleans[i].value, error);
    if (!status)
        status = eitp__read_activation(root, &config->activation, error);
    if (!config->inner)
        config->inner = 4 * config->width;
    return status ? status : eitp__gpt2_config_check(config, error);
}

eitp_status eitp_gpt2_config_read(const eitp_host *host, const char *path, eitp_gpt2_config *config,
                                  eitp_error *error) {
    enum { LIMIT = 16 << 20 };
    eitp__json_document *document;
    eitp_gpt2_config parsed = eitp__gpt2_defaults();
    eitp_status status = eitp__json_read_file(host, path, LIMIT, &document, error);
    if (status)
        return status;
    status = eitp__parse_gpt2_config(eitp__json_root(document), &parsed, error);
    eitp__json_release(document);
    if (status)
        return eitp__fail_prefix(error, status, "%s", path);
    *config = parsed;
    return EITP_OK;
}

static const char *eitp__activation_name(eitp_activation activation) {
    for (size_t i = 0; i < EITP__COUNT(eitp__activations); i++) {
        if (eitp__activations[i].activation == activation)
            return eitp__activations[i].name;
    }
    return "gelu_new";
}

static void eitp__write_number(eitp__buffer *text, const char *name, double value) {
    eitp__buffer_format(text, "  \"%s\": ", name);
    eitp__json_write_number(text, value);
    eitp__buffer_add_text(text, ",\n");
}

static void eitp__write_boolean(eitp__buffer *text, const char *name, int value) {
    eitp__buffer_format(text, "  \"%s\": %s,\n", name, value ? "true" : "false");
}

static void eitp__write_integer(eitp__buffer *text, const char *name, int64_t value) {
    eitp__buffer_format(text, "  \"%s\": %lld,\n", name, (long long)value);
}

eitp_status eitp_gpt2_config_write(const eitp_host *host, const char *path, const eitp_gpt2_config *config,
                                   int32_t end_of_text, eitp_dtype dtype, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    eitp__buffer_add_text(&text, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n");
    eitp__buffer_format(&text, "  \"activation_function\": \"%s\",\n", eitp__activation_name(config->activation));
    eitp__write_integer(&text, "vocab_size", config->vocabulary);
    eitp__write_integer(&text, "n_positions", config->positions);
    eitp__write_integer(&text, "n_ctx", config->positions);
    eitp__write_integer(&text, "n_embd", config->width);
    eitp__write_integer(&text, "n_head", config->heads);
    eitp__write_integer(&text, "n_layer", config->layers);
    eitp__write_integer(&text, "n_inner", config->inner);
    eitp__write_number(&text, "embd_pdrop", config->embedding_dropout);
    eitp__write_number(&text, "attn_pdrop", config->attention_dropout);
    eitp__write_number(&text, "resid_pdrop", config->residual_dropout);
    eitp__write_number(&text, "layer_norm_epsilon", config->epsilon);
    eitp__write_number(&text, "initializer_range", config->initializer_range);
    eitp__write_boolean(&text, "scale_attn_weights", config->scale_attention);
    eitp__write_boolean(&text, "scale_attn_by_inverse_layer_idx", config->scale_attention_by_layer);
    eitp__write_boolean(&text, "tie_word_embeddings", config->tied);
    if (end_of_text >= 0) {
        eitp__write_integer(&text, "bos_token_id", end_of_text);
        eitp__write_integer(&text, "eos_token_id", end_of_text);
    }
    /* The older and the newer spelling, so that every version of transformers finds it. */
    for (int i = 0; i < 2; i++)
        eitp__buffer_format(&text, "  \"%s\": \"%s\"%s\n", i ? "dtype" : "torch_dtype",
                            dtype == EITP_F16    ? "float16"
                            : dtype == EITP_BF16 ? "bfloat16"
                                                 : "float32",
                            i ? "" : ",");
    eitp__buffer_add_text(&text, "}\n");
    status = text.failed ? eitp__fail_memory(error, text.size, "a config.json")
                         : eitp__write_file(host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    return status;
}
/* <<src/model/gpt2_config.c */

/* >>src/model/gpt2.c */
/* ---- Parameters ---- */

/* A dimension of a parameter, by name. */
typedef enum eitp__extent {
    EITP__NONE,
    EITP__VOCABULARY,
    EITP__POSITIONS,
    EITP__WIDTH,
    EITP__QKV,
    EITP__INNER
} eitp__extent;

typedef struct eitp__gpt2_row {
    const char *name;
    eitp__extent extents[2];
    eitp__fill_kind fill;
} eitp__gpt2_row;

#define EITP__PREFIX "transformer."

static const eitp__gpt2_row eitp__gpt2_first[] = {
    {"wte.weight", {EITP__VOCABULARY, EITP__WIDTH}, EITP__FILL_NORMAL},
    {"wpe.weight", {EITP__POSITIONS, EITP__WIDTH}, EITP__FILL_NORMAL},
};

/* Once for each layer, called "h.<layer>.<name>". */
static const eitp__gpt2_row eitp__gpt2_layer[] = {
    {"ln_1.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_1.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"attn.c_attn.weight", {EITP__WIDTH, EITP__QKV}, EITP__FILL_NORMAL},
    {"attn.c_attn.bias", {EITP__QKV, EITP__NONE}, EITP__FILL_ZERO},
    {"attn.c_proj.weight", {EITP__WIDTH, EITP__WIDTH}, EITP__FILL_RESIDUAL},
    {"attn.c_proj.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"ln_2.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_2.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
    {"mlp.c_fc.weight", {EITP__WIDTH, EITP__INNER}, EITP__FILL_NORMAL},
    {"mlp.c_fc.bias", {EITP__INNER, EITP__NONE}, EITP__FILL_ZERO},
    {"mlp.c_proj.weight", {EITP__INNER, EITP__WIDTH}, EITP__FILL_RESIDUAL},
    {"mlp.c_proj.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
};

static const eitp__gpt2_row eitp__gpt2_last[] = {
    {"ln_f.weight", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ONE},
    {"ln_f.bias", {EITP__WIDTH, EITP__NONE}, EITP__FILL_ZERO},
};

/* Only where the head is not tied; its name has no prefix. */
static const eitp__gpt2_row eitp__gpt2_head = {"lm_head.weight", {EITP__VOCABULARY, EITP__WIDTH}, EITP__FILL_NORMAL};

static int64_t eitp__gpt2_extent(const eitp_gpt2_config *config, eitp__extent extent) {
    switch (extent) {
    case EITP__VOCABULARY:
        return config->vocabulary;
    case EITP__POSITIONS:
        return config->positions;
    case EITP__WIDTH:
        return config->width;
    case EITP__QKV:
        return 3 * config->width;
    case EITP__INNER:
        return config->inner;
    case EITP__NONE:
    default:
        return 0;
    }
}

EITP__PRIVATE int64_t eitp__gpt2_parameter_count(const eitp_gpt2_config *config) {
    return (int64_t)EITP__COUNT(eitp__gpt2_first) + config->layers * (int64_t)EITP__COUNT(eitp__gpt2_layer) +
           (int64_t)EITP__COUNT(eitp__gpt2_last) + !config->tied;
}

EITP__PRIVATE eitp__parameter eitp__gpt2_parameter(const eitp_gpt2_config *config, int64_t index) {
    const int64_t first = EITP__COUNT(eitp__gpt2_first), layer = EITP__COUNT(eitp__gpt2_layer);
    const int64_t last = EITP__COUNT(eitp__gpt2_last), layers_end = first + config->layers * layer;
    const eitp__gpt2_row *row;
    eitp__parameter parameter;
    memset(&parameter, 0, sizeof parameter);
    if (index < first) {
        row = &eitp__gpt2_first[index];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "%s", row->name);
    } else if (index < layers_end) {
        row = &eitp__gpt2_layer[(index - first) % layer];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "h.%d.%s", (int)((index - first) / layer),
                 row->name);
    } else if (index < layers_end + last) {
        row = &eitp__gpt2_last[index - layers_end];
        snprintf(parameter.name, sizeof parameter.name, EITP__PREFIX "%s", row->name);
    } else {
        row = &eitp__gpt2_head;
        snprintf(parameter.name, sizeof parameter.name, "%s", row->name);
    }
    parameter.fill = row->fill;
    for (int d = 0; d < 2 && row->extents[d] != EITP__NONE; d++)
        parameter.shape[parameter.rank++] = eitp__gpt2_extent(config, row->extents[d]);
    return parameter;
}

/* ---- The model object ---- */

eitp_status eitp_gpt2_create(eitp_context *context, const eitp_gpt2_config *config, eitp_model **model,
                             eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    eitp_graph *graph = NULL;
    eitp_model *made;
    eitp_status status = eitp__gpt2_config_check(config, error);
    *model = NULL;
    if (status)
        return status;
    made = (eitp_model *)eitp__allocate(&host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a model");
    made->context = context;
    made->host = host;
    made->config = *config;
    status = eitp_graph_create(context, &graph, error);
    for (int64_t i = 0; i < eitp__gpt2_parameter_count(config) && !status; i++) {
        eitp__parameter parameter = eitp__gpt2_parameter(config, i);
        eitp_parameter(graph, parameter.name, parameter.rank, parameter.shape);
        status = eitp_graph_status(graph, error);
    }
    eitp_graph_destroy(graph);
    if (status) {
        eitp_model_destroy(made);
        return status;
    }
    *model = made;
    return EITP_OK;
}

void eitp_model_destroy(eitp_model *model) {
    eitp_host host;
    if (!model)
        return;
    host = model->host;
    eitp__release(&host, model, sizeof *model);
}

eitp_gpt2_config eitp_model_config(const eitp_model *model) {
    return model->config;
}

eitp_context *eitp_model_context(const eitp_model *model) {
    return model->context;
}

int64_t eitp_model_parameter_count(const eitp_model *model) {
    int64_t elements = 0;
    for (int64_t i = 0; i < eitp__gpt2_parameter_count(&model->config); i++) {
        eitp__parameter parameter = eitp__gpt2_parameter(&model->config, i);
        elements += parameter.shape[0] * (parameter.rank > 1 ? parameter.shape[1] : 1);
    }
    return elements;
}

eitp_status eitp_model_initialize(eitp_model *model, uint64_t seed, eitp_error *error) {
    const eitp_gpt2_config *config = &model->config;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__gpt2_parameter_count(config) && !status; i++) {
        eitp__parameter parameter = eitp__gpt2_parameter(config, i);
        double deviation = config->initializer_range;
        if (parameter.fill == EITP__FILL_RESIDUAL)
            deviation /= sqrt(2.0 * (double)config->layers);
        if (parameter.fill == EITP__FILL_ONE || parameter.fill == EITP__FILL_ZERO)
            status = eitp_variable_fill(model->context, parameter.name, parameter.fill == EITP__FILL_ONE, error);
        else
            status = eitp_variable_fill_normal(model->context, parameter.name, 0, deviation, seed, error);
    }
    return status;
}

/* ---- The graph ---- */

/* The model's parameter "transformer.<name>" in a graph; `layer` below 0: outside the layers. */
static eitp_tensor *eitp__gpt2_tensor(const eitp_model *model, eitp_graph *graph, int64_t layer, const char *name) {
    char full[96];
    int64_t index;
    eitp_variable info;
    if (layer >= 0)
        snprintf(full, sizeof full, EITP__PREFIX "h.%d.%s", (int)layer, name);
    else
        snprintf(full, sizeof full, EITP__PREFIX "%s", name);
    index = eitp_variable_find(model->context, full);
    info = eitp_variable_at(model->context, (size_t)index);
    return eitp_parameter(graph, full, info.rank, info.shape);
}

/* x through the weight and bias called <name>.weight and <name>.bias. */
static eitp_tensor *eitp__gpt2_linear(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name,
                                      eitp_activation activation) {
    char weight[64], bias[64];
    eitp_graph *graph;
    if (!x)
        return NULL;
    graph = eitp_tensor_graph(x);
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return eitp_linear(x, eitp__gpt2_tensor(model, graph, layer, weight), eitp__gpt2_tensor(model, graph, layer, bias),
                       activation);
}

static eitp_tensor *eitp__gpt2_norm(const eitp_model *model, eitp_tensor *x, int64_t layer, const char *name) {
    char weight[64], bias[64];
    eitp_graph *graph;
    if (!x)
        return NULL;
    graph = eitp_tensor_graph(x);
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return eitp_layer_norm(x, eitp__gpt2_tensor(model, graph, layer, weight),
                           eitp__gpt2_tensor(model, graph, layer, bias), model->config.epsilon);
}

static eitp_tensor *eitp__gpt2_cache(const eitp_model *model, eitp_graph *graph, int64_t layer, const char *what,
                                     int64_t longest) {
    char name[64];
    int64_t shape[2];
    snprintf(name, sizeof name, "cache.%d.%s", (int)layer, what);
    shape[0] = longest;
    shape[1] = model->config.width;
    return eitp_variable_tensor(graph, name, EITP_CACHE, EITP_F32, 2, shape);
}

static eitp_tensor *eitp__gpt2_attention(const eitp_model *model, eitp_tensor *x, int64_t layer,
                                         const eitp__attending *attending) {
    const eitp_gpt2_config *config = &model->config;
    eitp_tensor *qkv = eitp__gpt2_linear(model, x, layer, "attn.c_attn", EITP_NO_ACTIVATION);
    double scale = config->scale_attention ? 1.0 / sqrt((double)config->width / (double)config->heads) : 1.0;
    eitp_graph *graph;
    if (!qkv)
        return NULL;
    graph = eitp_tensor_graph(qkv);
    if (config->scale_attention_by_layer)
        scale /= (double)(layer + 1);
    if (attending->position)
        return eitp_attention_cached(qkv, eitp__gpt2_cache(model, graph, layer, "keys", attending->longest),
                                     eitp__gpt2_cache(model, graph, layer, "values", attending->longest),
                                     attending->position, (int)config->heads, scale);
    return eitp_attention(qkv, attending->offsets, (int)config->heads, attending->longest, scale, attending->key,
                          attending->key ? config->attention_dropout : 0);
}

static eitp_tensor *eitp__gpt2_dropout(eitp_tensor *x, const eitp__attending *attending, double probability) {
    return attending->key ? eitp_dropout(x, attending->key, probability) : x;
}

static eitp_tensor *eitp__gpt2_block(const eitp_model *model, eitp_tensor *x, int64_t layer,
                                     const eitp__attending *attending) {
    const eitp_gpt2_config *config = &model->config;
    eitp_tensor *attended, *hidden;
    attended = eitp__gpt2_attention(model, eitp__gpt2_norm(model, x, layer, "ln_1"), layer, attending);
    attended = eitp__gpt2_linear(model, attended, layer, "attn.c_proj", EITP_NO_ACTIVATION);
    x = eitp_add(x, eitp__gpt2_dropout(attended, attending, config->residual_dropout));
    hidden = eitp__gpt2_linear(model, eitp__gpt2_norm(model, x, layer, "ln_2"), layer, "mlp.c_fc", config->activation);
    hidden = eitp__gpt2_linear(model, hidden, layer, "mlp.c_proj", EITP_NO_ACTIVATION);
    return eitp_add(x, eitp__gpt2_dropout(hidden, attending, config->residual_dropout));
}

EITP__PRIVATE eitp_tensor *eitp__gpt2_hidden(const eitp_model *model, eitp_graph *graph, eitp_tensor *tokens,
                                             eitp_tensor *positions, const eitp__attending *attending) {
    eitp_tensor *x = eitp_add(eitp_embedding(eitp__gpt2_tensor(model, graph, -1, "wte.weight"), tokens),
                              eitp_embedding(eitp__gpt2_tensor(model, graph, -1, "wpe.weight"), positions));
    x = eitp__gpt2_dropout(x, attending, model->config.embedding_dropout);
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        x = eitp__gpt2_block(model, x, layer, attending);
    return eitp__gpt2_norm(model, x, -1, "ln_f");
}

EITP__PRIVATE eitp_tensor *eitp__gpt2_logits(const eitp_model *model, eitp_tensor *hidden) {
    int64_t shape[2];
    eitp_graph *graph;
    if (!hidden)
        return NULL;
    graph = eitp_tensor_graph(hidden);
    shape[0] = model->config.vocabulary;
    shape[1] = model->config.width;
    return eitp_matmul_transposed(hidden,
                                  model->config.tied ? eitp__gpt2_tensor(model, graph, -1, "wte.weight")
                                                     : eitp_parameter(graph, eitp__gpt2_head.name, 2, shape),
                                  0, 1);
}

eitp_model_inputs eitp_model_inputs_create(eitp_graph *graph, int64_t sequences, int64_t longest, int with_key) {
    eitp_model_inputs inputs;
    int64_t rows = sequences * longest, offsets = sequences + 1, key = 3;
    inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &rows);
    inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &rows);
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offsets);
    inputs.key = with_key ? eitp_input(graph, "random key", EITP_I64, 1, &key) : NULL;
    return inputs;
}

eitp_tensor *eitp_model_forward(const eitp_model *model, eitp_graph *graph, const eitp_model_inputs *inputs,
                                int64_t longest) {
    eitp__attending attending;
    attending.offsets = inputs->offsets;
    attending.key = inputs->key;
    attending.longest = longest;
    attending.position = NULL;
    return eitp__gpt2_logits(model, eitp__gpt2_hidden(model, graph, inputs->tokens, inputs->positions, &attending));
}
/* <<src/model/gpt2.c */

/* >>src/model/generate.c */
/* Generation with a key-value cache: one plan for prompt and tokens, whose rows are those fed at a time. */

struct eitp_generator {
    const eitp_model *model;
    eitp_host host;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *tokens, *positions, *position, *last, *logits;
    int64_t capacity, chunk, fed;
    int32_t *numbers; /* positions of a chunk */
    float *row;       /* the logits */
    int32_t *order;   /* of tokens, likeliest first, for sampling */
    double *weights;
};

eitp_sampling eitp_sampling_default(void) {
    eitp_sampling sampling;
    sampling.temperature = 1;
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.seed = 0;
    return sampling;
}

/* The graph: hidden states of the rows fed, and logits of the last of them only. */
static eitp_status eitp__generator_plan(eitp_generator *generator, eitp_error *error) {
    eitp_graph *graph = generator->graph;
    eitp__attending attending;
    eitp_tensor *hidden;
    int64_t one = 1;
    memset(&attending, 0, sizeof attending);
    generator->tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &generator->chunk);
    generator->positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &generator->chunk);
    generator->position = eitp_input(graph, "position", EITP_I32, 1, &one);
    generator->last = eitp_input(graph, "last row", EITP_I32, 1, &one);
    attending.position = generator->position;
    attending.longest = generator->capacity;
    hidden = eitp__gpt2_hidden(generator->model, graph, generator->tokens, generator->positions, &attending);
    generator->logits = eitp_output(eitp__gpt2_logits(generator->model, eitp_embedding(hidden, generator->last)));
    return eitp_plan_create(graph, &generator->plan, error);
}

eitp_status eitp_generator_create(const eitp_model *model, int64_t capacity, eitp_generator **generator,
                                  eitp_error *error) {
    const int64_t largest_chunk = 128;
    eitp_generator *made;
    eitp_status status;
    size_t vocabulary = (size_t)model->config.vocabulary;
    *generator = NULL;
    if (capacity < 0 || capacity > model->config.positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld tokens are more than the model's %lld positions",
                          (long long)capacity, (long long)model->config.positions);
    made = (eitp_generator *)eitp__allocate(&model->host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a generator");
    made->model = model;
    made->host = model->host;
    made->capacity = capacity ? capacity : model->config.positions;
    made->chunk = made->capacity < largest_chunk ? made->capacity : largest_chunk;
    made->numbers = (int32_t *)eitp__allocate(&made->host, (size_t)made->chunk * sizeof *made->numbers);
    made->row = (float *)eitp__allocate(&made->host, vocabulary * sizeof *made->row);
    made->order = (int32_t *)eitp__allocate(&made->host, vocabulary * sizeof *made->order);
    made->weights = (double *)eitp__allocate(&made->host, vocabulary * sizeof *made->weights);
    if (!made->numbers || !made->row || !made->order || !made->weights)
        status = eitp__fail_memory(error, vocabulary * (sizeof *made->row + sizeof *made->weights), "a generator");
    else
        status = eitp_graph_create(model->context, &made->graph, error);
    if (!status)
        status = eitp__generator_plan(made, error);
    if (status) {
        eitp_generator_destroy(made);
        return status;
    }
    *generator = made;
    return EITP_OK;
}

void eitp_generator_destroy(eitp_generator *generator) {
    eitp_host host;
    size_t vocabulary;
    if (!generator)
        return;
    host = generator->host;
    vocabulary = (size_t)generator->model->config.vocabulary;
    eitp_plan_destroy(generator->plan);
    eitp_graph_destroy(generator->graph);
    eitp__release(&host, generator->numbers, (size_t)generator->chunk * sizeof *generator->numbers);
    eitp__release(&host, generator->row, vocabulary * sizeof *generator->row);
    eitp__release(&host, generator->order, vocabulary * sizeof *generator->order);
    eitp__release(&host, generator->weights, vocabulary * sizeof *generator->weights);
    eitp__release(&host, generator, sizeof *generator);
}

void eitp_generator_reset(eitp_generator *generator) {
    generator->fed = 0;
}

int64_t eitp_generator_room(const eitp_generator *generator) {
    return generator->capacity - generator->fed;
}

static eitp_status eitp__feed_chunk(eitp_generator *generator, const int32_t *tokens, int64_t count,
                                    eitp_error *error) {
    int32_t first = (int32_t)generator->fed, last = (int32_t)count - 1;
    size_t bytes = (size_t)count * sizeof *tokens;
    eitp_status status = eitp_plan_set_count(generator->plan, count, error);
    for (int64_t i = 0; i < count; i++)
        generator->numbers[i] = first + (int32_t)i;
    if (!status)
        status = eitp_plan_write(generator->plan, generator->tokens, tokens, bytes, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->positions, generator->numbers, bytes, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->position, &first, sizeof first, error);
    if (!status)
        status = eitp_plan_write(generator->plan, generator->last, &last, sizeof last, error);
    if (!status)
        status = eitp_plan_run(generator->plan, error);
    if (!status)
        status = eitp_plan_read(generator->plan, generator->logits, generator->row,
                                (size_t)generator->model->config.vocabulary * sizeof *generator->row, error);
    if (!status)
        generator->fed += count;
    return status;
}

eitp_status eitp_generator_feed(eitp_generator *generator, const int32_t *tokens, int64_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (count < 1 || count > eitp_generator_room(generator))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%lld tokens do not fit: the cache has room for %lld",
                          (long long)count, (long long)eitp_generator_room(generator));
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= generator->model->config.vocabulary)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "token id %d is outside the model's vocabulary of %lld",
                              (int)tokens[i], (long long)generator->model->config.vocabulary);
    }
    for (int64_t i = 0; i < count && !status; i += generator->chunk) {
        int64_t part = count - i < generator->chunk ? count - i : generator->chunk;
        status = eitp__feed_chunk(generator, tokens + i, part, error);
    }
    return status;
}

const float *eitp_generator_logits(const eitp_generator *generator) {
    return generator->row;
}

static int32_t eitp__likeliest(const float *logits, int64_t count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

/* Is token a to be preferred to b? By logit, then by number. */
static int eitp__likelier(const float *logits, int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void eitp__sift_likeliest(const float *logits, int32_t *heap, int64_t root, int64_t count) {
    for (;;) {
        int64_t best = root;
        int32_t other = heap[root];
        for (int64_t child = 2 * root + 1; child <= 2 * root + 2 && child < count; child++) {
            if (eitp__likelier(logits, heap[child], heap[best]))
                best = child;
        }
        if (best == root)
            return;
        heap[root] = heap[best];
        heap[best] = other;
        root = best;
    }
}

/*
 * Takes tokens in falling order of probability from a heap, until there are top_k of them or they have top_p of the whole; draws from those.
 */
static int32_t eitp__sample_sorted(eitp_generator *generator, const eitp_sampling *sampling, double uniform,
                                   double total) {
    int64_t count = generator->model->config.vocabulary, left = count, taken = 0;
    int64_t most = sampling->top_k > 0 && sampling->top_k < count ? sampling->top_k : count;
    const float *logits = generator->row;
    int32_t *heap = generator->order;
    double kept = 0, sum = 0, limit = sampling->top_p < 1 ? sampling->top_p * total : total;
    for (int64_t i = 0; i < count; i++)
        heap[i] = (int32_t)i;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        eitp__sift_likeliest(logits, heap, i, count);
    while (taken < most && (taken == 0 || kept < limit)) {
        int32_t top = heap[0];
        kept += generator->weights[top];
        taken++;
        /* The heap shrinks from its end: what was taken collects there, the likeliest last. */
        heap[0] = heap[--left];
        heap[left] = top;
        eitp__sift_likeliest(logits, heap, 0, left);
    }
    for (int64_t i = 0; i < taken; i++) {
        int32_t token = heap[count - 1 - i];
        sum += generator->weights[token];
        if (uniform * kept < sum)
            return token;
    }
    return heap[count - taken];
}

int32_t eitp_generator_sample(eitp_generator *generator, const eitp_sampling *sampling) {
    int64_t count = generator->model->config.vocabulary;
    const float *logits = generator->row;
    int32_t best = eitp__likeliest(logits, count);
    double total = 0, sum = 0, uniform;
    if (!(sampling->temperature > 0) || sampling->top_k == 1)
        return best;
    for (int64_t i = 0; i < count; i++) {
        generator->weights[i] = exp(((double)logits[i] - (double)logits[best]) / sampling->temperature);
        total += generator->weights[i];
    }
    uniform = eitp__random_uniform(sampling->seed, (uint64_t)generator->fed, EITP__STREAM_SAMPLE, 0);
    if (sampling->top_k > 0 || sampling->top_p < 1)
        return eitp__sample_sorted(generator, sampling, uniform, total);
    for (int32_t i = 0; i < count; i++) {
        sum += generator->weights[i];
        if (uniform * total < sum)
            return i;
    }
    return best;
}
/* <<src/model/generate.c */

/* >>src/optim/adamw.c */
/* The AdamW step as nodes of a graph: norm of the whole gradient, commit, one update for each parameter. */

eitp_adamw_config eitp_adamw_config_default(void) {
    eitp_adamw_config config;
    config.beta1 = 0.9;
    config.beta2 = 0.999;
    config.epsilon = 1e-8;
    config.weight_decay = 0.01;
    return config;
}

/* The state of a parameter called "adamw.<moment>.<name>". */
static eitp_tensor *eitp__moment(const eitp_tensor *parameter, const char *moment) {
    char name[256];
    snprintf(name, sizeof name, "adamw.%s.%s", moment, eitp__variable_name(parameter));
    return eitp_variable_tensor(parameter->graph, name, EITP_OPTIMIZER, parameter->dtype, parameter->rank,
                                parameter->shape);
}

static int eitp__decays(eitp_context *context, const eitp_tensor *parameter) {
    return eitp_variable_at(context, (size_t)parameter->variable).decay;
}

static void eitp__adamw_node(const eitp_adamw_config *config, const eitp_update *update, eitp_tensor *parameter,
                             eitp_tensor *gradient) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[6];
    attributes.reals[0] = config->beta1;
    attributes.reals[1] = config->beta2;
    attributes.reals[2] = config->epsilon;
    attributes.reals[3] = eitp__decays(parameter->graph->context, parameter) ? config->weight_decay : 0;
    inputs[0] = parameter;
    inputs[1] = gradient;
    inputs[2] = eitp__moment(parameter, "m");
    inputs[3] = eitp__moment(parameter, "v");
    inputs[4] = update->hyper;
    inputs[5] = update->commit;
    eitp__node_create(parameter->graph, EITP__OP_ADAMW, inputs, 6, &attributes);
}

/* Adds the whole step for `count` parameters and their gradients. */
static eitp_status eitp__adamw_step(eitp_graph *graph, const eitp_adamw_config *config, size_t count,
                                    eitp_tensor *const *parameters, eitp_tensor *const *gradients, eitp_update *update,
                                    eitp_error *error) {
    eitp_tensor *sum = NULL, *inputs[2];
    eitp__node *commit;
    int64_t two = 2, one = 1;
    if (!(config->beta1 >= 0 && config->beta1 < 1 && config->beta2 >= 0 && config->beta2 < 1 && config->epsilon > 0 &&
          config->weight_decay >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "AdamW needs betas in [0, 1), epsilon above 0 and a weight decay of 0 or more");
    if (!count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "there is no parameter to update");
    update->hyper = eitp_input(graph, "learning rate and step", EITP_F32, 1, &two);
    update->limit = eitp_input(graph, "largest gradient norm", EITP_F32, 1, &one);
    for (size_t i = 0; i < count; i++)
        eitp__add_gradient(&sum, eitp_sum_squares(gradients[i]));
    inputs[0] = sum;
    inputs[1] = update->limit;
    commit = eitp__node_create(graph, EITP__OP_COMMIT, inputs, 2, NULL);
    update->commit = commit ? eitp_output(commit->outputs[0]) : NULL;
    update->norm = commit ? eitp_output(commit->outputs[1]) : NULL;
    for (size_t i = 0; i < count && commit; i++)
        eitp__adamw_node(config, update, parameters[i], gradients[i]);
    return eitp_graph_status(graph, error);
}

/* Two lists of tensors, as long as the graph or the context has candidates. */
typedef struct eitp__pairs {
    const eitp_host *host;
    eitp_tensor **parameters, **gradients;
    size_t count, bytes;
} eitp__pairs;

static eitp_status eitp__pairs_init(eitp__pairs *pairs, const eitp_host *host, size_t capacity, eitp_error *error) {
    memset(pairs, 0, sizeof *pairs);
    pairs->host = host;
    pairs->bytes = capacity * sizeof *pairs->parameters;
    pairs->parameters = (eitp_tensor **)eitp__allocate(host, pairs->bytes);
    pairs->gradients = (eitp_tensor **)eitp__allocate(host, pairs->bytes);
    if (capacity && (!pairs->parameters || !pairs->gradients))
        return eitp__fail_memory(error, 2 * pairs->bytes, "the list of parameters");
    return EITP_OK;
}

static void eitp__pairs_release(eitp__pairs *pairs) {
    eitp__release(pairs->host, pairs->parameters, pairs->bytes);
    eitp__release(pairs->host, pairs->gradients, pairs->bytes);
}

eitp_status eitp_adamw_minimize(eitp_tensor *loss, const eitp_adamw_config *config, eitp_update *update,
                                eitp_error *error) {
    eitp__pairs pairs;
    eitp_graph *graph;
    eitp_status status;
    memset(update, 0, sizeof *update);
    if (!loss)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the loss is NULL; eitp_graph_status says why");
    graph = loss->graph;
    status = eitp__pairs_init(&pairs, eitp__graph_host(graph), graph->tensor_count, error);
    for (size_t i = 0; i < graph->tensor_count && !status; i++) {
        if (eitp__is_parameter(graph->tensors[i]))
            pairs.parameters[pairs.count++] = graph->tensors[i];
    }
    if (!status)
        status = eitp_gradients(loss, NULL, (int)pairs.count, pairs.parameters, pairs.gradients, error);
    if (!status)
        status = eitp__adamw_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}

eitp_status eitp_adamw_apply(eitp_graph *graph, const eitp_adamw_config *config, eitp_update *update,
                             eitp_error *error) {
    eitp_context *context = graph->context;
    size_t variables = eitp_variable_count(context);
    eitp__pairs pairs;
    eitp_status status = eitp__pairs_init(&pairs, &context->host, variables, error);
    memset(update, 0, sizeof *update);
    for (size_t i = 0; i < variables && !status; i++) {
        eitp_variable parameter = eitp_variable_at(context, i);
        char name[256];
        snprintf(name, sizeof name, "gradient.%s", parameter.name);
        if (parameter.role != EITP_PARAMETER || eitp_variable_find(context, name) < 0)
            continue;
        pairs.parameters[pairs.count] = eitp_parameter(graph, parameter.name, parameter.rank, parameter.shape);
        pairs.gradients[pairs.count++] =
            eitp_variable_tensor(graph, name, EITP_GRADIENT, EITP_F32, parameter.rank, parameter.shape);
        status = eitp_graph_status(graph, error);
    }
    if (!status)
        status = eitp__adamw_step(graph, config, pairs.count, pairs.parameters, pairs.gradients, update, error);
    eitp__pairs_release(&pairs);
    return status;
}
/* <<src/optim/adamw.c */

/* >>src/optim/schedule.c */
double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step) {
    double progress = 0, range = schedule->peak - schedule->final;
    if (step <= schedule->warmup)
        return schedule->peak * (double)step / (double)schedule->warmup;
    if (schedule->steps > schedule->warmup)
        progress = (double)(step - 1 - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    if (progress > 1)
        progress = 1;
    switch (schedule->kind) {
    case EITP_SCHEDULE_LINEAR:
        return schedule->peak - range * progress;
    case EITP_SCHEDULE_COSINE:
        return schedule->final + range * 0.5 * (1 + cos(3.14159265358979323846 * progress));
    case EITP_SCHEDULE_CONSTANT:
    default:
        return schedule->peak;
    }
}
/* <<src/optim/schedule.c */

/* >>src/text/bpe.c */
/* Pieces up to this many bytes are merged by looking at every pair each time: that is faster while they are short. */
enum { EITP__BPE_SHORT = 48 };

#define EITP__NO_PAIR UINT64_MAX
#define EITP__NO_RANK UINT32_MAX

static uint64_t eitp__pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t eitp__pair_slot(uint64_t pair, size_t slot_count) {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    return (size_t)(hash >> 32) & (slot_count - 1);
}

EITP__PRIVATE eitp_status eitp__bpe_index(eitp__bpe *bpe, const eitp_host *host, eitp_error *error) {
    size_t slot_count = 16;
    while (slot_count < 2 * bpe->merge_count)
        slot_count *= 2;
    bpe->slots = (eitp__merge_slot *)eitp__allocate_uninitialized(host, slot_count * sizeof *bpe->slots);
    if (!bpe->slots)
        return eitp__fail_memory(error, slot_count * sizeof *bpe->slots, "the tokenizer's merges");
    bpe->slot_count = slot_count;
    for (size_t i = 0; i < slot_count; i++)
        bpe->slots[i].pair = EITP__NO_PAIR;
    for (size_t rank = 0; rank < bpe->merge_count; rank++) {
        const eitp__merge *merge = &bpe->merges[rank];
        uint64_t pair = eitp__pair_key(merge->left, merge->right);
        size_t i = eitp__pair_slot(pair, slot_count);
        while (bpe->slots[i].pair != EITP__NO_PAIR && bpe->slots[i].pair != pair)
            i = (i + 1) & (slot_count - 1);
        if (bpe->slots[i].pair == pair)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "merge %zu joins the same two tokens (ids %ld and %ld) as merge %lu; remove one of them",
                              rank, (long)merge->left, (long)merge->right, (unsigned long)bpe->slots[i].rank);
        bpe->slots[i].pair = pair;
        bpe->slots[i].rank = (uint32_t)rank;
        bpe->slots[i].result = merge->result;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__bpe_release(eitp__bpe *bpe, const eitp_host *host) {
    eitp__release(host, bpe->merges, bpe->merge_count * sizeof *bpe->merges);
    eitp__release(host, bpe->slots, bpe->slot_count * sizeof *bpe->slots);
    bpe->merges = NULL;
    bpe->slots = NULL;
    bpe->merge_count = bpe->slot_count = 0;
}

EITP__PRIVATE const eitp__merge_slot *eitp__bpe_find(const eitp__bpe *bpe, int32_t left, int32_t right) {
    const uint64_t pair = eitp__pair_key(left, right);
    for (size_t i = eitp__pair_slot(pair, bpe->slot_count);; i = (i + 1) & (bpe->slot_count - 1)) {
        const eitp__merge_slot *slot = &bpe->slots[i];
        if (slot->pair == pair)
            return slot;
        if (slot->pair == EITP__NO_PAIR)
            return NULL;
    }
}

static void eitp__pair_look_up(const eitp__bpe *bpe, int32_t left, int32_t right, uint32_t *rank, int32_t *result) {
    const eitp__merge_slot *slot = eitp__bpe_find(bpe, left, right);
    *rank = slot ? slot->rank : EITP__NO_RANK;
    *result = slot ? slot->result : -1;
}

/* `size` is 1 to EITP__BPE_SHORT. */
static size_t eitp__bpe_encode_short(const eitp__bpe *bpe, const unsigned char *bytes, size_t size, int32_t *ids) {
    uint32_t ranks[EITP__BPE_SHORT]; /* of the pair that begins here */
    int32_t results[EITP__BPE_SHORT];
    size_t count = size;
    for (size_t i = 0; i < count; i++)
        ids[i] = bpe->byte_ids[bytes[i]];
    for (size_t i = 0; i + 1 < count; i++)
        eitp__pair_look_up(bpe, ids[i], ids[i + 1], &ranks[i], &results[i]);
    for (;;) {
        size_t best = 0;
        uint32_t best_rank = EITP__NO_RANK;
        for (size_t i = 0; i + 1 < count; i++) {
            if (ranks[i] < best_rank) {
                best_rank = ranks[i];
                best = i;
            }
        }
        if (best_rank == EITP__NO_RANK)
            return count;
        ids[best] = results[best];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            ranks[i] = ranks[i + 1];
            results[i] = results[i + 1];
        }
        if (best + 1 < count)
            eitp__pair_look_up(bpe, ids[best], ids[best + 1], &ranks[best], &results[best]);
        if (best)
            eitp__pair_look_up(bpe, ids[best - 1], ids[best], &ranks[best - 1], &results[best - 1]);
    }
}

/*
 * A long piece: a chain of symbols, and a heap of the pairs that may merge, by rank and then place. What stands in the
 * heap may be out of date; it is checked when it comes to the top. There are at most size - 1 pairs at the start, and
 * each of the at most size - 1 merges takes one and adds two: 2 * size places are enough.
 */
typedef struct eitp__bpe_chain {
    const eitp__bpe *bpe;
    int32_t *ids; /* of the symbol that begins at a place, -1 where none does */
    int32_t *next, *previous;
    uint64_t *heap; /* rank << 32 | place of the left symbol */
    size_t heap_count;
} eitp__bpe_chain;

static void eitp__chain_push(eitp__bpe_chain *chain, int32_t place) {
    int32_t right = chain->next[place];
    if (right < 0)
        return;
    const eitp__merge_slot *slot = eitp__bpe_find(chain->bpe, chain->ids[place], chain->ids[right]);
    if (!slot)
        return;
    const uint64_t entry = (uint64_t)slot->rank << 32 | (uint32_t)place;
    uint64_t *heap = chain->heap;
    size_t i = chain->heap_count++;
    while (i && heap[(i - 1) / 2] > entry) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entry;
}

static uint64_t eitp__chain_pop(eitp__bpe_chain *chain) {
    uint64_t *heap = chain->heap;
    const uint64_t top = heap[0], last = heap[--chain->heap_count];
    const size_t count = chain->heap_count;
    size_t i = 0;
    for (size_t child = 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void eitp__chain_merge(eitp__bpe_chain *chain, uint64_t entry) {
    const int32_t place = (int32_t)(uint32_t)entry;
    if (chain->ids[place] < 0 || chain->next[place] < 0)
        return;
    const int32_t right = chain->next[place];
    const eitp__merge_slot *slot = eitp__bpe_find(chain->bpe, chain->ids[place], chain->ids[right]);
    if (!slot || slot->rank != (uint32_t)(entry >> 32))
        return;
    chain->ids[place] = slot->result;
    chain->ids[right] = -1;
    chain->next[place] = chain->next[right];
    if (chain->next[place] >= 0)
        chain->previous[chain->next[place]] = place;
    if (chain->previous[place] >= 0)
        eitp__chain_push(chain, chain->previous[place]);
    eitp__chain_push(chain, place);
}

static size_t eitp__bpe_encode_long(const eitp__bpe *bpe, void *memory, const unsigned char *bytes, size_t size,
                                    int32_t *ids) {
    eitp__bpe_chain chain;
    chain.bpe = bpe;
    chain.heap = (uint64_t *)memory;
    chain.heap_count = 0;
    chain.next = (int32_t *)(chain.heap + 2 * size);
    chain.previous = chain.next + size;
    chain.ids = ids;
    for (size_t i = 0; i < size; i++) {
        ids[i] = bpe->byte_ids[bytes[i]];
        chain.next[i] = i + 1 < size ? (int32_t)(i + 1) : -1;
        chain.previous[i] = (int32_t)i - 1;
    }
    for (size_t i = 0; i + 1 < size; i++)
        eitp__chain_push(&chain, (int32_t)i);
    while (chain.heap_count)
        eitp__chain_merge(&chain, eitp__chain_pop(&chain));
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (ids[i] >= 0)
            ids[count++] = ids[i];
    }
    return count;
}

EITP__PRIVATE void eitp__bpe_space_release(eitp__bpe_space *space, const eitp_host *host) {
    eitp__release(host, space->memory, space->size);
    space->memory = NULL;
    space->size = 0;
}

EITP__PRIVATE eitp_status eitp__bpe_encode(const eitp__bpe *bpe, const eitp_host *host, eitp__bpe_space *space,
                                           const unsigned char *bytes, size_t size, int32_t *ids, size_t *count,
                                           eitp_error *error) {
    if (size <= EITP__BPE_SHORT) {
        *count = eitp__bpe_encode_short(bpe, bytes, size, ids);
        return EITP_OK;
    }
    size_t needed = size * (2 * sizeof(uint64_t) + 2 * sizeof(int32_t));
    if (space->size < needed) {
        eitp__bpe_space_release(space, host);
        space->memory = eitp__allocate_uninitialized(host, needed);
        if (!space->memory)
            return eitp__fail_memory(error, needed, "a long piece of text");
        space->size = needed;
    }
    *count = eitp__bpe_encode_long(bpe, space->memory, bytes, size, ids);
    return EITP_OK;
}

/* Bytes that are no visible character: 0 to 32, 127 to 160 and 173, in this order from U+0100 on. */
EITP__PRIVATE uint32_t eitp__byte_to_character(unsigned char byte) {
    if (byte <= 32)
        return 256u + byte;
    if (byte >= 127 && byte <= 160)
        return 289u + (byte - 127u);
    return byte == 173 ? 323u : byte;
}

EITP__PRIVATE int eitp__character_to_byte(uint32_t code_point) {
    if (code_point >= 256 && code_point <= 288)
        return (int)code_point - 256;
    if (code_point >= 289 && code_point <= 322)
        return (int)code_point - 289 + 127;
    if (code_point == 323)
        return 173;
    return code_point <= 255 && eitp__byte_to_character((unsigned char)code_point) == code_point ? (int)code_point : -1;
}
/* <<src/text/bpe.c */

/* >>src/text/bpe_encoder.c */
/* Text to ids: the splitter's pieces, each merged once and then remembered while its place in the cache lasts. */

enum { EITP__CACHE_IDS = 9, EITP__CACHE_BYTES = 23, EITP__ENCODER_BATCH = 1024 };

#define EITP__CACHE_SLOTS ((size_t)32768)

/* A piece and its ids, in one cache line. */
typedef struct eitp__cache_slot {
    uint64_t key[3]; /* the piece's bytes, zeros, and in the last byte their number; all zero where the slot is free */
    int32_t ids[EITP__CACHE_IDS];
    int32_t count;
} eitp__cache_slot;

struct eitp_encoder {
    const eitp_tokenizer *tokenizer;
    eitp_token_sink sink;
    void *user;
    eitp__splitter splitter;
    eitp__cache_slot *cache;
    size_t cache_count; /* a power of two */
    eitp__bpe_space space;
    int32_t *long_ids; /* of a piece that is too long for a batch */
    size_t long_capacity;
    size_t batch_count;
    int32_t batch[EITP__ENCODER_BATCH];
};

static eitp_status eitp__encoder_flush(eitp_encoder *encoder, eitp_error *error) {
    size_t count = encoder->batch_count;
    encoder->batch_count = 0;
    return count ? encoder->sink(encoder->user, encoder->batch, count, error) : EITP_OK;
}

/* Makes room for `count` ids, at most EITP__ENCODER_BATCH, in the batch. */
static eitp_status eitp__encoder_make_room(eitp_encoder *encoder, size_t count, eitp_error *error) {
    return encoder->batch_count + count > EITP__ENCODER_BATCH ? eitp__encoder_flush(encoder, error) : EITP_OK;
}

static eitp_status eitp__encode_long_piece(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                           eitp_error *error) {
    const eitp_host *host = &encoder->tokenizer->host;
    size_t count;
    eitp_status status = eitp__encoder_flush(encoder, error);
    if (status != EITP_OK)
        return status;
    if (!eitp__reserve(host, (void **)&encoder->long_ids, &encoder->long_capacity, size, sizeof *encoder->long_ids))
        return eitp__fail_memory(error, size * sizeof *encoder->long_ids, "a long piece of text");
    status = eitp__bpe_encode(&encoder->tokenizer->bpe, host, &encoder->space, bytes, size, encoder->long_ids, &count,
                              error);
    if (status == EITP_OK)
        status = encoder->sink(encoder->user, encoder->long_ids, count, error);
    if (size > EITP__PIECE_LIMIT / 16) { /* rare: the memory is worth more than the time */
        eitp__bpe_space_release(&encoder->space, host);
        eitp__release(host, encoder->long_ids, encoder->long_capacity * sizeof *encoder->long_ids);
        encoder->long_ids = NULL;
        encoder->long_capacity = 0;
    }
    return status;
}

static eitp_status eitp__encode_short_piece(eitp_encoder *encoder, const unsigned char *bytes, size_t size,
                                            eitp_error *error) {
    unsigned char key_bytes[24] = EITP__ZERO;
    uint64_t key[3];
    memcpy(key_bytes, bytes, size);
    key_bytes[EITP__CACHE_BYTES] = (unsigned char)size;
    memcpy(key, key_bytes, sizeof key);
    uint64_t hash = (key[0] ^ key[1] * 0xC2B2AE3D27D4EB4Fu ^ key[2] * 0x165667B19E3779F9u) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    eitp__cache_slot *slot = &encoder->cache[(hash ^ hash >> 32) & (encoder->cache_count - 1)];
    int32_t *ids = encoder->batch + encoder->batch_count;
    if (slot->key[0] == key[0] && slot->key[1] == key[1] && slot->key[2] == key[2]) {
        memcpy(ids, slot->ids, sizeof slot->ids);
        encoder->batch_count += (size_t)slot->count;
        return EITP_OK;
    }
    size_t count;
    eitp_status status = eitp__bpe_encode(&encoder->tokenizer->bpe, &encoder->tokenizer->host, &encoder->space, bytes,
                                          size, ids, &count, error);
    if (status != EITP_OK)
        return status;
    encoder->batch_count += count;
    if (count <= EITP__CACHE_IDS) {
        memcpy(slot->key, key, sizeof key);
        memcpy(slot->ids, ids, count * sizeof *ids);
        slot->count = (int32_t)count;
    }
    return EITP_OK;
}

static eitp_status eitp__encode_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                      eitp_error *error) {
    eitp_encoder *encoder = (eitp_encoder *)user;
    if (id < 0 && size > EITP__ENCODER_BATCH)
        return eitp__encode_long_piece(encoder, bytes, size, error);
    eitp_status status = eitp__encoder_make_room(encoder, size < 24 ? 24 : size, error);
    if (status != EITP_OK)
        return status;
    if (id >= 0) {
        encoder->batch[encoder->batch_count++] = id;
        return EITP_OK;
    }
    if (size <= EITP__CACHE_BYTES)
        return eitp__encode_short_piece(encoder, bytes, size, error);
    size_t count;
    status = eitp__bpe_encode(&encoder->tokenizer->bpe, &encoder->tokenizer->host, &encoder->space, bytes, size,
                              encoder->batch + encoder->batch_count, &count, error);
    if (status == EITP_OK)
        encoder->batch_count += count;
    return status;
}

static eitp_status eitp__encoder_make(const eitp_tokenizer *tokenizer, size_t cache_count, eitp_token_sink sink,
                                      void *user, eitp_encoder **out, eitp_error *error) {
    const eitp_host *host = &tokenizer->host;
    *out = NULL;
    eitp_encoder *encoder = (eitp_encoder *)eitp__allocate(host, sizeof *encoder);
    if (!encoder)
        return eitp__fail_memory(error, sizeof *encoder, "an encoder");
    encoder->tokenizer = tokenizer;
    encoder->sink = sink;
    encoder->user = user;
    encoder->cache = (eitp__cache_slot *)eitp__allocate(host, cache_count * sizeof *encoder->cache);
    encoder->cache_count = encoder->cache ? cache_count : 0;
    eitp__splitter_init(&encoder->splitter, host, tokenizer->added, tokenizer->added_count, tokenizer->add_prefix_space,
                        eitp__encode_piece, encoder);
    if (!encoder->cache) {
        eitp_encoder_destroy(encoder);
        return eitp__fail_memory(error, cache_count * sizeof(eitp__cache_slot), "an encoder");
    }
    *out = encoder;
    return EITP_OK;
}

eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user, eitp_encoder **out,
                                eitp_error *error) {
    return eitp__encoder_make(tokenizer, EITP__CACHE_SLOTS, sink, user, out, error);
}

eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error) {
    return eitp__splitter_add(&encoder->splitter, (const unsigned char *)text, size, error);
}

eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error) {
    eitp_status status = eitp__splitter_finish(&encoder->splitter, error);
    if (status == EITP_OK)
        status = eitp__encoder_flush(encoder, error);
    return status;
}

void eitp_encoder_reset(eitp_encoder *encoder) {
    eitp__splitter_reset(&encoder->splitter);
    encoder->batch_count = 0;
}

void eitp_encoder_destroy(eitp_encoder *encoder) {
    if (!encoder)
        return;
    const eitp_host host = encoder->tokenizer->host;
    eitp__splitter_release(&encoder->splitter);
    eitp__bpe_space_release(&encoder->space, &host);
    eitp__release(&host, encoder->cache, encoder->cache_count * sizeof *encoder->cache);
    eitp__release(&host, encoder->long_ids, encoder->long_capacity * sizeof *encoder->long_ids);
    eitp__release(&host, encoder, sizeof *encoder);
}

/* Where eitp_tokenizer_encode collects. */
typedef struct eitp__id_array {
    int32_t *ids;
    size_t capacity, count;
} eitp__id_array;

static eitp_status eitp__id_array_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    eitp__id_array *array = (eitp__id_array *)user;
    (void)error;
    if (array->count < array->capacity) {
        size_t room = array->capacity - array->count;
        memcpy(array->ids + array->count, ids, (count < room ? count : room) * sizeof *ids);
    }
    array->count += count;
    return EITP_OK;
}

eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                  size_t capacity, size_t *count, eitp_error *error) {
    eitp__id_array array;
    eitp_encoder *encoder;
    array.ids = ids;
    array.capacity = capacity;
    array.count = 0;
    *count = 0;
    size_t cache_count = 64; /* no larger than a text of this size makes use of */
    while (cache_count < size / 8 && cache_count < EITP__CACHE_SLOTS)
        cache_count *= 2;
    eitp_status status = eitp__encoder_make(tokenizer, cache_count, eitp__id_array_add, &array, &encoder, error);
    if (status != EITP_OK)
        return status;
    status = eitp_encoder_add(encoder, text, size, error);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, error);
    if (status == EITP_OK)
        *count = array.count;
    eitp_encoder_destroy(encoder);
    return status;
}
/* <<src/text/bpe_encoder.c */

/* >>src/text/bpe_load.c */
/* Reading tokenizer.json, or vocab.json and merges.txt. */

#define EITP__TOKENIZER_FILE_LIMIT ((size_t)67108864)

/* A tokenizer on its way in, with its tokens by their text. */
typedef struct eitp__loader {
    const eitp_host *host;
    eitp_tokenizer *tokenizer;
    uint32_t *slots;      /* open addressing: id + 1, or 0 where the slot is free */
    size_t slot_count;    /* a power of two */
    eitp__buffer bytes;   /* of the token being looked at */
    eitp__buffer another; /* and of its neighbour */
} eitp__loader;

static void eitp__loader_init(eitp__loader *loader, const eitp_host *host) {
    memset(loader, 0, sizeof *loader);
    loader->host = host;
    eitp__buffer_init(&loader->bytes, host);
    eitp__buffer_init(&loader->another, host);
}

static void eitp__loader_release(eitp__loader *loader) {
    eitp_tokenizer_destroy(loader->tokenizer);
    eitp__release(loader->host, loader->slots, loader->slot_count * sizeof *loader->slots);
    eitp__buffer_release(&loader->bytes);
    eitp__buffer_release(&loader->another);
}

/* How much of a text from a file is put into a message. */
static int eitp__shown(size_t size) {
    return size < 80 ? (int)size : 80;
}

/* From the spelling in a file to bytes. Returns EITP__TOKEN_VERBATIM where a character is outside the alphabet of
   bytes: then the token is its own UTF-8. */
static unsigned eitp__token_spelling(eitp__buffer *bytes, const char *text, size_t size) {
    eitp__buffer_clear(bytes);
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int valid;
        i += eitp__utf8_next((const unsigned char *)text + i, size - i, &code_point, &valid);
        int byte = valid ? eitp__character_to_byte(code_point) : -1;
        if (byte < 0) {
            eitp__buffer_clear(bytes);
            eitp__buffer_add(bytes, text, size);
            return EITP__TOKEN_VERBATIM;
        }
        const unsigned char value = (unsigned char)byte;
        eitp__buffer_add(bytes, &value, 1);
    }
    return 0;
}

/* The slot of a token with this text and kind (0 or EITP__TOKEN_VERBATIM), or the free slot where it belongs. */
static uint32_t *eitp__loader_slot(eitp__loader *loader, const void *bytes, size_t size, unsigned verbatim) {
    const unsigned char *text = (const unsigned char *)bytes;
    uint64_t hash = 0xCBF29CE484222325u + verbatim;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ text[i]) * 0x100000001B3u;
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (loader->slot_count - 1);; i = (i + 1) & (loader->slot_count - 1)) {
        uint32_t *slot = &loader->slots[i];
        if (!*slot)
            return slot;
        const eitp__token *token = &loader->tokenizer->vocabulary.tokens[*slot - 1];
        if (token->size == size && (token->flags & EITP__TOKEN_VERBATIM) == verbatim &&
            (!size || !memcmp(eitp__token_bytes(loader->tokenizer, *slot - 1), bytes, size)))
            return slot;
    }
}

static eitp_status eitp__load_token(eitp__loader *loader, const eitp__json *entry, size_t count, eitp_error *error) {
    const int shown = eitp__shown(entry->name_size);
    if (entry->kind != EITP__JSON_NUMBER || !entry->is_integer || entry->integer < 0)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the id of the token \"%.*s\" is no whole number from 0 on", entry->line, shown,
                          entry->name);
    if ((uint64_t)entry->integer >= count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the token \"%.*s\" has id %lld, but the %zu tokens of the vocabulary must have "
                          "the ids 0 to %zu, "
                          "each once",
                          entry->line, shown, entry->name, (long long)entry->integer, count, count - 1);
    const size_t id = (size_t)entry->integer;
    if (loader->tokenizer->vocabulary.tokens[id].flags)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the token \"%.*s\" has id %zu, which another one has too", entry->line, shown,
                          entry->name, id);
    unsigned verbatim = eitp__token_spelling(&loader->bytes, entry->name, entry->name_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, entry->name_size, "the tokenizer's vocabulary");
    uint32_t *slot = eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    *slot = (uint32_t)id + 1;
    return eitp__tokenizer_put(loader->tokenizer, id, loader->bytes.data, loader->bytes.size, verbatim, error);
}

/* Makes loader->tokenizer with the tokens of a vocabulary and room for `outside` more. */
static eitp_status eitp__load_vocabulary(eitp__loader *loader, const eitp__json *vocabulary, size_t outside,
                                         size_t merge_count, eitp_error *error) {
    if (!vocabulary || vocabulary->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the vocabulary is missing or no object of tokens and ids");
    const size_t count = vocabulary->count;
    if (count + outside > EITP__VOCABULARY_LIMIT || merge_count > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%zu tokens and %zu merges: at most %zu of each can be had",
                          count + outside, merge_count, EITP__VOCABULARY_LIMIT);
    if (count < 256)
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "the vocabulary has %zu tokens, fewer than there are bytes; train it with an initial alphabet of "
            "all 256 bytes",
            count);
    loader->tokenizer = eitp__tokenizer_begin(loader->host, count + outside, merge_count, error);
    if (!loader->tokenizer)
        return EITP_ERROR_MEMORY;
    loader->slot_count = 1024;
    while (loader->slot_count < 2 * count)
        loader->slot_count *= 2;
    loader->slots = (uint32_t *)eitp__allocate(loader->host, loader->slot_count * sizeof *loader->slots);
    if (!loader->slots) {
        const size_t size = loader->slot_count * sizeof *loader->slots;
        loader->slot_count = 0;
        return eitp__fail_memory(error, size, "the tokenizer's vocabulary");
    }
    for (const eitp__json *entry = vocabulary->first_child; entry; entry = entry->next) {
        eitp_status status = eitp__load_token(loader, entry, count, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

static eitp_status eitp__load_merge(eitp__loader *loader, size_t rank, size_t line, const char *left, size_t left_size,
                                    const char *right, size_t right_size, eitp_error *error) {
    unsigned verbatim = eitp__token_spelling(&loader->bytes, left, left_size);
    verbatim |= eitp__token_spelling(&loader->another, right, right_size);
    if (loader->bytes.failed || loader->another.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    if (verbatim || !left_size || !right_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: merge %zu, \"%.*s\" and \"%.*s\", is not two texts in the alphabet of bytes", line,
                          rank, eitp__shown(left_size), left, eitp__shown(right_size), right);
    eitp__merge *merge = &loader->tokenizer->bpe.merges[rank];
    uint32_t slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, 0);
    merge->left = (int32_t)slot - 1;
    slot = *eitp__loader_slot(loader, loader->another.data, loader->another.size, 0);
    merge->right = (int32_t)slot - 1;
    eitp__buffer_add(&loader->bytes, loader->another.data, loader->another.size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, 0);
    merge->result = (int32_t)slot - 1;
    if (merge->left < 0 || merge->right < 0 || merge->result < 0)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "line %zu: merge %zu, \"%.*s\" and \"%.*s\": %s not in the vocabulary; vocabulary and merges must be "
            "those of one tokenizer",
            line, rank, eitp__shown(left_size), left, eitp__shown(right_size), right,
            merge->left < 0    ? "the first is"
            : merge->right < 0 ? "the second is"
                               : "what they make is");
    return EITP_OK;
}

/* Each merge is "left right" or ["left", "right"]. */
static eitp_status eitp__load_json_merges(eitp__loader *loader, const eitp__json *merges, eitp_error *error) {
    size_t rank = 0;
    for (const eitp__json *entry = merges->first_child; entry; entry = entry->next, rank++) {
        const char *left = NULL, *right = NULL;
        size_t left_size = 0, right_size = 0;
        const eitp__json *first = entry->first_child;
        if (entry->kind == EITP__JSON_STRING) {
            const char *space = (const char *)memchr(entry->text, ' ', entry->text_size);
            if (space) {
                left = entry->text;
                left_size = (size_t)(space - left);
                right = space + 1;
                right_size = entry->text_size - left_size - 1;
            }
        } else if (entry->kind == EITP__JSON_ARRAY && entry->count == 2 && first->kind == EITP__JSON_STRING &&
                   first->next->kind == EITP__JSON_STRING) {
            left = first->text;
            left_size = first->text_size;
            right = first->next->text;
            right_size = first->next->text_size;
        }
        if (!left)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: merge %zu is neither \"left right\" nor [\"left\", \"right\"]", entry->line,
                              rank);
        eitp_status status = eitp__load_merge(loader, rank, entry->line, left, left_size, right, right_size, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

static int eitp__is_absent(const eitp__json *value) {
    return !value || value->kind == EITP__JSON_NULL;
}

/* A part of tokenizer.json that must be null or, where `type` is given, an object of this type. */
static eitp_status eitp__check_part(const eitp__json *root, const char *name, const char *type, eitp_error *error) {
    const eitp__json *part = eitp__json_member(root, name);
    const char *found = "?";
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__json_get_text(part, "type", &found, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", name);
    if (type && !strcmp(found, type))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: the %s \"%.80s\" is not supported; it must be %s%s",
                      part->line, name, found, type ? "null or " : "null", type ? type : "");
}

/* A text of the model that must be null or empty. */
static eitp_status eitp__check_empty(const eitp__json *model, const char *name, eitp_error *error) {
    const eitp__json *value = eitp__json_member(model, name);
    if (eitp__is_absent(value) || (value->kind == EITP__JSON_STRING && !value->text_size))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: the model's %s is not supported; it must be null",
                      value->line, name);
}

static eitp_status eitp__check_model(const eitp__json *model, eitp_error *error) {
    const char *type = "BPE";
    double dropout = 0;
    int ignore_merges = 0;
    if (!model || model->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "there is no \"model\"; is it a tokenizer.json?");
    eitp_status status = eitp__json_get_text(model, "type", &type, error);
    if (status == EITP_OK && strcmp(type, "BPE"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the model \"%.80s\" is not supported; it must be BPE", model->line, type);
    if (status == EITP_OK)
        status = eitp__json_get_number(model, "dropout", 0, 1, &dropout, error);
    if (status == EITP_OK && dropout > 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model has a dropout of %g, which is not supported; it must be null", dropout);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(model, "ignore_merges", &ignore_merges, error);
    if (status == EITP_OK && ignore_merges)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model's ignore_merges is not supported; it must be false");
    if (status == EITP_OK)
        status = eitp__check_empty(model, "continuing_subword_prefix", error);
    if (status == EITP_OK)
        status = eitp__check_empty(model, "end_of_word_suffix", error);
    return status;
}

static eitp_status eitp__check_pre_tokenizer(const eitp__json *root, int *add_prefix_space, eitp_error *error) {
    const eitp__json *part = eitp__json_member(root, "pre_tokenizer");
    int use_regex = 1;
    if (eitp__is_absent(part))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "there is no pre_tokenizer; it must be ByteLevel");
    eitp_status status = eitp__check_part(root, "pre_tokenizer", "ByteLevel", error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "use_regex", &use_regex, error);
    if (status == EITP_OK && !use_regex)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the pre_tokenizer's use_regex is false, which is not supported; it must be true",
                          part->line);
    if (status == EITP_OK && eitp__is_absent(eitp__json_member(part, "add_prefix_space")))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the pre_tokenizer does not say add_prefix_space",
                          part->line);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "add_prefix_space", add_prefix_space, error);
    return status;
}

/* The flags of an added token, and that it is one that can be had. */
static eitp_status eitp__check_added_token(const eitp__json *entry, unsigned *flags, eitp_error *error) {
    static const char *const refused[] = {"single_word", "lstrip", "rstrip"};
    const eitp__json *content = eitp__json_member(entry, "content");
    int normalized = 0, special = 0;
    if (!content || content->kind != EITP__JSON_STRING || !content->text_size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: an added token without content", entry->line);
    if (content->text_size > EITP__ADDED_TOKEN_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: an added token of %zu bytes; at most %zu can be had", entry->line,
                          content->text_size, EITP__ADDED_TOKEN_LIMIT);
    for (size_t i = 0; i < EITP__COUNT(refused); i++) {
        int value = 0;
        eitp_status status = eitp__json_get_boolean(entry, refused[i], &value, error);
        if (status != EITP_OK)
            return status;
        if (value)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %zu: %s of the added token \"%.*s\" is not supported; it must be false",
                              entry->line, refused[i], eitp__shown(content->text_size), content->text);
    }
    eitp_status status = eitp__json_get_boolean(entry, "normalized", &normalized, error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(entry, "special", &special, error);
    *flags = EITP__TOKEN_ADDED | (normalized ? (unsigned)EITP__TOKEN_NORMALIZED : 0u) |
             (special ? (unsigned)EITP__TOKEN_SPECIAL : 0u);
    return status;
}

/* `next` is the id of the next added token that is not in the model's vocabulary. */
static eitp_status eitp__load_added_token(eitp__loader *loader, const eitp__json *entry, size_t *next,
                                          eitp_error *error) {
    eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    unsigned flags = 0;
    int64_t id = -1;
    eitp_status status = eitp__check_added_token(entry, &flags, error);
    if (status == EITP_OK)
        status = eitp__json_get_integer(entry, "id", 0, INT32_MAX, &id, error);
    if (status != EITP_OK)
        return status;
    const eitp__json *content = eitp__json_member(entry, "content");
    const int shown = eitp__shown(content->text_size);
    unsigned verbatim = eitp__token_spelling(&loader->bytes, content->text, content->text_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, content->text_size, "the tokenizer's added tokens");
    uint32_t known = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    /* As the library does it: what the vocabulary has keeps its id, everything else comes after it, in order. */
    const size_t expected = known ? known - 1 : *next;
    if ((uint64_t)id != expected)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the added token \"%.*s\" has id %lld where it must be %zu", entry->line, shown,
                          content->text, (long long)id, expected);
    if (!known) {
        ++*next;
        return eitp__tokenizer_put(loader->tokenizer, expected, content->text, content->text_size,
                                   flags | EITP__TOKEN_OUTSIDE, error);
    }
    if (loader->bytes.size != content->text_size || memcmp(loader->bytes.data, content->text, content->text_size))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the added token \"%.*s\" is also the spelling of other bytes in the vocabulary",
                          entry->line, shown, content->text);
    if (vocabulary->tokens[expected].flags & EITP__TOKEN_ADDED)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the added token \"%.*s\" is there twice", entry->line,
                          shown, content->text);
    vocabulary->tokens[expected].flags |= (unsigned char)flags;
    return EITP_OK;
}

/* Whether some text has both tokens at places that overlap. */
static int eitp__tokens_overlap(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size) {
    for (size_t shift = 0; shift < a_size; shift++) {
        size_t common = a_size - shift < b_size ? a_size - shift : b_size;
        if (!memcmp(a + shift, b, common))
            return 1;
    }
    for (size_t shift = 1; shift < b_size; shift++) {
        size_t common = b_size - shift < a_size ? b_size - shift : a_size;
        if (!memcmp(b + shift, a, common))
            return 1;
    }
    return 0;
}

/* The library looks for the tokens that are not `normalized` first and for the others in what is left; one search finds
   the same as long as no two of different kinds can overlap. */
static eitp_status eitp__check_two_searches(const eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__token *tokens = tokenizer->vocabulary.tokens;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const eitp__added_token *one = &tokenizer->added[i];
        for (size_t k = i + 1; k < tokenizer->added_count; k++) {
            const eitp__added_token *other = &tokenizer->added[k];
            if (!((tokens[one->id].flags ^ tokens[other->id].flags) & EITP__TOKEN_NORMALIZED))
                continue;
            if (tokenizer->added_count > 4096 || eitp__tokens_overlap(one->bytes, one->size, other->bytes, other->size))
                return eitp__fail(
                    error, EITP_ERROR_UNSUPPORTED,
                    "the added tokens \"%.*s\" and \"%.*s\" may overlap in a text, and only one of them is "
                    "\"normalized\"; make that the same",
                    eitp__shown(one->size), (const char *)one->bytes, eitp__shown(other->size),
                    (const char *)other->bytes);
        }
    }
    return EITP_OK;
}

static eitp_status eitp__load_added_tokens(eitp__loader *loader, const eitp__json *added, size_t next,
                                           eitp_error *error) {
    for (const eitp__json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        eitp_status status = eitp__load_added_token(loader, entry, &next, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Added tokens whose ids are beyond the model's vocabulary of `count` tokens. */
static size_t eitp__count_outside(const eitp__json *added, size_t count) {
    size_t outside = 0;
    for (const eitp__json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        const eitp__json *id = eitp__json_member(entry, "id");
        outside += id && id->kind == EITP__JSON_NUMBER && id->integer > 0 && (uint64_t)id->integer >= count;
    }
    return outside;
}

static eitp_status eitp__load_document(eitp__loader *loader, const eitp__json *root, eitp_error *error) {
    const eitp__json *model = eitp__json_member(root, "model"), *merges = eitp__json_member(model, "merges");
    const eitp__json *vocabulary = eitp__json_member(model, "vocab"), *added = eitp__json_member(root, "added_tokens");
    int add_prefix_space = 0;
    eitp_status status = eitp__check_model(model, error);
    if (status == EITP_OK)
        status = eitp__check_part(root, "normalizer", NULL, error);
    if (status == EITP_OK)
        status = eitp__check_pre_tokenizer(root, &add_prefix_space, error);
    if (status == EITP_OK)
        status = eitp__check_part(root, "post_processor", "ByteLevel", error);
    if (status == EITP_OK)
        status = eitp__check_part(root, "decoder", "ByteLevel", error);
    if (status != EITP_OK)
        return status;
    if (!merges || merges->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the model's merges are missing or no array");
    if (!eitp__is_absent(added) && added->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens is no array", added->line);
    const size_t count = vocabulary ? vocabulary->count : 0;
    status = eitp__load_vocabulary(loader, vocabulary, eitp__count_outside(added, count), merges->count, error);
    if (status == EITP_OK)
        status = eitp__load_json_merges(loader, merges, error);
    if (status == EITP_OK)
        status = eitp__load_added_tokens(loader, added, count, error);
    if (status != EITP_OK)
        return status;
    loader->tokenizer->add_prefix_space = add_prefix_space;
    status = eitp__tokenizer_complete(loader->tokenizer, error);
    if (status == EITP_OK)
        status = eitp__check_two_searches(loader->tokenizer, error);
    return status;
}

/* Hands the tokenizer over where status is EITP_OK, and releases all else. */
static eitp_status eitp__loader_finish(eitp__loader *loader, eitp_status status, eitp_tokenizer **out) {
    if (status == EITP_OK) {
        *out = loader->tokenizer;
        loader->tokenizer = NULL;
    }
    eitp__loader_release(loader);
    return status;
}

static eitp_status eitp__tokenizer_from_document(const eitp_host *host, const eitp__json_document *document,
                                                 eitp_tokenizer **out, eitp_error *error) {
    eitp__loader loader;
    eitp__loader_init(&loader, host);
    return eitp__loader_finish(&loader, eitp__load_document(&loader, eitp__json_root(document), error), out);
}

EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error) {
    eitp__json_document *document;
    *out = NULL;
    eitp_status status = eitp__json_parse(host, json, size, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, out, error);
    eitp__json_release(document);
    return status;
}

static eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                             eitp_error *error) {
    eitp__json_document *document;
    eitp_status status = eitp__json_read_file(host, path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, out, error);
    if (status != EITP_OK)
        status = eitp__fail_prefix(error, status, "%s", path);
    eitp__json_release(document);
    return status;
}

/* The next line of merges.txt that is a merge. Returns 0 at the end. */
typedef struct eitp__merge_lines {
    const char *text;
    size_t size, at, line;
} eitp__merge_lines;

static int eitp__next_merge_line(eitp__merge_lines *lines, const char **text, size_t *size) {
    while (lines->at < lines->size) {
        const char *begin = lines->text + lines->at;
        const char *end = (const char *)memchr(begin, '\n', lines->size - lines->at);
        size_t length = end ? (size_t)(end - begin) : lines->size - lines->at;
        lines->at += length + (end != NULL);
        lines->line++;
        if (length && begin[length - 1] == '\r')
            length--;
        if (!length || (lines->line == 1 && length >= 8 && !memcmp(begin, "#version", 8)))
            continue;
        *text = begin;
        *size = length;
        return 1;
    }
    return 0;
}

static eitp_status eitp__load_text_merges(eitp__loader *loader, eitp__merge_lines lines, eitp_error *error) {
    const char *text;
    size_t size, rank = 0;
    while (eitp__next_merge_line(&lines, &text, &size)) {
        const char *space = (const char *)memchr(text, ' ', size);
        if (!space)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: \"%.*s\" is not two tokens with a space between them", lines.line,
                              eitp__shown(size), text);
        size_t left = (size_t)(space - text);
        eitp_status status =
            eitp__load_merge(loader, rank++, lines.line, text, left, space + 1, size - left - 1, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* In this pair of files <|endoftext|> has no mark that it is special. */
static void eitp__mark_end_of_text(eitp__loader *loader) {
    uint32_t slot = *eitp__loader_slot(loader, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT), 0);
    if (slot)
        loader->tokenizer->vocabulary.tokens[slot - 1].flags |= EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL;
}

static eitp_status eitp__load_pair_content(eitp__loader *loader, const eitp__json *vocabulary,
                                           const eitp__buffer *merges, const char *vocabulary_path,
                                           const char *merges_path, eitp_error *error) {
    eitp__merge_lines lines = EITP__ZERO;
    const char *text;
    size_t size, merge_count = 0;
    lines.text = merges->data;
    lines.size = merges->size;
    eitp__merge_lines counted = lines;
    while (eitp__next_merge_line(&counted, &text, &size))
        merge_count++;
    eitp_status status = eitp__load_vocabulary(loader, vocabulary, 0, merge_count, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", vocabulary_path);
    status = eitp__load_text_merges(loader, lines, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", merges_path);
    eitp__mark_end_of_text(loader);
    status = eitp__tokenizer_complete(loader->tokenizer, error);
    return status == EITP_OK ? status : eitp__fail_prefix(error, status, "%s, %s", vocabulary_path, merges_path);
}

static eitp_status eitp__load_pair(const eitp_host *host, const char *vocabulary_path, const char *merges_path,
                                   eitp_tokenizer **out, eitp_error *error) {
    eitp__json_document *document;
    eitp__loader loader;
    eitp__buffer merges;
    eitp_status status = eitp__json_read_file(host, vocabulary_path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_init(&merges, host);
    eitp__loader_init(&loader, host);
    status = eitp__read_file(host, merges_path, EITP__TOKENIZER_FILE_LIMIT, &merges, error);
    if (status == EITP_OK)
        status =
            eitp__load_pair_content(&loader, eitp__json_root(document), &merges, vocabulary_path, merges_path, error);
    status = eitp__loader_finish(&loader, status, out);
    eitp__buffer_release(&merges);
    eitp__json_release(document);
    return status;
}

/* The files that a tokenizer may have in a directory. */
enum { EITP__TOKENIZER_JSON, EITP__VOCAB_JSON, EITP__MERGES_TXT, EITP__ADDED_JSON, EITP__TOKENIZER_FILES };

static eitp_status eitp__load_from_directory(const eitp_host *host, const char *directory, char *const *paths,
                                             eitp_tokenizer **out, eitp_error *error) {
    eitp_path_info info[EITP__TOKENIZER_FILES];
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        eitp_status status = eitp__path_info(host, paths[i], &info[i], error);
        if (status != EITP_OK)
            return status;
    }
    if (info[EITP__TOKENIZER_JSON].kind != EITP_PATH_MISSING)
        return eitp__load_tokenizer_json(host, paths[EITP__TOKENIZER_JSON], out, error);
    if (info[EITP__VOCAB_JSON].kind == EITP_PATH_MISSING || info[EITP__MERGES_TXT].kind == EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: no tokenizer here; there must be tokenizer.json, or vocab.json and merges.txt",
                          directory);
    if (info[EITP__ADDED_JSON].kind != EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: added tokens are read from a tokenizer.json only; save the tokenizer in that form",
                          paths[EITP__ADDED_JSON]);
    return eitp__load_pair(host, paths[EITP__VOCAB_JSON], paths[EITP__MERGES_TXT], out, error);
}

static eitp_status eitp__load_directory(const eitp_host *host, const char *directory, eitp_tokenizer **out,
                                        eitp_error *error) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json"};
    char *paths[EITP__TOKENIZER_FILES];
    int complete = 1;
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        paths[i] = eitp__join_path(host, directory, names[i]);
        complete = complete && paths[i];
    }
    eitp_status status = complete ? eitp__load_from_directory(host, directory, paths, out, error)
                                  : eitp__fail_memory(error, strlen(directory), "a path");
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++)
        eitp__release_text(host, paths[i]);
    return status;
}

eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out, eitp_error *error) {
    eitp_path_info info;
    *out = NULL;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (status != EITP_OK)
        return status;
    if (info.kind == EITP_PATH_DIRECTORY)
        return eitp__load_directory(host, path, out, error);
    return eitp__load_tokenizer_json(host, path, out, error);
}
/* <<src/text/bpe_load.c */

/* >>src/text/bpe_save.c */
/* Writing vocab.json, merges.txt and tokenizer.json. */

/* A token as files spell it. */
static void eitp__spell_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling) {
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    const unsigned char *bytes = eitp__token_bytes(tokenizer, id);
    if (token->flags & EITP__TOKEN_VERBATIM) {
        eitp__buffer_add(spelling, bytes, token->size);
        return;
    }
    for (size_t i = 0; i < token->size; i++) {
        unsigned char character[4];
        size_t size = eitp__utf8_put(eitp__byte_to_character(bytes[i]), character);
        eitp__buffer_add(spelling, character, size);
    }
}

static void eitp__write_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_clear(spelling);
    eitp__spell_token(tokenizer, id, spelling);
    eitp__json_write_text(out, spelling->size ? spelling->data : "", spelling->size);
    out->failed |= spelling->failed;
}

/* {"token":id,...} of the model's vocabulary. */
static void eitp__write_vocabulary(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *separator = "{\n";
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        if (tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_OUTSIDE)
            continue;
        eitp__buffer_add_text(out, separator);
        eitp__write_token(tokenizer, id, spelling, out);
        eitp__buffer_format(out, ":%zu", id);
        separator = ",\n";
    }
    eitp__buffer_add_text(out, "\n}");
}

static void eitp__write_text_merges(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    eitp__buffer_add_text(out, "#version: 0.2\n");
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        eitp__spell_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].left, out);
        eitp__buffer_add_text(out, " ");
        eitp__spell_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].right, out);
        eitp__buffer_add_text(out, "\n");
    }
}

static void eitp__write_json_merges(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_add_text(out, "[");
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        eitp__buffer_add_text(out, rank ? ",\n[" : "\n[");
        eitp__write_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].left, spelling, out);
        eitp__buffer_add_text(out, ",");
        eitp__write_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].right, spelling, out);
        eitp__buffer_add_text(out, "]");
    }
    eitp__buffer_add_text(out, "\n]");
}

static void eitp__write_added_tokens(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    const char *separator = "\n";
    eitp__buffer_add_text(out, "[");
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        const eitp__token *token = &tokenizer->vocabulary.tokens[id];
        if (!(token->flags & EITP__TOKEN_ADDED))
            continue;
        eitp__buffer_format(out, "%s{\"id\":%zu,\"content\":", separator, id);
        eitp__json_write_text(out, (const char *)eitp__token_bytes(tokenizer, id), token->size);
        eitp__buffer_format(
            out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,\"special\":%s}",
            token->flags & EITP__TOKEN_NORMALIZED ? "true" : "false",
            token->flags & EITP__TOKEN_SPECIAL ? "true" : "false");
        separator = ",\n";
    }
    eitp__buffer_add_text(out, "]");
}

static void eitp__write_tokenizer(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *prefix = tokenizer->add_prefix_space ? "true" : "false";
    eitp__buffer_add_text(out, "{\n\"version\":\"1.0\",\n\"truncation\":null,\n\"padding\":null,\n\"added_tokens\":");
    eitp__write_added_tokens(tokenizer, out);
    eitp__buffer_format(
        out,
        ",\n\"normalizer\":null,\n"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":true},\n"
        "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":false,\"use_regex\":true},"
        "\n"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":true},\n",
        prefix, prefix, prefix);
    eitp__buffer_add_text(
        out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
             "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\n"
             "\"vocab\":");
    eitp__write_vocabulary(tokenizer, spelling, out);
    eitp__buffer_add_text(out, ",\n\"merges\":");
    eitp__write_json_merges(tokenizer, spelling, out);
    eitp__buffer_add_text(out, "}\n}\n");
}

static eitp_status eitp__save_file(const eitp_host *host, const char *directory, const char *name,
                                   const eitp__buffer *content, eitp_error *error) {
    if (content->failed)
        return eitp__fail_memory(error, content->size, name);
    char *path = eitp__join_path(host, directory, name);
    if (!path)
        return eitp__fail_memory(error, strlen(directory), "a path");
    eitp_status status = eitp__replace_file(host, path, content->data, content->size, error);
    eitp__release_text(host, path);
    return status;
}

eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error) {
    const eitp_host *host = &tokenizer->host;
    eitp__buffer out, spelling;
    eitp_status status = eitp__make_directories(host, directory, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_init(&out, host);
    eitp__buffer_init(&spelling, host);
    eitp__write_vocabulary(tokenizer, &spelling, &out);
    eitp__buffer_add_text(&out, "\n");
    status = eitp__save_file(host, directory, "vocab.json", &out, error);
    if (status == EITP_OK) {
        eitp__buffer_clear(&out);
        eitp__write_text_merges(tokenizer, &out);
        status = eitp__save_file(host, directory, "merges.txt", &out, error);
    }
    if (status == EITP_OK) { /* last: it is the one that is read where all are there */
        eitp__buffer_clear(&out);
        eitp__write_tokenizer(tokenizer, &spelling, &out);
        status = eitp__save_file(host, directory, "tokenizer.json", &out, error);
    }
    eitp__buffer_release(&out);
    eitp__buffer_release(&spelling);
    return status;
}
/* <<src/text/bpe_save.c */

/* >>src/text/bpe_words.c */
/* What a word and each of its bytes take, about: here, and as positions, pairs and their table while merges are learnt.
 */
enum { EITP__WORD_COST = 64, EITP__WORD_BYTE_COST = 64 };

EITP__PRIVATE void eitp__words_init(eitp__words *words, const eitp_host *host, uint64_t limit) {
    memset(words, 0, sizeof *words);
    words->host = host;
    words->limit = limit;
}

EITP__PRIVATE void eitp__words_release(eitp__words *words) {
    eitp__release(words->host, words->text, words->text_capacity);
    eitp__release(words->host, words->words, words->capacity * sizeof *words->words);
    eitp__release(words->host, words->slots, words->slot_count * sizeof *words->slots);
    eitp__words_init(words, words->host, words->limit);
}

static uint64_t eitp__words_cost(uint64_t count, uint64_t bytes) {
    return count * EITP__WORD_COST + bytes * EITP__WORD_BYTE_COST;
}

/* The slot of a word, or the free slot where it belongs. */
static uint32_t *eitp__words_slot(const eitp__words *words, const unsigned char *bytes, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (words->slot_count - 1);; i = (i + 1) & (words->slot_count - 1)) {
        uint32_t *slot = &words->slots[i];
        if (!*slot)
            return slot;
        const eitp__word *word = &words->words[*slot - 1];
        if (word->size == size && !memcmp(words->text + word->offset, bytes, size))
            return slot;
    }
}

/* Makes a table of `slot_count` slots for the words that are there. */
static int eitp__words_index(eitp__words *words, size_t slot_count) {
    if (slot_count != words->slot_count) {
        uint32_t *slots = (uint32_t *)eitp__allocate_uninitialized(words->host, slot_count * sizeof *slots);
        if (!slots)
            return 0;
        eitp__release(words->host, words->slots, words->slot_count * sizeof *slots);
        words->slots = slots;
        words->slot_count = slot_count;
    }
    memset(words->slots, 0, slot_count * sizeof *words->slots);
    for (size_t i = 0; i < words->count; i++)
        *eitp__words_slot(words, words->text + words->words[i].offset, words->words[i].size) = (uint32_t)i + 1;
    return 1;
}

/* Drops the words that occur at most `rare` times, and keeps the order of the others. */
static void eitp__words_drop(eitp__words *words, uint64_t rare) {
    size_t kept = 0, text_size = 0;
    for (size_t i = 0; i < words->count; i++) {
        eitp__word word = words->words[i];
        if (word.count <= rare) {
            words->forgotten += word.count;
            continue;
        }
        memmove(words->text + text_size, words->text + word.offset, word.size);
        word.offset = text_size;
        text_size += word.size;
        words->words[kept++] = word;
    }
    words->count = kept;
    words->text_size = text_size;
}

static void eitp__words_forget(eitp__words *words) {
    for (uint64_t rare = 1; eitp__words_cost(words->count, words->text_size) > words->limit / 2; rare *= 2)
        eitp__words_drop(words, rare);
    eitp__words_index(words, words->slot_count);
}

EITP__PRIVATE eitp_status eitp__words_add(eitp__words *words, const unsigned char *bytes, size_t size,
                                          eitp_error *error) {
    uint32_t *slot = words->slot_count ? eitp__words_slot(words, bytes, size) : NULL;
    if (slot && *slot) {
        words->words[*slot - 1].count++;
        return EITP_OK;
    }
    if (eitp__words_cost(1, size) > words->limit / 4) {
        words->forgotten++;
        return EITP_OK;
    }
    if (eitp__words_cost(words->count + 1, words->text_size + size) > words->limit)
        eitp__words_forget(words);
    if (2 * (words->count + 1) > words->slot_count &&
        !eitp__words_index(words, words->slot_count ? 2 * words->slot_count : 4096))
        return eitp__fail_memory(error, 2 * words->slot_count * sizeof *words->slots,
                                 "the distinct pieces of the text");
    if (!eitp__reserve(words->host, (void **)&words->words, &words->capacity, words->count + 1, sizeof *words->words) ||
        !eitp__reserve(words->host, (void **)&words->text, &words->text_capacity, words->text_size + size, 1))
        return eitp__fail_memory(error, words->text_size + size, "the distinct pieces of the text");
    eitp__word *word = &words->words[words->count];
    word->count = 1;
    word->offset = words->text_size;
    word->size = (uint32_t)size;
    memcpy(words->text + words->text_size, bytes, size);
    *eitp__words_slot(words, bytes, size) = (uint32_t)words->count + 1;
    words->text_size += size;
    words->count++;
    return EITP_OK;
}
/* <<src/text/bpe_words.c */

/* >>src/text/bpe_train.c */
/*
 * Every place of every distinct piece is in the list of the pair that begins there, so that a merge touches only the
 * places it changes, and the heap gives the most frequent pair. A count in the heap may be out of date, never too
 * small; it is checked when it comes to the top.
 */

#define EITP__NOWHERE UINT32_MAX

typedef struct eitp__train_pair {
    int32_t left, right;
    uint64_t count;       /* occurrences in the text */
    uint32_t first, last; /* the list of places */
    uint32_t touched;     /* the merge that last added to it */
} eitp__train_pair;

typedef struct eitp__train_entry {
    uint64_t count;
    uint32_t pair;
} eitp__train_entry;

typedef struct eitp__train_place {
    int32_t symbol; /* the token that begins here, -1 where none does */
    uint32_t word;
    uint32_t next, previous;           /* in the piece */
    uint32_t list_next, list_previous; /* in the list of the pair */
} eitp__train_place;

typedef struct eitp__merge_trainer {
    const eitp_host *host;
    const eitp__words *words;
    eitp__train_place *places;
    size_t place_count;
    eitp__train_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* open addressing: pair + 1, or 0 where the slot is free */
    size_t slot_count;
    eitp__train_entry *heap;
    size_t heap_count, heap_capacity;
    uint32_t *todo; /* the places of the pair being merged, later the pairs that the merge added to */
    size_t todo_capacity;
    uint32_t *added;
    size_t added_count, added_capacity;
    uint32_t round;
} eitp__merge_trainer;

static eitp_status eitp__train_fail(eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "memory ran out while learning merges; train on less text or with a smaller memory_limit");
}

static void eitp__merge_trainer_release(eitp__merge_trainer *trainer) {
    const eitp_host *host = trainer->host;
    eitp__release(host, trainer->places, trainer->place_count * sizeof *trainer->places);
    eitp__release(host, trainer->pairs, trainer->pair_capacity * sizeof *trainer->pairs);
    eitp__release(host, trainer->slots, trainer->slot_count * sizeof *trainer->slots);
    eitp__release(host, trainer->heap, trainer->heap_capacity * sizeof *trainer->heap);
    eitp__release(host, trainer->todo, trainer->todo_capacity * sizeof *trainer->todo);
    eitp__release(host, trainer->added, trainer->added_capacity * sizeof *trainer->added);
}

static uint32_t *eitp__train_slot(const eitp__merge_trainer *trainer, int32_t left, int32_t right) {
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    for (size_t i = (size_t)(hash >> 32) & (trainer->slot_count - 1);; i = (i + 1) & (trainer->slot_count - 1)) {
        uint32_t *slot = &trainer->slots[i];
        if (!*slot || (trainer->pairs[*slot - 1].left == left && trainer->pairs[*slot - 1].right == right))
            return slot;
    }
}

static int eitp__train_grow_slots(eitp__merge_trainer *trainer) {
    size_t slot_count = trainer->slot_count ? 2 * trainer->slot_count : 4096;
    uint32_t *slots = (uint32_t *)eitp__allocate(trainer->host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(trainer->host, trainer->slots, trainer->slot_count * sizeof *slots);
    trainer->slots = slots;
    trainer->slot_count = slot_count;
    for (size_t i = 0; i < trainer->pair_count; i++)
        *eitp__train_slot(trainer, trainer->pairs[i].left, trainer->pairs[i].right) = (uint32_t)i + 1;
    return 1;
}

/* The pair, made where it is new; NULL where memory runs out. */
static eitp__train_pair *eitp__train_pair_of(eitp__merge_trainer *trainer, int32_t left, int32_t right) {
    if (2 * (trainer->pair_count + 1) > trainer->slot_count && !eitp__train_grow_slots(trainer))
        return NULL;
    uint32_t *slot = eitp__train_slot(trainer, left, right);
    if (*slot)
        return &trainer->pairs[*slot - 1];
    if (!eitp__reserve(trainer->host, (void **)&trainer->pairs, &trainer->pair_capacity, trainer->pair_count + 1,
                       sizeof *trainer->pairs))
        return NULL;
    *slot = (uint32_t)trainer->pair_count + 1;
    eitp__train_pair *pair = &trainer->pairs[trainer->pair_count++];
    memset(pair, 0, sizeof *pair);
    pair->left = left;
    pair->right = right;
    pair->first = pair->last = EITP__NOWHERE;
    return pair;
}

/* The pair of `place` and what follows it gets or loses this place. */
static eitp__train_pair *eitp__train_link(eitp__merge_trainer *trainer, uint32_t place) {
    eitp__train_place *at = &trainer->places[place];
    eitp__train_pair *pair = eitp__train_pair_of(trainer, at->symbol, trainer->places[at->next].symbol);
    if (!pair)
        return NULL;
    at->list_next = EITP__NOWHERE;
    at->list_previous = pair->last;
    if (pair->last == EITP__NOWHERE)
        pair->first = place;
    else
        trainer->places[pair->last].list_next = place;
    pair->last = place;
    pair->count += trainer->words->words[at->word].count;
    return pair;
}

static void eitp__train_unlink(eitp__merge_trainer *trainer, uint32_t place) {
    const eitp__train_place *at = &trainer->places[place];
    eitp__train_pair *pair =
        &trainer->pairs[*eitp__train_slot(trainer, at->symbol, trainer->places[at->next].symbol) - 1];
    if (at->list_previous == EITP__NOWHERE)
        pair->first = at->list_next;
    else
        trainer->places[at->list_previous].list_next = at->list_next;
    if (at->list_next == EITP__NOWHERE)
        pair->last = at->list_previous;
    else
        trainer->places[at->list_next].list_previous = at->list_previous;
    pair->count -= trainer->words->words[at->word].count;
}

/* Whether `a` is merged before `b`: the more frequent pair first, then the one with the smaller ids. */
static int eitp__train_before(const eitp__merge_trainer *trainer, eitp__train_entry a, eitp__train_entry b) {
    if (a.count != b.count)
        return a.count > b.count;
    const eitp__train_pair *one = &trainer->pairs[a.pair], *other = &trainer->pairs[b.pair];
    return one->left != other->left ? one->left < other->left : one->right < other->right;
}

static int eitp__train_push(eitp__merge_trainer *trainer, uint32_t pair) {
    eitp__train_entry entry;
    entry.count = trainer->pairs[pair].count;
    entry.pair = pair;
    if (!eitp__reserve(trainer->host, (void **)&trainer->heap, &trainer->heap_capacity, trainer->heap_count + 1,
                       sizeof *trainer->heap))
        return 0;
    size_t i = trainer->heap_count++;
    while (i && eitp__train_before(trainer, entry, trainer->heap[(i - 1) / 2])) {
        trainer->heap[i] = trainer->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    trainer->heap[i] = entry;
    return 1;
}

static eitp__train_entry eitp__train_pop(eitp__merge_trainer *trainer) {
    eitp__train_entry *heap = trainer->heap;
    const eitp__train_entry top = heap[0], last = heap[--trainer->heap_count];
    const size_t count = trainer->heap_count;
    size_t i = 0;
    for (size_t child = 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && eitp__train_before(trainer, heap[child + 1], heap[child]))
            child++;
        if (!eitp__train_before(trainer, heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Places, pairs and heap of the words as bytes. `byte_ids` says which token each byte is. */
static int eitp__train_begin(eitp__merge_trainer *trainer, const int32_t *byte_ids) {
    const eitp__words *words = trainer->words;
    uint32_t place = 0;
    trainer->places =
        (eitp__train_place *)eitp__allocate_uninitialized(trainer->host, words->text_size * sizeof *trainer->places);
    if (words->text_size && !trainer->places)
        return 0;
    trainer->place_count = words->text_size;
    for (size_t i = 0; i < words->count; i++) {
        const uint32_t begin = place, end = begin + words->words[i].size;
        for (; place < end; place++) {
            eitp__train_place *at = &trainer->places[place];
            at->symbol = byte_ids[words->text[words->words[i].offset + (place - begin)]];
            at->word = (uint32_t)i;
            at->previous = place > begin ? place - 1 : EITP__NOWHERE;
            at->next = place + 1 < end ? place + 1 : EITP__NOWHERE;
        }
        for (uint32_t first = begin; first + 1 < end; first++) {
            if (!eitp__train_link(trainer, first))
                return 0;
        }
    }
    for (size_t i = 0; i < trainer->pair_count; i++) {
        if (!eitp__train_push(trainer, (uint32_t)i))
            return 0;
    }
    return 1;
}

static int eitp__train_compare_places(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Copies the places of a pair to `todo`, from the first to the last in each piece: in "aaa" the first two merge. */
static int eitp__train_list_places(eitp__merge_trainer *trainer, uint32_t pair, size_t *count) {
    int sorted = 1;
    *count = 0;
    for (uint32_t place = trainer->pairs[pair].first; place != EITP__NOWHERE;
         place = trainer->places[place].list_next) {
        if (!eitp__reserve(trainer->host, (void **)&trainer->todo, &trainer->todo_capacity, *count + 1,
                           sizeof *trainer->todo))
            return 0;
        sorted = sorted && (!*count || trainer->todo[*count - 1] < place);
        trainer->todo[(*count)++] = place;
    }
    if (!sorted)
        eitp__sort(trainer->todo, *count, sizeof *trainer->todo, eitp__train_compare_places);
    return 1;
}

/* Links a place whose pair has changed, and notes that pair. */
static int eitp__train_relink(eitp__merge_trainer *trainer, uint32_t place) {
    eitp__train_pair *pair = eitp__train_link(trainer, place);
    if (!pair)
        return 0;
    if (pair->touched == trainer->round)
        return 1;
    pair->touched = trainer->round;
    if (!eitp__reserve(trainer->host, (void **)&trainer->added, &trainer->added_capacity, trainer->added_count + 1,
                       sizeof *trainer->added))
        return 0;
    trainer->added[trainer->added_count++] = (uint32_t)(pair - trainer->pairs);
    return 1;
}

/* The token at `place` and the one after it become `result`. */
static int eitp__train_merge_place(eitp__merge_trainer *trainer, uint32_t place, int32_t result) {
    eitp__train_place *places = trainer->places;
    const uint32_t right = places[place].next, before = places[place].previous, after = places[right].next;
    eitp__train_unlink(trainer, place);
    if (before != EITP__NOWHERE)
        eitp__train_unlink(trainer, before);
    if (after != EITP__NOWHERE)
        eitp__train_unlink(trainer, right);
    places[place].symbol = result;
    places[place].next = after;
    places[right].symbol = -1;
    if (after != EITP__NOWHERE)
        places[after].previous = place;
    if (before != EITP__NOWHERE && !eitp__train_relink(trainer, before))
        return 0;
    return after == EITP__NOWHERE || eitp__train_relink(trainer, place);
}

static int eitp__train_merge(eitp__merge_trainer *trainer, uint32_t pair, int32_t result) {
    const int32_t left = trainer->pairs[pair].left, right = trainer->pairs[pair].right;
    size_t count;
    trainer->round++;
    trainer->added_count = 0;
    if (!eitp__train_list_places(trainer, pair, &count))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const eitp__train_place *at = &trainer->places[trainer->todo[i]];
        /* The place before it may have taken this one, or the one after. */
        if (at->symbol != left || at->next == EITP__NOWHERE || trainer->places[at->next].symbol != right)
            continue;
        if (!eitp__train_merge_place(trainer, trainer->todo[i], result))
            return 0;
    }
    for (size_t i = 0; i < trainer->added_count; i++) {
        if (!eitp__train_push(trainer, trainer->added[i]))
            return 0;
    }
    return 1;
}

EITP__PRIVATE void eitp__learnt_release(eitp__learnt *learnt) {
    eitp__buffer_release(&learnt->text);
    eitp__release(learnt->host, learnt->tokens, learnt->token_capacity * sizeof *learnt->tokens);
    eitp__release(learnt->host, learnt->merges, learnt->merge_capacity * sizeof *learnt->merges);
    eitp__release(learnt->host, learnt->slots, learnt->slot_count * sizeof *learnt->slots);
}

/* The slot of the token whose text is the last `size` bytes of learnt->text, or the free slot where it belongs. */
static uint32_t *eitp__learnt_slot(const eitp__learnt *learnt, const char *bytes, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (learnt->slot_count - 1);; i = (i + 1) & (learnt->slot_count - 1)) {
        uint32_t *slot = &learnt->slots[i];
        if (!*slot)
            return slot;
        const eitp__learnt_token *token = &learnt->tokens[*slot - 1];
        if (token->size == size && !memcmp(learnt->text.data + token->offset, bytes, size))
            return slot;
    }
}

static int eitp__learnt_grow_slots(eitp__learnt *learnt) {
    size_t slot_count = learnt->slot_count ? 2 * learnt->slot_count : 4096;
    uint32_t *slots = (uint32_t *)eitp__allocate(learnt->host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(learnt->host, learnt->slots, learnt->slot_count * sizeof *slots);
    learnt->slots = slots;
    learnt->slot_count = slot_count;
    for (size_t i = 0; i < learnt->token_count; i++) {
        const eitp__learnt_token *token = &learnt->tokens[i];
        *eitp__learnt_slot(learnt, learnt->text.data + token->offset, token->size) = (uint32_t)i + 1;
    }
    return 1;
}

/* The id of the token that is the end of learnt->text from `offset` on. Where it is known already, the text is taken
   back. Returns -1 where memory runs out. */
static int32_t eitp__learnt_token_id(eitp__learnt *learnt, size_t offset) {
    const size_t size = learnt->text.size - offset;
    if (learnt->text.failed ||
        (2 * (learnt->token_count + 1) > learnt->slot_count && !eitp__learnt_grow_slots(learnt)) ||
        !eitp__reserve(learnt->host, (void **)&learnt->tokens, &learnt->token_capacity, learnt->token_count + 1,
                       sizeof *learnt->tokens))
        return -1;
    uint32_t *slot = eitp__learnt_slot(learnt, learnt->text.data + offset, size);
    if (*slot) {
        learnt->text.size = offset;
        return (int32_t)*slot - 1;
    }
    learnt->tokens[learnt->token_count].offset = offset;
    learnt->tokens[learnt->token_count].size = size;
    *slot = (uint32_t)++learnt->token_count;
    return (int32_t)*slot - 1;
}

/* The 256 bytes, in the order of the characters that files spell them with. */
static int eitp__learnt_begin(eitp__learnt *learnt, int32_t *byte_ids) {
    for (uint32_t character = 0; learnt->token_count < 256; character++) {
        int byte = eitp__character_to_byte(character);
        if (byte < 0)
            continue;
        const unsigned char value = (unsigned char)byte;
        const size_t offset = learnt->text.size;
        eitp__buffer_add(&learnt->text, &value, 1);
        byte_ids[byte] = eitp__learnt_token_id(learnt, offset);
        if (byte_ids[byte] < 0)
            return 0;
    }
    return 1;
}

/* Adds the merge of two tokens; returns the token that it makes, -1 where memory runs out. */
static int32_t eitp__learnt_merge(eitp__learnt *learnt, int32_t left, int32_t right) {
    const size_t offset = learnt->text.size;
    const eitp__learnt_token first = learnt->tokens[left], second = learnt->tokens[right];
    size_t capacity = learnt->text.capacity;
    /* Room first: what is added must not move while it is read. */
    if (!eitp__reserve(learnt->host, (void **)&learnt->text.data, &capacity, offset + first.size + second.size + 1, 1))
        return -1;
    learnt->text.capacity = capacity;
    eitp__buffer_add(&learnt->text, learnt->text.data + first.offset, first.size);
    eitp__buffer_add(&learnt->text, learnt->text.data + second.offset, second.size);
    int32_t result = eitp__learnt_token_id(learnt, offset);
    if (result < 0 || !eitp__reserve(learnt->host, (void **)&learnt->merges, &learnt->merge_capacity,
                                     learnt->merge_count + 1, sizeof *learnt->merges))
        return -1;
    eitp__merge *merge = &learnt->merges[learnt->merge_count++];
    merge->left = left;
    merge->right = right;
    merge->result = result;
    return result;
}

EITP__PRIVATE eitp_status eitp__learn_merges(eitp__learnt *learnt, const eitp__words *words, size_t token_limit,
                                             uint64_t minimum_frequency, eitp_error *error) {
    eitp__merge_trainer trainer = EITP__ZERO;
    int32_t byte_ids[256];
    memset(learnt, 0, sizeof *learnt);
    learnt->host = trainer.host = words->host;
    eitp__buffer_init(&learnt->text, words->host);
    trainer.words = words;
    int fits = eitp__learnt_begin(learnt, byte_ids) && eitp__train_begin(&trainer, byte_ids);
    while (fits && learnt->token_count < token_limit && trainer.heap_count) {
        const eitp__train_entry top = eitp__train_pop(&trainer);
        const eitp__train_pair pair = trainer.pairs[top.pair];
        if (top.count != pair.count) {
            fits = !pair.count || eitp__train_push(&trainer, top.pair);
            continue;
        }
        if (!pair.count || pair.count < minimum_frequency)
            break;
        int32_t result = eitp__learnt_merge(learnt, pair.left, pair.right);
        fits = result >= 0 && eitp__train_merge(&trainer, top.pair, result);
    }
    eitp__merge_trainer_release(&trainer);
    return fits ? EITP_OK : eitp__train_fail(error);
}

static eitp_status eitp__count_piece(void *user, const unsigned char *bytes, size_t size, int32_t id,
                                     eitp_error *error) {
    if (id >= 0 || size < 2) /* nothing to merge */
        return EITP_OK;
    return eitp__words_add((eitp__words *)user, bytes, size, error);
}

static eitp_status eitp__count_pieces(eitp__words *words, const eitp_text_source *source, eitp_error *error) {
    eitp__added_token end_of_text;
    eitp__splitter splitter;
    end_of_text.bytes = (const unsigned char *)EITP__END_OF_TEXT;
    end_of_text.size = strlen(EITP__END_OF_TEXT);
    end_of_text.id = 0;
    eitp__splitter_init(&splitter, words->host, &end_of_text, 1, 0, eitp__count_piece, words);
    eitp_status status = EITP_OK;
    while (status == EITP_OK) {
        const char *text = NULL;
        size_t size = 0;
        status = source->read(source->user, &text, &size, error);
        if (status == EITP_OK)
            status = text && size ? eitp__splitter_add(&splitter, (const unsigned char *)text, size, error)
                                  : eitp__splitter_finish(&splitter, error);
        if (!text)
            break;
    }
    eitp__splitter_release(&splitter);
    return status;
}

/* A merge that makes the text of <|endoftext|> cannot be: the splitter takes that out. */
static eitp_status eitp__tokenizer_from_learnt(const eitp__learnt *learnt, eitp_tokenizer **out, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp_tokenizer *tokenizer =
        eitp__tokenizer_begin(learnt->host, learnt->token_count + 1, learnt->merge_count, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    for (size_t id = 0; id < learnt->token_count && status == EITP_OK; id++)
        status = eitp__tokenizer_put(tokenizer, id, learnt->text.data + learnt->tokens[id].offset,
                                     learnt->tokens[id].size, 0, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_put(tokenizer, learnt->token_count, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT),
                                     EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL, error);
    if (status == EITP_OK) {
        if (learnt->merge_count)
            memcpy(tokenizer->bpe.merges, learnt->merges, learnt->merge_count * sizeof *learnt->merges);
        status = eitp__tokenizer_complete(tokenizer, error);
    }
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

static eitp_status eitp__check_train_config(const eitp_tokenizer_train_config *config, eitp_error *error) {
    if (config->vocabulary_size < 257 || (size_t)config->vocabulary_size > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a vocabulary_size of %ld cannot be had; it must be 257 (the bytes and %s) to %zu",
                          (long)config->vocabulary_size, EITP__END_OF_TEXT, EITP__VOCABULARY_LIMIT);
    if (config->minimum_frequency < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a minimum_frequency of %lld is negative; use 0 for any",
                          (long long)config->minimum_frequency);
    if (config->memory_limit && config->memory_limit < 1048576)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a memory_limit of %llu bytes is too small; give at least 1048576",
                          (unsigned long long)config->memory_limit);
    return EITP_OK;
}

eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                 const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error) {
    const uint64_t limit_default = (uint64_t)512 << 20, limit_largest = (uint64_t)128 << 30; /* places have 32 bits */
    eitp__words words;
    eitp__learnt learnt;
    *out = NULL;
    eitp_status status = eitp__check_train_config(config, error);
    if (status != EITP_OK)
        return status;
    const uint64_t limit = config->memory_limit ? config->memory_limit : limit_default;
    eitp__words_init(&words, host, limit < limit_largest ? limit : limit_largest);
    status = eitp__count_pieces(&words, source, error);
    if (status == EITP_OK && words.forgotten)
        eitp__log(host, EITP_LOG_WARNING,
                  "tokenizer: rare pieces with %llu occurrences were forgotten to stay within %llu bytes",
                  (unsigned long long)words.forgotten, (unsigned long long)words.limit);
    if (status == EITP_OK) {
        status = eitp__learn_merges(&learnt, &words, (size_t)config->vocabulary_size - 1,
                                    (uint64_t)config->minimum_frequency, error);
        if (status == EITP_OK)
            status = eitp__tokenizer_from_learnt(&learnt, out, error);
        eitp__learnt_release(&learnt);
    }
    if (status == EITP_OK)
        eitp__log(host, EITP_LOG_INFO, "tokenizer: %ld tokens learnt from %zu distinct pieces",
                  (long)eitp_tokenizer_size(*out), words.count);
    eitp__words_release(&words);
    return status;
}
/* <<src/text/bpe_train.c */

/* >>src/text/pretokenize.c */
enum { EITP__SPLITTER_CHUNK = 65536 };

/* The class of the character at text[0], which is well formed, and its bytes. */
static int eitp__class_at(const unsigned char *text, size_t size, size_t *taken) {
    if (text[0] < 0x80) {
        *taken = 1;
        return eitp__unicode_class(text[0]);
    }
    uint32_t code_point;
    int valid;
    *taken = eitp__utf8_next(text, size, &code_point, &valid);
    return eitp__unicode_class(code_point);
}

/* 's 't 'm 'd 're 've 'll at text[0] == '\'': their bytes, 0 where there is none, or SIZE_MAX where the text ends too
 * early to tell. */
static size_t eitp__contraction_size(const unsigned char *text, size_t size, int closed) {
    if (size < 2)
        return closed ? 0 : SIZE_MAX;
    switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
    case 'l':
        if (size < 3)
            return closed ? 0 : SIZE_MAX;
        return text[2] == (text[1] == 'l' ? 'l' : 'e') ? 3 : 0;
    default:
        return 0;
    }
}

/* White space from text[0] on: all of it at the end of the text, else all but the last character before what is none.
 */
static size_t eitp__space_size(const unsigned char *text, size_t size, int closed) {
    size_t end = 0, last = 0;
    while (end < size) {
        size_t taken;
        if (eitp__class_at(text + end, size - end, &taken) != EITP__UNICODE_SPACE)
            return last ? last : end;
        if (end + taken > EITP__PIECE_LIMIT)
            return end;
        last = end;
        end += taken;
    }
    return closed ? end : 0;
}

EITP__PRIVATE size_t eitp__piece_size(const unsigned char *text, size_t size, int closed) {
    if (text[0] == '\'') {
        size_t contraction = eitp__contraction_size(text, size, closed);
        if (contraction)
            return contraction == SIZE_MAX ? 0 : contraction;
    }
    size_t end = text[0] == ' ', taken;
    if (end == size)
        return closed ? end : 0;
    const int kind = eitp__class_at(text + end, size - end, &taken);
    if (kind == EITP__UNICODE_SPACE)
        return eitp__space_size(text, size, closed);
    for (;;) {
        end += taken;
        if (end == size)
            return closed ? end : 0;
        if (eitp__class_at(text + end, size - end, &taken) != kind)
            return end;
        if (end + taken > EITP__PIECE_LIMIT)
            return end;
    }
}

static int eitp__added_token_compare(const void *a, const void *b) {
    const eitp__added_token *left = (const eitp__added_token *)a;
    const eitp__added_token *right = (const eitp__added_token *)b;
    int order = memcmp(left->bytes, right->bytes, left->size < right->size ? left->size : right->size);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

EITP__PRIVATE void eitp__added_tokens_sort(eitp__added_token *tokens, size_t count) {
    eitp__sort(tokens, count, sizeof *tokens, eitp__added_token_compare);
}

EITP__PRIVATE void eitp__splitter_init(eitp__splitter *splitter, const eitp_host *host, const eitp__added_token *added,
                                       size_t added_count, int add_prefix_space, eitp__piece_sink sink, void *user) {
    memset(splitter, 0, sizeof *splitter);
    splitter->host = host;
    splitter->added = added;
    splitter->added_count = added_count;
    splitter->add_prefix_space = add_prefix_space;
    splitter->sink = sink;
    splitter->user = user;
    splitter->smallest = EITP__SPLITTER_CHUNK;
    for (size_t i = 0; i < added_count; i++)
        splitter->begins_added[added[i].bytes[0]] = 1;
    eitp__splitter_reset(splitter);
}

EITP__PRIVATE void eitp__splitter_release(eitp__splitter *splitter) {
    eitp__release(splitter->host, splitter->window, splitter->capacity);
    splitter->window = NULL;
    splitter->capacity = 0;
}

EITP__PRIVATE void eitp__splitter_reset(eitp__splitter *splitter) {
    splitter->cursor = splitter->end = splitter->scanned = 1;
    splitter->full = splitter->smallest;
    splitter->segment_begins = 1;
    splitter->partial_size = 0;
}

/* The longest added token that text[0 .. size) begins with, or NULL; *undecided where more text could make it a longer
 * one. */
static const eitp__added_token *eitp__added_token_at(const eitp__splitter *splitter, const unsigned char *text,
                                                     size_t size, int *undecided) {
    const eitp__added_token *added = splitter->added, *best = NULL;
    size_t low = 0, high = splitter->added_count; /* those that share the first `depth` bytes with the text */
    *undecided = 0;
    for (size_t depth = 0;; depth++) {
        if (added[low].size == depth) /* the shortest of them comes first */
            best = &added[low++];
        if (low == high)
            return best;
        if (depth == size) {
            *undecided = 1;
            return best;
        }
        size_t first = low, after = high;
        for (size_t limit = high; first < limit;) { /* the first whose next byte is not below the text's */
            size_t middle = first + (limit - first) / 2;
            if (added[middle].bytes[depth] < text[depth])
                first = middle + 1;
            else
                limit = middle;
        }
        for (size_t begin = first; begin < after;) { /* and the first whose next byte is above it */
            size_t middle = begin + (after - begin) / 2;
            if (added[middle].bytes[depth] <= text[depth])
                begin = middle + 1;
            else
                after = middle;
        }
        if (first == after)
            return best;
        low = first;
        high = after;
    }
}

/* Looks for the next added token from `scanned` on, which moves to where it begins, or may begin, or to the end of the
   window. *bounded says that plain text ends there for certain. */
static const eitp__added_token *eitp__splitter_scan(eitp__splitter *splitter, int final, int *bounded) {
    *bounded = final;
    while (splitter->scanned < splitter->end) {
        const unsigned char *text = splitter->window + splitter->scanned;
        if (splitter->begins_added[text[0]]) {
            int undecided;
            const eitp__added_token *token =
                eitp__added_token_at(splitter, text, splitter->end - splitter->scanned, &undecided);
            if (undecided && !final) {
                *bounded = token != NULL;
                return NULL;
            }
            if (token) {
                *bounded = 1;
                return token;
            }
        }
        splitter->scanned++;
    }
    return NULL;
}

/* Cuts the plain text in [cursor, scanned) as far as it is certain. */
static eitp_status eitp__splitter_cut_plain(eitp__splitter *splitter, int bounded, eitp_error *error) {
    if (splitter->segment_begins && splitter->cursor < splitter->scanned) {
        splitter->segment_begins = 0;
        if (splitter->add_prefix_space && splitter->window[splitter->cursor] != ' ')
            splitter->window[--splitter->cursor] = ' ';
    }
    while (splitter->cursor < splitter->scanned) {
        const unsigned char *text = splitter->window + splitter->cursor;
        size_t size = eitp__piece_size(text, splitter->scanned - splitter->cursor, bounded);
        if (!size)
            break;
        splitter->cursor += size;
        eitp_status status = splitter->sink(splitter->user, text, size, -1, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Cuts what is certain in the window and moves the rest to its front. */
static eitp_status eitp__splitter_cut(eitp__splitter *splitter, int final, eitp_error *error) {
    for (;;) {
        int bounded;
        const eitp__added_token *token = eitp__splitter_scan(splitter, final, &bounded);
        eitp_status status = eitp__splitter_cut_plain(splitter, bounded, error);
        if (status != EITP_OK)
            return status;
        if (!token)
            break;
        splitter->cursor += token->size;
        splitter->scanned = splitter->cursor;
        splitter->segment_begins = 1;
        status = splitter->sink(splitter->user, token->bytes, token->size, token->id, error);
        if (status != EITP_OK)
            return status;
    }
    size_t rest = splitter->end - splitter->cursor;
    memmove(splitter->window + 1, splitter->window + splitter->cursor, rest);
    splitter->scanned = splitter->scanned - splitter->cursor + 1;
    splitter->cursor = 1;
    splitter->end = rest + 1;
    /* What could not be cut is looked at again only when there is twice as much: so the work stays linear. */
    splitter->full = 2 * rest > splitter->smallest ? 2 * rest : splitter->smallest;
    return EITP_OK;
}

/* Adds well-formed text to the window, cutting whenever that is full. */
static eitp_status eitp__splitter_append(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                         eitp_error *error) {
    while (size) {
        size_t room = splitter->full - (splitter->end - splitter->cursor);
        size_t part = size;
        if (part > room) { /* only whole characters */
            part = room;
            while (part && (text[part] & 0xC0) == 0x80)
                part--;
        }
        if (part) {
            size_t needed = splitter->end + part;
            if (!eitp__reserve(splitter->host, (void **)&splitter->window, &splitter->capacity, needed, 1))
                return eitp__fail_memory(error, needed, "the text being encoded");
            memcpy(splitter->window + splitter->end, text, part);
            splitter->end += part;
            text += part;
            size -= part;
        }
        if (size) {
            eitp_status status = eitp__splitter_cut(splitter, 0, error);
            if (status != EITP_OK)
                return status;
        }
    }
    return EITP_OK;
}

/* Adds text that may be ill formed but does not end inside of a sequence, unless that is its end. */
static eitp_status eitp__splitter_repair(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                         eitp_error *error) {
    for (;;) {
        size_t valid = eitp__utf8_valid_prefix(text, size);
        eitp_status status = eitp__splitter_append(splitter, text, valid, error);
        if (status != EITP_OK || valid == size)
            return status;
        uint32_t code_point;
        int is_valid;
        size_t bad = eitp__utf8_next(text + valid, size - valid, &code_point, &is_valid);
        status = eitp__splitter_append(splitter, (const unsigned char *)"\xEF\xBF\xBD", 3, error);
        if (status != EITP_OK)
            return status;
        text += valid + bad;
        size -= valid + bad;
    }
}

EITP__PRIVATE eitp_status eitp__splitter_add(eitp__splitter *splitter, const unsigned char *text, size_t size,
                                             eitp_error *error) {
    while (splitter->partial_size && size) { /* a sequence that goes on from the last chunk, byte by byte */
        splitter->partial[splitter->partial_size++] = *text++;
        size--;
        if (eitp__utf8_incomplete(splitter->partial, splitter->partial_size) == splitter->partial_size)
            continue;
        size_t count = splitter->partial_size, rest = eitp__utf8_incomplete(splitter->partial, count);
        unsigned char bytes[4];
        memcpy(bytes, splitter->partial, count);
        memcpy(splitter->partial, bytes + count - rest, rest);
        splitter->partial_size = rest;
        eitp_status status = eitp__splitter_repair(splitter, bytes, count - rest, error);
        if (status != EITP_OK)
            return status;
    }
    if (!size)
        return EITP_OK;
    size_t rest = eitp__utf8_incomplete(text, size);
    memcpy(splitter->partial, text + size - rest, rest);
    splitter->partial_size = rest;
    return eitp__splitter_repair(splitter, text, size - rest, error);
}

EITP__PRIVATE eitp_status eitp__splitter_finish(eitp__splitter *splitter, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (splitter->partial_size)
        status = eitp__splitter_append(splitter, (const unsigned char *)"\xEF\xBF\xBD", 3, error);
    if (status == EITP_OK && splitter->end > splitter->cursor)
        status = eitp__splitter_cut(splitter, 1, error);
    eitp__splitter_reset(splitter);
    return status;
}
/* <<src/text/pretokenize.c */

/* >>src/text/tokenizer.c */
EITP__PRIVATE eitp_tokenizer *eitp__tokenizer_begin(const eitp_host *host, size_t count, size_t merge_count,
                                                    eitp_error *error) {
    eitp_tokenizer *tokenizer = (eitp_tokenizer *)eitp__allocate(host, sizeof *tokenizer);
    if (!tokenizer) {
        eitp__fail_memory(error, sizeof *tokenizer, "a tokenizer");
        return NULL;
    }
    tokenizer->host = *host;
    tokenizer->end_of_text = -1;
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__buffer_init(&vocabulary->bytes, &tokenizer->host);
    vocabulary->tokens = (eitp__token *)eitp__allocate(host, count * sizeof *vocabulary->tokens);
    vocabulary->count = vocabulary->tokens ? count : 0;
    eitp__bpe *bpe = &tokenizer->bpe;
    bpe->merges = (eitp__merge *)eitp__allocate(host, merge_count * sizeof *bpe->merges);
    bpe->merge_count = bpe->merges ? merge_count : 0;
    if (!vocabulary->tokens || (merge_count && !bpe->merges)) {
        eitp__fail_memory(error, count * sizeof *vocabulary->tokens + merge_count * sizeof *bpe->merges,
                          "the tokenizer's vocabulary");
        eitp_tokenizer_destroy(tokenizer);
        return NULL;
    }
    return tokenizer;
}

EITP__PRIVATE eitp_status eitp__tokenizer_put(eitp_tokenizer *tokenizer, size_t id, const void *bytes, size_t size,
                                              unsigned flags, eitp_error *error) {
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__token *token = &vocabulary->tokens[id];
    if (size > UINT32_MAX - vocabulary->bytes.size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the tokens of the vocabulary have more than 4 GiB of text");
    token->offset = (uint32_t)vocabulary->bytes.size;
    token->size = (uint32_t)size;
    token->flags = (unsigned char)(flags | EITP__TOKEN_PRESENT);
    eitp__buffer_add(&vocabulary->bytes, bytes, size);
    return vocabulary->bytes.failed ? eitp__fail_memory(error, size, "the tokenizer's vocabulary") : EITP_OK;
}

EITP__PRIVATE const unsigned char *eitp__token_bytes(const eitp_tokenizer *tokenizer, size_t id) {
    return (const unsigned char *)tokenizer->vocabulary.bytes.data + tokenizer->vocabulary.tokens[id].offset;
}

/* Which token each byte is where no merge applies. */
static eitp_status eitp__tokenizer_find_bytes(eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t *byte_ids = tokenizer->bpe.byte_ids;
    for (size_t byte = 0; byte < 256; byte++)
        byte_ids[byte] = -1;
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (token->size == 1 && !(token->flags & (EITP__TOKEN_VERBATIM | EITP__TOKEN_OUTSIDE)))
            byte_ids[*eitp__token_bytes(tokenizer, id)] = (int32_t)id;
    }
    for (size_t byte = 0; byte < 256; byte++) {
        if (byte_ids[byte] < 0)
            return eitp__fail(
                error, EITP_ERROR_UNSUPPORTED,
                "the vocabulary has no token for the byte 0x%02X, so not every text could be encoded; train it with an "
                "initial alphabet of all 256 bytes",
                (unsigned)byte);
    }
    return EITP_OK;
}

/* The list that the splitter looks through. */
static eitp_status eitp__tokenizer_list_added(eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t count = 0;
    for (size_t id = 0; id < vocabulary->count; id++)
        count += (vocabulary->tokens[id].flags & EITP__TOKEN_ADDED) != 0;
    if (!count)
        return EITP_OK;
    tokenizer->added = (eitp__added_token *)eitp__allocate(&tokenizer->host, count * sizeof *tokenizer->added);
    if (!tokenizer->added)
        return eitp__fail_memory(error, count * sizeof *tokenizer->added, "the tokenizer's added tokens");
    tokenizer->added_count = count;
    for (size_t id = 0, i = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        if (!(token->flags & EITP__TOKEN_ADDED))
            continue;
        eitp__added_token *added = &tokenizer->added[i++];
        added->bytes = eitp__token_bytes(tokenizer, id);
        added->size = token->size;
        added->id = (int32_t)id;
        if ((token->flags & EITP__TOKEN_SPECIAL) && token->size == strlen(EITP__END_OF_TEXT) &&
            !memcmp(added->bytes, EITP__END_OF_TEXT, token->size))
            tokenizer->end_of_text = added->id;
    }
    eitp__added_tokens_sort(tokenizer->added, count);
    for (size_t i = 1; i < count; i++) {
        const eitp__added_token *one = &tokenizer->added[i - 1], *other = &tokenizer->added[i];
        if (one->size == other->size && !memcmp(one->bytes, other->bytes, one->size))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "added tokens %ld and %ld have the same text; remove one of them", (long)one->id,
                              (long)other->id);
    }
    return EITP_OK;
}

static uint64_t eitp__fnv(uint64_t hash, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u;
    return hash;
}

/* The number's bytes from the lowest on: the same on every machine. */
static uint64_t eitp__fnv_number(uint64_t hash, uint32_t number) {
    for (unsigned shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (number >> shift & 0xFF)) * 0x100000001B3u;
    return hash;
}

static uint64_t eitp__tokenizer_hash(const eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    uint64_t hash = eitp__fnv_number(0xCBF29CE484222325u, (uint32_t)tokenizer->add_prefix_space);
    hash = eitp__fnv_number(hash, (uint32_t)vocabulary->count);
    for (size_t id = 0; id < vocabulary->count; id++) {
        const eitp__token *token = &vocabulary->tokens[id];
        hash = eitp__fnv_number(hash, token->flags & (EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL));
        hash = eitp__fnv_number(hash, token->size);
        hash = eitp__fnv(hash, eitp__token_bytes(tokenizer, id), token->size);
    }
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].left);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].right);
        hash = eitp__fnv_number(hash, (uint32_t)tokenizer->bpe.merges[rank].result);
    }
    return hash;
}

EITP__PRIVATE eitp_status eitp__tokenizer_complete(eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp_status status = eitp__tokenizer_find_bytes(tokenizer, error);
    if (status == EITP_OK)
        status = eitp__bpe_index(&tokenizer->bpe, &tokenizer->host, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_list_added(tokenizer, error);
    if (status == EITP_OK)
        tokenizer->fingerprint = eitp__tokenizer_hash(tokenizer);
    return status;
}

eitp_status eitp_tokenizer_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error) {
    eitp_status status = EITP_OK;
    *out = NULL;
    eitp_tokenizer *tokenizer = eitp__tokenizer_begin(host, 257, 0, error);
    if (!tokenizer)
        return EITP_ERROR_MEMORY;
    for (size_t byte = 0; byte < 256 && status == EITP_OK; byte++) {
        const unsigned char text = (unsigned char)byte;
        status = eitp__tokenizer_put(tokenizer, byte, &text, 1, 0, error);
    }
    if (status == EITP_OK)
        status = eitp__tokenizer_put(tokenizer, 256, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT),
                                     EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_complete(tokenizer, error);
    if (status == EITP_OK)
        *out = tokenizer;
    else
        eitp_tokenizer_destroy(tokenizer);
    return status;
}

void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    const eitp_host host = tokenizer->host;
    eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    eitp__buffer_release(&vocabulary->bytes);
    eitp__release(&host, vocabulary->tokens, vocabulary->count * sizeof *vocabulary->tokens);
    eitp__bpe_release(&tokenizer->bpe, &host);
    eitp__release(&host, tokenizer->added, tokenizer->added_count * sizeof *tokenizer->added);
    eitp__release(&host, tokenizer, sizeof *tokenizer);
}

int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer) {
    return (int32_t)tokenizer->vocabulary.count;
}

int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer) {
    return tokenizer->end_of_text;
}

uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer) {
    return tokenizer->fingerprint;
}

eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                 eitp_error *error) {
    if (id < 0 || (size_t)id >= tokenizer->vocabulary.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "token id %ld is outside the vocabulary, which has ids 0 to %zu",
                          (long)id, tokenizer->vocabulary.count - 1);
    *bytes = (const char *)eitp__token_bytes(tokenizer, (size_t)id);
    *size = tokenizer->vocabulary.tokens[id].size;
    return EITP_OK;
}

eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count, char *text,
                                  size_t capacity, size_t *size, eitp_error *error) {
    size_t total = 0;
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bytes = NULL;
        size_t length = 0;
        eitp_status status = eitp_tokenizer_token(tokenizer, ids[i], &bytes, &length, error);
        if (status != EITP_OK)
            return eitp__fail_prefix(error, status, "token %zu of the sequence", i);
        if (total < capacity)
            memcpy(text + total, bytes, length < capacity - total ? length : capacity - total);
        if (!eitp__add_size(total, length, &total))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the text of %zu tokens is larger than memory can be", count);
    }
    *size = total;
    return EITP_OK;
}
/* <<src/text/tokenizer.c */

/* >>src/data/permutation.c */
/*
 * A Feistel network is a bijection on [0, 4^h) whatever its round functions are (Luby and Rackoff, "How to Construct
 * Pseudorandom Permutations from Pseudorandom Functions", 1988). Walking on from values that are not below `size` until
 * one is makes it a bijection on [0, size) (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002); fewer
 * than four steps on average.
 */

/* Four rounds would do for large halves; halves of one or two bits need more to mix. */
enum { EITP__PERMUTATION_ROUNDS = 8 };

EITP__PRIVATE uint64_t eitp__permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t position) {
    unsigned half_bits = 0;
    while (half_bits < 32 && (uint64_t)1 << 2 * half_bits < size)
        half_bits++;
    const uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t value = position;
    do {
        uint64_t left = value >> half_bits, right = value & mask;
        for (uint64_t round = 0; round < EITP__PERMUTATION_ROUNDS; round++) {
            uint64_t random = eitp__random_bits(seed, epoch, EITP__STREAM_SHUFFLE, round << 32 | right);
            uint64_t mixed = left ^ (random & mask);
            left = right;
            right = mixed;
        }
        value = left << half_bits | right;
    } while (value >= size);
    return value;
}
/* <<src/data/permutation.c */

/* >>src/data/token_header.c */
enum { EITP__TOKEN_VERSION = 1 };
enum { EITP__TOKEN_LLMC_MAGIC = 20240520, EITP__TOKEN_LLMC_VERSION = 1 };

/* Where the fields of the header are. */
enum {
    EITP__TOKEN_AT_VERSION = 8,
    EITP__TOKEN_AT_ELEMENT_SIZE = 12,
    EITP__TOKEN_AT_TOKEN_COUNT = 16,
    EITP__TOKEN_AT_DOCUMENT_COUNT = 24,
    EITP__TOKEN_AT_VOCABULARY_SIZE = 32,
    EITP__TOKEN_AT_END_OF_TEXT = 36,
    EITP__TOKEN_AT_FINGERPRINT = 40,
    EITP__TOKEN_AT_CONTENT_HASH = 48,
    EITP__TOKEN_AT_TEXT_BYTES = 56,
    EITP__TOKEN_AT_INVALID_BYTES = 64,
    EITP__TOKEN_AT_ENTROPY = 72,
    EITP__TOKEN_AT_CRC = 252
};

EITP__PRIVATE const char *eitp__token_magic(void) {
    return "EITPTOK"; /* with its zero byte */
}

static void eitp__token_put(unsigned char *bytes, size_t size, uint64_t value) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t eitp__token_get(const unsigned char *bytes, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

EITP__PRIVATE uint64_t eitp__token_hash_start(void) {
    return 0xCBF29CE484222325u;
}

EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint32_t)ids[i]) * 0x100000001B3u;
    return hash;
}

EITP__PRIVATE void eitp__token_header_write(unsigned char bytes[EITP__TOKEN_HEADER_SIZE],
                                            const eitp_token_file_info *info) {
    uint64_t entropy;
    memcpy(&entropy, &info->unigram_entropy, sizeof entropy);
    memset(bytes, 0, EITP__TOKEN_HEADER_SIZE);
    memcpy(bytes, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE);
    eitp__token_put(bytes + EITP__TOKEN_AT_VERSION, 4, EITP__TOKEN_VERSION);
    eitp__token_put(bytes + EITP__TOKEN_AT_ELEMENT_SIZE, 4, (uint64_t)info->element_size);
    eitp__token_put(bytes + EITP__TOKEN_AT_TOKEN_COUNT, 8, info->token_count);
    eitp__token_put(bytes + EITP__TOKEN_AT_DOCUMENT_COUNT, 8, info->document_count);
    eitp__token_put(bytes + EITP__TOKEN_AT_VOCABULARY_SIZE, 4, (uint64_t)info->vocabulary_size);
    eitp__token_put(bytes + EITP__TOKEN_AT_END_OF_TEXT, 4, (uint32_t)info->end_of_text);
    eitp__token_put(bytes + EITP__TOKEN_AT_FINGERPRINT, 8, info->tokenizer_fingerprint);
    eitp__token_put(bytes + EITP__TOKEN_AT_CONTENT_HASH, 8, info->content_hash);
    eitp__token_put(bytes + EITP__TOKEN_AT_TEXT_BYTES, 8, info->text_bytes);
    eitp__token_put(bytes + EITP__TOKEN_AT_INVALID_BYTES, 8, info->invalid_bytes);
    eitp__token_put(bytes + EITP__TOKEN_AT_ENTROPY, 8, entropy);
    eitp__token_put(bytes + EITP__TOKEN_AT_CRC, 4, eitp__crc32c(0, bytes, EITP__TOKEN_AT_CRC));
}

/* The count that the header gives against the one that the file has room for. */
static eitp_status eitp__token_check_size(const eitp_token_file_info *info, uint64_t offset, uint64_t file_size,
                                          eitp_error *error) {
    uint64_t room = file_size < offset ? 0 : file_size - offset;
    uint64_t element = (uint64_t)info->element_size;
    if (info->token_count != room / element || room % element || file_size < offset)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the header promises %llu tokens of %d bytes after %llu bytes, but the file has %llu bytes; it "
            "was cut short or damaged: pack or copy it again",
            (unsigned long long)info->token_count, (int)element, (unsigned long long)offset,
            (unsigned long long)file_size);
    if (!info->token_count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the file holds no tokens: pack it again");
    return EITP_OK;
}

static eitp_status eitp__token_header_fields(const unsigned char *bytes, eitp_token_file_info *info,
                                             eitp_error *error) {
    uint64_t element_size = eitp__token_get(bytes + EITP__TOKEN_AT_ELEMENT_SIZE, 4);
    uint64_t vocabulary_size = eitp__token_get(bytes + EITP__TOKEN_AT_VOCABULARY_SIZE, 4);
    uint64_t end_of_text = eitp__token_get(bytes + EITP__TOKEN_AT_END_OF_TEXT, 4);
    uint64_t entropy = eitp__token_get(bytes + EITP__TOKEN_AT_ENTROPY, 8);
    if (element_size != 2 && element_size != 4)
        return eitp__fail(error, EITP_ERROR_FORMAT, "ids of %llu bytes; they have 2 or 4: pack the file again",
                          (unsigned long long)element_size);
    if (!vocabulary_size || vocabulary_size > (element_size == 2 ? 65536 : INT32_MAX))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "a vocabulary of %llu is not possible with ids of %llu bytes: pack the file again",
                          (unsigned long long)vocabulary_size, (unsigned long long)element_size);
    if (end_of_text >= vocabulary_size && end_of_text != UINT32_MAX)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the end-of-text id %llu is not in the vocabulary of %llu: pack the file again",
                          (unsigned long long)end_of_text, (unsigned long long)vocabulary_size);
    info->kind = EITP_TOKEN_FILE_EITP;
    info->element_size = (int32_t)element_size;
    info->vocabulary_size = (int32_t)vocabulary_size;
    info->end_of_text = end_of_text == UINT32_MAX ? -1 : (int32_t)end_of_text;
    info->token_count = eitp__token_get(bytes + EITP__TOKEN_AT_TOKEN_COUNT, 8);
    info->document_count = eitp__token_get(bytes + EITP__TOKEN_AT_DOCUMENT_COUNT, 8);
    info->tokenizer_fingerprint = eitp__token_get(bytes + EITP__TOKEN_AT_FINGERPRINT, 8);
    info->content_hash = eitp__token_get(bytes + EITP__TOKEN_AT_CONTENT_HASH, 8);
    info->text_bytes = eitp__token_get(bytes + EITP__TOKEN_AT_TEXT_BYTES, 8);
    info->invalid_bytes = eitp__token_get(bytes + EITP__TOKEN_AT_INVALID_BYTES, 8);
    memcpy(&info->unigram_entropy, &entropy, sizeof entropy);
    if (!(info->unigram_entropy >= 0 &&
          info->unigram_entropy < 64)) /* ln 2^31 is 21.5; also refuses what is no number */
        return eitp__fail(error, EITP_ERROR_FORMAT, "a unigram entropy of %g is not possible: pack the file again",
                          info->unigram_entropy);
    return EITP_OK;
}

static eitp_status eitp__token_header_own(const unsigned char *bytes, size_t size, eitp_token_file_info *info,
                                          eitp_error *error) {
    if (size < EITP__TOKEN_HEADER_SIZE)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the file ends after %llu bytes, within its header of %d; it was cut short: pack or copy it again",
            (unsigned long long)size, (int)EITP__TOKEN_HEADER_SIZE);
    uint64_t version = eitp__token_get(bytes + EITP__TOKEN_AT_VERSION, 4);
    if (!version)
        return eitp__fail(error, EITP_ERROR_FORMAT, "packing did not come to its end: pack the file again");
    if (version != EITP__TOKEN_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "a token file of version %llu, and this eitp reads version %d: pack the file again",
                          (unsigned long long)version, (int)EITP__TOKEN_VERSION);
    uint32_t crc = eitp__crc32c(0, bytes, EITP__TOKEN_AT_CRC);
    uint32_t promised = (uint32_t)eitp__token_get(bytes + EITP__TOKEN_AT_CRC, 4);
    if (crc != promised)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header is damaged (its CRC32C is %08lx, it says %08lx): pack or copy the file again",
                          (unsigned long)crc, (unsigned long)promised);
    return eitp__token_header_fields(bytes, info, error);
}

static eitp_status eitp__token_header_llmc(const unsigned char *bytes, size_t size, eitp_token_file_info *info,
                                           eitp_error *error) {
    uint64_t version = size >= 8 ? eitp__token_get(bytes + 4, 4) : 0;
    uint64_t count = size >= 12 ? eitp__token_get(bytes + 8, 4) : 0;
    if (size < 12)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the file ends after %llu bytes, within llm.c's header of %d; it was cut short: copy it again",
            (unsigned long long)size, (int)EITP__TOKEN_LLMC_HEADER_SIZE);
    if (version != EITP__TOKEN_LLMC_VERSION)
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "an llm.c token file of version %llu, and this eitp reads version %d: pack the text with eitp",
            (unsigned long long)version, (int)EITP__TOKEN_LLMC_VERSION);
    if (count > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "llm.c's header promises a negative number of tokens: copy the file again");
    info->kind = EITP_TOKEN_FILE_LLMC;
    info->element_size = 2;
    info->end_of_text = -1;
    info->token_count = count;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__token_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                  eitp_token_file_info *info, uint64_t *offset, eitp_error *error) {
    eitp_token_file_info found = EITP__ZERO;
    eitp_status status;
    uint64_t begin;
    if (size >= EITP__TOKEN_MAGIC_SIZE && !memcmp(bytes, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE)) {
        status = eitp__token_header_own(bytes, size, &found, error);
        begin = EITP__TOKEN_HEADER_SIZE;
    } else if (size >= 4 && eitp__token_get(bytes, 4) == EITP__TOKEN_LLMC_MAGIC) {
        status = eitp__token_header_llmc(bytes, size, &found, error);
        begin = EITP__TOKEN_LLMC_HEADER_SIZE;
    } else {
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "not a token file: it begins with neither \"EITPTOK\" nor llm.c's 20240520; make one from text "
            "with eitp pack");
    }
    if (status == EITP_OK)
        status = eitp__token_check_size(&found, begin, file_size, error);
    if (status != EITP_OK)
        return status;
    *info = found;
    *offset = begin;
    return EITP_OK;
}
/* <<src/data/token_header.c */

/* >>src/data/token_writer.c */
enum { EITP__TOKEN_WRITE_BYTES = 65536 };

static eitp_status eitp__token_writer_allocate(eitp__token_writer *writer, const char *path, eitp_error *error) {
    const eitp_host *host = writer->host;
    size_t counts_size = (size_t)writer->info.vocabulary_size * sizeof *writer->counts;
    eitp__buffer partial;
    eitp__buffer_init(&partial, host);
    eitp__buffer_add_text(&partial, path);
    eitp__buffer_add_text(&partial, ".partial");
    if (!partial.failed)
        writer->partial_path = eitp__copy_text(host, partial.data);
    eitp__buffer_release(&partial);
    writer->path = eitp__copy_text(host, path);
    writer->buffer = (unsigned char *)eitp__allocate_uninitialized(host, EITP__TOKEN_WRITE_BYTES);
    writer->counts = (uint64_t *)eitp__allocate(host, counts_size);
    if (!writer->partial_path || !writer->path || !writer->buffer || !writer->counts)
        return eitp__fail_memory(error, EITP__TOKEN_WRITE_BYTES + counts_size, "writing a token file");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE] = EITP__ZERO;
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->info.kind = EITP_TOKEN_FILE_EITP;
    writer->info.element_size = vocabulary_size <= 65536 ? 2 : 4;
    writer->info.vocabulary_size = vocabulary_size;
    writer->info.end_of_text = -1;
    writer->info.content_hash = eitp__token_hash_start();
    writer->offset = EITP__TOKEN_HEADER_SIZE;
    eitp_status status = eitp__token_writer_allocate(writer, path, error);
    if (status == EITP_OK)
        status = eitp__file_open(&writer->file, host, writer->partial_path, EITP_FILE_REPLACE, error);
    if (status != EITP_OK)
        return status;
    writer->unfinished = 1;
    /* The magic with version 0: whoever finds the file before it is complete sees what it is. */
    memcpy(header, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE);
    return eitp__file_write(&writer->file, 0, header, sizeof header, error);
}

static eitp_status eitp__token_writer_flush(eitp__token_writer *writer, eitp_error *error) {
    eitp_status status = eitp__file_write(&writer->file, writer->offset, writer->buffer, writer->buffered, error);
    if (status == EITP_OK) {
        writer->offset += writer->buffered;
        writer->buffered = 0;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error) {
    const size_t element = (size_t)writer->info.element_size;
    for (size_t i = 0; i < count; i++) {
        const int32_t id = ids[i];
        if (id < 0 || id >= writer->info.vocabulary_size)
            return eitp__fail(error, EITP_ERROR_INTERNAL, "the tokenizer made id %ld, and its vocabulary has %ld",
                              (long)id, (long)writer->info.vocabulary_size);
        if (writer->buffered + element > EITP__TOKEN_WRITE_BYTES) {
            eitp_status status = eitp__token_writer_flush(writer, error);
            if (status != EITP_OK)
                return status;
        }
        unsigned char *bytes = writer->buffer + writer->buffered;
        for (size_t byte = 0; byte < element; byte++)
            bytes[byte] = (unsigned char)((uint32_t)id >> 8 * byte);
        writer->buffered += element;
        writer->counts[id]++;
    }
    writer->info.token_count += count;
    writer->info.content_hash = eitp__token_hash(writer->info.content_hash, ids, count);
    return EITP_OK;
}

/* -sum p ln p with p = c / n is ln n - (sum c ln c) / n. */
static double eitp__token_writer_entropy(const eitp__token_writer *writer) {
    const double total = (double)writer->info.token_count;
    double sum = 0;
    for (int32_t id = 0; id < writer->info.vocabulary_size; id++) {
        const double count = (double)writer->counts[id];
        if (count > 0)
            sum += count * log(count);
    }
    const double entropy = total > 0 ? log(total) - sum / total : 0;
    return entropy > 0 ? entropy : 0;
}

/* Syncs the directory that `path` is in, so that a rename in it lasts. */
static eitp_status eitp__token_writer_sync_directory(const eitp_host *host, const char *path, eitp_error *error) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return eitp__sync_directory(host, ".", error);
    char *directory = eitp__copy_bytes(host, path, slash == path ? 1 : (size_t)(slash - path));
    if (!directory)
        return eitp__fail_memory(error, strlen(path), "the path of a token file");
    eitp_status status = eitp__sync_directory(host, directory, error);
    eitp__release_text(host, directory);
    return status;
}

EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE];
    writer->info.unigram_entropy = eitp__token_writer_entropy(writer);
    eitp__token_header_write(header, &writer->info);
    eitp_status status = eitp__token_writer_flush(writer, error);
    if (status == EITP_OK)
        status = eitp__file_write(&writer->file, 0, header, sizeof header, error);
    if (status == EITP_OK)
        status = eitp__file_sync(&writer->file, error);
    if (status == EITP_OK)
        status = eitp__file_close(&writer->file, error);
    if (status == EITP_OK)
        status = eitp__rename_path(writer->host, writer->partial_path, writer->path, error);
    if (status != EITP_OK)
        return status;
    writer->unfinished = 0;
    return eitp__token_writer_sync_directory(writer->host, writer->path, error);
}

EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer) {
    const eitp_host *host = writer->host;
    if (!host)
        return;
    eitp__file_close(&writer->file, NULL);
    if (writer->unfinished)
        host->files.remove(host->files.user, writer->partial_path);
    eitp__release_text(host, writer->path);
    eitp__release_text(host, writer->partial_path);
    eitp__release(host, writer->buffer, EITP__TOKEN_WRITE_BYTES);
    eitp__release(host, writer->counts, (size_t)writer->info.vocabulary_size * sizeof *writer->counts);
    memset(writer, 0, sizeof *writer);
}
/* <<src/data/token_writer.c */

/* >>src/data/utf8_repair.c */
EITP__PRIVATE void eitp__utf8_repair_init(eitp__utf8_repair *repair, eitp__utf8_sink sink, void *user) {
    memset(repair, 0, sizeof *repair);
    repair->sink = sink;
    repair->user = user;
}

/* Notes `count` ill-formed bytes that begin at `offset` with `byte`, and hands on what they become. */
static eitp_status eitp__utf8_repair_replace(eitp__utf8_repair *repair, uint64_t offset, unsigned char byte,
                                             size_t count, eitp_error *error) {
    if (!repair->invalid_bytes) {
        repair->first_invalid = offset;
        repair->invalid_byte = byte;
    }
    repair->invalid_bytes += count;
    return repair->sink(repair->user, "\xEF\xBF\xBD", 3, error);
}

/* Goes on with the sequence that the piece before left. Stores how many bytes of `text` it took. */
static eitp_status eitp__utf8_repair_resume(eitp__utf8_repair *repair, const unsigned char *text, size_t size,
                                            size_t *taken, eitp_error *error) {
    uint32_t code_point;
    int valid;
    const uint64_t begin = repair->offset - repair->pending_size;
    const size_t before = repair->pending_size;
    size_t pending = before;
    *taken = 0;
    while (*taken < size && eitp__utf8_incomplete(repair->pending, pending) == pending)
        repair->pending[pending++] = text[(*taken)++];
    if (eitp__utf8_incomplete(repair->pending, pending) == pending) {
        repair->pending_size = pending;
        return EITP_OK;
    }
    const size_t length = eitp__utf8_next(repair->pending, pending, &code_point, &valid);
    *taken = length - before; /* the byte that does not continue the sequence begins another */
    repair->pending_size = 0;
    if (valid)
        return repair->sink(repair->user, (const char *)repair->pending, length, error);
    return eitp__utf8_repair_replace(repair, begin, repair->pending[0], length, error);
}

EITP__PRIVATE eitp_status eitp__utf8_repair_add(eitp__utf8_repair *repair, const char *text, size_t size,
                                                eitp_error *error) {
    const unsigned char *bytes = (const unsigned char *)text;
    eitp_status status = EITP_OK;
    size_t i = 0;
    if (repair->pending_size)
        status = eitp__utf8_repair_resume(repair, bytes, size, &i, error);
    while (status == EITP_OK && i < size) {
        const size_t run = eitp__utf8_valid_prefix(bytes + i, size - i);
        if (run)
            status = repair->sink(repair->user, text + i, run, error);
        i += run;
        const size_t left = size - i;
        if (status != EITP_OK || !left)
            break;
        if (eitp__utf8_incomplete(bytes + i, left) == left) {
            memcpy(repair->pending, bytes + i, left);
            repair->pending_size = left;
            break;
        }
        uint32_t code_point;
        int valid;
        const size_t length = eitp__utf8_next(bytes + i, left, &code_point, &valid);
        status = eitp__utf8_repair_replace(repair, repair->offset + i, bytes[i], length, error);
        i += length;
    }
    repair->offset += size;
    return status;
}

EITP__PRIVATE eitp_status eitp__utf8_repair_finish(eitp__utf8_repair *repair, eitp_error *error) {
    const size_t count = repair->pending_size;
    repair->pending_size = 0;
    if (!count)
        return EITP_OK;
    return eitp__utf8_repair_replace(repair, repair->offset - count, repair->pending[0], count, error);
}
/* <<src/data/utf8_repair.c */

/* >>src/data/token_file.c */
enum { EITP__TOKEN_READ_BYTES = 8192, EITP__TOKEN_VERIFY_IDS = 2048 };

struct eitp_token_file {
    eitp_host host;
    eitp__file file;
    eitp_token_file_info info;
    uint64_t offset; /* of the first id */
    uint32_t limit;  /* ids are below it */
};

/* Reads the header of the open file and decides what an id may be. */
static eitp_status eitp__token_file_begin(eitp_token_file *file, int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE];
    uint64_t file_size = 0;
    size_t size = 0;
    eitp_status status = eitp__file_size(&file->file, &file_size, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&file->file, 0, header, sizeof header, &size, error);
    if (status != EITP_OK)
        return status;
    status = eitp__token_header_read(header, size, file_size, &file->info, &file->offset, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", file->file.path);
    file->limit = file->info.vocabulary_size ? (uint32_t)file->info.vocabulary_size : 65536;
    if (vocabulary_size && (uint32_t)vocabulary_size < file->limit)
        file->limit = (uint32_t)vocabulary_size;
    return EITP_OK;
}

eitp_status eitp_token_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                 eitp_token_file **file, eitp_error *error) {
    *file = NULL;
    if (vocabulary_size < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a vocabulary of %d; give its size, or 0 for the file's own",
                          path, (int)vocabulary_size);
    eitp_token_file *opened = (eitp_token_file *)eitp__allocate(host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "a token file");
    opened->host = *host;
    eitp_status status = eitp__file_open(&opened->file, &opened->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK)
        status = eitp__token_file_begin(opened, vocabulary_size, error);
    if (status != EITP_OK) {
        eitp_token_file_close(opened);
        return status;
    }
    *file = opened;
    return EITP_OK;
}

void eitp_token_file_close(eitp_token_file *file) {
    if (!file)
        return;
    eitp_host host = file->host;
    eitp__file_close(&file->file, NULL);
    eitp__release(&host, file, sizeof *file);
}

eitp_token_file_info eitp_token_file_get_info(const eitp_token_file *file) {
    return file->info;
}

/* Turns the stored ids in `bytes` into `ids`; `first` is the number of the first one. */
static eitp_status eitp__token_file_decode(const eitp_token_file *file, const unsigned char *bytes, uint64_t first,
                                           size_t count, int32_t *ids, eitp_error *error) {
    const size_t element = (size_t)file->info.element_size;
    for (size_t i = 0; i < count; i++, bytes += element) {
        uint32_t id = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
        if (element == 4)
            id |= (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        if (id >= file->limit)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: token %llu is %lu, and the vocabulary has %lu; the file is damaged or was made with "
                              "another tokenizer: pack the text again",
                              file->file.path, (unsigned long long)(first + i), (unsigned long)id,
                              (unsigned long)file->limit);
        ids[i] = (int32_t)id;
    }
    return EITP_OK;
}

eitp_status eitp_token_file_read(const eitp_token_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                 eitp_error *error) {
    unsigned char bytes[EITP__TOKEN_READ_BYTES];
    const uint64_t element = (uint64_t)file->info.element_size;
    const uint64_t chunk = sizeof bytes / element;
    eitp__file handle = file->file;
    if (first > file->info.token_count || count > file->info.token_count - first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: %llu tokens from token %llu on were asked for, and it holds %llu: ask for less",
                          file->file.path, (unsigned long long)count, (unsigned long long)first,
                          (unsigned long long)file->info.token_count);
    for (uint64_t done = 0; done < count;) {
        const uint64_t now = count - done < chunk ? count - done : chunk;
        eitp_status status =
            eitp__file_read(&handle, file->offset + (first + done) * element, bytes, (size_t)(now * element), error);
        if (status == EITP_OK)
            status = eitp__token_file_decode(file, bytes, first + done, (size_t)now, ids + done, error);
        if (status != EITP_OK)
            return status;
        done += now;
    }
    return EITP_OK;
}

eitp_status eitp_token_file_verify(const eitp_token_file *file, eitp_error *error) {
    int32_t ids[EITP__TOKEN_VERIFY_IDS];
    uint64_t hash = eitp__token_hash_start();
    for (uint64_t first = 0; first < file->info.token_count;) {
        uint64_t left = file->info.token_count - first;
        uint64_t count = left < EITP__COUNT(ids) ? left : EITP__COUNT(ids);
        eitp_status status = eitp_token_file_read(file, first, count, ids, error);
        if (status != EITP_OK)
            return status;
        hash = eitp__token_hash(hash, ids, (size_t)count);
        first += count;
    }
    if (file->info.kind == EITP_TOKEN_FILE_EITP && hash != file->info.content_hash)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: its tokens are not those that were written (their hash is %016llx, the header says "
                          "%016llx): pack or copy the file again",
                          file->file.path, (unsigned long long)hash, (unsigned long long)file->info.content_hash);
    return EITP_OK;
}
/* <<src/data/token_file.c */

/* >>src/data/windows.c */
/* The training and validation parts of a token file, and their windows. */

static eitp_status eitp__check_block_size(int64_t block_size, eitp_error *error) {
    if (block_size < 1 || block_size >= INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a block size of %lld tokens; give one from 1 to %ld",
                          (long long)block_size, (long)INT32_MAX - 1);
    return EITP_OK;
}

eitp_status eitp_split_tokens(uint64_t token_count, double validation_fraction, int64_t block_size,
                              eitp_token_range *training, eitp_token_range *validation, eitp_error *error) {
    const double fraction = validation_fraction;
    eitp_status status = eitp__check_block_size(block_size, error);
    if (status != EITP_OK)
        return status;
    if (!(fraction >= 0 && fraction < 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a validation fraction of %g; give 0 for no validation, or a number below 1", fraction);
    const uint64_t window = (uint64_t)block_size + 1;
    const uint64_t held_out = (uint64_t)ceil((double)token_count * fraction);
    const uint64_t left = held_out < token_count ? token_count - held_out : 0;
    if (left < window || (fraction > 0 && held_out < window)) {
        const double smaller = fraction > 0 && fraction < 0.5 ? fraction : 1 - fraction;
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%llu tokens, of which %llu for validation, are too few for windows of %llu tokens (block size %lld "
            "and one more) in each part: %.15g tokens would do; take more text, a smaller block size or "
            "another validation fraction",
            (unsigned long long)token_count, (unsigned long long)held_out, (unsigned long long)window,
            (long long)block_size, fraction > 0 ? ceil((double)window / smaller) + 1 : (double)window);
    }
    const uint64_t trained = fraction > 0 ? (left - 1) / (uint64_t)block_size * (uint64_t)block_size + 1 : token_count;
    training->first = 0;
    training->count = trained;
    validation->first = trained;
    validation->count = token_count - trained;
    return EITP_OK;
}

eitp_status eitp_windows_init(eitp_windows *windows, const eitp_token_file *file, eitp_token_range tokens,
                              int64_t block_size, eitp_shuffle shuffle, uint64_t seed, eitp_error *error) {
    const uint64_t token_count = eitp_token_file_get_info(file).token_count;
    eitp_status status = eitp__check_block_size(block_size, error);
    if (status != EITP_OK)
        return status;
    if (tokens.first > token_count || tokens.count > token_count - tokens.first)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT, "windows of %llu tokens from token %llu on, in a file of %llu: ask for less",
            (unsigned long long)tokens.count, (unsigned long long)tokens.first, (unsigned long long)token_count);
    if (tokens.count <= (uint64_t)block_size)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%llu tokens hold no window: a block size of %lld needs at least %lld; take more text or a smaller "
            "block size",
            (unsigned long long)tokens.count, (long long)block_size, (long long)block_size + 1);
    if (shuffle != EITP_SHUFFLE_NONE && shuffle != EITP_SHUFFLE_WINDOWS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%d is no way to shuffle; give EITP_SHUFFLE_NONE or _WINDOWS",
                          (int)shuffle);
    windows->file = file;
    windows->tokens = tokens;
    windows->block_size = block_size;
    windows->shuffle = shuffle;
    windows->seed = seed;
    windows->count = (tokens.count - 1) / (uint64_t)block_size;
    return EITP_OK;
}

uint64_t eitp_windows_index(const eitp_windows *windows, uint64_t sample) {
    const uint64_t epoch = sample / windows->count, position = sample % windows->count;
    if (windows->shuffle == EITP_SHUFFLE_NONE)
        return position;
    return eitp__permute(windows->seed, epoch, windows->count, position);
}

static eitp_status eitp__read_window(const eitp_windows *windows, uint64_t sample, int32_t *tokens, int32_t *targets,
                                     eitp_error *error) {
    const size_t block = (size_t)windows->block_size;
    const uint64_t first = windows->tokens.first + eitp_windows_index(windows, sample) * block;
    eitp_status status = eitp_token_file_read(windows->file, first, block, tokens, error);
    if (status == EITP_OK)
        status = eitp_token_file_read(windows->file, first + block, 1, targets + block - 1, error);
    if (status == EITP_OK)
        memcpy(targets, tokens + 1, (block - 1) * sizeof *targets);
    return status;
}

eitp_status eitp_windows_read(const eitp_windows *windows, uint64_t first, int64_t count, int32_t *tokens,
                              int32_t *targets, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t i = 0; status == EITP_OK && i < count; i++)
        status = eitp__read_window(windows, first + (uint64_t)i, tokens + i * windows->block_size,
                                   targets + i * windows->block_size, error);
    return status;
}
/* <<src/data/windows.c */

/* >>src/data/pack.c */
/* Texts become a token file: read, repair, encode, write. */

typedef struct eitp__packer {
    const eitp_host *host;
    const eitp_pack_config *config;
    eitp_text_files *texts;
    eitp_encoder *encoder;
    eitp__token_writer writer;
    const char *path;         /* of the text being read */
    eitp__utf8_repair repair; /* and its bytes */
} eitp__packer;

static eitp_status eitp__pack_ids(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    return eitp__token_writer_add(&((eitp__packer *)user)->writer, ids, count, error);
}

static eitp_status eitp__pack_utf8(void *user, const char *text, size_t size, eitp_error *error) {
    return eitp_encoder_add(((eitp__packer *)user)->encoder, text, size, error);
}

static eitp_status eitp__pack_progress(const eitp__packer *packer, eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    eitp_pack_progress progress;
    if (!config->progress)
        return EITP_OK;
    progress.path = packer->path;
    progress.text_bytes = packer->writer.info.text_bytes;
    progress.text_bytes_total = eitp_text_files_bytes(packer->texts);
    progress.documents = packer->writer.info.document_count;
    progress.tokens = packer->writer.info.token_count;
    if (config->progress(config->user, &progress))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "packing was stopped in %s; no token file was written",
                          packer->path);
    return EITP_OK;
}

/* With strict_utf8 a replacement is an error; it is seen once the piece that has it went through. */
static eitp_status eitp__pack_check_utf8(const eitp__packer *packer, eitp_error *error) {
    const eitp__utf8_repair *repair = &packer->repair;
    if (!packer->config->strict_utf8 || !repair->invalid_bytes)
        return EITP_OK;
    return eitp__fail(
        error, EITP_ERROR_FORMAT,
        "%s: not UTF-8 at byte %llu (0x%02X); convert the text to UTF-8, or pack it without strict UTF-8 to "
        "have U+FFFD in its place",
        packer->path, (unsigned long long)repair->first_invalid, (unsigned)repair->invalid_byte);
}

/* All pieces of the text that was begun, through repair and encoder. */
static eitp_status eitp__pack_pieces(eitp__packer *packer, eitp_error *error) {
    for (;;) {
        const char *text;
        size_t size = 0;
        eitp_status status = eitp__text_files_piece(packer->texts, &text, &size, error);
        if (status == EITP_OK)
            status = size ? eitp__utf8_repair_add(&packer->repair, text, size, error)
                          : eitp__utf8_repair_finish(&packer->repair, error);
        if (status == EITP_OK)
            status = eitp__pack_check_utf8(packer, error);
        packer->writer.info.text_bytes += size;
        if (status == EITP_OK)
            status = size ? eitp__pack_progress(packer, error) : eitp_encoder_finish(packer->encoder, error);
        if (status != EITP_OK || !size)
            return status;
    }
}

static eitp_status eitp__pack_document(eitp__packer *packer, eitp_error *error) {
    eitp_token_file_info *info = &packer->writer.info;
    const eitp__utf8_repair *repair = &packer->repair;
    eitp__utf8_repair_init(&packer->repair, eitp__pack_utf8, packer);
    info->document_count++;
    eitp_status status = eitp__pack_pieces(packer, error);
    if (status == EITP_OK && info->end_of_text >= 0)
        status = eitp__token_writer_add(&packer->writer, &info->end_of_text, 1, error);
    if (status != EITP_OK || !repair->invalid_bytes)
        return status;
    info->invalid_bytes += repair->invalid_bytes;
    eitp__log(packer->host, EITP_LOG_WARNING,
              "%s: %llu bytes are not UTF-8, the first is byte %llu (0x%02X); U+FFFD took their place", packer->path,
              (unsigned long long)repair->invalid_bytes, (unsigned long long)repair->first_invalid,
              (unsigned)repair->invalid_byte);
    return EITP_OK;
}

/* What would otherwise be found after the work. */
static eitp_status eitp__pack_check_output(const eitp_host *host, const char *path, eitp_error *error) {
    eitp_path_info output = EITP__ZERO;
    eitp_status status = eitp__path_info(host, path, &output, error);
    if (status == EITP_OK && output.kind != EITP_PATH_MISSING && output.kind != EITP_PATH_FILE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: not a file; give the token file another name", path);
    return status;
}

static eitp_status eitp__pack_begin(eitp__packer *packer, const eitp_tokenizer *tokenizer, const char *output_path,
                                    eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    eitp_status status = eitp__pack_check_output(packer->host, output_path, error);
    if (status == EITP_OK)
        status = eitp_text_files_open(packer->host, config->paths, config->path_count, config->read_size,
                                      &packer->texts, error);
    if (status == EITP_OK)
        status = eitp_encoder_create(tokenizer, eitp__pack_ids, packer, &packer->encoder, error);
    if (status == EITP_OK)
        status =
            eitp__token_writer_open(&packer->writer, packer->host, output_path, eitp_tokenizer_size(tokenizer), error);
    packer->writer.info.end_of_text = eitp_tokenizer_end_of_text(tokenizer);
    packer->writer.info.tokenizer_fingerprint = eitp_tokenizer_fingerprint(tokenizer);
    return status;
}

static eitp_status eitp__pack_documents(eitp__packer *packer, eitp_error *error) {
    for (;;) {
        eitp_status status = eitp__text_files_next(packer->texts, &packer->path, error);
        if (status != EITP_OK || !packer->path)
            return status;
        status = eitp__pack_document(packer, error);
        if (status != EITP_OK)
            return status;
    }
}

static eitp_status eitp__pack_finish(eitp__packer *packer, eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    if (!packer->writer.info.token_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s%s: holds no text; name files that are not empty",
                          config->paths[0], config->path_count > 1 ? " and what follows it" : "");
    return eitp__token_writer_finish(&packer->writer, error);
}

eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                      const char *output_path, eitp_token_file_info *info, eitp_error *error) {
    eitp__packer packer;
    memset(&packer, 0, sizeof packer);
    packer.host = host;
    packer.config = config;
    eitp_status status = eitp__pack_begin(&packer, tokenizer, output_path, error);
    if (status == EITP_OK)
        status = eitp__pack_documents(&packer, error);
    if (status == EITP_OK)
        status = eitp__pack_finish(&packer, error);
    if (status == EITP_OK && info)
        *info = packer.writer.info;
    eitp__token_writer_release(&packer.writer);
    eitp_encoder_destroy(packer.encoder);
    eitp_text_files_close(packer.texts);
    return status;
}
/* <<src/data/pack.c */

/* >>src/data/path_walk.c */
EITP__PRIVATE void eitp__path_walk_init(eitp__path_walk *walk, const eitp_host *host, const char *const *paths,
                                        size_t path_count) {
    memset(walk, 0, sizeof *walk);
    walk->host = host;
    walk->paths = paths;
    walk->path_count = path_count;
}

static void eitp__path_walk_leave(eitp__path_walk *walk) {
    eitp__path_walk_level *level = &walk->levels[--walk->depth];
    eitp__buffer_release(&level->names);
    eitp__release_text(walk->host, level->path);
    level->path = NULL;
}

/* Makes the directory in walk->path the one that is gone through. */
static eitp_status eitp__path_walk_enter(eitp__path_walk *walk, eitp_error *error) {
    if (walk->depth == EITP__COUNT(walk->levels))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%s: directories more than %d deep, perhaps by a symbolic link to a parent: remove the link, or "
            "name the files themselves",
            walk->path, (int)EITP__PATH_WALK_DEPTH);
    eitp__path_walk_level *level = &walk->levels[walk->depth++];
    size_t count = 0;
    level->path = walk->path;
    level->next = 0;
    walk->path = NULL;
    eitp__buffer_init(&level->names, walk->host);
    return eitp__list_directory(walk->host, level->path, &level->names, &count, error);
}

/* Puts the next path, whatever it is, in walk->path: NULL where there is none. */
static eitp_status eitp__path_walk_step(eitp__path_walk *walk, eitp_error *error) {
    eitp__release_text(walk->host, walk->path);
    walk->path = NULL;
    while (walk->depth && walk->levels[walk->depth - 1].next == walk->levels[walk->depth - 1].names.size)
        eitp__path_walk_leave(walk);
    if (!walk->depth && walk->next_path == walk->path_count)
        return EITP_OK;
    if (walk->depth) {
        eitp__path_walk_level *level = &walk->levels[walk->depth - 1];
        const char *name = level->names.data + level->next;
        level->next += strlen(name) + 1;
        walk->path = eitp__join_path(walk->host, level->path, name);
        walk->named = 0;
    } else {
        walk->path = eitp__copy_text(walk->host, walk->paths[walk->next_path++]);
        walk->named = 1;
    }
    return walk->path ? EITP_OK : eitp__fail_memory(error, 256, "the path of a file");
}

EITP__PRIVATE eitp_status eitp__path_walk_next(eitp__path_walk *walk, eitp_error *error) {
    for (;;) {
        eitp_path_info info = EITP__ZERO;
        eitp_status status = eitp__path_walk_step(walk, error);
        if (status != EITP_OK || !walk->path)
            return status;
        status = eitp__path_info(walk->host, walk->path, &info, error);
        if (status == EITP_OK && info.kind == EITP_PATH_FILE) {
            walk->size = info.size;
            return EITP_OK;
        }
        if (status == EITP_OK && info.kind == EITP_PATH_DIRECTORY)
            status = eitp__path_walk_enter(walk, error);
        else if (status == EITP_OK && walk->named)
            status =
                eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: %s; name a file or a directory of files", walk->path,
                           info.kind == EITP_PATH_MISSING ? "there is no such file" : "neither a file nor a directory");
        if (status != EITP_OK)
            return status;
    }
}

EITP__PRIVATE void eitp__path_walk_release(eitp__path_walk *walk) {
    while (walk->depth)
        eitp__path_walk_leave(walk);
    eitp__release_text(walk->host, walk->path);
    memset(walk, 0, sizeof *walk);
}
/* <<src/data/path_walk.c */

/* >>src/data/text_files.c */
struct eitp_text_files {
    eitp_host host;
    char **paths;
    size_t path_count;
    eitp__path_walk walk;
    eitp__file file;
    uint64_t offset; /* of the next piece in the file */
    char *piece;
    size_t piece_size;
    size_t first_size; /* of the first piece, which is read to see whether there is text; 0 once it was handed out */
    uint64_t total_bytes;
};

static eitp_status eitp__text_files_copy_paths(eitp_text_files *files, const char *const *paths, size_t path_count,
                                               eitp_error *error) {
    size_t bytes = 0;
    if (eitp__multiply_size(path_count, sizeof *files->paths, &bytes))
        files->paths = (char **)eitp__allocate(&files->host, bytes);
    if (!files->paths)
        return eitp__fail_memory(error, bytes, "the paths of texts");
    files->path_count = path_count;
    for (size_t i = 0; i < path_count; i++) {
        files->paths[i] = eitp__copy_text(&files->host, paths[i]);
        if (!files->paths[i])
            return eitp__fail_memory(error, strlen(paths[i]) + 1, "the path of a text");
    }
    return EITP_OK;
}

/* Goes through all paths once, so that a missing one is found before the work, and its amount is known. */
static eitp_status eitp__text_files_measure(eitp_text_files *files, eitp_error *error) {
    eitp__path_walk walk;
    eitp_status status;
    eitp__path_walk_init(&walk, &files->host, (const char *const *)files->paths, files->path_count);
    do {
        status = eitp__path_walk_next(&walk, error);
        files->total_bytes += status == EITP_OK && walk.path ? walk.size : 0;
    } while (status == EITP_OK && walk.path);
    eitp__path_walk_release(&walk);
    return status;
}

eitp_status eitp_text_files_open(const eitp_host *host, const char *const *paths, size_t path_count, size_t piece_size,
                                 eitp_text_files **out, eitp_error *error) {
    *out = NULL;
    if (!path_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no texts; name text files or directories of them");
    eitp_text_files *files = (eitp_text_files *)eitp__allocate(host, sizeof *files);
    if (!files)
        return eitp__fail_memory(error, sizeof *files, "reading texts");
    files->host = *host;
    files->piece_size = piece_size ? piece_size : 65536;
    if (files->piece_size < EITP__TOKEN_MAGIC_SIZE)
        files->piece_size = EITP__TOKEN_MAGIC_SIZE;
    eitp_status status = eitp__text_files_copy_paths(files, paths, path_count, error);
    eitp__path_walk_init(&files->walk, &files->host, (const char *const *)files->paths, files->path_count);
    if (status == EITP_OK) {
        files->piece = (char *)eitp__allocate_uninitialized(host, files->piece_size);
        status = files->piece ? eitp__text_files_measure(files, error)
                              : eitp__fail_memory(error, files->piece_size, "reading texts");
    }
    if (status != EITP_OK) {
        eitp_text_files_close(files);
        return status;
    }
    *out = files;
    return EITP_OK;
}

void eitp_text_files_close(eitp_text_files *files) {
    if (!files)
        return;
    eitp_host host = files->host;
    eitp__file_close(&files->file, NULL);
    eitp__path_walk_release(&files->walk);
    for (size_t i = 0; i < files->path_count; i++)
        eitp__release_text(&host, files->paths[i]);
    eitp__release(&host, files->paths, files->path_count * sizeof *files->paths);
    eitp__release(&host, files->piece, files->piece_size);
    eitp__release(&host, files, sizeof *files);
}

uint64_t eitp_text_files_bytes(const eitp_text_files *files) {
    return files->total_bytes;
}

/* Opens the file that the walk found and reads its first piece; first_size stays 0 where it is to be left out. */
static eitp_status eitp__text_files_begin(eitp_text_files *files, eitp_error *error) {
    const char *path = files->walk.path;
    size_t size = 0;
    eitp_status status = eitp__file_open(&files->file, &files->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&files->file, 0, files->piece, files->piece_size, &size, error);
    if (status != EITP_OK)
        return status;
    if (size == 0) {
        eitp__log(&files->host, EITP_LOG_WARNING, "%s: empty, left out", path);
        return EITP_OK;
    }
    if (size >= EITP__TOKEN_MAGIC_SIZE && !memcmp(files->piece, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE)) {
        if (files->walk.named)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a token file, not text; name texts", path);
        /* Within a directory it may be the very file that is being written. */
        eitp__log(&files->host, EITP_LOG_INFO, "%s: a token file, not text: left out", path);
        return EITP_OK;
    }
    files->first_size = size;
    files->offset = 0;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error) {
    eitp_status status;
    files->first_size = 0;
    do {
        eitp__file_close(&files->file, NULL);
        status = eitp__path_walk_next(&files->walk, error);
        if (status == EITP_OK && files->walk.path)
            status = eitp__text_files_begin(files, error);
    } while (status == EITP_OK && files->walk.path && !files->first_size);
    if (status != EITP_OK)
        eitp__file_close(&files->file, NULL);
    else
        *path = files->walk.path;
    return status;
}

EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error) {
    size_t done = files->first_size;
    files->first_size = 0;
    if (!done) {
        eitp_status status =
            eitp__file_read_some(&files->file, files->offset, files->piece, files->piece_size, &done, error);
        if (status != EITP_OK)
            return status;
    }
    files->offset += done;
    *text = files->piece;
    *size = done;
    return EITP_OK;
}

static eitp_status eitp__text_files_read(void *user, const char **text, size_t *size, eitp_error *error) {
    eitp_text_files *files = (eitp_text_files *)user;
    const int first = !files->file.host;
    const char *path = NULL;
    eitp_status status = EITP_OK;
    if (!first) {
        status = eitp__text_files_piece(files, text, size, error);
        if (status != EITP_OK || *size)
            return status;
    }
    status = eitp__text_files_next(files, &path, error);
    if (status != EITP_OK)
        return status;
    *size = 0;
    *text = path ? files->piece : NULL;
    return path && first ? eitp__text_files_piece(files, text, size, error) : EITP_OK;
}

eitp_text_source eitp_text_files_source(eitp_text_files *files) {
    eitp_text_source source;
    source.user = files;
    source.read = eitp__text_files_read;
    return source;
}
/* <<src/data/text_files.c */

/* >>src/io/safetensors.c */
/*
 * The file: the size of the header in 8 bytes, little-endian; the header, a JSON object
 *   {"__metadata__": {text: text, ...}, name: {"dtype": text, "shape": [...], "data_offsets": [begin, end]}, ...}
 * perhaps with white space after it; the data, which the offsets count from.
 */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "eitp reads and writes safetensors only where numbers are stored with the lowest byte first"
#endif

/* Values in one member of the header: far more than a tensor has, and enough for 20,000 metadata texts. */
#define EITP__SAFETENSORS_MEMBER_VALUES 65536

/* An index names every tensor of a model; 671 billion parameters need 9 MB. */
#define EITP__SAFETENSORS_LARGEST_INDEX ((size_t)32 << 20)

#define EITP__SAFETENSORS_CHUNK ((size_t)32 << 10)
#define EITP__SAFETENSORS_CHECKED_CHUNK ((size_t)256 << 10) /* stays in the cache for its checksum */

typedef struct eitp__safetensors_part {
    eitp__file file;
    char *header; /* begins with the names of its entries, once it is parsed */
    size_t header_size;
    uint64_t data_start;
    uint64_t data_size;
    eitp__json_document *metadata; /* {"__metadata__": {...}}, or NULL */
} eitp__safetensors_part;

struct eitp__safetensors {
    eitp_host host;
    eitp__safetensors_part **parts;
    size_t part_count;
    size_t part_capacity;
    eitp__safetensors_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
};

static const struct {
    const char *name;
    int dtype;
    unsigned bits;
} eitp__safetensors_types[] = {
    {"F32", EITP_F32, 32}, {"F64", EITP_F64, 64},  {"BF16", EITP_BF16, 16}, {"F16", EITP_F16, 16},
    {"I64", EITP_I64, 64}, {"I32", EITP_I32, 32},  {"I8", EITP_I8, 8},      {"U8", EITP_U8, 8},
    {"I16", -1, 16},       {"BOOL", -1, 8},        {"U16", -1, 16},         {"U32", -1, 32},
    {"U64", -1, 64},       {"C64", -1, 64},        {"F8_E4M3", -1, 8},      {"F8_E5M2", -1, 8},
    {"F8_E8M0", -1, 8},    {"F8_E4M3FNUZ", -1, 8}, {"F8_E5M2FNUZ", -1, 8},  {"F6_E2M3", -1, 6},
    {"F6_E3M2", -1, 6},    {"F4", -1, 4},
};

EITP__PRIVATE const char *eitp__safetensors_type(eitp_dtype dtype) {
    for (size_t i = 0; i < EITP__COUNT(eitp__safetensors_types) && eitp_dtype_size(dtype); i++) {
        if (eitp__safetensors_types[i].dtype == (int)dtype)
            return eitp__safetensors_types[i].name;
    }
    return NULL;
}

/*
 * One entry of the header.
 */

static eitp_status eitp__read_type(const eitp__json *value, eitp__safetensors_entry *entry, unsigned *bits,
                                   eitp_error *error) {
    const char *type = NULL;
    eitp_status status = eitp__json_get_text(value, "dtype", &type, error);
    if (status)
        return status;
    if (!type)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no \"dtype\"");
    entry->dtype = -1;
    snprintf(entry->type, sizeof entry->type, "%s", type);
    for (size_t i = 0; i < EITP__COUNT(eitp__safetensors_types); i++) {
        if (strcmp(eitp__safetensors_types[i].name, type))
            continue;
        entry->dtype = eitp__safetensors_types[i].dtype;
        *bits = eitp__safetensors_types[i].bits;
        entry->element_size = *bits % 8 ? 0 : *bits / 8;
    }
    return EITP_OK;
}

static eitp_status eitp__read_shape(const eitp__json *value, eitp__safetensors_entry *entry, eitp_error *error) {
    const eitp__json *shape = eitp__json_member(value, "shape"), *size;
    if (!shape || shape->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no array \"shape\"");
    if (shape->count > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "it has %llu dimensions, and eitp takes %d at most",
                          (unsigned long long)shape->count, EITP_MAX_RANK);
    entry->count = 1;
    for (size = shape->first_child; size; size = size->next) {
        if (size->kind != EITP__JSON_NUMBER || !size->is_integer || size->integer < 0 ||
            __builtin_mul_overflow(entry->count, size->integer, &entry->count))
            return eitp__fail(error, EITP_ERROR_FORMAT, "its \"shape\" is not of sizes from 0 on, or too large");
        entry->shape[entry->rank++] = size->integer;
    }
    return EITP_OK;
}

/* Where the data is: stores the beginning in entry->offset, counted from the beginning of the data. */
static eitp_status eitp__read_span(const eitp__json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                   eitp_error *error) {
    const eitp__json *offsets = eitp__json_member(value, "data_offsets"), *begin, *end;
    if (!offsets || offsets->kind != EITP__JSON_ARRAY || offsets->count != 2)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no \"data_offsets\" of two numbers");
    begin = offsets->first_child;
    end = begin->next;
    if (begin->kind != EITP__JSON_NUMBER || !begin->is_integer || end->kind != EITP__JSON_NUMBER || !end->is_integer ||
        begin->integer < 0 || end->integer < begin->integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "its \"data_offsets\" are not two numbers in order");
    if ((uint64_t)end->integer > data_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "it ends at byte %lld of the data, and there are %llu; the file is cut short: get it again",
                          (long long)end->integer, (unsigned long long)data_size);
    entry->offset = (uint64_t)begin->integer;
    entry->size = (uint64_t)(end->integer - begin->integer);
    return EITP_OK;
}

static eitp_status eitp__read_entry(const eitp__json *value, uint64_t data_size, eitp__safetensors_entry *entry,
                                    eitp_error *error) {
    unsigned bits = 0;
    uint64_t needed = 0;
    eitp_status status;
    if (value->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it is no object");
    status = eitp__read_type(value, entry, &bits, error);
    if (!status)
        status = eitp__read_shape(value, entry, error);
    if (!status)
        status = eitp__read_span(value, data_size, entry, error);
    if (status || !bits)
        return status;
    if (__builtin_mul_overflow((uint64_t)entry->count, (uint64_t)bits, &needed) || needed % 8 ||
        needed / 8 != entry->size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%lld elements of type %s do not take the %llu bytes it has",
                          (long long)entry->count, entry->type, (unsigned long long)entry->size);
    return EITP_OK;
}

/*
 * The header. It is parsed a member at a time: a tree of the whole would be many times as large as the file is.
 */

typedef struct eitp__header {
    eitp__safetensors_part *part;
    char *text; /* the part's header */
    size_t size;
    size_t at;     /* after the bracket or comma before the next member */
    size_t names;  /* bytes of names at the beginning of `text`; always less than `at` */
    size_t number; /* of the member, from 1 */
} eitp__header;

/* The index of the comma or bracket that ends the member that begins at header->at; the size of the text where there
   is none. What is between may be no JSON at all: that is for the parser to say. */
static size_t eitp__header_member_end(const eitp__header *header, size_t *values) {
    size_t depth = 0, i = header->at;
    int in_text = 0;
    *values = 0;
    for (; i < header->size; i++) {
        char c = header->text[i];
        if (in_text) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_text = 0;
        } else if (c == '"') {
            in_text = 1;
        } else if (c == '{' || c == '[') {
            depth++;
            ++*values;
        } else if (c == ',') {
            if (!depth)
                return i;
            ++*values;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return i;
            depth--;
        }
    }
    return header->size;
}

static int eitp__is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            return 0;
    }
    return 1;
}

/* Moves a name to the beginning of the header's memory, where it stays as long as the part. It was longer in the
   header: nothing that is still to be parsed is overwritten. */
static const char *eitp__header_keep_name(eitp__header *header, const eitp__json *member) {
    char *name = header->text + header->names;
    memcpy(name, member->name, member->name_size);
    name[member->name_size] = 0;
    header->names += member->name_size + 1;
    return name;
}

static eitp_status eitp__read_metadata(eitp__header *header, eitp__json_document *document, eitp_error *error) {
    const eitp__json *texts = eitp__json_root(document)->first_child;
    if (header->part->metadata)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" is there twice");
    if (texts->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" is no object");
    for (const eitp__json *text = texts->first_child; text; text = text->next) {
        if (text->kind != EITP__JSON_STRING)
            return eitp__fail(error, EITP_ERROR_FORMAT, "\"__metadata__\" has '%.100s', which is no string",
                              text->name);
    }
    header->part->metadata = document;
    return EITP_OK;
}

static eitp_status eitp__add_entry(eitp__safetensors *collection, eitp__header *header, const eitp__json *member,
                                   eitp_error *error) {
    eitp__safetensors_entry entry;
    void *entries = collection->entries;
    eitp_status status;
    memset(&entry, 0, sizeof entry);
    if (memchr(member->name, 0, member->name_size))
        return eitp__fail(error, EITP_ERROR_FORMAT, "its name holds the character U+0000");
    status = eitp__read_entry(member, header->part->data_size, &entry, error);
    if (status)
        return eitp__fail_prefix(error, status, "tensor '%.100s'", member->name);
    if (!eitp__reserve(&collection->host, &entries, &collection->entry_capacity, collection->entry_count + 1,
                       sizeof entry))
        return eitp__fail_memory(error, (collection->entry_count + 1) * sizeof entry, "the list of tensors");
    collection->entries = (eitp__safetensors_entry *)entries;
    entry.name = eitp__header_keep_name(header, member);
    entry.part = collection->part_count - 1;
    entry.offset += header->part->data_start;
    collection->entries[collection->entry_count++] = entry;
    return EITP_OK;
}

/* The member at header->at, which ends at `end`. */
static eitp_status eitp__header_read_member(eitp__safetensors *collection, eitp__header *header, size_t end,
                                            eitp_error *error) {
    eitp__json_document *document = NULL;
    const eitp__json *root;
    eitp_status status;
    /* The bytes around a member, a bracket or a comma, have done their work: with brackets it is an object. */
    header->text[header->at - 1] = '{';
    header->text[end] = '}';
    status = eitp__json_parse(&collection->host, header->text + header->at - 1, end - header->at + 2, &document, error);
    if (status)
        return status;
    root = eitp__json_root(document);
    if (!root->count) {
        status = eitp__fail(error, EITP_ERROR_FORMAT, "there is a comma without a tensor after it");
    } else if (root->first_child->name_size == 12 && !memcmp(root->first_child->name, "__metadata__", 12)) {
        status = eitp__read_metadata(header, document, error);
        if (!status)
            return EITP_OK;
    } else {
        status = eitp__add_entry(collection, header, root->first_child, error);
    }
    eitp__json_release(document);
    return status;
}

static eitp_status eitp__header_read(eitp__safetensors *collection, eitp__header *header, eitp_error *error) {
    char closing = ',';
    if (header->text[0] != '{')
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header does not begin with '{'; this is no safetensors file");
    for (header->at = 1, header->number = 1; closing == ','; header->number++) {
        size_t values, end = eitp__header_member_end(header, &values);
        eitp_status status;
        if (end == header->size)
            return eitp__fail(error, EITP_ERROR_FORMAT, "the header ends inside of entry %llu",
                              (unsigned long long)header->number);
        closing = header->text[end];
        if (header->number == 1 && closing == '}' && eitp__is_blank(header->text + 1, end - 1)) {
            header->at = end + 1;
            break;
        }
        if (values > EITP__SAFETENSORS_MEMBER_VALUES)
            return eitp__fail(error, EITP_ERROR_FORMAT, "entry %llu of the header has more than %d values",
                              (unsigned long long)header->number, EITP__SAFETENSORS_MEMBER_VALUES);
        status = eitp__header_read_member(collection, header, end, error);
        if (status)
            return eitp__fail_prefix(error, status, "entry %llu of the header", (unsigned long long)header->number);
        header->at = end + 1;
    }
    if (closing == ']' || !eitp__is_blank(header->text + header->at, header->size - header->at))
        return eitp__fail(error, EITP_ERROR_FORMAT, "the header is no JSON object with only spaces after it");
    return EITP_OK;
}

/*
 * A file.
 */

typedef struct eitp__span {
    uint64_t begin;
    uint64_t end;
    const char *name;
} eitp__span;

static int eitp__compare_spans(const void *left, const void *right) {
    const eitp__span *a = (const eitp__span *)left, *b = (const eitp__span *)right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static eitp_status eitp__check_spans(const eitp__span *spans, size_t count, const eitp__safetensors_part *part,
                                     eitp_error *error) {
    uint64_t covered = part->data_start, end = part->data_start + part->data_size;
    for (size_t i = 0; i < count; i++) {
        if (spans[i].begin < covered)
            return eitp__fail(error, EITP_ERROR_FORMAT, "tensors '%.100s' and '%.100s' overlap", spans[i - 1].name,
                              spans[i].name);
        if (spans[i].begin > covered)
            return eitp__fail(error, EITP_ERROR_FORMAT, "%llu bytes before tensor '%.100s' belong to none",
                              (unsigned long long)(spans[i].begin - covered), spans[i].name);
        covered = spans[i].end;
    }
    if (covered < end)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the last %llu bytes belong to no tensor",
                          (unsigned long long)(end - covered));
    return EITP_OK;
}

/* Refuses tensors from `first` on that do not cover the data of their file exactly. */
static eitp_status eitp__check_cover(const eitp__safetensors *collection, size_t first, eitp_error *error) {
    size_t count = collection->entry_count - first;
    eitp__span *spans = (eitp__span *)eitp__allocate_uninitialized(&collection->host, count * sizeof *spans);
    eitp_status status;
    if (count && !spans)
        return eitp__fail_memory(error, count * sizeof *spans, "the list of tensors");
    for (size_t i = 0; i < count; i++) {
        spans[i].begin = collection->entries[first + i].offset;
        spans[i].end = spans[i].begin + collection->entries[first + i].size;
        spans[i].name = collection->entries[first + i].name;
    }
    eitp__sort(spans, count, sizeof *spans, eitp__compare_spans);
    status = eitp__check_spans(spans, count, collection->parts[collection->part_count - 1], error);
    eitp__release(&collection->host, spans, count * sizeof *spans);
    return status;
}

static int eitp__compare_entries(const void *left, const void *right) {
    const eitp__safetensors_entry *a = (const eitp__safetensors_entry *)left;
    const eitp__safetensors_entry *b = (const eitp__safetensors_entry *)right;
    return strcmp(a->name, b->name);
}

/* Sorts the entries from `first` on by name, and refuses a name that is there twice. */
static eitp_status eitp__sort_entries(eitp__safetensors *collection, size_t first, eitp_error *error) {
    eitp__safetensors_entry *entries = collection->entries;
    if (collection->entry_count == first)
        return EITP_OK;
    eitp__sort(entries + first, collection->entry_count - first, sizeof *entries, eitp__compare_entries);
    for (size_t i = first + 1; i < collection->entry_count; i++) {
        if (!strcmp(entries[i - 1].name, entries[i].name))
            return eitp__fail(error, EITP_ERROR_FORMAT, "tensor '%.100s' is there twice", entries[i].name);
    }
    return EITP_OK;
}

/* Reads the size of the header and the header. */
static eitp_status eitp__load_header(eitp__safetensors *collection, eitp__safetensors_part *part, eitp_error *error) {
    unsigned char bytes[8];
    uint64_t file_size = 0, header_size = 0;
    size_t done = 0;
    eitp_status status = eitp__file_size(&part->file, &file_size, error);
    if (!status)
        status = eitp__file_read_some(&part->file, 0, bytes, sizeof bytes, &done, error);
    if (status)
        return status;
    for (size_t i = done; i-- > 0;)
        header_size = header_size << 8 | bytes[i];
    if (done == sizeof bytes && !memcmp(bytes, "version ", sizeof bytes))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' seems to be a Git LFS pointer; get the file itself with: git lfs pull",
                          part->file.path);
    if (done < sizeof bytes || file_size < sizeof bytes + 2 || header_size < 2 ||
        header_size > file_size - sizeof bytes || header_size > EITP__SAFETENSORS_LARGEST_HEADER)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "'%s' is no safetensors file, or is cut short: %llu bytes with a header of %llu; get it again",
            part->file.path, (unsigned long long)file_size, (unsigned long long)header_size);
    part->header = (char *)eitp__allocate_uninitialized(&collection->host, (size_t)header_size);
    if (!part->header)
        return eitp__fail_memory(error, (size_t)header_size, "the header of a safetensors file");
    part->header_size = (size_t)header_size;
    part->data_start = sizeof bytes + header_size;
    part->data_size = file_size - part->data_start;
    return eitp__file_read(&part->file, sizeof bytes, part->header, part->header_size, error);
}

/* Adds a file and its entries, sorted by name. What is made belongs to the collection, on failure too. */
static eitp_status eitp__add_part(eitp__safetensors *collection, const char *path, eitp_error *error) {
    eitp__safetensors_part *part;
    eitp__header header;
    void *parts = collection->parts;
    size_t first = collection->entry_count;
    eitp_status status;
    if (!eitp__reserve(&collection->host, &parts, &collection->part_capacity, collection->part_count + 1,
                       sizeof *collection->parts))
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts = (eitp__safetensors_part **)parts;
    part = (eitp__safetensors_part *)eitp__allocate(&collection->host, sizeof *part);
    if (!part)
        return eitp__fail_memory(error, sizeof *part, "a safetensors file");
    collection->parts[collection->part_count++] = part;
    status = eitp__file_open(&part->file, &collection->host, path, EITP_FILE_READ, error);
    if (!status)
        status = eitp__load_header(collection, part, error);
    if (status)
        return status;
    memset(&header, 0, sizeof header);
    header.part = part;
    header.text = part->header;
    header.size = part->header_size;
    status = eitp__header_read(collection, &header, error);
    if (!status)
        status = eitp__check_cover(collection, first, error);
    if (!status)
        status = eitp__sort_entries(collection, first, error);
    return status ? eitp__fail_prefix(error, status, "%s", path) : EITP_OK;
}

static eitp_status eitp__new_collection(const eitp_host *host, eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *made = (eitp__safetensors *)eitp__allocate(host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a safetensors file");
    made->host = *host;
    *collection = made;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_open(const eitp_host *host, const char *path,
                                                 eitp__safetensors **collection, eitp_error *error) {
    eitp__safetensors *made = NULL;
    eitp_status status = eitp__new_collection(host, &made, error);
    if (!status)
        status = eitp__add_part(made, path, error);
    if (status)
        eitp__safetensors_close(made);
    else
        *collection = made;
    return status;
}

EITP__PRIVATE void eitp__safetensors_close(eitp__safetensors *collection) {
    eitp_host host;
    if (!collection)
        return;
    host = collection->host;
    for (size_t i = 0; i < collection->part_count; i++) {
        eitp__safetensors_part *part = collection->parts[i];
        eitp__file_close(&part->file, NULL);
        eitp__release(&host, part->header, part->header_size);
        eitp__json_release(part->metadata);
        eitp__release(&host, part, sizeof *part);
    }
    eitp__release(&host, collection->parts, collection->part_capacity * sizeof *collection->parts);
    eitp__release(&host, collection->entries, collection->entry_capacity * sizeof *collection->entries);
    eitp__release(&host, collection, sizeof *collection);
}

/*
 * An index of several files.
 */

typedef struct eitp__weight {
    const char *name;
    const char *file;
} eitp__weight;

static int eitp__compare_weights(const void *left, const void *right) {
    const eitp__weight *a = (const eitp__weight *)left, *b = (const eitp__weight *)right;
    int order = strcmp(a->file, b->file);
    return order ? order : strcmp(a->name, b->name);
}

/* A name without a way out of the index's directory. */
static int eitp__is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") && strcmp(name, "..");
}

static eitp_status eitp__read_weights(const eitp__json *map, eitp__weight *weights, eitp_error *error) {
    size_t count = 0;
    for (const eitp__json *member = map->first_child; member; member = member->next, count++) {
        if (member->kind != EITP__JSON_STRING || memchr(member->text, 0, member->text_size) ||
            !eitp__is_plain_name(member->text))
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %llu: '%.100s' must be in a file of the same directory, given by its name alone",
                              (unsigned long long)member->line, member->name);
        if (memchr(member->name, 0, member->name_size))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: a name holds the character U+0000",
                              (unsigned long long)member->line);
        weights[count].name = member->name;
        weights[count].file = member->text;
    }
    eitp__sort(weights, count, sizeof *weights, eitp__compare_weights);
    return EITP_OK;
}

/* Adds one file, and of its entries those that are in weights[0, count), which all name it. */
static eitp_status eitp__add_weights(eitp__safetensors *collection, const char *directory, const eitp__weight *weights,
                                     size_t count, eitp_error *error) {
    size_t first = collection->entry_count, kept = first;
    char *path = eitp__join_path(&collection->host, directory, weights[0].file);
    eitp_status status;
    if (!path)
        return eitp__fail_memory(error, strlen(directory) + strlen(weights[0].file) + 2, "the name of a file");
    status = eitp__add_part(collection, path, error);
    eitp__release_text(&collection->host, path);
    if (status)
        return status;
    /* Both are sorted by name. */
    for (size_t i = first, next = 0; next < count; i++) {
        int order = i < collection->entry_count ? strcmp(collection->entries[i].name, weights[next].name) : 1;
        if (order > 0)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "tensor '%.100s' is not in '%.100s', where the index says it is; get both again",
                              weights[next].name, weights[next].file);
        if (order < 0)
            continue;
        collection->entries[kept++] = collection->entries[i];
        next++;
    }
    collection->entry_count = kept;
    return EITP_OK;
}

static eitp_status eitp__add_weight_map(eitp__safetensors *collection, const char *directory, const eitp__json *map,
                                        eitp_error *error) {
    size_t bytes = map->count * sizeof(eitp__weight);
    eitp__weight *weights = (eitp__weight *)eitp__allocate_uninitialized(&collection->host, bytes);
    eitp_status status;
    if (bytes && !weights)
        return eitp__fail_memory(error, bytes, "the list of tensors");
    status = eitp__read_weights(map, weights, error);
    for (size_t begin = 0, end = 0; begin < map->count && !status; begin = end) {
        while (end < map->count && !strcmp(weights[begin].file, weights[end].file))
            end++;
        status = eitp__add_weights(collection, directory, weights + begin, end - begin, error);
    }
    eitp__release(&collection->host, weights, bytes);
    return status ? status : eitp__sort_entries(collection, 0, error);
}

/* The directory part of a path, with its slash; empty where there is none. */
static char *eitp__copy_directory(const eitp_host *host, const char *path) {
    const char *slash = strrchr(path, '/');
    return eitp__copy_bytes(host, path, slash ? (size_t)(slash - path) + 1 : 0);
}

EITP__PRIVATE eitp_status eitp__safetensors_open_index(const eitp_host *host, const char *path,
                                                       eitp__safetensors **collection, eitp_error *error) {
    eitp__json_document *index = NULL;
    eitp__safetensors *made = NULL;
    const eitp__json *map;
    char *directory;
    eitp_status status = eitp__json_read_file(host, path, EITP__SAFETENSORS_LARGEST_INDEX, &index, error);
    if (status)
        return status;
    directory = eitp__copy_directory(host, path);
    map = eitp__json_member(eitp__json_root(index), "weight_map");
    if (!directory)
        status = eitp__fail_memory(error, strlen(path) + 1, "the name of a directory");
    else if (!map || map->kind != EITP__JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "it has no object \"weight_map\"; this is no safetensors index");
    else
        status = eitp__new_collection(host, &made, error);
    if (!status)
        status = eitp__add_weight_map(made, directory, map, error);
    eitp__release_text(host, directory);
    eitp__json_release(index);
    if (status) {
        eitp__safetensors_close(made);
        return eitp__fail_prefix(error, status, "%s", path);
    }
    *collection = made;
    return EITP_OK;
}

/*
 * Looking up and reading.
 */

EITP__PRIVATE size_t eitp__safetensors_count(const eitp__safetensors *collection) {
    return collection->entry_count;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_at(const eitp__safetensors *collection, size_t index) {
    return index < collection->entry_count ? &collection->entries[index] : NULL;
}

EITP__PRIVATE const eitp__safetensors_entry *eitp__safetensors_find(const eitp__safetensors *collection,
                                                                    const char *name) {
    size_t low = 0, high = collection->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(collection->entries[middle].name, name);
        if (!order)
            return &collection->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

EITP__PRIVATE const char *eitp__safetensors_path(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry) {
    return collection->parts[entry->part]->file.path;
}

EITP__PRIVATE const char *eitp__safetensors_metadata(const eitp__safetensors *collection, const char *key) {
    for (size_t i = 0; i < collection->part_count; i++) {
        const eitp__json_document *document = collection->parts[i]->metadata;
        const eitp__json *text = document ? eitp__json_member(eitp__json_root(document)->first_child, key) : NULL;
        if (text)
            return text->text;
    }
    return NULL;
}

/* Checks a range of elements and stores its place in the file. */
static eitp_status eitp__locate(const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                int64_t first, int64_t count, uint64_t *offset, size_t *size, eitp_error *error) {
    const char *path = eitp__safetensors_path(collection, entry);
    if (!entry->element_size)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has type %s, which cannot be read; convert it to F32, F16 or BF16", path,
                          entry->name, entry->type);
    if (first < 0 || count < 0 || count > entry->count || first > entry->count - count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: tensor '%.100s' has %lld elements; %lld from %lld on were asked for", path, entry->name,
                          (long long)entry->count, (long long)count, (long long)first);
    /* The whole tensor is in a file: its size in bytes is known not to overflow 64 bits. */
    *offset = entry->offset + (uint64_t)first * entry->element_size;
    if ((uint64_t)count > SIZE_MAX / entry->element_size)
        return eitp__fail_memory(error, SIZE_MAX, entry->name);
    *size = (size_t)count * entry->element_size;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_read(const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                 void *destination, uint32_t *crc, eitp_error *error) {
    eitp__file *file = &collection->parts[entry->part]->file;
    unsigned char *bytes = (unsigned char *)destination;
    uint64_t offset = 0;
    size_t size = 0;
    eitp_status status = eitp__locate(collection, entry, first, count, &offset, &size, error);
    while (!status && size) {
        size_t part = crc && size > EITP__SAFETENSORS_CHECKED_CHUNK ? EITP__SAFETENSORS_CHECKED_CHUNK : size;
        status = eitp__file_read(file, offset, bytes, part, error);
        if (!status && crc)
            *crc = eitp__crc32c(*crc, bytes, part);
        bytes += part;
        offset += part;
        size -= part;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__safetensors_read_f32(const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, int64_t first, int64_t count,
                                                     float *destination, uint32_t *crc, eitp_error *error) {
    unsigned char chunk[EITP__SAFETENSORS_CHUNK];
    int64_t most;
    uint64_t offset;
    size_t size;
    eitp_status status;
    if (entry->dtype == EITP_F32)
        return eitp__safetensors_read(collection, entry, first, count, destination, crc, error);
    if (entry->dtype < 0 || !eitp__is_floating((eitp_dtype)entry->dtype))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has type %s where F32, F64, F16 or BF16 is needed",
                          eitp__safetensors_path(collection, entry), entry->name, entry->type);
    /* The range is refused before anything is stored. */
    status = eitp__locate(collection, entry, first, count, &offset, &size, error);
    if (status)
        return status;
    most = (int64_t)(sizeof chunk / entry->element_size);
    while (count) {
        int64_t part = count > most ? most : count;
        status = eitp__safetensors_read(collection, entry, first, part, chunk, crc, error);
        if (status)
            return status;
        eitp__convert_to_f32((eitp_dtype)entry->dtype, chunk, destination, (size_t)part);
        destination += part;
        first += part;
        count -= part;
    }
    return EITP_OK;
}
/* <<src/io/safetensors.c */

/* >>src/io/safetensors_writer.c */
#define EITP__SAFETENSORS_WRITE_CHUNK ((size_t)32 << 10)

/* A tensor of a file that is being written. */
typedef struct eitp__safetensors_slot {
    eitp_dtype dtype;
    size_t element_size;
    int64_t count;   /* elements */
    int64_t written; /* of them */
    uint64_t offset; /* from the beginning of the data, then of the file */
    size_t name;     /* where its name is in the writer's names */
} eitp__safetensors_slot;

struct eitp__safetensors_writer {
    eitp_host host;
    eitp__file file;
    char *path;
    char *temporary;
    char *directory;
    eitp__buffer names;
    eitp__safetensors_slot *slots; /* in the caller's order */
    size_t count;
};

/* Where a tensor of the caller's list is in another order. */
typedef struct eitp__safetensors_rank {
    const eitp__safetensors_tensor *tensor;
    size_t index;
} eitp__safetensors_rank;

static int eitp__compare_tensor_names(const void *left, const void *right) {
    const eitp__safetensors_rank *a = (const eitp__safetensors_rank *)left;
    const eitp__safetensors_rank *b = (const eitp__safetensors_rank *)right;
    return strcmp(a->tensor->name, b->tensor->name);
}

/* Wide elements first; the caller's order where they are equally wide. */
static int eitp__compare_tensor_widths(const void *left, const void *right) {
    const eitp__safetensors_rank *a = (const eitp__safetensors_rank *)left;
    const eitp__safetensors_rank *b = (const eitp__safetensors_rank *)right;
    size_t wide = eitp_dtype_size(a->tensor->dtype), other = eitp_dtype_size(b->tensor->dtype);
    if (wide != other)
        return wide > other ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static eitp_status eitp__check_tensor(const eitp__safetensors_tensor *tensor, int64_t *count, eitp_error *error) {
    size_t length = strlen(tensor->name);
    int64_t bytes;
    if (!strcmp(tensor->name, "__metadata__") ||
        eitp__utf8_valid_prefix((const unsigned char *)tensor->name, length) != length)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no tensor can be called '%.100s'; give it another name",
                          tensor->name);
    if (!eitp_dtype_size(tensor->dtype) || tensor->rank < 0 || tensor->rank > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' has no valid dtype or rank (%d and %d)",
                          tensor->name, (int)tensor->dtype, tensor->rank);
    *count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(*count, tensor->shape[i], count))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' has a size below 0, or is too large",
                              tensor->name);
    }
    if (__builtin_mul_overflow(*count, (int64_t)eitp_dtype_size(tensor->dtype), &bytes))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "tensor '%.100s' is too large", tensor->name);
    return EITP_OK;
}

/* Fills in the slots and their names; refuses a name that is there twice. */
static eitp_status eitp__make_slots(eitp__safetensors_writer *writer, const eitp__safetensors_tensor *tensors,
                                    eitp__safetensors_rank *order, eitp_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        eitp__safetensors_slot *slot = &writer->slots[i];
        eitp_status status = eitp__check_tensor(&tensors[i], &slot->count, error);
        if (status)
            return status;
        slot->dtype = tensors[i].dtype;
        slot->element_size = eitp_dtype_size(slot->dtype);
        slot->name = writer->names.size;
        eitp__buffer_add(&writer->names, tensors[i].name, strlen(tensors[i].name) + 1);
        order[i].tensor = &tensors[i];
        order[i].index = i;
    }
    if (writer->names.failed)
        return eitp__fail_memory(error, writer->names.size, "the names of tensors");
    eitp__sort(order, writer->count, sizeof *order, eitp__compare_tensor_names);
    for (size_t i = 1; i < writer->count; i++) {
        if (!eitp__compare_tensor_names(&order[i - 1], &order[i]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "two tensors are called '%.100s'; rename one",
                              order[i].tensor->name);
    }
    return EITP_OK;
}

/* Lays the data out, in `order`. */
static eitp_status eitp__place_slots(eitp__safetensors_writer *writer, eitp__safetensors_rank *order,
                                     eitp_error *error) {
    int64_t end = 0;
    eitp__sort(order, writer->count, sizeof *order, eitp__compare_tensor_widths);
    for (size_t i = 0; i < writer->count; i++) {
        eitp__safetensors_slot *slot = &writer->slots[order[i].index];
        slot->offset = (uint64_t)end;
        if (__builtin_add_overflow(end, slot->count * (int64_t)slot->element_size, &end))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the tensors are too large for one file");
    }
    return EITP_OK;
}

static void eitp__add_metadata(eitp__buffer *header, const eitp__safetensors_text *metadata, size_t count) {
    eitp__buffer_add_text(header, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (i)
            eitp__buffer_add_text(header, ",");
        eitp__json_write_text(header, metadata[i].key, strlen(metadata[i].key));
        eitp__buffer_add_text(header, ":");
        eitp__json_write_text(header, metadata[i].value, strlen(metadata[i].value));
    }
    eitp__buffer_add_text(header, "}");
}

static void eitp__add_tensor(eitp__buffer *header, const eitp__safetensors_tensor *tensor,
                             const eitp__safetensors_slot *slot) {
    uint64_t end = slot->offset + (uint64_t)slot->count * slot->element_size;
    eitp__json_write_text(header, tensor->name, strlen(tensor->name));
    eitp__buffer_format(header, ":{\"dtype\":\"%s\",\"shape\":[", eitp__safetensors_type(tensor->dtype));
    for (int i = 0; i < tensor->rank; i++)
        eitp__buffer_format(header, i ? ",%lld" : "%lld", (long long)tensor->shape[i]);
    eitp__buffer_format(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)slot->offset,
                        (unsigned long long)end);
}

/* The first part of the file: the header and its size before it. */
static eitp_status eitp__make_header(eitp__safetensors_writer *writer, const eitp__safetensors_rank *order,
                                     const eitp__safetensors_text *metadata, size_t metadata_count,
                                     eitp__buffer *header, eitp_error *error) {
    uint64_t size;
    eitp__buffer_add(header, "\0\0\0\0\0\0\0", 8);
    eitp__buffer_add_text(header, "{");
    if (metadata_count)
        eitp__add_metadata(header, metadata, metadata_count);
    for (size_t i = 0; i < writer->count; i++) {
        if (i || metadata_count)
            eitp__buffer_add_text(header, ",");
        eitp__add_tensor(header, order[i].tensor, &writer->slots[order[i].index]);
    }
    eitp__buffer_add_text(header, "}");
    while (!header->failed && header->size % EITP__ALIGNMENT)
        eitp__buffer_add(header, " ", 1);
    if (header->failed)
        return eitp__fail_memory(error, header->size, "the header of a safetensors file");
    size = header->size - 8;
    if (size > EITP__SAFETENSORS_LARGEST_HEADER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the names of the tensors and the metadata take %llu bytes, and %llu are allowed",
                          (unsigned long long)size, (unsigned long long)EITP__SAFETENSORS_LARGEST_HEADER);
    for (size_t i = 0; i < 8; i++)
        header->data[i] = (char)(size >> (8 * i) & 255);
    for (size_t i = 0; i < writer->count; i++)
        writer->slots[i].offset += header->size;
    return EITP_OK;
}

/* Lays the file out and writes its header. */
static eitp_status eitp__begin_file(eitp__safetensors_writer *writer, const eitp__safetensors_tensor *tensors,
                                    const eitp__safetensors_text *metadata, size_t metadata_count,
                                    eitp__safetensors_rank *order, eitp_error *error) {
    eitp__buffer header;
    eitp_status status = eitp__make_slots(writer, tensors, order, error);
    eitp__buffer_init(&header, &writer->host);
    if (!status)
        status = eitp__place_slots(writer, order, error);
    if (!status)
        status = eitp__make_header(writer, order, metadata, metadata_count, &header, error);
    if (!status)
        status = eitp__file_open(&writer->file, &writer->host, writer->temporary, EITP_FILE_REPLACE, error);
    if (!status)
        status = eitp__file_write(&writer->file, 0, header.data, header.size, error);
    eitp__buffer_release(&header);
    return status;
}

/* Stores the names of the file, of the one it is written to and of their directory; 0 where memory runs out. */
static int eitp__copy_paths(eitp__safetensors_writer *writer, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path), directory = slash ? (size_t)(slash - path) : 0;
    writer->path = eitp__copy_text(&writer->host, path);
    if (!writer->path)
        return 0;
    writer->temporary = (char *)eitp__allocate_uninitialized(&writer->host, length + sizeof ".tmp");
    if (slash)
        writer->directory = eitp__copy_bytes(&writer->host, path, directory ? directory : 1);
    else
        writer->directory = eitp__copy_text(&writer->host, ".");
    if (!writer->temporary || !writer->directory)
        return 0;
    memcpy(writer->temporary, path, length);
    memcpy(writer->temporary + length, ".tmp", sizeof ".tmp");
    return 1;
}

static void eitp__release_writer(eitp__safetensors_writer *writer) {
    eitp_host host = writer->host;
    size_t length = writer->path ? strlen(writer->path) : 0;
    eitp__file_close(&writer->file, NULL);
    eitp__release(&host, writer->temporary, length + sizeof ".tmp");
    eitp__release_text(&host, writer->directory);
    eitp__release_text(&host, writer->path);
    eitp__buffer_release(&writer->names);
    eitp__release(&host, writer->slots, writer->count * sizeof *writer->slots);
    eitp__release(&host, writer, sizeof *writer);
}

EITP__PRIVATE void eitp__safetensors_abandon(eitp__safetensors_writer *writer) {
    if (!writer)
        return;
    if (writer->file.host) {
        eitp__file_close(&writer->file, NULL);
        writer->host.files.remove(writer->host.files.user, writer->temporary);
    }
    eitp__release_writer(writer);
}

EITP__PRIVATE eitp_status eitp__safetensors_begin(const eitp_host *host, const char *path,
                                                  const eitp__safetensors_tensor *tensors, size_t count,
                                                  const eitp__safetensors_text *metadata, size_t metadata_count,
                                                  eitp__safetensors_writer **writer, eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t bytes = count * sizeof(eitp__safetensors_rank);
    eitp__safetensors_rank *order = (eitp__safetensors_rank *)eitp__allocate_uninitialized(host, bytes);
    eitp__safetensors_writer *made = (eitp__safetensors_writer *)eitp__allocate(host, sizeof *made);
    if (made) {
        made->host = *host;
        made->count = count;
        eitp__buffer_init(&made->names, &made->host);
        made->slots = (eitp__safetensors_slot *)eitp__allocate(host, count * sizeof *made->slots);
    }
    if (!made || !eitp__copy_paths(made, path) || (count && (!order || !made->slots)))
        status = eitp__fail_memory(error, bytes + count * sizeof *made->slots, "the list of tensors to write");
    else
        status = eitp__begin_file(made, tensors, metadata, metadata_count, order, error);
    eitp__release(host, order, bytes);
    if (status)
        eitp__safetensors_abandon(made);
    else
        *writer = made;
    return status;
}

/* Refuses elements that the tensor has no room for. */
static eitp_status eitp__check_room(const eitp__safetensors_writer *writer, size_t index, int64_t count,
                                    eitp_error *error) {
    const eitp__safetensors_slot *slot;
    if (index >= writer->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' has %llu tensors; there is no tensor %llu", writer->path,
                          (unsigned long long)writer->count, (unsigned long long)index);
    slot = &writer->slots[index];
    if (count < 0 || count > slot->count - slot->written)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "'%s': tensor '%.100s' has %lld elements, of which %lld are written; there is no room for %lld",
            writer->path, writer->names.data + slot->name, (long long)slot->count, (long long)slot->written,
            (long long)count);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_write(eitp__safetensors_writer *writer, size_t index, const void *data,
                                                  int64_t count, uint32_t *crc, eitp_error *error) {
    eitp__safetensors_slot *slot;
    size_t size;
    eitp_status status = eitp__check_room(writer, index, count, error);
    if (status)
        return status;
    slot = &writer->slots[index];
    /* It is in memory: its size cannot overflow. */
    size = (size_t)count * slot->element_size;
    status =
        eitp__file_write(&writer->file, slot->offset + (uint64_t)slot->written * slot->element_size, data, size, error);
    if (status)
        return status;
    slot->written += count;
    if (crc)
        *crc = eitp__crc32c(*crc, data, size);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_write_f32(eitp__safetensors_writer *writer, size_t index, const float *data,
                                                      int64_t count, uint32_t *crc, eitp_error *error) {
    unsigned char chunk[EITP__SAFETENSORS_WRITE_CHUNK];
    const eitp__safetensors_slot *slot;
    int64_t most;
    eitp_status status = eitp__check_room(writer, index, count, error);
    if (status)
        return status;
    slot = &writer->slots[index];
    if (slot->dtype == EITP_F32)
        return eitp__safetensors_write(writer, index, data, count, crc, error);
    if (!eitp__is_floating(slot->dtype))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s': tensor '%.100s' has dtype %s, which f32 does not become",
                          writer->path, writer->names.data + slot->name, eitp_dtype_name(slot->dtype));
    most = (int64_t)(sizeof chunk / slot->element_size);
    while (count) {
        int64_t part = count > most ? most : count;
        eitp__convert_from_f32(slot->dtype, data, chunk, (size_t)part);
        status = eitp__safetensors_write(writer, index, chunk, part, crc, error);
        if (status)
            return status;
        data += part;
        count -= part;
    }
    return EITP_OK;
}

static eitp_status eitp__check_whole(const eitp__safetensors_writer *writer, eitp_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        const eitp__safetensors_slot *slot = &writer->slots[i];
        if (slot->written < slot->count)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' is not whole: of tensor '%.100s', %lld of %lld elements are written", writer->path,
                              writer->names.data + slot->name, (long long)slot->written, (long long)slot->count);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__safetensors_finish(eitp__safetensors_writer *writer, eitp_error *error) {
    eitp_status status = eitp__check_whole(writer, error);
    if (!status)
        status = eitp__file_sync(&writer->file, error);
    if (status) {
        eitp__safetensors_abandon(writer);
        return status;
    }
    status = eitp__file_close(&writer->file, error);
    if (!status)
        status = eitp__rename_path(&writer->host, writer->temporary, writer->path, error);
    if (status)
        writer->host.files.remove(writer->host.files.user, writer->temporary);
    else
        status = eitp__sync_directory(&writer->host, writer->directory, error);
    eitp__release_writer(writer);
    return status;
}
/* <<src/io/safetensors_writer.c */

/* >>src/io/variables.c */
/* Variables to and from safetensors files, through a small buffer: never a second copy. */

/* Bytes moved at a time. */
#define EITP__MOVE_BYTES ((size_t)1 << 18)

static int64_t eitp__variable_elements(const eitp_variable *variable) {
    return (int64_t)(variable->size / eitp_dtype_size(variable->dtype));
}

EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, uint32_t *checksum,
                                                    eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    int64_t elements = eitp__variable_elements(variable), piece;
    size_t element = eitp_dtype_size(variable->dtype);
    eitp_status status = EITP_OK;
    void *buffer;
    if (entry->rank != variable->rank ||
        memcmp(entry->shape, variable->shape, (size_t)entry->rank * sizeof *entry->shape))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: tensor '%s' has another shape than the model; check that config.json and weights belong "
                          "together",
                          eitp__safetensors_path(collection, entry), entry->name);
    buffer = eitp__allocate_uninitialized(&host, EITP__MOVE_BYTES);
    if (!buffer)
        return eitp__fail_memory(error, EITP__MOVE_BYTES, "reading weights");
    piece = (int64_t)(EITP__MOVE_BYTES / element);
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        status = variable->dtype == EITP_F32
                     ? eitp__safetensors_read_f32(collection, entry, first, count, (float *)buffer, checksum, error)
                 : (int)variable->dtype == entry->dtype
                     ? eitp__safetensors_read(collection, entry, first, count, buffer, checksum, error)
                     : eitp__fail(error, EITP_ERROR_FORMAT, "%s: tensor '%s' is %s; %s is needed",
                                  eitp__safetensors_path(collection, entry), entry->name, entry->type,
                                  eitp_dtype_name(variable->dtype));
        if (!status)
            status = eitp_variable_write(context, variable->name, (size_t)first * element, buffer,
                                         (size_t)count * element, error);
    }
    eitp__release(&host, buffer, EITP__MOVE_BYTES);
    return status;
}

/* The variables of a role, as the tensors of a file. */
static eitp_status eitp__list_role(eitp_context *context, eitp_role role, eitp_dtype dtype,
                                   eitp__safetensors_tensor **tensors, size_t *count, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    size_t variables = eitp_variable_count(context);
    *count = 0;
    *tensors = (eitp__safetensors_tensor *)eitp__allocate(&host, (variables + 1) * sizeof **tensors);
    if (!*tensors)
        return eitp__fail_memory(error, (variables + 1) * sizeof **tensors, "the list of tensors");
    for (size_t i = 0; i < variables; i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        eitp__safetensors_tensor *tensor = &(*tensors)[*count];
        if (variable.role != role)
            continue;
        tensor->name = variable.name;
        tensor->dtype = variable.dtype == EITP_F32 ? dtype : variable.dtype;
        tensor->rank = variable.rank;
        memcpy(tensor->shape, variable.shape, sizeof tensor->shape);
        ++*count;
    }
    return EITP_OK;
}

static eitp_status eitp__variable_write_entry(eitp_context *context, eitp__safetensors_writer *writer, size_t index,
                                              const char *name, void *buffer, uint32_t *checksum, eitp_error *error) {
    eitp_variable variable = eitp_variable_at(context, (size_t)eitp_variable_find(context, name));
    int64_t elements = eitp__variable_elements(&variable), piece;
    size_t element = eitp_dtype_size(variable.dtype);
    eitp_status status = EITP_OK;
    piece = (int64_t)(EITP__MOVE_BYTES / element);
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        status = eitp_variable_read(context, name, (size_t)first * element, buffer, (size_t)count * element, error);
        if (!status)
            status = variable.dtype == EITP_F32
                         ? eitp__safetensors_write_f32(writer, index, (const float *)buffer, count, checksum, error)
                         : eitp__safetensors_write(writer, index, buffer, count, checksum, error);
    }
    return status;
}

eitp_status eitp_variables_save(eitp_context *context, const char *path, eitp_role role, eitp_dtype dtype,
                                uint32_t *checksum, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    const eitp__safetensors_text metadata = {"format", "pt"};
    eitp__safetensors_writer *writer = NULL;
    eitp__safetensors_tensor *tensors;
    size_t count, listed = (eitp_variable_count(context) + 1) * sizeof *tensors;
    uint32_t sum = 0;
    void *buffer = NULL;
    eitp_status status = eitp__list_role(context, role, dtype, &tensors, &count, error);
    if (status)
        return status;
    buffer = eitp__allocate_uninitialized(&host, EITP__MOVE_BYTES);
    if (!buffer)
        status = eitp__fail_memory(error, EITP__MOVE_BYTES, "writing weights");
    if (!status)
        status = eitp__safetensors_begin(&host, path, tensors, count, &metadata, 1, &writer, error);
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__variable_write_entry(context, writer, i, tensors[i].name, buffer, &sum, error);
    if (status)
        eitp__safetensors_abandon(writer);
    else
        status = eitp__safetensors_finish(writer, error);
    eitp__release(&host, buffer, EITP__MOVE_BYTES);
    eitp__release(&host, tensors, listed);
    if (!status && checksum)
        *checksum = sum;
    return status;
}

eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    eitp__safetensors *collection;
    size_t count = 0;
    uint32_t sum = 0;
    eitp_status status = eitp__safetensors_open(&host, path, &collection, error);
    if (status)
        return status;
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        const eitp__safetensors_entry *entry;
        if (variable.role != role)
            continue;
        entry = eitp__safetensors_find(collection, variable.name);
        status = entry ? eitp__variable_read_entry(context, &variable, collection, entry, &sum, error)
                       : eitp__fail(error, EITP_ERROR_FORMAT, "%s: there is no tensor '%s'", path, variable.name);
        count++;
    }
    if (!status && count != eitp__safetensors_count(collection))
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "%s has %zu tensors, but %zu are expected; is it of another model?",
                       path, eitp__safetensors_count(collection), count);
    eitp__safetensors_close(collection);
    if (!status && checksum)
        *checksum = sum;
    return status;
}
/* <<src/io/variables.c */

/* >>src/io/model_directory.c */
/* Hugging Face model directories. */

/* Joins directory and name, or fails for want of memory. */
static eitp_status eitp__path_in(const eitp_host *host, const char *directory, const char *name, char **path,
                                 eitp_error *error) {
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
}

static eitp_status eitp__is_file(const eitp_host *host, const char *path, int *is_file, eitp_error *error) {
    eitp_path_info info;
    eitp_status status = eitp__path_info(host, path, &info, error);
    *is_file = !status && info.kind == EITP_PATH_FILE;
    return status;
}

/* Opens model.safetensors, or else the index of shards. */
static eitp_status eitp__open_weights(const eitp_host *host, const char *directory, eitp__safetensors **collection,
                                      eitp_error *error) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    *collection = NULL;
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char *path;
        int is_file;
        eitp_status status = eitp__path_in(host, directory, names[i], &path, error);
        if (status)
            return status;
        status = eitp__is_file(host, path, &is_file, error);
        if (!status && is_file)
            status = i ? eitp__safetensors_open_index(host, path, collection, error)
                       : eitp__safetensors_open(host, path, collection, error);
        eitp__release_text(host, path);
        if (status || is_file)
            return status;
    }
    return eitp__fail(
        error, EITP_ERROR_ARGUMENT,
        "'%s' has no model.safetensors and no model.safetensors.index.json; weights in other formats must be "
        "converted to safetensors",
        directory);
}

/* The tensor of a parameter: by its whole name, or without the prefix that a bare GPT2Model does not write. */
static const eitp__safetensors_entry *eitp__find_weights(const eitp__safetensors *collection, const char *name) {
    static const char prefix[] = "transformer.";
    const eitp__safetensors_entry *entry = eitp__safetensors_find(collection, name);
    if (!entry && !strncmp(name, prefix, sizeof prefix - 1))
        entry = eitp__safetensors_find(collection, name + sizeof prefix - 1);
    return entry;
}

static eitp_status eitp__load_weights(eitp_model *model, const char *directory, eitp_error *error) {
    eitp__safetensors *collection;
    int64_t count = eitp__gpt2_parameter_count(&model->config);
    size_t stored;
    eitp_status status = eitp__open_weights(&model->host, directory, &collection, error);
    if (status)
        return status;
    for (int64_t i = 0; i < count && !status; i++) {
        eitp__parameter parameter = eitp__gpt2_parameter(&model->config, i);
        eitp_variable variable =
            eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, parameter.name));
        const eitp__safetensors_entry *entry = eitp__find_weights(collection, parameter.name);
        status = entry ? eitp__variable_read_entry(model->context, &variable, collection, entry, NULL, error)
                       : eitp__fail(error, EITP_ERROR_FORMAT,
                                    "the weights in '%s' have no tensor '%s', which config.json asks for", directory,
                                    parameter.name);
    }
    stored = eitp__safetensors_count(collection);
    if (!status && stored > (size_t)count)
        eitp__log(&model->host, EITP_LOG_INFO, "%zu tensors in '%s' are no weights of the model and were left out",
                  stored - (size_t)count, directory);
    eitp__safetensors_close(collection);
    return status;
}

eitp_status eitp_model_load(eitp_context *context, const char *directory, eitp_model **model, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    eitp_gpt2_config config;
    eitp_model *made = NULL;
    char *path;
    eitp_status status = eitp__path_in(&host, directory, "config.json", &path, error);
    *model = NULL;
    if (status)
        return status;
    status = eitp_gpt2_config_read(&host, path, &config, error);
    eitp__release_text(&host, path);
    if (!status)
        status = eitp_gpt2_create(context, &config, &made, error);
    if (!status)
        status = eitp__load_weights(made, directory, error);
    if (status) {
        eitp_model_destroy(made);
        return status;
    }
    *model = made;
    return EITP_OK;
}

eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_dtype dtype, int32_t end_of_text,
                            uint32_t *checksum, eitp_error *error) {
    char *path;
    eitp_status status = eitp__path_in(&model->host, directory, "config.json", &path, error);
    if (status)
        return status;
    status = eitp_gpt2_config_write(&model->host, path, &model->config, end_of_text, dtype, error);
    eitp__release_text(&model->host, path);
    if (!status)
        status = eitp__path_in(&model->host, directory, "model.safetensors", &path, error);
    if (status)
        return status;
    status = eitp_variables_save(model->context, path, EITP_PARAMETER, dtype, checksum, error);
    eitp__release_text(&model->host, path);
    return status;
}
/* <<src/io/model_directory.c */

/* >>src/io/checkpoint.c */
/* Checkpoint directories: made whole or not at all, found by step, pruned. */

/* Directories being written, and ones replaced by a newer write of the same step. */
#define EITP__PARTIAL_PREFIX ".checkpoint-"
#define EITP__PREFIX_LENGTH (sizeof "checkpoint-" - 1)

/* The step of a name "checkpoint-<step>", or -1: only digits, none leading that is 0, no overflow. */
static int64_t eitp__checkpoint_step(const char *name) {
    int64_t step = 0;
    const char *digits = name + EITP__PREFIX_LENGTH;
    if (strncmp(name, "checkpoint-", EITP__PREFIX_LENGTH) || !*digits || (*digits == '0' && digits[1]))
        return -1;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || step > (INT64_MAX - 9) / 10)
            return -1;
        step = step * 10 + (*digits - '0');
    }
    return step;
}

static eitp_status eitp__checkpoint_path(const eitp_host *host, const char *directory, const char *prefix, int64_t step,
                                         const char *suffix, char **path, eitp_error *error) {
    char name[64];
    snprintf(name, sizeof name, "%s%lld%s", prefix, (long long)step, suffix);
    *path = eitp__join_path(host, directory, name);
    return *path ? EITP_OK : eitp__fail_memory(error, strlen(directory) + sizeof name, "a path");
}

/* Gives the finished directory its name; what has that name makes way first and is removed last. */
static eitp_status eitp__install(const eitp_host *host, const char *directory, const char *partial, const char *final,
                                 const char *replaced, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    int exists;
    eitp_status status = eitp__path_info(host, final, &info, error);
    exists = !status && info.kind != EITP_PATH_MISSING;
    if (!status && exists)
        status = eitp__rename_path(host, final, replaced, error);
    if (!status) {
        status = eitp__rename_path(host, partial, final, error);
        if (status && exists)
            eitp__rename_path(host, replaced, final, NULL);
    }
    if (!status)
        status = eitp__sync_directory(host, directory, error);
    if (!status && exists)
        status = eitp__remove_tree(host, replaced, error);
    return status;
}

eitp_status eitp_checkpoint_create(const eitp_host *host, const char *output_directory, int64_t step,
                                   eitp_status (*fill)(void *user, const char *directory, eitp_error *error),
                                   void *user, eitp_error *error) {
    char *partial = NULL, *final = NULL, *replaced = NULL;
    eitp_status status =
        eitp__checkpoint_path(host, output_directory, EITP__PARTIAL_PREFIX, step, ".partial", &partial, error);
    if (!status)
        status = eitp__checkpoint_path(host, output_directory, "checkpoint-", step, "", &final, error);
    if (!status)
        status =
            eitp__checkpoint_path(host, output_directory, EITP__PARTIAL_PREFIX, step, ".replaced", &replaced, error);
    if (!status)
        status = eitp__remove_tree(host, partial, error);
    if (!status)
        status = eitp__make_directories(host, partial, error);
    if (!status) {
        status = fill(user, partial, error);
        if (!status)
            status = eitp__sync_directory(host, partial, error);
        if (!status)
            status = eitp__install(host, output_directory, partial, final, replaced, error);
        if (status)
            eitp__remove_tree(host, partial, NULL);
    }
    eitp__release_text(host, partial);
    eitp__release_text(host, final);
    eitp__release_text(host, replaced);
    return status;
}

/* A write that was cut off between making way and taking the name: the old checkpoint gets its name back. */
static eitp_status eitp__restore_replaced(const eitp_host *host, const char *directory, const char *name,
                                          eitp_error *error) {
    char *from = NULL, *to = NULL, plain[64];
    size_t length = strlen(name), suffix = sizeof ".replaced" - 1;
    eitp_path_info info = EITP__ZERO;
    eitp_status status;
    if (length <= suffix || length >= sizeof plain || strcmp(name + length - suffix, ".replaced") || name[0] != '.')
        return EITP_OK;
    snprintf(plain, sizeof plain, "%.*s", (int)(length - suffix - 1), name + 1);
    if (eitp__checkpoint_step(plain) < 0)
        return EITP_OK;
    from = eitp__join_path(host, directory, name);
    to = eitp__join_path(host, directory, plain);
    status = from && to ? eitp__path_info(host, to, &info, error) : eitp__fail_memory(error, 2 * length, "a path");
    if (!status && info.kind == EITP_PATH_MISSING)
        status = eitp__rename_path(host, from, to, error);
    eitp__release_text(host, from);
    eitp__release_text(host, to);
    return status;
}

eitp_status eitp_checkpoint_newest(const eitp_host *host, const char *output_directory, int64_t *step,
                                   eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = eitp__path_info(host, output_directory, &info, error);
    *step = -1;
    if (status || info.kind != EITP_PATH_DIRECTORY)
        return status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, output_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        status = eitp__restore_replaced(host, output_directory, names.data + at, error);
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_clear(&names);
    if (!status)
        status = eitp__list_directory(host, output_directory, &names, &count, error);
    at = 0;
    for (size_t i = 0; i < count && !status; i++) {
        int64_t found = eitp__checkpoint_step(names.data + at);
        if (found > *step)
            *step = found;
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_release(&names);
    return status;
}

/* Removes one name from a directory. */
static eitp_status eitp__remove_entry(const eitp_host *host, const char *directory, const char *name,
                                      eitp_error *error) {
    char *path = eitp__join_path(host, directory, name);
    eitp_status status = path ? eitp__remove_tree(host, path, error)
                              : eitp__fail_memory(error, strlen(directory) + strlen(name) + 2, "a path");
    eitp__release_text(host, path);
    return status;
}

/* How many checkpoints of the list are newer than `step`. */
static int64_t eitp__newer(const eitp__buffer *names, size_t count, int64_t step) {
    int64_t newer = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        newer += eitp__checkpoint_step(names->data + at) > step;
        at += strlen(names->data + at) + 1;
    }
    return newer;
}

eitp_status eitp_checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                  eitp_error *error) {
    eitp__buffer names;
    size_t count = 0, at = 0;
    int64_t newest;
    /* Looking for the newest puts replaced ones back, which must not be taken for leftovers. */
    eitp_status status = eitp_checkpoint_newest(host, output_directory, &newest, error);
    eitp__buffer_init(&names, host);
    if (!status)
        status = eitp__list_directory(host, output_directory, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        int64_t step = eitp__checkpoint_step(name);
        int unfinished = !strncmp(name, EITP__PARTIAL_PREFIX, sizeof EITP__PARTIAL_PREFIX - 1);
        if (unfinished || (step >= 0 && keep > 0 && eitp__newer(&names, count, step) >= keep))
            status = eitp__remove_entry(host, output_directory, name, error);
        at += strlen(name) + 1;
    }
    eitp__buffer_release(&names);
    return status;
}
/* <<src/io/checkpoint.c */

/* >>src/train/evaluate.c */
EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, int64_t sequences, int64_t longest,
                                             eitp__batch *batch, eitp_error *error) {
    size_t rows = (size_t)(sequences * longest), bytes = rows * sizeof(int32_t);
    memset(batch, 0, sizeof *batch);
    batch->host = *host;
    batch->sequences = sequences;
    batch->longest = longest;
    batch->tokens = (int32_t *)eitp__allocate(host, bytes);
    batch->targets = (int32_t *)eitp__allocate(host, bytes);
    batch->positions = (int32_t *)eitp__allocate(host, bytes);
    batch->losses = (float *)eitp__allocate(host, bytes);
    batch->offsets = (int32_t *)eitp__allocate(host, (size_t)(sequences + 1) * sizeof *batch->offsets);
    if (!batch->tokens || !batch->targets || !batch->positions || !batch->losses || !batch->offsets) {
        eitp__batch_release(batch);
        return eitp__fail_memory(error, 5 * bytes, "a batch");
    }
    for (size_t i = 0; i < rows; i++)
        batch->positions[i] = (int32_t)(i % (size_t)longest);
    return EITP_OK;
}

EITP__PRIVATE void eitp__batch_release(eitp__batch *batch) {
    size_t bytes = (size_t)(batch->sequences * batch->longest) * sizeof(int32_t);
    eitp__release(&batch->host, batch->tokens, bytes);
    eitp__release(&batch->host, batch->targets, bytes);
    eitp__release(&batch->host, batch->positions, bytes);
    eitp__release(&batch->host, batch->losses, bytes);
    eitp__release(&batch->host, batch->offsets, (size_t)(batch->sequences + 1) * sizeof *batch->offsets);
    memset(batch, 0, sizeof *batch);
}

EITP__PRIVATE eitp_status eitp__batch_read(eitp__batch *batch, const eitp_windows *windows, uint64_t first,
                                           int64_t count, int64_t vocabulary, eitp_error *error) {
    int64_t rows = count * batch->longest;
    eitp_status status = eitp_windows_read(windows, first, count, batch->tokens, batch->targets, error);
    for (int64_t i = 0; i < rows && !status; i++) {
        int32_t largest = batch->tokens[i] > batch->targets[i] ? batch->tokens[i] : batch->targets[i];
        if (largest >= vocabulary)
            status = eitp__fail(error, EITP_ERROR_FORMAT,
                                "the data has token id %d, but the model's vocabulary ends at %lld; use the model's "
                                "tokenizer, or a larger --vocab-size",
                                (int)largest, (long long)vocabulary - 1);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__batch_write(const eitp__batch *batch, int64_t count, eitp_plan *plan,
                                            const eitp_model_inputs *inputs, eitp_tensor *targets, eitp_error *error) {
    size_t bytes = (size_t)(count * batch->longest) * sizeof(int32_t);
    eitp_status status = eitp_plan_set_count(plan, count * batch->longest, error);
    for (int64_t i = 0; i <= batch->sequences; i++)
        batch->offsets[i] = (int32_t)((i < count ? i : count) * batch->longest);
    if (!status)
        status = eitp_plan_write(plan, inputs->tokens, batch->tokens, bytes, error);
    if (!status)
        status = eitp_plan_write(plan, inputs->positions, batch->positions, bytes, error);
    if (!status)
        status = eitp_plan_write(plan, inputs->offsets, batch->offsets,
                                 (size_t)(batch->sequences + 1) * sizeof *batch->offsets, error);
    if (!status)
        status = eitp_plan_write(plan, targets, batch->targets, bytes, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__batch_losses(eitp__batch *batch, int64_t count, eitp_plan *plan, eitp_tensor *losses,
                                             double *sum, int64_t *valid, eitp_error *error) {
    int64_t rows = count * batch->longest;
    eitp_status status = eitp_plan_read(plan, losses, batch->losses, (size_t)rows * sizeof *batch->losses, error);
    for (int64_t i = 0; i < rows && !status; i++) {
        *sum += (double)batch->losses[i];
        *valid += batch->targets[i] != EITP__IGNORED_TARGET;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__evaluator_create(const eitp_model *model, int64_t sequences, int64_t longest,
                                                 eitp__evaluator *evaluator, eitp_error *error) {
    eitp_graph *graph;
    int64_t rows = sequences * longest;
    eitp_status status;
    memset(evaluator, 0, sizeof *evaluator);
    evaluator->model = model;
    evaluator->sequences = sequences;
    evaluator->longest = longest;
    status = eitp_graph_create(eitp_model_context(model), &evaluator->graph, error);
    if (status)
        return status;
    graph = evaluator->graph;
    evaluator->inputs = eitp_model_inputs_create(graph, sequences, longest, 0);
    evaluator->targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    evaluator->losses = eitp_output(eitp_cross_entropy(eitp_model_forward(model, graph, &evaluator->inputs, longest),
                                                       evaluator->targets, EITP__IGNORED_TARGET));
    status = eitp_plan_create(graph, &evaluator->plan, error);
    if (status)
        eitp__evaluator_release(evaluator);
    return status;
}

EITP__PRIVATE void eitp__evaluator_release(eitp__evaluator *evaluator) {
    eitp_plan_destroy(evaluator->plan);
    eitp_graph_destroy(evaluator->graph);
    memset(evaluator, 0, sizeof *evaluator);
}

/* The sum of the losses of one sequence. */
static double eitp__sequence_loss(const eitp__batch *batch, int64_t sequence) {
    double sum = 0;
    for (int64_t i = 0; i < batch->longest; i++)
        sum += (double)batch->losses[sequence * batch->longest + i];
    return sum / (double)batch->longest;
}

EITP__PRIVATE eitp_status eitp__evaluator_run(eitp__evaluator *evaluator, eitp__batch *batch,
                                              const eitp_windows *windows, uint64_t count, eitp_evaluation *evaluation,
                                              eitp_error *error) {
    int64_t vocabulary = eitp_model_config(evaluator->model).vocabulary;
    double sum = 0, mean = 0, squares = 0;
    int64_t valid = 0;
    uint64_t done = 0;
    eitp_status status = EITP_OK;
    while (done < count && !status) {
        int64_t part = count - done < (uint64_t)evaluator->sequences ? (int64_t)(count - done) : evaluator->sequences;
        status = eitp__batch_read(batch, windows, done, part, vocabulary, error);
        if (!status)
            status = eitp__batch_write(batch, part, evaluator->plan, &evaluator->inputs, evaluator->targets, error);
        if (!status)
            status = eitp_plan_run(evaluator->plan, error);
        if (!status)
            status = eitp__batch_losses(batch, part, evaluator->plan, evaluator->losses, &sum, &valid, error);
        /* The spread over sequences (Welford): tokens of one sequence are not independent. */
        for (int64_t i = 0; i < part && !status; i++) {
            double loss = eitp__sequence_loss(batch, i), difference = loss - mean;
            done++;
            mean += difference / (double)done;
            squares += difference * (loss - mean);
        }
    }
    if (status)
        return status;
    evaluation->loss = valid ? sum / (double)valid : 0;
    evaluation->tokens = valid;
    evaluation->error = done > 1 ? sqrt(squares / (double)(done - 1) / (double)done) : 0;
    return EITP_OK;
}

eitp_status eitp_evaluate(const eitp_model *model, const eitp_token_file *file, eitp_token_range tokens,
                          int64_t batch_size, int64_t block_size, int64_t windows, eitp_evaluation *evaluation,
                          eitp_error *error) {
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    eitp__evaluator evaluator;
    eitp__batch batch;
    eitp_windows list;
    uint64_t count;
    eitp_status status;
    memset(&batch, 0, sizeof batch);
    memset(&evaluator, 0, sizeof evaluator);
    if (batch_size < 1 || block_size < 1 || block_size > eitp_model_config(model).positions)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "batch size %lld and block size %lld must be at least 1, and the block at most the model's %lld "
            "positions",
            (long long)batch_size, (long long)block_size, (long long)eitp_model_config(model).positions);
    status = eitp_windows_init(&list, file, tokens, block_size, EITP_SHUFFLE_NONE, 0, error);
    if (status)
        return status;
    count = windows > 0 && (uint64_t)windows < list.count ? (uint64_t)windows : list.count;
    status = eitp__evaluator_create(model, batch_size, block_size, &evaluator, error);
    if (!status)
        status = eitp__batch_create(&host, batch_size, block_size, &batch, error);
    if (!status)
        status = eitp__evaluator_run(&evaluator, &batch, &list, count, evaluation, error);
    if (batch.tokens)
        eitp__batch_release(&batch);
    eitp__evaluator_release(&evaluator);
    return status;
}
/* <<src/train/evaluate.c */

/* >>src/train/trainer.c */
eitp_trainer_config eitp_trainer_config_default(void) {
    eitp_trainer_config config;
    memset(&config, 0, sizeof config);
    config.batch_size = 1;
    config.block_size = 64;
    config.grad_accum = 4;
    config.max_grad_norm = 0.5;
    config.adamw = eitp_adamw_config_default();
    config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    config.schedule.peak = 5e-5;
    config.shuffle = EITP_SHUFFLE_WINDOWS;
    return config;
}

static eitp_status eitp__check_config(const eitp_trainer_config *config, const eitp_model *model, eitp_error *error) {
    int64_t positions = eitp_model_config(model).positions;
    if (config->batch_size < 1 || config->grad_accum < 1 || config->batch_size > 1 << 20 ||
        config->grad_accum > 1 << 20)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "batch size %lld and accumulation %lld must be 1 to 1048576",
                          (long long)config->batch_size, (long long)config->grad_accum);
    if (config->block_size < 1 || config->block_size > positions)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block size %lld must be 1 to the model's %lld positions",
                          (long long)config->block_size, (long long)positions);
    if (!(config->max_grad_norm >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the largest gradient norm is %g; it must be 0 or more",
                          config->max_grad_norm);
    if (!(config->schedule.peak >= 0 && config->schedule.peak <= 1e3))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the learning rate is %g; it must be 0 or more",
                          config->schedule.peak);
    return EITP_OK;
}

static int eitp__has_dropout(const eitp_model *model) {
    const eitp_gpt2_config config = eitp_model_config(model);
    return config.embedding_dropout > 0 || config.attention_dropout > 0 || config.residual_dropout > 0;
}

static eitp_status eitp__plan_micro_batch(eitp_trainer *trainer, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    int64_t rows = config->batch_size * config->block_size, one = 1;
    eitp_graph *graph;
    eitp_tensor *logits, *loss;
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->micro_graph, error);
    if (status)
        return status;
    graph = trainer->micro_graph;
    trainer->inputs =
        eitp_model_inputs_create(graph, config->batch_size, config->block_size, eitp__has_dropout(trainer->model));
    trainer->targets = eitp_input_rows(graph, "targets", EITP_I32, 1, &rows);
    trainer->weight = eitp_input(graph, "1 / targets", EITP_F32, 1, &one);
    trainer->carry = eitp_input(graph, "carry", EITP_F32, 1, &one);
    logits = eitp_model_forward(trainer->model, graph, &trainer->inputs, config->block_size);
    trainer->losses = eitp_output(eitp_cross_entropy(logits, trainer->targets, EITP__IGNORED_TARGET));
    loss = eitp_multiply(eitp_sum(trainer->losses, EITP_ALL_DIMENSIONS, 0), trainer->weight);
    status = eitp_graph_status(graph, error);
    if (!status)
        status = eitp_accumulate_gradients(loss, trainer->carry, error);
    return status ? status : eitp_plan_create(graph, &trainer->micro_plan, error);
}

static eitp_status eitp__plan_update(eitp_trainer *trainer, eitp_error *error) {
    eitp_status status = eitp_graph_create(eitp_model_context(trainer->model), &trainer->update_graph, error);
    if (!status)
        status = eitp_adamw_apply(trainer->update_graph, &trainer->config.adamw, &trainer->update, error);
    return status ? status : eitp_plan_create(trainer->update_graph, &trainer->update_plan, error);
}

static eitp_status eitp__make_batches(eitp_trainer *trainer, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_status status = EITP_OK;
    size_t bytes = (size_t)config->grad_accum * sizeof *trainer->batches;
    trainer->batches = (eitp__batch *)eitp__allocate(&trainer->host, bytes);
    if (!trainer->batches)
        return eitp__fail_memory(error, bytes, "the batches of a step");
    for (int64_t i = 0; i < config->grad_accum && !status; i++)
        status =
            eitp__batch_create(&trainer->host, config->batch_size, config->block_size, &trainer->batches[i], error);
    return status;
}

eitp_status eitp_trainer_create(eitp_model *model, const eitp_token_file *training_file, eitp_token_range training,
                                const eitp_token_file *validation_file, eitp_token_range validation,
                                const eitp_tokenizer *tokenizer, const eitp_trainer_config *config,
                                eitp_trainer **trainer, eitp_error *error) {
    const eitp_host host = eitp_context_host(eitp_model_context(model));
    eitp_trainer *made;
    eitp_status status = eitp__check_config(config, model, error);
    *trainer = NULL;
    if (status)
        return status;
    made = (eitp_trainer *)eitp__allocate(&host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a trainer");
    made->host = host;
    made->model = model;
    made->tokenizer = tokenizer;
    made->training_file = training_file;
    made->config = *config;
    made->validates = validation.count > 0;
    status = eitp_windows_init(&made->windows, training_file, training, config->block_size, config->shuffle,
                               config->seed, error);
    if (!status && made->validates)
        status = eitp_windows_init(&made->validation, validation_file, validation, config->block_size,
                                   EITP_SHUFFLE_NONE, 0, error);
    if (!status)
        status = eitp__make_batches(made, error);
    if (!status)
        status = eitp__plan_micro_batch(made, error);
    if (!status)
        status = eitp__plan_update(made, error);
    if (!status && made->validates)
        status = eitp__evaluator_create(model, config->batch_size, config->block_size, &made->evaluator, error);
    if (!status && made->validates)
        status = eitp__batch_create(&host, config->batch_size, config->block_size, &made->evaluation_batch, error);
    if (status) {
        eitp_trainer_destroy(made);
        return status;
    }
    *trainer = made;
    return EITP_OK;
}

void eitp_trainer_destroy(eitp_trainer *trainer) {
    eitp_host host;
    if (!trainer)
        return;
    host = trainer->host;
    for (int64_t i = 0; trainer->batches && i < trainer->config.grad_accum; i++) {
        if (trainer->batches[i].tokens)
            eitp__batch_release(&trainer->batches[i]);
    }
    if (trainer->evaluation_batch.tokens)
        eitp__batch_release(&trainer->evaluation_batch);
    eitp__release(&host, trainer->batches, (size_t)trainer->config.grad_accum * sizeof *trainer->batches);
    eitp__evaluator_release(&trainer->evaluator);
    eitp_plan_destroy(trainer->update_plan);
    eitp_graph_destroy(trainer->update_graph);
    eitp_plan_destroy(trainer->micro_plan);
    eitp_graph_destroy(trainer->micro_graph);
    eitp__release(&host, trainer, sizeof *trainer);
}

int64_t eitp_trainer_steps_done(const eitp_trainer *trainer) {
    return trainer->step;
}

uint64_t eitp_trainer_windows(const eitp_trainer *trainer) {
    return trainer->windows.count;
}

eitp_plan_stats eitp_trainer_statistics(const eitp_trainer *trainer) {
    return eitp_plan_statistics(trainer->micro_plan);
}

/* Sequences of micro-batch `micro` of the next step: fewer where the last sample is in it. */
static int64_t eitp__micro_sequences(const eitp_trainer *trainer, int64_t micro, uint64_t *first) {
    const eitp_trainer_config *config = &trainer->config;
    uint64_t left;
    *first = ((uint64_t)trainer->step * (uint64_t)config->grad_accum + (uint64_t)micro) * (uint64_t)config->batch_size;
    if (!config->last_sample)
        return config->batch_size;
    left = config->last_sample > *first ? config->last_sample - *first : 0;
    return left < (uint64_t)config->batch_size ? (int64_t)left : config->batch_size;
}

/* Reads all batches of the step before its first backward pass: the mean over targets needs their number. */
static eitp_status eitp__read_step(eitp_trainer *trainer, int64_t *valid, eitp_error *error) {
    int64_t vocabulary = eitp_model_config(trainer->model).vocabulary;
    eitp_status status = EITP_OK;
    *valid = 0;
    for (int64_t m = 0; m < trainer->config.grad_accum && !status; m++) {
        eitp__batch *batch = &trainer->batches[m];
        uint64_t first;
        int64_t count = eitp__micro_sequences(trainer, m, &first);
        if (!count)
            break;
        status = eitp__batch_read(batch, &trainer->windows, first, count, vocabulary, error);
        for (int64_t i = 0; i < count * batch->longest && !status; i++)
            *valid += batch->targets[i] != EITP__IGNORED_TARGET;
    }
    return status;
}

/* One scalar or small input. */
static eitp_status eitp__write_values(eitp_plan *plan, eitp_tensor *input, const void *values, size_t size,
                                      eitp_error *error) {
    return input ? eitp_plan_write(plan, input, values, size, error) : EITP_OK;
}

static eitp_status eitp__run_micro_batch(eitp_trainer *trainer, int64_t micro, int64_t count, int64_t valid,
                                         double *sum, eitp_error *error) {
    const eitp_trainer_config *config = &trainer->config;
    eitp_plan *plan = trainer->micro_plan;
    float weight = (float)(1.0 / (double)(valid ? valid : 1)), carry = micro > 0;
    int64_t key[3], counted = 0;
    eitp_status status;
    key[0] = (int64_t)config->seed;
    key[1] = trainer->step + 1;
    key[2] = micro * config->batch_size * config->block_size;
    status = eitp__batch_write(&trainer->batches[micro], count, plan, &trainer->inputs, trainer->targets, error);
    if (!status)
        status = eitp__write_values(plan, trainer->inputs.key, key, sizeof key, error);
    if (!status)
        status = eitp__write_values(plan, trainer->weight, &weight, sizeof weight, error);
    if (!status)
        status = eitp__write_values(plan, trainer->carry, &carry, sizeof carry, error);
    if (!status)
        status = eitp_plan_run(plan, error);
    if (!status)
        status = eitp__batch_losses(&trainer->batches[micro], count, plan, trainer->losses, sum, &counted, error);
    return status;
}

static eitp_status eitp__run_update(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    eitp_plan *plan = trainer->update_plan;
    const eitp_update *update = &trainer->update;
    float hyper[2], commit[2] = {0, 0}, norm = 0, limit = (float)trainer->config.max_grad_norm;
    eitp_status status;
    report->learning_rate = eitp_schedule_rate(&trainer->config.schedule, report->step);
    hyper[0] = (float)report->learning_rate;
    hyper[1] = (float)report->step;
    status = eitp__write_values(plan, update->hyper, hyper, sizeof hyper, error);
    if (!status)
        status = eitp__write_values(plan, update->limit, &limit, sizeof limit, error);
    if (!status)
        status = eitp_plan_run(plan, error);
    if (!status)
        status = eitp_plan_read(plan, update->norm, &norm, sizeof norm, error);
    if (!status)
        status = eitp_plan_read(plan, update->commit, commit, sizeof commit, error);
    report->grad_norm = (double)norm;
    report->applied = commit[1] != 0;
    return status;
}

eitp_status eitp_trainer_step(eitp_trainer *trainer, eitp_step_report *report, eitp_error *error) {
    double sum = 0;
    uint64_t first;
    eitp_status status;
    memset(report, 0, sizeof *report);
    report->step = trainer->step + 1;
    status = eitp__read_step(trainer, &report->tokens, error);
    for (int64_t m = 0; m < trainer->config.grad_accum && !status; m++) {
        int64_t count = eitp__micro_sequences(trainer, m, &first);
        if (count)
            status = eitp__run_micro_batch(trainer, m, count, report->tokens, &sum, error);
    }
    if (!status)
        status = eitp__run_update(trainer, report, error);
    if (status)
        return status;
    report->loss = sum / (double)(report->tokens ? report->tokens : 1);
    trainer->step++;
    return EITP_OK;
}

eitp_status eitp_trainer_evaluate(eitp_trainer *trainer, int64_t windows, eitp_evaluation *evaluation,
                                  eitp_error *error) {
    uint64_t count = trainer->validation.count;
    if (!trainer->validates)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the trainer was made without validation data");
    if (windows > 0 && (uint64_t)windows < count)
        count = (uint64_t)windows;
    return eitp__evaluator_run(&trainer->evaluator, &trainer->evaluation_batch, &trainer->validation, count, evaluation,
                               error);
}
/* <<src/train/trainer.c */

/* >>src/train/trainer_state.c */
/*
 * The trainer's checkpoints: the model directory, optimizer.safetensors, the tokenizer, and trainer_state.json with step, data
 * position (it follows from the step), and every choice that the bits of the run depend on.
 */

#define EITP__STATE_FILE "trainer_state.json"
#define EITP__OPTIMIZER_FILE "optimizer.safetensors"
#define EITP__STATE_VERSION 1

/* What trainer_state.json says; numbers that are compared or handed over as they are. */
typedef struct eitp__state {
    eitp_checkpoint_info info;
    int64_t data_hash[2]; /* content hash of the training file, as two halves: JSON integers have 63 bits */
    int64_t data_first, data_count;
    int64_t model_checksum, optimizer_checksum;
} eitp__state;

/* An integer of the state: its name, where it is, its range, and what a difference on resume means. */
typedef enum eitp__difference { EITP__REFUSED, EITP__LOGGED, EITP__EXPECTED } eitp__difference;

typedef struct eitp__state_integer {
    const char *name;
    int64_t *value;
    int64_t low, high;
    eitp__difference difference;
} eitp__state_integer;

typedef struct eitp__state_number {
    const char *name;
    double *value;
} eitp__state_number;

/* Fields of eitp_trainer_config that are not int64_t pass through here. */
typedef struct eitp__state_mirror {
    int64_t seed, shuffle, schedule, last_sample;
} eitp__state_mirror;

enum { EITP__STATE_INTEGERS = 16, EITP__STATE_NUMBERS = 7 };

static void eitp__state_fields(eitp__state *state, eitp__state_mirror *mirror,
                               eitp__state_integer integers[EITP__STATE_INTEGERS],
                               eitp__state_number numbers[EITP__STATE_NUMBERS]) {
    eitp_trainer_config *config = &state->info.config;
    const eitp__state_integer integer_list[EITP__STATE_INTEGERS] = {
        {"step", &state->info.step, 0, INT64_MAX, EITP__EXPECTED},
        {"batch_size", &config->batch_size, 1, 1 << 20, EITP__REFUSED},
        {"block_size", &config->block_size, 1, 1 << 24, EITP__REFUSED},
        {"grad_accum", &config->grad_accum, 1, 1 << 20, EITP__REFUSED},
        {"seed", &mirror->seed, INT64_MIN, INT64_MAX, EITP__REFUSED},
        {"shuffle", &mirror->shuffle, 0, 1, EITP__REFUSED},
        {"data_hash_low", &state->data_hash[0], 0, UINT32_MAX, EITP__REFUSED},
        {"data_hash_high", &state->data_hash[1], 0, UINT32_MAX, EITP__REFUSED},
        {"data_first", &state->data_first, 0, INT64_MAX, EITP__REFUSED},
        {"data_count", &state->data_count, 0, INT64_MAX, EITP__REFUSED},
        {"lr_schedule", &mirror->schedule, 0, 2, EITP__LOGGED},
        {"warmup_steps", &config->schedule.warmup, 0, INT64_MAX, EITP__LOGGED},
        {"schedule_steps", &config->schedule.steps, 0, INT64_MAX, EITP__LOGGED},
        {"last_sample", &mirror->last_sample, 0, INT64_MAX, EITP__LOGGED},
        {"model_checksum", &state->model_checksum, 0, UINT32_MAX, EITP__EXPECTED},
        {"optimizer_checksum", &state->optimizer_checksum, 0, UINT32_MAX, EITP__EXPECTED},
    };
    const eitp__state_number number_list[EITP__STATE_NUMBERS] = {
        {"max_grad_norm", &config->max_grad_norm},
        {"beta1", &config->adamw.beta1},
        {"beta2", &config->adamw.beta2},
        {"epsilon", &config->adamw.epsilon},
        {"weight_decay", &config->adamw.weight_decay},
        {"lr", &config->schedule.peak},
        {"final_lr", &config->schedule.final},
    };
    memcpy(integers, integer_list, sizeof integer_list);
    memcpy(numbers, number_list, sizeof number_list);
}

static void eitp__state_to_mirror(const eitp__state *state, eitp__state_mirror *mirror) {
    mirror->seed = (int64_t)state->info.config.seed;
    mirror->shuffle = state->info.config.shuffle;
    mirror->schedule = state->info.config.schedule.kind;
    mirror->last_sample = (int64_t)state->info.config.last_sample;
}

static void eitp__mirror_to_state(const eitp__state_mirror *mirror, eitp__state *state) {
    state->info.config.seed = (uint64_t)mirror->seed;
    state->info.config.shuffle = (eitp_shuffle)mirror->shuffle;
    state->info.config.schedule.kind = (eitp_schedule_kind)mirror->schedule;
    state->info.config.last_sample = (uint64_t)mirror->last_sample;
}

/* The state of a trainer as it is now; checksums are the caller's. */
static eitp__state eitp__current_state(const eitp_trainer *trainer) {
    eitp__state state;
    uint64_t hash = eitp_token_file_get_info(trainer->training_file).content_hash;
    memset(&state, 0, sizeof state);
    state.info.step = trainer->step;
    state.info.config = trainer->config;
    snprintf(state.info.numerics, sizeof state.info.numerics, "%s",
             eitp_context_numerics(eitp_model_context(trainer->model)));
    state.data_hash[0] = (int64_t)(hash & UINT32_MAX);
    state.data_hash[1] = (int64_t)(hash >> 32);
    state.data_first = (int64_t)trainer->windows.tokens.first;
    state.data_count = (int64_t)trainer->windows.tokens.count;
    return state;
}

/* ---- Saving ---- */

static eitp_status eitp__write_state(const eitp_trainer *trainer, const char *path, eitp__state *state,
                                     eitp_error *error) {
    eitp__state_integer integers[EITP__STATE_INTEGERS];
    eitp__state_number numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror mirror;
    eitp__buffer text;
    eitp_status status;
    eitp__state_to_mirror(state, &mirror);
    eitp__state_fields(state, &mirror, integers, numbers);
    eitp__buffer_init(&text, &trainer->host);
    eitp__buffer_format(&text, "{\n  \"format\": \"eitp checkpoint\",\n  \"version\": %d,\n", EITP__STATE_VERSION);
    eitp__buffer_format(&text, "  \"precision\": \"fp32\",\n  \"optimizer\": \"adamw\",\n  \"numerics\": \"%s\",\n",
                        state->info.numerics);
    for (size_t i = 0; i < EITP__COUNT(integers); i++)
        eitp__buffer_format(&text, "  \"%s\": %lld,\n", integers[i].name, (long long)*integers[i].value);
    for (size_t i = 0; i < EITP__COUNT(numbers); i++) {
        eitp__buffer_format(&text, "  \"%s\": ", numbers[i].name);
        eitp__json_write_number(&text, *numbers[i].value);
        eitp__buffer_add_text(&text, i + 1 < EITP__COUNT(numbers) ? ",\n" : "\n}\n");
    }
    status = text.failed ? eitp__fail_memory(error, text.size, "the trainer's state")
                         : eitp__write_file(&trainer->host, path, text.data, text.size, error);
    eitp__buffer_release(&text);
    return status;
}

/* Writes everything a checkpoint has into a directory. */
static eitp_status eitp__fill_checkpoint(void *user, const char *directory, eitp_error *error) {
    eitp_trainer *trainer = (eitp_trainer *)user;
    eitp__state state = eitp__current_state(trainer);
    int32_t end_of_text = trainer->tokenizer ? eitp_tokenizer_end_of_text(trainer->tokenizer) : -1;
    uint32_t model_checksum = 0, optimizer_checksum = 0;
    char *optimizer = eitp__join_path(&trainer->host, directory, EITP__OPTIMIZER_FILE);
    char *path = eitp__join_path(&trainer->host, directory, EITP__STATE_FILE);
    eitp_status status = optimizer && path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp_model_save(trainer->model, directory, EITP_F32, end_of_text, &model_checksum, error);
    if (!status && trainer->tokenizer)
        status = eitp_tokenizer_save(trainer->tokenizer, directory, error);
    if (!status)
        status = eitp_variables_save(eitp_model_context(trainer->model), optimizer, EITP_OPTIMIZER, EITP_F32,
                                     &optimizer_checksum, error);
    state.model_checksum = model_checksum;
    state.optimizer_checksum = optimizer_checksum;
    if (!status)
        status = eitp__write_state(trainer, path, &state, error);
    eitp__release_text(&trainer->host, optimizer);
    eitp__release_text(&trainer->host, path);
    return status;
}

eitp_status eitp_trainer_save(eitp_trainer *trainer, const char *output_directory, eitp_error *error) {
    return eitp_checkpoint_create(&trainer->host, output_directory, trainer->step, eitp__fill_checkpoint, trainer,
                                  error);
}

/* ---- Reading ---- */

static eitp_status eitp__parse_state(const eitp__json *root, eitp__state *state, eitp_error *error) {
    eitp__state_integer integers[EITP__STATE_INTEGERS];
    eitp__state_number numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror mirror;
    const char *format = "", *numerics = "", *precision = "", *optimizer = "";
    int64_t version = 0;
    eitp_status status;
    memset(&mirror, 0, sizeof mirror);
    eitp__state_fields(state, &mirror, integers, numbers);
    status = eitp__json_get_text(root, "format", &format, error);
    if (!status)
        status = eitp__json_get_integer(root, "version", 0, INT32_MAX, &version, error);
    if (!status)
        status = eitp__json_get_text(root, "numerics", &numerics, error);
    if (!status)
        status = eitp__json_get_text(root, "precision", &precision, error);
    if (!status)
        status = eitp__json_get_text(root, "optimizer", &optimizer, error);
    if (!status && strcmp(format, "eitp checkpoint"))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "this is not the state of an eitp checkpoint");
    if (!status && (version != EITP__STATE_VERSION || strcmp(precision, "fp32") || strcmp(optimizer, "adamw")))
        status =
            eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                       "it is of version %lld with precision '%s' and optimizer '%s'; this eitp reads version %d with "
                       "fp32 and adamw",
                       (long long)version, precision, optimizer, EITP__STATE_VERSION);
    for (size_t i = 0; i < EITP__COUNT(integers) && !status; i++) {
        if (!eitp__json_member(root, integers[i].name))
            status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is missing", integers[i].name);
        else
            status = eitp__json_get_integer(root, integers[i].name, integers[i].low, integers[i].high,
                                            integers[i].value, error);
    }
    for (size_t i = 0; i < EITP__COUNT(numbers) && !status; i++)
        status = eitp__json_get_number(root, numbers[i].name, -HUGE_VAL, HUGE_VAL, numbers[i].value, error);
    if (status)
        return status;
    eitp__mirror_to_state(&mirror, state);
    snprintf(state->info.numerics, sizeof state->info.numerics, "%s", numerics);
    return EITP_OK;
}

static eitp_status eitp__read_state(const eitp_host *host, const char *checkpoint, eitp__state *state,
                                    eitp_error *error) {
    const size_t limit = 1 << 20;
    eitp__json_document *document;
    char *path = eitp__join_path(host, checkpoint, EITP__STATE_FILE);
    eitp_status status;
    memset(state, 0, sizeof *state);
    if (!path)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    status = eitp__json_read_file(host, path, limit, &document, error);
    if (!status) {
        status = eitp__parse_state(eitp__json_root(document), state, error);
        eitp__json_release(document);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    eitp__release_text(host, path);
    return status;
}

eitp_status eitp_checkpoint_read_info(const eitp_host *host, const char *checkpoint, eitp_checkpoint_info *info,
                                      eitp_error *error) {
    eitp__state state;
    eitp_status status = eitp__read_state(host, checkpoint, &state, error);
    if (!status)
        *info = state.info;
    return status;
}

/* Compares the run that wrote the checkpoint with this one: refuses, logs, or accepts each difference. */
static eitp_status eitp__compare_states(const eitp_trainer *trainer, eitp__state *written, const char *checkpoint,
                                        eitp_error *error) {
    eitp__state current = eitp__current_state(trainer);
    eitp__state_integer mine[EITP__STATE_INTEGERS], theirs[EITP__STATE_INTEGERS];
    eitp__state_number my_numbers[EITP__STATE_NUMBERS], their_numbers[EITP__STATE_NUMBERS];
    eitp__state_mirror my_mirror, their_mirror;
    eitp__state_to_mirror(&current, &my_mirror);
    eitp__state_to_mirror(written, &their_mirror);
    eitp__state_fields(&current, &my_mirror, mine, my_numbers);
    eitp__state_fields(written, &their_mirror, theirs, their_numbers);
    if (strcmp(current.info.numerics, written->info.numerics))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%s' was made with the kernels %s, and this run has %s: the bits would differ; use the same "
                          "EITP_ISA and build, or start from the weights with --model",
                          checkpoint, written->info.numerics, current.info.numerics);
    for (size_t i = 0; i < EITP__COUNT(mine); i++) {
        if (*mine[i].value == *theirs[i].value || mine[i].difference == EITP__EXPECTED)
            continue;
        if (mine[i].difference == EITP__REFUSED)
            return eitp__fail(
                error, EITP_ERROR_ARGUMENT,
                "'%s' was made with %s %lld, and this run has %lld; use the same settings and data, or start "
                "from the weights with --model",
                checkpoint, mine[i].name, (long long)*theirs[i].value, (long long)*mine[i].value);
        eitp__log(&trainer->host, EITP_LOG_WARNING, "%s was %lld in '%s' and is %lld from here on", mine[i].name,
                  (long long)*theirs[i].value, checkpoint, (long long)*mine[i].value);
    }
    for (size_t i = 0; i < EITP__COUNT(my_numbers); i++) {
        if (*my_numbers[i].value != *their_numbers[i].value)
            eitp__log(&trainer->host, EITP_LOG_WARNING, "%s was %g in '%s' and is %g from here on", my_numbers[i].name,
                      *their_numbers[i].value, checkpoint, *my_numbers[i].value);
    }
    return EITP_OK;
}

/* Reads the variables of a role and checks that they are what was written. */
static eitp_status eitp__load_checked(const eitp_trainer *trainer, const char *checkpoint, const char *name,
                                      eitp_role role, int64_t expected, eitp_error *error) {
    uint32_t checksum = 0;
    char *path = eitp__join_path(&trainer->host, checkpoint, name);
    eitp_status status;
    if (!path)
        return eitp__fail_memory(error, strlen(checkpoint), "a path");
    status = eitp_variables_load(eitp_model_context(trainer->model), path, role, &checksum, error);
    if (!status && (int64_t)checksum != expected)
        status = eitp__fail(error, EITP_ERROR_FORMAT,
                            "%s is damaged: its checksum is %08x, not %08x; resume from another checkpoint", path,
                            (unsigned)checksum, (unsigned)expected);
    eitp__release_text(&trainer->host, path);
    return status;
}

eitp_status eitp_trainer_resume(eitp_trainer *trainer, const char *checkpoint, eitp_error *error) {
    eitp__state state;
    eitp_status status = eitp__read_state(&trainer->host, checkpoint, &state, error);
    if (!status)
        status = eitp__compare_states(trainer, &state, checkpoint, error);
    if (!status)
        status =
            eitp__load_checked(trainer, checkpoint, "model.safetensors", EITP_PARAMETER, state.model_checksum, error);
    if (!status)
        status = eitp__load_checked(trainer, checkpoint, EITP__OPTIMIZER_FILE, EITP_OPTIMIZER, state.optimizer_checksum,
                                    error);
    if (!status)
        trainer->step = state.info.step;
    return status;
}
/* <<src/train/trainer_state.c */

#endif /* EITP_IMPLEMENTATION */

/*
MIT License

Copyright (c) 2026 the eitp authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
