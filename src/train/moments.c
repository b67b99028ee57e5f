#include "train/moments.h"
#include "base/convert.h"
#include "base/memory.h"
#include "io/variables.h"
#include "optim/optimizers.h"

/* Elements converted at a time: whole groups. */
enum { EITP__MOMENT_GROUPS = 256, EITP__MOMENT_PIECE = EITP__MOMENT_GROUPS * EITP__MOMENT_GROUP };

typedef struct eitp__moment_piece {
    float values[EITP__MOMENT_PIECE];
    float scales[EITP__MOMENT_GROUPS];
    uint8_t codes[EITP__MOMENT_PIECE];
} eitp__moment_piece;

/*
 * One moment of a parameter, the mean of the gradient or of its square. It is written to its variable, or to means of
 * rows and columns, and read from the moment in the file (with scales if it has 8 bits), or from means. A vector is one
 * row.
 */
typedef struct eitp__moment_source {
    eitp_context *context;
    const eitp__safetensors *collection;
    const char *path;
    const eitp_checkpoint_info *written;
    const eitp_optimizer_config *config;
    eitp_variable parameter, variable;
    const eitp__update_method *there, *here; /* of the optimizer that wrote the file, and of the one that continues */
    int64_t rows, columns;
    int loads;     /* 0: read and check only */
    int is_square; /* second moment, whose codes are of its square root */
    float factor;  /* factor for values from the file, except means */
    const eitp__safetensors_entry *entry, *scales;
    double *from, *to; /* means of rows, then of columns, to read from and to write to; may be NULL */
    eitp__moment_piece *piece;
} eitp__moment_source;

/* Returns the moment's state in a method, with this form or with any form. */
static const eitp__state_info *eitp__moment_state(const eitp__moment_source *source, const eitp__update_method *method,
                                                  eitp__state_form form) {
    return eitp__find_state(method, source->is_square ? EITP__STATE_SQUARES : EITP__STATE_MEAN, form);
}

/* Stores the name of the parameter's state, as a variable and in files. */
static void eitp__state_name(const eitp__moment_source *source, const eitp__state_info *state, char *name,
                             size_t size) {
    snprintf(name, size, "%s.%s", state->kind, source->parameter.name);
}

/* Returns the state in the file, or NULL if the optimizer that wrote it has no such state. */
static const eitp__safetensors_entry *eitp__state_entry(const eitp__moment_source *source,
                                                        const eitp__state_info *state) {
    char name[256];
    if (!state)
        return NULL;
    eitp__state_name(source, state, name, sizeof name);
    return eitp__safetensors_find(source->collection, name);
}

static void eitp__unpack_piece(const eitp__moment_source *source, int64_t count) {
    eitp__moment_piece *piece = source->piece;
    for (int64_t i = 0; i < count; i++) {
        float scale = piece->scales[i / EITP__MOMENT_GROUP];
        piece->values[i] =
            source->is_square ? eitp__unpack_v(piece->codes[i], scale) : eitp__unpack_m((int8_t)piece->codes[i], scale);
    }
}

static void eitp__pack_piece(const eitp__moment_source *source, int64_t count) {
    eitp__moment_piece *piece = source->piece;
    for (int64_t first = 0; first < count; first += EITP__MOMENT_GROUP) {
        int64_t end = first + EITP__MOMENT_GROUP < count ? first + EITP__MOMENT_GROUP : count;
        float largest = 0, scale;
        for (int64_t i = first; i < end; i++)
            largest = fmaxf(largest, source->is_square ? sqrtf(piece->values[i]) : fabsf(piece->values[i]));
        scale = piece->scales[first / EITP__MOMENT_GROUP] = largest > 0 ? eitp__moment_scale(largest) : 0;
        for (int64_t i = first; i < end; i++)
            piece->codes[i] = source->is_square ? eitp__pack_v(piece->values[i], scale, 0)
                                                : (uint8_t)eitp__pack_m(piece->values[i], scale, 0);
    }
}

/* Computes v = rows columns / mean(rows), where rows are already divided by their mean. For m all means are zero. */
static void eitp__expand_means(const eitp__moment_source *source, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        source->piece->values[i] = (float)(source->from[(first + i) / source->columns] *
                                           source->from[source->rows + (first + i) % source->columns]);
}

static void eitp__add_to_means(const eitp__moment_source *source, double *means, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double v = (double)source->piece->values[i];
        means[(first + i) / source->columns] += v / (double)source->columns;
        means[source->rows + (first + i) % source->columns] += v / (double)source->rows;
    }
}

