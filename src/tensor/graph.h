/* The graph: tensors, nodes and the table of ops. */
#ifndef EITP_GRAPH_H
#define EITP_GRAPH_H

#include "backends/backend.h"
#include "base/convert.h"
#include "base/memory.h"
#include "base/status.h"
#include "tensor/context.h"
#include "tensor/tensor.h"
#include "tensor/variable.h"

/*
 * Ops: those of kernels.h, which have a slot of the same name, and those without a kernel: views of their input, and
 * LINEAR_CROSS_ENTROPY, which is always expanded. Each has an entry in the table of ops, filled in by eitp__op_<name>
 * in the file of its rules.
 */
#define EITP__OPS(X)                                                                                                   \
    EITP__SLOTS(X)                                                                                                     \
    X(ROWS, rows, NONE)                                                                                                \
    X(RESHAPE, reshape, NONE)                                                                                          \
    X(STOP_GRADIENT, stop_gradient, NONE)                                                                              \
    X(LINEAR_CROSS_ENTROPY, linear_cross_entropy, NONE)

typedef enum eitp__op_code {
#define EITP__OP_ENUMERATOR(NAME, name, family) EITP__OP_##NAME,
    EITP__OPS(EITP__OP_ENUMERATOR)
#undef EITP__OP_ENUMERATOR
        EITP__OP_COUNT
} eitp__op_code;

typedef struct eitp__node eitp__node;

/* Attributes of a node. `shape`, `rank` and `dtype` are the result's, for ops whose inputs do not determine them. */
typedef struct eitp__attributes {
    int64_t integers[EITP_MAX_RANK];
    double reals[4];
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
} eitp__attributes;

/* A condition on the values of an input, checked when they are written. */
typedef struct eitp__value_rule {
    eitp_status (*check)(const struct eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                         int64_t count, eitp_error *error);
    int64_t numbers[2]; /* of targets: number of classes, ignored target; of offsets: rows, longest sequence */
    const struct eitp__value_rule *next;
} eitp__value_rule;

typedef enum eitp__leaf { EITP__COMPUTED, EITP__INPUT, EITP__VARIABLE } eitp__leaf;

struct eitp_tensor {
    eitp_graph *graph;
    int id; /* index in the graph; smaller for a node's inputs than for its outputs */
    eitp__leaf leaf;
    eitp__node *node;     /* computes the tensor; NULL for leaves */
    int64_t variable;     /* index in the context, of EITP__VARIABLE; else -1 */
    eitp_tensor *storage; /* the tensor whose memory this one shares; itself if it owns its memory */
    int64_t first;        /* index in `storage` of this tensor's first element */
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int rows;          /* the leading dimension is the graph's capacity, or a part of it */
    int64_t first_row; /* with `rows`: the row that it begins with; not 0 only in plans */
    int is_output;
    int is_kept;                   /* of an input: its value is kept from execution to execution */
    eitp_tensor *lowered;          /* computed in its place if the backend has no kernel for the node; NULL: itself */
    const eitp__value_rule *rules; /* of an input */
    const char *name;              /* of an input, or what eitp_tensor_set_name gave it; NULL: none */
};

/* What a node is part of. Gradients and expansions inherit the component of the node that they are created for. */
typedef struct eitp__origin {
    eitp__phase phase;
    eitp_component component;
} eitp__origin;

struct eitp__node {
    eitp_graph *graph;
    int id;
    eitp__op_code op;
    int input_count;
    int output_count;
    eitp_tensor *inputs[EITP__MAX_INPUTS]; /* NULL if optional and absent */
    eitp_tensor *outputs[EITP__MAX_OUTPUTS];
    eitp__attributes attributes;
    int order;       /* creation order for plans: the id of the node it was expanded from, else its own */
    int part;        /* order among nodes of the same `order`: the part of a head that it computes; 0: none */
    int is_replaced; /* the plan computes other nodes in its place: see plan_head.c */
    eitp__origin origin;
};

typedef struct eitp__graph_block {
    struct eitp__graph_block *next;
    size_t size, used;
} eitp__graph_block;

/* A tensor that a model has named for others to read: see eitp__graph_tap. */
typedef struct eitp__tap_entry {
    const void *owner;
    int kind;
    int64_t number;
    eitp_tensor *tensor;
    struct eitp__tap_entry *next;
} eitp__tap_entry;

