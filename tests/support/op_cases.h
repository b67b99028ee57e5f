/* A case for every computing op: a graph, and the expected values computed by tests/support/naive.h where it can. */
#ifndef EITP_TEST_OP_CASES_H
#define EITP_TEST_OP_CASES_H

#include "tests/support/naive.h"

enum {
    HAS_GRADIENT = 1, /* with respect to every floating-point leaf */
    HAS_SECOND = 2    /* a fused gradient, or an op whose second derivative needs a separate test */
};

typedef struct op_case {
    const char *name;
    void (*make)(build *b);
    double tolerance; /* NMSE of F32; 0: equal values */
    int flags;
} op_case;

/* ---- Element by element ---- */

static eitp_tensor *case_matrix(build *b, double low, double high) {
    b->low = low;
    b->high = high;
    return b->small ? real2(b, 3, 5) : real2(b, 129, 257);
}

#define UNARY_CASE(name, low, high, formula)                                                                           \
    static double formula_##name(double x) {                                                                           \
        return formula;                                                                                                \
    }                                                                                                                  \
    static void case_##name(build *b) {                                                                                \
        eitp_tensor *x = case_matrix(b, low, high);                                                                    \
        put_like(b, eitp_##name(x), naive_map(b, values_of(b, x), formula_##name));                                    \
    }

UNARY_CASE(negate, -2, 2, -x)
UNARY_CASE(abs, -2, 2, fabs(x))
UNARY_CASE(exp, -30, 10, exp(x))
UNARY_CASE(log, 0.01, 4, log(x))
UNARY_CASE(sqrt, 0.01, 4, sqrt(x))
UNARY_CASE(rsqrt, 0.01, 4, 1 / sqrt(x))
UNARY_CASE(sin, -20, 20, sin(x))
UNARY_CASE(cos, -20, 20, cos(x))
UNARY_CASE(tanh, -9, 9, tanh(x))
UNARY_CASE(sigmoid, -20, 20, 1 / (1 + exp(-x)))
UNARY_CASE(relu, -2, 2, x > 0 ? x : 0)
UNARY_CASE(erf, -4, 4, erf(x))
UNARY_CASE(gelu_tanh, -6, 6, x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))))
UNARY_CASE(gelu_erf, -6, 6, x / 2 * (1 + erf(x / 1.4142135623730951)))
UNARY_CASE(silu, -20, 20, x / (1 + exp(-x)))

static double formula_affine(double x) {
    return 0.75 * x - 0.25;
}

static void case_affine(build *b) {
    eitp_tensor *x = case_matrix(b, -2, 2);
    put_like(b, eitp_affine(x, 0.75, -0.25), naive_map(b, values_of(b, x), formula_affine));
}

static double formula_clamp(double x) {
    return x < -0.5 ? -0.5 : x > 1 ? 1 : x;
}

static void case_clamp(build *b) {
    eitp_tensor *x = case_matrix(b, -2, 2);
    put_like(b, eitp_clamp(x, -0.5, 1), naive_map(b, values_of(b, x), formula_clamp));
}

static void case_stop_gradient(build *b) {
    eitp_tensor *x = case_matrix(b, -2, 2);
    put_like(b, eitp_stop_gradient(x), values_of(b, x));
}

/* Pairs of shapes that broadcast: equal, one element, rows, columns, both ways, different ranks, six dimensions. */
typedef struct shape_pair {
    int left_rank, right_rank;
    int64_t left[EITP_MAX_RANK], right[EITP_MAX_RANK];
} shape_pair;

static const shape_pair shape_pairs[] = {
    {2, 2, {5, 7}, {5, 7}},
    {2, 1, {4, 9}, {1}},
    {1, 2, {1}, {3, 5}},
    {2, 1, {6, 7}, {7}},
    {2, 2, {6, 1}, {6, 7}},
    {2, 2, {6, 1}, {1, 7}},
    {3, 2, {3, 1, 5}, {4, 1}},
    {1, 4, {3}, {2, 1, 5, 3}},
    {4, 4, {2, 1, 4, 1}, {1, 3, 1, 5}},
    {6, 6, {2, 3, 1, 2, 1, 3}, {1, 3, 2, 1, 2, 3}},
    {6, 3, {2, 1, 2, 3, 2, 3}, {3, 1, 3}},
    {0, 2, {0}, {2, 3}},
    {2, 2, {131, 255}, {131, 255}},
    {2, 2, {131, 255}, {131, 1}},
    {2, 1, {131, 255}, {255}},
};
enum { SHAPE_PAIRS = sizeof shape_pairs / sizeof shape_pairs[0], SMALL_SHAPE_PAIRS = SHAPE_PAIRS - 3 };

static int shape_pair_count(const build *b) {
    return b->small ? SMALL_SHAPE_PAIRS : SHAPE_PAIRS;
}

#define BINARY_CASE(name, formula)                                                                                     \
    static double formula_##name(double p, double q) {                                                                 \
        return formula;                                                                                                \
    }                                                                                                                  \
    static void case_##name(build *b) {                                                                                \
        for (int i = 0; i < shape_pair_count(b); i++) {                                                                \
            const shape_pair *pair = &shape_pairs[i];                                                                  \
            eitp_tensor *p, *q;                                                                                        \
            b->low = 0.5;                                                                                              \
            p = real(b, pair->left_rank, pair->left);                                                                  \
            q = real(b, pair->right_rank, pair->right);                                                                \
            put_like(b, eitp_##name(p, q), naive_zip(b, values_of(b, p), values_of(b, q), formula_##name));            \
        }                                                                                                              \
    }

BINARY_CASE(add, p + q)
BINARY_CASE(subtract, p - q)
BINARY_CASE(multiply, p *q)
BINARY_CASE(divide, p / q)
BINARY_CASE(minimum, p < q ? p : q)
BINARY_CASE(maximum, p > q ? p : q)

/* The operands have many equal values, for eitp_equal and the boundary of eitp_less. */
#define COMPARE_CASE(name, formula)                                                                                    \
    static double formula_##name(double p, double q) {                                                                 \
        return formula;                                                                                                \
    }                                                                                                                  \
    static void case_##name(build *b) {                                                                                \
        for (int i = 0; i < shape_pair_count(b); i++) {                                                                \
            const shape_pair *pair = &shape_pairs[i];                                                                  \
            eitp_tensor *p = integers(b, pair->left_rank, pair->left, -2, 2);                                          \
            eitp_tensor *q = integers(b, pair->right_rank, pair->right, -2, 2);                                        \
            const array *y = naive_zip(b, values_of(b, p), values_of(b, q), formula_##name);                           \
            put_like(b, eitp_##name(eitp_cast(p, b->dtype), eitp_cast(q, b->dtype)), y);                               \
            put_like(b, eitp_##name(p, q), y);                                                                         \
        }                                                                                                              \
    }

COMPARE_CASE(less, p < q)
COMPARE_CASE(equal, p == q)

/* condition * p + (1 - condition) * q, in two steps of naive_zip. */
static double formula_product(double p, double q) {
    return p * q;
}

static double formula_sum(double p, double q) {
    return p + q;
}

static double formula_not(double x) {
    return 1 - x;
}

static void case_where(build *b) {
    for (int i = 0; i < shape_pair_count(b); i++) {
        const shape_pair *pair = &shape_pairs[i];
        eitp_tensor *condition = whole(b, EITP_U8, pair->left_rank, pair->left, 0, 1);
        eitp_tensor *p = real(b, pair->right_rank, pair->right), *q = real1(b, 1);
        const array *chosen = naive_zip(b, values_of(b, condition), values_of(b, p), formula_product), *other;
        other = naive_map(b, values_of(b, condition), formula_not);
        other = naive_zip(b, other, values_of(b, q), formula_product);
        put_like(b, eitp_where(condition, p, q), naive_zip(b, chosen, other, formula_sum));
    }
}

/* ---- Values ---- */

static void case_values(build *b) {
    static const int64_t shape[6] = {2, 1, 3, 2, 1, 2};
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_F64, EITP_BF16, EITP_F16, EITP_I64, EITP_I32, EITP_I8, EITP_U8};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        int64_t count = 100;
        array *y = new_array(b, 6, shape), *z = new_array(b, 1, &count);
        for (int64_t j = 0; j < y->count; j++)
            y->data[j] = 3;
        for (int64_t j = 0; j < count; j++)
            z->data[j] = (double)j;
        put_like(b, eitp_fill(b->graph, dtypes[i], 6, shape, 3), y);
        put_like(b, eitp_arange(b->graph, dtypes[i], count), z);
    }
    put(b, eitp_fill(b->graph, b->dtype, 0, NULL, -0.75));
}

