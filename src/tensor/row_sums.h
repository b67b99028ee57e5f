/* Whether accumulated gradients depend on how rows are cut into passes. */
#ifndef EITP_ROW_SUMS_H
#define EITP_ROW_SUMS_H

#include "tensor/graph.h"

/*
 * Looks in the graph of a loss, before its gradients are added, for a trained parameter whose gradient does not go on
 * row by row, or sample by sample, from what eitp__accumulate_gradients_apart has accumulated, so that its last bits
 * depend on how many a pass takes. Writes the name of the first one to *parameter, or NULL.
 */
EITP__PRIVATE eitp_status eitp__find_cut_gradient(const eitp_graph *graph, const char **parameter, eitp_error *error);

#endif