struct eitp_graph {
    eitp_context *context;
    eitp__graph_block *blocks;
    eitp_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    eitp_tensor **variables; /* by index in the context: the variable's tensor; NULL: not in this graph */
    size_t variable_capacity;
    eitp__node **nodes;
    size_t node_count, node_capacity;
    int64_t capacity;     /* of the leading dimension of tensors with `rows`; -1: no such tensor */
    uint32_t rng_streams; /* random number streams in use */
    eitp__tap_entry *taps;
    size_t head_bytes;   /* the most bytes of a head's logits that plans store at a time; 0: plan.c chooses */
    size_t head_divided; /* the limit by which plan_head.c has divided heads; 0: it has not */
    int has_plan;        /* heads are no longer divided otherwise */
    eitp__origin origin; /* of nodes created now; the phase is forward until gradients are built, then backward, then
                            update */
    eitp_error error;
};

/* Checks inputs and attributes, and creates the outputs with eitp__node_output. */
typedef eitp_status eitp__shape_rule(eitp__node *node, eitp_error *error);

/* Adds the gradient of input i, given dy[0], to dx[i], which is NULL at first. */
typedef void eitp__gradient_rule(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx);

/* Builds the outputs from primitives: the specification of the op, the reference of tests, and what runs on a backend
   without its kernel. A primitive has none. */
typedef void eitp__expand_rule(const eitp__node *node, eitp_tensor **outputs);

/* Builds rows [begin, end) of output 0 without the others: see eitp__rows. */
typedef eitp_tensor *eitp__rows_rule(const eitp__node *node, int64_t begin, int64_t end);

/* The arithmetic operations of a node. */
typedef double eitp__flops_rule(const eitp__node *node);

/* row_sums of an entry, where it depends on the node. */
typedef unsigned eitp__row_sums_rule(const eitp__node *node);

/* How the epilogue of a product computes a node: input `product` of the node is the product. */
typedef struct eitp__epilogue_rule {
    eitp__epilogue epilogue;
    int product;
    int operand; /* the input that is the epilogue's operand; -1: none, and other nodes may read the product too */
} eitp__epilogue_rule;

enum { EITP__ACCUMULATES_WIDE = 1, EITP__ACCUMULATES_STORED = 2 };
enum { EITP__OP_EPILOGUES = 2 };

/* An op. Members that are 0 or NULL in most entries are not set there. */
typedef struct eitp__op_info {
    const char *name;
    eitp_work work;
    int min_inputs, max_inputs, outputs; /* 1 unless they are set */
    eitp__shape_rule *shape;
    eitp__gradient_rule *gradient; /* NULL: it cannot be differentiated */
    unsigned differentiable;       /* bit i: the gradient rule takes the gradient of output i too, besides that of 0 */
    eitp__expand_rule *expand;
    eitp__rows_rule *rows;
    eitp__flops_rule *flops; /* NULL: negligible */
    /* For the fused gradient of an op, that op + 1. The inputs are the op's inputs, its saved outputs and the output's
       gradient; the outputs are the gradients of its inputs wrt[i] that are present and floating-point. The expansion
       is derived from that op's expansion. */
    int backward_of;
    int wrt[EITP__MAX_OUTPUTS];
    /* Output i shares the memory of input shares[i] - 1 and changes it; 0: it owns its memory. Outputs that share an
       absent input are absent, and the outputs after them move up: see eitp__shared_input. */
    int shares[EITP__MAX_OUTPUTS];
    int is_view;     /* output 0 is input 0's memory, unchanged */
    unsigned reuse;  /* bit i: output 0 may be computed in place of input i */
    int accumulates; /* the kernel supports eitp__call.carry: for outputs of the wide dtype, or of the dtype itself */
    int dtype_input; /* number from 1 of the input whose dtype selects the kernel; 0: the first floating-point one */
    int is_product;  /* of matrices: nearly all of its time is arithmetic */
    int is_constant; /* its values do not depend on others */
    int runs_early;  /* a sum of a gradient, after which the gradient can often be freed */
    unsigned partly_written; /* bit i: the kernel leaves elements of output i as they were */
    unsigned row_sums; /* bit i: the gradient of input i is a sum over rows that continues the sum of the pass before */
    eitp__row_sums_rule *row_sums_of; /* in place of row_sums */
    unsigned joint; /* one kernel computes the gradients of these inputs: it continues all of their sums, or none */
    eitp__epilogue_rule epilogues[EITP__OP_EPILOGUES]; /* the first that fits is taken */
} eitp__op_info;

/* Fills in the table of ops, by op code, in op_table.c. Rules create nodes, so they find it through the graph. */
EITP__PRIVATE void eitp__fill_op_table(eitp__op_info *table);

static inline EITP__UNUSED const eitp__op_info *eitp__op(const eitp_graph *graph, eitp__op_code op) {
    return &graph->context->ops[op];
}