/* ---- Shape ---- */

static void case_reshape(build *b) {
    eitp_tensor *x = b->small ? real3(b, 2, 3, 4) : real3(b, 26, 35, 33);
    const array *from = values_of(b, x);
    int64_t flat[1] = {-1}, four[4] = {1, -1, 1, 2}, none = 0;
    int64_t flat_shape[1], four_shape[4];
    flat_shape[0] = from->count;
    four_shape[0] = four_shape[2] = 1;
    four_shape[1] = from->count / 2;
    four_shape[3] = 2;
    put_like(b, eitp_reshape(x, 1, flat), naive_reshape(b, from, 1, flat_shape));
    put_like(b, eitp_reshape(x, 4, four), naive_reshape(b, from, 4, four_shape));
    x = real1(b, 1);
    put_like(b, eitp_reshape(x, 0, &none), naive_reshape(b, values_of(b, x), 0, &none));
}

static void case_broadcast(build *b) {
    static const struct {
        int from_rank, to_rank;
        int64_t from[EITP_MAX_RANK], to[EITP_MAX_RANK];
    } pairs[] = {
        {1, 1, {1}, {7}},
        {1, 2, {5}, {3, 5}},
        {2, 2, {3, 1}, {3, 6}},
        {2, 4, {3, 1}, {2, 5, 3, 4}},
        {6, 6, {1, 2, 1, 3, 1, 2}, {2, 2, 2, 3, 3, 2}},
        {0, 3, {0}, {2, 3, 2}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        eitp_tensor *x = real(b, pairs[i].from_rank, pairs[i].from);
        put_like(b, eitp_broadcast(x, pairs[i].to_rank, pairs[i].to),
                 naive_broadcast(b, values_of(b, x), pairs[i].to_rank, pairs[i].to));
    }
}

static void case_permute(build *b) {
    static const struct {
        int rank;
        int64_t shape[EITP_MAX_RANK];
        int order[EITP_MAX_RANK];
    } cases[] = {
        {1, {7}, {0}},
        {2, {3, 5}, {1, 0}},
        {3, {2, 3, 4}, {0, 1, 2}},
        {3, {2, 3, 4}, {1, 0, 2}},
        {3, {2, 3, 4}, {0, 2, 1}},
        {3, {2, 3, 4}, {2, 0, 1}},
        {4, {2, 1, 3, 4}, {3, 2, 1, 0}},
        {5, {2, 2, 1, 3, 2}, {0, 3, 2, 1, 4}},
        {6, {2, 3, 1, 2, 2, 2}, {5, 3, 0, 1, 4, 2}},
        {3, {31, 5, 129}, {1, 0, 2}},
        {2, {131, 257}, {1, 0}},
    };
    int count = (int)(sizeof cases / sizeof cases[0]) - (b->small ? 2 : 0);
    for (int i = 0; i < count; i++) {
        eitp_tensor *x = real(b, cases[i].rank, cases[i].shape);
        put_like(b, eitp_permute(x, cases[i].order), naive_permute(b, values_of(b, x), cases[i].order));
        if (cases[i].rank >= 2)
            put_like(b, eitp_transpose(x), naive_swap(b, values_of(b, x)));
    }
}

static void case_slice(build *b) {
    static const int64_t shape[4] = {3, 5, 2, 4};
    eitp_tensor *x = real(b, 4, shape), *large;
    const array *from = values_of(b, x);
    put_like(b, eitp_slice(x, 0, 1, 3), naive_window(b, from, 0, 1, 2));
    put_like(b, eitp_slice(x, 1, 2, 3), naive_window(b, from, 1, 2, 1));
    put_like(b, eitp_slice(x, -1, 0, 3), naive_window(b, from, 3, 0, 3));
    put_like(b, eitp_slice(x, -4, 0, 3), naive_window(b, from, 0, 0, 3));
    put_like(b, eitp_slice(eitp_slice(x, -3, 1, 5), 3, 1, 4), naive_window(b, naive_window(b, from, 1, 1, 4), 3, 1, 3));
    if (b->small)
        return;
    large = real2(b, 200, 180);
    put_like(b, eitp_slice(large, 1, 7, 150), naive_window(b, values_of(b, large), 1, 7, 143));
}

/* Every start, end and step of a dimension of 5 and of one of 6; other dimensions; rank 6. */
static void case_slice_step(build *b) {
    static const int64_t shape[6] = {3, 2, 5, 2, 6, 2};
    eitp_tensor *x = real(b, 6, shape), *row = real1(b, b->small ? 5 : 6);
    const array *from = values_of(b, x), *numbers = values_of(b, row);
    int64_t extent = numbers->count;
    for (int64_t begin = 0; begin < extent - 2; begin++)
        for (int64_t end = begin + 3; end <= extent; end++)
            for (int64_t step = 1; step <= 3; step++)
                put_like(b, eitp_slice_step(row, 0, begin, end, step),
                         naive_steps(b, numbers, 0, begin, (end - begin + step - 1) / step, step));
    put_like(b, eitp_slice_step(x, 0, 0, 3, 2), naive_steps(b, from, 0, 0, 2, 2));
    put_like(b, eitp_slice_step(x, 2, 1, 5, 2), naive_steps(b, from, 2, 1, 2, 2));
    put_like(b, eitp_slice_step(x, -2, 1, 6, 2), naive_steps(b, from, 4, 1, 3, 2));
    put_like(b, eitp_slice_step(x, 4, 1, 6, INT64_MAX), naive_steps(b, from, 4, 1, 1, 1));
}

static void case_pad(build *b) {
    static const int64_t shape[3] = {2, 3, 4};
    eitp_tensor *x = real(b, 3, shape);
    const array *from = values_of(b, x);
    put_like(b, eitp_pad(x, 0, 0, 2), naive_window(b, from, 0, 0, 4));
    put_like(b, eitp_pad(x, 1, 3, 0), naive_window(b, from, 1, -3, 6));
    put_like(b, eitp_pad(x, -1, 1, 2), naive_window(b, from, 2, -1, 7));
    put_like(b, eitp_pad(x, -3, 0, 0), from);
    if (!b->small) {
        x = real2(b, 150, 140);
        put_like(b, eitp_pad(x, 1, 5, 6), naive_window(b, values_of(b, x), 1, -5, 151));
    }
}

static void case_concat(build *b) {
    eitp_tensor *parts[19];
    const array *from[19];
    for (int i = 0; i < 19; i++) {
        parts[i] = real3(b, 2, 1 + i % 3, 3);
        from[i] = values_of(b, parts[i]);
    }
    put_like(b, eitp_concat(parts, 1, 1), from[0]);
    put_like(b, eitp_concat(parts, 2, 1), naive_concat(b, from, 2, 1));
    put_like(b, eitp_concat(parts, 8, -2), naive_concat(b, from, 8, 1));
    put_like(b, eitp_concat(parts, 9, 1), naive_concat(b, from, 9, 1));
    put_like(b, eitp_concat(parts, 19, 1), naive_concat(b, from, 19, 1));
    for (int i = 0; i < 12; i++) {
        parts[i] = real2(b, 1 + i % 4, b->small ? 2 : 700);
        from[i] = values_of(b, parts[i]);
    }
    put_like(b, eitp_concat(parts, 12, 0), naive_concat(b, from, 12, 0));
    parts[1] = parts[0]; /* the same tensor twice */
    from[1] = from[0];
    put_like(b, eitp_concat(parts, 2, -1), naive_concat(b, from, 2, 1));
}

/* Indices repeat, and some are out of range. */
static void case_gather(build *b) {
    static const int64_t shape[3] = {3, 4, 5}, first[3] = {6, 4, 5}, middle[3] = {3, 7, 5}, last[3] = {3, 4, 2};
    eitp_tensor *x = real(b, 3, shape), *i0 = integers(b, 3, first, -1, 3), *i1 = integers(b, 3, middle, -1, 4);
    eitp_tensor *i2 = integers(b, 3, last, -1, 5);
    const array *from = values_of(b, x);
    put_like(b, eitp_gather(x, i0, 0), naive_gather(b, from, values_of(b, i0), 0));
    put_like(b, eitp_gather(x, i1, -2), naive_gather(b, from, values_of(b, i1), 1));
    put_like(b, eitp_gather(x, i2, 2), naive_gather(b, from, values_of(b, i2), 2));
}

static void case_scatter_add(build *b) {
    static const int64_t shape[3] = {3, 4, 5};
    eitp_tensor *x = real(b, 3, shape), *indices = integers(b, 3, shape, -1, 4);
    const array *from = values_of(b, x), *at = values_of(b, indices);
    put_like(b, eitp_scatter_add(x, indices, 0, 2), naive_scatter_add(b, from, at, 0, 2));
    put_like(b, eitp_scatter_add(x, indices, 1, 9), naive_scatter_add(b, from, at, 1, 9));
    put_like(b, eitp_scatter_add(x, indices, -1, 5), naive_scatter_add(b, from, at, 2, 5));
}

/* ---- Reductions ---- */

static void reduction_case(build *b, eitp_tensor *(*op)(eitp_tensor *, unsigned, int), int is_max, int is_mean) {
    static const int64_t shape[4] = {3, 2, 4, 5}, large[3] = {7, 65, 130};
    static const unsigned masks[] = {1, 2, 4, 8, 3, 12, 5, 10, 9, 7, 14, 15, 0, EITP_ALL_DIMENSIONS};
    eitp_tensor *x = real(b, 4, shape);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        array *y = naive_reduce(b, values_of(b, x), masks[i], is_max);
        for (int64_t j = 0; j < y->count && is_mean; j++)
            y->data[j] /= (double)(values_of(b, x)->count / y->count);
        put_like(b, op(x, masks[i], 1), y);
        put_like(b, op(x, masks[i], 0), naive_squeeze(b, y, masks[i]));
    }
    if (b->small)
        return;
    x = real(b, 3, large);
    for (unsigned mask = 1; mask < 8; mask++) {
        array *y = naive_reduce(b, values_of(b, x), mask, is_max);
        for (int64_t j = 0; j < y->count && is_mean; j++)
            y->data[j] /= (double)(values_of(b, x)->count / y->count);
        put_like(b, op(x, mask, 1), y);
    }
}

