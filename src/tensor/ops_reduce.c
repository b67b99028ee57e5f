/* Reductions: builders, shapes, gradients. */
#include "tensor/op_rules.h"

static eitp_status eitp__shape_reduce(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    int reduces_rows = (int)(node->attributes.integers[0] & 1);
    eitp_dtype dtype = node->op == EITP__OP_SUM      ? eitp__wide(x->dtype)
                       : node->op == EITP__OP_ARGMAX ? EITP_I32
                                                     : x->dtype;
    eitp_status status =
        eitp__require(eitp__is_floating(x->dtype), error, "the operand is %s; cast it to a floating-point dtype",
                      eitp_dtype_name(x->dtype));
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < x->rank; d++) {
        if (node->attributes.integers[0] & (1 << d))
            shape[d] = 1;
    }
    return status ? status : eitp__node_output(node, dtype, x->rank, shape, x->rows && !reduces_rows, error);
}

/* Returns 0 and sets the graph's error if `dimensions` has bits beyond the rank, unless it is EITP_ALL_DIMENSIONS. */
static int eitp__check_dimensions(eitp_tensor *x, unsigned dimensions, const char *op) {
    unsigned beyond = dimensions == EITP_ALL_DIMENSIONS ? 0 : dimensions >> x->rank;
    int dimension = x->rank;
    if (!beyond)
        return 1;
    for (; !(beyond & 1); beyond >>= 1)
        dimension++;
    eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d has no dimension %d (bit i: dimension i)",
                     op, x->rank, dimension);
    return 0;
}

static eitp_tensor *eitp__reduce(eitp__op_code op, eitp_tensor *x, unsigned dimensions, int keep) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *y;
    int64_t shape[EITP_MAX_RANK];
    int rank = 0;
    if (!x || !eitp__check_dimensions(x, dimensions, eitp__op(x->graph, op)->name))
        return NULL;
    dimensions &= (1u << x->rank) - 1;
    attributes.integers[0] = dimensions;
    y = eitp__apply(op, &x, 1, &attributes);
    if (!y || keep)
        return y;
    for (int d = 0; d < x->rank; d++) {
        if (!(dimensions & (1u << d)))
            shape[rank++] = x->shape[d];
    }
    /* A full reduction gives [1], the smallest shape of inputs and losses. */
    if (!rank)
        shape[rank++] = 1;
    return eitp_reshape(y, rank, shape);
}

eitp_tensor *eitp_sum(eitp_tensor *x, unsigned dimensions, int keep) {
    return eitp__reduce(EITP__OP_SUM, x, dimensions, keep);
}

eitp_tensor *eitp_max(eitp_tensor *x, unsigned dimensions, int keep) {
    return eitp__reduce(EITP__OP_MAX, x, dimensions, keep);
}

eitp_tensor *eitp_argmax(eitp_tensor *x, int dimension, int keep) {
    int axis = x && dimension < 0 ? x->rank + dimension : dimension;
    if (!x)
        return NULL;
    if (axis < 0 || axis >= x->rank) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "argmax: a tensor of rank %d has no dimension %d", x->rank,
                         dimension);
        return NULL;
    }
    if (x->shape[axis] > INT32_MAX) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "argmax: dimension %d has %lld elements; i32 indices allow %ld",
                         axis, (long long)x->shape[axis], (long)INT32_MAX);
        return NULL;
    }
    return eitp__reduce(EITP__OP_ARGMAX, x, 1u << axis, keep);
}

