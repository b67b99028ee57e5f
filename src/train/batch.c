#include "train/batch.h"

#include "base/random.h"
#include "tensor/graph.h"

/* Returns the capacity in rows. */
static int64_t eitp__batch_rows(const eitp_pass *pass) {
    return eitp__layout_rows(&pass->layout, pass->layout.samples);
}

static size_t eitp__batch_input_bytes(const eitp_pass *pass, const eitp__pass_input *input) {
    return (size_t)(input->is_per_row ? eitp__batch_rows(pass) : eitp__layout_indices(&pass->layout)) *
           input->value_size;
}

/* One of a batch's buffers, and its size. */
typedef struct eitp__batch_buffer {
    void **memory;
    size_t bytes;
} eitp__batch_buffer;

enum { EITP__BATCH_BUFFERS = EITP_MAX_PASS_INPUTS + 15 };

/* Lists the buffers of a batch, and returns their number. */
static int eitp__batch_buffers(eitp__batch *batch, eitp__batch_buffer buffers[EITP__BATCH_BUFFERS]) {
    const eitp_pass *pass = batch->pass;
    const size_t rows = (size_t)eitp__batch_rows(pass) * sizeof(int32_t), samples = (size_t)pass->layout.samples;
    const eitp__batch_buffer others[] = {
        {(void **)&batch->positions, pass->positions ? rows : 0},
        {(void **)&batch->places, pass->places ? rows : 0},
        {(void **)&batch->corrupted, pass->corrupted ? rows : 0},
        {(void **)&batch->inverse, pass->inverse ? rows : 0},
        {(void **)&batch->offsets,
         pass->offsets ? (size_t)(eitp__layout_sequences(&pass->layout) + 1) * sizeof *batch->offsets : 0},
        {(void **)&batch->bounds,
         pass->bounds ? 2 * (size_t)eitp__layout_indices(&pass->layout) * sizeof *batch->bounds : 0},
        {(void **)&batch->group_bounds,
         pass->group_bounds ? 2 * (size_t)eitp__layout_groups(&pass->layout) * sizeof *batch->group_bounds : 0},
        {(void **)&batch->encoder_positions, pass->encoder ? rows : 0},
        {(void **)&batch->encoder_offsets,
         pass->encoder ? (size_t)(eitp__layout_split_sequences(&pass->layout) + 1) * sizeof *batch->encoder_offsets
                       : 0},
        {(void **)&batch->encoder_bounds,
         pass->encoder ? 2 * (size_t)eitp__layout_indices(&pass->layout) * sizeof *batch->encoder_bounds : 0},
        {(void **)&batch->encoder_lengths, pass->encoder ? samples * sizeof *batch->encoder_lengths : 0},
        {(void **)&batch->starts, samples * sizeof *batch->starts},
        {(void **)&batch->lengths, samples * sizeof *batch->lengths},
        {(void **)&batch->numbers, samples * sizeof *batch->numbers},
        {(void **)&batch->items, samples * sizeof *batch->items},
    };
    int count = 0;
    for (int i = 0; i < pass->input_count; i++) {
        buffers[count].memory = &batch->values[i];
        buffers[count++].bytes = eitp__batch_input_bytes(pass, &pass->inputs[i]);
    }
    for (size_t i = 0; i < EITP__COUNT(others); i++)
        buffers[count++] = others[i];
    return count;
}

