/*
 * Contexts, graphs, tensors, ops, gradients and plans.
 *
 * A context owns the parameters and the memory that plans run in. A graph is built lazily: an op checks its inputs,
 * adds a node and returns a tensor; nothing is computed. A plan makes a graph ready to run: after eitp_plan_create
 * nothing allocates.
 *
 * Graph building reports its first error once: an op that fails returns NULL, ops on NULL return NULL, and
 * eitp_graph_status and eitp_plan_create give that first error.
 *
 * A context and everything made from it belong to one thread at a time; two contexts are independent.
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

/* What models keep of a 16-bit parameter beside its 16 bits; F32 parameters are whole. */
typedef enum eitp_parameter_form {
    EITP_PARAMETERS_ROUNDED = 0,  /* nothing: enough to evaluate; updates round stochastically */
    EITP_PARAMETERS_EXACT = 1,    /* all that is missing of the F32 value */
    EITP_PARAMETERS_CORRECTED = 2 /* 8 bits of it; BF16 only */
} eitp_parameter_form;

/*
 * What is kept in a file instead of memory, and moved to and from windows of the arena while plans run. Variables
 * smaller than 32 KiB, and caches, are always in memory. Results are the same bits.
 */
typedef enum eitp_offload {
    EITP_OFFLOAD_NONE = 0,
    EITP_OFFLOAD_STATES = 1, /* optimizer state, and remainders of 16-bit parameters: what only updates use */
    EITP_OFFLOAD_ALL = 2     /* parameters and gradients too */
} eitp_offload;

typedef struct eitp_context_config {
    eitp_host host;       /* memory, files and log of everything made from the context */
    const char *device;   /* "auto" (EITP_BACKEND, else the best there is), "cpu" or "null" */
    int threads;          /* 0: one for each processor */
    const char *isa;      /* "ref", "avx2", "avx512", "avx512bf16", "amx"; NULL: EITP_ISA, else the best there is */
    const char *products; /* matrix products by "own" kernels or "openblas"; NULL: EITP_PRODUCTS, else own */
    /*
     * What models keep their matrices and activations in: "fp32" (or NULL), "bf16", "fp16", or "auto": what the device
     * multiplies fastest. 16-bit precision computes sums, norms, softmax and losses in f32.
     */
    const char *precision;
    eitp_parameter_form parameters; /* what models keep of 16-bit parameters */
    int plans_only;                 /* nothing will run: plans are made, and variables and arena get no memory */
    eitp_offload offload;
    /*
     * The file for it, which is made, and lost when the context is destroyed or the process ends. While a plan runs,
     * a thread of eitp's own calls the host's `read` and `write` of this file.
     */
    const char *offload_path;
} eitp_context_config;

/* Automatic device, fp32, exact parameters. Begin with this: a host without functions is refused. */
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

/* What models of the context keep their matrices and activations in: EITP_F32, EITP_BF16 or EITP_F16. */
EITP_API eitp_dtype eitp_context_precision(const eitp_context *context);

/* What models of the context keep of 16-bit parameters. */
EITP_API eitp_parameter_form eitp_context_parameters(const eitp_context *context);

/* What the context keeps in a file. */
EITP_API eitp_offload eitp_context_offload(const eitp_context *context);

/* Its precision as "fp32", "bf16" or "fp16". */
EITP_API const char *eitp_context_precision_name(const eitp_context *context);

/* What the device can do at most, with all threads of the context. */
typedef struct eitp_limits {
    double flops[EITP_DTYPE_COUNT]; /* by dtype of the factors: operations of matrix products in registers a second, a
                                       product and a sum being two; 0: not measured */
    double read;                    /* bytes a second that can be read from memory, */
    double write;                   /* written to it, */
    double update; /* and read and written by an update: four arrays read, three of them written in place */
} eitp_limits;

/*
 * Measures them, each the best of many short repetitions: it takes seconds, and 256 MiB that are given back (fewer
 * where there are not as many). EITP_ERROR_UNSUPPORTED where the device cannot tell.
 */
EITP_API eitp_status eitp_context_measure(eitp_context *context, eitp_limits *limits, eitp_error *error);

