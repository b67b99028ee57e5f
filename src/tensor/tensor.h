/*
 * Contexts, variables, graphs, tensors, ops, gradients and plans.
 *
 * A context owns the variables (parameters, gradients, optimizer state) and the memory that plans execute in. A graph
 * is built lazily: an op checks its inputs, adds a node and returns a tensor, and nothing is computed. A plan compiles
 * a graph for execution; after eitp_plan_create, executing it allocates nothing.
 *
 * Errors: a function that returns an eitp_status fails with EITP_ERROR_ARGUMENT if a required argument is NULL or
 * invalid. Its `error` may be NULL, and its outputs are NULL or untouched if it fails. While a graph is built, the
 * first error is stored in the graph: an op that fails returns NULL, and so does every op after it. eitp_graph_status
 * and eitp_plan_create report that first error, so code that builds a graph can check once, at the end.
 *
 * Ownership: graphs belong to a context and plans to a graph; each must be destroyed before its owner. Tensors belong
 * to their graph. Names and shapes that are passed in are copied. Every ..._destroy accepts NULL.
 *
 * Threads: a context and everything created from it must be used by one thread at a time. Two contexts are independent,
 * even if one borrows weights from the other (eitp_model_share).
 */
#ifndef EITP_TENSOR_H
#define EITP_TENSOR_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

typedef struct eitp_context eitp_context;
typedef struct eitp_graph eitp_graph;
typedef struct eitp_tensor eitp_tensor;
typedef struct eitp_plan eitp_plan;

/* ---- Context ---- */

/* Extra data that models store for a 16-bit parameter in addition to its 16 bits. F32 parameters need none. */
typedef enum eitp_parameter_form {
    EITP_PARAMETERS_ROUNDED = 0,  /* none; updates round stochastically (EITP_ADAMW8_SR, EITP_FACTORED) */
    EITP_PARAMETERS_EXACT = 1,    /* a remainder that restores the exact F32 value (EITP_ADAMW, EITP_SGD) */
    EITP_PARAMETERS_CORRECTED = 2 /* an 8-bit remainder; BF16 only (EITP_ADAMW8) */
} eitp_parameter_form;

/*
 * Variables to keep in a file (or in host memory, if the device has separate memory) instead of the device's memory.
 * While a plan executes, they are transferred to and from staging areas in the arena. Caches, and variables smaller
 * than 32 KiB, always stay in the device's memory. Offloading changes no bit of a result.
 */
typedef enum eitp_offload {
    EITP_OFFLOAD_NONE = 0,
    EITP_OFFLOAD_STATES = 1, /* data used only by updates: optimizer state, and remainders of 16-bit parameters */
    EITP_OFFLOAD_ALL = 2     /* also parameters and gradients */
} eitp_offload;

/* Start from eitp_context_config_default(). */
typedef struct eitp_context_config {
    eitp_host host; /* memory, files and log, for the context and everything created from it */
    /* "cpu", "cuda" or "gpu", "cuda:1", "null", or "auto" (or NULL): the environment's EITP_BACKEND, else "cpu". A list
       such as "cuda,cpu" selects the first available device. */
    const char *device;
    int threads; /* 0: one per processor that the process may use (eitp_processor_info.usable) */
    /* "ref", "avx2", "avx512", "avx512bf16", "amx"; NULL: the environment's EITP_ISA, else the best */
    const char *isa;
    const char *products; /* matrix products by "own" kernels or "openblas"; NULL: the environment's EITP_PRODUCTS */
    /* The dtype in which models store matrices and activations: "fp32" (or NULL), "bf16", "fp16", or "auto" for the
       fastest one on the device. With a 16-bit precision, sums, norms, softmax and losses are computed in F32. */
    const char *precision;
    eitp_parameter_form parameters; /* extra data stored with 16-bit parameters */
    int plans_only;                 /* plans are created but cannot be executed; variables and arena get no memory */
    eitp_offload offload;
    /*
     * The file for offloaded variables. It is created, and removed no later than when the context is destroyed. If the
     * path already names a file with other data, or anything other than a file, eitp_context_create fails with
     * EITP_ERROR_ARGUMENT. While a plan executes, a thread of the library calls the host's `read` and `write` for it.
     * NULL: no file; a device with separate memory then offloads to host memory.
     */
    const char *offload_path;
    int pin_memory; /* 1: page-locks the host memory that a GPU copies to and from, for faster copies */
    /* 1: a GPU may round the factors of fp32 products to TF32 (11 significant bits instead of 24) where that is faster.
       0: it does not. */
    int allow_tf32;
} eitp_context_config;

/* Returns the default host, automatic device, all processors, fp32, exact parameters, no offloading, pinned memory, no
   TF32. */
EITP_API eitp_context_config eitp_context_config_default(void);

/* Creates a context. EITP_ERROR_UNSUPPORTED if the machine or the build lacks the device, or the device lacks a
   requested feature. */
EITP_API eitp_status eitp_context_create(const eitp_context_config *config, eitp_context **context, eitp_error *error);

EITP_API void eitp_context_destroy(eitp_context *context);

/* Returns one line with device, threads and kernels. "" for NULL. */
EITP_API const char *eitp_context_description(const eitp_context *context);

/* Returns a copy of the host that the context was created with; zeros for NULL. */
EITP_API eitp_host eitp_context_host(const eitp_context *context);

/* Returns one word that identifies what determines the bits of a result besides the plan: device, kernels, precision.
   Checkpoints record it. "" for NULL. */
EITP_API const char *eitp_context_numerics(const eitp_context *context);

/* Returns the dtype in which models store matrices and activations: EITP_F32, EITP_BF16 or EITP_F16. EITP_F32 for
   NULL. */
EITP_API eitp_dtype eitp_context_precision(const eitp_context *context);

/* Returns the precision as "fp32", "bf16" or "fp16". "" for NULL. */
EITP_API const char *eitp_context_precision_name(const eitp_context *context);

/* Returns the extra data stored with 16-bit parameters. EITP_PARAMETERS_ROUNDED for NULL. */
EITP_API eitp_parameter_form eitp_context_parameters(const eitp_context *context);

/* Memory of a context's device, in bytes. Zeros if the device uses host memory. */
typedef struct eitp_device_memory {
    int is_separate;      /* 1: the device has separate memory */
    uint64_t free, total; /* of the device, counting all of its users */
    uint64_t allocated;   /* by the context, for its variables and arena */
} eitp_device_memory;

