/* Kernels for processors with AVX2, FMA and F16C. */
#include "kernels/attention.h"
#include "kernels/cholesky.h"
#include "kernels/matmul.h"
#include "kernels/narrow.h"
#include "kernels/spans.h"
#include "kernels/update.h"

#if EITP__WITH_AVX2

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

/*
 * The vector type and operations used by the templates in kernels/simd/. Addition, subtraction, multiplication and
 * division use the compiler's vector operators. Masked loads and stores access only the elements they select.
 */
#define EITP__SIMD(name) eitp__avx2_##name
#define EITP__SIMD_INLINE static inline __attribute__((always_inline, unused))
#define EITP__SIMD_LANES 8
#define EITP__SIMD_SET "avx2"

typedef __m256 EITP__SIMD(vector);

EITP__SIMD_INLINE __m256i eitp__avx2_mask(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load(const float *p) {
    return _mm256_loadu_ps(p);
}

EITP__SIMD_INLINE void eitp__avx2_store(float *p, __m256 v) {
    _mm256_storeu_ps(p, v);
}

/* Loads the first `count` elements at p, 0 < count < lanes. The other lanes come from `rest`. */
EITP__SIMD_INLINE __m256 eitp__avx2_load_first(const float *p, int64_t count, __m256 rest) {
    __m256i mask = eitp__avx2_mask(count);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}

EITP__SIMD_INLINE void eitp__avx2_store_first(float *p, int64_t count, __m256 v) {
    _mm256_maskstore_ps(p, eitp__avx2_mask(count), v);
}

/* 16-bit versions of the above. Rounding is to nearest, ties to even. NaN stays NaN. */
EITP__SIMD_INLINE __m256 eitp__avx2_widen_bf16(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

EITP__SIMD_INLINE __m128i eitp__avx2_narrow_bf16(__m256 v) {
    __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    bits = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load_bf16(const uint16_t *p) {
    return eitp__avx2_widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

EITP__SIMD_INLINE void eitp__avx2_store_bf16(uint16_t *p, __m256 v) {
    _mm_storeu_si128((__m128i *)(void *)p, eitp__avx2_narrow_bf16(v));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

EITP__SIMD_INLINE void eitp__avx2_store_f16(uint16_t *p, __m256 v) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* AVX2 masks only 32-bit elements, so these process elements in pairs, and an odd last element separately. */
EITP__SIMD_INLINE __m128i eitp__avx2_load_first_16(const uint16_t *p, int64_t count) {
    __m128i lanes = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7);
    __m128i pairs = _mm_cmpgt_epi32(_mm_set1_epi32((int)(count >> 1)), _mm_setr_epi32(0, 1, 2, 3));
    __m128i v = _mm_maskload_epi32((const int *)(const void *)p, pairs);
    if (count & 1) {
        __m128i is_last = _mm_cmpeq_epi16(lanes, _mm_set1_epi16((short)(count - 1)));
        v = _mm_blendv_epi8(v, _mm_set1_epi16((short)p[count - 1]), is_last);
    }
    return v;
}

EITP__SIMD_INLINE void eitp__avx2_store_first_16(uint16_t *p, int64_t count, __m128i v) {
    __m128i pairs = _mm_cmpgt_epi32(_mm_set1_epi32((int)(count >> 1)), _mm_setr_epi32(0, 1, 2, 3));
    _mm_maskstore_epi32((int *)(void *)p, pairs, v);
    if (count & 1) {
        uint16_t buffer[8];
        _mm_storeu_si128((__m128i *)(void *)buffer, v);
        p[count - 1] = buffer[count - 1];
    }
}

EITP__SIMD_INLINE __m256 eitp__avx2_load_first_bf16(const uint16_t *p, int64_t count, __m256 rest) {
    __m256 v = eitp__avx2_widen_bf16(eitp__avx2_load_first_16(p, count));
    return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(eitp__avx2_mask(count)));
}

EITP__SIMD_INLINE void eitp__avx2_store_first_bf16(uint16_t *p, int64_t count, __m256 v) {
    eitp__avx2_store_first_16(p, count, eitp__avx2_narrow_bf16(v));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load_first_f16(const uint16_t *p, int64_t count, __m256 rest) {
    __m256 v = _mm256_cvtph_ps(eitp__avx2_load_first_16(p, count));
    return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(eitp__avx2_mask(count)));
}

EITP__SIMD_INLINE void eitp__avx2_store_first_f16(uint16_t *p, int64_t count, __m256 v) {
    eitp__avx2_store_first_16(p, count, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

EITP__SIMD_INLINE __m256 eitp__avx2_broadcast(float x) {
    return _mm256_set1_ps(x);
}

/* a * b + c and c - a * b, each rounded once. */
EITP__SIMD_INLINE __m256 eitp__avx2_multiply_add(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}

EITP__SIMD_INLINE __m256 eitp__avx2_subtract_product(__m256 c, __m256 a, __m256 b) {
    return _mm256_fnmadd_ps(a, b, c);
}

/* Maximum and minimum. Returns v if v is NaN. */
EITP__SIMD_INLINE __m256 eitp__avx2_max(__m256 low, __m256 v) {
    return _mm256_max_ps(low, v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_min(__m256 high, __m256 v) {
    return _mm256_min_ps(high, v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_sqrt(__m256 v) {
    return _mm256_sqrt_ps(v);
}

EITP__SIMD_INLINE __m256 eitp__avx2_abs(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* Returns the magnitude of v with the sign of s. */
EITP__SIMD_INLINE __m256 eitp__avx2_copysign(__m256 v, __m256 s) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(sign, v), _mm256_and_ps(sign, s));
}

/* Per lane: a < b ? yes : no. */
EITP__SIMD_INLINE __m256 eitp__avx2_select_less(__m256 a, __m256 b, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

/* Per lane: v is NaN ? no : yes. */
EITP__SIMD_INLINE __m256 eitp__avx2_select_number(__m256 v, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
}

/* Rounds to the nearest integer, for |v| < 2^31. */
EITP__SIMD_INLINE __m256 eitp__avx2_round(__m256 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v * 2^n for an integral n in [-252, 252]. Two steps allow the result to be subnormal or infinite. */
EITP__SIMD_INLINE __m256 eitp__avx2_scale(__m256 v, __m256 n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    __m256i other = _mm256_sub_epi32(whole, half);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(other, bias), 23)));
}

/* v = m * 2^n with 1 <= m < 2, for a normal v above 0. */
EITP__SIMD_INLINE __m256 eitp__avx2_exponent(__m256 v) {
    __m256i n = _mm256_srli_epi32(_mm256_castps_si256(v), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(n, _mm256_set1_epi32(127)));
}

EITP__SIMD_INLINE __m256 eitp__avx2_mantissa(__m256 v) {
    __m256 one = _mm256_set1_ps(1.0f), bits = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffff));
    return _mm256_or_ps(_mm256_and_ps(v, bits), one);
}

/* Horizontal operations: the sum of the lanes, in a fixed order, and their maximum. */
EITP__SIMD_INLINE float eitp__avx2_sum(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

EITP__SIMD_INLINE float eitp__avx2_largest(__m256 v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* Adds the squares, in double, of the lower and the upper half of v to sums[0] and sums[1]. */
typedef __m256d eitp__avx2_doubles;

EITP__SIMD_INLINE void eitp__avx2_add_squares(__m256 v, __m256d sums[2]) {
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    sums[0] = _mm256_fmadd_pd(low, low, sums[0]);
    sums[1] = _mm256_fmadd_pd(high, high, sums[1]);
}

EITP__SIMD_INLINE __m256d eitp__avx2_zero_doubles(void) {
    return _mm256_setzero_pd();
}

EITP__SIMD_INLINE __m256d eitp__avx2_load_doubles(const double *p) {
    return _mm256_loadu_pd(p);
}

EITP__SIMD_INLINE void eitp__avx2_store_doubles(double *p, __m256d v) {
    _mm256_storeu_pd(p, v);
}

/* Converts both halves of a vector to double. */
EITP__SIMD_INLINE void eitp__avx2_widen(__m256 v, __m256d halves[2]) {
    halves[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    halves[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

EITP__SIMD_INLINE __m256d eitp__avx2_broadcast_double(double x) {
    return _mm256_set1_pd(x);
}

EITP__SIMD_INLINE __m256d eitp__avx2_multiply_add_doubles(__m256d a, __m256d b, __m256d c) {
    return _mm256_fmadd_pd(a, b, c);
}

EITP__SIMD_INLINE double eitp__avx2_sum_doubles(__m256d v) {
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Returns the lower halves of eight 32-bit integers. */
EITP__SIMD_INLINE __m128i eitp__avx2_low_halves(__m256i v) {
    __m256i halves = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    return _mm256_castsi256_si128(halves);
}

/* Converts between f32 values and two 16-bit planes: see eitp__join_bf16. */
EITP__SIMD_INLINE __m256 eitp__avx2_join_bf16(const uint16_t *highs, const int16_t *remainders) {
    __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)highs));
    __m256i low = _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)remainders));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(high, 16), low));
}

EITP__SIMD_INLINE void eitp__avx2_split_bf16(__m256 v, uint16_t *highs, int16_t *remainders) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i high = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x8000)), 16);
    _mm_storeu_si128((__m128i *)(void *)highs, eitp__avx2_low_halves(high));
    _mm_storeu_si128((__m128i *)(void *)remainders, eitp__avx2_low_halves(bits));
}