EITP__PRIVATE eitp_status eitp__batch_create(const eitp_pass *pass, eitp__batch *batch, eitp_error *error) {
    eitp_context *context = pass->graph->context;
    eitp__batch_buffer buffers[EITP__BATCH_BUFFERS];
    int count;
    memset(batch, 0, sizeof *batch);
    batch->context = context;
    batch->pass = pass;
    count = eitp__batch_buffers(batch, buffers);
    for (int i = 0; i < count; i++) {
        if (!buffers[i].bytes)
            continue;
        *buffers[i].memory = eitp__staging_allocate(context, buffers[i].bytes);
        if (!*buffers[i].memory)
            return eitp__fail_memory(error, buffers[i].bytes, "a batch");
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__batch_release(eitp__batch *batch) {
    eitp__batch_buffer buffers[EITP__BATCH_BUFFERS];
    if (!batch->pass)
        return;
    for (int i = eitp__batch_buffers(batch, buffers) - 1; i >= 0; i--)
        if (*buffers[i].memory)
            eitp__staging_release(batch->context, *buffers[i].memory, buffers[i].bytes);
    memset(batch, 0, sizeof *batch);
}

EITP__PRIVATE void eitp__batch_clear(eitp__batch *batch) {
    batch->count = batch->rows = 0;
}

/* Fills padding rows. */
static void eitp__batch_clear_rows(eitp__batch *batch, int64_t first, int64_t count) {
    const eitp_pass *pass = batch->pass;
    for (int i = 0; i < pass->input_count; i++) {
        if (pass->inputs[i].is_per_row)
            eitp__pass_input_clear(&pass->inputs[i], batch->values[i], first, count);
    }
    for (int64_t row = first; row < first + count; row++) {
        if (batch->positions)
            batch->positions[row] = 0;
        if (batch->encoder_positions)
            batch->encoder_positions[row] = -1;
        if (batch->inverse)
            batch->inverse[row] = -1;
    }
}

/* Returns the index after the last sample's. */
static int64_t eitp__batch_end(const eitp__batch *batch) {
    return batch->count ? eitp__layout_index(&batch->pass->layout, batch->count - 1) + 1 : 0;
}

/* Fills the unused elements [first, last). */
static void eitp__batch_clear_places(eitp__batch *batch, int64_t first, int64_t last) {
    const eitp_pass *pass = batch->pass;
    for (int i = 0; i < pass->input_count; i++) {
        if (!pass->inputs[i].is_per_row)
            eitp__pass_input_clear(&pass->inputs[i], batch->values[i], first, last - first);
    }
}

static eitp_status eitp__check_ids(const eitp_pass *pass, uint64_t number, const eitp_sample *sample,
                                   eitp_error *error) {
    const int32_t *ids = (const int32_t *)sample->values[pass->lookup];
    for (int64_t i = 0; i < sample->rows; i++) {
        if (ids[i] < -1 || ids[i] >= pass->vocabulary)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "sample %llu has id %d in '%s', which is out of range for a table of %lld rows",
                              (unsigned long long)number, (int)ids[i], pass->inputs[pass->lookup].tensor->name,
                              (long long)pass->vocabulary);
    }
    return EITP_OK;
}

/* Checks what eitp_task.read stored. */
static eitp_status eitp__check_sample(const eitp_pass *pass, uint64_t number, const eitp_sample *sample,
                                      eitp_error *error) {
    const eitp__layout *layout = &pass->layout;
    if (sample->rows < (layout->rows_vary ? 1 : layout->rows) || sample->rows > layout->rows)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu has %lld rows; the task's samples have %s%lld",
                          (unsigned long long)number, (long long)sample->rows, layout->rows_vary ? "1 to " : "",
                          (long long)layout->rows);
    if (pass->encoder && (sample->encoder_rows < 1 || sample->encoder_rows > sample->rows ||
                          sample->encoder_rows > eitp_model_positions(pass->encoder)))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "sample %llu has %lld rows for the encoder; expected 1 to the sample's %lld rows, and to the "
                          "encoder's %lld positions",
                          (unsigned long long)number, (long long)sample->encoder_rows, (long long)sample->rows,
                          (long long)eitp_model_positions(pass->encoder));
    for (int q = 0; q < pass->scalar_count && !pass->scalars[q].is_regularizer; q++) {
        if (sample->items[q] < 0)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu has %lld items of '%s'; expected at least 0",
                              (unsigned long long)number, (long long)sample->items[q], pass->scalars[q].name);
        if (!isfinite(sample->weights[q]))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "sample %llu has weight %g of '%s'; expected a finite number",
                              (unsigned long long)number, sample->weights[q], pass->scalars[q].name);
    }
    return pass->vocabulary ? eitp__check_ids(pass, number, sample, error) : EITP_OK;
}

