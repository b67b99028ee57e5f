/* Ops that move elements: builders, shapes, gradients. */
#include "tensor/op_rules.h"

/* Converts a dimension that may count from the end to a non-negative axis; -1 if there is no such dimension. */
static int eitp__dimension(const eitp_tensor *x, int dimension) {
    int index = dimension < 0 ? x->rank + dimension : dimension;
    return index >= 0 && index < x->rank ? index : -1;
}

/* Like eitp__dimension; also sets the graph's error. */
static int eitp__checked_dimension(eitp_tensor *x, int dimension, const char *op) {
    int index = eitp__dimension(x, dimension);
    if (index < 0)
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d has no dimension %d", op, x->rank,
                         dimension);
    return index;
}

static eitp_status eitp__refuse_rows(int condition, eitp_error *error) {
    return eitp__require(!condition, error, "the leading dimension is a capacity of rows: it cannot be moved or cut");
}

static eitp_status eitp__shape_reshape(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    eitp__attributes *attributes = &node->attributes;
    int64_t known = 1, elements = eitp__elements(x);
    int unknown = -1, keeps_rows;
    char from[100];
    eitp_status status;
    for (int d = 0; d < attributes->rank; d++) {
        if (attributes->shape[d] == -1 && unknown < 0)
            unknown = d;
        else if (attributes->shape[d] < 1 || known > elements / attributes->shape[d])
            return eitp__require(0, error, "%s cannot be reshaped to the given shape",
                                 eitp__shape_text(x, from, sizeof from));
        else
            known *= attributes->shape[d];
    }
    if (unknown >= 0)
        attributes->shape[unknown] = elements / known;
    status = eitp__require(unknown >= 0 ? elements % known == 0 : known == elements, error,
                           "%s cannot be reshaped to the given shape", eitp__shape_text(x, from, sizeof from));
    keeps_rows = attributes->rank > 0 && x->rank > 0 && attributes->shape[0] == x->shape[0];
    if (!status)
        status = eitp__refuse_rows(x->rows && !keeps_rows, error);
    return status ? status : eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

static eitp_status eitp__shape_broadcast(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    int extra = attributes->rank - x->rank;
    char from[100];
    int fits = extra >= 0;
    for (int d = 0; d < x->rank && fits; d++)
        fits = x->shape[d] == 1 || x->shape[d] == attributes->shape[d + extra];
    if (!fits)
        return eitp__require(0, error, "%s does not broadcast to the given shape",
                             eitp__shape_text(x, from, sizeof from));
    if (x->rows && extra)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

static eitp_status eitp__shape_permute(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    unsigned seen = 0;
    eitp_status status;
    for (int d = 0; d < x->rank; d++) {
        int64_t from = node->attributes.integers[d];
        status = eitp__require(from >= 0 && from < x->rank && !(seen & (1u << from)), error,
                               "order is not a permutation of the %d dimensions", x->rank);
        if (status)
            return status;
        seen |= 1u << from;
        shape[d] = x->shape[from];
    }
    status = eitp__refuse_rows(x->rows && node->attributes.integers[0] != 0, error);
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, x->rows, error);
}

static eitp_status eitp__shape_slice(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    for (int d = 0; d < x->rank; d++) {
        int64_t begin = attributes->integers[d], extent = attributes->shape[d];
        eitp_status status = eitp__require(begin >= 0 && extent >= 1 && begin <= x->shape[d] - extent, error,
                                           "%lld elements from %lld on are outside dimension %d, which has %lld",
                                           (long long)extent, (long long)begin, d, (long long)x->shape[d]);
        if (!status && d == 0)
            status = eitp__refuse_rows(x->rows && extent != x->shape[0], error);
        if (status)
            return status;
    }
    return eitp__node_output(node, x->dtype, x->rank, attributes->shape, x->rows, error);
}

static eitp_status eitp__shape_pad(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    for (int d = 0; d < x->rank; d++) {
        int64_t before = attributes->integers[d], extent = attributes->shape[d];
        eitp_status status =
            eitp__require(before >= 0 && before <= extent - x->shape[d], error, "negative padding in dimension %d", d);
        if (!status && d == 0)
            status = eitp__refuse_rows(x->rows && extent != x->shape[0], error);
        if (status)
            return status;
    }
    return eitp__node_output(node, x->dtype, x->rank, attributes->shape, x->rows, error);
}

static eitp_status eitp__shape_concat(eitp__node *node, eitp_error *error) {
    const eitp_tensor *first = node->inputs[0];
    int axis = (int)node->attributes.integers[0], are_parts = 1;
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    memcpy(shape, first->shape, sizeof shape);
    shape[axis] = 0;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        are_parts &= x->first_row == first->first_row + shape[axis];
        int fits = x->rank == first->rank && x->dtype == first->dtype && x->rows == first->rows;
        for (int d = 0; d < first->rank && fits; d++)
            fits = d == axis || x->shape[d] == first->shape[d];
        if (!fits)
            return eitp__require(0, error, "%s and %s cannot be joined along dimension %d",
                                 eitp__shape_text(first, a, sizeof a), eitp__shape_text(x, b, sizeof b), axis);
        shape[axis] += x->shape[axis];
    }
    if (first->rows && axis == 0 && !are_parts)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, first->dtype, first->rank, shape, first->rows, error);
}

