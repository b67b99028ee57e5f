/* Values and elementwise ops: builders, shapes, gradients. */
#include "tensor/op_rules.h"

EITP__PRIVATE eitp_status eitp__require(int condition, eitp_error *error, const char *format, ...) {
    va_list arguments;
    if (condition)
        return EITP_OK;
    if (error) {
        error->status = EITP_ERROR_ARGUMENT;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return EITP_ERROR_ARGUMENT;
}

/* ---- Shapes ---- */

static eitp_status eitp__shape_fill(eitp__node *node, eitp_error *error) {
    return eitp__node_output(node, node->attributes.dtype, node->attributes.rank, node->attributes.shape, 0, error);
}

static eitp_status eitp__shape_arange(eitp__node *node, eitp_error *error) {
    return eitp__shape_fill(node, error);
}

EITP__PRIVATE eitp_status eitp__shape_same(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE eitp_status eitp__shape_unary(eitp__node *node, eitp_error *error) {
    eitp_status status =
        eitp__require(eitp__is_floating(node->inputs[0]->dtype), error,
                      "the operand is %s; cast it to a floating-point dtype", eitp_dtype_name(node->inputs[0]->dtype));
    return status ? status : eitp__shape_same(node, error);
}

static eitp_status eitp__shape_cast(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    return eitp__node_output(node, node->attributes.dtype, x->rank, x->shape, x->rows, error);
}

/* Broadcasts the shapes of the inputs as in NumPy. Sets *rows if the leading dimension is the capacity. */
static eitp_status eitp__broadcast_shape(const eitp__node *node, int *rank, int64_t shape[EITP_MAX_RANK], int *rows,
                                         eitp_error *error) {
    char a[100], b[100];
    *rank = 0;
    *rows = 0;
    for (int i = 0; i < node->input_count; i++)
        *rank = node->inputs[i]->rank > *rank ? node->inputs[i]->rank : *rank;
    for (int d = 0; d < *rank; d++)
        shape[d] = 1;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        for (int d = 0; d < x->rank; d++) {
            int64_t *extent = &shape[*rank - x->rank + d];
            if (*extent != x->shape[d] && *extent != 1 && x->shape[d] != 1)
                return eitp__require(0, error, "shapes %s and %s do not broadcast",
                                     eitp__shape_text(node->inputs[0], a, sizeof a), eitp__shape_text(x, b, sizeof b));
            if (x->shape[d] > *extent)
                *extent = x->shape[d];
        }
        if (x->rows && x->rank == *rank)
            *rows = 1;
    }
    for (int i = 0; i < node->input_count && *rows; i++) {
        const eitp_tensor *x = node->inputs[i];
        if (x->rows ? x->rank != *rank : x->rank == *rank && x->shape[0] != 1)
            return eitp__require(0, error, "one operand has a capacity of rows, the other a fixed number of rows");
    }
    return EITP_OK;
}

static eitp_status eitp__broadcast_output(eitp__node *node, eitp_dtype dtype, eitp_error *error) {
    int rank, rows;
    int64_t shape[EITP_MAX_RANK];
    eitp_status status = eitp__broadcast_shape(node, &rank, shape, &rows, error);
    return status ? status : eitp__node_output(node, dtype, rank, shape, rows, error);
}

static eitp_status eitp__same_dtype(const eitp_tensor *a, const eitp_tensor *b, eitp_error *error) {
    return eitp__require(a->dtype == b->dtype, error, "the operands are %s and %s; cast one of them",
                         eitp_dtype_name(a->dtype), eitp_dtype_name(b->dtype));
}

static eitp_status eitp__shape_binary(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[0], node->inputs[1], error);
    return status ? status : eitp__broadcast_output(node, node->inputs[0]->dtype, error);
}

static eitp_status eitp__shape_compare(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[0], node->inputs[1], error);
    return status ? status : eitp__broadcast_output(node, EITP_U8, error);
}

static eitp_status eitp__shape_where(eitp__node *node, eitp_error *error) {
    eitp_status status = eitp__same_dtype(node->inputs[1], node->inputs[2], error);
    if (!status)
        status = eitp__require(node->inputs[0]->dtype == EITP_U8, error, "condition is %s; it must be u8",
                               eitp_dtype_name(node->inputs[0]->dtype));
    return status ? status : eitp__broadcast_output(node, node->inputs[1]->dtype, error);
}