static void case_sum(build *b) {
    reduction_case(b, eitp_sum, 0, 0);
}

static void case_mean(build *b) {
    reduction_case(b, eitp_mean, 0, 1);
}

static void case_max(build *b) {
    reduction_case(b, eitp_max, 1, 0);
}

/* Few different values, so that many are equal. Also checks the values at the resulting indices. */
static void case_argmax(build *b) {
    static const int64_t small[4] = {3, 2, 4, 5}, large[4] = {7, 65, 1, 130};
    eitp_tensor *x = integers(b, 4, b->small ? small : large, -3, 3), *y = eitp_cast(x, b->dtype);
    const array *from = values_of(b, x);
    for (int d = 0; d < 4; d++) {
        const array *at = naive_argmax(b, from, d);
        put_like(b, eitp_argmax(y, d, 1), at);
        put_like(b, eitp_argmax(y, d - 4, 0), naive_squeeze(b, at, 1u << d));
        put_like(b, eitp_gather(y, eitp_argmax(y, d, 1), d), naive_reduce(b, from, 1u << d, 1));
    }
    x = real1(b, 1);
    put_like(b, eitp_argmax(x, 0, 0), naive_argmax(b, values_of(b, x), 0));
}

static void case_sum_squares(build *b) {
    eitp_tensor *x = b->small ? real2(b, 3, 4) : real3(b, 3, 71, 257);
    const array *from = values_of(b, x);
    int64_t one = 1;
    array *y = new_array(b, 1, &one);
    for (int64_t i = 0; i < from->count; i++)
        y->data[0] += from->data[i] * from->data[i];
    put_like(b, eitp__sum_squares(x), y);
}

/* By rows, and by columns with and without earlier rows. */
static void case_row_squares(build *b) {
    eitp_tensor *x = b->small ? real2(b, 3, 4) : real3(b, 3, 71, 257);
    const array *from = values_of(b, x);
    int64_t rows = b->small ? 3 : 3 * 71;
    array *y = new_array(b, 1, &rows);
    for (int64_t i = 0; i < from->count; i++)
        y->data[i / (from->count / rows)] += from->data[i] * from->data[i];
    put_like(b, eitp__apply(EITP__OP_ROW_SQUARES, &x, 1, NULL), y);
}

static void case_column_squares(build *b) {
    int64_t columns = b->small ? 4 : 257;
    for (int i = 0; i < 2; i++) {
        eitp_tensor *x = b->small ? real2(b, 3, 4) : real3(b, 3, 71, 257), *before = real1(b, columns), *inputs[2];
        const array *from = values_of(b, x);
        array *y = new_array(b, 1, &columns);
        for (int64_t j = 0; j < columns && i; j++)
            y->data[j] = values_of(b, before)->data[j];
        for (int64_t k = 0; k < from->count; k++)
            y->data[k % columns] += from->data[k] * from->data[k];
        inputs[0] = x;
        inputs[1] = i ? eitp_cast(before, EITP_F64) : NULL;
        put_like(b, eitp__apply(EITP__OP_COLUMN_SQUARES, inputs, 2, NULL), y);
    }
}

/* ---- Products ---- */

static void case_matmul(build *b) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 4, 5}, {2, 1, 3}, {1, 5, 1}, {17, 33, 9}, {70, 300, 130}};
    for (int i = 0; i < (b->small ? 4 : 6); i++) {
        int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        for (int swaps = 0; swaps < 4; swaps++) {
            eitp_tensor *p = swaps & 1 ? real2(b, k, m) : real2(b, m, k);
            eitp_tensor *q = swaps & 2 ? real2(b, n, k) : real2(b, k, n);
            put_like(b, eitp_matmul_transposed(p, q, swaps & 1, swaps & 2),
                     naive_matmul(b, values_of(b, p), values_of(b, q), swaps & 1, swaps >> 1));
        }
    }
}