/* ---- Variables: tensors that live as long as the context ---- */

typedef enum eitp_role {
    EITP_PARAMETER = 0, /* trained, saved with the model */
    EITP_OPTIMIZER = 1, /* optimizer state, saved with a checkpoint */
    EITP_GRADIENT = 2,  /* an accumulated gradient, not saved */
    EITP_CACHE = 3,     /* anything else that outlives a run, not saved */
    EITP_REMAINDER = 4  /* what a 16-bit parameter lacks of its F32 value; saved in that value, with the parameter */
} eitp_role;

typedef struct eitp_variable {
    const char *name; /* belongs to the context */
    eitp_role role;
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    size_t size;   /* bytes */
    int decay;     /* does weight decay apply? By default to parameters of rank 2 and more */
    int trained;   /* of a parameter: do gradients and updates concern it? By default they do */
    int offloaded; /* is it in the context's file? */
} eitp_variable;

EITP_API size_t eitp_variable_count(const eitp_context *context);

/* The variable of an index; zeros, with a NULL name, where there is none of it. */
EITP_API eitp_variable eitp_variable_at(const eitp_context *context, size_t index);

/* The index of the variable called `name`, or -1. */
EITP_API int64_t eitp_variable_find(const eitp_context *context, const char *name);

EITP_API eitp_status eitp_variable_set_decay(eitp_context *context, const char *name, int decay, eitp_error *error);

/*
 * Freezes a parameter (trained 0), or trains it again. Graphs built from now on compute no gradient of a frozen one,
 * and keep no optimizer state for it: it has the bits that were written to it, whatever is trained. One of 16 bits
 * loses its remainder, which no product reads; that saves the remainder's memory where it has none yet, and is an error
 * while the context has graphs.
 */
EITP_API eitp_status eitp_variable_set_trained(eitp_context *context, const char *name, int trained, eitp_error *error);

/*
 * Copies `size` bytes to or from a variable, from byte `offset` of it. Memory is given to variables, zeroed, when
 * a plan that uses them is created, or here on first use.
 */
EITP_API eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data,
                                         size_t size, eitp_error *error);
EITP_API eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                                        eitp_error *error);

/*
 * The same in F32, for `count` elements of a floating variable from element `first` on. What a 16-bit parameter cannot
 * hold goes to, and comes from, the variable "remainder.<name>", where there is one.
 */
EITP_API eitp_status eitp_variable_write_f32(eitp_context *context, const char *name, int64_t first,
                                             const float *values, int64_t count, eitp_error *error);
EITP_API eitp_status eitp_variable_read_f32(eitp_context *context, const char *name, int64_t first, float *values,
                                            int64_t count, eitp_error *error);

/* Fills a floating variable: with one value, or from a distribution, normal or uniform in [low, high), which depends
 * only on seed, name and shape. */
EITP_API eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error);
EITP_API eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                               uint64_t seed, eitp_error *error);
EITP_API eitp_status eitp_variable_fill_uniform(eitp_context *context, const char *name, double low, double high,
                                                uint64_t seed, eitp_error *error);

/* Bytes of the variables that have memory, by role; bytes of the arena and workspace all plans share. */
EITP_API size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role);
EITP_API size_t eitp_context_arena_bytes(const eitp_context *context);

/* ---- Graph and leaves ---- */

EITP_API eitp_status eitp_graph_create(eitp_context *context, eitp_graph **graph, eitp_error *error);
EITP_API void eitp_graph_destroy(eitp_graph *graph); /* after the plans made from it */

/* The first error of building, EITP_OK while there was none. */
EITP_API eitp_status eitp_graph_status(const eitp_graph *graph, eitp_error *error);

/* A value that is written before every execution; eitp_plan_execute refuses where it was not. */
EITP_API eitp_tensor *eitp_input(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape);

/*
 * An input whose leading dimension is a capacity: eitp_plan_set_rows says how many rows there are at run time. A graph
 * has one capacity; ops that keep rows apart pass it on, ops that add over rows add over those that are there.
 */
EITP_API eitp_tensor *eitp_input_rows(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank,
                                      const int64_t *shape);

