/* Exact conversions between f32 and the 16-bit floating-point types, one value or many. Inline, for kernels. */
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

/* `bits` without the lowest `drop` ones, rounded to the nearest, ties to even. */
static inline EITP__UNUSED uint32_t eitp__round_bits(uint32_t bits, unsigned drop) {
    return (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
}

/*
 * To f32 nothing is lost. From f32 the result is the nearest value, of two equally near the even one; what is too large
 * becomes an infinity; a NaN stays one, with its sign and as much of its payload as there is room for, made quiet.
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
    } else if (magnitude >= 0x47800000) { /* 2^16 and up */
        result = 0x7c00;
    } else if (magnitude >= 0x38800000) { /* 2^-14 and up: a normal f16, or the infinity that rounding carries into */
        result = eitp__round_bits(magnitude - ((uint32_t)(127 - 15) << 23), 13);
    } else if (magnitude >= 0x33000000) { /* 2^-25 and up: a subnormal, in units of 2^-24 */
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

/* What values of a dtype are computed in: F32 for the 16-bit types, the dtype itself for others. */
static inline EITP__UNUSED eitp_dtype eitp__wide(eitp_dtype dtype) {
    return dtype == EITP_BF16 || dtype == EITP_F16 ? EITP_F32 : dtype;
}

/* 1 where the two below can convert it: F32, F64, F16, BF16. */
EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype);

/* `count` elements of a floating `dtype` at `source`, which need not be aligned, into `destination`; F64 is rounded. */
EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count);
EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count);

#endif