EITP__PRIVATE double eitp__flops_elements(const eitp__node *node) {
    return (double)eitp__elements(node->outputs[0]);
}

/* ---- Builders ---- */

static eitp_tensor *eitp__unary(eitp__op_code op, eitp_tensor *x, double real0, double real1) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.reals[0] = real0;
    attributes.reals[1] = real1;
    return eitp__apply(op, &x, 1, &attributes);
}

static eitp_tensor *eitp__binary(eitp__op_code op, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    return eitp__apply(op, inputs, 2, NULL);
}

eitp_tensor *eitp_fill(eitp_graph *graph, eitp_dtype dtype, int rank, const int64_t *shape, double value) {
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    if (graph && rank > 0 && !shape) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "fill: shape is NULL");
        return NULL;
    }
    attributes.reals[0] = value;
    attributes.dtype = dtype;
    attributes.rank = rank;
    for (int d = 0; d < rank && d < EITP_MAX_RANK; d++)
        attributes.shape[d] = shape[d];
    node = eitp__node_create(graph, EITP__OP_FILL, NULL, 0, &attributes);
    return node ? node->outputs[0] : NULL;
}

eitp_tensor *eitp_arange(eitp_graph *graph, eitp_dtype dtype, int64_t count) {
    eitp__attributes attributes = EITP__ZERO;
    eitp__node *node;
    attributes.dtype = dtype;
    attributes.rank = 1;
    attributes.shape[0] = count;
    node = eitp__node_create(graph, EITP__OP_ARANGE, NULL, 0, &attributes);
    return node ? node->outputs[0] : NULL;
}

eitp_tensor *eitp_negate(eitp_tensor *x) {
    return eitp__unary(EITP__OP_NEGATE, x, 0, 0);
}

eitp_tensor *eitp_abs(eitp_tensor *x) {
    return eitp__unary(EITP__OP_ABS, x, 0, 0);
}

eitp_tensor *eitp_exp(eitp_tensor *x) {
    return eitp__unary(EITP__OP_EXP, x, 0, 0);
}

eitp_tensor *eitp_log(eitp_tensor *x) {
    return eitp__unary(EITP__OP_LOG, x, 0, 0);
}

eitp_tensor *eitp_sqrt(eitp_tensor *x) {
    return eitp__unary(EITP__OP_SQRT, x, 0, 0);
}

eitp_tensor *eitp_rsqrt(eitp_tensor *x) {
    return eitp__unary(EITP__OP_RSQRT, x, 0, 0);
}

eitp_tensor *eitp_sin(eitp_tensor *x) {
    return eitp__unary(EITP__OP_SIN, x, 0, 0);
}

eitp_tensor *eitp_cos(eitp_tensor *x) {
    return eitp__unary(EITP__OP_COS, x, 0, 0);
}

eitp_tensor *eitp_tanh(eitp_tensor *x) {
    return eitp__unary(EITP__OP_TANH, x, 0, 0);
}

eitp_tensor *eitp_sigmoid(eitp_tensor *x) {
    return eitp__unary(EITP__OP_SIGMOID, x, 0, 0);
}

eitp_tensor *eitp_relu(eitp_tensor *x) {
    return eitp__unary(EITP__OP_RELU, x, 0, 0);
}

eitp_tensor *eitp_erf(eitp_tensor *x) {
    return eitp__unary(EITP__OP_ERF, x, 0, 0);
}

eitp_tensor *eitp_affine(eitp_tensor *x, double scale, double shift) {
    return eitp__unary(EITP__OP_AFFINE, x, scale, shift);
}

eitp_tensor *eitp_clamp(eitp_tensor *x, double low, double high) {
    if (x && !(low <= high)) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "clamp: low %g must not exceed high %g", low, high);
        return NULL;
    }
    return eitp__unary(EITP__OP_CLAMP, x, low, high);
}

