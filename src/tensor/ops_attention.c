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

eitp_attention_config eitp_attention_config_default(void) {
    eitp_attention_config config = EITP__ZERO;
    config.heads = 1;
    config.scale = 1;
    return config;
}

eitp_attention_inputs eitp_attention_inputs_default(void) {
    eitp_attention_inputs inputs = EITP__ZERO;
    return inputs;
}

static int64_t eitp__key_heads(const eitp_attention_config *config) {
    return config->key_value_heads ? config->key_value_heads : config->heads;
}

/* Casts the rotation to the dtype in which attention of q is computed. */
static eitp_tensor *eitp__rotation_for(eitp_tensor *rotation, const eitp_tensor *q) {
    return rotation && q ? eitp_stop_gradient(eitp_cast(rotation, eitp__wide(q->dtype))) : rotation;
}

eitp_tensor *eitp_attention(const eitp_attention_inputs *inputs, const eitp_attention_config *config) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_graph *graph = inputs ? eitp_tensor_graph(inputs->q ? inputs->q : inputs->offsets) : NULL;
    eitp_tensor *operands[EITP__ATTENTION_INPUTS], *y;
    if (!graph)
        return NULL;
    if (!config) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "attention: config is NULL");
        return NULL;
    }
    attributes.integers[0] = config->heads;
    attributes.integers[1] = config->max_length;
    if (inputs->key && config->dropout > 0)
        attributes.integers[2] = EITP__RNG_STREAM_FIRST_OP + (int64_t)graph->rng_streams++;
    attributes.integers[3] = config->bidirectional != 0;
    attributes.integers[4] = eitp__key_heads(config);
    attributes.integers[5] = config->sliding_window;
    attributes.reals[0] = config->scale;
    attributes.reals[1] = config->dropout;
    operands[EITP__ATTENTION_Q] = inputs->q;
    operands[EITP__ATTENTION_OFFSETS] = inputs->offsets;
    operands[EITP__ATTENTION_KEY] = config->dropout > 0 ? inputs->key : NULL;
    operands[EITP__ATTENTION_LENGTHS] = inputs->lengths;
    operands[EITP__ATTENTION_K] = inputs->k;
    operands[EITP__ATTENTION_V] = inputs->v;
    operands[EITP__ATTENTION_MASK] = inputs->mask;
    operands[EITP__ATTENTION_ROTATION] = eitp__rotation_for(inputs->rotation, inputs->q);
    y = eitp__apply(EITP__OP_ATTENTION, operands, EITP__ATTENTION_INPUTS, &attributes);
    if (y)
        eitp__add_offsets_rule(inputs->offsets, inputs->q->shape[0], config->max_length);
    return y;
}

/* ---- Shapes ---- */

/* Numbers of heads and head widths of a node. */
typedef struct eitp__head_sizes {
    int64_t heads, key_heads; /* of queries; of keys and values */
    int64_t width, value_width;
} eitp__head_sizes;

static eitp__head_sizes eitp__head_sizes_of(const eitp__node *node) {
    const int is_cached = node->op == EITP__OP_ATTENTION_CACHED;
    const eitp_tensor *q = node->inputs[0];
    const eitp_tensor *v = node->inputs[is_cached ? (int)EITP__CACHED_V : (int)EITP__ATTENTION_V];
    eitp__head_sizes at;
    at.heads = node->attributes.integers[0];
    at.key_heads = node->attributes.integers[is_cached ? 1 : 4];
    at.width = q->shape[1] / (v ? at.heads : at.heads + 2 * at.key_heads);
    at.value_width = v ? v->shape[1] / at.key_heads : at.width;
    return at;
}

static eitp_status eitp__check_heads(int64_t heads, int64_t key_heads, eitp_error *error) {
    return eitp__require(heads >= 1 && key_heads >= 1 && heads % key_heads == 0, error,
                         "%lld heads of queries cannot share %lld heads of keys and values", (long long)heads,
                         (long long)key_heads);
}

