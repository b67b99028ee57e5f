/* Self-attention over packed sequences: builders, shapes, gradient, expansion. */
#include "tensor/op_rules.h"

static eitp_status eitp__check_offsets(const eitp__value_rule *rule, const eitp_tensor *input, const void *values,
                                       int64_t count, eitp_error *error) {
    const int32_t *offsets = (const int32_t *)values;
    int64_t rows = rule->numbers[0], max_length = rule->numbers[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t length = i ? (int64_t)offsets[i] - offsets[i - 1] : 0;
        if (offsets[i] < 0 || offsets[i] > rows || length < 0 || length > max_length)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "element %lld of input '%s' is %d: offsets must ascend from 0 to at most %lld, and a "
                              "sequence can have at most %lld rows",
                              (long long)i, input->name, (int)offsets[i], (long long)rows, (long long)max_length);
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__add_offsets_rule(eitp_tensor *offsets, int64_t rows, int64_t max_length) {
    eitp__value_rule rule = EITP__ZERO;
    rule.check = eitp__check_offsets;
    rule.numbers[0] = rows;
    rule.numbers[1] = max_length;
    eitp__add_rule(offsets, &rule);
}

eitp_tensor *eitp_attention(eitp_tensor *qkv, eitp_tensor *offsets, eitp_tensor *key, eitp_tensor *lengths,
                            const eitp_attention_config *config) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[4], *y;
    if (!qkv)
        return NULL;
    if (!config) {
        eitp__graph_fail(qkv->graph, EITP_ERROR_ARGUMENT, "attention: config is NULL");
        return NULL;
    }
    attributes.integers[0] = config->heads;
    attributes.integers[1] = config->max_length;
    if (key && config->dropout > 0)
        attributes.integers[2] = EITP__RNG_STREAM_FIRST_OP + (int64_t)qkv->graph->rng_streams++;
    attributes.integers[3] = config->bidirectional != 0;
    attributes.reals[0] = config->scale;
    attributes.reals[1] = config->dropout;
    inputs[0] = qkv;
    inputs[1] = offsets;
    inputs[2] = config->dropout > 0 ? key : NULL;
    inputs[3] = lengths;
    y = eitp__apply(EITP__OP_ATTENTION, inputs, 4, &attributes);
    if (y)
        eitp__add_offsets_rule(offsets, qkv->shape[0], config->max_length);
    return y;
}

static eitp_status eitp__check_heads(const eitp_tensor *qkv, int64_t heads, eitp_error *error) {
    int fits = qkv->rank == 2 && qkv->shape[1] % 3 == 0 && eitp__is_floating(qkv->dtype);
    char text[100];
    eitp_status status = eitp__require(fits, error, "qkv must be a floating-point matrix [n, 3c], not %s %s",
                                       eitp_dtype_name(qkv->dtype), eitp__shape_text(qkv, text, sizeof text));
    return status ? status
                  : eitp__require(heads >= 1 && qkv->shape[1] / 3 % heads == 0, error,
                                  "%lld channels cannot be divided among %lld heads", (long long)qkv->shape[1] / 3,
                                  (long long)heads);
}

static eitp_status eitp__shape_attention(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *offsets = node->inputs[1], *key = node->inputs[2];
    const eitp_tensor *lengths = node->inputs[3];
    int64_t heads = node->attributes.integers[0], shape[2];
    double probability = node->attributes.reals[1];
    eitp_status status = eitp__check_heads(qkv, heads, error);
    if (!status)
        status = eitp__require(offsets->dtype == EITP_I32 && offsets->rank == 1 && offsets->shape[0] >= 2, error,
                               "offsets must be i32 [sequences + 1]");
    if (!status)
        status = eitp__require(node->attributes.integers[1] >= 1 && node->attributes.integers[1] <= 1 << 24, error,
                               "max_length must be 1 to 16777216, not %lld", (long long)node->attributes.integers[1]);
    if (!status)
        status = eitp__require(probability >= 0 && probability < 1, error,
                               "the dropout probability is %g; it must be in [0, 1)", probability);
    if (!status)
        status = eitp__require(!key || (key->dtype == EITP_I64 && key->rank == 1 && key->shape[0] == 3), error,
                               "key must be i64 [3]: seed, step, first row");
    if (!status && lengths)
        status = eitp__require(
            lengths->dtype == EITP_I32 && lengths->rank == 1 && lengths->shape[0] == offsets->shape[0] - 1, error,
            "lengths must be i32 [%lld], one for each sequence", (long long)offsets->shape[0] - 1);
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    shape[1] = heads;
    return status ? status : eitp__node_output(node, eitp__wide(qkv->dtype), 2, shape, qkv->rows, error);
}

static eitp_status eitp__shape_attention_backward(eitp__node *node, eitp_error *error) {
    return eitp__node_output_like(node, node->inputs[0], error);
}