eitp_tensor *eitp_cast(eitp_tensor *x, eitp_dtype dtype) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.dtype = dtype;
    return x && x->dtype == dtype ? x : eitp__apply(EITP__OP_CAST, &x, 1, &attributes);
}

eitp_tensor *eitp_add(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_ADD, a, b);
}

eitp_tensor *eitp_subtract(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_SUBTRACT, a, b);
}

eitp_tensor *eitp_multiply(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_MULTIPLY, a, b);
}

eitp_tensor *eitp_divide(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_DIVIDE, a, b);
}

eitp_tensor *eitp_minimum(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_MINIMUM, a, b);
}

eitp_tensor *eitp_maximum(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_MAXIMUM, a, b);
}

eitp_tensor *eitp_less(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_LESS, a, b);
}

eitp_tensor *eitp_equal(eitp_tensor *a, eitp_tensor *b) {
    return eitp__binary(EITP__OP_EQUAL, a, b);
}

eitp_tensor *eitp_where(eitp_tensor *condition, eitp_tensor *a, eitp_tensor *b) {
    eitp_tensor *inputs[3];
    inputs[0] = condition;
    inputs[1] = a;
    inputs[2] = b;
    return eitp__apply(EITP__OP_WHERE, inputs, 3, NULL);
}

eitp_tensor *eitp_stop_gradient(eitp_tensor *x) {
    return eitp__apply(EITP__OP_STOP_GRADIENT, &x, 1, NULL);
}

EITP__PRIVATE eitp_tensor *eitp__scalar_like(const eitp_tensor *x, double value) {
    const int64_t one[1] = {1};
    return x ? eitp_fill(x->graph, x->dtype, 1, one, value) : NULL;
}

/*
 * Returns a tensor with x's shape, dtype and rows, for uses that do not read its values. Usually this is x itself. For
 * a vector computed element by element from a leaf, it is the leaf. For a vector computed element by element from
 * losses of LINEAR_CROSS_ENTROPY, it is their targets, so the gradient of a sum of losses does not wait for the losses:
 * see plan_head.c.
 */
static eitp_tensor *eitp__shape_source(eitp_tensor *x) {
    eitp_tensor *from = x;
    while (from && from->node && from->node->op != EITP__OP_LINEAR_CROSS_ENTROPY) {
        const eitp__node *node = from->node;
        from = NULL;
        for (int i = 0; i < node->input_count && !from && x->rank == 1; i++) {
            eitp_tensor *input = node->inputs[i];
            if (input && input->rows && input->dtype == x->dtype && eitp__same_shape(input, x))
                from = input;
        }
    }
    if (!from || from->node == NULL)
        return from ? from : x;
    return from == from->node->outputs[0] ? eitp_cast(from->node->inputs[2], x->dtype) : x;
}

EITP__PRIVATE eitp_tensor *eitp__fill_like(eitp_tensor *x, double value) {
    eitp_tensor *always;
    const int64_t one[1] = {1};
    if (!x)
        return NULL;
    if (!x->rows)
        return eitp_fill(x->graph, x->dtype, x->rank, x->shape, value);
    /* Selecting against x gives the result x's rows; the values of x are not read. */
    always = eitp_fill(x->graph, EITP_U8, 1, one, 1);
    return eitp_where(always, eitp__scalar_like(x, value), eitp__shape_source(x));
}

/* ---- Gradients ---- */

EITP__PRIVATE eitp_tensor *eitp__sum_to(eitp_tensor *x, const eitp_tensor *like) {
    eitp__attributes sums = EITP__ZERO, shape = EITP__ZERO;
    int extra;
    eitp_tensor *sum = x;
    if (!x || eitp__same_shape(x, like))
        return x;
    extra = x->rank - like->rank;
    for (int d = 0; d < x->rank; d++) {
        if (d < extra || (like->shape[d - extra] == 1 && x->shape[d] != 1))
            sums.integers[0] |= 1 << d;
    }
    /* Does not use eitp_sum and eitp_reshape, whose modules use this function. */
    if (sums.integers[0])
        sum = eitp__apply(EITP__OP_SUM, &x, 1, &sums);
    shape.rank = like->rank;
    memcpy(shape.shape, like->shape, sizeof shape.shape);
    return extra ? eitp__apply(EITP__OP_RESHAPE, &sum, 1, &shape) : sum;
}

