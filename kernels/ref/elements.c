/* Elementwise kernels, reductions and scatter-add, for F32 and F64. */
#include "kernels/ref/ref.h"

/* The kept and the reduced dimensions of input 0 of a reduction. */
typedef struct eitp__ref_reduction {
    eitp__ref_grid kept, reduced;
    int64_t terms; /* number of input elements per output element */
    int by_rows;   /* the last dimension is reduced */
} eitp__ref_reduction;

static eitp__ref_reduction eitp__ref_reduction_of(const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0];
    int64_t strides[EITP_MAX_RANK][3], stride = 1;
    eitp__ref_reduction reduction;
    memset(strides, 0, sizeof strides);
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d][0] = stride;
        stride *= x->shape[d];
    }
    eitp__ref_grid_start(&reduction.kept);
    eitp__ref_grid_start(&reduction.reduced);
    reduction.terms = 1;
    for (int d = 0; d < x->rank; d++) {
        int is_reduced = (int)(call->integers[0] >> d & 1);
        eitp__ref_grid_add(is_reduced ? &reduction.reduced : &reduction.kept, x->shape[d], strides[d]);
        reduction.terms *= is_reduced ? x->shape[d] : 1;
    }
    reduction.by_rows = reduction.reduced.stride[0][reduction.reduced.rank - 1] == 1;
    return reduction;
}

EITP__REF_BINARY(eitp__ref_less_i32, eitp__ref_less_span_i32, int32_t, uint8_t, (uint8_t)(a < b))
EITP__REF_BINARY(eitp__ref_equal_i32, eitp__ref_equal_span_i32, int32_t, uint8_t, (uint8_t)(a == b))

/* Template instances. EITP__REAL is the type of the arithmetic; EITP__REF names a function of the instance. */
#define EITP__REAL double
#define EITP__REF(name) eitp__ref_##name##_f64
#define EITP__REF_MATH(name) name
#define EITP__REF_SHARED static
#include "kernels/ref/elementwise.inc"
#include "kernels/ref/reduce.inc"
#include "kernels/ref/scatter.inc"

#undef EITP__REAL
#undef EITP__REF
#undef EITP__REF_MATH
#undef EITP__REF_SHARED

#define EITP__REAL float
#define EITP__REF(name) eitp__ref_##name##_f32
#define EITP__REF_MATH(name) name##f
#define EITP__REF_SHARED EITP__PRIVATE
#include "kernels/ref/elementwise.inc"
#include "kernels/ref/reduce.inc"
#include "kernels/ref/scatter.inc"

#undef EITP__REAL
#undef EITP__REF
#undef EITP__REF_MATH
#undef EITP__REF_SHARED

/* Slots and their function names. The 16-bit columns use the F32 kernel (eitp__run_narrow). */
#define EITP__REF_ELEMENTS(X)                                                                                          \
    X(NEGATE, negate)                                                                                                  \
    X(ABS, abs)                                                                                                        \
    X(EXP, exp)                                                                                                        \
    X(LOG, log)                                                                                                        \
    X(SQRT, sqrt)                                                                                                      \
    X(RSQRT, rsqrt)                                                                                                    \
    X(SIN, sin)                                                                                                        \
    X(COS, cos)                                                                                                        \
    X(TANH, tanh)                                                                                                      \
    X(SIGMOID, sigmoid)                                                                                                \
    X(RELU, relu)                                                                                                      \
    X(ERF, erf)                                                                                                        \
    X(AFFINE, affine)                                                                                                  \
    X(CLAMP, clamp)                                                                                                    \
    X(ADD, add)                                                                                                        \
    X(SUBTRACT, subtract)                                                                                              \
    X(MULTIPLY, multiply)                                                                                              \
    X(DIVIDE, divide)                                                                                                  \
    X(MINIMUM, minimum)                                                                                                \
    X(MAXIMUM, maximum)                                                                                                \
    X(LESS, less)                                                                                                      \
    X(EQUAL, equal)                                                                                                    \
    X(ACCUMULATE, accumulate)                                                                                          \
    X(ROW_PRODUCTS, row_products)

/* Like the above, for F32 functions that convert 16-bit operands themselves. */
#define EITP__REF_REDUCTIONS(X)                                                                                        \
    X(SUM, sum)                                                                                                        \
    X(MAX, max)                                                                                                        \
    X(ARGMAX, argmax)                                                                                                  \
    X(SUM_SQUARES, sum_squares)                                                                                        \
    X(ROW_SQUARES, row_squares)                                                                                        \
    X(COLUMN_SQUARES, column_squares)                                                                                  \
    X(COLUMN_PRODUCTS, column_products)                                                                                \
    X(DROPOUT, dropout)

static const eitp__wide_kernel eitp__ref_elements_kernels[] = {
#define EITP__REF_ENTRY(slot, name) {EITP__SLOT_##slot, eitp__ref_##name##_f32},
    EITP__REF_ELEMENTS(EITP__REF_ENTRY)
#undef EITP__REF_ENTRY
};

static const eitp__narrow_set eitp__ref_elements_set = {
    eitp__ref_elements_kernels, EITP__COUNT(eitp__ref_elements_kernels), eitp__convert_to_f32, eitp__convert_from_f32};

static void eitp__ref_elements_narrow(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {
    eitp__run_narrow(&eitp__ref_elements_set, call, begin, end, workspace);
}

EITP__PRIVATE void eitp__register_ref_elements(eitp__kernel_table *table) {
    eitp__register_narrow(table, &eitp__ref_elements_set, "ref", eitp__ref_elements_narrow);
#define EITP__REF_REGISTER(slot, name) eitp__ref_register_converting(table, EITP__SLOT_##slot, eitp__ref_##name##_f32);
    EITP__REF_REDUCTIONS(EITP__REF_REGISTER)
#undef EITP__REF_REGISTER
#define EITP__REF_REGISTER(slot, name) eitp__ref_register(table, EITP__SLOT_##slot, EITP_F64, eitp__ref_##name##_f64);
    EITP__REF_ELEMENTS(EITP__REF_REGISTER)
    EITP__REF_REDUCTIONS(EITP__REF_REGISTER)
#undef EITP__REF_REGISTER
    eitp__ref_register(table, EITP__SLOT_SCATTER_ADD, EITP_F64, eitp__ref_scatter_add_f64);
    eitp__ref_register(table, EITP__SLOT_SCATTER_ADD, EITP_F32, eitp__ref_scatter_add_f32);
    eitp__ref_register(table, EITP__SLOT_LESS, EITP_I32, eitp__ref_less_i32);
    eitp__ref_register(table, EITP__SLOT_EQUAL, EITP_I32, eitp__ref_equal_i32);
}
