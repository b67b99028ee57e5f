#include "report/comparison.h"
#include "report/numbers.h"

enum { LABEL = 60, NAME = 40, CELL = 40 /* bytes of a label, a setting's name and its value */ };

/* ---- Text ---- */

/* Returns the digits after the point that show two digits of the error. */
static int digits_of(double error) {
    const double digits = error > 0 && isfinite(error) ? 1 - floor(log10(error)) : 4;
    return digits < 0 ? 0 : digits > 9 ? 9 : (int)digits;
}

/* Adds a difference, and its error if known, with digits to match. */
static void add_difference(const comparison_difference *d, int is_signed, text_buffer *t) {
    const int digits = digits_of(d->error), is_large = fabs(d->difference) > 1e6;
    if (is_large)
        text_format(t, "%.3g", is_signed ? d->difference : fabs(d->difference));
    else
        text_format(t, is_signed ? "%+.*f" : "%.*f", digits, is_signed ? d->difference : fabs(d->difference));
    if (d->error > 0 && d->error < 1e6)
        text_format(t, " +- %.*f", digits, d->error);
    else if (d->error > 0)
        text_format(t, " +- %.3g", d->error);
}

void comparison_add_verdict(const comparison *c, size_t pair, const comparison_difference *d, text_buffer *t) {
    if (!d->is_known) {
        text_format(t, "unknown: the runs have no common range");
        return;
    }
    switch (d->verdict) {
    case COMPARISON_EQUAL:
        text_format(t, "no significant difference: ");
        add_difference(d, 1, t);
        return;
    case COMPARISON_BETTER:
    case COMPARISON_WORSE:
        numbers_add_text(t, c->runs[d->verdict == COMPARISON_BETTER ? pair + 1 : 0].label, LABEL);
        text_format(t, " is better by ");
        add_difference(d, 0, t);
        return;
    default:
        text_format(t, "the difference is ");
        add_difference(d, 1, t);
        text_format(t, ", which is not conclusive%s", d->error > 0 ? "" : ": its error is unknown");
    }
}

static void add_amount(const comparison *c, comparison_axis axis, double value, text_buffer *t) {
    if (axis == COMPARISON_SECONDS)
        numbers_add_seconds(t, value);
    else
        numbers_add_amount(t, value);
    text_format(t, axis == COMPARISON_SECONDS ? "%s" : " %s", axis == COMPARISON_SECONDS ? "" : c->runs[0].unit);
}

static void print_difference(const comparison *c, size_t pair, comparison_loss loss, comparison_axis axis,
                             text_buffer *t) {
    const comparison_difference *d = &c->pairs[pair].differences[loss][axis];
    text_format(t, "  %s loss at equal %s: ", loss == COMPARISON_VALIDATION ? "validation" : "training",
                axis == COMPARISON_ITEMS ? c->runs[0].unit : "time");
    comparison_add_verdict(c, pair, d, t);
    if (d->is_known) {
        text_format(t, " (%.5g against %.5g, ", d->value, d->baseline);
        if (isfinite(d->z))
            text_format(t, "z = %.1f, ", d->z);
        if (loss == COMPARISON_TRAINING) {
            text_format(t, "means from ");
            add_amount(c, axis, d->from, t);
        }
        text_format(t, loss == COMPARISON_TRAINING ? " to " : "at ");
        add_amount(c, axis, d->to, t);
        text_format(t, "%s)", d->is_interpolated ? ", interpolated" : "");
    }
    text_format(t, "\n");
}

static void print_lines(const char *label, const text_buffer *lines, text_buffer *t) {
    for (const char *line = lines->data, *feed; line && *line; line = feed + 1) {
        char *text;
        feed = strchr(line, '\n');
        feed = feed ? feed : line + strlen(line) - 1;
        text = command_format("%.*s", (int)(feed - line + (*feed != '\n')), line);
        text_format(t, "  %s: ", label);
        numbers_add_text(t, text, 400);
        text_format(t, "\n");
        free(text);
    }
}