/* Batches of matrices: equal, broadcast, one of them without a batch. */
static void case_batched_matmul(build *b) {
    static const struct {
        int left_rank, right_rank;
        int64_t left[EITP_MAX_RANK], right[EITP_MAX_RANK]; /* [.., 3, 4] and [.., 4, 5] */
    } pairs[] = {
        {3, 3, {2, 3, 4}, {2, 4, 5}},
        {3, 3, {1, 3, 4}, {2, 4, 5}},
        {3, 2, {2, 3, 4}, {4, 5}},
        {2, 3, {3, 4}, {2, 4, 5}},
        {4, 4, {2, 1, 3, 4}, {1, 3, 4, 5}},
        {4, 3, {2, 3, 3, 4}, {3, 4, 5}},
        {6, 6, {1, 2, 1, 2, 3, 4}, {2, 1, 1, 2, 4, 5}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (int swaps = 0; swaps < 4; swaps++) {
            shape_pair pair;
            eitp_tensor *p, *q;
            pair.left_rank = pairs[i].left_rank;
            pair.right_rank = pairs[i].right_rank;
            memcpy(pair.left, pairs[i].left, sizeof pair.left);
            memcpy(pair.right, pairs[i].right, sizeof pair.right);
            if (swaps & 1) {
                pair.left[pair.left_rank - 2] = 4;
                pair.left[pair.left_rank - 1] = 3;
            }
            if (swaps & 2) {
                pair.right[pair.right_rank - 2] = 5;
                pair.right[pair.right_rank - 1] = 4;
            }
            if (b->leaf_count + 2 > BUILD_LEAVES || (b->small && swaps != (int)i % 4))
                continue;
            p = real(b, pair.left_rank, pair.left);
            q = real(b, pair.right_rank, pair.right);
            put_like(b, eitp_matmul_transposed(p, q, swaps & 1, swaps & 2),
                     naive_matmul(b, values_of(b, p), values_of(b, q), swaps & 1, swaps >> 1));
        }
    }
}

static double formula_same(double x) {
    return x;
}

static void case_linear(build *b) {
    static double (*const formulas[])(double) = {formula_same, formula_relu,    formula_gelu_tanh, formula_gelu_erf,
                                                 formula_tanh, formula_sigmoid, formula_silu};
    for (int i = 0; i < 7; i++) {
        int64_t n = b->small ? 3 : 65, in = b->small ? 4 : 48, out = b->small ? 2 : 111;
        eitp_tensor *x = i % 2 ? real3(b, 2, n, in) : real2(b, n, in), *weight, *bias;
        array *y;
        b->low = -0.5;
        b->high = 0.5;
        weight = real2(b, in, out);
        bias = real1(b, out);
        y = naive_matmul(b, values_of(b, x), values_of(b, weight), 0, 0);
        put_like(b, eitp_linear(x, weight, NULL, (eitp_activation)i), naive_map(b, y, formulas[i]));
        y = naive_zip(b, y, values_of(b, bias), formula_sum);
        put_like(b, eitp_linear(x, weight, bias, (eitp_activation)i), naive_map(b, y, formulas[i]));
    }
}

/* ---- Networks ---- */

static array *naive_softmax(build *b, const array *x, int is_log) {
    array *y = new_array(b, x->rank, x->shape);
    int64_t columns = x->rank ? x->shape[x->rank - 1] : 1;
    for (int64_t row = 0; row < x->count; row += columns) {
        double largest = x->data[row], sum = 0;
        for (int64_t j = 0; j < columns; j++)
            largest = x->data[row + j] > largest ? x->data[row + j] : largest;
        for (int64_t j = 0; j < columns; j++)
            sum += exp(x->data[row + j] - largest);
        for (int64_t j = 0; j < columns; j++) {
            double shifted = x->data[row + j] - largest;
            y->data[row + j] = is_log ? shifted - log(sum) : exp(shifted) / sum;
        }
    }
    return y;
}

static void softmax_case(build *b, eitp_tensor *(*op)(eitp_tensor *), int is_log) {
    static const int64_t shape[4] = {2, 1, 3, 4};
    static const int64_t columns[] = {1, 2, 7, 16, 33, 1031};
    eitp_tensor *x = real(b, 4, shape);
    put_like(b, op(x), naive_softmax(b, values_of(b, x), is_log));
    for (int i = 0; i < (b->small ? 3 : 6); i++) {
        b->low = b->small ? -2 : -8;
        b->high = b->small ? 2 : 8;
        x = real2(b, b->small ? 2 : 19, columns[i]);
        put_like(b, op(x), naive_softmax(b, values_of(b, x), is_log));
    }
    x = real(b, 0, NULL);
    put_like(b, op(x), naive_softmax(b, values_of(b, x), is_log));
}

static void case_softmax(build *b) {
    softmax_case(b, eitp_softmax, 0);
}

static void case_log_softmax(build *b) {
    softmax_case(b, eitp_log_softmax, 1);
}

static void case_layer_norm(build *b) {
    static const int64_t columns[] = {3, 4, 5, 2, 100, 771};
    for (int i = 0; i < (b->small ? 3 : 6); i++) {
        eitp_tensor *x = i % 2 ? real3(b, 2, b->small ? 2 : 9, columns[i]) : real2(b, b->small ? 3 : 23, columns[i]);
        eitp_tensor *gain = real1(b, columns[i]), *bias = real1(b, columns[i]);
        put(b, eitp_layer_norm(x, gain, bias, 1e-5));
    }
}

static void case_rms_norm(build *b) {
    static const int64_t columns[] = {3, 4, 5, 2, 100, 771};
    for (int i = 0; i < (b->small ? 3 : 6); i++) {
        eitp_tensor *x = i % 2 ? real3(b, 2, b->small ? 2 : 9, columns[i]) : real2(b, b->small ? 3 : 23, columns[i]);
        eitp_tensor *gain = real1(b, columns[i]);
        const array *from = values_of(b, x), *by = values_of(b, gain);
        array *y = new_array(b, from->rank, from->shape);
        for (int64_t row = 0; row < y->count; row += columns[i]) {
            double squares = 0;
            for (int64_t j = 0; j < columns[i]; j++)
                squares += from->data[row + j] * from->data[row + j];
            for (int64_t j = 0; j < columns[i]; j++)
                y->data[row + j] = from->data[row + j] / sqrt(squares / (double)columns[i] + 1e-5) * by->data[j];
        }
        put_like(b, eitp_rms_norm(x, gain, 1e-5), y);
    }
}

static void case_embedding(build *b) {
    int64_t n = b->small ? 7 : 501, v = b->small ? 5 : 97, c = b->small ? 3 : 66;
    eitp_tensor *table = real2(b, v, c), *ids = integers(b, 1, &n, -1, (int)v);
    const array *from = values_of(b, table), *at = values_of(b, ids);
    int64_t shape[2];
    array *y;
    shape[0] = n;
    shape[1] = c;
    y = new_array(b, 2, shape);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c && at->data[i] >= 0 && at->data[i] < (double)v; j++)
            y->data[i * c + j] = from->data[(int64_t)at->data[i] * c + j];
    put_like(b, eitp_embedding(table, ids), y);
}

/* Ids that repeat and one out of range, with a list of distinct ids that has unused entries. */
static void case_embedding_unique(build *b) {
    static const double ids[] = {3, 0, 3, 4, -1, 0, 3}, unique[] = {3, 0, 4, -1, -1, -1};
    static const double inverse[] = {0, 1, 0, 2, -1, 1, 0};
    eitp_tensor *table = real2(b, 5, b->small ? 3 : 66), *at = given(b, EITP_I32, 7, ids);
    eitp_tensor *distinct = given(b, EITP_I32, 6, unique), *places = given(b, EITP_I32, 7, inverse);
    put(b, eitp_embedding_unique(table, at, distinct, places));
}

static void case_dropout(build *b) {
    static const double key[3] = {77, 5, 1000};
    eitp_tensor *x = b->small ? real2(b, 4, 5) : real3(b, 30, 7, 111), *k = given(b, EITP_I64, 3, key);
    put(b, eitp_dropout(x, k, 0.25));
    put(b, eitp_dropout(x, k, 0.9)); /* a separate rng stream */
    put_like(b, eitp_dropout(x, k, 0), values_of(b, x));
}

/*
 * Packed sequences. One is empty, one has a single row, and rows before the first and after the last are in no
 * sequence. With padding: of no rows, of a whole sequence, and with lengths beyond the sequence.
 */
