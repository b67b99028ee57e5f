#include "report/curves.h"

#include "report/totals.h"

/* ---- Horizontal axes ---- */

/* Samples a total at some of its steps; between them it is nearly linear. */
static void read_totals(const run_totals *t, const running_total *steps, double (*total)(const run_totals *, double),
                        axis_totals *places, curve_x x) {
    enum { MOST = 500 };
    const size_t stride = 1 + steps->count / MOST;
    places->totals[x] = (chart_point *)command_allocate((steps->count / stride + 2) * sizeof **places->totals);
    for (size_t i = 0; i < steps->count; i += stride) {
        const size_t index = i + stride < steps->count ? i : steps->count - 1;
        const chart_point p = {steps->steps[index], total(t, steps->steps[index]), (double)NAN, (double)NAN};
        places->totals[x][places->count[x]++] = p;
    }
}

void axis_totals_read(const recorded_run *r, axis_totals *places) {
    run_totals totals;
    memset(places, 0, sizeof *places);
    run_totals_make(r, &totals);
    read_totals(&totals, &totals.items, run_totals_items, places, CURVE_ITEMS);
    read_totals(&totals, &totals.times, run_totals_seconds, places, CURVE_TIME);
    run_totals_release(&totals);
}

void axis_totals_release(axis_totals *places) {
    for (size_t i = 0; i < CURVE_X_COUNT; i++)
        free(places->totals[i]);
    memset(places, 0, sizeof *places);
}

double curve_place(const axis_totals *places, curve_x x, double step) {
    const chart_point *totals = places->totals[x];
    size_t low = 0, high = places->count[x];
    chart_point before = {0, 0, 0, 0};
    if (x == CURVE_STEP)
        return step;
    while (low < high) { /* the first total at or after the step */
        const size_t middle = low + (high - low) / 2;
        if (totals[middle].x < step)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == places->count[x]) {
        const double last = low ? totals[low - 1].x : (double)NAN;
        return step > last ? (double)NAN : low ? totals[low - 1].y : (double)NAN;
    }
    if (low)
        before = totals[low - 1];
    if (totals[low].x <= before.x)
        return totals[low].y;
    return before.y + (totals[low].y - before.y) * (step - before.x) / (totals[low].x - before.x);
}

chart_point *curve_points_on(const chart_point *points, size_t count, const axis_totals *places, curve_x x) {
    chart_point *moved = (chart_point *)command_allocate(count * sizeof *moved);
    for (size_t i = 0; i < count; i++) {
        moved[i] = points[i];
        moved[i].x = curve_place(places, x, points[i].x);
    }
    return moved;
}

/* ---- Curves ---- */

/* Joins points within the same `every` steps. Returns the number of points left. */
static size_t join_steps(eitp_history_point *points, size_t count, int64_t every) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        eitp_history_point *last = kept ? &points[kept - 1] : NULL;
        if (last && (last->step - 1) / every == (points[i].step - 1) / every) {
            const double all = (double)last->count + points[i].count;
            last->mean = (float)((last->mean * (double)last->count + points[i].mean * (double)points[i].count) / all);
            last->minimum = last->minimum < points[i].minimum ? last->minimum : points[i].minimum;
            last->maximum = last->maximum > points[i].maximum ? last->maximum : points[i].maximum;
            last->count = all < UINT32_MAX ? last->count + points[i].count : UINT32_MAX;
            last->step = points[i].step;
        } else {
            points[kept++] = points[i];
        }
    }
    return kept;
}

