#include "gguf/rounding.h"
#include "gguf/packing.h"
#include "base/convert.h"
#include "base/little_endian.h"

/* Compilers must not fuse operations. gcc ignores the pragma of the C standard, clang does with -ffp-contract=fast. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

/* Values below this count as zeros in Q6_K. */
#define EITP__GGUF_NEGLIGIBLE 1e-15f

/* Stores an F16 number and returns its value. */
static float eitp__gguf_put_f16(unsigned char *bytes, float value) {
    const uint16_t half = eitp__f32_to_f16(value);
    eitp__put_number(bytes, 2, half);
    return eitp__f16_to_f32(half);
}

/* Rounds to an integer, ties to even: the last bit of 1.5 * 2^23 is 1. Beyond +-2^22 the result is arbitrary, but as in
   llama.cpp. */
static int eitp__gguf_nearest(float value) {
    return (int)(eitp__bits_of_float(value + 12582912.0f) & 0x7fffff) - 0x400000;
}

static unsigned char eitp__gguf_clamp(int code, int most) {
    return (unsigned char)(code < 0 ? 0 : code > most ? most : code);
}

/* Returns the value of largest magnitude, the first of several, or 0. */
static float eitp__gguf_largest(const float *values, int count) {
    float largest = 0.0f;
    for (int i = 0; i < count; i++)
        if (fabsf(values[i]) > fabsf(largest))
            largest = values[i];
    return largest;
}

/* ---- Blocks of 32: the largest value, or the smallest and the largest, are exact before the scale is rounded ---- */

/* Returns the integer part. Where the inverse of a subnormal scale overflowed, conversions are undefined; this is what
   x86 processors give. */
static unsigned char eitp__gguf_truncate(float value, int most) {
    return fabsf(value) < 256.0f ? eitp__gguf_clamp((int)value, most) : 0;
}

static float eitp__gguf_inverse(float scale) {
    return scale != 0.0f ? 1.0f / scale : 0.0f;
}

/* Rounds to integers in [-half, half - 1], stored as codes from 0. Returns the scale. */
static float eitp__gguf_round_signed(const float *values, int half, unsigned char *codes) {
    const float scale = eitp__gguf_largest(values, 32) / -(float)half, inverse = eitp__gguf_inverse(scale);
    for (int i = 0; i < 32; i++)
        codes[i] = eitp__gguf_truncate(values[i] * inverse + ((float)half + 0.5f), 2 * half - 1);
    return scale;
}

