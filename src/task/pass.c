#include "task/pass.h"

#include "model/transformer.h"
#include "tensor/op_rules.h"

eitp_graph *eitp_pass_graph(eitp_pass *pass) {
    return pass ? pass->graph : NULL;
}

int eitp_pass_is_training(const eitp_pass *pass) {
    return pass && pass->trains;
}

int64_t eitp_pass_max_length(const eitp_pass *pass) {
    return pass ? eitp__layout_max_sequence_rows(&pass->layout) : 0;
}

/* ---- Inputs ---- */

static eitp_tensor *eitp__pass_input_add(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank,
                                         const int64_t *shape, double empty, int is_per_row) {
    int64_t full[EITP_MAX_RANK];
    eitp__pass_input *input;
    if (!pass)
        return NULL;
    if (!name || (rank > 0 && !shape)) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "input '%.60s': name and shape must not be NULL",
                         name ? name : "");
        return NULL;
    }
    if (rank < 0 || rank >= EITP_MAX_RANK || (dtype != EITP_I32 && dtype != EITP_I64 && dtype != EITP_F32)) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "input '%.60s': expected I32, I64 or F32 of at most %d dimensions", name, EITP_MAX_RANK - 1);
        return NULL;
    }
    if (pass->input_count == EITP_MAX_PASS_INPUTS) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "input '%.60s' exceeds the limit of %d inputs", name,
                         EITP_MAX_PASS_INPUTS);
        return NULL;
    }
    for (int i = 0; i < pass->input_count; i++) {
        if (strcmp(eitp_tensor_name(pass->inputs[i].tensor), name))
            continue;
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "duplicate input '%.60s'", name);
        return NULL;
    }
    input = &pass->inputs[pass->input_count];
    full[0] = is_per_row ? eitp__layout_rows(&pass->layout, pass->layout.samples) : eitp__layout_indices(&pass->layout);
    input->value_size = eitp_dtype_size(dtype);
    for (int d = 0; d < rank; d++) {
        full[d + 1] = shape[d];
        input->value_size *= shape[d] > 0 ? (size_t)shape[d] : 0;
    }
    input->tensor = is_per_row ? eitp_input_rows(pass->graph, name, dtype, rank + 1, full)
                               : eitp_input(pass->graph, name, dtype, rank + 1, full);
    input->dtype = dtype;
    input->is_per_row = is_per_row;
    input->empty = empty;
    pass->input_count += input->tensor != NULL;
    return input->tensor;
}

eitp_tensor *eitp_pass_row_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank, const int64_t *shape,
                                 double empty) {
    return eitp__pass_input_add(pass, name, dtype, rank, shape, empty, 1);
}

eitp_tensor *eitp_pass_sample_input(eitp_pass *pass, const char *name, eitp_dtype dtype, int rank, const int64_t *shape,
                                    double empty) {
    return eitp__pass_input_add(pass, name, dtype, rank, shape, empty, 0);
}

EITP__PRIVATE void eitp__pass_input_clear(const eitp__pass_input *input, void *values, int64_t first, int64_t count) {
    const size_t element = eitp_dtype_size(input->dtype), end = (size_t)(first + count) * input->value_size;
    for (size_t at = (size_t)first * input->value_size; at < end; at += element) {
        char *value = (char *)values + at;
        if (input->dtype == EITP_F32)
            *(float *)(void *)value = (float)input->empty;
        else if (input->dtype == EITP_I32)
            *(int32_t *)(void *)value = (int32_t)input->empty;
        else
            *(int64_t *)(void *)value = (int64_t)input->empty;
    }
}

eitp_tensor *eitp_pass_positions(eitp_pass *pass) {
    int64_t rows;
    if (!pass)
        return NULL;
    rows = eitp__layout_rows(&pass->layout, pass->layout.samples);
    if (!pass->positions)
        pass->positions = eitp_input_rows(pass->graph, "positions", EITP_I32, 1, &rows);
    return pass->positions;
}

eitp_tensor *eitp_pass_offsets(eitp_pass *pass) {
    int64_t offsets;
    if (!pass)
        return NULL;
    offsets = eitp__layout_sequences(&pass->layout) + 1;
    if (!pass->offsets)
        pass->offsets = eitp_input(pass->graph, "offsets", EITP_I32, 1, &offsets);
    return pass->offsets;
}

eitp_tensor *eitp_pass_bounds(eitp_pass *pass) {
    int64_t shape[2] = {0, 2};
    if (!pass)
        return NULL;
    shape[0] = eitp__layout_indices(&pass->layout);
    if (!pass->bounds)
        pass->bounds = eitp_input(pass->graph, "bounds", EITP_I32, 2, shape);
    return pass->bounds;
}

