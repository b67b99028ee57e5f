#include "objective/regularizers.h"

#include "model/layers.h"
#include "model/transformer.h"
#include "objective/jacobian.h"
#include "objective/statistics.h"
#include "tensor/internal_ops.h"
#include "tensor/op_rules.h"

typedef struct eitp__regularizer_scope {
    const eitp_objective_config *config;
    const eitp_model *model;
    eitp_pass *pass;
    eitp_graph *graph;
    int trains;
} eitp__regularizer_scope;

/* ---- Inputs of statistics ---- */

/* Returns the hidden states that the head reads, by group or by sample, in F32. All statistics share one copy. */
static eitp_tensor *eitp__hidden_by(const eitp__regularizer_scope *scope, int is_by_sample) {
    eitp_pass *pass = scope->pass;
    eitp_tensor *states, *mask = is_by_sample ? eitp__pass_sample_mask(pass) : eitp_pass_group_mask(pass);
    states = eitp__graph_registered(scope->graph, mask, EITP_TAP_FINAL, 0);
    if (states)
        return states;
    states = eitp_model_tap(scope->model, scope->graph, EITP_TAP_FINAL, 0);
    states = is_by_sample ? eitp__pass_by_sample(pass, states) : eitp_pass_by_group(pass, states);
    states = eitp_cast(states, EITP_F32);
    eitp__graph_register(states, mask, EITP_TAP_FINAL, 0);
    return states;
}

static eitp_tensor *eitp__hidden_by_group(const eitp__regularizer_scope *scope) {
    return eitp__hidden_by(scope, 0);
}

/* Returns the logits F32 [n, classes] of rows, or [samples, classes] of a classifier of samples. */
static eitp_tensor *eitp__pass_logits(const eitp__regularizer_scope *scope) {
    const eitp_transformer_config *config = &scope->model->config;
    eitp_tensor *logits = eitp_model_tap(scope->model, scope->graph, EITP_TAP_SCORES, 0);
    if (!logits)
        logits = eitp__graph_registered(scope->graph, config, EITP__TAP_LOGITS, 0);
    if (logits)
        return logits;
    logits = eitp_model_logits(scope->model, eitp_model_tap(scope->model, scope->graph, EITP_TAP_FINAL, 0));
    eitp__graph_register(logits, config, EITP__TAP_LOGITS, 0);
    return logits;
}

/* Returns 1 for elements of samples in use, and 0 for others: F32 [samples]. */
static eitp_tensor *eitp__sample_mask(eitp_pass *pass) {
    const int64_t all = -1;
    eitp_tensor *first = eitp_reshape(eitp_slice(eitp_pass_bounds(pass), 1, 0, 1), 1, &all);
    eitp_tensor *ones = eitp_fill(pass->graph, EITP_F32, 1, &first->shape[0], 1), *zero = eitp__scalar_like(ones, 0);
    return eitp_where(eitp_less(first, eitp__scalar_like(first, 0)), zero, ones);
}

/* Returns the mean over the counted rows of each group, for values and weights [n]; or values of samples, times
   `counted`. */
static eitp_tensor *eitp__mean_of_rows(const eitp__regularizer_scope *scope, eitp_tensor *values,
                                       eitp_tensor *counted) {
    static const int64_t column[2] = {-1, 1};
    eitp_tensor *sum, *count;
    if (!values)
        return NULL;
    if (!values->rows)
        return eitp_multiply(eitp_multiply(values, counted), eitp__sample_mask(scope->pass));
    sum = eitp_pass_by_group(scope->pass, eitp_reshape(eitp_multiply(values, counted), 2, column));
    count = eitp_pass_by_group(scope->pass, eitp_reshape(counted, 2, column));
    count = eitp_sum(count, 6u, 0);
    return eitp_divide(eitp_sum(sum, 6u, 0), eitp_maximum(count, eitp__scalar_like(count, 1)));
}

