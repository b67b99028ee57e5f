/* Ops that move elements: builders, shapes, gradients. */
#include "tensor/op_rules.h"

/* A dimension counted from the end becomes one counted from the start; -1 where there is no such dimension. */
static int eitp__dimension(const eitp_tensor *x, int dimension) {
    int index = dimension < 0 ? x->rank + dimension : dimension;
    return index >= 0 && index < x->rank ? index : -1;
}

/* As above, with the graph's error set. */
static int eitp__checked_dimension(eitp_tensor *x, int dimension, const char *op) {
    int index = eitp__dimension(x, dimension);
    if (index < 0)
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d has no dimension %d", op, x->rank,
                         dimension);
    return index;
}

static eitp_status eitp__refuse_rows(int condition, eitp_error *error) {
    return eitp__require(!condition, error, "the leading dimension varies from run to run and cannot be moved or cut");
}

EITP__PRIVATE eitp_status eitp__shape_reshape(eitp__node *node, eitp_error *error) {
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
            return eitp__require(0, error, "%s cannot take the shape that is asked for",
                                 eitp__shape_text(x, from, sizeof from));
        else
            known *= attributes->shape[d];
    }
    if (unknown >= 0)
        attributes->shape[unknown] = elements / known;
    status = eitp__require(unknown >= 0 ? elements % known == 0 : known == elements, error,
                           "%s cannot take the shape that is asked for", eitp__shape_text(x, from, sizeof from));
    keeps_rows = attributes->rank > 0 && x->rank > 0 && attributes->shape[0] == x->shape[0];
    if (!status)
        status = eitp__refuse_rows(x->rows && !keeps_rows, error);
    return status ? status : eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_broadcast(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    int extra = attributes->rank - x->rank;
    char from[100];
    int fits = extra >= 0;
    for (int d = 0; d < x->rank && fits; d++)
        fits = x->shape[d] == 1 || x->shape[d] == attributes->shape[d + extra];
    if (!fits)
        return eitp__require(0, error, "%s does not broadcast to the shape that is asked for",
                             eitp__shape_text(x, from, sizeof from));
    if (x->rows && extra)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, x->dtype, attributes->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_permute(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    int64_t shape[EITP_MAX_RANK];
    unsigned seen = 0;
    eitp_status status;
    for (int d = 0; d < x->rank; d++) {
        int64_t from = node->attributes.integers[d];
        status = eitp__require(from >= 0 && from < x->rank && !(seen & (1u << from)), error,
                               "the order is no permutation of the %d dimensions", x->rank);
        if (status)
            return status;
        seen |= 1u << from;
        shape[d] = x->shape[from];
    }
    status = eitp__refuse_rows(x->rows && node->attributes.integers[0] != 0, error);
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_slice(eitp__node *node, eitp_error *error) {
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

EITP__PRIVATE eitp_status eitp__shape_pad(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0];
    const eitp__attributes *attributes = &node->attributes;
    for (int d = 0; d < x->rank; d++) {
        int64_t before = attributes->integers[d], extent = attributes->shape[d];
        eitp_status status = eitp__require(before >= 0 && before <= extent - x->shape[d], error,
                                           "a padding is negative in dimension %d", d);
        if (!status && d == 0)
            status = eitp__refuse_rows(x->rows && extent != x->shape[0], error);
        if (status)
            return status;
    }
    return eitp__node_output(node, x->dtype, x->rank, attributes->shape, x->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_concat(eitp__node *node, eitp_error *error) {
    const eitp_tensor *first = node->inputs[0];
    int along = (int)node->attributes.integers[0];
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    memcpy(shape, first->shape, sizeof shape);
    shape[along] = 0;
    for (int i = 0; i < node->input_count; i++) {
        const eitp_tensor *x = node->inputs[i];
        int fits = x->rank == first->rank && x->dtype == first->dtype && x->rows == first->rows;
        for (int d = 0; d < first->rank && fits; d++)
            fits = d == along || x->shape[d] == first->shape[d];
        if (!fits)
            return eitp__require(0, error, "%s and %s cannot be joined along dimension %d",
                                 eitp__shape_text(first, a, sizeof a), eitp__shape_text(x, b, sizeof b), along);
        shape[along] += x->shape[along];
    }
    if (first->rows && along == 0)
        return eitp__refuse_rows(1, error);
    return eitp__node_output(node, first->dtype, first->rank, shape, first->rows, error);
}

static eitp_status eitp__check_indices(const eitp_tensor *x, const eitp_tensor *indices, int along, eitp_error *error) {
    char a[100], b[100];
    int fits = indices->dtype == EITP_I32 && x->rank == indices->rank && (along == 0 || x->rows == indices->rows);
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == along || x->shape[d] == indices->shape[d];
    return eitp__require(fits, error, "%s %s cannot be indexed by %s %s along dimension %d", eitp_dtype_name(x->dtype),
                         eitp__shape_text(x, a, sizeof a), eitp_dtype_name(indices->dtype),
                         eitp__shape_text(indices, b, sizeof b), along);
}

EITP__PRIVATE eitp_status eitp__shape_gather(eitp__node *node, eitp_error *error) {
    const eitp_tensor *x = node->inputs[0], *indices = node->inputs[1];
    int along = (int)node->attributes.integers[0];
    /* Along dimension 0, x is a table, and the rows are those of the indices. */
    eitp_status status = eitp__check_indices(x, indices, along, error);
    return status ? status : eitp__node_output(node, x->dtype, indices->rank, indices->shape, indices->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_scatter_add(eitp__node *node, eitp_error *error) {
    const eitp_tensor *indices = node->inputs[0], *x = node->inputs[1];
    int along = (int)node->attributes.integers[0];
    int rows = along == 0 ? (int)node->attributes.integers[2] : x->rows;
    int64_t shape[EITP_MAX_RANK];
    char a[100], b[100];
    eitp_status status = eitp__require(indices->dtype == EITP_I32 && eitp__same_shape(x, indices) &&
                                           (along != 0 || x->rows == indices->rows),
                                       error, "values %s and indices %s must have one shape",
                                       eitp__shape_text(x, a, sizeof a), eitp__shape_text(indices, b, sizeof b));
    memcpy(shape, x->shape, sizeof shape);
    shape[along] = node->attributes.integers[1];
    return status ? status : eitp__node_output(node, x->dtype, x->rank, shape, rows, error);
}

/* ---- Builders ---- */

/* The result's shape as an attribute; 0, with the graph's error set, where there can be no such shape. */
static int eitp__take_shape(eitp_tensor *x, int rank, const int64_t *shape, eitp__attributes *attributes,
                            const char *op) {
    if (!x)
        return 0;
    if (rank < 0 || rank > EITP_MAX_RANK) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: a tensor of rank %d is not possible; at most %d is", op,
                         rank, EITP_MAX_RANK);
        return 0;
    }
    if (rank && !shape) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: the shape is NULL", op);
        return 0;
    }
    attributes->rank = rank;
    for (int d = 0; d < rank; d++)
        attributes->shape[d] = shape[d];
    return 1;
}

eitp_tensor *eitp_reshape(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__take_shape(x, rank, shape, &attributes, "reshape"))
        return NULL;
    return eitp__apply(EITP__OP_RESHAPE, &x, 1, &attributes);
}

eitp_tensor *eitp_broadcast(eitp_tensor *x, int rank, const int64_t *shape) {
    eitp__attributes attributes = EITP__ZERO;
    if (!eitp__take_shape(x, rank, shape, &attributes, "broadcast"))
        return NULL;
    return eitp__apply(EITP__OP_BROADCAST, &x, 1, &attributes);
}

eitp_tensor *eitp_permute(eitp_tensor *x, const int *order) {
    eitp__attributes attributes = EITP__ZERO;
    if (!x)
        return NULL;
    if (!order) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "permute: the order is NULL");
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
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "transpose: a tensor of rank %d has no two dimensions",
                         x->rank);
        return NULL;
    }
    for (int d = 0; d < x->rank; d++)
        order[d] = d;
    order[x->rank - 1] = x->rank - 2;
    order[x->rank - 2] = x->rank - 1;
    return eitp_permute(x, order);
}