static void eitp__gradient_attention(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[7];
    for (int i = 0; i < 4; i++)
        inputs[i] = node->inputs[i];
    inputs[4] = node->outputs[0];
    inputs[5] = node->outputs[1];
    inputs[6] = dy[0];
    eitp__add_gradient(&dx[0], eitp__apply(EITP__OP_ATTENTION_BACKWARD, inputs, 7, &node->attributes));
}

/*
 * Scores and values of all pairs of rows in a sequence, or of the causal half. Every sequence is assumed to have the
 * maximum length.
 */
static double eitp__flops_attention(const eitp__node *node) {
    const eitp_tensor *qkv = node->inputs[0];
    return (node->attributes.integers[3] ? 4.0 : 2.0) * (double)qkv->shape[0] * (double)node->attributes.integers[1] *
           (double)(qkv->shape[1] / 3);
}

static double eitp__flops_attention_backward(const eitp__node *node) {
    return 2.5 * eitp__flops_attention(node);
}

/* ---- Expansion ---- */

/* Part 0, 1 or 2 (q, k or v) of qkv [n, 3c], as [heads, n, c / heads]. */
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

/* A condition as 0 or 1 in the given dtype. */
static eitp_tensor *eitp__number(eitp_tensor *condition, eitp_dtype dtype) {
    return eitp_cast(condition, dtype);
}

/* Row properties of a packed batch, as numbers of the dtype that attention is computed in. */
typedef struct eitp__packing {
    eitp_tensor *position; /* [n] position in the sequence; in the batch if the row is in no sequence */
    eitp_tensor *present;  /* [n] 1 if the row is in a sequence and not padding, else 0 */
    eitp_tensor *visible;  /* U8 [n, n]: 1 if row i may attend to row j */
} eitp__packing;

/* The number of valid rows in each row's sequence. `sequence` [n] counts from 1. */
static eitp_tensor *eitp__attention_limit(const eitp__node *node, eitp_tensor *sequence) {
    double max_length = (double)node->attributes.integers[1];
    eitp_tensor *lengths = node->inputs[3];
    if (!lengths)
        return eitp__scalar_like(sequence, max_length);
    lengths = eitp_cast(eitp_gather(lengths, eitp_cast(eitp_affine(sequence, 1, -1), EITP_I32), 0), sequence->dtype);
    return eitp_clamp(lengths, 0, max_length);
}

static eitp__packing eitp__unpack(const eitp__node *node, eitp_dtype dtype) {
    eitp__packing packing;
    eitp_graph *graph = node->graph;
    int64_t rows = node->inputs[0]->shape[0], count = node->inputs[1]->shape[0];
    eitp_tensor *position = eitp_arange(graph, dtype, rows), *bounds = eitp_cast(node->inputs[1], dtype);
    eitp_tensor *zero = eitp__scalar_like(bounds, 0), *before, *sequence, *start, *last, *pairs;
    before = eitp_less(eitp__column(position), eitp__row(bounds));
    /* Counts the offsets at or before a row. If several sequences start at the row, all but the last are empty. */
    sequence = eitp_affine(eitp_sum(eitp__number(before, dtype), 2u, 0), -1, (double)count);
    start = eitp_max(eitp_where(before, zero, eitp__row(bounds)), 2u, 0);
    packing.position = eitp_subtract(position, start);
    last = eitp_slice(bounds, 0, count - 1, count);
    packing.present =
        eitp_multiply(eitp__number(eitp_less(zero, sequence), dtype), eitp__number(eitp_less(position, last), dtype));
    packing.present = eitp_multiply(
        packing.present, eitp__number(eitp_less(packing.position, eitp__attention_limit(node, sequence)), dtype));
    pairs = eitp__number(eitp_equal(eitp__column(sequence), eitp__row(sequence)), dtype);
    pairs = eitp_multiply(pairs, eitp__row(packing.present));
    if (!node->attributes.integers[3])
        pairs = eitp_subtract(pairs, eitp__number(eitp_less(eitp__column(position), eitp__row(position)), dtype));
    packing.visible = eitp_less(zero, pairs);
    return packing;
}

/*
 * The dropout factors of the probabilities [heads, n, n]. The kernel numbers random values by (query row, head,
 * position of the key in its sequence).
 */
static eitp_tensor *eitp__attention_mask(const eitp__node *node, const eitp__packing *packing) {
    int64_t heads = node->attributes.integers[0], max_length = node->attributes.integers[1];
    int64_t rows = node->inputs[0]->shape[0], shape[3];
    const int order[3] = {1, 0, 2};
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2], *mask, *relative;
    eitp_dtype dtype = packing->position->dtype;
    eitp_graph *graph = node->graph;
    shape[0] = rows;
    shape[1] = heads;
    shape[2] = max_length;
    inputs[0] = eitp_fill(graph, dtype, 3, shape, 1);
    inputs[1] = node->inputs[2];
    attributes.integers[0] = node->attributes.integers[2];
    attributes.reals[0] = node->attributes.reals[1];
    mask = eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes);
    /* The factor of a key in another sequence does not matter: its probability is 0. */
    relative = eitp_clamp(packing->position, 0, (double)(max_length - 1));
    shape[0] = shape[1] = 1;
    shape[2] = rows;
    relative = eitp_reshape(eitp_cast(relative, EITP_I32), 3, shape);
    shape[0] = rows;
    shape[1] = heads;
    mask = eitp_gather(mask, eitp_broadcast(relative, 3, shape), 2);
    return eitp_permute(mask, order);
}