static void print_run(const comparison *c, size_t at, text_buffer *t) {
    const comparison_run *r = &c->runs[at];
    const recorded_evaluation *last = recorded_last_evaluation(r->run), *best = recorded_best_evaluation(r->run);
    text_format(t, at ? "run %zu     " : "baseline  ", at);
    numbers_add_text(t, r->label, LABEL);
    text_format(t, ": ");
    numbers_add_text(t, recorded_state(r->run), LABEL);
    text_format(t, ", step %lld", (long long)r->run->step);
    if (r->run->last_step >= 0)
        text_format(t, "/%lld", (long long)r->run->last_step);
    text_format(t, ", ");
    numbers_add_amount(t, r->items);
    text_format(t, " %s in ", r->unit);
    numbers_add_seconds(t, r->seconds);
    text_format(t, "\n          ");
    if (last)
        text_format(t, "validation loss %.5g", last->loss);
    if (best && best != last)
        text_format(t, ", best %.5g at step %lld", best->loss, (long long)best->step);
    text_format(t, "%s", last ? "; " : "");
    numbers_add_amount(t, r->rate);
    text_format(t, " %s/s, quartiles ", r->unit);
    numbers_add_amount(t, r->rate_low);
    text_format(t, " and ");
    numbers_add_amount(t, r->rate_high);
    if (r->peak_bytes > 0)
        text_format(t, "; %.1f MB", 1e-6 * r->peak_bytes);
    text_format(t, "\n");
    print_lines("missing", &r->run->missing, t);
}

static void print_settings(const comparison *c, text_buffer *t) {
    const setting_differences *d = &c->settings;
    size_t known = 0;
    for (size_t i = 0; i < c->count; i++)
        known += c->runs[i].run->info != NULL;
    if (known < 2)
        text_format(t, "settings: fewer than two runs have a run.json\n");
    else
        text_format(t, d->count ? "settings that differ, baseline first\n" : "no settings differ\n");
    for (size_t i = 0; i < d->count; i++) {
        text_format(t, "  ");
        numbers_add_padding(t, numbers_add_text(t, d->settings[i].name, NAME), 24);
        for (size_t run = 0; run < d->run_count; run++) {
            text_buffer value;
            int columns;
            memset(&value, 0, sizeof value);
            setting_differences_add_value(d->settings[i].values[run], &value);
            columns = numbers_add_text(t, value.data ? value.data : "", CELL);
            text_release(&value);
            if (run + 1 < d->run_count)
                numbers_add_padding(t, columns, 20);
        }
        text_format(t, "\n");
    }
    if (d->is_cut)
        text_format(t, "  more, not shown\n");
}

static void print_ratio(const char *label, double ratio, const char *of, text_buffer *t) {
    if (isfinite(ratio))
        text_format(t, "  %s: %.3g times the baseline's %s\n", label, ratio, of);
}

static void print_pair(const comparison *c, size_t at, text_buffer *t) {
    const comparison_pair *pair = &c->pairs[at];
    numbers_add_text(t, c->runs[at + 1].label, LABEL);
    text_format(t, " against ");
    numbers_add_text(t, c->runs[0].label, LABEL);
    text_format(t, "\n");
    for (int loss = 0; loss < COMPARISON_LOSSES; loss++) {
        for (int axis = pair->is_same_unit ? 0 : COMPARISON_SECONDS; axis < COMPARISON_AXES; axis++)
            print_difference(c, at, (comparison_loss)loss, (comparison_axis)axis, t);
    }
    if (isfinite(pair->seconds) && isfinite(pair->baseline_seconds)) {
        text_format(t, "  to validation loss %.5g: ", pair->loss);
        numbers_add_seconds(t, pair->seconds);
        text_format(t, " against ");
        numbers_add_seconds(t, pair->baseline_seconds);
        if (pair->baseline_seconds > 0)
            text_format(t, ", %.3g times the time", pair->seconds / pair->baseline_seconds);
        if (pair->baseline_items > 0)
            text_format(t, " and %.3g times the %s", pair->items / pair->baseline_items, c->runs[0].unit);
        text_format(t, "\n");
    }
    print_ratio("speed", pair->speed, "median rate", t);
    print_ratio("memory", pair->memory, "peak", t);
    print_lines("note", &pair->notes, t);
}

void comparison_print(const comparison *c, text_buffer *t) {
    for (size_t i = 0; i < c->count; i++)
        print_run(c, i, t);
    print_settings(c, t);
    for (size_t i = 0; i + 1 < c->count; i++)
        print_pair(c, i, t);
    text_format(t, "+- is one standard error of sampling; it does not include the effect of another seed\n");
}

/* ---- JSON ---- */

