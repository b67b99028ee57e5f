/*
 * A plan: a graph compiled to a list of kernel calls. Its passes, in the order in which eitp__plan_passes calls them:
 *   divide     plan_head.c       divides large output heads into parts of rows
 *   lower      plan_lower.c      finds the nodes that outputs and updates need; expands those without a kernel
 *   fuse       plan_lower.c      fuses products with the activation, its derivative or the residual that follows, and
 *                                gradients of norms with the residual; fuses ops whose result is only added to
 *                                something with that addition
 *   order      plan_lower.c      topological order: creation order, but updates as early as possible
 *   operands   plan_steps.c      lists what steps read and write, as numbers
 *   recompute  plan_recompute.c  where memory is short, recomputes values instead of keeping them
 *   layout     plan_layout.c     lifetimes and in-place reuse; staging areas of offloaded variables (plan_offload.c)
 *   place      plan_layout.c     offsets in the arena
 *   bind       plan_program.c    kernel calls and their operands; addresses are filled in before an execution
 *   transfer   plan_offload.c    when staging areas are read and written
 *   list       plan_program.c    calls and transfers, in the order in which they execute
 * The passes from recompute to bind repeat until the plan fits; the first time nothing is recomputed. plan_steps.c has
 * the functions that all of them share, and calls none of them. The recompute pass uses lifetimes and staging areas;
 * the layout pass uses staging areas.
 */
#ifndef EITP_PLAN_H
#define EITP_PLAN_H

#include "tensor/context.h"
#include "tensor/graph.h"

/* A node of the plan, with the nodes fused into it. Operands are lowered tensors, or NULL if absent. */
typedef struct eitp__step {
    eitp__node *node;
    eitp__epilogue epilogue; /* of an op with epilogues */
    int input_count, output_count;
    eitp_tensor *inputs[EITP__MAX_INPUTS];
    eitp_tensor *outputs[EITP__MAX_OUTPUTS];
    eitp_tensor *replaces[EITP__MAX_OUTPUTS]; /* the value that output i overwrites; NULL: none */
    int accumulates;                          /* output i is carry * replaces[i] + the node's result */
    eitp_tensor *carry;                       /* NULL: 1 */
    size_t owners;                            /* index of its first entry in the plan's `owners` */
    unsigned reusable; /* bit i: output 0 may be computed in place of input i if that is not read later */
} eitp__step;

/* A block of the arena, in use at steps [first, last]. Step -1 is before the first step. */
typedef struct eitp__arena_block {
    size_t size, offset;
    int first, last;
} eitp__arena_block;

/*
 * A staging area: arena memory that holds bytes of an offloaded variable for the steps that use them. It is allocated
 * from step `start`, when reading from the file starts, until step `end`, when writing back has finished.
 */
typedef struct eitp__staging {
    int64_t variable;
    size_t offset, size;         /* range of bytes in the variable */
    int start, first, last, end; /* steps; it is used from `first` to `last` */
    int is_dirty;                /* a step changes it, so it is written back */
    int block;
    int previous; /* previous staging area of the same variable; -1: none */
    size_t began; /* instruction that starts its latest transfer; only while instructions are listed */
} eitp__staging;

/* Transfers in the order in which they are performed before a step. */
typedef enum eitp__transfer_kind {
    EITP__TRANSFER_BEGIN_WRITE, /* starts writing a staging area back */
    EITP__TRANSFER_END_WRITE,   /* waits until it is written */
    EITP__TRANSFER_BEGIN_READ,  /* starts reading a staging area */
    EITP__TRANSFER_END_READ     /* waits until it is read */
} eitp__transfer_kind;

/* A transfer of a staging area, before a step. */
typedef struct eitp__staging_transfer {
    eitp__transfer_kind kind;
    int step, staging;
} eitp__staging_transfer;

/* An input of the graph, and its state in the plan. */
typedef struct eitp__plan_input {
    eitp_tensor *tensor;
    int is_kept;
    int is_read;      /* read by a step, or as an output */
    void *memory;     /* of a kept input; other inputs are in the arena */
    uint64_t written; /* for a kept input 1, otherwise the context's arena_epoch when it was written; 0: not written */
    int64_t rows;     /* of an input with a capacity: number of rows written */
} eitp__plan_input;