/* integers[0] marks the addition for plans. */
static eitp_tensor *eitp__add_as(eitp_tensor *a, eitp_tensor *b, int kind) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = kind;
    inputs[0] = a;
    inputs[1] = b;
    return eitp__apply(EITP__OP_ADD, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__add_unfused(eitp_tensor *a, eitp_tensor *b) {
    return eitp__add_as(a, b, EITP__ADD_UNFUSED);
}

EITP__PRIVATE eitp_tensor *eitp__continue_sum(eitp_tensor *sum, eitp_tensor *product) {
    return eitp__add_as(sum, product, EITP__ADD_CONTINUES);
}

EITP__PRIVATE void eitp__add_gradient(eitp_tensor **dx, eitp_tensor *contribution) {
    *dx = *dx && contribution ? eitp_add(*dx, contribution) : contribution ? contribution : *dx;
}

EITP__PRIVATE void eitp__gradient_none(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    (void)node;
    (void)dy;
    (void)dx;
}

static void eitp__gradient_negate(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    (void)node;
    eitp__add_gradient(&dx[0], eitp_negate(dy[0]));
}

static void eitp__gradient_abs(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *zero = eitp__scalar_like(x, 0);
    eitp_tensor *below = eitp_where(eitp_less(x, zero), eitp_negate(dy[0]), zero);
    eitp__add_gradient(&dx[0], eitp_where(eitp_less(zero, x), dy[0], below));
}

static void eitp__gradient_exp(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], node->outputs[0]));
}

static void eitp__gradient_log(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_divide(dy[0], node->inputs[0]));
}

static void eitp__gradient_sqrt(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_divide(eitp_affine(dy[0], 0.5, 0), node->outputs[0]));
}

/* y' = -y^3 / 2 */
static void eitp__gradient_rsqrt(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *y = node->outputs[0], *cube = eitp_multiply(y, eitp_multiply(y, y));
    eitp__add_gradient(&dx[0], eitp_multiply(eitp_affine(dy[0], -0.5, 0), cube));
}

static void eitp__gradient_sin(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_cos(node->inputs[0])));
}

static void eitp__gradient_cos(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_negate(eitp_multiply(dy[0], eitp_sin(node->inputs[0]))));
}

/* y' = 1 - y^2 */
static void eitp__gradient_tanh(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *y = node->outputs[0];
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_affine(eitp_multiply(y, y), -1, 1)));
}

/* y' = y (1 - y) */
static void eitp__gradient_sigmoid(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *y = node->outputs[0];
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_multiply(y, eitp_affine(y, -1, 1))));
}

static void eitp__gradient_relu(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *zero = eitp__scalar_like(node->inputs[0], 0);
    eitp__add_gradient(&dx[0], eitp_where(eitp_less(zero, node->inputs[0]), dy[0], zero));
}

/* y' = 2 / sqrt(pi) exp(-x^2) */
static void eitp__gradient_erf(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *bell = eitp_exp(eitp_negate(eitp_multiply(x, x)));
    eitp__add_gradient(&dx[0], eitp_multiply(dy[0], eitp_affine(bell, 1.1283791670955126, 0)));
}

static void eitp__gradient_affine(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_affine(dy[0], node->attributes.reals[0], 0));
}

static void eitp__gradient_clamp(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *zero = eitp__scalar_like(x, 0);
    eitp_tensor *below = eitp_less(x, eitp__scalar_like(x, node->attributes.reals[0]));
    eitp_tensor *above = eitp_less(eitp__scalar_like(x, node->attributes.reals[1]), x);
    eitp__add_gradient(&dx[0], eitp_where(below, zero, eitp_where(above, zero, dy[0])));
}

static void eitp__gradient_cast(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    if (eitp__is_floating(node->inputs[0]->dtype) && eitp__is_floating(node->outputs[0]->dtype))
        eitp__add_gradient(&dx[0], eitp_cast(dy[0], eitp__gradient_dtype(node->inputs[0])));
}

static void eitp__gradient_add(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(dy[0], node->inputs[1]));
}

