#include "run/events.h"

#include "base/clock.h"
#include "base/status.h"
#include "run/records.h"

/* Number of checks in a row that find memory short before a run that cannot shrink stops. */
#define EITP__GUARD_MAX_SHORT_CHECKS 3

static void eitp__guard_warn(eitp_run *run, const char *action) {
    const eitp_memory_info *memory = &run->report.memory;
    char left[32], least[32];
    eitp__run_notify(run, EITP_EVENT_MEMORY_SHORT, EITP_LOG_WARNING, 0,
                     "memory is short: %s left (%s), at least %s needed; %s",
                     eitp__format_bytes(memory->left, left, sizeof left), memory->source,
                     eitp__format_bytes(eitp_memory_floor(memory), least, sizeof least), action);
}

/* Shrinks the run; *shrunk is 0 if that fails or is not possible. */
static void eitp__guard_relieve(eitp_run *run, int *shrunk) {
    eitp_shrink_report report;
    eitp_error second;
    eitp_status status;
    *shrunk = 0;
    if (run->guard.is_smallest)
        return;
    eitp__guard_warn(run, "looking for a configuration that uses less");
    status = eitp_trainer_shrink(run->trainer, &report, &second);
    *shrunk = !status && report.shrunk;
    if (status) {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "cannot reduce the memory of the run, which continues unchanged: %s", second.message);
    } else if (!*shrunk) {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "no configuration uses less memory; the run stops with a checkpoint if memory stays short");
        run->guard.is_smallest = 1;
    }
    eitp__record_memory(run, *shrunk);
}

static eitp_status eitp__guard_fail(const eitp_run *run, eitp_error *error) {
    char left[32];
    return eitp__fail(error, EITP_ERROR_PRESSURE,
                      "memory stays short: %s left (%s), and no configuration uses less; stopped after step %lld",
                      eitp__format_bytes(run->report.memory.left, left, sizeof left), run->report.memory.source,
                      (long long)eitp_trainer_steps_done(run->trainer));
}

static eitp_status eitp__guard_act(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = &run->guard;
    int shrunk = 0;
    if (!run->config.auto_shrink) {
        if (guard->has_warned)
            return EITP_OK;
        guard->has_warned = 1;
        eitp__guard_warn(run, "the run continues unchanged");
        eitp__record_memory(run, 0);
        return EITP_OK;
    }
    eitp__guard_relieve(run, &shrunk);
    guard->short_checks = shrunk ? 0 : guard->short_checks + 1;
    return guard->short_checks >= EITP__GUARD_MAX_SHORT_CHECKS ? eitp__guard_fail(run, error) : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__guard_check(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = &run->guard;
    const double now = eitp__clock(), interval = run->config.memory_check_seconds;
    eitp_memory_info info;
    eitp_status status;
    if (interval < 0 || (guard->has_checked && now - guard->checked_at < interval))
        return EITP_OK;
    guard->has_checked = 1;
    guard->checked_at = now;
    status = eitp_memory_info_read(&run->host, &info, error);
    if (status)
        return status;
    if (!eitp_memory_is_short(&info)) {
        guard->short_checks = 0;
        return EITP_OK;
    }
    run->report.memory = info;
    status = eitp__guard_act(run, error);
    /* Shrinking may take long: the interval starts after it. */
    guard->checked_at = eitp__clock();
    return status;
}
