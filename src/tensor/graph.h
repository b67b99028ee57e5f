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
 * Ops: the kernels.h ops, which have a slot of the same name, and ops without a kernel: views of their input, and
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
    int64_t numbers[2]; /* for targets: number of classes, ignored target; for offsets: rows, longest sequence */
    const struct eitp__value_rule *next;
} eitp__value_rule;

typedef enum eitp__leaf { EITP__COMPUTED, EITP__INPUT, EITP__VARIABLE } eitp__leaf;

struct eitp_tensor {
    eitp_graph *graph;
    int id; /* index in the graph; smaller for a node's inputs than for its outputs */
    eitp__leaf leaf;
    eitp__node *node;     /* computes the tensor; NULL for leaves */
    int64_t variable;     /* index of an EITP__VARIABLE in the context; else -1 */
    eitp_tensor *storage; /* the tensor whose memory this one shares; itself if it owns its memory */
    int64_t first;        /* index in `storage` of this tensor's first element */
    eitp_dtype dtype;
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int64_t row_stride; /* in plans: eitp__operand.row_stride */
    int rows;           /* the leading dimension is the graph's capacity, or a part of it */
    int64_t first_row;  /* with `rows`: first row; nonzero only in plans */
    int is_output;
    int is_kept;                   /* of an input: its value persists across executions */
    eitp_tensor *lowered;          /* computed instead if the backend has no kernel for the node; NULL: the tensor
                                      itself */
    const eitp__value_rule *rules; /* of an input */
    const char *name;              /* of an input, or set by eitp_tensor_set_name; NULL: none */
};

/* Part of training that a node belongs to. Gradients and expansions inherit the component of the node they are created
   for. */
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
    int part;        /* order among nodes of the same `order`: the part of a head that the node computes; 0: none */
    int is_replaced; /* the plan computes other nodes instead: see plan_head.c */
    eitp__origin origin;
};

typedef struct eitp__graph_block {
    struct eitp__graph_block *next;
    size_t size, used;
} eitp__graph_block;

/* A tensor registered by a model for others to read: see eitp__graph_register. */
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
    int64_t capacity;     /* leading dimension of tensors with `rows`; -1: no such tensor */
    uint32_t rng_streams; /* number of random number streams in use */
    eitp__tap_entry *taps;
    size_t head_bytes;   /* maximum bytes of a head's logits that plans store at a time; 0: plan.c chooses */
    size_t head_divided; /* the limit at which plan_head.c divided the heads; 0: not divided */
    int has_plan;        /* the division of heads no longer changes */
    eitp__origin origin; /* of new nodes; the phase is forward until gradients are built, then backward, then update */
    eitp_error error;
};

/* Checks inputs and attributes, and creates the outputs with eitp__node_output. */
typedef eitp_status eitp__shape_rule(eitp__node *node, eitp_error *error);

/* Adds the gradient of input i, given dy[0], to dx[i], which is NULL at first. */
typedef void eitp__gradient_rule(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx);

/* Builds the outputs from primitives. This is the specification of the op, the reference of tests, and the
   implementation on backends without its kernel. A primitive has none. */
typedef void eitp__expand_rule(const eitp__node *node, eitp_tensor **outputs);

/* Builds rows [begin, end) of output 0 only: see eitp__rows. */
typedef eitp_tensor *eitp__rows_rule(const eitp__node *node, int64_t begin, int64_t end);

/* Returns the arithmetic operations of a node. */
typedef double eitp__flops_rule(const eitp__node *node);

/* Returns the row_sums of an entry, if they depend on the node. */
typedef unsigned eitp__row_sums_rule(const eitp__node *node);

/* Describes how the epilogue of an op, usually a product, computes a node; input `product` of the node is its
   result. */
typedef struct eitp__epilogue_rule {
    eitp__epilogue epilogue;
    int product;
    int operand; /* input that is the epilogue's operand; -1: none, and other nodes may read the result too */
} eitp__epilogue_rule;

enum { EITP__ACCUMULATES_WIDE = 1, EITP__ACCUMULATES_STORED = 2 };
enum { EITP__OP_EPILOGUES = 2 };