eitp_tensor *eitp_pass_by_row(eitp_pass *pass, eitp_tensor *x) {
    int64_t rows;
    if (!pass || !x)
        return NULL;
    if (x->rank != 2 || x->rows || x->shape[0] != eitp__layout_indices(&pass->layout)) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "eitp_pass_by_row: expected values for each sample, [samples, c]");
        return NULL;
    }
    rows = eitp__layout_rows(&pass->layout, pass->layout.samples);
    if (!pass->places)
        pass->places = eitp_input_rows(pass->graph, "places", EITP_I32, 1, &rows);
    return eitp_embedding(x, pass->places);
}

EITP__PRIVATE eitp_tensor *eitp__pass_group_bounds(eitp_pass *pass) {
    int64_t shape[2];
    shape[0] = eitp__layout_groups(&pass->layout);
    shape[1] = 2;
    if (!pass->group_bounds)
        pass->group_bounds = eitp_input(pass->graph, "bounds of groups", EITP_I32, 2, shape);
    return pass->group_bounds;
}

eitp_tensor *eitp_pass_key(eitp_pass *pass) {
    const int64_t key = 3;
    if (pass && pass->trains && !pass->probe && !pass->key)
        pass->key = eitp_input(pass->graph, "random key", EITP_I64, 1, &key);
    return pass ? pass->key : NULL;
}

eitp_tensor *eitp_pass_sample_key(eitp_pass *pass) {
    const int64_t key = 3;
    if (pass && pass->trains && !pass->probe && !pass->sample_key)
        pass->sample_key = eitp_input(pass->graph, "random key of samples", EITP_I64, 1, &key);
    return pass ? pass->sample_key : NULL;
}

/* ---- Lookups ---- */

EITP__PRIVATE int64_t eitp__pass_unique_capacity(const eitp_pass *pass) {
    return pass->step_rows < pass->vocabulary ? pass->step_rows : pass->vocabulary;
}

EITP__PRIVATE eitp_tensor *eitp__pass_unique_input(const eitp_pass *pass, eitp_graph *graph) {
    const int64_t capacity = eitp__pass_unique_capacity(pass);
    return pass->unique ? eitp_input(graph, "unique tokens", EITP_I32, 1, &capacity) : NULL;
}

/* Returns the index of the row input `ids`, or -1 if it is not a row input of I32 ids. */
static int eitp__find_lookup(const eitp_pass *pass, const eitp_tensor *ids) {
    for (int i = 0; i < pass->input_count; i++) {
        const eitp__pass_input *input = &pass->inputs[i];
        if (input->tensor == ids)
            return input->is_per_row && input->dtype == EITP_I32 && input->value_size == sizeof(int32_t) ? i : -1;
    }
    return -1;
}

void eitp_pass_unique(eitp_pass *pass, eitp_tensor *ids, int64_t vocabulary, eitp_tensor **unique,
                      eitp_tensor **inverse) {
    if (unique)
        *unique = NULL;
    if (inverse)
        *inverse = NULL;
    if (!pass || !ids || !unique || !inverse)
        return;
    const int64_t rows = eitp__layout_rows(&pass->layout, pass->layout.samples);
    const int lookup = eitp__find_lookup(pass, ids);
    int64_t capacity;
    if (lookup < 0 || pass->vocabulary || vocabulary < 1) {
        eitp__graph_fail(
            pass->graph, EITP_ERROR_ARGUMENT,
            "eitp_pass_unique: expected an I32 row input with one id per row, a vocabulary of 1 or more, and one call "
            "per task");
        return;
    }
    pass->lookup = lookup;
    pass->vocabulary = vocabulary;
    if (!pass->trains)
        return;
    capacity = eitp__pass_unique_capacity(pass);
    *unique = pass->unique = eitp_input(pass->graph, "unique tokens", EITP_I32, 1, &capacity);
    *inverse = pass->inverse = eitp_input_rows(pass->graph, "places of tokens", EITP_I32, 1, &rows);
}

eitp_tensor *eitp_pass_embedding(eitp_pass *pass, eitp_tensor *table, eitp_tensor *ids) {
    eitp_tensor *unique, *inverse;
    if (!pass || !table || !ids)
        return NULL;
    eitp_pass_unique(pass, ids, table->rank ? table->shape[0] : 0, &unique, &inverse);
    return unique ? eitp_embedding_unique(table, ids, unique, inverse) : eitp_embedding(table, ids);
}

