#include "train/noise_scale.h"

#include "base/convert.h"
#include "tensor/op_rules.h"
#include "tensor/variable.h"

/* ---- The estimate ---- */

EITP__PRIVATE void eitp__noise_scale_add(eitp__noise_scale *scale, const eitp__noise_norms *norms) {
    const double kept = EITP__NOISE_SCALE_KEPT;
    const double part = (double)norms->part_samples, whole = (double)norms->samples;
    const double signal = (whole * norms->squares - part * norms->part_squares) / (whole - part);
    const double noise = (norms->part_squares - norms->squares) / (1 / part - 1 / whole);
    scale->signal = kept * scale->signal + (1 - kept) * signal;
    scale->noise = kept * scale->noise + (1 - kept) * noise;
    scale->count++;
}

EITP__PRIVATE double eitp__noise_scale_value(const eitp__noise_scale *scale) {
    if (!(scale->signal > 0))
        return -1;
    return scale->noise > 0 ? scale->noise / scale->signal : 0;
}

/* ---- Squares of gradients in variables ---- */

/* Elements read at a time. */
enum { EITP__NOISE_PIECE = 256 };

/* The variables whose sum is the gradient of a parameter, excluding separately accumulated rows. */
typedef struct eitp__noise_terms {
    const eitp__variable *variables[EITP__GRADIENT_TERMS];
    int count;
} eitp__noise_terms;

static eitp__noise_terms eitp__noise_terms_of(const eitp_context *context, int64_t parameter) {
    eitp__noise_terms terms = EITP__ZERO;
    for (int term = 0; term < EITP__GRADIENT_TERMS; term++) {
        const char *kind = term ? EITP__KIND_GRADIENT_TERM : EITP__KIND_GRADIENT;
        const int64_t child = eitp__child_find(context, parameter, kind, term ? term + 1 : 0);
        if (child < 0)
            break;
        terms.variables[terms.count++] = &context->variables[child];
    }
    return terms;
}

/* Adds `count` elements of a variable to `values`. */
static eitp_status eitp__noise_add_values(eitp_context *context, const eitp__variable *variable, int64_t first,
                                          int64_t count, double *values, eitp_error *error) {
    double stored[EITP__NOISE_PIECE]; /* large enough for any dtype */
    float wide[EITP__NOISE_PIECE];
    const size_t size = eitp_dtype_size(variable->info.dtype);
    eitp_status status =
        eitp__variable_transfer(context, variable, (size_t)first * size, stored, (size_t)count * size, 0, error);
    if (status)
        return status;
    eitp__convert_to_f32(variable->info.dtype, stored, wide, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        values[i] += (double)wide[i];
    return EITP_OK;
}

static eitp_status eitp__noise_read_terms(eitp_context *context, const eitp__noise_terms *terms, int64_t first,
                                          int64_t count, double *values, eitp_error *error) {
    eitp_status status = EITP_OK;
    memset(values, 0, (size_t)count * sizeof *values);
    for (int term = 0; term < terms->count && !status; term++)
        status = eitp__noise_add_values(context, terms->variables[term], first, count, values, error);
    return status;
}

static int64_t eitp__noise_piece(int64_t left) {
    return left < (int64_t)EITP__NOISE_PIECE ? left : (int64_t)EITP__NOISE_PIECE;
}

static eitp_status eitp__noise_add_squares(eitp_context *context, const eitp__noise_terms *terms, double *squares,
                                           eitp_error *error) {
    const eitp_variable *info = &terms->variables[0]->info;
    const int64_t elements = (int64_t)(info->size / eitp_dtype_size(info->dtype));
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < elements && !status; i += EITP__NOISE_PIECE) {
        const int64_t count = eitp__noise_piece(elements - i);
        double values[EITP__NOISE_PIECE];
        status = eitp__noise_read_terms(context, terms, i, count, values, error);
        for (int64_t k = 0; k < count && !status; k++)
            *squares += values[k] * values[k];
    }
    return status;
}

/* Adds the contribution of row `row` of `rows` to the square of row `id` of the terms: r^2 + 2 r g. */
static eitp_status eitp__noise_add_row(eitp_context *context, const eitp__noise_terms *terms,
                                       const eitp__variable *rows, int64_t row, int64_t id, double *squares,
                                       eitp_error *error) {
    const int64_t columns = rows->info.shape[1];
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < columns && !status; i += EITP__NOISE_PIECE) {
        const int64_t count = eitp__noise_piece(columns - i);
        double dense[EITP__NOISE_PIECE], added[EITP__NOISE_PIECE] = EITP__ZERO;
        status = eitp__noise_read_terms(context, terms, id * columns + i, count, dense, error);
        if (!status)
            status = eitp__noise_add_values(context, rows, row * columns + i, count, added, error);
        for (int64_t k = 0; k < count && !status; k++)
            *squares += added[k] * (added[k] + 2 * dense[k]);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__accumulated_squares(eitp_context *context, const int32_t *ids, int64_t count,
                                                    int64_t capacity, double *squares, eitp_error *error) {
    eitp_status status = eitp__prepare_access(context, error);
    *squares = 0;
    for (size_t i = 0; i < context->variable_count && !status; i++) {
        const eitp_variable *parameter = &context->variables[i].info;
        eitp__noise_terms terms;
        int64_t rows;
        if (parameter->role != EITP_PARAMETER || !parameter->trained || parameter->of_learner)
            continue;
        terms = eitp__noise_terms_of(context, (int64_t)i);
        if (!terms.count)
            continue;
        status = eitp__noise_add_squares(context, &terms, squares, error);
        rows = ids ? eitp__child_find(context, (int64_t)i, EITP__KIND_GRADIENT_ROWS, capacity) : -1;
        for (int64_t row = 0; rows >= 0 && row < count && !status; row++)
            status = eitp__noise_add_row(context, &terms, &context->variables[rows], row, ids[row], squares, error);
    }
    return status;
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__noise_scale_fields[] = {
    EITP__JSON_FIELD(eitp__noise_scale, count, "count", INTEGER, 1, HUGE_VAL),
    EITP__JSON_FIELD(eitp__noise_scale, signal, "signal", NUMBER, -HUGE_VAL, HUGE_VAL),
    EITP__JSON_FIELD(eitp__noise_scale, noise, "noise", NUMBER, -HUGE_VAL, HUGE_VAL),
};

EITP__PRIVATE void eitp__noise_scale_write(const eitp__noise_scale *scale, eitp__buffer *text) {
    if (!scale->count)
        return;
    eitp__buffer_add_text(text, "  \"noise_scale\": {");
    eitp__json_write_fields(text, eitp__noise_scale_fields, EITP__COUNT(eitp__noise_scale_fields), scale);
    eitp__buffer_add_text(text, "},\n");
}

EITP__PRIVATE eitp_status eitp__noise_scale_read(eitp__noise_scale *scale, const eitp_json *state, eitp_error *error) {
    const eitp_json *object;
    eitp_status status;
    memset(scale, 0, sizeof *scale);
    if (!eitp_json_member(state, "noise_scale"))
        return EITP_OK;
    status = eitp__json_get_object(state, "noise_scale", &object, error);
    return status ? status
                  : eitp__json_get_fields(object, eitp__noise_scale_fields, EITP__COUNT(eitp__noise_scale_fields),
                                          scale, error);
}
