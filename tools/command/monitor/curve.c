#include "monitor/curve.h"

enum { LABEL = 9 /* columns of the range on the left */ };

/* A curve in columns, from step `first` to step `last`; a column without a value is NaN. */
typedef struct curve {
    double *values;
    int columns;
    int64_t first, last;
    double low, high; /* the range of the axis */
} curve;

/* ---- From points to columns ---- */

static int column_of(const curve *c, int64_t step) {
    const double range = (double)(c->last - c->first);
    return range > 0 ? (int)((double)(step - c->first) / range * (c->columns - 1) + 0.5) : 0;
}

/* Takes the mean of the points in each column. */
static void take_means(curve *c, const eitp_history_point *points, size_t count) {
    double *sums = (double *)command_allocate((size_t)c->columns * sizeof *sums);
    double *counts = (double *)command_allocate((size_t)c->columns * sizeof *counts);
    for (size_t i = 0; i < count; i++) {
        const int column = column_of(c, points[i].step);
        sums[column] += (double)points[i].mean * points[i].count;
        counts[column] += points[i].count;
    }
    for (int i = 0; i < c->columns; i++)
        c->values[i] = counts[i] > 0 ? sums[i] / counts[i] : (double)NAN;
    free(sums);
    free(counts);
}

/* Joins columns that have points by straight lines. */
static void join(curve *c) {
    int before = -1;
    for (int i = 0; i < c->columns; i++) {
        if (!isfinite(c->values[i]))
            continue;
        for (int k = before + 1; before >= 0 && k < i; k++)
            c->values[k] = c->values[before] + (c->values[i] - c->values[before]) * (k - before) / (double)(i - before);
        before = i;
    }
}

static int compare_numbers(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Finds the range of the columns without the highest fiftieth: the first steps and single spikes would leave no height
   for the rest. */
static void find_range(curve *c) {
    double *sorted = (double *)command_allocate((size_t)c->columns * sizeof *sorted);
    int count = 0;
    for (int i = 0; i < c->columns; i++) {
        if (isfinite(c->values[i]))
            sorted[count++] = c->values[i];
    }
    c->low = c->high = 0;
    if (count) {
        qsort(sorted, (size_t)count, sizeof *sorted, compare_numbers);
        c->low = sorted[0];
        c->high = sorted[count - 1 - count / 50];
    }
    if (!(c->high > c->low))
        c->high = c->low + (fabs(c->low) > 0 ? 0.1 * fabs(c->low) : 1);
    free(sorted);
}

/* ---- Drawing ---- */

/* Returns the height of a value in eighths of a cell; the lowest value has one eighth. */
static int height_of(const curve *c, double value, int rows) {
    const double part = (value - c->low) / (c->high - c->low);
    const int height = 1 + (int)(part * (8 * rows - 1) + 0.5);
    return height < 1 ? 1 : height > 8 * rows ? 8 * rows : height;
}

static void draw_columns(screen *s, const curve *c, area at, int style) {
    for (int i = 0; i < c->columns; i++) {
        const int height = isfinite(c->values[i]) ? height_of(c, c->values[i], at.rows) : 0;
        for (int row = 0; row < at.rows; row++) {
            const int rest = height - 8 * (at.rows - 1 - row);
            screen_fill_up(s, at.row + row, at.column + i, style, rest > 8 ? 8 : rest);
        }
    }
}

static void draw_marks(screen *s, const curve *c, area at, const recorded_run *r, int style) {
    for (size_t i = 0; i < r->evaluation_count; i++) {
        const recorded_evaluation *evaluation = &r->evaluations[i];
        int column, row, is_filled;
        if (!isfinite(evaluation->loss) || evaluation->step < c->first || evaluation->step > c->last)
            continue;
        column = column_of(c, evaluation->step);
        row = at.rows - 1 - (height_of(c, evaluation->loss, at.rows) - 1) / 8;
        is_filled = isfinite(c->values[column]) && height_of(c, c->values[column], at.rows) > 8 * (at.rows - row) - 4;
        screen_put(s, at.row + row, at.column + column, at.column + column + 1,
                   is_filled ? style | STYLE_REVERSE : STYLE_BOLD | STYLE_YELLOW, "o");
    }
}

/* Draws a number of the axis at the left of a row. */
static void draw_label(screen *s, area at, int row, double value) {
    char text[32];
    snprintf(text, sizeof text, fabs(value) < 0.01 ? "%.3g" : "%.4g", value);
    screen_put_right(s, at.row + row, at.column - LABEL, at.column - 1, STYLE_FAINT, text);
}

static void draw_axes(screen *s, const curve *c, area at) {
    char text[32];
    draw_label(s, at, 0, c->high);
    draw_label(s, at, at.rows - 1, c->low);
    if (at.rows > 6)
        draw_label(s, at, at.rows / 2, (c->low + c->high) / 2);
    snprintf(text, sizeof text, "%lld", (long long)c->first);
    screen_put(s, at.row + at.rows, at.column, at.column + at.columns, STYLE_FAINT, text);
    snprintf(text, sizeof text, "step %lld", (long long)c->last);
    screen_put_right(s, at.row + at.rows, at.column, at.column + at.columns, STYLE_FAINT, text);
}

void curve_draw(screen *s, area at, const recorded_run *r, const char *name, int marks, int style) {
    const area inside = {at.row, at.column + LABEL, at.rows - 1, at.columns - LABEL};
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    curve c;
    if (inside.rows < 1 || inside.columns < 2 || !count) {
        screen_put(s, at.row + at.rows / 2, at.column + LABEL, at.column + at.columns, STYLE_FAINT,
                   "nothing recorded yet");
        free(points);
        return;
    }
    c.columns = inside.columns;
    c.values = (double *)command_allocate((size_t)c.columns * sizeof *c.values);
    c.first = points[0].step;
    c.last = points[count - 1].step;
    take_means(&c, points, count);
    join(&c);
    find_range(&c);
    draw_columns(s, &c, inside, style);
    if (marks)
        draw_marks(s, &c, inside, r, style);
    draw_axes(s, &c, inside);
    free(c.values);
    free(points);
}