/*
 * Makes an input keep its value from execution to execution until it is written again, whatever other plans do. Each
 * plan that is created from now on has memory of its own for it (eitp_plan_stats.kept_bytes). Returns it.
 */
EITP_API eitp_tensor *eitp_keep_input(eitp_tensor *input);

/* The context's variable of that name, made if there is none; one with another role, dtype or shape is an error. */
EITP_API eitp_tensor *eitp_variable_tensor(eitp_graph *graph, const char *name, eitp_role role, eitp_dtype dtype,
                                           int rank, const int64_t *shape);

/* An F32 parameter. */
EITP_API eitp_tensor *eitp_parameter(eitp_graph *graph, const char *name, int rank, const int64_t *shape);

/* Makes a tensor readable after the run. Returns it. */
EITP_API eitp_tensor *eitp_output(eitp_tensor *tensor);

/* Of NULL zeros, a NULL graph, and no dtype. */
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
EITP_API eitp_tensor *eitp_abs(eitp_tensor *x); /* gradient 0 at 0 */
EITP_API eitp_tensor *eitp_exp(eitp_tensor *x);
EITP_API eitp_tensor *eitp_log(eitp_tensor *x);
EITP_API eitp_tensor *eitp_sqrt(eitp_tensor *x);
EITP_API eitp_tensor *eitp_rsqrt(eitp_tensor *x); /* 1 / sqrt(x) */
EITP_API eitp_tensor *eitp_sin(eitp_tensor *x);   /* of radians */
EITP_API eitp_tensor *eitp_cos(eitp_tensor *x);
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

/* NaN where either is NaN. Where both are equal, each gets half of the gradient, as in PyTorch. */
EITP_API eitp_tensor *eitp_minimum(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_maximum(eitp_tensor *a, eitp_tensor *b);

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

/* As x[begin:end:step] of Python along `dimension`: begin, begin + step, ... below end; step is 1 or more. */
EITP_API eitp_tensor *eitp_slice_step(eitp_tensor *x, int dimension, int64_t begin, int64_t end, int64_t step);

EITP_API eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after); /* with zeros */
EITP_API eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension);

/*
 * y[.., i, ..] = x[.., indices[.., i, ..], ..] along `dimension`; indices is I32 of x's rank, equal elsewhere. Along
 * dimension 0, x, indices or both may have a capacity of rows: an index of a row that is not there gives zeros.
 */
EITP_API eitp_tensor *eitp_gather(eitp_tensor *x, eitp_tensor *indices, int dimension);

/* The transpose of gather: zeros of `extent` along `dimension`, to which x is added at the indices. */
EITP_API eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent);

/* ---- Ops: reductions over the dimensions in `dimensions` (bit i: dimension i; a bit of a dimension that x has not is
 * an error), or over all of them; sums and means of 16-bit values are F32 ---- */

#define EITP_ALL_DIMENSIONS 0xffffffffu
EITP_API eitp_tensor *eitp_sum(eitp_tensor *x, unsigned dimensions, int keep);
EITP_API eitp_tensor *eitp_mean(eitp_tensor *x, unsigned dimensions, int keep);
EITP_API eitp_tensor *eitp_max(eitp_tensor *x, unsigned dimensions, int keep); /* equal maxima share the gradient */

/* I32: where along `dimension` (negative counts from the end) x is largest: the first of equal elements, and the first
 * NaN if there is one, as in NumPy. With `keep` it can index eitp_gather. It has no gradient. */
EITP_API eitp_tensor *eitp_argmax(eitp_tensor *x, int dimension, int keep);

/* ---- Ops: products and networks ---- */

/* a [.., m, k] times b [.., k, n]; batch dimensions broadcast. With transpose_a, a is [.., k, m]; with transpose_b, b
 * is [.., n, k]. */
EITP_API eitp_tensor *eitp_matmul(eitp_tensor *a, eitp_tensor *b);
EITP_API eitp_tensor *eitp_matmul_transposed(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b);

/* The same, but the product of 16-bit operands is F32, as it was summed. */
EITP_API eitp_tensor *eitp_matmul_wide(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b);