eitp_tensor *eitp_mean(eitp_tensor *x, unsigned dimensions, int keep) {
    double count = 1;
    if (!x || !eitp__check_dimensions(x, dimensions, "mean"))
        return NULL;
    if (x->rows && (dimensions & 1)) {
        eitp__graph_fail(
            x->graph, EITP_ERROR_ARGUMENT,
            "mean: the number of rows varies between executions; multiply eitp_sum by an input that is 1 / rows");
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        count *= dimensions & (1u << d) ? (double)x->shape[d] : 1;
    return eitp_affine(eitp_sum(x, dimensions, keep), 1 / count, 0);
}

/* ---- Totals over the passes of a step ---- */

static eitp_status eitp__shape_total(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *totals = node->inputs[1];
    const eitp_tensor *bounds = node->inputs[2], *carry = node->inputs[3];
    const int64_t element = node->attributes.integers[0];
    const int is_by_item = node->attributes.integers[1] != 0;
    int fits = x->dtype == EITP_F32 && totals->dtype == EITP_F64 && totals->rank == 1 && element >= 0 &&
               element < totals->shape[0] && (!carry || (carry->dtype == EITP_F32 && eitp__elements(carry) == 1));
    eitp_status status = eitp__require(totals->storage->leaf == EITP__VARIABLE, error, "totals must be a variable");
    if (!status)
        status = eitp__require(fits, error, "x must be f32, totals f64 [k], and carry f32 [1]");
    if (!status)
        status = eitp__require(!bounds || (bounds->dtype == EITP_I32 && bounds->rank == 2 && bounds->shape[1] == 2 &&
                                           (!is_by_item || bounds->shape[0] == eitp__elements(x))),
                               error, "bounds must be i32 [p, 2]");
    return status ? status : eitp__node_output_like(node, totals, error);
}

EITP__PRIVATE eitp_tensor *eitp__add_total(eitp_tensor *x, eitp_tensor *totals, int64_t element, eitp_tensor *bounds,
                                           int is_by_item, eitp_tensor *carry) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[4];
    inputs[0] = x;
    inputs[1] = totals;
    inputs[2] = bounds;
    inputs[3] = carry;
    attributes.integers[0] = element;
    attributes.integers[1] = is_by_item;
    return eitp__apply(EITP__OP_TOTAL, inputs, 4, &attributes);
}

/* ---- Gradients ---- */

/* Broadcasts dy, which has a reduction's shape, to the shape of x. */
static eitp_tensor *eitp__broadcast_gradient(eitp_tensor *dy, eitp_tensor *x) {
    if (dy && x->rows && !dy->rows)
        return eitp_multiply(dy, eitp__fill_like(x, 1));
    return eitp_broadcast(dy, x->rank, x->shape);
}

static void eitp__gradient_sum(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__broadcast_gradient(eitp_cast(dy[0], node->inputs[0]->dtype), node->inputs[0]));
}

static void eitp__gradient_max(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *x = node->inputs[0], *zero = eitp__scalar_like(x, 0), *one = eitp__scalar_like(x, 1);
    eitp_tensor *is_maximum = eitp_where(eitp_equal(x, node->outputs[0]), one, zero);
    eitp_tensor *count = eitp_cast(eitp_sum(is_maximum, (unsigned)node->attributes.integers[0], 1), x->dtype);
    eitp__add_gradient(&dx[0], eitp_multiply(is_maximum, eitp_divide(dy[0], count)));
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_sum(eitp__op_info *op) {
    op->shape = eitp__shape_reduce;
    op->gradient = eitp__gradient_sum;
    op->flops = eitp__flops_elements;
    op->accumulates = EITP__ACCUMULATES_WIDE;
}

EITP__PRIVATE void eitp__op_max(eitp__op_info *op) {
    op->shape = eitp__shape_reduce;
    op->gradient = eitp__gradient_max;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_argmax(eitp__op_info *op) {
    op->shape = eitp__shape_reduce;
    op->gradient = eitp__gradient_none;
    op->flops = eitp__flops_elements;
}

EITP__PRIVATE void eitp__op_total(eitp__op_info *op) {
    op->min_inputs = 2;
    op->max_inputs = 4;
    op->shape = eitp__shape_total;
    op->flops = eitp__flops_elements;
    op->shares[0] = 2;
}
