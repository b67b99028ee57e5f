#include "train/activations.h"

#include "base/convert.h"
#include "tensor/profile.h"
#include "train/group_norms.h"

/* ---- Layers ---- */

/* Returns the layer of a step, or NULL: the group of its parameter or, if it has none, of the last parameter used
   before it. */
static eitp__watched_layer *eitp__watched_layer_of(eitp__activation_watch *activations, const eitp_plan *plan,
                                                   size_t step) {
    eitp__watched_layer *layer = activations->layers;
    char name[sizeof layer->name];
    eitp__group_name(eitp__step_location(plan, step), name, sizeof name);
    for (size_t i = 0; i < activations->count; i++) {
        if (!strcmp(layer[i].name, name))
            return &layer[i];
    }
    if (!*name || activations->count == EITP__WATCHED_LAYERS)
        return NULL;
    layer += activations->count++;
    memset(layer, 0, sizeof *layer);
    snprintf(layer->name, sizeof layer->name, "%s", name);
    return layer;
}

/* ---- Reading ---- */

static eitp_status eitp__watched_bytes(const eitp_plan *plan, const eitp__operand *operand, int64_t first,
                                       int64_t count, void *bytes, eitp_error *error) {
    eitp__backend *backend = plan->context->backend;
    const int64_t size = (int64_t)eitp_dtype_size(operand->dtype);
    return backend->interface->download(backend, bytes, (const char *)operand->data + first * size,
                                        (size_t)(count * size), error);
}

/* Reads elements as F32. */
static eitp_status eitp__watched_values(const eitp_plan *plan, const eitp__operand *operand, int64_t first,
                                        int64_t count, float *values, eitp_error *error) {
    double stored[EITP__WATCHED_PIECE]; /* large enough for any dtype */
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < count && !status; i += EITP__WATCHED_PIECE) {
        const int64_t piece = count - i < (int64_t)EITP__WATCHED_PIECE ? count - i : (int64_t)EITP__WATCHED_PIECE;
        status = eitp__watched_bytes(plan, operand, first + i, piece, stored, error);
        if (!status)
            eitp__convert_to_f32(operand->dtype, stored, values + i, (size_t)piece);
    }
    return status;
}

/* ---- Norms ---- */

/* Adds the mean squares of the rows that a norm reads, computed from the numbers that it stores for each row: the
   reciprocal deviation and, unless it is NULL, the mean. */
static eitp_status eitp__watch_norm(eitp__activation_watch *activations, const eitp_plan *plan, double epsilon,
                                    const eitp__operand *deviation, const eitp__operand *mean,
                                    eitp__watched_layer *layer, eitp_error *error) {
    const int64_t rows = eitp__used_elements(plan, deviation);
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < rows && !status; i += EITP__WATCHED_COLUMNS) {
        const int64_t count = rows - i < (int64_t)EITP__WATCHED_COLUMNS ? rows - i : (int64_t)EITP__WATCHED_COLUMNS;
        status = eitp__watched_values(plan, deviation, i, count, activations->values, error);
        if (!status && mean)
            status = eitp__watched_values(plan, mean, i, count, activations->others, error);
        for (int64_t k = 0; k < count && !status; k++) {
            const double reciprocal = (double)activations->values[k];
            const double center = mean ? (double)activations->others[k] : 0;
            const double variance = 1 / (reciprocal * reciprocal) - epsilon;
            layer->squares += center * center + (variance > 0 ? variance : 0);
            layer->rows++;
        }
    }
    return status;
}

/* ---- Activation functions ---- */