typedef enum eitp_activation {
    EITP_NO_ACTIVATION = 0,
    EITP_RELU = 1,
    EITP_GELU_TANH = 2, /* Hendrycks and Gimpel, arXiv 1606.08415, the tanh approximation */
    EITP_GELU_ERF = 3,  /* the same, exact */
    EITP_TANH = 4,
    EITP_SIGMOID = 5,
    EITP_SILU = 6 /* x sigmoid(x); Elfwing et al., arXiv 1702.03118 */
} eitp_activation;

/* x [n, in] times weight [in, out] plus bias [out] (may be NULL; F32 where x is of 16 bits), then the activation. */
EITP_API eitp_tensor *eitp_linear(eitp_tensor *x, eitp_tensor *weight, eitp_tensor *bias, eitp_activation activation);

EITP_API eitp_tensor *eitp_gelu_tanh(eitp_tensor *x);
EITP_API eitp_tensor *eitp_gelu_erf(eitp_tensor *x);
EITP_API eitp_tensor *eitp_silu(eitp_tensor *x);
EITP_API eitp_tensor *eitp_softmax(eitp_tensor *x);     /* along the last dimension */
EITP_API eitp_tensor *eitp_log_softmax(eitp_tensor *x); /* along the last dimension */

/* Over the last dimension: (x - mean) / sqrt(variance + epsilon) * gain + bias (Ba, Kiros, Hinton, arXiv 1607.06450).
 * Gain and bias are F32 where x is of 16 bits. */
EITP_API eitp_tensor *eitp_layer_norm(eitp_tensor *x, eitp_tensor *gain, eitp_tensor *bias, double epsilon);

/* Over the last dimension: x / sqrt(mean(x^2) + epsilon) * gain (Zhang and Sennrich, arXiv 1910.07467). x is of rank 2
 * or more; gain [c] is F32 where x is of 16 bits. */
EITP_API eitp_tensor *eitp_rms_norm(eitp_tensor *x, eitp_tensor *gain, double epsilon);

/*
 * Rows of table [v, c] for ids I32 [n]: [n, c]. An id outside the table gives zeros: check ids where they are read. The
 * table may have a capacity of rows, as hidden states do: then an id of a row that is not there is outside.
 */
EITP_API eitp_tensor *eitp_embedding(eitp_tensor *table, eitp_tensor *ids);

/*
 * The same rows, with a gradient that is summed by distinct id before it is added to the table's: `unique` I32 [u]
 * lists the ids of a whole step, -1 where there are fewer than u, and `inverse` I32 [n] has the place of each of `ids`
 * in it, as torch.unique gives them. A table that is used elsewhere too, as one that is tied to the output head, then
 * has the same gradient to the bit however many passes accumulate it: see eitp_accumulate_gradients.
 */
EITP_API eitp_tensor *eitp_embedding_unique(eitp_tensor *table, eitp_tensor *ids, eitp_tensor *unique,
                                            eitp_tensor *inverse);

/*
 * Zeroes elements with `probability` and scales the others by 1 / (1 - probability). `key` is I64 [3], written before a
 * run: seed, step, and the number within the step of row 0, so that a step draws the same however it is cut into
 * micro-batches.
 */
EITP_API eitp_tensor *eitp_dropout(eitp_tensor *x, eitp_tensor *key, double probability);

typedef struct eitp_attention_config {
    int heads;
    int64_t longest;   /* rows that a sequence may have */
    double scale;      /* of the scores; 1 / sqrt(c / heads) is usual */
    double dropout;    /* probability that an attention probability is zeroed */
    int bidirectional; /* every row sees all of its sequence; otherwise none after itself */
} eitp_attention_config;

/*
 * Self-attention over packed sequences: softmax(scale * q k^T) v in each head (Vaswani et al., arXiv 1706.03762). qkv
 * [n, 3c] holds q, k and v side by side; sequence i is rows [offsets[i], offsets[i + 1]), offsets I32 [sequences + 1]
 * ascending, no sequence longer than `longest`; eitp_plan_write refuses others. With `lengths` I32 [sequences], only
 * the first lengths[i] rows of sequence i are there, and the others are padding, which no row sees. Padding and rows in
 * no sequence give zeros. `key` is as for dropout. `key` and `lengths` may be NULL.
 */
