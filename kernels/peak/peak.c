#include "kernels/peak/peak.h"

#include "kernels/amx_tiles.h"

#if EITP__WITH_AVX2 || EITP__WITH_AVX512
#include <immintrin.h>
#endif

#define EITP__PEAK_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EITP__PEAK_TWENTY_FOUR(X)                                                                                      \
    EITP__PEAK_TWELVE(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)

/* Describes a loop with `sums` vectors of `lanes` sums. Each round adds `terms` products to each sum. */
static EITP__UNUSED eitp__peak eitp__peak_with(void (*run)(int64_t rounds, float *scratch), int sums, int lanes,
                                               int terms) {
    eitp__peak peak;
    peak.run = run;
    peak.flops = 2.0 * sums * lanes * terms;
    return peak;
}

typedef float eitp__peak_f32x4 __attribute__((vector_size(16)));

/* The sum is also a factor: a product that is the same in every round would be hoisted out of the loop. */
#define EITP__PEAK_NAME eitp__peak_ref
#define EITP__PEAK_SUM eitp__peak_f32x4
#define EITP__PEAK_FACTOR eitp__peak_f32x4
#define EITP__PEAK_MULTIPLY_ADD(c, a, b) ((c) * (a) + (b))
#define EITP__PEAK_SUMS(X) EITP__PEAK_TWELVE(X)
#include "kernels/peak.inc"

static eitp__peak eitp__ref_peak(int is_bf16) {
    (void)is_bf16;
    return eitp__peak_with(eitp__peak_ref, 12, 4, 1);
}

#if EITP__WITH_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define EITP__PEAK_NAME eitp__peak_avx2
#define EITP__PEAK_SUM __m256
#define EITP__PEAK_FACTOR __m256
#define EITP__PEAK_MULTIPLY_ADD(c, a, b) _mm256_fmadd_ps(a, b, c)
#define EITP__PEAK_SUMS(X) EITP__PEAK_TWELVE(X)
#include "kernels/peak.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static eitp__peak eitp__avx2_peak(int is_bf16) {
    (void)is_bf16;
    return eitp__peak_with(eitp__peak_avx2, 12, 8, 1);
}
#else
#define eitp__avx2_peak eitp__ref_peak
#endif

#if EITP__WITH_AVX512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#endif

#define EITP__PEAK_NAME eitp__peak_avx512
#define EITP__PEAK_SUM __m512
#define EITP__PEAK_FACTOR __m512
#define EITP__PEAK_MULTIPLY_ADD(c, a, b) _mm512_fmadd_ps(a, b, c)
#define EITP__PEAK_SUMS(X) EITP__PEAK_TWENTY_FOUR(X)
#include "kernels/peak.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static eitp__peak eitp__avx512_peak(int is_bf16) {
    (void)is_bf16;
    return eitp__peak_with(eitp__peak_avx512, 24, 16, 1);
}
#else
#define eitp__avx512_peak eitp__ref_peak
#endif

#if EITP__WITH_AVX512BF16
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma"))),                 \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")
#endif

#define EITP__PEAK_NAME eitp__peak_avx512bf16
#define EITP__PEAK_SUM __m512
#define EITP__PEAK_FACTOR __m512bh
#define EITP__PEAK_MULTIPLY_ADD(c, a, b) _mm512_dpbf16_ps(c, a, b)
#define EITP__PEAK_SUMS(X) EITP__PEAK_TWENTY_FOUR(X)
#include "kernels/peak.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static eitp__peak eitp__avx512bf16_peak(int is_bf16) {
    return is_bf16 ? eitp__peak_with(eitp__peak_avx512bf16, 24, 16, 2) : eitp__avx512_peak(0);
}
#else
#define eitp__avx512bf16_peak eitp__ref_peak
#endif

#if EITP__WITH_AMX
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#endif

/* Tiles 6 and 7 hold the factors, the other tiles the sums. */
static void eitp__peak_amx(int64_t rounds, float *scratch) {
    _tile_loadconfig(&eitp__amx_whole_tiles);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, scratch, 64);
    _tile_loadd(7, scratch, 64);
    for (int64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_stored(0, scratch, 64);
    _tile_release();
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static eitp__peak eitp__amx_peak(int is_bf16) {
    return is_bf16 ? eitp__peak_with(eitp__peak_amx, 6, 16 * 16, 32) : eitp__avx512_peak(0);
}
#else
#define eitp__amx_peak eitp__ref_peak
#endif

EITP__PRIVATE eitp__peak eitp__peak_of(eitp__isa isa, eitp_dtype dtype) {
    static eitp__peak (*const peaks[EITP__ISA_COUNT])(int is_bf16) = {
#define EITP__PEAK_OF_ISA(isa, name, in_build, f32, bf16, group) eitp__##name##_peak,
        EITP__ISAS(EITP__PEAK_OF_ISA)
#undef EITP__PEAK_OF_ISA
    };
    eitp__peak none = EITP__ZERO;
    if (dtype != EITP_F32 && dtype != EITP_F16 && dtype != EITP_BF16)
        return none;
    return peaks[isa](dtype == EITP_BF16);
}

#undef EITP__PEAK_TWELVE
#undef EITP__PEAK_TWENTY_FOUR
