/* Shared by the ref kernels: registration, and loops over operands with strides. */
#ifndef EITP_REF_H
#define EITP_REF_H

#include "kernels/narrow.h"
#include "kernels/spans.h"

/*
 * Parts of eitp__register_ref_kernels. The fused slots in network.c, loss.c and path.c have no F64 kernels. F64 runs
 * their expansion instead, and tests compare the fused kernels with it.
 */
EITP__PRIVATE void eitp__register_ref_casts(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_movement(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_elements(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_network(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_loss(eitp__kernel_table *table);
EITP__PRIVATE void eitp__register_ref_path(eitp__kernel_table *table);

/*
 * Returns `count` elements of x from element `first`, with stride `step`: in place, or as F32 in the tile. x is F32,
 * BF16 or F16.
 */
EITP__PRIVATE const float *eitp__ref_view_f32(const eitp__operand *x, int64_t first, int64_t step, int64_t count,
                                              float *tile);

/* Stores elements of y, which is F32, BF16 or F16, starting at element `first`. */
EITP__PRIVATE void eitp__ref_put_f32(const eitp__operand *y, int64_t first, int64_t count, const float *from);

/* Return the sum of `count` adjacent elements of x, and the sum of their squares. x is F32, BF16 or F16. */
EITP__PRIVATE double eitp__ref_span_sum_f32(const eitp__operand *x, int64_t first, int64_t count);
EITP__PRIVATE double eitp__ref_span_squares_f32(const eitp__operand *x, int64_t first, int64_t count);

/* Return the largest x, and log(sum(e^(x - largest))). The log-sum-exp of x is the sum of the two. */
EITP__PRIVATE float eitp__ref_row_largest(const float *x, int64_t count);
EITP__PRIVATE double eitp__ref_log_sum_exp(const float *x, int64_t count, float *largest);

static inline EITP__UNUSED void eitp__ref_register(eitp__kernel_table *table, eitp__slot slot, eitp_dtype dtype,
                                                   eitp__kernel_function run) {
    eitp__kernel kernel = EITP__ZERO;
    kernel.run = run;
    kernel.set = "ref";
    table->kernels[slot][dtype] = kernel;
}

/* Registers an F32 kernel that also reads and writes BF16 and F16. */
static inline EITP__UNUSED void eitp__ref_register_converting(eitp__kernel_table *table, eitp__slot slot,
                                                              eitp__kernel_function run) {
    eitp__ref_register(table, slot, EITP_F32, run);
    eitp__ref_register(table, slot, EITP_BF16, run);
    eitp__ref_register(table, slot, EITP_F16, run);
}

static inline EITP__UNUSED int64_t eitp__ref_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the factor of the old output before a result is added; 0 if the output is overwritten. */
static inline EITP__UNUSED float eitp__ref_carry(const eitp__call *call) {
    return !call->accumulates ? 0.0f : call->carry ? call->carry[0] : 1.0f;
}

/* Number of elements converted at a time. */
enum { EITP__REF_TILE = 256 };

/* Dimensions of a result, and the strides of up to three operands in them (0: repeated). */
typedef struct eitp__ref_grid {
    int rank; /* at least 1 */
    int64_t size[EITP_MAX_RANK];
    int64_t stride[3][EITP_MAX_RANK];
} eitp__ref_grid;

static inline EITP__UNUSED void eitp__ref_grid_start(eitp__ref_grid *grid) {
    grid->rank = 1;
    grid->size[0] = 1;
    grid->stride[0][0] = grid->stride[1][0] = grid->stride[2][0] = 0;
}

/* Adds an inner dimension. Merges adjacent dimensions that are contiguous in all operands. */
static inline EITP__UNUSED void eitp__ref_grid_add(eitp__ref_grid *grid, int64_t size, const int64_t stride[3]) {
    int last = grid->rank - 1, joins = 1;
    if (size == 1)
        return;
    for (int i = 0; i < 3; i++)
        joins = joins && grid->stride[i][last] == stride[i] * size;
    if (!joins && grid->size[last] != 1)
        last = grid->rank++;
    grid->size[last] = grid->size[last] == 1 || !joins ? size : grid->size[last] * size;
    for (int i = 0; i < 3; i++)
        grid->stride[i][last] = stride[i];
}

/* Returns the grid of output 0 for inputs that broadcast to it. The last stride of an input is 0 or 1. */
static inline EITP__UNUSED eitp__ref_grid eitp__ref_broadcast_grid(const eitp__call *call) {
    const eitp__operand *y = &call->outputs[0];
    int64_t strides[EITP_MAX_RANK][3];
    eitp__ref_grid grid;
    memset(strides, 0, sizeof strides);
    for (int i = 0; i < call->input_count && i < 3; i++) {
        const eitp__operand *x = &call->inputs[i];
        int64_t stride = 1;
        for (int d = x->rank - 1, to = y->rank - 1; d >= 0 && to >= 0; d--, to--) {
            strides[to][i] = x->shape[d] == 1 ? 0 : stride;
            stride *= x->shape[d];
        }
    }
    eitp__ref_grid_start(&grid);
    for (int d = 0; d < y->rank; d++)
        eitp__ref_grid_add(&grid, y->shape[d], strides[d]);
    return grid;
}

/* A position in a grid. It advances by spans, which are parts of the last dimension. */
typedef struct eitp__ref_walk {
    int64_t index[EITP_MAX_RANK];
    int64_t offset[3];
} eitp__ref_walk;

static inline EITP__UNUSED eitp__ref_walk eitp__ref_walk_from(const eitp__ref_grid *grid, int64_t item) {
    eitp__ref_walk walk = EITP__ZERO;
    for (int d = grid->rank - 1; d >= 0; d--) {
        int64_t size = grid->size[d] ? grid->size[d] : 1;
        walk.index[d] = item % size;
        item /= size;
        for (int i = 0; i < 3; i++)
            walk.offset[i] += walk.index[d] * grid->stride[i][d];
    }
    return walk;
}

/* Returns how many of the next `count` items are in the current span. */
static inline EITP__UNUSED int64_t eitp__ref_walk_span(const eitp__ref_grid *grid, const eitp__ref_walk *walk,
                                                       int64_t count) {
    int last = grid->rank - 1;
    return eitp__ref_min(count, grid->size[last] - walk->index[last]);
}

static inline EITP__UNUSED void eitp__ref_walk_advance(const eitp__ref_grid *grid, eitp__ref_walk *walk,
                                                       int64_t items) {
    int d = grid->rank - 1;
    walk->index[d] += items;
    for (int i = 0; i < 3; i++)
        walk->offset[i] += items * grid->stride[i][d];
    for (; d > 0 && walk->index[d] == grid->size[d]; d--) {
        walk->index[d] = 0;
        walk->index[d - 1]++;
        for (int i = 0; i < 3; i++)
            walk->offset[i] += grid->stride[i][d - 1] - grid->size[d] * grid->stride[i][d];
    }
}

/*
 * Defines a kernel for operands `a` and `b` that broadcast. The result may overwrite an operand of its shape.
 * `expression` computes one element of the result.
 */
#define EITP__REF_BINARY(function, span, element, result, expression)                                                  \
    static void span(const void *a_data, int a_advances, const void *b_data, int b_advances, void *y_data,             \
                     int64_t count) {                                                                                  \
        const element *p = (const element *)a_data, *q = (const element *)b_data;                                      \
        result *y = (result *)y_data;                                                                                  \
        for (int64_t j = 0; j < count; j++, p += a_advances, q += b_advances) {                                        \
            element a = *p, b = *q;                                                                                    \
            y[j] = expression;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void function(const eitp__call *call, int64_t begin, int64_t end, void *workspace) {                        \
        (void)workspace;                                                                                               \
        eitp__run_binary(call, begin, end, span);                                                                      \
    }

#endif
