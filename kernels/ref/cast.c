/* Conversions between element types, and arrays filled with a number or an index: CAST, FILL, ARANGE. */
#include "kernels/ref/ref.h"

#define EITP__REF_INTEGERS(X)                                                                                          \
    X(EITP_I64, int64_t, INT64_MIN, INT64_MAX)                                                                         \
    X(EITP_I32, int32_t, INT32_MIN, INT32_MAX)                                                                         \
    X(EITP_I16, int16_t, INT16_MIN, INT16_MAX)                                                                         \
    X(EITP_I8, int8_t, INT8_MIN, INT8_MAX)                                                                             \
    X(EITP_U8, uint8_t, 0, UINT8_MAX)

/* Number of elements converted at a time: through double, or from integers through int64_t. Both are exact. */
enum { EITP__REF_CAST_BLOCK = 256 };

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
            to[i] = (double)eitp__bf16_to_f32(((const uint16_t *)x->data)[first + i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)eitp__f16_to_f32(((const uint16_t *)x->data)[first + i]);
}

static void eitp__ref_load_integers(const eitp__operand *x, int64_t first, int64_t count, int64_t *to) {
#define EITP__REF_LOAD(code, type, low, high)                                                                          \
    if (x->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = (int64_t)((const type *)x->data)[first + i];
    EITP__REF_INTEGERS(EITP__REF_LOAD)
#undef EITP__REF_LOAD
}

/* Rounds towards zero. Saturates at the limits. NaN becomes 0. */
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
            ((uint16_t *)y->data)[first + i] = eitp__f32_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__f32_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)eitp__ref_whole(from[i], low, high);
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

/* Integers that are too large keep their low bits. */
static void eitp__ref_store_integers(const eitp__operand *y, int64_t first, int64_t count, const int64_t *from) {
    if (y->dtype == EITP_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)y->data)[first + i] = (float)from[i];
    if (y->dtype == EITP_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)y->data)[first + i] = (double)from[i];
    if (y->dtype == EITP_BF16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__f32_to_bf16((float)from[i]);
    if (y->dtype == EITP_F16)
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y->data)[first + i] = eitp__f32_to_f16((float)from[i]);
#define EITP__REF_STORE(code, type, low, high)                                                                         \
    if (y->dtype == code)                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            ((type *)y->data)[first + i] = (type)from[i];
    EITP__REF_INTEGERS(EITP__REF_STORE)
#undef EITP__REF_STORE
}

EITP__PRIVATE void eitp__ref_cast(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    double reals[EITP__REF_CAST_BLOCK];
    int64_t integers[EITP__REF_CAST_BLOCK];
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        count = eitp__ref_min(end - i, EITP__REF_CAST_BLOCK);
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
        count = eitp__ref_min(end - i, EITP__REF_CAST_BLOCK);
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
    /* Copies the filled part to the space after it, in pieces that stay in the L1 cache. */
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
