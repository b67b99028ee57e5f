/*
 * Converts moments from one optimizer's form to another's, for runs that switch optimizers.
 *
 * A velocity is the sum of decayed gradients, and m is their mean: m = (1 - momentum) velocity, where each run uses its
 * own momentum (or beta1). SGD stores no squared gradients. But where gradients are mostly noise, as in micro-batches,
 * the mean of m^2 is v (1 - momentum) / (1 + momentum). So v is computed from squared velocities, through the means of
 * their rows and columns, or for a vector through the mean of all elements: a single velocity near zero would otherwise
 * give a v near zero, and updates that are larger by the same factor. The result is scaled to the value of v after the
 * same number of steps, so bias correction applies to it too.
 */
#ifndef EITP_MOMENTS_H
#define EITP_MOMENTS_H

#include "io/safetensors.h"
#include "train/train.h"

/*
 * Reads the moments of all parameters from a file of optimizer state, in any of the optimizers' forms. `written`
 * describes the run that wrote them, `config` the optimizer that continues with them. If `loads` is 0, the moments are
 * only checked.
 */
EITP__PRIVATE eitp_status eitp__moments_read(eitp_context *context, const char *path,
                                             const eitp_checkpoint_info *written, const eitp_optimizer_config *config,
                                             int loads, eitp_error *error);

#endif
