#include "gguf/types.h"
#include "gguf/packing.h"
#include "gguf/rounding.h"
#include "base/convert.h"
#include "base/little_endian.h"
#include "base/unicode.h"

/*
 * Widening. The scale of a block is an F16 number of 11 significant bits. The scales of its groups and its codes add at
 * most 13, so that the product of all three is exact in f32, in any order. A minimum is exact too, and its addition
 * rounds once, fused or not.
 */

static float eitp__gguf_f16(const unsigned char *bytes) {
    return eitp__f16_to_f32((uint16_t)eitp__get_number(bytes, 2));
}

static void eitp__gguf_scale(const unsigned char *codes, int count, int zero, float scale, float *values) {
    for (int i = 0; i < count; i++)
        values[i] = scale * (float)(codes[i] - zero);
}

static void eitp__gguf_scale_and_add(const unsigned char *codes, int count, float scale, float minimum, float *values) {
    for (int i = 0; i < count; i++)
        values[i] = scale * (float)codes[i] + minimum;
}

static void eitp__gguf_look_up(const unsigned char *codes, int count, const signed char *table, float scale,
                               float *values) {
    for (int i = 0; i < count; i++)
        values[i] = scale * (float)table[codes[i]];
}

/* ---- Values that stand alone ---- */

static void eitp__gguf_widen_f32(const unsigned char *block, float *values) {
    *values = eitp__float_of_bits((uint32_t)eitp__get_number(block, 4));
}

static void eitp__gguf_round_f32(const float *values, unsigned char *block) {
    eitp__put_number(block, 4, eitp__bits_of_float(*values));
}

static void eitp__gguf_widen_f16(const unsigned char *block, float *values) {
    *values = eitp__gguf_f16(block);
}

static void eitp__gguf_round_f16(const float *values, unsigned char *block) {
    eitp__put_number(block, 2, eitp__f32_to_f16(*values));
}

static void eitp__gguf_widen_bf16(const unsigned char *block, float *values) {
    *values = eitp__bf16_to_f32((uint16_t)eitp__get_number(block, 2));
}

static void eitp__gguf_round_bf16(const float *values, unsigned char *block) {
    eitp__put_number(block, 2, eitp__f32_to_bf16(*values));
}

/* ---- Blocks of 32 ---- */

static void eitp__gguf_widen_q4_0(const unsigned char *block, float *values) {
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 2, codes);
    eitp__gguf_scale(codes, 32, 8, eitp__gguf_f16(block), values);
}

static void eitp__gguf_widen_q4_1(const unsigned char *block, float *values) {
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 4, codes);
    eitp__gguf_scale_and_add(codes, 32, eitp__gguf_f16(block), eitp__gguf_f16(block + 2), values);
}

static void eitp__gguf_widen_q5_0(const unsigned char *block, float *values) {
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32_high, block + 2, codes);
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 6, codes);
    eitp__gguf_scale(codes, 32, 16, eitp__gguf_f16(block), values);
}

static void eitp__gguf_widen_q5_1(const unsigned char *block, float *values) {
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32_high, block + 4, codes);
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 8, codes);
    eitp__gguf_scale_and_add(codes, 32, eitp__gguf_f16(block), eitp__gguf_f16(block + 2), values);
}

static void eitp__gguf_widen_q8_0(const unsigned char *block, float *values) {
    const float scale = eitp__gguf_f16(block);
    for (int i = 0; i < 32; i++)
        values[i] = scale * (float)(int8_t)block[2 + i];
}

static const signed char eitp__gguf_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

static void eitp__gguf_widen_iq4_nl(const unsigned char *block, float *values) {
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 2, codes);
    eitp__gguf_look_up(codes, 32, eitp__gguf_iq4_values, eitp__gguf_f16(block), values);
}

/* The scale is 2^(block[0] - 127) (OCP Microscaling Formats 1.0). The table has twice the value of a code, so this uses
   half the scale, which is subnormal for 0 and 1. */
