/* What the kernels of ADAMW share: how a parameter and its moments are stored, one value at a time. */
#ifndef EITP_UPDATE_H
#define EITP_UPDATE_H

#include "kernels/kernels.h"

typedef enum eitp__weight_form {
    EITP__WEIGHT_WIDE,       /* F32 or F64 */
    EITP__WEIGHT_DIFFERENCE, /* F16, and F32 */
    EITP__WEIGHT_EXACT,      /* BF16, and I16 */
    EITP__WEIGHT_CORRECTED,  /* BF16, and I8 */
    EITP__WEIGHT_STOCHASTIC  /* BF16 */
} eitp__weight_form;

static inline EITP__UNUSED eitp__weight_form eitp__weight_form_of(const eitp__call *call) {
    if (call->dtype == EITP_F16)
        return EITP__WEIGHT_DIFFERENCE;
    if (call->dtype != EITP_BF16)
        return EITP__WEIGHT_WIDE;
    if (!call->inputs[6].data)
        return EITP__WEIGHT_STOCHASTIC;
    return call->inputs[6].dtype == EITP_I8 ? EITP__WEIGHT_CORRECTED : EITP__WEIGHT_EXACT;
}

/*
 * The BF16 below the value or the one above it, in magnitude, where `half` is as likely to be any 16 bits: on average
 * the value. What is finite stays finite, a NaN stays one.
 */
static inline EITP__UNUSED uint16_t eitp__round_bf16(float value, uint16_t half) {
    uint32_t bits = eitp__bits_of_float(value), magnitude = bits & 0x7fffffff, rounded = magnitude + half;
    uint32_t largest = magnitude > 0x7f7fffff ? magnitude : 0x7f7fffff;
    rounded = rounded < largest ? rounded : largest;
    return (uint16_t)((bits & 0x80000000) >> 16 | rounded >> 16 | (magnitude > 0x7f800000 ? 0x40 : 0));
}

/* Elements whose random halves are made at once, from as many blocks of numbers as are below. */
enum { EITP__HALVES = 128, EITP__HALVES_BLOCKS = 16 };

/*
 * The 16 random bits for an element: of EITP__HALVES elements the first 16 have the lower halves of the first words of
 * 16 blocks, the next those of the second words, and the last 16 the upper halves of the fourth words. So no vector of
 * blocks needs to be put into another order.
 */
static inline EITP__UNUSED uint16_t eitp__random_half(const int64_t *key, uint32_t stream, uint64_t number) {
    uint32_t words[4], within = (uint32_t)(number % EITP__HALVES), which = within / EITP__HALVES_BLOCKS;
    uint64_t block = number / EITP__HALVES * EITP__HALVES_BLOCKS + within % EITP__HALVES_BLOCKS;
    eitp__philox((uint64_t)key[0], (uint64_t)key[1], stream, block, words);
    return (uint16_t)(words[which & 3] >> (which & 4) * 4);
}

/*
 * 8-bit moments (FlashOptim, arXiv 2602.23349). The scale of a group is the smallest BF16 that is not below any |m|,
 * or any sqrt(v), of it. m / scale is stored as 127 phi(m / scale), phi(x) = 2 x / (1 + |x|), sqrt(v) / scale as 255
 * of itself, each dithered before it is rounded: a moment changes by less than half a step at a time, and would stay
 * where it is for ever. The sqrt(v) of a byte of 0 is read as half a step: AdamW keeps |m| below a multiple of
 * sqrt(v), what m gains by its own rounding near 0 is at most a step of its scale, and so m / sqrt(v) stays within
 * four times that multiple.
 */

/*
 * What is added before rounding, in [-1/2, 1/2]: a hash (of the kind of Wellons' lowbias32) of where the element and
 * the step are; `step` counts from 1. An evenly spaced sequence would do worse: it keeps step with the moments.
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