/* Is [begin, end) a part of a dimension? If not, the graph's error is set. */
static int eitp__check_range(eitp_tensor *x, int along, int64_t begin, int64_t end, const char *op) {
    if (begin >= 0 && begin < end && end <= x->shape[along])
        return 1;
    eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "%s: %lld to %lld is outside dimension %d, which has %lld", op,
                     (long long)begin, (long long)end, along, (long long)x->shape[along]);
    return 0;
}

eitp_tensor *eitp_slice(eitp_tensor *x, int dimension, int64_t begin, int64_t end) {
    eitp__attributes attributes = EITP__ZERO;
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "slice")) < 0)
        return NULL;
    if (!eitp__check_range(x, along, begin, end, "slice"))
        return NULL;
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[along] = begin;
    attributes.shape[along] = end - begin;
    return eitp__apply(EITP__OP_SLICE, &x, 1, &attributes);
}

/* `count` places from `begin` on, each `step` after the one before: the dimension is cut into blocks of `step`, and one
 * place taken of each block. What is before it stays one dimension beside the first, which may be of the capacity. */
static eitp_tensor *eitp__slice_blocks(eitp_tensor *x, int along, int64_t begin, int64_t count, int64_t step) {
    eitp__attributes attributes = EITP__ZERO;
    int64_t extent = x->shape[along], first = begin / step, shape[5] = {1, 1, 0, step, 1}, sliced[EITP_MAX_RANK];
    int64_t whole = extent % step ? (first + count) * step : extent;
    eitp_tensor *y = x;
    if (whole != extent)
        y = whole > extent ? eitp_pad(x, along, 0, whole - extent) : eitp_slice(x, along, 0, whole);
    shape[2] = whole / step;
    for (int d = 0; d < x->rank; d++) {
        if (d != along)
            shape[d > along ? 4 : d > 0] *= x->shape[d];
    }
    memcpy(attributes.shape, shape, sizeof shape);
    attributes.shape[2] = count;
    attributes.shape[3] = 1;
    attributes.integers[2] = first;
    attributes.integers[3] = begin % step;
    y = eitp_reshape(y, 5, shape);
    memcpy(sliced, x->shape, sizeof sliced);
    sliced[along] = count;
    return eitp_reshape(eitp__apply(EITP__OP_SLICE, &y, 1, &attributes), x->rank, sliced);
}