/* The memory of a call's operand: an arena block, a kept input, a variable, or none. */
typedef struct eitp__location {
    int block;        /* -1: none */
    int input;        /* -1: none */
    int64_t variable; /* -1: none */
    size_t offset;    /* offset in bytes */
    int rows;         /* the leading dimension is the plan's row count, or the part of it from first_row on */
    int64_t row_elements, first_row, row_limit;
} eitp__location;

typedef struct eitp__binding {
    eitp__location inputs[EITP__MAX_INPUTS];
    eitp__location outputs[EITP__MAX_OUTPUTS];
    eitp__location carry;
} eitp__binding;

/* Number of nodes, steps, edges or blocks visited by each pass: a measure of planning time, for tests. */
typedef struct eitp__plan_visits {
    size_t lower, fuse, order, lifetimes, layout, recompute;
} eitp__plan_visits;

struct eitp_plan {
    eitp_context *context;
    eitp_graph *graph;
    eitp__step *steps;
    size_t step_count, step_capacity;
    int *owners; /* owners of the tensors that steps read and write: see eitp__list_owners; only while the plan is
                    created */
    size_t owner_count, owner_capacity;
    size_t *sizes; /* bytes by tensor id, of the tensors in `owners` */
    size_t size_capacity;
    unsigned char *needed; /* by node id: an output or an update needs it; only while the plan is created */
    size_t needed_capacity;
    int *outputs; /* ids of the graph's outputs; only while the plan is created */
    size_t output_count, output_capacity;
    int *block_of;           /* by id of the tensor that owns the memory; -1: none */
    unsigned char *readable; /* by tensor id: it was an output when the plan was created */
    size_t tensor_count, block_of_capacity, readable_capacity;
    eitp__arena_block *blocks;
    size_t block_count, block_capacity;
    eitp__staging *stagings;
    size_t staging_count, staging_capacity;
    int *latest_staging; /* by variable; -1: none */
    size_t latest_staging_capacity;
    eitp__staging_transfer *transfers;
    size_t transfer_count, transfer_capacity;
    eitp__call *calls;
    eitp__binding *bindings;
    size_t call_count;
    eitp__instruction *instructions; /* calls and transfers of the steps, in order */
    size_t instruction_count;
    eitp__storage storage;
    eitp__plan_input *inputs; /* ordered by id */
    size_t input_count, input_capacity;
    uint64_t results_epoch; /* the context's arena_epoch while outputs can be read; 0: they cannot */
    size_t first_change;    /* first instruction that changes parameters, their remainders or optimizer state */
    size_t begun;           /* instructions started in the last execution */
    int64_t rows;           /* number of rows of the capacity in use */
    void *device_rows;      /* that number in device memory; NULL: the graph has no capacity */
    int64_t uploaded_rows;  /* the number stored there */
    eitp__program *program; /* of the calls, or NULL */
    uint64_t program_generation;
    eitp_plan_stats stats;
    eitp__plan_visits visits;
    eitp_plan *next; /* in the context's list */
};

/* ---- plan.c ---- */

/* Returns the bytes of arena and workspace that the context's plans need, excluding the plans of `count` graphs, which
   may be NULL. */
EITP__PRIVATE size_t eitp__plans_max_bytes(const eitp_context *context, const eitp_graph *const *excluded, int count);

/* Returns the bytes of arena and workspace that the plan needs. */
EITP__PRIVATE size_t eitp__plan_bytes(const eitp_plan *plan);

/* ---- plan_steps.c ---- */

/* Returns the tensor that the plan computes instead of this one: for an expanded node, its replacement. */
EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor);

/* True if the node's output is only a view of its input's memory. */
EITP__PRIVATE int eitp__is_view(const eitp__node *node);

/* Returns the tensor that owns the memory of a tensor. *first, unless NULL, is the index of the tensor's first element
   in the owner. */
