#include "run/sinks.h"

#include "base/clock.h"

static void eitp__count_lost(eitp_run *run) {
    run->report.lost_records = 0;
    for (size_t i = 0; i < run->sink_count; i++)
        run->report.lost_records +=
            run->sinks[i].lost ? run->sinks[i].lost(run->sinks[i].user) : run->sink_states[i].lost;
}

/* Notes what a call of a sink returned. */
static void eitp__watch_sink(eitp_run *run, size_t sink, eitp_status status, const eitp_error *error) {
    eitp__sink_state *state = &run->sink_states[sink];
    state->has_changed |= state->is_failing != (status != EITP_OK);
    state->is_failing = status != EITP_OK;
    if (status)
        snprintf(state->why, sizeof state->why, "%.199s", error->message);
    eitp__count_lost(run);
}

EITP__PRIVATE eitp_status eitp__sinks_resume(eitp_run *run, int64_t step, int *evaluated, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < run->sink_count && !status; i++) {
        if (run->sinks[i].resume)
            status = run->sinks[i].resume(run->sinks[i].user, step, evaluated, error);
        run->sink_states[i].is_open = !status;
    }
    return status;
}

EITP__PRIVATE void eitp__sinks_record(eitp_run *run, eitp_record_kind kind, int64_t step, const eitp_value *values,
                                      size_t count) {
    eitp_record record;
    record.kind = kind;
    record.step = step;
    record.time = eitp__time_of_day();
    record.values = values;
    record.count = count;
    for (size_t i = 0; i < run->sink_count; i++) {
        eitp_error error = EITP__ZERO;
        eitp_status status;
        if (!run->sink_states[i].is_open)
            continue;
        status = run->sinks[i].record(run->sinks[i].user, &record, &error);
        run->sink_states[i].lost += status != EITP_OK;
        eitp__watch_sink(run, i, status, &error);
    }
}

EITP__PRIVATE void eitp__sinks_sync(eitp_run *run) {
    for (size_t i = 0; i < run->sink_count; i++) {
        eitp_error error = EITP__ZERO;
        const eitp_status status = run->sinks[i].sync ? run->sinks[i].sync(run->sinks[i].user, &error) : EITP_OK;
        /* A sink that does not keep records has stored nothing by this. */
        if (status || run->sinks[i].lost)
            eitp__watch_sink(run, i, status, &error);
    }
    eitp__count_lost(run);
}

EITP__PRIVATE int eitp__sinks_are_failing(const eitp_run *run) {
    int is_failing = 0;
    for (size_t i = 0; i < run->sink_count; i++)
        is_failing |= run->sink_states[i].is_failing;
    return is_failing;
}
