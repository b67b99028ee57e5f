/* Element types. */
#ifndef EITP_DTYPE_H
#define EITP_DTYPE_H

#include <stddef.h>
#include <stdint.h>

typedef enum eitp_dtype {
    EITP_F32 = 0,
    EITP_F64 = 1,
    EITP_BF16 = 2,
    EITP_F16 = 3,
    EITP_I64 = 4,
    EITP_I32 = 5,
    EITP_I8 = 6,
    EITP_U8 = 7,
    EITP_I16 = 8
} eitp_dtype;

#define EITP_DTYPE_COUNT 9

/* Maximum number of dimensions of a tensor. */
#define EITP_MAX_RANK 6

#endif
