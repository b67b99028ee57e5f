/*
 * Kernels for processors with AVX-512 (F, BW, DQ and VL). With EITP__EMULATED, the including file redefines the
 * intrinsics, and any x86 processor with AVX2 suffices.
 */
#include "kernels/attention.h"
#include "kernels/cholesky.h"
#include "kernels/matmul.h"
#include "kernels/narrow.h"
#include "kernels/spans.h"
#include "kernels/update.h"

#if EITP__WITH_AVX512 || defined(EITP__EMULATED)

#if !defined(EITP__EMULATED)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))),              \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif
#endif

/*
 * The vector type and operations used by the templates in kernels/simd/. Addition, subtraction, multiplication and
 * division use the compiler's vector operators. Masked loads and stores access only the elements they select.
 */
#define EITP__SIMD(name) eitp__avx512_##name
#define EITP__SIMD_INLINE static inline __attribute__((always_inline, unused))
#define EITP__SIMD_LANES 16
#define EITP__SIMD_SET "avx512"

typedef __m512 EITP__SIMD(vector);

EITP__SIMD_INLINE __mmask16 eitp__avx512_mask(int64_t count) {
    return (__mmask16)((1u << count) - 1u);
}

EITP__SIMD_INLINE __m512 eitp__avx512_load(const float *p) {
    return _mm512_loadu_ps(p);
}

EITP__SIMD_INLINE void eitp__avx512_store(float *p, __m512 v) {
    _mm512_storeu_ps(p, v);
}

/* Loads the first `count` elements at p, 0 < count < lanes. The other lanes come from `rest`. */
EITP__SIMD_INLINE __m512 eitp__avx512_load_first(const float *p, int64_t count, __m512 rest) {
    return _mm512_mask_loadu_ps(rest, eitp__avx512_mask(count), p);
}

EITP__SIMD_INLINE void eitp__avx512_store_first(float *p, int64_t count, __m512 v) {
    _mm512_mask_storeu_ps(p, eitp__avx512_mask(count), v);
}

/* 16-bit versions of the above. Rounding is to nearest, ties to even. NaN stays NaN. */
EITP__SIMD_INLINE __m512 eitp__avx512_widen_bf16(__m256i v) {
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, v), 16));
}

EITP__SIMD_INLINE __m256i eitp__avx512_narrow_bf16(__m512 v) {
    __m512i bits = _mm512_castps_si512(v),
            odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    bits = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet);
    return _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, bits, 16));
}

EITP__SIMD_INLINE __m512 eitp__avx512_load_bf16(const uint16_t *p) {
    return eitp__avx512_widen_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

EITP__SIMD_INLINE void eitp__avx512_store_bf16(uint16_t *p, __m512 v) {
    _mm256_storeu_si256((__m256i *)(void *)p, eitp__avx512_narrow_bf16(v));
}

EITP__SIMD_INLINE __m512 eitp__avx512_load_first_bf16(const uint16_t *p, int64_t count, __m512 rest) {
    __mmask16 mask = eitp__avx512_mask(count);
    return _mm512_mask_mov_ps(rest, mask, eitp__avx512_widen_bf16(_mm256_maskz_loadu_epi16(mask, p)));
}

EITP__SIMD_INLINE void eitp__avx512_store_first_bf16(uint16_t *p, int64_t count, __m512 v) {
    _mm256_mask_storeu_epi16(p, eitp__avx512_mask(count), eitp__avx512_narrow_bf16(v));
}

EITP__SIMD_INLINE __m512 eitp__avx512_load_f16(const uint16_t *p) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256((const __m256i *)(const void *)p));
}

EITP__SIMD_INLINE void eitp__avx512_store_f16(uint16_t *p, __m512 v) {
    __m256i bits = _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((__m256i *)(void *)p, bits);
}

EITP__SIMD_INLINE __m512 eitp__avx512_load_first_f16(const uint16_t *p, int64_t count, __m512 rest) {
    __mmask16 mask = eitp__avx512_mask(count);
    return _mm512_mask_mov_ps(rest, mask, _mm512_maskz_cvtph_ps(0xffff, _mm256_maskz_loadu_epi16(mask, p)));
}