static eitp_status eitp__check_packed(const eitp_tensor *qkv, int64_t heads, int64_t key_heads, eitp_error *error) {
    char text[100];
    eitp_status status = eitp__check_heads(heads, key_heads, error);
    int fits = !status && qkv->rank == 2 && qkv->shape[1] % (heads + 2 * key_heads) == 0;
    return status
               ? status
               : eitp__require(fits && eitp__is_floating(qkv->dtype), error,
                               "q, k and v side by side are %s %s; they must be a floating-point matrix [n, %lld d], "
                               "with %lld heads of queries and %lld each of keys and values",
                               eitp_dtype_name(qkv->dtype), eitp__shape_text(qkv, text, sizeof text),
                               (long long)(heads + 2 * key_heads), (long long)heads, (long long)key_heads);
}

/* True if x is a matrix with as many rows as q. */
static int eitp__has_rows(const eitp_tensor *x, const eitp_tensor *q) {
    return x->rank == 2 && x->shape[0] == q->shape[0] && x->rows == q->rows;
}

/* True if x matches q except in columns, which must be a multiple of `columns`. */
static int eitp__has_rows_of(const eitp_tensor *x, const eitp_tensor *q, int64_t columns) {
    return eitp__has_rows(x, q) && x->dtype == q->dtype && x->shape[1] % columns == 0;
}

static eitp_status eitp__check_apart(const eitp_tensor *q, const eitp_tensor *k, const eitp_tensor *v, int64_t heads,
                                     int64_t key_heads, eitp_error *error) {
    char queries[100], keys[100], values[100];
    eitp_status status = eitp__check_heads(heads, key_heads, error);
    int fits = !status && eitp__is_floating(q->dtype) && eitp__has_rows_of(q, q, heads) &&
               eitp__has_rows_of(k, q, key_heads) && eitp__has_rows_of(v, q, key_heads) &&
               k->shape[1] / key_heads == q->shape[1] / heads;
    return status ? status
                  : eitp__require(fits, error,
                                  "q %s, k %s and v %s must be [n, %lld d], [n, %lld d] and [n, %lld e] of one "
                                  "floating-point dtype",
                                  eitp__shape_text(q, queries, sizeof queries), eitp__shape_text(k, keys, sizeof keys),
                                  eitp__shape_text(v, values, sizeof values), (long long)heads, (long long)key_heads,
                                  (long long)key_heads);
}

/* Checks q, k and v, separate or side by side. */
static eitp_status eitp__check_qkv(const eitp_tensor *q, const eitp_tensor *k, const eitp_tensor *v, int64_t heads,
                                   int64_t key_heads, eitp_error *error) {
    eitp_status status = eitp__require(!k == !v, error, "%s is NULL; pass both k and v, or neither", k ? "v" : "k");
    if (status)
        return status;
    return k ? eitp__check_apart(q, k, v, heads, key_heads, error) : eitp__check_packed(q, heads, key_heads, error);
}

static eitp_status eitp__check_rotation(const eitp_tensor *rotation, const eitp_tensor *q, int64_t width,
                                        eitp_error *error) {
    char text[100];
    if (!rotation)
        return EITP_OK;
    return eitp__require(width % 2 == 0 && rotation->dtype == eitp__wide(q->dtype) && eitp__has_rows(rotation, q) &&
                             rotation->shape[1] == width,
                         error, "the rotation is %s; it must be [%lld, %lld], with an even head width (got %lld)",
                         eitp__shape_text(rotation, text, sizeof text), (long long)q->shape[0], (long long)width,
                         (long long)width);
}

static eitp_status eitp__check_window(int64_t window, int bidirectional, eitp_error *error) {
    eitp_status status = eitp__require(window >= 0, error, "window is %lld; it must be 0 or more", (long long)window);
    return status ? status : eitp__require(!window || !bidirectional, error, "attention with a window must be causal");
}