/* Returns 1 for each row or sample of `like`. */
static eitp_tensor *eitp__all_rows(eitp_tensor *like) {
    return eitp__fill_like(like, 1);
}

/* Returns 1 for rows or samples with a target, 0 for others: F32. */
static eitp_tensor *eitp__rows_with_target(const eitp__regularizer_scope *scope) {
    eitp_tensor *targets = scope->pass->targets;
    eitp_tensor *ones = eitp__fill_like(eitp_cast(targets, EITP_F32), 1);
    return eitp_where(eitp_equal(targets, eitp__scalar_like(targets, (double)scope->pass->ignored)),
                      eitp__scalar_like(ones, 0), ones);
}

/* ---- Statistics of hidden states ---- */

static eitp__statistic eitp__add_coding_rate(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    result.metric = result.loss = eitp__stat_coding_rate(
        eitp__hidden_by_group(scope), eitp_pass_group_mask(scope->pass), scope->config->coding_rate_epsilon, 1);
    return result;
}

/* Always by sample, regardless of the group: states of two samples are not neighbours. */
static eitp__statistic eitp__add_coherence(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    eitp_tensor *x = eitp__hidden_by(scope, 1), *mask = eitp__pass_sample_mask(scope->pass);
    result.metric = eitp__stat_coherence(x, mask);
    if (scope->trains)
        result.loss = eitp__stat_contrast(x, NULL, mask, scope->config->coherence_temperature);
    return result;
}

static eitp__statistic eitp__add_variance(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    result.metric = result.loss = eitp__stat_variance(eitp__hidden_by_group(scope), eitp_pass_group_mask(scope->pass),
                                                      scope->config->variance_target);
    return result;
}

/* The loss is the missing fraction of the maximum ratio. */
static eitp__statistic eitp__add_participation_ratio(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    eitp_tensor *x = eitp__hidden_by_group(scope), *mask = eitp_pass_group_mask(scope->pass), *largest, *one;
    result.metric = eitp__stat_participation_ratio(x, mask);
    if (!scope->trains || !result.metric)
        return result;
    one = eitp__scalar_like(mask, 1);
    largest = eitp_affine(eitp_sum(mask, EITP__OVER_ROWS, 0), 1, -1);
    largest = eitp_maximum(eitp_minimum(largest, eitp__scalar_like(mask, (double)x->shape[2])), one);
    result.loss = eitp_affine(eitp_divide(result.metric, largest), -1, 1);
    return result;
}

static eitp__statistic eitp__add_balance(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    result.metric = result.loss = eitp__stat_balance(eitp__hidden_by_group(scope), eitp_pass_group_mask(scope->pass),
                                                     scope->config->balance_target);
    return result;
}

/* Averages the entropy and its penalty over layers. */
static eitp__statistic eitp__add_attention_entropy(const eitp__regularizer_scope *scope) {
    const eitp_transformer_config *config = &scope->model->config;
    eitp_tensor *mask = eitp_pass_group_mask(scope->pass);
    eitp__statistic result = EITP__ZERO;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        eitp_tensor *x = eitp_model_tap(scope->model, scope->graph, EITP_TAP_QUERIES_KEYS, layer), *entropy, *penalty;
        eitp__attention_shape shape;
        shape.heads = config->heads;
        shape.key_heads = eitp__key_value_heads(config);
        shape.sliding_window = eitp__layer_sliding_window(config, layer);
        shape.scale = eitp__attention_scale(config, layer);
        shape.bidirectional = config->bidirectional != 0;
        eitp__stat_attention(eitp_cast(eitp_pass_by_group(scope->pass, x), EITP_F32), mask, &shape,
                             scope->config->attention_entropy_floor, &entropy, &penalty);
        eitp__add_gradient(&result.metric, entropy);
        eitp__add_gradient(&result.loss, penalty);
    }
    result.metric = eitp_affine(result.metric, 1 / (double)config->layers, 0);
    result.loss = eitp_affine(result.loss, 1 / (double)config->layers, 0);
    return result;
}