eitp_tensor *eitp_slice_step(eitp_tensor *x, int dimension, int64_t begin, int64_t end, int64_t step) {
    int64_t count;
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "slice_step")) < 0)
        return NULL;
    if (!eitp__check_range(x, along, begin, end, "slice_step"))
        return NULL;
    if (step < 1) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "slice_step: the step is %lld; it must be 1 or more",
                         (long long)step);
        return NULL;
    }
    count = (end - begin - 1) / step + 1;
    if (step == 1 || count == 1)
        return eitp_slice(x, along, begin, begin + count);
    if (x->rows && !along) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT,
                         "slice_step: the leading dimension varies from run to run and cannot be cut");
        return NULL;
    }
    return eitp__slice_blocks(x, along, begin, count, step);
}

eitp_tensor *eitp_pad(eitp_tensor *x, int dimension, int64_t before, int64_t after) {
    eitp__attributes attributes = EITP__ZERO;
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "pad")) < 0)
        return NULL;
    if (before < 0 || after < 0 || before > INT64_MAX / 16 || after > INT64_MAX / 16) {
        eitp__graph_fail(x->graph, EITP_ERROR_ARGUMENT, "pad: %lld zeros before and %lld after are not possible",
                         (long long)before, (long long)after);
        return NULL;
    }
    memcpy(attributes.shape, x->shape, sizeof attributes.shape);
    attributes.integers[along] = before;
    attributes.shape[along] += before + after;
    return eitp__apply(EITP__OP_PAD, &x, 1, &attributes);
}