static eitp_status eitp__check_mask(const eitp__node *node, eitp_error *error) {
    const eitp_tensor *mask = node->inputs[6];
    const eitp_dtype dtype = eitp__wide(node->inputs[0]->dtype);
    const int64_t longest = node->attributes.integers[1];
    int64_t full[4];
    char text[100];
    int fits = mask->rank <= 4 && !mask->rows && (mask->dtype == EITP_U8 || mask->dtype == dtype);
    full[0] = node->inputs[1]->shape[0] - 1;
    full[1] = node->attributes.integers[0];
    full[2] = full[3] = longest;
    for (int d = 0; d < mask->rank && fits; d++)
        fits = mask->shape[d] == 1 || mask->shape[d] == full[d + 4 - mask->rank];
    return eitp__require(
        fits, error,
        "mask is %s %s; it must be u8 or %s, of fixed shape, and broadcast to [%lld, %lld, %lld, %lld]: sequences, "
        "heads, max_length, max_length",
        eitp_dtype_name(mask->dtype), eitp__shape_text(mask, text, sizeof text), eitp_dtype_name(dtype),
        (long long)full[0], (long long)full[1], (long long)longest, (long long)longest);
}

static eitp_status eitp__shape_attention(eitp__node *node, eitp_error *error) {
    const eitp_tensor *q = node->inputs[0], *offsets = node->inputs[1], *key = node->inputs[2];
    const eitp_tensor *lengths = node->inputs[3], *k = node->inputs[4], *v = node->inputs[5];
    const int64_t max_length = node->attributes.integers[1];
    const double probability = node->attributes.reals[1];
    int64_t shape[2];
    eitp__head_sizes at;
    eitp_status status = eitp__check_qkv(q, k, v, node->attributes.integers[0], node->attributes.integers[4], error);
    if (!status)
        status = eitp__check_window(node->attributes.integers[5], node->attributes.integers[3] != 0, error);
    if (!status)
        status =
            eitp__check_rotation(node->inputs[EITP__ATTENTION_ROTATION], q, eitp__head_sizes_of(node).width, error);
    if (!status)
        status = eitp__require(offsets->dtype == EITP_I32 && offsets->rank == 1 && offsets->shape[0] >= 2, error,
                               "offsets must be i32 [sequences + 1]");
    if (!status)
        status = eitp__require(max_length >= 1 && max_length <= 1 << 24, error,
                               "max_length must be 1 to 16777216, not %lld", (long long)max_length);
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
    if (!status && node->inputs[6])
        status = eitp__check_mask(node, error);
    if (status)
        return status;
    at = eitp__head_sizes_of(node);
    shape[0] = q->shape[0];
    shape[1] = at.heads * at.value_width;
    status = eitp__node_output(node, q->dtype, 2, shape, q->rows, error);
    shape[1] = at.heads;
    return status ? status : eitp__node_output(node, eitp__wide(q->dtype), 2, shape, q->rows, error);
}

static eitp_status eitp__shape_attention_backward(eitp__node *node, eitp_error *error) {
    int numbers[EITP__MAX_OUTPUTS], count = eitp__differentiated_inputs(node, numbers);
    eitp_status status = EITP_OK;
    for (int i = 0; i < count && !status; i++)
        status = eitp__node_output_like(node, node->inputs[numbers[i]], error);
    return status;
}

static void eitp__gradient_attention(const eitp__node *node, eitp_tensor *const *dy, eitp_tensor **dx) {
    eitp_tensor *inputs[EITP__ATTENTION_BACKWARD_INPUTS];
    eitp__node *backward;
    int numbers[EITP__MAX_OUTPUTS], count;
    memcpy(inputs, node->inputs, EITP__ATTENTION_INPUTS * sizeof *inputs);
    inputs[EITP__ATTENTION_O] = node->outputs[0];
    inputs[EITP__ATTENTION_LOGSUMEXP] = node->outputs[1];
    inputs[EITP__ATTENTION_DO] = dy[0];
    backward = eitp__node_create(node->graph, EITP__OP_ATTENTION_BACKWARD, inputs, EITP__ATTENTION_BACKWARD_INPUTS,
                                 &node->attributes);
    count = backward ? eitp__differentiated_inputs(backward, numbers) : 0;
    for (int i = 0; i < count; i++)
        eitp__add_gradient(&dx[numbers[i]], backward->outputs[i]);
}

