#include "report/slowdown.h"

#include "report/numbers.h"

/* ---- Jumps ---- */

#define JUMP_P 0.001

enum { JUMP_LEAST = 5 /* least points of a level */, LEVELS = SLOWDOWN_JUMPS + 1 };

typedef struct ranked_value {
    double value;
    size_t at;
} ranked_value;

static int compare_ranked(const void *a, const void *b) {
    const double left = ((const ranked_value *)a)->value, right = ((const ranked_value *)b)->value;
    return (left > right) - (left < right);
}

/* Replaces values by their ranks, from 1; equal values get their mean rank. */
static void rank_values(const double *values, size_t count, double *ranks) {
    ranked_value *sorted = (ranked_value *)command_allocate(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i].value = values[i];
        sorted[i].at = i;
    }
    qsort(sorted, count, sizeof *sorted, compare_ranked);
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && !(sorted[end].value > sorted[i].value))
            end++;
        for (size_t k = i; k < end; k++)
            ranks[sorted[k].at] = 0.5 * (double)(i + 1 + end);
    }
    free(sorted);
}

/* A series as levels: neighbouring points that differ only by noise. */
typedef struct level_parts {
    size_t count;
    size_t bounds[LEVELS + 1]; /* part i has the points from bounds[i] to bounds[i + 1] */
    double levels[LEVELS];     /* their medians */
    double distance;           /* sum of the distances of all points from their level */
} level_parts;

/* Finds the points where the sum of ranks minus its expectation is lowest and highest: *low and *high points from the
   start (Pettitt, "A Non-Parametric Approach to the Change-Point Problem", 1979). Returns the one farther from 0. */
static size_t find_extremes(const double *values, size_t count, size_t *low, size_t *high) {
    double *ranks = (double *)command_allocate(count * sizeof *ranks), sum = 0, lowest = 0, highest = 0;
    rank_values(values, count, ranks);
    *low = *high = 0;
    for (size_t i = 0; i < count; i++) {
        sum += 2 * ranks[i] - ((double)count + 1);
        if (sum < lowest) {
            lowest = sum;
            *low = i + 1;
        }
        if (sum > highest) {
            highest = sum;
            *high = i + 1;
        }
    }
    free(ranks);
    return highest > -lowest ? *high : *low;
}

static void find_levels(const double *values, level_parts *parts) {
    for (size_t part = 0; part < parts->count; part++)
        parts->levels[part] =
            numbers_quantile(values + parts->bounds[part], parts->bounds[part + 1] - parts->bounds[part], 0.5);
}

/* Moves each bound to the position where points are nearest to the levels on both sides: bounds from rank sums, to
   which all points of a part contribute, are a few points off. */
static void refine_bounds(const double *values, level_parts *parts) {
    for (size_t at = 1; at < parts->count; at++) {
        double sum = 0, least = 0;
        size_t best = parts->bounds[at - 1];
        for (size_t i = parts->bounds[at - 1]; i < parts->bounds[at + 1]; i++) {
            sum += fabs(values[i] - parts->levels[at - 1]) - fabs(values[i] - parts->levels[at]);
            if (sum < least) {
                least = sum;
                best = i + 1;
            }
        }
        parts->bounds[at] = best;
    }
    find_levels(values, parts);
}

static int has_long_parts(const level_parts *parts) {
    for (size_t part = 0; part < parts->count; part++) {
        if (parts->bounds[part + 1] < parts->bounds[part] + JUMP_LEAST)
            return 0;
    }
    return 1;
}

/* Finds levels and distance. False if a part has too few points. `left` has the residuals of all points. */
static int measure_parts(const double *values, level_parts *parts, double *left) {
    if (!has_long_parts(parts))
        return 0;
    find_levels(values, parts);
    refine_bounds(values, parts);
    if (!has_long_parts(parts))
        return 0;
    parts->distance = 0;
    for (size_t part = 0; part < parts->count; part++) {
        for (size_t i = parts->bounds[part]; i < parts->bounds[part + 1]; i++) {
            left[i] = values[i] - parts->levels[part];
            parts->distance += fabs(left[i]);
        }
    }
    return 1;
}