static void eitp__expand_attention(const eitp__node *node, eitp_tensor **outputs) {
    eitp_tensor *qkv = eitp_cast(node->inputs[0], eitp__wide(node->inputs[0]->dtype));
    int64_t heads = node->attributes.integers[0], rows = node->inputs[0]->shape[0], shape[2];
    const int order[3] = {1, 0, 2}, swap[2] = {1, 0};
    eitp__packing packing;
    eitp_tensor *scores, *largest, *weights, *total, *probabilities, *values;
    if (!qkv)
        return;
    packing = eitp__unpack(node, qkv->dtype);
    scores = eitp_matmul_transposed(eitp__heads(qkv, 0, heads), eitp__heads(qkv, 1, heads), 0, 1);
    scores = eitp_affine(scores, node->attributes.reals[0], 0);
    scores = eitp_where(packing.visible, scores, eitp__scalar_like(qkv, -1e30));
    largest = eitp_stop_gradient(eitp_max(scores, 4u, 1));
    weights = eitp_exp(eitp_subtract(scores, largest));
    total = eitp_sum(weights, 4u, 1);
    probabilities = eitp_divide(weights, total);
    if (node->inputs[2])
        probabilities = eitp_multiply(probabilities, eitp__attention_mask(node, &packing));
    values = eitp_permute(eitp_matmul(probabilities, eitp__heads(qkv, 2, heads)), order);
    shape[0] = rows;
    shape[1] = qkv->shape[1] / 3;
    outputs[0] = eitp_multiply(eitp_reshape(values, 2, shape), eitp__column(packing.present));
    outputs[0] = eitp_cast(outputs[0], node->inputs[0]->dtype);
    shape[0] = heads;
    shape[1] = rows;
    outputs[1] = eitp_permute(eitp_reshape(eitp_add(largest, eitp_log(total)), 2, shape), swap);
    outputs[1] = eitp_where(eitp__column(eitp_less(eitp__scalar_like(packing.present, 0), packing.present)), outputs[1],
                            eitp__scalar_like(qkv, 0));
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

/* True if the tensor outlives an execution. */
static int eitp__is_stored(const eitp_tensor *tensor) {
    return tensor->leaf == EITP__VARIABLE || tensor->is_kept;
}

static eitp_status eitp__shape_attention_cached(eitp__node *node, eitp_error *error) {
    const eitp_tensor *qkv = node->inputs[0], *keys = node->inputs[1], *position = node->inputs[3];
    int64_t shape[2];
    eitp_status status = eitp__check_heads(qkv, node->attributes.integers[0], error);
    if (!status)
        status = eitp__require(
            eitp__is_stored(keys) && eitp__is_stored(node->inputs[2]) && keys->rank == 2 &&
                keys->shape[1] == qkv->shape[1] / 3 && keys->dtype == qkv->dtype &&
                eitp__same_shape(keys, node->inputs[2]) && node->inputs[2]->dtype == keys->dtype,
            error, "keys and values must be variables or kept inputs [max_length, c] with the dtype of qkv");
    if (!status)
        status = eitp__require(position->dtype == EITP_I32 && eitp__elements(position) == 1, error,
                               "position must be i32 [1]");
    if (status)
        return status;
    shape[0] = qkv->shape[0];
    shape[1] = qkv->shape[1] / 3;
    status = eitp__node_output(node, qkv->dtype, 2, shape, qkv->rows, error);
    for (int i = 1; i <= 2 && !status; i++)
        status = eitp__node_output_like(node, node->inputs[i], error);
    return status;
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_attention(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = 2;
    op->max_inputs = 4;
    op->outputs = 2;
    op->shape = eitp__shape_attention;
    op->gradient = eitp__gradient_attention;
    op->expand = eitp__expand_attention;
    op->flops = eitp__flops_attention;
}

EITP__PRIVATE void eitp__op_attention_backward(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = 2;
    op->max_inputs = 7;
    op->shape = eitp__shape_attention_backward;
    op->flops = eitp__flops_attention_backward;
    op->backward_of = EITP__OP_ATTENTION + 1;
}

EITP__PRIVATE void eitp__op_attention_cached(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = op->max_inputs = 4;
    op->outputs = 3;
    op->shape = eitp__shape_attention_cached;
    op->shares[1] = 2;
    op->shares[2] = 3;
}
