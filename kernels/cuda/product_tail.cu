/*
 * Runs before a product over rows by cuBLASLt, which sums the maximum number of rows. Sets the rows missing from an
 * execution to zero in both factors, because 0 times NaN is NaN.
 */
#include "kernels/cuda/call.h"

DEVICE void clear_tail(const eitp__launch &l, const eitp__operand &x) {
    enum { N = 16 / sizeof(scalar) };
    const int64_t begin = elements_of(l, x), step = block_count() * thread_count() * N;
    global<scalar> p = global_at<scalar>(x.data);
    vec<scalar, N> zeros = {};
    for (int64_t i = (begin / N + block_index() * thread_count() + thread_index()) * N; i < x.elements; i += step) {
        if (is_aligned(x) && i >= begin && i + N <= x.elements) {
            store(p, i, zeros);
            continue;
        }
        for (int k = 0; k < N; k++)
            if (i + k >= begin && i + k < x.elements)
                p[i + k] = zeros.v[k];
    }
}

KERNEL(matmul_tail_kernel, 256) {
    clear_tail(l, l.call.inputs[0]);
    clear_tail(l, l.call.inputs[1]);
}
