/* Graph building: errors and their messages, and allocations that fail. */
#include "tests/support/transformer.h"

#include "tests/support/faults.h"

#include <ctype.h>

/* ---- Errors ---- */

typedef struct leaves {
    eitp_tensor *scalar;         /* f32 [] */
    eitp_tensor *vector;         /* f32 [4] */
    eitp_tensor *matrix, *other; /* f32 [3, 4], [5, 4] */
    eitp_tensor *cube;           /* f32 [2, 3, 4] */
    eitp_tensor *wide;           /* f32 [3, 12] */
    eitp_tensor *rows;           /* f32 [8, 4], of the capacity */
    eitp_tensor *row_ids;        /* i32 [8], of the capacity */
    eitp_tensor *doubles;        /* f64 [3, 4] */
    eitp_tensor *ids;            /* i32 [3] */
    eitp_tensor *grid;           /* i32 [3, 4] */
    eitp_tensor *key;            /* i64 [3] */
} leaves;

static leaves make_leaves(eitp_graph *graph) {
    static const int64_t d4[1] = {4}, d3[1] = {3}, d34[2] = {3, 4}, d54[2] = {5, 4}, d234[3] = {2, 3, 4};
    static const int64_t d312[2] = {3, 12}, d84[2] = {8, 4};
    leaves l;
    l.scalar = eitp_input(graph, "scalar", EITP_F32, 0, NULL);
    l.vector = eitp_input(graph, "vector", EITP_F32, 1, d4);
    l.matrix = eitp_input(graph, "matrix", EITP_F32, 2, d34);
    l.other = eitp_input(graph, "other", EITP_F32, 2, d54);
    l.cube = eitp_input(graph, "cube", EITP_F32, 3, d234);
    l.wide = eitp_input(graph, "wide", EITP_F32, 2, d312);
    l.rows = eitp_input_rows(graph, "rows", EITP_F32, 2, d84);
    l.row_ids = eitp_input_rows(graph, "row ids", EITP_I32, 1, d84);
    l.doubles = eitp_input(graph, "doubles", EITP_F64, 2, d34);
    l.ids = eitp_input(graph, "ids", EITP_I32, 1, d3);
    l.grid = eitp_input(graph, "grid", EITP_I32, 2, d34);
    l.key = eitp_input(graph, "key", EITP_I64, 1, d3);
    return l;
}

typedef eitp_tensor *refused(const leaves *l);

#define REFUSED(name, expression)                                                                                      \
    static eitp_tensor *refused_##name(const leaves *l) {                                                              \
        return expression;                                                                                             \
    }

static const int64_t shape_7[1] = {7}, shape_m1_m1[2] = {-1, -1}, shape_0_4[2] = {0, 4}, shape_5_m1[2] = {5, -1};
static const int64_t shape_many[7] = {1, 1, 1, 1, 1, 1, 1}, shape_huge[2] = {INT64_MAX / 2, INT64_MAX / 2};
static const int64_t shape_2_6[2] = {2, 6}, shape_4_8[2] = {4, 8}, shape_4_4[2] = {4, 4};
static const int order_twice[2] = {0, 0}, order_negative[2] = {-1, 0}, order_beyond[2] = {2, 0}, order_swap[2] = {1, 0};
static const int64_t shape_8_1_4[3] = {8, 1, 4};
static const int64_t shape_9[1] = {9}, shape_long[1] = {2147483648};

REFUSED(exp, eitp_exp(l->ids))
REFUSED(add_shapes, eitp_add(l->matrix, l->other))
REFUSED(add_dtypes, eitp_add(l->matrix, l->doubles))
REFUSED(add_null, eitp_add(l->matrix, NULL))
REFUSED(add_rows, eitp_add(l->rows, eitp_fill(l->rows->graph, EITP_F32, 2, l->rows->shape, 1)))
REFUSED(less_dtypes, eitp_less(l->ids, l->vector))
REFUSED(where_condition, eitp_where(l->matrix, l->matrix, l->matrix))
REFUSED(where_dtypes, eitp_where(eitp_less(l->matrix, l->matrix), l->matrix, l->doubles))
REFUSED(fill_rank, eitp_fill(l->matrix->graph, EITP_F32, 7, shape_many, 1))
REFUSED(fill_negative, eitp_fill(l->matrix->graph, EITP_F32, 2, shape_m1_m1, 1))
REFUSED(fill_huge, eitp_fill(l->matrix->graph, EITP_F32, 2, shape_huge, 1))
REFUSED(arange, eitp_arange(l->matrix->graph, EITP_F32, 0))
REFUSED(input_zero, eitp_input(l->matrix->graph, "none", EITP_F32, 2, shape_0_4))
REFUSED(input_rows, eitp_input_rows(l->matrix->graph, "more rows", EITP_F32, 1, shape_9))
REFUSED(input_rows_scalar, eitp_input_rows(l->matrix->graph, "no rows", EITP_F32, 0, NULL))
REFUSED(reshape_count, eitp_reshape(l->matrix, 1, shape_7))
REFUSED(reshape_two, eitp_reshape(l->matrix, 2, shape_m1_m1))
REFUSED(reshape_part, eitp_reshape(l->matrix, 2, shape_5_m1))
REFUSED(reshape_huge, eitp_reshape(l->matrix, 2, shape_huge))
REFUSED(reshape_rank, eitp_reshape(l->matrix, 7, shape_many))
REFUSED(reshape_negative_rank, eitp_reshape(l->matrix, -1, shape_many))
REFUSED(reshape_rows, eitp_reshape(l->rows, 2, shape_4_8))
REFUSED(broadcast, eitp_broadcast(l->matrix, 2, shape_2_6))
REFUSED(broadcast_rank, eitp_broadcast(l->matrix, 7, shape_many))
REFUSED(permute_twice, eitp_permute(l->matrix, order_twice))
REFUSED(permute_negative, eitp_permute(l->matrix, order_negative))
REFUSED(permute_beyond, eitp_permute(l->matrix, order_beyond))
REFUSED(permute_rows, eitp_permute(l->rows, order_swap))
REFUSED(transpose, eitp_transpose(l->vector))
REFUSED(slice_dimension, eitp_slice(l->matrix, 2, 0, 1))
REFUSED(slice_before, eitp_slice(l->matrix, -3, 0, 1))
REFUSED(slice_empty, eitp_slice(l->matrix, 1, 2, 2))
REFUSED(slice_beyond, eitp_slice(l->matrix, 1, 2, 5))
REFUSED(slice_extreme, eitp_slice(l->matrix, 1, INT64_MIN, INT64_MAX))
REFUSED(slice_rows, eitp_slice(l->rows, 0, 0, 4))
REFUSED(step_zero, eitp_slice_step(l->matrix, 1, 0, 4, 0))
REFUSED(step_dimension, eitp_slice_step(l->matrix, 2, 0, 4, 2))
REFUSED(step_beyond, eitp_slice_step(l->matrix, 1, 0, 5, 2))
REFUSED(step_rows, eitp_slice_step(l->rows, 0, 0, 8, 2))
REFUSED(pad_negative, eitp_pad(l->matrix, 0, -1, 2))
REFUSED(pad_extreme, eitp_pad(l->matrix, 0, INT64_MAX, INT64_MAX))
REFUSED(pad_dimension, eitp_pad(l->matrix, 2, 1, 1))
REFUSED(pad_rows, eitp_pad(l->rows, 0, 0, 1))