static eitp_status eitp__check_indices(const eitp_tensor *x, const eitp_tensor *indices, int axis, eitp_error *error) {
    char a[100], b[100];
    int fits = indices->dtype == EITP_I32 && x->rank == indices->rank && (axis == 0 || x->rows == indices->rows);
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == axis || x->shape[d] == indices->shape[d];
    return eitp__require(fits, error, "%s %s cannot be indexed by %s %s along dimension %d", eitp_dtype_name(x->dtype),
                         eitp__shape_text(x, a, sizeof a), eitp_dtype_name(indices->dtype),
                         eitp__shape_text(indices, b, sizeof b), axis);
}

static eitp_status eitp__shape_gather(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *indices = node->inputs[1];
    int axis = (int)node->attributes.integers[0];
    /* Along axis 0, x is a table, and the result has the rows of the indices. */
    eitp_status status = eitp__check_indices(x, indices, axis, error);
    return status ? status : eitp__node_output(node, x->dtype, indices->rank, indices->shape, indices->rows, error);
}

static eitp_status eitp__shape_scatter_add(eitp__node *node, eitp_error *error) {
    const eitp_tensor *indices = node->inputs[0], *x = node->inputs[1];
    int axis = (int)node->attributes.integers[0];
    int rows = axis == 0 ? (int)node->attributes.integers[2] : x->rows;
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    eitp_status status = eitp__require(indices->dtype == EITP_I32 && eitp__same_shape(x, indices) &&
                                           (axis != 0 || x->rows == indices->rows),
                                       error, "x %s and indices %s must have the same shape",
                                       eitp__shape_text(x, a, sizeof a), eitp__shape_text(indices, b, sizeof b));
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = node->attributes.integers[1];
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, rows, error);
}

/* ---- Builders ---- */

/* Stores the result's shape in the attributes. Returns 0 and sets the graph's error if it is invalid. */
static int eitp__set_shape_attribute(eitp_tensor *x, int rank, const int64_t *shape, eitp__attributes *attributes,
                                     const char *op) {
    if (!x)
        return 0;
    if (rank < 0 || rank > EITP_MAX_RANK) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: rank must be 0 to %d, not %d", op, EITP_MAX_RANK, rank);
        return 0;
    }
    if (rank && !shape) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: shape is NULL", op);
        return 0;
    }
    attributes->rank = rank;
    for (int d = 0; d < rank; d++)
        attributes->shape[d] = shape[d];
    return 1;
}

eitp_tensor *eitp_reshape(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__set_shape_attribute(x, rank, shape, &attributes, "reshape"))
        return NULL;
    return eitp__apply(EITP__OP_RESHAPE, &x, 1, &attributes);
}