EITP__SIMD_INLINE void eitp__avx512_store_first_f16(uint16_t *p, int64_t count, __m512 v) {
    _mm256_mask_storeu_epi16(p, eitp__avx512_mask(count), _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
}

EITP__SIMD_INLINE __m512 eitp__avx512_broadcast(float x) {
    return _mm512_set1_ps(x);
}

/* a * b + c and c - a * b, each rounded once. */
EITP__SIMD_INLINE __m512 eitp__avx512_multiply_add(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}

EITP__SIMD_INLINE __m512 eitp__avx512_subtract_product(__m512 c, __m512 a, __m512 b) {
    return _mm512_fnmadd_ps(a, b, c);
}

/*
 * Maximum and minimum. Returns v if v is NaN. Uses the masked intrinsics with a full mask, because GCC warns about an
 * uninitialised variable inside the unmasked ones.
 */
EITP__SIMD_INLINE __m512 eitp__avx512_max(__m512 low, __m512 v) {
    return _mm512_maskz_max_ps(0xffff, low, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_min(__m512 high, __m512 v) {
    return _mm512_maskz_min_ps(0xffff, high, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_sqrt(__m512 v) {
    return _mm512_maskz_sqrt_ps(0xffff, v);
}

EITP__SIMD_INLINE __m512 eitp__avx512_abs(__m512 v) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

/* Returns the magnitude of v with the sign of s. */
EITP__SIMD_INLINE __m512 eitp__avx512_copysign(__m512 v, __m512 s) {
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff), from = _mm512_castps_si512(v), sign = _mm512_castps_si512(s);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(magnitude, from, sign, 0xca));
}

/* Per lane: a < b ? yes : no. */
EITP__SIMD_INLINE __m512 eitp__avx512_select_less(__m512 a, __m512 b, __m512 yes, __m512 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

/* Per lane: v is NaN ? no : yes. */
EITP__SIMD_INLINE __m512 eitp__avx512_select_number(__m512 v, __m512 yes, __m512 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), yes, no);
}

/* Rounds to the nearest integer, for |v| < 2^31. */
EITP__SIMD_INLINE __m512 eitp__avx512_round(__m512 v) {
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtps_epi32(0xffff, v));
}

/* v * 2^n for an integral n; the result may be subnormal or infinite. */
EITP__SIMD_INLINE __m512 eitp__avx512_scale(__m512 v, __m512 n) {
    return _mm512_maskz_scalef_ps(0xffff, v, n);
}

/* v = m * 2^n with 1 <= m < 2, for a normal v above 0. */
EITP__SIMD_INLINE __m512 eitp__avx512_exponent(__m512 v) {
    __m512i n = _mm512_maskz_srli_epi32(0xffff, _mm512_castps_si512(v), 23);
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_sub_epi32(n, _mm512_set1_epi32(127)));
}

EITP__SIMD_INLINE __m512 eitp__avx512_mantissa(__m512 v) {
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffff));
    return _mm512_castsi512_ps(_mm512_or_si512(bits, _mm512_set1_epi32(0x3f800000)));
}

/* Horizontal operations: the sum of the lanes, in a fixed order, and their maximum. */
EITP__SIMD_INLINE __m256 eitp__avx512_low(__m512 v) {
    return _mm512_maskz_extractf32x8_ps(0xff, v, 0);
}

EITP__SIMD_INLINE __m256 eitp__avx512_high(__m512 v) {
    return _mm512_maskz_extractf32x8_ps(0xff, v, 1);
}

