/* Conversions between the element types, and arrays that are made from a number: FILL, ARANGE, CAST. */
#include "kernels/ref/ref.h"

#define EITP__REF_INTEGERS(X)                                                                                          \
    X(EITP_I64, int64_t, INT64_MIN, INT64_MAX)                                                                         \
    X(EITP_I32, int32_t, INT32_MIN, INT32_MAX)                                                                         \
    X(EITP_I8, int8_t, INT8_MIN, INT8_MAX)                                                                             \
    X(EITP_U8, uint8_t, 0, UINT8_MAX)

/* Values are converted this many at a time: through double or, from integers, int64_t, which lose nothing of them. */
enum { EITP__REF_CAST_BLOCK = 256 };

static float eitp__ref_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t eitp__ref_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float eitp__ref_from_bf16(uint16_t bits) {
    return eitp__ref_float_of((uint32_t)bits << 16);
}

/* To the nearest, of two the even one; a NaN keeps its sign and what there is room for, and is quiet. */
static uint16_t eitp__ref_to_bf16(float value) {
    uint32_t bits = eitp__ref_bits_of(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float eitp__ref_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 31)
        return eitp__ref_float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        float value = (float)fraction * (1.0f / 16777216.0f);
        return sign ? -value : value;
    }
    return eitp__ref_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

static uint16_t eitp__ref_to_f16(float value) {
    uint32_t bits = eitp__ref_bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (size >> 13 & 1023u));
    if (size >= 0x477ff000u) /* 65520 is halfway beyond the largest, 65504 */
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) /* below the smallest normal one; floats in [1/2, 1) are as far apart as these values */
        return (uint16_t)(sign | (eitp__ref_bits_of(eitp__ref_float_of(size) + 0.5f) - eitp__ref_bits_of(0.5f)));
    return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}

static int eitp__ref_is_real(eitp_dtype dtype) {
    return dtype == EITP_F32 || dtype == EITP_F64 || dtype == EITP_BF16 || dtype == EITP_F16;
}

static void eitp__ref_load_reals(const eitp__operand *x, int64_t first, int64_t count, double *to) {
    if (x->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)((const float *)x->data)[first + i];
    else if (x->dtype == EITP_F64)
        memcpy(to, (const double *)x->data + first, (size_t)count * sizeof *to);
    else if (x->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)eitp__ref_from_bf16(((const uint16_t *)x->data)[first + i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)eitp__ref_from_f16(((const uint16_t *)x->data)[first + i]);
}

static void eitp__ref_load_integers(const eitp__operand *x, int64_t first, int64_t count, int64_t *to) {
#define EITP__REF_LOAD(code, type, low, high)                                                                          \
    if (x->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = (int64_t)((const type *)x->data)[first + i];
    EITP__REF_INTEGERS(EITP__REF_LOAD)
#undef EITP__REF_LOAD
}

/* Rounded towards zero; what is too large becomes the largest, what is not a number 0. */
static int64_t eitp__ref_whole(double value, int64_t low, int64_t high) {
    if (value != value)
        return 0;
    if (value <= (double)low)
        return low;
    return value >= (double)high ? high : (int64_t)value;
}

static void eitp__ref_store_reals(const eitp__operand *y, int64_t first, int64_t count, const double *from) {
    if (y->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)y->data)[first + i] = (float)from[i];
    if (y->dtype == EITP_F64)
        memcpy((double *)y->data + first, from, (size_t)count * sizeof *from);
    if (y->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)eitp__ref_whole(from[i], low, high);
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

/* Of an integer that is too large the low bits are kept. */
static void eitp__ref_store_integers(const eitp__operand *y, int64_t first, int64_t count, const int64_t *from) {
    if (y->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)y->data)[first + i] = (float)from[i];
    if (y->dtype == EITP_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)y->data)[first + i] = (double)from[i];
    if (y->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__ref_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)from[i];
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

static void eitp__ref_cast(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    double reals[EITP__REF_CAST_BLOCK];
    int64_t integers[EITP__REF_CAST_BLOCK];
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        count = eitp__ref_smaller(end - i, EITP__REF_CAST_BLOCK);
        if (eitp__ref_is_real(x->dtype)) {
            eitp__ref_load_reals(x, i, count, reals);
            eitp__ref_store_reals(y, i, count, reals);
        } else {
            eitp__ref_load_integers(x, i, count, integers);
            eitp__ref_store_integers(y, i, count, integers);
        }
    }
}

static void eitp__ref_arange(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    int64_t integers[EITP__REF_CAST_BLOCK];
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        count = eitp__ref_smaller(end - i, EITP__REF_CAST_BLOCK);
        for (int64_t j = 0; j < count; j++)
            integers[j] = i + j;
        eitp__ref_store_integers(&call->outputs[0], i, count, integers);
    }
}

static void eitp__ref_fill(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    size_t size = eitp_dtype_size(y->dtype), bytes = (size_t)(end - begin) * size, done = size;
    char *to = (char *)y->data + (size_t)begin * size;
    (void)workspace;
    if (begin >= end)
        return;
    eitp__ref_store_reals(y, begin, 1, &call->reals[0]);
    /* What is filled is copied behind itself, in pieces that stay in the nearest cache. */
    while (done < bytes) {
        size_t piece = done < 4096 ? done : 4096;
        piece = piece < bytes - done ? piece : bytes - done;
        memcpy(to + done, to, piece);
        done += piece;
    }
}

EITP__PRIVATE void eitp__register_ref_casts(eitp__kernel_table *table) {
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
        eitp__ref_register(table, EITP__SLOT_FILL, (eitp_dtype)dtype, eitp__ref_fill);
        eitp__ref_register(table, EITP__SLOT_ARANGE, (eitp_dtype)dtype, eitp__ref_arange);
        eitp__ref_register(table, EITP__SLOT_CAST, (eitp_dtype)dtype, eitp__ref_cast);
    }
}
