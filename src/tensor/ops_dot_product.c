/*
 * Attention with separate queries, keys and values, with a mask or bias. It is composed of other ops, so every input
 * can be differentiated, at the cost of storing the scores.
 */
#include "tensor/op_rules.h"

/*
 * The score of a key that a query must not attend to. Its exponential is 0 next to that of any unmasked key. Unlike
 * minus infinity, a row of nothing but this score has a softmax.
 */
#define EITP__MASKED_SCORE (-3.4028234663852886e38)

/* Reshapes x [.., h, t, c] to [.., heads, rows, c], where h t = heads rows. */
static eitp_tensor *eitp__regroup(eitp_tensor *x, int64_t heads, int64_t rows) {
    int64_t shape[EITP_MAX_RANK];
    if (!x || x->rank < 3 || x->shape[x->rank - 3] == heads)
        return x;
    memcpy(shape, x->shape, sizeof shape);
    shape[x->rank - 3] = heads;
    shape[x->rank - 2] = rows;
    return eitp_reshape(x, x->rank, shape);
}

/* How many heads of q share one head of k. */
static int64_t eitp__head_group(const eitp_tensor *q, const eitp_tensor *k) {
    int64_t heads = eitp_tensor_dimension(q, -3), key_heads = eitp_tensor_dimension(k, -3);
    return key_heads && heads > key_heads ? heads / key_heads : 1;
}

/* scale * q k^T: [.., t, s]. Heads of q that share keys become one head with more queries. */
static eitp_tensor *eitp__scores(eitp_tensor *q, eitp_tensor *k, double scale) {
    int64_t group = eitp__head_group(q, k), heads = eitp_tensor_dimension(q, -3), rows = eitp_tensor_dimension(q, -2);
    eitp_tensor *scores = eitp__regroup(q, heads / group, rows * group);
    scores = eitp_affine(eitp_matmul_wide(scores, k, 0, 1), scale, 0);
    return group > 1 ? eitp__regroup(scores, heads, rows) : scores;
}

/* The values weighted by the probabilities [.., t, s]: [.., t, e]. */
static eitp_tensor *eitp__weighted_values(eitp_tensor *probabilities, eitp_tensor *v) {
    int64_t group = eitp__head_group(probabilities, v), heads = eitp_tensor_dimension(probabilities, -3);
    int64_t rows = eitp_tensor_dimension(probabilities, -2);
    eitp_tensor *y;
    if (!probabilities || !v)
        return NULL;
    y = eitp__regroup(eitp_cast(probabilities, v->dtype), heads / group, rows * group);
    y = eitp_matmul(y, v);
    return group > 1 ? eitp__regroup(y, heads, rows) : y;
}

/* Adds a bias to the scores, or masks them where a U8 mask is 0. */
static eitp_tensor *eitp__masked(eitp_tensor *scores, eitp_tensor *mask) {
    if (!scores || !mask)
        return NULL;
    if (mask->dtype == EITP_U8)
        return eitp_where(mask, scores, eitp__scalar_like(scores, EITP__MASKED_SCORE));
    return eitp_add(scores, eitp_clamp(mask, EITP__MASKED_SCORE, (double)INFINITY));
}

/* U8 [queries, keys]: 1 where the key's index is at most the query's. */
static eitp_tensor *eitp__causal_mask(const eitp_tensor *scores) {
    int64_t column[2] = {-1, 1}, row[2] = {1, -1};
    eitp_tensor *queries, *keys;
    if (!scores)
        return NULL;
    queries = eitp_arange(scores->graph, EITP_F32, scores->shape[scores->rank - 2]);
    keys = eitp_arange(scores->graph, EITP_F32, scores->shape[scores->rank - 1]);
    return eitp_less(eitp_reshape(keys, 2, row), eitp_reshape(eitp_affine(queries, 1, 1), 2, column));
}

/* y, with zeros for queries whose keys are all masked. */
static eitp_tensor *eitp__zero_masked_queries(eitp_tensor *y, eitp_tensor *scores) {
    eitp_tensor *largest, *all_masked;
    if (!y || !scores)
        return NULL;
    largest = eitp_stop_gradient(eitp_max(scores, 1u << (scores->rank - 1), 1));
    all_masked = eitp_less(largest, eitp__scalar_like(scores, EITP__MASKED_SCORE / 2));
    return eitp_where(all_masked, eitp__scalar_like(y, 0), y);
}

