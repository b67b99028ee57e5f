/*
 * A model of the AVX-512 instructions used by the kernels, lane by lane, for tests on processors without them. Macros
 * map the intrinsics to the functions below. An intrinsic that is missing here causes a compiler error about its
 * target.
 */
#ifndef EITP_TEST_EMULATED_AVX512_H
#define EITP_TEST_EMULATED_AVX512_H

#include <immintrin.h>

/* Registers are aligned as for AVX2, because compilers warn of passing values aligned to 64 bytes. */
typedef float emulated_m512 __attribute__((vector_size(64), aligned(32), may_alias));
typedef double emulated_m512d __attribute__((vector_size(64), aligned(32), may_alias));
typedef long long emulated_m512i __attribute__((vector_size(64), aligned(32), may_alias));
#define __m512 emulated_m512
#define __m512d emulated_m512d
#define __m512i emulated_m512i

typedef union emulated_register {
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 halves[2];
    float f[16];
    double d[8];
    int32_t w[16];
    uint32_t u[16];
    uint64_t q[8];
    uint16_t h[32];
} emulated_register;

#define EMULATED_INLINE static inline __attribute__((always_inline, unused))

/* Defines a function of vectors: type, name and parameters; number of lanes; the statement for lane i of y. */
#define EMULATED(type, member, name, parameters, setup, lanes, statement)                                              \
    EMULATED_INLINE type emulated_##name parameters {                                                                  \
        emulated_register y, a, b, c;                                                                                  \
        memset(&y, 0, sizeof y);                                                                                       \
        a = b = c = y;                                                                                                 \
        setup;                                                                                                         \
        (void)a, (void)b, (void)c;                                                                                     \
        for (int i = 0; i < lanes; i++) {                                                                              \
            statement;                                                                                                 \
        }                                                                                                              \
        return y.member;                                                                                               \
    }

EMULATED(__m512, ps, mm512_set1_ps, (float x), (a.f[0] = x), 16, y.f[i] = a.f[0])
EMULATED(__m512d, pd, mm512_set1_pd, (double x), (a.d[0] = x), 8, y.d[i] = a.d[0])
EMULATED(__m512i, si, mm512_set1_epi32, (int x), (a.w[0] = x), 16, y.w[i] = a.w[0])
EMULATED(__m512i, si, mm512_set1_epi64, (long long x), (a.q[0] = (uint64_t)x), 8, y.q[i] = a.q[0])
EMULATED(__m512, ps, mm512_fmadd_ps, (__m512 x, __m512 z, __m512 t), (a.ps = x, b.ps = z, c.ps = t), 16,
         y.f[i] = fmaf(a.f[i], b.f[i], c.f[i]))
EMULATED(__m512, ps, mm512_fnmadd_ps, (__m512 x, __m512 z, __m512 t), (a.ps = x, b.ps = z, c.ps = t), 16,
         y.f[i] = fmaf(-a.f[i], b.f[i], c.f[i]))
EMULATED(__m512d, pd, mm512_fmadd_pd, (__m512d x, __m512d z, __m512d t), (a.pd = x, b.pd = z, c.pd = t), 8,
         y.d[i] = fma(a.d[i], b.d[i], c.d[i]))
EMULATED(__m512d, pd, mm512_setzero_pd, (void), (void)0, 8, y.d[i] = 0)
EMULATED(__m512, ps, mm512_mul_ps, (__m512 x, __m512 z), (a.ps = x, b.ps = z), 16, y.f[i] = a.f[i] * b.f[i])
EMULATED(__m512i, si, mm512_and_si512, (__m512i x, __m512i z), (a.si = x, b.si = z), 16, y.u[i] = a.u[i] & b.u[i])
EMULATED(__m512i, si, mm512_or_si512, (__m512i x, __m512i z), (a.si = x, b.si = z), 16, y.u[i] = a.u[i] | b.u[i])
EMULATED(__m512i, si, mm512_xor_si512, (__m512i x, __m512i z), (a.si = x, b.si = z), 16, y.u[i] = a.u[i] ^ b.u[i])
EMULATED(__m512i, si, mm512_add_epi32, (__m512i x, __m512i z), (a.si = x, b.si = z), 16, y.u[i] = a.u[i] + b.u[i])
EMULATED(__m512i, si, mm512_sub_epi32, (__m512i x, __m512i z), (a.si = x, b.si = z), 16, y.u[i] = a.u[i] - b.u[i])
EMULATED(__m512i, si, mm512_add_epi64, (__m512i x, __m512i z), (a.si = x, b.si = z), 8, y.q[i] = a.q[i] + b.q[i])
EMULATED(__m512i, si, mm512_mul_epu32, (__m512i x, __m512i z), (a.si = x, b.si = z), 8,
         y.q[i] = (a.q[i] & 0xffffffffu) * (b.q[i] & 0xffffffffu))