eitp_model_inputs eitp_pass_model_inputs(eitp_pass *pass, const eitp_model *model) {
    eitp_model_inputs inputs = EITP__ZERO;
    if (!pass || !model)
        return inputs;
    inputs.tokens = eitp_pass_row_input(pass, "tokens", EITP_I32, 0, NULL, 0);
    inputs.positions = eitp_pass_positions(pass);
    pass->positions_of = model;
    pass->positions_from = pass->input_count - 1;
    inputs.offsets = eitp_pass_offsets(pass);
    inputs.key = eitp__model_has_dropout(model) ? eitp_pass_key(pass) : NULL;
    if (model->config.head == EITP_HEAD_CLASSIFIER) {
        inputs.bounds = eitp_pass_bounds(pass);
        inputs.sample_key = inputs.key ? eitp_pass_sample_key(pass) : NULL;
    }
    if (eitp__trains_tied_embedding(model))
        eitp_pass_unique(pass, inputs.tokens, eitp_model_vocabulary(model), &inputs.unique, &inputs.inverse);
    return inputs;
}

eitp_model_inputs eitp_pass_encoder_inputs(eitp_pass *pass, const eitp_model *encoder) {
    eitp_model_inputs inputs = EITP__ZERO;
    int64_t rows, offsets, bounds[2] = {0, 2};
    if (!pass || !encoder)
        return inputs;
    if (pass->encoder) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "eitp_pass_encoder_inputs: a pass can have only one encoder");
        return inputs;
    }
    rows = eitp__layout_rows(&pass->layout, pass->layout.samples);
    offsets = eitp__layout_split_sequences(&pass->layout) + 1;
    bounds[0] = eitp__layout_indices(&pass->layout);
    inputs.tokens = eitp_pass_row_input(pass, "encoder tokens", EITP_I32, 0, NULL, 0);
    pass->encoder = encoder;
    pass->encoder_from = pass->input_count - 1;
    inputs.positions = pass->encoder_positions = eitp_input_rows(pass->graph, "encoder positions", EITP_I32, 1, &rows);
    inputs.offsets = pass->encoder_offsets = eitp_input(pass->graph, "encoder offsets", EITP_I32, 1, &offsets);
    inputs.bounds = pass->encoder_bounds = eitp_input(pass->graph, "encoder bounds", EITP_I32, 2, bounds);
    inputs.key = eitp__model_has_dropout(encoder) ? eitp_pass_key(pass) : NULL;
    return inputs;
}

int64_t eitp_pass_steps(const eitp_pass *pass) {
    return pass ? pass->steps : 0;
}

/* ---- Loss terms and metrics ---- */

/* Finds the kind of values, which have rank 1 or further dimensions of size 1. */
static eitp__scalar_kind eitp__scalar_kind_of(const eitp_pass *pass, const eitp_tensor *values) {
    const int is_vector = values->rank && eitp__elements(values) == values->shape[0];
    if (values->rows && is_vector)
        return EITP__PER_ROW;
    return is_vector && values->shape[0] == eitp__layout_indices(&pass->layout) ? EITP__PER_SAMPLE : EITP__TOTAL;
}

/* Checks a name. Names become keys of records, where "loss" is the weighted sum of all terms. */
static int eitp__scalar_check_name(const eitp_pass *pass, const char *name, int is_term) {
    const size_t length = name ? strlen(name) : 0;
    if (!length || length >= EITP_SCALAR_NAME_SIZE) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "'%.60s': the name of a loss term or metric must have 1 to %d characters", length ? name : "",
                         EITP_SCALAR_NAME_SIZE - 1);
        return 0;
    }
    if (!is_term && !strcmp(name, "loss")) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "metric name 'loss' is reserved for the weighted sum of the loss terms");
        return 0;
    }
    for (int q = 0; q < pass->scalar_count; q++) {
        const eitp__scalar *other = &pass->scalars[q];
        /* The term and the metric of a regularizer have the same name. */
        if (strcmp(other->name, name) || (other->is_regularizer && other->is_term != is_term))
            continue;
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "duplicate loss term or metric '%s'", name);
        return 0;
    }
    return 1;
}

EITP__PRIVATE eitp__scalar *eitp__scalar_add(eitp_pass *pass, const char *name, int is_term) {
    eitp__scalar *scalar;
    if (!pass || !eitp__scalar_check_name(pass, name, is_term))
        return NULL;
    if (pass->scalar_count == EITP_MAX_STEP_SCALARS) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%s' exceeds the limit of %d terms and metrics", name,
                         EITP_MAX_STEP_SCALARS);
        return NULL;
    }
    scalar = &pass->scalars[pass->scalar_count++];
    memset(scalar, 0, sizeof *scalar);
    snprintf(scalar->name, sizeof scalar->name, "%s", name);
    scalar->is_term = is_term;
    scalar->direction = EITP_LOWER_IS_BETTER;
    return scalar;
}