static void print_run_json(const comparison_run *r, text_buffer *t) {
    const recorded_evaluation *last = recorded_last_evaluation(r->run), *best = recorded_best_evaluation(r->run);
    text_format(t, "{");
    text_json_member_string(t, "run", r->label);
    text_json_member_string(t, "directory", r->run->directory);
    text_json_member_string(t, "state", recorded_state(r->run));
    text_json_member_integer(t, "step", r->run->step);
    text_json_member_string(t, "unit", r->unit);
    text_json_member_number(t, "items", r->items);
    text_json_member_number(t, "seconds", r->seconds);
    text_json_member_number(t, "val_loss", last ? last->loss : (double)NAN);
    text_json_member_number(t, "best_val_loss", best ? best->loss : (double)NAN);
    text_json_member_number(t, "items_per_s", r->rate);
    text_json_member_number(t, "items_per_s_low", r->rate_low);
    text_json_member_number(t, "items_per_s_high", r->rate_high);
    text_json_member_number(t, "peak_bytes", r->peak_bytes);
    text_json_member_string(t, "missing", r->run->missing.data ? r->run->missing.data : "");
    text_format(t, "}");
}

static void print_settings_json(const setting_differences *d, text_buffer *t) {
    text_json_name(t, "settings");
    text_format(t, "[");
    for (size_t i = 0; i < d->count; i++) {
        text_format(t, i ? ", {" : "{");
        text_json_member_string(t, "name", d->settings[i].name);
        text_json_name(t, "values");
        text_format(t, "[");
        for (size_t run = 0; run < d->run_count; run++) {
            text_buffer value;
            memset(&value, 0, sizeof value);
            text_format(t, run ? ", " : "");
            setting_differences_add_value(d->settings[i].values[run], &value);
            if (d->settings[i].values[run])
                text_json_string(t, value.data ? value.data : "", value.size);
            else
                text_format(t, "null");
            text_release(&value);
        }
        text_format(t, "]}");
    }
    text_format(t, "]");
}

static void print_difference_json(const comparison_difference *d, const char *name, text_buffer *t) {
    static const char *const verdicts[] = {"unknown", "equal", "better", "worse"};
    text_json_name(t, name);
    text_format(t, "{");
    text_json_member_string(t, "verdict", verdicts[d->verdict]);
    text_json_member_number(t, "from", d->from);
    text_json_member_number(t, "to", d->to);
    text_json_member_number(t, "value", d->value);
    text_json_member_number(t, "baseline", d->baseline);
    text_json_member_number(t, "difference", d->difference);
    text_json_member_number(t, "error", d->error);
    text_json_member_number(t, "z", d->z);
    text_json_name(t, "interpolated");
    text_format(t, d->is_interpolated ? "true}" : "false}");
}

static void print_pair_json(const comparison_pair *pair, const char *label, text_buffer *t) {
    static const char *const names[COMPARISON_LOSSES][COMPARISON_AXES] = {
        {"validation_at_items", "validation_at_seconds"}, {"training_at_items", "training_at_seconds"}};
    static const char *const validations[] = {"unknown", "same", "other", "different"};
    text_format(t, "{");
    text_json_member_string(t, "run", label);
    text_json_member_string(t, "validation_data", validations[pair->validation]);
    for (int loss = 0; loss < COMPARISON_LOSSES; loss++) {
        for (int axis = 0; axis < COMPARISON_AXES; axis++)
            print_difference_json(&pair->differences[loss][axis], names[loss][axis], t);
    }
    text_json_member_number(t, "speed", pair->speed);
    text_json_member_number(t, "memory", pair->memory);
    text_json_member_number(t, "common_loss", pair->loss);
    text_json_member_number(t, "seconds_to_loss", pair->seconds);
    text_json_member_number(t, "baseline_seconds_to_loss", pair->baseline_seconds);
    text_json_member_number(t, "items_to_loss", pair->items);
    text_json_member_number(t, "baseline_items_to_loss", pair->baseline_items);
    text_json_member_string(t, "notes", pair->notes.data ? pair->notes.data : "");
    text_format(t, "}");
}

void comparison_print_json(const comparison *c, text_buffer *t) {
    text_format(t, "{");
    text_json_name(t, "runs");
    text_format(t, "[");
    for (size_t i = 0; i < c->count; i++) {
        text_format(t, i ? ", " : "");
        print_run_json(&c->runs[i], t);
    }
    text_format(t, "]");
    print_settings_json(&c->settings, t);
    text_json_name(t, "against_baseline");
    text_format(t, "[");
    for (size_t i = 0; i + 1 < c->count; i++) {
        text_format(t, i ? ", " : "");
        print_pair_json(&c->pairs[i], c->runs[i + 1].label, t);
    }
    text_format(t, "]}");
}
