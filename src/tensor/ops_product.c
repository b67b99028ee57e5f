/* Matrix products and the linear layer: builders, shapes, gradients. */
#include "tensor/op_rules.h"

/* Returns the extent of the outer or the inner one of an operand's last two dimensions. */
static int64_t eitp__product_extent(const eitp_tensor *x, int transposed, int outer_first) {
    int last = transposed == outer_first;
    return x->shape[x->rank - 2 + last];
}

/* Handles matrices with a capacity of rows: either a's rows are the result's, or both operands are summed over their
   rows. */
static eitp_status eitp__matrices_rows(const eitp_tensor *a, const eitp_tensor *b, int transpose_a, int transpose_b,
                                       int *rows, eitp_error *error) {
    const int a_sum = a->rows && transpose_a, b_sum = b->rows && !transpose_b;
    *rows = a->rows && !transpose_a;
    return eitp__require(a_sum == b_sum && !(b->rows && transpose_b), error,
                         "one operand has a capacity of rows, the other a fixed number of rows");
}

/* Handles batches whose leading dimension is the capacity, which is then the result's: the other operand must have the
   same, or a single matrix for all. */
static eitp_status eitp__batches_rows(const eitp_tensor *a, const eitp_tensor *b, int *rows, eitp_error *error) {
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    const int a_varies = a->rank == rank && a->shape[0] != 1, b_varies = b->rank == rank && b->shape[0] != 1;
    *rows = a->rows || b->rows;
    if ((a->rows && a->rank < rank) || (b->rows && b->rank < rank))
        return eitp__require(0, error,
                             "a matrix whose leading dimension is the capacity cannot be multiplied by a batch");
    return eitp__require(!*rows || ((a->rows || !a_varies) && (b->rows || !b_varies)), error,
                         "one operand has a capacity of rows, the other a fixed number of rows");
}

static eitp_status eitp__shape_matmul(eitp__node *node, eitp_error *error) {
    const eitp_tensor *a = node->inputs[0], *b = node->inputs[1];
    const eitp_tensor *bias = node->input_count > 2 ? node->inputs[2] : NULL;
    int transpose_a = (int)node->attributes.integers[0], transpose_b = (int)node->attributes.integers[1];
    int64_t shape[EITP_MAX_RANK], n;
    int rank = a->rank > b->rank ? a->rank : b->rank, rows = 0;
    char left[100], right[100];
    int fits = a->rank >= 2 && b->rank >= 2 && a->dtype == b->dtype && eitp__is_floating(a->dtype);
    eitp_status status;
    if (fits)
        fits = eitp__product_extent(a, transpose_a, 0) == eitp__product_extent(b, transpose_b, 1);
    for (int d = 0; d < rank - 2 && fits; d++) {
        int ad = d - (rank - a->rank), bd = d - (rank - b->rank);
        int64_t ae = ad >= 0 ? a->shape[ad] : 1, be = bd >= 0 ? b->shape[bd] : 1;
        fits = ae == be || ae == 1 || be == 1;
        shape[d] = ae > be ? ae : be;
    }
    if (!fits)
        return eitp__require(0, error, "%s %s%s and %s %s%s cannot be multiplied", eitp_dtype_name(a->dtype),
                             eitp__shape_text(a, left, sizeof left), transpose_a ? " transposed" : "",
                             eitp_dtype_name(b->dtype), eitp__shape_text(b, right, sizeof right),
                             transpose_b ? " transposed" : "");
    n = eitp__product_extent(b, transpose_b, 0);
    shape[rank - 2] = eitp__product_extent(a, transpose_a, 1);
    shape[rank - 1] = n;
    status = eitp__require(!bias || (bias->rank == 1 && bias->shape[0] == n && bias->dtype == eitp__wide(a->dtype)),
                           error, "bias must be %s [%lld]", eitp_dtype_name(eitp__wide(a->dtype)), (long long)n);
    if (!status)
        status = rank > 2 ? eitp__batches_rows(a, b, &rows, error)
                          : eitp__matrices_rows(a, b, transpose_a, transpose_b, &rows, error);
    return status ? status : eitp__node_output(node, node->attributes.dtype, rank, shape, rows, error);
}

static double eitp__flops_matmul(const eitp__node *node) {
    return 2.0 * (double)eitp__elements(node->outputs[0]) *
           (double)eitp__product_extent(node->inputs[0], (int)node->attributes.integers[0], 0);
}

EITP__PRIVATE eitp_tensor *eitp__matmul_node(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a,
                                             int transpose_b, eitp_dtype dtype) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    attributes.integers[0] = transpose_a != 0;
    attributes.integers[1] = transpose_b != 0;
    attributes.dtype = dtype;
    inputs[0] = a;
    inputs[1] = b;
    inputs[2] = bias;
    return eitp__apply(EITP__OP_MATMUL, inputs, bias ? 3 : 2, &attributes);
}

