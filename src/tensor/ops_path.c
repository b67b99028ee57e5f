/* Products of a vector and the absolute values or squares of a matrix: builder, shapes, gradients, expansions. */
#include "tensor/internal_ops.h"
#include "tensor/op_rules.h"

static eitp_tensor *eitp__path_node(eitp_tensor *x, eitp_tensor *weight, int64_t power, int transposed) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = power;
    inputs[0] = weight;
    inputs[1] = x;
    return eitp__apply(transposed ? EITP__OP_PATH_PRODUCT_TRANSPOSED : EITP__OP_PATH_PRODUCT, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__path_product(eitp_tensor *x, eitp_tensor *weight, int power, int transpose) {
    return eitp__path_node(x, weight, power, transpose != 0);
}

static int eitp__is_transposed_path(const eitp__node *node) {
    return node->op == EITP__OP_PATH_PRODUCT_TRANSPOSED;
}

/* True for a vector of `count` wide elements, which may be a matrix of one row. */
static int eitp__is_path_vector(const eitp_tensor *x, const eitp_tensor *weight, int64_t count) {
    return (x->rank == 1 || (x->rank == 2 && x->shape[0] == 1)) && eitp__elements(x) == count && !x->rows &&
           x->dtype == eitp__wide(weight->dtype);
}

static eitp_status eitp__check_path_weight(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *weight = node->inputs[0];
    const int64_t power = node->attributes.integers[0];
    eitp_status status =
        eitp__require(power == 1 || power == 2, error, "power is %lld; it must be 1 or 2", (long long)power);
    return status ? status
                  : eitp__require(weight->rank == 2 && !weight->rows && eitp__is_floating(weight->dtype), error,
                                  "weight must be a floating-point matrix with a fixed number of rows");
}

static eitp_status eitp__shape_path_product(eitp__node *node, eitp_error *error) {
    const eitp_tensor *weight = node->inputs[0], *x = node->inputs[1];
    const int transposed = eitp__is_transposed_path(node);
    int64_t shape[2] = {1, 1};
    char text[100];
    eitp_status status = eitp__check_path_weight(node, error);
    if (!status)
        status =
            eitp__require(eitp__is_path_vector(x, weight, weight->shape[transposed]), error,
                          "x must be %s [%lld] or [1, %lld], not %s %s", eitp_dtype_name(eitp__wide(weight->dtype)),
                          (long long)weight->shape[transposed], (long long)weight->shape[transposed],
                          eitp_dtype_name(x->dtype), eitp__shape_text(x, text, sizeof text));
    if (status)
        return status;
    shape[x->rank - 1] = weight->shape[!transposed];
    return eitp__node_output(node, x->dtype, x->rank, shape, 0, error);
}

static eitp_status eitp__shape_path_product_backward(eitp__node *node, eitp_error *error) {
    const eitp_tensor *weight = node->inputs[0];
    eitp_status status = eitp__check_path_weight(node, error);
    if (!status)
        status = eitp__require(eitp__is_path_vector(node->inputs[1], weight, weight->shape[0]) &&
                                   eitp__is_path_vector(node->inputs[2], weight, weight->shape[1]),
                               error, "factors must be vectors of the weight's rows and columns");
    return status ? status : eitp__node_output(node, eitp__wide(weight->dtype), 2, weight->shape, 0, error);
}

/* ---- Gradients ---- */

/* `by_rows` and `by_columns` are factors of each element: one per row, one per column. */
static eitp_tensor *eitp__path_gradient(eitp_tensor *weight, eitp_tensor *by_rows, eitp_tensor *by_columns,
                                        const eitp__attributes *attributes) {
    eitp_tensor *inputs[3];
    inputs[0] = weight;
    inputs[1] = by_rows;
    inputs[2] = by_columns;
    return eitp__apply(EITP__OP_PATH_PRODUCT_BACKWARD, inputs, 3, attributes);
}

static void eitp__gradient_path_product(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *weight = node->inputs[0], *x = node->inputs[1];
    const int transposed = eitp__is_transposed_path(node);
    eitp__add_gradient(&dx[0],
                       eitp__path_gradient(weight, transposed ? dy[0] : x, transposed ? x : dy[0], &node->attributes));
    eitp__add_gradient(&dx[1], eitp__path_node(dy[0], weight, node->attributes.integers[0], !transposed));
}

/* Reshapes a vector to a matrix of one row or one column. */
static eitp_tensor *eitp__path_matrix(eitp_tensor *x, int is_column) {
    int64_t shape[2] = {1, 1};
    shape[!is_column] = -1;
    return eitp_reshape(x, 2, shape);
}

static void eitp__expand_path_product(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *weight = node->inputs[0], *y;
    weight = node->attributes.integers[0] == 1 ? eitp_abs(weight) : eitp_multiply(weight, weight);
    y = eitp_matmul_transposed(eitp__path_matrix(node->inputs[1], 0), weight, 0, eitp__is_transposed_path(node));
    outputs[0] = eitp_reshape(y, node->outputs[0]->rank, node->outputs[0]->shape);
}

/* p sign(weight) |weight|^(p - 1) times the product of a column and a row. */
static void eitp__expand_path_product_backward(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *weight = node->inputs[0], *zero = eitp__scalar_like(weight, 0), *slope;
    eitp_tensor *product = eitp_multiply(eitp__path_matrix(node->inputs[1], 1), eitp__path_matrix(node->inputs[2], 0));
    if (node->attributes.integers[0] == 1) {
        slope = eitp_where(eitp_less(weight, zero), eitp__scalar_like(weight, -1), zero);
        slope = eitp_where(eitp_less(zero, weight), eitp__scalar_like(weight, 1), slope);
    } else {
        slope = eitp_affine(weight, 2, 0);
    }
    outputs[0] = eitp_multiply(slope, product);
}

/* Computes rows of the gradient from rows of the weight, and from the same elements of the first factor. */
static eitp_tensor *eitp__rows_path_product_backward(const eitp__node *node, int64_t begin, int64_t end) {
    return eitp__path_gradient(eitp__rows(node->inputs[0], begin, end), eitp_slice(node->inputs[1], -1, begin, end),
                               node->inputs[2], &node->attributes);
}

/* ---- Entries of the table of ops ---- */

static void eitp__define_path_product(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_path_product;
    op->gradient = eitp__gradient_path_product;
    op->expand = eitp__expand_path_product;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_path_product(eitp__op_info *op) {
    eitp__define_path_product(op);
}

EITP__PRIVATE void eitp__op_path_product_transposed(eitp__op_info *op) {
    eitp__define_path_product(op);
}

EITP__PRIVATE void eitp__op_path_product_backward(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 3;
    op->shape = eitp__shape_path_product_backward;
    op->expand = eitp__expand_path_product_backward;
    op->rows = eitp__rows_path_product_backward;
    op->flops = eitp__flops_elements;
    op->accumulates = EITP__ACCUMULATES_WIDE;
}