EITP__PRIVATE int eitp__scalar_set_values(eitp_pass *pass, eitp__scalar *scalar, eitp_tensor *values,
                                          eitp__scalar_kind kind) {
    scalar->kind = kind;
    scalar->values = values->dtype == EITP_F32 ? values : eitp_cast(values, EITP_F32);
    if (!pass->trains)
        eitp_output(scalar->values);
    return scalar->values != NULL;
}

/* Adds a scalar of the task. */
static eitp__scalar *eitp__task_quantity_add(eitp_pass *pass, const char *name, eitp_tensor *values, int is_term) {
    eitp__scalar_kind kind;
    eitp__scalar *scalar;
    if (!pass || !values)
        return NULL;
    kind = eitp__scalar_kind_of(pass, values);
    if (is_term && pass->scalar_count && !pass->scalars[pass->scalar_count - 1].is_term) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%s': add loss terms before metrics", name ? name : "");
        return NULL;
    }
    if (kind == EITP__TOTAL && eitp__elements(values) != 1) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "'%s': expected one value per row, one per sample, or a single value", name ? name : "");
        return NULL;
    }
    if (pass->scalar_count == EITP_MAX_PASS_QUANTITIES) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "'%s' exceeds the limit of %d loss terms and metrics",
                         name ? name : "", EITP_MAX_PASS_QUANTITIES);
        return NULL;
    }
    scalar = eitp__scalar_add(pass, name, is_term);
    return scalar && eitp__scalar_set_values(pass, scalar, values, kind) ? scalar : NULL;
}

void eitp_pass_term(eitp_pass *pass, const char *name, eitp_tensor *values, const eitp_schedule *weight) {
    const int64_t one = 1;
    eitp__scalar *term = eitp__task_quantity_add(pass, name, values, 1);
    eitp_tensor *sum;
    if (!term)
        return;
    term->schedule.peak = 1;
    if (weight)
        term->schedule = *weight;
    if (!pass->trains)
        return;
    term->weight = eitp_input(pass->graph, name, EITP_F32, 1, &one);
    sum = eitp_multiply(eitp_sum(term->values, EITP_ALL_DIMENSIONS, 0), term->weight);
    pass->loss = pass->loss ? eitp_add(pass->loss, sum) : sum;
}

EITP__PRIVATE int eitp__is_direction(eitp_metric_direction direction) {
    return direction == EITP_LOWER_IS_BETTER || direction == EITP_DIRECTION_UNKNOWN ||
           direction == EITP_HIGHER_IS_BETTER;
}

void eitp_pass_metric(eitp_pass *pass, const char *name, eitp_tensor *values, eitp_metric_direction direction) {
    eitp__scalar *metric = eitp_pass_is_training(pass) ? NULL : eitp__task_quantity_add(pass, name, values, 0);
    if (!metric)
        return;
    metric->direction = direction;
    if (!eitp__is_direction(direction))
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "metric '%s': unknown direction %d", name, (int)direction);
}

void eitp_pass_output(eitp_pass *pass, const char *name, eitp_tensor *values) {
    eitp__pass_output *output;
    int64_t places;
    if (!pass || !values || pass->trains)
        return;
    if (!name || pass->output_count == EITP_MAX_PASS_OUTPUTS) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "output '%.60s': expected a name, and at most %d outputs in a pass", name ? name : "",
                         EITP_MAX_PASS_OUTPUTS);
        return;
    }
    output = &pass->outputs[pass->output_count];
    places = eitp__layout_indices(&pass->layout);
    if (!values->rank || (!values->rows && values->shape[0] != places)) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT,
                         "output '%.60s': expected values for each row or for each sample", name);
        return;
    }
    output->is_per_row = values->rows != 0;
    output->width = eitp__elements(values) / values->shape[0];
    output->values = eitp_output(values->dtype == EITP_F32 ? values : eitp_cast(values, EITP_F32));
    pass->output_count += output->values != NULL;
}

EITP__PRIVATE eitp_tensor *eitp__pass_totals(eitp_graph *graph) {
    const int64_t most = EITP_MAX_STEP_SCALARS;
    return eitp_variable_tensor(graph, "step.totals", EITP_CACHE, EITP_F64, 1, &most);
}

EITP__PRIVATE int eitp__pass_reports(const eitp_pass *pass, const eitp__scalar *scalar) {
    return !pass->probe || scalar->is_regularizer;
}

