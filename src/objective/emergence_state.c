#include "objective/emergence_state.h"

#include "base/random.h"

/* ---- Samples ---- */

/* Returns the bytes of an input's values for a sample. */
static size_t eitp__emergence_input_bytes(const eitp__emergence *e, const eitp__pass_input *input) {
    return (size_t)(input->is_per_row ? e->rows : 1) * input->value_size;
}

/* Returns the index of the input of token ids with this name, or -1. */
static int eitp__find_input(const eitp_pass *pass, const char *name) {
    for (int i = 0; i < pass->input_count; i++) {
        const eitp__pass_input *input = &pass->inputs[i];
        if (input->is_per_row && input->dtype == EITP_I32 && input->value_size == sizeof(int32_t) &&
            !strcmp(eitp_tensor_name(input->tensor), name))
            return i;
    }
    return -1;
}

/* Builds a pass of the task for its inputs, and allocates them. */
static eitp_status eitp__emergence_open_inputs(eitp__emergence *e, eitp_error *error) {
    eitp__layout layout = eitp__layout_plain(1, e->rows);
    eitp_status status;
    layout.rows_vary = e->task->rows_vary;
    status = eitp__pass_build(&e->pass, e->task, &layout, 0, 0, e->rows, 0, error);
    if (status)
        return status;
    if (eitp__find_input(&e->pass, "tokens") != 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the first input of the task must be its tokens: use a task of language modelling, masked "
                          "language modelling or classification");
    e->segments_at = eitp__find_input(&e->pass, "segments");
    e->targets_at = eitp__find_input(&e->pass, "targets");
    if (e->has_head && e->targets_at < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the model has a language head, but the task has no targets for it: use a task of language "
                          "modelling or masked language modelling");
    for (int i = 0; i < e->pass.input_count; i++) {
        const size_t bytes = eitp__emergence_input_bytes(e, &e->pass.inputs[i]);
        e->values[i] = eitp__allocate(&e->host, bytes);
        if (!e->values[i])
            return eitp__fail_memory(error, bytes, "a sample");
    }
    return EITP_OK;
}

/* Creates the passes and buffers for models with a language head. */
static eitp_status eitp__emergence_open_passes(eitp__emergence *e, eitp_error *error) {
    const size_t rows = (size_t)e->rows, hidden = rows * (size_t)e->width * sizeof *e->hidden;
    eitp_status status;
    if (!e->has_head)
        return EITP_OK;
    e->hidden = (float *)eitp__allocate(&e->host, hidden);
    e->tokens = (int32_t *)eitp__allocate(&e->host, rows * sizeof *e->tokens);
    e->targets = (int32_t *)eitp__allocate(&e->host, rows * sizeof *e->targets);
    e->predictions = (eitp__prediction *)eitp__allocate(&e->host, rows * sizeof *e->predictions);
    if (!e->hidden || !e->tokens || !e->targets || !e->predictions)
        return eitp__fail_memory(error, hidden, "a measurement");
    status = eitp__hidden_pass_create(&e->hidden_pass, e->model, e->rows, e->segments_at >= 0, 0, error);
    return status ? status : eitp__head_pass_create(&e->head_pass, e->model, e->rows, 0, error);
}

EITP__PRIVATE eitp_status eitp__emergence_open(eitp__emergence *e, const eitp_task *task, eitp_split split,
                                               const eitp_emergence_config *config, eitp_emergence_report *report,
                                               eitp_error *error) {
    const uint64_t samples = task->samples[split];
    const int32_t known = config->tokenizer ? eitp_tokenizer_size(config->tokenizer) : 0;
    eitp_status status;
    memset(e, 0, sizeof *e);
    e->task = task;
    e->split = split;
    e->config = config;
    e->report = report;
    e->model = task->model;
    e->host = e->model->host;
    e->rows = task->rows;
    e->width = e->model->config.width;
    e->vocabulary = e->model->config.vocabulary;
    if (known > 0 && known < e->vocabulary)
        e->vocabulary = known;
    e->has_head = e->model->config.head == EITP_HEAD_LANGUAGE;
    e->is_causal = e->has_head && !e->model->config.bidirectional;
    e->sequences = (uint64_t)config->sequences < samples ? config->sequences : (int64_t)samples;
    e->probes = config->probes < e->sequences ? config->probes : e->sequences;
    e->probe_rows = config->probe_tokens < e->rows ? config->probe_tokens : e->rows;
    status = eitp__emergence_open_inputs(e, error);
    return status ? status : eitp__emergence_open_passes(e, error);
}