static void attention_case(build *b, int heads, double scale, double probability, int bidirectional, int padded) {
    static const double small[5] = {1, 4, 4, 5, 9}, large[6] = {2, 67, 67, 68, 150, 190};
    static const double small_lengths[4] = {2, 1, 0, 9}, large_lengths[5] = {65, 3, 0, 47, -1};
    static const double key[3] = {9, 2, 40};
    int64_t n = b->small ? 10 : 197, c = heads * (b->small ? 2 : 13);
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = heads;
    config.max_length = b->small ? 4 : 90;
    config.scale = scale;
    config.dropout = probability;
    config.bidirectional = bidirectional;
    b->low = -1.5;
    b->high = 1.5;
    inputs.q = real2(b, n, 3 * c);
    inputs.offsets = b->small ? given(b, EITP_I32, 5, small) : given(b, EITP_I32, 6, large);
    inputs.key = probability > 0 ? given(b, EITP_I64, 3, key) : NULL;
    if (padded)
        inputs.lengths = b->small ? given(b, EITP_I32, 4, small_lengths) : given(b, EITP_I32, 5, large_lengths);
    put(b, eitp_attention(&inputs, &config));
}

static void case_attention(build *b) {
    attention_case(b, 3, 0.3, 0, 0, 0);
}

static void case_attention_one_head(build *b) {
    attention_case(b, 1, 1.1, 0, 0, 0);
}

static void case_attention_dropout(build *b) {
    attention_case(b, 2, 0.5, 0.3, 0, 0);
}

static void case_attention_padded(build *b) {
    attention_case(b, 2, 0.5, 0, 0, 1);
}

static void case_attention_bidirectional(build *b) {
    attention_case(b, 3, 0.3, 0, 1, 0);
}

static void case_attention_bidirectional_padded(build *b) {
    attention_case(b, 2, 0.5, 0.3, 1, 1);
}

/*
 * One query q [d] that attends to `count` keys with the biases `added`: the values weighted by the softmax of the
 * scores. Returns the log-sum-exp of the scores, or 0 if all are minus infinity.
 */
static double naive_query(double *y, const double *q, const double *keys, int64_t key_step, int64_t d,
                          const double *values, int64_t value_step, int64_t e, int64_t count, double scale,
                          const double *added) {
    double largest = -(double)INFINITY, total = 0, scores[128];
    for (int64_t j = 0; j < count; j++) {
        double dot = 0;
        for (int64_t i = 0; i < d; i++)
            dot += q[i] * keys[j * key_step + i];
        scores[j] = scale * dot + added[j];
        largest = scores[j] > largest ? scores[j] : largest;
    }
    for (int64_t j = 0; j < count && isfinite(largest); j++)
        total += exp(scores[j] - largest);
    for (int64_t j = 0; j < count && isfinite(largest); j++)
        for (int64_t i = 0; i < e; i++)
            y[i] += exp(scores[j] - largest) / total * values[j * value_step + i];
    return isfinite(largest) ? largest + log(total) : 0;
}

/* The bias of query i and key j, from a mask or bias that broadcasts to [b, h, t, s]. */
static double naive_bias(const array *mask, int is_boolean, const int64_t *index, const eitp_attention_config *config) {
    double value = mask ? mask->data[ravel(mask, index, 4)] : is_boolean;
    if (!config->bidirectional && index[3] > index[2])
        return -(double)INFINITY;
    if (config->sliding_window && index[2] - index[3] >= config->sliding_window)
        return -(double)INFINITY;
    return !is_boolean ? value : value != 0 ? 0 : -(double)INFINITY;
}

/* A mask or bias of this shape, where query `masked_query` attends to no key. */
static eitp_tensor *random_mask(build *b, int rank, const int64_t *shape, int is_boolean, int64_t masked_query) {
    eitp_tensor *mask = is_boolean ? whole(b, EITP_U8, rank, shape, 0, 1) : real(b, rank, shape);
    array *a = b->values[b->leaf_count - 1];
    int64_t index[EITP_MAX_RANK];
    for (int64_t i = 0; i < a->count; i++) {
        unravel(a, i, index);
        if (index[rank - 2] == masked_query || (!is_boolean && draw(&b->random) < 0.2))
            a->data[i] = is_boolean ? 0 : -(double)INFINITY;
    }
    return mask;
}

/*
 * Packed rows: queries attend to the valid keys of their sequence and, if causal, to none after themselves. With
 * `logsumexps` it returns [n, heads] log-sum-exps instead.
 */
static array *naive_separate(build *b, const array *q, const array *k, const array *v, const double *offsets,
                             const double *lengths, int sequences, const eitp_attention_config *config,
                             const array *mask, int is_boolean, int logsumexps) {
    int64_t heads = config->heads, d = q->shape[1] / heads, groups = k->shape[1] / d, e = v->shape[1] / groups,
            shape[2], index[4];
    double added[128];
    array *y, *sums;
    shape[0] = q->shape[0];
    shape[1] = heads;
    sums = new_array(b, 2, shape);
    shape[1] = heads * e;
    y = new_array(b, 2, shape);
    for (index[0] = 0; index[0] < sequences; index[0]++) {
        int64_t begin = (int64_t)offsets[index[0]], length = (int64_t)offsets[index[0] + 1] - begin;
        length = lengths && lengths[index[0]] < (double)length ? (int64_t)lengths[index[0]] : length;
        for (index[1] = 0; index[1] < heads; index[1]++)
            for (index[2] = 0; index[2] < length; index[2]++) {
                int64_t row = begin + index[2], group = index[1] / (heads / groups);
                const double *query = q->data + row * q->shape[1] + index[1] * d;
                const double *keys = k->data + begin * k->shape[1] + group * d;
                const double *values = v->data + begin * v->shape[1] + group * e;
                for (index[3] = 0; index[3] < length; index[3]++)
                    added[index[3]] = naive_bias(mask, is_boolean, index, config);
                sums->data[row * heads + index[1]] =
                    naive_query(y->data + row * shape[1] + index[1] * e, query, keys, k->shape[1], d, values,
                                v->shape[1], e, length, config->scale, added);
            }
    }
    return logsumexps ? sums : y;
}

enum { APART, JOINED, LOGSUMEXPS };

/*
 * Adds attention of q, k and v, in separate tensors or joined in one, with the ends of the sequences, the lengths of
 * padded ones, and a mask or bias; or the log-sum-exps that it saves.
 */
static void put_separate(build *b, eitp_tensor *q, eitp_tensor *k, eitp_tensor *v, int sequences, const double *ends,
                         const double *lengths, eitp_tensor *mask, const eitp_attention_config *config, int form) {
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_tensor *parts[3], *y;
    const array *expected;
    parts[0] = q;
    parts[1] = k;
    parts[2] = v;
    inputs.q = form == JOINED ? eitp_concat(parts, 3, 1) : q;
    inputs.k = form == JOINED ? NULL : k;
    inputs.v = form == JOINED ? NULL : v;
    inputs.offsets = given(b, EITP_I32, sequences + 1, ends);
    inputs.lengths = lengths ? given(b, EITP_I32, sequences, lengths) : NULL;
    inputs.mask = mask;
    y = eitp_attention(&inputs, config);
    expected = naive_separate(b, values_of(b, q), values_of(b, k), values_of(b, v), ends, lengths, sequences, config,
                              mask ? values_of(b, mask) : NULL, mask && eitp_tensor_dtype(mask) == EITP_U8,
                              form == LOGSUMEXPS);
    put_like(b, y && form == LOGSUMEXPS ? y->node->outputs[1] : y, expected);
}

/* A batch of two sequences of the same length, with values of another width and `groups` of heads that share keys. */
static void batch_case(build *b, int heads, int groups, int causal, eitp_tensor *mask, int form) {
    const int64_t t = b->small ? 3 : 37;
    eitp_tensor *q = real2(b, 2 * t, heads * 3), *k = real2(b, 2 * t, groups * 3);
    eitp_tensor *v = real2(b, 2 * t, groups * (form == JOINED ? 3 : 2));
    eitp_attention_config config = eitp_attention_config_default();
    double ends[3] = {0, 0, 0};
    config.heads = heads;
    config.key_value_heads = groups;
    config.max_length = t;
    config.scale = 0.6;
    config.bidirectional = !causal;
    ends[1] = (double)t;
    ends[2] = (double)(2 * t);
    put_separate(b, q, k, v, 2, ends, NULL, mask, &config, form);
}

