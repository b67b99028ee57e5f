/*
 * Converting moments from one optimizer's form to another's, for runs that switch optimizers.
 *
 * A velocity is the sum of decayed gradients, m their mean: m = (1 - momentum) velocity, each with the momentum (or
 * beta1) of its own run. SGD keeps nothing of squared gradients. But where gradients are mostly noise, as those of
 * micro-batches are, the mean of m^2 is v (1 - momentum) / (1 + momentum). So v is computed from squared velocities,
 * through the means of their rows and columns, and for a vector through the mean of all: a single velocity near zero
 * would otherwise yield a v near zero, and updates that are larger by the same factor. The result is scaled to what v
 * would be after the same number of steps, so that bias correction holds for it too.
 */
#ifndef EITP_MOMENTS_H
#define EITP_MOMENTS_H

#include "io/safetensors.h"
#include "train/train.h"

/*
 * Reads the moments of all parameters from a file of optimizer state, in whatever form the file has them. `written`
 * describes the run that wrote them, `config` the optimizer that continues with them. If `loads` is 0 they are only
 * checked.
 */
EITP__PRIVATE eitp_status eitp__moments_read(eitp_context *context, const char *path,
                                             const eitp_checkpoint_info *written, const eitp_optimizer_config *config,
                                             int loads, eitp_error *error);

#endif