/* Reads the current values. */
EITP_API eitp_status eitp_context_device_memory(const eitp_context *context, eitp_device_memory *memory,
                                                eitp_error *error);

/* Returns the bytes that a run may use so that at most `percent` of the device's memory is in use; at least 1. Returns
   0 if the device uses host memory, and for NULL. */
EITP_API uint64_t eitp_device_budget_default(const eitp_device_memory *memory, double percent);

/* Returns which variables are offloaded. EITP_OFFLOAD_NONE for NULL. */
EITP_API eitp_offload eitp_context_offload(const eitp_context *context);

/* Peak rates of the device, using all threads of the context. */
typedef struct eitp_limits {
    double flops[EITP_DTYPE_COUNT]; /* by dtype of the factors: floating-point operations per second of matrix products
                                       in registers, counting a multiply-add as two; 0: not measured */
    double read;                    /* bytes per second, reading memory */
    double write;                   /* bytes per second, writing memory */
    double update;                  /* bytes per second, read plus written, of a loop that reads four arrays and writes
                                       three */
} eitp_limits;

/* Measures the peak rates: the best of many short repetitions each. Takes seconds, and temporarily uses up to 256 MiB
   of memory. EITP_ERROR_UNSUPPORTED if the device cannot measure them. */
EITP_API eitp_status eitp_context_measure(eitp_context *context, eitp_limits *limits, eitp_error *error);

/* ---- Variables: tensors that live as long as their context ---- */

typedef enum eitp_role {
    EITP_PARAMETER = 0, /* trained, and saved with the model */
    /*
     * Optimizer state, saved with checkpoints and not trained. Without a parent, such a variable is a program's own
     * state, for example a running mean that its graph updates with eitp_accumulate. It is saved in
     * optimizer.safetensors and resumed bit for bit in F32 and F64. If a checkpoint lacks it, it keeps its value, and a
     * message is logged. See docs/training.md for where a task may update it.
     */
    EITP_OPTIMIZER = 1,
    EITP_GRADIENT = 2, /* an accumulated gradient, not saved */
    EITP_CACHE = 3,    /* any other state that outlives an execution, not saved */
    EITP_REMAINDER = 4 /* the difference between a 16-bit parameter and its F32 value, saved as part of that value */
} eitp_role;

/* Number of eitp_role values. */
#define EITP_ROLE_COUNT 5

typedef struct eitp_variable {
    const char *name; /* owned by the context */
    eitp_role role;
    int64_t parent;   /* index of the variable it belongs to, such as the parameter of a gradient; -1: none */
    const char *kind; /* relation to its parent: "gradient", "remainder", "adamw.m", ...; "" without a parent */
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    size_t size;    /* bytes */
    int decay;      /* 1 if weight decay applies; the default for parameters of rank 2 or more */
    int trained;    /* 1 if gradients and updates of the parameter are computed; the default for all parameters */
    int offloaded;  /* 1 if it is kept in the context's file or in the host's memory */
    int borrowed;   /* 1 if it uses the memory of another context, which neither can change: see eitp_model_share */
    int of_learner; /* 1 if it is the parameter of a learner (eitp_pass_learner), which is saved alongside the model */
} eitp_variable;

/* Returns the number of variables; 0 for NULL. */
EITP_API size_t eitp_variable_count(const eitp_context *context);

/* Returns the variable at an index; zeros, with a NULL name, if the index is out of range or the context is NULL. */
EITP_API eitp_variable eitp_variable_at(const eitp_context *context, size_t index);

/* Returns the index of the variable named `name`; -1 if it does not exist or an argument is NULL. */
EITP_API int64_t eitp_variable_find(const eitp_context *context, const char *name);

EITP_API eitp_status eitp_variable_set_decay(eitp_context *context, const char *name, int decay, eitp_error *error);

/*
 * Freezes a parameter (trained 0), or trains it again (trained 1). Graphs built afterwards compute no gradient and keep
 * no optimizer state for a frozen parameter, so it keeps its bits. Freezing a 16-bit parameter removes its remainder,
 * since only updates need it; if there is one, freezing is an error while the context has graphs. A remainder that is
 * not allocated yet never will be.
 */
EITP_API eitp_status eitp_variable_set_trained(eitp_context *context, const char *name, int trained, eitp_error *error);

/*
 * Copies `size` bytes to or from a variable, starting at byte `offset`. `data` may be NULL if size is 0. Variables are
 * allocated, filled with zeros, when a plan that uses them is created, or here on first use. A range beyond the
 * variable is an error, and so is any access in a context with plans_only.
 */
EITP_API eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data,
                                         size_t size, eitp_error *error);
EITP_API eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                                        eitp_error *error);

/*
 * Like eitp_variable_write and eitp_variable_read, but for `count` elements of a floating-point variable as F32,
 * starting at element `first`. For a 16-bit parameter with a remainder, which is a separate variable, the value is
 * stored in both. EITP_ERROR_UNSUPPORTED for other dtypes.
 */
EITP_API eitp_status eitp_variable_write_f32(eitp_context *context, const char *name, int64_t first,
                                             const float *values, int64_t count, eitp_error *error);
EITP_API eitp_status eitp_variable_read_f32(eitp_context *context, const char *name, int64_t first, float *values,
                                            int64_t count, eitp_error *error);

/*
 * Fill a floating-point variable with one value, or with random values: normal, or uniform in [low, high). Random
 * values depend only on the seed, the variable's name and the element's index. EITP_ERROR_UNSUPPORTED for other dtypes.
 */
EITP_API eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error);
EITP_API eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                               uint64_t seed, eitp_error *error);
EITP_API eitp_status eitp_variable_fill_uniform(eitp_context *context, const char *name, double low, double high,
                                                uint64_t seed, eitp_error *error);

/* Returns the bytes of memory used by variables of a role, excluding offloaded and borrowed ones; 0 for NULL. */
EITP_API size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role);

/* Returns the bytes of memory shared by all plans (arena and workspace); 0 for NULL. */
EITP_API size_t eitp_context_arena_bytes(const eitp_context *context);

