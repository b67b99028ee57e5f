/*
 * Kernels that move elements without computing. They depend only on the size of elements, so they support every dtype.
 */
#include "kernels/ref/ref.h"

/* Returns the product of the extents of the dimensions after `dimension`. */
static int64_t eitp__ref_inner(const eitp__operand *x, int64_t dimension) {
    int64_t inner = 1;
    for (int64_t d = dimension + 1; d < x->rank; d++)
        inner *= x->shape[d];
    return inner;
}

/* Elements are moved as integers of their size, regardless of their type. */
typedef uint8_t eitp__ref_unit_1 __attribute__((may_alias));
typedef uint16_t eitp__ref_unit_2 __attribute__((may_alias));
typedef uint32_t eitp__ref_unit_4 __attribute__((may_alias));
typedef uint64_t eitp__ref_unit_8 __attribute__((may_alias));

#define EITP__UNIT eitp__ref_unit_1
#define EITP__MOVE(name) eitp__ref_##name##_1
#include "kernels/ref/movement.inc"
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_2
#define EITP__MOVE(name) eitp__ref_##name##_2
#include "kernels/ref/movement.inc"
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_4
#define EITP__MOVE(name) eitp__ref_##name##_4
#include "kernels/ref/movement.inc"
#undef EITP__UNIT
#undef EITP__MOVE

#define EITP__UNIT eitp__ref_unit_8
#define EITP__MOVE(name) eitp__ref_##name##_8
#include "kernels/ref/movement.inc"
#undef EITP__UNIT
#undef EITP__MOVE

static void eitp__ref_strided(const eitp__call *call, const eitp__ref_grid *grid, int64_t start, int64_t begin,
                              int64_t end) {
    switch (eitp_dtype_size(call->outputs[0].dtype)) {
    case 1:
        eitp__ref_strided_1(call, grid, start, begin, end);
        break;
    case 2:
        eitp__ref_strided_2(call, grid, start, begin, end);
        break;
    case 4:
        eitp__ref_strided_4(call, grid, start, begin, end);
        break;
    default:
        eitp__ref_strided_8(call, grid, start, begin, end);
    }
}

static void eitp__ref_broadcast(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__ref_grid grid = eitp__ref_broadcast_grid(call);
    (void)workspace;
    eitp__ref_strided(call, &grid, 0, begin, end);
}

/* Computes the strides of x in elements. */
static void eitp__ref_strides(const eitp__operand *x, int64_t strides[EITP_MAX_RANK]) {
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= x->shape[d];
    }
}

static void eitp__ref_permute(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK], steps[3] = {0, 0, 0};
    eitp__ref_grid grid;
    (void)workspace;
    eitp__ref_strides(&call->inputs[0], strides);
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++) {
        steps[0] = strides[call->integers[d]];
        eitp__ref_grid_add(&grid, y->shape[d], steps);
    }
    eitp__ref_strided(call, &grid, 0, begin, end);
}

static void eitp__ref_slice(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK], steps[3] = {0, 0, 0}, start = 0;
    eitp__ref_grid grid;
    (void)workspace;
    eitp__ref_strides(&call->inputs[0], strides);
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++) {
        start += call->integers[d] * strides[d];
        steps[0] = strides[d];
        eitp__ref_grid_add(&grid, y->shape[d], steps);
    }
    eitp__ref_strided(call, &grid, start, begin, end);
}

/*
 * y = carry * y + x for `count` elements of one type. If x is NULL, it counts as zeros. If carry is 0, y is not read.
 */
#define EITP__REF_ADD_CARRIED(suffix, element, real, get, put)                                                         \
    static void eitp__ref_add_carried_##suffix(void *y, const void *x, int64_t count, float carry) {                   \
        element *to = (element *)y;                                                                                    \
        const element *from = (const element *)x;                                                                      \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = put((real)carry * get(to[i]) + (from ? get(from[i]) : 0));                                         \
    }
#define EITP__REF_SAME(x) (x)
EITP__REF_ADD_CARRIED(f64, double, double, EITP__REF_SAME, EITP__REF_SAME)
EITP__REF_ADD_CARRIED(f32, float, float, EITP__REF_SAME, EITP__REF_SAME)
EITP__REF_ADD_CARRIED(bf16, uint16_t, float, eitp__bf16_to_f32, eitp__f32_to_bf16)
EITP__REF_ADD_CARRIED(f16, uint16_t, float, eitp__f16_to_f32, eitp__f32_to_f16)
#undef EITP__REF_SAME
#undef EITP__REF_ADD_CARRIED

static void eitp__ref_pad_run(eitp_dtype dtype, void *y, const void *x, int64_t count, float carry) {
    size_t bytes = (size_t)count * eitp_dtype_size(dtype);
    if (carry == 0.0f && x)
        memcpy(y, x, bytes);
    else if (carry == 0.0f)
        memset(y, 0, bytes);
    else if (!x && carry == 1.0f)
        return;
    else if (dtype == EITP_F64)
        eitp__ref_add_carried_f64(y, x, count, carry);
    else if (dtype == EITP_F32)
        eitp__ref_add_carried_f32(y, x, count, carry);
    else if (dtype == EITP_BF16)
        eitp__ref_add_carried_bf16(y, x, count, carry);
    else
        eitp__ref_add_carried_f16(y, x, count, carry);
}