EITP__PRIVATE void eitp__emergence_close(eitp__emergence *e) {
    const size_t rows = (size_t)e->rows;
    for (int i = 0; i < e->pass.input_count; i++)
        eitp__release(&e->host, e->values[i], eitp__emergence_input_bytes(e, &e->pass.inputs[i]));
    eitp__release(&e->host, e->hidden, rows * (size_t)e->width * sizeof *e->hidden);
    eitp__release(&e->host, e->tokens, rows * sizeof *e->tokens);
    eitp__release(&e->host, e->targets, rows * sizeof *e->targets);
    eitp__release(&e->host, e->predictions, rows * sizeof *e->predictions);
    eitp__head_pass_release(&e->head_pass);
    eitp__hidden_pass_release(&e->hidden_pass);
    eitp__pass_release(&e->pass);
    memset(e, 0, sizeof *e);
}

/* ---- Random numbers ---- */

EITP__PRIVATE double eitp__emergence_uniform(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                             uint64_t index) {
    return eitp__random_uniform(e->config->seed, ((uint64_t)purpose << 48) | stream, EITP__RNG_STREAM_EMERGENCE, index);
}

EITP__PRIVATE int32_t eitp__emergence_token(const eitp__emergence *e, eitp__emergence_purpose purpose, uint64_t stream,
                                            uint64_t index, int32_t other, int32_t another) {
    const int32_t low = other < another ? other : another, high = other < another ? another : other;
    const int left_out = (low >= 0) + (high >= 0 && high != low);
    int32_t id = (int32_t)(eitp__emergence_uniform(e, purpose, stream, index) * (double)(e->vocabulary - left_out));
    id += low >= 0 && id >= low;
    return id + (high >= 0 && high != low && id >= high);
}

/* ---- Reading ---- */

EITP__PRIVATE eitp_status eitp__emergence_read(eitp__emergence *e, int64_t index, int64_t *count, eitp_error *error) {
    const double strata = (double)e->sequences, all = (double)e->task->samples[e->split];
    const double first = floor((double)index * all / strata), end = floor((double)(index + 1) * all / strata);
    const double drawn = eitp__emergence_uniform(e, EITP__DRAW_SAMPLES, 0, (uint64_t)index);
    eitp_sample sample;
    eitp_status status = eitp__context_poll(e->task->context, error);
    if (status)
        return status;
    memset(&sample, 0, sizeof sample);
    sample.values = e->values;
    sample.rows = e->rows;
    eitp__error_clear(error);
    status = eitp__error_complete(
        error, e->task->read(e->task->user, e->split, (uint64_t)(first + floor(drawn * (end - first))), &sample, error),
        "the task's read failed without a message");
    *count = sample.rows;
    if (!status && (sample.rows < 1 || sample.rows > e->rows))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "a sample has %lld rows; the task's samples have 1 to %lld",
                            (long long)sample.rows, (long long)e->rows);
    return status;
}

EITP__PRIVATE eitp_status eitp__emergence_read_probe(eitp__emergence *e, int64_t index, int64_t *count,
                                                     eitp_error *error) {
    return eitp__emergence_read(e, index * e->sequences / e->probes, count, error);
}

EITP__PRIVATE const int32_t *eitp__emergence_sample_tokens(const eitp__emergence *e) {
    return (const int32_t *)e->values[0];
}

EITP__PRIVATE const int32_t *eitp__emergence_sample_segments(const eitp__emergence *e) {
    return e->segments_at >= 0 ? (const int32_t *)e->values[e->segments_at] : NULL;
}

EITP__PRIVATE eitp_status eitp__emergence_predict(eitp__emergence *e, int64_t count, int64_t *predicted,
                                                  eitp_error *error) {
    const int32_t *targets = (const int32_t *)e->values[e->targets_at];
    const size_t row_bytes = (size_t)e->width * sizeof *e->hidden;
    eitp_status status = eitp__hidden_pass_execute(&e->hidden_pass, eitp__emergence_sample_tokens(e),
                                                   eitp__emergence_sample_segments(e), count, error);
    *predicted = 0;
    if (!status)
        status = eitp__hidden_pass_read(&e->hidden_pass, e->hidden_pass.final_state, count, e->width, e->hidden, error);
    for (int64_t row = 0; row < count && !status; row++) {
        if (targets[row] < 0)
            continue;
        memmove(e->hidden + *predicted * e->width, e->hidden + row * e->width, row_bytes);
        e->targets[(*predicted)++] = targets[row];
    }
    if (status)
        return status;
    return eitp__head_pass_execute(&e->head_pass, e->hidden, NULL, e->targets, *predicted, e->predictions, error);
}
