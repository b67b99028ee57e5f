/* Ops used only by eitp's own models and objectives. */
#ifndef EITP_INTERNAL_OPS_H
#define EITP_INTERNAL_OPS_H

#include "base/platform.h"
#include "tensor/tensor.h"

/*
 * Returns independent elements -1 and +1, each with probability 1/2, in the shape and dtype of `like`, whose values are
 * not used. `key` is as for eitp_dropout: the signs of a row depend on its index within the step, not on the division
 * of the step into passes. Two calls in a graph give different signs.
 */
EITP__PRIVATE eitp_tensor *eitp__random_signs(eitp_tensor *like, eitp_tensor *key);

/*
 * Computes x |weight|^power, elementwise, with power 1 or 2: x [in] or [1, in] and weight [in, out] give [out] or [1,
 * out]; with `transpose`, x [out] or [1, out] gives [in] or [1, in]. Sums are in F64. x is F32 (F64 if the weight is).
 * Neither |weight|^power nor an outer product is stored, unless the weight is F64. The gradient of the weight, 0 where
 * the weight is 0, can be computed in pieces of rows.
 */
EITP__PRIVATE eitp_tensor *eitp__path_product(eitp_tensor *x, eitp_tensor *weight, int power, int transpose);

/* Computes the sum of squares of all elements, F64 [1]. */
EITP__PRIVATE eitp_tensor *eitp__sum_squares(eitp_tensor *x);

#endif
