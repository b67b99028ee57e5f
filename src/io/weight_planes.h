/*
 * F32 weights in 16-bit files. A checkpoint's weights file has the upper plane of each value, so that other programs
 * can read it like any model. The optimizer's file has the lower plane, a tensor of the same shape. Together they
 * restore the value exactly:
 *
 *     BF16   "remainder.<name>", I16: the bits of the F32 value minus the bits of the BF16 value (see eitp__split_bf16)
 *     F16    "master.<name>", F32: the value itself, whose range and precision F16 lacks
 */
#ifndef EITP_WEIGHT_PLANES_H
#define EITP_WEIGHT_PLANES_H

#include "base/platform.h"

typedef enum eitp__plane {
    EITP__PLANE_ALONE, /* no lower plane restores the rounding error: to nearest, ties to even */
    EITP__PLANE_UPPER, /* BF16 rounds ties away from zero, which 16 bits can undo */
    EITP__PLANE_LOWER
} eitp__plane;

/* Returns the dtype of the lower plane of a 16-bit tensor. */
EITP__PRIVATE eitp_dtype eitp__lower_plane_dtype(eitp_dtype upper);

/* Returns the prefix of a lower plane's name, before the tensor's own name. */
EITP__PRIVATE const char *eitp__lower_plane_prefix(eitp_dtype upper);

/* Returns the name of the tensor whose lower plane has this name; NULL if it is not the name of a lower plane. */
EITP__PRIVATE const char *eitp__lower_plane_owner(const char *name);

/* Rounds values to the upper plane of BF16. */
EITP__PRIVATE void eitp__keep_upper_plane(float *values, size_t count);

/* Replaces values with the lower plane of BF16, an array of int16_t in the same memory. */
EITP__PRIVATE void eitp__keep_lower_plane(float *values, size_t count);

/* Adds the lower plane of BF16 to the upper plane. */
EITP__PRIVATE void eitp__join_planes(float *values, const int16_t *lower, size_t count);

#endif