/* Divides a part at one bound, or at two for a temporary change. */
static int divide_part(const double *values, const level_parts *parts, size_t part, size_t added, level_parts *divided,
                       double *left) {
    const size_t begin = parts->bounds[part];
    size_t low, high;
    const size_t single = find_extremes(values + begin, parts->bounds[part + 1] - begin, &low, &high);
    *divided = *parts;
    divided->count += added;
    memcpy(divided->bounds + part + 1 + added, parts->bounds + part + 1, (parts->count - part) * sizeof *parts->bounds);
    divided->bounds[part + 1] = begin + (added == 1 ? single : low < high ? low : high);
    if (added == 2)
        divided->bounds[part + 2] = begin + (low < high ? high : low);
    return measure_parts(values, divided, left);
}

/* Divides the part that gains most per bound. False if no part can be divided. */
static int divide_best(const double *values, const level_parts *parts, level_parts *best, double *left) {
    double most = 0;
    for (size_t part = 0; part < parts->count; part++) {
        for (size_t added = 1; added <= 2 && parts->count + added <= LEVELS; added++) {
            level_parts divided;
            double gained;
            if (!divide_part(values, parts, part, added, &divided, left))
                continue;
            gained = (parts->distance - divided.distance) / (double)added;
            if (gained > most) {
                most = gained;
                *best = divided;
            }
        }
    }
    return most > 0;
}

static double distance_from_line(const double *x, const double *values, size_t count) {
    eitp_trend trend;
    double sum = 0;
    if (eitp_trend_fit(x, values, count, &trend, NULL))
        return HUGE_VAL;
    for (size_t i = 0; i < count; i++)
        sum += fabs(values[i] - trend.intercept - trend.slope * x[i]);
    return sum;
}

static double change_of(const level_parts *parts, size_t jump) {
    return parts->levels[jump] > 0 ? 100 * (parts->levels[jump + 1] / parts->levels[jump] - 1) : 0;
}

/* Returns p of Pettitt's test for a bound, in the points of the levels on both sides; the share `part` of them is
   independent. */
static double p_of(const double *values, const level_parts *parts, size_t jump, double part) {
    const size_t begin = parts->bounds[jump], count = parts->bounds[jump + 2] - begin;
    const double n = (double)count;
    double *ranks = (double *)command_allocate(count * sizeof *ranks), sum = 0, p;
    rank_values(values + begin, count, ranks);
    for (size_t i = 0; i < parts->bounds[jump + 1] - begin; i++)
        sum += 2 * ranks[i] - (n + 1);
    free(ranks);
    p = 2 * exp(-6 * sum * sum / (n * n * n + n * n) * part);
    return p < 1 ? p : 1;
}

static int are_jumps_clear(const double *values, const level_parts *parts, double part) {
    for (size_t jump = 0; jump + 1 < parts->count; jump++) {
        if (fabs(change_of(parts, jump)) < SLOWDOWN_CHANGE || p_of(values, parts, jump, part) > JUMP_P)
            return 0;
    }
    return 1;
}

/* Returns the information criterion that balances the number of parameters against the distances; lower is better
   (Schwarz, "Estimating the Dimension of a Model", 1978). Assumes Laplace noise. */
static double score_of(double distance, double least, double parameters, double n, double part) {
    return 2 * part * n * log(distance > least ? distance : least) + parameters * log(n);
}

/*
 * Finds the levels of `count` points: one, unless several fit better than one and than a straight line. The noise, and
 * so the autocorrelation that weakens the evidence, is estimated from the residuals of the largest number of levels.
 * *part is the share of effectively independent points.
 */
