/* Whether accumulated gradients depend on how rows are cut into passes. */
#ifndef EITP_ROW_SUMS_H
#define EITP_ROW_SUMS_H

#include "tensor/graph.h"

/*
 * Looks in the graph of a loss, before its gradients are added, for a trained parameter whose gradient does not go on
 * row by row from what eitp__accumulate_gradients_apart has accumulated, so that its last bits depend on how many rows
 * a pass takes: writes the name of the first one to *parameter, NULL where there is none. `cuts_samples`: products over
 * a leading dimension other than rows can be cut between passes too.
 */
EITP__PRIVATE eitp_status eitp__find_cut_gradient(const eitp_graph *graph, int cuts_samples, const char **parameter,
                                                  eitp_error *error);

#endif