eitp_tensor *eitp_broadcast(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__set_shape_attribute(x, rank, shape, &attributes, "broadcast"))
        return NULL;
    return eitp__apply(EITP__OP_BROADCAST, &x, 1, &attributes);
}

eitp_tensor *eitp_permute(eitp_tensor *x, const int *order) {
    eitp__attributes attributes = EITP__ZERO;
    if (!x)
        return NULL;
    if (!order) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "permute: order is NULL");
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        attributes.integers[d] = order[d];
    return eitp__apply(EITP__OP_PERMUTE, &x, 1, &attributes);
}

eitp_tensor *eitp_transpose(eitp_tensor *x) {
    int order[EITP_MAX_RANK];
    if (!x)
        return NULL;
    if (x->rank < 2) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "transpose: a tensor of rank %d has fewer than two dimensions",
                         x->rank);
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        order[d] = d;
    order[x->rank - 1] = x->rank - 2;
    order[x->rank - 2] = x->rank - 1;
    return eitp_permute(x, order);
}

/* Returns 0 and sets the graph's error if [begin, end) is not within the axis. */
static int eitp__check_range(eitp_tensor *x, int axis, int64_t begin, int64_t end, const char *op) {
    if (begin >= 0 && begin < end && end <= x->shape[axis])
        return 1;
    eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: %lld to %lld is outside dimension %d, which has %lld", op,
                     (long long)begin, (long long)end, axis, (long long)x->shape[axis]);
    return 0;
}

eitp_tensor *eitp_slice(eitp_tensor *x, int dimension, int64_t begin, int64_t end) {
    eitp__attributes attributes = EITP__ZERO;
    int axis;
    if (!x || (axis = eitp__checked_dimension(x, dimension, "slice")) < 0)
        return NULL;
    if (!eitp__check_range(x, axis, begin, end, "slice"))
        return NULL;
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[axis] = begin;
    attributes.shape[axis] = end - begin;
    return eitp__apply(EITP__OP_SLICE, &x, 1, &attributes);
}

/* Takes every step-th element from `begin` on, `count` in total. The axis is reshaped into blocks of `step` elements,
   and one element is sliced from each block. The first dimension, which may be the capacity, stays separate. */
static eitp_tensor *eitp__slice_blocks(eitp_tensor *x, int axis, int64_t begin, int64_t count, int64_t step) {
    eitp__attributes attributes = EITP__ZERO;
    int64_t extent = x->shape[axis], first = begin / step, shape[5] = {1, 1, 0, step, 1}, sliced[EITP_MAX_RANK];
    int64_t whole = extent % step ? (first + count) * step : extent;
    eitp_tensor *y = x;
    if (whole != extent)
        y = whole > extent ? eitp_pad(x, axis, 0, whole - extent) : eitp_slice(x, axis, 0, whole);
    shape[2] = whole / step;
    for (int d = 0; d < x->rank; d++) {
        if (d != axis)
            shape[d > axis ? 4 : d > 0] *= x->shape[d];
    }
    memcpy(attributes.shape, shape, sizeof shape);
    attributes.shape[2] = count;
    attributes.shape[3] = 1;
    attributes.integers[2] = first;
    attributes.integers[3] = begin % step;
    y = eitp_reshape(y, 5, shape);
    memcpy(sliced, x->shape, sizeof sliced);
    sliced[axis] = count;
    return eitp_reshape(eitp__apply(EITP__OP_SLICE, &y, 1, &attributes), x->rank, sliced);
}

eitp_tensor *eitp_slice_step(eitp_tensor *x, int dimension, int64_t begin, int64_t end, int64_t step) {
    int64_t count;
    int axis;
    if (!x || (axis = eitp__checked_dimension(x, dimension, "slice_step")) < 0)
        return NULL;
    if (!eitp__check_range(x, axis, begin, end, "slice_step"))
        return NULL;
    if (step < 1) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "slice_step: the step is %lld; it must be 1 or more",
                         (long long)step);
        return NULL;
    }
    count = (end - begin - 1) / step + 1;
    if (step == 1 || count == 1)
        return eitp_slice(x, axis, begin, begin + count);
    if (x->rows && !axis) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT,
                         "slice_step: the leading dimension is a capacity of rows: it cannot be cut");
        return NULL;
    }
    return eitp__slice_blocks(x, axis, begin, count, step);
}

eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after) {
    eitp__attributes attributes = EITP__ZERO;
    int axis;
    if (!x || (axis = eitp__checked_dimension(x, dimension, "pad")) < 0)
        return NULL;
    if (before < 0 || after < 0 || before > INT64_MAX / 16 || after > INT64_MAX / 16) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "pad: cannot add %lld zeros before and %lld after",
                         (long long)before, (long long)after);
        return NULL;
    }
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[axis] = before;
    attributes.shape[axis] += before + after;
    return eitp__apply(EITP__OP_PAD, &x, 1, &attributes);
}

eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *joined = count > 0 && tensors ? tensors[0] : NULL;
    int axis;
    if (!joined || (axis = eitp__checked_dimension(joined, dimension, "concat")) < 0)
        return NULL;
    attributes.integers[0] = axis;
    for (int i = 1; i < count; i++) {
        if (!tensors[i]) {
            eitp__graph_fail(joined->graph, EITP_ERROR_ARGUMENT, "input %d of concat is NULL", i);
            return NULL;
        }
    }
    /* A node has a limited number of inputs, so each node joins the result so far with as many more as fit. */
    for (int i = 1; i < count && joined;) {
        eitp_tensor *inputs[EITP__MAX_INPUTS];
        int n = 0;
        inputs[n++] = joined;
        while (i < count && n < EITP__MAX_INPUTS)
            inputs[n++] = tensors[i++];
        joined = eitp__apply(EITP__OP_CONCAT, inputs, n, &attributes);
    }
    return joined;
}

eitp_tensor *eitp_gather(eitp_tensor *x, eitp_tensor *indices, int dimension) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    int axis;
    if (!x || (axis = eitp__checked_dimension(x, dimension, "gather")) < 0)
        return NULL;
    attributes.integers[0] = axis;
    inputs[0] = x;
    inputs[1] = indices;
    return eitp__apply(EITP__OP_GATHER, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__scatter_add_axis(eitp_tensor *x, eitp_tensor *indices, int axis, int64_t extent,
                                                  int rows) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = axis;
    attributes.integers[1] = extent;
    attributes.integers[2] = rows;
    inputs[0] = indices;
    inputs[1] = x;
    return eitp__apply(EITP__OP_SCATTER_ADD, inputs, 2, &attributes);
}

eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent) {
    int axis;
    if (!x || (axis = eitp__checked_dimension(x, dimension, "scatter_add")) < 0)
        return NULL;
    return eitp__scatter_add_axis(x, indices, axis, extent, 0);
}

/* ---- Gradients ---- */

static void eitp__gradient_reshape(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_reshape(dy[0], node->inputs[0]->rank, node->inputs[0]->shape));
}

static void eitp__gradient_broadcast(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
}

static void eitp__gradient_permute(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int inverse[EITP_MAX_RANK];
    for (int d = 0; d < node->inputs[0]->rank; d++)
        inverse[node->attributes.integers[d]] = d;
    eitp__add_gradient(&dx[0], eitp_permute(dy[0], inverse));
}

static void eitp__gradient_slice(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *slice;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    /* Cast to the dtype of the gradient's sum, so that the pad can be added to it in place. */
    slice = eitp_cast(dy[0], eitp__gradient_dtype(node->inputs[0]));
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_PAD, &slice, 1, &attributes));
}

static void eitp__gradient_pad(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_SLICE, dy, 1, &attributes));
}

static void eitp__gradient_concat(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int axis = (int)node->attributes.integers[0];
    int64_t begin = 0;
    for (int i = 0; i < node->input_count; i++) {
        int64_t extent = node->inputs[i]->shape[axis];
        eitp__add_gradient(&dx[i], eitp_slice(dy[0], axis, begin, begin + extent));
        begin += extent;
    }
}