/* A mask of the last `rank` dimensions of [2, 4, t, t], where query `masked_query` attends to no key. */
static eitp_tensor *batch_mask(build *b, int rank, int is_boolean, int64_t masked_query) {
    int64_t shape[4] = {2, 4, 0, 0};
    shape[2] = shape[3] = b->small ? 3 : 37;
    return random_mask(b, rank, shape + 4 - rank, is_boolean, masked_query);
}

static void case_batch(build *b) {
    batch_case(b, 2, 2, 0, NULL, APART);
    batch_case(b, 1, 1, 0, NULL, APART);
}

static void case_batch_causal(build *b) {
    batch_case(b, 2, 2, 1, batch_mask(b, 2, 1, 1), APART);
}

static void case_batch_shared(build *b) {
    batch_case(b, 4, 2, 0, batch_mask(b, 3, 0, 0), APART);
}

static void case_batch_shared_causal(build *b) {
    batch_case(b, 4, 2, 1, batch_mask(b, 2, 0, -1), APART);
}

static void case_batch_one_key_head(build *b) {
    batch_case(b, 4, 1, 0, batch_mask(b, 4, 1, 2), APART);
}

static void case_batch_side_by_side(build *b) {
    batch_case(b, 4, 2, 1, NULL, JOINED);
    batch_case(b, 2, 2, 1, batch_mask(b, 2, 0, 1), JOINED);
}

static void case_batch_logsumexps(build *b) {
    batch_case(b, 4, 2, 1, batch_mask(b, 4, 1, 2), LOGSUMEXPS);
}

/* One tensor as queries, keys and values. */
static void case_batch_of_one_tensor(build *b) {
    const double ends[3] = {0, 4, 6};
    eitp_attention_config config = eitp_attention_config_default();
    eitp_tensor *x = real2(b, 6, 4);
    config.heads = 2;
    config.max_length = 4;
    config.scale = 0.7;
    put_separate(b, x, x, x, 2, ends, NULL, NULL, &config, APART);
}

/* Like attention_case, with `groups` of four heads that share keys. Has a bias by head and position, or a mask by
   sequence in which query 1 of each attends to no key. */
static void separate_case(build *b, int groups, int bidirectional, int padded, int biased, int masked) {
    static const double small[5] = {1, 4, 4, 5, 9}, large[6] = {2, 19, 19, 20, 43, 50};
    static const double small_lengths[4] = {2, 1, 0, 9}, large_lengths[5] = {16, 3, 0, 21, -1};
    int sequences = b->small ? 4 : 5;
    int64_t n = b->small ? 10 : 53, max_length = b->small ? 4 : 24, shape[4];
    const double *lengths = b->small ? small_lengths : large_lengths;
    eitp_tensor *q = real2(b, n, 4 * 3), *k = real2(b, n, groups * 3), *v = real2(b, n, groups * 2), *mask = NULL;
    eitp_attention_config config = eitp_attention_config_default();
    config.heads = 4;
    config.key_value_heads = groups;
    config.max_length = max_length;
    config.scale = 0.4;
    config.bidirectional = bidirectional;
    shape[0] = sequences;
    shape[1] = biased ? 4 : 1;
    shape[2] = shape[3] = max_length;
    if (biased)
        mask = random_mask(b, 3, shape + 1, 0, 0);
    if (masked)
        mask = random_mask(b, 4, shape, 1, 1);
    put_separate(b, q, k, v, sequences, b->small ? small : large, padded ? lengths : NULL, mask, &config, APART);
}

static void case_separate(build *b) {
    separate_case(b, 2, 0, 0, 0, 0);
}

/* Rotates pairs of elements of x [n, heads width] that are half a head apart by position * theta^(-2 i / width). */
static array *naive_rotated(build *b, const array *x, int64_t width, const double *positions, double theta) {
    array *y = new_array(b, 2, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t row = i / x->shape[1], at = i % width, pair = at % (width / 2);
        const float exponent = (float)(2.0 * (double)pair / (double)width);
        const float frequency = 1.0f / (float)pow(theta, (double)exponent);
        const double angle = (double)((float)positions[row] * frequency);
        const double other = at < width / 2 ? -x->data[i + width / 2] : x->data[i - width / 2];
        y->data[i] = x->data[i] * (double)(float)cos(angle) + other * (double)(float)sin(angle);
    }
    return y;
}

/*
 * Causal attention of decoders over packed sequences, one of which is padded. `group` query heads share one key head, a
 * row attends to the last `window` rows, and heads are rotated by the row's position in its sequence plus 3. Inputs are
 * joined in one tensor or separate.
 */
static void decoder_case(build *b, int key_heads, int group, int64_t width, int64_t window, int rotates, double drops,
                         int is_joined) {
    static const double small[4] = {1, 5, 6, 10}, large[5] = {2, 7, 8, 107, 211};
    static const double small_lengths[3] = {4, 1, 3}, large_lengths[4] = {9, 1, 99, 90}, key[3] = {9, 2, 40};
    const int sequences = b->small ? 3 : 4, heads = key_heads * group;
    const double *ends = b->small ? small : large, *lengths = b->small ? small_lengths : large_lengths;
    const int64_t n = b->small ? 11 : 215;
    eitp_tensor *parts[3];
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    eitp_rotary_config rotary = eitp_rotary_config_default();
    const array *q, *k;
    double positions[215];
    for (int64_t i = 0, s = 0; i < n; i++) {
        while (s < sequences && i >= (int64_t)ends[s + 1])
            s++;
        positions[i] = (double)i - (s < sequences ? ends[s] : 0) + 3;
    }
    config.heads = heads;
    config.key_value_heads = key_heads;
    config.max_length = b->small ? 4 : 104;
    config.scale = 0.45;
    config.sliding_window = window;
    config.dropout = drops;
    rotary.width = width;
    rotary.theta = 50;
    b->low = -1.5;
    b->high = 1.5;
    for (int i = 0; i < 3; i++)
        parts[i] = real2(b, n, (i ? key_heads : heads) * width);
    inputs.q = is_joined ? eitp_concat(parts, 3, 1) : parts[0];
    inputs.k = is_joined ? NULL : parts[1];
    inputs.v = is_joined ? NULL : parts[2];
    inputs.offsets = given(b, EITP_I32, sequences + 1, ends);
    inputs.lengths = given(b, EITP_I32, sequences, lengths);
    inputs.key = drops > 0 ? given(b, EITP_I64, 3, key) : NULL;
    inputs.rotation = rotates ? eitp_rotary(given(b, EITP_I32, n, positions), &rotary) : NULL;
    q = values_of(b, parts[0]);
    k = values_of(b, parts[1]);
    if (rotates) {
        q = naive_rotated(b, q, width, positions, rotary.theta);
        k = naive_rotated(b, k, width, positions, rotary.theta);
    }
    if (drops > 0)
        put(b, eitp_attention(&inputs, &config));
    else
        put_like(b, eitp_attention(&inputs, &config),
                 naive_separate(b, q, k, values_of(b, parts[2]), ends, lengths, sequences, &config, NULL, 0, 0));
}

static void case_decoder_grouped(build *b) {
    decoder_case(b, 2, 3, b->small ? 2 : 5, 0, 0, 0, 1);
    decoder_case(b, 1, 2, b->small ? 1 : 24, 0, 0, 0, 0);
}

static void case_decoder_windowed(build *b) {
    decoder_case(b, 2, 1, b->small ? 2 : 16, b->small ? 2 : 7, 0, 0, 1);
    decoder_case(b, 1, 2, 3, 2, 0, 0, 0);
    if (!b->small)
        decoder_case(b, 1, 1, 8, 97, 0, 0, 1);
}

static void case_decoder_rotated(build *b) {
    decoder_case(b, 2, 1, b->small ? 2 : 6, 0, 1, 0, 1);
    decoder_case(b, 1, 2, b->small ? 4 : 32, 0, 1, 0, 0);
}