/* ---- Statistics of predictions ---- */

static eitp__statistic eitp__add_entropy(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    eitp_tensor *logits = eitp__pass_logits(scope), *entropy = eitp_softmax_entropy(logits), *band;
    if (!entropy)
        return result;
    entropy = eitp_affine(entropy, 1 / log((double)(logits->shape[1] > 1 ? logits->shape[1] : 2)), 0);
    result.metric = eitp__mean_of_rows(scope, entropy, eitp__all_rows(entropy));
    if (!scope->trains)
        return result;
    band = eitp__stat_band(result.metric, scope->config->entropy_low, scope->config->entropy_high);
    /* Elements without a sample, or groups without rows, have the value 0, which must not count as outside the band. */
    result.loss = entropy->rows ? eitp_multiply(band, eitp_max(eitp_pass_group_mask(scope->pass), 2u, 0))
                                : eitp_multiply(band, eitp__sample_mask(scope->pass));
    return result;
}

static eitp__statistic eitp__add_brier(const eitp__regularizer_scope *scope) {
    eitp__statistic result = EITP__ZERO;
    eitp_tensor *scores = eitp__stat_brier(eitp__pass_logits(scope), scope->pass->targets, scope->pass->ignored);
    if (scores)
        result.metric = result.loss = eitp__mean_of_rows(scope, scores, eitp__rows_with_target(scope));
    return result;
}

/* ---- Statistics with a separate pass ---- */

static eitp_tensor *eitp__probe_key(eitp_pass *pass) {
    const int64_t three = 3;
    if (!pass->probe_key)
        pass->probe_key = eitp_input(pass->graph, "random key of a regularizer", EITP_I64, 1, &three);
    return pass->probe_key;
}

/* Returns the number of rows in use of each group: I32 [groups]. */
static eitp_tensor *eitp__group_lengths(eitp_pass *pass) {
    eitp_tensor *lengths = eitp_sum(eitp_pass_group_mask(pass), EITP__OVER_ROWS, 0);
    return eitp_cast(lengths, EITP_I32);
}

static eitp__sensitivity eitp__pass_sensitivity(const eitp__regularizer_scope *scope) {
    eitp__jacobian_config jacobian = EITP__ZERO;
    eitp_tensor *embedded = eitp_model_tap(scope->model, scope->graph, EITP_TAP_HIDDEN, 0);
    jacobian.function = eitp__model_function(scope->model);
    jacobian.states = eitp_pass_by_group(scope->pass, embedded);
    jacobian.lengths = eitp__group_lengths(scope->pass);
    jacobian.positions = scope->config->chaos_positions;
    jacobian.has_gradient = scope->trains;
    return eitp__jacobian_sensitivity(&jacobian, eitp__random_signs(jacobian.states, eitp__probe_key(scope->pass)));
}

static eitp__statistic eitp__add_chaos(const eitp__regularizer_scope *scope) {
    const eitp_objective_config *config = scope->config;
    const eitp__sensitivity sensitivity = eitp__pass_sensitivity(scope);
    eitp__statistic result = EITP__ZERO;
    result.metric = sensitivity.relative;
    result.further = sensitivity.exponent;
    result.further_name = "chaos_absolute";
    if (scope->trains)
        result.loss = config->chaos_one_sided
                          ? eitp__stat_below(sensitivity.relative, config->chaos_target)
                          : eitp__stat_near(sensitivity.relative, config->chaos_target, config->chaos_tolerance);
    return result;
}