/*
 * Fills the output row by row: zeros, the row of x, zeros. A row spans the last padded dimension and all dimensions
 * after it.
 */
static void eitp__ref_pad(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t size = (int64_t)eitp_dtype_size(y->dtype), strides[EITP_MAX_RANK], last = y->rank - 1;
    int64_t inner, row, before, filled;
    const char *from = (const char *)x->data;
    char *to = (char *)y->data;
    float carry = eitp__ref_carry(call);
    (void)workspace;
    while (last > 0 && x->shape[last] == y->shape[last])
        last--;
    inner = last >= 0 ? eitp__ref_inner(y, last) : 1;
    row = last >= 0 ? y->shape[last] * inner : 1;
    before = last >= 0 ? call->integers[last] * inner : 0;
    filled = last >= 0 ? x->shape[last] * inner : 1;
    eitp__ref_strides(x, strides);
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t rest = i / row, start = rest * row, source = 0, inside = 1, first, stop;
        next = eitp__ref_min(end, start + row);
        for (int64_t d = last - 1; d >= 0; d--) {
            int64_t index = rest % y->shape[d] - call->integers[d];
            inside = inside && index >= 0 && index < x->shape[d];
            source += index * strides[d];
            rest /= y->shape[d];
        }
        /* [first, stop) is the part of [i, next) that comes from x. */
        first = start + before > i ? start + before : i;
        stop = eitp__ref_min(start + before + filled, next);
        if (!inside || first >= stop) {
            eitp__ref_pad_run(y->dtype, to + i * size, NULL, next - i, carry);
            continue;
        }
        eitp__ref_pad_run(y->dtype, to + i * size, NULL, first - i, carry);
        eitp__ref_pad_run(y->dtype, to + first * size, from + (source + first - start - before) * size, stop - first,
                          carry);
        eitp__ref_pad_run(y->dtype, to + stop * size, NULL, next - stop, carry);
    }
}

static void eitp__ref_concat(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    const eitp__operand *y = &call->outputs[0];
    int64_t size = (int64_t)eitp_dtype_size(y->dtype), axis = call->integers[0], inner = eitp__ref_inner(y, axis);
    int64_t row = y->shape[axis] * inner;
    (void)workspace;
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t outer = i / row, column = i % row, width;
        int which = 0;
        for (; column >= call->inputs[which].shape[axis] * inner; which++)
            column -= call->inputs[which].shape[axis] * inner;
        width = call->inputs[which].shape[axis] * inner;
        count = eitp__ref_min(end - i, width - column);
        memcpy((char *)y->data + i * size, (const char *)call->inputs[which].data + (outer * width + column) * size,
               (size_t)(count * size));
    }
}

/* Defines a kernel that calls the function for the element's size. */
#define EITP__REF_BY_SIZE(name)                                                                                        \
    static void eitp__ref_##name(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                \
        (void)workspace;                                                                                               \
        switch (eitp_dtype_size(call->outputs[0].dtype)) {                                                             \
        case 1:                                                                                                        \
            eitp__ref_##name##_1(call, begin, end);                                                                    \
            break;                                                                                                     \
        case 2:                                                                                                        \
            eitp__ref_##name##_2(call, begin, end);                                                                    \
            break;                                                                                                     \
        case 4:                                                                                                        \
            eitp__ref_##name##_4(call, begin, end);                                                                    \
            break;                                                                                                     \
        default:                                                                                                       \
            eitp__ref_##name##_8(call, begin, end);                                                                    \
        }                                                                                                              \
    }

EITP__REF_BY_SIZE(where)
EITP__REF_BY_SIZE(gather)

#undef EITP__REF_BY_SIZE

EITP__PRIVATE void eitp__register_ref_movement(eitp__kernel_table *table) {
    for (int i = 0; i < EITP_DTYPE_COUNT; i++) {
        eitp_dtype dtype = (eitp_dtype)i;
        eitp__ref_register(table, EITP__SLOT_WHERE, dtype, eitp__ref_where);
        eitp__ref_register(table, EITP__SLOT_BROADCAST, dtype, eitp__ref_broadcast);
        eitp__ref_register(table, EITP__SLOT_PERMUTE, dtype, eitp__ref_permute);
        eitp__ref_register(table, EITP__SLOT_SLICE, dtype, eitp__ref_slice);
        eitp__ref_register(table, EITP__SLOT_PAD, dtype, eitp__ref_pad);
        eitp__ref_register(table, EITP__SLOT_CONCAT, dtype, eitp__ref_concat);
        eitp__ref_register(table, EITP__SLOT_GATHER, dtype, eitp__ref_gather);
    }
}
