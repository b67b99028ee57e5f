#include "objective/emergence_report.h"

EITP__PRIVATE void eitp__sampled_add(eitp__sampled *sampled, double sum, double weight) {
    double x;
    if (!(weight > 0))
        return;
    if (!sampled->samples++)
        sampled->origin = sum / weight;
    x = sum - sampled->origin * weight;
    sampled->sum += sum;
    sampled->weight += weight;
    sampled->xx += x * x;
    sampled->xw += x * weight;
    sampled->ww += weight * weight;
    sampled->items += (int64_t)weight;
}

EITP__PRIVATE void eitp__sampled_add_defined(eitp__sampled *sampled, double value) {
    if (isfinite(value))
        eitp__sampled_add(sampled, value, 1);
}

EITP__PRIVATE double eitp__sampled_mean(const eitp__sampled *sampled) {
    return sampled->weight > 0 ? sampled->sum / sampled->weight : (double)NAN;
}

EITP__PRIVATE double eitp__sampled_error(const eitp__sampled *sampled) {
    const double samples = (double)sampled->samples, ratio = eitp__sampled_mean(sampled) - sampled->origin;
    const double squares = sampled->xx - 2 * ratio * sampled->xw + ratio * ratio * sampled->ww;
    return samples > 1 && squares > 0 ? sqrt(samples / (samples - 1) * squares) / sampled->weight : 0;
}

EITP__PRIVATE eitp_status eitp__report_omission(eitp_emergence_report *report, const char *name, const char *reason,
                                                eitp_error *error) {
    const size_t needed = report->omission_count + 1;
    eitp_emergence_omission *added;
    if (!eitp__reserve(&report->host, (void **)&report->omissions, &report->omission_room, needed,
                       sizeof *report->omissions))
        return eitp__fail_memory(error, needed * sizeof *report->omissions, "a report");
    added = &report->omissions[report->omission_count++];
    snprintf(added->name, sizeof added->name, "%s", name);
    added->reason = reason;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__report_number(eitp_emergence_report *report, const char *group, const char *name,
                                              double value, int64_t count, double error_of_value, const char *otherwise,
                                              eitp_error *error) {
    const size_t needed = report->number_count + 1;
    eitp_emergence_number *added;
    if (!isfinite(value))
        return eitp__report_omission(report, name, otherwise, error);
    if (!eitp__reserve(&report->host, (void **)&report->numbers, &report->number_room, needed, sizeof *report->numbers))
        return eitp__fail_memory(error, needed * sizeof *report->numbers, "a report");
    added = &report->numbers[report->number_count++];
    added->group = group;
    snprintf(added->name, sizeof added->name, "%s", name);
    added->value = value;
    added->count = count;
    added->error = isfinite(error_of_value) ? error_of_value : 0;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__report_sampled(eitp_emergence_report *report, const char *group, const char *name,
                                               const eitp__sampled *sampled, const char *otherwise, eitp_error *error) {
    return eitp__report_number(report, group, name, eitp__sampled_mean(sampled), sampled->items,
                               eitp__sampled_error(sampled), otherwise, error);
}

void eitp_emergence_release(eitp_emergence_report *report) {
    if (!report)
        return;
    if (report->numbers)
        eitp__release(&report->host, report->numbers, report->number_room * sizeof *report->numbers);
    if (report->omissions)
        eitp__release(&report->host, report->omissions, report->omission_room * sizeof *report->omissions);
    memset(report, 0, sizeof *report);
}
