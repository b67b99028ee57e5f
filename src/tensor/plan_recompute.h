/* State that the files of the recompute pass share: uses of values, memory at each step, and steps to insert. */
#ifndef EITP_PLAN_RECOMPUTE_H
#define EITP_PLAN_RECOMPUTE_H

#include "tensor/plan.h"

/* A value with no use around the peak step, and the use before which it could be recomputed. */
typedef struct eitp__candidate {
    eitp_tensor *value;
    int before;     /* the step of its next use */
    double benefit; /* bytes freed per second of recomputation */
    double freed;   /* bytes */
} eitp__candidate;

/* The cost of recomputing a value together with the operands that are no longer live. */
typedef struct eitp__recompute_cost {
    double seconds;
    double retained; /* bytes of operands that must stay live across the peak step */
    int steps;       /* steps executed again */
} eitp__recompute_cost;

/* By tensor id, for tensors that own memory in the arena. Copies add entries, so the array may be reallocated. */
typedef struct eitp__uses {
    int producer, last_use;     /* steps; -1: none */
    int previous_use, next_use; /* the last use up to the peak step, and the first after it; -1: none */
    int overwritten;            /* a later value took its memory */
    int is_output;              /* the tensor, or a view of it, is an output of the graph */
    int origin;                 /* id of the tensor that holds the value first */
    int next_copy;              /* id of the next tensor that holds the value; -1: none */
    int rejected; /* first output of the step before which recomputing it did not reduce the peak; -1: none */
    int reads;
    double seconds; /* cost of its recipe; 0: not computed yet */
} eitp__uses;

/* The last use of a value before an attempt changed it. */
typedef struct eitp__saved_use {
    int value, last_use;
} eitp__saved_use;

/* Steps to insert before one step: `inserted` from `first` up to the first of the next insertion. */
typedef struct eitp__insertion {
    int before;
    size_t first;
} eitp__insertion;

typedef struct eitp__recompute {
    eitp_plan *plan;
    const eitp_host *host;
    eitp_recompute mode;
    eitp__uses *uses;
    size_t use_capacity;
    int *changed; /* by variable: the first step that changes it */
    size_t variables;
    size_t *live; /* bytes live at each step; after eitp__restore_steps still those of the attempt */
    size_t live_capacity;
    int peak_step;               /* the first step at which most bytes are live */
    size_t peak;                 /* bytes live at it */
    eitp__candidate *candidates; /* of a round */
    size_t candidate_capacity;
    eitp__candidate *selected; /* of an attempt, the last step first */
    size_t selected_capacity;
    eitp__step *inserted; /* steps to insert at the end of the attempt */
    size_t inserted_count, inserted_capacity;
    eitp__insertion *insertions; /* where they go, the last step first */
    size_t insertion_count, insertion_capacity;
    double cost_tolerance; /* how many times the cost per byte of a value its operands may cost per byte */
    /* What eitp__restore_steps needs to undo an attempt. */
    eitp__step *saved_steps;
    size_t saved_step_count, saved_step_capacity;
    int *saved_owners;
    size_t saved_owner_count, saved_owner_capacity;
    eitp__saved_use *saved_uses;
    size_t saved_use_count, saved_use_capacity;
    size_t saved_tensor_count;
    size_t saved_peak;
    int saved_peak_step;
} eitp__recompute;

static inline EITP__UNUSED double eitp__value_bytes(const eitp_tensor *x) {
    return (double)eitp__tensor_bytes(x);
}

/* ---- plan_recompute_cost.c: uses, liveness and cost ---- */

/* The tensor in the arena that owns the memory of x; NULL if x is NULL or in a variable. */
EITP__PRIVATE eitp_tensor *eitp__arena_value(eitp_tensor *x);

/* Resets the entry of a tensor. */
EITP__PRIVATE void eitp__reset_uses(eitp__uses *uses, int id);

/* Grows the arrays by tensor and by step to the size of graph and plan; 0: out of memory. */
EITP__PRIVATE int eitp__recompute_reserve(eitp__recompute *r);

/* Finds the uses of all values, relative to the peak step. */
EITP__PRIVATE void eitp__collect_uses(eitp__recompute *r);

/* Updates lifetimes, live bytes and the peak to the current steps; 0: out of memory. */
EITP__PRIVATE int eitp__update_liveness(eitp__recompute *r);

/*
 * The step that recomputes a value: a copy of the step that computed it. The result of a product's activation is
 * recomputed from the product alone if the product is stored too.
 */
EITP__PRIVATE eitp__step eitp__recipe(const eitp__step *step, const eitp_tensor *value);

/* The cost of a recipe in seconds, including reads of offloaded variables. */
EITP__PRIVATE double eitp__recipe_seconds(const eitp__recompute *r, const eitp__step *recipe, const eitp_tensor *value);

/* A tensor that holds the value and is live at a step; NULL: none. */
EITP__PRIVATE eitp_tensor *eitp__live_instance(const eitp__recompute *r, eitp_tensor *value, int step);

/*
 * True if a value that is not live before a step is recomputed for it rather than kept until then: because it is
 * recomputed later anyway, because it is overwritten, or because its cost per byte is within the tolerance of
 * `cost_per_byte`. Adds its cost to *cost.
 */
EITP__PRIVATE int eitp__is_recomputed_for(const eitp__recompute *r, eitp_tensor *value, int before, int depth,
                                          double cost_per_byte, eitp__recompute_cost *cost);

/* Finds the values live across the peak step that can be recomputed, the largest benefit first. Returns their number,
 * or -1 if out of memory. */
EITP__PRIVATE int eitp__find_candidates(eitp__recompute *r);

/* ---- plan_recompute_steps.c: inserting steps ---- */

/* Inserts steps that recompute `count` candidates, and updates the liveness; 0: out of memory. */
EITP__PRIVATE int eitp__recompute_candidates(eitp__recompute *r, const eitp__candidate *candidates, size_t count);

/* Restores the steps, and what is known of them, to before the last eitp__recompute_candidates. */
EITP__PRIVATE void eitp__restore_steps(eitp__recompute *r);

#endif