/* Counts the units that are near zero in every row. */
static eitp_status eitp__watch_units(eitp__activation_watch *activations, const eitp_plan *plan,
                                     const eitp__operand *units, eitp__watched_layer *layer, eitp_error *error) {
    const int64_t columns = units->rank ? units->shape[units->rank - 1] : 0;
    const int64_t elements = eitp__used_elements(plan, units);
    float *largest = activations->others, *values = activations->values;
    eitp_status status = EITP_OK;
    if (columns < 1 || columns > (int64_t)EITP__WATCHED_COLUMNS || !elements)
        return EITP_OK;
    memset(largest, 0, (size_t)columns * sizeof *largest);
    for (int64_t first = 0; first < elements && !status; first += columns) {
        status = eitp__watched_values(plan, units, first, columns, values, error);
        for (int64_t i = 0; i < columns && !status; i++) {
            const float size = fabsf(values[i]);
            largest[i] = size > largest[i] ? size : largest[i];
        }
    }
    for (int64_t i = 0; i < columns && !status; i++)
        layer->dead += largest[i] <= EITP__DEAD_ACTIVATION;
    layer->units += columns;
    return status;
}

/* ---- Attention ---- */

/* A call of ATTENTION without a mask. */
typedef struct eitp__watched_attention {
    const eitp__call *call;
    eitp__attention_sizes sizes;
    int64_t columns, key_columns; /* columns of all queries of a row, and of all keys */
    int64_t rows, sequences;
} eitp__watched_attention;

static eitp__watched_attention eitp__watched_attention_of(const eitp_plan *plan, const eitp__call *call) {
    eitp__watched_attention at = EITP__ZERO;
    at.call = call;
    at.sizes = eitp__attention_sizes_of(call);
    at.columns = at.sizes.heads * at.sizes.width;
    at.key_columns = at.sizes.key_heads * at.sizes.width;
    at.rows = eitp__used_elements(plan, &call->outputs[1]) / at.sizes.heads;
    at.sequences = call->inputs[1].shape[0] - 1;
    return at;
}

/* Reads the starts and lengths of sequences. */
static eitp_status eitp__watched_sequences(eitp__activation_watch *activations, const eitp_plan *plan,
                                           eitp__watched_attention *at, eitp_error *error) {
    const eitp__operand *offsets = &at->call->inputs[1], *lengths = &at->call->inputs[3];
    eitp_status status;
    if (at->sequences > (int64_t)EITP__WATCHED_SEQUENCES)
        at->sequences = EITP__WATCHED_SEQUENCES;
    status = eitp__watched_bytes(plan, offsets, 0, at->sequences + 1, activations->offsets, error);
    for (int64_t i = 0; i < at->sequences && !status; i++)
        activations->lengths[i] = activations->offsets[i + 1] - activations->offsets[i];
    if (!status && lengths->data)
        status = eitp__watched_bytes(plan, lengths, 0, at->sequences, activations->lengths, error);
    return status;
}

/* Finds the rows that a row attends to. Returns 0 if there are fewer than two, since the entropy is then always 0. */
static int eitp__watched_range(const eitp__activation_watch *activations, const eitp__watched_attention *at,
                               int64_t row, eitp__watched_query *query) {
    int64_t i = 0;
    while (i < at->sequences && row >= activations->offsets[i + 1])
        i++;
    if (i == at->sequences || row < activations->offsets[i] ||
        row >= (int64_t)activations->offsets[i] + activations->lengths[i])
        return 0;
    query->row = row;
    query->begin = activations->offsets[i];
    query->end = at->call->integers[3] ? query->begin + activations->lengths[i] : row + 1;
    if (!at->call->integers[3])
        query->begin += eitp__attention_unseen(&at->sizes, row - query->begin);
    memset(query->entropy, 0, sizeof query->entropy);
    return query->end - query->begin >= 2;
}

