/* Arguments of the kernels in kernels/cuda/. */
#ifndef EITP_LAUNCH_H
#define EITP_LAUNCH_H

#include "kernels/kernels.h"

typedef struct eitp__launch {
    eitp__call call;
    const int64_t *rows; /* device memory: number of rows of this execution; NULL: shapes are as in the call */
    void *workspace;     /* device memory */
} eitp__launch;

/* A block of a group: its call, and its number among the blocks of this call. */
typedef struct eitp__group_block {
    uint32_t call, block;
} eitp__group_block;

/* The argument of kernels compiled with GROUP: calls that share a launch. The arrays are in device memory. */
typedef struct eitp__group {
    const eitp__launch *calls;
    const eitp__group_block *blocks; /* of the launch; NULL: all of them belong to the first call */
    int chain;                       /* number of calls that a block executes, from its call on */
} eitp__group;

#endif
