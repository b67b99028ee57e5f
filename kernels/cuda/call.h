/* Kernel access to a call: operands, and the rows of an execution. */
#ifndef EITP_CUDA_CALL_H
#define EITP_CUDA_CALL_H

#include "base/platform.h"

#include "kernels/cuda/group.h"

/* Returns the elements of an operand, or NULL if it is absent. */
template <class T> DEVICE global<const T> input(const eitp__launch &l, int i) {
    return global_at<const T>(l.call.inputs[i].data);
}
template <class T> DEVICE global<T> output(const eitp__launch &l, int i) {
    return global_at<T>(l.call.outputs[i].data);
}

/* True if the operand is present. */
DEVICE int has_input(const eitp__launch &l, int i) {
    return i < l.call.input_count && l.call.inputs[i].data != 0;
}
DEVICE int has_output(const eitp__launch &l, int i) {
    return i < l.call.output_count && l.call.outputs[i].data != 0;
}

/* True if vectors of 16 bytes can be read from its first element on. */
DEVICE int is_aligned(const eitp__operand &x) {
    return ((uintptr_t)x.data & 15) == 0;
}
/* True if all operands are aligned. Absent ones have the address 0. */
DEVICE int operands_are_aligned(const eitp__launch &l) {
    uintptr_t all = 0;
#pragma unroll
    for (int i = 0; i < EITP__MAX_INPUTS; i++)
        all |= i < l.call.input_count ? (uintptr_t)l.call.inputs[i].data : 0;
#pragma unroll
    for (int i = 0; i < EITP__MAX_OUTPUTS; i++)
        all |= i < l.call.output_count ? (uintptr_t)l.call.outputs[i].data : 0;
    return (all & 15) == 0;
}

/* Returns the first dimension of an operand in this execution. */
DEVICE int64_t first_dimension(const eitp__launch &l, const eitp__operand &x) {
    int64_t rows;
    if (!x.row_elements)
        return x.rank ? x.shape[0] : 1;
    rows = global_at<const int64_t>(l.rows)[0];
    rows = rows > x.first_row ? rows - x.first_row : 0;
    return rows < x.row_limit ? rows : x.row_limit;
}

/* Returns the number of elements of an operand in this execution. */
DEVICE int64_t elements_of(const eitp__launch &l, const eitp__operand &x) {
    return x.row_elements ? first_dimension(l, x) * x.row_elements : x.elements;
}

/* Returns the last dimension of an operand. It never varies unless it is the only one. */
DEVICE int64_t columns_of(const eitp__launch &l, const eitp__operand &x) {
    return x.rank > 1 ? x.shape[x.rank - 1] : first_dimension(l, x);
}

/* Returns the factor of the old output before a value is added. If it is 0, the output is not read. */
DEVICE float carry_of(const eitp__launch &l) {
    if (!l.call.accumulates)
        return 0;
    return l.call.carry ? (float)global_at<const float>(l.call.carry)[0] : 1.0f;
}

/* Divides non-negative numbers. Most fit into 32 bits, where division is much faster. */
DEVICE int64_t divide(int64_t a, int64_t b) {
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Returns 1 - beta^step: the total weight of the first `step` values in a running mean. */
DEVICE double weight_of_mean(double beta, float step) {
    double power = 1;
    for (int64_t n = (int64_t)step; n > 0; n >>= 1, beta *= beta)
        if (n & 1)
            power *= beta;
    return 1 - power;
}

#endif
