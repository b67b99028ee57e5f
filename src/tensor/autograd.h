/* Reverse-mode differentiation. */
#ifndef EITP_AUTOGRAD_H
#define EITP_AUTOGRAD_H

#include "tensor/graph.h"

/* A gradient term. A tensor's gradient is the sum of its terms. */
typedef struct eitp__term {
    eitp_tensor *value;
    struct eitp__term *next;
} eitp__term;

/* Computes the gradient terms of each xs[i] as terms[i]: from the ys, weighted by seeds, through the nodes from `first`
   on. A NULL y or seed contributes nothing. */
EITP__PRIVATE void eitp__differentiate(eitp_graph *graph, size_t first, int y_count, eitp_tensor *const *ys,
                                       eitp_tensor *const *seeds, int x_count, eitp_tensor *const *xs,
                                       eitp__term **terms);

/* Like eitp_gradients, but the gradient of an x that y does not depend on is NULL. */
EITP__PRIVATE eitp_status eitp__gradients_or_null(eitp_tensor *y, eitp_tensor *seed, int count, eitp_tensor *const *xs,
                                                  eitp_tensor **gradients, eitp_error *error);

#endif