EITP__SIMD_INLINE float eitp__avx512_sum(__m512 v) {
    __m256 half = _mm256_add_ps(eitp__avx512_low(v), eitp__avx512_high(v));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

EITP__SIMD_INLINE float eitp__avx512_largest(__m512 v) {
    __m256 half = _mm256_max_ps(eitp__avx512_low(v), eitp__avx512_high(v));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* Adds the squares, in double, of the lower and the upper half of v to sums[0] and sums[1]. */
typedef __m512d eitp__avx512_doubles;

EITP__SIMD_INLINE void eitp__avx512_add_squares(__m512 v, __m512d sums[2]) {
    __m512d low = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_low(v));
    __m512d high = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_high(v));
    sums[0] = _mm512_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm512_fmadd_pd(high, high, sums[1]);
}

EITP__SIMD_INLINE __m512d eitp__avx512_zero_doubles(void) {
    return _mm512_setzero_pd();
}

EITP__SIMD_INLINE __m512d eitp__avx512_load_doubles(const double *p) {
    return _mm512_loadu_pd(p);
}

EITP__SIMD_INLINE void eitp__avx512_store_doubles(double *p, __m512d v) {
    _mm512_storeu_pd(p, v);
}

/* Converts both halves of a vector to double. */
EITP__SIMD_INLINE void eitp__avx512_widen(__m512 v, __m512d halves[2]) {
    halves[0] = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_low(v));
    halves[1] = _mm512_maskz_cvtps_pd(0xff, eitp__avx512_high(v));
}

EITP__SIMD_INLINE __m512d eitp__avx512_broadcast_double(double x) {
    return _mm512_set1_pd(x);
}

EITP__SIMD_INLINE __m512d eitp__avx512_multiply_add_doubles(__m512d a, __m512d b, __m512d c) {
    return _mm512_fmadd_pd(a, b, c);
}

EITP__SIMD_INLINE double eitp__avx512_sum_doubles(__m512d v) {
    __m256d half = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xf, v, 0), _mm512_maskz_extractf64x4_pd(0xf, v, 1));
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Converts between f32 values and two 16-bit planes: see eitp__join_bf16. */
EITP__SIMD_INLINE __m512 eitp__avx512_join_bf16(const uint16_t *highs, const int16_t *remainders) {
    __m512i high = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256((const __m256i *)(const void *)highs));
    __m512i low = _mm512_maskz_cvtepi16_epi32(0xffff, _mm256_loadu_si256((const __m256i *)(const void *)remainders));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_maskz_slli_epi32(0xffff, high, 16), low));
}

EITP__SIMD_INLINE void eitp__avx512_split_bf16(__m512 v, uint16_t *highs, int16_t *remainders) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i high = _mm512_maskz_srli_epi32(0xffff, _mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), 16);
    _mm256_storeu_si256((__m256i *)(void *)highs, _mm512_maskz_cvtepi32_epi16(0xffff, high));
    _mm256_storeu_si256((__m256i *)(void *)remainders, _mm512_maskz_cvtepi32_epi16(0xffff, bits));
}

/* Unsigned 32-bit integers. */
typedef __m512i eitp__avx512_integers;

EITP__SIMD_INLINE __m512i eitp__avx512_load_integers(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}

EITP__SIMD_INLINE __m512i eitp__avx512_broadcast_integer(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}

EITP__SIMD_INLINE __m512i eitp__avx512_bitwise_xor(__m512i a, __m512i b) {
    return _mm512_xor_si512(a, b);
}

