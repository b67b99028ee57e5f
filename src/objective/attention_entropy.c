/* The entropy of a group's attention. */
#include "objective/statistics.h"

#include "tensor/op_rules.h"

/* The score of rows that are not visible; their probability is 0. */
#define EITP__ATTENTION_NEVER (-1e30)

/* Returns columns [begin, end) of x, the heads of q or k: [groups, heads, rows, d]. */
static eitp_tensor *eitp__attention_heads(eitp_tensor *x, int64_t begin, int64_t end, int64_t heads) {
    static const int order[] = {0, 2, 1, 3};
    int64_t shape[4];
    shape[0] = eitp_tensor_dimension(x, 0);
    shape[1] = eitp_tensor_dimension(x, 1);
    shape[2] = heads;
    shape[3] = -1;
    return eitp_permute(eitp_reshape(eitp_slice(x, 2, begin, end), 4, shape), order);
}

/* Returns the scores [groups, heads, rows, rows]. Queries that share keys become rows of one product. */
static eitp_tensor *eitp__attention_scores_of(eitp_tensor *x, const eitp__attention_shape *shape) {
    const int64_t width = eitp_tensor_dimension(x, 2) / (shape->heads + shape->key_heads);
    const int64_t queries = shape->heads * width, rows = eitp_tensor_dimension(x, 1);
    eitp_tensor *q = eitp__attention_heads(x, 0, queries, shape->heads);
    eitp_tensor *k = eitp__attention_heads(x, queries, queries + shape->key_heads * width, shape->key_heads);
    int64_t grouped[4];
    grouped[0] = eitp_tensor_dimension(x, 0);
    grouped[1] = shape->key_heads;
    grouped[2] = shape->heads / shape->key_heads * rows;
    grouped[3] = width;
    q = eitp_matmul_transposed(eitp_reshape(q, 4, grouped), k, 0, 1);
    grouped[1] = shape->heads;
    grouped[2] = grouped[3] = rows;
    return eitp_affine(eitp_reshape(q, 4, grouped), shape->scale, 0);
}

/* Returns 1 where row i sees row j, otherwise 0: [groups, 1, rows, rows]. */
static eitp_tensor *eitp__attention_visible(eitp_tensor *mask, const eitp__attention_shape *shape) {
    const int64_t rows = eitp_tensor_dimension(mask, 1);
    eitp_tensor *places, *visible;
    int64_t keys[4], column[2];
    if (!mask)
        return NULL;
    keys[0] = eitp_tensor_dimension(mask, 0);
    keys[1] = 1;
    keys[2] = 1;
    keys[3] = rows;
    column[0] = rows;
    column[1] = 1;
    places = eitp_arange(mask->graph, mask->dtype, rows);
    visible = eitp_less(eitp_reshape(places, 2, column), places); /* later rows are not visible */
    visible = eitp_where(visible, eitp__scalar_like(mask, shape->bidirectional ? 1 : 0), eitp__scalar_like(mask, 1));
    if (shape->sliding_window) { /* nor are rows before its window */
        eitp_tensor *before = eitp_reshape(eitp_affine(places, 1, (double)(1 - shape->sliding_window)), 2, column);
        visible = eitp_where(eitp_less(places, before), eitp__scalar_like(mask, 0), visible);
    }
    return eitp_multiply(visible, eitp_reshape(mask, 4, keys));
}

/* Returns the entropy of the softmax of each row of x, with the rank of x. */
static eitp_tensor *eitp__attention_row_entropy(eitp_tensor *x) {
    int64_t shape[4];
    for (int i = 0; i < 3; i++)
        shape[i] = eitp_tensor_dimension(x, i);
    shape[3] = 1;
    return eitp_reshape(eitp_softmax_entropy(x), 4, shape);
}

/* Returns the mean of values [groups, heads, rows, 1] with weights [groups, 1, rows, 1]: [groups]. */
static eitp_tensor *eitp__attention_mean(eitp_tensor *values, eitp_tensor *weights) {
    const unsigned inner = EITP_ALL_DIMENSIONS & 14u;
    const double heads = (double)eitp_tensor_dimension(values, 1);
    eitp_tensor *count = eitp_affine(eitp_sum(weights, inner, 0), heads, 0);
    return eitp_divide(eitp_sum(eitp_multiply(values, weights), inner, 0),
                       eitp_maximum(count, eitp__scalar_like(count, 1)));
}

EITP__PRIVATE void eitp__stat_attention(eitp_tensor *x, eitp_tensor *mask, const eitp__attention_shape *shape,
                                        double floor, eitp_tensor **entropy, eitp_tensor **penalty) {
    eitp_tensor *visible = eitp__attention_visible(mask, shape);
    eitp_tensor *scores = eitp__attention_scores_of(eitp__group_wide(x, mask), shape);
    eitp_tensor *count = eitp_sum(visible, 8u, 1), *sees_two, *weights, *values;
    int64_t column[4];
    column[0] = eitp_tensor_dimension(mask, 0);
    column[1] = 1;
    column[2] = eitp_tensor_dimension(mask, 1);
    column[3] = 1;
    scores = eitp_where(eitp_less(eitp__scalar_like(mask, 0.5), visible), scores,
                        eitp__scalar_like(scores, EITP__ATTENTION_NEVER));
    sees_two = eitp_less(eitp__scalar_like(mask, 1.5), count);
    weights = eitp_where(sees_two, eitp_reshape(mask, 4, column), eitp__scalar_like(mask, 0));
    count = eitp_where(sees_two, count, eitp__scalar_like(count, 2));
    values = eitp_divide(eitp__attention_row_entropy(scores), eitp_log(count));
    *entropy = eitp__attention_mean(values, weights);
    *penalty = eitp__attention_mean(eitp__stat_below(eitp_negate(values), -floor), weights);
}
