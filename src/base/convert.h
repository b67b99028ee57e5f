/* Exact conversions between f32 and the 16-bit floating-point types, one value or many. */
#ifndef EITP_CONVERT_H
#define EITP_CONVERT_H

#include "base/platform.h"

/*
 * To f32 nothing is lost. From f32 the result is the nearest value, of two equally near the even one; what is too large
 * becomes an infinity; a NaN stays one, with its sign and as much of its payload as there is room for, made quiet.
 */
EITP__PRIVATE float eitp__f16_to_f32(uint16_t bits);
EITP__PRIVATE uint16_t eitp__f32_to_f16(float value);
EITP__PRIVATE float eitp__bf16_to_f32(uint16_t bits);
EITP__PRIVATE uint16_t eitp__f32_to_bf16(float value);

/* 1 where the two below can convert it: F32, F64, F16, BF16. */
EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype);

/* `count` elements of a floating `dtype` at `source`, which need not be aligned, into `destination`; F64 is rounded. */
EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count);
EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count);

#endif
