#include "run/window.h"

#include "base/select.h"
#include "run/trend_points.h"

void eitp_window_init(eitp_window *window, double *memory, size_t capacity) {
    if (!window || !memory)
        return;
    memset(window, 0, sizeof *window);
    window->values = memory;
    window->capacity = capacity;
}

void eitp_window_add(eitp_window *window, double value) {
    if (!window || !window->capacity)
        return;
    window->values[window->next] = value;
    window->next = (window->next + 1) % window->capacity;
    window->count += window->count < window->capacity;
}

/* The distances of the values from a centre, or the values themselves. */
typedef struct eitp__window_numbers {
    const eitp_window *window;
    double center;
    int is_distance;
} eitp__window_numbers;

static size_t eitp__window_at_most(const void *numbers, double limit) {
    const eitp__window_numbers *of = (const eitp__window_numbers *)numbers;
    size_t count = 0;
    for (size_t i = 0; i < of->window->count; i++) {
        const double value = of->window->values[i];
        count += isfinite(value) && (of->is_distance ? fabs(value - of->center) : value) <= limit;
    }
    return count;
}

static double eitp__window_quantile(const eitp__window_numbers *numbers, double fraction) {
    eitp__counted counted;
    counted.numbers = numbers;
    counted.at_most = eitp__window_at_most;
    counted.count = eitp__window_at_most(numbers, HUGE_VAL);
    return eitp__quantile(&counted, fraction);
}

double eitp_window_quantile(const eitp_window *window, double fraction) {
    eitp__window_numbers numbers = EITP__ZERO;
    numbers.window = window;
    return window && fraction >= 0 && fraction <= 1 ? eitp__window_quantile(&numbers, fraction) : NAN;
}

static double eitp__window_slope(const eitp_window *window) {
    eitp__trend_points points;
    eitp__series series;
    series.x = NULL;
    series.y = window->values;
    series.count = window->count;
    series.first = window->count < window->capacity ? 0 : window->next;
    eitp__trend_collect(&series, &points);
    return eitp__trend_slope(&points);
}

/* Mean, deviation and extremes of the `count` finite values. */
static void eitp__window_moments(const eitp_window *window, eitp_window_statistics *statistics) {
    const double count = (double)statistics->count;
    double squares = 0;
    statistics->mean = 0;
    statistics->minimum = HUGE_VAL;
    statistics->maximum = -HUGE_VAL;
    for (size_t i = 0; i < window->count; i++) {
        const double value = window->values[i];
        if (!isfinite(value))
            continue;
        statistics->mean += value / count;
        statistics->minimum = value < statistics->minimum ? value : statistics->minimum;
        statistics->maximum = value > statistics->maximum ? value : statistics->maximum;
    }
    for (size_t i = 0; i < window->count; i++) {
        const double distance = window->values[i] - statistics->mean;
        squares += isfinite(window->values[i]) ? distance * distance : 0;
    }
    statistics->deviation = count > 1 ? sqrt(squares / (count - 1)) : 0;
}

void eitp_window_summarize(const eitp_window *window, eitp_window_statistics *statistics) {
    eitp__window_numbers numbers = EITP__ZERO;
    if (!statistics)
        return;
    numbers.window = window;
    statistics->count = window ? eitp__window_at_most(&numbers, HUGE_VAL) : 0;
    statistics->mean = statistics->deviation = statistics->median = statistics->median_deviation = NAN;
    statistics->minimum = statistics->maximum = statistics->slope = NAN;
    if (!statistics->count)
        return;
    eitp__window_moments(window, statistics);
    numbers.center = statistics->median = eitp__window_quantile(&numbers, 0.5);
    numbers.is_distance = 1;
    statistics->median_deviation = 1.4826 * eitp__window_quantile(&numbers, 0.5);
    statistics->slope = eitp__window_slope(window);
}