/* An op. Most entries leave members that are 0 or NULL unset. */
typedef struct eitp__op_info {
    const char *name;
    eitp_work work;
    int min_inputs, max_inputs, outputs; /* 1 unless set */
    eitp__shape_rule *shape;
    eitp__gradient_rule *gradient; /* NULL: it cannot be differentiated */
    unsigned differentiable;       /* bit i: the gradient rule takes the gradient of output i as well as of output 0 */
    eitp__expand_rule *expand;
    eitp__rows_rule *rows;
    eitp__flops_rule *flops; /* NULL: negligible */
    /* For the fused gradient of an op, that op + 1. The inputs are the op's inputs, its saved outputs and the output's
       gradient. The outputs are the gradients of its inputs wrt[i] that are present and floating-point. The expansion
       is derived from the op's own expansion. */
    int backward_of;
    int wrt[EITP__MAX_OUTPUTS];
    /* Output i shares the memory of input shares[i] - 1 and changes it; 0: it owns its memory. Outputs that share an
       absent input are absent, and the outputs after them move up: see eitp__shared_input. */
    int shares[EITP__MAX_OUTPUTS];
    int is_view;     /* output 0 is input 0's memory, unchanged */
    unsigned reuse;  /* bit i: output 0 may be computed in place of input i */
    int accumulates; /* the kernel supports eitp__call.carry: for outputs of the wide dtype, or of the op's own dtype */
    int dtype_input; /* number from 1 of the input whose dtype selects the kernel; 0: the first floating-point one */
    int is_product;  /* of matrices: arithmetic takes nearly all of its time */
    int is_constant; /* its values depend on no other tensor */
    int runs_early;  /* a sum of a gradient; running it early can often free the gradient */
    unsigned partly_written; /* bit i: the kernel leaves some elements of output i unchanged */
    unsigned row_sums;       /* bit i: the gradient of input i is a sum over rows that continues the previous pass's */
    eitp__row_sums_rule *row_sums_of; /* replaces row_sums */
    unsigned joint; /* one kernel computes the gradients of these inputs: it continues all of their sums, or none */
    int operand; /* the op has epilogues: number of the input that is their operand, which nodes never have; else 0 */
    eitp__epilogue_rule epilogues[EITP__OP_EPILOGUES]; /* by which others compute it; the first that matches is used */
} eitp__op_info;

/* Fills in the table of ops, by op code, in op_table.c. Rules create nodes, so they find it through the graph. */
EITP__PRIVATE void eitp__fill_op_table(eitp__op_info *table);

static inline EITP__UNUSED const eitp__op_info *eitp__op(const eitp_graph *graph, eitp__op_code op) {
    return &graph->context->ops[op];
}

/* Lists the numbers of the inputs whose gradients are the outputs of a fused gradient, and returns how many there
   are. */
EITP__PRIVATE int eitp__differentiated_inputs(const eitp__node *node, int *numbers);

/* Returns the input whose memory the output shares and changes; NULL if the output owns its memory. */
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

/* Registers a tensor under owner, kind and number, unless one is already registered there. This costs nothing: a plan
   computes and keeps only what its outputs need. eitp__graph_registered finds it; NULL if not registered. */
EITP__PRIVATE void eitp__graph_register(eitp_tensor *tensor, const void *owner, int kind, int64_t number);
EITP__PRIVATE eitp_tensor *eitp__graph_registered(const eitp_graph *graph, const void *owner, int kind, int64_t number);

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

/* For plans: creates a tensor like another, with its own memory, or with the memory of `storage` from element `first`
   on. */
EITP__PRIVATE eitp_tensor *eitp__tensor_copy(const eitp_tensor *tensor, eitp_tensor *storage, int64_t first);

/* Sets the graph's error, unless it has one. */
EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) EITP__PRINTF(3, 4);

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph);

/* Returns the tensor of a child of a variable; the child is declared on first use. On failure, returns NULL and sets
   the graph's error. */
EITP__PRIVATE eitp_tensor *eitp__child_tensor(const eitp_tensor *parent, const eitp__child_info *child);

/* Returns the tensor of an existing child; NULL if the variable has no such child. */
EITP__PRIVATE eitp_tensor *eitp__found_child_tensor(const eitp_tensor *parent, const char *kind, int64_t number);

/* Return properties of a variable's tensor: its full name, and whether it is a floating-point parameter, and a trained
   one. */
EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__is_trained(const eitp_tensor *tensor);

/* Returns the dtype of the gradient with respect to a tensor: F32 for a 16-bit parameter and for a parameter cast to 16
   bits, else the tensor's own dtype. */
EITP__PRIVATE eitp_dtype eitp__gradient_dtype(const eitp_tensor *tensor);

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor);
EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor);
EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b);

/* Formats the shape, such as "[256, 768]". */
EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size);

/* Returns the dtype that selects the node's kernel; see eitp__call.dtype. */
EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node);

/* Fills in the dtype, rank, shape and elements of an operand. Leaves the operand of an absent tensor unchanged. */
EITP__PRIVATE void eitp__set_operand(eitp__operand *operand, const eitp_tensor *tensor);

/* Fills in the call of a node with a slot, without addresses. */
EITP__PRIVATE void eitp__node_call(const eitp__node *node, eitp__call *call);

/* True if the backend implements the node directly. */
EITP__PRIVATE int eitp__has_kernel(const eitp__node *node);

/* Expands a node into other ops: a node with a 16-bit dtype into the same op in F32 between casts; others by their
   expand rule, or as the gradient of the op whose fused gradient they are. Returns 0 if the node is a primitive. */
EITP__PRIVATE int eitp__expand_node(const eitp__node *node, eitp_tensor **outputs);

#endif
