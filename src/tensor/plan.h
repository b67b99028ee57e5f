/*
 * A plan: a graph made ready to run. The passes, in the order they run, and where each is:
 *   lower    plan_lower.c   the nodes that outputs and updates need; those without a kernel are expanded
 *   fuse     plan_lower.c   products and sums that only feed an accumulation add to its target themselves
 *   order    plan_order.c   creation order, but updates as soon as nobody reads the old value any more
 *   lay out  plan_layout.c  lifetimes, memory taken over in place, offsets in the arena
 *   bind     plan.c         calls with operands; addresses are filled in when a plan runs
 */
#ifndef EITP_PLAN_H
#define EITP_PLAN_H

#include "tensor/context.h"
#include "tensor/graph.h"

/* A node in the plan. */
typedef struct eitp__step {
    eitp__node *node;
    eitp__node *absorbed[EITP__MAX_OUTPUTS]; /* by output: the accumulation that this node does itself; NULL: none */
    int mutates;                             /* changes a variable */
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
    int *stretch_of;         /* by tensor id: of the tensor that owns the memory; -1: none */
    unsigned char *readable; /* by tensor id: was it an output when the plan was created? */
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

/* What a step reads, lowered; NULL where absent. What absorbed accumulations read comes after the node's own. */
EITP__PRIVATE eitp_tensor *eitp__step_input(const eitp__step *step, int i);
EITP__PRIVATE int eitp__step_input_count(const eitp__step *step);

/* What a step makes as output i of its node, and the tensor whose value that replaces (NULL: none). */
EITP__PRIVATE eitp_tensor *eitp__step_output(const eitp__step *step, int i);
EITP__PRIVATE eitp_tensor *eitp__step_replaces(const eitp__step *step, int i);

EITP__PRIVATE eitp_status eitp__plan_lower(eitp_plan *plan, eitp_error *error);
EITP__PRIVATE eitp_status eitp__plan_order(eitp_plan *plan, eitp_error *error);
EITP__PRIVATE eitp_status eitp__plan_layout(eitp_plan *plan, eitp_error *error);

#endif
