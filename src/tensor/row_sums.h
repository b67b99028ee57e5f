/* Finds gradients that depend on the division of rows into passes. */
#ifndef EITP_ROW_SUMS_H
#define EITP_ROW_SUMS_H

#include "tensor/graph.h"

/*
 * Finds a trained parameter whose gradient, accumulated as in eitp__accumulate_gradient_terms, is not a sum that
 * continues row by row, or sample by sample, from pass to pass. The last bits of such a gradient depend on the number
 * of samples per pass. Examines the graph of a loss before its gradients are added; uses of parameters that do not give
 * the loss a gradient do not count. Sets *parameter to the name of the first one found, or NULL.
 */
EITP__PRIVATE eitp_status eitp__find_pass_dependent_gradient(const eitp_tensor *loss, const char **parameter,
                                                             eitp_error *error);

#endif
