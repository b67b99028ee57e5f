/* Argument of the kernels in kernels/cuda/. */
#ifndef EITP_LAUNCH_H
#define EITP_LAUNCH_H

#include "kernels/kernels.h"

typedef struct eitp__launch {
    eitp__call call;
    const int64_t *rows; /* device memory: number of rows of this execution; NULL: shapes are as in the call */
    void *workspace;     /* device memory */
} eitp__launch;

#endif