static eitp_status eitp__check_mask(const eitp_tensor *mask, const eitp_tensor *scores, eitp_error *error) {
    int fits = mask->rank <= scores->rank && (mask->dtype == EITP_U8 || mask->dtype == scores->dtype);
    char text[100], full[100];
    for (int d = 0; d < mask->rank && fits; d++) {
        int64_t extent = mask->shape[d];
        fits = extent == 1 || extent == scores->shape[d + scores->rank - mask->rank];
    }
    return eitp__require(fits, error, "mask is %s %s; it must be u8 or %s, and broadcast to %s",
                         eitp_dtype_name(mask->dtype), eitp__shape_text(mask, text, sizeof text),
                         eitp_dtype_name(scores->dtype), eitp__shape_text(scores, full, sizeof full));
}

/* The scores after mask and causality. Returns NULL and sets the graph's error if the mask does not fit. */
static eitp_tensor *eitp__visible_scores(eitp_tensor *scores, eitp_tensor *mask, int causal, const char *op) {
    eitp_error error = EITP__ZERO;
    if (!scores)
        return NULL;
    if (mask && eitp__check_mask(mask, scores, &error)) {
        eitp__graph_fail(scores->graph, EITP_ERROR_ARGUMENT, "%s: %s", op, error.message);
        return NULL;
    }
    if (mask)
        scores = eitp__masked(scores, mask);
    return causal ? eitp__masked(scores, eitp__causal_mask(scores)) : scores;
}

/* True if all inputs are present. Otherwise sets the error of the graph of one that is. */
static int eitp__check_present(eitp_tensor *const *inputs, int count, const char *op) {
    eitp_graph *graph = NULL;
    int missing = -1;
    for (int i = count - 1; i >= 0; i--) {
        if (inputs[i])
            graph = inputs[i]->graph;
        else
            missing = i;
    }
    if (graph && missing >= 0)
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input %d of %s is NULL", missing, op);
    return missing < 0;
}

static eitp_status eitp__check_probability(double probability, eitp_error *error) {
    return eitp__require(probability >= 0 && probability < 1, error,
                         "the dropout probability is %g; it must be in [0, 1)", probability);
}

/* ---- Batches of any rank ---- */

static eitp_status eitp__check_dot_product(const eitp_tensor *q, const eitp_tensor *k, const eitp_tensor *v,
                                           const eitp_dot_product_config *config, eitp_error *error) {
    int rank = q->rank, fits = rank >= 2 && k->rank == rank && v->rank == rank && eitp__is_floating(q->dtype) &&
                               k->dtype == q->dtype && v->dtype == q->dtype;
    char queries[100], keys[100], values[100];
    eitp_status status = eitp__require(config != NULL, error, "config is NULL");
    if (!status)
        status = eitp__check_probability(config->dropout, error);
    if (status)
        return status;
    fits = fits && k->shape[rank - 1] == q->shape[rank - 1] && v->shape[rank - 2] == k->shape[rank - 2];
    if (fits && rank > 2)
        fits = k->shape[rank - 3] == v->shape[rank - 3] &&
               (q->shape[rank - 3] < k->shape[rank - 3] || q->shape[rank - 3] % k->shape[rank - 3] == 0);
    return eitp__require(fits, error,
                         "q %s, k %s and v %s must be [.., t, d], [.., s, d] and [.., s, e] of one "
                         "floating-point dtype, and the heads of q a multiple of those of k",
                         eitp__shape_text(q, queries, sizeof queries), eitp__shape_text(k, keys, sizeof keys),
                         eitp__shape_text(v, values, sizeof values));
}

eitp_tensor *eitp_scaled_dot_product_attention(eitp_tensor *q, eitp_tensor *k, eitp_tensor *v, eitp_tensor *mask,
                                               eitp_tensor *key, const eitp_dot_product_config *config) {
    static const char *const op = "scaled_dot_product_attention";
    eitp_tensor *inputs[3], *scores, *probabilities, *y;
    eitp_error error = EITP__ZERO;
    inputs[0] = q;
    inputs[1] = k;
    inputs[2] = v;
    if (!eitp__check_present(inputs, 3, op))
        return NULL;
    if (eitp__check_dot_product(q, k, v, config, &error)) {
        eitp__graph_fail(q->graph, EITP_ERROR_ARGUMENT, "%s: %s", op, error.message);
        return NULL;
    }
    scores = eitp__visible_scores(eitp__scores(q, k, config->scale), mask, config->causal, op);
    probabilities = eitp_softmax(scores);
    if (key && config->dropout != 0)
        probabilities = eitp_dropout(probabilities, key, config->dropout);
    y = eitp__weighted_values(probabilities, v);
    return mask ? eitp__zero_masked_queries(y, scores) : y;
}