static void eitp__gradient_subtract(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_negate(dy[0]), node->inputs[1]));
}

static void eitp__gradient_multiply(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(eitp_multiply(dy[0], node->inputs[1]), node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_multiply(dy[0], node->inputs[0]), node->inputs[1]));
}

static void eitp__gradient_divide(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *da = eitp_divide(dy[0], node->inputs[1]);
    eitp__add_gradient(&dx[0], eitp__sum_to(da, node->inputs[0]));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_negate(eitp_multiply(da, node->outputs[0])), node->inputs[1]));
}

/* The gradient goes to the selected operand. Equal operands get half each; if either is NaN, both get all of it. */
static void eitp__gradient_minmax(const eitp__node *node, eitp_tensor *dy, eitp_tensor **dx, int is_maximum) {
    eitp_tensor *a = node->inputs[0], *b = node->inputs[1], *zero = eitp__scalar_like(dy, 0);
    eitp_tensor *shared = eitp_where(eitp_equal(a, b), eitp_affine(dy, 0.5, 0), dy);
    eitp_tensor *is_not_a = is_maximum ? eitp_less(a, b) : eitp_less(b, a);
    eitp_tensor *is_not_b = is_maximum ? eitp_less(b, a) : eitp_less(a, b);
    eitp__add_gradient(&dx[0], eitp__sum_to(eitp_where(is_not_a, zero, shared), a));
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_where(is_not_b, zero, shared), b));
}

static void eitp__gradient_minimum(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__gradient_minmax(node, dy[0], dx, 0);
}

static void eitp__gradient_maximum(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__gradient_minmax(node, dy[0], dx, 1);
}

static void eitp__gradient_where(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *zero = eitp__scalar_like(dy[0], 0);
    eitp__add_gradient(&dx[1], eitp__sum_to(eitp_where(node->inputs[0], dy[0], zero), node->inputs[1]));
    eitp__add_gradient(&dx[2], eitp__sum_to(eitp_where(node->inputs[0], zero, dy[0]), node->inputs[2]));
}

/* ---- Rows ---- */

static eitp_tensor *eitp__rows_fill(const eitp__node *node, int64_t begin, int64_t end) {
    const eitp_tensor *y = node->outputs[0];
    int64_t shape[EITP_MAX_RANK];
    memcpy(shape, y->shape, sizeof shape);
    shape[0] = end - begin;
    return eitp_fill(node->graph, y->dtype, y->rank, shape, node->attributes.reals[0]);
}

static eitp_tensor *eitp__rows_cast(const eitp__node *node, int64_t begin, int64_t end) {
    return eitp_cast(eitp__rows(node->inputs[0], begin, end), node->outputs[0]->dtype);
}

static int eitp__is_zeros(const eitp_tensor *x) {
    return x && x->node && x->node->op == EITP__OP_FILL && x->node->attributes.reals[0] == 0;
}

static eitp_tensor *eitp__rows_add(const eitp__node *node, int64_t begin, int64_t end) {
    eitp_tensor *a = node->inputs[0], *b = node->inputs[1];
    if (!eitp__same_shape(a, b))
        return NULL;
    a = eitp__rows(a, begin, end);
    b = eitp__rows(b, begin, end);
    if (eitp__is_zeros(b) || eitp__is_zeros(a))
        return eitp__is_zeros(b) ? a : b;
    return node->attributes.integers[0] ? eitp__add_unfused(a, b) : eitp_add(a, b);
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__add_epilogue(eitp__op_info *op, eitp__epilogue epilogue, int product, int operand) {
    int i = 0;
    while (op->epilogues[i].epilogue)
        i++;
    op->epilogues[i].epilogue = epilogue;
    op->epilogues[i].product = product;
    op->epilogues[i].operand = operand;
}

EITP__PRIVATE void eitp__define_elementwise(eitp__op_info *op, int inputs, eitp__gradient_rule *gradient) {
    op->min_inputs = op->max_inputs = inputs;
    op->shape = inputs == 1 ? eitp__shape_unary : eitp__shape_binary;
    op->gradient = gradient;
    op->flops = eitp__flops_elements;
    op->reuse = inputs == 1 ? EITP__FIRST : EITP__FIRST | EITP__SECOND;
}

EITP__PRIVATE void eitp__define_backward(eitp__op_info *op, eitp__op_code of, eitp_work work, int inputs,
                                         eitp__shape_rule *shape) {
    op->backward_of = (int)of + 1;
    op->work = work;
    op->min_inputs = op->max_inputs = inputs;
    op->shape = shape;
    op->flops = eitp__flops_elements;
}

/* Returns the inputs that are broadcast over rows. If the last dimension is summed too, kernels may sum within a row
   first, or in a wider dtype. */
static unsigned eitp__row_sums_of_broadcast(const eitp__node *node) {
    const eitp_tensor *y = node->outputs[0];
    unsigned sums = 0;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        const int is_broadcast = x->rank < y->rank || (x->rank && x->shape[0] == 1 && y->shape[0] != 1);
        if (is_broadcast && x->rank && x->shape[x->rank - 1] > 1 && x->shape[x->rank - 1] == y->shape[y->rank - 1])
            sums |= 1u << i;
    }
    return sums;
}

