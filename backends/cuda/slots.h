/*
 * The kernels of each slot: backends/cuda/<name>.c lists the kernels of kernels/cuda/<name>.cu and their launch
 * parameters.
 *
 * A call runs the stages of the first entry for its slot that supports it, in order. A stage passes results to the next
 * one in the workspace. Numbers of blocks depend on shapes only, so that a device always gives the same bits.
 */
#ifndef EITP_CUDA_SLOTS_H
#define EITP_CUDA_SLOTS_H

#include "backends/cuda/device_info.h"

#include "kernels/cuda/product_parts.h"

#if EITP__WITH_CUDA

#define EITP__CUDA_STAGES 4

/* Sets of dtypes. */
#define EITP__CUDA_DTYPE(dtype) (1u << (dtype))
#define EITP__CUDA_HALVES (EITP__CUDA_DTYPE(EITP_BF16) | EITP__CUDA_DTYPE(EITP_F16))
#define EITP__CUDA_FLOATING (EITP__CUDA_HALVES | EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_DTYPE(EITP_F64))
#define EITP__CUDA_ANY ((1u << EITP_DTYPE_COUNT) - 1)

typedef struct eitp__cuda_stage {
    const char *kernel;
    int threads;                               /* of a block */
    int64_t (*blocks)(const eitp__call *call); /* 0: nothing to do */
    size_t (*shared)(const eitp__call *call);  /* bytes of DYNAMIC_SHARED; NULL: none */
} eitp__cuda_stage;

typedef struct eitp__cuda_kernels {
    eitp__slot slot;
    unsigned dtypes;  /* supported values of call->dtype: SCALAR of the kernel file */
    const char *file; /* "kernels/cuda/rows.cu" */
    int (*supports)(const eitp__call *call, const eitp__cuda_device *device); /* NULL: every call */
    size_t (*workspace)(const eitp__call *call);                              /* bytes; NULL: none */
    /* Writes additional definitions for the compiler, separated by spaces, such as "HEAD_WIDTH=64". NULL: none. */
    void (*define)(const eitp__call *call, char *text, size_t size);
    eitp__cuda_stage stages[EITP__CUDA_STAGES]; /* up to the first without a kernel */
} eitp__cuda_kernels;

/* A kernel of an entry. */
typedef struct eitp__cuda_kernel {
    const eitp__cuda_kernels *entry; /* NULL: a product of cuBLASLt */
    const eitp__cuda_stage *stage;
} eitp__cuda_kernel;

/* The entries of a file. */
typedef struct eitp__cuda_list {
    const eitp__cuda_kernels *kernels;
    size_t count;
} eitp__cuda_list;

/* Gets list `i` of all files, in the order in which they are searched. Returns 0 after the last. */
EITP__PRIVATE int eitp__cuda_list_at(size_t i, eitp__cuda_list *list);

/* Returns the entry for a call, or NULL. Absent operands have no elements. */
EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_find(const eitp__call *call, const eitp__cuda_device *device);

/* True if the kernels for a call are compiled with GROUP, so that several calls can share a launch: see groups.c. */
EITP__PRIVATE int eitp__cuda_is_grouped(const eitp__cuda_kernels *kernels, const eitp__call *call);

/* Writes the definitions for compiling an entry's file for a call: "SCALAR=0 HEAD_WIDTH=64". */
#define EITP__CUDA_DEFINITIONS 120
EITP__PRIVATE void eitp__cuda_definitions(const eitp__cuda_kernels *kernels, const eitp__call *call,
                                          char text[EITP__CUDA_DEFINITIONS]);

EITP__PRIVATE eitp__cuda_list eitp__cuda_elementwise(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_movement(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_reduce(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_rows(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_columns(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_update(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_factored(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_matrix(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_attention(void);
EITP__PRIVATE eitp__cuda_list eitp__cuda_products(void);

/* ---- Numbers of blocks ---- */

/* Default number of threads per block. */
#define EITP__CUDA_THREADS 256
/* Elements of output 0 computed by a thread of an element-wise kernel, at a stride of EITP__CUDA_THREADS. */
#define EITP__CUDA_UNROLL 4

static inline EITP__UNUSED int64_t eitp__cuda_ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Returns the blocks of EITP__CUDA_THREADS threads if each thread computes EITP__CUDA_UNROLL elements of output 0. */
EITP__PRIVATE int64_t eitp__cuda_element_blocks(const eitp__call *call);

/* Return the number of rows of input 0, and the number of blocks if each row has a block, or a warp of a block of
   EITP__CUDA_THREADS threads. */
EITP__PRIVATE int64_t eitp__cuda_input_rows(const eitp__call *call);
EITP__PRIVATE int64_t eitp__cuda_row_blocks(const eitp__call *call);
EITP__PRIVATE int64_t eitp__cuda_row_warp_blocks(const eitp__call *call);

/* Returns 1. */
EITP__PRIVATE int64_t eitp__cuda_one_block(const eitp__call *call);

#endif

#endif