/*
 * Sets a cancellation callback, polled during operations that may take long: executing plans, compiling kernels for a
 * GPU, filling and loading variables, reading samples. It is called in the thread that called eitp, at least before
 * each op and each sample. It may be called every few microseconds, so keep it to a few instructions, such as returning
 * a flag set by a signal handler. Once it returns nonzero, the operation fails with EITP_ERROR_INTERRUPTED:
 *   - an execution stops unless it has started to change parameters or optimizer state; its results are lost, and
 *     nothing else has changed
 *   - eitp_trainer_step stops likewise, as do eitp_trainer_evaluate and eitp_evaluate: nothing has changed, and
 *     repeating the call later gives the same bits
 *   - eitp_variable_fill and similar functions, and loading of weights or a checkpoint, stop with some of the values
 *     written.
 * eitp_run_train replaces the callback while it trains. NULL: operations are not interrupted.
 */
EITP_API void eitp_context_set_poll(eitp_context *context, int (*poll)(void *user), void *user);

/* ---- Graph and leaves ---- */

EITP_API eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error);
EITP_API void eitp_graph_destroy(eitp_graph *graph);

/* Returns the first error that occurred while the graph was built; EITP_OK if there was none. */
EITP_API eitp_status eitp_graph_status(const eitp_graph *graph, eitp_error *error);

/*
 * Creates a tensor whose value must be written with eitp_plan_write before every execution; otherwise eitp_plan_execute
 * fails. In the functions below, `shape` has `rank` extents of at least 1, and may be NULL if rank is 0. They return
 * NULL for a NULL graph.
 */
EITP_API eitp_tensor *eitp_input(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape);

/*
 * Creates an input whose leading dimension is a capacity: eitp_plan_set_rows sets how many of its rows an execution
 * uses. All such inputs of a graph must have the same capacity. Ops that treat rows independently pass the capacity on
 * to their result; ops that sum over rows sum over those in use.
 */
EITP_API eitp_tensor *eitp_input_rows(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank,
                                      const int64_t *shape);

/*
 * Makes an input keep its value until it is written again, regardless of other plans. Each plan created afterwards has
 * separate memory for it (eitp_plan_stats.kept_bytes). Until it is written, an op that stores into the input, such as
 * eitp_attention_cached, finds zeros. Returns the input. A tensor that is not an input is an error.
 */
EITP_API eitp_tensor *eitp_keep_input(eitp_tensor *input);

/* Returns the context's variable of that name, creating it if there is none. It is an error if its role, dtype or shape
   differs. */
EITP_API eitp_tensor *eitp_variable_tensor(eitp_graph *graph, const char *name, eitp_role role, eitp_dtype dtype,
                                           int rank, const int64_t *shape);

/* Like eitp_variable_tensor, for an F32 parameter. */
EITP_API eitp_tensor *eitp_parameter(eitp_graph *graph, const char *name, int rank, const int64_t *shape);

/*
 * Returns the variable in which the gradient of a parameter is accumulated, creating it if there is none: role
 * EITP_GRADIENT, named "gradient.<parameter>", F32 for 16-bit parameters. For programs that add to it themselves
 * (eitp_accumulate); eitp_apply_gradients applies its contents.
 */
EITP_API eitp_tensor *eitp_gradient_variable(eitp_tensor *parameter);

/* Makes a tensor readable after executions of plans created afterwards. Returns the tensor; NULL for NULL. */
EITP_API eitp_tensor *eitp_output(eitp_tensor *tensor);

/*
 * Names the result of an op, for listings (eitp_graph_format). Names need not be unique, affect neither plans nor
 * results, and are truncated to 255 bytes. NULL removes the name. Inputs and variables keep the name they were created
 * with. Returns the tensor; NULL for NULL.
 */
EITP_API eitp_tensor *eitp_tensor_set_name(eitp_tensor *tensor, const char *name);

/* Returns the name of a tensor, owned by its graph or context. "" if it has none, and for NULL. */
EITP_API const char *eitp_tensor_name(const eitp_tensor *tensor);

/* Return properties of a tensor. For NULL: 0, NULL, and an invalid dtype. A dimension that does not exist has extent
   0. */
EITP_API int eitp_tensor_rank(const eitp_tensor *tensor);
EITP_API int64_t eitp_tensor_dimension(const eitp_tensor *tensor, int dimension); /* negative: from the end */
EITP_API int64_t eitp_tensor_elements(const eitp_tensor *tensor);
EITP_API eitp_dtype eitp_tensor_dtype(const eitp_tensor *tensor);
EITP_API eitp_graph *eitp_tensor_graph(const eitp_tensor *tensor);

/*
 * ---- Ops: values ----
 *
 * Ops on NULL return NULL. An op that fails returns NULL, and the graph keeps the first error: an unsupported dtype,
 * shape or value, or a missing input.
 */

/* A tensor filled with one value. */
EITP_API eitp_tensor *eitp_fill(eitp_graph *graph, eitp_dtype dtype, int rank, const int64_t *shape, double value);

/* The vector 0, 1, ..., count - 1. */
EITP_API eitp_tensor *eitp_arange(eitp_graph *graph, eitp_dtype dtype, int64_t count);

/*
 * ---- Ops: elementwise ----
 *
 * Two operands must have the same dtype; they broadcast as in NumPy. Arithmetic takes floating-point operands only;
 * eitp_less and eitp_equal also compare I32.
 */