/* Initializes the sample passed to `read`. */
static void eitp__sample_init(eitp_sample *sample, void **values, const eitp_pass *pass, const eitp__draw *draw) {
    sample->values = values;
    sample->rows = pass->layout.rows;
    sample->encoder_rows = 0;
    sample->trains = pass->trains;
    sample->seed = draw->seed;
    sample->epoch = draw->epoch;
    for (int i = 0; i < EITP_MAX_PASS_QUANTITIES; i++) {
        sample->items[i] = 1;
        sample->weights[i] = -1;
    }
}

static void eitp__sample_items_set(eitp__sample_items *items, const eitp_sample *sample) {
    for (int i = 0; i < EITP_MAX_PASS_QUANTITIES; i++) {
        items->of[i] = sample->items[i];
        items->weights[i] = sample->weights[i] < 0 ? (double)sample->items[i] : sample->weights[i];
    }
}

/* Stores the encoder's sequence of the sample being added. */
static void eitp__batch_add_encoded(eitp__batch *batch, int64_t row, const eitp_sample *sample) {
    const eitp_pass *pass = batch->pass;
    eitp_model_fill_positions(pass->encoder, (const int32_t *)sample->values[pass->encoder_from], sample->encoder_rows,
                              batch->encoder_positions + row);
    for (int64_t i = sample->encoder_rows; i < sample->rows; i++)
        batch->encoder_positions[row + i] = -1;
    batch->encoder_lengths[batch->count] = sample->encoder_rows;
}

EITP__PRIVATE eitp_status eitp__batch_add(eitp__batch *batch, const eitp__draw *draw, eitp_error *error) {
    const eitp_pass *pass = batch->pass;
    const eitp__layout *layout = &pass->layout;
    const eitp_task *task = pass->task;
    const int64_t s = batch->count;
    const int64_t row = s % layout->micro_batch ? batch->rows : eitp__layout_align(layout, batch->rows);
    const int64_t place = eitp__layout_index(layout, s);
    void *values[EITP_MAX_PASS_INPUTS];
    eitp_sample sample;
    eitp_status status;
    eitp__batch_clear_rows(batch, batch->rows, row - batch->rows);
    eitp__batch_clear_places(batch, eitp__batch_end(batch), place);
    for (int i = 0; i < pass->input_count; i++)
        values[i] =
            (char *)batch->values[i] + (size_t)(pass->inputs[i].is_per_row ? row : place) * pass->inputs[i].value_size;
    eitp__sample_init(&sample, values, pass, draw);
    eitp__error_clear(error);
    status = eitp__error_complete(error, task->read(task->user, draw->split, draw->number, &sample, error),
                                  "the task's read failed on sample %llu without a message",
                                  (unsigned long long)draw->number);
    sample.encoder_rows = sample.encoder_rows ? sample.encoder_rows : sample.rows;
    if (!status)
        status = eitp__check_sample(pass, draw->number, &sample, error);
    if (status)
        return status;
    if (batch->encoder_positions)
        eitp__batch_add_encoded(batch, row, &sample);
    if (batch->positions)
        eitp_model_fill_positions(pass->positions_of,
                                  pass->positions_of ? (const int32_t *)values[pass->positions_from] : NULL,
                                  sample.rows, batch->positions + row);
    eitp__sample_items_set(&batch->items[s], &sample);
    batch->numbers[s] = draw->number;
    batch->starts[s] = row;
    batch->lengths[s] = sample.rows;
    batch->rows = row + sample.rows;
    batch->count++;
    return EITP_OK;
}

EITP__PRIVATE void eitp__batch_copy(eitp__batch *batch, const eitp__batch *from, int64_t count) {
    const eitp_pass *pass = batch->pass;
    int64_t places;
    batch->count = from->count < count ? from->count : count;
    batch->rows = 0;
    for (int64_t s = 0; s < batch->count; s++) {
        batch->starts[s] = from->starts[s];
        batch->lengths[s] = from->lengths[s];
        if (batch->encoder_lengths && from->encoder_lengths)
            batch->encoder_lengths[s] = from->encoder_lengths[s];
        batch->numbers[s] = from->numbers[s];
        batch->items[s] = from->items[s];
        batch->rows = from->starts[s] + from->lengths[s];
    }
    places = eitp__batch_end(batch);
    for (int i = 0; i < pass->input_count && i < from->pass->input_count; i++)
        memcpy(batch->values[i], from->values[i],
               (size_t)(pass->inputs[i].is_per_row ? batch->rows : places) * pass->inputs[i].value_size);
    if (batch->positions && from->positions)
        memcpy(batch->positions, from->positions, (size_t)batch->rows * sizeof *batch->positions);
    if (batch->encoder_positions && from->encoder_positions)
        memcpy(batch->encoder_positions, from->encoder_positions,
               (size_t)batch->rows * sizeof *batch->encoder_positions);
    if (batch->inverse && from->inverse)
        memcpy(batch->inverse, from->inverse, (size_t)batch->rows * sizeof *batch->inverse);
}

