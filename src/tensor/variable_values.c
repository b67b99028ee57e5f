/* Values of variables in F32: 16-bit parameters with their remainder, and initial distributions. */
#include "base/convert.h"
#include "tensor/variable.h"

/* Up to EITP__PLANE_PIECE stored values of a variable and of its remainder, if it has one. */
enum { EITP__PLANE_PIECE = 512 };

typedef struct eitp__planes {
    eitp__variable *variable, *remainder;
    double high[EITP__PLANE_PIECE], low[EITP__PLANE_PIECE]; /* large enough for any dtype */
} eitp__planes;

EITP__PRIVATE void eitp__split_high(eitp_dtype dtype, const float *values, uint16_t *high, size_t count) {
    int16_t remainder;
    if (dtype != EITP_BF16)
        eitp__convert_from_f32(dtype, values, high, count);
    for (size_t i = 0; i < count && dtype == EITP_BF16; i++)
        eitp__split_bf16(values[i], &high[i], &remainder);
}

static void eitp__split_values(eitp__planes *planes, const float *values, size_t count) {
    eitp_dtype dtype = planes->variable->info.dtype;
    uint16_t *high = (uint16_t *)(void *)planes->high;
    void *low = planes->low;
    eitp__convert_from_f32(dtype, values, planes->high, count);
    for (size_t i = 0; i < count && planes->remainder; i++) {
        if (dtype == EITP_F16)
            ((float *)low)[i] = values[i] - eitp__f16_to_f32(high[i]);
        else if (planes->remainder->info.dtype == EITP_I8)
            eitp__split_correction(values[i], &high[i], (int8_t *)low + i);
        else
            eitp__split_bf16(values[i], &high[i], (int16_t *)low + i);
    }
}

static void eitp__join_values(const eitp__planes *planes, float *values, size_t count) {
    eitp_dtype dtype = planes->variable->info.dtype;
    const uint16_t *high = (const uint16_t *)(const void *)planes->high;
    const void *low = planes->low;
    eitp__convert_to_f32(dtype, planes->high, values, count);
    for (size_t i = 0; i < count && planes->remainder; i++) {
        if (dtype == EITP_F16)
            values[i] += ((const float *)low)[i];
        else if (planes->remainder->info.dtype == EITP_I8)
            values[i] = eitp__join_correction(high[i], ((const int8_t *)low)[i]);
        else
            values[i] = eitp__join_bf16(high[i], ((const int16_t *)low)[i]);
    }
}

/* Copies `count` elements of a variable, starting at element `first`; does nothing if the variable is NULL. */
static eitp_status eitp__transfer_plane(eitp_context *context, const eitp__variable *variable, size_t first,
                                        size_t count, void *plane, int writes, eitp_error *error) {
    size_t size = variable ? eitp_dtype_size(variable->info.dtype) : 0;
    return variable ? eitp__variable_transfer(context, variable, first * size, plane, count * size, writes, error)
                    : EITP_OK;
}

static eitp_status eitp__transfer_planes(eitp_context *context, eitp__planes *planes, size_t first, size_t count,
                                         int writes, eitp_error *error) {
    eitp_status status = eitp__transfer_plane(context, planes->variable, first, count, planes->high, writes, error);
    return status ? status : eitp__transfer_plane(context, planes->remainder, first, count, planes->low, writes, error);
}

/* Checks a range of elements of a floating-point variable, finds its remainder, and prepares access to both. */
static eitp_status eitp__value_range(eitp_context *context, const char *name, int64_t first, const float *values,
                                     int64_t count, eitp__variable **variable, eitp__variable **remainder,
                                     eitp_error *error) {
    eitp_status status = eitp__variable_named(context, name, variable, error);
    size_t size;
    if (!status && count && !values)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the values for variable '%s' are NULL", name);
    if (status)
        return status;
    size = eitp_dtype_size((*variable)->info.dtype);
    if (!eitp__is_floating((*variable)->info.dtype))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "variable '%s' is %s; only floating-point variables can be accessed as f32", name,
                          eitp_dtype_name((*variable)->info.dtype));
    if (first < 0 || count < 0 || (uint64_t)first > (*variable)->info.size / size ||
        (uint64_t)count > (*variable)->info.size / size - (uint64_t)first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "elements %lld to %lld are outside variable '%s', which has %zu",
                          (long long)first, (long long)(first + count), name, (*variable)->info.size / size);
    *remainder = eitp__remainder_of(context, *variable);
    return eitp__prepare_access(context, error);
}

