/*
 * A plan: a graph made ready to run. Its passes, in the order in which eitp__plan_passes calls them:
 *   lower      plan_lower.c      the nodes that outputs and updates need; those without a kernel are expanded
 *   fuse       plan_fuse.c       products do what follows them: activation, its derivative, residual; products and sums
 *                                that only feed an accumulation or a sum add to it themselves
 *   order      plan_order.c      creation order, but updates as soon as nobody reads the old value any more
 *   operands   plan_steps.c      what steps read and write, as lists of numbers
 *   recompute  plan_recompute.c  where memory is short, what is computed again instead of being kept
 *   lay out    plan_layout.c     lifetimes, memory taken over in place; windows for offloaded variables (plan_offload.c)
 *   place      plan_place.c      offsets in the arena
 *   bind       plan.c            calls with operands; addresses are filled in when a plan runs
 *   transfer   plan_offload.c     when windows are read and written
 * From recompute to bind they repeat until the plan fits; the first time nothing is recomputed. Passes do not call each
 * other, but those that recompute and lay out share lifetimes and windows. What all of them share is in plan_steps.c.
 */
#ifndef EITP_PLAN_H
#define EITP_PLAN_H

#include "tensor/context.h"
#include "tensor/graph.h"

/* A node in the plan, with what it does of other nodes' work. Operands are lowered tensors, NULL where absent. */
typedef struct eitp__step {
    eitp__node *node;
    eitp__epilogue epilogue; /* of a product */
    int input_count, output_count;
    eitp_tensor *inputs[EITP__MAX_INPUTS];
    eitp_tensor *outputs[EITP__MAX_OUTPUTS];
    eitp_tensor *replaces[EITP__MAX_OUTPUTS]; /* the value whose memory output i takes, which ends it; NULL: none */
    int accumulates;                          /* output i is carry * replaces[i] + what the node computes */
    eitp_tensor *carry;                       /* NULL: 1 */
    size_t owners;                            /* where its part of the plan's `owners` begins */
    unsigned reusable; /* bit i: output 0 may take the memory of input i, where that is not read later */
} eitp__step;

/* A stretch of the arena, and the steps [first, last] it is in use; -1 is before the first step. */
typedef struct eitp__stretch {
    size_t size, offset;
    int first, last;
} eitp__stretch;

/*
 * Bytes of an offloaded variable that are in the arena for steps that use them. The memory is taken from `start` on, when
 * it begins to be read from the file, until `end`, before which it was written back.
 */
typedef struct eitp__window {
    int64_t variable;
    size_t offset, size;
    int start, first, last, end; /* steps; it is used from `first` to `last` */
    int changes;                 /* is it written back? */
    int stretch;
    int previous; /* the window of the same variable before it; -1: none */
    uint64_t job; /* of the worker: what was begun last */
} eitp__window;

/* In the order in which they are done before one step. */
typedef enum eitp__transfer_kind {
    EITP__TRANSFER_WRITE,   /* begins to write a window back */
    EITP__TRANSFER_WRITTEN, /* waits until it is */
    EITP__TRANSFER_READ,    /* begins to read one */
    EITP__TRANSFER_THERE    /* waits until it is there */
} eitp__transfer_kind;

/* What is done about a window before a step. */
typedef struct eitp__transfer {
    eitp_plan *plan;
    eitp__transfer_kind kind;
    int step, window;
} eitp__transfer;

/* An input of the graph, and what was written to it. */
typedef struct eitp__plan_input {
    eitp_tensor *tensor;
    int is_kept;
    int is_read;      /* by a step, or after an execution */
    void *memory;     /* of one that is kept; others are in the arena */
    uint64_t written; /* the context's arena_use when it was; 0: it never was */
    int64_t count;    /* rows that were written, of a capacity */
} eitp__plan_input;