EITP_API eitp_tensor *eitp_negate(eitp_tensor *x);
EITP_API eitp_tensor *eitp_abs(eitp_tensor *x); /* gradient 0 at 0 */
EITP_API eitp_tensor *eitp_exp(eitp_tensor *x);
EITP_API eitp_tensor *eitp_log(eitp_tensor *x);
EITP_API eitp_tensor *eitp_sqrt(eitp_tensor *x);
EITP_API eitp_tensor *eitp_rsqrt(eitp_tensor *x); /* 1 / sqrt(x) */
EITP_API eitp_tensor *eitp_sin(eitp_tensor *x);   /* x in radians */
EITP_API eitp_tensor *eitp_cos(eitp_tensor *x);   /* x in radians */
EITP_API eitp_tensor *eitp_tanh(eitp_tensor *x);
EITP_API eitp_tensor *eitp_sigmoid(eitp_tensor *x);
EITP_API eitp_tensor *eitp_relu(eitp_tensor *x); /* gradient 0 at 0 */
EITP_API eitp_tensor *eitp_erf(eitp_tensor *x);
EITP_API eitp_tensor *eitp_affine(eitp_tensor *x, double scale, double shift); /* scale * x + shift */
EITP_API eitp_tensor *eitp_clamp(eitp_tensor *x, double low, double high);     /* gradient 1 in [low, high] */
EITP_API eitp_tensor *eitp_cast(eitp_tensor *x, eitp_dtype dtype);
EITP_API eitp_tensor *eitp_add(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_subtract(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_multiply(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_divide(eitp_tensor *a, eitp_tensor *b);

/* NaN if either operand is NaN. Equal operands get half of the gradient each, as in PyTorch. */
EITP_API eitp_tensor *eitp_minimum(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_maximum(eitp_tensor *a, eitp_tensor *b);

EITP_API eitp_tensor *eitp_less(eitp_tensor *a, eitp_tensor *b);                          /* U8, 0 or 1 */
EITP_API eitp_tensor *eitp_equal(eitp_tensor *a, eitp_tensor *b);                         /* U8, 0 or 1 */
EITP_API eitp_tensor *eitp_where(eitp_tensor *condition, eitp_tensor *a, eitp_tensor *b); /* condition U8 */

/* Returns the value of x and blocks its gradient. */
EITP_API eitp_tensor *eitp_stop_gradient(eitp_tensor *x);

/*
 * ---- Ops: shape ----
 *
 * A negative `dimension` counts from the end.
 */

EITP_API eitp_tensor *eitp_reshape(eitp_tensor *x, int rank, const int64_t *shape); /* one extent may be -1: inferred */
EITP_API eitp_tensor *eitp_broadcast(eitp_tensor *x, int rank, const int64_t *shape);
EITP_API eitp_tensor *eitp_permute(eitp_tensor *x, const int *order); /* dimension i of the result is order[i] of x */
EITP_API eitp_tensor *eitp_transpose(eitp_tensor *x);                 /* swaps the last two dimensions */
EITP_API eitp_tensor *eitp_slice(eitp_tensor *x, int dimension, int64_t begin, int64_t end); /* end is exclusive */

/* x[begin:end:step] as in Python, along `dimension`; step is 1 or more. */
EITP_API eitp_tensor *eitp_slice_step(eitp_tensor *x, int dimension, int64_t begin, int64_t end, int64_t step);

EITP_API eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after); /* with zeros */

/* Joins `count` tensors along `dimension`; NULL if count is below 1. */
EITP_API eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension);

/*
 * y[.., i, ..] = x[.., indices[.., i, ..], ..] along `dimension`. indices is I32, with the rank of x and its extents in
 * all other dimensions. Along dimension 0, x, indices or both may have a capacity of rows (eitp_input_rows). An index
 * out of range, or of a row that is not in use, gives zeros.
 */
EITP_API eitp_tensor *eitp_gather(eitp_tensor *x, eitp_tensor *indices, int dimension);

/* The transpose of gather: adds x at the indices to zeros with `extent` along `dimension`. Ignores indices out of
   range. */
EITP_API eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent);

/*
 * ---- Ops: reductions ----
 *
 * Over a set of dimensions: bit i of `dimensions` stands for dimension i; a bit beyond the rank is an error. With
 * `keep`, reduced dimensions stay with extent 1. Sums and means of 16-bit values are F32. A reduction to a single
 * number has shape [1].
 */
#define EITP_ALL_DIMENSIONS 0xffffffffu
EITP_API eitp_tensor *eitp_sum(eitp_tensor *x, unsigned dimensions, int keep);
EITP_API eitp_tensor *eitp_mean(eitp_tensor *x, unsigned dimensions, int keep); /* not over rows of a capacity */
EITP_API eitp_tensor *eitp_max(eitp_tensor *x, unsigned dimensions, int keep);  /* equal maxima share the gradient */

/*
 * Index, in I32, of the largest element along one dimension, which may be negative to count from the end. Of equal
 * elements, the first; if there are NaNs, the first NaN, as in NumPy. With `keep`, the result can index eitp_gather. It
 * has no gradient.
 */
EITP_API eitp_tensor *eitp_argmax(eitp_tensor *x, int dimension, int keep);

/* ---- Ops: products and networks ---- */

/* a [.., m, k] times b [.., k, n]; batch dimensions broadcast. With transpose_a, a is [.., k, m]; with transpose_b, b
 * is [.., n, k]. */
EITP_API eitp_tensor *eitp_matmul(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_matmul_transposed(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b);

/* Like eitp_matmul_transposed, but 16-bit operands give an F32 result, without rounding the sums to 16 bits. */
EITP_API eitp_tensor *eitp_matmul_wide(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b);

typedef enum eitp_activation {
    EITP_NO_ACTIVATION = 0,
    EITP_RELU = 1,
    EITP_GELU_TANH = 2, /* Hendrycks and Gimpel, arXiv 1606.08415, the tanh approximation */
    EITP_GELU_ERF = 3,  /* the same paper, exact */
    EITP_TANH = 4,
    EITP_SIGMOID = 5,
    EITP_SILU = 6 /* x sigmoid(x); Elfwing et al., arXiv 1702.03118 */
} eitp_activation;

/* activation(x weight + bias), with x [n, in], weight [in, out] and bias [out], which may be NULL. The bias is F32 if x
 * is 16-bit. */
EITP_API eitp_tensor *eitp_linear(eitp_tensor *x, eitp_tensor *weight, eitp_tensor *bias, eitp_activation activation);

EITP_API eitp_tensor *eitp_gelu_tanh(eitp_tensor *x);
EITP_API eitp_tensor *eitp_gelu_erf(eitp_tensor *x);
EITP_API eitp_tensor *eitp_silu(eitp_tensor *x);
EITP_API eitp_tensor *eitp_softmax(eitp_tensor *x);     /* over the last dimension */
EITP_API eitp_tensor *eitp_log_softmax(eitp_tensor *x); /* over the last dimension */

/* Over the last dimension: (x - mean) / sqrt(variance + epsilon) * gain + bias (Ba, Kiros, Hinton, arXiv 1607.06450).
 * x has rank 2 or more; gain and bias [c] are F32 if x is 16-bit. */
EITP_API eitp_tensor *eitp_layer_norm(eitp_tensor *x, eitp_tensor *gain, eitp_tensor *bias, double epsilon);

/* Over the last dimension: x / sqrt(mean(x^2) + epsilon) * gain (Zhang and Sennrich, arXiv 1910.07467). x has rank 2 or
 * more; gain [c] is F32 if x is 16-bit. */
EITP_API eitp_tensor *eitp_rms_norm(eitp_tensor *x, eitp_tensor *gain, double epsilon);

/*
 * Looks up rows of table [v, c] for ids I32 [n]; the result is [n, c]. An id out of range gives zeros, so check ids
 * where they are read. The table may have a capacity of rows, like hidden states; ids of rows that are not in use are
 * out of range.
 */
EITP_API eitp_tensor *eitp_embedding(eitp_tensor *table, eitp_tensor *ids);

/*
 * Like eitp_embedding, with a gradient that is summed by distinct id before it is added to the table's gradient.
 * `unique` I32 [u] lists the distinct ids of a whole step, followed by -1 if there are fewer than u; `inverse` I32 [n]
 * is the index of each of `ids` in it, as returned by torch.unique. If the table has other uses too (for example, tied
 * to the output head), its gradient then has the same bits regardless of the number of passes that accumulate it: see
 * eitp_accumulate_gradients.
 */
EITP_API eitp_tensor *eitp_embedding_unique(eitp_tensor *table, eitp_tensor *ids, eitp_tensor *unique,
                                            eitp_tensor *inverse);

/*
 * Zeroes each element with `probability`, in [0, 1), and scales the others by 1 / (1 - probability). `key` is I64 [3]:
 * the seed, the step, and the index of row 0 within the step, so a step draws the same values regardless of its
 * division into micro-batches. Probability 0 returns x.
 */
EITP_API eitp_tensor *eitp_dropout(eitp_tensor *x, eitp_tensor *key, double probability);

/* Scaling of rotary frequencies, for longer sequences than a model was first trained on. */
typedef enum eitp_rotary_scaling {
    EITP_ROTARY_UNSCALED = 0,
    EITP_ROTARY_LINEAR = 1, /* all divided by `factor` (Chen et al., arXiv 2306.15595) */
    EITP_ROTARY_LLAMA3 = 2  /* as in Llama 3.1: frequencies that turn less than low_frequency_factor times in
                               original_positions are divided by `factor`, those that turn more than
                               high_frequency_factor times are unchanged, and those in between are interpolated */
} eitp_rotary_scaling;

/* Start from eitp_rotary_config_default(), then set the width. */
typedef struct eitp_rotary_config {
    int64_t width; /* d, the width of a head; even */
    double theta;  /* pair i of d / 2 turns by theta^(-2 i / d) from one position to the next */
    eitp_rotary_scaling scaling;
    double factor;
    double low_frequency_factor, high_frequency_factor;
    int64_t original_positions;
} eitp_rotary_config;

/* Returns theta 10000, unscaled. Positions and the other factors are Llama 3.1's, except `factor`, which is 1. */
EITP_API eitp_rotary_config eitp_rotary_config_default(void);

/*
 * The rotations of rotary position embeddings (Su et al., arXiv 2104.09864) for eitp_attention: F32 [n, d], for each of
 * the positions I32 [n] the cosines of d / 2 angles, then their sines. Elements i and i + d / 2 of a head form a pair,
 * as in Hugging Face files. Angles are rounded to f32 as in transformers. It has no gradient.
 */
EITP_API eitp_tensor *eitp_rotary(eitp_tensor *positions, const eitp_rotary_config *config);

/* Start from eitp_attention_config_default(), then set heads, max_length and scale. */
typedef struct eitp_attention_config {
    int heads;
    int key_value_heads;    /* heads of keys and values, a divisor of `heads`; 0: same as heads */
    int64_t max_length;     /* maximum number of rows in a sequence, up to 2^24 */
    double scale;           /* factor of the scores; usually 1 / sqrt(d) */
    double dropout;         /* of the attention probabilities, in [0, 1) */
    int bidirectional;      /* 0: a row attends to itself and the rows before it; 1: to all rows of its sequence */
    int64_t sliding_window; /* for causal attention: a row attends to the last `sliding_window` of these; 0: to all */
} eitp_attention_config;

/* Returns one head, causal, scale 1, no dropout, no window. */
EITP_API eitp_attention_config eitp_attention_config_default(void);

/* Start from eitp_attention_inputs_default(), then set the members that apply. All but q and offsets may be NULL. */
typedef struct eitp_attention_inputs {
    eitp_tensor *q;        /* queries [n, heads d]; without k and v, q, k and v side by side: [n, 3c], c = heads d */
    eitp_tensor *k, *v;    /* keys [n, h d] and values [n, h e], both or neither; h is the number of their heads */
    eitp_tensor *offsets;  /* I32 [sequences + 1]: sequence i is rows [offsets[i], offsets[i + 1]) */
    eitp_tensor *lengths;  /* I32 [sequences]: the rows of sequence i after the first lengths[i] are padding */
    eitp_tensor *mask;     /* broadcasts to [sequences, heads, max_length, max_length] */
    eitp_tensor *key;      /* as for eitp_dropout; NULL: no dropout */
    eitp_tensor *rotation; /* from eitp_rotary, [n, d]: rotates each head of q and k; it has no gradient */
} eitp_attention_inputs;

/* Returns inputs that are all NULL. */
EITP_API eitp_attention_inputs eitp_attention_inputs_default(void);

/*
 * Self-attention over packed sequences, [n, heads e]: softmax(scale * q k^T + mask) v in each head (Vaswani et al.,
 * arXiv 1706.03762). If there are fewer heads of keys and values, consecutive heads of queries share one (Ainslie et
 * al., arXiv 2305.13245); side by side they are then [n, (heads + 2h) d]. The offsets must ascend, and no sequence may
 * be longer than `max_length`: eitp_plan_write fails for other values. No row attends to padding. Padding, and rows in
 * no sequence, give zeros.
 *
 * The mask is U8, 0 where a query must not attend to a key; or it is added to the scores, in F32 (F64 if q is), with
 * minus infinity where a query must not attend. So a mask [heads, max_length, max_length] is a bias by position in the
 * sequence. A query whose keys are all masked gives zeros.
 *
 * A device without a kernel for these inputs pads them to `max_length` and stores the scores of that size, which takes
 * much more memory and time. The CPU has kernels for attention without a mask whose values are as wide as its keys.
 */
EITP_API eitp_tensor *eitp_attention(const eitp_attention_inputs *inputs, const eitp_attention_config *config);

/*
 * Attention of new rows to a key-value cache, for generation. q, k, v and the rotation are as in eitp_attention; other
 * inputs are ignored. Uses heads, scale and window of the configuration. Row i has position position[0] + i (I32 [1]);
 * its rotated key and its value are stored in `keys` and `values` [max_length, h d]. These are variables, which plans
 * share, or inputs of eitp_keep_input, which each plan has separately. It has no gradient.
 */
EITP_API eitp_tensor *eitp_attention_cached(const eitp_attention_inputs *inputs, eitp_tensor *keys, eitp_tensor *values,
                                            eitp_tensor *position, const eitp_attention_config *config);

/* Methods of pooling the rows of a sequence into one. */
typedef enum eitp_pooling {
    EITP_POOLING_FIRST = 0, /* the first row: [CLS] in BERT */
    EITP_POOLING_LAST = 1,
    EITP_POOLING_MEAN = 2
} eitp_pooling;

/*
 * Pools each sequence of x [n, c] into one row; the result is [sequences, c]. `offsets` is as in eitp_attention, or
 * bounds I32 [sequences, 2]: the first row of each sequence and the row after its last, which need not ascend. No
 * sequence may have more than max_length rows. The mean of 16-bit rows is F32. The mean of an empty sequence is 0; its
 * first and last rows are meaningless.
 */
EITP_API eitp_tensor *eitp_pool(eitp_tensor *x, eitp_tensor *offsets, int64_t max_length, eitp_pooling pooling);

/*
 * The negative log-likelihood of each row in nats: logits [n, v], targets I32 [n]; 0 if the target is `ignored`. The
 * caller takes the mean. eitp_plan_write fails for other targets outside [0, v); if targets are computed instead of an
 * input, the loss and gradient of such a row are NaN, and updates skip the step. Losses of 16-bit logits are F32.
 */
EITP_API eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored);

/*
 * Like eitp_cross_entropy, for the logits x table^T, with x [n, c] and the table [v, c] of an output head. In 16-bit
 * precision, the exponentials of the logits relative to the largest of a block are stored in 16 bits instead of the
 * logits. In any precision, a plan stores at most 256 MiB of them at a time, or 1/16 of the memory of a GPU, unless
 * something else reads them, the gradient of a loss depends on the losses, or the table is offloaded.
 */
EITP_API eitp_tensor *eitp_linear_cross_entropy(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                                int32_t ignored);

/* Start from eitp_cross_entropy_config_default(). */
typedef struct eitp_cross_entropy_config {
    int32_t ignored;        /* target of rows whose loss is 0 */
    double label_smoothing; /* s, in [0, 1] */
    eitp_tensor *weights;   /* class weights w [v], F32 (F64 if the logits are F64); NULL: 1 for every class */
} eitp_cross_entropy_config;

/* Returns ignored target -1, no smoothing, no class weights. */
EITP_API eitp_cross_entropy_config eitp_cross_entropy_config_default(void);

/*
 * Like the functions above, with class weights and label smoothing (Szegedy et al., arXiv 1512.00567). The loss of a
 * row with target t is -(1 - s) w[t] log p[t] - s / v * sum over classes j of w[j] log p[j], as in
 * torch.nn.CrossEntropyLoss with reduction "none"; its "mean" divides the sum of the losses by the sum of w[t] over the
 * rows that are not ignored.
 *
 * With smoothing, the gradient of eitp_cross_entropy_with needs up to two more tensors of the size of the logits. The
 * gradient of eitp_linear_cross_entropy_with needs two more of the size of x (in 16 bits with weights, also the table
 * in F32); it stores logits only where eitp_linear_cross_entropy does.
 */
EITP_API eitp_tensor *eitp_cross_entropy_with(eitp_tensor *logits, eitp_tensor *targets,
                                              const eitp_cross_entropy_config *config);
EITP_API eitp_tensor *eitp_linear_cross_entropy_with(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                                     const eitp_cross_entropy_config *config);

/*
 * Entropy in nats of the softmax over the last dimension: logits [.., v], result [..], or [1] for a vector. A logit of
 * minus infinity has probability 0 and contributes nothing; a row of only these has entropy 0. The entropy of 16-bit
 * logits is F32.
 */
EITP_API eitp_tensor *eitp_softmax_entropy(eitp_tensor *logits);

/*
 * ---- Ops: matrices ----
 *
 * Functions of symmetric positive definite matrices a [.., m, m], F32 or F64. One thread computes each matrix in F64 by
 * Cholesky factorization, with about 8 m^2 bytes of scratch memory per thread. The function is applied to (a + a^T) /
 * 2, so its gradient is symmetric. A matrix that is not positive definite gives NaN.
 */

/* The natural logarithm of the determinant: [..], or [1] for one matrix. Its gradient is the inverse. */
EITP_API eitp_tensor *eitp_logdet(eitp_tensor *a);

/* The inverse, exactly symmetric. */
EITP_API eitp_tensor *eitp_inverse_spd(eitp_tensor *a);

/* ---- Gradients ---- */

/*
 * Writes the gradients of y with respect to each of the `count` tensors xs to `gradients`. `seed` weights the elements
 * of y and has its shape; NULL: ones. Gradients are ordinary tensors and can be differentiated again. The gradient of
 * an x that y does not depend on is a tensor of zeros. The gradient of a 16-bit parameter is F32.
 */
EITP_API eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                                    eitp_tensor **gradients, eitp_error *error);