static int compare_steps(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Returns the number of steps without a value above which there is a gap: of non-finite values or lost records. */
static int64_t find_gap(const eitp_history_point *points, size_t count) {
    int64_t *distances, usual;
    if (count < 3)
        return INT64_MAX;
    distances = (int64_t *)command_allocate((count - 1) * sizeof *distances);
    for (size_t i = 0; i + 1 < count; i++)
        distances[i] = points[i + 1].step - points[i].step;
    qsort(distances, count - 1, sizeof *distances, compare_steps);
    usual = distances[(count - 1) / 2];
    free(distances);
    return usual < INT64_MAX / 4 ? 4 * usual : INT64_MAX;
}

/* Returns the weight of earlier values that averages over a twentieth of the curve, but at most 20 points, since a
   smoothed curve lags. */
static double find_smoothing(const curve_settings *settings, size_t count) {
    const double window = count < 400 ? (double)count / 20 : 20;
    if (settings->smoothing >= 0)
        return settings->smoothing;
    return window > 1.5 ? 1 - 2 / (window + 1) : 0;
}

/* Returns exponential moving averages of the means, with bias correction at the start. */
static double *smooth(const eitp_history_point *points, size_t count, double weight) {
    double *values = (double *)command_allocate(count * sizeof *values);
    double value = 0, whole = 0;
    for (size_t i = 0; i < count; i++) {
        value = weight * value + (1 - weight) * points[i].mean;
        whole = weight * whole + (1 - weight);
        values[i] = value / whole;
    }
    return values;
}

static void add_gap(chart_point *points, size_t *count) {
    const chart_point gap = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    if (*count && isfinite(points[*count - 1].y)) {
        points[*count] = gap;
        points[*count].x = points[*count - 1].x;
        (*count)++;
    }
}

/* Makes chart points from `values`, joined to about `most`. */
static chart_point *thin(const eitp_history_point *points, const double *values, size_t count,
                         const curve_settings *settings, int has_band, size_t *made) {
    const size_t group = settings->most ? (count + settings->most - 1) / settings->most : 1;
    const int64_t gap = find_gap(points, count);
    chart_point *drawn = (chart_point *)command_allocate(2 * count * sizeof *drawn);
    *made = 0;
    for (size_t i = 0, end; i < count; i = end) {
        chart_point p = {0, 0, (double)INFINITY, (double)-INFINITY};
        if (i && points[i].step - points[i - 1].step > gap)
            add_gap(drawn, made);
        for (end = i; end < count && end < i + group; end++) {
            if (end > i && points[end].step - points[end - 1].step > gap)
                break;
            p.x = (double)points[end].step;
            p.y += values[end];
            p.low = p.low < points[end].minimum ? p.low : points[end].minimum;
            p.high = p.high > points[end].maximum ? p.high : points[end].maximum;
        }
        p.y /= (double)(end - i);
        if (!has_band)
            p.low = p.high = (double)NAN;
        drawn[(*made)++] = p;
    }
    return drawn;
}

void curve_read(const recorded_run *r, const char *name, const curve_settings *settings, curve *c) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    double weight, *values;
    int is_exact = 1;
    memset(c, 0, sizeof *c);
    if (settings->every)
        count = join_steps(points, count, settings->every);
    if (!count)
        return;
    weight = find_smoothing(settings, count);
    for (size_t i = 0; i < count; i++)
        is_exact &= points[i].count == 1;
    is_exact &= count <= settings->most;
    values = smooth(points, count, weight);
    c->points = thin(points, values, count, settings, settings->has_band && !is_exact, &c->count);
    free(values);
    if (weight > 0 && is_exact && settings->has_band) {
        values = smooth(points, count, 0);
        c->raw = thin(points, values, count, settings, 0, &c->raw_count);
        free(values);
    }
    free(points);
}

void curve_read_evaluations(const recorded_run *r, const char *name, const char *error, curve *c) {
    enum { MOST = 1000 };
    const size_t begin = r->evaluation_count > MOST ? r->evaluation_count - MOST : 0;
    memset(c, 0, sizeof *c);
    c->points = (chart_point *)command_allocate((r->evaluation_count - begin) * sizeof *c->points);
    for (size_t i = begin; i < r->evaluation_count; i++) {
        const eitp_json *record = r->evaluations[i].record;
        const double value = recorded_number(record, name);
        const double spread = error ? recorded_number(record, error) : (double)NAN;
        const chart_point p = {(double)r->evaluations[i].step, value, value - spread, value + spread};
        if (isfinite(value) && r->evaluations[i].step >= 0)
            c->points[c->count++] = p;
    }
}

void curve_release(curve *c) {
    free(c->points);
    free(c->raw);
    memset(c, 0, sizeof *c);
}