static eitp_status eitp__read_piece(const eitp__moment_source *source, int64_t first, int64_t count,
                                    eitp_error *error) {
    eitp__moment_piece *piece = source->piece;
    int64_t groups = (count + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp_status status;
    if (source->from) {
        eitp__expand_means(source, first, count);
        return EITP_OK;
    }
    if (!source->scales) {
        status =
            eitp__safetensors_read_f32(source->collection, source->entry, first, count, piece->values, NULL, error);
    } else {
        status = eitp__safetensors_read(source->collection, source->entry, first, count, piece->codes, NULL, error);
        if (!status)
            status = eitp__safetensors_read_f32(source->collection, source->scales, first / EITP__MOMENT_GROUP, groups,
                                                piece->scales, NULL, error);
        if (!status)
            eitp__unpack_piece(source, count);
    }
    for (int64_t i = 0; i < count && !status; i++)
        piece->values[i] *= source->factor;
    return status;
}

static eitp_status eitp__write_piece(const eitp__moment_source *source, int64_t first, int64_t count,
                                     eitp_error *error) {
    eitp__moment_piece *piece = source->piece;
    int64_t groups = (count + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp_status status;
    char name[256];
    if (source->to) {
        eitp__add_to_means(source, source->to, first, count);
        return EITP_OK;
    }
    if (!source->loads)
        return EITP_OK;
    if (source->variable.dtype == EITP_F32)
        return eitp_variable_write_f32(source->context, source->variable.name, first, piece->values, count, error);
    eitp__pack_piece(source, count);
    eitp__state_name(source, eitp__moment_state(source, source->here, EITP__FORM_SCALES), name, sizeof name);
    status =
        eitp_variable_write(source->context, source->variable.name, (size_t)first, piece->codes, (size_t)count, error);
    return status ? status
                  : eitp_variable_write_f32(source->context, name, first / EITP__MOMENT_GROUP, piece->scales, groups,
                                            error);
}

/* Reads the means of rows or columns from the file, or writes them to their variable. A vector has no means of rows. */
static eitp_status eitp__copy_means(const eitp__moment_source *source, int is_read, int of_rows, eitp_error *error) {
    double *means = (is_read ? source->from : source->to) + (of_rows ? 0 : source->rows);
    int64_t count = of_rows ? source->rows : source->columns, piece = EITP__MOMENT_PIECE;
    const eitp__state_info *state = eitp__moment_state(source, is_read ? source->there : source->here,
                                                       of_rows ? EITP__FORM_ROWS : EITP__FORM_COLUMNS);
    const eitp__safetensors_entry *entry = is_read ? eitp__state_entry(source, state) : NULL;
    eitp_status status = EITP_OK;
    char name[256];
    eitp__state_name(source, state, name, sizeof name);
    if (is_read && (!entry || entry->count != count))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: no second moment of '%s'; expected '%s' with %lld elements",
                          source->path, source->parameter.name, name, (long long)count);
    for (int64_t first = 0; first < count && !status; first += piece) {
        int64_t end = count - first < piece ? count - first : piece;
        float *values = source->piece->values;
        if (is_read)
            status = eitp__safetensors_read_f32(source->collection, entry, first, end, values, NULL, error);
        for (int64_t i = 0; i < end; i++) {
            if (is_read)
                means[first + i] = (double)values[i];
            else
                values[i] = (float)means[first + i];
        }
        if (!is_read && source->loads)
            status = eitp_variable_write_f32(source->context, name, first, values, end, error);
    }
    return status;
}

/* Divides the means of rows by their own mean. */
static void eitp__normalize_means(const eitp__moment_source *source) {
    double sum = 0;
    for (int64_t i = 0; i < source->rows; i++)
        sum += source->from[i];
    for (int64_t i = 0; i < source->rows && sum > 0; i++)
        source->from[i] *= (double)source->rows / sum;
}

/* Reads the means from which v is computed. */
static eitp_status eitp__read_means(const eitp__moment_source *source, eitp_error *error) {
    eitp_status status = eitp__copy_means(source, 1, 0, error);
    source->from[0] = 1;
    if (status || source->parameter.rank < 2)
        return status;
    status = eitp__copy_means(source, 1, 1, error);
    eitp__normalize_means(source);
    return status;
}

/* Returns the ratio of the mean of v to the mean of squared velocities. */
static double eitp__velocity_factor(const eitp__moment_source *source) {
    double momentum = source->written->config.optimizer_config.beta1, steps = (double)source->written->step;
    double sum = (1 - pow(momentum, 2 * steps)) / (1 - momentum * momentum); /* sum of the squared decay factors */
    return steps > 0 ? (1 - pow(source->config->beta2, steps)) / sum : 0;
}

/* Computes the means for expanding v from a velocity. */
static eitp_status eitp__read_velocities(eitp__moment_source *source, const eitp__safetensors_entry *velocity,
                                         eitp_error *error) {
    int64_t elements = source->rows * source->columns, piece = EITP__MOMENT_PIECE;
    double factor = eitp__velocity_factor(source), mean = 0;
    float *values = source->piece->values;
    eitp_status status = EITP_OK;
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        status = eitp__safetensors_read_f32(source->collection, velocity, first, count, values, NULL, error);
        for (int64_t i = 0; i < count; i++)
            values[i] *= values[i];
        if (!status)
            eitp__add_to_means(source, source->from, first, count);
    }
    for (int64_t j = 0; j < source->columns; j++) {
        source->from[source->rows + j] *= factor;
        mean += source->from[source->rows + j] / (double)source->columns;
    }
    for (int64_t j = 0; j < source->columns && source->parameter.rank < 2; j++)
        source->from[source->rows + j] = mean;
    eitp__normalize_means(source);
    return status;
}