eitp_tensor *eitp_concat(eitp_tensor *const *tensors, int count, int dimension) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *joined = count > 0 && tensors ? tensors[0] : NULL;
    int along;
    if (!joined || (along = eitp__checked_dimension(joined, dimension, "concat")) < 0)
        return NULL;
    attributes.integers[0] = along;
    for (int i = 1; i < count; i++) {
        if (!tensors[i]) {
            eitp__graph_fail(joined->graph, EITP_ERROR_ARGUMENT, "input %d of concat is NULL", i);
            return NULL;
        }
    }
    /* A node takes a few inputs at a time; the first of each is what was joined so far. */
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
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "gather")) < 0)
        return NULL;
    attributes.integers[0] = along;
    inputs[0] = x;
    inputs[1] = indices;
    return eitp__apply(EITP__OP_GATHER, inputs, 2, &attributes);
}

EITP__PRIVATE eitp_tensor *eitp__scatter_along(eitp_tensor *x, eitp_tensor *indices, int along, int64_t extent,
                                               int rows) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    attributes.integers[0] = along;
    attributes.integers[1] = extent;
    attributes.integers[2] = rows;
    inputs[0] = indices;
    inputs[1] = x;
    return eitp__apply(EITP__OP_SCATTER_ADD, inputs, 2, &attributes);
}

eitp_tensor *eitp_scatter_add(eitp_tensor *x, eitp_tensor *indices, int dimension, int64_t extent) {
    int along;
    if (!x || (along = eitp__checked_dimension(x, dimension, "scatter_add")) < 0)
        return NULL;
    return eitp__scatter_along(x, indices, along, extent, 0);
}

/* ---- Gradients ---- */

EITP__PRIVATE void eitp__gradient_reshape(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp_reshape(dy[0], node->inputs[0]->rank, node->inputs[0]->shape));
}

EITP__PRIVATE void eitp__gradient_broadcast(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[0], eitp__sum_to(dy[0], node->inputs[0]));
}

EITP__PRIVATE void eitp__gradient_permute(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int inverse[EITP_MAX_RANK];
    for (int d = 0; d < node->inputs[0]->rank; d++)
        inverse[node->attributes.integers[d]] = d;
    eitp__add_gradient(&dx[0], eitp_permute(dy[0], inverse));
}

EITP__PRIVATE void eitp__gradient_slice(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *slice;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    /* In the dtype of the sum that it will be a term of, so that it can be added to that in place. */
    slice = eitp_cast(dy[0], eitp__gradient_dtype(node->inputs[0]));
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_PAD, &slice, 1, &attributes));
}

EITP__PRIVATE void eitp__gradient_pad(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__attributes attributes = EITP__ZERO;
    memcpy(attributes.integers, node->attributes.integers, sizeof attributes.integers);
    memcpy(attributes.shape, node->inputs[0]->shape, sizeof attributes.shape);
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_SLICE, dy, 1, &attributes));
}

EITP__PRIVATE void eitp__gradient_concat(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    int along = (int)node->attributes.integers[0];
    int64_t begin = 0;
    for (int i = 0; i < node->input_count; i++) {
        int64_t extent = node->inputs[i]->shape[along];
        eitp__add_gradient(&dx[i], eitp_slice(dy[0], along, begin, begin + extent));
        begin += extent;
    }
}

EITP__PRIVATE void eitp__gradient_gather(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    const eitp_tensor *x = node->inputs[0];
    int along = (int)node->attributes.integers[0];
    eitp__add_gradient(&dx[0], eitp__scatter_along(dy[0], node->inputs[1], along, x->shape[along], x->rows));
}

EITP__PRIVATE void eitp__gradient_scatter_add(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp__add_gradient(&dx[1], eitp_gather(dy[0], node->inputs[0], (int)node->attributes.integers[0]));
}