/* Counts scores and values of all pairs of rows in a sequence, or of the causal half, without pairs outside the window.
   Every sequence is assumed to have the maximum length. */
static double eitp__flops_attention(const eitp__node *node) {
    const eitp__head_sizes at = eitp__head_sizes_of(node);
    const double longest = (double)node->attributes.integers[1], window = (double)node->attributes.integers[5];
    double keys = node->attributes.integers[3] ? 2 * longest : longest; /* twice the number of rows that a row attends
                                                                           to */
    if (window > 0 && window < longest)
        keys = window * (2 - window / longest);
    return (double)node->inputs[0]->shape[0] * keys * (double)(at.heads * (at.width + at.value_width));
}

static double eitp__flops_attention_backward(const eitp__node *node) {
    return 2.5 * eitp__flops_attention(node);
}

/* ---- Expansion ---- */

/* Score of a key that a query must not attend to. Its exponential is 0 relative to any unmasked key's. Unlike with
   minus infinity, the softmax of a row that has only this score is finite. */
#define EITP__MASKED_SCORE (-3.4028234663852886e38)

/* The batch, padded to [sequences, heads, max_length, ..]. */
typedef struct eitp__padding {
    int64_t sequences, max_length;
    eitp_tensor *ids;     /* I32 [sequences max_length]: the row in the batch, or -1 for padding */
    eitp_tensor *visible; /* U8 [sequences, 1, max_length or 1, max_length]: 0 for padding and for keys after the
                             query */
} eitp__padding;

/* Computes row numbers in F64, which holds them exactly. */
static eitp__padding eitp__pad_sequences(const eitp__node *node) {
    static const int64_t flat[1] = {-1}, queries[2] = {-1, 1}, sequences[4] = {-1, 1, 1, 1};
    const int64_t count = node->inputs[1]->shape[0] - 1;
    eitp_tensor *bounds = eitp_cast(node->inputs[1], EITP_F64), *begin, *limit, *position;
    eitp__padding padding;
    padding.sequences = count;
    padding.max_length = node->attributes.integers[1];
    begin = eitp_reshape(eitp_slice(bounds, 0, 0, count), 4, sequences);
    limit = eitp_subtract(eitp_reshape(eitp_slice(bounds, 0, 1, count + 1), 4, sequences), begin);
    if (node->inputs[3])
        limit = eitp_minimum(limit, eitp_reshape(eitp_cast(node->inputs[3], EITP_F64), 4, sequences));
    position = eitp_arange(node->graph, EITP_F64, padding.max_length);
    padding.ids = eitp_where(eitp_less(position, limit), eitp_add(begin, position), eitp__scalar_like(bounds, -1));
    padding.ids = eitp_reshape(eitp_cast(padding.ids, EITP_I32), 1, flat);
    if (!node->attributes.integers[3])
        limit = eitp_minimum(limit, eitp_reshape(eitp_affine(position, 1, 1), 2, queries));
    padding.visible = eitp_less(position, limit);
    if (node->attributes.integers[5]) { /* within the window: position > query - window */
        eitp_tensor *before = eitp_reshape(eitp_affine(position, 1, -(double)node->attributes.integers[5]), 2, queries);
        padding.visible = eitp_cast(
            eitp_multiply(eitp_cast(padding.visible, EITP_F64), eitp_cast(eitp_less(before, position), EITP_F64)),
            EITP_U8);
    }
    return padding;
}

/* Pads rows x [n, heads c] to [sequences, heads, max_length, c]. */
static eitp_tensor *eitp__padded(eitp_tensor *x, const eitp__padding *padding, int64_t heads) {
    static const int order[4] = {0, 2, 1, 3};
    int64_t shape[4] = {0, 0, 0, -1};
    shape[0] = padding->sequences;
    shape[1] = padding->max_length;
    shape[2] = heads;
    return eitp_permute(eitp_reshape(eitp_embedding(x, padding->ids), 4, shape), order);
}