/* Unsigned 32-bit integers. */
typedef __m256i eitp__avx2_integers;

EITP__SIMD_INLINE __m256i eitp__avx2_load_integers(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

EITP__SIMD_INLINE __m256i eitp__avx2_broadcast_integer(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}

EITP__SIMD_INLINE __m256i eitp__avx2_bitwise_xor(__m256i a, __m256i b) {
    return _mm256_xor_si256(a, b);
}

/* Returns the lower half of each product and stores the upper half. */
EITP__SIMD_INLINE __m256i eitp__avx2_multiply_wide(__m256i a, __m256i b, __m256i *high) {
    __m256i even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

/* Returns the upper 24 bits as a fraction in [0, 1). */
EITP__SIMD_INLINE __m256 eitp__avx2_fraction(__m256i v) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 8)) * _mm256_set1_ps(1.0f / 16777216.0f);
}

/* Stores the lower and upper halves of 32-bit integers separately. */
EITP__SIMD_INLINE void eitp__avx2_store_halves(uint16_t *lower, uint16_t *upper, __m256i v) {
    _mm_storeu_si128((__m128i *)(void *)lower, eitp__avx2_low_halves(v));
    _mm_storeu_si128((__m128i *)(void *)upper, eitp__avx2_low_halves(_mm256_srli_epi32(v, 16)));
}