static eitp_tensor *refused_concat(const leaves *l) {
    eitp_tensor *both[2];
    both[0] = l->matrix;
    both[1] = l->other;
    return eitp_concat(both, 2, 1);
}

static eitp_tensor *refused_concat_dimension(const leaves *l) {
    eitp_tensor *both[2];
    both[0] = both[1] = l->matrix;
    return eitp_concat(both, 2, 2);
}

static eitp_tensor *refused_concat_null(const leaves *l) {
    eitp_tensor *both[2];
    both[0] = l->matrix;
    both[1] = NULL;
    return eitp_concat(both, 2, 1);
}

REFUSED(gather, eitp_gather(l->matrix, l->ids, 0))
REFUSED(gather_dtype, eitp_gather(l->matrix, l->matrix, 0))
REFUSED(gather_dimension, eitp_gather(l->matrix, l->grid, 5))
REFUSED(scatter, eitp_scatter_add(l->matrix, l->ids, 0, 4))
REFUSED(scatter_extent, eitp_scatter_add(l->matrix, l->grid, 0, 0))
REFUSED(sum, eitp_sum(l->grid, 1, 0))
REFUSED(sum_beyond, eitp_sum(l->matrix, 1u << 2, 0))
REFUSED(mean_beyond, eitp_mean(l->matrix, 7u, 1))
REFUSED(max_beyond, eitp_max(l->vector, 1u << 31, 0))
REFUSED(argmax, eitp_argmax(l->grid, 0, 0))
REFUSED(argmax_beyond, eitp_argmax(l->matrix, -3, 0))
REFUSED(argmax_huge, eitp_argmax(eitp_input(l->matrix->graph, "long", EITP_F32, 1, shape_long), 0, 0))
REFUSED(mean_rows, eitp_mean(l->rows, 1, 0))
REFUSED(matmul_inner, eitp_matmul(l->matrix, l->other))
REFUSED(matmul_rank, eitp_matmul(l->matrix, l->vector))
REFUSED(matmul_dtype, eitp_matmul(l->matrix, eitp_transpose(l->doubles)))
REFUSED(matmul_batch, eitp_matmul(l->cube, eitp_reshape(eitp_concat((eitp_tensor *const *)&l->cube, 1, 0), 3,
                                                        (const int64_t *)l->cube->shape)))
REFUSED(matmul_rows, eitp_matmul_transposed(l->rows, l->other, 1, 1))
REFUSED(matmul_rows_of_each, eitp_matmul_transposed(l->rows, l->cube, 0, 1))
REFUSED(matmul_columns_of_each, eitp_matmul_transposed(l->cube, l->rows, 0, 1))
REFUSED(matmul_batch_of_rows, eitp_matmul_transposed(eitp_reshape(l->rows, 3, shape_8_1_4),
                                                     eitp_fill(l->rows->graph, EITP_F32, 3, shape_8_1_4, 1), 0, 1))
REFUSED(linear_bias, eitp_linear(l->matrix, eitp_transpose(l->other), l->vector, EITP_RELU))
REFUSED(linear_activation, eitp_linear(l->matrix, eitp_transpose(l->other), NULL, (eitp_activation)9))
REFUSED(layer_norm_gain, eitp_layer_norm(l->matrix, l->ids, l->vector, 1e-5))
REFUSED(layer_norm_epsilon, eitp_layer_norm(l->matrix, l->vector, l->vector, -1))
REFUSED(rms_norm_gain, eitp_rms_norm(l->matrix, l->ids, 1e-5))
REFUSED(rms_norm_epsilon, eitp_rms_norm(l->matrix, l->vector, (double)NAN))
REFUSED(rms_norm_vector, eitp_rms_norm(l->vector, l->vector, 1e-5))
REFUSED(clamp, eitp_clamp(l->matrix, 2, 1))
REFUSED(clamp_nan, eitp_clamp(l->matrix, 0, (double)NAN))
REFUSED(layer_norm_vector, eitp_layer_norm(l->vector, l->vector, l->vector, 1e-5))
REFUSED(embedding, eitp_embedding(l->matrix, l->grid))
REFUSED(embedding_unique, eitp_embedding_unique(l->matrix, l->ids, l->ids, l->vector))
REFUSED(dropout_key, eitp_dropout(l->matrix, l->ids, 0.5))
REFUSED(dropout_one, eitp_dropout(l->matrix, l->key, 1))
REFUSED(dropout_nan, eitp_dropout(l->matrix, l->key, (double)NAN))
REFUSED(dropout_null, eitp_dropout(l->matrix, NULL, 0.5))
REFUSED(attention_heads, causal_attention(l->wide, l->ids, 3, 5, 1, NULL, 0))
REFUSED(attention_none, causal_attention(l->wide, l->ids, 0, 5, 1, NULL, 0))
REFUSED(attention_width, causal_attention(l->matrix, l->ids, 1, 5, 1, NULL, 0))
REFUSED(attention_offsets, causal_attention(l->wide, l->vector, 2, 5, 1, NULL, 0))
REFUSED(attention_longest, causal_attention(l->wide, l->ids, 2, 0, 1, NULL, 0))
REFUSED(attention_probability, causal_attention(l->wide, l->ids, 2, 5, 1, l->key, 1.5))

static eitp_tensor *refused_attention_lengths(const leaves *l) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = 2;
    config.max_length = 5;
    inputs.q = l->wide;
    inputs.offsets = inputs.lengths = l->ids; /* 3 lengths for 2 sequences */
    return eitp_attention(&inputs, &config);
}

static eitp_tensor *refused_attention_config(const leaves *l) {
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    inputs.q = l->wide;
    return eitp_attention(&inputs, NULL);
}

/* Attention of two heads with separate queries, keys and values, and a mask. */
static eitp_tensor *separate(eitp_tensor *q, eitp_tensor *k, eitp_tensor *v, eitp_tensor *mask, int64_t max_length,
                             double dropout, eitp_tensor *offsets) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = 2;
    config.max_length = max_length;
    config.dropout = dropout;
    inputs.q = q;
    inputs.k = k;
    inputs.v = v;
    inputs.offsets = offsets;
    inputs.mask = mask;
    return eitp_attention(&inputs, &config);
}

static eitp_tensor *refused_separate_sharing(const leaves *l) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = 2;
    config.key_value_heads = 4;
    config.max_length = 5;
    inputs.q = inputs.k = inputs.v = l->matrix;
    inputs.offsets = l->ids;
    return eitp_attention(&inputs, &config);
}