EITP__PRIVATE eitp_tensor *eitp__owner(eitp_tensor *tensor, int64_t *first);

/* Returns the owner in the arena; NULL if `tensor` is NULL or in a variable. */
EITP__PRIVATE eitp_tensor *eitp__arena_owner(eitp_tensor *tensor);

/* True if the step overwrites a value. */
EITP__PRIVATE int eitp__step_mutates(const eitp__step *step);

/* Fills in the call of a step, without addresses and rows. */
EITP__PRIVATE void eitp__step_call(const eitp__step *step, eitp__call *call);

/* Pads the rows of all logits and their gradients, if the backend wants it and every step that uses them allows it. */
EITP__PRIVATE void eitp__pad_logits(eitp_plan *plan);

/* Returns the backend's estimate of the time of a step, in seconds. */
EITP__PRIVATE double eitp__step_seconds(const eitp_plan *plan, const eitp__step *step);

/* Returns operand i read by a step, NULL if absent, for i in [0, eitp__step_read_count). */
EITP__PRIVATE eitp_tensor *eitp__step_read(const eitp__step *step, int i);
static inline EITP__UNUSED int eitp__step_read_count(const eitp__step *step) {
    return step->input_count + (step->accumulates ? step->output_count + 1 : 0);
}

/*
 * Passes iterate over all steps many times, so they read numbers instead of following pointers: plan->owners has, from
 * step->owners on, an entry for each tensor that the step reads, for each output, and for each value that an output
 * replaces. The entry is the id of the tensor in the arena that owns the memory, -2 - v if the owner is variable v, or
 * EITP__NO_OWNER for an absent operand or an output in another tensor's memory. Adds the entries of a step; 0: out of
 * memory.
 */
enum { EITP__NO_OWNER = -1 };
EITP__PRIVATE int eitp__list_owners(eitp_plan *plan, eitp__step *step);

/* Updates the entries of a step after its operands were replaced by others of the same shape. */
EITP__PRIVATE void eitp__update_owners(eitp_plan *plan, eitp__step *step);

/* Return the entries of a step's operands, of its outputs, and of the values that these replace. */
static inline EITP__UNUSED int *eitp__read_owners(const eitp_plan *plan, const eitp__step *step) {
    return plan->owners + step->owners;
}

static inline EITP__UNUSED int *eitp__output_owners(const eitp_plan *plan, const eitp__step *step) {
    return plan->owners + step->owners + eitp__step_read_count(step);
}

static inline EITP__UNUSED int *eitp__replaced_owners(const eitp_plan *plan, const eitp__step *step) {
    return eitp__output_owners(plan, step) + step->output_count;
}

/* Returns the entry of a tensor, as in plan->owners. */
EITP__PRIVATE int eitp__owner_number(eitp_tensor *tensor);

/* Lists the owners of all steps, and the graph's outputs. */
EITP__PRIVATE eitp_status eitp__list_operands(eitp_plan *plan, eitp_error *error);

/* Adds a block of at least `size` bytes. Returns its number, or -1 if out of memory. */
EITP__PRIVATE int eitp__add_arena_block(eitp_plan *plan, size_t size, int first, int last);

/* ---- Passes ---- */

/*
 * Divides each LINEAR_CROSS_ENTROPY whose logits take more than `bytes`, with its gradients, into parts of rows with at
 * most that many bytes, which are computed one after the other; 0: divides none. Results have the same bits. Does
 * nothing once a plan of the graph exists.
 */
EITP__PRIVATE eitp_status eitp__divide_heads(eitp_graph *graph, size_t bytes, eitp_error *error);

/* True if the graph has a LINEAR_CROSS_ENTROPY whose logits take more than `bytes`. */
EITP__PRIVATE int eitp__has_heads(const eitp_graph *graph, size_t bytes);

/*
 * Returns the order of the nodes that an undivided LINEAR_CROSS_ENTROPY is expanded to: by default the node's own. If
 * the gradient does not depend on the loss, it is the gradient's. All other operands of the gradient are then computed
 * before the logits, and a backend can compute loss and gradient in one pass.
 */
EITP__PRIVATE int eitp__head_order(const eitp__node *head);