static void choose_levels(const double *x, const double *values, size_t count, level_parts *chosen, double *part) {
    const double n = (double)count;
    level_parts models[LEVELS];
    double *left = (double *)command_allocate(count * sizeof *left), r, lowest, least;
    size_t model_count = 1;
    memset(models, 0, sizeof models);
    models[0].count = 1;
    models[0].bounds[1] = count;
    measure_parts(values, &models[0], left);
    while (model_count < LEVELS && divide_best(values, &models[model_count - 1], &models[model_count], left))
        model_count++;
    measure_parts(values, &models[model_count - 1], left);
    r = (n * numbers_autocorrelation(left, count) + 2) / (n - 4);
    *part = r < 0.98 ? (1 - r) / (1 + r) : 0.01;
    free(left);
    *chosen = models[0];
    least = 1e-9 * models[0].distance;
    lowest = score_of(distance_from_line(x, values, count), least, 2, n, *part);
    for (size_t i = 1; i < model_count && models[0].distance > 0; i++) {
        const double score = score_of(models[i].distance, least, 2 * (double)models[i].count - 1, n, *part);
        if (score < lowest && are_jumps_clear(values, &models[i], *part)) {
            lowest = score;
            *chosen = models[i];
        }
    }
}

static void find_jumps(slowdown_series *s, const double *x, const double *values) {
    level_parts parts;
    double part;
    if (s->count < (size_t)2 * JUMP_LEAST)
        return;
    choose_levels(x, values, s->count, &parts, &part);
    for (size_t i = 0; i + 1 < parts.count; i++) {
        slowdown_jump *jump = &s->jumps[s->jump_count++];
        jump->step = (int64_t)x[parts.bounds[i + 1]];
        jump->before = parts.levels[i];
        jump->after = parts.levels[i + 1];
        jump->percent = change_of(&parts, i);
        jump->p = p_of(values, &parts, i, part);
    }
}

/* Ranks an event as the cause of slower or faster steps: lower is more likely; -1: not a cause. */
static int cause_of(const recorded_event *event) {
    static const char *const causes[] = {"temperature",  "set",         "interrupted", "started",
                                         "memory_short", "memory_high", "load",        "pressure",
                                         "save_failed",  "disk",        "saved"};
    for (size_t i = 0; i < COMMAND_COUNT(causes); i++) {
        if (!strcmp(event->kind, causes[i]))
            return (int)i;
    }
    return -1;
}

static const recorded_event *find_event(const recorded_run *r, int64_t step, int64_t reach) {
    const recorded_event *found = NULL;
    for (size_t i = 0; i < r->event_count; i++) {
        const recorded_event *event = &r->events[i];
        const int64_t distance = event->step > step ? event->step - step : step - event->step;
        const int cause = cause_of(event);
        if (event->step < 1 || distance > reach || cause < 0)
            continue;
        if (!found || cause < cause_of(found))
            found = event;
    }
    return found;
}

/* ---- A series ---- */

static double mean_of(const double *values, size_t count) {
    return numbers_average(values, count).mean;
}

static void find_trend(slowdown_series *s, const double *x, const double *y) {
    const double steps = x[s->count - 1] - x[0];
    double unit;
    if (s->count < SLOWDOWN_LEAST || eitp_trend_fit(x, y, s->count, &s->trend, NULL))
        return;
    unit = s->level > 0 ? 100 / s->level : (double)NAN;
    s->percent = 1000 * unit * s->trend.slope;
    s->percent_low = 1000 * unit * s->trend.slope_low;
    s->percent_high = 1000 * unit * s->trend.slope_high;
    s->percent_of_run = unit * s->trend.slope * steps;
    s->verdict = SLOWDOWN_NONE;
    if (s->trend.p < 0.05 && s->trend.slope != 0)
        s->verdict = s->trend.slope > 0 ? SLOWDOWN_RISES : SLOWDOWN_FALLS;
}

/* Reports jumps instead of a trend if they explain the points better. An event is near a jump within two points of
   `width` steps. */
