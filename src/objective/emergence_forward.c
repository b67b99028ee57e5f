#include "objective/emergence_forward.h"

#include "tensor/plan.h"

/* ---- Hidden states ---- */

EITP__PRIVATE int64_t eitp__middle_layer(const eitp_model *model) {
    return model->config.layers - model->config.layers / 2;
}

/* Returns an output of a tap in F32. */
static eitp_tensor *eitp__tap_output(const eitp__hidden_pass *pass, eitp_tap tap, int64_t layer, const char *name) {
    eitp_tensor *value = eitp_model_tap(pass->model, pass->graph, tap, layer);
    return eitp_tensor_set_name(eitp_output(eitp_cast(value, EITP_F32)), name);
}

static eitp_status eitp__hidden_pass_build(eitp__hidden_pass *pass, int has_segments, int taps, eitp_error *error) {
    eitp_graph *graph = pass->graph;
    const int64_t layers = pass->model->config.layers;
    char name[40];
    pass->inputs = eitp_model_inputs_create(graph, 1, pass->capacity, 0);
    if (has_segments)
        pass->inputs.segments = eitp_input_rows(graph, "segments", EITP_I32, 1, &pass->capacity);
    eitp_model_hidden(pass->model, graph, &pass->inputs, pass->capacity);
    pass->final_state = eitp__tap_output(pass, EITP_TAP_FINAL, 0, "final hidden states");
    if (taps) {
        pass->first = eitp__tap_output(pass, EITP_TAP_HIDDEN, 0, "first hidden states");
        pass->middle = eitp__tap_output(pass, EITP_TAP_HIDDEN, eitp__middle_layer(pass->model), "middle hidden states");
        pass->last = eitp__tap_output(pass, EITP_TAP_HIDDEN, layers, "last hidden states");
        for (int64_t layer = 0; layer < layers; layer++) {
            snprintf(name, sizeof name, "queries, keys %lld", (long long)layer);
            pass->compared[layer] = eitp__tap_output(pass, EITP_TAP_QUERIES_KEYS, layer, name);
        }
    }
    return eitp_graph_status(graph, error);
}

EITP__PRIVATE eitp_status eitp__hidden_pass_create(eitp__hidden_pass *pass, const eitp_model *model, int64_t capacity,
                                                   int has_segments, int taps, eitp_error *error) {
    const size_t layers = (size_t)model->config.layers;
    eitp_status status = EITP_OK;
    memset(pass, 0, sizeof *pass);
    pass->model = model;
    pass->capacity = capacity;
    pass->positions = (int32_t *)eitp__allocate(&model->host, (size_t)capacity * sizeof *pass->positions);
    pass->compared = (eitp_tensor **)eitp__allocate(&model->host, layers * sizeof *pass->compared);
    if (!pass->positions || !pass->compared)
        return eitp__fail_memory(error, (size_t)capacity * sizeof *pass->positions, "a measurement");
    status = eitp_graph_create(model->context, &pass->graph, error);
    if (!status)
        status = eitp__hidden_pass_build(pass, has_segments, taps, error);
    return status ? status : eitp_plan_create(pass->graph, &pass->plan, error);
}

EITP__PRIVATE void eitp__hidden_pass_release(eitp__hidden_pass *pass) {
    if (!pass->model)
        return;
    const eitp_host *host = &pass->model->host;
    eitp_plan_destroy(pass->plan);
    eitp_graph_destroy(pass->graph);
    eitp__release(host, pass->positions, (size_t)pass->capacity * sizeof *pass->positions);
    eitp__release(host, pass->compared, (size_t)pass->model->config.layers * sizeof *pass->compared);
    memset(pass, 0, sizeof *pass);
}

EITP__PRIVATE eitp_status eitp__hidden_pass_execute(eitp__hidden_pass *pass, const int32_t *tokens,
                                                    const int32_t *segments, int64_t count, eitp_error *error) {
    const size_t bytes = (size_t)count * sizeof *tokens;
    const int32_t offsets[2] = {0, (int32_t)count};
    eitp_status status = eitp__context_poll(pass->model->context, error);
    eitp_model_fill_positions(pass->model, tokens, count, pass->positions);
    if (!status)
        status = eitp_plan_set_rows(pass->plan, count, error);
    if (!status)
        status = eitp_plan_write(pass->plan, pass->inputs.tokens, tokens, bytes, error);
    if (!status)
        status = eitp_plan_write(pass->plan, pass->inputs.positions, pass->positions, bytes, error);
    if (!status)
        status = eitp_plan_write(pass->plan, pass->inputs.offsets, offsets, sizeof offsets, error);
    if (!status && pass->inputs.segments)
        status = eitp_plan_write(pass->plan, pass->inputs.segments, segments, bytes, error);
    return status ? status : eitp_plan_execute(pass->plan, error);
}