/* Reads the queries or keys of a row as attention compares them, with the rotation applied. */
static eitp_status eitp__watched_heads(eitp__activation_watch *activations, const eitp_plan *plan,
                                       const eitp__watched_attention *at, eitp__attention_part part, int64_t row,
                                       float *values, eitp_error *error) {
    const eitp__operand *rotation = &at->call->inputs[EITP__ATTENTION_ROTATION];
    const int64_t width = at->sizes.width, half = width / 2;
    const int64_t count = part == EITP__ATTENTION_QUERIES ? at->columns : at->key_columns;
    const int is_apart = part != EITP__ATTENTION_QUERIES && !at->sizes.is_joined;
    const eitp__operand *operand = &at->call->inputs[is_apart ? EITP__ATTENTION_K : EITP__ATTENTION_Q];
    const int64_t first = part != EITP__ATTENTION_QUERIES && at->sizes.is_joined ? at->columns : 0;
    float *angles = activations->angles;
    eitp_status status = eitp__watched_values(plan, operand, row * operand->shape[1] + first, count, values, error);
    if (status || !rotation->rank)
        return status;
    status = eitp__watched_values(plan, rotation, row * width, width, angles, error);
    for (int64_t i = 0; i < count && !status; i += width) {
        for (int64_t k = 0; k < half; k++) {
            const float a = values[i + k], b = values[i + k + half];
            values[i + k] = a * angles[k] - b * angles[k + half];
            values[i + k + half] = b * angles[k] + a * angles[k + half];
        }
    }
    return status;
}

/* Reads the queries of evenly spaced rows, and the log-sum-exp of their scores. */
static eitp_status eitp__watched_queries(eitp__activation_watch *activations, const eitp_plan *plan,
                                         const eitp__watched_attention *at, int64_t *count, eitp_error *error) {
    int64_t most = (int64_t)EITP__WATCHED_COLUMNS / at->columns;
    eitp_status status = EITP_OK;
    if (most > (int64_t)EITP__WATCHED_QUERIES)
        most = EITP__WATCHED_QUERIES;
    if (most > at->rows)
        most = at->rows;
    *count = 0;
    for (int64_t i = 0; i < most && !status; i++) {
        const int64_t row = (2 * i + 1) * at->rows / (2 * most);
        eitp__watched_query *query = &activations->queries[*count];
        float logsumexp[EITP__WATCHED_HEADS];
        if (!eitp__watched_range(activations, at, row, query))
            continue;
        status = eitp__watched_heads(activations, plan, at, EITP__ATTENTION_QUERIES, row,
                                     activations->others + *count * at->columns, error);
        if (!status)
            status = eitp__watched_values(plan, &at->call->outputs[1], row * at->sizes.heads, at->sizes.heads,
                                          logsumexp, error);
        for (int64_t head = 0; head < at->sizes.heads && !status; head++)
            query->logsumexp[head] = (double)logsumexp[head];
        ++*count;
    }
    return status;
}

static double eitp__watched_dot(const float *a, const float *b, int64_t count) {
    double sum[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int64_t k = 0; k < 4; k++)
            sum[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < count; i++)
        sum[0] += (double)a[i] * (double)b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Adds the contribution of the key in `values` to the entropy of a query: -p log p in each head. */
static void eitp__watch_key(const eitp__activation_watch *activations, const eitp__watched_attention *at,
                            const float *queries, eitp__watched_query *query) {
    const int64_t width = at->sizes.width;
    for (int64_t head = 0; head < at->sizes.heads; head++) {
        const float *key = activations->values + head / at->sizes.group * width;
        const double score = at->call->reals[0] * eitp__watched_dot(queries + head * width, key, width);
        const double surprise = query->logsumexp[head] - score;
        query->entropy[head] += exp(-surprise) * surprise;
    }
}

/* Computes the entropies of the queries, reading each key once. */
static eitp_status eitp__watched_entropies(eitp__activation_watch *activations, const eitp_plan *plan,
                                           const eitp__watched_attention *at, int64_t count, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t row = activations->queries[0].begin; row < at->rows && !status; row++) {
        int is_read = 0;
        for (int64_t i = 0; i < count && !status; i++) {
            eitp__watched_query *query = &activations->queries[i];
            if (row < query->begin || row >= query->end)
                continue;
            if (!is_read)
                status =
                    eitp__watched_heads(activations, plan, at, EITP__ATTENTION_KEYS, row, activations->values, error);
            is_read = 1;
            if (!status)
                eitp__watch_key(activations, at, activations->others + i * at->columns, query);
        }
    }
    return status;
}