/* Converts between f32 values and 8-bit integers, rounding to nearest. */
EITP__SIMD_INLINE __m256 eitp__avx2_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

EITP__SIMD_INLINE __m256 eitp__avx2_load_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

EITP__SIMD_INLINE __m128i eitp__avx2_narrow_integers(__m256 v) {
    __m256i whole = _mm256_cvtps_epi32(v);
    return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}

EITP__SIMD_INLINE void eitp__avx2_store_i8(int8_t *p, __m256 v) {
    __m128i narrow = eitp__avx2_narrow_integers(v);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(narrow, narrow));
}

EITP__SIMD_INLINE void eitp__avx2_store_u8(uint8_t *p, __m256 v) {
    __m128i narrow = eitp__avx2_narrow_integers(v);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(narrow, narrow));
}

/* eitp__dither of consecutive elements, starting at `place`. */
EITP__SIMD_INLINE __m256 eitp__avx2_dither(uint32_t place) {
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    lanes = _mm256_mullo_epi32(lanes, _mm256_set1_epi32((int)EITP__DITHER_ELEMENT));
    lanes = _mm256_add_epi32(lanes, _mm256_set1_epi32((int)place));
    lanes = _mm256_xor_si256(lanes, _mm256_srli_epi32(lanes, 16));
    lanes = _mm256_mullo_epi32(lanes, _mm256_set1_epi32((int)EITP__DITHER_FIRST));
    lanes = _mm256_xor_si256(lanes, _mm256_srli_epi32(lanes, 15));
    lanes = _mm256_mullo_epi32(lanes, _mm256_set1_epi32((int)EITP__DITHER_SECOND));
    return _mm256_cvtepi32_ps(lanes) * _mm256_set1_ps(1.0f / 4294967296.0f);
}