EITP_API eitp_tensor *eitp_attention(eitp_tensor *qkv, eitp_tensor *offsets, eitp_tensor *key, eitp_tensor *lengths,
                                     const eitp_attention_config *config);

typedef struct eitp_dot_product_config {
    double scale;   /* of the scores; 1 / sqrt(d) is usual */
    double dropout; /* probability that an attention probability is zeroed */
    int causal;     /* query i sees keys 0 to i */
} eitp_dot_product_config;

/*
 * softmax(scale * q k^T + mask) v, as torch.nn.functional.scaled_dot_product_attention: q [.., t, d], k [.., s, d] and
 * v [.., s, e] give [.., t, e]. Batch dimensions broadcast. The heads, which are the dimension before the last two, may
 * be fewer in k and v: then they divide those of q, and consecutive heads of q share one of k and v.
 *
 * `mask` broadcasts to [.., t, s]: U8, 0 where a query does not see a key; or what is added to the scores, F32 (F64
 * where q is), minus infinity where a query does not see a key. A query that sees no key gives zeros. `key` is as for
 * dropout, whose rows are the leading dimension. `mask` and `key` may be NULL.
 *
 * It is composed of other ops: scores [.., t, s] are stored, and probabilities kept for the gradient.
 */
EITP_API eitp_tensor *eitp_scaled_dot_product_attention(eitp_tensor *q, eitp_tensor *k, eitp_tensor *v,
                                                        eitp_tensor *mask, eitp_tensor *key,
                                                        const eitp_dot_product_config *config);

/*
 * eitp_attention of separate q [n, heads d], k [n, h d] and v [n, h e]: [n, heads e]. As above, h may be smaller than
 * the number of heads, and `mask` may hide keys or add to scores. It broadcasts to
 * [sequences, heads, longest, longest], so that [heads, longest, longest] is a bias by position in the sequence. Scores
 * of that size are stored, and q, k and v padded to the longest sequence: without a mask, eitp_attention takes much
 * less memory and time.
 */
EITP_API eitp_tensor *eitp_attention_separate(eitp_tensor *q, eitp_tensor *k, eitp_tensor *v, eitp_tensor *offsets,
                                              eitp_tensor *key, eitp_tensor *lengths, eitp_tensor *mask,
                                              const eitp_attention_config *config);

/*
 * Attention of new rows to a cache: row i of qkv [n, 3c] is at position[0] + i (I32 [1]); its key and value are stored
 * in the variables `keys` and `values` [longest, c]. For generation; it has no gradient.
 */
EITP_API eitp_tensor *eitp_attention_cached(eitp_tensor *qkv, eitp_tensor *keys, eitp_tensor *values,
                                            eitp_tensor *position, int heads, double scale);

/*
 * Negative log-likelihood in nats of each row: logits [n, v], targets I32 [n]; 0 where the target is `ignored`. Any
 * other target that is not 0 to v - 1 is refused by eitp_plan_write; of targets that are computed, and not an input,
 * such a row's loss and gradient are NaN, and updates do not apply the step. The mean is the caller's. Losses of 16-bit
 * logits are F32.
 */
EITP_API eitp_tensor *eitp_cross_entropy(eitp_tensor *logits, eitp_tensor *targets, int32_t ignored);

/*
 * The same for logits x table^T, of x [n, c] and an output head table [v, c]. In 16-bit precision no logits are stored,
 * but their exponentials below the largest of a block, in 16 bits.
 */
EITP_API eitp_tensor *eitp_linear_cross_entropy(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                                int32_t ignored);

typedef struct eitp_cross_entropy_config {
    int32_t ignored;        /* the target of rows whose loss is 0 */
    double label_smoothing; /* s, 0 to 1 */
    eitp_tensor *weights;   /* w [v], F32 (F64 where the logits are); NULL: 1 for every class */
} eitp_cross_entropy_config;