/* Half the squared Frobenius norm, per element that the Jacobian differentiates by. */
static eitp__statistic eitp__add_jacobian_norm(const eitp__regularizer_scope *scope) {
    const double width = (double)scope->model->config.width;
    eitp_tensor *mask = eitp_pass_group_mask(scope->pass), *rows = eitp_sum(mask, EITP__OVER_ROWS, 0);
    eitp__statistic result = EITP__ZERO;
    rows = eitp_maximum(rows, eitp__scalar_like(rows, 1));
    if (scope->config->chaos_positions == EITP_CHAOS_LAST)
        rows = eitp__scalar_like(rows, 1);
    result.metric = result.loss = eitp_divide(
        eitp_affine(eitp_cast(eitp__pass_sensitivity(scope).squares, EITP_F32), 0.5, 0), eitp_affine(rows, width, 0));
    return result;
}

/* Returns the model's final hidden states from corrupted tokens. */
static eitp_tensor *eitp__corrupted_hidden(const eitp__regularizer_scope *scope) {
    eitp_pass *pass = scope->pass;
    const int64_t rows = eitp__layout_rows(&pass->layout, pass->layout.samples);
    eitp_model_inputs inputs = EITP__ZERO;
    pass->corruption_rate = scope->config->self_repair_rate;
    pass->corrupted = eitp_input_rows(pass->graph, "corrupted tokens", EITP_I32, 1, &rows);
    inputs.tokens = pass->corrupted;
    inputs.positions = eitp_pass_positions(pass);
    inputs.offsets = eitp_pass_offsets(pass);
    inputs.segments = pass->segments;
    return eitp_model_hidden(scope->model, pass->graph, &inputs, eitp_pass_max_length(pass));
}

/* Returns 1 for rows whose token was not replaced. */
static eitp_tensor *eitp__intact_rows(const eitp_pass *pass) {
    eitp_tensor *tokens = pass->inputs[pass->positions_from].tensor;
    eitp_tensor *ones = eitp__fill_like(eitp_cast(tokens, EITP_F32), 1);
    return eitp_where(eitp_equal(tokens, pass->corrupted), ones, eitp__scalar_like(ones, 0));
}

static eitp__statistic eitp__add_self_repair(const eitp__regularizer_scope *scope) {
    eitp_pass *pass = scope->pass;
    eitp_tensor *hidden = eitp__corrupted_hidden(scope), *values;
    eitp__statistic result = EITP__ZERO;
    if (scope->config->self_repair_form == EITP_SELF_REPAIR_DENOISE) {
        values = eitp_model_row_losses(scope->model, hidden, pass->targets, pass->ignored);
        result.metric = result.loss = eitp__mean_of_rows(scope, values, eitp__rows_with_target(scope));
        return result;
    }
    values = eitp__stat_divergence(eitp__pass_logits(scope), eitp_model_logits(scope->model, hidden));
    result.metric = result.loss = eitp__mean_of_rows(scope, values, eitp__intact_rows(pass));
    return result;
}

/* ---- The table ---- */

EITP__PRIVATE eitp__statistic eitp__regularizer_statistic(const eitp__objective *objective, eitp_pass *pass,
                                                          eitp_regularizer regularizer, int trains) {
    static eitp__statistic (*const statistics[EITP_REGULARIZERS])(const eitp__regularizer_scope *scope) = {
        NULL, /* path_norm: a penalty */
        eitp__add_entropy,
        eitp__add_coding_rate,
        eitp__add_chaos,
        eitp__add_jacobian_norm,
        eitp__add_coherence,
        eitp__add_brier,
        eitp__add_variance,
        eitp__add_participation_ratio,
        eitp__add_balance,
        eitp__add_attention_entropy,
        eitp__add_self_repair,
        NULL, /* energy: reported by the records of a run */
    };
    const eitp__statistic none = EITP__ZERO;
    eitp__regularizer_scope scope;
    scope.config = &objective->config;
    scope.model = objective->model;
    scope.pass = pass;
    scope.graph = pass->graph;
    scope.trains = trains;
    return statistics[regularizer] ? statistics[regularizer](&scope) : none;
}
