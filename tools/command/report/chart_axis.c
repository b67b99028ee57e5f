#include "report/chart_parts.h"

/* ---- Values as text ---- */

/* Formats a number in significant digits, but with all digits before the point up to 99999, without trailing zeros, and
   with a short exponent: "1e-5". */
static chart_value format_number(double value, int digits) {
    chart_value v;
    const double size = fabs(value) + 0.5;
    const int whole = size >= 10 && size < 1e5 ? (int)log10(size) + 1 : 1;
    char *exponent;
    digits = digits > whole ? digits : whole;
    snprintf(v.text, sizeof v.text, "%.*g", digits, value);
    exponent = strchr(v.text, 'e');
    if (exponent) {
        const int power = atoi(exponent + 1);
        snprintf(exponent, sizeof v.text - (size_t)(exponent - v.text), "e%d", power);
    }
    return v;
}

/* Formats a number with the largest prefix that leaves at least 1. */
static chart_value format_prefixed(double value, int digits, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t index = 0;
    chart_value number, v;
    double size = fabs(value);
    while (size >= 999.5 && index + 1 < COMMAND_COUNT(prefixes)) {
        size /= 1000;
        value /= 1000;
        index++;
    }
    number = format_number(value, digits < 3 ? 3 : digits);
    snprintf(v.text, sizeof v.text, "%.24s%s%s%s", number.text, *unit ? " " : "", prefixes[index], unit);
    return v;
}

/* Formats a time of at least a minute in its two largest units: "1 h 30 min". */
static chart_value format_long_time(double seconds) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    const double size = floor(fabs(seconds) + 0.5);
    const char *sign = seconds < 0 ? "-" : "";
    chart_value v;
    size_t index = 0;
    double whole, rest;
    while (size < units[index].seconds)
        index++;
    whole = floor(size / units[index].seconds);
    rest = floor((size - whole * units[index].seconds) / units[index + 1].seconds);
    if (rest > 0)
        snprintf(v.text, sizeof v.text, "%s%.0f %s %.0f %s", sign, whole, units[index].name, rest,
                 units[index + 1].name);
    else
        snprintf(v.text, sizeof v.text, "%s%.0f %s", sign, whole, units[index].name);
    return v;
}

static chart_value format_seconds(double value, int digits) {
    const double size = fabs(value);
    const double factor = size <= 0 || size >= 1 ? 1 : size >= 1e-3 ? 1e3 : 1e6;
    chart_value number, v;
    if (size >= 99.5 && size < 1e13)
        return format_long_time(value);
    number = format_number(value * factor, digits);
    snprintf(v.text, sizeof v.text, "%.24s %s", number.text, factor < 10 ? "s" : factor < 1e4 ? "ms" : "\xC2\xB5s");
    return v;
}

chart_value chart_format_value(chart_format format, double value, int digits) {
    chart_value v = {"-"};
    if (!isfinite(value))
        return v;
    switch (format) {
    case CHART_BYTES:
        return format_prefixed(value, digits, "B");
    case CHART_COUNT:
        return format_prefixed(value, digits, "");
    case CHART_SECONDS:
        return format_seconds(value, digits);
    case CHART_PERCENT:
        v = format_number(value, digits);
        strcat(v.text, " %");
        return v;
    case CHART_STEPS:
        snprintf(v.text, sizeof v.text, "%.10g", value);
        return v;
    default:
        return fabs(value) >= 1e5 && fabs(value) < 1e18 ? format_prefixed(value, digits, "")
                                                        : format_number(value, digits);
    }
}

chart_value chart_tick_text(chart_format format, const double *ticks, size_t count, size_t index) {
    chart_value v = chart_format_value(format, ticks[index], 2);
    for (int digits = 3; digits <= 8; digits++) {
        int is_unique = 1;
        for (size_t i = 0; i < count; i++) {
            const chart_value other = chart_format_value(format, ticks[i], digits - 1);
            is_unique &= i == index || strcmp(other.text, v.text) != 0;
        }
        /* the shortest text that is unique and has the value of the tick */
        if (is_unique && !strcmp(chart_format_value(format, ticks[index], digits).text, v.text))
            break;
        v = chart_format_value(format, ticks[index], digits);
    }
    return v;
}