/* Packs y [sequences, heads, max_length, c] into rows [n, heads c] in the order of q's rows. Padding, and rows in no
   sequence, are zeros. */
static eitp_tensor *eitp__packed(eitp_tensor *y, const eitp__padding *padding, const eitp_tensor *q) {
    static const int order[4] = {0, 2, 1, 3};
    int64_t shape[2] = {0, -1};
    shape[0] = padding->sequences * padding->max_length;
    return eitp__scatter_rows(padding->ids, eitp_reshape(eitp_permute(y, order), 2, shape), q);
}

/* Multiplies x [s, heads, t, ..] by shared keys or values: heads that share them become rows of one product. */
static eitp_tensor *eitp__shared_product(eitp_tensor *x, eitp_tensor *shared, int transpose,
                                         const eitp__padding *padding, const eitp__head_sizes *at) {
    int64_t shape[4] = {0, 0, 0, -1};
    shape[0] = padding->sequences;
    shape[1] = at->key_heads;
    shape[2] = at->heads / at->key_heads * padding->max_length;
    x = eitp_matmul_transposed(eitp_reshape(x, 4, shape), shared, 0, transpose);
    shape[1] = at->heads;
    shape[2] = padding->max_length;
    return eitp_reshape(x, 4, shape);
}

/* Returns the dropout factors of the probabilities, numbered by query row, head and position of the key, as in the
   kernels. */
static eitp_tensor *eitp__attention_dropout(const eitp__node *node, const eitp__padding *padding, int64_t heads) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *inputs[2];
    int64_t shape[3], flat[2];
    shape[0] = flat[0] = node->inputs[0]->shape[0];
    shape[1] = heads;
    shape[2] = padding->max_length;
    flat[1] = heads * padding->max_length;
    inputs[0] = eitp_fill(node->graph, node->inputs[0]->dtype, 3, shape, 1);
    inputs[1] = node->inputs[2];
    attributes.integers[0] = node->attributes.integers[2];
    attributes.reals[0] = node->attributes.reals[1];
    return eitp__padded(eitp_reshape(eitp__apply(EITP__OP_DROPOUT, inputs, 2, &attributes), 2, flat), padding, heads);
}

/* Returns the attention scores [s, heads, t, t], with the mask applied. */
static eitp_tensor *eitp__attention_scores(const eitp__node *node, eitp_tensor *q, eitp_tensor *k,
                                           const eitp__padding *padding, const eitp__head_sizes *at) {
    eitp_tensor *mask = node->inputs[6], *masked = eitp__scalar_like(node->inputs[0], EITP__MASKED_SCORE), *scores;
    scores = eitp__shared_product(eitp__padded(q, padding, at->heads), eitp__padded(k, padding, at->key_heads), 1,
                                  padding, at);
    scores = eitp_affine(scores, node->attributes.reals[0], 0);
    if (mask && mask->dtype == EITP_U8)
        scores = eitp_where(mask, scores, masked);
    else if (mask)
        scores = eitp_add(scores, eitp_clamp(mask, EITP__MASKED_SCORE, (double)INFINITY));
    return eitp_where(padding->visible, scores, masked);
}

EITP__PRIVATE eitp_tensor *eitp__rotated(eitp_tensor *x, eitp_tensor *rotation) {
    const int64_t width = rotation ? rotation->shape[1] : 0, half = width / 2;
    int64_t shape[3], whole[2];
    eitp_tensor *cosines, *sines, *parts[2], *a, *b;
    if (!x || !rotation)
        return x;
    whole[0] = shape[0] = x->shape[0];
    whole[1] = x->shape[1];
    shape[1] = x->shape[1] / width;
    shape[2] = width;
    x = eitp_reshape(x, 3, shape);
    shape[1] = 1;
    rotation = eitp_reshape(rotation, 3, shape);
    cosines = eitp_slice(rotation, 2, 0, half);
    sines = eitp_slice(rotation, 2, half, width);
    a = eitp_slice(x, 2, 0, half);
    b = eitp_slice(x, 2, half, width);
    parts[0] = eitp_subtract(eitp_multiply(a, cosines), eitp_multiply(b, sines));
    parts[1] = eitp_add(eitp_multiply(b, cosines), eitp_multiply(a, sines));
    return eitp_reshape(eitp_concat(parts, 2, 2), 2, whole);
}

