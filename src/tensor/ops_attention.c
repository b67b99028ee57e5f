/* Causal self-attention over packed sequences: builders, shapes, gradient, expansion. */
#include "tensor/op_rules.h"

eitp_tensor *eitp_attention(eitp_tensor *qkv, eitp_tensor *offsets, int heads, int64_t longest, double scale,
                            eitp_tensor *key, double probability) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[3];
    if (!qkv)
        return NULL;
    attributes.integers[0] = heads;
    attributes.integers[1] = longest;
    if (key && probability > 0)
        attributes.integers[2] = EITP__STREAM_FIRST_OP + (int64_t)qkv->graph->streams++;
    attributes.reals[0] = scale;
    attributes.reals[1] = probability;
    inputs[0] = qkv;
    inputs[1] = offsets;
    inputs[2] = probability > 0 ? key : NULL;
    return eitp__apply(EITP__OP_ATTENTION, inputs, 3, &attributes);
}

static eitp_status eitp__check_heads(const eitp_tensor *qkv, int64_t heads, eitp_error *error) {
    int fits = qkv->rank == 2 && qkv->shape[1] % 3 == 0 && eitp__is_floating(qkv->dtype);
    char text[100];
    eitp_status status =
        eitp__require(fits, error, "q, k and v side by side must be a floating matrix [n, 3c], not %s %s",
                      eitp_dtype_name(qkv->dtype), eitp__shape_text(qkv, text, sizeof text));
    return status ? status
                  : eitp__require(heads >= 1 && qkv->shape[1] / 3 % heads == 0, error,
                                  "%lld channels cannot be shared among %lld heads", (long long)qkv->shape[1] / 3,
                                  (long long)heads);
}

EITP__PRIVATE eitp_status eitp__shape_attention(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *offsets = node->inputs[1], *key = node->inputs[2];
    int64_t heads = node->attributes.integers[0], shape[2];
    double probability = node->attributes.reals[1];
    eitp_status status = eitp__check_heads(qkv, heads, error);
    if (!status)
        status = eitp__require(offsets->dtype == EITP_I32 && offsets->rank == 1 && offsets->shape[0] >= 2, error,
                               "the offsets must be i32 [sequences + 1]");
    if (!status)
        status = eitp__require(node->attributes.integers[1] >= 1 && node->attributes.integers[1] <= 1 << 24, error,
                               "the longest sequence must be 1 to 16777216, not %lld",
                               (long long)node->attributes.integers[1]);
    if (!status)
        status = eitp__require(probability >= 0 && probability < 1, error,
                               "the probability is %g; it must be at least 0 and below 1", probability);
    if (!status)
        status = eitp__require(!key || (key->dtype == EITP_I64 && key->rank == 1 && key->shape[0] == 3), error,
                               "the key must be i64 [3]: seed, step, first row");
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    shape[1] = heads;
    return status ? status : eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
}

EITP__PRIVATE eitp_status eitp__shape_attention_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

EITP__PRIVATE void eitp__gradient_attention(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[6];
    for (int i = 0; i < 3; i++)
        inputs[i] = node->inputs[i];
    inputs[3] = node->outputs[0];
    inputs[4] = node->outputs[1];
    inputs[5] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_ATTENTION_BACKWARD, inputs, 6, &node->attributes));
}

/* Half of the pairs of each sequence, for scores and for values; sequences are taken to be the longest there can be. */
EITP__PRIVATE double eitp__flops_attention(const eitp__node *node) {
    const eitp_tensor *qkv = node->inputs[0];
    return 2.0 * (double)qkv->shape[0] * (double)node->attributes.integers[1] * (double)(qkv->shape[1] / 3);
}

EITP__PRIVATE double eitp__flops_attention_backward(const eitp__node *node) {
    return 2.5 * eitp__flops_attention(node);
}

/* ---- Expansion ---- */

/* Part 0, 1, 2 (q, k, v) of qkv [n, 3c] as [heads, n, c / heads]. */
static eitp_tensor *eitp__heads(eitp_tensor *qkv, int part, int64_t heads) {
    int64_t channels = qkv->shape[1] / 3, shape[3];
    const int order[3] = {1, 0, 2};
    shape[0] = qkv->shape[0];
    shape[1] = heads;
    shape[2] = channels / heads;
    return eitp_permute(eitp_reshape(eitp_slice(qkv, 1, part * channels, (part + 1) * channels), 3, shape), order);
}

static eitp_tensor *eitp__column(eitp_tensor *x) {
    int64_t shape[2] = {-1, 1};
    return eitp_reshape(x, 2, shape);
}

static eitp_tensor *eitp__row(eitp_tensor *x) {
    int64_t shape[2] = {1, -1};
    return eitp_reshape(x, 2, shape);
}

/* 0 and 1 in x's dtype. */
static eitp_tensor *eitp__number(eitp_tensor *condition, eitp_dtype dtype) {
    return eitp_cast(condition, dtype);
}

/* What the rows of a packed batch know of their sequences. */
typedef struct eitp__packing {
    eitp_tensor *position; /* [n] row numbers */
    eitp_tensor *sequence; /* [n] offsets at or before the row: sequence i has i + 1 (or more, where some are empty) */
    eitp_tensor *inside;   /* [n] 1 where the row is in a sequence */
    eitp_tensor *visible;  /* U8 [n, n]: may row i see row j? */
} eitp__packing;