/*
 * The same with class weights and label smoothing (Szegedy et al., arXiv 1512.00567): of a row with target t,
 * -(1 - s) w[t] log p[t] - s / v * sum over the classes j of w[j] log p[j], as torch.nn.CrossEntropyLoss with
 * reduction "none"; its "mean" divides the sum of the losses by the sum of w[t] over the rows that are not ignored.
 * With smoothing, the gradient of eitp_cross_entropy_with takes up to two more tensors like the logits in memory, and
 * that of eitp_linear_cross_entropy_with two like x (in 16 bits, with weights, the table in F32 too); it stores no
 * logits where eitp_linear_cross_entropy stores none.
 */
EITP_API eitp_tensor *eitp_cross_entropy_with(eitp_tensor *logits, eitp_tensor *targets,
                                              const eitp_cross_entropy_config *config);
EITP_API eitp_tensor *eitp_linear_cross_entropy_with(eitp_tensor *x, eitp_tensor *table, eitp_tensor *targets,
                                                     const eitp_cross_entropy_config *config);

/* ---- Gradients ---- */

/*
 * The gradients of y with respect to each of xs, weighted by `seed` (of y's shape; NULL: ones). They are tensors like
 * any other and can be differentiated again. A gradient that is zero everywhere is a tensor of zeros. That of a 16-bit
 * parameter is F32.
 */
EITP_API eitp_status eitp_gradients(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                                    eitp_tensor **gradients, eitp_error *error);

/*
 * Adds the gradient of `loss` with respect to every trained parameter the graph uses to a variable of role
 * EITP_GRADIENT (F32 for 16-bit parameters), called "gradient." and the parameter's name: gradient = carry[0] *
 * gradient + new. `carry` F32 [1] is 0 for the first micro-batch of a step and 1 after it. What eitp_embedding_unique
 * sums by distinct id is accumulated beside it, u rows in "gradient_rows.<u>.<name>", for the update to add.
 *
 * How rows are cut into passes changes no bit where a parameter is used once, and its gradient is a sum over rows that
 * goes on from what is there: as a weight [k, m] or bias of a product, a table of eitp_embedding or
 * eitp_linear_cross_entropy, gain and bias of eitp_layer_norm and gain of eitp_rms_norm, or a vector of more than one
 * element that is broadcast over rows in +, -, *, /, minimum or maximum, each perhaps cast or reshaped. Used more than
 * once, or as a number, a slice or a function of a parameter, the last bits depend on the cuts. Trainers do better: see
 * eitp_task.
 */
EITP_API eitp_status eitp_accumulate_gradients(eitp_tensor *loss, eitp_tensor *carry, eitp_error *error);

/* target = carry * target + x, where target is a variable's tensor; returns the variable's value after it. NULL
 * carry: 1. */
EITP_API eitp_tensor *eitp_accumulate(eitp_tensor *target, eitp_tensor *x, eitp_tensor *carry);

/* The sum of squares of all elements, F64 [1]. */
EITP_API eitp_tensor *eitp_sum_squares(eitp_tensor *x);

/* ---- Plan ---- */

/* What a plan computes again where it is needed late, instead of keeping it; the bits are the same. */
typedef enum eitp_recompute {
    EITP_RECOMPUTE_AUTO = 0,      /* as little as the memory allows */
    EITP_RECOMPUTE_NONE = 1,      /* nothing */
    EITP_RECOMPUTE_ATTENTION = 2, /* everything but matrix products: attention, activations, norms */
    EITP_RECOMPUTE_LAYER = 3      /* everything that saves memory: whole layers */
} eitp_recompute;

/* A plan's memory: as little as it can do with, however much that is. */
#define EITP_MINIMUM_MEMORY ((size_t)1)

typedef struct eitp_plan_config {
    size_t memory; /* bytes that arena and workspace may have together; 0: no limit; or EITP_MINIMUM_MEMORY */
    eitp_recompute recompute;
} eitp_plan_config;