/* Returns the number of rows of a head's logits that its plans store at a time. */
EITP__PRIVATE int64_t eitp__head_rows(const eitp__node *node);

/* Finds the needed nodes. */
EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error);

/* Creates the steps from the needed nodes. */
EITP__PRIVATE eitp_status eitp__plan_fuse(eitp_plan *plan, eitp_error *error);

/* Sorts the steps topologically. */
EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error);

/* Recomputes values instead of keeping them, as long as this lowers the peak and the peak is above `target` bytes. */
EITP__PRIVATE eitp_status eitp__plan_recompute(eitp_plan *plan, size_t target, eitp_recompute mode, eitp_error *error);

/* Adds the arithmetic and seconds of `times` executions of a plan with these statistics. */
EITP__PRIVATE void eitp__add_work(eitp_plan_stats *sum, const eitp_plan_stats *stats, double times);

/* Returns the arithmetic of a plan's last execution, for the rows in use, without recomputation. */
EITP__PRIVATE double eitp__plan_flops(const eitp_plan *plan);

/* Finds the arena blocks, staging areas included, and their lifetimes, without offsets; 0: out of memory. */
EITP__PRIVATE int eitp__plan_lifetimes(eitp_plan *plan);

/* Finds the blocks, their lifetimes and the peak. */
EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error);

/* Assigns each block its offset, and the arena its size. */
EITP__PRIVATE eitp_status eitp__plan_place(eitp_plan *plan, eitp_error *error);

/* ---- plan_program.c ---- */

/* Creates the calls of the steps, without addresses, and the statistics derived from them. */
EITP__PRIVATE eitp_status eitp__plan_bind(eitp_plan *plan, eitp_error *error);

EITP__PRIVATE void eitp__release_calls(eitp_plan *plan);

/* Returns the index of an input among the plan's inputs, or -1 if the tensor is not an input. */
EITP__PRIVATE int eitp__input_index(const eitp_plan *plan, const eitp_tensor *tensor);

/* Returns the location of a tensor at a step. Step -1 is between executions, when offloaded variables have no staging
   area. */
EITP__PRIVATE eitp__location eitp__location_of(const eitp_plan *plan, eitp_tensor *tensor, int step);

/* Returns the address of a location, or NULL. */
EITP__PRIVATE void *eitp__address(const eitp_plan *plan, const eitp__location *location);

/* Returns the number of elements of an operand in the rows in use. */
static inline EITP__UNUSED int64_t eitp__used_elements(const eitp_plan *plan, const eitp__operand *operand) {
    return eitp__operand_used(operand, plan->rows);
}

/* Lists the instructions. */
EITP__PRIVATE eitp_status eitp__plan_list(eitp_plan *plan, eitp_error *error);

/* Prepares the program, with addresses, if they have changed since the last execution. */
EITP__PRIVATE eitp_status eitp__prepare_program(eitp_plan *plan, eitp_error *error);

/* Releases the program and the instructions. */
EITP__PRIVATE void eitp__release_program(eitp_plan *plan);

/* ---- plan_execute.c ---- */

/* True if the last execution started a step that changes a parameter, its remainder or optimizer state, which
   checkpoints save. Gradients are overwritten by the next execution. */
EITP__PRIVATE int eitp__plan_changed_state(const eitp_plan *plan);

/* ---- plan_offload.c ---- */

/* True if the tensor is in an offloaded variable. */
EITP__PRIVATE int eitp__is_offloaded_tensor(const eitp_plan *plan, eitp_tensor *tensor);

/* Finds the staging areas of the current steps, and adds a block for each; 0: out of memory. */
EITP__PRIVATE int eitp__plan_stagings(eitp_plan *plan);

/* Returns the staging area at a step of a tensor in an offloaded variable. */
EITP__PRIVATE const eitp__staging *eitp__staging_at(const eitp_plan *plan, eitp_tensor *tensor, int step);

/* Lists the transfers of the final staging areas. */
EITP__PRIVATE eitp_status eitp__plan_transfers(eitp_plan *plan, eitp_error *error);

#endif