/* ---- Packed sequences ---- */

/* A packed batch, padded to [sequences, heads, max_length, ..]. */
typedef struct eitp__padding {
    int64_t sequences, max_length;
    eitp_tensor *ids;     /* I32 [sequences max_length]: the row in the batch, or -1 for padding */
    eitp_tensor *present; /* U8 [sequences, 1, 1, max_length]: 0 for padding */
} eitp__padding;

/* Computes row numbers in F64, which holds them exactly. */
static eitp__padding eitp__pad_sequences(eitp_tensor *offsets, eitp_tensor *lengths, int64_t max_length) {
    eitp__padding padding;
    int64_t sequences = offsets->shape[0] - 1, column[2] = {-1, 1}, row[2] = {1, -1}, flat[1] = {-1}, shape[4];
    eitp_tensor *bounds = eitp_cast(offsets, EITP_F64), *begin, *length, *position, *present;
    begin = eitp_reshape(eitp_slice(bounds, 0, 0, sequences), 2, column);
    length = eitp_subtract(eitp_reshape(eitp_slice(bounds, 0, 1, sequences + 1), 2, column), begin);
    if (lengths) {
        lengths = eitp_reshape(eitp_cast(lengths, EITP_F64), 2, column);
        length = eitp_where(eitp_less(lengths, length), lengths, length);
    }
    position = eitp_reshape(eitp_arange(offsets->graph, EITP_F64, max_length), 2, row);
    present = eitp_less(position, length);
    padding.sequences = shape[0] = sequences;
    padding.max_length = shape[3] = max_length;
    shape[1] = shape[2] = 1;
    padding.ids = eitp_where(present, eitp_add(begin, position), eitp__scalar_like(bounds, -1));
    padding.ids = eitp_reshape(eitp_cast(padding.ids, EITP_I32), 1, flat);
    padding.present = eitp_reshape(present, 4, shape);
    return padding;
}

/* Pads rows x [n, heads c] to [sequences, heads, max_length, c]. */
static eitp_tensor *eitp__padded(eitp_tensor *x, const eitp__padding *padding, int64_t heads) {
    static const int order[4] = {0, 2, 1, 3};
    int64_t shape[4] = {0, 0, 0, -1};
    shape[0] = padding->sequences;
    shape[1] = padding->max_length;
    shape[2] = heads;
    x = eitp_reshape(eitp_embedding(x, padding->ids), 4, shape);
    return eitp_permute(x, order);
}

/*
 * Packs y [sequences, heads, max_length, c] into rows [n, heads c] like those of q. Rows in no sequence and padding are
 * zeros.
 */
static eitp_tensor *eitp__packed(eitp_tensor *y, const eitp__padding *padding, const eitp_tensor *q) {
    static const int order[4] = {0, 2, 1, 3};
    int64_t shape[2] = {0, -1};
    shape[0] = padding->sequences * padding->max_length;
    y = eitp_reshape(eitp_permute(y, order), 2, shape);
    return eitp_cast(eitp__scatter_rows(padding->ids, y, q), q->dtype);
}

/* The dropout factors 0 and 1 / (1 - p) of the probabilities: the same that eitp_attention draws. */
static eitp_tensor *eitp__packed_dropout(const eitp_tensor *q, eitp_tensor *key, const eitp__padding *padding,
                                         const eitp_attention_config *config) {
    int64_t shape[3], flat[2];
    eitp_tensor *factors;
    shape[0] = flat[0] = q->shape[0];
    shape[1] = config->heads;
    shape[2] = padding->max_length;
    flat[1] = config->heads * padding->max_length;
    factors = eitp_fill(q->graph, eitp__wide(q->dtype), 3, shape, 1);
    factors = eitp_reshape(eitp_dropout(factors, key, config->dropout), 2, flat);
    return eitp__padded(factors, padding, config->heads);
}