/*
 * Adds the gradient of `loss`, a single number, with respect to every trained parameter of the graph to its variable
 * (eitp_gradient_variable): gradient = carry[0] * gradient + new. `carry` is F32 [1], 0 for the first micro-batch of a
 * step and 1 for the others; NULL: 1. Rows that eitp_embedding_unique sums by distinct id are accumulated separately, u
 * rows in "gradient_rows.<u>.<parameter>", and added by the update.
 *
 * The division of rows into passes changes no bit of a parameter's gradient if the parameter has a single use that sums
 * over rows:
 *   - as weight [k, m] or bias of a product
 *   - as table of eitp_embedding or eitp_linear_cross_entropy
 *   - as gain or bias of eitp_layer_norm, or gain of eitp_rms_norm
 *   - as a vector of several elements that broadcasts over rows in +, -, *, /, minimum or maximum
 * The parameter may be cast or reshaped before the use. With several uses, or for a scalar parameter, or if a slice or
 * another function of it is used, the last bits depend on the division. A trainer extends this to parameters with up to
 * four uses: see eitp_task.
 */
EITP_API eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error);

/* target = carry * target + x, where target is the tensor of a variable; NULL carry: 1. Returns the new value. */
EITP_API eitp_tensor *eitp_accumulate(eitp_tensor *target, eitp_tensor *x, eitp_tensor *carry);