/* Where a call's operand is: an arena stretch, the memory of an input that is kept, a variable, or nowhere. */
typedef struct eitp__place {
    int stretch;      /* -1: none */
    int input;        /* -1: none */
    int64_t variable; /* -1: none */
    size_t offset;    /* bytes from its start */
    int rows;         /* its leading dimension follows the count */
    int64_t row_elements;
} eitp__place;

typedef struct eitp__binding {
    eitp__place inputs[EITP__MAX_INPUTS];
    eitp__place outputs[EITP__MAX_OUTPUTS];
    eitp__place carry;
} eitp__binding;

/* How often passes looked at a node, a step, an edge between steps or a stretch: what planning takes, for tests. */
typedef struct eitp__plan_visits {
    size_t lower, fuse, order, lifetimes, layout, recompute;
} eitp__plan_visits;

struct eitp_plan {
    eitp_context *context;
    eitp_graph *graph;
    eitp__step *steps;
    size_t step_count, step_capacity;
    int *owners; /* what steps read and write, as eitp__list_owners says; only while the plan is made */
    size_t owner_count, owner_capacity;
    size_t *sizes; /* bytes by tensor id, of what owners has */
    size_t size_capacity;
    unsigned char *needed; /* by node id: does an output or an update need it? only while the plan is made */
    size_t needed_capacity;
    int *outputs; /* ids of the graph's outputs; only while the plan is made */
    size_t output_count, output_capacity;
    int *stretch_of;         /* by tensor id: of the tensor that owns the memory; -1: none */
    unsigned char *readable; /* by tensor id: was it an output when the plan was created? */
    size_t tensor_count, stretch_of_capacity, readable_capacity;
    eitp__stretch *stretches;
    size_t stretch_count, stretch_capacity;
    eitp__window *windows;
    size_t window_count, window_capacity;
    int *latest_window; /* by variable; -1: none */
    size_t latest_window_capacity;
    eitp__transfer *transfers;
    size_t transfer_count, transfer_capacity;
    eitp__call *calls;
    eitp__binding *bindings;
    size_t call_count;
    eitp__plan_input *inputs; /* in the order of their ids */
    size_t input_count, input_capacity;
    uint64_t results; /* the context's arena_use while outputs can be read; 0: they cannot */
    size_t begun;     /* steps that the last execution has begun */
    int64_t count;    /* rows of the capacity that there are */
    uint64_t bound_generation;
    int64_t bound_count;
    eitp_plan_stats stats;
    eitp__plan_visits visits;
    eitp_plan *next; /* of the context's list */
};

/* What the context's plans need of its arena, those of three graphs left out, which may be NULL. */
EITP__PRIVATE size_t eitp__plans_need(const eitp_context *context, const eitp_graph *const without[3]);

/* The tensor that the plan computes in place of this one. */
EITP__PRIVATE eitp_tensor *eitp__lowered(eitp_tensor *tensor);

/* Is the node only another view of its input's memory? */
EITP__PRIVATE int eitp__is_view(const eitp__node *node);

/*
 * The tensor that owns the memory a tensor lies in, and, in *first where that is not NULL, which of its elements is the
 * tensor's first.
 */
EITP__PRIVATE eitp_tensor *eitp__owner(eitp_tensor *tensor, int64_t *first);

/* Does the step end the value of a tensor that it reads? */
EITP__PRIVATE int eitp__step_mutates(const eitp__step *step);

/* What a step reads, NULL where absent, for i in [0, eitp__step_read_count). */
EITP__PRIVATE eitp_tensor *eitp__step_read(const eitp__step *step, int i);
static inline EITP__UNUSED int eitp__step_read_count(const eitp__step *step) {
    return step->input_count + (step->accumulates ? step->output_count + 1 : 0);
}

/*
 * Passes go over all steps again and again, so they do not follow pointers: plan->owners has, from step->owners on, a
 * number for each tensor that the step reads, for each output, and for each value that an output replaces. It is the
 * id of the tensor in the arena that owns the memory, -2 - v if that is variable v, and EITP__NO_OWNER for an absent
 * operand or an output in another tensor's memory. Lists the owners of a step; 0 if out of memory.
 */