/* Returns the lower half of each product and stores the upper half. */
EITP__SIMD_INLINE __m512i eitp__avx512_multiply_wide(__m512i a, __m512i b, __m512i *high) {
    __m512i even = _mm512_maskz_mul_epu32(0xff, a, b),
            odd = _mm512_maskz_mul_epu32(0xff, _mm512_maskz_srli_epi64(0xff, a, 32),
                                         _mm512_maskz_srli_epi64(0xff, b, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_maskz_srli_epi64(0xff, even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_maskz_slli_epi64(0xff, odd, 32));
}

/* Returns the upper 24 bits as a fraction in [0, 1). */
EITP__SIMD_INLINE __m512 eitp__avx512_fraction(__m512i v) {
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_srli_epi32(0xffff, v, 8)) * _mm512_set1_ps(1.0f / 16777216.0f);
}

/* Stores the lower and upper halves of 32-bit integers separately. */
EITP__SIMD_INLINE void eitp__avx512_store_halves(uint16_t *lower, uint16_t *upper, __m512i v) {
    __m512i shifted = _mm512_maskz_srli_epi32(0xffff, v, 16);
    _mm256_storeu_si256((__m256i *)(void *)lower, _mm512_maskz_cvtepi32_epi16(0xffff, v));
    _mm256_storeu_si256((__m256i *)(void *)upper, _mm512_maskz_cvtepi32_epi16(0xffff, shifted));
}

/* Converts between f32 values and 8-bit integers, rounding to nearest. */
EITP__SIMD_INLINE __m512 eitp__avx512_load_i8(const int8_t *p) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, v));
}

EITP__SIMD_INLINE __m512 eitp__avx512_load_u8(const uint8_t *p) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepu8_epi32(0xffff, v));
}

EITP__SIMD_INLINE void eitp__avx512_store_i8(int8_t *p, __m512 v) {
    __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, v);
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_maskz_cvtepi32_epi8(0xffff, whole));
}

EITP__SIMD_INLINE void eitp__avx512_store_u8(uint8_t *p, __m512 v) {
    eitp__avx512_store_i8((int8_t *)p, v);
}

/* eitp__dither of consecutive elements, starting at `place`. */
EITP__SIMD_INLINE __m512 eitp__avx512_dither(uint32_t place) {
#define EITP__AVX512_LANES(i) (i) * EITP__DITHER_ELEMENT, ((i) + 1u) * EITP__DITHER_ELEMENT
    static const uint32_t lanes[16] = {EITP__AVX512_LANES(0u),  EITP__AVX512_LANES(2u), EITP__AVX512_LANES(4u),
                                       EITP__AVX512_LANES(6u),  EITP__AVX512_LANES(8u), EITP__AVX512_LANES(10u),
                                       EITP__AVX512_LANES(12u), EITP__AVX512_LANES(14u)};
#undef EITP__AVX512_LANES
    __m512i v = _mm512_add_epi32(_mm512_loadu_si512(lanes), _mm512_set1_epi32((int)place));
    v = _mm512_xor_si512(v, _mm512_maskz_srli_epi32(0xffff, v, 16));
    v = _mm512_maskz_mullo_epi32(0xffff, v, _mm512_set1_epi32((int)EITP__DITHER_FIRST));
    v = _mm512_xor_si512(v, _mm512_maskz_srli_epi32(0xffff, v, 15));
    v = _mm512_maskz_mullo_epi32(0xffff, v, _mm512_set1_epi32((int)EITP__DITHER_SECOND));
    return _mm512_maskz_cvtepi32_ps(0xffff, v) * _mm512_set1_ps(1.0f / 4294967296.0f);
}

/* Converts between f32 values and BF16 with a correction: see eitp__join_correction. */
EITP__SIMD_INLINE __m512 eitp__avx512_join_correction(const uint16_t *highs, const int8_t *corrections) {
    __m512i high = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256((const __m256i *)(const void *)highs));
    __m512 below = eitp__avx512_load_i8(corrections) * _mm512_set1_ps(EITP__CORRECTION_STEP);
    __m512i low = _mm512_maskz_cvtps_epi32(0xffff, below);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_maskz_slli_epi32(0xffff, high, 16), low));
}

EITP__SIMD_INLINE void eitp__avx512_split_correction(__m512 v, uint16_t *highs, int8_t *corrections) {
    __m256i narrow = eitp__avx512_narrow_bf16(v);
    __m512i high = _mm512_castps_si512(eitp__avx512_widen_bf16(narrow));
    __m512i below = _mm512_sub_epi32(_mm512_castps_si512(v), high);
    _mm256_storeu_si256((__m256i *)(void *)highs, narrow);
    eitp__avx512_store_i8(corrections,
                          _mm512_maskz_cvtepi32_ps(0xffff, below) * _mm512_set1_ps(1.0f / EITP__CORRECTION_STEP));
}

