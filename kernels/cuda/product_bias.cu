/* Rounds a bias in F32 to the type of a product by cuBLASLt. */
#include "kernels/cuda/call.h"

template <class T> DEVICE void round_element(const eitp__launch &l, int64_t i) {
    T value;
    from_float(input<float>(l, 0)[i], value);
    output<T>(l, 0)[i] = value;
}

KERNEL(matmul_bias_kernel, 256) {
    const int64_t i = block_index() * thread_count() + thread_index();
    if (i >= l.call.outputs[0].elements)
        return;
    if (l.call.outputs[0].dtype == EITP_BF16)
        round_element<bf16>(l, i);
    else
        round_element<f16>(l, i);
}
