#include "run/course.h"

#include "base/statistics.h"

/* Number of groups that the noise estimate remembers. */
#define EITP__COURSE_MEMORY 16

/* Estimates the noise from the differences between neighbouring values, which a trend hardly changes. Their median
   absolute value is 0.6745 * sqrt(2) standard deviations. */
static void eitp__course_add_noise(eitp__course *course) {
    double differences[EITP__COURSE_GROUP];
    const size_t count = course->grouped - 1;
    for (size_t i = 0; i < count; i++)
        differences[i] = fabs(course->group[i + 1] - course->group[i]);
    course->noises += course->noises < EITP__COURSE_MEMORY;
    course->noise += (eitp__median(differences, count) / 0.9539 - course->noise) / (double)course->noises;
}

static void eitp__course_merge(eitp__course *course) {
    course->count /= 2;
    for (size_t i = 0; i < course->count; i++)
        course->blocks[i] = 0.5 * course->blocks[2 * i] + 0.5 * course->blocks[2 * i + 1];
    course->width *= 2;
}

/* Adds the median of a group. Returns the flags of what it completes. */
static int eitp__course_add_group(eitp__course *course, double median) {
    course->width = course->width ? course->width : 1;
    course->sum += median;
    if (++course->summed < course->width)
        return EITP__COURSE_GROUPED;
    course->blocks[course->count++] = course->sum / (double)course->summed;
    course->sum = 0;
    course->summed = 0;
    if (course->count == EITP__COURSE_BLOCKS)
        eitp__course_merge(course);
    if (course->count < EITP__COURSE_BLOCKS / 2 || course->count % EITP__COURSE_LOOK)
        return EITP__COURSE_GROUPED | EITP__COURSE_BLOCKED;
    return EITP__COURSE_GROUPED | EITP__COURSE_BLOCKED | EITP__COURSE_LOOKS;
}

EITP__PRIVATE int eitp__course_add(eitp__course *course, double value, double *median) {
    *median = value;
    if (course->is_single)
        return eitp__course_add_group(course, value);
    course->group[course->grouped++] = value;
    if (course->grouped < EITP__COURSE_GROUP)
        return 0;
    eitp__course_add_noise(course);
    *median = eitp__median(course->group, course->grouped);
    course->grouped = 0;
    return eitp__course_add_group(course, *median);
}

EITP__PRIVATE const double *eitp__course_latest(const eitp__course *course, size_t *count) {
    *count = course->count - course->count / 2;
    return course->blocks + course->count / 2;
}

EITP__PRIVATE int64_t eitp__course_width(const eitp__course *course) {
    return course->width * (course->is_single ? 1 : EITP__COURSE_GROUP);
}

EITP__PRIVATE double eitp__course_mean(const eitp__course *course, int is_second) {
    size_t count;
    const double *blocks = eitp__course_latest(course, &count);
    const size_t begin = is_second ? count / 2 : 0, end = is_second ? count : count / 2;
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += blocks[i] / (double)(end - begin);
    return sum;
}

EITP__PRIVATE int eitp__course_fit(const eitp__course *course, eitp_trend *trend) {
    size_t count;
    const double *blocks = eitp__course_latest(course, &count);
    return !eitp_trend_fit(NULL, blocks, count, trend, NULL);
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__course_fields[] = {
    EITP__JSON_FIELD(eitp__course, width, "width", INTEGER, 0, (double)(INT64_MAX / 16)),
    EITP__JSON_FIELD(eitp__course, summed, "summed", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__course, sum, "sum", NUMBER, -HUGE_VAL, HUGE_VAL),
    EITP__JSON_FIELD(eitp__course, noises, "noises", INTEGER, 0, EITP__COURSE_MEMORY),
    EITP__JSON_FIELD(eitp__course, noise, "noise", NUMBER, 0, HUGE_VAL),
};

EITP__PRIVATE void eitp__course_write(const eitp__course *course, const char *name, eitp__buffer *text) {
    eitp__buffer_format(text, "\"%s\": {", name);
    eitp__json_write_fields(text, eitp__course_fields, EITP__COUNT(eitp__course_fields), course);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "group", course->group, course->grouped);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "blocks", course->blocks, course->count);
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE eitp_status eitp__course_read(eitp__course *course, const char *name, const eitp_json *parent,
                                            eitp_error *error) {
    eitp__course read = EITP__ZERO;
    const eitp_json *object;
    eitp_status status = eitp__json_get_object(parent, name, &object, error);
    read.is_single = course->is_single;
    if (!status)
        status = eitp__json_get_fields(object, eitp__course_fields, EITP__COUNT(eitp__course_fields), &read, error);
    if (!status && read.summed >= (read.width ? read.width : 1))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'summed' must be below 'width'",
                            (unsigned long long)object->line);
    if (!status)
        status = eitp__json_get_numbers(object, "group", 0, EITP__COURSE_GROUP - 1, read.group, &read.grouped, error);
    if (!status)
        status = eitp__json_get_numbers(object, "blocks", 0, EITP__COURSE_BLOCKS - 1, read.blocks, &read.count, error);
    if (!status)
        *course = read;
    return status;
}