static void case_decoder_whole(build *b) {
    decoder_case(b, 2, 2, b->small ? 4 : 18, b->small ? 3 : 40, 1, 0, 1);
    decoder_case(b, 1, 4, b->small ? 2 : 64, b->small ? 2 : 100, 1, 0, 0);
}

static void case_decoder_dropout(build *b) {
    decoder_case(b, 2, 2, b->small ? 2 : 10, b->small ? 2 : 50, 1, 0.3, 1);
}

static void case_separate_masked(build *b) {
    separate_case(b, 4, 1, 0, 0, 1);
}

static void case_separate_biased(build *b) {
    separate_case(b, 1, 0, 1, 1, 0);
}

static void case_separate_padded(build *b) {
    separate_case(b, 2, 1, 1, 0, 0);
}

/* Bounds of the four sequences in `offsets`. */
static eitp_tensor *pool_bounds(build *b, const double *ends) {
    const int64_t shape[2] = {4, 2};
    double bounds[8];
    for (int i = 0; i < 8; i++)
        bounds[i] = ends[i / 2 + i % 2];
    return eitp_reshape(given(b, EITP_I32, 8, bounds), 2, shape);
}

/* Rows before and after all sequences belong to none, and one sequence is empty: its mean is 0. */
static void pool_case(build *b, eitp_pooling pooling, int by_bounds) {
    static const double small[5] = {1, 4, 4, 5, 9}, large[5] = {2, 19, 19, 20, 43};
    const double *ends = b->small ? small : large;
    const int64_t n = b->small ? 10 : 53, columns = b->small ? 3 : 70;
    eitp_tensor *offsets = given(b, EITP_I32, 5, ends), *x = real2(b, n, columns);
    const array *values = values_of(b, x);
    int64_t shape[2] = {4, 0};
    array *y;
    shape[1] = columns;
    y = new_array(b, 2, shape);
    for (int64_t s = 0; s < 4; s++) {
        int64_t begin = (int64_t)ends[s], end = (int64_t)ends[s + 1], length = end - begin;
        int64_t first = pooling == EITP_POOLING_LAST ? end - 1 : begin;
        if (pooling != EITP_POOLING_MEAN)
            end = first + 1;
        for (int64_t row = first; row < end; row++) {
            for (int64_t c = 0; c < columns; c++)
                y->data[s * columns + c] +=
                    values->data[row * columns + c] / (pooling == EITP_POOLING_MEAN ? (double)length : 1);
        }
    }
    put_like(b, eitp_pool(x, by_bounds ? pool_bounds(b, ends) : offsets, 30, pooling), y);
}

static void case_pool_first(build *b) {
    pool_case(b, EITP_POOLING_FIRST, 0);
}

static void case_pool_last(build *b) {
    pool_case(b, EITP_POOLING_LAST, 1);
}

static void case_pool_mean(build *b) {
    pool_case(b, EITP_POOLING_MEAN, 0);
}

static void case_pool_mean_of_bounds(build *b) {
    pool_case(b, EITP_POOLING_MEAN, 1);
}

/* Some targets are ignored. */
static void case_cross_entropy(build *b) {
    int64_t n = b->small ? 6 : 33, v = b->small ? 4 : 1237;
    eitp_tensor *logits, *targets;
    array *y;
    b->low = -6;
    b->high = 6;
    logits = real2(b, n, v);
    targets = integers(b, 1, &n, 0, (int)v - 1);
    values_of(b, targets)->data[1] = 2;
    y = naive_softmax(b, values_of(b, logits), 1);
    for (int64_t i = 0; i < n; i++) {
        double target = values_of(b, targets)->data[i];
        y->data[i] = target != 2 ? -y->data[i * v + (int64_t)target] : 0;
    }
    y->rank = 1;
    y->count = n;
    put_like(b, eitp_cross_entropy(logits, targets, 2), y);
}

/* The definition: -(1 - s) w[t] log p[t] - s / v * sum of w log p; 0 if the target is 2. */
static array *naive_smoothed_loss(build *b, const array *logits, const array *targets, const array *weights,
                                  double smoothing) {
    const array *logs = naive_softmax(b, logits, 1);
    int64_t v = logits->shape[1];
    array *y = new_array(b, 1, logits->shape);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t target = (int64_t)targets->data[i];
        for (int64_t j = 0; j < v && target != 2; j++) {
            double share = (j == target ? 1 - smoothing : 0) + smoothing / (double)v;
            y->data[i] -= share * (weights ? weights->data[j] : 1) * logs->data[i * v + j];
        }
    }
    return y;
}

/* Smoothing, class weights, and both, for cross entropy and for an output head. */
static void case_smoothed_cross_entropy(build *b) {
    int64_t n = b->small ? 6 : 33, v = b->small ? 4 : 1237, c = b->small ? 3 : 40;
    eitp_tensor *logits = real2(b, n, v), *targets = integers(b, 1, &n, 0, (int)v - 1), *weights, *x, *table;
    const array *at = values_of(b, targets), *product;
    at->data[1] = 2;
    b->low = 0.25;
    weights = real1(b, v);
    b->low = -1;
    b->high = 1;
    x = real2(b, n, c);
    table = real2(b, v, c);
    product = naive_matmul(b, values_of(b, x), values_of(b, table), 0, 1);
    for (int i = 0; i < 4; i++) {
        static const double smoothings[4] = {0.1, 0, 0.3, 1};
        eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
        config.ignored = 2;
        config.label_smoothing = smoothings[i];
        config.weights = i ? weights : NULL;
        put_like(b, eitp_cross_entropy_with(logits, targets, &config),
                 naive_smoothed_loss(b, values_of(b, logits), at, i ? values_of(b, weights) : NULL, smoothings[i]));
        put_like(b, eitp_linear_cross_entropy_with(x, table, targets, &config),
                 naive_smoothed_loss(b, product, at, i ? values_of(b, weights) : NULL, smoothings[i]));
    }
}

/* Removes the dimension of the classes; [1] for a vector. */
static array *naive_entropy(build *b, const array *logits) {
    const array *logs = naive_softmax(b, logits, 1);
    array *y = naive_squeeze(b, naive_reduce(b, logits, 1u << (logits->rank - 1), 1), 1u << (logits->rank - 1));
    const int64_t v = logits->shape[logits->rank - 1];
    for (int64_t i = 0; i < y->count; i++) {
        y->data[i] = 0;
        for (int64_t j = 0; j < v; j++)
            y->data[i] -= exp(logs->data[i * v + j]) * logs->data[i * v + j];
    }
    return y;
}

static void case_softmax_entropy(build *b) {
    const int64_t n = b->small ? 4 : 19;
    eitp_tensor *x[3];
    b->low = -5;
    b->high = 5;
    x[0] = real2(b, n, b->small ? 5 : 9001);
    x[1] = real3(b, 2, 3, b->small ? 4 : 67);
    x[2] = real1(b, b->small ? 1 : 131);
    for (int i = 0; i < 3; i++)
        put_like(b, eitp_softmax_entropy(x[i]), naive_entropy(b, values_of(b, x[i])));
}

/* Logits of minus infinity, whose gradient is 0: the last of each row, and all of row 1. */
static void case_masked_entropy(build *b) {
    const int64_t n = b->small ? 3 : 9, v = b->small ? 5 : 5003;
    eitp_tensor *x = real2(b, n, v), *mask = whole(b, EITP_U8, 2, x->shape, 0, 0);
    array *kept = new_array(b, 2, x->shape), *y;
    kept->shape[1] = v - 1;
    kept->count = n * (v - 1);
    for (int64_t i = 0; i < n * v; i++) {
        values_of(b, mask)->data[i] = i / v == 1 || i % v == v - 1;
        if (i % v < v - 1)
            kept->data[i / v * (v - 1) + i % v] = values_of(b, x)->data[i];
    }
    y = naive_entropy(b, kept);
    y->data[1] = 0;
    x = eitp_where(mask, eitp_fill(b->graph, b->dtype, 0, NULL, -(double)INFINITY), x);
    put_like(b, eitp_softmax_entropy(x), y);
}