/* ---- Extents and ticks ---- */

chart_scale chart_scale_of(const chart_axis *axis, double low, double high) {
    chart_scale s = {axis->low, axis->high, axis->is_logarithmic};
    const int is_given = axis->low < axis->high;
    if (!is_given) {
        s.low = isfinite(low) ? low : s.is_logarithmic ? 1 : 0;
        s.high = isfinite(high) ? high : s.is_logarithmic ? 10 : 1;
        if (axis->has_zero && !s.is_logarithmic) {
            s.low = s.low > 0 ? 0 : s.low;
            s.high = s.high < 0 ? 0 : s.high;
        }
    }
    if (s.is_logarithmic && s.low <= 0)
        s.low = s.high > 0 ? s.high / 10 : 1;
    if (s.is_logarithmic && !(s.low < s.high)) {
        s.high = s.low * 2;
        s.low /= 2;
    } else if (!(s.low < s.high)) {
        const double room = fabs(s.low) > 0 ? 0.5 * fabs(s.low) : 1;
        s.high = s.low + room;
        s.low -= axis->has_zero ? (s.low > 0 ? s.low : 0) : room;
    }
    return s;
}

double chart_place(const chart_scale *s, double value) {
    if (!isfinite(value) || (s->is_logarithmic && value <= 0))
        return (double)NAN;
    if (s->is_logarithmic)
        return (log(value) - log(s->low)) / (log(s->high) - log(s->low));
    return (value / 2 - s->low / 2) / (s->high / 2 - s->low / 2);
}

/* Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`. */
static double round_up(double least) {
    const double power = pow(10, floor(log10(least)));
    return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

/* Returns the distance of ticks: a round number, or a common time interval. */
static double tick_distance(double least, chart_format format) {
    static const double day = 86400, times[] = {60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
    if (format == CHART_STEPS && least < 1)
        return 1;
    if (format != CHART_SECONDS || least <= 20)
        return round_up(least);
    for (size_t i = 0; i < COMMAND_COUNT(times); i++) {
        if (times[i] >= least)
            return times[i];
    }
    return day * round_up(least / day);
}

static size_t linear_ticks(const chart_scale *s, chart_format format, size_t about, double *ticks) {
    const double distance = tick_distance((s->high - s->low) / (double)about, format);
    const double first = ceil(s->low / distance - 1e-9);
    size_t count = 0;
    if (!isfinite(distance) || distance <= 0)
        return 0;
    for (double i = first; count < CHART_TICKS && i * distance <= s->high + 1e-9 * distance; i++)
        ticks[count++] = i * distance + 0; /* no negative zero */
    return count;
}

/* Uses multiples of each power of ten, from the smallest set to the largest. */
static size_t logarithmic_ticks(const chart_scale *s, double *ticks) {
    static const double sets[][9] = {{1}, {1, 3}, {1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
    const int first = (int)floor(log10(s->low)), last = (int)ceil(log10(s->high));
    const int stride = 1 + (last - first) / 8;
    size_t count = 0;
    for (size_t set = 0; set < COMMAND_COUNT(sets); set++) {
        count = 0;
        for (int power = first; power <= last; power += stride) {
            for (size_t i = 0; i < COMMAND_COUNT(sets[set]) && sets[set][i] > 0; i++) {
                const double tick = sets[set][i] * pow(10, power);
                if (tick >= s->low * (1 - 1e-9) && tick <= s->high * (1 + 1e-9) && count < CHART_TICKS)
                    ticks[count++] = tick;
            }
        }
        if (count >= 4)
            break;
    }
    return count;
}

size_t chart_ticks(const chart_scale *s, chart_format format, size_t about, double *ticks) {
    size_t count = s->is_logarithmic ? logarithmic_ticks(s, ticks) : 0;
    return count > 2 ? count : linear_ticks(s, format, about, ticks);
}
