#include "run/block_series.h"

#include "base/statistics.h"

/* Number of groups that the noise estimate remembers. */
#define EITP__BLOCK_SERIES_MEMORY 16

/* Estimates the noise from the differences between neighbouring values, which a trend hardly changes. Their median
   absolute value is 0.6745 * sqrt(2) standard deviations. */
static void eitp__block_series_add_noise(eitp__block_series *series) {
    double differences[EITP__BLOCK_SERIES_GROUP];
    const size_t count = series->grouped - 1;
    for (size_t i = 0; i < count; i++)
        differences[i] = fabs(series->group[i + 1] - series->group[i]);
    series->noises += series->noises < EITP__BLOCK_SERIES_MEMORY;
    series->noise += (eitp__median(differences, count) / 0.9539 - series->noise) / (double)series->noises;
}

static void eitp__block_series_merge(eitp__block_series *series) {
    series->count /= 2;
    for (size_t i = 0; i < series->count; i++)
        series->blocks[i] = 0.5 * series->blocks[2 * i] + 0.5 * series->blocks[2 * i + 1];
    series->width *= 2;
}

/* Adds the median of a group. Returns the flags of what it completes. */
static int eitp__block_series_add_group(eitp__block_series *series, double median) {
    series->width = series->width ? series->width : 1;
    series->sum += median;
    if (++series->summed < series->width)
        return EITP__BLOCK_SERIES_GROUPED;
    series->blocks[series->count++] = series->sum / (double)series->summed;
    series->sum = 0;
    series->summed = 0;
    if (series->count == EITP__BLOCK_SERIES_BLOCKS)
        eitp__block_series_merge(series);
    if (series->count < EITP__BLOCK_SERIES_BLOCKS / 2 || series->count % EITP__BLOCK_SERIES_CHECK_INTERVAL)
        return EITP__BLOCK_SERIES_GROUPED | EITP__BLOCK_SERIES_BLOCKED;
    return EITP__BLOCK_SERIES_GROUPED | EITP__BLOCK_SERIES_BLOCKED | EITP__BLOCK_SERIES_CHECK_DUE;
}

EITP__PRIVATE int eitp__block_series_add(eitp__block_series *series, double value, double *median) {
    *median = value;
    if (series->is_single)
        return eitp__block_series_add_group(series, value);
    series->group[series->grouped++] = value;
    if (series->grouped < EITP__BLOCK_SERIES_GROUP)
        return 0;
    eitp__block_series_add_noise(series);
    *median = eitp__median(series->group, series->grouped);
    series->grouped = 0;
    return eitp__block_series_add_group(series, *median);
}

EITP__PRIVATE const double *eitp__block_series_latest(const eitp__block_series *series, size_t *count) {
    *count = series->count - series->count / 2;
    return series->blocks + series->count / 2;
}

EITP__PRIVATE int64_t eitp__block_series_width(const eitp__block_series *series) {
    return series->width * (series->is_single ? 1 : EITP__BLOCK_SERIES_GROUP);
}

EITP__PRIVATE double eitp__block_series_mean(const eitp__block_series *series, int is_second) {
    size_t count;
    const double *blocks = eitp__block_series_latest(series, &count);
    const size_t begin = is_second ? count / 2 : 0, end = is_second ? count : count / 2;
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += blocks[i] / (double)(end - begin);
    return sum;
}

EITP__PRIVATE int eitp__block_series_fit(const eitp__block_series *series, eitp_trend *trend) {
    size_t count;
    const double *blocks = eitp__block_series_latest(series, &count);
    return !eitp_trend_fit(NULL, blocks, count, trend, NULL);
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__block_series_fields[] = {
    EITP__JSON_FIELD(eitp__block_series, width, "width", INTEGER, 0, (double)(INT64_MAX / 16)),
    EITP__JSON_FIELD(eitp__block_series, summed, "summed", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__block_series, sum, "sum", NUMBER, -HUGE_VAL, HUGE_VAL),
    EITP__JSON_FIELD(eitp__block_series, noises, "noises", INTEGER, 0, EITP__BLOCK_SERIES_MEMORY),
    EITP__JSON_FIELD(eitp__block_series, noise, "noise", NUMBER, 0, HUGE_VAL),
};

EITP__PRIVATE void eitp__block_series_write(const eitp__block_series *series, const char *name, eitp__buffer *text) {
    eitp__buffer_format(text, "\"%s\": {", name);
    eitp__json_write_fields(text, eitp__block_series_fields, EITP__COUNT(eitp__block_series_fields), series);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "group", series->group, series->grouped);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "blocks", series->blocks, series->count);
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE eitp_status eitp__block_series_read(eitp__block_series *series, const char *name, const eitp_json *parent,
                                                  eitp_error *error) {
    eitp__block_series read = EITP__ZERO;
    const eitp_json *object;
    eitp_status status = eitp__json_get_object(parent, name, &object, error);
    read.is_single = series->is_single;
    if (!status)
        status = eitp__json_get_fields(object, eitp__block_series_fields, EITP__COUNT(eitp__block_series_fields), &read,
                                       error);
    if (!status && read.summed >= (read.width ? read.width : 1))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'summed' must be below 'width'",
                            (unsigned long long)object->line);
    if (!status)
        status =
            eitp__json_get_numbers(object, "group", 0, EITP__BLOCK_SERIES_GROUP - 1, read.group, &read.grouped, error);
    if (!status)
        status =
            eitp__json_get_numbers(object, "blocks", 0, EITP__BLOCK_SERIES_BLOCKS - 1, read.blocks, &read.count, error);
    if (!status)
        *series = read;
    return status;
}