REFUSED(separate_null, separate(l->matrix, l->matrix, l->matrix, NULL, 5, 0, NULL))
REFUSED(separate_queries, separate(NULL, l->matrix, l->matrix, NULL, 5, 0, l->ids))
REFUSED(separate_keys, separate(l->matrix, NULL, l->matrix, NULL, 5, 0, l->ids))
REFUSED(separate_values, separate(l->matrix, l->matrix, NULL, NULL, 5, 0, l->ids))
REFUSED(separate_rows, separate(l->matrix, l->other, l->other, NULL, 5, 0, l->ids))
REFUSED(separate_width, separate(l->matrix, l->wide, l->wide, NULL, 5, 0, l->ids))
REFUSED(separate_dtype, separate(l->doubles, l->matrix, l->matrix, NULL, 5, 0, l->ids))
REFUSED(separate_rank, separate(l->cube, l->matrix, l->matrix, NULL, 5, 0, l->ids))
REFUSED(separate_integers, separate(l->grid, l->grid, l->grid, NULL, 5, 0, l->ids))
REFUSED(separate_odd, separate(l->matrix, l->matrix, eitp_slice(l->matrix, 1, 0, 3), NULL, 5, 0, l->ids))
REFUSED(separate_longest, separate(l->matrix, l->matrix, l->matrix, NULL, -1, 0, l->ids))
REFUSED(separate_offsets, separate(l->matrix, l->matrix, l->matrix, NULL, 5, 0, l->grid))
REFUSED(separate_mask, separate(l->matrix, l->matrix, l->matrix, l->vector, 5, 0, l->ids))
REFUSED(separate_mask_dtype, separate(l->matrix, l->matrix, l->matrix, l->ids, 5, 0, l->ids))
REFUSED(separate_mask_rows, separate(l->matrix, l->matrix, l->matrix, eitp_slice(l->rows, 1, 0, 1), 8, 0, l->ids))
REFUSED(separate_probability, separate(l->matrix, l->matrix, l->matrix, NULL, 5, -0.5, l->ids))
REFUSED(attention_cached, cached_attention(l->wide, l->matrix, l->matrix, l->ids, 2, 1))
REFUSED(cross_entropy, eitp_cross_entropy(l->other, l->ids, -1))
REFUSED(cross_entropy_rows,
        eitp_cross_entropy(eitp_fill(l->matrix->graph, EITP_F32, 2, l->rows->shape, 0), l->row_ids, -1))

REFUSED(entropy_integers, eitp_softmax_entropy(l->grid))
REFUSED(entropy_scalar, eitp_softmax_entropy(l->scalar))
REFUSED(entropy_rows, eitp_softmax_entropy(eitp_reshape(eitp_slice(l->rows, 1, 0, 1), 1, shape_m1_m1)))
REFUSED(logdet_vector, eitp_logdet(l->vector))
REFUSED(logdet_shape, eitp_logdet(l->cube))
REFUSED(logdet_dtype, eitp_logdet(eitp_cast(eitp_fill(l->matrix->graph, EITP_F32, 2, shape_4_4, 1), EITP_BF16)))
REFUSED(inverse_shape, eitp_inverse_spd(l->matrix))
REFUSED(path_length, eitp__path_product(l->vector, l->matrix, 1, 0))
REFUSED(path_transposed, eitp__path_product(l->vector, eitp_transpose(l->matrix), 1, 1))
REFUSED(path_rank, eitp__path_product(l->matrix, l->matrix, 1, 0))
REFUSED(path_dtype, eitp__path_product(eitp_cast(l->vector, EITP_F64), l->matrix, 1, 1))
REFUSED(path_power, eitp__path_product(l->vector, l->matrix, 3, 1))
REFUSED(path_weight, eitp__path_product(l->vector, l->vector, 1, 0))
REFUSED(path_rows, eitp__path_product(l->vector, l->rows, 1, 1))
REFUSED(path_null, eitp__path_product(NULL, l->matrix, 1, 0))

static eitp_tensor *smoothed_loss(eitp_tensor *logits, eitp_tensor *targets, double smoothing, eitp_tensor *weights) {
    eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
    config.label_smoothing = smoothing;
    config.weights = weights;
    return eitp_cross_entropy_with(logits, targets, &config);
}

REFUSED(loss_config, eitp_cross_entropy_with(l->matrix, l->ids, NULL))
REFUSED(loss_smoothing, smoothed_loss(l->matrix, l->ids, 1.5, NULL))
REFUSED(loss_weights, smoothed_loss(l->matrix, l->ids, 0, l->matrix))
REFUSED(loss_doubles, smoothed_loss(l->doubles, l->ids, 0, l->vector))
REFUSED(accumulate_target, eitp_accumulate(l->matrix, l->matrix, NULL))
REFUSED(accumulate_shape, eitp_accumulate(eitp_parameter(l->matrix->graph, "p", 1, shape_7), l->matrix, NULL))
REFUSED(input_dtype, eitp_input(l->matrix->graph, "odd", (eitp_dtype)77, 1, shape_7))
REFUSED(input_name, eitp_input(l->matrix->graph, NULL, EITP_F32, 1, shape_7))
REFUSED(input_shape, eitp_input(l->matrix->graph, "shapeless", EITP_F32, 1, NULL))
REFUSED(fill_shape, eitp_fill(l->matrix->graph, EITP_F32, 1, NULL, 0))
REFUSED(fill_dtype, eitp_fill(l->matrix->graph, (eitp_dtype)77, 1, shape_7, 0))
REFUSED(cast_dtype, eitp_cast(l->matrix, (eitp_dtype)-1))
REFUSED(reshape_shape, eitp_reshape(l->matrix, 1, NULL))
REFUSED(permute_order, eitp_permute(l->matrix, NULL))
REFUSED(variable_dtype, eitp_variable_tensor(l->matrix->graph, "p", EITP_CACHE, (eitp_dtype)77, 1, shape_7))
REFUSED(variable_role, eitp_variable_tensor(l->matrix->graph, "p", (eitp_role)9, EITP_F32, 1, shape_7))
REFUSED(variable_name, eitp_parameter(l->matrix->graph, NULL, 1, shape_7))
REFUSED(variable_rank, eitp_parameter(l->matrix->graph, "p", 7, shape_many))
REFUSED(variable_shape, eitp_parameter(l->matrix->graph, "p", 2, shape_0_4))
REFUSED(variable_huge, eitp_parameter(l->matrix->graph, "p", 2, shape_huge))

