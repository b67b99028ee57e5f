/* What a listing says of a node: its operands, its results, and what becomes of it in a plan. */
#ifndef EITP_GRAPH_LISTING_H
#define EITP_GRAPH_LISTING_H

#include "tensor/plan.h"

/* Text that grows beyond its memory: it is counted, and what fits is kept. */
typedef struct eitp__listing {
    char *text;
    size_t capacity;
    size_t size; /* without the terminating zero */
} eitp__listing;

EITP__PRIVATE void eitp__list(eitp__listing *out, const char *format, ...) EITP__PRINTF(2, 3);

/* Where a plan computes a node. Steps count from 1, so 0 is none. */
typedef struct eitp__node_steps {
    int first;      /* the step that stores the node's result */
    int fused_into; /* the step that computes the node without storing its result */
    int recomputed; /* the first step that computes the node again */
    int times;      /* how many steps do */
} eitp__node_steps;

/* A graph, seen with a plan. */
typedef struct eitp__graph_view {
    const eitp_graph *graph;
    const eitp_plan *plan;   /* NULL: without */
    eitp__node_steps *steps; /* by node id, with a plan */
} eitp__graph_view;

/* Finds the steps of all nodes. */
EITP__PRIVATE eitp_status eitp__graph_view_open(eitp__graph_view *view, const eitp_graph *graph, const eitp_plan *plan,
                                                eitp_error *error);
EITP__PRIVATE void eitp__graph_view_close(eitp__graph_view *view);

/* True if a listing has an entry that begins with this tensor: a leaf, or the first result of a node. */
EITP__PRIVATE int eitp__begins_entry(const eitp_graph *graph, const eitp_tensor *tensor);

/* Number of results of the entry, and the result at an index. */
EITP__PRIVATE int eitp__entry_results(const eitp_tensor *first);
EITP__PRIVATE eitp_tensor *eitp__entry_result(eitp_tensor *first, int i);

/* "softmax", "input", "parameter", ... */
EITP__PRIVATE const char *eitp__entry_word(const eitp_tensor *first);

/* True if the plan computes the node more than once; if it neither computes nor reads it. */
EITP__PRIVATE int eitp__is_recomputed(const eitp__graph_view *view, const eitp_tensor *first);
EITP__PRIVATE int eitp__is_unplanned(const eitp__graph_view *view, eitp_tensor *first);

/* Columns: dtype and shape of each result; what becomes of it. */
EITP__PRIVATE void eitp__list_types(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first);
EITP__PRIVATE void eitp__list_notes(eitp__listing *out, const eitp__graph_view *view, eitp_tensor *first);

#endif