static eitp_status eitp__write_means(const eitp__moment_source *source, eitp_error *error) {
    eitp_status status = eitp__copy_means(source, 0, 0, error);
    return status || source->parameter.rank < 2 ? status : eitp__copy_means(source, 0, 1, error);
}

static eitp_status eitp__check_source(const eitp__moment_source *source, const eitp__safetensors_entry *entry,
                                      eitp_error *error) {
    eitp_dtype codes = source->is_square ? EITP_U8 : EITP_I8;
    int64_t elements = source->rows * source->columns;
    if (entry->count != elements)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: '%s' has %lld elements, expected %lld", source->path,
                          entry->name, (long long)entry->count, (long long)elements);
    if (source->scales && (entry->dtype != (int)codes || source->scales->rank != 1 ||
                           source->scales->shape[0] != (elements + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: '%s' and its scales do not match in dtype or shape",
                          source->path, entry->name);
    return EITP_OK;
}

/* Finds the moment in the file, and allocates means. A missing mean of the gradient is zero. */
static eitp_status eitp__find_moment(eitp__moment_source *source, int is_to_means, eitp_error *error) {
    const eitp_host host = eitp_context_host(source->context);
    const eitp__state_info *kept = eitp__moment_state(source, source->there, EITP__FORM_NONE);
    const eitp__state_info *sum = eitp__find_state(source->there, EITP__STATE_SUM, EITP__FORM_NONE);
    const eitp__safetensors_entry *entry = eitp__state_entry(source, kept ? kept : sum);
    int is_means = kept && kept->form == EITP__FORM_ROWS, is_velocity = !kept && entry;
    size_t bytes = (size_t)(source->rows + source->columns) * sizeof *source->to;
    eitp_status status;
    source->entry = is_means || (is_velocity && source->is_square) ? NULL : entry;
    source->scales = eitp__state_entry(source, eitp__moment_state(source, source->there, EITP__FORM_SCALES));
    if (is_velocity)
        source->factor *= (float)(1 - source->written->config.optimizer_config.beta1);
    source->to = is_to_means ? (double *)eitp__allocate(&host, bytes) : NULL;
    source->from = source->entry ? NULL : (double *)eitp__allocate(&host, bytes);
    if ((is_to_means && !source->to) || (!source->entry && !source->from))
        return eitp__fail_memory(error, bytes, "converting moments");
    if (is_means)
        return eitp__read_means(source, error);
    if (!entry)
        return !source->is_square ? EITP_OK
                                  : eitp__fail(error, EITP_ERROR_FORMAT, "%s: no second moment of '%s'", source->path,
                                               source->parameter.name);
    status = eitp__check_source(source, entry, error);
    return status || source->entry ? status : eitp__read_velocities(source, entry, error);
}

static eitp_status eitp__convert_moment(eitp__moment_source *source, int is_to_means, eitp_error *error) {
    const eitp_host host = eitp_context_host(source->context);
    int64_t elements = source->rows * source->columns, piece = EITP__MOMENT_PIECE;
    size_t bytes = (size_t)(source->rows + source->columns) * sizeof *source->to;
    eitp_status status = eitp__find_moment(source, is_to_means, error);
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        status = eitp__read_piece(source, first, count, error);
        if (!status)
            status = eitp__write_piece(source, first, count, error);
    }
    if (!status && source->to)
        status = eitp__write_means(source, error);
    eitp__release(&host, source->from, source->from ? bytes : 0);
    eitp__release(&host, source->to, source->to ? bytes : 0);
    return status;
}