/* See eitp__round_bf16. */
EITP__SIMD_INLINE void eitp__avx512_store_rounded(uint16_t *p, __m512 v, const uint16_t *halves) {
    __m512i bits = _mm512_castps_si512(v), magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __m512i half = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256((const __m256i *)(const void *)halves));
    __m512i largest = _mm512_maskz_max_epi32(0xffff, magnitude, _mm512_set1_epi32(0x7f7fffff));
    __m512i rounded = _mm512_maskz_min_epu32(0xffff, _mm512_add_epi32(magnitude, half), largest);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, rounded, _mm512_set1_epi32(0x400000));
    bits = _mm512_or_si512(rounded, _mm512_and_si512(bits, _mm512_set1_epi32((int)0x80000000)));
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, bits, 16)));
}

/* Interleaves four vectors: lane 0 of each, then lane 1 of each, and so on. */
EITP__SIMD_INLINE void eitp__avx512_store_by_lanes(float *to, __m512 v0, __m512 v1, __m512 v2, __m512 v3) {
    __m512 a = _mm512_maskz_unpacklo_ps(0xffff, v0, v1), b = _mm512_maskz_unpacklo_ps(0xffff, v2, v3);
    __m512 c = _mm512_maskz_unpackhi_ps(0xffff, v0, v1), d = _mm512_maskz_unpackhi_ps(0xffff, v2, v3), parts[4];
    parts[0] = _mm512_maskz_shuffle_ps(0xffff, a, b, 0x44);
    parts[1] = _mm512_maskz_shuffle_ps(0xffff, a, b, 0xee);
    parts[2] = _mm512_maskz_shuffle_ps(0xffff, c, d, 0x44);
    parts[3] = _mm512_maskz_shuffle_ps(0xffff, c, d, 0xee);
    for (int i = 0; i < 4; i++) {
        __m256 low = eitp__avx512_low(parts[i]), high = eitp__avx512_high(parts[i]);
        _mm_storeu_ps(to + 4 * i, _mm256_castps256_ps128(low));
        _mm_storeu_ps(to + 16 + 4 * i, _mm256_extractf128_ps(low, 1));
        _mm_storeu_ps(to + 32 + 4 * i, _mm256_castps256_ps128(high));
        _mm_storeu_ps(to + 48 + 4 * i, _mm256_extractf128_ps(high, 1));
    }
}

#define EITP__SIMD_MATMUL_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EITP__SIMD_MATMUL_ROW_COUNT 8
#define EITP__SIMD_MATMUL_DEPTH 128
#define EITP__SIMD_MATMUL_TILE_ROWS 256

#include "kernels/simd/f32.inc"
#include "kernels/simd/math.inc"
#include "kernels/simd/random.inc"
#include "kernels/simd/exponentials.inc"
#include "kernels/simd/element.inc"
#include "kernels/simd/matmul.inc"
#include "kernels/matmul_vector.inc"

#include "kernels/simd/bf16.inc"
#include "kernels/simd/element.inc"
#include "kernels/matmul_vector.inc"

#include "kernels/simd/f16.inc"
#include "kernels/simd/cholesky.inc"
#include "kernels/simd/element.inc"
#include "kernels/matmul_vector.inc"
#include "kernels/cholesky.inc"
#include "kernels/simd/cast.inc"
#include "kernels/simd/flat.inc"
#include "kernels/simd/rows.inc"
#include "kernels/simd/loss.inc"
#include "kernels/simd/path_rows.inc"
#include "kernels/simd/optimizer.inc"
#include "kernels/simd/factored.inc"
#include "kernels/simd/attention.inc"
#include "kernels/simd/register.inc"

#if !defined(EITP__EMULATED)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

EITP__PRIVATE void eitp__register_avx512_kernels(eitp__kernel_table *table) {
    eitp__avx512_register(table);
}

#else

EITP__PRIVATE void eitp__register_avx512_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