/* Rounds to [0, most] above the minimum. Returns the scale. */
static float eitp__gguf_round_above(const float *values, int most, float *minimum, unsigned char *codes) {
    float low = values[0], high = values[0], scale, inverse;
    for (int i = 1; i < 32; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    scale = (high - low) / (float)most;
    inverse = eitp__gguf_inverse(scale);
    for (int i = 0; i < 32; i++)
        codes[i] = eitp__gguf_truncate((values[i] - low) * inverse + 0.5f, most);
    *minimum = low;
    return scale;
}

EITP__PRIVATE void eitp__gguf_round_q4_0(const float *values, unsigned char *block) {
    unsigned char codes[32];
    eitp__gguf_put_f16(block, eitp__gguf_round_signed(values, 8, codes));
    eitp__gguf_pack(eitp__gguf_pack_32, codes, block + 2);
}

EITP__PRIVATE void eitp__gguf_round_q4_1(const float *values, unsigned char *block) {
    unsigned char codes[32];
    float minimum;
    eitp__gguf_put_f16(block, eitp__gguf_round_above(values, 15, &minimum, codes));
    eitp__gguf_put_f16(block + 2, minimum);
    eitp__gguf_pack(eitp__gguf_pack_32, codes, block + 4);
}

EITP__PRIVATE void eitp__gguf_round_q5_0(const float *values, unsigned char *block) {
    unsigned char codes[32];
    eitp__gguf_put_f16(block, eitp__gguf_round_signed(values, 16, codes));
    eitp__gguf_pack(eitp__gguf_pack_32_high, codes, block + 2);
    eitp__gguf_pack(eitp__gguf_pack_32, codes, block + 6);
}

EITP__PRIVATE void eitp__gguf_round_q5_1(const float *values, unsigned char *block) {
    unsigned char codes[32];
    float minimum;
    eitp__gguf_put_f16(block, eitp__gguf_round_above(values, 31, &minimum, codes));
    eitp__gguf_put_f16(block + 2, minimum);
    eitp__gguf_pack(eitp__gguf_pack_32_high, codes, block + 4);
    eitp__gguf_pack(eitp__gguf_pack_32, codes, block + 8);
}

EITP__PRIVATE void eitp__gguf_round_q8_0(const float *values, unsigned char *block) {
    const float scale = fabsf(eitp__gguf_largest(values, 32)) / 127.0f, inverse = eitp__gguf_inverse(scale);
    eitp__gguf_put_f16(block, scale);
    for (int i = 0; i < 32; i++) {
        const float code = roundf(values[i] * inverse);
        block[2 + i] = (unsigned char)(fabsf(code) < 128.0f ? (int)code : 0);
    }
}

/* ---- Q4_K and Q5_K: groups of 32 with the scale and minimum of least squared error among a few ---- */

/* The values of a group, with their weights: values of large magnitude count more. */
typedef struct eitp__gguf_group {
    const float *values;
    float weights[32];
    float weight_sum, value_sum; /* of weights, and of weighted values */
    float high;                  /* the largest value */
} eitp__gguf_group;

/* Each value is about scale * code + low; low is at most 0. */
typedef struct eitp__gguf_fit {
    float scale, low;
    unsigned char codes[32];
} eitp__gguf_fit;

/* Weighs the values of a group. Returns the smallest, at most 0. */
static float eitp__gguf_weigh(eitp__gguf_group *group, const float *values) {
    float squares = 0.0f, low = values[0], mean;
    for (int i = 0; i < 32; i++)
        squares += values[i] * values[i];
    mean = sqrtf(squares / 32.0f);
    group->values = values;
    group->weight_sum = group->value_sum = 0.0f;
    group->high = values[0];
    for (int i = 0; i < 32; i++) {
        group->weights[i] = mean + fabsf(values[i]);
        group->weight_sum += group->weights[i];
        group->value_sum += group->weights[i] * values[i];
        low = values[i] < low ? values[i] : low;
        group->high = values[i] > group->high ? values[i] : group->high;
    }
    return low > 0.0f ? 0.0f : low;
}

static void eitp__gguf_choose_codes(const eitp__gguf_group *group, float low, float inverse, int most,
                                    unsigned char *codes) {
    for (int i = 0; i < 32; i++)
        codes[i] = eitp__gguf_clamp(eitp__gguf_nearest(inverse * (group->values[i] - low)), most);
}

static float eitp__gguf_error(const eitp__gguf_group *group, const eitp__gguf_fit *fit) {
    float sum = 0.0f;
    for (int i = 0; i < 32; i++) {
        const float error = fit->scale * (float)fit->codes[i] + fit->low - group->values[i];
        sum += group->weights[i] * (error * error);
    }
    return sum;
}

/* Sets the scale and low of weighted least squares for the codes. Returns 0 if the codes do not determine them. */
static int eitp__gguf_solve(const eitp__gguf_group *group, eitp__gguf_fit *fit) {
    float codes = 0.0f, squares = 0.0f, products = 0.0f, determinant;
    for (int i = 0; i < 32; i++) {
        const float code = (float)fit->codes[i], weighted = group->weights[i] * code;
        codes += weighted;
        squares += weighted * code;
        products += weighted * group->values[i];
    }
    determinant = group->weight_sum * squares - codes * codes;
    if (!(determinant > 0.0f))
        return 0;
    fit->scale = (group->weight_sum * products - group->value_sum * codes) / determinant;
    fit->low = (squares * group->value_sum - codes * products) / determinant;
    if (fit->low > 0.0f) {
        fit->low = 0.0f;
        fit->scale = products / squares;
    }
    return 1;
}

/*
 * Fits codes of [0, most]. The first fit maps the smallest value to 0 and the largest to `most`. Each of the others
 * chooses codes as if the largest were mapped to most + start, then in steps of 0.1, and solves for scale and low. It
 * starts from the low of the best fit so far.
 */
static void eitp__gguf_fit_group(const float *values, int most, float start, int steps, eitp__gguf_fit *best) {
    eitp__gguf_group group;
    eitp__gguf_fit fit;
    float error, inverse;
    memset(best, 0, sizeof *best);
    best->low = eitp__gguf_weigh(&group, values);
    if (group.high == best->low)
        return;
    inverse = (float)most / (group.high - best->low);
    best->scale = 1.0f / inverse;
    eitp__gguf_choose_codes(&group, best->low, inverse, most, best->codes);
    error = eitp__gguf_error(&group, best);
    for (int step = 0; step <= steps; step++) {
        inverse = (start + 0.1f * (float)step + (float)most) / (group.high - best->low);
        eitp__gguf_choose_codes(&group, best->low, inverse, most, fit.codes);
        if (eitp__gguf_solve(&group, &fit)) {
            const float other = eitp__gguf_error(&group, &fit);
            if (other < error) {
                error = other;
                *best = fit;
            }
        }
    }
}

/* Rounds to 6 bits. Where the scales are so small that `inverse` overflows, the result is as in llama.cpp. */
static unsigned char eitp__gguf_round_six(float value, float inverse) {
    const unsigned char code = (unsigned char)eitp__gguf_nearest(inverse * value);
    return code < 63 ? code : 63;
}

/* Stores the scales and mins of groups, relative to the largest of each, and replaces them by their rounded values. */
static void eitp__gguf_put_scales(float scales[8], float mins[8], unsigned char *block) {
    float largest[2] = {0.0f, 0.0f}, inverse[2], rounded[2];
    unsigned char codes[2][8];
    for (int g = 0; g < 8; g++) {
        largest[0] = scales[g] > largest[0] ? scales[g] : largest[0];
        largest[1] = mins[g] > largest[1] ? mins[g] : largest[1];
    }
    for (int k = 0; k < 2; k++) {
        inverse[k] = largest[k] > 0.0f ? 63.0f / largest[k] : 0.0f;
        rounded[k] = eitp__gguf_put_f16(block + 2 * k, largest[k] / 63.0f);
    }
    for (int g = 0; g < 8; g++) {
        codes[0][g] = eitp__gguf_round_six(scales[g], inverse[0]);
        codes[1][g] = eitp__gguf_round_six(mins[g], inverse[1]);
        scales[g] = rounded[0] * (float)codes[0][g];
        mins[g] = rounded[1] * (float)codes[1][g];
    }
    eitp__gguf_pack_scales(codes[0], codes[1], block + 4);
}

/* Stores the first 16 bytes of a block and chooses its codes, for the scales as stored. A group whose scale is stored
   as 0 keeps the codes of its fit. */
static void eitp__gguf_round_groups(const float *values, int most, float start, int steps, unsigned char *block,
                                    unsigned char *codes) {
    float scales[8], mins[8];
    for (int g = 0; g < 8; g++) {
        eitp__gguf_fit fit;
        eitp__gguf_fit_group(values + 32 * g, most, start, steps, &fit);
        scales[g] = fit.scale;
        mins[g] = -fit.low;
        memcpy(codes + 32 * g, fit.codes, 32);
    }
    eitp__gguf_put_scales(scales, mins, block);
    for (int i = 0; i < 256; i++)
        if (scales[i / 32] != 0.0f)
            codes[i] = eitp__gguf_clamp(eitp__gguf_nearest((values[i] + mins[i / 32]) / scales[i / 32]), most);
}

EITP__PRIVATE void eitp__gguf_round_q4_k(const float *values, unsigned char *block) {
    unsigned char codes[256];
    eitp__gguf_round_groups(values, 15, -1.0f, 20, block, codes);
    eitp__gguf_pack(eitp__gguf_pack_q4_k, codes, block + 16);
}

EITP__PRIVATE void eitp__gguf_round_q5_k(const float *values, unsigned char *block) {
    unsigned char codes[256];
    eitp__gguf_round_groups(values, 31, -0.5f, 15, block, codes);
    eitp__gguf_pack(eitp__gguf_pack_q5_k_high, codes, block + 16);
    eitp__gguf_pack(eitp__gguf_pack_q4_k, codes, block + 48);
}

/* ---- Q6_K: groups of 16 with the scale of least squared error among a few ---- */

/* Chooses codes, 32 more than integers in [-32, 31]. Values are weighted by their squares: sums[0] is the weighted sum
   of value times integer, sums[1] of the integers' squares. */
static void eitp__gguf_project(const float *values, float inverse, unsigned char *codes, float sums[2]) {
    sums[0] = sums[1] = 0.0f;
    for (int i = 0; i < 16; i++) {
        const float weight = values[i] * values[i];
        float integer;
        codes[i] = eitp__gguf_clamp(eitp__gguf_nearest(inverse * values[i]) + 32, 63);
        integer = (float)(codes[i] - 32);
        sums[0] += weight * values[i] * integer;
        sums[1] += weight * integer * integer;
    }
}

/* Returns the best scale among those that map the value of largest magnitude to -32, and to up to 0.9 more or less. */
static float eitp__gguf_fit_signed(const float *values, unsigned char *codes) {
    const float largest = eitp__gguf_largest(values, 16);
    float sums[2], scale, best;
    memset(codes, 0, 16);
    if (fabsf(largest) < EITP__GGUF_NEGLIGIBLE)
        return 0.0f;
    eitp__gguf_project(values, -32.0f / largest, codes, sums);
    scale = sums[0] / sums[1];
    best = scale * sums[0];
    for (int step = -9; step <= 9; step++) {
        unsigned char others[16];
        if (step == 0)
            continue;
        eitp__gguf_project(values, -(32.0f + 0.1f * (float)step) / largest, others, sums);
        if (sums[0] * sums[0] > best * sums[1]) {
            memcpy(codes, others, 16);
            scale = sums[0] / sums[1];
            best = scale * sums[0];
        }
    }
    return scale;
}

EITP__PRIVATE void eitp__gguf_round_q6_k(const float *values, unsigned char *block) {
    unsigned char codes[256];
    float scales[16], largest, inverse, rounded;
    for (int g = 0; g < 16; g++)
        scales[g] = eitp__gguf_fit_signed(values + 16 * g, codes + 16 * g);
    largest = eitp__gguf_largest(scales, 16);
    if (fabsf(largest) < EITP__GGUF_NEGLIGIBLE) {
        memset(block, 0, 210);
        return;
    }
    inverse = -128.0f / largest;
    rounded = eitp__gguf_put_f16(block + 208, 1.0f / inverse);
    for (int g = 0; g < 16; g++) {
        const int code = eitp__gguf_nearest(inverse * scales[g]);
        block[192 + g] = (unsigned char)(code < 127 ? code : 127);
        scales[g] = rounded * (float)(int8_t)block[192 + g];
    }
    for (int i = 0; i < 256; i++)
        if (scales[i / 16] != 0.0f)
            codes[i] = eitp__gguf_clamp(eitp__gguf_nearest(values[i] / scales[i / 16]) + 32, 63);
    eitp__gguf_pack(eitp__gguf_pack_q6_k, codes, block);
    eitp__gguf_pack(eitp__gguf_pack_q6_k_high, codes, block + 128);
}

#if defined(__clang__)
#pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif
