/* Path norms of networks, as graphs of their weights. */
#ifndef EITP_PATH_NORM_H
#define EITP_PATH_NORM_H

#include "base/platform.h"
#include "objective/objective.h"

/*
 * Returns ln phi_q of a network of layers [in, out] without biases, [1]. phi_q^q is the sum over paths from an input to
 * an output of the product of |w|^q, where q = `power` is 1 or 2 (Neyshabur et al., arXiv 1503.00036). If no path is
 * left, the result is finite, with a gradient of 0.
 */
EITP__PRIVATE eitp_tensor *eitp__path_norm_layers(eitp_tensor *const *weights, int count, int power);

/*
 * Returns the path norm of a model, F32 [1]: ln phi_q / blocks, of a surrogate of the Transformer, since attention and
 * layer norms are not homogeneous. phi_q^q is the mean over outputs of the sum over paths of the product of |w|^q. A
 * path starts in a channel of the embedding. It passes through the gain of each norm, the values of attention (whose
 * mixing of rows increases no bound), the MLP, and the head, or ends after the last norm. The two residual sums of a
 * block add the paths that bypass it. Adapters count with their weights, and frozen parameters like any others. The
 * forms l1 and l2 are the mean absolute value and the mean square of the elements of all matrices.
 */
EITP__PRIVATE eitp_tensor *eitp__path_norm(const eitp_model *model, eitp_graph *graph, eitp_path_norm_form form);

#endif