static void eitp__gguf_widen_mxfp4(const unsigned char *block, float *values) {
    static const signed char table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t exponent = block[0], bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    unsigned char codes[32] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_32, block + 1, codes);
    eitp__gguf_look_up(codes, 32, table, eitp__float_of_bits(bits), values);
}

/* ---- Blocks of 256, in groups with their own scales ---- */

static void eitp__gguf_widen_q2_k(const unsigned char *block, float *values) {
    const float scale = eitp__gguf_f16(block + 80), minimum = eitp__gguf_f16(block + 82);
    unsigned char codes[256] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_q2_k, block + 16, codes);
    for (int g = 0; g < 16; g++)
        eitp__gguf_scale_and_add(codes + 16 * g, 16, scale * (float)(block[g] & 15),
                                 -(minimum * (float)(block[g] >> 4)), values + 16 * g);
}

static void eitp__gguf_widen_q3_k(const unsigned char *block, float *values) {
    static const eitp__gguf_packing low = {8, 8, 4, 0}, high = {4, 4, 2, 4};
    const float scale = eitp__gguf_f16(block + 108);
    unsigned char codes[256] = EITP__ZERO, scales[16] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_q3_k_high, block, codes);
    eitp__gguf_unpack(eitp__gguf_pack_q2_k, block + 32, codes);
    eitp__gguf_unpack(low, block + 96, scales);
    eitp__gguf_unpack(high, block + 104, scales);
    for (int g = 0; g < 16; g++)
        eitp__gguf_scale(codes + 16 * g, 16, 4, scale * (float)(scales[g] - 32), values + 16 * g);
}

/* Applies the scales and mins at the start of a block of Q4_K or Q5_K. */
static void eitp__gguf_scale_groups(const unsigned char *block, const unsigned char *codes, float *values) {
    const float scale = eitp__gguf_f16(block), minimum = eitp__gguf_f16(block + 2);
    unsigned char scales[8], mins[8];
    eitp__gguf_unpack_scales(block + 4, scales, mins);
    for (int g = 0; g < 8; g++)
        eitp__gguf_scale_and_add(codes + 32 * g, 32, scale * (float)scales[g], -(minimum * (float)mins[g]),
                                 values + 32 * g);
}

static void eitp__gguf_widen_q4_k(const unsigned char *block, float *values) {
    unsigned char codes[256] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_q4_k, block + 16, codes);
    eitp__gguf_scale_groups(block, codes, values);
}

static void eitp__gguf_widen_q5_k(const unsigned char *block, float *values) {
    unsigned char codes[256] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_q5_k_high, block + 16, codes);
    eitp__gguf_unpack(eitp__gguf_pack_q4_k, block + 48, codes);
    eitp__gguf_scale_groups(block, codes, values);
}

static void eitp__gguf_widen_q6_k(const unsigned char *block, float *values) {
    const float scale = eitp__gguf_f16(block + 208);
    unsigned char codes[256] = EITP__ZERO;
    eitp__gguf_unpack(eitp__gguf_pack_q6_k, block, codes);
    eitp__gguf_unpack(eitp__gguf_pack_q6_k_high, block + 128, codes);
    for (int g = 0; g < 16; g++)
        eitp__gguf_scale(codes + 16 * g, 16, 32, scale * (float)(int8_t)block[192 + g], values + 16 * g);
}

static void eitp__gguf_widen_iq4_xs(const unsigned char *block, float *values) {
    static const eitp__gguf_packing high = {2, 1, 2, 4}, low = {4, 1, 4, 0};
    const float scale = eitp__gguf_f16(block);
    unsigned char codes[256] = EITP__ZERO, scales[8] = EITP__ZERO;
    eitp__gguf_unpack(high, block + 2, scales);
    eitp__gguf_unpack(low, block + 4, scales);
    eitp__gguf_unpack(eitp__gguf_pack_iq4_xs, block + 8, codes);
    for (int g = 0; g < 8; g++)
        eitp__gguf_look_up(codes + 32 * g, 32, eitp__gguf_iq4_values, scale * (float)(scales[g] - 32), values + 32 * g);
}