static int64_t eitp__plane_piece(int64_t count) {
    return count < (int64_t)EITP__PLANE_PIECE ? count : (int64_t)EITP__PLANE_PIECE;
}

eitp_status eitp_variable_write_f32(eitp_context *context, const char *name, int64_t first, const float *values,
                                    int64_t count, eitp_error *error) {
    eitp__planes planes;
    eitp_status status;
    planes.variable = planes.remainder = NULL;
    status = eitp__value_range(context, name, first, values, count, &planes.variable, &planes.remainder, error);
    if (!status)
        status = eitp__variable_check_change(context, planes.variable, error);
    for (int64_t i = 0; i < count && !status; i += EITP__PLANE_PIECE) {
        size_t piece = (size_t)eitp__plane_piece(count - i);
        eitp__split_values(&planes, values + i, piece);
        status = eitp__transfer_planes(context, &planes, (size_t)(first + i), piece, 1, error);
    }
    return status;
}

eitp_status eitp_variable_read_f32(eitp_context *context, const char *name, int64_t first, float *values, int64_t count,
                                   eitp_error *error) {
    eitp__planes planes;
    eitp_status status;
    planes.variable = planes.remainder = NULL;
    status = eitp__value_range(context, name, first, values, count, &planes.variable, &planes.remainder, error);
    for (int64_t i = 0; i < count && !status; i += EITP__PLANE_PIECE) {
        size_t piece = (size_t)eitp__plane_piece(count - i);
        status = eitp__transfer_planes(context, &planes, (size_t)(first + i), piece, 0, error);
        if (!status)
            eitp__join_values(&planes, values + i, piece);
    }
    return status;
}

/* Writes a floating-point variable in small pieces, filled in by `generate(argument, first element, count, values)`. */
static eitp_status eitp__variable_generate(eitp_context *context, const char *name,
                                           void (*generate)(const void *argument, uint64_t first, size_t count,
                                                            float *values),
                                           const void *argument, eitp_error *error) {
    float values[1024];
    const size_t piece = EITP__COUNT(values);
    eitp__variable *variable = NULL;
    size_t elements;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (status)
        return status;
    elements = variable->info.size / eitp_dtype_size(variable->info.dtype);
    for (size_t i = 0; i < elements && !status; i += piece) {
        size_t count = elements - i < piece ? elements - i : piece;
        generate(argument, i, count, values);
        status = eitp__context_poll(context, error);
        if (!status)
            status = eitp_variable_write_f32(context, name, (int64_t)i, values, (int64_t)count, error);
    }
    return status;
}

static void eitp__generate_constant(const void *argument, uint64_t first, size_t count, float *values) {
    (void)first;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)*(const double *)argument;
}

eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error) {
    return eitp__variable_generate(context, name, eitp__generate_constant, &value, error);
}

typedef struct eitp__normal {
    double mean, deviation;
    uint64_t seed, key;
} eitp__normal;

static void eitp__generate_normal(const void *argument, uint64_t first, size_t count, float *values) {
    const eitp__normal *normal = (const eitp__normal *)argument;
    double pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            eitp__random_normal(normal->seed, normal->key, EITP__RNG_STREAM_INIT, (first + i) / 2, pair);
        values[i] = (float)(normal->mean + normal->deviation * pair[i % 2]);
    }
}

eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                      uint64_t seed, eitp_error *error) {
    eitp__normal normal;
    normal.mean = mean;
    normal.deviation = deviation;
    normal.seed = seed;
    normal.key = name ? eitp__name_key(name) : 0;
    return eitp__variable_generate(context, name, eitp__generate_normal, &normal, error);
}

typedef struct eitp__uniform {
    double low, high;
    uint64_t seed, key;
} eitp__uniform;

static void eitp__generate_uniform(const void *argument, uint64_t first, size_t count, float *values) {
    const eitp__uniform *uniform = (const eitp__uniform *)argument;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(uniform->low +
                            (uniform->high - uniform->low) *
                                eitp__random_uniform(uniform->seed, uniform->key, EITP__RNG_STREAM_INIT, first + i));
}

eitp_status eitp_variable_fill_uniform(eitp_context *context, const char *name, double low, double high, uint64_t seed,
                                       eitp_error *error) {
    eitp__uniform uniform;
    uniform.low = low;
    uniform.high = high;
    uniform.seed = seed;
    uniform.key = name ? eitp__name_key(name) : 0;
    return eitp__variable_generate(context, name, eitp__generate_uniform, &uniform, error);
}
