/* Rows of a tensor: views, and rules that compute rows of a result without the others. */
#include "tensor/op_rules.h"

/* integers: first row, end row. */
EITP__PRIVATE eitp_status eitp__shape_rows(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t begin = node->attributes.integers[0], end = node->attributes.integers[1], shape[EITP_MAX_RANK];
    eitp_status status =
        eitp__require(x->rank > 0 && !x->rows && begin >= 0 && begin < end && end <= x->shape[0], error,
                      "rows %lld to %lld are outside the tensor, or its number of rows varies between executions",
                      (long long)begin, (long long)end);
    if (status)
        return status;
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = end - begin;
    status = eitp__node_output(node, x->dtype, x->rank, shape, 0, error);
    if (!status)
        node->outputs[0]->first = begin * (eitp__elements(x) / x->shape[0]);
    return status;
}

EITP__PRIVATE void eitp__gradient_rows(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int64_t begin = node->attributes.integers[0], end = node->attributes.integers[1];
    eitp_tensor *rows = eitp_cast(dy[0], eitp__gradient_dtype(node->inputs[0]));
    eitp__add_gradient(&dx[0], eitp_pad(rows, 0, begin, node->inputs[0]->shape[0] - end));
}

static eitp_tensor *eitp__rows_view(eitp_tensor *x, int64_t begin, int64_t end) {
    eitp__attributes attributes = EITP__ZERO;
    attributes.integers[0] = begin;
    attributes.integers[1] = end;
    return eitp__apply(EITP__OP_ROWS, &x, 1, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__rows(eitp_tensor *x, int64_t begin, int64_t end) {
    eitp_tensor *(*rule)(const eitp__node *node, int64_t begin, int64_t end);
    eitp_tensor *rows = NULL;
    if (!x || (begin == 0 && x->rank && end == x->shape[0]))
        return x;
    rule = x->node && x->node->outputs[0] == x ? eitp__op(x->node->graph, x->node->op)->rows : NULL;
    if (rule)
        rows = rule(x->node, begin, end);
    return rows ? rows : eitp__rows_view(x, begin, end);
}

EITP__PRIVATE eitp_tensor *eitp__rows_fill(const eitp__node *node, int64_t begin, int64_t end) {
    const eitp_tensor *y = node->outputs[0];
    int64_t shape[EITP_MAX_RANK];
    memcpy(shape, y->shape, sizeof shape);
    shape[0] = end - begin;
    return eitp_fill(node->graph, y->dtype, y->rank, shape, node->attributes.reals[0]);
}

EITP__PRIVATE eitp_tensor *eitp__rows_cast(const eitp__node *node, int64_t begin, int64_t end) {
    return eitp_cast(eitp__rows(node->inputs[0], begin, end), node->outputs[0]->dtype);
}

static int eitp__is_zeros(const eitp_tensor *x) {
    return x && x->node && x->node->op == EITP__OP_FILL && x->node->attributes.reals[0] == 0;
}

EITP__PRIVATE eitp_tensor *eitp__rows_add(const eitp__node *node, int64_t begin, int64_t end) {
    eitp_tensor *a = node->inputs[0], *b = node->inputs[1];
    if (!eitp__same_shape(a, b))
        return NULL;
    a = eitp__rows(a, begin, end);
    b = eitp__rows(b, begin, end);
    if (eitp__is_zeros(b) || eitp__is_zeros(a))
        return eitp__is_zeros(b) ? a : b;
    return node->attributes.integers[0] ? eitp__add_unfused(a, b) : eitp_add(a, b);
}

/* Pads the rows of x that fall into [begin, end); zeros if there are none. */
EITP__PRIVATE eitp_tensor *eitp__rows_pad(const eitp__node *node, int64_t begin, int64_t end) {
    eitp_tensor *x = node->inputs[0];
    const eitp_tensor *y = node->outputs[0];
    eitp__attributes attributes = node->attributes;
    int64_t start = attributes.integers[0], first, stop;
    first = begin > start ? begin : start;
    stop = end < start + x->shape[0] ? end : start + x->shape[0];
    memcpy(attributes.shape, y->shape, sizeof attributes.shape);
    attributes.shape[0] = end - begin;
    if (first >= stop)
        return eitp_fill(node->graph, y->dtype, y->rank, attributes.shape, 0);
    attributes.integers[0] = first - begin;
    x = eitp__rows(x, first - start, stop - start);
    return eitp__apply(EITP__OP_PAD, &x, 1, &attributes);
}

/* Rows of a product come from rows of its first factor, or from columns if that is transposed. */
EITP__PRIVATE eitp_tensor *eitp__rows_matmul(const eitp__node *node, int64_t begin, int64_t end) {
    eitp_tensor *a = node->inputs[0];
    int transposed = (int)node->attributes.integers[0];
    if (a->rank != 2 || node->inputs[1]->rank != 2)
        return NULL;
    return eitp__matmul_node(transposed ? eitp_slice(a, 1, begin, end) : eitp__rows(a, begin, end), node->inputs[1],
                             node->input_count > 2 ? node->inputs[2] : NULL, transposed,
                             (int)node->attributes.integers[1], node->outputs[0]->dtype);
}

EITP__PRIVATE eitp_tensor *eitp__rows_embedding_backward(const eitp__node *node, int64_t begin, int64_t end) {
    eitp__attributes attributes = node->attributes;
    attributes.integers[0] += begin;
    attributes.shape[0] = end - begin;
    return eitp__apply(EITP__OP_EMBEDDING_BACKWARD, node->inputs, 2, &attributes);
}