/*
 * ---- Directional derivatives ----
 *
 * With J the Jacobian of y with respect to x, eitp_gradients with a seed w gives J^T w, and eitp_jacobian_product gives
 * J v; J itself is never stored. Random signs v estimate sums over all of J (Hutchinson, 1989): the mean of v^T J v is
 * the trace of a square J, and the mean of the sum of squares of J^T v is the squared Frobenius norm. One v gives an
 * unbiased estimate; report the mean of several with its standard error. If y is itself a gradient, J is a Hessian.
 */

/*
 * Computes J v: the derivative of y with respect to x in direction v, with y's shape and dtype. v has the shape of x
 * and a floating-point dtype. It is exact, not a finite difference; it can be differentiated again, and is 0 if y does
 * not depend on x.
 *
 * It is the gradient of a gradient, so ops with a fused gradient are expanded into their definition; attention then
 * stores scores of size `max_length` for every sequence. An op without a gradient is an error.
 */
EITP_API eitp_tensor *eitp_jacobian_product(eitp_tensor *y, eitp_tensor *x, eitp_tensor *v);

/* ---- Plan ---- */

/* Values that a plan recomputes when they are needed late, instead of keeping them. This changes no bit of a result. */
typedef enum eitp_recompute {
    EITP_RECOMPUTE_AUTO = 0,      /* as few as the memory limit requires */
    EITP_RECOMPUTE_NONE = 1,      /* none */
    EITP_RECOMPUTE_ATTENTION = 2, /* all except matrix products: attention, activations, norms */
    EITP_RECOMPUTE_LAYER = 3      /* all that save memory: whole layers */
} eitp_recompute;