EITP__PRIVATE void eitp__batch_corrupt(eitp__batch *batch, uint64_t seed, int64_t step) {
    const eitp_pass *pass = batch->pass;
    const int32_t *tokens = (const int32_t *)batch->values[pass->positions_from];
    const uint64_t others = (uint64_t)eitp_model_vocabulary(pass->positions_of) - 1;
    for (int64_t row = 0; row < batch->rows && batch->corrupted; row++) {
        const uint64_t at = 2 * (uint64_t)row;
        const double chosen = eitp__random_uniform(seed, (uint64_t)step, EITP__RNG_STREAM_CORRUPT, at);
        const uint64_t bits = eitp__random_bits(seed, (uint64_t)step, EITP__RNG_STREAM_CORRUPT, at + 1);
        const int32_t other = (int32_t)(others ? bits % others : 0);
        batch->corrupted[row] = tokens[row];
        if (chosen < pass->corruption_rate && others)
            batch->corrupted[row] = other + (other >= tokens[row]);
    }
}

EITP__PRIVATE int64_t eitp__batch_items_of(const eitp__batch *batch, int scalar, int64_t sample, double *weight) {
    const eitp__scalar *of = &batch->pass->scalars[scalar];
    int64_t items;
    if (!of->is_regularizer) {
        *weight = batch->items[sample].weights[scalar];
        return batch->items[sample].of[scalar];
    }
    items = of->kind == EITP__PER_SAMPLE || (of->kind == EITP__PER_GROUP && sample % batch->pass->layout.joined == 0);
    *weight = (double)items;
    return items;
}

EITP__PRIVATE void eitp__batch_count_items(const eitp__batch *batch, eitp__step_items *items) {
    for (int64_t s = 0; s < batch->count; s++) {
        for (int q = 0; q < batch->pass->scalar_count; q++) {
            double weight;
            items->of[q] += eitp__batch_items_of(batch, q, s, &weight);
            items->weights[q] += weight;
        }
    }
}

EITP__PRIVATE double eitp__mean_divisor(const eitp__step_items *items, int scalar) {
    return items->weights[scalar] > 0 ? items->weights[scalar] : 1;
}

/* Stores the starts of the first `lengths` rows of samples, of their other rows, and of the rows between samples.
   Unused sequences are empty. */
static void eitp__batch_fill_offsets(const eitp__batch *batch, const int64_t *lengths, int64_t sequences,
                                     int32_t *offsets) {
    int64_t sequence = 0, end = 0;
    for (int64_t s = 0; s < batch->count; s++) {
        if (batch->starts[s] > end)
            offsets[sequence++] = (int32_t)end;
        offsets[sequence++] = (int32_t)batch->starts[s];
        end = batch->starts[s] + batch->lengths[s];
        if (lengths[s] < batch->lengths[s])
            offsets[sequence++] = (int32_t)(batch->starts[s] + lengths[s]);
    }
    while (sequence <= sequences)
        offsets[sequence++] = (int32_t)end;
}

/* Stores the bounds of each sample, or of its first `lengths` rows. */
static void eitp__batch_fill_bounds(const eitp__batch *batch, const int64_t *lengths, int32_t *all) {
    const eitp__layout *layout = &batch->pass->layout;
    for (int64_t i = 0; i < 2 * eitp__layout_indices(layout); i++)
        all[i] = -1;
    for (int64_t s = 0; s < batch->count; s++) {
        int32_t *bounds = &all[2 * eitp__layout_index(layout, s)];
        bounds[0] = (int32_t)batch->starts[s];
        bounds[1] = (int32_t)(batch->starts[s] + lengths[s]);
    }
}