static eitp_status eitp__watch_attention(eitp__activation_watch *activations, const eitp_plan *plan,
                                         const eitp__call *call, eitp__watched_layer *layer, eitp_error *error) {
    eitp__watched_attention at = eitp__watched_attention_of(plan, call);
    int64_t count = 0;
    eitp_status status;
    if (at.rows < 1 || at.sizes.heads > (int64_t)EITP__WATCHED_HEADS || at.columns > (int64_t)EITP__WATCHED_COLUMNS ||
        at.sizes.width > (int64_t)EITP__WATCHED_WIDTH)
        return EITP_OK;
    status = eitp__watched_sequences(activations, plan, &at, error);
    if (!status)
        status = eitp__watched_queries(activations, plan, &at, &count, error);
    if (!status && count)
        status = eitp__watched_entropies(activations, plan, &at, count, error);
    for (int64_t i = 0; i < count && !status; i++) {
        const eitp__watched_query *query = &activations->queries[i];
        for (int64_t head = 0; head < at.sizes.heads; head++)
            layer->entropy += query->entropy[head] / log((double)(query->end - query->begin));
        layer->queries += at.sizes.heads;
    }
    return status;
}

/* ---- Steps ---- */

static int eitp__is_activation(const eitp__call *call) {
    const int64_t epilogue = call->slot == EITP__SLOT_MATMUL ? call->integers[2] : (int64_t)EITP__EPILOGUE_NONE;
    return epilogue == EITP__EPILOGUE_GELU_TANH || epilogue == EITP__EPILOGUE_GELU_ERF ||
           epilogue == EITP__EPILOGUE_SILU || call->slot == EITP__SLOT_GELU_TANH || call->slot == EITP__SLOT_GELU_ERF ||
           call->slot == EITP__SLOT_SILU || call->slot == EITP__SLOT_RELU;
}

EITP__PRIVATE eitp_status eitp__activation_watch_step(void *user, const eitp_plan *plan, size_t step,
                                                      eitp_error *error) {
    eitp__activation_watch *activations = (eitp__activation_watch *)user;
    const eitp__call *call = &plan->calls[step];
    const int is_norm = call->slot == EITP__SLOT_LAYER_NORM || call->slot == EITP__SLOT_RMS_NORM;
    const int has_mean = call->slot == EITP__SLOT_LAYER_NORM;
    const int is_attention = call->slot == EITP__SLOT_ATTENTION && eitp__is_unmasked_attention(call);
    eitp__watched_layer *layer;
    if (!is_norm && !is_attention && !eitp__is_activation(call))
        return EITP_OK;
    layer = eitp__watched_layer_of(activations, plan, step);
    if (!layer)
        return EITP_OK;
    if (is_norm)
        return eitp__watch_norm(activations, plan, call->reals[0], &call->outputs[1 + has_mean],
                                has_mean ? &call->outputs[1] : NULL, layer, error);
    return call->slot == EITP__SLOT_ATTENTION ? eitp__watch_attention(activations, plan, call, layer, error)
                                              : eitp__watch_units(activations, plan, &call->outputs[0], layer, error);
}

/* ---- Results ---- */

static double eitp__watched_mean(double sum, int64_t count) {
    return count ? sum / (double)count : -1;
}

EITP__PRIVATE void eitp__activation_watch_read(const eitp__activation_watch *activations,
                                               eitp_layer_activations *layers, size_t capacity, size_t *count) {
    *count = activations->count < capacity ? activations->count : capacity;
    for (size_t i = 0; i < *count; i++) {
        const eitp__watched_layer *layer = &activations->layers[i];
        memset(&layers[i], 0, sizeof layers[i]);
        snprintf(layers[i].name, sizeof layers[i].name, "%s", layer->name);
        layers[i].rms = layer->rows ? sqrt(layer->squares / (double)layer->rows) : -1;
        layers[i].attention_entropy = eitp__watched_mean(layer->entropy, layer->queries);
        layers[i].dead_units = eitp__watched_mean((double)layer->dead, layer->units);
    }
}