static eitp_status eitp__check_separate(const eitp_tensor *q, const eitp_tensor *k, const eitp_tensor *v,
                                        const eitp_attention_config *config, eitp_error *error) {
    char queries[100], keys[100], values[100];
    int64_t heads = config ? config->heads : 0, width, key_heads;
    int fits = q->rank == 2 && k->rank == 2 && v->rank == 2 && eitp__is_floating(q->dtype) && k->dtype == q->dtype &&
               v->dtype == q->dtype && k->shape[0] == q->shape[0] && v->shape[0] == q->shape[0] && k->rows == q->rows &&
               v->rows == q->rows;
    eitp_status status = eitp__require(config != NULL, error, "config is NULL");
    if (!status)
        status = eitp__check_probability(config->dropout, error);
    if (status)
        return status;
    width = fits && heads >= 1 && q->shape[1] % heads == 0 ? q->shape[1] / heads : 0;
    key_heads = width && k->shape[1] % width == 0 ? k->shape[1] / width : 0;
    fits = key_heads && heads % key_heads == 0 && v->shape[1] % key_heads == 0;
    status = eitp__require(fits, error,
                           "q %s, k %s and v %s must be [n, heads d], [n, h d] and [n, h e] of one "
                           "floating-point dtype, where h divides the %lld heads",
                           eitp__shape_text(q, queries, sizeof queries), eitp__shape_text(k, keys, sizeof keys),
                           eitp__shape_text(v, values, sizeof values), (long long)heads);
    return status ? status
                  : eitp__require(config->max_length >= 1 && config->max_length <= 1 << 24, error,
                                  "max_length must be 1 to 16777216, not %lld", (long long)config->max_length);
}

static eitp_status eitp__check_packing(const eitp_tensor *offsets, const eitp_tensor *lengths, eitp_error *error) {
    eitp_status status = eitp__require(offsets->dtype == EITP_I32 && offsets->rank == 1 && offsets->shape[0] >= 2,
                                       error, "offsets must be i32 [sequences + 1]");
    if (status || !lengths)
        return status;
    return eitp__require(lengths->dtype == EITP_I32 && lengths->rank == 1 && lengths->shape[0] == offsets->shape[0] - 1,
                         error, "lengths must be i32 [%lld], one for each sequence", (long long)offsets->shape[0] - 1);
}

eitp_tensor *eitp_attention_separate(eitp_tensor *q, eitp_tensor *k, eitp_tensor *v, eitp_tensor *offsets,
                                     eitp_tensor *key, eitp_tensor *lengths, eitp_tensor *mask,
                                     const eitp_attention_config *config) {
    static const char *const op = "attention_separate";
    eitp_tensor *inputs[4], *scores, *probabilities, *y;
    eitp__padding padding;
    eitp_error error = EITP__ZERO;
    int64_t key_heads;
    inputs[0] = q;
    inputs[1] = k;
    inputs[2] = v;
    inputs[3] = offsets;
    if (!eitp__check_present(inputs, 4, op))
        return NULL;
    if (eitp__check_separate(q, k, v, config, &error) || eitp__check_packing(offsets, lengths, &error)) {
        eitp__graph_fail(q->graph, EITP_ERROR_ARGUMENT, "%s: %s", op, error.message);
        return NULL;
    }
    key_heads = k->shape[1] / (q->shape[1] / config->heads);
    padding = eitp__pad_sequences(offsets, lengths, config->max_length);
    scores =
        eitp__scores(eitp__padded(q, &padding, config->heads), eitp__padded(k, &padding, key_heads), config->scale);
    scores = eitp__visible_scores(scores, mask, !config->bidirectional, op);
    scores = eitp__masked(scores, padding.present);
    probabilities = eitp_softmax(scores);
    if (key && config->dropout != 0)
        probabilities = eitp_multiply(probabilities, eitp__packed_dropout(q, key, &padding, config));
    y = eitp__weighted_values(probabilities, eitp__padded(v, &padding, key_heads));
    y = eitp__packed(mask ? eitp__zero_masked_queries(y, scores) : y, &padding, q);
    if (y)
        eitp__add_offsets_rule(offsets, q->shape[0], config->max_length);
    return y;
}