static void classify_jumps(const recorded_run *r, slowdown_series *s, double width) {
    const int64_t reach = width < 1e15 ? 2 + (int64_t)(2 * width) : INT64_MAX;
    double before;
    if (!s->jump_count)
        return;
    for (size_t i = 0; i < s->jump_count; i++)
        s->jumps[i].event = find_event(r, s->jumps[i].step, reach);
    before = s->jumps[0].before;
    s->jump_percent = 100 * (s->jumps[s->jump_count - 1].after / before - 1);
    s->verdict = s->jump_percent >= SLOWDOWN_CHANGE    ? SLOWDOWN_JUMPED_UP
                 : s->jump_percent <= -SLOWDOWN_CHANGE ? SLOWDOWN_JUMPED_DOWN
                                                       : SLOWDOWN_JUMPED_BACK;
}

static void find_series(const recorded_run *r, const char *name, slowdown_series *s) {
    size_t count, tenth;
    eitp_history_point *points = recorded_points(r, name, &count);
    double *x = (double *)command_allocate((2 * count + 1) * sizeof *x), *y = x + count;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->level = s->first = s->last = (double)NAN;
    for (size_t i = 0; i < count; i++) {
        x[s->count] = (double)points[i].step;
        y[s->count] = (double)points[i].mean;
        s->count += !s->count || x[s->count] > x[s->count - 1];
    }
    free(points);
    if (s->count) {
        tenth = (s->count + 9) / 10;
        s->level = numbers_quantile(y, s->count, 0.5);
        s->first = mean_of(y, tenth);
        s->last = mean_of(y + s->count - tenth, tenth);
        find_trend(s, x, y);
        find_jumps(s, x, y);
        classify_jumps(r, s, (x[s->count - 1] - x[0]) / (double)s->count);
    }
    free(x);
}

void slowdown_make(const recorded_run *r, slowdown *s) {
    size_t count;
    eitp_history_point *points = recorded_points(r, "step_time_s", &count);
    char rate[64];
    memset(s, 0, sizeof *s);
    s->run = r;
    if (count) {
        const int64_t begin = points[0].step - (int64_t)points[0].count + 1;
        s->first_step = begin > 1 ? begin : 1;
        s->last_step = points[count - 1].step;
    }
    free(points);
    snprintf(rate, sizeof rate, "%s_per_s", recorded_unit(r));
    find_series(r, "step_time_s", &s->series[SLOWDOWN_TIME]);
    find_series(r, rate, &s->series[SLOWDOWN_RATE]);
    find_series(r, "rss_bytes", &s->series[SLOWDOWN_MEMORY]);
}

/* ---- Text ---- */

static void add_p(text_buffer *t, double p) {
    if (p < 0.001)
        text_format(t, "p < 0.001");
    else
        text_format(t, "p = %.2g", p);
}

static void add_percent(text_buffer *t, double value) {
    text_format(t, "%.*f", fabs(value) < 0.995 ? 2 : 1, fabs(value) < 0.005 ? 0.0 : value);
}

/* Writes "3.1 % longer per 1000 steps [2.0, 4.2], p < 0.001; 5.2 % from step 1 to 1700", multiplied by `sign`. */
static void add_slope(const slowdown *s, const slowdown_series *series, double sign, const char *word, text_buffer *t) {
    const double low = sign * series->percent_low, high = sign * series->percent_high;
    add_percent(t, sign * series->percent);
    text_format(t, " %%%s per 1000 steps [", word);
    add_percent(t, low < high ? low : high);
    text_format(t, ", ");
    add_percent(t, low < high ? high : low);
    text_format(t, "], ");
    add_p(t, series->trend.p);
    text_format(t, "; ");
    add_percent(t, sign * series->percent_of_run);
    text_format(t, " %% from step %lld to %lld", (long long)s->first_step, (long long)s->last_step);
}

/* Starts of the verdicts, and the words after the percentage. */
static const struct {
    const char *none, *rises, *more, *falls, *less, *back;
} wordings[SLOWDOWN_KINDS] = {
    {"no slowdown: the trend is ", "steps take ", " longer", "no slowdown: steps take ", " less",
     "no lasting slowdown: step times changed and changed back"},
    {"no trend: ", "items per second rise by ", "", "items per second fall by ", "",
     "no lasting change: items per second changed and changed back"},
    {"no growth: the trend is ", "memory grows by ", "", "no growth: memory falls by ", "",
     "no lasting growth: memory changed and changed back"},
};