/* A memory limit that selects the smallest possible plan. A plan with this limit is never too large. */
#define EITP_MINIMUM_MEMORY ((size_t)1)

/* Start from eitp_plan_config_default(). */
typedef struct eitp_plan_config {
    size_t memory; /* limit in bytes for arena and workspace together; 0: none; or EITP_MINIMUM_MEMORY */
    eitp_recompute recompute;
} eitp_plan_config;

/* Returns no limit, EITP_RECOMPUTE_AUTO. */
EITP_API eitp_plan_config eitp_plan_config_default(void);

/* Parts of a model, for counting arithmetic. Gradients count towards the part they are the gradient of. */
typedef enum eitp_component {
    EITP_COMPONENT_OTHER = 0, /* norms, residual sums, dropout, and ops added by a program */
    EITP_COMPONENT_EMBEDDING = 1,
    EITP_COMPONENT_PROJECTIONS = 2, /* of attention: queries, keys, values and output, with their adapters */
    EITP_COMPONENT_ATTENTION = 3,   /* scores, and sums of values */
    EITP_COMPONENT_MLP = 4,
    EITP_COMPONENT_HEAD = 5,     /* logits or scores, and the losses of rows */
    EITP_COMPONENT_OPTIMIZER = 6 /* clipping and the update */
} eitp_component;

enum { EITP_COMPONENT_COUNT = 7 };

/* Floating-point operations of a component. */
typedef struct eitp_flops {
    double forward, backward; /* without operations that recompute values; 0 for the optimizer */
    double recomputed;
    double total; /* all of them, including the optimizer's */
} eitp_flops;

typedef struct eitp_plan_stats {
    size_t arena_bytes;     /* tensors of the plan */
    size_t workspace_bytes; /* scratch memory of its kernels */
    size_t peak_bytes;      /* most tensor bytes live at once: a lower bound of arena_bytes */
    size_t kept_bytes;      /* inputs of eitp_keep_input, in addition to arena and workspace */
    int nodes, recomputed;  /* nodes executed, and the number of them that recompute a value */
    double flops, recomputed_flops;
    /* flops by eitp_component */
    eitp_flops components[EITP_COMPONENT_COUNT];
    double seconds;                 /* estimate from the nominal speed of device and file */
    double file_reads, file_writes; /* bytes of offloaded variables transferred per execution */
} eitp_plan_stats;

/*
 * Compiles the nodes needed by the graph's outputs and updates for execution. Ops without a kernel in the backend are
 * expanded into others. A graph without outputs and updates is an error.
 *
 * All plans of a context share one arena, so the values of a plan's inputs and outputs are short-lived. An input must
 * be written before each execution, and loses its value when another plan of the context is created, written or
 * executed. An output can be read after an execution until then, or until an input of its plan is written.
 * eitp_plan_execute and eitp_plan_read fail if a value was lost.
 */
EITP_API eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error);
EITP_API void eitp_plan_destroy(eitp_plan *plan);

/*
 * Like eitp_plan_create, within a memory limit. `config` NULL: no limit. EITP_ERROR_MEMORY if the plan does not fit;
 * the message gives the smallest sufficient limit. In a context with plans_only, a plan that does not fit is created
 * anyway.
 */
EITP_API eitp_status eitp_plan_create_with(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                           eitp_error *error);

/* Computes the statistics of the plan that eitp_plan_create_with would create, without allocating memory for its
   execution. If no plan fits, they describe the smallest plan found. */
EITP_API eitp_status eitp_plan_estimate(eitp_graph *graph, const eitp_plan_config *config, eitp_plan_stats *stats,
                                        eitp_error *error);

/* Returns the statistics of a plan; zeros for NULL. */
EITP_API eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan);

/* Sets the number of rows in use of the graph's capacity; initially all. An error if the graph has no capacity. */
EITP_API eitp_status eitp_plan_set_rows(eitp_plan *plan, int64_t rows, eitp_error *error);

/*
 * Writes all of an input, or reads all of an output, including variables. `size` is its size in bytes; for a tensor
 * with a capacity, the size of the rows in use. eitp_plan_write fails for values that an op refuses, such as a target
 * that is not a class. Reading an offloaded variable gives EITP_ERROR_UNSUPPORTED: use eitp_variable_read.
 */
EITP_API eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size,
                                     eitp_error *error);
