/* Conversions between f32 and f16, bf16 and f64, and the encoding of 8-bit moments. Inline functions are for
   kernels. */
#ifndef EITP_CONVERT_H
#define EITP_CONVERT_H

#include "base/platform.h"

static inline EITP__UNUSED float eitp__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline EITP__UNUSED uint32_t eitp__bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns `bits` without its `drop` lowest bits, rounded to nearest, ties to even. */
static inline EITP__UNUSED uint32_t eitp__round_bits(uint32_t bits, unsigned drop) {
    return (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
}

/*
 * Conversions to f32 are exact. Conversions from f32 round to nearest, ties to even, and overflow to infinity. A NaN
 * stays NaN, quiet, with its sign and the upper bits of its payload.
 */
static inline EITP__UNUSED float eitp__f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity and NaN */
        return eitp__float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400)
        return eitp__float_of_bits(sign | ((magnitude << 13) + ((uint32_t)(127 - 15) << 23)));
    /* Zero and the subnormals are multiples of 2^-24, which f32 holds exactly. */
    return eitp__float_of_bits(sign | eitp__bits_of_float((float)magnitude * 5.9604644775390625e-8f));
}

static inline EITP__UNUSED uint16_t eitp__f32_to_f16(float value) {
    uint32_t bits = eitp__bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff, result;
    if (magnitude > 0x7f800000) {
        result = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x47800000) { /* 2^16 and above */
        result = 0x7c00;
    } else if (magnitude >= 0x38800000) { /* 2^-14 and above: a normal f16, or infinity after rounding up */
        result = eitp__round_bits(magnitude - ((uint32_t)(127 - 15) << 23), 13);
    } else if (magnitude >= 0x33000000) { /* 2^-25 and above: a subnormal, in units of 2^-24 */
        result = eitp__round_bits((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
    } else {
        result = 0;
    }
    return (uint16_t)(sign | result);
}

static inline EITP__UNUSED float eitp__bf16_to_f32(uint16_t bits) {
    return eitp__float_of_bits((uint32_t)bits << 16);
}

static inline EITP__UNUSED uint16_t eitp__f32_to_bf16(float value) {
    uint32_t bits = eitp__bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)eitp__round_bits(bits, 16);
}

/* True if a value stays finite when rounded to nearest in a 16-bit dtype, regardless of how ties are rounded. */
static inline EITP__UNUSED int eitp__is_in_range(eitp_dtype dtype, float value) {
    const uint32_t magnitude = eitp__bits_of_float(value) & 0x7fffffff;
    return magnitude < (dtype == EITP_F16 ? 0x477ff000 : 0x7f7f8000u); /* 65520, and halfway from the largest BF16 */
}

/* Returns the dtype in which values of `dtype` are computed: F32 for the 16-bit types, else the dtype itself. */
static inline EITP__UNUSED eitp_dtype eitp__wide(eitp_dtype dtype) {
    return dtype == EITP_BF16 || dtype == EITP_F16 ? EITP_F32 : dtype;
}

/* True for F32, F64, F16 and BF16, the dtypes that the two functions below convert. */
EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype);

/* Converts `count` elements of a floating-point `dtype`; that side need not be aligned. F64 is rounded to f32. */
EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count);
EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count);

/* Consecutive elements whose 8-bit moments share a scale. Divides EITP__SUM_BLOCK, so no group crosses a block. */
#define EITP__MOMENT_GROUP 32

/*
 * 8-bit moments (FlashOptim, arXiv 2602.23349). The scale of a group is the smallest BF16 that is not less than any
 * |m|, or any sqrt(v), of the group. m is stored as 127 phi(m / scale) with phi(x) = 2 x / (1 + |x|), v as 255 sqrt(v)
 * / scale.
 *
 * Both are dithered before rounding: a moment often changes by less than half a quantization step per update, and
 * without dither would never change. A v code of 0 is read as half a step of sqrt(v): AdamW keeps |m| below a multiple
 * of sqrt(v), and rounding m near 0 adds at most one step of its scale, so m / sqrt(v) stays within four times that
 * multiple.
 */

/*
 * The dither, in [-1/2, 1/2], is a hash (in the manner of Wellons' lowbias32) of the optimizer step, counted from 1,
 * and the index of the element. A hash avoids the correlation with the moments that an evenly spaced sequence would
 * have.
 */
#define EITP__DITHER_STEP 0xC13FA9A9u
#define EITP__DITHER_ELEMENT 0x91E10DA5u
#define EITP__DITHER_FIRST 0x7FEB352Du
#define EITP__DITHER_SECOND 0x846CA68Bu

static inline EITP__UNUSED uint32_t eitp__dither_place(float step, int64_t number) {
    return (uint32_t)step * EITP__DITHER_STEP + (uint32_t)number * EITP__DITHER_ELEMENT;
}

static inline EITP__UNUSED float eitp__dither(uint32_t place) {
    place = (place ^ place >> 16) * EITP__DITHER_FIRST;
    place = (place ^ place >> 15) * EITP__DITHER_SECOND;
    return (float)(int32_t)place * (1.0f / 4294967296.0f);
}

static inline EITP__UNUSED float eitp__moment_scale(float largest) {
    uint32_t bits = (eitp__bits_of_float(largest) + 0xffff) & 0xffff0000;
    return eitp__float_of_bits(bits < 0x7f7f0000 ? bits : 0x7f7f0000);
}

static inline EITP__UNUSED float eitp__unpack_m(int8_t code, float scale) {
    float q = (float)code;
    return scale * (q / (254.0f - fabsf(q)));
}

static inline EITP__UNUSED int8_t eitp__pack_m(float m, float scale, float dither) {
    float x = scale > 0.0f ? m / scale : 0.0f, q = rintf(254.0f * x / (1.0f + fabsf(x)) + dither);
    return (int8_t)(q > 127.0f ? 127.0f : q < -127.0f ? -127.0f : q);
}

static inline EITP__UNUSED float eitp__unpack_v(uint8_t code, float scale) {
    float root = scale * ((code ? (float)code : 0.5f) / 255.0f);
    return root * root;
}

static inline EITP__UNUSED uint8_t eitp__pack_v(float v, float scale, float dither) {
    float q = rintf((scale > 0.0f ? sqrtf(v) / scale * 255.0f : 0.0f) + dither);
    return (uint8_t)(q < 255.0f ? q : 255.0f);
}

#endif