static const struct {
    refused *make;
    const char *words[3]; /* words that the message must contain */
} refusals[] = {
    {refused_exp, {"exp", "i32", "cast"}},
    {refused_add_shapes, {"add", "[3, 4]", "[5, 4]"}},
    {refused_add_dtypes, {"add", "f32", "f64"}},
    {refused_add_null, {"add", "input 1", "NULL"}},
    {refused_add_rows, {"add", "capacity", "fixed"}},
    {refused_less_dtypes, {"less", "i32", "f32"}},
    {refused_where_condition, {"where", "condition", "u8"}},
    {refused_where_dtypes, {"where", "f32", "f64"}},
    {refused_fill_rank, {"fill", "rank must be 0 to 6", "not 7"}},
    {refused_fill_negative, {"fill", "dimension 0", "-1"}},
    {refused_fill_huge, {"fill", "dimension 0", "4611686018427387903"}},
    {refused_arange, {"arange", "dimension 0", "0"}},
    {refused_input_zero, {"none", "dimension 0", "cannot be 0"}},
    {refused_input_rows, {"more rows", "9", "8"}},
    {refused_input_rows_scalar, {"no rows", "capacity", "8"}},
    {refused_reshape_count, {"reshape", "[3, 4]", "shape"}},
    {refused_reshape_two, {"reshape", "[3, 4]", "shape"}},
    {refused_reshape_part, {"reshape", "[3, 4]", "shape"}},
    {refused_reshape_huge, {"reshape", "[3, 4]", "shape"}},
    {refused_reshape_rank, {"reshape", "rank must be 0 to 6", "not 7"}},
    {refused_reshape_negative_rank, {"reshape", "rank must be 0 to 6", "not -1"}},
    {refused_reshape_rows, {"reshape", "leading dimension", "capacity"}},
    {refused_broadcast, {"broadcast", "[3, 4]", "shape"}},
    {refused_broadcast_rank, {"broadcast", "rank must be 0 to 6", "not 7"}},
    {refused_permute_twice, {"permute", "permutation", "2"}},
    {refused_permute_negative, {"permute", "permutation", "2"}},
    {refused_permute_beyond, {"permute", "permutation", "2"}},
    {refused_permute_rows, {"permute", "leading dimension", "capacity"}},
    {refused_transpose, {"transpose", "rank 1", "two"}},
    {refused_slice_dimension, {"slice", "rank 2", "dimension 2"}},
    {refused_slice_before, {"slice", "rank 2", "dimension -3"}},
    {refused_slice_empty, {"slice", "2 to 2", "dimension 1"}},
    {refused_slice_beyond, {"slice", "2 to 5", "4"}},
    {refused_slice_extreme, {"slice", "dimension 1", "4"}},
    {refused_slice_rows, {"slice", "leading dimension", "capacity"}},
    {refused_step_zero, {"slice_step", "step is 0", "1 or more"}},
    {refused_step_dimension, {"slice_step", "rank 2", "dimension 2"}},
    {refused_step_beyond, {"slice_step", "0 to 5", "4"}},
    {refused_step_rows, {"slice_step", "leading dimension", "capacity"}},
    {refused_pad_negative, {"pad", "-1", "2"}},
    {refused_pad_extreme, {"pad", "before", "after"}},
    {refused_pad_dimension, {"pad", "rank 2", "dimension 2"}},
    {refused_pad_rows, {"pad", "leading dimension", "capacity"}},
    {refused_concat, {"concat", "[3, 4]", "[5, 4]"}},
    {refused_concat_dimension, {"concat", "rank 2", "dimension 2"}},
    {refused_concat_null, {"concat", "1", "NULL"}},
    {refused_gather, {"gather", "[3, 4]", "[3]"}},
    {refused_gather_dtype, {"gather", "f32", "dimension 0"}},
    {refused_gather_dimension, {"gather", "rank 2", "dimension 5"}},
    {refused_scatter, {"scatter_add", "[3, 4]", "[3]"}},
    {refused_scatter_extent, {"scatter_add", "dimension 0", "0"}},
    {refused_sum, {"sum", "i32", "cast"}},
    {refused_sum_beyond, {"sum", "rank 2", "dimension 2"}},
    {refused_mean_beyond, {"mean", "rank 2", "dimension 2"}},
    {refused_max_beyond, {"max", "rank 1", "dimension 31"}},
    {refused_argmax, {"argmax", "i32", "cast"}},
    {refused_argmax_beyond, {"argmax", "rank 2", "dimension -3"}},
    {refused_argmax_huge, {"argmax", "2147483648", "i32"}},
    {refused_mean_rows, {"mean", "rows", "1 / rows"}},
    {refused_matmul_inner, {"matmul", "[3, 4]", "[5, 4]"}},
    {refused_matmul_rank, {"matmul", "[3, 4]", "[4]"}},
    {refused_matmul_dtype, {"matmul", "f32", "f64"}},
    {refused_matmul_batch, {"matmul", "[2, 3, 4]", "cannot"}},
    {refused_matmul_rows, {"matmul", "transposed", "[5, 4]"}},
    {refused_matmul_rows_of_each, {"matmul", "leading dimension", "capacity"}},
    {refused_matmul_columns_of_each, {"matmul", "capacity", "fixed number"}},
    {refused_matmul_batch_of_rows, {"matmul", "capacity", "fixed number"}},
    {refused_linear_bias, {"matmul", "bias", "[5]"}},
    {refused_linear_activation, {"linear", "activation", "9"}},
    {refused_layer_norm_gain, {"layer_norm", "gain", "[4]"}},
    {refused_layer_norm_epsilon, {"layer_norm", "epsilon", "-1"}},
    {refused_rms_norm_gain, {"rms_norm", "gain must be", "[4]"}},
    {refused_rms_norm_epsilon, {"rms_norm", "epsilon", "nan"}},
    {refused_rms_norm_vector, {"rms_norm", "rank", "2"}},
    {refused_clamp, {"clamp", "2", "1"}},
    {refused_clamp_nan, {"clamp", "0", "nan"}},
    {refused_layer_norm_vector, {"layer_norm", "rank", "2"}},
    {refused_embedding, {"embedding", "matrix", "i32"}},
    {refused_embedding_unique, {"embedding", "inverse", "i32"}},
    {refused_dropout_key, {"dropout", "key", "i64 [3]"}},
    {refused_dropout_one, {"dropout", "probability", "1"}},
    {refused_dropout_nan, {"dropout", "probability", "nan"}},
    {refused_dropout_null, {"dropout", "input 1", "NULL"}},
    {refused_attention_heads, {"attention", "[3, 12]", "3 heads"}},
    {refused_attention_none, {"attention", "queries", "0 heads"}},
    {refused_attention_width, {"attention", "[n, 3 d]", "[3, 4]"}},
    {refused_attention_offsets, {"attention", "offsets", "i32"}},
    {refused_attention_longest, {"attention", "max_length", "1"}},
    {refused_attention_probability, {"attention", "probability", "1.5"}},
    {refused_attention_lengths, {"attention", "lengths", "i32 [2]"}},
    {refused_separate_null, {"attention", "input 1", "NULL"}},
    {refused_separate_queries, {"attention", "input 0", "NULL"}},
    {refused_separate_keys, {"attention", "k is NULL", "neither"}},
    {refused_separate_values, {"attention", "v is NULL", "neither"}},
    {refused_separate_rows, {"attention", "[3, 4]", "[5, 4]"}},
    {refused_separate_width, {"attention", "q [3, 4]", "k [3, 12]"}},
    {refused_separate_dtype, {"attention", "[3, 4]", "one floating-point dtype"}},
    {refused_separate_rank, {"attention", "q [2, 3, 4]", "[n, 2 d]"}},
    {refused_separate_integers, {"attention", "q [3, 4]", "one floating-point dtype"}},
    {refused_separate_odd, {"attention", "v [3, 3]", "[n, 2 e]"}},
    {refused_separate_sharing, {"attention", "2 heads", "4 heads"}},
    {refused_separate_longest, {"attention", "max_length", "-1"}},
    {refused_separate_offsets, {"attention", "offsets", "i32"}},
    {refused_separate_mask, {"attention", "mask is f32 [4]", "[2, 2, 5, 5]"}},
    {refused_separate_mask_dtype, {"attention", "mask is i32 [3]", "u8 or f32"}},
    {refused_separate_mask_rows, {"attention", "mask is f32 [8, 1]", "fixed shape"}},
    {refused_separate_probability, {"attention", "probability", "-0.5"}},
    {refused_attention_cached, {"attention_cached", "keys and values", "variables"}},
    {refused_cross_entropy, {"cross_entropy", "[5, 4]", "[3]"}},
    {refused_cross_entropy_rows, {"cross_entropy", "[8, 4]", "[8]"}},
    {refused_loss_config, {"cross_entropy", "config", "NULL"}},
    {refused_loss_smoothing, {"cross_entropy", "smoothing", "1.5"}},
    {refused_loss_weights, {"cross_entropy", "weights", "f32 [4]"}},
    {refused_loss_doubles, {"cross_entropy", "weights", "f64 [4]"}},
    {refused_entropy_integers, {"softmax_entropy", "i32 [3, 4]", "[.., v]"}},
    {refused_entropy_scalar, {"softmax_entropy", "f32 []", "[.., v]"}},
    {refused_entropy_rows, {"softmax_entropy", "f32 [8]", "fixed v"}},
    {refused_logdet_vector, {"logdet", "[.., m, m]", "f32 [4]"}},
    {refused_logdet_shape, {"logdet", "[.., m, m]", "f32 [2, 3, 4]"}},
    {refused_logdet_dtype, {"logdet", "f32 or f64", "bf16 [4, 4]"}},
    {refused_inverse_shape, {"inverse_spd", "[.., m, m]", "f32 [3, 4]"}},
    {refused_path_length, {"path_product", "f32 [3] or [1, 3]", "f32 [4]"}},
    {refused_path_transposed, {"path_product_transposed", "f32 [3] or [1, 3]", "f32 [4]"}},
    {refused_path_rank, {"path_product", "f32 [3] or [1, 3]", "f32 [3, 4]"}},
    {refused_path_dtype, {"path_product", "f32 [4] or [1, 4]", "f64 [4]"}},
    {refused_path_power, {"path_product", "power is 3", "1 or 2"}},
    {refused_path_weight, {"path_product", "weight", "matrix"}},
    {refused_path_rows, {"path_product", "weight", "fixed"}},
    {refused_path_null, {"path_product", "input 1", "NULL"}},
    {refused_accumulate_target, {"accumulate", "target", "variable"}},
    {refused_accumulate_shape, {"accumulate", "[3, 4]", "[7]"}},
    {refused_input_dtype, {"odd", "dtype", "77"}},
    {refused_input_name, {"input", "name", "NULL"}},
    {refused_input_shape, {"shapeless", "shape", "NULL"}},
    {refused_fill_shape, {"fill", "shape", "NULL"}},
    {refused_fill_dtype, {"fill", "dtype", "77"}},
    {refused_cast_dtype, {"cast", "dtype", "-1"}},
    {refused_reshape_shape, {"reshape", "shape", "NULL"}},
    {refused_permute_order, {"permute", "order", "NULL"}},
    {refused_attention_config, {"attention", "config", "NULL"}},
    {refused_variable_dtype, {"'p'", "dtype", "77"}},
    {refused_variable_role, {"'p'", "role", "9"}},
    {refused_variable_name, {"variable", "name", "NULL"}},
    {refused_variable_rank, {"'p'", "rank must be 0 to 6", "not 7"}},
    {refused_variable_shape, {"'p'", "dimension 0", "0"}},
    {refused_variable_huge, {"'p'", "dimension 0", "4611686018427387903"}},
};

