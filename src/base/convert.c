#include "base/convert.h"

static float eitp__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t eitp__bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* `bits` without the lowest `drop` ones, rounded to the nearest, ties to even. */
static uint32_t eitp__round_bits(uint32_t bits, unsigned drop) {
    return (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
}

EITP__PRIVATE float eitp__f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity and NaN */
        return eitp__float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400)
        return eitp__float_of_bits(sign | ((magnitude << 13) + ((uint32_t)(127 - 15) << 23)));
    /* Zero and the subnormals are multiples of 2^-24, which f32 holds exactly. */
    return eitp__float_of_bits(sign | eitp__bits_of_float((float)magnitude * 5.9604644775390625e-8f));
}

EITP__PRIVATE uint16_t eitp__f32_to_f16(float value) {
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

EITP__PRIVATE float eitp__bf16_to_f32(uint16_t bits) {
    return eitp__float_of_bits((uint32_t)bits << 16);
}

EITP__PRIVATE uint16_t eitp__f32_to_bf16(float value) {
    uint32_t bits = eitp__bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)eitp__round_bits(bits, 16);
}

EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype) {
    return dtype == EITP_F32 || dtype == EITP_F64 || dtype == EITP_F16 || dtype == EITP_BF16;
}

EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count) {
    const unsigned char *bytes = (const unsigned char *)source;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *destination);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = (float)value;
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = dtype == EITP_F16 ? eitp__f16_to_f32(value) : eitp__bf16_to_f32(value);
        }
    }
}

EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count) {
    unsigned char *bytes = (unsigned char *)destination;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *source);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value = (double)source[i];
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value = dtype == EITP_F16 ? eitp__f32_to_f16(source[i]) : eitp__f32_to_bf16(source[i]);
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    }
}