/* ---- The table ---- */

static const eitp__gguf_type eitp__gguf_types[] = {
    {"F32", 0, 1, 4, eitp__gguf_widen_f32, eitp__gguf_round_f32},
    {"F16", 1, 1, 2, eitp__gguf_widen_f16, eitp__gguf_round_f16},
    {"Q4_0", 2, 32, 18, eitp__gguf_widen_q4_0, eitp__gguf_round_q4_0},
    {"Q4_1", 3, 32, 20, eitp__gguf_widen_q4_1, eitp__gguf_round_q4_1},
    {"Q5_0", 6, 32, 22, eitp__gguf_widen_q5_0, eitp__gguf_round_q5_0},
    {"Q5_1", 7, 32, 24, eitp__gguf_widen_q5_1, eitp__gguf_round_q5_1},
    {"Q8_0", 8, 32, 34, eitp__gguf_widen_q8_0, eitp__gguf_round_q8_0},
    {"Q8_1", 9, 32, 36, NULL, NULL},
    {"Q2_K", 10, 256, 84, eitp__gguf_widen_q2_k, NULL},
    {"Q3_K", 11, 256, 110, eitp__gguf_widen_q3_k, NULL},
    {"Q4_K", 12, 256, 144, eitp__gguf_widen_q4_k, eitp__gguf_round_q4_k},
    {"Q5_K", 13, 256, 176, eitp__gguf_widen_q5_k, eitp__gguf_round_q5_k},
    {"Q6_K", 14, 256, 210, eitp__gguf_widen_q6_k, eitp__gguf_round_q6_k},
    {"Q8_K", 15, 256, 292, NULL, NULL},
    {"IQ2_XXS", 16, 256, 66, NULL, NULL},
    {"IQ2_XS", 17, 256, 74, NULL, NULL},
    {"IQ3_XXS", 18, 256, 98, NULL, NULL},
    {"IQ1_S", 19, 256, 50, NULL, NULL},
    {"IQ4_NL", 20, 32, 18, eitp__gguf_widen_iq4_nl, NULL},
    {"IQ3_S", 21, 256, 110, NULL, NULL},
    {"IQ2_S", 22, 256, 82, NULL, NULL},
    {"IQ4_XS", 23, 256, 136, eitp__gguf_widen_iq4_xs, NULL},
    {"I8", 24, 1, 1, NULL, NULL},
    {"I16", 25, 1, 2, NULL, NULL},
    {"I32", 26, 1, 4, NULL, NULL},
    {"I64", 27, 1, 8, NULL, NULL},
    {"F64", 28, 1, 8, NULL, NULL},
    {"IQ1_M", 29, 256, 56, NULL, NULL},
    {"BF16", 30, 1, 2, eitp__gguf_widen_bf16, eitp__gguf_round_bf16},
    {"TQ1_0", 34, 256, 54, NULL, NULL},
    {"TQ2_0", 35, 256, 66, NULL, NULL},
    {"MXFP4", 39, 32, 17, eitp__gguf_widen_mxfp4, NULL},
    {"NVFP4", 40, 64, 36, NULL, NULL},
    {"Q1_0", 41, 128, 18, NULL, NULL},
    {"Q2_0", 42, 64, 18, NULL, NULL},
};

EITP__PRIVATE const eitp__gguf_type *eitp__gguf_type_find(uint32_t number) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_types); i++)
        if (eitp__gguf_types[i].number == number)
            return &eitp__gguf_types[i];
    return NULL;
}

EITP__PRIVATE const eitp__gguf_type *eitp__gguf_type_named(const char *name) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_types); i++)
        if (eitp__equals_ignoring_case(name, strlen(name), eitp__gguf_types[i].name))
            return &eitp__gguf_types[i];
    return NULL;
}