static void eitp__define_binary(eitp__op_info *op, eitp__gradient_rule *gradient) {
    eitp__define_elementwise(op, 2, gradient);
    op->row_sums_of = eitp__row_sums_of_broadcast;
}

EITP__PRIVATE void eitp__op_fill(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 0;
    op->shape = eitp__shape_fill;
    op->gradient = eitp__gradient_none;
    op->rows = eitp__rows_fill;
    op->is_constant = 1;
}

EITP__PRIVATE void eitp__op_arange(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 0;
    op->shape = eitp__shape_arange;
    op->gradient = eitp__gradient_none;
}

EITP__PRIVATE void eitp__op_negate(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_negate);
}

EITP__PRIVATE void eitp__op_abs(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_abs);
}

EITP__PRIVATE void eitp__op_exp(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_exp);
}

EITP__PRIVATE void eitp__op_log(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_log);
}

EITP__PRIVATE void eitp__op_sqrt(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_sqrt);
}

EITP__PRIVATE void eitp__op_rsqrt(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_rsqrt);
}

EITP__PRIVATE void eitp__op_sin(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_sin);
}

EITP__PRIVATE void eitp__op_cos(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_cos);
}

EITP__PRIVATE void eitp__op_tanh(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_tanh);
}

EITP__PRIVATE void eitp__op_sigmoid(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_sigmoid);
}

EITP__PRIVATE void eitp__op_relu(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_relu);
    op->work = EITP_WORK_ACTIVATION;
}

EITP__PRIVATE void eitp__op_erf(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_erf);
}

EITP__PRIVATE void eitp__op_affine(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_affine);
}

EITP__PRIVATE void eitp__op_clamp(eitp__op_info *op) {
    eitp__define_elementwise(op, 1, eitp__gradient_clamp);
}

EITP__PRIVATE void eitp__op_cast(eitp__op_info *op) {
    op->shape = eitp__shape_cast;
    op->gradient = eitp__gradient_cast;
    op->rows = eitp__rows_cast;
}

EITP__PRIVATE void eitp__op_add(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_add);
    op->rows = eitp__rows_add;
    eitp__add_epilogue(op, EITP__EPILOGUE_ADD, 1, 0);
    eitp__add_epilogue(op, EITP__EPILOGUE_ADD, 0, 1);
}

EITP__PRIVATE void eitp__op_subtract(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_subtract);
}

EITP__PRIVATE void eitp__op_multiply(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_multiply);
}

EITP__PRIVATE void eitp__op_divide(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_divide);
}

EITP__PRIVATE void eitp__op_minimum(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_minimum);
}

EITP__PRIVATE void eitp__op_maximum(eitp__op_info *op) {
    eitp__define_binary(op, eitp__gradient_maximum);
}

EITP__PRIVATE void eitp__op_less(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_compare;
    op->gradient = eitp__gradient_none;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_equal(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_compare;
    op->gradient = eitp__gradient_none;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_where(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 3;
    op->shape = eitp__shape_where;
    op->gradient = eitp__gradient_where;
    op->dtype_input = 2;
}