EITP__PRIVATE eitp_tensor *eitp__pass_add_totals(eitp_pass *pass, int first, eitp_tensor *carry) {
    eitp_tensor *totals = eitp__pass_totals(pass->graph);
    for (int q = 0; q < pass->scalar_count; q++) {
        const eitp__scalar *scalar = &pass->scalars[q];
        eitp_tensor *bounds = NULL;
        if (scalar->kind == EITP__PER_GROUP)
            bounds = eitp__pass_group_bounds(pass);
        else if (scalar->kind == EITP__PER_ROW || scalar->kind == EITP__PER_SAMPLE)
            bounds = eitp_pass_bounds(pass);
        const int is_by_item = scalar->kind == EITP__PER_SAMPLE || scalar->kind == EITP__PER_GROUP;
        if (scalar->kind != EITP__PENALTY && eitp__pass_reports(pass, scalar))
            totals = eitp__add_total(scalar->values, totals, first + q, bounds, is_by_item, carry);
    }
    return totals;
}

EITP__PRIVATE int eitp__term_is_due(const eitp_term_schedule *timing, int64_t step) {
    return step >= timing->start && (step - timing->start) % timing->every == 0;
}

static double eitp__regularizer_weight(const eitp_term_schedule *timing, int64_t step) {
    const double weight = timing->weight * (double)timing->every;
    const int64_t made = step - timing->start + 1;
    if (!eitp__term_is_due(timing, step))
        return 0;
    return made < timing->warmup ? weight * (double)made / (double)timing->warmup : weight;
}

EITP__PRIVATE double eitp__term_weight(const eitp__scalar *term, int64_t step) {
    const int64_t counted = step > 1 ? step : 1;
    return term->is_regularizer ? eitp__regularizer_weight(&term->timing, counted)
                                : eitp_schedule_rate(&term->schedule, counted);
}

/* ---- A whole pass ---- */

static eitp_status eitp__task_check_metrics(const eitp_task *task, eitp_error *error) {
    if (!task->metric_count)
        return EITP_OK;
    if (task->metric_count < 0 || task->metric_count > EITP_MAX_TASK_METRICS || !task->metrics)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a task's metric_count is %d; it must be 0 to %d, with metrics",
                          task->metric_count, EITP_MAX_TASK_METRICS);
    for (int m = 0; m < task->metric_count; m++) {
        if (!eitp__is_direction(task->metrics[m].direction))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "metric '%.60s': unknown direction %d",
                              task->metrics[m].name ? task->metrics[m].name : "", (int)task->metrics[m].direction);
    }
    return task->observation_bytes && task->observe && task->compute_metrics
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "a task with metrics must have observation_bytes, observe and compute_metrics");
}

EITP__PRIVATE eitp_status eitp__task_check(const eitp_task *task, eitp_error *error) {
    const int64_t max_rows = 1 << 24;
    if (!task->context || !task->build || !task->read)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a task must have context, build and read");
    if (task->rows < 1 || task->rows > max_rows)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a task's rows are %lld; they must be 1 to %lld",
                          (long long)task->rows, (long long)max_rows);
    if (!(task->guess_loss >= 0))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a task's guess_loss is %g; it must be 0 (unknown) or more",
                          task->guess_loss);
    return eitp__task_check_metrics(task, error);
}

EITP__PRIVATE eitp_status eitp__pass_build(eitp_pass *pass, const eitp_task *task, const eitp__layout *layout,
                                           int trains, int probe, int64_t step_rows, int64_t steps, eitp_error *error) {
    eitp_status status;
    memset(pass, 0, sizeof *pass);
    pass->task = task;
    pass->layout = *layout;
    pass->trains = trains;
    pass->probe = probe;
    pass->step_rows = step_rows;
    pass->steps = steps;
    status = eitp_graph_create(task->context, &pass->graph, error);
    eitp__error_clear(status ? NULL : error);
    if (!status)
        status = eitp__error_complete(error, task->build(task->user, pass, error),
                                      "the task's build failed without a message");
    if (!status)
        status = eitp_graph_status(pass->graph, error);
    if (!status && task->extend)
        status = eitp__error_complete(error, task->extend(task->extension, pass, error),
                                      "the task's extend failed without a message");
    if (!status)
        status = eitp_graph_status(pass->graph, error);
    if (!status && trains && !pass->loss)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the task's build added no loss term");
    return status;
}

EITP__PRIVATE void eitp__pass_release(eitp_pass *pass) {
    eitp_graph_destroy(pass->graph);
    memset(pass, 0, sizeof *pass);
}

void eitp_task_release(eitp_task *task) {
    if (task && task->release)
        task->release(task->user);
    if (task)
        memset(task, 0, sizeof *task);
}