/* Each failing op returns NULL. The graph keeps the error, and creating a plan returns it. */
static void refusals_name_op_and_shapes(void) {
    eitp_context *context = open_context("ref", 1);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        eitp_graph *graph = NULL;
        eitp_plan *plan = (eitp_plan *)&i;
        eitp_error error = EITP__ZERO, again = EITP__ZERO;
        leaves l;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        l = make_leaves(graph);
        CHECK(eitp_graph_status(graph, &error) == EITP_OK);
        CHECK_THAT(refusals[i].make(&l) == NULL, "refusal %d gave a tensor", (int)i);
        CHECK_THAT(eitp_graph_status(graph, &error) == EITP_ERROR_ARGUMENT, "refusal %d was not an error", (int)i);
        for (int j = 0; j < 3; j++)
            CHECK_THAT(strstr(error.message, refusals[i].words[j]), "no '%s' in: %s", refusals[i].words[j],
                       error.message);
        CHECK(!eitp_exp(l.matrix) && !eitp_add(l.matrix, l.other) && !eitp_input(graph, "late", EITP_F32, 0, NULL));
        CHECK(!eitp_parameter(graph, "late", 0, NULL));
        CHECK(eitp_plan_create(graph, &plan, &again) == EITP_ERROR_ARGUMENT && !plan);
        CHECK(!strcmp(error.message, again.message));
        eitp_graph_destroy(graph);
    }
    eitp_context_destroy(context);
}

/* An op that no kernel computes fails when it is added to the graph, not when a plan is created. */
static void ops_without_a_kernel_are_refused(void) {
    static eitp_tensor *(*const ops[])(eitp_tensor *, eitp_tensor *) = {eitp_add,    eitp_subtract, eitp_multiply,
                                                                        eitp_divide, eitp_minimum,  eitp_maximum};
    static const eitp_dtype dtypes[] = {EITP_I32, EITP_I64, EITP_I8, EITP_U8, EITP_I16};
    const int64_t shape[1] = {4};
    eitp_context *context = open_context("ref", 1);
    for (size_t i = 0; i < EITP__COUNT(ops) * EITP__COUNT(dtypes); i++) {
        eitp_dtype dtype = dtypes[i % EITP__COUNT(dtypes)];
        eitp_graph *graph = NULL;
        eitp_error error = EITP__ZERO;
        eitp_tensor *x;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        x = eitp_input(graph, "x", dtype, 1, shape);
        CHECK(!ops[i / EITP__COUNT(dtypes)](x, x));
        CHECK(eitp_graph_status(graph, &error) == EITP_ERROR_UNSUPPORTED);
        CHECK_THAT(strstr(error.message, eitp_dtype_name(dtype)) && strstr(error.message, "cast"), "%s", error.message);
        eitp_graph_destroy(graph);
    }
    eitp_context_destroy(context);
}

