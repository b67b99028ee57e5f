/* Locates the operands of each head for the attention kernels. */
#ifndef EITP_ATTENTION_H
#define EITP_ATTENTION_H

#include "kernels/kernels.h"

/* A block of columns of an operand, with `stride` elements per row of the operand. */
typedef struct eitp__submatrix {
    void *data; /* first element of row 0 */
    eitp_dtype dtype;
    int64_t stride;
} eitp__submatrix;

static inline EITP__UNUSED eitp__submatrix eitp__submatrix_of(const eitp__operand *operand, int64_t first) {
    eitp__submatrix columns;
    columns.data = (char *)operand->data + (size_t)first * eitp_dtype_size(operand->dtype);
    columns.dtype = operand->dtype;
    columns.stride = operand->shape[1];
    return columns;
}

/*
 * Returns the columns of one head of queries, keys or values. The three are either joined in one operand or separate.
 */
static inline EITP__UNUSED eitp__submatrix
eitp__head_submatrix(const eitp__operand *const operands[EITP__ATTENTION_PARTS], int is_joined, int64_t heads,
                     int64_t key_heads, int64_t width, eitp__attention_part part, int64_t head) {
    const int64_t before[] = {0, heads, heads + key_heads};
    return is_joined ? eitp__submatrix_of(operands[0], (before[part] + head) * width)
                     : eitp__submatrix_of(operands[part], head * width);
}

/* Returns the columns of one head of the queries, keys or values that a call reads. */
static inline EITP__UNUSED eitp__submatrix eitp__attention_input(const eitp__call *call,
                                                                 const eitp__attention_sizes *sizes,
                                                                 eitp__attention_part part, int64_t head) {
    const int is_cached = call->slot == EITP__SLOT_ATTENTION_CACHED;
    const eitp__operand *operands[EITP__ATTENTION_PARTS];
    operands[0] = &call->inputs[0];
    operands[1] = &call->inputs[is_cached ? (int)EITP__CACHED_K : (int)EITP__ATTENTION_K];
    operands[2] = &call->inputs[is_cached ? (int)EITP__CACHED_V : (int)EITP__ATTENTION_V];
    return eitp__head_submatrix(operands, sizes->is_joined, sizes->heads, sizes->key_heads, sizes->width, part, head);
}

/* Returns the columns of one head of the gradients that a call of ATTENTION_BACKWARD writes. */
static inline EITP__UNUSED eitp__submatrix eitp__attention_gradient(const eitp__call *call,
                                                                    const eitp__attention_sizes *sizes,
                                                                    eitp__attention_part part, int64_t head) {
    const eitp__operand *operands[EITP__ATTENTION_PARTS];
    for (int i = 0; i < EITP__ATTENTION_PARTS; i++)
        operands[i] = &call->outputs[i];
    return eitp__head_submatrix(operands, sizes->is_joined, sizes->heads, sizes->key_heads, sizes->width, part, head);
}

#endif
