/*
 * Statistics of the activations of a pass, by layer. After each call of the forward pass that has some, they are
 * computed from its results, in the calling thread. So the graph and its plan do not change, and steps that are not
 * watched cost nothing.
 */
#ifndef EITP_ACTIVATIONS_H
#define EITP_ACTIVATIONS_H

#include "tensor/plan.h"
#include "train/train.h"

/* An activation of at most this magnitude is near zero, as is GELU's derivative for inputs below -3.4. */
#define EITP__DEAD_ACTIVATION 1e-3f

enum {
    EITP__WATCHED_LAYERS = 128,     /* layers after these are left out */
    EITP__WATCHED_COLUMNS = 16384,  /* calls with longer rows are left out */
    EITP__WATCHED_QUERIES = 16,     /* rows per call whose attention is computed */
    EITP__WATCHED_HEADS = 128,      /* calls with more heads are left out */
    EITP__WATCHED_WIDTH = 1024,     /* calls with wider heads are left out */
    EITP__WATCHED_SEQUENCES = 4096, /* rows of sequences after these are left out */
    EITP__WATCHED_PIECE = 1024      /* elements read at a time */
};

/* The sums of a layer. */
typedef struct eitp__watched_layer {
    char name[sizeof((eitp_layer_activations *)0)->name];
    double squares; /* sum of the mean squares of rows that norms read, and number of rows */
    int64_t rows;
    double entropy; /* sum of attention entropies relative to the largest, and number of queries of all heads */
    int64_t queries;
    int64_t units, dead; /* units of activation functions, and those near zero */
} eitp__watched_layer;

/* A query whose attention is computed, with all its heads. */
typedef struct eitp__watched_query {
    int64_t row, begin, end; /* it attends to rows [begin, end) */
    double logsumexp[EITP__WATCHED_HEADS], entropy[EITP__WATCHED_HEADS];
} eitp__watched_query;

typedef struct eitp__activation_watch {
    eitp__watched_layer layers[EITP__WATCHED_LAYERS];
    size_t count;
    float values[EITP__WATCHED_COLUMNS]; /* values that were read */
    float others[EITP__WATCHED_COLUMNS]; /* the largest of each column, or the queries */
    float angles[EITP__WATCHED_WIDTH];   /* the rotation of a row */
    eitp__watched_query queries[EITP__WATCHED_QUERIES];
    int32_t offsets[EITP__WATCHED_SEQUENCES + 1], lengths[EITP__WATCHED_SEQUENCES];
} eitp__activation_watch;

/* Implements eitp__watcher.done. `activations` is an eitp__activation_watch. */
EITP__PRIVATE eitp_status eitp__activation_watch_step(void *activations, const eitp_plan *plan, size_t step,
                                                      eitp_error *error);

/* Writes the means of the first `capacity` layers. */
EITP__PRIVATE void eitp__activation_watch_read(const eitp__activation_watch *activations,
                                               eitp_layer_activations *layers, size_t capacity, size_t *count);

#endif
