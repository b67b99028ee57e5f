#include "train/spikes.h"

/* Sets the limit: a spike exceeds the median by `threshold` deviations, and by the fraction `excess` of the median.
   Where values hardly vary, small differences are many deviations. */
static void eitp__usual_find(eitp__usual *values, double threshold, double excess) {
    const eitp__rolling *last = &values->last;
    double distance;
    values->usual = eitp__median(last->values, last->count);
    values->limit = HUGE_VAL;
    if (!(threshold > 0) || last->count < EITP__SPIKE_LEAST)
        return;
    distance = threshold * eitp__median_deviation(last->values, last->count);
    if (distance < excess * fabs(values->usual))
        distance = excess * fabs(values->usual);
    if (distance > 0)
        values->limit = values->usual + distance;
}

EITP__PRIVATE void eitp__spikes_begin(eitp__spikes *spikes, double threshold) {
    eitp__usual_find(&spikes->losses, threshold, 0.25);
    eitp__usual_find(&spikes->norms, threshold, 1);
}

EITP__PRIVATE int eitp__spikes_end(eitp__spikes *spikes, eitp_step_report *report) {
    const int is_finite = isfinite(report->loss) && isfinite(report->grad_norm);
    report->spike = (is_finite && report->task_loss > spikes->losses.limit ? EITP_SPIKE_LOSS : 0) |
                    (is_finite && report->grad_norm > spikes->norms.limit ? EITP_SPIKE_GRADIENT : 0);
    report->usual_loss = spikes->losses.usual;
    report->usual_grad_norm = spikes->norms.usual;
    if (is_finite && report->applied) {
        eitp__rolling_add(&spikes->losses.last, EITP__SPIKE_STEPS, report->task_loss);
        eitp__rolling_add(&spikes->norms.last, EITP__SPIKE_STEPS, report->grad_norm);
        spikes->in_a_row = 0;
    } else if (!report->applied && isfinite(report->grad_norm)) {
        report->spike |= EITP_SPIKE_GRADIENT; /* also if the norm was rounded to the bound */
        spikes->skipped++;
        spikes->in_a_row++;
    }
    report->spikes_skipped = spikes->skipped;
    if (spikes->in_a_row < EITP__SPIKES_IN_A_ROW)
        return 0;
    spikes->losses.last.count = spikes->norms.last.count = 0;
    spikes->in_a_row = 0;
    return 1;
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__spike_fields[] = {
    EITP__JSON_FIELD(eitp__spikes, skipped, "skipped", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__spikes, in_a_row, "in_a_row", INTEGER, 0, EITP__SPIKES_IN_A_ROW - 1),
};

EITP__PRIVATE void eitp__spikes_write(const eitp__spikes *spikes, eitp__buffer *text) {
    const eitp__rolling *losses = &spikes->losses.last, *norms = &spikes->norms.last;
    if (!losses->count && !spikes->skipped)
        return;
    eitp__buffer_add_text(text, "  \"spikes\": {");
    eitp__json_write_fields(text, eitp__spike_fields, EITP__COUNT(eitp__spike_fields), spikes);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "losses", losses->values, losses->count);
    eitp__buffer_add_text(text, ", ");
    eitp__json_write_numbers(text, "grad_norms", norms->values, norms->count);
    eitp__buffer_add_text(text, "},\n");
}

EITP__PRIVATE eitp_status eitp__spikes_read(eitp__spikes *spikes, const eitp_json *state, eitp_error *error) {
    const eitp_json *object = eitp_json_member(state, "spikes");
    eitp__rolling *losses = &spikes->losses.last, *norms = &spikes->norms.last;
    eitp_status status;
    memset(spikes, 0, sizeof *spikes);
    if (!object)
        return EITP_OK;
    status = eitp__json_get_fields(object, eitp__spike_fields, EITP__COUNT(eitp__spike_fields), spikes, error);
    if (!status)
        status = eitp__json_get_numbers(object, "losses", 0, EITP__SPIKE_STEPS, losses->values, &losses->count, error);
    if (!status)
        status =
            eitp__json_get_numbers(object, "grad_norms", 0, EITP__SPIKE_STEPS, norms->values, &norms->count, error);
    if (!status && losses->count != norms->count)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'losses' and 'grad_norms' must have the same length",
                            (unsigned long long)object->line);
    return status;
}