/* A batch of matrices times one matrix is computed as one product of all rows, unless their number varies. */
static eitp_tensor *eitp__product(eitp_tensor *a, eitp_tensor *b, eitp_tensor *bias, int transpose_a, int transpose_b,
                                  int wide) {
    int64_t shape[EITP_MAX_RANK], flat[2];
    eitp_dtype dtype;
    eitp_tensor *y;
    if (!a || !b)
        return NULL;
    dtype = wide ? eitp__wide(a->dtype) : a->dtype;
    if (a->rank < 3 || b->rank != 2 || transpose_a || a->rows)
        return eitp__matmul_node(a, b, bias, transpose_a, transpose_b, dtype);
    flat[0] = -1;
    flat[1] = a->shape[a->rank - 1];
    y = eitp__matmul_node(eitp_reshape(a, 2, flat), b, bias, 0, transpose_b, dtype);
    if (!y)
        return NULL;
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = y->shape[1];
    return eitp_reshape(y, a->rank, shape);
}

eitp_tensor *eitp_matmul(eitp_tensor *a, eitp_tensor *b) {
    return eitp__product(a, b, NULL, 0, 0, 0);
}

eitp_tensor *eitp_matmul_transposed(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b) {
    return eitp__product(a, b, NULL, transpose_a, transpose_b, 0);
}

eitp_tensor *eitp_matmul_wide(eitp_tensor *a, eitp_tensor *b, int transpose_a, int transpose_b) {
    return eitp__product(a, b, NULL, transpose_a, transpose_b, 1);
}

EITP__PRIVATE eitp_tensor *eitp__activate(eitp_tensor *y, eitp_activation activation) {
    switch (activation) {
    case EITP_RELU:
        return eitp_relu(y);
    case EITP_GELU_TANH:
        return eitp_gelu_tanh(y);
    case EITP_GELU_ERF:
        return eitp_gelu_erf(y);
    case EITP_TANH:
        return eitp_tanh(y);
    case EITP_SIGMOID:
        return eitp_sigmoid(y);
    case EITP_SILU:
        return eitp_silu(y);
    case EITP_NO_ACTIVATION:
    default:
        return y;
    }
}

eitp_tensor *eitp_linear(eitp_tensor *x, eitp_tensor *weight, eitp_tensor *bias, eitp_activation activation) {
    if (x && (unsigned)activation > EITP_SILU) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "linear: unknown activation %d", (int)activation);
        return NULL;
    }
    return eitp__activate(eitp__product(x, weight, bias, 0, 0, 0), activation);
}

static void eitp__gradient_matmul(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *a = node->inputs[0], *b = node->inputs[1], *d = eitp_cast(dy[0], a->dtype), *da, *db;
    eitp_dtype da_dtype = eitp__gradient_dtype(a), db_dtype = eitp__gradient_dtype(b);
    int ta = (int)node->attributes.integers[0], tb = (int)node->attributes.integers[1];
    /* dA = dY B^T and dB = A^T dY, with operands and results in their stored orientation. */
    da = ta ? eitp__matmul_node(b, d, NULL, tb, 1, da_dtype) : eitp__matmul_node(d, b, NULL, 0, !tb, da_dtype);
    db = tb ? eitp__matmul_node(d, a, NULL, 1, ta, db_dtype) : eitp__matmul_node(a, d, NULL, !ta, 0, db_dtype);
    eitp__add_gradient(&dx[0], eitp__sum_to(da, a));
    eitp__add_gradient(&dx[1], eitp__sum_to(db, b));
    if (node->input_count > 2)
        eitp__add_gradient(&dx[2], eitp_sum(dy[0], (1u << (dy[0]->rank - 1)) - 1, 0));
}

/* Computes rows of a product from rows of its first factor, or from columns if that is transposed. */
static eitp_tensor *eitp__rows_matmul(const eitp__node *node, int64_t begin, int64_t end) {
    eitp_tensor *a = node->inputs[0];
    int transposed = (int)node->attributes.integers[0];
    if (a->rank != 2 || node->inputs[1]->rank != 2)
        return NULL;
    return eitp__matmul_node(transposed ? eitp_slice(a, 1, begin, end) : eitp__rows(a, begin, end), node->inputs[1],
                             node->input_count > 2 ? node->inputs[2] : NULL, transposed,
                             (int)node->attributes.integers[1], node->outputs[0]->dtype);
}

/* ---- Entries of the table of ops ---- */

/* Returns the weight and the bias, which rows are multiplied by and added to. */
static unsigned eitp__row_sums_of_matmul(const eitp__node *node) {
    const eitp_tensor *a = node->inputs[0], *b = node->inputs[1];
    const int is_weight = !node->attributes.integers[0] && (a->rank > b->rank || b->rank == 2);
    return (is_weight ? EITP__SECOND : 0) | EITP__THIRD;
}

EITP__PRIVATE void eitp__op_matmul(eitp__op_info *op) {
    op->work = EITP_WORK_PRODUCT;
    op->min_inputs = 2;
    op->max_inputs = 3;
    op->shape = eitp__shape_matmul;
    op->gradient = eitp__gradient_matmul;
    op->rows = eitp__rows_matmul;
    op->flops = eitp__flops_matmul;
    op->accumulates = EITP__ACCUMULATES_WIDE;
    op->is_product = 1;
    op->operand = 3;
    op->row_sums_of = eitp__row_sums_of_matmul;
}