enum { EITP__NO_OWNER = -1 };
EITP__PRIVATE int eitp__list_owners(eitp_plan *plan, eitp__step *step);

/* Lists them again, in the same place, after the step's operands were changed for others of the same shape. */
EITP__PRIVATE void eitp__update_owners(eitp_plan *plan, eitp__step *step);

/* The lists of a step: of what it reads, of its outputs, and of what these replace. */
static inline EITP__UNUSED int *eitp__read_owners(const eitp_plan *plan, const eitp__step *step) {
    return plan->owners + step->owners;
}

static inline EITP__UNUSED int *eitp__output_owners(const eitp_plan *plan, const eitp__step *step) {
    return plan->owners + step->owners + eitp__step_read_count(step);
}

static inline EITP__UNUSED int *eitp__replaced_owners(const eitp_plan *plan, const eitp__step *step) {
    return eitp__output_owners(plan, step) + step->output_count;
}

/* The number of the tensor that owns a tensor's memory, as plan->owners has it. */
EITP__PRIVATE int eitp__owner_number(eitp_tensor *tensor);

/* Lists the owners of all steps, and the graph's inputs and outputs. */
EITP__PRIVATE eitp_status eitp__list_operands(eitp_plan *plan, eitp_error *error);

/* Is the tensor in an offloaded variable? */
EITP__PRIVATE int eitp__is_offloaded_tensor(const eitp_plan *plan, eitp_tensor *tensor);

/* Finds the windows, and a stretch for each, of the steps as they are; 0: no memory. */
EITP__PRIVATE int eitp__plan_windows(eitp_plan *plan);

/* The window that a tensor in an offloaded variable has at a step. */
EITP__PRIVATE const eitp__window *eitp__window_at(const eitp_plan *plan, eitp_tensor *tensor, int step);

/* Lists the transfers, when the windows are final. */
EITP__PRIVATE eitp_status eitp__plan_transfers(eitp_plan *plan, eitp_error *error);

/* Runs all steps by `run`, which takes the steps [first, end), and the transfers between them. */
EITP__PRIVATE eitp_status eitp__offload_steps(eitp_plan *plan, void *workspace,
                                              eitp_status (*run)(eitp_plan *plan, size_t first, size_t end,
                                                                 void *workspace, eitp_error *error),
                                              eitp_error *error);

/*
 * True if the last execution began a step that changes a parameter, its remainder or optimizer state, which is what
 * checkpoints have. Gradients are overwritten by the next execution.
 */
EITP__PRIVATE int eitp__plan_changed_state(const eitp_plan *plan);

/* Adds a stretch of `size` bytes; its number, or -1 where memory is short. */
EITP__PRIVATE int eitp__add_stretch(eitp_plan *plan, size_t size, int first, int last);

/* Finds the nodes that are needed. */
EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error);

/* Makes the steps from them. */
EITP__PRIVATE eitp_status eitp__plan_fuse(eitp_plan *plan, eitp_error *error);

/* Sorts the steps. */
EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error);

/*
 * Makes values again instead of keeping them, as long as that brings the most that is in use at once down to `target`
 * bytes.
 */
EITP__PRIVATE eitp_status eitp__plan_recompute(eitp_plan *plan, size_t target, eitp_recompute mode, eitp_error *error);

/* What a step takes at the device's nominal speed, in seconds. */
EITP__PRIVATE double eitp__step_seconds(const eitp_plan *plan, const eitp__step *step);

/* Finds the stretches and how long each is in use, without places; 0: no memory. */
EITP__PRIVATE int eitp__plan_lifetimes(eitp_plan *plan);

/* The same, and the most that is in use at once. */
EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error);

/* Gives each stretch its offset, and the arena its size. */
EITP__PRIVATE eitp_status eitp__plan_place(eitp_plan *plan, eitp_error *error);

#endif