/* Converts between f32 values and BF16 with a correction: see eitp__join_correction. */
EITP__SIMD_INLINE __m256 eitp__avx2_join_correction(const uint16_t *highs, const int8_t *corrections) {
    __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)highs));
    __m256i low = _mm256_cvtps_epi32(eitp__avx2_load_i8(corrections) * _mm256_set1_ps(EITP__CORRECTION_STEP));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(high, 16), low));
}

EITP__SIMD_INLINE void eitp__avx2_split_correction(__m256 v, uint16_t *highs, int8_t *corrections) {
    __m128i narrow = eitp__avx2_narrow_bf16(v);
    __m256i high = _mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16);
    __m256i below = _mm256_sub_epi32(_mm256_castps_si256(v), high);
    _mm_storeu_si128((__m128i *)(void *)highs, narrow);
    eitp__avx2_store_i8(corrections, _mm256_cvtepi32_ps(below) * _mm256_set1_ps(1.0f / EITP__CORRECTION_STEP));
}

/* See eitp__round_bf16. */
EITP__SIMD_INLINE void eitp__avx2_store_rounded(uint16_t *p, __m256 v, const uint16_t *halves) {
    __m256i bits = _mm256_castps_si256(v), magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i half = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)halves));
    __m256i largest = _mm256_max_epi32(magnitude, _mm256_set1_epi32(0x7f7fffff));
    __m256i quiet = _mm256_castps_si256(
        _mm256_and_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q), _mm256_castsi256_ps(_mm256_set1_epi32(0x400000))));
    __m256i rounded = _mm256_or_si256(_mm256_min_epu32(_mm256_add_epi32(magnitude, half), largest), quiet);
    bits = _mm256_srli_epi32(_mm256_or_si256(rounded, _mm256_andnot_si256(_mm256_set1_epi32(0x7fffffff), bits)), 16);
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

/* Interleaves four vectors: lane 0 of each, then lane 1 of each, and so on. */
EITP__SIMD_INLINE void eitp__avx2_store_by_lanes(float *to, __m256 v0, __m256 v1, __m256 v2, __m256 v3) {
    __m256 a = _mm256_unpacklo_ps(v0, v1), b = _mm256_unpacklo_ps(v2, v3);
    __m256 c = _mm256_unpackhi_ps(v0, v1), d = _mm256_unpackhi_ps(v2, v3);
    v0 = _mm256_shuffle_ps(a, b, 0x44);
    v1 = _mm256_shuffle_ps(a, b, 0xee);
    v2 = _mm256_shuffle_ps(c, d, 0x44);
    v3 = _mm256_shuffle_ps(c, d, 0xee);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(v0, v1, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(v2, v3, 0x20));
    _mm256_storeu_ps(to + 16, _mm256_permute2f128_ps(v0, v1, 0x31));
    _mm256_storeu_ps(to + 24, _mm256_permute2f128_ps(v2, v3, 0x31));
}

#define EITP__SIMD_MATMUL_ROWS(X) X(0) X(1) X(2) X(3)
#define EITP__SIMD_MATMUL_ROW_COUNT 4
#define EITP__SIMD_MATMUL_DEPTH 128
#define EITP__SIMD_MATMUL_TILE_ROWS 192

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

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

EITP__PRIVATE void eitp__register_avx2_kernels(eitp__kernel_table *table) {
    eitp__avx2_register(table);
}

#else

EITP__PRIVATE void eitp__register_avx2_kernels(eitp__kernel_table *table) {
    (void)table;
}

#endif