/* Lists the inputs of a fused gradient whose gradients are its outputs, by number, and returns how many there are. */
EITP__PRIVATE int eitp__differentiated_inputs(const eitp__node *node, int *numbers);

/* The input whose memory the output shares and changes; NULL if the output owns its memory. */
EITP__PRIVATE eitp_tensor *eitp__shared_input(const eitp__node *node, int output);

/*
 * Adds a node. Returns NULL and sets the graph's error if the shape rule fails, a required input is NULL, or memory is
 * short.
 */
EITP__PRIVATE eitp__node *eitp__node_create(eitp_graph *graph, eitp__op_code op, eitp_tensor *const *inputs,
                                            int input_count, const eitp__attributes *attributes);

/* Allocates zeroed memory that lives as long as the graph. Returns NULL and sets the graph's error on failure. */
EITP__PRIVATE void *eitp__graph_allocate(eitp_graph *graph, size_t size);

/* Sets the component of nodes created from now on, and returns the previous one. A NULL graph has none. */
EITP__PRIVATE eitp_component eitp__graph_set_component(eitp_graph *graph, eitp_component component);

/*
 * Notes a tensor under owner, kind and number, unless one is noted there already. It costs nothing: a plan computes and
 * keeps only what its outputs need. eitp__graph_tapped finds it; NULL if there is none.
 */
EITP__PRIVATE void eitp__graph_tap(eitp_tensor *tensor, const void *owner, int kind, int64_t number);
EITP__PRIVATE eitp_tensor *eitp__graph_tapped(const eitp_graph *graph, const void *owner, int kind, int64_t number);

/* Adds a node, and returns its first output. */
EITP__PRIVATE eitp_tensor *eitp__apply(eitp__op_code op, eitp_tensor *const *inputs, int input_count,
                                       const eitp__attributes *attributes);

/* For shape rules: creates the next output. With `rows`, its leading dimension is the graph's capacity. */
EITP__PRIVATE eitp_status eitp__node_output(eitp__node *node, eitp_dtype dtype, int rank, const int64_t *shape,
                                            int rows, eitp_error *error);

/* For shape rules: creates the next output with the shape, dtype and rows of a tensor. */
EITP__PRIVATE eitp_status eitp__node_output_like(eitp__node *node, const eitp_tensor *tensor, eitp_error *error);

/*
 * Adds a rule for the values of an input, or of the input that the tensor is a view of. Does nothing for other tensors.
 */
EITP__PRIVATE void eitp__add_rule(eitp_tensor *tensor, const eitp__value_rule *rule);

/* For plans: creates a tensor like another, with its own memory, or with that of `storage` from element `first` on. */
EITP__PRIVATE eitp_tensor *eitp__tensor_copy(const eitp_tensor *tensor, eitp_tensor *storage, int64_t first);

/* Sets the graph's error, unless it has one. */
EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph);

/* The tensor of a child of a variable; the child is declared on first use. NULL, and the graph's error, on failure. */
EITP__PRIVATE eitp_tensor *eitp__child_tensor(const eitp_tensor *parent, const eitp__child_info *child);

/* The tensor of an existing child; NULL if the variable has no such child. */
EITP__PRIVATE eitp_tensor *eitp__found_child_tensor(const eitp_tensor *parent, const char *kind, int64_t number);

/* Properties of a variable's tensor: its full name, and whether it is a floating-point parameter, and a trained one. */
EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_trained(const eitp_tensor *tensor);

/*
 * The dtype of the gradient with respect to a tensor: F32 for a 16-bit parameter and for a parameter cast to 16 bits,
 * else the tensor's own.
 */
EITP__PRIVATE eitp_dtype eitp__gradient_dtype(const eitp_tensor *tensor);

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor);
EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b);

/* Writes the shape, like "[256, 768]". */
EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size);

/* The dtype that selects the node's kernel, see eitp__call.dtype. */
EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node);

/* Fills in the dtype, rank, shape and elements of an operand. Leaves that of an absent tensor as it is. */
EITP__PRIVATE void eitp__set_operand(eitp__operand *operand, const eitp_tensor *tensor);

/* Fills in the call of a node with a slot, without addresses. */
EITP__PRIVATE void eitp__node_call(const eitp__node *node, eitp__call *call);

/* True if the backend implements the node as it is. */
EITP__PRIVATE int eitp__has_kernel(const eitp__node *node);

/*
 * Expands a node into other ops: a node with a 16-bit dtype into the same op in F32 between casts, others by their
 * expand rule, or as the gradient of the op that they are the fused gradient of. Returns 0 if the node is a primitive.
 */
EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs);

#endif