/* Expands attention of rotated queries and keys. */
static void eitp__expand_rotation(const eitp__node *node, eitp_tensor *q, eitp_tensor *k, eitp_tensor *v,
                                  eitp_tensor **outputs) {
    eitp_tensor *inputs[EITP__ATTENTION_INPUTS], *rotation = node->inputs[EITP__ATTENTION_ROTATION];
    const eitp__node *attention;
    memcpy(inputs, node->inputs, sizeof inputs);
    inputs[EITP__ATTENTION_Q] = eitp__rotated(q, rotation);
    inputs[EITP__ATTENTION_K] = eitp__rotated(k, rotation);
    inputs[EITP__ATTENTION_V] = v;
    inputs[EITP__ATTENTION_ROTATION] = NULL;
    attention = eitp__node_create(node->graph, EITP__OP_ATTENTION, inputs, EITP__ATTENTION_INPUTS, &node->attributes);
    outputs[0] = attention ? attention->outputs[0] : NULL;
    outputs[1] = attention ? attention->outputs[1] : NULL;
}

/* Expands F32 and F64 attention; other dtypes are widened first. */
static void eitp__expand_attention(const eitp__node *node, eitp_tensor **outputs) {
    const eitp__head_sizes at = eitp__head_sizes_of(node);
    eitp_tensor *q = node->inputs[0], *k = node->inputs[4], *v = node->inputs[5], *zero = eitp__scalar_like(q, 0);
    eitp_tensor *scores, *largest, *weights, *total, *y, *logsumexp, *is_seen;
    eitp__padding padding;
    if (!v) {
        int64_t keys = at.heads * at.width, values = keys + at.key_heads * at.width;
        v = eitp_slice(q, 1, values, q->shape[1]);
        k = eitp_slice(q, 1, keys, values);
        q = eitp_slice(q, 1, 0, keys);
    }
    if (node->inputs[EITP__ATTENTION_ROTATION]) {
        eitp__expand_rotation(node, q, k, v, outputs);
        return;
    }
    padding = eitp__pad_sequences(node);
    scores = eitp__attention_scores(node, q, k, &padding, &at);
    largest = eitp_stop_gradient(eitp_max(scores, 1u << 3, 1));
    weights = eitp_exp(eitp_subtract(scores, largest));
    total = eitp_sum(weights, 1u << 3, 1);
    logsumexp = eitp_add(largest, eitp_log(total));
    if (node->inputs[2])
        weights = eitp_multiply(weights, eitp__attention_dropout(node, &padding, at.heads));
    y = eitp__shared_product(weights, eitp__padded(v, &padding, at.key_heads), 0, &padding, &at);
    y = eitp_divide(y, total);
    if (node->inputs[6]) {
        is_seen = eitp_less(eitp__scalar_like(largest, EITP__MASKED_SCORE / 2), largest);
        y = eitp_where(is_seen, y, zero);
        logsumexp = eitp_where(is_seen, logsumexp, zero);
    }
    outputs[0] = eitp__packed(y, &padding, node->inputs[0]);
    outputs[1] = eitp__packed(logsumexp, &padding, node->inputs[0]);
}

/* ---- With a cache ---- */

eitp_tensor *eitp_attention_cached(const eitp_attention_inputs *inputs, eitp_tensor *keys, eitp_tensor *values,
                                   eitp_tensor *position, const eitp_attention_config *config) {
    eitp__attributes attributes = EITP__ZERO;
    eitp_tensor *operands[EITP__CACHED_INPUTS];
    if (!inputs || !config)
        return NULL;
    attributes.integers[0] = config->heads;
    attributes.integers[1] = eitp__key_heads(config);
    attributes.integers[2] = config->sliding_window;
    attributes.reals[0] = config->scale;
    operands[EITP__CACHED_Q] = inputs->q;
    operands[EITP__CACHED_KEYS] = keys;
    operands[EITP__CACHED_VALUES] = values;
    operands[EITP__CACHED_POSITION] = position;
    operands[EITP__CACHED_K] = inputs->k;
    operands[EITP__CACHED_V] = inputs->v;
    operands[EITP__CACHED_ROTATION] = eitp__rotation_for(inputs->rotation, inputs->q);
    return eitp__apply(EITP__OP_ATTENTION_CACHED, operands, EITP__CACHED_INPUTS, &attributes);
}