EITP__PRIVATE eitp_status eitp__hidden_pass_read(const eitp__hidden_pass *pass, eitp_tensor *output, int64_t count,
                                                 int64_t width, float *values, eitp_error *error) {
    return eitp_plan_read(pass->plan, output, values, (size_t)(count * width) * sizeof *values, error);
}

EITP__PRIVATE double eitp__hidden_pass_flops(const eitp__hidden_pass *pass) {
    return eitp__plan_flops(pass->plan);
}

/* ---- Predictions ---- */

enum { EITP__NO_TARGET = -100 };

/* The order of eitp__head_pass.outputs. */
enum { EITP__OUT_LOSS, EITP__OUT_ENTROPY, EITP__OUT_CONFIDENCE, EITP__OUT_DIVERGENCE, EITP__OUT_PREDICTED };

/* Returns the logits of rows of hidden states that are an input, computed in the context's precision, as in the
   model. */
static eitp_tensor *eitp__head_logits(const eitp__head_pass *pass, eitp_tensor *hidden) {
    return eitp_model_logits(pass->model, eitp_cast(hidden, eitp_context_precision(pass->model->context)));
}

static eitp_status eitp__head_pass_build(eitp__head_pass *pass, int compares, eitp_error *error) {
    const int64_t shape[2] = {pass->rows, pass->model->config.width};
    const unsigned last = 1u << 1;
    eitp_graph *graph = pass->graph;
    eitp_tensor *logits, *logarithms, *probabilities, *others = NULL;
    pass->hidden = eitp_input(graph, "hidden states", EITP_F32, 2, shape);
    pass->targets = eitp_input(graph, "targets", EITP_I32, 1, shape);
    logits = eitp__head_logits(pass, pass->hidden);
    logarithms = eitp_log_softmax(logits);
    probabilities = eitp_exp(logarithms);
    if (compares) {
        pass->others = eitp_input(graph, "other hidden states", EITP_F32, 2, shape);
        others = eitp__head_logits(pass, pass->others);
        pass->outputs[EITP__OUT_DIVERGENCE] =
            eitp_sum(eitp_multiply(probabilities, eitp_subtract(logarithms, eitp_log_softmax(others))), last, 0);
    }
    pass->outputs[EITP__OUT_LOSS] = eitp_cross_entropy(others ? others : logits, pass->targets, EITP__NO_TARGET);
    pass->outputs[EITP__OUT_ENTROPY] = eitp_negate(eitp_sum(eitp_multiply(probabilities, logarithms), last, 0));
    pass->outputs[EITP__OUT_CONFIDENCE] = eitp_exp(eitp_max(logarithms, last, 0));
    pass->outputs[EITP__OUT_PREDICTED] = eitp_argmax(logits, 1, 0);
    for (int i = 0; i <= EITP__OUT_PREDICTED; i++) {
        if (pass->outputs[i])
            eitp_output(pass->outputs[i]);
    }
    return eitp_graph_status(graph, error);
}

static size_t eitp__head_padded_bytes(const eitp__head_pass *pass) {
    return (size_t)(pass->rows * pass->model->config.width) * sizeof *pass->padded;
}

EITP__PRIVATE eitp_status eitp__head_pass_create(eitp__head_pass *pass, const eitp_model *model, int64_t most,
                                                 int compares, eitp_error *error) {
    const int64_t logits = (16 << 20) / (4 * model->config.vocabulary);
    eitp_status status;
    memset(pass, 0, sizeof *pass);
    pass->model = model;
    pass->rows = logits < 1 ? 1 : logits < most ? logits : most;
    pass->padded = (float *)eitp__allocate(&model->host, eitp__head_padded_bytes(pass));
    pass->values = (float *)eitp__allocate(&model->host, 4 * (size_t)pass->rows * sizeof *pass->values);
    pass->ids = (int32_t *)eitp__allocate(&model->host, (size_t)pass->rows * sizeof *pass->ids);
    if (!pass->padded || !pass->values || !pass->ids)
        return eitp__fail_memory(error, eitp__head_padded_bytes(pass), "a measurement");
    status = eitp_graph_create(model->context, &pass->graph, error);
    if (!status)
        status = eitp__head_pass_build(pass, compares, error);
    return status ? status : eitp_plan_create(pass->graph, &pass->plan, error);
}