/* Ops return NULL if an argument is NULL. */
static void ops_on_null_return_null(void) {
    const int64_t shape[1] = {4};
    const int order[1] = {0};
    eitp_tensor *nothing = NULL;
    CHECK(!eitp_output(NULL) && !eitp_exp(NULL) && !eitp_add(NULL, NULL) && !eitp_where(NULL, NULL, NULL));
    CHECK(!eitp_abs(NULL) && !eitp_rsqrt(NULL) && !eitp_sin(NULL) && !eitp_cos(NULL));
    CHECK(!eitp_argmax(NULL, 0, 0) && !eitp_slice_step(NULL, 0, 0, 1, 1));
    CHECK(!eitp_minimum(NULL, NULL) && !eitp_maximum(NULL, NULL));
    CHECK(!eitp_affine(NULL, 1, 1) && !eitp_clamp(NULL, 0, 1) && !eitp_cast(NULL, EITP_F64));
    CHECK(!eitp_stop_gradient(NULL) && !eitp_reshape(NULL, 1, shape) && !eitp_broadcast(NULL, 1, shape));
    CHECK(!eitp_permute(NULL, order) && !eitp_transpose(NULL) && !eitp_slice(NULL, 0, 0, 1));
    CHECK(!eitp_pad(NULL, 0, 0, 1) && !eitp_concat(&nothing, 1, 0) && !eitp_concat(NULL, 0, 0));
    CHECK(!eitp_gather(NULL, NULL, 0) && !eitp_scatter_add(NULL, NULL, 0, 1));
    CHECK(!eitp_sum(NULL, 1, 0) && !eitp_mean(NULL, 1, 0) && !eitp_max(NULL, 1, 0) && !eitp__sum_squares(NULL));
    CHECK(!eitp_matmul(NULL, NULL) && !eitp_linear(NULL, NULL, NULL, EITP_RELU) && !eitp_softmax(NULL));
    CHECK(!eitp_log_softmax(NULL) && !eitp_gelu_tanh(NULL) && !eitp_gelu_erf(NULL) && !eitp_silu(NULL) &&
          !eitp_rms_norm(NULL, NULL, 0));
    CHECK(!eitp_layer_norm(NULL, NULL, NULL, 1e-5) && !eitp_embedding(NULL, NULL) && !eitp_dropout(NULL, NULL, 0.5));
    CHECK(!causal_attention(NULL, NULL, 1, 1, 1, NULL, 0) && !cached_attention(NULL, NULL, NULL, NULL, 1, 1));
    CHECK(!eitp_attention_cached(NULL, NULL, NULL, NULL, NULL) && !eitp_rotary(NULL, NULL));
    CHECK(!eitp_cross_entropy(NULL, NULL, 0) && !eitp_accumulate(NULL, NULL, NULL));
    CHECK(!eitp_softmax_entropy(NULL) && !eitp_logdet(NULL) && !eitp_inverse_spd(NULL));
    CHECK(!eitp__path_product(NULL, NULL, 1, 0));
    CHECK(!separate(NULL, NULL, NULL, NULL, 5, 0, NULL) && !eitp_attention(NULL, NULL));
    CHECK(!smoothed_loss(NULL, NULL, 0.5, NULL) && !eitp_linear_cross_entropy_with(NULL, NULL, NULL, NULL));
    eitp_graph_destroy(NULL);
    eitp_plan_destroy(NULL);
    eitp_context_destroy(NULL);
}