static void add_jumps(const slowdown_series *series, slowdown_kind kind, text_buffer *t) {
    const int is_up = series->verdict == SLOWDOWN_JUMPED_UP;
    if (series->verdict == SLOWDOWN_JUMPED_BACK) {
        text_format(t, "%s", wordings[kind].back);
    } else {
        text_format(t, "%s", is_up ? wordings[kind].rises : wordings[kind].falls);
        add_percent(t, fabs(series->jump_percent));
        text_format(t, " %%%s", is_up ? wordings[kind].more : wordings[kind].less);
    }
    if (series->jump_count > 1)
        text_format(t, ", in %zu jumps from step %lld on, not in a drift", series->jump_count,
                    (long long)series->jumps[0].step);
    else
        text_format(t, " from step %lld on: a jump, not a drift", (long long)series->jumps[0].step);
}

void slowdown_add_verdict(const slowdown *s, slowdown_kind kind, text_buffer *t) {
    const slowdown_series *series = &s->series[kind];
    switch (series->verdict) {
    case SLOWDOWN_TOO_FEW:
        text_format(t, "too few steps to tell: %zu records of %s, at least %d required", series->count, series->name,
                    SLOWDOWN_LEAST);
        break;
    case SLOWDOWN_NONE:
        text_format(t, "%s", wordings[kind].none);
        add_slope(s, series, 1, "", t);
        break;
    case SLOWDOWN_RISES:
        text_format(t, "%s", wordings[kind].rises);
        add_slope(s, series, 1, wordings[kind].more, t);
        break;
    case SLOWDOWN_FALLS:
        text_format(t, "%s", wordings[kind].falls);
        add_slope(s, series, -1, wordings[kind].less, t);
        break;
    default:
        add_jumps(series, kind, t);
    }
}

static void add_value(slowdown_kind kind, double value, text_buffer *t) {
    if (kind == SLOWDOWN_TIME)
        text_format(t, "%.4g s", value);
    else if (kind == SLOWDOWN_MEMORY)
        text_format(t, "%.2f MB", 1e-6 * value);
    else
        numbers_add_amount(t, value);
}

static void print_jumps(slowdown_kind kind, const slowdown_series *series, text_buffer *t) {
    for (size_t i = 0; i < series->jump_count; i++) {
        const slowdown_jump *jump = &series->jumps[i];
        text_format(t, "  jump at step %lld: %+.1f %%, from ", (long long)jump->step, jump->percent);
        add_value(kind, jump->before, t);
        text_format(t, " to ");
        add_value(kind, jump->after, t);
        text_format(t, ", ");
        add_p(t, jump->p);
        if (jump->event) {
            text_format(t, "; near it, at step %lld: ", (long long)jump->event->step);
            numbers_add_text(t, jump->event->kind, 40);
            text_format(t, *jump->event->message ? ", " : "");
            numbers_add_text(t, jump->event->message, 160);
        }
        text_format(t, "\n");
    }
}

static void print_series(const slowdown *s, slowdown_kind kind, text_buffer *t) {
    static const char *const labels[SLOWDOWN_KINDS] = {"step time", "rate", "memory"};
    const slowdown_series *series = &s->series[kind];
    text_format(t, "%s: ", labels[kind]);
    slowdown_add_verdict(s, kind, t);
    text_format(t, "\n");
    if (!series->count)
        return;
    text_format(t, "  median ");
    add_value(kind, series->level, t);
    text_format(t, "; first tenth ");
    add_value(kind, series->first, t);
    text_format(t, ", last tenth ");
    add_value(kind, series->last, t);
    if (series->first > 0)
        text_format(t, " (%+.1f %%)", 100 * (series->last / series->first - 1));
    if (kind == SLOWDOWN_MEMORY && series->verdict != SLOWDOWN_TOO_FEW)
        text_format(t, "; %.4g bytes per step [%.4g, %.4g]", series->trend.slope, series->trend.slope_low,
                    series->trend.slope_high);
    if (series->verdict != SLOWDOWN_TOO_FEW)
        text_format(t, "; autocorrelation %.2f, equivalent to %.0f independent points of %lld",
                    series->trend.autocorrelation, series->trend.effective_count, (long long)series->trend.points);
    text_format(t, "\n");
    print_jumps(kind, series, t);
}