static void eitp__gradient_gather(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    const eitp_tensor *x = node->inputs[0];
    int axis = (int)node->attributes.integers[0];
    eitp__add_gradient(&dx[0], eitp__scatter_add_axis(dy[0], node->inputs[1], axis, x->shape[axis], x->rows));
}

static void eitp__gradient_scatter_add(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[1], eitp_gather(dy[0], node->inputs[0], (int)node->attributes.integers[0]));
}

/* ---- Rows ---- */

/* integers: first row, end row, and 1 to allow a varying number of rows; a plan then has the rows in use. */
static eitp_status eitp__shape_rows(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t begin = node->attributes.integers[0], end = node->attributes.integers[1], shape[EITP_MAX_RANK];
    eitp_status status = eitp__require(
        x->rank > 0 && (!x->rows || node->attributes.integers[2]) && begin >= 0 && begin < end && end <= x->shape[0],
        error, "rows %lld to %lld are outside the tensor, or its number of rows varies between executions",
        (long long)begin, (long long)end);
    if (status)
        return status;
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = end - begin;
    status = eitp__node_output(node, x->dtype, x->rank, shape, x->rows, error);
    if (status)
        return status;
    node->outputs[0]->first = begin * (eitp__elements(x) / x->shape[0]);
    node->outputs[0]->first_row = x->rows ? begin : 0;
    return EITP_OK;
}

static void eitp__gradient_rows(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int64_t begin = node->attributes.integers[0], end = node->attributes.integers[1];
    eitp_tensor *rows = eitp_cast(dy[0], eitp__gradient_dtype(node->inputs[0]));
    eitp__add_gradient(&dx[0], eitp_pad(rows, 0, begin, node->inputs[0]->shape[0] - end));
}

/* Pads the rows of x that fall within [begin, end); zeros if no rows do. */
static eitp_tensor *eitp__rows_pad(const eitp__node *node, int64_t begin, int64_t end) {
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

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_broadcast(eitp__op_info *op) {
    op->shape = eitp__shape_broadcast;
    op->gradient = eitp__gradient_broadcast;
}

EITP__PRIVATE void eitp__op_permute(eitp__op_info *op) {
    op->shape = eitp__shape_permute;
    op->gradient = eitp__gradient_permute;
}

EITP__PRIVATE void eitp__op_slice(eitp__op_info *op) {
    op->shape = eitp__shape_slice;
    op->gradient = eitp__gradient_slice;
}

EITP__PRIVATE void eitp__op_pad(eitp__op_info *op) {
    op->shape = eitp__shape_pad;
    op->gradient = eitp__gradient_pad;
    op->rows = eitp__rows_pad;
    op->accumulates = EITP__ACCUMULATES_STORED;
}

EITP__PRIVATE void eitp__op_concat(eitp__op_info *op) {
    op->max_inputs = EITP__MAX_INPUTS;
    op->shape = eitp__shape_concat;
    op->gradient = eitp__gradient_concat;
}

EITP__PRIVATE void eitp__op_gather(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_gather;
    op->gradient = eitp__gradient_gather;
}

EITP__PRIVATE void eitp__op_scatter_add(eitp__op_info *op) {
    op->min_inputs = op->max_inputs = 2;
    op->shape = eitp__shape_scatter_add;
    op->gradient = eitp__gradient_scatter_add;
    op->accumulates = EITP__ACCUMULATES_WIDE;
    op->dtype_input = 2;
}

EITP__PRIVATE void eitp__op_reshape(eitp__op_info *op) {
    op->shape = eitp__shape_reshape;
    op->gradient = eitp__gradient_reshape;
    op->shares[0] = 1;
    op->is_view = 1;
}

EITP__PRIVATE void eitp__op_stop_gradient(eitp__op_info *op) {
    op->shape = eitp__shape_same;
    op->gradient = eitp__gradient_none;
    op->shares[0] = 1;
    op->is_view = 1;
}

EITP__PRIVATE void eitp__op_rows(eitp__op_info *op) {
    op->shape = eitp__shape_rows;
    op->gradient = eitp__gradient_rows;
    op->shares[0] = 1;
    op->is_view = 1;
}