/* Composed ops on tensors of a failed graph. */
static void composed_ops_pass_errors_on(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_cross_entropy_config config = eitp_cross_entropy_config_default();
    eitp_graph *graph = NULL;
    eitp_error error;
    leaves l;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    l = make_leaves(graph);
    CHECK(!eitp_add(l.matrix, l.other));
    config.label_smoothing = 0.5;
    config.weights = l.vector;
    CHECK(!separate(l.matrix, l.matrix, l.matrix, l.vector, 5, 0.5, l.ids));
    CHECK(!eitp_cross_entropy_with(l.matrix, l.ids, &config) && !eitp_cross_entropy_with(l.matrix, l.ids, NULL));
    CHECK(!eitp_linear_cross_entropy_with(l.matrix, l.matrix, l.ids, &config));
    CHECK(!eitp_logdet(l.matrix) && !eitp_inverse_spd(l.cube));
    CHECK(eitp_graph_status(graph, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "add"));
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

static void tensor_properties(void) {
    eitp_context *context = open_context("ref", 1);
    const int64_t shape[3] = {2, 3, 4};
    eitp_graph *graph = NULL;
    eitp_error error;
    eitp_tensor *x;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    x = eitp_input(graph, "x", EITP_BF16, 3, shape);
    CHECK(eitp_tensor_rank(x) == 3 && eitp_tensor_elements(x) == 24 && eitp_tensor_dtype(x) == EITP_BF16);
    CHECK(eitp_tensor_dimension(x, 0) == 2 && eitp_tensor_dimension(x, -1) == 4 && eitp_tensor_dimension(x, -3) == 2);
    CHECK(eitp_tensor_graph(x) == graph);
    CHECK(eitp_tensor_elements(eitp_input(graph, "s", EITP_F32, 0, NULL)) == 1);
    CHECK(eitp_parameter(graph, "p", 3, shape) == eitp_parameter(graph, "p", 3, shape));
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A tensor of another graph is refused. */
static void tensors_of_other_graphs_are_refused(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *one = NULL, *two = NULL;
    eitp_error error;
    leaves a, b;
    REQUIRE_OK(eitp_graph_create(context, &one, &error), error);
    REQUIRE_OK(eitp_graph_create(context, &two, &error), error);
    a = make_leaves(one);
    b = make_leaves(two);
    CHECK(!eitp_add(a.matrix, b.matrix));
    CHECK(eitp_graph_status(one, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "another graph"));
    CHECK(eitp_graph_status(two, &error) == EITP_OK);
    eitp_graph_destroy(one);
    eitp_graph_destroy(two);
    eitp_context_destroy(context);
}

/* ---- Running out of memory ---- */

/*
 * Creates a context, a graph of a transformer's training step and a plan, and executes it. Returns the first failure.
 */
static eitp_status train_once(const eitp_host *host, const char *set) {
    eitp_context_config config = eitp_context_config_default();
    eitp_optimizer_config adamw = eitp_optimizer_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_update update;
    eitp_status status;
    eitp_error error = EITP__ZERO;
    config.host = *host;
    config.device = "auto";
    config.threads = 1;
    config.isa = set;
    status = eitp_context_create(&config, &context, &error);
    CHECK(!status == (context != NULL));
    if (!status)
        status = eitp_graph_create(context, &graph, &error);
    CHECK(!status == (graph != NULL));
    if (!status) {
        transformer t = transformer_make(graph, &tiny_transformer);
        float hyper[2] = {0.01f, 1}, limit = 1;
        status = t.loss ? eitp_minimize(t.loss, &adamw, &update, &error) : eitp_graph_status(graph, &error);
        CHECK(t.loss || status == EITP_ERROR_MEMORY);
        if (!status)
            status = eitp_plan_create(graph, &plan, &error);
        CHECK(!status == (plan != NULL));
        if (!status) {
            eitp_status run;
            transformer_initialize(context);
            transformer_write(&t, plan, t.config.rows, 1);
            CHECK(eitp_plan_write(plan, update.rate_and_step, hyper, sizeof hyper, &error) == EITP_OK);
            CHECK(eitp_plan_write(plan, update.max_norm, &limit, sizeof limit, &error) == EITP_OK);
            run = eitp_plan_execute(plan, &error);
            CHECK(run == EITP_OK);
        }
    }
    CHECK_THAT(!status || (status == EITP_ERROR_MEMORY && error.message[0]), "%s: %s", eitp_status_name(status),
               error.message);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return status;
}

static void every_allocation_may_fail(void) {
    for (int all = 0; all < 2; all++) {
        for (long n = 1;; n++) {
            eitp_status status;
            faults f;
            faults_begin(&f);
            f.fail_allocation = n;
            f.all_allocations = all;
            status = train_once(&f.host, "ref");
            if (!faults_end(&f)) {
                CHECK(status == EITP_OK && n > 20);
                break;
            }
            CHECK_THAT(status == EITP_ERROR_MEMORY, "allocation %ld failed, and the status is %d", n, (int)status);
        }
    }
}

/* Attention of x [4, 6]. If `composed`, x is also the queries, keys and values of separate inputs, followed by a
   loss. */
static eitp_tensor *make_attention(eitp_tensor *x, int composed) {
    const int64_t bounds = 2, four = 4, six = 6;
    eitp_graph *graph = eitp_tensor_graph(x);
    eitp_tensor *offsets = eitp_input(graph, "offsets", EITP_I32, 1, &bounds), *weights;
    eitp_cross_entropy_config loss = eitp_cross_entropy_config_default();
    if (!composed)
        return causal_attention(x, offsets, 1, 4, 1, NULL, 0);
    weights = eitp_input(graph, "weights", EITP_F32, 1, &six);
    loss.weights = weights;
    loss.label_smoothing = 0.1;
    x = separate(x, x, x, eitp_reshape(eitp_slice(weights, 0, 0, 4), 1, &four), 4, 0, offsets);
    return eitp_cross_entropy_with(x, eitp_input(graph, "targets", EITP_I32, 1, &four), &loss);
}

/* Plans the second derivative of attention in F32, with expanded or composed ops. */
static eitp_status plan_second_derivative(const eitp_host *host, int composed) {
    eitp_context_config config = eitp_context_config_default();
    const int64_t shape[2] = {4, 6};
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_status status;
    eitp_error error = EITP__ZERO;
    config.host = *host;
    config.device = "auto";
    config.threads = 1;
    config.isa = "ref";
    status = eitp_context_create(&config, &context, &error);
    if (!status)
        status = eitp_graph_create(context, &graph, &error);
    if (!status) {
        eitp_tensor *x = eitp_input(graph, "x", EITP_F32, 2, shape), *gradient = NULL, *second = NULL, *y;
        y = make_attention(x, composed);
        status = y ? eitp_gradients(y, NULL, 1, &x, &gradient, &error) : eitp_graph_status(graph, &error);
        if (!status)
            status = eitp_gradients(gradient, NULL, 1, &x, &second, &error);
        eitp_output(second);
        if (!status)
            status = eitp_plan_create(graph, &plan, &error);
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return status;
}

static void every_allocation_of_expansions_may_fail(void) {
    for (int composed = 0; composed < 2; composed++) {
        for (long n = 1;; n++) {
            eitp_status status;
            faults f;
            faults_begin(&f);
            f.fail_allocation = n;
            status = plan_second_derivative(&f.host, composed);
            if (!faults_end(&f)) {
                CHECK(status == EITP_OK && n > 20);
                break;
            }
            CHECK_THAT(status == EITP_ERROR_MEMORY, "allocation %ld failed, and the status is %d", n, (int)status);
        }
    }
}

/* ---- The op table ---- */

/* True if the backend has a kernel of the op for any dtype. */
static int has_kernel(const eitp_context *context, eitp__op_code op) {
    const eitp__backend *backend = context->backend;
    eitp__call call = EITP__ZERO;
    int found = 0;
    call.slot = (eitp__slot)op;
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT && (int)op < (int)EITP__SLOT_COUNT; dtype++) {
        call.dtype = (eitp_dtype)dtype;
        found |= backend->interface->supports(backend, &call);
    }
    return found;
}

static void check_entry(const eitp_context *context, eitp__op_code code) {
    const eitp__op_info *op = &context->ops[code];
    const int is_slot = (int)code < (int)EITP__SLOT_COUNT;
    for (size_t i = 0; is_slot && i <= strlen(op->name); i++)
        CHECK_THAT(tolower(eitp__slot_name((eitp__slot)code)[i]) == op->name[i], "%s", op->name);
    CHECK_THAT(op->shape, "%s", op->name);
    CHECK_THAT(op->min_inputs >= 0 && op->min_inputs <= op->max_inputs && op->max_inputs <= EITP__MAX_INPUTS,
               "%s: %d, %d", op->name, op->min_inputs, op->max_inputs);
    CHECK_THAT(op->outputs >= 1 && op->outputs <= EITP__MAX_OUTPUTS, "%s: %d", op->name, op->outputs);
    CHECK_THAT(has_kernel(context, code) == (is_slot != 0), "%s", op->name);
    CHECK_THAT(is_slot || op->is_view || op->expand, "%s: nothing computes it", op->name);
    CHECK_THAT(!op->is_view || (op->shares[0] == 1 && op->outputs == 1), "%s", op->name);
    CHECK_THAT(!op->backward_of || (!op->expand && context->ops[op->backward_of - 1].expand), "%s", op->name);
    for (int i = 0; i < EITP__MAX_OUTPUTS; i++) {
        CHECK_THAT(op->shares[i] <= op->max_inputs && (!op->shares[i] || i < op->outputs), "%s", op->name);
        CHECK_THAT(!op->wrt[i] || op->backward_of, "%s", op->name);
    }
    CHECK_THAT(!(op->reuse >> op->max_inputs) && !(op->partly_written >> op->outputs), "%s", op->name);
    CHECK_THAT(op->dtype_input <= op->min_inputs, "%s", op->name);
    CHECK_THAT(!(op->joint & ~op->row_sums) && !(op->row_sums >> op->max_inputs), "%s", op->name);
}

static void entries_of_ops_agree(void) {
    eitp_context *context = open_context("ref", 1);
    eitp_graph *graph = NULL;
    eitp_error error = EITP__ZERO;
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    for (int op = 0; op < EITP__OP_COUNT; op++)
        check_entry(context, (eitp__op_code)op);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* The gradient of attention has an output for each of q, k and v, and for the mask if it is floating-point. */
static void attention_has_the_gradients_of_its_inputs(void) {
    eitp_context *context = open_context("ref", 1);
    for (int i = 0; i < 6; i++) {
        const int apart = i / 3, masked = i % 3;
        const int64_t shape[2] = {3, 12}, five[1] = {5};
        eitp_graph *graph = NULL;
        eitp_tensor *x, *mask = NULL, *gradient = NULL;
        eitp_error error = EITP__ZERO;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        x = eitp_input(graph, "x", EITP_F32, 2, shape);
        if (masked)
            mask = eitp_input(graph, "mask", masked == 1 ? EITP_U8 : EITP_F32, 1, five);
        x = separate(x, apart ? x : NULL, apart ? eitp_slice(x, 1, 0, 6) : NULL, mask, 5, 0, make_leaves(graph).ids);
        REQUIRE_OK(eitp_gradients(x, NULL, 1, &x->node->inputs[0], &gradient, &error), error);
        x = gradient;
        while (x && x->node && x->node->op != EITP__OP_ATTENTION_BACKWARD)
            x = x->node->inputs[0];
        CHECK(x && x->node);
        if (x && x->node) {
            const eitp__node *node = x->node;
            CHECK_THAT(node->output_count == (apart ? 3 : 1) + (masked == 2), "%d: %d", i, node->output_count);
            CHECK(node->outputs[0]->shape[1] == 12 && (!apart || node->outputs[2]->shape[1] == 6));
            CHECK(masked != 2 || eitp__same_shape(node->outputs[node->output_count - 1], mask));
        }
        eitp_graph_destroy(graph);
    }
    eitp_context_destroy(context);
}

/* ---- Support and limits of a backend ---- */

/* Supports only small calls: softmax rows of at most 4, F32 sin of at most 4 rows, at most 4 rows added to a
   product, and clamp to a maximum below 4. */
static int supports_small(const eitp__backend *backend, const eitp__call *call) {
    const eitp__operand *x = &call->inputs[0], *y = &call->outputs[0], *sum = &call->inputs[3];
    (void)backend;
    switch (call->slot) {
    case EITP__SLOT_SOFTMAX:
        CHECK(call->input_count == 1 && call->output_count == 1 && call->dtype == EITP_F32 && x->dtype == EITP_F32);
        CHECK(x->rank == 2 && y->rank == 2 && x->elements == x->shape[0] * x->shape[1] && y->shape[1] == x->shape[1]);
        return x->shape[1] <= 4;
    case EITP__SLOT_SIN:
        CHECK(x->dtype == call->dtype && y->dtype == call->dtype);
        return x->shape[0] <= 4 && call->dtype == EITP_F32;
    case EITP__SLOT_MATMUL:
        CHECK(call->integers[0] == 0 && call->integers[1] == 1 && !call->inputs[2].elements && !x->data);
        CHECK((call->integers[2] == EITP__EPILOGUE_ADD) == (sum->elements > 0) && y->shape[0] == x->shape[0]);
        return sum->elements <= 4 * y->shape[1];
    case EITP__SLOT_CLAMP:
        return call->reals[1] < 4;
    default:
        return 1;
    }
}

/* Returns the number of steps that compute y. */
static int steps_of(eitp_tensor *y) {
    eitp_plan *plan = NULL;
    eitp_error error = EITP__ZERO;
    int steps = 0;
    eitp_output(y);
    CHECK_THAT(!eitp_plan_create(eitp_tensor_graph(y), &plan, &error), "%s", error.message);
    if (plan)
        steps = eitp_plan_statistics(plan).nodes;
    eitp_plan_destroy(plan);
    return steps;
}

static void backends_are_asked_about_calls(void) {
    eitp_context *context = open_context("ref", 1);
    const eitp__backend_interface *original = context->backend->interface;
    eitp__backend_interface interface = *original;
    interface.supports = supports_small;
    context->backend->interface = &interface;
    for (int64_t rows = 4; rows <= 5; rows++) {
        const int is_small = rows == 4;
        const int64_t shape[2] = {rows, rows};
        for (int op = 0; op < 5; op++) {
            eitp_graph *graph = NULL;
            eitp_tensor *x, *y;
            eitp_error error = EITP__ZERO;
            REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
            x = eitp_input(graph, "x", op == 2 ? EITP_BF16 : EITP_F32, 2, shape);
            y = op == 0   ? eitp_softmax(x)
                : op <= 2 ? eitp_sin(x)
                : op == 3 ? eitp_add(eitp_input(graph, "sum", EITP_F32, 2, shape),
                                     eitp_matmul_transposed(x, eitp_input(graph, "b", EITP_F32, 2, shape), 0, 1))
                          : eitp_clamp(x, 0, (double)rows - 1);
            /* otherwise: softmax is expanded, BF16 computed between casts, a sum not fused; without a kernel it is
               an error */
            if (op == 0)
                CHECK((steps_of(y) == 1) == is_small);
            else if (op == 3)
                CHECK(steps_of(y) == (is_small ? 1 : 2));
            else if (is_small)
                CHECK(steps_of(y) == (op == 2 ? 3 : 1));
            else
                CHECK(!y && eitp_graph_status(graph, NULL) == EITP_ERROR_UNSUPPORTED);
            eitp_graph_destroy(graph);
        }
    }
    context->backend->interface = original;
    eitp_context_destroy(context);
}

/* The backend sets the width of a fused head's blocks. */
static void heads_have_the_blocks_of_the_backend(void) {
    const int64_t x_shape[2] = {4, 8}, table_shape[2] = {100, 8}, rows = 4;
    eitp_context *context = open_context("ref", 1);
    const eitp__backend_interface *original;
    eitp__backend_interface interface;
    REQUIRE(context);
    original = context->backend->interface;
    interface = *original;
    context->backend->interface = &interface;
    for (int block = 10; block <= 40; block += 30) {
        eitp_graph *graph = NULL;
        eitp_tensor *loss;
        eitp_error error = EITP__ZERO;
        interface.head_block = block;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
        loss = eitp_linear_cross_entropy(eitp_input(graph, "x", EITP_BF16, 2, x_shape),
                                         eitp_input(graph, "table", EITP_BF16, 2, table_shape),
                                         eitp_input(graph, "targets", EITP_I32, 1, &rows), -100);
        REQUIRE(loss);
        CHECK(loss->node->outputs[3]->shape[1] == (block == 10 ? 10 : 3));
        eitp_graph_destroy(graph);
    }
    context->backend->interface = original;
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(refusals_name_op_and_shapes),
        TEST(ops_on_null_return_null),
        TEST(composed_ops_pass_errors_on),
        TEST(ops_without_a_kernel_are_refused),
        TEST(tensor_properties),
        TEST(tensors_of_other_graphs_are_refused),
        TEST(entries_of_ops_agree),
        TEST(attention_has_the_gradients_of_its_inputs),
        TEST(backends_are_asked_about_calls),
        TEST(heads_have_the_blocks_of_the_backend),
        TEST(every_allocation_may_fail),
        TEST(every_allocation_of_expansions_may_fail),
    };
    return RUN_TESTS(tests, argc, argv);
}
