/* The graph behind the tensors: nodes, values and the table of ops. */
#ifndef EITP_GRAPH_H
#define EITP_GRAPH_H

#include "backends/backend.h"
#include "base/convert.h"
#include "base/memory.h"
#include "base/status.h"
#include "tensor/tensor.h"

/*
 * Ops: every slot of kernels.h is an op of the same name. Others have no kernel: ROWS, RESHAPE and
 * STOP_GRADIENT, whose result shares the memory of their input, and those that a plan always expands.
 */
typedef enum eitp__op_code {
#define EITP__OP_ENUMERATOR(name, family) EITP__OP_##name,
    EITP__SLOTS(EITP__OP_ENUMERATOR)
#undef EITP__OP_ENUMERATOR
        EITP__OP_ROWS,
    EITP__OP_RESHAPE,
    EITP__OP_STOP_GRADIENT,
    EITP__OP_LINEAR_CROSS_ENTROPY,
    EITP__OP_COUNT
} eitp__op_code;

typedef struct eitp__node eitp__node;

/* What an op is given beside its inputs. `shape`, `rank` and `dtype` are the result's, where inputs do not tell them.
 */
typedef struct eitp__attributes {
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__attributes;

/* What the values of an input must be; checked where they are written. */
typedef struct eitp__value_rule {
    eitp_status (*check)(const struct eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                         int64_t count, eitp_error *error);
    int64_t
        numbers[2]; /* of targets: how many classes, and the ignored one; of offsets: rows, and the longest sequence */
    const struct eitp__value_rule *next;
} eitp__value_rule;

typedef enum eitp__leaf { EITP__COMPUTED, EITP__INPUT, EITP__VARIABLE } eitp__leaf;

struct eitp_tensor {
    eitp_graph *graph;
    int id; /* index in the graph; an input of a node has a smaller one than its outputs */
    eitp__leaf leaf;
    eitp__node *node;     /* that computes it; NULL for leaves */
    int64_t variable;     /* index in the context, for EITP__VARIABLE */
    eitp_tensor *storage; /* the tensor whose memory this one shares; itself where it has its own */
    int64_t first;        /* element of the storage that is this one's first */
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int rows; /* the leading dimension is the graph's capacity */
    int is_output;
    int is_kept; /* of an input: its value lasts from execution to execution */
    eitp_tensor
        *lowered; /* what a plan computes in its place, where the backend has no kernel for the node; NULL: itself */
    const eitp__value_rule *rules; /* of an input */
    char name[64];                 /* of leaves */
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
    const struct eitp__op_info *ops; /* the table */
    eitp__graph_block *blocks;
    eitp_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    eitp_tensor **variables; /* the tensor of each of the context's variables; NULL: the graph has none */
    size_t variable_capacity;
    eitp__node **nodes;
    size_t node_count, node_capacity;
    int64_t capacity;     /* of the leading dimension of tensors with `rows`; -1 while there is none */
    uint32_t rng_streams; /* rng streams handed out */
    eitp_error error;
};

/*
 * An op: one entry of the table in op_table.c.
 *   shape        checks inputs and attributes and makes the outputs with eitp__node_output
 *   gradient     adds to dx[i] (NULL to begin with) what flows to input i, given dy[0]
 *   expand       builds the outputs from primitives: the op's specification, its oracle, and what a backend without its
 *                kernel runs; a primitive has none
 *   backward_of  for the fused gradient of another op, that op + 1: the inputs are that op's, then what it saved, last
 *                the output's gradient; output i is the gradient of its input wrt[i]. The expansion follows from that
 *                op's own.
 *   shares       output i has the memory of input shares[i] - 1, and changes it; 0: its own. Outputs of inputs that are
 *                absent are absent too, and those after them move up: see eitp__shared_input
 *   reuse        bit i: output 0 may take the memory of input i, where nothing else needs it
 *   accumulates  the slot honours eitp__call.carry: for outputs of the slot's WIDE dtype, or of the slot's own
 *   flops        arithmetic of a run; NULL: none to speak of
 *   rows         builds rows [begin, end) of output 0 without the others; NULL where it cannot (see eitp__rows)
 */
enum { EITP__ACCUMULATES_WIDE = 1, EITP__ACCUMULATES_STORED = 2 };

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
    eitp_tensor *(*rows)(const eitp__node *node, int64_t begin, int64_t end);
} eitp__op_info;

/* op_table.c: by op. It refers to the rules of all ops, and these add nodes, which find it in their graph. */
EITP__PRIVATE const eitp__op_info *eitp__op_table(void);

static inline EITP__UNUSED const eitp__op_info *eitp__op(const eitp_graph *graph, eitp__op_code op) {
    return &graph->ops[op];
}

/* The input whose memory an output of the node has, and changes; NULL where it has its own. */
EITP__PRIVATE eitp_tensor *eitp__shared_input(const eitp__node *node, int output);

/* Adds a node; NULL, with the graph's error set, where the shape rule refuses, an input is NULL though required, or
 * memory is short. */
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

/* Lets a rule hold for the values of an input, or of one that the tensor is a view of; it does nothing for others. */
EITP__PRIVATE void eitp__add_rule(eitp_tensor *tensor, const eitp__value_rule *rule);

/* For plans: a tensor like another, with memory of its own, or that of `storage` from element `first` on. */
EITP__PRIVATE eitp_tensor *eitp__tensor_copy(const eitp_tensor *tensor, eitp_tensor *storage, int64_t first);

/* Keeps the first error of building. */
EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph);

/* Of a variable's tensor: its whole name; is it a floating parameter; one that is trained? */
EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_trained(const eitp_tensor *tensor);

/* The dtype of a gradient with respect to a tensor: its own, but that of a 16-bit parameter, or of a parameter cast to
 * 16 bits, is F32. */
EITP__PRIVATE eitp_dtype eitp__gradient_dtype(const eitp_tensor *tensor);

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor);
EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b);

/* "[256, 768]" into `text`. */
EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size);

/* The column of the kernel table: see eitp__call.dtype. */
EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node);

/* The node's outputs in other ops: of a 16-bit column, the same op in F32 between casts; else from primitives, by its
 * expand rule or as the gradient of the op it is the fused gradient of. 0: it is a primitive. */
EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs);

#endif
