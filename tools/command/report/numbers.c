#include "report/numbers.h"

double numbers_total(const eitp_history_point *points, size_t count) {
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += (double)points[i].mean * (double)points[i].count;
    return total;
}

static int compare_values(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double numbers_quantile(const double *values, size_t count, double q) {
    double *sorted, at = q * (double)(count ? count - 1 : 0), result;
    size_t below = (size_t)at;
    if (!count)
        return (double)NAN;
    sorted = (double *)command_allocate(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_values);
    result = sorted[below];
    if (below + 1 < count)
        result += (at - (double)below) * (sorted[below + 1] - sorted[below]);
    free(sorted);
    return result;
}

double numbers_autocorrelation(const double *values, size_t count) {
    double products = 0, squares = 0, r;
    for (size_t i = 0; i < count; i++) {
        squares += values[i] * values[i];
        products += i ? values[i] * values[i - 1] : 0;
    }
    r = squares > 0 ? products / squares : 0;
    return r < 0 ? 0 : r > 0.98 ? 0.98 : r;
}

/* Replaces values by their residuals from a least-squares line. */
static void remove_line(double *values, size_t count, double mean) {
    const double middle = 0.5 * ((double)count - 1);
    double products = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        products += ((double)i - middle) * (values[i] - mean);
        squares += ((double)i - middle) * ((double)i - middle);
    }
    for (size_t i = 0; i < count; i++)
        values[i] -= mean + products / squares * ((double)i - middle);
}

numbers_mean numbers_average(const double *values, size_t count) {
    numbers_mean result = {count, (double)NAN, (double)NAN};
    double *left, sum = 0, squares = 0, r;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    if (!count)
        return result;
    result.mean = sum / (double)count;
    if (count < 8)
        return result;
    left = (double *)command_allocate(count * sizeof *left);
    memcpy(left, values, count * sizeof *left);
    remove_line(left, count, result.mean);
    for (size_t i = 0; i < count; i++)
        squares += left[i] * left[i];
    r = ((double)count * numbers_autocorrelation(left, count) + 2) / ((double)count - 4);
    r = r < 0.98 ? r : 0.98;
    result.error = sqrt(squares / ((double)count - 2) / (double)count * (1 + r) / (1 - r));
    free(left);
    return result;
}

/* ---- Text ---- */

void numbers_add_amount(text_buffer *t, double value) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}};
    if (!isfinite(value)) {
        text_format(t, "-");
        return;
    }
    for (size_t i = 0; i < COMMAND_COUNT(units); i++) {
        if (fabs(value) >= units[i].unit && fabs(value) < 1e15) {
            const double unit = i + 1 == COMMAND_COUNT(units) ? 1e3 : units[i].unit;
            text_format(t, "%.*f%s", fabs(value) / unit < 9.995 ? 2 : 1, value / unit, units[i].name);
            return;
        }
    }
    text_format(t, "%.4g", value);
}

void numbers_add_seconds(text_buffer *t, double seconds) {
    if (!isfinite(seconds))
        text_format(t, "-");
    else if (fabs(seconds) < 120)
        text_format(t, "%.3g s", seconds);
    else if (fabs(seconds) < 7200)
        text_format(t, "%.1f min", seconds / 60);
    else
        text_format(t, "%.2f h", seconds / 3600);
}

/* True for a character that a terminal may interpret: C0, DEL and C1, which is C2 80 to C2 9F. */
static int is_control(const char *character, int length) {
    const unsigned char first = (unsigned char)character[0];
    return first < 32 || first == 127 || (length == 2 && first == 0xc2 && (unsigned char)character[1] < 0xa0);
}

int numbers_add_text(text_buffer *t, const char *value, size_t limit) {
    const size_t size = strlen(value), begin = t->size;
    size_t at = 0;
    int columns = 0;
    while (at < size) {
        const int found = text_utf8_length(value + at, size - at);
        const int length = found > 0 ? found : 1;
        if (t->size - begin + (size_t)length > limit) {
            text_format(t, "...");
            return columns + 3;
        }
        if (found <= 0 || is_control(value + at, length))
            text_add(t, "?", 1);
        else
            text_add(t, value + at, (size_t)length);
        at += (size_t)length;
        columns++;
    }
    return columns;
}

void numbers_add_padding(text_buffer *t, int columns, int width) {
    text_format(t, "%*s", columns < width ? width - columns : 1, "");
}