/* ---- Matrices ---- */

/* Matrices that are not symmetric, but whose symmetric part is positive definite because its diagonal dominates. */
static eitp_tensor *definite(build *b, int rank, const int64_t *shape) {
    const int64_t m = shape[rank - 1];
    eitp_tensor *a = real(b, rank, shape);
    array *values = b->values[b->leaf_count - 1];
    for (int64_t i = 0; i < values->count; i++)
        values->data[i] += i / m % m == i % m ? (double)(2 * m) : 0;
    return a;
}

/* Eliminates the symmetric part of matrix `item`, augmented by the unit matrix. Returns the logarithm of the
   determinant, and sets `inverse` if it is not NULL. */
static double naive_eliminate(const array *a, int64_t item, double *inverse) {
    const int64_t m = a->shape[a->rank - 1], width = 2 * m;
    const double *from = a->data + item * m * m;
    double *rows = (double *)calloc((size_t)(m * width), sizeof *rows), sum = 0;
    for (int64_t i = 0; i < m * m; i++)
        rows[i / m * width + i % m] = (from[i] + from[i % m * m + i / m]) / 2;
    for (int64_t i = 0; i < m; i++)
        rows[i * width + m + i] = 1;
    for (int64_t i = 0; i < m; i++) {
        const double pivot = rows[i * width + i];
        sum += log(pivot);
        for (int64_t j = 0; j < width; j++)
            rows[i * width + j] /= pivot;
        for (int64_t other = 0; other < m; other++) {
            const double factor = rows[other * width + i];
            for (int64_t j = i; j < width && other != i; j++)
                rows[other * width + j] -= factor * rows[i * width + j];
        }
    }
    for (int64_t i = 0; i < m * m && inverse; i++)
        inverse[item * m * m + i] = rows[i / m * width + m + i % m];
    free(rows);
    return sum;
}

/* One matrix, a batch, and matrices around the size of a block. */
static void put_definite(build *b, eitp_tensor *(*op)(eitp_tensor *), int is_inverse) {
    static const int64_t shapes[6][4] = {{1, 1, 3, 3},   {1, 1, 1, 1},     {2, 2, 4, 4},
                                         {1, 3, 64, 64}, {1, 1, 133, 133}, {1, 2, 200, 200}};
    for (int i = 0; i < (b->small ? 3 : 6); i++) {
        const int rank = shapes[i][0] > 1 ? 4 : shapes[i][1] > 1 ? 3 : 2;
        eitp_tensor *a = definite(b, rank, shapes[i] + 4 - rank);
        const array *values = values_of(b, a);
        array *y = new_array(b, values->rank, values->shape);
        array *sums = naive_squeeze(b, naive_reduce(b, y, 3u << (rank - 2), 0), 3u << (rank - 2));
        for (int64_t item = 0; item < sums->count; item++)
            sums->data[item] = naive_eliminate(values, item, y->data);
        put_like(b, op(a), is_inverse ? y : sums);
    }
}

static void case_logdet(build *b) {
    put_definite(b, eitp_logdet, 0);
}

static void case_inverse_spd(build *b) {
    put_definite(b, eitp_inverse_spd, 1);
}

/* ---- Path products ---- */

/* Uses a matrix with a zero, where the slope is a convention that differences do not see, for power 2 only. */
static void path_case(build *b, int power) {
    static const int64_t sizes[3][2] = {{3, 4}, {1, 5}, {257, 203}};
    for (int i = 0; i < (b->small ? 2 : 3) * 4; i++) {
        const int transposed = i & 1, is_row = i >> 1 & 1;
        const int64_t *size = sizes[b->small || i < 8 ? i / 4 : 2];
        int64_t shape[2] = {1, 0}, to[2] = {1, 0};
        eitp_tensor *weight = real2(b, size[0], size[1]), *x;
        const array *w = values_of(b, weight);
        array *y;
        if (power == 2)
            w->data[1] = 0;
        shape[is_row] = size[transposed];
        to[is_row] = size[!transposed];
        x = real(b, 1 + is_row, shape);
        y = new_array(b, 1 + is_row, to);
        for (int64_t j = 0; j < w->count; j++) {
            const int64_t row = j / size[1], column = j % size[1];
            y->data[transposed ? row : column] +=
                pow(fabs(w->data[j]), power) * values_of(b, x)->data[transposed ? column : row];
        }
        put_like(b, eitp__path_product(x, weight, power, transposed), y);
    }
}

static void case_path_product(build *b) {
    path_case(b, 1);
}

static void case_square_path_product(build *b) {
    path_case(b, 2);
}

/* ---- The list ---- */

#define OP_CASE(name, tolerance, flags)                                                                                \
    { #name, case_##name, tolerance, flags }

/*
 * F32 rounds with a relative error of 6e-8, so the NMSE is 4e-15 at best. Sums of terms of both signs lose precision by
 * cancellation.
 */
static const op_case op_cases[] = {
    OP_CASE(negate, 0, HAS_GRADIENT),
    OP_CASE(abs, 0, HAS_GRADIENT),
    OP_CASE(exp, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(log, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(sqrt, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(rsqrt, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(sin, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(cos, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(tanh, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(sigmoid, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(relu, 0, HAS_GRADIENT),
    OP_CASE(erf, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(gelu_tanh, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(gelu_erf, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(silu, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(affine, 1e-13, HAS_GRADIENT),
    OP_CASE(clamp, 0, HAS_GRADIENT),
    OP_CASE(stop_gradient, 0, 0),
    OP_CASE(add, 1e-13, HAS_GRADIENT),
    OP_CASE(subtract, 1e-13, HAS_GRADIENT),
    OP_CASE(multiply, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(divide, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(minimum, 0, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(maximum, 0, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(less, 0, 0),
    OP_CASE(equal, 0, 0),
    OP_CASE(where, 0, HAS_GRADIENT),
    OP_CASE(values, 0, 0),
    OP_CASE(reshape, 0, HAS_GRADIENT),
    OP_CASE(broadcast, 0, HAS_GRADIENT),
    OP_CASE(permute, 0, HAS_GRADIENT),
    OP_CASE(slice, 0, HAS_GRADIENT),
    OP_CASE(slice_step, 0, HAS_GRADIENT),
    OP_CASE(pad, 0, HAS_GRADIENT),
    OP_CASE(concat, 0, HAS_GRADIENT),
    OP_CASE(gather, 0, HAS_GRADIENT),
    OP_CASE(scatter_add, 1e-13, HAS_GRADIENT),
    OP_CASE(sum, 1e-11, HAS_GRADIENT),
    OP_CASE(mean, 1e-11, HAS_GRADIENT),
    OP_CASE(max, 0, HAS_GRADIENT),
    OP_CASE(argmax, 0, 0),
    OP_CASE(sum_squares, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(row_squares, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(column_squares, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(matmul, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batched_matmul, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(linear, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(softmax, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(log_softmax, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(layer_norm, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(rms_norm, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(embedding, 0, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(embedding_unique, 0, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(dropout, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention_one_head, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention_dropout, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention_padded, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention_bidirectional, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(attention_bidirectional_padded, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_causal, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_shared, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_shared_causal, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_one_key_head, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_side_by_side, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_logsumexps, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(batch_of_one_tensor, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(separate, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(decoder_grouped, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(decoder_windowed, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(decoder_rotated, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(decoder_whole, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(decoder_dropout, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(separate_masked, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(separate_biased, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(separate_padded, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(pool_first, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(pool_last, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(pool_mean, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(pool_mean_of_bounds, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(cross_entropy, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(smoothed_cross_entropy, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(softmax_entropy, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(masked_entropy, 1e-12, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(logdet, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(inverse_spd, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(path_product, 1e-13, HAS_GRADIENT | HAS_SECOND),
    OP_CASE(square_path_product, 1e-13, HAS_GRADIENT | HAS_SECOND),
};
enum { OP_CASES = sizeof op_cases / sizeof op_cases[0] };

#endif