/* Stores the index of each row's sample. */
static void eitp__batch_fill_places(eitp__batch *batch) {
    for (int64_t row = 0; row < batch->rows; row++)
        batch->places[row] = -1;
    for (int64_t s = 0; s < batch->count; s++) {
        for (int64_t row = batch->starts[s]; row < batch->starts[s] + batch->lengths[s]; row++)
            batch->places[row] = (int32_t)eitp__layout_index(&batch->pass->layout, s);
    }
}

/* Stores the bounds of each group. */
static void eitp__batch_fill_group_bounds(eitp__batch *batch) {
    const eitp__layout *layout = &batch->pass->layout;
    for (int64_t i = 0; i < 2 * eitp__layout_groups(layout); i++)
        batch->group_bounds[i] = -1;
    for (int64_t s = 0; s < batch->count; s++) {
        int32_t *bounds = &batch->group_bounds[s / layout->joined * 2];
        if (s % layout->joined == 0)
            bounds[0] = (int32_t)batch->starts[s];
        bounds[1] = (int32_t)(batch->starts[s] + batch->lengths[s]);
    }
}

/* Writes the encoder's inputs except its tokens. */
static eitp_status eitp__batch_write_encoded(eitp__batch *batch, eitp_plan *plan, eitp_error *error) {
    const eitp_pass *pass = batch->pass;
    const int64_t sequences = eitp__layout_split_sequences(&pass->layout);
    eitp_status status = eitp_plan_write(plan, pass->encoder_positions, batch->encoder_positions,
                                         (size_t)batch->rows * sizeof *batch->encoder_positions, error);
    eitp__batch_fill_offsets(batch, batch->encoder_lengths, sequences, batch->encoder_offsets);
    eitp__batch_fill_bounds(batch, batch->encoder_lengths, batch->encoder_bounds);
    if (!status)
        status = eitp_plan_write(plan, pass->encoder_offsets, batch->encoder_offsets,
                                 (size_t)(sequences + 1) * sizeof *batch->encoder_offsets, error);
    return status ? status
                  : eitp_plan_write(plan, pass->encoder_bounds, batch->encoder_bounds,
                                    2 * (size_t)eitp__layout_indices(&pass->layout) * sizeof *batch->encoder_bounds,
                                    error);
}