static eitp_status eitp__clear_variable(const eitp__moment_source *source, eitp_error *error) {
    int64_t elements = (int64_t)(source->variable.size / sizeof(float)), piece = EITP__MOMENT_PIECE;
    eitp_status status = EITP_OK;
    memset(source->piece->values, 0, sizeof source->piece->values);
    for (int64_t first = 0; first < elements && !status && source->loads; first += piece)
        status = eitp_variable_write_f32(source->context, source->variable.name, first, source->piece->values,
                                         elements - first < piece ? elements - first : piece, error);
    return status;
}

/* True if the state has no parameter, or one that the trainer's optimizer does not update. The state is then read
   without conversion. */
static int eitp__is_own_state(const eitp__moment_source *source) {
    return source->variable.parent < 0 || eitp_variable_at(source->context, (size_t)source->variable.parent).of_learner;
}

static eitp_status eitp__read_own_state(const eitp__moment_source *source, eitp_error *error) {
    const eitp_variable *variable = &source->variable;
    const eitp__safetensors_entry *entry = eitp__safetensors_find(source->collection, variable->name);
    if (entry)
        return eitp__variable_read_entry(source->context, variable, source->collection, entry, source->loads, NULL,
                                         error);
    if (variable->parent >= 0)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: missing tensor '%s'", source->path, variable->name);
    if (source->loads)
        eitp__log_missing_state(source->context, source->path, variable->name);
    return EITP_OK;
}

/* Converts a variable if it is a state of the optimizer. Scales are written together with codes, and means of rows
   together with means of columns. */
static eitp_status eitp__convert_variable(eitp__moment_source *source, eitp_error *error) {
    const eitp_optimizer there = source->written->config.optimizer_config.optimizer;
    const eitp__state_info *state, *end;
    if (source->variable.role != EITP_OPTIMIZER)
        return EITP_OK;
    if (eitp__is_own_state(source))
        return eitp__read_own_state(source, error);
    source->parameter = eitp_variable_at(source->context, (size_t)source->variable.parent);
    source->there = eitp__update_method_of(there, source->parameter.rank);
    source->here = eitp__update_method_of(source->config->optimizer, source->parameter.rank);
    state = source->here->states;
    end = state + EITP__UPDATE_STATES;
    while (state < end && (!state->kind || strcmp(state->kind, source->variable.kind) != 0))
        state++;
    if (state == end || state->form == EITP__FORM_SCALES || state->form == EITP__FORM_ROWS)
        return EITP_OK;
    if (state->content == EITP__STATE_OWN)
        return eitp__clear_variable(source, error);
    source->columns = source->parameter.rank ? source->parameter.shape[source->parameter.rank - 1] : 1;
    source->rows = (int64_t)(source->parameter.size / eitp_dtype_size(source->parameter.dtype)) / source->columns;
    source->is_square = state->content == EITP__STATE_SQUARES;
    source->factor = state->content == EITP__STATE_SUM ? (float)(1 / (1 - source->config->beta1)) : 1;
    return eitp__convert_moment(source, state->form == EITP__FORM_COLUMNS, error);
}

EITP__PRIVATE eitp_status eitp__moments_read(eitp_context *context, const char *path,
                                             const eitp_checkpoint_info *written, const eitp_optimizer_config *config,
                                             int loads, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    double momentum = written->config.optimizer_config.beta1;
    eitp__moment_piece *piece;
    eitp__safetensors *collection = NULL;
    eitp_status status;
    if (!(momentum >= 0 && momentum < 1))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: beta1 must be at least 0 and below 1 (got %g)", path,
                          momentum);
    piece = (eitp__moment_piece *)eitp__allocate(&host, sizeof *piece);
    status = piece ? eitp__safetensors_open(&host, path, &collection, error)
                   : eitp__fail_memory(error, sizeof *piece, "converting moments");
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        eitp__moment_source source = EITP__ZERO;
        source.context = context;
        source.collection = collection;
        source.path = path;
        source.written = written;
        source.config = config;
        source.loads = loads;
        source.piece = piece;
        source.variable = eitp_variable_at(context, i);
        status = eitp__convert_variable(&source, error);
    }
    if (collection)
        eitp__safetensors_close(collection);
    eitp__release(&host, piece, sizeof *piece);
    return status;
}
