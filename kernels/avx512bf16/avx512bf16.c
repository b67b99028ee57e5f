/* The bf16 kernels for processors with AVX512-BF16. */
#include "kernels/kernels.h"

EITP__PRIVATE void eitp__register_avx512bf16_kernels(eitp__kernel_table *table) {
    (void)table;
}