/* Writes offsets, bounds and sample indices. */
static eitp_status eitp__batch_write_layout(eitp__batch *batch, eitp_plan *plan, eitp_error *error) {
    const eitp__layout *layout = &batch->pass->layout;
    const size_t offsets = (size_t)(eitp__layout_sequences(layout) + 1) * sizeof *batch->offsets;
    const size_t bounds = 2 * (size_t)eitp__layout_indices(layout) * sizeof *batch->bounds;
    eitp_status status = EITP_OK;
    if (batch->offsets) {
        eitp__batch_fill_offsets(batch, batch->lengths, eitp__layout_sequences(layout), batch->offsets);
        status = eitp_plan_write(plan, batch->pass->offsets, batch->offsets, offsets, error);
    }
    if (!status && batch->bounds) {
        eitp__batch_fill_bounds(batch, batch->lengths, batch->bounds);
        status = eitp_plan_write(plan, batch->pass->bounds, batch->bounds, bounds, error);
    }
    if (!status && batch->places) {
        eitp__batch_fill_places(batch);
        status = eitp_plan_write(plan, batch->pass->places, batch->places, (size_t)batch->rows * sizeof *batch->places,
                                 error);
    }
    if (!status && batch->group_bounds) {
        eitp__batch_fill_group_bounds(batch);
        status = eitp_plan_write(plan, batch->pass->group_bounds, batch->group_bounds,
                                 2 * (size_t)eitp__layout_groups(layout) * sizeof *batch->group_bounds, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__batch_write(eitp__batch *batch, eitp_plan *plan, eitp_error *error) {
    const eitp_pass *pass = batch->pass;
    const size_t bytes = (size_t)batch->rows * sizeof(int32_t);
    const int64_t places = eitp__layout_indices(&pass->layout);
    eitp_status status = eitp_plan_set_rows(plan, batch->rows, error);
    eitp__batch_clear_places(batch, eitp__batch_end(batch), places);
    for (int i = 0; i < pass->input_count && !status; i++) {
        const eitp__pass_input *input = &pass->inputs[i];
        status = eitp_plan_write(plan, input->tensor, batch->values[i],
                                 (size_t)(input->is_per_row ? batch->rows : places) * input->value_size, error);
    }
    if (!status && batch->positions)
        status = eitp_plan_write(plan, pass->positions, batch->positions, bytes, error);
    if (!status && batch->corrupted)
        status = eitp_plan_write(plan, pass->corrupted, batch->corrupted, bytes, error);
    if (!status && batch->inverse)
        status = eitp_plan_write(plan, pass->inverse, batch->inverse, bytes, error);
    if (!status && pass->encoder)
        status = eitp__batch_write_encoded(batch, plan, error);
    return status ? status : eitp__batch_write_layout(batch, plan, error);
}

/* ---- Results ---- */

EITP__PRIVATE int64_t eitp__batch_value_count(const eitp_pass *pass) {
    const int64_t rows = eitp__batch_rows(pass), places = eitp__layout_indices(&pass->layout);
    return rows > places ? rows : places;
}

EITP__PRIVATE eitp_status eitp__batch_read_values(const eitp__batch *batch, eitp_plan *plan, const eitp__scalar *scalar,
                                                  float *values, eitp_error *error) {
    const int64_t count = scalar->kind == EITP__PER_ROW      ? batch->rows
                          : scalar->kind == EITP__PER_SAMPLE ? eitp__layout_indices(&batch->pass->layout)
                          : scalar->kind == EITP__PER_GROUP  ? eitp__layout_groups(&batch->pass->layout)
                                                             : 1;
    return eitp_plan_read(plan, scalar->values, values, (size_t)count * sizeof *values, error);
}

EITP__PRIVATE void eitp__batch_add_values(const eitp__batch *batch, const eitp__scalar *scalar, const float *values,
                                          int64_t sample, double *sum) {
    const int64_t start = scalar->kind == EITP__PER_ROW      ? batch->starts[sample]
                          : scalar->kind == EITP__PER_SAMPLE ? eitp__layout_index(&batch->pass->layout, sample)
                          : scalar->kind == EITP__PER_GROUP  ? sample
                                                             : 0;
    const int64_t count = scalar->kind == EITP__PER_ROW ? batch->lengths[sample]
                          : scalar->kind == EITP__TOTAL ? sample == 0
                                                        : 1;
    for (int64_t i = start; i < start + count; i++)
        *sum += (double)values[i];
}

/* ---- Outputs ---- */

EITP__PRIVATE int64_t eitp__batch_output_count(const eitp_pass *pass, const eitp__pass_output *output) {
    return (output->is_per_row ? eitp__batch_rows(pass) : eitp__layout_indices(&pass->layout)) * output->width;
}

EITP__PRIVATE eitp_status eitp__batch_read_output(const eitp__batch *batch, eitp_plan *plan,
                                                  const eitp__pass_output *output, float *values, eitp_error *error) {
    const int64_t count = output->is_per_row ? batch->rows : eitp__layout_indices(&batch->pass->layout);
    return eitp_plan_read(plan, output->values, values, (size_t)(count * output->width) * sizeof *values, error);
}

/* Returns the first row of a sample in values of rows, or its index in values of samples. */
static int64_t eitp__batch_index(const eitp__batch *batch, int is_per_row, int64_t sample) {
    return is_per_row ? batch->starts[sample] : eitp__layout_index(&batch->pass->layout, sample);
}

EITP__PRIVATE const void *eitp__batch_input_of(const eitp__batch *batch, int input, int64_t sample) {
    const eitp__pass_input *of = &batch->pass->inputs[input];
    return (const char *)batch->values[input] +
           (size_t)eitp__batch_index(batch, of->is_per_row, sample) * of->value_size;
}

EITP__PRIVATE const float *eitp__batch_output_of(const eitp__batch *batch, const eitp__pass_output *output,
                                                 const float *values, int64_t sample) {
    return values + eitp__batch_index(batch, output->is_per_row, sample) * output->width;
}