typedef struct eitp_plan_stats {
    size_t arena_bytes;     /* the tensors of this plan */
    size_t workspace_bytes; /* scratch memory of its kernels */
    size_t peak_bytes;      /* the most that is live at once: no layout can need less */
    size_t kept_bytes;      /* inputs that keep their value, beside arena and workspace */
    int nodes, recomputed;  /* steps, and those of them that make a value again */
    double flops, recomputed_flops;
    double seconds;                 /* at the nominal speed of the device, and of files */
    double file_reads, file_writes; /* bytes of offloaded variables that a run moves */
} eitp_plan_stats;

/*
 * Lays the graph's outputs and updates out to run. Ops that the backend has no kernel for are expanded into others. The
 * graph must outlive the plan. All plans of a context share one arena, so what is written to inputs lasts for one
 * execution, and until another plan of the context is created, written or executed. What outputs hold lasts until then,
 * and until the plan's own inputs are written. eitp_plan_execute and eitp_plan_read refuse what was lost.
 */
EITP_API eitp_status eitp_plan_create(eitp_graph *graph, eitp_plan **plan, eitp_error *error);
EITP_API void eitp_plan_destroy(eitp_plan *plan);

/* The same within a limit of memory; EITP_ERROR_MEMORY, naming the least that would do, where that is too little. */
EITP_API eitp_status eitp_plan_create_within(eitp_graph *graph, const eitp_plan_config *config, eitp_plan **plan,
                                             eitp_error *error);

/*
 * What a plan of the graph would be, without the memory to run it. Where it does not fit, the statistics are those of
 * the smallest plan there is.
 */
EITP_API eitp_status eitp_plan_estimate(eitp_graph *graph, const eitp_plan_config *config, eitp_plan_stats *stats,
                                        eitp_error *error);
EITP_API eitp_plan_stats eitp_plan_statistics(const eitp_plan *plan);

/* How many rows of the graph's capacity there are; the capacity to begin with. */
EITP_API eitp_status eitp_plan_set_rows(eitp_plan *plan, int64_t rows, eitp_error *error);

/* Copies all bytes of an input in, or, after an execution, of an output out; with a capacity, those of the rows there
 * are. */
EITP_API eitp_status eitp_plan_write(eitp_plan *plan, eitp_tensor *input, const void *data, size_t size,
                                     eitp_error *error);
EITP_API eitp_status eitp_plan_read(eitp_plan *plan, eitp_tensor *output, void *data, size_t size, eitp_error *error);

/*
 * Executes it once. Every input that it reads must have been written since the last execution, unless eitp_keep_input
 * keeps it; EITP_ERROR_ARGUMENT names one that was not. Allocates nothing.
 */
EITP_API eitp_status eitp_plan_execute(eitp_plan *plan, eitp_error *error);

/* ---- Profiles ---- */

/* Which of a parameter's products a step of a plan is. */
typedef enum eitp_product {
    EITP_PRODUCT_NONE = 0,           /* none, or one without a parameter */
    EITP_PRODUCT_FORWARD = 1,        /* the plan's first with that parameter */
    EITP_PRODUCT_INPUT_GRADIENT = 2, /* a later one */
    EITP_PRODUCT_WEIGHT_GRADIENT = 3 /* of two values that are computed, the first transposed */
} eitp_product;

/* A step of a plan: one op, or several that became one. */
typedef struct eitp_profile {
    const char *op; /* its name: "matmul", "layer_norm", ... */
    eitp_product product;
    const char *variable; /* the parameter that it reads, or else the variable it changes, or the parameter whose
                             gradient it makes; "" where there is none. Belongs to the context. */
    eitp_dtype dtype;     /* that it computes from */
    double flops;         /* of the rows there are */
    double bytes_read, bytes_written; /* of all its operands, wherever they are; of a table, the rows that it uses */
    double seconds;
} eitp_profile;

/* Told of each step right after it ran, by the thread that runs the plan. */
typedef struct eitp_profiler {
    void *user;
    void (*step)(void *user, const eitp_profile *profile);
} eitp_profiler;

/*
 * From now on plans of the context run step by step, each measured; NULL: as always. The results are the same. It costs
 * some time, since threads wait for one another after each step; plans that are not profiled lose none.
 */
EITP_API void eitp_context_profile(eitp_context *context, const eitp_profiler *profiler);

EITP_END_DECLARATIONS

#endif