void slowdown_print(const slowdown *s, text_buffer *t) {
    numbers_add_text(t, s->run->name, 200);
    text_format(t, ", ");
    for (int kind = 0; kind < SLOWDOWN_KINDS; kind++)
        print_series(s, (slowdown_kind)kind, t);
}

/* ---- JSON ---- */

static void print_jumps_json(const slowdown_series *series, text_buffer *t) {
    text_json_name(t, "jumps");
    text_format(t, "[");
    for (size_t i = 0; i < series->jump_count; i++) {
        const slowdown_jump *jump = &series->jumps[i];
        text_format(t, i ? ", {" : "{");
        text_json_member_integer(t, "step", jump->step);
        text_json_member_number(t, "before", jump->before);
        text_json_member_number(t, "after", jump->after);
        text_json_member_number(t, "percent", jump->percent);
        text_json_member_number(t, "p", jump->p);
        if (jump->event) {
            text_json_member_string(t, "event", jump->event->kind);
            text_json_member_integer(t, "event_step", jump->event->step);
            text_json_member_string(t, "message", jump->event->message);
        }
        text_format(t, "}");
    }
    text_format(t, "]");
}

static void print_series_json(const slowdown *s, slowdown_kind kind, text_buffer *t) {
    static const char *const verdicts[] = {"too few",   "none",        "rises",      "falls",
                                           "jumped up", "jumped down", "jumped back"};
    const slowdown_series *series = &s->series[kind];
    text_buffer sentence;
    memset(&sentence, 0, sizeof sentence);
    slowdown_add_verdict(s, kind, &sentence);
    text_format(t, "{");
    text_json_member_string(t, "verdict", verdicts[series->verdict]);
    text_json_member_string(t, "sentence", sentence.data);
    text_release(&sentence);
    text_json_member_integer(t, "points", (int64_t)series->count);
    text_json_member_number(t, "median", series->level);
    text_json_member_number(t, "first_tenth", series->first);
    text_json_member_number(t, "last_tenth", series->last);
    if (series->verdict != SLOWDOWN_TOO_FEW) {
        text_json_member_number(t, "slope", series->trend.slope);
        text_json_member_number(t, "slope_low", series->trend.slope_low);
        text_json_member_number(t, "slope_high", series->trend.slope_high);
        text_json_member_number(t, "intercept", series->trend.intercept);
        text_json_member_number(t, "percent_per_1000_steps", series->percent);
        text_json_member_number(t, "percent_low", series->percent_low);
        text_json_member_number(t, "percent_high", series->percent_high);
        text_json_member_number(t, "percent_of_run", series->percent_of_run);
        text_json_member_number(t, "p", series->trend.p);
        text_json_member_number(t, "tau", series->trend.tau);
        text_json_member_number(t, "autocorrelation", series->trend.autocorrelation);
        text_json_member_number(t, "effective_points", series->trend.effective_count);
    }
    print_jumps_json(series, t);
    text_format(t, "}");
}

void slowdown_print_json(const slowdown *s, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "run", s->run->name);
    text_json_member_string(t, "directory", s->run->directory);
    text_json_member_integer(t, "first_step", s->first_step);
    text_json_member_integer(t, "last_step", s->last_step);
    for (int kind = 0; kind < SLOWDOWN_KINDS; kind++) {
        text_json_name(t, s->series[kind].name);
        print_series_json(s, (slowdown_kind)kind, t);
    }
    text_format(t, "}");
}
