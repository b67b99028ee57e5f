#include "train/batch.h"

EITP__PRIVATE eitp__layout eitp__layout_plain(int64_t sequences, int64_t longest) {
    eitp__layout layout;
    layout.sequences = layout.micro_batch = sequences;
    layout.longest = longest;
    layout.gap = 0;
    return layout;
}

EITP__PRIVATE int64_t eitp__layout_row(const eitp__layout *layout, int64_t sequence) {
    return sequence * layout->longest + sequence / layout->micro_batch * layout->gap;
}

EITP__PRIVATE int64_t eitp__layout_rows(const eitp__layout *layout, int64_t count) {
    return count ? eitp__layout_row(layout, count - 1) + layout->longest : 0;
}

/* Sequences, and gaps before micro-batches but the first. */
static int64_t eitp__layout_segments(const eitp__layout *layout) {
    return layout->sequences + (layout->gap ? (layout->sequences - 1) / layout->micro_batch : 0);
}

EITP__PRIVATE int64_t eitp__layout_longest(const eitp__layout *layout) {
    return layout->gap > layout->longest ? layout->gap : layout->longest;
}

EITP__PRIVATE eitp_model_inputs eitp__layout_inputs(const eitp__layout *layout, eitp_graph *graph, int with_key) {
    const int64_t rows = eitp__layout_rows(layout, layout->sequences), offsets = eitp__layout_segments(layout) + 1;
    const int64_t key = 3;
    eitp_model_inputs inputs = EITP__ZERO;
    inputs.tokens = eitp_input_rows(graph, "tokens", EITP_I32, 1, &rows);
    inputs.positions = eitp_input_rows(graph, "positions", EITP_I32, 1, &rows);
    inputs.offsets = eitp_input(graph, "offsets", EITP_I32, 1, &offsets);
    inputs.key = with_key ? eitp_input(graph, "random key", EITP_I64, 1, &key) : NULL;
    return inputs;
}

/* What gaps hold, wherever sequences do not: no target, and the first token of the vocabulary. */
static void eitp__batch_clear(eitp__batch *batch) {
    const eitp__layout *layout = &batch->layout;
    for (int64_t i = 0; i < batch->rows; i++) {
        batch->targets[i] = EITP__IGNORED_TARGET;
        batch->inverse[i] = -1;
    }
    for (int64_t s = 0; s < layout->sequences; s++) {
        for (int64_t i = 0; i < layout->longest; i++)
            batch->positions[eitp__layout_row(layout, s) + i] = (int32_t)i;
    }
}

EITP__PRIVATE eitp_status eitp__batch_create(const eitp_host *host, const eitp__layout *layout, eitp__batch *batch,
                                             eitp_error *error) {
    size_t bytes;
    memset(batch, 0, sizeof *batch);
    batch->host = *host;
    batch->layout = *layout;
    batch->rows = eitp__layout_rows(layout, layout->sequences);
    batch->segments = eitp__layout_segments(layout);
    bytes = (size_t)batch->rows * sizeof(int32_t);
    batch->tokens = (int32_t *)eitp__allocate(host, bytes);
    batch->targets = (int32_t *)eitp__allocate(host, bytes);
    batch->positions = (int32_t *)eitp__allocate(host, bytes);
    batch->inverse = (int32_t *)eitp__allocate(host, bytes);
    batch->losses = (float *)eitp__allocate(host, bytes);
    batch->offsets = (int32_t *)eitp__allocate(host, (size_t)(batch->segments + 1) * sizeof *batch->offsets);
    if (!batch->tokens || !batch->targets || !batch->positions || !batch->inverse || !batch->losses ||
        !batch->offsets) {
        eitp__batch_release(batch);
        return eitp__fail_memory(error, 6 * bytes, "a batch");
    }
    eitp__batch_clear(batch);
    return EITP_OK;
}

EITP__PRIVATE void eitp__batch_release(eitp__batch *batch) {
    size_t bytes = (size_t)batch->rows * sizeof(int32_t);
    eitp__release(&batch->host, batch->tokens, bytes);
    eitp__release(&batch->host, batch->targets, bytes);
    eitp__release(&batch->host, batch->positions, bytes);
    eitp__release(&batch->host, batch->inverse, bytes);
    eitp__release(&batch->host, batch->losses, bytes);
    eitp__release(&batch->host, batch->offsets, (size_t)(batch->segments + 1) * sizeof *batch->offsets);
    memset(batch, 0, sizeof *batch);
}

