/*
 * Moments from one form into another: for runs that go on with another optimizer than they began with.
 *
 * A velocity is the sum of decayed gradients, and m their mean: m = (1 - momentum) velocity, each with the momentum (or
 * beta1) of its own run. Of squares SGD knows nothing; but where gradients are mostly noise, as those of micro-batches
 * are, the square of m is v (1 - momentum) / (1 + momentum) on average. So v is made of the squares of velocities, by
 * means of rows and columns, and of a vector by the mean of all: one velocity that happens to be next to zero would
 * make a v that is next to nothing, and the steps after it as many times larger. v is then what it would be after as
 * many steps as there were, so that the correction of its beginning is right too.
 */
#ifndef EITP_MOMENTS_H
#define EITP_MOMENTS_H

#include "io/safetensors.h"
#include "train/train.h"

/*
 * Reads the moments of all parameters from a file of optimizer state, whatever they are kept in there: `written` says
 * what they were made with, `config` what is to go on with them. Where `loads` is 0 they are only checked.
 */
EITP__PRIVATE eitp_status eitp__moments_read(eitp_context *context, const char *path,
                                             const eitp_checkpoint_info *written, const eitp_optimizer_config *config,
                                             int loads, eitp_error *error);

#endif