EITP__PRIVATE void eitp__head_pass_release(eitp__head_pass *pass) {
    if (!pass->model)
        return;
    const eitp_host *host = &pass->model->host;
    eitp_plan_destroy(pass->plan);
    eitp_graph_destroy(pass->graph);
    eitp__release(host, pass->padded, eitp__head_padded_bytes(pass));
    eitp__release(host, pass->values, 4 * (size_t)pass->rows * sizeof *pass->values);
    eitp__release(host, pass->ids, (size_t)pass->rows * sizeof *pass->ids);
    memset(pass, 0, sizeof *pass);
}

EITP__PRIVATE double eitp__head_pass_flops(const eitp__head_pass *pass, int64_t count) {
    return eitp__plan_flops(pass->plan) * (double)count / (double)pass->rows;
}

/* Writes `count` rows, and zeros after them. */
static eitp_status eitp__head_pass_write(eitp__head_pass *pass, eitp_tensor *input, const float *rows, int64_t count,
                                         eitp_error *error) {
    const size_t all = eitp__head_padded_bytes(pass);
    const size_t used = (size_t)(count * pass->model->config.width) * sizeof *rows;
    memcpy(pass->padded, rows, used);
    memset((char *)pass->padded + used, 0, all - used);
    return eitp_plan_write(pass->plan, input, pass->padded, all, error);
}

static eitp_status eitp__head_pass_read(eitp__head_pass *pass, int64_t count, eitp__prediction *predictions,
                                        eitp_error *error) {
    const size_t bytes = (size_t)pass->rows * sizeof(float);
    const float *values = pass->values;
    eitp_status status = eitp_plan_read(pass->plan, pass->outputs[EITP__OUT_PREDICTED], pass->ids, bytes, error);
    for (int i = 0; i < EITP__OUT_PREDICTED && !status; i++) {
        if (pass->outputs[i])
            status = eitp_plan_read(pass->plan, pass->outputs[i], pass->values + i * pass->rows, bytes, error);
    }
    for (int64_t row = 0; row < count && !status; row++) {
        eitp__prediction *prediction = &predictions[row];
        prediction->loss = values[EITP__OUT_LOSS * pass->rows + row];
        prediction->entropy = values[EITP__OUT_ENTROPY * pass->rows + row];
        prediction->confidence = values[EITP__OUT_CONFIDENCE * pass->rows + row];
        prediction->divergence = values[EITP__OUT_DIVERGENCE * pass->rows + row];
        prediction->predicted = pass->ids[row];
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__head_pass_execute(eitp__head_pass *pass, const float *hidden, const float *others,
                                                  const int32_t *targets, int64_t count, eitp__prediction *predictions,
                                                  eitp_error *error) {
    const int64_t width = pass->model->config.width;
    eitp_status status = EITP_OK;
    for (int64_t first = 0; first < count && !status; first += pass->rows) {
        const int64_t rows = count - first < pass->rows ? count - first : pass->rows;
        for (int64_t i = 0; i < pass->rows; i++)
            pass->ids[i] = i < rows && targets[first + i] >= 0 ? targets[first + i] : EITP__NO_TARGET;
        status = eitp__context_poll(pass->model->context, error);
        if (!status)
            status = eitp__head_pass_write(pass, pass->hidden, hidden + first * width, rows, error);
        if (!status && others)
            status = eitp__head_pass_write(pass, pass->others, others + first * width, rows, error);
        if (!status)
            status =
                eitp_plan_write(pass->plan, pass->targets, pass->ids, (size_t)pass->rows * sizeof *pass->ids, error);
        if (!status)
            status = eitp_plan_execute(pass->plan, error);
        if (!status)
            status = eitp__head_pass_read(pass, rows, predictions + first, error);
    }
    return status;
}
