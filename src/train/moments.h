/* Moments from one form into another: for runs that go on with another optimizer than they began with. */
#ifndef EITP_MOMENTS_H
#define EITP_MOMENTS_H

#include "io/safetensors.h"
#include "train/train.h"

/* Reads the moments of all parameters from a file of optimizer state, whatever they are kept in there. */
EITP__PRIVATE eitp_status eitp__moments_load(eitp_context *context, const char *path, eitp_error *error);

#endif