static eitp__packing eitp__unpack(eitp_tensor *qkv, eitp_tensor *offsets) {
    eitp__packing packing;
    eitp_dtype dtype = qkv->dtype;
    int64_t rows = qkv->shape[0], count = offsets->shape[0];
    eitp_tensor *bounds = eitp_cast(offsets, dtype), *zero = eitp__scalar_like(qkv, 0), *before, *same, *later, *last;
    packing.position = eitp_arange(qkv->graph, dtype, rows);
    before = eitp__number(eitp_less(eitp__column(packing.position), eitp__row(bounds)), dtype);
    packing.sequence = eitp_affine(eitp_sum(before, 2u, 0), -1, (double)count);
    last = eitp_slice(bounds, 0, count - 1, count);
    packing.inside = eitp_multiply(eitp__number(eitp_less(zero, packing.sequence), dtype),
                                   eitp__number(eitp_less(packing.position, last), dtype));
    same = eitp__number(eitp_equal(eitp__column(packing.sequence), eitp__row(packing.sequence)), dtype);
    later = eitp__number(eitp_less(eitp__column(packing.position), eitp__row(packing.position)), dtype);
    packing.visible = eitp_less(zero, eitp_subtract(same, later));
    return packing;
}

/* The dropout mask of the probabilities [heads, n, n]: entry (i, h, j) of the kernel's numbering is by position in the
 * sequence. */
static eitp_tensor *eitp__attention_mask(const eitp__node *node, const eitp__packing *packing, eitp_dtype dtype) {
    int64_t heads = node->attributes.integers[0], longest = node->attributes.integers[1];
    int64_t rows = node->inputs[0]->shape[0], shape[3];
    const int order[3] = {1, 0, 2};
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2], *mask, *relative, *bounds, *start;
    eitp_graph *graph = node->graph;
    shape[0] = rows;
    shape[1] = heads;
    shape[2] = longest;
    inputs[0] = eitp_fill(graph, dtype, 3, shape, 1);
    inputs[1] = node->inputs[2];
    attributes.integers[0] = node->attributes.integers[2];
    attributes.reals[0] = node->attributes.reals[1];
    mask = eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes);
    /* The start of a row's sequence is the last offset at or before it. */
    bounds = eitp__row(eitp_cast(node->inputs[1], dtype));
    start = eitp_max(
        eitp_where(eitp_less(eitp__column(packing->position), bounds), eitp__scalar_like(bounds, 0), bounds), 2u, 1);
    relative = eitp_clamp(eitp_subtract(eitp__row(packing->position), start), 0, (double)(longest - 1));
    shape[1] = 1;
    shape[2] = rows;
    relative = eitp_reshape(eitp_cast(relative, EITP_I32), 3, shape);
    shape[1] = heads;
    mask = eitp_gather(mask, eitp_broadcast(relative, 3, shape), 2);
    return eitp_permute(mask, order);
}

EITP__PRIVATE void eitp__expand_attention(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *qkv = node->inputs[0];
    int64_t heads = node->attributes.integers[0], rows = qkv->shape[0], shape[2];
    const int order[3] = {1, 0, 2}, swap[2] = {1, 0};
    eitp__packing packing = eitp__unpack(qkv, node->inputs[1]);
    eitp_tensor *scores, *largest, *weights, *total, *probabilities, *values;
    scores = eitp_matmul_transposed(eitp__heads(qkv, 0, heads), eitp__heads(qkv, 1, heads), 0, 1);
    scores = eitp_affine(scores, node->attributes.reals[0], 0);
    scores = eitp_where(packing.visible, scores, eitp__scalar_like(qkv, -1e30));
    largest = eitp_stop_gradient(eitp_max(scores, 4u, 1));
    weights = eitp_exp(eitp_subtract(scores, largest));
    total = eitp_sum(weights, 4u, 1);
    probabilities = eitp_divide(weights, total);
    if (node->inputs[2])
        probabilities = eitp_multiply(probabilities, eitp__attention_mask(node, &packing, qkv->dtype));
    values = eitp_permute(eitp_matmul(probabilities, eitp__heads(qkv, 2, heads)), order);
    shape[0] = rows;
    shape[1] = qkv->shape[1] / 3;
    outputs[0] = eitp_multiply(eitp_reshape(values, 2, shape), eitp__column(packing.inside));
    shape[0] = heads;
    shape[1] = rows;
    outputs[1] = eitp_permute(eitp_reshape(eitp_add(largest, eitp_log(total)), 2, shape), swap);
}

/* ---- With a cache ---- */

eitp_tensor *eitp_attention_cached(eitp_tensor *qkv, eitp_tensor *keys, eitp_tensor *values, eitp_tensor *position,
                                   int heads, double scale) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[4];
    attributes.integers[0] = heads;
    attributes.reals[0] = scale;
    inputs[0] = qkv;
    inputs[1] = keys;
    inputs[2] = values;
    inputs[3] = position;
    return eitp__apply(EITP__OP_ATTENTION_CACHED, inputs, 4, &attributes);
}

EITP__PRIVATE eitp_status eitp__shape_attention_cached(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *keys = node->inputs[1], *position = node->inputs[3];
    int64_t shape[2];
    eitp_status status = eitp__check_heads(qkv, node->attributes.integers[0], error);
    if (!status)
        status = eitp__require(keys->leaf == EITP__VARIABLE && node->inputs[2]->leaf == EITP__VARIABLE &&
                                   keys->rank == 2 && keys->shape[1] == qkv->shape[1] / 3 &&
                                   keys->dtype == qkv->dtype && eitp__same_shape(keys, node->inputs[2]),
                               error, "the caches must be variables [longest, c] like the keys and values they keep");
    if (!status)
        status = eitp__require(position->dtype == EITP_I32 && eitp__elements(position) == 1, error,
                               "the position must be i32 [1]");
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    for (int i = 1; i <= 2 && !status; i++)
        status = eitp__node_output_like(node, node->inputs[i], error);
    return status;
}