EMULATED(__m512i, si, mm512_slli_epi32, (__m512i x, unsigned n), (a.si = x, b.u[0] = n), 16, y.u[i] = a.u[i] << b.u[0])
EMULATED(__m512i, si, mm512_srli_epi32, (__m512i x, unsigned n), (a.si = x, b.u[0] = n), 16, y.u[i] = a.u[i] >> b.u[0])
EMULATED(__m512i, si, mm512_slli_epi64, (__m512i x, unsigned n), (a.si = x, b.u[0] = n), 8, y.q[i] = a.q[i] << b.u[0])
EMULATED(__m512i, si, mm512_srli_epi64, (__m512i x, unsigned n), (a.si = x, b.u[0] = n), 8, y.q[i] = a.q[i] >> b.u[0])
EMULATED(__m512i, si, mm512_ternarylogic, (__m512i x, __m512i z, __m512i t, unsigned table),
         (a.si = x, b.si = z, c.si = t), 16,
         for (int bit = 0; bit < 32; bit++) y.u[i] |=
         (table >> ((a.u[i] >> bit & 1) << 2 | (b.u[i] >> bit & 1) << 1 | (c.u[i] >> bit & 1)) & 1) << bit)
EMULATED(__m512i, si, mm512_set_epi64,
         (long long h, long long g, long long f, long long e, long long d4, long long c4, long long b4, long long a4),
         (a.q[0] = (uint64_t)a4, a.q[1] = (uint64_t)b4, a.q[2] = (uint64_t)c4, a.q[3] = (uint64_t)d4,
          a.q[4] = (uint64_t)e, a.q[5] = (uint64_t)f, a.q[6] = (uint64_t)g, a.q[7] = (uint64_t)h),
         8, y.q[i] = a.q[i])
EMULATED(__m512i, si, mm512_permutex2var_epi64, (__m512i x, __m512i at, __m512i z), (a.si = x, b.si = at, c.si = z), 8,
         y.q[i] = b.q[i] & 8 ? c.q[b.q[i] & 7] : a.q[b.q[i] & 7])
