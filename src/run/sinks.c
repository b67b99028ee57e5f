#include "run/sinks.h"

#include "base/clock.h"
#include "base/files.h"

EITP__PRIVATE eitp__sinks *eitp__sinks_of(const eitp_run *run) {
    return (eitp__sinks *)run->states[EITP__OBSERVER_RECORDS];
}

/* ---- Which ---- */

static void eitp__close_metrics(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp_jsonl_close(sinks->metrics);
    if (sinks->metrics && run->stage != EITP__RUN_STARTED && sinks->created_metrics)
        run->host.files.remove(run->host.files.user, sinks->metrics_path);
    eitp__release_text(&run->host, sinks->metrics_path);
    sinks->metrics = NULL;
    sinks->metrics_path = NULL;
}

static eitp_status eitp__open_metrics(eitp_run *run, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp_path_info info = EITP__ZERO;
    eitp_status status;
    sinks->metrics_path = eitp__join_path(&run->host, run->directory, "metrics.jsonl");
    if (!sinks->metrics_path)
        return eitp__fail_memory(error, strlen(run->directory), "a path");
    status = eitp__path_info(&run->host, sinks->metrics_path, &info, error);
    if (!status)
        status = eitp_jsonl_open(&run->host, sinks->metrics_path, &sinks->metrics, error);
    sinks->created_metrics = !status && info.kind == EITP_PATH_MISSING;
    if (status)
        eitp__close_metrics(run);
    return status;
}

static void eitp__release_sinks(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    if (sinks->all)
        eitp__release(&run->host, sinks->all, sinks->capacity * sizeof *sinks->all);
    sinks->all = NULL;
    sinks->count = sinks->capacity = 0;
}

EITP__PRIVATE eitp_status eitp__sinks_configure(eitp_run *run, const eitp_run_config *config, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    const size_t capacity = config->sink_count + 1;
    eitp__sink *all = (eitp__sink *)eitp__allocate(&run->host, capacity * sizeof *all);
    eitp_status status = all ? EITP_OK : eitp__fail_memory(error, capacity * sizeof *all, "a run");
    if (!status && config->metrics && !sinks->metrics)
        status = eitp__open_metrics(run, error);
    if (status) {
        if (all)
            eitp__release(&run->host, all, capacity * sizeof *all);
        return status;
    }
    if (!config->metrics)
        eitp__close_metrics(run);
    eitp__release_sinks(run);
    for (size_t i = 0; i < config->sink_count; i++)
        all[i].calls = config->sinks[i];
    if (sinks->metrics)
        all[config->sink_count].calls = eitp_jsonl_sink(sinks->metrics);
    sinks->all = all;
    sinks->count = config->sink_count + (sinks->metrics != NULL);
    sinks->capacity = capacity;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sinks_replace_metrics(eitp_run *run, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp_status status;
    if (!sinks->metrics)
        return EITP_OK;
    eitp__close_metrics(run);
    sinks->count--; /* it is the last */
    status = eitp__open_metrics(run, error);
    if (!status)
        sinks->all[sinks->count++].calls = eitp_jsonl_sink(sinks->metrics);
    return status;
}

EITP__PRIVATE void eitp__sinks_close(eitp_run *run) {
    if (!eitp__sinks_of(run))
        return;
    eitp__close_metrics(run);
    eitp__release_sinks(run);
}

/* ---- Records ---- */

static void eitp__count_lost(eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    run->report.lost_records = 0;
    for (size_t i = 0; i < sinks->count; i++) {
        const eitp__sink *sink = &sinks->all[i];
        run->report.lost_records += sink->calls.lost ? sink->calls.lost(sink->calls.user) : sink->lost;
    }
}

/* Notes what a call of a sink returned. */
static void eitp__watch_sink(eitp_run *run, eitp__sink *sink, eitp_status status, const eitp_error *error) {
    sink->has_changed |= sink->is_failing != (status != EITP_OK);
    sink->is_failing = status != EITP_OK;
    if (status)
        snprintf(sink->why, sizeof sink->why, "%.199s", error->message);
    eitp__count_lost(run);
}

EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < sinks->count && !status; i++) {
        eitp__sink *sink = &sinks->all[i];
        if (sink->calls.resume)
            status = sink->calls.resume(sink->calls.user, step, evaluated, error);
        sink->is_open = !status;
    }
    return status;
}

EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    eitp_record record;
    record.kind = kind;
    record.step = step;
    record.time = eitp__time_of_day();
    record.values = values;
    record.count = count;
    for (size_t i = 0; i < sinks->count; i++) {
        eitp__sink *sink = &sinks->all[i];
        eitp_error error = EITP__ZERO;
        eitp_status status;
        if (!sink->is_open)
            continue;
        status = sink->calls.record(sink->calls.user, &record, &error);
        sink->lost += status != EITP_OK;
        eitp__watch_sink(run, sink, status, &error);
    }
}

EITP__PRIVATE void eitp__sinks_sync(eitp_run *run) {
    eitp__sinks *sinks = eitp__sinks_of(run);
    for (size_t i = 0; i < sinks->count; i++) {
        eitp__sink *sink = &sinks->all[i];
        eitp_error error = EITP__ZERO;
        const eitp_status status = sink->calls.sync ? sink->calls.sync(sink->calls.user, &error) : EITP_OK;
        /* A sink that does not keep records has stored nothing by this. */
        if (status || sink->calls.lost)
            eitp__watch_sink(run, sink, status, &error);
    }
    eitp__count_lost(run);
}

EITP__PRIVATE int eitp__sinks_are_failing(const eitp_run *run) {
    const eitp__sinks *sinks = eitp__sinks_of(run);
    int is_failing = 0;
    for (size_t i = 0; i < sinks->count; i++)
        is_failing |= sinks->all[i].is_failing;
    return is_failing;
}
