#include "report/totals.h"

/* Sums the points of a number. If each step has a record, the first point starts as many steps before its end as it has
   records, otherwise at step 0. */
static void total_points(const recorded_run *r, const char *name, int is_each_step, running_total *total) {
    size_t count;
    eitp_history_point *points = recorded_points(r, name, &count);
    double sum = 0, begin;
    memset(total, 0, sizeof *total);
    if (!count)
        return;
    total->steps = (double *)command_allocate((count + 1) * sizeof *total->steps);
    total->totals = (double *)command_allocate((count + 1) * sizeof *total->totals);
    begin = is_each_step ? (double)points[0].step - (double)points[0].count : 0;
    total->steps[0] = begin > 0 ? begin : 0;
    total->count = 1;
    for (size_t i = 0; i < count; i++) {
        if ((double)points[i].step <= total->steps[total->count - 1])
            continue;
        sum += (double)points[i].mean * (double)points[i].count;
        total->steps[total->count] = (double)points[i].step;
        total->totals[total->count++] = sum;
    }
    free(points);
}

static double total_at(const running_total *total, double step) {
    size_t low = 0, high = total->count;
    double part;
    if (!total->count)
        return (double)NAN;
    if (step <= total->steps[0])
        return 0;
    if (step >= total->steps[high - 1])
        return total->totals[high - 1];
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (total->steps[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    part = (step - total->steps[low]) / (total->steps[high] - total->steps[low]);
    return total->totals[low] + part * (total->totals[high] - total->totals[low]);
}

static void release_total(running_total *total) {
    free(total->steps);
    free(total->totals);
}

void run_totals_make(const recorded_run *r, run_totals *t) {
    int64_t left_out;
    memset(t, 0, sizeof *t);
    t->run = r;
    total_points(r, recorded_unit(r), 1, &t->items);
    total_points(r, "step_time_s", 1, &t->times);
    total_points(r, "perf/checkpoint_time", 0, &t->saves);
    eitp_history_lines(r->history, NULL, &left_out);
    if (left_out) /* possibly including evaluations */
        total_points(r, "perf/evaluation_time", 0, &t->evaluations);
    t->begin = t->items.count ? t->items.steps[0] : 0;
}

void run_totals_release(run_totals *t) {
    release_total(&t->items);
    release_total(&t->times);
    release_total(&t->saves);
    release_total(&t->evaluations);
    memset(t, 0, sizeof *t);
}

double run_totals_items(const run_totals *t, double step) {
    return total_at(&t->items, step);
}

static double evaluation_seconds(const run_totals *t, double step) {
    double sum = 0;
    if (t->evaluations.count)
        return total_at(&t->evaluations, step);
    for (size_t i = 0; i < t->run->all_evaluation_count; i++) {
        const double seconds = recorded_number(t->run->all_evaluations[i].record, "val_time_s");
        if ((double)t->run->all_evaluations[i].step < step && isfinite(seconds) && seconds > 0)
            sum += seconds;
    }
    return sum;
}

double run_totals_seconds(const run_totals *t, double step) {
    const double saves = total_at(&t->saves, step);
    return total_at(&t->times, step) + (isfinite(saves) ? saves : 0) + evaluation_seconds(t, step);
}

double run_totals_end(const run_totals *t) {
    return t->times.count ? t->times.steps[t->times.count - 1] : 0;
}