/* True if the tensor outlives an execution. */
static int eitp__is_stored(const eitp_tensor *tensor) {
    return tensor->leaf == EITP__VARIABLE || tensor->is_kept;
}

static eitp_status eitp__check_cache(const eitp__node *node, const eitp__head_sizes *at, eitp_error *error) {
    const eitp_tensor *q = node->inputs[0], *keys = node->inputs[EITP__CACHED_KEYS];
    const eitp_tensor *values = node->inputs[EITP__CACHED_VALUES], *position = node->inputs[EITP__CACHED_POSITION];
    const int64_t columns = at->key_heads * at->width;
    eitp_status status =
        eitp__require(eitp__is_stored(keys) && eitp__is_stored(values) && keys->rank == 2 &&
                          keys->shape[1] == columns && at->value_width == at->width && keys->dtype == q->dtype &&
                          eitp__same_shape(keys, values) && values->dtype == keys->dtype,
                      error, "keys and values must be variables or kept inputs [max_length, %lld] with the dtype of q",
                      (long long)columns);
    return status ? status
                  : eitp__require(position->dtype == EITP_I32 && eitp__elements(position) == 1, error,
                                  "position must be i32 [1]");
}

static eitp_status eitp__shape_attention_cached(eitp__node *node, eitp_error *error) {
    const eitp_tensor *q = node->inputs[0];
    int64_t shape[2];
    eitp__head_sizes at = EITP__ZERO;
    eitp_status status = eitp__check_qkv(q, node->inputs[EITP__CACHED_K], node->inputs[EITP__CACHED_V],
                                         node->attributes.integers[0], node->attributes.integers[1], error);
    if (!status)
        status = eitp__check_window(node->attributes.integers[2], 0, error);
    if (!status) {
        at = eitp__head_sizes_of(node);
        status = eitp__check_rotation(node->inputs[EITP__CACHED_ROTATION], q, at.width, error);
    }
    if (!status)
        status = eitp__check_cache(node, &at, error);
    if (status)
        return status;
    shape[0] = q->shape[0];
    shape[1] = at.heads * at.width;
    status = eitp__node_output(node, q->dtype, 2, shape, q->rows, error);
    for (int i = 1; i <= 2 && !status; i++)
        status = eitp__node_output_like(node, node->inputs[i], error);
    return status;
}

/* ---- Entries of the table of ops ---- */

EITP__PRIVATE void eitp__op_attention(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = 2;
    op->max_inputs = EITP__ATTENTION_INPUTS;
    op->outputs = 2;
    op->shape = eitp__shape_attention;
    op->gradient = eitp__gradient_attention;
    op->expand = eitp__expand_attention;
    op->flops = eitp__flops_attention;
}

EITP__PRIVATE void eitp__op_attention_backward(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = 2;
    op->max_inputs = EITP__ATTENTION_BACKWARD_INPUTS;
    op->outputs = 4;
    op->wrt[1] = 4;
    op->wrt[2] = 5;
    op->wrt[3] = 6;
    op->shape = eitp__shape_attention_backward;
    op->flops = eitp__flops_attention_backward;
    op->backward_of = EITP__OP_ATTENTION + 1;
}

EITP__PRIVATE void eitp__op_attention_cached(eitp__op_info *op) {
    op->work = EITP_WORK_ATTENTION;
    op->min_inputs = 4;
    op->max_inputs = EITP__CACHED_INPUTS;
    op->outputs = 3;
    op->shape = eitp__shape_attention_cached;
    op->shares[1] = 2;
    op->shares[2] = 3;
}