EMULATED(__m512, ps, mm512_unpacklo_ps, (__m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = i & 1 ? b.f[i / 4 * 4 + 0 + i % 4 / 2] : a.f[i / 4 * 4 + 0 + i % 4 / 2])
EMULATED(__m512, ps, mm512_unpackhi_ps, (__m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = i & 1 ? b.f[i / 4 * 4 + 2 + i % 4 / 2] : a.f[i / 4 * 4 + 2 + i % 4 / 2])
EMULATED(__m512, ps, mm512_shuffle_ps, (__m512 x, __m512 z, unsigned at), (a.ps = x, b.ps = z), 16,
         y.f[i] = (i % 4 < 2 ? a.f : b.f)[(unsigned)(i / 4 * 4) + (at >> i % 4 * 2 & 3)])
EMULATED(__m512, ps, mm512_shuffle_f32x4, (__m512 x, __m512 z, unsigned at), (a.ps = x, b.ps = z), 16,
         y.f[i] = (i < 8 ? a.f : b.f)[(at >> i / 4 * 2 & 3) * 4 + (unsigned)i % 4])
EMULATED(__m512i, si, mm512_permutexvar_epi64, (__m512i at, __m512i x), (a.si = at, b.si = x), 8,
         y.q[i] = b.q[a.q[i] & 7])
EMULATED(__m512i, si, mm512_unpacklo_epi16, (__m512i x, __m512i z), (a.si = x, b.si = z), 32,
         y.h[i] = (i & 1 ? b.h : a.h)[i / 8 * 8 + 0 + i % 8 / 2])
EMULATED(__m512i, si, mm512_unpackhi_epi16, (__m512i x, __m512i z), (a.si = x, b.si = z), 32,
         y.h[i] = (i & 1 ? b.h : a.h)[i / 8 * 8 + 4 + i % 8 / 2])
EMULATED(__m512, ps, mm512_mask_loadu_ps, (__m512 rest, __mmask16 mask, const void *p), (y.ps = rest), 16,
         if (mask >> i & 1) memcpy(&y.f[i], (const char *)p + 4 * i, 4))
EMULATED(__m512, ps, mm512_mask_blend_ps, (__mmask16 mask, __m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = mask >> i & 1 ? b.f[i] : a.f[i])
EMULATED(__m512, ps, mm512_mask_mov_ps, (__m512 x, __mmask16 mask, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = mask >> i & 1 ? b.f[i] : a.f[i])
EMULATED(__m512i, si, mm512_mask_blend_epi32, (__mmask16 mask, __m512i x, __m512i z), (a.si = x, b.si = z), 16,
         y.u[i] = mask >> i & 1 ? b.u[i] : a.u[i])
EMULATED(__m512i, si, mm512_mask_or_epi32, (__m512i rest, __mmask16 mask, __m512i x, __m512i z),
         (a.si = x, b.si = z, c.si = rest), 16, y.u[i] = mask >> i & 1 ? a.u[i] | b.u[i] : c.u[i])
EMULATED(__m512, ps, mm512_maskz_max_ps, (__mmask16 mask, __m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = mask >> i & 1 ? a.f[i] > b.f[i] ? a.f[i] : b.f[i] : 0)
EMULATED(__m512, ps, mm512_maskz_min_ps, (__mmask16 mask, __m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = mask >> i & 1 ? a.f[i] < b.f[i] ? a.f[i] : b.f[i] : 0)
EMULATED(__m512, ps, mm512_maskz_scalef_ps, (__mmask16 mask, __m512 x, __m512 z), (a.ps = x, b.ps = z), 16,
         y.f[i] = mask >> i & 1 ? ldexpf(a.f[i], (int)fmaxf(-1000, fminf(1000, floorf(b.f[i])))) : 0)
EMULATED(__m512, ps, mm512_maskz_sqrt_ps, (__mmask16 mask, __m512 x), (a.ps = x), 16,
         y.f[i] = mask >> i & 1 ? sqrtf(a.f[i]) : 0)
EMULATED(__m512, ps, mm512_maskz_cvtepi32_ps, (__mmask16 mask, __m512i x), (a.si = x), 16,
         y.f[i] = mask >> i & 1 ? (float)a.w[i] : 0)
EMULATED(__m512i, si, mm512_maskz_cvtps_epi32, (__mmask16 mask, __m512 x), (a.ps = x), 16,
         y.w[i] = mask >> i & 1 ? (int32_t)lrintf(a.f[i]) : 0)
EMULATED(__m512d, pd, mm512_maskz_cvtps_pd, (__mmask8 mask, __m256 x), (a.halves[0] = x), 8,
         y.d[i] = mask >> i & 1 ? (double)a.f[i] : 0)
EMULATED(__m256, halves[0], mm512_maskz_extractf32x8_ps, (__mmask8 mask, __m512 x, int half), (a.ps = x), 8,
         y.f[i] = mask >> i & 1 ? a.f[8 * half + i] : 0)
EMULATED(__m512i, si, mm512_maskz_mul_epu32, (__mmask8 mask, __m512i x, __m512i z), (a.si = x, b.si = z), 8,
         y.q[i] = mask >> i & 1 ? (a.q[i] & 0xffffffffu) * (b.q[i] & 0xffffffffu) : 0)
EMULATED(__m512i, si, mm512_maskz_slli_epi32, (__mmask16 mask, __m512i x, unsigned n), (a.si = x, b.u[0] = n), 16,
         y.u[i] = mask >> i & 1 ? a.u[i] << b.u[0] : 0)
EMULATED(__m512i, si, mm512_maskz_srli_epi32, (__mmask16 mask, __m512i x, unsigned n), (a.si = x, b.u[0] = n), 16,
         y.u[i] = mask >> i & 1 ? a.u[i] >> b.u[0] : 0)
EMULATED(__m512i, si, mm512_maskz_slli_epi64, (__mmask8 mask, __m512i x, unsigned n), (a.si = x, b.u[0] = n), 8,
         y.q[i] = mask >> i & 1 ? a.q[i] << b.u[0] : 0)
EMULATED(__m512i, si, mm512_maskz_srli_epi64, (__mmask8 mask, __m512i x, unsigned n), (a.si = x, b.u[0] = n), 8,
         y.q[i] = mask >> i & 1 ? a.q[i] >> b.u[0] : 0)
EMULATED(__m512i, si, mm512_maskz_mullo_epi32, (__mmask16 mask, __m512i x, __m512i z), (a.si = x, b.si = z), 16,
         y.u[i] = mask >> i & 1 ? a.u[i] * b.u[i] : 0)
EMULATED(__m512i, si, mm512_maskz_max_epi32, (__mmask16 mask, __m512i x, __m512i z), (a.si = x, b.si = z), 16,
         y.w[i] = mask >> i & 1 ? a.w[i] > b.w[i] ? a.w[i] : b.w[i] : 0)
EMULATED(__m512i, si, mm512_maskz_min_epu32, (__mmask16 mask, __m512i x, __m512i z), (a.si = x, b.si = z), 16,
         y.u[i] = mask >> i & 1 ? a.u[i] < b.u[i] ? a.u[i] : b.u[i] : 0)
EMULATED(__m512i, si, mm512_maskz_cvtepi8_epi32, (__mmask16 mask, __m128i x), memcpy(&a, &x, sizeof x), 16,
         y.w[i] = mask >> i & 1 ? ((const int8_t *)&a)[i] : 0)
EMULATED(__m512i, si, mm512_maskz_cvtepu8_epi32, (__mmask16 mask, __m128i x), memcpy(&a, &x, sizeof x), 16,
         y.w[i] = mask >> i & 1 ? ((const uint8_t *)&a)[i] : 0)

/* Functions of other shapes. */
EMULATED_INLINE __m128i emulated_mm512_maskz_cvtepi32_epi8(__mmask16 mask, __m512i x) {
    emulated_register a;
    uint8_t lanes[16];
    a.si = x;
    for (int i = 0; i < 16; i++)
        lanes[i] = (uint8_t)(mask >> i & 1 ? a.u[i] : 0);
    return _mm_loadu_si128((const __m128i *)(const void *)lanes);
}

EMULATED_INLINE __m512 emulated_mm512_loadu_ps(const void *p) {
    __m512 y;
    memcpy(&y, p, sizeof y);
    return y;
}

EMULATED_INLINE __m512d emulated_mm512_loadu_pd(const void *p) {
    __m512d y;
    memcpy(&y, p, sizeof y);
    return y;
}

EMULATED_INLINE void emulated_mm512_storeu_pd(void *p, __m512d x) {
    memcpy(p, &x, sizeof x);
}

EMULATED_INLINE __m512i emulated_mm512_loadu_si512(const void *p) {
    __m512i y;
    memcpy(&y, p, sizeof y);
    return y;
}

EMULATED_INLINE void emulated_mm512_storeu_ps(void *p, __m512 x) {
    memcpy(p, &x, sizeof x);
}

EMULATED_INLINE void emulated_mm512_storeu_si512(void *p, __m512i x) {
    memcpy(p, &x, sizeof x);
}

EMULATED_INLINE void emulated_mm512_mask_storeu_ps(void *p, __mmask16 mask, __m512 x) {
    emulated_register a;
    a.ps = x;
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)p + 4 * i, &a.f[i], 4);
}

EMULATED_INLINE __m256i emulated_mm256_maskz_loadu_epi16(__mmask16 mask, const void *p) {
    uint16_t lanes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy(&lanes[i], (const char *)p + 2 * i, 2);
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

EMULATED_INLINE void emulated_mm256_mask_storeu_epi16(void *p, __mmask16 mask, __m256i x) {
    uint16_t lanes[16];
    memcpy(lanes, &x, sizeof lanes);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)p + 2 * i, &lanes[i], 2);
}

EMULATED_INLINE __mmask16 emulated_mm512_cmp_ps_mask(__m512 x, __m512 z, int how) {
    emulated_register a, b;
    unsigned mask = 0;
    a.ps = x;
    b.ps = z;
    for (int i = 0; i < 16; i++) {
        int is = how == _CMP_LT_OQ   ? a.f[i] < b.f[i]
                 : how == _CMP_EQ_OQ ? a.f[i] == b.f[i]
                 : how == _CMP_LE_OQ ? a.f[i] <= b.f[i]
                                     : a.f[i] != a.f[i] || b.f[i] != b.f[i];
        mask |= (unsigned)is << i;
    }
    CHECK(how == _CMP_LT_OQ || how == _CMP_EQ_OQ || how == _CMP_LE_OQ || how == _CMP_UNORD_Q);
    return (__mmask16)mask;
}

EMULATED_INLINE __m512i emulated_mm512_maskz_cvtepu16_epi32(__mmask16 mask, __m256i x) {
    emulated_register y;
    uint16_t lanes[16];
    memcpy(lanes, &x, sizeof lanes);
    for (int i = 0; i < 16; i++)
        y.u[i] = mask >> i & 1 ? lanes[i] : 0;
    return y.si;
}

EMULATED_INLINE __m512i emulated_mm512_maskz_cvtepi16_epi32(__mmask16 mask, __m256i x) {
    emulated_register y;
    int16_t lanes[16];
    memcpy(lanes, &x, sizeof lanes);
    for (int i = 0; i < 16; i++)
        y.u[i] = mask >> i & 1 ? (uint32_t)(int32_t)lanes[i] : 0;
    return y.si;
}

EMULATED_INLINE __m256i emulated_mm512_maskz_cvtepi32_epi16(__mmask16 mask, __m512i x) {
    emulated_register a;
    uint16_t lanes[16];
    a.si = x;
    for (int i = 0; i < 16; i++)
        lanes[i] = (uint16_t)(mask >> i & 1 ? a.u[i] : 0);
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

EMULATED_INLINE __m512 emulated_mm512_maskz_cvtph_ps(__mmask16 mask, __m256i x) {
    emulated_register y;
    uint16_t lanes[16];
    memcpy(lanes, &x, sizeof lanes);
    for (int i = 0; i < 16; i++)
        y.f[i] = mask >> i & 1 ? eitp__f16_to_f32(lanes[i]) : 0;
    return y.ps;
}

EMULATED_INLINE __m256i emulated_mm512_maskz_cvtps_ph(__mmask16 mask, __m512 x, int how) {
    emulated_register a;
    uint16_t lanes[16];
    a.ps = x;
    CHECK((how & 7) == _MM_FROUND_TO_NEAREST_INT);
    for (int i = 0; i < 16; i++)
        lanes[i] = mask >> i & 1 ? eitp__f32_to_f16(a.f[i]) : 0;
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

EMULATED_INLINE __m256d emulated_mm512_maskz_extractf64x4_pd(__mmask8 mask, __m512d x, int half) {
    emulated_register a;
    double lanes[4];
    a.pd = x;
    for (int i = 0; i < 4; i++)
        lanes[i] = mask >> i & 1 ? a.d[4 * half + i] : 0;
    return _mm256_loadu_pd(lanes);
}

/* Converts a BF16 to float, with subnormals as zero. */
EMULATED_INLINE float emulated_bf16(uint16_t bits) {
    return bits & 0x7f80 ? eitp__bf16_to_f32(bits) : 0.0f;
}

/* VDPBF16PS: first the second elements of pairs. Each product is added with one rounding. */
EMULATED_INLINE __m512 emulated_mm512_dpbf16_ps(__m512 sums, __m512i x, __m512i z) {
    emulated_register y, a, b;
    y.ps = sums;
    a.si = x;
    b.si = z;
    for (int i = 0; i < 16; i++) {
        y.f[i] = fmaf(emulated_bf16(a.h[2 * i + 1]), emulated_bf16(b.h[2 * i + 1]), y.f[i]);
        y.f[i] = fmaf(emulated_bf16(a.h[2 * i]), emulated_bf16(b.h[2 * i]), y.f[i]);
    }
    return y.ps;
}

#undef _mm512_set1_ps
#define _mm512_set1_ps emulated_mm512_set1_ps
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 emulated_mm512_set1_epi32
#undef _mm512_set1_epi64
#define _mm512_set1_epi64 emulated_mm512_set1_epi64
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps emulated_mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm512_fnmadd_ps emulated_mm512_fnmadd_ps
#undef _mm512_fmadd_pd
#define _mm512_fmadd_pd emulated_mm512_fmadd_pd
#undef _mm512_set1_pd
#define _mm512_set1_pd emulated_mm512_set1_pd
#undef _mm512_setzero_pd
#define _mm512_setzero_pd emulated_mm512_setzero_pd
#undef _mm512_mul_ps
#define _mm512_mul_ps emulated_mm512_mul_ps
#undef _mm512_and_si512
#define _mm512_and_si512 emulated_mm512_and_si512
#undef _mm512_or_si512
#define _mm512_or_si512 emulated_mm512_or_si512
#undef _mm512_xor_si512
#define _mm512_xor_si512 emulated_mm512_xor_si512
#undef _mm512_add_epi32
#define _mm512_add_epi32 emulated_mm512_add_epi32
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 emulated_mm512_sub_epi32
#undef _mm512_add_epi64
#define _mm512_add_epi64 emulated_mm512_add_epi64
#undef _mm512_mul_epu32
#define _mm512_mul_epu32 emulated_mm512_mul_epu32
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 emulated_mm512_slli_epi32
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 emulated_mm512_srli_epi32
#undef _mm512_slli_epi64
#define _mm512_slli_epi64 emulated_mm512_slli_epi64
#undef _mm512_srli_epi64
#define _mm512_srli_epi64 emulated_mm512_srli_epi64
#undef _mm512_ternarylogic_epi32
#define _mm512_ternarylogic_epi32(a, b, c, table) emulated_mm512_ternarylogic(a, b, c, table)
#undef _mm512_set_epi64
#define _mm512_set_epi64 emulated_mm512_set_epi64
#undef _mm512_permutex2var_epi64
#define _mm512_permutex2var_epi64 emulated_mm512_permutex2var_epi64
#undef _mm512_unpacklo_ps
#define _mm512_unpacklo_ps emulated_mm512_unpacklo_ps
#undef _mm512_maskz_unpacklo_ps
#define _mm512_maskz_unpacklo_ps(mask, a, b) emulated_mm512_unpacklo_ps(a, b) /* of all lanes */
#undef _mm512_unpackhi_ps
#define _mm512_unpackhi_ps emulated_mm512_unpackhi_ps
#undef _mm512_maskz_unpackhi_ps
#define _mm512_maskz_unpackhi_ps(mask, a, b) emulated_mm512_unpackhi_ps(a, b) /* of all lanes */
#undef _mm512_maskz_shuffle_f32x4
#define _mm512_maskz_shuffle_f32x4(mask, a, b, at) emulated_mm512_shuffle_f32x4(a, b, at) /* of all lanes */
#undef _mm512_maskz_permutexvar_epi64
#define _mm512_maskz_permutexvar_epi64(mask, at, a) emulated_mm512_permutexvar_epi64(at, a) /* of all lanes */
#undef _mm512_maskz_unpacklo_epi16
#define _mm512_maskz_unpacklo_epi16(mask, a, b) emulated_mm512_unpacklo_epi16(a, b) /* of all lanes */
#undef _mm512_maskz_unpackhi_epi16
#define _mm512_maskz_unpackhi_epi16(mask, a, b) emulated_mm512_unpackhi_epi16(a, b) /* of all lanes */
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps emulated_mm512_shuffle_ps
#undef _mm512_maskz_shuffle_ps
#define _mm512_maskz_shuffle_ps(mask, a, b, how) emulated_mm512_shuffle_ps(a, b, how) /* of all lanes */
#undef _mm512_mask_loadu_ps
#define _mm512_mask_loadu_ps emulated_mm512_mask_loadu_ps
#undef _mm512_mask_blend_ps
#define _mm512_mask_blend_ps emulated_mm512_mask_blend_ps
#undef _mm512_mask_mov_ps
#define _mm512_mask_mov_ps emulated_mm512_mask_mov_ps
#undef _mm512_mask_blend_epi32
#define _mm512_mask_blend_epi32 emulated_mm512_mask_blend_epi32
#undef _mm512_mask_or_epi32
#define _mm512_mask_or_epi32 emulated_mm512_mask_or_epi32
#undef _mm512_maskz_max_ps
#define _mm512_maskz_max_ps emulated_mm512_maskz_max_ps
#undef _mm512_maskz_min_ps
#define _mm512_maskz_min_ps emulated_mm512_maskz_min_ps
#undef _mm512_maskz_scalef_ps
#define _mm512_maskz_scalef_ps emulated_mm512_maskz_scalef_ps
#undef _mm512_maskz_sqrt_ps
#define _mm512_maskz_sqrt_ps emulated_mm512_maskz_sqrt_ps
#undef _mm512_maskz_cvtepi32_ps
#define _mm512_maskz_cvtepi32_ps emulated_mm512_maskz_cvtepi32_ps
#undef _mm512_maskz_cvtps_epi32
#define _mm512_maskz_cvtps_epi32 emulated_mm512_maskz_cvtps_epi32
#undef _mm512_maskz_cvtps_pd
#define _mm512_maskz_cvtps_pd emulated_mm512_maskz_cvtps_pd
#undef _mm512_maskz_extractf32x8_ps
#define _mm512_maskz_extractf32x8_ps emulated_mm512_maskz_extractf32x8_ps
#undef _mm512_maskz_mul_epu32
#define _mm512_maskz_mul_epu32 emulated_mm512_maskz_mul_epu32
#undef _mm512_maskz_slli_epi32
#define _mm512_maskz_slli_epi32 emulated_mm512_maskz_slli_epi32
#undef _mm512_maskz_srli_epi32
#define _mm512_maskz_srli_epi32 emulated_mm512_maskz_srli_epi32
#undef _mm512_maskz_slli_epi64
#define _mm512_maskz_slli_epi64 emulated_mm512_maskz_slli_epi64
#undef _mm512_maskz_srli_epi64
#define _mm512_maskz_srli_epi64 emulated_mm512_maskz_srli_epi64
#undef _mm512_loadu_ps
#define _mm512_loadu_ps emulated_mm512_loadu_ps
#undef _mm512_loadu_pd
#define _mm512_loadu_pd emulated_mm512_loadu_pd
#undef _mm512_storeu_pd
#define _mm512_storeu_pd emulated_mm512_storeu_pd
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 emulated_mm512_loadu_si512
#undef _mm512_storeu_ps
#define _mm512_storeu_ps emulated_mm512_storeu_ps
#undef _mm512_storeu_si512
#define _mm512_storeu_si512 emulated_mm512_storeu_si512
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps emulated_mm512_mask_storeu_ps
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 emulated_mm256_maskz_loadu_epi16
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16 emulated_mm256_mask_storeu_epi16
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask emulated_mm512_cmp_ps_mask
#undef _mm512_maskz_cvtepu16_epi32
#define _mm512_maskz_cvtepu16_epi32 emulated_mm512_maskz_cvtepu16_epi32
#undef _mm512_maskz_cvtepi16_epi32
#define _mm512_maskz_cvtepi16_epi32 emulated_mm512_maskz_cvtepi16_epi32
#undef _mm512_maskz_cvtepi32_epi16
#define _mm512_maskz_cvtepi32_epi16 emulated_mm512_maskz_cvtepi32_epi16
#undef _mm512_maskz_cvtph_ps
#define _mm512_maskz_cvtph_ps emulated_mm512_maskz_cvtph_ps
#undef _mm512_maskz_cvtps_ph
#define _mm512_maskz_cvtps_ph emulated_mm512_maskz_cvtps_ph
#undef _mm512_maskz_extractf64x4_pd
#define _mm512_maskz_extractf64x4_pd emulated_mm512_maskz_extractf64x4_pd
#undef _mm512_maskz_mullo_epi32
#define _mm512_maskz_mullo_epi32 emulated_mm512_maskz_mullo_epi32
#undef _mm512_maskz_max_epi32
#define _mm512_maskz_max_epi32 emulated_mm512_maskz_max_epi32
#undef _mm512_maskz_min_epu32
#define _mm512_maskz_min_epu32 emulated_mm512_maskz_min_epu32
#undef _mm512_maskz_cvtepi8_epi32
#define _mm512_maskz_cvtepi8_epi32 emulated_mm512_maskz_cvtepi8_epi32
#undef _mm512_maskz_cvtepu8_epi32
#define _mm512_maskz_cvtepu8_epi32 emulated_mm512_maskz_cvtepu8_epi32
#undef _mm512_maskz_cvtepi32_epi8
#define _mm512_maskz_cvtepi32_epi8 emulated_mm512_maskz_cvtepi32_epi8
#undef _mm512_dpbf16_ps
#define _mm512_dpbf16_ps(c, a, b) emulated_mm512_dpbf16_ps(c, (__m512i)(a), (__m512i)(b))
#undef _mm512_castps_si512
#define _mm512_castps_si512(x) ((__m512i)(x))
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps(x) ((__m512)(x))

#undef EMULATED
#endif
