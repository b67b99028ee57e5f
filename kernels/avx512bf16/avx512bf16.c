/* BF16 matrix products for processors with AVX512-BF16. */
#include "kernels/matmul.h"

#if EITP__WITH_AVX512BF16

#if !defined(EITP__EMULATED)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c"))),   \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")
#endif
#endif

#define EITP__MATMUL(name) eitp__avx512bf16_matmul_##name
#define EITP__MATMUL_UNITS 1
#define EITP__MATMUL_FACTORS __m512i
#define EITP__MATMUL_LOAD_FACTORS(p) _mm512_loadu_si512(p)
#define EITP__MATMUL_BROADCAST_FACTOR(x) _mm512_set1_epi32((int)(x))
#define EITP__MATMUL_ADD_PRODUCT(c, a, b) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define EITP__MATMUL_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EITP__MATMUL_ROW_COUNT 8
#define EITP__MATMUL_WIDTH 48
#define EITP__MATMUL_DEPTH 128
#define EITP__MATMUL_TILE_ROWS 256
#define EITP__MATMUL_TILE_COLUMNS EITP__HEAD_BLOCK
#define EITP__MATMUL_FINISH eitp__avx512_finish_tile
#include "kernels/matmul_pairs.inc"

#if !defined(EITP__EMULATED)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

EITP__PRIVATE void eitp__register_avx512bf16_kernels(eitp__kernel_table *table) {
    table->kernels[EITP__SLOT_MATMUL][EITP_BF16] = eitp__avx512bf16_matmul_kernel("avx512bf16");
    table->kernels[EITP__SLOT_HEAD][EITP_BF16] = eitp__avx512bf16_matmul_kernel("avx512bf16");
}

#else

EITP__PRIVATE void eitp__register_avx512bf16_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
