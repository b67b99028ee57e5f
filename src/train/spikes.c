#include "train/spikes.h"

#include "base/statistics.h"

/* A spike is above the median by `threshold` deviations, and by `excess` of the median: where values hardly vary, small
   differences are many deviations. */
static void eitp__spike_window_begin(eitp__spike_window *window, double threshold, double excess) {
    double distance;
    window->usual = eitp__median(window->values, window->count);
    window->limit = HUGE_VAL;
    if (!(threshold > 0) || window->count < EITP__SPIKE_LEAST)
        return;
    distance = threshold * eitp__median_deviation(window->values, window->count);
    if (distance < excess * fabs(window->usual))
        distance = excess * fabs(window->usual);
    if (distance > 0)
        window->limit = window->usual + distance;
}

EITP__PRIVATE void eitp__spikes_begin(eitp__spikes *spikes, double threshold) {
    eitp__spike_window_begin(&spikes->losses, threshold, 0.25);
    eitp__spike_window_begin(&spikes->norms, threshold, 1);
}

static void eitp__spike_window_add(eitp__spike_window *window, double value) {
    if (window->count == EITP__SPIKE_WINDOW) {
        memmove(window->values, window->values + 1, (EITP__SPIKE_WINDOW - 1) * sizeof *window->values);
        window->count--;
    }
    window->values[window->count++] = value;
}

EITP__PRIVATE int eitp__spikes_end(eitp__spikes *spikes, eitp_step_report *report) {
    const int is_finite = isfinite(report->loss) && isfinite(report->grad_norm);
    report->spike = (is_finite && report->task_loss > spikes->losses.limit ? EITP_SPIKE_LOSS : 0) |
                    (is_finite && report->grad_norm > spikes->norms.limit ? EITP_SPIKE_GRADIENT : 0);
    report->usual_loss = spikes->losses.usual;
    report->usual_grad_norm = spikes->norms.usual;
    if (is_finite && report->applied) {
        eitp__spike_window_add(&spikes->losses, report->task_loss);
        eitp__spike_window_add(&spikes->norms, report->grad_norm);
        spikes->in_a_row = 0;
    } else if (!report->applied && isfinite(report->grad_norm)) {
        report->spike |= EITP_SPIKE_GRADIENT; /* also if the norm was rounded to the bound */
        spikes->skipped++;
        spikes->in_a_row++;
    }
    report->spikes_skipped = spikes->skipped;
    if (spikes->in_a_row < EITP__SPIKES_IN_A_ROW)
        return 0;
    spikes->losses.count = spikes->norms.count = 0;
    spikes->in_a_row = 0;
    return 1;
}

/* ---- In a checkpoint ---- */

static void eitp__spike_window_write(const char *name, const eitp__spike_window *window, eitp__buffer *text) {
    eitp__buffer_format(text, ", \"%s\": [", name);
    for (size_t i = 0; i < window->count; i++) {
        eitp__buffer_add_text(text, i ? ", " : "");
        eitp__json_write_number(text, window->values[i]);
    }
    eitp__buffer_add_text(text, "]");
}

EITP__PRIVATE void eitp__spikes_write(const eitp__spikes *spikes, eitp__buffer *text) {
    if (!spikes->losses.count && !spikes->skipped)
        return;
    eitp__buffer_format(text, "  \"spikes\": {\"skipped\": %lld, \"in_a_row\": %lld", (long long)spikes->skipped,
                        (long long)spikes->in_a_row);
    eitp__spike_window_write("losses", &spikes->losses, text);
    eitp__spike_window_write("grad_norms", &spikes->norms, text);
    eitp__buffer_add_text(text, "},\n");
}

static eitp_status eitp__spike_window_read(const eitp_json *object, const char *name, eitp__spike_window *window,
                                           eitp_error *error) {
    const eitp_json *list = eitp_json_member(object, name);
    if (!list || list->kind != EITP_JSON_ARRAY || list->count > EITP__SPIKE_WINDOW)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an array of at most %d numbers",
                          (unsigned long long)(list ? list->line : object->line), name, EITP__SPIKE_WINDOW);
    for (const eitp_json *item = list->first_child; item; item = item->next) {
        if (item->kind != EITP_JSON_NUMBER || !isfinite(item->number))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must hold finite numbers",
                              (unsigned long long)item->line, name);
        window->values[window->count++] = item->number;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__spikes_read(eitp__spikes *spikes, const eitp_json *state, eitp_error *error) {
    const eitp_json *object = eitp_json_member(state, "spikes");
    eitp_status status;
    memset(spikes, 0, sizeof *spikes);
    if (!object)
        return EITP_OK;
    status = eitp__json_get_integer(object, "skipped", 0, INT64_MAX - 1, &spikes->skipped, error);
    if (!status)
        status = eitp__json_get_integer(object, "in_a_row", 0, EITP__SPIKES_IN_A_ROW - 1, &spikes->in_a_row, error);
    if (!status)
        status = eitp__spike_window_read(object, "losses", &spikes->losses, error);
    if (!status)
        status = eitp__spike_window_read(object, "grad_norms", &spikes->norms, error);
    if (!status && spikes->losses.count != spikes->norms.count)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'losses' and 'grad_norms' must have the same length",
                            (unsigned long long)object->line);
    return status;
}