EITP_API eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error);

/* Executes the plan once. Every input that it reads must have been written since its last execution, except inputs of
   eitp_keep_input, which must have been written once; the message names an input that was not. Allocates nothing. */
EITP_API eitp_status eitp_plan_execute(eitp_plan *plan, eitp_error *error);

/* ---- Profiles ---- */

/* The role of a matrix product in training. */
typedef enum eitp_product {
    EITP_PRODUCT_NONE = 0,           /* not a product, or one without a parameter */
    EITP_PRODUCT_FORWARD = 1,        /* the plan's first product with a parameter */
    EITP_PRODUCT_INPUT_GRADIENT = 2, /* a later product with that parameter */
    EITP_PRODUCT_WEIGHT_GRADIENT = 3 /* a product of two computed values, the first transposed */
} eitp_product;

/* Phases of training that ops belong to. */
typedef enum eitp_phase {
    EITP_PHASE_FORWARD = 0,
    EITP_PHASE_BACKWARD = 1, /* includes recomputation of the forward pass */
    EITP_PHASE_UPDATE = 2    /* clipping and the optimizer */
} eitp_phase;

/* Kinds of work, for grouping times. */
typedef enum eitp_work {
    EITP_WORK_OTHER = 0,
    EITP_WORK_PRODUCT = 1, /* of matrices */
    EITP_WORK_HEAD = 2,    /* products with a vocabulary, and their loss */
    EITP_WORK_ATTENTION = 3,
    EITP_WORK_NORM = 4,
    EITP_WORK_ACTIVATION = 5,
    EITP_WORK_LOSS = 6,
    EITP_WORK_UPDATE = 7
} eitp_work;

/* One step of an execution: an op, or several ops fused into one. */
typedef struct eitp_profile {
    const char *op; /* "matmul", "layer_norm", ... */
    eitp_phase phase;
    eitp_work work;
    eitp_product product;
    const char *variable; /* the parameter it reads, else the variable it changes, else the parameter whose gradient it
                             computes, or "". Owned by the context. */
    eitp_dtype dtype;     /* of its operands */
    double flops;         /* of the rows in use */
    double bytes_read, bytes_written; /* of all operands, cached or not; of a table, only the rows it uses */
    double seconds;
} eitp_profile;

/* Receives the profile of each step right after its execution, in the thread that called eitp_plan_execute. */
typedef struct eitp_profiler {
    void *user;
    void (*step)(void *user, const eitp_profile *profile);
} eitp_profiler;

/* Makes the context's plans execute step by step, and measures each step. `profiler` is copied; NULL ends profiling.
   Results are the same. Profiled executions are slower, since the threads synchronize after each step. */
EITP_API void eitp_context_profile(eitp_context *context, const eitp_profiler *profiler);

/* ---- Non-finite values ---- */

/* The first non-finite value, and its origin. */
typedef struct eitp_nonfinite {
    const char *op;   /* the op that produced it or, if `source` is set, that read it; NULL: none was found */
    char source[120]; /* the variable or input that held it; "": the op produced it from finite values */
    char place[120];  /* variable of the op (see eitp_profile) or, if it has none, of the last op before it; "": none */
    eitp_dtype dtype; /* of the tensor that holds it */
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int64_t index; /* index of the first such element, in row-major order */
    double value;  /* NaN or an infinity */
} eitp_nonfinite;

/*
 * Makes the context's plans check the operands of every op, and stores the first finding in *first, which is cleared
 * here and must stay valid until the next call. Clear `op` to search again. NULL ends the checks. Executions take
 * several times as long and give the same results.
 *
 * The checks find NaNs produced by an op, infinities that it produced from finite values, and variables that hold
 * either. Infinities in inputs and constants, such as masks of -inf, are accepted, and so are infinities that result
 * from them. Nothing is checked while the context is profiled.
 */
EITP_API void eitp_context_check_finite(eitp_context *context, eitp_nonfinite *first);

/* Describes the value in words: "op log at 'h.0.ln_1.weight' made -inf from finite values, in element 3 of its result
   (f32 [2, 4])". Empty if nothing was found. */
EITP_API void eitp_nonfinite_format(const eitp_nonfinite *found, char *text, size_t size);

/* ---- Listings ---- */

typedef enum eitp_graph_listing {
    EITP_GRAPH_TEXT = 0, /* a line for each op and each leaf */
    EITP_GRAPH_DOT = 1   /* the input of Graphviz: dot -Tsvg */
} eitp_graph_listing;

/*
 * Lists a graph in order of creation, gradients and updates included. The inputs of an op are on earlier lines:
 *
 *     %0 = input           f32 [<=4, 3]  arena 128+64 to step 0           x
 *     %1 = parameter       f32 [3, 5]                                     layer.weight
 *     %2 = matmul(%0, %1)  f32 [<=4, 5]  fused into step 0
 *     %3 = gelu_tanh(%2)   f32 [<=4, 5]  step 0, arena 0+128 to step 1    hidden
 *
 * %0, %1, ... are tensors. "-" is an absent input, "<=" marks a capacity of rows. The last column has names
 * (eitp_tensor_set_name). `plan`, a plan of this graph, adds the fate of each node; it may be NULL:
 *   output                    eitp_output was called
 *   step 9                    the step of an execution that computes it
 *   fused into step 9         that step computes it on the way to another value; it has no memory
 *   arena 128+64 to step 9    offset and bytes in the arena, in use until that step
 *   recomputed in step 7      recomputed there instead of being kept; "and 2 more": in two later steps too
 *   view of %4, in %4         the memory of another tensor, unchanged or overwritten
 *   computed as %12           the device has no kernel for it; later lines compute it with other ops
 *   kept, offloaded, unused   inputs of eitp_keep_input, variables in the file, inputs that nothing reads
 *   not in the plan           no output and no update needs it
 * For a graph that failed, lists the nodes before the failure, then the error.
 *
 * Stores the full length in *size, without the terminating zero, and as much of the listing as fits in the `capacity`
 * bytes of `text`, which may be NULL if capacity is 0. An unknown listing, or a plan of another graph, is an error.
 */
EITP_API eitp_status eitp_graph_format(const eitp_graph *graph, const eitp_plan *plan, eitp_graph_listing listing,
                                       char *text, size_t capacity, size_t *size, eitp_error *error);

EITP_END_DECLARATIONS

#endif