static eitp_status eitp__check_tokens(const int32_t *tokens, int64_t count, int64_t vocabulary, eitp_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "the data has token id %d, but the model's vocabulary ends at %lld; use the model's "
                              "tokenizer, or a larger --vocab-size",
                              (int)tokens[i], (long long)vocabulary - 1);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__batch_read(eitp__batch *batch, const eitp_windows *windows, uint64_t first,
                                           int64_t count, int64_t vocabulary, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t s = 0; s < count && !status; s++) {
        int64_t row = eitp__layout_row(&batch->layout, s), longest = batch->layout.longest;
        status = eitp_windows_read(windows, first + (uint64_t)s, 1, batch->tokens + row, batch->targets + row, error);
        if (!status)
            status = eitp__check_tokens(batch->tokens + row, longest, vocabulary, error);
        if (!status)
            status = eitp__check_tokens(batch->targets + row, longest, vocabulary, error);
    }
    return status;
}

/* Where sequences and gaps begin; what there is no sequence for is empty. */
static void eitp__fill_offsets(eitp__batch *batch, int64_t count) {
    const eitp__layout *layout = &batch->layout;
    int64_t segment = 0;
    for (int64_t s = 0; s < count; s++) {
        int64_t row = eitp__layout_row(layout, s);
        if (layout->gap && s && s % layout->micro_batch == 0)
            batch->offsets[segment++] = (int32_t)(row - layout->gap);
        batch->offsets[segment++] = (int32_t)row;
    }
    while (segment <= batch->segments)
        batch->offsets[segment++] = (int32_t)eitp__layout_rows(layout, count);
}

EITP__PRIVATE eitp_status eitp__batch_write(eitp__batch *batch, int64_t count, eitp_plan *plan,
                                            const eitp_model_inputs *inputs, eitp_tensor *targets, eitp_error *error) {
    int64_t rows = eitp__layout_rows(&batch->layout, count);
    size_t bytes = (size_t)rows * sizeof(int32_t);
    eitp_status status = eitp_plan_set_count(plan, rows, error);
    eitp__fill_offsets(batch, count);
    if (!status)
        status = eitp_plan_write(plan, inputs->tokens, batch->tokens, bytes, error);
    if (!status)
        status = eitp_plan_write(plan, inputs->positions, batch->positions, bytes, error);
    if (!status && inputs->inverse)
        status = eitp_plan_write(plan, inputs->inverse, batch->inverse, bytes, error);
    if (!status)
        status = eitp_plan_write(plan, inputs->offsets, batch->offsets,
                                 (size_t)(batch->segments + 1) * sizeof *batch->offsets, error);
    if (!status)
        status = eitp_plan_write(plan, targets, batch->targets, bytes, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__batch_losses(eitp__batch *batch, int64_t count, eitp_plan *plan, eitp_tensor *losses,
                                             double *sum, int64_t *valid, eitp_error *error) {
    int64_t rows = eitp__layout_rows(&batch->layout, count);
    eitp_status status = eitp_plan_read(plan, losses, batch->losses, (size_t)rows * sizeof *batch->losses, error);
    for (int64_t i = 0; i < rows && !status; i++) {
        if (batch->targets[i] == EITP__IGNORED_TARGET)
            continue;
        *sum += (double)batch->losses[i];
        ++*valid;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__unique_create(const eitp_host *host, int64_t capacity, int64_t vocabulary,
                                              eitp__unique *unique, eitp_error *error) {
    memset(unique, 0, sizeof *unique);
    unique->host = *host;
    unique->capacity = capacity;
    unique->vocabulary = vocabulary;
    unique->tokens = (int32_t *)eitp__allocate(host, (size_t)capacity * sizeof *unique->tokens);
    unique->places = (int32_t *)eitp__allocate(host, (size_t)vocabulary * sizeof *unique->places);
    if (!unique->tokens || !unique->places) {
        eitp__unique_release(unique);
        return eitp__fail_memory(error, (size_t)(capacity + vocabulary) * sizeof *unique->tokens,
                                 "the distinct tokens of a step");
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__unique_release(eitp__unique *unique) {
    eitp__release(&unique->host, unique->tokens, (size_t)unique->capacity * sizeof *unique->tokens);
    eitp__release(&unique->host, unique->places, (size_t)unique->vocabulary * sizeof *unique->places);
    memset(unique, 0, sizeof *unique);
}

EITP__PRIVATE void eitp__unique_clear(eitp__unique *unique) {
    unique->count = 0;
    for (int64_t i = 0; i < unique->capacity; i++)
        unique->tokens[i] = -1;
    for (int64_t i = 0; i < unique->vocabulary; i++)
        unique->places[i] = -1;
}

EITP__PRIVATE void eitp__unique_add(eitp__unique *unique, eitp__batch *batch, int64_t count) {
    for (int64_t s = 0; s < count; s++) {
        int64_t row = eitp__layout_row(&batch->layout, s);
        for (int64_t i = row; i < row + batch->layout.longest; i++) {
            int32_t token = batch->tokens[i];
            if (unique->places[token] < 0) {
                unique->places[token] = (int32_t)unique->count;
                unique->tokens[unique->count++] = token;
            }
            batch->inverse[i] = unique->places[token];
        }
    }
}
