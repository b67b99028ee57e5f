/* Describes nodes for listings: operands, results, and fate in a plan. */
#ifndef EITP_GRAPH_LISTING_H
#define EITP_GRAPH_LISTING_H

#include "tensor/plan.h"

/* Text buffer with a fixed capacity: text beyond it is counted but not stored. */
typedef struct eitp__listing {
    char *text;
    size_t capacity;
    size_t size; /* without the terminating zero */
} eitp__listing;

EITP__PRIVATE void eitp__list(eitp__listing *out, const char *format, ...) EITP__PRINTF(2, 3);

/* Steps in which a plan computes a node. Steps count from 1, so 0 is none. */
typedef struct eitp__node_steps {
    int first;      /* step that stores the node's result */
    int fused_into; /* step that computes the node without storing its result */
    int recomputed; /* first step that recomputes the node */
    int times;      /* number of such steps */
} eitp__node_steps;

/* A graph viewed with a plan. */
typedef struct eitp__graph_view {
    const eitp_graph *graph;
    const eitp_plan *plan;   /* NULL: without a plan */
    eitp__node_steps *steps; /* by node id, with a plan */
} eitp__graph_view;

/* Finds the steps of all nodes. */
EITP__PRIVATE eitp_status eitp__graph_view_open(eitp__graph_view *view, const eitp_graph *graph, const eitp_plan *plan,
                                                eitp_error *error);
EITP__PRIVATE void eitp__graph_view_close(eitp__graph_view *view);

/* True if the tensor is the first one of an entry in a listing: a leaf, or the first result of a node. */
EITP__PRIVATE int eitp__starts_entry(const eitp_graph *graph, const eitp_tensor *tensor);

/* Return the number of results of the entry, and the result at an index. */
EITP__PRIVATE int eitp__entry_results(const eitp_tensor *first);
EITP__PRIVATE eitp_tensor *eitp__entry_result(eitp_tensor *first, int i);

/* Returns "softmax", "input", "parameter", ... */
EITP__PRIVATE const char *eitp__entry_word(const eitp_tensor *first);

/* True if the plan computes the node more than once; if it neither computes nor reads it. */
EITP__PRIVATE int eitp__is_recomputed(const eitp__graph_view *view, const eitp_tensor *first);
EITP__PRIVATE int eitp__is_unplanned(const eitp__graph_view *view, eitp_tensor *first);

/* Write columns: dtype and shape of each result; fate of the node. */
EITP__PRIVATE void eitp__list_types(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first);
EITP__PRIVATE void eitp__list_notes(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first);

#endif
